"""The classical calibrations of Gaussian noise that the papers quote, for comparison; `Gaussian` itself is exact."""

from __future__ import annotations

import math

from cumulant.parameters import inner_probability, positive, real, require


def wang_quoted_log_delta(*, noise_multiplier: float, epsilon: float) -> float:
    """Return log of 0.8 e^{-(σε)²/2}: as quoted in Wang et al. (2019), Section 2, for ε <= 1. NOT a guarantee.

    They cite Theorem 3.22 of Dwork and Roth (2014), which has 1.25. Erratum: at little noise 0.8 is too small, as at
    σ = 0.3, ε = 0.1, where δ is 0.899.
    """
    return math.log(0.8) - _half_square(noise_multiplier, epsilon)


def dwork_roth_log_delta(*, noise_multiplier: float, epsilon: float) -> float:
    """Return log of 1.25 e^{-ε²σ²/2}: Dwork and Roth (2014), Theorem A.1, before Theorem 4 of Balle et al. (2018).

    Holds for:  Gaussian noise, 0 < ε < 1.
    Tightness:  loose; `Gaussian.delta` is exact.
    """
    epsilon = positive("epsilon", epsilon)
    require(epsilon < 1, "epsilon must be < 1", epsilon)
    return math.log(1.25) - _half_square(noise_multiplier, epsilon)


def dwork_roth_epsilon(*, noise_multiplier: float, delta: float) -> float:
    """Return √(2 log(1.25/δ))/σ: the "standard calibration" of Wang et al. (2019), Section 5; proven below 1 only."""
    sigma = positive("noise_multiplier", noise_multiplier)
    delta = inner_probability("delta", delta, "must be strictly between 0 and 1")
    return math.sqrt(2 * (math.log(1.25) - math.log(delta))) / sigma


def _half_square(noise_multiplier: float, epsilon: float) -> float:
    sigma = positive("noise_multiplier", noise_multiplier)
    epsilon = real("epsilon", epsilon, "must be in (0, 1]", lambda number: 0 < number <= 1)
    return sigma * epsilon * (sigma * epsilon) / 2
