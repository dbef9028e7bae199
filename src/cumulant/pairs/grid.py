"""The grid of the complex plane that all questions share, so that what was computed about a pair is met again.

Tilts are θ_k = 2^{k/8}, spacings of nodes along the line η_m = 2^{m/4}; frequencies of decay come two per octave.
"""

from __future__ import annotations

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.pairs.pair import DominatingPair

PER_OCTAVE = 8  # tilts per doubling: the best one is missed by 4 %, which costs nothing
SCALES = 16  # frequencies of one chunk of decay bounds, two per octave
CHUNKS = 12  # of decay bounds that are followed, one after the other
FEW_NODES_OCTAVE = 4  # octave up to which the nodes of one tilt are few enough to serve smaller ones


def tilt(index: int) -> float:
    return float(2.0 ** (index / PER_OCTAVE))


def tilts(octave: int) -> Array:
    return np.asarray(2.0 ** (octave + np.arange(PER_OCTAVE) / PER_OCTAVE))


def chunk_frequencies(chunk: int) -> Array:
    """Return SCALES + 1 frequencies, two per octave."""
    return np.asarray(2.0 ** ((chunk * SCALES + np.arange(SCALES + 1)) / 2))


def shared_octaves(pair: DominatingPair, octave: int) -> tuple[int, int]:
    """Return the first of the octaves that share their nodes, and how many they are."""
    size = pair.octaves if octave < FEW_NODES_OCTAVE else 1
    return octave - octave % size, size
