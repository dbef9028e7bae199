"""From Rényi DP to (ε, δ): one order, all orders, and the exact Gaussian, against many digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import cumulant as cm
import references
from cumulant.curves.both_orders import (
    both_orders_epsilon,
    both_orders_log_delta,
    largest_log_odds,
    last_epsilon,
    order_one_epsilon,
    order_one_log_delta,
)
from cumulant.curves.conversion import (
    asoodeh_closed_form_epsilon,
    asoodeh_rdp_lower_bound,
    canonne_kamath_steinke_epsilon,
    canonne_kamath_steinke_log_delta,
    mironov_epsilon,
    mironov_log_delta,
    optimal_epsilon,
    optimal_log_delta,
    optimal_rdp,
)
from cumulant.mechanisms.base import AbstractMechanism
from stored import stored
from strategies import log_uniform

BELOW, ABOVE = 1e-13, 1e-9  # how far a computed bound may be under and over the optimum, relatively
DELTAS = (0.5, 1e-2, 1e-5, 1e-12, 1e-50, 1e-300)
LAMBDAS = (1e-3, 0.1, 1.0, 7.5, 300.0, 1e6, 1e9)

lambdas = log_uniform(1e-3, 1e9)
rdps = log_uniform(1e-9, 1e3)
log_deltas = st.one_of(st.floats(-690.0, -0.1), st.floats(-20.0, -0.1))


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


# One order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lam", "epsilon", "delta"), [(10, 0.9, 1e-5), (0.5, 0.1, 0.01), (1e3, 2.0, 1e-9), (2, 0, 0.1)]
)
def test_the_reference_solves_theorem_3(lam: float, epsilon: float, delta: float) -> None:
    """The parametrised reference against the printed minimisation over p."""
    k = lam * references.theorem_3_rdp(lam, epsilon, delta)
    assert abs(references.optimal_epsilon(lam, k, mp.log(mpf(delta))) - epsilon) < mpf(10) ** -25
    assert optimal_rdp(lam, epsilon, delta) == pytest.approx(float(k / lam), rel=1e-9, abs=1e-15)


def check_epsilon(lam: float, k: float, log_delta: float) -> None:
    truth = references.optimal_epsilon(lam, k, log_delta)
    computed = max(0.0, optimal_epsilon(lam, k, log_delta))
    assert computed >= truth * (1 - BELOW), "unsound"
    assert computed <= truth * (1 + ABOVE) + 1e-15, "loose"


@pytest.mark.parametrize("delta", [0.9, *DELTAS])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_optimal_epsilon(lam: float, delta: float) -> None:
    for rdp in (1e-6, 0.1, 20.0):
        check_epsilon(lam, lam * rdp, math.log(delta))


@given(lambdas, rdps, log_deltas)
@settings(deadline=None, max_examples=60)
def test_optimal_epsilon_anywhere(lam: float, rdp: float, log_delta: float) -> None:
    check_epsilon(lam, lam * rdp, log_delta)


def check_log_delta(lam: float, k: float, epsilon: float) -> None:
    """At the claimed δ the mechanism needs at most ε; at a slightly smaller one it needs more."""
    log_delta = optimal_log_delta(lam, k, epsilon)
    assert log_delta <= 0
    if -1e4 < log_delta < 0:
        slack = BELOW * (1 + abs(log_delta))
        assert references.optimal_epsilon(lam, k, min(log_delta + slack, -1e-300)) <= epsilon, "unsound"
        # λε and K are rounded before they are subtracted, so their last digits are lost to log δ.
        slack = ABOVE * (1 + abs(log_delta)) + 1e-13 * (lam * epsilon + k)
        if epsilon > 0:
            assert references.optimal_epsilon(lam, k, log_delta - slack) >= epsilon, "loose"


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1, 3.0, 50.0])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_optimal_log_delta(lam: float, epsilon: float) -> None:
    for rdp in (1e-6, 0.1, 20.0):
        check_log_delta(lam, lam * rdp, epsilon)


@pytest.mark.slow
@given(lambdas, rdps, log_uniform(1e-6, 1e3))
@settings(deadline=None, max_examples=60)
def test_optimal_log_delta_anywhere(lam: float, rdp: float, epsilon: float) -> None:
    check_log_delta(lam, lam * rdp, epsilon)


@pytest.mark.parametrize("log_delta", [-1e6, -690.0, -11.5, -0.7, -1e-9])
@pytest.mark.parametrize("rdp", [1e-12, 1e-5, 0.1, 1e3])
def test_every_order_a_search_can_reach_is_answered(rdp: float, log_delta: float) -> None:
    """From 2^-120 to 2^120; a NaN would win every comparison that a minimiser makes."""
    for octave in range(-120, 121):
        lam = 2.0**octave
        assert not math.isnan(optimal_epsilon(lam, lam * rdp, log_delta))
        assert not math.isnan(optimal_log_delta(lam, lam * rdp, rdp / 2))


@given(lambdas, rdps, log_deltas)
@settings(deadline=None)
def test_conversions_from_weakest_to_best(lam: float, rdp: float, log_delta: float) -> None:
    k = lam * rdp
    weakest_first = [
        max(0.0, conversion(lam, k, log_delta))
        for conversion in (
            mironov_epsilon,
            canonne_kamath_steinke_epsilon,
            asoodeh_closed_form_epsilon,
            optimal_epsilon,
        )
    ]
    for weaker, better in pairwise(weakest_first):
        assert better <= weaker * (1 + 1e-12) + 1e-13 / lam


@given(lambdas, rdps, st.floats(0.0, 100.0))
@settings(deadline=None)
def test_log_deltas_from_weakest_to_best(lam: float, rdp: float, epsilon: float) -> None:
    k = lam * rdp
    mironov, classical = mironov_log_delta(lam, k, epsilon), canonne_kamath_steinke_log_delta(lam, k, epsilon)
    slack = 1e-12 * (1 + lam * epsilon + k)
    assert classical <= mironov + slack
    assert optimal_log_delta(lam, k, epsilon) <= min(0.0, classical) + slack


@given(log_uniform(1e-2, 1e3), rdps, log_deltas)
@settings(deadline=None)
def test_classical_conversions_by_their_formulas(lam: float, rdp: float, log_delta: float) -> None:
    k, alpha = mpf(lam * rdp), mpf(lam) + 1
    zeta = (1 - 1 / alpha) ** mpf(lam) / alpha
    assert mironov_epsilon(lam, lam * rdp, log_delta) == pytest.approx(float((k - log_delta) / lam), rel=1e-12)
    # the three terms may cancel, so the error is relative to the largest
    size = float(k - log_delta) / lam
    classical = float((k - log_delta + mp.log(zeta)) / lam)
    assert canonne_kamath_steinke_epsilon(lam, lam * rdp, log_delta) == pytest.approx(
        classical, rel=0, abs=1e-14 * size
    )


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("lam", [0.1, 1.0, 7.5, 90.0])
def test_theorem_4_is_below_theorem_3(lam: float, epsilon: float, delta: float) -> None:
    """And is the threshold itself where αδ >= 1."""
    bound = asoodeh_rdp_lower_bound(lam, epsilon, math.log(delta))
    assert bound <= references.theorem_3_rdp(lam, epsilon, delta) + mpf(10) ** -13
    assert asoodeh_rdp_lower_bound(9.0, epsilon, math.log(0.2)) == pytest.approx(epsilon - math.log(0.8), rel=1e-13)


def test_remark_1_of_asoodeh_et_al() -> None:
    """(0, δ)-DP follows where δ is between ζ_α e^{λγ} and 1/α; Mironov's conversion never gives ε = 0."""
    lam, gamma = 9.0, 0.01
    zeta = 0.9**9 / 10
    assert optimal_epsilon(lam, lam * gamma, math.log(zeta * math.exp(lam * gamma))) <= 1e-12


