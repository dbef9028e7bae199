"""Privacy profiles: ε ↦ δ(ε), every (ε, δ) that holds at once.

Balle, Barthe and Gaboardi (2018), Section 2: δ(ε) = sup over neighbours of H_{e^ε}(M(X) || M(X')), where the
hockey-stick divergence is H_t(P || Q) = ∫ (dP - t dQ)_+. The supremum is over both directions of each pair, as the
relations are symmetric. H_t is convex and does not increase in t.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from cumulant.curves.curve import Curve
from cumulant.numerics.logspace import Array, log_complement
from cumulant.numerics.logspace import log_expm1 as logs_expm1
from cumulant.numerics.quadrature import legendre
from cumulant.numerics.rounding import LEAST, ULP, exp_above, log_above, logs_above
from cumulant.numerics.scalar_logspace import log1p_exp, log_expm1
from cumulant.numerics.search import root
from cumulant.parameters import log_of_delta, nonnegative, probability, product_above, whole_number

LARGEST_EXPONENT = 700.0  # e^700 is still a float
EXPONENT_OF_LEAST = 745.0  # e^-745 is the smallest double > 0
FARTHEST_OF_ARRAYS = 1e290  # ε: at larger ones arrays hold the δ of this one, whose products and quotients are doubles
LEAST_OF_MANY, MOST_OF_MANY, FARTHEST_OF_MANY = 1e-12, 1e6, 1e8  # μ and a for which arrays need no further care
ERFCX_ERROR = 4e-15  # relative, generous for two evaluations and the products around them


@final
@dataclass(frozen=True, slots=True)
class PrivacyProfile:
    """An upper bound of δ(ε) for one relation, both directions of the neighbours included.

    `log_delta` maps any ε >= 0 to log δ, -inf where δ = 0, rounded up. `pure` is an ε from which on δ = 0, inf if
    there is none. `of_many` is the same bound for many ε at once, and `where_slope_is` about the ε at which δ falls by
    e^s for an increase of e^ε, 0 if it nowhere falls as fast, where there is a formula for it.

    >>> laplace_profile(1.0).epsilon(math.log(0.1))
    0.78927896868...
    """

    log_delta: Callable[[float], float]
    pure: float = math.inf
    of_many: Callable[[Array], Array] | None = None
    where_slope_is: Callable[[Array], Array] | None = None
    theorem: str = "the privacy profile of one release (Balle, Barthe and Gaboardi 2018)"

    @staticmethod
    def of(
        log_deltas: Callable[[Array], Array],
        pure: float = math.inf,
        where_slope_is: Callable[[Array], Array] | None = None,
    ) -> PrivacyProfile:
        """Return the profile of log δ at many ε, correct but for elementary rounding: it is rounded up, to 1 at most.

        From `pure` on it is 0, whatever the function says there.
        """

        def bound(epsilons: Array) -> Array:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
                found = logs_above(log_deltas(np.minimum(epsilons, FARTHEST_OF_ARRAYS)))
            return np.where(epsilons >= pure, -np.inf, found)

        return PrivacyProfile(lambda epsilon: float(bound(np.array([epsilon]))[0]), pure, bound, where_slope_is)

    def log_deltas(self, epsilons: Array) -> Array:
        """Return log δ at many ε; the largest ε are asked as less, safely, as δ does not increase."""
        if self.of_many is not None:
            return self.of_many(np.minimum(epsilons, FARTHEST_OF_ARRAYS))
        return np.array([self.log_delta(epsilon) for epsilon in epsilons.tolist()], dtype=float)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up also where it underflows."""
        return exp_above(self.log_delta(nonnegative("epsilon", epsilon)))

    def epsilon(self, log_delta: float) -> float:
        """Return the smallest ε with δ(ε) <= δ, rounded up: the value returned has been tested itself."""
        log_delta = log_of_delta(delta=None, log_delta=log_delta)

        def spare(epsilon: float) -> float:
            return math.inf if epsilon >= self.pure else log_delta - self.log_delta(epsilon)

        if self.log_delta(0.0) <= log_delta:
            return 0.0
        if log_delta == -math.inf:
            return self.pure
        low, high = 0.0, self.pure if math.isfinite(self.pure) else 1.0
        while spare(high) < 0:
            low, high = high, 2 * high
            if math.isinf(high):
                return math.inf
        return root(spare, low, high, relative=2e-14)


NOTHING = PrivacyProfile.of(lambda epsilons: np.full(len(epsilons), -np.inf), 0.0)
"""The profile of what reveals nothing."""

GroupProfiles = Callable[[int], PrivacyProfile]
"""k ↦ the profile for datasets at distance at most k."""


# Base profiles -----------------------------------------------------------------------------------


