"""Composition of (ε, δ): mpmath sums, enumeration of every outcome, and the order the theorems must have."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from mpmath import binomial, exp, expm1, log, log1p, mp, mpf, sqrt

from cumulant import InvalidParameter
from cumulant.composition_theorems.calibrated import calibrated_composition
from cumulant.composition_theorems.naive_and_strong import naive_composition, strong_composition, subsampling_lemma
from cumulant.composition_theorems.optimal import (
    optimal_composition_delta,
    optimal_composition_epsilon,
    optimal_composition_log_delta,
)
from cumulant.composition_theorems.rounds import Rounds
from cumulant.composition_theorems.unequal import (
    optimal_composition_delta_interval,
    optimal_composition_epsilon_interval,
    optimal_composition_log_delta_interval,
)


@pytest.fixture(autouse=True)
def fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


def enumerated_delta(parts: Sequence[Rounds], epsilon: float) -> Any:
    """Return Σ (P - e^ε' Q)_+ over all outcomes of randomized responses that fail: reveal the data with δ_i."""
    pairs = []
    for part in parts:
        p, d = 1 / (1 + exp(-mpf(part.epsilon))), mpf(part.delta)
        outcomes = [((1 - d) * p, (1 - d) * (1 - p)), ((1 - d) * (1 - p), (1 - d) * p), (d, mpf(0)), (mpf(0), d)]
        pairs += [[(p, q) for p, q in outcomes if p + q > 0]] * part.count
    total, scale = mpf(0), exp(mpf(epsilon))
    for outcome in itertools.product(*pairs):
        p, q = mpf(1), mpf(1)
        for mass_p, mass_q in outcome:
            p, q = p * mass_p, q * mass_q
        total += max(mpf(0), p - scale * q)
    return total


def summed_delta(rounds: Rounds, epsilon: float) -> Any:
    """Return Kairouz, Oh and Viswanath's sum; from the last positive term back, until nothing more changes."""
    e, d, k, x = mpf(rounds.epsilon), mpf(rounds.delta), rounds.count, mpf(epsilon)
    total, failure = mpf(0), -expm1(k * log1p(-d))
    last = min(k, int(mp.floor((k - x / e) / 2)))
    mass = binomial(k, last) * exp((k - last) * e - k * log(1 + exp(e))) if last >= 0 else mpf(0)
    for lies in range(last, -1, -1):
        term = -mass * expm1(x - (k - 2 * lies) * e)
        total += term
        if term < total * mpf(10) ** -40 and lies < last and lies * exp(e) < k - lies:
            break
        mass *= mpf(lies) / (k - lies + 1) * exp(e)
    return failure + (1 - failure) * total


def two_group_tail(first: Rounds, second: Rounds, epsilon: float) -> Any:
    """Return E(1 - e^{ε'-L})_+ over both binomials: for each loss of the first, running sums over the second."""
    e, top = mpf(second.epsilon), second.count * mpf(second.epsilon)
    masses = binomial_masses(second)
    plain = list(itertools.accumulate(masses))
    weighted = list(itertools.accumulate(m * exp(2 * j * e - top) for j, m in enumerate(masses)))
    total = mpf(0)
    for i, mass in enumerate(binomial_masses(first)):
        left = epsilon - (first.count - 2 * i) * mpf(first.epsilon)
        last = min(second.count, int(mp.floor((top - left) / (2 * e))))
        if last >= 0:
            total += mass * (plain[last] - exp(left) * weighted[last])
    return total


def binomial_masses(rounds: Rounds) -> list[Any]:
    e, k = mpf(rounds.epsilon), rounds.count
    return [binomial(k, lies) * exp((k - lies) * e) / (1 + exp(e)) ** k for lies in range(k + 1)]


def random_parts(seed: int, *, most: int, delta: float) -> list[Rounds]:
    rng = random.Random(seed)
    return [
        Rounds(epsilon=rng.choice([0.02, 0.3, 1.0, 3.0]) * rng.random(), delta=delta * rng.random())
        for _ in range(rng.randint(2, most))
    ]


# Naive and strong.


def test_naive_composition_adds() -> None:
    assert naive_composition([Rounds(epsilon=0.5, delta=2.0**-20, count=8)]) == (4.0, 2.0**-17)
    assert naive_composition([Rounds(epsilon=0.5, count=2), Rounds(epsilon=0.25, delta=0.5)]) == (1.25, 0.5)
    assert naive_composition([]) == (0.0, 0.0)
    assert naive_composition([Rounds(epsilon=1.0, delta=0.6, count=2)])[1] == 1.0


@pytest.mark.parametrize("count", [3, 10, 7919])
def test_naive_composition_rounds_up(count: int) -> None:
    epsilon, delta = naive_composition([Rounds(epsilon=0.1, delta=1e-9, count=count)])
    assert count * mpf(0.1) <= epsilon <= count * mpf(0.1) * (1 + mpf(2) ** -52)
    assert count * mpf(1e-9) <= delta <= count * mpf(1e-9) * (1 + mpf(2) ** -52)


@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("slack", [1.0, 1e-6, 1e-300])
def test_strong_composition_is_the_formula_rounded_up(epsilon: float, slack: float) -> None:
    e, k = mpf(epsilon), 1000
    exact = e * sqrt(2 * k * log(1 / mpf(slack))) + k * e * expm1(e)
    total, delta = strong_composition(Rounds(epsilon=epsilon, delta=1e-9, count=k), slack=slack)
    assert exact <= total <= exact * (1 + mpf(10) ** -14)
    assert min(mpf(1), k * mpf(1e-9) + mpf(slack)) <= delta <= (k * mpf(1e-9) + mpf(slack)) * (1 + mpf(2) ** -52)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0])
