"""Lattices of losses in balls: exact points near the losses, and how far these may be from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.numerics.balls import as_ball, upper_float
from cumulant.pairs.certified import BallNodes, ball_nodes
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.pair import DominatingPair

if TYPE_CHECKING:
    from flint import arb


@final
@dataclass(frozen=True, slots=True, eq=False)
class BallLattice:
    """Points offset + k·span that all losses lie on, each within `error`; exact numbers."""

    offset: arb
    span: arb
    error: arb

    def gaps(self, epsilon: arb) -> list[arb]:
        """Return the way from ε to the next point above it; two candidates where rounding does not tell them apart."""
        near = math.floor(float(((epsilon - self.offset) / self.span).mid()))
        gaps = [self.offset + k * self.span - epsilon for k in (near - 1, near, near + 1, near + 2)]
        return [gap for gap in gaps if not gap <= 0 and not gap > self.span] or gaps[1:3]


def ball_lattice(losses: ComposedPairs, bits: int) -> BallLattice:
    """Return the lattice of all losses together: exact numbers near the losses, and how far these may be from it."""
    offset, error, span = as_ball(0.0), as_ball(0.0), None
    for pair, n in losses.parts:
        found, steps = _places(pair, bits)
        if span is None:
            span = ((found[-1] - found[0]) / steps[-1]).mid()
        start = found[0].mid()
        offset += n * start
        error += n * as_ball(max(upper_float(abs(x - start - k * span)) for x, k in zip(found, steps, strict=True)))
    if span is None:
        raise OutOfReach("nothing lies on a lattice")
    return BallLattice(offset.mid(), span, error + as_ball(upper_float(offset.rad())))


def _places(pair: DominatingPair, bits: int) -> tuple[list[arb], list[int]]:
    """Return sorted losses, and how many spans each lies above the first."""
    if not isinstance(pair, FinitePair) or pair.lattice is None:
        raise OutOfReach(f"no lattice is known for {type(pair).__name__}")
    losses = sorted(ball_nodes(pair, 0.0, 0.0, 0.0, bits=bits).losses, key=lambda x: float(x.mid()))
    return losses, [round(float((x - losses[0]).mid()) / pair.lattice.span) for x in losses]


def snap(nodes: BallNodes, lattice: BallLattice) -> BallNodes:
    """Return nodes moved onto the lattice."""
    start = min(nodes.losses, key=lambda x: float(x.mid())).mid()
    span = lattice.span
    places = [round(float((x - start).mid()) / float(span)) for x in nodes.losses]
    return BallNodes([start + k * span for k in places], nodes.weights, nodes.error)
