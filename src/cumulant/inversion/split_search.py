"""ε at a δ, and δ at an ε, of releases sorted by size: guesses, and plans until one is near.

A plan is `cumulant.inversion.split.plan_split`. The first is made for a guess, each further one for what the last said.
"""

from __future__ import annotations

import math

import numpy as np

from cumulant.inversion.contour import (
    EXACT_AT_ZERO,
    EXACT_NATS,
    EXACT_SHARE,
    SMALLEST_LOG_DELTA,
    meet_exactly,
    nats_apart,
    nats_of,
)
from cumulant.inversion.split import FIRST_CUT, OTHER_CUTS, plan_split
from cumulant.numerics.logspace import Array
from cumulant.pairs.sampled_gaussian import SampledGaussian, SampledReleases, coordinate_of
from cumulant.pairs.size_moments import LARGEST_EPSILON, log_delta_of_sample

LEAST_LOG_EPSILON = -25.0
GUESS_NATS = 5e-3  # of log ε
MOST_LARGE = 12  # releases that are large, in a guess
LEAST_T = -30.0  # of a guess
LEAST_GUESSED = 1e-12  # ε, and a variance over γ²
PLANS = 6  # each from the answer of the last
RAISED_NATS = 0.0, 2.0, 8.0  # nats, of a guess of log δ for which no plan was found: it is rather too small
REPLANNED_NATS = 0.02  # of log δ, by which plans differ
VARIATION_SCALES = 1.0, 3.0, 8.0  # over what all releases may lose, beyond which one is far where ε is 0
VARIATION_PLANS = 3  # for a δ(0), each from the answer of the last


def split_epsilon(releases: SampledReleases, log_delta: float, share: float = EXACT_SHARE) -> float | None:
    """Return the smallest ε with δ(ε) <= δ when a record leaves, rounded up; None where lines would be long.

    Holds for:  Poisson sampling, add-or-remove-one, one of two directions; adaptive composition.
    Tightness:  within that share of what the pairs need.
    """
    epsilon, place, others = _guess_epsilon(releases, log_delta), FIRST_CUT, iter(OTHER_CUTS)
    for _ in range(PLANS):
        profile = None if epsilon is None else plan_split(releases, epsilon, log_delta, place)
        if profile is None or epsilon is None:
            return None
        found = meet_exactly(profile, epsilon, log_delta, nats_apart(profile, epsilon, share), share=share)
        if found is not None:
            return found
        low, high = profile.log_bounds(epsilon)
        if abs(high - log_delta) < REPLANNED_NATS and not high - low <= nats_of(share):  # another plan says no more
            following = next(others, None)
            if following is None:
                return None
            place = following
        else:
            epsilon = profile.follow(epsilon, log_delta)
    return None


def split_log_delta(
    releases: SampledReleases, epsilon: float, about: float | None = None, share: float = EXACT_SHARE
) -> float | None:
    """Return log δ(ε) when a record leaves, rounded up; None where lines would be long, or say too little.

    `about` is a first guess of it, if there is one.

    Holds for:  Poisson sampling, add-or-remove-one, one of two directions; adaptive composition.
    Tightness:  so near that ε would be within that share of what the pairs need.
    """
    guess = _guess_log_delta(releases, epsilon)
    guesses = iter([*([] if about is None else [about]), *(guess + more for more in RAISED_NATS)])
    log_delta, place, others = next(guesses), FIRST_CUT, iter(OTHER_CUTS)
    for _ in range(PLANS):
        profile = plan_split(releases, epsilon, log_delta, place) if SMALLEST_LOG_DELTA < log_delta < 0 else None
        if profile is None:
            another = next(guesses, None)
            if another is None:
                return None
            log_delta = another
            continue
        low, high = profile.log_bounds(epsilon)
        is_planned_here = abs(high - log_delta) < REPLANNED_NATS  # then ε was lowered by four times about this slack
        if high - low <= (nats_of(share) if is_planned_here else nats_apart(profile, epsilon, share) / 2):
            return high if profile.log_lower(epsilon * (1 - share)) >= high else None
        if is_planned_here:
            following = next(others, None)
            if following is None:
                return None
            place = following
        log_delta = high
    return None