def test_strong_composition_is_never_worse_than_theorem_26_as_printed(epsilon: float) -> None:
    k, slack = 500, 1e-6
    printed = epsilon * math.sqrt(2 * k * math.log(1 / slack)) + 2 * k * epsilon**2
    assert strong_composition(Rounds(epsilon=epsilon, count=k), slack=slack)[0] <= printed


def test_strong_composition_of_an_enormous_epsilon_promises_nothing() -> None:
    assert strong_composition(Rounds(epsilon=5000.0), slack=0.1)[0] == math.inf


# The subsampling lemma.


@pytest.mark.parametrize("rate", [1e-300, 1e-9, 0.3, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 0.7, 30.0, 599.0, 601.0, 5000.0])
def test_subsampling_lemma_is_the_formula_rounded_up(rate: float, epsilon: float) -> None:
    amplified, delta = subsampling_lemma(rate=rate, epsilon=epsilon, delta=1e-5)
    exact = log1p(mpf(rate) * expm1(mpf(epsilon)))
    assert exact <= amplified
    # For ε > 600 the answer is ε less log 1/γ, so that ε sets the scale of rounding.
    assert amplified <= exact * (1 + mpf(10) ** -14) + mpf(5e-324) + (mpf(10) ** -14 * epsilon if epsilon > 600 else 0)
    assert mpf(rate) * mpf(1e-5) <= delta <= mpf(rate) * mpf(1e-5) * (1 + mpf(2) ** -51) + mpf(5e-324)


def test_subsampling_lemma_at_its_ends() -> None:
    assert subsampling_lemma(rate=0.0, epsilon=3.0, delta=0.5) == (0.0, 0.0)
    assert subsampling_lemma(rate=1.0, epsilon=3.0, delta=0.5) == (3.0, 0.5)
    assert subsampling_lemma(rate=0.1, epsilon=math.inf)[0] == math.inf


# Optimal composition of equal rounds.


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("round_epsilon", [0.01, 0.7, 3.0])
@pytest.mark.parametrize("round_delta", [0.0, 1e-6, 0.2])
def test_optimal_composition_is_the_best_of_all_outcomes(count: int, round_epsilon: float, round_delta: float) -> None:
    rounds = Rounds(epsilon=round_epsilon, delta=round_delta, count=count)
    for fraction in (0.0, 0.2, 0.5, 0.95, 1.5):
        epsilon = fraction * count * round_epsilon
        exact = enumerated_delta([rounds], epsilon)
        assert exact <= optimal_composition_delta(rounds, epsilon=epsilon) <= exact * (1 + mpf(10) ** -12)


@pytest.mark.parametrize("count", [1, 2, 5, 50, 1000])
@pytest.mark.parametrize("round_epsilon", [1e-4, 1e-2, 0.3, 1.0, 5.0])
def test_optimal_composition_is_the_sum(count: int, round_epsilon: float) -> None:
    """Never below; above by no more than rounding allows, even where δ is e^-4000."""
    for round_delta, fraction in itertools.product((0.0, 1e-300, 1e-12, 0.01), (0.0, 0.01, 0.1, 0.5, 0.9, 0.999)):
        rounds, epsilon = (
            Rounds(epsilon=round_epsilon, delta=round_delta, count=count),
            fraction * count * round_epsilon,
        )
        exact = min(mpf(0), log(summed_delta(rounds, epsilon)))
        answer = optimal_composition_log_delta(rounds, epsilon=epsilon)
        assert exact <= answer <= exact + mpf(10) ** -12 * (1 + abs(exact))


