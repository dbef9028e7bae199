"""What sampling makes of a dominating pair, as functions of u = log dP/dQ alone.

Let (P, Q) dominate a mechanism with a record against the same without it, so that (Q, P) dominates the other direction.
Poisson sampling at rate γ is then dominated by (M, Q), M = (1-γ)Q + γP, when the record leaves and by (Q, M) when it
joins (Zhu, Dong and Wang 2022, Theorem 11, with (Q, P) in the second case). Neither is always the worse, so both are
kept. If (P, Q) dominates all neighbours under replace-one, sampling without replacement is dominated by the
envelope of (M, Q), for t >= 1, and (P, (1-γ)P + γQ), for t < 1 (Proposition 30).

All of them are made of w = dM/dQ = 1 - γ + γe^u and m(u) = log w:

- Slopes. m' = s = γe^u/w, the share of P in M: 0 <= s <= 1, and s grows with u. m'' = -(log m')'' = s(1-s) <= 1/4.
- Phases. At u + iv, w = w(u)(1 - s + se^{iv}), so |w|² = w(u)²(1 - 2s(1-s)(1 - cos v)) >= w(u)² cos²(v/2) for
  |v| <= π. |arg w| <= |v|; where s < ½, |arg w| <= arcsin(s/(1-s)), so also at most s/(1-s)·min(|v|, π/2).
- Strips. w vanishes first at |v| = π, so m is analytic for |v| < π.
- Excess. w - 1 = γ(e^u - 1), so E_Q(w - 1)² = γ² E_Q(e^u - 1)².

At γ = 1 the map is the identity. A rate may be a column: several maps, whose values at nodes are rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from cumulant.numerics.balls import as_ball, column, is_ball, log_mixture_balls
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import float_above
from cumulant.pairs.atoms import BallColumns, Columns
from cumulant.pairs.law import Law

if TYPE_CHECKING:
    from flint import arb
    from typing_extensions import Self

HALF_WAY_NATS = 600.0  # e^600 times the smallest double is one still
ABOVE = 1 + 2.0**-50  # a largest loss, rounded up

Factors = tuple[tuple[int, "Factor"], ...]
"""(side, w) of each factor w(side·t) that loss and density are made of in a coordinate t, those that move first.

