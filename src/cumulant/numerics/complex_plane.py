"""Complex arrays, and sines that keep their relative accuracy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array

Complex = NDArray[np.complexfloating[Any, Any]]

NEAR = 0.1  # |x| up to which the series is used: five terms leave 1e-15
SERIES = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(1, 6))


def sine_excess(x: Array) -> Array:
    """Return sin x - x, with an error below 1e-14 of x².

    >>> round(float(sine_excess(np.array(1e-9))) * 1e28, 12)
    -1.666666666667
    """
    near = np.abs(x) < NEAR
    small = np.where(near, x, 0.0)
    square = small * small
    total: Array = np.full(x.shape, SERIES[-1])
    for coefficient in SERIES[-2::-1]:
        total *= square
        total += coefficient
    return np.where(near, total * square * small, np.sin(x) - x)


def log1p_complex(real: Array, imaginary: Array) -> Complex:
    """Return log(1 + x + iy), its real part to full relative accuracy near 0, which NumPy's log1p does not keep.

    >>> round(float(log1p_complex(np.array(-1e-20), np.array(1e-10)).real) * 1e21, 9)
    -5.0
    """
    with np.errstate(divide="ignore"):  # where the argument is 0 the logarithm is -inf
        modulus = 0.5 * np.log1p(np.maximum(real * (2 + real) + imaginary * imaginary, -1.0))
    return np.asarray(modulus + 1j * np.arctan2(imaginary, 1 + real))
