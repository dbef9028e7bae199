"""Tables of any size: one release answers by its outputs in order, against sums of fractions and formulas.

And what constructors are given: an answer or a `CumulantError`, never another exception, never a warning.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from high_precision import precision
from strategies import SLOW, examples

SIZES = [2, 3, 9, 65, 990, 1001, 4000, 20_000]
Columns = tuple[tuple[float, ...], tuple[float, ...]]
SECONDS = 3.0  # many times what a question about 10^5 outputs takes, on a machine with other work


def random_table(size: int, seed: int) -> Columns:
    """Return masses that are multiples of 2^-60, some of them equal in both columns, some ratios near one another."""
    rng = np.random.default_rng(seed)
    columns = []
    base = rng.dirichlet(np.ones(size))
    for spread in (0.0, 0.4):
        shares = base * np.exp(spread * rng.standard_normal(size)) * np.where(rng.random(size) < 0.2, 1.0, 1.3)
        whole = np.floor(shares / np.sum(shares) * 2.0**52).astype(int)
        whole[0] += 2**52 - int(np.sum(whole))
        columns.append(tuple((whole / 2.0**52).tolist()))
    return columns[0], columns[1]


def columns_in_balls(p: Sequence[float], q: Sequence[float]) -> list[tuple[Any, Any]]:
    """Return the masses over their sums, which are exact in 600 bits."""
    with precision(600):
        ones, others = ([arb(mass) for mass in column] for column in (p, q))
        total_one, total_other = sum(ones, arb(0)), sum(others, arb(0))
        return [(a / total_one, b / total_other) for a, b in zip(ones, others, strict=True)]


def truth(rows: list[tuple[Any, Any]], epsilon: float) -> Any:
    """Return the larger Σ (p - e^ε q)_+ of both orders: signs and sums in 600 bits, at e^ε as a ball."""
    with precision(600):
        t = arb(epsilon).exp()
        orders = ((a - t * b for a, b in rows), (b - t * a for a, b in rows))
        return max((sum((gain for gain in gains if gain > 0), arb(0)) for gains in orders), key=float)


def assert_true(run: AbstractMechanism, rows: list[tuple[Any, Any]], epsilon: float) -> None:
    exact = truth(rows, epsilon)
    interval = run.delta_interval(epsilon=epsilon)
    assert interval.certified
    with precision(600):
        assert arb(interval.lower) <= exact
        assert not exact > arb(interval.upper)
        assert not exact > arb(run.delta(epsilon=epsilon))
    assert interval.upper - interval.lower <= 1e-14 * interval.upper


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("relation", [None, cm.ADD_REMOVE])
def test_one_release_is_a_sum(size: int, relation: cm.Neighbors | None) -> None:
    p, q = random_table(size, size)
    pair = cm.StatedPair(probabilities=p, neighbor_probabilities=q, relation=relation)
    rows = columns_in_balls(p, q)
    for epsilon in (0.0, 0.1, 0.5):
        assert_true(pair, rows, epsilon)
    for delta in (1e-2, 1e-4):
        answer, interval = pair.epsilon(delta=delta), pair.epsilon_interval(delta=delta)
        assert interval.certified
        for upper in (answer, interval.upper):
            assert not truth(rows, upper) > delta
        assert interval.lower == 0 or not truth(rows, interval.lower) < delta


@pytest.mark.parametrize("size", [990, 4000])
def test_ratios_that_are_all_next_to_e_to_the_epsilon(size: int) -> None:
    """As of noise whose log-density is straight: ratios are e^h and e^-h, but for rounding."""
    rng = np.random.default_rng(size)
    shares, h = rng.dirichlet(np.ones(size)), 0.25
    up = np.where(np.arange(size) < size // 2, math.exp(h), math.exp(-h))
    p, q = (shares * up).tolist(), shares.tolist()
    p, q = ((np.array(column) / math.fsum(column)).tolist() for column in (p, q))
    pair = cm.StatedPair(probabilities=tuple(p), neighbor_probabilities=tuple(q))
    scale, rows = math.log(p[0] / q[0]), columns_in_balls(p, q)
    with precision(600):
        for epsilon in (scale, math.nextafter(scale, 0.0), math.nextafter(scale, 1.0), scale * (1 - 1e-13), 0.0):
            exact, interval = truth(rows, epsilon), pair.delta_interval(epsilon=epsilon)
            assert interval.certified
            assert not exact < arb(interval.lower)
            assert not exact > arb(interval.upper)
            assert arb(interval.upper) <= exact * (1 + arb(1e-9)) + arb(1e-28)


@pytest.mark.parametrize("size", [5, 1001, 4000])
@pytest.mark.parametrize("rate", [0.5, 0.01, 2.0**-40])
def test_samples_are_sums_too(size: int, rate: float) -> None:
    """δ of a Poisson sample, from the mixture written out; without replacement it is the same for symmetric pairs."""
    p, q = random_table(size, size)
    pair, rows = cm.StatedPair(probabilities=p, neighbor_probabilities=q), columns_in_balls(p, q)
    for epsilon in (0.0, rate * 0.1, rate * 0.3):
        interval = pair.poisson(rate=rate).delta_interval(epsilon=epsilon)
        with precision(600):
            t, share = arb(epsilon).exp(), arb(rate)
            mixed = [((1 - share) * b + share * a, b) for a, b in rows]
            leave, join = (
                sum((gain for gain in (a - t * b for a, b in some) if gain > 0), arb(0))
                for some in (mixed, [(b, a) for a, b in mixed])
            )
            exact = max(leave, join, key=float)
            assert interval.certified
            assert not exact < arb(interval.lower)
            assert not exact > arb(interval.upper)
        assert interval.upper - interval.lower <= 1e-13 * interval.upper


def test_a_hundred_thousand_outputs_answer_at_once() -> None:
    p, q = random_table(100_000, 7)
    pair = cm.StatedPair(probabilities=p, neighbor_probabilities=q)
    questions: list[Callable[[AbstractMechanism], Any]] = [
        lambda run: run.epsilon(delta=1e-4),
        lambda run: run.delta(epsilon=0.2),
        lambda run: run.epsilon_interval(delta=1e-4),
        lambda run: run.delta_interval(epsilon=0.2),
    ]
    for run in (pair, pair.poisson(rate=0.1)):
        for question in questions:
            start = time.process_time()
            question(run)
            assert time.process_time() - start < SECONDS
    exact = truth(columns_in_balls(p, q), 0.2)
    interval = pair.delta_interval(epsilon=0.2)
    assert interval.certified
    with precision(600):
        assert not exact < arb(interval.lower)
        assert not exact > arb(interval.upper)


def test_two_orders_of_many_outputs_are_refused_at_once() -> None:
    p, q = random_table(100_000, 7)
    pair = cm.StatedPair(probabilities=p, neighbor_probabilities=q)
    for run in (pair * 2, pair.without_replacement(batch=10, population=1000)):
        start = time.process_time()
        for question in (run.epsilon_interval, run.epsilon):
            with pytest.raises(cm.OutOfReach, match="State the relation"):
                question(delta=1e-4)
        assert time.process_time() - start < SECONDS


# Constructors ---------------------------------------------------------------------------------------------------------


def log_normal(mean: float) -> Callable[[Any], Any]:
    return lambda x: -((np.asarray(x) - mean) ** 2) / 2 - 0.5 * math.log(2 * math.pi)


def log_uniform(low: float, high: float) -> Callable[[Any], Any]:
    return lambda x: np.where((x >= low) & (x <= high), -math.log(high - low), -np.inf)


def default_pairs() -> dict[str, cm.StatedPair]:
    p, q = random_table(1500, 1)
    losses = np.linspace(-1.0, 1.0, 1500)
    shares = np.exp(losses / 2) / np.sum(np.exp(losses / 2))
    return {
        "tables": cm.StatedPair(probabilities=p, neighbor_probabilities=q),
        "losses": cm.StatedPair.from_losses(
            losses=(losses + 1e-6 + math.log(np.sum(shares * np.exp(-losses)))).tolist(),
            probabilities=shares.tolist(),
        ),
        "densities": cm.StatedPair.from_densities(
            log_density=log_normal(1.0), neighbor_log_density=log_normal(0.0), support=(-10.0, 11.0)
        ),
        "with inner": cm.StatedPair(
            probabilities=p, neighbor_probabilities=q, inner_probabilities=random_table(1500, 1)
        ),
    }


@pytest.mark.parametrize("name", ["tables", "losses", "densities", "with inner"])
def test_every_constructor_answers_at_its_default_size(name: str) -> None:
    pair = default_pairs()[name]
    for run in (pair, pair.poisson(rate=0.1)):
        interval = run.epsilon_interval(delta=1e-5)
        assert interval.certified
        assert interval.lower <= interval.upper <= run.epsilon(delta=1e-5) * (1 + 1e-9)
        assert "epsilon" in str(run.statement(delta=1e-5))


def test_densities_bracket_the_gaussian() -> None:
    pair = default_pairs()["densities"]
    interval, exact = pair.epsilon_interval(delta=1e-5), cm.Gaussian(noise_multiplier=1.0).epsilon(delta=1e-5)
    assert interval.lower <= exact <= interval.upper <= exact * 1.001


def test_what_lies_outside_a_support_is_not_attained_twice() -> None:
    """Most of N(0) and N(1) lies outside: the lower end must not take the rest for the whole."""
    pair = cm.StatedPair.from_densities(
        log_density=log_normal(1.0), neighbor_log_density=log_normal(0.0), support=(3.0, 9.0)
    )
    exact = cm.Gaussian(noise_multiplier=1.0).delta(epsilon=1.0)
    interval = pair.delta_interval(epsilon=1.0)
    assert interval.lower <= exact <= interval.upper


def test_two_uniform_densities() -> None:
    pair = cm.StatedPair.from_densities(
        log_density=log_uniform(0.0, 1.0), neighbor_log_density=log_uniform(0.5, 1.5), support=(0.0, 2.0)
    )
    assert pair.delta(epsilon=1.0) == pytest.approx(0.5, abs=1e-2)
    assert pair.delta(epsilon=1.0) >= 0.5 - 1e-9


def test_losses_that_nothing_has() -> None:
    assert cm.StatedPair.from_losses(losses=[math.inf], probabilities=[1.0]).delta(epsilon=3.0) == 1.0
    assert cm.StatedPair.from_losses(losses=[math.inf, 0.0], probabilities=[0.0, 1.0]).epsilon(delta=0.0) == 0.0
    assert (
        cm.StatedPair.from_losses(losses=[9.0, -math.inf, 0.0], probabilities=[0.0, 0.0, 1.0]).delta(epsilon=0.0) == 0
    )


FORMS: list[Callable[[list[float]], Any]] = [list, tuple, np.array, iter, lambda x: (one for one in x)]
EXTREMES = [0.0, 5e-324, 1e-310, 1e-300, 1e-17, 2.0**-52, 0.25, 0.5, 1 - 2.0**-53, 1.0, 1.0 + 2.0**-52, -0.0, -1e-9]
STRANGE = [*EXTREMES, math.nan, math.inf, -math.inf, "a", None, True, [0.5], 1e300]
LOSSES = [0.0, -0.0, 1e-300, 2.0**-52, 0.1, -0.1, 1.0, -1.0, 700.0, -700.0, 800.0, 1e6, 1e151, -1e300, math.inf]


@st.composite
def columns(draw: st.DrawFn) -> list[Any]:
    """Return a table that mostly adds up to 1, of zeros, extremes and, at times, what is no number."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.lists(st.sampled_from(STRANGE), max_size=5))
    size = draw(st.integers(1, 6))
    whole = [draw(st.integers(0, 8)) for _ in range(size)]
    masses = [w / max(sum(whole), 1) for w in whole]
    return [*masses, *draw(st.lists(st.sampled_from([0.0, 5e-324, 1e-300, 1e-17]), max_size=2))]


