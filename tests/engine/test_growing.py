"""Runs that grow: lines that are added up, and bounds of few kinds, against quadrature and losses on a lattice."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb

import cumulant as cm
from cumulant.answer import EXACTLY
from cumulant.inversion.growing import GrowingEpsilon, Kinds, coarsen, is_dominated
from cumulant.inversion.rows import Rows
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.maps import Join, Leave
from cumulant.pairs.noise import GaussianNoise, LaplaceNoise
from exact_references import Bracket, removed_masses
from high_precision import Sampled, log_delta_of_samples, precision
from strategies import SLOW

Sample = tuple[float, float]
"""μ and γ."""


def delta_of_one(sample: Sample, epsilon: float, leaves: bool) -> Any:
    """Return P(L > ε) - e^ε Q(L > ε), of any sign of ε, as a ball."""
    mean, rate = map(Fraction, sample)
    return Sampled("gaussian", mean, rate, "leaving" if leaves else "joining").once(arb(epsilon))


def pair_of(sample: Sample, leaves: bool = True) -> CoordinatePair:
    return CoordinatePair(GaussianNoise(sample[0]), Leave(sample[1]) if leaves else Join(sample[1]))


# Lines that are added up ----------------------------------------------------------------------------------------------


def test_a_line_of_many_that_are_all_different() -> None:
    """Few and rare: a long line, against losses on a lattice, which enclose δ by themselves."""
    samples = [(1 / (0.8 + 0.01 * i), 0.004 + 1e-4 * i) for i in range(24)]
    log_delta = math.log(1e-5)
    growing = GrowingEpsilon(log_delta)
    for sample in samples[:13]:
        growing.add(pair_of(sample), 1)
    growing.epsilon()
    for sample in samples[13:]:
        growing.add(pair_of(sample), 1)
    epsilon = growing.epsilon()
    bracket = Bracket([(removed_masses(1 / mean, rate), 1) for mean, rate in samples], 2e-3, 16.0)
    assert bracket.below(epsilon) <= 1e-5
    assert bracket.above(epsilon * (1 - 2 * EXACTLY)) >= 1e-5


# A schedule, asked after every step -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "rate", "number"), [(1.0, 0.01, 7), (0.7, 1e-3, 4), (2.0, 0.01, 14 if SLOW else 7)])
def test_first_steps_of_a_schedule(sigma: float, rate: float, number: int) -> None:
    """Few, rare and distinct: as exact as asked anew, and never below the truth."""
    accountant, before = cm.Accountant(), 0.0
    for i in range(number):
        accountant.compose(cm.Gaussian(noise_multiplier=sigma * (1 + 1e-3 * i)).poisson(rate=rate))
        epsilon = accountant.epsilon(delta=1e-5)
        assert epsilon > before
        before = epsilon
        if i in (1, 2, number - 1):
            anew = accountant.run.guarantee(delta=1e-5)
            assert epsilon <= anew.epsilon * (1 + EXACTLY)
            assert epsilon >= anew.epsilon * (1 - EXACTLY) or not anew.exact
            assert accountant.delta(epsilon=epsilon) <= 1e-5
    assert epsilon >= accountant.run.epsilon_interval(delta=1e-5).lower


def test_a_line_is_tried_again_though_every_step_is_asked_for() -> None:
    """Questions between two tries do not put the next one off."""
    running = GrowingEpsilon(math.log(1e-5))
    for i in range(50):
        running.add(pair_of((1 / (1.0 + 1e-4 * i), 0.01)), 1)
        running.epsilon()
    assert running._line is not None


# Chernoff's bound -----------------------------------------------------------------------------------------------------


NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


def log_moment(sample: Sample, tau: float, leaves: bool) -> float:
    """Return K(τ) by one Gauss-Legendre rule on [-14, 30]."""
    t = 8 + 22 * NODES
    w = 1 - sample[1] + sample[1] * np.exp(sample[0] * t - sample[0] ** 2 / 2)
    density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    return math.log(22 * float(WEIGHTS @ (density * w ** (1 + tau if leaves else -tau))))


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [((1.0, 0.2), (0.8, 0.15), 0.25), ((0.5, 0.3), (0.7, 0.1), 0.2), ((0.3, 0.5), (0.3, 0.4), 0.3)],
)
def test_ceilings(first: Sample, second: Sample, epsilon: float, leaves: bool) -> None:
    """Nothing below the truth is claimed; what Chernoff's bound in many digits says is."""
    truth = float(log_delta_of_samples([first, second], epsilon, leaves=leaves))

    def chernoff(tau: float) -> float:
        k = log_moment(first, tau, leaves) + log_moment(second, tau, leaves)
        return tau * math.log(tau) - (1 + tau) * math.log(1 + tau) + k - tau * epsilon

    best = min(chernoff(float(tau)) for tau in np.geomspace(0.1, 20.0, 400))
    pairs, goals = tuple(pair_of(sample, leaves) for sample in (first, second)), np.array([truth, best + 0.02])

    def is_within(variance: float) -> list[bool]:
        rows = Rows(pairs, np.ones((2, 2)), np.full(2, variance))
        return list(rows.are_within(np.full(2, epsilon), goals))

    assert truth < best
    assert is_within(0.0) == [False, True]
    assert is_within(25.0) == [False, False]  # with Gaussians it is no longer true


