"""Exponential families by sums and integrals of their densities; Laplace noise on vectors, coordinate by coordinate."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import cumulant as cm
from cumulant.curves.families import BERNOULLI, CATEGORICAL, FAMILIES, GAMMA, NORMAL, POISSON, Family, family_divergence
from cumulant.errors import InvalidParameter

ORDERS = [0.25, 0.7, 1.0, 1.5, 3.0]


def divergence(terms: list[tuple[mpf, mpf]], order: float) -> mpf:
    """Return D_α of masses, by its definition."""
    if order == 1:
        return mp.fsum(p * mp.log(p / q) for p, q in terms)
    return mp.log(mp.fsum(p ** mpf(order) * q ** (1 - mpf(order)) for p, q in terms)) / (mpf(order) - 1)


@pytest.mark.parametrize("order", ORDERS)
def test_finite_families_and_counts_by_sums(order: float) -> None:
    with mp.workdps(40):
        coin = [mp.exp(mpf(x)) / (1 + mp.exp(mpf(x))) for x in (0.3, -1.1)]
        bits = [(coin[0], coin[1]), (1 - coin[0], 1 - coin[1])]
        weights = [[mp.exp(mpf(x)) for x in row] for row in ([0.0, 0.5, -1.0], [0.0, -0.25, 0.75])]
        table = [(a / sum(weights[0]), b / sum(weights[1])) for a, b in zip(*weights, strict=True)]
        counts = [
            (mp.exp(-3) * mpf(3) ** k / mp.factorial(k), mp.exp(-2) * mpf(2) ** k / mp.factorial(k)) for k in range(150)
        ]
        cases: list[tuple[Family, list[float], list[float], list[tuple[mpf, mpf]]]] = [
            (BERNOULLI, [0.3], [-1.1], bits),
            (CATEGORICAL, [0.5, -1.0], [-0.25, 0.75], table),
            (POISSON, [math.log(3.0)], [math.log(2.0)], counts),
        ]
        for family, one, other, terms in cases:
            exact = divergence(terms, order)
            found = mpf(family_divergence(family, one, other, order=order))
            assert -(mpf(10) ** -15) <= found - exact <= mpf(10) ** -12  # log 3 is a double


@given(st.floats(-20.0, 20.0), st.floats(-20.0, 20.0), st.floats(-15.5, 0.5))
@settings(deadline=None)
def test_one_bit_next_to_order_one(one: float, other: float, exponent: float) -> None:
    """Above the truth by rounding only, and never below the value at order 1."""
    tilt, pair = 10.0**exponent, cm.FamilyPair(family="bernoulli", natural=(one,), neighbor_natural=(other,))
    kl, value = pair.rdp(order=[1.0, 1 + tilt])
    assert value >= kl * (1 - 1e-13)
    with mp.workdps(110):
        bits = [1 / (1 + mp.exp(-mpf(x))) for x in (one, other)]
        pairs = [[(a, b), (1 - a, 1 - b)] for a, b in (bits, bits[::-1])]
        exact = max(divergence(rows, 1 + tilt) for rows in pairs)
        found, ten = mpf(float(value)), mpf(10)
        assert exact * (1 - ten**-14) - ten**-60 <= found <= exact * (1 + ten**-10) + ten**-11


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_divergence_of_families_grows_from_order_one_on(name: str) -> None:
    pairs: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
        "bernoulli": ((1.3,), (-0.4,)),
        "categorical": ((0.5, -1.0), (-20.0, 30.0)),
        "poisson": ((1.0,), (3.0,)),
        "gamma": ((1.0, -2.0), (5.0, -9.0)),
        "normal": ((0.0, -0.5), (0.5, -0.25)),
    }
    natural = pairs[name]
    orders = [1.0, *(1 + 10.0 ** (exponent / 4) for exponent in range(-60, -2))]
    values = cm.FamilyPair(family=name, natural=natural[0], neighbor_natural=natural[1]).rdp(order=orders)
    finite = values[np.isfinite(values)]
    assert len(finite) >= 55
    assert np.all(finite[1:] >= finite[:-1] * (1 - 1e-11))


@pytest.mark.parametrize("order", ORDERS)
def test_densities_by_integrals(order: float) -> None:
    """Gamma(2, 2) against Gamma(2.5, 1.5), N(0, 1) against N(1, 2), on the line."""

    def gamma(shape: float, rate: float) -> Callable[[mpf], mpf]:
        a, b = mpf(shape), mpf(rate)
        return lambda x: b**a * x ** (a - 1) * mp.exp(-b * x) / mp.gamma(a)

    def normal(mean: float, variance: float) -> Callable[[mpf], mpf]:
        return lambda x: mp.exp(-((x - mean) ** 2) / (2 * mpf(variance))) / mp.sqrt(2 * mp.pi * variance)

    cases = [
        (GAMMA, (1.0, -2.0), (1.5, -1.5), gamma(2, 2), gamma(2.5, 1.5), [0, 1, 5, 40, 200]),
        (NORMAL, (0.0, -0.5), (0.5, -0.25), normal(0, 1), normal(1, 2), [-40, -5, 0, 5, 40]),
    ]
    for family, one, other, p, q, points in cases:
        with mp.workdps(25):
            if order == 1:
                exact = mp.quad(lambda x, p=p, q=q: p(x) * mp.log(p(x) / q(x)) if p(x) > 0 else mpf(0), points)
            else:
                a = mpf(order)
                exact = mp.log(mp.quad(lambda x, p=p, q=q, a=a: p(x) ** a * q(x) ** (1 - a), points)) / (a - 1)
        assert family_divergence(family, one, other, order=order) == pytest.approx(float(exact), rel=1e-9)


def test_outside_the_natural_space_it_is_infinite() -> None:
    """Gamma: αη₁ + (1-α)η₂ has a rate of 2α + 4(1-α) > 0 up to order 2 only; the other direction is finite at all."""
    assert family_divergence(GAMMA, (1.0, -2.0), (1.0, -4.0), order=1.999) < math.inf
    assert family_divergence(GAMMA, (1.0, -2.0), (1.0, -4.0), order=2.0) == math.inf
    assert family_divergence(GAMMA, (1.0, -4.0), (1.0, -2.0), order=50.0) < math.inf
    assert family_divergence(POISSON, [0.0], [1.0], order=0) == 0.0
    assert family_divergence(GAMMA, (1.0, -2.0), (1.0, -4.0), order=0.5) < math.inf


@pytest.mark.parametrize("order", [1.0, 1.3, 2.5])
def test_normals_are_the_multivariate_gaussian(order: float) -> None:
    mean, one, other = np.array([0.3, -1.0]), np.array([[1.0, 0.2], [0.2, 2.0]]), np.array([[1.5, 0.0], [0.0, 2.5]])

    def natural(center: np.ndarray, covariance: np.ndarray) -> tuple[float, ...]:
        precision = np.linalg.inv(covariance)
        return (*(precision @ center).tolist(), *np.ravel(-precision / 2).tolist())

    pair = cm.FamilyPair(family="normal", natural=natural(mean, one), neighbor_natural=natural(np.zeros(2), other))
    same = cm.MultivariateGaussian(
        shift=tuple(mean.tolist()), covariance=tuple(map(tuple, one)), neighbor_covariance=tuple(map(tuple, other))
    )
    assert pair.rdp(order=order) == pytest.approx(same.rdp(order=order), rel=1e-10)


def test_divergences_of_order_one_are_limits() -> None:
    """Bregman's divergence, against orders next to 1, where the formula of other orders still has digits."""
    for name, one, other in [
        ("gamma", (1.0, -2.0), (1.5, -1.0)),
        ("poisson", (1.0,), (0.2,)),
        ("bernoulli", (1.0,), (0.2,)),
    ]:
        at_one = family_divergence(FAMILIES[name], one, other, order=1.0)
        around = [family_divergence(FAMILIES[name], one, other, order=1 + x) for x in (-1e-4, 1e-4)]
        assert around[0] < at_one < around[1]  # it grows with the order
        assert sum(around) / 2 == pytest.approx(at_one, rel=1e-6)


