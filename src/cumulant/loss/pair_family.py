"""What sampling makes of a dominating pair: one family for each shape of noise.

Poisson sampling at rate γ of a mechanism that (P, Q) dominates is dominated by ((1-γ)Q + γP, Q) when the record leaves
and by (P, (1-γ)P + γQ) when it joins (Zhu, Dong and Wang 2022, Theorem 11); neither order is always the worse, so both
are kept. Sampling without replacement is dominated by the envelope, the first for t >= 1 and the second for t < 1
(Proposition 30). For a symmetric (P, Q) the second is (Q, (1-γ)Q + γP) as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.loss.finite_pair import FinitePair
from cumulant.loss.mixture_ratio import log_mixture
from cumulant.loss.pair import DominatingPair, GaussianPair
from cumulant.loss.sampled_pair import (
    added_gaussian,
    added_laplace,
    envelope_gaussian,
    envelope_laplace,
    removed_gaussian,
    removed_laplace,
)
from cumulant.numerics.logspace import Array

Pair = GaussianPair | DominatingPair
Pairs = tuple[Pair, ...]
"""One pair that dominates both orders of neighbours, or one for each: leaving and joining."""

NO_PAIRS: Pairs = (GaussianPair(0.0),)  # nothing is released


class PairFamily(ABC):
    """A dominating pair, and the pairs of its samples at a rate strictly between 0 and 1."""

    __slots__ = ()

    @abstractmethod
    def unsampled(self) -> Pairs: ...

    @abstractmethod
    def poisson(self, rate: float) -> Pairs:
        """Return the pairs of a Poisson sample under add-or-remove-one: the record leaves, the record joins."""

    @abstractmethod
    def envelope(self, rate: float) -> Pairs | None:
        """Return the pair of a sample without replacement under replace-one."""


@final
@dataclass(frozen=True, slots=True)
class GaussianFamily(PairFamily):
    mean: float

    def unsampled(self) -> Pairs:
        return (GaussianPair(self.mean),)

    def poisson(self, rate: float) -> Pairs:
        return removed_gaussian(self.mean, rate), added_gaussian(self.mean, rate)

    def envelope(self, rate: float) -> Pairs:
        return (envelope_gaussian(self.mean, rate),)


@final
@dataclass(frozen=True, slots=True)
class LaplaceFamily(PairFamily):
    theta: float

    def unsampled(self) -> Pairs:
        return (removed_laplace(self.theta, 1.0),)

    def poisson(self, rate: float) -> Pairs:
        return removed_laplace(self.theta, rate), added_laplace(self.theta, rate)

    def envelope(self, rate: float) -> Pairs:
        return (envelope_laplace(self.theta, rate),)


@final
@dataclass(frozen=True, slots=True)
class FiniteFamily(PairFamily):
    """Finitely many outputs; `pairs` is one for both orders, or (with the record, without it) and the reverse."""

    pairs: tuple[FinitePair, ...]

    def unsampled(self) -> Pairs:
        return self.pairs

    def poisson(self, rate: float) -> Pairs:
        return left(self.pairs[0], rate), joined(self.pairs[-1], rate)

    def envelope(self, rate: float) -> Pairs | None:
        """Mixing the two orders step by step may be worse than either, so only a pair for both orders has one."""
        return (enveloped(self.pairs[0], rate),) if len(self.pairs) == 1 else None


def left(pair: FinitePair, rate: float) -> FinitePair:
    """Return ((1-γ)Q + γP, Q), output by output; what P lacks has ratio 1 - γ."""
    losses, p = pair.columns()
    mixed = _raised(np.append(log_mixture(losses, rate), math.log1p(-rate)))
    q = np.append(p * np.exp(-losses), pair.absent)
    return FinitePair.of(mixed, q * np.exp(mixed), rate * pair.failure, 0.0)


def joined(pair: FinitePair, rate: float) -> FinitePair:
    """Return (P, (1-γ)P + γQ), output by output; what Q lacks has ratio 1/(1-γ)."""
    losses, p = pair.columns()
    mixed = _raised(np.append(-log_mixture(-losses, rate), -math.log1p(-rate)))
    return FinitePair.of(mixed, np.append(p, pair.failure), 0.0, rate * pair.absent)


def enveloped(pair: FinitePair, rate: float) -> FinitePair:
    """Return the envelope: leaving where P is the larger, joining where Q is, and an atom at 0 for the rest."""
    losses, p = pair.columns()
    above, below = losses > 0, losses < 0
    up, down = log_mixture(losses[above], rate), -log_mixture(-losses[below], rate)
    masses = np.concatenate([p[above] * np.exp(up - losses[above]), p[below]])
    rest = max(1 - rate * pair.failure - float(np.sum(masses)), 0.0)
    where = _raised(np.concatenate([up, down, [0.0]]))
    return FinitePair.of(where, np.append(masses, rest), rate * pair.failure, rate * pair.absent)


def _raised(losses: Array) -> Array:
    """Return losses rounded up."""
    return losses + np.abs(losses) * 2.0**-51
