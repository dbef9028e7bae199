"""Rare steps: δ of sampled Gaussian noise, when a record leaves, from releases sorted by the size of their losses.

Where few releases lose much, and all others next to nothing, no tilt makes ε likely: small losses and losses far beyond
ε outweigh it. Let F be the event that at least one release is far, N the measure of none, and S that of none that is
more than quiet. As (x)_+ = x + (-x)_+,

    δ(ε) = δ_S(ε) + (δ_N - δ_S)(ε) + P(F) - e^ε Q(F) + e^ε E_Q[(1 - e^{L-ε})_+; F].

- δ_S <= c(τ) S(τ) e^{-τε}, Chernoff's bound, is nothing beside δ, or nothing is called quiet.
- δ_N - δ_S belongs to Π N_i^{n_i} - Π S_i^{n_i}.
- P(F) and Q(F) are normal tails.
- The last term is e^ε times a profile at -ε: that of Π M_i^{n_i} - Π N_i^{n_i} for the loss -L under Q.

Both lines are those of `cumulant.inversion.sized_line`. A law whose far losses δ cannot see has no part in F: they are
left out, and δ may be larger by as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from cumulant.inversion.contour import Contour, log_chernoff
from cumulant.inversion.sampled_line import OUT_OF_SIGHT_NATS
from cumulant.inversion.sized_line import SizedLaw, SizedMeasure
from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.sampled_gaussian import (
    EXPONENT_AT_MOST,
    LEAST_SHARPNESS,
    SampledGaussian,
    SampledReleases,
    coordinate_of,
)
from cumulant.pairs.size_classes import Size, SizeClasses
from cumulant.pairs.size_moments import (
    LARGEST_EPSILON,
    UNITS,
    FarTail,
    FarTails,
    RealTilts,
    bound_far,
    log_negative_moments,
)

MIDDLE_TILTS = 2.0 ** np.concatenate(  # over the tilt of one loss, finer where lines are
    [np.arange(-6.0, -1.5, 0.25), np.arange(-1.5, 0.75, 1 / 12), np.arange(0.75, 2.0, 0.25)]
)
FEWEST_MIDDLE_TILTS = 8  # of those
FAR_TILTS = 2.0 ** (np.arange(-24.0, 18.0) / 6)  # over the tilt of one loss
FEWEST_FAR_TILTS = 2  # the line, and a larger one that bounds its aliases
LEANING_NATS = 15.0  # of w^-τ, at most, on a line
SKIPPED_FAR_NATS = 27.0  # below δ, where what is left of far releases takes no line
QUIET_SHARES = 0.75, 0.6, 0.45, 0.33, 0.24, 0.17, 0.12, 0.08, 0.05, 0.03, 0.015  # of ε, the largest quiet loss
QUIET_DELTA_NATS = 27.0  # below δ, where δ_S is nothing beside it
LEAST_APART = 2.0  # of c_q and c_f, over the sharpness
CUT_RISE_NATS = 5.0  # by which a tilted law may rise beyond c_f
LARGEST_SHARPNESS = 40.0  # a
SHARPNESS_OF_STEEP = 4.0  # times μ, at least
SHARPER = 1.4  # by which a grows until the tilted law ends
ENDS = 6.0, 8.0, 10.0, 13.0, 17.0, 22.0, 30.0  # over the sharpness, b beyond c_f
FALLEN_AT_END_NATS = 62.0  # by which a tilted law has fallen at b
NORMAL_NATS = 60.0  # by which normal laws have fallen where nodes end
LEAST_END = 1.0  # b: nodes are multiples of a step, and b lies between two
STEPS = 12  # of Newton's method
BESIDE_EPSILON = 1e-6  # of ε, at which a slope is looked for


class FarPlace(NamedTuple):
    """Where releases begin to be far: c_f, as a share of ε, and how sharply at least, times c_f.

    Next to ε the line of N is low where single losses make up δ. Where many small ones do, it is lower if c_f is, and
    what far ones add may be some times δ. With a = 0.35 c_f, Q(F) is at most e^2 times what lies beyond c_f.
    """

    share: float
    sharpness: float


FIRST_CUT = FarPlace(1.0, 0.0)
OTHER_CUTS = FarPlace(1.0, 0.35), FarPlace(0.7, 0.7)  # where bounds are too far apart with the first


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitProfile:
    """Bounds of δ(ε), when a record leaves, near the ε that they were planned for."""

    near: Contour
    quiet: tuple[Array, Array] | None  # τ and K of quiet releases, raised
    tails: FarTails
    far: Contour | None  # of -L under Q, where any far release can be seen
    far_ceiling: tuple[Array, Array]  # τ and K of the same measure, raised
    log_left_out: float

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound of log δ(ε), and about its slope."""
        if not epsilon < LARGEST_EPSILON:
            return 0.0, math.nan
        high, slope = self.near.log_upper(epsilon)
        high, (gain, doubt), (rest, rise) = min(high, 0.0), self.tails.gain(epsilon), self._rest_upper(epsilon)
        far = max(gain + rest + doubt, 0.0)
        left_out = math.exp(self.log_left_out)
        total = (math.exp(high) + far + self._quiet(epsilon) + left_out) * (1 + 4 * UNITS * (1 - high))
        falls = math.exp(high) * slope - math.exp(epsilon) * self.tails.slope + rise
        if not 0 < total < 1:
            return 0.0, slope
        return math.log(total), float(falls / total) if falls < 0 else slope

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return both bounds of log δ(ε)."""
        return self.log_lower(epsilon), self.log_upper(epsilon)[0]

    def log_lower(self, epsilon: float) -> float:
        """Return the lower one; -inf where nothing is known."""
        middle, high = self.near.log_bounds(epsilon)
        gain, doubt = self.tails.gain(epsilon)
        far = gain + self._rest_lower(epsilon) - doubt
        low = (math.exp(min(middle, 0.0)) + far) * (1 - 4 * UNITS * (1 - high))
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
        return 0.0 if self.quiet is None else _chernoff(*self.quiet, epsilon)

    def _rest_upper(self, epsilon: float) -> tuple[float, float]:
        """Return a bound of e^ε E_Q[(1 - e^{L-ε})_+; F], and about its slope: without a line, Chernoff's."""
        if self.far is None:
            return math.exp(epsilon) * _chernoff(*self.far_ceiling, -epsilon), 0.0
        high, slope = self.far.log_upper(-epsilon)
        log_rest = min(high, 0.0) + epsilon
        rest = math.exp(log_rest) * (1 + UNITS * (4 + abs(high) + epsilon))
        return rest, rest * (1 - slope)

    def _rest_lower(self, epsilon: float) -> float:
        if self.far is None:
            return 0.0
        low = self.far.log_lower(-epsilon)
        return math.exp(min(low, 0.0) + epsilon) * (1 - UNITS * (4 + abs(low) + epsilon)) if low > -math.inf else 0.0


