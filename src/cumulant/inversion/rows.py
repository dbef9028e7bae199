"""Many compositions at once: one in each row of a matrix of counts, all of the same pairs.

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
from cumulant.inversion.composed import ALIKE_OCTAVES, ComposedPairs, LinePoints, LineTable
from cumulant.inversion.unseen import leave_out_unseen
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
OCTAVES_BELOW, OCTAVES_ABOVE_SADDLE = 2, 1  # beside those of the saddles, for Chernoff's bounds

Indices = NDArray[np.intp]
RowExcess = Callable[["RowTilts"], Array]  # of every row at every tilt: falls with the tilt, 0 at the saddle


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowTilts:
    """K, K' and K'' of every row at the tilts of neighbouring octaves, with the saddle-point approximation there."""

    index: int  # of the first tilt
    theta: Array
    k: Array
    mean: Array
    spread: Array

    @property
    def curvature(self) -> Array:
        """F'' of `plan`."""
        return np.asarray(self.spread + self.theta**-2 + (1 + self.theta) ** -2)

    @property
    def epsilon(self) -> Array:
        """The ε whose saddle is at each tilt."""
        return np.asarray(self.mean - 1 / self.theta - 1 / (1 + self.theta))

    @property
    def log_delta(self) -> Array:
        """About log δ of that ε."""
        width = 0.5 * np.log(2 * math.pi * self.curvature)
        return np.asarray(self.k - self.theta * self.epsilon - np.log(self.theta) - np.log1p(self.theta) - width)

    def of_rows(self, rows: Indices) -> RowTilts:
        return RowTilts(self.index, self.theta, self.k[rows], self.mean[rows], self.spread[rows])


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Compositions of the same pairs: `counts` has a row for each, and a column for each pair.

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
        """Return the composition, released so many times, as rows, and which of them may be asked together."""
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

    def repeated(self, times: int) -> Rows:
        """Return the first row, so many times."""
        return self.of_rows(np.zeros(times, dtype=np.intp))

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
        """Return the same with losses cut off that a δ of this size cannot see, in each row; any cut is sound.

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
        """Return rows in groups: the same pairs, about as many releases, about the same δ."""
        kinds = np.floor(np.column_stack([np.log(np.maximum(self.releases, 1.0)), log_delta]) / SAME_NATS)
        if len(self.pairs) > 1:
            _, which = np.unique(self.counts > 0, axis=0, return_inverse=True)
            kinds = np.column_stack([kinds, which.reshape(-1)])
        _, group = np.unique(kinds, axis=0, return_inverse=True)
        order = np.argsort(group.reshape(-1), kind="stable")
        return np.split(order, np.flatnonzero(np.diff(group.reshape(-1)[order])) + 1)

    # K on the grid --------------------------------------------------------------------------------

    def tilts(self, excess: RowExcess) -> RowTilts | None:
        """Return tilts that reach from below the saddle of every row to above it; None if none is within reach."""
        octaves: dict[int, Array] = {}
        with contextlib.suppress(OutOfReach):
            octaves[0] = self._cumulants(0)
        if not octaves:
            return None
        for direction, last in ((1, HIGHEST_OCTAVE), (-1, LOWEST_OCTAVE)):
            octave = 0
            with contextlib.suppress(OutOfReach):
                while octave != last:
                    values = excess(self._at(octave, octaves[octave][None]))
                    if np.all(values[:, -1] < 0) if direction > 0 else np.all(values[:, 0] >= 0):
                        break
                    octave += direction
                    octaves[octave] = self._cumulants(octave)
        for near in [min(octaves) - 1, min(octaves) - OCTAVES_BELOW, max(octaves) + OCTAVES_ABOVE_SADDLE]:
            with contextlib.suppress(OutOfReach):
                octaves[near] = self._cumulants(near)
        return self._at(min(octaves), np.array([octaves[octave] for octave in sorted(octaves)]))

    def _cumulants(self, octave: int) -> Array:
        """Return K, K' and K'' of each pair."""
        kept = CUMULANTS.of(self.pairs, [shared_octaves(pair, octave) for pair in self.pairs])
        return np.array([block.at(octave) for block in kept]).reshape(len(kept), 3, PER_OCTAVE)

    def k(self, octave: int) -> Array:
        """Return K of every row at the tilts of an octave."""
        theta = tilts(octave)
        return np.asarray(
            self.counts @ self._cumulants(octave)[:, 0] + self.variance[:, None] * theta * (theta + 1) / 2
        )

    def _at(self, octave: int, of_each: Array) -> RowTilts:
        """Return the cumulants of all rows, from those of each pair in neighbouring octaves."""
        theta = np.concatenate([tilts(octave + i) for i in range(len(of_each))])
        gaussian = theta * (theta + 1) / 2, theta + 0.5, np.ones(len(theta))
        rows = [
            self.counts @ np.concatenate(list(of_each[:, :, i, :]), axis=1) + self.variance[:, None] * gaussian[i]
            for i in range(3)
        ]
        return RowTilts(octave * PER_OCTAVE, theta, *rows)

    def escape(self, index: int, chunk: int) -> tuple[Array, Array, Array]:
        """Return frequencies, bounds of -log|φ| from each to the next in every row, and one for all beyond the last."""
        frequencies = chunk_frequencies(chunk)
        total = self.variance[:, None] * frequencies**2 / 2
        groups: dict[Hashable, list[int]] = {}
        for i, pair in enumerate(self.pairs):
            groups.setdefault(pair.batch_key(ALIKE_OCTAVES), []).append(i)
        for columns in groups.values():
            cluster = tuple(self.pairs[i] for i in columns)
            nobody = ComposedPairs((), 0.0, 0.0, 0.0, math.inf, None)
            _, bounds, last = nobody.escape([(cluster, 1)], index, chunk, math.inf)
            total = total + np.sum(self.counts[:, columns], axis=1)[:, None] * np.append(bounds, last)
        return frequencies, total[:, :-1], total[:, -1]

    def line(self, points: LinePoints, z: Complex, table: LineTable) -> tuple[Complex, Array]:
        """Return K along a line in every row, and a bound of its error; see `ComposedPairs.add_up`."""
        kept = table.of(self.pairs, [points] * len(self.pairs))
        values, errors = (np.array([line[i] for line in kept]) for i in range(2))
        gaussian = z * (z + 1) / 2
        real = self.counts @ values.real + self.variance[:, None] * gaussian.real
        imaginary = self.counts @ values.imag + self.variance[:, None] * gaussian.imag
        error = self.counts @ errors
        if len(values) > 1:
            error = error + HALF_ULP * (len(values) - 1) * (self.counts @ np.abs(values))
        return real + 1j * imaginary, error * (1 + 2 * HALF_ULP * len(values))

    def effort(self, index: int) -> tuple[float, float]:
        """Return (a, b): about a + bω nodes are needed up to frequency ω, over all pairs."""
        parts = tuple((pair, 1) for pair in self.pairs)
        return ComposedPairs(parts, 0.0, 0.0, 0.0, math.inf, None).effort(index)


def can_be_a_row(losses: ComposedPairs, sums: float | None = None) -> bool:
    """Return whether lines may answer: nothing fails, no lattice holds the losses, and their sums are many."""
    if not losses.parts or losses.failure > 0 or losses.supremum <= 0 or losses.lattice is not None:
        return False
    return not 0 < (losses.sums if sums is None else sums) <= MANY_SUMS
