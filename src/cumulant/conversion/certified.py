"""Certified intervals: the finite sum of the inversion in ball arithmetic, the rest by proven bounds.

For one scenario the plan of the float path (tilt, step, length of the line) is kept. K at the nodes is enclosed by
balls, the sum with it; what was left out is bounded: aliases by Chernoff's bound, the cut by the decay of the
characteristic function. Those two are small parts of the answer, 1e-13 if the line is not cut early, and a relative
error of 1e-6 in *them* is covered by one factor. The upper end comes from pairs that dominate, the lower from pairs
that are attained.

Where a certificate in balls would take too long the bounds of the float path are used, which carry estimates of
every rounding (`Contour`); they are wider.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, final

from cumulant.answer import Interval
from cumulant.conversion.exact import Scenario, Scenarios, epsilon_of_pairs, prepared
from cumulant.conversion.failure import log_delta_left
from cumulant.conversion.inversion import Plan, Tilts, inversions_at, plan_for, tilts_for_delta, tilts_for_epsilon
from cumulant.errors import OutOfReach
from cumulant.loss.ball_moment import ULPS, tilted_moments
from cumulant.loss.pair_sum import LossSum, k_at, tilt
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float
from cumulant.numerics.contour import Contour, Lattice
from cumulant.numerics.rounding import exp_above

SLACK = 1.001  # on bounds of what was left out, which floats compute
INPUTS = 1e-14  # relative change of ε that covers the rounding of parameters and of δ
SMALLER = 1 - 1e-13  # a failure probability, rounded down
TURNS = 30


class Bounds(Protocol):
    """log δ(ε) of one scenario, enclosed."""

    def log_bounds(self, epsilon: float) -> tuple[float, float]: ...

    def log_upper(self, epsilon: float) -> tuple[float, float]: ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class BallContour:
    """The line of a `Contour` with e^{K(z_j) - K(θ)} as balls, and K(θ) as a ball."""

    contour: Contour
    step: Any
    moments: list[Any]
    k_theta: Any
    bits: int

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        return self.log_bounds(epsilon)[1], self.contour.log_upper(epsilon)[1]

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        left_out = as_ball(self.contour.tail * SLACK)
        alias = as_ball(self.contour.alias(epsilon) * SLACK)
        with precision(self.bits):
            total = self._sum(epsilon)
            ends = (total - left_out - alias).lower(), (total + left_out).upper()
            exact_scale = self.k_theta - as_ball(self.contour.theta) * as_ball(epsilon)
            low, high = ((end.log() + exact_scale) if end > 0 else None for end in ends)
            # what is not certainly positive says nothing: δ lies between 0 and 1
            return -math.inf if low is None else lower_float(low), 0.0 if high is None else min(upper_float(high), 0.0)

    def _sum(self, epsilon: float) -> Any:
        """Return (η/π) Σ' Re e^{K(z) - K(θ) - iωε}·kernel."""
        from flint import acb, arb

        theta, at = as_ball(self.contour.theta), as_ball(epsilon)
        total = arb(0)
        for j, moment in enumerate(self.moments):
            z = acb(theta, self.step * j)
            term = (moment * acb(0, -self.step * j * at).exp() * self._kernel(z, at)).real
            total += term if j else term / 2
        return total * self.step / arb.pi()

    def _kernel(self, z: Any, epsilon: Any) -> Any:
        if self.contour.lattice is None:
            return 1 / (z * (z + 1))
        lattice = self.contour.lattice
        span, offset = _span(lattice), as_ball(lattice.offset, abs(lattice.offset) * ULPS)
        points = math.floor((float(epsilon.mid()) - lattice.offset) / lattice.span) + 1
        gap = offset + points * span - epsilon  # a gap of 0 within its radius adds a payoff of 0 within that radius
        weight = -(-gap).expm1() - (-z * span).exp() * (-gap).exp() * (gap - span).expm1()
        return span * (-z * gap).exp() * weight / ((1 - (-z * span).exp()) * (1 - (-(z + 1) * span).exp()))


