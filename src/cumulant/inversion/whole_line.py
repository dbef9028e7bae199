"""All losses that δ can see, of a record that leaves or joins: tilts, Chernoff's bounds, and the line near a point.

Where a record leaves, and tilts are large, far losses are cut off where δ cannot see them: they are left out.

K of all releases is the sum of theirs, and its derivatives put the line near its saddle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.inversion.contour import SMALLEST_LOG_DELTA, Contour, bound_epsilon, bound_log_delta
from cumulant.inversion.plan import approximate, curvature_of
from cumulant.inversion.sized_line import JOINS, LEAVES, MOST_POINTS, Orientation, SizedLaw, SizedMeasure
from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.release_tails import LARGEST_EPSILON
from cumulant.pairs.sampled_gaussian import (
    EXPONENT_AT_MOST,
    RealTilts,
    SampledGaussian,
    SampledReleases,
    bound_negative_moments,
    coordinate_of,
)
from cumulant.pairs.size_classes import NORMAL_NATS, Size, SizeClasses, reach_of

OUT_OF_SIGHT_NATS = 27.7  # below δ, what a cut may leave out: 1e-12
LEAST_SHARPNESS = 1.5  # over a unit of t
CUT_RISE_NATS = 5.0  # by which a tilted law may rise beyond c_f
LARGEST_SHARPNESS = 40.0  # a
SHARPNESS_OF_STEEP = 4.0  # times μ, at least
SHARPER = 1.4  # by which a grows until the tilted law ends
ENDS = 6.0, 8.0, 10.0, 13.0, 17.0, 22.0, 30.0  # over the sharpness, b beyond c_f
FALLEN_AT_END_NATS = 62.0  # by which a tilted law has fallen at b
LEAST_END = 1.0  # b: nodes are multiples of a step, and b lies between two
FARTHEST_UNCUT = 30.0  # t up to which a line needs no cut
DELTA_GUESSES = 2  # of log δ
GUESSED_SHARES = (1.0, 0.3)  # of the tilt of a normal loss, around which it is looked for
FIRST_GUESS_NATS = 10.0  # below a normal loss, the first of them
LEAST_NATS = 1e-9  # of -log δ, for which a line is planned
FIRST_TILTS = 2.0 ** np.arange(-2.5, 1.5, 0.5)  # over the tilt of a normal loss, for Chernoff's bound
NEAR_TILTS, WIDE_TILTS = 2.0 ** np.arange(-3.0, 1.25, 0.25), 2.0 ** np.arange(-6.0, 4.25, 0.25)  # likewise, for lines
LEAST_LOG_EPSILON = -25.0
GUESS_NATS = 5e-3  # of log ε
MOST_LARGE = 12  # releases that are large, in a guess
LEAST_GUESSED = 1e-12  # ε, and a variance over γ²
LEAST_T = -30.0  # of a guess


@final
@dataclass(frozen=True, slots=True, eq=False)
class WholeLine:
    """All releases in one direction, without what δ cannot see, and K' and K'' of them at the measure's tilts."""

    measure: SizedMeasure
    slope: Array
    bend: Array
    log_left_out: float  # of P

    @staticmethod
    def at(releases: SampledReleases, direction: Orientation, log_delta: float, tilts: Array) -> WholeLine | None:
        """Return the line's tilts for a δ, around that of a normal loss."""
        return WholeLine.of(releases, direction, math.sqrt(-2 * log_delta) / releases.deviation, log_delta, tilts)

    @staticmethod
    def of(
        releases: SampledReleases, direction: Orientation, first_tilt: float, log_delta: float, tilts: Array
    ) -> WholeLine | None:
        """Return the line's tilts around the first; None where sums over nodes would be long."""
        tau, laws, is_cut = tilts * first_tilt, [], False
        s, slope, bend = direction.power(tau), releases.variance * (tau + 0.5), np.full(len(tau), releases.variance)
        with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
            for law, n in releases.parts:
                size, classes = _seen(releases, law, direction, (first_tilt, float(tau[-1])), log_delta)
                if classes is None:
                    return None
                end, far = (None, None) if size is Size.ANY else (classes.end, classes.far)
                sums = RealTilts.of(law, s, classes.ends, end, releases.count)
                if sums is None:
                    return None
                log_base, mean, spread = sums.log_moments(far)
                laws.append(SizedLaw(classes, n, size, None, log_base))
                slope, bend, is_cut = slope + n * mean, bend + n * spread, is_cut or size is not Size.ANY
            # where a record joins, losses that are not about normal make the line fall more slowly than F'' says
            curvature = curvature_of(tau, bend) if direction is LEAVES else None
            measure = SizedMeasure.of(releases, direction, laws, tau, curvature)
        known, left_out = slice(0, len(measure.tau)), log_delta - OUT_OF_SIGHT_NATS + math.log(2.0)
        if len(measure.tau) < 2:
            return None
        return WholeLine(measure, slope[known], bend[known], left_out if is_cut else -math.inf)

    def saddle(self, *, log_delta: float | None = None, epsilon: float | None = None) -> tuple[float, float] | None:
        """Return ε and log δ, one asked for, the other by the saddle-point approximation; None if no tilt is near."""
        tau = self.measure.tau
        logs, at = approximate(tau, self.measure.k, self.slope, self.bend)
        away = logs - log_delta if log_delta is not None else at - (epsilon or 0.0)
        place = int(np.argmin(np.abs(away)))
        if not 0 < place < len(tau) - 1:
            return None
        tilt, here, there = float(tau[place]), float(logs[place]), float(at[place])
        width = float(curvature_of(tau[place], self.bend[place]))
        if log_delta is not None:  # -log δ grows by τx + x²/2F'' next to the ε of a tilt
            above = here - log_delta
            epsilon = there + 2 * above / (tilt + math.sqrt(max(tilt * tilt + 2 * above / width, 0.0)))
        assert epsilon is not None
        log_delta = here - (epsilon - there) * (tilt + (epsilon - there) / (2 * width))
        return (epsilon, log_delta) if epsilon > 0 > log_delta else None

    def near(self, epsilon: float | None, log_delta: float) -> tuple[float, float] | None:
        """Return a point of the profile, at an ε if it is known; None if no tilt is near."""
        if epsilon is not None:
            return self.saddle(epsilon=epsilon) or (epsilon, log_delta)
        found = self.saddle(log_delta=log_delta)
        if found is None and self.measure.direction is JOINS:
            return joining_ceiling(self.measure.releases, log_delta), log_delta
        return found

    def contour(self, epsilon: float, log_delta: float, points: int = MOST_POINTS) -> Contour | None:
        """Return the line near a point of the profile; None where it would be long."""
        with np.errstate(all="ignore"):  # likewise
            line = self.measure.line(epsilon, log_delta, points=points)
            return None if line is None else line.contour(self.log_left_out)


