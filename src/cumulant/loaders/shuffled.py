"""Every epoch walks through the data in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from cumulant.composition import Composed
from cumulant.loaders.loader import AbstractLoader, Schedule
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import REPLACE_ONE, Neighbors
from cumulant.sampling.once_per_epoch import OncePerEpoch


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ShuffledLoader(AbstractLoader):
    """Every epoch walks through all records once, in any order: one release per epoch begun, without amplification."""

    name: ClassVar[str] = "shuffled"
    in_short: ClassVar[str] = "every epoch walks through the data, in any order"
    natural: ClassVar[Neighbors] = REPLACE_ONE
    relations: ClassVar[tuple[Neighbors, ...]] = (REPLACE_ONE,)
    costs_by_epoch: ClassVar[bool] = True
    shuffled_instead: ClassVar[str | None] = None

    def mechanism(self, gaussian: Gaussian, schedule: Schedule, relation: Neighbors) -> Composed:
        return OncePerEpoch(mechanism=gaussian, relation=relation) * schedule.epochs_begun

    def must(self, schedule: Schedule) -> str:
        return (
            f"shuffled, {schedule.epochs_begun} epochs begun, {schedule.steps} steps: every epoch uses every record "
            "once, in an order that does not look at the records. No amplification is counted."
        )
