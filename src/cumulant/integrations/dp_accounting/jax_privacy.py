"""JAX Privacy with this library's accountant.

Its training accountants take a `DpAccountantConfig`, which `CumulantAccountantConfig` is; its execution plans take an
accountant, which `cumulant.integrations.dp_accounting.CumulantAccountant` is. `run_of_plan` reads the plan
itself, which says more than its DpEvent, and `run_of_batches` how batches are drawn, whatever an event says of it.
"""

from cumulant.integrations.requirement import require_package

require_package("jax_privacy", distribution="jax-privacy", at_least="2.0", extra="jax-privacy")

from collections.abc import Mapping  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from typing import final  # noqa: E402

import numpy as np  # noqa: E402
from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: E402
from jax_privacy.accounting import DpAccountantConfig  # noqa: E402
from jax_privacy.batch_selection import (  # noqa: E402
    BallsInBinsSampling,
    BatchSelectionStrategy,
    CyclicPoissonSampling,
    FixedBatchSampling,
    PartitionType,
)
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig  # noqa: E402

from cumulant.answer import Method  # noqa: E402
from cumulant.cyclic_poisson import CyclicPoisson, Partition  # noqa: E402
from cumulant.errors import UnprovenCombination  # noqa: E402
from cumulant.integrations.dp_accounting.accountant import CumulantAccountant  # noqa: E402
from cumulant.loaders.poisson import PoissonLoader  # noqa: E402
from cumulant.matrix_training import banded_dp_sgd  # noqa: E402
from cumulant.mechanisms.base import AbstractMechanism  # noqa: E402
from cumulant.mechanisms.gaussian import Gaussian  # noqa: E402
from cumulant.neighbors import Neighbors  # noqa: E402
from cumulant.numerics.rounding import ULP  # noqa: E402

__all__ = ["CumulantAccountantConfig", "run_of_batches", "run_of_plan"]

PARTITION: Mapping[PartitionType, Partition] = {
    PartitionType.INDEPENDENT: "independent",
    PartitionType.EQUAL_SPLIT: "equal",
}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CumulantAccountantConfig(DpAccountantConfig):  # type: ignore[misc]
    """What JAX Privacy makes an accountant of, anew for every question.

    Its FIXED_BATCH_SIZE is told to accountants as a Poisson sample with half the noise, which no theorem here equates
    with batches of fixed size: for those see its fixed_dpsgd_event under REPLACE_ONE, or `cumulant.dp_sgd`.
    """

    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    method: Method = "best"

    def create_accountant(self) -> CumulantAccountant:
        return CumulantAccountant(self.neighboring_relation, self.method)


def run_of_plan(config: BandMFExecutionPlanConfig, *, neighbors: Neighbors | None = None) -> CyclicPoisson:
    """Return the run that a banded execution plan of JAX Privacy makes, its partition and its matrix counted.

    Its DpEvent does not say how the data are split: EQUAL_SPLIT, its default, is about a public number of records, so
    zero-out; INDEPENDENT holds for add-or-remove-one, too. Its event counts every column as the longest one.

    Of a config that was given epsilon and delta the noise multiplier is the one that its plan calibrates.
    """
    if config.truncated_batch_size is not None:
        raise UnprovenCombination(
            "truncated batches have no theorem here with a banded matrix; leave out truncated_batch_size"
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
