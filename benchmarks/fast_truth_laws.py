"""Pairs of output distributions in ball arithmetic: what one release tells, exactly, whatever the precision.

Numbers come as fractions, so nothing is rounded before a ball is made of it; balls have the precision of `flint.ctx`.
Nothing here is taken from the library. A pair is (A, Q) with A = (1-γ)Q + γP: the record was sampled, or it was not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, final

from flint import arb, ctx, fmpq

Ball = Any  # arb; python-flint carries no types for it
Masses = list[tuple[Ball, Ball]]
ONE = Fraction(1)
NEWTON = 6  # steps that take a threshold from double precision to that of the balls


def ball(number: Fraction | float) -> Ball:
    if isinstance(number, float):
        return arb(number)
    return arb(fmpq(number.numerator, number.denominator))


# Mechanisms -----------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Normal:
    """N(μ, 1) against N(0, 1), by μ²."""

    square: Fraction

    @property
    def mean(self) -> Ball:
        return ball(self.square).sqrt()

    def hockey_stick(self, t: Ball) -> Ball:
        """Φ(μ/2 - ε/μ) - tΦ(-μ/2 - ε/μ), ε = log t (Balle and Wang 2018, Theorem 5)."""
        if self.square == 0:
            return arb(0)
        mu, epsilon, root = self.mean, t.log(), arb(2).sqrt()
        first, second = (((epsilon / mu + side * mu / 2) / root).erfc() / 2 for side in (-1, 1))
        return first - t * second


@final
@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise on a number: θ is its sensitivity over its scale."""

    theta: Fraction

    def hockey_stick(self, t: Ball) -> Ball:
        """(1 - √t e^{-θ/2})_+ for t >= 1."""
        return (1 - t.sqrt() * (-ball(self.theta) / 2).exp()).nonnegative_part()


@final
@dataclass(frozen=True, slots=True)
class Table:
    """Probabilities of finitely many outputs under P and Q; each is divided by its sum."""

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]

    def masses(self) -> Masses:
        over, under = sum(self.p), sum(self.q)
        return [(ball(a / over), ball(b / under)) for a, b in zip(self.p, self.q, strict=True)]

    @property
    def symmetric(self) -> bool:
        pairs = list(zip(self.p, self.q, strict=True))
        return sorted(pairs) == sorted((b, a) for a, b in pairs)

    @property
    def whole(self) -> bool:
        return sum(self.p) == 1 == sum(self.q)

    @property
    def outputs(self) -> int:
        return len(self.p)


@final
@dataclass(frozen=True, slots=True)
class Binary:
    """Everything is revealed with probability `failure`, else randomized response of ε: (ε, δ)-DP at its worst."""

    epsilon: Fraction
    failure: Fraction = Fraction(0)

    symmetric = True
    whole = True

    def masses(self) -> Masses:
        rest, rare = ball(1 - self.failure), 1 / (1 + ball(self.epsilon).exp())
        often = 1 / (1 + (-ball(self.epsilon)).exp())
        pairs = [(rest * often, rest * rare), (rest * rare, rest * often)]
        if self.failure:
            pairs += [(ball(self.failure), arb(0)), (arb(0), ball(self.failure))]
        return pairs

    @property
    def outputs(self) -> int:
        return 4 if self.failure else 2


@final
@dataclass(frozen=True, slots=True)
class Revealed:
    """A bit that is 1 with some probability if a group is there, never else; (ε, δ)-DP for each of its records.

    Along a chain of k records the probability may grow from a to e^ε a + δ, while 1-a shrinks no faster.
    """

    epsilon: Fraction
    delta: Fraction
    size: int

    symmetric = False
    whole = True
    outputs = 2

    def masses(self) -> Masses:
        growth, delta, p = ball(self.epsilon).exp(), ball(self.delta), arb(0)
        for _ in range(self.size):
            p = (growth * p + delta).min(1 - (1 - p - delta) / growth).min(arb(1))
        return [(p, arb(0)), (1 - p, arb(1))]


