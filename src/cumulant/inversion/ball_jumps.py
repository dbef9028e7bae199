"""Few or rare releases in balls: a line of the losses that can make δ up, without the many small ones.

Gaussian noise on a Poisson sample, n times, when a record leaves. With χ_c(t) = ½ erfc(a(t-c)) as in `pairs.cut_law`,
of one sharpness a at a far and at a near place, f > q, let M = E_P[χ_f e^{zL}], S = E_P[χ_q e^{zL}] and J = M - S. As
erfc falls, 0 <= χ_q <= χ_f, and Π χ_f - Π χ_q over all releases is the density of a positive measure. So with D(ε) its
share of δ, whose transform is M^n - S^n = S^n((1 + J/S)^n - 1),

    D(ε) <= δ(ε) <= D(ε) + δ_S(ε) + n E_P[1 - χ_f],      0 <= δ_S(ε) <= c(τ) S(τ)^n e^{-τε}  for every τ > 0,

by Chernoff's inequality, which bounds the aliases of D as well: D(x) <= c(τ) (M(τ)^n - S(τ)^n) e^{-τx}. Beyond the end
of the line |M^n - S^n| <= (S(θ) + |J|)^n - S(θ)^n, and |J| falls (`pairs.proven_jumps.bound_jumps`): what is many and
small is not on the line.

Holds for:  any f > q, a, y, θ and step: doubles choose them.
Tightness:  what is left out is pushed to 1e-11 of δ or less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_enclosure import ENCLOSURE_BITS, ChernoffInBalls
from cumulant.inversion.ball_end import beyond
from cumulant.inversion.ball_line import BallLine
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import Enclosure
from cumulant.inversion.jump_plan import JumpPlan, plan_jumps
from cumulant.inversion.plan import Tilts
from cumulant.inversion.purse import Purse
from cumulant.numerics.balls import as_ball, log_sum_ball, precision, upper_float
from cumulant.pairs.cache import CACHE
from cumulant.pairs.certified import ball_nodes, count_nodes, moment_of, tilted_moments
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.grid import tilt
from cumulant.pairs.proven_jumps import bound_jumps

if TYPE_CHECKING:
    from flint import arb

LINE_MICROSECONDS = 2.5e6  # that one line may take
LINE_OF_WIDE_NATS = 1e-4  # of slack, with which a line is of no use
PLACES = 4  # of ε and log δ, to which questions share a line
LINE_OF_SETTLED_NATS = 2e-11  # of slack, with which no other line is planned


@final
@dataclass(frozen=True, slots=True, eq=False)
class JumpsInBalls(Enclosure):
    """D by a line, and what quiet losses may add."""

    line: BallLine
    quiet: ChernoffInBalls

    enough = LINE_OF_SETTLED_NATS

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        low, high = self.line.log_bounds(epsilon)
        with precision(ENCLOSURE_BITS):
            both = log_sum_ball([as_ball(high), as_ball(self.quiet.log_bounds(epsilon)[1])])
            return low, min(upper_float(both), 0.0)

    def slope(self, epsilon: float) -> float:
        return self.line.slope(epsilon)


def jump_line(losses: ComposedPairs, around: Tilts, purse: Purse) -> JumpsInBalls:
    """Return the line of jumps about a point of the profile; raise `OutOfReach` where there is none."""
    line, microseconds = _line_near(losses, *(float(f"{x:.{PLACES}g}") for x in (around.epsilon, around.log_delta)))
    purse.pay(microseconds)
    return line


@CACHE.remember  # both ends of an interval ask for the same
def _line_near(losses: ComposedPairs, epsilon: float, log_delta: float) -> tuple[JumpsInBalls, float]:
    """Return the line about a point, and its price."""
    plan, purse = plan_jumps(losses, epsilon, log_delta), Purse(LINE_MICROSECONDS)
    before = purse.left
    with precision(plan.bits):
        line = _follow_jumps(plan, purse)
    if not line.slack(epsilon) < LINE_OF_WIDE_NATS:
        raise OutOfReach("a line of jumps says nothing")
    return line, before - purse.left


def _follow_jumps(plan: JumpPlan, purse: Purse) -> JumpsInBalls:
    n, step, end = plan.releases, as_ball(plan.eta), as_ball(plan.eta) * plan.count
    quiet = _quiet(plan, purse)
    pairs = [(index, *(_moment(pair, index, plan, purse) for pair in plan.pairs)) for index in plan.chernoff]
    chernoff = tuple((tilt(index), _power_difference(j, s, n).log()) for index, j, s in pairs)
    jumps, quiets = (_along_line(pair, plan, purse) for pair in plan.pairs)
    start = _power_difference(jumps[0].real, quiets[0].real, n)
    moments = [_power_difference(j, s, n) / start for j, s in zip(jumps, quiets, strict=True)]
    most = bound_jumps(plan.pairs[0], as_ball(plan.theta), end, as_ball(plan.y), plan.likely)
    tail = beyond(-(_power_difference(most, quiets[0].real, n) / start).log(), end, step)
    left_out = n * plan.far.left_out_ball(as_ball(plan.rate))
    line = BallLine(plan.theta, step, moments, start.log(), tail, chernoff, None, left_out, plan.bits)
    return JumpsInBalls(line, quiet)


def _quiet(plan: JumpPlan, purse: Purse) -> ChernoffInBalls:
    """Return Chernoff's bound of quiet losses."""
    k = plan.releases * _moment(plan.pairs[1], plan.quiet_index, plan, purse).log()
    return ChernoffInBalls.at(plan.quiet_index, k, as_ball(0.0))


def _power_difference(j: Any, s: Any, n: int) -> Any:
    """Return (s + j)^n - s^n, without a difference of large powers where s is not 0."""
    value = s**n * (n * (j / s).log1p()).expm1()
    return value if value.is_finite() else (s + j) ** n - s**n


def _along_line(pair: CoordinatePair, plan: JumpPlan, purse: Purse) -> list[Any]:
    """Return the moments of one release at all points."""
    k, last = plan.log_moment(pair, plan.index), plan.eta * plan.count
    nodes = count_nodes(pair, plan.theta, last, k, bits=plan.bits)
    purse.pay(nodes.microseconds + nodes.transform_effort(plan.count, plan.bits))
    evaluated, scale = ball_nodes(pair, plan.theta, last, k, bits=plan.bits), as_ball(k).exp()
    values = tilted_moments(evaluated, plan.theta, k, step=as_ball(plan.eta), count=plan.count)
    return [value * scale for value in values]


def _moment(pair: CoordinatePair, index: int, plan: JumpPlan, purse: Purse) -> arb:
    """Return the moment of one release at a real tilt."""
    k, theta = plan.log_moment(pair, index), tilt(index)
    purse.pay(count_nodes(pair, theta, 0.0, k, bits=plan.bits).microseconds)
    return moment_of(ball_nodes(pair, theta, 0.0, k, bits=plan.bits), theta, k) * as_ball(k).exp()
