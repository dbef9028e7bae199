"""The line of an inversion in balls: M at its nodes, its end by proven decay, its aliases by Chernoff's bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_end import beyond, gaussian_variance, lattice_end, line_end
from cumulant.inversion.ball_lattice import BallLattice, ball_lattice, snap
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import Enclosure
from cumulant.inversion.plan import TAIL_NATS, Plan
from cumulant.inversion.work_budget import WorkBudget
from cumulant.numerics.balls import (
    as_ball,
    lower_float,
    pi_ball,
    precision,
    turned_sum,
    upper_float,
)
from cumulant.pairs.cache import CACHE
from cumulant.pairs.certified import ball_nodes, count_nodes, moment_of, tilted_moments
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import k_at
from cumulant.pairs.grid import tilt
from cumulant.pairs.pair import DominatingPair

if TYPE_CHECKING:
    from flint import arb

MOST_RULES = 200  # distinct releases whose moments are proven at a tilt, ten milliseconds each
MOST_BITS = 1500  # of one number: the line is a thousand nats above the answer
MOST_PARTS = 40  # distinct releases whose certificate takes a few seconds
CLOSE = TAIL_NATS, 25.0  # below δ to which a tail is left out, the second where a line would be long: 1e-11
ROUGH = (14.0,)  # where that is too long: 1e-6
SETTLED_NATS = 1e-12  # of slack, with which no other line is planned
MANY_BALL_POINTS = 600  # of a lattice, beyond which the sum is cut
SMOOTHED_POINTS, FEW_POINTS = 4000, 64  # of a smoothed line: the most, and as few as are tried


@final
@dataclass(frozen=True, eq=False)
class BallLine(Enclosure):
    """The sum over a line.

    e^{K(z_j) - K(θ)} at z_j = θ + ijη, K(θ), what lies beyond the end, and K at the tilts of Chernoff's bound.
    """

    theta: float
    step: arb
    moments: list[Any]
    k_theta: arb
    tail: arb
    chernoff: tuple[tuple[float, arb], ...]  # (τ, K(τ)): one above θ, one below, as far as there are such
    lattice: BallLattice | None
    left_out: arb  # of P, by which δ may be larger
    bits: int

    enough = SETTLED_NATS

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        with precision(self.bits):
            low, high = self.bounds(as_ball(epsilon))
            # what is not certainly positive says nothing: δ lies between 0 and 1
            log_high = min(upper_float((high + self.left_out).log()), 0.0) if high > 0 and high.is_finite() else 0.0
            return (lower_float(low.log()) if low > 0 else -math.inf), log_high

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        """Return bounds of E(1 - e^{ε-L})_+ under the measure whose transform is summed."""
        off = as_ball(0.0) if self.lattice is None else self.lattice.error
        below, above = (epsilon - off).lower(), (epsilon + off).upper()
        upper = self._sum(below)
        lower = upper if self.lattice is None else self._sum(above)
        low, high = lower - self.tail - self.alias(above), upper + self.tail
        return low * self._scale(above).exp(), high * self._scale(below).exp()

    def _scale(self, epsilon: arb) -> arb:
        """Return K(θ) - θε, the logarithm of what the terms were divided by."""
        return self.k_theta - as_ball(self.theta) * epsilon

    def _sum(self, epsilon: arb) -> arb:
        """Return (η/π) Σ' Re e^{K(z) - K(θ) - iωε}·kernel."""
        if self.lattice is None:
            return turned_sum(self.values[0], self.step * epsilon) * self.step / pi_ball()
        first, *rest = [self._beyond_gap(epsilon, gap) for gap in self.lattice.gaps(epsilon)]
        return (first.union(rest[0]) if rest else first) * self.step / pi_ball()

    def _beyond_gap(self, epsilon: arb, gap: arb) -> arb:
        """Return the sum for a lattice whose first point beyond ε is so far away.

        The transform of the payoff at its points x = gap, gap + span, … is a geometric series,

            span·Σ (1 - e^{-x}) e^{-zx} = span·e^{-z·gap} (1 - e^{-gap} - e^{-z·span} e^{-gap} (e^{gap-span} - 1))/D(z),

        D(z) = (1 - e^{-z·span})(1 - e^{-(z+1)·span}).
        """
        span = self.lattice.span  # type: ignore[union-attr]
        near, far = (turned_sum(values, self.step * (epsilon + gap)) for values in self.values)
        here, next_one = -(-gap).expm1(), (-gap).exp() * (gap - span).expm1()
        return span * (-as_ball(self.theta) * gap).exp() * (here * near - next_one * far)

    @cached_property
    def values(self) -> tuple[list[Any], list[Any]]:
        """e^{K(z) - K(θ)} times 1/(z(z+1)), the first halved; on a lattice times 1/D(z) and e^{-z·span}/D(z)."""
        if self.lattice is None:
            return self._times(lambda z: 1 / (z * (z + 1))), []
        span = self.lattice.span

        def share(z: Any) -> Any:
            return 1 / ((1 - (-z * span).exp()) * (1 - (-(z + 1) * span).exp()))

        return self._times(share), self._times(lambda z: (-z * span).exp() * share(z))

    def _times(self, kernel: Callable[[Any], Any]) -> list[Any]:
        from flint import acb, arb

        theta = as_ball(self.theta)
        first, *rest = [moment * kernel(acb(theta, self.step * j)) for j, moment in enumerate(self.moments)]
        return [first * arb(0.5), *rest]

    def slope(self, epsilon: float) -> float:
        if self.lattice is not None:  # between two points, about that of the scale
            return -self.theta
        with precision(self.bits):
            values = np.array([complex(value.mid()) for value in self.values[0]])
        z = self.theta + 1j * float(self.step.mid()) * np.arange(len(values))
        terms = values * np.exp(-1j * epsilon * z.imag)
        total, moving = float(np.sum(terms.real)), float(np.sum((z * terms).real))
        return -moving / total if total > 0 and moving > 0 else -self.theta

    def alias(self, epsilon: arb) -> arb:
        """Return a bound of Σ_{k≠0} e^{θkW} δ(ε + kW), divided by e^{K(θ)-θε}."""
        from flint import arb

        window, theta, scale = 2 * pi_ball() / self.step, as_ball(self.theta), self._scale(epsilon)
        bounds: dict[bool, arb] = {}
        for tau, k_tau in self.chernoff:
            t = as_ball(tau)
            gap = abs(t - theta) * window
            log = k_tau - t * epsilon - t * (1 + 1 / t).log() - (1 + t).log() - scale - gap
            bounds[tau > self.theta] = log.exp() / -(-gap).expm1()
        whole = (-scale - theta * window).exp() / -(-theta * window).expm1()  # δ <= 1
        if False in bounds and bounds[False].upper() < whole.upper():
            whole = bounds[False]
        return bounds[True] + whole if True in bounds else arb(math.inf)


