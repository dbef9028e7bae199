"""The sum of independent losses: K on grids of the complex plane that all queries share.

Tilts are θ_k = 2^{k/8}, steps along the line η_m = 2^{m/4}: two queries about the same mechanism, with other counts, ε
or δ, meet at the same points, and values are kept. A composition adds what its parts keep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from cumulant.loss.cgf import combined_failure
from cumulant.loss.loss_nodes import LossNodes
from cumulant.loss.pair import DominatingPair, GaussianPair
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.decay import escape
from cumulant.numerics.logspace import Array

PER_OCTAVE = 8  # tilts per doubling: the best one is missed by 4 %, which costs nothing
SCALES = 16  # frequencies of one chunk of decay bounds, two per octave
KEPT = 512
FEW_NODES = 5  # octave up to which the nodes of one tilt are few enough to serve smaller ones


@final
@dataclass(frozen=True, slots=True)
class LossSum:
    """Pairs with counts; composed Gaussians are one more pair, N(μ, 1) against N(0, 1)."""

    parts: tuple[tuple[DominatingPair, int], ...]
    mean: float

    @staticmethod
    def of(releases: Sequence[tuple[DominatingPair | GaussianPair, int]]) -> LossSum:
        gaussians = [(pair, count) for pair, count in releases if isinstance(pair, GaussianPair)]
        others = tuple((pair, count) for pair, count in releases if isinstance(pair, DominatingPair))
        return LossSum(others, GaussianPair.product(gaussians).mean)

    @property
    def variance(self) -> float:
        """μ², of the loss of the Gaussians; not rounded to 0."""
        return max(self.mean * self.mean, 5e-324) if self.mean > 0 else 0.0

    @property
    def released_nothing(self) -> bool:
        return not self.parts and self.mean == 0

    @property
    def failure(self) -> float:
        """P(L = ∞) = 1 - Π (1-p_i)^{n_i}, rounded up."""
        return combined_failure([(pair.failure, n) for pair, n in self.parts])

    @property
    def supremum(self) -> float:
        """The largest finite loss of all, rounded up."""
        if self.variance > 0:
            return math.inf
        plain = math.fsum(n * pair.supremum for pair, n in self.parts)
        return plain + abs(plain) * 2.0**-51 if len(self.parts) > 1 else plain

    @property
    def divergence(self) -> float:
        """The Kullback-Leibler divergence of P from Q where the loss is finite, E_P[L]."""
        return self.variance / 2 + math.fsum(n * _nodes(pair, 1.0, 0.0).divergence for pair, n in self.parts)

    @property
    def log_top_mass(self) -> float:
        """Log P(L = sup L); -inf where the largest loss is not attained."""
        return math.fsum(n * pair.log_top_mass for pair, n in self.parts) if self.variance == 0 else -math.inf

    def cumulants(self, octave: int) -> tuple[Array, Array, Array]:
        """Return K, K' and K'' at the tilts of one octave, from 2^octave on."""
        theta = tilts(octave)
        k, mean, spread = (theta * (theta + 1) / 2, theta + 0.5, np.ones(PER_OCTAVE))
        totals = [self.variance * column for column in (k, mean, spread)]
        for pair, count in self.parts:
            totals = [total + count * column for total, column in zip(totals, _cumulants(pair, octave), strict=True)]
        return totals[0], totals[1], totals[2]

    def escape(self, index: int, chunk: int) -> tuple[Array, Array, float]:
        """Return frequencies, bounds of -log|φ| from each to the next, and one for all beyond the last."""
        frequencies = chunk_frequencies(chunk)
        total = self.variance * frequencies**2 / 2
        for pair, count in self.parts:
            total = total + count * _escape(pair, index, chunk)
        return frequencies, total[:-1], float(total[-1])

    def line(self, index: int, step: int, count: int) -> tuple[Complex, Array]:
        """Return K(θ + ijη) for j < count, and a bound of its error."""
        z = tilt(index) + 1j * length(step) * np.arange(count)
        total = np.asarray(self.variance * (z * (z + 1) / 2), dtype=complex)
        error: Array = np.zeros(count)
        for pair, n in self.parts:
            values, errors = (_kept_line if count <= KEPT else _line)(pair, index, step, count)
            total, error = total + n * values, error + n * errors
        return total, error

    def points(self, index: int, omega: Array) -> tuple[Complex, Array]:
        """Return K(θ + iω) at any frequencies, and a bound of its error."""
        z = tilt(index) + 1j * omega
        total = np.asarray(self.variance * (z * (z + 1) / 2), dtype=complex)
        error = np.zeros(len(omega))
        for pair, n in self.parts:
            values, errors = _points(pair, index, omega)
            total, error = total + n * values, error + n * errors
        return total, error

    def turning(self, index: int, omega: Array, widths: Sequence[float]) -> list[tuple[Array, Array]]:
        """Return D and the bound of the slope of √D of `inversion._sooner` at each ω, of all but the Gaussians."""
        totals = np.zeros((len(widths), 2, len(omega)))
        for pair, n in self.parts:
            totals += n * _turning(pair, index, omega, widths)
        return [(turned, np.sqrt(square)) for turned, square in totals]

    def effort(self, index: int) -> tuple[float, float]:
        """Return (a, b): about a + bω nodes are needed up to frequency ω, over all parts."""
        efforts = [_effort(pair, index) for pair, _ in self.parts]
        return sum((a for a, _ in efforts), 1.0), sum((b for _, b in efforts), 0.0)


