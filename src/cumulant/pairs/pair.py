"""Dominating pairs: two distributions at least as easy to tell apart as any neighbouring outputs.

A mechanism that has one is known exactly; one that has none is known by its CGF or its profile. (P, Q) dominates if

    H_t(M(X) || M(X')) <= H_t(P || Q) for all t >= 0 and all ordered neighbours X, X',   H_t = ∫ (dP - t dQ)_+,

and then the product of pairs dominates an adaptive composition (Zhu, Dong and Wang 2022, Theorem 10).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from cumulant.numerics.decay import Cells
from cumulant.numerics.logspace import Array
from cumulant.pairs.discrete import DiscreteLosses, TiltedNodes

RULE_ERROR = 1e-16  # of rules that are exact to rounding, beside M(θ)
MEAN_ROUNDED_UP = 2.0**-47  # how much the mean of composed Gaussians may be above the true one, relatively


class DominatingPair(ABC):
    """An ordered pair (P, Q); L = log dP/dQ under P, where it is finite; hashable, so node values can be kept."""

    __slots__ = ()

    failure: float = 0.0
    """P(L = ∞), carried apart: the nodes describe P given that L is finite."""

    left_out: float = 0.0
    """How much of P the nodes lack, rounded up."""

    gaussian_variance: float = 0.0
    """v, rounded down, with |M(θ + iω)| <= e^{-ω²v/2} M(θ): as if a Gaussian were a part of the loss."""

    @property
    @abstractmethod
    def supremum(self) -> float:
        """The largest finite loss, inf if there is none."""

    @property
    def log_top_mass(self) -> float:
        """Log P(L = supremum) given that L is finite."""
        return -math.inf

    @abstractmethod
    def nodes(self, theta: float, omega: float) -> DiscreteLosses:
        """Return nodes on which M(z) is exact to rounding for 0 < Re z <= θ and |Im z| <= ω."""

    def nodes_at(self, theta: float, omega: float, k_theta: float) -> TiltedNodes:
        """Return nodes for Re z = θ alone, and |Im z| <= ω; masses are beside e^{k_theta}, about M(θ)."""
        nodes = self.nodes(theta, omega)
        losses, log_masses = nodes.losses[0], nodes.log_masses[0]
        exponents = log_masses + theta * losses - k_theta
        error = RULE_ERROR + float(np.sum(np.exp(exponents) * nodes.uncertainty))
        return replace(TiltedNodes.of(theta, losses, exponents, nodes.loss_units, error), slip=nodes.slip)

    @abstractmethod
    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        """Return the law of the loss tilted by e^{θL - K(θ)}, in cells; K(θ) of several laws is a column."""

    @property
    def total_variation(self) -> float:
        """A bound of sup |P(A) - Q(A)|, where the loss is finite."""
        return 1.0

    @property
    def reveals_nothing(self) -> bool:
        """Whether P and Q are equal."""
        return False

    @property
    def outputs(self) -> int:
        """How many finite losses there are; 0: not finitely many."""
        return 0

    @property
    def has_atoms(self) -> bool:
        """Whether some losses have a probability of their own."""
        return False

    def batch_key(self, closeness: float) -> Hashable:
        """Return what pairs share that can be taken together, their parameters at most about `closeness` octaves apart.

        One that says nothing is of a kind of its own.
        """
        return self

    @staticmethod
    def stack(pairs: Sequence[Any]) -> DominatingPair:
        """Return pairs of one kind as one, whose nodes have a row for each."""
        (pair,) = pairs
        return pair  # type: ignore[no-any-return]

    of_chords: bool = False
    """Whether it is made of chords of a profile, so that no answer from it has more than six digits of the truth."""

    components: int = 1
    """How many laws it is made of, each of which takes nodes."""

    octaves: int = 4
    """How many octaves of tilts share their nodes."""

    is_graded: bool = False
    """Whether large tilts take few nodes more, so that all octaves share them."""

    @abstractmethod
    def count_nodes(self, theta: float, omega: float) -> float:
        """Return about how many nodes there are up to frequency ω, without building them."""

    @abstractmethod
    def waves(self, theta: float) -> float:
        """Return how many nodes more a unit of frequency takes, about."""

    def waves_at(self, theta: float) -> float:
        """Return how many nodes more a unit of frequency takes for one tilt alone, about."""
        return self.waves(theta)

    @property
    def lattice(self) -> LatticeOfLosses | None:
        """The lattice that all losses lie on, if they do."""
        return None


@final
@dataclass(frozen=True, slots=True)
class LatticeOfLosses:
    """Every loss is offset + a multiple of span: as doubles up to `slip`, and in truth up to `error`."""

    offset: float
    span: float
    slip: float
    error: float


@final
@dataclass(frozen=True, slots=True)
class GaussianPair:
    """N(μ, 1) against N(0, 1). Products of such pairs are such a pair, with μ² = Σ μ_i²; K(z) = μ²z(z+1)/2."""

    mean: float

    @staticmethod
    def product(pairs: Sequence[tuple[GaussianPair, int]]) -> GaussianPair:
        there = [(pair.mean, count) for pair, count in pairs if pair.mean > 0 and count > 0]
        largest = max((mean for mean, _ in there), default=0.0)
        if largest == 0 or math.isinf(largest) or [count for _, count in there] == [1]:
            return GaussianPair(largest)  # a single release stays what it is
        squares = math.fsum(count * (mean / largest) ** 2 for mean, count in there)
        return GaussianPair(largest * math.sqrt(squares) * (1 + 2.0**-50))  # up: a larger mean is easier to tell apart
