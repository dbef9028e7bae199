"""A statement as the front matter of a model card: a block of YAML, written without a library for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from cumulant.printed import delta_rounded_up, rounded_down, rounded_up
from cumulant.report.statement import Statement

INDENT = "  "
DEEPEST_DOUBLE = -708.0  # log δ, below which doubles end, or lose digits
RESERVED = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")  # which YAML 1.1 does not read as text
ESCAPES = ((0xFF, "x", 2), (0xFFFF, "u", 4), (0x10FFFF, "U", 8))


def front_matter(statement: Statement, **more: Any) -> str:
    """Return what a statement says, between lines of three dashes.

    ε and δ are rounded up, so that whoever reads them as doubles reads no less than is true. A δ that doubles do not
    reach is text. What is given beside the statement stands below it.
    """
    content = {"differential_privacy": {**_content(statement), **more}}
    return "\n".join(("---", *yaml_lines(content), "---"))


def _content(statement: Statement) -> dict[str, Any]:
    data, guarantee, interval = statement.to_dict(), statement.explanation.guarantee, statement.interval
    is_double = guarantee.log_delta == -math.inf or guarantee.log_delta > DEEPEST_DOUBLE
    ends = None
    if interval is not None:
        lower, upper = float(rounded_down(interval.lower)), float(rounded_up(interval.upper))
        ends = {"lower": lower, "upper": upper, "certified": interval.certified}
    return {
        "epsilon": float(rounded_up(guarantee.epsilon)),
        "delta": guarantee.delta if is_double else delta_rounded_up(guarantee.log_delta),
        "relation": data["neighbors"],
        "records_per_person": data["user_records"],
        **{name: data[name] for name in ("method", "theorem", "exact")},
        "interval": ends,
        **{name: data[name] for name in ("releases", "not_covered", "computed_by")},
    }


def yaml_lines(content: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield plain data as YAML, which 1.1 and 1.2 read alike: block mappings, block lists, and quoted text.

    >>> print(*yaml_lines({"delta": 1e-5, "ends": {"certified": True}, "of": ["a: b"], "no": None}), sep=chr(10))
    delta: 1.0e-05
    ends:
      certified: true
    of:
      - "a: b"
    "no": null
    """
    for key, value in content.items():
        label = before + (key if key.isidentifier() and key.lower() not in RESERVED else _text(key))
        match value:
            case Mapping() | list() if not value:
                yield f"{label}: {'[]' if isinstance(value, list) else '{}'}"
            case Mapping():
                yield f"{label}:"
                yield from yaml_lines(value, before + INDENT)
            case list():
                yield f"{label}:"
                yield from (f"{before}{INDENT}- {_scalar(item)}" for item in value)
            case _:
                yield f"{label}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int():
            return str(value)
        case float():
            return _number(value)
        case _:
            return _text(str(value))


def _number(value: float) -> str:
    """Return a double as both versions of YAML read it: with a point, also before an exponent."""
    if not math.isfinite(value):
        return "-.inf" if value < 0 else ".inf"
    digits, exponent, power = repr(value).partition("e")
    return (digits if "." in digits else f"{digits}.0") + exponent + power


def _text(text: str) -> str:
    """Return text in double quotes, whatever is no letter escaped."""
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character.isprintable() and character not in '"\\':
        return character
    code = ord(character)
    kind, width = next((kind, width) for most, kind, width in ESCAPES if code <= most)
    return f"\\{kind}{code:0{width}x}"
