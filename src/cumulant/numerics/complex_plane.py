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


def sine_versine(x: Array) -> tuple[Array, Array, Array]:
    """Return sin x, 1 - cos x and sin x - x, each with an error below 1e-14 of its own order: x, x² and x².

    >>> [round(float(y) * scale, 9) for y, scale in zip(sine_versine(np.array(1e-9)), (1e9, 1e18, 1e27), strict=True)]
    [1.0, 0.5, -0.166666667]
    """
    sine, half = np.sin(x), np.sin(0.5 * x)
    square = x * x
    total: Array = np.full(x.shape, SERIES[-1])
    for coefficient in SERIES[-2::-1]:
        total *= square
        total += coefficient
    return sine, 2 * half * half, np.where(square < NEAR**2, total * square * x, sine - x)


def sine_versine_of_multiples(x: Array, count: int) -> tuple[Array, Array, Array]:
    """Return `sine_versine` of 0, x, 2x, …, (count-1)x along the axis before the last: few sines, and sums of angles.

    With V = 1 - cos and S = sin x - x, V(a+b) = V(a) + V(b) - V(a)V(b) + sin a sin b and
    S(a+b) = S(a) + S(b) - sin a V(b) - V(a) sin b: no term is larger than the order of the sum.

    >>> one_by_one = sine_versine(0.3 * np.arange(7.0)[:, None])
    >>> bool(np.allclose(sine_versine_of_multiples(np.array([0.3]), 7), one_by_one, rtol=1e-14))
    True
    """
    found = np.zeros((3, *x.shape[:-1], count, x.shape[-1]))
    size = 1
    while size < count:
        more = min(size, count - size)
        found[..., size : size + more, :] = _summed(found[..., :more, :], sine_versine(size * x[..., None, :]))
        size *= 2
    return found[0], found[1], found[2]


def _summed(first: Array, second: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    (sine_a, versine_a, excess_a), (sine_b, versine_b, excess_b) = first, second
    mixed = sine_a * versine_b + versine_a * sine_b
    even = versine_a + versine_b - versine_a * versine_b + sine_a * sine_b
    return sine_a + sine_b - mixed, even, excess_a + excess_b - mixed


def log1p_complex(real: Array, imaginary: Array) -> Complex:
    """Return log(1 + x + iy), its real part to full relative accuracy near 0, which NumPy's log1p does not keep.

    >>> round(float(log1p_complex(np.array(-1e-20), np.array(1e-10)).real) * 1e21, 9)
    -5.0
    """
    with np.errstate(divide="ignore"):  # where the argument is 0 the logarithm is -inf
        modulus = 0.5 * np.log1p(np.maximum(real * (2 + real) + imaginary * imaginary, -1.0))
        far = real < -0.5
        if np.any(far):  # the square of the modulus would be left with an error of the size of 1's
            modulus = np.where(far, np.log(np.hypot(1 + real, imaginary)), modulus)
    return np.asarray(modulus + 1j * np.arctan2(imaginary, 1 + real))


def turns(angle: float, count: int) -> Complex:
    """Return e^{ijα} for j < count: few exponentials, and their products.

    >>> [round(float(x), 12) for x in turns(0.5, 4).real] == [round(math.cos(0.5 * j), 12) for j in range(4)]
    True
    """
    width = math.isqrt(max(count - 1, 0)) + 1
    few, many = np.exp(1j * angle * np.arange(width)), np.exp(1j * (angle * width) * np.arange(-(-count // width)))
    return np.asarray(np.multiply.outer(many, few).reshape(-1)[:count])


def power(values: Complex, exponent: int) -> Complex:
    """Return a power by squaring; every product rounds once."""
    found, square, left = np.ones_like(values), values, exponent
    while left:
        if left & 1:
            found = found * square
        square, left = (square * square if left > 1 else square), left >> 1
    return found
