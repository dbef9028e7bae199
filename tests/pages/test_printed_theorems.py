"""Theorems as printed, by many digits; divergences at every order; what Definition 18 asks for."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray

from cumulant import (
    FamilyPair,
    Gaussian,
    Laplace,
    MultivariateGaussian,
    PureDP,
    RandomizedResponse,
    RenyiCurve,
    StatedPair,
    UnprovenCombination,
    from_dict,
)
from cumulant.composition_theorems.naive_and_strong import strong_composition
from cumulant.composition_theorems.rounds import Rounds
from cumulant.curves import divergences as dv
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.papers.wang_2019 import theorems as wang
from cumulant.sampling.without_replacement_theorems import theorem9, theorem19

Array = NDArray[np.float64]
LogMoment = Callable[[int], mpf]


def test_printed_numbers() -> None:
    """Theorem 9 at order 7, γ = 0.5, σ = 5: log of the moment 2.98; pure DP at order 4, γ = 0.01, b = 2: 0.0356."""
    assert round(theorem9(7, rate=0.5, cgf=Gaussian(noise_multiplier=5.0)._known().curve()), 2) == 2.98
    assert round(wang.pure_dp(4, rate=0.01, cgf=Laplace(scale=2.0)._known().curve()), 4) == 0.0356
    with mp.workdps(30):  # the sum, term by term
        k = [mp.exp(mpf(j) * (j - 1) / 50) for j in range(8)]
        total = 1 + mpf(1) / 4 * 21 * min(4 * (k[2] - 1), 2 * k[2])
        total += mp.fsum(2 * k[j] * mp.binomial(7, j) / mpf(2) ** j for j in range(3, 8))
        assert round(float(mp.log(total)), 2) == 2.98


def exact_b(l: int, moments: LogMoment) -> mpf:  # noqa: E741  the letter of the paper
    return mp.fsum((-1) ** (l - i) * mp.binomial(l, i) * mp.exp(moments(i)) for i in range(l + 1))


@pytest.mark.parametrize(("alpha", "gamma"), [(3, 0.1), (6, 0.01), (12, 0.5)])
def test_theorem_19_of_three_mechanisms(alpha: int, gamma: float) -> None:
    """B by alternating sums of many digits, for each mechanism from its own formula."""

    def gaussian(i: int) -> mpf:
        return mpf(i) * (i - 1) / 8

    def laplace(i: int) -> mpf:
        x = mpf(i - 1)
        return mp.log(((x + 1) * mp.exp(x / 2) + x * mp.exp(-(x + 1) / 2)) / (2 * x + 1))

    def response(i: int) -> mpf:
        p = mpf("0.6")
        return mp.log(p**i * (1 - p) ** (1 - i) + (1 - p) ** i * p ** (1 - i))

    cases: list[tuple[AbstractMechanism, LogMoment, mpf]] = [
        (Gaussian(noise_multiplier=2.0), gaussian, mp.inf),
        (Laplace(scale=2.0), laplace, mpf("0.5")),
        (RandomizedResponse(p=0.6), response, mp.log(mpf("1.5"))),
    ]
    for mechanism, moments, pure in cases:
        with mp.workdps(60):
            k = mp.exp(moments(2))
            second = min(4 * (k - 1), k * min(2, mp.expm1(pure) ** 2 if pure < mp.inf else 2))
            total = 1 + mpf(gamma) ** 2 * mp.binomial(alpha, 2) * second
            for j in range(3, alpha + 1):
                root = mp.sqrt(exact_b(2 * (j // 2), moments) * exact_b(2 * ((j + 1) // 2), moments))
                total += 4 * mpf(gamma) ** j * mp.binomial(alpha, j) * root
            exact = mp.log(total)
        bound = wang.theorem19_of(mechanism, alpha, rate=gamma)
        assert exact <= mpf(bound) <= exact * (1 + mpf(10) ** -9)
        general = dv.cauchy_schwarz_log_abs_moment(dv.log_difference_of_curve(mechanism._known().curve()))
        loose = theorem19(alpha, rate=gamma, cgf=mechanism._known().curve(), log_abs_moment=general)
        assert exact <= mpf(loose) <= exact * (1 + mpf(10) ** -5)


def test_theorem_19_needs_self_consistency() -> None:
    with pytest.raises(UnprovenCombination, match="theorem9"):
        wang.theorem19_of(PureDP(epsilon=1.0), 4, rate=0.1)


@pytest.mark.parametrize("power", [2, 3, 5, 8])
def test_self_consistent_mechanisms_are_the_worst_at_the_full_sensitivity(power: int) -> None:
    """Definition 18: the RDP and E_q|p/q-1|^α both grow with how far the outputs are apart, by quadrature."""
    x = np.linspace(-40.0, 60.0, 200_001)
    densities: list[Callable[[float], Array]] = [
        lambda shift: np.exp(-((x - shift) ** 2) / 8) / math.sqrt(8 * math.pi),
        lambda shift: np.exp(-np.abs(x - shift) / 2) / 4,
    ]
    for density in densities:
        none = density(0.0)
        apart = [density(shift) for shift in (0.1, 0.4, 0.7, 1.0)]
        moments = [float(np.sum(np.abs(p / none - 1) ** power * none)) for p in apart]
        renyi = [float(np.sum((p / none) ** power * none)) for p in apart]
        assert moments == sorted(moments)
        assert renyi == sorted(renyi)
    assert all(m._known().self_consistent for m in (Gaussian(noise_multiplier=2.0), Laplace(scale=2.0)))
    assert not PureDP(epsilon=1.0)._known().self_consistent


@pytest.mark.parametrize(("alpha", "gamma"), [(3, 0.1), (9, 0.01), (20, 0.3)])
def test_theorem_19_of_every_mechanism_with_a_tight_pair(alpha: int, gamma: float) -> None:
    """What is the same pair in other words has the same bound, but for the rounding of alternating sums."""
    sigma, bits = 2.0, math.log(0.7 / 0.3)
    gaussian = wang.theorem19_of(Gaussian(noise_multiplier=sigma / math.sqrt(2)), alpha, rate=gamma)
    rows = [(float(order), order / sigma**2) for order in range(2, 25)]
    words: list[AbstractMechanism] = [
        Gaussian(noise_multiplier=sigma) * 2,
        MultivariateGaussian(
            shift=(1.0, 1.0),
            covariance=((sigma**2, 0.0), (0.0, sigma**2)),
            neighbor_covariance=((sigma**2, 0.0), (0.0, sigma**2)),
        ),
        FamilyPair(family="normal", natural=(0.0, -0.25), neighbor_natural=(0.5, -0.25)),
        RenyiCurve(rows, self_consistent=True),
        RenyiCurve(lambda order: order / sigma**2, self_consistent=True),
    ]
    for mechanism in words:
        assert wang.theorem19_of(mechanism, alpha, rate=gamma) == pytest.approx(gaussian, rel=1e-6)
    response = wang.theorem19_of(RandomizedResponse(p=0.7), alpha, rate=gamma)
    pairs: list[AbstractMechanism] = [
        StatedPair(probabilities=(0.7, 0.3), neighbor_probabilities=(0.3, 0.7)),
        FamilyPair(family="bernoulli", natural=(bits,), neighbor_natural=(-bits,)),
    ]
    for mechanism in pairs:
        assert wang.theorem19_of(mechanism, alpha, rate=gamma) == pytest.approx(response, rel=1e-6)
    unequal = StatedPair(probabilities=(0.9, 0.1), neighbor_probabilities=(0.5, 0.5))
    for p, q in (((0.9, 0.1), (0.5, 0.5)), ((0.5, 0.5), (0.9, 0.1))):
        log_moments = lambda orders, p=p, q=q: np.log([dv.pearson_vajda(p, q, order=j) for j in orders])  # noqa: E731
        bound = theorem19(
            alpha,
            rate=gamma,
            cgf=unequal._known().curve(),
            log_abs_moment=dv.cauchy_schwarz_log_abs_moment(log_moments),
        )
        assert wang.theorem19_of(unequal, alpha, rate=gamma) >= bound
    with pytest.raises(UnprovenCombination):
        wang.theorem19_of(RenyiCurve(rows), alpha, rate=gamma)


def test_a_declared_curve_has_lower_bounds_and_theorem_19() -> None:
    """What a declaration adds; no upper bound rests on it, and none would gain; kept in data and in copies."""
    rows = [(float(order), order / 50) for order in range(2, 41)]
    declared, plain = RenyiCurve(rows, self_consistent=True), RenyiCurve(rows)
    gaussian = Gaussian(noise_multiplier=5.0)
    for order, rate in ((3, 0.01), (8, 0.1), (20, 0.3)):
        ours = declared.without_replacement(rate=rate).rdp(order=order)
        assert ours == plain.without_replacement(rate=rate).rdp(order=order)
        assert ours <= wang.theorem19_of(declared, order, rate=rate) / (order - 1) * (1 + 1e-12)
    assert declared.poisson(rate=0.01).rdp_interval(order=8).lower == pytest.approx(
        gaussian.poisson(rate=0.01).rdp_interval(order=8).lower, rel=1e-9
    )
    with pytest.raises(UnprovenCombination, match="nothing is known"):
        declared.poisson(rate=0.01).rdp_interval(order=60)
    for again in (from_dict(declared.to_dict()), copy.copy(declared), pickle.loads(pickle.dumps(declared))):
        assert again == declared
        assert again._known().self_consistent
    assert "self_consistent" not in plain.to_dict()
    assert repr(declared).endswith("self_consistent=True)")


@pytest.mark.parametrize("rows", [[(2.0, 0.1), (4.0, 0.2)], [(2.0, 0.1), (3.0, 0.01)], [(2.0, 0.1), (2.5, 0.125)]])
def test_a_curve_that_cannot_be_attained_is_not_believed(rows: list[tuple[float, float]]) -> None:
    with pytest.raises(InvalidParameter, match="self-consistent"):
        RenyiCurve(rows, self_consistent=True)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0])
def test_theorem_26_as_printed(epsilon: float) -> None:
    rounds, slack = Rounds(epsilon=epsilon, delta=1e-9, count=50), 1e-6
    with mp.workdps(30):
        e = mpf(epsilon)
        exact = e * mp.sqrt(2 * 50 * mp.log(1 / mpf(slack))) + 2 * 50 * e**2
    found, delta = wang.theorem26(rounds, slack=slack)
    assert exact <= mpf(found) <= exact * (1 + mpf(10) ** -14)
    assert (found, delta) >= strong_composition(rounds, slack=slack)
    with pytest.raises(InvalidParameter):
        wang.theorem26(Rounds(epsilon=1.1, delta=0.0, count=2), slack=slack)


# Divergences ----------------------------------------------------------------------------------------------------------

PAIRS = [([0.2, 0.5, 0.3], [0.4, 0.1, 0.5]), ([1e-9, 1 - 1e-9], [0.5, 0.5]), ([0.5, 0.5], [0.5, 0.5])]


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_renyi_divergences_at_every_order(p: list[float], q: list[float]) -> None:
    """Against sums of many digits; D_α grows with α, and (1-α)D_α(p‖q) = αD_{1-α}(q‖p)."""
    with mp.workdps(40):
        rows = [(mpf(a), mpf(b)) for a, b in zip(p, q, strict=True)]
        scale = [sum(a for a, _ in rows), sum(b for _, b in rows)]
        assert all(abs(s - 1) < 1e-15 for s in scale)
        found = []
        for order in (0, 0.25, 0.5, 0.9, 1, 1.5, 4, 30, math.inf):
            value = dv.renyi_divergence(p, q, order=order)
            if order == 1:
                exact = mp.fsum(a * mp.log(a / b) for a, b in rows)
            elif order == math.inf:
                exact = max(mp.log(a / b) for a, b in rows)
            else:
                exact = mp.log(mp.fsum(a ** mpf(order) * b ** (1 - mpf(order)) for a, b in rows)) / (mpf(order) - 1)
            assert value == pytest.approx(float(exact), rel=1e-12, abs=1e-14)
            found.append(value)
    assert all(a <= b + 1e-14 for a, b in itertools.pairwise(found))
    for order in (0.2, 0.5, 0.7):
        one, other = dv.renyi_divergence(p, q, order=order), dv.renyi_divergence(q, p, order=1 - order)
        assert (1 - order) * one == pytest.approx(order * other, rel=1e-12, abs=1e-14)


distributions = st.integers(1, 5).flatmap(
    lambda size: st.tuples(*[st.lists(st.integers(1, 2**33), min_size=size, max_size=size)] * 2)
)


@given(distributions, st.lists(st.floats(-15.5, 0.5), min_size=2, max_size=5), st.sampled_from([-1.0, 1.0]))
@settings(deadline=None)
def test_orders_next_to_one(shares: tuple[list[int], list[int]], exponents: list[float], side: float) -> None:
    """Multiples of 2^-40, which add up to 1 exactly: no order above 1 is below KL, and D grows with the order."""
    p, q = ([share / 2**40 for share in one] + [(2**40 - sum(one)) / 2**40] for one in shares)
    kl = dv.renyi_divergence(p, q, order=1)
    before = kl
    for tilt in sorted(10.0**x for x in exponents):
        order = 1 + tilt
        value = dv.renyi_divergence(p, q, order=order)
        assert value >= before * (1 - 1e-15)
        before = value
        below = dv.renyi_divergence(p, q, order=max(1 - tilt, 0.5))
        assert below <= kl * (1 + 1e-15)
        with mp.workdps(60):
            lam, rows = mpf(order) - 1, [(mpf(a), mpf(b)) for a, b in zip(p, q, strict=True)]
            exact = mp.log(mp.fsum(a * (a / b) ** lam for a, b in rows)) / lam
            assert value == pytest.approx(float(exact), rel=1e-12, abs=1e-30)
            lam = mpf(side * tilt)
            exact = mp.log(mp.fsum(a * (a / b) ** lam for a, b in rows))
        assert dv.cumulant_of_pair(p, q, tilt=side * tilt) == pytest.approx(float(exact), rel=1e-11, abs=1e-30)


def test_divergences_where_outputs_are_missing() -> None:
    p, q = [0.5, 0.5, 0.0], [0.25, 0.0, 0.75]
    assert [dv.renyi_divergence(p, q, order=order) for order in (1, 2, math.inf)] == [math.inf] * 3
    assert dv.renyi_divergence(p, q, order=0) == pytest.approx(-math.log(0.25))
    assert dv.renyi_divergence(p, q, order=0.5) == pytest.approx(-2 * math.log(math.sqrt(0.125)))
    assert dv.renyi_divergence([1.0, 0.0], [0.0, 1.0], order=0.5) == math.inf
    with pytest.raises(InvalidParameter):
        dv.renyi_divergence(p, q, order=-0.5)


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_cumulants_have_the_shape_of_lemma_31(p: list[float], q: list[float]) -> None:
    """(b) the slope runs from the smallest loss to the largest; (c) convex; (d) K(0) = 0; (e) K(-1) = 0."""
    assert dv.cumulant_of_pair(p, q, tilt=0.0) == 0.0
    assert dv.cumulant_of_pair(p, q, tilt=-1.0) == pytest.approx(0.0, abs=1e-15)
    tilts = np.linspace(-3.0, 3.0, 61)
    k = np.array([dv.cumulant_of_pair(p, q, tilt=t) for t in tilts.tolist()])
    assert np.all(k[:-2] + k[2:] >= 2 * k[1:-1] - 1e-12)
    losses = np.log(np.array(p) / np.array(q))
    for tilt, end in ((-4000.0, np.min(losses)), (4000.0, np.max(losses))):
        slope = dv.cumulant_of_pair(p, q, tilt=tilt + 1) - dv.cumulant_of_pair(p, q, tilt=tilt)
        assert slope == pytest.approx(float(end), abs=1e-9)


@pytest.mark.parametrize("order", range(6))
def test_signed_divergences_are_alternating_sums(order: int) -> None:
    for p, q in PAIRS:
        with mp.workdps(50):
            exact = mp.fsum(mpf(b) * (mpf(a) / mpf(b) - 1) ** order for a, b in zip(p, q, strict=True))
        assert dv.signed_pearson_vajda(p, q, order=order) == pytest.approx(float(exact), rel=1e-10, abs=1e-14)
        if order % 2 == 0:
            assert dv.signed_pearson_vajda(p, q, order=order) >= 0