@st.composite
def constructions(draw: st.DrawFn) -> Callable[[], cm.StatedPair]:
    relation: Any
    first: Any
    second: Any
    support: Any

    def form(values: Iterable[Any]) -> Any:
        return draw(st.sampled_from(FORMS))(list(values))

    kind = draw(st.integers(0, 2))
    if kind == 0:
        p = draw(columns())
        q = draw(st.one_of(st.permutations(p), columns()))
        relation = draw(st.sampled_from([None, cm.ADD_REMOVE, cm.REPLACE_ONE, "add"]))
        inner = draw(st.sampled_from([None, (p, q), [p], "ab", 3]))
        return lambda: cm.StatedPair(
            probabilities=form(p),
            neighbor_probabilities=form(q),
            inner_probabilities=inner,
            relation=relation,
        )
    if kind == 1:
        p = draw(columns())
        losses = [draw(st.sampled_from([*LOSSES, *([-math.inf, "a"] if len(p) > 5 else [])])) for _ in p]
        return lambda: cm.StatedPair.from_losses(losses=form(losses), probabilities=form(p))
    low, high = draw(st.sampled_from([(-10.0, 11.0), (-1000, 1000), (0, 2), (5, 5), (-1e308, 1e308), (0, 5e-324)]))
    density = st.sampled_from([log_normal(0.0), log_normal(1.0), log_normal(1e6), log_uniform(0, 1), len, 3])
    first, second = draw(density), draw(density)
    support = draw(st.sampled_from([(low, high), [low, high], iter([low, high]), (low,), 3, (-math.inf, high)]))
    return lambda: cm.StatedPair.from_densities(log_density=first, neighbor_log_density=second, support=support)


