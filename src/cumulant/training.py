"""A training run in the words of people who train: noise / clipping norm, batch size, epochs.

What a data loader does decides which theorem applies, and the theorems disagree on the unit of noise. The conversion is
made here, once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, final

from cumulant import parameters
from cumulant.answer import Method
from cumulant.composition import Composed
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import ADD_REMOVE, NAMED, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.numerics.rounding import float_above
from cumulant.parameters import Bins, by_name, require
from cumulant.planning import calibrate
from cumulant.sampling.once_per_epoch import OncePerEpoch
from cumulant.sampling.random_allocation import WHICH_BINS

Sampling = Literal["poisson", "without_replacement", "random_allocation", "balls_in_bins", "shuffled"]
"""What a data loader does."""

NATURAL = {
    "poisson": ADD_REMOVE,
    "without_replacement": REPLACE_ONE,
    "random_allocation": ADD_REMOVE,
    "shuffled": REPLACE_ONE,
}
"""The relation of each sampling, and with it the unit of noise: what a record adds, or what replacing one changes."""

ALSO_CALLED = {
    "fixed": "without_replacement",
    "allocation": "random_allocation",
    "balls_in_bins": "random_allocation",
}  # by the command, and by others
BY_EPOCH = ("random_allocation", "shuffled")  # samplings that cost by the epoch: every record takes part once in each
OPACUS = "; for the loader of Opacus give sampling='poisson' and sample_rate=torch_coin(1 / len(loader))"
TORCH_GRID = Fraction(1, 2**24)  # of probability: a coin that is a float32 below a rate


@by_name
def dp_sgd(
    *,
    noise_multiplier: float,
    batch_size: int | None = None,
    dataset_size: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    sample_rate: float | None = None,
    sampling: Sampling = "poisson",
    bins: Bins = None,
    neighbors: Neighbors | None = None,
) -> Composed:
    """Return a run of DP-SGD as one mechanism: every step adds Gaussian noise to a sum of clipped gradients.

    `noise_multiplier` is the noise's standard deviation / the clipping norm, whatever the sampling. How much of the
    data a step takes is batch_size / dataset_size, or `sample_rate` as it is: a loader that draws with 1/len(loader),
    as Opacus does, takes more than batch_size / dataset_size where the last batch is dropped. Give `epochs`, which may
    be a fraction, or `steps`; an epoch is 1 / rate steps, and a step begun is a step.

    sampling="poisson":              every record joins a batch by its own coin; batch_size is the expected one.
                                     Add-or-remove-one, where sums are divided by a public number, and rate and steps
                                     are public numbers. If they depend on the number of records, as those of Opacus do,
                                     neighbors=cumulant.ZERO_OUT is what holds.
    sampling="without_replacement":  every step draws a fresh random subset of batch_size records. Replace-one: the sum
                                     changes by up to twice the clipping norm, so the mechanism that is returned has
                                     half the noise multiplier.
    sampling="shuffled":             every epoch walks through all records once, in any order. Replace-one, half the
                                     noise multiplier, and one release per epoch begun, without amplification.
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
        sampling=sampling,
        bins=bins,
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
    sampling: Sampling = "poisson",
    bins: Bins = None,
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
        sampling=sampling,
        bins=bins,
        neighbors=neighbors,
    )
    return plan.least_noise(epsilon=epsilon, delta=delta, log_delta=log_delta, method=method)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRun:
    """The numbers of a run of DP-SGD, and what they become in the theorems.

    `rate` is how much of the data a step takes, rounded up, `batches` how many an epoch has in full; `epochs_begun` is
    known where the epochs are what costs.
    """

    noise_multiplier: float
    rate: float
    steps: int
    sampling: Sampling
    neighbors: Neighbors
    batch_size: int | None = None
    dataset_size: int | None = None
    batches: int = 1
    epochs_begun: int | None = None
    bins: Bins = None

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
        sampling: Any = "poisson",
        bins: Any = None,
        neighbors: Any = None,
    ) -> TrainingRun:
        """Check everything, and turn epochs into steps."""
        sampling = ALSO_CALLED.get(sampling, sampling) if isinstance(sampling, str) else sampling
        if sampling not in list(NATURAL):
            hint = OPACUS if sampling == "opacus" else ""
            raise InvalidParameter(f"sampling must be {' or '.join(map(repr, NATURAL))}, got {sampling!r}{hint}")
        rate = exact_rate(batch_size, dataset_size, sample_rate)
        exact = rate if sample_rate is None else _nearest_unit(rate)
        batches = int(1 / exact)  # of an epoch, in full: of the last nothing is known, so it may be missing
        count = steps_of(epochs, steps, Fraction(1, batches) if sampling == "random_allocation" else exact)
        begun = math.ceil(Fraction(count, batches) if epochs is None else _written(epochs))
        return cls(
            noise_multiplier=parameters.positive("noise_multiplier", noise_multiplier),
            rate=float_above(rate),
            steps=count,
            sampling=sampling,
            neighbors=_relation(sampling, neighbors),
            batch_size=batch_size if sample_rate is None else None,
            dataset_size=dataset_size if sample_rate is None else None,
            batches=batches,
            epochs_begun=begun if sampling in BY_EPOCH else None,
            bins=_bins(bins, sampling, begun),
        )

    @property
    def effective_noise_multiplier(self) -> float:
        """The noise in units of the sampling: what one record adds, or what replacing one can change."""
        return self.noise_multiplier if NATURAL[self.sampling] is ADD_REMOVE else self.noise_multiplier / 2

    def mechanism(self) -> Composed:
        gaussian = Gaussian(noise_multiplier=self.effective_noise_multiplier)
        if self.sampling == "random_allocation" and self.epochs_begun is not None:
            kept = self.epochs_begun if self.bins == "kept" and self.epochs_begun > 0 else 1
            epochs = gaussian.random_allocation(
                steps=self.batches, epochs=kept, bins=self.bins, neighbors=self.neighbors
            )
            return epochs * (self.epochs_begun // kept)
        if self.epochs_begun is not None:
            return OncePerEpoch(mechanism=gaussian, relation=self.neighbors) * self.epochs_begun
        if self.sampling == "poisson":
            return gaussian.poisson(rate=self.rate, neighbors=self.neighbors) * self.steps
        return gaussian.without_replacement(rate=self.rate) * self.steps

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


def torch_coin(rate: float) -> float:
    """Return the probability of `torch.rand(()) < rate`, from above: the coin that Opacus tosses for a record.

    A float32 of the CPU's generator is one of the multiples of 2^-24 below 1, each as likely. Those below the rate are
    ⌈rate·2²⁴⌉. Rounding the rate to a float32 first keeps it on its side of every multiple, or takes it down to one.

    >>> torch_coin(0.25), torch_coin(1e-6) / 1e-6
    (0.25, 1.01327...)
    """
    exact = Fraction(parameters.probability("rate", rate))
    return float(math.ceil(exact / TORCH_GRID) * TORCH_GRID)


def exact_rate(batch_size: Any, dataset_size: Any, sample_rate: Any) -> Fraction:
    """Return how much of the data a step takes, from the two sizes or as given."""
    if sample_rate is not None:
        if batch_size is not None or dataset_size is not None:
            raise InvalidParameter(
                "give batch_size and dataset_size, or sample_rate, "
                f"got {batch_size!r}, {dataset_size!r} and {sample_rate!r}"
            )
        rate = parameters.probability("sample_rate", sample_rate)
        require(rate > 0, "sample_rate must be > 0", sample_rate)
        return Fraction(rate)
    n = parameters.whole_number("dataset_size", dataset_size, at_least=1)
    b = parameters.whole_number("batch_size", batch_size, at_least=1)
    require(b <= n, f"batch_size must be at most the dataset_size of {n}", batch_size)
    return Fraction(b, n)


def _relation(sampling: Sampling, neighbors: Any) -> Neighbors:
    """Return the relation that is asked for: Poisson samples have several, other samplings their own."""
    require(neighbors is None or isinstance(neighbors, Neighbors), f"neighbors must be {NAMED}", neighbors)
    nulls = sampling == "random_allocation" and neighbors is ZERO_OUT
    if neighbors not in (None, NATURAL[sampling]) and sampling != "poisson" and not nulls:
        raise UnprovenCombination(
            f"sampling={sampling!r} has no theorem here for {neighbors.value}; it is covered for "
            f"{NATURAL[sampling].value}"
        )
    return NATURAL[sampling] if neighbors is None else neighbors


def _bins(bins: Any, sampling: Sampling, epochs: int | None) -> Bins:
    """Return whether batches are drawn anew in each epoch, which must be said where it matters."""
    require(bins in (None, "fresh", "kept"), "bins must be 'fresh' or 'kept'", bins)
    if sampling != "random_allocation":
        require(bins is None, "bins belong to sampling='random_allocation'", bins)
    elif bins is None and epochs is not None and epochs > 1:
        raise InvalidParameter(WHICH_BINS)
    return bins  # type: ignore[no-any-return]


def steps_of(epochs: Any, steps: Any, rate: Fraction) -> int:
    """Return the number of steps from exactly one of the two; a step begun is counted."""
    if (epochs is None) == (steps is None):
        raise InvalidParameter(f"give either epochs or steps, got epochs={epochs!r} and steps={steps!r}")
    if steps is not None:
        return parameters.whole_number("steps", steps)
    return math.ceil(_written(epochs) / rate)


def _written(epochs: Any) -> Fraction:
    """Return the decimal that was written, not the double next to it: 0.1 epochs of 100 batches are 10 steps."""
    return Fraction(repr(parameters.nonnegative("epochs", epochs)))


def _nearest_unit(rate: Fraction) -> Fraction:
    """Return 1/n if the rate is the double next to it: an epoch of a loader that draws with 1/n has n steps.

    >>> _nearest_unit(Fraction(1 / 49))
    Fraction(1, 49)
    """
    batches = round(1 / rate)
    return Fraction(1, batches) if float(rate) == 1 / batches else rate
