"""Whatever is asked ends in time, in a number on the safe side or in a `CumulantError`."""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cumulant as cm
from cumulant.curves.curve import Curve
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.data import DEEPEST, REGISTRY, register, unique_keys
from cumulant.mechanisms.group import group_loss
from cumulant.sampling.once_per_epoch import OncePerEpoch
from limits import SOURCE, within_limits
from strategies import ASKING, mechanisms

GAUSSIAN, LAPLACE = cm.Gaussian(noise_multiplier=1.0), cm.Laplace(scale=1.0)
EXTREMES = [5e-324, 1e-320, 1e-300, 1e-160, 1e-9, 0.1, 1.0, 30.0, 750.0, 1e9, 1e100, 1e160, 1e300, 1.7e308]
EXTREME = st.sampled_from(EXTREMES)


# Nothing --------------------------------------------------------------------------------------------------------------

SAMPLED: dict[str, Callable[[AbstractMechanism], AbstractMechanism]] = {
    "poisson": lambda m: m.poisson(rate=0.1),
    "poisson, replace-one": lambda m: m.poisson(rate=0.1, neighbors=cm.REPLACE_ONE),
    "everyone": lambda m: m.poisson(rate=1.0),
    "no one": lambda m: m.poisson(rate=0.0),
    "batch": lambda m: m.without_replacement(batch=3, population=10),
    "batch, add-or-remove-one": lambda m: m.without_replacement(rate=0.3, neighbors=cm.ADD_REMOVE),
    "draws": lambda m: m.with_replacement(draws=3, population=10),
    "draws, add-or-remove-one": lambda m: m.with_replacement(draws=3, population=10, neighbors=cm.ADD_REMOVE),
    "group": lambda m: m.group(size=5),
    "group of a sample": lambda m: m.poisson(rate=0.1).group(size=3),
    "sample of a sample": lambda m: m.without_replacement(rate=0.1).without_replacement(rate=0.5),
}


@pytest.mark.parametrize("how", SAMPLED)
@pytest.mark.parametrize("mechanism", [GAUSSIAN, LAPLACE, cm.ApproximateDP(epsilon=1.0, delta=0.1), cm.ZCDP(rho=1.0)])
def test_sampling_nothing_is_nothing(mechanism: AbstractMechanism, how: str) -> None:
    nothing = SAMPLED[how](mechanism * 0)
    for method in ("best", "rdp"):
        assert nothing.epsilon(delta=0.0, method=method) == 0
        assert nothing.delta(epsilon=0.0, method=method) == 0
        assert (nothing * 5).epsilon(delta=1e-5, method=method) == 0
    assert nothing.rdp(order=[1.0, 2.0, math.inf]).tolist() == [0.0, 0.0, 0.0]
    assert nothing._known().failure() == 0
    assert nothing.tradeoff(false_positive_rate=0.25) == pytest.approx(0.75, abs=1e-12)
    assert (nothing + cm.PureDP(epsilon=0.5)).epsilon(delta=0.0) == 0.5


# Counts ---------------------------------------------------------------------------------------------------------------

BAD_COUNTS: list[Any] = [-1, 10**18 + 1, 10**30, 10**300, 10**5000, 0.5, True, None, "3"]


@pytest.mark.parametrize("count", BAD_COUNTS, ids=lambda count: str(count)[:8] if not isinstance(count, int) else "int")
def test_bad_counts_are_refused_wherever_they_come_in(count: Any) -> None:
    known = cm.Accountant()
    known.compose(LAPLACE, count=5)
    uses: list[Callable[[], Any]] = [
        lambda: LAPLACE * count,
        lambda: cm.Composed(((LAPLACE, count),)),
        lambda: cm.Composed.of([(LAPLACE, count)]),
        lambda: cm.Accountant().compose(LAPLACE, count=count),
        lambda: known.compose(LAPLACE, count=count),
    ]
    for use in uses:
        with pytest.raises(cm.InvalidParameter, match="count must be"):
            use()
    assert known.run.parts == ((LAPLACE, 5),)


def test_totals_are_counted_too() -> None:
    most = 10**18
    builds: list[Callable[[], Any]] = [
        lambda: LAPLACE * most + LAPLACE,
        lambda: (LAPLACE * 10**10) * 10**10,
        lambda: cm.Composed(((LAPLACE, most), (LAPLACE, 1))),
    ]
    for build in builds:
        with pytest.raises(cm.InvalidParameter, match="at most 1e18 releases in all"):
            build()
    accountant = cm.Accountant()
    accountant.compose(LAPLACE, count=most)
    for more in (1, most):
        with pytest.raises(cm.InvalidParameter, match="at most 1e18"):
            accountant.compose(LAPLACE, count=more)
    accountant.compose(LAPLACE, count=0)
    assert accountant.run.parts == ((LAPLACE, most),)


