"""Rare steps: δ of a sampled Gaussian, when a record leaves, from releases sorted by the size of their losses.

Where few releases lose much, and all others next to nothing, no tilt makes ε likely: small losses and losses far beyond
ε outweigh it. Sorted by `cumulant.pairs.size_classes`, with c_f next to where one loss alone makes up ε, the parts of

    δ = δ_S + (δ_N - δ_S) + δ_F

are easy: S, no release is more than quiet; N, none is far; F, at least one is.

- δ_S <= c(τ) S(τ)^n e^{-τε}, Chernoff's bound, is nothing beside δ, or nothing is called quiet: S = 0.
- δ_N - δ_S = (1/2π) ∫ (N^n - S^n) e^{-zε}/(z(z+1)) dω, z = θ + iω, θ > 0. N^n - S^n = S^n ((1 + J/S)^n - 1) with the
  moments J of middle ones falls as J does, and belongs to a positive measure: aliases are bounded as in `contour`.
- δ_F = P(F) - e^ε Q(F) + Λ(ε), Λ(ε) = E_P[(e^{ε-L} - 1)_+; F], as (x)_+ = x + (-x)_+. The transform of (e^{-y} - 1)_+
  is 1/(z(z+1)), too, for Re z < -1:

      Λ(ε) = (1/2π) ∫ (M^n - N^n) e^{-zε}/(z(z+1)) dω,   z = -1 - τ + iω, τ > 0,

  where far losses weigh little, and M = N + F are the moments of all. The sum with step 2π/W is
  Σ_k e^{-(1+τ)kW} Λ(ε+kW), and Λ(x) <= c(τ') e^{(1+τ')x} (M^n - N^n)(-1-τ') for every τ' > 0.

With g = E_Q[X_F (w - e^ε)], and q_F = E_Q X_F, P(F) - e^ε Q(F) is ng but for what is of second order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.inversion.contour import (
    EXACT_NATS,
    EXACT_SHARE,
    SMALLEST_LOG_DELTA,
    Contour,
    log_chernoff,
    meet_exactly,
    nats_apart,
)
from cumulant.inversion.rare_far import LARGEST_RARE_EPSILON, LEANING_NATS, FarReleases, Leak, far_and_leak, leak_tilts
from cumulant.inversion.rare_lines import LARGEST_RARE_NATS, NORMAL_NATS, UNITS
from cumulant.inversion.rare_middle import line_of_middle
from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.jump_law import coordinate_of, log_delta_of_sample
from cumulant.pairs.sampled_gaussian import EXPONENT_AT_MOST, SampledGaussian
from cumulant.pairs.size_classes import SizeClasses

RISE_NATS = 5.0  # by which a tilted law may rise beyond c_f
LEAST_SHARPNESS, LARGEST_SHARPNESS = 1.5, 40.0  # a
SHARPNESS_OF_STEEP = 4.0  # times μ, at least
SHARPER = 1.4  # by which a grows until the tilted law ends
ENDS = 6.0, 8.0, 10.0, 13.0, 17.0, 22.0, 30.0  # over the sharpness, b beyond c_f
END_NATS = 62.0  # by which a tilted law has fallen at b
LEAST_END = 1.0  # b: nodes are multiples of a step, and b lies between two
LEAST_LOG_EPSILON = -25.0
GUESS_NATS = 5e-3  # of log ε
MOST_LARGE = 12  # releases that are large, in a guess
LEAST_T = -30.0  # of a guess
RARE_PLANS = 6  # plans, each from the answer of the last
RAISED_NATS = 0.0, 2.0, 8.0  # nats, of a guess of log δ for which no plan was found: it is rather too small
STEPS = 12  # of Newton's method
BESIDE_EPSILON = 1e-6  # of ε, at which a slope is looked for
REPLANNED_NATS = 0.02  # of log δ, by which plans differ


class FarPlace(NamedTuple):
    """Where releases begin to be far: c_f, as a share of ε, and how sharply at least, times c_f.

    Next to ε the line of N is low where single losses make up δ. Where many small ones do, it is lower if c_f is, and
    P(F) - e^ε Q(F) and Λ may be some times δ. With a = 0.35 c_f, Q(F) is at most e^2 times what lies beyond c_f.
    """

    share: float
    sharpness: float


FIRST_CUT = FarPlace(1.0, 0.0)
OTHER_CUTS = FarPlace(1.0, 0.35), FarPlace(0.7, 0.7)  # where bounds are too far apart with the first


@final
@dataclass(frozen=True, slots=True, eq=False)
class RareProfile:
    """Bounds of δ(ε), when a record leaves, near the ε that they were planned for."""

    middle: Contour
    quiet: tuple[Array, Array] | None  # τ and n log S(τ), raised
    far: FarReleases
    leak: Leak

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound of log δ(ε), and about its slope."""
        if not epsilon < LARGEST_RARE_EPSILON:
            return 0.0, math.nan
        high, slope = self.middle.log_upper(epsilon)
        high = min(high, 0.0)
        (gain, doubt), (leak, rise) = self.far.gain(epsilon), self.leak.upper(epsilon)
        far = max(gain + leak + doubt, 0.0)
        total = (math.exp(high) + far + self._quiet(epsilon)) * (1 + 4 * UNITS * (1 - high))
        falls = math.exp(high) * slope - math.exp(epsilon) * self.far.mass * self.far.law.count + rise
        if not 0 < total < 1:
            return 0.0, slope
        return math.log(total), float(falls / total) if falls < 0 else slope

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return both bounds of log δ(ε)."""
        return self.log_lower(epsilon), self.log_upper(epsilon)[0]

    def log_lower(self, epsilon: float) -> float:
        """Return the lower one; -inf where nothing is known."""
        middle, high = self.middle.log_bounds(epsilon)
        gain, doubt = self.far.gain(epsilon)
        low = (math.exp(min(middle, 0.0)) + gain + self.leak.lower(epsilon) - doubt) * (1 - 4 * UNITS * (1 - high))
        return math.log(low) if low > 0 else -math.inf

    def follow(self, start: float, log_delta: float) -> float | None:
        """Return about the ε of a δ, a few steps of Newton's method away; None where nothing is near."""
        x = start
        for _ in range(STEPS):
            value, beside = self.log_upper(x)[0], self.log_upper(x * (1 + BESIDE_EPSILON))[0]
            slope = (beside - value) / (BESIDE_EPSILON * x)
            if not slope < 0:  # too far from what was planned for
                return x if x != start else None
            step = min(max((value - log_delta) / -slope, -x / 3), x / 2)
            x += step
            if abs(step) <= 1e-4 * x:
                break
        return x

    def _quiet(self, epsilon: float) -> float:
        """Return Chernoff's bound of δ_S."""
        if self.quiet is None:
            return 0.0
        tau, k = self.quiet
        return math.exp(min(float(np.min(log_chernoff(tau) + k - tau * epsilon)) + 1e-9, 0.0))


