"""About how large δ is of Gaussian noise on rare samples, and ε: where the split of losses is planned first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.far_releases import LARGEST_EPSILON
from cumulant.pairs.sampled_gaussian import EXPONENT_AT_MOST, SampledGaussian, SampledReleases, coordinate_of

LEAST_LOG_EPSILON = -25.0
GUESS_NATS = 5e-3  # of log ε
MOST_LARGE = 12  # releases that are large, in a guess
LEAST_T = -30.0  # of a guess
LEAST_GUESSED = 1e-12  # ε, and a variance over γ²
RAISED_NATS = 0.0, 2.0, 8.0  # nats, of a guess of log δ for which no plan was found: it is rather too small


def guess_log_deltas(releases: SampledReleases, epsilon: float) -> Sequence[float]:
    """Return about log δ(ε), and what is tried where no plan is found for that."""
    guess = guess_log_delta(releases, epsilon)
    return [guess + more for more in RAISED_NATS]


def guess_log_delta(releases: SampledReleases, epsilon: float) -> float:
    """Return about log δ(ε): of one large loss, of many small ones, which are about normal, or of a few large ones.

    The loss of k sampled releases, all large, is k log γ and that of k Gaussians. δ is at most that of all Gaussians.
    """
    one, few, gaussians, near = [], [], releases.variance, releases.variance
    for law, n in releases.parts:
        gaussians += n * law.mean * law.mean
        near += n * _square_below(law, epsilon)
        one.append(math.log(n) + _log_delta_of_sample(law.mean, law.rate, epsilon))
        k = np.arange(2.0, min(n, MOST_LARGE) + 1)
        if len(k):
            chosen = np.cumsum(np.log(np.maximum(n - np.arange(len(k) + 1.0), 1.0) / np.arange(1.0, len(k) + 2)))[1:]
            logs = _log_delta_of_gaussian(law.mean * np.sqrt(k), epsilon - k * math.log(law.rate))
            few.append(float(np.logaddexp.reduce(logs + chosen + k * math.log(law.rate))))
    ends = np.array([math.sqrt(near), math.sqrt(gaussians)])
    small, most = _log_delta_of_gaussian(ends, np.array([epsilon, epsilon]))
    return min(float(np.logaddexp.reduce([*one, *few, small])), float(most), -1e-3)


def _log_delta_of_sample(mean: float, rate: float, epsilon: float) -> float:
    """Return about log δ(ε) of one release that leaves: γφ(t-μ)·(m(t-μ) - m(t)), m Mills' ratio, L(t) = ε."""
    t = coordinate_of(epsilon, mean, rate)
    ends = np.array([t - mean, t])
    logs = log_half_erfc(ends / math.sqrt(2.0)) + ends**2 / 2
    near, far = np.exp(np.minimum(logs, EXPONENT_AT_MOST))
    return math.log(rate) - float(ends[0]) ** 2 / 2 + math.log(max(near - far, 1e-300))


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


def guess_epsilon(releases: SampledReleases, log_delta: float) -> float | None:
    """Return about the ε of a δ, by halving."""
    low, high = LEAST_LOG_EPSILON, math.log(LARGEST_EPSILON)
    ends = guess_log_delta(releases, math.exp(low)), guess_log_delta(releases, math.exp(high))
    if ends[1] > log_delta or ends[0] < log_delta:
        return None
    while high - low > GUESS_NATS:
        middle = (low + high) / 2
        low, high = (middle, high) if guess_log_delta(releases, math.exp(middle)) > log_delta else (low, middle)
    return math.exp(high)
