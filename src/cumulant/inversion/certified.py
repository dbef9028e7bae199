"""Certified intervals: every step from the parameters to the ends in ball arithmetic, or rounded to the outside.

For one direction the line is planned in doubles: a tilt, a step. What is proven of it then:

- M at the nodes of the line, and at the two tilts of Chernoff's bound: `pairs.certified`, from parameters that are
  balls themselves;
- what lies beyond the end of the line: cells of the tilted law as balls, and the two inequalities of `numerics.decay`;
- the finite sum, its aliases, and the logarithm: `ball_line`.

The upper end comes from pairs that dominate, the lower from pairs that are attained. An interval says `certified` only
if both ends came this way. Where balls would take too long the bounds of the float path are used, which carry estimates
of every rounding (`Contour`); such an interval says so, and how wide the part is that rests on them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from cumulant.answer import Interval
from cumulant.errors import OutOfReach
from cumulant.inversion.ball_enclosure import (
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
from cumulant.inversion.ball_jumps import jump_line
from cumulant.inversion.ball_line import ROUGH, ball_line, smooth_lines
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import CLOSE_NATS, Effort, Enclosure, WholeEnclosure
from cumulant.inversion.enumeration import FiniteSum, enumerate_sums, sum_one_release
from cumulant.inversion.lines import InDoubles, paid_enclosures_at
from cumulant.inversion.plan import Plan, Tilts, plan_for
from cumulant.inversion.purse import MOST_MICROSECONDS, MOST_SINES, Purse
from cumulant.inversion.question import Question, Road, is_proven
from cumulant.inversion.solve import Directions, ask_delta, ask_epsilon, solve_worst_first
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float

if TYPE_CHECKING:
    from flint import arb

WIDE_NATS = 1e-4  # how far apart proven bounds may be before estimated ones are preferred
LITTLE = Effort(rounds=3, turns=12, still=1e-10)  # for bounds that rest on estimates


@final
@dataclass(frozen=True, slots=True)
class End:
    """One end of an interval, whether balls prove it, and how much of it rests on estimates otherwise."""

    value: float
    proven: bool = True
    estimated: float = 0.0


def delta_ball(*, delta: float | None, log_delta: float | None) -> arb:
    """Return δ as it was given: exactly, or as e^{log δ}."""
    with precision(ENCLOSURE_BITS):
        return as_ball(delta) if delta is not None else as_ball(log_delta or 0.0).exp()


def certified_epsilon(upper: Directions, lower: Directions, delta: arb) -> Interval:
    """Return ε at δ between a bound that holds for all neighbours and one that some attain."""
    new_road = _roads_of(upper, lower)
    below, above = (
        solve_worst_first(
            [(_likely_epsilon(question), question) for question in ask_epsilon(directions, delta, side, new_road)],
            _epsilon_end,
            _has_enough_epsilon,
        )
        for directions, side in ((lower, -1), (upper, 1))
    )
    return _interval(below, above)


def certified_delta(upper: Directions, lower: Directions, epsilon: float) -> Interval:
    """Return δ at ε between a bound that holds for all neighbours and one that some attain."""
    new_road = _roads_of(upper, lower)
    ends = _delta_ends_of(upper, epsilon, new_road)
    attained = ends if lower == upper else _delta_ends_of(lower, epsilon, new_road)
    return _interval([low for low, _ in attained], [high for _, high in ends])


def _roads_of(upper: Directions, lower: Directions) -> Callable[[], Balls]:
    """Return roads in balls, one for each direction with its share of the time; equal ends share their lines."""
    share = MOST_MICROSECONDS / (len(upper) if lower == upper else len(upper) + len(lower))
    return lambda: Balls(Purse(share))


def _delta_ends_of(directions: Directions, epsilon: float, new_road: Callable[[], Balls]) -> list[tuple[End, End]]:
    ranked = [(_likely_log_delta(question), question) for question in ask_delta(directions, epsilon, new_road)]
    return solve_worst_first(ranked, _delta_ends, _has_smaller_delta)


def _interval(lowers: Sequence[End], uppers: Sequence[End]) -> Interval:
    """Return both ends; ends that contradict one another, or are no numbers, prove nothing."""
    above = _worst(uppers)
    below = _attained(lowers) if above.proven else max(lowers, key=lambda end: end.value)
    lower, upper = min(below.value, above.value), max(below.value, above.value)
    certain = below.proven and above.proven and below.value <= above.value
    return Interval(lower, upper, certified=certain, unproven=below.estimated + above.estimated)


def _worst(ends: Sequence[End]) -> End:
    """Return the largest end; it is proven if all are, since another one may be the larger in truth."""
    largest = max(ends, key=lambda end: math.inf if math.isnan(end.value) else end.value)
    return End(largest.value, all(end.proven for end in ends), max(end.estimated for end in ends))


def _attained(ends: Sequence[End]) -> End:
    """Return the largest of the proven ends, each of which bounds from below by itself; of none, the largest."""
    return max([end for end in ends if end.proven] or ends, key=lambda end: end.value)


# ε at δ ---------------------------------------------------------------------------------------------------------------


def _epsilon_end(question: Question) -> End:
    solution = question.solve()
    epsilon, bounds = solution.epsilon, solution.enclosure
    if bounds is None or bounds.proven or not 0 < epsilon < math.inf:
        return End(epsilon, is_proven(solution))
    return End(epsilon, False, bounds.estimated(epsilon) / max(-bounds.slope(epsilon), 1e-300))


def _likely_epsilon(question: Question) -> float:
    if not question.needs_tilts:
        return question.losses.mean
    if (one := _one_release(question.losses)) is not None:
        return one.start(question.asked)
    return math.inf if question.around is None else question.around.epsilon


def _has_enough_epsilon(question: Question, _: float, found: list[End]) -> bool:
    """Return whether Chernoff's bound proves that δ at the largest ε so far is small enough here as well."""
    epsilon = (_worst(found) if question.side > 0 else _attained(found)).value
    if not question.losses.parts or not -math.inf < question.asked < 0 or not epsilon < math.inf:
        return False
    if question.losses.supremum <= 0:
        return True
    return _is_below(question, epsilon, question.asked)


