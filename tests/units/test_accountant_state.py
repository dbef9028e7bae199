"""What an accountant remembers: a budget, a history with labels, and a state that survives a restart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cumulant as cm
from cumulant.accountant import Entry
from strategies import ASKING

STEP = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)


def trained() -> cm.Accountant:
    accountant = cm.Accountant(epsilon=3.0, delta=1e-5)
    accountant.compose(STEP, count=500, label="training")
    accountant.compose(STEP, count=100)
    accountant.compose(cm.Laplace(scale=10.0), label="mean age")
    accountant.compose(STEP, label="training")
    return accountant


def test_the_history_has_labels() -> None:
    accountant = trained()
    assert accountant.history == (
        Entry(mechanism=STEP, count=100),
        Entry(mechanism=STEP, count=501, label="training"),
        Entry(mechanism=cm.Laplace(scale=10.0), count=1, label="mean age"),
    )
    assert accountant.run == STEP * 601 + cm.Laplace(scale=10.0)


def test_a_label_is_a_text_and_a_refused_one_changes_nothing() -> None:
    accountant = trained()
    before = accountant.history
    with pytest.raises(cm.InvalidParameter, match="label must be a text"):
        accountant.compose(STEP, label=3)  # type: ignore[arg-type]
    assert accountant.history == before


def test_a_labelled_composition_is_opened_up() -> None:
    accountant = cm.Accountant()
    accountant.compose(STEP * 3 + cm.Laplace(scale=1.0), count=2, label="both")
    assert [(row.count, row.label) for row in accountant.history] == [(6, "both"), (2, "both")]


def test_remaining_is_exactly_what_the_budget_takes() -> None:
    accountant = trained()
    left = accountant.remaining(STEP)
    assert left == cm.max_count(STEP, spent=accountant, epsilon=3.0, delta=1e-5)
    accountant.compose(STEP, count=left)
    with pytest.raises(cm.BudgetExceeded):
        accountant.compose(STEP)
    assert accountant.remaining(STEP) == 0
    with pytest.raises(cm.InvalidParameter, match="needs a budget"):
        cm.Accountant().remaining(STEP)


def test_a_state_comes_back_with_its_budget() -> None:
    before = trained()
    state = json.loads(json.dumps(before.state_dict()))
    after = cm.Accountant()
    after.load_state_dict(state)
    assert (after.budget, after.history, after.run) == (before.budget, before.history, before.run)
    assert after.epsilon(delta=1e-5) == before.epsilon(delta=1e-5)
    same = cm.Accountant(epsilon=3.0, delta=1e-5)
    same.load_state_dict(state)
    assert same.budget == (3.0, 1e-5)


def test_the_relation_comes_back_too() -> None:
    after = cm.Accountant()
    after.load_state_dict(trained().state_dict())
    with pytest.raises(cm.MixedNeighbors):
        after.compose(cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.1))


def test_the_state_is_copied() -> None:
    state = trained().state_dict()
    kept = json.dumps(state)
    after = cm.Accountant()
    after.load_state_dict(state)
    after.compose(STEP, count=7)
    assert json.dumps(state) == kept


def test_another_budget_is_refused_and_nothing_changes() -> None:
    after = cm.Accountant(epsilon=4.0, delta=1e-5)
    after.compose(cm.Laplace(scale=2.0))
    before = after.run
    with pytest.raises(cm.InvalidParameter, match="give the accountant the same, or none"):
        after.load_state_dict(trained().state_dict())
    assert (after.run, after.budget) == (before, (4.0, 1e-5))


def test_a_state_without_a_budget_keeps_the_one_that_was_given() -> None:
    source, after = cm.Accountant(), cm.Accountant(epsilon=1.0, delta=1e-5)
    source.compose(STEP, count=1000)
    after.load_state_dict(source.state_dict())
    assert after.budget == (1.0, 1e-5)
    with pytest.raises(cm.BudgetExceeded):  # what was spent is a fact, what follows is not
        after.compose(STEP)


@pytest.mark.parametrize(
    "change",
    [
        {"cumulant.Accountant": 2},
        {"history": [{"mechanism": {}, "count": 1, "label": None}]},
        {"history": [{"count": 1}]},
        {"history": 3},
        {"budget": {"epsilon": 1.0}},
        {"budget": {"epsilon": -1.0, "delta": 0.1}},
        {"more": 1},
        {"history": [{"mechanism": STEP.to_dict(), "count": -1, "label": None}]},
        {"history": [{"mechanism": STEP.to_dict(), "count": 1, "label": 5}]},
    ],
)
def test_what_is_no_state_is_refused_and_nothing_changes(change: dict[str, Any]) -> None:
    accountant = trained()
    before = accountant.history
    with pytest.raises(cm.InvalidParameter):
        accountant.load_state_dict({**accountant.state_dict(), **change})
    assert accountant.history == before


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5), st.sampled_from([None, "a", "b"])), max_size=8))
@ASKING
def test_counts_of_the_history_add_up(rows: list[tuple[int, int, str | None]]) -> None:
    accountant = cm.Accountant()
    for noise, count, label in rows:
        accountant.compose(cm.Gaussian(noise_multiplier=float(noise)), count=count, label=label)
    expected: dict[tuple[int, str | None], int] = {}
    for noise, count, label in rows:
        expected[noise, label] = expected.get((noise, label), 0) + count
    found = {(row.mechanism.noise_multiplier, row.label): row.count for row in accountant.history}  # type: ignore[attr-defined]
    assert found == {key: count for key, count in expected.items() if count}
