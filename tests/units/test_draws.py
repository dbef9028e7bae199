"""Draws with replacement: of every mechanism, by enumeration of tiny worlds, and past Theorem 10 of Balle et al."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

import brute_force as bf
import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import Neighbors
from cumulant.profiles.profile import (
    GroupProfiles,
    PrivacyProfile,
    approximate_groups,
    approximate_profile,
    binary_groups,
    black_box_groups,
    gaussian_groups,
    laplace_groups,
)
from cumulant.profiles.sampling import with_replacement_profile
from cumulant.profiles.weighted_draws import pure_with_replacement, weighted_with_replacement_profile

Array = NDArray[np.float64]
EPSILONS = [0.0, 1e-3, 0.01, 0.1, 0.3, 0.7, 1.0, 1.5, 2.5, 4.0]
FLOATS = 1e-13  # absolute: what the enumeration itself may be off by
UNIVERSE = 3


def hockey_stick(p: Array, q: Array, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def distance(one: bf.Batch, other: bf.Batch) -> int:
    """Return how many records have to be replaced."""
    return (Counter(one) - Counter(other)).total()


def exact_groups(mechanism: bf.Mechanism) -> GroupProfiles:
    """Return the profiles of groups: every pair of batches so near, in both orders."""

    @cache
    def of_size(size: int) -> PrivacyProfile:
        near = [(p, q) for (x, p), (y, q) in itertools.product(mechanism.items(), repeat=2) if distance(x, y) <= size]
        p, q = (np.array(rows) for rows in zip(*near, strict=True))

        @cache
        def log_delta(epsilon: float) -> float:
            delta = float(np.max(np.sum(np.maximum(p - math.exp(min(epsilon, 700.0)) * q, 0.0), axis=1)))
            return math.log(delta) if delta > 0 else -math.inf

        return PrivacyProfile(log_delta, float(np.max(np.log(p / q))) * (1 + 1e-15))

    return of_size


def worlds(draws: int) -> Iterator[bf.Mechanism]:
    sizes = range(draws, draws + 1)
    yield bf.membership(universe=UNIVERSE, sizes=sizes, p=0.8)
    yield bf.majority(universe=UNIVERSE, sizes=sizes, p=0.9)
    generator = np.random.default_rng(draws)
    for spread in (0.2, 1.0, 3.0):
        yield bf.random_mechanism(generator, universe=UNIVERSE, sizes=sizes, outputs=3, spread=spread)
    counted = {  # the outputs of one record, drawn so often, are k times as far apart
        batch: bf.softmax(np.array([0.0, 0.6, 1.2]) * batch.count(0)) for batch in bf.batches(UNIVERSE, draws)
    }
    yield counted


def replaced_outputs(mechanism: bf.Mechanism, draws: int, population: int) -> list[tuple[Array, Array]]:
    return [
        (bf.with_replacement(mechanism, x, draws), bf.with_replacement(mechanism, y, draws))
        for x, y in bf.replaced(UNIVERSE, population)
    ]


def added_outputs(mechanism: bf.Mechanism, draws: int, population: int) -> list[tuple[Array, Array]]:
    pairs = [
        (bf.with_replacement(mechanism, x, draws), bf.with_replacement(mechanism, y, draws))
        for x, y in bf.added(UNIVERSE, [population])
    ]
    return pairs + [(q, p) for p, q in pairs]


CASES = [(1, 3), (2, 2), (2, 4), (3, 3), (4, 2)]


@pytest.mark.parametrize(("draws", "population"), CASES)
def test_weighted_draws_hold_for_every_small_mechanism(draws: int, population: int) -> None:
    """Both relations; never above Theorem 10 by more than the chords between slopes are."""
    for mechanism in worlds(draws):
        groups = exact_groups(mechanism)
        bound = weighted_with_replacement_profile(groups, draws=draws, population=population)
        for pairs in (replaced_outputs, added_outputs):
            for p, q in pairs(mechanism, draws, population):
                for epsilon in EPSILONS:
                    assert bound.delta(epsilon) >= hockey_stick(p, q, epsilon) - FLOATS
                assert bound.pure >= float(np.max(np.log(p / q))) - FLOATS


def weights_of(draws: int, population: int) -> list[mpf]:
    n = mpf(population)
    return [mp.binomial(draws, k) * n**-k * (1 - 1 / n) ** (draws - k) for k in range(draws + 1)]


@pytest.mark.parametrize(
    ("epsilon", "draws", "population"),
    [(1.0, 10, 1000), (1.0, 100, 100), (0.1, 50, 20), (3.0, 50, 50), (1e-6, 5, 5), (0.5, 300, 1000)],
)
def test_bounded_losses_are_the_root_of_their_equation(epsilon: float, draws: int, population: int) -> None:
    """At most a little above the root, by many digits; never below what counting attains."""
    with mp.workdps(50):
        w = weights_of(draws, population)
        ratio = mp.exp(mpf(pure_with_replacement(epsilon, draws=draws, population=population)))

        def missing(r: mpf) -> mpf:
            terms = (w[k] * max(mp.exp(k * mpf(epsilon)) - r, 0) for k in range(1, draws + 1))
            return mp.fsum(terms) - w[0] * (r - 1)

        up, down = (mp.fsum(w[k] * mp.exp(k * mpf(x)) for k in range(draws + 1)) for x in (epsilon, -epsilon))
        assert missing(ratio) <= 0 or ratio >= up / down  # the other bound, which holds as well
        assert missing(1 + (ratio - 1) * (1 - mpf(10) ** -9)) > 0
        assert ratio >= up


@pytest.mark.parametrize(("draws", "population"), [(10, 1000), (30, 40), (100, 100)])
@pytest.mark.parametrize("mean", [0.3, 1.0])
def test_counts_with_gaussian_noise_are_covered(mean: float, draws: int, population: int) -> None:
    """Σ w_k N(kμ) against N(0), and N(kμ/2) against N(-kμ/2): integrals of what a count of one record releases."""
    bound = weighted_with_replacement_profile(gaussian_groups(mean), draws=draws, population=population)
    theorem = with_replacement_profile(gaussian_groups(mean), draws=draws, population=population)
    w = np.array([float(x) for x in weights_of(draws, population)])[:60]
    x = np.linspace(-30.0, 60.0, 400_001)
    k = np.arange(len(w))

    def density(shift: float) -> Array:
        total = np.zeros_like(x)
        for weight, times in zip(w, k, strict=True):
            total += weight * np.exp(-((x - shift * times) ** 2) / 2) / math.sqrt(2 * math.pi)
        return total

    none, once, half, other = density(0.0), density(mean), density(mean / 2), density(-mean / 2)
    for p, q in ((once, none), (none, once), (half, other)):
        for epsilon in (0.0, 0.1, 0.5, 2.0, 6.0):
            truth = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0))) * (x[1] - x[0])
            assert bound.delta(epsilon) >= truth * (1 - 1e-6) - 1e-13
    assert bound.epsilon(math.log(1e-9)) < theorem.epsilon(math.log(1e-9))


@pytest.mark.parametrize(
    "groups", [approximate_groups(1.0, 1e-6), binary_groups(0.7), laplace_groups(1.5), gaussian_groups(0.5)]
)
@pytest.mark.parametrize(("draws", "population"), [(10, 1000), (50, 50)])
def test_any_slopes_meet_the_condition(groups: GroupProfiles, draws: int, population: int) -> None:
    """The bound is Σ w_k δ_k(log a_k) for some a_k within the budget: no choice on a grid is better by more than 2 %.

    Weights by many digits, and a_k of the form max(t, c·s^k): a family that the search does not know of.
    """
    w = [float(x) for x in weights_of(draws, population)]
    profile = weighted_with_replacement_profile(groups, draws=draws, population=population)
    last = min(draws, 14)
    for epsilon in (0.02, 0.3, 2.0):
        t, best = math.exp(epsilon), math.inf
        for log_s in np.linspace(0.0, 3.0, 16):
            for log_c in np.linspace(-3.0, 6.0, 31):
                a = [max(epsilon, log_c + log_s * k) for k in range(1, last + 1)]
                budget = sum(w[k] * (math.exp(a[k - 1]) - t) for k in range(1, last + 1))
                if budget <= w[0] * (t - 1):
                    total = sum(w[k] * math.exp(groups(k).log_delta(a[k - 1])) for k in range(1, last + 1))
                    best = min(best, total)
        assert profile.delta(epsilon) <= best * 1.02 + sum(w[last + 1 :]) + 1e-15


def gaussian_delta(mean: mpf, epsilon: mpf) -> mpf:
    """Balle and Wang (2018), Theorem 8."""
    a = epsilon / mean - mean / 2
    return mp.ncdf(-a) - mp.exp(epsilon) * mp.ncdf(-a - mean)


@pytest.mark.parametrize("mean", [1e-9, 4e-4, 0.03, 0.49, 0.51, 3.0, 40.0, 1e3])
def test_many_gaussian_profiles_at_once_are_above_the_truth_and_hardly_more(mean: float) -> None:
    """Where δ is next to 1, in the middle, and far out; also where there is one ε, or none."""
    profile = gaussian_groups(mean)(1)
    shares, squares = np.array([[0.0, 1e-12, 0.5, 1.0, 6.0, 30.0], [0.0, 0.1, 0.5, 0.5, 0.5, 2.0]])
    epsilons = mean * shares + mean * mean * squares
    found = profile.log_deltas(epsilons)
    with mp.workdps(120):
        for epsilon, value in zip(epsilons.tolist(), found.tolist(), strict=True):
            truth = mp.log(gaussian_delta(mpf(mean), mpf(epsilon)))
            assert truth <= value <= min(truth + mpf(10) ** -11 * (1 + (epsilon / mean) ** 2), 0)
    assert profile.log_deltas(epsilons[2:3]).tolist() == found[2:3].tolist()
    assert len(profile.log_deltas(np.empty(0))) == 0


@pytest.mark.parametrize(("draws", "population"), [(1, 4), (5, 16), (12, 13), (80, 40)])
@pytest.mark.parametrize("mean", [4e-4, 0.3, 2.0])
def test_theorem_10_at_many_losses_is_the_sum_it_states(mean: float, draws: int, population: int) -> None:
    profile = with_replacement_profile(gaussian_groups(mean), draws=draws, population=population)
    epsilons = np.array([0.0, 1e-4, 0.01, 0.2, 1.0, 3.0]) * min(1.0, 10 * mean)
    with mp.workdps(60):
        w = weights_of(draws, population)
        for epsilon, found in zip(epsilons.tolist(), profile.log_deltas(epsilons).tolist(), strict=True):
            inner = mp.log(1 + (mp.exp(mpf(epsilon)) - 1) / (1 - w[0]))
            truth = mp.log(mp.fsum(w[k] * gaussian_delta(k * mpf(mean), inner) for k in range(1, draws + 1)))
            assert truth <= found <= truth + mpf(10) ** -8


@pytest.mark.parametrize(("mean", "draws", "population"), [(0.3, 2, 5), (4e-4, 12, 13), (1.0, 5, 16)])
def test_weighted_draws_of_gaussians_are_the_least_over_slopes(mean: float, draws: int, population: int) -> None:
    """With a slope for all: a_k from the normal quantile by many digits, t from the condition, no chords."""
    profile = weighted_with_replacement_profile(gaussian_groups(mean), draws=draws, population=population)
    with mp.workdps(40):
        w = weights_of(draws, population)
        for slope in ("0.4", "0.1", "1e-3", "1e-8", "1e-30"):
            z = -mp.findroot(lambda x: mp.log(mp.ncdf(x)) - mp.log(mpf(slope)), -mp.sqrt(-2 * mp.log(mpf(slope))))  # noqa: B023
            logs = [max(k * mpf(mean) * (z - k * mpf(mean) / 2), mpf(0)) for k in range(draws + 1)]
            t = 1 + mpf(10) ** -40
            for _ in range(draws + 1):  # Σ w_k (a_k - t)_+ = w_0 (t - 1) is linear between the a_k
                more = [k for k in range(1, draws + 1) if mp.exp(logs[k]) > t]
                t = (w[0] + mp.fsum(w[k] * mp.exp(logs[k]) for k in more)) / (w[0] + mp.fsum(w[k] for k in more))
            costs = (w[k] * gaussian_delta(k * mpf(mean), max(logs[k], mp.log(t))) for k in range(1, draws + 1))
            truth, found = mp.log(mp.fsum(costs)), profile.log_delta(float(mp.log(t)))
            assert truth - mpf(10) ** -9 <= found <= truth + mpf(10) ** -3


# Every mechanism ------------------------------------------------------------------------------------------------------


def stated_by(groups: GroupProfiles, pairs: bf.Pairs) -> list[AbstractMechanism]:
    """Return what the library can be told of a mechanism: (ε, δ) at some ε, its pure ε, its Rényi curve, its zCDP."""
    pure = pairs.pure() * (1 + 1e-14)
    orders = (1.25, 2.0, 4.0, 16.0)
    rho = max(pairs.renyi(1 + 2.0**j) / (1 + 2.0**j) for j in range(-20, 12)) * 1.5
    return [
        cm.ApproximateDP(epsilon=pure / 2, delta=min(1.0, groups(1).delta(pure / 2) * (1 + 1e-14))),
        cm.ApproximateDP(epsilon=0.0, delta=min(1.0, groups(1).delta(0.0) * (1 + 1e-14))),
        cm.PureDP(epsilon=pure),
        cm.RenyiCurve([*((a, pairs.renyi(a) * (1 + 1e-14)) for a in orders), (math.inf, pure)]),
        cm.ZCDP(rho=rho),
        cm.Composed.of([(cm.PureDP(epsilon=pure), 1), (cm.ApproximateDP(epsilon=0.0, delta=1e-3), 1)]),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("relation", [cm.REPLACE_ONE, cm.ADD_REMOVE])
@pytest.mark.parametrize(("draws", "population", "which"), [(2, 2, 5), (2, 4, 1), (3, 3, 3)])
def test_every_mechanism_may_be_drawn(draws: int, population: int, which: int, relation: Neighbors) -> None:
    """Theorems 10 and 11 for whatever is known: one release, by the tightest method and by Rényi DP."""
    outputs = replaced_outputs if relation is cm.REPLACE_ONE else added_outputs
    world = list(worlds(draws))[which]
    base = bf.both_directions(bf.replaced(UNIVERSE, draws), world.__getitem__)
    truth = outputs(world, draws, population)
    for known in stated_by(exact_groups(world), base):
        sampled = known.with_replacement(draws=draws, population=population, neighbors=relation)
        for epsilon in (0.05, 0.8):
            exact = max(hockey_stick(p, q, epsilon) for p, q in truth)
            assert sampled.delta(epsilon=epsilon) >= exact - FLOATS
            assert sampled.delta(epsilon=epsilon, method="rdp") >= exact - FLOATS


@pytest.mark.parametrize("which", [1, 4])
def test_two_draws_of_what_may_fail(which: int) -> None:
    """Two rounds of (ε, δ)-DP on two draws of three: pairs beside a failure, and Rényi DP beside it."""
    world = list(worlds(2))[which]
    base = bf.both_directions(bf.replaced(UNIVERSE, 2), world.__getitem__)
    truth = replaced_outputs(world, 2, 3)
    exact = max(hockey_stick(np.outer(p, p).ravel(), np.outer(q, q).ravel(), 0.8) for p, q in truth)
    run = stated_by(exact_groups(world), base)[0].with_replacement(draws=2, population=3) * 2
    assert run.delta(epsilon=0.8, method="exact") >= exact - FLOATS
    assert run.delta(epsilon=0.8, method="rdp") >= exact - FLOATS


@pytest.mark.parametrize(
    "mechanism",
    [
        cm.TruncatedCDP(rho=0.1, omega=20.0),
        cm.Laplace(scale=2.0) * 3,
        cm.Gaussian(noise_multiplier=2.0) * 4,
        cm.ExponentialFamily(distance=1.0, smoothness=0.25),
        cm.MultivariateGaussian(shift=(1.0,), covariance=((4.0,),), neighbor_covariance=((4.1,),)),
        cm.Laplace(scale=1.0).without_replacement(rate=0.1),
        cm.StatedPair(probabilities=(0.7, 0.299, 0.001), neighbor_probabilities=(0.3, 0.7, 0.0)),
        cm.ApproximateDP(epsilon=1.0, delta=1e-6) + cm.Gaussian(noise_multiplier=2.0),
    ],
    ids=repr,
)
def test_draws_reveal_no_more_than_groups(mechanism: AbstractMechanism) -> None:
    """What no sampling at all would allow: all m draws may be one record, so at most what groups of m cost."""
    one = approximate_profile(0.5, min(1.0, mechanism.delta(epsilon=0.5, method="rdp")))
    everything = black_box_groups(one)(4).log_delta(2.0)
    assert mechanism.with_replacement(draws=4, population=4).log_delta(epsilon=2.0) <= everything + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_a_renyi_curve_hold_along_random_paths(seed: int) -> None:
    """Mironov's Proposition 11: neighbours along a path of four random outputs, the curve that of the steps."""
    generator = np.random.default_rng(seed)
    path = [bf.softmax((0.3 + seed / 3) * generator.normal(size=4)) for _ in range(4)]
    steps = bf.ordered(itertools.pairwise(path))
    curve = cm.RenyiCurve(lambda order: steps.renyi(order) * (1 + 1e-14))
    for size in (2, 3):
        ends = bf.ordered([(path[i], path[i + size]) for i in range(4 - size)])
        for order in (1.2, 2.0, 5.0):
            assert curve.group(size=size).rdp(order=order) >= ends.renyi(order) * (1 - 1e-12)


