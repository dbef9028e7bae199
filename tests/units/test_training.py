"""A training run becomes the mechanism that its data loader stands for, in the right unit."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

import pytest
from mpmath import exp, mp, mpf, ncdf

import cumulant as cm
from cumulant.loaders import ALSO_CALLED, ARGUMENTS, LOADERS, NAMES, takers
from cumulant.loaders.loader import AbstractLoader
from cumulant.neighbors import Neighbors
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.shuffled import Shuffled
from cumulant.sampling.without_replacement import SampledWithoutReplacement
from cumulant.training import Sampling, torch_coin

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
        ({"steps": 1, "sampling": "shuffle"}, "sampling must be 'poisson' or 'opacus' or 'without_repl"),
        ({"steps": 1, "sample_rate": 0.1}, "give batch_size and dataset_size, or sample_rate"),
        ({"steps": 1, "batch_size": None}, "batch_size must be"),
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


# The rate and the steps as a loader has them -------------------------------------------------------------------------


def test_the_rate_as_given_is_kept() -> None:
    run = cm.dp_sgd(noise_multiplier=1.0, sample_rate=1 / 195, steps=195 * 60)
    ((step, count),) = run.parts
    assert isinstance(step, PoissonSampled)
    assert (step.rate, count) == (1 / 195, 11_700)


@pytest.mark.parametrize("batches", [1, 3, 49, 98, 103, 195, 196, 10_007])
def test_an_epoch_of_a_loader_has_as_many_steps_as_batches(batches: int) -> None:
    """Also where the double next to 1/n is below it, so that 1/rate is above n."""
    run = cm.dp_sgd(noise_multiplier=1.0, sample_rate=1 / batches, epochs=7)
    assert sum(count for _, count in run.parts) == 7 * batches


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan, "0.1"])
def test_a_rate_is_a_probability(rate: Any) -> None:
    with pytest.raises(cm.InvalidParameter, match="sample_rate must be"):
        cm.dp_sgd(noise_multiplier=1.0, sample_rate=rate, steps=1)


def test_dropping_the_last_batch_costs_more_than_the_ratio_says() -> None:
    """50,000 records in 195 full batches: the loader's rate is 1/195, above 256/50000."""
    by_sizes = cm.dp_sgd(noise_multiplier=1.0, batch_size=256, dataset_size=50_000, epochs=60)
    by_loader = cm.dp_sgd(noise_multiplier=1.0, sample_rate=1 / 195, epochs=60)
    assert by_sizes.epsilon(delta=1e-5) == pytest.approx(3.13709, abs=5e-6)
    assert by_loader.epsilon(delta=1e-5) == pytest.approx(3.13998, abs=5e-6)


@pytest.mark.parametrize("rate", [1.0, 0.5, 1 / 3, 0.05, 1e-4, 1e-6, 1e-7, 2.0**-24, 2.0**-25])
def test_the_coin_counts_the_floats_below_the_rate(rate: float) -> None:
    """The grid of float32 numbers that are multiples of 2^-24, counted as integers."""
    hits = sum(1 for k in range(1 << 10) if Fraction(k, 1 << 10) < Fraction(rate))  # on a coarse grid, by hand
    assert math.ceil(Fraction(rate) * (1 << 10)) == hits
    coin = Fraction(torch_coin(rate))
    assert coin >= Fraction(rate)
    assert coin - Fraction(1, 1 << 24) < Fraction(rate)
    assert (coin * (1 << 24)).denominator == 1


def test_the_loader_of_opacus_by_its_name() -> None:
    """Its coin is 1/len(loader) on the grid, its epoch len(loader) steps, and the number of records is public."""
    sizes: dict[str, Any] = {"noise_multiplier": 1.0, "batch_size": 256, "dataset_size": 50_000}
    for drop_last, batches in ((None, 196), (False, 196), (True, 195)):
        run = cm.dp_sgd(**sizes, epochs=60, sampling="opacus", drop_last=drop_last)
        coin = torch_coin(1 / batches)
        assert run == cm.dp_sgd(noise_multiplier=1.0, sample_rate=coin, steps=60 * batches, neighbors=cm.ZERO_OUT)
    with pytest.raises(cm.UnprovenCombination, match="covered for zero-out"):
        cm.dp_sgd(**sizes, epochs=60, sampling="opacus", neighbors=cm.ADD_REMOVE)


# Gradients of several physical batches -------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement", "random_allocation", "shuffled"])
@pytest.mark.parametrize("length", [{"epochs": 3}, {"steps": 7}])
def test_what_is_accumulated_is_one_batch(sampling: Sampling, length: dict[str, Any]) -> None:
    """Sixteen batches of 16 are one of 256: the rate is that of the sum, and a step is one of the optimizer."""
    said: dict[str, Any] = {"bins": "kept"} if sampling == "random_allocation" else {}
    rest: dict[str, Any] = {"noise_multiplier": 1.5, "dataset_size": 60_000, "sampling": sampling, **length, **said}
    at_once = cm.dp_sgd(batch_size=256, **rest)
    assert cm.dp_sgd(batch_size=16, accumulation_steps=16, **rest) == at_once
    assert cm.dp_sgd(batch_size=256, accumulation_steps=1, **rest) == at_once
    assert sampling == "shuffled" or cm.dp_sgd(batch_size=16, **rest) != at_once


