"""From a CGF to a whole privacy profile, where searching the best order for every ε would take too long."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cumulant.curves.best_order import log_delta_from_cgf
from cumulant.curves.curve import Array, Curve, remembered
from cumulant.curves.failure import log_delta_with
from cumulant.numerics.search import TO_TWELVE_DIGITS
from cumulant.profiles.chord import log_chord
from cumulant.profiles.profile import PrivacyProfile

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

    def log_deltas(epsilons: Array) -> Array:
        best = np.min(heights[:, None] - lam[:, None] * epsilons * (1 - 1e-15), axis=0, initial=0.0)
        best[epsilons >= cgf.pure] = -np.inf
        return best if cgf.failure == 0 else np.array([log_delta_with(cgf.failure, one) for one in best.tolist()])

    return PrivacyProfile.of(log_deltas, cgf.pure if cgf.failure == 0 else math.inf)


def profile_from_knots(cgf: Curve) -> PrivacyProfile:
    """Return a profile of chords between knots of ε, for which the best order is searched, once each.

    Holds for:  every CGF, either relation; a profile is convex in e^ε.
    Tightness:  that of the optimal conversion at knots, `log_delta_from_cgf`; where K is a long sum, orders are looked
                for at eighths of octaves and one place between.
    """
    by_orders = profile_from_orders(cgf)
    shared = replace(cgf, log_moment=remembered(cgf.log_moment))  # searches begin at the same orders
    turns = 1 if cgf.summed else TO_TWELVE_DIGITS

    def search(epsilons: Array) -> Array:
        return np.array([log_delta_from_cgf(shared, epsilon, turns=turns)[0] for epsilon in epsilons.tolist()])

    at_knots = remembered(search)

    def log_deltas(epsilons: Array) -> Array:
        found, near = by_orders.log_deltas(epsilons), epsilons < min(float(EPSILONS[-1]), cgf.pure)
        place = np.searchsorted(EPSILONS, epsilons[near], side="right")
        before, after = ((EPSILONS[there], at_knots(EPSILONS[there])) for there in (place - 1, place))
        found[near] = np.minimum(found[near], log_chord(epsilons[near], before, after))
        return found

    return PrivacyProfile.of(log_deltas, by_orders.pure)
