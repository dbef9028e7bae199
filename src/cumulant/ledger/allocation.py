"""Which lines a release takes units of: whole numbers in, whole numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from cumulant.errors import BudgetExceeded, UnprovenCombination
from cumulant.ledger.lines import (
    AbstractLine,
    FailureReserve,
    GaussianReserve,
    Lines,
    RenyiReserve,
    Slot,
    needs_failure,
)
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.parameters import MOST

Spent = tuple[int, ...]
"""Units that were taken of each line, in one block."""


class Way(NamedTuple):
    """How one release may be charged: units of each of some lines, together."""

    costs: tuple[tuple[int, int], ...]  # (line, units)


class Taken(NamedTuple):
    """So many of a part of a release, charged one way; `units` are of one."""

    part: int
    times: int
    costs: tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)
def ways_of(lines: Lines, release: AbstractMechanism) -> tuple[Way, ...]:
    """Return how a release may be charged, in the order in which it is tried.

    A slot that was declared for it comes first, then Gaussian reserves, a Rényi reserve, and slots that dominate it;
    earlier stages before later ones.
    """
    places = list(enumerate(lines))
    gaussian = [place for place in places if isinstance(place[1], GaussianReserve)]
    reserves = gaussian + [place for place in places if isinstance(place[1], RenyiReserve)]
    failures = [place for place in places if isinstance(place[1], FailureReserve)]
    slots = [place for place in places if isinstance(place[1], Slot)]
    meant = [_way(release, place) for place in slots if _is_slot_of(place[1], release)]
    beside = [_way(release, *both) for both in product(reserves, failures)] if needs_failure(release) else []
    alone = [] if needs_failure(release) else [_way(release, place) for place in reserves]
    other = [_way(release, place) for place in slots if not _is_slot_of(place[1], release)]
    return tuple(way for way in (*meant, *beside, *alone, *other) if way is not None)


def _is_slot_of(line: AbstractLine, release: AbstractMechanism) -> bool:
    return isinstance(line, Slot) and line.mechanism == release


def _way(release: AbstractMechanism, *places: tuple[int, AbstractLine]) -> Way | None:
    costs = [(place, line.cost(release)) for place, line in places]
    known = tuple((place, units) for place, units in costs if units is not None)
    return Way(known) if len(known) == len(costs) else None


def allocate(
    lines: Lines,
    spent: Sequence[int],
    release: AbstractMechanism,
    *,
    stage: int,
    ways: Sequence[tuple[Way, ...]] | None = None,
) -> tuple[Taken, ...]:
    """Return how a release is charged in a block; `BudgetExceeded` says what is missing.

    Part by part, each as far as the first way reaches, the rest by the next. `ways` are those of its parts, where they
    were asked for before.
    """
    left = left_of(lines, spent, stage=stage)
    taken: list[Taken] = []
    for part, (mechanism, count) in enumerate(release.releases()):
        known = ways_of(lines, mechanism) if ways is None else ways[part]
        if not known:
            raise UnprovenCombination(_no_way(mechanism))
        missing = count
        for way in known:
            n = min(missing, _fits(way, left))
            if n > 0:
                taken.append(Taken(part, n, way.costs))
                missing -= n
                for line, units in way.costs:
                    left[line] -= n * units
        if missing > 0:
            of_all = f"{missing} of {count} releases" if count > 1 else "this release"
            raise BudgetExceeded(f"{of_all} of {mechanism!r} {_shortage(lines, known, left, missing)}")
    return tuple(taken)


def left_of(lines: Lines, spent: Sequence[int], *, stage: int) -> list[int]:
    """Return the units that are left of each line; none before its stage has begun."""
    return [line.units - n if line.stage <= stage else 0 for line, n in zip(lines, spent, strict=True)]


def most_that_fit(
    lines: Lines,
    spent: Sequence[int],
    release: AbstractMechanism,
    *,
    stage: int,
    ways: Sequence[tuple[Way, ...]] | None = None,
) -> int:
    """Return how often a release would still fit, up to 1e18; 0 if no line may be charged with it."""

    def fits(count: int) -> bool:
        try:
            allocate(lines, spent, release * count, stage=stage, ways=ways)
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


def units_of(taken: Sequence[Taken], lines: Lines) -> Spent:
    """Return what was taken of each line in all."""
    total = [0] * len(lines)
    for _, times, costs in taken:
        for line, units in costs:
            total[line] += times * units
    return tuple(total)


def unused(taken: Sequence[Taken], used: Sequence[int]) -> tuple[Taken, ...]:
    """Return what goes back when only so many of each part were released: what was charged last goes back first."""
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


def _fits(way: Way, left: Sequence[int]) -> int:
    return min(left[line] // units for line, units in way.costs)


def _no_way(mechanism: AbstractMechanism) -> str:
    return (
        f"no line of this account may be charged with {mechanism!r}: no slot is proven to dominate it, and no reserve "
        "is proven to cover it; declare it as a slot when the account is opened; nothing was recorded"
    )


def _shortage(lines: Lines, ways: Sequence[Way], left: Sequence[int], missing: int) -> str:
    """Return what is missing, and what there is."""
    places = list(dict.fromkeys(line for way in ways for line, _ in way.costs))
    there = "; ".join(lines[line].show(left[line]) for line in places)
    return f"would be over the budget: {_cost_text(lines, ways[0], missing)}left are {there}"


def _cost_text(lines: Lines, way: Way, missing: int) -> str:
    """Return what the rest would take of a Gaussian reserve, if that is the first way."""
    line, units = way.costs[0]
    reserve = lines[line]
    needed = reserve.squared_mean_of(missing * units) if isinstance(reserve, GaussianReserve) else 0.0
    return f"{needed:.6g} of the Gaussian reserve is needed, " if needed else ""
