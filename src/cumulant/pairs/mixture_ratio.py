"""ℓ(t) = log w(t): the log-ratio of a mixture to its first component, real, complex and as a ball."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.numerics.balls import as_ball, current_bits, log_mixture_ball, precision, reciprocal_ball
from cumulant.numerics.logspace import Array

if TYPE_CHECKING:
    from flint import arb

MOST_TERMS = 2_000_000  # of binomial mixtures at a time: 16 MB
HALF_WAY = 600.0  # nats: e^600 times the smallest double is one still
UNDERFLOW = 600.0  # nats below 1 from which a probability is kept as its logarithm


@final
@dataclass(frozen=True, slots=True)
class GaussianMixture:
    """ℓ(t) = log(1 - γ + γe^{μt - μ²/2}): N(μ) sampled at rate γ against N(0), in t standard normal.

    μ and γ may be columns: several mixtures, whose values at nodes t are rows, and bounds that hold for all of them.
    """

    mean: Any
    rate: Any
    noise: float | None = None  # σ, where μ is 1/σ rounded up

    @staticmethod
    def stack(mixtures: Sequence[GaussianMixture]) -> GaussianMixture:
        mean, rate = (np.array(column)[:, None] for column in zip(*((m.mean, m.rate) for m in mixtures), strict=True))
        return GaussianMixture(mean, rate)

    def batch_key(self, closeness: float) -> Hashable:
        """Return what mixtures share whose μ are so many octaves apart at most, and γ eight times as many."""
        return math.floor(math.log2(self.mean) / closeness), math.floor(math.log2(self.rate) / (8 * closeness))

    def log_ratio(self, t: Any) -> Any:
        return log_mixture(self.mean * t - self.mean**2 / 2, self.rate)

    def log_slope(self, t: Array) -> Array:
        """Return log ℓ' = log μ + log s, s the share of the second component."""
        odds = log_odds(self.rate) - self.mean * t + self.mean**2 / 2
        return np.asarray(np.log(self.mean) - np.logaddexp(0.0, odds))

    def mean_ball(self) -> arb:
        return reciprocal_ball(self.mean, self.noise)

    def rate_ball(self) -> arb:
        return as_ball(self.rate)

    def log_ball(self, t: arb) -> arb:
        mean = self.mean_ball()
        return log_mixture_ball(mean * t - mean * mean / 2, self.rate_ball())

    def slope_ball(self, t: arb) -> arb:
        """Return ℓ'(t) = μs(t)."""
        mean = self.mean_ball()
        return mean * share_ball(mean * t - mean * mean / 2, self.rate_ball())

    def rectangle(self, low: arb, high: arb, y: arb) -> tuple[arb, arb, arb]:
        """Return bounds of log|w| from below and above, and of |arg w|, for low <= Re t <= high and |Im t| <= y."""
        mean = self.mean_ball()
        first, last = (mean * t - mean * mean / 2 for t in (low, high))
        return two_terms_on_rectangle(first, last, mean * y, self.rate_ball())

    @property
    def steepest(self) -> float:
        return self.mean if isinstance(self.mean, float) else float(np.max(self.mean))

    @property
    def bend(self) -> float:
        """A bound of ℓ'' = μ²s(1-s), and of -(log ℓ')''."""
        return self.steepest**2 / 4

    def bend_on(self, low: float, high: float) -> float:
        """Return the same for low <= t <= high, rounded up: s grows with t, s(1-s) with s up to ½."""
        odds = np.asarray(log_odds(self.rate) - self.mean * np.array([low, high]) + self.mean**2 / 2)  # log (1-s)/s
        first, last = odds[..., :1], odds[..., 1:]
        nearest = np.where(last > 0, last, np.where(first < 0, first, 0.0))
        spread = np.exp(-np.logaddexp(0.0, nearest) - np.logaddexp(0.0, -nearest))  # s(1-s)
        return float(np.max(np.square(self.mean) * spread)) * (1 + 1e-11)

    @property
    def strip(self) -> float:
        """W vanishes first at Im t = π/μ."""
        return 0.95 * math.pi / self.steepest

    @property
    def log_spread(self) -> float:
        return _log_spread(self.mean, self.rate)


