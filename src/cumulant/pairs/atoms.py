"""Pairs of distributions on finitely many outputs, as they are given: once in doubles, once in balls.

A law of atoms is a list of outputs, each with a finite loss L = log p/q and its probability p under P. What has q = 0
is `failure`, what has p = 0 is `absent`. Every class says both things of itself: `columns`, in doubles whose losses and
log-masses are right to a few units in the last place, and `balls`, which enclose the same numbers from the parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, ball_of_fraction, fraction_near, precision
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import exact_sum, float_above

if TYPE_CHECKING:
    from flint import arb

    from cumulant.pairs.maps import SamplingMap

CANCELLED = 100.0  # a loss that is not this many times as large as what it was scaled by has lost digits
LARGE_LOSS = 16.0  # from which log p - L is off by more than a few units
LARGEST_IN_FRACTIONS = 1e4  # of losses: fractions of larger ones have more digits than there is time for
LOSS_BITS = 256  # of the probabilities under Q that a table of losses implies


@final
@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Losses and the logarithms of their masses under P and Q; P adds up to 1 with `failure`, Q with `absent`.

    Both are stated: as log p - L, log q would lose what a large L takes.
    """

    losses: Array
    log_masses: Array
    log_q: Array
    failure: float
    absent: float

    def reverse(self) -> Columns:
        """Return the columns of (Q, P)."""
        return Columns(-self.losses, self.log_q, self.log_masses, self.absent, self.failure)


@final
@dataclass(frozen=True, slots=True, eq=False)
class BallColumns:
    """Losses and their masses under P as balls; P adds up to 1 with `failure`, Q with `absent`."""

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

    @property
    def slack(self) -> Fraction:
        """How far, relatively, ratios of `fractions` may be below the true ones."""
        return Fraction(0)

    @property
    def outputs(self) -> int:
        """How many `fractions` there are."""
        return 0

    def fractions(self) -> tuple[list[Fraction], list[Fraction]]:
        """Return P and Q as fractions that add up to 1."""
        raise OutOfReach(f"{type(self).__name__} has no table of fractions")


@final
@dataclass(frozen=True, slots=True)
class Reversed(Atoms):
    """(Q, P)."""

    of: Atoms

    def columns(self) -> Columns:
        return self.of.columns().reverse()

    def balls(self) -> BallColumns:
        base = self.of.balls()
        masses = [mass * (-loss).exp() for loss, mass in zip(base.losses, base.masses, strict=True)]
        return BallColumns([-loss for loss in base.losses], masses, base.absent, base.failure)


@final
@dataclass(frozen=True, slots=True)
class Sampled(Atoms):
    """What sampling makes of a pair."""

    of: Atoms
    sampling: SamplingMap

    def columns(self) -> Columns:
        return self.sampling.columns(self.of.columns())

    def balls(self) -> BallColumns:
        return self.sampling.balls(self.of.balls())


