"""What sampling does to a mechanism: the theorems, and the mechanism classes that apply them."""

from cumulant.sampling.once_per_epoch import OncePerEpoch
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.poisson_users import PoissonUsers
from cumulant.sampling.random_allocation import RandomAllocation
from cumulant.sampling.shuffled import Shuffled
from cumulant.sampling.truncated_poisson import TruncatedPoisson
from cumulant.sampling.with_replacement import SampledWithReplacement
from cumulant.sampling.without_replacement import SampledWithoutReplacement

__all__ = [
    "OncePerEpoch",
    "PoissonSampled",
    "PoissonUsers",
    "RandomAllocation",
    "SampledWithReplacement",
    "SampledWithoutReplacement",
    "Shuffled",
    "TruncatedPoisson",
]
