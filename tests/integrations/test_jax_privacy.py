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
from jax_privacy.experimental import accounting as events
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

import cumulant as cm
from cumulant.integrations.dp_accounting import CumulantAccountant, from_event
from cumulant.integrations.dp_accounting.jax_privacy import CumulantAccountantConfig

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
