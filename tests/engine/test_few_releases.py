"""Few and rare releases: answers against integrals over one loss, the losses that alone make up δ, and formulas."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

import cumulant as cm
from high_precision import log_delta_of_samples


def profile_of_one(mean: mpf, rate: mpf, epsilon: mpf) -> mpf:
    """Return δ(ε) of one release, of any sign of ε: P(L > ε) - e^ε Q(L > ε)."""
    inner = (mp.exp(epsilon) - 1 + rate) / rate
    if inner <= 0:
        return 1 - mp.exp(epsilon)
    t = mp.log(inner) / mean + mean / 2
    above = mp.erfc((t - mean) / mp.sqrt(2)) / 2, mp.erfc(t / mp.sqrt(2)) / 2
    return rate * above[0] + (1 - rate) * above[1] - mp.exp(epsilon) * above[1]


@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [
        ((1.0, 0.01), (1.0, 0.01), 0.3),
        ((1.0, 0.01), (0.5, 0.2), 0.9),
        ((2.0, 1e-4), (2.0, 1e-4), 0.05),
        ((0.3, 1e-3), (0.3, 1e-3), 0.004),
        ((2.0, 1e-5), (1.0, 1e-3), 2.0),
        ((0.05, 0.3), (0.07, 0.1), 0.06),
        ((1 / 1.1, 2e-4), (1 / 1.1, 2e-4), 1e-4),  # all others may make up for a loss of this size
        ((1.0, 1e-3), (1.0, 1e-3), 5e-4),
        ((1.25, 1e-5), (1.25, 1e-5), 1e-5),
        ((1.0, 0.99), (1 / 0.3, 5.4e-5), 0.3),
    ],
)
def test_two_releases(first: tuple[float, float], second: tuple[float, float], epsilon: float) -> None:
    samples = [first, second]
    truth = log_delta_of_samples(samples, epsilon)
    run = [cm.Gaussian(noise_multiplier=1 / mean).poisson(rate=rate) * 1 for mean, rate in (first, second)]
    both = run[0] + run[1]
    log_delta = both.log_delta(epsilon=epsilon)
    # exact: an ε smaller by 1e-6 of itself would not do
    assert truth <= log_delta <= log_delta_of_samples(samples, epsilon * (1 - 1e-6))
    for factor in (0.8, 1.2):
        assert log_delta_of_samples(samples, epsilon * factor) <= both.log_delta(epsilon=epsilon * factor)


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [
        (0.4849, 1.479e-6, 708525, 4.84e-19),
        (0.4, 1e-5, 1000, 1e-10),
        (0.3267, 1.223e-6, 194584, 5.47e-24),
        (1.0512, 1.325e-6, 50, 8.97e-29),
        (1.4452, 3.008e-5, 3, 3.8e-23),
    ],
)
def test_rare_events_are_exact(sigma: float, rate: float, count: int, delta: float) -> None:
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    guarantee = run.guarantee(delta=delta)
    assert guarantee.exact
    # at least one of the losses alone, given that all others are least: δ_n(ε) >= nδ_1(ε - (n-1) log(1-γ))·(1-γ)^{n-1}
    mean, gamma = 1 / mpf(sigma), mpf(rate)
    least = (count - 1) * mp.log1p(-gamma)
    assert guarantee.delta >= profile_of_one(mean, gamma, mpf(guarantee.epsilon) - least) * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_small_losses_of_one_release_keep_their_digits(seed: int) -> None:
    """δ(ε) of one sample has a formula, γ·δ_μ(log(1 + (e^ε-1)/γ)); next to ε = 0 every digit of a loss counts."""
    generator = np.random.default_rng(seed)
    noise, batch = 10 ** generator.uniform(-0.5, 4), int(generator.integers(1, 400))
    run = (cm.Gaussian(noise_multiplier=float(noise)) * 2).without_replacement(
        batch=batch, population=484, neighbors=cm.ADD_REMOVE
    )
    epsilon = float(10 ** generator.uniform(-3, 1)) * batch / 484 / noise
    with mp.workdps(50):
        rate, mean = mpf(batch) / 484, mp.sqrt(2) / mpf(float(noise))
        base = mp.log1p(mp.expm1(mpf(epsilon)) / rate)
        exact = rate * (mp.ncdf(-base / mean + mean / 2) - mp.exp(base) * mp.ncdf(-base / mean - mean / 2))
        assert run.log_delta(epsilon=epsilon) >= mp.log(exact)
