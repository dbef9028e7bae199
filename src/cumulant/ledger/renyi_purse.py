"""A Rényi budget at one order, fixed at the opening, as a dominating pair: S of order α and budget B."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple, final

from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known, one_release
from cumulant.numerics.balls import as_ball, ball_of_fraction, precision, upper_float
from cumulant.numerics.rounding import float_above
from cumulant.numerics.search import root
from cumulant.pairs.atoms import Binary, LossTable
from cumulant.pairs.finite_pair import FinitePair, finite_loss, finite_pair
from cumulant.parameters import order as checked_order
from cumulant.parameters import positive, require

if TYPE_CHECKING:
    from flint import arb

BITS_OF_KNOTS = 256  # of balls: S - (1-t)₊ is a difference of numbers that are nearly equal
KNOTS = 600  # of the profile, chords between
SMALLEST_NATS = -80.0  # log S at the last knot: what is beyond counts as revealed
SMALLEST_GAP = 1e-14  # 1 - r₀ at which the two-point laws end


class Point(NamedTuple):
    """A point at or above the profile."""

    t: Fraction
    value: Fraction


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RenyiPurse(AbstractMechanism):
    """All rounds together whose Rényi divergences of one order α add up to at most B, however they are chosen.

    The pair S with the profile

        S(t) = sup { E(r - t)₊ : r >= 0, E r = 1, E r^α <= e^{(α-1)B} }

    dominates them: rounds with D_α <= e given the past, followed by S of budget B - e, are dominated by S of budget B.
    For E(r₁r₂ - t)₊ with r₁ the ratio of the round and r₂ one that is best for t/r₁: r₁r₂ has mean 1 and an α-moment of
    at most e^{(α-1)e} e^{(α-1)(B-e)}. A sup of profiles is a profile, so there is such a pair; at α = ∞ it is
    randomized response. The charge must bound D_α of the round itself: S has no α-moment, so a round that is only
    dominated by such a pair is a slot.

    The supremum is a law on two points r₀ < r₁ (Asoodeh et al. 2020), S(t) = 1 - te^{-B} for t <= (1 - 1/α)e^B.

    Holds for:  α > 1, either relation, both directions of the neighbours; the charge is fixed before the output.
    Tightness:  the pair is that of 600 knots with chords between, which lies above S.
    """

    theorem: ClassVar[str] = "rounds of one Rényi order, composed adaptively (Feldman and Zrnic 2021), as a pair"

    order: float
    budget: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", checked_order(self.order))
        require(self.order > 1, "the order of a Rényi budget must be > 1", self.order)
        object.__setattr__(self, "budget", positive("budget", self.budget))

    def _known(self) -> Known:
        pair = purse_pair(self.order, self.budget)
        return replace(
            Known.by_curve(lambda: finite_loss([pair])),
            directions=lambda relation: one_release((pair,)),  # the same whichever neighbour comes first
            failure=lambda: pair.failure,
        )


@lru_cache(maxsize=64)
def purse_pair(order: float, budget: float) -> FinitePair:
    """Return a pair on finitely many outputs that dominates S."""
    if math.isinf(order):
        return finite_pair(Binary(budget))
    return finite_pair(_atoms(lower_hull(profile_points(order, budget))))


def profile_points(order: float, budget: float) -> list[Point]:
    """Return points at or above S, t growing, from (0, 1) to where S is negligible.

    For r₀ < 1 < r₁ let B(r) = r^α - r₀^α - αr₀^{α-1}(r - r₀), which is convex and >= 0. Its tangent at r₁ meets 0 at
    t = r₁ - B(r₁)/B'(r₁), so (r - t)₊ <= B(r)/B'(r₁) for all r, and with M the largest α-moment

        S(t) <= E B(r)/B'(r₁) <= (M - r₀^α - αr₀^{α-1}(1 - r₀))/B'(r₁).

    Every choice of r₀ and r₁ proves its bound; the two-point law with mean 1 and α-moment M makes it the supremum.
    """
    points = [Point(Fraction(0), Fraction(1))]
    with precision(BITS_OF_KNOTS):
        moment = ((as_ball(order) - 1) * as_ball(budget)).exp()
        for index in range(KNOTS):
            gap = SMALLEST_GAP ** (index / (KNOTS - 1))
            lower = 1 - Fraction(gap) if index else Fraction(0)
            upper = _partner(order, budget, float(gap)) if index else math.exp(budget)
            point = _point(order, moment, lower, upper)
            if point is None or point.t <= points[-1].t:
                continue
            points.append(point)
            if point.value <= 0 or math.log(float(point.value) or 5e-324) < SMALLEST_NATS:
                break
    return points


def _point(order: float, moment: arb, lower: Fraction, upper: float) -> Point | None:
    a, r0, r1 = as_ball(order), ball_of_fraction(lower), as_ball(upper)
    power = r0**a if lower else as_ball(0.0)
    slope = a * r0 ** (a - 1) if lower else as_ball(0.0)
    steep = a * r1 ** (a - 1) - slope
    if not steep > 0:
        return None
    t = r1 - (r1**a - power - slope * (r1 - r0)) / steep
    value = (moment - power - slope * (1 - r0)) / steep
    if not (t > 0 and value > 0):
        return None
    return Point(Fraction(upper_float(t)), Fraction(upper_float(value)))  # up: S falls along t


def _partner(order: float, budget: float, gap: float) -> float:
    """Return about r₁ of the two-point law on r₀ = 1 - gap and r₁ with mean 1 and the largest α-moment."""
    log_lower, rest = math.log1p(-gap) if gap < 1 else -math.inf, (order - 1) * budget
    # E r^α - 1 as a sum that does not cancel: (r₀^α - 1) + w (r₁^α - r₀^α), w = gap/(gap + x), r₁ = 1 + x
    least = math.expm1(order * log_lower)
    wanted = math.expm1(rest) - least

    def excess(log_x: float) -> float:
        x = math.exp(log_x)
        log_upper = order * math.log1p(x)
        log_w = math.log(gap) - math.log(gap + x)
        log_rise = log_upper + math.log(-math.expm1(order * log_lower - log_upper))
        return log_w + log_rise - math.log(wanted)

    return 1 + math.exp(root(excess, math.log(gap) - 60.0, max(5.0, 50.0 / (order - 1) + 2 * budget), tolerance=1e-13))


def lower_hull(points: Sequence[Point]) -> list[Point]:
    """Return the lower convex hull: S is convex, so no point of it is below S."""
    hull: list[Point] = []
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= 0:
        hull.pop()  # a profile never rises
    return hull


def _slope(a: Point, b: Point) -> Fraction:
    return (b.value - a.value) / (b.t - a.t)


def _atoms(hull: Sequence[Point]) -> LossTable:
    """Return the pair of a profile that is piecewise linear, flat from the last point on.

    Q has the rise of the slope at a knot for mass, P that times t, and P is alone where the profile ends above 0.
    """
    slopes = [*(_slope(a, b) for a, b in pairwise(hull)), Fraction(0)]
    bends = [after - before for before, after in pairwise(slopes)]
    down = [math.nextafter(float(knot.t * bend), 0.0) for knot, bend in zip(hull[1:], bends, strict=True)]
    # Up: losses are rounded up, and what masses lost by rounding down counts as revealed.
    revealed = float_above(1 - sum(map(Fraction, down), Fraction(0)))
    with precision(BITS_OF_KNOTS):
        losses = [upper_float(as_ball(float_above(knot.t)).log()) for knot in hull[1:]]
        q = sum((as_ball(mass) * (-as_ball(loss)).exp() for loss, mass in zip(losses, down, strict=True)), as_ball(0.0))
        missing = upper_float(1 - q)
    return LossTable(tuple(losses), tuple(down), revealed, max(missing, 0.0))
