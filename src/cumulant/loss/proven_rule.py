"""Gauss-Legendre rules with a proven error, for the moment integrals of a coordinate, in balls.

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
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.loss.coordinate import Branch
from cumulant.numerics.balls import as_ball, log_sum_ball

if TYPE_CHECKING:
    from flint import arb

POINTS = 24
RHO = 4.0
NEGLIGIBLE = -62.0  # nats, relative to M(θ): 1e-27 a piece
MOST_PIECES = 20_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProvenRule:
    """Pieces [start, end] that carry a branch, and the error of the rule on them, relative to M(θ)."""

    pieces: list[tuple[arb, arb]]
    log_error: arb


def proven_rule(branch: Branch, theta: float, omega: float, k_theta: float) -> ProvenRule:
    """Return pieces for all |Im z| <= ω at Re z = θ: neighbours share their end, so they leave no gap."""
    edges = _edges(branch, theta, omega)
    constant = (as_ball(64.0) / 15).log() - 2 * POINTS * as_ball(RHO).log() - (1 - as_ball(RHO) ** -2).log()
    tilt, frequency, scale = as_ball(theta), as_ball(omega), as_ball(k_theta)
    pieces, errors = [], [branch.log_tails(tilt, edges[0], edges[-1]) - scale]
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        half, middle = (b - a) / 2, (a + b) / 2
        plain = branch.log_ceiling(a, b, 0 * a, tilt, 0 * frequency) + (b - a).log() - scale
        if plain < NEGLIGIBLE:
            errors.append(plain)
            continue
        reach, y = half * (RHO + 1 / RHO) / 2, half * (RHO - 1 / RHO) / 2
        ceiling = branch.log_ceiling(middle - reach, middle + reach, y, tilt, frequency)
        errors.append(ceiling + half.log() + constant - scale)
        pieces.append((a, b))
    return ProvenRule(pieces, log_sum_ball(errors))


def _edges(branch: Branch, theta: float, omega: float) -> list[arb]:
    """Return the ends of pieces: doubles, but for the ends of the branch itself."""
    low, high = branch.whole_span(theta)
    count = max(math.ceil((high - low) / _width(branch, theta, omega)), 1)
    if count > MOST_PIECES:
        raise OutOfReach(f"a certificate would take {count} pieces of the coordinate")
    edges = [as_ball(x) for x in np.linspace(low, high, count + 1).tolist()]
    first, last = branch.ends_ball()
    return [edges[0] if first is None else first, *edges[1:-1], edges[-1] if last is None else last]


def _width(branch: Branch, theta: float, omega: float) -> float:
    """Return a width at which the ellipse costs about e^20 against the e^-66 of the rule."""
    turn = 20.0 / (abs(theta + 1 + 1j * omega) * branch.steepest)
    return min(0.9, turn, 0.7 / branch.steepest)
