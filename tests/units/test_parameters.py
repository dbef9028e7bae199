"""What is refused, and that the message names the argument, the rule and the value."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import cumulant as cm

NOT_NUMBERS: list[Any] = [math.nan, "1", None, True, False, [1.0], np.array([1.0]), np.array([1.0, 2.0]), 1j, b"1"]
NOT_NUMBERS_OR_ARRAYS: list[Any] = [math.nan, "1", None, True, False, 1j, b"1"]
NOT_POSITIVE: list[Any] = [*NOT_NUMBERS, math.inf, -math.inf, -1.0, 0.0, 0, -1e-300]
NOT_NONNEGATIVE: list[Any] = [*NOT_NUMBERS, math.inf, -math.inf, -1.0, -1e-300]
NOT_EPSILONS: list[Any] = [*NOT_NUMBERS_OR_ARRAYS, math.inf, -math.inf, -1.0, -1e-300]
NOT_PROBABILITIES: list[Any] = [*NOT_NUMBERS, math.inf, -math.inf, -1e-9, 1.0000001, 2]
NOT_COUNTS: list[Any] = [0.5, -1, True, False, None, "3", 1.0, math.nan, math.inf, [1], np.array([1, 2]), np.float64(2)]
NOT_ORDERS: list[Any] = [0.5, 0, -1.0, math.nan, -math.inf, "2", True, 1j, 0.9999999]

RULES: dict[str, tuple[Callable[[Any], Any], str, list[Any]]] = {
    "Gaussian": (lambda v: cm.Gaussian(noise_multiplier=v), "noise_multiplier", NOT_POSITIVE),
    "Laplace": (lambda v: cm.Laplace(scale=v), "scale", NOT_POSITIVE),
    "RandomizedResponse": (lambda v: cm.RandomizedResponse(p=v), "p", [*NOT_PROBABILITIES, 0.0, 1.0, 0, 1]),
    "PureDP": (lambda v: cm.PureDP(epsilon=v), "epsilon", NOT_NONNEGATIVE),
    "ApproximateDP epsilon": (lambda v: cm.ApproximateDP(epsilon=v, delta=0.1), "epsilon", NOT_NONNEGATIVE),
    "ApproximateDP delta": (lambda v: cm.ApproximateDP(epsilon=1.0, delta=v), "delta", NOT_PROBABILITIES),
    "ZCDP rho": (lambda v: cm.ZCDP(rho=v), "rho", NOT_NONNEGATIVE),
    "ZCDP xi": (lambda v: cm.ZCDP(rho=1.0, xi=v), "xi", NOT_NONNEGATIVE),
    "TruncatedCDP rho": (lambda v: cm.TruncatedCDP(rho=v, omega=2.0), "rho", NOT_NONNEGATIVE),
    "TruncatedCDP omega": (lambda v: cm.TruncatedCDP(rho=1.0, omega=v), "omega", [*NOT_NUMBERS, 1.0, 0.0, -math.inf]),
    "family distance": (lambda v: cm.ExponentialFamily(distance=v, smoothness=1.0), "distance", NOT_POSITIVE),
    "family smoothness": (
        lambda v: cm.ExponentialFamily(distance=1.0, smoothness=v, lipschitz=1.0),
        "smoothness",
        [*NOT_NUMBERS, 0.0, -1.0],
    ),
    "family lipschitz": (
        lambda v: cm.ExponentialFamily(distance=1.0, smoothness=1.0, lipschitz=v),
        "lipschitz",
        [*NOT_NUMBERS, 0.0, -1.0],
    ),
    "family radius": (
        lambda v: cm.ExponentialFamily(distance=1.0, smoothness=1.0, radius=v),
        "radius",
        [*NOT_NUMBERS, 0.5, -1.0],
    ),
    "count": (lambda v: cm.Laplace(scale=1.0) * v, "count", NOT_COUNTS),
    "count on the left": (lambda v: v * cm.Laplace(scale=1.0), "count", [0.5, -1, True, None, "3", [1]]),
    "compose": (lambda v: cm.Accountant().compose(cm.Laplace(scale=1.0), count=v), "count", NOT_COUNTS),
    "order of rdp": (lambda v: cm.Laplace(scale=1.0).rdp(order=v), "order", [*NOT_ORDERS, None]),
    "order of cgf": (lambda v: cm.Laplace(scale=1.0).cgf(order=v), "order", [*NOT_ORDERS, None]),
    "orders": (lambda v: cm.Laplace(scale=1.0).rdp(order=[2.0, v]), "order", [0.5, math.nan, -math.inf]),
    "delta": (
        lambda v: cm.Laplace(scale=1.0).epsilon(delta=v),
        "delta",
        [*NOT_NUMBERS_OR_ARRAYS, math.inf, -math.inf, -1e-9, 2],
    ),
    "log_delta": (
        lambda v: cm.Laplace(scale=1.0).epsilon(log_delta=v),
        "log_delta",
        [*NOT_NUMBERS_OR_ARRAYS, 1e-9, 1.0, math.inf],
    ),
    "epsilon": (lambda v: cm.Laplace(scale=1.0).delta(epsilon=v), "epsilon", NOT_EPSILONS),
    "epsilon of log_delta": (lambda v: cm.Laplace(scale=1.0).log_delta(epsilon=v), "epsilon", NOT_EPSILONS),
}

CASES = [(name, value) for name, (_, _, values) in RULES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name}: {value!r}" for name, value in CASES])
def test_bad_values_are_refused_by_name_rule_and_value(name: str, value: Any) -> None:
    build, argument, _ = RULES[name]
    with pytest.raises(cm.InvalidParameter) as refusal:
        build(value)
    message = str(refusal.value)
    assert message.startswith(f"{argument} must be ") or (value is None and "delta" in argument)
    assert "got " in message
    assert repr(value) in message.split("got ", 1)[1]
    assert isinstance(refusal.value, ValueError)
    assert isinstance(refusal.value, cm.CumulantError)


@pytest.mark.parametrize("value", [10**400, -(10**400), Fraction(10**400)], ids=["large", "small", "fraction"])
def test_integers_beyond_floats_are_refused(value: Any) -> None:
    with pytest.raises(cm.InvalidParameter):
        cm.Gaussian(noise_multiplier=value)
    with pytest.raises(cm.InvalidParameter):
        cm.Laplace(scale=1.0).epsilon(delta=value)


@pytest.mark.parametrize("value", [2, 2.0, np.float64(2.0), np.float32(2.0), np.int64(2), np.array(2.0), Fraction(2)])
def test_every_kind_of_number_is_taken_and_stored_as_float(value: Any) -> None:
    mechanism = cm.Gaussian(noise_multiplier=value)
    assert mechanism == cm.Gaussian(noise_multiplier=2.0)
    assert type(mechanism.noise_multiplier) is float


def test_decimals_are_refused_rather_than_rounded() -> None:
    with pytest.raises(cm.InvalidParameter):
        cm.Gaussian(noise_multiplier=Decimal(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [np.int64(3), np.uint8(3), 3])
def test_every_kind_of_integer_counts(count: Any) -> None:
    assert (cm.Laplace(scale=1.0) * count).parts == ((cm.Laplace(scale=1.0), 3),)


QUESTIONS = ["epsilon", "guarantee", "explain"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_exactly_one_of_delta_and_log_delta(question: str) -> None:
    for who in (cm.Laplace(scale=1.0), cm.Accountant()):
        with pytest.raises(cm.InvalidParameter, match=r"either delta or log_delta.*delta=0\.1 and log_delta=-1\.0"):
            getattr(who, question)(delta=0.1, log_delta=-1.0)
        with pytest.raises(cm.InvalidParameter, match="either delta or log_delta"):
            getattr(who, question)()


@pytest.mark.parametrize("method", ["pld", "", "EXACT", None, 1, ["rdp"]])
def test_unknown_methods(method: Any) -> None:
    mechanism = cm.Gaussian(noise_multiplier=1.0)
    for ask in (mechanism.epsilon, mechanism.guarantee, mechanism.explain):
        with pytest.raises(cm.InvalidParameter, match="method must be one of best, exact, rdp, got"):
            ask(delta=1e-5, method=method)
    with pytest.raises(cm.InvalidParameter, match="method must be one of"):
        mechanism.delta(epsilon=1.0, method=method)


def test_exact_without_a_pair_is_unproven() -> None:
    run = cm.RenyiCurve([(2, 0.1)]) + cm.Gaussian(noise_multiplier=1.0)
    with pytest.raises(cm.UnprovenCombination, match="best"):
        run.epsilon(delta=1e-5, method="exact")
    with pytest.raises(NotImplementedError):
        run.delta(epsilon=1.0, method="exact")


def test_families_need_a_modulus() -> None:
    with pytest.raises(cm.InvalidParameter, match="smoothness, lipschitz or both"):
        cm.ExponentialFamily(distance=1.0)


BAD_GAUSSIANS: list[dict[str, Any]] = [
    {"shift": [], "covariance": [], "neighbor_covariance": []},
    {"shift": [math.nan], "covariance": [[1.0]], "neighbor_covariance": [[1.0]]},
    {"shift": 1.0, "covariance": [[1.0]], "neighbor_covariance": [[1.0]]},
    {"shift": [1.0], "covariance": [[0.0]], "neighbor_covariance": [[1.0]]},
    {"shift": [1.0], "covariance": [[-1.0]], "neighbor_covariance": [[1.0]]},
    {"shift": [1.0], "covariance": [[math.inf]], "neighbor_covariance": [[1.0]]},
    {"shift": [1.0], "covariance": [[1.0]], "neighbor_covariance": [["x"]]},
    {"shift": [1.0, 2.0], "covariance": [[1.0]], "neighbor_covariance": [[1.0]]},
    {"shift": [1.0, 2.0], "covariance": [[1.0, 0.5], [0.4, 1.0]], "neighbor_covariance": [[1.0, 0.0], [0.0, 1.0]]},
    {"shift": [1.0, 2.0], "covariance": [[1.0, 2.0], [2.0, 1.0]], "neighbor_covariance": [[1.0, 0.0], [0.0, 1.0]]},
    {"shift": [1.0, 2.0], "covariance": [[1.0], [2.0, 1.0]], "neighbor_covariance": [[1.0, 0.0], [0.0, 1.0]]},
]


@pytest.mark.parametrize("arguments", BAD_GAUSSIANS, ids=repr)
def test_bad_covariances(arguments: dict[str, Any]) -> None:
    with pytest.raises(cm.InvalidParameter, match=r"(shift|covariance) must .*got"):
        cm.MultivariateGaussian(**arguments)


BAD_DATA: list[Any] = [
    None,
    [],
    "Gaussian",
    {},
    {"cumulant": 2, "mechanism": "Gaussian", "noise_multiplier": 1.0},
    {"cumulant": 1},
    {"cumulant": 1, "mechanism": "Unknown"},
    {"cumulant": 1, "mechanism": None},
    {"cumulant": 1, "mechanism": ["Gaussian"]},
    {"cumulant": 1, "mechanism": "AbstractMechanism"},
    {"cumulant": 1, "mechanism": "Gaussian"},
    {"cumulant": 1, "mechanism": "Gaussian", "noise_multiplier": -1.0},
    {"cumulant": 1, "mechanism": "Gaussian", "noise_multiplier": "1"},
    {"cumulant": 1, "mechanism": "Gaussian", "noise_multiplier": 1.0, "extra": 2},
    {"cumulant": 1, "mechanism": "RenyiCurve"},
    {"cumulant": 1, "mechanism": "RenyiCurve", "curve": [1]},
    {"cumulant": 1, "mechanism": "RenyiCurve", "curve": [[2.0]]},
    {"cumulant": 1, "mechanism": "Composed"},
    {"cumulant": 1, "mechanism": "Composed", "parts": 5},
    {"cumulant": 1, "mechanism": "Composed", "parts": [{}]},
    {"cumulant": 1, "mechanism": "Composed", "parts": [{"count": 1, "release": 3}]},
    {"cumulant": 1, "mechanism": "Composed", "parts": [{"count": 0.5, "release": cm.Laplace(scale=1.0)._plain()}]},
    {"cumulant": 1, "mechanism": "Composed", "parts": [], "extra": 1},
]


@pytest.mark.parametrize("data", BAD_DATA, ids=repr)
def test_bad_data_is_refused(data: Any) -> None:
    """Files come from anywhere: whatever is wrong with one, the error is typed."""
    with pytest.raises(cm.InvalidParameter):
        cm.from_dict(data)


def test_adding_something_else_is_a_type_error() -> None:
    for other in (1, "x", None, cm.Gaussian):
        with pytest.raises(TypeError):
            cm.Gaussian(noise_multiplier=1.0) + other  # type: ignore[operator]


def test_ragged_orders_are_refused() -> None:
    with pytest.raises(cm.InvalidParameter, match="order"):
        cm.Gaussian(noise_multiplier=1.0).rdp(order=[[2.0], [3.0, 4.0]])
