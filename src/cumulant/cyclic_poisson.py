"""Cyclic Poisson samples: steps take turns with the parts of the data, so that noise may be correlated (BandMF)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

from cumulant.composition import Composed
from cumulant.disjoint import parallel
from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism, Releases
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.known import Known
from cumulant.neighbors import ZERO_OUT, Neighbors
from cumulant.parameters import noise_per_unit, require, whole_number
from cumulant.sampling.poisson import PoissonSampled

Partition = Literal["independent", "equal"]
"""Whether every record draws its part by itself, or all are split into parts of one size."""

PARTITIONS: tuple[Partition, ...] = ("independent", "equal")
NEEDS_ZERO_OUT = (
    "parts of equal size are about a public number of records: when one is added or removed, others change parts; ask "
    "under cumulant.ZERO_OUT, or let every record draw its part by itself (partition='independent')"
)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CyclicPoisson(AbstractMechanism):
    """Steps that draw Poisson samples from b parts of the data in turn, with Gaussian noise correlated over b steps.

    The program releases CX + Z (or C⁻¹ times it): row i of X is the sum of clipped vectors of step i, chosen after
    rows before i of the release were seen, Z has independent entries, and C is lower triangular with b bands: C_ij = 0
    unless 0 <= i - j < b. A record of part r may join the steps j = r, r + b, r + 2b, … only, each by a fresh coin. Its
    x_j touches the rows j, …, j + b - 1 by C_ij x_j, and those of another such step are other rows. So, given what
    came before row j and everything about others, these b rows are known terms plus Gaussian noise plus, if the coin
    says so, one vector of norm |C e_j| |x_j|, which was fixed before their noise: a Poisson sample of the Gaussian
    mechanism. These compose; rows before r do not see the record.

    `mechanism` is what one record pays: Gaussian noise in units of |C e_j| times the clipping norm, on Poisson samples,
    once for each step of its part; several parts that do not dominate one another are a `Parallel`. Norms of columns
    may be less than stated.

    Holds for:  partition="independent": every record draws its part by itself, or has it by a fixed rule of its own;
                add-or-remove-one and zero-out. partition="equal": a split of public places; zero-out. Adaptive
                composition. Not towards groups but by Rényi DP, as records of several parts meet in the same rows.
    Tightness:  attained by the diagonal matrix of the stated norms, so exact for its worst part.

    >>> step = Gaussian(noise_multiplier=1.0).poisson(rate=0.02)
    >>> CyclicPoisson(mechanism=step * 500, bands=2, steps=1000, partition="independent").epsilon(delta=1e-5)
    2.773448...
    """

    theorem: ClassVar[str] = "banded matrices on cyclic Poisson samples (Choquette-Choo et al. 2023, BandMF)"

    mechanism: AbstractMechanism
    bands: int
    steps: int
    partition: Partition

    def __post_init__(self) -> None:
        object.__setattr__(self, "bands", whole_number("bands", self.bands, at_least=1))
        object.__setattr__(self, "steps", whole_number("steps", self.steps))
        require(self.partition in PARTITIONS, "partition must be 'independent' or 'equal'", self.partition)
        require(isinstance(self.mechanism, AbstractMechanism), "mechanism must be a cumulant mechanism", self.mechanism)
        for release, _ in self._of_one_record():
            if not (isinstance(release, PoissonSampled) and isinstance(release.mechanism, Gaussian)):
                raise UnprovenCombination(
                    f"banded matrices are proven for Gaussian noise on Poisson samples, not for {release!r}; compose "
                    "other releases with the run by +"
                )
            if not release.relation.joins:
                raise UnprovenCombination(
                    "banded matrices have no theorem here for replace-one; ask under cumulant.ZERO_OUT"
                )
            if self.partition == "equal" and release.relation is not ZERO_OUT:
                raise UnprovenCombination(NEEDS_ZERO_OUT)

    def _of_one_record(self) -> Releases:
        parts = getattr(self.mechanism, "parts", None) if self.mechanism._known().alternatives else None
        return tuple(one for part in parts or (self.mechanism,) for one in part.releases())

    @property
    def neighbors(self) -> Neighbors | None:
        return self.mechanism.neighbors

    def _known(self) -> Known:
        """What is known of one record's releases; what was known of groups was about one step's records."""
        one = self.mechanism._known()
        nobody = Known.by_curve(one.curve)
        return replace(one, groups=None, together=nobody.together, attained_together=nobody.together)


def cyclic_poisson(
    parts: list[Counter[float]],
    *,
    noise_multiplier: float,
    rate: float,
    bands: int,
    steps: int,
    partition: Partition,
    neighbors: Neighbors,
) -> CyclicPoisson:
    """Return the run whose parts have a number of columns of each norm, the largest being 1."""

    def one(part: Counter[float]) -> Composed:
        return Composed.of((step(share), count) for share, count in part.items())

    def step(share: float) -> AbstractMechanism:
        noise = noise_per_unit("noise_multiplier", noise_multiplier, share)
        return Gaussian(noise_multiplier=noise).poisson(rate=rate, neighbors=neighbors)

    worst: Any = parallel([one(part) for part in parts]) if parts else Composed(())
    return CyclicPoisson(mechanism=worst, bands=bands, steps=steps, partition=partition)
