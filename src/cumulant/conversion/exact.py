"""Exact (ε, δ) of a dominating pair."""

from __future__ import annotations

import math

from cumulant.loss import profile
from cumulant.loss.pair import GaussianPair
from cumulant.numerics.search import smallest_true

LEAST_MEAN = 1e-300  # products with smaller means lose their digits


def gaussian_log_delta(pair: GaussianPair, epsilon: float) -> float:
    """Return log δ(ε) of N(μ,1) against N(0,1), rounded up: Balle and Wang (2018), Theorem 5.

    Holds for:  any composition of Gaussian mechanisms, adaptive too; ε >= 0.
    Tightness:  exact; see `profile.gaussian_log_delta`.
    """
    return profile.gaussian_log_delta(pair.mean, epsilon)


def gaussian_epsilon(pair: GaussianPair, log_delta: float) -> float:
    """Return the smallest ε with δ(ε) <= δ for N(μ,1) against N(0,1), rounded up; inf beyond the largest double."""
    if gaussian_log_delta(pair, 0.0) <= log_delta:
        return 0.0
    mu = max(pair.mean, LEAST_MEAN)  # safe side: a larger mean is easier to tell apart
    # Mironov's conversion at its best order, ρ + 2√(ρ log 1/δ) for ρ = μ²/2; raised for its rounding.
    high = mu * (mu / 2 + math.sqrt(2.0) * math.sqrt(-log_delta)) * (1 + 1e-12)
    if math.isinf(high):  # δ = 0, or ε overflows
        return math.inf
    return smallest_true(lambda e: profile.gaussian_log_delta(mu, e) <= log_delta, 0.0, high, relative=2e-14)