# All orders -----------------------------------------------------------------------------------------------------------

G, L, R = references.gaussian_cgf, references.laplace_cgf, references.randomized_response_cgf
Mix = tuple[AbstractMechanism, Callable[[Any], Any]]

MIXES: dict[str, Mix] = {
    "thousand Gaussians": (cm.Gaussian(noise_multiplier=20.0) * 1000, lambda x: 1000 * G(x, 20)),
    "Laplace": (cm.Laplace(scale=2.0) * 30, lambda x: 30 * L(x, 2)),
    "randomized response": (cm.RandomizedResponse(p=0.75) * 20, lambda x: 20 * R(x, mpf(0.75))),
    "certain response": (cm.RandomizedResponse(p=0.99) * 10**6, lambda x: 10**6 * R(x, mpf(0.99))),
    "mixed": (
        cm.Gaussian(noise_multiplier=5.0) * 10 + cm.Laplace(scale=4.0) * 7 + cm.RandomizedResponse(p=0.6) * 5,
        lambda x: 10 * G(x, 5) + 7 * L(x, 4) + 5 * R(x, mpf(0.6)),
    ),
}


@stored
def best_of_mix(name: str, delta: float) -> Any:
    with mp.workdps(60):
        return references.best_epsilon(MIXES[name][1], mp.log(mpf(delta)))


