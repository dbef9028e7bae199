"""Which scheme a Poisson sample is: whole batches or cut ones, of people with one record or several."""

from __future__ import annotations

from typing import Any

from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import ADD_REMOVE, Neighbors
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.poisson_users import PoissonUsers
from cumulant.sampling.truncated_poisson import TruncatedPoisson

BOTH = (
    "batches of a largest size and people with several records have no theorem together: the records of a person push "
    "one another out; leave out max_batch= and let batches be as large as they are"
)


def poisson_sample(
    mechanism: Any, *, rate: Any, neighbors: Neighbors | None, max_batch: Any, population: Any, records_per_user: Any
) -> AbstractMechanism:
    """Return a mechanism on a Poisson sample; what was not asked for is left out."""
    relation = ADD_REMOVE if neighbors is None else neighbors
    if max_batch is None:
        if population is not None:
            raise InvalidParameter(f"population belongs to max_batch, got {population!r} alone")
        if records_per_user == 1:
            return PoissonSampled(mechanism=mechanism, rate=rate, relation=relation)
        return PoissonUsers(mechanism=mechanism, rate=rate, records_per_user=records_per_user, relation=relation)
    if records_per_user != 1:
        raise UnprovenCombination(BOTH)
    return TruncatedPoisson(
        mechanism=mechanism, rate=rate, max_batch=max_batch, population=population, relation=relation
    )
