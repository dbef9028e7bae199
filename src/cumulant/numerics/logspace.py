"""Functions of logarithms that keep their relative accuracy where the plain formula cancels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

EXP_SERIES = np.array([1.0 / math.factorial(k) for k in range(2, 14)])  # (e^x - 1 - x)/x² for |x| < 0.2
LOG_SERIES = np.array([(-1.0) ** k / k for k in range(2, 20)])  # (x - log(1+x))/x²


def exp_excess(x: ArrayLike) -> Array:
    """Return e^x - 1 - x, which is >= 0, to full relative accuracy.

    >>> float(exp_excess(1e-9))
    5.000000001666667e-19
    """
    x = np.asarray(x, dtype=float)
    small = np.where(np.abs(x) < 0.2, x, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.abs(x) < 0.2, small * small * _series(small, EXP_SERIES), np.expm1(x) - x)


def log1p_deficit(x: ArrayLike) -> Array:
    """Return x - log(1 + x), which is >= 0, to full relative accuracy.

    >>> float(log1p_deficit(1e-9))
    4.999999996666666e-19
    """
    x = np.asarray(x, dtype=float)
    small = np.where(np.abs(x) < 0.1, x, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(x) < 0.1, small * small * _series(small, LOG_SERIES), x - np.log1p(x))


def _series(x: Array, coefficients: Array) -> Array:
    """Return Σ c_k x^k: by Horner's rule, or all powers at once where calls cost more than sums."""
    if x.size > 200:
        total = np.full(x.shape, coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            total *= x
            total += coefficient
        return total
    powers = np.vander(x.ravel(), len(coefficients), increasing=True)
    return np.asarray(powers @ coefficients).reshape(x.shape)


def log_expm1(x: ArrayLike) -> Array:
    """Return log(e^x - 1) for x > 0 without overflow; -inf at 0.

    >>> float(log_expm1(1000.0)), float(log_expm1(0.0))
    (1000.0, -inf)
    """
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore"):
        values: Array = np.where(x > 1.0, x + np.log1p(-np.exp(-x)), np.log(np.expm1(np.minimum(x, 1.0))))
    return values


def log_complement(x: ArrayLike) -> Array:
    """Return log(1 - e^x) for x <= 0; -inf at 0.

    >>> float(log_complement(-1e-20)), float(log_complement(0.0))
    (-46.051701859880914, -inf)
    """
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore"):
        values: Array = np.where(x > -0.6931, np.log(-np.expm1(x)), np.log1p(-np.exp(np.minimum(x, -0.5))))
    return values


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


def reciprocal_up(x: float) -> float:
    """Return 1/x rounded up, exact where a double holds it.

    >>> reciprocal_up(0.25), reciprocal_up(3.0) * 3.0 >= 1.0
    (4.0, True)
    """
    nearest = 1.0 / x
    if math.isinf(nearest):
        return nearest
    (a, b), (c, d) = nearest.as_integer_ratio(), x.as_integer_ratio()
    return nearest if a * c >= b * d else math.nextafter(nearest, math.inf)


def log_mean(rows: Array, log_masses: Array) -> Array:
    """Return log Σ_j e^{rows[i,j] + log_masses[j]} for every row i."""
    terms = rows + log_masses
    peak = np.max(terms, axis=1, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        means: Array = np.log(np.sum(np.exp(terms - peak), axis=1)) + peak[:, 0]
    return means


def mean_of_exponentials(logs: Array) -> Array:
    """Return the mean of e^x along each chord of a row, (e^b - e^a)/(b - a)."""
    a, b = np.minimum(logs[:, :-1], logs[:, 1:]), np.maximum(logs[:, :-1], logs[:, 1:])
    gap = np.maximum(b - a, 1e-8)
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(b) * -np.expm1(-gap) / gap)