@pytest.mark.parametrize("count", [1, 2, 5, 50, 1000])
@pytest.mark.parametrize("round_epsilon", [1e-4, 0.3, 5.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-40, 1e-5, 0.3])
def test_optimal_epsilon_is_just_above_where_the_sum_meets_delta(
    count: int, round_epsilon: float, delta: float
) -> None:
    rounds = Rounds(epsilon=round_epsilon, delta=delta / 3 / count, count=count)
    epsilon = optimal_composition_epsilon(rounds, delta=delta)
    assert summed_delta(rounds, epsilon) <= delta
    # δ' moves by up to its rounding error, so ε' moves by that over its slope as well.
    if epsilon > 0:
        assert summed_delta(rounds, epsilon * (1 - 1e-12)) > mpf(delta) * (1 - mpf(10) ** -11)


@pytest.mark.parametrize("round_epsilon", [1e-4, 1e-3, 0.1])
def test_six_hundred_thousand_rounds(round_epsilon: float) -> None:
    """Figure 4 of Wang et al. (2019) composes this many."""
    rounds = Rounds(epsilon=round_epsilon, delta=1e-15, count=600_000)
    epsilon = optimal_composition_epsilon(rounds, delta=1e-8)
    assert summed_delta(rounds, epsilon) <= 1e-8
    assert summed_delta(rounds, epsilon * (1 - 1e-9)) > 1e-8
    exact = log(summed_delta(rounds, 1.1 * epsilon))
    assert exact <= optimal_composition_log_delta(rounds, epsilon=1.1 * epsilon) <= exact + mpf(10) ** -9


def test_ten_million_rounds_at_a_vanishing_delta() -> None:
    rounds = Rounds(epsilon=1e-3, count=10**7)
    epsilon = optimal_composition_epsilon(rounds, delta=1e-300)
    with mp.workdps(30):
        # The Gaussian limit: mean kε²/2, variance kε²; corrections are of relative order ε.
        mean, deviation = mpf(5), sqrt(mpf(10))
        a = (epsilon - mean) / deviation
        gaussian = mp.ncdf(-a) - exp(epsilon) * mp.ncdf(-a - deviation)
        assert abs(log(gaussian) - log(mpf(1e-300))) < 0.1


def test_optimal_composition_is_never_above_strong_or_naive() -> None:
    for e, d, k in itertools.product((0.001, 0.1, 1.0, 3.0), (0.0, 1e-9), (1, 7, 300)):
        rounds = Rounds(epsilon=e, delta=d, count=k)
        for slack in (1e-12, 1e-6, 0.1):
            strong_epsilon, strong_delta = strong_composition(rounds, slack=slack)
            assert optimal_composition_epsilon(rounds, delta=strong_delta) <= strong_epsilon
            assert optimal_composition_epsilon(rounds, delta=strong_delta) <= naive_composition([rounds])[0]


def test_what_naive_composition_proves_is_met_exactly() -> None:
    assert optimal_composition_epsilon(Rounds(epsilon=0.1, delta=1e-5), delta=1e-5) == 0.1
    assert (
        optimal_composition_epsilon(Rounds(epsilon=0.1, count=3), delta=0.0)
        == naive_composition([Rounds(epsilon=0.1, count=3)])[0]
    )
    assert optimal_composition_log_delta(Rounds(epsilon=0.5, count=4), epsilon=2.0) == -math.inf
    assert optimal_composition_delta(Rounds(epsilon=0.5, count=4), epsilon=2.0) == 0.0


def test_a_delta_that_failures_exceed_has_no_epsilon() -> None:
    assert optimal_composition_epsilon(Rounds(epsilon=0.1, delta=1e-5, count=2), delta=1.5e-5) == math.inf
    assert optimal_composition_epsilon(Rounds(epsilon=0.1, delta=1.0), delta=0.5) == math.inf
    assert optimal_composition_log_delta(Rounds(epsilon=0.1, delta=1.0), epsilon=1.0) == 0.0


def test_nothing_released_costs_nothing() -> None:
    for rounds in (Rounds(epsilon=1.0, delta=0.5, count=0), Rounds(epsilon=0.0, count=9)):
        assert optimal_composition_epsilon(rounds, delta=0.0) == 0.0
        assert optimal_composition_delta(rounds, epsilon=0.0) == 0.0
        assert optimal_composition_epsilon_interval([rounds], delta=0.0).upper == 0.0
    assert optimal_composition_epsilon(Rounds(epsilon=1.0, count=9), delta=1.0) == 0.0
    assert optimal_composition_delta_interval([], epsilon=0.0).upper == 0.0