def test_batches_that_share_records_cost_more_than_one_that_is_cut_up() -> None:
    """Four samples of 64 whose gradients are added: a record is in Bin(4, 64/6000) of them, and counts as often."""
    rest: dict[str, Any] = {"noise_multiplier": 1.5, "dataset_size": 6_000, "steps": 100}
    cut_up = cm.dp_sgd(batch_size=64, accumulation_steps=4, **rest)
    law = [math.comb(4, j) * Fraction(64, 6000) ** j * (1 - Fraction(64, 6000)) ** (4 - j) for j in range(5)]
    shared = cm.GaussianMixture(noise_multiplier=1.5, sensitivities=range(5), probabilities=[*map(float, law)]) * 100
    assert 1.4088 < cut_up.epsilon(delta=1e-5) < 1.4089
    assert 1.4489 < shared.epsilon(delta=1e-5) < 1.449


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"accumulation_steps": 0}, "accumulation_steps must be a whole number >= 1"),
        ({"accumulation_steps": 2.0}, "accumulation_steps must be a whole number"),
        ({"accumulation_steps": 300}, "300 times batch_size must be at most the dataset_size of 60000"),
        ({"accumulation_steps": 2, "batch_size": None, "dataset_size": None, "sample_rate": 0.1}, "leave accumulation"),
    ],
)
def test_refusals_of_accumulation(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(cm.InvalidParameter, match=said):
        cm.dp_sgd(**{**USUAL, "steps": 1, **changed})


def test_batches_of_opacus_may_share_records() -> None:
    with pytest.raises(cm.UnprovenCombination, match="draws every physical batch by itself"):
        cm.dp_sgd(**USUAL, steps=1, sampling="opacus", accumulation_steps=2)


# What every loader says of itself -------------------------------------------------------------------------------------


def test_a_loader_is_known_by_all_its_names() -> None:
    assert set(get_args(Sampling)) == {*NAMES, *ALSO_CALLED}
    assert len(NAMES) + len(ALSO_CALLED) == len(get_args(Sampling))


@pytest.mark.parametrize("loader", LOADERS)
def test_a_loader_is_covered_for_what_it_names(loader: type[AbstractLoader]) -> None:
    """Every relation that it lists has a mechanism of that relation; others are refused."""
    said: dict[str, Any] = {"bins": "fresh"} if "bins" in loader.__dataclass_fields__ else {}
    said |= {"drop_last": False} if "drop_last" in loader.__dataclass_fields__ else {}
    plan = {"noise_multiplier": 1.0, "batch_size": 5, "dataset_size": 22, "epochs": 2, "sampling": loader.name, **said}
    assert loader.natural in loader.relations
    assert cm.dp_sgd(**plan).neighbors is loader.natural
    for relation in Neighbors:
        if relation in loader.relations:
            assert cm.dp_sgd(**plan, neighbors=relation).neighbors is relation
        else:
            with pytest.raises(cm.UnprovenCombination, match="has no theorem here for"):
                cm.dp_sgd(**plan, neighbors=relation)


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_argument_belongs_to_some_loaders(argument: str) -> None:
    for name in set(NAMES) - set(takers(argument)):
        wrong: dict[str, Any] = {"sampling": name, argument: 1}
        with pytest.raises(cm.InvalidParameter, match=f"{argument} belongs? to sampling="):
            cm.dp_sgd(**USUAL, epochs=1, **wrong)


# Loaders that walk through the data ----------------------------------------------------------------------------------


def test_epochs_without_amplification() -> None:
    run = cm.dp_sgd(**USUAL, epochs=2.5, sampling="shuffled")
    (epoch, whole), (part, one) = run.parts
    assert isinstance(epoch, Shuffled)
    assert (epoch.mechanism, epoch.neighbors) == (cm.Gaussian(noise_multiplier=1.5), cm.REPLACE_ONE)
    assert (whole, one, part) == (2, 1, replace(epoch, steps=117))
    plain = cm.Gaussian(noise_multiplier=0.75) * 3
    assert run.epsilon(delta=1e-5) == pytest.approx(plain.epsilon(delta=1e-5), rel=1e-12)
    assert not run.explain(delta=1e-5).guarantee.exact  # attained by an order that is known, not by a secret one
    twice, thrice = (cm.dp_sgd(**USUAL, epochs=n, sampling="shuffled").epsilon_interval(delta=1e-5) for n in (2, 3))
    assert twice.lower < run.epsilon_interval(delta=1e-5).lower < thrice.lower
    assert run.epsilon_interval(delta=1e-5).upper == thrice.upper  # an epoch that has begun is paid


def test_steps_begin_epochs() -> None:
    """60000/256 = 234.4 batches: with 234 or 235 steps an epoch, step 235 may be the first of the second epoch."""
    for steps, epochs in [(0, 0), (1, 1), (234, 1), (235, 2), (468, 2), (469, 3)]:
        run = cm.dp_sgd(**USUAL, steps=steps, sampling="shuffled")
        assert sum(count for _, count in run.parts) == epochs


@pytest.mark.parametrize(
    ("steps", "drop_last", "parts"),
    [
        (470, True, [(None, 2), (2, 1)]),
        (470, False, [(None, 2)]),
        (470, None, [(None, 2), (0, 1)]),
        (700, None, [(None, 2), (230, 1)]),
        (3, None, [(3, 1)]),
    ],
)
def test_steps_that_may_begin_an_epoch_pay_for_it_and_attain_nothing(
    steps: int, drop_last: bool | None, parts: list[tuple[int | None, int]]
) -> None:
    """An epoch has 234 full batches, and a short one that may be dropped."""
    run = cm.dp_sgd(**USUAL, steps=steps, sampling="shuffled", drop_last=drop_last)
    assert [(part.steps, count) for part, count in run.parts] == parts  # type: ignore[attr-defined]


def test_shuffled_runs_have_three_relations() -> None:
    plan = {**USUAL, "epochs": 1, "sampling": "shuffled"}
    ((nulls, _),) = cm.dp_sgd(**plan, neighbors=cm.ZERO_OUT).parts
    ((more, _),) = cm.dp_sgd(**plan, neighbors=cm.ADD_REMOVE, drop_last=True).parts
    assert (nulls.neighbors, more.neighbors) == (cm.ZERO_OUT, cm.ADD_REMOVE)
    with pytest.raises(cm.InvalidParameter, match="drop_last"):
        cm.dp_sgd(**plan, neighbors=cm.ADD_REMOVE)
    with pytest.raises(cm.InvalidParameter, match="needs batch_size and dataset_size"):
        cm.dp_sgd(
            noise_multiplier=1.0,
            sample_rate=0.01,
            epochs=1,
            sampling="shuffled",
            neighbors=cm.ADD_REMOVE,
            drop_last=True,
        )


def test_a_shuffled_epoch_is_not_below_what_a_dataset_attains() -> None:
    """Chua et al. (2024), crowd at -1 and x = +1 against a crowd alone: the largest batch sum tells.

    δ >= [1 - Φ((c-2)/σ)Φ(c/σ)^(t-1)] - e^ε[1 - Φ(c/σ)^t] for every threshold c; t batches, one epoch.
    """
    sigma, t, delta = 1.0, 100, 1e-5
    claimed = cm.dp_sgd(noise_multiplier=sigma, sample_rate=1 / t, epochs=1, sampling="shuffled").epsilon(delta=delta)
    poisson = cm.dp_sgd(noise_multiplier=sigma, sample_rate=1 / t, epochs=1).epsilon(delta=delta)

    def attained(epsilon: float, c: float) -> Any:
        caught = 1 - ncdf((c - 2) / sigma) * ncdf(c / sigma) ** (t - 1)
        return caught - exp(epsilon) * (1 - ncdf(c / sigma) ** t)

    with mp.workdps(30):
        thresholds = [mpf(k) / 10 for k in range(30, 90)]
        assert max(attained(5.39, c) for c in thresholds) > delta  # so the truth is above 5.39
        assert max(attained(claimed, c) for c in thresholds) <= delta
    assert poisson < 1
    assert claimed > 5.39


def test_epochs_of_two_relations_do_not_mix() -> None:
    with pytest.raises(cm.MixedNeighbors):
        cm.dp_sgd(**USUAL, epochs=1) + cm.dp_sgd(**USUAL, epochs=1, sampling="shuffled")


def test_a_group_moves_one_batch_most() -> None:
    run = cm.dp_sgd(**USUAL, epochs=4, sampling="shuffled")
    assert run.group(size=3).rdp(order=4.0) == pytest.approx((cm.Gaussian(noise_multiplier=0.25) * 4).rdp(order=4.0))


def test_epochs_are_written_and_read() -> None:
    run = cm.dp_sgd(**USUAL, epochs=4, sampling="shuffled")
    assert cm.from_dict(run.to_dict()) == run


# Noise for a target --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement", "random_allocation", "shuffled"])
def test_the_least_noise_keeps_the_budget(sampling: Sampling) -> None:
    plan: dict[str, Any] = {"batch_size": 250, "dataset_size": 50_000, "epochs": 3, "sampling": sampling}
    plan |= {"bins": "fresh"} if sampling == "random_allocation" else {}
    sigma = cm.dp_sgd_noise(epsilon=2.0, delta=1e-6, **plan)
    assert cm.dp_sgd(noise_multiplier=sigma, **plan).epsilon(delta=1e-6) <= 2.0
    assert cm.dp_sgd(noise_multiplier=sigma * (1 - 1e-7), **plan).epsilon(delta=1e-6) > 2.0