def ball_line(losses: ComposedPairs, plan: Plan, budget: WorkBudget, accuracies: Sequence[float] = CLOSE) -> BallLine:
    """Return the line of a plan, so long that what lies beyond is nothing beside the answer, or almost nothing."""
    bits = _bits(losses, plan)
    with precision(bits):
        if losses.lattice is not None:
            return _lattice_line(losses, plan, bits, budget)
        for accuracy in accuracies:
            end = line_end(losses, replace(plan, accuracy=accuracy), bits, budget)
            if end is not None and _is_affordable(losses, plan, end[0], bits, budget):
                return _line(losses, plan, _Points(as_ball(plan.eta), end[0]), end[1], bits, budget=budget)
    raise OutOfReach("the characteristic function does not fall within the points that balls afford")


def smooth_lines(losses: ComposedPairs, plan: Plan, budget: WorkBudget) -> tuple[BallLine, BallLine, float]:
    """Return the lines of the loss with one more Gaussian release, and with one twice as large, and its variance."""
    bits, eta = _bits(losses, plan), plan.eta
    with precision(bits):
        count = _affordable_points(losses, plan, bits, budget)
        omega = count * eta
        variance = 2 * (plan.height + TAIL_NATS) / omega**2
        end = count * as_ball(eta)
        tail = beyond(as_ball(variance) * end**2 / 2, end, as_ball(eta))
        points = _Points(as_ball(eta), count)
        once, twice = (
            _line(losses, plan, points, tail, bits, budget=budget, smoothing=v) for v in (variance, 4 * variance)
        )
    return once, twice, variance


