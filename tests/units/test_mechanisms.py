"""The CGF of every mechanism against the integral that defines it, in many digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import cumulant as cm
import references
from cumulant.answer import Method
from cumulant.mechanisms.base import AbstractMechanism

ORDERS = (1.0001, 1.1, 2.0, 7.3, 128.0, 1e4)
TINY_ORDERS = (1 + 2.0**-20, 1 + 2.0**-27, 1 + 2.0**-34)  # where many releases of a noisy mechanism are best
ERROR = 1e-12


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(45):
        yield


def relative_error(value: float, reference: Any) -> float:
    return float(abs(mpf(value) / reference - 1))


def assert_cgf(mechanism: AbstractMechanism, order: float, reference: Any) -> None:
    """Check K, and RDP with it."""
    assert relative_error(mechanism.cgf(order=order), reference) <= ERROR
    assert relative_error(mechanism.rdp(order=order), reference / (mpf(order) - 1)) <= ERROR


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 20.0, 1e4])
def test_gaussian(sigma: float) -> None:
    mechanism = cm.Gaussian(noise_multiplier=sigma)
    for order in ORDERS:
        assert_cgf(mechanism, order, references.normal_cgf(mpf(order) - 1, 1, mpf(sigma) ** 2, mpf(sigma) ** 2))
    assert relative_error(mechanism.rdp(order=1), 1 / (2 * mpf(sigma) ** 2)) <= ERROR
    assert mechanism.rdp(order=math.inf) == math.inf


@pytest.mark.parametrize("scale", [1e-2, 0.5, 3.0, 1e3, 1e6])
def test_laplace(scale: float) -> None:
    mechanism = cm.Laplace(scale=scale)
    for order in ORDERS:
        assert_cgf(mechanism, order, references.laplace_cgf_by_quadrature(mpf(order) - 1, scale))


@pytest.mark.parametrize("scale", [1e-2, 0.1, 0.5, 1.0, 3.0, 1e3, 1e6])
def test_laplace_at_the_ends_of_the_orders(scale: float) -> None:
    mechanism, theta = cm.Laplace(scale=scale), 1 / mpf(scale)
    assert relative_error(mechanism.rdp(order=1), mp.expm1(-theta) + theta) <= ERROR  # E|x-1| - E|x|, over b
    assert relative_error(mechanism.rdp(order=math.inf), theta) <= ERROR
    for order in TINY_ORDERS:
        assert_cgf(mechanism, order, references.laplace_cgf(mpf(order) - 1, scale))


NEAR_ENDS = [0.5 + 1e-9, 0.5 - 1e-9, 1 - 1e-9, 1e-9]
ANYWHERE = [0.25, 0.6, 0.75, 0.88, 0.9, 0.99]


@pytest.mark.parametrize("p", NEAR_ENDS + ANYWHERE)
def test_randomized_response(p: float) -> None:
    mechanism = cm.RandomizedResponse(p=p)
    with mp.workdps(100):
        log_odds = abs(mp.log(mpf(p) / (1 - mpf(p))))
        for order in ORDERS:
            assert_cgf(mechanism, order, references.randomized_response_cgf(mpf(order) - 1, p))
        assert relative_error(mechanism.rdp(order=1), abs(2 * mpf(p) - 1) * log_odds) <= ERROR
        assert relative_error(mechanism.rdp(order=math.inf), log_odds) <= ERROR


@pytest.mark.parametrize("p", NEAR_ENDS + ANYWHERE)
def test_randomized_response_at_orders_close_to_1(p: float) -> None:
    with mp.workdps(100):
        for order in TINY_ORDERS:
            assert_cgf(cm.RandomizedResponse(p=p), order, references.randomized_response_cgf(mpf(order) - 1, p))


def test_randomized_response_at_one_half_tells_nothing() -> None:
    mechanism = cm.RandomizedResponse(p=0.5)
    assert mechanism.rdp(order=[1, 2, 100, math.inf]).tolist() == [0, 0, 0, 0]
    assert mechanism.epsilon(delta=0.0) == 0


@pytest.mark.parametrize(
    ("shift", "first", "second"), [(1.0, 4.0, 4.0), (0.5, 1.0, 1.0001), (0.0, 1.0, 1.25), (3.0, 0.01, 0.0099)]
)
def test_gaussians_of_different_variance(shift: float, first: float, second: float) -> None:
    mechanism = cm.MultivariateGaussian(shift=(shift,), covariance=((first,),), neighbor_covariance=((second,),))
    for order in (1.0001, 1.1, 2.0, 4.5, 50.0, 1e4):
        lam = mpf(order) - 1
        there, back = references.normal_cgf(lam, shift, first, second), references.normal_cgf(lam, shift, second, first)
        if mp.isinf(max(there, back)):
            assert mechanism.rdp(order=order) == math.inf
        else:
            assert_cgf(mechanism, order, max(there, back))
    v, w = mpf(first), mpf(second)
    kl = max((a / b - 1 - mp.log(a / b) + mpf(shift) ** 2 / b) / 2 for a, b in ((v, w), (w, v)))
    assert relative_error(mechanism.rdp(order=1), kl) <= ERROR


def two_dimensions(order: float, shift: tuple[float, float], first: list[float], second: list[float]) -> Any:
    """Return the larger direction; densities on independent axes multiply, so their log-moments add."""
    lam = mpf(order) - 1
    ways = ((first, second), (second, first))
    return max(
        mp.fsum(references.normal_cgf(lam, s, v, w) for s, v, w in zip(shift, a, b, strict=True)) for a, b in ways
    )


def test_gaussians_on_two_axes() -> None:
    shift, first, second = (1.0, -0.25), [4.0, 0.5], [4.5, 0.45]
    mechanism = cm.MultivariateGaussian(
        shift=shift,
        covariance=((first[0], 0.0), (0.0, first[1])),
        neighbor_covariance=((second[0], 0.0), (0.0, second[1])),
    )
    for order in (1.0001, 1.5, 3.0, 7.0, 20.0):
        reference = two_dimensions(order, shift, first, second)
        if mp.isinf(reference):
            assert mechanism.rdp(order=order) == math.inf
        else:
            assert_cgf(mechanism, order, reference)


def test_gaussians_on_turned_axes() -> None:
    """Turning both covariances and the shift by the angle of the 3-4-5 triangle changes nothing."""
    turn = np.array([[3.0, -4.0], [4.0, 3.0]])  # five times a rotation, in whole numbers
    shift, first, second = (1.0, -0.25), [4.0, 0.5], [4.5, 0.453125]  # sums of powers of two: nothing is rounded
    mechanism = cm.MultivariateGaussian(
        shift=tuple(turn @ shift),
        covariance=turn @ np.diag(first) @ turn.T,
        neighbor_covariance=turn @ np.diag(second) @ turn.T,
    )
    for order in (1.0001, 1.5, 3.0, 7.0):
        assert_cgf(mechanism, order, two_dimensions(order, shift, first, second))


def test_a_tiny_shift_is_not_no_shift() -> None:
    """N(0,1) against N(μ,1) has δ(0) = 2Φ(μ/2) - 1, about 0.4μ, however small μ is."""
    mechanism = cm.MultivariateGaussian(shift=(1e-170,), covariance=((1.0,),), neighbor_covariance=((1.0,),))
    assert mechanism.epsilon(delta=1e-300) > 0
    assert mechanism.delta(epsilon=0.0) >= 3.9e-171


@pytest.mark.parametrize("mechanism", [cm.Gaussian(noise_multiplier=1e170), cm.Gaussian(noise_multiplier=1e170) * 1])
@pytest.mark.parametrize("method", ["exact", "rdp"])
def test_enormous_noise_is_not_infinite_noise(mechanism: AbstractMechanism, method: Method) -> None:
    """δ(0) is about 0.4/σ = 4e-171 here, so ε = 0 at δ = 1e-300 is false."""
    assert mechanism.delta(epsilon=0.0, method=method) >= 3.9e-171
    assert mechanism.epsilon(delta=1e-300, method=method) > 0


@pytest.mark.parametrize("mechanism", [cm.Gaussian(noise_multiplier=1e-170), cm.Gaussian(noise_multiplier=1e-170) * 2])
@pytest.mark.parametrize("method", ["exact", "rdp"])
def test_hardly_any_noise_is_answered(mechanism: AbstractMechanism, method: Method) -> None:
    assert mechanism.epsilon(delta=1e-3, method=method) == math.inf  # above the largest float
    assert mechanism.delta(epsilon=1.0, method=method) == 1.0


# Guarantees that are known as such -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "xi"), [(0.5, 0.0), (1e-6, 0.25), (3.0, 1e-3)])
def test_zcdp(rho: float, xi: float) -> None:
    mechanism = cm.ZCDP(rho=rho, xi=xi)
    for order in ORDERS:
        assert_cgf(mechanism, order, (mpf(order) - 1) * (mpf(xi) + mpf(rho) * mpf(order)))
    assert mechanism.rdp(order=1) == pytest.approx(xi + rho, rel=ERROR)
    assert mechanism.rdp(order=math.inf) == math.inf
    assert cm.ZCDP(rho=0.0, xi=xi).rdp(order=math.inf) == xi


def test_truncated_cdp() -> None:
    mechanism = cm.TruncatedCDP(rho=0.5, omega=10.0)
    for order in (1.0001, 2.0, 9.999, 10.0):
        assert_cgf(mechanism, order, (mpf(order) - 1) * mpf(order) / 2)
    assert mechanism.rdp(order=[1, 10.001, math.inf]).tolist() == [0.5, math.inf, math.inf]


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 2.0, 2.5, 20.0, 500.0])
def test_pure_dp_is_the_two_point_loss(epsilon: float) -> None:
    """Randomized response of the same ε is the worst of them (Kairouz, Oh and Viswanath 2017)."""
    mechanism = cm.PureDP(epsilon=epsilon)
    with mp.workdps(300):
        p = 1 / (1 + mp.exp(-mpf(epsilon)))
        for order in (*TINY_ORDERS, *ORDERS):
            assert_cgf(mechanism, order, references.randomized_response_cgf(mpf(order) - 1, p))
    assert mechanism.rdp(order=math.inf) == epsilon


def profile_of_approximate_dp(epsilon: Any, delta: Any, at: Any) -> Any:
    """Return Σ (P - e^at Q)_+ over the four outcomes of Kairouz, Oh and Viswanath's pair."""
    e = mp.exp(mpf(epsilon))
    p = [mpf(delta), (1 - mpf(delta)) * e / (1 + e), (1 - mpf(delta)) / (1 + e), mpf(0)]
    return mp.fsum(max(mpf(0), a - mp.exp(mpf(at)) * b) for a, b in zip(p, reversed(p), strict=True))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.0, 0.1), (3.0, 0.5), (0.2, 0.0)])
