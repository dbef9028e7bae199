"""RDP at one order to (ε, δ)-DP where it bounds both orders of the neighbours, as under every symmetric relation.

Only p = P(S) and q = Q(S) of an event S matter for P(S) - e^ε Q(S), and no divergence grows from (P, Q) to (p, q). So
the largest δ is that of p - Λq, Λ = e^ε >= 1, over the convex set of all p, q with b(p, q) <= M and b(q, p) <= M,

    b(p, q) = p^α q^{1-α} + (1-p)^α (1-q)^{1-α},   M = e^{λγ},   λ = α - 1.

Asoodeh et al. (2020), Theorem 3, has the first constraint alone. As b(q, p) = b(1-q, 1-p), the set stays the same when
p, q become 1-q, 1-p, and so p - q is largest where p + q = 1: that is randomized response with log-odds t,

    p = e^t/(1+e^t),   M = cosh((λ+½)t)/cosh(t/2),   e^K - 1 = 2 sinh(αt/2) sinh(λt/2)/cosh(t/2).

There b = M has a tangent of slope dp/dq = Λ_t = (λ/α) sinh(αt)/sinh(λt), above which nothing is feasible. Between the
slopes 1 and Λ_t the two lines prove that no p - Λq is larger than at this point. For Λ > Λ_t Theorem 3 is the optimum:
its p, q have p + q < 1, where b(q, p) < b(p, q), since for p > q

    b(p, q) - b(q, p) = (p-q) (s(log p/q) - s(log (1-q)/(1-p))),   s(x) = sinh((λ+½)x)/sinh(x/2), which grows with x.

Erratum: Asoodeh et al. call γ_α^ε(δ) of Theorem 3 the largest RDP that implies (ε, δ)-DP. Their RDP is a supremum over
d ~ d', a symmetric relation, so it bounds D_α(Q‖P) too, which the minimiser violates for Λ < Λ_t: at α = 2 and γ = ½
it has δ(0) = √((e^γ-1)/4) = 0.4027, where √((e^γ-1)/(e^γ+3)) = 0.3736 is what such mechanisms attain.
"""

from __future__ import annotations

import math

from cumulant.curves.conversion import log_mean_ratio, mean_ratio_error, optimal_epsilon, optimal_log_delta
from cumulant.numerics.rounding import ROUNDING, log_above
from cumulant.numerics.scalar_logspace import log1m_exp, log_expm1
from cumulant.numerics.search import root

SMALLEST = 2.0**-10  # λ: at smaller ones order 1 says as much, and formulas of others divide by α - 1
LEAST_K, LARGEST = 1e-280, 1e300  # of K and t: beyond, δ is 0 or 1 as far as one order can say
CLOSE_ODDS = 1e-14  # of t, relatively, by which it may be too large
CLEARLY = 0.05  # share of a lower estimate of the δ from which two orders say more; below it one is asked at once


def both_orders_log_delta(lam: float, k: float, epsilon: float) -> float:
    """Return log of the smallest δ that D_α <= K/λ in both orders of the neighbours implies at ε >= 0, rounded up.

    Holds for:  every (α, K/λ)-RDP mechanism under a symmetric relation, without failure probability.
    Tightness:  attained: by randomized response for small ε, else as `optimal_log_delta`.

    >>> round(math.exp(both_orders_log_delta(1.0, 0.5, 0.0)), 6)
    0.373562
    """
    if lam >= SMALLEST and LEAST_K < k < LARGEST and epsilon * lam < k:
        log_odds = largest_log_odds(lam, k)
        if log_odds < LARGEST and epsilon <= last_epsilon(lam, log_odds):
            return log_delta_of_odds(epsilon, log_odds)
    return optimal_log_delta(lam, k, epsilon)


def both_orders_epsilon(lam: float, k: float, log_delta: float) -> float:
    """Return the smallest ε that D_α <= K/λ in both orders of the neighbours implies at δ, rounded up.

    Holds for:  every (α, K/λ)-RDP mechanism under a symmetric relation, without failure probability; δ > 0.
    Tightness:  attained: by randomized response for small ε, else as `optimal_epsilon`.

    >>> round(both_orders_epsilon(1.0, 0.5, math.log(0.34)), 6), round(optimal_epsilon(1.0, 0.5, math.log(0.34)), 6)
    (0.10179, 0.128394)
    """
    if lam >= SMALLEST and LEAST_K < k < LARGEST and _may_gain(lam, k, log_delta):
        log_odds = largest_log_odds(lam, k)
        if log_odds < LARGEST:
            epsilon = epsilon_of_odds(log_delta, log_odds)
            if epsilon <= last_epsilon(lam, log_odds):
                return epsilon
    return optimal_epsilon(lam, k, log_delta)


def _may_gain(lam: float, k: float, log_delta: float) -> bool:
    """Return whether δ may be so large that the second order matters; a wrong no costs tightness only.

    It does from about min(t, 1/α) on, and t >= max(γ, √(2γ/α)).
    """
    alpha = 1.0 + lam
    odds = max(k / lam, math.sqrt(2 * k / lam / alpha), LEAST_K)
    return log_delta > math.log(CLEARLY * min(odds, 1.0 / alpha))


