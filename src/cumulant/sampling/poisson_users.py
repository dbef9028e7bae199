"""Poisson sampling of records of which one person may have several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, final

from cumulant.curves.curve import Curve, at_least, at_most
from cumulant.errors import MixedNeighbors, UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.gaussian_mixture import FARTHEST_PEAK, mean_of_curves
from cumulant.mechanisms.group import Group
from cumulant.mechanisms.known import Known, curve_of_pair, one_release
from cumulant.neighbors import ADD_REMOVE, Neighbors
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.gaussian_mixture import GroupedGaussian
from cumulant.pairs.maps import CoordinateMap, Join, Leave, Replace
from cumulant.pairs.noise import gaussian_noise
from cumulant.parameters import probability, require, whole_number
from cumulant.sampling.mixture import TINIEST_RATE
from cumulant.sampling.poisson import LARGEST_GROUP, REPLACED_REACH, PoissonSampled
from cumulant.sampling.relation import checked_relation

AGAIN = "a sample towards people is not sampled again: sample the release inside it, once, at the product of the rates"


def records_per_person(releases: Iterable[AbstractMechanism]) -> int:
    """Return how many records of one person releases are about together, refusing those that do not agree.

    What is not sampled is about whatever its sensitivity is measured for, and a group is about what was asked.

    >>> records_per_person([Gaussian(noise_multiplier=2.0), PoissonUsers(
    ...     mechanism=Gaussian(noise_multiplier=2.0), rate=0.01, records_per_user=3)])
    3
    """
    sampled = [one for one in releases if one.neighbors is not None and not isinstance(one, Group)]
    found = {one.records_per_user if isinstance(one, PoissonUsers) else 1 for one in sampled}
    if len(found) > 1:
        raise MixedNeighbors(
            "a composition protects one person, these samples are about people with "
            f"{' and with '.join(map(str, sorted(found)))} records; give all of them the same records_per_user="
        )
    return next(iter(found), 1)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PoissonUsers(AbstractMechanism):
    """Gaussian noise on a Poisson sample of records, towards a person who has up to k of them.

    Each record joins by its own coin of probability γ. If all of a person's records that join move the mean alike, the
    pair is Σ_j Bin(k,γ)(j) N(j/σ) against N(0), and the reverse: `pairs.gaussian_mixture.GroupedGaussian`. It
    dominates: with S the records that join and v_S what they add, |v_S| <= |S|, the likelihood ratio is Σ p_S X_S, of
    lognormal X_S with log-covariances <v_S, v_T>/σ². By Kahane's comparison E f(Σ p_S X_S), f convex, grows with each
    of them, and they are at most |S||T|/σ².

    The same comparison covers fewer records: with those that are not there added to S the p_S stay, and no covariance
    falls. Under replace-one another person's records, up to k as well, come in their place. H_t is E(Σ p_S X_S -
    t Σ p_S Y_S)_+; it grows with the covariances of X and of Y among themselves, and as those between X and Y fall,
    which is worst for opposite records: N(j/σ) against N(-j/σ), each mixed.

    The unit of noise is the largest contribution of one record: in DP-SGD the clipping norm.

    Holds for:  add-or-remove-one person; zero-out, a person whose records all become null ones (`Neighbors.joins`);
                replace-one person; any dimension; adaptive composition. Who joins does not depend on whose a record is.
    Tightness:  attained by a person with k equal records, so exact.

    >>> step = PoissonUsers(mechanism=Gaussian(noise_multiplier=2.0), rate=0.01, records_per_user=3)
    >>> round((step * 1000).epsilon(delta=1e-5), 6)
    2.092249
    """

    theorem: ClassVar[str] = "Poisson samples of several records of one person (Kahane's comparison)"

    mechanism: Gaussian
    rate: float
    records_per_user: int
    relation: Neighbors = ADD_REMOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", probability("rate", self.rate))
        checked_relation("Poisson sampling", self.relation, self.mechanism, needs=ADD_REMOVE)
        if not isinstance(self.mechanism, Gaussian):
            raise UnprovenCombination(
                f"several records of one person are proven here for Gaussian noise, not for "
                f"{type(self.mechanism).__name__}; sample it with one record each, and ask for group(size="
                f"{self.records_per_user!r})"
            )
        size = whole_number("records_per_user", self.records_per_user, at_least=1)
        require(size <= LARGEST_GROUP, f"records_per_user must be at most {LARGEST_GROUP}", size)
        object.__setattr__(self, "records_per_user", size)

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    @property
    def _one(self) -> PoissonSampled:
        """The sample towards one record."""
        return PoissonSampled(mechanism=self.mechanism, rate=self.rate, relation=self.relation)

    def _known(self) -> Known:
        size = self.records_per_user
        if size == 1 or self.rate in (0.0, 1.0):
            mechanism = self.mechanism.group(size=size)
            return replace(replace(self._one, mechanism=mechanism)._known(), together=self._together, no_samples=AGAIN)
        return Known(
            curve=self._curve,
            directions=lambda _: self._together(1),
            attained=lambda _: self._together(1),
            tight=lambda _: True,
            profile=lambda: None,
            failure=lambda: 0.0,
            together=self._together,
            attained_together=self._together,
            no_samples=AGAIN,
        )

    def _law(self, records: int) -> GroupedGaussian:
        noise = gaussian_noise(self.mechanism.noise_multiplier)
        return GroupedGaussian(noise.mean, max(self.rate, TINIEST_RATE), records, noise.noise)

    def _together(self, people: int) -> Directions | None:
        """Return the pairs of several people at once: of all their records."""
        records = people * self.records_per_user
        if records > LARGEST_GROUP or records == 1 or self.rate in (0.0, 1.0):
            return self._one._together(records)
        law = self._law(records)
        return one_release(self._pairs(law))

    def _pairs(self, law: GroupedGaussian) -> tuple[CoordinatePair, ...]:
        moves: tuple[CoordinateMap, ...] = (Leave(1.0), Join(1.0)) if self.relation.joins else (Replace(1.0),)
        return tuple(CoordinatePair(law, move) for move in moves)

    def _curve(self) -> Curve:
        """Return K of both directions on nodes; far orders have the bound of every number of records told."""
        law = self._law(self.records_per_user)
        apart = 1.0 if self.relation.joins else 2.0
        far = mean_of_curves(apart * law.means, law.log_shares)
        farthest = law.farthest_tilt(FARTHEST_PEAK if self.relation.joins else REPLACED_REACH)
        found = [at_most(curve_of_pair(pair, farthest, lambda: far), far) for pair in self._pairs(law)]
        return replace(found[0] if len(found) == 1 else at_least(*found), summed=False)
