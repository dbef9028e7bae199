"""Sampling without replacement, replace-one: what an RDP curve is worth after sampling, at integer orders.

Wang, Balle and Kasiviswanathan (2019), "Subsampled Rényi Differential Privacy and Analytical Moments Accountant",
Section 3. A batch of m out of n records, γ = m/n. Each function takes the CGF of the mechanism for the replace-one
relation, the rate γ and an integer order α >= 2, and returns K'(α-1) = log of a bound on the moment.

Every function returns its own statement's number. `best_black_box` is the smallest of those that hold for every curve,
which is never worse than the mechanism itself.
"""

from __future__ import annotations

import math

import numpy as np

from cumulant.curves.curve import Curve
from cumulant.curves.divergences import (
    LogMoment,
    difference_bound,
    moment_error,
    multiplicative_bound,
    ternary_from_binary,
)
from cumulant.numerics.binomial import Binomial
from cumulant.numerics.binomial_sum import Factor, binomial_log_sum
from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import ROUNDING
from cumulant.numerics.scalar_logspace import log1p_exp, log_expm1
from cumulant.sampling.poisson_theorems import (
    CURVE_ERROR,
    checked,
    less_one,
    log_moment_above,
    power_factor,
    sampled_sum,
    tight_log_excess,
)

FEW_MOMENTS = 64  # a moment is an integral: above this order only the terms that matter are evaluated


def joint_convexity(order: int, *, rate: float, cgf: Curve) -> float:
    """Return log(1 + γ(e^{K(α-1)} - 1)) <= K(α-1).

    The two sampled outputs are mixtures over the same batches, and in a fraction 1-γ of them, those without the
    replaced record, the components are equal. (x, y) ↦ x^α y^{1-α} is jointly convex (Lemma 13), so the moment is at
    most the mean over batches of the components' moments: 1, or at most e^{K(α-1)}.

    Holds for:  replace-one; every mechanism, also at real orders.
    Tightness:  of first order in γ where the truth is of second; the best of these bounds when γ is near 1.
    """
    alpha, gamma = checked(order, rate, cgf)
    k = cgf.at(alpha - 1.0) * (1 + CURVE_ERROR)
    return min(k, log_moment_above(math.log(gamma) + log_expm1(k) + 4 * ROUNDING))


def theorem9(order: int, *, rate: float, cgf: Curve) -> float:
    """Return log of the bound of Wang et al. (2019), Theorem 9.

        1 + γ² C(α,2) min{4(e^{K(1)} - 1), e^{K(1)} min{2, (e^{ε(∞)} - 1)²}}
          + Σ_{j=3..α} γ^j C(α,j) e^{K(j-1)} min{2, (e^{ε(∞)} - 1)^j}

    Above 20 000 terms by blocks: Section 4, "Approximate Computation", with an excess of 1e-13 instead of log α.

    Holds for:  replace-one; every mechanism whose curve is for that relation, ε(∞) = `cgf.pure`.
    Tightness:  γ² at small orders as it must be, with a constant up to 4 times too large; see `proposition20`.

    >>> from cumulant import Gaussian
    >>> round(theorem9(8, rate=0.001, cgf=Gaussian(noise_multiplier=5.0)._known().curve()) / 7, 10)
    6.71e-07
    """
    alpha, gamma = checked(order, rate, cgf)
    if not math.isfinite(cgf.at(alpha - 1.0)) or cgf.pure == 0:  # nothing known, or nothing to amplify
        return cgf.at(alpha - 1.0)
    log_excess = log_sum([second_term(alpha, gamma, cgf), power_sum(alpha, gamma, ternary_factor(cgf))])
    return log_moment_above(log_excess)


