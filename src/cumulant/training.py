"""A training run in the words of people who train: noise / clipping norm, batch size, epochs.

What a data loader does decides which theorem applies, and the theorems disagree on the unit of noise. The conversion is
made here, once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

from cumulant import parameters
from cumulant.answer import Method
from cumulant.composition import Composed
from cumulant.loaders import Sampling, loader_named
from cumulant.loaders.loader import AbstractLoader, Schedule, Sizes
from cumulant.loaders.opacus import torch_coin
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import Neighbors
from cumulant.parameters import Bins, by_name
from cumulant.planning import calibrate

__all__ = ["Sampling", "TrainingRun", "dp_sgd", "dp_sgd_noise", "torch_coin"]


@by_name
def dp_sgd(
    *,
    noise_multiplier: float,
    batch_size: int | None = None,
    dataset_size: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    sample_rate: float | None = None,
    accumulation_steps: int | None = None,
    sampling: Sampling = "poisson",
    bins: Bins = None,
    drop_last: bool | None = None,
    max_batch: int | None = None,
    records_per_user: int | None = None,
    neighbors: Neighbors | None = None,
) -> Composed:
    """Return a run of DP-SGD as one mechanism: every step adds Gaussian noise to a sum of clipped gradients.

    `noise_multiplier` is the noise's standard deviation / the clipping norm, whatever the sampling. How much of the
    data a step takes is batch_size / dataset_size, or `sample_rate` as it is: a loader that draws with 1/len(loader),
    as Opacus does, takes more than batch_size / dataset_size where the last batch is dropped. Give `epochs`, which may
    be a fraction, or `steps`; an epoch is 1 / rate steps, and a step begun is a step.

    `accumulation_steps`, where gradients of several batches are added up before noise is: a step is one of the
    optimizer and takes accumulation_steps * batch_size records, so the rate is that of all of them. Covered if they are
    drawn at once, as one sample, and cut up afterwards, so that no record is in two of them, and noise is added once.
    Batches that are drawn one by one may share records, which then count several times: `GaussianMixture`.

    sampling="poisson":              every record joins a batch by its own coin; batch_size is the expected one.
                                     Add-or-remove-one, where sums are divided by a public number, and rate and steps
                                     are public numbers. If they depend on the number of records, as those of Opacus do,
                                     neighbors=cumulant.ZERO_OUT is what holds. With `max_batch` batches are cut to
                                     that size, as padded arrays are: zero-out, where dataset_size is exact and public.
                                     With `records_per_user` it protects a person with up to so many records.
    sampling="opacus":               the same with the rate and the coin of Opacus, 1/len(loader), in epochs of
                                     len(loader) steps; `drop_last` as the DataLoader has it. Zero-out.
    sampling="without_replacement":  every step draws a fresh random subset of batch_size records. Replace-one: the sum
                                     changes by up to twice the clipping norm, so the mechanism that is returned has
                                     half the noise multiplier.
    sampling="shuffled":             every epoch walks through all records once, in a random order. Replace-one; or
                                     zero-out; or add-or-remove-one where one record more makes no other number of
                                     batches, with `drop_last` as the DataLoader has it. An upper bound for the epochs
                                     begun, without amplification; intervals reach down to what some neighbours attain.
    sampling="random_allocation":    in every epoch every record joins one of ⌊1/rate⌋ batches, which it draws for
                                     itself (also "balls_in_bins"). Add-or-remove-one or zero-out, whole epochs. Of
                                     several epochs `bins` must be said: "fresh" if records draw anew in each, "kept"
                                     if they keep what they drew.

    >>> run = dp_sgd(noise_multiplier=1.0, batch_size=250, dataset_size=50_000, epochs=2)
    >>> run.parts[0][0].mechanism, run.parts[0][0].rate, run.parts[0][1]
    (Gaussian(noise_multiplier=1.0), 0.005, 400)
    >>> run == dp_sgd(noise_multiplier=1.0, sample_rate=0.005, steps=400)
    True
    """
    return TrainingRun.of(
        noise_multiplier=noise_multiplier,
        batch_size=batch_size,
        dataset_size=dataset_size,
        epochs=epochs,
        steps=steps,
        sample_rate=sample_rate,
        accumulation_steps=accumulation_steps,
        sampling=sampling,
        bins=bins,
        drop_last=drop_last,
        max_batch=max_batch,
        records_per_user=records_per_user,
        neighbors=neighbors,
    ).mechanism()


@by_name
def dp_sgd_noise(
    *,
    epsilon: float,
    delta: float | None = None,
    log_delta: float | None = None,
    batch_size: int | None = None,
    dataset_size: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    sample_rate: float | None = None,
    accumulation_steps: int | None = None,
    sampling: Sampling = "poisson",
    bins: Bins = None,
    drop_last: bool | None = None,
    max_batch: int | None = None,
    records_per_user: int | None = None,
    neighbors: Neighbors | None = None,
    method: Method = "best",
) -> float:
    """Return the smallest noise multiplier, to 1e-9 relative, with which a run of `dp_sgd` is within (ε, δ).

    >>> plan = {"batch_size": 250, "dataset_size": 50_000, "epochs": 2}
    >>> sigma = dp_sgd_noise(epsilon=1.0, delta=1e-5, **plan)
    >>> dp_sgd(noise_multiplier=sigma, **plan).epsilon(delta=1e-5) <= 1.0
    True
    """
    plan = TrainingRun.of(
        noise_multiplier=1.0,
        batch_size=batch_size,
        dataset_size=dataset_size,
        epochs=epochs,
        steps=steps,
        sample_rate=sample_rate,
        accumulation_steps=accumulation_steps,
        sampling=sampling,
        bins=bins,
        drop_last=drop_last,
        max_batch=max_batch,
        records_per_user=records_per_user,
        neighbors=neighbors,
    )
    return plan.least_noise(epsilon=epsilon, delta=delta, log_delta=log_delta, method=method)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRun:
    """The numbers of a run of DP-SGD, and what its data loader makes of them."""

    noise_multiplier: float
    loader: AbstractLoader
    schedule: Schedule
    neighbors: Neighbors

    @classmethod
    def of(
        cls,
        *,
        noise_multiplier: Any,
        batch_size: Any = None,
        dataset_size: Any = None,
        epochs: Any = None,
        steps: Any = None,
        sample_rate: Any = None,
        accumulation_steps: Any = None,
        sampling: Any = "poisson",
        neighbors: Any = None,
        **of_loader: Any,
    ) -> TrainingRun:
        """Check everything, and turn epochs into steps; what one loader alone takes goes on to it."""
        loader = loader_named(sampling, of_loader)
        sizes = Sizes(
            batch_size=batch_size,
            dataset_size=dataset_size,
            sample_rate=sample_rate,
            epochs=epochs,
            steps=steps,
            accumulation_steps=accumulation_steps,
        )
        schedule = loader.schedule(sizes)
        return cls(
            noise_multiplier=parameters.positive("noise_multiplier", noise_multiplier),
            loader=loader,
            schedule=schedule,
            neighbors=loader.relation(neighbors),
        )

    @property
    def effective_noise_multiplier(self) -> float:
        """The noise in units of what one record can change: what it adds, or what replacing it does."""
        return self.noise_multiplier / self.loader.moved(self.neighbors)

    def mechanism(self) -> Composed:
        gaussian = Gaussian(noise_multiplier=self.noise_multiplier / self.loader.clipping_norms(self.neighbors))
        return self.loader.mechanism(gaussian, self.schedule, self.neighbors)

    def with_noise(self, noise_multiplier: float) -> TrainingRun:
        """Return this run with other noise."""
        return replace(self, noise_multiplier=parameters.positive("noise_multiplier", noise_multiplier))

    def least_noise(
        self, *, epsilon: float, delta: float | None = None, log_delta: float | None = None, method: Method = "best"
    ) -> float:
        """Return the smallest noise multiplier with which this run is within (ε, δ)."""
        return calibrate(
            lambda sigma: self.with_noise(sigma).mechanism(),
            epsilon=epsilon,
            delta=delta,
            log_delta=log_delta,
            method=method,
        )
