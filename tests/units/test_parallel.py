"""Releases about disjoint parts of the data cost what the worst of them does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism

STEP = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
PARTS: list[list[AbstractMechanism]] = [
    [cm.Gaussian(noise_multiplier=1.0), cm.Laplace(scale=0.5)],
    [STEP * 1000, cm.Laplace(scale=2.0) * 3],
    [cm.PureDP(epsilon=1.0), cm.ApproximateDP(epsilon=0.1, delta=1e-3)],
    [cm.ZCDP(rho=0.1), cm.Gaussian(noise_multiplier=3.0) * 5],
]


@pytest.mark.parametrize("parts", PARTS, ids=repr)
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_alone_it_is_the_worst_part(parts: list[AbstractMechanism], delta: float) -> None:
    together = cm.parallel(parts)
    worst = max(part.epsilon(delta=delta) for part in parts)
    assert worst * (1 - 1e-9) <= together.epsilon(delta=delta)
    if not any(isinstance(part, cm.ZCDP) for part in parts):  # where one part has a curve only, the curve answers
        assert together.epsilon(delta=delta) <= worst * (1 + 1e-9)
    orders = [1, 1.5, 2, 16, math.inf]
    np.testing.assert_array_equal(
        together.rdp(order=orders), np.max([part.rdp(order=orders) for part in parts], axis=0)
    )


def test_several_partitions_may_meet_in_one_record() -> None:
    """A record may be in either part of each release: every mixture is covered, by enumeration of small tables."""
    a = cm.StatedPair(probabilities=(0.7, 0.2, 0.1), neighbor_probabilities=(0.2, 0.3, 0.5), relation=cm.ADD_REMOVE)
    b = cm.RandomizedResponse(p=0.8)
    run = cm.parallel([a, b]) * 4
    for delta in (1e-1, 1e-3):
        claimed = run.epsilon(delta=delta)
        for mixture in itertools.product([a, b], repeat=4):
            assert cm.Composed.of([(part, 1) for part in mixture]).epsilon(delta=delta) <= claimed * (1 + 1e-12)


def test_it_composes_with_a_failure() -> None:
    run = cm.parallel([cm.ApproximateDP(epsilon=0.1, delta=1e-3), cm.PureDP(epsilon=1.0)]) + cm.Laplace(scale=10.0)
    assert run.epsilon(delta=1e-4) == math.inf
    assert run.epsilon(delta=1e-2) < 1.2


def test_relations_do_not_mix() -> None:
    with pytest.raises(cm.MixedNeighbors):
        cm.parallel([STEP, cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.01)])
    assert cm.parallel([STEP, cm.Laplace(scale=1.0)]).neighbors is cm.ADD_REMOVE


def test_a_sample_of_it_is_refused() -> None:
    with pytest.raises(cm.UnprovenCombination, match="sample every part"):
        cm.parallel([cm.Gaussian(noise_multiplier=1.0), cm.Laplace(scale=1.0)]).poisson(rate=0.1)


def test_equal_parts_are_one() -> None:
    assert cm.parallel([STEP, STEP, STEP]) == STEP


@pytest.mark.parametrize("parts", [[], ["Gaussian"], [1.0], 3, [[STEP]]])
def test_what_is_no_mechanism_is_refused(parts: list[AbstractMechanism]) -> None:
    with pytest.raises(cm.InvalidParameter, match="parts must be"):
        cm.parallel(parts)


def test_it_is_written_and_read() -> None:
    both = cm.parallel([STEP * 10, cm.Laplace(scale=2.0)])
    assert isinstance(both, cm.Parallel)
    assert cm.from_dict(both.to_dict()) == both
    with pytest.raises(cm.InvalidParameter):
        cm.from_dict({**both.to_dict(), "more": 1})


def test_groups_go_by_the_curve() -> None:
    both = cm.parallel([cm.Gaussian(noise_multiplier=5.0), cm.Laplace(scale=9.0)])
    alone = cm.Gaussian(noise_multiplier=5.0).group(size=3).epsilon(delta=1e-5)
    assert both.group(size=3).epsilon(delta=1e-5) >= alone
