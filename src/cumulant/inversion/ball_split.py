"""Few or rare steps in balls: losses split smoothly by size into quiet, middle, far and unseen ones.

Gaussian noise on a Poisson sample, n times, when a record leaves. With χ_c(t) = ½ erfc(a(t-c)) as in `pairs.cut_law`, a
release is quiet with the probability χ_qχ_u, not far with χ_fχ_u, seen with χ_u, q < f < u; a is larger for u. As erfc
falls, χ_q <= χ_f. With S_c = E_P[χ_cχ_u e^{zL}], S_u = E_P[χ_u e^{zL}], δ_c what is left of δ where all releases are
so, and F that all are seen, but some are far, (x)_+ = x + (-x)_+ gives

    δ = δ_q + (δ_f - δ_q) + P(F) - e^ε Q(F) + e^ε E_Q[(1 - e^{L-ε})_+; F] + r,      0 <= r <= n E_P[1 - χ_u],

- 0 <= δ_q <= c(τ) S_q(τ)^n e^{-τε} for every τ > 0, Chernoff's bound: next to nothing;
- δ_f - δ_q belongs to a positive measure of transform S_f^n - S_q^n, a line at ε;
- the last expectation is the same in the mirror: of -L under Q, at -ε, with the positive measure of transform
  S_u^n - S_f^n. Where f would not be below u nothing is far;
- P(F) and Q(F) are differences of powers of normal tails.

Both lines are those of differences (s + j)^n - s^n = s^n ((1 + j/s)^n - 1), whose aliases Chernoff's inequality bounds
as those of every positive measure, and whose ends are where j has fallen (`bound_between`): what is many and small is
not on them.

Holds for:  any q < f <= u, a, tilts and steps: doubles choose them (`split_plan`).
Tightness:  what is left out is pushed to 1e-11 of δ or less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_end import beyond
from cumulant.inversion.ball_kernels import PlainKernel
from cumulant.inversion.ball_line import BallLine, ChernoffInBalls
from cumulant.inversion.ball_whole import WholeInBalls
from cumulant.inversion.enclosure import WorkBudget
from cumulant.inversion.split_plan import Between, SplitPlan, Steps, plan_ball_split, steps_down
from cumulant.numerics.balls import as_ball, log_sum_ball, precision
from cumulant.pairs.cache import CACHE
from cumulant.pairs.certified import ball_nodes, count_nodes, moment_of, tilted_moments
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import tilt
from cumulant.pairs.cut_law import WindowLaw
from cumulant.pairs.proven_rule import Moment, log_integral, whole_span

if TYPE_CHECKING:
    from flint import arb

SPLIT_MICROSECONDS = 2.5e6  # that the lines of one split may take
SPLIT_OF_WIDE_NATS = 1e-4  # of slack, with which a split is of no use
DIGITS_SHARED = 4  # of ε and log δ, to which questions share a split
SPLIT_OF_SETTLED_NATS = 2e-11  # of slack, with which no other line is planned
BEFORE_INNER = 6.0  # over the sharpness, before the inner cut


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitInBalls(WholeInBalls):
    """The line of middle losses, that of far ones in the mirror, and what quiet ones may add."""

    middle: BallLine | ChernoffInBalls
    mirror: BallLine | ChernoffInBalls | None
    quiet: ChernoffInBalls
    far: tuple[arb, arb]  # P(F) and Q(F)
    unseen: arb
    bits: int
    near: float  # ε that it was planned for
    microseconds: float = 0.0  # that it took, about

    enough = SPLIT_OF_SETTLED_NATS

    def bits_at(self, epsilon: float) -> int:
        return self.bits

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        low, high = self.middle.bounds(epsilon)
        high += self.quiet.bounds(epsilon)[1] + self.unseen
        if self.mirror is not None:
            grown, (least, most) = epsilon.exp(), self.mirror.bounds(-epsilon)
            surely = self.far[0] - grown * self.far[1]
            low, high = low + surely + grown * least, high + surely + grown * most
        return low, high

    def start(self, log_delta: float) -> float:
        return self.near


def split_line(steps: Steps, epsilon: float, log_delta: float) -> SplitInBalls:
    """Return the split about a point of the profile; raise `OutOfReach` where there is none."""
    return _split_near(steps, *(float(f"{x:.{DIGITS_SHARED}g}") for x in (epsilon, log_delta)))


@CACHE.remember  # both ends of an interval ask for the same
def _split_near(steps: Steps, epsilon: float, log_delta: float) -> SplitInBalls:
    plan, budget = plan_ball_split(steps, epsilon, log_delta), WorkBudget(SPLIT_MICROSECONDS)
    with precision(plan.bits):
        line = _split_of(plan, budget)
    if not line.slack(epsilon) < SPLIT_OF_WIDE_NATS:
        raise OutOfReach("a split says nothing")
    return replace(line, microseconds=SPLIT_MICROSECONDS - budget.left)


def _split_of(plan: SplitPlan, budget: WorkBudget) -> SplitInBalls:
    n, rate, bits = plan.releases, as_ball(plan.rate), plan.bits
    k = n * _moment_between(plan.middle.inner, plan.quiet_index, plan.log_quiet, bits, budget).log()
    quiet = ChernoffInBalls.at(plan.quiet_index, k, as_ball(0.0))
    middle = _line_between(plan.middle, n, bits, budget)
    mirror = None if plan.mirror is None else _line_between(plan.mirror, n, bits, budget)
    p, q = (_mass_of_far(plan, r) for r in (rate, 0 * rate))  # Q is P with rate 0
    return SplitInBalls(middle, mirror, quiet, (p, q), n * plan.unseen.in_balls().left_out(rate), bits, plan.epsilon)


def _mass_of_far(plan: SplitPlan, rate: arb) -> arb:
    """Return E[Π χ_u] - E[Π χ_uχ_f]: what is not far, and of it what is seen, χ_f - (1-χ_u) <= χ_uχ_f <= χ_f."""
    unseen, far = (cut.in_balls().left_out(rate) for cut in (plan.unseen, plan.far))
    n = plan.releases
    neither = far.union(far + unseen)
    return _complement_power(unseen, n) - _complement_power(neither, n)


def _complement_power(p: arb, n: int) -> arb:
    """Return (1-p)^n - 1."""
    return (n * (-p).log1p()).expm1()


def _line_between(part: Between, n: int, bits: int, budget: WorkBudget) -> BallLine | ChernoffInBalls:
    """Return the line of the measure between two cuts, or Chernoff's bound where that is next to nothing."""
    if not part.count:
        index = part.line.index
        return ChernoffInBalls.at(index, _log_difference(part, index, n, bits, budget), as_ball(0.0))
    step, end = as_ball(part.eta), as_ball(part.eta) * part.count
    chernoff = tuple((tilt(index), _log_difference(part, index, n, bits, budget)) for index in part.chernoff)
    between, inner = (_moments_between(pair, part, bits, budget) for pair in part.pairs)
    start = _power_difference(between[0].real, inner[0].real, n)
    moments = [_power_difference(j, s, n) / start for j, s in zip(between, inner, strict=True)]
    most = bound_between(part.pairs[0], as_ball(part.theta), end, as_ball(part.y), part.likely)
    tail = beyond(-(_power_difference(most, inner[0].real, n) / start).log(), end, step)
    return BallLine(part.theta, step, moments, start.log(), chernoff, PlainKernel(tail), as_ball(0.0), bits)


