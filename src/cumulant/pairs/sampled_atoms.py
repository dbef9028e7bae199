"""What sampling makes of finitely many outputs: the record leaves or joins, or one record is replaced."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from cumulant.numerics.balls import as_ball, log_mixture_ball
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import float_above
from cumulant.pairs.atoms import Atoms, BallColumns, Columns
from cumulant.pairs.mixture_ratio import log_mixture


@final
@dataclass(frozen=True, slots=True)
class Reversed(Atoms):
    """(Q, P)."""

    of: Atoms

    def columns(self) -> Columns:
        base = self.of.columns()
        return Columns(-base.losses, base.log_q, base.log_masses, base.absent, base.failure)

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
        losses, log_absent = log_mixture(base.losses, g), _log(base.absent)
        return Columns(
            np.append(losses, math.log1p(-g)),
            np.append(_log_sum(base, math.log(g), math.log1p(-g)), log_absent + math.log1p(-g)),
            np.append(base.log_q, log_absent),
            _product_up(g, base.failure),
            0.0,
        )

    def balls(self) -> BallColumns:
        base, g = self.of.balls(), as_ball(self.rate)
        losses = [*(log_mixture_ball(loss, g) for loss in base.losses), (1 - g).log()]
        q = [*(mass * (-loss).exp() for loss, mass in zip(base.losses, base.masses, strict=True)), base.absent]
        return BallColumns(
            losses, [b * x.exp() for b, x in zip(q, losses, strict=True)], g * base.failure, as_ball(0.0)
        )


@final
@dataclass(frozen=True, slots=True)
class Join(Atoms):
    """(P, (1-γ)P + γQ), 0 < γ < 1; what Q lacks has ratio 1/(1-γ)."""

    of: Atoms
    rate: float

    def columns(self) -> Columns:
        base, g = self.of.columns(), self.rate
        losses, log_failure = -log_mixture(-base.losses, g), _log(base.failure)
        return Columns(
            np.append(losses, -math.log1p(-g)),
            np.append(base.log_masses, log_failure),
            np.append(_log_sum(base, math.log1p(-g), math.log(g)), log_failure + math.log1p(-g)),
            0.0,
            g * base.absent,
        )

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
        leaving, joining = _log_sum(base, math.log(g), math.log1p(-g)), _log_sum(base, math.log1p(-g), math.log(g))
        return Columns(
            np.concatenate([up, down, [0.0]]),
            np.concatenate([leaving[above], base.log_masses[below], [_log(rest)]]),
            np.concatenate([base.log_q[above], joining[below], [_log(rest)]]),
            _product_up(g, base.failure),
            g * base.absent,
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
            elif loss.is_zero():
                rest = rest + mass
            else:  # 0, or so near that a ball does not tell: what either formula gives
                mixed = log_mixture_ball(loss, g)
                losses.append(mixed.union(-log_mixture_ball(-loss, g)))
                masses.append(mass.union(mass * (mixed - loss).exp()))
                rest = rest + as_ball(0.0).union((1 - g) * mass * -(-loss).expm1())
        return BallColumns([*losses, as_ball(0.0)], [*masses, rest], g * base.failure, g * base.absent)

    @property
    def symmetric(self) -> bool:
        return self.of.symmetric


def _log_sum(base: Columns, log_a: float, log_b: float) -> Array:
    """Return log(ap + bq), from the larger of p and q: a difference of large logarithms would lose digits."""
    losses = base.losses
    by_p, by_q = np.logaddexp(log_a, log_b - losses), np.logaddexp(log_b, log_a + losses)
    return np.where(losses > 0, base.log_masses + by_p, base.log_q + by_q)


def _product_up(a: float, b: float) -> float:
    return float_above(Fraction(a) * Fraction(b))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
