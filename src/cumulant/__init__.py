"""How much privacy did this computation spend, and how much may I still run?

>>> import cumulant as cm
>>> run = cm.Gaussian(noise_multiplier=20.0) * 1000
>>> round(run.epsilon(delta=1e-5), 4)
7.5113
"""

from typing import TYPE_CHECKING, Any

from cumulant import plot as plot  # draws with matplotlib, which it loads when it is called
from cumulant import sampling as sampling  # now, not with the first question: almost every run is sampled
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
from cumulant.version import __version__ as __version__

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
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
