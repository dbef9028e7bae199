"""Pairs on finitely many outputs that are made in exact fractions of others.

One pair for both directions of two neighbours, and Poisson sampling under replace-one, where likelihood ratios rise and
fall against each other. The theorem of the second is stated at `Noise.antithetic`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, ball_of_fraction
from cumulant.numerics.rounding import float_above
from cumulant.pairs.atoms import Atoms, BallColumns, Binary, Columns, Table
from cumulant.pairs.maps import Leave

MOST_SYMMETRISED = 5000  # outputs of a pair whose two orders are made one, in exact fractions
MOST_COUPLED = 2000  # outputs of a table that is coupled with itself
LOSS_ERROR = 2.0**-200  # more than the relative error of the fractions of a table of losses
NEXT = 1 + Fraction(1, 2**48)  # ratios this close are made one

Masses = tuple[tuple[Fraction, ...], tuple[Fraction, ...], Fraction]
"""P and Q of each output, and what either reveals."""


class FractionAtoms(Atoms):
    """A symmetric pair whose probabilities are fractions, none of them 0."""

    __slots__ = ()

    @abstractmethod
    def _masses(self) -> Masses: ...

    @property
    def symmetric(self) -> bool:
        return True

    def columns(self) -> Columns:
        p, q, revealed = self._masses()
        losses = np.array([log_of_fraction(a / b) for a, b in zip(p, q, strict=True)])
        log_p, log_q = (np.array([log_of_fraction(x) for x in column]) for column in (p, q))
        return Columns(losses, log_p, log_q, float_above(revealed), float_above(revealed))

    def balls(self) -> BallColumns:
        p, q, revealed = self._masses()
        losses = [ball_of_fraction(a / b).log() + as_ball(0.0, LOSS_ERROR) for a, b in zip(p, q, strict=True)]
        failure = ball_of_fraction(revealed)
        return BallColumns(losses, [ball_of_fraction(x) for x in p], failure, failure)


# Both directions ------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Symmetrised(FractionAtoms):
    """The pair whose profile is the larger of H_t(P ‖ Q) and H_t(Q ‖ P), for every t.

    Where neighbours have no order, as under replace-one, one release may be (P, Q) and the next (Q, P). The larger of
    two profiles is convex, falls, is 1 at t = 0 and at least 1 - t, so it is the profile of a pair, which dominates
    each release either way. As H_t(Q ‖ P) = 1 - t + t H_{1/t}(P ‖ Q), the larger one belongs to a symmetric pair:
    it is enough to find the outputs with ratio t > 1.

    Holds for:  every pair on at most MOST_SYMMETRISED outputs.
    Tightness:  the least pair that dominates both directions.
    """

    of: Atoms

    def _masses(self) -> Masses:
        return _symmetrised(self.of)


@lru_cache(maxsize=32)
def _symmetrised(pair: Atoms) -> Masses:
    if (outputs := pair.outputs) > MOST_SYMMETRISED:
        raise OutOfReach(
            f"a pair that is not symmetric has {outputs} outputs; its two orders are made one up to "
            f"{MOST_SYMMETRISED}. State the relation, relation=cumulant.ADD_REMOVE, or a symmetric pair"
        )
    p, q = pair.fractions()
    above, failure = _larger_profile(_falling(p, q), _falling(q, p))
    # up: a larger ratio with the same mass of P only makes outputs easier to tell apart
    merged = _merged([(t * (1 + pair.slack), mass / (1 + pair.slack)) for t, mass in above])
    # P adds up to 1: the outputs above 1, those below, which mirror them, what is revealed, and the rest at 1
    even = 1 - failure - sum((t * mass + mass for t, mass in merged), Fraction(0))
    likely, rare, rest = [t * mass for t, mass in merged], [mass for _, mass in merged], [even] if even else []
    return (*likely, *rare, *rest), (*rare, *likely, *rest), failure


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


def log_of_fraction(x: Fraction) -> float:
    """Return log x to full relative accuracy, -inf at 0."""
    if x <= 0:
        return -math.inf
    if Fraction(1, 2) <= x <= 2:
        return math.log1p(float(x - 1))
    return math.log(x.numerator) - math.log(x.denominator) if not 1e-300 < x < 1e300 else math.log(float(x))


# Poisson sampling under replace-one ----------------------------------------------------------------------------------


def antithetic_atoms(atoms: Atoms, rate: float) -> Atoms | None:
    """Return the pair of a Poisson sample under replace-one; None where fractions do not tell it."""
    if isinstance(atoms, Binary) and atoms.failure == 0:
        return ThreePoints(atoms, rate)
    if not isinstance(atoms, Table) or len(atoms.p) > MOST_COUPLED:
        return None
    can_be_told = rate == 1 and 0.0 in (*atoms.p, *atoms.q)  # of everyone, ratios of 0 stay 0
    return None if can_be_told else Coupled(atoms, rate)


@final
@dataclass(frozen=True, slots=True)
class ThreePoints(Atoms):
    """ε-DP: ratios e^ε and e^-ε have the probabilities π and 1-π, π = 1/(1+e^ε), so the losses are ±l and 0."""

    of: Binary  # of which nothing fails
    rate: float

    @property
    def symmetric(self) -> bool:
        return True

    def columns(self) -> Columns:
        epsilon = self.of.epsilon
        low, high = map(Leave(self.rate).value_of, (-epsilon, epsilon))
        rare = -epsilon - math.log1p(math.exp(-epsilon))
        even = math.log(math.tanh(epsilon / 2)) + low if epsilon > 0 else -math.inf
        loss = high - low
        log_p = np.array([rare + low, even, rare + high])
        return Columns(np.array([-loss, 0.0, loss]), log_p, log_p[::-1], 0.0, 0.0)

    def balls(self) -> BallColumns:
        epsilon = self.of.stated()
        low, high = map(Leave(as_ball(self.rate)).value, (-epsilon, epsilon))
        rare = 1 / (1 + epsilon.exp())
        masses = [rare * low.exp(), (1 - 2 * rare) * low.exp(), rare * high.exp()]
        return BallColumns([low - high, as_ball(0.0), high - low], masses, as_ball(0.0), as_ball(0.0))


@final
@dataclass(frozen=True, slots=True)
class Coupled(FractionAtoms):
    """A table whose ratios, rising, meet themselves, falling."""

    of: Table
    rate: float

    def _masses(self) -> Masses:
        return _coupled(self)


@lru_cache(maxsize=64)
def _coupled(pair: Coupled) -> Masses:
    p, q = pair.of.fractions()
    rate = Fraction(pair.rate)
    there = sorted((a / b, b) for a, b in zip(p, q, strict=True) if b > 0)
    found: dict[tuple[Fraction, Fraction], Fraction] = {}
    for x, y, share in _opposed(there):
        found[x, y] = found.get((x, y), Fraction(0)) + share
    masses = [((1 - rate + rate * x) * share, (1 - rate + rate * y) * share) for (x, y), share in found.items()]
    revealed = rate * sum((a for a, b in zip(p, q, strict=True) if b == 0), Fraction(0))
    return tuple(a for a, _ in masses), tuple(b for _, b in masses), revealed


def _opposed(rising: list[tuple[Fraction, Fraction]]) -> Iterator[tuple[Fraction, Fraction, Fraction]]:
    """Yield (X, Y, probability) of ratios with their probabilities, rising against falling."""
    falling = rising[::-1]
    i = j = 0
    left_i, left_j = rising[0][1], falling[0][1]
    while True:
        share = min(left_i, left_j)
        yield rising[i][0], falling[j][0], share
        left_i, left_j = left_i - share, left_j - share
        if left_i == 0:
            i += 1
            if i == len(rising):
                return
            left_i = rising[i][1]
        if left_j == 0:
            j += 1
            left_j = falling[j][1]
