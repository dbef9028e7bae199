"""JAX Privacy with this accountant, by both of its interfaces, and a model that is trained with its noise."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax_privacy", reason="JAX Privacy is not installed: pip install '.[jax-privacy]'")

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting.privacy_accountant import NeighboringRelation
from jax_privacy import accounting
from jax_privacy.batch_selection import (
    BallsInBinsSampling,
    BMinSepSampling,
    CyclicPoissonSampling,
    FixedBatchSampling,
    PartitionType,
    UserSelectionStrategy,
)
from jax_privacy.experimental import accounting as events
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

import cumulant as cm
from cumulant.integrations.dp_accounting import CumulantAccountant, from_event
from cumulant.integrations.dp_accounting.jax_privacy import CumulantAccountantConfig, run_of_batches, run_of_plan

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of JAX's own packages among each other
PLAN: dict[str, Any] = {"batch_sizes": 100, "num_updates": 500, "num_samples": 10_000, "target_delta": 1e-5}


def test_the_training_accountant_calibrates() -> None:
    ours = accounting.DpsgdTrainingAccountant(dp_accountant_config=CumulantAccountantConfig())
    sigma = accounting.calibrate_noise_multiplier(target_epsilon=1.0, accountant=ours, tol=1e-7, **PLAN)
    exact = cm.dp_sgd_noise(epsilon=1.0, delta=1e-5, sample_rate=0.01, steps=500)
    assert exact <= sigma <= exact * (1 + 1e-6)
    steps = accounting.calibrate_num_updates(
        target_epsilon=1.0,
        accountant=ours,
        noise_multipliers=1.0,
        batch_sizes=100,
        num_samples=10_000,
        target_delta=1e-5,
    )
    most = cm.max_count(cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01), epsilon=1.0, delta=1e-5)
    assert most - 1 <= steps <= most  # its own search may stop one early


def test_it_agrees_with_the_accountant_of_jax_privacy() -> None:
    parameters = accounting.DpParams(noise_multipliers=1.0, batch_size=100, num_samples=10_000, delta=1e-5)
    found = [
        accounting.DpsgdTrainingAccountant(dp_accountant_config=config).compute_epsilon(500, parameters)
        for config in (CumulantAccountantConfig(), accounting.PldAccountantConfig())
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_truncated_batches_are_refused_by_name() -> None:
    event = events.truncated_dpsgd_event(1.0, 10, sampling_prob=0.1, num_examples=1000, truncated_batch_size=120)
    assert not CumulantAccountant().supports(event)


def test_batches_of_fixed_size_are_answered_in_their_unit() -> None:
    event = events.fixed_dpsgd_event(4.0, 100, dataset_size=10_000, batch_size=100)
    run = from_event(event, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    told = cm.dp_sgd(
        noise_multiplier=4.0, batch_size=100, dataset_size=10_000, steps=100, sampling="without_replacement"
    )
    assert run == told


def test_an_execution_plan_trains_a_model() -> None:
    """Noise calibrated by this accountant, Poisson batches, per-example clipping: logistic regression learns."""
    accountant = CumulantAccountant(NeighboringRelation.REPLACE_SPECIAL)
    config = BandMFExecutionPlanConfig(
        strategy=np.array([1.0]), iterations=6, epsilon=8.0, delta=1e-5, sampling_prob=0.5, accountant=accountant
    )
    plan = config.plan
    sigma = cm.dp_sgd_noise(epsilon=8.0, delta=1e-5, sample_rate=0.5, steps=6)
    assert from_event(plan.dp_event).epsilon(delta=1e-5) <= 8.0
    assert plan.dp_event.event.event.noise_multiplier == pytest.approx(sigma, rel=1e-5)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1000, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.float32)

    def loss(weights: Any, features: Any, label: Any) -> Any:
        margin = (2 * label - 1) * jnp.sum(features * weights)
        return jnp.mean(jax.nn.softplus(-margin))

    gradient = plan.clipped_grad(loss, batch_argnums=(1, 2))
    weights = jnp.zeros(4)
    state = plan.noise_addition_transform.init(weights)
    for indices in plan.batch_selection_strategy.batch_iterator(len(x), rng=0):
        found = gradient(weights, x[indices], y[indices])
        noisy, state = plan.noise_addition_transform.update(found, state)
        weights = weights - 0.05 * noisy
    assert float(jnp.mean((x @ weights > 0) == (y > 0.5))) > 0.8


BANDED: dict[str, Any] = {"iterations": 101, "sampling_prob": 0.2, "epsilon": None, "delta": None}


@pytest.mark.parametrize("normed", [False, True])
def test_a_banded_plan_says_how_the_data_are_split(normed: bool) -> None:
    strategy = np.array([1.0, 0.5, 0.25, 0.125]) / np.sqrt(1.328125)
    plan = BANDED | {"strategy": strategy, "noise_multiplier": 1.5, "column_normalize": normed}
    nulls = run_of_plan(BandMFExecutionPlanConfig(**plan))  # its default is EQUAL_SPLIT, and REPLACE_SPECIAL
    assert nulls.neighbors is cm.ZERO_OUT
    with pytest.raises(cm.UnprovenCombination, match="public number"):
        run_of_plan(BandMFExecutionPlanConfig(**plan), neighbors=cm.ADD_REMOVE)
    plan |= {"partition_type": PartitionType.INDEPENDENT}
    plan |= {"accountant": CumulantAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)}
    config = BandMFExecutionPlanConfig(**plan)
    joins = run_of_plan(config)
    assert (joins.neighbors, joins.bands, joins.steps) == (cm.ADD_REMOVE, 4, 101)
    by_event = from_event(config.plan.dp_event).epsilon(delta=1e-5)
    found = joins.epsilon(delta=1e-5)
    # the last column of the first part has one entry: not normed, it is shorter than the longest column
    assert found == pytest.approx(by_event, rel=1e-9) if normed else by_event * 0.99 < found < by_event * (1 - 1e-6)
    assert nulls.epsilon(delta=1e-5) == found


def test_banded_plans_without_a_theorem_are_refused() -> None:
    plan = BANDED | {"strategy": np.array([1.0, 0.5]), "noise_multiplier": 1.5}
    cut = BandMFExecutionPlanConfig(**plan, truncated_batch_size=50, num_examples=1000)
    replaced = BandMFExecutionPlanConfig(**plan, accountant=CumulantAccountant(NeighboringRelation.REPLACE_ONE))
    for config in (cut, replaced):
        with pytest.raises(cm.UnprovenCombination):
            run_of_plan(config)


def test_the_noise_of_a_banded_plan_is_the_one_it_calibrates() -> None:
    plan = BANDED | {"strategy": np.array([0.8, 0.6]), "epsilon": 2.0, "delta": 1e-5}
    run = run_of_plan(
        BandMFExecutionPlanConfig(**plan, accountant=CumulantAccountant(NeighboringRelation.REPLACE_SPECIAL))
    )
    assert 1.9 < run.epsilon(delta=1e-5) <= 2.0


# How batches are selected ---------------------------------------------------------------------------------------------

SIZES: dict[str, Any] = {"noise_multiplier": 1.5, "num_examples": 10_000}
USUAL = cm.Gaussian(noise_multiplier=1.5)
HALF = cm.Gaussian(noise_multiplier=0.75)


@pytest.mark.parametrize(
    ("strategy", "run"),
    [
        (CyclicPoissonSampling(sampling_prob=0.01, iterations=300), USUAL.poisson(rate=0.01) * 300),
        (
            CyclicPoissonSampling(sampling_prob=0.01, iterations=300, truncated_batch_size=130),
            USUAL.poisson(rate=0.01, max_batch=130, population=10_000, neighbors=cm.ZERO_OUT) * 300,
        ),
        (
            BallsInBinsSampling(iterations=300, cycle_length=100),
            USUAL.random_allocation(steps=100, epochs=3, bins="kept"),
        ),
        (
            BallsInBinsSampling(iterations=301, cycle_length=100),
            USUAL.random_allocation(steps=100, epochs=4, bins="kept"),
        ),
        (
            FixedBatchSampling(batch_size=100, iterations=300),
            HALF.without_replacement(batch=100, population=10_000) * 300,
        ),
        (
            FixedBatchSampling(batch_size=10, iterations=3, replace=True),
            HALF.with_replacement(draws=10, population=10_000) * 3,
        ),
        (
            CyclicPoissonSampling(sampling_prob=0.04, iterations=300, cycle_length=4),
            cm.banded_dp_sgd(noise_multiplier=1.5, bands=4, sample_rate=0.04, steps=300, partition="equal"),
        ),
    ],
)
def test_a_selection_of_batches_is_read(strategy: Any, run: Any) -> None:
    assert run_of_batches(strategy, **SIZES) == run


def test_balls_in_bins_are_selected_as_is_said() -> None:
    """Every record is in one batch of a cycle and in the same one of the next; another seed draws anew."""
    strategy = BallsInBinsSampling(iterations=30, cycle_length=10)
    batches = [batch.tolist() for batch in strategy.batch_iterator(200, rng=0)]
    for cycle in (batches[:10], batches[10:20]):
        assert sorted(record for batch in cycle for record in batch) == list(range(200))
    assert batches[:10] == batches[10:20] == batches[20:]
    assert batches != [batch.tolist() for batch in strategy.batch_iterator(200, rng=1)]
    assert len({len(batch) for batch in batches}) > 2  # not of one size


@pytest.mark.parametrize(
    "strategy",
    [
        BMinSepSampling(sampling_prob=0.1, iterations=30, min_sep=4),
        CyclicPoissonSampling(sampling_prob=0.1, iterations=30, cycle_length=4, truncated_batch_size=30),
        UserSelectionStrategy(CyclicPoissonSampling(sampling_prob=0.1, iterations=30), 2),
    ],
)
def test_selections_without_a_theorem_are_refused(strategy: Any) -> None:
    with pytest.raises(cm.UnprovenCombination, match="no theorem here"):
        run_of_batches(strategy, **SIZES)