def tilt(index: int) -> float:
    return float(2.0 ** (index / PER_OCTAVE))


def tilts(octave: int) -> Array:
    return np.asarray(2.0 ** (octave + np.arange(PER_OCTAVE) / PER_OCTAVE))


def length(step: int) -> float:
    """Return the spacing η_m of nodes on a line."""
    return float(2.0 ** (step / 4))


def chunk_frequencies(chunk: int) -> Array:
    """Return SCALES + 1 frequencies, two per octave."""
    return np.asarray(2.0 ** ((chunk * SCALES + np.arange(SCALES + 1)) / 2))


@lru_cache(maxsize=4096)
def _nodes(pair: DominatingPair, theta: float, omega: float) -> LossNodes:
    return pair.nodes(theta, omega)


@lru_cache(maxsize=32768)
def _cumulants(pair: DominatingPair, octave: int) -> tuple[Array, Array, Array]:
    shared = pair.octaves if octave < FEW_NODES else 1
    return _nodes(pair, 2.0 ** (octave - octave % shared + shared), 0.0).cumulants(tilts(octave))


@lru_cache(maxsize=32768)
def _escape(pair: DominatingPair, index: int, chunk: int) -> Array:
    return escape(pair.cells(tilt(index), k_at(pair, index)), chunk_frequencies(chunk))


def k_at(pair: DominatingPair, index: int) -> float:
    """Return K at one tilt of the grid."""
    octave, place = divmod(index, PER_OCTAVE)
    return float(_cumulants(pair, octave)[0][place])


def _points(pair: DominatingPair, index: int, omega: Array) -> tuple[Complex, Array]:
    nodes = pair.nodes(tilt(index), float(omega[-1]))
    return nodes.log_moment(tilt(index), omega, k_at(pair, index))


def _turning(pair: DominatingPair, index: int, omega: Array, widths: Sequence[float]) -> Array:
    """Return E[χχ'(1 - cos ωΔ)] and E[χχ'Δ²]/2 for χ = e^{-(ω(L-m)/width)²/2}, m the median of the tilted loss."""
    nodes = pair.nodes(tilt(index), float(omega[-1]))
    tilted = np.exp(nodes.log_masses + tilt(index) * nodes.losses - k_at(pair, index))
    order = np.argsort(nodes.losses)
    middle = nodes.losses[order][np.searchsorted(np.cumsum(tilted[order]), 0.5 * float(np.sum(tilted)))]
    apart = nodes.losses - middle
    phase = omega[:, None] * apart
    versine, sine = 2 * np.sin(phase / 2) ** 2, np.sin(phase)

    def of(width: float) -> tuple[Array, Array]:
        weight = tilted * np.exp(-((phase / width) ** 2) / 2)
        mass, up, across = (np.sum(weight * values, axis=1) for values in (1.0, versine, sine))
        # P² - |φ|² by half angles, without a difference of two numbers near 1
        return np.maximum(2 * mass * up - up**2 - across**2, 0.0), mass * (weight @ apart**2) - (weight @ apart) ** 2

    return np.array([of(width) for width in widths])


def _line(pair: DominatingPair, index: int, step: int, count: int) -> tuple[Complex, Array]:
    nodes = pair.nodes(tilt(index), length(step) * (count - 1))
    return nodes.log_moment_on_grid(tilt(index), length(step), count, k_at(pair, index))


@lru_cache(maxsize=32768)
def _effort(pair: DominatingPair, index: int) -> tuple[float, float]:
    return float(len(_nodes(pair, tilt(index), 0.0).losses)), pair.waves(tilt(index))


_kept_line = lru_cache(maxsize=8192)(_line)