def gaussian_profile(mean: float) -> PrivacyProfile:
    """Return the profile of N(μ, 1) against N(0, 1); see `gaussian_log_delta`."""
    mean = nonnegative("mean", mean)
    if not LEAST_OF_MANY < mean < MOST_OF_MANY:
        return PrivacyProfile(lambda epsilon: gaussian_log_delta(mean, epsilon), 0.0 if mean == 0 else math.inf)

    def where_slope_is(logs: Array) -> Array:
        from scipy.special import ndtri_exp

        return np.asarray(
            np.maximum(mean * (-ndtri_exp(logs) - mean / 2), 0.0)
        )  # H_t falls by Q(L > log t) = Φ(-ε/μ - μ/2)

    return PrivacyProfile(
        lambda epsilon: gaussian_log_delta(mean, epsilon),
        of_many=lambda epsilons: gaussian_log_deltas(mean, epsilons),
        where_slope_is=where_slope_is,
    )


def gaussian_log_delta(mean: float, epsilon: float) -> float:
    """Return log δ(ε) of N(μ,1) against N(0,1), rounded up.

    Balle, Barthe and Gaboardi (2018), Theorem 4 (Balle and Wang 2018):  δ = Φ(-a) - e^ε Φ(-a-μ),  a = ε/μ - μ/2,

        δ = ½ e^{-a²/2} (erfcx(a/√2) - erfcx((a+μ)/√2)) = e^{-a²/2}/√(2π) ∫_0^∞ e^{-ax-x²/2} (1 - e^{-μx}) dx.

    Holds for:  the Gaussian mechanism with μ = sensitivity/σ, either relation; any composition; ε >= 0.
    Tightness:  exact.
    """
    mu = mean
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    a = epsilon / mu * (1 - 2 * ULP) - mu / 2 * (1 + 2 * ULP)  # rounded down: δ falls with a, and large terms cancel
    if a > 1e100:  # log of the integral is lost against a²: δ <= e^{-a²/2}, and never 0
        return max(-a * a / 2, -sys.float_info.max)
    if a < -6:  # δ is close to 1: subtract what is missing, rounded down
        missing = math.erfc(-a / math.sqrt(2)) / 2 + math.exp(-a * a / 2) * _erfcx((a + mu) / math.sqrt(2)) / 2
        return math.log1p(-missing * (1 - min(1.0, ERFCX_ERROR * (1 + a * a))))
    if mu < 0.5:  # the two erfcx would cancel
        return min(0.0, -a * a / 2 + float(_log_payoff_integrals(np.array([a]), mu)[0]) + 1e-14 * (1 + a * a))
    near, far = _erfcx(a / math.sqrt(2)), _erfcx((a + mu) / math.sqrt(2))
    return min(0.0, -a * a / 2 + math.log((near - far) / 2 + ERFCX_ERROR * near) + 1e-15 * (1 + a * a))


def gaussian_log_deltas(mean: float, epsilons: Array) -> Array:
    """Return log δ of N(μ,1) against N(0,1) at many ε, by the formulas of `gaussian_log_delta`, rounded up."""
    from scipy.special import erfc, erfcx

    mu = mean
    a = epsilons / mu * (1 - 2 * ULP) - mu / 2 * (1 + 2 * ULP)
    values = np.empty(len(a))
    below, beyond = a < -6, a > FARTHEST_OF_MANY
    values[beyond] = [gaussian_log_delta(mean, epsilon) for epsilon in epsilons[beyond].tolist()]
    low, a = a[below], a[~below & ~beyond]
    missing = erfc(-low / math.sqrt(2)) / 2 + np.exp(-low * low / 2) * erfcx((low + mu) / math.sqrt(2)) / 2
    values[below] = np.log1p(-missing * (1 - np.minimum(1.0, ERFCX_ERROR * (1 + low * low))))
    if mu < 0.5:
        values[~below & ~beyond] = -a * a / 2 + _log_payoff_integrals(a, mu) + 1e-14 * (1 + a * a)
    else:
        near, far = (erfcx(x / math.sqrt(2)) for x in (a, a + mu))
        values[~below & ~beyond] = -a * a / 2 + np.log((near - far) / 2 + ERFCX_ERROR * near) + 1e-15 * (1 + a * a)
    return np.minimum(values, 0.0)


def _erfcx(x: float) -> float:
    from scipy.special import erfcx

    return float(erfcx(x))


