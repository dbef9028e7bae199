"""Poisson samples under replace-one, and samples with replacement: their pairs against enumeration and closed forms."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.finite_pair import FinitePair
from cumulant.profiles.profile import PrivacyProfile
from cumulant.profiles.sampling import replaced_profile
from stored import stored
from strategies import log_uniform

DIGITS = 40


def replaced(mechanism: AbstractMechanism, rate: float) -> AbstractMechanism:
    return mechanism.poisson(rate=rate, neighbors=cm.REPLACE_ONE)


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pure_dp_has_three_points(epsilon: float, rate: float) -> None:
    """Ten rounds enumerated: π = 1/(1+e^ε), a = 1-γ+γe^ε, b = 1-γ+γe^-ε, losses ±log a/b and 0."""
    run = replaced(cm.PureDP(epsilon=epsilon), rate) * 10
    with mp.workdps(DIGITS):
        e, g = mpf(epsilon), mpf(rate)
        pi, a, b = 1 / (1 + mp.exp(e)), 1 - g + g * mp.exp(e), 1 - g + g * mp.exp(-e)
        loss = mp.log(a / b)
        for at in (0.0, float(loss) * 1.5, float(loss) * 4.2):
            truth = mpf(0)
            for up in range(11):
                for down in range(11 - up):
                    ways = math.comb(10, up) * math.comb(10 - up, down)
                    mass = ways * (pi * a) ** up * (pi * b) ** down * ((1 - 2 * pi) * b) ** (10 - up - down)
                    truth += mass * max(mpf(0), 1 - mp.exp(mpf(at) - (up - down) * loss))
            assert truth <= run.delta(epsilon=at) <= truth * (1 + mpf(10) ** -9)


def test_figures() -> None:
    """Inverted independently: FFT with linear interpolation of the profile from above, and Fourier series."""
    assert (replaced(cm.Laplace(scale=1.0), 0.1) * 10).epsilon(delta=1e-5) == pytest.approx(1.790752, abs=2e-6)
    assert (replaced(cm.Laplace(scale=1.0), 0.01) * 1000).epsilon(delta=1e-5) == pytest.approx(1.9926561335, abs=1e-9)
    assert (replaced(cm.PureDP(epsilon=1.0), 0.1) * 10).epsilon(delta=1e-5) == pytest.approx(1.9556795989248, abs=1e-12)
    assert replaced(cm.PureDP(epsilon=1.0), 0.1).epsilon(delta=0.0) == pytest.approx(0.223863414739263, abs=1e-14)


@pytest.mark.parametrize(("scale", "rate"), [(2.0, 0.3), (0.5, 0.01), (1.0, 0.9)])
def test_laplace_noise_is_the_triple_of_opposite_records(scale: float, rate: float) -> None:
    """One release: ∫ ((1-γ)f(x) + γf(x-1) - e^ε((1-γ)f(x) + γf(x+1)))_+ dx, f the density of the noise."""
    step = replaced(cm.Laplace(scale=scale), rate)
    with mp.workdps(DIGITS):
        theta, g = 1 / mpf(scale), mpf(rate)

        def density(x: mpf) -> mpf:
            return theta / 2 * mp.exp(-theta * abs(x))

        largest = mp.log((1 - g + g * mp.exp(theta)) / (1 - g + g * mp.exp(-theta)))
        assert largest <= step.epsilon(delta=0.0) <= largest * (1 + mpf(10) ** -12)
        for share in (0.0, 0.3, 0.9):
            epsilon = float(share * largest)
            lift = mp.exp(mpf(epsilon))

            def gain(x: mpf, lift: mpf = lift) -> mpf:
                p = (1 - g) * density(x) + g * density(x - 1)
                return p - lift * ((1 - g) * density(x) + g * density(x + 1))

            start = mp.findroot(gain, (mpf("1e-9"), mpf(1) - mpf("1e-9")), solver="anderson") if epsilon else mpf(0)
            truth = mp.quad(gain, [start, 1, 3, 10, mp.inf] if start < 1 else [1, mp.inf])
            assert truth * (1 - mpf(10) ** -14) <= step.delta(epsilon=epsilon) <= truth * (1 + mpf(10) ** -2)


def test_a_table_is_coupled_with_itself_exactly() -> None:
    """Three rounds in fractions: outputs (17/100, 11/40), (51/200, 3/10) and their mirror images."""
    table = cm.StatedPair(probabilities=(0.5, 0.3, 0.2), neighbor_probabilities=(0.2, 0.3, 0.5), relation=cm.ADD_REMOVE)
    answer = (replaced(table, 0.25) * 3).delta(epsilon=0.2)
    with mp.workdps(DIGITS):
        truth = mpf(66041) / 160000 - mp.exp(mpf("0.2")) * 327437 / 1600000
        assert 0 <= answer - truth < 2e-15  # losses are taken a few units lower than they may be


@pytest.mark.parametrize("seed", range(30))
def test_no_pure_dp_mechanism_beats_the_three_points(seed: int) -> None:
    """Random outputs whose ratios with and without a record stay within e^±ε, two rounds, every output of both."""
    random = np.random.default_rng(seed)
    epsilon, rate = float(random.uniform(0.1, 2.0)), float(random.uniform(0.05, 0.95))
    nobody = random.dirichlet(np.ones(5))

    def near() -> Array:
        tilt = np.where(random.random(5) < 0.5, epsilon, -epsilon) / 2
        law = nobody * np.exp(tilt)
        return np.asarray(law / law.sum())

    one, another = near(), near()
    assert np.max(np.abs(np.log(np.stack([one, another]) / nobody))) <= epsilon + 1e-12
    p, q = (1 - rate) * nobody + rate * one, (1 - rate) * nobody + rate * another
    run = replaced(cm.PureDP(epsilon=epsilon), rate) * 2
    for at in (0.0, 0.1, 0.6):
        truth = sum(max(p[i] * p[j] - math.exp(at) * q[i] * q[j], 0.0) for i, j in product(range(5), repeat=2))
        assert truth <= run.delta(epsilon=at) + 1e-13


@stored
def moment_of_theorem_10(sigma: float, draws: int, population: int, order: float) -> mpf:
    """M(λ) - 1 = Σ_j (w_j/γ) (E_Q[f_α(w); r > 1] + E_Q[f_{1-α}(w); r > 1]), f_β(w) = w^β - 1 - β(w-1), α = λ + 1."""
    with mp.workdps(30):
        chance = 1 / mpf(population)
        gamma = 1 - (1 - chance) ** draws
        alpha, truth = mpf(order) + 1, mpf(0)
        for j in range(1, min(draws, 14) + 1):
            mu = j / mpf(sigma)
            share = mp.binomial(draws, j) * chance**j * (1 - chance) ** (draws - j) / gamma

            def halves(t: mpf, mu: mpf = mu) -> mpf:
                w = 1 - gamma + gamma * mp.exp(mu * t - mu**2 / 2)
                return mp.npdf(t) * sum(w**beta - 1 - beta * (w - 1) for beta in (alpha, 1 - alpha))

            ends = sorted({mu / 2, mu, mu + 2, alpha * mu, alpha * mu + 6, alpha * mu + 12})
            truth += share * mp.quad(halves, ends)
        return truth


@pytest.mark.parametrize(("sigma", "draws", "population"), [(10.0, 100, 10_000), (1.0, 6, 1000), (2.0, 9, 20)])
def test_with_replacement_has_the_moments_of_theorem_10(sigma: float, draws: int, population: int) -> None:
    step = cm.Gaussian(noise_multiplier=sigma).with_replacement(draws=draws, population=population)
    ((pair, _),) = step._known().directions(cm.REPLACE_ONE)[0]  # type: ignore[index]
    assert isinstance(pair, FinitePair)
    lam = np.array([0.25, 1.0])
    found = np.expm1(pair.nodes(1.0, 0.0).cumulants(lam)[0][0])
    with mp.workdps(30):
        for order, value in zip(lam.tolist(), found.tolist(), strict=True):
            truth = moment_of_theorem_10(sigma, draws, population, order)
            assert abs(value / truth - 1) < 1e-4  # chords, and sizes above ten charged together
            assert value >= truth * (1 - mpf(10) ** -9)


def test_with_replacement_composes_exactly() -> None:
    """Fourier series of the same law by another program: 0.1017679645 and 2.7584206."""
    many = cm.Gaussian(noise_multiplier=10.0).with_replacement(draws=100, population=10_000) * 1000
    assert 0.10176796 <= many.epsilon(delta=1e-5) <= 0.1017682
    few = cm.Gaussian(noise_multiplier=1.0).with_replacement(draws=100, population=10_000) * 100
    assert 2.7584205 <= few.epsilon(delta=1e-5) <= 2.75843


def test_fractions_of_the_coupling_add_up() -> None:
    from cumulant.pairs.atoms import Table
    from cumulant.pairs.exact_atoms import Coupled, _coupled

    p, q, revealed = _coupled(Coupled(Table((0.5, 0.0, 0.25, 0.25), (0.25, 0.5, 0.25, 0.0)), 0.125))
    assert sum(p) + revealed == 1 == sum(q) + revealed
    assert revealed == Fraction(1, 32)
    assert sorted(zip(p, q, strict=True)) == sorted(zip(q, p, strict=True))


@pytest.mark.parametrize("theta", [0.1, 5.0, 50.0, 400.0])
@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.5])
def test_laplace_noise_of_any_size_keeps_its_mass(theta: float, rate: float) -> None:
    """Where hardly anything is lost there is mass all the same: K grows from 0, and nodes add up to 1."""
    step = replaced(cm.Laplace(scale=1 / theta), rate)
    ((pair, _),) = step._known().directions(cm.REPLACE_ONE)[0]  # type: ignore[index]
    assert isinstance(pair, CoordinatePair)
    for tilt in (0.01, 1.0):
        nodes = pair.nodes(tilt, 0.0)
        assert float(np.sum(np.exp(nodes.log_masses))) == pytest.approx(1.0, abs=1e-12)
    moments = step.cgf(order=[1.001, 1.01, 1.1, 2.0, 5.0])
    assert np.all(moments > 0)
    assert np.all(np.diff(moments) > 0)


@pytest.mark.slow
@given(
    st.integers(1, 20), st.integers(2, 1000), log_uniform(0.3, 1e4), st.sampled_from([cm.ADD_REMOVE, cm.REPLACE_ONE])
)
@settings(deadline=None, max_examples=10)
def test_normal_noise_has_no_largest_loss_when_it_is_drawn(
    draws: int, population: int, sigma: float, relation: cm.Neighbors
) -> None:
    """However it is composed: by its pair, or by a pair that its profile makes."""
    step = cm.Gaussian(noise_multiplier=sigma).with_replacement(draws=draws, population=population, neighbors=relation)
    for run in (step, step * 2, step + cm.Laplace(scale=1.0)):
        assert run.epsilon(delta=0.0) == math.inf


@pytest.mark.parametrize("seed", range(40))
def test_one_release_of_gaussian_noise_has_a_formula(seed: int) -> None:
    """δ = P(t > t*) - e^ε Q(t > t*) in 400 digits, where the likelihood ratio at t* is e^ε: a quadratic in e^{μt}."""
    rng = np.random.default_rng(seed)
    sigma, epsilon = float(10 ** rng.uniform(-1.3, 4)), float(rng.choice([0.0, 10 ** rng.uniform(-9, 2)]))
    rate = float(rng.choice([10 ** rng.uniform(-12, 0), rng.uniform(), 1 - 10 ** rng.uniform(-12, -1)]))
    guarantee = replaced(cm.Gaussian(noise_multiplier=sigma), rate).guarantee(epsilon=epsilon)
    with mp.workdps(400):
        mu, e, g = 1 / mpf(sigma), mp.exp(mpf(epsilon)), mpf(rate)
        a, b = (1 - g) * (e - 1), g * mp.exp(-(mu**2) / 2)
        t = mp.log((a + mp.sqrt(a * a + 4 * b * b * e)) / (2 * b)) / mu
        none, one, other = (mp.erfc((t - shift) / mp.sqrt(2)) / 2 for shift in (0, mu, -mu))
        truth = (1 - g) * none + g * one - e * ((1 - g) * none + g * other)
        above = mpf(guarantee.log_delta) - mp.log(truth)
        assert 0 <= above <= mpf(10) ** -9 * (1 + (t / 100) ** 2)
    assert guarantee.exact


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1.0), st.floats(0.0, 3.0), st.floats(0.0, 6.0))
def test_every_place_bounds_a_release_under_replace_one(seed: int, rate: float, epsilon: float, place: float) -> None:
    """Outputs without the record, with it and with another one, drawn at random; their profile as it is."""
    without, one, other = np.random.default_rng(seed).dirichlet([0.5] * 4, 3) * (1 - 4e-9) + 1e-9

    def distance(p: Array, q: Array, at: float) -> float:
        return float(np.sum(np.maximum(p - math.exp(at) * q, 0.0)))

    def log_delta(at: float) -> float:
        neighbors = ((one, without), (without, one), (other, without), (without, other))
        return math.log(max(*(distance(p, q, at) for p, q in neighbors), 1e-300))

    bound = replaced_profile(PrivacyProfile(log_delta), rate=rate, place=lambda _: place)
    mixed = (1 - rate) * without + rate * one, (1 - rate) * without + rate * other
    assert distance(*mixed, epsilon) <= bound.delta(epsilon) * (1 + 1e-12) + 1e-15


@settings(max_examples=100)
@given(log_uniform(1e-9, 500.0), st.one_of(log_uniform(1e-12, 1.0), log_uniform(1e-16, 1.0).map(lambda x: 1 - x)))
def test_the_largest_loss_of_laplace_noise_under_replace_one(theta: float, rate: float) -> None:
    """log((1-γ+γe^θ)/(1-γ+γe^-θ)) in 60 digits, also where 1 - γ is next to nothing."""
    step = replaced(cm.Laplace(scale=1 / theta), rate)
    with mp.workdps(60):
        x, g = 1 / mpf(1 / theta), mpf(rate)
        truth = mp.log((1 - g + g * mp.exp(x)) / (1 - g + g * mp.exp(-x)))
        assert truth <= step.epsilon(delta=0.0) <= truth * (1 + mpf(10) ** -12)
