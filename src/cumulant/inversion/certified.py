"""Certified intervals: every step from the parameters to the ends in ball arithmetic, or rounded to the outside.

For one direction the line is planned in doubles: a tilt, a step. What is proven of it then:

- M at the nodes of the line, and at the two tilts of Chernoff's bound: `pairs.certified`, from parameters that are
  balls themselves;
- what lies beyond the end of the line: cells of the tilted law as balls, and the two inequalities of `numerics.decay`;
- the finite sum, its aliases, and the logarithm: here.

The upper end comes from pairs that dominate, the lower from pairs that are attained. An interval says `certified` only
if both ends came this way. Where balls would take too long the bounds of the float path are used, which carry estimates
of every rounding (`Contour`); such an interval says so, and how wide the part is that rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.answer import Interval
from cumulant.errors import OutOfReach
from cumulant.inversion.ball_bounds import (
    BITS,
    Bounds,
    GaussianClosedForm,
    InDoubles,
    NearTheLargestLoss,
    OnALine,
    SmoothedLine,
    failure_of,
    largest_loss,
    log_left,
)
from cumulant.inversion.ball_line import ball_line, chernoff_above, smoothed_lines
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import Lattice, log_chernoff
from cumulant.inversion.enclosure import enclosures_at
from cumulant.inversion.enumeration import enumerated
from cumulant.inversion.plan import Tilts, plan_for, tilts_for_delta, tilts_for_epsilon
from cumulant.inversion.solve import Direction, Directions, prepared
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float

if TYPE_CHECKING:
    from flint import arb

TURNS, FEW_TURNS = 40, 7  # of a search, by bounds that balls prove and by others
STILL = 1e-15  # a relative step that is none
ROUGHLY_STILL = 1e-10  # the same where bounds rest on estimates
NUDGES = (1e-15, 4e-15, 3e-14, 2e-13, 2e-12, 2e-11, 2e-10, 2e-9, 1e-7, 1e-5)
NOTHING = 1e299  # a difference of logarithms that says nothing
BLIND = 8  # points in a row at which a bound says nothing, after which no others are tried
ROUNDS = 3  # lines that may be planned for one end, each from the answer of the last
FEW_ROUNDS = 2  # the same for bounds that rest on estimates
WIDE = 1e-4  # how far apart, in log δ, proven bounds may be before estimated ones are preferred
NEAR = 0.5  # how far, in nats, an answer may be from what its line was planned for


@final
@dataclass(frozen=True, slots=True)
class End:
    """One end of an interval, whether balls prove it, and how much of it rests on estimates otherwise."""

    value: float
    proven: bool = True
    estimated: float = 0.0


def certified_epsilon(upper: Directions, lower: Directions, delta: arb) -> Interval:
    """Return ε at δ between a bound that holds for all neighbours and one that some attain."""
    below = _unsettled(lower, delta, _Question.from_below, _attained)
    above = _unsettled(upper, delta, _Question.from_above, _worst)
    return _interval(below, above)


def _unsettled(
    directions: Directions, delta: arb, end_of: Callable[[_Question], End], best: Callable[[Sequence[End]], End]
) -> list[End]:
    """Return the ends of directions, the likely worst first: others that Chernoff's bound settles need none."""
    ends: list[End] = []
    for question in sorted((_Question.of(direction, delta) for direction in directions), key=lambda one: -one.likely()):
        if not ends or not question.settled_by(best(ends).value):
            ends.append(end_of(question))
    return ends


def delta_ball(*, delta: float | None, log_delta: float | None) -> arb:
    """Return δ as it was given: exactly, or as e^{log δ}."""
    with precision(BITS):
        return as_ball(delta) if delta is not None else as_ball(log_delta or 0.0).exp()


def certified_delta(upper: Directions, lower: Directions, epsilon: float) -> Interval:
    """Return δ at ε between a bound that holds for all neighbours and one that some attain."""
    ends = _unsettled_at(upper, epsilon)
    attained = ends if lower == upper else _unsettled_at(lower, epsilon)
    return _interval([low for low, _ in attained], [high for _, high in ends])


