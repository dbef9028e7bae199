"""What the papers misprint: the printed line fails, or contradicts its neighbour, and the corrected one holds."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from cumulant import Gaussian
from cumulant.curves.both_orders import both_orders_log_delta
from cumulant.curves.conversion import asoodeh_rdp_lower_bound, optimal_log_delta, optimal_rdp
from cumulant.curves.divergences import pearson_vajda_epsilon
from cumulant.papers.asoodeh_2020.gaussian_composition import (
    classical_variance_expansion,
    lemma2_epsilon,
    theorem5_variance_expansion,
)

Array = NDArray[np.float64]


def test_the_slides_conversion_is_unsound_as_printed() -> None:
    """ε(δ) = min_α log(1/δ)/(α-1) + ε_M(α-1), printed with ε_M(α-1) for ε_M(α): σ = 0.1, δ = 1e-5 gives 47.99."""
    sigma, delta = 0.1, 1e-5
    orders = 1 + np.geomspace(1e-3, 1e3, 200_001)
    printed = float(np.min(math.log(1 / delta) / (orders - 1) + (orders - 1) / (2 * sigma**2)))
    corrected = float(np.min(math.log(1 / delta) / (orders - 1) + orders / (2 * sigma**2)))
    assert round(printed, 2) == 47.99
    exact = Gaussian(noise_multiplier=sigma).epsilon(delta=delta)
    assert round(exact, 2) == 91.82
    with mp.workdps(40):  # the truth at the printed ε: δ is not 1e-5 but nearly 1
        mu = 1 / mpf(sigma)
        truth = mp.ncdf(mu / 2 - printed / mu) - mp.exp(printed) * mp.ncdf(-mu / 2 - printed / mu)
    assert truth > 0.5
    assert printed < exact < corrected


@pytest.mark.parametrize("alpha", [2, 3, 5])
def test_zhu_and_wang_a1_has_q_where_it_prints_p(alpha: int) -> None:
    """The third line of A.1 given σ_n = 1: p' + γp' - γq' is printed for q' + γp' - γq'; the fourth line has it right.

    As printed the chain is no upper bound of E_q[(p/q)^α]: with μ₀ far below μ₁ somewhere it is less.
    """
    mu0, mu1, gamma = np.array([0.1, 0.9]), np.array([0.6, 0.4]), 0.9
    q = (1 - gamma) * mu0 + gamma * mu1
    truth = float(np.sum(mu0**alpha * q ** (1.0 - alpha)))

    def chain(first: Array) -> float:
        left = float(np.sum(mu1 * (first / mu1) ** alpha))
        right = float(np.sum(mu0 * (((1 + gamma) * mu0 - gamma * mu1) / mu0) ** alpha))
        return gamma * left + (1 - gamma) * right

    fourth_line = gamma * float(np.sum(mu1 * ((1 - gamma) + gamma * mu0 / mu1) ** alpha)) + (1 - gamma) * float(
        np.sum(mu0 * (1 - gamma + gamma * (2 - mu1 / mu0)) ** alpha)
    )
    assert chain((1 - gamma) * mu1 + gamma * mu0) == pytest.approx(fourth_line, rel=1e-12)
    assert chain((1 + gamma) * mu0 - gamma * mu1) != pytest.approx(fourth_line, rel=1e-3)
    if alpha % 2 == 0:  # for odd α the second term is not convex, see the row on Jensen's inequality
        assert truth <= fourth_line


def test_zhu_and_wang_d_mixes_up_measures() -> None:
    """E₂ = E_{μ₀}[(μ/μ₀)^{α-1}] = E_{μ₀}[(μ/μ₀)^α] is printed; the first is under μ. The mixture has 1-γ, not 1-μ."""
    x, alpha, gamma = np.linspace(-15.0, 15.0, 60_001), 4.0, 0.3
    mu0 = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    mu = gamma * np.exp(-((x - 1) ** 2) / 2) / math.sqrt(2 * math.pi) + (1 - gamma) * mu0
    step = x[1] - x[0]
    right = float(np.sum(mu0 * (mu / mu0) ** alpha) * step)
    assert float(np.sum(mu * (mu / mu0) ** (alpha - 1)) * step) == pytest.approx(right, rel=1e-12)
    assert float(np.sum(mu0 * (mu / mu0) ** (alpha - 1)) * step) < 0.9 * right


def test_a_substitution_has_norm_two() -> None:
    """Balle et al. print ‖x - x'‖₁ = 1 for multisets of one size that differ in a record."""
    one, other = Counter("abc"), Counter("abd")
    assert sum(abs(one[record] - other[record]) for record in {*one, *other}) == 2


