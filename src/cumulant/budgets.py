"""What a plan may spend: an ε at δ, or what the best attacker may have."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

from cumulant import parameters
from cumulant.answer import Method
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.parameters import require


class AbstractBudget(ABC):
    """A number that a run must not exceed."""

    __slots__ = ()

    method: Method

    @property
    @abstractmethod
    def most(self) -> float:
        """What may be spent."""

    @property
    @abstractmethod
    def asked(self) -> str:
        """The budget as it was written."""

    @abstractmethod
    def spent(self, run: AbstractMechanism, method: Method) -> tuple[float, str]:
        """Return what a run spends, rounded up, and by which method that was proven."""


@final
@dataclass(frozen=True, slots=True)
class EpsilonBudget(AbstractBudget):
    """At most ε at δ."""

    epsilon: float
    log_delta: float
    method: Method
    delta: float | None = None  # as it was stated: its logarithm rounds

    @classmethod
    def of(cls, epsilon: Any, delta: Any, log_delta: Any, method: Method) -> EpsilonBudget:
        log = parameters.log_of_delta(delta=delta, log_delta=log_delta)
        return cls(parameters.nonnegative("epsilon", epsilon), log, method, None if delta is None else float(delta))

    @property
    def most(self) -> float:
        return self.epsilon

    def spent(self, run: AbstractMechanism, method: Method) -> tuple[float, str]:
        at = {"log_delta": self.log_delta} if self.delta is None else {"delta": self.delta}
        guarantee = run.guarantee(**at, method=method)
        return guarantee.epsilon, guarantee.method

    @property
    def asked(self) -> str:
        return f"epsilon={self.epsilon!r}"

    def __str__(self) -> str:
        return (
            f"{self.asked} at this delta: what does not depend on it costs more than the budget, "
            "or no finite epsilon is proven at this delta"
        )


@final
@dataclass(frozen=True, slots=True)
class AdvantageBudget(AbstractBudget):
    """A bound of true less false positive rate, for every attacker: δ at ε = 0."""

    advantage: float
    method: Method

    @property
    def most(self) -> float:
        return self.advantage

    def spent(self, run: AbstractMechanism, method: Method) -> tuple[float, str]:
        guarantee = run.guarantee(epsilon=0.0, method=method)
        return guarantee.delta, guarantee.method

    @property
    def asked(self) -> str:
        return f"advantage={self.advantage!r}"

    def __str__(self) -> str:
        return f"{self.asked}: what does not depend on it costs more than the budget"


@final
@dataclass(frozen=True, slots=True)
class PowerBudget(AbstractBudget):
    """A bound of the true positive rate at a false positive rate, for every attacker."""

    true_positive_rate: float
    false_positive_rate: float
    method: Method

    @property
    def most(self) -> float:
        return self.true_positive_rate

    def spent(self, run: AbstractMechanism, method: Method) -> tuple[float, str]:
        misses = run.tradeoff(false_positive_rate=self.false_positive_rate, method=method)
        return min(1.0, math.nextafter(1.0 - misses, 2.0)), "tradeoff"  # rounded up

    @property
    def asked(self) -> str:
        return f"true_positive_rate={self.true_positive_rate!r} at false_positive_rate={self.false_positive_rate!r}"

    def __str__(self) -> str:
        return f"{self.asked}: what does not depend on it costs more than the budget"


def budget_of(
    *,
    epsilon: Any,
    delta: Any,
    log_delta: Any,
    advantage: Any,
    true_positive_rate: Any,
    false_positive_rate: Any,
    method: Method,
) -> AbstractBudget:
    """Return the one budget that is given: (ε, δ), an advantage, or a pair of rates."""
    ways = [
        epsilon is not None or delta is not None or log_delta is not None,
        advantage is not None,
        true_positive_rate is not None or false_positive_rate is not None,
    ]
    if sum(ways) != 1:
        raise InvalidParameter(
            "give one budget: epsilon and delta, advantage, or true_positive_rate and false_positive_rate, "
            f"got epsilon={epsilon!r}, delta={delta!r}, log_delta={log_delta!r}, advantage={advantage!r}, "
            f"true_positive_rate={true_positive_rate!r}, false_positive_rate={false_positive_rate!r}"
        )
    if ways[0]:
        return EpsilonBudget.of(epsilon, delta, log_delta, method)
    if ways[1]:
        share = parameters.probability("advantage", advantage)
        require(0 < share < 1, "advantage must be above 0, which no noise reaches, and below 1", advantage)
        return AdvantageBudget(share, method)
    hits = parameters.probability("true_positive_rate", true_positive_rate)
    alarms = parameters.probability("false_positive_rate", false_positive_rate)
    require(
        alarms < hits < 1,
        f"true_positive_rate must be above the false_positive_rate of {alarms!r}, which guessing has, and below 1",
        true_positive_rate,
    )
    return PowerBudget(hits, alarms, method)
