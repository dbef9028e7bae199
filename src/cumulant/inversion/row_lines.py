"""Lines of many compositions: one θ and one η, K and its bounds in each row; the formulas are those of `contour`.

The sum over nodes is an upper bound of δ(ε) in every row, but for what is added: rounding, the tail beyond the last
node, and what was left out of sight. Aliases are taken off the lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from cumulant.inversion.contour import FIRST_ORDER_NATS, ROUNDOFF, bound_aliases, shares_of_nodes, weigh_nodes
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array

Indices = NDArray[np.intp]


class Sums(NamedTuple):
    """Over a line, in units of e^{K(θ)-θε}: Re Σ t, Re Σ zt and Re Σ z²t of its terms t, and a bound of the error."""

    total: Array
    first: Array
    second: Array
    doubt: Array

    @property
    def slope(self) -> Array:
        """About -d log δ/dε, positive; NaN where errors rule."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((self.total > self.doubt) & (self.first > 0), self.first / self.total, np.nan)

    @property
    def bend(self) -> Array:
        """About the second derivative of log δ; NaN where errors rule."""
        slope = self.slope
        return np.where(np.isnan(slope), np.nan, self.second / np.where(self.total > 0, self.total, 1.0) - slope**2)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowLines:
    """Sums over the nodes θ + ijη with K of each row, and what bounds their errors for every ε."""

    at: tuple[float, float]  # θ and η
    omega: Array
    scale: Array  # K(θ)
    weights: Complex  # e^{K-K(θ)} η/π / (z(z+1)), the first halved
    doubts: tuple[Array, Array]  # bounds of the error of the sum, and of what a unit of ε adds
    tail: Array
    known: tuple[Array, Array]  # tilts, and K there
    left_out: Array  # of P, by which δ may be larger

    @staticmethod
    def of(
        at: tuple[float, float], line: tuple[Complex, Array], tail: Array, known: tuple[Array, Array], left_out: Array
    ) -> RowLines:
        """Return the lines at (θ, η) of K with its errors, of tails, and of (τ, K(τ)); see `Contour.of`."""
        (theta, step), (k, error) = at, line
        omega = step * np.arange(float(k.shape[-1]))
        z = theta + 1j * omega
        kernel = shares_of_nodes(len(omega), step) / (z * (z + 1))
        size, turned, astray = weigh_nodes(k, error)
        doubts = astray @ np.abs(kernel), ROUNDOFF * (size @ np.abs(kernel * z))
        return RowLines(at, omega, np.asarray(k[:, 0].real), turned * kernel, doubts, tail, known, left_out)

    def of_rows(self, rows: Indices) -> RowLines:
        (doubt, more), (tilts, k) = self.doubts, self.known
        some = self.scale[rows], self.weights[rows], (doubt[rows], more[rows]), self.tail[rows]
        return RowLines(self.at, self.omega, *some, (tilts, k[rows]), self.left_out[rows])

    def sums(self, epsilon: Array) -> Sums:
        theta, phase = self.at[0], epsilon[:, None] * self.omega
        cosine, sine = np.cos(phase), np.sin(phase)
        real = self.weights.real * cosine + self.weights.imag * sine
        imaginary = self.weights.imag * cosine - self.weights.real * sine
        total, turned = np.sum(real, axis=1), imaginary @ self.omega
        first = theta * total - turned
        second = theta * first - theta * turned - real @ self.omega**2
        return Sums(total, first, second, self.doubts[0] + epsilon * self.doubts[1])

    def log_upper(self, epsilon: Array, sums: Sums) -> Array:
        """Return the upper bound of log δ(ε) in every row."""
        value = self._logs(epsilon, sums.total + sums.doubt + self.tail, 0.0)
        if np.any(self.left_out > 0):
            with np.errstate(divide="ignore"):
                value = np.logaddexp(value, np.log(self.left_out)) + 1e-15
        return np.minimum(value, 0.0)

    def log_lower(self, epsilon: Array, sums: Sums) -> Array:
        """Return the lower bound of log δ(ε); -inf where the error eats the value."""
        alias = bound_aliases(self.at, self.known, epsilon, self.scale - self.at[0] * epsilon)
        return self._logs(epsilon, sums.total - sums.doubt - self.tail - alias, -np.inf)

    def _logs(self, epsilon: Array, sums: Array, otherwise: float) -> Array:
        """Return log δ of sums in units of the scale; what is not positive, not a number, or lost, says nothing.

        K(θ) - θε may have lost its digits; see `contour.is_lost`.
        """
        theta = self.at[0]
        fine = (sums > 0) & (ROUNDOFF * (np.abs(self.scale) + theta * epsilon) <= FIRST_ORDER_NATS)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(fine, self.scale - theta * epsilon + np.log(np.where(fine, sums, 1.0)), otherwise)

    def slack(self, sums: Sums) -> Array:
        """Return about how far apart the bounds of log δ are, but for aliases."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(2 * (sums.doubt + self.tail) / sums.total)

    def is_within(self, epsilon: Array, log_delta: Array) -> NDArray[np.bool_]:
        """Return in which rows δ(ε) is proven to be at most δ."""
        return self.log_upper(epsilon, self.sums(epsilon)) <= log_delta
