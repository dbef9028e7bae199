"""Laws of sampled, nested, grouped and stated mechanisms at the ends of their ranges.

Warnings are errors in this suite, and nothing but a `CumulantError` may be raised.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from mpmath import mp, mpf

import cumulant as cm
from cumulant.answer import Method
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.profiles.profile import laplace_profile, profile_from_loss_tails
from strategies import SLOW, TABLE, anything, deltas, examples, log_uniform

EXTREMES = examples(12)

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


@given(anything(), st.integers(1, 3), st.sampled_from([0.0, 1.0]))
@example(cm.Gaussian(noise_multiplier=1.0).shuffled(batches=4, neighbors=cm.ZERO_OUT), 1, 0.0)
@example(cm.Gaussian(noise_multiplier=1.0).shuffled(batches=4, neighbors=cm.REPLACE_ONE), 3, 0.0)
@EXTREMES
def test_both_ends_are_numbers_where_delta_is_0_or_1(mechanism: AbstractMechanism, count: int, delta: float) -> None:
    """What every scheme says of ε where no δ, or all of it, is left: infinite, perhaps, but a number, and in order."""
    run = mechanism * count
    try:
        interval = run.epsilon_interval(delta=delta)
    except cm.CumulantError:
        return
    assert 0 <= interval.lower <= interval.upper
    assert interval.unproven >= 0
    assert delta < 1 or interval.upper == 0


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


# The farthest questions ----------------------------------------------------------------------------------------------

UNBOUNDED: dict[str, AbstractMechanism] = {
    "a run": cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000,
    "few": cm.Gaussian(noise_multiplier=0.3).poisson(rate=0.5) * 3,
    "beside Laplace noise": cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.1) + cm.Laplace(scale=1.0),
    "a batch": cm.Gaussian(noise_multiplier=2.0).without_replacement(batch=5, population=50) * 7,
    "two records": cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.1, neighbors=cm.REPLACE_ONE) * 4,
    "whole data": cm.Gaussian(noise_multiplier=2.0) * 3,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNBOUNDED)
def test_no_epsilon_is_so_large_that_unbounded_losses_have_no_delta(name: str) -> None:
    run, farthest = UNBOUNDED[name], [1e12, 1e30, 1e60, 1e150, 1e308]
    methods: tuple[Method, ...] = ("best", "rdp")
    for method in methods:
        assert all(run.delta(epsilon=epsilon, method=method) > 0 for epsilon in farthest)
        assert np.all(run.delta(epsilon=[1.0, *farthest], method=method) > 0)
        assert np.all(run.log_delta(epsilon=[1.0, *farthest], method=method) > -math.inf)
    for epsilon in farthest[:: 2 if SLOW else 4]:
        interval = run.delta_interval(epsilon=epsilon)
        assert 0 <= interval.lower <= interval.upper


@pytest.mark.parametrize("exponent", [-1074, -1073, -1060, -1022, -500])
def test_laplace_noise_next_to_the_smallest_losses(exponent: int) -> None:
    """δ just below θ is (θ - ε)/2, which is not 0."""
    theta = 2.0**exponent
    profile, below = laplace_profile(theta), math.nextafter(theta, 0.0)
    with mp.workdps(400):
        truth = mp.log(-mp.expm1((mpf(below) - mpf(theta)) / 2))
        assert profile.log_delta(below) >= truth
        assert profile.log_deltas(np.array([below]))[0] >= truth


@pytest.mark.parametrize("seed", range(20))
def test_losses_whose_tails_nearly_cancel(seed: int) -> None:
    """δ = p - e^ε q in 80 digits, at q down to the smallest doubles."""
    generator = np.random.default_rng(seed)
    q, epsilon = float(10 ** generator.uniform(-300, -1)), float(10 ** generator.uniform(-12, 0.5))
    p = q * math.exp(epsilon) * (1 + 10 ** generator.uniform(-15, -9))
    with mp.workdps(80):
        truth = mpf(p) - mp.exp(mpf(epsilon)) * mpf(q)
        found = profile_from_loss_tails(lambda _: p, lambda _: q).log_delta(epsilon)
        assert truth <= 0 or found >= mp.log(truth)


@pytest.mark.parametrize("count", [2**53 + 1, 2**54 + 2, 2**53 + 3, 10**17 + 1])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_counts_that_no_double_holds_are_not_rounded_down(count: int, delta: float) -> None:
    step = cm.PureDP(epsilon=1.0)
    for counts in ([count], np.array([count])):
        together = float(step.epsilon_curve(counts=counts, delta=delta)[0])
        assert together >= (step * count).epsilon(delta=delta) * (1 - 1e-9)
        assert delta > 0 or together >= count


@pytest.mark.parametrize("failure", [1e-300, 1e-6, 0.3, 0.7])
@pytest.mark.parametrize("count", [1, 3])
def test_a_delta_next_to_the_failure_probability(failure: float, count: int) -> None:
    """Below it nothing finite is true, however near: logarithms do not tell the two apart."""
    run = cm.ApproximateDP(epsilon=1.0, delta=failure) * count
    total = 1 - (1 - Fraction(failure)) ** count
    below = float(total)
    while below >= total:
        below = math.nextafter(below, 0.0)
    assert run.epsilon(delta=below) == math.inf
    assert run.epsilon(delta=[below])[0] == math.inf
    assert cm.epsilons([run, run], delta=below).tolist() == [math.inf, math.inf]
    assert cm.ApproximateDP(epsilon=1.0, delta=failure).epsilon_curve(counts=[count], delta=below)[0] == math.inf
    accountant = cm.Accountant()
    accountant.compose(run)
    accountant.epsilon(delta=min(math.nextafter(float(total), 1.0), 1.0))
    assert accountant.epsilon(delta=below) == math.inf
    assert cm.max_count(run, epsilon=1e9, delta=below) == 0
    assert count > 1 or run.epsilon(delta=failure) == 1.0


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-5, 1e-7, 1e-12, 1e-24, 1e-100])
def test_next_to_no_noise_is_no_large_grid(noise: float) -> None:
    run = cm.Gaussian(noise_multiplier=noise).poisson(rate=0.01) * 100
    assert run.epsilon(delta=1e-5) > 1 / noise


@pytest.mark.parametrize(  # (1/σ)² is 711 at first, and no double is larger than e^709.8
    ("noise", "beside"), [(0.0375, None), (0.02, None), (1e-3, None), (1e-3, 0.01), (1e-8, 0.01), (1e-100, None)]
)
def test_next_to_no_noise_intervals_hold_plain_answers(noise: float, beside: float | None) -> None:
    sampled = cm.Gaussian(noise_multiplier=noise).poisson(rate=0.3)
    run = sampled if beside is None else sampled + cm.Gaussian(noise_multiplier=beside).poisson(rate=0.2)
    epsilon, needed = run.epsilon(delta=1e-5), run.epsilon_interval(delta=1e-5)
    assert needed.lower <= min(epsilon, needed.upper)
    delta, attained = run.delta(epsilon=3.0), run.delta_interval(epsilon=3.0)
    assert attained.lower <= min(delta, attained.upper)


@given(log_uniform(1e-3, 0.2), log_uniform(1e-16, 1e-4), st.integers(1, 5))
@EXTREMES
@example(0.01, 2.0**-53, 3)
def test_next_to_delta_one_exact_is_exact(noise: float, missing: float, count: int) -> None:
    """Against balls: what is missing of δ may be as small as what its logarithm is lowered by."""
    run, delta = cm.Gaussian(noise_multiplier=noise) * count, 1 - missing
    guarantee, interval = run.guarantee(delta=delta), run.epsilon_interval(delta=delta)
    assert interval.lower <= guarantee.epsilon
    if guarantee.exact:
        assert guarantee.epsilon <= interval.upper * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-12, 1e-8])
def test_noise_for_budgets_next_to_nothing(epsilon: float) -> None:
    """At ε = 0 a sampled run of n steps has about δ = γ√n/(σ√2π): the least noise is next to that."""
    noise = cm.calibrate(
        lambda s: cm.Gaussian(noise_multiplier=s).poisson(rate=0.01) * 100, epsilon=epsilon, delta=1e-5
    )
    assert 0.99 <= noise * 1e-5 * math.sqrt(2 * math.pi) / 0.1 <= 1.01


# The logarithm of a failure probability -------------------------------------------------------------------------------


@given(st.floats(-300, -0.01), st.integers(1, 5), st.sampled_from([None, 0.25, 0.9]), st.sampled_from(["best", "rdp"]))
def test_beyond_the_largest_loss_log_delta_is_not_below_that_of_the_failure(
    exponent: float, count: int, rate: float | None, method: Method
) -> None:
    failure = 10.0**exponent
    stated = cm.ApproximateDP(epsilon=1.0, delta=failure)
    run = (stated if rate is None else stated.poisson(rate=rate)) * count
    with mp.workdps(400):
        truth = mp.log(-mp.expm1(count * mp.log1p(-mpf(failure) * mpf(rate or 1.0))))
        assert truth <= run.log_delta(epsilon=100.0, method=method) <= truth + 1e-12 * (1 + abs(truth))
        assert truth <= run.log_delta(epsilon=np.array([100.0]), method=method)[0]
        assert truth <= (run + cm.Laplace(scale=1.0)).log_delta(epsilon=100.0, method=method)


@given(st.floats(0.55, 0.95), st.floats(-14, -6), st.floats(3, 7), st.sampled_from([0.9, 0.5, 0.1, 1e-3]))
@EXTREMES
@example(0.8125, -12.0, 6.0, 0.9)
@example(0.9351020869641069, math.log10(1.6739391e-9), math.log10(3045036.5), 0.9)
def test_delta_at_epsilon_agrees_where_lines_have_some_slack(p: float, rest: float, size: float, delta: float) -> None:
    """Millions of bits on samples of nearly everyone: a line of its own for δ differs by 1e-9 nats."""
    run = cm.RandomizedResponse(p=p).poisson(rate=1 - 10.0**rest) * int(10.0**size)
    assert run.delta(epsilon=run.epsilon(delta=delta)) <= delta