def test_pairs_of_a_family_are_mechanisms() -> None:
    """Randomized response as Bernoulli: its RDP, its largest loss, and a run that is never below the exact one."""
    odds = math.log(3.0)
    pair = cm.FamilyPair(family="bernoulli", natural=(odds,), neighbor_natural=(-odds,))
    answer = cm.RandomizedResponse(p=0.75)
    for order in (1.0, 1.5, 7.0, math.inf):
        assert pair.rdp(order=order) == pytest.approx(answer.rdp(order=order), rel=1e-12)
    assert (pair * 20).epsilon(delta=1e-6) >= (answer * 20).epsilon_interval(delta=1e-6).lower
    assert cm.from_dict(pair.to_dict()) == pair
    nothing = cm.FamilyPair(family="poisson", natural=(1.0,), neighbor_natural=(1.0,))
    assert nothing.epsilon(delta=0.0) == 0.0


@pytest.mark.parametrize(
    ("family", "natural"),
    [
        ("gamma", (1.0, 2.0)),
        ("gamma", (1.0,)),
        ("normal", (0.0, 0.5)),
        ("normal", (0.0,)),
        ("poisson", (math.nan,)),
        ("beta", (1.0,)),
    ],
)
def test_what_is_no_parameter_is_refused(family: str, natural: tuple[float, ...]) -> None:
    with pytest.raises(InvalidParameter):
        cm.FamilyPair(family=family, natural=natural, neighbor_natural=natural)


