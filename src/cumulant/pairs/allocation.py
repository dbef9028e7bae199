"""A record that joins one of t steps of Gaussian noise, drawn uniformly: its dominating pair in both directions.

With r_i = e^{μx_i - μ²/2}, x_i ~ N(0, 1) under Q, and S = r_1 + … + r_t: dP/dQ = S/t. The loss is ℓ = log(S/t) where
the record leaves, and -ℓ where it joins. ℓ is a sum of μ times the mean of the x_i, of variance μ²/t, and something
independent (`numerics.lognormal_sum`), so that for every a = x + iω

    |E_Q (S/t)^a| <= e^{-ω²μ²/2t} E_Q (S/t)^x,

which ends lines in both directions, and makes sums over points of step h equal to integrals: by Poisson's summation
they are apart by what is left of M beyond the frequency 2π/h - ω.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.decay import Cells
from cumulant.numerics.lognormal_sum import log_density_of_sum
from cumulant.numerics.logspace import Array
from cumulant.numerics.quadrature import shortened
from cumulant.numerics.search import smallest_true
from cumulant.pairs.cache import CACHE
from cumulant.pairs.discrete import DiscreteLosses
from cumulant.pairs.pair import DominatingPair

LARGEST_RATIO_MEAN, LEAST_SPREAD, MOST_STEPS = 12.0, 1e-4, 100_000  # beyond: overflow, rounding, minutes
STEP = 0.16  # between points, of the width of the Gaussian part
ALIAS_NATS = 37.0  # below M(θ), where frequencies may be aliases
DEEPEST, DEEPEST_NATS = 17.0, 150.0  # standard deviations of one x, and nats, beyond which losses are left out
SOFT = 1.5  # width of the cut, of that of the Gaussian part
STEEPEST, FEWEST_TILTS = 16.0, 8.0  # tilts that are followed: over the width of the Gaussian part, and at least
BEYOND = 9.0  # standard deviations after which a normal law is over
ENDS_NATS = 42.0  # below the largest, where a tilted law may end
MOST_DOUBTED = 1e-9  # share of a tilted law by which its masses may be off
TILTS = np.linspace(0.0, 1.0, 5)  # of the largest, where that is looked at
MOST_POINTS = 40_000  # of a law
PLACE_ROUNDING = 2.0**-51  # relative, of places and of log t


@final
@dataclass(frozen=True, slots=True, eq=False)
class RatioLaw:
    """ℓ = log(S/t) at points, log of the masses there under Q, and how far each may be off, relatively."""

    ratios: Array
    log_masses: Array
    doubts: Array
    slip: float


class LossRange(NamedTuple):
    """Where ℓ begins to count, log S where it ends, ℓ that next to nothing of P exceeds, and the place c of the cut."""

    low: float
    high: float
    farthest: float
    cut: float


class AllocatedPair(DominatingPair):
    """What both directions share: μ = 1/σ, rounded up, and t >= 2."""

    __slots__ = ()

    mean: float
    steps: int
    supremum = math.inf
    octaves = 1

    @abstractmethod
    def _seen(self, law: RatioLaw) -> tuple[Array, Array]:
        """Return losses and the logarithms of their masses under the neighbour that comes first."""

    @property
    def _spread(self) -> float:
        """The width of the Gaussian part of the loss."""
        return self.mean / math.sqrt(self.steps)

    def nodes(self, theta: float, omega: float) -> DiscreteLosses:
        """Return points on which M is right to where the Gaussian part ends every line, and beyond.

        Tilts for which the law ends too soon, or masses are not known well enough, are out of reach.
        """
        law = _law(self.mean, self.steps)
        if omega > 2 * math.pi / (STEP * self._spread) - math.sqrt(2 * ALIAS_NATS / self.gaussian_variance):
            raise OutOfReach(f"the law of {self.steps} steps is not followed to a frequency of {omega:g}")
        losses, log_masses = self._seen(law)
        tilted = log_masses + theta * TILTS[:, None] * losses
        peak = np.max(tilted, axis=1, keepdims=True)
        shares = np.exp(tilted - peak)
        doubt = float(np.max(shares @ law.doubts / np.sum(shares, axis=1)))
        if np.any(tilted[:, [0, -1]] > peak - ENDS_NATS) or not doubt <= MOST_DOUBTED:
            raise OutOfReach(f"the law of {self.steps} steps is not followed to a tilt of {theta:g}")
        missing, doubts = self.left_out, law.doubts
        return DiscreteLosses.of(losses, log_masses, loss_units=2.0, slip=law.slip, missing=missing, uncertainty=doubts)

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        """Return none: the Gaussian part says it all."""
        return Cells.of_atoms(np.zeros(0), np.zeros(0))

    def count_nodes(self, theta: float, omega: float) -> float:
        reach = range_of_losses(self.mean, self.steps)
        return (reach.high - reach.low - math.log(self.steps)) / (STEP * self._spread)

    def waves(self, theta: float) -> float:
        return 0.0


@final
@dataclass(frozen=True, slots=True)
class LeavesOneOf(AllocatedPair):
    """(P, Q): the record leaves. Far losses are cut off softly: what is left is P where ℓ + wg < c, g ~ N(0, 1).

    Given ℓ + wg and all else, the Gaussian part of ℓ, of variance τ², is a Gaussian of variance τ²w²/(τ²+w²).
    """

    mean: float
    steps: int

    @property
    def gaussian_variance(self) -> float:  # type: ignore[override]
        return self._spread**2 * SOFT**2 / (1 + SOFT**2) * (1 - 1e-12)

    @property
    def left_out(self) -> float:  # type: ignore[override]
        return _left_out(self.mean, self.steps)

    def _seen(self, law: RatioLaw) -> tuple[Array, Array]:
        from scipy.special import log_ndtr

        kept = log_ndtr((range_of_losses(self.mean, self.steps).cut - law.ratios) / (SOFT * self._spread))
        return law.ratios, law.log_masses + law.ratios + kept


@final
@dataclass(frozen=True, slots=True)
class JoinsOneOf(AllocatedPair):
    """(Q, P): the record joins. The losses are those of Q, negative: no far ones."""

    mean: float
    steps: int

    @property
    def gaussian_variance(self) -> float:  # type: ignore[override]
        return self._spread**2 * (1 - 1e-12)

    def _seen(self, law: RatioLaw) -> tuple[Array, Array]:
        return -law.ratios, law.log_masses


@CACHE.remember
def _law(mean: float, steps: int) -> RatioLaw:
    low, high, _, _ = range_of_losses(mean, steps)
    step = shortened(STEP * mean / math.sqrt(steps))
    if (high - low - math.log(steps)) / step > MOST_POINTS:
        raise OutOfReach(f"the law of a sum of {steps} likelihood ratios takes more than {MOST_POINTS} points")
    density, doubts = log_density_of_sum(mean, steps, low, high, step)
    slip = PLACE_ROUNDING * (float(np.max(np.abs(density.places))) + math.log(steps))
    return RatioLaw(density.places - math.log(steps), density.values + math.log(step), doubts, slip)


@CACHE.remember
def _left_out(mean: float, steps: int) -> float:
    """Return the mass of P that the soft cut takes, and what `range_of_losses` leaves beyond, rounded up."""
    from scipy.special import ndtr

    law, cut = _law(mean, steps), range_of_losses(mean, steps).cut
    taken = np.exp(law.log_masses + law.ratios) * ndtr((law.ratios - cut) / (SOFT * mean / math.sqrt(steps)))
    return float(np.sum(taken * (1 + law.doubts)) + steps * ndtr(-DEEPEST) + math.exp(-DEEPEST_NATS)) * (1 + 1e-9)


def followed_steps(mean: float, steps: int) -> int:
    """Return how many steps are followed, at most these: 1, noise on everyone, where doubles do not hold ratios.

    Fewer steps dominate. One of t + 1, drawn uniformly, is one of t that are left when a step is struck out at random,
    and that step tells nothing; H_t is jointly convex, so it is at most the mean over the step that is struck out.
    """
    if mean > LARGEST_RATIO_MEAN:
        return 1
    return max(int(min(steps, MOST_STEPS, (mean / LEAST_SPREAD) ** 2)), 1)


@CACHE.remember
def range_of_losses(mean: float, steps: int) -> LossRange:
    """Return where losses count.

    From below S/t is at least the geometric mean of the r_i, whose logarithm is N(-μ²/2, μ²/t). From above, under P one
    x_i has the mean μ. All x_i are at most X = μ + DEEPEST, so all r_i at most R, but for t·Φ(-DEEPEST) of P; then S is
    at most R + t - 1 + y but for exp(-(v/b²) h(by/v)), b = R - 1, v = (t-1)(e^{μ²}-1), h(x) = (1+x) log(1+x) - x
    (Bennett's inequality for the min{r_i, R} - 1, which have no positive mean, and are at most b).
    """
    if followed_steps(mean, steps) < steps:
        raise OutOfReach(f"doubles do not hold the likelihood ratios of {steps} steps at 1/σ = {mean:g}")
    spread, largest = mean / math.sqrt(steps), math.exp(mean * (mean + DEEPEST) - mean * mean / 2)
    b, v = largest - 1, (steps - 1) * math.expm1(mean * mean)

    def is_deep(y: float) -> bool:
        x = b * y / v
        return (v / b**2) * ((1 + x) * math.log1p(x) - x) >= DEEPEST_NATS

    above = smallest_true(is_deep, 0.0, 2 * DEEPEST_NATS * b + 2 * math.sqrt(DEEPEST_NATS * v), relative=1e-3)
    steepest = max(STEEPEST / spread, FEWEST_TILTS) * (SOFT * spread) ** 2  # how far a tilt moves a normal law
    farthest = math.log((steps - 1 + above + largest) / steps)
    cut = farthest + 1.5 * DEEPEST * SOFT * spread
    low = -mean * mean / 2 - (STEEPEST + BEYOND) * spread
    return LossRange(low, cut + math.log(steps) + steepest + BEYOND * SOFT * spread, farthest, cut)
