"""Sampling without replacement: a uniformly random subset of m of n records, γ = m/n."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

from cumulant.curves.curve import Curve
from cumulant.errors import UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.known import Known, one_release
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, Neighbors
from cumulant.pairs.noise import NO_PAIRS
from cumulant.parameters import probability, sampled_rate
from cumulant.profiles.profile import PrivacyProfile
from cumulant.profiles.sampling import amplified_profile
from cumulant.sampling.mixture import NO_LOSS, displaced_curve, envelope_curve
from cumulant.sampling.relation import checked_relation, lower_moment, rate_is_close


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampledWithoutReplacement(AbstractMechanism):
    """A mechanism on a random subset of fixed size.

    The unit of noise is the replace-one sensitivity of the query, for both relations: for a sum of clipped vectors
    that is twice the clipping norm.

    Replace-one (the default): the envelope of `mixture.envelope_curve` where the mechanism's pair is known, else the
    best of `theorem9`, `black_box` and `joint_convexity` at integer orders. Add-or-remove-one, with γ = m/n for the
    larger n: the record added displaces another, so the loss is that of the mixture with a replaced record
    (`mixture.displaced_curve`).

    >>> from cumulant import Gaussian
    >>> step = Gaussian(noise_multiplier=5.0).without_replacement(batch=256, population=25600)
    >>> round((step * 1000).epsilon(delta=1e-5), 4)
    0.2264
    """

    theorem: ClassVar[str] = "sampling without replacement (Wang et al. 2019; envelope of Zhu, Dong and Wang 2022)"

    mechanism: AbstractMechanism
    rate: float
    relation: Neighbors = REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", probability("rate", self.rate))
        checked_relation("sampling without replacement", self.relation, self.mechanism, needs=REPLACE_ONE)

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    def _known(self) -> Known:
        base = self.mechanism._known()
        return Known(
            curve=lambda: self._curve(base),
            directions=lambda _: self._directions(base),
            attained=lambda _: self._attained(base),
            tight=lambda _: self._is_attained and base.tight(REPLACE_ONE),
            profile=lambda: self._profile(base),
            failure=lambda: self._curve(base).failure if base.failure() > 0 else 0.0,
            least_rdp=lambda order: self._least_rdp(base, order),
            fixed_size=True,
        )

    def _curve(self, base: Known) -> Curve:
        if self.rate == 0:
            return NO_LOSS
        if self.rate == 1:
            return base.curve()
        return displaced_curve(base, self.rate) if self._displaces else envelope_curve(base, self.rate)

    @property
    def _displaces(self) -> bool:
        """Whether the record takes the place of another one: under add-or-remove-one."""
        return self.relation is ADD_REMOVE

    @property
    def _is_attained(self) -> bool:
        """Whether some neighbours attain the pairs; under add-or-remove-one up to the rounding of m/n."""
        rounding = self.rate - math.nextafter(self.rate, 0.0)
        return self.rate in (0.0, 1.0) or (self._displaces and rate_is_close(self.rate, rounding))

    def _directions(self, base: Known) -> Directions | None:
        """The envelope (Zhu, Dong and Wang 2022, Proposition 30); under add-or-remove-one the mixture, both ways."""
        if self.rate == 0:
            return one_release(NO_PAIRS)
        if self.rate == 1:
            return base.directions(REPLACE_ONE)
        if base.noise is None:
            return None
        sample = base.noise.displaced if self._displaces else base.noise.envelope
        return one_release(sample(self.rate))

    def _attained(self, base: Known) -> Directions | None:
        """All other records equal to one of the two that are exchanged: the mixture, in both directions."""
        if self.rate == 1:
            return base.attained(REPLACE_ONE)
        if self.rate == 0 or base.attained_noise is None:
            return self._directions(base)
        return one_release(base.attained_noise.poisson(math.nextafter(self.rate, 0.0)))  # m/n was rounded up

    def _profile(self, base: Known) -> PrivacyProfile | None:
        """Theorem 9 of Balle, Barthe and Gaboardi (2018); it holds under add-or-remove-one, too, by `mixture`."""
        profile = base.profile()
        return None if profile is None else amplified_profile(profile, self.rate)

    def _least_rdp(self, base: Known, order: float) -> float:
        """Return the RDP that is attained: Wang et al. (2019), Proposition 20, at integer orders."""
        if self.relation is ADD_REMOVE:
            raise UnprovenCombination("Proposition 20 is stated for replace-one")
        return lower_moment(base, self.rate, order)

    def sharpened(self) -> AbstractMechanism:
        """For Gaussian noise under replace-one, search the worst triple: about 15 % less ε, in seconds."""
        from cumulant.sampling.gaussian_triples import SharpenedGaussianBatch

        if isinstance(self.mechanism, Gaussian) and self.relation is REPLACE_ONE and 0 < self.rate < 1:
            return SharpenedGaussianBatch(noise_multiplier=self.mechanism.noise_multiplier, rate=self.rate)
        return self


def fixed_sample(
    mechanism: AbstractMechanism,
    *,
    batch: int | None,
    population: int | None,
    rate: float | None,
    neighbors: Neighbors | None,
) -> SampledWithoutReplacement:
    """Return a sample of a number of records, or of a share of them; one of all changes its size with a record."""
    share = sampled_rate(batch=batch, population=population, rate=rate)
    if rate is None and batch == population and neighbors is ADD_REMOVE:
        raise UnprovenCombination(
            "a batch of all records has another size when one is added or removed, which a guarantee for "
            "replace-one does not cover; ask under replace-one, or leave out the sampling"
        )
    relation = REPLACE_ONE if neighbors is None else neighbors
    return SampledWithoutReplacement(mechanism=mechanism, rate=share, relation=relation)