# Laplace noise on vectors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1.5, 3.0, 8.0])
def test_one_coordinate_is_the_worst_for_laplace_vectors(order: float) -> None:
    """K of every split of the L1 distance over two coordinates, each by its integral."""

    def k_of(theta: float) -> mpf:
        a, t = mpf(order), mpf(theta)
        density: Callable[[mpf], mpf] = lambda x: mp.exp(-abs(x)) / 2  # noqa: E731  one line of mathematics
        return (
            mp.log(mp.quad(lambda x: density(x - t) ** a * density(x) ** (1 - a), [-60, 0, t, 60])) if theta else mpf(0)
        )

    whole = cm.LaplaceVector(scale=0.5).cgf(order=order)
    with mp.workdps(20):
        splits = [float(k_of(share) + k_of(2.0 - share)) for share in (0.0, 0.1, 0.5, 1.0)]
    assert splits[0] == pytest.approx(whole, rel=1e-9)
    assert splits == sorted(splits, reverse=True)


def test_laplace_vectors_are_between_one_coordinate_and_pure_dp() -> None:
    """Two coordinates at θ/2 each, on a grid of outputs, and one at θ: both below what is answered."""
    vector = cm.LaplaceVector(scale=1.0)
    theta, epsilon = 1.0, 0.4
    x = np.linspace(-25.0, 25.0, 2501) + 0.005
    p, q = (np.exp(-np.abs(x - shift)) for shift in (theta / 2, 0.0))
    p, q = p / p.sum(), q / q.sum()
    truth = float(np.sum(np.maximum(np.outer(p, p) - math.exp(epsilon) * np.outer(q, q), 0.0)))
    assert truth <= vector.delta(epsilon=epsilon)
    assert cm.Laplace(scale=1.0).delta(epsilon=epsilon) <= vector.delta(epsilon=epsilon)
    assert vector.delta(epsilon=epsilon) <= cm.PureDP(epsilon=1.0).delta(epsilon=epsilon) * (1 + 1e-12)
    assert vector.epsilon(delta=0.0) == 1.0
    assert (vector * 10).epsilon(delta=1e-5, method="rdp") == (cm.Laplace(scale=1.0) * 10).epsilon(
        delta=1e-5, method="rdp"
    )
    assert vector.group(size=3) == cm.LaplaceVector(scale=1 / 3)
