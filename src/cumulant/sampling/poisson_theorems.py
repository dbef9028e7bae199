"""Poisson sampling, add-or-remove-one: what an RDP curve is worth after sampling, at integer orders.

Zhu and Wang (2019), "Poisson Subsampled Rényi Differential Privacy". Each function takes the CGF of the mechanism,
the rate γ and an integer order α >= 2, and returns K'(α-1) = log of a bound on the moment of the sampled mechanism.

With w(l) = C(α,l) γ^l (1-γ)^(α-l), which sums to 1, every bound is written as A = 1 + Σ w(l)(e^{K(l-1)} - 1): a sum of
positive terms, so that log A keeps its relative accuracy where A - 1 is 1e-14 or 1e-300. The same sum serves sampling
without replacement.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cumulant.curves.curve import Curve
from cumulant.errors import UnprovenCombination
from cumulant.numerics.binomial import Binomial
from cumulant.numerics.binomial_sum import Factor, binomial_log_sum
from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import LEAST, ROUNDING
from cumulant.numerics.scalar_logspace import log1p_exp
from cumulant.parameters import inner_probability, whole_number
from cumulant.printed import rounded_up

LARGE_NATS = 1e5  # of a sum, from which on a share of it is enough
CURVE_ERROR = 1e-13  # the relative error a Curve is allowed


def poisson_tight(order: int, *, rate: float, cgf: Curve) -> float:
    """Return log A, the tight bound: Zhu and Wang (2019), Theorems 6 and 8, here for every mechanism.

        A = (1-γ)^(α-1) (αγ - γ + 1) + Σ_{l=2..α} C(α,l) (1-γ)^(α-l) γ^l e^{K(l-1)}

    The removal direction, E_{μ0}[w^α] with w = 1-γ+γr and r = dμ1/dμ0, is A by the binomial theorem, after joint
    convexity over the other records' subset. Zhu and Wang bound the other direction, E_{μ0}[w^{1-α}], by A only if
    the odd Pearson-Vajda moments are >= 0, and apply convexity to (1+γ)μ0 - γμ1, which may be negative. Neither is
    needed. With v = 1-γ+γ/r and λ = 3(1-γ)/(3+2(α-2)γ), for every pair and every α >= 2,

        E_{μ0}[w^{1-α}] <= λ E_{μ0}[w^α] + (1-λ) E_{μ1}[v^α],

    and both expectations on the right are removal moments (of the pair and of the swapped pair), each at most A.
    Proof: D(r) = λw^α + (1-λ)rv^α - w^{1-α} - κ(r-1), κ such that D'(1) = 0, has D(1) = 0 and
    D'' = α(α-1)γ² w^{-α-1} S,  S + 1 = λw^{2α-1} + (1-λ)(vw)^{α-2}(w/r)³. As λ(2α-1)γ = 3(1-λ)(1-γ), the weighted
    AM-GM inequality gives log(S+1) >= (1-λ)[(3/γ)log w - 3 log r + (α-2)log(vw)], where log w >= γ log r by concavity
    and vw = 1 + γ(1-γ)(r-1)²/r >= 1. So D is convex, D >= 0, and E_{μ0}[r-1] = 0 finishes it. If one of μ0, μ1 is not
    absolutely continuous with respect to the other, the right side is infinite, as 0 < λ < 1.

    Above 20 000 terms the sum is taken over chosen l, refined until the rest, which is bounded, adds 1e-13 of it, or
    about 1e-10 of K where the sum is above 1e5 nats.

    Holds for:  add-or-remove-one, both directions; every mechanism that is defined on subsets of every size and
                whose curve bounds D_l(M(S∪x)‖M(S)) and D_l(M(S)‖M(S∪x)) alike.
    Tightness:  attained where one pair attains the curve at all orders; a lower bound for such mechanisms (Theorem 6).

    >>> from cumulant import Gaussian
    >>> round(poisson_tight(2, rate=0.01, cgf=Gaussian(noise_multiplier=1.0)._known().curve()), 9)
    0.000171813
    """
    alpha, gamma = checked(order, rate, cgf)
    return log_moment_above(tight_log_excess(alpha, gamma, cgf))


def poisson_general(order: int, *, rate: float, cgf: Curve) -> float:
    """Return the log of Zhu and Wang's (2019) general bound, Theorem 5.

        (1-γ)^(α-1)(αγ - γ + 1) + C(α,2)γ²(1-γ)^(α-2) e^{K(1)} + 3 Σ_{l=3..α} C(α,l)(1-γ)^(α-l) γ^l e^{K(l-1)}

    Holds for:  what `poisson_tight` holds for; being larger, it needs no proof of its own.
    Tightness:  up to a factor 3 in the moment; `poisson_tight` replaces it.
    """
    alpha, gamma = checked(order, rate, cgf)
    return log_moment_above(_with_factor_three(alpha, gamma, power_factor(cgf), tight_log_excess(alpha, gamma, cgf)))


def poisson_fast(order: int, *, rate: float, cgf: Curve, terms: int = 32) -> float:
    """Return the log of Zhu and Wang's (2019) τ-term approximation of the tight bound, Theorem 11.

        (1-γ)^α (1 - e^{-ε}) + e^{-ε}(1-γ+γe^ε)^α - Σ_{l=2..τ} C(α,l)(1-γ)^(α-l) γ^l (e^{(l-1)ε} - e^{K(l-1)})

    where τ = terms and ε = K(α-1)/(α-1): the terms beyond τ use ε(l) <= ε(α). Summed here as positive terms, with
    τ + 1 evaluations of K, because the closed form cancels.

    Holds for:  what `poisson_tight` holds for (K(λ)/λ does not decrease).
    Tightness:  at least `poisson_tight`, equal to it for τ >= α.
    """
    alpha, gamma = checked(order, rate, cgf)
    tau = whole_number("terms", terms, at_least=2)
    factor = less_one(_relaxed_factor(cgf, alpha, tau))
    return log_moment_above(_head_and_tail(alpha, gamma, factor, first=2, tau=tau))


def poisson_general_fast(order: int, *, rate: float, cgf: Curve, terms: int = 32) -> float:
    """Return the log of Zhu and Wang's (2019) τ-term approximation of the general bound, Theorem 20.

        (1-γ)^α (1 - 3e^{-ε}) + 3e^{-ε}(1-γ+γe^ε)^α - 2αγ(1-γ)^(α-1)
        + C(α,2)γ²(1-γ)^(α-2) (e^{K(1)} - 3e^ε) - 3 Σ_{l=3..τ} C(α,l)(1-γ)^(α-l) γ^l (e^{(l-1)ε} - e^{K(l-1)})

    where τ = terms and ε = K(α-1)/(α-1). The formula is printed without proof; it is Theorem 5 with ε(α) for ε(l),
    l > τ, and 3 Σ_{l<=2} w(l)e^{(l-1)ε} taken off the completed binomial: the printed formula is right for τ >= 2.

    Holds for:  what `poisson_tight` holds for.
    Tightness:  at least `poisson_general`, equal to it for τ >= α.
    """
    alpha, gamma = checked(order, rate, cgf)
    tau = whole_number("terms", terms, at_least=2)
    factor = _relaxed_factor(cgf, alpha, tau)
    tight = _head_and_tail(alpha, gamma, less_one(factor), first=2, tau=tau)
    return log_moment_above(_with_factor_three(alpha, gamma, factor, tight, tau=tau))


# What both kinds of sampling share ------------------------------------------------------------------------------------


def checked(order: Any, rate: Any, cgf: Curve) -> tuple[int, float]:
    """Return α and γ, or raise: α must be an integer >= 2, γ strictly between 0 and 1, the loss finite."""
    alpha = whole_number("order", order, at_least=2)
    gamma = inner_probability("rate", rate)
    if cgf.failure:
        raise UnprovenCombination(
            "the amplification theorems need a finite RDP curve, but with probability "
            f"{rounded_up(cgf.failure)} the loss is infinite; sample the mechanism without its failure and add the "
            "failure afterwards"
        )
    return alpha, gamma


def tight_log_excess(alpha: int, gamma: float, cgf: Curve) -> float:
    """Return log(A - 1) of `poisson_tight`, rounded up."""
    if not math.isfinite(cgf.at(alpha - 1.0)):
        return math.inf
    weights = Binomial.of(alpha, gamma, 1 - gamma)
    return binomial_log_sum(weights, less_one(power_factor(cgf)), first=2, last=alpha, large=LARGE_NATS)[1]


def sampled_sum(alpha: int, gamma: float, factor: Factor, *, first: int, last: int) -> tuple[float, float]:
    """Return a lower and an upper bound of log Σ_{l=first..last} w(l) e^{factor(l)}."""
    return binomial_log_sum(Binomial.of(alpha, gamma, 1 - gamma), factor, first=first, last=last)


def log_moment_above(log_excess: float) -> float:
    """Return log(1 + e^x), rounded up; also where e^x underflows."""
    if log_excess == -math.inf:
        return 0.0
    return max(log1p_exp(log_excess) * (1 + ROUNDING), LEAST)


def less_one(factor: Factor) -> Factor:
    """Return e^K - 1 for e^K: K is convex, 1 - e^{-K} does not decrease."""

    def at(ell: Array) -> tuple[Array, Array, Array]:
        k, _, error = factor(ell)
        with np.errstate(divide="ignore"):
            return k, np.log(-np.expm1(-k)), error  # K/(1-e^{-K}) <= 1+K: `error` covers the change

    return at


# Parts ----------------------------------------------------------------------------------------------------------------


def power_factor(cgf: Curve) -> Factor:
    """Return e^{K(l-1)}."""

    def at(ell: Array) -> tuple[Array, Array, Array]:
        k = cgf(ell - 1.0)
        return k, np.zeros_like(k), CURVE_ERROR * (1 + k)

    return at


def _relaxed_factor(cgf: Curve, alpha: int, tau: int) -> Factor:
    """Return e^{K(l-1)} up to τ and e^{(l-1)ε(α)} beyond."""
    epsilon = cgf.at(alpha - 1.0) / (alpha - 1.0)

    def at(ell: Array) -> tuple[Array, Array, Array]:
        k = (ell - 1.0) * epsilon
        k[ell <= tau] = cgf(ell[ell <= tau] - 1.0)
        return k, np.zeros_like(k), CURVE_ERROR * (1 + k)

    return at


def _head_and_tail(alpha: int, gamma: float, factor: Factor, *, first: int, tau: int) -> float:
    """Return the sum in two parts, since a relaxed factor is convex on either side of τ only."""
    if not np.isfinite(factor(np.array([float(alpha)]))[0][0]):
        return math.inf
    head = sampled_sum(alpha, gamma, factor, first=first, last=min(tau, alpha))[1]
    tail = sampled_sum(alpha, gamma, factor, first=max(first, tau + 1), last=alpha)[1]
    return log_sum([head, tail])


def _with_factor_three(alpha: int, gamma: float, factor: Factor, log_excess: float, tau: int = 2) -> float:
    """Return log of A - 1 + 2 Σ_{l>=3} w(l)e^{K(l-1)}."""
    if log_excess == math.inf:
        return math.inf
    return log_sum([log_excess, math.log(2.0) + _head_and_tail(alpha, gamma, factor, first=3, tau=tau)])
