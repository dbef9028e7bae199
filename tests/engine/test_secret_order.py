"""What a secret order of batches hides: above every adversary, near the suprema, never above the order told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import cumulant as cm
from cumulant.profiles.shuffled_order import StepLaw, mean_by_variance, mean_of_sums, shuffled_delta
from cumulant.report.assumptions import assumptions_of
from cumulant.sampling.secret_order import SecretOrder
from tiny_loaders import menus_of, orders, worst

U = np.linspace(-14.0, 14.0, 28_001)
MASS = np.exp(-U * U / 2) * (U[1] - U[0]) / math.sqrt(2 * math.pi)


def call(deviation: Any, strike: Any) -> Any:
    """Return E(X - K)_+ of a lognormal of mean 1, for K of any sign."""
    above = np.maximum(strike, 1e-300)
    d = (deviation**2 / 2 - np.log(above)) / deviation
    return np.where(strike > 0, ndtr(d) - strike * ndtr(d - deviation), 1 - strike)


def spread_option(first: Any, second: Any, ratio: float, strike: float) -> float:
    """Return E(X - λY - c)_+ for X = e^{<first, g> - |first|²/2}, Y alike, g normal: given log Y, X is lognormal."""
    s, t, rho = float(first @ first), float(second @ second), float(first @ second)
    if t == 0:
        return float(call(math.sqrt(s), np.array(ratio + strike)))
    slope = rho / math.sqrt(t)
    left = math.sqrt(max(s - slope * slope, 1e-12))
    along = np.exp(slope * U - slope * slope / 2)
    y = np.exp(math.sqrt(t) * U - t / 2)
    return float(MASS @ (along * call(left, (ratio * y + strike) / along)))


def unit_vectors(seed: int, size: int) -> Any:
    drawn = np.random.default_rng(seed).normal(size=(size, 3, 3))
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


@pytest.mark.parametrize("sigma", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_one_law_is_above_every_step(sigma: float, epsilon: float) -> None:
    """Records x, x' and y of norm 1, at random and at the corners: E(X - λY - c)_+ is at most the stop-loss of Z."""
    lam, law = math.exp(epsilon), StepLaw.of(2 / sigma, math.exp(epsilon))
    x = np.array([1.0, 0.0, 0.0])
    corners = [(x, -x, -x), (x, -x, x), (-x, x, np.array([0.0, 1.0, 0.0]))]
    reached = 0.0
    for place in (-70, -20, -3, 0, 4, 15, 40):
        c = place * lam / 32
        bound = float(law.stop_loss(np.array([place]))[0]) + law.above
        for one, other, filler in [*corners, *unit_vectors(7, 25)]:
            value = spread_option((one - filler) / sigma, (other - filler) / sigma, lam, c)
            assert value <= bound * (1 + 1e-6)
            reached = max(reached, value / bound)
    assert reached > 1 - 1e-6  # by records that oppose one another


def draws_of_step(sigma: float, lam: float) -> Any:
    """Return Z = (X - λ)_+ - (λY - 1)_+ with X and Y of one normal variable, turned against one another."""
    mu = 2 / sigma
    x, y = (np.exp(mu * sign * U - mu * mu / 2) for sign in (1, -1))
    return np.maximum(x - lam, 0) - np.maximum(lam * y - 1, 0)


@pytest.mark.parametrize("sigma", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0, 4.0])
def test_two_steps_by_quadrature(sigma: float, epsilon: float) -> None:
    lam, mu = math.exp(epsilon), 2 / sigma
    z = draws_of_step(sigma, lam)
    below = lam * (call(mu, (1 + np.maximum(z, 0)) / lam) + (1 + np.maximum(z, 0)) / lam - 1)
    truth = float(MASS @ np.where(z <= 0, call(mu, lam - z), below)) / 2  # E(Z + z)_+, of a call or a put
    found = mean_of_sums(mu, epsilon, 5)
    if len(found) > 1:  # of little noise, next to ε = 0, the lattice is too long for two: the variance has to do
        assert truth * (1 - 1e-6) <= found[1] <= truth * 1.02 + 1e-12
    assert truth <= mean_by_variance(mu, epsilon, np.array([2.0]))[0]
    assert found[0] == pytest.approx(float(call(mu, np.array(lam))), rel=1e-12)
    assert np.all(np.diff(found) <= 0)