def test_approximate_dp(epsilon: float, delta: float) -> None:
    mechanism = cm.ApproximateDP(epsilon=epsilon, delta=delta)
    if delta > 0:
        assert mechanism.rdp(order=[1, 1.5, 2, math.inf]).tolist() == [math.inf] * 4
    assert mechanism.epsilon(delta=delta) == epsilon
    for at in (0.0, 0.1, epsilon / 2, epsilon, epsilon + 1):
        assert mechanism.delta(epsilon=at) >= profile_of_approximate_dp(epsilon, delta, at)
    assert mechanism.delta(epsilon=epsilon + 1) == pytest.approx(delta, rel=1e-14)


def test_approximate_dp_below_its_failure_has_no_epsilon() -> None:
    assert cm.ApproximateDP(epsilon=1.0, delta=1e-6).epsilon(delta=0.999e-6) == math.inf
    assert cm.ApproximateDP(epsilon=1.0, delta=1.0).epsilon(delta=0.999) == math.inf


@pytest.mark.slow
def test_just_below_its_loss_approximate_dp_has_more_than_its_failure() -> None:
    random = np.random.default_rng(7)
    for _ in range(200):
        epsilon, delta = float(10 ** random.uniform(-6, 1.5)), float(10 ** random.uniform(-300, -0.3))
        mechanism = cm.ApproximateDP(epsilon=epsilon, delta=delta)
        for method in ("best", "exact", "rdp"):
            assert mechanism.delta(epsilon=epsilon, method=method) == delta
            for at in (math.nextafter(epsilon, 0.0), epsilon * (1 - 2.0 ** -random.integers(1, 50))):
                with mp.workdps(340):
                    truth = profile_of_approximate_dp(epsilon, delta, at)
                assert mechanism.delta(epsilon=at, method=method) >= truth


