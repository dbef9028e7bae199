"""Privacy profiles: ε ↦ δ(ε), every (ε, δ) that holds at once.

Balle, Barthe and Gaboardi (2018), Section 2: δ(ε) = sup over neighbours of H_{e^ε}(M(X) || M(X')), where the
hockey-stick divergence is H_t(P || Q) = ∫ (dP - t dQ)_+. The supremum is over both orders of each pair, as the
relations are symmetric. H_t is convex and does not increase in t.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import final

import numpy as np

from cumulant.errors import UnprovenCombination
from cumulant.loss.cgf import Array, Cgf
from cumulant.numerics.logspace import exp_excess, log_expm1, log_sum
from cumulant.numerics.search import smallest_true
from cumulant.parameters import nonnegative, probability, real, require, whole_number

ULP = 2.0**-52
ERFCX_ERROR = 4e-15  # relative, generous for two evaluations and the products around them
PRECISION = 3e-5  # of K: cells are split until the chords' excess is estimated to be less than this part of it
MOST_CELLS = 20_000
FURTHEST = 24  # the integral of Theorem 6 ends at 2^24 at the latest


@final
@dataclass(frozen=True, slots=True)
class PrivacyProfile:
    """An upper bound of δ(ε) for one relation, both orders of the neighbours included.

    `log_delta` maps any ε >= 0 to log δ, -inf where δ = 0, rounded up. `pure` is an ε from which on δ = 0, inf if
    there is none.

    >>> laplace_profile(1.0).epsilon(math.log(0.1))
    0.78927896868...
    """

    log_delta: Callable[[float], float]
    pure: float = math.inf

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up also where it underflows."""
        log_delta = self.log_delta(nonnegative("epsilon", epsilon))
        return min(1.0, max(math.exp(log_delta) * (1 + 2 * ULP), 5e-324)) if log_delta > -math.inf else 0.0

    def epsilon(self, log_delta: float) -> float:
        """Return the smallest ε with δ(ε) <= δ, rounded up: the value returned has been tested itself."""
        log_delta = real("log_delta", log_delta, "must be a number <= 0")
        require(log_delta <= 0, "log_delta must be a number <= 0", log_delta)
        if self.log_delta(0.0) <= log_delta:
            return 0.0
        if log_delta == -math.inf:
            return self.pure
        high = self.pure if math.isfinite(self.pure) else 1.0
        while not self._meets(high, log_delta):
            high *= 2
            if math.isinf(high):
                return math.inf
        return smallest_true(lambda epsilon: self._meets(epsilon, log_delta), 0.0, high, relative=2e-14)

    def _meets(self, epsilon: float, log_delta: float) -> bool:
        return epsilon >= self.pure or self.log_delta(epsilon) <= log_delta


GroupProfiles = Callable[[int], PrivacyProfile]
"""k ↦ the profile for datasets at distance at most k."""


# Base profiles -----------------------------------------------------------------------------------


def gaussian_profile(mean: float) -> PrivacyProfile:
    """Return the profile of N(μ, 1) against N(0, 1); see `gaussian_log_delta`."""
    mean = nonnegative("mean", mean)
    return PrivacyProfile(lambda epsilon: gaussian_log_delta(mean, epsilon), 0.0 if mean == 0 else math.inf)


