"""Composed Gaussian mechanisms in closed form: Section IV of Asoodeh et al. (2020).

T releases with noise σ have K(λ) = ρTλ(λ+1), ρ = 1/(2σ²). The library itself answers exactly for Gaussians
(`inversion.solve.gaussian_epsilon`); these are the paper's bounds, for comparison and for its two questions.
"""

from __future__ import annotations

import math

from cumulant.curves.best_order import Rule, epsilon_from_cgf
from cumulant.curves.conversion import asoodeh_closed_form_epsilon, optimal_epsilon
from cumulant.curves.curve import Curve
from cumulant.numerics.rounding import ROUNDING
from cumulant.numerics.search import largest_true
from cumulant.parameters import inner_probability, positive, probability, require, whole_number


def classical_epsilon(*, noise_multiplier: float, count: int, delta: float) -> float:
    """Return ε = ρT + √(4ρT log 1/δ): Mironov's conversion at its best order.

    Asoodeh et al. (2020), (23); (2.2) of Wang et al. (2019) for the Gaussian.

    Holds for:  δ in (0, 1), either relation.
    Tightness:  loose; see `lemma2_epsilon`.
    """
    rho_t, log_delta = _arguments(noise_multiplier, count, delta)
    return (rho_t + 2 * math.sqrt(rho_t) * math.sqrt(-log_delta)) * (1 + ROUNDING)  # rounded up


def lemma2_epsilon(*, noise_multiplier: float, count: int, delta: float) -> float:
    """Return min{ε₀, ε₁, (ρT/δ + log(1-δ))_+}.

    Asoodeh et al. (2020), Lemma 2: ε₀ and ε₁ are the two branches of Lemma 1 minimised over 1 < α <= 1/δ, the
    third is (19) at α = 1/δ.

    Holds for:  T-fold adaptive composition of the Gaussian mechanism, δ in (0, 1).
    Tightness:  between `classical_epsilon` and the optimal conversion.
    """
    rho_t, log_delta = _arguments(noise_multiplier, count, delta)
    third = max(0.0, rho_t / delta * (1 + ROUNDING) + math.log1p(-delta) * (1 - ROUNDING))  # rounded up
    return min(third, _best_order(asoodeh_closed_form_epsilon, rho_t, log_delta))


def gaussian_optimal_epsilon(*, noise_multiplier: float, count: int, delta: float) -> float:
    """Return inf_α ε_α^δ(ραT): (24) of Asoodeh et al. (2020), the best that RDP can say."""
    rho_t, log_delta = _arguments(noise_multiplier, count, delta)
    return _best_order(optimal_epsilon, rho_t, log_delta)


def classical_largest_count(*, noise_multiplier: float, epsilon: float, delta: float) -> int:
    """Return the most releases within (ε, δ) by Mironov's conversion.

    From (21) and (22) of Asoodeh et al. (2020), solved for T:

        T/(2σ²) <= ε + 2 log 1/δ - 2 √((ε + log 1/δ) log 1/δ) = (√(ε + log 1/δ) - √(log 1/δ))².
    """
    sigma, log_delta = positive("noise_multiplier", noise_multiplier), _log_delta(delta)
    epsilon = positive("epsilon", epsilon)
    gap = epsilon / (math.sqrt(epsilon - log_delta) + math.sqrt(-log_delta))
    require(sigma * gap < 2.0**30, "noise_multiplier must be small enough for the budget to bind below 2^61", sigma)
    return math.floor(2 * (sigma * gap) ** 2 * (1 - 1e-14))  # rounded down: a budget must not be overrun


def largest_count(*, noise_multiplier: float, epsilon: float, delta: float) -> int:
    """Return the most releases within (ε, δ) that Rényi DP can prove: "Question Two" of Asoodeh et al. (2020).

    The answer itself has been tested: T releases meet the budget, T + 1 do not, both by the optimal conversion.
    """
    sigma, delta = positive("noise_multiplier", noise_multiplier), float(probability("delta", delta))
    epsilon = positive("epsilon", epsilon)
    _log_delta(delta)
    answer = largest_true(
        lambda count: gaussian_optimal_epsilon(noise_multiplier=sigma, count=count, delta=delta) <= epsilon
    )
    require(answer is not None, "noise_multiplier must be small enough for the budget to bind below 2^62", sigma)
    return int(answer or 0)


def classical_variance_expansion(*, count: int, epsilon: float, delta: float) -> float:
    """Return (28) of Asoodeh et al. (2020) without its O-term: an approximation, not a guarantee.

    σ² ≈ (2T/ε²) log 1/δ + T/ε.
    """
    count, epsilon, log_delta = whole_number("count", count), positive("epsilon", epsilon), _log_delta(delta)
    return _expansion(-2 * count / epsilon / epsilon * log_delta + count / epsilon)


def theorem5_variance_expansion(*, count: int, epsilon: float, delta: float) -> float:
    """Return Theorem 5 of Asoodeh et al. (2020) without its O-term: an approximation, not a guarantee.

    σ² ≈ (2T/ε²) log 1/δ + T/ε - (2T/ε²)(log(2 log 1/δ) + 1 - log ε), for ε > 2δ log 1/δ.
    """
    count, epsilon, log_delta = whole_number("count", count), positive("epsilon", epsilon), _log_delta(delta)
    require(epsilon > -2 * delta * log_delta, "epsilon must be > 2 delta log(1/delta)", epsilon)
    saved = 2 * count / epsilon / epsilon * (math.log(-2 * log_delta) + 1 - math.log(epsilon))
    return _expansion(classical_variance_expansion(count=count, epsilon=epsilon, delta=delta) - saved)


def _expansion(variance: float) -> float:
    require(math.isfinite(variance), "epsilon must be so large that the variance is a double", variance)
    return variance


def _best_order(rule: Rule, rho_t: float, log_delta: float) -> float:
    """Return the least ε that a conversion gives over all real orders."""
    cgf = Curve(log_moment=lambda lam: rho_t * lam * (1 + lam), kl=rho_t, pure=math.inf if rho_t > 0 else 0.0)
    return epsilon_from_cgf(cgf, log_delta, rule)[0]


def _arguments(noise_multiplier: float, count: int, delta: float) -> tuple[float, float]:
    """Return (ρT, log δ), the first rounded up, inf beyond the largest double."""
    sigma = positive("noise_multiplier", noise_multiplier)
    half = whole_number("count", count) / 2
    return (max(half / sigma / sigma * (1 + ROUNDING), 5e-324) if half else 0.0), _log_delta(delta)


def _log_delta(delta: float) -> float:
    return math.log(inner_probability("delta", delta, "must be strictly between 0 and 1"))
