"""K of compositions on the grid that all questions share: a row of counts for each, a column for each pair.

Rows differ in how often each pair was released, and in nothing else; what is kept of a pair serves all of them, and all
questions with other counts, ε or δ. This is where a count multiplies. A single composition is one row.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.errors import OutOfReach
from cumulant.inversion.closed import ClosedLosses
from cumulant.inversion.contour import Indices, bound_log_delta
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.decay import Cells, escape
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import HALF_ULP
from cumulant.pairs.cache import CACHE, SIMILAR, BatchedTable
from cumulant.pairs.curve import (
    PER_OCTAVE,
    chunk_frequencies,
    cumulants_of_each,
    k_of_each,
    nodes_together,
    tilt,
    tilts,
)
from cumulant.pairs.pair import DominatingPair

ALIKE_OCTAVES = 1 / 32  # octaves within which parameters are so near that the worst of a cluster speaks for all
FIRST_OCTAVE, LAST_OCTAVE = -70, 60  # in which tilts are looked for

LineTable = BatchedTable[tuple[Complex, Array]]
LinePoints = tuple[int, float, int]
"""The index of a tilt, the step η, and how many points there are."""
Octave = tuple[Array, Array, Array, Array]
"""Tilts, and K, K' and K'' of every row there."""
Cluster = tuple[tuple[DominatingPair, ...], Array]
"""Pairs that are much alike, and how many releases of every row have one of them."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Compositions that share their pairs; `variance` is that of the losses of Gaussians among them.

    `closed` are the losses of a single row, where their moments are closed formulas.
    """

    pairs: tuple[DominatingPair, ...]
    counts: Array
    variance: Array
    closed: ClosedLosses | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def of_rows(self, rows: Indices) -> Rows:
        """Return some of the rows, and the pairs that are released in one of them."""
        counts = self.counts[rows]
        there = np.flatnonzero(np.any(counts > 0, axis=0))
        return Rows(tuple(self.pairs[i] for i in there), counts[:, there], self.variance[rows], self.closed)

    @property
    def releases(self) -> Array:
        """How many there are in each row beside the Gaussians."""
        return np.asarray(np.sum(self.counts, axis=1))

    @property
    def supremum(self) -> Array:
        """The largest finite loss of each row, rounded up."""
        largest = np.array([pair.supremum for pair in self.pairs])
        finite = np.isfinite(largest)
        total = self.counts[:, finite] @ largest[finite]
        total = total + 1e-15 * (1 + len(largest)) * (self.counts[:, finite] @ np.abs(largest[finite]))
        endless = (self.variance > 0) | np.any(self.counts[:, ~finite] > 0, axis=1)
        return np.where(endless, np.inf, total)

    @property
    def log_left_out(self) -> Array:
        """Log of how much of P the parts lack together, rounded up: 1 - Π (1-p_i)^{n_i} <= Σ n_i p_i."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.counts @ np.array([pair.left_out for pair in self.pairs]) * (1 + 1e-12)))

    # K at real tilts ------------------------------------------------------------------------------

    def cumulants(self, octave: int) -> Octave:
        """Return the tilts of one octave, from 2^octave on, with K, K' and K'' of every row there."""
        theta = tilts(octave)
        gaussian = theta * (theta + 1) / 2, theta + 0.5, np.ones(PER_OCTAVE)
        if self.closed is not None:
            parts = [one[None] for one in self.closed.cumulants(theta)]
        else:
            each = cumulants_of_each(self.pairs, octave)
            parts = [self.counts @ each[:, i] for i in range(3)]
        k, mean, spread = (part + self.variance[:, None] * one for part, one in zip(parts, gaussian, strict=True))
        return theta, k, mean, spread

    def are_within(self, epsilon: Array, log_delta: Array, octave: int = 0) -> NDArray[np.bool_]:
        """Return which rows are proven to be within (ε, δ): no loss is larger than ε, or Chernoff's bound says so.

        Tilts are followed from an octave as long as the best of them is at an end; others leave open what a line will
        say.

        Holds for:  rows whose pairs cannot fail.
        Tightness:  that of the best tilt; δ is often a tenth of it.
        """
        found = np.asarray(self.supremum <= epsilon)
        below = np.flatnonzero(~found & (epsilon > 0) & (log_delta < 0))
        for direction in (1, -1):
            here, some = octave, below
            with contextlib.suppress(OutOfReach):
                while len(some) and FIRST_OCTAVE < here < LAST_OCTAVE:
                    bounds = self.of_rows(some)._chernoff(here, epsilon[some])
                    found[some] = np.min(bounds, axis=1) <= log_delta[some]
                    best, open_still = np.argmin(bounds, axis=1), ~found[some]
                    if here == octave:
                        below = some[open_still & (best == 0)]
                    some = some[open_still & (best == (PER_OCTAVE - 1 if direction > 0 else 0))]
                    here += direction
        return found

    def _chernoff(self, octave: int, epsilon: Array) -> Array:
        """Return bounds of log δ(ε) at the tilts of an octave, with what is left out."""
        theta, k, _, _ = self.cumulants(octave)
        return np.logaddexp(bound_log_delta(theta, k, epsilon[:, None]), self.log_left_out[:, None]) + 1e-15

    # K along a line -------------------------------------------------------------------------------

    def clusters(self, index: int) -> list[Cluster]:
        """Return pairs that are much alike, together: first those that spread the tilted loss most."""
        groups: dict[Hashable, list[int]] = {}
        for i, pair in enumerate(self.pairs):
            groups.setdefault(pair.batch_key(ALIKE_OCTAVES), []).append(i)
        found = list(groups.values())
        if len(found) > 1:
            octave, place = divmod(index, PER_OCTAVE)
            spread = np.sum(self.counts, axis=0) * cumulants_of_each(self.pairs, octave)[:, 2, place]
            found.sort(key=lambda group: -float(np.sum(spread[group])))
        return [(tuple(self.pairs[i] for i in group), np.sum(self.counts[:, group], axis=1)) for group in found]

    def escape(self, clusters: Sequence[Cluster], index: int, chunk: int, enough: float) -> tuple[Array, Array, Array]:
        """Return frequencies, bounds of -log|φ| from each to the next in every row, and one for all beyond the last.

        Clusters that come after `enough` nats are left out: what some have fallen by, all have.
        """
        frequencies = chunk_frequencies(chunk)
        variance = self.variance + self.counts @ np.array([pair.gaussian_variance for pair in self.pairs])
        total = variance[:, None] * frequencies**2 / 2
        for cluster, counts in clusters:
            total = total + counts[:, None] * escape_of_cluster(cluster, index, chunk)
            if np.min(total) >= enough:
                break
        return frequencies, total[:, :-1], total[:, -1]

    def line(self, points: LinePoints, table: LineTable | None = None) -> tuple[Complex, Array]:
        """Return K(θ + ijη) of every row for j < count, and a bound of its error."""
        index, eta, count = points
        z = tilt(index) + 1j * eta * np.arange(float(count))
        total = np.asarray(self.variance[:, None] * (z * (z + 1) / 2), dtype=complex)
        if not self.pairs:
            return total, np.zeros(total.shape)
        kept = (table or LINES).of(self.pairs, [points] * len(self.pairs))
        values, errors = (np.array([line[i] for line in kept]) for i in range(2))
        # a sum of many parts loses a unit of its terms for each of them, whichever way they are added
        error = self.counts @ errors + HALF_ULP * (len(values) - 1) * (self.counts @ np.abs(values))
        return total + self.counts @ values, error * (1 + 2 * HALF_ULP * len(values))

    def count_nodes(self, index: int, omega: float) -> float:
        """Return about how many nodes are needed up to frequency ω, over all pairs."""
        theta = tilt(index)
        return 1.0 + sum(number * pair.count_nodes(theta, omega) for pair, number in self._kinds())

    def effort(self, index: int) -> tuple[float, float]:
        """Return (a, b): about a + bω nodes are needed up to frequency ω, over all pairs."""
        a, b, theta = 1.0, 0.0, tilt(index)
        for pair, number in self._kinds():
            nodes, waves = _effort(pair, theta)
            a, b = a + number * nodes, b + number * waves
        return a, b

    def _kinds(self) -> list[tuple[DominatingPair, int]]:
        """Return one pair of each kind, which take about the same nodes, and how many are of that kind."""
        kinds = [pair.batch_key(SIMILAR) for pair in self.pairs]
        sizes, one_of = Counter(kinds), dict(zip(kinds, self.pairs, strict=True))
        return [(pair, sizes[kind]) for kind, pair in one_of.items()]


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


LINES = BatchedTable("lines", _lines)


@CACHE.remember
def _effort(pair: DominatingPair, theta: float) -> tuple[float, float]:
    return float(pair.nodes(theta, 0.0).losses.shape[1]), pair.waves(theta)