@final
@dataclass(frozen=True, slots=True)
class Several:
    """A mechanism with finitely many outputs, released several times on one sample."""

    base: Table | Binary
    times: int

    @property
    def symmetric(self) -> bool:
        return self.base.symmetric

    @property
    def whole(self) -> bool:
        return self.base.whole

    @property
    def outputs(self) -> int:
        return int(self.base.outputs**self.times)

    def masses(self) -> Masses:
        one = self.base.masses()
        found = one
        for _ in range(self.times - 1):
            found = [(a * p, b * q) for a, b in found for p, q in one]
        return found


Finite = Table | Binary | Revealed | Several
Base = Normal | Laplace | Finite


# What sampling makes of them ------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Law:
    """(A, Q) with A = (1-γ)Q + γP, or (Q, A) if `joins`; `flipped` exchanges P and Q of the mechanism first."""

    base: Base
    rate: Fraction = ONE
    joins: bool = False
    flipped: bool = False

    @property
    def finite(self) -> bool:
        return not isinstance(self.base, Normal | Laplace)

    def masses(self) -> Masses:
        return list(_masses(self, ctx.prec))

    def hockey_stick(self, t: Ball) -> Ball:
        """H_t of the pair for t >= 1: Balle, Barthe and Gaboardi (2018), Theorem 2, and its mirror image."""
        if self.rate == 0:
            return arb(0)
        if self.finite:
            return arb_sum((a - t * b).nonnegative_part() for a, b in self.masses())
        rate = ball(self.rate)
        if not self.joins:
            return rate * self.base.hockey_stick(1 + (t - 1) / rate)  # type: ignore[union-attr]
        rest = 1 - t * (1 - rate)
        return rest * self.base.hockey_stick(t * rate / rest) if rest > 0 else arb(0)  # type: ignore[union-attr]

    def largest_loss(self) -> Ball:
        if self.rate == 0:
            return arb(0)
        if self.finite:
            pairs = [(a, b) for a, b in self.masses() if not a.is_zero()]
            return arb.pos_inf() if any(b.is_zero() for _, b in pairs) else arb_max((a / b).log() for a, b in pairs)
        if isinstance(self.base, Normal):
            return -ball(1 - self.rate).log() if self.joins and self.rate < 1 else arb.pos_inf()
        theta, rate = ball(self.base.theta), ball(self.rate)  # type: ignore[union-attr]
        return -(rate * (-theta).expm1()).log1p() if self.joins else (rate * theta.expm1()).log1p()


@lru_cache(maxsize=4096)
def _masses(law: Law, precision: int) -> tuple[tuple[Ball, Ball], ...]:
    """Return the masses of both distributions; `precision` is that of the context, for the cache."""
    pairs = law.base.masses()  # type: ignore[union-attr]
    if law.flipped:
        pairs = [(q, p) for p, q in pairs]
    if law.rate < 1:
        rate, rest = ball(law.rate), ball(1 - law.rate)
        pairs = [(rest * q + rate * p, q) for p, q in pairs]
    if law.joins:
        pairs = [(q, p) for p, q in pairs]
    return tuple(pairs)


