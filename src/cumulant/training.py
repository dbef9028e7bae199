"""A training run in the words of people who train: noise / clipping norm, batch size, epochs.

What a data loader does decides which theorem applies, and the theorems disagree on the unit of noise. The conversion is
made here, once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, final

from cumulant import parameters
from cumulant.composition import Composed
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.numerics.rounding import float_above
from cumulant.parameters import require

Sampling = Literal["poisson", "without_replacement"]
"""What a data loader does."""

SAMPLINGS = ("poisson", "without_replacement")


def dp_sgd(
    *,
    noise_multiplier: float,
    batch_size: int,
    dataset_size: int,
    epochs: float | None = None,
    steps: int | None = None,
    sampling: Sampling = "poisson",
) -> Composed:
    """Return a run of DP-SGD as one mechanism: every step adds Gaussian noise to a sum of clipped gradients.

    `noise_multiplier` is the noise's standard deviation / the clipping norm, whatever the sampling. Give `epochs`,
    which may be a fraction, or `steps`; an epoch is dataset_size / batch_size steps, and a step begun is a step.

    sampling="poisson":              every record joins a batch by its own coin, of probability batch_size /
                                     dataset_size; batch_size is the expected one. Add-or-remove-one.
    sampling="without_replacement":  every step draws a fresh random subset of batch_size records. Replace-one: the sum
                                     changes by up to twice the clipping norm, so the mechanism that is returned has
                                     half the noise multiplier.

    A loader that shuffles and then walks through the data does neither.

    >>> run = dp_sgd(noise_multiplier=1.0, batch_size=250, dataset_size=50_000, epochs=2)
    >>> run.parts[0][0].mechanism, run.parts[0][0].rate, run.parts[0][1]
    (Gaussian(noise_multiplier=1.0), 0.005, 400)
    """
    return TrainingRun.of(
        noise_multiplier=noise_multiplier,
        batch_size=batch_size,
        dataset_size=dataset_size,
        epochs=epochs,
        steps=steps,
        sampling=sampling,
    ).mechanism()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRun:
    """The numbers of a run of DP-SGD, and what they become in the theorems."""

    noise_multiplier: float
    batch_size: int
    dataset_size: int
    steps: int
    sampling: Sampling

    @classmethod
    def of(
        cls, *, noise_multiplier: Any, batch_size: Any, dataset_size: Any, epochs: Any, steps: Any, sampling: Any
    ) -> TrainingRun:
        """Check everything, and turn epochs into steps."""
        if sampling not in SAMPLINGS:
            raise InvalidParameter(
                f"sampling must be {' or '.join(map(repr, SAMPLINGS))}, got {sampling!r}; "
                "for shuffled epochs no amplification is proven, see docs/choose.md"
            )
        n = parameters.whole_number("dataset_size", dataset_size, at_least=1)
        b = parameters.whole_number("batch_size", batch_size, at_least=1)
        require(b <= n, f"batch_size must be at most the dataset_size of {n}", batch_size)
        return cls(
            noise_multiplier=parameters.positive("noise_multiplier", noise_multiplier),
            batch_size=b,
            dataset_size=n,
            steps=_steps(epochs, steps, batches_per_epoch=Fraction(n, b)),
            sampling=sampling,
        )

    @property
    def rate(self) -> float:
        """batch_size / dataset_size, rounded up: more of the data costs more."""
        return float_above(Fraction(self.batch_size, self.dataset_size))

    @property
    def effective_noise_multiplier(self) -> float:
        """The noise in units of what one record can change under the relation of the sampling."""
        return self.noise_multiplier if self.sampling == "poisson" else self.noise_multiplier / 2

    def mechanism(self) -> Composed:
        gaussian = Gaussian(noise_multiplier=self.effective_noise_multiplier)
        if self.sampling == "poisson":
            return gaussian.poisson(rate=self.rate) * self.steps
        return gaussian.without_replacement(rate=self.rate) * self.steps


def _steps(epochs: Any, steps: Any, *, batches_per_epoch: Fraction) -> int:
    """Return the number of steps from exactly one of the two; a step begun is counted."""
    if (epochs is None) == (steps is None):
        raise InvalidParameter(f"give either epochs or steps, got epochs={epochs!r} and steps={steps!r}")
    if steps is not None:
        return parameters.whole_number("steps", steps)
    # The decimal that was written, not the double next to it: 0.1 epochs of 100 batches are 10 steps, not 11.
    written = Fraction(repr(parameters.nonnegative("epochs", epochs)))
    return math.ceil(written * batches_per_epoch)
