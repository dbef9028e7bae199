"""What a ledger answers: receipts, statuses, verifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, final

from cumulant.ledger.allocation import Block
from cumulant.ledger.declaration import Declaration, check_relation
from cumulant.ledger.entries import Entry
from cumulant.ledger.lines import PureBeyond
from cumulant.mechanisms.base import AbstractMechanism

WHOLE = "all"
"""The one block of an account that is not divided."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What was recorded; `again` says that its key had recorded it before."""

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

    def to_dict(self) -> dict[str, Any]:
        return {"by" if name == "author" else name: value for name, value in asdict(self).items()}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """An account as it stands. `claims` are the ε that may be claimed at δ at the end of each stage.

    `released` is all that counts as released, by block, where pure DP may go beyond the lines; else it is empty.
    """

    account: str
    opened: str
    declaration: Declaration
    claims: tuple[float, ...]
    stage: int
    version: int
    head: str
    spent: Mapping[str, tuple[int, ...]]
    released: Mapping[str, tuple[tuple[AbstractMechanism, int], ...]]
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
        names = [block] if block else list(self.spent)
        closed = any(self._block(name).is_overdrawn for name in names)
        rows = [self._left(name) for name in names]
        return tuple(
            line.show_left(min(row[place] for row in rows))
            if isinstance(line, PureBeyond)
            else line.show(int(min(row[place] for row in rows))) + (": pure DP went beyond it" if closed else "")
            for place, line in enumerate(self.declaration.lines)
        )

    def _left(self, block: str) -> list[Fraction]:
        """Return the units that are left of each line in a block, and the ε of pure DP beyond them."""
        there = self._block(block)
        beyond, left = there.left_beyond(), [0] * len(there.lines) if there.is_overdrawn else there.left()
        pairs = zip(there.lines, left, strict=True)
        return [beyond if isinstance(line, PureBeyond) else Fraction(n) for line, n in pairs]

    def _block(self, name: str) -> Block:
        return Block(self.declaration.lines, self.spent[name], self.stage, lambda: self.released.get(name, ()))

    def shares_left(self) -> tuple[float, ...]:
        """Return the share of each line that is left, rounded down, in the block that has least."""
        rows = [self._left(block) for block in self.spent]
        return tuple(line.share(min(row[place] for row in rows)) for place, line in enumerate(self.declaration.lines))

    def fits(self, release: AbstractMechanism, *, block: str | None = None) -> int:
        """Return how often a release would still fit: in a block, or in all of them at once."""
        check_relation(release, self.declaration.neighbors)
        return min(self._block(name).most_that_fit(release) for name in ([block] if block else self.spent))

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
            "holds": [hold.to_dict() for hold in self.holds],
        }


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """The number of entries and the head of every account that was verified.

    `warnings` tell what another version of the library charged by its rules, and by those of today takes more: no sign
    of tampering, but the promise is the one of today.
    `closed` is False for an export without a closing line: entries may be missing at its end.
    """

    entries: Mapping[str, int]
    heads: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    closed: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: {"entries": count, "head": self.heads[name]} for name, count in self.entries.items()}
