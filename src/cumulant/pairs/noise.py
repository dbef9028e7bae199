"""Noise: the law of u = log dP/dQ that each kind states, and the pairs of its samples.

What sampling makes of a law is in `maps`. A parameter 1/σ that was rounded up comes with σ, from which balls are made.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from cumulant.neighbors import ADD_REMOVE, Neighbors
from cumulant.numerics.balls import constant, erf, reciprocal_ball
from cumulant.numerics.logspace import Array, reciprocal_up
from cumulant.pairs.atoms import Atoms, Reversed, Sampled
from cumulant.pairs.coordinate import Branch, CoordinatePair
from cumulant.pairs.exact_atoms import Symmetrised, antithetic_atoms
from cumulant.pairs.finite_pair import finite_pair
from cumulant.pairs.law import Law, NormalMixture
from cumulant.pairs.maps import Antithetic, Envelope, Join, Leave, Replace, SamplingMap
from cumulant.pairs.pair import DominatingPair, GaussianPair

FARTHEST_TILT = 1e9  # of losses of size 1: beyond it doubles do not resolve the peak at the largest loss

Pair = GaussianPair | DominatingPair
Pairs = tuple[Pair, ...]
"""One pair that dominates both directions of neighbours, or one for each: leaving and joining."""

NO_PAIRS: Pairs = (GaussianPair(0.0),)  # nothing is released


class Noise(ABC):
    """A dominating pair, and the pairs of its samples at a rate strictly between 0 and 1."""

    __slots__ = ()

    may_fail: ClassVar[bool] = True
    """Whether an output may reveal everything; the curve says how likely that is."""

    @abstractmethod
    def unsampled(self, relation: Neighbors | None) -> Pairs:
        """Return pairs that dominate the mechanism itself; under no stated relation they dominate under either."""

    def both_directions(self) -> Pairs:
        """Return the pair and its reverse, which some neighbours attain, whatever the relation."""
        return self.unsampled(ADD_REMOVE)

    @abstractmethod
    def sampled(self, sampling: SamplingMap) -> Pair:
        """Return what a map makes of the pair; the envelope of one that is not symmetric does not dominate."""

    def poisson(self, rate: float) -> Pairs:
        """Return the pairs of a Poisson sample under add-or-remove-one: the record leaves, the record joins."""
        return self.sampled(Leave(rate)), self.sampled(Join(rate))

    def antithetic(self, rate: float) -> Pairs | None:
        """Return the pair of a Poisson sample under replace-one; None if it is not known.

        Let (P, Q) dominate a mechanism with a record against the same without it, for all t >= 0. Given the rest of the
        sample, outputs with the record, with another one and without have likelihood ratios X', Y' against the last,
        and H_t = E F(X', Y') with F = (1-γ+γX' - t(1-γ+γY'))_+ jointly convex and submodular. By Blackwell's theorem
        X' = E[X|output] with X distributed like r = dP/dQ under Q, and so is Y'; Jensen's inequality replaces them by
        X and Y, and of all couplings of two such the antithetic one, X = G(U), Y = G(1-U), has the largest E F.

        Holds for:  Poisson sampling, replace-one, every mechanism that the pair dominates; adaptive composition.
        Tightness:  attained where (P, Q) is symmetric and attained by records that oppose one another.
        """
        return None

    def displaced(self, rate: float) -> Pairs:
        """Return the pairs of a sample of fixed size, where the record takes the place of another one."""
        return self.poisson(rate)

    def envelope(self, rate: float) -> Pairs:
        """Return the pair of a sample without replacement under replace-one."""
        return (self.sampled(Envelope(rate)),)

    @property
    def symmetric(self) -> bool:
        """Whether an exchange of outputs turns (P, Q) into (Q, P)."""
        return True

    def farthest_tilt(self, reach: float) -> float:
        """Return up to which tilt the peak of e^{θL} is followed, `reach` standard deviations away, at real orders."""
        return math.inf


@final
@dataclass(frozen=True, slots=True)
class NoRelease(Noise):
    """What no release reveals, sampled or not."""

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        return NO_PAIRS

    def sampled(self, sampling: SamplingMap) -> Pair:
        return NO_PAIRS[0]

    def poisson(self, rate: float) -> Pairs:
        return NO_PAIRS


@final
@dataclass(frozen=True, slots=True)
class GaussianNoise(Noise, NormalMixture):
    """N(μ, 1) against N(0, 1): u = μt - μ²/2. μ may be a column: several laws, whose values at nodes t are rows."""

    mean: Any
    noise: float | None = None  # σ, where the mean is 1/σ rounded up

    extremes, terms, may_fail = (-math.inf, math.inf), 1, False

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        return (GaussianPair(self.mean),)

    def sampled(self, sampling: SamplingMap) -> Pair:
        return CoordinatePair(self, sampling)

    def antithetic(self, rate: float) -> Pairs | None:
        return (CoordinatePair(self, Replace(rate)),)

    def farthest_tilt(self, reach: float) -> float:
        return float(reach / self.mean - 1)

    def batch_key(self, closeness: float) -> int:
        return math.floor(math.log2(self.mean) / closeness)

    def stack(self, laws: Sequence[GaussianNoise]) -> GaussianNoise:
        return GaussianNoise(np.array([law.mean for law in laws])[:, None])

    def in_balls(self) -> GaussianNoise:
        return GaussianNoise(reciprocal_ball(self.mean, self.noise))

    @property
    def several(self) -> bool:
        return isinstance(self.mean, np.ndarray)

    def components(self, rate: Any) -> Iterable[tuple[Any, Any]]:
        return (1 - rate, 0 * rate), (rate, self.steepest)

    def log_ratio(self, t: Any) -> Any:
        return self.mean * (t - self.mean / 2)  # nothing cancels: t is a double as it stands

    def log_slope(self, t: Any) -> Any:
        return np.log(self.mean)

    @property
    def steepest(self) -> Any:
        return float(np.max(self.mean)) if self.several else self.mean

    def bend_on(self, low: float, high: float, largest_spread: Callable[[Array], Array]) -> float:
        """Return the largest μ²m'', rounded up."""
        spread = largest_spread(self.log_ratio(np.array([low, high])))
        return float(np.max(np.square(self.mean) * spread)) * (1 + 1e-11)

    @property
    def strip(self) -> float:
        return float(0.95 * math.pi / self.steepest)

    @property
    def log_square(self) -> Any:
        """Of e^{μ²} - 1."""
        near = np.minimum(self.mean, 1.0)
        return near * near + 2 * np.log(near)

    @property
    def even(self) -> Any:
        return self.mean / 2

    @property
    def log_variation(self) -> Any:
        """1 - 2Φ(-μ/2) = erf(μ/√8)."""
        return np.log(erf(self.mean / np.sqrt(constant(8.0, self.mean))))


def gaussian_noise(noise_multiplier: float) -> GaussianNoise:
    """Return N(1/σ, 1) against N(0, 1), the mean rounded up."""
    return GaussianNoise(reciprocal_up(noise_multiplier), noise_multiplier)


@final
@dataclass(frozen=True, slots=True)
class LaplaceNoise(Noise, Law):
    """Laplace(1, b) against Laplace(0, b), θ = 1/b: u = t has density e^{-(t+θ)/2}/4 on [-θ, θ], and atoms at ±θ."""

    theta: Any
    scale: float | None = None  # b, where θ is 1/b rounded up

    curvature, least_curvature, resolved, steepest, terms, may_fail = 0.0, 0.0, 2.0, 1.0, 1, False

    def antithetic(self, rate: float) -> Pairs | None:
        return (CoordinatePair(self, Antithetic(rate)),)

    def farthest_tilt(self, reach: float) -> float:
        return float(FARTHEST_TILT / max(self.theta, 1.0))

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        return (self.sampled(Leave(1.0)),)

    def sampled(self, sampling: SamplingMap) -> Pair:
        return CoordinatePair(self, sampling)

    def in_balls(self) -> LaplaceNoise:
        return LaplaceNoise(reciprocal_ball(self.theta, self.scale))

    @property
    def extremes(self) -> tuple[Any, Any]:
        return -self.theta, self.theta

    @property
    def atoms(self) -> tuple[tuple[Any, Any], ...]:
        log_half = np.log(constant(0.5, self.theta))
        return (-self.theta, log_half), (self.theta, log_half - self.theta)

    def log_ratio(self, t: Any) -> Any:
        return t

    def log_slope(self, t: Any) -> Any:
        return 0.0

    def bend_on(self, low: float, high: float, largest_spread: Callable[[Array], Array]) -> float:
        return 0.25

    def log_density(self, t: Any) -> Any:
        return -(t + self.theta) / 2 - np.log(constant(4.0, self.theta))

    def span_start(self, branch: Branch, theta: float) -> Any:
        return -self.theta

    def span_end(self, branch: Branch, theta: float) -> Any:
        return self.theta

    @property
    def even(self) -> Any:
        return 0 * self.theta

    @property
    def log_variation(self) -> Any:
        """1 - e^{-θ/2}."""
        return np.log(-np.expm1(-self.theta / 2))

    def log_density_bound(self, low: Any, high: Any, y: Any) -> Any:
        return self.log_density(low)


@final
@dataclass(frozen=True, slots=True)
class FiniteNoise(Noise):
    """Finitely many outputs: P with the record against Q without it.

    Under add-or-remove-one and zero-out the record is there in every release or in none, so all releases go one way,
    and both are kept. Under replace-one neighbours have no order: one release may be (P, Q), the next (Q, P). Then the
    pair is `Symmetrised`, which dominates each.
    """

    atoms: Atoms

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        if relation is not None and relation.joins:
            return self.both_directions()
        return (finite_pair(self._symmetrised().atoms),)

    def both_directions(self) -> Pairs:
        if self.atoms.symmetric:
            return (finite_pair(self.atoms),)
        return finite_pair(self.atoms), finite_pair(Reversed(self.atoms))

    def sampled(self, sampling: SamplingMap) -> Pair:
        return finite_pair(Sampled(self.atoms, sampling))

    def antithetic(self, rate: float) -> Pairs | None:
        atoms = antithetic_atoms(self.atoms, rate)
        return None if atoms is None else (finite_pair(atoms),)

    def displaced(self, rate: float) -> Pairs:
        return self._symmetrised().poisson(rate)

    def envelope(self, rate: float) -> Pairs:
        return (self._symmetrised().sampled(Envelope(rate)),)

    def _symmetrised(self) -> FiniteNoise:
        return self if self.symmetric else FiniteNoise(Symmetrised(self.atoms))

    @property
    def symmetric(self) -> bool:
        return self.atoms.symmetric
