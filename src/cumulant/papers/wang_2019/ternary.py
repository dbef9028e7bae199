"""From ternary |χ|^α-DP to Rényi DP of a sample, with ζ(j) of one's own: Wang et al. (2019), Section 3.1."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from cumulant.curves.divergences import signed_pearson_vajda
from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import ROUNDING
from cumulant.parameters import real, require, whole_number


def joint_convexity_gap(
    first: tuple[float, float], second: tuple[float, float], *, order: float, share: float
) -> float:
    """Return how far the chord of f(x, y) = x^j/y^{j-1} lies above f between two points, as a share of the chord.

    Wang et al. (2019), Lemma 13: f is jointly convex for x, y > 0 and j > 1, so the gap is never negative.
    """
    rule = "points must be two positive numbers each"
    require(all(0 < x < math.inf for point in (first, second) for x in point), rule, (first, second))
    require(order > 1, "order must be > 1", order)
    require(0 <= share <= 1, "share must be between 0 and 1", share)
    ends = [order * math.log(x) - (order - 1) * math.log(y) for x, y in (first, second)]
    x, y = ((1 - share) * a + share * b for a, b in zip(first, second, strict=True))
    weights = [math.log(w) if w > 0 else -math.inf for w in (1 - share, share)]
    chord = log_sum([w + end for w, end in zip(weights, ends, strict=True)])
    return -math.expm1(order * math.log(x) - (order - 1) * math.log(y) - chord)


def proposition14(log_zeta: ArrayLike, *, order: ArrayLike, rate: float) -> Array:
    """Return log of (γζ(j))^j from log of ζ(j)^j: the ternary divergence of a sample of rate γ, Proposition 14.

    Holds for:  a random subset of a fixed share γ under replace-one; j >= 1.
    Tightness:  attained.
    """
    gamma = real("rate", rate, "must be a number in (0, 1]", lambda number: 0 < number <= 1)
    return np.asarray(log_zeta, dtype=float) + np.asarray(order, dtype=float) * math.log(gamma)


def newton_series(p: ArrayLike, q: ArrayLike, *, order: int) -> float:
    """Return 1 + Σ_{j=2..α} C(α,j) E_q[(p/q-1)^j], which is E_q[(p/q)^α]: Wang et al. (2019), (3.6)."""
    alpha = whole_number("order", order, at_least=2)
    terms = (math.comb(alpha, j) * signed_pearson_vajda(p, q, order=j) for j in range(2, alpha + 1))
    return 1 + math.fsum(terms)


def rdp_from_ternary(order: int, *, rate: float, log_zeta: Callable[[Array], Array]) -> float:
    """Return log(1 + Σ_{j=2..α} C(α,j) γ^j ζ(j)^j)/(α-1), rounded up: Wang et al. (2019), (3.7).

    `log_zeta` maps an array of j to bounds of log ζ(j)^j, such as `ternary_from_binary` gives.

    Holds for:  replace-one, samples without replacement; ζ that bounds all triples of neighbours.
    Tightness:  Theorem 9 is this with the ζ that follow from a Rényi curve.
    """
    alpha = whole_number("order", order, at_least=2)
    j = np.arange(2, alpha + 1.0)
    choices = np.array([math.lgamma(alpha + 1) - math.lgamma(x + 1) - math.lgamma(alpha - x + 1) for x in j.tolist()])
    logs = proposition14(log_zeta(j), order=j, rate=rate) + choices
    sizes = np.abs(np.where(np.isfinite(logs), logs, 0.0)) + j * abs(math.log(rate)) + choices + math.lgamma(alpha + 1)
    excess = log_sum(logs + 4 * ROUNDING * (1 + sizes))
    return float(np.logaddexp(0.0, excess)) / (alpha - 1) * (1 + ROUNDING)
