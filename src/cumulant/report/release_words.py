"""A release in plain words: what was added to what, drawn how."""

from __future__ import annotations

from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.laplace import Laplace
from cumulant.neighbors import ADD_REMOVE
from cumulant.printed import given
from cumulant.sampling.once_per_epoch import OncePerEpoch
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.with_replacement import SampledWithReplacement
from cumulant.sampling.without_replacement import SampledWithoutReplacement


def release_words(release: AbstractMechanism, count: int) -> str:
    """Return what was released, how often, and how records were drawn for it.

    >>> release_words(Gaussian(noise_multiplier=1.0).poisson(rate=0.01), 1000)
    '1000 x Gaussian noise of 1 x the largest contribution of one record, each time on a Poisson sample: every record
    joins by its own coin of probability 0.01, and batches may be empty'
    """
    times = "" if count == 1 else f"{count} x "
    match release:
        case PoissonSampled():
            drawn = (
                "a Poisson sample: every record joins by its own coin of probability "
                f"{given(release.rate)}, and batches may be empty"
            )
            return f"{times}{_noise(release.mechanism, 'the largest contribution of one record')}, each time on {drawn}"
        case SampledWithoutReplacement():
            drawn = f"a fresh random subset of fixed size, {given(release.rate)} of all records"
            return f"{times}{_noise(release.mechanism, CHANGE)}, each time on {drawn}"
        case SampledWithReplacement():
            drawn = f"{release.draws} independent draws from {release.population} records"
            return f"{times}{_noise(release.mechanism, CHANGE)}, each time on {drawn}"
        case OncePerEpoch():
            joins = release.relation is ADD_REMOVE
            noise = _noise(release.mechanism, "the largest contribution of one record" if joins else CHANGE)
            drawn = "in a batch that it draws for itself" if joins else "in an order that does not look at the records"
            return f"{times}an epoch in which every record takes part once, {drawn}, {noise}"
        case _:
            return f"{times}{_noise(release, 'the sensitivity')}"


CHANGE = "what replacing one record changes"


def _noise(mechanism: AbstractMechanism, unit: str) -> str:
    match mechanism:
        case Gaussian(noise_multiplier=sigma):
            return f"Gaussian noise of {given(sigma)} x {unit}"
        case Laplace(scale=scale):
            return f"Laplace noise of {given(scale)} x {unit}"
        case _:
            return repr(mechanism)
