"""In every epoch every record draws its batch for itself: balls in bins."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from cumulant.composition import Composed
from cumulant.errors import InvalidParameter
from cumulant.loaders.loader import AbstractLoader, Schedule, Sizes
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import ADD_REMOVE, ZERO_OUT, Neighbors
from cumulant.parameters import Bins, require
from cumulant.sampling.random_allocation import WHICH_BINS

BINS = {"fresh": "it draws anew in every epoch", "kept": "it keeps in every epoch what it drew"}
"""What is done with batches that records drew."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RandomAllocationLoader(AbstractLoader):
    """In every epoch every record joins one of ⌊1/rate⌋ batches, which it draws for itself: whole epochs."""

    name: ClassVar[str] = "random_allocation"
    also_called: ClassVar[tuple[str, ...]] = ("allocation", "balls_in_bins")
    in_short: ClassVar[str] = (
        "every epoch puts every record into one batch, drawn for itself (balls in bins); "
        "give --bins where there are several epochs"
    )
    natural: ClassVar[Neighbors] = ADD_REMOVE
    relations: ClassVar[tuple[Neighbors, ...]] = (ADD_REMOVE, ZERO_OUT)
    costs_by_epoch: ClassVar[bool] = True
    shuffled_instead: ClassVar[str | None] = "its batches have one size, so that records push one another out"

    bins: Bins = None

    def __post_init__(self) -> None:
        require(self.bins in (None, *BINS), "bins must be 'fresh' or 'kept'", self.bins)

    def epoch_share(self, rate: Fraction, batches: int) -> Fraction:
        return Fraction(1, batches)

    def schedule(self, sizes: Sizes) -> Schedule:
        schedule = AbstractLoader.schedule(self, sizes)
        if self.bins is None and schedule.epochs_begun > 1:
            raise InvalidParameter(WHICH_BINS)
        return schedule

    def mechanism(self, gaussian: Gaussian, schedule: Schedule, relation: Neighbors) -> Composed:
        begun = schedule.epochs_begun
        kept = begun if self.bins == "kept" and begun > 0 else 1
        epochs = gaussian.random_allocation(steps=schedule.batches, epochs=kept, bins=self.bins, neighbors=relation)
        return epochs * (begun // kept)

    def must(self, schedule: Schedule) -> str:
        again = "there is one epoch" if self.bins is None else BINS[self.bins]
        return (
            f"random allocation, {schedule.epochs_begun} epochs begun of {schedule.batches} steps each: every record "
            f"must draw its batch by itself, uniformly, and joins that one only; {again}. Batches differ in size, and "
            "none is filled up or cut."
        )
