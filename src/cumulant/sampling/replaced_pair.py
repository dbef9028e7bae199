"""Poisson-sampled Gaussian under replace-one: N(+1) against N(-1) inside the mixture."""

from __future__ import annotations

import math

import numpy as np

from cumulant.curves.curve import Curve
from cumulant.numerics.logspace import Array
from cumulant.numerics.quadrature import Integrands, nodes_on, relevant_pieces
from cumulant.pairs.likelihood_ratio import gaussian_ratio, in_small_batches, log_bregman, log_mean, mixture_ratio
from cumulant.sampling.mixture import QUADRATURE_ERROR, TINIEST_RATE, moment_of_mixed, orders_above, slope_at_zero

FARTHEST = 1000.0  # standard deviations up to which the peak of an order is followed


def gaussian_replace_one_loss(noise_multiplier: float, rate: float) -> Curve:
    """Return K(λ) = log E_q[(p/q)^α], p = (1-γ)N(0) + γN(μ), q = (1-γ)N(0) + γN(-μ), μ = 1/σ, α = λ + 1.

    With w(t) = 1 - γ + γe^{μt-μ²/2} and R = w(t)/w(-t), folding t and -t together leaves positive terms:

        e^{K(λ)} = 1 + ∫_0^∞ φ(t) w(-t) (f_α(R) + f_{1-α}(R)) dt.

    The pair dominates Gaussian noise on a sum of records of norm at most 1 of which one is replaced: H_t is, for
    t >= 1, an expectation of a function of Gaussian likelihood ratios with non-negative mixed derivatives, so by
    Kahane's comparison it grows with the inner products, which are largest for opposite records; t < 1 mirrors it.

    Holds for:  replace-one, Poisson sampling, any dimension; adaptive composition.
    Tightness:  attained by one pair of datasets, so exact.
    """
    mu, rate = 1.0 / noise_multiplier, max(rate, TINIEST_RATE)
    farthest = min(gaussian_ratio(2 * mu).farthest_order, FARTHEST / mu)

    def log_moment(lam: Array) -> Array:
        orders, share = orders_above(np.minimum(lam, farthest))
        log_excess = in_small_batches(lambda some: _log_excess(mu, rate, some), orders)
        values = share * np.logaddexp(0.0, log_excess) * (1 + QUADRATURE_ERROR)  # rounded up
        anyway = moment_of_mixed(2 * mu * mu * lam * (lam + 1), rate)  # of N(+1) against N(-1)
        return np.where(lam > farthest, anyway, np.minimum(values, anyway))

    return Curve(log_moment=log_moment, kl=slope_at_zero(log_moment), summed=True)


def _log_excess(mu: float, rate: float, orders: Array) -> Array:
    """Return log(e^K - 1) at every order."""

    def log_mixture(t: Array) -> Array:
        return mixture_ratio(mu * t - mu * mu / 2, rate)[1]

    def log_quotient(t: Array) -> Array:
        return log_mixture(t) - log_mixture(-t)

    def rising(t: Array) -> Array:
        log_r = log_quotient(t)
        return log_bregman(orders[:, None], np.expm1(np.minimum(log_r, 600.0)), log_r)

    bend = (math.log1p(-rate) - math.log(rate) + mu * mu / 2) / mu
    integrands = Integrands(
        rising=rising,
        # w(-t) >= 1 - γ: convex in t and above α log R
        growth=lambda t: orders[:, None] * (log_mixture(t) - math.log1p(-rate)),
        weight=lambda t: -t * t / 2,
        curvature=1.0,
        widest=lambda a, b: np.minimum(
            1.0, np.maximum(2.0 / mu, 0.7 * np.maximum(np.maximum(a - abs(bend), abs(bend) - b), 0.0))
        ),
    )
    top = 2 * max(float(np.max(orders)), 2.0) * mu + 12.0  # the exponent's slope is at most (2α-1)μ
    t, log_weights = nodes_on(*relevant_pieces(0.0, top, integrands))
    log_r = log_quotient(t)
    log_masses = log_weights - t * t / 2 - math.log(2 * math.pi) / 2 + log_mixture(-t)
    excess = np.expm1(np.minimum(log_r, 600.0))
    return np.logaddexp(
        log_mean(log_bregman(orders[:, None], excess, log_r), log_masses),
        log_mean(log_bregman(1 - orders[:, None], excess, log_r), log_masses),
    )
