"""Composed pairs: the sum of independent losses, on the grid that all questions share.

A composition adds what its parts keep: two questions about one mechanism, with other counts, ε or δ, meet at the same
points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

import numpy as np

from cumulant.curves.curve import combined_failure
from cumulant.errors import OutOfReach
from cumulant.inversion.closed import ClosedLosses
from cumulant.inversion.contour import Lattice
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.decay import Cells, escape
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import HALF_ULP, LEAST, float_above, sum_above
from cumulant.pairs.cache import CACHE, SIMILAR, BatchedTable, evaluate_by_batch_key
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import CUMULANTS, k_of_each, log_affinity, nodes_together
from cumulant.pairs.discrete import prefers_transform
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.grid import PER_OCTAVE, chunk_frequencies, shared_octaves, tilt, tilts
from cumulant.pairs.maps import Leave
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.pair import DominatingPair, GaussianPair

ALIKE_OCTAVES = 1 / 32  # octaves within which parameters are so near that the worst of a cluster speaks for all
FINE_SINES = 2e7  # sines and cosines that accuracy is worth
MANY_PARTS = 6  # distinct ones, whose nodes together take longer than closed formulas
LARGEST_LOG_SUMS = 40.0  # whose number is counted
MOST_COUNTED = 10_000  # releases, or outputs, whose sums are counted
ALMOST_ALL = 1 - HALF_ULP  # a total variation of 1, but for a double's width: 1 - Π is then within 2^-53 of 1
UNSEEN_NATS, SEEN_DEVIATIONS = 28.0, 8.0  # below δ, and of N(0, 1): what lies beyond counts for nothing
UNDERFLOWN_KL = 1e-290  # more than squares of losses that underflow can take off a divergence: 1e18·1e7 of 5e-324


Octave = tuple[Array, Array, Array, Array]
Parts = tuple[tuple[DominatingPair, int], ...]
LineTable = BatchedTable[tuple[Complex, Array]]
LinePoints = tuple[int, float, int]
"""The index of a tilt, the step η, and how many points there are."""
Cluster = tuple[tuple[DominatingPair, ...], int]
"""Pairs that are much alike, and how many releases have one of them."""


@final
@dataclass(frozen=True, slots=True)
class ComposedPairs:
    """Pairs with counts; composed Gaussians are one more pair, N(μ, 1) against N(0, 1)."""

    parts: Parts
    mean: float
    variance: float = field(compare=False)  # μ², of the loss of the Gaussians; not rounded to 0
    failure: float = field(compare=False)  # P(L = ∞) = 1 - Π (1-p_i)^{n_i}, rounded up
    supremum: float = field(compare=False)  # the largest finite loss of all, rounded up unless the sum is a double
    lattice: Lattice | None = field(compare=False)  # that all losses lie on together, if they do
    closed: ClosedLosses | None = field(
        compare=False, default=None
    )  # the parts, where their moments are closed formulas

    @staticmethod
    def of(releases: Sequence[tuple[DominatingPair | GaussianPair, int]]) -> ComposedPairs:
        """Return the composition; equal pairs, of whatever mechanisms, are kept once."""
        gaussians = [(pair, count) for pair, count in releases if isinstance(pair, GaussianPair)]
        counts: Counter[DominatingPair] = Counter()
        for pair, count in releases:
            if isinstance(pair, DominatingPair) and not pair.reveals_nothing:
                counts[pair] += count
        parts = tuple(counts.items())
        mean = GaussianPair.product(gaussians).mean if gaussians else 0.0
        failing = [(pair.failure, n) for pair, n in parts if pair.failure > 0]
        failure = combined_failure(failing) if failing else 0.0
        if mean > 0:
            variance = max(mean * mean, 5e-324)
            # of few parts nodes are quick, and Gaussians end their lines
            closed = _closed(parts) if len(parts) >= MANY_PARTS else None
            return ComposedPairs(parts, mean, variance, failure, math.inf, None, closed)
        lattice = _lattice(parts)
        closed = _closed(parts) if lattice is None else None
        return ComposedPairs(parts, 0.0, 0.0, failure, _supremum(parts), lattice, closed)

    @property
    def tells_nothing(self) -> bool:
        """Whether all losses are 0: nothing was released, or on samples of nobody."""
        return not self.parts and self.variance == 0

    @property
    def one_table(self) -> FinitePair | None:
        """The pair of a single release with finitely many outputs, whose profile is a sum over them."""
        if self.variance > 0 or len(self.parts) != 1 or self.parts[0][1] != 1:
            return None
        pair = self.parts[0][0]
        return pair if isinstance(pair, FinitePair) and pair.outputs > 0 else None

    @property
    def sums(self) -> float:
        """How many sums of losses there are, counted as if all were different; 0 if not finitely many."""
        if self.variance > 0:
            return 0.0
        sums = 1.0
        for pair, n in self.parts:
            k = pair.outputs
            if k == 0:
                return 0.0
            if n > MOST_COUNTED or k > MOST_COUNTED:
                return math.inf if k > 1 else sums
            log_ways = math.lgamma(n + k) - math.lgamma(n + 1) - math.lgamma(k)
            sums *= math.comb(n + k - 1, n) if log_ways < LARGEST_LOG_SUMS else math.inf
        return sums

    @property
    def log_joint_variation(self) -> float:
        """Log(1 - Π (1 - TV_i)^{n_i}), which is at least log TV, rounded up: couplings of all releases, side by side.

        The total variation of a Gaussian is erf(μ/√8); next to the smallest doubles it must not be rounded down.
        """
        gaussian = math.erf(self.mean / math.sqrt(8.0)) + LEAST if self.mean > 0 else 0.0
        kept = math.log1p(-min(gaussian, ALMOST_ALL))
        kept += math.fsum(n * math.log1p(-min(pair.total_variation, ALMOST_ALL)) for pair, n in self.parts)
        return math.log(max(-math.expm1(kept), LEAST)) + 1e-9

    def reveals_samples(self, epsilon: float) -> bool:
        """Return whether noise is so small that outputs show who is in a sample: δ(ε) is about the chance of that.

        With A, some t is above c, δ(ε) >= P(A) - e^ε Q(A). Where n e^ε Q(t > c) is nothing beside 1 - Π (1 - γ_i)^{n_i}
        and N(μ, 1) lies above c, that is the bound of `log_joint_variation`.
        """
        if self.mean > 0 or self.failure > 0 or not self.parts:
            return False
        c = math.sqrt(2 * (min(epsilon, 1e300) + math.log(self.releases) - self.log_joint_variation + UNSEEN_NATS))
        return all(
            isinstance(pair, CoordinatePair)
            and isinstance(pair.sampling, Leave)
            and isinstance(pair.law, GaussianNoise)
            and pair.law.mean > c + SEEN_DEVIATIONS
            for pair, _ in self.parts
        )

    @property
    def log_pinsker(self) -> float:
        """Log √(KL/2), which is at least log TV (Pinsker's inequality), rounded up; 0 where KL is out of reach.

        KL = E_P[L] is the divergence of P from Q where the loss is finite.
        """
        try:
            return 0.5 * (math.log(self._divergence + UNDERFLOWN_KL) - math.log(2.0)) + 1e-9
        except OutOfReach:
            return 0.0

    @property
    def _divergence(self) -> float:
        if self.closed is not None and not self.closed.finite:
            return self.variance / 2 + self.closed.divergence
        kept = CUMULANTS.of(*self._blocks(0))
        return self.variance / 2 + math.fsum(n * block.divergence for block, n in zip(kept, self._counts, strict=True))

    @property
    def left_out(self) -> float:
        """How much of P the parts lack together, rounded up: 1 - Π (1-p_i)^{n_i} <= Σ n_i p_i."""
        return sum(n * pair.left_out for pair, n in self.parts) * (1 + 1e-12)

    def log_overlap(self, epsilon: float) -> float:
        """Return log of a bound of 1 - δ(ε): e^{ε/2} Σ √(pq), as (1 - x)_+ >= 1 - √x; 0 where it says nothing.

        Half of E_P[L] is at least -log Σ √(pq), by Jensen's inequality.
        """
        if not self.parts or self._divergence <= epsilon:
            return 0.0
        return epsilon / 2 - self.variance / 8 + math.fsum(n * log_affinity(pair) for pair, n in self.parts)

    @property
    def log_top_mass(self) -> float:
        """Log P(L = sup L); -inf where the largest loss is not attained."""
        return math.fsum(n * pair.log_top_mass for pair, n in self.parts) if self.variance == 0 else -math.inf

    def cumulants(self, octave: int) -> Octave:
        """Return the tilts of one octave, from 2^octave on, with K, K' and K'' there."""
        theta = tilts(octave)
        gaussian = np.array([theta * (theta + 1) / 2, theta + 0.5, np.ones(PER_OCTAVE)])
        if self.closed is not None:
            k, mean, spread = self.variance * gaussian + np.array(self.closed.cumulants(theta))
            return theta, k, mean, spread
        parts = self._counts @ self.cumulants_of_each(octave).reshape(len(self.parts), -1)
        k, mean, spread = self.variance * gaussian + parts.reshape(3, PER_OCTAVE)
        return theta, k, mean, spread

    def cumulants_of_each(self, octave: int) -> Array:
        """Return K, K' and K'' of each part."""
        kept = CUMULANTS.of(*self._blocks(octave))
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

    def clusters(self, index: int) -> list[Cluster]:
        """Return parts that are much alike, together: first those that spread the tilted loss most."""
        if len(self.parts) == 1:
            return [((self.parts[0][0],), self.parts[0][1])]
        octave, place = divmod(index, PER_OCTAVE)
        spread = self._counts * self.cumulants_of_each(octave)[:, 2, place]
        groups: dict[Hashable, list[int]] = {}
        for i, pair in enumerate(self._pairs):
            groups.setdefault(pair.batch_key(ALIKE_OCTAVES), []).append(i)
        order = sorted(groups.values(), key=lambda members: -float(np.sum(spread[members])))
        return [(tuple(self.parts[i][0] for i in group), sum(self.parts[i][1] for i in group)) for group in order]

    def escape(self, clusters: Sequence[Cluster], index: int, chunk: int, enough: float) -> tuple[Array, Array, float]:
        """Return frequencies, bounds of -log|φ| from each to the next, and one for all beyond the last.

        Clusters that come after `enough` nats are left out: what some have fallen by, all have.
        """
        frequencies = chunk_frequencies(chunk)
        total = self.variance * frequencies**2 / 2
        for cluster, count in clusters:
            total = total + count * escape_of_cluster(cluster, index, chunk)
            if np.min(total) >= enough:
                break
        return frequencies, total[:-1], float(total[-1])

    def line(self, points: LinePoints, table: LineTable) -> tuple[Complex, Array]:
        """Return K(θ + ijη) for j < count, and a bound of its error."""
        return self.add_up(points, *self.line_of_each(points, table))

    def line_of_each(self, points: LinePoints, table: LineTable) -> tuple[Complex, Array]:
        """Return K and its error of one release of each part: a row for each."""
        kept = table.of(self._pairs, [points] * len(self.parts))
        shape = len(self.parts), points[2]
        return np.array([line[0] for line in kept]).reshape(shape), np.array([line[1] for line in kept]).reshape(shape)

    def add_up(self, points: LinePoints, values: Complex, errors: Array) -> tuple[Complex, Array]:
        """Return K of all releases from that of each, and a bound of its error."""
        index, eta, count = points
        z = tilt(index) + 1j * eta * np.arange(count)
        total = np.asarray(self.variance * (z * (z + 1) / 2), dtype=complex) + self._counts @ values
        # a sum of many parts loses a unit of its terms for each of them, whichever way they are added
        error: Array = self._counts @ errors + HALF_ULP * max(len(values) - 1, 0) * (self._counts @ np.abs(values))
        return total, error * (1 + 2 * HALF_ULP * len(values))

    @property
    def releases(self) -> int:
        """How many there are beside the Gaussians."""
        return sum(n for _, n in self.parts)

    def dispersion(self, index: int, omega: Array, widths: Sequence[float], end: float) -> list[tuple[Array, Array]]:
        """Return D and the bound of the slope of √D of `cut.cut_by_samples` at each ω, of all but the Gaussians.

        The nodes are good for frequencies up to `end`.
        """
        question = (index, tuple(omega.tolist()), tuple(widths), end)
        found = evaluate_by_batch_key([(pair, question) for pair in self._pairs], _dispersion)
        totals = np.tensordot(self._counts, np.array([found[pair, question] for pair in self._pairs]), 1)
        return [(turned, np.sqrt(square)) for turned, square in totals]

    def count_nodes(self, index: int, omega: float) -> float:
        """Return about how many nodes are needed up to frequency ω, over all parts."""
        kinds = [pair.batch_key(SIMILAR) for pair in self._pairs]
        sizes = Counter(kinds)
        one_of = dict(zip(kinds, self._pairs, strict=True))
        return 1.0 + sum(sizes[kind] * pair.count_nodes(tilt(index), omega) for kind, pair in one_of.items())

    def effort(self, index: int) -> tuple[float, float]:
        """Return (a, b): about a + bω nodes are needed up to frequency ω, over all parts."""
        a, b = 1.0, 0.0
        kinds = [pair.batch_key(SIMILAR) for pair in self._pairs]
        sizes = Counter(kinds)
        for kind, pair in dict(zip(kinds, self._pairs, strict=True)).items():
            nodes, waves = _effort(pair, index)
            a, b = a + sizes[kind] * nodes, b + sizes[kind] * waves
        return a, b


def _closed(parts: Parts) -> ClosedLosses | None:
    """Return losses in closed form, if they are."""
    return ClosedLosses.of(parts) if all(pair.has_atoms for pair, _ in parts) else None


def _supremum(parts: Parts) -> float:
    tops = [(n, pair.supremum) for pair, n in parts]
    if math.inf in [top for _, top in tops]:
        return math.inf
    if -math.inf in [top for _, top in tops]:
        return -math.inf
    return sum_above(tops)


def _lattice(parts: Parts) -> Lattice | None:
    found = [(lattice, n) for pair, n in parts if (lattice := pair.lattice) is not None]
    if not found or len(found) < len(parts) or len({lattice.span for lattice, _ in found}) > 1:
        return None
    offset = sum((n * Fraction(lattice.offset) for lattice, n in found), Fraction(0))
    apart = sum((n * Fraction(lattice.error) for lattice, n in found), abs(offset - Fraction(float(offset))))
    return Lattice(float(offset), found[0][0].span, float_above(apart))


@CACHE.remember
def escape_of_cluster(cluster: tuple[DominatingPair, ...], index: int, chunk: int) -> Array:
    """Return bounds of -log|φ| of one release, whichever of the pairs it is, at the frequencies of a chunk."""
    return escape(_cells(cluster, index), chunk_frequencies(chunk))


@CACHE.remember
def _cells(cluster: tuple[DominatingPair, ...], index: int) -> Cells:
    k = k_of_each(cluster, index)
    return cluster[0].stack(cluster).cells(tilt(index), k[:, None] if len(cluster) > 1 else float(k[0]))


def _lines(pairs: Sequence[DominatingPair], index: int, eta: float, count: int) -> list[tuple[Complex, Array]]:
    nodes = nodes_together(pairs, tilt(index), eta * (count - 1))
    return list(zip(*nodes.log_moment(tilt(index), eta, count, k_of_each(pairs, index)), strict=True))


def _fine_lines(pairs: Sequence[DominatingPair], index: int, eta: float, count: int) -> list[tuple[Complex, Array]]:
    nodes, k = nodes_together(pairs, tilt(index), eta * (count - 1)), k_of_each(pairs, index)
    kept = LINES.kept(pairs, (index, eta, count))
    if kept is not None and prefers_transform(nodes.losses.shape[1], count, FINE_SINES):
        return kept  # so did the other table
    return list(zip(*nodes.log_moment(tilt(index), eta, count, k, cheap=FINE_SINES), strict=True))


LINES, FINE_LINES = BatchedTable("lines", _lines), BatchedTable("fine lines", _fine_lines)


def _dispersion(
    pairs: Sequence[DominatingPair], index: int, omega: tuple[float, ...], widths: tuple[float, ...], end: float
) -> list[Array]:
    nodes = nodes_together(pairs, tilt(index), end)
    return list(nodes.dispersion(tilt(index), np.array(omega), widths, k_of_each(pairs, index)))


@CACHE.remember
def _effort(pair: DominatingPair, index: int) -> tuple[float, float]:
    return float(pair.nodes(tilt(index), 0.0).losses.shape[1]), pair.waves(tilt(index))
