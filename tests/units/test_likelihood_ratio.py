"""Moments of sampled pairs at real orders, against integrals and sums in many digits."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import cumulant as cm
from renyi_reference import (
    LikelihoodRatio,
    binary_ratio,
    gaussian_ratio,
    laplace_ratio,
    moment_of_envelope,
    moment_of_mixture,
)
from stored import stored

Real = Any  # an mpf; mpmath carries no types
RELATIVE = 1e-8  # what an RDP may be off by here; the library promises far less, and never downwards
ROUNDING = 1e-14  # how far below a reference of forty digits an upper bound may be printed


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(70):
        yield


def excess(ratio: Real, beta: Real) -> Real:
    """Return w^β - 1 - β(w-1), whose mean is that of w^β, less 1, wherever w has mean 1."""
    return ratio**beta - 1 - beta * (ratio - 1)


def close_above(value: float, reference: Real) -> bool:
    """Whether a bound is at or above the reference, and close to it."""
    return bool(reference * (1 - mpf(ROUNDING)) <= value <= reference * (1 + mpf(RELATIVE)))


# The trapezoidal rule on the line: its error falls like e^(-2πd/h) for integrands analytic within d of the line -----


def on_the_line(
    exponent: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], step: float, high: float, low: float = 0.0
) -> list[Real]:
    """Return the nodes hk where φ times the growth is within e^-150 of its peak, by plain floats."""
    k = np.arange(math.floor((low - 20) / step), math.ceil((high + 20) / step))
    values = np.maximum(exponent(k * step), 0.0) - (k * step) ** 2 / 2
    return [mpf(int(j)) * mpf(step) for j in k[values > values.max() - 150]]


def normal_mean(function: Callable[[Real], Real], nodes: list[Real], step: float) -> Real:
    """Return the mean of a function of a standard normal variable."""
    return mpf(step) * mp.fsum(mp.exp(-t * t / 2) * function(t) for t in nodes) / mp.sqrt(2 * mp.pi)


def sampled_gaussian_moment(order: float, rate: float, sigma: float) -> Real:
    """Return A - 1 of (1-γ)N(0,σ²) + γN(1,σ²) against N(0,σ²)."""
    mu, gamma, alpha = 1 / mpf(sigma), mpf(rate), mpf(order)
    step = 2 * math.pi * min(0.9 * math.pi * sigma, 3.0) / 110  # w vanishes πσ off the line
    nodes = on_the_line(
        lambda t: order * np.logaddexp(math.log1p(-rate), math.log(rate) + t / sigma - 0.5 / sigma**2),
        step,
        max(order, 2.0) / sigma,
    )
    return normal_mean(lambda t: excess(1 - gamma + gamma * mp.exp(mu * t - mu * mu / 2), alpha), nodes, step)


def replaced_gaussian_moment(order: float, rate: float, sigma: float) -> Real:
    """Return E_q[(p/q)^α] - 1 of p = (1-γ)N(0) + γN(1) and q = (1-γ)N(0) + γN(-1)."""
    mu, gamma, alpha = 1 / mpf(sigma), mpf(rate), mpf(order)
    # q is in the denominator: |q(x+iy)| >= q(x) cos(y/2σ), so d = πσ/2 loses 2^(α/2) at most
    step = math.pi * min(math.pi * sigma / 2, 3.0) * 2 / (110 + 0.4 * order)

    def density(t: Real) -> Real:
        return 1 - gamma + gamma * mp.exp(mu * t - mu * mu / 2)

    def growth(t: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        up, down = (np.logaddexp(math.log1p(-rate), math.log(rate) + s * t / sigma - 0.5 / sigma**2) for s in (1, -1))
        return np.asarray(order * up + (1 - order) * down)

    nodes = on_the_line(growth, step, 2 * max(order, 2.0) / sigma)
    return normal_mean(lambda t: density(-t) * excess(density(t) / density(-t), alpha), nodes, step)


def binomial_moment(order: int, rate: float, moment: Callable[[int], Real]) -> Real:
    """Return Σ_l C(α,l)(1-γ)^(α-l)γ^l E_Q[r^l] - 1."""
    gamma = mpf(rate)
    terms = (
        mp.binomial(order, j) * gamma**j * (1 - gamma) ** (order - j) * (moment(j) - 1) for j in range(2, order + 1)
    )
    return mp.fsum(terms)


def rdp_of(moment_less_one: Real, order: float) -> Real:
    return mp.log1p(moment_less_one) / (mpf(order) - 1)


# Gaussian -------------------------------------------------------------------------------------------------------------


def random_points() -> list[tuple[float, float, float]]:
    generator = np.random.default_rng(20190612)
    return [
        (
            1 + float(np.exp(generator.uniform(math.log(0.01), math.log(999)))),
            float(1 / (1 + np.exp(generator.uniform(math.log(1e-3), math.log(1e7))))),
            float(np.exp(generator.uniform(math.log(0.1), math.log(100)))),
        )
        for _ in range(24)
    ]


CORNERS = [
    (order, rate, sigma) for order in (1.01, 1.5, 2.0, 63.5) for rate in (1e-7, 0.5, 0.999) for sigma in (0.1, 100.0)
]


@pytest.mark.parametrize(("order", "rate", "sigma"), [*random_points(), *CORNERS, (1000.0, 1e-7, 1.0), (1e3, 0.3, 20)])
def test_poisson_gaussian_at_real_orders(order: float, rate: float, sigma: float) -> None:
    reference = rdp_of(sampled_gaussian_moment(order, rate, sigma), order)
    value = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate).rdp(order=order)
    assert close_above(value, reference), (value, mp.nstr(reference, 17))


@pytest.mark.parametrize("order", [2, 3, 17, 200, 1000])
@pytest.mark.parametrize(("rate", "sigma"), [(1e-7, 0.1), (1e-7, 100.0), (0.01, 1.0), (0.3, 5.0), (0.999, 0.4)])
def test_poisson_gaussian_at_integer_orders(order: int, rate: float, sigma: float) -> None:
    reference = binomial_moment(order, rate, lambda j: mp.exp(mpf(j) * (j - 1) / (2 * mpf(sigma) ** 2)))
    value = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate).rdp(order=order)
    assert close_above(value, rdp_of(reference, order))


def test_a_moment_of_one_plus_1e_20() -> None:
    """Where A itself rounds to 1."""
    reference = sampled_gaussian_moment(1.5, 1e-8, 100.0)
    assert mpf(10) ** -21 < reference < mpf(10) ** -20
    assert close_above(cm.Gaussian(noise_multiplier=100.0).poisson(rate=1e-8).cgf(order=1.5), mp.log1p(reference))


@pytest.mark.parametrize("scheme", ["poisson", "poisson replace-one", "without replacement"])
@pytest.mark.parametrize("rate", [0.01, 0.5, 0.999])
@pytest.mark.parametrize("gap", [1e-15, 1e-12, 1e-9, 1e-6, 1e-4])
def test_orders_close_to_one_stay_above_kl(scheme: str, gap: float, rate: float) -> None:
    """The divergence does not decrease with the order, and KL is its limit at 1."""
    sigma = 1.0
    step = sampled(scheme, cm.Gaussian(noise_multiplier=sigma), rate)
    kl = kl_of(scheme, rate, sigma)
    assert step.rdp(order=1.0) >= kl
    assert step.rdp(order=1.0 + gap) >= kl * (1 - mpf(10) ** -13)


def kl_of(scheme: str, rate: float, sigma: float) -> Real:
    """Return the KL divergence of the sampled pair: what a curve of order close to 1 must not be below."""
    mu, gamma, step = 1 / mpf(sigma), mpf(rate), 0.05

    def density(t: Real) -> Real:
        return 1 - gamma + gamma * mp.exp(mu * t - mu * mu / 2)

    def loss(t: Real) -> Real:
        other = density(-t) if scheme == "poisson replace-one" else 1
        return density(t) * mp.log(density(t) / other)

    with mp.workdps(40):
        return normal_mean(loss, [mpf(j) * mpf(step) for j in range(-300, 400)], step)


def sampled(scheme: str, mechanism: Any, rate: float) -> Any:
    if scheme == "without replacement":
        return mechanism.without_replacement(rate=rate)
    return mechanism.poisson(rate=rate, neighbors=cm.REPLACE_ONE if "replace" in scheme else cm.ADD_REMOVE)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("order", [1e6, 1e8, 1e9, 1e11, 1e15])
@pytest.mark.parametrize("scheme", ["poisson", "poisson replace-one", "without replacement"])
def test_huge_orders_lie_between_the_last_term_and_no_sampling(scheme: str, order: float, sigma: float) -> None:
    """(1-γ+γr)^α is at least (γr)^α, and at most a mean of 1 and r^α."""
    rate = 0.01
    value = sampled(scheme, cm.Gaussian(noise_multiplier=sigma), rate).cgf(order=order)
    groups = 2 if "replace" in scheme else 1  # N(+1) against N(-1) is a shift of 2
    last_term = order * math.log(rate) + order * (order - 1) / (2 * sigma**2)
    assert last_term * (1 - 1e-12) <= value <= groups**2 * order * (order - 1) / (2 * sigma**2) * (1 + 1e-12)


def test_epsilon_at_a_delta_that_needs_a_huge_order() -> None:
    """P(loss > ε) is at least γ times a Gaussian tail, so that log δ = -10¹⁸ needs about ε = √(2·10¹⁸)/σ."""
    sigma, rate, log_delta = 0.3, 0.01, -1e18
    epsilon = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate).epsilon(log_delta=log_delta)
    assert epsilon >= 0.999 * math.sqrt(-2 * log_delta) / sigma


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-170])
@pytest.mark.parametrize("scheme", ["poisson", "poisson replace-one", "without replacement"])
def test_tiny_rates_are_never_free(scheme: str, rate: float) -> None:
    """The moment underflows and is rounded up, and the unsampled loss stays the other end."""
    values = sampled(scheme, cm.Gaussian(noise_multiplier=1.0), rate).rdp(order=[1.5, 2.0, 100.0])
    assert (values > 0).all()
    assert (values <= 4 * np.array([0.75, 1.0, 50.0])).all()


def test_many_orders_at_once_need_little_memory_and_agree_with_each_alone() -> None:
    """Groups ask a thousand orders at once: the nodes must not be multiplied by the orders and a power series."""
    step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
    orders = np.geomspace(1.01, 1e6, 100)
    tracemalloc.start()
    together = step.rdp(order=orders)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(together, [step.rdp(order=order) for order in orders], rtol=1e-12)
    assert peak < 200e6


# Laplace and randomized response --------------------------------------------------------------------------------------


def sampled_laplace_moment(order: float, rate: float, scale: float) -> Real:
    """Return E_Q[f(w)] with Q = Laplace(0, b): outside [0, 1] the ratio is constant."""
    theta, gamma, alpha = 1 / mpf(scale), mpf(rate), mpf(order)

    def at(log_ratio: Real) -> Real:
        return excess(1 - gamma + gamma * mp.exp(log_ratio), alpha)

    def density(x: Real) -> Real:
        return theta / 2 * mp.exp(-theta * x) * at(theta * (2 * x - 1))

    edges = [mpf(0), *(1 - mpf(2) ** -k for k in range(1, 16)), mpf(1)]
    edges = sorted({*edges, *(mpf(k) / 16 for k in range(16))})
    inside = mp.fsum(mp.quad(density, [a, b], method="gauss-legendre", maxdegree=4) for a, b in pairwise(edges))
    return at(-theta) / 2 + mp.exp(-theta) / 2 * at(theta) + inside


LAPLACE_POINTS = [
    (1.01, 1e-7, 0.1),
    (1.01, 0.999, 100.0),
    (1.5, 0.01, 1.0),
    (2.5, 0.3, 0.25),
    (31.7, 1e-4, 2.0),
    (31.7, 0.9, 0.1),
    (300.5, 0.01, 5.0),
    (1000.0, 1e-7, 0.3),
]


@pytest.mark.parametrize(("order", "rate", "scale"), LAPLACE_POINTS)
def test_poisson_laplace_at_real_orders(order: float, rate: float, scale: float) -> None:
    with mp.workdps(40):
        reference = rdp_of(sampled_laplace_moment(order, rate, scale), order)
    assert close_above(cm.Laplace(scale=scale).poisson(rate=rate).rdp(order=order), reference)


@pytest.mark.parametrize("order", [2, 5, 40, 400])
@pytest.mark.parametrize(("rate", "scale"), [(1e-7, 0.1), (1e-6, 100.0), (0.01, 1.0), (0.999, 0.5)])
def test_poisson_laplace_at_integer_orders(order: int, rate: float, scale: float) -> None:
    theta = 1 / mpf(scale)

    def moment(j: int) -> Real:
        return (j * mp.exp((j - 1) * theta) + (j - 1) * mp.exp(-j * theta)) / (2 * j - 1)

    reference = rdp_of(binomial_moment(order, rate, moment), order)
    assert close_above(cm.Laplace(scale=scale).poisson(rate=rate).rdp(order=order), reference)


@pytest.mark.parametrize("order", [1.01, 2, 3.7, 63.5, 1000, 1e6])
@pytest.mark.parametrize(("rate", "p"), [(1e-7, 0.75), (0.01, 0.999999), (0.5, 0.500001), (0.999, 0.6)])
def test_poisson_randomized_response(order: float, rate: float, p: float) -> None:
    truth, gamma, alpha = mpf(p), mpf(rate), mpf(order)
    lie = 1 - truth
    reference = lie * excess(1 - gamma + gamma * truth / lie, alpha) + truth * excess(
        1 - gamma + gamma * lie / truth, alpha
    )
    assert close_above(cm.RandomizedResponse(p=p).poisson(rate=rate).rdp(order=order), rdp_of(reference, order))


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 3.0, 29.0, 31.0, 300.0, 800.0])
@pytest.mark.parametrize("rate", [1e-12, 0.01, 1 / 3, 0.999])
def test_pure_dp_is_amplified_and_rounded_up(epsilon: float, rate: float) -> None:
    """log(1 + γ(e^ε - 1)), which is tight."""
    reference = mp.log1p(mpf(rate) * mp.expm1(mpf(epsilon)))
    for step in (
        cm.PureDP(epsilon=epsilon).poisson(rate=rate),
        cm.PureDP(epsilon=epsilon).without_replacement(rate=rate),
    ):
        value = step.epsilon(delta=0.0)
        assert reference <= value <= reference * (1 + mpf(10) ** -12)


# Both directions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1.01, 1.7, 2.0, 8.5, 40.0])
@pytest.mark.parametrize(("rate", "sigma"), [(0.001, 1.0), (0.5, 0.5), (0.9, 1.0), (0.99, 3.0)])
def test_adding_a_record_reveals_no_more_than_removing_it(order: float, rate: float, sigma: float) -> None:
    """E1 <= E2 of Abadi et al. (2016), which Zhu and Wang (2019) prove in their supplement, Section D."""
    gamma, mu = mpf(rate), 1 / mpf(sigma)
    step = 2 * math.pi * min(math.pi * sigma / 2, 3.0) / (110 + 0.4 * order)

    def density(t: Real) -> Real:
        return 1 - gamma + gamma * mp.exp(mu * t - mu * mu / 2)

    nodes = on_the_line(
        lambda t: (1 - order) * np.logaddexp(math.log1p(-rate), math.log(rate) + t / sigma - 0.5 / sigma**2),
        step,
        high=0.0,
        low=-order / sigma,
    )
    add = normal_mean(lambda t: excess(density(t), 1 - mpf(order)), nodes, step)
    assert add <= sampled_gaussian_moment(order, rate, sigma)


def above_one(density: Callable[[Real], Real], edges: list[Real], order: float, rate: float) -> Real:
    """Return ∫ (f_α(w) + f_{1-α}(w)) over log r in the edges, all >= 0, for a density of log r under Q."""
    gamma, alpha = mpf(rate), mpf(order)

    def integrand(x: Real) -> Real:
        w = 1 - gamma + gamma * mp.exp(x)
        return density(x) * (excess(w, alpha) + excess(w, 1 - alpha))

    return mp.fsum(mp.quad(integrand, [a, b], method="gauss-legendre", maxdegree=4) for a, b in pairwise(edges))


@pytest.mark.parametrize("order", [1.01, 1.5, 2.0, 7.3])
@pytest.mark.parametrize(("rate", "sigma"), [(1e-6, 0.5), (0.01, 1.0), (0.5, 2.0), (0.999, 0.7)])
def test_envelope_of_the_gaussian(order: float, rate: float, sigma: float) -> None:
    """By its definition: log r is N(-1/2σ², 1/σ²) under Q."""
    with mp.workdps(40):
        mu = 1 / mpf(sigma)
        last = max(order, 2.0) + 14 * sigma
        edges = [mu * mu * mpf(last) * k / 48 for k in range(49)]
        reference = above_one(
            lambda x: mp.exp(-((x + mu * mu / 2) ** 2) / (2 * mu * mu)) / (mu * mp.sqrt(2 * mp.pi)), edges, order, rate
        )
        value = moment_of_envelope(gaussian_ratio(1 / sigma), rate=rate, orders=np.array([order]))[0]
        assert abs(mp.expm1(value - mp.log(reference))) < mpf(RELATIVE)
        rdp = cm.Gaussian(noise_multiplier=sigma).without_replacement(rate=rate).rdp(order=order)
        assert close_above(rdp, rdp_of(reference, order))


@pytest.mark.parametrize("order", [1.01, 3.0, 50.5])
@pytest.mark.parametrize(("rate", "theta"), [(1e-6, 2.0), (0.3, 0.5), (0.99, 5.0)])
def test_envelope_of_laplace_and_of_randomized_response(order: float, rate: float, theta: float) -> None:
    with mp.workdps(40):
        gamma, alpha, t = mpf(rate), mpf(order), mpf(theta)
        top = 1 - gamma + gamma * mp.exp(t)
        atom = excess(top, alpha) + excess(top, 1 - alpha)
        edges = [t * k / 32 for k in range(33)]
        between = above_one(lambda x: mp.exp(-(x + t) / 2) / 4, edges, order, rate)
        references: list[tuple[LikelihoodRatio, Real]] = [
            (laplace_ratio(theta), mp.exp(-t) / 2 * atom + between),
            (binary_ratio(theta), atom / (1 + mp.exp(t))),
        ]
        for ratio, reference in references:
            value = moment_of_envelope(ratio, rate=rate, orders=np.array([order]))[0]
            assert abs(mp.expm1(value - mp.log(reference))) < mpf(RELATIVE)


REPLACED = [
    (1.01, 0.01, 1.0),
    (1.5, 1e-6, 0.5),
    (2.0, 0.3, 0.3),
    (3.3, 0.5, 2.0),
    (8.5, 0.9, 0.4),
    (24.0, 0.01, 1.0),
    (64.5, 0.1, 5.0),
    (2.5, 0.999, 1.0),
    (2.5, 1 - 1e-9, 0.5),
    (4.0, 1 - 2.0**-53, 0.5),
    (10.0, 1 - 2.0**-53, 0.3),
    (100.0, 1e-4, 20.0),
]


@pytest.mark.parametrize(("order", "rate", "sigma"), REPLACED)
def test_poisson_gaussian_under_replace_one(order: float, rate: float, sigma: float) -> None:
    reference = rdp_of(replaced_gaussian_moment(order, rate, sigma), order)
    step = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate, neighbors=cm.REPLACE_ONE)
    assert close_above(step.rdp(order=order), reference), (step.rdp(order=order), mp.nstr(reference, 17))


@pytest.mark.parametrize("ratio", [gaussian_ratio(1.0), laplace_ratio(2.0), binary_ratio(1.0)])
def test_the_ratio_has_mass_and_mean_one(ratio: LikelihoodRatio) -> None:
    """Nodes below and above 1 together are the law of r under Q."""
    sides = ratio.below_one(rate=0.5), ratio.above_one(rate=0.5, orders=np.array([2.0]))
    log_r, log_mass = (np.concatenate([side[i] for side in sides]) for i in (0, 1))
    np.testing.assert_allclose([np.exp(log_mass).sum(), np.exp(log_mass + log_r).sum()], 1.0, rtol=1e-13)


@pytest.mark.parametrize("rate", [1e-3, 0.5, 0.999])
def test_orders_of_a_vector_agree_with_scalars(rate: float) -> None:
    """Nodes are shared by all orders, and serve each as if it were alone."""
    orders = np.array([1.001, 1.5, 2.0, 33.0, 1e4])
    together = moment_of_mixture(gaussian_ratio(1.0), rate=rate, orders=orders)
    alone = [moment_of_mixture(gaussian_ratio(1.0), rate=rate, orders=np.array([order]))[0] for order in orders]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


# The second implementation: other nodes, another integrand, no shared line of code -----------------------------------

FAR_AND_WIDE = np.concatenate([1 + 10.0 ** np.arange(-9.0, 0.0), [1.7, 2.0, 3.3, 11.0, 64.5, 513.0, 4096.5]])


@pytest.mark.parametrize("rate", [1e-12, 1e-5, 0.01, 0.4, 0.999])
@pytest.mark.parametrize("parameter", [1e-5, 0.01, 0.7, 3.0, 20.0])
def test_curves_of_samples_agree_with_the_second_implementation(parameter: float, rate: float) -> None:
    """K of samples follows from the pairs; the reference integrates w^α - 1 - α(w-1) over the law of log r."""
    noises: list[tuple[Any, LikelihoodRatio, float]] = [
        (cm.Gaussian(noise_multiplier=1 / parameter), gaussian_ratio(parameter), 90 / parameter),
        (cm.Laplace(scale=1 / parameter), laplace_ratio(parameter), math.inf),
        (cm.PureDP(epsilon=parameter), binary_ratio(parameter), math.inf),
    ]
    for mechanism, ratio, farthest in noises:
        orders = FAR_AND_WIDE[farthest > FAR_AND_WIDE]
        for sampled, moment in (
            (mechanism.poisson(rate=rate), moment_of_mixture),
            (mechanism.without_replacement(rate=rate), moment_of_envelope),
        ):
            reference = np.logaddexp(0.0, moment(ratio, rate=rate, orders=orders))
            tiny = reference < 1e-290  # squares of losses that underflow
            values = sampled.cgf(order=orders)
            np.testing.assert_allclose(values[~tiny], reference[~tiny], rtol=1e-12, err_msg=repr(sampled))


@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.3])
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_far_orders_of_the_envelope_stay_above_it(rate: float, sigma: float) -> None:
    """Beyond a hundred standard deviations two halves are bounded apart: never below, M - 1 at most doubled."""
    orders = sigma * np.array([101.0, 150.0, 400.0, 1500.0])
    log_excess = moment_of_envelope(gaussian_ratio(1 / sigma), rate=rate, orders=orders)
    values = cm.Gaussian(noise_multiplier=sigma).without_replacement(rate=rate).cgf(order=orders)
    assert (values >= np.logaddexp(0.0, log_excess)).all()
    assert (values <= np.logaddexp(0.0, log_excess + math.log(2.0)) * (1 + 1e-9)).all()


@stored
def divergence_of_the_envelope(sigma: float, rate: float) -> Real:
    """Return E_Q[(w-1) log w; r > 1] = γ(E_P - E_Q)[log w; r > 1]."""
    with mp.workdps(40):
        mean = 1 / mpf(sigma)

        def log_w(t: Real) -> Real:
            return mp.log(1 - mpf(rate) + mpf(rate) * mp.exp(mean * t - mean**2 / 2))

        def expected(centre: Real) -> Real:
            low = max(mean / 2, centre - 14)
            edges = [low + (centre + 14 - low) * mpf(k) / 40 for k in range(41)] if centre + 14 > low else []
            return mp.fsum(
                mp.quad(lambda t: mp.npdf(t - centre) * log_w(t), [a, b], maxdegree=4) for a, b in pairwise(edges)
            )

        return mpf(rate) * (expected(mean) - expected(mpf(0)))


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 0.99])
@pytest.mark.parametrize("sigma", [2e-5, 1e-4, 1e-3, 0.01, 1.0])
def test_the_divergence_of_the_envelope(rate: float, sigma: float) -> None:
    """Of order 1, also where no rule follows the pair."""
    truth = divergence_of_the_envelope(sigma, rate)
    found = cm.Gaussian(noise_multiplier=sigma).without_replacement(rate=rate).rdp(order=1)
    assert truth * (1 - mpf(10) ** -14) <= found


@stored
def cgf_of_a_rare_sample(mean: float, rate: float, lam: float) -> Real:
    with mp.workdps(120):
        mu, gamma, alpha = 1 / mpf(1 / mean), mpf(rate), 1 + mpf(lam)

        def w(t: Real) -> Real:
            return 1 - gamma + gamma * mp.exp(mu * t - mu**2 / 2)

        middle, peak = mu / 2 - mp.log(gamma) / mu, mu * alpha
        near = [middle + x / mu for x in (-30, -3, 0, 3, 30)]
        points = sorted({mpf(-13), mpf(0), mpf(13), *near, *(peak + x for x in (-14, -7, 0, 7, 14))})
        return mp.log1p(mp.quad(lambda t: mp.npdf(t) * excess(w(t), alpha), points))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-40, 1e-12, 0.01])
@pytest.mark.parametrize("mean", [1.0, 30.0, 200.0, 500.0])
def test_little_noise_is_not_rounded_down(mean: float, rate: float) -> None:
    """Masses of nodes far out are made of large exponents: K below 1 says by how much they may be off."""
    for lam in (2.0**-17, 2.0**-10):
        value = cm.Gaussian(noise_multiplier=1 / mean).poisson(rate=rate).cgf(order=1 + lam)
        assert cgf_of_a_rare_sample(mean, rate, lam) <= value
