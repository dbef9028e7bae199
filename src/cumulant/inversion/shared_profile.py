"""δ(ε) of dominating pairs at many ε, on lines that these share.

A line proves bounds of δ at every ε, near ones around the one that it was planned for. So a new line is planned only
where those that are known say less than they do where they were planned. A direction of the neighbours is not asked
where chords of what it has said, which lie above it as δ is convex in e^ε, are below what the other says.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

from cumulant.curves.failure import log_delta_left, log_delta_with
from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import CLOSE_NATS, Enclosure
from cumulant.inversion.question import Question
from cumulant.inversion.solve import LEAST_LOG_DELTA, Directions, Doubles, epsilon_ceiling, log_delta_of_pairs
from cumulant.numerics.logspace import Array
from cumulant.profiles.chord import log_chord

AS_NEAR = 3.0  # times the slack of a line where it was planned, up to which it serves other ε


class KnownLine(NamedTuple):
    """An enclosure, the ε that it was planned for, and its slack there."""

    epsilon: float
    enclosure: Enclosure
    slack: float


class Bound(NamedTuple):
    """An upper bound of log δ, and by how many nats it may lie above the truth."""

    log_delta: float
    slack: float


@final
class SharedProfile:
    """The profile of a run with these pairs: the worst over directions, on lines that are known to `enough` nats."""

    def __init__(self, directions: Directions, enough: float = CLOSE_NATS) -> None:
        self._directions = directions
        self._sides = [Side(ComposedPairs.of(direction), enough) for direction in directions]

    def bounds(self, epsilons: Array) -> tuple[Array, Array]:
        """Return log δ at many ε, rounded up, and by how many nats it may lie above the truth."""
        found = [self._bound(epsilon) for epsilon in epsilons.tolist()]
        return np.array([one.log_delta for one in found]), np.array([one.slack for one in found])

    def last(self, log_delta: float) -> float:
        """Return an ε from which on δ is at most that, by Chernoff, or the largest loss."""
        return max(side.last(log_delta) for side in self._sides)

    def _bound(self, epsilon: float) -> Bound:
        if any(side.losses.reveals_samples(epsilon) for side in self._sides):
            seen = log_delta_of_pairs(self._directions, epsilon)
            return Bound(seen.value, seen.slack)
        worst = Bound(-math.inf, 0.0)
        ceilings = [side.ceiling(epsilon) for side in self._sides]
        for ceiling, i in sorted(((one, i) for i, one in enumerate(ceilings)), reverse=True):
            if ceiling > worst.log_delta:
                worst = max(worst, self._sides[i].bound(epsilon))
        return worst


@final
@dataclass
class Side:
    """One direction of the neighbours: enclosures that it has led to, and what these have said."""

    losses: ComposedPairs
    enough: float
    planned: list[KnownLine] = field(default_factory=list)
    said: list[tuple[float, float]] = field(default_factory=list)  # ε and log δ

    def __post_init__(self) -> None:
        """From the largest loss on, only what reveals everything is left."""
        supremum = Doubles().largest(self.losses, 1)
        if supremum < math.inf:
            self.said.append((supremum, log_delta_with(self.losses.failure, -math.inf)))

    def last(self, log_delta: float) -> float:
        left = log_delta_left(self.losses.failure, log_delta)
        if not left < 0:
            return Doubles().largest(self.losses, 1)
        whole = Doubles().whole(self.losses)
        near = whole.start(left) if whole else epsilon_ceiling(Question(self.losses, Doubles(), 1, left))
        return min(near, Doubles().largest(self.losses, 1))

    def ceiling(self, epsilon: float) -> float:
        """Return a bound of log δ(ε) by what was said at other ε; 0 where that is nothing."""
        place = bisect.bisect_right(self.said, epsilon, key=lambda one: one[0])
        if place == 0:
            return 0.0
        before = self.said[place - 1]
        if place == len(self.said) or before[0] == epsilon:
            return before[1]
        low, high = (tuple(np.array([one]) for one in point) for point in self.said[place - 1 : place + 1])
        return float(log_chord(np.array([epsilon]), low, high)[0])  # type: ignore[arg-type]

    def bound(self, epsilon: float) -> Bound:
        if epsilon >= Doubles().largest(self.losses, 1):
            return Bound(self.ceiling(epsilon), 0.0)
        found = self._on_known_line(epsilon) or self._on_new_line(epsilon)
        if self.losses.failure > 0:
            found = Bound(log_delta_with(self.losses.failure, found.log_delta), found.slack)
        bisect.insort(self.said, (epsilon, found.log_delta))
        return found

    def _on_known_line(self, epsilon: float) -> Bound | None:
        place = bisect.bisect(self.planned, epsilon, key=lambda one: one.epsilon)
        around = self.planned[max(place - 1, 0) : place + 1]
        for line in sorted(around, key=lambda one: abs(one.epsilon - epsilon)):
            low, high = line.enclosure.log_bounds(epsilon)
            slack = 0.0 if line.enclosure.enough == 0 else high - low
            if slack <= max(self.enough, AS_NEAR * line.slack):
                return Bound(high, slack)
        return None

    def _on_new_line(self, epsilon: float) -> Bound:
        try:
            found = Question(self.losses, Doubles(), 0, epsilon, LEAST_LOG_DELTA).solve()
        except OutOfReach:
            return Bound(0.0, math.inf)
        slack = 0.0 if found.enclosure is None or found.slack is None else found.slack
        if found.enclosure is not None:
            bisect.insort(self.planned, KnownLine(epsilon, found.enclosure, slack), key=lambda one: one.epsilon)
        return Bound(found.log_delta, slack)
