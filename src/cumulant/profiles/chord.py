"""Profiles are convex in e^ε: between two points they lie below the chord."""

from __future__ import annotations

import math

from cumulant.numerics.rounding import log_above
from cumulant.numerics.scalar_logspace import log_add

WIDE = 600.0  # nats between two points from which on the first bounds what lies between

Knot = tuple[float, float]
"""(ε, log δ)"""


def log_chord(epsilon: float, low: Knot, high: Knot) -> float:
    """Return log of (1-f) δ₀ + f δ₁, f = (e^{ε-ε₀} - 1)/(e^{ε₁-ε₀} - 1), rounded up; ε₀ <= ε <= ε₁.

    Holds for:  two upper bounds δ₀, δ₁ of a privacy profile.
    """
    (start, below), (end, above) = low, high
    if epsilon == start or not end - start < WIDE or below == -math.inf:
        return below
    if end <= epsilon:
        return above  # a profile does not increase
    share = min(1.0, math.expm1(epsilon - start) / math.expm1(end - start))
    near = math.log1p(-share) if share < 1 else -math.inf
    far = math.log(share) if share > 0 else -math.inf
    return log_above(max(log_add(below + near, above + far), above) + 1e-13)
