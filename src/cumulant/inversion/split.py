"""Bounds of δ of sampled Gaussian noise when a record leaves, as a sum of signed parts: what the ways of `choose` plan.

Let F be the event that at least one release is far (`cumulant.pairs.size_classes`), N the measure of none, and S that
of none that is more than quiet. As (x)_+ = x + (-x)_+, wherever far releases begin,

    δ(ε) = δ_S(ε) + (δ_N - δ_S)(ε) + P(F) - e^ε Q(F) + e^ε E_Q[(1 - e^{L-ε})_+; F].

- δ_S <= c(τ) S(τ) e^{-τε}, Chernoff's bound, is nothing beside δ, or nothing is called quiet.
- δ_N - δ_S belongs to Π N_i^{n_i} - Π S_i^{n_i}.
- P(F) and Q(F) are normal tails.
- The last term is e^ε times a profile at -ε: that of Π M_i^{n_i} - Π N_i^{n_i} for the loss -L under Q.

All lines are those of `cumulant.inversion.sized_line`. Where nothing is far N is everything, and that is the *plain*
line: many releases make up δ. Where few lose much, and all others next to nothing, no tilt makes ε likely, as small
losses and losses far beyond ε outweigh it: then far releases begin where one loses ε, the *split*. Where all are far,

    δ_{P‖Q}(ε) = 1 - e^ε + e^ε δ_{Q‖P}(-ε),

the profile is read from the *other side*: a record that joins has no loss above -log(1-γ), and where ε is small beside
losses of rare samples its line at -ε may end soon.

A law whose far losses δ cannot see has no part in F: they are left out, and δ may be larger by as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from cumulant.inversion.contour import Contour, log_chernoff
from cumulant.inversion.sized_line import JOINS, LEAVES, SizedLaw, SizedLine, SizedMeasure
from cumulant.inversion.whole_line import OUT_OF_SIGHT_NATS, WIDE_TILTS, WholeLine, cut_off, place_unseen
from cumulant.numerics.logspace import Array
from cumulant.pairs.release_tails import LARGEST_EPSILON, AllFar, FarTail, FarTails, bound_far
from cumulant.pairs.sampled_gaussian import (
    UNITS,
    RealTilts,
    SampledGaussian,
    SampledReleases,
    bound_negative_moments,
    coordinate_of,
)
from cumulant.pairs.size_classes import Size, SizeClasses, reach_of
from cumulant.profiles.profile import gaussian_log_delta

MIDDLE_TILTS = 2.0 ** np.concatenate(  # over the tilt of one loss, finer where lines are
    [np.arange(-6.0, -1.5, 0.25), np.arange(-1.5, 0.75, 1 / 12), np.arange(0.75, 2.0, 0.25)]
)
FEWEST_MIDDLE_TILTS = 8  # of those
FAR_TILTS = 2.0 ** (np.arange(-24.0, 18.0) / 6)  # over the tilt of one loss
FEWEST_FAR_TILTS = 2  # the line, and a larger one that bounds its aliases
LEANING_NATS = 15.0  # of w^-τ, at most, on a line
SKIPPED_FAR_NATS = 27.0  # below δ, where what is left of far releases takes no line
QUIET_SHARES = 0.6, 0.17, 0.03  # of ε, the largest quiet loss
QUIET_DELTA_NATS = 27.0  # below δ, where δ_S is nothing beside it
LEAST_APART = 2.0  # of c_q and c_f, over the sharpness
FARTHEST_DEVIATIONS = 4.0  # of all losses, beyond which a difference leaves little of the other side
FARTHEST_EPSILON = 4.0  # likewise
NO_TILTS = np.ones(1), np.full(1, -np.inf)  # of nothing


class FarPlace(NamedTuple):
    """Where releases begin to be far: where one loses a share of ε, and how sharply at least, times c_f.

    Next to ε the line of N is low where single losses make up δ. Where many small ones do, it is lower if c_f is, and
    what far ones add may be some times δ. Where ε is next to 0, far ones begin at a share of what all releases may give
    back together: what is left of δ(0) beside P(F) - Q(F) is small.
    """

    share: float = 1.0
    sharpness: float = 0.0
    share_of_all: float = 0.0

    def size(self, releases: SampledReleases, epsilon: float) -> float:
        """Return which losses make up δ."""
        return self.share_of_all * releases.largest_joining_loss if self.share_of_all > 0 else epsilon


FAR_AT_EPSILON, FAR_AT_ZERO = FarPlace(), FarPlace(share_of_all=0.25)  # where ε is next to 0
CUTS = FAR_AT_EPSILON, FarPlace(0.7, 0.7)  # the second where bounds are too far apart with the first


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitProfile:
    """Bounds of δ(ε), when a record leaves, near the ε that they were planned for."""

    near: Contour | None
    quiet: tuple[Array, Array] | None  # τ and K of quiet releases, raised
    tails: FarTails | AllFar
    far: Contour | None  # of -L under Q, where any far release can be seen
    far_ceiling: tuple[Array, Array] = NO_TILTS  # τ and K of the same measure, raised
    log_left_out: float = -math.inf

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound of log δ(ε), and about its slope."""
        if not epsilon < LARGEST_EPSILON:
            return 0.0, math.nan
        high, slope = (-math.inf, 0.0) if self.near is None else self.near.log_upper(epsilon)
        near, (gain, doubt), (rest, rise) = (
            math.exp(min(high, 0.0)),
            self.tails.gain(epsilon),
            self._rest_upper(epsilon),
        )
        far = max(gain + rest + doubt, 0.0)
        total = near * (1 + 4 * UNITS * (1 - min(high, 0.0))) if near > 0 else 0.0
        total = (total + far + self._quiet(epsilon) + math.exp(self.log_left_out)) * (1 + 4 * UNITS)
        falls = near * slope - math.exp(epsilon) * self.tails.slope + rise
        if not 0 < total < 1:
            return 0.0, slope
        return math.log(total) * (1 - UNITS), float(falls / total) if falls < 0 else slope

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return both bounds of log δ(ε)."""
        return self.log_lower(epsilon), self.log_upper(epsilon)[0]

    def log_lower(self, epsilon: float) -> float:
        """Return the lower one; -inf where nothing is known."""
        middle = -math.inf if self.near is None else self.near.log_lower(epsilon)
        gain, doubt = self.tails.gain(epsilon)
        near = math.exp(min(middle, 0.0)) * (1 - 4 * UNITS * (1 - middle)) if middle > -math.inf else 0.0
        low = (near + gain + self._rest_lower(epsilon) - doubt) * (1 - 4 * UNITS)
        return math.log(min(low, 1.0)) * (1 + UNITS) if low > 0 else -math.inf

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
        low = -math.inf if self.far is None else self.far.log_lower(-epsilon)
        return math.exp(min(low, 0.0) + epsilon) * (1 - UNITS * (4 + abs(low) + epsilon)) if low > -math.inf else 0.0


class Planned(NamedTuple):
    """Bounds of δ(ε), and near which ε."""

    epsilon: float
    bounds: Contour | SplitProfile


def _log_chernoff(tau: Array, k: Array, epsilon: float) -> float:
    return float(np.min(log_chernoff(tau) + k - tau * epsilon)) + 1e-9


def _chernoff(tau: Array, k: Array, epsilon: float) -> float:
    """Return Chernoff's bound of a profile."""
    return math.exp(min(_log_chernoff(tau, k, epsilon), 0.0))


