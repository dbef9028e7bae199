"""Entries: append-only, each with the hash of the one before, so that a change anywhere is evident."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
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


def seal(*, body: dict[str, Any], **others: Any) -> Entry:
    """Return an entry with its hash, from its other fields and its body as data."""
    unsealed = Entry(**others, body=canonical(body), hash="")
    return replace(unsealed, hash=unsealed.digest())


def canonical(data: Any) -> str:
    """Return JSON that is equal for equal data: keys sorted, no blanks, ASCII, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def closing_line(last: Entry) -> str:
    """Return the last line of an export: how many entries there are and what the last hash is."""
    return canonical({"closing": {"account": last.account, "entries": last.version, "head": last.hash}})


class Export:
    """The entries of JSON lines, as `export` writes them.

    When all were read, `closed` says whether the line that closes an export was there. One that is comes last and
    agrees; exports of older versions have none.
    """

    __slots__ = ("_lines", "closed")

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines, self.closed = lines, False

    def __iter__(self) -> Iterator[Entry]:
        last: Entry | None = None
        for number, line in enumerate(filter(str.strip, self._lines), start=1):
            if self.closed:
                raise LedgerTampered(f"line {number} follows the line that closes this export")
            found = _read_line(line, number)
            if isinstance(found, Entry):
                last = found
                yield found
            elif last is None or canonical(found) != closing_line(last):
                end = "none" if last is None else f"number {last.version} with hash {last.hash}"
                raise LedgerTampered(
                    f"line {number} closes this export after another entry than the last, which is {end}: lines before "
                    "it are missing"
                )
            else:
                self.closed = True


def _read_line(line: str, number: int) -> Entry | dict[str, Any]:
    """Return an entry, or what a closing line says."""
    try:
        data = json.loads(line, object_pairs_hook=unique_keys)
        return data if set(data) == {"closing"} else Entry(**data)
    except (TypeError, ValueError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise LedgerTampered(f"line {number} is not an entry of a ledger: {said}") from None
