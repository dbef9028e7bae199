"""zCDP and tCDP that a CGF implies (Remark 8), and Theorem 9 from few evaluations (Section 4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import cumulant as cm
from cumulant.curves.concentrated import rho_curve, smallest_rho
from cumulant.curves.curve import Curve
from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.papers.wang_2019.theorems import theorem9_in_few_evaluations
from cumulant.sampling.without_replacement_theorems import theorem9


def test_a_gaussian_has_its_rho() -> None:
    """1/(2σ²) at ξ = 0, and less where ξ takes a part of small orders but none of the large ones: the same."""
    curve = cm.Gaussian(noise_multiplier=2.0)._known().curve()
    assert smallest_rho(curve, beyond=(0.0, 0.125)) == pytest.approx(0.125, rel=2e-5)
    assert smallest_rho(curve, omega=10.0) == pytest.approx(0.125, rel=2e-5)
    assert smallest_rho(curve, xi=0.5, omega=9.0) == pytest.approx((9 / 8 - 0.5) / 9, rel=2e-5)
    with pytest.raises(UnprovenCombination, match="omega"):
        smallest_rho(curve)


@pytest.mark.parametrize("xi", [0.0, 0.01, 0.05, 0.2, 0.5])
def test_laplace_noise_by_a_search_in_many_digits(xi: float) -> None:
    """Sup (ε(α) - ξ)/α over a fine grid of orders, K by its formula; it is attained, and no order breaks the bound."""

    def quotient(lam: mpf) -> mpf:
        theta = mpf("0.5")
        k = mp.log(((lam + 1) * mp.exp(lam * theta) + lam * mp.exp(-(lam + 1) * theta)) / (2 * lam + 1))
        return (k / lam - mpf(xi)) / (lam + 1)

    with mp.workdps(30):
        best = max(range(-600, 700), key=lambda j: quotient(mpf(10) ** (mpf(j) / 100)))
        near = [mpf(10) ** (mpf(best) / 100 + mpf(i) / 10_000) for i in range(-100, 101)]
        exact = max(mpf(0), *(quotient(lam) for lam in near))
    found = smallest_rho(cm.Laplace(scale=2.0)._known().curve(), xi=xi)
    assert float(exact) * (1 - 1e-12) <= found <= float(exact) * (1 + 2e-5) + 1e-9


@pytest.mark.parametrize(
    "mechanism",
    [
        cm.RandomizedResponse(p=0.7),
        cm.PureDP(epsilon=1.0) * 3,
        cm.Laplace(scale=1.0).poisson(rate=0.1),
        cm.RenyiCurve([(2.0, 0.1), (8.0, 0.5), (math.inf, 2.0)]),
    ],
    ids=repr,
)
def test_what_is_implied_covers_the_curve(mechanism: AbstractMechanism) -> None:
    """K(λ) <= λξ + λ(λ+1)ρ at orders that the search did not choose, and the boundary falls with ξ."""
    curve = mechanism._known().curve()
    xis = [0.0, 0.1, 0.3]
    rhos = rho_curve(curve, xis)
    assert rhos == sorted(rhos, reverse=True)
    tilts = np.geomspace(3e-5, 4e7, 333)
    for xi, rho in zip(xis, rhos, strict=True):
        assert np.all(curve(tilts) <= (tilts * xi + tilts * (tilts + 1) * rho) * (1 + 1e-11))
        assert cm.ZCDP(rho=rho, xi=xi).epsilon(delta=1e-6) >= mechanism.epsilon(delta=1e-6, method="rdp") * (1 - 1e-9)
    tcdp = smallest_rho(curve, omega=5.0)
    near = np.linspace(1e-3, 4.0, 200)
    assert np.all(curve(near) <= near * (near + 1) * tcdp * (1 + 1e-11))
    assert tcdp <= rhos[0] * (1 + 2e-5)


# Few evaluations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism", [cm.Gaussian(noise_multiplier=5.0), cm.Laplace(scale=0.5), cm.RandomizedResponse(p=0.6)]
)
@pytest.mark.parametrize("rate", [0.001, 0.1])
def test_few_evaluations_stay_above_and_within_log_alpha(mechanism: AbstractMechanism, rate: float) -> None:
    """Never below Theorem 9, and closer to it than the paper's max + log α may be; evaluations grow like log α."""
    base = mechanism._known().curve()
    counts = []
    for order in (10, 100, 1000, 10_000, 100_000):
        asked = 0

        def log_moment(lam: np.ndarray) -> np.ndarray:
            nonlocal asked
            asked += len(lam)
            return base.log_moment(lam)

        counted = Curve(log_moment=log_moment, kl=base.kl, pure=base.pure)
        few = theorem9_in_few_evaluations(order, rate=rate, cgf=counted)
        counts.append(asked)
        every = theorem9(order, rate=rate, cgf=base)
        assert every * (1 - 1e-12) <= few <= every + math.log(order)
        assert asked <= 8 * math.log2(order) + 8
    assert counts[-1] < 150


def test_the_whole_sum_evaluates_every_order() -> None:
    """The exact sum is linear in α up to 20 000: the complexity that the bound above avoids."""
    base, asked = cm.Gaussian(noise_multiplier=5.0)._known().curve(), []

    def log_moment(lam: np.ndarray) -> np.ndarray:
        asked.append(len(lam))
        return base.log_moment(lam)

    for order in (100, 10_000):
        asked.clear()
        theorem9(order, rate=0.01, cgf=Curve(log_moment=log_moment, kl=base.kl))
        assert order - 2 <= sum(asked) <= order + 8