def _affordable_points(losses: ComposedPairs, plan: Plan, bits: int, budget: WorkBudget) -> int:
    """Return how many points a line may have: higher frequencies take more nodes."""
    count = SMOOTHED_POINTS
    while count > FEW_POINTS and not _is_affordable(losses, plan, count, bits, budget, lines=2):
        count //= 2
    return count


def _is_affordable(
    losses: ComposedPairs, plan: Plan, count: int, bits: int, budget: WorkBudget, *, lines: int = 1
) -> bool:
    """Return whether what is left pays for the moments of all parts at `count` points of each line."""
    theta, omega, price = tilt(plan.index), count * plan.eta, 0.0
    for pair, _ in losses.parts:
        try:
            nodes = count_nodes(pair, theta, omega, k_at(pair, plan.index), bits=bits)
        except OutOfReach:
            return False
        budget.pay(nodes.microseconds)
        price += nodes.transform_effort(count, bits)
    return lines * price <= budget.left


def _bits(losses: ComposedPairs, plan: Plan) -> int:
    """Return how many bits: those of the answer, of the factor n, and of the height of the line above it."""
    if len(losses.parts) > MOST_PARTS:
        raise OutOfReach(f"a certificate of {len(losses.parts)} distinct releases takes too long")
    bits = 128 + math.ceil(1.5 * math.log2(losses.releases + 1) + 1.5 * math.ceil(plan.height))
    if bits > MOST_BITS:
        raise OutOfReach(f"a certificate would take {bits} bits")
    return bits


# The nodes ------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """The points of a line, and the lattice that losses are moved onto, if any; compared by their numbers."""

    step: arb
    count: int
    lattice: BallLattice | None = None

    @property
    def last(self) -> float:
        """The last frequency."""
        return upper_float(self.step) * (self.count - 1)

    def _key(self) -> tuple[object, ...]:
        lattice = () if self.lattice is None else (self.lattice.offset, self.lattice.span)
        return self.count, *(number.man_exp() for number in (self.step.mid(), self.step.rad(), *lattice))

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Points) and self._key() == other._key()


def _line(
    losses: ComposedPairs,
    plan: Plan,
    points: _Points,
    tail: arb,
    bits: int,
    *,
    budget: WorkBudget,
    smoothing: float = 0.0,
) -> BallLine:
    from flint import acb

    theta, more = as_ball(plan.theta), as_ball(smoothing)
    variance = gaussian_variance(losses) + more
    line = [acb(theta, points.step * j) for j in range(points.count)]
    values = [(variance * (z * (z + 1) - theta * (theta + 1)) / 2).exp() for z in line]
    k_theta = variance * theta * (theta + 1) / 2
    for pair, n in losses.parts:
        budget.pay(_moments_effort(pair, plan.index, points, bits))
        k, moments = _moments(pair, plan.index, points, bits)
        k_theta += n * (as_ball(k) + moments[0].real.log())
        # powers, not logarithms: those would have to stay on one branch
        values = [value * (moment / moments[0].real) ** n for value, moment in zip(values, moments, strict=True)]
    chernoff = tuple(
        (tilt(index), k_ball(losses, index, bits, budget, lattice=points.lattice, smoothing=more))
        for index in chernoff_tilts(plan, float(points.step))
    )
    return BallLine(plan.theta, points.step, values, k_theta, tail, chernoff, points.lattice, left_out_of(losses), bits)


