"""The lines of a declaration: slots, a Gaussian reserve, a failure reserve, a Rényi reserve, and pure DP beyond them.

A line holds whole units, and a release takes whole units of it, rounded against the spender: sums of integers are the
same on every machine.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, final

from cumulant import parameters
from cumulant.composition import Composed
from cumulant.errors import InvalidParameter
from cumulant.ledger.charge import squared_mean
from cumulant.ledger.domination import dominates
from cumulant.ledger.pure import PureSum, pure_cost, stated
from cumulant.ledger.renyi_purse import RenyiPurse
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.data import from_dict
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.numerics.balls import as_ball, ball_of_fraction, lower_float, precision, upper_float
from cumulant.numerics.rounding import float_above
from cumulant.printed import given as as_given
from cumulant.printed import rounded_down
from cumulant.report.chart import described

UNITS = 2**60  # of a reserve: a charge is a whole number of 2^-60 of it
MOST_BEYOND = 10**36  # releases, more than can be recorded
SHOWN = 6  # digits of what is left
CHARGE_BITS = 128  # of balls in which a failure is charged
RDP_ROUNDED_UP = Fraction(1, 10**12)  # relative, more than doubles lose on the way to a Rényi divergence


class AbstractLine(ABC):
    """Something that a declaration sets aside, from a stage on."""

    __slots__ = ()

    kind: ClassVar[str]
    stage: int

    @property
    @abstractmethod
    def what(self) -> str:
        """What the line is, in words."""

    @property
    def units(self) -> int:
        """How many units there are at the opening."""
        return UNITS

    def share(self, left: Fraction) -> float:
        """Return the share of the line that is left, rounded down, of what is left of it."""
        return _share(left, Fraction(self.units))

    @abstractmethod
    def cost(self, release: AbstractMechanism) -> int | None:
        """Return the units that one release takes; None if it may not use this line."""

    @abstractmethod
    def priced(self) -> tuple[AbstractMechanism, int]:
        """Return the mechanism, with its count, that dominates whatever uses the line."""

    @abstractmethod
    def show(self, units: int) -> str:
        """Return in words how many units are left, rounded down."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": self.kind, **{field.name: _as_data(getattr(self, field.name)) for field in fields(self)}}  # type: ignore[arg-type]  # lines are dataclasses


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Slot(AbstractLine):
    """A number of releases of a mechanism, or of anything that it dominates."""

    kind: ClassVar[str] = "slot"

    stage: int
    mechanism: AbstractMechanism
    count: int

    @property
    def what(self) -> str:
        return f"slots of {described(self.mechanism)}"

    @property
    def units(self) -> int:
        return self.count

    def cost(self, release: AbstractMechanism) -> int | None:
        return 1 if dominates(self.mechanism, release) else None

    def priced(self) -> tuple[AbstractMechanism, int]:
        return self.mechanism, self.count

    def show(self, units: int) -> str:
        return f"{units} of {self.count} {self.what} ({_percent(units, self.count)} %)"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianReserve(AbstractLine):
    """Squared means of Gaussian pairs, up to b = 1/σ² in all: Gaussian releases and what Gaussian pairs dominate."""

    kind: ClassVar[str] = "reserve"
    what: ClassVar[str] = "the Gaussian reserve"

    stage: int
    noise_multiplier: float

    def cost(self, release: AbstractMechanism) -> int | None:
        mixed = release._known().failure() > 0 and not isinstance(release, ApproximateDP)  # its failure stands apart
        charge = None if mixed else squared_mean(release)
        return None if charge is None else whole_units(charge * Fraction(self.noise_multiplier) ** 2)

    def priced(self) -> tuple[AbstractMechanism, int]:
        return Gaussian(noise_multiplier=self.noise_multiplier), 1

    def squared_mean_of(self, units: int) -> Fraction:
        """Return b of a number of units."""
        return Fraction(units, UNITS) / Fraction(self.noise_multiplier) ** 2

    def show(self, units: int) -> str:
        return _left_text(self.squared_mean_of(units), self.squared_mean_of(UNITS), self.what)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FailureReserve(AbstractLine):
    """Failures of (ε₀, δ₀)-DP releases: Σ -log(1-δ₀) <= -log(1-δ), charged beside what their ε₀ takes."""

    kind: ClassVar[str] = "failure"
    what: ClassVar[str] = "the failure probability"

    stage: int
    delta: float

    def cost(self, release: AbstractMechanism) -> int | None:
        """Failures are a semigroup: P fails with 1-e^-s and Q as much elsewhere, and two of them are one of s + s'."""
        if not isinstance(release, ApproximateDP) or release.failure >= 1:
            return None
        with precision(CHARGE_BITS):
            share = (-as_ball(release.failure)).log1p() / (-as_ball(self.delta)).log1p()
            return whole_units(Fraction(upper_float(share)))

    def priced(self) -> tuple[AbstractMechanism, int]:
        return ApproximateDP(epsilon=0.0, delta=self.delta), 1

    def show(self, units: int) -> str:
        whole = Fraction(self.delta)
        with precision(CHARGE_BITS):
            left = -((-as_ball(self.delta)).log1p() * ball_of_fraction(Fraction(units, UNITS))).expm1()
            part = whole if units == UNITS else Fraction(max(lower_float(left), 0.0))
        return _left_text(part, whole, self.what, given=self.delta)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RenyiReserve(AbstractLine):
    """Rényi divergences of one order, fixed at the opening, up to a budget in all; order ∞ is pure DP."""

    kind: ClassVar[str] = "renyi"

    stage: int
    order: float
    budget: float

    @property
    def what(self) -> str:
        return "the pure DP" if math.isinf(self.order) else f"the Rényi DP of order {as_given(self.order)}"

    def cost(self, release: AbstractMechanism) -> int | None:
        if release._known().failure() > 0:
            return None
        charge = float(release.rdp(order=self.order))
        if not charge < math.inf:
            return None
        up = 1 if math.isinf(self.order) else 1 + RDP_ROUNDED_UP  # ε of pure DP is rounded up where it is computed
        return whole_units(Fraction(charge) * up / Fraction(self.budget))

    def priced(self) -> tuple[AbstractMechanism, int]:
        return RenyiPurse(order=self.order, budget=self.budget), 1

    def show(self, units: int) -> str:
        whole = Fraction(self.budget)
        return _left_text(whole * Fraction(units, UNITS), whole, self.what, given=self.budget)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PureBeyond(AbstractLine):
    """Pure DP beyond the other lines, as long as all that was released is pure and adds up to at most ε: `pure`.

    Its units count releases that the other lines did not pay for. It is no part of the product.
    """

    kind: ClassVar[str] = "pure"
    what: ClassVar[str] = "epsilon for pure DP"

    stage: int
    epsilon: float

    @property
    def units(self) -> int:
        return MOST_BEYOND

    def cost(self, release: AbstractMechanism) -> int | None:
        return None if pure_cost(release) is None else 1

    def priced(self) -> tuple[AbstractMechanism, int]:
        return Composed(()), 1

    def admits(self, released: PureSum) -> bool:
        """Return whether a sum of pure costs may be released in all; five of 1/5 are 1."""
        return released.is_within(stated(self.epsilon))

    def left(self, released: PureSum) -> Fraction:
        """Return the ε that is left beside some releases, 0 where one of them is not pure."""
        total, budget = released.total(), stated(self.epsilon)
        return Fraction(0) if total is None else max(budget - total, Fraction(0))

    def share(self, left: Fraction) -> float:
        return _share(left, stated(self.epsilon))

    def show(self, units: int) -> str:
        return f"{units} releases of pure DP beyond the lines"

    def show_left(self, left: Fraction) -> str:
        """Return the ε that is left in words."""
        return _left_text(left, stated(self.epsilon), self.what, given=self.epsilon)