def test_wang_lemma_28_does_not_invert_to_its_second_form() -> None:
    """δ = (ξ/(e^ε-1))^α inverts to log(1 + ξδ^{-1/α}); log ξ - 1 + log(1/δ)/α is printed, and is below it."""
    xi, delta, alpha = 0.5, 1e-4, 4.0
    printed, inverse = math.log(xi) - 1 + math.log(1 / delta) / alpha, math.log1p(xi * delta ** (-1 / alpha))
    assert (xi / math.expm1(inverse)) ** alpha == pytest.approx(delta)
    assert (xi / math.expm1(printed)) ** alpha > 10 * delta
    assert pearson_vajda_epsilon(alpha * math.log(xi), order=alpha, log_delta=math.log(delta)) > printed


def test_wang_forward_differences_are_under_q_of_k_shifted() -> None:
    """(3.2): Δ^{(α)}[e^{K(·)}](0) with e^{K(t)} = E_p[(p/q)^t] is E_p[(p/q-1)^α]; under q it is that of e^{K(·-1)}."""
    p, q, alpha = np.array([0.7, 0.3]), np.array([0.4, 0.6]), 4

    def difference(shift: int) -> float:
        terms = [
            (-1) ** (alpha - i) * math.comb(alpha, i) * np.sum(p * (p / q) ** (i - shift)) for i in range(alpha + 1)
        ]
        return float(sum(terms))

    under_p, under_q = (float(np.sum(measure * (p / q - 1) ** alpha)) for measure in (p, q))
    assert difference(0) == pytest.approx(under_p, rel=1e-9)
    assert difference(1) == pytest.approx(under_q, rel=1e-9)
    assert under_p != pytest.approx(under_q, rel=0.1)


def test_wang_bounds_after_lemma_15_are_of_powers() -> None:
    """ζ(2) <= 4(e^{ε(2)} - 1) is printed; ζ(2)² is what has that bound, and what (3.7) takes."""
    p, q, r = (np.array(v) for v in ([0.5005, 0.4995], [0.4995, 0.5005], [0.5, 0.5]))
    zeta_squared = float(np.sum((p - q) ** 2 / r))
    bound = 4 * float(np.sum(p**2 / q) - 1)
    assert zeta_squared <= bound < math.sqrt(zeta_squared)


def test_wang_example_21_names_two_numbers_alike() -> None:
    """α* = 1 + σ²n/(γ(1-γ)(n-1)) and the order with γα*e^{ε(α*)} = 1, at σ = 1, γ = 0.001: 1002 and 10.3."""
    sigma, gamma, n = 1.0, 0.001, 100_001
    pole = 1 + sigma**2 * n / (gamma * (1 - gamma) * (n - 1))
    transition = float(mp.findroot(lambda a: gamma * a * mp.exp(a / (2 * sigma**2)) - 1, 9.0))
    assert round(pole) == 1002
    assert transition < 20


def test_zhu_and_wang_theorem_18_prints_no_density() -> None:
    """e^{|x|/λ}/λ is not integrable; e^{-|x|/λ}/(2λ) adds up to 1."""
    x, scale = np.linspace(-40.0, 40.0, 80_001), 1.5
    assert float(np.sum(np.exp(-np.abs(x) / scale) / (2 * scale)) * (x[1] - x[0])) == pytest.approx(1.0, rel=1e-6)


