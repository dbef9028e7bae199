"""M(z) of a dominating pair as balls, on the nodes of a line, divided by e^{K(θ)}."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

from flint import acb, arb

from cumulant.errors import OutOfReach
from cumulant.loss.coordinate import CoordinatePair
from cumulant.loss.finite_pair import FinitePair
from cumulant.loss.pair import DominatingPair
from cumulant.loss.proven_rule import POINTS, proven_rule
from cumulant.numerics.balls import as_ball, legendre_balls, transform_balls, upper_float

ULPS = 2.0**-49  # relative radius of a stored loss or log-mass: eight units in the last place
SPECK = 2.0**-50  # absolute radius of a stored probability
MOST_TERMS = 600_000  # of sums over nodes and frequencies, about a second


def tilted_moments(
    pair: DominatingPair, theta: float, k_theta: float, *, step: arb, count: int, bits: int
) -> list[Any]:
    """Return e^{-K} M(θ + ijη) for j < count, K and θ taken as the doubles they are."""
    positions, weights, error = _nodes(pair, theta, upper_float(step) * (count - 1), k_theta, bits)
    if len(positions) * count > MOST_TERMS:
        raise OutOfReach(f"a certificate would take {len(positions) * count} terms")
    frequencies = [step * j for j in range(count)]
    scale = (-as_ball(k_theta)).exp()
    tilted = [weight * (as_ball(theta) * x).exp() * scale for x, weight in zip(positions, weights, strict=True)]
    values = transform_balls(positions, tilted, frequencies)
    return [_widened(value, error) for value in values]


@singledispatch
def _nodes(
    pair: DominatingPair, theta: float, omega: float, k_theta: float, bits: int
) -> tuple[list[arb], list[arb], float]:
    """Return losses, weights under P, and the quadrature error relative to e^{K(θ)}."""
    raise OutOfReach(f"no certificate is known for {type(pair).__name__}")


@_nodes.register
def _(pair: FinitePair, theta: float, omega: float, k_theta: float, bits: int) -> tuple[list[arb], list[arb], float]:
    finite = 1 - as_ball(pair.failure)
    losses = [as_ball(x, abs(x) * ULPS) for x in pair.losses]
    masses = [as_ball(m, abs(m) * ULPS).exp() for m in pair.log_masses]
    return losses, [(mass + as_ball(0.0, SPECK)) / finite for mass in masses], 0.0


@_nodes.register
def _(
    pair: CoordinatePair, theta: float, omega: float, k_theta: float, bits: int
) -> tuple[list[arb], list[arb], float]:
    positions = [as_ball(x, abs(x) * ULPS) for x, _ in pair.atoms]
    weights = [as_ball(m, abs(m) * ULPS).exp() + as_ball(0.0, SPECK) for _, m in pair.atoms]
    log_error = -math.inf
    rule = legendre_balls(POINTS, bits)
    for branch in pair.branches:
        proven = proven_rule(branch, theta, omega, k_theta)
        log_error = max(log_error, proven.log_error) + math.log(len(pair.branches))
        for start, width in zip(proven.starts.tolist(), proven.widths.tolist(), strict=True):
            for node, weight in rule:
                loss, density = branch.ball(as_ball(start) + as_ball(width) * node)
                positions.append(loss)
                weights.append(density * weight * as_ball(width))
    return positions, weights, math.exp(log_error)


def _widened(value: Any, error: float) -> Any:
    return value + acb(as_ball(0.0, error), as_ball(0.0, error)) if error else value
