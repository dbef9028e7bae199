"""Both proven ends of ε at a δ that was typed, and their words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cumulant.answer import Interval
from cumulant.errors import OutOfReach, UnprovenCombination
from cumulant.report.typed import Delta, number

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism

NO_LOWER_END = "none: no neighbours are known that attain a lower end"
TYPED = 4e-16  # of log δ, and beside it: between a decimal, its double, and the logarithm of that


def epsilon_interval(run: AbstractMechanism, delta: Delta) -> Interval | None:
    """Return bounds of ε from both sides, None where no neighbours are known to attain a lower one.

    ε falls with δ: its lower end is asked for at a little more than was typed, its upper end at a little less.
    """
    margin = TYPED * (1 + abs(delta.log)) if math.isfinite(delta.log) else 0.0
    try:
        below = run.epsilon_interval(log_delta=min(delta.log + margin, 0.0))
        above = run.epsilon_interval(log_delta=delta.log - margin)
    except (UnprovenCombination, OutOfReach):
        return None
    certified = below.certified and above.certified
    return Interval(below.lower, above.upper, certified, max(below.unproven, above.unproven))


def as_read(delta: Delta) -> dict[str, Any]:
    """Return δ as the library takes it: the double that Python would read, or its logarithm where there is none."""
    try:
        value = number(delta.text)
    except ValueError:
        return {"log_delta": delta.log}
    return {"delta": value} if value < 1 else {"log_delta": delta.log}


def interval_text(interval: Interval | None, *, digits: int = 10) -> str:
    """Return both ends in words, rounded to the outside."""
    return NO_LOWER_END if interval is None else interval.words(digits=digits)


def interval_data(interval: Interval | None) -> dict[str, Any] | None:
    """Return both ends as plain data."""
    return None if interval is None else interval.to_dict()
