"""Quadrature with a proven error, for the moment integrals of a coordinate, in balls.

M(z) is the integral of F(t) = base(t)·Π w(±t)^{a}, with complex exponents a. Two rules:

- on the whole line the trapezoidal rule. If F is analytic for |Im t| <= d and ∫ |F(x+iy)| dx <= B for |y| <= d, step h
  errs by at most 2B/(e^{2πd/h} - 1) (Trefethen and Weideman 2014, Theorem 5.1);
- on half-lines and intervals Gauss-Legendre on pieces. On a piece of half-width c, if |F| <= B on the ellipse around it
  with semi-axes c(ρ ± 1/ρ)/2, n points err by at most c·(64/15)·B·ρ^{-2n}/(1 - ρ^{-2}) (Trefethen 2008, Theorem 4.5).

B comes from bounds of |F| on rectangles, `_Moment.log_modulus_bound`, summed. What is left out is part of the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, legendre_balls, log_sum_ball, pi_ball, upper_float
from cumulant.pairs.coordinate import Branch, Line
from cumulant.pairs.law import LineLaw, require_symmetric

if TYPE_CHECKING:
    from flint import arb

DEPTH_NATS = 66.0  # nats below M(θ) to which the trapezoidal rule goes: 2e-29
NEGLIGIBLE_NATS = -70.0  # nats, relative to M(θ), of what a rectangle or a piece may be left out with
MOST_PROVEN_NODES = 50_000  # of a trapezoidal rule
PAD = 3.5  # standard deviations beyond the span of the float path
RECTANGLE = 0.5  # the widest rectangle by which an integral of a modulus is bounded
MOST_RECTANGLES = 400  # of one integral
PROVEN_STRIPS = (0.85, 0.55, *(0.3 * 0.55**k for k in range(16)))  # candidates for d, in units of the widest allowed
FIRST_STRIP = 2  # tried first, then its neighbours as long as they are better
WIDEST_STRIP = 9.0  # of the coordinate

POINTS = 24  # of a Gauss-Legendre rule
RHO = 4.0  # half axes of the ellipse in which an integrand is bounded, summed, in half widths of a piece
MOST_PIECES = 20_000  # of a stretch


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProvenRule:
    """Nodes t with weights, the error of the rule relative to M(θ), and how many rectangles its proof took."""

    nodes: list[tuple[arb, arb]]
    log_error: arb
    rectangles: int


def proven_rule(branch: Branch, theta: float, omega: float, k_theta: float, bits: int) -> ProvenRule:
    """Return nodes for all |Im z| <= ω at Re z = θ."""
    moment = _Moment(branch, as_ball(theta), as_ball(omega), as_ball(k_theta))
    if isinstance(branch, Line):
        return _trapezoidal(branch, moment, theta)
    return _by_pieces(branch, moment, _edges(branch, theta, omega), bits)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Moment:
    """|F| relative to M(θ), for |Im z| <= ω at Re z = θ."""

    branch: Branch
    theta: arb
    omega: arb
    k_theta: arb

    def log_modulus_bound(self, low: arb, high: arb, y: arb) -> arb:
        """Return log of a bound of |F| where low <= Re t <= high and |Im t| <= y."""
        law = self.branch.law
        total = law.log_density_bound(low, high, y) - self.k_theta
        for side, sampling in self.branch.factors:
            power = sampling.power(self.theta)
            if side == 0:
                total += power * sampling.value_ball(self.branch.least_ball())
                continue
            ends = (low, high) if side > 0 else (-high, -low)
            least, most, angle = sampling.bound_on_rectangle(*law.bound_on_rectangle(*ends, y))
            total += self.omega * angle + power * (most if power >= 0 else least)
        return total

    def log_tails(self, low: arb, high: arb, y: arb) -> arb:
        """Return log of a bound of ∫ |F| outside [low, high], on the whole span or beyond, for |Im t| <= y."""
        law = self.branch.law
        if not isinstance(law, LineLaw):
            return log_sum_ball([])
        growth = as_ball(law.steepest) * sum(map(abs, self.branch.powers(self.theta)), 0 * self.theta)
        return law.log_tails((low, high), y, growth, lambda end: self._log_factors(end, y)) - self.k_theta

    def _log_factors(self, t: arb, y: arb) -> arb:
        """Return a bound of log Π|w^a| at Re t that holds with slope `growth` from there on: the whole angle counts."""
        law, factors = self.branch.law, self.branch.factors
        angle = as_ball(law.steepest) * y
        total = len(factors) * self.omega * angle
        for side, sampling in factors:
            power = sampling.power(self.theta)
            value = power * sampling.value_ball(law.ratio_ball(side * t))
            total += value if power >= 0 else value + power * (angle / 2).cos().log()
        return total


def _whole_span(branch: Branch, theta: float) -> tuple[float, float]:
    """Return a stretch outside which the tails are small, whatever the other parameters."""
    if not isinstance(branch.law, LineLaw):
        return branch.span(theta)
    far = max(map(abs, branch.powers(theta))) * branch.steepest
    low, high = branch.law.whole_span(far)
    even = require_symmetric(branch.law).even if branch.above else 0.0
    return even if branch.above else low, high + even


# The whole line -------------------------------------------------------------------------------------------------------


def _trapezoidal(branch: Line, moment: _Moment, theta: float) -> ProvenRule:
    low, high = branch.span(theta)
    low, high = low - PAD, high + PAD
    whole = _whole_span(branch, theta)
    nothing = as_ball(0.0)
    (h, d, log_b), rectangles = _widest_step(moment, min(branch.law.strip, WIDEST_STRIP), (low, high), whole)
    if (high - low) / h > MOST_PROVEN_NODES:
        raise OutOfReach(f"a certificate would take {(high - low) / h:.0f} nodes")
    first, last = math.floor(low / h), math.ceil(high / h)
    step = as_ball(h)
    aliased = as_ball(2.0).log() + log_b - _log_expm1(2 * pi_ball() * as_ball(d) / step)
    still = _Moment(branch, moment.theta, nothing, moment.k_theta)
    cut = _outer(still, nothing, (first * h, last * h), whole, h)
    # a sum beyond b is at most its first term and the integral: 1 + h times the fall there, times the integral's bound
    farthest = max(abs(whole[0]), abs(whole[1])) * max(branch.law.curvature, 1.0)
    cut.append(still.log_tails(as_ball(whole[0]), as_ball(whole[1]), nothing) + (1 + step * farthest).log())
    nodes = [(k * step, step) for k in range(first, last + 1)]
    return ProvenRule(nodes, log_sum_ball([aliased, *cut]), rectangles + len(cut))


def _widest_step(
    moment: _Moment, strip: float, inner: tuple[float, float], whole: tuple[float, float]
) -> tuple[tuple[float, float, arb], int]:
    """Return the widest step that some strips allow, with its strip and log B, and how many rectangles that took.

    log B is convex in d, so that one peak is the peak.
    """
    place, (best, rectangles) = FIRST_STRIP, _step(moment, strip * PROVEN_STRIPS[FIRST_STRIP], inner, whole)
    for direction in (-1, 1):
        while 0 <= place + direction < len(PROVEN_STRIPS):
            found, more = _step(moment, strip * PROVEN_STRIPS[place + direction], inner, whole)
            rectangles += more
            if found[0] <= best[0]:
                break
            place, best = place + direction, found
        if place != FIRST_STRIP:
            break
    return best, rectangles


def _step(
    moment: _Moment, d: float, inner: tuple[float, float], whole: tuple[float, float]
) -> tuple[tuple[float, float, arb], int]:
    """Return a step h, the half-width d of the strip it is for, and log B; and how many rectangles that took."""
    log_b, rectangles = _log_integral(moment, as_ball(d), inner, whole)
    return (2 * math.pi * d / (DEPTH_NATS + max(upper_float(log_b), 0.0)), d, log_b), rectangles


def _log_integral(moment: _Moment, y: arb, inner: tuple[float, float], whole: tuple[float, float]) -> tuple[arb, int]:
    """Return log of a bound of ∫ |F(x + iy)| dx over the whole line, and of how many rectangles it is the sum."""
    low, high = inner
    bend = moment.branch.curvature_bounds(float(moment.theta.mid()), low, high).quotient
    width = min(RECTANGLE, 0.7 / math.sqrt(bend))
    count = max(min(math.ceil((high - low) / width), MOST_RECTANGLES), 1)
    edges = [as_ball(x) for x in np.linspace(low, high, count + 1).tolist()]
    logs = [moment.log_modulus_bound(a, b, y) + (b - a).log() for a, b in pairwise(edges)]
    logs += _outer(moment, y, inner, whole, 0.0)
    return log_sum_ball([*logs, moment.log_tails(as_ball(whole[0]), as_ball(whole[1]), y)]), len(logs)


def _outer(moment: _Moment, y: arb, inner: tuple[float, float], whole: tuple[float, float], h: float) -> list[arb]:
    """Return logs of bounds of ∫ |F|, or of the sum with step h, between the inner stretch and the whole one."""
    waiting = [(a, b) for a, b in ((whole[0], inner[0]), (inner[1], whole[1])) if a < b]
    logs: list[arb] = []
    while waiting:
        a, b = waiting.pop()
        log = moment.log_modulus_bound(as_ball(a), as_ball(b), y) + (as_ball(b) - as_ball(a) + as_ball(h)).log()
        if log < NEGLIGIBLE_NATS or b - a < RECTANGLE or len(logs) + len(waiting) > MOST_RECTANGLES:
            logs.append(log)
        else:
            waiting += [(a, (a + b) / 2), ((a + b) / 2, b)]
    return logs


def _log_expm1(x: arb) -> arb:
    return x + (-((-x).exp())).log1p()


# Half-lines and intervals ---------------------------------------------------------------------------------------------


def _by_pieces(branch: Branch, moment: _Moment, edges: list[arb], bits: int) -> ProvenRule:
    constant = (as_ball(64.0) / 15).log() - 2 * POINTS * as_ball(RHO).log() - (1 - as_ball(RHO) ** -2).log()
    rule = legendre_balls(POINTS, bits)
    still = _Moment(branch, moment.theta, 0 * moment.omega, moment.k_theta)
    # nothing is left out where the pieces begin; as much as beyond their end is counted there all the same
    nodes, errors = [], [moment.log_tails(-edges[-1], edges[-1], 0 * edges[0])]
    for a, b in pairwise(edges):
        width = b - a
        half, middle = width / 2, (a + b) / 2
        plain = still.log_modulus_bound(a, b, 0 * a) + width.log()
        if plain < NEGLIGIBLE_NATS:
            errors.append(plain)
            continue
        reach, y = half * (RHO + 1 / RHO) / 2, half * (RHO - 1 / RHO) / 2
        errors.append(moment.log_modulus_bound(middle - reach, middle + reach, y) + half.log() + constant)
        nodes += [(a + width * node, weight * width) for node, weight in rule]
        if len(nodes) > MOST_PROVEN_NODES:
            raise OutOfReach(f"a certificate would take more than {MOST_PROVEN_NODES} nodes")
    return ProvenRule(nodes, log_sum_ball(errors), 2 * len(edges))


def _edges(branch: Branch, theta: float, omega: float) -> list[arb]:
    """Return the ends of pieces: doubles, but for the ends of the branch itself."""
    low, high = _whole_span(branch, theta)
    count = max(math.ceil((high - low) / _width(branch, theta, omega)), 1)
    if count > MOST_PIECES:
        raise OutOfReach(f"a certificate would take {count} pieces of the coordinate")
    edges = [as_ball(x) for x in np.linspace(low, high, count + 1).tolist()]
    first, last = branch.law.ends_ball()
    first = require_symmetric(branch.law).even_ball() if branch.above else first
    return [edges[0] if first is None else first, *edges[1:-1], edges[-1] if last is None else last]


def _width(branch: Branch, theta: float, omega: float) -> float:
    """Return a width at which the ellipse costs about e^20 against the e^-66 of the rule."""
    turn = 20.0 / (abs(theta + 1 + 1j * omega) * branch.steepest_on(theta))
    return min(0.9, 0.9 * branch.law.resolved, turn, 0.7 / branch.steepest)
