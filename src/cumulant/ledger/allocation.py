"""Which lines a release takes units of, or whether it goes beyond them: whole numbers in, whole numbers out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NamedTuple, final

from cumulant.errors import BudgetExceeded, UnprovenCombination
from cumulant.ledger.lines import (
    SHOWN,
    AbstractLine,
    FailureReserve,
    GaussianReserve,
    Lines,
    PureBeyond,
    RenyiReserve,
    Slot,
    needs_failure,
)
from cumulant.ledger.pure import PureSum
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.parameters import MOST
from cumulant.printed import rounded_up
from cumulant.report.chart import described

Spent = tuple[int, ...]
"""Units that were taken of each line, in one block."""

Standing = Callable[[], Sequence[tuple[AbstractMechanism, int]]]
"""Everything that was released or is held in one block: looked up only where something may go beyond the lines."""


CLOSED = (
    "this release would be over the budget: releases of pure DP went beyond the lines of this account, so that from "
    "then on it admits pure DP alone"
)


Way = tuple[tuple[int, int], ...]
"""How one release may be charged: (line, units) of some lines, together."""

Ways = Sequence[tuple[Way, ...]]
"""How each part of a release may be charged."""


class Taken(NamedTuple):
    """A number of copies of a part of a release, charged one way; its units are of one."""

    part: int
    times: int
    costs: Way


@lru_cache(maxsize=4096)
def ways_of(lines: Lines, release: AbstractMechanism) -> tuple[Way, ...]:
    """Return how a release may be charged, in the order in which it is tried.

    A slot that was declared for it comes first, then Gaussian reserves, a Rényi reserve, and slots that dominate it;
    earlier stages before later ones. Beyond the lines comes last.
    """

    def of(kind: type[AbstractLine]) -> list[int]:
        return [place for place, line in enumerate(lines) if isinstance(line, kind)]

    costs = {place: units for place, line in enumerate(lines) if (units := line.cost(release)) is not None}
    meant = [(place,) for place, line in enumerate(lines) if isinstance(line, Slot) and line.mechanism == release]
    other = [(place,) for place in of(Slot) if (place,) not in meant]
    reserves = [*of(GaussianReserve), *of(RenyiReserve)]
    covered = product(reserves, of(FailureReserve)) if needs_failure(release) else product(reserves)
    ways = (*meant, *covered, *other, *product(of(PureBeyond)))
    return tuple(tuple((place, costs[place]) for place in way) for way in ways if costs.keys() >= set(way))


@final
@dataclass(frozen=True, slots=True)
class Block:
    """A part of the data, or all of it: its lines, what was taken of them, the stage, and all that stands in it.

    Where nobody says what is standing, nothing goes beyond the lines.
    """

    lines: Lines
    spent: Sequence[int]
    stage: int
    standing: Standing | None = None

    def allocate(self, release: AbstractMechanism, ways: Ways | None = None) -> tuple[Taken, ...]:
        """Return how a release is charged; `BudgetExceeded` says what is missing.

        By the lines, if they pay for all of it and for all before; else, what they do not pay for goes beyond them, if
        everything is pure and adds up to no more than ε: `pure`. `ways` are those of its parts, where they were asked
        for before.
        """
        known = [ways_of(self.lines, part) for part, _ in release.releases()] if ways is None else ways
        taken, refusal = _filled(self.lines, self.left(), release, known)
        if refusal is None and not self.is_overdrawn:
            return taken
        why, (_, beyond) = CLOSED if refusal is None else str(refusal), self.beyond
        if beyond is None or self.standing is None or isinstance(refusal, UnprovenCombination):
            raise refusal or BudgetExceeded(why)
        taken, impure = _filled(self.lines, self.left(beyond=True), release, known)
        if impure is not None:
            raise BudgetExceeded(why)
        after = [n + more for n, more in zip(self.spent, units_of(taken, self.lines), strict=True)]
        beside = [*self.standing(), *unused_slots(self.lines, after)]
        if not beyond.admits(PureSum([*beside, *release.releases()])):
            raise BudgetExceeded(f"{why}; {_beyond_text(beyond, PureSum(beside), release)}")
        return taken

    @property
    def beyond(self) -> tuple[int, PureBeyond | None]:
        """The line that stands for pure DP beyond the others, and its place, once its stage has begun."""
        place, line = beyond_in(self.lines)
        return (place, line) if line is not None and line.stage <= self.stage else (place, None)

    @property
    def is_overdrawn(self) -> bool:
        """Whether something went beyond the lines: then they pay for nothing any more."""
        place, line = beyond_in(self.lines)
        return line is not None and self.spent[place] > 0

    def left(self, *, beyond: bool = False) -> list[int]:
        """Return the units left of each line; none before its stage has begun, and of what is beyond if asked."""
        return [
            line.units - n if line.stage <= self.stage and (beyond or not isinstance(line, PureBeyond)) else 0
            for line, n in zip(self.lines, self.spent, strict=True)
        ]

    def left_beyond(self) -> Fraction:
        """Return the ε that pure releases may still take, as long as everything is pure."""
        _, beyond = self.beyond
        standing = () if self.standing is None else self.standing()
        beside = PureSum([*standing, *unused_slots(self.lines, self.spent)])
        return Fraction(0) if beyond is None else beyond.left(beside)

    def most_that_fit(self, release: AbstractMechanism, ways: Ways | None = None) -> int:
        """Return how often a release would still fit, up to 1e18; 0 if no line may be charged with it."""

        def fits(count: int) -> bool:
            try:
                self.allocate(release * count, ways)
            except (BudgetExceeded, UnprovenCombination):
                return False
            return True

        if not any(count for _, count in release.releases()) or not fits(1):
            return 0
        largest = MOST // max(count for _, count in release.releases())
        low, high = 1, 2
        while high <= largest and fits(high):
            low, high = high, 2 * high
        high = min(high, largest + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low


def _filled(
    lines: Lines, left: list[int], release: AbstractMechanism, known: Ways
) -> tuple[tuple[Taken, ...], BudgetExceeded | UnprovenCombination | None]:
    """Return what is taken of what is left, part by part, each as far as the first way reaches, and what is missing."""
    taken: list[Taken] = []
    for part, (mechanism, count) in enumerate(release.releases()):
        ways = known[part]
        if not ways:
            return (), UnprovenCombination(_no_way(mechanism))
        missing = count
        for way in ways:
            n = min(missing, *(left[line] // units for line, units in way))
            if n > 0:
                taken.append(Taken(part, n, way))
                missing -= n
                for line, units in way:
                    left[line] -= n * units
        if missing > 0:
            of_all = f"{missing} of {count} releases" if count > 1 else "this release"
            return (), BudgetExceeded(f"{of_all} of {described(mechanism)} {_shortage(lines, ways, left, missing)}")
    return tuple(taken), None


def unused_slots(lines: Lines, spent: Sequence[int]) -> list[tuple[AbstractMechanism, int]]:
    """Return the releases that slots of all stages are kept for."""
    pairs = zip(lines, spent, strict=True)
    return [(line.mechanism, line.count - n) for line, n in pairs if isinstance(line, Slot)]


def beyond_in(lines: Lines) -> tuple[int, PureBeyond | None]:
    """Return the line that stands for pure DP beyond the others, and its place, if the account has it."""
    return next(((place, line) for place, line in enumerate(lines) if isinstance(line, PureBeyond)), (-1, None))


def units_of(taken: Sequence[Taken], lines: Lines) -> Spent:
    """Return what was taken of each line in all."""
    total = [0] * len(lines)
    for _, times, costs in taken:
        for line, units in costs:
            total[line] += times * units
    return tuple(total)


def unused(taken: Sequence[Taken], used: Sequence[int]) -> tuple[Taken, ...]:
    """Return what goes back of parts that were charged and not released: what was charged last goes back first."""
    back: list[Taken] = []
    charged: dict[int, list[Taken]] = {}
    for row in taken:
        charged.setdefault(row.part, []).append(row)
    for part, kept in enumerate(used):
        rows = charged.get(part, [])
        surplus = sum(row.times for row in rows) - kept
        for row in reversed(rows):
            n = min(surplus, row.times)
            if n > 0:
                back.append(Taken(part, n, row.costs))
                surplus -= n
    return tuple(back)


def _no_way(mechanism: AbstractMechanism) -> str:
    return (
        f"no line of this account may be charged with {described(mechanism)}: no slot is proven to dominate it, and no "
        "reserve is proven to cover it; declare it as a slot when the account is opened; nothing was recorded"
    )


def _shortage(lines: Lines, ways: Sequence[Way], left: Sequence[int], missing: int) -> str:
    """Return what is missing, and what there is."""
    places = list(dict.fromkeys(line for way in ways for line, _ in way))
    there = "; ".join(lines[line].show(left[line]) for line in places if not isinstance(lines[line], PureBeyond))
    left_there = f": {_cost_text(lines, ways[0], missing)}left are {there}" if there else ""
    return f"would be over the budget{left_there}"


def _beyond_text(line: PureBeyond, beside: PureSum, release: AbstractMechanism) -> str:
    """Return why a pure release may not go beyond the lines."""
    if beside.impure:
        return "beside releases or slots that are not pure DP nothing goes beyond that"
    needed = PureSum(release.releases()).total()
    if needed is None:
        return "this one is not pure DP"
    return f"as pure DP it needs {_up(needed)} of epsilon, left are {line.show_left(line.left(beside))}"


def _cost_text(lines: Lines, way: Way, missing: int) -> str:
    """Return what the rest would take of a Gaussian reserve, if that is the first way."""
    line, units = way[0]
    reserve = lines[line]
    needed = reserve.squared_mean_of(missing * units) if isinstance(reserve, GaussianReserve) else Fraction(0)
    return f"{_up(needed)} of the Gaussian reserve is needed, " if needed else ""


def _up(amount: Fraction) -> str:
    """Return an amount that is needed, rounded up: 1/5 is 0.2, though no double is."""
    nearest = float(amount)
    enough = Fraction(Decimal(repr(nearest))) >= amount
    return rounded_up(nearest if enough else math.nextafter(nearest, math.inf), digits=SHOWN)