def rare_epsilon(law: SampledGaussian, log_delta: float) -> float | None:
    """Return the smallest ε with δ(ε) <= δ when a record leaves, rounded up; None where lines would be long.

    Holds for:  Poisson sampling, add-or-remove-one, one of two directions; adaptive composition.
    Tightness:  within 1e-9 of what the pair needs.
    """
    epsilon, place, others = _guess_epsilon(law, log_delta), FIRST_CUT, iter(OTHER_CUTS)
    for _ in range(RARE_PLANS):
        profile = None if epsilon is None else plan_rare(law, epsilon, log_delta, place)
        if profile is None or epsilon is None:
            return None
        found = meet_exactly(profile, epsilon, log_delta, nats_apart(profile, epsilon))
        if found is not None:
            return found
        low, high = profile.log_bounds(epsilon)
        if abs(high - log_delta) < REPLANNED_NATS and not high - low <= EXACT_NATS:  # another plan would say no more
            following = next(others, None)
            if following is None:
                return None
            place = following
        else:
            epsilon = profile.follow(epsilon, log_delta)
    return None


def rare_log_delta(law: SampledGaussian, epsilon: float, about: float | None = None) -> float | None:
    """Return log δ(ε) when a record leaves, rounded up; None where lines would be long, or say too little.

    `about` is a first guess of it, if there is one.

    Holds for:  Poisson sampling, add-or-remove-one, one of two directions; adaptive composition.
    Tightness:  so near that ε would be within 1e-9 of what the pair needs.
    """
    guess = _guess_rare_log_delta(law, epsilon)
    guesses = iter([*([] if about is None else [about]), *(guess + more for more in RAISED_NATS)])
    log_delta, place, others = next(guesses), FIRST_CUT, iter(OTHER_CUTS)
    for _ in range(RARE_PLANS):
        profile = plan_rare(law, epsilon, log_delta, place) if SMALLEST_LOG_DELTA < log_delta < 0 else None
        if profile is None:
            another = next(guesses, None)
            if another is None:
                return None
            log_delta = another
            continue
        low, high = profile.log_bounds(epsilon)
        is_planned_here = abs(high - log_delta) < REPLANNED_NATS  # then ε was lowered by four times about this slack
        if high - low <= (EXACT_NATS if is_planned_here else nats_apart(profile, epsilon) / 2):
            return high if profile.log_lower(epsilon * (1 - EXACT_SHARE)) >= high else None
        if is_planned_here:
            following = next(others, None)
            if following is None:
                return None
            place = following
        log_delta = high
    return None