def _chernoff(tau: Array, k: Array, epsilon: float) -> float:
    """Return Chernoff's bound of a profile."""
    return math.exp(min(float(np.min(log_chernoff(tau) + k - tau * epsilon)) + 1e-9, 0.0))


class _Sorted(NamedTuple):
    """One law sorted by size, and whether δ sees its far releases; else they are left out."""

    classes: SizeClasses
    n: int
    is_seen: bool


def plan_split(
    releases: SampledReleases,
    epsilon: float,
    log_delta: float,
    place: FarPlace = FIRST_CUT,
    *,
    scale: float | None = None,
) -> SplitProfile | None:
    """Return bounds of δ near ε, where it is about δ, with c_f in that place; None where they would take long.

    Losses of the size of `scale` make up δ: that is ε, unless ε is 0.
    """
    size = epsilon if scale is None else scale
    if not 0 < size < LARGEST_EPSILON:
        return None
    with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
        laws = [_sort(releases, part, size, log_delta, place) for part in releases.parts]
        if any(law is None for law in laws):
            return None
        known = [law for law in laws if law is not None]
        near = _near_line(releases, known, (epsilon, size), log_delta)
        far = None if near is None else _far_line(releases, known, (epsilon, size), log_delta)
    if near is None or far is None:
        return None
    unseen = math.fsum(law.n for law in known if not law.is_seen) / releases.count
    left_out = log_delta - OUT_OF_SIGHT_NATS + math.log(2 * unseen) if unseen else -math.inf
    (line, quiet), (tails, far_line, ceiling) = near, far
    return SplitProfile(line, quiet, tails, far_line, ceiling, left_out)


