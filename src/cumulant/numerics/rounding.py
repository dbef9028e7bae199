"""Rounding to one side: units of error, and conversions that never come out low."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from cumulant.numerics.logspace import Array

ULP = 2.0**-52  # a unit in the last place of 1
HALF_ULP = ULP / 2  # relative, by which a sum of two, or a product, may be off
ROUNDING = 2.0**-50  # 4 ulp, 8 unit roundoffs: bounds the relative rounding of a few elementary steps
LEAST = 5e-324  # the smallest double > 0
SPARSE = 1e-290  # below which doubles lie too far apart, in the end, for a relative error


def exp_above(log_p: float) -> float:
    """Return e^x for x <= 0, rounded up also where it underflows; 0 at -inf only.

    >>> exp_above(-1e4), exp_above(0.0), exp_above(-math.inf)
    (5e-324, 1.0, 0.0)
    """
    if log_p == -math.inf:
        return 0.0
    product = math.exp(log_p) * (1 + 2 * ULP)
    return min(1.0, product if product > SPARSE else product + 2 * LEAST if product > 0 else LEAST)


def log_above(log_p: float) -> float:
    """Return x <= 0, up by the rounding of the few elementary steps it came from; -inf stays."""
    return min(0.0, log_p + ROUNDING * (1 + abs(log_p))) if log_p > -math.inf else log_p


def log_below(log_p: float) -> float:
    """Return log p rounded down, by as much as `log_above` rounds up."""
    return log_p - ROUNDING * (1 + abs(log_p)) if log_p > -math.inf else log_p


def logs_above(log_p: Array) -> Array:
    """Return many log p, rounded up as by `log_above`."""
    return np.minimum(0.0, log_p * (1 - ROUNDING) + ROUNDING)


def less_rounding(log_p: float) -> float:
    """Return log p less what is lost on the way from p to log p and back, for 0 < p < 1."""
    return log_p - 2e-14 * (1 + abs(log_p)) if -math.inf < log_p < 0 else log_p


def more_rounding(log_p: float) -> float:
    """Return log p more than what is lost on the way from p to log p and back, for 0 < p < 1."""
    return log_p + 2e-14 * (1 + abs(log_p)) if -math.inf < log_p < 0 else log_p


def float_above(exact: Fraction) -> float:
    """Return the smallest double that is not below, inf beyond the largest.

    >>> float_above(Fraction(1, 10)) >= Fraction(1, 10), float_above(Fraction(1, 4))
    (True, 0.25)
    """
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def exact_sum(values: Array) -> Fraction:
    """Return Σ x of finite doubles without rounding: halves of 26 and 27 bits are added up exponent by exponent.

    >>> exact_sum(np.array([1e300, 0.1, -1e300])) == Fraction(0.1)
    True
    """
    mantissas, exponents = np.frexp(values)
    if not len(values):
        return Fraction(0)
    least = int(np.min(exponents))
    high = np.floor(mantissas * 2.0**26)
    low = (mantissas * 2.0**26 - high) * 2.0**27
    halves = [np.bincount(exponents - least, weights=half).tolist() for half in (high, low)]
    total = sum(((int(a) << 27) + int(b)) << place for place, (a, b) in enumerate(zip(*halves, strict=True)))
    return Fraction(total) * Fraction(2) ** (least - 53)


def sum_above(terms: Sequence[tuple[int, float]]) -> float:
    """Return Σ n_i x_i, rounded up once: exact where a double holds it, as ε's often are, inf beyond the largest.

    >>> sum_above([(3, 0.1)]) >= 3 * Fraction(0.1), sum_above([(3, 0.25), (1, 0.5)])
    (True, 1.25)
    """
    if any(math.isinf(x) for _, x in terms):
        return math.inf
    ratios = [(n, *x.as_integer_ratio()) for n, x in terms]
    common = max((below for _, _, below in ratios), default=1)  # all are powers of 2
    total = sum(n * above * (common // below) for n, above, below in ratios)
    try:
        nearest = total / common
    except OverflowError:
        return math.inf
    above, below = nearest.as_integer_ratio()
    return nearest if above * common >= total * below else math.nextafter(nearest, math.inf)