@final
@dataclass(frozen=True, slots=True)
class GroupedGaussianMixture:
    """ℓ(t) = log Σ_j Bin(k,γ)(j) e^{jμt - j²μ²/2}: k records of one group, each sampled at rate γ."""

    mean: float
    rate: float
    size: int
    noise: float | None = None  # σ, where μ is 1/σ rounded up

    def log_ratio(self, t: Any) -> Any:
        """Return ℓ at some nodes at a time: each takes k + 1 numbers."""
        some = max(1, MOST_TERMS // (self.size + 1))
        if np.ndim(t) == 0 or len(t) <= some:
            return self._log_ratio(np.asarray(t))
        return np.concatenate([self._log_ratio(t[i : i + some]) for i in range(0, len(t), some)])

    def _log_ratio(self, t: Any) -> Any:
        j, log_b = _binomial(self.size, self.rate)
        exponent = self.mean * t[..., None] * j - (j * self.mean) ** 2 / 2
        terms = log_b + exponent
        peak = np.max(terms, axis=-1, keepdims=True)
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            far = np.log(np.sum(np.exp(terms - peak), axis=-1)) + peak[..., 0]
            # w - 1 term by term; a probability that underflows meets an exponential that may make up for it
            each = np.where(log_b > -UNDERFLOW, np.exp(log_b) * np.expm1(exponent), np.exp(terms))
            near = np.sum(each, axis=-1)
        close = (near > -0.5) & (near < 1.0)
        return np.where(close, np.log1p(np.where(close, near, 0.0)), far)

    def log_slope(self, t: Array) -> Array:
        some = max(1, MOST_TERMS // (self.size + 1))
        if np.ndim(t) == 0 or len(t) <= some:
            return self._log_slope(np.asarray(t))
        return np.concatenate([self._log_slope(t[i : i + some]) for i in range(0, len(t), some)])

    def _log_slope(self, t: Array) -> Array:
        j, log_b = _binomial(self.size, self.rate)
        exponent = log_b + self.mean * t[..., None] * j - (j * self.mean) ** 2 / 2
        share = np.exp(exponent - np.max(exponent, axis=-1, keepdims=True))
        mean = np.maximum(share @ j / np.sum(share, axis=-1), 1e-300)  # where none of the group counts
        return np.asarray(math.log(self.mean) + np.log(mean))

    def terms_ball(self, t: arb) -> list[arb]:
        """Return Bin(k,γ)(j) e^{jμt - j²μ²/2} for j = 0..k: powers of e^{μt}, times what does not depend on t."""
        growth = (reciprocal_ball(self.mean, self.noise) * t).exp()
        powers = accumulate(repeat(growth, self.size), operator.mul, initial=as_ball(1.0))
        return [share * power for share, power in zip(_grouped_shares(self, current_bits()), powers, strict=True)]

    def log_ball(self, t: arb) -> arb:
        return sum(self.terms_ball(t), as_ball(0.0)).log()

    def slope_ball(self, t: arb) -> arb:
        terms = self.terms_ball(t)
        weighted = sum((j * term for j, term in enumerate(terms)), as_ball(0.0))
        return reciprocal_ball(self.mean, self.noise) * weighted / sum(terms, as_ball(0.0))

    def rectangle(self, low: arb, high: arb, y: arb) -> tuple[arb, arb, arb]:
        """All terms turn by angles between 0 and kμy, which is below π/2."""
        angle = as_ball(self.steepest) * y
        return self.log_ball(low) + (angle / 2).cos().log(), self.log_ball(high), angle

    @property
    def steepest(self) -> float:
        return self.mean * self.size * (1 + 2.0**-50)  # rounded up

    @property
    def bend(self) -> float:
        """ℓ'' = μ² Var j <= (kμ)²/4 and |(log ℓ')''| <= 2(kμ)², as |κ₃| and Var are at most k times the last."""
        return 2 * (self.size * self.mean) ** 2

    def bend_on(self, low: float, high: float) -> float:
        return self.bend

    @property
    def strip(self) -> float:
        """Within kμ|Im t| < π/2 all terms have positive real part."""
        return 0.475 * math.pi / (self.mean * self.size)

    @property
    def log_spread(self) -> float:
        return _log_spread(self.steepest, self.rate)


@lru_cache(maxsize=64)
def _grouped_shares(mixture: GroupedGaussianMixture, bits: int) -> list[arb]:
    """Return Bin(k,γ)(j) e^{-j²μ²/2} for j = 0..k."""
    size, mean, rate = mixture.size, reciprocal_ball(mixture.mean, mixture.noise), as_ball(mixture.rate)
    with precision(bits):
        ways = [math.comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
        return [b * (-((j * mean) ** 2) / 2).exp() for j, b in enumerate(ways)]


@final
@dataclass(frozen=True, slots=True)
class LaplaceMixture:
    """ℓ(t) = log(1 - γ + γe^t) for t in [-θ, θ], the log-ratio of Laplace(1, b) to Laplace(0, b), θ = 1/b.

    Under the second distribution t has density e^{-(t+θ)/2}/4, and atoms at both ends.
    """

    theta: float
    rate: float
    scale: float | None = None  # b, where θ is 1/b rounded up

    def log_ratio(self, t: Any) -> Any:
        return log_mixture(t, self.rate)

    def log_slope(self, t: Array) -> Array:
        return np.asarray(-np.logaddexp(0.0, log_odds(self.rate) - t))

    def theta_ball(self) -> arb:
        return reciprocal_ball(self.theta, self.scale)

    def rate_ball(self) -> arb:
        return as_ball(self.rate)

    def log_ball(self, t: arb) -> arb:
        return log_mixture_ball(t, self.rate_ball())

    def slope_ball(self, t: arb) -> arb:
        return share_ball(t, self.rate_ball())

    def rectangle(self, low: arb, high: arb, y: arb) -> tuple[arb, arb, arb]:
        return two_terms_on_rectangle(low, high, y, self.rate_ball())

    def log_density(self, t: Array) -> Array:
        return np.asarray(-(t + self.theta) / 2 - math.log(4.0))

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """The atoms: (t, log-mass) under the second distribution."""
        return (-self.theta, -math.log(2.0)), (self.theta, -self.theta - math.log(2.0))

    def end_balls(self) -> tuple[tuple[arb, arb], ...]:
        """The atoms as balls: (t, mass)."""
        theta = self.theta_ball()
        return (-theta, as_ball(0.5)), (theta, (-theta).exp() / 2)


def share_ball(u: arb, rate: arb) -> arb:
    """Return s = γe^u/(1 - γ + γe^u), the share of the second term."""
    return 1 / (1 + (1 - rate) / rate * (-u).exp())


def two_terms_on_rectangle(low: arb, high: arb, angle: arb, rate: arb) -> tuple[arb, arb, arb]:
    """Return bounds of log|w| from below and above, and of |arg w|, for w = 1 - γ + γe^{u+iv}.

    They hold for low <= u <= high and |v| <= angle.
    With s the share at u, w = w(u)(1 - s + se^{iv}): its modulus falls to √(1 - 2s(1-s)(1 - cos v)) of w(u), and where
    s < ½ its argument is at most arcsin(s/(1-s)), so at most s/(1-s)·min(v, π/2); it is never more than v. Both w and s
    grow with u; angle < π.
    """
    first, last = share_ball(low, rate), share_ball(high, rate)
    spread = last * (1 - last) if last < 0.5 else first * (1 - first) if first > 0.5 else as_ball(0.25)
    least = log_mixture_ball(low, rate) + (1 - 2 * spread * (1 - angle.cos())).log() / 2
    turned = last / (1 - last) * angle if last < 0.5 else angle
    return least, log_mixture_ball(high, rate), turned.min(angle)


def _log_spread(mean: Any, rate: Any) -> float:
    """Return about log E(w-1)², γ²(e^{μ²}-1), at most that; the least of several."""
    near = np.minimum(mean, 1.0)
    return float(np.min(2 * np.log(rate) + near * near + 2 * np.log(near)))


def log_odds(rate: Any) -> Any:
    """Return log (1-γ)/γ."""
    with np.errstate(divide="ignore"):
        return np.log1p(-rate) - np.log(rate)


def log_mixture(u: Array, rate: Any) -> Array:
    """Return log(1 - γ + γe^u), to full relative accuracy; γ may be a column.

    γ(e^u - 1) is formed as a product as far as doubles reach: log γ + u would lose what is small beside u.
    """
    excess = rate * np.expm1(np.minimum(u, HALF_WAY))
    if np.any(u > HALF_WAY):
        with np.errstate(over="ignore"):
            excess = excess * np.exp(np.maximum(u - HALF_WAY, 0.0))
    near = (excess > -0.5) & np.isfinite(excess)
    if np.all(near):
        return np.asarray(np.log1p(excess))
    with np.errstate(divide="ignore"):
        apart = np.logaddexp(np.log1p(-rate), np.log(rate) + u)  # 1 + excess has lost the digits of 1 - γ, or overflows
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), apart)


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
