"""RDP at one order to (ε, δ)-DP: four conversions, weakest to best.

All take λ = α - 1 > 0 and K = λ·RDP(α), and work in logarithms, so δ = 1e-300 costs what δ = 1e-5 costs.
Each is valid at every order; minimising over the order belongs to `best_order`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cumulant.numerics.rounding import ROUNDING
from cumulant.numerics.scalar_logspace import log1m_exp, log1p_exp, log_add, log_expm1
from cumulant.numerics.search import minimise_positive, root_near

LARGEST_LOG_CHI = 709.0  # e^709 is still a double
SERIES = 0.05  # below this, differences are summed as power series


def mironov_epsilon(lam: float, k: float, log_delta: float) -> float:
    """Return ε = (K + log 1/δ)/λ.

    Mironov (2017), Proposition 3; Abadi et al. (2016), Theorem 2; (2.2) of Wang et al. (2019).

    Holds for:  every (α, K/λ)-RDP mechanism, either relation.
    Tightness:  never attained.
    """
    return (k - log_delta) / lam


def mironov_log_delta(lam: float, k: float, epsilon: float) -> float:
    """Return log δ = K - λε: the inverse of `mironov_epsilon`, (2.3) of Wang et al. (2019)."""
    return k - lam * epsilon if k < math.inf else math.inf


def canonne_kamath_steinke_epsilon(lam: float, k: float, log_delta: float) -> float:
    """Return ε = (K + log 1/δ + log c(λ))/λ,  c(λ) = λ^λ / (1+λ)^(1+λ).

    Balle et al. (2020), Theorem 21; Canonne, Kamath and Steinke (2020), Proposition 12. In Asoodeh et al.'s
    letters c(λ) = ζ_α. Markov's bound, with the payoff 1 - e^{ε-L} kept instead of being replaced by 1.

    Holds for:  every (α, K/λ)-RDP mechanism, either relation.
    Tightness:  attained as δ → 0; loose where ε is small.
    """
    return (k - log_delta + log_payoff_constant(lam)) / lam


def canonne_kamath_steinke_log_delta(lam: float, k: float, epsilon: float) -> float:
    """Return log δ = K - λε + log c(λ): the inverse of `canonne_kamath_steinke_epsilon`."""
    return mironov_log_delta(lam, k, epsilon) + log_payoff_constant(lam)


def log_payoff_constant(lam: float) -> float:
    """Return log c(λ) = log max_x (1 - e^{-x}) e^{-λx} = λ log λ - (1+λ) log(1+λ)."""
    return -lam * math.log1p(1.0 / lam) - math.log1p(lam)


def asoodeh_closed_form_epsilon(lam: float, k: float, log_delta: float) -> float:
    """Return Asoodeh et al.'s (2020) closed form, Lemma 1.

    αδ >= 1:  ε = (γ + log(1-δ))_+                                                            (19)
    αδ <  1:  ε = (1/λ) min{ (λγ - log(δ/ζ_α))_+,  log(1 + (e^{λγ} - 1)/(αδ)) }               (20)

    where γ = K/λ; note that (α-1)χ(γ) = e^{λγ} - 1.

    Holds for:  every (α, γ)-RDP mechanism, either relation.
    Tightness:  (19) is attained; (20) is between `canonne_kamath_steinke_epsilon` and `optimal_epsilon`.
    """
    if log_delta >= -math.log1p(lam):
        return max(0.0, k / lam + log1m_exp(log_delta))
    linear = log1p_exp(log_expm1(k) - math.log1p(lam) - log_delta) / lam
    return min(max(0.0, canonne_kamath_steinke_epsilon(lam, k, log_delta)), linear)


def asoodeh_rdp_lower_bound(lam: float, epsilon: float, log_delta: float) -> float:
    """Return max{f, g} of Asoodeh et al. (2020), Theorem 4: below this RDP, (ε, δ)-DP is certain.

    g = ε - (1/λ) log(ζ_α/δ),   f = ε + (1/λ) log((e^ε - αδ)((1-δ)/(e^ε - δ))^α + αδ),   for αδ < 1,
    and ε - log(1-δ) for αδ >= 1, where it is the exact threshold. At δ = 0 it is 0: no RDP above 0 gives pure DP.
    """
    alpha, rest = 1.0 + lam, log1m_exp(log_delta)
    if log_delta >= -math.log1p(lam):
        return epsilon - rest
    if log_delta == -math.inf:
        return 0.0
    g = epsilon - (log_payoff_constant(lam) - log_delta) / lam
    least, most = math.log1p(lam) + log_delta - epsilon, log_delta - epsilon  # log of αδe^{-ε} and δe^{-ε}
    ratio = rest - epsilon - log1m_exp(most)
    f = epsilon + log_add(epsilon + log1m_exp(least) + alpha * ratio, math.log1p(lam) + log_delta) / lam
    return max(f, g)


def chi(lam: float, gamma: float) -> float:
    """Return χ(γ) = (e^{λγ} - 1)/λ, the χ^α-divergence of a pair with D_α = γ: Asoodeh et al. (2020), (9)."""
    exponent = log_expm1(lam * gamma) - math.log(lam)
    return math.exp(exponent) if exponent < LARGEST_LOG_CHI else math.inf


def rdp_from_chi(lam: float, chi: float) -> float:
    """Return χ^{-1}(t) = log(1 + λt)/λ: Asoodeh et al. (2020), below (15)."""
    return math.log1p(lam * chi) / lam if chi < math.inf else math.inf


def optimal_rdp(lam: float, epsilon: float, delta: float) -> float:
    """Return γ_α^ε(δ): the largest RDP that still implies (ε, δ)-DP.

    Asoodeh et al. (2020), Theorem 3, the two-point problem

        γ = ε + min_{p ∈ (δ,1)} (1/λ) log( p^α (p-δ)^{-λ} + (1-p)^α (e^ε - p + δ)^{-λ} )

    solved as printed, for plots and comparison: being a minimum found by search it may come out a rounding
    error high, so guarantees go through `optimal_epsilon`, which reads the dual problem.

    Erratum: RDP under a symmetric relation bounds the other order of the neighbours, too, and more of it implies
    (ε, δ)-DP where ε is small; see `both_orders`.

    Holds for:  δ in [0, 1), ε >= 0; nothing but γ = 0 gives δ = 0.
    Tightness:  exact (the one-sided constraint at a single order).
    """
    if delta == 0:
        return 0.0
    if delta >= 1.0 / (1.0 + lam):
        return epsilon - math.log1p(-delta)

    def exponent(gap: float) -> float:
        p, rest = delta + gap, (1.0 - delta) - gap  # p and 1 - p
        if rest <= 0:
            return math.inf
        first = math.log(p) + lam * (math.log(p) - math.log(gap))
        second = (1.0 + lam) * math.log(rest) - lam * (epsilon + math.log1p(-gap * math.exp(-epsilon)))
        return max(first, second) + math.log1p(math.exp(-abs(first - second)))

    # the term inside the logarithm is convex in p
    _, least = minimise_positive(lambda gaps: np.array([exponent(gap) for gap in gaps.tolist()]))
    return epsilon + least / lam


def optimal_epsilon(lam: float, k: float, log_delta: float) -> float:
    """Return the smallest ε that (α, K/λ)-RDP implies at δ: Asoodeh et al. (2020), Theorem 3, by its dual.

    The worst case is  max E_Q(r-Λ)_+  over likelihood ratios r with E_Q r = 1 and E_Q r^α <= M = e^K.
    Every majorant c₂r^α + c₁r + c₀ >= (r-Λ)_+ on r >= 0 proves δ <= c₂M + c₁ + c₀. Those that touch 0 at r₀ and
    r - Λ at r₁ give, for any 0 <= r₀ < r₁,

        δ <= (M - 1 + φ(r₀)) / (α (r₁^λ - r₀^λ)),   φ(r) = 1 - αr^λ + λr^α >= 0,
        Λ  = (λ/α) (r₁^α - r₀^α) / (r₁^λ - r₀^λ),

    so r₀ and δ fix r₁, and ε = log Λ. Any r₀ is sound; the best one makes the bound equal to Theorem 3, which is
    where the touching points carry a probability of mean 1. r₀ = 0 is `canonne_kamath_steinke_epsilon`.

    Holds for:  every (α, K/λ)-RDP mechanism, either relation; δ > 0.
    Tightness:  attained by a two-point pair; exact for one order and the one-sided constraint.
    """
    if math.isinf(k):
        return math.inf
    if k <= 0:
        return 0.0
    if log_delta >= -math.log1p(lam):  # αδ >= 1, (19): the majorant c₂r^α + c₁r is best
        rdp, gain = k / lam, -log1m_exp(log_delta)
        return rdp - gain + ROUNDING * (rdp + gain)  # rounded up
    log_excess = log_expm1(k)

    def majorant(y: float) -> tuple[float, float, float]:
        """Return (log Λ, log r₀/r₁, log Λ/r₁) for r₀ = e^{-y}."""
        log_t = log_add(log_excess, _log_phi(lam, y)) - math.log1p(lam) - log_delta
        v = -log1p_exp(log_t + lam * y) / lam
        ratio = log_mean_ratio(lam, v)
        return ratio - v - y, v, ratio

    y = _best_touching_point(lam, lambda y: (log_delta, *majorant(y)[1:]))
    epsilon, v, _ = majorant(y)
    # Safe side: add what rounding can take away, in log r₁ (its error is at most min(|v|, 1/λ) times that of log t) and
    # in the differences that make up ε.
    log_r1_error = min(abs(v), 1.0 / lam) * (8.0 + abs(log_delta) + k + lam * y)
    raised = epsilon + ROUNDING * (2 * y + 2 * abs(v) + log_r1_error + mean_ratio_error(lam, v))
    return math.inf if math.isnan(raised) else raised  # out of the range of doubles: nothing is known


def optimal_log_delta(lam: float, k: float, epsilon: float) -> float:
    """Return log of the smallest δ that (α, K/λ)-RDP implies at ε: the inverse of `optimal_epsilon`.

    The same majorants, with Λ = e^ε given and s = r₀/r₁ free. For 1 - e^{ε-γ} >= 1/α that value is the optimum.
    """
    if math.isinf(k):
        return 0.0
    if k <= 0:
        return -math.inf
    if k / lam > epsilon and -math.expm1(epsilon - k / lam) * (1.0 + lam) >= 1:  # (19)
        return log_delta_below_pure(epsilon, k / lam)
    log_excess = log_expm1(k)

    def majorant(y: float) -> tuple[float, float, float]:
        """Return (log δ, log r₀/r₁, log Λ/r₁) for r₀ = e^{-y}."""
        w = _gap_of_touching_points(lam, epsilon + y)
        ratio = log_mean_ratio(lam, -w)
        excess = log_add(log_excess, _log_phi(lam, y))
        return excess - math.log1p(lam) - lam * (epsilon - ratio) - log1m_exp(-lam * w), -w, ratio

    y = _best_touching_point(lam, majorant)
    log_delta, v, _ = majorant(y)
    # Safe side: an error in log Λ moves log δ by λ times as much.
    mean_error = 8 * (epsilon + y) + 4 * mean_ratio_error(lam, v)
    raised = log_delta + ROUNDING * (16.0 + 4 * k + lam * mean_error + abs(log_delta))
    return 0.0 if math.isnan(raised) else min(0.0, raised)  # out of the range of doubles: nothing is known


def log_delta_below_pure(epsilon: float, gamma: float) -> float:
    """Return log(1 - e^{ε-γ}), rounded up: (19) solved for δ, at α = ∞ the δ of pure DP below its ε."""
    survival = math.exp(epsilon - gamma)  # its relative error is that of the difference, absolute
    return math.log(min(1.0, -math.expm1(epsilon - gamma) + ROUNDING * (1.0 + gamma) * survival + 2.0**-52))


def _best_touching_point(lam: float, majorant: Callable[[float], tuple[float, float, float]]) -> float:
    """Return y = -log r₀ of the best majorant, which maps y to (log δ, log r₀/r₁, log Λ/r₁).

    It is best where putting just enough mass on r₁ to produce δ, and the rest on r₀, has mean 1. With too much
    mass on r₁ the mean is above 1, as it is for r₀ = 1; r₀ = 0 has it below 1.
    """

    def mean_excess(t: float) -> float:
        y = math.exp(-t)
        log_delta, v, ratio = majorant(y)
        return log_delta + log1m_exp(v) - log1m_exp(-y) - log1m_exp(ratio)

    low = -math.log(60.0 / lam)  # r₀^λ = e^{-60} is as good as 0; 1 - r₀ = 1e-170 as 1
    high = low + 400.0
    excess = mean_excess(high)
    if excess <= 0:
        return math.exp(-high)
    # next to 1 it grows with t, or 2t at ε = 0
    start = high - excess if high - excess > low else high - excess / 2
    return math.exp(-root_near(mean_excess, start, low, high, tolerance=5e-7))


def _gap_of_touching_points(lam: float, total: float) -> float:
    """Return w = log r₁/r₀ with w + log(Λ/r₁) = total = log Λ/r₀, by Newton's method from above."""
    w = min(2 * total, total + math.log1p(1.0 / lam))
    for _ in range(30):
        step = w + log_mean_ratio(lam, -w) - total
        slope = 1.0 - 0.5 if (1.0 + lam) * w < 1e-5 else 1.0 + _inverse_expm1(1.0 + lam, w) - _inverse_expm1(lam, w)
        w -= step / min(max(slope, 0.5), 1.0)  # it lies between; what underflowed says nothing
        if abs(step) <= 4e-16 * w:
            break
    return w


