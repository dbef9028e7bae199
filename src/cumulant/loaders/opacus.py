"""Poisson samples as Opacus draws them: its rate, its coin, its epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from cumulant import parameters
from cumulant.composition import Composed
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.loaders.loader import AbstractLoader, Schedule, Sizes
from cumulant.loaders.poisson import own_coins
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import ZERO_OUT, Neighbors
from cumulant.printed import given

TORCH_GRID = Fraction(1, 2**24)  # of probability: a coin that is a float32 below a rate


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OpacusLoader(AbstractLoader):
    """Poisson samples with the rate and the coin of Opacus: 1/len(loader), and an epoch has len(loader) steps.

    Both follow from the number of records, and so does what Opacus divides sums by: zero-out is what holds.
    """

    name: ClassVar[str] = "opacus"
    in_short: ClassVar[str] = (
        "the same with the rate and the coin of Opacus: 1/len(loader); the number of records is public (zero-out)"
    )
    natural: ClassVar[Neighbors] = ZERO_OUT
    relations: ClassVar[tuple[Neighbors, ...]] = (ZERO_OUT,)

    drop_last: bool | None = None

    def schedule(self, sizes: Sizes) -> Schedule:
        if sizes.sample_rate is not None or sizes.batch_size is None or sizes.dataset_size is None:
            raise InvalidParameter(
                "sampling='opacus' needs batch_size and dataset_size: its rate follows from both; for another rate "
                "give sampling='poisson' and sample_rate=torch_coin(rate), of cumulant.training"
            )
        if sizes.physical_batches() > 1:
            raise UnprovenCombination(
                "the loader of Opacus draws every physical batch by itself, so a record may be in several that are "
                "accumulated, and counts several times; give batch_size of a whole step and split it by "
                "BatchMemoryManager, or say what happens as a GaussianMixture (docs/with-opacus.md)"
            )
        b, n = sizes.counts()
        batches = n // b if self.drop_last else -(-n // b)
        steps = sizes.steps_at(Fraction(1, batches))
        begun = sizes.epochs_begun(steps, batches)
        coin = torch_coin(1 / batches)
        return Schedule(rate=coin, steps=steps, batches=batches, epochs_begun=begun, batch_size=b, dataset_size=n)

    def mechanism(self, gaussian: Gaussian, schedule: Schedule, relation: Neighbors) -> Composed:
        return gaussian.poisson(rate=schedule.rate, neighbors=relation) * schedule.steps

    def must(self, schedule: Schedule) -> str:
        rule = " (1/len(loader), on the grid of 2^-24 that torch.rand has)"
        return own_coins(schedule.steps, f"{given(schedule.rate)}{rule}")


def torch_coin(rate: float) -> float:
    """Return the probability of `torch.rand(()) < rate`, from above: the coin that Opacus tosses for a record.

    A float32 of the CPU's generator is one of the multiples of 2^-24 below 1, each as likely. Those below the rate are
    ⌈rate·2²⁴⌉. Rounding the rate to a float32 first keeps it on its side of every multiple, or takes it down to one.

    >>> torch_coin(0.25), torch_coin(1e-6) / 1e-6
    (0.25, 1.01327...)
    """
    exact = Fraction(parameters.probability("rate", rate))
    return float(math.ceil(exact / TORCH_GRID) * TORCH_GRID)