# Releases that stand for others, and that are still to come -----------------------------------------------------------


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("sample", [(0.93, 0.01), (1.0, 0.2), (3.1, 1e-3), (0.05, 0.5)])
def test_a_pair_that_stands_for_another_dominates_it(sample: Sample, leaves: bool) -> None:
    """The profile is nowhere below, for losses of any sign; so with a larger rate."""
    pair = pair_of(sample, leaves)
    rounded = coarsen(pair)
    assert isinstance(rounded, CoordinatePair)
    assert isinstance(rounded.law, GaussianNoise)
    mean = float(rounded.law.mean)
    assert sample[0] <= mean <= sample[0] * 2.0 ** (1 / 16)
    assert is_dominated(pair, rounded)
    assert not is_dominated(pair_of((1.1 * mean, sample[1]), leaves), rounded)
    assert not is_dominated(pair_of(sample, not leaves), rounded)
    for other in ((mean, sample[1]), (mean, 1.5 * sample[1])):
        assert is_dominated(pair, pair_of(other, leaves))
        with precision():
            for epsilon in np.linspace(-1.0, 1.0, 21).tolist():
                assert delta_of_one(sample, epsilon, leaves) < delta_of_one(other, epsilon, leaves) + 1e-18


def test_other_pairs_stand_for_themselves() -> None:
    laplace = CoordinatePair(LaplaceNoise(0.5), Leave(0.1))
    assert coarsen(laplace) is laplace
    assert is_dominated(laplace, laplace)
    assert not is_dominated(laplace, pair_of((5.0, 0.1)))


def test_what_is_proven_ahead_lasts_for_releases_that_are_dominated() -> None:
    """Far from the answer the largest share is proven: an eighth of 160 releases."""
    pair, wider, worse = (pair_of((mean, 0.1), leaves=False) for mean in (1.0, 0.9, 1.5))
    kinds = Kinds(math.log(1e-5))
    kinds.add(pair, 160)
    assert not kinds.are_within(0.1, 0.0)
    kinds.add(pair, 160)  # it is not asked again for a while
    assert kinds.are_within(20.0, 0.0)
    left = kinds._left
    assert left == 40
    kinds.add(wider, 40)
    assert kinds.are_within(20.0, 0.0)
    assert kinds._left == 0
    kinds.add(wider, 1)
    assert kinds.are_within(20.0, 0.0)
    assert kinds._left == 45
    kinds.add(worse, 1)
    assert kinds.are_within(20.0, 0.0)
    assert kinds._by == coarsen(worse)


@pytest.mark.parametrize("falls", [True, False])
def test_a_side_is_never_called_smaller_than_it_is(falls: bool) -> None:
    """Joining records of a schedule, against ε on a line of their own."""
    means = np.linspace(1.0, 0.6, 240)[:: 1 if falls else -1]
    log_delta = math.log(1e-5)
    below, above, alone = (GrowingEpsilon(log_delta) for _ in range(3))
    is_said = 0
    for i, mean in enumerate(means.tolist()):
        for running in (below, above, alone):
            running.add(pair_of((mean, 0.2), leaves=False), 5)
        if i >= 100:
            truth = alone.epsilon()
            assert not below.is_at_most(truth * (1 - 1e-7))
            is_said += above.is_at_most(1.06 * truth)
    assert is_said > 100
