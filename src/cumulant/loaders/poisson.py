"""Every record joins a batch by its own coin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from cumulant.composition import Composed
from cumulant.loaders.loader import AbstractLoader, Schedule
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.printed import given


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PoissonLoader(AbstractLoader):
    """Every record joins a batch by its own coin."""

    name: ClassVar[str] = "poisson"
    in_short: ClassVar[str] = "every record joins a batch by its own coin"
    natural: ClassVar[Neighbors] = ADD_REMOVE
    relations: ClassVar[tuple[Neighbors, ...]] = (ADD_REMOVE, ZERO_OUT, REPLACE_ONE)

    def mechanism(self, gaussian: Gaussian, schedule: Schedule, relation: Neighbors) -> Composed:
        return gaussian.poisson(rate=schedule.rate, neighbors=relation) * schedule.steps

    def must(self, schedule: Schedule) -> str:
        b, n = schedule.batch_size, schedule.dataset_size
        share = given(schedule.rate) if b is None else f"{b}/{n}"
        return own_coins(schedule.steps, share, mean="" if b is None else f"; {b} is their mean")


def own_coins(steps: int, share: str, *, mean: str = "") -> str:
    """Return in words what a Poisson sample needs."""
    return (
        f"Poisson, {steps} steps: in every step every record must join by its own coin, with probability {share}. "
        f"Batches differ in size and may be empty{mean}."
    )