# The other side -------------------------------------------------------------------------------------------------------


def plan_other_side(releases: SampledReleases, epsilon: float | None, log_delta: float, place: None) -> Planned | None:
    """Return bounds of δ near ε, where all releases are far; None where the line would be long, or ε is large."""
    if epsilon is None or not 0 <= epsilon < min(FARTHEST_DEVIATIONS * releases.deviation, FARTHEST_EPSILON):
        return None
    about = math.log(math.exp(gaussian_log_delta(releases.deviation, epsilon) - epsilon) - math.expm1(-epsilon))
    line = WholeLine.at(releases, JOINS, about, WIDE_TILTS) if about < 0 else None
    contour = None if line is None else line.contour(-epsilon, about)
    return None if contour is None else Planned(epsilon, SplitProfile(None, None, AllFar(), contour))


# The split ------------------------------------------------------------------------------------------------------------


class SortedLaw(NamedTuple):
    """One law sorted by size, and whether δ sees its far releases; else they are left out."""

    classes: SizeClasses
    n: int
    is_seen: bool


class _Asked(NamedTuple):
    """ε, about log δ there, and the size of losses that make it up."""

    epsilon: float
    log_delta: float
    size: float


class SplitLines(NamedTuple):
    """The lines of a split as `follow` left them, with their measures; no far one where Chernoff's bound is enough."""

    laws: list[SortedLaw]
    near: Any
    near_measure: SizedMeasure  # of N less S, if any release is called quiet, or of N
    far: Any
    far_measure: SizedMeasure  # of what all releases are more than N, if any far one is seen

    @property
    def unseen(self) -> int:
        """How many releases are left out where they are far."""
        return sum(law.n for law in self.laws if not law.is_seen)