def test_delta_does_not_underflow_to_zero() -> None:
    rounds = Rounds(epsilon=5.0, count=1000)
    assert optimal_composition_log_delta(rounds, epsilon=4999.9999999) > -math.inf
    assert optimal_composition_delta(Rounds(epsilon=1e-3, count=10_000), epsilon=9.99) > 0


# Optimal composition of different rounds.


@pytest.mark.parametrize("seed", range(12))
def test_interval_of_delta_contains_the_enumeration(seed: int) -> None:
    parts = random_parts(seed, most=10, delta=0.0) if seed % 2 else random_parts(seed, most=5, delta=1e-4)
    most = naive_composition(parts)[0]
    for epsilon in (0.0, 0.1 * most, 0.4 * most, 0.8 * most, 0.99 * most):
        exact = log(enumerated_delta(parts, epsilon))
        answer = optimal_composition_log_delta_interval(parts, epsilon=epsilon)
        assert answer.lower <= exact <= answer.upper
        plain = optimal_composition_delta_interval(parts, epsilon=epsilon)
        assert plain.lower <= exp(exact) <= plain.upper


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("accuracy", [0.1, 1e-3, 1e-5])
def test_interval_of_epsilon_contains_the_optimum_and_is_as_narrow_as_asked(seed: int, accuracy: float) -> None:
    parts = random_parts(seed, most=6 if seed % 2 else 4, delta=1e-7)
    for delta in (1e-12 + naive_composition(parts)[1], 1e-5, 1e-2):
        answer = optimal_composition_epsilon_interval(parts, delta=delta, accuracy=accuracy)
        assert enumerated_delta(parts, answer.upper) <= delta
        assert answer.lower == 0 or enumerated_delta(parts, answer.lower) >= delta
        assert answer.width <= accuracy


TWO_GROUPS = (Rounds(epsilon=0.1, count=500), Rounds(epsilon=0.1373, count=700))


@pytest.mark.parametrize("target", [1e-300, 1e-100, 1e-10, 0.1])
def test_interval_for_groups_keeps_its_accuracy_down_to_1e_300(target: float) -> None:
    answer = optimal_composition_epsilon_interval(TWO_GROUPS, delta=target)
    assert answer.width <= 1e-3
    assert answer.upper < 0.99 * naive_composition(TWO_GROUPS)[0]
    assert two_group_tail(*TWO_GROUPS, answer.upper) <= target <= two_group_tail(*TWO_GROUPS, answer.lower)
    middle = 0.5 * (answer.lower + answer.upper)
    logs = optimal_composition_log_delta_interval(TWO_GROUPS, epsilon=middle)
    assert logs.lower <= log(two_group_tail(*TWO_GROUPS, middle)) <= logs.upper


def test_multiples_of_one_epsilon_are_not_moved_at_all() -> None:
    """Then both ends meet but for rounding, however coarse the accuracy asked for."""
    parts = [Rounds(epsilon=0.1, count=40), Rounds(epsilon=0.2, count=30), Rounds(epsilon=0.3, count=3)]
    logs = optimal_composition_log_delta_interval(parts, epsilon=5.0, accuracy=1.0)
    assert logs.width < 1e-9


def test_interval_of_equal_rounds_contains_their_sum() -> None:
    for rounds, delta in (
        (Rounds(epsilon=0.01, delta=1e-14, count=50_000), 1e-8),
        (Rounds(epsilon=2.5, count=77), 1e-30),
    ):
        answer = optimal_composition_epsilon_interval([rounds], delta=delta)
        assert summed_delta(rounds, answer.upper) <= delta <= summed_delta(rounds, answer.lower)


def test_an_interval_too_narrow_for_its_memory_is_wider_and_still_right() -> None:
    answer = optimal_composition_epsilon_interval(TWO_GROUPS, delta=1e-10, accuracy=1e-9)
    assert two_group_tail(*TWO_GROUPS, answer.upper) <= 1e-10 <= two_group_tail(*TWO_GROUPS, answer.lower)
    assert 1e-9 < answer.width < 1e-3


def test_interval_at_the_ends_of_delta() -> None:
    parts = [Rounds(epsilon=0.5), Rounds(epsilon=0.3, delta=1e-3, count=2)]
    most, failing = naive_composition(parts)
    assert optimal_composition_epsilon_interval(parts, delta=1e-4).lower == math.inf
    assert optimal_composition_epsilon_interval(parts, delta=1.0).upper == 0.0
    assert optimal_composition_epsilon_interval(parts, delta=failing).upper <= most
    pure = optimal_composition_epsilon_interval([Rounds(epsilon=0.5), Rounds(epsilon=0.3)], delta=0.0)
    assert pure.lower <= 0.8 <= pure.upper <= 0.8 + 1e-15
    assert pure.width <= 1e-3


