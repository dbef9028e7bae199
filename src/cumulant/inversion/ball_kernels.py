"""What the terms of a line in balls are multiplied by: the payoff's transform, a band's two, or that of a lattice.

With G(x) = e^{-θx} (1 - e^{-x})_+ the payoff tilted by θ, and L of the tilted law, the sum over z_j = θ + ijη

    (η/π) Re Σ' T̂(z_j) M(z_j)/M(θ) e^{-ijηε},   the first term halved,

is Σ_k E T(L - ε + kW), W = 2π/η (Poisson). Each kernel says which T: G itself, functions on either side of it whose
transforms end (`kernels`), or G on the points of a lattice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.numerics.balls import as_ball, complex_ball, pi_ball, upper_float
from cumulant.pairs.certified import BallNodes, ball_nodes
from cumulant.pairs.finite_pair import FinitePair

if TYPE_CHECKING:
    from flint import arb

TurnedSum = Callable[[int, "arb"], "arb"]
"""Of which column of weighted terms, turned back by how much of the loss."""


class Kernel(ABC):
    """A choice of T: its transform, one column or two, and what sums of the columns say of E G(L - ε).

    `moved` bounds by how much losses were moved before they were summed.
    """

    __slots__ = ()

    @property
    def moved(self) -> arb:
        return as_ball(0.0)

    @abstractmethod
    def transforms(self, line: Sequence[Any]) -> tuple[list[Any], ...]:
        """Return T̂ at all points of a line, column by column."""

    @abstractmethod
    def enclose(self, turned: TurnedSum, below: arb, above: arb) -> tuple[arb, arb]:
        """Return what is at most Σ_k E G(L - ε + kW) at ε = `above`, and what is at least E G(L - ε) at `below`."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class PlainKernel(Kernel):
    """The payoff itself, 1/(z(z+1)); `tail` bounds what lies beyond the end of the line."""

    tail: arb

    def transforms(self, line: Sequence[Any]) -> tuple[list[Any], ...]:
        return ([1 / (z * (z + 1)) for z in line],)

    def enclose(self, turned: TurnedSum, below: arb, above: arb) -> tuple[arb, arb]:
        total = turned(0, below.union(above))
        return total - self.tail, total + self.tail


@final
@dataclass(frozen=True, slots=True, eq=False)
class BandKernel(Kernel):
    """The extremal T₋ <= G <= T₊ whose transforms vanish from 2π/h on: the line ends there whatever the losses are.

    Theorem and proof: `kernels`. With B(w) = w/(1 - e^{-w}), a = θh, b = (θ+1)h, S_g(w) = (1 + iwh/2π) e^{-wgh}
    / (1 - e^{-wh}) and g = log(B(b)/B(a))/h,

        T̂₊ = h (S_g(z) - S_g(z+1)),     T̂₋ = h (S_0(z) - S_0(z+1) + i(B(b) - B(a))/2π).

    Holds for:  any law of losses; points below 2π/h.
    Tightness:  bounds of ε are about (θ+1)h²/8 apart.
    """

    h: arb
    shift: arb  # g
    risen: arb  # B(b) - B(a)

    @staticmethod
    def of(theta: arb, h: arb) -> BandKernel:
        at, behind = (w / -(-w).expm1() for w in (theta * h, (theta + 1) * h))
        return BandKernel(h, (behind / at).log() / h, behind - at)

    def transforms(self, line: Sequence[Any]) -> tuple[list[Any], ...]:
        h, turn = self.h, complex_ball(as_ball(0.0), self.h / (2 * pi_ball()))
        less, shift, less_shifted, rise = (-h).exp(), h * self.shift, (-h * self.shift).exp(), turn * self.risen
        above, below = [], []
        for z in line:
            once = (-z * h).exp()
            first, second = (1 + turn * z) / (1 - once), (1 + turn * (z + 1)) / (1 - once * less)
            above.append(h * (-z * shift).exp() * (first - less_shifted * second))
            below.append(h * (first - second) + rise)
        return above, below

    def enclose(self, turned: TurnedSum, below: arb, above: arb) -> tuple[arb, arb]:
        return turned(1, above), turned(0, below)