def _unsettled_at(directions: Directions, epsilon: float) -> list[tuple[End, End]]:
    """Return both ends of δ in directions, the likely worst first: others that Chernoff's bound settles need none."""
    found: list[tuple[End, End]] = []
    waiting = [(direction, _tilts_at(direction, epsilon)) for direction in directions]
    for direction, tilts in sorted(waiting, key=lambda one: -math.inf if one[1] is None else -one[1].log_delta):
        least = max((low.value for low, _ in found if low.proven), default=0.0)
        if not (least > 0 and tilts is not None and _is_below(prepared(direction)[0], tilts, math.log(least) - 1e-9)):
            found.append(_delta_ends(direction, epsilon))
    return found


def _tilts_at(direction: Direction, epsilon: float) -> Tilts | None:
    """Return tilts around the saddle of an ε; None where none are needed, or something is revealed."""
    losses, _ = prepared(direction)
    if not losses.parts or losses.failure > 0 or not epsilon < losses.supremum:
        return None
    try:
        return tilts_for_epsilon(losses, epsilon)
    except OutOfReach:
        return None


def _is_below(losses: ComposedPairs, tilts: Tilts, log_delta: float) -> bool:
    """Return whether Chernoff's bound proves that log δ at the tilts' ε is at most this."""
    place = int(np.argmin(log_chernoff(tilts.theta) + tilts.k - tilts.theta * tilts.epsilon))
    try:
        return chernoff_above(losses, tilts.index + place, tilts.epsilon) <= log_delta
    except OutOfReach:
        return False


def _worst(ends: Sequence[End]) -> End:
    """Return the largest end; it is proven if all are, since another one may be the larger in truth."""
    largest = max(ends, key=lambda end: math.inf if math.isnan(end.value) else end.value)
    return End(largest.value, all(end.proven for end in ends), max(end.estimated for end in ends))


def _attained(ends: Sequence[End]) -> End:
    """Return the largest of the proven ends, each of which bounds from below by itself; of none, the largest."""
    return max([end for end in ends if end.proven] or ends, key=lambda end: end.value)


def _interval(lowers: Sequence[End], uppers: Sequence[End]) -> Interval:
    """Return both ends; ends that contradict one another, or are no numbers, prove nothing."""
    above = _worst(uppers)
    below = _attained(lowers) if above.proven else max(lowers, key=lambda end: end.value)
    lower, upper = min(below.value, above.value), max(below.value, above.value)
    certain = below.proven and above.proven and below.value <= above.value
    return Interval(lower, upper, certified=certain, unproven=below.estimated + above.estimated)


