"""From a CGF to a whole privacy profile, where searching the best order for every ε would take too long."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from cumulant.curves.best_order import log_delta_from_cgf
from cumulant.curves.curve import Array, Curve
from cumulant.curves.failure import log_delta_with
from cumulant.numerics.rounding import log_above
from cumulant.profiles.chord import log_chord
from cumulant.profiles.profile import PrivacyProfile

TILTS: Array = 2.0 ** (np.arange(-80, 321) / 8)  # λ: every one of them gives a bound
PER_OCTAVE = 3  # knots of ε
FIRST, LAST = 2.0**-4, 2.0**4  # knots between which the best order is searched


def profile_from_orders(cgf: Curve) -> PrivacyProfile:
    """Return δ(ε) <= min over chosen λ of c(λ) e^{K(λ)-λε}; a failure probability comes on top.

    Canonne, Kamath and Steinke (2020), Proposition 12, c(λ) = λ^λ/(1+λ)^{1+λ}.

    Holds for:  every CGF, either relation.
    Tightness:  loose where δ is large, as every λ is there.
    """
    k = cgf(TILTS) * (1 + 1e-13)
    finite = np.isfinite(k)
    lam = TILTS[finite]
    heights = k[finite] - lam * np.log1p(1 / lam) - np.log1p(lam)
    heights += 1e-13 * (1 + np.abs(heights))  # rounded up

    def log_delta(epsilon: float) -> float:
        if epsilon >= cgf.pure:
            return log_delta_with(cgf.failure, -math.inf)
        best = float(np.min(heights - lam * epsilon * (1 - 1e-15), initial=0.0))
        return log_above(log_delta_with(cgf.failure, best))

    return PrivacyProfile(log_delta, cgf.pure if cgf.failure == 0 else math.inf)


def profile_from_knots(cgf: Curve) -> PrivacyProfile:
    """Return the same, at most the chord between knots of ε, for which the best order is searched, once each.

    Holds for:  every CGF, either relation; a profile is convex in e^ε.
    Tightness:  that of the optimal conversion at knots, `log_delta_from_cgf`.
    """
    by_orders = profile_from_orders(cgf)

    @cache
    def at_knot(epsilon: float) -> float:
        return log_delta_from_cgf(cgf, epsilon)[0]

    def log_delta(epsilon: float) -> float:
        if epsilon >= min(LAST, cgf.pure):
            return by_orders.log_delta(epsilon)
        low, high = _knots_around(epsilon)
        return min(by_orders.log_delta(epsilon), log_chord(epsilon, (low, at_knot(low)), (high, at_knot(high))))

    return PrivacyProfile(log_delta, by_orders.pure)


def _knots_around(epsilon: float) -> tuple[float, float]:
    """Return ε₀ <= ε <= ε₁."""
    if epsilon < FIRST:
        return 0.0, FIRST
    place = math.floor(PER_OCTAVE * math.log2(epsilon))
    low, high = (2.0 ** (i / PER_OCTAVE) for i in (place, place + 1))
    return min(low, epsilon), max(high, epsilon)  # the logarithm may have been rounded
