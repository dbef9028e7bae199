"""How answers are printed: for people within 80 columns, for programs as one JSON object."""

from __future__ import annotations

import json
import math
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any

import click

from cumulant.errors import InvalidParameter

if TYPE_CHECKING:
    from cumulant.answer import Explanation
    from cumulant.mechanisms.base import AbstractMechanism

WIDEST = 80
LINES_PER_ITEM = 3  # a release that is described by a long table is cut short; --json has it whole
EXACT = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)
DEEPEST = -1e15  # below this log δ, a power of ten would show no digit of δ


def rounded_up(value: float, *, digits: int = 10) -> str:
    """Return a number in decimal, never below it.

    >>> rounded_up(1 / 3), rounded_up(0.1), rounded_up(math.inf)
    ('0.3333333334', '0.1', 'inf')
    """
    return _decimal_text(Decimal(repr(value)), digits)  # the shortest text of this double: 0.1 stays 0.1


def delta_rounded_up(log_delta: float, *, digits: int = 6) -> str:
    """Return δ in decimal, never below it, also where it underflows.

    >>> delta_rounded_up(math.log(1e-5)), delta_rounded_up(-1000.0), delta_rounded_up(-math.inf)
    ('1e-05', '5.07596e-435', '0')
    """
    if -math.inf < log_delta < DEEPEST:
        return f"exp({rounded_up(log_delta)})"
    return _decimal_text(EXACT.exp(Decimal(log_delta)), digits)


def _decimal_text(exact: Decimal, digits: int) -> str:
    upper = Context(prec=digits, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN).create_decimal(exact)
    if upper.is_infinite() or upper == 0 or 1e-300 < abs(upper) < 1e300:
        return f"{float(upper):.{digits}g}"  # the same digits: a double holds 15 of them
    return f"{upper:.{digits - 1}e}"


def print_explanation(headline: str, explanation: Explanation) -> None:
    """Print an answer and, below it, what the explanation says of its proof."""
    for line in _wrapped(headline):
        click.echo(click.style(line, fg="green", bold=True))
    for part in str(explanation).splitlines()[1:]:  # its first line is the answer, which `headline` words
        for line in _wrapped(part):
            click.echo(line)


def print_json(
    question: Mapping[str, Any], answer: Mapping[str, Any], run: AbstractMechanism, explanation: Explanation
) -> None:
    """Print the library's version, the question, the answer, the mechanism and the proof."""
    from cumulant import __version__

    content = {
        "version": __version__,
        "question": question,
        "answer": answer,
        "mechanism": _written(run),
        "explanation": explanation.to_dict(),
    }
    click.echo(json.dumps(_plain(content), indent=2, allow_nan=False))


def _wrapped(line: str) -> Iterator[str]:
    """Break a line to the terminal's width; what follows is indented as the text beside the label is."""
    label = re.match(r" *(\S+( \S+)* {2,})?", line)
    indent = " " * (label.end() if label else 0)
    width = max(40, min(WIDEST, shutil.get_terminal_size().columns))
    yield from textwrap.wrap(
        line, width, subsequent_indent=indent, break_on_hyphens=False, max_lines=LINES_PER_ITEM, placeholder=" ..."
    )


def _written(run: AbstractMechanism) -> dict[str, Any] | None:
    try:
        return run.to_dict()
    except InvalidParameter:  # a part that no data can describe
        return None


def _plain(value: Any) -> Any:
    """Replace infinities, which JSON has not, by text."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