@examples(40)
@given(st.data())
def test_constructors_answer_or_refuse(data: st.DataObject) -> None:
    """Never another exception, and never a warning: warnings are errors here."""
    build = data.draw(constructions())
    try:
        pair = build()
    except cm.CumulantError:
        return
    runs: list[Callable[[], AbstractMechanism]] = [lambda: pair, lambda: pair * 2, lambda: pair.poisson(rate=0.25)]
    for run in runs:
        delta = data.draw(st.sampled_from([0.0, 1e-300, 1e-5, 0.5]))
        for question in ("epsilon_interval", "epsilon"):
            try:
                answer = getattr(run(), question)(delta=delta)
            except cm.CumulantError:
                continue
            assert (answer.upper if isinstance(answer, cm.Interval) else answer) >= 0


# Monotone in knowledge ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8 if SLOW else 2))
def test_what_is_certified_is_near_what_is_answered(seed: int) -> None:
    """δ answers from above, the interval from both sides: half of the answer is never above what is certified."""
    rng = np.random.default_rng(seed)
    p, q = random_table(int(rng.integers(2, 40)), seed)
    pair = cm.StatedPair(probabilities=p, neighbor_probabilities=q, relation=cm.ADD_REMOVE)
    gaussian = cm.Gaussian(noise_multiplier=float(rng.uniform(0.5, 5)))
    rate = float(rng.uniform(0.01, 0.9))
    runs = [pair, pair * 3, pair.poisson(rate=rate), gaussian.poisson(rate=rate) * 10, gaussian + cm.Laplace(scale=2.0)]
    for run in runs:
        for epsilon in (0.0, 0.1, 1.0):
            interval, answer = run.delta_interval(epsilon=epsilon), run.delta(epsilon=epsilon)
            assert interval.upper >= answer / 2
            assert interval.lower <= answer


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 2.0, 50.0])
@pytest.mark.parametrize("count", [1, 7])
def test_a_bound_by_zcdp_never_beats_its_gaussian(rho: float, count: int) -> None:
    """N(√(2ρ)) is ρ-zCDP, so what holds for all of these costs at least as much."""
    bound, gaussian = cm.ZCDP(rho=rho) * count, cm.Gaussian(noise_multiplier=1 / math.sqrt(2 * rho)) * count
    for epsilon in (0.0, 0.3, 2.0):
        assert bound.delta(epsilon=epsilon) >= gaussian.delta_interval(epsilon=epsilon).lower
    for delta in (0.1, 1e-3, 1e-9):
        assert bound.epsilon(delta=delta) >= gaussian.epsilon_interval(delta=delta).lower * (1 - 1e-12)
    assert bound.advantage() >= gaussian.advantage() * (1 - 1e-12)
