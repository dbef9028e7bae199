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
