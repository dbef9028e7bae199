"""ε of a composition that grows: K on its tilts and on its line is added up as releases come.

A line stays where it is while releases are added. Its tail, a share of e^{K(θ)-θε}, only becomes smaller: φ of more
releases is a product with one more factor of modulus at most 1. So all that a new release takes is its own K at the
same points. When a line no longer settles ε, or there are several times as many releases, a new one is planned.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.batch import Asked, ends_of_rows, epsilon_near, meet_in_rows, plan_rows, tail_nats
from cumulant.inversion.composed import FINE_SINES, ComposedPairs
from cumulant.inversion.contour import EXACT_SHARE
from cumulant.inversion.enclosure import CLOSE_NATS
from cumulant.inversion.lines import SHOWN_NATS
from cumulant.inversion.plan import spacing
from cumulant.inversion.row_lines import RowLines
from cumulant.inversion.rows import Rows, RowTilts
from cumulant.inversion.running_jumps import StandingJumps
from cumulant.inversion.solve import AGREED_NATS
from cumulant.inversion.unseen import Sight, sight_of
from cumulant.numerics.compensated import ADDED_UP, CompensatedSum
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import less_rounding
from cumulant.pairs.cache import BatchedTable
from cumulant.pairs.curve import nodes_together
from cumulant.pairs.discrete import CHEAP
from cumulant.pairs.grid import PER_OCTAVE, tilt
from cumulant.pairs.pair import DominatingPair
from cumulant.pairs.shared_line import LineAt, lines_together

SPARE_RELEASES = {128: 16, 256: 4, math.inf: 2}  # times as many as there are, by points up to which a line is kept
SPARE_SIGHT = 4  # times as many, whose cuts together leave out next to nothing
SPARE_STEPS = 2  # of 2^{m/4}, by which a line is finer than it need be today
BESIDE = np.array([-8, -4, 4, 8])  # tilts 2^{k/8} beside that of the line, at which K is kept for the bound of aliases
NEARBY = 1e-4  # a step, as a share of ε, whose cube is nothing
SAFE_STEP = 1e-12  # relative, by which ε is raised beyond it
PATIENCE = 1.3  # times as many releases as when no line settled ε, from which another one is tried
JUMP_PLANS, PLANNED_NEAR = 2, 1e-3  # of a line of jumps, the second from the answer of the first; a share of ε
SPARE_HEIGHT = 4.0  # nats that a line may come to lie higher above the answer

StandingPoints = tuple[int, float, int, float]
"""Of a line: the index of its tilt, the step, how many there are, and sines worth taking."""


@final
@dataclass(slots=True, eq=False)
class StandingLine:
    """A line with K of all releases so far, added up."""

    points: StandingPoints
    sight: Sight | None
    tail: float
    most: int  # releases, from which another line is due
    k: CompensatedSum  # real and imaginary parts along the line, and the error of each release
    at_tilts: CompensatedSum
    left_out: float = 0.0
    cuts: dict[DominatingPair, DominatingPair] = field(default_factory=dict)

    @staticmethod
    def of(points: StandingPoints, sight: Sight | None, tail: float, most: int) -> StandingLine:
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

    def with_more(self, pair: DominatingPair, count: int) -> StandingLine:
        """Return another line, with releases added: its tail holds for all that come."""
        line = replace(self, k=self.k.copy(), at_tilts=self.at_tilts.copy())
        line.add({pair: count})
        return line

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
    shared = lines_together(pairs, LineAt((theta, *beside.tolist()), eta, count), sines)
    if shared is not None:
        return shared
    nodes = nodes_together(pairs, float(beside[-1]), eta * (count - 1))
    k, _, _ = nodes.cumulants(np.append(theta, beside))
    line, error = nodes.log_moment(theta, eta, count, k[:, 0], cheap=sines)
    return list(zip(np.stack([line.real, line.imag, error], axis=1), k[:, 1:], strict=True))


STANDING = BatchedTable("standing lines", _standing)


@final
class RunningEpsilon:
    """ε at one δ of one direction of the neighbours, while releases are added."""

    def __init__(self, log_delta: float) -> None:
        self._log_delta, self.goal = log_delta, less_rounding(log_delta)
        self._releases: dict[DominatingPair, int] = {}
        self._new: dict[DominatingPair, int] = {}
        self._square = Fraction(0)  # Σ μ² of Gaussians
        self._count = 0
        self._line: StandingLine | None = None
        self._jumps: StandingJumps | None = None  # where no line settles ε
        self._last, self._way = math.nan, 0.0  # ε, and by how much it grew
        self._spare_nats = 0.0  # by which δ on a line of its own may be above this one
        self._later = 0  # releases, from which a line is planned again

    def add(self, pair: DominatingPair, count: int) -> None:
        if not pair.reveals_nothing:
            self._new[pair] = self._new.get(pair, 0) + count
            self._count += count

    def add_gaussian(self, mean: float, count: int) -> None:
        self._square += count * Fraction(mean) ** 2

    @property
    def last(self) -> float:
        """The last ε that was settled; -inf before the first."""
        return -math.inf if math.isnan(self._last) else self._last

    def is_within_ahead(self, pair: DominatingPair, count: int, epsilon: float) -> bool:
        """Return whether the line that is kept says that ε is no larger with so many releases more."""
        if self._line is None or self._new:
            return False
        lines, at = self._line.with_more(pair, count).lines(self.variance), np.array([epsilon])
        return bool(lines.log_upper(at, lines.sums(at))[0] <= self.goal)

    def coarser(self, coarsen: Callable[[DominatingPair], DominatingPair]) -> RunningEpsilon:
        """Return ε of the same releases, each in place of others."""
        other = RunningEpsilon(self._log_delta)
        other._square = self._square
        for releases in (self._releases, self._new):
            for pair, count in releases.items():
                other.add(coarsen(pair), count)
        return other

    def epsilon(self) -> float:
        """Return ε, rounded up; NaN where no line that is kept settles it."""
        new, self._new = self._new, {}
        for pair, count in new.items():
            self._releases[pair] = self._releases.get(pair, 0) + count
        found = self._ask_kept(new)
        if found is None and self._count >= self._later:
            # counted from where a line was tried: questions in between do not put the next one off
            self._later = math.ceil(PATIENCE * self._count)
            found = self._ask_anew()
        if found is None:
            return math.nan
        self._later = 0
        return found

    def _ask_kept(self, new: Mapping[DominatingPair, int]) -> float | None:
        """Return ε on what is kept, with new releases added; what does not settle it is kept no longer."""
        line, jumps = self._line, self._jumps
        self._line = self._jumps = None
        with contextlib.suppress(OutOfReach):
            if line is not None and self._count <= line.most:
                line.add(new)
                if (found := self._ask(line)) is not None:
                    self._line = line
                    return found
        with contextlib.suppress(OutOfReach):
            if jumps is not None and self._count <= jumps.most and not self._square:
                jumps.add(new)
                epsilon, is_exact = jumps.epsilon(self._near, self.goal)
                if is_exact:
                    self._jumps = jumps
                    return self._settled(epsilon)
        return None

    def _ask_anew(self) -> float | None:
        """Return ε on a new line, or one of jumps, each planned from the last answer."""
        near = self._near
        with contextlib.suppress(OutOfReach):
            line = self._planned()
            if line is not None and (found := self._ask(line)) is not None:
                self._line = line
                return found
        for _ in range(0 if self._square or math.isnan(near) else JUMP_PLANS):
            jumps = StandingJumps.planned(self._releases, near, self.goal)
            epsilon, is_exact = (math.inf, False) if jumps is None else jumps.epsilon(near, self.goal)
            if is_exact:
                self._jumps = jumps
                return self._settled(epsilon)
            if not abs(epsilon - near) > PLANNED_NEAR * near or not epsilon < math.inf:
                break
            near = epsilon
        self.hear(near)
        return None

    def _settled(self, epsilon: float) -> float:
        self._last, self._way = epsilon, max(epsilon - self._last, 0.0)
        return epsilon

    @property
    def _near(self) -> float:
        return self._last + self._way

    def hear(self, epsilon: float) -> None:
        """Take about ε from elsewhere."""
        self._last, self._way = epsilon, 0.0

    @property
    def variance(self) -> float:
        """That of the losses of Gaussians, rounded up."""
        return float(self._square) * (1 + 2.0**-50)  # up: a larger mean is easier to tell apart

    def _ask(self, line: StandingLine) -> float | None:
        lines = line.lines(self.variance)
        found = self._next(lines, np.array([self._near]))
        if found is None:
            asked = Asked(np.array([self._near]), np.array([self.goal]))
            (epsilon,), (is_settled,) = meet_in_rows(lines, asked, EXACT_SHARE)
            found = float(epsilon) if is_settled else None
        return None if found is None else self._settled(found)

    def _next(self, lines: RowLines, near: Array) -> float | None:
        """Return ε where it is so near that one step to second order finds it; it is tested all the same."""
        sums = lines.sums(near)
        slope = sums.slope
        way = (lines.log_upper(near, sums) - self.goal) / slope
        if not abs(way[0]) <= NEARBY * near[0]:
            return None
        way = way + (sums.second / sums.total - slope**2) * way**2 / (2 * slope)
        epsilon = (near + way) * (1 + SAFE_STEP) + self._spare_nats / slope
        sums = lines.sums(epsilon)
        high, low = lines.log_upper(epsilon, sums), lines.log_lower(epsilon, sums)
        slack = float((high - low)[0])
        self._spare_nats = min(2 * slack, CLOSE_NATS) if slack > AGREED_NATS else 0.0
        is_close = self.goal - low[0] <= EXACT_SHARE * epsilon[0] * sums.slope[0]
        return float(epsilon[0]) if high[0] <= self.goal and is_close else None

    def _planned(self) -> StandingLine | None:
        """Return a new line for what was released so far, with room for more."""
        if not self._releases:
            return None
        losses = ComposedPairs(tuple(self._releases.items()), 0.0, self.variance, 0.0, math.inf, None)
        sight = sight_of(losses, self.goal, SPARE_SIGHT)
        cuts = {} if sight is None else {pair: sight(pair) for pair in self._releases}
        seen: dict[DominatingPair, float] = {}
        for pair, n in losses.parts:
            cut = cuts.get(pair, pair)
            seen[cut] = seen.get(cut, 0.0) + n
        rows = Rows(tuple(seen), np.array([list(seen.values())]), np.array([self.variance]))
        goal = np.array([self.goal])
        around = rows.tilts(lambda t: t.log_delta - goal[:, None])
        if around is None:
            return None
        asked = Asked(epsilon_near(around, goal), goal)
        self._last, self._way = float(asked.epsilon[0]), 0.0
        points = self._placed(rows, around, asked)
        if points is None:
            return None
        at, tail = points
        most = next(times for count, times in SPARE_RELEASES.items() if at[2] <= count) * self._count
        line = StandingLine.of(at, sight, tail, most)
        line.cuts.update(cuts)
        line.add(self._releases)
        return line

    def _placed(self, rows: Rows, around: RowTilts, asked: Asked) -> tuple[StandingPoints, float] | None:
        """Return where a line is, and the bound of its tail."""
        nats = tail_nats(EXACT_SHARE)
        plan = plan_rows(around, asked, nats)
        index, eta = around.index + int(plan.place[0]), spacing(int(plan.step[0]) - SPARE_STEPS)
        ends = ends_of_rows(rows, (index, eta), plan.height + nats + SPARE_HEIGHT, plan.curvature)
        if not ends:
            return None
        ((_, count, tail),) = ends
        shown = float(plan.height[0]) + math.log(self._count + 1)
        sines = FINE_SINES if shown > SHOWN_NATS else CHEAP
        return (index, eta, count, sines), float(tail[0])
