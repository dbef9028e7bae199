"""What every mechanism says of itself, and what it can become.

A mechanism says what it is (fields) and what is known of its loss (`loss`, and `family` or `pairs` where a dominating
pair is known). The questions it answers then follow in `questions`.

This is the one module that looks downstream: `*`, `+` and the sampling methods build mechanisms that are
defined on top of this class, so they import them where they are used.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cumulant import parameters
from cumulant.answer import relation_text, table_html
from cumulant.curves.curve import Curve
from cumulant.errors import UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.data import arguments_from, plain_fields, write
from cumulant.mechanisms.questions import Questions
from cumulant.names import by_name, check_names
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, Neighbors
from cumulant.pairs.likelihood_ratio import LikelihoodRatio
from cumulant.pairs.noise import Noise, Pairs
from cumulant.profiles.profile import GroupProfiles, PrivacyProfile

if TYPE_CHECKING:
    from cumulant.composition import Composed

Releases = tuple[tuple["AbstractMechanism", int], ...]


class AbstractMechanism(Questions):
    """Anything that was, or will be, released about the data."""

    __slots__ = ()

    theorem: ClassVar[str]
    """The statement that `loss` rests on, for explanations."""

    def __new__(cls, *unnamed: Any, **named: Any) -> Self:
        if unnamed or named:
            check_names(cls, unnamed, named)
        return super().__new__(cls)

    # What a mechanism says of itself -------------------------------------------------------------

    @abstractmethod
    def loss(self) -> Curve:
        """Return what is known of the CGF of the privacy loss."""

    def noise(self) -> Noise | None:
        """Return a dominating pair, and what sampling makes of it, if one is known."""
        return None

    def pairs(self, relation: Neighbors | None) -> Pairs | None:
        """Return dominating pairs if they are known: one for both orders of neighbours, or one for each.

        `relation` is that of the whole run, for mechanisms that have none of their own.
        """
        family = self.noise()
        return None if family is None else family.unsampled(self.neighbors or relation)

    def attained_noise(self) -> Noise | None:
        """Return the pairs that some neighbours attain, by which answers can be bounded from below."""
        return self.noise()

    def attained_pairs(self, relation: Neighbors | None) -> Pairs | None:
        """Return pairs that some neighbours attain."""
        family = self.attained_noise()
        return self.pairs(relation) if family is None else family.both_orders()

    def pairs_attained(self, relation: Neighbors | None) -> bool:
        """Return whether some neighbours attain the dominating pairs, so that answers from them are exact."""
        return True

    @property
    def sharper_by_rdp(self) -> bool:
        """Whether the loss is known more sharply than the pairs."""
        return False

    def group_pairs(self, size: int) -> Pairs | None:
        """Return dominating pairs for `size` records that join or leave together, if they are known."""
        return None

    def directions(self) -> Directions | None:
        """Return the pairs of all releases with counts, for each order of the neighbours."""
        return _one_release(self.pairs(self.neighbors))

    def attained_directions(self) -> Directions | None:
        return _one_release(self.attained_pairs(self.neighbors))

    def likelihood_ratio(self) -> LikelihoodRatio | None:
        """Return the law of the ratio of a symmetric dominating pair if one is known."""
        return None

    def group_profiles(self) -> GroupProfiles | None:
        """Return the privacy profiles of groups of every size if they are known."""
        return None

    def known_profile(self) -> PrivacyProfile | None:
        """Return the privacy profile of one release if there is a formula for it."""
        groups = self.group_profiles()
        return None if groups is None else groups(1)

    @property
    def neighbors(self) -> Neighbors | None:
        """The relation the guarantee is for; None: whichever the sensitivity is measured for."""
        return None

    @property
    def failure_probability(self) -> float:
        """The probability that everything is revealed: `loss().failure`, known without K where that takes a while."""
        return self.loss().failure

    @property
    def tight_and_self_consistent(self) -> bool:
        """Whether one pair of outputs attains the RDP and the |χ|^α-divergence at every order.

        Wang et al. (2019), Definition 18.
        """
        return False

    @property
    def fixed_size(self) -> bool:
        """Whether the guarantee is for datasets of one known size, as sampling rates m/n are."""
        return False

    def releases(self) -> Releases:
        """Return the distinct releases with their counts."""
        return ((self, 1),)

    # What it can become --------------------------------------------------------------------------

    def __mul__(self, count: int) -> Composed:
        from cumulant.composition import Composed

        return Composed.of([(self, parameters.count(count))])

    __rmul__ = __mul__

    def __add__(self, other: AbstractMechanism) -> Composed:
        from cumulant.composition import Composed

        if not isinstance(other, AbstractMechanism):
            return NotImplemented
        return Composed.of([(self, 1), (other, 1)])

    @by_name
    def poisson(self, *, rate: float, neighbors: Neighbors | None = None) -> AbstractMechanism:
        """Return this mechanism on a sample that every record joins independently with probability `rate`.

        Default relation: add-or-remove-one. The unit of noise stays the largest contribution of one record.
        """
        from cumulant.sampling.poisson import PoissonSampled

        return PoissonSampled(mechanism=self, rate=rate, relation=ADD_REMOVE if neighbors is None else neighbors)

    @by_name
    def without_replacement(
        self,
        *,
        batch: int | None = None,
        population: int | None = None,
        rate: float | None = None,
        neighbors: Neighbors | None = None,
    ) -> AbstractMechanism:
        """Return this mechanism on a random subset of `batch` out of `population` records, or of that rate.

        Default relation: replace-one. The unit of noise is the replace-one sensitivity: twice the clipping norm for a
        sum of clipped vectors. Under add-or-remove-one a rate of 1 stands for the limit of smaller ones.
        """
        from cumulant.sampling.without_replacement import SampledWithoutReplacement

        share = parameters.sampled_rate(batch=batch, population=population, rate=rate)
        if rate is None and batch == population and neighbors is ADD_REMOVE:
            raise UnprovenCombination(
                "a batch of all records has another size when one is added or removed, which a guarantee for "
                "replace-one does not cover; ask under replace-one, or leave out the sampling"
            )
        return SampledWithoutReplacement(
            mechanism=self, rate=share, relation=REPLACE_ONE if neighbors is None else neighbors
        )

    @by_name
    def with_replacement(self, *, draws: int, population: int, neighbors: Neighbors | None = None) -> AbstractMechanism:
        """Return this mechanism on `draws` records drawn with replacement from `population`.

        Default relation: replace-one. The unit of noise is the replace-one sensitivity on the sample.
        """
        from cumulant.sampling.with_replacement import SampledWithReplacement

        return SampledWithReplacement(
            mechanism=self,
            draws=draws,
            population=population,
            relation=REPLACE_ONE if neighbors is None else neighbors,
        )

    def sharpened(self) -> AbstractMechanism:
        """Return the same release with the tightest loss that is known, also where that takes seconds to compute."""
        return self

    @by_name
    def group(self, *, size: int) -> AbstractMechanism:
        """Return the guarantee for `size` records at once, of the relation of this mechanism.

        Ask for the group last: records of a group are sampled one by one, so a group cannot be sampled.
        """
        from cumulant.mechanisms.group import Group

        return self if parameters.whole_number("size", size, at_least=1) == 1 else Group(mechanism=self, size=size)

    def _repr_html_(self) -> str:
        """Return the releases as a table, for notebooks."""
        rows = [(str(count), repr(release), release.theorem) for release, count in self.releases()]
        return table_html(f"holds for {relation_text(self.neighbors)}", rows, ("times", "release", "by"))

    # To and from data, see `data` ----------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data that `cumulant.from_dict` reads back."""
        return write(self)

    def _plain(self) -> dict[str, Any]:
        return plain_fields(self)

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> AbstractMechanism:
        return cls(**arguments_from(content))


def _one_release(pairs: Pairs | None) -> Directions | None:
    return None if pairs is None else tuple(((pair, 1),) for pair in pairs)
