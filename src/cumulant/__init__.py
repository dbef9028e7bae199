"""How much privacy did this computation spend, and how much may I still run?

>>> import cumulant as cm
>>> run = cm.Gaussian(noise_multiplier=20.0) * 1000
>>> round(run.epsilon(delta=1e-5), 4)
7.5113
"""

from cumulant import plot as plot  # draws with matplotlib, which it loads when it is called
from cumulant import sampling as sampling  # now, not with the first question: almost every run is sampled
from cumulant.accountant import Accountant
from cumulant.answer import Explanation, Guarantee, Interval
from cumulant.comparison import Comparison, compare
from cumulant.composition import Composed
from cumulant.errors import (
    BudgetExceeded,
    CumulantError,
    InvalidParameter,
    MixedNeighbors,
    OutOfReach,
    UnprovenCombination,
)
from cumulant.mechanisms import (
    ZCDP,
    ApproximateDP,
    ExponentialFamily,
    Gaussian,
    Laplace,
    MultivariateGaussian,
    PureDP,
    RandomizedResponse,
    RenyiCurve,
    StatedPair,
    TruncatedCDP,
)
from cumulant.mechanisms.data import from_dict
from cumulant.mechanisms.many import epsilons
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE
from cumulant.planning import calibrate, max_count, max_rate
from cumulant.training import dp_sgd
from cumulant.version import __version__ as __version__

__all__ = [
    "ADD_REMOVE",
    "REPLACE_ONE",
    "ZCDP",
    "Accountant",
    "ApproximateDP",
    "BudgetExceeded",
    "Comparison",
    "Composed",
    "CumulantError",
    "Explanation",
    "ExponentialFamily",
    "Gaussian",
    "Guarantee",
    "Interval",
    "InvalidParameter",
    "Laplace",
    "MixedNeighbors",
    "MultivariateGaussian",
    "OutOfReach",
    "PureDP",
    "RandomizedResponse",
    "RenyiCurve",
    "StatedPair",
    "TruncatedCDP",
    "UnprovenCombination",
    "calibrate",
    "compare",
    "dp_sgd",
    "epsilons",
    "from_dict",
    "max_count",
    "max_rate",
]