@stored
def best_of_gaussians(count: int, sigma: int, delta: float) -> Any:
    with mp.workdps(60):
        return references.best_epsilon(lambda x: count * G(x, sigma), mp.log(mpf(delta)))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", MIXES)
def test_best_real_order(name: str, delta: float) -> None:
    """ε of method="rdp" against a minimisation of Theorem 3 over the real orders; and δ at that ε."""
    run, truth = MIXES[name][0], best_of_mix(name, delta)
    computed = run.epsilon(delta=delta, method="rdp")
    assert computed >= truth * (1 - mpf(10) ** -14), "unsound"  # the reference is this good
    pure = run.rdp(order=math.inf)
    assert computed <= min(truth, pure) * (1 + ABOVE) + 1e-15, "loose"
    if 0 < truth * (1 + mpf(10) ** -14) < pure:
        order = run.guarantee(delta=delta, method="rdp").order or 1.0
        slope = min(order, 1e15) * float(truth)  # of log δ against log ε, at most
        assert run.log_delta(epsilon=float(truth * (1 + mpf(10) ** -15)), method="rdp") == pytest.approx(
            math.log(delta), rel=0, abs=ABOVE * (1 + slope) + 1e-12 * abs(math.log(delta))
        )


@pytest.mark.parametrize("scale", [2.0, 1e3, 15562.0, 1e5, 1e6])
@pytest.mark.parametrize("log_delta", [-740.0, -690.0, -100.0])
def test_faint_laplace_at_tiny_delta(scale: float, log_delta: float) -> None:
    """δ(ε) of one Laplace release is 1 - e^{(ε-θ)/2} for ε <= θ, so ε = θ + 2 log(1-δ) is needed; θ always does."""
    epsilon = cm.Laplace(scale=scale).epsilon(log_delta=log_delta)
    needed = 1 / mpf(scale) + 2 * mp.log1p(-mp.exp(mpf(log_delta)))
    assert needed <= epsilon <= (1 + 1e-12) / scale


@pytest.mark.parametrize("count", [1, 10, 100])
@pytest.mark.parametrize("scale", [3.0, 0.1, 7.0, 1e5])
def test_pure_dp_is_rounded_up(scale: float, count: int) -> None:
    """δ = 0: count/scale in exact arithmetic; 1/3 as a float is below 1/3."""
    assert mpf((cm.Laplace(scale=scale) * count).epsilon(delta=0.0)) >= count / mpf(scale)


# Both orders of the neighbours ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lam", "rdp"), [(1.0, 0.5), (0.25, 0.02), (7.0, 1.0), (1.0, 3.0), (40.0, 0.3)])
def test_the_optimum_of_both_orders_by_a_search_of_pairs(lam: float, rdp: float) -> None:
    last = float(f"{last_epsilon(lam, largest_log_odds(lam, lam * rdp)):.6g}")
    for epsilon in (0.0, 0.5 * last, 0.99 * last, 1.02 * last, 2 * last):
        truth = stored(references.both_orders_delta)(lam, lam * rdp, epsilon)
        computed = math.exp(both_orders_log_delta(lam, lam * rdp, epsilon))
        assert computed >= truth * (1 - mpf(10) ** -14), "unsound"
        assert computed <= truth * (1 + 1e-9), "loose"
        back = both_orders_epsilon(lam, lam * rdp, math.log(computed))
        assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-12)
        if epsilon < 0.95 * last:
            assert computed < 0.9999 * math.exp(optimal_log_delta(lam, lam * rdp, epsilon)) or last < 0.01


