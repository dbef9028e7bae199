"""What a plan may spend: an ε at δ, or what the best attacker may have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from cumulant import parameters
from cumulant.answer import Method
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.parameters import require

Spends = Callable[[AbstractMechanism, Method], tuple[float, str]]
"""Returns what a run spends, rounded up, and by which method that was proven."""


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """A number that a run must not exceed: `asked` is how it was written, `at` the log δ at which it is an ε."""

    most: float
    asked: str
    method: Method
    spent: Spends
    at: float | None = None

    def __str__(self) -> str:
        costs = "what does not depend on it costs more than the budget"
        if self.at is None:
            return f"{self.asked}: {costs}"
        return f"{self.asked} at this delta: {costs}, or no finite epsilon is proven at this delta"


def epsilon_budget(epsilon: Any, delta: Any, log_delta: Any, method: Method) -> Budget:
    """Return a budget of ε at δ, which is asked as it was stated: its logarithm rounds."""
    log, most = parameters.log_of_delta(delta=delta, log_delta=log_delta), parameters.nonnegative("epsilon", epsilon)
    stated = {"log_delta": log} if delta is None else {"delta": float(delta)}

    def spent(run: AbstractMechanism, by: Method) -> tuple[float, str]:
        guarantee = run.guarantee(**stated, method=by)
        return guarantee.epsilon, guarantee.method

    return Budget(most, f"epsilon={most!r}", method, spent, at=log)


def _advantage_budget(advantage: Any, method: Method) -> Budget:
    """Return a bound of true less false positive rate, for every attacker: δ at ε = 0."""
    share = parameters.probability("advantage", advantage)
    require(0 < share < 1, "advantage must be above 0, which no noise reaches, and below 1", advantage)

    def spent(run: AbstractMechanism, by: Method) -> tuple[float, str]:
        guarantee = run.guarantee(epsilon=0.0, method=by)
        return guarantee.delta, guarantee.method

    return Budget(share, f"advantage={share!r}", method, spent)


def _power_budget(true_positive_rate: Any, false_positive_rate: Any, method: Method) -> Budget:
    """Return a bound of the true positive rate at a false positive rate, for every attacker."""
    hits = parameters.probability("true_positive_rate", true_positive_rate)
    alarms = parameters.probability("false_positive_rate", false_positive_rate)
    require(
        alarms < hits < 1,
        f"true_positive_rate must be above the false_positive_rate of {alarms!r}, which guessing has, and below 1",
        true_positive_rate,
    )

    def spent(run: AbstractMechanism, by: Method) -> tuple[float, str]:
        misses = run.tradeoff(false_positive_rate=alarms, method=by)
        return min(1.0, math.nextafter(1.0 - misses, 2.0)), "tradeoff"  # rounded up

    return Budget(hits, f"true_positive_rate={hits!r} at false_positive_rate={alarms!r}", method, spent)


def budget_of(at_delta: tuple[Any, Any, Any], advantage: Any, rates: tuple[Any, Any], *, method: Method) -> Budget:
    """Return the one budget that is given: (ε, δ or log δ), an advantage, or a true and a false positive rate."""
    ways = [any(number is not None for number in way) for way in (at_delta, (advantage,), rates)]
    if sum(ways) != 1:
        (epsilon, delta, log_delta), (hits, alarms) = at_delta, rates
        raise InvalidParameter(
            "give one budget: epsilon and delta, advantage, or true_positive_rate and false_positive_rate, "
            f"got epsilon={epsilon!r}, delta={delta!r}, log_delta={log_delta!r}, advantage={advantage!r}, "
            f"true_positive_rate={hits!r}, false_positive_rate={alarms!r}"
        )
    if ways[0]:
        return epsilon_budget(*at_delta, method)
    return _advantage_budget(advantage, method) if ways[1] else _power_budget(*rates, method)
