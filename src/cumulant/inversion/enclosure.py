"""δ(ε) enclosed: what an enclosure is, what a question may take, and enclosures in doubles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

from cumulant.errors import OutOfReach
from cumulant.numerics.search import nearest_on_side, smallest_true
from cumulant.pairs.pair import GaussianPair
from cumulant.profiles import profile

EXACT_SHARE = 1e-9  # of ε, within which an answer is exact
EXACT_AT_ZERO = 1e-12  # a change of ε near 0 that counts as one by EXACT_SHARE
CLOSE_NATS = 1e-9  # slack in log δ that is as good as none
LIKELY_SHARES = 2e-7, 5e-7, 9.9e-7  # of ε, by which an answer may be above that was raised until others agree
LOWERED_NATS = 5e-14  # by which log δ was lowered near 0 (`numerics.rounding.less_rounding`), and its own rounding
TOLD_NATS = 1e-6  # of -log δ, below which that is seen in an ε
LEAST_MEAN = 1e-300  # products with smaller means lose their digits
MOST_MICROSECONDS = 6e6  # about, of ball arithmetic for a question
MOST_SINES = 2e8  # pairs of sine and cosine that lines in doubles may take for one direction: a few seconds


class Effort(NamedTuple):
    """How long ε is searched for."""

    rounds: int  # plans that are made, each from the answer of the last
    turns: int  # points at which the bounds of one enclosure are tried
    still: float  # a relative step that is none


IN_DOUBLES = Effort(rounds=4, turns=80, still=2e-15)
STARTS_AT_THE_END = Effort(rounds=1, turns=0, still=0.0)


@final
class WorkBudget:
    """Work budget of one question, in estimated microseconds of balls or pairs of sine and cosine.

    Steps are priced by what they ask for, not by a clock, and not by what a cache remembers: a question has one answer,
    whatever was asked before it.
    """

    __slots__ = ("left",)

    def __init__(self, much: float = MOST_MICROSECONDS) -> None:
        self.left = much

    def pay(self, price: float) -> None:
        """Take a price out before the work; raise `OutOfReach` if it is not there: then nothing is left for later."""
        self.left -= price
        if self.left < 0:
            raise OutOfReach("the answer would take longer than a few seconds")

    def owe(self, price: float) -> None:
        """Take a price out for work that is done: what follows may find nothing left."""
        self.left -= price


class Enclosure(ABC):
    """log δ(ε) of one direction of the neighbours, given that the loss is finite, between two bounds.

    `proven` says that balls prove them; `enough` is the slack in log δ with which no other line is planned; `is_rough`
    that a finer one is to be planned from what it says.
    """

    __slots__ = ()

    route: str = "contour"
    proven: bool = True
    enough: float = 0.0
    is_rough: bool = False
    effort: Effort = Effort(rounds=3, turns=40, still=1e-15)  # of balls

    @abstractmethod
    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return a lower and an upper bound of log δ(ε)."""

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound, and about its slope where that comes with it; else NaN."""
        return self.log_bounds(epsilon)[1], math.nan

    def log_lower(self, epsilon: float) -> float:
        """Return the lower bound."""
        return self.log_bounds(epsilon)[0]

    def slope(self, epsilon: float) -> float:
        """Return about d log δ/dε; NaN where that is not known."""
        return self.log_upper(epsilon)[1]

    def epsilon_per_nat(self, epsilon: float) -> float:
        """Return about how much more ε takes a nat off δ; 1 where bounds do not fall."""
        slope = self.slope(epsilon)
        return -1 / slope if slope < 0 else 1.0

    def estimated(self, epsilon: float) -> float:
        """Return how much of the distance of the bounds rests on estimates of rounding, in nats."""
        return 0.0

    def slack(self, epsilon: float) -> float:
        """Return the distance of the bounds."""
        low, high = self.log_bounds(epsilon)
        return 0.0 if low == high else math.inf if math.isnan(high - low) else high - low

    def excess(self, epsilon: float, log_delta: float, slack: float) -> float:
        """Return a share x of ε such that δ is proven to be larger at ε(1-x): how far above the truth ε can be.

        Near 0 a change of ε by EXACT_AT_ZERO counts as one by EXACT_SHARE. Where nothing is proven it is 1.
        """

        def is_larger_below(share: float) -> bool:
            below = min(epsilon * (1 - share), epsilon - EXACT_AT_ZERO * share / EXACT_SHARE)
            return share < 1 and self.log_lower(below) >= log_delta

        if is_larger_below(EXACT_SHARE):
            return EXACT_SHARE
        likely = slack / max(-self.slope(epsilon) * epsilon, 1e-300) if slack < math.inf else 1.0
        shares = sorted([1.2 * likely, 3 * likely, 10 * likely, *LIKELY_SHARES])
        return next((share for share in shares if is_larger_below(share)), 1.0)


def meet(enclosure: Enclosure, side: int, log_delta: float, start: float, anyway: float) -> float:
    """Return an ε on one side of where a bound meets log δ, as near as can be found.

    Side 1 asks for an upper bound of log δ(ε) that is at most log δ, -1 for a lower one that is at least log δ. Only
    points that were tested are returned, or `anyway`: the largest loss from above, 0 from below.
    """
    _, turns, still = enclosure.effort

    def is_zero() -> bool:
        return enclosure.log_upper(0.0)[0] <= log_delta

    if turns == 0 and is_zero():  # else it is asked where the first point lies beyond the answer
        return 0.0

    def above(epsilon: float) -> tuple[float, float]:
        if side < 0:
            return enclosure.log_lower(epsilon) - log_delta, math.nan
        value, slope = enclosure.log_upper(epsilon)
        return value - log_delta, slope

    return nearest_on_side(above, side, start, anyway, is_zero, slope=enclosure.slope, turns=turns, still=still)


class WholeEnclosure(Enclosure):
    """An enclosure that needs no plan: one serves every ε."""

    __slots__ = ()

    @abstractmethod
    def start(self, log_delta: float) -> float:
        """Return about the ε of a δ."""

    def says_all(self, epsilon: float) -> bool:
        """Return whether ε is so near the largest loss that lines lose more by rounding."""
        return False


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
        """Return 0, but next to δ = 1, where what is missing of it is as small as what log δ was lowered by."""
        if log_delta < -TOLD_NATS or not 0 < epsilon < math.inf:
            return 0.0
        return max(1 - gaussian_epsilon(self.pair, min(log_delta + LOWERED_NATS, 0.0)) / epsilon, 0.0)


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
