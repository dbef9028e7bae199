"""Numbered statements of the papers that no answer uses, against sums, draws and the exact profile."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import cumulant as cm
from cumulant.curves import divergences as dv
from cumulant.curves.conversion import chi, rdp_from_chi
from cumulant.curves.curve import Curve
from cumulant.errors import InvalidParameter
from cumulant.papers import classical_gaussian as classical
from cumulant.papers.asoodeh_2020.joint_range import divergences_of_bits
from cumulant.papers.wang_2019 import ternary
from cumulant.papers.zhu_wang_2019 import theorems as zhu_wang
from cumulant.sampling.poisson_theorems import poisson_general
from cumulant.sampling.without_replacement_theorems import second_term, ternary_factor, theorem9

Array = NDArray[np.float64]
DRAWS = np.random.default_rng(20191)


def pairs(count: int, size: int = 4) -> list[tuple[Array, Array]]:
    return [(DRAWS.dirichlet(np.ones(size)) + 1e-9, DRAWS.dirichlet(np.ones(size)) + 1e-9) for _ in range(count)]


def normalised(*tables: Array) -> list[Array]:
    return [table / table.sum() for table in tables]


def curve_of(p: Array, q: Array) -> Curve:
    """Return K of the worse order of two outputs, at each λ."""
    return Curve(
        log_moment=lambda lam: np.array(
            [max(dv.cumulant_of_pair(p, q, tilt=x), dv.cumulant_of_pair(q, p, tilt=x)) for x in lam.tolist()]
        ),
        kl=1.0,
    )


@pytest.mark.parametrize(("order", "rate"), [(2, 0.3), (3, 0.1), (6, 0.5), (7, 0.01)])
def test_zhu_and_wangs_steps(order: int, rate: float) -> None:
    """(5) bounds A₂; (6) and (7) are one number; Lemma 13 is an identity; Lemmas 14 and 15 bound it from l = 2 on."""
    for mu0, mu1 in (normalised(*pair) for pair in pairs(20)):
        r = mu1 / mu0
        a2 = math.log(float(np.sum(mu0 * (1 - rate + rate * r) ** (1 - order))))
        epsilon = float(np.max(np.abs(np.log(r))))
        pure = zhu_wang.trivial_bound_of_pure(order, rate=rate, epsilon=epsilon)
        assert a2 <= pure <= zhu_wang.trivial_bound(order, rate=rate) + 1e-15
        assert pure == pytest.approx(math.log((1 - rate * (1 - math.exp(-epsilon))) ** (1 - order)), rel=1e-12)
        whole = zhu_wang.decomposition(mu0, mu1, order=order, rate=rate)
        assert zhu_wang.decomposition_by_terms(mu0, mu1, order=order, rate=rate) == pytest.approx(whole, rel=1e-9)
        moment, cgf = float(np.sum(mu0 * (2 - r) ** order)), curve_of(mu0, mu1)
        scale = float(np.sum(mu0 * (1 + np.abs(r - 1)) ** order))
        assert zhu_wang.lemma13(mu0, mu1, order=order) == pytest.approx(moment, abs=1e-11 * scale)
        for bound in (zhu_wang.lemma14(order, cgf=cgf), zhu_wang.lemma15(order, cgf=cgf)):
            assert moment <= math.exp(bound) * (1 + 1e-12)
        k, above = (math.exp(cgf.at(float(x))) for x in (order - 1, order))
        assert math.exp(zhu_wang.lemma14(order, cgf=cgf)) == pytest.approx(above if order % 2 else k + above, rel=1e-11)
        assert math.exp(zhu_wang.lemma15(order, cgf=cgf)) == pytest.approx(k * (2 if order % 2 else 3), rel=1e-11)
    assert poisson_general(order, rate=rate, cgf=cgf) > 0
    with pytest.raises(InvalidParameter):
        zhu_wang.decomposition([0.5, 0.5], [1.0, 0.0], order=2, rate=rate)


@pytest.mark.parametrize(("order", "rate"), [(2, 0.3), (5, 0.01), (9, 0.5)])
def test_wangs_series_and_bound_with_a_zeta_of_ones_own(order: int, rate: float) -> None:
    for p, q in (normalised(*pair) for pair in pairs(20)):
        exact = float(np.sum(q * (p / q) ** order))
        scale = float(np.sum(q * (1 + np.abs(p / q - 1)) ** order))
        assert ternary.newton_series(p, q, order=order) == pytest.approx(exact, abs=1e-11 * scale)
        first, second = (float(p[0]), float(q[0])), (float(p[1]), float(q[1]))
        gap = ternary.joint_convexity_gap(first, second, order=float(order), share=0.3)
        chord = 0.7 * p[0] ** order / q[0] ** (order - 1) + 0.3 * p[1] ** order / q[1] ** (order - 1)
        x, y = (0.7 * table[0] + 0.3 * table[1] for table in (p, q))
        assert gap == pytest.approx(1 - x**order / y ** (order - 1) / chord, abs=1e-11)
        assert gap >= -1e-14
        third = normalised(DRAWS.dirichlet(np.ones(4)) + 1e-9)[0]
        mixed = [(1 - rate) * third + rate * table for table in (p, q, third)]  # the sampled outputs share a part
        of_sample = math.log(dv.ternary_pearson_vajda(*mixed, order=order))
        shrunk = ternary.proposition14(
            math.log(dv.ternary_pearson_vajda(p, q, third, order=order)), order=order, rate=rate
        )
        assert of_sample <= float(shrunk) + 1e-12
    cgf = cm.Gaussian(noise_multiplier=3.0)._known().curve()

    def log_zeta(j: Array) -> Array:
        values = ternary_factor(cgf)(j)[0]
        values[0] = second_term(2, 0.5, cgf) + 2 * math.log(2.0)  # of j = 2, without γ² C(2,2)
        return values

    found = ternary.rdp_from_ternary(order, rate=rate, log_zeta=log_zeta)
    assert found == pytest.approx(theorem9(order, rate=rate, cgf=cgf) / (order - 1), rel=1e-11)


def test_the_joint_range_is_the_hull_of_that_of_bits() -> None:
    """Theorem 2 of Asoodeh et al.: no pair of four outputs has more E_λ for its χ² than chords of pairs of bits."""
    epsilon = 0.3

    def chi_square(p: list[float], q: list[float]) -> float:
        return dv.pearson_vajda(p, q, order=2)

    def stick(p: list[float], q: list[float]) -> float:
        return dv.hockey_stick(p, q, epsilon=epsilon)

    bits = divergences_of_bits(chi_square, stick, points=160)
    for direction in np.linspace(0.02, math.pi / 2, 12).tolist():
        way = np.array([-math.cos(direction), math.sin(direction)])
        support = float(np.max(bits @ way))
        for p, q in (normalised(*pair) for pair in pairs(25)):
            assert np.array([chi_square(p.tolist(), q.tolist()), stick(p.tolist(), q.tolist())]) @ way <= support + 2e-3


@pytest.mark.parametrize("lam", [1e-6, 0.5, 1.0, 30.0])
@pytest.mark.parametrize("gamma", [1e-12, 0.3, 5.0])
def test_chi_of_asoodeh_9(lam: float, gamma: float) -> None:
    assert chi(lam, gamma) == pytest.approx(math.expm1(lam * gamma) / lam, rel=1e-12)
    assert rdp_from_chi(lam, chi(lam, gamma)) == pytest.approx(gamma, rel=1e-12)


def test_classical_calibrations_of_gaussian_noise() -> None:
    """1.25 is above the exact δ for ε < 1; 0.8 is not at little noise; the calibration inverts the former."""
    for sigma in (0.05, 0.3, 1.0, 3.0, 20.0):
        for epsilon in (1e-3, 0.1, 0.5, 0.99):
            exact = cm.Gaussian(noise_multiplier=sigma).log_delta(epsilon=epsilon)
            found = classical.dwork_roth_log_delta(noise_multiplier=sigma, epsilon=epsilon)
            assert found == pytest.approx(math.log(1.25) - (sigma * epsilon) ** 2 / 2)
            assert exact <= max(found, -1e300)
            quoted = classical.wang_quoted_log_delta(noise_multiplier=sigma, epsilon=epsilon)
            assert quoted == pytest.approx(math.log(0.8) - (sigma * epsilon) ** 2 / 2)
            delta = math.exp(found)
            if delta < 1:
                assert classical.dwork_roth_epsilon(noise_multiplier=sigma, delta=delta) == pytest.approx(epsilon)
    assert cm.Gaussian(noise_multiplier=0.3).delta(epsilon=0.1) > 0.89
    assert classical.wang_quoted_log_delta(noise_multiplier=0.3, epsilon=0.1) < math.log(0.8)
    assert classical.dwork_roth_epsilon(noise_multiplier=5.0, delta=1e-5) == pytest.approx(
        0.2 * math.sqrt(2 * math.log(1.25e5))
    )
