"""Gaussian noise on a batch drawn without replacement, under replace-one: the supremum over all triples.

The envelope (`without_replacement.known_envelope_loss`) joins two halves that different datasets attain. For Gaussian
noise the worst dataset can be searched instead: it is described by one number.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, final

import numpy as np

from cumulant.loss.cgf import Cgf, projected
from cumulant.loss.likelihood_ratio import mixture_ratio
from cumulant.loss.pair_family import Pairs
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import REPLACE_ONE, Neighbors
from cumulant.numerics.logspace import Array, exp_excess, log1p_deficit
from cumulant.parameters import positive, probability, require
from cumulant.sampling.mixture import at_most
from cumulant.sampling.without_replacement import SampledWithoutReplacement, envelope_loss

KNOTS = tuple(2.0 ** (k / 4) for k in range(-8, 25))  # λ up to 64: beyond, the envelope is as good
RESOLVED = 0.01  # the supremum is enclosed to this relative width, and the upper end is used
MOST_CELLS = 200
ACCURACY = 30.0  # the rule's discretisation error is e^-30 of a typical moment less 1 ...
INTEGRATION_ERROR = 1e-9  # ... and this is added, relative
TINIEST_SEARCHED = 1e-9  # Φ - 1 of smaller rates drowns in rounding; the loss grows with the rate
USELESS = 30.0  # beyond this K the two bounds agree


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SharpenedGaussianBatch(AbstractMechanism):
    """Gaussian noise on a random subset of fixed size under replace-one: the same release as `without_replacement`.

    Its loss is the smaller of the envelope and the search over triples, which takes a second or two, once.

    >>> from cumulant import Gaussian
    >>> step = Gaussian(noise_multiplier=1.0).without_replacement(rate=0.01)
    >>> (step * 1000).epsilon(delta=1e-5) > 2.19, (step.sharpened() * 1000).epsilon(delta=1e-5) < 2.15
    (True, True)
    """

    theorem: ClassVar[str] = "Gaussian batches without replacement, searched over triples (Kahane's comparison)"

    noise_multiplier: float
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", positive("noise_multiplier", self.noise_multiplier))
        rate = probability("rate", self.rate)
        require(0 < rate < 1, "rate must be strictly between 0 and 1", self.rate)
        object.__setattr__(self, "rate", rate)

    def pairs(self, relation: Neighbors | None) -> Pairs | None:
        return self._batch().pairs(relation)

    def attained_pairs(self, relation: Neighbors | None) -> Pairs | None:
        return self._batch().attained_pairs(relation)

    def _batch(self) -> SampledWithoutReplacement:
        return SampledWithoutReplacement(mechanism=Gaussian(noise_multiplier=self.noise_multiplier), rate=self.rate)

    def pairs_attained(self, relation: Neighbors | None) -> bool:
        return False

    @property
    def sharper_by_rdp(self) -> bool:
        return True

    @property
    def neighbors(self) -> Neighbors:
        return REPLACE_ONE

    @property
    def fixed_size(self) -> bool:
        return True

    @property
    def failure_probability(self) -> float:
        return 0.0

    def loss(self) -> Cgf:
        envelope = envelope_loss(Gaussian(noise_multiplier=self.noise_multiplier), self.rate)
        return at_most(envelope, gaussian_triples_loss(1.0 / self.noise_multiplier, max(self.rate, TINIEST_SEARCHED)))


@lru_cache(maxsize=128)
def gaussian_triples_loss(mean: float, rate: float) -> Cgf:
    """Return K(λ) under replace-one of Gaussian noise on a batch, μ = 1/σ in units of the replace-one sensitivity.

    Coupling the batches leaves p = (1-γ)N(a) + γN(b) against q = (1-γ)N(a) + γN(c) with a, b, c at distance <= μ. With
    X, Y the likelihood ratios of N(b), N(c) to N(a), which are exponentials of Gaussians of variances s = |b-a|²,
    t = |c-a|² and covariance ρ,

        e^{K(λ)} = sup Φ(s, t, ρ),   Φ = E[(1-γ+γX)^α (1-γ+γY)^{1-α}],   α = λ + 1.

    By Kahane's comparison Φ grows with s and t and falls with ρ, and it grows if s and t grow alike at a fixed distance
    |b-c|: so the supremum is over Φ(μ², τ, τ/2) and Φ(τ, μ², τ/2), 0 <= τ <= μ². It may lie inside (equilateral
    triples), so it is enclosed: on τ₁ <= τ <= τ₂ the two are at most Φ(μ², τ₂, τ₁/2) and Φ(τ₂, μ², τ₁/2).

    Holds for:  replace-one, batches of fixed size, isotropic Gaussian noise, any dimension; adaptive composition.
    Tightness:  exact for queries that attain all triples, but for the width of the enclosure and chords between knots.
    """
    points: list[tuple[float, float]] = []
    for lam in KNOTS:
        k = math.log1p(_supremum(lam, mean * mean, rate))
        if k > USELESS:
            break
        points.append((lam, k))
    return projected(points)


def _supremum(lam: float, variance: float, rate: float) -> float:
    """Return an upper bound of sup Φ - 1, by splitting the cell of τ that has the largest bound."""
    families = (Triples(lam, variance, rate, True), Triples(lam, variance, rate, False))
    edges = np.linspace(0.0, variance, 5).tolist()
    cells = [(-f.excess(a, b), a, b, i) for i, f in enumerate(families) for a, b in pairwise(edges)]
    heapq.heapify(cells)
    attained = max(f.excess(tau, tau) for f in families for tau in (0.0, variance))
    for _ in range(MOST_CELLS):
        highest, a, b, i = cells[0]
        if -highest <= attained * (1 + RESOLVED):
            break
        heapq.heappop(cells)
        middle = (a + b) / 2
        attained = max(attained, families[i].excess(middle, middle))
        for low, high in ((a, middle), (middle, b)):
            heapq.heappush(cells, (-families[i].excess(low, high), low, high, i))
    # the largest bound left is an upper bound however early the search ends
    return -cells[0][0] * (1 + INTEGRATION_ERROR)


@final
@dataclass(frozen=True, slots=True)
class Triples:
    """The triples in which one of b, c is at the full distance from a, and the other at τ.

    `far_is_first`: b is the far one, whose mixture has the power α; else c is, whose mixture has 1 - α.
    """

    lam: float
    variance: float
    rate: float
    far_is_first: bool

    def excess(self, covariance_twice: float, near_variance: float) -> float:
        """Return Φ - 1 for covariance τ₁/2 and the near variance τ₂, by the trapezoidal rule in two dimensions.

        The integrand is analytic, so the rule converges exponentially; subtracting the linear terms, whose mean is 0,
        keeps the relative accuracy of Φ - 1.
        """
        big, rho = math.sqrt(self.variance), covariance_twice / 2
        slope = rho / big
        spread = math.sqrt(max(near_variance - slope * slope, 0.0))
        power = 1.0 + self.lam
        far_top, near_top = (power * big, 0.0) if self.far_is_first else (power * slope, power * spread)
        x = _grid(far_top, self._step(big))
        y = _grid(near_top, self._step(spread)) if spread > 0 else np.zeros(1)
        far = mixture_ratio(big * x - self.variance / 2, self.rate)
        near = mixture_ratio(slope * x[:, None] + spread * y - near_variance / 2, self.rate)
        far_2d = (far[0][:, None], far[1][:, None])
        first, second = (far_2d, near) if self.far_is_first else (near, far_2d)
        return _mean_excess(_log_normal(x)[:, None] + _log_normal(y), power, first, second)

    def _step(self, scale: float) -> float:
        """Return a step for which the rule's error is e^-ACCURACY of a typical moment less 1."""
        if scale == 0:
            return 1.0
        # a strip free of zeros of the mixture, in which the negative power stays moderate
        strip = min(3.0, 1.5 / scale, math.sqrt(80.0 / self.lam) / scale)
        small = max(0.0, -math.log(min(1.0, (self.lam + self.lam**2) * self.rate**2 * self.variance / 2)))
        return 2 * math.pi * strip / (ACCURACY + strip * strip / 2 + small)


