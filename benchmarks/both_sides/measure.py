"""Positive measures of composed losses on both sides of a cut: their transforms, with what they are off by.

With near and far moments N_i and J_i of a release, Π (N_i + J_i)^{n_i} - Π N_i^{n_i} = S (e^g - 1), S = Π N_i^{n_i}
and g = Σ n_i log(1 + J_i/N_i). It is a polynomial with positive coefficients, so where its arguments are off by a and
b it is off by at most what a + |N|, b + |J| give more than |N|, |J|.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.both_sides.panels import Weighed, between, mirrored_between
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import ROUNDOFF
from cumulant.numerics.complex_plane import Complex, log1p_complex
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.numerics.nonuniform import characteristic_function

OCTAVES_DOWN, OCTAVES_UP, STEPS_PER_OCTAVE = 5, 4, 4  # over (1 - log δ)/|ε|
TURN_UNITS = 2.0**-50
DOUBLE_EXPONENT = 690.0  # of a double, in nats


class Measure(ABC):
    """A positive measure of sums of losses, whose profile a band bounds."""

    losses: ComposedPairs

    @abstractmethod
    def sides(self, between_tilts: tuple[float, float], omega: float) -> list[tuple[Weighed, Weighed | None, int]]:
        """Return nodes of what is kept of each release, and of what at least one has to be, if there is such."""

    def tilts(self, epsilon: float, log_delta: float) -> tuple[Array, Array]:
        """Return tilts around the place where a line may lie, and K there."""
        first = (1 - log_delta) / abs(epsilon)
        tau = first * 2.0 ** np.arange(-OCTAVES_DOWN, OCTAVES_UP + 1e-9, 1 / STEPS_PER_OCTAVE)
        log_near, grown = self.losses.variance * tau * (tau + 1) / 2, np.zeros(len(tau))
        for near, far, n in self.sides((float(tau[0]), float(tau[-1])), 0.0):
            log_n = _log_sums(near, tau)
            log_near = log_near + n * log_n
            if far is not None:
                grown = grown + n * np.logaddexp(0.0, _log_sums(far, tau) - log_n)
        k = log_near + (log_expm1(grown) if np.any(grown) else 0.0)
        return tau, np.where(np.isfinite(k), k + 1e-10 * (1 + np.abs(k)), np.inf)

    def line(self, theta: float, eta: float, count: int) -> tuple[float, Complex, Array]:
        """Return K(θ), the transform over M(θ) along a line, and a bound of its error."""
        omega = eta * np.arange(count, dtype=float)
        square = self.losses.variance
        log_s: Complex = -square * omega**2 / 2 + 1j * square * (theta + 0.5) * omega
        log_size, log_more = log_s.real.copy(), log_s.real.copy()  # of |S|, and with its error
        k = square * theta * (theta + 1) / 2
        g, size_g, more_g = np.zeros(count, dtype=complex), np.zeros(count), np.zeros(count)
        for near, far, n in self.sides((theta, theta), eta * count):
            top_n, phi, off = _transform(near, theta, eta, count)
            logs = np.log(phi)
            k, log_s = k + n * top_n, log_s + n * logs
            log_size, log_more = log_size + n * logs.real, log_more + n * np.log(np.abs(phi) + off)
            if far is not None:
                top_j, psi, off_j = _transform(far, theta, eta, count)
                ratio = math.exp(min(top_j - top_n, DOUBLE_EXPONENT))
                r = ratio * psi / phi
                g = g + n * log1p_complex(r.real, r.imag)
                size_g = size_g + n * np.log1p(np.abs(r))
                more_g = more_g + n * np.log1p(ratio * (np.abs(psi) + off_j) / (np.abs(phi) + off))
        if not np.any(size_g):
            values = np.exp(log_s)
            return k, values, np.exp(log_more) - np.exp(log_size) + ROUNDOFF * np.exp(log_size) * (8 + np.abs(log_s))
        scale = float(log_expm1(np.array([g[0].real]))[0])
        values = _grown(np.asarray(log_s - scale), g)
        most, size = (np.exp(x + y - scale) * -np.expm1(-y) for x, y in ((log_more, more_g), (log_size, size_g)))
        return k + scale, values, np.maximum(most - size, 0.0) + ROUNDOFF * most * (16 + np.abs(log_s) + np.abs(g))


@final
@dataclass(frozen=True, slots=True, eq=False)
class NearMeasure(Measure):
    """Π N_i^{n_i} of L under P."""

    losses: ComposedPairs
    cuts: tuple[float, ...]

    def sides(self, between_tilts: tuple[float, float], omega: float) -> list[tuple[Weighed, Weighed | None, int]]:
        parts = zip(self.losses.parts, self.cuts, strict=True)
        return [(between(pair, -math.inf, cut, between_tilts, omega), None, n) for (pair, n), cut in parts]


@final
@dataclass(frozen=True, slots=True, eq=False)
class FarMeasure(Measure):
    """Π M_i^{n_i} - Π N_i^{n_i} of -L under Q, losses below a floor left out."""

    losses: ComposedPairs
    cuts: tuple[float, ...]
    floor: float

    def sides(self, between_tilts: tuple[float, float], omega: float) -> list[tuple[Weighed, Weighed | None, int]]:
        found: list[tuple[Weighed, Weighed | None, int]] = []
        for (pair, n), cut in zip(self.losses.parts, self.cuts, strict=True):
            floor = self.floor if cut < math.inf else -math.inf
            near = mirrored_between(pair, floor, cut, between_tilts, omega)
            found.append((near, mirrored_between(pair, cut, math.inf, between_tilts, omega), n))
        return found


def _grown(log_s: Complex, g: Complex) -> Complex:
    """Return e^{s}(e^g - 1) without overflow."""
    return np.where(g.real > 0, -np.exp(log_s + g) * np.expm1(-g), np.exp(log_s) * np.expm1(g))


def _log_sums(nodes: Weighed, tau: Array) -> Array:
    """Return log Σ p e^{τL}; -inf of nothing."""
    if not len(nodes.losses):
        return np.full(len(tau), -np.inf)
    logs = tau[:, None] * nodes.losses + nodes.log_masses
    top = np.max(logs, axis=1)
    return np.asarray(np.log(np.sum(np.exp(logs - top[:, None]), axis=1)) + top)


def _transform(nodes: Weighed, theta: float, eta: float, count: int) -> tuple[float, Complex, Array]:
    """Return log M(θ) of one side of a release, M(z)/M(θ) along a line, and a bound of its error."""
    if not len(nodes.losses):
        return -math.inf, np.zeros(count, dtype=complex), np.zeros(count)
    logs = nodes.log_masses + theta * nodes.losses
    top = float(np.max(logs))
    weights = np.exp(logs - top)
    total = float(np.sum(weights))
    kept = weights > 0
    losses, weights, logs = nodes.losses[kept], weights[kept] / total, np.abs(nodes.log_masses)[kept]
    phi, off = characteristic_function(losses, weights, eta, count)
    units = ROUNDOFF * (8 + float(weights @ (logs + (2 + theta) * np.abs(losses))))
    turned = TURN_UNITS * float(weights @ np.abs(losses)) * eta * np.arange(count)
    return math.log(total) + top, phi, off + units + turned