def gaussian_log_delta(mean: float, epsilon: float) -> float:
    """Return log δ(ε) of N(μ,1) against N(0,1), rounded up.

    Balle, Barthe and Gaboardi (2018), Theorem 4 (Balle and Wang 2018):  δ = Φ(-a) - e^ε Φ(-a-μ),  a = ε/μ - μ/2,

        δ = ½ e^{-a²/2} (erfcx(a/√2) - erfcx((a+μ)/√2)) = e^{-a²/2}/√(2π) ∫_0^∞ e^{-ax-x²/2} (1 - e^{-μx}) dx.

    Holds for:  the Gaussian mechanism with μ = sensitivity/σ, either relation; any composition; ε >= 0.
    Tightness:  exact.
    """
    from scipy.special import erfcx

    mu = mean
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    a = epsilon / mu - mu / 2
    if a > 1e100:  # log of the integral is lost against a²: δ <= e^{-a²/2}, and never 0
        return max(-a * a / 2, -sys.float_info.max)
    if a < -6:  # δ is close to 1: subtract what is missing, rounded down
        missing = math.erfc(-a / math.sqrt(2)) / 2 + math.exp(-a * a / 2) * float(erfcx((a + mu) / math.sqrt(2))) / 2
        return math.log1p(-missing * (1 - min(1.0, ERFCX_ERROR * (1 + a * a))))
    if mu < 0.5:  # the two erfcx would cancel
        return min(0.0, -a * a / 2 + math.log(_payoff_integral(a, mu)) + 1e-14 * (1 + a * a))
    near, far = float(erfcx(a / math.sqrt(2))), float(erfcx((a + mu) / math.sqrt(2)))
    return min(0.0, -a * a / 2 + math.log((near - far) / 2 + ERFCX_ERROR * near) + 1e-15 * (1 + a * a))


def _payoff_integral(a: float, mu: float) -> float:
    """Return (2π)^{-1/2} ∫_0^∞ e^{-ax-x²/2} (1 - e^{-μx}) dx for a >= -6 by Gauss-Legendre; all terms positive."""
    nodes, weights = _legendre(120)
    cut = 2 * 40.0 / (a + math.sqrt(a * a + 80.0))  # there ax + x²/2 = 40
    x = cut * nodes
    values = np.exp(-a * x - x * x / 2) * -np.expm1(-mu * x)
    return cut * float(weights @ values) / math.sqrt(2 * math.pi)


@cache
def _legendre(count: int) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


def laplace_profile(theta: float) -> PrivacyProfile:
    """Return δ(ε) = (1 - e^{(ε-θ)/2})_+.

    Balle, Barthe and Gaboardi (2018), Theorem 3, θ = sensitivity/scale.

    Holds for:  Laplace noise on a number; for vectors only the moments are known to be the worst at one coordinate.
    Tightness:  exact.
    """
    theta = nonnegative("theta", theta)

    def log_delta(epsilon: float) -> float:
        return -math.inf if epsilon >= theta else _raised(_log1m_exp((epsilon - theta) / 2))

    return PrivacyProfile(log_delta, theta)


def binary_profile(epsilon0: float) -> PrivacyProfile:
    """Return δ(ε) = (e^{ε₀} - e^ε)_+ / (1 + e^{ε₀}).

    Kairouz, Oh and Viswanath (2017): randomized response with a true answer of odds e^{ε₀}.

    Holds for:  every ε₀-DP mechanism, either relation.
    Tightness:  attained by randomized response.
    """
    epsilon0 = nonnegative("epsilon0", epsilon0)

    def log_delta(epsilon: float) -> float:
        if epsilon >= epsilon0:
            return -math.inf
        return _raised(_log1m_exp(epsilon - epsilon0) - math.log1p(math.exp(-epsilon0)))

    return PrivacyProfile(log_delta, epsilon0)


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
    return PrivacyProfile(lambda e: _raised(log_sum([log_failure, log_survival + rest.log_delta(e)])))


def profile_from_loss_tails(
    tail: Callable[[float], float], reverse_tail: Callable[[float], float], *, pure: float = math.inf
) -> PrivacyProfile:
    """Return δ(ε) = Pr[L > ε] - e^ε Pr[L' < -ε].

    Balle, Barthe and Gaboardi (2018), Theorem 5. L = log dP/dQ is drawn under P, L' = log dQ/dP under Q;
    `tail(ε)` = Pr[L > ε], not too small, and `reverse_tail(ε)` = Pr[L' < -ε], not too large.

    Holds for:  a pair (P, Q) that is worst among the neighbours in both orders; else take the `larger_profile` of
                the orders.
    Tightness:  exact; the two terms cancel, so its relative accuracy is that of the tails over δ.
    """

    def log_delta(epsilon: float) -> float:
        p, q = tail(epsilon), reverse_tail(epsilon)
        paid = math.exp(min(epsilon + math.log(q), 0.0)) if q > 0 else 0.0  # e^ε Q(E) <= P(E) <= 1
        delta = p - paid + 2 * ULP * (2 + epsilon) * paid  # up: the rounding of e^ε and of the difference
        return -math.inf if epsilon >= pure or delta <= 0 else _raised(math.log(delta))

    return PrivacyProfile(log_delta, pure)


