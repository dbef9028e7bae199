"""What the text of an option means."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Any, final

import click
from click.shell_completion import CompletionItem

from cumulant.numerics.rounding import float_above
from cumulant.printed import given

WIDE = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)  # holds any δ that can be typed, and its logarithm
MOST_DIGITS = 30  # of a whole number
DOWNWARDS = Context(prec=40, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)  # a smaller δ costs more
FARTHEST_EXPONENT = 10_000  # of numbers in a ratio, which is reckoned exactly
WIDEST_PAGE = 100  # inches
SUFFIXES = {"k": "e3", "m": "e6"}
CHART_ENDINGS = (".png", ".svg", ".pdf")
Row = tuple[float, float]


@final
@dataclass(frozen=True, slots=True)
class Delta:
    """δ as it was typed, and its logarithm, which does not underflow."""

    text: str
    log: float


def number(text: str) -> float:
    """Return the double nearest to a decimal text; `ValueError` where that would be nothing, or infinity, instead.

    >>> number("1e-5"), number("inf")
    (1e-05, inf)
    >>> number("1e-400")
    Traceback (most recent call last):
    ...
    ValueError: '1e-400' is beyond floating point, which reaches from 2.3e-308 to 1.7e308
    """
    exact = _decimal(text)
    value = float(exact)
    vanished, overflowed = exact != 0 and abs(value) < sys.float_info.min, math.isinf(value) and exact.is_finite()
    if vanished or overflowed:
        raise ValueError(f"{text!r} is beyond floating point, which reaches from 2.3e-308 to 1.7e308")
    return value


def share(text: str) -> float:
    """Return a number, a ratio of two as 256/50000, or a percentage, rounded up: more of the data costs more.

    >>> share("1/4"), share("0.25"), share("3 %"), share("1/3") >= Fraction(1, 3)
    (0.25, 0.25, 0.03, True)
    """
    text = _without_percent(text)
    ratio = _ratio(text)
    return number(text) if ratio is None else float_above(ratio)


def _without_percent(text: str) -> str:
    """Return a percentage as the decimal that it is."""
    amount = text.strip().removesuffix("%")
    return text if amount == text.strip() else str(_decimal(amount).scaleb(-2, WIDE))


def _ratio(text: str) -> Fraction | None:
    """Return a ratio of two numbers; None for a single one."""
    part, slash, whole = text.partition("/")
    if not slash:
        return None
    above, below = _decimal(part), _decimal(whole)
    if not (above.is_finite() and below.is_finite()) or below == 0:
        raise ValueError(f"{text!r} is not a ratio of two numbers")
    if max(abs(above.adjusted()), abs(below.adjusted())) > FARTHEST_EXPONENT:
        raise ValueError(f"{text!r} has an exponent too large for a ratio")
    return Fraction(above) / Fraction(below)


def whole_number(text: str) -> int:
    """Return a whole number that may be written as 1e6 or 1_000_000.

    >>> whole_number("1e6"), whole_number("2.5e1")
    (1000000, 25)
    """
    exact = _decimal(text)
    if not exact.is_finite() or exact.adjusted() > MOST_DIGITS or exact != exact.to_integral_value(context=WIDE):
        raise ValueError(f"{text!r} is not a whole number")
    return int(exact)


def counting_from(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers that are not below one."""

    def counted(text: str) -> int:
        value = whole_number(text)
        if value < least:
            raise ValueError(f"{value} is not in the range x>={least}")
        return value

    return counted


def log_of(text: str) -> float:
    """Return log δ of a decimal text between 0 and 1.

    >>> log_of("1e-5") == math.log(1e-5), round(log_of("1e-400"), 3), log_of("0")
    (True, -921.034, -inf)
    """
    exact = _decimal(text)
    if not 0 <= exact <= 1:
        raise ValueError(f"must be between 0 and 1, got {text!r}")
    if exact == 0:
        return -math.inf
    value = float(exact)
    if value >= sys.float_info.min:
        # The double that Python would read too, so that the command and the library agree to the last digit; its
        # rounding is within what the library allows for. Only 1 is special (everything holds there): rounded down.
        return math.log(value if value < 1 or exact == 1 else math.nextafter(1.0, 0.0))
    log = WIDE.ln(exact)
    nearest = float(log)
    return nearest if nearest <= log else math.nextafter(nearest, -math.inf)  # down: a smaller δ costs more


def curve(lines: Sequence[str]) -> tuple[Row, ...]:
    """Return the rows of a table of (order, epsilon); one header line and # comments are allowed.

    >>> curve(["order,epsilon", "2, 0.1  # measured", "", "inf 3"])
    ((2.0, 0.1), (inf, 3.0))
    """
    split = ((place, line.split("#")[0].replace(",", " ").split()) for place, line in enumerate(lines, start=1))
    filled = [(place, cells) for place, cells in split if cells]
    if filled and not any(_is_number(cell) for cell in filled[0][1]):
        del filled[0]  # the header
    if not filled:
        raise ValueError("the table has no rows")
    return tuple(_row(place, cells) for place, cells in filled)


def probability(text: str) -> Delta:
    """Return δ with its logarithm; a ratio or a percentage as the decimal that it is, or is next to.

    >>> probability("1/100000").text, probability("0.1%").text, probability("1e-400").text
    ('1e-05', '0.001', '1e-400')
    """
    text = _without_percent(text)
    ratio = _ratio(text)
    if ratio is None:
        written = text.strip()
    elif sys.float_info.min <= ratio <= 1:
        written = given(float(ratio))
    else:
        written = str(DOWNWARDS.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    return Delta(written, log_of(written))


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


def _decimal(text: str) -> Decimal:
    try:
        exact = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number{_way_out(text.strip())}") from None
    if exact.is_nan():
        raise ValueError(f"{text!r} is not a number")
    return exact


def _way_out(text: str) -> str:
    """Return how a number is written that people write otherwise."""
    amount, suffix = text[:-1], text[-1:].lower()
    if suffix in SUFFIXES and _is_number(amount):
        return f": write {amount}{SUFFIXES[suffix]}"
    if suffix == "%" and _is_number(amount):
        return f": write {Decimal(amount).scaleb(-2):f}"
    if _is_number(text.replace(",", "")):
        return f": write {text.replace(',', '')}, without commas, or a point before decimals"
    return ""


def _is_number(text: str) -> bool:
    try:
        Decimal(text)
    except InvalidOperation:
        return False
    return True


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
