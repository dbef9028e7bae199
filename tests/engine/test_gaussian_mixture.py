"""Gaussian noise on what a record adds at random: against integrals of many digits, sums, and the cases it contains."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf

import cumulant as cm

CASES: dict[str, tuple[float, list[float], list[float]]] = {
    "counts": (2.0, [0.0, 1.0, 2.0], [0.9, 0.09, 0.01]),
    "always": (1.0, [0.5, 2.0], [0.25, 0.75]),
    "rarely much": (0.3, [0.0, 1.0, 3.0], [0.998, 0.001, 0.001]),
    "next to nothing": (50.0, [0.0, 0.1, 1.0], [0.5, 0.25, 0.25]),
}


def mechanism(name: str) -> cm.GaussianMixture:
    noise, amounts, shares = CASES[name]
    return cm.GaussianMixture(noise_multiplier=noise, sensitivities=amounts, probabilities=shares)


def parts(name: str) -> list[tuple[mpf, mpf]]:
    noise, amounts, shares = CASES[name]
    return [(mpf(s) / mpf(noise), mpf(p) / mp.fsum(shares)) for s, p in zip(amounts, shares, strict=True)]


def ratio(name: str, t: mpf) -> mpf:
    return mp.fsum(p * mp.exp(m * t - m * m / 2) for m, p in parts(name))


def true_delta(name: str, epsilon: float) -> mpf:
    """Return the larger of both orders by normal tails at the threshold, which bisection finds."""
    e = mpf(epsilon)

    def threshold(u: mpf) -> mpf:
        low, high = mpf(-2000), mpf(2000)
        for _ in range(300):
            middle = (low + high) / 2
            low, high = (middle, high) if ratio(name, middle) < mp.exp(u) else (low, middle)
        return low

    t = threshold(e)
    leaves = mp.fsum(p * mp.ncdf(m - t) for m, p in parts(name)) - mp.exp(e) * mp.ncdf(-t)
    nothing = mp.fsum(p for m, p in parts(name) if m == 0)
    if mp.exp(-e) <= nothing:
        return leaves
    t = threshold(-e)
    return max(leaves, mp.ncdf(t) - mp.exp(e) * mp.fsum(p * mp.ncdf(t - m) for m, p in parts(name)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.05, 0.5, 2.0, 9.0])
def test_the_profile_of_one_release(name: str, epsilon: float) -> None:
    with mp.workdps(60):
        truth = mp.log(true_delta(name, epsilon))
        found = mechanism(name).log_delta(epsilon=epsilon)
        assert truth <= found
        if truth > -20_000:  # no double holds less than a bound of it
            assert found <= truth + mpf("1e-10") + mpf("2e-14") * abs(truth)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", [2, 3, 7])
def test_moments_of_leaving_by_sums(name: str, order: int) -> None:
    """E_Q w^α = Σ over α draws of Π p e^{Σ_{i<j} m_i m_j}; the other order on a fine grid."""
    with mp.workdps(40):
        leaves = mpf(0)
        for drawn in product(parts(name), repeat=order):
            means = [m for m, _ in drawn]
            cross = (mp.fsum(means) ** 2 - mp.fsum(m * m for m in means)) / 2
            leaves += mp.fprod(p for _, p in drawn) * mp.exp(cross)
        step = mpf(1) / 16
        joins = mp.fsum(
            step * mp.npdf(step * k) * ratio(name, step * k) ** (1 - order) for k in range(-16 * 60, 16 * 40)
        )
        truth = mp.log(max(leaves, joins)) / (order - 1)
        assert mechanism(name).rdp(order=order) == pytest.approx(float(truth), rel=1e-9)


def test_one_amount_is_a_gaussian_and_a_coin_a_poisson_sample() -> None:
    one = cm.GaussianMixture(noise_multiplier=3.0, sensitivities=[1.5], probabilities=[1.0])
    coin = cm.GaussianMixture(noise_multiplier=1.1, sensitivities=[0.0, 1.0], probabilities=[0.99, 0.01])
    group = cm.GaussianMixture(
        noise_multiplier=1.5,
        sensitivities=[0.0, 1.0, 2.0, 3.0],
        probabilities=[math.comb(3, j) * 0.05**j * 0.95 ** (3 - j) for j in range(4)],
    )
    same = {
        one: cm.Gaussian(noise_multiplier=2.0),
        coin: cm.Gaussian(noise_multiplier=1.1).poisson(rate=0.01),
        group: cm.Gaussian(noise_multiplier=1.5).poisson(rate=0.05).group(size=3),
    }
    for mixture, other in same.items():
        for count in (1, 200):
            expected = (other * count).epsilon(delta=1e-6)
            assert (mixture * count).epsilon(delta=1e-6) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["counts", "always", "rarely much"])
@pytest.mark.parametrize("count", [60])
def test_runs_lie_in_certified_intervals(name: str, count: int) -> None:
    run = mechanism(name) * count
    interval = run.epsilon_interval(delta=1e-6)
    epsilon = run.epsilon(delta=1e-6)
    assert interval.lower <= epsilon
    assert epsilon == pytest.approx(interval.upper, rel=1e-6)


def test_a_mixture_on_samples_is_a_mixture_with_more_nothing() -> None:
    inner = mechanism("counts").poisson(rate=0.1) * 30
    whole = cm.GaussianMixture(noise_multiplier=2.0, sensitivities=[0.0, 1.0, 2.0], probabilities=[0.99, 0.009, 0.001])
    assert inner.epsilon(delta=1e-6) == pytest.approx((whole * 30).epsilon(delta=1e-6), rel=1e-7)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sensitivities": [1.0], "probabilities": [0.5]}, "probabilities must add up to 1"),
        ({"sensitivities": [1.0, 2.0], "probabilities": [1.0]}, "as many as probabilities"),
        ({"sensitivities": [-1.0], "probabilities": [1.0]}, "sensitivities must be"),
        ({"sensitivities": [0.0], "probabilities": [1.0]}, "above 0"),
        ({"sensitivities": [math.inf], "probabilities": [1.0]}, "finite"),
        ({"sensitivities": [], "probabilities": []}, "at least one"),
        ({"sensitivities": 1.0, "probabilities": [1.0]}, "sequence"),
        ({"sensitivities": [1.0], "probabilities": [1.0], "relation": cm.REPLACE_ONE}, "ZERO_OUT"),
    ],
)
def test_refusals(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(cm.InvalidParameter, match=said):
        cm.GaussianMixture(noise_multiplier=1.0, **arguments)  # type: ignore[arg-type]


def test_it_goes_to_data_and_back_and_says_what_it_is() -> None:
    mixture = mechanism("counts")
    assert cm.from_dict(mixture.to_dict()) == mixture
    assert "3 amounts" in mixture.statement(delta=1e-6)
    assert np.all(np.diff(mixture.tradeoff(false_positive_rate=[0.01, 0.1, 0.5])) < 0)


@pytest.mark.parametrize("noise", [1e-300, 1e-3, 1e150])
@pytest.mark.parametrize("amount", [1e-300, 1.0, 1e150])
def test_extremes_have_bounds(noise: float, amount: float) -> None:
    """With next to no noise everything is revealed, with next to no amount nothing; no double is out of range."""
    run = cm.GaussianMixture(noise_multiplier=noise, sensitivities=[0.0, amount], probabilities=[0.5, 0.5])
    for mechanism in (run, run * 5):
        epsilon, rdp = mechanism.epsilon(delta=1e-5), mechanism.rdp(order=2.0)
        mean = amount / noise if amount > noise * 1e-300 else 0.0
        assert epsilon >= 0
        assert rdp >= 0
        assert (epsilon > 1) == (mean >= 1)


def test_renyi_bounds_of_large_deltas_are_not_below_the_exact_ones() -> None:
    """Next to order 1, where K is tiny, a sum of shares must not lose it: δ(0.05) was once said to be 1e-307."""
    amounts, shares = [0.0184, 2.522, 0.1704, 0.0283], [0.003, 0.276, 0.7205, 0.0005]
    run = cm.GaussianMixture(noise_multiplier=5.36, sensitivities=amounts, probabilities=shares) * 3
    for epsilon in (0.0, 0.01, 0.05, 0.1):
        assert run.delta(epsilon=epsilon, method="rdp") >= run.delta(epsilon=epsilon, method="exact") * (1 - 1e-9)
