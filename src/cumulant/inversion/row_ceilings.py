"""Chernoff's bounds of many compositions: which rows are known to be within (ε, δ) without a line."""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.typing import NDArray

from cumulant.errors import OutOfReach
from cumulant.inversion.rows import HIGHEST_OCTAVE, LOWEST_OCTAVE, Rows
from cumulant.inversion.running_ceiling import CEILING_NATS, log_bounds_of_delta
from cumulant.numerics.logspace import Array
from cumulant.pairs.grid import PER_OCTAVE, tilts


def are_within(rows: Rows, epsilon: Array, log_delta: Array) -> NDArray[np.bool_]:
    """Return which rows are proven to be within (ε, δ): no loss is larger than ε, or Chernoff's bound says so.

    δ(ε) <= c(τ) e^{K(τ)-τε} + left_out for every τ > 0, c(τ) = τ^τ/(1+τ)^{1+τ}. Tilts are followed from 1 as long as
    the best of them is at an end; others only leave open what a line will say.

    Holds for:  rows whose pairs cannot fail.
    Tightness:  that of the best tilt; δ is often a tenth of it.
    """
    found = np.asarray(rows.supremum <= epsilon)
    below = np.flatnonzero(~found & (epsilon > 0) & (log_delta < 0))
    for direction, last in ((1, HIGHEST_OCTAVE), (-1, LOWEST_OCTAVE)):
        octave, some = 0, below
        with contextlib.suppress(OutOfReach):
            while len(some) and octave != last:
                bounds = _log_bounds(rows.of_rows(some), octave, epsilon[some])
                found[some] = np.min(bounds, axis=1) <= log_delta[some]
                best, open_still = np.argmin(bounds, axis=1), ~found[some]
                if octave == 0:
                    below = some[open_still & (best == 0)]
                some = some[open_still & (best == (PER_OCTAVE - 1 if direction > 0 else 0))]
                octave += direction
    return found


def _log_bounds(rows: Rows, octave: int, epsilon: Array) -> Array:
    """Return Chernoff's bound of log δ(ε) in every row, at the tilts of an octave, rounded up."""
    bounds = log_bounds_of_delta(tilts(octave), rows.k(octave), epsilon[:, None])
    if not np.any(rows.left_out > 0):
        return bounds
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(bounds, np.log(rows.left_out)[:, None]) + CEILING_NATS)
