"""What every data loader says of itself, and the sizes that it turns into steps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from cumulant import parameters
from cumulant.composition import Composed
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import NAMED, REPLACE_ONE, Neighbors
from cumulant.numerics.rounding import float_above
from cumulant.parameters import require


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """How much of the data a step takes and how many steps there are, as it was asked.

    A step is one of the optimizer: it takes `accumulation_steps` physical batches of batch_size records, and adds noise
    once, to the sum of all their clipped gradients.
    """

    batch_size: Any = None
    dataset_size: Any = None
    sample_rate: Any = None
    epochs: Any = None
    steps: Any = None
    accumulation_steps: Any = None

    def rate(self) -> Fraction:
        """Return how much of the data a step takes, from the two sizes or as given."""
        if self.sample_rate is None:
            return Fraction(*self.counts())
        if self.batch_size is not None or self.dataset_size is not None:
            raise InvalidParameter(
                "give batch_size and dataset_size, or sample_rate, "
                f"got {self.batch_size!r}, {self.dataset_size!r} and {self.sample_rate!r}"
            )
        if self.physical_batches() > 1:
            raise InvalidParameter(
                "sample_rate is how much of the data an optimizer step takes, all its physical batches together: leave "
                f"accumulation_steps out, got {self.accumulation_steps!r}"
            )
        rate = parameters.probability("sample_rate", self.sample_rate)
        require(rate > 0, "sample_rate must be > 0", self.sample_rate)
        return Fraction(rate)

    def counts(self) -> tuple[int, int]:
        """Return how many records a step takes, and how many there are."""
        n = parameters.whole_number("dataset_size", self.dataset_size, at_least=1)
        b = parameters.whole_number("batch_size", self.batch_size, at_least=1)
        k = self.physical_batches()
        each = "batch_size" if k == 1 else f"{k} times batch_size"
        require(b * k <= n, f"{each} must be at most the dataset_size of {n}", self.batch_size)
        return b * k, n

    def physical_batches(self) -> int:
        """Return of how many physical batches the gradients are added up before a step."""
        asked = 1 if self.accumulation_steps is None else self.accumulation_steps
        return parameters.whole_number("accumulation_steps", asked, at_least=1)

    def steps_at(self, rate: Fraction) -> int:
        """Return the number of steps from exactly one of the two; a step begun is counted."""
        if (self.epochs is None) == (self.steps is None):
            raise InvalidParameter(f"give either epochs or steps, got epochs={self.epochs!r} and steps={self.steps!r}")
        if self.steps is not None:
            return parameters.whole_number("steps", self.steps)
        return math.ceil(written_epochs(self.epochs) / rate)

    def epochs_begun(self, steps: int, batches: int) -> int:
        """Return how many epochs are begun, the last of which may be left early."""
        return math.ceil(Fraction(steps, batches) if self.epochs is None else written_epochs(self.epochs))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """How much of the data a step takes, rounded up, and how many steps: `batches` of them an epoch has in full.

    `epochs` are those that were asked for, if it was epochs.
    `batch_size` counts the records of a step, of all its physical batches.
    """

    rate: float
    steps: int
    batches: int
    epochs_begun: int
    batch_size: int | None = None
    dataset_size: int | None = None
    epochs: float | None = None
    physical_batches: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class AbstractLoader(ABC):
    """What a data loader does: its fields are the arguments that it takes beside sizes."""

    name: ClassVar[str]
    also_called: ClassVar[tuple[str, ...]] = ()
    in_short: ClassVar[str]
    """What it does, for the help of the command."""
    natural: ClassVar[Neighbors]
    """The relation that is meant if none is named."""
    relations: ClassVar[tuple[Neighbors, ...]]
    """All that it is covered for."""
    costs_by_epoch: ClassVar[bool] = False
    """Whether every record takes part once in an epoch, and epochs are what costs."""
    shuffled_instead: ClassVar[str | None] = "that is neither Poisson sampling nor a fresh random batch"
    """Why the number does not hold for a loader that shuffles and walks; None if it does."""

    @abstractmethod
    def mechanism(self, gaussian: Gaussian, schedule: Schedule, relation: Neighbors) -> Composed:
        """Return the run, with noise in units of the sampling."""

    @abstractmethod
    def must(self, schedule: Schedule) -> str:
        """Return in words what the loader must do for the number to hold."""

    def words(self, schedule: Schedule) -> str:
        """Return what the loader must do, and what may be done with gradients of several physical batches."""
        if schedule.physical_batches == 1:
            return self.must(schedule)
        return (
            f"{self.must(schedule)} Gradients are accumulated over {schedule.physical_batches} physical batches: a "
            "batch is drawn at once for a whole step of the optimizer and then cut up, in any way; every record's "
            "gradient is clipped by itself, and noise is added once, to the sum of all."
        )

    def clipping_norms(self, relation: Neighbors) -> int:
        """Return the unit of noise of the mechanism, in clipping norms."""
        return 1 if self.natural.joins else 2

    def moved(self, relation: Neighbors) -> float:
        """Return by how many clipping norms a record moves all sums of an epoch, or of a step, at most."""
        return self.clipping_norms(relation)

    def moves(self, relation: Neighbors) -> str:
        """Return in words what a record changes."""
        if relation is REPLACE_ONE:
            return "replacing one record changes a sum of clipped gradients by up to twice the clipping norm"
        return "adding or removing one record changes a sum of clipped gradients by up to the clipping norm"

    def schedule(self, sizes: Sizes) -> Schedule:
        """Check the sizes, and turn epochs into steps."""
        rate = sizes.rate()
        exact = rate if sizes.sample_rate is None else nearest_unit(rate)
        batches = int(1 / exact)  # of an epoch, in full: of the last nothing is known, so it may be missing
        steps = sizes.steps_at(self.epoch_share(exact, batches))
        b, n = (None, None) if sizes.sample_rate is not None else sizes.counts()
        begun = sizes.epochs_begun(steps, batches)
        return Schedule(
            rate=float_above(rate),
            steps=steps,
            batches=batches,
            epochs_begun=begun,
            batch_size=b,
            dataset_size=n,
            epochs=sizes.epochs,
            physical_batches=sizes.physical_batches(),
        )

    def epoch_share(self, rate: Fraction, batches: int) -> Fraction:
        """Return how much of an epoch a step is."""
        return rate

    def relation(self, neighbors: Any) -> Neighbors:
        """Return the relation that is asked for, if it is covered."""
        require(neighbors is None or isinstance(neighbors, Neighbors), f"neighbors must be {NAMED}", neighbors)
        if neighbors is not None and neighbors not in self.relations:
            raise UnprovenCombination(
                f"sampling={self.name!r} has no theorem here for {neighbors.value}; it is covered for "
                f"{' and '.join(one.value for one in self.relations)}"
            )
        return self.natural if neighbors is None else neighbors


def written_epochs(epochs: Any) -> Fraction:
    """Return the decimal that was written, not the double next to it: 0.1 epochs of 100 batches are 10 steps."""
    return Fraction(repr(parameters.nonnegative("epochs", epochs)))


def nearest_unit(rate: Fraction) -> Fraction:
    """Return 1/n if the rate is the double next to it: an epoch of a loader that draws with 1/n has n steps.

    >>> nearest_unit(Fraction(1 / 49))
    Fraction(1, 49)
    """
    batches = round(1 / rate)
    return Fraction(1, batches) if float(rate) == 1 / batches else rate
