"""One pair for both directions of two neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, ball_of_fraction
from cumulant.numerics.rounding import float_above
from cumulant.pairs.atoms import Atoms, BallColumns, Columns

MOST_SYMMETRISED = 5000  # outputs of a pair whose two orders are made one, in exact fractions
LOSS_ERROR = 2.0**-200  # more than the relative error of the fractions of a table of losses
NEXT = 1 + Fraction(1, 2**48)  # ratios this close are made one

Halves = tuple[list[tuple[Fraction, Fraction]], Fraction, Fraction]


@final
@dataclass(frozen=True, slots=True)
class Symmetrised(Atoms):
    """The pair whose profile is the larger of H_t(P ‖ Q) and H_t(Q ‖ P), for every t.

    Where neighbours have no order, as under replace-one, one release may be (P, Q) and the next (Q, P). The larger of
    two profiles is convex, falls, is 1 at t = 0 and at least 1 - t, so it is the profile of a pair, which dominates
    each release either way. As H_t(Q ‖ P) = 1 - t + t H_{1/t}(P ‖ Q), the larger one belongs to a symmetric pair:
    it is enough to find the outputs with ratio t > 1.

    Holds for:  every pair on at most MOST_SYMMETRISED outputs.
    Tightness:  the least pair that dominates both directions.
    """

    of: Atoms

    @property
    def symmetric(self) -> bool:
        return True

    def columns(self) -> Columns:
        above, even, failure = self._halves()
        losses = np.array([log_of_fraction(t) for t, _ in above])
        likely = np.array([log_of_fraction(t * q) for t, q in above])
        rare = np.array([log_of_fraction(q) for _, q in above])
        revealed = float_above(failure)
        rest = [log_of_fraction(even)]
        return Columns(
            np.concatenate([losses, -losses, [0.0]]),
            np.concatenate([likely, rare, rest]),
            np.concatenate([rare, likely, rest]),
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

    def _halves(self) -> Halves:
        return _halves(self.of)


@lru_cache(maxsize=32)
def _halves(pair: Atoms) -> Halves:
    """Return (t, Q-mass) of the outputs with t > 1, the mass at t = 1, and what is revealed."""
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


def log_of_fraction(x: Fraction) -> float:
    """Return log x to full relative accuracy, -inf at 0."""
    if x <= 0:
        return -math.inf
    if Fraction(1, 2) <= x <= 2:
        return math.log1p(float(x - 1))
    return math.log(x.numerator) - math.log(x.denominator) if not 1e-300 < x < 1e300 else math.log(float(x))
