"""Names, remarks and durations that people give: checked before anything is recorded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from cumulant.errors import InvalidParameter
from cumulant.parameters import require

LONGEST_NAME = 100  # characters of the name of an account, a block or a person, or of a key
LONGEST_REMARK = 500  # characters of a label or a unit
MOST_BLOCKS = 10_000  # that one release may name
LOOK_ALIKE = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "GEORGIAN"}
"""Alphabets that share letters for the eye, by the first word of what Unicode calls their letters."""
NAME = re.compile(r"\w(?:[\w .:/@+-]*[\w.:/@+-])?")
DURATION = re.compile(r"(\d{1,9})\s*(s|m|h|d|w)")
LONGEST_DURATION = 100 * 366 * 86400  # seconds
SECONDS_IN = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def checked_name(what: str, value: Any) -> str:
    """Return a name: letters, digits and . : / @ + - _ with blanks between, so that it reads alike everywhere.

    >>> checked_name("account", "customers; DROP TABLE entry")
    Traceback (most recent call last):
    ...
    cumulant.errors.InvalidParameter: account must be 1 to 100 letters, digits or . : / @ + - _ with blanks between...
    """
    rule = f"{what} must be 1 to {LONGEST_NAME} letters, digits or . : / @ + - _ with blanks between"
    return _text(
        value, rule, LONGEST_NAME, lambda it: bool(NAME.fullmatch(it)) and unicodedata.is_normalized("NFC", it)
    )


def _text(value: Any, rule: str, longest: int, obeys: Callable[[str], bool]) -> str:
    require(isinstance(value, str), rule, value)
    require(len(value) <= longest, rule, f"{len(value)} characters")
    require(obeys(value), rule, value)
    return str(value)


def new_name(what: str, value: Any) -> str:
    """Return a name that is given for the first time, which no other name may look like.

    Letters of several alphabets beside each other, and letters that have a plainer form, are refused.

    >>> new_name("account", "\u0441ustomers")
    Traceback (most recent call last):
    ...
    cumulant.errors.InvalidParameter: account must have the letters of one alphabet, so that it reads the same ...
    """
    name = checked_name(what, value)
    alphabets = {unicodedata.name(letter, "").split(" ")[0] for letter in name if letter.isalpha()}
    plain = unicodedata.is_normalized("NFKC", name) and len(alphabets & LOOK_ALIKE) <= 1
    require(plain, f"{what} must have the letters of one alphabet, so that it reads the same everywhere", ascii(name))
    return name


def checked_remark(what: str, value: Any) -> str:
    """Return a short text that can be printed, or nothing."""
    rule = f"{what} must be a text of at most {LONGEST_REMARK} characters that can be printed on a line"
    return _text(value, rule, LONGEST_REMARK, str.isprintable)


def checked_unit(value: Any) -> str:
    """Return what one record is, in words."""
    text = checked_remark("unit", value)
    require(text != "", "unit must say what one record is, such as 'one customer'", value)
    return text


def checked_blocks(value: Any, check: Callable[[str, Any], str] = checked_name) -> tuple[str, ...]:
    """Return names of blocks, sorted, each once; `new_name` checks those that are given for the first time."""
    rule = "blocks must be a list of names"
    require(isinstance(value, Iterable) and not isinstance(value, str | bytes), rule, value)
    names = [check("block", name) for name in value]
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
    seconds = int(match[1]) * SECONDS_IN[match[2]]
    require(seconds <= LONGEST_DURATION, "expires must be at most 100 years", value)
    return timedelta(seconds=seconds)


def later(moment: datetime, duration: timedelta) -> datetime:
    """Return a later moment, or the last that there is."""
    try:
        return moment.astimezone(timezone.utc) + duration
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc)


def time_text(moment: datetime) -> str:
    """Return a moment in UTC, to the microsecond and with four digits of the year: as text such moments sort.

    >>> time_text(datetime(999, 1, 2, tzinfo=timezone.utc))
    '0999-01-02T00:00:00.000000Z'
    """
    return f"{moment.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def moment_of(text: str) -> datetime:
    """Return the moment that `time_text` wrote."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