def _guess_rare_log_delta(law: SampledGaussian, epsilon: float) -> float:
    """Return about log δ(ε): of one large loss, of many small ones, which are about normal, or of a few large ones.

    The loss of k sampled releases, all large, is k log γ and that of k Gaussians. δ is at most that of n Gaussians.
    """
    n, mean, rate = law.count, law.mean, law.rate
    k = np.arange(2.0, min(n, MOST_LARGE) + 1)
    chosen = np.cumsum(np.log(np.maximum(n - np.arange(len(k) + 1.0), 1.0) / np.arange(1.0, len(k) + 2)))[1:]
    means = np.append(mean * np.sqrt(k), [law.deviation, mean * math.sqrt(n)])
    logs = _log_delta_of_gaussian(means, epsilon - np.append(k, [0.0, 0.0]) * math.log(rate))
    logs[: len(k)] += chosen + k * math.log(rate)
    one = math.log(n) + log_delta_of_sample(mean, rate, epsilon)
    return min(float(np.logaddexp(one, np.logaddexp.reduce(logs[:-1]))), float(logs[-1]), -1e-3)


def _log_delta_of_gaussian(mean: Array, epsilon: Array) -> Array:
    """Return about log δ(ε) of N(μ, 1) against N(0, 1): φ(t)·(m(t) - m(t+μ)), m Mills' ratio, t = ε/μ - μ/2."""
    from scipy.special import erfcx

    t = np.maximum(epsilon / mean - mean / 2, LEAST_T)
    mills = erfcx(t / math.sqrt(2.0)) - erfcx((t + mean) / math.sqrt(2.0))
    return np.asarray(-t * t / 2 + np.log(np.maximum(mills, 1e-300) / 2))


def _guess_epsilon(law: SampledGaussian, log_delta: float) -> float | None:
    """Return about the ε of a δ, by halving."""
    low, high = LEAST_LOG_EPSILON, math.log(LARGEST_RARE_EPSILON)
    if _guess_rare_log_delta(law, math.exp(high)) > log_delta or _guess_rare_log_delta(law, math.exp(low)) < log_delta:
        return None
    while high - low > GUESS_NATS:
        middle = (low + high) / 2
        low, high = (middle, high) if _guess_rare_log_delta(law, math.exp(middle)) > log_delta else (low, middle)
    return math.exp(high)


def plan_rare(
    law: SampledGaussian, epsilon: float, log_delta: float, place: FarPlace = FIRST_CUT
) -> RareProfile | None:
    """Return bounds of δ near ε, where it is about δ, with c_f in that place; None where they would take long."""
    if not 0 < epsilon < LARGEST_RARE_EPSILON:
        return None
    with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
        classes = _classes(law, epsilon, log_delta, place)
        middle = None if classes is None else line_of_middle(classes, epsilon, log_delta)
        far = None if classes is None or middle is None else far_and_leak(classes, epsilon, log_delta)
    return None if middle is None or far is None else RareProfile(*middle, *far)


def _classes(law: SampledGaussian, epsilon: float, log_delta: float, place: FarPlace) -> SizeClasses | None:
    """Return far ones from a place on, at least as sharply as δ's tilt asks for; any are sound."""
    mean, tilt = law.mean, (4 - log_delta) / epsilon
    at = coordinate_of(place.share * epsilon, mean, law.rate)
    p = 1 / (
        1 + math.exp(min(-math.log(law.rate) + math.log1p(-law.rate) - mean * at + mean**2 / 2, LARGEST_RARE_NATS))
    )
    rise, bend = (1 + tilt) * mean * p - at, (1 + tilt) * mean**2 * p * (1 - p) - 1
    square = max(bend, 0.0) / 2 + max(rise, 0.0) ** 2 / (4 * RISE_NATS) + 1
    sharpness = max(math.sqrt(square), LEAST_SHARPNESS, SHARPNESS_OF_STEEP * mean, place.sharpness * at)
    peak = (1 + tilt) * place.share * epsilon - at * at / 2
    while True:
        ends = at + np.array(ENDS) / sharpness
        logs = (1 + tilt) * np.log1p(law.rate * np.expm1(mean * ends - mean**2 / 2)) - ends**2 / 2
        fallen = np.flatnonzero(logs + log_half_erfc(sharpness * (ends - at)) < peak - END_NATS)
        if len(fallen):
            break
        sharpness *= SHARPER
        if sharpness > LARGEST_SHARPNESS:
            return None
    last = float(ends[fallen[0]])
    leaning = min(-float(leak_tilts(epsilon, log_delta)[-1]) * math.log1p(-law.rate), LEANING_NATS)
    first = -math.sqrt(2 * (NORMAL_NATS + leaning + math.log(law.count * (1 + law.rate * tilt))))
    far = max(
        math.sqrt(max(at, 0.0) ** 2 + 2 * NORMAL_NATS), mean + math.sqrt(max(at - mean, 0.0) ** 2 + 2 * NORMAL_NATS)
    )
    if not mean * max(last, far) < EXPONENT_AT_MOST or not last >= LEAST_END:
        return None
    return SizeClasses(law, None, at, sharpness, last, (first, max(far, last)))
