"""Groups of records under Gaussian noise, each sampled by itself: a law of its own, which includes the sampling."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.numerics.balls import as_ball, reciprocal_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.gaussian_mixture import GaussianMixtureLaw
from cumulant.pairs.maps import ABOVE, Join, Leave
from cumulant.pairs.noise import GaussianNoise, Pairs

if TYPE_CHECKING:
    from flint import arb


def grouped_pairs(noise: GaussianNoise, rate: float, size: int) -> Pairs:
    """Return the pairs of a group of `size` records, each in a Poisson sample of its own: it leaves, it joins."""
    if size == 1:
        return noise.poisson(rate)
    law = GroupedGaussian(noise.mean, rate, size, noise.noise)
    return CoordinatePair(law, Leave(1.0)), CoordinatePair(law, Join(1.0))


@final
@dataclass(frozen=True, slots=True)
class GroupedGaussian(GaussianMixtureLaw):
    """u(t) = log Σ_j Bin(k,γ)(j) e^{jμt - j²μ²/2}: k records of one group, each sampled at rate γ, against N(0)."""

    mean: float
    rate: float
    size: int
    noise: float | None = None  # σ, where μ is 1/σ rounded up

    @property
    def terms(self) -> int:
        return self.size + 1

    @property
    def extremes(self) -> tuple[float, float]:
        return self.size * math.log1p(-self.rate) * ABOVE if self.rate < 1 else -math.inf, math.inf

    @property
    def means(self) -> Array:
        return _binomial(self.size, self.rate)[0] * self.mean

    @property
    def log_shares(self) -> Array:
        return _binomial(self.size, self.rate)[1]

    def mean_balls(self) -> Sequence[arb]:
        mean = reciprocal_ball(self.mean, self.noise)
        return [j * mean for j in range(self.size + 1)]

    def share_balls(self) -> Sequence[arb]:
        rate = as_ball(self.rate)
        return [math.comb(self.size, j) * rate**j * (1 - rate) ** (self.size - j) for j in range(self.size + 1)]

    def growth_balls(self, t: arb) -> Iterable[arb]:
        """Return powers of e^{μt}."""
        growth = (reciprocal_ball(self.mean, self.noise) * t).exp()
        return accumulate(repeat(growth, self.size), operator.mul, initial=as_ball(1.0))

    @property
    def log_square(self) -> float:
        near = min(self.steepest, 1.0)
        return 2 * math.log(self.rate) + near * near + 2 * math.log(near)


@cache
def _binomial(size: int, rate: float) -> tuple[Array, Array]:
    """Return j = 0..k and log Bin(k,γ)(j)."""
    from scipy.special import gammaln

    j = np.arange(size + 1.0)
    ways = gammaln(size + 1.0) - gammaln(j + 1) - gammaln(size - j + 1)
    log_rest = math.log1p(-rate) if rate < 1 else -math.inf
    with np.errstate(invalid="ignore"):
        misses = np.where(j < size, (size - j) * log_rest, 0.0)
    return j, ways + j * math.log(rate) + misses