@given(log_uniform(2.0**-10, 1e6), st.floats(-30.0, 30.0), st.floats(-30.0, 30.0), st.floats(0.0, 5.0), st.booleans())
@settings(deadline=None, max_examples=300)
def test_no_pair_of_bits_has_more_than_both_orders_allow(
    lam: float, one: float, other: float, epsilon: float, is_reflected: bool
) -> None:
    """γ is the larger divergence of a drawn pair; what the pair itself attains is at most what γ allows."""
    p = 1 / (1 + mp.exp(-mpf(one)))
    q = 1 - p if is_reflected else 1 / (1 + mp.exp(-mpf(other)))
    p, q = max(p, q), min(p, q)
    alpha = 1 + mpf(lam)
    k = max(
        mp.log(a**alpha * b ** (1 - alpha) + (1 - a) ** alpha * (1 - b) ** (1 - alpha)) for a, b in ((p, q), (q, p))
    )
    kl = max(a * mp.log(a / b) + (1 - a) * mp.log((1 - a) / (1 - b)) for a, b in ((p, q), (q, p)))
    attained = p - mp.exp(mpf(epsilon)) * q
    if attained <= 0 or k < 1e-12:
        return
    above, kl_above = float(k) * (1 + 2e-16), float(kl) * (1 + 2e-16)
    assert mp.exp(mpf(both_orders_log_delta(lam, above, epsilon))) >= attained
    assert mp.exp(mpf(order_one_log_delta(kl_above, epsilon))) >= attained
    log_delta = float(mp.log(attained)) * (1 + 4e-16)
    needed = mp.log((p - mp.exp(mpf(log_delta))) / q)
    assert both_orders_epsilon(lam, above, log_delta) >= needed
    assert order_one_epsilon(kl_above, log_delta) >= needed


ZCDP_BOTH_ORDERS = {
    (0.01, 0.0): "0.0706517476624162998",
    (0.01, 0.1): "0.0326665796973615082",
    (0.1, 0.0): "0.2217419170003132731",
    (0.1, 0.5): "0.0676737082379332489",
    (0.5, 0.0): "0.4790984231166210564",
    (0.5, 0.1): "0.4517065745826823016",
    (0.5, 0.5): "0.3377396093709242838",
    (2.0, 0.0): "0.8335565596009646984",
    (2.0, 0.5): "0.7795688595232830859",
}
"""δ of ρ-zCDP at ε, a supremum over pairs of bits with D_α <= ρα at every order in both orders of the neighbours."""


