"""What was released: one mechanism per file; `base` holds the questions that every one answers."""

from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.exponential_family import ExponentialFamily
from cumulant.mechanisms.family_pair import FamilyPair
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.gaussian_mixture import GaussianMixture
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.laplace_vector import LaplaceVector
from cumulant.mechanisms.multivariate_gaussian import MultivariateGaussian
from cumulant.mechanisms.pure_dp import PureDP
from cumulant.mechanisms.randomized_response import RandomizedResponse
from cumulant.mechanisms.renyi_curve import RenyiCurve
from cumulant.mechanisms.stated_pair import StatedPair
from cumulant.mechanisms.truncated_cdp import TruncatedCDP
from cumulant.mechanisms.zcdp import ZCDP

__all__ = [
    "ApproximateDP",
    "ExponentialFamily",
    "FamilyPair",
    "Gaussian",
    "GaussianMixture",
    "Laplace",
    "LaplaceVector",
    "MultivariateGaussian",
    "PureDP",
    "RandomizedResponse",
    "RenyiCurve",
    "StatedPair",
    "TruncatedCDP",
    "ZCDP",
]
