"""Numbers that people type; `cumulant.printed` is the way back."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import final

from cumulant.numerics.rounding import float_above
from cumulant.printed import given

WIDE = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)  # holds any δ that can be typed, and its logarithm
MOST_DIGITS = 30  # of a whole number
DOWNWARDS = Context(prec=40, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)  # a smaller δ costs more
FARTHEST_EXPONENT = 10_000  # of numbers in a ratio, which is reckoned exactly
THOUSANDS = {"k": 3, "K": 3, "M": 6}  # as exponents of ten: 60k, 1.5M; a small m may mean the millionth part of it


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
    """Return a whole number that may be written as 60k, 1e6 or 1_000_000.

    >>> whole_number("60k"), whole_number("1e6"), whole_number("2.5e1")
    (60000, 1000000, 25)
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


def _decimal(text: str) -> Decimal:
    amount, suffix = text.strip(), text.strip()[-1:]
    if suffix in THOUSANDS and is_number(amount[:-1]):
        return Decimal(amount[:-1]).scaleb(THOUSANDS[suffix], WIDE)
    try:
        exact = Decimal(amount)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number{_way_out(amount)}") from None
    if exact.is_nan():
        raise ValueError(f"{text!r} is not a number")
    return exact


def _way_out(text: str) -> str:
    """Return how a number is written that people write otherwise."""
    if text[-1:] == "m" and is_number(text[:-1]):
        return f": write {text[:-1]}e6, or {text[:-1]}e-3"
    if text[-1:] == "%" and is_number(text[:-1]):
        return f": write {Decimal(text[:-1]).scaleb(-2):f}"
    if is_number(text.replace(",", "")):
        return f": write {text.replace(',', '')}, without commas, or a point before decimals"
    return ""


def is_number(text: str) -> bool:
    """Return whether a text is a decimal as it stands, an infinity or no number by its name among them."""
    try:
        Decimal(text)
    except InvalidOperation:
        return False
    return True