def _log_payoff_integrals(a: Array, mu: float) -> Array:
    """Return log of (2π)^{-1/2} ∫_0^∞ e^{-ax-x²/2} (1 - e^{-μx}) dx for each a >= -6, by Gauss-Legendre.

    All terms are positive, and divided by μ, so that they do not underflow.
    """
    nodes, weights = legendre(120)
    cut = 2 * 40.0 / (a + np.sqrt(a * a + 80.0))  # there ax + x²/2 = 40
    x = cut[:, None] * nodes
    payoff = np.where(mu * cut[:, None] > 1e-17, -np.expm1(-mu * x) / mu, x)  # up: 1 - e^{-y} <= y
    # one row after another, so that a value does not depend on those it is asked with
    integral = cut * np.sum(np.exp(-a[:, None] * x - x * x / 2) * payoff * weights, axis=1)
    return np.asarray(math.log(mu) + np.log(integral / math.sqrt(2 * math.pi)))


def laplace_profile(theta: float) -> PrivacyProfile:
    """Return δ(ε) = (1 - e^{(ε-θ)/2})_+.

    Balle, Barthe and Gaboardi (2018), Theorem 3, θ = sensitivity/scale.

    Holds for:  Laplace noise on a number; for vectors only the moments are known to be the worst at one coordinate.
    Tightness:  exact.
    """
    theta = nonnegative("theta", theta)

    def log_deltas(epsilons: Array) -> Array:
        return log_complement(np.minimum((epsilons - theta) / 2, -LEAST))  # the half of next to nothing underflows

    def where_slope_is(logs: Array) -> Array:
        return np.clip(-2 * (logs + math.log(2.0)) - theta, 0.0, theta)  # δ falls by ½ e^{-(θ+ε)/2}

    return PrivacyProfile.of(log_deltas, theta, where_slope_is)


def binary_profile(epsilon0: float) -> PrivacyProfile:
    """Return δ(ε) = (e^{ε₀} - e^ε)_+ / (1 + e^{ε₀}).

    Kairouz, Oh and Viswanath (2017): randomized response with a true answer of odds e^{ε₀}.

    Holds for:  every ε₀-DP mechanism, either relation.
    Tightness:  attained by randomized response.
    """
    epsilon0 = nonnegative("epsilon0", epsilon0)

    def log_deltas(epsilons: Array) -> Array:
        return log_complement(np.minimum(epsilons - epsilon0, 0.0)) - math.log1p(math.exp(-epsilon0))

    def where_slope_is(logs: Array) -> Array:
        return np.where(logs <= -log1p_exp(epsilon0), epsilon0, 0.0)  # one slope up to the end

    return PrivacyProfile.of(log_deltas, epsilon0, where_slope_is)


def approximate_profile(epsilon0: float, delta0: float) -> PrivacyProfile:
    """Return δ(ε) = δ₀ + (1-δ₀) (e^{ε₀} - e^ε)_+ / (1 + e^{ε₀}).

    Kairouz, Oh and Viswanath (2017): with probability δ₀ all is revealed, else randomized response.

    Holds for:  every (ε₀, δ₀)-DP mechanism, either relation.
    Tightness:  attained.
    """
    rest, delta0 = binary_profile(epsilon0), probability("delta0", delta0)
    if delta0 == 0:
        return rest
    log_failure = math.log(delta0)
    log_survival = math.log1p(-delta0) if delta0 < 1 else -math.inf
    return PrivacyProfile.of(lambda epsilons: np.logaddexp(log_failure, log_survival + rest.log_deltas(epsilons)))


def profile_from_loss_tails(
    tail: Callable[[float], float], reverse_tail: Callable[[float], float], *, pure: float = math.inf
) -> PrivacyProfile:
    """Return δ(ε) = Pr[L > ε] - e^ε Pr[L' < -ε].

    Balle, Barthe and Gaboardi (2018), Theorem 5. L = log dP/dQ is drawn under P, L' = log dQ/dP under Q;
    `tail(ε)` = Pr[L > ε], not too small, and `reverse_tail(ε)` = Pr[L' < -ε], not too large.

    Holds for:  a pair (P, Q) that is worst among the neighbours in both directions; else take the `larger_profile` of
                the orders.
    Tightness:  exact; the two terms cancel, so its relative accuracy is that of the tails over δ.
    """

    def log_delta(epsilon: float) -> float:
        p, q = tail(epsilon), reverse_tail(epsilon)
        log_q = math.log(q) if q > 0 else -math.inf
        paid = math.exp(min(epsilon + log_q, 0.0))  # e^ε Q(E) <= P(E) <= 1
        # up: the rounding of the exponent, of its exponential and of the difference
        delta = p - paid + (2 * ULP * (2 + epsilon - max(log_q, -EXPONENT_OF_LEAST)) * paid + LEAST)
        return -math.inf if epsilon >= pure or delta <= 0 else log_above(math.log(delta))

    return PrivacyProfile(log_delta, pure)


def larger_profile(one: PrivacyProfile, other: PrivacyProfile) -> PrivacyProfile:
    """Return the pointwise maximum: a bound for both."""
    pure = max(one.pure, other.pure)
    return PrivacyProfile.of(lambda epsilons: np.maximum(one.log_deltas(epsilons), other.log_deltas(epsilons)), pure)