def test_the_audited_example() -> None:
    """(1, 1e-6)-DP on 10 draws of 1000: Theorem 10 with black-box groups says 0.0607, weighted draws 0.0172."""
    printed = with_replacement_profile(black_box_groups(approximate_profile(1.0, 1e-6)), draws=10, population=1000)
    assert round(printed.epsilon(math.log(1e-6)), 4) == 0.0607
    mechanism = cm.ApproximateDP(epsilon=1.0, delta=1e-6)
    drawn = mechanism.with_replacement(draws=10, population=1000)
    assert round(drawn.epsilon(delta=1e-6), 4) == 0.0172
    # a batch of as many, without replacement, is (log(1 + 0.01(e-1)), 1e-8)-DP, and draws cannot cost less than most
    assert drawn.epsilon(delta=1e-6) > 0.99 * math.log1p(0.00995 * (math.e - 1))


# Bootstrap ------------------------------------------------------------------------------------------------------------

BOUNDED: list[Callable[[], AbstractMechanism]] = [
    lambda: cm.Laplace(scale=1.0),
    lambda: cm.PureDP(epsilon=1.0),
    lambda: cm.RandomizedResponse(p=0.75),
]


@pytest.mark.parametrize("build", BOUNDED)
@pytest.mark.parametrize("size", [2, 30, 1000])
def test_a_bootstrap_of_a_bounded_loss_is_bounded_by_its_mean(
    build: Callable[[], AbstractMechanism], size: int
) -> None:
    """N draws of n: at most about 2ε for ε = 1 however large n is, where Theorem 10 says nε at δ = 0."""
    mechanism = build()
    epsilon = mechanism.rdp(order=math.inf)
    bootstrap = mechanism.with_replacement(draws=size, population=size)
    assert bootstrap.epsilon(delta=0.0) <= math.exp(epsilon) - 1 + 0.6 * epsilon
    assert bootstrap.epsilon(delta=1e-6) <= bootstrap.epsilon(delta=0.0)


def test_bootstraps_compose() -> None:
    """Three of them cost no more than three times the largest loss of one, whatever the pairs say."""
    bootstrap = cm.PureDP(epsilon=1.0).with_replacement(draws=30, population=30)
    assert (bootstrap * 3).epsilon(delta=1e-9) <= 3 * bootstrap.epsilon(delta=0.0)


def test_a_bootstrap_may_cost_more_than_no_sampling() -> None:
    """Of a count with Gaussian noise it does: with probability 1/(e k!) a record counts k times."""
    noise, epsilon = cm.Gaussian(noise_multiplier=1.0), 6.0
    w = np.array([float(x) for x in weights_of(100, 100)])[:40]
    x = np.linspace(-12.0, 60.0, 200_001)
    p = sum(weight * np.exp(-((x - k) ** 2) / 2) for k, weight in enumerate(w)) / math.sqrt(2 * math.pi)
    q = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    truth = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * (x[1] - x[0]))
    bootstrap = noise.with_replacement(draws=100, population=100)
    assert noise.delta(epsilon=epsilon) < truth < bootstrap.delta(epsilon=epsilon)
    assert bootstrap.delta(epsilon=epsilon) < noise.group(size=100).delta(epsilon=epsilon)
