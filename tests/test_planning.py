"""Planning never overshoots a budget and leaves nothing on the table."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from mpmath import exp, findroot, log, mp, mpf, ncdf, sqrt

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism


def exact_noise(count: int, epsilon: float, delta: float) -> float:
    """Return σ with Φ(-ε/μ+μ/2) - e^ε Φ(-ε/μ-μ/2) = δ, μ = √count/σ, in mpmath."""
    with mp.workdps(40):
        e, d = mpf(epsilon), mpf(delta)

        def excess(mu: mpf) -> mpf:
            return log(ncdf(-e / mu + mu / 2) - exp(e) * ncdf(-e / mu - mu / 2)) - log(d)

        mu = findroot(excess, (mpf("0.01"), mpf(5)), solver="anderson", tol=mpf(10) ** -30)
        return float(sqrt(count) / mu)


@pytest.mark.parametrize(
    ("count", "epsilon", "delta"), [(1, 1.0, 1e-5), (1000, 1.0, 1e-5), (10, 0.1, 1e-3), (7, 20.0, 1e-12)]
)
def test_gaussian_noise_is_the_exact_one(count: int, epsilon: float, delta: float) -> None:
    noise = cm.calibrate(lambda sigma: cm.Gaussian(noise_multiplier=sigma) * count, epsilon=epsilon, delta=delta)
    reference = exact_noise(count, epsilon, delta)
    assert reference * (1 - 1e-12) <= noise <= reference * (1 + 2e-9)


BUILDERS: dict[str, Callable[[float], AbstractMechanism]] = {
    "poisson": lambda x: cm.Gaussian(noise_multiplier=x).poisson(rate=0.01) * 1000,
    "batch": lambda x: cm.Gaussian(noise_multiplier=x).without_replacement(rate=0.01) * 100,
    "laplace": lambda x: cm.Laplace(scale=x) * 20,
    "laplace and more": lambda x: cm.Laplace(scale=x) * 20 + cm.Gaussian(noise_multiplier=100.0),
}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_budget_is_met_and_not_by_much(name: str, epsilon: float) -> None:
    build = BUILDERS[name]
    value = cm.calibrate(build, epsilon=epsilon, delta=1e-6, method="rdp")
    assert build(value).epsilon(delta=1e-6, method="rdp") <= epsilon
    assert build(value * (1 - 2e-9)).epsilon(delta=1e-6, method="rdp") > epsilon


def test_dp_sgd_noise_by_renyi_dp() -> None:
    """Another accountant's Rényi path, on its grid of orders, finds 1.51312."""
    noise = cm.calibrate(BUILDERS["poisson"], epsilon=1.0, delta=1e-5, method="rdp")
    assert 1.41462 <= noise <= 1.51312  # the exact value is 1.41462


@pytest.mark.parametrize(
    "step",
    [cm.Gaussian(noise_multiplier=20.0), cm.Laplace(scale=5.0), cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)],
    ids=repr,
)
def test_max_count_is_the_last_that_fits(step: AbstractMechanism) -> None:
    count = cm.max_count(step, epsilon=2.0, delta=1e-5)
    assert (step * count).epsilon(delta=1e-5) <= 2.0 < (step * (count + 1)).epsilon(delta=1e-5)


def test_a_budget_that_nothing_meets() -> None:
    expensive = cm.Gaussian(noise_multiplier=0.1)
    with pytest.raises(cm.InvalidParameter, match="no parameter up to"):
        cm.calibrate(lambda scale: cm.Laplace(scale=scale) + expensive, epsilon=0.1, delta=1e-5)
    assert cm.max_count(expensive, epsilon=0.1, delta=1e-5) == 0


def test_a_step_that_costs_nothing() -> None:
    with pytest.raises(cm.InvalidParameter, match="must cost something"):
        cm.max_count(cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.0), epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("epsilon", [math.nan, -1.0, math.inf])
def test_bad_budgets(epsilon: float) -> None:
    with pytest.raises(cm.InvalidParameter, match="epsilon"):
        cm.max_count(cm.Laplace(scale=1.0), epsilon=epsilon, delta=1e-5)
    with pytest.raises(cm.InvalidParameter, match="epsilon"):
        cm.calibrate(lambda scale: cm.Laplace(scale=scale), epsilon=epsilon, delta=1e-5)