# Lattices -------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class BallLattice:
    """Points offset + k·span that all losses lie on, each within `error`; exact numbers."""

    offset: arb
    span: arb
    error: arb

    @staticmethod
    def of(losses: ComposedPairs, bits: int) -> BallLattice:
        """Return the lattice of all losses together: exact numbers near the losses, and how far these may be off."""
        offset, error, span = as_ball(0.0), as_ball(0.0), None
        for pair, n in losses.parts:
            if not isinstance(pair, FinitePair) or pair.lattice is None:
                raise OutOfReach(f"no lattice is known for {type(pair).__name__}")
            found = ball_nodes(pair, 0.0, 0.0, 0.0, bits=bits).losses
            if span is None:
                least, most = (key(found, key=_center) for key in (min, max))
                span = ((most - least) / round(_center(most - least) / pair.lattice.span)).mid()
            moved = _snapped(found, span)
            offset += n * moved[0]
            error += n * as_ball(max(upper_float(abs(x - y)) for x, y in zip(found, moved, strict=True)))
        if span is None:
            raise OutOfReach("nothing lies on a lattice")
        return BallLattice(offset.mid(), span, error + as_ball(upper_float(offset.rad())))

    def snap(self, nodes: BallNodes) -> BallNodes:
        """Return nodes moved onto the lattice."""
        return BallNodes(_snapped(nodes.losses, self.span), nodes.weights, nodes.error)

    def gaps(self, epsilon: arb) -> list[arb]:
        """Return the way from ε to the next point above it; two candidates where rounding does not tell them apart.

        Where neither those nor that others are too far are certain, it is no number.
        """
        near = math.floor(float(((epsilon - self.offset) / self.span).mid()))
        gaps = [self.offset + k * self.span - epsilon for k in (near - 1, near, near + 1, near + 2)]
        found = [gap for gap in gaps if not gap <= 0 and not gap > self.span]
        is_certain = gaps[0] <= 0 and gaps[-1] > self.span and 0 < len(found) <= 2
        return found if is_certain else [as_ball(math.nan)]


@final
@dataclass(frozen=True, slots=True, eq=False)
class LatticeKernel(Kernel):
    """The payoff on the points of a lattice only; one period of its transform is the whole line.

    At x = gap, gap + span, … the transform is a geometric series,

        span·Σ (1 - e^{-x}) e^{-zx} = span·e^{-z·gap} (1 - e^{-gap} - e^{-z·span} e^{-gap} (e^{gap-span} - 1))/D(z),

    D(z) = (1 - e^{-z·span})(1 - e^{-(z+1)·span}); `tail` bounds what the points of a period that are left out add.
    """

    lattice: BallLattice
    theta: arb
    tail: arb

    @property
    def moved(self) -> arb:
        return self.lattice.error

    def transforms(self, line: Sequence[Any]) -> tuple[list[Any], ...]:
        """Return 1/D(z) and e^{-z·span}/D(z): the rest depends on ε."""
        span = self.lattice.span
        turned = [(-z * span).exp() for z in line]
        shares = [1 / ((1 - w) * (1 - (-(z + 1) * span).exp())) for z, w in zip(line, turned, strict=True)]
        return shares, [w * share for w, share in zip(turned, shares, strict=True)]

    def enclose(self, turned: TurnedSum, below: arb, above: arb) -> tuple[arb, arb]:
        return self._sum(turned, above) - self.tail, self._sum(turned, below) + self.tail

    def _sum(self, turned: TurnedSum, epsilon: arb) -> arb:
        first, *rest = [self._beyond_gap(turned, epsilon, gap) for gap in self.lattice.gaps(epsilon)]
        return first.union(rest[0]) if rest else first

    def _beyond_gap(self, turned: TurnedSum, epsilon: arb, gap: arb) -> arb:
        """Return the sum for a lattice whose first point beyond ε is so far away."""
        span = self.lattice.span
        near, far = (turned(column, epsilon + gap) for column in (0, 1))
        here, next_one = -(-gap).expm1(), (-gap).exp() * (gap - span).expm1()
        return span * (-self.theta * gap).exp() * (here * near - next_one * far)


def _snapped(losses: Sequence[arb], span: arb) -> list[arb]:
    """Return the points of a lattice through the middle of the least loss that are next to the losses, about."""
    start = min(losses, key=_center).mid()
    return [start + round(_center(x - start) / float(span)) * span for x in losses]


def _center(x: arb) -> float:
    return float(x.mid())
