"""Finite sums in balls: one release with any number of outputs, and compositions of few releases with few outputs.

n releases with k outputs have C(n+k-1, k-1) sums of losses, each with a multinomial probability. Where these are few,
the profile of the composition is a finite sum, and nothing is left to bound but rounding:

    δ(ε) = Σ_{L > ε} P(L) (1 - e^{ε-L}) = P(L > ε) - e^ε Q(L > ε).

One release has as many as it has outputs; they are put in order and added up (`ordered`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, final

from cumulant.inversion.ball_whole import WholeInBalls
from cumulant.inversion.composed import ComposedPairs
from cumulant.numerics.balls import as_ball, precision
from cumulant.numerics.search import smallest_true
from cumulant.pairs.certified import ball_nodes, excess_of_pair
from cumulant.pairs.ordered import Excess, of_losses

if TYPE_CHECKING:
    from flint import arb

MOST_SUMS = 4000  # of losses that are formed in balls
LARGEST_LOSS_NATS = 1e6  # beyond it e^ε takes more bits than there are
SUM_BITS = 256  # of precision
START = 1e-6  # how near to the answer a search begins

Law = list[tuple["arb", "arb"]]


@lru_cache(maxsize=16)
def sum_one_release(losses: ComposedPairs) -> FiniteSum | None:
    """Return the profile of one release with finitely many outputs, however many; None where balls do not tell it."""
    pair = losses.one_table
    if pair is None or not losses.supremum <= LARGEST_LOSS_NATS:
        return None
    return FiniteSum(excess_of_pair(pair, SUM_BITS), losses.supremum)


@lru_cache(maxsize=8)
def enumerate_sums(losses: ComposedPairs) -> FiniteSum | None:
    """Return the profile of all sums of losses, or None where they are too many or not finitely many."""
    if losses.one_table is not None:
        return sum_one_release(losses)
    if not 0 < losses.sums <= MOST_SUMS or not losses.supremum <= LARGEST_LOSS_NATS:
        return None
    with precision(SUM_BITS):
        law: Law = [(as_ball(0.0), as_ball(1.0))]
        for pair, n in losses.parts:
            nodes = ball_nodes(pair, 0.0, 0.0, 0.0, bits=SUM_BITS)
            if len(law) * math.comb(n + len(nodes.losses) - 1, n) > MOST_SUMS:  # balls may tell more outputs apart
                return None
            part = list(_powers(list(zip(nodes.losses, nodes.weights, strict=True)), n))
            law = [(x + y, p * q) for x, p in law for y, q in part]
        return FiniteSum(of_losses(law, as_ball(0.0), as_ball(0.0)), losses.supremum)


def _powers(atoms: Law, n: int) -> Iterator[tuple[arb, arb]]:
    """Yield the sums of n losses with their probabilities: output by output, those first that no release is left of."""
    unfinished = [(as_ball(0.0), as_ball(1.0), n)]
    *first, (last, last_mass) = atoms
    for loss, mass in first:
        further = []
        for total, probability, left in unfinished:
            for k in range(left + 1):
                share = probability * math.comb(left, k) * mass**k
                if k == left:
                    yield total + k * loss, share
                else:
                    further.append((total + k * loss, share, left - k))
        unfinished = further
    for total, probability, left in unfinished:
        yield total + left * last, probability * last_mass**left


@final
@dataclass(frozen=True, slots=True, eq=False)
class FiniteSum(WholeInBalls):
    """δ(ε) of a finite law, given that the loss is finite: Σ (p - e^ε q)_+ over 1 - P(L = ∞)."""

    gains: Excess
    largest: float

    route = "every sum"

    def bits_at(self, epsilon: float) -> int:
        return SUM_BITS

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        delta = self.gains.at(epsilon.expm1()) / (1 - self.gains.failure)
        return delta, delta

    def start(self, log_delta: float) -> float:
        most = max(self.largest, 0.0)
        return smallest_true(lambda epsilon: self.log_bounds(epsilon)[1] <= log_delta, 0.0, most, relative=START)
