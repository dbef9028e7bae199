"""Every public name, from where it lives: `cumulant` opens this when the first of them is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cumulant import (
    plot,  # noqa: F401 (it draws with matplotlib, which it loads when it is called)
    sampling,  # noqa: F401 (now, not with the first question: almost every run is sampled)
)
from cumulant.accountant import Accountant
from cumulant.answer import Explanation, Guarantee, Interval
from cumulant.comparison import Comparison, compare
from cumulant.composition import Composed
from cumulant.disjoint import Parallel, parallel
from cumulant.errors import (
    BudgetExceeded,
    CumulantError,
    InvalidParameter,
    LedgerTampered,
    LedgerUnavailable,
    MixedNeighbors,
    OutOfReach,
    UnprovenCombination,
)
from cumulant.matrix_training import banded_dp_sgd, matrix_gaussian
from cumulant.mechanisms import (
    ZCDP,
    ApproximateDP,
    ExponentialFamily,
    FamilyPair,
    Gaussian,
    GaussianMixture,
    Laplace,
    LaplaceVector,
    MultivariateGaussian,
    PureDP,
    RandomizedResponse,
    RenyiCurve,
    StatedPair,
    TruncatedCDP,
)
from cumulant.mechanisms.data import from_dict
from cumulant.mechanisms.many import epsilons
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from cumulant.planning import calibrate, max_count, max_rate
from cumulant.training import dp_sgd, dp_sgd_noise

if TYPE_CHECKING:
    from cumulant.ledger import Ledger

__all__ = [
    "ADD_REMOVE",
    "REPLACE_ONE",
    "ZCDP",
    "ZERO_OUT",
    "Accountant",
    "ApproximateDP",
    "BudgetExceeded",
    "Comparison",
    "Composed",
    "CumulantError",
    "Explanation",
    "ExponentialFamily",
    "FamilyPair",
    "Gaussian",
    "GaussianMixture",
    "Guarantee",
    "Interval",
    "InvalidParameter",
    "Laplace",
    "LaplaceVector",
    "Ledger",
    "LedgerTampered",
    "LedgerUnavailable",
    "MixedNeighbors",
    "MultivariateGaussian",
    "OutOfReach",
    "Parallel",
    "PureDP",
    "RandomizedResponse",
    "RenyiCurve",
    "StatedPair",
    "TruncatedCDP",
    "UnprovenCombination",
    "banded_dp_sgd",
    "calibrate",
    "compare",
    "dp_sgd",
    "dp_sgd_noise",
    "epsilons",
    "from_dict",
    "matrix_gaussian",
    "max_count",
    "max_rate",
    "parallel",
]


def __getattr__(name: str) -> Any:
    """Import what only few need when it is asked for: the ledger brings a database."""
    if name == "Ledger":
        from cumulant.ledger import Ledger

        return Ledger
    raise AttributeError(f"module 'cumulant' has no attribute {name!r}")