@pytest.mark.parametrize("parts", [5, [(LAPLACE,)], [(1, LAPLACE)], [LAPLACE], [("Laplace", 1)], [(LAPLACE, 1, 1)]])
def test_parts_are_pairs(parts: Any) -> None:
    with pytest.raises(cm.InvalidParameter, match="parts must be pairs of a mechanism and a count"):
        cm.Composed(parts)


def test_parts_are_merged_however_they_are_given() -> None:
    assert cm.Composed(((LAPLACE, 2), (LAPLACE * 3, 2), (GAUSSIAN, 0))).parts == ((LAPLACE, 8),)
    with pytest.raises(cm.MixedNeighbors):
        cm.Composed(((GAUSSIAN.poisson(rate=0.1), 1), (GAUSSIAN.without_replacement(rate=0.1), 1)))


# Data -----------------------------------------------------------------------------------------------------------------

EVERY_KIND: list[AbstractMechanism] = [
    GAUSSIAN,
    cm.GaussianMixture(noise_multiplier=2.0, sensitivities=(0.0, 1.0), probabilities=(0.75, 0.25)),
    LAPLACE,
    cm.PureDP(epsilon=1.0),
    cm.ApproximateDP(epsilon=1.0, delta=1e-6),
    cm.ZCDP(rho=1.0, xi=0.5),
    cm.TruncatedCDP(rho=1.0, omega=math.inf),
    cm.RandomizedResponse(p=0.75),
    cm.RenyiCurve([(2, 0.1), (math.inf, 3.0)]),
    cm.StatedPair(probabilities=(0.75, 0.25), neighbor_probabilities=(0.25, 0.75)),
    cm.ExponentialFamily(distance=1.0, smoothness=0.25),
    cm.MultivariateGaussian(shift=(1.0,), covariance=((4.0,),), neighbor_covariance=((2.0,),)),
    GAUSSIAN.poisson(rate=0.1),
    LAPLACE.with_replacement(draws=3, population=10),
    GAUSSIAN.without_replacement(rate=0.1).sharpened(),
    cm.RenyiCurve([(2, 0.1), (30, 2.0)]).group(size=2),
    (GAUSSIAN * 3 + LAPLACE).poisson(rate=0.5) * 2 + cm.PureDP(epsilon=0.1),
    cm.FamilyPair(family="gamma", natural=(1.0, -2.0), neighbor_natural=(1.5, -2.0)),
    cm.LaplaceVector(scale=2.0),
    OncePerEpoch(mechanism=cm.Gaussian(noise_multiplier=2.0)),
    cm.Gaussian(noise_multiplier=2.0).shuffled(batches=7, neighbors=cm.REPLACE_ONE),
    cm.Gaussian(noise_multiplier=2.0).shuffled(batches=7, neighbors=cm.REPLACE_ONE).sharpened(),
    cm.Parallel(parts=(GAUSSIAN, LAPLACE)),
    cm.banded_dp_sgd(noise_multiplier=2.0, bands=2, sample_rate=0.1, steps=5, partition="independent"),
    GAUSSIAN.random_allocation(steps=5, epochs=2, bins="kept"),
    GAUSSIAN.poisson(rate=0.1, max_batch=3, population=20, neighbors=cm.ZERO_OUT),
    GAUSSIAN.poisson(rate=0.1, records_per_user=3),
]
KINDS = [type(mechanism).__name__ for mechanism in EVERY_KIND]


def test_every_kind_is_here() -> None:
    """A kind of mechanism that is not read back in a fresh process is untested."""
    assert set(REGISTRY) - set(KINDS) - {"SampledWithoutReplacement"} == set()


def test_a_name_of_the_library_is_not_given_twice() -> None:
    with pytest.raises(cm.InvalidParameter, match="choose another"):
        register(type("Gaussian", (cm.PureDP,), {}))


def test_every_name_is_the_class_of_its_module() -> None:
    for name, module in REGISTRY.items():
        assert getattr(importlib.import_module(module), name).__name__ == name


