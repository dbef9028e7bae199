"""What must be true of a program for its number to hold: named by every statement."""

from __future__ import annotations

from collections.abc import Iterator

from cumulant.cyclic_poisson import CyclicPoisson
from cumulant.disjoint import Parallel
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.group import Group
from cumulant.mechanisms.laplace import Laplace
from cumulant.neighbors import Neighbors
from cumulant.sampling.gaussian_triples import SharpenedGaussianBatch
from cumulant.sampling.once_per_epoch import OncePerEpoch
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.poisson_users import PoissonUsers
from cumulant.sampling.random_allocation import RandomAllocation
from cumulant.sampling.secret_order import SecretOrder
from cumulant.sampling.shuffled import Shuffled
from cumulant.sampling.truncated_poisson import TruncatedPoisson
from cumulant.sampling.with_replacement import SampledWithReplacement
from cumulant.sampling.without_replacement import SampledWithoutReplacement

FRESH = "every release has fresh randomness, which nobody can predict"
BOUNDED = "what each record adds to a sum is bounded by itself, before it is summed"
OWN_COIN = "every record tosses its own coin, anew in every release; batches that are empty are released, too"
FIXED_SIZE = "every batch is drawn anew and uniformly, and what noise is added to may change by its unit at most"
SIZE = {
    Neighbors.ADD_REMOVE: "the number of records is private: rates or sizes of batches, the number of releases and "
    "what sums are divided by are public numbers that do not depend on it, nor on how many records joined a batch",
    Neighbors.REPLACE_ONE: "the number of records is public; what sums are divided by does not depend on how many "
    "records joined a batch",
    Neighbors.ZERO_OUT: "the number of records is public: rates, the number of releases and what sums are divided by "
    "may depend on it, but not on how many records joined a batch; a null record counts as one and adds nothing",
}
"""What the relation of a run says about the number of records."""

EPOCHS = {
    Neighbors.ADD_REMOVE: "in every epoch every record draws its batch by itself and is in that one only",
    Neighbors.REPLACE_ONE: "every epoch uses every record at most once, in an order that does not look at the records",
}
OWN_STEP = (
    "every record draws its batch uniformly by itself, whatever others draw, and nobody is shown who is in which; sums "
    "are not divided by how many records are in a batch, and no batch is filled up or cut to a size"
)
FRESH_BINS, KEPT_BINS = (f"batches are {how} in every epoch" for how in ("drawn anew", "those of the first"))
ONE_WALK = (
    "every epoch walks through the records once, in consecutive batches of one size, the last of which may be short or "
    "dropped, in an order that does not look at them; the lower end of an interval needs it to be drawn anew in each"
)
SECRET = "that order is uniform and secret, drawn anew in every epoch by a generator that nobody can predict"
WALKS = {
    Neighbors.ADD_REMOVE: f"{ONE_WALK}; one record more or less makes as many batches, and every sum is divided by the "
    "same fixed number",
    Neighbors.REPLACE_ONE: ONE_WALK,
    Neighbors.ZERO_OUT: ONE_WALK,
}
CUT = (
    "a sample above {most} records is cut to {most}, drawn uniformly from it, whoever they are, and sums are divided "
    "by a fixed number; {sizes}"
)
OF_SIZE = {
    Neighbors.ADD_REMOVE: "the larger of the two data sets that are compared has exactly {n} records, a public number: "
    "rates, the number of releases and what sums are divided by are the same for both",
    Neighbors.REPLACE_ONE: "there are exactly {n} records",
    Neighbors.ZERO_OUT: "there are exactly {n} records, and null ones are sampled and take a place like others",
}
"""What a relation says about the number of records where samples are cut."""

PERSON = "nobody has more than {k} records, and each tosses a coin of its own"
UNIT = "what noise is added to changes between neighbours by no more than the unit of the noise"
STATED = "what is stated of a release holds for every two neighbours, whatever was released before"
PARTS = {
    "independent": "every record draws its part of the data by itself, or has it by a rule of its own, whatever others "
    "there are",
    "equal": "records are split into parts of equal size by their public places, without looking at them",
}
IN_TURN = (
    "a record may join only when it is its part's turn, each time by its own coin; batches that are empty are "
    "released, too"
)
BANDED = (
    "noise is added to CX, or C⁻¹ times it to X, for a lower triangular matrix C with no more than the stated bands "
    "and norms of columns, and rows of X are chosen by what was released before"
)
DISJOINT = "every record is in one part of the data, whichever others there are"


def assumptions_of(run: AbstractMechanism) -> list[str]:
    """Return in words what a program must do, each thing once.

    >>> assumptions_of(Gaussian(noise_multiplier=1.0))
    ['every release has fresh randomness, which nobody can predict', 'what noise is added to changes between ...']
    """
    found = [FRESH, *(text for release, _ in run.releases() for text in _of(release))]
    cut = any(isinstance(release, TruncatedPoisson) for release, _ in run.releases())
    if run.neighbors is not None and not (cut and run.neighbors is Neighbors.ADD_REMOVE):  # `OF_SIZE` says it there
        found.append(SIZE[run.neighbors])
    return list(dict.fromkeys(found))


def _of(release: AbstractMechanism) -> Iterator[str]:
    """Yield what one release needs."""
    match release:
        case PoissonSampled():
            yield OWN_COIN
            yield from (BOUNDED,) if isinstance(release.mechanism, Gaussian | Laplace) else _inside(release.mechanism)
        case PoissonUsers():
            yield OWN_COIN
            yield PERSON.format(k=release.records_per_user)
            yield BOUNDED
        case TruncatedPoisson(max_batch=most, population=n):
            yield OWN_COIN
            yield CUT.format(most=most, sizes=OF_SIZE[release.relation].format(n=n))
            yield BOUNDED
        case SampledWithoutReplacement() | SampledWithReplacement() | SharpenedGaussianBatch():
            yield FIXED_SIZE
            inner = None if isinstance(release, SharpenedGaussianBatch) else release.mechanism
            yield from () if inner is None or isinstance(inner, Gaussian | Laplace) else _inside(inner)
        case OncePerEpoch() | Shuffled() | SecretOrder():
            yield _order_of(release)
            yield BOUNDED
        case RandomAllocation():
            yield OWN_STEP
            yield FRESH_BINS if release.epochs == 1 else KEPT_BINS
            yield from (BOUNDED,) if isinstance(release.mechanism, Gaussian) else _inside(release.mechanism)
        case CyclicPoisson():
            yield PARTS[release.partition]
            yield IN_TURN
            yield BANDED
            yield BOUNDED
        case Parallel():
            yield DISJOINT
            for part in release.parts:
                yield from _inside(part)
        case Group():
            yield from _of(release.mechanism)
        case Gaussian() | Laplace():
            yield UNIT
        case _:
            yield STATED


def _order_of(release: OncePerEpoch | Shuffled | SecretOrder) -> str:
    if isinstance(release, SecretOrder):
        return f"{ONE_WALK}; {SECRET}"
    return (WALKS if isinstance(release, Shuffled) else EPOCHS)[release.relation]


def _inside(mechanism: AbstractMechanism) -> Iterator[str]:
    for release, _ in mechanism.releases():
        yield from _of(release)