def split_variation(releases: SampledReleases) -> float | None:
    """Return log δ(0), the total variation of all releases, rounded up; None where lines would be long.

    With c_f some times what all releases may lose together when none is large, no release gives back what a far one
    takes: δ(0) is P(F) - Q(F) but for near ones. It is the same in both directions.

    Holds for:  Poisson sampling, add-or-remove-one, both directions; adaptive composition; no plain noise.
    Tightness:  so near that ε would be within 1e-12 of 0.
    """
    least = releases.largest_joining_loss
    if not least < LARGEST_EPSILON:
        return None
    about = math.log(min(releases.deviation, 1.0)) - 1.0
    for scale in VARIATION_SCALES:
        for _ in range(VARIATION_PLANS):
            profile = plan_split(releases, 0.0, about, scale=scale * least)
            if profile is None:
                break
            (low, high), slope = profile.log_bounds(0.0), profile.log_upper(0.0)[1]
            if high - low <= min(EXACT_NATS, -EXACT_AT_ZERO * slope):
                return min(high, 0.0)
            if abs(high - about) < REPLANNED_NATS:
                break
            about = high
    return None


def _guess_log_delta(releases: SampledReleases, epsilon: float) -> float:
    """Return about log δ(ε): of one large loss, of many small ones, which are about normal, or of a few large ones.

    The loss of k sampled releases, all large, is k log γ and that of k Gaussians. δ is at most that of all Gaussians.
    """
    one, few, gaussians, near = [], [], releases.variance, releases.variance
    for law, n in releases.parts:
        gaussians += n * law.mean * law.mean
        near += n * _square_below(law, epsilon)
        one.append(math.log(n) + log_delta_of_sample(law.mean, law.rate, epsilon))
        k = np.arange(2.0, min(n, MOST_LARGE) + 1)
        if len(k):
            chosen = np.cumsum(np.log(np.maximum(n - np.arange(len(k) + 1.0), 1.0) / np.arange(1.0, len(k) + 2)))[1:]
            logs = _log_delta_of_gaussian(law.mean * np.sqrt(k), epsilon - k * math.log(law.rate))
            few.append(float(np.logaddexp.reduce(logs + chosen + k * math.log(law.rate))))
    ends = np.array([math.sqrt(near), math.sqrt(gaussians)])
    small, most = _log_delta_of_gaussian(ends, np.array([epsilon, epsilon]))
    return min(float(np.logaddexp.reduce([*one, *few, small])), float(most), -1e-3)


def _square_below(law: SampledGaussian, epsilon: float) -> float:
    """Return E_Q(w-1)² where the loss is at most ε: beyond, one release is large."""
    at = coordinate_of(max(epsilon, LEAST_GUESSED), law.mean, law.rate)
    near, shifted, twice = (math.erfc((m - at) / math.sqrt(2.0)) / 2 for m in (0.0, law.mean, 2 * law.mean))
    return law.rate**2 * max(math.exp(law.mean**2) * twice - 2 * shifted + near, LEAST_GUESSED)


def _log_delta_of_gaussian(mean: Array, epsilon: Array) -> Array:
    """Return about log δ(ε) of N(μ, 1) against N(0, 1): φ(t)·(m(t) - m(t+μ)), m Mills' ratio, t = ε/μ - μ/2."""
    from scipy.special import erfcx

    t = np.maximum(epsilon / mean - mean / 2, LEAST_T)
    mills = erfcx(t / math.sqrt(2.0)) - erfcx((t + mean) / math.sqrt(2.0))
    return np.asarray(-t * t / 2 + np.log(np.maximum(mills, 1e-300) / 2))


def _guess_epsilon(releases: SampledReleases, log_delta: float) -> float | None:
    """Return about the ε of a δ, by halving."""
    low, high = LEAST_LOG_EPSILON, math.log(LARGEST_EPSILON)
    ends = _guess_log_delta(releases, math.exp(low)), _guess_log_delta(releases, math.exp(high))
    if ends[1] > log_delta or ends[0] < log_delta:
        return None
    while high - low > GUESS_NATS:
        middle = (low + high) / 2
        low, high = (middle, high) if _guess_log_delta(releases, math.exp(middle)) > log_delta else (low, middle)
    return math.exp(high)