@final
@dataclass(frozen=True, slots=True)
class GaussianClosedForm:
    """δ = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle and Wang 2018, Theorem 5), in balls; μ within a few roundings."""

    mean: float

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        step = 1e-6 * epsilon + 1e-9 * self.mean
        here, there = self.log_bounds(epsilon)[1], self.log_bounds(epsilon + step)[1]
        return here, (there - here) / step

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        with precision(192 + math.ceil(2 * math.log2(1 + epsilon / self.mean) + 2 * math.log2(1 + 1 / self.mean))):
            low, high = (self._delta(epsilon, side) for side in (-1, 1))
            return lower_float(low.log()), upper_float(high.log())

    def _delta(self, epsilon: float, side: int) -> Any:
        mean = as_ball(self.mean) * (1 + as_ball(side * 2.0**-48))
        at, root = as_ball(epsilon), as_ball(2.0).sqrt()
        first, second = (at / mean - mean / 2) / root, (at / mean + mean / 2) / root
        return (first.erfc() - at.exp() * second.erfc()) / 2


def certified_epsilon(upper: Scenarios, lower: Scenarios, log_delta: float) -> Interval:
    """Return ε at δ between a bound that holds for all neighbours and one that some attain."""
    above = max(_epsilon_above(scenario, log_delta) for scenario in upper)
    below = max(_epsilon_below(scenario, log_delta) for scenario in lower)
    return Interval(min(below, above), above)


def certified_delta(upper: Scenarios, lower: Scenarios, epsilon: float) -> Interval:
    """Return δ at ε between a bound that holds for all neighbours and one that some attain."""
    ends = [_delta_ends(scenario, epsilon) for scenario in upper]
    attained = ends if lower == upper else [_delta_ends(scenario, epsilon) for scenario in lower]
    above, below = max(high for _, high in ends), max(low for low, _ in attained)
    return Interval(min(below, above), above)


def _epsilon_above(scenario: Scenario, log_delta: float) -> float:
    losses, lattice = prepared(scenario)
    if losses.released_nothing:
        return 0.0
    left = log_delta_left(losses.failure, log_delta - 4e-16 * (1 + abs(log_delta)) if log_delta < 0 else log_delta)
    if math.isnan(left):
        return math.inf
    if left >= 0 or left == -math.inf:
        return 0.0 if left >= 0 else losses.supremum
    try:
        bounds = _bounds(losses, lattice, lambda: tilts_for_delta(losses, left))
        start = epsilon_of_pairs([scenario], log_delta).value
    except OutOfReach:
        return losses.supremum
    return 0.0 if bounds.log_bounds(0.0)[1] <= left else _first_below(bounds, start, left, losses.supremum)


def _first_below(bounds: Bounds, start: float, log_delta: float, supremum: float) -> float:
    """Return an ε from `start` up at which the upper bound is at most δ, raised for the rounding of parameters."""
    epsilon = max(start, 1e-300)
    for _ in range(TURNS):
        high, slope = bounds.log_upper(epsilon)
        if high <= log_delta:
            return min(epsilon * (1 + INPUTS), supremum)
        epsilon += max(1.01 * (high - log_delta) / -slope, 1e-15 * epsilon)
    return supremum


def _epsilon_below(scenario: Scenario, log_delta: float) -> float:
    losses, lattice = prepared(scenario)
    if losses.released_nothing:
        return 0.0
    rounding = 4e-16 * (1 + abs(log_delta)) if log_delta > -math.inf else 0.0
    left = log_delta_left(losses.failure * SMALLER, log_delta + rounding)
    if math.isnan(left):
        return math.inf
    if left >= 0 or left == -math.inf:  # at δ = 0 it is the largest loss itself
        return 0.0 if left >= 0 else losses.supremum * (1 - INPUTS)
    try:
        bounds = _bounds(losses, lattice, lambda: tilts_for_delta(losses, left))
        epsilon = epsilon_of_pairs([scenario], log_delta).value
    except OutOfReach:
        return _near_the_largest_loss(losses, left)
    for _ in range(TURNS):
        missing = left - bounds.log_bounds(epsilon)[0]
        if missing <= 0:
            return max(0.0, epsilon * (1 - INPUTS))
        if not missing < 1e300:
            break
        epsilon -= max(1.01 * missing / -bounds.log_upper(epsilon)[1], 1e-15 * epsilon)
        if epsilon <= 0:
            break
    return 0.0


