"""Σ (p - tq)_+ of a pair on finitely many outputs, in balls, from outputs in the order of their ratios.

One release needs no more than this: with the outputs whose ratio p/q is above t,

    δ = P(q = 0) + Σ_{p > tq} p - t Σ_{p > tq} q.

Where an output stands in that order is known as a stretch of doubles that holds its ratio, and so is where t stands;
outputs that doubles do not tell from t are looked at in more digits, and the last ones in balls. Sums of given doubles
are exact. A Poisson sample has the sum of its base at another t, so samples of a table take no balls for each output
either.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.numerics.balls import as_ball, ball_of_fraction, lower_float, upper_float
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import exact_sum
from cumulant.pairs import atoms as finite
from cumulant.pairs.maps import Envelope, Join, Leave

if TYPE_CHECKING:
    from flint import arb

BLOCK = 4096  # outputs whose sums are kept
FEW = 64  # outputs that are looked at in balls at once
TIED = 2.0**-99  # of mantissas: two products of doubles nearer than this are not told apart by sums of two doubles
HALVES = 2.0**27 + 1  # by which a double is split into halves whose products are exact (Dekker 1971)
PLACE_ERROR = 2.0**-40  # of a place: a quotient, and a sum of it and an exponent below 2200

Sums = Callable[[int], "arb"]
"""Of all outputs from one on."""
Place = Callable[["arb"], tuple[float, float]]
"""Between which doubles a ratio t stands."""


class Excess(ABC):
    """t - 1 ↦ Σ (p - tq)_+ over the outputs that both have, for t >= 1; with what P has alone, and Q."""

    @property
    @abstractmethod
    def failure(self) -> arb: ...

    @property
    @abstractmethod
    def absent(self) -> arb: ...

    @abstractmethod
    def at(self, more: arb) -> arb:
        """Return the sum at t = 1 + more."""

    @abstractmethod
    def top(self) -> arb:
        """Return the largest ratio less 1, of at least one output."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rising(Excess):
    """Outputs by rising ratio, each between two doubles; both bounds rise."""

    lowest: Array
    highest: Array
    output: Callable[[int], tuple[arb, arb]]  # p and q
    between: Callable[[int, int, arb], arb]  # Σ (p - tq)_+ of some outputs, the first and the one after the last
    p_from: Sums
    q_from: Sums
    place: Place
    alone: tuple[arb, arb]  # what P has where Q is 0, and Q where P is

    @property
    def failure(self) -> arb:
        return self.alone[0]

    @property
    def absent(self) -> arb:
        return self.alone[1]

    def at(self, more: arb) -> arb:
        t = 1 + more
        low, high = self.place(t)
        sure = int(np.searchsorted(self.lowest, high, side="right"))
        first = int(np.searchsorted(self.highest, low, side="left"))
        total = self.p_from(sure) - t * self.q_from(sure)
        return total if first == sure else total + self.between(first, sure, t)

    def top(self) -> arb:
        count = len(self.lowest)
        first = int(np.searchsorted(self.highest, self.lowest[-1], side="left"))
        quotients = [(p - q) / q for p, q in map(self.output, range(first, count))]
        largest = quotients[0]
        for quotient in quotients[1:]:
            largest = largest.max(quotient)
        return largest


@final
@dataclass(frozen=True, slots=True, eq=False)
class Leaving(Excess):
    """(M, Q), M = (1-γ)Q + γP: M - tQ = γ(P - t'Q) with t' - 1 = (t - 1)/γ."""

    base: Excess
    rate: arb

    @property
    def failure(self) -> arb:
        return self.rate * self.base.failure

    @property
    def absent(self) -> arb:
        return as_ball(0.0)

    def at(self, more: arb) -> arb:
        return self.rate * self.base.at(more / self.rate)

    def top(self) -> arb:
        return self.rate * self.base.top()


