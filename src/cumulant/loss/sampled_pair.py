"""Pairs of sampled mechanisms: mixtures of Gaussian or Laplace distributions.

All losses come from ℓ(t) = log w(t), w = Σ_j b_j e^{jx - …}, the log-ratio of a mixture to its first component.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.loss.coordinate import Bends, Branch, CoordinatePair, Line, Stretch
from cumulant.numerics.balls import as_ball, normal_ball
from cumulant.numerics.logspace import Array

if TYPE_CHECKING:
    from flint import arb

LOG_ROOT = 0.5 * math.log(2 * math.pi)
REACH = 10.5  # standard deviations either side: e^-55 is left out
WHOLE = 13.0  # the same where it is proven: e^-84


@final
@dataclass(frozen=True, slots=True)
class GaussianMixture:
    """ℓ(t) = log(1 - γ + γe^{μt - μ²/2}): N(μ) sampled at rate γ against N(0), in t standard normal."""

    mean: float
    rate: float

    def log_ratio(self, t: Any) -> Any:
        return log_mixture(self.mean * t - self.mean**2 / 2, self.rate)

    def log_slope(self, t: Array) -> Array:
        """Return log ℓ' = log μ + log s, s the share of the second component."""
        return math.log(self.mean) - np.logaddexp(0.0, _log_odds(self.rate) - self.mean * t + self.mean**2 / 2)

    def ball(self, t: arb) -> arb:
        mean, rate = as_ball(self.mean), as_ball(self.rate)
        return 1 - rate + rate * (mean * t - mean * mean / 2).exp()

    @property
    def steepest(self) -> float:
        return self.mean

    @property
    def bend(self) -> float:
        """A bound of ℓ'' = μ²s(1-s), and of -(log ℓ')''."""
        return self.mean**2 / 4

    @property
    def strip(self) -> float:
        """W vanishes first at Im t = π/μ."""
        return 0.95 * math.pi / self.mean


@final
@dataclass(frozen=True, slots=True)
class GroupedGaussianMixture:
    """ℓ(t) = log Σ_j Bin(k,γ)(j) e^{jμt - j²μ²/2}: k records of one group, each sampled at rate γ."""

    mean: float
    rate: float
    size: int

    def log_ratio(self, t: Any) -> Any:
        j, log_b = _binomial(self.size, self.rate)
        exponent = self.mean * t[..., None] * j - (j * self.mean) ** 2 / 2
        peak = np.maximum(np.max(exponent.real, axis=-1, keepdims=True), 0.0)
        near = np.sum(np.exp(log_b) * np.expm1(np.where(peak < 1, exponent, 0.0)), axis=-1)
        far = np.log(np.sum(np.exp(log_b + exponent - peak), axis=-1)) + peak[..., 0]
        close = (np.abs(near) < 0.5) & (peak[..., 0] < 1)
        return np.where(close, np.log1p(np.where(close, near, 0.0)), far)

    def log_slope(self, t: Array) -> Array:
        j, log_b = _binomial(self.size, self.rate)
        exponent = log_b + self.mean * t[..., None] * j - (j * self.mean) ** 2 / 2
        share = np.exp(exponent - np.max(exponent, axis=-1, keepdims=True))
        return np.asarray(math.log(self.mean) + np.log(share @ j / np.sum(share, axis=-1)))

    def ball(self, t: arb) -> arb:
        mean, rate = as_ball(self.mean), as_ball(self.rate)
        shares = [math.comb(self.size, j) * rate**j * (1 - rate) ** (self.size - j) for j in range(self.size + 1)]
        return sum((b * (j * mean * t - (j * mean) ** 2 / 2).exp() for j, b in enumerate(shares)), as_ball(0.0))

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


Mixture = GaussianMixture | GroupedGaussianMixture


