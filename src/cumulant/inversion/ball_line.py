"""A line of an inversion in balls: M at its nodes, what lies beyond its end, its aliases by Chernoff's bound.

Doubles plan: the tilt, the step, about how many points. Three kernels (`ball_kernels`) read the same nodes:

- the payoff itself, where decay proves that the line may end (`ball_end`);
- that of a lattice, one period of which is the whole line;
- a band, where the line does not end: it asks nothing of the losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_end import gaussian_variance, lattice_end, line_end
from cumulant.inversion.ball_kernels import BallLattice, BandKernel, Kernel, LatticeKernel, PlainKernel
from cumulant.inversion.ball_whole import ENCLOSURE_BITS, BallEnclosure
from cumulant.inversion.band import BandPlan
from cumulant.inversion.closed import is_plain_laplace
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.enclosure import WorkBudget
from cumulant.inversion.plan import TAIL_NATS, Plan, Tilts
from cumulant.numerics.balls import as_ball, lower_float, pi_ball, points_above, precision, turned_sum, upper_float
from cumulant.pairs.allocation import AllocatedPair
from cumulant.pairs.cache import CACHE
from cumulant.pairs.certified import ball_nodes, count_nodes, moment_of, tilted_moments
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import k_at, tilt
from cumulant.pairs.mixed import MixedPair
from cumulant.pairs.pair import DominatingPair

if TYPE_CHECKING:
    from flint import arb

MOST_RULES = 200  # distinct releases whose moments are proven at a tilt, ten milliseconds each
MOST_BITS = 1500  # of one number: the line is a thousand nats above the answer
MOST_PARTS = 40  # distinct releases whose certificate takes a few seconds
CLOSE = TAIL_NATS, 25.0  # below δ to which a tail is left out, the second where a line would be long: 1e-11
SETTLED_NATS = 1e-12  # of slack, with which no other line is planned
MANY_BALL_POINTS = 600  # of one period, beyond which the sum is cut
BAND_MICROSECONDS = 1.5e6  # that a band may take, whose bounds would be little nearer for more
BAND_SHARE = 0.25  # of how far apart bounds in doubles may be, for bounds of a band
FAR_APART_NATS = 0.1  # of bounds of log δ, about, from which a band says little
POINT_MICROSECONDS, CLOSED_MICROSECONDS = 40, 20  # of a point of a band beside its moments, and of a closed moment


@final
@dataclass(frozen=True, eq=False)
class BallLine(BallEnclosure):
    """The sum over a line: e^{K(z_j) - K(θ)} at z_j = θ + ijη, K(θ), and K at the tilts of Chernoff's bound."""

    theta: float
    step: arb
    moments: list[Any]
    k_theta: arb
    chernoff: tuple[tuple[float, arb], ...]  # (τ, K(τ)): one above θ, one below, as far as there are such
    kernel: Kernel
    left_out: arb  # of P, by which δ may be larger
    bits: int

    enough = SETTLED_NATS

    def bits_at(self, epsilon: float) -> int:
        return self.bits

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        """Return bounds of E(1 - e^{ε-L})_+ under the measure whose transform is summed, and what was left out."""
        below, above = (epsilon - self.kernel.moved).lower(), (epsilon + self.kernel.moved).upper()
        low, high = self.kernel.enclose(self._turned, below, above)
        low, high = (low - self.alias(above)) * self._scale(above).exp(), high * self._scale(below).exp()
        return low, high + self.left_out

    def _scale(self, epsilon: arb) -> arb:
        """Return K(θ) - θε, the logarithm of what the terms were divided by."""
        return self.k_theta - as_ball(self.theta) * epsilon

    def _turned(self, column: int, epsilon: arb) -> arb:
        """Return (η/π) Σ' Re e^{K(z) - K(θ) - iωε} T̂(z), of one of the kernel's T̂."""
        return turned_sum(self._columns[column], self.step * epsilon) * self.step / pi_ball()

    @cached_property
    def _columns(self) -> tuple[list[Any], ...]:
        columns = self.kernel.transforms(points_above(self.theta, self.step, len(self.moments)))
        weighted = [[moment * t for moment, t in zip(self.moments, column, strict=True)] for column in columns]
        return tuple([first / 2, *rest] for first, *rest in weighted)

    def alias(self, epsilon: arb) -> arb:
        """Return a bound of Σ_{k≠0} e^{θkW} δ(ε + kW), divided by e^{K(θ)-θε}."""
        window, theta, scale = 2 * pi_ball() / self.step, as_ball(self.theta), self._scale(epsilon)
        bounds: dict[bool, arb] = {}
        for tau, k_tau in self.chernoff:
            gap = abs(as_ball(tau) - theta) * window
            log = k_tau - as_ball(tau) * epsilon + log_chernoff(as_ball(tau)) - scale - gap
            bounds[tau > self.theta] = log.exp() / -(-gap).expm1()
        whole = (-scale - theta * window).exp() / -(-theta * window).expm1()  # δ <= 1
        if False in bounds and bounds[False].upper() < whole.upper():
            whole = bounds[False]
        return bounds[True] + whole if True in bounds else as_ball(math.inf)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChernoffInBalls(BallEnclosure):
    """δ(ε) <= e^{K(τ) - τε}·τ^τ/(1+τ)^{1+τ} at one tilt τ > 0, plus what a cut left out; no bound from below."""

    tau: float
    log_scale: arb  # K(τ) + τ log τ - (1+τ) log(1+τ)
    left_out: arb

    @staticmethod
    def of(losses: ComposedPairs, around: Tilts, epsilon: float, budget: WorkBudget) -> ChernoffInBalls:
        """Return the bound of the tilt that is the best at ε, about."""
        index = around.index + int(np.argmin(log_chernoff(around.theta) + around.k - around.theta * epsilon))
        bits = ENCLOSURE_BITS + math.ceil(math.log2(losses.releases + 1))
        with precision(bits):
            return ChernoffInBalls.at(tilt(index), _k_ball(losses, index, bits, budget), _left_out_of(losses))

    @staticmethod
    def at(tau: float, k: arb, left_out: arb) -> ChernoffInBalls:
        """Return the bound of one tilt, from K there."""
        return ChernoffInBalls(tau, k + log_chernoff(as_ball(tau)), left_out)

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        return as_ball(0.0), (self.log_scale - as_ball(self.tau) * epsilon).exp() + self.left_out


