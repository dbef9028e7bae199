"""Groups of records under Gaussian noise, each sampled by itself: a law of its own, which includes the sampling."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.numerics.balls import as_ball, current_bits, precision, reciprocal_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.maps import ABOVE, Join, Leave
from cumulant.pairs.noise import GaussianNoise, Pairs
from cumulant.pairs.normal_law import NormalMixture

if TYPE_CHECKING:
    from flint import arb

MOST_TERMS = 250_000  # of binomial mixtures at a time: they stay in the cache
UNDERFLOW_NATS = 600.0  # below 1, from which a probability is kept as its logarithm


def grouped_pairs(noise: GaussianNoise, rate: float, size: int) -> Pairs:
    """Return the pairs of a group of `size` records, each in a Poisson sample of its own: it leaves, it joins."""
    if size == 1:
        return noise.poisson(rate)
    law = GroupedGaussian(noise.mean, rate, size, noise.noise)
    return CoordinatePair(law, Leave(1.0)), CoordinatePair(law, Join(1.0))


@final
@dataclass(frozen=True, slots=True)
class GroupedGaussian(NormalMixture):
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

    def components(self, rate: float) -> Iterable[tuple[float, float]]:
        """The rate is that of a map on top of this mixture: 0 for Q, 1 for P."""
        j, log_b = _binomial(self.size, self.rate)
        return (1 - rate, 0.0), *zip((rate * np.exp(log_b)).tolist(), (j * self.mean).tolist(), strict=True)

    def component_balls(self, rate: arb) -> Iterable[tuple[arb, arb]]:
        gamma, mean = as_ball(self.rate), reciprocal_ball(self.mean, self.noise)
        ways = [math.comb(self.size, j) * gamma**j * (1 - gamma) ** (self.size - j) for j in range(self.size + 1)]
        return (1 - rate, 0 * rate), *((rate * b, j * mean) for j, b in enumerate(ways))

    def log_ratio(self, t: Any) -> Any:
        return self._in_chunks(self._log_ratio, np.asarray(t))

    def log_slope(self, t: Array) -> Array:
        return self._in_chunks(self._log_slope, np.asarray(t))

    def _in_chunks(self, evaluate: Callable[[Array], Array], t: Array) -> Array:
        """Evaluate at some nodes at a time: each takes k + 1 numbers."""
        some = max(1, MOST_TERMS // (self.size + 1))
        if t.ndim == 0 or len(t) <= some:
            return evaluate(t)
        return np.concatenate([evaluate(t[i : i + some]) for i in range(0, len(t), some)])

    def _log_ratio(self, t: Array) -> Array:
        j, log_b = _binomial(self.size, self.rate)
        terms = j * self.mean * (t[..., None] - j * self.mean / 2) + log_b
        peak = np.max(terms, axis=-1, keepdims=True)
        terms -= peak
        with np.errstate(under="ignore"):
            ratio = np.asarray(np.log(np.sum(np.exp(terms, out=terms), axis=-1)) + peak[..., 0])
        close = np.abs(ratio) < 1
        ratio[close] = self._near_ratio(t[close], ratio[close])
        return ratio

    def _near_ratio(self, t: Array, far: Array) -> Array:
        """Return the same where w is next to 1, from w - 1 term by term.

        A probability that underflows meets an exponential that may make up for it.
        """
        j, log_b = _binomial(self.size, self.rate)
        exponent = j * self.mean * (t[..., None] - j * self.mean / 2)
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            kept = np.exp(log_b) * np.expm1(exponent)
            near = np.sum(np.where(log_b > -UNDERFLOW_NATS, kept, np.exp(log_b + exponent)), axis=-1)
        close = (near > -0.5) & (near < 1.0)
        return np.where(close, np.log1p(np.where(close, near, 0.0)), far)

    def _log_slope(self, t: Array) -> Array:
        j, log_b = _binomial(self.size, self.rate)
        exponent = log_b + j * self.mean * (t[..., None] - j * self.mean / 2)
        share = np.exp(exponent - np.max(exponent, axis=-1, keepdims=True))
        mean = np.maximum(share @ j / np.sum(share, axis=-1), 1e-300)  # where none of the group counts
        return np.asarray(math.log(self.mean) + np.log(mean))

    @property
    def steepest(self) -> float:
        return self.mean * self.size * (1 + 2.0**-50)  # rounded up

    def bend_on(self, low: float, high: float, largest_spread: Callable[[Array], Array]) -> float:
        return 2 * self.steepest**2

    @property
    def strip(self) -> float:
        """Within kμ|Im t| < π/2 all terms have positive real part."""
        return 0.475 * math.pi / (self.mean * self.size)

    @property
    def log_square(self) -> float:
        near = min(self.steepest, 1.0)
        return 2 * math.log(self.rate) + near * near + 2 * math.log(near)

    def terms_ball(self, t: arb) -> list[arb]:
        """Return Bin(k,γ)(j) e^{jμt - j²μ²/2} for j = 0..k: powers of e^{μt}, times what does not depend on t."""
        growth = (reciprocal_ball(self.mean, self.noise) * t).exp()
        powers = accumulate(repeat(growth, self.size), operator.mul, initial=as_ball(1.0))
        return [share * power for share, power in zip(_shares(self, current_bits()), powers, strict=True)]

    def ratio_ball(self, t: arb) -> arb:
        return sum(self.terms_ball(t), as_ball(0.0)).log()

    def slope_ball(self, t: arb) -> arb:
        terms = self.terms_ball(t)
        weighted = sum((j * term for j, term in enumerate(terms)), as_ball(0.0))
        return reciprocal_ball(self.mean, self.noise) * weighted / sum(terms, as_ball(0.0))

    def bound_on_rectangle(self, low: arb, high: arb, y: arb) -> tuple[arb, arb, arb]:
        """All terms turn by angles between 0 and kμy, which is below π/2."""
        angle = as_ball(self.steepest) * y
        return self.ratio_ball(low) + (angle / 2).cos().log(), self.ratio_ball(high), angle


@lru_cache(maxsize=64)
def _shares(law: GroupedGaussian, bits: int) -> list[arb]:
    """Return Bin(k,γ)(j) e^{-j²μ²/2} for j = 0..k."""
    size, mean, rate = law.size, reciprocal_ball(law.mean, law.noise), as_ball(law.rate)
    with precision(bits):
        ways = [math.comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
        return [b * (-((j * mean) ** 2) / 2).exp() for j, b in enumerate(ways)]


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
