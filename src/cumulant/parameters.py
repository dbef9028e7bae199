"""Rules that arguments must obey; each check returns the clean value or raises `InvalidParameter`."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

from cumulant.errors import InvalidParameter


def require(condition: bool, rule: str, value: object) -> None:
    """Raise `InvalidParameter` with the rule and the value unless the condition holds.

    >>> require(-1.0 > 0, "scale must be > 0", -1.0)
    Traceback (most recent call last):
    ...
    cumulant.errors.InvalidParameter: scale must be > 0, got -1.0
    """
    if not condition:
        raise InvalidParameter(f"{rule}, got {value!r}")


def real(name: str, value: Any, rule: str) -> float:
    """Return value as a plain float; NaN, text, booleans and arrays are refused."""
    scalar = value.item() if getattr(value, "shape", None) == () else value
    require(isinstance(scalar, Real) and not isinstance(scalar, bool), f"{name} {rule}", value)
    try:
        number = float(scalar)
    except OverflowError:
        raise InvalidParameter(f"{name} {rule}, got a number beyond the range of floats") from None
    require(not math.isnan(number), f"{name} {rule}", value)
    return number


def positive(name: str, value: Any) -> float:
    """Return a finite number > 0."""
    rule = "must be a finite number > 0"
    number = real(name, value, rule)
    require(0 < number < math.inf, f"{name} {rule}", value)
    return number


def nonnegative(name: str, value: Any) -> float:
    """Return a finite number >= 0."""
    rule = "must be a finite number >= 0"
    number = real(name, value, rule)
    require(0 <= number < math.inf, f"{name} {rule}", value)
    return number


def probability(name: str, value: Any) -> float:
    """Return a number in [0, 1]."""
    rule = "must be a number between 0 and 1"
    number = real(name, value, rule)
    require(0 <= number <= 1, f"{name} {rule}", value)
    return number


def whole_number(name: str, value: Any, *, at_least: int = 0) -> int:
    """Return an integer >= `at_least`; 1000.0 is refused rather than guessed at."""
    rule = f"{name} must be a whole number >= {at_least}"
    require(not isinstance(value, bool), rule, value)
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidParameter(f"{rule} of type int, got {value!r}") from None
    require(number >= at_least, rule, value)
    return number


def count(value: Any) -> int:
    """Return how often something is released: a whole number that a double can hold."""
    number = whole_number("count", value)
    require(number <= 10**300, "count must be at most 1e300", value)
    return number


def order(value: Any) -> float:
    """Return a Rényi order: a number >= 1, infinity included."""
    rule = "must be a number >= 1 (1 is KL, inf is pure DP)"
    number = real("order", value, rule)
    require(number >= 1, f"order {rule}", value)
    return number


def sampled_rate(*, batch: Any, population: Any, rate: Any) -> float:
    """Return m/n, from the two numbers or as given."""
    if rate is not None:
        if batch is not None or population is not None:
            raise InvalidParameter(f"give batch and population, or rate, got {batch!r}, {population!r} and {rate!r}")
        return probability("rate", rate)
    m = whole_number("batch", batch)
    n = whole_number("population", population, at_least=1)
    require(m <= n, f"batch must be at most the population of {n}", m)
    return m / n


def log_of_delta(*, delta: Any, log_delta: Any) -> float:
    """Return log δ from exactly one of δ in [0, 1] and log δ in [-inf, 0]."""
    if (delta is None) == (log_delta is None):
        raise InvalidParameter(f"give either delta or log_delta, got delta={delta!r} and log_delta={log_delta!r}")
    if log_delta is None:
        number = probability("delta", delta)
        return math.log(number) if number > 0 else -math.inf
    number = real("log_delta", log_delta, "must be a number <= 0")
    require(number <= 0, "log_delta must be a number <= 0", log_delta)
    return number
