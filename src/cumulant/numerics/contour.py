"""Inversion of a Laplace transform along the saddle-point line, with its error bound on either side.

For a random L with K(z) = log E e^{zL} and any θ > 0,

    δ(ε) = E(1 - e^{ε-L})_+ = (1/2π) ∫ e^{K(z) - zε} / (z(z+1)) dω,    z = θ + iω,

because 1/(z(z+1)) is the Laplace transform of (1 - e^{-x})_+. The trapezoidal rule with step η = 2π/W is, by Poisson
summation, exactly Σ_k e^{θkW} δ(ε + kW): every term is >= 0, so the full sum is an upper bound, and its excess is at
most what Chernoff's bound δ(x) <= c(τ) e^{K(τ) - τx}, c(τ) = τ^τ/(1+τ)^{1+τ}, gives at any τ > θ for k > 0 and at any
τ < θ for k < 0. The sum is cut where |e^{K}| is proven to have fallen.

Where all losses lie on a lattice the payoff's transform is a geometric series, and one period is the whole line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array

ROUNDOFF = 4e-16  # relative error of an elementary function, and of products


@final
@dataclass(frozen=True, slots=True)
class Lattice:
    """Losses at offset + multiples of span."""

    offset: float
    span: float

    def payoff(self, z: Complex, epsilon: float) -> Complex:
        """Return span·Σ (1 - e^{-x}) e^{-zx} over the points x > 0 of the lattice, seen from ε: geometric series."""
        gap = self.span - (epsilon - self.offset) % self.span  # from ε to the next point, in (0, span]
        first = np.exp(-z * gap) / -np.expm1(-z * self.span)
        second = np.exp(-(z + 1) * gap) / -np.expm1(-(z + 1) * self.span)
        return np.asarray(self.span * (first - second))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Contour:
    """K at the nodes θ + ijη, j >= 0, and what bounds the error for every ε.

    `error` bounds the error of K at each node; `tail` is the sum of |e^{K-K(θ)} kernel|·η/π over nodes that were left
    out; `tilts` and `k_tilts` are real τ with K(τ), for Chernoff's bound.
    """

    theta: float
    step: float
    k: Complex
    error: Array
    tail: float
    tilts: Array
    k_tilts: Array
    lattice: Lattice | None = None

    def smoothed(self, variance: float) -> Contour:
        """Return the same for L with N(s²/2, s²) added, s² = variance: the loss of one more Gaussian release."""
        z = self._z()
        k = self.k + variance * (z * (z + 1) / 2)
        return replace(self, k=k, k_tilts=self.k_tilts + variance * self.tilts * (self.tilts + 1) / 2)

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return lower and upper bound of log δ(ε); the lower is -inf where the error eats the value."""
        scale, total, spread = self._sums(epsilon)
        high = total + spread + self.tail
        low = total - spread - self.tail - self.alias(epsilon, scale)
        return scale + math.log(low) if low > 0 else -math.inf, scale + math.log(high) if high > 0 else -math.inf

    def slope(self, epsilon: float) -> float:
        """Return d log δ/dε, approximately."""
        z = self._z()
        terms = self._terms(z, epsilon)[0]
        return -float(np.sum((z * terms).real) / max(float(np.sum(terms.real)), 1e-300))

    def _z(self) -> Complex:
        return self.theta + 1j * self.step * np.arange(len(self.k))

    def _terms(self, z: Complex, epsilon: float) -> tuple[Complex, float]:
        """Return the terms of the sum, the first halved, and the logarithm of what they were divided by."""
        scale = float(self.k[0].real) - self.theta * epsilon
        with np.errstate(under="ignore"):
            terms = np.exp(self.k - z * epsilon - scale) * self._kernel(z, epsilon) * (self.step / math.pi)
        terms[0] /= 2
        return terms, scale

    def _kernel(self, z: Complex, epsilon: float) -> Complex:
        return 1 / (z * (z + 1)) if self.lattice is None else self.lattice.payoff(z, epsilon)

    def _sums(self, epsilon: float) -> tuple[float, float, float]:
        z = self._z()
        terms, scale = self._terms(z, epsilon)
        relative = np.minimum(self.error, 1.0) * 1.8 + ROUNDOFF * (8 + np.abs(self.k) + np.abs(z) * abs(epsilon))
        return scale, float(np.sum(terms.real)), float(np.abs(terms) @ relative)

    def alias(self, epsilon: float, scale: float) -> float:
        """Return a bound of Σ_{k≠0} e^{θkW} δ(ε + kW), divided by e^scale."""
        window = 2 * math.pi / self.step
        gap = np.abs(self.tilts - self.theta) * window
        usable = gap > 1e-9
        logs = log_chernoff(self.tilts) + self.k_tilts - self.tilts * epsilon - scale
        with np.errstate(divide="ignore", over="ignore"):
            bounds = np.where(usable, np.exp(np.minimum(logs - gap, 700.0)) / -np.expm1(-gap), np.inf)
        above, below = bounds[self.tilts > self.theta], bounds[self.tilts < self.theta]
        whole = math.exp(min(-scale - self.theta * window, 700.0)) / -math.expm1(-self.theta * window)  # δ <= 1
        return float(np.min(above, initial=np.inf)) + min(float(np.min(below, initial=np.inf)), whole)


def log_chernoff(tau: Array) -> Array:
    """Return log c(τ), c(τ) = max_x (1 - e^{-x}) e^{-τx} = τ^τ/(1+τ)^{1+τ}."""
    return -tau * np.log1p(1 / tau) - np.log1p(tau)
