"""Losses whose moments are closed formulas: Laplace noise, and releases with few outputs.

Laplace noise of scale 1/θ has L = ±θ with probabilities ½ and e^{-θ}/2, and the density e^{(x-θ)/2}/4 in between, so

    M(z) = [(z+1) e^{zθ} + z e^{-(z+1)θ}] / (2z+1) = e^{zθ} (z+1)/(2z+1) · (1 + ζ e^{-(2z+1)θ}),   ζ = z/(z+1);

with finitely many outputs M is a sum of exponentials. A product of many of them takes one multiplication a release and
point of a line, and no quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import TypeGuard, final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.complex_plane import Complex, power, turns
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import HALF_ULP
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.finite_pair import LARGEST_LOSS, FinitePair
from cumulant.pairs.maps import Leave
from cumulant.pairs.noise import LaplaceNoise
from cumulant.pairs.pair import DominatingPair

MOST_RELEASES = 2000  # whose rounding errors add up to little
MOST_OUTPUTS = 8  # of one release: beyond it a fast transform is as quick
BLOCK = 16_384  # complex numbers at a time: they stay in the cache
SHORTEST_ROW = 64  # of them
MOST_FACTORS = 4  # equal ones that are multiplied one by one
PRODUCT_NATS = 300.0  # of a product that stays a double
BIT = 2  # outputs
FACTOR_UNITS = 16.0  # half units by which one factor may be off, beside its phase
PHASE_UNITS = 40.0  # half units of ωL by which the phases of a release may be off: four products, of 2θ each, and sums

MOST_AT_TOP = 500  # releases of which the largest losses are summed
LONGEST_SERIES = 60.0  # of all releases together, or below the largest loss, beyond which series are long
NEAR_SHARE_OF_TOP = 0.25  # 2^{N-1} δ/W, up to which the first bound says enough
MORE_POWERS = 120  # of y/2 beyond N
STEPS_TO_TOP, NEAR_STEP = 12, 1e-3  # of Newton's method in log y, and what ends it
LARGEST_LOG_HALF = 10.0  # of y/2

Cumulants = tuple[Array, Array, Array]
Points = tuple[float, float, int]
"""θ, the step η, and how many points θ + ijη there are."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """A release with few outputs: their losses and log-masses given that the loss is finite, and its count."""

    losses: Array
    log_masses: Array
    count: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClosedLosses:
    """Laplace noise of scales 1/θ_i, n_i times each, and releases with few outputs."""

    thetas: Array
    counts: Array
    finite: tuple[Outputs, ...]
    laplace_releases: int = field(init=False)
    top: float = field(init=False)  # the largest loss, off by a unit at most
    largest: float = field(init=False)  # Σ n_i max|L_i|

    def __post_init__(self) -> None:
        products = (self.counts * self.thetas).tolist()
        tops = [part.count * float(np.max(part.losses)) for part in self.finite]
        object.__setattr__(self, "laplace_releases", int(sum(self.counts.tolist())))
        object.__setattr__(self, "top", math.fsum([*products, *tops]))
        object.__setattr__(self, "largest", sum(products) + sum(part.count * _largest(part) for part in self.finite))

    @staticmethod
    def of(parts: Sequence[tuple[DominatingPair, int]]) -> ClosedLosses | None:
        """Return losses as scales and outputs; None if some are of other kinds or too large, or there are too many."""
        if not 0 < sum(n for _, n in parts) <= MOST_RELEASES:
            return None
        laplace, finite = [], []
        for pair, n in parts:
            if is_plain_laplace(pair):
                assert isinstance(pair.law, LaplaceNoise)
                laplace.append((pair.law.theta, float(n)))
            elif isinstance(pair, FinitePair) and 0 < len(pair.losses) <= MOST_OUTPUTS and pair.failure < 1:
                if not np.max(np.abs(pair.losses)) <= LARGEST_LOSS:
                    return None
                finite.append(Outputs(pair.losses, pair.log_masses - math.log1p(-pair.failure), n))
            else:
                return None
        thetas, counts = np.array(laplace).reshape(-1, 2).T
        return ClosedLosses(thetas, counts, tuple(finite))

    @property
    def releases(self) -> float:
        return float(np.sum(self.counts)) + sum(part.count for part in self.finite)

    @property
    def log_top_mass(self) -> float:
        """Of the largest losses of releases with few outputs, about."""
        return sum(part.count * float(part.log_masses[np.argmax(part.losses)]) for part in self.finite)

    def least_epsilon(self, log_delta: float) -> float | None:
        """Return what ε of a δ is not below, by the largest loss alone; None where that says nothing, or takes long.

        With the atoms of Laplace noise at -θ_i moved to -∞ losses are smaller, and of the sum in `pieces` R_0 is left.
        As P(Bin(N-1, ½) < j) >= 2^{1-N}, with the mass W of other releases at their largest losses and x the largest
        loss of all,

            δ(ε) >= W R_0(y) >= 2^{1-N} W (1 - e^{-y/2}),   y = x - ε <= -2 log(1 - 2^{N-1} δ/W),

        and where that says too little, y is at most where W R_0(y) = δ.
        """
        n, share = self.laplace_releases, self._share_of_top(log_delta)
        if n > MOST_AT_TOP:
            return None
        if share < NEAR_SHARE_OF_TOP or n == 0:
            return self.top + 2 * math.log1p(-share) if share < 1 else None
        below = least_distance(n, log_delta - self.log_top_mass)
        return None if below is None or below >= self.top else self.top - below

    def lies_next_to_top(self, log_delta: float) -> bool:
        """Return whether it takes no search to see that ε is next to the largest loss, and above 0."""
        share = self._share_of_top(log_delta)
        return share < NEAR_SHARE_OF_TOP and self.top > -2 * math.log1p(-share)

    def _share_of_top(self, log_delta: float) -> float:
        """Return 2^{N-1} δ/W, at most 1."""
        return math.exp(min(log_delta - self.log_top_mass + (self.laplace_releases - 1) * math.log(2.0), 0.0))

    @property
    def divergence(self) -> float:
        """E_P[L] of Laplace noise alone: θ - 1 + e^{-θ}, which is θ²/2 - θ³/6 + … where that is small."""
        theta = self.thetas
        near = theta * theta * (0.5 - theta / 6 + theta * theta / 24 - theta**3 / 120)
        return float(self.counts @ np.where(theta < 1e-3, near, theta + np.expm1(-theta)))

    def cumulants(self, tau: Array) -> Cumulants:
        """Return K, K' and K'' at real τ > 0."""
        k, mean, spread = (np.zeros(len(tau)) for _ in range(3))
        if len(self.thetas):
            k, mean, spread = (self.counts @ rows for rows in _laplace_cumulants(self.thetas[:, None], tau))
        for part in self.finite:
            exponents = part.log_masses + tau[:, None] * part.losses
            peak = np.max(exponents, axis=1, keepdims=True)
            tilted = np.exp(exponents - peak)
            total = np.sum(tilted, axis=1)
            first, second = tilted @ part.losses / total, tilted @ part.losses**2 / total
            k = k + part.count * (np.log(total) + peak[:, 0])
            mean, spread = mean + part.count * first, spread + part.count * (second - first**2)
        return k, mean, np.maximum(spread, 1e-300)

    def line(self, points: Points) -> tuple[float, Complex, tuple[float, float]]:
        """Return K(θ), M(z)/M(θ) at the points of a line, and (a, b): it is off by at most a + b|z|.

        No factor is larger than 1, so errors add; a phase ωL is off by half units of itself.
        """
        theta, eta, count = points
        drift = float(self.counts @ self.thetas) + sum(part.count * float(part.losses[-1]) for part in self.finite)
        values = turns(drift * eta, count)
        self._multiply_laplace(values, points)
        bits = [part for part in self.finite if len(part.losses) == BIT]
        if bits:
            losses, log_masses = np.array([part.losses for part in bits]), np.array([part.log_masses for part in bits])
            shifts, log_shares = losses[:, 0] - losses[:, 1], log_masses[:, 0] - log_masses[:, 1]
            rows = _Rows(shifts, np.exp(log_shares + theta * shifts), np.array([part.count for part in bits]))
            one: Complex = np.ones(count, dtype=complex)
            rows.multiply(values, one, one, points)
        for part in self.finite:
            if len(part.losses) != BIT:
                values *= power(_finite_factor(part, points), part.count)
        error = HALF_ULP * FACTOR_UNITS * self.releases, HALF_ULP * PHASE_UNITS * self.largest
        return float(self.cumulants(np.array([theta]))[0][0]), values, error

    def _multiply_laplace(self, values: Complex, points: Points) -> None:
        """Multiply by Π [(z+1)/(2z+1) · (1 + ζ α_i)]^{n_i} over its value at θ, α_i = e^{-(2z+1)θ_i}.

        With Z = 1/ζ = 1 + 1/z every factor is z/(2z+1) · (Z + α_i).
        """
        theta, eta, count = points
        if len(self.thetas):
            z: Complex = theta + 1j * eta * np.arange(count, dtype=float)
            rows = _Rows(-2 * self.thetas, np.exp(-(2 * theta + 1) * self.thetas), self.counts.astype(int))
            rows.multiply(values, 1 + 1 / z, z / (2 * z + 1) * ((2 * theta + 1) / theta), points)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Factors f(Z + s_i e^{iωx_i}) with counts."""

    shifts: Array
    shares: Array
    counts: NDArray[np.int64]

    def multiply(self, values: Complex, base: Complex, factor: Complex, points: Points) -> None:
        """Multiply by Π [f·(Z + s_i e^{iωx_i}) / (Z + s_i)(θ)]^{n_i}, where f is 1 at θ; no factor is larger than 1.

        So many at a time that their products stay doubles before they are divided.
        """
        often = self.counts > MOST_FACTORS
        once = np.repeat(np.flatnonzero(~often), self.counts[~often])
        start = float(base[0].real)
        size = max(math.floor(PRODUCT_NATS / math.log(1 + start + float(np.max(self.shares)))), 1)
        for first in range(0, len(once), size):
            rows = once[first : first + size]
            self._multiply(values, base, rows, points)
            if np.any(factor != 1):
                values *= power(factor, len(rows))
            values /= math.exp(float(np.sum(np.log(start + self.shares[rows]))))
        for i in np.flatnonzero(often):
            turned = self.shares[i] * turns(float(self.shifts[i]) * points[1], points[2]) + base
            values *= power(turned * factor / (start + self.shares[i]), int(self.counts[i]))

    def _multiply(self, values: Complex, base: Complex, rows: NDArray[np.int64], points: Points) -> None:
        """Multiply by Π (Z + s_i e^{iωx_i}) of some releases, some frequencies at a time."""
        _, eta, count = points
        shifts, shares = self.shifts[rows], self.shares[rows]
        width = max(BLOCK // len(rows), SHORTEST_ROW)
        few = np.exp(1j * np.outer(eta * shifts, np.arange(min(width, count))))
        for first in range(0, count, width):
            stretch = slice(first, min(first + width, count))
            turned = few[:, : stretch.stop - first] * (np.exp(1j * (eta * first) * shifts) * shares)[:, None]
            turned += base[stretch]
            values[stretch] *= np.multiply.reduce(turned, axis=0)


def is_plain_laplace(pair: DominatingPair) -> TypeGuard[CoordinatePair]:
    """Return whether a pair is that of Laplace noise without sampling."""
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.law, LaplaceNoise):
        return False
    return isinstance(pair.sampling, Leave) and pair.sampling.rate == 1


def _largest(part: Outputs) -> float:
    return float(np.max(np.abs(part.losses)))


def _laplace_cumulants(theta: Array, tau: Array) -> Cumulants:
    """Return K and its derivatives; v = ζe^{-(2τ+1)θ} has the logarithmic derivative a = 1/τ(τ+1) - 2θ."""
    log_v = -np.log1p(1 / tau) - (2 * tau + 1) * theta
    share = np.exp(-np.logaddexp(0.0, -log_v))  # v/(1+v)
    a = 1 / (tau * (tau + 1)) - 2 * theta
    k = tau * theta + np.log((tau + 1) / (2 * tau + 1)) + np.logaddexp(0.0, log_v)
    mean = theta - 1 / ((tau + 1) * (2 * tau + 1)) + share * a
    bend = 4 / (2 * tau + 1) ** 2 - 1 / (tau + 1) ** 2
    return k, mean, bend + share * (1 - share) * a * a - share * (2 * tau + 1) / (tau * (tau + 1)) ** 2


def _finite_factor(part: Outputs, points: Points) -> Complex:
    """Return Σ p e^{zL} over its value at θ, without the phase of the largest loss."""
    theta, eta, count = points
    exponents = part.log_masses + theta * part.losses
    tilted = np.exp(exponents - np.max(exponents))
    tilted /= np.sum(tilted)
    values = np.full(count, tilted[-1], dtype=complex)
    for loss, mass in zip(part.losses[:-1] - part.losses[-1], tilted[:-1], strict=True):
        values += mass * turns(float(loss) * eta, count)
    return values


@lru_cache(maxsize=64)
def least_distance(n: int, log_delta: float) -> float | None:
    """Return a little more than the y at which R_0(y) is δ; None where that is beyond LONGEST_SERIES."""
    if not log_delta < 0:
        return None
    j, logs = _log_shares(n)
    log_half = float(((log_delta - logs) / j).min())  # where the largest term alone would be δ, without e^{-y/2}
    for _ in range(STEPS_TO_TOP):
        half = math.exp(min(log_half, LARGEST_LOG_HALF))
        terms = j * log_half + logs - half
        peak = float(terms.max())
        weights = np.exp(terms - peak)
        total = float(weights.sum())
        step = (log_delta - peak - math.log(total)) / max(float(weights @ j) / total - half, NEAR_STEP)
        log_half += max(min(step, 1.0), -1.0)
        if abs(step) < NEAR_STEP:
            y = 2 * math.exp(min(log_half, LARGEST_LOG_HALF)) * (1 + 4 * NEAR_STEP)
            return y if y <= LONGEST_SERIES else None
    return None


@lru_cache(maxsize=64)
def _log_shares(n: int) -> tuple[Array, Array]:
    """Return j >= 1, and log(P(Bin(N-1, ½) < j)/j!)."""
    shares = list(accumulate(math.comb(n - 1, i) for i in range(n)))
    powers = n + MORE_POWERS
    logs = [math.log(shares[min(j, n) - 1]) - (n - 1) * math.log(2.0) - math.lgamma(j + 1) for j in range(1, powers)]
    return np.arange(1.0, powers), np.array(logs)
