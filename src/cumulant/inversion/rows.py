"""Many compositions at once: one in each row of a matrix of counts, with a column for each pair.

Rows differ in how often each pair was released, and in nothing else; what is kept of a pair serves all of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ALIKE_OCTAVES, ComposedPairs, LinePoints, LineTable, escape_of_cluster
from cumulant.inversion.contour import bound_log_delta
from cumulant.inversion.out_of_sight import leave_out_unseen
from cumulant.inversion.plan import approximate, curvature_of
from cumulant.inversion.row_lines import Indices
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import HALF_ULP
from cumulant.pairs.curve import CUMULANTS
from cumulant.pairs.grid import PER_OCTAVE, chunk_frequencies, shared_octaves, tilts
from cumulant.pairs.noise import Pair
from cumulant.pairs.pair import DominatingPair, GaussianPair

SAME_NATS = 1.0  # of log δ, or of log counts, within which rows are cut off at the same place
MANY_SUMS = 1000  # of losses, up to which they are formed one by one
LOWEST_OCTAVE, HIGHEST_OCTAVE = -40, 40  # of tilts for many questions; others are asked one by one


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowTilts:
    """K and F'' of every row at the tilts of neighbouring octaves, with the log δ and ε whose saddle is at each."""

    index: int  # of the first tilt
    theta: Array
    k: Array
    curvature: Array
    log_delta: Array
    epsilon: Array

    def epsilon_near(self, log_delta: Array) -> Array:
        """Return about ε at log δ: on the line through the tilt whose approximation is the nearest."""
        theta, here, epsilon = self._nearest(self.log_delta - log_delta[:, None])
        return np.asarray(np.maximum(epsilon + (here - log_delta) / theta, 0.0))

    def log_delta_near(self, epsilon: Array) -> Array:
        """Return about log δ at ε: on the line through the tilt whose ε is the nearest."""
        theta, here, nearby = self._nearest(self.epsilon - epsilon[:, None])
        return np.asarray(np.minimum(here + theta * (nearby - epsilon), -1e-9))

    def _nearest(self, away: Array) -> tuple[Array, Array, Array]:
        at = np.argmin(np.abs(away), axis=1)[:, None]
        log_delta, epsilon = (np.take_along_axis(one, at, axis=1)[:, 0] for one in (self.log_delta, self.epsilon))
        return self.theta[at[:, 0]], log_delta, epsilon


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Compositions that share their pairs: `counts` has a row for each composition, and a column for each pair.

    `variance` is that of the losses of Gaussians among them. Nothing may fail, and no lattice holds all losses.
    """

    pairs: tuple[DominatingPair, ...]
    counts: Array
    variance: Array

    @staticmethod
    def of(compositions: Sequence[Sequence[tuple[Pair, int]]]) -> tuple[Rows, NDArray[np.bool_]]:
        """Return compositions as rows, and which of them may be asked together: others are left empty."""
        places: dict[DominatingPair, int] = {}
        entries: list[tuple[int, int, int]] = []
        variance, fit = np.zeros(len(compositions)), np.zeros(len(compositions), dtype=bool)
        for row, releases in enumerate(compositions):
            losses = ComposedPairs.of(releases)
            fit[row] = can_be_a_row(losses)
            if fit[row]:
                variance[row] = losses.variance
                entries += [(row, places.setdefault(pair, len(places)), n) for pair, n in losses.parts]
        counts = np.zeros((len(compositions), len(places)))
        for row, column, n in entries:
            counts[row, column] = n
        return Rows(tuple(places), counts, variance), fit

    @staticmethod
    def multiples(releases: Sequence[tuple[Pair, int]], counts: Array) -> tuple[Rows, NDArray[np.bool_]]:
        """Return a row for each count, of a composition released that often, and which rows may be asked together."""
        once = ComposedPairs.of(releases)
        # with k >= 2 outputs, n releases have more than n sums
        fit = counts >= (1 if can_be_a_row(once) else MANY_SUMS if can_be_a_row(once, sums=math.inf) else math.inf)
        each = np.array([float(n) for _, n in once.parts])
        gaussians = [(pair, n) for pair, n in releases if isinstance(pair, GaussianPair)]
        # a product of Gaussians is rounded up once more for every count but one
        variance = once.variance * (1 + 2.0**-48) if gaussians else 0.0
        return Rows(tuple(pair for pair, _ in once.parts), counts[:, None] * each, counts * variance), fit

    def __len__(self) -> int:
        return len(self.counts)

    def of_rows(self, rows: Indices) -> Rows:
        """Return some of the rows, and the pairs that are released in one of them."""
        counts = self.counts[rows]
        there = np.flatnonzero(np.any(counts > 0, axis=0))
        return Rows(tuple(self.pairs[i] for i in there), counts[:, there], self.variance[rows])

    @property
    def releases(self) -> Array:
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
    def left_out(self) -> Array:
        """How much of P the parts lack together, rounded up."""
        return np.asarray(self.counts @ np.array([pair.left_out for pair in self.pairs]) * (1 + 1e-12))

    def seen(self, log_delta: Array) -> Rows:
        """Return rows with losses cut off that a δ of this size cannot see; any cut is sound.

        Rows with about the same δ and counts are cut off at one place, the farthest that one of them needs.
        """
        places: dict[DominatingPair, int] = {}
        entries: list[tuple[Indices, list[int], Indices]] = []
        for rows in self._alike(log_delta):
            columns = np.flatnonzero(self.counts[rows[0]] > 0)
            most = np.max(self.counts[np.ix_(rows, columns)], axis=0)
            parts = tuple((self.pairs[i], int(n)) for i, n in zip(columns, most, strict=True))
            whole = ComposedPairs(parts, 0.0, float(np.max(self.variance[rows])), 0.0, math.inf, None)
            cut = leave_out_unseen(whole, float(np.min(log_delta[rows]))).parts
            entries.append((rows, [places.setdefault(pair, len(places)) for pair, _ in cut], columns))
        counts = np.zeros((len(self), len(places)))
        for rows, new, old in entries:
            for i, j in zip(new, old, strict=True):
                counts[rows, i] += self.counts[rows, j]
        return Rows(tuple(places), counts, self.variance)

    def _alike(self, log_delta: Array) -> list[Indices]:
        """Return rows in groups that have their pairs in common, and about equal numbers of releases and δ."""
        kinds = np.floor(np.column_stack([np.log(np.maximum(self.releases, 1.0)), log_delta]) / SAME_NATS)
        if len(self.pairs) > 1:
            _, which = np.unique(self.counts > 0, axis=0, return_inverse=True)
            kinds = np.column_stack([kinds, which.reshape(-1)])
        _, group = np.unique(kinds, axis=0, return_inverse=True)
        order = np.argsort(group.reshape(-1), kind="stable")
        return np.split(order, np.flatnonzero(np.diff(group.reshape(-1)[order])) + 1)

    # K on the grid --------------------------------------------------------------------------------

    def tilts(self, excess: Callable[[RowTilts], Array]) -> RowTilts | None:
        """Return tilts from below the zero of `excess` in every row, which falls with the tilt, to above it.

        They go two octaves further down and one up, for Chernoff's bounds; None if none is within reach.
        """
        octaves: dict[int, Array] = {}
        for direction, last in ((1, HIGHEST_OCTAVE), (-1, LOWEST_OCTAVE)):
            with contextlib.suppress(OutOfReach):
                for octave in range(0, last, direction):
                    if octave not in octaves:
                        octaves[octave] = self._cumulants(octave)
                    values = excess(self._at(octave, octaves[octave]))
                    if np.all(values[:, -1] < 0) if direction > 0 else np.all(values[:, 0] >= 0):
                        break
        if not octaves:
            return None
        for near in (min(octaves) - 1, min(octaves) - 2, max(octaves) + 1):
            with contextlib.suppress(OutOfReach):
                octaves[near] = self._cumulants(near)
        first = max(octave for octave in octaves if octave - 1 not in octaves)
        return self._at(first, np.concatenate([octaves[i] for i in sorted(octaves) if i >= first], axis=2))

    def _cumulants(self, octave: int) -> Array:
        """Return K, K' and K'' of each pair."""
        kept = CUMULANTS.of(self.pairs, [shared_octaves(pair, octave) for pair in self.pairs])
        return np.array([block.at(octave) for block in kept]).reshape(len(kept), 3, PER_OCTAVE)

    def _at(self, octave: int, of_each: Array) -> RowTilts:
        """Return K of all rows, from the cumulants of each pair in neighbouring octaves."""
        theta = np.concatenate([tilts(octave + i) for i in range(of_each.shape[2] // PER_OCTAVE)])
        gaussian = theta * (theta + 1) / 2, theta + 0.5, np.ones(len(theta))
        k, mean, spread = (self.counts @ of_each[:, i] + self.variance[:, None] * gaussian[i] for i in range(3))
        return RowTilts(
            octave * PER_OCTAVE, theta, k, curvature_of(theta, spread), *approximate(theta, k, mean, spread)
        )

    def are_within(self, epsilon: Array, log_delta: Array) -> NDArray[np.bool_]:
        """Return which rows are proven to be within (ε, δ): no loss is larger than ε, or Chernoff's bound says so.

        Tilts are followed from 1 as long as the best of them is at an end; others leave open what a line will say.

        Holds for:  rows whose pairs cannot fail.
        Tightness:  that of the best tilt; δ is often a tenth of it.
        """
        found = np.asarray(self.supremum <= epsilon)
        below = np.flatnonzero(~found & (epsilon > 0) & (log_delta < 0))
        for direction, last in ((1, HIGHEST_OCTAVE), (-1, LOWEST_OCTAVE)):
            octave, some = 0, below
            with contextlib.suppress(OutOfReach):
                while len(some) and octave != last:
                    bounds = self.of_rows(some)._chernoff(octave, epsilon[some])
                    found[some] = np.min(bounds, axis=1) <= log_delta[some]
                    best, open_still = np.argmin(bounds, axis=1), ~found[some]
                    if octave == 0:
                        below = some[open_still & (best == 0)]
                    some = some[open_still & (best == (PER_OCTAVE - 1 if direction > 0 else 0))]
                    octave += direction
        return found

    def _chernoff(self, octave: int, epsilon: Array) -> Array:
        """Return bounds of log δ(ε) at the tilts of an octave, with what is left out."""
        theta = tilts(octave)
        k = self.counts @ self._cumulants(octave)[:, 0] + self.variance[:, None] * theta * (theta + 1) / 2
        with np.errstate(divide="ignore"):
            return np.logaddexp(bound_log_delta(theta, k, epsilon[:, None]), np.log(self.left_out)[:, None]) + 1e-15

    # K along a line -------------------------------------------------------------------------------

    def escape(self, index: int, chunk: int) -> tuple[Array, Array, Array]:
        """Return frequencies, bounds of -log|φ| from each to the next in every row, and one for all beyond the last."""
        frequencies = chunk_frequencies(chunk)
        total = self.variance[:, None] * frequencies**2 / 2
        groups: dict[Hashable, list[int]] = {}
        for i, pair in enumerate(self.pairs):
            groups.setdefault(pair.batch_key(ALIKE_OCTAVES), []).append(i)
        for columns in groups.values():
            bounds = escape_of_cluster(tuple(self.pairs[i] for i in columns), index, chunk)
            total = total + np.sum(self.counts[:, columns], axis=1)[:, None] * bounds
        return frequencies, total[:, :-1], total[:, -1]

    def line(self, points: LinePoints, z: Complex, table: LineTable) -> tuple[Complex, Array]:
        """Return K along a line in every row, and a bound of its error; see `ComposedPairs.add_up`."""
        kept = table.of(self.pairs, [points] * len(self.pairs))
        values, errors = (np.array([line[i] for line in kept]) for i in range(2))
        total = np.asarray(self.counts @ values + self.variance[:, None] * (z * (z + 1) / 2), dtype=complex)
        error = self.counts @ errors + HALF_ULP * (len(values) - 1) * (self.counts @ np.abs(values))
        return total, error * (1 + 2 * HALF_ULP * len(values))

    def effort(self, index: int) -> tuple[float, float]:
        """Return (a, b): about a + bω nodes are needed up to frequency ω, over all pairs."""
        parts = tuple((pair, 1) for pair in self.pairs)
        return ComposedPairs(parts, 0.0, 0.0, 0.0, math.inf, None).effort(index)


def can_be_a_row(losses: ComposedPairs, sums: float | None = None) -> bool:
    """Return whether lines may answer: nothing fails, no lattice holds the losses, and their sums are many."""
    if not losses.parts or losses.failure > 0 or losses.supremum <= 0 or losses.lattice is not None:
        return False
    return not 0 < (losses.sums if sums is None else sums) <= MANY_SUMS
