"""δ(ε) enclosed in doubles: sums over planned lines, cheapest first.

Where the characteristic function does not fall within a bounded number of nodes (atoms, few releases), the loss is
smoothed by one more Gaussian release of mean s. With D_s its profile,

    D_s - e^{3s²/8} (D_{2s} - D_s) <= D <= D_s :

a release more never costs less; and for fixed r = e^L the derivative of E(rR_s - t)_+ in s, R_s the ratio of that
Gaussian, is √(rt/2π) exp(-x²/2s² - s²/8), x = log r/t, so that what (s, 2s] adds is at least e^{-3s²/8} times what
(0, s] adds. Away from kinks of the profile both errors are of order s².
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import Contour, Lattice
from cumulant.inversion.cut import cut_by_decay, cut_by_samples, cut_on_lattice, rounded_count
from cumulant.inversion.plan import TAIL_NATS, Plan

ROUGH_TAIL_NATS = 14.0  # below δ, to which the tail is pushed where the line would be long: 1e-6
CLOSE_NATS, CLOSE_ENOUGH_NATS = 1e-9, 4e-6  # slack in log δ that is as good as none, and one worth saving a long line
MANY_POINTS = 4096  # of a lattice, beyond which the sum is cut
MOST_EVALUATIONS = 3e5  # nodes and frequencies together that one inversion may take


@final
@dataclass(frozen=True, slots=True, eq=False)
class Enclosure:
    """δ(ε) near the question that a plan was made for, as bounds on its logarithm."""

    contour: Contour
    coarser: Contour | None = None  # of the loss smoothed twice as much
    smoothing: float = 0.0
    route: str = "contour"
    enough: float = CLOSE_NATS  # slack in log δ with which there is no need of a longer line

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound and its slope, approximately."""
        high, slope = self.contour.log_upper(epsilon)
        return min(high, 0.0), slope

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return bounds of log P(L < ∞)^{-1}(δ(ε) - P(L = ∞)), rounding included."""
        low, high = self.contour.log_bounds(epsilon)
        if self.coarser is not None:
            upper = self.coarser.log_bounds(epsilon)[1]
            gain = math.exp(min(0.375 * self.smoothing, 700.0)) * math.expm1(min(max(upper - low, 0.0), 700.0))
            low = low + math.log1p(-gain) if gain < 1 else -math.inf
        return low, min(high, 0.0)


def enclosures_at(losses: ComposedPairs, plan: Plan, lattice: Lattice | None = None) -> Iterator[Enclosure]:
    """Yield enclosures that a plan leads to, cheapest first: cut early or smoothed only where a line would be long."""
    if lattice is not None:
        yield Enclosure(_lattice_contour(losses, plan, lattice), route="lattice contour")
        return
    found = False
    for aim, budget in (
        (plan, MOST_EVALUATIONS / 3),
        (replace(plan, accuracy=ROUGH_TAIL_NATS), MOST_EVALUATIONS),
        (plan, MOST_EVALUATIONS),
    ):
        cut = cut_by_decay(losses, aim, _affordable(losses, aim, budget))
        if cut is not None:
            found = True
            contour = _contour(losses, aim, *cut_by_samples(losses, aim, *cut))
            yield Enclosure(contour, enough=CLOSE_NATS if aim is plan else CLOSE_ENOUGH_NATS)
            if aim is plan:
                return
    if not found:
        yield _smoothed(losses, plan, _affordable(losses, plan, MOST_EVALUATIONS / 16))
        yield _smoothed(losses, plan, _affordable(losses, plan, MOST_EVALUATIONS))


def _smoothed(losses: ComposedPairs, plan: Plan, omega: float) -> Enclosure:
    """Return the inversion of the loss smoothed so much that the line may end at ω."""
    smoothing = 2 * (plan.height + TAIL_NATS) / omega**2
    plain = _contour(losses, plan, omega, plan.negligible / omega)
    once, twice = plain.smoothed(smoothing), plain.smoothed(4 * smoothing)
    return Enclosure(once, twice, smoothing, "smoothed contour", CLOSE_ENOUGH_NATS)


def _affordable(losses: ComposedPairs, plan: Plan, budget: float) -> float:
    """Return the frequency up to which a line may be evaluated: a + bω nodes and ω/η frequencies, by fast transform."""
    a, b = losses.effort(plan.index)
    budget *= 1 + len(losses.parts) / 4  # a part may take a while
    return max((budget - a) / (b + 1 / plan.eta), 64 * plan.eta)


def _contour(losses: ComposedPairs, plan: Plan, omega: float, tail: float) -> Contour:
    line = losses.line(plan.index, plan.eta, rounded_count(omega / plan.eta))
    return Contour.of((plan.theta, plan.eta), line, tail, (plan.tilts.theta, plan.tilts.k))


def _lattice_contour(losses: ComposedPairs, plan: Plan, lattice: Lattice) -> Contour:
    """Return the sum over one period, whose points are 2πj/(N·span), N odd, up to where it is proven to have fallen."""
    points = 2 * math.ceil(math.pi / (plan.eta * lattice.span)) + 1
    eta = 2 * math.pi / (points * lattice.span)
    count, tail = (points + 1) // 2, 0.0
    if count > MANY_POINTS:
        cut = cut_on_lattice(losses, plan, lattice, eta)
        if cut is None or cut[0] / eta > MOST_EVALUATIONS:
            raise OutOfReach(f"one period of the lattice of losses takes {points} points")
        count, tail = min(count, math.ceil(cut[0] / eta) + 1), cut[1]
    line = losses.line(plan.index, eta, count)
    return Contour.of((plan.theta, eta), line, tail, (plan.tilts.theta, plan.tilts.k), lattice)
