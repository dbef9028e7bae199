"""What an entry changes: the one place where it is said, for recording and for replaying."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, final

from cumulant.errors import LedgerTampered
from cumulant.ledger.allocation import Spent, Taken, units_of
from cumulant.ledger.entries import canonical
from cumulant.ledger.lines import Lines
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.data import from_dict

Rows = Mapping[str, Sequence[Taken]]
"""What was taken in each block."""

OPEN_STATES = ("held", "started")
"""In which a hold counts as spent, and may be settled."""

BEFORE = {"start": ("held",), "settle": OPEN_STATES, "cancel": ("held",)}
"""The states of a hold in which an entry may be recorded."""

AFTER = {"start": "started", "settle": "settled", "cancel": "cancelled"}
"""The state of a hold after an entry."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """Changes of units and of counts of releases per block, new blocks, the state of a hold, the stage."""

    spent: Mapping[str, Spent] = field(default_factory=dict)
    released: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (block, release as text)
    blocks: tuple[str, ...] = ()
    hold: tuple[str, str] | None = None  # (key, state)
    stage: int | None = None


def effects_of(kind: str, content: Mapping[str, Any], lines: Lines) -> Effects:
    """Return what an entry changes."""
    request = content["request"]
    if kind in ("spend", "hold"):
        return _charged(content, lines, sign=1, hold=(request["key"], "held") if kind == "hold" else None)
    if kind in ("settle", "cancel"):
        return _charged(content, lines, sign=-1, hold=(request["hold"], AFTER[kind]))
    return Effects(
        blocks=tuple(request["blocks"]) if kind in ("open", "blocks") else (),
        hold=(request["hold"], AFTER[kind]) if kind == "start" else None,
        stage=content["stage"] if kind == "advance" else 0 if kind == "open" else None,
    )


def _charged(content: Mapping[str, Any], lines: Lines, *, sign: int, hold: tuple[str, str] | None = None) -> Effects:
    rows = rows_from_data(content["taken"] if sign > 0 else content["returned"])
    texts = part_texts(content["release"])
    spent = {block: tuple(sign * n for n in units_of(taken, lines)) for block, taken in rows.items()}
    released: dict[tuple[str, str], int] = {}
    for block, taken in rows.items():
        for row in taken:
            place = (block, texts[row.part])
            released[place] = released.get(place, 0) + sign * row.times
    return Effects(spent=spent, released=released, hold=hold)


def part_texts(release: Mapping[str, Any]) -> list[str]:
    """Return the parts of a release as canonical text, each readable by itself."""
    if release["mechanism"] == "Composed":
        return [canonical({"cumulant": release["cumulant"], **part["release"]}) for part in release["parts"]]
    return [canonical(dict(release))]


@lru_cache(maxsize=4096)
def release_of(text: str) -> AbstractMechanism:
    """Return the release that a canonical text describes."""
    return from_dict(json.loads(text))


def releases_of(rows: Iterable[tuple[str, int]]) -> list[tuple[AbstractMechanism, int]]:
    """Return releases with counts, from their texts; none of which all came back."""
    try:
        return [(release_of(text), times) for text, times in rows if times]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise LedgerTampered(f"a tally was changed by hand, it cannot be read: {error!r}; run verify") from error


def releases_by_block(
    tallies: Mapping[tuple[str, str], tuple[str, int]],
) -> dict[str, tuple[tuple[AbstractMechanism, int], ...]]:
    """Return releases with counts in each block that has any, from (release, times) by block and digest."""
    rows: dict[str, list[tuple[str, int]]] = {}
    for (block, _), row in tallies.items():
        rows.setdefault(block, []).append(row)
    return {block: tuple(releases_of(there)) for block, there in rows.items()}


def rows_to_data(rows: Rows) -> dict[str, Any]:
    """Return what was taken as plain data."""
    return {
        block: [[row.part, row.times, [list(cost) for cost in row.costs]] for row in taken]
        for block, taken in rows.items()
    }


def rows_from_data(data: Mapping[str, Any]) -> dict[str, tuple[Taken, ...]]:
    """Return what `rows_to_data` wrote."""
    return {
        block: tuple(Taken(part, times, tuple((line, units) for line, units in costs)) for part, times, costs in taken)
        for block, taken in data.items()
    }
