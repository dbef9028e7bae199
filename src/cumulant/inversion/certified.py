"""Certified intervals: every step from the parameters to the ends in ball arithmetic, or rounded to the outside.

For one direction doubles plan: where the answer is, about, a tilt, a step, where losses are split. What is proven:

- M at the nodes of a line, and at the two tilts of Chernoff's bound: `pairs.certified`, from parameters that are balls
  themselves;
- what lies beyond the end of the line: `ball_end`; or, where it does not end, that a stretch of it is enough;
- the sum, its aliases, and the logarithm: `ball_line`;
- few and rare steps, whose lines would not end: `ball_split`.

The upper end comes from pairs that dominate, the lower from pairs that are attained. Where balls would take too long
they still prove something: Chernoff's bound, or the largest loss.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, final

from cumulant.answer import Interval
from cumulant.errors import OutOfReach
from cumulant.inversion.ball_line import FAR_APART_NATS, ChernoffInBalls, ball_line, band_line
from cumulant.inversion.ball_split import SampledLosses, SplitInBalls, is_rare, split_in_balls
from cumulant.inversion.ball_whole import (
    ENCLOSURE_BITS,
    GaussianInBalls,
    LargestLossInBalls,
    OneSampleInBalls,
    enumerate_sums,
    failure_of,
    largest_loss,
    log_left,
)
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import MOST_MICROSECONDS, Enclosure, WholeEnclosure, WorkBudget
from cumulant.inversion.plan import Tilts, plan_for
from cumulant.inversion.question import Question, Road
from cumulant.inversion.solve import Directions, ask_delta, ask_epsilon
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float

if TYPE_CHECKING:
    from flint import arb


def delta_ball(*, delta: float | None, log_delta: float | None) -> arb:
    """Return δ as it was given: exactly, or as e^{log δ}."""
    with precision(ENCLOSURE_BITS):
        return as_ball(delta) if delta is not None else as_ball(log_delta or 0.0).exp()


def certified_epsilon(
    upper: Directions, lower: Directions, delta: arb, about: float = math.nan, about_lower: float | None = None
) -> Interval:
    """Return ε at δ between a bound that holds for all neighbours and one that some attain; look `about` there."""

    def solve(directions: Directions, side: int) -> float:
        new_road = _roads_of(upper, lower, about if side > 0 or about_lower is None else about_lower)
        epsilon = 0.0
        for question in ask_epsilon(directions, delta, side, new_road):
            if not _is_below(question, epsilon, question.asked) and not _is_below_by_line(question, epsilon):
                epsilon = max(epsilon, question.solve().epsilon)
        return epsilon

    return _interval(solve(lower, -1), solve(upper, 1))


def certified_delta(upper: Directions, lower: Directions, epsilon: float, about: float = math.nan) -> Interval:
    """Return δ at ε between a bound that holds for all neighbours and one that some attain; log δ is `about` that."""
    new_road = _roads_of(upper, lower, about)

    def solve(directions: Directions) -> tuple[float, float]:
        low, high = 0.0, 0.0
        for question in ask_delta(directions, epsilon, new_road):
            if question.losses.failure > 0 or not low > 0 or not _is_below(question, epsilon, math.log(low) - 1e-9):
                ends = _delta_ends(question)
                low, high = max(low, ends[0]), max(high, ends[1])
        return low, high

    ends = solve(upper)
    return _interval(ends[0] if lower == upper else solve(lower)[0], ends[1])


def _roads_of(upper: Directions, lower: Directions, about: float) -> Callable[[], Balls]:
    """Return roads in balls, one for each direction with its share of the time; equal ends share their lines."""
    share = MOST_MICROSECONDS / (len(upper) if lower == upper else len(upper) + len(lower))
    return lambda: Balls(WorkBudget(share), about)


def _interval(low: float, high: float) -> Interval:
    """Return both ends; ends that contradict one another, or are no numbers, prove nothing."""
    if math.isnan(low) or math.isnan(high):
        return Interval(0.0, math.inf)
    return Interval(min(low, high), max(low, high), certified=low <= high)


def _is_below(question: Question, epsilon: float, log_delta: float) -> bool:
    """Return whether a closed form, or Chernoff's bound, proves that log δ(ε) is at most this: then no line is needed.

    At ε = 0 there is nothing yet that would be enough.
    """
    losses, road = question.losses, question.road
    if not 0 < epsilon < math.inf or not -math.inf < log_delta < 0:
        return False
    if (whole := road.whole(losses)) is not None:
        return whole.log_bounds(epsilon)[1] <= log_delta
    if epsilon >= road.largest(losses, 1):
        return True
    with contextlib.suppress(OutOfReach):
        if question.around is not None:
            chernoff = ChernoffInBalls.of(question.seen, question.around, epsilon, WorkBudget())
            return chernoff.log_bounds(epsilon)[1] <= log_delta
    return False


def _is_below_by_line(question: Question, epsilon: float) -> bool:
    """Return whether the first line that is planned says that δ(ε) is at most δ: then none is planned at its own ε."""
    if not 0 < epsilon < math.inf or not -math.inf < question.asked < 0:
        return False
    if question.road.whole(question.losses) is not None:  # which has said that it is not
        return False
    with contextlib.suppress(OutOfReach):
        if question.around is not None:
            line = next(iter(question.road.lines(question.seen, question.around)))
            return line.log_bounds(epsilon)[1] <= question.asked
    return False


def _delta_ends(question: Question) -> tuple[float, float]:
    solution = question.solve()
    with precision(ENCLOSURE_BITS):
        p = failure_of(question.losses)
        low, high = (p + (1 - p) * _exp(log) for log in (solution.low, solution.log_delta))
        return max(lower_float(low), 0.0), 0.0 if high == 0 else min(upper_float(high), 1.0)


def _exp(log: float) -> arb:
    return as_ball(log).exp() if log > -math.inf else as_ball(0.0)


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
            if is_rare(SampledLosses.of(losses).releases, epsilon):
                return self._split(losses, epsilon, log_delta)
        return None

    def below_largest(self, losses: ComposedPairs) -> WholeEnclosure:
        return LargestLossInBalls.of(losses)

    def refine(self, around: Tilts, side: int) -> Tilts:
        """Return the tilts with the answer of doubles."""
        if side and 0 < self.about < math.inf:
            return around.ask(self.about, around.log_delta)
        return around.ask(around.epsilon, self.about) if not side and -math.inf < self.about < 0 else around

    def lines(self, losses: ComposedPairs, around: Tilts) -> Iterator[Enclosure]:
        """Yield the first enclosure that is affordable, and Chernoff's bound, which is Rényi DP, if it says little.

        A line that ends, a split, a band: a band is affordable mostly, and the widest of them.
        """
        for enclose in (
            lambda: ball_line(losses, plan_for(around), self.budget),
            lambda: self._split(losses, around.epsilon, around.log_delta),
            lambda: band_line(losses, around, self.budget),
        ):
            with contextlib.suppress(OutOfReach):
                found: Enclosure = enclose()
                yield found
                if found.slack(around.epsilon) < FAR_APART_NATS:
                    return
                break
        with contextlib.suppress(OutOfReach):
            yield ChernoffInBalls.of(losses, around, around.epsilon, WorkBudget())
        yield LargestLossInBalls.of(losses)

    def _split(self, losses: ComposedPairs, epsilon: float, log_delta: float) -> SplitInBalls:
        line = split_in_balls(SampledLosses.of(losses), epsilon, log_delta)
        if line is not self._paid:
            self.budget.pay(line.microseconds)
            self._paid = line
        return line
