"""One direction of the neighbours of a run that grows: its ε, and whether that is less than the ε of the other.

The second question is cheaper. Chernoff's bound may say so; else a line of few kinds of releases, each no better than
those it stands for; and either may say so of releases that are still to come.
"""

from __future__ import annotations

import math
from typing import final

from cumulant.inversion.running import PATIENCE, RunningEpsilon
from cumulant.inversion.running_ahead import Ahead, coarsen
from cumulant.inversion.running_ceiling import RunningCeiling
from cumulant.pairs.pair import DominatingPair

MANY_KINDS = 64  # of releases, that are more than those which stand for them


@final
class RunningSide:
    """ε at one δ of one direction of the neighbours, while releases are added."""

    __slots__ = ("_ahead", "_ceiling", "_coarse", "_count", "_exact", "_goal", "_kinds", "_no_ceiling", "_no_coarse")

    def __init__(self, log_delta: float) -> None:
        self._exact = RunningEpsilon(log_delta)
        self._goal = self._exact.goal
        self._coarse: RunningEpsilon | None = None  # of releases that stand for others
        self._ceiling, self._ahead = RunningCeiling(), Ahead()
        self._count, self._kinds = 0, 0
        self._no_ceiling = self._no_coarse = 0  # releases, from which either is asked again

    def add(self, pair: DominatingPair, count: int) -> None:
        if pair.reveals_nothing:
            return
        self._count += count
        self._kinds += 1
        self._ahead.add(pair, count, self._count)
        self._ceiling.add(pair, count)
        self._exact.add(pair, count)
        if self._coarse is not None:
            self._coarse.add(coarsen(pair), count)

    def add_gaussian(self, mean: float, count: int) -> None:
        self._ahead.forget()
        self._exact.add_gaussian(mean, count)
        if self._coarse is not None:
            self._coarse.add_gaussian(mean, count)

    @property
    def last(self) -> float:
        """The last ε that was settled; -inf before the first."""
        return self._exact.last

    def hear(self, epsilon: float) -> None:
        """Take about ε from elsewhere."""
        self._exact.hear(epsilon)

    def epsilon(self) -> float:
        """Return ε, rounded up; NaN where no line that is kept settles it."""
        return self._exact.epsilon()

    def is_at_most(self, epsilon: float) -> bool:
        """Return whether ε is proven to be no larger, by less than a line of its own."""
        return self._ahead.is_at_most(epsilon) or self._is_below(epsilon) or self._is_coarsely_below(epsilon)

    def look_ahead(self, epsilon: float) -> None:
        """Look on the line that is kept whether ε will be no larger than this with some releases more."""
        if epsilon > self.last:
            self._look_on(self._exact, epsilon)

    def _is_below(self, epsilon: float) -> bool:
        """Return what Chernoff's bound says."""
        if self._count < self._no_ceiling or not epsilon > 0:
            return False
        asked = epsilon, self._goal, self._exact.variance
        if self._ahead.look(epsilon, self._count, lambda pair, n: self._ceiling.is_within_ahead(pair, n, asked)):
            return True
        is_within = self._ceiling.is_within(*asked)
        self._no_ceiling = 0 if is_within else math.ceil(PATIENCE * self._count)
        return is_within

    def _is_coarsely_below(self, epsilon: float) -> bool:
        """Return what a line of few kinds of releases says."""
        if self._kinds < MANY_KINDS or self._count < self._no_coarse or not epsilon > 0:
            return False
        if self._coarse is None:
            self._coarse = self._exact.coarser(coarsen)
        is_below = self._coarse.epsilon() <= epsilon  # never of NaN
        if is_below:
            self._look_on(self._coarse, epsilon)
        else:
            self._coarse, self._no_coarse = None, math.ceil(PATIENCE * self._count)
        return is_below

    def _look_on(self, running: RunningEpsilon, epsilon: float) -> None:
        self._ahead.look(epsilon, self._count, lambda pair, count: running.is_within_ahead(pair, count, epsilon))