def _as_data(value: Any) -> Any:
    """Return what a field of a line is in JSON, which has no infinity."""
    if isinstance(value, AbstractMechanism):
        return value.to_dict()
    return "inf" if value == math.inf else value


def _left_text(part: Fraction, whole: Fraction, what: str, *, given: float | None = None) -> str:
    """Return what is left of something, rounded down; all of it as it was given."""
    of = _down(whole) if given is None else as_given(given)
    return f"{_percent(part, whole)} % of {what} ({of if part == whole else _down(part)} of {of})"


def _percent(part: Fraction | int, whole: Fraction | int) -> str:
    return _down(100 * Fraction(part) / whole, digits=3) if whole else "0"


def _share(part: Fraction, whole: Fraction) -> float:
    """Return a share, rounded down; of nothing, nothing."""
    return -float_above(-part / whole) if whole else 0.0


def _down(amount: Fraction, *, digits: int = SHOWN) -> str:
    """Return an amount in decimal, never above it: 1/10 is 0.1, though the double of that name is above it."""
    nearest = float(amount)
    fits = Fraction(Decimal(repr(nearest))) <= amount
    return rounded_down(nearest if fits else math.nextafter(nearest, 0.0), digits=digits)


Lines = tuple[AbstractLine, ...]


def whole_units(share: Fraction) -> int:
    """Return a share of a reserve in units, rounded up; nothing is for nothing, so that counts stay finite."""
    return max(1, math.ceil(UNITS * share))


def needs_failure(release: AbstractMechanism) -> bool:
    """Return whether a release is charged to a failure reserve beside another one."""
    return isinstance(release, ApproximateDP) and release.failure > 0


def slots_of(plan: AbstractMechanism | None, *, stage: int) -> Lines:
    """Return a plan as slots."""
    releases = Composed(()).releases() if plan is None else plan.releases()
    return tuple(Slot(stage=stage, mechanism=release, count=parameters.count(n)) for release, n in releases)


def composed_of(lines: Lines) -> Composed:
    """Return what dominates all that uses some lines, as one mechanism."""
    return Composed.of(line.priced() for line in lines)


LINES_BY_KIND: Mapping[str, type[AbstractLine]] = {
    line.kind: line for line in (Slot, GaussianReserve, FailureReserve, RenyiReserve, PureBeyond)
}
READERS: Mapping[str, Callable[[Any], Any]] = {"mechanism": from_dict, "order": float}
"""How fields are read that are written as something else."""


def line_from_dict(data: dict[str, Any]) -> AbstractLine:
    """Return the line that `to_dict` described."""
    if data["kind"] not in LINES_BY_KIND:
        raise InvalidParameter(f"a line must be a slot, reserve, failure, renyi or pure, got {data['kind']!r}")
    given = {name: READERS.get(name, lambda as_it_is: as_it_is)(value) for name, value in data.items() if name != "kind"}
    return LINES_BY_KIND[data["kind"]](**given)