def test_failures_compose() -> None:
    """Two releases fail unless neither does."""
    both = cm.ApproximateDP(epsilon=1.0, delta=1e-3) + cm.ApproximateDP(epsilon=0.5, delta=2e-3)
    failure = 1 - (1 - mpf(1e-3)) * (1 - mpf(2e-3))
    assert both.delta(epsilon=1.5) >= failure
    assert relative_error(both.delta(epsilon=1.5), failure) <= 1e-14
    assert (cm.ApproximateDP(epsilon=0.0, delta=1e-9) * 10**6).delta(epsilon=0.0) >= 1 - (1 - mpf(1e-9)) ** 10**6


# Exponential families: D_α = (A(αη - λη') - αA(η) + λA(η'))/λ --------------------------------------------------------


def divergence(log_partition: Callable[[Any], Any], order: float, eta: float, other: float) -> Any:
    alpha, eta, other = mpf(order), mpf(eta), mpf(other)
    a = log_partition
    return (a(alpha * eta + (1 - alpha) * other) - alpha * a(eta) - (1 - alpha) * a(other)) / (alpha - 1)


def logistic(eta: Any) -> Any:
    return mp.log1p(mp.exp(eta))


def test_the_divergence_formula_by_a_sum() -> None:
    """Poisson means e^0.3 and e^-0.1, added up over the counts."""
    first, second, order = mp.exp(mpf("0.3")), mp.exp(mpf("-0.1")), mpf("2.5")

    def mass(mean: Any, n: int) -> Any:
        return mp.exp(-mean) * mean**n / mp.factorial(n)

    total = mp.fsum(mass(first, n) ** order * mass(second, n) ** (1 - order) for n in range(120))
    assert abs(divergence(mp.exp, 2.5, mpf("0.3"), mpf("-0.1")) - mp.log(total) / (order - 1)) < 1e-40


