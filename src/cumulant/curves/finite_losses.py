"""Moments of the losses between two distributions of finitely many outputs, without cancellation next to λ = 0."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cumulant.curves.curve import Array
from cumulant.numerics.logspace import exp_excess

LARGEST_TILTED_LOSS = 600.0  # e^600 is still a double


def losses_of(p: Array, q: Array) -> Array:
    """Return log p/q, with all its digits where the two are close."""
    gap = (p - q) / np.maximum(p, q)
    near = np.clip(gap, -0.5, 0.5)
    return np.where(np.abs(gap) > 0.5, np.log(p) - np.log(q), -np.sign(near) * np.log1p(-np.abs(near)))


def mean_loss(p: Array, losses: Array) -> float:
    """Return Σ p X(-L): E_p[L] and what q lacks of 1, without cancellation."""
    return math.fsum((p * exp_excess(-losses)).tolist())


def log_moment_of_losses(one: Array, other: Array, there: NDArray[np.bool_], lam: float) -> float:
    """Return log E_p[(p/q)^λ] over the outputs that are `there`, λ >= -½; p and q add up to 1 with the others.

    The formula is that of `cumulant_of_pair`, with what p and q have elsewhere.
    """
    losses = losses_of(one[there], other[there])
    with np.errstate(over="ignore", invalid="ignore"):  # tilts may be as large as doubles are
        if lam * float(np.max(losses)) < LARGEST_TILTED_LOSS:
            lacking, lacked = float(np.sum(one[~there])), float(np.sum(other[~there]))
            slope = mean_loss(one[there], losses) + lacked - lacking
            excess = lam * slope + math.fsum((one[there] * exp_excess(lam * losses)).tolist()) - lacking
            if excess > -0.5:
                return math.log1p(excess)
        return float(np.logaddexp.reduce(np.log(one[there]) + lam * losses))
