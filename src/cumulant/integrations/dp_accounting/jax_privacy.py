"""JAX Privacy with this library's accountant.

Its training accountants take a `DpAccountantConfig`, which `CumulantAccountantConfig` is; its execution plans take an
accountant, which `cumulant.integrations.dp_accounting.CumulantAccountant` is. `run_of_plan` reads the plan
itself, which says more than its DpEvent.
"""

from cumulant.integrations.requirement import require_package

require_package("jax_privacy", distribution="jax-privacy", at_least="2.0", extra="jax-privacy")

from dataclasses import dataclass  # noqa: E402
from typing import final  # noqa: E402

import numpy as np  # noqa: E402
from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: E402
from jax_privacy.accounting import DpAccountantConfig  # noqa: E402
from jax_privacy.batch_selection import PartitionType  # noqa: E402
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig  # noqa: E402

from cumulant.answer import Method  # noqa: E402
from cumulant.cyclic_poisson import CyclicPoisson  # noqa: E402
from cumulant.errors import UnprovenCombination  # noqa: E402
from cumulant.integrations.dp_accounting.accountant import CumulantAccountant  # noqa: E402
from cumulant.matrix_training import banded_dp_sgd  # noqa: E402
from cumulant.neighbors import Neighbors  # noqa: E402
from cumulant.numerics.rounding import ULP  # noqa: E402

__all__ = ["CumulantAccountantConfig", "run_of_plan"]


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
        partition="independent" if config.partition_type is PartitionType.INDEPENDENT else "equal",
        matrix=None if is_normed else coefficients,
        neighbors=neighbors,
    )
