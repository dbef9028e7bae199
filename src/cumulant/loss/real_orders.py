"""K of a dominating pair at any real orders, on the nodes that its characteristic function is computed on."""

from __future__ import annotations

import numpy as np

from cumulant.loss.cache import CACHE
from cumulant.loss.loss_nodes import LossNodes
from cumulant.loss.pair import DominatingPair
from cumulant.loss.pair_sum import shared_octaves
from cumulant.numerics.logspace import Array


def log_moments(pair: DominatingPair, lam: Array) -> Array:
    """Return K(λ) = log E_P e^{λL} for λ > 0, to about 1e-14 relatively: orders share the nodes of their octaves."""
    octaves = np.floor(np.log2(lam)).astype(int)
    values = np.empty(lam.shape)
    for first, size in {shared_octaves(pair, octave) for octave in set(octaves.tolist())}:
        some = (first <= octaves) & (octaves < first + size)
        values[some] = _nodes(pair, first + size).cumulants(lam[some])[0][0]
    return values


def divergence(pair: DominatingPair) -> float:
    """Return K'(0) = E_P[L]."""
    return float(_nodes(pair, 0).divergence[0])


@CACHE.remember
def _nodes(pair: DominatingPair, octave: int) -> LossNodes:
    return pair.nodes(2.0**octave, 0.0)
