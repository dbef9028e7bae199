"""What the papers' texts say of their figures holds for what this library computes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cumulant import Gaussian, Laplace, RandomizedResponse
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.papers.asoodeh_2020.gaussian_composition import (
    classical_epsilon,
    classical_largest_count,
    gaussian_optimal_epsilon,
    largest_count,
    lemma2_epsilon,
)
from cumulant.sampling.poisson_theorems import poisson_fast, poisson_tight
from cumulant.sampling.without_replacement_theorems import proposition20, theorem9

HIGH_PRIVACY = [Gaussian(noise_multiplier=5.0), Laplace(scale=2.0), RandomizedResponse(p=0.6)]
LOW_PRIVACY = [Gaussian(noise_multiplier=1.0), Laplace(scale=0.5), RandomizedResponse(p=0.9)]
ORDERS = [2, 3, 5, 10, 30, 100, 300]


@pytest.mark.parametrize("mechanism", HIGH_PRIVACY + LOW_PRIVACY, ids=repr)
@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 0.5])
def test_wang_figures_3_and_5_to_7_upper_and_lower_bounds_match_up_to_a_constant(
    mechanism: AbstractMechanism, rate: float
) -> None:
    """Figures 3, 5, 6, 7: "the upper and lower bounds match up to a multiplicative constant"."""
    loss = mechanism._known().curve()
    for order in ORDERS:
        lower = proposition20(order, rate=rate, cgf=loss)
        upper = theorem9(order, rate=rate, cgf=loss)
        assert lower <= upper
        # Section 3.3: a constant (4 binary |χ|² for a ternary one) for small α, α log 1/(1-γ) + log 2 for large
        assert upper <= 4 / (1 - rate) * lower + order * -math.log1p(-rate) + math.log(2)


@pytest.mark.parametrize("mechanism", [Laplace(scale=2.0), RandomizedResponse(p=0.6)], ids=repr)
def test_wang_figure_3_bounded_losses_grow_linearly_and_then_flatten(mechanism: AbstractMechanism) -> None:
    """Figure 3: "both linear in α at the beginning, then they flatten as ε(α) approaches ε(∞)"."""
    sampled = mechanism.without_replacement(rate=0.001)
    assert sampled.rdp(order=8) / sampled.rdp(order=4) == pytest.approx(2.0, rel=0.05)
    flat = sampled.rdp(order=math.inf)
    assert sampled.rdp(order=1e6) <= flat
    assert sampled.rdp(order=1e6) >= 0.95 * flat


def test_wang_figure_3_gaussian_has_a_phase_transition_to_the_unsampled_curve() -> None:
    """Figure 3d: beyond γαe^{ε(α)} = 1 the bound joins ε(α), which does not depend on γ."""
    base, sampled = Gaussian(noise_multiplier=1.0), Gaussian(noise_multiplier=1.0).without_replacement(rate=0.001)
    assert sampled.rdp(order=4) < 1e-4 * base.rdp(order=4)
    assert sampled.rdp(order=300) == pytest.approx(base.rdp(order=300) + math.log(0.001), rel=1e-2)


def test_wang_figure_4_rdp_scales_as_the_root_and_beats_naive_composition() -> None:
    """Figure 4: √k against k, over 600,000 accesses at δ = 1e-8."""
    step = Gaussian(noise_multiplier=5.0).without_replacement(rate=0.001)
    few, many = ((step * k).epsilon(delta=1e-8) for k in (6_000, 600_000))
    assert 8 <= many / few <= 14


def test_zhu_wang_figure_5_fast_bound_approaches_the_tight_one() -> None:
    """Figure 5 of the supplement: the τ-term bound lies above the tight bound and falls to it as τ grows."""
    for mechanism in HIGH_PRIVACY + LOW_PRIVACY:
        loss = mechanism._known().curve()
        for order in (20, 100):
            tight = poisson_tight(order, rate=0.001, cgf=loss)
            fast = [poisson_fast(order, rate=0.001, cgf=loss, terms=tau) for tau in (2, 5, 10, order)]
            assert all(a >= b * (1 - 1e-12) for a, b in zip(fast, [*fast[1:], tight], strict=True))
            assert fast[-1] == pytest.approx(tight, rel=1e-9)


def test_asoodeh_figure_2_gap_is_three_quarters() -> None:
    """Figure 2: max over T <= 1000 of (23) less Lemma 2 "= 0.75" at σ = 20, δ = 1e-5; it is 0.7588."""
    gaps = [
        classical_epsilon(noise_multiplier=20, count=count, delta=1e-5)
        - lemma2_epsilon(noise_multiplier=20, count=count, delta=1e-5)
        for count in range(1, 1001)
    ]
    assert max(gaps) == pytest.approx(0.7588, abs=5e-5)


def test_asoodeh_a_hundred_more_rounds() -> None:
    """Section IV-B: "100 more iterations for any ε larger than 6"."""
    for epsilon in (6.0, 7.0, 8.0):
        budget = {"noise_multiplier": 20.0, "epsilon": epsilon, "delta": 1e-5}
        assert largest_count(**budget) - classical_largest_count(**budget) >= 100


def test_question_two_answer_is_tight() -> None:
    count = largest_count(noise_multiplier=20, epsilon=6.0, delta=1e-5)
    costs = [gaussian_optimal_epsilon(noise_multiplier=20, count=n, delta=1e-5) for n in (count, count + 1)]
    assert costs[0] <= 6.0 < costs[1]


def test_lemma_2_is_never_below_the_exact_answer() -> None:
    for count in np.unique(np.geomspace(1, 1000, 12).astype(int)).tolist():
        exact = (Gaussian(noise_multiplier=20.0) * count).epsilon(delta=1e-5, method="exact")
        lemma = lemma2_epsilon(noise_multiplier=20, count=count, delta=1e-5)
        optimal = gaussian_optimal_epsilon(noise_multiplier=20, count=count, delta=1e-5)
        assert exact <= optimal <= lemma * (1 + 1e-12)
