"""Entries: append-only, each with the hash of the one before, so that a change anywhere is evident."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, final

from cumulant.errors import LedgerTampered
from cumulant.mechanisms.data import unique_keys

NO_HASH = "0" * 64
"""What stands before the first entry of an account."""

KINDS = ("open", "spend", "hold", "start", "settle", "cancel", "blocks", "advance", "refused")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of an account's history; `body` is canonical JSON, `hash` covers everything else and the hash before."""

    account: str
    version: int
    time: str
    author: str
    key: str
    kind: str
    body: str
    previous: str
    hash: str

    @property
    def content(self) -> dict[str, Any]:
        """The body as data."""
        content: dict[str, Any] = json.loads(self.body, object_pairs_hook=unique_keys)
        return content

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as `export` writes it."""
        return asdict(self)

    def digest(self) -> str:
        """Return the hash that the other fields have."""
        fields = [self.account, self.version, self.time, self.author, self.key, self.kind, self.body, self.previous]
        return hashlib.sha256(canonical(fields).encode("ascii")).hexdigest()


def seal(
    *, account: str, version: int, time: str, author: str, key: str, kind: str, body: dict[str, Any], previous: str
) -> Entry:
    """Return an entry with its hash."""
    open_entry = Entry(
        account=account,
        version=version,
        time=time,
        author=author,
        key=key,
        kind=kind,
        body=canonical(body),
        previous=previous,
        hash="",
    )
    return Entry(**{**open_entry.to_dict(), "hash": open_entry.digest()})


def canonical(data: Any) -> str:
    """Return JSON that is the same for equal data: keys sorted, no blanks, ASCII, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def entries_of(lines: Iterable[str]) -> Iterator[Entry]:
    """Yield the entries of JSON lines, as `export` writes them."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield Entry(**json.loads(line, object_pairs_hook=unique_keys))
            except (TypeError, ValueError) as error:
                raise LedgerTampered(f"line {number} is not an entry of a ledger: {error}") from error
