"""Poisson sampling: every record joins the sample independently with probability γ."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from cumulant.answer import Interval
from cumulant.curves.curve import Curve
from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.names import by_name
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, Neighbors
from cumulant.numerics.rounding import float_above
from cumulant.pairs.grouped_gaussian import grouped_pairs
from cumulant.pairs.noise import NO_PAIRS, Pairs
from cumulant.parameters import probability
from cumulant.profiles.profile import PrivacyProfile
from cumulant.profiles.sampling import poisson_profile
from cumulant.sampling.mixture import NO_LOSS, finite_sampled_loss, mixture_loss
from cumulant.sampling.relation import checked_relation, lower_moment
from cumulant.sampling.replaced_pair import gaussian_replace_one_loss
from cumulant.sampling.without_replacement import envelope_loss

LARGEST_GROUP = 64  # records whose binomial mixture is followed; larger groups have a bound by Rényi DP


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PoissonSampled(AbstractMechanism):
    """A mechanism on a Poisson sample.

    The unit of noise is the largest contribution of one record, for both relations: in DP-SGD the clipping norm.

    Add-or-remove-one (the default): `mixture.known_mixture_loss`, exact, for Gaussian, Laplace, randomized response and
    pure DP; `poisson_theorems.poisson_tight` for any RDP curve. Replace-one: the pair N(+1) against N(-1) inside the
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
        if self.mechanism.fixed_size:
            raise UnprovenCombination(
                "a Poisson sample has no fixed size, so a batch of fixed size inside it has no fixed rate; "
                "draw the batch first, or Poisson-sample twice"
            )

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    def loss(self) -> Curve:
        if self.rate == 0:
            return NO_LOSS
        known = finite_sampled_loss(self.mechanism, self.rate, self.pairs)
        if known is not None:
            return known
        if self.relation is REPLACE_ONE:
            return self._replace_one_loss()
        return self.mechanism.loss() if self.rate == 1 else mixture_loss(self.mechanism, self.rate)

    def _replace_one_loss(self) -> Curve:
        if self.rate == 1:
            return self.mechanism.group(size=2).loss()
        if isinstance(self.mechanism, Gaussian):
            return gaussian_replace_one_loss(self.mechanism.noise_multiplier, self.rate)
        return envelope_loss(self.mechanism.group(size=2), self.rate)

    def pairs(self, relation: Neighbors | None) -> Pairs | None:
        """Zhu, Dong and Wang (2022), Theorem 11, in both orders; under replace-one see `_replaced_pairs`.

        A rate of 1 is the limit of rates below it: the mechanism itself, and under replace-one groups of two.
        """
        if self.rate == 0:
            return NO_PAIRS
        if self.relation is REPLACE_ONE:
            return self._replaced_pairs()
        if self.rate == 1:
            return self.mechanism.pairs(ADD_REMOVE)
        family = self.mechanism.noise()
        return None if family is None else family.poisson(self.rate)

    def _replaced_pairs(self) -> Pairs | None:
        """Return N(+1) against N(-1) inside the mixture; for other noise the envelope of groups of two."""
        two = self.mechanism.group(size=2)
        if self.rate == 1:
            return two.pairs(REPLACE_ONE)
        if isinstance(self.mechanism, Gaussian):
            return self.mechanism.noise().replaced(self.rate)
        family = two.noise()
        return None if family is None else family.envelope(self.rate)

    def attained_pairs(self, relation: Neighbors | None) -> Pairs | None:
        """Under replace-one a record may be replaced by one that contributes nothing: as if it left."""
        if self.rounded_up_by > 0:  # what is attained has the product itself for its rate, or less
            below = max(self.rate - 2 * self.rounded_up_by, 0.0)
            return replace(self, rate=below, rounded_up_by=0.0).attained_pairs(relation)
        if self.rate == 0 or (self.relation is REPLACE_ONE and isinstance(self.mechanism, Gaussian)):
            return self.pairs(relation)
        if self.rate == 1:
            return self.mechanism.attained_pairs(ADD_REMOVE)
        family = self.mechanism.attained_noise()
        return self.pairs(relation) if family is None else family.poisson(self.rate)

    def pairs_attained(self, relation: Neighbors | None) -> bool:
        if self.relation is REPLACE_ONE:
            return isinstance(self.mechanism, Gaussian) or self.rate == 0
        return self.mechanism.pairs_attained(ADD_REMOVE)

    def group_pairs(self, size: int) -> Pairs | None:
        """Return mixtures of N(j), j binomial: math in `grouped_gaussian.GroupedGaussian`; the group moves as one.

        With all records of the group equal every inner product is largest, so by Kahane's comparison the pair
        dominates, and one dataset attains it (Ganesh 2024).
        """
        if self.rate == 0:
            return NO_PAIRS
        if self.rate == 1:
            several = size if self.relation is ADD_REMOVE else 2 * size
            return self.mechanism.group(size=several).pairs(self.relation)
        if not isinstance(self.mechanism, Gaussian) or self.relation is REPLACE_ONE or size > LARGEST_GROUP:
            return None
        return grouped_pairs(self.mechanism.noise(), self.rate, size)

    @property
    def failure_probability(self) -> float:
        base = self.mechanism.group(size=2) if self.relation is REPLACE_ONE else self.mechanism
        return self.loss().failure if base.failure_probability > 0 else 0.0

    def known_profile(self) -> PrivacyProfile | None:
        profile = self.mechanism.known_profile()
        if profile is None or self.relation is REPLACE_ONE:
            return None
        return poisson_profile(profile, rate=self.rate)

    def rdp_interval(self, *, order: float) -> Interval:
        """Return the RDP bound and what is attained: Zhu and Wang (2019), Theorem 6, at integer orders.

        Holds for:  add-or-remove-one; lower end for mechanisms that attain their RDP at one pair.
        """
        if self.relation is REPLACE_ONE:
            raise UnprovenCombination("a lower bound is known for Poisson sampling under add-or-remove-one only")
        return Interval(lower_moment(self.mechanism, self.rate, order), self.rdp(order=order))

    def _plain(self) -> dict[str, Any]:
        content = AbstractMechanism._plain(self)
        return {name: value for name, value in content.items() if name != "rounded_up_by" or value > 0}

    @by_name
    def poisson(self, *, rate: float, neighbors: Neighbors | None = None) -> AbstractMechanism:
        """Thinning twice is thinning once, at the product of the rates, whichever relation is asked about."""
        if self.relation is ADD_REMOVE and neighbors in (None, ADD_REMOVE, REPLACE_ONE):
            exactly = Fraction(self.rate) * Fraction(probability("rate", rate))
            product = float_above(exactly)
            return PoissonSampled(
                mechanism=self.mechanism,
                rate=product,
                relation=neighbors or ADD_REMOVE,
                rounded_up_by=0.0 if product == exactly else product - math.nextafter(product, 0.0),
            )
        return AbstractMechanism.poisson(self, rate=rate, neighbors=neighbors)