@final
@dataclass(frozen=True, slots=True)
class Mixtures:
    """Mixtures of N(j·μ, 1), j from weights; the ratio rises with the output, or falls if `joins` exchanges the two.

    Sampled groups have binomial weights against N(0); a replaced record has N(μ) against N(-μ) in both mixtures.
    """

    square: Fraction
    weights: tuple[tuple[int, Fraction], ...]
    others: tuple[tuple[int, Fraction], ...]
    joins: bool = False

    finite = False

    @property
    def mean(self) -> Ball:
        return ball(self.square).sqrt()

    def hockey_stick(self, t: Ball) -> Ball:
        """P(S) - tQ(S) on the half-line where the ratio is above t; any half-line is a lower bound."""
        threshold = self._threshold(t)
        if threshold is None:
            return arb(0)
        p, q = (self.weights, self.others) if not self.joins else (self.others, self.weights)
        return self._tail(p, threshold) - t * self._tail(q, threshold)

    def _tail(self, mixture: tuple[tuple[int, Fraction], ...], threshold: Ball) -> Ball:
        sign, root = -1 if self.joins else 1, arb(2).sqrt()
        return arb_sum(ball(w) * (sign * (threshold - j * self.mean) / root).erfc() / 2 for j, w in mixture)

    def _threshold(self, t: Ball) -> Ball | None:
        """Return where the ratio is t, or 1/t if the two are exchanged: bisection in doubles, then Newton's method."""
        goal = float(t.log().mid()) * (-1 if self.joins else 1)
        x = self._by_bisection(goal)
        if x is None:
            return None
        target, point = (-t.log() if self.joins else t.log()), arb(x)
        for _ in range(NEWTON):
            value, slope = self._log_ratio_and_slope(point)
            if not slope > 0:
                break
            point = (point - (value - target) / slope).mid()
        return point if point.is_finite() else arb(x)

    def _by_bisection(self, goal: float) -> float | None:
        mean = float(self.mean)
        parts = [[(j * mean, log_of(w)) for j, w in mixture if w] for mixture in (self.weights, self.others)]
        low, high = -1.0, 1.0
        while _log_ratio(parts, high) < goal:
            high *= 2
            if high > 1e12:
                return None
        while _log_ratio(parts, low) > goal:
            low *= 2
            if low < -1e12:
                return None
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if _log_ratio(parts, middle) > goal else (middle, high)
        return high

    def _log_ratio_and_slope(self, x: Ball) -> tuple[Ball, Ball]:
        mu = self.mean
        logs, slopes = [], []
        for mixture in (self.weights, self.others):
            terms = [(j * mu, ball(w) * (j * mu * (x - j * mu / 2)).exp()) for j, w in mixture if w]
            total = arb_sum(term for _, term in terms)
            logs.append(total.log())
            slopes.append(arb_sum(m * term for m, term in terms) / total)
        return logs[0] - logs[1], slopes[0] - slopes[1]

    def largest_loss(self) -> Ball:
        nothing = dict(self.weights).get(0, Fraction(0))
        against_nothing = self.others == ((0, ONE),)
        return -ball(nothing).log() if self.joins and nothing and against_nothing else arb.pos_inf()


AnyLaw = Law | Mixtures


def binomial(square: Fraction, rate: Fraction, size: int) -> tuple[Mixtures, Mixtures]:
    """Return the mixture with j ~ Binomial(size, rate) against N(0), in both orders."""
    weights = tuple((j, math.comb(size, j) * rate**j * (1 - rate) ** (size - j)) for j in range(size + 1))
    return Mixtures(square, weights, ((0, ONE),)), Mixtures(square, weights, ((0, ONE),), joins=True)


def opposite(square: Fraction, rate: Fraction) -> Mixtures:
    """Return the pair of a record that is replaced by its opposite."""
    return Mixtures(square, ((0, 1 - rate), (1, rate)), ((0, 1 - rate), (-1, rate)))


# Numbers --------------------------------------------------------------------------------------------------------------


def arb_sum(values: Any) -> Ball:
    total = arb(0)
    for value in values:
        total += value
    return total


def arb_max(values: Any) -> Ball:
    best = arb.neg_inf()
    for value in values:
        best = best.max(value)
    return best


def log_of(number: Fraction) -> float:
    """Return the logarithm of a fraction to the last digits, also where a double would underflow."""
    if Fraction(1, 2) < number < 2:
        return math.log1p(float(number - 1))
    if 1e-300 < number < 1e300:
        return math.log(float(number))
    return math.log(number.numerator) - math.log(number.denominator)


def _log_ratio(parts: list[list[tuple[float, float]]], x: float) -> float:
    logs = []
    for mixture in parts:
        exponents = [log_weight + m * (x - m / 2) for m, log_weight in mixture]
        peak = max(exponents)
        logs.append(peak + math.log(math.fsum(math.exp(e - peak) for e in exponents)))
    return logs[0] - logs[1]
