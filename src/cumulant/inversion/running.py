"""ε of a composition that grows: K on its tilts and on its line is added up as releases come.

A line stays where it is while releases are added. Its tail, a share of e^{K(θ)-θε}, only becomes smaller: φ of more
releases is a product with one more factor of modulus at most 1. So all that a new release takes is its own K at the
same points. When a line no longer settles ε, or there are twice as many releases, a new one is planned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.batch import Asked, ends_of_rows, epsilon_near, meet_in_rows, plan_rows, tail_nats
from cumulant.inversion.composed import FINE_SINES, HALF_ULP, ComposedPairs
from cumulant.inversion.contour import EXACT_SHARE
from cumulant.inversion.enclosure import CLOSE_NATS
from cumulant.inversion.lines import SHOWN_NATS
from cumulant.inversion.plan import spacing
from cumulant.inversion.row_lines import RowLines
from cumulant.inversion.rows import Rows, RowTilts
from cumulant.inversion.solve import AGREED_NATS
from cumulant.inversion.unseen import Sight, sight_of
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import less_rounding
from cumulant.pairs.cache import BatchedTable
from cumulant.pairs.curve import nodes_together
from cumulant.pairs.discrete import CHEAP
from cumulant.pairs.grid import PER_OCTAVE, tilt
from cumulant.pairs.pair import DominatingPair

SPARE_RELEASES = 2  # times as many as there are, up to which a line is kept
SPARE_STEPS = 2  # of 2^{m/4}, by which a line is finer than it need be today
BESIDE = np.array([-8, -4, 4, 8])  # tilts 2^{k/8} beside that of the line, at which K is kept for the bound of aliases
NEARBY = 1e-4  # a step, as a share of ε, whose cube is nothing
SAFE_STEP = 1e-12  # relative, by which ε is raised beyond it
PATIENCE = 1.3  # times as many releases as when no line settled ε, from which another one is tried
SPARE_HEIGHT = 4.0  # nats that a line may come to lie higher above the answer
ADDED_UP = 6 * HALF_ULP  # relative error of a compensated sum, of its products, and of a unit for good measure


@final
class CompensatedSum:
    """Σ x of arrays, with what rounding took off kept beside it (Kahan): off by two units of Σ |x|, however many."""

    __slots__ = ("lost", "size", "total")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total, self.lost, self.size = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def add(self, values: Array) -> None:
        values_left = values - self.lost
        total = self.total + values_left
        self.lost = (total - self.total) - values_left
        self.total = total
        self.size += np.abs(values)


@final
@dataclass(slots=True, eq=False)
class StandingLine:
    """A line with K of all releases so far, added up."""

    points: tuple[int, float, int, float]  # the index of the tilt, the step, how many there are, and sines worth taking
    sight: Sight | None
    tail: float
    most: int  # releases, from which another line is due
    k: CompensatedSum  # real and imaginary parts along the line, and the error of each release
    at_tilts: CompensatedSum
    left_out: float = 0.0
    cuts: dict[DominatingPair, DominatingPair] = field(default_factory=dict)

    @staticmethod
    def of(points: tuple[int, float, int, float], sight: Sight | None, tail: float, most: int) -> StandingLine:
        k, at_tilts = CompensatedSum((3, points[2])), CompensatedSum((len(BESIDE),))
        return StandingLine(points, sight, tail, most, k, at_tilts)

    def add(self, releases: Mapping[DominatingPair, int]) -> None:
        """Add releases; those of one kind are evaluated together."""
        counts = [float(n) for n in releases.values()]
        pairs = [self._seen(pair) for pair in releases]
        for count, (line, at_tilts) in zip(counts, STANDING.of(pairs, [self.points] * len(pairs)), strict=True):
            self.k.add(count * line)
            self.at_tilts.add(count * at_tilts)
        self.left_out += math.fsum(n * pair.left_out for n, pair in zip(counts, pairs, strict=True)) * (1 + 1e-12)

    def _seen(self, pair: DominatingPair) -> DominatingPair:
        if self.sight is None:
            return pair
        if pair not in self.cuts:
            self.cuts[pair] = self.sight(pair)
        return self.cuts[pair]

    def lines(self, variance: float) -> RowLines:
        """Return the sums as the line of one row, with Gaussians whose losses have this variance."""
        index, eta, count, _ = self.points
        theta = _tilts_beside(index)
        z = tilt(index) + 1j * eta * np.arange(count)
        real, imaginary, error = self.k.total
        size = self.k.size
        k = real + 1j * imaginary + variance * (z * (z + 1) / 2)
        error = (error + ADDED_UP * (size[0] + size[1])) * (1 + ADDED_UP)
        k_tilts = self.at_tilts.total + variance * theta * (theta + 1) / 2
        at, left_out = (tilt(index), eta), np.array([self.left_out])
        return RowLines.of(at, (k[None], error[None]), np.array([self.tail]), (theta, k_tilts[None]), left_out)


def _tilts_beside(index: int) -> Array:
    return np.asarray(2.0 ** ((index + BESIDE) / PER_OCTAVE))


def _standing(
    pairs: Sequence[DominatingPair], index: int, eta: float, count: int, sines: float
) -> list[tuple[Array, Array]]:
    """Return K along a line with its error, and K at tilts beside it: by nodes for the largest, which serve all."""
    theta, beside = tilt(index), _tilts_beside(index)
    nodes = nodes_together(pairs, float(beside[-1]), eta * (count - 1))
    k, _, _ = nodes.cumulants(np.append(theta, beside))
    line, error = nodes.log_moment(theta, eta, count, k[:, 0], cheap=sines)
    return list(zip(np.stack([line.real, line.imag, error], axis=1), k[:, 1:], strict=True))


STANDING = BatchedTable("standing lines", _standing)


@final
class RunningEpsilon:
    """ε at one δ of one direction of the neighbours, while releases are added."""

    def __init__(self, log_delta: float) -> None:
        self._goal = less_rounding(log_delta)
        self._releases: dict[DominatingPair, int] = {}
        self._new: dict[DominatingPair, int] = {}
        self._square = Fraction(0)  # Σ μ² of Gaussians
        self._count = 0
        self._line: StandingLine | None = None
        self._last, self._way = math.nan, 0.0  # ε, and by how much it grew
        self._spare_nats = 0.0  # by which δ on a line of its own may be above this one
        self._later = 0  # releases, from which a line is planned again

    def add(self, pair: DominatingPair, count: int) -> None:
        if not pair.reveals_nothing:
            self._new[pair] = self._new.get(pair, 0) + count
            self._count += count

    def add_gaussian(self, mean: float, count: int) -> None:
        self._square += count * Fraction(mean) ** 2

    def epsilon(self) -> float:
        """Return ε, rounded up; NaN where no line that is kept settles it."""
        new, self._new = self._new, {}
        for pair, count in new.items():
            self._releases[pair] = self._releases.get(pair, 0) + count
        try:
            if self._line is not None and self._count <= self._line.most:
                self._line.add(new)
                if (found := self._ask(self._line)) is not None:
                    return found
            self._line = self._planned() if self._count >= self._later else None
            found = None if self._line is None else self._ask(self._line)
        except OutOfReach:
            found = None
        if found is None:
            self._later = max(self._later, math.ceil(PATIENCE * self._count))
            self._line = None
        return math.nan if found is None else found

    @property
    def _variance(self) -> float:
        return float(self._square) * (1 + 2.0**-50)  # up: a larger mean is easier to tell apart

    def _ask(self, line: StandingLine) -> float | None:
        lines = line.lines(self._variance)
        found = self._next(lines, np.array([self._last + self._way]))
        if found is None:
            asked = Asked(np.array([self._last + self._way]), np.array([self._goal]))
            (epsilon,), (is_settled,) = meet_in_rows(lines, asked, EXACT_SHARE)
            found = float(epsilon) if is_settled else None
        if found is not None:
            self._last, self._way = found, max(found - self._last, 0.0)
        return found

    def _next(self, lines: RowLines, near: Array) -> float | None:
        """Return ε where it is so near that one step to second order finds it; it is tested all the same."""
        sums = lines.sums(near)
        slope = sums.slope
        way = (lines.log_upper(near, sums) - self._goal) / slope
        if not abs(way[0]) <= NEARBY * near[0]:
            return None
        way = way + (sums.second / sums.total - slope**2) * way**2 / (2 * slope)
        epsilon = (near + way) * (1 + SAFE_STEP) + self._spare_nats / slope
        sums = lines.sums(epsilon)
        high, low = lines.log_upper(epsilon, sums), lines.log_lower(epsilon, sums)
        slack = float((high - low)[0])
        self._spare_nats = min(2 * slack, CLOSE_NATS) if slack > AGREED_NATS else 0.0
        is_close = self._goal - low[0] <= EXACT_SHARE * epsilon[0] * sums.slope[0]
        return float(epsilon[0]) if high[0] <= self._goal and is_close else None

    def _planned(self) -> StandingLine | None:
        """Return a new line for what was released so far, with room for more."""
        if not self._releases:
            return None
        losses = ComposedPairs(tuple(self._releases.items()), 0.0, self._variance, 0.0, math.inf, None)
        sight = sight_of(losses, self._goal, SPARE_RELEASES)
        seen: dict[DominatingPair, float] = {}
        for pair, n in losses.parts:
            cut = pair if sight is None else sight(pair)
            seen[cut] = seen.get(cut, 0.0) + n
        rows = Rows(tuple(seen), np.array([list(seen.values())]), np.array([self._variance]))
        goal = np.array([self._goal])
        around = rows.tilts(lambda t: t.log_delta - goal[:, None])
        if around is None:
            return None
        asked = Asked(epsilon_near(around, goal), goal)
        self._last, self._way = float(asked.epsilon[0]), 0.0
        return self._placed(rows, around, asked, sight)

    def _placed(self, rows: Rows, around: RowTilts, asked: Asked, sight: Sight | None) -> StandingLine | None:
        nats = tail_nats(EXACT_SHARE)
        plan = plan_rows(around, asked, nats)
        index, eta = around.index + int(plan.place[0]), spacing(int(plan.step[0]) - SPARE_STEPS)
        ends = ends_of_rows(rows, (index, eta), plan.height + nats + SPARE_HEIGHT, plan.curvature)
        if not ends:
            return None
        ((_, count, tail),) = ends
        shown = float(plan.height[0]) + math.log(self._count + 1)
        sines = FINE_SINES if shown > SHOWN_NATS else CHEAP
        line = StandingLine.of((index, eta, count, sines), sight, float(tail[0]), SPARE_RELEASES * self._count)
        line.add(self._releases)
        return line
