"""From a CGF to a whole privacy profile, where searching the best order for every ε would take too long."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from cumulant.curves.best_order import log_delta_from_cgf
from cumulant.curves.curve import Array, Curve
from cumulant.curves.failure import log_delta_with
from cumulant.numerics.rounding import log_above, logs_above
from cumulant.numerics.search import minimise_from_eighths, minimise_positive
from cumulant.profiles.chord import log_chord
from cumulant.profiles.profile import FARTHEST_OF_ARRAYS, PrivacyProfile

TILTS: Array = 2.0 ** (np.arange(-80, 321) / 8)  # λ: every one of them gives a bound
PER_OCTAVE = 3  # knots of ε
OCTAVES = 4  # of knots above 1, and as many below
EPSILONS: Array = np.append(0.0, 2.0 ** (np.arange(-OCTAVES * PER_OCTAVE, OCTAVES * PER_OCTAVE + 1) / PER_OCTAVE))


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
        best = float(np.min(heights - lam * min(epsilon, FARTHEST_OF_ARRAYS) * (1 - 1e-15), initial=0.0))
        return log_above(log_delta_with(cgf.failure, best))

    def log_deltas(epsilons: Array) -> Array:
        best = np.min(heights[:, None] - lam[:, None] * epsilons * (1 - 1e-15), axis=0, initial=0.0)
        best[epsilons >= cgf.pure] = -np.inf
        if cgf.failure == 0:
            return logs_above(best)
        return np.array([log_above(log_delta_with(cgf.failure, one)) for one in best.tolist()], dtype=float)

    return PrivacyProfile(log_delta, cgf.pure if cgf.failure == 0 else math.inf, log_deltas)


def profile_from_knots(cgf: Curve) -> PrivacyProfile:
    """Return a profile of chords between knots of ε, for which the best order is searched, once each.

    Holds for:  every CGF, either relation; a profile is convex in e^ε.
    Tightness:  that of the optimal conversion at knots, `log_delta_from_cgf`; where K is a long sum, orders are looked
                for at eighths of octaves and one place between.
    """
    by_orders = profile_from_orders(cgf)
    remembered = replace(cgf, log_moment=_remember(cgf.log_moment))  # searches begin at the same orders

    minimise = minimise_from_eighths if cgf.summed else minimise_positive

    @cache
    def at_knot(epsilon: float) -> float:
        return log_delta_from_cgf(remembered, epsilon, minimise)[0]

    def log_delta(epsilon: float) -> float:
        return float(log_deltas(np.array([epsilon]))[0])

    def log_deltas(epsilons: Array) -> Array:
        found, near = by_orders.log_deltas(epsilons), epsilons < min(float(EPSILONS[-1]), cgf.pure)
        place = np.searchsorted(EPSILONS, epsilons[near], side="right")
        wanted, index = np.unique(place, return_inverse=True)

        def knots(back: int) -> tuple[Array, Array]:
            heights = np.array([at_knot(knot) for knot in EPSILONS[wanted - back].tolist()])
            return EPSILONS[place - back], heights[index]

        found[near] = np.minimum(found[near], log_chord(epsilons[near], knots(1), knots(0)))
        return found

    return PrivacyProfile(log_delta, by_orders.pure, log_deltas)


def _remember(log_moment: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function of λ that asks another one for every λ once."""
    known: dict[float, float] = {}

    def at(lam: Array) -> Array:
        new = [one for one in dict.fromkeys(lam.tolist()) if one not in known]
        if new:
            known.update(zip(new, log_moment(np.array(new)).tolist(), strict=True))
        return np.array([known[one] for one in lam.tolist()])

    return at
