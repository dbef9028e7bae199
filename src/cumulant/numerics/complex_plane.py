"""Complex arrays, sines that keep their relative accuracy, and sums of both over many nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array

Complex = NDArray[np.complexfloating[Any, Any]]

NEAR = 0.1  # |x| up to which the series is used: five terms leave 1e-15
MOST_TURNED_AT_ONCE = 1_000_000  # nodes times frequencies of the shorter part, at a time: a few arrays of 16 MB
MOST_PRODUCTS = 60_000  # of one block: libraries start threads beyond, which cost more than they gain
LEAST_BLOCK = 16  # nodes
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


# Sums over nodes, as products of matrices, a block of nodes at a time -------------------------------------------------


def add_products(rows: Array | Complex, columns: Array | Complex) -> Any:
    """Return Σ_k rows[i, k]·columns[j, k].

    Blocks are added up one after the other: a term is rounded as often as its block has nodes, and there are blocks.

    >>> add_products(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]])).tolist()
    [[11.0, 17.0]]
    """
    block = max(MOST_PRODUCTS // (len(rows) * len(columns)), LEAST_BLOCK)
    total: Any = rows[:, :block] @ columns[:, :block].T
    for first in range(block, rows.shape[1], block):
        total += rows[:, first : first + block] @ columns[:, first : first + block].T
    return total


def add_turned(losses: Array, masses: Array, eta: float, count: int) -> Complex:
    """Return Σ_k m_k e^{ijηL_k} for j < count: every j is a sum of two numbers, so this is a product of matrices.

    >>> found = add_turned(np.array([0.3, 2.0]), np.array([1.0, 4.0]), 0.5, 3)[2]
    >>> bool(abs(found - np.exp(0.3j) - 4 * np.exp(2j)) < 1e-14)
    True
    """
    short = math.isqrt(max(count - 1, 0)) + 1
    total: Any = 0.0
    for some in _shares(len(losses), short):
        rows = 1 + _turns_less_one(eta * short * losses[some], -(-count // short))
        columns = (1 + _turns_less_one(eta * losses[some], short)) * masses[some]
        total = total + add_products(rows, columns)
    return np.asarray(total.reshape(-1)[:count])


def add_versines(losses: Array, masses: Array, eta: float, count: int) -> tuple[Array, Array]:
    """Return Σ_k m_k (1 - cos jηL_k) and Σ_k m_k sin jηL_k for j < count, each to its own relative accuracy.

    >>> even, odd = add_versines(np.array([1e-9]), np.array([2.0]), 1.0, 3)
    >>> round(float(even[2]) * 1e18, 9), round(float(odd[2]) * 1e9, 9)
    (4.0, 4.0)
    """
    short = math.isqrt(max(count - 1, 0)) + 1
    even, odd = (np.zeros((-(-count // short), short)) for _ in range(2))
    for some in _shares(len(losses), short):
        _add_some_versines(even, odd, losses[some], masses[some], eta)
    return -even.reshape(-1)[:count], odd.reshape(-1)[:count]


def _add_some_versines(even: Array, odd: Array, losses: Array, masses: Array, eta: float) -> None:
    """Add Σ m (cos ωL - 1) and Σ m sin ωL, ω = η(a·short + b) in row a and column b."""
    long, short = even.shape
    rows = _in_parts(_turns_less_one(eta * short * losses, long)) * masses
    columns = _in_parts(_turns_less_one(eta * losses, short))
    # e^{i(a+b)} - 1 = A + B + AB, A = e^{ia} - 1 and B likewise: no term is larger than the order of the sum
    products, of_rows, of_columns = add_products(rows, columns), rows.sum(axis=1)[:, None], columns @ masses
    even += of_rows[:long] + of_columns[:short] + products[:long, :short] - products[long:, short:]
    odd += of_rows[long:] + of_columns[short:] + products[:long, short:] + products[long:, :short]


def _shares(nodes: int, short: int) -> list[slice]:
    """Return which nodes are turned at a time."""
    some = max(MOST_TURNED_AT_ONCE // short, LEAST_BLOCK)
    return [slice(first, first + some) for first in range(0, max(nodes, 1), some)]


def _in_parts(values: Complex) -> Array:
    """Return all real parts, and then all imaginary ones."""
    return np.concatenate((values.real, values.imag))


def _turns_less_one(x: Array, count: int) -> Complex:
    """Return e^{ijx} - 1 for j < count: few tangents T of x/2, e^{ix} - 1 = 2T(i - T)/(1 + T²), and sums of angles."""
    found = np.zeros((count, len(x)), dtype=complex)
    sizes = [2**k for k in range((count - 1).bit_length())]
    tangent = np.tan(np.multiply.outer(0.5 * np.array(sizes), x))
    steps = 2 * tangent / (1 + tangent * tangent) * (1j - tangent)
    for size, step, turn in zip(sizes, steps, 1 + steps, strict=True):
        found[size : 2 * size] = found[: min(size, count - size)] * turn + step
    return found
