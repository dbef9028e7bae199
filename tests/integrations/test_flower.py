"""Flower with this accountant: federated rounds, a budget that ends them, and its own accountant beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install '.[flower]'")

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyConfig,
    SamplingMethod,
)
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)

import cumulant as cm
from cumulant.integrations.flower import CumulantAccountant, run_of_strategy
from integrations.local_grid import LocalGrid

MODELS = [
    (SamplingMethod.POISSON, NeighboringRelation.ADD_OR_REMOVE_ONE),
    (SamplingMethod.WITHOUT_REPLACEMENT, NeighboringRelation.REPLACE_ONE),
    (SamplingMethod.NO_AMPLIFICATION, NeighboringRelation.ADD_OR_REMOVE_ONE),
]


def config(sampling: Any = SamplingMethod.NO_AMPLIFICATION, relation: Any = None, **more: Any) -> Any:
    relation = relation or NeighboringRelation.ADD_OR_REMOVE_ONE
    return PrivacyConfig(
        target_delta=1e-3, population_size=20, neighboring_relation=relation, sampling_method=sampling, **more
    )


def event(sigma: float = 10.0) -> Any:
    return GaussianPrivacyEvent(noise_multiplier=sigma, sample_size=10, population_size=20)


def private(accountant: Any, *, noise: float) -> Any:
    strategy = FedAvg(fraction_train=0.5, fraction_evaluate=0.0, min_available_nodes=20)
    return DifferentialPrivacyServerSideFixedClipping(strategy, noise, 1.0, 10, accountant=accountant)


def trained(content: Any, node: int) -> Any:
    """One step of least squares on the data of a node."""
    generator = np.random.default_rng(node)
    x = generator.normal(size=(50, 3))
    y = x @ np.array([1.0, -1.0, 0.5])
    (weights,) = content["arrays"].to_numpy_ndarrays()
    step = weights - 0.3 * x.T @ (x @ weights - y) / len(x)
    return RecordDict({"arrays": ArrayRecord({"w": Array(step)}), "metrics": MetricRecord({"num-examples": 50})})


def test_rounds_are_trained_and_accounted() -> None:
    accountant = CumulantAccountant(config())
    start = ArrayRecord({"w": Array(np.zeros(3))})
    result = private(accountant, noise=0.5).start(grid=LocalGrid(20, trained), initial_arrays=start, num_rounds=8)
    (weights,) = result.arrays.to_numpy_ndarrays()
    assert np.linalg.norm(weights - [1.0, -1.0, 0.5]) < 0.7
    assert accountant.num_releases == 8
    spent = accountant.get_privacy_spent()
    assert spent.epsilon == (cm.Gaussian(noise_multiplier=0.25) * 8).epsilon(delta=1e-3)
    assert spent.num_releases == 8


def test_a_budget_ends_the_rounds() -> None:
    accountant = CumulantAccountant(config(max_epsilon=2.0))
    most = accountant.remaining(event())
    strategy = private(accountant, noise=10.0)
    start = ArrayRecord({"w": Array(np.zeros(3))})
    with pytest.raises(Exception, match="would exceed max_epsilon"):
        strategy.start(grid=LocalGrid(20, trained), initial_arrays=start, num_rounds=most + 5)
    assert accountant.num_releases == most == cm.max_count(cm.Gaussian(noise_multiplier=5.0), epsilon=2.0, delta=1e-3)
    assert accountant.get_epsilon(1e-3) <= 2.0


@pytest.mark.parametrize(("sampling", "relation"), MODELS)
def test_every_model_of_flower_in_its_unit(sampling: Any, relation: Any) -> None:
    accountant = CumulantAccountant(config(sampling, relation))
    accountant.compose(event(4.0), 7)
    expected = {
        SamplingMethod.POISSON: cm.Gaussian(noise_multiplier=4.0).poisson(rate=0.5),
        SamplingMethod.WITHOUT_REPLACEMENT: cm.Gaussian(noise_multiplier=2.0).without_replacement(rate=0.5),
        SamplingMethod.NO_AMPLIFICATION: cm.Gaussian(noise_multiplier=2.0),
    }[sampling] * 7
    assert accountant.get_epsilon(1e-3) == pytest.approx(expected.epsilon(delta=1e-3), rel=1e-12)
    assert accountant.get_delta(1.0) == pytest.approx(expected.delta(epsilon=1.0), rel=1e-12)


@pytest.mark.parametrize("sigma", [2.0, 5.0])
def test_a_client_that_leaves_a_round_of_fixed_size_makes_room_for_another(sigma: float) -> None:
    """The first ten of a list are taken, all at -1; without the one at +1 an eleventh moves up: two norms, not one."""
    pytest.importorskip("dp_accounting", reason="Flower's own accountant needs dp_accounting")
    from flwr.serverapp import RdpAccountant

    truth = cm.Gaussian(noise_multiplier=sigma / 2).epsilon(delta=1e-3)
    ours, theirs = CumulantAccountant(config()), RdpAccountant(config())
    for accountant in (ours, theirs):
        accountant.compose(event(sigma))
    assert theirs.get_epsilon(1e-3) < truth == ours.get_epsilon(1e-3)


# How a strategy draws its clients -------------------------------------------------------------------------------------


class Rotating(FedAvg):  # type: ignore[misc]
    """A strategy that takes clients in turn."""

    def configure_train(self, *arguments: Any) -> Any:
        return super().configure_train(*arguments)


def accountant() -> CumulantAccountant:
    return CumulantAccountant(config())


@pytest.mark.parametrize(
    "kind", [DifferentialPrivacyServerSideFixedClipping, DifferentialPrivacyClientSideFixedClipping]
)
def test_a_strategy_says_how_it_draws(kind: Any) -> None:
    strategy = kind(FedAvg(fraction_train=0.1, min_available_nodes=1000), 8.0, 1.0, 100, accountant=accountant())
    run = run_of_strategy(strategy, population_size=1000, num_rounds=17)
    drawn = cm.Gaussian(noise_multiplier=4.0).without_replacement(batch=100, population=1000) * 17
    assert run == drawn
    assert run.neighbors is cm.REPLACE_ONE
    assert run.epsilon(delta=1e-4) < (cm.Gaussian(noise_multiplier=4.0) * 17).epsilon(delta=1e-4)


def test_clients_are_drawn_as_is_said() -> None:
    """Rounds that were run: ten different clients of twenty each time, every client about as often, drawn anew."""
    rounds: list[list[int]] = [[]]

    def remembering(content: Any, node: int) -> Any:
        if len(rounds[-1]) == 10:
            rounds.append([])
        rounds[-1].append(node)
        return trained(content, node)

    start = ArrayRecord({"w": Array(np.zeros(3))})
    strategy = private(accountant(), noise=0.5)
    assert run_of_strategy(strategy, population_size=20, num_rounds=60).neighbors is cm.REPLACE_ONE
    strategy.start(grid=LocalGrid(20, remembering), initial_arrays=start, num_rounds=60)
    assert [len(set(chosen)) for chosen in rounds] == [10] * 60
    often = [
        sum(node in chosen for chosen in rounds) for node in sorted({node for chosen in rounds for node in chosen})
    ]
    assert len(often) == 20
    assert min(often) > 12  # Bin(60, 1/2) is 30 ± 3.9
    assert len({tuple(sorted(chosen)) for chosen in rounds}) > 55


@pytest.mark.parametrize(
    ("drawn", "asked", "said"),
    [
        (FedAvg(fraction_train=0.1, min_available_nodes=1000), 99, "num_sampled_clients must be the 100"),
        (FedAvg(fraction_train=0.1, min_available_nodes=500), 100, "min_available_nodes must be the population_size"),
        (Rotating(fraction_train=0.1, min_available_nodes=1000), 100, "Rotating chooses or weighs"),
    ],
)
def test_strategies_that_draw_otherwise_are_refused(drawn: Any, asked: int, said: str) -> None:
    strategy = DifferentialPrivacyServerSideFixedClipping(drawn, 8.0, 1.0, asked, accountant=accountant())
    with pytest.raises((cm.InvalidParameter, cm.UnprovenCombination), match=said):
        run_of_strategy(strategy, population_size=1000, num_rounds=17)
    with pytest.raises(cm.InvalidParameter, match="fixed clipping"):
        run_of_strategy(drawn, population_size=1000, num_rounds=17)
    strategy = DifferentialPrivacyServerSideFixedClipping(drawn, 8.0, 1.0, asked)
    with pytest.raises(cm.InvalidParameter, match="must have an accountant"):
        run_of_strategy(strategy, population_size=1000, num_rounds=17)


def test_states_come_back_and_those_of_flower_are_read() -> None:
    accountant = CumulantAccountant(config())
    accountant.compose(event(), 3)
    accountant.compose(event(5.0))
    state = json.loads(json.dumps(accountant.state_dict()))
    fresh = CumulantAccountant(config())
    fresh.load_state_dict(state)
    assert (fresh.num_releases, fresh.get_epsilon(1e-3)) == (4, accountant.get_epsilon(1e-3))
    fresh.load_state_dict({**state, "backend": "rdp", "orders": [2.0]})
    assert fresh.num_releases == 4
    changes: list[dict[str, Any]] = [
        {"schema_version": 2},
        {"backend": "other"},
        {"config": {}},
        {"compositions": [{"count": 1}]},
        {"compositions": [{"event": {"noise_multiplier": -1.0, "sample_size": 1, "population_size": 20}, "count": 1}]},
    ]
    for change in changes:
        with pytest.raises(cm.InvalidParameter):
            fresh.load_state_dict({**state, **change})
    assert fresh.num_releases == 4


def test_refusals() -> None:
    with pytest.raises(cm.InvalidParameter, match="PrivacyConfig"):
        CumulantAccountant({"target_delta": 1e-5})
    accountant = CumulantAccountant(config())
    with pytest.raises(cm.InvalidParameter, match="population_size"):
        accountant.compose(GaussianPrivacyEvent(noise_multiplier=1.0, sample_size=1, population_size=2))
    with pytest.raises(cm.InvalidParameter, match="count must be"):
        accountant.compose(event(), 0)
    with pytest.raises(cm.InvalidParameter, match="max_epsilon"):
        accountant.would_exceed(event())
    with pytest.raises(cm.InvalidParameter, match="max_epsilon"):
        accountant.remaining(event())
    assert accountant.num_releases == 0
    assert not accountant.would_exceed(event(100.0), max_epsilon=5.0)
    assert accountant.would_exceed(event(0.1), max_epsilon=5.0)
