"""Numbers in text: each is rounded to the side on which the promise that is printed beside it stays true.

What was given is printed as it was given. What was computed is rounded by what it is: ε, δ, noise and shares of what an
attacker finds go up; rates, counts and what is left of a budget go down.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal

EXACT = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)
LARGEST_EXPONENT = 700.0  # ε up to which e^ε is printed
DEEPEST = -1e15  # below this log δ, a power of ten would show no digit of δ


def given(value: float) -> str:
    """Return a number that somebody stated: the shortest text that reads back as that double.

    >>> given(1.0), given(0.1), given(1.234564e-6), given(0.010000000004999)
    ('1', '0.1', '1.234564e-06', '0.010000000004999')
    """
    return repr(float(value)).removesuffix(".0")


def percent_up(share: float, *, digits: int = 3, most: float = 100.0) -> str:
    """Return a share as a percentage that is never below it; one of what there is, at most 100.

    >>> percent_up(0.12345), percent_up(0.25), percent_up(1.0), percent_up(1.234, most=math.inf)
    ('12.4', '25', '100', '124')
    """
    exact = Decimal(repr(float(share))).scaleb(2, EXACT)
    return _decimal_text(min(exact, Decimal(most)), digits)


def rounded_up(value: float, *, digits: int = 10) -> str:
    """Return a number in decimal, never below it.

    >>> rounded_up(1 / 3), rounded_up(0.1), rounded_up(math.inf)
    ('0.3333333334', '0.1', 'inf')
    """
    return _decimal_text(Decimal(repr(float(value))), digits)  # the shortest text of this double: 0.1 stays 0.1


def rounded_down(value: float, *, digits: int = 10) -> str:
    """Return a number >= 0 in decimal, never above it.

    >>> rounded_down(2 / 3), rounded_down(0.1)
    ('0.6666666666', '0.1')
    """
    return rounded_up(-value, digits=digits).removeprefix("-")


def delta_rounded_up(log_delta: float, *, digits: int = 6) -> str:
    """Return δ in decimal, never below it, also where it underflows.

    A short number is printed as it is only where its logarithm is this very double; the next one is printed larger.

    >>> delta_rounded_up(math.log(1e-5)), delta_rounded_up(-1000.0), delta_rounded_up(-math.inf)
    ('1e-05', '5.07596e-435', '0')
    >>> delta_rounded_up(math.nextafter(math.log(1e-5), 0.0))
    '1.00001e-05'
    """
    if -math.inf < log_delta < DEEPEST:
        return f"exp({rounded_up(log_delta)})"
    exact = EXACT.exp(Decimal(log_delta))
    short = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN).create_decimal(exact)
    if float(short) > 0 and math.log(float(short)) == log_delta:
        exact = short
    return _decimal_text(exact, digits)


def factor_up(epsilon: float, *, digits: int = 3) -> str:
    """Return e^ε in decimal, never below it; as it is written here where ε has left what people can read.

    >>> factor_up(0.0), factor_up(1.0), factor_up(1000.0)
    ('1', '2.72', 'e^epsilon')
    """
    return delta_rounded_up(epsilon, digits=digits) if epsilon < LARGEST_EXPONENT else "e^epsilon"


def counted(count: int, noun: str) -> str:
    """Return how many there are of something.

    >>> counted(1, "account"), counted(0, "curve"), counted(2, "entry")
    ('1 account', '0 curves', '2 entries')
    """
    several = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count} {noun if count == 1 else several}"


def _decimal_text(exact: Decimal, digits: int) -> str:
    upper = Context(prec=digits, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN).create_decimal(exact)
    if upper.is_infinite() or upper == 0 or 1e-300 < abs(upper) < 1e300:
        return f"{float(upper):.{digits}g}"  # the same digits: a double holds 15 of them
    return f"{upper:.{digits - 1}e}"
