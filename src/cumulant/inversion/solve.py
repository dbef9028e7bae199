"""ε at δ and δ at ε of dominating pairs: one solver, in doubles and in balls.

A *direction* says which neighbour comes first: the pairs of all releases that way round, with counts. The answer is the
worst over directions. Here δ in {0, 1}, the failure probability, the largest loss and several directions are treated;
a *road* says how, in doubles (here) or in balls (`certified`).

Every answer in doubles is an upper bound whatever the route; `slack` says how far it can be off.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, TypeVar, final

from cumulant.curves.failure import log_delta_left, log_delta_with
from cumulant.errors import OutOfReach
from cumulant.inversion.band import BandInDoubles
from cumulant.inversion.ceilings import epsilon_ceilings, log_delta_ceilings, own_epsilon_ceiling
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import (
    CLOSE_NATS,
    Enclosure,
    GaussianInDoubles,
    LargestLossInDoubles,
    LineInDoubles,
    WholeEnclosure,
    meet,
)
from cumulant.inversion.enclosure import gaussian_epsilon as gaussian_epsilon  # noqa: PLC0414 - an entry point
from cumulant.inversion.enclosure import gaussian_log_delta as gaussian_log_delta  # noqa: PLC0414 - an entry point
from cumulant.inversion.jumps import JumpsInDoubles, guess_by_jumps
from cumulant.inversion.lines import enclosures_at
from cumulant.inversion.pieces import sum_few
from cumulant.inversion.plan import Tilts, plan_for, tilts_for_delta, tilts_for_epsilon
from cumulant.inversion.unseen import leave_out_unseen
from cumulant.numerics.rounding import less_rounding
from cumulant.pairs.noise import Pair
from cumulant.pairs.pair import GaussianPair

AGREED_NATS = 1e-12  # slack from which δ(ε), on a line of its own, may come out above the δ that was asked for
NEARLY_AGREED_NATS, SLACKS = 1e-10, 4.0  # up to which it is raised by so many times the slack
JUMPS_AGREED_NATS = 1e-8  # the same for jumps, whose own questions take longer
CERTAIN_NATS = 45.0  # 1 - e^-45 is 1 as a double, whatever the affinity has lost by rounding
FIRST_LOG_DELTA = -40.0  # of which losses are out of sight when δ is what is asked for
LEFT_OUT_NATS = -25.0  # log of the share of δ that may be left out then: 1e-11
LOOKS = 4  # times that it is looked again
MOST_LINES = 16  # from which it is not looked again
NEAR_NATS = 0.02  # how far an answer may be from what its line was planned for
RAISES = 4  # times that ε is raised until δ(ε) agrees

Direction = Sequence[tuple[Pair, int]]
Directions = Sequence[Direction]


@final
@dataclass(frozen=True, slots=True)
class Inversion:
    """An answer from pairs: ε or log δ, on the safe side; log δ lies at most `slack` nats below.

    `excess` is how far the answer can be above the truth of these pairs, as a share of ε: 1 says nothing.
    """

    value: float
    slack: float
    route: str
    excess: float = 0.0


class Solution(NamedTuple):
    """A point of the profile: ε and log δ, one asked for, the other on the safe side, and the enclosure that says so.

    Without an enclosure nothing is in doubt. `low` bounds log δ from below where log δ was asked for.
    """

    epsilon: float
    log_delta: float
    enclosure: Enclosure | None = None
    low: float = -math.inf
    slack: float | None = None  # of the enclosure at ε, if it was looked at


def is_proven(solution: Solution) -> bool:
    return solution.enclosure is None or solution.enclosure.proven


class Road(ABC):
    """How doubles, or balls, say what a solution rests on."""

    @abstractmethod
    def left(self, losses: ComposedPairs, delta: Any, side: int) -> float:
        """Return log δ without the failure probability, rounded down by side 1, up by -1; NaN where nothing is left."""

    @abstractmethod
    def is_nothing(self, losses: ComposedPairs, log_delta: float) -> bool:
        """Return whether it takes no search to see that ε = 0 is enough."""

    def is_certain(self, losses: ComposedPairs, epsilon: float) -> bool:
        """Return whether it takes no line to see that δ(ε) is 1 to the last digit."""
        return False

    @abstractmethod
    def largest(self, losses: ComposedPairs, side: int) -> float:
        """Return the largest finite loss, rounded up or down."""

    @abstractmethod
    def whole(self, losses: ComposedPairs) -> WholeEnclosure | None:
        """Return a closed form, or the law of all sums, where there is one."""

    @abstractmethod
    def below_largest(self, losses: ComposedPairs) -> WholeEnclosure:
        """Return what the largest loss alone says."""

    @abstractmethod
    def lines(self, losses: ComposedPairs, around: Tilts) -> Iterable[Enclosure]:
        """Return the enclosures that a plan leads to, cheapest first; never none."""


# One direction --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Question:
    """One direction is asked for ε at log δ, from above (side 1) or below (side -1), or for log δ at ε (side 0).

    log δ is what the failure probability leaves of δ, given that the loss is finite; NaN where it takes more than δ.
    """

    losses: ComposedPairs
    road: Road
    side: int
    asked: float
    enough: float = -math.inf  # log δ that need not be known better than as at most that

    @property
    def needs_tilts(self) -> bool:
        """Whether a line may be needed for ε."""
        if not self.losses.parts or not self.losses.supremum > 0:
            return False
        return -math.inf < self.asked < min(0.0, self.losses.log_added_variation)

    @cached_property
    def seen(self) -> ComposedPairs:
        """The losses that a δ of the size in question can see."""
        return leave_out_unseen(self.losses, self.asked if self.side else FIRST_LOG_DELTA)

    @cached_property
    def around(self) -> Tilts | None:
        """Tilts around the saddle; None if none is large enough: then only the largest loss matters."""
        found = (tilts_for_delta if self.side else tilts_for_epsilon)(self.seen, self.asked)
        if found is None or not found.is_of_few_jumps:
            return found
        return guess_by_jumps(self.seen, found, of_epsilon=self.side != 0)

    def solve(self) -> Solution:
        losses, road = self.losses, self.road
        known = self._known_epsilon() if self.side else self._known_delta()
        if known is not None:
            return known
        whole = road.whole(losses)
        if whole is None and self.around is not None:
            return self._best(self._follow_seen(self.around))
        whole = whole or road.below_largest(losses)
        found = self._look(whole, whole.start(self.asked) if self.side else self.asked)
        if found.slack is not None and not found.slack <= whole.enough and self.around is not None:
            return self._best([found, *self._follow_seen(self.around)])  # terms of the sum have cancelled
        return found

    def _follow_seen(self, around: Tilts) -> list[Solution]:
        """Return what lines say of the losses in sight; where δ was asked for, and is smaller than that, look again."""
        seen, found = self.seen, self._follow(self.seen, around)
        for _ in range(LOOKS if self.side == 0 else 0):
            low, high = max(one.low for one in found), min(one.log_delta for one in found)
            if seen.left_out == 0 or math.log(seen.left_out) <= low + LEFT_OUT_NATS or len(found) >= MOST_LINES:
                break
            if high <= max(self.enough, low + CLOSE_NATS):
                break
            try:
                seen = leave_out_unseen(self.losses, low if low > -math.inf else 2 * high)
                nearer = tilts_for_epsilon(seen, self.asked)
                found = found if nearer is None else [*found, *self._follow(seen, nearer)]
            except OutOfReach:  # what was found stands
                break
        return found

    def _follow(self, losses: ComposedPairs, around: Tilts) -> list[Solution]:
        """Return what a few lines say, each planned from the best answer so far: what is proven, if anything is.

        Where a line is out of reach, what was found before stands.
        """
        found: list[Solution] = []
        for rounds in count(1):
            try:
                for enclosure in self.road.lines(losses, around):
                    last = self._look(enclosure, around.epsilon)
                    found.append(last)
                    settled = last.slack is not None and last.slack <= enclosure.enough
                    if settled or (self.side == 0 and last.log_delta <= self.enough):
                        return [one for one in found if is_proven(one)] or found
            except OutOfReach:
                if not found:
                    raise
            best, most = self._best(found), max(one.enclosure.effort.rounds for one in found if one.enclosure)
            away = abs(best.epsilon - around.epsilon) * around.steepness + abs(best.log_delta - around.log_delta)
            at_an_end = best.epsilon != around.epsilon and not 0 < best.epsilon < math.inf
            if at_an_end or not away > NEAR_NATS or rounds >= most:
                break
            around = around.ask(best.epsilon, best.log_delta)
        return [one for one in found if is_proven(one)] or found

    def _known_epsilon(self) -> Solution | None:
        losses, road, log_delta = self.losses, self.road, self.asked
        if math.isnan(log_delta):
            return Solution(math.inf, log_delta)
        if log_delta >= 0 or road.is_nothing(losses, log_delta):
            return Solution(0.0, log_delta)
        if log_delta > -math.inf:
            return None
        return Solution(road.largest(losses, self.side), log_delta, road.whole(losses) or road.below_largest(losses))

    def _known_delta(self) -> Solution | None:
        if self.losses.failure == 1 or self.asked >= self.road.largest(self.losses, 1):
            return Solution(self.asked, -math.inf)
        return Solution(self.asked, 0.0) if self.road.is_certain(self.losses, self.asked) else None

    def _best(self, found: Sequence[Solution]) -> Solution:
        if self.side:
            return min(found, key=lambda one: self.side * one.epsilon)
        best = min(found, key=lambda one: one.log_delta)
        return Solution(self.asked, best.log_delta, best.enclosure, max(one.low for one in found), best.slack)

    def _look(self, enclosure: Enclosure, start: float) -> Solution:
        """Return what one enclosure says; ε is searched for from `start` on."""
        if self.side == 0:
            low, high = enclosure.log_bounds(self.asked)
            low, high = -math.inf if math.isnan(low) else low, 0.0 if math.isnan(high) else high
            return Solution(self.asked, high, enclosure, low, high - low if enclosure.enough > 0 else None)
        anyway = self.road.largest(self.losses, 1) if self.side > 0 else 0.0
        epsilon = meet(enclosure, self.side, self.asked, start, anyway)
        slack = enclosure.slack(epsilon) if enclosure.enough > 0 else None
        return Solution(epsilon, self.asked, enclosure, slack=slack)


# All directions -------------------------------------------------------------------------------------------------------


def ask_epsilon(directions: Directions, delta: Any, side: int, new_road: Callable[[], Road]) -> list[Question]:
    asked = [(ComposedPairs.of(direction), new_road()) for direction in directions]
    return [Question(losses, road, side, road.left(losses, delta, side)) for losses, road in asked]


def ask_delta(directions: Directions, epsilon: float, new_road: Callable[[], Road]) -> list[Question]:
    return [Question(ComposedPairs.of(direction), new_road(), 0, epsilon) for direction in directions]


Answer = TypeVar("Answer")


def solve_worst_first(
    ranked: Iterable[tuple[float, Question]],
    solve: Callable[[Question], Answer],
    is_settled: Callable[[Question, float, list[Answer]], bool],
) -> list[Answer]:
    """Return answers of directions, the likely worst first: others that Chernoff's bound settles need none."""
    found: list[Answer] = []
    for likely, question in sorted(ranked, key=lambda one: -one[0]):
        if not found or not is_settled(question, likely, found):
            found.append(solve(question))
    return found


