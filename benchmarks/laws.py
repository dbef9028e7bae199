"""Laws of the privacy loss log dP/dQ by their definitions: how likely each cell of losses is, under P and under Q.

Nothing here is taken from the library; what is compared with it must not share its mistakes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks import runs
from benchmarks.runs import Release

Array = NDArray[np.float64]
Masses = tuple[Array, Array]
MOST_DRAWS = 40  # multiplicities of one record in a sample with replacement; the rest is left out of a lower bound


class Law(Protocol):
    """A pair (P, Q), known by the masses of cells of its loss."""

    def masses(self, boundaries: Array) -> Masses:
        """Return (P, Q) of the losses in [b_k, b_{k+1}), for rising boundaries."""

    def ends(self, tail: float) -> tuple[float, float]:
        """Return losses below and above which P has no more mass than `tail`."""


# Mechanisms without sampling: symmetric pairs, the loss under Q is minus the loss under P -----------------------------


@final
@dataclass(frozen=True, slots=True)
class GaussianLaw:
    """N(μ, 1) against N(0, 1): the loss is N(±μ²/2, μ²)."""

    mean: float

    def masses(self, boundaries: Array) -> Masses:
        x = boundaries / self.mean
        return normal_masses(x - self.mean / 2), normal_masses(x + self.mean / 2)

    def ends(self, tail: float) -> tuple[float, float]:
        farthest = self.mean**2 / 2 + self.mean * quantile(tail)
        return -farthest, farthest


@final
@dataclass(frozen=True, slots=True)
class LaplaceLaw:
    """Laplace(0, b) against Laplace(1, b), θ = 1/b: atoms at ±θ, and e^{(t-θ)/2}/4 between them."""

    theta: float

    def masses(self, boundaries: Array) -> Masses:
        inside = np.clip(boundaries, -self.theta, self.theta)
        # expm1 of the width: a difference of two exponentials would lose the ratio of P and Q in narrow cells
        spread = np.expm1(np.diff(inside) / 2) / 2
        p, q = np.exp((inside[:-1] - self.theta) / 2) * spread, np.exp((-inside[1:] - self.theta) / 2) * spread
        high, low = (np.diff((boundaries > end).astype(float)) for end in (self.theta, -self.theta))
        rare = math.exp(-self.theta)
        return p + (high + rare * low) / 2, q + (rare * high + low) / 2

    def ends(self, tail: float) -> tuple[float, float]:
        return -self.theta, self.theta


@final
@dataclass(frozen=True, slots=True)
class TwoPointLaw:
    """Randomized response: the loss is θ or -θ."""

    theta: float

    def masses(self, boundaries: Array) -> Masses:
        likely, unlikely = 1 / (1 + math.exp(-self.theta)), 1 / (1 + math.exp(self.theta))
        high = np.diff((boundaries > self.theta).astype(float))
        low = np.diff((boundaries > -self.theta).astype(float))
        return likely * high + unlikely * low, unlikely * high + likely * low

    def ends(self, tail: float) -> tuple[float, float]:
        return -self.theta, self.theta


@final
@dataclass(frozen=True, slots=True)
class TableLaw:
    """Finitely many outputs: losses with their masses under P and under Q, both positive.

    Outputs that only one of the two has are left out, so the masses may be less than 1.
    """

    losses: tuple[float, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]

    def masses(self, boundaries: Array) -> Masses:
        cells = np.searchsorted(boundaries, self.losses, side="right") - 1
        inside = (cells >= 0) & (cells < len(boundaries) - 1)
        found = []
        for masses in (self.p, self.q):
            found.append(np.bincount(cells[inside], np.array(masses)[inside], minlength=len(boundaries) - 1))
        return found[0], found[1]

    def ends(self, tail: float) -> tuple[float, float]:
        return min(self.losses), max(self.losses)


# Sampling: one dataset has a record that the other has not, or has another instead ------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Removed:
    """(1-γ)Q + γP against Q: the loss is log(1 - γ + γe^ℓ)."""

    base: Law
    rate: float

    def masses(self, boundaries: Array) -> Masses:
        p, q = self.base.masses(unsampled_loss(boundaries, self.rate))
        return (1 - self.rate) * q + self.rate * p, q

    def ends(self, tail: float) -> tuple[float, float]:
        low, high = self.base.ends(tail)
        return sampled_loss(low, self.rate), sampled_loss(high, self.rate)


@final
@dataclass(frozen=True, slots=True)
class Exchanged:
    """The pair the other way round: Q against P, the loss is minus the loss."""

    law: Law

    def masses(self, boundaries: Array) -> Masses:
        p, q = self.law.masses(-boundaries[::-1])
        return q[::-1], p[::-1]

    def ends(self, tail: float) -> tuple[float, float]:
        low, high = self.law.ends(tail)
        return -high, -low


@final
@dataclass(frozen=True, slots=True)
class NormalMixtures:
    """Σ w_i N(m_i, 1) against Σ v_i N(m_i', 1), with a loss that rises; its inverse is found by bisection."""

    weights: tuple[float, ...]
    means: tuple[float, ...]
    other_weights: tuple[float, ...]
    other_means: tuple[float, ...]

    def loss(self, x: Array) -> Array:
        return _log_mixture(x, self.weights, self.means) - _log_mixture(x, self.other_weights, self.other_means)

    def inverse(self, losses: Array) -> Array:
        farthest = 60.0 + max(map(abs, self.means + self.other_means))
        low, high = np.full(losses.shape, -farthest), np.full(losses.shape, farthest)
        for _ in range(64):
            middle = (low + high) / 2
            above = self.loss(middle) >= losses
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.where(np.isposinf(losses), math.inf, np.where(np.isneginf(losses), -math.inf, high))

    def masses(self, boundaries: Array) -> Masses:
        x = self.inverse(boundaries)
        p = sum(w * normal_masses(x - m) for w, m in zip(self.weights, self.means, strict=True))
        q = sum(w * normal_masses(x - m) for w, m in zip(self.other_weights, self.other_means, strict=True))
        return np.asarray(p), np.asarray(q)

    def ends(self, tail: float) -> tuple[float, float]:
        z = quantile(tail)
        low, high = self.loss(np.array([min(self.means) - z, max(self.means) + z]))
        return float(low), float(high)


def laws_of(release: Release) -> tuple[tuple[Law, Law], bool]:
    """Return both orders of a pair of neighbours' outputs, and whether this pair dominates all others.

    Poisson, add-or-remove-one: the record is there or not; the pair dominates (Zhu, Dong and Wang 2022, Theorem 11).
    Poisson, replace-one, Gaussian: opposite records. Other schemes under replace-one: the record is replaced by
    one like all the others, which is one choice of neighbours among many, so it bounds δ from below only.
    """
    base, rate = base_law(release), release.share
    if release.sampling == runs.NONE or (release.share == 1 and release.relation == runs.ADD_REMOVE):
        return (base, Exchanged(base)), True
    if release.sampling == runs.WITH:
        return _both(with_replacement(release)), False
    if release.relation == runs.REPLACE_ONE and release.sampling == runs.POISSON and release.kind == runs.GAUSSIAN:
        mu = 1 / release.parameter
        return _both(NormalMixtures((1 - rate, rate), (0.0, mu), (1 - rate, rate), (0.0, -mu))), True
    dominates = release.sampling == runs.POISSON and release.relation == runs.ADD_REMOVE
    return _both(Removed(base, rate)), dominates


def base_law(release: Release) -> Law:
    if release.kind == runs.GAUSSIAN:
        return GaussianLaw(1 / release.parameter)
    if release.kind == runs.LAPLACE:
        return LaplaceLaw(1 / release.parameter)
    return TwoPointLaw(abs(math.log(release.parameter) - math.log1p(-release.parameter)))


def with_replacement(release: Release) -> NormalMixtures:
    """Return the Gaussian pair in which the record is drawn Binomial(draws, 1/population) times."""
    from scipy.stats import binom

    drawn = np.arange(min(release.batch, MOST_DRAWS) + 1)
    weights = tuple(float(w) for w in binom.pmf(drawn, release.batch, 1 / release.population))
    means = tuple(float(k) / release.parameter for k in drawn)
    return NormalMixtures(weights, means, (1.0,), (0.0,))


def _both(law: Law) -> tuple[Law, Law]:
    return law, Exchanged(law)


# Numbers --------------------------------------------------------------------------------------------------------------


def normal_masses(x: Array) -> Array:
    """Return Φ(x_{k+1}) - Φ(x_k), from the nearer tail."""
    low, high = x[:-1], x[1:]
    return np.asarray(np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))


def quantile(tail: float) -> float:
    """Return z with Φ(-z) <= tail: Φ(-z) <= e^{-z²/2}."""
    return math.sqrt(-2 * math.log(tail))


def sampled_loss(loss: float, rate: float) -> float:
    return math.log1p(rate * math.expm1(loss))


def unsampled_loss(losses: Array, rate: float) -> Array:
    """Return ℓ with log(1 - γ + γe^ℓ) = loss, -inf below the least loss."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.expm1(losses) / rate
        return np.where(ratio > -1, np.log1p(np.maximum(ratio, -1.0)), -math.inf)


def _log_mixture(x: Array, weights: tuple[float, ...], means: tuple[float, ...]) -> Array:
    """Return the log of Σ w_i N(x; m_i, 1) over N(x; 0, 1)."""
    terms = [math.log(w) + m * x - m * m / 2 for w, m in zip(weights, means, strict=True) if w > 0]
    return np.asarray(np.logaddexp.reduce(terms))
