"""A training run becomes the mechanism that its data loader stands for, in the right unit."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from mpmath import exp, mp, mpf, ncdf

import cumulant as cm
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.without_replacement import SampledWithoutReplacement
from cumulant.training import Sampling

USUAL: dict[str, Any] = {"noise_multiplier": 1.5, "batch_size": 256, "dataset_size": 60_000}


def test_poisson_keeps_the_noise_multiplier() -> None:
    run = cm.dp_sgd(**USUAL, epochs=60)
    ((step, count),) = run.parts
    assert isinstance(step, PoissonSampled)
    assert step.mechanism == cm.Gaussian(noise_multiplier=1.5)
    assert step.neighbors is cm.ADD_REMOVE
    assert count == math.ceil(Fraction(60) * 60_000 / 256) == 14_063


def test_without_replacement_halves_the_noise_multiplier() -> None:
    run = cm.dp_sgd(**USUAL, steps=10, sampling="without_replacement")
    ((step, count),) = run.parts
    assert isinstance(step, SampledWithoutReplacement)
    assert step.mechanism == cm.Gaussian(noise_multiplier=0.75)
    assert (step.neighbors, count) == (cm.REPLACE_ONE, 10)


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement"])
@pytest.mark.parametrize(("b", "n"), [(1, 3), (2, 3), (256, 60_000), (1, 10), (7, 7), (10**15 + 1, 3 * 10**17)])
def test_the_rate_is_the_next_double_at_or_above(b: int, n: int, sampling: Sampling) -> None:
    run = cm.dp_sgd(noise_multiplier=1.0, batch_size=b, dataset_size=n, steps=1, sampling=sampling)
    step = run.parts[0][0]
    assert isinstance(step, PoissonSampled | SampledWithoutReplacement)
    assert Fraction(math.nextafter(step.rate, 0.0)) < Fraction(b, n) <= Fraction(step.rate)


@pytest.mark.parametrize(
    ("epochs", "b", "n", "steps"),
    [
        (1, 10, 100, 10),
        (0.1, 10, 1000, 10),  # the double 0.1 is above 1/10; what was meant is not
        (0.3, 1, 10, 3),
        (1 / 3, 1, 10, 4),
        (1.001, 10, 100, 11),
        (2, 30, 100, 7),  # 6.67 batches: the one that was begun counts
        (0.0, 10, 100, 0),
        (1e-300, 10, 100, 1),
    ],
)
def test_a_step_begun_is_a_step(epochs: float, b: int, n: int, steps: int) -> None:
    run = cm.dp_sgd(noise_multiplier=1.0, batch_size=b, dataset_size=n, epochs=epochs)
    assert run == cm.dp_sgd(noise_multiplier=1.0, batch_size=b, dataset_size=n, steps=steps)
    assert sum(count for _, count in run.parts) == steps


@pytest.mark.parametrize(("sampling", "sensitivity"), [("poisson", 1), ("without_replacement", 2)])
def test_the_whole_data_in_every_step_is_the_gaussian_mechanism(sampling: Sampling, sensitivity: int) -> None:
    """Then no sampling is left, and RDP(α) = steps α s²/(2σ²) with s clipping norms of sensitivity."""
    run = cm.dp_sgd(noise_multiplier=4.0, batch_size=50, dataset_size=50, epochs=9, sampling=sampling)
    for order in (1.5, 2.0, 17.0):
        assert run.rdp(order=order) == pytest.approx(9 * order * sensitivity**2 / (2 * 4.0**2), rel=1e-12)


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize("sigma", [0.7, 1.0, 3.0])
def test_one_step_on_two_records_is_covered(sigma: float, delta: float) -> None:
    """Gradients -1 and 1 against 1 and 1, one drawn at random: (N(-1) + N(1))/2 against N(1), in closed form."""
    run = cm.dp_sgd(noise_multiplier=sigma, batch_size=1, dataset_size=2, steps=1, sampling="without_replacement")
    with mp.workdps(30):
        s, e = mpf(sigma), exp(mpf(run.epsilon(delta=delta)))
        x = -(s**2) / 2 * mp.log(2 * e - 1)  # the ratio 1/2 + exp(-2x/s²)/2 is e^ε there
        forward = (ncdf((x + 1) / s) - (2 * e - 1) * ncdf((x - 1) / s)) / 2
        back = mpf(0)
        if e < 2:
            x = -(s**2) / 2 * mp.log(2 / e - 1)
            back = (1 - e / 2) * ncdf((1 - x) / s) - e / 2 * ncdf((-1 - x) / s)
        assert max(forward, back) <= mpf(delta)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_one_poisson_step_is_covered(epsilon: float) -> None:
    """A gradient of norm 1 that joins with probability 1/4: (3/4)N(0) + (1/4)N(1) against N(0), in closed form."""
    run = cm.dp_sgd(noise_multiplier=1.0, batch_size=1, dataset_size=4, steps=1)
    with mp.workdps(30):
        e, q = exp(mpf(epsilon)), mpf(1) / 4
        x = mp.log((e - 1 + q) / q) + mpf(1) / 2  # the ratio 1 - q + q exp(x - 1/2) is e^ε there
        exact = (1 - q) * ncdf(-x) + q * ncdf(1 - x) - e * ncdf(-x)
    assert run.delta(epsilon=epsilon) >= float(exact) * (1 - 1e-12)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "give either epochs or steps"),
        ({"epochs": 1, "steps": 1}, "give either epochs or steps"),
        ({"epochs": -1}, "epochs must be"),
        ({"epochs": math.nan}, "epochs must be"),
        ({"epochs": math.inf}, "epochs must be"),
        ({"epochs": "1"}, "epochs must be"),
        ({"steps": 1.0}, "steps must be a whole number"),
        ({"steps": -1}, "steps must be a whole number"),
        ({"steps": 1, "batch_size": 0}, "batch_size must be"),
        ({"steps": 1, "batch_size": 256.0}, "batch_size must be"),
        ({"steps": 1, "batch_size": 60_001}, "batch_size must be at most the dataset_size of 60000"),
        ({"steps": 1, "dataset_size": 0}, "dataset_size must be"),
        ({"steps": 1, "noise_multiplier": 0.0}, "noise_multiplier must be"),
        ({"steps": 1, "noise_multiplier": 5e-324, "sampling": "without_replacement"}, "noise_multiplier must be"),
        ({"steps": 1, "sampling": "shuffle"}, "sampling must be 'poisson' or 'without_replacement'"),
        ({"steps": 1, "sampling": None}, "sampling must be"),
        ({"steps": 1, "sampling": []}, "sampling must be"),
    ],
)
def test_refusals_say_what_is_wrong(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(cm.InvalidParameter, match=said):
        cm.dp_sgd(**{**USUAL, **changed})


def test_it_composes_with_other_releases() -> None:
    run = cm.dp_sgd(**USUAL, steps=100)
    assert (run + cm.Laplace(scale=10.0)).epsilon(delta=1e-5) > run.epsilon(delta=1e-5)
    with pytest.raises(cm.MixedNeighbors):
        run + cm.dp_sgd(**USUAL, steps=100, sampling="without_replacement")
