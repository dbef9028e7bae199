"""JAX Privacy with this library's accountant.

Its training accountants take a `DpAccountantConfig`, which `CumulantAccountantConfig` is; its execution plans take an
accountant, which `cumulant.integrations.dp_accounting.CumulantAccountant` is. `run_of_plan` reads the plan
itself, which says more than its DpEvent, and `run_of_batches` how batches are drawn, whatever an event says of it.
"""

from cumulant.integrations.requirement import require_package

require_package("jax_privacy", distribution="jax-privacy", at_least="2.0", extra="jax-privacy")

from collections.abc import Iterator, Mapping  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from itertools import pairwise  # noqa: E402
from typing import final  # noqa: E402

import numpy as np  # noqa: E402
from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: E402
from jax_privacy.accounting import (  # noqa: E402
    DpAccountantConfig,
    DpParams,
    PldAccountantConfig,
    SamplingMethod,
)
from jax_privacy.batch_selection import (  # noqa: E402
    BallsInBinsSampling,
    BatchSelectionStrategy,
    CyclicPoissonSampling,
    FixedBatchSampling,
    PartitionType,
)
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig  # noqa: E402

from cumulant.answer import Method  # noqa: E402
from cumulant.composition import Composed  # noqa: E402
from cumulant.cyclic_poisson import CyclicPoisson, Partition  # noqa: E402
from cumulant.errors import InvalidParameter, UnprovenCombination  # noqa: E402
from cumulant.integrations.dp_accounting.accountant import CumulantAccountant  # noqa: E402
from cumulant.loaders.poisson import PoissonLoader  # noqa: E402
from cumulant.matrix_training import banded_dp_sgd  # noqa: E402
from cumulant.mechanisms.base import AbstractMechanism  # noqa: E402
from cumulant.mechanisms.gaussian import Gaussian  # noqa: E402
from cumulant.neighbors import ZERO_OUT, Neighbors  # noqa: E402
from cumulant.numerics.rounding import ULP  # noqa: E402
from cumulant.parameters import ratio_above  # noqa: E402

__all__ = ["CumulantAccountantConfig", "run_of_batches", "run_of_params", "run_of_plan"]

PARTITION: Mapping[PartitionType, Partition] = {
    PartitionType.INDEPENDENT: "independent",
    PartitionType.EQUAL_SPLIT: "equal",
}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CumulantAccountantConfig(DpAccountantConfig):  # type: ignore[misc]
    """What JAX Privacy makes an accountant of, anew for every question.

    Its FIXED_BATCH_SIZE is told to accountants as a Poisson sample with half the noise. That is below the truth where
    steps may follow from earlier outputs (`run_of_params`), and no accountant can tell: for batches of fixed size see
    its fixed_dpsgd_event under REPLACE_ONE, or `cumulant.dp_sgd`. Truncated batches come as what they are.
    """

    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    method: Method = "best"

    def create_accountant(self) -> CumulantAccountant:
        return CumulantAccountant(self.neighboring_relation, self.method)


PldAccountantConfig.register(
    CumulantAccountantConfig
)  # truncated batches are taken to what inverts a pair, as this does


def run_of_params(params: DpParams, *, num_updates: int, neighbors: Neighbors = ZERO_OUT) -> Composed:
    """Return the run that JAX Privacy's parameters of a training describe, as its training accountants read them.

    Its rate follows from the number of examples, so zero-out is meant, with num_samples the size of both data sets;
    under add-or-remove-one num_samples is that of the larger.

    Batches of fixed size are refused. Their answer there is that of Poisson samples with half the noise, for replacing
    a record: it holds for one step and for steps that are fixed beforehand, but a crowd that follows from the first
    output makes x the record that leaves in one step and the one that joins in the next. Two steps, 300 of 1000
    examples, σ = 2: there ε is .0756 at the δ at which .1 is attained. Of people with several examples a sample of
    fixed size is a hypergeometric mixture in one order, of which the same is to be said.
    """
    if params.sampling_method is not SamplingMethod.POISSON:
        raise UnprovenCombination(
            "FIXED_BATCH_SIZE is answered there below the truth where steps follow from earlier outputs (0.0756 where "
            "0.1 is attained); use cumulant.dp_sgd(sampling='without_replacement'), of one example for each person"
        )
    if not params.is_finite_guarantee or params.noise_multipliers is None:
        raise InvalidParameter(
            "noise_multipliers must be given, and the guarantee finite, for a run to promise anything"
        )
    if params.cycle_length not in (None, 1):
        raise UnprovenCombination("parts of the data in turn are read from an execution plan: use run_of_plan")
    records = 1 if params.examples_per_user is None else params.examples_per_user
    cut = {"max_batch": params.truncated_batch_size}
    cut["population"] = None if params.truncated_batch_size is None else params.num_samples
    return Composed.of(
        (
            Gaussian(noise_multiplier=noise).poisson(
                rate=ratio_above(batch, params.num_samples), neighbors=neighbors, **cut, records_per_user=records
            ),
            last - first,
        )
        for first, last, noise, batch in _stretches(params, num_updates)
    )


