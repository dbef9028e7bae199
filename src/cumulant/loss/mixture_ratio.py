"""ℓ(t) = log w(t): the log-ratio of a mixture to its first component, real, complex and as a ball."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.numerics.balls import as_ball, log_mixture_ball, reciprocal_ball
from cumulant.numerics.logspace import Array

if TYPE_CHECKING:
    from flint import arb


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
    def together(mixtures: Sequence[GaussianMixture]) -> GaussianMixture:
        mean, rate = (np.array(column)[:, None] for column in zip(*((m.mean, m.rate) for m in mixtures), strict=True))
        return GaussianMixture(mean, rate)

    def kind(self, closeness: float) -> Hashable:
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
        """Return ℓ'(t) = μ/(1 + (1-γ)/γ·e^{-u})."""
        mean, rate = self.mean_ball(), self.rate_ball()
        return mean / (1 + (1 - rate) / rate * (mean * mean / 2 - mean * t).exp())

    @property
    def steepest(self) -> float:
        return self.mean if isinstance(self.mean, float) else float(np.max(self.mean))

    @property
    def bend(self) -> float:
        """A bound of ℓ'' = μ²s(1-s), and of -(log ℓ')''."""
        return self.steepest**2 / 4

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
        j, log_b = _binomial(self.size, self.rate)
        exponent = self.mean * t[..., None] * j - (j * self.mean) ** 2 / 2
        peak = np.maximum(np.max(exponent.real, axis=-1, keepdims=True), 0.0)
        near = np.sum(np.exp(log_b) * np.expm1(np.where(peak < 600, exponent, 0.0)), axis=-1)
        far = np.log(np.sum(np.exp(log_b + exponent - peak), axis=-1)) + peak[..., 0]
        close = (near > -0.5) & (peak[..., 0] < 600)
        return np.where(close, np.log1p(np.where(close, near, 0.0)), far)

    def log_slope(self, t: Array) -> Array:
        j, log_b = _binomial(self.size, self.rate)
        exponent = log_b + self.mean * t[..., None] * j - (j * self.mean) ** 2 / 2
        share = np.exp(exponent - np.max(exponent, axis=-1, keepdims=True))
        mean = np.maximum(share @ j / np.sum(share, axis=-1), 1e-300)  # where none of the group counts
        return np.asarray(math.log(self.mean) + np.log(mean))

    def terms_ball(self, t: arb) -> list[arb]:
        """Return Bin(k,γ)(j) e^{jμt - j²μ²/2} for j = 0..k."""
        mean, rate = reciprocal_ball(self.mean, self.noise), as_ball(self.rate)
        shares = [math.comb(self.size, j) * rate**j * (1 - rate) ** (self.size - j) for j in range(self.size + 1)]
        return [b * (j * mean * t - (j * mean) ** 2 / 2).exp() for j, b in enumerate(shares)]

    def log_ball(self, t: arb) -> arb:
        return sum(self.terms_ball(t), as_ball(0.0)).log()

    def slope_ball(self, t: arb) -> arb:
        terms = self.terms_ball(t)
        weighted = sum((j * term for j, term in enumerate(terms)), as_ball(0.0))
        return reciprocal_ball(self.mean, self.noise) * weighted / sum(terms, as_ball(0.0))

    @property
    def steepest(self) -> float:
        return self.mean * self.size

    @property
    def bend(self) -> float:
        """ℓ'' = μ² Var j <= (kμ)²/4 and |(log ℓ')''| <= 2(kμ)², as |κ₃| and Var are at most k times the last."""
        return 2 * (self.size * self.mean) ** 2

    @property
    def strip(self) -> float:
        """Within kμ|Im t| < π/2 all terms have positive real part."""
        return 0.475 * math.pi / (self.mean * self.size)

    @property
    def log_spread(self) -> float:
        return _log_spread(self.steepest, self.rate)


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
        rate = self.rate_ball()
        return 1 / (1 + (1 - rate) / rate * (-t).exp())

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


def _log_spread(mean: Any, rate: Any) -> float:
    """Return about log E(w-1)², γ²(e^{μ²}-1), at most that; the least of several."""
    near = np.minimum(mean, 1.0)
    return float(np.min(2 * np.log(rate) + near * near + 2 * np.log(near)))


def log_odds(rate: Any) -> Any:
    """Return log (1-γ)/γ."""
    with np.errstate(divide="ignore"):
        return np.log1p(-rate) - np.log(rate)


def log_mixture(u: Array, rate: Any) -> Array:
    """Return log(1 - γ + γe^u), to full relative accuracy near 0; γ may be a column."""
    excess = rate * np.expm1(np.minimum(u, 600.0))
    near = (excess > -0.5) & (u < 600.0)
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
