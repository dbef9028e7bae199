"""ε of a composition that grows: K along one line is added up as releases come.

A line stays where it is while releases are added. Its tail, a share of e^{K(θ)-θε}, only becomes smaller: φ of more
releases is a product with one more factor of modulus at most 1. So all that a new release takes is its own K at the
same points. When a line no longer settles ε, or there are several times as many releases, a new one is planned.

A direction of the neighbours that matters less needs no line of its own: it is enough that a composition of few kinds,
each of which dominates the releases it stands for, has no larger ε, with some releases more than there are.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import TypeGuard, final

import numpy as np

from cumulant.answer import EXACTLY
from cumulant.errors import OutOfReach
from cumulant.inversion.batch import Asked, affordable_ends, log_delta_of_rows, meet_in_rows, tail_nats
from cumulant.inversion.contour import Contour
from cumulant.inversion.enclosure import EXACT_SHARE
from cumulant.inversion.out_of_sight import Sight, sight_of
from cumulant.inversion.plan import Plan, plan_for, saddles_for_delta, spacing
from cumulant.inversion.rows import LINES, Rows
from cumulant.numerics.compensated import ADDED_UP, CompensatedSum
from cumulant.numerics.rounding import less_rounding
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import PER_OCTAVE, k_of_each
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.maps import Join, Leave
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.pair import DominatingPair

TRIES = ((EXACT_SHARE, 1 << 11), (EXACTLY, 1 << 14))  # a share of ε, and the points of a line for it
SPARE_RELEASES = {128: 16, 256: 4, math.inf: 2}  # times as many as there are, by points up to which a line is kept
SPARE_SIGHT = 4  # times as many, whose cuts together leave out next to nothing
SPARE_STEPS = 2  # of 2^{m/4}, by which a line is finer than it need be today
SPARE_HEIGHT = 4.0  # nats that a line may come to lie higher above the answer
BESIDE = (-8, -4, 4, 8)  # tilts 2^{k/8} beside that of the line, at which K is kept for the bound of aliases
PATIENCE = 1.3  # times as many releases as when no line settled ε, or a bound failed, from which one is tried again
KINDS_OF_MEANS, KINDS_OF_CUTS = 32, 4  # per octave: of pairs that stand for others, and of places of cuts
KEPT_KINDS = 1024  # pairs whose kind is kept
MOST_KINDS = 256  # of releases that stand for others
AHEAD_SHARES = np.array([1 / 8, 1 / 32, 1 / 128, 0.0])  # of all releases, that are added ahead


# A line ---------------------------------------------------------------------------------------------------------------


@final
@dataclass(slots=True, eq=False)
class GrowingLine:
    """A line with K of all releases so far, added up, that is good enough for a share of ε."""

    plan: Plan
    points: int
    accuracy: float  # share of ε
    sight: Sight
    tail: float
    most: int  # releases, from which another line is due
    k: CompensatedSum = field(init=False)  # real and imaginary parts along the line, and the error of each release
    at_tilts: CompensatedSum = field(init=False)
    left_out: float = 0.0

    def __post_init__(self) -> None:
        self.k, self.at_tilts = CompensatedSum((3, self.points)), CompensatedSum((len(BESIDE),))

    def add(self, releases: Mapping[DominatingPair, int]) -> None:
        """Add releases; those of one kind are evaluated together."""
        pairs, at = [self.sight(pair) for pair in releases], self.plan.index
        lines = LINES.of(pairs, [(at, self.plan.eta, self.points)] * len(pairs))
        at_tilts = np.array([k_of_each(pairs, at + way) for way in BESIDE])
        for i, (n, (k, error)) in enumerate(zip(releases.values(), lines, strict=True)):
            self.k.add(n * np.stack([k.real, k.imag, error]))
            self.at_tilts.add(n * at_tilts[:, i])
            self.left_out += n * pairs[i].left_out * (1 + 1e-12)

    def contour(self, variance: float) -> Contour:
        """Return the sums as the line of one row, with Gaussians whose losses have this variance."""
        theta, eta = self.plan.theta, self.plan.eta
        z, beside = theta + 1j * eta * np.arange(self.points), theta * 2.0 ** (np.array(BESIDE) / PER_OCTAVE)
        (real, imaginary, error), size = self.k.total, self.k.size
        k = real + 1j * imaginary + variance * (z * (z + 1) / 2)
        error = (error + ADDED_UP * (size[0] + size[1])) * (1 + ADDED_UP)
        known = beside, (self.at_tilts.total + variance * beside * (beside + 1) / 2)[None]
        line = Contour.of((theta, eta), (k[None], error[None]), np.array([self.tail]), known)
        return line.less_certain(0.0, np.log(self.left_out) if self.left_out > 0 else -math.inf)


# A direction ----------------------------------------------------------------------------------------------------------


@final
class GrowingEpsilon:
    """ε at one δ of one direction of the neighbours, while releases are added."""

    def __init__(self, log_delta: float) -> None:
        self.goal = less_rounding(log_delta)
        self.kinds = Kinds(self.goal)
        self._releases: dict[DominatingPair, int] = {}
        self._new: dict[DominatingPair, int] = {}
        self._square = Fraction(0)  # Σ μ² of Gaussians
        self._count = 0
        self._line: GrowingLine | None = None
        self._last, self._way = -math.inf, 0.0  # ε, and by how much it grew
        self._later = 0  # releases, from which a line is planned again

    def add(self, pair: DominatingPair, count: int) -> None:
        if not pair.reveals_nothing:
            self._new[pair] = self._new.get(pair, 0) + count
            self._count += count
            self.kinds.add(pair, count)

    def add_gaussian(self, mean: float, count: int) -> None:
        self._square += count * Fraction(mean) ** 2
        self.kinds.forget()

    @property
    def last(self) -> float:
        """The last ε that was settled; -inf before the first."""
        return self._last

    def hear(self, epsilon: float) -> None:
        """Take about ε from elsewhere."""
        self._last, self._way = epsilon, 0.0

    @property
    def variance(self) -> float:
        """That of the losses of Gaussians, rounded up."""
        return float(self._square) * (1 + 2.0**-50)  # up: a larger mean is easier to tell apart

    def is_at_most(self, epsilon: float) -> bool:
        """Return whether ε is proven to be no larger, by less than a line of its own."""
        return self.kinds.are_within(epsilon, self.variance)

    def epsilon(self) -> float:
        """Return ε, rounded up; NaN where no line settles it."""
        new, self._new = self._new, {}
        for pair, count in new.items():
            self._releases[pair] = self._releases.get(pair, 0) + count
        line, self._line = self._line, None
        if line is not None and self._count <= line.most:
            with contextlib.suppress(OutOfReach):
                line.add(new)
                if self._settles(line):
                    return self._last
        if self._count < self._later or not self._releases:
            return math.nan
        for accuracy, most in TRIES:
            with contextlib.suppress(OutOfReach):
                if any(self._settles(line) for line in self._planned(accuracy, most)):
                    self._later = 0
                    return self._last
        # counted from where lines were tried: questions in between do not put the next one off
        self._later = math.ceil(PATIENCE * self._count)
        return math.nan

    def _settles(self, line: GrowingLine) -> bool:
        """Return whether a line settles ε, and keep both then."""
        asked = Asked(np.array([max(self._last, 0.0) + self._way]), np.array([self.goal]))
        (epsilon,), (is_settled,) = meet_in_rows(line.contour(self.variance), asked, line.accuracy)
        if is_settled:
            self._way = max(float(epsilon) - self._last, 0.0) if self._last > 0 else 0.0
            self._last, self._line = float(epsilon), line
        return bool(is_settled)

    def _planned(self, accuracy: float, most: int) -> Iterator[GrowingLine]:
        """Yield a new line for what was released so far, with room for more, if one is short enough."""
        sight, counts = sight_by_kinds(self._releases, self.variance, self.goal), Counter[DominatingPair]()
        for pair, n in self._releases.items():
            counts[sight(pair)] += n
        rows = Rows(tuple(counts), np.array([list(counts.values())], dtype=float), np.array([self.variance]))
        around = saddles_for_delta(rows, np.array([self.goal]))
        self.hear(max(float(around.epsilon_near(np.array([self.goal]))[0]), 0.0))
        nats = tail_nats(accuracy)
        plan = plan_for(around.of_row(0, self._last, self.goal), nats)
        plan = replace(plan, eta=plan.eta * spacing(-SPARE_STEPS))
        for end in affordable_ends(rows, plan, np.array([plan.height + nats + SPARE_HEIGHT]), most):
            spare = next(times for points, times in SPARE_RELEASES.items() if end.points <= points)
            line = GrowingLine(plan, end.points, accuracy, sight, float(end.tails[0]), spare * self._count)
            line.add(self._releases)
            yield line


# Kinds ----------------------------------------------------------------------------------------------------------------


@final
class Kinds:
    """Few pairs that dominate all releases, and what is proven of them with some releases more.

    Where these and m more of a pair are within (ε, δ), so are the releases with up to m others that the pair dominates.
    """

    def __init__(self, log_delta: float) -> None:
        self._log_delta = log_delta
        self._new: Counter[DominatingPair] = Counter()
        self._counts: Counter[DominatingPair] = Counter()
        self._last: DominatingPair | None = None
        self._epsilon, self._left = math.inf, 0  # proven for so many more of a pair
        self._by: DominatingPair | None = None
        self._later = 0.0  # releases, from which it is asked again

    def add(self, pair: DominatingPair, count: int) -> None:
        self._new[pair] += count

    def _take_new(self) -> None:
        for pair, count in self._new.items():
            self._last = coarsen(pair)
            self._counts[self._last] += count
            self._left -= count
            if self._left < 0 or self._by is None or not is_dominated(self._last, self._by):
                self.forget()
        self._new.clear()

    def forget(self) -> None:
        """Know nothing of what comes, as after a release that is no pair of its own."""
        self._epsilon, self._by = math.inf, None

    def are_within(self, epsilon: float, variance: float) -> bool:
        """Return whether δ(ε) of the kinds is proven to be at most δ: by Chernoff's bound, or on a line in rows."""
        self._take_new()
        number = self._counts.total()
        if epsilon >= self._epsilon:
            return True
        if number < self._later or len(self._counts) > MOST_KINDS or not 0 < epsilon < math.inf:
            return False
        more = np.floor(AHEAD_SHARES * number)
        counts = np.tile([float(n) for n in self._counts.values()], (len(more), 1))
        counts[:, [kind == self._last for kind in self._counts]] += more[:, None]
        rows = Rows(tuple(self._counts), counts, np.full(len(more), variance))
        at, goal = np.full(len(more), epsilon), np.full(len(more), self._log_delta)
        fine = np.flatnonzero(rows.are_within(at, goal))
        if not len(fine):
            with contextlib.suppress(OutOfReach):
                fine = np.flatnonzero(log_delta_of_rows(rows, at) <= goal)  # never of NaN
        if not len(fine):
            self._later = PATIENCE * number
            return False
        self._epsilon, self._by, self._left = epsilon, self._last, int(more[fine[0]])
        return True