def plan_split(
    releases: SampledReleases, epsilon: float | None, log_delta: float, place: FarPlace = FAR_AT_EPSILON
) -> Planned | None:
    """Return bounds of δ near ε, where it is about δ, with c_f in that place; None where they would take long."""
    if epsilon is None or (lines := follow_split(releases, epsilon, log_delta, place, SizedLine.contour)) is None:
        return None
    near, far = lines.near_measure, lines.far_measure
    left_out = (
        log_delta - OUT_OF_SIGHT_NATS + math.log(2 * lines.unseen / releases.count) if lines.unseen else -math.inf
    )
    profile = SplitProfile(
        lines.near,
        (near.tau, near.k_base) if near.is_difference else None,
        FarTails(tuple((FarTail.of(law.classes), law.n) for law in lines.laws if law.is_seen)),
        lines.far,
        (far.tau, far.k) if far.is_difference else NO_TILTS,
        left_out,
    )
    return Planned(epsilon, profile)


def follow_split(
    releases: SampledReleases, epsilon: float, log_delta: float, place: FarPlace, follow: Callable[[SizedLine], Any]
) -> SplitLines | None:
    """Return the lines of a split near ε, where it is about δ, each followed; None where one would take long."""
    asked = _Asked(epsilon, log_delta, place.size(releases, epsilon))
    if not 0 < asked.size < LARGEST_EPSILON:
        return None
    with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
        laws = [_sort(releases, part, asked, place) for part in releases.parts]
        known = [law for law in laws if law is not None]
        near = _near_line(releases, known, asked, follow) if len(known) == len(laws) else None
        far = None if near is None else _far_line(releases, known, asked, follow)
    return None if near is None or far is None else SplitLines(known, *near, *far)


def _sort(
    releases: SampledReleases, part: tuple[SampledGaussian, int], asked: _Asked, place: FarPlace
) -> SortedLaw | None:
    """Return far releases from a place on, at least as sharply as δ's tilt asks for; any are sound."""
    (law, n), tilt = part, (4 - asked.log_delta) / asked.size
    at = coordinate_of(place.share * asked.size, law.mean, law.rate)
    unseen = place_unseen(law, asked.log_delta, releases.count)
    leaning = min(float(_far_tilts(asked)[-1]), -LEANING_NATS / math.log1p(-law.rate))
    first = reach_of(law, -leaning, releases.count)[0]
    classes = cut_off(law, min(at, unseen), tilt, place.sharpness, first)
    return None if classes is None else SortedLaw(classes, n, at < unseen)


