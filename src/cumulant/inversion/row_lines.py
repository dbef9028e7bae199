"""Lines of many compositions: the same θ and η, K and its bounds in each row; the formulas are those of `contour`.

The sum over nodes is an upper bound of δ(ε) in every row, but for what is added: rounding, the tail beyond the last
node, and what was left out of sight. Aliases are taken off the lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from cumulant.inversion.contour import FIRST_ORDER_NATS, LARGEST_ERROR_NATS, ROUNDOFF, SAME_TILT, log_chernoff
from cumulant.inversion.rows import Indices
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array

LARGEST_EXPONENT = 700.0  # nats, beyond which e^x overflows


class Sums(NamedTuple):
    """Over a line, in units of e^{K(θ)-θε}: Re Σ t, Re Σ zt and Re Σ z²t of its terms t, and a bound of the error."""

    total: Array
    first: Array
    second: Array
    doubt: Array

    @property
    def slope(self) -> Array:
        """About -d log δ/dε, positive; NaN where errors rule."""
        fine = (self.total > self.doubt) & (self.first > 0)
        return np.where(fine, self.first, np.nan) / np.where(fine, self.total, 1.0)

    def slope_or(self, otherwise: float) -> Array:
        """Return the same, and that of the scale, θ, where errors rule."""
        slope = self.slope
        return np.where(np.isnan(slope), otherwise, slope)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowLines:
    """Sums over the nodes θ + ijη with K of each row, and what bounds their errors for every ε."""

    theta: float
    step: float
    omega: Array
    scale: Array  # K(θ)
    weights: tuple[Array, Array]  # e^{K-K(θ)} η/π / (z(z+1)), the first halved: real and imaginary parts
    doubts: tuple[Array, Array]  # bounds of the error of the sum, and of what a unit of ε adds
    tail: Array
    tilts: Array
    k_tilts: Array
    left_out: Array  # of P, by which δ may be larger

    @staticmethod
    def of(
        at: tuple[float, float],
        line: tuple[Complex, Array],
        tail: Array,
        tilts: tuple[Array, Array],
        left_out: Array,
    ) -> RowLines:
        """Return the lines at (θ, η) of K with its errors, of tails, and of (τ, K(τ)); see `Contour.of`."""
        (theta, step), (k, error) = at, line
        scale = np.asarray(k[:, 0].real, dtype=float)
        real = np.minimum(k.real - scale[:, None], 0.0)  # |M(z)| <= M(θ), whatever rounding says
        error = np.where(error[:, :1] <= LARGEST_ERROR_NATS, np.minimum(error, LARGEST_ERROR_NATS), LARGEST_ERROR_NATS)
        omega = np.asarray(step * np.arange(float(k.shape[1])))
        z = theta + 1j * omega
        kernel = 1 / (z * (z + 1))
        share = np.full(len(omega), step / math.pi)
        share[0] /= 2
        with np.errstate(under="ignore", over="ignore"):
            size = np.exp(real) * share
            phase = k.imag + np.angle(kernel)
            turned = size * np.abs(kernel)
            weights = turned * np.cos(phase), turned * np.sin(phase)
            # |(M + Δ)^n - M^n| <= (|M| + |Δ|)^n - |M|^n, expanded by the binomial theorem
            astray = size * np.expm1(error) + ROUNDOFF * size * (10 + np.abs(k.imag) + np.abs(k.real))
        doubts = astray @ np.abs(kernel), ROUNDOFF * (turned @ np.abs(z))
        return RowLines(theta, step, omega, scale, weights, doubts, tail, *tilts, left_out)

    def of_rows(self, rows: Indices) -> RowLines:
        real, imaginary = self.weights
        return RowLines(
            self.theta,
            self.step,
            self.omega,
            self.scale[rows],
            (real[rows], imaginary[rows]),
            (self.doubts[0][rows], self.doubts[1][rows]),
            self.tail[rows],
            self.tilts,
            self.k_tilts[rows],
            self.left_out[rows],
        )

    def sums(self, epsilon: Array) -> Sums:
        phase = epsilon[:, None] * self.omega
        cosine, sine = np.cos(phase), np.sin(phase)
        real = self.weights[0] * cosine + self.weights[1] * sine
        imaginary = self.weights[1] * cosine - self.weights[0] * sine
        total, turned = np.sum(real, axis=1), imaginary @ self.omega
        first = self.theta * total - turned
        second = self.theta * first - self.theta * turned - real @ self.omega**2
        return Sums(total, first, second, self.doubts[0] + epsilon * self.doubts[1])

    def log_upper(self, epsilon: Array, sums: Sums) -> Array:
        """Return the upper bound of log δ(ε) in every row."""
        high = sums.total + sums.doubt + self.tail
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.scale - self.theta * epsilon + np.log(high)
            # what is not positive, or not a number, says nothing
            value = np.where((high > 0) & ~self._are_lost(epsilon), value, 0.0)
            left_out = np.where(self.left_out > 0, np.log(self.left_out), -np.inf)
        return np.asarray(np.minimum(np.logaddexp(value, left_out) + np.where(self.left_out > 0, 1e-15, 0.0), 0.0))

    def log_lower(self, epsilon: Array, sums: Sums) -> Array:
        """Return the lower bound of log δ(ε); -inf where the error eats the value."""
        low = sums.total - sums.doubt - self.tail - self._alias(epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.scale - self.theta * epsilon + np.log(low)
        return np.where((low > 0) & ~self._are_lost(epsilon), value, -np.inf)

    def _are_lost(self, epsilon: Array) -> NDArray[np.bool_]:
        """Return in which rows K(θ) - θε has lost its digits; see `contour.is_lost`."""
        return ~(ROUNDOFF * (np.abs(self.scale) + self.theta * epsilon) <= FIRST_ORDER_NATS)

    def _alias(self, epsilon: Array) -> Array:
        """Return a bound of Σ_{k≠0} e^{θkW} δ(ε + kW), divided by e^{K(θ)-θε}; see `Contour.alias`."""
        scale, window = self.scale - self.theta * epsilon, 2 * math.pi / self.step
        sides = []
        for chosen in (self.tilts > self.theta * SAME_TILT, self.tilts < self.theta / SAME_TILT):
            tau, k = self.tilts[chosen], self.k_tilts[:, chosen]
            gap = np.abs(tau - self.theta) * window
            logs = log_chernoff(tau) + k - tau * epsilon[:, None] - scale[:, None] - gap - np.log(-np.expm1(-gap))
            sides.append(np.min(logs, axis=1, initial=np.inf))
        # δ <= 1 bounds what lies below as well
        whole = -scale - self.theta * window - math.log(-math.expm1(-self.theta * window))
        above, below = np.minimum(sides[0], LARGEST_EXPONENT), np.minimum(np.minimum(sides[1], whole), LARGEST_EXPONENT)
        return np.asarray(np.exp(above) + np.exp(below))
