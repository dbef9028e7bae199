"""Pairs of distributions on finitely many outputs, and what sampling makes of them: once in doubles, once in balls.

A law of atoms is a list of outputs, each with a finite loss L = log p/q and its probability p under P. What has q = 0
is `failure`, what has p = 0 is `absent`. Every class says both things of itself: `columns`, in doubles whose losses and
log-masses are right to a few units in the last place, and `balls`, which enclose the same numbers from the parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.loss.mixture_ratio import log_mixture
from cumulant.numerics.balls import as_ball, ball_of_fraction, log_mixture_ball
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import float_above

if TYPE_CHECKING:
    from flint import arb

MOST_SYMMETRISED = 5000  # outputs of a pair whose two orders are made one, in exact fractions
LOSS_BITS = 256  # of the probabilities under Q that a table of losses implies
LOSS_ERROR = 2.0**-200  # relative error of those, and more
NEXT = 1 + Fraction(1, 2**48)  # ratios this close are made one


@final
@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Losses and the logarithms of their masses under P; P adds up to 1 with `failure`, Q with `absent`."""

    losses: Array
    log_masses: Array
    failure: float
    absent: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class BallColumns:
    """The same as balls: losses and masses."""

    losses: list[arb]
    masses: list[arb]
    failure: arb
    absent: arb


class Atoms(ABC):
    """A pair (P, Q) on finitely many outputs; hashable, so that what follows from it can be kept."""

    __slots__ = ()

    @abstractmethod
    def columns(self) -> Columns: ...

    @abstractmethod
    def balls(self) -> BallColumns:
        """Return enclosures, at the precision of the moment."""

    @property
    def symmetric(self) -> bool:
        """Whether an exchange of outputs turns (P, Q) into (Q, P)."""
        return False

    def fractions(self) -> tuple[list[Fraction], list[Fraction]]:
        """Return P and Q as fractions that add up to 1."""
        raise OutOfReach(f"{type(self).__name__} has no table of fractions")


# What is given --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Binary(Atoms):
    """Everything is revealed with probability δ; otherwise randomized response with losses ±ε."""

    epsilon: float
    failure: float = 0.0

    def columns(self) -> Columns:
        if self.failure == 1:
            return Columns(np.empty(0), np.empty(0), 1.0, 1.0)
        likely = math.log1p(-self.failure) - math.log1p(math.exp(-self.epsilon))
        losses = np.array([-self.epsilon, self.epsilon])
        return Columns(losses, np.array([likely - self.epsilon, likely]), self.failure, self.failure)

    def balls(self) -> BallColumns:
        epsilon, failure = as_ball(self.epsilon), as_ball(self.failure)
        likely = (1 - failure) / (1 + (-epsilon).exp())
        return BallColumns([-epsilon, epsilon], [likely * (-epsilon).exp(), likely], failure, failure)

    @property
    def symmetric(self) -> bool:
        return True


@final
@dataclass(frozen=True, slots=True)
class TruthfulAnswer(Atoms):
    """A bit told truthfully with probability p; ε is |log p/(1-p)|, rounded up."""

    p: float
    epsilon: float

    def columns(self) -> Columns:
        return Binary(self.epsilon).columns()

    def balls(self) -> BallColumns:
        p = as_ball(self.p)
        common, rare = (p, 1 - p) if self.p >= 0.5 else (1 - p, p)
        loss = (common / rare).log()
        return BallColumns([-loss, loss], [rare, common], as_ball(0.0), as_ball(0.0))

    @property
    def symmetric(self) -> bool:
        return True


