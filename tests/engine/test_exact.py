"""Exact answers against enumeration, quadrature, brackets and published figures; laws over the whole range."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from flint import arb
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import cumulant as cm
from cumulant.inversion.certified import certified_epsilon, delta_ball
from cumulant.inversion.solve import epsilon_of_pairs, log_delta_of_pairs
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.pairs.pair import DominatingPair
from exact_references import (
    Bracket,
    Masses,
    added_masses,
    composed_delta,
    envelope_masses,
    grouped_masses,
    removed_masses,
    replaced_masses,
)
from high_precision import Sampled, View, delta, precision
from references import gaussian_log_delta
from sampled_pairs import (
    added_gaussian,
    added_laplace,
    envelope_gaussian,
    removed_gaussian,
    removed_laplace,
    replaced_gaussian,
)
from stored import stored
from strategies import log_uniform

DIGITS = 40


def gaussian(sigma: float) -> cm.Gaussian:
    return cm.Gaussian(noise_multiplier=sigma)


# Figures that are known ----------------------------------------------------------------------------------------------

# σ, rate, steps, δ, ε when the record leaves, ε when it joins: Poisson-sampled Gaussian, inverted in many digits.
Row = tuple[float, float, int, float, float, float]
KNOWN: list[Row] = [
    (1.0, 0.01, 1000, 1e-5, 1.82823666651657, 1.41666194803617),
    (1.0, 0.01, 1000, 1e-10, 3.29044375089529, 2.11853384315829),
    (1.0, 0.01, 1000, 1e-50, 15.2097614964762, 4.30802248872201),
    (1.0, 0.01, 1000, 1e-100, 29.5987115908058, 5.47948423343714),
    (2.0, 0.1, 500, 1e-5, 5.55546821437823, 4.95657356584989),
    (2.0, 0.1, 500, 1e-10, 8.42744693669751, 7.18212743026165),
    (2.0, 0.1, 500, 1e-50, 21.4245164051982, 15.1452719306806),
    (2.0, 0.1, 500, 1e-100, 32.6341965492397, 20.1028030970945),
    (1.1, 0.02, 100, 1e-5, 1.13170979537237, 0.63530450827895),
    (1.1, 0.02, 100, 1e-10, 2.52245618079683, 0.91936537891230),
    (1.1, 0.02, 100, 1e-50, 13.4850282642427, 1.55622886633815),
    (1.1, 0.02, 100, 1e-100, 26.7393906827803, 1.76863228969099),
]
SHORTER: list[Row] = [  # the same to fewer digits
    (0.8, 256 / 60000, 14063, 1e-5, 4.5500127575, 3.9049847414),
    (2.0, 0.1, 5000, 1e-6, 24.431123731, 23.064500379),
    (1.0, 1e-4, 10**6, 1e-5, 0.459210006234, 0.45562865403),
    (0.5, 0.01, 100, 1e-5, 6.47621000429, 0.71542856609),
    (1.0, 0.01, 1000, 1e-15, 4.8545377506, 2.5927803930),
]


@pytest.mark.parametrize("row", KNOWN + SHORTER)
def test_known_figures(row: Row) -> None:
    sigma, rate, steps, delta, leaves, joins = row
    for pair, epsilon in ((removed_gaussian(1 / sigma, rate), leaves), (added_gaussian(1 / sigma, rate), joins)):
        found = epsilon_of_pairs([[(pair, steps)]], math.log(delta))
        assert epsilon * (1 - 1e-9) <= found.value <= epsilon * (1 + max(found.excess, 1e-9))
        assert found.excess <= 1e-6
    assert (gaussian(sigma).poisson(rate=rate) * steps).epsilon(delta=delta) == pytest.approx(leaves, rel=1e-9)


@pytest.mark.parametrize("row", KNOWN[::3])
def test_certified_intervals_hold_known_figures(row: Row) -> None:
    sigma, rate, steps, delta, leaves, joins = row
    for pair, epsilon in ((removed_gaussian(1 / sigma, rate), leaves), (added_gaussian(1 / sigma, rate), joins)):
        interval = certified_epsilon([[(pair, steps)]], [[(pair, steps)]], delta_ball(delta=delta, log_delta=None))
        printed = 1e-14 * epsilon  # the last digit of the figure
        assert interval.lower - printed <= epsilon <= interval.upper + printed
        assert interval.width <= 1e-9 * epsilon


@pytest.mark.parametrize("delta", [0.5, 1e-5, 1e-100])
@pytest.mark.parametrize(("sigma", "count"), [(10.0, 10**4), (1.0, 1), (0.3, 7), (1e4, 10**12)])
def test_gaussians_have_a_closed_form(sigma: float, count: int, delta: float) -> None:
    run = gaussian(sigma) * count
    epsilon = run.epsilon(delta=delta)
    with mp.workdps(DIGITS + 120):
        mu = mp.sqrt(count) / mpf(sigma)

        def excess(x: float | mpf) -> float:
            return float(gaussian_log_delta(mu, x) - mp.log(mpf(delta)))

        if epsilon == 0:
            assert excess(0) <= 0
            return
        assert excess(epsilon) <= 0
        assert excess(mpf(epsilon) * (1 - mpf("1e-11"))) > 0
        interval = run.epsilon_interval(delta=delta)
        assert excess(interval.upper) <= 0 <= excess(interval.lower)


# Few releases, by quadrature -----------------------------------------------------------------------------------------


BOTH: tuple[View, ...] = ("leaving", "joining")


def gaussian_law(mean: float | Fraction, rate: float, view: View, size: int = 1) -> Sampled:
    return Sampled("gaussian", Fraction(mean), Fraction(rate), view, size)


def laplace_law(theta: float | Fraction, rate: float, view: View) -> Sampled:
    return Sampled("laplace", Fraction(theta), Fraction(rate), view)


PAIRS = [
    (removed_gaussian(1.0, 0.1), gaussian_law(1.0, 0.1, "leaving")),
    (added_gaussian(1.0, 0.1), gaussian_law(1.0, 0.1, "joining")),
    (replaced_gaussian(1.0, 0.1), gaussian_law(1.0, 0.1, "replaced")),
    (replaced_gaussian(1 / 0.7, 0.01), gaussian_law(1 / 0.7, 0.01, "replaced")),
    (envelope_gaussian(1.0, 0.1), gaussian_law(1.0, 0.1, "envelope")),
    (removed_gaussian(1.0, 0.1, 3), gaussian_law(1.0, 0.1, "leaving", 3)),
    (added_gaussian(1.0, 0.1, 3), gaussian_law(1.0, 0.1, "joining", 3)),
    (removed_laplace(1.0, 1.0), laplace_law(1.0, 1.0, "leaving")),
    (removed_laplace(2.0, 0.2), laplace_law(2.0, 0.2, "leaving")),
    (added_laplace(2.0, 0.2), laplace_law(2.0, 0.2, "joining")),
]


def _check(pair: DominatingPair, releases: int, epsilon: float, truth: float) -> None:
    """The truth lies within the slack that an answer states, below it."""
    answer = log_delta_of_pairs([[(pair, releases)]], epsilon)
    assert answer.value - answer.slack - 1e-12 <= truth <= answer.value + 1e-14
    assert answer.slack < 0.01


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
@pytest.mark.parametrize(("pair", "reference"), PAIRS)
def test_one_release(pair: DominatingPair, reference: Sampled, share: float) -> None:
    epsilon = share * min(pair.supremum, 3.0)
    _check(pair, 1, epsilon, float(delta([(reference, 1)], epsilon).log()))


@pytest.mark.parametrize(("pair", "reference"), PAIRS)
def test_two_releases(pair: DominatingPair, reference: Sampled) -> None:
    epsilon = 0.3 * min(pair.supremum, 3.0)
    _check(pair, 2, epsilon, float(stored(delta)([(reference, 2)], epsilon).log()))


@pytest.mark.parametrize(
    ("mechanism", "references"),
    [
        (gaussian(0.8).poisson(rate=0.05), [gaussian_law(1 / Fraction(0.8), 0.05, view) for view in BOTH]),
        (gaussian(2.0).without_replacement(rate=0.3), [gaussian_law(0.5, 0.3, "envelope")]),
        (cm.Laplace(scale=0.5).poisson(rate=0.2), [laplace_law(2.0, 0.2, view) for view in BOTH]),
        (cm.Laplace(scale=1.5), [laplace_law(1 / Fraction(1.5), 1.0, "leaving")]),
    ],
)
def test_epsilon_of_two_releases(mechanism: AbstractMechanism, references: list[Sampled]) -> None:
    epsilon = (mechanism * 2).epsilon(delta=1e-4)

    def most(at: float) -> Any:
        return max((delta([(reference, 2)], at) for reference in references), key=float)

    assert most(epsilon) <= 1e-4 < most(epsilon * (1 - 1e-6))


def test_laplace_orders_cross() -> None:
    """Joining costs more than leaving for some ε (scale 0.5, rate 0.2, five releases): both orders are looked at."""
    leaves, joins = (
        math.exp(log_delta_of_pairs([[(pair(2.0, 0.2), 5)]], 0.064).value) for pair in (removed_laplace, added_laplace)
    )
    assert (leaves, joins) == pytest.approx((0.27318, 0.27448), rel=2e-5)
    run = cm.Laplace(scale=0.5).poisson(rate=0.2) * 5
    assert run.delta(epsilon=0.064) == pytest.approx(0.27448, rel=2e-5)


# Many releases, by brackets ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "orders", "epsilon", "width", "reach"),
    [
        (
            gaussian(1.0).poisson(rate=0.02) * 200,
            [[(removed_masses(1.0, 0.02), 200)], [(added_masses(1.0, 0.02), 200)]],
            1.5,
            5e-5,
            10.0,
        ),
        (
            gaussian(2.0).poisson(rate=0.1, neighbors=cm.REPLACE_ONE) * 100,
            [[(replaced_masses(2.0, 0.1), 100)]],
            3.0,
            1e-4,
            20.0,
        ),
        (
            gaussian(1.0).without_replacement(rate=0.05) * 50,
            [[(envelope_masses(1.0, 0.05), 50)]],
            2.0,
            1e-4,
            20.0,
        ),
        (
            gaussian(2.0).poisson(rate=0.05).group(size=3) * 60,
            [[(grouped_masses(2.0, 0.05, 3), 60)]],
            2.5,
            1e-3,
            20.0,
        ),
        (
            gaussian(1.0).poisson(rate=0.05) * 20 + gaussian(3.0).poisson(rate=0.5) * 30,
            [
                [(removed_masses(1.0, 0.05), 20), (removed_masses(3.0, 0.5), 30)],
                [(added_masses(1.0, 0.05), 20), (added_masses(3.0, 0.5), 30)],
            ],
            2.5,
            1e-4,
            20.0,
        ),
    ],
)
def test_brackets(
    run: AbstractMechanism, orders: list[list[tuple[Masses, int]]], epsilon: float, width: float, reach: float
) -> None:
    brackets = [Bracket(parts, width, reach) for parts in orders]
    low = max(bracket.below(epsilon) for bracket in brackets) - 1e-12
    high = max(bracket.above(epsilon) for bracket in brackets) + 1e-12
    assert low > 1e-9
    assert high < 1.01 * low
    interval = run.delta_interval(epsilon=epsilon)
    assert low <= run.delta(epsilon=epsilon) <= high
    assert low <= interval.upper <= high
    assert interval.lower <= high
    assert run.delta(epsilon=run.epsilon(delta=low)) <= low * (1 + 1e-9)


# Finitely many outputs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(
    ("epsilon", "delta", "count"), [(0.1, 0.0, 50), (1.0, 1e-6, 10), (0.01, 1e-9, 300), (5.0, 0.0, 3), (0.5, 0.01, 2)]
)
def test_equal_rounds_are_composed_optimally(epsilon: float, delta: float, count: int, share: float) -> None:
    """Kairouz, Oh and Viswanath (2017), Theorem 3.3, term by term."""
    at = share * epsilon * count
    with mp.workdps(DIGITS):
        truth = float(composed_delta([(epsilon, delta, count)], at))
    found = (cm.ApproximateDP(epsilon=epsilon, delta=delta) * count).delta(epsilon=at)
    assert truth * (1 - 1e-13) <= found <= truth * (1 + 1e-10)


@pytest.mark.parametrize("share", [0.3, 0.9])
@pytest.mark.parametrize(
    "parts",
    [
        [(0.1, 0.0, 3), (0.37, 0.0, 2), (1.0, 0.0, 1)],
        [(0.5, 1e-5, 4), (math.sqrt(2) / 3, 1e-7, 4)],
        [(0.01, 0.0, 20), (math.pi / 100, 0.0, 20)],
        [(2.0, 0.0, 1), (1.0, 1e-3, 1), (0.25, 0.0, 6)],
    ],
)
def test_unequal_rounds_are_composed_optimally(parts: list[tuple[float, float, int]], share: float) -> None:
    """Murtagh and Vadhan (2018): every subset of rounds, one by one."""
    at = share * sum(e * n for e, _, n in parts) + 1e-3  # away from the kinks of δ, at sums of ±ε
    run = cm.Composed.of((cm.ApproximateDP(epsilon=e, delta=d), n) for e, d, n in parts)
    with mp.workdps(DIGITS):
        truth = float(composed_delta(parts, at))
    found = run.delta(epsilon=at)
    assert truth * (1 - 1e-13) <= found <= truth * (1 + 1e-3)


def test_an_interval_of_unequal_rounds() -> None:
    parts = [(0.1, 0.0, 3), (0.37, 1e-3, 2), (1.0, 0.0, 1)]
    run = cm.Composed.of((cm.ApproximateDP(epsilon=e, delta=d), n) for e, d, n in parts)
    interval = run.delta_interval(epsilon=0.5)
    with mp.workdps(DIGITS):
        assert interval.lower <= composed_delta(parts, 0.5) <= interval.upper
    assert interval.width < 1e-3 * interval.upper


@pytest.mark.parametrize("count", [2, 30])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-7, 1e-4])
def test_small_rounds_lose_nothing_to_cancellation(epsilon: float, count: int) -> None:
    """Neighbouring losses differ by 2ε, and with them the two series of the payoff."""
    at = 1.234 * epsilon
    with mp.workdps(DIGITS):
        truth = mp.log(composed_delta([(epsilon, 0.0, count)], at))
        found = (cm.PureDP(epsilon=epsilon) * count).log_delta(epsilon=at)
        assert 0 <= found - truth < 1e-9


@pytest.mark.parametrize(("p", "count"), [(0.75, 2), (0.75, 40), (0.500001, 1000), (0.999, 7)])
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9])
def test_randomized_response(p: float, count: int, delta: float) -> None:
    run = cm.RandomizedResponse(p=p) * count
    epsilon = run.epsilon(delta=delta)
    with mp.workdps(DIGITS):
        e = mp.log(mpf(p)) - mp.log(1 - mpf(p))
        assert composed_delta([(e, 0.0, count)], epsilon) <= mpf(delta)
        if epsilon > 0:
            assert composed_delta([(e, 0.0, count)], mpf(epsilon) * (1 - mpf("1e-9"))) > mpf(delta)


# Laws ----------------------------------------------------------------------------------------------------------------

RATES = st.one_of(log_uniform(1e-8, 1.0), log_uniform(1e-3, 1.0))
COUNTS = st.one_of(st.integers(1, 5), log_uniform(1.0, 1e12).map(int))
LOG_DELTAS = st.one_of(st.floats(math.log(1e-300), math.log(0.99)), st.floats(-30.0, -0.01))


def noises() -> st.SearchStrategy[AbstractMechanism]:
    """Return mechanisms with a dominating pair."""
    return st.one_of(
        st.builds(cm.Gaussian, noise_multiplier=log_uniform(0.05, 1e4)),
        st.builds(cm.Laplace, scale=log_uniform(0.05, 1e4)),
        st.builds(cm.RandomizedResponse, p=st.floats(0.01, 0.99)),
        st.builds(cm.PureDP, epsilon=log_uniform(1e-5, 20.0)),
        st.builds(cm.ApproximateDP, epsilon=log_uniform(1e-4, 5.0), delta=log_uniform(1e-30, 1e-2)),
    )


def _sampled(kind: str, noise: AbstractMechanism, rate: float) -> AbstractMechanism:
    match kind:
        case "poisson":
            return noise.poisson(rate=rate)
        case "poisson, replaced":
            return noise.poisson(rate=rate, neighbors=cm.REPLACE_ONE)
        case "batch":
            return noise.without_replacement(rate=rate)
        case "batch, added":
            return noise.without_replacement(rate=rate, neighbors=cm.ADD_REMOVE)
    return noise


KINDS = ("poisson", "poisson, replaced", "batch", "batch, added", "all")


def steps() -> st.SearchStrategy[AbstractMechanism]:
    return st.builds(_sampled, st.sampled_from(KINDS), noises(), RATES)


def _failure(run: AbstractMechanism) -> float:
    return run._known().curve().failure


@settings(deadline=None, max_examples=8)
@given(steps(), COUNTS, LOG_DELTAS)
def test_answers_are_finite_consistent_and_no_worse_than_renyi(
    step: AbstractMechanism, count: int, log_delta: float
) -> None:
    run = step * count
    epsilon = run.epsilon(log_delta=log_delta)
    assert not math.isnan(epsilon)
    assert math.isfinite(epsilon) or _failure(run) > 0
    assert epsilon <= run.epsilon(log_delta=log_delta, method="rdp") * (1 + 1e-9)
    if math.isfinite(epsilon):
        assert run.log_delta(epsilon=epsilon) <= log_delta + 1e-9 * max(1.0, abs(log_delta))


def least_epsilon(run: AbstractMechanism, log_delta: float) -> float:
    """Return what the pairs are proven to need: the answer itself where it is exact, less where it is smoothed."""
    directions = run._known().directions(run.neighbors)
    assert directions is not None
    try:
        inverted = epsilon_of_pairs(directions, log_delta)
    except cm.OutOfReach:
        return 0.0
    return inverted.value * (1 - inverted.excess) if inverted.value < math.inf else math.inf


@settings(deadline=None, max_examples=5)
@given(steps(), st.integers(1, 10**6), LOG_DELTAS, st.floats(1e-3, 20.0), st.integers(1, 1000))
def test_less_delta_and_more_releases_cost_more(
    step: AbstractMechanism, count: int, log_delta: float, less: float, more: int
) -> None:
    epsilon = least_epsilon(step * count, log_delta) * (1 - 1e-9)
    assert (step * count).epsilon(log_delta=log_delta - less) >= epsilon
    assert (step * (count + more)).epsilon(log_delta=log_delta) >= epsilon


@pytest.mark.slow
@settings(deadline=None, max_examples=5)
@given(st.sampled_from(KINDS), log_uniform(0.05, 1e4), RATES, st.tuples(st.integers(1, 10**6), LOG_DELTAS))
@example("batch", 1.0, 3.059023205018258e-07, (1746, -69.0))
@example("batch", 1.0, 1.4449802461092448e-07, (71, -56.0))
def test_more_noise_and_smaller_samples_cost_less(
    kind: str, sigma: float, rate: float, asked: tuple[int, float]
) -> None:
    count, log_delta = asked

    def run(sigma: float, rate: float) -> AbstractMechanism:
        return _sampled(kind, gaussian(sigma), rate) * count

    most = run(sigma, rate).epsilon(log_delta=log_delta) * (1 + 1e-9)
    assert least_epsilon(run(sigma * 1.01, rate), log_delta) <= most
    assert least_epsilon(run(sigma, rate / 1.01), log_delta) <= most


@settings(deadline=None, max_examples=3)
@given(steps(), st.integers(20, 10**6), st.floats(-40.0, -1.0))
def test_intervals_hold_answers(step: AbstractMechanism, count: int, log_delta: float) -> None:
    run = step * count
    interval = run.epsilon_interval(log_delta=log_delta)
    assert interval.lower <= interval.upper
    assert run.epsilon(log_delta=log_delta) >= interval.lower
    assert run.epsilon(log_delta=log_delta, method="rdp") >= interval.lower


@pytest.mark.parametrize("size", [2, 10])
def test_groups_cost_more(size: int) -> None:
    """Between one record and the size-fold shift of a group that is always sampled together."""
    step = gaussian(4.0).poisson(rate=0.05)
    run, group = step * 100, (step * 100).group(size=size)
    together = gaussian(4.0 / size).poisson(rate=1 - 0.95**size) * 100
    assert run.epsilon(delta=1e-6) < group.epsilon(delta=1e-6) <= together.epsilon(delta=1e-6)


@pytest.mark.slow
def test_distinct_mechanisms_lie_in_their_bracket() -> None:
    """Noise and rate change with every step, so that steps are evaluated together and families speak for all."""
    steps = [(1.0 + i / 20, 0.02 * (1 + i / 40)) for i in range(40)]
    run = cm.Composed.of((gaussian(sigma).poisson(rate=rate), 4) for sigma, rate in steps)
    orders = [[(law(sigma, rate), 4) for sigma, rate in steps] for law in (removed_masses, added_masses)]
    brackets = [Bracket(parts, 1e-4, 10.0) for parts in orders]
    epsilon = 1.2
    low, high = (
        max(end(epsilon) for end in ends) for ends in ([b.below for b in brackets], [b.above for b in brackets])
    )
    assert 1e-9 < low - 1e-12 <= run.delta(epsilon=epsilon) <= high + 1e-12 < 1.01 * low
    assert run.delta(epsilon=run.epsilon(delta=low)) <= low * (1 + 1e-9)


def test_many_distinct_mechanisms() -> None:
    """A hundred distinct Gaussians in samples cost more than the best of them throughout, less than the worst."""
    run = cm.Composed.of((gaussian(1.0 + i / 100).poisson(rate=0.01), 10) for i in range(100))
    epsilon = run.epsilon(delta=1e-5)
    most, least = (gaussian(sigma).poisson(rate=0.01) * 1000 for sigma in (1.0, 2.0))
    assert least.epsilon(delta=1e-5) < epsilon < most.epsilon(delta=1e-5)
    assert run.log_delta(epsilon=epsilon) == pytest.approx(math.log(1e-5), abs=1e-6)


# Tests of one neighbour against the other ----------------------------------------------------------------------------


@pytest.mark.parametrize("x", [1e-9, 1e-3, 0.05, 0.5, 0.9, 1 - 1e-6])
@pytest.mark.parametrize(("sigma", "count"), [(1.0, 1), (0.3, 2), (20.0, 5)])
def test_tradeoff_of_gaussians(sigma: float, count: int, x: float) -> None:
    """G_μ(x) = Φ(Φ^{-1}(1 - x) - μ)."""
    with mp.workdps(DIGITS):
        quantile = mp.sqrt(2) * mp.erfinv(1 - 2 * mpf(x))
        truth = mp.ncdf(quantile - mp.sqrt(count) / mpf(sigma))
        run = gaussian(sigma) * count
        found = run.tradeoff(false_positive_rate=x)
        assert found <= truth
        assert found == pytest.approx(float(truth), rel=1e-6, abs=1e-8)  # a search: it may stop a little short
        power = run.true_positive_rate(false_positive_rate=x)
        assert power >= 1 - truth
        assert power == pytest.approx(float(1 - truth), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("x", [0.0, 0.01, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("p", [0.6, 0.75, 0.99])
def test_tradeoff_of_randomized_response(p: float, x: float) -> None:
    """Two lines that meet at (1-p, 1-p)."""
    truth = 1 - x * p / (1 - p) if x <= 1 - p else (1 - x) * (1 - p) / p
    found = cm.RandomizedResponse(p=p).tradeoff(false_positive_rate=x)
    assert found <= truth + 1e-16
    assert found == pytest.approx(truth, rel=1e-5)


def test_advantage_is_total_variation() -> None:
    shifted = math.erf(1 / math.sqrt(8))  # 2Φ(μ/2) - 1 at μ = 1
    twice = stored(delta)([(gaussian_law(1.0, 0.1, "leaving"), 2)], 0.0)
    assert gaussian(1.0).advantage() == pytest.approx(shifted, rel=1e-13)
    assert gaussian(1.0).poisson(rate=0.1).advantage() == pytest.approx(0.1 * shifted, rel=1e-13)
    assert cm.RandomizedResponse(p=0.8).advantage() == pytest.approx(0.6, rel=1e-13)
    assert cm.Laplace(scale=2.0).advantage() == pytest.approx(-math.expm1(-0.25), rel=1e-13)
    found = (gaussian(1.0).poisson(rate=0.1) * 2).advantage()
    assert float(twice) * (1 - 1e-15) <= found == pytest.approx(float(twice), rel=1e-5)


@pytest.mark.parametrize("x", [0.001, 0.1, 0.6])
def test_tradeoff_agrees_with_a_threshold_attack(x: float) -> None:
    """No attack does better: thresholds on the output of one sampled release are one."""
    mean, rate = 1.0, 0.3
    step = gaussian(1 / mean).poisson(rate=rate)
    with mp.workdps(DIGITS):
        t = mp.sqrt(2) * mp.erfinv(1 - 2 * mpf(x))  # P(N(0) > t) = x
        missed = (1 - mpf(rate)) * mp.ncdf(t) + mpf(rate) * mp.ncdf(t - mean)
    assert step.tradeoff(false_positive_rate=x) <= missed


MINIMAL = [
    # calls that once raised warnings or errors: tilts, tails and groups at the ends of their ranges
    partial((gaussian(3.0).poisson(rate=0.01) * 2).epsilon, delta=0.1),
    partial((gaussian(0.13).poisson(rate=0.18).group(size=3) * 2).epsilon, log_delta=-528.0),
    partial((gaussian(4.5).poisson(rate=6.4e-6).group(size=3) * 3).epsilon, log_delta=-396.0),
    partial((gaussian(0.087).poisson(rate=0.062, neighbors=cm.REPLACE_ONE) * 27404813916).epsilon, log_delta=-12.0),
    partial((cm.Laplace(scale=1.1).poisson(rate=2.9e-8) * 3).epsilon, log_delta=-641.0),
    partial((cm.Laplace(scale=1.4) * 373 + cm.RandomizedResponse(p=0.816) * 4).epsilon, log_delta=-425.0),
]


@pytest.mark.parametrize("question", MINIMAL)
def test_ends_of_the_range(question: partial[float]) -> None:
    assert math.isfinite(question())


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta", "most"),
    [(0.8, 1e-3, 10**4, 1e-100, 29.6573209952), (1.0, 1e-2, 1000, 1e-100, 29.5987115909)],
)
def test_the_best_of_several_lines_is_returned(
    sigma: float, rate: float, count: int, delta: float, most: float
) -> None:
    """A later line may be worse than an earlier one; `most` is from an inversion in many digits, rounded up."""
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    assert run.epsilon(delta=delta) <= most * (1 + 1e-9)  # what exact means
    assert run.guarantee(delta=delta).exact


def test_equal_pairs_of_different_mechanisms_count_once() -> None:
    """Sampling at rate 1 is no sampling: the pair is the same, the mechanism is not."""
    for noise in (cm.Laplace(scale=1.0), cm.Gaussian(noise_multiplier=2.0), cm.RandomizedResponse(p=0.7)):
        mixed = noise * 3 + noise.without_replacement(rate=1.0) * 2
        assert mixed.epsilon(delta=1e-4) == pytest.approx((noise * 5).epsilon(delta=1e-4), rel=1e-12)
        assert mixed.epsilon_interval(delta=1e-4).lower <= (noise * 5).epsilon(delta=1e-4)


def one_less_delta(p: float, count: int, epsilon: float) -> Any:
    """Return 1 - δ of randomized responses, summed over binomial terms in balls: 1 - (1 - x)_+ is min(1, x)."""
    with precision(400):
        odds = arb(p) / (1 - arb(p))
        mass, scaled, total = arb(p) ** count, arb(epsilon).exp() / odds**count, arb(0)  # e^{ε-L}
        for lies in range(count + 1):
            total += mass * min(scaled, arb(1), key=float)
            mass, scaled = mass * (count - lies) / (lies + 1) / odds, scaled * odds * odds
        return total


@pytest.mark.parametrize("epsilon", [0.0, 5.0, 80.0])
@pytest.mark.parametrize("p", [0.6, 0.9, 0.999])
def test_a_delta_of_one_is_one(p: float, epsilon: float) -> None:
    """Where outputs hardly overlap no line is needed: 1 - δ is below half an ulp of 1."""
    answer = cm.RandomizedResponse(p=p)
    said = 0
    for count in (10, 30, 100, 300, 1000, 3000, 12000):
        guarantee = (answer * count).guarantee(epsilon=epsilon)
        if guarantee.theorem.endswith("δ is 1"):
            said += 1
            assert one_less_delta(p, count, epsilon) < 2.0**-53
    assert said