# ε at δ ---------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """ε at δ in one direction: what the failure probability leaves of log δ, between two doubles."""

    losses: ComposedPairs
    lattice: Lattice | None
    least: float  # log δ' from below: an ε with δ(ε) at most this is an upper end
    most: float  # log δ' from above; NaN where δ is below the failure probability

    @staticmethod
    def of(direction: Direction, delta: arb) -> _Question:
        losses, lattice = prepared(direction)
        with precision(BITS):
            least, most = log_left(failure_of(losses), delta)
        return _Question(losses, lattice, least, most)

    def likely(self) -> float:
        """Return about the ε of this direction."""
        if not self.losses.parts or not -math.inf < self.least < 0 or self.losses.supremum <= 0:
            return self.losses.mean
        tilts = tilts_for_delta(self.losses, self.least)
        return math.inf if tilts is None else tilts.epsilon

    def settled_by(self, epsilon: float) -> bool:
        """Return whether Chernoff's bound proves that δ(ε) is small enough here, so that no line is needed."""
        if not self.losses.parts or not -math.inf < self.least < 0 or not epsilon < math.inf:
            return False
        if self.losses.supremum <= 0:
            return True
        tilts = tilts_for_delta(self.losses, self.least)
        if tilts is None:
            return False
        return _is_below(self.losses, tilts.asking(epsilon, self.least), self.least)

    def from_above(self) -> End:
        if self.losses.released_nothing or self.least >= 0:
            return End(0.0)
        if math.isnan(self.least):
            return End(math.inf)
        top = largest_loss(self.losses)
        if self.least == -math.inf:
            return End(upper_float(top) if top is not None else math.inf)
        largest = math.inf if top is None else upper_float(top)
        return self._searched(self.least, lambda bounds, start: _first_below(bounds, start, self.least, largest), min)

    def from_below(self) -> End:
        if self.losses.released_nothing or self.most >= 0:
            return End(0.0)
        if math.isnan(self.most):
            return End(math.inf)
        top = largest_loss(self.losses)
        if self.most == -math.inf:
            return End(math.inf if top is None else max(lower_float(top), 0.0))
        return self._searched(self.most, lambda bounds, start: _last_above(bounds, start, self.most), max)

    def _searched(self, log_delta: float, search: Callable[[Bounds, float], float], best: Callable[..., End]) -> End:
        """Return the best of what a few lines prove, each planned from the answer of the last."""
        if not self.losses.parts:
            closed = GaussianClosedForm(self.losses.mean)
            return End(search(closed, closed.start(log_delta)))
        if (every := enumerated(self.losses)) is not None:
            return End(search(every, every.start(log_delta)))
        tilts = tilts_for_delta(self.losses, log_delta)
        if tilts is None:
            return End(search(NearTheLargestLoss(self.losses), max(self.losses.supremum, 0.0)))
        found: list[End] = []
        for _ in range(ROUNDS):
            bounds = _bounds(self.losses, self.lattice, tilts)
            value = search(bounds, tilts.epsilon)
            found.append(End(value, bounds.proven, _in_epsilon(bounds, value)))
            near = abs(value - tilts.epsilon) * tilts.steepness <= NEAR
            if near or not 0 < value < math.inf or (not bounds.proven and len(found) == FEW_ROUNDS):
                break
            tilts = tilts.asking(value, log_delta)
        proven = [end for end in found if end.proven]
        return best(proven or found, key=lambda end: end.value)


def _in_epsilon(bounds: Bounds, epsilon: float) -> float:
    if bounds.proven or not 0 < epsilon < math.inf:
        return 0.0
    return bounds.estimated(epsilon) / max(-bounds.slope(epsilon), 1e-300)


def _first_below(bounds: Bounds, start: float, log_delta: float, largest: float) -> float:
    """Return an ε, as small as can be found, at which the upper bound of log δ is at most log δ.

    Any ε at which the bound was evaluated and found small enough is an upper end; the largest loss is one anyway.
    """
    if bounds.log_bounds(0.0)[1] <= log_delta:
        return 0.0
    first = max(min(start, largest), 1e-300)
    return _nearest(_Falling(bounds, 1, log_delta), first, largest)


