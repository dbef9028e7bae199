"""Poisson sampling under replace-one on finitely many outputs: likelihood ratios that rise and fall against each other.

The theorem is stated at `Noise.antithetic`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np

from cumulant.numerics.balls import as_ball, ball_of_fraction
from cumulant.numerics.rounding import float_above
from cumulant.pairs.atoms import Atoms, BallColumns, Binary, Columns, Table
from cumulant.pairs.maps import Leave
from cumulant.pairs.symmetrised import log_of_fraction

MOST_COUPLED = 2000  # outputs of a table that is coupled with itself, in exact fractions

Masses = tuple[tuple[Fraction, ...], tuple[Fraction, ...], Fraction]
"""P and Q of each output, and what either reveals."""


def antithetic_atoms(atoms: Atoms, rate: float) -> Atoms | None:
    """Return the pair of a Poisson sample under replace-one; None where fractions do not tell it."""
    if isinstance(atoms, Binary) and atoms.failure == 0:
        return ThreePoints(atoms.epsilon, rate)
    if not isinstance(atoms, Table) or len(atoms.p) > MOST_COUPLED:
        return None
    can_be_told = rate == 1 and 0.0 in (*atoms.p, *atoms.q)  # of everyone, ratios of 0 stay 0
    return None if can_be_told else Coupled(atoms, rate)


@final
@dataclass(frozen=True, slots=True)
class ThreePoints(Atoms):
    """ε-DP: ratios e^ε and e^-ε have the probabilities π and 1-π, π = 1/(1+e^ε), so the losses are ±l and 0."""

    epsilon: float
    rate: float

    @property
    def symmetric(self) -> bool:
        return True

    def columns(self) -> Columns:
        low, high = map(Leave(self.rate).value_of, (-self.epsilon, self.epsilon))
        rare = -self.epsilon - math.log1p(math.exp(-self.epsilon))
        even = math.log(math.tanh(self.epsilon / 2)) + low if self.epsilon > 0 else -math.inf
        loss = high - low
        log_p = np.array([rare + low, even, rare + high])
        return Columns(np.array([-loss, 0.0, loss]), log_p, log_p[::-1], 0.0, 0.0)

    def balls(self) -> BallColumns:
        epsilon = as_ball(self.epsilon)
        low, high = map(Leave(as_ball(self.rate)).value, (-epsilon, epsilon))
        rare = 1 / (1 + epsilon.exp())
        masses = [rare * low.exp(), (1 - 2 * rare) * low.exp(), rare * high.exp()]
        return BallColumns([low - high, as_ball(0.0), high - low], masses, as_ball(0.0), as_ball(0.0))


@final
@dataclass(frozen=True, slots=True)
class Coupled(Atoms):
    """A table whose ratios, rising, meet themselves, falling: exact fractions throughout."""

    of: Table
    rate: float

    @property
    def symmetric(self) -> bool:
        return True

    def columns(self) -> Columns:
        p, q, revealed = _coupled(self)
        losses = np.array([log_of_fraction(a / b) for a, b in zip(p, q, strict=True)])
        log_p, log_q = (np.array([log_of_fraction(x) for x in column]) for column in (p, q))
        return Columns(losses, log_p, log_q, float_above(revealed), float_above(revealed))

    def balls(self) -> BallColumns:
        p, q, revealed = _coupled(self)
        losses = [ball_of_fraction(a / b).log() for a, b in zip(p, q, strict=True)]
        failure = ball_of_fraction(revealed)
        return BallColumns(losses, [ball_of_fraction(x) for x in p], failure, failure)


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
