"""Functions of logarithms for one float at a time, where NumPy's overhead would be most of the cost."""

from __future__ import annotations

import math


def log1m_exp(x: float) -> float:
    """Return log(1 - e^x) for x <= 0; -inf at 0.

    >>> log1m_exp(-1e-20), log1m_exp(0.0)
    (-46.051701859880914, -inf)
    """
    if x >= 0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -0.6931 else math.log1p(-math.exp(x))


def log1p_exp(x: float) -> float:
    """Return log(1 + e^x) without overflow."""
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))


def log_expm1(x: float) -> float:
    """Return log(e^x - 1) for x >= 0 without overflow; -inf at 0."""
    if x <= 0:
        return -math.inf
    return x + math.log1p(-math.exp(-x)) if x > 1 else math.log(math.expm1(x))


def log_add(a: float, b: float) -> float:
    """Return log(e^a + e^b)."""
    high, low = (a, b) if a > b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
