"""Every record joins a batch by its own coin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

from cumulant.composition import Composed
from cumulant.errors import InvalidParameter
from cumulant.loaders.loader import AbstractLoader, Schedule, Sizes
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.printed import given


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PoissonLoader(AbstractLoader):
    """Every record joins a batch by its own coin.

    With `max_batch` a batch that is larger is cut to that size, and the data set has exactly dataset_size records: of
    zero-out, which is meant then, and replace-one both have, of add-or-remove-one the larger.
    """

    name: ClassVar[str] = "poisson"
    in_short: ClassVar[str] = "every record joins a batch by its own coin"
    natural: ClassVar[Neighbors] = ADD_REMOVE
    relations: ClassVar[tuple[Neighbors, ...]] = (ADD_REMOVE, ZERO_OUT, REPLACE_ONE)

    max_batch: int | None = None
    records_per_user: int | None = None

    def schedule(self, sizes: Sizes) -> Schedule:
        if self.max_batch is not None and sizes.sample_rate is not None:
            raise InvalidParameter("max_batch needs batch_size and dataset_size: the number of records matters to it")
        return AbstractLoader.schedule(self, sizes)

    def relation(self, neighbors: Any) -> Neighbors:
        """Where batches are cut the number of records must be public: zero-out says so."""
        meant = ZERO_OUT if neighbors is None and self.max_batch is not None else neighbors
        return AbstractLoader.relation(self, meant)

    def mechanism(self, gaussian: Gaussian, schedule: Schedule, relation: Neighbors) -> Composed:
        step = gaussian.poisson(
            rate=schedule.rate,
            neighbors=relation,
            max_batch=self.max_batch,
            population=None if self.max_batch is None else schedule.dataset_size,
            records_per_user=1 if self.records_per_user is None else self.records_per_user,
        )
        return step * schedule.steps

    def must(self, schedule: Schedule) -> str:
        b, n = schedule.batch_size, schedule.dataset_size
        share = given(schedule.rate) if b is None else f"{b}/{n}"
        said = own_coins(schedule.steps, share, mean="" if b is None else f"; {b} is their mean")
        if self.max_batch is not None:
            said += (
                f" Of those above {self.max_batch} records as many are kept, drawn uniformly: there a record takes the "
                "place of another one, which counts as two."
            )
        if self.records_per_user is not None:
            said += f" Nobody has more than {self.records_per_user} records, and each tosses a coin of its own."
        return said


def own_coins(steps: int, share: str, *, mean: str = "") -> str:
    """Return in words what a Poisson sample needs."""
    return (
        f"Poisson, {steps} steps: in every step every record must join by its own coin, with probability {share}. "
        f"Batches differ in size and may be empty{mean}."
    )