def _log_difference(part: Between, index: int, n: int, bits: int, budget: WorkBudget) -> arb:
    """Return log((s + j)^n - s^n) at a real tilt."""
    j, s = (_moment_between(pair, index, part.log_moment(pair, index), bits, budget) for pair in part.pairs)
    return _power_difference(j, s, n).log()


def _power_difference(j: Any, s: Any, n: int) -> Any:
    """Return (s + j)^n - s^n, without a difference of large powers where s is not 0."""
    value = s**n * (n * (j / s).log1p()).expm1()
    return value if value.is_finite() else (s + j) ** n - s**n


def _moments_between(pair: CoordinatePair, part: Between, bits: int, budget: WorkBudget) -> list[Any]:
    """Return the moments of one release at all points."""
    k, last = part.log_moment(pair, part.line.index), part.eta * part.count
    nodes = count_nodes(pair, part.theta, last, k, bits=bits)
    budget.pay(nodes.microseconds + nodes.transform_effort(part.count, bits))
    evaluated, scale = ball_nodes(pair, part.theta, last, k, bits=bits), as_ball(k).exp()
    values = tilted_moments(evaluated, part.theta, k, step=as_ball(part.eta), count=part.count)
    return [value * scale for value in values]


def _moment_between(pair: CoordinatePair, index: int, k: float, bits: int, budget: WorkBudget) -> arb:
    """Return the moment of one release at a real tilt."""
    theta = tilt(index)
    budget.pay(count_nodes(pair, theta, 0.0, k, bits=bits).microseconds)
    return moment_of(ball_nodes(pair, theta, 0.0, k, bits=bits), theta, k) * as_ball(k).exp()