def _near_the_largest_loss(losses: LossSum, log_delta: float) -> float:
    """Return sup L + log(1 - δ/P(L = sup L)), as δ(ε) >= P(L = sup L)(1 - e^{ε - sup L})."""
    log_top = losses.log_top_mass - 1e-12 * (1 + abs(losses.log_top_mass))
    if log_delta >= log_top:
        return 0.0
    return max(0.0, losses.supremum * (1 - INPUTS) + math.log1p(-math.exp(log_delta - log_top)) * (1 + 1e-12))


def _delta_ends(scenario: Scenario, epsilon: float) -> tuple[float, float]:
    losses, lattice = prepared(scenario)
    p = losses.failure
    if epsilon >= losses.supremum or losses.released_nothing or p == 1:
        return p * SMALLER, p
    try:
        bounds = _bounds(losses, lattice, lambda: tilts_for_epsilon(losses, epsilon))
    except OutOfReach:
        high = min(1.0, -math.expm1(epsilon - losses.supremum) * (1 + 1e-12))  # δ <= 1 - e^{ε - sup L}
        return p * SMALLER, min(1.0, (p + (1 - p) * high) * (1 + 1e-15))
    low, high = bounds.log_bounds(epsilon)
    # the parameters' own rounding moves ε by INPUTS, and log δ by so much times its slope
    moved = INPUTS * (1 + abs(epsilon * bounds.log_upper(epsilon)[1])) if epsilon > 0 else INPUTS
    low, high = math.exp(min(low - moved, 0.0)), exp_above(min(high + moved, 0.0))
    return max(0.0, (p * SMALLER + (1 - p) * low) * (1 - 1e-15)), min(1.0, (p + (1 - p) * high) * (1 + 1e-15))


def _bounds(losses: LossSum, lattice: Lattice | None, tilts: Callable[[], Tilts | None]) -> Bounds:
    """Return balls if they are affordable, else the float path with its own estimates."""
    if not losses.parts:
        return GaussianClosedForm(losses.mean)
    found = tilts()
    if found is None:
        raise OutOfReach("no tilt is large enough: only the largest loss matters")
    plan = plan_for(found)
    *_, inversion = inversions_at(losses, plan, lattice)
    if inversion.coarser is not None:
        return inversion
    try:
        return _ball_contour(losses, plan, inversion.contour)
    except OutOfReach:
        return inversion


def _ball_contour(losses: LossSum, plan: Plan, contour: Contour) -> BallContour:
    releases = sum(n for _, n in losses.parts) + 1
    bits = 96 + math.ceil(math.log2(releases) + 1.5 * math.ceil(plan.height))
    step, moments, k_theta = _moments_on(losses, plan.index, contour.step, len(contour.k), contour.lattice, bits=bits)
    return BallContour(contour, step, moments, k_theta, bits)


@lru_cache(maxsize=32)  # the two ends of an interval ask for the same line
def _moments_on(
    losses: LossSum, index: int, eta: float, count: int, lattice: Lattice | None, *, bits: int
) -> tuple[Any, list[Any], Any]:
    """Return η, e^{K(z_j) - K(θ)} at the nodes and K(θ), as balls."""
    from flint import acb, arb

    with precision(bits):
        step = as_ball(eta) if lattice is None else _period_step(eta, lattice)
        theta = as_ball(tilt(index))
        variance = as_ball(losses.variance, losses.variance * 2.0**-48)
        z = [acb(theta, step * j) for j in range(count)]
        logs = [variance * (w * (w + 1) - theta * (theta + 1)) / 2 for w in z]
        k_theta = variance * theta * (theta + 1) / 2
        for pair, n in losses.parts:
            k = k_at(pair, index)
            k_theta += arb(n) * as_ball(k)
            moments = tilted_moments(pair, tilt(index), k, step=step, count=count, bits=bits)
            logs = [log + arb(n) * moment.log() for log, moment in zip(logs, moments, strict=True)]
        return step, [log.exp() for log in logs], k_theta


def _period_step(eta: float, lattice: Lattice) -> Any:
    """Return 2π/(N·span) exactly: the nodes close after one period."""
    from flint import arb

    points = round(2 * math.pi / (eta * lattice.span))
    return 2 * arb.pi() / (points * _span(lattice))


def _span(lattice: Lattice) -> Any:
    return as_ball(lattice.span, max(abs(lattice.offset), lattice.span) * ULPS)
