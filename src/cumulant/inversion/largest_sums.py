"""How far below the largest loss ε can be, of Laplace releases and few outputs.

With the atoms of Laplace noise at -θ_i moved to -∞ losses are smaller, and of the sum in `pieces` R_0 is left. As
P(Bin(N-1, ½) < j) >= 2^{1-N}, with the mass W of other releases at their largest losses and x the largest loss of all,

    δ(ε) >= W R_0(y) >= 2^{1-N} W (1 - e^{-y/2}),   y = x - ε <= -2 log(1 - 2^{N-1} δ/W),

and where that says too little, y is at most where W R_0(y) = δ.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

import numpy as np

from cumulant.inversion.closed import ClosedLosses
from cumulant.inversion.composed import ComposedPairs
from cumulant.numerics.logspace import Array

MOST_AT_TOP = 500  # releases of which the largest losses are summed
LARGEST_LOSS = 60.0  # of all releases together, or below the largest loss, beyond which series are long
NEAR_SHARE_OF_TOP = 0.25  # 2^{N-1} δ/W, up to which the first bound says enough
MORE_POWERS = 120  # of y/2 beyond N
STEPS_TO_TOP, NEAR_STEP = 12, 1e-3  # of Newton's method in log y, and what ends it
LARGEST_LOG_HALF = 10.0  # of y/2


def least_epsilon(losses: ComposedPairs, log_delta: float) -> float | None:
    """Return what ε of a δ is not below, by the largest loss alone; None where that says nothing, or is not known."""
    closed = losses.closed
    if closed is None or not closed.laplace_releases <= MOST_AT_TOP:
        return None
    n, share = closed.laplace_releases, _share_of_top(closed, log_delta)
    if share < NEAR_SHARE_OF_TOP or n == 0:
        return closed.top + 2 * math.log1p(-share) if share < 1 else None
    below = least_distance(n, log_delta - closed.log_top_mass)
    return None if below is None or below >= closed.top else closed.top - below


def lies_next_to_top(losses: ComposedPairs, log_delta: float) -> bool:
    """Return whether it takes no search to see that ε is next to the largest loss, and above 0."""
    closed = losses.closed
    if closed is None:
        return False
    share = _share_of_top(closed, log_delta)
    return share < NEAR_SHARE_OF_TOP and closed.top > -2 * math.log1p(-share)


def _share_of_top(closed: ClosedLosses, log_delta: float) -> float:
    """Return 2^{N-1} δ/W, at most 1."""
    return math.exp(min(log_delta - closed.log_top_mass + (closed.laplace_releases - 1) * math.log(2.0), 0.0))


@lru_cache(maxsize=64)
def least_distance(n: int, log_delta: float) -> float | None:
    """Return a little more than the y at which R_0(y) is δ; None where that is beyond LARGEST_LOSS."""
    if not log_delta < 0:
        return None
    j, logs = _log_shares(n)
    log_half = float(((log_delta - logs) / j).min())  # where the largest term alone would be δ, without e^{-y/2}
    for _ in range(STEPS_TO_TOP):
        half = math.exp(min(log_half, LARGEST_LOG_HALF))
        terms = j * log_half + logs - half
        peak = float(terms.max())
        weights = np.exp(terms - peak)
        total = float(weights.sum())
        step = (log_delta - peak - math.log(total)) / max(float(weights @ j) / total - half, NEAR_STEP)
        log_half += max(min(step, 1.0), -1.0)
        if abs(step) < NEAR_STEP:
            y = 2 * math.exp(min(log_half, LARGEST_LOG_HALF)) * (1 + 4 * NEAR_STEP)
            return y if y <= LARGEST_LOSS else None
    return None


@lru_cache(maxsize=64)
def _log_shares(n: int) -> tuple[Array, Array]:
    """Return j >= 1, and log(P(Bin(N-1, ½) < j)/j!)."""
    shares = list(accumulate(math.comb(n - 1, i) for i in range(n)))
    powers = n + MORE_POWERS
    logs = [math.log(shares[min(j, n) - 1]) - (n - 1) * math.log(2.0) - math.lgamma(j + 1) for j in range(1, powers)]
    return np.arange(1.0, powers), np.array(logs)
