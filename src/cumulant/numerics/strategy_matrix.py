"""Lower triangular matrices C of matrix mechanisms: norms of columns, and how far one record moves CX, rounded up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from cumulant.errors import InvalidParameter
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import ULP
from cumulant.parameters import require, shown

GRID = 2.0**32  # shares are multiples of 1/GRID, rounded up, so that columns that differ by rounding are equal


def strategy_matrix(matrix: Any, steps: int | None) -> Array:
    """Return a square lower triangular matrix of `steps` rows, or the coefficients of one of Toeplitz form.

    Both are scaled by a power of 2, to entries below 1.

    >>> strategy_matrix([[4.0, 0.0], [2.0, 4.0]], 2)
    array([[0.5 , 0.  ],
           [0.25, 0.5 ]])
    """
    try:
        found = np.asarray(matrix, dtype=float)
    except (TypeError, ValueError):
        raise InvalidParameter(f"matrix must be an array of numbers, got {shown(matrix)}") from None
    size = f"{steps} by {steps}, as many as there are steps," if steps is not None else "square"
    is_square = found.ndim == 2 and found.shape == ((steps or len(found)),) * 2
    require(found.ndim == 1 or is_square, f"matrix must be {size} or its Toeplitz coefficients", found.shape)
    require(found.ndim == 2 or steps is not None, "steps must be given with Toeplitz coefficients", steps)
    require(bool(np.all(np.isfinite(found))), "matrix must have finite entries", matrix)
    is_lower = found.ndim == 1 or not np.any(np.triu(found, 1))
    require(is_lower, "matrix must be lower triangular: a step uses what was there before", matrix)
    found = found[:steps]
    require(bool(np.any(found)), "matrix must have an entry that is not 0", matrix)
    return np.asarray(np.ldexp(found, -int(np.frexp(np.max(np.abs(found)))[1])))


def bands_of(matrix: Array) -> int:
    """Return on how many diagonals, from the main one down, there are entries that are not 0."""
    places = np.nonzero(matrix)
    return int(np.max(places[0] - places[1] if matrix.ndim == 2 else places[0])) + 1


def column_shares(matrix: Array, steps: int) -> Array:
    """Return the norms of the columns in units of the largest, rounded up to 1/GRID; those of columns of 0 are 0.

    A sum of n squares is off by n + 1 units of rounding; entries below the range of doubles move a share by far less
    than the grid.
    """
    rounding = (len(matrix) + 8) * ULP
    if matrix.ndim == 1:  # the last columns end before all coefficients had their turn
        squares = np.cumsum(matrix * matrix)[np.minimum(len(matrix), np.arange(steps, 0, -1)) - 1]
        is_there = np.cumsum(matrix != 0)[np.minimum(len(matrix), np.arange(steps, 0, -1)) - 1] > 0
    else:
        squares, is_there = np.sum(matrix * matrix, axis=0), np.any(matrix, axis=0)
    ratios = np.sqrt(squares / np.max(squares)) * (1 + rounding)
    return np.where(is_there, np.minimum((np.floor(ratios * GRID) + 1) / GRID, 1.0), 0.0)


def parts_of_cycle(shares: Array, bands: int) -> list[Counter[float]]:
    """Return the shares of the steps r, r + b, r + 2b, …, for the parts r that no other part has more of.

    A part has more than another if it has as many steps and, both sorted, larger shares.
    """
    parts = [np.sort(some[some > 0])[::-1] for some in (shares[first::bands] for first in range(bands))]
    kept: list[Array] = []
    for part in sorted(parts, key=lambda part: (len(part), float(np.sum(part))), reverse=True):
        if not any(len(one) >= len(part) and np.all(one[: len(part)] >= part) for one in kept):
            kept.append(part)
    return [Counter(part.tolist()) for part in kept]


def sensitivity(matrix: Array, steps: int, *, participations: int, separation: int) -> float:
    """Return how far one record moves CX at most, in units of the largest column norm, rounded up.

    Over the patterns π of at most k steps, any two of them s apart or more, and |x_i| <= 1,

        |Σ_{i∈π} C e_i x_i|² = Σ_{i,j∈π} G_ij <x_i, x_j> <= Σ_{i∈π} u_i,   u_i = max_π Σ_{j∈π} |G_ij|,   G = CᵀC,

    and the largest sum over a pattern is found by dynamic programming.

    Holds for:  vectors that are chosen adaptively: G is fixed, and the noise is the same for both neighbours.
    Tightness:  attained by equal x_i where G >= 0 and the worst pattern is the same for every i, as with
                one participation, or with columns of disjoint rows, s >= the number of bands.
    """
    whole = _toeplitz(matrix, steps) if matrix.ndim == 1 else matrix
    squares = np.sum(whole * whole, axis=0)
    rounding = 4 * (steps + 8) * ULP
    products = np.abs(whole.T @ whole) + rounding * np.sqrt(np.outer(squares, squares))  # where terms cancel, too
    rows = _largest_patterns(products, participations, separation)
    largest = float(_largest_patterns(rows[None, :], participations, separation)[0])
    return float(np.sqrt(largest / np.max(squares)) * (1 + rounding))


def _toeplitz(coefficients: Array, steps: int) -> Array:
    """Return the lower triangular matrix with these numbers along its diagonals."""
    found = np.zeros((steps, steps))
    for below, value in enumerate(coefficients):
        found[np.arange(below, steps), np.arange(steps - below)] = value
    return found


def _largest_patterns(weights: Array, participations: int, separation: int) -> Array:
    """Return for each row the largest sum of at most k weights whose places are s apart or more."""
    rows, steps = weights.shape
    best = np.zeros((rows, steps + separation))  # of one pick less, among the places before
    for _ in range(min(participations, -(-steps // separation))):
        taken = best[:, :steps] + weights
        best = np.concatenate([np.zeros((rows, separation)), np.maximum.accumulate(taken, axis=1)], axis=1)
    return np.asarray(best[:, -1])
