"""Gauss-Legendre rules by pieces for positive integrands given by their logarithm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array

POINTS = 16  # per piece: exact for polynomials of degree 31
NEGLIGIBLE_NATS = 50.0  # nats below the peak that may be left out: e^-50 is 2e-22
STEEP = 10.0  # nats of growth that one piece resolves to 1e-17


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


@dataclass(frozen=True, kw_only=True)
class Integrands:
    """Several positive integrands e^{rising(x) + weight(x)}, one row each, and what is known of their shape.

    `rising` does not decrease and is at most `growth`, which is convex; `weight` is concave, largest at 0, with second
    derivative at least -`curvature`; `widest(a, b)` is how wide a piece the rule resolves on [a, b].
    """

    rising: Callable[[Array], Array]
    growth: Callable[[Array], Array]
    weight: Callable[[Array], Array]
    curvature: float
    widest: Callable[[Array, Array], Array]

    def ceiling(self, a: Array, b: Array) -> Array:
        """Return an upper bound of the log-integrands on each [a, b]."""
        by_monotony = self.rising(b) + self.weight(np.clip(0.0, a, b))
        # growth lies below its chord and weight below its tangent at the middle: the sum is largest at an end
        at_ends = np.maximum(self.growth(a) + self.weight(a), self.growth(b) + self.weight(b))
        return np.minimum(by_monotony, at_ends + self.curvature * (b - a) ** 2 / 8)

    def too_coarse(self, a: Array, b: Array, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether the rule cannot resolve [a, b]: too wide, or too steep for an integrand that is relevant there."""
        rise = np.abs(self.growth(b) + self.weight(b) - self.growth(a) - self.weight(a))
        steep = np.any((rise > STEEP) & relevant, axis=0) & (b - a > 1e-12 * np.abs(b))
        coarse: NDArray[np.bool_] = (b - a > self.widest(a, b)) | steep
        return coarse


def relevant_pieces(low: float, high: float, integrands: Integrands) -> tuple[Array, Array]:
    """Return pieces of [low, high] that carry the integrals, fine enough for the rule.

    Pieces whose ceiling is far below what the peak attains are dropped, coarse ones are halved, in O(log of the
    range) rounds.
    """
    edges = np.linspace(low, high, 17)
    a, b = edges[:-1], edges[1:]
    for _ in range(100):
        attained = np.max(integrands.rising(b) + integrands.weight(b), axis=1, keepdims=True)
        relevant = integrands.ceiling(a, b) > attained - NEGLIGIBLE_NATS
        keep = np.any(relevant, axis=0)
        a, b = a[keep], b[keep]
        coarse = integrands.too_coarse(a, b, relevant[:, keep])
        if not np.any(coarse):
            break
        a, b = _halved(a, b, coarse)
    return a, b


def fine_pieces(low: float, high: float, widest: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    """Return pieces of [low, high], none wider than the rule resolves."""
    a, b = np.array([low]), np.array([high])
    while np.any(coarse := b - a > widest(a, b)):
        a, b = _halved(a, b, coarse)
    return a, b


def _halved(a: Array, b: Array, coarse: NDArray[np.bool_]) -> tuple[Array, Array]:
    middle = (a[coarse] + b[coarse]) / 2
    return np.concatenate([a[~coarse], a[coarse], middle]), np.concatenate([b[~coarse], middle, b[coarse]])


def shortened(step: float) -> float:
    """Return a step, at most so long, of which multiples below 2^26 are doubles: it has 27 bits."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 27)), exponent - 27)
