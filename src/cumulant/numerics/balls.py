"""Ball arithmetic: numbers that carry a proven error (python-flint, Johansson's Arb).

The functions import flint when they are called, so that `import cumulant` stays light.

A formula serves both arithmetics: np.exp(x), np.log(x), x*y, … take numbers, arrays of doubles, balls, and arrays of
balls, which are objects of which NumPy calls the methods. What NumPy lacks is under *Either arithmetic*.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from flint import arb

LOG_ROOT = 0.5 * math.log(2 * math.pi)
SERIES_TERMS, SERIES_TERMS_PER_BIT = 14, 0.19  # (π/2)^T/T! is below 2^-bits
BLOCK = 100_000  # waves at a time, of a few hundred bytes each


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with a number of bits inside the block."""
    from flint import ctx

    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def current_bits() -> int:
    """Return with how many bits balls are computed now."""
    from flint import ctx

    return int(ctx.prec)


@lru_cache(maxsize=1)
def _balls() -> Any:
    """Return the class of balls: an import statement would take longer than the ball."""
    from flint import arb

    return arb


def as_ball(value: float, radius: float = 0.0) -> arb:
    """Return the ball around a double, which is exact."""
    return _balls()(value, radius) if radius else _balls()(value)


def complex_ball(real: arb, imaginary: float) -> Any:
    """Return x + iy."""
    from flint import acb

    return acb(real, imaginary)


def points_above(theta: float, step: arb, count: int) -> list[Any]:
    """Return θ + ij·step for j < count."""
    from flint import acb

    start = as_ball(theta)
    return [acb(start, step * j) for j in range(count)]


def pi_ball() -> arb:
    """Return π."""
    from flint import arb

    return arb.pi()


def ball_below(value: float, error: float) -> arb:
    """Return the ball of all numbers between value·(1 - error) and value > 0: a parameter that was rounded up."""
    return as_ball(value) * (1 - as_ball(error / 2, error / 2))


def reciprocal_ball(value: float, of: float | None) -> arb:
    """Return 1/x of the number that a double was rounded up from; where there is none, the double itself."""
    return as_ball(value) if of is None else 1 / as_ball(of)


def ball_of_fraction(value: Fraction) -> arb:
    """Return the ball of a fraction."""
    from flint import arb, fmpq

    return arb(fmpq(value.numerator, value.denominator))


def fraction_near(ball: arb) -> Fraction:
    """Return the middle of a ball."""
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def log_mixture_balls(us: Iterable[Any], rate: arb) -> list[Any]:
    """Return log(1 - γ + γe^u) of each u, |Im u| < π, γ < 1, without a difference of numbers near 1."""
    rest = 1 - rate
    return [
        u + (rest * (-u).exp() + rate).log()
        if u.real > 1
        else (rest + rate * u.exp()).log()
        if u.real < -1
        else (rate * u.expm1()).log1p()
        for u in us
    ]


def log_sum_ball(logs: Sequence[arb]) -> arb:
    """Return log Σ e^x; of nothing, a number below every double."""
    from flint import arb

    if not logs:
        return arb(-1e300)
    peak = max(float(x.mid()) for x in logs)
    return sum(((x - peak).exp() for x in logs), arb(0)).log() + peak


@lru_cache(maxsize=64)
def legendre_balls(count: int, bits: int) -> tuple[tuple[arb, arb], ...]:
    """Return nodes and weights of the Gauss-Legendre rule on [0, 1]."""
    from flint import arb

    with precision(bits):
        roots = [arb.legendre_p_root(count, k, weight=True) for k in range(count)]
        return tuple(((root + 1) / 2, weight / 2) for root, weight in roots)


def transform_effort(positions: int, count: int, bits: int) -> float:
    """Return about how many microseconds a transform takes, of real positions."""
    return min(product_effort(positions, count, bits), _series_effort(positions, count, bits))


def product_effort(positions: int, count: int, bits: int) -> float:
    """Return about how many microseconds it takes by products of matrices, as of complex positions."""
    return positions * count * (bits + 100) / 1000


