"""Every step draws a fresh random subset of fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from cumulant.composition import Composed
from cumulant.loaders.loader import AbstractLoader, Schedule
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import REPLACE_ONE, Neighbors
from cumulant.printed import given


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class WithoutReplacementLoader(AbstractLoader):
    """Every step draws a fresh random subset: the sum changes by up to twice the clipping norm."""

    name: ClassVar[str] = "without_replacement"
    also_called: ClassVar[tuple[str, ...]] = ("fixed",)
    in_short: ClassVar[str] = "a fresh random subset of fixed size in every step"
    natural: ClassVar[Neighbors] = REPLACE_ONE
    relations: ClassVar[tuple[Neighbors, ...]] = (REPLACE_ONE,)

    def mechanism(self, gaussian: Gaussian, schedule: Schedule, relation: Neighbors) -> Composed:
        return gaussian.without_replacement(rate=schedule.rate) * schedule.steps

    def must(self, schedule: Schedule) -> str:
        b, n = schedule.batch_size, schedule.dataset_size
        exactly = f"{given(schedule.rate)} of all records" if b is None else f"{b} of the {n} records"
        return (
            f"without replacement, {schedule.steps} steps: every step must draw a fresh, uniformly random batch of "
            f"exactly {exactly}, whatever was drawn before."
        )
