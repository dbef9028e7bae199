"""Functions of logarithms that keep their relative accuracy where the plain formula cancels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def exp_excess(x: ArrayLike) -> Array:
    """Return e^x - 1 - x, which is >= 0, to full relative accuracy.

    >>> float(exp_excess(1e-9))
    5.000000001666667e-19
    """
    x = np.asarray(x, dtype=float)
    small = np.where(np.abs(x) < 0.5, x, 0.0)
    series = np.ones_like(small)
    for k in range(18, 2, -1):  # x²/2 (1 + x/3 (1 + x/4 (...))); 0.5^17/18! is far below one ulp
        series = 1.0 + small / k * series
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.abs(x) < 0.5, 0.5 * small * small * series, np.expm1(x) - x)


def log1p_deficit(x: ArrayLike) -> Array:
    """Return x - log(1 + x), which is >= 0, to full relative accuracy.

    >>> float(log1p_deficit(1e-9))
    4.99999999666667e-19
    """
    x = np.asarray(x, dtype=float)
    small = np.where(np.abs(x) < 0.1, x, 0.0)
    series = np.zeros_like(small)
    for k in range(20, 1, -1):  # x²/2 - x³/3 + ...
        series = 1.0 / k - small * series
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(x) < 0.1, small * small * series, x - np.log1p(x))


def log_expm1(x: ArrayLike) -> Array:
    """Return log(e^x - 1) for x > 0 without overflow; -inf at 0.

    >>> float(log_expm1(1000.0)), float(log_expm1(0.0))
    (1000.0, -inf)
    """
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore"):
        return np.where(x > 1.0, x + np.log1p(-np.exp(-x)), np.log(np.expm1(np.minimum(x, 1.0))))


def log_binomial(n: ArrayLike, k: ArrayLike) -> Array:
    """Return log C(n, k) for real n >= k >= 0.

    >>> round(float(np.exp(log_binomial(5, 2))), 9)
    10.0
    """
    from scipy.special import gammaln

    n, k = np.asarray(n, dtype=float), np.asarray(k, dtype=float)
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def log_sum(terms: ArrayLike) -> float:
    """Return log Σ e^terms; -inf for no terms.

    >>> float(np.exp(log_sum([np.log(2.0), np.log(3.0)])))
    5.000000000000001
    """
    terms = np.asarray(terms, dtype=float)
    peak = float(np.max(terms, initial=-np.inf))
    if not np.isfinite(peak):
        return peak
    return peak + float(np.log(np.sum(np.exp(terms - peak))))