@final
@dataclass(frozen=True, slots=True)
class Table(Atoms):
    """Two tables of probabilities, output by output; what their sums lack of 1 by rounding is made up by scaling."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    def columns(self) -> Columns:
        p, q = np.array(self.p), np.array(self.q)
        total_p, total_q = math.fsum(self.p), math.fsum(self.q)
        # log of the quotient of the sums, whose difference is formed without rounding
        scale = math.log1p(math.fsum([*self.q, *(-x for x in self.p)]) / total_p)
        both = (p > 0) & (q > 0)
        losses = log_quotients(p[both], q[both]) + scale
        failure, absent = float(np.sum(p[q == 0])) / total_p, float(np.sum(q[p == 0])) / total_q
        return Columns(losses, np.log(p[both]) - math.log(total_p), min(failure, 1.0), min(absent, 1.0))

    def balls(self) -> BallColumns:
        p, q = self.p, self.q
        total_p, total_q = (ball_of_fraction(sum(map(Fraction, column))) for column in (p, q))
        both = [(as_ball(a) / total_p, as_ball(b) / total_q) for a, b in zip(p, q, strict=True) if a > 0 and b > 0]
        failure = ball_of_fraction(sum((Fraction(a) for a, b in zip(p, q, strict=True) if b == 0), Fraction(0)))
        absent = ball_of_fraction(sum((Fraction(b) for a, b in zip(p, q, strict=True) if a == 0), Fraction(0)))
        losses = [(a / b).log() for a, b in both]
        return BallColumns(losses, [a for a, _ in both], failure / total_p, absent / total_q)

    @property
    def symmetric(self) -> bool:
        return sorted(zip(self.p, self.q, strict=True)) == sorted(zip(self.q, self.p, strict=True))

    def fractions(self) -> tuple[list[Fraction], list[Fraction]]:
        p, q = ([Fraction(x) for x in column] for column in (self.p, self.q))
        total_p, total_q = sum(p), sum(q)
        return [x / total_p for x in p], [x / total_q for x in q]


@final
@dataclass(frozen=True, slots=True)
class LossTable(Atoms):
    """Finite losses with their probabilities under P, and `missing`, what Q has beyond them; the rest of P is revealed.

    `missing` is 0 where E[e^-L] is 1 but for the rounding of the numbers given.
    """

    losses: tuple[float, ...]
    p: tuple[float, ...]
    failure: float
    missing: float

    @property
    def _total(self) -> Fraction:
        return sum(map(Fraction, self.p), Fraction(self.failure))

    def columns(self) -> Columns:
        total = float(self._total)
        return Columns(
            np.array(self.losses), np.log(np.array(self.p)) - math.log(total), self.failure / total, self.missing
        )

    def balls(self) -> BallColumns:
        total = ball_of_fraction(self._total)
        masses = [as_ball(mass) / total for mass in self.p]
        return BallColumns([as_ball(x) for x in self.losses], masses, as_ball(self.failure) / total, self._absent())

    def _absent(self) -> arb:
        return as_ball(self.missing, self.missing * 2.0**-40)

    def fractions(self) -> tuple[list[Fraction], list[Fraction]]:
        """Q is p e^-L to 200 bits: see `Symmetrised`, which allows for the rest."""
        from cumulant.numerics.balls import fraction_near, precision

        with precision(LOSS_BITS):
            q = [fraction_near(as_ball(mass) * (-as_ball(loss)).exp()) for loss, mass in self._rows()]
        p = [Fraction(mass) for _, mass in self._rows()]
        p, q = [*p, Fraction(self.failure), Fraction(0)], [*q, Fraction(0), Fraction(self.missing)]
        total_p, total_q = sum(p), sum(q)
        return [x / total_p for x in p], [x / total_q for x in q]

    def _rows(self) -> list[tuple[float, float]]:
        return list(zip(self.losses, self.p, strict=True))


# What is made of it ---------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Reversed(Atoms):
    """(Q, P)."""

    of: Atoms

    def columns(self) -> Columns:
        base = self.of.columns()
        return Columns(-base.losses, base.log_masses - base.losses, base.absent, base.failure)

    def balls(self) -> BallColumns:
        base = self.of.balls()
        masses = [mass * (-loss).exp() for loss, mass in zip(base.losses, base.masses, strict=True)]
        return BallColumns([-loss for loss in base.losses], masses, base.absent, base.failure)


@final
@dataclass(frozen=True, slots=True)
class Leave(Atoms):
    """((1-γ)Q + γP, Q), 0 < γ < 1; what P lacks has ratio 1 - γ."""

    of: Atoms
    rate: float

    def columns(self) -> Columns:
        base, g = self.of.columns(), self.rate
        mixed = np.append(log_mixture(base.losses, g), math.log1p(-g))
        log_q = np.append(base.log_masses - base.losses, _log(base.absent))
        return Columns(mixed, log_q + mixed, g * base.failure, 0.0)

    def balls(self) -> BallColumns:
        base, g = self.of.balls(), as_ball(self.rate)
        losses = [*(log_mixture_ball(loss, g) for loss in base.losses), (1 - g).log()]
        q = [*(mass * (-loss).exp() for loss, mass in zip(base.losses, base.masses, strict=True)), base.absent]
        return BallColumns(losses, [b * x.exp() for b, x in zip(q, losses, strict=True)], g * base.failure, as_ball(0.0))


@final
@dataclass(frozen=True, slots=True)
class Join(Atoms):
    """(P, (1-γ)P + γQ), 0 < γ < 1; what Q lacks has ratio 1/(1-γ)."""

    of: Atoms
    rate: float

    def columns(self) -> Columns:
        base, g = self.of.columns(), self.rate
        losses = np.append(-log_mixture(-base.losses, g), -math.log1p(-g))
        return Columns(losses, np.append(base.log_masses, _log(base.failure)), 0.0, g * base.absent)

    def balls(self) -> BallColumns:
        base, g = self.of.balls(), as_ball(self.rate)
        losses = [*(-log_mixture_ball(-loss, g) for loss in base.losses), -((1 - g).log())]
        return BallColumns(losses, [*base.masses, base.failure], as_ball(0.0), g * base.absent)


@final
@dataclass(frozen=True, slots=True)
class Envelope(Atoms):
    """`Leave` where P is the larger, `Join` where Q is, and an atom at 0 of mass P(p = q) + (1-γ)·TV(P, Q)."""

    of: Atoms
    rate: float

    def columns(self) -> Columns:
        base, g = self.of.columns(), self.rate
        losses, p = base.losses, np.exp(base.log_masses)
        above, below, even = losses > 0, losses < 0, losses == 0
        up, down = log_mixture(losses[above], g), -log_mixture(-losses[below], g)
        variation = float(np.sum(p[above] * -np.expm1(-losses[above]))) + base.failure
        rest = float(np.sum(p[even])) + (1 - g) * variation
        log_masses = [base.log_masses[above] - losses[above] + up, base.log_masses[below], [_log(rest)]]
        return Columns(
            np.concatenate([up, down, [0.0]]), np.concatenate(log_masses), g * base.failure, g * base.absent
        )

    def balls(self) -> BallColumns:
        base, g = self.of.balls(), as_ball(self.rate)
        losses, masses, rest = [], [], (1 - g) * base.failure
        for loss, mass in zip(base.losses, base.masses, strict=True):
            if loss > 0:
                mixed = log_mixture_ball(loss, g)
                losses.append(mixed)
                masses.append(mass * (mixed - loss).exp())
                rest = rest + (1 - g) * mass * -(-loss).expm1()
            elif loss < 0:
                losses.append(-log_mixture_ball(-loss, g))
                masses.append(mass)
            else:  # 0, or so near that a ball does not tell: either formula gives this to within the ball
                losses.append(log_mixture_ball(loss, g).union(-log_mixture_ball(-loss, g)))
                masses.append(mass)
        return BallColumns([*losses, as_ball(0.0)], [*masses, rest], g * base.failure, g * base.absent)

    @property
    def symmetric(self) -> bool:
        return self.of.symmetric


@final
@dataclass(frozen=True, slots=True)
class Symmetrised(Atoms):
    """The pair whose profile is the larger of H_t(P ‖ Q) and H_t(Q ‖ P), for every t.

    Where neighbours have no order, as under replace-one, one release may be (P, Q) and the next (Q, P). The larger of two
    profiles is convex, falls, is 1 at t = 0 and at least 1 - t, so it is the profile of a pair (Zhu, Dong and Wang
    2022, Proposition 8), which dominates each release in either order. As H_t(Q ‖ P) = 1 - t + t H_{1/t}(P ‖ Q), the
    larger one belongs to a symmetric pair: it is enough to find the outputs with ratio t > 1.

    Holds for:  every pair on at most MOST_SYMMETRISED outputs.
    Tightness:  the least pair that dominates both orders.
    """

    of: Atoms

    @property
    def symmetric(self) -> bool:
        return True

    def columns(self) -> Columns:
        above, even, failure = self._halves()
        losses = np.array([_log_of_fraction(t) for t, _ in above])
        likely = np.array([_log_of_fraction(t * q) for t, q in above])
        rare = np.array([_log_of_fraction(q) for _, q in above])
        revealed = float_above(failure)
        return Columns(
            np.concatenate([losses, -losses, [0.0]]),
            np.concatenate([likely, rare, [_log_of_fraction(even)]]),
            revealed,
            revealed,
        )

    def balls(self) -> BallColumns:
        above, even, failure = self._halves()
        ratios = [ball_of_fraction(t) for t, _ in above]
        q = [ball_of_fraction(mass) for _, mass in above]
        losses = [ratio.log() + as_ball(0.0, LOSS_ERROR) for ratio in ratios]
        masses = [*(ratio * mass for ratio, mass in zip(ratios, q, strict=True)), *q, ball_of_fraction(even)]
        revealed = ball_of_fraction(failure)
        return BallColumns([*losses, *(-loss for loss in losses), as_ball(0.0)], masses, revealed, revealed)

    def _halves(self) -> tuple[list[tuple[Fraction, Fraction]], Fraction, Fraction]:
        """Return (t, Q-mass) of the outputs with t > 1, the mass at t = 1, and what is revealed."""
        p, q = self.of.fractions()
        if len(p) > MOST_SYMMETRISED:
            raise OutOfReach(
                f"a pair that is not symmetric has {len(p)} outputs; its two orders are made one up to "
                f"{MOST_SYMMETRISED}. State the relation, relation=cumulant.ADD_REMOVE, or a symmetric pair"
            )
        above, failure = _larger_profile(_falling(p, q), _falling(q, p))
        merged = _merged(above)
        # P adds up to 1: the outputs above 1, those below, which mirror them, what is revealed, and the rest at 1
        even = 1 - failure - sum((t * mass + mass for t, mass in merged), Fraction(0))
        return merged, even, failure


@dataclass(slots=True)
class _Profile:
    """H_t = a - b·t below the ratios that were passed on the way down from t = ∞; `rows` are (ratio, p, q) left."""

    a: Fraction
    b: Fraction
    rows: list[tuple[Fraction, Fraction, Fraction]]

    def at(self, t: Fraction) -> Fraction:
        return self.a - self.b * t

    @property
    def next_ratio(self) -> Fraction:
        return self.rows[-1][0] if self.rows else Fraction(1)

    def pass_ratio(self, t: Fraction) -> None:
        while self.rows and self.rows[-1][0] >= t:
            _, p, q = self.rows.pop()
            self.a, self.b = self.a + p, self.b + q


def _falling(p: Sequence[Fraction], q: Sequence[Fraction]) -> _Profile:
    rows = [(a / b, a, b) for a, b in zip(p, q, strict=True) if a > b > 0]
    revealed = sum((a for a, b in zip(p, q, strict=True) if b == 0), Fraction(0))
    return _Profile(revealed, Fraction(0), sorted(rows))


def _merged(outputs: Sequence[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """Return falling ratios t, with those that are next to the one above raised to it: P keeps its mass, Q loses some.

    A larger ratio only makes outputs easier to tell apart.
    """
    found: list[tuple[Fraction, Fraction]] = []
    for t, q in outputs:
        if found and found[-1][0] <= t * NEXT:
            top, mass = found[-1]
            found[-1] = top, mass + q * t / top
        else:
            found.append((t, q))
    return found


def _larger_profile(one: _Profile, other: _Profile) -> tuple[list[tuple[Fraction, Fraction]], Fraction]:
    """Walk down from t = ∞ to 1 along the larger of two profiles; where its slope changes there is an output.

    Return the outputs, (t, Q-mass), and what is revealed.
    """
    failure, slope, found = max(one.a, other.a), Fraction(0), []

    def turn(t: Fraction, b: Fraction) -> None:
        nonlocal slope
        if b > slope and t > 1:
            found.append((t, b - slope))
            slope = b

    top: Fraction | None = None
    while True:
        low = max(one.next_ratio, other.next_ratio, Fraction(1))
        # between `low` and `top` both are straight, and the larger one is known at the upper end
        at_low = one.at(low) - other.at(low)
        first, last = (one, other) if _larger_above(one, other, top) else (other, one)
        if (at_low > 0 and first is other) or (at_low < 0 and first is one):
            crossing = (first.a - last.a) / (first.b - last.b)
            if crossing > low:
                turn(crossing, last.b)
        if low == 1:
            return found, failure
        for profile in (one, other):
            profile.pass_ratio(low)
        here = one.at(low) - other.at(low)
        larger = one if here > 0 or (here == 0 and one.b >= other.b) else other
        turn(low, larger.b)
        top = low


def _larger_above(one: _Profile, other: _Profile, top: Fraction | None) -> bool:
    """Return whether `one` is the larger just below `top`, where it falls the faster if they are equal there."""
    if top is None:  # beyond every ratio both are constant
        return one.a >= other.a
    here = one.at(top) - other.at(top)
    return here > 0 or (here == 0 and one.b >= other.b)


# Numbers --------------------------------------------------------------------------------------------------------------


def log_quotients(p: Array, q: Array) -> Array:
    """Return log p/q to full relative accuracy: differences of numbers within a factor of 2 are exact (Sterbenz).

    >>> float(log_quotients(np.array([0.3125 + 2.0**-40]), np.array([0.3125]))[0]) * 2.0**40
    3.19999999999...
    """
    near = (q <= 2 * p) & (p <= 2 * q)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        close = np.log1p(np.where(near, (p - q) / q, 0.0))
        quotient = p / q
        plain = (quotient > 1e-300) & (quotient < 1e300)
        far = np.where(plain, np.log(quotient), np.log(p) - np.log(q))
    return np.asarray(np.where(near, close, far))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _log_of_fraction(x: Fraction) -> float:
    """Return log x to full relative accuracy, -inf at 0."""
    if x <= 0:
        return -math.inf
    if Fraction(1, 2) <= x <= 2:
        return math.log1p(float(x - 1))
    return math.log(x.numerator) - math.log(x.denominator) if not 1e-300 < x < 1e300 else math.log(float(x))

