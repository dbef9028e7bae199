"""A mechanism of which only an RDP curve is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from cumulant.curves.curve import Curve, curve_loss, projected
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.parameters import real, require

Table = tuple[tuple[float, float], ...]


@final
@dataclass(frozen=True, slots=True)
class RenyiCurve(AbstractMechanism):
    """Anything that is (α, ε(α))-RDP, from a table of (α, ε) or a function α ↦ ε.

    A table claims its own orders only; convexity of the CGF bounds all others up to the largest (Corollary 10),
    and order ∞, if given, those beyond. A table may bump or decrease: it is an upper bound, and the projection
    of Proposition 24 finds the best curve below it. A function claims every order (return inf where it does
    not); one whose samples are no CGF is replaced by the projection of its samples.

    >>> RenyiCurve([(2, 0.1), (4, 0.9), (8, 0.4)]).rdp(order=[2, 4, 8]).round(4).tolist()
    [0.1, 0.3333, 0.4]
    """

    theorem: ClassVar[str] = "a given RDP curve, projected (Wang et al. 2019, Proposition 24, Corollary 10)"

    curve: Table | Callable[[float], float]
    _curve: Curve = field(init=False, repr=False, compare=False)

    def __init__(self, curve: Iterable[tuple[float, float]] | Callable[[float], float]) -> None:
        if callable(curve):
            object.__setattr__(self, "curve", curve)
            object.__setattr__(self, "_curve", _function_loss(curve))
        else:
            table = _checked_points(curve)
            object.__setattr__(self, "curve", table)
            object.__setattr__(self, "_curve", _table_loss(table))

    def __reduce__(self) -> tuple[type[RenyiCurve], tuple[Any]]:
        """Pickle and copy the curve; what follows from it is computed again."""
        return RenyiCurve, (self.curve,)

    def _known(self) -> Known:
        return Known.by_curve(lambda: self._curve)

    def _plain(self) -> dict[str, Any]:
        if callable(self.curve):
            raise InvalidParameter("curve is a Python function and cannot be written as data; give a table")
        points = [["inf" if math.isinf(number) else number for number in row] for row in self.curve]
        return {"mechanism": "RenyiCurve", "curve": points}

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> RenyiCurve:
        points = content.pop("curve")
        rule = "a RenyiCurve has one field, a list of [order, epsilon]"
        require(not content and isinstance(points, list), rule, {"curve": points, **content})
        rows: list[Any] = [[math.inf if number == "inf" else number for number in row] for row in points]
        return cls(rows)


def _checked_points(curve: Iterable[tuple[float, float]]) -> Table:
    rule = "curve must be a function or a table of (order, epsilon) pairs"
    try:
        rows = [tuple(row) for row in curve]
    except TypeError:
        raise InvalidParameter(f"{rule}, got {curve!r}") from None
    require(len(rows) > 0, f"{rule} with at least one row", curve)
    require(all(len(row) == 2 for row in rows), rule, curve)
    return tuple(sorted((_checked_order(order), _checked_epsilon(order, value)) for order, value in rows))


def _checked_order(order: Any) -> float:
    rule = "orders of an RDP curve must be numbers > 1 (inf is pure DP)"
    number = real("curve:", order, rule)
    require(number > 1, rule, order)
    return number


def _checked_epsilon(order: Any, value: Any) -> float:
    rule = f"the RDP at order {order} must be a number >= 0"
    number = real("curve:", value, rule)
    require(number >= 0, rule, value)
    return number


def _table_loss(table: Table) -> Curve:
    """Proposition 24 over the finite rows; an infinite ε claims nothing."""
    pure = min((value for order, value in table if math.isinf(order)), default=math.inf)
    points = [(order - 1, (order - 1) * value) for order, value in table if order < math.inf and value < math.inf]
    require(bool(points) or pure < math.inf, "an RDP curve must have a finite value somewhere", table)
    return projected(points, pure=pure)


def _function_loss(function: Callable[[float], float]) -> Curve:
    """Check every value of a user's function."""

    def at(order: float) -> float:
        try:
            value = function(order)
        except Exception as error:
            raise InvalidParameter(
                f"the RDP curve raised {error!r} at order {order}; return math.inf where it is unknown"
            ) from error
        return _checked_epsilon(order, value)

    loss = curve_loss(at)
    require(loss.kl < math.inf, "an RDP curve must have a finite value somewhere", function)
    return loss