def larger_profile(one: PrivacyProfile, other: PrivacyProfile) -> PrivacyProfile:
    """Return the pointwise maximum: a bound for both."""
    return PrivacyProfile(lambda e: max(one.log_delta(e), other.log_delta(e)), max(one.pure, other.pure))


def profile_from_cgf(cgf: Cgf, conversion: Callable[[Cgf, float], float]) -> PrivacyProfile:
    """Return the profile that a conversion (K, ε) ↦ log δ proves: the way back from Theorem 6."""
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
    pure = _times(size, profile.pure)

    def log_delta(epsilon: float) -> float:
        if epsilon >= pure:
            return -math.inf
        share = epsilon / size * (1 - ULP)  # down: δ does not increase
        log_steps = float(log_expm1(epsilon) - log_expm1(epsilon / size)) if epsilon > 1e-290 else math.log(size)
        return _raised(log_steps + 4 * ULP * (1 + epsilon) + profile.log_delta(share))

    return PrivacyProfile(log_delta, pure)


def black_box_groups(profile: PrivacyProfile) -> GroupProfiles:
    """Return the groups of which only the profile of one is known."""
    return lambda size: group_profile(profile, size)


def gaussian_groups(mean: float) -> GroupProfiles:
    """Return the Gaussian mechanism's groups: the sensitivity, and so μ, grows k-fold (triangle inequality)."""
    return lambda size: gaussian_profile(_times(size, mean))


def laplace_groups(theta: float) -> GroupProfiles:
    """Return the Laplace mechanism's groups: the sensitivity, and so θ, grows k-fold (triangle inequality)."""
    return lambda size: laplace_profile(_times(size, theta))


def binary_groups(epsilon0: float) -> GroupProfiles:
    """Return the groups of any ε₀-DP mechanism: kε₀-DP, for which randomized response is the worst."""
    return lambda size: binary_profile(_times(size, epsilon0))


def _times(size: int, value: float) -> float:
    """Return size·value, rounded up."""
    return value if size == 1 else size * value * (1 + ULP)


# Theorem 6: from a profile to a CGF -------------------------------------------------------------------


def cgf_from_profile(profile: PrivacyProfile, *, ceiling: Cgf | None = None) -> Cgf:
    """Return a CGF that holds for every mechanism with this profile.

    Balle, Barthe and Gaboardi (2018), Theorem 6, where H <= δ in both orders:

        e^{K(λ)} <= 1 + λ(λ+1) ∫_0^∞ (e^{λε} + e^{-(λ+1)ε}) δ(ε) dε,   K'(0) <= ∫_0^∞ (1 + e^{-ε}) δ(ε) dε.

    H_t is convex in t = e^ε, so between knots it lies below the chord of upper bounds at the knots, which is
    integrated in closed form. The integral ends at `pure`; without pure DP, what is beyond its end is bounded by
    δ(ε) <= c(μ) e^{K̄(μ)-με} for the best μ > λ, where K̄ is the `ceiling`: a CGF that is known to hold.

    Holds for:  relations closed under swapping; `ceiling` without failure probability, same relation.
    Tightness:  exact for symmetric profiles but for the chords, whose excess of K is about 1e-5.
    """
    if math.isinf(profile.pure) if ceiling is None else ceiling.failure > 0:
        raise UnprovenCombination(
            "the moments of a profile that never reaches 0 may be infinite; "
            "give a ceiling: a CGF without failure probability that holds for the mechanism"
        )
    remembered = PrivacyProfile(lru_cache(2**17)(profile.log_delta), profile.pure)  # orders share most knots

    def at(lam: float) -> float:
        excess = _log_excess(lam, remembered, ceiling)
        known = math.inf if ceiling is None else ceiling.at(lam)
        return min(_log1p_exp(excess + math.log(lam)), known, lam * profile.pure)

    log_kl = _log_excess(0.0, remembered, ceiling)
    kl = math.exp(log_kl) if log_kl < 700 else math.inf
    return Cgf(
        log_moment=lambda lam: np.array([at(float(x)) for x in lam]),
        kl=min(kl, math.inf if ceiling is None else ceiling.kl, profile.pure),
        pure=profile.pure if ceiling is None else min(profile.pure, ceiling.pure),
        exact=False,
    )