@pytest.mark.parametrize("distance", [0.01, 0.5, 3.0])
@pytest.mark.parametrize(("smoothness", "lipschitz"), [(0.25, 1.0), (0.25, math.inf), (math.inf, 1.0)])
def test_bernoulli_family(distance: float, smoothness: float, lipschitz: float) -> None:
    """A = log(1 + e^η) has A'' <= 1/4 and 0 < A' < 1."""
    family = cm.ExponentialFamily(distance=distance, smoothness=smoothness, lipschitz=lipschitz)
    for order in (1.0001, 1.5, 2.0, 10.0, 300.0):
        for eta in (-8.0, -2.0, -0.5, 0.0, 0.7, 3.0, 9.0):
            for other in (eta - distance, eta + distance, eta + distance / 3):
                assert family.rdp(order=order) >= divergence(logistic, order, eta, other)


@pytest.mark.parametrize("distance", [0.01, 0.3, 1.0])
def test_poisson_family(distance: float) -> None:
    """A = e^η with η <= 1: L(κ) = e^{1+κ}, and B(κ) = e(e^κ - 1)/κ, the steepest chord up to κ."""
    top = 1.0
    family = cm.ExponentialFamily(
        distance=distance,
        smoothness=lambda kappa: math.exp(top + kappa),
        lipschitz=lambda kappa: math.exp(top) * (math.expm1(kappa) / kappa if kappa else 1.0),
        radius=20.0,
    )
    for order in (1.0001, 1.5, 2.0, 5.0, 20.0 / distance):
        for eta in (-3.0, 0.0, top - distance, top):
            for other in (eta - distance, min(top, eta + distance)):
                assert family.rdp(order=order) >= divergence(mp.exp, order, eta, other)
    assert family.rdp(order=20.0 / distance + 1.01) == math.inf


def test_gaussian_family_is_attained() -> None:
    """A = η²σ²/2 with η = x/σ²: L = σ² and Δ = 1/σ² give the Gaussian mechanism."""
    family = cm.ExponentialFamily(distance=0.25, smoothness=4.0)
    np.testing.assert_allclose(
        family.rdp(order=ORDERS), cm.Gaussian(noise_multiplier=2.0).rdp(order=ORDERS), rtol=ERROR
    )


@pytest.mark.parametrize(
    ("smoothness", "lipschitz", "radius"), [(1.0, 1.5, 40.0), (1.0, 0.3, 40.0), (1.0, 100.0, 40.0), (0.1, 0.2, 9.0)]
)
def test_constant_moduli_are_projected(smoothness: float, lipschitz: float, radius: float) -> None:
    """Against the lower hull of min{cλ(λ+1), sλ} on a fine grid."""
    from scipy.spatial import ConvexHull

    family = cm.ExponentialFamily(distance=1.0, smoothness=smoothness, lipschitz=lipschitz, radius=radius)
    lam = np.linspace(0, radius, 20001)
    k = np.minimum(smoothness / 2 * lam * (lam + 1), 2 * lipschitz * lam)
    hull = ConvexHull(np.column_stack([np.append(lam, radius), np.append(k, k[-1] + 1e6)])).vertices
    knots = np.sort(hull[hull <= 20000])
    lower = np.interp(lam, lam[knots], k[knots])
    computed = family.cgf(order=1 + lam[1:])
    assert (computed <= k[1:] * (1 + ERROR)).all()
    np.testing.assert_allclose(computed, lower[1:], rtol=1e-6)  # the grid's own chords are this far from the curve


def test_constant_moduli_without_end() -> None:
    """The hull of a parabola and a line that never meets it again: the parabola, then the slope of the line."""
    family = cm.ExponentialFamily(distance=1.0, smoothness=1.0, lipschitz=2.5)
    assert family.rdp(order=math.inf) == 5.0
    lam = 4.5  # where the parabola λ(λ+1)/2 has slope 5
    assert family.cgf(order=1 + lam) == pytest.approx(lam * (lam + 1) / 2, rel=ERROR)
    assert family.cgf(order=1e4) == pytest.approx(lam * (lam + 1) / 2 + 5 * (9999 - lam), rel=ERROR)


def test_lipschitz_alone_is_pure_dp() -> None:
    family = cm.ExponentialFamily(distance=0.5, lipschitz=2.0)
    assert family.rdp(order=[1, 1.5, 100, math.inf]).tolist() == [2.0] * 4
    assert family.epsilon(delta=0.0) == 2.0
