"""ε at δ and δ at ε of dominating pairs: one solver, in doubles and in balls.

A *direction* says which neighbour comes first: the pairs of all releases that way round, with counts. Each is asked by
itself (`question`), and the answer is the worst over directions.

Every answer in doubles is an upper bound whatever the route; `slack` says how far it can be off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

import numpy as np

from cumulant.curves.failure import log_delta_left, log_delta_with
from cumulant.errors import OutOfReach
from cumulant.inversion.band import BandInDoubles
from cumulant.inversion.composed import ComposedPairs, Direction
from cumulant.inversion.contour import Contour, bound_epsilon
from cumulant.inversion.enclosure import (
    MOST_SINES,
    Enclosure,
    GaussianInDoubles,
    LargestLossInDoubles,
    WholeEnclosure,
    WorkBudget,
)
from cumulant.inversion.enclosure import gaussian_epsilon as gaussian_epsilon  # noqa: PLC0414 - an entry point
from cumulant.inversion.enclosure import gaussian_log_delta as gaussian_log_delta  # noqa: PLC0414 - an entry point
from cumulant.inversion.lines import paid_enclosures_at
from cumulant.inversion.out_of_sight import leave_out_unseen
from cumulant.inversion.pieces import sum_few, sum_one, sum_top, sum_top_at_delta
from cumulant.inversion.plan import Tilts, plan_for
from cumulant.inversion.question import Question, Road, Solution
from cumulant.numerics.rounding import LEAST, less_rounding, log_below, more_rounding
from cumulant.pairs.pair import GaussianPair

AGREED_NATS = 1e-12  # slack from which δ(ε), on a line of its own, may come out above the δ that was asked for
NEARLY_AGREED_NATS, SLACKS = 1e-9, 4.0  # up to which a line, but no band, is raised by so many times the slack
SEEN_NATS = 2e-9  # by which the total variation is above δ where outputs show who is in a sample
CERTAIN_NATS = 45.0  # 1 - e^-45 is 1 as a double, whatever the affinity has lost by rounding
LEAST_LOG_DELTA = math.log(LEAST)  # of the smallest δ that a double can hold
RAISES = 4  # times that ε is raised until δ(ε) agrees
RAISED_SHARE = 2e-7  # of ε, or four times what its own line leaves open, by which it is raised at most
MOST_RAISED_NATS = 1e-6  # of slack, by which it is raised beyond that

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


# All directions -------------------------------------------------------------------------------------------------------


def ask_epsilon(directions: Directions, delta: Any, side: int, new_road: Callable[[], Road]) -> list[Question]:
    asked = [(ComposedPairs.of(direction), new_road()) for direction in directions]
    return [Question(losses, road, side, road.left(losses, delta, side)) for losses, road in asked]


def ask_delta(directions: Directions, epsilon: float, new_road: Callable[[], Road]) -> list[Question]:
    """Return a question for each direction; a δ below the least double need not be known better than that."""
    return [Question(ComposedPairs.of(direction), new_road(), 0, epsilon, LEAST_LOG_DELTA) for direction in directions]


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

    def is_settled(question: Question, _: float, some: list[Inversion]) -> bool:
        return _is_within(question, max(inversion.value for inversion in some), question.asked)

    found = solve_worst_first(_by_largest_loss(questions), _epsilon_in_doubles, is_settled)
    nothing = all(question.losses.tells_nothing for question in questions)
    least = Inversion(0.0, 0.0, "nothing" if nothing else "total variation")
    worst = max([least, *found], key=lambda inversion: inversion.value)
    return worst if worst.value < math.inf or _is_infinite(questions, log_delta) else replace(worst, excess=1.0)


def _is_infinite(questions: Sequence[Question], log_delta: float) -> bool:
    """Return whether surely no ε is enough: δ is 0, or less than what fails, both with their rounding against it.

    Otherwise an infinite ε is an upper bound only: of a δ that is next to what fails, or of an ε that no double holds.
    """
    failure = max(question.losses.failure for question in questions)
    return log_delta == -math.inf or (failure > 0 and more_rounding(log_delta) < log_below(math.log(failure)))


def log_delta_of_pairs(directions: Directions, epsilon: float) -> Inversion:
    """Return log δ(ε), the largest over directions, rounded up."""
    questions = ask_delta(directions, epsilon, Doubles)
    every = [question.losses for question in questions]
    if any(losses.reveals_samples(epsilon) for losses in every) and not any(losses.failure for losses in every):
        most = max(losses.log_joint_variation for losses in every)
        return Inversion(min(most, 0.0), SEEN_NATS, "total variation", 1.0)

    def is_settled(question: Question, _: float, some: list[Inversion]) -> bool:
        worst = max(inversion.value for inversion in some)
        return _is_within(question, epsilon, question.road.left(question.losses, worst, 1))

    found = solve_worst_first(_by_largest_loss(questions), _log_delta_in_doubles, is_settled)
    return max(found, key=lambda inversion: inversion.value)


def _by_largest_loss(questions: Sequence[Question]) -> list[tuple[float, Question]]:
    """Return questions with what makes them likely the worst: the largest loss."""
    return [(question.losses.supremum, question) for question in questions]


def _is_within(question: Question, epsilon: float, log_delta: float) -> bool:
    """Return whether log δ(ε) is proven to be at most this, by less than a line of its own; NaN is more than all."""
    losses = question.losses
    if math.isnan(log_delta) or not epsilon < math.inf:
        return False
    if losses.supremum <= epsilon or log_delta >= 0:  # no δ is above 1, whatever is revealed
        return True
    if (whole := sum_one(losses)) is not None:
        return whole.log_bounds(epsilon)[1] <= log_delta
    if not losses.parts or question.road.is_certain(losses, epsilon):
        return False
    seen = leave_out_unseen(losses, log_delta)
    return bool(seen.row.are_within(np.array([epsilon]), np.array([log_delta]))[0])


def epsilon_ceiling(question: Question) -> float:
    """Return Chernoff's bound of ε at the question's own tilts, with what is left out; inf where there are none."""
    try:
        around = question.around if question.needs_tilts else None
    except OutOfReach:
        around = None
    if around is None:
        return math.inf
    left_out = question.seen.left_out
    share = math.exp(math.log(left_out) - question.asked) if left_out > 0 else 0.0  # of δ
    less = -math.log1p(-share) if share < 1 else math.inf
    return float(np.min(bound_epsilon(around.theta, around.k, question.asked - less)))


@final
class Doubles(Road):
    """Rounded to the safe side, which is up: there is no lower end."""

    def __init__(self) -> None:
        self._budget = WorkBudget(MOST_SINES)

    def left(self, losses: ComposedPairs, delta: float, side: int) -> float:
        return less_rounding(log_delta_left(losses.failure, delta) if losses.failure > 0 else delta)

    def is_nothing(self, losses: ComposedPairs, log_delta: float) -> bool:
        """Return whether δ(0), the total variation, is at most δ: no loss is positive, or by a bound of it."""
        if not losses.parts:
            return False
        if losses.supremum <= 0:
            return True
        if (whole := sum_one(losses)) is not None:
            return whole.log_bounds(0.0)[1] <= log_delta
        if losses.closed is not None and losses.closed.lies_next_to_top(log_delta):
            return False
        return _log_variation(losses) <= log_delta

    def is_certain(self, losses: ComposedPairs, epsilon: float) -> bool:
        if losses.one_table is not None:  # its sum tells
            return False
        by_gaussians = epsilon / 2 - losses.variance / 8  # no release gives back what they have told
        return by_gaussians < -CERTAIN_NATS or losses.log_overlap(epsilon) < -CERTAIN_NATS

    def largest(self, losses: ComposedPairs, side: int) -> float:
        return losses.supremum

    def whole(self, losses: ComposedPairs) -> WholeEnclosure | None:
        if not losses.parts:
            return GaussianInDoubles(GaussianPair(losses.mean))
        if (whole := sum_one(losses)) is not None:
            return whole
        return sum_few(losses) if losses.lattice is None and (losses.closed or losses.sums > 0) else None

    def top(self, losses: ComposedPairs, side: int, asked: float) -> WholeEnclosure | None:
        return sum_top(losses, asked) if side == 0 else sum_top_at_delta(losses, asked)

    def below_largest(self, losses: ComposedPairs) -> WholeEnclosure:
        return LargestLossInDoubles(losses.supremum, losses.log_top_mass)

    def lines(self, losses: ComposedPairs, around: Tilts) -> Iterable[Enclosure]:
        return paid_enclosures_at(losses, plan_for(around), self._budget)


def _epsilon_in_doubles(question: Question) -> Inversion:
    """Return ε, raised until δ(ε), which has a line of its own, is at most δ: by its slack, or by asking again."""
    solution = question.solve()
    line, epsilon, slack = solution.enclosure, solution.epsilon, solution.slack or 0.0
    if isinstance(line, Contour | BandInDoubles):
        epsilon = min(epsilon, question.losses.supremum)
        if math.isinf(epsilon):
            raise OutOfReach("no line that can be afforded proves a bound: its rounding is larger than this δ")
        if isinstance(line, BandInDoubles) or not slack <= NEARLY_AGREED_NATS:
            epsilon = _raise_until_agreed(question, line, epsilon, slack)
        elif epsilon > 0:
            epsilon += SLACKS * max(slack, AGREED_NATS) * line.epsilon_per_nat(epsilon)
        epsilon = min(epsilon, question.losses.supremum)
    asked = more_rounding(more_rounding(solution.log_delta))  # the δ asked for, or more: what was solved for is less
    return _inversion(solution, epsilon, epsilon, asked, "total variation")


def _raise_until_agreed(question: Question, line: Enclosure, epsilon: float, slack: float) -> float:
    most = epsilon + max(RAISED_SHARE * epsilon, SLACKS * min(slack, 1.0) * line.epsilon_per_nat(epsilon))
    for turn in range(RAISES):
        try:
            again = Question(question.losses, question.road, 0, epsilon, question.asked)
            excess = again.solve().log_delta - question.asked
        except OutOfReach:  # δ(ε) is not to be had by a line of its own: ε was tested on this one
            return epsilon + SLACKS * min(slack, 1.0) * line.epsilon_per_nat(epsilon)
        if excess <= 0:
            break
        # other lines differ by some of their slack: more is added each time
        more = 1.1 * excess + 2.0**turn * min(slack, MOST_RAISED_NATS)
        epsilon = min(epsilon + more * line.epsilon_per_nat(epsilon), most)
    return epsilon


def _log_delta_in_doubles(question: Question) -> Inversion:
    """Return log δ(ε), or the bound of the total variation where that is smaller, δ(ε) <= δ(0); with the failure."""
    losses = question.losses
    try:
        solution = question.solve()
        otherwise = "affinity" if solution.log_delta == 0 else "largest loss"
        found = _inversion(solution, question.asked, solution.log_delta, solution.log_delta, otherwise)
    except OutOfReach:
        if _log_variation(losses) == 0:
            raise
        found = Inversion(0.0, math.inf, "total variation", 1.0)
    if not found.slack <= AGREED_NATS and (cap := _log_variation(losses)) < found.value:
        found = Inversion(cap, max(found.slack - (found.value - cap), 0.0), "total variation", 1.0)
    return replace(found, value=log_delta_with(losses.failure, found.value)) if losses.failure > 0 else found


def _log_variation(losses: ComposedPairs) -> float:
    """Return a bound of log δ(0), which is at least log δ(ε), by couplings or by Pinsker; 0 where none is known."""
    if losses.failure > 0 or not losses.parts:
        return 0.0
    return min(losses.log_joint_variation, losses.log_pinsker, 0.0)


def _inversion(solution: Solution, epsilon: float, value: float, log_delta: float, otherwise: str) -> Inversion:
    """Return a value with what its enclosure says of it at ε and log δ; `otherwise` is the route without one."""
    enclosure = solution.enclosure
    if enclosure is None:
        return Inversion(value, 0.0, otherwise)
    slack = enclosure.slack(epsilon) if solution.slack is None else solution.slack
    return Inversion(value, slack, enclosure.route, enclosure.excess(epsilon, log_delta, slack))