def _last_above(bounds: Bounds, start: float, log_delta: float) -> float:
    """Return an ε, as large as can be found, at which the lower bound of log δ is at least log δ; 0 is one anyway."""
    if bounds.log_bounds(0.0)[1] <= log_delta:  # then 0 is the answer itself
        return 0.0
    return _nearest(_Falling(bounds, -1, log_delta), max(start, 1e-300), 0.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Falling:
    """The upper bound of log δ, side 1, or the lower one, side -1, less a log δ; how near its zero is worth finding."""

    bounds: Bounds
    side: int
    log_delta: float

    def __call__(self, epsilon: float) -> float:
        low, high = self.bounds.log_bounds(epsilon)
        return (high if self.side > 0 else max(low, -2 * NOTHING)) - self.log_delta

    @property
    def still(self) -> float:
        return STILL if self.bounds.proven else ROUGHLY_STILL


def _nearest(falls: _Falling, start: float, anyway: float) -> float:
    """Return a point on one side of where a falling function vanishes, as near as can be found: secants in a bracket.

    Side 1 asks for a value <= 0, -1 for one >= 0. Only points that were tested are returned, or `anyway`.
    """
    side, still, slope = falls.side, falls.still, falls.bounds.slope
    low, high, x = 0.0, math.inf, start
    best, before, blind = anyway, None, 0
    for _ in range(TURNS if falls.bounds.proven else FEW_TURNS):
        f = falls(x)
        blind = blind + 1 if abs(f) >= NOTHING else 0
        if blind > BLIND:
            break
        if side * f <= 0:
            best = min(best, x) if side > 0 else max(best, x)
        low, high = (max(low, x), high) if f > 0 else (low, min(high, x))
        steepness = slope(x) if before is None or before[0] == x else (f - before[1]) / (x - before[0])
        step = -f / steepness if not blind and steepness < 0 else math.inf
        before = None if blind else (x, f)
        if abs(step) <= still * x or (high < math.inf and high - low <= still * high):
            break
        trial = x + step
        x = trial if low < trial < high else ((low + high) / 2 if high < math.inf else 2 * x + 1)
    for nudge in (0.0, *(nudge for nudge in NUDGES if nudge >= still)):  # the side that was asked for
        point = x * (1 + side * nudge)
        if (point >= best if side > 0 else point <= best) or side * falls(point) <= 0:
            return min(best, point) if side > 0 else max(best, point)
    return best


# δ at ε ---------------------------------------------------------------------------------------------------------------


def _delta_ends(direction: Direction, epsilon: float) -> tuple[End, End]:
    losses, lattice = prepared(direction)
    with precision(BITS):
        p = failure_of(losses)
        revealed = End(max(lower_float(p), 0.0)), End(min(upper_float(p), 1.0))
        top = largest_loss(losses)
        if losses.released_nothing or not p < 1 or (top is not None and epsilon >= upper_float(top)):
            return revealed if p > 0 else (End(0.0), End(0.0))
    bounds = _bounds_at(losses, lattice, epsilon)
    low, high = bounds.log_bounds(epsilon)
    low, high = -math.inf if math.isnan(low) else low, 0.0 if math.isnan(high) else high
    with precision(BITS):
        ends = [p + (1 - p) * _exp(log) for log in (low, high)]
        estimated = 0.0 if bounds.proven else bounds.estimated(epsilon) * upper_float(ends[1])
        return (
            End(max(lower_float(ends[0]), 0.0), bounds.proven, estimated),
            End(min(upper_float(ends[1]), 1.0), bounds.proven, estimated),
        )


def _bounds_at(losses: ComposedPairs, lattice: Lattice | None, epsilon: float) -> Bounds:
    if not losses.parts:
        return GaussianClosedForm(losses.mean)
    if (every := enumerated(losses)) is not None:
        return every
    tilts = tilts_for_epsilon(losses, epsilon)
    if tilts is None:
        return NearTheLargestLoss(losses)
    bounds = _bounds(losses, lattice, tilts)
    for _ in range(ROUNDS - 1):
        high = bounds.log_bounds(epsilon)[1]
        if abs(high - tilts.log_delta) <= NEAR:
            break
        tilts = tilts.asking(epsilon, high)
        bounds = _bounds(losses, lattice, tilts)
    return bounds


def _exp(log: float) -> Any:
    return as_ball(log).exp() if log > -math.inf else as_ball(0.0)


# The ways to enclose δ(ε) ---------------------------------------------------------------------------------------------


def _bounds(losses: ComposedPairs, lattice: Lattice | None, tilts: Tilts) -> Bounds:
    """Return balls if they are affordable, else the float path with its own estimates."""
    plan = plan_for(tilts)
    try:
        return OnALine(ball_line(losses, plan, lattice))
    except OutOfReach:
        pass
    try:
        doubles = InDoubles(list(enclosures_at(losses, plan, lattice)), tilts.epsilon)
    except OutOfReach:
        return NearTheLargestLoss(losses)
    # doubles afford longer lines: where they smooth too much, balls would
    if lattice is None and any(pair.has_atoms for pair, _ in losses.parts) and _are_near(doubles, tilts.epsilon):
        try:
            smoothed = SmoothedLine(*smoothed_lines(losses, plan))
            if _are_near(smoothed, tilts.epsilon):
                return smoothed
        except OutOfReach:
            pass
    return doubles


def _are_near(bounds: Bounds, epsilon: float) -> bool:
    low, high = bounds.log_bounds(epsilon)
    return high - low <= WIDE