# Doubles --------------------------------------------------------------------------------------------------------------


def epsilon_of_pairs(directions: Directions, log_delta: float) -> Inversion:
    """Return the smallest ε with δ(ε) <= δ in every direction, rounded up."""
    questions = ask_epsilon(directions, log_delta, 1, Doubles)
    ceilings = zip(epsilon_ceilings(questions), questions, strict=True)

    def is_settled(question: Question, most: float, some: list[Inversion]) -> bool:
        worst = max(inversion.value for inversion in some)
        return most <= worst or own_epsilon_ceiling(question) <= worst

    found = solve_worst_first(ceilings, _epsilon_in_doubles, is_settled)
    return max([Inversion(0.0, 0.0, "total variation"), *found], key=lambda inversion: inversion.value)


def log_delta_of_pairs(directions: Directions, epsilon: float) -> Inversion:
    """Return log δ(ε), the largest over directions, rounded up."""
    questions = ask_delta(directions, epsilon, Doubles)
    ceilings = zip(log_delta_ceilings(questions), questions, strict=True)
    found = solve_worst_first(ceilings, _log_delta_in_doubles, lambda _, most, some: most <= max(x.value for x in some))
    return max(found, key=lambda inversion: inversion.value)


@final
class Doubles(Road):
    """Rounded to the safe side, which is up: there is no lower end."""

    def left(self, losses: ComposedPairs, delta: float, side: int) -> float:
        return less_rounding(log_delta_left(losses.failure, delta) if losses.failure > 0 else delta)

    def is_nothing(self, losses: ComposedPairs, log_delta: float) -> bool:
        """Return whether δ(0), the total variation, is at most δ: no loss is positive, or by a bound of it."""
        if not losses.parts:
            return False
        if losses.supremum <= 0:
            return True
        return losses.failure == 0 and (losses.log_added_variation <= log_delta or losses.log_pinsker <= log_delta)

    def is_certain(self, losses: ComposedPairs, epsilon: float) -> bool:
        return losses.log_overlap(epsilon) < -CERTAIN_NATS

    def largest(self, losses: ComposedPairs, side: int) -> float:
        return losses.supremum

    def whole(self, losses: ComposedPairs) -> WholeEnclosure | None:
        if not losses.parts:
            return GaussianInDoubles(GaussianPair(losses.mean))
        return sum_few(losses) if losses.lattice is None and (losses.closed or losses.sums > 0) else None

    def below_largest(self, losses: ComposedPairs) -> WholeEnclosure:
        return LargestLossInDoubles(losses.supremum, losses.log_top_mass)

    def lines(self, losses: ComposedPairs, around: Tilts) -> Iterable[Enclosure]:
        return enclosures_at(losses, plan_for(around))


