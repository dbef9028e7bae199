"""Arrays of questions: the same answers as one by one, on the safe side of certified intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cumulant as cm
from cumulant.inversion.batch import epsilon_of_rows, log_delta_of_rows
from cumulant.inversion.composed import multiples_of
from cumulant.inversion.rows import Rows
from cumulant.inversion.solve import epsilon_of_pairs
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.maps import Join, Leave
from cumulant.pairs.noise import GaussianNoise

STEP = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
MIXED = STEP * 400 + cm.Laplace(scale=4.0).poisson(rate=0.02) * 300 + cm.Gaussian(noise_multiplier=9.0)
RUNS = {
    "sampled Gaussians": STEP * 1000,
    "fewer of them": STEP * 250,
    "many": cm.Gaussian(noise_multiplier=4.0).poisson(rate=0.001) * 10**6,
    "without replacement": cm.Gaussian(noise_multiplier=2.0).without_replacement(rate=0.01) * 500,
    "mixed": MIXED,
    "Gaussians alone": cm.Gaussian(noise_multiplier=5.0) * 10,
    "on a lattice": cm.RandomizedResponse(p=0.6) * 20,
    "by a curve": cm.ZCDP(rho=0.1) * 3,
    "one release": cm.Laplace(scale=2.0),
    "with a failure": cm.ApproximateDP(epsilon=0.1, delta=1e-7) * 5,
}
DELTAS = np.array([[1e-12, 1e-9, 1e-6], [1e-5, 1e-3, 0.1]])


def rows_of(run: cm.Composed) -> list[Rows]:
    directions = run._known().directions(run.neighbors)
    assert directions is not None
    return [multiples_of(direction, np.ones(1))[0] for direction in directions]


@pytest.mark.parametrize("name", RUNS)
def test_arrays_say_what_single_questions_say(name: str) -> None:
    run = RUNS[name]
    together = run.epsilon(delta=DELTAS)
    alone = np.array([[run.epsilon(delta=float(delta)) for delta in row] for row in DELTAS])
    assert together.shape == DELTAS.shape
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-12)
    asked = np.array([0.0, 0.3, 1.0, 2.5])
    logs = np.array([run.log_delta(epsilon=float(epsilon)) for epsilon in asked])
    # both are within 1e-6 of ε, or 1e-9, of the truth: log δ by as much times what it falls by
    together, known = run.log_delta(epsilon=asked), logs > -np.inf
    assert np.all(np.isneginf(together[~known]))
    falls = np.array([run.log_delta(epsilon=float(epsilon) * 0.999) for epsilon in asked[known]]) - logs[known]
    apart = np.abs(together[known] - logs[known])
    assert np.all(apart <= 2e-9 + 1.1e-6 * falls / 1e-3), apart
    np.testing.assert_allclose(run.delta(epsilon=list(asked)), np.exp(together), rtol=3e-9)


def test_scalars_give_floats_and_arrays_keep_their_shape() -> None:
    run = RUNS["sampled Gaussians"]
    assert type(run.epsilon(delta=1e-5)) is float
    assert type(run.delta(epsilon=1.0)) is float
    assert type(run.tradeoff(false_positive_rate=0.1)) is float
    assert type(run.true_positive_rate(false_positive_rate=0.1)) is float
    assert type(STEP.epsilon_curve(counts=1000, delta=1e-5)) is float
    assert run.epsilon(delta=[]).shape == (0,)
    assert run.epsilon(log_delta=[[-5.0], [-9.0]]).shape == (2, 1)
    assert run.true_positive_rate(false_positive_rate=np.zeros((2, 0))).shape == (2, 0)
    assert STEP.epsilon_curve(counts=[[1000], [2000]], delta=1e-5).shape == (2, 1)


@pytest.mark.parametrize("name", ["sampled Gaussians", "many"])
def test_arrays_are_on_the_safe_side_of_certified_intervals(name: str) -> None:
    run = RUNS[name]
    for delta, epsilon in zip([1e-9, 1e-5, 1e-3], run.epsilon(delta=[1e-9, 1e-5, 1e-3]), strict=True):
        interval = run.epsilon_interval(delta=delta)
        assert interval.lower <= epsilon <= interval.upper * (1 + 1e-9)
    for epsilon, delta in zip([0.1, 1.0], run.delta(epsilon=[0.1, 1.0]), strict=True):
        interval = run.delta_interval(epsilon=epsilon)
        assert interval.lower <= delta <= interval.upper * (1 + 2e-9)


def test_rows_answer_what_they_are_there_for() -> None:
    """Where arrays fell back to single questions, all of this would still be true, but slow."""
    for row in rows_of(STEP * 1000):
        assert np.all(epsilon_of_rows(row.of_rows(np.zeros(6, dtype=np.intp)), np.log(DELTAS.ravel())) > 0)
        assert np.all(log_delta_of_rows(row.of_rows(np.zeros(3, dtype=np.intp)), np.array([0.1, 1.0, 4.0])) < 0)


def test_a_line_that_is_too_short_settles_nothing() -> None:
    """Three releases do not fall within a line that many share: no number is better than a wrong one."""
    for row in rows_of(STEP * 3):
        found = epsilon_of_rows(row, np.array([math.log(1e-5)]))
        assert np.isnan(found[0]) or found[0] >= (STEP * 3).epsilon_interval(delta=1e-5).lower


def test_a_curve_of_counts() -> None:
    counts = np.array([0, 1, 300, 1000, 10**5, 10**9])
    curve = STEP.epsilon_curve(counts=counts, delta=1e-6)
    alone = [(STEP * int(n)).epsilon(delta=1e-6) for n in counts]
    np.testing.assert_allclose(curve, alone, rtol=1e-9)
    pairs = (STEP + cm.Laplace(scale=30.0)).epsilon_curve(counts=[2000, 4000], delta=[1e-5, 1e-7])
    alone = [((STEP + cm.Laplace(scale=30.0)) * n).epsilon(delta=d) for n, d in ((2000, 1e-5), (4000, 1e-7))]
    np.testing.assert_allclose(pairs, alone, rtol=1e-9)


def test_many_runs_together() -> None:
    noises = np.linspace(0.7, 3.0, 12)
    runs = [cm.Gaussian(noise_multiplier=float(noise)).poisson(rate=0.01) * 1000 for noise in noises]
    runs += [cm.Gaussian(noise_multiplier=3.0) * 4, cm.ZCDP(rho=0.2) * 1, STEP * 500 + cm.Laplace(scale=20.0) * 300]
    np.testing.assert_allclose(cm.epsilons(runs, delta=1e-5), [run.epsilon(delta=1e-5) for run in runs], rtol=1e-9)
    deltas = np.geomspace(1e-8, 1e-3, len(runs))
    alone = [run.epsilon(delta=float(delta)) for run, delta in zip(runs, deltas, strict=True)]
    np.testing.assert_allclose(cm.epsilons(runs, delta=deltas), alone, rtol=1e-9)
    assert cm.epsilons([], delta=1e-5).shape == (0,)


@pytest.mark.parametrize("name", ["sampled Gaussians", "fewer of them", "mixed", "Gaussians alone"])
def test_a_coarser_answer_is_above_the_truth_and_no_further_than_allowed(name: str) -> None:
    run = RUNS[name]
    for accuracy in (0.1, 1e-2, 1e-4):
        epsilon = run.epsilon(delta=1e-6, accuracy=accuracy)
        exact = run.epsilon(delta=1e-6)
        assert exact * (1 - 1e-9) <= epsilon <= exact * (1 + accuracy) / (1 - accuracy)
        guarantee = run.guarantee(delta=1e-6, accuracy=accuracy)
        assert guarantee.epsilon == epsilon
        assert run.delta(epsilon=1.0, accuracy=accuracy) >= run.delta(epsilon=1.0) * (1 - 1e-9)


@pytest.mark.parametrize("accuracy", [0, -1.0, 1.0, math.nan, "1e-3"])
def test_an_accuracy_is_a_share(accuracy: float) -> None:
    with pytest.raises(cm.InvalidParameter, match="accuracy"):
        STEP.epsilon(delta=1e-5, accuracy=accuracy)


def test_bad_arrays_are_refused() -> None:
    run = RUNS["sampled Gaussians"]
    for wrong in ([0.5, 2.0], [0.5, math.nan], ["a"], [[0.5], [0.5, 0.1]], [True]):
        with pytest.raises(cm.InvalidParameter, match="delta"):
            run.epsilon(delta=wrong)
    with pytest.raises(cm.InvalidParameter, match="epsilon"):
        run.delta(epsilon=[1.0, -1.0])
    with pytest.raises(cm.InvalidParameter, match="count"):
        STEP.epsilon_curve(counts=[1000.5], delta=1e-5)
    with pytest.raises(cm.InvalidParameter, match="as many as counts"):
        STEP.epsilon_curve(counts=[1, 2, 3], delta=[1e-5, 1e-6])
    with pytest.raises(cm.InvalidParameter, match="runs must be"):
        cm.epsilons([cm.Accountant()], delta=1e-5)  # type: ignore[list-item]
    with pytest.raises(cm.InvalidParameter, match="method"):
        run.epsilon(delta=[1e-5], method="fast")  # type: ignore[arg-type]


# Bounds of rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [Leave(0.01), Join(0.01)])
def test_only_rows_that_are_within_are_called_so(sampling: Leave | Join) -> None:
    """ε that is known to 1e-9 by itself: a little less is never within, half as much again is."""
    counts = np.array([3.0, 60.0, 1000.0, 6000.0, 40_000.0])
    pair = CoordinatePair(GaussianNoise(1.0), sampling)
    rows, _ = multiples_of([(pair, 1)], counts)
    log_delta = np.full(len(counts), math.log(1e-5))
    epsilon = np.array([epsilon_of_pairs([[(pair, int(n))]], math.log(1e-5)).value for n in counts])
    assert not np.any(rows.are_within(epsilon * (1 - 1e-8), log_delta))
    assert np.all(rows.are_within(1.5 * epsilon, log_delta)[counts >= 1000])
    assert np.all(rows.are_within(epsilon, log_delta + math.log(100.0))[counts >= 1000])
    assert np.all(rows.are_within(rows.supremum, np.full(len(counts), -1e9)))
