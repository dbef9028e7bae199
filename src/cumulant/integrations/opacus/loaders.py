"""How a loader draws batches: what is known of it by looking, and what must be seen while it runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal, final

import torch
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler, SequentialSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from cumulant.errors import UnprovenCombination
from cumulant.integrations.opacus.epochs import Epochs

KEPT = (
    *("dataset", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context"),
    *("generator", "prefetch_factor", "persistent_workers"),
)
"""What a loader with other batches has of the one before."""

Drawn = Literal["poisson", "poisson without empty batches", "random allocation", "counted epochs", "something else"]
"""What is seen of a loader."""


def drawn_by(loader: Any) -> Drawn:
    """Return how a loader draws its batches, as far as its samplers tell.

    A loader that fills empty batches with a made-up record is refused: a record that joins such a batch takes the place
    of the made-up one, and changes the sum by up to twice the clipping norm.
    """
    if getattr(getattr(loader, "collate_fn", None), "rand_on_empty", False):
        raise UnprovenCombination(
            "with rand_on_empty=True an empty batch contributes as if it had a record, so that the first record of a "
            "batch changes the sum by up to twice the clipping norm, and no theorem here covers that; leave it out"
        )
    sampler = getattr(loader, "batch_sampler", None)
    if isinstance(sampler, UniformWithReplacementSampler | KeepsEmptyBatches):
        return "poisson"
    if isinstance(sampler, DistributedUniformWithReplacementSampler):
        return "poisson without empty batches"
    if isinstance(sampler, CountedEpochs):
        return "random allocation" if isinstance(sampler.batches, AllocatedBatches) else "counted epochs"
    return "something else"


@final
class PoissonBatches(UniformWithReplacementSampler):  # type: ignore[misc]
    """The Poisson sampler of Opacus, which lets nothing of an epoch that was left into the next one."""

    epochs: Epochs

    @classmethod
    def watch(cls, sampler: UniformWithReplacementSampler, epochs: Epochs) -> None:
        """Let a sampler be one: a loader does not let go of the object that it has."""
        sampler.__class__, sampler.epochs = cls, epochs

    def __iter__(self) -> Iterator[list[int]]:
        self.epochs.drop_what_is_left()
        yield from super().__iter__()


@final
class KeepsEmptyBatches(DistributedUniformWithReplacementSampler):  # type: ignore[misc]
    """The distributed sampler of Opacus, which leaves out batches without a record, with them.

    What it leaves out makes the number of steps depend on the data, and differ between processes.
    """

    epochs: Epochs

    @classmethod
    def of(cls, sampler: DistributedUniformWithReplacementSampler, epochs: Epochs) -> KeepsEmptyBatches:
        same = ("total_size", "sample_rate", "shuffle", "shuffle_seed", "generator")
        made = cls(steps=sampler.num_batches, **{name: getattr(sampler, name) for name in same})
        made.epochs = epochs
        return made

    def __iter__(self) -> Iterator[Any]:
        self.epochs.drop_what_is_left()
        order = torch.arange(self.total_size)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.shuffle_seed + self.epoch)
            order = torch.randperm(self.total_size, generator=generator)
        mine = order[self.rank : self.total_size : self.num_replicas]
        for _ in range(self.num_batches):
            coins = torch.rand(len(mine), generator=self.generator)
            yield mine[coins < self.sample_rate].tolist()


class CountedEpochs(Sampler[Any]):  # type: ignore[misc]
    """A batch sampler whose epochs are counted."""

    def __init__(self, batches: Any, epochs: Epochs) -> None:
        self.batches = batches
        self.epochs = epochs

    def __iter__(self) -> Iterator[Any]:
        return self.epochs.walk(self.batches, is_anew=shuffles_anew(self.batches))

    def __len__(self) -> int:
        return len(self.batches)


@final
class CountedBatches(CountedEpochs, BatchSampler):  # type: ignore[misc]
    """Batches of one size, whose number BatchMemoryManager reads to say how many parts they have."""

    def __init__(self, batches: BatchSampler, epochs: Epochs) -> None:
        super().__init__(batches, epochs)
        self.sampler, self.batch_size, self.drop_last = batches.sampler, batches.batch_size, batches.drop_last


def shuffles_anew(batches: Any) -> bool:
    """Return whether batches are known to walk through all records, in an order that is drawn for every epoch."""
    sampler = getattr(batches, "sampler", None)
    if not isinstance(batches, BatchSampler) or not isinstance(sampler, RandomSampler) or sampler.replacement:
        return False
    leaves_over = len(sampler) % batches.batch_size > 0
    return len(sampler) == len(sampler.data_source) and not (batches.drop_last and leaves_over)


def counted(batches: Any, epochs: Epochs) -> CountedEpochs:
    """Return batches whose epochs are counted."""
    kind = CountedBatches if isinstance(batches, BatchSampler) else CountedEpochs
    return kind(batches, epochs)


@final
class AllocatedBatches(Sampler[Any]):  # type: ignore[misc]
    """Epochs in which every record draws one of the batches by itself, uniformly, anew in each: random allocation.

    Batches differ in size, and may be empty. Of several processes each has records of its own, so that no record is in
    two of them, and all have the same number of batches.
    """

    def __init__(
        self, *, records: int, batches: int, generator: Any = None, process: int = 0, processes: int = 1
    ) -> None:
        self.records, self.batches, self.generator = records, batches, generator
        self.process, self.processes = process, processes

    def __iter__(self) -> Iterator[list[int]]:
        mine = torch.arange(self.process, self.records, self.processes)
        bins = uniform_draws(len(mine), self.batches, self.generator)
        sizes = torch.bincount(bins, minlength=self.batches).tolist()
        for batch in torch.split(mine[torch.argsort(bins)], sizes):
            yield batch.tolist()

    def __len__(self) -> int:
        return self.batches


def uniform_draws(count: int, choices: int, generator: Any = None) -> torch.Tensor:
    """Return numbers from 0 to choices - 1, each as likely to the last digit.

    torch.randint takes remainders of 32 bits, which are uniform for powers of 2 alone: what is drawn beyond the choices
    is drawn again.
    """
    most = 1 << (choices - 1).bit_length()
    drawn = torch.randint(most, (count,), generator=generator)
    while len(again := torch.nonzero(drawn >= choices).flatten()) > 0:
        drawn[again] = torch.randint(most, (len(again),), generator=generator)
    return drawn


def refuse_repeats(loader: Any) -> None:
    """Refuse loaders that are known to use a record more than once in an epoch."""
    sampler = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    if loader.batch_sampler is None:
        raise UnprovenCombination("a loader without batches has no steps; give the DataLoader a batch_size")
    if isinstance(sampler, SequentialSampler):
        return
    again = isinstance(sampler, WeightedRandomSampler)
    if isinstance(sampler, RandomSampler):
        again = sampler.replacement or sampler.num_samples > len(sampler.data_source)
    if again:
        raise UnprovenCombination(
            f"{type(sampler).__name__} may use a record several times in an epoch, and no theorem here covers that; "
            "use poisson_sampling=True, or a loader that uses every record once"
        )
    if isinstance(sampler, DistributedSampler) and not sampler.drop_last and len(loader.dataset) % sampler.num_replicas:
        raise UnprovenCombination(
            "DistributedSampler repeats records to fill up its last batches; give it drop_last=True, or use "
            "poisson_sampling=True"
        )


def tell_what_is_not_used(loader: Any, how: str) -> None:
    """Warn where a loader was given a rule to draw by, which another takes the place of, in which all records are."""
    batches, sampler = loader.batch_sampler, loader.sampler
    if isinstance(batches, BatchSampler):
        usual = isinstance(sampler, SequentialSampler | DistributedSampler) or (
            isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == len(loader.dataset)
        )
        unused = None if usual else sampler
    else:
        ours = drawn_by(loader).startswith(("poisson", "random allocation"))
        unused = None if batches is None or ours else batches
    if unused is not None:
        warnings.warn(
            f"{type(unused).__name__} is not used: {how}, whatever its weight. "
            "What is accounted for is what runs; to leave records out, give a Subset of them",
            stacklevel=5,
        )


def draw_with(loader: Any, rate: float) -> None:
    """Let Opacus' Poisson sampler draw with another rate, and as many batches an epoch as belong to it."""
    sampler = loader.batch_sampler
    loader.sample_rate = sampler.sample_rate = rate
    setattr(sampler, "steps" if isinstance(sampler, UniformWithReplacementSampler) else "num_batches", int(1 / rate))


def with_batch_sampler(loader: Any, sampler: Any) -> Any:
    """Return a loader of the data of another one, with other batches."""
    return DataLoader(batch_sampler=sampler, **{name: getattr(loader, name) for name in KEPT})
