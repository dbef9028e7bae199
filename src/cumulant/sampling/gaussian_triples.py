"""Gaussian noise on a batch drawn without replacement, under replace-one: the supremum over all triples.

The envelope (`mixture.envelope_curve`) joins two halves that different datasets attain. For Gaussian
noise the worst dataset can be searched instead: it is described by one number.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, final

import numpy as np

from cumulant.curves.curve import Curve, at_most, projected, total
from cumulant.inversion.shared_profile import SharedProfile
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.known import Known, Relation
from cumulant.neighbors import REPLACE_ONE, Neighbors
from cumulant.numerics.logspace import Array, exp_excess, log1p_deficit, reciprocal_up
from cumulant.parameters import inner_probability, positive
from cumulant.profiles.from_curve import profile_from_orders
from cumulant.profiles.profile import PrivacyProfile, smaller_profile
from cumulant.profiles.to_pair import pair_of_profile
from cumulant.sampling.adaptive_batches import adaptive_profile
from cumulant.sampling.without_replacement import SampledWithoutReplacement

SEARCHED_TILTS = tuple(2.0 ** (k / 4) for k in range(-8, 25))  # λ up to 64: beyond, the envelope is as good
RESOLVED = 0.01  # the supremum is enclosed to this relative width, and the upper end is used
MOST_CELLS = 200  # of τ
MOST_NODES = 2e7  # of all cells together, at one λ
ACCURACY = 30.0  # the rule's proven error, which is added, is about e^-30 of a typical moment less 1
INTEGRATION_ERROR = 1e-9  # for the rounding of sums, relative
TINIEST_SEARCHED = 1e-9  # Φ - 1 of smaller rates drowns in rounding; the loss grows with the rate
MOST_STEPS = 2000  # of one recursion: more are blocks of so many, composed
LARGEST_LOG = 600.0  # log r beyond which r - 1 is not kept
USELESS_NATS = 30.0  # beyond this K the two bounds agree


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SharpenedGaussianBatch(AbstractMechanism):
    """Gaussian noise on a random subset of fixed size under replace-one: the release of `without_replacement`.

    Its loss is the smaller of the envelope and the search over triples, which takes a second or two, once. Many of them
    together are known by `adaptive_batches`, seconds more, once for every number of them.

    >>> from cumulant import Gaussian
    >>> step = Gaussian(noise_multiplier=1.0).without_replacement(rate=0.01)
    >>> (step * 1000).epsilon(delta=1e-5) > 2.19, (step.sharpened() * 1000).epsilon(delta=1e-5) < 1.885
    (True, True)
    """

    theorem: ClassVar[str] = "Gaussian batches without replacement, searched over triples (Kahane's comparison)"

    noise_multiplier: float
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", positive("noise_multiplier", self.noise_multiplier))
        object.__setattr__(self, "rate", inner_probability("rate", self.rate, "must be strictly between 0 and 1"))

    @property
    def neighbors(self) -> Neighbors:
        return REPLACE_ONE

    def _known(self) -> Known:
        noise = Gaussian(noise_multiplier=self.noise_multiplier)
        batch = SampledWithoutReplacement(mechanism=noise, rate=self.rate)._known()
        return replace(
            Known.by_curve(lambda: self._curve(batch.curve()), fixed_size=True),
            directions=batch.directions,
            attained=batch.attained,
            sharper_curve=True,
            repeated=self._repeated,
        )

    def _repeated(self, count: int) -> Known:
        """Many batches: the recursion, in blocks of which each takes seconds; a block's profile is one pair.

        The worst queries of a block may be others at every ε; a pair that has its profile is above them all.
        """
        blocks = -(-count // MOST_STEPS)
        size = -(-count // blocks)  # with the last block filled up
        known = replace(self._known(), repeated=None)

        def pairs(relation: Relation) -> Directions | None:
            profile = profile_of_block(self, size)
            pair = None if profile is None else pair_of_profile(profile)
            return _times(known.directions(relation), count) if pair is None else (((pair, blocks),),)

        return replace(
            known,
            curve=lambda: total([(known.curve(), count)]),
            directions=pairs,
            attained=lambda relation: _times(known.attained(relation), count),
            profile=lambda: profile_of_block(self, size) if blocks == 1 else None,
            single=blocks == 1,
        )

    def _curve(self, envelope: Curve) -> Curve:
        mean = reciprocal_up(self.noise_multiplier)
        return at_most(envelope, gaussian_triples_loss(mean, max(self.rate, TINIEST_SEARCHED)))


def _times(directions: Directions | None, count: int) -> Directions | None:
    """Return the pairs of several releases of one kind."""
    return directions and tuple(tuple((pair, n * count) for pair, n in pairs) for pairs in directions)


@lru_cache(maxsize=32)
def profile_of_block(batch: SharpenedGaussianBatch, count: int) -> PrivacyProfile | None:
    """Return the profile of a block of batches: the least of the recursion, the envelope and Rényi DP, if known.

    The recursion's errors show at the smallest δ, and where its lattice is coarse.
    """
    found, known = adaptive_profile(batch.noise_multiplier, batch.rate, count), batch._known()
    envelope = _times(known.directions(None), count)
    if found is None or envelope is None:
        return None
    shared = SharedProfile(envelope)
    by_pairs = PrivacyProfile.of(lambda epsilons: shared.bounds(epsilons)[0])
    by_orders = profile_from_orders(total([(known.curve(), count)]))
    return smaller_profile(smaller_profile(found, by_pairs), by_orders)


@lru_cache(maxsize=128)
def gaussian_triples_loss(mean: float, rate: float) -> Curve:
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
    for lam in SEARCHED_TILTS:
        # E (1-γ+γX)^α >= γ^α E X^α is attained
        if (1 + lam) * (math.log(rate) + lam * mean * mean / 2) > USELESS_NATS:
            break
        k = math.log1p(_supremum(lam, mean * mean, rate))
        if k > USELESS_NATS:
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
    enough = min(MOST_CELLS, MOST_NODES / families[0].nodes)
    while len(cells) < enough:
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
        """Return Φ - 1 for covariance τ₁/2 and the near variance τ₂ by the trapezoidal rule, its error added.

        The linear terms, whose mean is 0, are subtracted at every node, which keeps the relative accuracy of Φ - 1.
        With e bounding the rule's relative error of Φ and e₁ its error of the linear terms, both by `Rule`,
        Φ - 1 <= (S + e + e₁)/(1 - e) for the sum S.
        """
        big, rho = math.sqrt(self.variance), covariance_twice / 2
        slope = rho / big
        spread = math.sqrt(max(near_variance - slope * slope, 0.0))
        along = Rule.of(self.lam, *((big, slope) if self.far_is_first else (slope, big)), self._accuracy)
        across = Rule.of(self.lam, *((0.0, spread) if self.far_is_first else (spread, 0.0)), self._accuracy)
        x, y = along.nodes(), across.nodes()
        far = _excess_and_log(big * x - self.variance / 2, self.rate)
        near = _excess_and_log(slope * x[:, None] + spread * y - near_variance / 2, self.rate)
        far_2d = (far[0][:, None], far[1][:, None])
        first, second = (far_2d, near) if self.far_is_first else (near, far_2d)
        log_weights = along.log_weights(x)[:, None] + across.log_weights(y)
        found = _mean_excess(log_weights, 1.0 + self.lam, first, second)
        error = (1 + along.error) * (1 + across.error) - 1
        linear = 5 * (1 + self.lam) * ((1 + along.linear_error) * (1 + across.linear_error) - 1)
        return (found + error + linear) / (1 - error)

    @property
    def nodes(self) -> int:
        """How many nodes an integral takes, about."""
        big = math.sqrt(self.variance)
        return math.prod(len(Rule.of(self.lam, a, big, self._accuracy).nodes()) for a in (big, 0.0))

    @property
    def _accuracy(self) -> float:
        """How small errors should be, as -log: ACCURACY below a typical Φ - 1."""
        typical = self.lam * (1 + self.lam) * self.rate * self.rate * self.variance / 2
        return ACCURACY - math.log(min(1.0, typical))


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """A trapezoidal rule for φ(x) G(x), G = (1-γ+γX)^α (1-γ+γY)^{1-α}, log X = ax + ..., log Y = bx + ..., a, b >= 0.

    Discretisation: f = φG is analytic for |Im x| <= d < π/max(a, b), where |φ(x+id)| = φ(x) e^{d²/2},
    |1-γ+γX| is at most its value at Re x, and, as |A + Be^{iθ}| >= (A+B) cos(θ/2), |1-γ+γY| at least cos(bd/2) times
    its. So the sum over all nodes is off ∫f by at most the part 2 e^{d²/2} cos(bd/2)^{-λ} / (e^{2πd/h} - 1) of it
    (Trefethen and Weideman 2014, Theorem 5.1); 1, X and Y, whose sums are theta functions, by 2/(e^{2π²/h²} - 1).

    Truncation: -λb <= (log G)' <= αa. With x₀ = αa, what is beyond x₀ + R is at most G(x₀) e^{-x₀²/2} Pr[N > R], and
    ∫f >= G(x₀) φ(x₀) ∫_0^1 e^{-u²/2} du: the part 3 Pr[N > R] at most; likewise below -λb - R. What is left out of 1, X
    and Y is at most Pr[N > R] either side, as the nodes reach R beyond their peaks 0, a and b.

    In two dimensions errors multiply: the other variable may be summed or integrated first, as f > 0.
    """

    low: float
    high: float
    step: float
    error: float
    linear_error: float

    @classmethod
    def of(cls, lam: float, a: float, b: float, accuracy: float) -> Rule:
        """Return the rule with the longest step for errors of about e^-accuracy; it is exact without X and Y."""
        if a == b == 0:
            return cls(0.0, 0.0, 1.0, 0.0, 0.0)
        reach = math.sqrt(2 * accuracy + 4)
        outside = 0.4 * math.exp(-reach * reach / 2) / reach  # Pr[N > R] < φ(R)/R
        d = np.linspace(0.02, 0.99, 60) * min(math.pi / max(a, b), accuracy)  # any will do, the best is taken
        log_growth = d * d / 2 - lam * np.log(np.cos(b * d / 2))
        step = float(np.max(2 * math.pi * d / (accuracy + 1 + log_growth)))
        step = min(step, math.pi * math.sqrt(2 / (accuracy + 2)))
        waves = 2 * math.pi * d / step
        best = int(np.argmin(log_growth - waves))
        error = _decayed(float(waves[best]), growth=float(log_growth[best]))
        theta = _decayed(2 * (math.pi / step) ** 2)
        return cls(
            low=-lam * b - reach,
            high=max((1 + lam) * a, b) + reach,
            step=step,
            error=(error + 6 * outside) * (1 + 1e-9),
            linear_error=(theta + 2 * outside) * (1 + 1e-9),
        )

    def nodes(self) -> Array:
        """Return the multiples of the step from below `low` to above `high`."""
        first, last = math.floor(self.low / self.step), math.ceil(self.high / self.step)
        return self.step * np.arange(first, last + 1, dtype=float)

    def log_weights(self, x: Array) -> Array:
        """Return log hφ(x); a single node stands for all."""
        return -x * x / 2 + (math.log(self.step / math.sqrt(2 * math.pi)) if self.high > self.low else 0.0)


def _decayed(waves: float, *, growth: float = 0.0) -> float:
    """Return 2 e^growth / (e^waves - 1)."""
    return 2 * math.exp(growth - waves) / -math.expm1(-waves)


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


def _excess_and_log(log_ratio: Array, rate: float) -> tuple[Array, Array]:
    """Return (w - 1, log w) of w = 1 - γ + γr; w - 1 is capped where it would overflow."""
    excess = rate * np.expm1(np.minimum(log_ratio, LARGEST_LOG))
    # away from w = 1 the logarithms of the two parts are added: 1 + excess would have lost the digits of 1 - γ
    apart = np.logaddexp(math.log1p(-rate), math.log(rate) + log_ratio)
    return excess, np.where(np.abs(excess) < 0.5, np.log1p(np.clip(excess, -0.5, 0.5)), apart)
