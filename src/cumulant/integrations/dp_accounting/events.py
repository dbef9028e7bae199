"""Events of dp_accounting and mechanisms, in the right unit of noise, both ways.

What no theorem covers, and what dp_accounting has no event for, is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, UnsupportedEventError

from cumulant import parameters
from cumulant.composition import Composed
from cumulant.errors import CumulantError, InvalidParameter, MixedNeighbors, UnprovenCombination
from cumulant.integrations.dp_accounting.tables import FromEvent, buckets, discrete_laplace, special_bucket
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.gaussian_mixture import GaussianMixture
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.zcdp import ZCDP
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.numerics.rounding import float_above
from cumulant.parameters import ratio_above
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.poisson_users import PoissonUsers
from cumulant.sampling.truncated_poisson import TruncatedPoisson
from cumulant.sampling.with_replacement import SampledWithReplacement
from cumulant.sampling.without_replacement import SampledWithoutReplacement

LARGEST_POPULATION = 10**12  # records, up to which the two sizes behind a rate are looked for
REVEALED = ApproximateDP(epsilon=0.0, delta=1.0)  # everything is told
NOTHING = Composed(())  # nothing is

RELATIONS: dict[NeighboringRelation, Neighbors] = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: ADD_REMOVE,
    NeighboringRelation.REPLACE_ONE: REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL: ZERO_OUT,  # a record becomes one that contributes nothing
}
"""The relation of the theorems that answer for one of dp_accounting."""


class EventRefused(UnprovenCombination, UnsupportedEventError):  # type: ignore[misc]
    """No theorem here covers an event, or an event inside it: that one is `event`.

    It is dp_accounting's UnsupportedEventError as well, which accountants raise.
    """

    def __init__(self, event: Any, reason: str) -> None:
        super().__init__(f"{type(event).__name__}: {reason}")
        self.event, self.reason = event, reason


class InvalidEvent(EventRefused, InvalidParameter):
    """A number in an event, or in an event inside it, is none that it can have: a ValueError, as in dp_accounting."""


def from_event(
    event: Any, *, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
) -> Composed:
    """Return what an event releases, as a mechanism for a relation.

    An event's noise is in units of the norm of one record. Under REPLACE_ONE a sum changes by up to twice that, so the
    mechanism has half the noise multiplier, except inside a Poisson sample, whose unit is one record here, too.
    REPLACE_SPECIAL, where a record becomes one that contributes nothing, costs what ADD_OR_REMOVE_ONE does, but for
    truncated batches.

    Laplace and discrete Laplace noise are about one number; for vectors the Rényi curve of Laplace noise holds
    (method="rdp"). A ZCDpEvent is taken as it is stated.

    >>> from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    >>> run = from_event(SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1000))
    >>> run.epsilon(delta=1e-5)
    1.82823666...
    """
    if neighboring_relation not in RELATIONS:
        raise EventRefused(event, f"neighboring_relation must be a NeighboringRelation, got {neighboring_relation!r}")
    return _Reader(neighboring_relation).read(event)


class _Reader:
    """Reads events for one relation."""

    def __init__(self, relation: NeighboringRelation) -> None:
        self.named = relation
        self.relation = RELATIONS[relation]
        self.unit = 2 if relation is NeighboringRelation.REPLACE_ONE else 1

    def read(self, event: Any) -> Composed:
        """Return an event as releases with counts; an error names the innermost event that is refused."""
        read = READERS.get(type(event))
        if read is None:
            raise EventRefused(event, "no theorem here covers this event")
        try:
            found = read(self, event)
        except EventRefused:
            raise
        except InvalidParameter as error:
            raise InvalidEvent(event, str(error)) from error
        except CumulantError as error:
            raise EventRefused(event, str(error)) from error
        return found if isinstance(found, Composed) else Composed.of([(found, 1)])

    # Compositions --------------------------------------------------------------------------------

    def several(self, event: Any) -> Composed:
        return Composed.of((self.read(inner), 1) for inner in event.events)

    def repeated(self, event: Any) -> Composed:
        return self.read(event.event) * parameters.count(event.count)

    # Noise ---------------------------------------------------------------------------------------

    def noise(self, event: Any, kind: Callable[[float], AbstractMechanism]) -> AbstractMechanism:
        size = parameters.nonnegative("noise_multiplier", event.noise_multiplier)
        return REVEALED if size == 0 else kind(size / self.unit)

    def discrete_laplace(self, event: Any) -> AbstractMechanism:
        noise = parameters.nonnegative("noise_parameter", event.noise_parameter)
        if event.sensitivity == 0 or noise == 0:
            return NOTHING if event.sensitivity == 0 else REVEALED
        pair = discrete_laplace(event.noise_parameter, self.unit * event.sensitivity, self.relation)
        return _remembered(event, pair, noise_parameter=event.noise_parameter, sensitivity=event.sensitivity)

    def randomized_response(self, event: Any) -> AbstractMechanism:
        if self.named is NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise EventRefused(
                event,
                "neighboring_relation must be `REPLACE_ONE` or `REPLACE_SPECIAL`: an answer that is there or not is no "
                "randomized response; use a replace relation",
            )
        if parameters.whole_number("num_buckets", event.num_buckets, at_least=1) == 1:
            return NOTHING
        if parameters.probability("noise_parameter", event.noise_parameter) == 0:
            return REVEALED
        table = buckets if self.named is NeighboringRelation.REPLACE_ONE else special_bucket
        pair = table(event.noise_parameter, event.num_buckets)
        return _remembered(event, pair, noise_parameter=event.noise_parameter, num_buckets=event.num_buckets)

    def zcdp(self, event: Any) -> AbstractMechanism:
        return REVEALED if math.inf in (event.rho, event.xi) else ZCDP(rho=event.rho, xi=event.xi)

    def mixture(self, event: Any) -> AbstractMechanism:
        if self.named is NeighboringRelation.REPLACE_ONE:
            raise EventRefused(
                event,
                "neighboring_relation must be `ADD_OR_REMOVE_ONE` or `REPLACE_SPECIAL`: its pair is about a record "
                "that is there or not",
            )
        if not any(event.sensitivities):
            return NOTHING
        if event.standard_deviation == 0:
            return REVEALED
        return GaussianMixture(
            noise_multiplier=event.standard_deviation,
            sensitivities=event.sensitivities,
            probabilities=event.sampling_probs,
            relation=self.relation,
        )

    def tree(self, event: Any) -> AbstractMechanism:
        """A record is in one leaf of one tree, and in the nodes above it that are complete (Kairouz et al. 2021).

        A node of 2^k leaves is released with its last leaf. Of n steps the first 2^⌊log2 n⌋ complete a node of that
        many, so its leaves are in ⌊log2 n⌋ + 1 nodes, and no leaf is in more. Trees share no records: the largest one
        counts.
        """
        if self.named is not NeighboringRelation.REPLACE_SPECIAL:
            raise EventRefused(event, "trees are covered where a record becomes a special one; use REPLACE_SPECIAL")
        sigma = parameters.nonnegative("noise_multiplier", event.noise_multiplier)
        given = event.step_counts if isinstance(event.step_counts, list | tuple) else [event.step_counts]
        counts = [parameters.whole_number("step_counts", count) for count in given]
        if not any(counts):
            return NOTHING
        height = max(counts).bit_length()  # ⌊log2 n⌋ + 1
        return REVEALED if sigma == 0 else Gaussian(noise_multiplier=sigma) * height

    # Samples -------------------------------------------------------------------------------------

    def poisson(self, event: Any) -> AbstractMechanism:
        if self.named is NeighboringRelation.REPLACE_ONE and _has(event.event, dp_event.ZCDpEvent):
            raise EventRefused(event, "a zCDP claim about replacing a record says nothing of one that joins a sample")
        inside = _Reader(NeighboringRelation.ADD_OR_REMOVE_ONE)  # its unit is what one record adds, for both relations
        rate = parameters.probability("sampling_probability", event.sampling_probability)
        return _sampled(
            inside.read(event.event), lambda it: it.poisson(rate=rate, neighbors=self.relation), none=rate == 0
        )

    def truncated(self, event: Any) -> AbstractMechanism:
        """Under add-or-remove-one dataset_size is that of the larger data set, there as here."""
        rate = parameters.probability("sampling_probability", event.sampling_probability)
        most = parameters.whole_number("truncated_batch_size", event.truncated_batch_size)
        records = parameters.whole_number("dataset_size", event.dataset_size)
        noise = parameters.nonnegative("noise_multiplier", event.noise_multiplier)
        if 0 in (rate, most, records) or noise == 0:
            return REVEALED if noise == 0 and 0 not in (rate, most, records) else NOTHING
        gaussian = Gaussian(noise_multiplier=noise)
        return gaussian.poisson(rate=rate, max_batch=most, population=records, neighbors=self.relation)

    def without_replacement(self, event: Any) -> AbstractMechanism:
        inner, size, of = self._fixed(event), event.sample_size, event.source_dataset_size
        return _sampled(inner, lambda it: it.without_replacement(batch=size, population=of), none=size == 0)

    def with_replacement(self, event: Any) -> AbstractMechanism:
        inner, size, of = self._fixed(event), event.sample_size, event.source_dataset_size
        return _sampled(inner, lambda it: it.with_replacement(draws=size, population=of), none=size == 0)

    def _fixed(self, event: Any) -> Composed:
        if self.named is not NeighboringRelation.REPLACE_ONE:
            raise EventRefused(event, "samples of fixed size are about replacing a record; use REPLACE_ONE")
        return self.read(event.event)


READERS: dict[type, Callable[[_Reader, Any], AbstractMechanism]] = {
    dp_event.NoOpDpEvent: lambda reader, event: NOTHING,
    dp_event.NonPrivateDpEvent: lambda reader, event: REVEALED,
    dp_event.ComposedDpEvent: _Reader.several,
    dp_event.SelfComposedDpEvent: _Reader.repeated,
    dp_event.GaussianDpEvent: lambda reader, event: reader.noise(event, lambda sigma: Gaussian(noise_multiplier=sigma)),
    dp_event.LaplaceDpEvent: lambda reader, event: reader.noise(event, lambda scale: Laplace(scale=scale)),
    dp_event.DiscreteLaplaceDpEvent: _Reader.discrete_laplace,
    dp_event.RandomizedResponseDpEvent: _Reader.randomized_response,
    dp_event.ZCDpEvent: _Reader.zcdp,
    dp_event.MixtureOfGaussiansDpEvent: _Reader.mixture,
    dp_event.SingleEpochTreeAggregationDpEvent: _Reader.tree,
    dp_event.PoissonSampledDpEvent: _Reader.poisson,
    dp_event.TruncatedSubsampledGaussianDpEvent: _Reader.truncated,
    dp_event.SampledWithoutReplacementDpEvent: _Reader.without_replacement,
    dp_event.SampledWithReplacementDpEvent: _Reader.with_replacement,
}
"""How each event is read; one that is not here is refused."""


def _sampled(
    inner: Composed, sample: Callable[[AbstractMechanism], AbstractMechanism], *, none: bool
) -> AbstractMechanism:
    """Return releases on one sample: of no records nothing, and of everything everything."""
    if none or not inner.parts:
        return NOTHING
    if any(release == REVEALED for release, _ in inner.parts):
        return REVEALED  # safe side: more than what a sample reveals
    alone = [release for release, count in inner.parts if count == 1]
    return sample(alone[0] if len(inner.parts) == len(alone) == 1 else inner)


def _remembered(event: Any, pair: Any, **arguments: Any) -> FromEvent:
    return FromEvent(pair=pair, event=type(event).__name__, arguments=tuple(arguments.items()))


def _has(event: Any, kind: type) -> bool:
    """Return whether an event of a kind is inside another."""
    inner = [*getattr(event, "events", ()), *([event.event] if hasattr(event, "event") else [])]
    return isinstance(event, kind) or any(_has(each, kind) for each in inner)


# And back ---------------------------------------------------------------------------------------------


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
    same = (ADD_REMOVE, ZERO_OUT) if relation is ZERO_OUT else (relation,)  # what joins or leaves costs as much as null
    if any(isinstance(release, TruncatedPoisson) for release, _ in mechanism.releases()):  # but where it takes a place
        same = (relation,)
    if mechanism.neighbors is not None and mechanism.neighbors not in same:
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


def _people(sampled: Any, unit: int) -> Any:
    """Return how many records of one person join, on the safe side: none is the one probability rounded down."""
    k, rate = sampled.records_per_user, Fraction(sampled.rate)
    shares = [float_above(math.comb(k, j) * rate**j * (1 - rate) ** (k - j)) for j in range(1, k + 1)]
    none = max(-float_above(sum(map(Fraction, shares), Fraction(-1))), 0.0)
    return dp_event.MixtureOfGaussiansDpEvent(sampled.mechanism.noise_multiplier, list(range(k + 1)), [none, *shares])


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
    PoissonUsers: _people,
    TruncatedPoisson: lambda it, unit: dp_event.TruncatedSubsampledGaussianDpEvent(
        it.population, it.rate, it.max_batch, it.mechanism.noise_multiplier
    ),
    SampledWithoutReplacement: _without_replacement,
    SampledWithReplacement: lambda it, unit: dp_event.SampledWithReplacementDpEvent(
        it.population, it.draws, _written(it.mechanism, unit)
    ),
}
"""How each mechanism is written; of approximate DP only what reveals everything."""