@final
@dataclass(frozen=True, slots=True, eq=False)
class Joining(Excess):
    """(Q, M): Q - tM = c(Q - t'P) with c = 1 - t(1-γ) and t' - 1 = (t - 1)/c where c > 0, else at most 0.

    `base` is that of (Q, P); what only Q has there is seen here with the ratio 1/(1-γ).
    """

    base: Excess
    rate: arb

    @property
    def failure(self) -> arb:
        return as_ball(0.0)

    @property
    def absent(self) -> arb:
        return self.rate * self.base.absent

    def at(self, more: arb) -> arb:
        share = self.rate - (1 - self.rate) * more
        if share > 0:
            return share * (self.base.at(more / share) + self.base.failure)
        return as_ball(0.0).union(share.upper().max(as_ball(0.0)))  # at most Q's share

    def top(self) -> arb:
        if self.base.failure > 0:
            return self.rate / (1 - self.rate)
        top = self.base.top()  # Q/M - 1 of Q/P = 1 + x is γx/(1 + (1-γ)x)
        return self.rate * top / (1 + (1 - self.rate) * top)


@lru_cache(maxsize=16)
def excess_of(atoms: finite.Atoms, bits: int) -> Excess:
    """Return Σ (p - tq)_+ of a pair, at the precision of the moment, which is `bits`."""
    match atoms:
        case finite.Table():
            return _of_table(np.array(atoms.p), np.array(atoms.q))
        case finite.Reversed(of=finite.Table() as table):
            return _of_table(np.array(table.q), np.array(table.p))
        case finite.Reversed(of=finite.Reversed(of=base)):
            return excess_of(base, bits)
        case finite.Sampled(of=base, sampling=Leave(rate=rate) | Envelope(rate=rate)):
            return Leaving(excess_of(base, bits), as_ball(rate))  # t >= 1 sees no more of an envelope
        case finite.Sampled(of=base, sampling=Join(rate=rate)):
            return Joining(excess_of(finite.Reversed(base), bits), as_ball(rate))
    columns = atoms.balls()
    return of_losses(list(zip(columns.losses, columns.masses, strict=True)), columns.failure, columns.absent)


def of_losses(law: Sequence[tuple[arb, arb]], failure: arb, absent: arb) -> Rising:
    """Return the excess of losses with their masses under P."""
    law = sorted((atom for atom in law if not atom[1].is_zero()), key=lambda atom: float(atom[0].mid()))
    lowest = np.array([lower_float(loss) for loss, _ in law])
    highest = np.array([upper_float(loss) for loss, _ in law])
    p = [mass for _, mass in law]
    q = [mass * (-loss).exp() for loss, mass in law]
    return Rising(
        np.minimum.accumulate(lowest[::-1])[::-1],
        np.maximum.accumulate(highest),
        lambda i: (p[i], q[i]),
        lambda first, end, t: _gains(zip(p[first:end], q[first:end], strict=True), t),
        _kept_sums(p),
        _kept_sums(q),
        _place_of_log,
        (failure, absent),
    )


def _of_table(p: Array, q: Array) -> Rising:
    """Return the excess of two tables of doubles, each scaled to add up to 1."""
    total_p, total_q = (ball_of_fraction(exact_sum(column)) for column in (p, q))
    alone_p, alone_q = (ball_of_fraction(exact_sum(column)) for column in (p[q == 0], q[p == 0]))
    both = (p > 0) & (q > 0)
    p, q = p[both], q[both]
    places = _places(p, q)
    order = np.argsort(places)
    p, q, places = p[order], q[order], places[order]
    quotient = total_p / total_q

    def output(i: int) -> tuple[arb, arb]:
        return as_ball(float(p[i])) / total_p, as_ball(float(q[i])) / total_q

    def between(first: int, end: int, t: arb) -> arb:
        if end - first <= FEW:
            return _gains(map(output, range(first, end)), t)
        return _many_gains(p[first:end], q[first:end], t * quotient) / total_p

    return Rising(
        places - PLACE_ERROR,
        places + PLACE_ERROR,
        output,
        between,
        _exact_sums(p, total_p),
        _exact_sums(q, total_q),
        lambda t: _place_of_quotient(t * quotient),
        (alone_p / total_p, alone_q / total_q),
    )


