"""Certified intervals: every step from the parameters to the ends in ball arithmetic, or rounded to the outside.

For one direction doubles plan: where the answer is, about, a tilt, a step, where losses are split. What is proven:

- M at the nodes of a line, and at the two tilts of Chernoff's bound: `pairs.certified`, from parameters that are balls
  themselves;
- what lies beyond the end of the line: cells of the tilted law as balls, and the two inequalities of `numerics.decay`;
- the finite sum, its aliases, and the logarithm: `ball_line`;
- few and rare steps, whose lines would not end: `ball_split`.

The upper end comes from pairs that dominate, the lower from pairs that are attained. Where balls would take too long
they still prove something: Chernoff's bound, or the largest loss.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.answer import Interval
from cumulant.errors import OutOfReach
from cumulant.inversion.ball_line import ROUGH, ball_line, smooth_lines
from cumulant.inversion.ball_split import SplitInBalls, split_line
from cumulant.inversion.ball_whole import (
    ENCLOSURE_BITS,
    ChernoffInBalls,
    GaussianInBalls,
    LargestLossInBalls,
    OneSampleInBalls,
    SmoothedBallLine,
    failure_of,
    largest_loss,
    log_left,
)
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.enclosure import Enclosure, WholeEnclosure
from cumulant.inversion.enumeration import FiniteSum, enumerate_sums, sum_one_release
from cumulant.inversion.plan import Tilts, plan_for
from cumulant.inversion.question import Question, Road
from cumulant.inversion.solve import Directions, ask_delta, ask_epsilon, solve_worst_first
from cumulant.inversion.split_plan import Steps
from cumulant.inversion.work_budget import MOST_MICROSECONDS, WorkBudget
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float

if TYPE_CHECKING:
    from flint import arb

WIDE_NATS = 1e-4  # how far apart bounds of a smoothed loss may be


def delta_ball(*, delta: float | None, log_delta: float | None) -> arb:
    """Return δ as it was given: exactly, or as e^{log δ}."""
    with precision(ENCLOSURE_BITS):
        return as_ball(delta) if delta is not None else as_ball(log_delta or 0.0).exp()


def certified_epsilon(upper: Directions, lower: Directions, delta: arb, about: float = math.nan) -> Interval:
    """Return ε at δ between a bound that holds for all neighbours and one that some attain; look `about` there."""
    new_road = _roads_of(upper, lower, about)

    def solve(directions: Directions, side: int) -> float:
        ranked = [(_likely_epsilon(question), question) for question in ask_epsilon(directions, delta, side, new_road)]
        return max(solve_worst_first(ranked, lambda question: question.solve().epsilon, _has_enough_epsilon))

    return _interval(solve(lower, -1), solve(upper, 1))


def certified_delta(upper: Directions, lower: Directions, epsilon: float, about: float = math.nan) -> Interval:
    """Return δ at ε between a bound that holds for all neighbours and one that some attain; log δ is `about` that."""
    new_road = _roads_of(upper, lower, about)

    def solve(directions: Directions) -> list[tuple[float, float]]:
        ranked = [(_likely_log_delta(question), question) for question in ask_delta(directions, epsilon, new_road)]
        return solve_worst_first(ranked, _delta_ends, _has_smaller_delta)

    ends = solve(upper)
    attained = ends if lower == upper else solve(lower)
    return _interval(max(low for low, _ in attained), max(high for _, high in ends))


def _roads_of(upper: Directions, lower: Directions, about: float) -> Callable[[], Balls]:
    """Return roads in balls, one for each direction with its share of the time; equal ends share their lines."""
    share = MOST_MICROSECONDS / (len(upper) if lower == upper else len(upper) + len(lower))
    return lambda: Balls(WorkBudget(share), about)


def _interval(low: float, high: float) -> Interval:
    """Return both ends; ends that contradict one another, or are no numbers, prove nothing."""
    if math.isnan(low) or math.isnan(high):
        return Interval(0.0, math.inf)
    return Interval(min(low, high), max(low, high), certified=low <= high)


# ε at δ ---------------------------------------------------------------------------------------------------------------


def _likely_epsilon(question: Question) -> float:
    """Return about ε, by Chernoff's bound; inf where it takes no tilts to know."""
    losses, road = question.losses, question.road
    if not question.needs_tilts:
        return losses.mean
    if isinstance(road, Balls) and losses.supremum <= road.about:
        return losses.supremum
    if (one := _one_release(losses)) is not None:
        return one.start(question.asked)
    if road.top(losses, question.side, question.asked) is not None or question.around is None:
        return math.inf
    t = question.around
    return float(np.min((t.k + log_chernoff(t.theta) - question.asked) / t.theta))


def _has_enough_epsilon(question: Question, _: float, found: list[float]) -> bool:
    """Return whether Chernoff's bound proves that δ at the largest ε so far is small enough here as well."""
    epsilon = max(found)
    if not question.losses.parts or not -math.inf < question.asked < 0 or not epsilon < math.inf:
        return False
    return question.losses.supremum <= epsilon or _is_below(question, epsilon, question.asked)


def _is_below(question: Question, epsilon: float, log_delta: float) -> bool:
    """Return whether Chernoff's bound, or a closed form, proves that log δ(ε) is at most this."""
    if (one := _one_release(question.losses)) is not None:
        return one.log_bounds(epsilon)[1] <= log_delta
    around, road = question.around, question.road
    if around is None or not isinstance(road, Balls):
        return False
    try:
        return ChernoffInBalls.of(question.seen, around, epsilon, road.budget).log_bounds(epsilon)[1] <= log_delta
    except OutOfReach:
        return False