def _near_line(
    releases: SampledReleases, laws: Sequence[SortedLaw], asked: _Asked, follow: Callable[[SizedLine], Any]
) -> tuple[Any, SizedMeasure] | None:
    """Return the line of N less S, if any release can be called quiet, or of N."""
    tau = MIDDLE_TILTS * ((4 - asked.log_delta) / asked.size)
    known = []
    for law in laws:
        tilts = RealTilts.of(law.classes.law, 1 + tau, law.classes.ends, law.classes.end, releases.count)
        if tilts is None:
            return None
        known.append((law, tilts, tilts.log_below(law.classes.far)))
    whole = [SizedLaw(law.classes, law.n, Size.MIDDLE, None, log_near) for law, _, log_near in known]
    chernoff = log_chernoff(tau) - tau * asked.epsilon + releases.plain_k(tau)
    for chosen in (_call_quiet(known, chernoff, asked), whole):
        if chosen is None:
            continue
        measure = SizedMeasure.of(releases, LEAVES, chosen, tau)
        if len(measure.tau) < FEWEST_MIDDLE_TILTS:
            continue
        line = measure.line(asked.epsilon, asked.log_delta)
        followed = None if line is None else follow(line)
        if followed is not None:
            return followed, measure
    return None


def _call_quiet(
    known: Sequence[tuple[SortedLaw, RealTilts, Array]], chernoff: Array, asked: _Asked
) -> list[SizedLaw] | None:
    """Return the laws with losses up to the largest share of ε quiet that can be; None where none can."""
    for share in QUIET_SHARES:
        laws = [_quiet_up_to(share * asked.size, *one) for one in known]
        apart = [law.more is not None for law in laws]
        if not any(apart) or any(one.is_seen and not ok for (one, _, _), ok in zip(known, apart, strict=True)):
            continue
        if float(np.min(chernoff + sum(law.n * law.log_base for law in laws))) <= asked.log_delta - QUIET_DELTA_NATS:
            return [
                law if law.more is None else law._replace(log_more=tilts.log_share(*_middle(law.classes, tilts)))
                for law, (_, tilts, _) in zip(laws, known, strict=True)
            ]
    return None


def _quiet_up_to(loss: float, law: SortedLaw, tilts: RealTilts, log_near: Array) -> SizedLaw:
    """Return a law with losses up to this one quiet; what is out of sight may be quiet up to where it is cut."""
    at = coordinate_of(loss, law.classes.law.mean, law.classes.law.rate)
    if not law.classes.sharpness * (law.classes.far - at) >= LEAST_APART:
        return SizedLaw(law.classes, law.n, Size.MIDDLE, None, log_near)
    return SizedLaw(replace(law.classes, quiet=at), law.n, Size.QUIET, Size.MIDDLE, tilts.log_below(at))


def _middle(classes: SizeClasses, tilts: RealTilts) -> tuple[Array, float]:
    return classes.windows(tilts.nodes.t).log_share(Size.MIDDLE), classes.log_hidden


def _far_tilts(asked: _Asked) -> Array:
    return np.asarray(FAR_TILTS / asked.size * max(1.0, -asked.log_delta / 8))


def _far_line(
    releases: SampledReleases, laws: Sequence[SortedLaw], asked: _Asked, follow: Callable[[SizedLine], Any]
) -> tuple[Any, SizedMeasure] | None:
    """Return the line of M less N for the loss -L under Q; None where it would be long."""
    tau, sized = _far_tilts(asked), []
    for law in laws:
        one = law.classes.law
        log_m = bound_negative_moments(one, -tau, reach_of(one, -float(tau[-1]), releases.count), releases.count)
        log_f = bound_far(law.classes, tau) if law.is_seen else None
        sized.append(SizedLaw(law.classes, law.n, Size.ANY, Size.FAR if law.is_seen else None, log_m, log_f))
    measure = SizedMeasure.of(releases, JOINS, sized, tau)
    if not measure.is_difference:
        return None, measure
    if len(measure.tau) < FEWEST_FAR_TILTS:
        return None
    if _log_chernoff(measure.tau, measure.k, -asked.epsilon) + asked.epsilon <= asked.log_delta - SKIPPED_FAR_NATS:
        return None, measure
    leaning = -math.log1p(-max(law.rate for law in releases.laws))
    some = int(np.sum(measure.tau * leaning <= LEANING_NATS))
    if some < FEWEST_FAR_TILTS:
        return None
    line = measure.line(-asked.epsilon, asked.log_delta - asked.epsilon, tilts=some)
    followed = None if line is None else follow(line)
    return None if followed is None else (followed, measure)
