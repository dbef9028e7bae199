"""Laws of the privacy loss log dP/dQ by their definitions: how likely each cell of losses is, under P and under Q.

Nothing here is taken from the library; what is compared with it must not share its mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

    Outputs that only one of the two has are left out, so the masses may be less than 1; `infinite` is P of those that
    Q lacks.
    """

    losses: tuple[float, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    infinite: float = 0.0

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> TableLaw:
        both = [(a, b) for a, b in pairs if a > 0 and b > 0]
        losses = tuple(math.log1p((a - b) / b) if b / 2 <= a <= 2 * b else math.log(a / b) for a, b in both)
        p, q = (tuple(column) for column in zip(*both, strict=True))
        return cls(losses, p, q, math.fsum(a for a, b in pairs if b == 0))

    def masses(self, boundaries: Array) -> Masses:
        cells = np.searchsorted(boundaries, self.losses, side="right") - 1
        inside = (cells >= 0) & (cells < len(boundaries) - 1)
        found = np.zeros((2, len(boundaries) - 1))
        for row, masses in zip(found, (self.p, self.q), strict=True):
            np.add.at(row, cells[inside], np.array(masses)[inside])
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
    if release.kind in (runs.APPROXIMATE, runs.STATED):
        return _of_table(release)
    base, rate = base_law(release), release.share
    if release.group > 1 and release.sampling == runs.POISSON:
        return _both(_grouped(release)), True
    if release.sampling == runs.NONE or (release.share == 1 and release.relation == runs.ADD_REMOVE):
        return (base, Exchanged(base)), True
    if release.sampling == runs.WITH:
        return _both(with_replacement(release)), False
    if release.relation == runs.REPLACE_ONE and release.sampling == runs.POISSON and release.kind == runs.GAUSSIAN:
        mu = 1 / release.parameter
        return _both(NormalMixtures((1 - rate, rate), (0.0, mu), (1 - rate, rate), (0.0, -mu))), True
    dominates = release.sampling == runs.POISSON and release.relation == runs.ADD_REMOVE
    return _both(Removed(base, rate)), dominates


def _of_table(release: Release) -> tuple[tuple[Law, Law], bool]:
    """Return the pair and its reverse; of an asymmetric one either may be meant where no record is with or without."""
    pairs, rate = _table(release), release.share
    mixed = [((1 - rate) * q + rate * p if rate < 1 else p, q) for p, q in pairs]
    laws = TableLaw.of(mixed), TableLaw.of([(q, p) for p, q in mixed])
    symmetric = sorted(pairs) == sorted((q, p) for p, q in pairs)
    known = symmetric if release.sampling == runs.NONE else release.sampling == runs.POISSON
    return laws, known and (release.sampling == runs.NONE or release.relation == runs.ADD_REMOVE)


def _table(release: Release) -> list[tuple[float, float]]:
    """Return the probabilities of every output under P and under Q."""
    if release.kind == runs.STATED:
        half = len(release.outputs) // 2
        return list(zip(release.outputs[:half], release.outputs[half:], strict=True))
    often, rare = ((1 - release.failure) / (1 + math.exp(-sign * release.parameter)) for sign in (1, -1))
    return [(often, rare), (rare, often), (release.failure, 0.0), (0.0, release.failure)]


def _grouped(release: Release) -> NormalMixtures:
    """Return Gaussian noise on a Poisson sample that every record of a group joins by itself."""
    from scipy.stats import binom

    drawn = np.arange(release.group + 1)
    weights = [float(w) for w in binom.pmf(drawn, release.group, release.share)]
    kept = [(w, float(k) / release.parameter) for k, w in zip(drawn, weights, strict=True) if w > 0]
    return NormalMixtures(tuple(w for w, _ in kept), tuple(m for _, m in kept), (1.0,), (0.0,))


def base_law(release: Release) -> Law:
    if release.kind == runs.GAUSSIAN:
        return GaussianLaw(release.group / release.parameter)
    if release.kind == runs.LAPLACE:
        return LaplaceLaw(release.group / release.parameter)
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