def _series_effort(positions: int, count: int, bits: int) -> float:
    return series_terms(bits) * (places_of(count) + count + positions / 3) * (0.8 + bits / 800)


def places_of(count: int) -> int:
    return 1 << (2 * count - 1).bit_length()


def series_terms(bits: int) -> int:
    return 2 * math.ceil(SERIES_TERMS_PER_BIT * bits / 2) + SERIES_TERMS


def transform_balls(positions: Sequence[Any], weights: Sequence[Any], step: arb, count: int) -> list[Any]:
    """Return Σ w_i e^{ijηx_i} for j < count, η = step; positions and weights may be complex."""
    size = len(positions), count, current_bits()
    if isinstance(positions[0], _balls()) and _series_effort(*size) < product_effort(*size):
        return _transform_by_series(positions, weights, step, count)
    return _transform_by_products(positions, weights, step, count)


def _transform_by_series(positions: Sequence[arb], weights: Sequence[arb], step: arb, count: int) -> list[Any]:
    """Return a nonuniform transform from fast Fourier transforms of moments.

    e^{ijηx} has period X = 2π/η in x. With M >= 2·count places bX/M, every position is a place and a rest r, about
    X/2M at most, so that y = |jηr| is about π/2 at most, and

        Σ w e^{ijηx} = Σ_{m<T} (ijη)^m/m! Σ_b e^{2πijb/M} Σ_{x at b} w r^m + R,     |R| <= Σ|w|·max y^T/T!.
    """
    from flint import acb, arb, ctx

    places, terms = places_of(count), series_terms(ctx.prec)
    cell = 2 * arb.pi() / (step * places)
    moments, farthest = _moments_at_places(positions, weights, cell, places, terms)
    radius = sum((abs(w) for w in weights), arb(0)) * (farthest * step * count) ** terms / math.factorial(terms)
    ripple = arb(0, upper_float(radius))
    totals, powers = [acb(ripple, ripple)] * count, [arb(1)] * count
    turns = (acb(1), acb(0, 1), acb(-1), acb(0, -1))
    for m in range(0, terms, 2):
        # two real sequences by one transform, which turns the other way: its even and odd part are theirs, conjugated
        both = acb.dft([acb(a, b) for a, b in zip(moments[m], moments[m + 1], strict=True)])
        first, second = turns[m % 4] / 2, turns[(m + 1) % 4] / 2
        for j in range(count):
            here, mirrored = both[j].conjugate(), both[-j]
            power, omega = powers[j], step * j
            above = power * omega / (m + 1)
            totals[j] += first * (here + mirrored) * power + second * turns[3] * (mirrored - here) * above
            powers[j] = above * omega / (m + 2)
    return totals


def _moments_at_places(
    positions: Sequence[arb], weights: Sequence[arb], cell: arb, places: int, terms: int
) -> tuple[list[list[arb]], arb]:
    """Return Σ w r^m at every place, for m < terms, and a bound of |r|."""
    from flint import arb

    moments = [[arb(0)] * places for _ in range(terms)]
    farthest = arb(0)
    for x, weight in zip(positions, weights, strict=True):
        index = round(float((x / cell).mid()))  # the nearest place, or next to it: r is what is left in any case
        rest, moment = x - cell * index, weight
        farthest = farthest.max(abs(rest))
        for column in moments:
            column[index % places] += moment
            moment *= rest
    return moments, farthest


