"""A mechanism of which only an RDP curve is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from cumulant.curves.curve import Curve, curve_loss, projected
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.parameters import by_name, real, require

Table = tuple[tuple[float, float], ...]


@final
@dataclass(frozen=True, slots=True)
class RenyiCurve(AbstractMechanism):
    """Anything that is (α, ε(α))-RDP, from a table of (α, ε) or a function α ↦ ε.

    A table claims its own orders only; convexity of the CGF bounds all others up to the largest (Corollary 10),
    and order ∞, if given, those beyond. A table may bump or decrease: it is an upper bound, and the projection
    of Proposition 24 finds the best curve below it. A function claims every order (return inf where it does
    not); one whose samples are no CGF is replaced by the projection of its samples.

    `self_consistent` declares that one pair of neighbours attains the curve and the |χ|^α-divergence at every whole
    order (Wang et al. 2019, Definition 18), as noise on a number does: its values are those divergences to 13 digits,
    not bounds of them, and a table has every whole order from 2 to its last. Then Theorem 19 applies (`theorem19_of`),
    and samples have lower bounds of their RDP. Nothing can check the declaration, so no upper bound of an answer rests
    on it: what is proven without it is as small, see `best_black_box`.

    >>> RenyiCurve([(2, 0.1), (4, 0.9), (8, 0.4)]).rdp(order=[2, 4, 8]).round(4).tolist()
    [0.1, 0.3333, 0.4]
    """

    theorem: ClassVar[str] = "a given RDP curve, projected (Wang et al. 2019, Proposition 24, Corollary 10)"

    curve: Table | Callable[[float], float]
    self_consistent: bool = False
    _curve: Curve = field(init=False, repr=False, compare=False)

    @by_name
    def __init__(
        self, curve: Iterable[tuple[float, float]] | Callable[[float], float], *, self_consistent: bool = False
    ) -> None:
        require(isinstance(self_consistent, bool), "self_consistent must be True or False", self_consistent)
        object.__setattr__(self, "self_consistent", self_consistent)
        if callable(curve):
            object.__setattr__(self, "curve", curve)
            object.__setattr__(self, "_curve", _function_loss(curve))
        else:
            table = _checked_points(curve)
            object.__setattr__(self, "curve", table)
            object.__setattr__(self, "_curve", _table_loss(table))
        if self_consistent:
            _check_attainable(self.curve, self._curve)

    def __repr__(self) -> str:
        declared = ", self_consistent=True" if self.self_consistent else ""
        return f"RenyiCurve(curve={self.curve!r}{declared})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the curve; what follows from it is computed again."""
        return partial(RenyiCurve, self_consistent=self.self_consistent), (self.curve,)

    def _known(self) -> Known:
        return replace(Known.by_curve(lambda: self._curve), self_consistent=self.self_consistent)

    def _plain(self) -> dict[str, Any]:
        if callable(self.curve):
            raise InvalidParameter("curve is a Python function and cannot be written as data; give a table")
        points = [["inf" if math.isinf(number) else number for number in row] for row in self.curve]
        declared = {"self_consistent": True} if self.self_consistent else {}
        return {"mechanism": "RenyiCurve", "curve": points, **declared}

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> RenyiCurve:
        points = content.pop("curve")
        declared = content.pop("self_consistent", False)
        rule = "a RenyiCurve has a list of [order, epsilon], and may have self_consistent"
        require(not content and isinstance(points, list), rule, {"curve": points, **content})
        rows: list[Any] = [[math.inf if number == "inf" else number for number in row] for row in points]
        return cls(rows, self_consistent=declared)


def _check_attainable(curve: Table | Callable[[float], float], loss: Curve) -> None:
    """Refuse to believe that a curve is attained which has gaps, or is no CGF."""
    convex = "a self-consistent curve must be a CGF, (order - 1) * epsilon convex in the order"
    if callable(curve):
        require(not loss.knots, convex, curve)
        return
    rows = [(order, value) for order, value in curve if order < math.inf]
    whole = {order for order, _ in rows if order.is_integer()}
    complete = bool(whole) and whole.issuperset(range(2, int(max(whole)) + 1)) and max(whole) == rows[-1][0]
    require(complete, "a self-consistent table must have every whole order from 2 to its last", curve)
    values = loss(np.array([order - 1 for order, _ in rows]))
    attained = all(
        k >= (order - 1) * value * (1 - 1e-12) for (order, value), k in zip(rows, values.tolist(), strict=True)
    )
    require(attained, convex, curve)


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
