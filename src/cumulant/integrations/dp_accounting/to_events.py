"""From mechanisms to events of dp_accounting, where it has one for them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from cumulant.composition import Composed
from cumulant.errors import InvalidParameter, MixedNeighbors, UnprovenCombination
from cumulant.integrations.dp_accounting.from_events import RELATIONS, REVEALED
from cumulant.integrations.dp_accounting.tables import FromEvent
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.gaussian_mixture import GaussianMixture
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.zcdp import ZCDP
from cumulant.parameters import ratio_above
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.with_replacement import SampledWithReplacement
from cumulant.sampling.without_replacement import SampledWithoutReplacement

LARGEST_POPULATION = 10**12  # records, up to which the two sizes behind a rate are looked for


def to_event(
    mechanism: AbstractMechanism,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> Any:
    """Return the event that `from_event` reads as this mechanism; `UnprovenCombination` where there is none.

    >>> from cumulant import Gaussian
    >>> to_event(Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000)
    SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.01, event=...), count=1000)
    """
    if neighboring_relation not in RELATIONS:
        raise InvalidParameter(f"neighboring_relation must be a NeighboringRelation, got {neighboring_relation!r}")
    relation = RELATIONS[neighboring_relation]
    if mechanism.neighbors not in (None, relation):
        raise MixedNeighbors(
            f"this mechanism is for {mechanism.neighbors.value}, the event is asked for {relation.value}"
        )
    return _written(mechanism, 2 if neighboring_relation is NeighboringRelation.REPLACE_ONE else 1)


def _written(mechanism: AbstractMechanism, unit: int) -> Any:
    """Return an event for a unit of noise: what a record changes, in norms of one."""
    write = WRITERS.get(type(mechanism))
    if write is None or (isinstance(mechanism, ApproximateDP) and mechanism != REVEALED):
        raise UnprovenCombination(f"dp_accounting has no event for {type(mechanism).__name__}")
    return write(mechanism, unit)


def _composed(run: Any, unit: int) -> Any:
    parts = [(_written(release, unit), count) for release, count in run.parts]
    events = [event if count == 1 else dp_event.SelfComposedDpEvent(event, count) for event, count in parts]
    if not events:
        return dp_event.NoOpDpEvent()
    return events[0] if len(events) == 1 else dp_event.ComposedDpEvent(events)


def _sizes(rate: float) -> tuple[int, int]:
    """Return a batch and a population whose ratio, rounded up, is the rate."""
    for most in (10**3, 10**6, 10**9, LARGEST_POPULATION):
        found = Fraction(rate).limit_denominator(most)
        if 0 <= found <= 1 and ratio_above(found.numerator, found.denominator) == rate:
            return found.numerator, found.denominator
    raise UnprovenCombination(f"no two sizes up to {LARGEST_POPULATION} have the ratio {rate!r}")


def _without_replacement(sampled: Any, unit: int) -> Any:
    batch, population = _sizes(sampled.rate)
    return dp_event.SampledWithoutReplacementDpEvent(population, batch, _written(sampled.mechanism, unit))


def _table(mechanism: Any, unit: int) -> Any:
    kind = getattr(dp_event, mechanism.event)
    return kind(**{name: list(value) if isinstance(value, tuple) else value for name, value in mechanism.arguments})


WRITERS: dict[type, Callable[[Any, int], Any]] = {
    Composed: _composed,
    Gaussian: lambda it, unit: dp_event.GaussianDpEvent(it.noise_multiplier * unit),
    GaussianMixture: lambda it, unit: dp_event.MixtureOfGaussiansDpEvent(
        it.noise_multiplier, list(it.sensitivities), list(it.probabilities)
    ),
    Laplace: lambda it, unit: dp_event.LaplaceDpEvent(it.scale * unit),
    ZCDP: lambda it, unit: dp_event.ZCDpEvent(it.rho, it.xi),
    ApproximateDP: lambda it, unit: dp_event.NonPrivateDpEvent(),
    FromEvent: _table,
    PoissonSampled: lambda it, unit: dp_event.PoissonSampledDpEvent(it.rate, _written(it.mechanism, 1)),
    SampledWithoutReplacement: _without_replacement,
    SampledWithReplacement: lambda it, unit: dp_event.SampledWithReplacementDpEvent(
        it.population, it.draws, _written(it.mechanism, unit)
    ),
}
"""How each mechanism is written; of approximate DP only what reveals everything."""
