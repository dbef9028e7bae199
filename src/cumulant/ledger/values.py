"""What a ledger answers: receipts, statuses, verifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from cumulant.ledger.allocation import left_of, most_that_fit
from cumulant.ledger.declaration import Declaration, check_relation
from cumulant.ledger.entries import Entry
from cumulant.mechanisms.base import AbstractMechanism

WHOLE = "all"
"""The one block of an account that is not divided."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What was recorded; `again` says that the same key had recorded it before."""

    entry: Entry
    again: bool

    @property
    def account(self) -> str:
        return self.entry.account

    @property
    def version(self) -> int:
        """The number of the entry, from 1."""
        return self.entry.version

    @property
    def key(self) -> str:
        return self.entry.key

    @property
    def hash(self) -> str:
        """Of the entry, which covers the whole history before it: keep it elsewhere, and nobody can rewrite that."""
        return self.entry.hash

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        content = {**self.entry.to_dict(), "body": self.entry.content}
        return {"again": self.again, "entry": content}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HoldStatus:
    """A hold that counts as spent: since when, until when it may begin, and whether it has."""

    key: str
    state: str
    expires: str
    expired: bool
    author: str
    time: str


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """An account as it stands. `claims` are the ε that may be claimed at δ at the end of each stage."""

    account: str
    opened: str
    declaration: Declaration
    claims: tuple[float, ...]
    stage: int
    version: int
    head: str
    spent: Mapping[str, tuple[int, ...]]
    holds: tuple[HoldStatus, ...]

    @property
    def price(self) -> float:
        """The ε that holds at δ whatever is chosen, to the end of the last stage."""
        return self.claims[-1]

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(self.spent)

    def left(self, block: str | None = None) -> tuple[str, ...]:
        """Return what is left of each line in words; without a block, of the one that has least."""
        lines, stage = self.declaration.lines, self.stage
        rows = [left_of(lines, self.spent[name], stage=stage) for name in ([block] if block else self.spent)]
        return tuple(line.show(min(row[place] for row in rows)) for place, line in enumerate(lines))

    def shares_left(self) -> tuple[float, ...]:
        """Return the share of each line that is left, in the block that has least."""
        lines, stage = self.declaration.lines, self.stage
        rows = [left_of(lines, spent, stage=stage) for spent in self.spent.values()]
        return tuple(min(row[place] for row in rows) / max(line.units, 1) for place, line in enumerate(lines))

    def fits(self, release: AbstractMechanism, *, block: str | None = None) -> int:
        """Return how often a release would still fit: in a block, or in all of them at once."""
        check_relation(release, self.declaration.neighbors)
        lines, stage = self.declaration.lines, self.stage
        spent = [self.spent[block]] if block else list(self.spent.values())
        return min(most_that_fit(lines, there, release, stage=stage) for there in spent)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "account": self.account,
            "opened": self.opened,
            "declaration": self.declaration.to_dict(),
            "claims": list(self.claims),
            "price": self.price,
            "stage": self.stage,
            "version": self.version,
            "head": self.head,
            "blocks": {block: list(self.left(block)) for block in self.spent},
            "left": list(self.left()),
            "shares_left": list(self.shares_left()),
            "holds": [
                {
                    "key": h.key,
                    "state": h.state,
                    "expires": h.expires,
                    "expired": h.expired,
                    "by": h.author,
                    "time": h.time,
                }
                for h in self.holds
            ],
        }


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """The number of entries and the head of every account that was verified.

    `closed` is False for an export without a closing line: entries may be missing at its end.
    """

    entries: Mapping[str, int]
    heads: Mapping[str, str]
    closed: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: {"entries": count, "head": self.heads[name]} for name, count in self.entries.items()}