def _stretches(params: DpParams, num_updates: int) -> Iterator[tuple[int, int, float, int]]:
    """Yield from which step to which a noise multiplier and a batch size hold."""
    noises, sizes = (
        [(0, value)] if isinstance(value, int | float) else list(value)
        for value in (params.noise_multipliers, params.batch_sizes)
    )
    starts = sorted({first for first, _ in (*noises, *sizes) if first < num_updates})
    for first, last in pairwise([*starts, num_updates]):
        noise, batch = (max(row for row in rows if row[0] <= first)[1] for rows in (noises, sizes))
        yield first, last, float(noise), int(batch)


def run_of_plan(config: BandMFExecutionPlanConfig, *, neighbors: Neighbors | None = None) -> CyclicPoisson:
    """Return the run that a banded execution plan of JAX Privacy makes, its partition and its matrix counted.

    Its DpEvent does not say how the data are split: EQUAL_SPLIT, its default, is about a public number of records, so
    zero-out; INDEPENDENT holds for add-or-remove-one, too. Its event counts every column as the longest one.

    Of a config that was given epsilon and delta the noise multiplier is the one that its plan calibrates.
    """
    if config.truncated_batch_size is not None:
        raise UnprovenCombination(
            "truncated batches have no theorem here with a banded matrix; leave out truncated_batch_size, or read the "
            "batches of a plan with one band by run_of_batches"
        )
    if config.accountant.neighboring_relation is NeighboringRelation.REPLACE_ONE:
        raise UnprovenCombination("banded matrices have no theorem here for REPLACE_ONE; use REPLACE_SPECIAL")
    noise = config.noise_multiplier
    if noise is None:
        noise = config.plan.dp_event.event.event.noise_multiplier
    coefficients = np.asarray(config.strategy, dtype=float)
    is_normed = config.column_normalize  # then columns have norm 1, and the noise is still in units of this one
    unit = float(np.linalg.norm(coefficients)) * (1 - (len(coefficients) + 8) * ULP) if is_normed else 1.0
    return banded_dp_sgd(
        noise_multiplier=noise * unit,
        bands=len(coefficients),
        sample_rate=config.sampling_prob,
        steps=config.iterations,
        partition=PARTITION[config.partition_type],
        matrix=None if is_normed else coefficients,
        neighbors=neighbors,
    )


def run_of_batches(
    strategy: BatchSelectionStrategy,
    *,
    noise_multiplier: float,
    num_examples: int,
    neighbors: Neighbors | None = None,
) -> AbstractMechanism:
    """Return DP-SGD on the batches that a strategy of JAX Privacy selects; its noise is the deviation / clipping norm.

    CyclicPoissonSampling   Poisson samples; truncated ones with a cycle of 1 only, and of zero-out by default: about a
                            public number of records; with a longer cycle of parts of the data that take turns.
    BallsInBinsSampling     random allocation whose bins are kept; a cycle that is begun counts.
    FixedBatchSampling      without or with replacement, at half the noise multiplier: a sum moves by two norms.
    """
    gaussian = Gaussian(noise_multiplier=noise_multiplier)
    half = Gaussian(noise_multiplier=noise_multiplier / 2)
    match strategy:
        case CyclicPoissonSampling(cycle_length=1, truncated_batch_size=most):
            loader = PoissonLoader(max_batch=most)
            cut = {} if most is None else {"max_batch": most, "population": num_examples}
            step = gaussian.poisson(rate=strategy.sampling_prob, neighbors=loader.relation(neighbors), **cut)
        case CyclicPoissonSampling(truncated_batch_size=None):
            return banded_dp_sgd(
                noise_multiplier=noise_multiplier,
                bands=strategy.cycle_length,
                sample_rate=strategy.sampling_prob,
                steps=strategy.iterations,
                partition=PARTITION[strategy.partition_type],
                neighbors=neighbors,
            )
        case BallsInBinsSampling(cycle_length=steps, iterations=iterations):
            cycles = -(-iterations // steps)
            return gaussian.random_allocation(steps=steps, epochs=cycles, bins="kept", neighbors=neighbors)
        case FixedBatchSampling(replace=False, batch_size=batch):
            step = half.without_replacement(batch=batch, population=num_examples, neighbors=neighbors)
        case FixedBatchSampling(batch_size=batch):
            step = half.with_replacement(draws=batch, population=num_examples, neighbors=neighbors)
        case _:
            raise UnprovenCombination(
                f"batches of {strategy!r} have no theorem here; take CyclicPoissonSampling, truncated only with a "
                "cycle of 1, BallsInBinsSampling or FixedBatchSampling"
            )
    run: AbstractMechanism = step * strategy.iterations
    return run
