"""JAX Privacy with this accountant, by both of its interfaces, and a model that is trained with its noise."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax_privacy", reason="JAX Privacy is not installed: pip install '.[jax-privacy]'")

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting.pld import PLDAccountant
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
from cumulant.integrations.dp_accounting import CumulantAccountant, from_event, to_event
from cumulant.integrations.dp_accounting.jax_privacy import (
    CumulantAccountantConfig,
    run_of_batches,
    run_of_params,
    run_of_plan,
)

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


def test_truncated_batches_are_read_with_the_relation() -> None:
    event = events.truncated_dpsgd_event(1.0, 1000, sampling_prob=0.01, num_examples=10_000, truncated_batch_size=120)
    found = {
        relation: CumulantAccountant(relation).compose(event).get_epsilon(1e-5)
        for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL)
    }
    assert list(found.values()) == pytest.approx([5.228448543, 5.252933], abs=2e-6)
    for relation, epsilon in found.items():
        theirs = PLDAccountant(neighboring_relation=relation).compose(event).get_epsilon(1e-5)
        assert epsilon < theirs < epsilon * 1.02  # safe, and looser: the pair of replacing a record stands for both
    run = from_event(event, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    assert to_event(run, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL) == event
    with pytest.raises(cm.MixedNeighbors):
        to_event(from_event(event), neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)


PARAMS: dict[str, Any] = {"noise_multipliers": 1.0, "batch_size": 100, "num_samples": 10_000, "delta": 1e-5}


def test_the_training_accountant_takes_truncated_batches() -> None:
    params = accounting.DpParams(**PARAMS, truncated_batch_size=120)
    ours = accounting.DpsgdTrainingAccountant(dp_accountant_config=CumulantAccountantConfig())
    assert ours.compute_epsilon(1000, params) == pytest.approx(5.228448543, abs=2e-8)


def test_its_accountant_of_people_takes_only_its_own_accountant() -> None:
    """So people are asked about by `run_of_params`, which agrees with it where it answers for Poisson samples."""
    params = accounting.DpParams(**PARAMS | {"noise_multipliers": 2.0}, examples_per_user=3)
    theirs = accounting.DpsgdTrainingUserLevelAccountant
    with pytest.raises(ValueError, match="requires a PLDAccountant"):
        theirs(dp_accountant_config=CumulantAccountantConfig()).compute_epsilon(1000, params)
    answer = theirs(dp_accountant_config=accounting.PldAccountantConfig()).compute_epsilon(1000, params)
    exact = run_of_params(params, num_updates=1000).epsilon(delta=1e-5)
    assert exact <= answer <= exact * (1 + 1e-4)


def test_parameters_become_a_run() -> None:
    plain = run_of_params(accounting.DpParams(**PARAMS), num_updates=500)
    assert plain == cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01, neighbors=cm.ZERO_OUT) * 500
    cut = run_of_params(accounting.DpParams(**PARAMS, truncated_batch_size=120), num_updates=1000)
    assert cut.epsilon(delta=1e-5) == pytest.approx(5.252933, abs=2e-6)
    people = run_of_params(accounting.DpParams(**PARAMS, examples_per_user=3), num_updates=100)
    assert (
        people == cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01, records_per_user=3, neighbors=cm.ZERO_OUT) * 100
    )
    changing = PARAMS | {"noise_multipliers": [(0, 1.0), (200, 2.0)], "batch_size_scale_schedule": {100: 2}}
    parts = [
        (cm.Gaussian(noise_multiplier=noise).poisson(rate=rate, neighbors=cm.ZERO_OUT), count)
        for noise, rate, count in ((1.0, 0.01, 100), (1.0, 0.02, 100), (2.0, 0.02, 300))
    ]
    assert run_of_params(accounting.DpParams(**changing), num_updates=500) == cm.Composed.of(parts)


def test_parameters_without_a_theorem_are_refused() -> None:
    fixed = accounting.SamplingMethod.FIXED_BATCH_SIZE
    refused: list[dict[str, Any]] = [
        {"sampling_method": fixed},
        {"sampling_method": fixed, "examples_per_user": 3},
        {"truncated_batch_size": 120, "examples_per_user": 3},
        {"cycle_length": 4},
    ]
    for more in refused:
        with pytest.raises(cm.UnprovenCombination):
            run_of_params(accounting.DpParams(**PARAMS, **more), num_updates=500)


def test_a_fixed_batch_size_is_answered_there_below_what_a_crowd_attains() -> None:
    """Two steps, 300 of 1000, σ = 2C: a crowd that is chosen from the first output attains 0.1 at this δ."""
    delta = 0.146261507
    params = accounting.DpParams(
        noise_multipliers=2.0,
        batch_size=300,
        num_samples=1000,
        delta=delta,
        sampling_method=accounting.SamplingMethod.FIXED_BATCH_SIZE,
    )
    theirs = accounting.DpsgdTrainingAccountant(dp_accountant_config=accounting.PldAccountantConfig())
    attained = adaptive_fixed_batches(sigma=2.0, rate=0.3, epsilon=0.1)
    assert attained == pytest.approx(delta, abs=1e-6)
    assert theirs.compute_epsilon(2, params) == pytest.approx(0.0756, abs=1e-4)
    ours = cm.dp_sgd(noise_multiplier=2.0, batch_size=300, dataset_size=1000, steps=2, sampling="without_replacement")
    assert ours.epsilon(delta=delta) >= 0.1


def adaptive_fixed_batches(*, sigma: float, rate: float, epsilon: float) -> float:
    """Return what a crowd attains that is -C in the first step, then ±C as the first output says; x = C, x' = -C.

    Given a crowd of -C a batch with x moves the mean by 2C and one with x' does not, and with a crowd of C the other
    way round: so steps are sampled Gaussians of distance 2/σ, in the order in which the record leaves or joins.
    """
    t = np.linspace(-9.0, 11.0, 200_001)
    step = t[1] - t[0]
    q = np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    p = (1 - rate) * q + rate * np.exp(-((t - 2 / sigma) ** 2) / 2) / np.sqrt(2 * np.pi)
    knots = np.exp(np.linspace(-4.0, 4.0, 4001))

    def hockey(x: Any, a: Any, b: Any) -> Any:
        return np.array([np.sum(np.maximum(a - one * b, 0.0)) * step for one in x])

    best = np.maximum(hockey(knots, p, q), hockey(knots, q, p))
    return float(np.sum(p * np.interp(np.exp(epsilon) * q / p, knots, best)) * step)


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


def test_a_padded_batch_is_what_is_accounted_for() -> None:
    """Arrays of one shape: samples that are cut to it, filled up with zeros, clipped sums, noise of the plan."""
    records, most, steps = 400, 24, 30
    strategy = CyclicPoissonSampling(sampling_prob=0.05, iterations=steps, truncated_batch_size=most)
    run = run_of_batches(strategy, noise_multiplier=1.2, num_examples=records)
    told = cm.dp_sgd(noise_multiplier=1.2, batch_size=20, dataset_size=records, steps=steps, max_batch=most)
    assert run == told
    generator = np.random.default_rng(1)
    x = jnp.asarray(generator.normal(size=(records, 3)))

    def add_noise(rows: Any, there: Any, key: Any) -> Any:
        norms = jnp.maximum(jnp.linalg.norm(rows, axis=1, keepdims=True), 1.0)
        return jnp.sum(rows / norms * there[:, None], axis=0) + 1.2 * jax.random.normal(key, (3,))

    noisy_sum: Any = jax.jit(add_noise)
    sizes = []
    for step, indices in enumerate(strategy.batch_iterator(records, rng=generator)):
        sizes.append(len(indices))
        padded = np.zeros(most, dtype=int)
        padded[: len(indices)] = indices
        there = jnp.arange(most) < len(indices)
        assert noisy_sum(x[padded], there, jax.random.key(step)).shape == (3,)
    assert noisy_sum._cache_size() == 1  # one shape for all batches, which is why they are cut
    assert max(sizes) == most
    cut = sum(size == most for size in sizes) / steps
    assert cut < 0.5  # of Bin(400, .05) about one in five is above 23
