"""The sum of independent losses: K on grids of the complex plane that all queries share.

Tilts are θ_k = 2^{k/8}, steps along the line η_m = 2^{m/4}: two queries about the same mechanism, with other counts, ε
or δ, meet at the same points, and values are kept. A composition adds what its parts keep.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from cumulant.loss.cache import CACHE, SIMILAR, BatchedTable, evaluate_by_kind
from cumulant.loss.cgf import combined_failure
from cumulant.loss.loss_nodes import LossNodes
from cumulant.loss.pair import DominatingPair, GaussianPair
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.decay import Cells, escape
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import float_above

PER_OCTAVE = 8  # tilts per doubling: the best one is missed by 4 %, which costs nothing
SCALES = 16  # frequencies of one chunk of decay bounds, two per octave
ALIKE = 1 / 32  # octaves within which parameters are so near that the worst of a family speaks for all
UNIT = 2.0**-53  # half a unit in the last place
FEW_NODES = 4  # octave up to which the nodes of one tilt are few enough to serve smaller ones


Family = tuple[tuple[DominatingPair, ...], int]
"""Pairs that are much alike, and how many releases have one of them."""


@final
@dataclass(frozen=True, slots=True)
class LossSum:
    """Pairs with counts; composed Gaussians are one more pair, N(μ, 1) against N(0, 1)."""

    parts: tuple[tuple[DominatingPair, int], ...]
    mean: float

    @staticmethod
    def of(releases: Sequence[tuple[DominatingPair | GaussianPair, int]]) -> LossSum:
        gaussians = [(pair, count) for pair, count in releases if isinstance(pair, GaussianPair)]
        others = [(pair, count) for pair, count in releases if isinstance(pair, DominatingPair)]
        told = tuple((pair, count) for pair, count in others if not pair.reveals_nothing)
        return LossSum(told, GaussianPair.product(gaussians).mean)

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
        """The largest finite loss of all, rounded up unless the product is a double."""
        tops = [(pair.supremum, n) for pair, n in self.parts]
        if self.variance > 0 or math.inf in [top for top, _ in tops]:
            return math.inf
        if -math.inf in [top for top, _ in tops]:
            return -math.inf
        return float_above(sum((n * Fraction(top) for top, n in tops), Fraction(0)))

    @property
    def divergence(self) -> float:
        """The Kullback-Leibler divergence of P from Q where the loss is finite, E_P[L]."""
        kept = _cumulants.of(*self._blocks(0))
        return self.variance / 2 + math.fsum(
            n * block.divergence for block, (_, n) in zip(kept, self.parts, strict=True)
        )

    @property
    def log_top_mass(self) -> float:
        """Log P(L = sup L); -inf where the largest loss is not attained."""
        return math.fsum(n * pair.log_top_mass for pair, n in self.parts) if self.variance == 0 else -math.inf

    def cumulants(self, octave: int) -> tuple[Array, Array, Array]:
        """Return K, K' and K'' at the tilts of one octave, from 2^octave on."""
        theta = tilts(octave)
        gaussian = np.array([theta * (theta + 1) / 2, theta + 0.5, np.ones(PER_OCTAVE)])
        parts = self._counts @ self._cumulants_of(octave).reshape(len(self.parts), -1)
        k, mean, spread = self.variance * gaussian + parts.reshape(3, PER_OCTAVE)
        return k, mean, spread

    def _cumulants_of(self, octave: int) -> Array:
        """Return K, K' and K'' of each part."""
        kept = _cumulants.of(*self._blocks(octave))
        return np.array([block.at(octave) for block in kept]).reshape(len(kept), 3, PER_OCTAVE)

    def _blocks(self, octave: int) -> tuple[list[DominatingPair], list[tuple[int, int]]]:
        """Return the pairs, and in which octaves they share their nodes with this one."""
        return self._pairs, [shared_octaves(pair, octave) for pair in self._pairs]

    @property
    def _pairs(self) -> list[DominatingPair]:
        return [pair for pair, _ in self.parts]

    @property
    def _counts(self) -> Array:
        return np.array([float(n) for _, n in self.parts])

    def families(self, index: int) -> list[Family]:
        """Return parts that are much alike, together: first those that spread the tilted loss most."""
        if len(self.parts) == 1:
            return [((self.parts[0][0],), self.parts[0][1])]
        octave, place = divmod(index, PER_OCTAVE)
        spread = self._counts * self._cumulants_of(octave)[:, 2, place]
        groups: dict[Hashable, list[int]] = {}
        for i, pair in enumerate(self._pairs):
            groups.setdefault(pair.kind(ALIKE), []).append(i)
        order = sorted(groups.values(), key=lambda members: -float(np.sum(spread[members])))
        return [(tuple(self.parts[i][0] for i in group), sum(self.parts[i][1] for i in group)) for group in order]

    def escape(self, families: Sequence[Family], index: int, chunk: int, enough: float) -> tuple[Array, Array, float]:
        """Return frequencies, bounds of -log|φ| from each to the next, and one for all beyond the last.

        Families that come after `enough` nats are left out: what some have fallen by, all have.
        """
        frequencies = chunk_frequencies(chunk)
        total = self.variance * frequencies**2 / 2
        for family, count in families:
            total = total + count * _escape(family, index, chunk)
            if np.min(total) >= enough:
                break
        return frequencies, total[:-1], float(total[-1])

    def line(self, index: int, eta: float, count: int) -> tuple[Complex, Array]:
        """Return K(θ + ijη) for j < count, and a bound of its error."""
        z = tilt(index) + 1j * eta * np.arange(count)
        total = np.asarray(self.variance * (z * (z + 1) / 2), dtype=complex)
        error: Array = np.zeros(count)
        if not self.parts:
            return total, error
        asked = (self._pairs, [(index, eta, count)] * len(self.parts))
        kept = _kept_lines.of(*asked)
        values, errors = np.array([line[0] for line in kept]), np.array([line[1] for line in kept])
        total += self._counts @ values
        # a sum of many parts loses a unit of its terms for each of them, whichever way they are added
        error = self._counts @ errors + UNIT * (len(kept) - 1) * (self._counts @ np.abs(values))
        return total, error * (1 + 2 * UNIT * len(kept))

    @property
    def releases(self) -> int:
        """How many there are beside the Gaussians."""
        return sum(n for _, n in self.parts)

    def turning(self, index: int, omega: Array, widths: Sequence[float], end: float) -> list[tuple[Array, Array]]:
        """Return D and the bound of the slope of √D of `inversion._cut_by_samples` at each ω, of all but the Gaussians.

        The nodes are good for frequencies up to `end`.
        """
        question = (index, tuple(omega.tolist()), tuple(widths), end)
        found = evaluate_by_kind([(pair, question) for pair in self._pairs], _turning)
        totals = np.tensordot(self._counts, np.array([found[pair, question] for pair in self._pairs]), 1)
        return [(turned, np.sqrt(square)) for turned, square in totals]

    def effort(self, index: int) -> tuple[float, float]:
        """Return (a, b): about a + bω nodes are needed up to frequency ω, over all parts."""
        a, b = 1.0, 0.0
        kinds = [pair.kind(SIMILAR) for pair in self._pairs]
        sizes = Counter(kinds)
        for kind, pair in dict(zip(kinds, self._pairs, strict=True)).items():
            nodes, waves = _effort(pair, index)
            a, b = a + sizes[kind] * nodes, b + sizes[kind] * waves
        return a, b


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


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """K, K' and K'' of one pair at the tilts of some octaves, and E_P[L]."""

    first: int
    values: Array
    divergence: float

    def at(self, octave: int) -> Array:
        place = (octave - self.first) * PER_OCTAVE
        return self.values[:, place : place + PER_OCTAVE]