@pytest.mark.parametrize("sigma", [0.7, 2.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.1, 1.0])
def test_nothing_is_gained_beyond_the_lattice(sigma: float, epsilon: float) -> None:
    """There a step that is raised and cut has no positive mean: what is left out is no gain."""
    law = StepLaw.of(2 / sigma, math.exp(epsilon))
    assert float(law.gains(np.array([law.high]))[0]) <= 1e-12


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_the_variance_bounds_every_sum(epsilon: float) -> None:
    lam, z = math.exp(epsilon), draws_of_step(2.0, math.exp(epsilon))
    mean, square = float(MASS @ z), float(MASS @ (z * z))
    k = np.array([1.0, 10.0, 64.0])
    bound = (np.sqrt(k * (square - mean**2) + k * k * mean**2) + k * mean) / (2 * k)
    assert mean == pytest.approx(1 - lam, abs=1e-9)
    np.testing.assert_allclose(mean_by_variance(1.0, epsilon, k), bound, rtol=1e-6)
    few = mean_of_sums(1.0, epsilon, 64)
    assert np.all(few[[0, 9]] <= bound[:2] * 1.02)


@pytest.mark.parametrize(
    ("sigma", "steps", "epsilon", "bound"),
    [(2.0, 1000, 2.5, 5.16e-5), (2.0, 1000, 3.0, 1.169e-5)],  # by a search over the triples, with quadrature
)
def test_bounds_as_by_a_search_over_triples(sigma: float, steps: int, epsilon: float, bound: float) -> None:
    assert shuffled_delta(sigma, steps, epsilon) == pytest.approx(bound, rel=2e-3)


@pytest.mark.parametrize("n", [3, 6])
@pytest.mark.parametrize("sigma", [1.0, 2.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 1.6])
def test_no_adversary_of_three_batches_is_above(n: int, sigma: float, epsilon: float) -> None:
    """Of six records only those adversaries who treat all others alike, but for one."""
    batch = n // 3
    first, second = (list(orders([*range(n - 1), own], [batch] * 3)) for own in (n - 1, n))
    if n == 3:
        menus: Any = menus_of(2, [(1.0, -1.0), (-1.0, 1.0)], 3, (-1.0, 1.0))
    else:
        menus = [[(*crowd, 1.0, -1.0) for crowd in ((-1.0,) * 5, (1.0,) + (-1.0,) * 4, (1.0,) * 5)]] * 3
    truth = worst(first, second, menus, sigma, math.exp(epsilon))
    assert truth <= shuffled_delta(sigma, 3, epsilon) * (1 + 2e-2)  # the grid has kinks


def loader(sigma: float, **sizes: Any) -> Any:
    return cm.Gaussian(noise_multiplier=sigma).shuffled(neighbors=cm.REPLACE_ONE, **sizes)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "batches", "epochs"), [(2.0, 1000, 1), (5.0, 100, 10), (30.0, 20, 3)])
def test_epochs_cost_less_than_with_their_order_told(sigma: float, batches: int, epochs: int) -> None:
    told = loader(sigma, batches=batches, epochs=epochs)
    secret = told.sharpened()
    ends, before = secret.epsilon_interval(delta=1e-5), told.epsilon_interval(delta=1e-5)
    assert before.lower * (1 - 1e-8) <= ends.lower <= before.lower < ends.upper < 0.75 * before.upper
    assert not ends.certified
    assert secret.rdp(order=4.0) == told.rdp(order=4.0)
    for epsilon in (0.0, 0.3):  # chords and their reverse
        assert secret.delta(epsilon=epsilon) <= told.delta(epsilon=epsilon)
    assert secret.delta(epsilon=0.3) >= told.delta_interval(epsilon=0.3).lower


def test_little_noise_hides_nothing() -> None:
    """Then the order told is as good, up to chords."""
    told = loader(0.5, batches=10)
    assert told.sharpened().epsilon(delta=1e-6) <= told.epsilon(delta=1e-6) * (1 + 1e-3)


def test_what_is_covered_is_sharpened() -> None:
    assert isinstance(loader(1.0, batch=10, population=1005, drop_last=True).sharpened(), SecretOrder)
    gaussian = cm.Gaussian(noise_multiplier=1.0)
    others = [
        loader(1.0, batch=10, population=1005),
        loader(1.0, batch=10, population=1005, drop_last=False),
        loader(1.0, batches=1),
        loader(1.0, batches=5).group(size=2),
        gaussian.shuffled(batches=5, neighbors=cm.ZERO_OUT),
    ]
    for other in others:
        assert other.sharpened() == other
        with pytest.raises(cm.UnprovenCombination, match="secret order"):
            SecretOrder(mechanism=other)


def test_words_and_data_of_a_secret_order() -> None:
    run = loader(5.0, batches=20, epochs=2).sharpened()
    assert cm.from_dict(run.to_dict()) == run
    explanation = run.explain(delta=1e-5)
    assert "the order secret" in str(explanation)
    assert explanation.advice[0].endswith("(random_allocation)")
    assert "uniform and secret" in " ".join(assumptions_of(run))