def test_asoodeh_theorem_4_at_delta_zero() -> None:
    """γ(0) = 0 for every ε, as printed: RDP of 0 means equal outputs, and nothing above 0 gives pure DP."""
    for epsilon in (0.0, 0.5, 3.0):
        for lam in (0.5, 3.0, 40.0):
            assert asoodeh_rdp_lower_bound(lam, epsilon, -math.inf) == pytest.approx(0.0, abs=1e-12)
            rare, ratio = mpf(10) ** -200, mp.exp(mpf(epsilon) + 1)  # an output of which p/q is above e^ε
            moment = rare * ratio**lam + (1 - rare) ** (lam + 1) * (1 - rare / ratio) ** -lam
            assert mp.log(moment) / lam < mpf(10) ** -100


def test_asoodeh_theorem_3_leaves_out_the_other_order() -> None:
    """RDP over d ~ d' bounds both orders. At α = 2, γ = ½, ε = 0 the minimiser has χ²(Q‖P) = 1.85 > e^γ - 1 = .649.

    The sum of the two χ² is one f-divergence: with p + q = 1 both are (1-2q)²/(q(1-q)), and no pair within both
    bounds has more than √((e^γ-1)/(e^γ+3)).
    """
    gamma = 0.5
    printed, true = math.sqrt(math.expm1(gamma) / 4), math.sqrt(math.expm1(gamma) / (math.exp(gamma) + 3))
    assert optimal_rdp(1.0, 0.0, printed) == pytest.approx(gamma, rel=1e-9)
    assert math.exp(optimal_log_delta(1.0, gamma, 0.0)) == pytest.approx(printed, rel=1e-12)
    assert math.exp(both_orders_log_delta(1.0, gamma, 0.0)) == pytest.approx(true, rel=1e-12)
    rates = np.linspace(1e-4, 0.9999, 2000)
    p, q = np.meshgrid(rates, rates)
    chi, reverse = (p - q) ** 2 / (q * (1 - q)), (p - q) ** 2 / (p * (1 - p))
    one_sided = chi <= math.expm1(gamma)
    assert float(np.max(np.where(one_sided, p - q, 0.0))) == pytest.approx(printed, abs=1e-3)
    assert printed**2 / ((0.5 + printed) * (0.5 - printed)) == pytest.approx(1.85, abs=0.005)  # of q = ½
    both = np.where(one_sided & (reverse <= math.expm1(gamma)), p - q, 0.0)
    assert true - 1e-3 <= float(np.max(both)) <= true


# Expansions without their O-terms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_variance_expansion_28_is_the_classical_one(epsilon: float) -> None:
    """σ² from (21), solved: the difference is T/(8 log 1/δ) to first order."""
    for exponent in (10, 100, 300):
        big = exponent * math.log(10)
        exact = (math.sqrt(big + epsilon) + math.sqrt(big)) ** 2 / (2 * epsilon**2)
        expansion = classical_variance_expansion(count=1, epsilon=epsilon, delta=10.0**-exponent)
        assert expansion - exact == pytest.approx(1 / (8 * big), rel=0.1 + epsilon / big, abs=1e-9 * exact)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_variance_expansion_of_theorem_5_meets_its_o_term(epsilon: float) -> None:
    """The least σ² for which Lemma 2 gives ε, by bisection: the gap is at most ε^{-2} log²(log 1/δ)/log 1/δ."""
    for exponent in (30, 100, 300):
        delta, big = 10.0**-exponent, exponent * math.log(10)
        expansion = theorem5_variance_expansion(count=1, epsilon=epsilon, delta=delta)
        low, high = 0.5 * expansion, 2 * expansion
        for _ in range(50):
            middle = (low + high) / 2
            enough = lemma2_epsilon(noise_multiplier=math.sqrt(middle), count=1, delta=delta) <= epsilon
            low, high = (low, middle) if enough else (middle, high)
        o_term = math.log(big) ** 2 / big
        assert 0 <= high - expansion <= o_term / epsilon**2
