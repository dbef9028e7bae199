"""Poisson sampling: every record joins the sample independently with probability γ."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from cumulant.curves.curve import Curve, at_most
from cumulant.errors import UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.known import Known, curve_of_pair, one_release
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.pure_dp import PureDP
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, Neighbors
from cumulant.numerics.rounding import float_above
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.gaussian_mixture import grouped_pairs
from cumulant.pairs.maps import Replace
from cumulant.pairs.noise import NO_PAIRS, Pairs, gaussian_noise
from cumulant.pairs.sampled_gaussian import SampledReleases
from cumulant.parameters import by_name, probability
from cumulant.profiles.profile import PrivacyProfile
from cumulant.profiles.sampling import gaussian_place, poisson_profile, replaced_profile
from cumulant.sampling.mixture import (
    NO_LOSS,
    TINIEST_RATE,
    antithetic_curve,
    convex_bound,
    envelope_curve,
    mixture_curve,
)
from cumulant.sampling.relation import checked_relation, lower_moment, rate_is_close

LARGEST_GROUP = 64  # records whose binomial mixture is followed; larger groups have a bound by Rényi DP
REPLACED_REACH = 400.0  # standard deviations up to which the peak of an order is followed


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PoissonSampled(AbstractMechanism):
    """A mechanism on a Poisson sample.

    The unit of noise is the largest contribution of one record, for both relations: in DP-SGD the clipping norm.

    Add-or-remove-one (the default), and zero-out, for which `Neighbors.joins` proves the same: `mixture.mixture_curve`,
    exact, for Gaussian, Laplace, randomized response and pure DP; `poisson_theorems.poisson_tight` for any RDP curve.
    Replace-one: the pair N(+1) against N(-1) inside the
    mixture for the Gaussian, exact; for others the envelope of the mechanism on groups of two.

    >>> from cumulant import Gaussian
    >>> step = Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
    >>> round((step * 1000).epsilon(delta=1e-5, method="rdp"), 4)
    2.1008
    """

    theorem: ClassVar[str] = "Poisson sampling (Zhu and Wang 2019, Theorems 6 and 8; exact at real orders)"

    mechanism: AbstractMechanism
    rate: float
    relation: Neighbors = ADD_REMOVE
    rounded_up_by: float = field(default=0.0, repr=False)  # how far the rate may be above the product it stands for

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", probability("rate", self.rate))
        object.__setattr__(self, "rounded_up_by", probability("rounded_up_by", self.rounded_up_by))
        checked_relation("Poisson sampling", self.relation, self.mechanism, needs=ADD_REMOVE)
        if self.mechanism._known().fixed_size:
            raise UnprovenCombination(
                "a Poisson sample has no fixed size, so a batch of fixed size inside it has no fixed rate; "
                "draw the batch first, or Poisson-sample twice"
            )

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    def _known(self) -> Known:
        base = self.mechanism._known
        return Known(
            curve=lambda: self._curve(base()),
            directions=lambda _: self._directions(base()),
            attained=lambda _: self._attained(base()),
            tight=lambda _: self._is_tight(base()),
            profile=lambda: self._profile(base()),
            failure=lambda: self._failure(base()),
            together=self._together,
            attained_together=lambda size: self._lowered()._together(size),
            least_rdp=lambda order: self._least_rdp(base(), order),
            sampled=self._sampled(),
        )

    def _sampled(self) -> SampledReleases | None:
        """Return the parameters of Gaussian noise under add-or-remove-one, the mean rounded up."""
        if not isinstance(self.mechanism, Gaussian) or self.relation is REPLACE_ONE:
            return None
        if self.rounded_up_by > 0 and not rate_is_close(self.rate, self.rounded_up_by):  # it would not be exact
            return None
        return SampledReleases.of(math.nextafter(1 / self.mechanism.noise_multiplier, math.inf), self.rate, 1)

    def _curve(self, base: Known) -> Curve:
        if self.rate == 0:
            return NO_LOSS
        if self.relation.joins:
            return base.curve() if self.rate == 1 else mixture_curve(base, self.rate)
        if isinstance(self.mechanism, Gaussian) and self.rate < 1:
            return replaced_gaussian_curve(self.mechanism.noise_multiplier, self.rate)
        two, pairs = self._two(), self._antithetic(base)
        chained = two.curve() if self.rate == 1 else envelope_curve(two, self.rate)
        return chained if pairs is None else antithetic_curve(pairs[0], base, chained)

    def _two(self) -> Known:
        """Under replace-one a record leaves and another one joins: groups of two."""
        return self.mechanism.group(size=2)._known()

    def _directions(self, base: Known) -> Directions | None:
        """Zhu, Dong and Wang (2022), Theorem 11, in both directions; under replace-one see `_replaced`.

        A rate of 1 is the limit of rates below it: the mechanism itself, and under replace-one groups of two.
        """
        if self.rate == 0:
            return one_release(NO_PAIRS)
        if self.relation is REPLACE_ONE:
            return self._replaced(base)
        if self.rate == 1:
            return base.directions(self.relation)
        return None if base.noise is None else one_release(base.noise.poisson(self.rate))

    def _replaced(self, base: Known) -> Directions | None:
        """Return the antithetic pair, of Gaussian noise N(+1) against N(-1) inside the mixture; else an envelope."""
        two, pairs = self._two(), self._antithetic(base)
        if pairs is None and self.rate == 1:
            return two.directions(REPLACE_ONE)
        if pairs is None and two.noise is not None:
            pairs = two.noise.envelope(self.rate)
        return None if pairs is None else one_release(pairs)

    def _antithetic(self, base: Known) -> Pairs | None:
        """Where two records reveal no more than one, as of one bit, the envelope is the better.

        Of everyone, Gaussian and Laplace noise reveal what they do of groups of two.
        """
        everyone = self.rate == 1 and isinstance(self.mechanism, Gaussian | Laplace)
        if base.noise is None or everyone or self.mechanism.group(size=2) == self.mechanism:
            return None
        return base.noise.antithetic(self.rate)

    def _attained(self, base: Known) -> Directions | None:
        """Under replace-one a record may be replaced by one that contributes nothing: as if it left."""
        if self.rounded_up_by > 0:
            return self._lowered()._attained(base)
        if self.rate == 0 or (self.relation is REPLACE_ONE and self._opposes()):
            return self._directions(base)
        if self.rate == 1:
            return base.attained(ADD_REMOVE)  # a record may be replaced by a null one, too
        if base.attained_noise is None:
            return self._directions(base)
        return one_release(base.attained_noise.poisson(self.rate))

    def _opposes(self) -> bool:
        """Return whether some records make likelihood ratios rise and fall against each other."""
        return isinstance(self.mechanism, Gaussian | Laplace | PureDP)

    def _lowered(self) -> PoissonSampled:
        """What is attained has the product itself for its rate, or less."""
        return replace(self, rate=max(self.rate - 2 * self.rounded_up_by, 0.0), rounded_up_by=0.0)

    def _is_tight(self, base: Known) -> bool:
        if self.relation is REPLACE_ONE and not self._opposes():
            return self.rate == 0
        return base.tight(ADD_REMOVE) and rate_is_close(self.rate, self.rounded_up_by)

    def _together(self, size: int) -> Directions | None:
        """Return mixtures of N(j), j binomial: math in `GroupedGaussian`; the group moves as one.

        With all records of the group equal every inner product is largest, so by Kahane's comparison the pair
        dominates, and one dataset attains it (Ganesh 2024).
        """
        if self.rate == 0:
            return one_release(NO_PAIRS)
        if self.rate == 1:
            several = size if self.relation.joins else 2 * size
            return self.mechanism.group(size=several)._known().directions(self.relation)
        if not isinstance(self.mechanism, Gaussian) or self.relation is REPLACE_ONE or size > LARGEST_GROUP:
            return None
        return one_release(grouped_pairs(gaussian_noise(self.mechanism.noise_multiplier), self.rate, size))

    def _failure(self, base: Known) -> float:
        may_fail = self._two() if self.relation is REPLACE_ONE else base
        return self._curve(base).failure if may_fail.failure() > 0 else 0.0

    def _profile(self, base: Known) -> PrivacyProfile | None:
        profile = base.profile()
        if profile is None:
            return None
        if self.relation.joins:
            return poisson_profile(profile, rate=self.rate)
        if isinstance(self.mechanism, Gaussian) and self.rate > 0:
            mean = gaussian_noise(self.mechanism.noise_multiplier).mean
            return replaced_profile(profile, rate=self.rate, place=gaussian_place(mean, self.rate))
        if isinstance(self.mechanism, Laplace):  # half of all ratios are the least one
            return replaced_profile(profile, rate=self.rate, place=lambda epsilon: profile.pure)
        return None

    def _least_rdp(self, base: Known, order: float) -> float:
        """Return the RDP that is attained: Zhu and Wang (2019), Theorem 6, at integer orders.

        Holds for:  add-or-remove-one, zero-out; mechanisms that attain their RDP at one pair.
        """
        if self.relation is REPLACE_ONE:
            raise UnprovenCombination("a lower bound is known for Poisson sampling under add-or-remove-one only")
        return lower_moment(base, self.rate, order)

    def _plain(self) -> dict[str, Any]:
        content = AbstractMechanism._plain(self)
        return {name: value for name, value in content.items() if name != "rounded_up_by" or value > 0}

    @by_name
    def poisson(self, *, rate: float, neighbors: Neighbors | None = None, **options: Any) -> AbstractMechanism:
        """Thinning twice is thinning once, at the product of the rates, whichever relation is asked about."""
        plain = not any(value not in (None, 1) for value in options.values())
        if plain and self.relation is ADD_REMOVE and neighbors in (None, *Neighbors):
            exactly = Fraction(self.rate) * Fraction(probability("rate", rate))
            product = float_above(exactly)
            return PoissonSampled(
                mechanism=self.mechanism,
                rate=product,
                relation=neighbors or ADD_REMOVE,
                rounded_up_by=0.0 if product == exactly else product - math.nextafter(product, 0.0),
            )
        return AbstractMechanism.poisson(self, rate=rate, neighbors=neighbors, **options)


def replaced_gaussian_curve(noise_multiplier: float, rate: float) -> Curve:
    """Return K(λ) = log E_q[(p/q)^α], p = (1-γ)N(0) + γN(μ), q = (1-γ)N(0) + γN(-μ), μ = 1/σ, α = λ + 1.

    The pair dominates Gaussian noise on a sum of records of norm at most 1 of which one is replaced: H_t is, for
    t >= 1, an expectation of a function of Gaussian likelihood ratios with non-negative mixed derivatives, so by
    Kahane's comparison it grows with the inner products, which are largest for opposite records; t < 1 mirrors it.
    Far orders have the bound of both mixed with one distribution, N(+1) against N(-1).

    Holds for:  replace-one, Poisson sampling, any dimension; adaptive composition.
    Tightness:  attained by one pair of datasets, so exact.
    """
    noise, rate = gaussian_noise(noise_multiplier), max(rate, TINIEST_RATE)
    far = convex_bound(Gaussian(noise_multiplier=noise_multiplier / 2)._known().curve(), rate)
    near = curve_of_pair(CoordinatePair(noise, Replace(rate)), REPLACED_REACH / noise.mean - 1, lambda: far)
    return at_most(near, far)
