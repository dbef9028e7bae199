"""δ(ε) enclosed: what an enclosure is, and those in doubles.

Where the characteristic function does not fall within a bounded number of nodes (atoms, few releases), the loss is
smoothed by one more Gaussian release of mean s. With D_s its profile,

    D_s - e^{3s²/8} (D_{2s} - D_s) <= D <= D_s :

a release more never costs less; and for fixed r = e^L the derivative of E(rR_s - t)_+ in s, R_s the ratio of that
Gaussian, is √(rt/2π) exp(-x²/2s² - s²/8), x = log r/t, so that what (s, 2s] adds is at least e^{-3s²/8} times what
(0, s] adds. Away from kinks of the profile both errors are of order s².
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, final

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import Contour, Lattice
from cumulant.inversion.cut import cut_by_decay, cut_by_samples, cut_on_lattice, round_count
from cumulant.inversion.plan import TAIL_NATS, Plan
from cumulant.numerics.search import smallest_true
from cumulant.pairs.pair import GaussianPair
from cumulant.profiles import profile

ROUGH_TAIL_NATS = 14.0  # below δ, to which the tail is pushed where the line would be long: 1e-6
CLOSE_NATS, CLOSE_ENOUGH_NATS = 1e-9, 4e-6  # slack in log δ that is as good as none, and one worth saving a long line
MANY_LATTICE_POINTS = 4096  # of a lattice, beyond which the sum is cut
MOST_FREQUENCIES = 4e5  # of one line, whatever it is made of
MOST_EVALUATIONS = 3e5  # nodes and frequencies together that one line may take
EXACT_SHARE = 1e-9  # of ε, within which both bounds must lie for an answer to be called exact
EXACT_AT_ZERO = 1e-12  # a change of ε near 0 that counts as one by EXACT_SHARE
LEAST_MEAN = 1e-300  # products with smaller means lose their digits


class Effort(NamedTuple):
    """How long ε is searched for."""

    rounds: int  # plans that are made, each from the answer of the last
    turns: int  # points at which the bounds of one enclosure are tried
    still: float  # a relative step that is none


IN_DOUBLES = Effort(rounds=4, turns=80, still=2e-15)
STARTS_AT_THE_END = Effort(rounds=1, turns=0, still=0.0)


class Enclosure(ABC):
    """log δ(ε) of one direction of the neighbours, given that the loss is finite, between two bounds.

    `proven` says that balls prove them; `enough` is the slack in log δ with which no other line is planned.
    """

    __slots__ = ()

    route: str = "contour"
    proven: bool = True
    enough: float = 0.0
    effort: Effort = Effort(rounds=3, turns=40, still=1e-15)  # of balls

    @abstractmethod
    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return a lower and an upper bound of log δ(ε)."""

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound, and about its slope where that comes with it; else NaN."""
        return self.log_bounds(epsilon)[1], math.nan

    def slope(self, epsilon: float) -> float:
        """Return about d log δ/dε; NaN where that is not known."""
        return self.log_upper(epsilon)[1]

    def estimated(self, epsilon: float) -> float:
        """Return how much of the distance of the bounds rests on estimates of rounding, in nats."""
        return 0.0

    def slack(self, epsilon: float) -> float:
        """Return the distance of the bounds."""
        low, high = self.log_bounds(epsilon)
        return 0.0 if low == high else high - low

    def excess(self, epsilon: float, log_delta: float, slack: float) -> float:
        """Return a share x of ε such that δ is proven to be larger at ε(1-x): how far above the truth ε can be.

        Near 0 a change of ε by EXACT_AT_ZERO counts as one by EXACT_SHARE. Where nothing is proven it is 1.
        """

        def is_larger_below(share: float) -> bool:
            below = min(epsilon * (1 - share), epsilon - EXACT_AT_ZERO * share / EXACT_SHARE)
            return share < 1 and self.log_bounds(below)[0] >= log_delta

        if is_larger_below(EXACT_SHARE):
            return EXACT_SHARE
        likely = slack / max(-self.slope(epsilon) * epsilon, 1e-300) if slack < math.inf else 1.0
        return next((share for factor in (1.2, 3.0, 10.0) if is_larger_below(share := factor * likely)), 1.0)


class WholeEnclosure(Enclosure):
    """An enclosure that needs no plan: it is the same for every ε."""

    __slots__ = ()

    @abstractmethod
    def start(self, log_delta: float) -> float:
        """Return about the ε of a δ."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class LineInDoubles(Enclosure):
    """The sum over a line near the question it was planned for; its rounding is estimated, not enclosed."""

    contour: Contour
    coarser: Contour | None = None  # of the loss smoothed twice as much
    smoothing: float = 0.0
    left_out: float = 0.0  # of P, by which δ may be larger
    route: str = "contour"
    proven: bool = False
    enough: float = CLOSE_NATS
    effort: Effort = IN_DOUBLES

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        high, slope = self.contour.log_upper(epsilon)
        return min(self._with_left_out(high), 0.0), slope

    def _with_left_out(self, log_delta: float) -> float:
        """Return log(δ + left_out), rounded up."""
        if self.left_out == 0:
            return log_delta
        more = math.log(self.left_out) - log_delta
        return log_delta + (math.log1p(math.exp(more)) if more < 0 else more + math.log1p(math.exp(-more))) * (
            1 + 1e-12
        )

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if epsilon == math.inf:
            return -math.inf, 0.0
        low, high = self.contour.log_bounds(epsilon)
        if self.coarser is not None:
            upper = self.coarser.log_bounds(epsilon)[1]
            gain = math.exp(min(0.375 * self.smoothing, 700.0)) * math.expm1(min(max(upper - low, 0.0), 700.0))
            low = low + math.log1p(-gain) if gain < 1 else -math.inf
        return low, min(self._with_left_out(high), 0.0)

    def estimated(self, epsilon: float) -> float:
        return self.contour.estimated(epsilon)


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianInDoubles(WholeEnclosure):
    """The closed form of composed Gaussians: nothing but rounding, to the safe side, is between it and the truth."""

    pair: GaussianPair
    route: str = "closed form"
    proven: bool = False
    effort: Effort = STARTS_AT_THE_END

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        return -math.inf, gaussian_log_delta(self.pair, epsilon)

    def start(self, log_delta: float) -> float:
        return gaussian_epsilon(self.pair, log_delta)

    def slack(self, epsilon: float) -> float:
        return 0.0

    def excess(self, epsilon: float, log_delta: float, slack: float) -> float:
        return 0.0


