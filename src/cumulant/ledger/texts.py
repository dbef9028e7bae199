"""Names, remarks and durations that people give: checked before anything is recorded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from cumulant.errors import InvalidParameter
from cumulant.parameters import require

LONGEST_NAME = 100  # characters of the name of an account, a block or a person, or of a key
LONGEST_REMARK = 500  # characters of a label or a unit
MOST_BLOCKS = 10_000  # that one release may name
NAME = re.compile(r"\w(?:[\w .:/@+-]*[\w.:/@+-])?")
DURATION = re.compile(r"(\d{1,9})\s*(s|m|h|d|w)")
SECONDS_IN = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def checked_name(what: str, value: Any) -> str:
    """Return a name: letters, digits and . : / @ + - _ with blanks between, so that it reads the same everywhere.

    >>> checked_name("account", "customers; DROP TABLE entry")
    Traceback (most recent call last):
    ...
    cumulant.errors.InvalidParameter: account must be 1 to 100 letters, digits or . : / @ + - _ with blanks between...
    """
    rule = f"{what} must be 1 to {LONGEST_NAME} letters, digits or . : / @ + - _ with blanks between"
    require(isinstance(value, str), rule, value)
    require(len(value) <= LONGEST_NAME, rule, f"{len(value)} characters")
    fine = NAME.fullmatch(value) is not None and unicodedata.is_normalized("NFC", value)
    require(fine, rule, value)
    return str(value)


def checked_remark(what: str, value: Any) -> str:
    """Return a short text that can be printed, or nothing."""
    rule = f"{what} must be a text of at most {LONGEST_REMARK} characters that can be printed on a line"
    require(isinstance(value, str), rule, value)
    require(len(value) <= LONGEST_REMARK, rule, f"{len(value)} characters")
    require(value.isprintable(), rule, value)
    return str(value)


def checked_blocks(value: Any) -> tuple[str, ...]:
    """Return names of blocks, sorted, each once."""
    rule = "blocks must be a list of names"
    require(isinstance(value, Iterable) and not isinstance(value, str | bytes), rule, value)
    names = [checked_name("block", name) for name in value]
    require(len(set(names)) == len(names), "blocks must differ", names)
    require(0 < len(names) <= MOST_BLOCKS, f"blocks must be 1 to {MOST_BLOCKS} names", f"{len(names)} names")
    return tuple(sorted(names))


def checked_duration(value: Any) -> timedelta:
    """Return how long something may take.

    >>> checked_duration("2h")
    datetime.timedelta(seconds=7200)
    """
    match = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidParameter(f"expires must be a number and s, m, h, d or w, such as '2h', got {value!r}")
    return timedelta(seconds=int(match[1]) * SECONDS_IN[match[2]])


def time_text(moment: datetime) -> str:
    """Return a moment in UTC, to the microsecond: as text such moments sort."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment_of(text: str) -> datetime:
    """Return the moment that `time_text` wrote."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return how many there are of something.

    >>> counted(1, "account"), counted(2, "entry", "entries")
    ('1 account', '2 entries')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"
