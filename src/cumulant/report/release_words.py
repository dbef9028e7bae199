"""A release in plain words: what was added to what, drawn how."""

from __future__ import annotations

from cumulant.composition import Composed
from cumulant.cyclic_poisson import CyclicPoisson
from cumulant.disjoint import Parallel
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.exponential_family import ExponentialFamily
from cumulant.mechanisms.family_pair import FamilyPair
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.gaussian_mixture import GaussianMixture
from cumulant.mechanisms.group import Group
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.laplace_vector import LaplaceVector
from cumulant.mechanisms.multivariate_gaussian import MultivariateGaussian
from cumulant.mechanisms.pure_dp import PureDP
from cumulant.mechanisms.randomized_response import RandomizedResponse
from cumulant.mechanisms.renyi_curve import RenyiCurve
from cumulant.mechanisms.stated_pair import StatedPair
from cumulant.mechanisms.truncated_cdp import TruncatedCDP
from cumulant.mechanisms.zcdp import ZCDP
from cumulant.printed import counted, given
from cumulant.sampling.gaussian_triples import SharpenedGaussianBatch
from cumulant.sampling.once_per_epoch import OncePerEpoch
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.poisson_users import PoissonUsers
from cumulant.sampling.random_allocation import RandomAllocation
from cumulant.sampling.secret_order import SecretOrder
from cumulant.sampling.shuffled import Shuffled
from cumulant.sampling.truncated_poisson import TruncatedPoisson
from cumulant.sampling.with_replacement import SampledWithReplacement
from cumulant.sampling.without_replacement import SampledWithoutReplacement


def release_words(release: AbstractMechanism, count: int) -> str:
    """Return what was released, how often, and how records were drawn for it.

    >>> release_words(Gaussian(noise_multiplier=1.0).poisson(rate=0.01), 1000)
    '1000 x Gaussian noise of 1 x the largest contribution of one record, each time on a Poisson sample: every record
    joins by its own coin of probability 0.01, and batches may be empty'
    """
    times = "" if count == 1 else f"{count} x "
    match release:
        case PoissonSampled(mechanism=inner, rate=rate):
            unit, how = ADDED, "a Poisson sample: every record joins by its own coin of probability "
            drawn = f"{how}{given(rate)}, and batches may be empty"
        case PoissonUsers(mechanism=inner, rate=rate, records_per_user=k):
            unit, how = ADDED, "a Poisson sample: every record joins by its own coin of probability "
            drawn = f"{how}{given(rate)}, batches may be empty, and one person has at most {k} records"
        case TruncatedPoisson(mechanism=inner, rate=rate, max_batch=most, population=n):
            unit, how = ADDED, f"a Poisson sample of {n} records: every one joins by its own coin of probability "
            drawn = f"{how}{given(rate)}, and of more than {most} as many are kept, drawn uniformly"
        case SampledWithoutReplacement(mechanism=inner, rate=rate):
            unit, drawn = CHANGE, f"a fresh random subset of fixed size, {given(rate)} of all records"
        case SharpenedGaussianBatch(rate=rate):
            inner = Gaussian(noise_multiplier=release.noise_multiplier)
            unit, drawn = CHANGE, f"a fresh random subset of fixed size, {given(rate)} of all records"
        case SampledWithReplacement(mechanism=inner, draws=draws, population=population):
            unit, drawn = CHANGE, f"{draws} independent draws from {population} records"
        case OncePerEpoch():
            joins = release.relation.joins
            noise = _noise(release.mechanism, ADDED if joins else CHANGE)
            drawn = "in a batch that it draws for itself" if joins else "in an order that does not look at the records"
            return f"{times}an epoch in which every record takes part once, {drawn}, {noise}"
        case RandomAllocation():
            noise = _noise(release.mechanism, "the largest contribution of one record")
            chosen = "one" if release.chosen == 1 else str(release.chosen)
            epochs = "an epoch" if release.epochs == 1 else f"{release.epochs} epochs, draws kept in all of them,"
            return f"{times}{epochs} of {release.steps} steps of which every record draws {chosen} for itself, {noise}"
        case Shuffled() | SecretOrder():
            epoch, secret = (
                (release, "") if isinstance(release, Shuffled) else (release.mechanism, ", the order secret")
            )
            return f"{times}{_shuffled_words(epoch)}{secret}"
        case CyclicPoisson(mechanism=inner, bands=bands, steps=steps):
            turns = f"{steps} steps with noise correlated over {bands}, which take turns with as many parts of the data"
            return f"{times}{turns}: a record pays for {_noise(inner, ADDED)}"
        case _:
            return f"{times}{_noise(release, 'the sensitivity')}"
    return f"{times}{_noise(inner, unit)}, each time on {drawn}"


