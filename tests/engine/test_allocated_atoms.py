"""Random allocation of mechanisms on finitely many outputs, against every sequence of outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import cumulant as cm

Law = Sequence[float]
EPSILONS = (0.0, 0.1, 0.7, 1.5)


def truth(p: Law, q: Law, epsilon: float, plan: tuple[int, int, int]) -> float:
    """Return the larger δ of both directions by the definition: the record's bins are a uniform subset."""
    steps, chosen, epochs = plan
    subsets = list(combinations(range(steps), chosen))
    outputs = product(range(len(p)), repeat=steps * epochs)
    deltas = [0.0, 0.0]
    for seen in outputs:
        without = math.prod(q[o] for o in seen)
        joined = sum(math.prod((p if i % steps in c else q)[o] for i, o in enumerate(seen)) for c in subsets)
        joined /= len(subsets)
        deltas[0] += max(joined - math.exp(epsilon) * without, 0.0)
        deltas[1] += max(without - math.exp(epsilon) * joined, 0.0)
    return max(deltas)


LAWS: list[tuple[Any, Law, Law]] = [
    (cm.RandomizedResponse(p=0.7), (0.7, 0.3), (0.3, 0.7)),
    (cm.PureDP(epsilon=math.log(3)), (0.75, 0.25), (0.25, 0.75)),
    (cm.ApproximateDP(epsilon=math.log(3), delta=0.25), (0.25, 0.5625, 0.1875, 0), (0, 0.1875, 0.5625, 0.25)),
]
LAWS += [
    (cm.StatedPair(probabilities=p, neighbor_probabilities=q), p, q)
    for p, q in [
        ((0.5, 0.25, 0.25), (0.25, 0.25, 0.5)),
        ((0.625, 0.25, 0.125), (0.25, 0.5, 0.25)),  # two outputs with one ratio
        ((0.5, 0.5, 0.0), (0.25, 0.5, 0.25)),
        ((0.25, 0.5, 0.25), (0.5, 0.5, 0.0)),
    ]
]


@pytest.mark.parametrize(("mechanism", "p", "q"), LAWS)
@pytest.mark.parametrize("plan", [(2, 1, 1), (4, 1, 1), (4, 2, 1), (4, 3, 1), (3, 3, 1), (2, 1, 2)])
def test_as_defined(mechanism: Any, p: Law, q: Law, plan: tuple[int, int, int]) -> None:
    steps, chosen, epochs = plan
    run = mechanism.random_allocation(steps=steps, chosen=chosen, epochs=epochs, bins="kept")
    for epsilon in EPSILONS:
        expected = truth(p, q, epsilon, plan)
        assert run.delta(epsilon=epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-14)
        assert run.delta(epsilon=epsilon) >= expected * (1 - 1e-13)
        interval = run.delta_interval(epsilon=epsilon)
        assert interval.certified
        assert interval.lower - 1e-15 <= expected <= interval.upper + 1e-15


def test_every_policy_of_three_steps() -> None:
    """Queries that depend on what was released: none of all policies of randomized responses passes the bound."""
    menu = [(0.7, 0.3), (0.5, 0.5), (0.3, 0.7)]  # P of the output 1: the record's answer, none, its opposite
    run = cm.RandomizedResponse(p=0.7).random_allocation(steps=3)
    bounds = [run.delta(epsilon=epsilon) for epsilon in EPSILONS]
    worst = np.zeros(len(EPSILONS))
    seen = list(product((0, 1), repeat=3))
    for policy in product(menu, repeat=7):  # one query at first, two after the first output, four after the second
        joined, without = np.zeros(8), np.zeros(8)
        for i, outputs in enumerate(seen):
            queries = policy[0], policy[1 + outputs[0]], policy[3 + 2 * outputs[0] + outputs[1]]
            with_record = [query[o] for query, o in zip(queries, outputs, strict=True)]
            plain = [query[1 - o] for query, o in zip(queries, outputs, strict=True)]
            without[i] = math.prod(plain)
            joined[i] = sum(with_record[c] * math.prod(plain[:c] + plain[c + 1 :]) for c in range(3)) / 3
        for k, epsilon in enumerate(EPSILONS):
            gap = joined - math.exp(epsilon) * without, without - math.exp(epsilon) * joined
            worst[k] = max(worst[k], *(float(np.sum(np.maximum(one, 0))) for one in gap))
    assert np.all(worst <= np.array(bounds) * (1 + 1e-12))
    assert worst == pytest.approx(bounds, rel=1e-12)


def test_many_steps_and_what_they_cost_together() -> None:
    run = cm.PureDP(epsilon=1.0).random_allocation(steps=100)
    assert run.guarantee(delta=1e-5).exact
    often = np.arange(101.0)
    mass = binom.pmf(often, 100, 1 / (1 + math.e))  # without the record
    ratio = (often * math.e + (100 - often) / math.e) / 100
    for epsilon in (0.1, 0.3, 0.6):
        orders = np.maximum(ratio - math.exp(epsilon), 0), np.maximum(1 - math.exp(epsilon) * ratio, 0)
        assert run.delta(epsilon=epsilon) == pytest.approx(max(float(mass @ one) for one in orders), rel=1e-9)
    assert (run * 4).epsilon(delta=1e-5) < 4 * run.epsilon(delta=1e-5)
    assert (run * 4 + cm.Laplace(scale=5.0)).epsilon_interval(delta=1e-5).certified
    assert cm.from_dict(run.to_dict()) == run
    assert "100 steps" in " ".join(run.statement(delta=1e-5).split())


def test_too_many_counts_leave_a_bound() -> None:
    """Fewer steps dominate: those whose counts are formed."""
    pair = cm.StatedPair(probabilities=(0.4, 0.3, 0.2, 0.1), neighbor_probabilities=(0.1, 0.2, 0.3, 0.4))
    few, many = (pair.random_allocation(steps=steps) for steps in (20, 200))
    assert few.guarantee(delta=1e-5).exact
    assert not many.guarantee(delta=1e-5).exact
    assert many.epsilon(delta=1e-5) < few.epsilon(delta=1e-5)


def test_losses_without_their_probabilities_are_refused() -> None:
    stated = cm.StatedPair.from_losses(losses=[-1.0, 1.0], probabilities=[1 / (1 + math.e), math.e / (1 + math.e)])
    for mechanism in (stated, cm.Laplace(scale=1.0), cm.RandomizedResponse(p=0.7) * 2):
        with pytest.raises(cm.UnprovenCombination, match="finitely many outputs"):
            mechanism.random_allocation(steps=4)