def _transform_by_products(positions: Sequence[Any], weights: Sequence[Any], step: arb, count: int) -> list[Any]:
    """Return a nonuniform transform: every j is a + bB with a < B, by products of matrices of √count waves."""
    from flint import acb_mat

    short = math.isqrt(max(count - 1, 0)) + 1
    long = -(-count // short)
    product, block = acb_mat(long, short), BLOCK // short + 1
    for first in range(0, len(positions), block):
        some, shares = positions[first : first + block], weights[first : first + block]
        rows = acb_mat(long, len(some), _powers([_wave(step * short * x) for x in some], long))
        columns = acb_mat(short, len(some), _powers([_wave(step * x) for x in some], short, shares)).transpose()
        product += rows * columns
    return [product[j // short, j % short] for j in range(count)]


def turned_sum(values: Sequence[Any], turn: arb) -> arb:
    """Return the real part of Σ v_j e^{-ijx}: j is a + bB, so that only about 2√count waves are needed."""
    from flint import acb, acb_mat

    short = math.isqrt(max(len(values) - 1, 0)) + 1
    long = -(-len(values) // short)
    table = acb_mat(long, short, [*values, *[acb(0)] * (long * short - len(values))])
    within, across = ([_wave(-turn * (j * size)) for j in range(n)] for n, size in ((short, 1), (long, short)))
    total: arb = (acb_mat(1, long, across) * (table * acb_mat(short, 1, within)))[0, 0].real
    return total


def _wave(x: Any) -> Any:
    """Return e^{ix}."""
    from flint import acb

    if isinstance(x, acb):
        return (x * acb(0, 1)).exp()
    sine, cosine = x.sin_cos()
    return acb(cosine, sine)


def _powers(waves: Sequence[Any], count: int, weights: Sequence[Any] | None = None) -> list[Any]:
    """Return rows of weight·w_i^j, j < count.

    Each is a product of two of about half its power: a complex product widens its ball, so chains must be short.
    """
    from flint import acb

    rows = [[acb(1)] * len(waves), list(waves)]
    for j in range(2, count):
        rows.append([a * b for a, b in zip(rows[j // 2], rows[j - j // 2], strict=True)])
    if weights is not None:
        rows = [[value * weight for value, weight in zip(row, weights, strict=True)] for row in rows]
    return [value for row in rows[:count] for value in row]


def upper_floats(balls: Iterable[arb]) -> list[float]:
    """Return doubles at or above every point of each ball."""
    return [upper_float(ball) for ball in balls]


def lower_floats(balls: Iterable[arb]) -> list[float]:
    """Return doubles at or below every point of each ball."""
    return [lower_float(ball) for ball in balls]


def upper_float(ball: arb) -> float:
    """Return a double at or above every point of the ball."""
    return math.nextafter(float(ball.upper()), math.inf)


def lower_float(ball: arb) -> float:
    """Return a double at or below every point of the ball."""
    return math.nextafter(float(ball.lower()), -math.inf)


# Either arithmetic ----------------------------------------------------------------------------------------------------


def is_ball(x: Any) -> bool:
    """Return whether a number, or an array of them, is computed in balls.

    >>> is_ball(1.0), is_ball(np.ones(2)), is_ball(as_ball(1.0)), is_ball(column([as_ball(1.0)]))
    (False, False, True, True)
    """
    return x.dtype == object if isinstance(x, np.ndarray) else not isinstance(x, float | int)


def constant(value: float, like: Any) -> Any:
    """Return a double in the arithmetic of another number: an exact ball, of which a formula makes others."""
    return as_ball(value) if is_ball(like) else value


def column(balls: Sequence[Any]) -> Any:
    """Return balls as an array."""
    found = np.empty(len(balls), dtype=object)
    found[:] = balls
    return found


def log_root(like: Any) -> Any:
    """Return log √2π."""
    return (2 * pi_ball()).log() / 2 if is_ball(like) else LOG_ROOT


def erf(x: Any) -> Any:
    """Return the error function of a number.

    >>> erf(0.5) == float(erf(as_ball(0.5)))
    True
    """
    return x.erf() if is_ball(x) else math.erf(x)


def erfc(x: Any) -> Any:
    """Return the complementary error function of a number, or of an array of balls."""
    if isinstance(x, np.ndarray):
        return np.frompyfunc(lambda one: one.erfc(), 1, 1)(x)
    return x.erfc() if is_ball(x) else math.erfc(x)
