"""Rényi divergences of exponential families: Wang et al. (2019), Appendix F, after Liese and Vajda (1987).

p_η(θ) = h(θ) exp(ηᵀT(θ) - A(η)), η in the natural space {A < ∞}; A is the log-partition function. All laws of a family
have the same outputs, those where h > 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.curves.curve import Array
from cumulant.errors import InvalidParameter
from cumulant.numerics.quadrature import legendre
from cumulant.numerics.rounding import ULP
from cumulant.parameters import nonnegative, real, require

NEAR_ONE = 0.1  # share of the way to where A is no longer analytic, up to which ∇A is averaged
GRADIENT_NODES = 24  # of Gauss-Legendre: an error of less than 30^-48 there
STEPS = 32  # units in the last place by which a value of A and the terms around it may be off


@final
@dataclass(frozen=True, slots=True)
class Family:
    """An exponential family by its log-partition function.

    log_partition:  η ↦ A(η), inf outside the natural space;
    mean:           η ↦ ∇A(η) = E[T], inside it;
    takes:          how many natural parameters fit;
    largest_loss:   sup log p/q of two members, inf where outputs are not finitely many.
    """

    log_partition: Callable[[Array], float]
    mean: Callable[[Array], Array]
    takes: Callable[[int], bool]
    largest_loss: Callable[[Array, Array], float] = lambda one, other: 0.0 if np.array_equal(one, other) else math.inf


def _log_sum(natural: Array) -> float:
    return float(np.logaddexp.reduce(np.append(natural, 0.0)))


def _largest_log_ratio(one: Array, other: Array) -> float:
    """Return log of the largest ratio of two probabilities, rounded up."""
    gap = _log_sum(other) - _log_sum(one)
    size = float(np.max(np.abs(one))) + float(np.max(np.abs(other))) + 1
    return float(np.max(np.append(one - other, 0.0))) + gap + STEPS * ULP * size


def _softmax(natural: Array) -> Array:
    return np.asarray(np.exp(natural - _log_sum(natural)))


def _gamma_partition(natural: Array) -> float:
    shape, rate = float(natural[0]) + 1, -float(natural[1])
    return math.lgamma(shape) - shape * math.log(rate) if shape > 0 and rate > 0 else math.inf


def _gamma_mean(natural: Array) -> Array:
    from scipy.special import digamma

    shape, rate = float(natural[0]) + 1, -float(natural[1])
    return np.array([float(digamma(shape)) - math.log(rate), shape / rate])


def _normal_partition(natural: Array) -> float:
    vector, precision = _split(natural)
    if not np.allclose(precision, precision.T, rtol=1e-12, atol=0.0):
        return math.inf
    try:
        root = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return math.inf
    half = np.linalg.solve(root, vector)
    return float(half @ half) / 2 - float(np.sum(np.log(np.diag(root))))


def _normal_mean(natural: Array) -> Array:
    vector, precision = _split(natural)
    covariance = np.linalg.inv(precision)
    mean = covariance @ vector
    return np.concatenate([mean, np.ravel(covariance + np.outer(mean, mean))])


CATEGORICAL = Family(_log_sum, _softmax, lambda size: size >= 1, _largest_log_ratio)
"""d + 1 outputs: η_i = log p_i/p_0 for i = 1..d; A = log(1 + Σ e^{η_i})."""

BERNOULLI = Family(_log_sum, _softmax, lambda size: size == 1, _largest_log_ratio)
"""One bit: η = log p/(1-p), A = log(1 + e^η)."""

POISSON = Family(lambda eta: math.exp(float(eta[0])) if eta[0] < 700 else math.inf, np.exp, lambda size: size == 1)
"""A count: η = log of its mean, A = e^η."""

GAMMA = Family(_gamma_partition, _gamma_mean, lambda size: size == 2)
"""Shape a and rate b: η = (a - 1, -b), T = (log x, x); A = log Γ(a) - a log b for a, b > 0."""

NORMAL = Family(
    _normal_partition, _normal_mean, lambda size: size >= 2 and size == _dimension(size) * (_dimension(size) + 1)
)
"""d dimensions: η = (Σ⁻¹μ, -½Σ⁻¹), the matrix row by row; A = ½ μᵀΣ⁻¹μ + ½ log|Σ| where it is positive definite."""

FAMILIES: Mapping[str, Family] = {
    "bernoulli": BERNOULLI,
    "categorical": CATEGORICAL,
    "poisson": POISSON,
    "gamma": GAMMA,
    "normal": NORMAL,
}


def family_divergence(family: Family, one: Sequence[float], other: Sequence[float], *, order: float) -> float:
    """Return D_α(p_η₁ ‖ p_η₂), rounded up by what A may be off by.

    (1) α not 0 or 1, αη₁ + (1-α)η₂ natural:  (A(αη₁ + (1-α)η₂) - αA(η₁) - (1-α)A(η₂)) / (α-1);
    (2) the same, not natural:                ∞ (for α > 1; below 1 the space is convex);
    (3) α = 1, Bregman's divergence of A:     ⟨η₁ - η₂, ∇A(η₁)⟩ + A(η₂) - A(η₁);
    (4) α = 0:                                -log Pr_η₂[p_η₁ > 0] = 0, as all outputs are shared.

    Next to α = 1, where (1) cancels, ∇A(η₁) of (3) is the mean of ∇A between η₁ and αη₁ + (1-α)η₂, which is (1) again.

    Wang et al. (2019), Appendix F. Erratum: its first display has a ratio of powers of A inside the logarithm, as if A
    were the partition function itself.

    Holds for:  any two members of a family.
    Tightness:  exact but for rounding.

    >>> round(family_divergence(POISSON, [math.log(3.0)], [math.log(2.0)], order=2.0), 6)
    0.5
    """
    first, second = checked_natural(family, "one", one), checked_natural(family, "other", other)
    order = nonnegative("order", order)
    if order == 0 or np.array_equal(first, second):
        return 0.0
    a1, a2 = family.log_partition(first), family.log_partition(second)
    if abs(order - 1) <= NEAR_ONE * _reach(family, first, first - second):
        steps, weights = legendre(GRADIENT_NODES)
        gradients = np.array([family.mean(first + (order - 1) * x * (first - second)) for x in steps.tolist()])
        slope = math.fsum((weights * (gradients @ (first - second))).tolist())
        terms = [slope, a2, -a1]
        size = float(np.abs(first - second) @ np.abs(family.mean(first))) + abs(a1) + abs(a2)
        return max(0.0, math.fsum(terms) + STEPS * ULP * size)
    between = family.log_partition(order * first + (1 - order) * second)
    if math.isinf(between):
        return math.inf
    terms = [between, -order * a1, (order - 1) * a2]
    lost = STEPS * ULP * (sum(abs(term) for term in terms) + 1e-300)
    return max(0.0, math.fsum(terms) / (order - 1) + lost / abs(order - 1))


def _reach(family: Family, natural: Array, way: Array) -> float:
    """Return how far along a way, on both sides, A is surely analytic: no boundary, and no turn of π in an exponent."""
    reach = 1 / max(1.0, float(np.max(np.abs(way))))
    while reach > 0 and not all(math.isfinite(family.log_partition(natural + side * way)) for side in (-reach, reach)):
        reach /= 2
    return reach


def checked_natural(family: Family, name: str, natural: Sequence[float]) -> Array:
    """Return natural parameters as an array, if they are."""
    try:
        values = np.array([real(name, value, "must be numbers") for value in natural])
    except TypeError:
        raise InvalidParameter(f"{name} must be a list of numbers, got {natural!r}") from None
    require(values.ndim == 1 and family.takes(len(values)), f"{name} must have as many numbers as the family", natural)
    require(math.isfinite(family.log_partition(values)), f"{name} must be in the natural space", natural)
    return values


def _dimension(size: int) -> int:
    return (math.isqrt(1 + 4 * size) - 1) // 2


def _split(natural: Array) -> tuple[Array, Array]:
    """Return Σ⁻¹μ and Σ⁻¹."""
    d = _dimension(len(natural))
    return natural[:d], -2 * natural[d:].reshape(d, d)
