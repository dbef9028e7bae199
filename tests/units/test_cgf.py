"""Interpolation, projection and given curves, against brute force over all chords."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cumulant as cm
from cumulant.curves.curve import interpolated, projected, total
from references import least_chord
from strategies import log_uniform

ROUNDING = 1e-12
GRID = np.concatenate([np.geomspace(1e-3, 1e3, 61), [1.0, 2.0, 3.0]])

points = st.lists(st.tuples(log_uniform(1e-2, 1e2), log_uniform(1e-3, 1e3)), min_size=1, max_size=9)
pures = st.one_of(st.just(math.inf), log_uniform(1e-2, 1e2))


# Corollary 10 ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 100), min_size=6, max_size=6), st.floats(1e-6, 5.999))
def test_interpolation_is_the_chord_between_integers(values: list[float], lam: float) -> None:
    curve = interpolated(lambda n: [0.0, *values][n])
    expected = np.interp(lam, np.arange(7), [0.0, *values])
    np.testing.assert_allclose(curve.at(lam), expected, rtol=ROUNDING, atol=1e-300)
    assert curve.kl == values[0]


@given(log_uniform(1e-3, 1e3))
def test_interpolation_lies_above_the_curve(lam: float) -> None:
    gaussian = cm.Gaussian(noise_multiplier=3.0)
    curve = interpolated(lambda n: gaussian.cgf(order=n + 1))
    assert curve.at(lam) >= gaussian.cgf(order=1 + lam) * (1 - ROUNDING)


def test_interpolation_asks_at_integers_only() -> None:
    asked: list[int] = []

    def at(n: int) -> float:
        asked.append(n)
        return float(n)

    interpolated(at)(np.array([0.0, 0.5, 1.0, 2.25]))
    assert set(asked) <= {1, 2, 3}


# Proposition 24 -------------------------------------------------------------------------------------------------------


@given(points, pures)
def test_projection_is_the_least_chord(table: list[tuple[float, float]], pure: float) -> None:
    curve = projected(table, pure=pure)
    lam = np.concatenate([GRID, [x for x, _ in table]])
    expected = [least_chord(table, x, pure) for x in lam.tolist()]
    if math.isfinite(pure):  # the line of slope `pure` from the origin bounds every CGF
        assert (np.array(expected) <= lam * pure * (1 + ROUNDING)).all()
    np.testing.assert_allclose(curve(lam), expected, rtol=1e-11)


@given(points, pures)
def test_projection_is_a_cgf(table: list[tuple[float, float]], pure: float) -> None:
    curve = projected(table, pure=pure)
    assert curve(0.0) == 0
    for x, k in table:
        assert curve.at(x) <= k * (1 + ROUNDING)
    lam = np.unique(GRID)
    cost = curve(lam)
    known = np.isfinite(cost)
    lam, cost = lam[known], cost[known]
    slopes = np.diff(np.concatenate([[0.0], cost])) / np.diff(np.concatenate([[0.0], lam]))
    assert (np.diff(cost / lam) >= -ROUNDING * (cost / lam)[1:]).all()
    # a slope is a difference of rounded values
    error = 1e-15 * cost / np.diff(np.concatenate([[0.0], lam]))
    assert (np.diff(slopes) >= -ROUNDING * slopes[1:] - 4 * error[1:]).all()
    assert (cost <= lam * pure * (1 + ROUNDING)).all()
    assert curve.kl <= (cost / lam)[0] * (1 + ROUNDING) if len(cost) else True


@given(points, pures)
def test_projection_is_idempotent(table: list[tuple[float, float]], pure: float) -> None:
    once = projected(table, pure=pure)
    knots = [x for x, _ in table]
    twice = projected([(x, once.at(x)) for x in knots], pure=pure)
    np.testing.assert_allclose(twice(GRID), once(GRID), rtol=1e-11)


@given(points, st.randoms())
def test_projection_forgets_the_order_of_rows(table: list[tuple[float, float]], random: Any) -> None:
    shuffled = [*table, *table]
    random.shuffle(shuffled)
    np.testing.assert_array_equal(projected(shuffled)(GRID), projected(table)(GRID))


def test_nothing_is_known_beyond_the_last_order() -> None:
    assert projected([(1.0, 2.0)]).at(1.0001) == math.inf
    assert projected([(1.0, 2.0)], pure=5.0).at(2.0) == 7.0
    assert projected([], pure=5.0).at(2.0) == 10.0


def test_totals_add() -> None:
    one, other = projected([(1.0, 1.0), (3.0, 9.0)]), projected([(2.0, 4.0)], pure=3.0)
    np.testing.assert_allclose(total([(one, 3), (other, 2)])(GRID), 3 * one(GRID) + 2 * other(GRID), rtol=ROUNDING)
    np.testing.assert_array_equal((one + other)(GRID), total([(one, 1), (other, 1)])(GRID))
    np.testing.assert_array_equal((2 * one)(GRID), total([(one, 2)])(GRID))
    assert total([(one, 0)]).at(5.0) == 0


# Given curves ---------------------------------------------------------------------------------------------------------


def test_bumpy_decreasing_unsorted_and_repeated_rows() -> None:
    """Order 8 at 0.4 bounds every lower order by monotony, and the chords do better still."""
    table = [(8, 0.4), (2, 0.1), (4, 0.9), (8, 0.7), (2, 0.1), (3, math.inf)]
    curve = cm.RenyiCurve(table)
    finite = [(a - 1.0, (a - 1) * e) for a, e in table if e < math.inf]
    for order in (1.5, 2.0, 3.0, 4.0, 7.0, 8.0):
        assert curve.cgf(order=order) == pytest.approx(least_chord(finite, order - 1), rel=ROUNDING)
    assert curve.rdp(order=[8.01, math.inf]).tolist() == [math.inf, math.inf]
    assert curve.rdp(order=1) <= 0.1


def test_a_decreasing_table_is_levelled() -> None:
    curve = cm.RenyiCurve([(2, 1.0), (4, 0.5), (8, 0.25)])
    np.testing.assert_allclose(curve.rdp(order=[1, 2, 4, 8]), 0.25, rtol=ROUNDING)


def test_pure_dp_in_a_table() -> None:
    curve = cm.RenyiCurve([(2, 0.5), (10, 3.0), (math.inf, 2.0)])
    assert curve.rdp(order=math.inf) == 2.0
    assert curve.epsilon(delta=0.0) == 2.0
    assert curve.cgf(order=101) == pytest.approx(least_chord([(1, 0.5), (9, 18.0)], 100.0, 2.0), rel=ROUNDING)
    assert cm.RenyiCurve([(math.inf, 2.0)]).rdp(order=[1, 3, math.inf]).tolist() == [2.0, 2.0, 2.0]


def test_arrays_are_tables() -> None:
    table = np.array([[2.0, 0.1], [4.0, 0.3]])
    assert cm.RenyiCurve(table) == cm.RenyiCurve([(2.0, 0.1), (4.0, 0.3)])


BAD_TABLES: list[Any] = [
    [],
    [(2, math.nan)],
    [(math.nan, 1.0)],
    [(2, -0.1)],
    [(1, 0.1)],
    [(0.5, 0.1)],
    [(2, 0.1, 3)],
    [(2,)],
    [2, 3],
    5,
    None,
    "text",
    [("2", 0.1)],
    [(2, "0.1")],
    [(2, None)],
    [(True, 0.1)],
    [(2, math.inf)],
    {2: 0.1},
]


@pytest.mark.parametrize("table", BAD_TABLES, ids=repr)
def test_bad_tables_are_refused(table: Any) -> None:
    with pytest.raises(cm.InvalidParameter):
        cm.RenyiCurve(table)


def test_a_table_with_overflowing_costs_is_no_number_error() -> None:
    """(α-1)ε above the largest float claims nothing, and spoils nothing."""
    curve = cm.RenyiCurve([(2, 0.5), (1e200, 1e200), (1e201, 1e200)])
    assert curve.rdp(order=2) == 0.5
    assert curve.rdp(order=1e150) >= 0.5
    assert not math.isnan(curve.epsilon(delta=1e-5))


@pytest.mark.parametrize("order", [1.0001, 1.37, 2.0, 64.5, 1e4])
def test_a_convex_function_is_taken_as_it_stands(order: float) -> None:
    curve = cm.RenyiCurve(lambda a: a / 8)
    assert curve.rdp(order=order) == pytest.approx(order / 8, rel=ROUNDING)
    assert curve.epsilon(delta=1e-5) == pytest.approx(
        cm.Gaussian(noise_multiplier=2.0).epsilon(delta=1e-5, method="rdp"), rel=1e-9
    )


def test_a_bumpy_function_is_projected() -> None:
    """Never above what was claimed, never below the least chord of all that was claimed."""

    def bumpy(order: float) -> float:
        return order / 8 * (1 + 0.5 * math.sin(3 * math.log(order - 1)) ** 2)

    curve = cm.RenyiCurve(bumpy)
    valleys = [math.exp(j * math.pi / 3) for j in range(-9, 10)]
    fine = [(x, x * bumpy(1 + x)) for x in [*valleys, *np.geomspace(1e-4, 1e4, 600).tolist()]]
    for lam in np.geomspace(1e-2, 1e3, 11).tolist():
        assert curve.cgf(order=1 + lam) >= least_chord(fine, lam) * (1 - 1e-3)  # the grid's own distance
    for k in range(-16, 17):
        lam = 2.0 ** (k / 2)
        assert curve.rdp(order=1 + lam) <= bumpy(1 + lam) * (1 + ROUNDING)


def test_a_function_may_know_some_orders_only() -> None:
    curve = cm.RenyiCurve(lambda a: a / 2 if a <= 32 else math.inf)
    assert curve.rdp(order=[2, 32, 33]).tolist() == [1.0, 16.0, math.inf]
    assert curve.epsilon(delta=1e-5) < math.inf


@pytest.mark.parametrize("value", [math.nan, -1.0, "text", None, True, 1j])
def test_functions_that_return_no_cost_are_refused(value: Any) -> None:
    with pytest.raises(cm.InvalidParameter):
        cm.RenyiCurve(lambda _: value)


def test_functions_that_raise_are_refused_with_the_order() -> None:
    with pytest.raises(cm.InvalidParameter, match=r"order"):
        cm.RenyiCurve(lambda a: 1 / 0)
    with pytest.raises(cm.InvalidParameter, match="finite"):
        cm.RenyiCurve(lambda a: math.inf)