def black_box(order: int, *, rate: float, cgf: Curve) -> float:
    """Return log(1 + 2(2-γ)(A-1)), where A is the moment of `poisson_tight` for the replace-one curve.

    The sampled pair is p = (1-γ)μ0 + γμ1, q = (1-γ)μ0 + γμ1', averaged over batches, with μ0, μ1, μ1' from mutually
    adjacent batches. The moment is 1 + ∫ f''(t)(H_t(p‖q) - (1-t)_+) dt, f = t^α. For t >= 1 advanced joint convexity
    (Balle, Barthe and Gaboardi 2018, Theorem 2) gives H_t <= (1-β)h_0 + βh_1 with β = γt/(t-1+γ), where h_0 and h_1
    are γH_{1+(t-1)/γ} of (μ1, μ0) and (μ1, μ1'), and ∫_1^∞ f'' h_i <= A - 1. β falls from 1 to γ, so the two terms
    together take at most sup(1-β) + sup β = 2-γ times A - 1. The part t < 1, as ∫_1^∞ α(α-1) s^{-α-1} H_s(q‖p) ds, is
    bounded alike, as s^{-α-1} <= s^{α-2}.

    Holds for:  replace-one; every mechanism. Needs no self-consistency, and no pure DP.
    Tightness:  within a factor 2(2-γ) < 4 in the moment minus 1, against `proposition20`.
    """
    alpha, gamma = checked(order, rate, cgf)
    log_excess = math.log(2 * (2 - gamma)) + tight_log_excess(alpha, gamma, cgf) + 4 * ROUNDING
    return log_moment_above(log_excess)


def best_black_box(order: int, *, rate: float, cgf: Curve) -> float:
    """Return the smallest of `theorem9`, `black_box` and `joint_convexity`: none is always below the others.

    Where Algorithm 3, line 4, takes Theorem 19 for self-consistent mechanisms, this needs no such thing: B <= E|r-1|^j,
    and 2(2-γ) < 4, so `black_box` is below it but for its second term, which is that of Theorem 9.
    """
    return min(bound(order, rate=rate, cgf=cgf) for bound in (theorem9, black_box, joint_convexity))


def by_profiles(order: int, *, rate: float, cgf: Curve) -> float:
    """Return the smaller of `black_box` and `joint_convexity`: those that are proven by bounds of H_t alone."""
    return min(bound(order, rate=rate, cgf=cgf) for bound in (black_box, joint_convexity))


def proposition20(order: int, *, rate: float, cgf: Curve) -> float:
    """Return the lower bound of Wang et al. (2019), Proposition 20, rounded down.

        α log(1-γ) + log(1 + α γ/(1-γ) + Σ_{j=2..α} C(α,j) (γ/(1-γ))^j e^{K(j-1)})

    It is the moment of (1-γ)q + γp against q, where p and q are the outputs for x, ..., x, x' and x, ..., x.

    Holds for:  mechanisms where those two outputs attain the curve at every integer order up to α, such as noise
                added to a count; not an upper bound of anything.
    Tightness:  attained by that pair of datasets; other datasets can be worse (triples of distinct records).
    """
    alpha, gamma = checked(order, rate, cgf)
    if not math.isfinite(cgf.at(alpha - 1.0)):
        return math.inf
    factor = less_one(power_factor(cgf))
    log_excess = sampled_sum(alpha, gamma, factor, first=2, last=alpha)[0]
    return log1p_exp(log_excess) * (1 - ROUNDING)


def theorem19(order: int, *, rate: float, cgf: Curve, log_abs_moment: LogMoment) -> float:
    """Return log of the bound of Wang et al. (2019), Theorem 19.

        1 + γ² C(α,2) min{4(e^{K(1)} - 1), e^{K(1)} min{2, (e^{ε(∞)} - 1)²}} + 4 Σ_{j=3..α} γ^j C(α,j) E_q|p/q-1|^j

    `log_abs_moment` maps an array of orders j to log E_q|p/q-1|^j of the tight pair, within `moment_error`. The paper
    bounds the odd orders by neighbouring even ones, √(B(ε,j-1) B(ε,j+1)); `cauchy_schwarz_log_abs_moment` does so, and
    the exact moment is smaller.

    Holds for:  replace-one; mechanisms where one pair attains sup E_q|p/q-1|^j over ordered neighbours at each j
                (tight and self-consistent, Definition 18; a pair that dominates at all ε is enough).
    Tightness:  below Theorem 9 where the noise is large, and above it where it is small.
    """

    def factor(j: Array) -> tuple[Array, Array, Array]:
        log_moments = log_abs_moment(j)
        return ternary_from_binary(log_moments), np.zeros(j.shape), moment_error(j, log_moments)

    return _with_trailing(order, rate, cgf, factor)


