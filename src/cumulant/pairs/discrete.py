"""Privacy losses on finitely many nodes: cumulants on the real line, and K(z) on a line of the complex plane.

With masses p_i of P and E(x) = e^x - 1 - x,

    M(z) - 1 = Σ p_i E(zL_i) + z·κ,     κ = E_P[L] = Σ p_i E(-L_i) + 1 - Q(L > -∞),

and along a line E(zL) is taken apart into terms of second order as well, so a small loss keeps its relative accuracy:
n releases multiply K by n, and nothing of size 1 was subtracted. Several laws stand in rows and are evaluated together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from cumulant.numerics.complex_plane import Complex, log1p_complex, sine_versine_of_multiples
from cumulant.numerics.logspace import Array
from cumulant.numerics.logspace import exp_excess as real_exp_excess
from cumulant.numerics.nonuniform import characteristic_function

LARGE = 0.5  # K(θ) from which the sum is taken as it stands, tilted: 1 is no longer the larger part
ALL = 40.0  # x from where e^x - 1 - x is e^x to rounding
CHUNK = 50_000  # numbers at a time: they stay in the cache
MOST_TURNED = 300_000  # products of nodes and the fewer frequencies at a time: ten arrays of them take 24 MB
CHEAP = 400_000  # sines and cosines that are no trouble: the plain sum rounds less than the transform
PER_NODE, PER_FREQUENCY = 20, 60  # what either costs by fast transform, in pairs of sine and cosine
PER_ROW, PER_PRODUCT = 5.0, 0.05  # what a node costs at a frequency of either part, and at one of their sums
PHASE = 2.0**-50  # relative error of a phase ωL, and of what is made of it
EXPONENTIALS = 1e-15  # relative error of an exponential, and of products with it
UNSEEN_SHARE = 1e-17  # of M(θ), for all nodes together that are left out
ROUNDOFF = 8e-15  # relative error of a sum of up to 1e5 products of elementary functions, summed in blocks

CumulantRows = tuple[Array, Array, Array]  # K, K' and K''


@final
@dataclass(frozen=True, slots=True, eq=False)
class DiscreteLosses:
    """Losses L_i, the logarithms of their masses under P, and κ = E_P[L]: one law a row.

    `slip` is how far the losses may be from where they should be, as the points of a lattice. `loss_units` is by how
    many roundings of L a mass may be off: where it was made of q and e^L, by two. `missing` is what the masses lack of
    1, at most: as formed here, as if they lacked nothing, M(z) is above Σ p e^{zL} by up to (1 + |z|)·missing.
    `uncertainty` is how far each mass may be off beside that, relatively.
    """

    losses: Array
    log_masses: Array
    divergence: Array
    slip: float = 0.0
    loss_units: float = 0.0
    missing: float = 0.0
    uncertainty: float | Array = 0.0

    @staticmethod
    def of(losses: Array, log_masses: Array, lost: float | None = 0.0, **doubts: Any) -> DiscreteLosses:
        """Return nodes with κ summed from positive terms; `lost` is the mass of Q that P lacks, None if not known."""
        losses, log_masses = np.atleast_2d(losses), np.atleast_2d(log_masses)
        if lost is None:
            return DiscreteLosses(losses, log_masses, np.sum(np.exp(log_masses) * losses, axis=1), **doubts)
        near = np.maximum(losses, -1.0)
        terms = np.exp(log_masses) * real_exp_excess(-near)
        if np.any(losses < -1.0):
            far = np.exp(log_masses - losses) - np.exp(log_masses) * (1 - losses)
            terms = np.where(losses > -1.0, terms, far)
        return DiscreteLosses(losses, log_masses, np.sum(terms, axis=1) + lost, **doubts)

    @property
    def log_affinity(self) -> Array:
        """Log E_P e^{-L/2}, the logarithm of Bhattacharyya's coefficient Σ √(pq)."""
        exponents = self.log_masses - self.losses / 2
        peak = np.max(exponents, axis=1, keepdims=True)
        return np.asarray(np.log(np.sum(np.exp(exponents - peak), axis=1)) + peak[:, 0])

    def cumulants(self, theta: Array) -> CumulantRows:
        """Return K(θ) and the mean and variance of the loss tilted by e^{θL}, for real θ > 0: a row for each law."""
        some = max(1, CHUNK // self.losses.shape[1])  # tilts at a time
        parts = np.split(theta, range(some, len(theta), some))
        return _joined([self._cumulants_by_rows(part) for part in parts], axis=1)

    def _cumulants_by_rows(self, theta: Array) -> CumulantRows:
        return _joined(self._by_rows(lambda laws: laws._cumulants(theta), len(theta)), axis=0)

    def _cumulants(self, theta: Array) -> CumulantRows:
        """Return K, mean and variance from tilted masses beside their largest."""
        x = theta[:, None] * self.losses[:, None, :]
        exponents = self.log_masses[:, None, :] + x
        scale = np.max(exponents, axis=2)
        tilted = np.exp(exponents - scale[:, :, None])
        total = np.sum(tilted, axis=2)
        column = self.losses[:, :, None]
        mean = (tilted @ column)[:, :, 0] / total
        variance = (tilted @ column**2)[:, :, 0] / total - mean**2
        k = np.log(total) + scale
        small = np.flatnonzero(np.any(np.abs(k) < LARGE, axis=0))
        if len(small):
            near = self._small_k(theta[small], x[:, small], exponents[:, small])
            k[:, small] = np.where(np.abs(k[:, small]) < LARGE, near, k[:, small])
        return k, mean, np.maximum(variance, 0.0)

    def _small_k(self, theta: Array, x: Array, exponents: Array) -> Array:
        """Return K from Σ p(e^x - 1 - x), where K is small."""
        terms = np.exp(self.log_masses)[:, None, :] * real_exp_excess(np.minimum(x, ALL))
        if np.max(x) > ALL:
            terms = np.where(x < ALL, terms, np.exp(np.minimum(exponents, 1.0)))  # where K is small none is above
        excess = np.sum(terms, axis=2) + theta * self.divergence[:, None]
        return np.asarray(np.log1p(np.clip(excess, -0.9, 1.0)))

    def rounding_of_moments(self, theta: Array, k: Array) -> Array:
        """Return a bound of what rounding makes of K(θ), from K(θ): a row for each law.

        A mass is off, relatively, by units of the exponents it was made of: of log p, and of L if log q + L is log p.
        M - 1 = Σ p E(θL) + θ Σ p E(-L), where E(x) <= min{x²/2, max(1, -x)} e^{max(x, 0)}.
        """
        some = max(1, CHUNK // self.losses.size)  # orders at a time
        if len(theta) > some:
            ends = range(some, len(theta), some)
            pieces = zip(np.split(theta, ends), np.split(k, ends, axis=1), strict=True)
            return np.concatenate([self.rounding_of_moments(*piece) for piece in pieces], axis=1)
        x, units = theta[:, None] * self.losses[:, None, :], self._units()[:, None, :]
        moments = np.exp(self.log_masses[:, None, :] + np.maximum(x, 0.0) - k[:, :, None]) * _excess_factor(x)
        of_divergence = self.rounding_of_divergence()[:, None] * np.exp(-k)
        return np.asarray(np.sum(moments * (units + 2.0**-51 * np.abs(x)), axis=2) + theta * of_divergence)

    def rounding_of_divergence(self) -> Array:
        """Return a bound of what rounding makes of κ: of a term p E(-L), where exponents are large."""
        terms = np.exp(self.log_masses + np.maximum(-self.losses, 0.0)) * _excess_factor(-self.losses)
        return np.asarray(np.sum(terms * self._units(), axis=1))

    def _units(self) -> Array:
        """Return how far each mass may be off, relatively."""
        units = np.abs(self.log_masses) + self.loss_units * np.abs(self.losses)
        return np.asarray(2.0**-51 * units + self.uncertainty)

    def log_moment(self, theta: float, step: float, count: int, k_theta: Array) -> tuple[Complex, Array]:
        """Return K(θ + iω) at ω = 0, η, 2η, …, and a bound of log(1 + |ΔM/M|), from K(θ): a row for each law.

        By a fast Fourier transform where that is cheaper by CHEAP sines, at least: it is off by units of M, not of K.
        """
        nodes = self.losses.shape[1]
        if product_effort(nodes, count) < CHEAP + transform_effort(nodes, count):
            return self._by_products(theta, step, count, k_theta)
        tilted, rounding, first, _ = self._sizes(theta, k_theta)
        pieces = [characteristic_function(*law, step, count) for law in zip(self.losses, tilted, strict=True)]
        sums, error = np.array([values for values, _ in pieces]), np.array([bound for _, bound in pieces])
        with np.errstate(divide="ignore"):
            logs = np.asarray(np.log(sums), dtype=complex)
        omega = step * np.arange(count, dtype=float)
        return with_error(error + rounding + PHASE * first * omega + self._slipped(theta, omega), logs, k_theta)

    def _slipped(self, theta: float, omega: Array) -> Array:
        """Return a bound of |e^{zx} - 1| for |x| <= slip, and of what is missing."""
        if not self.slip and not self.missing:
            return np.zeros(omega.shape)
        z = np.hypot(theta, omega)
        return np.asarray(np.expm1(np.minimum(self.slip * z, 1.0)) + self.missing * (1 + z))

    def _by_products(self, theta: float, step: float, count: int, k_theta: Array) -> tuple[Complex, Array]:
        omega = step * np.arange(count, dtype=float)
        width = 2 * shorter(count)
        pieces = self._by_rows(lambda laws, k: laws._turned(theta, step, count, k), width, k_theta)
        _, rounding, first, second = self._sizes(theta, k_theta)
        # |E(zL)| <= |z/θ|² E(θL): the remainder of Taylor's formula as an integral
        excess = np.maximum(np.expm1(np.minimum(k_theta, LARGE)), 0.0) + 2 * theta * np.abs(self.divergence)
        share = np.where(np.abs(k_theta) < LARGE, excess, np.inf)[:, None] * (1 + (omega / theta) ** 2)
        turned = np.minimum(omega * first, omega * omega * second)  # a phase counts by its square while it is small
        error = rounding * np.minimum(share, 2.0) + PHASE * turned + self._slipped(theta, omega)
        return with_error(error, np.concatenate(pieces), k_theta)

    def _turned(self, theta: float, step: float, count: int, k_theta: Array) -> Complex:
        """Return log M(z)/M(θ) = log(1 + Σ P_i (e^{iωL_i} - 1)), P_i = p_i e^{θL_i}/M(θ).

        Every ω is a sum a + b, b of the first few and a a multiple of their number: sums over nodes of products of
        functions of a and of b are products of matrices. The functions are those of `sine_versine_of_multiples`.
        """
        tilted = self._tilted(theta, k_theta)
        some = max(1, MOST_TURNED // shorter(count))  # nodes at a time
        even, odd = self._turned_nodes(slice(0, some), tilted, step, count)
        for first in range(some, tilted.shape[1], some):
            more = self._turned_nodes(slice(first, first + some), tilted, step, count)
            even, odd = even + more[0], odd + more[1]
        drift = self._tilted_mean(theta, tilted, k_theta)[:, None] * (step * np.arange(count))
        return log1p_complex(-even, drift + odd)

    def _turned_nodes(self, part: slice, tilted: Array, step: float, count: int) -> tuple[Array, Array]:
        """Return what some nodes add to both sums."""
        losses, tilted, short = self.losses[:, part], tilted[:, part], shorter(count)
        weights = tilted[:, :, None]
        sine_a, versine_a, excess_a = sine_versine_of_multiples(step * short * losses, -(-count // short))
        sine_b, versine_b, excess_b = sine_versine_of_multiples(step * losses, short)
        across, up = sine_a * tilted[:, None, :], versine_a * tilted[:, None, :]
        sines, versines = np.swapaxes(sine_b, 1, 2), np.swapaxes(versine_b, 1, 2)
        even = _outer_sum(versine_a @ weights, versine_b @ weights) - up @ versines + across @ sines
        odd = _outer_sum(excess_a @ weights, excess_b @ weights) - across @ versines - up @ sines
        even, odd = (values.reshape(len(tilted), -1)[:, :count] for values in (even, odd))
        return even, odd

    def _tilted(self, theta: float, k_theta: Array) -> Array:
        """Return the masses P_i = p_i e^{θL_i}/M(θ)."""
        return np.asarray(np.exp(self.log_masses + theta * self.losses - k_theta[:, None]))

    def _tilted_mean(self, theta: float, tilted: Array, k_theta: Array) -> Array:
        """Return E L under the tilted masses; where they are hardly tilted, κ and what tilting adds to it."""
        x = theta * self.losses
        masses = np.exp(self.log_masses)
        scale = np.exp(np.clip(k_theta, -LARGE, LARGE))
        added = np.where(x < ALL, masses * np.expm1(np.minimum(x, ALL)), tilted * scale[:, None])
        near = (self.divergence + np.sum(added * self.losses, axis=1)) / scale
        return np.asarray(np.where(np.abs(k_theta) < LARGE, near, np.sum(tilted * self.losses, axis=1)))

    def _sizes(self, theta: float, k_theta: Array) -> tuple[Array, Array, Array, Array]:
        """Return tilted masses, their relative rounding, which grows with exponents, and E|L| and E L² under them."""
        tilted = self._tilted(theta, k_theta)
        exponents = np.abs(self.log_masses) + (self.loss_units + theta) * np.abs(self.losses)
        terms = (exponents, np.abs(self.losses), self.losses**2)
        size, first, second = (np.sum(tilted * term, axis=1, keepdims=True) for term in terms)
        uncertain = np.sum(tilted * self.uncertainty, axis=1, keepdims=True)
        return tilted, ROUNDOFF + 2.0**-52 * size + uncertain, first, second

    def _by_rows(self, evaluate: Callable[..., Any], width: int, *columns: Array) -> list[Any]:
        """Return what `evaluate` says of some rows at a time: `width` numbers for each node."""
        rows = max(1, CHUNK // (width * self.losses.shape[1]))
        return [
            evaluate(
                replace(
                    self,
                    losses=self.losses[some],
                    log_masses=self.log_masses[some],
                    divergence=self.divergence[some],
                ),
                *(c[some] for c in columns),
            )
            for some in (slice(first, first + rows) for first in range(0, len(self.losses), rows))
        ]


@final
@dataclass(frozen=True, slots=True, eq=False)
class TiltedNodes:
    """Losses with masses p e^{θL}/M(θ), on which M(θ + iω)/M(θ) is right to `error` + PHASE·E|L|·ω + `slip`·|z|."""

    theta: float
    losses: Array
    masses: Array
    error: float
    slip: float = 0.0

    @staticmethod
    def of(theta: float, losses: Array, exponents: Array, loss_units: float, error: float) -> TiltedNodes:
        """Return nodes from log p e^{θL}/M(θ), without those that count for nothing.

        A mass is off, relatively, by units of the exponents it was made of: of log p and of θL, and of L as
        `DiscreteLosses` says.
        """
        masses = np.exp(exponents)
        seen = masses > UNSEEN_SHARE / len(masses)
        losses, masses, exponents = losses[seen], masses[seen], exponents[seen]
        units = np.abs(exponents) + (loss_units + 2 * theta) * np.abs(losses)
        error += UNSEEN_SHARE + EXPONENTIALS + 2.0**-52 * float(masses @ units)
        return TiltedNodes(theta, losses, masses, error)

    @staticmethod
    def joined(parts: Sequence[TiltedNodes], rest: float) -> TiltedNodes:
        """Return nodes of a mixture, with a rest whose loss is 0."""
        losses = np.concatenate([*(part.losses for part in parts), np.zeros(1)])
        masses = np.concatenate([*(part.masses for part in parts), np.array([rest])])
        error, slip = sum(part.error for part in parts), max(part.slip for part in parts)
        return TiltedNodes(parts[0].theta, losses, masses, error + 2.0**-52 * rest, slip)

    def log_moment(self, step: float, count: int) -> tuple[Complex, Array]:
        """Return log M(θ + iω)/M(θ) at ω = 0, η, 2η, …, and a bound of log(1 + |ΔM/M|)."""
        values, error = characteristic_function(self.losses, self.masses, step, count)
        omega = step * np.arange(count, dtype=float)
        error += self.error + PHASE * float(self.masses @ np.abs(self.losses)) * omega
        if self.slip:
            error += np.expm1(np.minimum(self.slip * np.hypot(self.theta, omega), 1.0))
        with np.errstate(divide="ignore"):
            logs = np.asarray(np.log(values), dtype=complex)[None]
        logs, error = with_error(error[None], logs, np.zeros(1))
        return logs[0], error[0]


def line_effort(nodes: float, count: int) -> float:
    """Return about what a line of `count` frequencies costs, in pairs of sine and cosine."""
    return min(product_effort(nodes, count), CHEAP + transform_effort(nodes, count))


def product_effort(nodes: float, count: int) -> float:
    return nodes * (2 * PER_ROW * shorter(count) + PER_PRODUCT * count)


def transform_effort(nodes: float, count: int) -> float:
    return PER_NODE * nodes + PER_FREQUENCY * count


def shorter(count: int) -> int:
    """Return how many frequencies the shorter part has: all others are sums."""
    return math.isqrt(max(count - 1, 0)) + 1


def _excess_factor(x: Array) -> Array:
    """Return f = min{x²/2, max(1, -x)}: e^x - 1 - x is at most f·max(e^x, 1)."""
    return np.asarray(np.minimum(x * x / 2, np.maximum(1.0, -x)))


def _joined(pieces: list[CumulantRows], *, axis: int) -> CumulantRows:
    k, mean, variance = (np.concatenate(column, axis=axis) for column in zip(*pieces, strict=True))
    return k, mean, variance


def _outer_sum(a: Array, b: Array) -> Array:
    """Return a_i + b_j for columns (…, i, 1) and (…, j, 1)."""
    return np.asarray(a + np.swapaxes(b, 1, 2))


def with_error(error: Array, values: Complex, k_theta: Array) -> tuple[Complex, Array]:
    """Return K and log(1 + |ΔM/M|) from log M(z)/M(θ) and its error, which stands for |M| where M drowns in it."""
    floor = np.log(np.maximum(error, 1e-300))
    raised = np.maximum(values.real, floor) + 1j * np.where(np.isfinite(values.imag), values.imag, 0.0)
    with np.errstate(over="ignore"):
        return raised + k_theta[:, None], np.log1p(2 * error * np.exp(-raised.real))
