"""One direction of the neighbours, asked for ε at δ or for δ at ε, in doubles and in balls.

Here δ in {0, 1}, the failure probability, the largest loss and how far δ can see are treated; a *road* says how, in
doubles (`solve`) or in balls (`certified`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import CLOSE_NATS, EXACT_SHARE, Enclosure, WholeEnclosure, meet
from cumulant.inversion.out_of_sight import leave_out_unseen
from cumulant.inversion.plan import Tilts, octave_of, tilts_for_delta, tilts_for_epsilon

FIRST_LOG_DELTA = -40.0  # of which losses are out of sight when δ is what is asked for
DEEPER_LOG_DELTAS = (-68.0, -96.0, -124.0, -152.0, -math.inf)  # of which they are if δ turns out to be that small
LEFT_OUT_NATS = -25.0  # log of the share of δ that may be left out then: 1e-11
LOOKS = 4  # times that it is looked again
MOST_LINES = 16  # from which it is not looked again
NEAR_NATS = 0.02  # how far an answer may be from what its line was planned for


class Solution(NamedTuple):
    """A point of the profile: ε and log δ, one asked for, the other on the safe side, and the enclosure that says so.

    Without an enclosure nothing is in doubt. `low` bounds log δ from below where log δ was asked for.
    """

    epsilon: float
    log_delta: float
    enclosure: Enclosure | None = None
    low: float = -math.inf
    slack: float | None = None  # of the enclosure at ε, if it was looked at


def is_proven(solution: Solution) -> bool:
    return solution.enclosure is None or solution.enclosure.proven


class Road(ABC):
    """How doubles, or balls, say what a solution rests on."""

    @abstractmethod
    def left(self, losses: ComposedPairs, delta: Any, side: int) -> float:
        """Return log δ without the failure probability, rounded down by side 1, up by -1; NaN where nothing is left."""

    @abstractmethod
    def is_nothing(self, losses: ComposedPairs, log_delta: float) -> bool:
        """Return whether it takes no search to see that ε = 0 is enough."""

    def is_certain(self, losses: ComposedPairs, epsilon: float) -> bool:
        """Return whether it takes no line to see that δ(ε) is 1 to the last digit."""
        return False

    @abstractmethod
    def largest(self, losses: ComposedPairs, side: int) -> float:
        """Return the largest finite loss, rounded up or down."""

    @abstractmethod
    def whole(self, losses: ComposedPairs) -> WholeEnclosure | None:
        """Return a closed form, or the law of all sums, where there is one."""

    def top(self, losses: ComposedPairs, side: int, asked: float) -> WholeEnclosure | None:
        """Return the law of the largest sums where ε lies among them; None where that is not known."""
        return None

    def refine(self, around: Tilts, side: int) -> Tilts:
        """Return tilts with a nearer answer, where one is known."""
        return around

    @abstractmethod
    def below_largest(self, losses: ComposedPairs) -> WholeEnclosure:
        """Return what the largest loss alone says."""

    @abstractmethod
    def lines(self, losses: ComposedPairs, around: Tilts) -> Iterable[Enclosure]:
        """Return the enclosures that a plan leads to, cheapest first; never none."""


@final
@dataclass(frozen=True, eq=False)
class Question:
    """One direction is asked for ε at log δ, from above (side 1) or below (side -1), or for log δ at ε (side 0).

    log δ is what the failure probability leaves of δ, given that the loss is finite; NaN where it takes more than δ.
    """

    losses: ComposedPairs
    road: Road
    side: int
    asked: float
    enough: float = -math.inf  # log δ that need not be known better than as at most that

    @property
    def needs_tilts(self) -> bool:
        """Whether a line may be needed for ε."""
        if not self.losses.parts or not self.losses.supremum > 0:
            return False
        return -math.inf < self.asked < min(0.0, self.losses.log_joint_variation)

    @cached_property
    def seen(self) -> ComposedPairs:
        """The losses that a δ of the size in question can see."""
        return leave_out_unseen(self.losses, self.asked) if self.side else self._sight_of_epsilon[0]

    @cached_property
    def around(self) -> Tilts | None:
        """Tilts around the saddle; None if none is large enough: then only the largest loss matters."""
        return self._tilts_of(self.seen) if self.side else self._sight_of_epsilon[1]

    @cached_property
    def _sight_of_epsilon(self) -> tuple[ComposedPairs, Tilts | None]:
        """What the δ of an ε can see: as if it were large, then smaller and smaller until little is out of sight."""
        sight = None
        for log_delta in (FIRST_LOG_DELTA, *DEEPER_LOG_DELTAS):
            try:
                seen = leave_out_unseen(self.losses, log_delta)
                if log_delta > -math.inf and _falls_out_of_sight(seen, self.asked):
                    continue
                sight = seen, self._tilts_of(seen)
            except OutOfReach:  # any sight gives bounds
                if sight is None:
                    continue
                break
            if _is_in_sight(*sight):
                break
        return sight or (self.losses, self._tilts_of(self.losses))

    def _tilts_of(self, seen: ComposedPairs) -> Tilts | None:
        found = (tilts_for_delta if self.side else tilts_for_epsilon)(seen, self.asked)
        return None if found is None else self.road.refine(found, self.side)

    def solve(self) -> Solution:
        losses, road = self.losses, self.road
        known = self._known_epsilon() if self.side else self._known_delta()
        if known is not None:
            return known
        whole = road.top(losses, self.side, self.asked) or road.whole(losses)
        if whole is None and self.around is not None:
            return self._best(self._follow_seen(self.around))
        whole = whole or road.below_largest(losses)
        found = self._look(whole, whole.start(self.asked) if self.side else self.asked)
        if self._is_settled(whole, found) or self.around is None:
            return found
        return self._best([found, *self._follow_seen(self.around)])  # terms of the sum have cancelled

    def _is_settled(self, whole: WholeEnclosure, found: Solution) -> bool:
        """Return whether bounds are close, or ε is exact anyway: next to the largest loss δ drowns in rounding."""
        if found.slack is None or found.slack <= whole.enough:
            return True
        if self.side == 0:
            return whole.says_all(self.asked)
        return self.side > 0 and whole.excess(found.epsilon, self.asked, found.slack) <= EXACT_SHARE

    def _follow_seen(self, around: Tilts) -> list[Solution]:
        """Return what lines say of the losses in sight; where δ was asked for, look again if another sight may help."""
        seen, found = self.seen, self._follow(self.seen, around)
        for _ in range(LOOKS if self.side == 0 else 0):
            low, high = max(one.low for one in found), min(one.log_delta for one in found)
            if high <= max(self.enough, low + CLOSE_NATS) or len(found) >= MOST_LINES:
                break
            again = self._look_again(seen, low, high)
            if again is None or again == seen:
                break
            try:
                nearer, seen = tilts_for_epsilon(again, self.asked), again
                found = found if nearer is None else [*found, *self._follow(again, nearer)]
            except OutOfReach:  # what was found stands
                break
        return found

    def _look_again(self, seen: ComposedPairs, low: float, high: float) -> ComposedPairs | None:
        """Return a deeper sight where what is left out counts, a nearer one where far losses drown what is summed."""
        log_left_out = math.log(seen.left_out) if seen.left_out > 0 else -math.inf
        if log_left_out > high + LEFT_OUT_NATS:
            return leave_out_unseen(self.losses, low if low > -math.inf else 2 * high)
        return leave_out_unseen(self.losses, high) if low == -math.inf else None

    def _follow(self, losses: ComposedPairs, around: Tilts) -> list[Solution]:
        """Return what a few lines say, each planned from the best answer so far: what is proven, if anything is.

        Where a line is out of reach, what was found before stands.
        """
        found: list[Solution] = []
        for rounds in count(1):
            try:
                for enclosure in self.road.lines(losses, around):
                    last = self._look(enclosure, around.epsilon)
                    found.append(last)
                    settled = last.slack is not None and last.slack <= enclosure.enough
                    if settled or (self.side == 0 and last.log_delta <= self.enough):
                        return [one for one in found if is_proven(one)] or found
            except OutOfReach:
                if not found:
                    raise
            best, most = self._best(found), max(one.enclosure.effort.rounds for one in found if one.enclosure)
            away = abs(best.epsilon - around.epsilon) * around.steepness + abs(best.log_delta - around.log_delta)
            at_an_end = best.epsilon != around.epsilon and not 0 < best.epsilon < math.inf
            is_fine = not (last.enclosure and last.enclosure.is_rough)
            if at_an_end or (is_fine and not away > NEAR_NATS) or rounds >= most:
                break
            around = around.ask(best.epsilon, best.log_delta)
        return [one for one in found if is_proven(one)] or found

    def _known_epsilon(self) -> Solution | None:
        losses, road, log_delta = self.losses, self.road, self.asked
        if math.isnan(log_delta):
            return Solution(math.inf, log_delta)
        if log_delta >= 0 or road.is_nothing(losses, log_delta):
            return Solution(0.0, log_delta)
        if log_delta > -math.inf:
            return None
        return Solution(road.largest(losses, self.side), log_delta, road.whole(losses) or road.below_largest(losses))

    def _known_delta(self) -> Solution | None:
        if self.losses.failure == 1 or self.asked >= self.road.largest(self.losses, 1):
            return Solution(self.asked, -math.inf)
        return Solution(self.asked, 0.0) if self.road.is_certain(self.losses, self.asked) else None

    def _best(self, found: Sequence[Solution]) -> Solution:
        if self.side:
            return min(found, key=lambda one: self.side * one.epsilon)
        best = min(found, key=lambda one: one.log_delta)
        # what is proven takes nothing from what rests on estimates
        low = max(one.low for one in found if is_proven(one) or not is_proven(best))
        return Solution(self.asked, best.log_delta, best.enclosure, low, best.slack)

    def _look(self, enclosure: Enclosure, start: float) -> Solution:
        """Return what one enclosure says; ε is searched for from `start` on."""
        if self.side == 0:
            low, high = enclosure.log_bounds(self.asked)
            low, high = -math.inf if math.isnan(low) else low, 0.0 if math.isnan(high) else high
            return Solution(self.asked, high, enclosure, low, high - low if enclosure.enough > 0 else None)
        anyway = self.road.largest(self.losses, 1) if self.side > 0 else 0.0
        epsilon = meet(enclosure, self.side, self.asked, start, anyway)
        slack = enclosure.slack(epsilon) if enclosure.enough > 0 else None
        return Solution(epsilon, self.asked, enclosure, slack=slack)


def _is_in_sight(seen: ComposedPairs, around: Tilts | None) -> bool:
    """Return whether what is out of sight is nothing beside δ, about."""
    return seen.left_out == 0 or around is None or math.log(seen.left_out) <= around.log_delta + LEFT_OUT_NATS


def _falls_out_of_sight(seen: ComposedPairs, epsilon: float) -> bool:
    """Return whether Chernoff's bound says that δ(ε) is nothing beside what is left out; False if that takes long."""
    if seen.left_out == 0 or not epsilon > 0:
        return False
    least = math.log(seen.left_out) - LEFT_OUT_NATS
    octave = octave_of(-least / epsilon)  # where θε alone would reach it
    return bool(seen.row.are_within(np.array([epsilon]), np.array([least]), octave)[0])
