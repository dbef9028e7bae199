"""Profiles are convex in e^ε: between two points they lie below the chord."""

from __future__ import annotations

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import logs_above

WIDE = 600.0  # nats between two points from which on the first bounds what lies between

Points = tuple[Array, Array]
"""ε and log δ"""


def log_chord(epsilons: Array, low: Points, high: Points) -> Array:
    """Return log of (1-f) δ₀ + f δ₁, f = (e^{ε-ε₀} - 1)/(e^{ε₁-ε₀} - 1), rounded up; ε₀ <= ε <= ε₁, for each ε.

    Holds for:  two upper bounds δ₀, δ₁ of a privacy profile.
    """
    (start, below), (end, above) = low, high
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.minimum(end - start, WIDE)
        share = np.clip(np.expm1(np.minimum(epsilons - start, gap)) / np.expm1(gap), 0.0, 1.0)
        between = np.maximum(np.logaddexp(below + np.log1p(-share), above + np.log(share)), above)
    inside = np.where(end <= epsilons, above, logs_above(between + 1e-13))  # a profile does not increase
    at_start = (epsilons == start) | ~(end - start < WIDE) | (below == -np.inf)
    return np.asarray(np.where(at_start, below, inside))
