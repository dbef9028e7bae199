"""Gauss-Legendre rules with a proven error, for the moment integrals of a coordinate.

M(z) is the integral of F(t) = base(t)·Π w(±t)^{a}, with complex exponents a. On a piece of half-width c around m, if
|F| <= B on the ellipse with foci m ± c and semi-axes c(ρ ± 1/ρ)/2, then n points err by at most

    c · (64/15) · B · ρ^{-2n} / (1 - ρ^{-2})        (Trefethen 2008, Theorem 4.5),

and B is bounded on the rectangle around the ellipse: with x = Re t and y = |Im t|, a Gaussian base grows by e^{y²/2},
w(t) has modulus between w(x)cos(sy/2) and w(x) and argument at most sy, where s bounds the slope of log w and sy < π
(for mixtures of more than two terms sy < π/2): all terms of w turn by angles between 0 and sy.
Pieces on which even B is negligible are left out and counted in the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.loss.coordinate import Branch
from cumulant.numerics.logspace import Array

POINTS = 24
RHO = 4.0
ERROR = math.log(64 / 15) - 2 * POINTS * math.log(RHO) - math.log1p(-(RHO**-2))
NEGLIGIBLE = -62.0  # nats, relative to M(θ): 1e-27 a piece
MOST_PIECES = 20_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProvenRule:
    """Pieces [start, start + width] that carry a branch, and the error of the rule on them, relative to M(θ)."""

    starts: Array
    widths: Array
    log_error: float


def proven_rule(branch: Branch, theta: float, omega: float, k_theta: float) -> ProvenRule:
    """Return pieces for all |Im z| <= ω at Re z = θ."""
    low, high = branch.whole_span(theta)
    width = _width(branch, theta, omega)
    count = math.ceil((high - low) / width)
    if count > MOST_PIECES:
        raise OutOfReach(f"a certificate would take {count} pieces of the coordinate")
    edges = np.linspace(low, high, count + 1)
    a, b = edges[:-1], edges[1:]
    half = (b - a) / 2
    reach, y = half * (RHO + 1 / RHO) / 2, half * (RHO - 1 / RHO) / 2
    plain = branch.log_ceiling(a, b, np.zeros(count), theta, 0.0) + np.log(b - a) - k_theta
    error = branch.log_ceiling((a + b) / 2 - reach, (a + b) / 2 + reach, y, theta, omega) + np.log(half) + ERROR
    kept = plain > NEGLIGIBLE
    logs = np.concatenate([np.where(kept, error - k_theta, plain), [branch.log_tails(theta, low, high) - k_theta]])
    return ProvenRule(a[kept], (b - a)[kept], float(np.logaddexp.reduce(logs)) + 1e-6)  # rounded up


def _width(branch: Branch, theta: float, omega: float) -> float:
    """Return a width at which the ellipse costs about e^20 against the e^-66 of the rule."""
    turn = 20.0 / (abs(theta + 1 + 1j * omega) * branch.steepest)
    return min(0.9, turn, 0.7 / branch.steepest)
