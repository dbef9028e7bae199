"""Functions named for theorems at the ends of the doubles: an answer or a refusal, never another error."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cumulant as cm
from cumulant.composition_theorems import naive_and_strong
from cumulant.composition_theorems.rounds import Rounds
from cumulant.curves import both_orders, conversion, divergences
from cumulant.curves.curve import Curve
from cumulant.errors import CumulantError
from cumulant.papers.asoodeh_2020 import gaussian_composition
from cumulant.papers.wang_2019 import asymptotics, theorems
from cumulant.sampling import poisson_theorems, without_replacement_theorems

Strategy = st.SearchStrategy[Any]

SIZES = [5e-324, 1e-300, 1e-160, 1e-20, 1e-3, 0.5, 1.0, 7.0, 709.0, 720.0, 1e5, 1e20, 1e154, 1e300, 1.7e308]
positive = st.sampled_from(SIZES)
nonnegative = st.just(0.0) | positive
infinite = st.just(math.inf) | nonnegative
tilt = st.sampled_from([1e-300, 1e-9, 0.1, 1.0, 7.0, 1e4, 1e9, 1e20, 1e300])
delta = st.sampled_from([0.0, 5e-324, 1e-300, 1e-5, 0.1, 0.5, 1 - 1e-9, 1 - 2.0**-53])
inner_delta = delta.filter(lambda x: x > 0)
log_delta = st.sampled_from([-math.inf, -1e300, -745.0, -11.0, -0.1, -1e-20, -5e-324])
count = st.sampled_from([0, 1, 2, 1000, 10**9, 2**62])
rate = st.sampled_from([5e-324, 1e-300, 1e-9, 0.01, 0.5, 1 - 2.0**-53])
order = st.sampled_from([2, 3, 5, 40, 300])
real_order = st.sampled_from([1 + 2.0**-52, 1.5, 2.0, 100.0, 1e20, 1e300])
rounds = st.builds(
    lambda epsilon, delta, count: Rounds(epsilon=epsilon, delta=delta, count=count),
    st.sampled_from([0.0, 1e-280, 1e-9, 0.5, 1.0, 710.0, 1e100]),
    delta,
    st.sampled_from([0, 1, 2, 1000, 10**11]),
)
CURVES: list[Curve] = [
    *(cm.Gaussian(noise_multiplier=sigma)._known().curve() for sigma in (1e-150, 1e-3, 1.0, 1e3, 1e150)),
    *(cm.Laplace(scale=scale)._known().curve() for scale in (1e-300, 0.5, 1e300)),
    cm.RenyiCurve([(2, 0.1)])._known().curve(),
    cm.PureDP(epsilon=0.0)._known().curve(),
    cm.PureDP(epsilon=700.0)._known().curve(),
]
curve = st.sampled_from(CURVES)
mechanism = st.sampled_from(
    [
        *(cm.Gaussian(noise_multiplier=sigma) for sigma in (1e-150, 1.0, 1e150)),
        *(cm.Laplace(scale=scale) for scale in (1e-300, 0.5, 1e300)),
        cm.RandomizedResponse(p=0.5),
        cm.RandomizedResponse(p=1 - 1e-16),
        cm.StatedPair(probabilities=(0.5, 0.5), neighbor_probabilities=(1e-300, 1.0)),
        cm.FamilyPair(family="poisson", natural=(1.0,), neighbor_natural=(5.0,)),
    ]
)
table = st.sampled_from([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [1e-300, 1.0], [5e-324, 1.0], [0.3, 0.7]])
whole = st.just([0, 1, 2, 3, 100])

BY_ORDER = {"order": order, "rate": rate, "cgf": curve}
TO_EPSILON = {"lam": tilt, "k": infinite, "log_delta": log_delta}
TO_DELTA = {"lam": tilt, "k": infinite, "epsilon": nonnegative}
OF_GAUSSIANS = {"noise_multiplier": positive, "count": count, "delta": inner_delta}
BUDGET = {"noise_multiplier": positive, "epsilon": positive, "delta": inner_delta}
EXPANSION = {"count": count, "epsilon": positive, "delta": inner_delta}
OF_DATA = {
    "order": real_order,
    "noise_multiplier": positive,
    "rate": rate,
    "population": st.sampled_from([3, 2**61 + 1]),
}

ARGUMENTS: dict[Callable[..., Any], dict[str, Strategy]] = {
    **{getattr(conversion, name): TO_EPSILON for name in dir(conversion) if name.endswith("_epsilon")},
    conversion.mironov_log_delta: TO_DELTA,
    conversion.canonne_kamath_steinke_log_delta: TO_DELTA,
    conversion.optimal_log_delta: TO_DELTA,
    conversion.asoodeh_rdp_lower_bound: {"lam": tilt, "epsilon": nonnegative, "log_delta": log_delta},
    conversion.optimal_rdp: {"lam": tilt, "epsilon": nonnegative, "delta": delta},
    conversion.chi: {"lam": tilt, "gamma": infinite},
    conversion.rdp_from_chi: {"lam": tilt, "chi": infinite},
    both_orders.both_orders_epsilon: TO_EPSILON,
    both_orders.both_orders_log_delta: TO_DELTA,
    both_orders.order_one_epsilon: {"kl": infinite, "log_delta": log_delta},
    both_orders.order_one_log_delta: {"kl": infinite, "epsilon": nonnegative},
    gaussian_composition.classical_epsilon: OF_GAUSSIANS,
    gaussian_composition.lemma2_epsilon: OF_GAUSSIANS,
    gaussian_composition.gaussian_optimal_epsilon: OF_GAUSSIANS,
    gaussian_composition.classical_largest_count: BUDGET,
    gaussian_composition.largest_count: BUDGET,
    gaussian_composition.classical_variance_expansion: EXPANSION,
    gaussian_composition.theorem5_variance_expansion: EXPANSION,
    asymptotics.approximate_divergence_of_constant_data: OF_DATA,
    asymptotics.approximate_divergence_of_balanced_data: OF_DATA,
    naive_and_strong.naive_composition: {"parts": st.lists(rounds, max_size=3)},
    naive_and_strong.strong_composition: {"rounds": rounds, "slack": delta},
    naive_and_strong.subsampling_lemma: {"rate": rate, "epsilon": infinite, "delta": delta},
    theorems.theorem26: {"rounds": rounds, "slack": delta},
    theorems.theorem19_of: {"mechanism": mechanism, "order": order, "rate": rate},
    theorems.pure_dp: BY_ORDER,
    theorems.theorem9_in_few_evaluations: BY_ORDER,
    poisson_theorems.poisson_tight: BY_ORDER,
    poisson_theorems.poisson_general: BY_ORDER,
    poisson_theorems.poisson_fast: BY_ORDER,
    poisson_theorems.poisson_general_fast: BY_ORDER,
    without_replacement_theorems.joint_convexity: BY_ORDER,
    without_replacement_theorems.theorem9: BY_ORDER,
    without_replacement_theorems.black_box: BY_ORDER,
    without_replacement_theorems.proposition20: BY_ORDER,
    divergences.renyi_divergence: {"p": table, "q": table, "order": st.just(math.inf) | st.just(1.0) | real_order},
    divergences.cumulant_of_pair: {"p": table, "q": table, "tilt": positive | positive.map(lambda x: -x)},
    divergences.signed_pearson_vajda: {"p": table, "q": table, "order": order},
    divergences.pearson_vajda: {"p": table, "q": table, "order": real_order},
    divergences.ternary_pearson_vajda: {"p": table, "q": table, "r": table, "order": real_order},
    divergences.hockey_stick: {"p": table, "q": table, "epsilon": infinite},
    divergences.gaussian_log_difference: {"orders": whole, "noise_multiplier": positive},
    divergences.gaussian_log_abs_moment: {"orders": whole, "noise_multiplier": positive},
    divergences.laplace_log_difference: {"orders": whole, "scale": positive},
    divergences.laplace_log_abs_moment: {"orders": whole, "scale": positive},
    divergences.binary_log_difference: {"orders": whole, "epsilon": positive},
    divergences.binary_log_abs_moment: {"orders": whole, "epsilon": positive},
    divergences.ternary_from_binary: {"log_binary": log_delta},
    divergences.difference_bound: {"log_x": log_delta, "log_y": log_delta},
    divergences.multiplicative_bound: {"log_y": log_delta, "epsilon": infinite, "order": order},
    divergences.pearson_vajda_log_delta: {"log_moment": log_delta, "order": real_order, "epsilon": positive},
    divergences.pearson_vajda_epsilon: {"log_moment": log_delta, "order": real_order, "log_delta": log_delta},
}
OTHERWISE: list[tuple[ModuleType, set[str]]] = [
    (conversion, {"log_payoff_constant", "log_delta_below_pure", "log_mean_ratio", "mean_ratio_error"}),
    (gaussian_composition, set()),
    (asymptotics, set()),
    (theorems, set()),
    (naive_and_strong, set()),
]
"""Modules of which every public function is asked, and their parts that are no theorems."""


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda function: function.__name__)
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_extreme_arguments_are_answered_or_refused(function: Callable[..., Any], data: st.DataObject) -> None:
    arguments = {name: data.draw(strategy, label=name) for name, strategy in ARGUMENTS[function].items()}
    try:
        found = function(**arguments)
    except CumulantError:
        return
    assert not np.any(np.isnan(np.asarray(found, dtype=float)))


@pytest.mark.parametrize(("module", "parts"), OTHERWISE, ids=lambda value: getattr(value, "__name__", ""))
def test_no_function_is_left_out(module: ModuleType, parts: set[str]) -> None:
    public = {
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    assert public - parts <= {function.__name__ for function in ARGUMENTS}
