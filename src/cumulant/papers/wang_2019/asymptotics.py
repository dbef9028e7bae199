"""Approximations that are not guarantees: two datasets under the central limit theorem.

Wang, Balle and Kasiviswanathan (2019), Section 3.4. The mean of a batch drawn without replacement, plus Gaussian noise,
is approximated by a normal distribution as n grows with γ = |J|/n fixed, and the Rényi divergence of two outputs by
that of two normal distributions. Convergence in distribution does not carry over to high moments, and each example is
one pair of datasets: the values are for plots and intuition, are neither upper nor lower bounds, and nothing else in
the library reads them.
"""

from __future__ import annotations

import math

from cumulant.parameters import inner_probability, positive, real, require, whole_number


def approximate_divergence_of_constant_data(
    order: float, *, noise_multiplier: float, rate: float, population: int
) -> float:
    """Return the approximate D_α of Example 21, the "bad" data: NOT a guarantee.

    All n records are -½ in X', and one of them is ½ in X: only that record makes the batch mean vary. With
    α* = 1 + σ²n/(γ(1-γ)(n-1)),

        D_α = αγ²/(2σ²) (α*-1)/(α*-α) + ½ log((α*-1)/α*) + 1/(2(α-1)) log((α*-1)/(α*-α)),   ∞ for α >= α*.

    The paper uses α* for the order with γα*e^{ε(α*)} = 1 as well; the two are different numbers.
    """
    alpha, sigma, gamma, n = _checked(order, noise_multiplier, rate, population)
    star = sigma * sigma * n / (gamma * (1 - gamma) * (n - 1))  # α* - 1
    if alpha >= 1 + star:
        return math.inf
    fall = -math.log1p(-(alpha - 1) / star)  # log (α*-1)/(α*-α)
    mean = alpha * gamma * (gamma / sigma) / sigma / 2
    return mean * math.exp(fall) - 0.5 * math.log1p(1 / star) + 0.5 * fall / (alpha - 1)


def approximate_divergence_of_balanced_data(
    order: float, *, noise_multiplier: float, rate: float, population: int
) -> float:
    """Return the approximate D_α of Example 22, the "good" data: NOT a guarantee.

    n is odd; in X' (n-1)/2 records are ½ and the others -½, and X has one more ½. The batch mean varies much more than
    the noise, and

        D_α = αγ² / (2σ² + γ(1-γ)(n - 1/n)/2).
    """
    alpha, sigma, gamma, n = _checked(order, noise_multiplier, rate, population)
    require(n % 2 == 1, "population must be odd", population)
    variance = 2 * sigma * sigma + gamma * (1 - gamma) * (n - 1 / n) / 2
    return alpha * gamma**2 / variance if variance > 0 else math.inf


def _checked(order: float, noise_multiplier: float, rate: float, population: int) -> tuple[float, float, float, int]:
    alpha = real("order", order, "must be a finite number > 1", lambda number: 1 < number < math.inf)
    sigma, gamma = positive("noise_multiplier", noise_multiplier), inner_probability("rate", rate)
    return alpha, sigma, gamma, whole_number("population", population, at_least=2)
