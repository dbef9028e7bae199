"""Every epoch walks through the data in batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, final

from cumulant.composition import Composed
from cumulant.errors import InvalidParameter
from cumulant.loaders.loader import AbstractLoader, Schedule, Sizes, nearest_unit, written_epochs
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.sampling.shuffled import Shuffled


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ShuffledLoader(AbstractLoader):
    """Every epoch walks through all records once, in a fresh random order: an interval, without amplification."""

    name: ClassVar[str] = "shuffled"
    in_short: ClassVar[str] = "every epoch walks through the data, in any order"
    natural: ClassVar[Neighbors] = REPLACE_ONE
    relations: ClassVar[tuple[Neighbors, ...]] = (REPLACE_ONE, ZERO_OUT, ADD_REMOVE)
    costs_by_epoch: ClassVar[bool] = True
    shuffled_instead: ClassVar[str | None] = None

    drop_last: bool | None = None

    def epoch_share(self, rate: Fraction, batches: int) -> Fraction:
        return rate if self.drop_last is None else Fraction(1, batches if self.drop_last else math.ceil(1 / rate))

    def schedule(self, sizes: Sizes) -> Schedule:
        """An epoch has a short last batch where that is kept."""
        schedule = AbstractLoader.schedule(self, sizes)
        if self.drop_last is not False:
            return schedule
        begun = sizes.epochs_begun(schedule.steps, math.ceil(1 / nearest_unit(sizes.rate())))
        return replace(schedule, epochs_begun=begun)

    def mechanism(self, gaussian: Gaussian, schedule: Schedule, relation: Neighbors) -> Composed:
        """Epochs that are left early, or that begin only if a short last batch is dropped, have less of a lower end."""
        b, n = self._sizes(schedule, relation)
        epoch = Shuffled(mechanism=gaussian, batch=b, population=n, relation=relation, drop_last=self.drop_last)
        whole, rest = self._walks(schedule, n % b > 0)
        others = [rest] * (rest > 0) + [0] * (schedule.epochs_begun - whole - (rest > 0))
        return Composed.of([(epoch, whole), *((replace(epoch, steps=steps), 1) for steps in others)])

    def _walks(self, schedule: Schedule, leaves_over: bool) -> tuple[int, int]:
        """Return how many epochs are whole, and how many full batches there are of another, whatever is dropped."""
        if schedule.epochs is not None:
            whole, part = divmod(written_epochs(schedule.epochs), 1)
            return whole, math.floor(part * schedule.batches)
        whole, rest = divmod(schedule.steps, schedule.batches + (leaves_over and not self.drop_last))
        return whole, rest

    def _sizes(self, schedule: Schedule, relation: Neighbors) -> tuple[int, int]:
        """Return how many records are in a batch, and in the data; of a rate only the ratio of the two is known."""
        if schedule.batch_size is not None and schedule.dataset_size is not None:
            return schedule.batch_size, schedule.dataset_size
        if relation is ADD_REMOVE:
            raise InvalidParameter(
                "sampling='shuffled' under cumulant.ADD_REMOVE needs batch_size and dataset_size in place of "
                "sample_rate: whether one record more makes one batch more follows from them"
            )
        return nearest_unit(Fraction(schedule.rate)).as_integer_ratio()

    def clipping_norms(self, relation: Neighbors) -> int:
        return 1

    def moved(self, relation: Neighbors) -> float:
        if relation is ADD_REMOVE and not self.drop_last:
            return math.sqrt(5.0)
        return 1.0 if relation is ZERO_OUT else 2.0

    def moves(self, relation: Neighbors) -> str:
        if relation is not ADD_REMOVE:
            return AbstractLoader.moves(self, relation)
        last = "" if self.drop_last else ", and the last sum by the clipping norm"
        return f"another record takes the place of one that leaves, one sum changes by up to twice the norm{last}"

    def must(self, schedule: Schedule) -> str:
        alone = "" if schedule.physical_batches == 1 else " A step never takes batches of two epochs."
        return (
            f"shuffled, {schedule.epochs_begun} epochs begun, {schedule.steps} steps: every epoch uses every record "
            f"once, in an order that does not look at the records.{alone} No amplification is counted."
        )
