"""Ball arithmetic: numbers that carry a proven error (python-flint, Johansson's Arb).

The functions import flint when they are called, so that `import cumulant` stays light.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flint import arb


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with so many bits inside the block."""
    from flint import ctx

    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def as_ball(value: float, radius: float = 0.0) -> arb:
    """Return the ball around a double, which is exact."""
    from flint import arb

    return arb(value, radius) if radius else arb(value)


def ball_of_fraction(value: Fraction) -> arb:
    """Return the ball of a fraction."""
    from flint import arb, fmpq

    return arb(fmpq(value.numerator, value.denominator))


def fraction_near(ball: arb) -> Fraction:
    """Return the middle of a ball."""
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def log_mixture_ball(u: arb, rate: arb) -> arb:
    """Return log(1 - γ + γe^u)."""
    return (rate * u.expm1()).log1p() if u < 1 else u + ((1 - rate) * (-u).exp() + rate).log()


def normal_ball(t: arb) -> arb:
    """Return the standard normal density."""
    from flint import arb

    return (-t * t / 2).exp() / (2 * arb.pi()).sqrt()


@lru_cache(maxsize=64)
def legendre_balls(count: int, bits: int) -> tuple[tuple[arb, arb], ...]:
    """Return nodes and weights of the Gauss-Legendre rule on [0, 1]."""
    from flint import arb

    with precision(bits):
        roots = [arb.legendre_p_root(count, k, weight=True) for k in range(count)]
        return tuple(((root + 1) / 2, weight / 2) for root, weight in roots)


def transform_balls(positions: Sequence[arb], weights: Sequence[arb], frequencies: Sequence[arb]) -> list[Any]:
    """Return Σ w_i e^{iωx_i} at every frequency."""
    from flint import acb, arb_mat

    column = arb_mat(len(weights), 1, list(weights))
    values = []
    for omega in frequencies:
        waves = [(omega * x).sin_cos() for x in positions]
        real = arb_mat(1, len(waves), [c for _, c in waves]) * column
        imaginary = arb_mat(1, len(waves), [s for s, _ in waves]) * column
        values.append(acb(real[0, 0], imaginary[0, 0]))
    return values


def upper_float(ball: arb) -> float:
    """Return a double at or above every point of the ball."""
    return math.nextafter(float(ball.upper()), math.inf)


def lower_float(ball: arb) -> float:
    """Return a double at or below every point of the ball."""
    return math.nextafter(float(ball.lower()), -math.inf)