# δ at ε ---------------------------------------------------------------------------------------------------------------


def _delta_ends(question: Question) -> tuple[float, float]:
    solution = question.solve()
    with precision(ENCLOSURE_BITS):
        p = failure_of(question.losses)
        low, high = (p + (1 - p) * _exp(log) for log in (solution.low, solution.log_delta))
        return max(lower_float(low), 0.0), 0.0 if high == 0 else min(upper_float(high), 1.0)


def _exp(log: float) -> arb:
    return as_ball(log).exp() if log > -math.inf else as_ball(0.0)


def _likely_log_delta(question: Question) -> float:
    """Return about log δ(ε); inf where it takes no tilts to know, or something is revealed."""
    losses = question.losses
    if not losses.parts or losses.failure > 0 or not question.asked < losses.supremum:
        return math.inf
    if (one := _one_release(losses)) is not None:
        return one.log_bounds(question.asked)[1]
    if question.road.top(losses, question.side, question.asked) is not None:
        return math.inf
    try:
        t = question.around
        return math.inf if t is None else float(np.min(t.k + log_chernoff(t.theta) - t.theta * question.asked))
    except OutOfReach:
        return math.inf


def _has_smaller_delta(question: Question, likely: float, found: list[tuple[float, float]]) -> bool:
    """Return whether Chernoff's bound proves that δ is at most the largest lower end so far."""
    least = max((low for low, _ in found), default=0.0)
    if not least > 0 or likely == math.inf:
        return False
    return _is_below(question, question.asked, math.log(least) - 1e-9)


def _one_release(losses: ComposedPairs) -> FiniteSum | OneSampleInBalls | None:
    """Return the profile of a single release where it is a formula, or a sum."""
    return sum_one_release(losses) or OneSampleInBalls.of(losses)


# The road in balls ----------------------------------------------------------------------------------------------------


@final
class Balls(Road):
    """Enclosed, or rounded to the side that was asked for, as long as the budget lasts."""

    def __init__(self, budget: WorkBudget, about: float) -> None:
        self.budget = budget
        self._paid: SplitInBalls | None = None
        self.about = about  # ε, or log δ where ε is given; NaN where nothing is known of it

    def left(self, losses: ComposedPairs, delta: arb, side: int) -> float:
        with precision(ENCLOSURE_BITS):
            least, most = log_left(failure_of(losses), delta)
        return least if side > 0 else most

    def is_nothing(self, losses: ComposedPairs, log_delta: float) -> bool:
        return not losses.parts and losses.mean == 0

    def largest(self, losses: ComposedPairs, side: int) -> float:
        top = largest_loss(losses)
        if top is None:
            return math.inf
        return max(lower_float(top) if side < 0 or top == 0 else upper_float(top), 0.0)

    def whole(self, losses: ComposedPairs) -> WholeEnclosure | None:
        if not losses.parts:
            return GaussianInBalls(losses.mean)
        return enumerate_sums(losses) or OneSampleInBalls.of(losses)

    def top(self, losses: ComposedPairs, side: int, asked: float) -> WholeEnclosure | None:
        """Return the split where few losses make up ε: it takes no tilts, other lines would not end."""
        epsilon, log_delta = (self.about, asked) if side else (asked, self.about)
        with contextlib.suppress(OutOfReach):
            if Steps.of(losses).is_rare(epsilon):
                return self._split(losses, epsilon, log_delta)
        return None

    def below_largest(self, losses: ComposedPairs) -> WholeEnclosure:
        return LargestLossInBalls.of(losses)

    def refine(self, around: Tilts, side: int) -> Tilts:
        """Return the tilts with the answer of doubles."""
        if side and 0 < self.about < math.inf:
            return around.ask(self.about, around.log_delta)
        return around.ask(around.epsilon, self.about) if not side and -math.inf < self.about < 0 else around

    def lines(self, losses: ComposedPairs, around: Tilts) -> Iterable[Enclosure]:
        """Return the first enclosure that is affordable: Chernoff's bound, which is Rényi DP, mostly is."""
        plan = plan_for(around)
        for enclose in (
            lambda: ball_line(losses, plan, self.budget),
            lambda: self._split(losses, around.epsilon, around.log_delta),
            lambda: ball_line(losses, plan, self.budget, ROUGH),
            lambda: self._smoothed(losses, around),
            lambda: ChernoffInBalls.of(losses, around, around.epsilon, WorkBudget()),
        ):
            with contextlib.suppress(OutOfReach):
                return (enclose(),)
        return (LargestLossInBalls.of(losses),)

    def _split(self, losses: ComposedPairs, epsilon: float, log_delta: float) -> SplitInBalls:
        line = split_line(Steps.of(losses), epsilon, log_delta)
        if line is not self._paid:
            self.budget.pay(line.microseconds)
            self._paid = line
        return line

    def _smoothed(self, losses: ComposedPairs, around: Tilts) -> SmoothedBallLine:
        if losses.lattice is not None or not any(pair.has_atoms for pair, _ in losses.parts):
            raise OutOfReach("a smoothed line says nothing where no loss is an atom")
        smoothed = SmoothedBallLine(*smooth_lines(losses, plan_for(around), self.budget))
        if not smoothed.slack(around.epsilon) <= WIDE_NATS:
            raise OutOfReach("a smoothed line says little")
        return smoothed
