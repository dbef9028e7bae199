"""What sampling makes of a dominating pair: one family for each shape of noise.

Poisson sampling at rate γ of a mechanism that (P, Q) dominates is dominated by ((1-γ)Q + γP, Q) when the record leaves
and by (P, (1-γ)P + γQ) when it joins (Zhu, Dong and Wang 2022, Theorem 11); neither order is always the worse, so both
are kept. Sampling without replacement is dominated by the envelope, the first for t >= 1 and the second for t < 1
(Proposition 30). For a symmetric (P, Q) the second is (Q, (1-γ)Q + γP) as well.

Under replace-one a pair that is not symmetric has no "with the record": see `FiniteNoise`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from cumulant.neighbors import ADD_REMOVE, Neighbors
from cumulant.pairs.atoms import Atoms
from cumulant.pairs.finite_pair import finite_pair
from cumulant.pairs.pair import DominatingPair, GaussianPair
from cumulant.pairs.sampled_atoms import Envelope, Join, Leave, Reversed
from cumulant.pairs.sampled_pair import (
    added_gaussian,
    added_laplace,
    envelope_gaussian,
    envelope_laplace,
    removed_gaussian,
    removed_laplace,
)
from cumulant.pairs.symmetrised import Symmetrised

Pair = GaussianPair | DominatingPair
Pairs = tuple[Pair, ...]
"""One pair that dominates both orders of neighbours, or one for each: leaving and joining."""

NO_PAIRS: Pairs = (GaussianPair(0.0),)  # nothing is released


class Noise(ABC):
    """A dominating pair, and the pairs of its samples at a rate strictly between 0 and 1."""

    __slots__ = ()

    @abstractmethod
    def unsampled(self, relation: Neighbors | None) -> Pairs:
        """Return pairs that dominate the mechanism itself; under no stated relation they dominate under either."""

    def both_orders(self) -> Pairs:
        """Return the pair and its reverse, which some neighbours attain, whatever the relation."""
        return self.unsampled(ADD_REMOVE)

    @abstractmethod
    def poisson(self, rate: float) -> Pairs:
        """Return the pairs of a Poisson sample under add-or-remove-one: the record leaves, the record joins."""

    def displaced(self, rate: float) -> Pairs:
        """Return the same for samples of fixed size, where the record takes the place of another one."""
        return self.poisson(rate)

    @abstractmethod
    def envelope(self, rate: float) -> Pairs:
        """Return the pair of a sample without replacement under replace-one."""

    @property
    def symmetric(self) -> bool:
        """Whether an exchange of outputs turns (P, Q) into (Q, P)."""
        return True


@final
@dataclass(frozen=True, slots=True)
class NoRelease(Noise):
    """What no release reveals, sampled or not."""

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        return NO_PAIRS

    def poisson(self, rate: float) -> Pairs:
        return NO_PAIRS

    def envelope(self, rate: float) -> Pairs:
        return NO_PAIRS


@final
@dataclass(frozen=True, slots=True)
class GaussianNoise(Noise):
    mean: float
    noise: float | None = None  # σ, where the mean is 1/σ rounded up

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        return (GaussianPair(self.mean),)

    def poisson(self, rate: float) -> Pairs:
        return tuple(pair(self.mean, rate, noise=self.noise) for pair in (removed_gaussian, added_gaussian))

    def envelope(self, rate: float) -> Pairs:
        return (envelope_gaussian(self.mean, rate, noise=self.noise),)


@final
@dataclass(frozen=True, slots=True)
class LaplaceNoise(Noise):
    theta: float
    scale: float | None = None  # b, where θ is 1/b rounded up

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        return (removed_laplace(self.theta, 1.0, scale=self.scale),)

    def poisson(self, rate: float) -> Pairs:
        return tuple(pair(self.theta, rate, scale=self.scale) for pair in (removed_laplace, added_laplace))

    def envelope(self, rate: float) -> Pairs:
        return (envelope_laplace(self.theta, rate, scale=self.scale),)


@final
@dataclass(frozen=True, slots=True)
class FiniteNoise(Noise):
    """Finitely many outputs: P with the record against Q without it.

    Under add-or-remove-one the record is there in every release or in none, so all releases have one order, and both
    are kept. Under replace-one neighbours have no order: one release may be (P, Q), the next (Q, P). Then the pair is
    `Symmetrised`, which dominates each.
    """

    atoms: Atoms

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        if relation is ADD_REMOVE:
            return self.both_orders()
        return (finite_pair(self._symmetric()),)

    def both_orders(self) -> Pairs:
        if self.atoms.symmetric:
            return (finite_pair(self.atoms),)
        return finite_pair(self.atoms), finite_pair(Reversed(self.atoms))

    def poisson(self, rate: float) -> Pairs:
        return _left_and_joined(self.atoms, Reversed(self.atoms), rate)

    def displaced(self, rate: float) -> Pairs:
        return _left_and_joined(self._symmetric(), self._symmetric(), rate)

    def envelope(self, rate: float) -> Pairs:
        return (finite_pair(Envelope(self._symmetric(), rate)),)

    def _symmetric(self) -> Atoms:
        return self.atoms if self.symmetric else Symmetrised(self.atoms)

    @property
    def symmetric(self) -> bool:
        return self.atoms.symmetric


def _left_and_joined(pair: Atoms, reverse: Atoms, rate: float) -> Pairs:
    """Return ((1-γ)Q + γP, Q) and (Q, (1-γ)Q + γP), the second from the pair (Q, P)."""
    return finite_pair(Leave(pair, rate)), finite_pair(Join(reverse, rate))