def _sort(
    releases: SampledReleases, part: tuple[SampledGaussian, int], size: float, log_delta: float, place: FarPlace
) -> _Sorted | None:
    """Return far releases from a place on, at least as sharply as δ's tilt asks for; any are sound."""
    law, tilt = part[0], (4 - log_delta) / size
    mean, at = law.mean, coordinate_of(place.share * size, law.mean, law.rate)
    unseen = _place_unseen(law, log_delta - OUT_OF_SIGHT_NATS - math.log(releases.count))
    is_seen, at = at < unseen, min(at, unseen)
    if not mean * at < EXPONENT_AT_MOST:
        return None
    log_odds = math.log(law.rate) - math.log1p(-law.rate) + mean * at - mean**2 / 2
    p = 1 / (1 + math.exp(min(-log_odds, EXPONENT_AT_MOST)))
    rise, bend = (1 + tilt) * mean * p - at, (1 + tilt) * mean**2 * p * (1 - p) - 1
    square = max(bend, 0.0) / 2 + max(rise, 0.0) ** 2 / (4 * CUT_RISE_NATS) + 1
    sharpness = max(math.sqrt(square), LEAST_SHARPNESS, SHARPNESS_OF_STEEP * mean, place.sharpness * at)
    peak = (1 + tilt) * math.log1p(law.rate * math.expm1(mean * at - mean**2 / 2)) - at * at / 2
    while True:
        ends = at + np.array(ENDS) / sharpness
        logs = (1 + tilt) * np.log1p(law.rate * np.expm1(mean * ends - mean**2 / 2)) - ends**2 / 2
        fallen = np.flatnonzero(logs + log_half_erfc(sharpness * (ends - at)) < peak - FALLEN_AT_END_NATS)
        if len(fallen):
            break
        sharpness *= SHARPER
        if sharpness > LARGEST_SHARPNESS:
            return None
    last = float(ends[fallen[0]])
    leaning = min(-float(_far_tilts(size, log_delta)[-1]) * math.log1p(-law.rate), LEANING_NATS)
    first = -math.sqrt(2 * (NORMAL_NATS + leaning + math.log(releases.count * (1 + law.rate * tilt))))
    far = max(
        math.sqrt(max(at, 0.0) ** 2 + 2 * NORMAL_NATS), mean + math.sqrt(max(at - mean, 0.0) ** 2 + 2 * NORMAL_NATS)
    )
    if not mean * max(last, far) < EXPONENT_AT_MOST or not last >= LEAST_END:
        return None
    return _Sorted(SizeClasses(law, None, at, sharpness, last, (first, max(far, last))), part[1], is_seen)


def _place_unseen(law: SampledGaussian, log_each: float) -> float:
    """Return a place beyond which, however softly, lies at most e^log_each of P; see `FarCut.of_leaving`."""
    width = math.sqrt(1 + 0.5 / LEAST_SHARPNESS**2)
    far = law.mean + width * math.sqrt(max(2 * (math.log(law.rate) - log_each), 0.0))
    return max(width * math.sqrt(-2 * log_each), far) * (1 + 1e-12)


def _near_line(
    releases: SampledReleases, laws: Sequence[_Sorted], asked: tuple[float, float], log_delta: float
) -> tuple[Contour, tuple[Array, Array] | None] | None:
    """Return the line of N less S, and what bounds δ_S, if any release is called quiet."""
    epsilon, size = asked
    tau = MIDDLE_TILTS * ((4 - log_delta) / size)
    tilts = [RealTilts.of(law.classes, tau) for law in laws]
    if any(one is None for one in tilts):
        return None
    known = [(law, one, one.log_below(law.classes.far)) for law, one in zip(laws, tilts, strict=True) if one]
    whole = [SizedLaw(law.classes, law.n, Size.MIDDLE, None, log_near) for law, _, log_near in known]
    chernoff = log_chernoff(tau) - tau * epsilon + releases.plain_k(tau)
    for chosen in (_call_quiet(known, chernoff, size, log_delta), whole):
        if chosen is None:
            continue
        k = SizedMeasure(releases, True, tuple(chosen), tau).k
        some = len(k) if np.all(np.isfinite(k)) else int(np.argmin(np.isfinite(k)))  # tilts that doubles hold
        if some < FEWEST_MIDDLE_TILTS:
            continue
        measure = SizedMeasure(releases, True, tuple(_up_to(law, some) for law in chosen), tau[:some])
        contour = measure.contour(measure.plan(epsilon, log_delta))
        if contour is not None:
            return contour, (measure.tau, measure.k_base) if measure.is_difference else None
    return None