def smallest_terms(order: int, *, rate: float, cgf: Curve, log_abs_moment: LogMoment) -> float:
    """Return Theorem 19 with the smallest bound that is known of each ζ(j)^j: that of Theorem 9 where it is less.

    Wang et al. (2019), Section 4. Erratum: the remark after Theorem 19 prints max{2, (e^{ε(∞)} - 1)^j} for min.

    Holds for:  as `theorem19`.
    Tightness:  at most both theorems.
    """
    general = ternary_factor(cgf)

    def factor(j: Array) -> tuple[Array, Array, Array]:
        k, zero, error = general(j)
        log_moments = log_abs_moment(j)
        return np.minimum(k, ternary_from_binary(log_moments)), zero, error + moment_error(j, log_moments)

    return _with_trailing(order, rate, cgf, factor)


def _with_trailing(order: int, rate: float, cgf: Curve, factor: Factor) -> float:
    alpha, gamma = checked(order, rate, cgf)
    if not math.isfinite(cgf.at(alpha - 1.0)) or cgf.pure == 0:  # nothing known, or nothing to amplify
        return cgf.at(alpha - 1.0)
    trailing = power_sum(alpha, gamma, factor, exact_terms=FEW_MOMENTS)
    return log_moment_above(log_sum([second_term(alpha, gamma, cgf), trailing]))


def second_term(alpha: int, gamma: float, cgf: Curve) -> float:
    """Return log of γ² C(α,2) min{4(e^{K(1)} - 1), e^{K(1)} min{2, (e^{ε(∞)} - 1)²}}: Lemmas 15, 16 and 17."""
    k, pure = cgf.at(1.0) * (1 + CURVE_ERROR), cgf.pure * (1 + CURVE_ERROR)
    ternary = min(
        float(ternary_from_binary(log_expm1(k))),
        float(difference_bound(k, k)),
        float(multiplicative_bound(k, epsilon=pure, order=2)),
    )
    pairs = math.log(alpha) + math.log(alpha - 1) - math.log(2)
    return 2 * math.log(gamma) + pairs + ternary + 8 * ROUNDING * (1 + abs(math.log(gamma)) + pairs + k)


def ternary_factor(cgf: Curve) -> Factor:
    """Return e^{K(j-1)} min{2, (e^{ε(∞)} - 1)^j}, which bounds ζ(j)^j: Lemmas 16 and 17.

    The minimum need not be log-convex, but ζ(j)^j is: a supremum of E|X|^j, each log-convex in j (Lyapunov). So a
    chord of the bounds is a bound between them, which is what `binomial_log_sum` asks for.
    """
    pure = cgf.pure * (1 + CURVE_ERROR)

    def at(j: Array) -> tuple[Array, Array, Array]:
        k, zero, error = power_factor(cgf)(j)
        return np.minimum(difference_bound(k, k), multiplicative_bound(k, epsilon=pure, order=j)), zero, error

    return at


def power_sum(alpha: int, x: float, factor: Factor, **options: int) -> float:
    """Return log of Σ_{j=3..α} x^j C(α,j) e^{factor(j)}, rounded up: (1+x)^α times a binomial sum of odds x."""
    growth = alpha * math.log1p(x)
    weights = Binomial.of(alpha, x / (1 + x), 1 / (1 + x))
    return growth * (1 + ROUNDING) + binomial_log_sum(weights, factor, first=3, last=alpha, **options)[1]