# The calibrated baseline.


def gaussian_curve(scale: float) -> Callable[[float], float]:
    """Return the classical curve of a Gaussian, √(2 log 1/δ)/σ + 1/(2σ²), which holds at every δ."""
    return lambda log_delta: math.sqrt(-2 * log_delta) / scale + 0.5 / scale**2 if log_delta > -math.inf else math.inf


@pytest.mark.parametrize("count", [1, 30, 1000])
@pytest.mark.parametrize("delta", [1e-8, 1e-200])
def test_calibrated_composition_is_proven_and_no_grid_finds_better(count: int, delta: float) -> None:
    curve = gaussian_curve(20.0)
    epsilon, round_delta = calibrated_composition(curve, count=count, delta=delta)
    chosen = Rounds(epsilon=curve(math.log(round_delta)), delta=round_delta, count=count)
    assert summed_delta(chosen, epsilon) <= delta
    for exponent in range(0, 40, 3):
        other = delta / count * math.exp(-0.5 * exponent - 1e-3)
        rounds = Rounds(epsilon=curve(math.log(other)), delta=other, count=count)
        assert summed_delta(rounds, 0.999 * epsilon) > delta
    assert epsilon <= count * curve(math.log(delta / count)) * (1 + 1e-9)


def test_calibrated_composition_of_a_pure_round_spends_no_delta_on_it() -> None:
    epsilon, round_delta = calibrated_composition(lambda _: 0.1, count=1000, log_delta=math.log(1e-9))
    exact = summed_delta(Rounds(epsilon=0.1, count=1000), epsilon)
    assert round_delta < 1e-18
    assert 1e-9 * (1 - 1e-6) < exact <= 1e-9


def test_calibrated_composition_of_rounds_that_always_fail_promises_nothing() -> None:
    assert calibrated_composition(lambda _: math.inf, count=3, delta=1e-5)[0] == math.inf
    assert calibrated_composition(gaussian_curve(1.0), count=3, delta=0.0)[0] == math.inf


# What is refused.


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": -0.1},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": 1e101},
        {"epsilon": 1e-300},
        {"epsilon": "1"},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "delta": 1.5},
        {"epsilon": 1.0, "count": -1},
        {"epsilon": 1.0, "count": 2.0},
        {"epsilon": 1.0, "count": True},
    ],
)
def test_rounds_refuse(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        Rounds(**arguments)


ONE = Rounds(epsilon=1.0)


@pytest.mark.parametrize(
    "question",
    [
        lambda: naive_composition([(1.0, 0.0, 3)]),  # type: ignore[list-item]
        lambda: naive_composition([Rounds(epsilon=1.0, count=10**12), ONE]),
        lambda: strong_composition(ONE, slack=0.0),
        lambda: strong_composition(ONE, slack=1.1),
        lambda: optimal_composition_delta(ONE, epsilon=-1.0),
        lambda: optimal_composition_log_delta(ONE, epsilon=math.nan),
        lambda: optimal_composition_epsilon(ONE),
        lambda: optimal_composition_epsilon(ONE, delta=1e-5, log_delta=-3.0),
        lambda: optimal_composition_epsilon(ONE, delta=-1e-5),
        lambda: optimal_composition_epsilon(ONE, log_delta=0.1),
        lambda: optimal_composition_epsilon_interval([ONE], delta=2.0),
        lambda: optimal_composition_epsilon_interval([ONE], delta=0.1, accuracy=0.0),
        lambda: optimal_composition_delta_interval([ONE], epsilon=math.inf),
        lambda: optimal_composition_delta_interval([ONE], epsilon=1.0, accuracy=-1.0),
        lambda: calibrated_composition(lambda _: 0.1, count=0, delta=1e-5),
        lambda: calibrated_composition(lambda _: math.nan, count=3, delta=1e-5),
        lambda: calibrated_composition(lambda _: -0.1, count=3, delta=1e-5),
        lambda: calibrated_composition(lambda _: 0.1, count=3),
        lambda: subsampling_lemma(rate=1.1, epsilon=1.0),
        lambda: subsampling_lemma(rate=0.1, epsilon=-1.0),
        lambda: subsampling_lemma(rate=0.1, epsilon=math.nan),
        lambda: subsampling_lemma(rate=0.1, epsilon=1.0, delta=2.0),
    ],
)
def test_questions_refuse(question: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter):
        question()