def test_every_kind_is_read_in_a_fresh_process() -> None:
    code = "import sys, json, cumulant as cm; print([cm.from_dict(d) for d in json.load(sys.stdin)])"
    text = json.dumps([mechanism.to_dict() for mechanism in EVERY_KIND])
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE)},
    )
    assert run.stdout.strip() == repr(EVERY_KIND)


@pytest.mark.parametrize("mechanism", EVERY_KIND, ids=KINDS)
def test_pickle_and_copies(mechanism: AbstractMechanism) -> None:
    for twin in (pickle.loads(pickle.dumps(mechanism)), copy.copy(mechanism), copy.deepcopy(mechanism)):
        assert twin == mechanism
        assert hash(twin) == hash(mechanism)
        assert twin.rdp(order=2.0) == mechanism.rdp(order=2.0)


def flat(order: float) -> float:
    return 0.01 * order


def test_functions_are_pickled_if_they_can_be() -> None:
    curve = cm.RenyiCurve(flat)
    assert copy.deepcopy(curve) == curve
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(cm.RenyiCurve(lambda order: 0.01 * order))


@given(mechanisms())
def test_any_mechanism_is_copied(mechanism: AbstractMechanism) -> None:
    assert copy.deepcopy(mechanism) == mechanism


@pytest.mark.parametrize("depth", [DEEPEST, 300, 5000])
@pytest.mark.parametrize("wrap", [lambda inner: {"mechanism": "Group", "size": 1, "of": inner}, lambda inner: [inner]])
def test_deep_data_is_refused(depth: int, wrap: Callable[[Any], Any]) -> None:
    data: Any = {"mechanism": "Laplace", "scale": 1.0}
    for _ in range(depth):
        data = wrap(data)
    for whole in (
        {"cumulant": 1, "mechanism": "Composed", "parts": data},
        {"cumulant": 1, **data} if depth and isinstance(data, dict) else data,
    ):
        with pytest.raises(cm.InvalidParameter):
            cm.from_dict(whole)


def test_deep_mechanisms_are_not_written() -> None:
    mechanism: AbstractMechanism = cm.ZCDP(rho=0.1)
    for depth in range(300):
        mechanism = mechanism.without_replacement(rate=0.999)
        if depth == 20:
            assert cm.from_dict(mechanism.to_dict()) == mechanism
    with pytest.raises(cm.InvalidParameter, match="levels deep"):
        mechanism.to_dict()


@pytest.mark.parametrize("mechanism", EVERY_KIND, ids=KINDS)
@pytest.mark.parametrize("strange", ["extra", "noise", "_loss", "kinds", "count"])
def test_unknown_keys_are_refused_everywhere(mechanism: AbstractMechanism, strange: str) -> None:
    data = mechanism.to_dict()
    for place in dictionaries(data):
        if strange not in place:
            place[strange] = 1.0
            with pytest.raises(cm.InvalidParameter):
                cm.from_dict(data)
            del place[strange]
    assert cm.from_dict(data) == mechanism


def dictionaries(data: Any) -> list[dict[str, Any]]:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else []
    here = [data] if isinstance(data, dict) else []
    return here + [found for item in inner for found in dictionaries(item)]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for mechanism in EVERY_KIND[::3]:
        data = mechanism.to_dict()
        for key in data:
            for wrong in ({**data, key: value}, {k: v for k, v in data.items() if k != key}):
                with contextlib.suppress(cm.InvalidParameter):
                    assert isinstance(cm.from_dict(wrong), AbstractMechanism)


@pytest.mark.parametrize("version", [0, 2, True, 1.0, "1", None, [1]])
def test_versions_are_whole_numbers(version: Any) -> None:
    with pytest.raises(cm.InvalidParameter, match="'cumulant': 1"):
        cm.from_dict({**LAPLACE.to_dict(), "cumulant": version})


def test_duplicate_keys_are_seen_in_the_text() -> None:
    text = json.dumps((GAUSSIAN * 2).to_dict())
    assert json.loads(text, object_pairs_hook=unique_keys) == (GAUSSIAN * 2).to_dict()
    for key in ("cumulant", "noise_multiplier", "count"):
        twice = text.replace(f'"{key}":', f'"{key}": 7, "{key}":', 1)
        with pytest.raises(cm.InvalidParameter, match=f"'{key}' twice"):
            json.loads(twice, object_pairs_hook=unique_keys)