def _log_excess(lam: float, profile: PrivacyProfile, ceiling: Cgf | None) -> float:
    """Return the logarithm of an upper bound of (e^K - 1)/λ, or of K'(0) at λ = 0."""
    if profile.pure == 0:
        return -math.inf
    if ceiling is None or math.isfinite(profile.pure):
        return _chord_integral(lam, profile, profile.pure, -math.inf)
    tail = _chernoff_tail(lam, ceiling)
    seen = -math.inf
    for exponent in range(-60, FURTHEST + 1):
        end = 2.0**exponent
        # What has been passed is at least δ(end) ∫_0^end; an end is far enough if the rest is less by e^-17.
        seen = max(seen, profile.log_delta(end) + math.log1p(lam) + lam * end / 2 + math.log(end))
        rest = tail(end)
        if rest <= seen - 17.0:
            return _chord_integral(lam, profile, end, rest)
    return math.inf


def _chernoff_tail(lam: float, ceiling: Cgf) -> Callable[[float], float]:
    """Return end ↦ log (λ+1) ∫_end^∞ (e^{λε} + e^{-(λ+1)ε}) c(μ) e^{K̄(μ)-με} dε at the best of some μ > λ.

    c(μ) = μ^μ/(1+μ)^{1+μ} is the largest payoff (1 - e^{-x}) e^{-μx}.
    """
    gap = 2.0 ** np.arange(-20.0, 40.0)
    mu = lam + gap
    log_payoff = -mu * np.log1p(1 / mu) - np.log1p(mu)
    log_height = ceiling.log_moment(mu) * (1 + 2e-13) + log_payoff + math.log1p(lam) + 1e-13 * np.log1p(mu)

    def log_tail(end: float) -> float:
        # the second exponential is at most the first, and falls faster: twice the first is enough
        values = log_height - gap * end * (1 - 4 * ULP) - np.log(gap) + math.log(2.0)
        return float(np.min(values))

    return log_tail


def _chord_integral(lam: float, profile: PrivacyProfile, end: float, log_tail: float) -> float:
    """Return log (λ+1) ∫_0^end (e^{λε} + e^{-(λ+1)ε}) δ(ε) dε + e^tail, from above.

    Cells are split in two while the chord's gain by it, a third of which is what a further split would gain,
    matters for K.
    """
    dyadic = 2.0 ** np.arange(-60.0, FURTHEST)
    knots = np.concatenate([[0.0], dyadic[dyadic < end], [end]])

    def values(epsilon: Array) -> Array:
        return np.array([-math.inf if e >= profile.pure else profile.log_delta(e) for e in epsilon.tolist()])

    heights = values(knots)
    while True:
        low, high, middle = knots[:-1], knots[1:], 0.5 * (knots[:-1] + knots[1:])
        h_low, h_high, h_middle = heights[:-1], heights[1:], values(middle)
        whole = _chord_cells(lam, low, high, h_low, h_high)
        halves = np.logaddexp(
            _chord_cells(lam, low, middle, h_low, h_middle), _chord_cells(lam, middle, high, h_middle, h_high)
        )
        total = log_sum([log_sum(halves), log_tail])
        if total == -math.inf:
            return total
        with np.errstate(over="ignore"):
            gain = np.exp(whole - total) - np.exp(halves - total)
        split = gain / 3 > PRECISION * _sensitivity(total + math.log(lam) if lam > 0 else -math.inf) / len(gain)
        if not np.any(split) or len(knots) > MOST_CELLS:
            return total + 1e-13
        order = np.argsort(np.concatenate([knots, middle[split]]), kind="stable")
        knots = np.concatenate([knots, middle[split]])[order]
        heights = np.concatenate([heights, h_middle[split]])[order]