def gaussian_log_delta(pair: GaussianPair, epsilon: float) -> float:
    """Return log δ(ε) of N(μ,1) against N(0,1), rounded up: Balle and Wang (2018), Theorem 5.

    Holds for:  any composition of Gaussian mechanisms, adaptive too; ε >= 0.
    Tightness:  exact; see `profile.gaussian_log_delta`.
    """
    return profile.gaussian_log_delta(pair.mean, epsilon)


def gaussian_epsilon(pair: GaussianPair, log_delta: float) -> float:
    """Return the smallest ε with δ(ε) <= δ for N(μ,1) against N(0,1), rounded up; inf beyond the largest double."""
    if gaussian_log_delta(pair, 0.0) <= log_delta:
        return 0.0
    mu = max(pair.mean, LEAST_MEAN)  # safe side: a larger mean is easier to tell apart
    # Mironov's conversion at its best order, ρ + 2√(ρ log 1/δ) for ρ = μ²/2; raised for its rounding.
    high = mu * (mu / 2 + math.sqrt(2.0) * math.sqrt(-log_delta)) * (1 + 1e-12)
    if math.isinf(high):  # δ = 0, or ε overflows
        return math.inf
    return smallest_true(lambda e: profile.gaussian_log_delta(mu, e) <= log_delta, 0.0, high, relative=2e-14)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LargestLossInDoubles(WholeEnclosure):
    """P(L = sup L)(1 - e^{ε - sup L}) <= δ(ε) <= 1 - e^{ε - sup L}: so near the largest loss that no line is needed."""

    supremum: float
    log_top_mass: float
    route: str = "largest loss"
    proven: bool = False
    effort: Effort = STARTS_AT_THE_END  # ε = sup L holds at every δ

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if epsilon >= self.supremum:
            return -math.inf, -math.inf
        gap = math.log(-math.expm1(epsilon - self.supremum))
        return gap + self.log_top_mass - 1e-12, min(gap + 1e-12, 0.0)

    def start(self, log_delta: float) -> float:
        return self.supremum

    def excess(self, epsilon: float, log_delta: float, slack: float) -> float:
        """Return how far ε is above the truth, sup L + log(1 - δ/P(L = sup L)) or more, as a share of it."""
        log_share = log_delta - self.log_top_mass
        if not log_share < -1e-9 or epsilon <= 0:
            return 1.0
        above = (epsilon - self.supremum) - math.log1p(-math.exp(log_share))
        return min(above / epsilon + 1e-15, 1.0)