# Builders -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, 1.0, "Gaussian", cm.Gaussian, lambda: None, cm.Accountant()])
def test_builders_must_build_mechanisms(wrong: Any) -> None:
    for search in (cm.calibrate, cm.max_rate):
        with pytest.raises(cm.InvalidParameter, match="what build returns must be a cumulant mechanism"):
            search(lambda _: wrong, epsilon=1.0, delta=1e-5)
    for not_a_function in (None, 1.0, "build"):
        with pytest.raises(cm.InvalidParameter, match="build must be a function"):
            cm.calibrate(not_a_function, epsilon=1.0, delta=1e-5)  # type: ignore[arg-type]
    with pytest.raises(cm.InvalidParameter, match="step must be a cumulant mechanism"):
        cm.max_count(wrong, epsilon=1.0, delta=1e-5)


def test_the_most_releases_leave_room_for_what_was_spent() -> None:
    free, step = cm.PureDP(epsilon=0.0), cm.PureDP(epsilon=1e-17)
    with pytest.raises(cm.InvalidParameter, match="step must cost something"):
        cm.max_count(free, epsilon=1.0, delta=0.0, spent=free * 10**17)
    with pytest.raises(cm.InvalidParameter, match="step must cost something"):
        cm.max_count(step * 2, epsilon=100.0, delta=0.0, spent=step)
    assert abs(cm.max_count(step, epsilon=1.0, delta=0.0, spent=step * 10**16) - 9 * 10**16) < 100


# Extremes -------------------------------------------------------------------------------------------------------------

MAKERS: dict[str, Callable[[float, float], AbstractMechanism]] = {
    "Gaussian": lambda a, b: cm.Gaussian(noise_multiplier=a),
    "Laplace": lambda a, b: cm.Laplace(scale=a),
    "PureDP": lambda a, b: cm.PureDP(epsilon=a),
    "ZCDP": lambda a, b: cm.ZCDP(rho=a, xi=b),
    "TruncatedCDP": lambda a, b: cm.TruncatedCDP(rho=a, omega=1 + b),
    "RenyiCurve": lambda a, b: cm.RenyiCurve([(2.0, a), (1 + b, a)]),
    "ExponentialFamily": lambda a, b: cm.ExponentialFamily(distance=a, smoothness=b),
    "MultivariateGaussian": lambda a, b: cm.MultivariateGaussian(
        shift=(a, 0.0), covariance=((1.0, 0.0), (0.0, b)), neighbor_covariance=((b, 0.0), (0.0, a))
    ),
}


@pytest.mark.filterwarnings("error")
@given(st.sampled_from(sorted(MAKERS)), EXTREME, EXTREME, st.integers(1, 10**18), EXTREME)
@ASKING
@example("PureDP", 1e300, 1.0, 179_769_314, 1e-9)  # a quotient beyond doubles
def test_moments_are_numbers(kind: str, a: float, b: float, count: int, order: float) -> None:
    """Over the whole range of doubles: a number >= 0, no warning; 0 only where nothing is released."""
    try:
        mechanism = MAKERS[kind](a, b) * count
    except cm.InvalidParameter:
        return
    value = mechanism.rdp(order=1 + order)
    assert value >= 0  # which NaN is not
    assert mechanism.cgf(order=1 + order) >= 0
    assert mechanism.rdp(order=1.0) >= 0


@pytest.mark.parametrize(
    "mechanism", [cm.Laplace(scale=1e200), cm.PureDP(epsilon=1e-200), cm.Gaussian(noise_multiplier=1e200)]
)
def test_what_underflows_is_not_free(mechanism: AbstractMechanism) -> None:
    assert mechanism.rdp(order=1.0) > 0
    assert mechanism.cgf(order=2.0) > 0


def test_what_is_not_a_number_is_no_bound() -> None:
    unknown = Curve(log_moment=lambda lam: np.full(lam.shape, math.nan), kl=math.nan, pure=math.nan)
    assert (unknown.kl, unknown.pure, unknown.at(1.0)) == (math.inf, math.inf, math.inf)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 100, 1023])
def test_groups_of_curves_cost_at_least_what_gaussians_do(size: int) -> None:
    """ρ-zCDP is attained by a Gaussian, whose group of k has k²ρ; the bound of pure DP is attained at order ∞."""
    gaussian = group_loss(cm.ZCDP(rho=1e-6)._known().curve(), size)
    for lam in (0.1, 1.0, 10.0):
        assert gaussian.at(lam) >= size**2 * 1e-6 * lam * (lam + 1) * (1 - 1e-13)
    assert group_loss(cm.PureDP(epsilon=0.25)._known().curve(), size).pure == size * 0.25


# Time and memory ------------------------------------------------------------------------------------------------------

