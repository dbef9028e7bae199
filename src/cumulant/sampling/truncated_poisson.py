"""Poisson sampling into batches of a largest size: of a sample that is larger, a uniform subset of that size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple, final

import numpy as np

from cumulant.curves.curve import Array, Curve, at_least, at_most
from cumulant.errors import InvalidParameter, OutOfReach, UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.known import QUADRATURE_ERROR, Known, curve_of_pair, one_release
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.numerics.binomial import Binomial
from cumulant.numerics.binomial_sum import binomial_log_sum
from cumulant.numerics.logspace import log_mean
from cumulant.numerics.rounding import ROUNDING, float_above
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.maps import CoordinateMap, Join, Leave, Replace
from cumulant.pairs.mixed import MixedPair
from cumulant.pairs.noise import Pairs, gaussian_noise
from cumulant.pairs.opposed import FarAgainstNear, NearAgainstFar
from cumulant.parameters import probability, ratio_above, require, whole_number
from cumulant.sampling.mixture import TINIEST_RATE, convex_bound, mixture_curve
from cumulant.sampling.poisson import REPLACED_REACH, PoissonSampled, replaced_gaussian_curve
from cumulant.sampling.relation import checked_relation

LARGEST_POPULATION = 10**9  # records: beyond, sums over the sizes of samples take too many terms
LEAST_SHARE = 1e-250  # of samples that are cut: a probability below it is taken for twice that
FARTHEST_BOUNDS = 1e-8  # in nats, of bounds of a probability that are of use

ONE_SIZE = (
    "batches of a largest size are known for one number of records, which a sample of them does not have; sample once, "
    "at the product of the rates"
)
WHICH_POPULATION = (
    "max_batch needs population=, the exact number of records, which is public: under add-or-remove-one that of the "
    "larger data set. Truncation is not monotone in the size of the data, so neither a bound nor a guess will do"
)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TruncatedPoisson(AbstractMechanism):
    """Gaussian noise on a Poisson sample at rate γ, of which at most B records are kept, drawn uniformly.

    That is a batch that is padded to B records and cut to B, as programs need whose arrays have one shape. A record
    takes the place of another one where the sample is cut, so what is added moves by up to two contributions.

    n is the `population`, exact and public. Under add-or-remove-one it is the size of the larger of the two data sets:
    the answer is for data sets of n and n-1 records, so for each of n people against the same data without them. For
    somebody who would join n people, ask with n+1. Under zero-out and replace-one both data sets have n records.

    Let N' ~ Bin(n-1, γ) others be sampled. Whether N' >= B has one law in both data sets, so it may be told:

    - N' < B: nothing is cut with or without the record: the Poisson sample, at rate γ.
    - N' >= B, of probability p: the batch without the record is a uniform B-subset of the others, whatever N' is. With
      it, with probability γB/(N'+1), one of these gives its place to it. The mean of that is γ̄, with
      pγ̄ = (B/n) Pr[Bin(n,γ) > B]. So with a the sum of the B-1 that stay, y the one that goes, and joint convexity,
      outputs are (1-γ̄)N(a+y) + γ̄N(a+x) against what the relation puts in the place of x.

    Add-or-remove-one: against N(a+y), |x-y| <= 2: N(2) inside the mixture against N(0), and the reverse.
    Zero-out: against (1-γ̄)N(a+y) + γ̄N(a). Against N(a+y) the ratios are lognormal of mean 1, with log-deviations
    |x-y| <= 2 and |y| <= 1 over σ. H_t = E F(X, Y) with F convex in both and submodular, so the antithetic coupling of
    the largest two is the worst (`Noise.antithetic`): N(2) against N(-1), each inside the mixture with N(0); and the
    reverse. The pair of add-or-remove-one does not dominate there.
    Replace-one: against (1-γ̄)N(a+y) + γ̄N(a+x'), |x'-y| <= 2: N(2) against N(-2); and N(1) against N(-1) where nothing
    is cut.

    Holds for:  all three relations; any dimension; adaptive composition. Sums are divided by a fixed number, and who is
                kept is drawn uniformly, whoever they are: the first B of a stored order are not covered.
    Tightness:  upper bound. Each part is attained, but no noise tells whether a sample was cut.

    >>> step = TruncatedPoisson(mechanism=Gaussian(noise_multiplier=1.0), rate=0.01, max_batch=130, population=10_000)
    >>> round((step * 1000).epsilon(delta=1e-5), 5)
    3.66981
    """

    theorem: ClassVar[str] = "truncated Poisson sampling by the dominating pairs of whole and of cut samples"

    mechanism: Gaussian
    rate: float
    max_batch: int
    population: int
    relation: Neighbors = ADD_REMOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", probability("rate", self.rate))
        checked_relation("truncated Poisson sampling", self.relation, self.mechanism, needs=ADD_REMOVE)
        if not isinstance(self.mechanism, Gaussian):
            raise UnprovenCombination(
                "batches of a largest size are proven here for Gaussian noise, not for "
                f"{type(self.mechanism).__name__}; leave out max_batch= and release every batch as it is"
            )
        if self.population is None:
            raise InvalidParameter(WHICH_POPULATION)
        object.__setattr__(self, "max_batch", whole_number("max_batch", self.max_batch, at_least=1))
        object.__setattr__(self, "population", whole_number("population", self.population, at_least=1))
        rule = f"population must be at most {LARGEST_POPULATION}"
        require(self.population <= LARGEST_POPULATION, rule, self.population)

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    @property
    def _whole(self) -> PoissonSampled:
        """The sample of which nothing is cut."""
        return PoissonSampled(mechanism=self.mechanism, rate=self.rate, relation=self.relation)

    def _known(self) -> Known:
        """A sample that is never cut is what it is without a largest size, but for the number of records."""
        if self.max_batch >= self.population or self.rate == 0:
            return replace(self._whole._known(), fixed_size=True, no_samples=ONE_SIZE)
        return Known(
            curve=self._curve,
            directions=lambda _: one_release(_pairs(self)),
            attained=lambda _: self._attained(),
            tight=lambda _: False,
            profile=lambda: None,
            failure=lambda: 0.0,
            fixed_size=True,
            no_samples=ONE_SIZE,
        )

    @property
    def _cut(self) -> CutSamples:
        return cut_samples(self.rate, self.max_batch, self.population)

    def _attained(self) -> Directions | None:
        """Of others who add nothing it is the Poisson sample at the rate at which the record is in a batch."""
        rate = max(rate_in_batch(self.rate, self.max_batch, self.population), 0.0)
        return replace(self._whole, rate=rate)._known().attained(self.relation)

    def _curve(self) -> Curve:
        """Return K = log((1-p)e^{K of whole samples} + pe^{K of cut ones}), of whichever direction is the larger."""
        cut = self._cut
        far = _curve_of_cut(self.mechanism.noise_multiplier, cut.rate, self.relation)
        if cut.share == 1:
            return replace(far, exact=False)
        whole, shares = self._whole._known().curve(), np.array([cut.rest, cut.share])

        def log_moment(lam: Array) -> Array:
            rows = np.stack([whole.log_moment(lam), far.log_moment(lam)])
            small = np.log1p(shares @ np.expm1(np.minimum(rows, 1.0)))
            large = log_mean(rows.T, np.log(shares))
            return np.asarray(np.where(np.max(rows, axis=0) < 1, small, large) * (1 + QUADRATURE_ERROR))

        kl = float(shares @ [whole.kl, far.kl]) * (1 + QUADRATURE_ERROR)
        return Curve(log_moment=log_moment, kl=kl, pure=max(whole.pure, far.pure), exact=False, summed=True)


# How often a sample is cut --------------------------------------------------------------------------------------------


class CutSamples(NamedTuple):
    """How likely samples are cut and are not, and the rate at which the record takes another one's place in them."""

    share: float
    rest: float
    rate: float


@lru_cache(maxsize=1024)
def cut_samples(rate: float, size: int, population: int) -> CutSamples:
    """Return p' <= p and γ' >= pγ̄/p', whose pair dominates that of p and γ̄.

    With k = p'/p, a mixture with a share γ̄ of one law in the place of another is, of a mixture with γ̄/k, the mixture
    of probability k with nothing at all. By joint convexity that reveals less than to be told which it was: with B(γ̄)
    the H_t of cut samples, B(γ̄) <= kB(γ̄/k) + (1-k)(1-t)_+. So with A of whole samples, which is at least (1-t)_+,

        (1-p)A + pB(γ̄)  <=  (1-p)A + (p-p')(1-t)_+ + p'B(γ̄/k)  <=  (1-p')A + p'B(γ̄/k).

    A and B grow with their rates, and p and pγ̄ with γ. So p' is taken a double below γ, pγ̄ and A at γ: that covers a
    γ that was rounded up as well. (ε itself does not grow with γ, nor with p.)

    Where doubles do not hold p it is rounded up, and γ̄ <= γ is taken for γ: then B is at least A, N(2) being at least
    N(1), and so the more likely the worse.

    Holds for:  all three relations, which mix at the same rate on both sides.
    """
    if rate == 1:
        return CutSamples(1.0, 0.0, ratio_above(size, population))
    share = math.exp(_log_at_least(population - 1, math.nextafter(rate, 0.0), size)[0]) * (1 - ROUNDING)
    if share < LEAST_SHARE:
        return CutSamples(2 * LEAST_SHARE, 1.0, rate)
    in_cut = math.exp(_log_at_least(population, rate, size + 1)[1]) * ratio_above(size, population)  # pγ̄
    return CutSamples(share, float_above(1 - Fraction(share)), in_cut / share * (1 + ROUNDING))


def rate_in_batch(rate: float, size: int, population: int) -> float:
    """Return from below how likely the record is in a batch: γ Pr[N' < B] + (B/n) Pr[N > B], which grows with γ."""
    below = math.nextafter(rate, 0.0)
    whole = below * (1 - math.exp(_log_at_least(population - 1, below, size)[1]))
    cut = size / population * math.exp(_log_at_least(population, below, size + 1)[0])
    return (whole + cut) * (1 - 1e-12)


def _log_at_least(n: int, rate: float, least: int) -> tuple[float, float]:
    """Return bounds of log Pr[Bin(n, rate) >= least], 0 < rate < 1."""
    law = Binomial.of(n, rate, 1 - rate)
    low, high = binomial_log_sum(law, lambda ell: (0 * ell, 0 * ell, 0 * ell), first=least, last=n)
    if high - low > FARTHEST_BOUNDS:
        raise OutOfReach(f"the sizes of samples of {n} records are too many to be summed")
    return low, min(high, 0.0)


# What a cut sample reveals --------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _pairs(sample: TruncatedPoisson) -> Pairs:
    """Return the pairs of one release, the order in which the record leaves first; see `TruncatedPoisson`."""
    cut = sample._cut
    far = _pairs_of_cut(sample.mechanism.noise_multiplier, cut.rate, sample.relation)
    if cut.share == 1:
        return tuple(MixedPair(((1.0, pair),)) for pair in far)
    noise, rate = gaussian_noise(sample.mechanism.noise_multiplier), sample.rate
    moves: tuple[CoordinateMap, ...] = (Leave(rate), Join(rate)) if sample.relation.joins else (Replace(rate),)
    whole = [CoordinatePair(noise, move) for move in moves]
    return tuple(MixedPair(((cut.rest, a), (cut.share, b))) for a, b in zip(whole, far, strict=True))


def _pairs_of_cut(noise_multiplier: float, rate: float, relation: Neighbors) -> tuple[CoordinatePair, ...]:
    """Return in which directions, and how far, what takes the place of another record moves the mean."""
    noise = gaussian_noise(noise_multiplier / 2)
    moves: dict[Neighbors, tuple[CoordinateMap, ...]] = {
        ADD_REMOVE: (Leave(rate), Join(rate)),
        ZERO_OUT: (FarAgainstNear(rate, noise.mean, noise.noise), NearAgainstFar(rate, noise.mean, noise.noise)),
        REPLACE_ONE: (Replace(rate),),
    }
    return tuple(CoordinatePair(noise, move) for move in moves[relation])


def _curve_of_cut(noise_multiplier: float, rate: float, relation: Neighbors) -> Curve:
    """Return K of a cut sample, of either direction; under zero-out far orders have the bound of N(2) against N(-1)."""
    if relation is ADD_REMOVE:
        return mixture_curve(Gaussian(noise_multiplier=noise_multiplier / 2)._known(), rate)
    if relation is REPLACE_ONE:
        return replaced_gaussian_curve(noise_multiplier / 2, rate)
    rate = max(rate, TINIEST_RATE)
    far = convex_bound(Gaussian(noise_multiplier=noise_multiplier / 3)._known().curve(), rate)
    pairs = _pairs_of_cut(noise_multiplier, rate, relation)
    return at_least(*(_not_above(pair, far) for pair in pairs))


def _not_above(pair: CoordinatePair, far: Curve) -> Curve:
    return at_most(curve_of_pair(pair, REPLACED_REACH / pair.law.steepest - 1, lambda: far), far)
