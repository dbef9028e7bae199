"""K of a dominating pair at real orders, on the nodes that its characteristic function is computed on.

Tilts are θ_k = 2^{k/8}, spacings of nodes along a line η_m = 2^{m/4}; frequencies of decay come two per octave. All
questions share this grid, so that what was computed about a pair is met again: at its tilts K, K' and K'' are kept for
every pair, and computed together for pairs with one batch key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.pairs.cache import CACHE, BatchedTable
from cumulant.pairs.discrete import DiscreteLosses
from cumulant.pairs.pair import DominatingPair

PER_OCTAVE = 8  # tilts per doubling: the best one is missed by 4 %, which costs nothing
SCALES = 16  # frequencies of one chunk of decay bounds, two per octave
CHUNKS = 12  # of decay bounds that are followed, one after the other
FEW_NODES_OCTAVE = 4  # octave up to which the nodes of one tilt are few enough to serve smaller ones


# The grid -------------------------------------------------------------------------------------------------------------


def tilt(index: int) -> float:
    return float(2.0 ** (index / PER_OCTAVE))


def tilts(octave: int) -> Array:
    return np.asarray(2.0 ** (octave + np.arange(PER_OCTAVE) / PER_OCTAVE))


def chunk_frequencies(chunk: int) -> Array:
    """Return SCALES + 1 frequencies, two per octave."""
    return np.asarray(2.0 ** ((chunk * SCALES + np.arange(SCALES + 1)) / 2))


# K at real orders -----------------------------------------------------------------------------------------------------


def log_moments(pair: DominatingPair, lam: Array) -> Array:
    """Return K(λ) = log E_P e^{λL} for λ > 0, raised by what rounding may take: orders share the nodes of octaves."""
    octaves = np.floor(np.log2(lam)).astype(int)
    values = np.empty(lam.shape)
    for first, size in {shared_octaves(pair, octave) for octave in set(octaves.tolist())}:
        some = (first <= octaves) & (octaves < first + size)
        nodes = _nodes_of(pair, first + size)
        k = nodes.cumulants(lam[some])[0]
        values[some] = (k + nodes.rounding_of_moments(lam[some], k))[0]
    return values


def divergence(pair: DominatingPair) -> float:
    """Return K'(0) = E_P[L], raised by what rounding may take."""
    nodes = _nodes_of(pair, 0)
    return float((nodes.divergence + nodes.rounding_of_divergence())[0])


def log_affinity(pair: DominatingPair) -> float:
    """Return log Σ √(pq), Bhattacharyya's coefficient."""
    return float(_nodes_of(pair, 0).log_affinity[0])


@CACHE.remember
def _nodes_of(pair: DominatingPair, octave: int) -> DiscreteLosses:
    return pair.nodes(2.0**octave, 0.0)


Cumulants = tuple[Array, float]
"""K, K' and K'' of one pair at the tilts of some octaves, and E_P[L]."""


def nodes_together(pairs: Sequence[DominatingPair], theta: float, omega: float) -> DiscreteLosses:
    """Return nodes that serve all pairs of one kind."""
    return pairs[0].stack(pairs).nodes(theta, omega)


def _cumulants(pairs: Sequence[DominatingPair], first: int, size: int) -> list[Cumulants]:
    nodes = nodes_together(pairs, 2.0 ** (first + size), 0.0)
    theta = np.concatenate([tilts(octave) for octave in range(first, first + size)])
    values = np.stack(nodes.cumulants(theta), axis=1)
    return [(row, float(kappa)) for row, kappa in zip(values, nodes.divergence, strict=True)]


CUMULANTS = BatchedTable("cumulants", _cumulants)


def shared_octaves(pair: DominatingPair, octave: int) -> tuple[int, int]:
    """Return the first of the octaves that share their nodes, and how many they are."""
    size = pair.octaves if octave < FEW_NODES_OCTAVE or pair.is_graded else 1
    return octave - octave % size, size


def cumulants_of_each(pairs: Sequence[DominatingPair], octave: int) -> Array:
    """Return K, K' and K'' of each pair at the tilts of an octave."""
    asked = [shared_octaves(pair, octave) for pair in pairs]
    places = [(octave - first) * PER_OCTAVE for first, _ in asked]
    rows = [kept[:, at : at + PER_OCTAVE] for (kept, _), at in zip(CUMULANTS.of(pairs, asked), places, strict=True)]
    return np.array(rows).reshape(len(pairs), 3, PER_OCTAVE)


def divergences_of(pairs: Sequence[DominatingPair]) -> list[float]:
    """Return E_P[L] of each pair."""
    return [kappa for _, kappa in CUMULANTS.of(pairs, [shared_octaves(pair, 0) for pair in pairs])]


def k_at(pair: DominatingPair, index: int) -> float:
    """Return K at one tilt of the grid."""
    return float(k_of_each([pair], index)[0])


def k_of_each(pairs: Sequence[DominatingPair], index: int) -> Array:
    octave, place = divmod(index, PER_OCTAVE)
    return np.asarray(cumulants_of_each(pairs, octave)[:, 0, place])
