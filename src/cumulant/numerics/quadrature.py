"""Gauss-Legendre rules by pieces, and steps of trapezoidal ones."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from cumulant.numerics.logspace import Array

POINTS = 16  # per piece: exact for polynomials of degree 31


@cache
def legendre(count: int = POINTS) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


def nodes_on(starts: Array, ends: Array, count: int = POINTS) -> tuple[Array, Array]:
    """Return nodes and log-weights of the rule on each piece [start, end]."""
    x, w = legendre(count)
    widths = ends - starts
    return (starts[:, None] + widths[:, None] * x).ravel(), (np.log(widths)[:, None] + np.log(w)).ravel()


def shortened(step: float) -> float:
    """Return a step, at most so long, of which multiples below 2^26 are doubles: it has 27 bits."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 27)), exponent - 27)
