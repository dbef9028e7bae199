"""Mixtures of normal laws of one width against one of them: u(t) = log Σ p_i e^{m_i t - m_i²/2}, all m_i >= 0.

Stated ones, and groups of records under Gaussian noise, each sampled by itself.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache, reduce
from itertools import accumulate, repeat
from typing import Any, final

import numpy as np

from cumulant.neighbors import Neighbors
from cumulant.numerics.balls import as_ball, column, reciprocal_ball
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import float_above
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.law import NormalMixture
from cumulant.pairs.maps import ABOVE, Join, Leave, SamplingMap
from cumulant.pairs.noise import GaussianNoise, Noise, Pair, Pairs

MOST_TERMS = 250_000  # of mixtures at a time: they stay in the cache
UNDERFLOW_NATS = 600.0  # below 1, from which a probability is kept as its logarithm


class GaussianMixtureLaw(NormalMixture):
    """A mixture by its means and the logarithms of its shares, and what follows from them."""

    __slots__ = ()

    @property
    @abstractmethod
    def means(self) -> Array:
        """The m_i, rounded up where they are no parameters."""

    @property
    @abstractmethod
    def log_shares(self) -> Array:
        """The logarithms of the p_i."""

    @property
    def steepest(self) -> float:
        return float(np.max(self.means)) * (1 + 2.0**-50)  # rounded up

    @property
    def terms(self) -> int:
        return len(self.means)

    def components(self, rate: Any) -> Iterable[tuple[Any, Any]]:
        """The rate is that of a map on top of this mixture: 0 for Q, 1 for P."""
        return (1 - rate, 0 * rate), *zip((rate * np.exp(self.log_shares)).tolist(), self.means.tolist(), strict=True)

    def log_ratio(self, t: Any) -> Any:
        return self._in_chunks(self._log_ratio, np.asarray(t))

    def log_slope(self, t: Array) -> Array:
        return self._in_chunks(self._log_slope, np.asarray(t))

    def _in_chunks(self, evaluate: Callable[[Array], Array], t: Array) -> Array:
        """Evaluate at some nodes at a time: each takes a number for every term."""
        some = max(1, MOST_TERMS // self.terms)
        if t.ndim == 0 or len(t) <= some:
            return evaluate(t)
        return np.concatenate([evaluate(t[i : i + some]) for i in range(0, len(t), some)])

    def _log_ratio(self, t: Array) -> Array:
        terms = self.means * (t[..., None] - self.means / 2) + self.log_shares
        peak = np.max(terms, axis=-1, keepdims=True)
        terms -= peak
        with np.errstate(under="ignore"):
            ratio = np.asarray(np.log(np.sum(np.exp(terms, out=terms), axis=-1)) + peak[..., 0])
        close = np.abs(ratio) < 1
        ratio[close] = self._near_ratio(t[close], ratio[close])
        return ratio

    def _near_ratio(self, t: Array, far: Array) -> Array:
        """Return u where w is next to 1, from w - 1 term by term.

        A probability that underflows meets an exponential that may make up for it.
        """
        exponent = self.means * (t[..., None] - self.means / 2)
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            kept = np.exp(self.log_shares) * np.expm1(exponent)
            near = np.sum(
                np.where(self.log_shares > -UNDERFLOW_NATS, kept, np.exp(self.log_shares + exponent)), axis=-1
            )
        close = (near > -0.5) & (near < 1.0)
        return np.where(close, np.log1p(np.where(close, near, 0.0)), far)

    def _log_slope(self, t: Array) -> Array:
        exponent = self.log_shares + self.means * (t[..., None] - self.means / 2)
        share = np.exp(exponent - np.max(exponent, axis=-1, keepdims=True))
        unit = float(np.max(self.means))
        mean = np.maximum(share @ (self.means / unit) / np.sum(share, axis=-1), 1e-300)  # where only Q's own counts
        return np.asarray(math.log(unit) + np.log(mean))

    def bend_on(self, low: float, high: float, largest_spread: Callable[[Array], Array]) -> float:
        return 2 * self.steepest**2

    def farthest_tilt(self, reach: float) -> float:
        """Return up to which tilt the peak of e^{θL} is followed, `reach` standard deviations away, at real orders."""
        return reach / self.steepest - 1

    @property
    def strip(self) -> float:
        """Within m|Im t| < π/2, m the largest mean, all terms have positive real part."""
        return 0.475 * math.pi / self.steepest


@final
@dataclass(frozen=True, slots=True, eq=False)
class MixtureInBalls(GaussianMixtureLaw):
    """A mixture of which means and shares are balls; `even_steps` says that the means are 0, m, 2m, …"""

    means: Any = field()  # no default: the base says what it is
    shares: Any = field()
    even_steps: bool
    steepest: Any = field(init=False)
    constants: Any = field(init=False)  # p_i e^{-m_i²/2}
    extremes, log_square = (-math.inf, math.inf), math.nan

    def __post_init__(self) -> None:
        object.__setattr__(self, "steepest", reduce(lambda x, y: x.max(y), self.means))
        object.__setattr__(self, "constants", self.shares * np.exp(-self.means * self.means / 2))

    @property
    def log_shares(self) -> Any:
        return np.log(self.shares)

    def log_ratio(self, t: Any) -> Any:
        return np.log(sum(self._terms(t), 0 * t))

    def log_slope(self, t: Any) -> Any:
        terms = self._terms(t)
        return np.log(sum(map(operator.mul, self.means, terms), 0 * t) / sum(terms, 0 * t))

    def _terms(self, t: Any) -> list[Any]:
        """Return p_i e^{m_i t - m_i²/2}: what grows with t, of even steps by powers, times a constant."""
        if self.even_steps:
            growth = [*accumulate(repeat(np.exp(self.means[1] * t), self.terms - 1), operator.mul, initial=1 + 0 * t)]
        else:
            growth = [np.exp(mean * t) for mean in self.means]
        return [constant * each for constant, each in zip(self.constants, growth, strict=True)]


@final
@dataclass(frozen=True, slots=True)
class StatedMixture(GaussianMixtureLaw, Noise):
    """Σ p_i N(s_i/σ, 1) against N(0, 1): a query to which a record adds s_i with probability p_i, of noise σ."""

    noise: float
    sensitivities: tuple[float, ...]  # >= 0, some above 0
    probabilities: tuple[float, ...]  # above 0; their shares of the sum count

    may_fail = False

    @property
    def means(self) -> Array:
        return _means(self)

    @property
    def log_shares(self) -> Array:
        return _log_shares(self)

    def in_balls(self) -> MixtureInBalls:
        means, shares = (column([as_ball(x) for x in each]) for each in (self.sensitivities, self.probabilities))
        return MixtureInBalls(means / as_ball(self.noise), shares / np.sum(shares), even_steps=False)

    @property
    def extremes(self) -> tuple[float, float]:
        """Far to the left only what adds nothing is left of P."""
        nothing = math.fsum(p for s, p in zip(self.sensitivities, self.probabilities, strict=True) if s == 0)
        least = math.log(nothing / math.fsum(self.probabilities)) * ABOVE if nothing > 0 else -math.inf
        return least, math.inf

    @property
    def log_square(self) -> float:
        """Of Σ p_i p_j (e^{m_i m_j} - 1), means above 1 taken as 1."""
        near, shares = np.minimum(self.means, 1.0), np.exp(self.log_shares)
        return math.log(max(float(shares @ np.expm1(near[:, None] * near) @ shares), 1e-300))

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        return self.sampled(Leave(1.0)), self.sampled(Join(1.0))

    def sampled(self, sampling: SamplingMap) -> Pair:
        return CoordinatePair(self, sampling)

    @property
    def symmetric(self) -> bool:
        return False


@lru_cache(maxsize=1024)
def _means(law: StatedMixture) -> Array:
    """Return s_i/σ, rounded up."""
    unit = Fraction(law.noise)
    return np.array([float_above(Fraction(s) / unit) for s in law.sensitivities])


@lru_cache(maxsize=1024)
def _log_shares(law: StatedMixture) -> Array:
    return np.log(np.array(law.probabilities) / math.fsum(law.probabilities))


def grouped_pairs(noise: GaussianNoise, rate: float, size: int) -> Pairs:
    """Return the pairs of a group of `size` records, each in a Poisson sample of its own: it leaves, it joins."""
    if size == 1:
        return noise.poisson(rate)
    law = GroupedGaussian(noise.mean, rate, size, noise.noise)
    return CoordinatePair(law, Leave(1.0)), CoordinatePair(law, Join(1.0))


@final
@dataclass(frozen=True, slots=True)
class GroupedGaussian(GaussianMixtureLaw):
    """u(t) = log Σ_j Bin(k,γ)(j) e^{jμt - j²μ²/2}: k records of one group, each sampled at rate γ, against N(0)."""

    mean: float
    rate: float
    size: int
    noise: float | None = None  # σ, where μ is 1/σ rounded up

    @property
    def terms(self) -> int:
        return self.size + 1

    @property
    def extremes(self) -> tuple[float, float]:
        return self.size * math.log1p(-self.rate) * ABOVE if self.rate < 1 else -math.inf, math.inf

    @property
    def means(self) -> Array:
        return _binomial(self.size, self.rate)[0] * self.mean

    @property
    def log_shares(self) -> Array:
        return _binomial(self.size, self.rate)[1]

    def in_balls(self) -> MixtureInBalls:
        mean, rate, k = reciprocal_ball(self.mean, self.noise), as_ball(self.rate), self.size
        shares = column([math.comb(k, j) * rate**j * (1 - rate) ** (k - j) for j in range(k + 1)])
        return MixtureInBalls(column([j * mean for j in range(k + 1)]), shares, even_steps=True)

    @property
    def log_square(self) -> float:
        near = min(self.steepest, 1.0)
        return 2 * math.log(self.rate) + near * near + 2 * math.log(near)


@cache
def _binomial(size: int, rate: float) -> tuple[Array, Array]:
    """Return j = 0..k and log Bin(k,γ)(j)."""
    from scipy.special import gammaln

    j = np.arange(size + 1.0)
    ways = gammaln(size + 1.0) - gammaln(j + 1) - gammaln(size - j + 1)
    log_rest = math.log1p(-rate) if rate < 1 else -math.inf
    with np.errstate(invalid="ignore"):
        misses = np.where(j < size, (size - j) * log_rest, 0.0)
    return j, ways + j * math.log(rate) + misses
