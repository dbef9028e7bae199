"""What the text of an option means."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from cumulant.report.typed import counting_from, is_number, number, probability, share

WIDEST_PAGE = 100  # inches
CHART_ENDINGS = (".png", ".svg", ".pdf")
Row = tuple[float, float]


def curve(lines: Sequence[str]) -> tuple[Row, ...]:
    """Return the rows of a table of (order, epsilon); one header line and # comments are allowed.

    >>> curve(["order,epsilon", "2, 0.1  # measured", "", "inf 3"])
    ((2.0, 0.1), (inf, 3.0))
    """
    split = ((place, line.split("#")[0].replace(",", " ").split()) for place, line in enumerate(lines, start=1))
    filled = [(place, cells) for place, cells in split if cells]
    if filled and not any(is_number(cell) for cell in filled[0][1]):
        del filled[0]  # the header
    if not filled:
        raise ValueError("the table has no rows")
    return tuple(_row(place, cells) for place, cells in filled)


def inches(text: str) -> float:
    """Return a length that fits a page."""
    value = number(text)
    if not 0 < value <= WIDEST_PAGE:
        raise ValueError(f"{text!r} is not in the range 0<x<={WIDEST_PAGE}")
    return value


def vector(text: str) -> tuple[float, ...]:
    """Return numbers that have commas between them."""
    return tuple(number(cell) for cell in text.split(","))


def matrix(text: str) -> tuple[tuple[float, ...], ...]:
    """Return rows that have semicolons between them.

    >>> matrix("1,0; 0,1")
    ((1.0, 0.0), (0.0, 1.0))
    """
    return tuple(vector(row) for row in text.split(";"))


def curve_file(path: str) -> tuple[Row, ...]:
    """Return the table in a file."""
    try:
        return curve(_text_of_file(path).splitlines())
    except ValueError as error:
        raise ValueError(f"{path!r} cannot be read as a table: {error}") from error


def run_file(path: str) -> Any:
    """Return the JSON in a file, for `cumulant.from_dict` to read; a key given twice is refused."""
    from cumulant.mechanisms.data import unique_keys

    try:
        return json.loads(_text_of_file(path), object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path!r} cannot be read as JSON: {error}") from error


def chart_file(path: str) -> Path:
    """Return where to draw; the ending says how."""
    chosen = Path(path)
    if chosen.suffix not in CHART_ENDINGS:
        raise ValueError(f"{path!r} must end in {', '.join(CHART_ENDINGS)}")
    return chosen


def _text_of_file(path: str) -> str:
    """Return the text of a file, `-` for standard input; a byte-order mark is skipped."""
    try:
        with click.open_file(path, encoding="utf-8-sig") as file:
            text: str = file.read()
            return text
    except OSError as error:
        raise ValueError(f"{error.strerror}") from error


def _row(place: int, cells: Sequence[str]) -> Row:
    if len(cells) != 2:
        raise ValueError(f"line {place}: two numbers (order, epsilon) expected, got {' '.join(cells)!r}")
    try:
        return number(cells[0]), number(cells[1])
    except ValueError as error:
        raise ValueError(f"line {place}: {error}") from None


def completed_as_file(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Let the shell complete names of files."""
    return [CompletionItem(begun, type="file")]


def option_type(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a click type: what a reader refuses becomes a refused option, with the reader's own words."""

    @wraps(read)
    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return convert


NUMBER = option_type(number)
INCHES = option_type(inches)
SHARE = option_type(share)
COUNT = option_type(counting_from(0))
SIZE = option_type(counting_from(1))
PROBABILITY = option_type(probability)
VECTOR = option_type(vector)
MATRIX = option_type(matrix)
CURVE_FILE = option_type(curve_file)
RUN_FILE = option_type(run_file)
CHART_FILE = option_type(chart_file)