@lru_cache(maxsize=KEPT_KINDS)
def coarsen(pair: DominatingPair, kinds: int = KINDS_OF_MEANS) -> DominatingPair:
    """Return a pair that dominates this one, of which there are few: a mean of Gaussian noise is rounded up."""
    if not _is_noise_on_samples(pair):
        return pair
    mean = _mean(pair)
    step = math.ceil(kinds * math.log2(mean))
    means = [2.0 ** (m / kinds) for m in (step, step + 1)]  # the first may have been rounded down
    return CoordinatePair(GaussianNoise(means[0] if means[0] >= mean else means[1]), pair.sampling)


def sight_by_kinds(releases: Mapping[DominatingPair, int], variance: float, log_delta: float) -> Sight:
    """Return what is seen of a pair: cut where its kind is, which is farther out, so that a place serves many."""
    sight = cache(sight_of(tuple(releases.items()), variance, log_delta, SPARE_SIGHT))

    @cache
    def see(pair: DominatingPair) -> DominatingPair:
        cut = sight(coarsen(pair, KINDS_OF_CUTS))
        if not _is_noise_on_samples(pair) or not isinstance(cut, CoordinatePair):
            return cut
        if not isinstance(cut.law, CutLaw):
            return pair
        return CoordinatePair(replace(cut.law, law=GaussianNoise(_mean(pair))), pair.sampling)

    return see


