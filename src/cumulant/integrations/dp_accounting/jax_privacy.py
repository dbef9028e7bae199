"""JAX Privacy with this library's accountant.

Its training accountants take a `DpAccountantConfig`, which `CumulantAccountantConfig` is; its execution plans take an
accountant, which `cumulant.integrations.dp_accounting.CumulantAccountant` is.
"""

from cumulant.integrations.requirement import require_package

require_package("jax_privacy", distribution="jax-privacy", at_least="2.0", extra="jax-privacy")

from dataclasses import dataclass  # noqa: E402
from typing import final  # noqa: E402

from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: E402
from jax_privacy.accounting import DpAccountantConfig  # noqa: E402

from cumulant.answer import Method  # noqa: E402
from cumulant.integrations.dp_accounting.accountant import CumulantAccountant  # noqa: E402

__all__ = ["CumulantAccountantConfig"]


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
