"""Few or rare steps in balls: the split that doubles plan (`split`), with every part enclosed.

Gaussian noise on Poisson samples, of one law or several, when a record leaves, beside plain Gaussian noise or not. With
the letters of `split`, where all releases are seen, that is with χ_u, u > f, in all moments,

    δ = δ_S + (δ_N - δ_S) + P(F) - e^ε Q(F) + e^ε E_Q[(1 - e^{L-ε})_+; F] + r,      0 <= r <= Σ n E_P[1 - χ_u] + r',

r' <= Σ n E_P[1 - χ_f] over laws whose far releases are left out. Doubles choose places, tilts, steps and ends; here are

- δ_S by Chernoff's bound, P(F) and Q(F) from normal tails;
- the lines of Π N^n - Π S^n and, in the mirror, Π M^n - Π (M-J)^n: both are Π B^n (Π (1 ± J/B)^n - 1) with moments as
  balls. Both measures are positive, so Chernoff's inequality bounds their aliases, and a line ends where J has fallen
  (`log_bound_beyond`): what is many and small is not on it.

Holds for:  any places, sharpness, tilts and steps.
Tightness:  what is left out is pushed to 1e-11 of δ or less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_end import beyond, gaussian_variance
from cumulant.inversion.ball_kernels import PlainKernel
from cumulant.inversion.ball_line import BallLine, ChernoffInBalls, chernoff_tilts
from cumulant.inversion.ball_whole import WholeInBalls
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.enclosure import WorkBudget
from cumulant.inversion.sized_line import SizedLaw, SizedLine, SizedMeasure
from cumulant.inversion.split import QUIET_DELTA_NATS, FarPlace, SplitLines, follow_split
from cumulant.inversion.whole_line import place_unseen
from cumulant.numerics.balls import as_ball, points_above, precision
from cumulant.numerics.logspace import Array
from cumulant.pairs.cache import CACHE
from cumulant.pairs.certified import ball_nodes, count_nodes, moment_of, tilted_moments
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.maps import Join, Leave
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.proven_rule import log_bound_beyond
from cumulant.pairs.sampled_gaussian import SampledGaussian, SampledReleases, coordinate_of
from cumulant.pairs.size_classes import Size, SizeClasses

if TYPE_CHECKING:
    from flint import arb

MOST_LAWS = 4  # whose moments along two lines balls afford
RARE_SHARE, FARTHEST_RARE = 0.1, 11.0  # of ε, the spread of all losses; t of one that makes up ε
SPLIT_MICROSECONDS = 2.5e6  # that the lines of one split may take
SPLIT_OF_WIDE_NATS = 1e-4  # of slack, with which a split is of no use
DIGITS_SHARED = 4  # of ε and log δ, to which questions share a split
SPLIT_OF_SETTLED_NATS = 2e-11  # of slack, with which no other line is planned
NONE_LEFT = 11.0  # over the sharpness, beyond a cut: e^-121 is left
LEAST_HARDNESS, LARGEST_SPLIT_TILT = 64.0, 1000.0  # sharpness of the cut beyond which all is unseen; over ε
SPLIT_BITS, SPLIT_BITS_PER_NAT = 128, 1.5  # of precision, and more for each nat that cancels
SPLIT_SHARPNESS = 0.0, 1.0, 2.0, 4.0  # of the ends of sizes, times c_f, at least
SHARPNESS_OF_NODES = 3.0  # added to the sharpness: the nodes of a rule are about as many as that
LONGER = 1.0, 1.25, 1.6, 2.0  # times the points of doubles, until the tail is little
TAIL_OF_SPLIT_NATS = 26.0  # below δ, of a tail that is little


@final
class SampledLosses(NamedTuple):
    """Gaussian noise on Poisson samples when a record leaves, as doubles plan it, and its noises for balls."""

    releases: SampledReleases
    noises: tuple[GaussianNoise, ...]
    losses: ComposedPairs

    @staticmethod
    def of(losses: ComposedPairs) -> SampledLosses:
        """Return what losses are of, cut off or not; raise `OutOfReach` where they are of something else."""
        noises, laws, counts = [], [], []
        for pair, n in losses.parts:
            law = pair.law if isinstance(pair, CoordinatePair) and isinstance(pair.sampling, Leave) else None
            noise = law.law if isinstance(law, CutLaw) else law
            if not (isinstance(pair, CoordinatePair) and isinstance(noise, GaussianNoise)):
                break
            noises.append(noise)
            laws.append(SampledGaussian(noise.mean, pair.sampling.rate))
            counts.append(n)
        if not laws or len(laws) < len(losses.parts) or len(laws) > MOST_LAWS:
            raise OutOfReach(f"losses are split of Gaussian noise on up to {MOST_LAWS} samples, when a record leaves")
        return SampledLosses(SampledReleases(tuple(laws), tuple(counts), losses.variance), tuple(noises), losses)


def is_rare(releases: SampledReleases, epsilon: float) -> bool:
    """Return whether all but a few losses together are far from ε, and one as large is not out of sight."""
    if not 0 < epsilon < math.inf or not all(law.is_ordinary for law in releases.laws):  # moments may overflow
        return False
    if not releases.deviation < RARE_SHARE * epsilon:
        return False
    return min(coordinate_of(epsilon, law.mean, law.rate) for law in releases.laws) < FARTHEST_RARE


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitInBalls(WholeInBalls):
    """The line of releases that are not far, that of far ones in the mirror, and what quiet ones may add."""

    near: BallLine
    quiet: ChernoffInBalls | None
    far: BallLine | ChernoffInBalls | None
    masses: tuple[arb, arb]  # P(F) and Q(F)
    unseen: arb  # what is left out, from 0, with what ends are off by
    bits: int
    at: float  # ε that it was planned for
    microseconds: float = 0.0  # that it took, about

    enough = SPLIT_OF_SETTLED_NATS

    def bits_at(self, epsilon: float) -> int:
        return self.bits

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        (low, high), grown = self.near.bounds(epsilon), epsilon.exp()
        low, high = low + self.unseen, high + self.unseen
        if self.quiet is not None:
            high += self.quiet.bounds(epsilon)[1]
        least, most = (as_ball(0.0),) * 2 if self.far is None else self.far.bounds(-epsilon)
        surely = self.masses[0] - grown * self.masses[1]
        return low + surely + grown * least, high + surely + grown * most

    def start(self, log_delta: float) -> float:
        return self.at


def split_in_balls(sampled: SampledLosses, epsilon: float, log_delta: float) -> SplitInBalls:
    """Return the split about a point of the profile; raise `OutOfReach` where there is none."""
    return _split_near(sampled, *(float(f"{x:.{DIGITS_SHARED}g}") for x in (epsilon, log_delta)))


@CACHE.remember  # both ends of an interval ask for the same
def _split_near(sampled: SampledLosses, epsilon: float, log_delta: float) -> SplitInBalls:
    is_ordinary = all(law.is_ordinary for law in sampled.releases.laws)
    if not (0 < epsilon < math.inf and -math.inf < log_delta < 0 and is_ordinary):
        raise OutOfReach("losses are split about a point of the profile, of parameters that keep their digits")
    lines, budget = _cheapest(sampled, epsilon, log_delta), WorkBudget(SPLIT_MICROSECONDS)
    followed = [line for line in (lines.near, lines.far) if line is not None]
    height = max(line.plan.height for line in followed)
    bits = SPLIT_BITS + math.ceil(SPLIT_BITS_PER_NAT * (height + 2 * math.log2(sampled.releases.count + 1)))
    with precision(bits):
        cuts, plain = _outer_cuts(sampled, lines, epsilon, log_delta), gaussian_variance(sampled.losses)
        measures = (lines.near_measure, [near for near, _ in cuts]), (lines.far_measure, [far for _, far in cuts])
        near, far = (_MeasureInBalls.of(measure, outer, plain, bits, budget) for measure, outer in measures)
        budget.pay(near.price(lines.near) + (0.0 if lines.far is None else far.price(lines.far)))
        quiet = near.base_only().chernoff(epsilon, log_delta) if near.measure.is_difference else None
        mirror: BallLine | ChernoffInBalls | None = None
        if lines.far is not None:
            mirror = far.follow(lines.far)
        elif far.measure.is_difference:
            mirror = far.chernoff(-epsilon, log_delta - epsilon)
        found = SplitInBalls(near.follow(lines.near), quiet, mirror, *_masses(cuts, lines), bits, epsilon)
    if not found.slack(epsilon) < SPLIT_OF_WIDE_NATS:
        raise OutOfReach("a split says nothing")
    return replace(found, microseconds=SPLIT_MICROSECONDS - budget.left)


def _cheapest(sampled: SampledLosses, epsilon: float, log_delta: float) -> SplitLines:
    """Return the lines of the sharpness whose points and nodes are the fewest, about."""
    found: list[tuple[float, SplitLines]] = []
    for sharpness in SPLIT_SHARPNESS:
        place = FarPlace(sharpness=sharpness)
        lines = follow_split(sampled.releases, epsilon, log_delta, place, lambda line: line)
        if lines is not None:
            count = sum(line.count for line in (lines.near, lines.far) if line is not None)
            found.append((count * max(law.classes.sharpness + SHARPNESS_OF_NODES for law in lines.laws), lines))
            if found[-1][0] > found[0][0]:  # sharper ends have longer lines from here on
                break
    if not found:
        raise OutOfReach("no split is known for this δ")
    return min(found, key=lambda one: one[0])[1]


def _outer_cuts(
    sampled: SampledLosses, lines: SplitLines, epsilon: float, log_delta: float
) -> list[tuple[CutLaw, CutLaw]]:
    """Return each law without what no line sees: where releases that are not far end, and where δ sees nothing.

    Far enough beyond c_f next to none is left of them, and at no tilt of use do so hard cuts leave a peak beyond.
    """
    found = []
    for noise, sized, law in zip(sampled.noises, lines.laws, sampled.releases.laws, strict=True):
        straight = max((1 - math.log(epsilon)) / law.mean, 1.0)  # from there on losses grow with t itself
        hardness = max(LEAST_HARDNESS, math.sqrt(LARGEST_SPLIT_TILT / epsilon) / straight)
        unseen, classes = place_unseen(law, log_delta, sampled.releases.count), sized.classes
        end = min(classes.far + NONE_LEFT / classes.sharpness, unseen)
        found.append((CutLaw(noise, end, hardness), CutLaw(noise, unseen, hardness)))
    return found


def _masses(cuts: Sequence[tuple[CutLaw, CutLaw]], lines: SplitLines) -> tuple[tuple[arb, arb], arb]:
    """Return P(F) and Q(F), where all releases are seen, and what is left out; Q is P at rate 0.

    Of χ_u and χ_f, u > f, χ_f - (1-χ_u) <= χ_uχ_f <= χ_f. What of χ_f lies beyond an earlier end is at most its value
    at any place m and what that end leaves out, and at most what the end lacks at m.
    """
    seen, near, left_out, moved = [as_ball(0.0)] * 2, [as_ball(0.0)] * 2, as_ball(0.0), as_ball(0.0)
    for (end, outer), law in zip(cuts, lines.laws, strict=True):
        rate, unseen = as_ball(law.classes.law.rate), outer.in_balls()
        inner, earlier = CutLaw(outer.law, law.classes.far, law.classes.sharpness).in_balls(), end.in_balls()
        for i, r in enumerate((rate, 0 * rate)):
            out, far = unseen.left_out(r), inner.left_out(r)
            seen[i] += law.n * (-out).log1p()
            near[i] += law.n * (-far.union(far + out) if law.is_seen else -out).log1p()
        left_out += law.n * (unseen.left_out(rate) + (0 if law.is_seen else inner.left_out(rate)))
        m = earlier.at - NONE_LEFT / earlier.sharpness
        moved += law.n * (inner.share_at(m) * earlier.left_out(rate) + 1 - earlier.share_at(m))
    p, q = (a.expm1() - b.expm1() for a, b in zip(seen, near, strict=True))
    return (p, q), (-moved).union(left_out + moved)


def _law_of(outer: CutLaw, classes: SizeClasses, size: Size) -> CutLaw:
    """Return the law of releases of a size."""
    middle = CutLaw(outer, classes.far, classes.sharpness, -math.inf if classes.quiet is None else classes.quiet)
    return {
        Size.ANY: outer,
        Size.QUIET: CutLaw(outer, middle.near, classes.sharpness),
        Size.MIDDLE: middle,
        Size.FAR: CutLaw(outer, math.inf, classes.sharpness, classes.far),
    }[size]


@final
class _Moments(NamedTuple):
    """A pair whose moments are needed, and about their logarithms at the tilts of a measure."""

    pair: CoordinatePair
    logs: Array


@final
class _Sized(NamedTuple):
    """One law of a measure: what B and J are moments of."""

    n: int
    base: _Moments
    more: _Moments | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class _MeasureInBalls:
    """Π B^n, or by how much Π (B ± J)^n differs, with moments as balls: see `sized_line.SizedMeasure`."""

    measure: SizedMeasure
    laws: tuple[_Sized, ...]
    variance: arb  # μ² of plain Gaussian noise
    bits: int
    budget: WorkBudget

    @staticmethod
    def of(
        measure: SizedMeasure, outer: Sequence[CutLaw], variance: arb, bits: int, budget: WorkBudget
    ) -> _MeasureInBalls:
        sampling = Leave if measure.direction.sign > 0 else Join

        def moments(cut: CutLaw, law: SizedLaw, size: Size, logs: Array) -> _Moments:
            return _Moments(CoordinatePair(_law_of(cut, law.classes, size), sampling(law.classes.law.rate)), logs)

        laws = tuple(
            _Sized(
                law.n,
                moments(cut, law, law.base, law.log_base),
                None if law.more is None or law.log_more is None else moments(cut, law, law.more, law.log_more),
            )
            for cut, law in zip(outer, measure.laws, strict=True)
        )
        return _MeasureInBalls(measure, laws, variance, bits, budget)

    def base_only(self) -> _MeasureInBalls:
        """Return Π B^n alone."""
        laws = tuple(law._replace(more=None) for law in self.laws)
        return replace(self, measure=replace(self.measure, k=self.measure.k_base), laws=laws)

    @property
    def sign(self) -> int:
        return self.measure.direction.sign

    def chernoff(self, epsilon: float, log_delta: float) -> ChernoffInBalls:
        """Return Chernoff's bound at the least tilt that says next to nothing beside δ: larger ones take more nodes."""
        tau = self.measure.tau
        logs = log_chernoff(tau) + self.measure.k - tau * epsilon
        few = np.flatnonzero(logs <= log_delta - QUIET_DELTA_NATS)
        place = int(few[0]) if len(few) else int(np.argmin(logs))
        return ChernoffInBalls.at(float(tau[place]), self.log_at(place), as_ball(0.0))

    def log_at(self, place: int) -> arb:
        """Return K at one of the tilts."""
        theta = float(self.measure.tau[place])
        return self._join(self._moments_at(place), as_ball(theta)).log()

    def price(self, line: SizedLine) -> float:
        """Return about how many microseconds the moments along a line take."""
        plan, total = line.plan, 0.0
        for one in (one for law in self.laws for one in (law.base, law.more) if one is not None):
            k = float(one.logs[plan.index])
            nodes = count_nodes(one.pair, plan.theta, plan.eta * line.count, k, bits=self.bits)
            total += nodes.microseconds + nodes.transform_effort(line.count, self.bits)
        return total

    def follow(self, line: SizedLine) -> BallLine:
        """Return the line, as long as it was planned, or longer where what lies beyond is proven to be little."""
        plan, at_theta = line.plan, self._moments_at(line.plan.index)
        step, start = as_ball(plan.eta), self._join(at_theta, as_ball(plan.theta))
        for longer in LONGER:
            count = math.ceil(longer * line.count)
            tail = self._beyond(line, at_theta, step * count) / start
            if tail.log() < -plan.height - TAIL_OF_SPLIT_NATS:
                break
        points = points_above(plan.theta, step, count)
        columns = [self._moments_along(one, line, count) for law in self.laws for one in (law.base, law.more)]
        each = zip(points, *columns, strict=True)
        values = [self._join(list(zip(at[::2], at[1::2], strict=True)), z) / start for z, *at in each]
        chernoff = tuple(
            (float(plan.tilts.theta[place]), self.log_at(place))
            for place in chernoff_tilts(plan.tilts, plan.index, plan.eta)
        )
        kernel, nothing = PlainKernel(tail), as_ball(0.0)
        return BallLine(plan.theta, step, values, start.log(), chernoff, kernel, nothing, self.bits)

    def _join(self, moments: Sequence[tuple[Any, Any]], z: Any, sign: int = 0) -> Any:
        """Return the transform at a point, from B and J there; no large powers are subtracted where B is not 0."""
        sign = sign or self.sign
        plain = (self.variance * z * (z + 1) / 2).exp()
        base = math.prod((b**law.n for (b, _), law in zip(moments, self.laws, strict=True)), start=plain)
        if all(law.more is None for law in self.laws):
            return base
        each = list(zip(moments, self.laws, strict=True))
        value = base * sum((law.n * (sign * j / b).log1p() for (b, j), law in each), 0 * z).expm1()
        if not value.is_finite():
            value = math.prod(((b + sign * j) ** law.n for (b, j), law in each), start=plain) - base
        return sign * value

    def _moments_at(self, place: int) -> list[tuple[Any, Any]]:
        """Return B and J of each law at a real tilt."""
        theta = float(self.measure.tau[place])

        def moment(one: _Moments | None) -> arb:
            if one is None:
                return as_ball(0.0)
            k = float(one.logs[place])
            self.budget.pay(count_nodes(one.pair, theta, 0.0, k, bits=self.bits).microseconds)
            return moment_of(ball_nodes(one.pair, theta, 0.0, k, bits=self.bits), theta, k) * as_ball(k).exp()

        return [(moment(law.base), moment(law.more)) for law in self.laws]

    def _moments_along(self, one: _Moments | None, line: SizedLine, count: int) -> list[Any]:
        if one is None:
            return [as_ball(0.0)] * count
        plan, k = line.plan, float(one.logs[line.plan.index])
        evaluated, scale = ball_nodes(one.pair, plan.theta, plan.eta * count, k, bits=self.bits), as_ball(k).exp()
        values = tilted_moments(evaluated, plan.theta, k, step=as_ball(plan.eta), count=count)
        return [value * scale for value in values]

    def _beyond(self, line: SizedLine, at_theta: Sequence[tuple[Any, Any]], end: arb) -> arb:
        """Return a bound of what lies beyond a frequency: of J where it is a difference, or else of B."""
        theta, most = as_ball(line.plan.theta), []
        for law, part, (base, none) in zip(self.laws, line.parts, at_theta, strict=True):
            if self.measure.is_difference and law.more is None:
                most.append((base, none))
                continue
            likely = float((part.more or part.base).log_moduli(np.array([float(end)]))[0])
            bound = log_bound_beyond((law.more or law.base).pair, theta, end, likely).exp()
            most.append((bound, none) if law.more is None else (base, bound))
        fallen = self._join(most, theta, 1).log() - self.variance * end * end / 2
        return beyond(-fallen, end, as_ball(line.plan.eta))