def _moments_effort(pair: DominatingPair, index: int, points: _Points, bits: int) -> float:
    """Return about how many microseconds the moments at these points take."""
    nodes = count_nodes(pair, tilt(index), points.last, k_at(pair, index), bits=bits)
    return nodes.microseconds + nodes.transform_effort(points.count, bits)


@CACHE.remember  # both ends of an interval, and smoothed lines, ask for the same moments
def _moments(pair: DominatingPair, index: int, points: _Points, bits: int) -> tuple[float, list[Any]]:
    """Return K(θ), about, and e^{-K} M at the nodes."""
    theta, k = tilt(index), k_at(pair, index)
    nodes = ball_nodes(pair, theta, points.last, k, bits=bits)
    if points.lattice is not None:
        nodes = snap(nodes, points.lattice)
    return k, tilted_moments(nodes, theta, k, step=points.step, count=points.count)


def k_ball(
    losses: ComposedPairs,
    index: int,
    bits: int,
    budget: WorkBudget,
    *,
    lattice: BallLattice | None = None,
    smoothing: arb | float = 0.0,
) -> arb:
    """Return K at one tilt."""
    if len(losses.parts) > MOST_RULES:
        raise OutOfReach(f"a certificate would take rules for {len(losses.parts)} distinct releases")
    theta = tilt(index)
    t = as_ball(theta)
    total = (gaussian_variance(losses) + smoothing) * t * (t + 1) / 2
    for pair, n in losses.parts:
        k = k_at(pair, index)
        budget.pay(count_nodes(pair, theta, 0.0, k, bits=bits).microseconds)
        nodes = ball_nodes(pair, theta, 0.0, k, bits=bits)
        if lattice is not None:
            nodes = snap(nodes, lattice)
        total += n * (as_ball(k) + moment_of(nodes, theta, k).log())
    return total


def left_out_of(losses: ComposedPairs) -> arb:
    """Return how much of P the parts lack together, at most."""
    cut = [(pair.in_balls().left_out, n) for pair, n in losses.parts if isinstance(pair, CoordinatePair)]
    return sum((n * p for p, n in cut), as_ball(0.0))


def chernoff_tilts(plan: Plan, step: float) -> list[int]:
    """Return the tilts above and below the line whose bounds of aliases are the smallest: any choice is sound."""
    t, theta, window = plan.tilts, tilt(plan.index), 2 * math.pi / step
    logs = t.k - t.theta * t.epsilon - np.abs(t.theta - theta) * window
    place = plan.index - t.index
    found = []
    if place + 1 < len(logs):
        found.append(t.index + place + 1 + int(np.argmin(logs[place + 1 :])))
    if place > 0:
        found.append(t.index + int(np.argmin(logs[:place])))
    return found


# Lattices -------------------------------------------------------------------------------------------------------------


def _lattice_line(losses: ComposedPairs, plan: Plan, bits: int, budget: WorkBudget) -> BallLine:
    """Return the sum over one period, whose points are 2πj/(N·span), N odd; it is the whole line."""
    lattice = ball_lattice(losses, bits)
    points = 2 * math.ceil(math.pi / (plan.eta * lower_float(lattice.span))) + 1
    step, count, tail = 2 * pi_ball() / (points * lattice.span), (points + 1) // 2, as_ball(0.0)
    if count > MANY_BALL_POINTS:
        count, tail = lattice_end(losses, plan, lattice, step, bits, budget=budget)
    if not _is_affordable(losses, plan, count, bits, budget):
        raise OutOfReach("a lattice of so many losses takes sums that balls do not afford")
    return _line(losses, plan, _Points(step, count, lattice), tail, bits, budget=budget)