def _up_to(law: SizedLaw, count: int) -> SizedLaw:
    """Return a law at the first tilts."""
    more = None if law.log_more is None else law.log_more[:count]
    return law._replace(log_base=law.log_base[:count], log_more=more)


def _call_quiet(
    known: Sequence[tuple[_Sorted, RealTilts, Array]], chernoff: Array, size: float, log_delta: float
) -> list[SizedLaw] | None:
    """Return the laws with losses up to the largest share of ε quiet that can be; None where none can."""
    found, first, last = None, 0, len(QUIET_SHARES)
    while first < last:
        middle = (first + last) // 2
        places = [
            coordinate_of(QUIET_SHARES[middle] * size, law.classes.law.mean, law.classes.law.rate)
            for law, _, _ in known
        ]
        apart = [
            law.classes.sharpness * (law.classes.far - at) >= LEAST_APART
            for (law, _, _), at in zip(known, places, strict=True)
        ]
        # what is out of sight may be quiet up to where it is cut
        logs = [
            one.log_below(at) if is_apart else log_near
            for (_, one, log_near), at, is_apart in zip(known, places, apart, strict=True)
        ]
        k = chernoff + sum(law.n * log_s for (law, _, _), log_s in zip(known, logs, strict=True))
        is_fine = all(ok or not law.is_seen for (law, _, _), ok in zip(known, apart, strict=True)) and any(apart)
        if is_fine and float(np.min(k)) <= log_delta - QUIET_DELTA_NATS:
            found, last = (places, apart, logs), middle
        else:
            first = middle + 1
    if found is None:
        return None
    laws = []
    for (law, one, _), at, is_apart, log_s in zip(known, *found, strict=True):
        if is_apart:
            classes = replace(law.classes, quiet=at)
            laws.append(SizedLaw(classes, law.n, Size.QUIET, Size.MIDDLE, log_s, one.log_middle(classes)))
        else:
            laws.append(SizedLaw(law.classes, law.n, Size.MIDDLE, None, log_s))
    return laws


def _far_tilts(size: float, log_delta: float) -> Array:
    return np.asarray(FAR_TILTS / size * max(1.0, -log_delta / 8))


def _far_line(
    releases: SampledReleases, laws: Sequence[_Sorted], asked: tuple[float, float], log_delta: float
) -> tuple[FarTails, Contour | None, tuple[Array, Array]] | None:
    """Return P(F) and Q(F), and the line of M less N for the loss -L under Q; None where it would be long."""
    epsilon, size = asked
    tau, sized = _far_tilts(size, log_delta), []
    for law in laws:
        log_m = log_negative_moments(law.classes.law, tau, releases.count)
        log_f = bound_far(law.classes, tau) if law.is_seen else None
        sized.append(SizedLaw(law.classes, law.n, Size.ANY, Size.FAR if law.is_seen else None, log_m, log_f))
    tails = FarTails(tuple((FarTail.of(law.classes), law.n) for law in laws if law.is_seen))
    measure = SizedMeasure(releases, False, tuple(sized), tau)
    if not measure.is_difference:
        return tails, None, (tau, np.full(len(tau), -np.inf))
    k = measure.k + 1e-9
    if float(np.min(log_chernoff(tau) + k + (1 + tau) * epsilon)) <= log_delta - SKIPPED_FAR_NATS:
        return tails, None, (tau, k)
    leaning = -math.log1p(-max(law.rate for law in releases.laws))
    some = int(np.sum(tau * leaning <= LEANING_NATS))
    if some < FEWEST_FAR_TILTS:
        return None
    contour = measure.contour(measure.plan(-epsilon, log_delta - epsilon, some))
    return None if contour is None else (tails, contour, (tau, k))