class GaussianBranch(Branch):
    """A branch whose density is φ(t) times powers of mixtures: P e^{zL} = φ(t) Π w(±t)^a."""

    __slots__ = ()

    mixture: Any

    @abstractmethod
    def powers(self, theta: float) -> tuple[tuple[int, float], ...]:
        """Return (side, Re a) of each factor w(side·t)^a; each a has imaginary part ±Im z."""

    def whole_span(self, theta: float) -> tuple[float, float]:
        far = max(abs(power) for _, power in self.powers(theta)) * len(self.powers(theta)) * self.mixture.steepest
        return -far - WHOLE, far + WHOLE

    def log_tails(self, theta: float, low: float, high: float) -> float:
        """Bound ∫ φΠw^a beyond the ends: |log w| grows by at most s per unit, and ∫_b^∞ e^{-t²/2+g(t-b)} <= e^{-b²/2}/(b-g)."""
        growth = sum(abs(power) for _, power in self.powers(theta)) * self.mixture.steepest
        ends = [(end, self._log_modulus(np.array(end), np.array(end), 0.0, theta)) for end in (low, high)]
        logs = [float(value) - end**2 / 2 - LOG_ROOT - math.log(abs(end) - growth) for end, value in ends]
        return float(np.logaddexp(*logs))

    def log_ceiling(self, low: Array, high: Array, y: Array, theta: float, omega: float) -> Array:
        nearest = np.where((low < 0) & (high > 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
        angle = self.mixture.steepest * y
        turning = len(self.powers(theta)) * omega * angle
        return np.asarray((y**2 - nearest**2) / 2 - LOG_ROOT + turning + self._log_modulus(low, high, angle, theta))

    def _log_modulus(self, low: Any, high: Any, angle: Any, theta: float) -> Any:
        """Return a bound of Σ Re(a) log|w| on a rectangle."""
        total = 0.0
        for side, power in self.powers(theta):
            a, b = (low, high) if side > 0 else (-high, -low)
            least = self.mixture.log_ratio(a) + np.log(np.cos(angle / 2))
            total = total + power * (self.mixture.log_ratio(b) if power >= 0 else least)
        return total


@final
@dataclass(frozen=True, slots=True)
class Removed(GaussianBranch, Line):
    """Mixture against N(0): the record is in the first dataset. P has density φw, the loss is ℓ."""

    mixture: Mixture

    def powers(self, theta: float) -> tuple[tuple[int, float], ...]:
        return ((1, theta + 1),)

    def ball(self, t: arb) -> tuple[arb, arb]:
        w = self.mixture.ball(t)
        return w.log(), normal_ball(t) * w

    def loss(self, t: Any) -> Any:
        return self.mixture.log_ratio(t)

    def log_density(self, t: Any) -> Any:
        return -t * t / 2 - LOG_ROOT + self.mixture.log_ratio(t)

    def log_slope(self, t: Array) -> Array:
        return self.mixture.log_slope(t)

    def bends(self, theta: float) -> Bends:
        most = (theta + 1) * self.mixture.bend
        return Bends(least=-1.0, most=most - 1, quotient=1 + most + self.mixture.bend)

    def span(self, theta: float) -> tuple[float, float]:
        peak = _fixed_point(self.mixture, theta + 1)
        return -REACH, max(peak, 2 * self.mixture.steepest) + REACH

    @property
    def steepest(self) -> float:
        return self.mixture.steepest

    @property
    def strip(self) -> float:
        return self.mixture.strip


@final
@dataclass(frozen=True, slots=True)
class Added(GaussianBranch, Line):
    """N(0) against the mixture: the record is in the second dataset. P has density φ, the loss is -ℓ."""

    mixture: Mixture

    def powers(self, theta: float) -> tuple[tuple[int, float], ...]:
        return ((1, -theta),)

    def ball(self, t: arb) -> tuple[arb, arb]:
        return -self.mixture.ball(t).log(), normal_ball(t)

    def loss(self, t: Any) -> Any:
        return -self.mixture.log_ratio(t)

    def log_density(self, t: Any) -> Any:
        return -t * t / 2 - LOG_ROOT

    def log_slope(self, t: Array) -> Array:
        return self.mixture.log_slope(t)

    def bends(self, theta: float) -> Bends:
        least = -1 - theta * self.mixture.bend
        return Bends(least=least, most=-1.0, quotient=self.mixture.bend - least)

    def span(self, theta: float) -> tuple[float, float]:
        return _fixed_point(self.mixture, -theta) - REACH, 2 * self.mixture.steepest + REACH

    @property
    def steepest(self) -> float:
        return self.mixture.steepest

    @property
    def strip(self) -> float:
        return self.mixture.strip


@final
@dataclass(frozen=True, slots=True)
class Replaced(GaussianBranch, Line):
    """The mixture with N(μ) against that with N(-μ): density φ(t)w(t), loss ℓ(t) - ℓ(-t)."""

    mixture: GaussianMixture

    def powers(self, theta: float) -> tuple[tuple[int, float], ...]:
        return (1, theta + 1), (-1, -theta)

    def ball(self, t: arb) -> tuple[arb, arb]:
        w = self.mixture.ball(t)
        return w.log() - self.mixture.ball(-t).log(), normal_ball(t) * w

    def loss(self, t: Any) -> Any:
        return self.mixture.log_ratio(t) - self.mixture.log_ratio(-t)

    def log_density(self, t: Any) -> Any:
        return -t * t / 2 - LOG_ROOT + self.mixture.log_ratio(t)

    def log_slope(self, t: Array) -> Array:
        return np.logaddexp(self.mixture.log_slope(t), self.mixture.log_slope(-t))

    def bends(self, theta: float) -> Bends:
        most = (theta + 1) * self.mixture.bend
        return Bends(least=-1 - theta * self.mixture.bend, most=most - 1, quotient=1 + most + 8 * self.mixture.bend)

    def span(self, theta: float) -> tuple[float, float]:
        far = (2 * max(theta, 1.0) + 1) * self.mixture.steepest + REACH
        return -REACH - 2 * self.mixture.steepest, far

    @property
    def steepest(self) -> float:
        return 2 * self.mixture.steepest

    @property
    def strip(self) -> float:
        return self.mixture.strip


@final
@dataclass(frozen=True, slots=True)
class LaplaceMixture:
    """ℓ(t) = log(1 - γ + γe^t) for t in [-θ, θ], the log-ratio of Laplace(1, b) to Laplace(0, b), θ = 1/b.

    Under the second distribution t has density e^{-(t+θ)/2}/4, and atoms at both ends.
    """

    theta: float
    rate: float

    def log_ratio(self, t: Any) -> Any:
        return log_mixture(t, self.rate)

    def log_slope(self, t: Array) -> Array:
        return np.asarray(-np.logaddexp(0.0, _log_odds(self.rate) - t))

    def ball(self, t: arb) -> arb:
        rate = as_ball(self.rate)
        return 1 - rate + rate * t.exp()

    def log_density(self, t: Array) -> Array:
        return np.asarray(-(t + self.theta) / 2 - math.log(4.0))

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """The atoms: (t, log-mass) under the second distribution."""
        return (-self.theta, -math.log(2.0)), (self.theta, -self.theta - math.log(2.0))


@final
@dataclass(frozen=True, slots=True)
class GaussianHalf(GaussianBranch, Stretch):
    """Where the ratio is above 1, t > μ/2: the half of a Gaussian mixture that an envelope is made of."""

    mixture: GaussianMixture
    sign: int

    def powers(self, theta: float) -> tuple[tuple[int, float], ...]:
        return ((1, theta + 1) if self.sign > 0 else (1, -theta),)

    def ball(self, t: arb) -> tuple[arb, arb]:
        return (Removed(self.mixture) if self.sign > 0 else Added(self.mixture)).ball(t)

    def whole_span(self, theta: float) -> tuple[float, float]:
        middle = self.mixture.mean / 2  # exact, as is the branch's end
        return middle, GaussianBranch.whole_span(self, theta)[1] + middle

    def log_tails(self, theta: float, low: float, high: float) -> float:
        return GaussianBranch.log_tails(self, theta, -high, high)

    def loss(self, t: Array) -> Array:
        return np.asarray(self.sign * self.mixture.log_ratio(t))

    def log_density(self, t: Array) -> Array:
        base = -t * t / 2 - LOG_ROOT
        return np.asarray(base + self.mixture.log_ratio(t) if self.sign > 0 else base)

    def log_slope(self, t: Array) -> Array:
        return self.mixture.log_slope(t)

    def bends(self, theta: float) -> Bends:
        return (Removed(self.mixture) if self.sign > 0 else Added(self.mixture)).bends(theta)

    def span(self, theta: float) -> tuple[float, float]:
        middle = self.mixture.mean / 2
        return middle, max(middle, max(theta + 1, 2.0) * self.mixture.mean) + REACH

    @property
    def widest(self) -> float:
        return min(1.0, 2.0 / self.mixture.mean)

    @property
    def steepest(self) -> float:
        return self.mixture.mean


@final
@dataclass(frozen=True, slots=True)
class LaplaceStretch(Stretch):
    """The density between the atoms of a Laplace mixture, from `start` to θ."""

    mixture: LaplaceMixture
    sign: int
    start: float

    def ball(self, t: arb) -> tuple[arb, arb]:
        w = self.mixture.ball(t)
        density = (-(t + self.mixture.theta) / 2).exp() / 4
        return (w.log(), density * w) if self.sign > 0 else (-w.log(), density)

    def whole_span(self, theta: float) -> tuple[float, float]:
        return self.start, self.mixture.theta

    def log_tails(self, theta: float, low: float, high: float) -> float:
        return -math.inf

    def log_ceiling(self, low: Array, high: Array, y: Array, theta: float, omega: float) -> Array:
        if self.sign > 0:
            modulus = (theta + 1) * self.mixture.log_ratio(high)
        else:
            modulus = -theta * (self.mixture.log_ratio(low) + np.log(np.cos(y / 2)))
        return np.asarray(self.mixture.log_density(low) + omega * y + modulus)

    def loss(self, t: Array) -> Array:
        return np.asarray(self.sign * self.mixture.log_ratio(t))

    def log_density(self, t: Array) -> Array:
        base = self.mixture.log_density(t)
        return np.asarray(base + self.mixture.log_ratio(t) if self.sign > 0 else base)

    def log_slope(self, t: Array) -> Array:
        return self.mixture.log_slope(t)

    def bends(self, theta: float) -> Bends:
        least, most = (0.0, (theta + 1) / 4) if self.sign > 0 else (-theta / 4, 0.0)
        return Bends(least=least, most=most, quotient=max(most, -least) + 0.25)

    def span(self, theta: float) -> tuple[float, float]:
        return self.start, self.mixture.theta

    @property
    def widest(self) -> float:
        return 2.0

    @property
    def steepest(self) -> float:
        return 1.0


def removed_gaussian(mean: float, rate: float, size: int = 1) -> CoordinatePair:
    """Return the mixture against N(0): a group of `size` records, each sampled at `rate`, leaves."""
    return CoordinatePair((Removed(_mixture(mean, rate, size)),))


def added_gaussian(mean: float, rate: float, size: int = 1) -> CoordinatePair:
    """Return N(0) against the mixture: the group joins."""
    top = -size * math.log1p(-rate) if rate < 1 else math.inf
    return CoordinatePair((Added(_mixture(mean, rate, size)),), supremum=top)


def replaced_gaussian(mean: float, rate: float) -> CoordinatePair:
    """Return the mixture with N(μ) against that with N(-μ)."""
    return CoordinatePair((Replaced(GaussianMixture(mean, rate)),))


def removed_laplace(theta: float, rate: float) -> CoordinatePair:
    mixture = LaplaceMixture(theta, rate)
    atoms = tuple((_number(mixture.log_ratio(t)), m + _number(mixture.log_ratio(t))) for t, m in mixture.ends)
    return CoordinatePair((LaplaceStretch(mixture, 1, -theta),), atoms, atoms[1][0])


def added_laplace(theta: float, rate: float) -> CoordinatePair:
    mixture = LaplaceMixture(theta, rate)
    atoms = tuple((-_number(mixture.log_ratio(t)), m) for t, m in mixture.ends)
    return CoordinatePair((LaplaceStretch(mixture, -1, -theta),), atoms, atoms[0][0])


def envelope_gaussian(mean: float, rate: float) -> CoordinatePair:
    """Return the envelope of sampling without replacement.

    Its atom at L = 0 has mass (1-γ)·TV, TV = 1 - 2Φ(-μ/2) = erf(μ/√8).
    """
    mixture = GaussianMixture(mean, rate)
    rest = math.log1p(-rate) + math.log(math.erf(mean / math.sqrt(8.0)))
    return CoordinatePair((GaussianHalf(mixture, -1), GaussianHalf(mixture, 1)), ((0.0, rest),))


def envelope_laplace(theta: float, rate: float) -> CoordinatePair:
    """Return the envelope; TV = 1 - e^{-θ/2}."""
    mixture = LaplaceMixture(theta, rate)
    top, log_mass = mixture.ends[1]
    loss = _number(mixture.log_ratio(top))
    rest = math.log1p(-rate) + math.log(-math.expm1(-theta / 2))
    atoms = ((-loss, log_mass), (0.0, rest), (loss, log_mass + loss))
    return CoordinatePair((LaplaceStretch(mixture, -1, 0.0), LaplaceStretch(mixture, 1, 0.0)), atoms, loss)


def _fixed_point(mixture: Mixture, exponent: float) -> float:
    """Return where φw^a is largest, or its largest peak in t: t = aℓ'(t), from the far side inwards.

    For a < 0 the logarithm is concave and any point beyond the peak will do; iterations from aℓ'(±∞) stay beyond it.
    """
    t = exponent * mixture.steepest
    for _ in range(60):
        inner = exponent * math.exp(float(mixture.log_slope(np.array(t))))
        if exponent < 0:  # ℓ' grows with t: the map falls, and its square rises; go half way
            inner = min(t / 2, 0.0) if inner > t / 2 else t
        if not abs(inner - t) > 0.05 * abs(t) + 0.01:
            break
        t = inner
    return t


def _mixture(mean: float, rate: float, size: int) -> Mixture:
    return GaussianMixture(mean, rate) if size == 1 else GroupedGaussianMixture(mean, rate, size)


def _log_odds(rate: float) -> float:
    """Return log (1-γ)/γ."""
    return math.log1p(-rate) - math.log(rate) if rate < 1 else -math.inf


def log_mixture(u: Any, rate: float) -> Any:
    """Return log(1 - γ + γe^u), to full relative accuracy near 0, for real or complex u."""
    near = rate * np.expm1(np.where(u.real < 1, u, 0.0))
    with np.errstate(divide="ignore"):
        rest = math.log1p(-rate) if rate < 1 else -math.inf
        shift = np.maximum(u.real + math.log(rate), rest)
        far = np.log(np.exp(rest - shift) + np.exp(u + math.log(rate) - shift)) + shift
    close = (np.abs(near) < 0.5) & (u.real < 1)
    return np.where(close, np.log1p(np.where(close, near, 0.0)), far)


def _number(value: Any) -> float:
    return float(np.real(value))


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
