"""The small tools by themselves, against mpmath: searches, logarithms, quadrature, rounding, failure, trade-off."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp, mpf

from cumulant.curves.failure import log_delta_left, log_delta_with
from cumulant.numerics import scalar_logspace as scalar
from cumulant.numerics.binomial import Binomial
from cumulant.numerics.binomial_sum import binomial_log_sum
from cumulant.numerics.logspace import Array, exp_excess, log1p_deficit, log_expm1, log_sum, reciprocal_up
from cumulant.numerics.quadrature import legendre, nodes_on
from cumulant.numerics.rounding import exp_above, float_above, log_above, sum_above
from cumulant.numerics.search import largest_true, minimise_positive, nearest_on_side, root, root_near, smallest_true

SIZES = st.floats(-12, 2.5).map(lambda x: 10.0**x)


# Searches -------------------------------------------------------------------------------------------------------------


@given(st.floats(-50, 50), st.floats(0.01, 1000))
def test_root_is_within_its_tolerance(place: float, width: float) -> None:
    found = root(lambda x: math.tanh(x - place), place - width, place + 2 * width, tolerance=1e-9)
    assert abs(found - place) <= 1e-9


@given(st.floats(-50, 50), st.floats(0.05, 1.0), st.floats(-3, 3), st.floats(0.3, 2.0))
def test_a_root_nearby_is_within_its_tolerance(place: float, share: float, away: float, slope: float) -> None:
    low, high = place - 5 * share, place + 400
    found = root_near(lambda x: slope * math.sinh(x - place), place + away, low, high, tolerance=1e-9)
    assert abs(found - place) <= 1e-9


@pytest.mark.parametrize("slope", [-1.0, math.nan])
@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("place", [1e-9, 0.3, 7.0, 1e6])
def test_the_nearest_point_was_tested_and_lies_on_its_side(place: float, side: int, slope: float) -> None:
    seen: list[float] = []

    def falling(x: float) -> tuple[float, float]:
        seen.append(x)
        return math.log(place / x), slope / x

    anyway = 1e10 if side > 0 else 0.0
    found = nearest_on_side(falling, side, 1.0, anyway, lambda: False, slope=lambda x: -1 / x, turns=80, still=1e-15)
    assert found in seen
    assert side * (found - place) >= -1e-15 * place
    assert found == pytest.approx(place, rel=1e-13)


@pytest.mark.parametrize(("side", "anyway"), [(1, 5.0), (-1, 0.0)])
def test_without_a_point_on_its_side_the_answer_is_what_holds_anyway(side: int, anyway: float) -> None:
    blind = (side * math.inf, math.nan)
    assert nearest_on_side(lambda _: blind, side, 1.0, anyway, lambda: False, slope=abs, turns=9, still=0.0) == anyway


@given(st.lists(st.tuples(st.integers(1, 2**70), st.floats(-1e300, 1e300)), max_size=8))
@example([(1, 1e308), (1, 1e308)])
@example([(3, 5e-324), (1, 2.0**-1060)])
def test_sums_are_the_least_doubles_that_are_not_below(terms: list[tuple[int, float]]) -> None:
    exact = sum((n * Fraction(x) for n, x in terms), Fraction(0))
    assert sum_above(terms) == float_above(exact)


@given(st.floats(1e-307, 1e307))
def test_reciprocals_are_the_least_doubles_that_are_not_below(x: float) -> None:
    assert reciprocal_up(x) == float_above(1 / Fraction(x))


def test_zero_is_asked_where_the_first_point_is_beyond_the_answer() -> None:
    asked: list[bool] = []

    def is_zero() -> bool:
        asked.append(True)
        return True

    for start, most in ((1.0, 0.0), (1e-9, 1e-3)):
        asked.clear()
        found = nearest_on_side(
            lambda x: (1e-3 - x, -1.0), 1, start, 9.0, is_zero, slope=lambda _: -1.0, turns=40, still=1e-15
        )
        assert found == pytest.approx(most)
        assert asked == [True] * (start > most + 1e-3)


@given(st.floats(1e-9, 1e9))
def test_smallest_true_was_tested_and_is_close(place: float) -> None:
    found = smallest_true(lambda x: x >= place, 0.0, 1e10, relative=1e-12)
    assert place <= found <= place * (1 + 2e-12)


@given(st.integers(0, 10**15))
def test_largest_true_is_the_last(last: int) -> None:
    assert largest_true(lambda n: n <= last) == last


def test_nothing_true_and_everything_true() -> None:
    assert largest_true(lambda n: n == 0) == 0
    assert largest_true(lambda n: True) is None


@given(st.floats(-30, 30))
def test_the_minimum_of_a_valley_is_found(octave: float) -> None:
    """Log x + place/x has its minimum at x = place; with a curvature of 1 there, values are right to the square."""
    place = 2.0**octave
    x, value = minimise_positive(lambda lam: np.log(lam) + place / lam)
    assert value == pytest.approx(math.log(place) + 1, abs=1e-9)
    assert x == pytest.approx(place, rel=1e-4)


@given(st.floats(-3, 3), st.floats(0, 9))
def test_minimise_next_to_a_wall(log_edge: float, log_slope: float) -> None:
    """-cx - log(e - x)/2 has its minimum 1/(2c) below e, where it is infinite: a valley of a billionth."""
    edge = 10.0**log_edge
    slope = 10.0**log_slope / edge

    def function(x: Array) -> Array:
        inside = np.where(x < edge, edge - x, np.nan)
        return np.where(x < edge, -slope * x - 0.5 * np.log(inside), np.inf)

    least = -slope * edge + 0.5 + 0.5 * math.log(2 * slope)
    assert minimise_positive(function)[1] <= least + 2e-12 * (1 + abs(least) + slope * edge)


# Logarithms -----------------------------------------------------------------------------------------------------------

FORMULAS: dict[str, tuple[Callable[[float], float], Callable[[Any], Any]]] = {
    "e^x - 1 - x": (lambda x: float(exp_excess(x)), lambda x: mp.expm1(x) - x),
    "the same below 0": (lambda x: float(exp_excess(-x)), lambda x: mp.expm1(-x) + x),
    "x - log(1+x)": (lambda x: float(log1p_deficit(x)), lambda x: x - mp.log1p(x)),
    "log(e^x - 1)": (lambda x: float(log_expm1(x)), lambda x: mp.log(mp.expm1(x))),
    "log(e^x - 1), scalar": (scalar.log_expm1, lambda x: mp.log(mp.expm1(x))),
    "log(1 - e^-x)": (lambda x: scalar.log1m_exp(-x), lambda x: mp.log(-mp.expm1(-x))),
    "log(1 + e^x)": (scalar.log1p_exp, lambda x: mp.log1p(mp.exp(x))),
}


@pytest.mark.parametrize("name", FORMULAS)
@given(x=SIZES)
def test_logarithms_keep_their_digits(name: str, x: float) -> None:
    ours, exact = FORMULAS[name]
    with mp.workdps(60):
        truth = exact(mpf(x))
        assert abs(mpf(ours(x)) - truth) <= 4e-15 * abs(truth) + (mpf(0) if "log" not in name else mpf(4e-15))


@given(st.lists(st.floats(-800, 800), min_size=1, max_size=20))
def test_sums_of_exponentials(terms: list[float]) -> None:
    with mp.workdps(40):
        truth = mp.log(mp.fsum(mp.exp(mpf(x)) for x in terms))
        assert abs(mpf(log_sum(terms)) - truth) <= 1e-13 * (1 + abs(truth))
        assert abs(mpf(scalar.log_add(terms[0], terms[-1])) - mp.log(mp.exp(terms[0]) + mp.exp(terms[-1]))) <= 1e-12


@given(st.integers(1, 2000), st.data())
def test_binomial_probabilities_lie_within_their_error(n: int, data: st.DataObject) -> None:
    k, p = data.draw(st.integers(0, n)), data.draw(st.floats(1e-12, 0.999))
    log_pmf, error = Binomial.of(n, p, 1 - p).log_pmf(np.array([float(k)]))
    with mp.workdps(60):
        truth = mp.log(mp.binomial(n, k)) + k * mp.log(mpf(p)) + (n - k) * mp.log(1 - mpf(p))
        assert abs(mpf(float(log_pmf[0])) - truth) <= float(error[0])


@pytest.mark.parametrize(("n", "p", "bend"), [(10**6, 0.1, 2e-6), (3 * 10**6, 0.02, 1.5e-5), (2 * 10**6, 0.3, 2.2e-6)])
def test_large_sums_are_bounded_from_above_by_few_terms(n: int, p: float, bend: float) -> None:
    def factor(ell: Array) -> tuple[Array, Array, Array]:
        return bend * ell * ell / 2, np.zeros(len(ell)), np.zeros(len(ell))

    weights = Binomial.of(n, p, 1 - p)
    all_of_them = binomial_log_sum(weights, factor, first=2, last=n, exact_terms=n)[0]
    upper = binomial_log_sum(weights, factor, first=2, last=n, large=1e4)[1]
    assert all_of_them > 1e4
    assert all_of_them <= upper <= all_of_them * (1 + 1e-9)


# Quadrature and rounding ----------------------------------------------------------------------------------------------


def test_legendre_rules_are_exact_for_polynomials() -> None:
    x, w = legendre()
    for degree in range(32):
        assert float(np.sum(w * x**degree)) == pytest.approx(1 / (degree + 1), rel=1e-14)
    t, log_w = nodes_on(np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    assert float(np.sum(np.exp(log_w) * t**3)) == pytest.approx(81 / 4, rel=1e-14)


@given(st.floats(-744, 0))
def test_rounding_up_is_up_and_hardly_more(log_p: float) -> None:
    with mp.workdps(60):
        truth = mp.exp(mpf(log_p))
        assert truth <= exp_above(log_p) <= truth * (1 + 1e-15) + mpf("2e-323")
        assert log_p <= log_above(log_p) <= 0


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(10**12)), st.floats(1e-300, 1e300))
def test_quotients_are_rounded_up_by_less_than_a_unit(exact: Fraction, x: float) -> None:
    up = float_above(exact)
    assert Fraction(math.nextafter(up, 0.0)) < exact <= Fraction(up)
    assert Fraction(reciprocal_up(x)) >= 1 / Fraction(x)


# Failure and trade-off ------------------------------------------------------------------------------------------------


@given(st.floats(1e-300, 0.99), st.floats(-700, -1e-6))
def test_a_failure_is_added_from_above_and_taken_off_from_below(p: float, log_delta: float) -> None:
    with mp.workdps(60):
        total = mpf(p) + (1 - mpf(p)) * mp.exp(mpf(log_delta))
        above = log_delta_with(p, log_delta)
        assert mp.log(total) <= above <= mp.log(total) + mpf("1e-13") * (1 + abs(mp.log(total)))
        left = log_delta_left(p, above)
        assert (
            math.isnan(left)
            or left == -math.inf
            or mp.log(total) + mpf("1e-12") >= mp.log(mpf(p) + (1 - mpf(p)) * mp.exp(mpf(left)))
        )


def test_less_than_the_failure_leaves_nothing() -> None:
    assert math.isnan(log_delta_left(0.1, math.log(0.05)))
    assert log_delta_left(0.0, -3.0) == -3.0