def _is_below(question: Question, epsilon: float, log_delta: float) -> bool:
    """Return whether Chernoff's bound, or a closed form, proves that log δ(ε) is at most this."""
    if (one := _one_release(question.losses)) is not None:
        return one.log_bounds(epsilon)[1] <= log_delta
    around, road = question.around, question.road
    if around is None or not isinstance(road, Balls):
        return False
    try:
        return ChernoffInBalls.of(question.seen, around, epsilon, road.purse).log_bounds(epsilon)[1] <= log_delta
    except OutOfReach:
        return False


# δ at ε ---------------------------------------------------------------------------------------------------------------


def _delta_ends(question: Question) -> tuple[End, End]:
    solution = question.solve()
    bounds = solution.enclosure
    with precision(ENCLOSURE_BITS):
        p = failure_of(question.losses)
        low, high = (p + (1 - p) * _exp(log) for log in (solution.low, solution.log_delta))
        lower, upper = max(lower_float(low), 0.0), 0.0 if high == 0 else min(upper_float(high), 1.0)
    estimated = 0.0 if bounds is None or bounds.proven else bounds.estimated(question.asked) * upper
    return End(lower, is_proven(solution), estimated), End(upper, is_proven(solution), estimated)


def _exp(log: float) -> arb:
    return as_ball(log).exp() if log > -math.inf else as_ball(0.0)


def _likely_log_delta(question: Question) -> float:
    """Return about log δ(ε); inf where no tilts are needed, or something is revealed."""
    losses = question.losses
    if not losses.parts or losses.failure > 0 or not question.asked < losses.supremum:
        return math.inf
    if (one := _one_release(losses)) is not None:
        return one.log_bounds(question.asked)[1]
    try:
        return math.inf if question.around is None else question.around.log_delta
    except OutOfReach:
        return math.inf