Side 0 stands for w at the least u, a constant.
"""


class AtRate(ABC):
    """What depends on a rate."""

    __slots__ = ()

    rate: Any

    @property
    def largest_rate(self) -> Any:
        """Of several maps, or the rate itself."""
        return float(np.max(self.rate)) if isinstance(self.rate, np.ndarray) else self.rate


class CoordinateMap(AtRate):
    """A map on laws that have a coordinate."""

    __slots__ = ()

    @property
    @abstractmethod
    def parts(self) -> tuple[tuple[bool, Factors], ...]:
        """(whether only u > 0 counts, factors) of each stretch that the sampled pair is made of."""

    @abstractmethod
    def supremum(self, law: Law) -> float:
        """Return the largest loss, rounded up; without sampling it is a parameter of the law."""

    def atoms(self, law: Law) -> Iterator[tuple[Any, Any]]:
        """Return (L, log-mass under P) of what it makes of the atoms of a law."""
        for above, ((_, sampling), *_) in self.parts:
            for u, log_mass in law.atoms:
                if u > 0 or not above:
                    value = sampling.value_of(u)
                    yield sampling.sign * value, log_mass + value if sampling.sign > 0 else log_mass

    def in_balls(self) -> Self:
        """Return the map whose rate is a ball: its formulas serve both arithmetics."""
        return type(self)(as_ball(self.rate))  # type: ignore[call-arg]

    def even_atoms(self, law: Law) -> tuple[tuple[Any, Any], ...]:
        """Return (0, log-mass) if the map puts mass where the loss is 0."""
        return ()


class SamplingMap(CoordinateMap):
    """A map that is defined by u alone, so on finitely many outputs as well; 0 < γ < 1 there."""

    __slots__ = ()

    @abstractmethod
    def columns(self, base: Columns) -> Columns:
        """Return what it makes of a pair on finitely many outputs."""

    @abstractmethod
    def balls(self, base: BallColumns) -> BallColumns:
        """Return as balls what it makes of a pair on finitely many outputs."""


class Factor(AtRate):
    """One w that loss and density are made of: the loss has m or -m, and P e^{zL} a power of w."""

    __slots__ = ()

    sign: ClassVar[int]
    """1 for (M, Q), of loss m(u) and density w against Q; -1 for (Q, M), of loss -m(u) and density 1."""

    @abstractmethod
    def in_balls(self) -> Factor:
        """Return the factor whose parameters are balls."""

    def power(self, theta: Any) -> Any:
        """Return Re a, where P e^{zL} = Q w^a and Re z = θ; the imaginary part of a is ±Im z."""
        return theta + 1 if self.sign > 0 else -theta

    def value(self, u: Any) -> Any:
        """Return m(u)."""
        return log_mixture(u, self.rate)

    def value_of(self, u: Any) -> Any:
        """Return m(u) of one number."""
        value = self.value(np.asarray(u))
        return value if is_ball(value) else float(value)

    def log_excess(self, log_square: Any, theta: float) -> float:
        """Return about log(M(θ) - 1), at most 0, from log E_Q(e^u - 1)²: what errors are to be small against.

        Where losses are small its largest term is E(w - 1)² θ(θ+1)/2. Of several maps it is the least.
        """
        log_spread = float(np.min(2 * np.log(self.rate) + log_square))
        return min(0.0, log_spread + math.log(theta) + math.log1p(theta) - math.log(2.0))

    def log_share(self, u: Any) -> Array:
        """Return log s, which is log m'(u)."""
        return np.log(self._share(u)) if is_ball(u) else np.asarray(-np.logaddexp(0.0, log_odds(self.rate) - u))

    def _share(self, u: Any) -> Any:
        """Return s, in balls."""
        return self.rate / (self.rate + (1 - self.rate) * np.exp(-u))

    def largest_spread(self, u: Array) -> Array:
        """Return the largest s(1-s) between the first and the last u of each row: s grows, s(1-s) with s up to ½."""
        odds = np.asarray(log_odds(self.rate) - u)  # log (1-s)/s
        first, last = odds[..., :1], odds[..., -1:]
        nearest = np.where(last > 0, last, np.where(first < 0, first, 0.0))
        return np.asarray(np.exp(-np.logaddexp(0.0, nearest) - np.logaddexp(0.0, -nearest)))

    def bound_on_rectangle(self, low: arb, high: arb, angle: arb) -> tuple[arb, arb, arb]:
        """Return bounds in balls of log|w| from both sides, and of |arg w|: low <= u <= high, turned by angle < π."""
        # see Phases above; w and s grow with u
        (first, last), (least, most) = ((of(low), of(high)) for of in (self._share, self.value))
        spread = last * (1 - last) if last < 0.5 else first * (1 - first) if first > 0.5 else as_ball(0.25)
        shrunk = (1 - 2 * spread * (1 - angle.cos())).log() / 2
        turned = last / (1 - last) * angle if last < 0.5 else angle
        return least + shrunk, most, turned.min(angle)


