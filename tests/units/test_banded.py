"""Banded matrices on cyclic Poisson samples, against densities that are summed over all coins and played adaptively."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import erfc, exp, log, mp, mpf, quad, sqrt

import cumulant as cm
from cumulant.cyclic_poisson import PARTITIONS, CyclicPoisson
from cumulant.disjoint import Parallel
from cumulant.numerics.logspace import Array
from cumulant.sampling.poisson import PoissonSampled

PLAN: dict[str, Any] = {"batch_size": 100, "dataset_size": 10_000, "partition": "independent"}
RATE = 0.3  # of coins in small runs
SMALL: dict[str, Any] = {"noise_multiplier": 1.0, "bands": 2, "sample_rate": RATE, "partition": "independent"}
REFERENCES = {1: 1.8282366665, 2: 2.7734481392, 4: 4.1851522998}  # σ 1, 100 of 10 000, 1000 steps, δ 1e-5

Crowd = Callable[[Array], Array]
"""What all others add in the next step, by the rows of the release before it."""


@pytest.mark.parametrize("bands", REFERENCES)
def test_references(bands: int) -> None:
    run = cm.banded_dp_sgd(noise_multiplier=1.0, bands=bands, steps=1000, **PLAN)
    assert run.epsilon(delta=1e-5) == pytest.approx(REFERENCES[bands], abs=2e-10)


def exact_delta(epsilon: float, sigma: float, rate: float) -> float:
    """Return δ of one Gaussian release on a Poisson sample, the record leaving, in closed form."""
    with mp.workdps(30):
        s, q, e = mpf(sigma), mpf(rate), exp(mpf(epsilon))
        x = s * s * log((e - 1 + q) / q) + mpf(1) / 2  # where the ratio is e
        above = [erfc((x - mean) / s / sqrt(2)) / 2 for mean in (0, 1)]
        return float((1 - q) * above[0] + q * above[1] - e * above[0])


def test_one_step_of_every_part_against_a_closed_form() -> None:
    run = cm.banded_dp_sgd(**{**SMALL, "bands": 3}, steps=3)
    for epsilon in (0.1, 0.5, 1.0):
        exact = exact_delta(epsilon, 1.0, 0.3)
        assert exact <= run.delta(epsilon=epsilon) <= exact * (1 + 1e-9)


def played_delta(matrix: Array, part: int, crowd: Crowd, epsilon: float, *, sigma: float) -> float:
    """Return δ, both orders, between a record of a part and no record, by integrating the densities of CX + Z.

    Row i is Σ_j C_ij (crowd_j + coin_j), the crowd seeing the rows before, plus N(0, σ²): all of it is enumerated on a
    grid of the rows of T = 3 steps.
    """
    steps, bands = len(matrix), 2
    turns = [j for j in range(steps) if j % bands == part]
    axis = np.linspace(-7 * sigma - 5, 7 * sigma + 5, 121)
    y = np.stack(np.meshgrid(*[axis] * steps, indexing="ij"), axis=-1)
    others = np.zeros_like(y)
    for i in range(steps):
        others[..., i] = crowd(y[..., :i])
    without, joined = np.zeros(y.shape[:-1]), np.zeros(y.shape[:-1])
    for coins in itertools.product((0, 1), repeat=len(turns)):
        x = others.copy()
        for j, coin in zip(turns, coins, strict=True):
            x[..., j] += coin
        weight = math.prod(RATE if coin else 1 - RATE for coin in coins)
        density = np.exp(-np.sum((y - x @ matrix.T) ** 2, axis=-1) / (2 * sigma * sigma))
        joined += weight * density
        without = density if not any(coins) else without
    unit = (axis[1] - axis[0]) ** steps / (2 * math.pi * sigma * sigma) ** (steps / 2)
    assert np.sum(joined) * unit == pytest.approx(1.0, abs=1e-9)
    either = ((joined, without), (without, joined))
    return max(float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)) * unit) for p, q in either)


def apart(rows: Array) -> Array:
    """Stand far from where the last row was: others use what they saw."""
    return np.where(rows[..., -1] > 0.7, -1.0, 1.0) if rows.shape[-1] else np.zeros(rows.shape[:-1])


def against(rows: Array) -> Array:
    return np.asarray(-0.5 * np.clip(rows.sum(axis=-1), -1.0, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("crowd", [apart, against, lambda rows: np.zeros(rows.shape[:-1])])
@pytest.mark.parametrize("below", [0.6, -1.5, 0.0])
def test_nobody_plays_better_than_the_bound(crowd: Crowd, below: float) -> None:
    """Three steps of two bands, enumerated; the part with two turns attains the bound without a crowd, too."""
    matrix = np.array([[1.0, 0, 0], [below, 0.7, 0], [0, below, 1.0]])
    unit = float(np.max(np.linalg.norm(matrix, axis=0)))
    sigma = 1.2 * unit
    run = cm.banded_dp_sgd(**{**SMALL, "noise_multiplier": 1.2}, steps=3, matrix=matrix)
    for epsilon in (0.1, 0.6):
        found = run.delta(epsilon=epsilon)
        played = [played_delta(matrix, part, crowd, epsilon, sigma=sigma) for part in (0, 1)]
        assert max(played) <= found * (1 + 1e-3)  # of a grid with kinks
        assert max(played) >= found * (1 - 1e-3)


def test_two_steps_with_one_vector_in_both_rows() -> None:
    """T = b = 2: one coin, one vector of norm |C e_1| in two rows, is one sampled release; by mpmath along its line."""
    c, sigma, q, e = mpf("0.8"), mpf("1.3"), mpf("0.4"), exp(mpf("0.3"))
    norm = sqrt(1 + c * c)

    def gain(u: Any) -> Any:  # u: the coordinate along the vector, in standard deviations of the noise
        ratio = 1 - q + q * exp(u * norm / sigma - norm * norm / (2 * sigma * sigma))
        return max(ratio - e, mpf(0)) * exp(-u * u / 2) / sqrt(2 * mp.pi)

    kink = (log((e - 1 + q) / q) + norm * norm / (2 * sigma * sigma)) * sigma / norm
    exact = float(quad(gain, [kink, kink + 3, kink + 20]))
    plan = {**SMALL, "noise_multiplier": float(sigma / norm), "sample_rate": 0.4}
    run = cm.banded_dp_sgd(**plan, steps=2, matrix=[[1.0, 0], [0.8, 1.0]])
    assert exact * (1 - 1e-12) <= run.delta(epsilon=0.3) <= exact * (1 + 1e-8)


@pytest.mark.parametrize(("steps", "bands"), [(1, 4), (7, 4), (8, 4), (9, 4), (1001, 4), (0, 3)])
def test_the_first_part_has_a_turn_that_was_begun(steps: int, bands: int) -> None:
    run = cm.banded_dp_sgd(noise_multiplier=1.0, bands=bands, steps=steps, **PLAN)
    assert (
        sum(count for _, count in run.mechanism.releases()) == math.ceil(steps / bands) == len(range(0, steps, bands))
    )


def test_every_part_of_a_matrix_is_covered() -> None:
    """Columns of any norms: the answer is that of the worst part, each computed by itself."""
    matrix = np.tril(np.random.default_rng(5).uniform(0.2, 1.0, (11, 11)))
    matrix -= np.tril(matrix, -3)
    norms = np.linalg.norm(matrix, axis=0) / np.max(np.linalg.norm(matrix, axis=0))
    run = cm.banded_dp_sgd(**{**SMALL, "bands": 3}, steps=11, matrix=matrix)
    parts = []
    for part in range(3):
        steps = [cm.Gaussian(noise_multiplier=1 / share).poisson(rate=0.3) for share in norms[part::3]]
        parts.append(cm.Composed.of((step, 1) for step in steps).epsilon(delta=1e-4))
    assert max(parts) * (1 - 1e-9) <= run.epsilon(delta=1e-4) <= max(parts) * (1 + 1e-6)


def noise_of(step: cm.mechanisms.base.AbstractMechanism) -> float:
    assert isinstance(step, PoissonSampled)
    assert isinstance(step.mechanism, cm.Gaussian)
    return step.mechanism.noise_multiplier


def test_norms_are_rounded_up() -> None:
    """In fractions: no release has more noise than its column leaves it."""
    generator = np.random.default_rng(7)
    for _ in range(20):
        matrix = np.tril(generator.normal(size=(6, 6)) * 10.0 ** generator.integers(-9, 3))
        matrix -= np.tril(matrix, -1 - int(generator.integers(1, 3)))
        run = cm.banded_dp_sgd(**{**SMALL, "bands": 3}, steps=6, matrix=matrix)
        squares = [sum(Fraction(float(x)) ** 2 for x in column) for column in matrix.T]
        parts = [sorted((s / max(squares) for s in squares[part::3]), reverse=True) for part in range(3)]
        stated = run.mechanism.parts if isinstance(run.mechanism, Parallel) else (run.mechanism,)
        covers = [
            sorted(1 / Fraction(noise_of(step)) ** 2 for step, n in one.releases() for _ in range(n)) for one in stated
        ]
        for part in parts:
            assert any(
                len(one) >= len(part) and all(a >= b for a, b in zip(one[::-1], part, strict=False)) for one in covers
            )


def test_a_toeplitz_matrix_is_its_coefficients() -> None:
    whole = np.eye(9) + 0.5 * np.eye(9, k=-1) - 0.25 * np.eye(9, k=-2)
    plan = {**SMALL, "bands": 3, "steps": 9}
    assert cm.banded_dp_sgd(**plan, matrix=whole) == cm.banded_dp_sgd(**plan, matrix=[1.0, 0.5, -0.25])
    assert cm.banded_dp_sgd(**plan, matrix=4096 * whole) == cm.banded_dp_sgd(**plan, matrix=whole)
    longest = cm.banded_dp_sgd(**{**plan, "steps": 10**6}, matrix=[1.0, 0.5, -0.25])
    assert sum(count for _, count in longest.mechanism.releases()) == 333_334


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"matrix": [[1.0, 1.0], [0.0, 1.0]]}, "lower triangular"),
        ({"matrix": [[1.0, 0.0], [0.0, math.nan]]}, "finite"),
        ({"matrix": [[1.0, 0.0], [0.0, math.inf]]}, "finite"),
        ({"matrix": [[0.0, 0.0], [0.0, 0.0]]}, "not 0"),
        ({"matrix": [[1.0]]}, "2 by 2"),
        ({"matrix": "no"}, "array of numbers"),
        ({"matrix": [[1.0], [1.0, 2.0]]}, "array of numbers"),
        ({"matrix": [1.0, 0.5], "bands": 1}, "at most 1 bands, got 2"),
        ({"bands": 0}, "bands"),
        ({"bands": -1}, "bands"),
        ({"bands": 2.0}, "bands"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
        ({"partition": "balls"}, "partition"),
        ({"sample_rate": 1.5}, "sample_rate"),
        ({"sample_rate": None, "batch_size": 6, "dataset_size": 10}, "at most a part"),
        ({"steps": None}, "epochs or steps"),
    ],
)
def test_what_is_wrong_is_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(cm.InvalidParameter, match=word):
        cm.banded_dp_sgd(**{**SMALL, "steps": 2, **change})


def test_the_partition_decides_the_relation() -> None:
    assert cm.banded_dp_sgd(**SMALL, steps=4).neighbors is cm.ADD_REMOVE
    assert cm.banded_dp_sgd(**SMALL, steps=4, neighbors=cm.ZERO_OUT).neighbors is cm.ZERO_OUT
    equal = {**SMALL, "partition": "equal"}
    assert cm.banded_dp_sgd(**equal, steps=4).neighbors is cm.ZERO_OUT
    for plan, relation in ((equal, cm.ADD_REMOVE), (equal, cm.REPLACE_ONE), (SMALL, cm.REPLACE_ONE)):
        with pytest.raises(cm.UnprovenCombination):
            cm.banded_dp_sgd(**plan, steps=4, neighbors=relation)
    with pytest.raises(TypeError, match="partition"):
        cm.banded_dp_sgd(noise_multiplier=1.0, bands=2, sample_rate=0.1, steps=4)  # type: ignore[call-arg]


def test_a_part_of_equal_size_may_be_smaller() -> None:
    """103 records in 4 parts: 25 each, so a batch of 5 is a fifth; drawn by themselves, 20 of 103."""
    plan: dict[str, Any] = {"noise_multiplier": 1.0, "bands": 4, "batch_size": 5, "dataset_size": 103, "epochs": 1}
    rates = {}
    for partition in PARTITIONS:
        ((step, count),) = cm.banded_dp_sgd(**plan, partition=partition).mechanism.releases()
        assert isinstance(step, PoissonSampled)
        rates[partition] = step.rate
        assert count == math.ceil(math.ceil(103 / 5) / 4)
    assert Fraction(20, 103) <= Fraction(rates["independent"]) < Fraction(20, 103) + Fraction(1, 10**15)
    assert rates["equal"] == 0.2


def test_a_run_is_a_mechanism() -> None:
    run = cm.banded_dp_sgd(**SMALL, steps=5, matrix=np.diag([1.0, 0.9, 0.3, 0.8, 0.2]))
    assert isinstance(run.mechanism, Parallel)  # 1, .3, .2 against .9, .8
    assert cm.from_dict(run.to_dict()) == run
    assert (run + cm.Gaussian(noise_multiplier=9.0)).epsilon(delta=1e-5) > run.epsilon(delta=1e-5)
    assert run.group(size=2).epsilon(delta=1e-5) > run.epsilon(delta=1e-5)
    for wrong in (cm.Gaussian(noise_multiplier=1.0), cm.Laplace(scale=1.0).poisson(rate=0.1)):
        with pytest.raises(cm.UnprovenCombination, match="Poisson samples"):
            CyclicPoisson(mechanism=wrong, bands=2, steps=2, partition="independent")


def test_groups_of_one_turn_are_not_those_of_one_step() -> None:
    """Two records of different parts meet in the rows of both: what is known of groups of one step is not used."""
    once = cm.banded_dp_sgd(**SMALL, steps=2)
    assert once._known().together(2) is None
    assert once._known().attained_together(2) is None
    assert once._known().groups is None


def patterns(steps: int, most: int, apart: int) -> list[tuple[int, ...]]:
    found = [some for n in range(most + 1) for some in itertools.combinations(range(steps), n)]
    return [some for some in found if all(b - a >= apart for a, b in itertools.pairwise(some))]


@pytest.mark.parametrize(("most", "apart"), [(1, 1), (2, 3), (3, 2), (4, 1)])
def test_without_sampling_no_pattern_moves_it_further(most: int, apart: int) -> None:
    """Against every pattern and every choice of signs of one-dimensional x_i."""
    generator = np.random.default_rng(3)
    for make in (np.abs, np.asarray):
        matrix = np.tril(make(generator.normal(size=(7, 7))))
        unit = np.max(np.linalg.norm(matrix, axis=0))
        moved = max(
            float(np.linalg.norm(matrix[:, some] @ np.array(signs)))
            for some in patterns(7, most, apart)
            for signs in itertools.product((-1.0, 1.0), repeat=len(some))
        )
        run = cm.matrix_gaussian(noise_multiplier=3.0, matrix=matrix, participations=most, separation=apart)
        assert run.noise_multiplier <= 3.0 * unit / moved * (1 + 1e-15)
        assert run.noise_multiplier >= (0.5 if most > 1 else 1 - 1e-12) * 3.0 * unit / moved


def test_prefix_sums_against_their_closed_form() -> None:
    """C of ones, k participations s apart: column norms² are T - j, inner products the smaller of two."""
    steps, apart, most = 12, 4, 3
    run = cm.matrix_gaussian(
        noise_multiplier=1.0, matrix=np.tril(np.ones((steps, steps))), participations=most, separation=apart
    )
    first = [0, 4, 8]
    exact = sum(steps - max(i, j) for i in first for j in first)
    assert run.noise_multiplier == pytest.approx(math.sqrt(steps / exact), rel=1e-12)
    assert run.noise_multiplier <= math.sqrt(steps / exact)