def enclosures_at(losses: ComposedPairs, plan: Plan) -> Iterator[LineInDoubles]:
    """Yield enclosures that a plan leads to, cheapest first: cut early or smoothed only where a line would be long."""
    if losses.lattice is not None:
        yield LineInDoubles(_lattice_contour(losses, plan, losses.lattice), route="lattice contour")
        return
    found = False
    for aim, budget in (
        (plan, MOST_EVALUATIONS / 3),
        (replace(plan, accuracy=ROUGH_TAIL_NATS), MOST_EVALUATIONS),
        (plan, MOST_EVALUATIONS),
    ):
        cut = cut_by_decay(losses, aim, _farthest_affordable(losses, aim, budget))
        if cut is not None:
            found = True
            contour = _contour(losses, aim, *cut_by_samples(losses, aim, *cut))
            enough = CLOSE_NATS if aim is plan else CLOSE_ENOUGH_NATS
            yield LineInDoubles(contour, left_out=losses.left_out, enough=enough)
            if aim is plan:
                return
    if not found:
        yield _smooth_line(losses, plan, _farthest_affordable(losses, plan, MOST_EVALUATIONS / 16))
        yield _smooth_line(losses, plan, _farthest_affordable(losses, plan, MOST_EVALUATIONS))


def _smooth_line(losses: ComposedPairs, plan: Plan, omega: float) -> LineInDoubles:
    """Return the enclosure by the loss smoothed so much that the line may end at ω."""
    smoothing = 2 * (plan.height + TAIL_NATS) / omega**2
    plain = _contour(losses, plan, omega, plan.negligible / omega)
    once, twice = plain.smooth(smoothing), plain.smooth(4 * smoothing)
    return LineInDoubles(once, twice, smoothing, losses.left_out, "smoothed contour", enough=CLOSE_ENOUGH_NATS)


def _farthest_affordable(losses: ComposedPairs, plan: Plan, budget: float) -> float:
    """Return the frequency up to which a line may be evaluated: a + bω nodes and ω/η frequencies, by fast transform."""
    a, b = losses.effort(plan.index)
    budget *= 1 + sum(pair.components for pair, _ in losses.parts) / 4  # a part may take a while
    return max(min((budget - a) / (b + 1 / plan.eta), MOST_FREQUENCIES * plan.eta), 64 * plan.eta)


def _contour(losses: ComposedPairs, plan: Plan, omega: float, tail: float) -> Contour:
    line = losses.line(plan.index, plan.eta, round_count(omega / plan.eta))
    return Contour.of((plan.theta, plan.eta), line, tail, (plan.tilts.theta, plan.tilts.k))


def _lattice_contour(losses: ComposedPairs, plan: Plan, lattice: Lattice) -> Contour:
    """Return the sum over one period, whose points are 2πj/(N·span), N odd, up to where it is proven to have fallen."""
    points = 2 * math.ceil(math.pi / (plan.eta * lattice.span)) + 1
    eta = 2 * math.pi / (points * lattice.span)
    count, tail = (points + 1) // 2, 0.0
    if count > MANY_LATTICE_POINTS:
        cut = cut_on_lattice(losses, plan, lattice, eta)
        if cut is None or cut[0] / eta > MOST_EVALUATIONS:
            raise OutOfReach(f"one period of the lattice of losses takes {points} points")
        count, tail = min(count, math.ceil(cut[0] / eta) + 1), cut[1]
    line = losses.line(plan.index, eta, count)
    return Contour.of((plan.theta, eta), line, tail, (plan.tilts.theta, plan.tilts.k), lattice)