@final
@dataclass(frozen=True, slots=True)
class Binary(Atoms):
    """Everything is revealed with probability δ; otherwise randomized response with losses ±ε."""

    epsilon: float
    failure: float = 0.0
    multiple: tuple[int, float] | None = None  # (k, x), where ε is kx rounded up

    def stated(self) -> arb:
        """Return ε before it was rounded."""
        times, each = self.multiple or (1, self.epsilon)
        return times * as_ball(each)

    def columns(self) -> Columns:
        if self.failure == 1:
            return Columns(np.empty(0), np.empty(0), np.empty(0), 1.0, 1.0)
        likely = math.log1p(-self.failure) - math.log1p(math.exp(-self.epsilon))
        losses = np.array([-self.epsilon, self.epsilon])
        log_masses = np.array([likely - self.epsilon, likely])
        return Columns(losses, log_masses, log_masses[::-1], self.failure, self.failure)

    def balls(self) -> BallColumns:
        epsilon, failure = self.stated(), as_ball(self.failure)
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
    _hash: int = field(init=False, repr=False, compare=False)  # which takes a while of many outputs

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.p, self.q)))

    def __hash__(self) -> int:
        return self._hash

    def columns(self) -> Columns:
        p, q = np.array(self.p), np.array(self.q)
        total_p, total_q = exact_sum(p), exact_sum(q)
        scale = math.log1p(float((total_q - total_p) / total_p))
        both = (p > 0) & (q > 0)
        losses = self._scaled(log_quotients(p[both], q[both]), scale, both)
        failure, absent = float_above(exact_sum(p[q == 0]) / total_p), float_above(exact_sum(q[p == 0]) / total_q)
        log_p, log_q = np.log(p[both]) - math.log(total_p), np.log(q[both]) - math.log(total_q)
        return Columns(losses, log_p, log_q, failure, absent)

    def _scaled(self, quotients: Array, scale: float, both: NDArray[np.bool_]) -> Array:
        """Return log p/q + scale, from exact fractions where the two cancel."""
        losses = quotients + scale
        close = np.flatnonzero((np.abs(losses) < CANCELLED * abs(scale)) & (quotients != 0))
        if len(close):
            total_p, total_q = (exact_sum(np.array(column)) for column in (self.p, self.q))
            places = np.flatnonzero(both)
            for i in close.tolist():
                p, q = Fraction(self.p[places[i]]) * total_q, Fraction(self.q[places[i]]) * total_p
                losses[i] = math.log1p(float((p - q) / q))
        return losses

    def balls(self) -> BallColumns:
        p, q = self.p, self.q
        total_p, total_q = (ball_of_fraction(exact_sum(np.array(column))) for column in (p, q))
        both = [(as_ball(a) / total_p, as_ball(b) / total_q) for a, b in zip(p, q, strict=True) if a > 0 and b > 0]
        failure = ball_of_fraction(sum((Fraction(a) for a, b in zip(p, q, strict=True) if b == 0), Fraction(0)))
        absent = ball_of_fraction(sum((Fraction(b) for a, b in zip(p, q, strict=True) if a == 0), Fraction(0)))
        losses = [(a / b).log() for a, b in both]
        return BallColumns(losses, [a for a, _ in both], failure / total_p, absent / total_q)

    @property
    def symmetric(self) -> bool:
        return _is_symmetric(self)

    @property
    def outputs(self) -> int:
        return len(self.p)

    def fractions(self) -> tuple[list[Fraction], list[Fraction]]:
        p, q = ([Fraction(x) for x in column] for column in (self.p, self.q))
        total_p, total_q = (exact_sum(np.array(column)) for column in (self.p, self.q))
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
        losses, log_p = np.array(self.losses), np.log(np.array(self.p)) - math.log(float(self._total))
        return Columns(losses, log_p, self._log_q(log_p - losses), self._revealed(), self.missing)

    def _log_q(self, near: Array) -> Array:
        """Return log p - L, from balls where L is so large that the difference has lost digits."""
        log_q: Array = near.copy()
        with precision(LOSS_BITS):
            log_total = ball_of_fraction(self._total).log()
            for i, (loss, mass) in enumerate(self._rows()):
                if abs(loss) > LARGE_LOSS:
                    log_q[i] = float((as_ball(mass).log() - as_ball(loss) - log_total).mid())
        return log_q

    def balls(self) -> BallColumns:
        total = ball_of_fraction(self._total)
        masses = [as_ball(mass) / total for mass in self.p]
        return BallColumns([as_ball(x) for x in self.losses], masses, as_ball(self.failure) / total, self._absent())

    def _revealed(self) -> float:
        return float_above(Fraction(self.failure) / self._total)

    def _absent(self) -> arb:
        return as_ball(self.missing, self.missing * 2.0**-40)

    @property
    def outputs(self) -> int:
        return len(self.p) + 2

    @property
    def slack(self) -> Fraction:
        """Q is scaled to add up to 1, which moves every ratio by as much, and is known to 200 bits."""
        return 2 * abs(sum(self._q(), Fraction(0)) - 1) + Fraction(1, 2**200)

    def fractions(self) -> tuple[list[Fraction], list[Fraction]]:
        p, q = [Fraction(mass) for _, mass in self._rows()], self._q()
        p, q = [*p, Fraction(self.failure), Fraction(0)], [*q[:-1], Fraction(0), q[-1]]
        total_p, total_q = sum(p), sum(q)
        return [x / total_p for x in p], [x / total_q for x in q]

    def _q(self) -> list[Fraction]:
        """Return p e^-L of each output to 200 bits, and what Q has beyond them."""
        if not max(map(abs, self.losses), default=0.0) <= LARGEST_IN_FRACTIONS:
            raise OutOfReach(f"exact fractions of e^-L are out of reach for losses beyond {LARGEST_IN_FRACTIONS:g}")
        total = self._total
        with precision(LOSS_BITS):
            q = [fraction_near(as_ball(mass) * (-as_ball(loss)).exp()) / total for loss, mass in self._rows()]
        return [*q, Fraction(self.missing)]

    def _rows(self) -> list[tuple[float, float]]:
        return list(zip(self.losses, self.p, strict=True))


@final
@dataclass(frozen=True, slots=True)
class ChordAtoms(Atoms):
    """A symmetric pair made of chords of a profile: losses and log-masses of P as columns, and what is revealed.

    Kept as bytes, so that a pair of many thousand outputs is hashed and compared at once.
    """

    losses: bytes
    log_p: bytes
    revealed: float
    left_out: float = 0.0  # of P, and at most as much of Q

    def without_far(self, log_most: float) -> ChordAtoms:
        """Return the pair without its largest losses: as many as have at most e^log_most of P together."""
        losses, log_p = np.frombuffer(self.losses), np.frombuffer(self.log_p)
        log_beyond = np.logaddexp.accumulate(log_p[::-1])
        count = int(np.searchsorted(log_beyond, log_most, side="right"))
        if count == 0:
            return self
        left_out = math.exp(float(log_beyond[count - 1])) * (1 + 1e-9)
        return ChordAtoms(losses[:-count].tobytes(), log_p[:-count].tobytes(), self.revealed, left_out)

    def columns(self) -> Columns:
        losses, log_p = np.frombuffer(self.losses), np.frombuffer(self.log_p)
        return Columns(losses, log_p, log_p - losses, self.revealed, self.revealed)

    def balls(self) -> BallColumns:
        raise OutOfReach("a pair made of chords of a profile is known in doubles only")

    @property
    def symmetric(self) -> bool:
        return True


@lru_cache(maxsize=64)
def _is_symmetric(table: Table) -> bool:
    p, q = np.array(table.p), np.array(table.q)
    if np.any(np.sort(p) != np.sort(q)):
        return False
    there, back = np.lexsort((q, p)), np.lexsort((p, q))
    return bool(np.all(p[there] == q[back]) and np.all(q[there] == p[back]))


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
