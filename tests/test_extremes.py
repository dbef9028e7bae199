"""Laws of sampled, nested, grouped and stated mechanisms at the ends of their ranges.

Warnings are errors in this suite, and nothing but a `CumulantError` may be raised.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from strategies import TABLE, deltas, log_uniform

EXTREMES = settings(deadline=None, max_examples=20)

KINDS = (cm.Gaussian, cm.Laplace, cm.RandomizedResponse, cm.PureDP, cm.ApproximateDP, cm.StatedPair)


def rates() -> SearchStrategy[float]:
    return st.one_of(st.sampled_from([0.0, 1e-300, 1e-12, 1 - 1e-12, 1.0]), log_uniform(1e-6, 1.0))


@st.composite
def sampled(draw: st.DrawFn) -> AbstractMechanism:
    """Return a mechanism on a sample, a sample of a sample, or a group of it."""
    base: AbstractMechanism = draw(st.one_of([TABLE[kind].draw for kind in KINDS]))
    relation = draw(st.sampled_from([cm.ADD_REMOVE, cm.REPLACE_ONE]))
    how = draw(st.sampled_from(["poisson", "poisson", "batch", "nested", "grouped"]))
    if how == "batch":
        return base.without_replacement(rate=draw(rates()), neighbors=relation)
    step = base.poisson(rate=draw(rates()), neighbors=cm.ADD_REMOVE if how != "poisson" else relation)
    if how == "nested":
        return step.poisson(rate=draw(rates()), neighbors=relation)
    return step.group(size=draw(st.sampled_from([1, 2, 7]))) if how == "grouped" and step_can_be_grouped(step) else step


def step_can_be_grouped(step: AbstractMechanism) -> bool:
    return step._known().failure() == 0


def counts() -> SearchStrategy[int]:
    return st.one_of(st.integers(1, 3), st.sampled_from([10**3, 10**6, 10**12]))


def answer(mechanism: AbstractMechanism, *, delta: float) -> float | None:
    """Return ε, or None where the library says that it is out of reach."""
    try:
        return float(mechanism.epsilon(delta=delta))
    except cm.CumulantError:
        return None


@given(sampled(), counts(), deltas())
@EXTREMES
def test_answers_are_numbers_and_keep_their_promise(mechanism: AbstractMechanism, count: int, delta: float) -> None:
    """Both ways are proven, on lines of their own; they agree unless δ is so near 1 that doubles cannot tell."""
    run, delta = mechanism * count, min(delta, 0.9)
    epsilon = answer(run, delta=delta)
    if epsilon is not None:
        assert epsilon >= 0
        if epsilon < math.inf:
            assert run.delta(epsilon=epsilon) <= delta


@given(sampled(), counts(), deltas(), deltas())
@EXTREMES
def test_epsilon_falls_as_delta_grows(mechanism: AbstractMechanism, count: int, a: float, b: float) -> None:
    low, high = (answer(mechanism * count, delta=delta) for delta in sorted((a, b)))
    if low is not None and high is not None:
        assert high <= low * (1 + 1e-6)  # the two may have been proven in different ways


@given(sampled(), counts(), deltas())
@EXTREMES
def test_renyi_dp_is_never_below_zero_and_grows(mechanism: AbstractMechanism, count: int, delta: float) -> None:
    try:
        values = (mechanism * count).rdp(order=[1.0, 1.5, 4.0, 64.0, math.inf])
    except cm.CumulantError:
        return
    assert all(value >= 0 for value in values)
    assert all(b >= a * (1 - 1e-9) for a, b in pairwise(values))


@given(sampled(), st.integers(1, 20), st.floats(0, 60))
@EXTREMES
def test_intervals_hold_plain_answers(mechanism: AbstractMechanism, count: int, epsilon: float) -> None:
    """The lower end is never above the plain answer, which is never below the truth."""
    run = mechanism * count
    try:
        interval, delta = run.delta_interval(epsilon=epsilon), run.delta(epsilon=epsilon)
    except cm.CumulantError:
        return
    assert 0 <= interval.lower <= interval.upper <= 1
    assert delta >= interval.lower


@given(sampled(), sampled(), deltas())
@EXTREMES
def test_another_release_never_costs_less(one: AbstractMechanism, other: AbstractMechanism, delta: float) -> None:
    try:
        both = one + other
    except cm.MixedNeighbors:
        return
    alone, together = answer(one, delta=delta), answer(both, delta=delta)
    if alone is not None and together is not None:
        assert together >= alone * (1 - 1e-6)


@pytest.mark.parametrize("count", [0, 1, 10**18])
def test_the_ends_of_counts(count: int) -> None:
    run = cm.Gaussian(noise_multiplier=5.0).poisson(rate=1e-3) * count
    assert run.epsilon(delta=1e-5) >= 0


@given(log_uniform(0.05, 1e3), log_uniform(1e-12, 1e-3), st.integers(1, 10**6))
@EXTREMES
def test_rare_releases_are_nothing_beside_a_larger_delta(sigma: float, rate: float, count: int) -> None:
    """Total variations add up: that of one release is the rate times erf(1/(√8σ))."""
    one = rate * math.erf(1 / (math.sqrt(8.0) * sigma))
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    if count * rate < 0.5:
        assert run.epsilon(delta=count * rate * (1 + 1e-6)) == 0
    assert run.epsilon(delta=one * (1 - 1e-6)) > 0