# Lines of a plan ------------------------------------------------------------------------------------------------------


def ball_line(losses: ComposedPairs, plan: Plan, budget: WorkBudget) -> BallLine:
    """Return the line of a plan, so long that what lies beyond is nothing beside the answer, or almost nothing."""
    work = _Work(losses, plan.index, plan.tilts, plan.height, budget)
    with precision(work.bits):
        if losses.lattice is not None:
            return _lattice_line(work, plan)
        for accuracy in CLOSE:
            end = line_end(losses, replace(plan, accuracy=accuracy), work.bits, budget)
            points = None if end is None else _Points(as_ball(plan.eta), end[0])
            if end is not None and points is not None and work.price(points) <= budget.left:
                return work.line(points, PlainKernel(end[1]))
    raise OutOfReach("the characteristic function does not fall within the points that balls afford")


def band_line(losses: ComposedPairs, around: Tilts, budget: WorkBudget) -> BallLine:
    """Return bounds from a stretch of the line, as long as it is planned in doubles or, if that is less, affordable."""
    plan = BandPlan.of(around, BAND_SHARE * around.epsilon_apart)
    work = _Work(losses, plan.index, around, plan.height, budget)
    with precision(work.bits):
        points = _Points(as_ball(plan.eta), plan.points)
        while not work.price(points) + POINT_MICROSECONDS * points.count <= min(budget.left, BAND_MICROSECONDS):
            points = replace(points, count=points.count // 2)
            h = 2 * math.pi / (plan.eta * max(points.count, 1))
            if not plan.theta * (plan.theta + 1) * h * h / 8 < FAR_APART_NATS:
                raise OutOfReach("a band whose bounds are near is not affordable")
        h_ball = 2 * pi_ball() / (points.count * points.step)
        return work.line(points, BandKernel.of(as_ball(plan.theta), h_ball))


def _lattice_line(work: _Work, plan: Plan) -> BallLine:
    """Return the sum over one period, whose points are 2πj/(N·span), N odd; it is the whole line."""
    lattice = BallLattice.of(work.losses, work.bits)
    period = 2 * math.ceil(math.pi / (plan.eta * lower_float(lattice.span))) + 1
    step, count, tail = 2 * pi_ball() / (period * lattice.span), (period + 1) // 2, as_ball(0.0)
    if count > MANY_BALL_POINTS:
        count, tail = lattice_end(work.losses, plan, lattice, step, work.bits, budget=work.budget)
    points = _Points(step, count, lattice)
    if not work.price(points) <= work.budget.left:
        raise OutOfReach("a lattice of so many losses takes sums that balls do not afford")
    return work.line(points, LatticeKernel(lattice, as_ball(plan.theta), tail))


@final
class _Work:
    """The losses of a line at one tilt, with the precision that they take, and what pays for it."""

    def __init__(self, losses: ComposedPairs, index: int, tilts: Tilts, height: float, budget: WorkBudget) -> None:
        if len(losses.parts) > MOST_PARTS:
            raise OutOfReach(f"a certificate of {len(losses.parts)} distinct releases takes too long")
        self.losses, self.index, self.tilts, self.budget = losses, index, tilts, budget
        # those of the answer, of the factor n, and of the height of the line above it
        self.bits = 128 + math.ceil(1.5 * math.log2(losses.releases + 1) + 1.5 * math.ceil(height))
        if self.bits > MOST_BITS:
            raise OutOfReach(f"a certificate would take {self.bits} bits")

    def price(self, points: _Points) -> float:
        """Return about how many microseconds the moments of all parts take at these points; inf if out of reach."""
        try:
            return sum(_price(pair, self.index, points, self.bits) for pair, _ in self.losses.parts)
        except OutOfReach:
            return math.inf

    def line(self, points: _Points, kernel: Kernel) -> BallLine:
        """Return the line at these points."""
        losses, bits, theta = self.losses, self.bits, as_ball(tilt(self.index))
        variance = gaussian_variance(losses)
        line = points_above(tilt(self.index), points.step, points.count)
        values = [(variance * (z * (z + 1) - theta * (theta + 1)) / 2).exp() for z in line]
        k_theta = variance * theta * (theta + 1) / 2
        for pair, n in losses.parts:
            self.budget.pay(_price(pair, self.index, points, bits))
            k, moments = _moments(pair, self.index, points, bits)
            k_theta += n * (as_ball(k) + moments[0].real.log())
            # powers, not logarithms: those would have to stay on one branch
            values = [value * (moment / moments[0].real) ** n for value, moment in zip(values, moments, strict=True)]
        chernoff = tuple(
            (tilt(index), _k_ball(losses, index, bits, self.budget, points.lattice))
            for index in chernoff_tilts(self.tilts, self.index, float(points.step))
        )
        return BallLine(tilt(self.index), points.step, values, k_theta, chernoff, kernel, _left_out_of(losses), bits)


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


def _price(pair: DominatingPair, index: int, points: _Points, bits: int) -> float:
    """Return about how many microseconds the moments of one pair take at these points."""
    if is_plain_laplace(pair):
        return CLOSED_MICROSECONDS * points.count
    nodes = count_nodes(pair, tilt(index), points.last, k_at(pair, index), bits=bits)
    return nodes.microseconds + nodes.transform_effort(points.count, bits)


@CACHE.remember  # both ends of an interval ask for the same moments
def _moments(pair: DominatingPair, index: int, points: _Points, bits: int) -> tuple[float, list[Any]]:
    """Return K(θ), about, and e^{-K} M at the nodes."""
    theta, k = tilt(index), k_at(pair, index)
    if is_plain_laplace(pair):
        return k, _laplace_moments(pair.in_balls().law.extremes[1], as_ball(k), theta, points)
    nodes = ball_nodes(pair, theta, points.last, k, bits=bits)
    if points.lattice is not None:
        nodes = points.lattice.snap(nodes)
    return k, tilted_moments(nodes, theta, k, step=points.step, count=points.count)


def _laplace_moments(scale: arb, k: arb, theta: float, points: _Points) -> list[Any]:
    """Return e^{-k} M of Laplace noise: M(z) = ((z+1) e^{zs} + z e^{-(z+1)s})/(2z+1), see `closed`."""
    line = points_above(theta, points.step, points.count)
    return [((z + 1) * (z * scale - k).exp() + z * (-(z + 1) * scale - k).exp()) / (2 * z + 1) for z in line]


def _k_ball(
    losses: ComposedPairs, index: int, bits: int, budget: WorkBudget, lattice: BallLattice | None = None
) -> arb:
    """Return K at one tilt."""
    if len(losses.parts) > MOST_RULES:
        raise OutOfReach(f"a certificate would take rules for {len(losses.parts)} distinct releases")
    theta = tilt(index)
    t = as_ball(theta)
    total = gaussian_variance(losses) * t * (t + 1) / 2
    for pair, n in losses.parts:
        k = k_at(pair, index)
        budget.pay(count_nodes(pair, theta, 0.0, k, bits=bits).microseconds)
        nodes = ball_nodes(pair, theta, 0.0, k, bits=bits)
        if lattice is not None:
            nodes = lattice.snap(nodes)
        total += n * (as_ball(k) + moment_of(nodes, theta, k).log())
    return total


def _left_out_of(losses: ComposedPairs) -> arb:
    """Return how much of P the parts lack together, at most."""
    cut = [(pair.in_balls().left_out, n) for pair, n in losses.parts if isinstance(pair, CoordinatePair)]
    cut += [(as_ball(pair.left_out), n) for pair, n in losses.parts if isinstance(pair, AllocatedPair)]
    for pair, n in losses.parts:
        if isinstance(pair, MixedPair):
            cut.append((as_ball(pair.unseen), n))
            parts = [(share, part) for share, part in pair.parts if isinstance(part, CoordinatePair)]
            cut += [(share * part.in_balls().left_out, n) for share, part in parts]
    return sum((n * p for p, n in cut), as_ball(0.0))


def chernoff_tilts(t: Tilts, index: int, step: float) -> list[int]:
    """Return the tilts above and below a line whose bounds of aliases are the smallest: any choice is sound."""
    place = index - t.index
    logs = t.k - t.theta * t.epsilon - np.abs(t.theta - t.theta[place]) * (2 * math.pi / step)
    found = []
    if place + 1 < len(logs):
        found.append(t.index + place + 1 + int(np.argmin(logs[place + 1 :])))
    if place > 0:
        found.append(t.index + int(np.argmin(logs[:place])))
    return found
