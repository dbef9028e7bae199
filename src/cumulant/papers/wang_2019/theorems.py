"""Theorems of Section 3 that no answer uses, as printed; and what the smallest terms of two of them make together.

As in `sampling.without_replacement_theorems`: replace-one, γ = m/n, integer α >= 2, log of a bound on the moment.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from cumulant.composition_theorems.naive_and_strong import strong_composition
from cumulant.composition_theorems.rounds import Rounds
from cumulant.curves.curve import Curve
from cumulant.curves.divergences import (
    LogMoment,
    binary_log_difference,
    cauchy_schwarz_log_abs_moment,
    gaussian_log_difference,
    laplace_log_difference,
    log_difference_of_curve,
    moment_error,
    ternary_from_binary,
)
from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.randomized_response import RandomizedResponse
from cumulant.numerics.binomial import Binomial
from cumulant.numerics.binomial_sum import Factor, binomial_log_bound
from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import ROUNDING
from cumulant.numerics.scalar_logspace import log_expm1
from cumulant.parameters import require
from cumulant.sampling.poisson_theorems import CURVE_ERROR, checked, log_moment_above
from cumulant.sampling.without_replacement_theorems import power_sum, second_term, ternary_factor

FEW_PER_OCTAVE = 8  # evaluations for every doubling of the order
FEW_MOMENTS = 64  # a moment is an integral: above this order only the terms that matter are evaluated


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


def theorem19_of(mechanism: AbstractMechanism, order: int, *, rate: float) -> float:
    """Return Theorem 19 as printed, √(B(ε,2⌊j/2⌋) B(ε,2⌈j/2⌉)) for every j, of any mechanism that qualifies.

    B of Gaussian and Laplace noise and of randomized response is an integral of positive terms or a formula; of others
    that declare themselves self-consistent it is the alternating sum over their curve, with its rounding.

    Holds for:  replace-one; mechanisms that are tight and self-consistent (Definition 18).
    Tightness:  as `theorem19`; of a curve alone the rounding of B takes over at high orders.
    """
    known = mechanism._known()
    if not known.self_consistent:
        raise UnprovenCombination(
            "Theorem 19 needs a mechanism that attains its RDP and its |χ|-divergences at one pair; use theorem9"
        )
    log_abs_moment = cauchy_schwarz_log_abs_moment(_log_difference(mechanism))
    return theorem19(order, rate=rate, cgf=known.curve(), log_abs_moment=log_abs_moment)


def _log_difference(mechanism: AbstractMechanism) -> LogMoment:
    if isinstance(mechanism, Gaussian):
        return partial(gaussian_log_difference, noise_multiplier=mechanism.noise_multiplier)
    if isinstance(mechanism, Laplace):
        return partial(laplace_log_difference, scale=mechanism.scale)
    if isinstance(mechanism, RandomizedResponse) and mechanism.log_odds > 0:
        return partial(binary_log_difference, epsilon=mechanism.log_odds)
    return log_difference_of_curve(mechanism._known().curve())


def smallest_terms(order: int, *, rate: float, cgf: Curve, log_abs_moment: LogMoment) -> float:
    """Return the same with the smallest bound that is known of each ζ(j)^j: that of Theorem 9 where it is less.

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


def pure_dp(order: int, *, rate: float, cgf: Curve) -> float:
    """Return α log(1 + γ e^{ε(α)} (e^{ε(∞)} - 1)): Wang et al. (2019), the remark "Pure DP" after Theorem 9.

    Theorem 9 with (e^{ε(∞)} - 1)^j everywhere, e^{(j-1)ε(j)} <= e^{jε(α)}, and the term j = 1 added.

    Holds for:  replace-one; mechanisms with ε(∞) < ∞.
    Tightness:  one closed form for all orders; of first order in γ, so far above Theorem 9 where αγ is small.
    """
    alpha, gamma = checked(order, rate, cgf)
    if not math.isfinite(cgf.pure):
        raise UnprovenCombination("this bound needs pure DP, and the mechanism has none; use theorem9")
    epsilon = cgf.at(alpha - 1.0) / (alpha - 1.0)
    raised = (1 + CURVE_ERROR) * (epsilon + cgf.pure)
    log_term = math.log(gamma) + raised - cgf.pure + log_expm1(cgf.pure) + 4 * ROUNDING * (1 + raised)
    return alpha * log_moment_above(log_term)


def theorem9_in_few_evaluations(order: int, *, rate: float, cgf: Curve) -> float:
    """Return an upper bound of Theorem 9 from 8 log2(α) + 8 values of the curve: Section 4, "Approximate Computation".

    The paper takes max + log α of the terms' logarithms, the maximum from O(log α) of them, if they have one or two
    peaks. Here terms between two that are known are bounded by a geometric sum, as C(α,j) γ^j is log-concave and the
    bound of ζ(j)^j lies below its chord; the block that counts most is halved. Nothing is assumed of peaks.

    Holds for:  what `theorem9` holds for; it is never below it.
    Tightness:  `theorem9` takes α values up to 20 000, and then as many as an excess of 1e-13 needs.
    """
    alpha, gamma = checked(order, rate, cgf)
    if not math.isfinite(cgf.at(alpha - 1.0)) or cgf.pure == 0:  # nothing known, or nothing to amplify
        return cgf.at(alpha - 1.0)
    evaluations = math.ceil(FEW_PER_OCTAVE * math.log2(alpha))
    weights = Binomial.of(alpha, gamma / (1 + gamma), 1 / (1 + gamma))
    trailing = binomial_log_bound(weights, ternary_factor(cgf), first=3, last=alpha, evaluations=evaluations)
    growth = alpha * math.log1p(gamma) * (1 + ROUNDING)
    return log_moment_above(log_sum([second_term(alpha, gamma, cgf), growth + trailing]))


def theorem26(rounds: Rounds, *, slack: float) -> tuple[float, float]:
    """Return (ε √(2k log 1/δ*) + 2kε²,  kδ + δ*), rounded up: Wang et al. (2019), Theorem 26, as printed.

    where k = rounds.count and δ* = slack. `strong_composition` is the original, which is never worse.

    Holds for:  every k-fold adaptive composition, ε <= 1, δ* in (0, 1].
    Tightness:  right order in k for small ε; twice the drift of the original as ε → 0.
    """
    require(rounds.epsilon <= 1, "epsilon must be at most 1 in Theorem 26", rounds.epsilon)
    epsilon, delta = strong_composition(rounds, slack=slack)  # checks, and has the same δ
    e, k = rounds.epsilon, rounds.count
    printed = (e * math.sqrt(-2.0 * k * math.log(slack)) + 2 * k * e * e) * (1 + ROUNDING)
    return max(epsilon, printed), delta