def bound_joining(releases: SampledReleases, log_delta: float) -> tuple[Array, Array]:
    """Return tilts around that of a normal loss, and bounds of K there of a record that joins."""
    tau = FIRST_TILTS * (math.sqrt(-2 * log_delta) / releases.deviation)
    k = releases.plain_k(tau)
    with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
        for law, n in releases.parts:
            ends = reach_of(law, -float(tau[-1]), releases.count)
            k = k + n * bound_negative_moments(law, -tau, ends, releases.count)
    return tau, k


def joining_ceiling(releases: SampledReleases, log_delta: float) -> float:
    """Return Chernoff's bound of the ε of a record that joins, or its largest loss."""
    tau, k = bound_joining(releases, log_delta)
    return min(float(bound_epsilon(tau, k, log_delta).min()), releases.largest_joining_loss)


def joining_log_ceiling(releases: SampledReleases, log_delta: float, epsilon: float) -> float:
    """Return Chernoff's bound of log δ(ε) of a record that joins; -inf beyond its largest loss."""
    tau, k = bound_joining(releases, log_delta)
    return float(bound_log_delta(tau, k, epsilon).min()) if epsilon < releases.largest_joining_loss else -math.inf


def saddle_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    """Return about log δ(ε), so that its line will be the one on which ε at that δ is found."""
    deviation = releases.deviation
    above = min(max(epsilon / deviation - deviation / 2, 0.0), 1e9)  # standard deviations of one Gaussian
    about = -0.5 * above * above - FIRST_GUESS_NATS
    for turn in range(DELTA_GUESSES):
        if not SMALLEST_LOG_DELTA < about < -LEAST_NATS:
            return None
        tilt = math.sqrt(-2 * about) / deviation if turn else max(epsilon / deviation**2, 0.5)
        tried = ((tilt * share, tilts) for share in GUESSED_SHARES for tilts in (NEAR_TILTS, WIDE_TILTS))
        lines = (WholeLine.of(releases, LEAVES, first, about, tilts) for first, tilts in tried)
        points = (line.saddle(epsilon=epsilon) for line in lines if line is not None)
        point = next((point for point in points if point is not None), None)
        if point is None:
            return None
        about = point[1]
    return about if SMALLEST_LOG_DELTA < about < -LEAST_NATS else None


def _seen(
    releases: SampledReleases,
    law: SampledGaussian,
    direction: Orientation,
    tilts: tuple[float, float],
    log_delta: float,
) -> tuple[Size, SizeClasses | None]:
    """Return all releases of a law, or where a first tilt would take them far, those that δ can see."""
    first, last = (direction.power(tilt) for tilt in tilts)
    if first < 0 or reach_of(law, first, releases.count)[1] <= FARTHEST_UNCUT:
        return Size.ANY, SizeClasses.all_of(law, reach_of(law, last, releases.count))
    unseen = place_unseen(law, log_delta, releases.count)
    return Size.MIDDLE, cut_off(law, unseen, first - 1, 0.0, reach_of(law, 0.0, releases.count)[0])