def _inverse_expm1(a: float, w: float) -> float:
    """Return a/(e^{aw} - 1), 0 where it underflows, 1/w where aw does."""
    if a * w < 1e-300:
        return 1 / w if w > 1e-300 else 1e300
    return a / math.expm1(a * w) if a * w < 700 else 0.0


def _log_phi(lam: float, y: float) -> float:
    """Return log φ(e^{-y}), φ(r) = 1 - αr^λ + λr^α = αλ ∫_0^y e^{-λt}(1 - e^{-t}) dt, for y > 0.

    Near r = 1 the three terms cancel to second order; there the power series in y is summed instead.
    """
    alpha = 1.0 + lam
    if not y > 0:
        return -math.inf
    if alpha * y >= SERIES:
        return log1m_exp(-lam * y + math.log1p(-lam * math.expm1(-y)))
    # φ/(αλy²/2) = Σ_{k>=2} (-1)^k (2/k!) Σ_{i+j=k-2} (αy)^i (λy)^j
    total, homogeneous, power, factor = 0.0, 1.0, 1.0, 1.0
    for k in range(3, 24):
        total += factor * homogeneous
        power *= alpha * y
        homogeneous = homogeneous * lam * y + power
        factor /= -k
    return math.log(alpha) + math.log(lam) - math.log(2.0) + 2 * math.log(y) + math.log(total)