def largest_log_odds(lam: float, k: float) -> float:
    """Return t of randomized response whose K at λ is k > 0, rounded up: cosh((λ+½)t)/cosh(t/2) = e^K."""
    wanted = log_expm1(k)
    wanted += ROUNDING * (2 + k + abs(wanted))
    low = max(k / lam, math.sqrt(2 * k / lam / (1.0 + lam)), LEAST_K)

    def exceeds(log_t: float) -> float:  # by more than what is lost in computing it
        value = _log_excess(lam, math.exp(log_t))
        return value - wanted - ROUNDING * (4 + (2 + 2 * lam) * math.exp(log_t) + abs(value))

    # safe side: K of the end that is returned was seen to be as large; e^{λt}/2 <= e^K
    high = max((k + 1) / lam, 2 * low)
    return math.exp(root(exceeds, math.log(low) - 1e-9, math.log(high), tolerance=CLOSE_ODDS))


def _log_excess(lam: float, t: float) -> float:
    """Return log(e^K - 1) of randomized response."""
    return _log_2sinh((1.0 + lam) * t / 2) + _log_2sinh(lam * t / 2) - t / 2 - math.log1p(math.exp(-t))


def _log_2sinh(x: float) -> float:
    return x + log1m_exp(-2 * x)


def last_epsilon(lam: float, log_odds: float) -> float:
    """Return log Λ_t, rounded down: up to this ε randomized response is the worst; it always is at 0."""
    v = -2 * log_odds
    return max(0.0, log_odds + log_mean_ratio(lam, v) - ROUNDING * (4 * log_odds + mean_ratio_error(lam, v)))


def log_delta_of_odds(epsilon: float, log_odds: float) -> float:
    """Return log (e^t - e^ε)_+/(1 + e^t) of randomized response, rounded up."""
    if epsilon >= log_odds:
        return -math.inf
    return log_above(log1m_exp(epsilon - log_odds) - math.log1p(math.exp(-log_odds)))


def epsilon_of_odds(log_delta: float, log_odds: float) -> float:
    """Return ε at which randomized response has δ, e^ε = e^t - δ(1 + e^t), rounded up; below 0 where 0 is enough."""
    share = math.exp(log_delta) * (1 + math.exp(-log_odds)) * (1 - 2 * ROUNDING)  # safe side: less of δ
    if share >= 1:
        return -1.0
    gain = math.log1p(-share)
    return log_odds + gain + ROUNDING * (log_odds - gain)


def order_one_log_delta(kl: float, epsilon: float) -> float:
    """Return log of the δ that KL <= κ in both orders of the neighbours implies at small ε, rounded up; 0 at others.

    The limit of `both_orders_log_delta` at α = 1: t tanh(t/2) = κ, Λ_t = sinh(t)/t.

    Holds for:  every mechanism with this KL privacy under a symmetric relation, without failure probability.
    Tightness:  attained by randomized response up to ε = log Λ_t; beyond, it says nothing.
    """
    log_odds = log_odds_of_divergence(kl) if LEAST_K < kl < LARGEST and epsilon < kl else math.inf
    is_worst = log_odds < LARGEST and epsilon <= _last_epsilon_at_one(log_odds)
    return log_delta_of_odds(epsilon, log_odds) if is_worst else 0.0


def order_one_epsilon(kl: float, log_delta: float) -> float:
    """Return the ε that KL <= κ in both orders of the neighbours implies at large δ, rounded up; inf at others."""
    if not (LEAST_K < kl < LARGEST and _may_gain_at_one(kl, log_delta)):
        return math.inf
    log_odds = log_odds_of_divergence(kl)
    if log_odds >= LARGEST:
        return math.inf
    epsilon = epsilon_of_odds(log_delta, log_odds)
    return epsilon if epsilon <= _last_epsilon_at_one(log_odds) else math.inf


def _may_gain_at_one(kl: float, log_delta: float) -> bool:
    return log_delta > math.log(CLEARLY * min(max(kl, math.sqrt(2 * kl)), 1.0))


def log_odds_of_divergence(kl: float) -> float:
    """Return t of randomized response whose KL is κ > 0, rounded up: t tanh(t/2) = κ."""
    low = max(kl, math.sqrt(2 * kl))  # not above; tanh(1) > 1/1.4
    enough = kl * (1 + 2 * ROUNDING)  # safe side
    return root(lambda t: t * math.tanh(t / 2) - enough, low, 1.4 * low, relative=CLOSE_ODDS)


def _last_epsilon_at_one(log_odds: float) -> float:
    """Return log sinh(t)/t, rounded down; it is at least t²/6 - t⁴/180."""
    t = log_odds
    if t < 0.1:
        return t * t / 6 * (1 - t * t / 30) * (1 - 2 * ROUNDING)
    exact = t + log1m_exp(-2 * t) - math.log(2 * t)
    return max(0.0, exact - ROUNDING * (2 + 2 * t))
