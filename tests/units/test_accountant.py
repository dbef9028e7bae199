"""The accountant is a composition that grows."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.neighbors import Neighbors
from strategies import deltas, examples, mechanisms

ORDERS = [1, 1.5, 2, 16, 1e3, math.inf]


@pytest.mark.slow
@given(st.lists(st.tuples(mechanisms(), st.integers(0, 100)), max_size=4), deltas())
@examples(10)
def test_it_answers_like_the_composed_mechanism(steps: list[tuple[AbstractMechanism, int]], delta: float) -> None:
    accountant, run = cm.Accountant(), cm.Composed(())
    for mechanism, count in steps:
        accountant.compose(mechanism, count=count)
        run = run + mechanism * count
    assert accountant.run == run
    np.testing.assert_array_equal(accountant.rdp(order=ORDERS), run.rdp(order=ORDERS))
    np.testing.assert_array_equal(accountant.cgf(order=ORDERS), run.cgf(order=ORDERS))
    for method in ("best", "rdp"):
        epsilon = run.epsilon(delta=delta, method=method)
        assert accountant.epsilon(delta=delta, method=method) == epsilon
        assert accountant.guarantee(delta=delta, method=method).epsilon == epsilon
    assert accountant.delta(epsilon=1.0) == run.delta(epsilon=1.0)
    assert accountant.log_delta(epsilon=1.0) == run.log_delta(epsilon=1.0)
    assert accountant.explain(delta=delta) == run.explain(delta=delta)


def test_one_by_one_equals_all_at_once() -> None:
    slow, fast = cm.Accountant(), cm.Accountant()
    for _ in range(1000):
        slow.compose(cm.Gaussian(noise_multiplier=20.0))
    fast.compose(cm.Gaussian(noise_multiplier=20.0), count=1000)
    assert slow.run == fast.run
    assert slow.epsilon(delta=1e-5) == fast.epsilon(delta=1e-5)


def test_memory_holds_distinct_mechanisms_only() -> None:
    accountant = cm.Accountant()
    for step in range(3000):
        accountant.compose(cm.Gaussian(noise_multiplier=1.0 + step % 3), count=2)
    accountant.compose(cm.Gaussian(noise_multiplier=1) * 5 + cm.Laplace(scale=1.0))
    assert dict(accountant.run.parts) == {
        cm.Gaussian(noise_multiplier=1.0): 2005,
        cm.Gaussian(noise_multiplier=2.0): 2000,
        cm.Gaussian(noise_multiplier=3.0): 2000,
        cm.Laplace(scale=1.0): 1,
    }


def test_pure_dp_adds() -> None:
    accountant = cm.Accountant()
    accountant.compose(cm.Laplace(scale=1.0))
    assert accountant.epsilon(delta=0.0) == 1.0
    accountant.compose(cm.Laplace(scale=1.0), count=9)
    assert accountant.epsilon(delta=0.0) == 10.0
    accountant.compose(cm.Gaussian(noise_multiplier=1.0))
    assert accountant.epsilon(delta=0.0) == math.inf


def test_nothing_released_costs_nothing() -> None:
    accountant = cm.Accountant()
    for count in (0, None):
        if count is not None:
            accountant.compose(cm.Gaussian(noise_multiplier=1.0), count=count)
        assert accountant.run.parts == ()
        assert accountant.epsilon(delta=0.0) == 0
        assert accountant.delta(epsilon=0.0) == 0
        assert accountant.rdp(order=ORDERS).tolist() == [0] * len(ORDERS)


def test_delta_below_the_smallest_float() -> None:
    """μ = 1 at δ = e^-1000: between the tail bound a - 5 and Mironov's ½ + √2000."""
    accountant = cm.Accountant()
    accountant.compose(cm.Gaussian(noise_multiplier=1.0))
    for method in ("exact", "rdp"):
        epsilon = accountant.epsilon(log_delta=-1000.0, method=method)
        assert math.sqrt(2000) - 5 < epsilon < 0.5 + math.sqrt(2000)
        assert accountant.log_delta(epsilon=epsilon, method=method) <= -1000.0


# Refusals ------------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Any, Any]] = [
    (cm.Gaussian(noise_multiplier=2.0), -1),
    (cm.Gaussian(noise_multiplier=2.0), 0.5),
    (cm.Gaussian(noise_multiplier=2.0), 1.0),
    (cm.Gaussian(noise_multiplier=2.0), True),
    (cm.Gaussian(noise_multiplier=2.0), None),
    (cm.Gaussian(noise_multiplier=2.0), "2"),
    (cm.Gaussian(noise_multiplier=2.0), np.array([1, 2])),
    (cm.Laplace(scale=2.0), -1),
    ("Gaussian", 1),
    (None, 1),
    ([1], 1),
    (cm.Gaussian, 1),
    (3.0, 1),
]


@pytest.mark.parametrize(("mechanism", "count"), REFUSED, ids=repr)
def test_refused_input_changes_nothing(mechanism: Any, count: Any) -> None:
    """Also for a mechanism that is already known."""
    accountant = cm.Accountant()
    accountant.compose(cm.Gaussian(noise_multiplier=2.0), count=7)
    before = accountant.to_dict()
    with pytest.raises(cm.InvalidParameter):
        accountant.compose(mechanism, count)
    assert accountant.to_dict() == before
    assert accountant.run.parts == ((cm.Gaussian(noise_multiplier=2.0), 7),)


class _Related(AbstractMechanism):
    """A Gaussian that names its relation; equal to its own class only."""

    __slots__ = ()
    theorem: ClassVar[str] = "for tests"

    def _known(self) -> Known:
        return cm.Gaussian(noise_multiplier=1.0)._known()


