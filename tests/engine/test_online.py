"""What an accountant keeps between questions: the same ε as of the whole run, budgets that hold to the last release."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import cumulant as cm
from cumulant.inversion.growing import GrowingEpsilon
from cumulant.mechanisms.online import Allowance
from cumulant.numerics.compensated import CompensatedSum
from cumulant.pairs.pair import DominatingPair

STEP = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)


def schedule(number: int) -> list[cm.mechanisms.base.AbstractMechanism]:
    return [cm.Gaussian(noise_multiplier=float(s)).poisson(rate=0.01) for s in np.linspace(1.0, 2.0, number)]


def test_a_growing_run_costs_what_the_whole_run_costs() -> None:
    accountant = cm.Accountant()
    accountant.compose(STEP, count=600)
    for more in (0, 1, 1, 7, 100, 600, 3000):
        accountant.compose(STEP, count=more)
        whole = accountant.run.epsilon(delta=1e-5)
        assert accountant.epsilon(delta=1e-5) == pytest.approx(whole, rel=1e-9, abs=0)
        assert accountant.epsilon(delta=1e-5) >= accountant.run.epsilon_interval(delta=1e-5).lower


def test_a_noise_schedule_with_other_releases_in_between() -> None:
    accountant = cm.Accountant()
    accountant.compose(STEP, count=700)
    others = {10: cm.Laplace(scale=30.0), 20: cm.Gaussian(noise_multiplier=15.0), 25: STEP}
    for i, step in enumerate(schedule(30)):
        accountant.compose(others.get(i, step))
        here = accountant.epsilon(delta=1e-6)
        if i % 6 == 0 or i in (10, 11, 20, 21):
            assert here == pytest.approx(accountant.run.epsilon(delta=1e-6), rel=1e-9, abs=0)


def test_lines_are_kept_and_settle() -> None:
    """Else all of the above would be true of single questions as well."""
    directions = STEP._known().directions(STEP.neighbors)
    assert directions is not None
    for direction in directions:
        running = GrowingEpsilon(math.log(1e-5))
        ((pair, _),) = direction
        assert isinstance(pair, DominatingPair)
        running.add(pair, 800)
        first = running.epsilon()
        line = running._line
        values = [first]
        for _ in range(20):
            running.add(pair, 1)
            values.append(running.epsilon())
        assert running._line is line is not None
        assert np.all(np.diff(values) > 0)
        alone = GrowingEpsilon(math.log(1e-5))
        alone.add(pair, 820)
        assert values[-1] == pytest.approx(alone.epsilon(), rel=1e-10, abs=0)


def test_what_cannot_be_followed_is_asked_anew() -> None:
    accountant = cm.Accountant()
    for mechanism in (cm.ZCDP(rho=0.01), STEP, cm.ApproximateDP(epsilon=0.1, delta=1e-9), cm.RandomizedResponse(p=0.6)):
        accountant.compose(mechanism, count=50)
        assert accountant.epsilon(delta=1e-5) == accountant.run.epsilon(delta=1e-5)
        assert accountant.epsilon(delta=1e-5) == accountant.run.epsilon(delta=1e-5)
    assert accountant.epsilon(delta=0.0) == math.inf
    assert accountant.epsilon(delta=1.0) == 0


def test_a_relation_that_is_settled_late_turns_every_release() -> None:
    accountant = cm.Accountant()
    accountant.compose(cm.Laplace(scale=20.0), count=200)
    for _ in range(3):
        accountant.epsilon(delta=1e-5)
        accountant.compose(STEP, count=300)
    assert accountant.epsilon(delta=1e-5) == pytest.approx(accountant.run.epsilon(delta=1e-5), rel=1e-9, abs=0)


def test_many_deltas_are_answered_whether_followed_or_not() -> None:
    accountant = cm.Accountant()
    for _ in range(2):
        accountant.compose(STEP, count=1000)
        for delta in np.geomspace(1e-9, 1e-3, 6):
            whole = accountant.run.epsilon(delta=float(delta))
            assert accountant.epsilon(delta=float(delta)) == pytest.approx(whole, rel=1e-9, abs=0)


def test_compensated_sums_keep_their_digits() -> None:
    """Ten thousand numbers of different sizes, against exact sums."""
    rng = np.random.default_rng(7)
    numbers = rng.normal(size=(10_000, 3)) * 10.0 ** rng.uniform(-8, 8, size=(10_000, 3))
    total = CompensatedSum((3,))
    for row in numbers:
        total.add(row)
    exact = np.array([math.fsum(column) for column in numbers.T])
    assert np.all(np.abs(total.total - exact) <= 2.0**-51 * total.size)


# Budgets --------------------------------------------------------------------------------------------------------------


def compose_until_refused(accountant: cm.Accountant, step: cm.mechanisms.base.AbstractMechanism) -> int:
    made = 0
    while True:
        try:
            accountant.compose(step)
        except cm.BudgetExceeded:
            return made
        made += 1


@pytest.mark.parametrize(
    ("step", "epsilon"), [(STEP, 2.0), (cm.Gaussian(noise_multiplier=20.0), 3.0), (cm.PureDP(epsilon=0.01), 0.25)]
)
def test_a_budget_allows_what_max_count_says(step: cm.mechanisms.base.AbstractMechanism, epsilon: float) -> None:
    accountant = cm.Accountant(epsilon=epsilon, delta=1e-5)
    made = compose_until_refused(accountant, step)
    assert made == cm.max_count(step, epsilon=epsilon, delta=1e-5)
    assert accountant.run.epsilon(delta=1e-5) <= epsilon
    assert dict(accountant.run.parts) == {step: made}


def test_a_budget_holds_for_mixtures() -> None:
    accountant = cm.Accountant(epsilon=1.0, delta=1e-6)
    steps = [cm.Gaussian(noise_multiplier=s).poisson(rate=0.02) for s in (2.0, 3.0, 4.0)] + [cm.Laplace(scale=200.0)]
    refused = 0
    for i in range(4000):
        try:
            accountant.compose(steps[i % 4], count=1 + i % 7)
        except cm.BudgetExceeded:
            refused += 1
            if refused == 4:
                break
    assert refused == 4
    spent = accountant.run.epsilon(delta=1e-6)
    assert 0.99 < spent <= 1.0
    assert all((accountant.run + step * 7).epsilon(delta=1e-6) > 1.0 for step in steps[:1])


def test_a_refused_release_leaves_room_for_smaller_ones() -> None:
    accountant = cm.Accountant(epsilon=2.0, delta=1e-5)
    with pytest.raises(cm.BudgetExceeded):
        accountant.compose(STEP, count=10**6)
    accountant.compose(STEP, count=1000)
    with pytest.raises(cm.BudgetExceeded):
        accountant.compose(cm.PureDP(epsilon=3.0))
    accountant.compose(STEP, count=100)
    assert dict(accountant.run.parts) == {STEP: 1100}


def test_what_was_released_before_counts() -> None:
    """Counts that were put in place are reckoned, not forgotten."""
    run = {STEP: 1000}
    allowance = Allowance(run, 2.0, math.log(1e-5))
    assert not allowance.takes(STEP, 200)
    assert Allowance({}, 2.0, math.log(1e-5)).takes(STEP, 200)


def test_nothing_is_allowed_at_no_budget() -> None:
    accountant = cm.Accountant(epsilon=0.0, delta=0.0)
    with pytest.raises(cm.BudgetExceeded):
        accountant.compose(STEP)
    accountant.compose(STEP, count=0)
    assert accountant.run.parts == ()


def test_copies_know_what_was_released_and_keep_the_budget() -> None:
    accountant = cm.Accountant(epsilon=2.0, delta=1e-5)
    accountant.compose(STEP, count=1100)
    accountant.epsilon(delta=1e-5)
    accountant.compose(STEP)
    accountant.epsilon(delta=1e-5)
    for copied in (copy.deepcopy(accountant), pickle.loads(pickle.dumps(accountant))):
        assert copied.run == accountant.run
        with pytest.raises(cm.BudgetExceeded):
            copied.compose(STEP, count=102)
        copied.compose(STEP, count=101)
        assert copied.epsilon(delta=1e-5) <= 2.0
    assert dict(accountant.run.parts) == {STEP: 1101}


def test_parts_of_the_data_are_not_followed_side_by_side() -> None:
    """One record may be in the dearer part of every release: what each alternative costs may not be added up alone."""
    dear, cheap = (cm.Gaussian(noise_multiplier=s).poisson(rate=q) for s, q in ((1.0, 0.1), (20.0, 0.001)))
    one, other = cm.Parallel(parts=(dear, cheap)), cm.Parallel(parts=(cheap, dear))
    accountant = cm.Accountant()
    for _ in range(3):
        accountant.compose(one, 10)
        accountant.compose(other, 10)
        assert accountant.epsilon(delta=1e-5) >= (dear * 20).epsilon(delta=1e-5)
    counts = one.epsilon_curve(counts=[6], delta=1e-5)
    assert counts[0] >= (dear * 6).epsilon(delta=1e-5)


def test_copies_are_independent() -> None:
    step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
    accountant = cm.Accountant(epsilon=2.0, delta=1e-5)
    accountant.compose(step, 100)
    accountant.compose(step)
    other = copy.copy(accountant)
    other.compose(step, 500)
    assert accountant.run == step * 101
    assert accountant.epsilon(delta=1e-5) <= accountant.run.epsilon(delta=1e-5) * (1 + 1e-9)