GAUSSIAN_1 = "cm.Gaussian(noise_multiplier=1.)"
LIMITED = {
    "many releases": f"print(({GAUSSIAN_1} * 10**18 + cm.Laplace(scale=1.) * 10**18).epsilon(delta=1e-5))",
    "many samples": f"print(({GAUSSIAN_1}.poisson(rate=1e-3) * 10**12).epsilon(delta=1e-5))",
    "many draws": """
step = cm.Gaussian(noise_multiplier=2.).with_replacement(draws=10**12, population=1000)
print(step.epsilon(delta=1e-5), (step * 10).epsilon(delta=1e-5))
few = cm.Laplace(scale=2e9).with_replacement(draws=10**12, population=1000)
print(few.epsilon(delta=1e-5), (few * 10).epsilon(delta=1e-5))
""",
    "draws": f"print(({GAUSSIAN_1}.with_replacement(draws=50, population=1000) * 2).delta(epsilon=1.))",
    "draws that come up often": """
print((cm.Gaussian(noise_multiplier=200.).with_replacement(draws=49000, population=1000) * 10).epsilon(delta=1e-5))
""",
    "large groups": f"""
print(({GAUSSIAN_1}.poisson(rate=.001) * 100).group(size=10**4).epsilon(delta=1e-5))
print(cm.RenyiCurve([(2, .1), (30, 1)]).group(size=10**300).epsilon(delta=1e-5))
print(cm.ApproximateDP(epsilon=1., delta=1e-9).group(size=10**9).delta(epsilon=1.))
print(cm.ZCDP(rho=1., xi=1.).group(size=10**12).epsilon(delta=1e-5))
""",
    "trade-off": """
step = cm.Laplace(scale=.3).poisson(rate=.01, neighbors=cm.REPLACE_ONE)
print(step.true_positive_rate(false_positive_rate=.001))
""",
    "samples of samples": """
once = cm.Gaussian(noise_multiplier=8587.).poisson(rate=.5, neighbors=cm.REPLACE_ONE)
print(once.delta(epsilon=.69), once.without_replacement(batch=318, population=830).delta(epsilon=1.5))
twice = cm.ApproximateDP(epsilon=.06, delta=0.).without_replacement(batch=2, population=3)
run = cm.Laplace(scale=6.06).poisson(rate=.5) * 61 + twice.without_replacement(rate=.5, neighbors=cm.ADD_REMOVE)
print(run.epsilon(delta=2.4e-128, method="rdp"))
""",
    "samples of hardly anyone": """
step = cm.Gaussian(noise_multiplier=.384).without_replacement(rate=2e-10, neighbors=cm.ADD_REMOVE)
print((step * 6).delta(epsilon=0.))
""",
    "an interval of a sample of hardly anyone": """
step = cm.Gaussian(noise_multiplier=.384).without_replacement(rate=2e-10, neighbors=cm.ADD_REMOVE)
print(step.delta_interval(epsilon=.1))
""",
    "samples of hardly anyone, composed": """
run = cm.Gaussian(noise_multiplier=3.1).poisson(rate=6.8e-10) * 207
print(run.delta(epsilon=0.), run.delta_interval(epsilon=0.))
""",
    "a group in balls": f"""
print(({GAUSSIAN_1}.poisson(rate=.999999999999).group(size=48) * 161).delta_interval(epsilon=2.4))
""",
    "losses of every size": """
rare = cm.StatedPair(probabilities=(5e-324, 1.), neighbor_probabilities=(.725, .275))
run = cm.Laplace(scale=.9) * 3 + rare * 865350 + cm.ApproximateDP(epsilon=1.2e-6, delta=1e-300) * 9928993
print(run.epsilon_interval(delta=2.6e-14))
""",
    "no noise to speak of": """
print(cm.Gaussian(noise_multiplier=.01).without_replacement(rate=.1).sharpened().rdp(order=2))
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITED)
def test_answers_come_in_time(name: str) -> None:
    """In 10 s and 1 GB, with warnings as errors; a `CumulantError` is an answer."""
    assert within_limits(LIMITED[name].strip()) != ""


def test_a_tight_budget_is_planned_in_time() -> None:
    printed = within_limits(
        f"print(cm.max_rate(lambda rate: {GAUSSIAN_1}.poisson(rate=rate) * 1000, epsilon=1e-3, delta=1e-12))",
        seconds=90,  # seventeen questions next to where a line is too long
    )
    assert 1e-9 < float(printed) < 1e-4
