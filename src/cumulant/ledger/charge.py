"""What a release takes of a Gaussian reserve: the smallest Gaussian that dominates it, certified and rounded up."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from cumulant.composition import Composed
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.pure_dp import PureDP
from cumulant.mechanisms.randomized_response import RandomizedResponse
from cumulant.mechanisms.stated_pair import StatedPair
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.without_replacement import SampledWithoutReplacement

if TYPE_CHECKING:
    from flint import arb

ACCURACY = 1e-6  # relative, of a mean that is searched for
ACCURACY_OF_ANSWERS = 1e-4  # the same where the profile is asked for in doubles
BITS = 128  # of the balls in which domination is proven
DEEPEST = 30  # halvings of a cell before a mean counts as too small
LARGEST_LOSS = 600.0  # nats: e^600 is a double

Profile = Callable[["arb"], "arb"]
"""t ↦ H_t for t >= 1, in balls: the larger of both directions of the neighbours."""


@lru_cache(maxsize=4096)
def squared_mean(release: AbstractMechanism) -> Fraction | None:
    """Return μ², rounded up, such that N(μ, 1) against N(0, 1) dominates one release; None if nothing is proven.

    A Gaussian pair is symmetric, so domination for t >= 1 in both directions of the neighbours is domination for all
    t >= 0. Every rule gives a Gaussian that dominates, so the smallest is taken:

    - Gaussian noise σ: μ = 1/σ, exactly.
    - An ε₀-DP release: `mean_of_pure`.
    - A release whose losses are bounded: `mean_of_profile`, by its profile in balls where that is a formula, else by
      δ(ε) as the library answers it, which is never below the truth.
    - A composition: the sum of what its parts take, if none of them may fail.
    - A sample: what the release itself takes, as thinning a dataset never reveals more. Its tail is that of the
      release itself, so samples of Gaussian noise take no less: they belong into slots.

    Of (ε₀, δ₀)-DP the failure is charged elsewhere; this is the charge of the rest.

    Holds for:  either relation; fresh noise given the past, and a release that is chosen before its output.
    Tightness:  Gaussian and pure DP exact; formulas to 1e-6; others to 1e-4, beyond what δ(ε) lacks.
    """
    if isinstance(release, Gaussian):
        return 1 / Fraction(release.noise_multiplier) ** 2
    if isinstance(release, ApproximateDP):
        return Fraction(mean_of_pure(release.bound)) ** 2 if release.bound <= LARGEST_LOSS else None
    if isinstance(release, Composed) and release._known().failure() == 0:
        charges = [(squared_mean(part), count) for part, count in release.parts]
        known = [charge * count for charge, count in charges if charge is not None]
        return sum(known, Fraction(0)) if len(known) == len(charges) else None
    if release._known().failure() > 0:
        return None
    found = [squared_mean(whole) for whole in _whole_of_sample(release)]
    pure = release.epsilon(delta=0.0)
    if pure <= LARGEST_LOSS:
        found.append(Fraction(_mean_of_bounded(release, pure)) ** 2)
    return min((charge for charge in found if charge is not None), default=None)


def _whole_of_sample(release: AbstractMechanism) -> tuple[AbstractMechanism, ...]:
    """Return the release that a sample is drawn for, at rate 1: under replace-one, Poisson exchanges two records."""
    if isinstance(release, PoissonSampled):
        return (release.mechanism if release.relation.joins else release.mechanism.group(size=2),)
    return (release.mechanism,) if isinstance(release, SampledWithoutReplacement) else ()


def mean_of_pure(epsilon: float) -> float:
    """Return the smallest μ whose Gaussian pair dominates every ε-DP release: μ = -2Φ⁻¹(1/(1+e^ε)), rounded up.

    The trade-off curve of ε-DP has one kink between two lines, at false positive and false negative rates of
    1/(1+e^ε). A convex curve through (0, 1) and (1, 0) that passes below the kink is below both lines, and that of
    N(μ, 1) has both rates equal at Φ(-μ/2).

    Holds for:  every ε-DP release.
    Tightness:  attained; a smaller Gaussian does not dominate randomized response.

    >>> [round(mean_of_pure(epsilon), 10) for epsilon in (0.1, 0.5, 1.0, 2.0)]
    [0.1253090122, 0.6238925921, 1.2320353853, 2.3579614856]
    """
    if epsilon == 0:
        return 0.0
    with precision(BITS):
        kink = 1 / (1 + as_ball(epsilon).exp())
        return least_mean(lambda mean: bool(_normal(-as_ball(mean) / 2) <= kink), 1.3 * epsilon + 0.1, accuracy=1e-13)


def _mean_of_bounded(release: AbstractMechanism, pure: float) -> float:
    """Return the smallest mean that is proven for a release with losses up to `pure`."""
    most = mean_of_pure(pure)
    if most == 0 or isinstance(release, PureDP | RandomizedResponse):  # these are the kink itself
        return most
    with precision(BITS):
        profile, accuracy = _profile_of(release), ACCURACY
        if profile is None:
            profile, accuracy = _asked_of(release), ACCURACY_OF_ANSWERS
        return min(most, mean_of_profile(profile, largest=pure, most=most, accuracy=accuracy))


def mean_of_profile(profile: Profile, *, largest: float, most: float, accuracy: float = ACCURACY) -> float:
    """Return μ with H_t <= H_t(N(μ, 1) || N(0, 1)) for all t >= 1, by `accuracy` above the smallest, never below.

    H_t is convex in t and 0 from e^largest on. On a cell it lies below its chord, and the Gaussian's above its
    tangents; a chord that lies below a mean of both tangents at both ends of the cell proves the cell. Cells are halved
    until they are proven. All of it is ball arithmetic. `most` is a mean that is known to dominate.

    Holds for:  a profile with the largest loss given.
    Tightness:  `accuracy`, relative.
    """
    if not _dominates(profile, largest, most):
        return most  # it does, by what is known of it; balls are too coarse to see it
    return least_mean(lambda mean: _dominates(profile, largest, mean), most, accuracy=accuracy)


def least_mean(holds: Callable[[float], bool], most: float, *, accuracy: float) -> float:
    """Return a mean for which `holds` was shown, `accuracy` above the smallest; `most` or, if need be, more holds."""
    high = most
    while not holds(high):
        high *= 2
    low = high / 2
    while low > 0 and holds(low):
        high, low = low, low / 2
    while high - low > accuracy * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# Profiles in balls ----------------------------------------------------------------------------------------------------


def _profile_of(release: AbstractMechanism) -> Profile | None:
    """Return the profile of releases of which it is a formula."""
    if isinstance(release, Laplace):
        return _laplace(1 / as_ball(release.scale))
    if isinstance(release, StatedPair) and release.losses is None:
        return _tables(release)
    if isinstance(release, PoissonSampled) and release.relation.joins and 0 < release.rate < 1:
        inner = _profile_of(release.mechanism)
        return None if inner is None else _thinned(inner, as_ball(release.rate))
    return None


def _asked_of(release: AbstractMechanism) -> Profile:
    """Return upper bounds of the profile, from answers in doubles; every search asks at a few hundred fixed points."""
    answers: dict[float, float] = {}

    def at(t: arb) -> arb:
        exact = float(t.mid())  # knots are doubles
        if exact not in answers:
            epsilon = max(lower_float(t.log()), 0.0)  # down: δ falls along ε
            answers[exact] = release.delta(epsilon=epsilon)
        return as_ball(answers[exact])

    return at


def _laplace(theta: arb) -> Profile:
    """H_t = 1 - √t e^{-θ/2} up to t = e^θ."""
    return lambda t: (1 - t.sqrt() * (-theta / 2).exp()).max(as_ball(0.0))


def _tables(pair: StatedPair) -> Profile:
    """H_t = Σ (p - tq)_+, the larger of both directions; tables that do not add up to 1 are scaled."""
    p, q = ([as_ball(x) for x in table] for table in (pair.probabilities, pair.neighbor_probabilities))
    p, q = ([x / sum(table, as_ball(0.0)) for x in table] for table in (p, q))

    def one_way(first: list[arb], second: list[arb], t: arb) -> arb:
        gains = ((a - t * b).max(as_ball(0.0)) for a, b in zip(first, second, strict=True))
        return sum(gains, as_ball(0.0))

    return lambda t: one_way(p, q, t).max(one_way(q, p, t))


def _thinned(profile: Profile, rate: arb) -> Profile:
    """Return the profile of a Poisson sample under add-or-remove-one (Zhu, Dong and Wang 2022, Theorem 11).

    With h the profile, M = (1-γ)Q + γP and t >= 1: H_t(M || Q) = γ h(1 + (t-1)/γ); and with s = 1/t, H_t(Q || M) =
    1 - t + t H_s(M || Q), where H_s(M || Q) = γ h(x), x = 1 - (1-s)/γ. For 0 < x < 1, h(x) = 1 - x + x h(1/x), as h is
    the larger of both directions; for x <= 0 it is 1 - x.
    """

    def leaving(t: arb) -> arb:
        return rate * profile(1 + (t - 1) / rate)

    def joining(t: arb) -> arb:
        x = 1 - (1 - 1 / t) / rate
        return (1 - t + t * (rate * near_one(x))).max(as_ball(0.0))

    def near_one(x: arb) -> arb:
        if x > 0:
            return 1 - x + x * profile(1 / x) if x < 1 else profile(x.max(as_ball(1.0)))
        return (1 - x).max(as_ball(1.0))  # up where x may be either side of 0: h <= 1

    return lambda t: leaving(t).max(joining(t))


# Domination on cells --------------------------------------------------------------------------------------------------


def _dominates(profile: Profile, largest: float, mean: float) -> bool:
    """Return whether N(μ, 1) against N(0, 1) is proven to dominate; a no may be a proof that is too hard."""
    last = upper_float(as_ball(largest).exp())
    below, above = _Knot.at(1.0, profile, mean), _Knot.at(last, lambda t: as_ball(0.0), mean)
    return _cell(below, above, profile, mean, DEEPEST)


class _Knot(NamedTuple):
    """At an exact t: H_t of the release, and of the Gaussian with its slope."""

    t: float
    release: arb
    gaussian: arb
    slope: arb

    @classmethod
    def at(cls, t: float, profile: Profile, mean: float) -> _Knot:
        """H_t = Φ(a) - tΦ(a - μ) with a = μ/2 - log(t)/μ, and its slope is -Φ(a - μ)."""
        point, mu = as_ball(t), as_ball(mean)
        a = mu / 2 - point.log() / mu
        beyond = _normal(a - mu)
        return cls(t, profile(point), _normal(a) - point * beyond, -beyond)


def _cell(low: _Knot, high: _Knot, profile: Profile, mean: float, depth: int) -> bool:
    """Return whether the cell between two knots is proven, in halves if need be."""
    if not (low.release <= low.gaussian and high.release <= high.gaussian):
        return False
    if _is_below_tangents(low, high):
        return True
    middle = math.sqrt(low.t) * math.sqrt(high.t)
    if depth == 0 or not low.t < middle < high.t:
        return False
    knot = _Knot.at(middle, profile, mean)
    return _cell(low, knot, profile, mean, depth - 1) and _cell(knot, high, profile, mean, depth - 1)


def _is_below_tangents(low: _Knot, high: _Knot) -> bool:
    """Return whether the chord lies below a mean of the tangents; any weights prove it, these are nearly the best."""
    width = as_ball(high.t) - as_ball(low.t)
    chord = float((high.release - low.release).mid()) / (high.t - low.t)
    first, second = float(low.slope.mid()), float(high.slope.mid())
    share = min(max((second - chord) / (second - first), 0.0), 1.0) if second > first else 0.5
    weight = as_ball(share)
    at_low = weight * low.gaussian + (1 - weight) * (high.gaussian - high.slope * width)
    at_high = weight * (low.gaussian + low.slope * width) + (1 - weight) * high.gaussian
    return bool(low.release <= at_low and high.release <= at_high)


def _normal(x: arb) -> arb:
    """Return Φ(x)."""
    return (-x / as_ball(2.0).sqrt()).erfc() / 2
