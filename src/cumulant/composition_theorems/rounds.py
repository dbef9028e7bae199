"""Releases of which (ε, δ) is all that is known, and the probability that one of them fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from cumulant.answer import Interval
from cumulant.errors import InvalidParameter
from cumulant.numerics.rounding import ROUNDING, log_above
from cumulant.numerics.scalar_logspace import log1m_exp, log_add
from cumulant.parameters import nonnegative, probability, require, whole_number

MOST_ROUNDS = 10**12  # sums over a composition hold O(√rounds) terms
LEAST_EPSILON, MOST_EPSILON = 1e-280, 1e100  # products with counts neither underflow nor overflow


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """`count` releases, chosen adaptively, each (epsilon, delta)-DP.

    >>> Rounds(epsilon=0.1, count=100)
    Rounds(epsilon=0.1, delta=0.0, count=100)
    """

    epsilon: float
    delta: float = 0.0
    count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability("delta", self.delta))
        object.__setattr__(self, "count", whole_number("count", self.count))
        sane = self.epsilon == 0 or LEAST_EPSILON <= self.epsilon <= MOST_EPSILON
        require(sane, "epsilon must be 0 or between 1e-280 and 1e100", self.epsilon)


def checked(parts: Sequence[Rounds]) -> Sequence[Rounds]:
    """Return the parts as a tuple, refusing what is not `Rounds` or too many of them."""
    parts = tuple(parts)
    for part in parts:
        if not isinstance(part, Rounds):
            raise InvalidParameter(f"every part must be Rounds(epsilon=, delta=, count=), got {part!r}")
    require(sum(part.count for part in parts) <= MOST_ROUNDS, "rounds must be at most 10^12 in all", parts)
    return parts


@final
@dataclass(frozen=True, slots=True)
class Failure:
    """1 - Π(1-δ_i)^k_i, the probability that some round fails: its log within an interval, and log of the rest."""

    log: Interval
    log_rest: float

    @classmethod
    def of(cls, parts: Sequence[Rounds]) -> Failure:
        if any(part.delta == 1 and part.count for part in parts):
            return cls(Interval(0.0, 0.0), -math.inf)
        log_rest = math.fsum(part.count * math.log1p(-part.delta) for part in parts)
        if log_rest == 0:
            return cls(Interval(-math.inf, -math.inf), 0.0)
        log_fail = log1m_exp(log_rest)
        error = ROUNDING * (2 + abs(log_fail))
        return cls(Interval(log_fail - error, min(0.0, log_fail + error)), log_rest)

    def log_upper(self, log_tail: float) -> float:
        """Return log(p + (1-p) tail), rounded up."""
        return log_above(log_add(self.log.upper, self.log_rest * (1 - ROUNDING) + log_tail))

    def log_lower(self, log_tail: float) -> float:
        """Return log(p + (1-p) tail), rounded down."""
        total = log_add(self.log.lower, self.log_rest * (1 + ROUNDING) + log_tail)
        return min(0.0, total - ROUNDING * (1 + abs(total))) if total > -math.inf else total

    def log_left(self, log_delta: float) -> float:
        """Return about log(δ' - p), a hint where to look; -inf if nothing is left."""
        return log_delta + log1m_exp(self.log.upper - log_delta) if self.log.upper < log_delta else -math.inf
