"""Gaussian noise inside a mixture, where one record moves the mean twice as far as the other one, and the other way.

With u = log dN(μ)/dN(0) at t, that of N(μ/2) is u/2 + μ²/8: the coordinate of the farther one serves both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from cumulant.numerics.balls import as_ball, is_ball, reciprocal_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.law import Law
from cumulant.pairs.maps import CoordinateMap, Factor, Factors, Join, Leave

if TYPE_CHECKING:
    from flint import arb
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class _Half(Factor):
    """w = 1 - γ + γe^v, v that of N(μ/2), as a function of u of N(μ): half as steep, and turned half as far."""

    rate: Any
    mean: Any
    noise: float | None = None  # σ, where μ is 1/σ rounded up

    def in_balls(self) -> Self:
        return type(self)(as_ball(self.rate), reciprocal_ball(self.mean, self.noise))

    def _nearer(self, u: Any) -> Any:
        """Return v."""
        return u / 2 + self.mean * self.mean / 8

    def value(self, u: Any) -> Any:
        return Factor.value(self, self._nearer(u))

    def log_share(self, u: Any) -> Array:
        share = Factor.log_share(self, self._nearer(u))
        return share - (as_ball(2.0).log() if is_ball(u) else math.log(2.0))

    def largest_spread(self, u: Array) -> Array:
        return Factor.largest_spread(self, self._nearer(u)) / 4

    def bound_on_rectangle(self, low: arb, high: arb, angle: arb) -> tuple[arb, arb, arb]:
        return Factor.bound_on_rectangle(self, self._nearer(low), self._nearer(high), angle / 2)


@final
@dataclass(frozen=True, slots=True)
class HalfLeave(_Half):
    """(M, Q) of the nearer one."""

    sign: ClassVar[int] = 1


@final
@dataclass(frozen=True, slots=True)
class HalfJoin(_Half):
    """(Q, M) of the nearer one."""

    sign: ClassVar[int] = -1


@dataclass(frozen=True, slots=True)
class _Opposed(CoordinateMap):
    rate: Any
    mean: Any  # μ, that of the law
    noise: float | None = None  # σ, where μ is 1/σ rounded up

    def in_balls(self) -> Self:
        return type(self)(as_ball(self.rate), reciprocal_ball(self.mean, self.noise))

    def supremum(self, law: Law) -> float:
        return math.inf


@final
@dataclass(frozen=True, slots=True)
class FarAgainstNear(_Opposed):
    """N(μ) against N(-μ/2), each mixed with N(0) at rate γ: loss m(u(t)) - m(v(-t))."""

    @property
    def parts(self) -> tuple[tuple[bool, Factors], ...]:
        return ((False, ((1, Leave(self.rate)), (-1, HalfJoin(self.rate, self.mean, self.noise)))),)


@final
@dataclass(frozen=True, slots=True)
class NearAgainstFar(_Opposed):
    """N(μ/2) against N(-μ), each mixed with N(0) at rate γ: loss m(v(t)) - m(u(-t))."""

    @property
    def parts(self) -> tuple[tuple[bool, Factors], ...]:
        return ((False, ((1, HalfLeave(self.rate, self.mean, self.noise)), (-1, Join(self.rate)))),)