def shared_octaves(pair: DominatingPair, octave: int) -> tuple[int, int]:
    """Return the first of the octaves that share their nodes, and how many they are."""
    size = pair.octaves if octave < FEW_NODES else 1
    return octave - octave % size, size


def _nodes(pairs: Sequence[DominatingPair], theta: float, omega: float) -> LossNodes:
    """Return nodes that serve all pairs of one kind."""
    return pairs[0].together(pairs).nodes(theta, omega)


def _blocks(pairs: Sequence[DominatingPair], first: int, size: int) -> list[_Block]:
    nodes = _nodes(pairs, 2.0 ** (first + size), 0.0)
    values = np.stack(nodes.cumulants(tilts(first), size), axis=1)
    return [_Block(first, row, float(kappa)) for row, kappa in zip(values, nodes.divergence, strict=True)]


_cumulants = BatchedTable("cumulants", _blocks)


@CACHE.remember
def _escape(family: tuple[DominatingPair, ...], index: int, chunk: int) -> Array:
    return escape(_cells(family, index), chunk_frequencies(chunk))


@CACHE.remember
def _cells(family: tuple[DominatingPair, ...], index: int) -> Cells:
    k = _k_at(family, index)
    return family[0].together(family).cells(tilt(index), k[:, None] if len(family) > 1 else float(k[0]))


def k_at(pair: DominatingPair, index: int) -> float:
    """Return K at one tilt of the grid."""
    return float(_k_at([pair], index)[0])


def _k_at(pairs: Sequence[DominatingPair], index: int) -> Array:
    octave, place = divmod(index, PER_OCTAVE)
    blocks = _cumulants.of(pairs, [shared_octaves(pair, octave) for pair in pairs])
    return np.array([block.at(octave)[0, place] for block in blocks])


def _lines(pairs: Sequence[DominatingPair], index: int, eta: float, count: int) -> list[tuple[Complex, Array]]:
    nodes = _nodes(pairs, tilt(index), eta * (count - 1))
    return list(zip(*nodes.log_moment(tilt(index), eta, count, _k_at(pairs, index)), strict=True))


_kept_lines = BatchedTable("lines", _lines)


def _turning(
    pairs: Sequence[DominatingPair], index: int, omega: tuple[float, ...], widths: tuple[float, ...], end: float
) -> list[Array]:
    nodes = _nodes(pairs, tilt(index), end)
    return list(nodes.turning(tilt(index), np.array(omega), widths, _k_at(pairs, index)))


@CACHE.remember
def _effort(pair: DominatingPair, index: int) -> tuple[float, float]:
    return float(pair.nodes(tilt(index), 0.0).losses.shape[1]), pair.waves(tilt(index))
