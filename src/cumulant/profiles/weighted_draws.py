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
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array, log_complement, log_mean
from cumulant.numerics.rounding import ULP, logs_above
from cumulant.numerics.search import roots
from cumulant.parameters import nonnegative, product_above, require
from cumulant.profiles.chord import log_chord
from cumulant.profiles.multiplicity import Blocks, Multiplicity, least_shared_ratio, tilted_weights
from cumulant.profiles.profile import LARGEST_EXPONENT, NOTHING, GroupProfiles, PrivacyProfile
from cumulant.profiles.sampling import amplified_epsilon

STEP = 0.25  # of log slopes, from one knot to the next
FINE_STEP = 2.0**-6  # the same where slopes have formulas
FARTHEST_SLOPE = 750.0  # nats below 1 after which slopes are not followed
AHEAD = 4  # doublings of a place that are looked at together
SECANT = 0.01  # of ε: the distance over which a slope is measured
CLOSE_SHARE = 1e-8  # of ε: how near it is looked for; errors of it count by their squares


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
        return NOTHING
    blocks = law.blocks()
    knots = Knots(Parts(tuple(groups(int(size)) for size in blocks.ends), blocks, law))
    pure = pure_with_replacement(groups(1).pure, draws=draws, population=population)
    return PrivacyProfile.of(knots.log_deltas, pure)


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
    if len(k) == 0:
        return anyway
    return min(anyway, float(least_shared_ratio(k[None, :] * theta, log_weights, log_rest, law)[0]))


@final
@dataclass(frozen=True, slots=True)
class Parts:
    """Groups with the probabilities of their multiplicities; what is beyond reveals everything."""

    profiles: tuple[PrivacyProfile, ...]
    blocks: Blocks
    law: Multiplicity

    @property
    def has_formulas(self) -> bool:
        return all(profile.where_slope_is is not None for profile in self.profiles)

    def at_slopes(self, log_slopes: Array) -> tuple[Array, Array]:
        """Return log t and log δ of the a_k at which δ_k falls with each slope."""
        log_a = np.column_stack([_where_slopes_are(profile, log_slopes) for profile in self.profiles])
        log_t = least_shared_ratio(log_a, self.blocks.log_weights, -math.inf, self.law)
        log_delta = np.zeros(len(log_t))
        reached = np.isfinite(log_t)
        above = np.maximum(log_a[reached], log_t[reached, None])
        rows = [p.log_deltas(a) + w for p, a, w in zip(self.profiles, above.T, self.blocks.log_weights, strict=True)]
        total = log_mean(np.column_stack([*rows, np.full(len(above), self.blocks.log_rest)]), np.zeros(1))
        log_delta[reached] = logs_above(total + 1e-13)
        return log_t, log_delta


class Found(NamedTuple):
    """Places of slopes, with log t and log δ there; t grows with them but for rounding."""

    places: NDArray[np.int_]
    log_t: Array
    log_delta: Array


@final
class Knots:
    """What is known of (log t, log δ) by the place of its slope: it only grows, and is replaced as a whole."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._step = FINE_STEP if parts.has_formulas else STEP
        self._last = math.ceil(FARTHEST_SLOPE / self._step)
        self._found = Found(np.zeros(1, dtype=int), *parts.at_slopes(np.zeros(1)))

    def log_deltas(self, epsilons: Array) -> Array:
        """Return the chords between the two knots around each ε."""
        if len(epsilons) == 0:
            return np.empty(0)
        found = self._found
        while found.log_t[-1] <= np.max(epsilons) and found.places[-1] < self._last:
            doubled = (found.places[-1] + 1) * 2 ** np.arange(1, AHEAD + 1) - 1
            found = self._with(found, np.unique(np.minimum(doubled, self._last)))
        while True:
            before = np.searchsorted(found.log_t, epsilons, side="right") - 1
            before = np.clip(before, 0, max(len(found.places) - 2, 0))
            after = np.minimum(before + 1, len(found.places) - 1)
            low, high = found.places[before], found.places[after]
            if np.all(high - low <= 1):
                break
            wide = high - low > 1
            wanted = np.zeros(self._last, dtype=bool)
            wanted[low[wide] + (high - low)[wide] * np.arange(1, 8)[:, None] // 8] = True  # eighths
            wanted[found.places[:-1]] = False
            found = self._with(found, np.flatnonzero(wanted))
        self._found = found
        chords = log_chord(epsilons, *((found.log_t[at], found.log_delta[at]) for at in (before, after)))
        return np.where(found.log_t[before] <= epsilons, chords, 0.0)  # before the first knot nothing is claimed

    def _with(self, found: Found, places: NDArray[np.int_]) -> Found:
        more = Found(places, *self._parts.at_slopes(np.asarray(-self._step * places, dtype=float)))
        order = np.argsort(np.concatenate([found.places, places]), kind="stable")
        return Found(*(np.concatenate(columns)[order] for columns in zip(found, more, strict=True)))


def _where_slopes_are(profile: PrivacyProfile, log_slopes: Array) -> Array:
    """Return about the ε at which δ falls with each slope in e^ε, 0 if it falls more slowly: any ε will do."""
    if profile.where_slope_is is not None:
        return profile.where_slope_is(log_slopes)

    def steeper_by(epsilons: Array, which: NDArray[np.int_]) -> Array:
        here, there = np.split(profile.log_deltas(np.concatenate([epsilons, epsilons + SECANT])), 2)
        seen, change = here > -np.inf, np.full(len(here), -np.inf)
        change[seen] = log_complement(np.minimum(there[seen] - here[seen], 0.0))
        return np.where(seen, here + change - epsilons - math.log(math.expm1(SECANT)) - log_slopes[which], -np.inf)

    steep = np.flatnonzero(steeper_by(np.zeros(len(log_slopes)), np.arange(len(log_slopes))) > 0)
    found = np.zeros(len(log_slopes))
    upper, _ = roots(lambda x, rows: -steeper_by(x, steep[rows]), np.zeros(len(steep)), 1.0, relative=CLOSE_SHARE)
    found[steep] = np.where(profile.pure - upper < 2 * SECANT, profile.pure, upper)
    return found