@pytest.mark.parametrize(("rho", "epsilon"), ZCDP_BOTH_ORDERS)
def test_zcdp_uses_both_orders(rho: float, epsilon: float) -> None:
    truth = mpf(ZCDP_BOTH_ORDERS[rho, epsilon])
    mechanism = cm.ZCDP(rho=rho)
    for delta in (mechanism.delta(epsilon=epsilon), float(mechanism.delta(epsilon=[epsilon, 9.0])[0])):
        assert truth <= delta <= truth * (1 + mpf(10) ** -9)
    assert mechanism.epsilon(delta=float(truth)) == pytest.approx(epsilon, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("rho", [0.01, 0.1, 0.5, 2.0])
def test_the_advantage_of_a_curve_is_the_kink_of_its_own_tradeoff(rho: float) -> None:
    """The trade-off f has its kink, where 1 - x - f(x) is largest, at x = (1 - advantage)/2."""
    mechanism = cm.ZCDP(rho=rho)
    advantage = mechanism.advantage()
    x = (1 - advantage) / 2
    assert 1 - x - mechanism.tradeoff(false_positive_rate=x) == pytest.approx(advantage, rel=1e-7)
    for rate in (0.9 * x, 1.1 * x):
        assert 1 - rate - mechanism.tradeoff(false_positive_rate=rate) <= advantage


def test_every_way_to_ask_a_curve_uses_both_orders() -> None:
    """δ(0) = √((e^γ-1)/(e^γ+3)) at α = 2; pure DP at order ∞ is randomized response; samples and sums ask alike."""
    curve, truth = cm.RenyiCurve([(2.0, 0.5)]), math.sqrt(math.expm1(0.5) / (math.exp(0.5) + 3))
    assert curve.delta(epsilon=0.0) == pytest.approx(truth, rel=1e-12)
    assert curve.advantage() == pytest.approx(truth, rel=1e-12)
    assert (cm.RenyiCurve([(2.0, 0.25)]) * 2).advantage() == pytest.approx(truth, rel=1e-12)
    assert curve.epsilon(delta=truth * (1 + 1e-9)) <= 1e-8
    found = cm.calibrate(lambda sigma: cm.ZCDP(rho=0.5 / sigma**2), advantage=0.4)
    assert cm.ZCDP(rho=0.5 / found**2).advantage() <= 0.4 < cm.ZCDP(rho=0.5 / (found * (1 - 1e-6)) ** 2).advantage()
    assert cm.RenyiCurve([(math.inf, 1.0)]).advantage() == pytest.approx(math.tanh(0.5), rel=1e-12)
    sample = curve.poisson(rate=0.5)
    assert sample.advantage() < math.exp(optimal_log_delta(1.0, float(sample.cgf(order=2)), 0.0))


def test_a_valley_next_to_an_order_of_the_table_is_found() -> None:
    """Between orders far apart the chord makes a valley at the upper one, narrower than what a search looks at."""
    orders = [(2.0, 0.1), (64.0, 2.0)]
    curve = cm.RenyiCurve(orders)
    for epsilon in (1.5, 1.9, 2.0, 2.2, 3.0):
        alone = [both_orders_log_delta(order - 1, (order - 1) * rdp * (1 + 2e-13), epsilon) for order, rdp in orders]
        assert curve.log_delta(epsilon=epsilon) <= min(alone) + 1e-12
    assert curve.epsilon(delta=1e-3) <= both_orders_epsilon(63.0, 126.0, math.log(1e-3)) * (1 + 1e-11)


# The exact Gaussian ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.9, *DELTAS])
@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 0.499, 0.501, 2.0, 30.0, 1e3])
def test_exact_gaussian_epsilon(mu: float, delta: float) -> None:
    """δ falls in ε: at the answer it is within δ, and a relative 1e-11 below the answer it is not."""
    sigma = 1 / mu
    mean, log_delta = 1 / mpf(sigma), mp.log(mpf(delta))
    epsilon = cm.Gaussian(noise_multiplier=sigma).epsilon(delta=delta, method="exact")
    if epsilon == 0:
        assert references.gaussian_log_delta(mean, 0) <= log_delta
    else:
        with mp.workdps(100):
            assert references.gaussian_log_delta(mean, epsilon) <= log_delta
            assert references.gaussian_log_delta(mean, mpf(epsilon) * (1 - mpf(10) ** -11)) >= log_delta


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.01, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 0.499, 0.501, 2.0, 30.0, 1e3])
def test_exact_gaussian_delta(mu: float, epsilon: float) -> None:
    mean = 1 / mpf(1 / mu)
    log_delta = cm.Gaussian(noise_multiplier=1 / mu).log_delta(epsilon=epsilon, method="exact")
    with mp.workdps(100):
        if epsilon / mu < 1e6:  # beyond, log δ is below -1e11
            truth = references.gaussian_log_delta(mean, epsilon)
            assert log_delta >= truth
            assert log_delta <= truth + 1e-11 * (1 + abs(truth))


@pytest.mark.parametrize("count", [1, 10, 100, 316, 1000])
def test_the_papers_gaussian(count: int) -> None:
    """σ = 20 and δ = 1e-5 (Asoodeh et al. 2020, Section IV): exact <= optimal, each against its reference."""
    run = cm.Gaussian(noise_multiplier=20.0) * count
    exact, rdp = run.epsilon(delta=1e-5, method="exact"), run.epsilon(delta=1e-5, method="rdp")
    mu, log_delta = mp.sqrt(count) / 20, mp.log(mpf(1e-5))
    assert references.gaussian_log_delta(mu, exact) <= log_delta
    assert references.gaussian_log_delta(mu, mpf(exact) * (1 - mpf(10) ** -11)) >= log_delta
    truth = best_of_gaussians(count, 20, 1e-5)
    assert exact <= truth <= rdp <= truth * (1 + ABOVE)


@pytest.mark.parametrize("mean", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [0.9, *DELTAS])
def test_rdp_is_never_below_the_exact_gaussian(mean: float, delta: float) -> None:
    run = cm.Gaussian(noise_multiplier=1 / mean)
    epsilon = run.epsilon(delta=delta, method="rdp")
    with mp.workdps(200):
        assert references.gaussian_log_delta(1 / mpf(1 / mean), epsilon) <= mp.log(mpf(delta))