@pytest.fixture
def related() -> tuple[AbstractMechanism, AbstractMechanism]:
    """One mechanism for each relation."""

    class AddRemove(_Related):
        @property
        def neighbors(self) -> Neighbors:
            return cm.ADD_REMOVE

    class ReplaceOne(_Related):
        @property
        def neighbors(self) -> Neighbors:
            return cm.REPLACE_ONE

    return AddRemove(), ReplaceOne()


Pair = tuple[AbstractMechanism, AbstractMechanism]


def test_relations_do_not_mix(related: Pair) -> None:
    one, other = related
    with pytest.raises(cm.MixedNeighbors, match="neighbors="):
        _ = one + other
    with pytest.raises(cm.MixedNeighbors):
        _ = cm.Laplace(scale=1.0) + one * 3 + other


def test_an_accountant_keeps_to_its_first_relation(related: Pair) -> None:
    one, other = related
    accountant = cm.Accountant()
    accountant.compose(cm.Laplace(scale=1.0))
    accountant.compose(one, count=2)
    before = accountant.run
    with pytest.raises(cm.MixedNeighbors, match="nothing was recorded"):
        accountant.compose(other)
    with pytest.raises(cm.MixedNeighbors):
        accountant.compose(cm.Laplace(scale=3.0) + other)
    with pytest.raises(cm.InvalidParameter):
        accountant.compose(other, count=-1)
    assert accountant.run == before
    assert accountant.run.neighbors is cm.ADD_REMOVE
    accountant.compose(one)
    assert dict(accountant.run.parts)[one] == 3


def test_a_refused_first_release_settles_no_relation(related: Pair) -> None:
    one, other = related
    accountant = cm.Accountant()
    with pytest.raises(cm.InvalidParameter):
        accountant.compose(one, count=-1)
    accountant.compose(other)
    assert accountant.run.neighbors is cm.REPLACE_ONE


def test_no_release_settles_no_relation(related: Pair) -> None:
    """Zero copies of something tell nothing, so they bind to nothing; `*` and `+` agree."""
    one, other = related
    assert (one * 0 + other).neighbors is cm.REPLACE_ONE
    accountant = cm.Accountant()
    accountant.compose(one, count=0)
    accountant.compose(other)
    assert accountant.run.neighbors is cm.REPLACE_ONE


# Cost ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6])
def test_evaluations_grow_like_the_logarithm_of_the_order(best: float) -> None:
    """ρα has its classical optimum at λ = √(log(1/δ)/ρ)."""
    asked: list[float] = []
    rho = -math.log(1e-12) / best**2

    def curve(order: float) -> float:
        asked.append(order)
        return rho * order

    accountant = cm.Accountant()
    accountant.compose(cm.RenyiCurve(curve), count=1)
    asked.clear()
    epsilon = accountant.epsilon(delta=1e-12)
    assert len(asked) < 400
    assert rho < epsilon < rho + 2 * math.sqrt(-rho * math.log(1e-12))  # what Mironov's conversion gives there
    asked.clear()
    accountant.delta(epsilon=epsilon)
    assert len(asked) < 400


def test_repeats_cost_no_evaluations() -> None:
    """A million copies are evaluated once, and composing evaluates nothing."""
    asked: list[float] = []

    def curve(order: float) -> float:
        asked.append(order)
        return 1e-6 * order

    accountant, mechanism = cm.Accountant(), cm.RenyiCurve(curve)
    asked.clear()
    for _ in range(1000):
        accountant.compose(mechanism, count=1000)
    assert asked == []
    accountant.epsilon(delta=1e-5)
    assert len(asked) < 400


def test_a_budget_refuses_what_would_exceed_it_and_records_nothing() -> None:
    accountant = cm.Accountant(epsilon=1.0, delta=1e-5)
    accountant.compose(cm.Gaussian(noise_multiplier=10.0))
    before = accountant.run
    with pytest.raises(cm.BudgetExceeded, match=r"from 0\.3407 to 4\.403, over the budget of 1 at delta=1e-05"):
        accountant.compose(cm.Gaussian(noise_multiplier=1.0))
    assert accountant.run == before
    accountant.compose(cm.Gaussian(noise_multiplier=10.0), count=3)
    assert accountant.epsilon(delta=1e-5) <= 1.0
    with pytest.raises(cm.BudgetExceeded):
        accountant.compose(cm.Gaussian(noise_multiplier=10.0), count=100)


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"delta": 1e-5}, {"epsilon": -1.0, "delta": 0.1}])
def test_a_budget_is_two_numbers(budget: dict[str, float]) -> None:
    with pytest.raises(cm.InvalidParameter):
        cm.Accountant(**budget)


def test_it_answers_every_question_of_a_mechanism() -> None:
    """A question added to mechanisms is one to the accountant as well; profiles and curves are of a release."""
    mechanism = {name for name in vars(AbstractMechanism) if not name.startswith("_")}
    becoming = {"poisson", "without_replacement", "with_replacement", "random_allocation", "shuffled"}
    becoming |= {"group", "sharpened"}
    known = {"theorem", "profile", "neighbors", "releases", "to_dict", "epsilon_curve"}
    asked = mechanism - becoming
    accountant = cm.Accountant()
    accountant.compose(cm.Gaussian(noise_multiplier=2.0), count=10)
    assert all(callable(getattr(accountant, name)) for name in asked - known)
    assert accountant.epsilon_interval(delta=1e-5) == accountant.run.epsilon_interval(delta=1e-5)
    assert accountant.tradeoff(false_positive_rate=0.1) == accountant.run.tradeoff(false_positive_rate=0.1)