def smaller_profile(one: PrivacyProfile, other: PrivacyProfile) -> PrivacyProfile:
    """Return the pointwise minimum of two bounds of one profile."""
    pure = min(one.pure, other.pure)
    found = PrivacyProfile.of(lambda epsilons: np.minimum(one.log_deltas(epsilons), other.log_deltas(epsilons)), pure)
    return replace(found, theorem=one.theorem)


def profile_from_cgf(cgf: Curve, conversion: Callable[[Curve, float], float]) -> PrivacyProfile:
    """Return the profile that a conversion (K, ε) ↦ log δ proves: the way back from `cgf_from_profile`."""
    pure = cgf.pure if cgf.failure == 0 else math.inf
    return PrivacyProfile(lambda e: -math.inf if e >= pure else conversion(cgf, e), pure)


# Groups ------------------------------------------------------------------------------------------


def group_profile(profile: PrivacyProfile, size: int) -> PrivacyProfile:
    """Return δ_k(ε) <= (e^ε - 1)/(e^{ε/k} - 1) · δ(ε/k).

    Balle, Barthe and Gaboardi (2018), footnote 5. Along a path of k neighbours, P_0(E) <= e^{ε/k} P_1(E) + δ(ε/k)
    <= ... <= e^ε P_k(E) + δ(ε/k) Σ_{i<k} e^{iε/k}. A shorter path may stand still, so it holds for distance <= k.

    Holds for:  every mechanism, either relation.
    Tightness:  for a black box; `gaussian_groups` and `laplace_groups` are better where they apply.
    """
    size = whole_number("size", size, at_least=1)
    if size == 1:
        return profile
    pure = product_above(size, profile.pure)

    def log_deltas(epsilons: Array) -> Array:
        share = epsilons / size * (1 - ULP)  # down: δ does not increase
        apart = np.maximum(epsilons, 1e-290)
        log_steps = np.where(epsilons > 1e-290, logs_expm1(apart) - logs_expm1(apart / size), math.log(size))
        return log_steps + 4 * ULP * (1 + epsilons) + profile.log_deltas(share)

    return PrivacyProfile.of(log_deltas, pure)


def black_box_groups(profile: PrivacyProfile) -> GroupProfiles:
    """Return the groups of which only the profile of one is known."""
    return lambda size: group_profile(profile, size)


def approximate_groups(epsilon0: float, delta0: float) -> GroupProfiles:
    """Return the groups of any (ε₀, δ₀)-DP mechanism, the smaller of two bounds.

    They are (kε₀, δ₀ (e^{kε₀}-1)/(e^{ε₀}-1))-DP (Vadhan 2017, Lemma 2.2), which has a profile; and the chain of
    `group_profile` holds at every ε.
    """
    one = approximate_profile(epsilon0, delta0)

    def of_size(size: int) -> PrivacyProfile:
        if size == 1:
            return one
        total, failure = chained_guarantee(size, epsilon0, delta0)
        return smaller_profile(group_profile(one, size), approximate_profile(total, failure))

    return of_size


def chained_guarantee(size: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return (kε, δ Σ_{i<k} e^{iε}), rounded up, the second at most 1: Vadhan (2017), Lemma 2.2."""
    total = product_above(whole_number("size", size, at_least=1), epsilon)
    if size == 1 or delta in (0.0, 1.0):
        return total, delta
    if epsilon == 0:
        return total, min(1.0, product_above(size, delta))
    if total < LARGEST_EXPONENT:
        factor = math.expm1(total) / math.expm1(epsilon) * (1 + 8 * ULP)
        return total, min(1.0, product_above(Fraction(factor), delta))
    if math.isinf(total):
        return total, 1.0
    log_factor = total - log_expm1(epsilon)  # log(e^{kε} - 1) <= kε
    rounding = 4 * ULP * (1 + total + abs(math.log(delta)))
    return total, exp_above(min(0.0, math.log(delta) + log_factor + rounding))


def gaussian_groups(mean: float) -> GroupProfiles:
    """Return the Gaussian mechanism's groups: the sensitivity, and so μ, grows k-fold (triangle inequality)."""
    return lambda size: gaussian_profile(product_above(size, mean))


def laplace_groups(theta: float) -> GroupProfiles:
    """Return the Laplace mechanism's groups: the sensitivity, and so θ, grows k-fold (triangle inequality)."""
    return lambda size: laplace_profile(product_above(size, theta))


def binary_groups(epsilon0: float) -> GroupProfiles:
    """Return the groups of any ε₀-DP mechanism: kε₀-DP, for which randomized response is the worst."""
    return lambda size: binary_profile(product_above(size, epsilon0))
