"""Certified intervals and what they are made of, against integrals and sums in many digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from mpmath import mp, mpf

import cumulant as cm
from cumulant.errors import OutOfReach
from cumulant.inversion.ball_line import ball_line
from cumulant.inversion.ball_whole import GaussianInBalls
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import WorkBudget
from cumulant.inversion.plan import plan_for, tilts_for_epsilon
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.numerics.balls import as_ball, precision, upper_float
from cumulant.pairs.cache import CACHE
from cumulant.pairs.certified import ball_nodes, supremum_ball, tilted_moments
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.gaussian_mixture import GroupedGaussian
from cumulant.pairs.maps import Join
from cumulant.pairs.noise import GaussianNoise
from sampled_pairs import (
    added_gaussian,
    added_laplace,
    envelope_gaussian,
    envelope_laplace,
    removed_gaussian,
    removed_laplace,
    replaced_gaussian,
)
from strategies import SLOW

BITS = 160
FAR = (
    cm.ApproximateDP(epsilon=4.6e-7, delta=0.0).without_replacement(rate=0.0048) * 8
    + cm.Gaussian(noise_multiplier=4.4).poisson(rate=6.6e-6, neighbors=cm.REPLACE_ONE) * 18
)  # seconds for an interval
Integrand = Callable[[Any, Any], Any]  # (t, z) -> density of P times e^{zL}


# Moments as balls -----------------------------------------------------------------------------------------------------


def w_gaussian(t: Any, mean: float, rate: float, size: int = 1) -> Any:
    m, r = mpf(mean), mpf(rate)
    return mp.fsum(
        mp.binomial(size, j) * r**j * (1 - r) ** (size - j) * mp.exp(j * m * t - (j * m) ** 2 / 2)
        for j in range(size + 1)
    )


def w_laplace(t: Any, rate: float) -> Any:
    return 1 - mpf(rate) + mpf(rate) * mp.exp(t)


def gaussian_moment(integrand: Integrand, z: Any, low: float, high: float) -> Any:
    """On the whole line by the trapezoidal rule, from 0 by pieces: both to 35 digits for these integrands."""
    if low < 0:
        h = mpf("0.15")
        points = [h * k for k in range(int(low / h), int(high / h) + 1)]
        return h * mp.fsum(mp.npdf(t) * integrand(t, z) for t in points)
    ends = mp.linspace(low, high, 1 + int((high - low) / 1.5))
    return mp.quad(lambda t: mp.npdf(t) * integrand(t, z), ends, method="gauss-legendre", maxdegree=4)


def laplace_moment(theta: float, rate: float, z: Any, *, leaves: bool, start: float) -> Any:
    """The density e^{-(t+θ)/2}/4 of Q on [start, θ], and atoms at ±θ."""

    def value(t: Any) -> Any:
        w = w_laplace(t, rate)
        return w ** (z + 1) if leaves else w**-z

    inside = mp.quad(
        lambda t: mp.exp(-(t + theta) / 2) / 4 * value(t), [start, theta], method="gauss-legendre", maxdegree=5
    )
    atom = mp.exp(-mpf(theta)) / 2 * value(mpf(theta))
    return inside + atom + (value(-mpf(theta)) / 2 if start < 0 else 0)


def moments() -> Iterator[Any]:
    """Pairs with M(z), written from the definition of each."""
    m, r = 0.8, 0.03
    yield pytest.param(
        removed_gaussian(m, r),
        lambda z: gaussian_moment(lambda t, z: w_gaussian(t, m, r) ** (z + 1), z, -16, 26),
        id="leaves",
    )
    yield pytest.param(
        added_gaussian(m, 0.4),
        lambda z: gaussian_moment(lambda t, z: w_gaussian(t, m, 0.4) ** -z, z, -20, 16),
        id="joins",
    )
    yield pytest.param(
        removed_gaussian(0.5, 0.1, 3),
        lambda z: gaussian_moment(lambda t, z: w_gaussian(t, 0.5, 0.1, 3) ** (z + 1), z, -16, 28),
        id="a group leaves",
    )
    yield pytest.param(
        replaced_gaussian(m, 0.2),
        lambda z: gaussian_moment(
            lambda t, z: w_gaussian(t, m, 0.2) ** (z + 1) * w_gaussian(-t, m, 0.2) ** -z, z, -16, 28
        ),
        id="replaced",
    )

    def envelope(z: Any) -> Any:
        up = gaussian_moment(lambda t, z: w_gaussian(t, m, 0.2) ** (z + 1), z, m / 2, 26)
        down = gaussian_moment(lambda t, z: w_gaussian(t, m, 0.2) ** -z, z, m / 2, 20)
        return up + down + (1 - mpf(0.2)) * (1 - 2 * mp.ncdf(-mpf(m) / 2))

    yield pytest.param(envelope_gaussian(m, 0.2), envelope, id="envelope")
    yield pytest.param(
        removed_laplace(2.0, 0.1), lambda z: laplace_moment(2.0, 0.1, z, leaves=True, start=-2.0), id="Laplace leaves"
    )
    yield pytest.param(
        added_laplace(2.0, 0.1), lambda z: laplace_moment(2.0, 0.1, z, leaves=False, start=-2.0), id="Laplace joins"
    )

    def laplace_envelope(z: Any) -> Any:
        halves = [laplace_moment(2.0, 0.1, z, leaves=leaves, start=0.0) for leaves in (True, False)]
        return mp.fsum(halves) + (1 - mpf(0.1)) * -mp.expm1(-mpf(1))

    yield pytest.param(envelope_laplace(2.0, 0.1), laplace_envelope, id="Laplace envelope")


@pytest.mark.parametrize("theta", [0.5, 6.0])
@pytest.mark.parametrize(("pair", "moment"), list(moments()))
def test_balls_hold_the_moments(pair: CoordinatePair, moment: Callable[[Any], Any], theta: float) -> None:
    """Quadrature, its proven error, pieces left out, atoms: at real and complex points."""
    count, step = 3, 2.5
    with mp.workdps(40):
        exact = [moment(mp.mpc(theta, step * j)) for j in range(count)]
        k = float(mp.log(exact[0].real))
        with precision(BITS):
            nodes = ball_nodes(pair, theta, step * (count - 1), k, bits=BITS)
            balls = tilted_moments(nodes, theta, k, step=as_ball(step), count=count)
        for ball, value in zip(balls, exact, strict=True):
            scaled = value * mp.exp(-mpf(k))
            for part, number in ((ball.real, scaled.real), (ball.imag, scaled.imag)):
                middle, radius = mpf(str(part.mid().str(45, radius=False))), mpf(float(part.rad()))
                assert abs(middle - number) <= radius * (1 + mpf(10) ** -8) + mpf(10) ** -36


@pytest.mark.parametrize(
    "pair",
    [
        envelope_gaussian(7.3, 1e-12),
        envelope_gaussian(10.0, 1e-9),
        envelope_laplace(14.5, 1e-6),
        removed_laplace(30.0, 0.3),
        removed_laplace(100.0, 0.5),
        added_laplace(3.0, 1e-9),
    ],
    ids=repr,
)
def test_masses_add_up_to_one_within_their_radii(pair: CoordinatePair) -> None:
    """Atoms and branches from the parameters: also where log-masses cancel."""
    theta = 2.0**-30  # so small a tilt leaves out nothing of P, and M(θ) is 1 to 1e-6
    with precision(BITS):
        nodes = ball_nodes(pair, theta, 0.0, 0.0, bits=BITS)
        total = sum(nodes.weights, as_ball(0.0)) + as_ball(0.0, 2 * upper_float(nodes.error) + 1e-30)
        assert total.contains(1)


# Intervals ------------------------------------------------------------------------------------------------------------


def binary_delta(p: Any, q: Any, count: int, epsilon: float) -> Any:
    """Return δ(ε) of independent releases with two outputs: P has p, Q has q on the first, p > q."""
    up, down = mp.log(p / q), mp.log((1 - p) / (1 - q))
    first = max(0, int(mp.floor((epsilon - count * down) / (up - down))))
    total, term = mpf(0), mp.binomial(count, first) * p**first * (1 - p) ** (count - first)
    for k in range(first, count + 1):
        total += term * max(1 - mp.exp(epsilon - k * up - (count - k) * down), mpf(0))
        term *= mpf(count - k) / (k + 1) * p / (1 - p)
        if k > count * p and term < total * mpf(10) ** -45:
            break
    return total


def sampled_delta(p: float, rate: float, count: int, epsilon: float) -> Any:
    """Return δ(ε) of sampled randomized response, the larger of both orders."""
    a, g = mpf(p), mpf(rate)
    b = 1 - a
    leaves = binary_delta((1 - g) * b + g * a, b, count, epsilon)
    joins = binary_delta(a, (1 - g) * a + g * b, count, epsilon)
    return max(leaves, joins)


@pytest.mark.parametrize(
    ("p", "rate", "count", "epsilon"),
    [
        (0.75, 1.0, 10, 1.1),
        (0.75, 1.0, 10, 8.0),
        (0.51, 1.0, 1000, 6.38),
        (0.5003, 1.0, 10**7, 24.59),  # more points than one lattice sum takes: cut
        (0.9, 0.01, 100, 0.6),
        (0.9, 1e-4, 10**4, 0.098),
        (0.999, 0.3, 3, 2.0),
        (1 - 1e-12, 1e-13, 1, 0.05),
    ],
)
def test_intervals_hold_sums_over_all_outcomes(p: float, rate: float, count: int, epsilon: float) -> None:
    step = cm.RandomizedResponse(p=p)
    run = (step if rate == 1 else step.poisson(rate=rate)) * count
    interval = run.delta_interval(epsilon=epsilon)
    with mp.workdps(50):
        exact = sampled_delta(p, rate, count, epsilon)
        assert interval.lower <= exact <= interval.upper
        assert run.delta(epsilon=epsilon, method="exact") >= exact


@pytest.mark.parametrize(("p", "rate", "count", "delta"), [(0.75, 1.0, 30, 1e-6), (0.9, 0.01, 200, 1e-5)])
def test_epsilon_intervals_hold_the_root(p: float, rate: float, count: int, delta: float) -> None:
    step = cm.RandomizedResponse(p=p)
    run = (step if rate == 1 else step.poisson(rate=rate)) * count
    interval = run.epsilon_interval(delta=delta)
    with mp.workdps(50):
        assert sampled_delta(p, rate, count, interval.upper) <= mpf(delta)
        assert sampled_delta(p, rate, count, interval.lower) >= mpf(delta)


def test_nothing_but_attained_pairs_bounds_from_below_at_delta_zero() -> None:
    """Under replace-one the envelope of groups of two is not attained; what is attained is one record that leaves."""
    run = cm.Laplace(scale=1.0).poisson(rate=0.3, neighbors=cm.REPLACE_ONE)
    interval = run.epsilon_interval(delta=0.0)
    with mp.workdps(40):
        r = mpf(0.3)
        replaced = mp.log(
            (1 - r + r * mp.e) / (1 - r + r / mp.e)
        )  # noise around +1 against noise around -1, to the right of both
        assert interval.lower <= replaced <= interval.upper


@pytest.mark.parametrize("p", [1 - 1e-15, 1 - 2**-52])
@pytest.mark.parametrize("rate", [1e-16, 1e-18])
def test_masses_near_the_rounding_still_get_an_answer(p: float, rate: float) -> None:
    """Radii eat the value: the interval is wide, or from 0 to inf, but an interval."""
    run = cm.RandomizedResponse(p=p).poisson(rate=rate)
    with mp.workdps(50):
        exact = sampled_delta(p, rate, 1, 1e-3)
        interval = run.epsilon_interval(delta=float(exact))
        assert interval.lower <= 1e-3 * (1 + 1e-6)
        assert interval.upper >= 1e-3 * (1 - 1e-6)


def gaussian_delta(mean: Any, epsilon: Any) -> Any:
    """Balle and Wang (2018), Theorem 5, without overflow."""
    return (
        mp.erfc((epsilon / mean - mean / 2) / mp.sqrt(2))
        - mp.exp(epsilon) * mp.erfc((epsilon / mean + mean / 2) / mp.sqrt(2))
    ) / 2


@pytest.mark.parametrize(
    ("sigma", "epsilon"),
    [
        (1.0, 0.0),
        (1.0, 3.0),
        (3.0, 1.0),
        (0.05, 10.0),
        (50.0, 0.5),
        (1e20, 0.0),
        (1e60, 0.0),
        (1e150, 0.0),
        (1e200, 0.0),
    ],
)
def test_the_closed_form_of_gaussians(sigma: float, epsilon: float) -> None:
    interval = cm.Gaussian(noise_multiplier=sigma).delta_interval(epsilon=epsilon)
    with mp.workdps(450):
        exact = gaussian_delta(1 / mpf(sigma), mpf(epsilon))
        assert interval.lower <= exact <= interval.upper
        assert interval.lower >= exact * (1 - mpf(10) ** -10)


def test_far_out_the_closed_form_needs_no_more_bits() -> None:
    """δ = e^{-5·10⁷}: as a logarithm, and in no time."""
    low, high = GaussianInBalls(1e-4).log_bounds(1.0)
    with mp.workdps(60):
        exact = mp.log(gaussian_delta(mpf(1e-4), mpf(1)))
        assert low <= exact <= high


@pytest.mark.parametrize(
    "mechanism",
    [cm.Gaussian(noise_multiplier=1.0), cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 2],
    ids=["closed form", "contour"],
)
def test_a_delta_that_underflows_is_not_zero(mechanism: Any) -> None:
    """No δ below the supremum of the loss is 0, though no double holds it."""
    assert mechanism.delta_interval(epsilon=60.0).upper > 0


@pytest.mark.parametrize("count", [1, 9, 308])
@pytest.mark.parametrize(
    ("scale", "rate"),
    [(3.2211122678751263, 0.00020987219148392095), (0.23876638861276855, 4.06432150205229e-05), (0.7, 0.3)],
)
def test_the_largest_loss_is_rounded_up(scale: float, rate: float, count: int) -> None:
    run = cm.Laplace(scale=scale).poisson(rate=rate) * count
    interval = run.epsilon_interval(delta=0.0)
    with mp.workdps(50):
        exact = count * mp.log1p(mpf(rate) * mp.expm1(1 / mpf(scale)))
        assert interval.upper >= exact
        assert interval.lower <= exact
        assert run.epsilon(delta=0.0) >= exact
        just_below = math.nextafter(float(exact), 0.0)
        if just_below < exact:
            assert run.delta_interval(epsilon=just_below).upper > 0


@pytest.mark.parametrize(
    ("pair", "least"),
    [
        (added_gaussian(0.8, 0.3), lambda: 1 - mpf(0.3)),
        (CoordinatePair(GroupedGaussian(0.7, 0.2, 3), Join(0.5)), lambda: mpf(0.5) + mpf(0.5) * (1 - mpf(0.2)) ** 3),
        (CoordinatePair(CutLaw(GaussianNoise(1.0), 7.0, 3.0), Join(1e-9)), lambda: 1 - mpf(1e-9)),
    ],
    ids=["joins", "a group joins", "cut off"],
)
def test_the_largest_loss_of_a_record_that_joins_is_a_ball(pair: CoordinatePair, least: Callable[[], Any]) -> None:
    """No double stands for it: w falls to the share of what lies where Q does, and no farther."""
    ball = supremum_ball(pair, BITS)
    assert ball is not None
    with mp.workdps(60):
        exact = -mp.log(least())
        middle, radius = mpf(str(ball.mid().str(58, radius=False))), mpf(float(ball.rad()))
        assert abs(middle - exact) <= radius + mpf(10) ** -55
        assert radius <= mpf(10) ** -40


def test_an_epsilon_beyond_the_largest_double_is_infinite() -> None:
    interval = cm.Gaussian(noise_multiplier=1e-200).epsilon_interval(delta=1e-5)
    assert interval.certified
    assert interval.upper == math.inf


def test_balls_without_a_value_prove_nothing() -> None:
    """An indeterminate sum must not come out as an upper bound of log 0."""
    from flint import acb

    run = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1) * 50
    directions = run._known().directions(run.neighbors)
    assert directions is not None
    losses = ComposedPairs.of(directions[0])
    tilts = tilts_for_epsilon(losses, 1.0)
    assert tilts is not None
    bounds = ball_line(losses, plan_for(tilts), WorkBudget())
    broken = replace(bounds, moments=[*bounds.moments[:-1], acb("nan")])
    assert broken.log_bounds(1.0)[1] > bounds.log_bounds(1.0)[0]


@pytest.mark.parametrize(
    ("sigma", "rate", "count"), [(1.0, 0.01, 100), (1.0, 1e-4, 10**8), (5.0, 1e-3, 10**8), (3.3, 1e-6, 10**13)]
)
def test_plain_answers_are_not_below_certified_ones(sigma: float, rate: float, count: int) -> None:
    """Rounding of K is multiplied by the count; the plain answer has to know."""
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    epsilon = run.epsilon(delta=1e-5, method="exact")
    assert run.delta_interval(epsilon=epsilon).lower <= 1e-5


# What an interval may take --------------------------------------------------------------------------------------------


def test_a_work_budget_is_spent_for_good() -> None:
    budget = WorkBudget(10.0)
    budget.pay(10.0)
    for _ in range(2):
        with pytest.raises(OutOfReach):
            budget.pay(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        cm.Gaussian(noise_multiplier=1.6).poisson(rate=5e-4) * 171,
        *([FAR] if SLOW else []),
    ],
)
def test_an_interval_does_not_depend_on_what_was_asked_before(run: AbstractMechanism) -> None:
    CACHE.clear()
    first = run.delta_interval(epsilon=0.05)
    assert run.delta_interval(epsilon=0.05) == first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [(0.8557, 1.822e-4, 801, 2.7e-7), (1.608, 5.13e-4, 171, 2.2e-11), (1.3965, 4.37e-3, 221, 3.04e-5)],
)
def test_few_sampled_releases_are_certified(sigma: float, rate: float, count: int, delta: float) -> None:
    """Far losses are cut there, and decay has to be proven beside the cut."""
    interval = (cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count).epsilon_interval(delta=delta)
    assert interval.certified
    assert interval.width <= 1e-9 * interval.upper


def test_where_no_line_is_affordable_chernoffs_bound_is_the_upper_end() -> None:
    """Rényi DP says 1.5e-122 there; no line in balls or doubles says anything."""
    interval = FAR.delta_interval(epsilon=0.57)
    assert interval.certified
    assert FAR.delta(epsilon=0.57, method="rdp") / 10 <= interval.upper <= 1e-100
