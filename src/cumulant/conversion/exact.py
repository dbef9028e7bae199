"""Exact (ε, δ) of a dominating pair."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from cumulant.loss.pair import GaussianPair
from cumulant.numerics.logspace import Array
from cumulant.numerics.search import smallest_true

ERFCX_ERROR = 4e-15  # relative, generous for two evaluations and the products around them


def gaussian_log_delta(pair: GaussianPair, epsilon: float) -> float:
    """Return log δ(ε) of N(μ,1) against N(0,1), rounded up.

    Balle and Wang (2018), Theorem 5:  δ = Φ(-a) - e^ε Φ(-a-μ),  a = ε/μ - μ/2, which is

        δ = ½ e^{-a²/2} (erfcx(a/√2) - erfcx((a+μ)/√2)) = e^{-a²/2}/√(2π) ∫_0^∞ e^{-ax-x²/2} (1 - e^{-μx}) dx.

    Holds for:  any composition of Gaussian mechanisms, adaptive too; ε >= 0.
    Tightness:  exact.
    """
    from scipy.special import erfcx

    mu = pair.mean
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    a = epsilon / mu - mu / 2
    if a < -6:  # δ is close to 1: subtract what is missing, rounded down
        missing = math.erfc(-a / math.sqrt(2)) / 2 + math.exp(-a * a / 2) * float(erfcx((a + mu) / math.sqrt(2))) / 2
        return math.log1p(-missing * (1 - ERFCX_ERROR * (1 + a * a)))
    if mu < 0.5:  # the two erfcx would cancel
        return -a * a / 2 + math.log(_payoff_integral(a, mu)) + 1e-14 * (1 + a * a)
    near, far = float(erfcx(a / math.sqrt(2))), float(erfcx((a + mu) / math.sqrt(2)))
    return -a * a / 2 + math.log((near - far) / 2 + ERFCX_ERROR * near) + 1e-15 * (1 + a * a)


def gaussian_epsilon(pair: GaussianPair, log_delta: float) -> float:
    """Return the smallest ε with δ(ε) <= δ for N(μ,1) against N(0,1), rounded up."""
    if gaussian_log_delta(pair, 0.0) <= log_delta:
        return 0.0
    if log_delta == -math.inf or math.isinf(pair.mean):
        return math.inf
    rho = pair.mean**2 / 2
    high = rho + 2 * math.sqrt(-rho * log_delta) + 1e-12  # Mironov's conversion at its best order
    high *= 1 + 1e-12
    return smallest_true(lambda e: gaussian_log_delta(pair, e) <= log_delta, 0.0, high, relative=2e-14)


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
