"""The failure probability, carried beside the rest: δ = p + (1-p)·δ', both ways, on the safe side."""

from __future__ import annotations

import math

from cumulant.numerics.scalar_logspace import log_add, log_expm1


def log_delta_left(p: float, log_delta: float) -> float:
    """Return log (δ-p)/(1-p), what is left of δ after the failure probability p; NaN if p takes more than δ."""
    if p == 0:
        return log_delta
    log_p = math.log(p)
    if log_delta < log_p:
        return math.nan
    if log_delta >= 0:
        return 0.0
    gap = (log_delta - log_p) - 4e-16 * abs(log_p)  # rounded down: less δ is left
    return log_p + log_expm1(gap) - math.log1p(-p) if gap > 0 else -math.inf


def log_delta_with(p: float, log_delta: float) -> float:
    """Return log (p + (1-p)δ), rounded up."""
    if p == 0:
        return log_delta
    if p == 1:
        return 0.0
    if log_delta == -math.inf:
        return math.nextafter(math.log(p), 0.0)
    total = log_add(math.log(p), math.log1p(-p) + log_delta)
    return min(0.0, total + 1e-15 * (1 + abs(total)))
