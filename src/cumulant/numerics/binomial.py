"""The binomial distribution in logarithms, with bounds on the rounding error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.numerics.logspace import Array, log1p_deficit
from cumulant.numerics.rounding import ROUNDING

SMALL_MEAN = 1e-280  # below, a ratio to the mean could overflow, and the mean may have lost digits
WINDOW = 5.5  # in units of √n from the mean; Hoeffding bounds what is beyond by 2 e^{-2·5.5²} = 1e-26


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Binomial:
    """How many of n >= 1 trials succeed: with probability p each, q = 1 - p.

    The logarithms of p and q are kept beside them, since p or q may underflow.

    >>> log_p, _ = Binomial.of_odds(4, log_odds=0.0).log_pmf(np.array([0.0, 2.0]))
    >>> [round(16 * float(np.exp(x)), 9) for x in log_p]
    [1.0, 6.0]
    """

    n: int
    p: float
    q: float
    log_p: float
    log_q: float

    @classmethod
    def of(cls, n: int, p: float, q: float) -> Binomial:
        """Return the distribution for p and q > 0, each correct to a rounding error."""
        log_p, log_q = (math.log1p(-q), math.log(q)) if p > q else (math.log(p), math.log1p(-p))
        return cls(n=n, p=p, q=q, log_p=log_p, log_q=log_q)

    @classmethod
    def of_odds(cls, n: int, *, log_odds: float) -> Binomial:
        """Return the distribution with log(p/q) = log_odds <= 0, which may be far below where p underflows."""
        odds = math.exp(log_odds)
        log_q = -math.log1p(odds)
        return cls(n=n, p=odds / (1 + odds), q=1 / (1 + odds), log_p=log_odds + log_q, log_q=log_q)

    @property
    def mean(self) -> float:
        return self.n * self.p

    def log_pmf(self, x: Array) -> tuple[Array, Array]:
        """Return log C(n,x) p^x q^(n-x) for whole 0 <= x <= n, and a bound on its error.

        Loader (2000): Stirling's main terms cancel analytically and leave two deviances that vanish at the mean, so
        the error grows with |log pmf| and the distance from the mean, not with n log n.
        """
        n = float(self.n)
        inner, rest = np.maximum(x, 1.0), np.maximum(n - x, 1.0)
        inside = (
            0.5 * np.log(n / (2 * math.pi * inner * rest))
            + (stirling_error(np.array([n])) - stirling_error(inner) - stirling_error(rest))
            - (_deviance(inner, n, self.p, self.log_p) + _deviance(rest, n, self.q, self.log_q))
        )
        value = np.where(x == 0, n * self.log_q, np.where(x == n, n * self.log_p, inside))
        return value, ROUNDING * (4 + np.abs(value) + np.abs(x - self.mean))

    def window(self) -> tuple[Array, float]:
        """Return the values around the mean, O(√n) of them, and the log of a bound on the probability elsewhere."""
        half = math.ceil(WINDOW * math.sqrt(self.n)) + 1
        first, last = max(0, math.floor(self.mean) - half), min(self.n, math.ceil(self.mean) + half)
        everything = first == 0 and last == self.n
        log_elsewhere = -math.inf if everything else math.log(2) - 2 * (half - 1) ** 2 / self.n
        return np.arange(first, last + 1, dtype=float), log_elsewhere


def _deviance(x: Array, n: float, p: float, log_p: float) -> Array:
    """Return x log(x/m) + m - x, which is >= 0, for x >= 1 and m = np."""
    m = n * p
    t = (m - x) / x
    near = np.abs(t) < 0.5
    log_ratio = np.log(x / m) if m > SMALL_MEAN else np.log(x / n) - log_p
    return np.where(near, x * log1p_deficit(np.where(near, t, 0.0)), x * log_ratio + m - x)


def stirling_error(n: Array) -> Array:
    """Return S(n) = log n! - log(√(2πn) (n/e)^n), for whole n >= 1."""
    few = np.minimum(n, 16.0).astype(int)
    return np.where(n < 16, STIRLING_ERRORS[few - 1], _stirling_series(np.maximum(n, 16.0)))


def _stirling_series(n: Array) -> Array:
    x = 1 / n
    return x * (1 / 12 - x**2 * (1 / 360 - x**2 * (1 / 1260 - x**2 * (1 / 1680 - x**2 / 1188))))


def _few_stirling_errors() -> Array:
    """Return S(1), ..., S(16): the series at 16, then S(n) = S(n+1) + (n+½) log(1+1/n) - 1."""
    n = np.arange(1.0, 16.0)
    steps = (n + 0.5) * np.log1p(1 / n) - 1
    return np.append(np.cumsum(steps[::-1])[::-1], 0.0) + _stirling_series(np.array([16.0]))


STIRLING_ERRORS = _few_stirling_errors()