class MixtureMap(SamplingMap, Factor):
    """M and Q in one direction, of which w is the only factor."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[tuple[bool, Factors], ...]:
        return ((False, ((1, self),)),)

    def _value_above(self, u: float) -> float:
        """Return m(u), a largest loss or its negative, rounded away from 0."""
        if self.rate == 1 or u == math.inf:
            return u
        return (math.log1p(-self.rate) if u == -math.inf else float(self.value_of(u))) * ABOVE

    def _ball_masses(self, base: BallColumns) -> tuple[list[arb], list[arb]]:
        """Return m(u) and Q of every output; what P lacks has w = 1 - γ and comes last."""
        m = self.in_balls().value
        values = [*(m(u) for u in base.losses), (1 - as_ball(self.rate)).log()]
        q = [*(mass * (-u).exp() for u, mass in zip(base.losses, base.masses, strict=True)), base.absent]
        return values, q


@final
@dataclass(frozen=True, slots=True)
class Leave(MixtureMap):
    """(M, Q): the record is in the first dataset."""

    sign: ClassVar[int] = 1
    rate: Any

    def supremum(self, law: Law) -> float:
        return self._value_above(law.extremes[1])

    def columns(self, base: Columns) -> Columns:
        """What P lacks has w = 1 - γ."""
        least, log_absent = math.log1p(-self.rate), _log(base.absent)
        return Columns(
            np.append(self.value(base.losses), least),
            np.append(log_mixture_masses(base, self.rate), log_absent + least),
            np.append(base.log_q, log_absent),
            _product_up(self.rate, base.failure),
            0.0,
        )

    def balls(self, base: BallColumns) -> BallColumns:
        values, q = self._ball_masses(base)
        masses = [mass * x.exp() for mass, x in zip(q, values, strict=True)]
        return BallColumns(values, masses, as_ball(self.rate) * base.failure, as_ball(0.0))


@final
@dataclass(frozen=True, slots=True)
class Join(MixtureMap):
    """(Q, M): the record is in the second dataset."""

    sign: ClassVar[int] = -1
    rate: Any

    def supremum(self, law: Law) -> float:
        return -self._value_above(law.extremes[0])

    def columns(self, base: Columns) -> Columns:
        return Leave(self.rate).columns(base).reverse()

    def balls(self, base: BallColumns) -> BallColumns:
        values, q = self._ball_masses(base)
        return BallColumns([-x for x in values], q, as_ball(0.0), as_ball(self.rate) * base.failure)


@final
@dataclass(frozen=True, slots=True)
class Envelope(SamplingMap):
    """(M, Q) where P is the larger, (P, (1-γ)P + γQ) where Q is, and an atom at 0 of mass P(p = q) + (1-γ)·TV(P, Q).

    A law with a coordinate must be symmetric: the outputs with u < 0 are then those of (Q, P) with u > 0.
    """

    rate: Any

    @property
    def parts(self) -> tuple[tuple[bool, Factors], ...]:
        return (True, ((1, Join(self.rate)),)), (True, ((1, Leave(self.rate)),))

    def supremum(self, law: Law) -> float:
        return Leave(self.rate).supremum(law)

    def even_atoms(self, law: Law) -> tuple[tuple[Any, Any], ...]:
        return ((0 * self.rate, np.log1p(-self.rate) + law.log_variation),)

    def columns(self, base: Columns) -> Columns:
        leave, reverse, g = Leave(self.rate), base.reverse(), self.rate
        above, below, p = base.losses > 0, base.losses < 0, np.exp(base.log_masses)
        variation = float(np.sum(p[above] * -np.expm1(-base.losses[above]))) + base.failure
        rest = [_log(float(np.sum(p[base.losses == 0])) + (1 - g) * variation)]
        leaving, joining = log_mixture_masses(base, g)[above], log_mixture_masses(reverse, g)[below]
        return Columns(
            np.concatenate([leave.value(base.losses[above]), -leave.value(reverse.losses[below]), [0.0]]),
            np.concatenate([leaving, reverse.log_q[below], rest]),
            np.concatenate([base.log_q[above], joining, rest]),
            _product_up(g, base.failure),
            g * base.absent,
        )

    def balls(self, base: BallColumns) -> BallColumns:
        g = as_ball(self.rate)
        m = Leave(g).value
        losses, masses, rest = [], [], (1 - g) * base.failure
        for u, mass in zip(base.losses, base.masses, strict=True):
            if u > 0:
                losses.append(m(u))
                masses.append(mass * (m(u) - u).exp())
                rest = rest + (1 - g) * mass * -(-u).expm1()
            elif u < 0:
                losses.append(-m(-u))
                masses.append(mass)
            elif u.is_zero():
                rest = rest + mass
            else:  # 0, or so near that a ball does not tell: what either formula gives
                losses.append(m(u).union(-m(-u)))
                masses.append(mass.union(mass * (m(u) - u).exp()))
                rest = rest + as_ball(0.0).union((1 - g) * mass * -(-u).expm1())
        return BallColumns([*losses, as_ball(0.0)], [*masses, rest], g * base.failure, g * base.absent)


@final
@dataclass(frozen=True, slots=True)
class Replace(CoordinateMap):
    """M against its mirror image, where t -> -t turns P into what another record contributes: loss m(u(t)) - m(u(-t)).

    Poisson sampling of Gaussian noise under replace-one: N(μ) against N(-μ) inside the mixture with N(0).
    """

    rate: Any

    @property
    def parts(self) -> tuple[tuple[bool, Factors], ...]:
        return ((False, ((1, Leave(self.rate)), (-1, Join(self.rate)))),)

    def supremum(self, law: Law) -> float:
        return math.inf


@final
@dataclass(frozen=True, slots=True)
class Antithetic(CoordinateMap):
    """M with one record against M with another, of a law with ends: loss m(u(U)) - m(u(1-U)), U uniform.

    Laplace noise on a number: of 1, 0 and -1 the likelihood ratios against 0 rise and fall, one of them being e^-θ
    wherever the other one moves, and both extreme beyond [-1, 1]. So each half has the density of u on (-θ, θ) once.
    """

    rate: Any

    @property
    def parts(self) -> tuple[tuple[bool, Factors], ...]:
        leave, join = Leave(self.rate), Join(self.rate)
        return (False, ((1, leave), (0, join))), (False, ((1, join), (0, leave)))

    def supremum(self, law: Law) -> float:
        least, most = map(Leave(self.rate).value_of, law.extremes)
        return float((most - least) * ABOVE)

    def atoms(self, law: Law) -> Iterator[tuple[Any, Any]]:
        """Return those beyond [-1, 1]: half of what lies below -θ belongs to what the other record moves."""
        (least, _), (most, log_mass) = law.atoms
        low, high = map(Leave(self.rate).value_of, (least, most))
        yield from ((low - high, log_mass + low), (high - low, log_mass + high))


def stack_maps(maps: Sequence[CoordinateMap]) -> CoordinateMap:
    """Return maps of one kind as one, whose rate is a column."""
    return type(maps[0])(np.array([one.rate for one in maps])[:, None])  # type: ignore[call-arg]


def log_odds(rate: Any) -> Any:
    """Return log (1-γ)/γ."""
    with np.errstate(divide="ignore"):
        return np.log1p(-rate) - np.log(rate)


def log_mixture(u: Any, rate: Any) -> Any:
    """Return log(1 - γ + γe^u), to full relative accuracy; γ may be a column of doubles.

    γ(e^u - 1) is formed as a product as far as doubles reach: log γ + u would lose what is small beside u.
    """
    if not isinstance(rate, np.ndarray) and rate == 1:
        return u
    if is_ball(u):
        return column(log_mixture_balls(u, rate)) if np.ndim(u) else log_mixture_balls([np.asarray(u)[()]], rate)[0]
    excess = rate * np.expm1(np.minimum(u, HALF_WAY_NATS))
    if np.any(u > HALF_WAY_NATS):
        with np.errstate(over="ignore"):
            excess = excess * np.exp(np.maximum(u - HALF_WAY_NATS, 0.0))
    near = (excess > -0.5) & np.isfinite(excess)
    if np.all(near):
        return np.asarray(np.log1p(excess))
    with np.errstate(divide="ignore"):
        apart = np.logaddexp(np.log1p(-rate), np.log(rate) + u)  # 1 + excess has lost the digits of 1 - γ, or overflows
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), apart)


def log_mixture_masses(base: Columns, rate: float) -> Array:
    """Return log(γp + (1-γ)q), from the larger of p and q: a difference of large logarithms would lose digits."""
    log_p, log_q, u = base.log_masses, base.log_q, base.losses
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    return np.where(u > 0, log_p + np.logaddexp(log_rate, log_rest - u), log_q + np.logaddexp(log_rest, log_rate + u))


def _product_up(a: float, b: float) -> float:
    return float_above(Fraction(a) * Fraction(b))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