def _has_smaller_delta(question: Question, likely: float, found: list[tuple[End, End]]) -> bool:
    """Return whether Chernoff's bound proves that δ is at most the largest lower end so far."""
    least = max((low.value for low, _ in found if low.proven), default=0.0)
    if not least > 0 or likely == math.inf:
        return False
    return _is_below(question, question.asked, math.log(least) - 1e-9)


def _one_release(losses: ComposedPairs) -> FiniteSum | OneSampleInBalls | None:
    """Return the profile of a single release where it is a formula, or a sum."""
    return sum_one_release(losses) or OneSampleInBalls.of(losses)


# The road in balls ----------------------------------------------------------------------------------------------------


@final
class Balls(Road):
    """Enclosed, or rounded to the side that was asked for, as long as the purse lasts; another one is for doubles."""

    def __init__(self, purse: Purse) -> None:
        self.purse = purse
        self._sines = Purse(MOST_SINES / 4)  # of two directions, each from both sides
        self._rests_on_doubles = False

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

    def below_largest(self, losses: ComposedPairs) -> WholeEnclosure:
        return LargestLossInBalls.of(losses)

    def lines(self, losses: ComposedPairs, around: Tilts) -> Iterable[Enclosure]:
        """Return balls if they are affordable, else the line in doubles whose bounds are the closest."""
        plan = plan_for(around)
        for line in (
            lambda: ball_line(losses, plan, self.purse),
            lambda: jump_line(losses, around, self.purse),
            lambda: ball_line(losses, plan, self.purse, ROUGH),
        ):
            with contextlib.suppress(OutOfReach):
                return (line(),)
        if self._sines.left < 0 and self._rests_on_doubles:
            raise OutOfReach("what lines in doubles have said stands")
        try:
            doubles = _closest(paid_enclosures_at(losses, plan, self._sines), around.epsilon)
        except OutOfReach:
            return (_without_line(losses, around),)
        # doubles afford longer lines: where they smooth too much, balls would
        smoothed = _smooth(losses, plan, self.purse) if _distance(doubles, around.epsilon) <= WIDE_NATS else None
        if smoothed is not None and _distance(smoothed, around.epsilon) <= WIDE_NATS:
            return (smoothed,)
        if _distance(doubles, around.epsilon) == math.inf:
            return (_without_line(losses, around),)
        self._rests_on_doubles = True
        return (replace(doubles, enough=0.0, effort=LITTLE),)


def _closest(lines: Iterable[InDoubles], epsilon: float) -> InDoubles:
    """Return the first line whose bounds are as good as equal, else the one whose bounds are the closest."""
    seen: list[InDoubles] = []
    for line in lines:
        if _distance(line, epsilon) <= CLOSE_NATS:
            return line
        seen.append(line)
    return min(seen, key=lambda line: _distance(line, epsilon))


def _without_line(losses: ComposedPairs, around: Tilts) -> Enclosure:
    """Return Chernoff's bound, which is Rényi DP in balls; the largest loss where that is not affordable."""
    try:
        return ChernoffInBalls.of(losses, around, around.epsilon, Purse())
    except OutOfReach:
        return LargestLossInBalls.of(losses)


def _smooth(losses: ComposedPairs, plan: Plan, purse: Purse) -> SmoothedBallLine | None:
    if losses.lattice is not None or not any(pair.has_atoms for pair, _ in losses.parts):
        return None
    try:
        return SmoothedBallLine(*smooth_lines(losses, plan, purse))
    except OutOfReach:
        return None


def _distance(bounds: Enclosure, epsilon: float) -> float:
    low, high = bounds.log_bounds(epsilon)
    return high - low if low > -math.inf else math.inf
