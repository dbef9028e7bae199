"""What would serve a run better, with its number."""

from __future__ import annotations

from cumulant.answer import Guarantee, relation_text
from cumulant.composition import Composed
from cumulant.errors import MixedNeighbors, OutOfReach
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import ADD_REMOVE, ZERO_OUT
from cumulant.printed import rounded_up
from cumulant.sampling.secret_order import SecretOrder
from cumulant.sampling.shuffled import Shuffled

NO_POISSON = "a number for Poisson samples is not a bound for a shuffled loader"
FIX = "assign each record to a random batch, by itself and anew in each epoch (random_allocation)"


def advice_on(run: AbstractMechanism, guarantee: Guarantee) -> tuple[str, ...]:
    """Return what to do instead of shuffling, and the ε that it has at that δ; nothing for other runs.

    >>> from cumulant import REPLACE_ONE, Gaussian
    >>> epoch = Gaussian(noise_multiplier=1.0).shuffled(batches=100, neighbors=REPLACE_ONE)
    >>> advice_on(epoch, epoch.guarantee(delta=1e-5))[0].partition("; ")[2]
    'to have epsilon = 0.6209396718 (add-or-remove-one), assign each record to a random batch, by itself and ...'
    """
    if not any(isinstance(release, Shuffled | SecretOrder) for release, _ in run.releases()):
        return ()
    try:
        better = Composed.of((_allocated(release), count) for release, count in run.releases())
        epsilon = better.epsilon(log_delta=guarantee.log_delta)
    except (MixedNeighbors, OutOfReach):
        return (f"{NO_POISSON}; {FIX}: it costs less",)
    promise = f"epsilon = {rounded_up(epsilon)} ({relation_text(better.neighbors)})"
    return (f"{NO_POISSON}; to have {promise}, {FIX}",) if epsilon < guarantee.epsilon else (NO_POISSON,)


def _allocated(release: AbstractMechanism) -> AbstractMechanism:
    """Return a shuffled epoch as one of random allocation to as many full batches."""
    if isinstance(release, SecretOrder):
        return _allocated(release.mechanism)
    if not isinstance(release, Shuffled):
        return release
    relation = ZERO_OUT if release.relation is ZERO_OUT else ADD_REMOVE
    return release.mechanism.random_allocation(steps=release.batches, neighbors=relation)