ADDED = "the largest contribution of one record"
CHANGE = "what replacing one record changes"


def _shuffled_words(epoch: Shuffled) -> str:
    some = "" if epoch.released == epoch.batches else f"{epoch.released} of "
    rest = ", the records left over in a short one or in none" if epoch.population % epoch.batch else ""
    towards = f", towards {counted(epoch.records, 'record')} at once" if epoch.records > 1 else ""
    drawn = f"in {some}{counted(epoch.batches, 'step')}, batches of one size{rest}"
    return f"an epoch of shuffled records {drawn}, {_noise(epoch.mechanism, ADDED)}{towards}"


def _noise(mechanism: AbstractMechanism, unit: str) -> str:
    match mechanism:
        case Gaussian(noise_multiplier=sigma):
            text = f"Gaussian noise of {given(sigma)} x {unit}"
        case GaussianMixture(noise_multiplier=sigma, sensitivities=amounts):
            text = f"Gaussian noise of {given(sigma)} x {unit}, of which a record adds one of {len(amounts)} amounts"
        case Laplace(scale=scale):
            text = f"Laplace noise of {given(scale)} x {unit}"
        case LaplaceVector(scale=scale):
            text = f"Laplace noise of {given(scale)} x {unit} on every coordinate"
        case RandomizedResponse(p=p):
            text = f"a randomized answer, true with probability {given(p)}"
        case Group(mechanism=inner, size=size):
            text = f"{_noise(inner, unit)}, towards {size} records at once"
        case Composed() if mechanism.parts:
            text = " and ".join(release_words(part, count) for part, count in mechanism.parts)
        case Parallel(parts=parts):
            text = "about disjoint parts of the data: " + "; ".join(_noise(part, unit) for part in parts)
        case _:
            text = _stated(mechanism)
    return text


def _stated(mechanism: AbstractMechanism) -> str:
    """Return a release of which its user states what holds; one of the user's own class says what it is itself."""
    match mechanism:
        case PureDP(bound=epsilon):
            text = f"a release that is {given(epsilon)}-DP"
        case ApproximateDP(bound=epsilon, failure=delta):
            text = f"a release that is ({given(epsilon)}, {given(delta)})-DP"
        case ZCDP(rho=rho, xi=xi):
            text = f"a release that is {given(rho) if xi == 0 else f'({given(xi)}, {given(rho)})'}-zCDP"
        case TruncatedCDP(rho=rho, omega=omega):
            text = f"a release that is ({given(rho)}, {given(omega)})-tCDP"
        case RenyiCurve(curve=curve):
            rows = "given as a function" if callable(curve) else f"known at {counted(len(curve), 'order')}"
            text = f"a release with a Rényi curve {rows}"
        case StatedPair(probabilities=outputs):
            text = f"a release with a stated pair of {counted(len(outputs), 'output')}"
        case FamilyPair(family=family):
            text = f"a draw from a {family} law whose parameters are stated for both neighbours"
        case MultivariateGaussian(shift=shift):
            text = f"a Gaussian draw of {counted(len(shift), 'coordinate')}, stated for both neighbours"
        case ExponentialFamily(distance=distance):
            text = f"a draw from an exponential family, neighbours' parameters at most {given(distance)} apart"
        case _:
            text = repr(mechanism)
    return text
