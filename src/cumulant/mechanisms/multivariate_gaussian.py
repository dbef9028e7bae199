"""Two Gaussians that differ in mean and covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve, at_least
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.numerics.logspace import log1p_deficit
from cumulant.parameters import require

Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MultivariateGaussian(AbstractMechanism):
    """Release N(μ, Σ) on one dataset and N(μ + shift, Σ') on its neighbour: data-dependent noise.

    Gil, Alajaji and Linder (2013), as in Appendix F of Wang et al. (2019), with Σ_α = αΣ₂ + (1-α)Σ₁:

        D_α(N₁‖N₂) = (α/2) Δᵀ Σ_α⁻¹ Δ - log(|Σ_α| / (|Σ₁|^{1-α} |Σ₂|^α)) / (2(α-1)),

    infinite where Σ_α is not positive definite. The RDP is the larger of the two directions.

    Holds for:  the one pair of outputs described, in both directions; state the worst pair of your mechanism.
    Tightness:  exact for that pair.

    >>> MultivariateGaussian(shift=[1.0], covariance=[[4.0]], neighbor_covariance=[[4.0]]).rdp(order=8)
    1.0
    """

    theorem: ClassVar[str] = "Rényi divergence of Gaussians (Gil et al. 2013; Wang et al. 2019, Appendix F)"

    shift: Vector
    covariance: Matrix
    neighbor_covariance: Matrix

    def __post_init__(self) -> None:
        shift = _checked_array("shift", self.shift, 1)
        object.__setattr__(self, "shift", tuple(shift.tolist()))
        for name in ("covariance", "neighbor_covariance"):
            matrix = _checked_covariance(name, getattr(self, name), len(shift))
            object.__setattr__(self, name, tuple(map(tuple, matrix.tolist())))

    def _known(self) -> Known:
        return Known.by_curve(self._curve)

    def directed_curves(self) -> tuple[Curve, Curve]:
        """Return K of each direction of the pair."""
        shift, one, other = (np.array(x) for x in (self.shift, self.covariance, self.neighbor_covariance))
        return _curve_of_direction(one, other, shift), _curve_of_direction(other, one, shift)

    def _curve(self) -> Curve:
        same = self.covariance == self.neighbor_covariance and not any(self.shift)
        return at_least(*self.directed_curves(), pure=0.0 if same else math.inf)


def _curve_of_direction(first: Array, second: Array, shift: Array) -> Curve:
    m, eta = _whitened(first, second, shift)
    with np.errstate(over="ignore", invalid="ignore"):
        kl = float(np.sum(m * m + log1p_deficit(eta)) / 2)
    return Curve(log_moment=lambda lam: _one_way(lam, m, eta), kl=kl)


def _whitened(first: Array, second: Array, shift: Array) -> tuple[Array, Array]:
    """Return (m_i, η_i): in coordinates where the second is standard, the first has variances 1 + η_i."""
    root = np.linalg.cholesky(second)
    with np.errstate(over="ignore", invalid="ignore"):
        whitened = np.linalg.solve(root, np.linalg.solve(root, first - second).T)
        symmetric, moved = (whitened + whitened.T) / 2, np.linalg.solve(root, shift)
        if not np.all(np.isfinite(symmetric)) or not np.all(np.isfinite(moved)):
            return np.full(len(shift), math.inf), np.zeros(len(shift))  # out of the range of doubles: nothing is known
        eta, axes = np.linalg.eigh(symmetric)
        return axes.T @ moved, eta


def _one_way(lam: Array, m: Array, eta: Array) -> Array:
    """Return K(λ) = ½ Σ_i [λ(λ+1) m_i²/d_i - log d_i - λ log(1+η_i)], d_i = 1 - λη_i, inf unless all d_i > 0."""
    x = lam[:, None] * eta
    d = np.where(x < 1, 1 - x, 1.0)
    quadratic = (lam[:, None] * m) * ((lam[:, None] + 1) * m) / d  # a product of squares would underflow
    # -log(1-x) - λ log(1+η) with the first-order terms, which cancel, taken out
    spread = log1p_deficit(-np.where(x < 1, x, 0.0)) + lam[:, None] * log1p_deficit(eta)
    return np.where((x < 1).all(axis=1), 0.5 * (quadratic + spread).sum(axis=1), math.inf)


def _checked_array(name: str, value: Any, dimensions: int) -> Array:
    shape = "a vector" if dimensions == 1 else "a square matrix"
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} must be {shape} of numbers, got {value!r}") from None
    require(array.ndim == dimensions and array.size > 0, f"{name} must be {shape} of numbers", value)
    require(bool(np.isfinite(array).all()), f"{name} must have finite entries", value)
    return array


def _checked_covariance(name: str, value: Any, size: int) -> Array:
    matrix = _checked_array(name, value, 2)
    require(
        matrix.shape == (size, size), f"{name} must be a {size} x {size} matrix, as shift has {size} entries", value
    )
    require(bool(np.array_equal(matrix, matrix.T)), f"{name} must be symmetric", value)
    require(float(np.linalg.eigvalsh(matrix)[0]) > 0, f"{name} must be positive definite", value)
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InvalidParameter(f"{name} must be positive definite beyond rounding, got {value!r}") from None
    return matrix
