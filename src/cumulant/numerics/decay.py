"""How fast a characteristic function falls: proven bounds, for all frequencies at once.

For a law cut into cells, with φ(ω) = E e^{iωL}, two inequalities that need no smoothness beyond what a cell states:

    1 - |φ|² = E[1 - cos ω(L - L')],  L' an independent copy: pairs of cells at a distance of about half a wave count;
    |φ| <= Σ_I min(P_I, V_I/ω) + …,   V_I the total variation of the density of L on the cell, its jumps at the ends
                                      included (integration by parts), … what no cell covers.

The first is good while waves are longer than cells, the second when they are shorter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array

GROUPS = 24  # cells that pairs are formed of
GROUPS_OF_RUN = 18  # the same where that is enough
UNIT = 2.0**-53  # relative, by which an operation on doubles is off
MOST_SUMMED = 2**20  # cells of which anything is said
SLACK = 1 - 1e-9  # taken off: sums of so many masses, their products and sums of those lose 2·2^20 + 3000 units
TURN = 2 * np.pi
TURN_ERROR = 1e-11  # of x less some turns: four roundings of numbers up to MOST_TURNS, and 1592 times that of TURN
MOST_TURNS = 1e4  # radians
VERSINE_SERIES = tuple((-1.0) ** (k + 1) / math.factorial(2 * k) for k in range(6, 0, -1))
LARGEST = 1e290  # a density beyond which nothing is said
LEVELS = np.append(np.linspace(0.02, 0.98, 49), 1 - 2.0 ** -np.arange(6.0, 40.0, 2.0))  # shares of mass below a level


@final
@dataclass(frozen=True, slots=True)
class Cells:
    """Disjoint parts of a law, sorted: the range [low, high] of L, and at least this mass.

    `first` and `last` bound the density of L at the two ends, `variation` its total variation in between; atoms have
    low = high and infinite variation. What the cells leave out counts for nothing. Cells may describe several laws at
    once, if what they say is true of each; then neighbours may overlap.
    """

    low: Array
    high: Array
    mass: Array
    first: Array
    last: Array
    variation: Array

    @property
    def columns(self) -> tuple[Array, ...]:
        return self.low, self.high, self.mass, self.first, self.last, self.variation

    @staticmethod
    def of_atoms(positions: Array, masses: Array) -> Cells:
        order = np.argsort(positions)
        where, nothing = positions[order], np.zeros(len(positions))
        return Cells(where, where, masses[order], nothing, nothing, np.full(len(positions), np.inf))

    def joined(self, starts: NDArray[np.intp]) -> Cells:
        """Return coarser cells, each made of the cells from one start to the next, of which only masses are known.

        Cells are sorted by their low ends; the highest end of a group need not be that of its last cell.
        """
        nothing = np.zeros(len(starts))
        mass = np.add.reduceat(self.mass, starts)
        high = np.maximum.reduceat(self.high, starts)
        return Cells(self.low[starts], high, mass, nothing, nothing, np.full(len(starts), np.inf))


def escape(cells: Cells, frequencies: Array) -> Array:
    """Return lower bounds of -log|φ(ω)|: entry k for ω in [ω_k, ω_{k+1}], the last for every ω >= ω_K.

    `frequencies` increases. Bounds are >= 0; 0 says nothing.
    """
    by_pairs, gain = escapes(cells, frequencies)
    return np.asarray(np.maximum(-np.log1p(-gain) * SLACK, by_pairs))


def escape_of_run(cells: Cells, frequencies: Array) -> Array:
    """Return the escape of cells that touch and share a smooth density: by pairs, and by the variation of all at once.

    |φ| <= 1 - P + V/ω with the mass P of all cells and the total variation V from the first to the last: that is less
    than `escape` says at medium frequencies, and takes half the time.
    """
    mass, variation = float(cells.mass.sum()), float(cells.variation.sum() + cells.first[0] + cells.last[-1])
    lost = _lost_by_sums(len(cells.mass))
    gain = np.minimum(mass * (1 - lost) - variation * (1 + lost) / frequencies, SLACK)
    by_variation = -np.log1p(-np.maximum(gain, 0.0)) * SLACK
    by_pairs = _by_pairs(cells.joined(_group_starts(cells, GROUPS_OF_RUN)), frequencies) * SLACK
    by_variation[:-1] = np.maximum(by_variation[:-1], by_pairs)
    return np.asarray(by_variation)


def escapes(cells: Cells, frequencies: Array, groups: int = GROUPS) -> tuple[Array, Array]:
    """Return the two bounds: D with -log|φ| >= D by pairs, and g with |φ| <= 1 - g by variation.

    Only sums, products and quotients of doubles are taken, each off by UNIT at most, and what they can lose is taken
    off: if the cells are true of a law, so are the bounds. In whichever order n positive doubles are added, a sum is
    off by (n-1)·UNIT/(1 - (n-1)·UNIT) relatively (Higham 2002, Section 4.2); a difference, by that of the larger.
    """
    if not cells.mass.sum() > 0 or len(cells.mass) > MOST_SUMMED:
        return np.zeros(len(frequencies)), np.zeros(len(frequencies))
    by_pairs = _by_pairs(cells.joined(_group_starts(cells, groups)), frequencies)
    return np.append(by_pairs, 0.0) * SLACK, _by_variation(cells, frequencies)


def _group_starts(cells: Cells, groups: int) -> NDArray[np.intp]:
    """Return where groups begin: about equal shares of probability and of variance together."""
    middle = (cells.low + cells.high) / 2
    mass = cells.mass / cells.mass.sum()
    spread = mass * (middle - (mass * middle).sum()) ** 2
    shares = (mass + spread / max(float(spread.sum()), 1e-300)).cumsum()
    marks = shares.searchsorted(np.arange(groups) * (shares[-1] / groups))
    starts = np.minimum(marks, len(mass) - 1)
    return np.asarray(starts[np.concatenate(([True], starts[1:] > starts[:-1]))])


def _by_variation(cells: Cells, frequencies: Array) -> Array:
    """Return P - V/ω, the best over sets of cells on which the density stays below a level: |φ| <= 1 - P + V/ω."""
    with np.errstate(over="ignore"):
        highest = np.maximum(cells.first, cells.last) + cells.variation
    order = highest.argsort()
    levels = highest[order]
    order = order[: levels.searchsorted(LARGEST)]
    if not len(order):
        return np.zeros(len(frequencies))
    mass = cells.mass[order].cumsum()
    inside = (cells.first[order] + cells.last[order] + cells.variation[order]).cumsum()
    levels = levels[np.minimum(mass.searchsorted(mass[-1] * LEVELS), len(order) - 1)]
    last = highest[order].searchsorted(levels, side="right") - 1  # of the cells that are not above a level
    # runs of cells: the ends of neighbours that touch, both not above the level, cancel but for their difference
    higher = np.maximum(highest[1:], highest[:-1])
    touching = np.flatnonzero((higher < LARGEST) & (cells.low[1:] <= cells.high[:-1]))
    touching = touching[higher[touching].argsort()]
    shared = np.concatenate(([0.0], 2 * np.minimum(cells.first[touching + 1], cells.last[touching]))).cumsum()
    shared = shared[higher[touching].searchsorted(levels, side="right")]
    # twice what a sum loses: `shared` may be too large by as much as `inside`, which it is below, is too small
    lost = _lost_by_sums(len(order))
    variation = inside[last] * (1 + 2 * lost) - shared
    gain = (mass[last] * (1 - lost) - variation / frequencies[:, None] * (1 + lost)).max(axis=1)
    return np.asarray(np.minimum(np.maximum(gain, 0.0), SLACK))


def _lost_by_sums(count: int) -> float:
    """Return more than what a sum of so many positive doubles loses, relatively, with eight operations beside it."""
    return 2 * (count + 8) * UNIT


def _by_pairs(cells: Cells, frequencies: Array) -> Array:
    """Return ½ Σ_{I,J} P_I P_J min(1 - cos x), x from ω_k times the least distance to ω_{k+1} times the largest."""
    i, j = _pairs_of(len(cells.low))
    nearest = np.maximum(cells.low[j] - cells.high[i], 0.0) * SLACK
    farthest = (cells.high[j] - cells.low[i]) / SLACK
    weight = cells.mass[i] * cells.mass[j]  # each unordered pair stands for two: ½·2
    low, high = frequencies[:-1, None] * nearest, frequencies[1:, None] * farthest
    with np.errstate(over="ignore"):
        start = np.floor(low / TURN) * TURN
        # 1 - cos grows on [0, π], and is symmetric about π: least at the end that is nearer to a full turn. One in
        # between leaves nothing; SLACK has moved both ends by more than rounding does
        nearer = np.where(high < MOST_TURNS, np.minimum(low - start, start + TURN - high), 0.0)
    return np.asarray(_versine_below(nearer) @ weight)


@lru_cache(maxsize=64)
def _pairs_of(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return all i < j below a count."""
    i, j = np.triu_indices(count, 1)
    return i, j


def _versine_below(x: Array) -> Array:
    """Return a lower bound of 1 - cos x for x <= π, of 0 if x < 0: Taylor's polynomial of degree 12.

    cos lies below each of its Taylor polynomials that ends with a positive term. With the rounding of squares and of
    coefficients each term takes 20 roundings at most, so that the sum is off by 20·UNIT·(cosh x - 1): for x <= 2 that
    is less than 7e-15; beyond, less than 3e-14, which the next term, x^14/14! > 1e-7, makes up for.
    """
    square = np.maximum(x - TURN_ERROR, 0.0) ** 2
    total = np.zeros(square.shape)
    for coefficient in VERSINE_SERIES:
        total += coefficient
        total *= square
    return np.asarray(np.maximum(total - 1e-14, 0.0))
