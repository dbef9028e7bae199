"""Compositions of few releases with finitely many outputs: every sum of losses, in balls.

n releases with k outputs have C(n+k-1, k-1) sums of losses, each with a multinomial probability. Where these are few,
the profile of the composition is a finite sum, and nothing is left to bound but rounding:

    δ(ε) = Σ_{L > ε} P(L) (1 - e^{ε-L}) = P(L > ε) - e^ε Q(L > ε).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, final

from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import WholeEnclosure
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float
from cumulant.pairs.certified import ball_nodes

if TYPE_CHECKING:
    from flint import arb

MOST_SUMS = 4000  # of losses that are formed in balls
LARGEST_LOSS_NATS = 1e6  # beyond it e^ε takes more bits than there are
SUM_BITS = 256  # of precision

Law = list[tuple["arb", "arb"]]


@lru_cache(maxsize=8)
def enumerate_sums(losses: ComposedPairs) -> Enumerated | None:
    """Return the profile of all sums of losses, or None where they are too many or not finitely many."""
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
        return Enumerated(law)


def _powers(atoms: Law, n: int) -> Iterator[tuple[arb, arb]]:
    """Yield the sums of n losses with their probabilities, output by output."""
    (loss, mass), *rest = atoms
    if not rest:
        yield n * loss, mass**n
        return
    for k in range(n + 1):
        share = math.comb(n, k) * mass**k
        for other, probability in _powers(rest, n - k):
            yield k * loss + other, share * probability


@final
class Enumerated(WholeEnclosure):
    """A finite law: losses in order, and what P and Q have from each on."""

    route = "every sum"

    def __init__(self, law: Law) -> None:
        law = sorted(law, key=lambda atom: float(atom[0].mid()))
        self._losses = [loss for loss, _ in law]
        self._lowest, self._highest = ([end(loss) for loss in self._losses] for end in (lower_float, upper_float))
        self._highest = list(accumulate(self._highest, max))
        self._lowest = list(accumulate(self._lowest[::-1], min))[::-1]
        self._masses = [mass for _, mass in law]
        p = [*self._masses[::-1]]
        q = [mass * (-loss).exp() for loss, mass in reversed(law)]
        self._p, self._q = ([as_ball(0.0), *accumulate(column)][::-1] for column in (p, q))

    def _delta(self, epsilon: float) -> arb:
        if epsilon >= self._highest[-1]:
            return as_ball(0.0)
        at = as_ball(epsilon)
        sure = bisect.bisect_right(self._lowest, epsilon)  # from here on losses are above ε
        doubtful = range(bisect.bisect_right(self._highest, epsilon), sure)
        total = self._p[sure] - at.exp() * self._q[sure]
        for i in doubtful:
            most = (self._masses[i] * -(at - self._losses[i].upper()).expm1()).upper()
            if not most <= 0:
                total += as_ball(0.0).union(most)
        return total

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        with precision(SUM_BITS):
            delta = self._delta(epsilon)
            if not delta.upper() > 0:
                return -math.inf, -math.inf
            low = lower_float(delta.log()) if delta > 0 else -math.inf
            return low, min(upper_float(delta.upper().log()), 0.0)

    def slope(self, epsilon: float) -> float:
        """Return -e^ε Q(L > ε)/δ."""
        if epsilon >= self._highest[-1]:
            return -1.0
        place = bisect.bisect_right(self._highest, epsilon)
        with precision(SUM_BITS):
            delta, q = self._delta(epsilon), as_ball(epsilon).exp() * self._q[place]
            return -float((q / delta).mid()) if delta > 0 and q > 0 else -1.0

    def start(self, log_delta: float) -> float:
        """Return about the ε of a δ: between two losses δ = P - e^ε Q, so e^ε = (P - δ)/Q."""
        low, high = 0, len(self._losses)
        while low < high:
            middle = (low + high) // 2
            if self.log_bounds(float(self._losses[middle].mid()))[1] > log_delta:
                low = middle + 1
            else:
                high = middle
        if low == len(self._losses):
            return max(self._highest[-1], 0.0)
        with precision(SUM_BITS):
            share = (self._p[low] - as_ball(log_delta).exp()) / self._q[low]
            return max(float(share.log().mid()), 0.0) if share > 0 else 0.0