def log_mean_ratio(lam: float, v: float) -> float:
    """Return log of (λ/α)(1 - e^{αv})/(1 - e^{λv}) for v < 0; it is v/2 to first order."""
    alpha = 1.0 + lam
    if alpha * v > -SERIES:  # log((e^x-1)/x) = x/2 + x²/24 - x⁴/2880 + x⁶/181440 - ..., at αv less at λv
        sum1, sum2 = (alpha + lam) * v, (alpha * alpha + lam * lam) * v * v
        sum4 = sum2 * sum2 - (alpha * v * lam * v) ** 2  # α⁴ + α²λ² + λ⁴
        return v / 2 * (1 + sum1 / 12) + v * sum1 * (sum4 / 181440 - sum2 / 2880)
    if lam > 1:  # 1 - e^{αv} = 1 - e^{λv} + e^{λv}(1 - e^v): both logarithms are O(1/λ), and so is their error
        x = math.expm1(v) / -math.expm1(-lam * v) if lam * v > -700 else 0.0
        return math.log1p(x) - math.log1p(1.0 / lam)
    return math.log(lam / alpha * (math.expm1(alpha * v) / math.expm1(lam * v)))


def mean_ratio_error(lam: float, v: float) -> float:
    """Return a bound, in units of ROUNDING, on the absolute error of `log_mean_ratio` beyond |v|."""
    return 4.0 / max(1.0, lam) if (1.0 + lam) * abs(v) > SERIES else 0.0
