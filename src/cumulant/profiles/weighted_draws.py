"""Sampling with replacement past Theorem 10: rare multiplicities take more of what the two outputs share.

The record in which x and x' differ comes k times with probability w_k. Let p_k and q_k be the outputs given k, and r
those where draws from the other records take its k places, which does not depend on k. All three are at distance k, so
with δ_k the profile of groups of k, and any a_k >= t,

    P - tQ = w_0 (1-t) r + Σ w_k (p_k - t q_k) <= Σ w_k (p_k - t q_k - (a_k - t) r)   if   Σ w_k (a_k - t) <= w_0 (t-1),

and by joint convexity the positive part of the right side is at most Σ w_k δ_k(log a_k). Theorem 10 (Balle, Barthe and
Gaboardi 2018) is a_k = 1 + (t-1)/η for all k. Under add-or-remove-one Q = r, P - tQ needs no a_k >= t, and the other
direction, Q - tP, has the same bound: H_a(r ‖ (t/a)p_k + (1-t/a)r) <= δ_k(log a).

Holds for:  what `with_replacement_profile` and `hybrid_with_replacement_profile` hold for, n >= 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np

from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import ULP, log_above
from cumulant.numerics.scalar_logspace import log1m_exp
from cumulant.numerics.search import largest_true
from cumulant.parameters import nonnegative, product_above, require
from cumulant.profiles.chord import log_chord
from cumulant.profiles.multiplicity import Multiplicity, least_shared_ratio, tilted_weights
from cumulant.profiles.profile import LARGEST_EXPONENT, GroupProfiles, PrivacyProfile
from cumulant.profiles.sampling import amplified_epsilon

STEP = 0.25  # of log slopes, from one knot to the next
SECANT = 0.01  # of ε: the distance over which a slope is measured
SLOPE_TURNS, CLOSE_SHARE = 60, 1e-8  # and how near an ε is looked for, relatively: errors of it count by their squares
LEAST_SLOPE = 3000  # knots after which slopes are not followed


def weighted_with_replacement_profile(groups: GroupProfiles, *, draws: int, population: int) -> PrivacyProfile:
    """Return Σ w_k δ_k(log a_k) at t = e^ε, with the a_k at which all δ_k have one slope in a.

    Any a_k that meet the condition of this module give a bound. For a given slope they belong to one t; between two
    such t the chord holds, as a profile is convex in t.

    Holds for:  see this module; group profiles that do not decrease with k.
    Tightness:  the least over a_k but for the steps between slopes; attained with Theorem 10 (Theorem 13).

    >>> from cumulant.profiles.profile import approximate_groups
    >>> profile = weighted_with_replacement_profile(approximate_groups(1.0, 1e-6), draws=10, population=1000)
    >>> round(profile.epsilon(math.log(1e-6)), 4)
    0.0172
    """
    law = Multiplicity.checked(draws, population)
    require(law.population >= 2, "population must be a whole number >= 2", population)
    if law.draws == 0:
        return PrivacyProfile(lambda epsilon: -math.inf, 0.0)
    ends, log_weights, log_rest = law.charged_together()
    parts = Parts(tuple(groups(size) for size in ends), np.array(log_weights), log_rest, law)
    knot = cache(parts.at_slope)
    pure = pure_with_replacement(groups(1).pure, draws=draws, population=population)

    def log_delta(epsilon: float) -> float:
        if epsilon >= pure:
            return -math.inf
        if epsilon < knot(0)[0]:
            return 0.0  # before the first knot nothing is claimed
        place = largest_true(lambda j: j <= LEAST_SLOPE and knot(j)[0] <= epsilon) or 0
        return log_chord(epsilon, knot(place), knot(place + 1))

    return PrivacyProfile(log_delta, pure)


def pure_with_replacement(epsilon: float, *, draws: int, population: int) -> float:
    """Return log R, R >= 1 the least with  Σ_{k=1..m} w_k (e^{kε} - R)_+ <= w_0 (R - 1),  rounded up.

    With a_k = max(e^{kε}, R) every δ_k(log a_k) of an ε-DP mechanism is 0. Theorem 10 asks for groups of m at δ = 0,
    however rarely a record comes m times: log(1 + η(e^{mε} - 1)). Where groups are (kε, f_k)-DP the sample is
    (log R, Σ w_k f_k)-DP.

    Holds for:  ε-DP on multisets of m records, replace-one; the sample under either relation. A bootstrap is m = n.
    Tightness:  at least log Σ w_k e^{kε} = m log(1 + (e^ε - 1)/n), which a mechanism that tells nothing but how often
                the record came attains.

    >>> round(pure_with_replacement(1.0, draws=100, population=100), 3)
    1.963
    """
    law = Multiplicity.checked(draws, population)
    if law.draws == 0 or epsilon == 0 or math.isinf(epsilon):
        return 0.0 if law.draws == 0 else epsilon
    theta = nonnegative("epsilon", epsilon)
    groups_of_all = product_above(law.draws, theta)
    if law.population == 1:
        return groups_of_all
    anyway = amplified_epsilon(groups_of_all, law.rate)
    if theta < LARGEST_EXPONENT:  # p_k <= e^{kε} r and q_k >= e^{-kε} r: P/Q <= Σ w_k e^{kε} / Σ w_k e^{-kε}
        up, down = (math.log1p(math.expm1(x) / law.population) for x in (theta, -theta))
        anyway = min(anyway, law.draws * (up - down) * (1 + 8 * ULP))
    k, log_weights, log_rest = tilted_weights(theta, law)
    return min(anyway, least_shared_ratio(k * theta, log_weights, log_rest, law)) if len(k) else anyway


@final
@dataclass(frozen=True, slots=True)
class Parts:
    """Groups with the probabilities of their multiplicities; what is beyond reveals everything."""

    profiles: tuple[PrivacyProfile, ...]
    log_weights: Array
    log_rest: float
    law: Multiplicity

    def at_slope(self, place: int) -> tuple[float, float]:
        """Return (log t, log δ) of the a_k at which δ_k falls with the slope e^{-STEP·place}."""
        log_a = np.array([_where_slope_is(profile, -STEP * place) for profile in self.profiles])
        log_t = least_shared_ratio(log_a, self.log_weights, -math.inf, self.law)
        if math.isinf(log_t):
            return log_t, 0.0
        deltas = [p.log_delta(max(a, log_t)) for p, a in zip(self.profiles, log_a.tolist(), strict=True)]
        total = log_sum([*(self.log_weights + deltas).tolist(), self.log_rest])
        return log_t, log_above(total + 1e-13)


def _where_slope_is(profile: PrivacyProfile, log_slope: float) -> float:
    """Return about the ε at which δ falls with a slope in e^ε, 0 if it falls more slowly: any ε will do."""

    def steeper_by(epsilon: float) -> float:
        here = profile.log_delta(epsilon)
        if here == -math.inf:
            return -math.inf
        change = log1m_exp(min(profile.log_delta(epsilon + SECANT) - here, 0.0))
        return here + change - epsilon - math.log(math.expm1(SECANT)) - log_slope

    above, below = steeper_by(0.0), -math.inf
    if not above > 0:
        return 0.0
    low, high = 0.0, 1.0
    while high < 1e300 and (below := steeper_by(high)) > 0:
        low, high, above = high, 2 * high, below
    for turn in range(SLOPE_TURNS):
        if high - low <= CLOSE_SHARE * high:
            break
        secant = turn % 3 < 2 and below > -math.inf
        middle = low + (high - low) * (above / (above - below) if secant else 0.5)
        value = steeper_by(middle)
        low, high, above, below = (middle, high, value, below) if value > 0 else (low, middle, above, value)
    return profile.pure if profile.pure - high < 2 * SECANT else high
