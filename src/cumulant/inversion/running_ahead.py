"""What is proven of releases that are still to come: the same bound, with some of them added ahead.

Where a run and m more of a pair are within (ε, δ), so is the run with up to m others that the pair dominates, and the
direction of the neighbours that this is said of needs no line until then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.maps import Join, Leave
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.pair import DominatingPair

AHEAD_SHARES = 1 / 16, 1 / 256  # of all releases, that are added ahead
FEWEST = 4  # releases that are worth a look
COARSE_MEANS = 32  # per octave
AHEAD_PATIENCE = 1.3  # times as many releases as when one was not dominated, from which others are looked at ahead


@final
class Ahead:
    """An ε that bounds a run as long as no more than so many releases come that one pair dominates."""

    __slots__ = ("_by", "_epsilon", "_from", "_last", "_left")

    def __init__(self) -> None:
        self._last: DominatingPair | None = None
        self._by: DominatingPair | None = None
        self._epsilon, self._left = math.inf, 0
        self._from = 0  # releases, from which others are looked at

    def add(self, pair: DominatingPair, count: int, number: int) -> None:
        """Take off a release, with which there are so many; from one that is not dominated on, nothing is known."""
        if self._by is not None:
            self._left -= count
            if not is_dominated(pair, self._by):
                self._from = math.ceil(AHEAD_PATIENCE * number)
                self.forget()
            elif self._left < 0:
                self.forget()
        self._last = pair

    def forget(self) -> None:
        """Know nothing of what comes, as after a release that is no pair of its own."""
        self._by = None

    def is_at_most(self, epsilon: float) -> bool:
        """Return whether ε is proven to be no larger."""
        return self._by is not None and self._epsilon <= epsilon

    def look(self, epsilon: float, number: int, is_within: Callable[[DominatingPair, int], bool]) -> bool:
        """Return whether a run is within (ε, δ) with some releases more, of the pair that came last, and keep that."""
        if self._last is None or number < self._from:
            return False
        for share in AHEAD_SHARES:
            more = int(share * number)
            if more >= FEWEST and is_within(self._last, more):
                self._by, self._left, self._epsilon = self._last, more, epsilon
                return True
        return False


def coarsen(pair: DominatingPair) -> DominatingPair:
    """Return a pair that dominates this one, of which there are few: a mean of Gaussian noise is rounded up."""
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.law, GaussianNoise):
        return pair
    if not isinstance(pair.sampling, Leave | Join):
        return pair
    step = math.ceil(COARSE_MEANS * math.log2(pair.law.mean))
    means = [2.0 ** (m / COARSE_MEANS) for m in (step, step + 1)]  # the first may have been rounded down
    return CoordinatePair(GaussianNoise(means[0] if means[0] >= pair.law.mean else means[1]), pair.sampling)


def is_dominated(pair: DominatingPair, by: DominatingPair) -> bool:
    """Return whether one pair is known to dominate another: both outputs of it, worked on, are those of the other.

    With μ' <= μ, t ↦ (μ'/μ)t + N(0, 1 - (μ'/μ)²) takes N(0, 1) to itself and N(μ, 1) to N(μ', 1). With γ' <= γ, an
    output that is kept with probability γ'/γ, and else is a new one of N(0, 1), takes the mixture at γ to that at γ'.

    Holds for:  the same pair; Gaussian noise sampled in the same direction of the neighbours.
    Tightness:  sufficient alone.
    """
    if pair == by:
        return True
    if not isinstance(pair, CoordinatePair) or not isinstance(by, CoordinatePair):
        return False
    if not isinstance(pair.law, GaussianNoise) or not isinstance(by.law, GaussianNoise):
        return False
    if type(pair.sampling) is not type(by.sampling) or not isinstance(pair.sampling, Leave | Join):
        return False
    return bool(pair.law.mean <= by.law.mean and pair.sampling.rate <= by.sampling.rate)