def bound_between(pair: CoordinatePair, theta: arb, omega: arb, y: arb, likely: float) -> arb:
    """Return a bound of |J(θ+iω')| for all ω' >= ω, J = E_P[(χ_f - χ_q) e^{zL}], of losses log w or -log w.

    On a path Im t = ±y(t), where y does not rise and 0 <= μy < π/2, with s = γe^u/w,

        |J(θ+iω)| <= ∫ |φ(χ_f - χ_q)| |w(t+iy)|^a e^{-ω·arg w(t+iy)} dt,     tan arg w = s sin μy/(1 - s + s cos μy),

    a = 1+θ or -θ, and w(t)(1 - s(1 - cos μy)) <= |w(t+iy)| <= w(t), both of which grow with t. The integrand falls with
    ω, and arg w grows with s, so with t.

    Holds for:  Gaussian noise in a Poisson sample; `likely` says when it is good enough.
    Tightness:  a few nats above the integral, of which losses near the inner cut are what is left.
    """
    law, branch, nothing = pair.law, pair.branches[0], as_ball(0.0)
    assert isinstance(law, WindowLaw)
    exact, ((_, sampling),) = law.in_balls(), branch.in_balls().factors
    power, mean = sampling.power(theta), exact.steepest
    if not (mean * y).cos() > 0:
        raise OutOfReach(f"a path {y} from the real line turns by more than a quarter")

    def log_bound(low: arb, high: arb, height: arb, omega: arb) -> arb:
        sine, cosine = (mean * height).sin_cos()
        share = np.exp(sampling.log_share(exact.log_ratio(low)))
        turned = (share * sine / (1 - share + share * cosine)).atan()
        if power > 0:
            grown = power * sampling.value(exact.log_ratio(high))
        else:
            grown = power * (sampling.value(exact.log_ratio(low)) + (-share * (1 - cosine)).log1p())
        return exact.log_density_bound(low, high, height) + grown - omega * turned

    (first, last), logs, start = whole_span(branch, float(theta)), [], -math.inf
    ends = [law.near - BEFORE_INNER / law.sharpness, law.near, law.at]
    for place, height in [*steps_down(law.law.at, float(y)), (last, 0.0)]:
        here, start = max(start, first), place
        if not here < place:
            continue
        edges = [here, *sorted(end for end in ends if here < end < place), place]
        level = as_ball(height)
        logs.append(log_integral(partial(log_bound, height=level, omega=omega), edges, likely)[0])
        # the way down to the real line, at most, on which nothing may turn
        logs.append(log_bound(as_ball(place), as_ball(place), level, nothing) + level.log() if height else logs[-1])
    # beyond the outermost rectangles losses count as if they did not turn
    tails = Moment(branch, theta, nothing, nothing).log_tails(as_ball(first), as_ball(last), y)
    return log_sum_ball([*logs, tails]).exp()