def place_unseen(law: SampledGaussian, log_delta: float, releases: int) -> float:
    """Return a place beyond which, however softly, lies next to nothing of δ: of each release at most 2e^log_each of P.

    E[1-χ] of N(m, 1) is Φ((m-c)/κ) <= ½e^{-((c-m)/κ)²/2}, κ² = 1 + 1/2a², for c >= m. Beyond b, 1 is at most twice
    1 - χ.
    """
    log_each = log_delta - OUT_OF_SIGHT_NATS - math.log(releases)
    width = math.sqrt(1 + 0.5 / LEAST_SHARPNESS**2)
    far = law.mean + width * math.sqrt(max(2 * (math.log(law.rate) - log_each), 0.0))
    return max(width * math.sqrt(-2 * log_each), far) * (1 + 1e-12)


def cut_off(
    law: SampledGaussian, at: float, tilt: float, sharpness_of_place: float, first: float
) -> SizeClasses | None:
    """Return classes from a first place on, far releases beginning at another, sharply enough for a tilt.

    None where no sharpness would do; any is sound.
    """
    mean = law.mean
    if not mean * at < EXPONENT_AT_MOST:
        return None
    log_odds = math.log(law.rate) - math.log1p(-law.rate) + mean * at - mean**2 / 2
    p = 1 / (1 + math.exp(min(-log_odds, EXPONENT_AT_MOST)))
    rise, bend = (1 + tilt) * mean * p - at, (1 + tilt) * mean**2 * p * (1 - p) - 1
    square = max(bend, 0.0) / 2 + max(rise, 0.0) ** 2 / (4 * CUT_RISE_NATS) + 1
    sharpness = max(math.sqrt(square), LEAST_SHARPNESS, SHARPNESS_OF_STEEP * mean, sharpness_of_place * at)
    peak = (1 + tilt) * math.log1p(law.rate * math.expm1(mean * at - mean**2 / 2)) - at * at / 2
    far = max(math.sqrt(max(at - m, 0.0) ** 2 + 2 * NORMAL_NATS) + m for m in (0.0, mean))
    while sharpness <= LARGEST_SHARPNESS:
        ends = at + np.array(ENDS) / sharpness
        logs = (1 + tilt) * np.log1p(law.rate * np.expm1(mean * ends - mean**2 / 2)) - ends**2 / 2
        fallen = ends[logs + log_half_erfc(sharpness * (ends - at)) < peak - FALLEN_AT_END_NATS]
        if len(fallen):
            last = float(fallen[0])
            is_ordinary = mean * max(last, far) < EXPONENT_AT_MOST and last >= LEAST_END
            return SizeClasses(law, None, at, sharpness, last, (first, max(far, last))) if is_ordinary else None
        sharpness *= SHARPER
    return None


# Where it is planned first -----------------------------------------------------------------------------------------


def guess_log_delta(releases: SampledReleases, epsilon: float) -> float:
    """Return about log δ(ε): of one large loss, of many small ones, which are about normal, or of a few large ones.

    The loss of k sampled releases, all large, is k log γ and that of k Gaussians. δ is at most that of all Gaussians.
    """
    large, gaussians, near = [], releases.variance, releases.variance
    for law, n in releases.parts:
        gaussians, near = gaussians + n * law.mean * law.mean, near + n * _square_below(law, epsilon)
        large.append(math.log(n) + _log_delta_of_sample(law.mean, law.rate, epsilon))
        k = np.arange(2.0, min(n, MOST_LARGE) + 1)
        chosen = np.array([math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1) for m in k.tolist()])
        log_rates = k * math.log(law.rate)
        large += (_log_delta_of_gaussian(law.mean * np.sqrt(k), epsilon - log_rates) + chosen + log_rates).tolist()
    small, most = _log_delta_of_gaussian(np.sqrt([near, gaussians]), epsilon)
    return min(float(np.logaddexp.reduce([*large, small])), float(most), -1e-3)


def _square_below(law: SampledGaussian, epsilon: float) -> float:
    """Return E_Q(w-1)² where the loss is at most ε: beyond, one release is large."""
    at = coordinate_of(max(epsilon, LEAST_GUESSED), law.mean, law.rate)
    near, shifted, twice = (math.erfc((m - at) / math.sqrt(2.0)) / 2 for m in (0.0, law.mean, 2 * law.mean))
    return law.rate**2 * max(math.exp(law.mean**2) * twice - 2 * shifted + near, LEAST_GUESSED)


def _log_delta_of_sample(mean: float, rate: float, epsilon: float) -> float:
    """Return about log δ(ε) of one release that leaves: γφ(t-μ)·(m(t-μ) - m(t)), m Mills' ratio, L(t) = ε."""
    t = coordinate_of(epsilon, mean, rate)
    ends = np.array([t - mean, t])
    logs = log_half_erfc(ends / math.sqrt(2.0)) + ends**2 / 2
    near, far = np.exp(np.minimum(logs, EXPONENT_AT_MOST))
    return math.log(rate) - float(ends[0]) ** 2 / 2 + math.log(max(near - far, 1e-300))


def _log_delta_of_gaussian(mean: Array, epsilon: Array | float) -> Array:
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
