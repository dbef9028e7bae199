"""What sampling does to a privacy profile: Balle, Barthe and Gaboardi (2018), Sections 3 and 4.

All rest on one identity: where two mixtures share a part of weight 1-η, the divergence at e^{ε'} = 1 + η(e^ε - 1)
is η times one at e^ε. The bounds below are functions of ε', so they go from ε' back to ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from cumulant.curves.divergences import hockey_stick
from cumulant.numerics import logspace
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import ULP
from cumulant.numerics.scalar_logspace import log_add, log_expm1
from cumulant.parameters import nonnegative, probability, ratio_above, require, whole_number
from cumulant.profiles.multiplicity import Multiplicity, mixture_of_groups
from cumulant.profiles.profile import LARGEST_EXPONENT, NOTHING, GroupProfiles, PrivacyProfile

# Advanced joint convexity ------------------------------------------------------------------------


def advanced_joint_convexity(
    shared: Sequence[float], own: Sequence[float], other: Sequence[float], *, rate: float, epsilon: float
) -> float:
    """Return H_{e^{ε'}}(μ || μ') of two mixtures that share a part.

    Balle, Barthe and Gaboardi (2018), Theorem 2: for μ = (1-η)μ₀ + ημ₁, μ' = (1-η)μ₀ + ημ₁', α' = 1 + η(α-1),

        H_{α'}(μ || μ') = η H_α(μ₁ || (1-β)μ₀ + βμ₁'),   β = α'/α,

    where μ₀, μ₁, μ₁' = shared, own, other; η = rate; α = e^ε.

    Holds for:  any distributions; finite ones here.
    Tightness:  an identity.
    """
    rate, beta = probability("rate", rate), _beta(rate, epsilon)
    mixed = (1 - beta) * _distribution("shared", shared) + beta * _distribution("other", other)
    return rate * hockey_stick(_distribution("own", own), mixed, epsilon=epsilon)


def joint_convexity_bound(
    shared: Sequence[float], own: Sequence[float], other: Sequence[float], *, rate: float, epsilon: float
) -> float:
    """Return η [(1-β) H_α(μ₁ || μ₀) + β H_α(μ₁ || μ₁')] >= H_{α'}(μ || μ').

    Balle, Barthe and Gaboardi (2018), (3); letters as in `advanced_joint_convexity`.

    Holds for:  any distributions; finite ones here.
    Tightness:  attained where one event is the worst against both μ₀ and μ₁'.
    """
    rate, beta = probability("rate", rate), _beta(rate, epsilon)
    mu0, mu1, mu2 = _distribution("shared", shared), _distribution("own", own), _distribution("other", other)
    to_shared, to_other = (hockey_stick(mu1, mu, epsilon=epsilon) for mu in (mu0, mu2))
    return rate * ((1 - beta) * to_shared + beta * to_other)


def _beta(rate: float, epsilon: float) -> float:
    """Return α'/α = η + (1-η)/α, at most 1."""
    return min(1.0, rate + (1 - rate) * math.exp(-nonnegative("epsilon", epsilon)))


def _distribution(name: str, values: Sequence[float]) -> Array:
    masses = np.array([probability(name, value) for value in values])
    require(abs(math.fsum(masses) - 1) <= 1e-12, f"{name} must sum to 1", math.fsum(masses))
    return masses


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """Return ε' = log(1 + η(e^ε - 1)), rounded up.

    >>> amplified_epsilon(math.log(3.0), 0.5) / math.log(2.0)
    1.000000000000...
    """
    if rate == 0 or epsilon == 0:
        return 0.0
    if rate == 1 or math.isinf(epsilon):
        return epsilon
    log_x, log_rate = log_expm1(epsilon), math.log(rate)
    value = log_add(0.0, log_x + log_rate)
    return min(epsilon, math.nextafter(value + float(_softplus_error(log_x, log_rate, value)), math.inf))


def base_epsilon(epsilon: ArrayLike, rate: float) -> Array:
    """Return ε with e^{ε'} = 1 + η(e^ε - 1), rounded down: δ does not increase, so a smaller ε is safe.

    >>> round(float(base_epsilon(1000.0, 1e-3) - 1000.0), 9)
    6.907755279
    """
    amplified = np.asarray(epsilon, dtype=float)
    if rate == 1:
        return amplified
    log_x, log_rate = logspace.log_expm1(amplified), math.log(rate)
    value = np.logaddexp(0.0, log_x - log_rate)  # (e^ε' - 1)/η itself may overflow
    error = _softplus_error(np.where(amplified > 0, log_x, 0.0), log_rate, value)
    return np.asarray(np.maximum(amplified, value - error))


def _softplus_error(log_x: float | Array, log_rate: float, value: float | Array) -> Array:
    """Return a bound on the rounding error of log(1 + e^{a±b}): the slope in its argument is at most min(1, value)."""
    return np.asarray(4 * ULP * ((1 + np.abs(log_x) + abs(log_rate)) * np.minimum(1.0, value) + value))


def amplified_profile(profile: PrivacyProfile, rate: float) -> PrivacyProfile:
    """Return ε' ↦ η δ(ε) for an overlap of 1-η: what Theorems 8 and 9 share.

    It increases with η (the perspective of a convex function that does not increase), so η may be rounded up.
    """
    if rate == 0:
        return NOTHING
    if rate == 1:
        return profile
    log_rate = math.log(rate)

    def log_deltas(epsilons: Array) -> Array:
        return log_rate + profile.log_deltas(base_epsilon(epsilons, rate))

    return PrivacyProfile.of(log_deltas, amplified_epsilon(profile.pure, rate))


# Couplings ---------------------------------------------------------------------------------------


def coupling_profile(groups: GroupProfiles, distances: Mapping[int, float]) -> PrivacyProfile:
    """Return Σ_k Pr[d(y, y') = k] δ_k(ε): a bound of H_{e^ε}(νM || ν'M) for two mixtures of a mechanism's outputs.

    Balle, Barthe and Gaboardi (2018), (5) and Theorem 7: the law of the distance under a coupling of ν and ν'.
    Where ν and ν' are compatible, that is y' is always as near to y as the support of ν' gets, the best coupling
    has Pr[d = k] = ν{y : d(y, supp ν') = k}, and no coupling gives less.

    Holds for:  any coupling; both directions, as distances are symmetric. Mass not listed has distance 0.
    Tightness:  the least that joint convexity gives, for compatible ν and ν'.
    """
    weights = {whole_number("distance", k, at_least=1): probability("a weight", p) for k, p in distances.items()}
    require(math.fsum(weights.values()) <= 1 + 1e-12, "distances must have total probability <= 1", distances)
    parts = [(math.log(p), groups(k)) for k, p in weights.items() if p > 0]
    if not parts:
        return NOTHING

    def log_deltas(epsilons: Array) -> Array:
        return np.asarray(np.logaddexp.reduce([log_p + profile.log_deltas(epsilons) for log_p, profile in parts]))

    return PrivacyProfile.of(log_deltas, max(profile.pure for _, profile in parts))


# The theorems ------------------------------------------------------------------------------------


def poisson_profile(profile: PrivacyProfile, *, rate: float) -> PrivacyProfile:
    """Return δ'(ε') = γ δ(ε),  e^{ε'} = 1 + γ(e^ε - 1).

    Balle, Barthe and Gaboardi (2018), Theorem 8: every record enters the sample with probability γ.

    Holds for:  add-or-remove-one, for the base mechanism and the sampled one.
    Tightness:  attained (Theorem 13).

    >>> from cumulant.profiles.profile import laplace_profile
    >>> poisson_profile(laplace_profile(1.0), rate=0.1).delta(0.05)
    0.0254...
    """
    return amplified_profile(profile, probability("rate", rate))


def replaced_profile(
    profile: PrivacyProfile, *, rate: float, place: Callable[[Array], float | Array]
) -> PrivacyProfile:
    """Return δ'(ε) = γ (H_x(P || Q) + e^{ε-s} δ(s)),  x = (1/γ - 1)(e^ε - 1) + e^{ε-s},  s = `place(ε)`.

    Given the rest of a Poisson sample let X and Y be the likelihood ratios of the outputs with the record, and with
    the one that replaces it, against those without. For every y >= 0, as (u + v)_+ <= u_+ + v_+,

        E(1-γ+γX - e^ε(1-γ+γY))_+ <= γE(X-x)_+ + γe^ε E(y-Y)_+,   x = (1/γ - 1)(e^ε - 1) + e^ε y.

    E(X-x)_+ = H_x is at most δ(log x) where x >= 1, else 1 - x + x H_{1/x}, and E(y-Y)_+ = y H_{1/y} of the other
    direction, at most e^-s δ(s) for y = e^-s. So every place s >= 0 gives a bound; a search needs no proof.

    Holds for:  Poisson sampling, replace-one; a profile for add-or-remove-one of the base mechanism.
    Tightness:  at the best s attained by records whose ratios rise and fall against each other
                (`cumulant.pairs.noise.Noise.antithetic`), if they attain the profile in both directions.
    """
    rate = probability("rate", rate)
    if rate == 0:
        return NOTHING
    log_odds, log_rate = _log_odds(rate), math.log(rate)

    def log_deltas(epsilons: Array) -> Array:
        s = np.broadcast_to(place(epsilons), epsilons.shape)
        log_x = np.logaddexp(log_odds + logspace.log_expm1(epsilons), epsilons - s)
        rounding = 8 * ULP * (1 + epsilons + s + np.abs(log_x) - log_rate)
        first = _log_hockey_sticks(profile, log_x - rounding)  # down: H_x falls
        return np.asarray(log_rate + np.logaddexp(first, epsilons - s + profile.log_deltas(s)) + rounding)

    return PrivacyProfile.of(log_deltas, _replaced_pure(profile.pure, rate))


def _log_odds(rate: float) -> float:
    """Return log(1/γ - 1)."""
    return math.log1p(-rate) - math.log(rate) if rate < 1 else -math.inf


def _replaced_pure(epsilon: float, rate: float) -> float:
    """Return log((1-γ+γe^ε)/(1-γ+γe^-ε)), rounded up."""
    if rate == 1 or math.isinf(epsilon):
        return 2 * epsilon
    less = -rate * math.expm1(-epsilon)  # 1 - (1-γ+γe^-ε); next to 1 it would cancel, and 1 - γ is exact there
    log_least = math.log1p(-less) if less < 0.5 else math.log((1 - rate) + rate * math.exp(-epsilon))
    return (amplified_epsilon(epsilon, rate) - log_least) * (1 + 8 * ULP)


def _log_hockey_sticks(profile: PrivacyProfile, log_x: Array) -> Array:
    """Return log H_x, at most δ(log x) for x >= 1, else 1 - x + x H_{1/x} of the other direction, rounded up."""
    at, below = profile.log_deltas(np.abs(log_x)), np.minimum(log_x, 0.0)
    return np.where(log_x >= 0, at, np.log(-np.expm1(below) + np.exp(below + at)) + 4 * ULP)


def gaussian_place(mean: float, rate: float) -> Callable[[Array], Array]:
    """Return the best place s of `replaced_profile` for N(μ, 1): s = μt + μ²/2 where the loss at t is ε.

    There e^{μt} = e^{ε/2}(v + √(1+v²)), v = (1/γ - 1) sinh(ε/2) e^{μ²/2}.
    """
    shift = _log_odds(rate) + mean * mean / 2 - math.log(2.0)

    def place(epsilon: Array) -> Array:
        log_v = shift + logspace.log_expm1(epsilon) - epsilon / 2
        near = np.arcsinh(np.exp(np.minimum(log_v, LARGEST_EXPONENT)))
        return epsilon / 2 + np.where(log_v < LARGEST_EXPONENT, near, log_v + math.log(2.0)) + mean * mean / 2

    return place


def without_replacement_profile(profile: PrivacyProfile, *, batch: int, population: int) -> PrivacyProfile:
    """Return δ'(ε') = γ δ(ε),  e^{ε'} = 1 + γ(e^ε - 1),  γ = m/n.

    Balle, Barthe and Gaboardi (2018), Theorem 9: a sample of exactly m of the n records.

    Holds for:  replace-one, for the base mechanism and the sampled one.
    Tightness:  attained (Theorem 13).
    """
    batch, population = whole_number("batch", batch), whole_number("population", population, at_least=1)
    require(batch <= population, f"batch must be at most the population of {population}", batch)
    return amplified_profile(profile, ratio_above(batch, population))


def with_replacement_profile(groups: GroupProfiles, *, draws: int, population: int) -> PrivacyProfile:
    """Return δ'(ε') = Σ_{k=1..m} C(m,k) n^{-k} (1-1/n)^{m-k} δ_k(ε),  e^{ε'} = 1 + (1 - (1-1/n)^m)(e^ε - 1).

    Balle, Barthe and Gaboardi (2018), Theorem 10: m draws from n records, so one record may come k times. Where that is
    thousands of times, neighbouring k are charged as their largest (`Multiplicity.fine_blocks`).

    Holds for:  replace-one, for the base mechanism (on multisets of m records) and the sampled one.
    Tightness:  attained (Theorem 13); loose for Gaussian noise at large ε.
    """
    law = Multiplicity.checked(draws, population)
    if law.draws == 0:
        return NOTHING
    mixture = mixture_of_groups(groups, law.fine_blocks())
    pure = amplified_epsilon(groups(law.draws).pure, law.rate)
    return PrivacyProfile.of(lambda epsilons: mixture(base_epsilon(epsilons, law.rate)), pure)


def hybrid_with_replacement_profile(groups: GroupProfiles, *, draws: int, population: int) -> PrivacyProfile:
    """Return the bound of `with_replacement_profile` for the other relation of the sampled mechanism.

    Balle, Barthe and Gaboardi (2018), Theorem 11. With x' = x without v, sampling from x' is sampling from x given
    that v is never drawn, so μ' = μ₀ and H_{α'}(μ || μ') = η H_α(μ₁ || μ₀); the other direction is smaller by β <= 1.

    Holds for:  add-or-remove-one for the sampled mechanism, with n >= 2 the size of either dataset (the bound falls
                with n); replace-one for the base mechanism, on multisets of m records, and its groups.
    Tightness:  attained by the randomized membership mechanism.
    """
    whole_number("population", population, at_least=2)  # one record fewer must leave something to draw from
    return with_replacement_profile(groups, draws=draws, population=population)