def _gains(outputs: Iterable[tuple[arb, arb]], t: arb) -> arb:
    """Return Σ (p - tq)_+, one by one."""
    total = as_ball(0.0)
    for p, q in outputs:
        gain = p - t * q
        if gain >= 0:
            total += gain
        elif not gain <= 0:
            total += as_ball(0.0).union(gain.upper())
    return total


def _many_gains(p: Array, q: Array, t: arb) -> arb:
    """Return Σ (p - tq)_+ of doubles with p near tq, from signs of p - tq in twice as many digits.

    With mantissas b of q and T of t, T = h + l, the product bh is a sum of two doubles, p - bh is exact, and bl and the
    sums are rounded by 2^-104 at most. What is nearer to 0 than that may add as much of tq, and no more.
    """
    size, exponent = _scale(t)
    head = float(size.mid())
    tail = float((size - as_ball(head)).mid())
    (above, up), (below, down) = np.frexp(p), np.frexp(q)
    product, rest = _two_product(below, head)
    gain = (np.ldexp(above, up - down - exponent) - product) - (rest + below * tail)
    sure, tied = gain > TIED, np.abs(gain) <= TIED
    p_sum, q_sum, doubt = (ball_of_fraction(exact_sum(x)) for x in (p[sure], q[sure], q[tied]))
    return p_sum - t * q_sum + as_ball(0.0).union(4 * as_ball(TIED) * t * doubt)


def _two_product(x: Array, y: float) -> tuple[Array, Array]:
    """Return xy as a sum of two doubles."""
    product = x * y
    x_head = HALVES * x - (HALVES * x - x)
    y_head = HALVES * y - (HALVES * y - y)
    x_tail, y_tail = x - x_head, y - y_head
    return product, ((x_head * y_head - product) + x_head * y_tail + x_tail * y_head) + x_tail * y_tail


# Places ---------------------------------------------------------------------------------------------------------------


def _places(p: Array, q: Array) -> Array:
    """Return numbers that rise with p/q = f·2^e, ½ <= f < 1: e + 2f, which no quotient overflows."""
    (above, up), (below, down) = np.frexp(p), np.frexp(q)
    share, more = np.frexp(above / below)
    return np.asarray((up.astype(float) - down + more) + 2 * share)


def _place_of_quotient(t: arb) -> tuple[float, float]:
    """Return about where a quotient stands, from both sides of a ball."""
    if not t > 0:
        return -math.inf, math.inf
    size, exponent = _scale(t)
    return exponent + 2 * lower_float(size) - PLACE_ERROR, exponent + 2 * upper_float(size) + PLACE_ERROR


def _scale(t: arb) -> tuple[arb, int]:
    """Return f and e with t = f·2^e, f about between ½ and 1."""
    mantissa, exponent = (int(x) for x in t.mid().man_exp())
    exponent += mantissa.bit_length()
    return t * as_ball(2.0) ** -exponent, exponent


def _place_of_log(t: arb) -> tuple[float, float]:
    if not t > 0:
        return -math.inf, math.inf
    log = t.log()
    return lower_float(log), upper_float(log)


# Sums -----------------------------------------------------------------------------------------------------------------


def _kept_sums(column: Sequence[arb]) -> Sums:
    sums = [as_ball(0.0), *accumulate(reversed(column))][::-1]
    return lambda i: sums[i]


def _exact_sums(column: Array, total: Any) -> Sums:
    """Return sums of doubles over their total: whole blocks are kept, the rest is added up when it is asked for."""
    blocks = [ball_of_fraction(exact_sum(column[i : i + BLOCK])) for i in range(0, len(column), BLOCK)]
    beyond = [*[as_ball(0.0), *accumulate(reversed(blocks))][::-1], as_ball(0.0)]

    def sums(i: int) -> arb:
        place = -(-i // BLOCK)
        return (beyond[place] + ball_of_fraction(exact_sum(column[i : place * BLOCK]))) / total

    return sums
