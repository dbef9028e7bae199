"""Answers do not jump: rates towards 1 and 0, no releases, groups of one, samples of samples.

A jump where nothing about the release jumps means that two formulas are for two different things.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from high_precision import Sampled, delta
from strategies import SLOW

BASES: list[AbstractMechanism] = [
    cm.Gaussian(noise_multiplier=1.0),
    cm.Laplace(scale=0.8),
    cm.RandomizedResponse(p=0.8),
    cm.PureDP(epsilon=0.7),
    cm.ApproximateDP(epsilon=0.7, delta=1e-9),
    cm.StatedPair(probabilities=(0.125, 0.875), neighbor_probabilities=(0.5, 0.5)),
    cm.StatedPair(probabilities=(0.25, 0.25, 0.5), neighbor_probabilities=(0.5, 0.375, 0.125)),
]
NEARLY = 1 - 2.0**-40
CLOSE = 1e-6
DELTA = 1e-3

base = pytest.mark.parametrize("base", BASES, ids=repr)
count = pytest.mark.parametrize("count", [1, 12])


def assert_close(one: AbstractMechanism, other: AbstractMechanism) -> None:
    """ε, δ and both ends of the interval agree."""
    assert one.epsilon(delta=DELTA) == pytest.approx(other.epsilon(delta=DELTA), rel=CLOSE, abs=CLOSE)
    assert one.delta(epsilon=0.5) == pytest.approx(other.delta(epsilon=0.5), rel=CLOSE, abs=CLOSE)
    slow = any("Laplace" in repr(run) for run in (one, other))  # few releases with atoms: seconds for an interval
    if slow or one._known().directions(None) is None or other._known().directions(None) is None:
        return
    near, far = one.delta_interval(epsilon=0.5), other.delta_interval(epsilon=0.5)
    assert near.upper == pytest.approx(far.upper, rel=CLOSE, abs=CLOSE)
    assert near.lower == pytest.approx(far.lower, rel=CLOSE, abs=CLOSE)


@base
@count
def test_poisson_samples_of_nearly_everyone(base: AbstractMechanism, count: int) -> None:
    assert_close(base.poisson(rate=NEARLY) * count, base.poisson(rate=1.0) * count)


@base
@count
def test_poisson_samples_of_nearly_everyone_under_replace_one(base: AbstractMechanism, count: int) -> None:
    nearly = all_or_refused(base, NEARLY, cm.REPLACE_ONE)
    everyone = all_or_refused(base, 1.0, cm.REPLACE_ONE)
    assert (nearly is None) == (everyone is None)
    if nearly is not None and everyone is not None:
        assert_close(nearly * count, everyone * count)


def all_or_refused(base: AbstractMechanism, rate: float, relation: object) -> AbstractMechanism | None:
    try:
        return base.poisson(rate=rate, neighbors=relation)  # type: ignore[arg-type]
    except cm.UnprovenCombination:
        return None


@pytest.mark.slow
@base
@count
def test_fixed_batches_of_nearly_everyone(base: AbstractMechanism, count: int) -> None:
    assert_close(base.without_replacement(rate=NEARLY) * count, base.without_replacement(rate=1.0) * count)


@base
def test_a_batch_of_everyone_has_no_neighbour_with_fewer_records(base: AbstractMechanism) -> None:
    with pytest.raises(cm.UnprovenCombination):
        base.without_replacement(batch=5, population=5, neighbors=cm.ADD_REMOVE)


@base
def test_samples_of_hardly_anyone(base: AbstractMechanism) -> None:
    for tiny, nothing in (
        (base.poisson(rate=1e-12), base.poisson(rate=0.0)),
        (base.without_replacement(rate=1e-12), base.without_replacement(rate=0.0)),
        (base.without_replacement(rate=1e-12, neighbors=cm.ADD_REMOVE), base.poisson(rate=0.0)),
    ):
        assert nothing.epsilon(delta=DELTA) == nothing.delta(epsilon=0.0) == 0
        assert tiny.epsilon(delta=DELTA) == 0
        assert 0 < tiny.delta(epsilon=0.0) < 1e-11


@base
def test_no_release_costs_nothing(base: AbstractMechanism) -> None:
    for mechanism in (base, base.poisson(rate=0.1), base.without_replacement(rate=0.1)):
        none = mechanism * 0
        assert none.epsilon(delta=0.0) == none.delta(epsilon=0.0) == 0
        assert none.epsilon_interval(delta=DELTA).upper == none.delta_interval(epsilon=0.0).upper == 0
        assert (none + mechanism).epsilon(delta=DELTA) == (mechanism * 1).epsilon(delta=DELTA)
    assert (base * 0).poisson(rate=0.1).epsilon(delta=0.0) == 0


@pytest.mark.parametrize(
    "mechanism",
    [
        *BASES[:5],
        cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1),
        cm.Gaussian(noise_multiplier=1.0).poisson(rate=1.0),
        cm.Laplace(scale=0.8).poisson(rate=0.1),
        cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.1),
    ],
    ids=repr,
)
@count
def test_a_group_of_one_is_one_record(mechanism: AbstractMechanism, count: int) -> None:
    run = mechanism * count
    assert run.group(size=1).epsilon(delta=DELTA) == pytest.approx(run.epsilon(delta=DELTA), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3] if SLOW else [2])
def test_groups_in_samples_of_nearly_everyone(size: int) -> None:
    noise = cm.Gaussian(noise_multiplier=1.0)
    assert_close(noise.poisson(rate=NEARLY).group(size=size) * 3, noise.poisson(rate=1.0).group(size=size) * 3)


@base
@pytest.mark.parametrize("rates", [(0.5, 0.25), (1.0, 0.2), (0.2, 1.0)])
def test_a_sample_of_a_sample_is_a_sample(base: AbstractMechanism, rates: tuple[float, float]) -> None:
    once = base.poisson(rate=rates[0] * rates[1]) * 5
    assert_close(base.poisson(rate=rates[0]).poisson(rate=rates[1]) * 5, once)


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.5, 0.25), (1.0, 0.2), (0.1, 1.0), (0.1, NEARLY)])
@count
def test_a_sample_of_a_sample_under_replace_one(rates: tuple[float, float], count: int) -> None:
    noise = cm.Gaussian(noise_multiplier=1.0)
    once = noise.poisson(rate=rates[0] * rates[1], neighbors=cm.REPLACE_ONE) * count
    assert_close(noise.poisson(rate=rates[0]).poisson(rate=rates[1], neighbors=cm.REPLACE_ONE) * count, once)


@pytest.mark.parametrize("log_delta", [-2, -3, -5, -9])
def test_everyone_of_a_sample_is_that_sample(log_delta: int) -> None:
    """The second sample takes all of the first: N(±1) inside the mixture at rate 0.1, not a group of two."""
    target = 10.0**log_delta
    nested = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1).poisson(rate=1.0, neighbors=cm.REPLACE_ONE)
    interval = nested.epsilon_interval(delta=target)
    law = Sampled("gaussian", Fraction(1), Fraction(0.1), "replaced")
    assert math.isfinite(interval.upper)
    assert not delta([(law, 1)], interval.upper) > target
    assert not delta([(law, 1)], nested.epsilon(delta=target)) > target
    assert interval.lower == 0 or not delta([(law, 1)], interval.lower) < target
