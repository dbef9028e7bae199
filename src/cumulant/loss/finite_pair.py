"""Pairs of distributions on finitely many outputs: randomized response, pure and approximate DP, tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.loss.loss_nodes import LossNodes
from cumulant.loss.pair import DominatingPair
from cumulant.numerics.decay import Cells
from cumulant.numerics.logspace import Array


@final
@dataclass(frozen=True, slots=True)
class FinitePair(DominatingPair):
    """Finite losses with the logarithms of their probabilities under P; `failure` is P(Q = 0), `absent` Q(P = 0)."""

    losses: tuple[float, ...]
    log_masses: tuple[float, ...]
    failure: float = 0.0
    absent: float = 0.0

    @staticmethod
    def of(losses: Array, masses: Array, failure: float, absent: float) -> FinitePair:
        kept = masses > 0
        return FinitePair(tuple(losses[kept].tolist()), tuple(np.log(masses[kept]).tolist()), failure, absent)

    def columns(self) -> tuple[Array, Array]:
        """Return losses and masses."""
        return np.array(self.losses), np.exp(np.array(self.log_masses))

    @property
    def supremum(self) -> float:
        return max(self.losses, default=-math.inf)

    @property
    def log_top_mass(self) -> float:
        return max(zip(self.losses, self.log_masses, strict=True))[1] - math.log1p(-self.failure)

    def nodes(self, theta: float, omega: float) -> LossNodes:
        log_finite = math.log1p(-self.failure)
        lost = (self.absent - self.failure) / (1 - self.failure)  # 1 - Q(P > 0)/P(Q > 0)
        return LossNodes.of(np.array(self.losses), np.array(self.log_masses) - log_finite, lost)

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        losses = np.array(self.losses)
        log_finite = math.log1p(-self.failure)
        return Cells.of_atoms(losses, np.exp(np.array(self.log_masses) - log_finite + theta * losses - k_theta))

    def waves(self, theta: float) -> float:
        return 0.0

    @property
    def lattice(self) -> tuple[float, float] | None:
        if len(set(self.losses)) < 2:
            return None
        first, *rest = sorted(set(self.losses))
        spans = np.diff([first, *rest])
        even = np.all(np.abs(spans - spans[0]) <= 4e-15 * max(abs(first), abs(rest[-1])))
        return (first, float(np.max(spans))) if even else None  # rounded up


def binary_pair(epsilon: float, failure: float = 0.0) -> FinitePair:
    """Return the pair of (ε, δ)-DP: everything is revealed with probability δ, else randomized response.

    Holds for:  every (ε, δ)-DP mechanism (Kairouz, Oh and Viswanath 2017, Theorem 3.1).
    Tightness:  attained by that mechanism; composing the pair is optimal composition.
    """
    log_rest = math.log1p(-failure) if failure < 1 else -math.inf
    log_rare = -epsilon - math.log1p(math.exp(-epsilon)) + log_rest
    return FinitePair((-epsilon, epsilon), (log_rare, log_rare + epsilon), failure, failure)


def table_pair(p: Sequence[float], q: Sequence[float]) -> FinitePair:
    """Return the pair of two finite distributions, output by output."""
    both = [(a, b) for a, b in zip(p, q, strict=True) if a > 0 and b > 0]
    failure = math.fsum(a for a, b in zip(p, q, strict=True) if b == 0)
    losses = tuple(math.log(a) - math.log(b) for a, b in both)
    absent = math.fsum(b for a, b in zip(p, q, strict=True) if a == 0)
    return FinitePair(losses, tuple(math.log(a) for a, _ in both), failure, absent)