def _log_normal(x: Array) -> Array:
    """Return logarithms of standard normal weights of equidistant points."""
    weights: Array = np.exp(-x * x / 2)
    return -x * x / 2 - math.log(float(np.sum(weights)))


def _grid(top: float, step: float) -> Array:
    """Return points from -10 to top + 10 in steps through 0."""
    points: Array = step * np.arange(-math.ceil(10 / step), math.ceil((top + 10) / step) + 1, dtype=float)
    return points


def _mean_excess(log_weights: Array, power: float, first: tuple[Array, Array], second: tuple[Array, Array]) -> float:
    """Return the mean of (1+u)^α (1+v)^{1-α} - 1 - αu - (1-α)v from (u, log(1+u)) and (v, log(1+v))."""
    (u, log_u), (v, log_v) = first, second
    x = power * log_u + (1 - power) * log_v
    quadratic = (power - 1) * _deficit(v, log_v) - power * _deficit(u, log_u)
    with np.errstate(over="ignore"):
        # where e^x might overflow, e^x e^{log weight} does not; leaving out -1 - x there is the safe side
        powers = np.where(x < 30.0, 0.0, np.exp(log_weights + x))
    near = np.where(x < 30.0, exp_excess(np.minimum(x, 30.0)), 0.0) + quadratic
    return float(np.sum(np.exp(log_weights) * near) + np.sum(powers))


def _deficit(u: Array, log_w: Array) -> Array:
    return np.where(np.abs(u) < 0.1, log1p_deficit(np.clip(u, -0.1, 0.1)), u - log_w)
