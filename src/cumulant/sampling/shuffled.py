"""Shuffled loaders: every epoch walks through the records in a fresh random order, in batches of one size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from cumulant.curves.curve import Curve
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.known import Known, one_release
from cumulant.neighbors import ADD_REMOVE, NAMED, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.pairs.allocation import JoinsOneOf, LeavesOneOf, followed_steps
from cumulant.pairs.atoms import Reversed
from cumulant.pairs.finite_pair import finite_pair
from cumulant.pairs.largest_sum import largest_sum
from cumulant.pairs.noise import NO_PAIRS, Pairs
from cumulant.parameters import by_name, require, share_below, whole_number

ROOT_OF_FIVE = math.nextafter(math.sqrt(5.0), 3.0)  # rounded up
WHICH_NEIGHBORS = (
    "Which change does the loader have to hide? neighbors=cumulant.REPLACE_ONE: the value of one record; "
    "cumulant.ZERO_OUT: one record or a null record in its place; cumulant.ADD_REMOVE: whether there is one record "
    "more, which is bounded only where that makes no other number of batches; it needs batch=, population=, drop_last="
)
WHICH_SIZES = (
    "under cumulant.ADD_REMOVE give batch= and population= in place of batches=: whether one record more makes "
    "one batch more follows from them"
)
DROPS_LAST = "drop_last must be True or False under cumulant.ADD_REMOVE: whether the loader drops a batch that is short"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Shuffled(AbstractMechanism):
    """One epoch of a loader that shuffles n records and walks through them in batches of b, with Gaussian noise.

    Nothing here is exact: ε and δ are proven upper bounds, and intervals reach down to what some neighbours attain. A
    number for Poisson samples is no bound for such a loader: at σ = 1 and 1000 batches it says 0.149, where 3.134 is
    attained.

    *Upper end*, with C the clipping norm. Tell the order: by joint convexity that only helps. Of one epoch then

        replace-one    one batch changes, by 2C at most                                   N(2/σ, 1) against N(0, 1)
        zero-out       one batch changes, by C at most                                    N(1/σ, 1)
        add-or-remove  the last record of the order takes the place of the one that left: one batch changes by 2C, and
                       the last one by C                                                  N(√5/σ, 1)
                       where a short last batch is dropped, the last record is in none    N(2/σ, 1)

    Under add-or-remove-one all this needs a number of batches that one record more or less leaves as it is; where it
    does not, the number of releases itself tells the two apart, and there is no bound.

    *Lower end*. All other records add -C along one direction, the record +C, its replacement -C. The sums of the t full
    batches are then those of random allocation at noise σ/2, in both directions, and E epochs are its E-fold
    composition; under zero-out and add-or-remove-one the others may add nothing, which is random allocation at noise σ.
    The largest of the sums is a pair of its own under every relation (`pairs.largest_sum`). Of records that full
    batches leave over, a share 1 - s, nothing is used: s is how likely the record is in a full batch. Where they make a
    short batch of their own, random allocation to t + 1 batches holds, too: unequal batches are easier to tell apart.

    `batches=t` stands for t batches that use every record: of `batch` and `population` only the ratio counts. `steps`
    says how many full batches of an epoch are released, where it is left early: the upper end stays, s becomes less.

    The unit of noise is the largest contribution of one record: in DP-SGD the clipping norm.

    Holds for:  any dimension, adaptive steps, adaptive composition. Sums of clipped vectors with fresh noise; under
                add-or-remove-one they are divided by a fixed number. The upper end holds for every order that does not
                look at the records; the lower end needs one that is fresh in every epoch.
    Tightness:  each end for itself: the upper one for an order that is known, the lower one by neighbours of its own.
                Exact for one batch of all records. Intervals are certified under replace-one without records left over.

    >>> epoch = Gaussian(noise_multiplier=1.0).shuffled(batches=1000, neighbors=REPLACE_ONE)
    >>> interval = epoch.epsilon_interval(delta=1e-5)
    >>> round(interval.lower, 6), round(interval.upper, 6)
    (3.134152, 9.997256)
    """

    theorem: ClassVar[str] = "shuffled batches, the order told: one batch of an epoch changes (joint convexity)"

    mechanism: Gaussian
    batch: int
    population: int
    relation: Neighbors
    drop_last: bool | None = None
    records: int = 1
    steps: int | None = None

    def __post_init__(self) -> None:
        require(isinstance(self.relation, Neighbors), f"relation must be {NAMED}", self.relation)
        require(isinstance(self.mechanism, AbstractMechanism), "mechanism must be a cumulant mechanism", self.mechanism)
        if not isinstance(self.mechanism, Gaussian):
            raise UnprovenCombination(
                f"shuffled batches are bounded here for Gaussian noise, not for {type(self.mechanism).__name__}; "
                "Poisson samples of it are covered: draw the batches by poisson(rate=1/batches)"
            )
        for name, least in (("batch", 1), ("population", 1), ("records", 1)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), at_least=least))
        if self.steps is not None:
            object.__setattr__(self, "steps", whole_number("steps", self.steps))
        require(self.batch <= self.population, f"batch must be at most the population of {self.population}", self.batch)
        require(self.drop_last in (None, True, False), "drop_last must be True or False", self.drop_last)
        if self.relation is ADD_REMOVE:
            require(self.drop_last is not None, DROPS_LAST, self.drop_last)
            self._refuse_other_numbers_of_batches()

    def _refuse_other_numbers_of_batches(self) -> None:
        """Refuse sizes for which one record more or less makes more or fewer batches, and groups."""
        n, b = self.population, self.batch
        fewer, here, more = (size // b if self.drop_last else -(-size // b) for size in (n - 1, n, n + 1))
        if not fewer == here == more:
            raise UnprovenCombination(
                f"one record more or less than {n}, in batches of {b}, makes {more if more != here else fewer} batches "
                f"instead of {here}: the number of releases shows who was there, and nothing bounds that. "
                "cumulant.ZERO_OUT is covered, where the number of records is public"
            )
        if self.records > 1:
            raise UnprovenCombination(
                "adding records one after another changes the number of batches; ask for groups under "
                "cumulant.REPLACE_ONE or cumulant.ZERO_OUT"
            )

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    @property
    def batches(self) -> int:
        """How many full batches an epoch has."""
        return self.population // self.batch

    @property
    def released(self) -> int:
        """How many of them are released."""
        return self.batches if self.steps is None else min(self.steps, self.batches)

    @property
    def seen(self) -> float:
        """The share of records that released full batches hold, rounded down."""
        return share_below(1.0, Fraction(self.population, self.released * self.batch))

    @property
    def everyone(self) -> Gaussian:
        """The one release that bounds an epoch: noise in units of what changes in all of it, rounded down."""
        sigma = self.mechanism.noise_multiplier
        if self.relation is REPLACE_ONE or (self.relation is ADD_REMOVE and self.drop_last):
            sigma = sigma / 2
        elif self.relation is ADD_REMOVE:
            sigma = math.nextafter(sigma / ROOT_OF_FIVE, 0.0)
        return Gaussian(noise_multiplier=sigma).group(size=self.records)

    @property
    def _is_one_batch(self) -> bool:
        return self.batch == self.population and self.records == 1 and self.released == 1

    def _known(self) -> Known:
        """The upper end is one Gaussian release; a sample of epochs has no meaning."""
        one = self.everyone._known()
        is_tight = self._is_one_batch

        def curve() -> Curve:
            return replace(one.curve(), exact=is_tight)

        return replace(
            one,
            curve=curve,
            attained=lambda relation: one.attained(relation) if is_tight else self._attained(),
            tight=lambda _: is_tight,
            noise=None,
            attained_noise=None,
            groups=None,
            least_rdp=None,
            self_consistent=False,
            fixed_size=True,
            lower_in_doubles=not is_tight and not self._are_all_sums_known,
        )

    def _attained(self) -> Directions:
        """Return pairs of neighbours, each with its reverse: of the largest sum, and of all sums where these are known.

        Means are rounded down, and one record that changes is a change of several, too.
        """
        if self.released == 0:
            return one_release(NO_PAIRS)
        one, two = (share_below(size, Fraction(self.mechanism.noise_multiplier)) for size in (1.0, 2.0))
        allocated = _allocated(two if self.relation is REPLACE_ONE else one, self._bins)
        if self._are_all_sums_known:
            return one_release(allocated)
        table = largest_sum(two, one if self.relation is ZERO_OUT else 0.0, self.released, self.seen)
        return one_release((finite_pair(table), finite_pair(Reversed(table)), *allocated))

    @property
    def _are_all_sums_known(self) -> bool:
        """Whether random allocation is all that the sums of these neighbours tell, so that the largest adds nothing."""
        mean = share_below(2.0, Fraction(self.mechanism.noise_multiplier))
        return self.relation is REPLACE_ONE and self._bins == self.released and bool(_allocated(mean, self._bins))

    @property
    def _bins(self) -> int | None:
        """In how many batches every record takes part; None: in none, perhaps."""
        if self.released < self.batches:
            return None
        if self.batches * self.batch == self.population:
            return self.batches
        return self.batches + 1 if self.drop_last is False and self.steps is None else None

    @by_name
    def group(self, *, size: int) -> Shuffled:
        """Records of a group move one batch most if all are in it; spread over several they move each by less."""
        return replace(self, records=self.records * whole_number("size", size, at_least=1))

    def sharpened(self) -> AbstractMechanism:
        """Under replace-one, count what the secrecy of the order hides: at σ = 2 and 1000 batches a third of ε."""
        from cumulant.sampling.secret_order import SecretOrder, hides_order

        return SecretOrder(mechanism=self) if hides_order(self) else self

    def _plain(self) -> dict[str, Any]:
        """What was not said, and a group of one, are left out."""
        content = AbstractMechanism._plain(self)
        unsaid = {"records": 1, "drop_last": None, "steps": None}
        return {name: it for name, it in content.items() if (name, it) not in unsaid.items()}


def _allocated(mean: float, bins: int | None) -> Pairs:
    """Return the pairs of random allocation, where it is followed to that many steps: fewer would dominate."""
    if bins is None or bins < 2 or followed_steps(mean, bins) < bins:
        return ()
    square = Fraction(mean) ** 2
    return LeavesOneOf(square, bins), JoinsOneOf(square, bins)


def shuffle(
    *,
    mechanism: Any,
    batches: int | None,
    batch: int | None,
    population: int | None,
    drop_last: bool | None,
    epochs: int,
    neighbors: Neighbors | None,
) -> AbstractMechanism:
    """Return epochs of a shuffled loader, of a number of batches or of the sizes of batch and population."""
    if neighbors is None:
        raise InvalidParameter(WHICH_NEIGHBORS)
    if batches is not None and batch is population is None:
        if neighbors is ADD_REMOVE:
            raise InvalidParameter(WHICH_SIZES)
        batch, population = 1, whole_number("batches", batches, at_least=1)
    elif batches is not None or batch is None or population is None:
        raise InvalidParameter(f"give batches, or batch and population, got {batches!r}, {batch!r} and {population!r}")
    count = whole_number("epochs", epochs, at_least=1)
    sizes = {"batch": batch, "population": population}
    epoch = Shuffled(mechanism=mechanism, **sizes, drop_last=drop_last, relation=neighbors)
    return epoch if count == 1 else epoch * count
