"""Theorems of Section 3 that no answer uses, as printed.

As in `sampling.without_replacement_theorems`: replace-one, γ = m/n, integer α >= 2, log of a bound on the moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    pearson_vajda,
)
from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.family_pair import FamilyPair
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.multivariate_gaussian import MultivariateGaussian
from cumulant.mechanisms.randomized_response import RandomizedResponse
from cumulant.mechanisms.stated_pair import StatedPair
from cumulant.numerics.binomial import Binomial
from cumulant.numerics.binomial_sum import binomial_log_bound
from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import ROUNDING
from cumulant.numerics.scalar_logspace import log_expm1
from cumulant.pairs.noise import GaussianNoise
from cumulant.parameters import require, whole_number
from cumulant.sampling.poisson_theorems import CURVE_ERROR, checked, log_moment_above
from cumulant.sampling.without_replacement_theorems import second_term, ternary_factor, theorem19

FEW_PER_OCTAVE = 8  # evaluations for every doubling of the order
PAIR_ERROR = 1e-12  # relative, of the K of one direction of two Gaussians


def theorem19_of(mechanism: AbstractMechanism, order: int, *, rate: float) -> float:
    """Return Theorem 19 as printed, √(B(ε,2⌊j/2⌋) B(ε,2⌈j/2⌉)) for every j, of any mechanism that qualifies.

    B of Gaussian and Laplace noise and of randomized response is an integral of positive terms or a formula, of a
    stated pair a sum; of families, and of curves that are declared self-consistent, it is the alternating sum, with its
    rounding. Where the two directions of a pair differ the larger bound holds.

    Holds for:  replace-one; mechanisms that are tight and self-consistent (Definition 18): declared so, or stated by
                the one pair of outputs that is the worst.
    Tightness:  as `theorem19`; of a curve alone the rounding of B takes over at high orders.
    """
    order = whole_number("order", order, at_least=2)
    differences, cgf = _log_differences(mechanism, order), mechanism._known().curve()
    if not differences:
        raise UnprovenCombination(
            "Theorem 19 needs a mechanism that attains its RDP and its |χ|-divergences at one pair; use theorem9"
        )
    moments = [cauchy_schwarz_log_abs_moment(difference) for difference in differences]
    if any(np.isposinf(moment(np.array([float(order)]))[0]) for moment in moments):
        return math.inf
    return max(theorem19(order, rate=rate, cgf=cgf, log_abs_moment=moment) for moment in moments)


def _log_differences(mechanism: AbstractMechanism, order: int) -> list[LogMoment]:
    """Return log B of the tight pair, in each direction where the two may differ; none where none is known."""
    known = mechanism._known()
    if isinstance(mechanism, Laplace):
        return [partial(laplace_log_difference, scale=mechanism.scale)]
    if isinstance(mechanism, RandomizedResponse) and mechanism.log_odds > 0:
        return [partial(binary_log_difference, epsilon=mechanism.log_odds)]
    if isinstance(known.noise, GaussianNoise):
        return [partial(gaussian_log_difference, noise_multiplier=1 / known.noise.mean)]
    directed = _directed_differences(mechanism, order)
    return directed or ([log_difference_of_curve(known.curve())] if known.self_consistent else [])


def _directed_differences(mechanism: AbstractMechanism, order: int) -> list[LogMoment]:
    """Return log B of a pair that was stated, in both directions; none of other mechanisms."""
    if isinstance(mechanism, StatedPair):
        p, q = mechanism.probabilities, mechanism.neighbor_probabilities
        return [_log_difference_of_table(*pair) for pair in ((p, q), (q, p))]
    if isinstance(mechanism, MultivariateGaussian):
        return [log_difference_of_curve(curve, off_by=PAIR_ERROR) for curve in mechanism.directed_curves()]
    if isinstance(mechanism, FamilyPair):
        off_by = mechanism.rounding_of_moments(order)
        return [log_difference_of_curve(curve, off_by=off_by) for curve in mechanism.directed_curves()]
    return []


def _log_difference_of_table(p: Sequence[float], q: Sequence[float]) -> LogMoment:
    """Return log E_q|p/q-1|^l, which is B at the even orders that the proof takes."""

    def at(orders: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return np.log([pearson_vajda(p, q, order=order) for order in orders.tolist()])

    return at


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

    It is for curves whose values are slow: what it saves is evaluations, not time. Where a curve is a formula the whole
    sum of `theorem9` is one array, and the faster by far, so nothing in the library calls this.

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
