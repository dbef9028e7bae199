"""A privacy loss on finitely many nodes: its cumulants on the real line, and K(z) on a line of the complex plane.

With masses p_i of P and E(x) = e^x - 1 - x,

    M(z) - 1 = Σ p_i E(zL_i) + z·κ,     κ = E_P[L] = Σ p_i E(-L_i) + 1 - Q(L > -∞),

and along a line E(zL) is taken apart into terms of second order as well, so a small loss keeps its relative accuracy:
n releases multiply K by n, and nothing of size 1 was subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.numerics.complex_plane import Complex, log1p_complex, sine_excess
from cumulant.numerics.logspace import Array
from cumulant.numerics.logspace import exp_excess as real_exp_excess
from cumulant.numerics.nonuniform import characteristic_function

LARGE = 0.5  # K(θ) from which the sum is taken as it stands, tilted: 1 is no longer the larger part
CHUNK = 200_000  # complex numbers at a time: they stay in the cache
CHEAP = 400_000  # sines and cosines that are no trouble: the plain sum rounds less than the transform
PER_NODE, PER_FREQUENCY = 20, 60  # what either costs by fast transform, in pairs of sine and cosine
PHASE = 2.0**-51  # relative error of a phase ωL
ROUNDOFF = 4e-15  # relative error of a sum of up to 1e5 products of elementary functions, summed in pairs


@final
@dataclass(frozen=True, slots=True, eq=False)
class LossNodes:
    """Losses L_i, the logarithms of their masses under P, and κ = E_P[L]."""

    losses: Array
    log_masses: Array
    divergence: float

    @staticmethod
    def of(losses: Array, log_masses: Array, lost: float = 0.0) -> LossNodes:
        """Return nodes with κ summed from positive terms; `lost` is the mass of Q that P lacks."""
        near = np.maximum(losses, -1.0)
        terms = np.where(
            losses > -1.0,
            np.exp(log_masses) * real_exp_excess(-near),
            np.exp(log_masses - losses) - np.exp(log_masses) * (1 - losses),
        )
        return LossNodes(losses, log_masses, float(np.sum(terms)) + lost)

    def cumulants(self, theta: Array) -> tuple[Array, Array, Array]:
        """Return K(θ) and the mean and variance of the loss tilted by e^{θL}, for real θ > 0."""
        x = theta[:, None] * self.losses
        exponents = self.log_masses + x
        peak = np.max(exponents, axis=1, keepdims=True)
        tilted = np.exp(exponents - peak)
        total = np.sum(tilted, axis=1)
        mean = tilted @ self.losses / total
        variance = tilted @ self.losses**2 / total - mean**2
        k = np.log(total) + peak[:, 0]
        small = k < LARGE
        if np.any(small):
            terms = real_exp_excess(np.minimum(x[small], 600.0)) * np.exp(self.log_masses)
            k[small] = np.log1p(np.sum(terms, axis=1) + theta[small] * self.divergence)
        return k, mean, np.maximum(variance, 0.0)

    def log_moment(self, theta: float, omega: Array, k_theta: float) -> tuple[Complex, Array]:
        """Return K(θ + iω), and a bound of log(1 + |ΔM/M|) by rounding, from K(θ)."""
        rows = max(1, CHUNK // len(self.losses))
        pieces = [self._on_line(theta, omega[i : i + rows], k_theta) for i in range(0, len(omega), rows)]
        values = np.concatenate(pieces)
        rounding, first, second = self._sizes(theta, k_theta)
        error: Array = np.full(len(omega), rounding)
        if k_theta < LARGE:
            # |E(zL)| <= |z/θ|² E(θL): the remainder of Taylor's formula as an integral
            excess = max(np.expm1(k_theta), 0.0) + 2 * theta * abs(self.divergence)
            error *= np.minimum(excess * (1 + (omega / theta) ** 2), 2.0)
        turned = np.minimum(omega * first, omega * omega * second)  # a phase counts by its square while it is small
        return _with_error(error + PHASE * turned, values, k_theta)

    def log_moment_on_grid(self, theta: float, step: float, count: int, k_theta: float) -> tuple[Complex, Array]:
        """Return the same at ω = 0, η, 2η, …: by a fast Fourier transform where that is cheaper."""
        omega = step * np.arange(count, dtype=float)
        if count * len(self.losses) < CHEAP + PER_NODE * len(self.losses) + PER_FREQUENCY * count:
            return self.log_moment(theta, omega, k_theta)
        tilted = np.exp(self.log_masses + theta * self.losses - k_theta)
        sums, error = characteristic_function(self.losses, tilted, step, count)
        with np.errstate(divide="ignore"):
            values = np.asarray(np.log(sums) + k_theta, dtype=complex)
        rounding, first, _ = self._sizes(theta, k_theta)
        return _with_error(error + rounding + PHASE * first * omega, values, k_theta)

    def _sizes(self, theta: float, k_theta: float) -> tuple[float, float, float]:
        """Return the relative rounding of tilted masses, which grows with exponents, and E|L| and E L² under them."""
        tilted = np.exp(self.log_masses + theta * self.losses - k_theta)
        exponents = np.abs(self.log_masses) + theta * np.abs(self.losses)
        rounding = ROUNDOFF + 2.0**-52 * float(tilted @ exponents)
        return rounding, float(tilted @ np.abs(self.losses)), float(tilted @ self.losses**2)

    def _on_line(self, theta: float, omega: Array, k_theta: float) -> Complex:
        """Return K: M(z) = M(θ) + Σ P_i (e^{iωL_i} - 1), P_i = p_i e^{θL_i}, in units of M(θ) where that is large."""
        phase = omega[:, None] * self.losses
        if k_theta >= LARGE:
            tilted = np.exp(self.log_masses + theta * self.losses - k_theta)
            with np.errstate(divide="ignore"):  # where M(z) = 0 its logarithm is -inf
                return np.asarray(np.log(np.cos(phase) @ tilted + 1j * (np.sin(phase) @ tilted)) + k_theta)
        masses = np.exp(self.log_masses)
        growth = np.expm1(theta * self.losses)
        tilted = masses * (1 + growth)
        mean = self.divergence + float((masses * growth) @ self.losses)  # E_P[L e^{θL}], its first order apart
        real = np.expm1(k_theta) - 2 * (np.sin(phase / 2) ** 2 @ tilted)
        return log1p_complex(real, omega * mean + sine_excess(phase) @ tilted)


def _with_error(error: Array, values: Complex, k_theta: float) -> tuple[Complex, Array]:
    """Return K and log(1 + |ΔM/M|) from an error relative to M(θ); where M drowns in it, |M| is taken as the error."""
    floor = k_theta + np.log(np.maximum(error, 1e-300))
    raised = np.maximum(values.real, floor) + 1j * np.where(np.isfinite(values.imag), values.imag, 0.0)
    with np.errstate(over="ignore"):
        return raised, np.log1p(2 * error * np.exp(k_theta - raised.real))