def _epsilon_in_doubles(question: Question) -> Inversion:
    """Return ε, raised until δ(ε), which has a line of its own, is at most δ: by its slack, or by asking again."""
    solution = question.solve()
    line, epsilon, slack = solution.enclosure, solution.epsilon, solution.slack or 0.0
    if isinstance(line, LineInDoubles | JumpsInDoubles) or (
        isinstance(line, BandInDoubles) and not question.losses.closed
    ):
        near = JUMPS_AGREED_NATS if isinstance(line, JumpsInDoubles) else NEARLY_AGREED_NATS
        if (isinstance(line, LineInDoubles) and line.is_smoothed) or not slack <= near:
            epsilon = _raise_until_agreed(question, line, epsilon, slack)
        elif epsilon > 0:
            epsilon += SLACKS * max(slack, AGREED_NATS) * line.epsilon_per_nat(epsilon)
        epsilon = min(epsilon, question.losses.supremum)
        if math.isinf(epsilon):
            raise OutOfReach("no line that can be afforded proves a bound: its rounding is larger than this δ")
    return _inversion(solution, epsilon, epsilon, "total variation")


def _raise_until_agreed(question: Question, line: Enclosure, epsilon: float, slack: float) -> float:
    for _ in range(RAISES):
        try:
            again = Question(question.losses, question.road, 0, epsilon, question.asked)
            excess = again.solve().log_delta - question.asked
        except OutOfReach:  # δ(ε) is not to be had by a line of its own: ε was tested on this one
            return epsilon + SLACKS * min(slack, 1.0) * line.epsilon_per_nat(epsilon)
        if excess <= 0:
            break
        epsilon += 1.1 * excess * line.epsilon_per_nat(epsilon)
    return epsilon


def _log_delta_in_doubles(question: Question) -> Inversion:
    """Return log δ(ε), or the bound of the total variation where that is smaller, δ(ε) <= δ(0); with the failure."""
    losses, solution = question.losses, question.solve()
    found = _inversion(
        solution, question.asked, solution.log_delta, "affinity" if solution.log_delta == 0 else "largest loss"
    )
    if not found.slack <= AGREED_NATS and losses.failure == 0 and losses.parts:
        cap = min(losses.log_added_variation, losses.log_pinsker)
        if cap < found.value:
            found = Inversion(cap, max(found.slack - (found.value - cap), 0.0), "total variation", 1.0)
    return replace(found, value=log_delta_with(losses.failure, found.value)) if losses.failure > 0 else found


def _inversion(solution: Solution, epsilon: float, value: float, otherwise: str) -> Inversion:
    """Return a value with what its enclosure says of it at ε; `otherwise` is the route without an enclosure."""
    enclosure = solution.enclosure
    if enclosure is None:
        return Inversion(value, 0.0, otherwise)
    slack = enclosure.slack(epsilon) if solution.slack is None else solution.slack
    return Inversion(value, slack, enclosure.route, enclosure.excess(epsilon, solution.log_delta, slack))
