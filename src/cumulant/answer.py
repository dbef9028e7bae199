"""The values that questions end in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from cumulant.neighbors import Neighbors


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A lower and an upper bound of one number.

    >>> 1.5 in Interval(1.0, 2.0)
    True
    """

    lower: float
    upper: float

    @property
    def width(self) -> float:
        return self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """One (ε, δ) promise and how it was proven.

    `order` is the Rényi order that proved it; infinity is pure DP, None means that no order was needed.
    """

    epsilon: float
    log_delta: float
    method: str
    theorem: str
    order: float | None
    exact: bool

    @property
    def delta(self) -> float:
        return math.exp(self.log_delta)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One line of an explanation: a release, how often, and what bounds it."""

    mechanism: str
    count: int
    theorem: str
    exact: bool
    neighbors: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "count": self.count,
            "theorem": self.theorem,
            "exact": self.exact,
            "neighbors": self.neighbors,
        }


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """How a guarantee of a run came about; `str` is a short report, `to_dict` is JSON."""

    guarantee: Guarantee
    neighbors: Neighbors | None
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        g = self.guarantee
        lines = [f"epsilon = {g.epsilon:.10g} at delta = {delta_text(g.log_delta)}"]
        lines += [f"  proven by   {g.theorem}" + order_text(g.order)]
        lines += [f"  which is    {'exact' if g.exact else 'an upper bound'}"]
        lines += [f"  holds for   {relation_text(self.neighbors)}"]
        for part in self.parts:
            times = f"{part.count} x " if part.count != 1 else ""
            lines += [f"  release     {times}{part.mechanism}", f"              {part.theorem}"]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        g = self.guarantee
        return {
            "epsilon": g.epsilon,
            "delta": g.delta,
            "log_delta": g.log_delta,
            "method": g.method,
            "theorem": g.theorem,
            "order": g.order,
            "exact": g.exact,
            "neighbors": relation_text(self.neighbors),
            "parts": [part.to_dict() for part in self.parts],
        }


def relation_text(neighbors: Neighbors | None) -> str:
    """Return a relation in words."""
    return neighbors.value if neighbors else "the relation that the sensitivity is measured for"


def order_text(order: float | None) -> str:
    """Return ", at order α" where an order was used."""
    return "" if order is None else f", at order {order:.6g}"


def delta_text(log_delta: float) -> str:
    """Return δ in decimal, also where it underflows.

    >>> delta_text(math.log(1e-5)), delta_text(-1000.0)
    ('1e-05', '10^-434.294')
    """
    if log_delta == -math.inf or log_delta > -700:
        return f"{math.exp(log_delta):.6g}"
    return f"10^{log_delta / math.log(10):.6g}"
