"""The joint range of two f-divergences: Asoodeh et al. (2020), Theorem 2, after Harremoës and Vajda (2011)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cumulant.curves.divergences import pearson_vajda
from cumulant.numerics.logspace import Array

Divergence = Callable[[list[float], list[float]], float]


def divergences_of_bits(first: Divergence, second: Divergence, *, points: int = 50) -> Array:
    """Return (D_f, D_g) of pairs of distributions on two outputs: the set B of Theorem 2, on a grid.

    Theorem 2: all pairs of distributions whatever have their (D_f, D_g) in the convex hull of B, and fill it.

    Holds for:  any two f-divergences.
    Tightness:  a grid of B, not all of it.

    >>> from cumulant.curves.divergences import hockey_stick
    >>> found = divergences_of_bits(lambda p, q: hockey_stick(p, q, epsilon=0.0), total_variation_doubled, points=5)
    >>> bool(np.allclose(2 * found[:, 0], found[:, 1]))
    True
    """
    shares = ((np.arange(points) + 0.5) / points).tolist()
    pairs = [([p, 1 - p], [q, 1 - q]) for p in shares for q in shares]
    return np.array([(first(p, q), second(p, q)) for p, q in pairs])


def total_variation_doubled(p: list[float], q: list[float]) -> float:
    """Return E_q|p/q - 1|."""
    return pearson_vajda(p, q, order=1)