def is_dominated(pair: DominatingPair, by: DominatingPair) -> bool:
    """Return whether one pair is known to dominate another: both outputs of it, worked on, are those of the other.

    With μ' <= μ, t ↦ (μ'/μ)t + N(0, 1 - (μ'/μ)²) takes N(0, 1) to itself and N(μ, 1) to N(μ', 1). With γ' <= γ, an
    output that is kept with probability γ'/γ, and else is a new one of N(0, 1), takes the mixture at γ to that at γ'.

    Holds for:  the same pair; Gaussian noise sampled in the same direction of the neighbours.
    Tightness:  sufficient alone.
    """
    if pair == by:
        return True
    if not _is_noise_on_samples(pair) or not _is_noise_on_samples(by) or type(pair.sampling) is not type(by.sampling):
        return False
    return _mean(pair) <= _mean(by) and pair.sampling.rate <= by.sampling.rate


def _is_noise_on_samples(pair: DominatingPair) -> TypeGuard[CoordinatePair]:
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.sampling, Leave | Join):
        return False
    return isinstance(pair.law, GaussianNoise) and isinstance(pair.law.mean, float) and 0 < pair.sampling.rate < 1


def _mean(pair: CoordinatePair) -> float:
    assert isinstance(pair.law, GaussianNoise)
    return float(pair.law.mean)
