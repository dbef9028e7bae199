"""Functions of complex numbers that keep their relative accuracy where the plain formula cancels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Complex = NDArray[np.complex128]

NEAR = 0.25  # |x| up to which the series is used: 14 terms leave 1e-20
SERIES = tuple(1.0 / math.factorial(k) for k in range(2, 16))


def exp_excess(x: Complex) -> Complex:
    """Return e^x - 1 - x for complex x, to full accuracy relative to |x|².

    >>> complex(exp_excess(np.array(1e-9j)))
    (-5e-19-1.6666666666666667e-28j)
    """
    near = np.abs(x) < NEAR
    if not np.any(near):
        return np.asarray(np.expm1(x) - x)
    if np.all(near):
        return _series(x)
    values: Complex = np.empty(x.shape, dtype=complex)
    values[near] = _series(x[near])
    far = x[~near]
    values[~near] = np.expm1(far) - far
    return values


def _series(x: Complex) -> Complex:
    total: Complex = np.full(x.shape, SERIES[-1], dtype=complex)
    for coefficient in SERIES[-2::-1]:
        total *= x
        total += coefficient
    return total * x * x