def _sensitivity(log_excess: float) -> float:
    """Return K e^K/(e^K - 1) at e^K - 1 = e^x: a relative change of e^K - 1 over that of K."""
    k = _log1p_exp(log_excess)
    return k / -math.expm1(-k) if k > 0 else 1.0


def _chord_cells(lam: float, low: Array, high: Array, h_low: Array, h_high: Array) -> Array:
    """Return log (λ+1) ∫ (t^{λ-1} + t^{-λ-2}) chord(t) dt between t₀ = e^low and t₁ = e^high, for every cell, raised.

    With w = log t₁/t₀, κ = λ+1, X(x) = e^x - 1 - x, and H₀, H₁ the heights, λ times this is

        (H₀ [t₁^λ e^w S + t₀^{-κ} R] + H₁ [t₁^λ R + t₀^{-κ} S]) / (e^w - 1),
        S = 1 - κe^{-λw} + λe^{-κw},   R = λX(w) + X(-λw),

    and all terms are positive.
    """
    w, kappa = high - low, lam + 1.0
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        complement = -np.expm1(-w)  # 1 - e^{-w}
        s, r = _log_weights(lam, w, complement)
        left = np.logaddexp(lam * high + s - np.log(complement), r - kappa * low)
        right = np.logaddexp(lam * high + r, s - w - np.log(complement) - kappa * low)
        # up: the rounding of the exponents, whose size is that of their parts, and of the weights
        left += 4 * ULP * (np.abs(np.where(np.isfinite(h_low), h_low, 0.0)) + 2 * kappa * high) + 1e-13
        right += 4 * ULP * (np.abs(np.where(np.isfinite(h_high), h_high, 0.0)) + 2 * kappa * high) + 1e-13
        return np.logaddexp(h_low + left, h_high + right)


def _log_weights(lam: float, w: Array, complement: Array) -> tuple[Array, Array]:
    """Return log S/λ and log R/(λ(e^w - 1)), by forms that do not cancel; their limits at λ = 0."""
    kappa = lam + 1.0
    below = exp_excess(-lam * w) / lam if lam > 0 else np.zeros_like(w)
    ratio = np.where(w < 1, exp_excess(np.minimum(w, 1.0)) / np.expm1(np.minimum(w, 1.0)), 1 - w / np.expm1(w))
    r = ratio + below * np.exp(-w) / complement
    if lam <= 1:
        s = exp_excess(-kappa * w) - kappa * below
    else:
        near = np.minimum(w, 30.0 / kappa)
        small = np.exp(-kappa * near) * (exp_excess(kappa * near) - kappa * exp_excess(near)) / lam
        s = np.where(kappa * w < 30, small, (1 - kappa * np.exp(-lam * w)) / lam + np.exp(-kappa * w))
    return np.log(s), np.log(r)


# Logarithms --------------------------------------------------------------------------------------


def _raised(log_delta: float) -> float:
    """Return log δ, up by the rounding of a few elementary steps, at most 0."""
    return min(0.0, log_delta + 4 * ULP * (1 + abs(log_delta))) if log_delta > -math.inf else log_delta


def _log1m_exp(x: float) -> float:
    """Return log(1 - e^x) for x < 0."""
    return math.log(-math.expm1(x)) if x > -0.6931 else math.log1p(-math.exp(x))


def _log1p_exp(x: float) -> float:
    """Return log(1 + e^x)."""
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))
