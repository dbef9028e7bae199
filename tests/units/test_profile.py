"""Privacy profiles against many digits, and the sampling theorems against every subsample of tiny datasets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from cumulant.curves.curve import Curve
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.pairs.atoms import Binary
from cumulant.pairs.finite_pair import FinitePair, finite_pair
from cumulant.profiles.finite import finite_profile
from cumulant.profiles.from_curve import profile_from_knots, profile_from_orders
from cumulant.profiles.multiplicity import Multiplicity
from cumulant.profiles.profile import (
    GroupProfiles,
    PrivacyProfile,
    approximate_profile,
    binary_groups,
    binary_profile,
    black_box_groups,
    gaussian_groups,
    gaussian_log_delta,
    gaussian_profile,
    group_profile,
    laplace_groups,
    laplace_profile,
    larger_profile,
    profile_from_cgf,
    profile_from_loss_tails,
)
from cumulant.profiles.sampling import (
    advanced_joint_convexity,
    amplified_epsilon,
    base_epsilon,
    coupling_profile,
    gaussian_place,
    hybrid_with_replacement_profile,
    joint_convexity_bound,
    poisson_profile,
    replaced_profile,
    with_replacement_profile,
    without_replacement_profile,
)
from cumulant.profiles.to_curve import cgf_from_profile
from cumulant.profiles.weighted_draws import weighted_with_replacement_profile
from cumulant.sampling.membership import RandomizedMembership

Array = NDArray[np.float64]
Dataset = tuple[int, ...]
Mechanism = dict[Dataset, Array]
EPSILONS = [0.0, 1e-6, 0.01, 0.1, 0.3, 0.7, 1.0, 1.5, 2.5, 4.0]
ORDERS = np.array([1.1, 1.5, 2.0, 3.0, 7.5, 32.0, 200.0])
ROUNDING = 1e-13  # of sums of a few doubles; the bounds themselves are raised by less


# References --------------------------------------------------------------------------------------


def mp_gaussian_log_delta(mu: float, epsilon: float) -> Any:
    """Return Theorem 4 as printed, with digits to spare for its cancellation."""
    a = abs(mpf(epsilon) / mpf(mu) - mpf(mu) / 2)
    with mp.workdps(int(60 + a * a / 4 + 20 * abs(math.log10(mu)))):
        theta, e = mpf(mu), mpf(epsilon)
        value = mp.ncdf(theta / 2 - e / theta) - mp.exp(e) * mp.ncdf(-theta / 2 - e / theta)
        return mp.log(value)


def divergence(p: Array, q: Array, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def gaussian_cgf(mean: float) -> Curve:
    return Curve(log_moment=lambda lam: 0.5 * lam * (lam + 1) * mean**2, kl=0.5 * mean**2)


def mp_laplace_cgf(theta: float, lam: float) -> Any:
    x, t = mpf(lam), mpf(theta)
    return mp.log(((x + 1) * mp.exp(x * t) + x * mp.exp(-(x + 1) * t)) / (2 * x + 1))


def mp_binary_cgf(epsilon: float, lam: float) -> Any:
    return mp.log(mp.cosh((mpf(lam) + mpf(1) / 2) * mpf(epsilon)) / mp.cosh(mpf(epsilon) / 2))


# Base profiles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 0.49, 0.51, 1.0, 3.0, 12.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.01, 0.5, 2.0, 10.0, 90.0])
def test_gaussian_is_the_closed_form_rounded_up(mu: float, epsilon: float) -> None:
    """Theorem 4."""
    if epsilon / mu > 30:
        epsilon = 30 * mu  # the reference needs digits for e^{-a²/2}
    exact = mp_gaussian_log_delta(mu, epsilon)
    a = epsilon / mu - mu / 2
    excess = mpf(gaussian_log_delta(mu, epsilon)) - exact
    assert 0 <= excess <= 1e-12 * (1 + a * a)


def test_gaussian_never_reaches_zero() -> None:
    assert gaussian_profile(1e-3).log_delta(1e200) > -math.inf
    assert gaussian_profile(1.0).delta(1000.0) == 5e-324
    assert gaussian_profile(0.0).delta(0.0) == 0.0
    assert gaussian_log_delta(math.inf, 1.0) == 0.0


@pytest.mark.parametrize("theta", [0.01, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9, 0.999])
def test_laplace_is_the_integral_of_the_densities(theta: float, fraction: float) -> None:
    """Theorem 3: the positive part of the densities' difference, integrated."""
    epsilon = fraction * theta
    with mp.workdps(30):
        t, e = mpf(theta), mpf(epsilon)
        kink = (t + e) / 2  # where |x| - |x-θ| = ε
        exact = mp.quad(lambda x: (mp.exp(-abs(x - t)) - mp.exp(e - abs(x))) / 2, [kink, t, t + 5, t + 100])
    assert 0 <= laplace_profile(theta).delta(epsilon) / exact - 1 <= 1e-13
    assert laplace_profile(theta).delta(theta) == 0.0


@pytest.mark.parametrize("epsilon0", [1e-9, 0.1, 1.0, 30.0, 800.0])
@pytest.mark.parametrize("fraction", [0.0, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("delta0", [0.0, 1e-12, 0.3])
def test_binary_and_approximate_from_their_outcomes(epsilon0: float, fraction: float, delta0: float) -> None:
    """Randomized response, with a third outcome that gives all away."""
    epsilon = fraction * epsilon0
    with mp.workdps(400):
        likely = mp.exp(mpf(epsilon0)) / (1 + mp.exp(mpf(epsilon0)))
        exact = mpf(delta0) + (1 - mpf(delta0)) * (likely - mp.exp(mpf(epsilon)) * (1 - likely))
        assert 0 <= approximate_profile(epsilon0, delta0).delta(epsilon) / exact - 1 <= 1e-13
    if delta0 == 0:
        assert approximate_profile(epsilon0, 0.0).pure == binary_profile(epsilon0).pure == epsilon0


def test_loss_tails_give_the_profile() -> None:
    """Theorem 5 with the tails of the Gaussian's loss, N(μ²/2, μ²)."""
    mu = 0.8

    def tail(epsilon: float) -> float:
        return float(mp.ncdf((mpf(mu) ** 2 / 2 - epsilon) / mu))

    def reverse_tail(epsilon: float) -> float:
        return float(mp.ncdf((-epsilon - mpf(mu) ** 2 / 2) / mu))

    profile = profile_from_loss_tails(tail, reverse_tail)
    for epsilon in EPSILONS:
        exact = float(mp.exp(mp_gaussian_log_delta(mu, epsilon)))
        assert -1e-16 <= profile.delta(epsilon) - exact <= 4e-15  # 16 units in the last place of a probability


@pytest.mark.parametrize("profile", [gaussian_profile(0.7), laplace_profile(2.0), approximate_profile(1.0, 1e-6)])
@pytest.mark.parametrize("log_delta", [-1e-3, -0.5, -3.0, -13.0])
def test_epsilon_is_safe_and_the_smallest(profile: PrivacyProfile, log_delta: float) -> None:
    epsilon = profile.epsilon(log_delta)
    assert profile.log_delta(epsilon) <= log_delta
    assert epsilon == 0 or profile.log_delta(epsilon * (1 - 1e-12)) > log_delta


def test_epsilon_at_the_ends() -> None:
    assert laplace_profile(2.0).epsilon(-math.inf) == 2.0
    assert gaussian_profile(1.0).epsilon(-math.inf) == math.inf
    assert approximate_profile(1.0, 0.1).epsilon(math.log(0.05)) == math.inf
    assert gaussian_profile(1.0).epsilon(0.0) == 0.0
    assert larger_profile(laplace_profile(1.0), laplace_profile(2.0)).epsilon(-math.inf) == 2.0


# Groups ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 5])
def test_black_box_groups_hold_along_random_paths(size: int) -> None:
    """Footnote 5: random chains of distributions; the profile of one step is the worst over the chain."""
    rng = np.random.default_rng(size)
    for _ in range(200):
        chain = rng.dirichlet(np.full(3, 0.7), size=size + 1)

        def one_step(epsilon: float, chain: Array = chain) -> float:
            return log(
                max(max(divergence(p, q, epsilon), divergence(q, p, epsilon)) for p, q in itertools.pairwise(chain))
            )

        group = group_profile(PrivacyProfile(one_step), size)
        for epsilon in EPSILONS:
            truth = max(divergence(chain[0], chain[-1], epsilon), divergence(chain[-1], chain[0], epsilon))
            assert truth <= group.delta(epsilon) * (1 + ROUNDING) + 1e-16


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 0.4, 3.0, 900.0])
def test_black_box_groups_are_the_formula(size: int, epsilon: float) -> None:
    profile = laplace_profile(1.0)
    with mp.workdps(50):
        e = mpf(epsilon)
        steps = mp.expm1(e) / mp.expm1(e / size) if e else mpf(size)
        exact = min(mpf(1), steps * max(mpf(0), 1 - mp.exp((e / size - 1) / 2)))
    assert exact <= group_profile(profile, size).delta(epsilon) <= exact * (1 + 1e-11)


def test_white_box_groups_are_the_mechanism_at_k_times_the_sensitivity() -> None:
    for size in (1, 2, 9):
        for epsilon in EPSILONS:
            assert gaussian_groups(0.1)(size).delta(epsilon) == pytest.approx(
                gaussian_profile(0.1 * size).delta(epsilon), rel=1e-12
            )
            for white, black in (
                (gaussian_groups(0.1), black_box_groups(gaussian_profile(0.1))),
                (laplace_groups(0.3), black_box_groups(laplace_profile(0.3))),
                (binary_groups(0.3), black_box_groups(binary_profile(0.3))),
            ):
                assert white(size).delta(epsilon) <= black(size).delta(epsilon) * (1 + 1e-12)


# Theorem 6 ---------------------------------------------------------------------------------------


def check_cgf(cgf: Curve, exact: Callable[[float], Any], orders: Array, excess: float) -> None:
    values = cgf(orders - 1)
    for order, value in zip(orders.tolist(), values.tolist(), strict=True):
        assert 0 <= mpf(value) / exact(order - 1) - 1 <= excess


@pytest.mark.parametrize("mean", [1e-5, 0.01, 0.07, 0.5, 1.0, 5.0])
def test_gaussian_moments_from_the_profile(mean: float) -> None:
    """With a ceiling that is more than twice too high, so that it decides the tail alone."""
    cgf = cgf_from_profile(gaussian_profile(mean), ceiling=gaussian_cgf(1.5 * mean))
    check_cgf(cgf, lambda lam: mpf(lam) * (mpf(lam) + 1) * mpf(mean) ** 2 / 2, ORDERS, 1e-4)
    assert 0 <= cgf.kl / (0.5 * mean**2) - 1 <= 1e-4
    assert cgf.pure == math.inf


@pytest.mark.parametrize("theta", [1e-5, 0.01, 0.5, 3.0, 30.0])
def test_laplace_moments_from_the_profile(theta: float) -> None:
    cgf = cgf_from_profile(laplace_profile(theta))
    with mp.workdps(40):
        check_cgf(cgf, lambda lam: mp_laplace_cgf(theta, lam), ORDERS, 1e-4)
        assert 0 <= cgf.kl / (mpf(theta) - 1 + mp.exp(-mpf(theta))) - 1 <= 1e-4
    assert cgf.pure == theta
    assert not cgf.exact


@pytest.mark.parametrize("epsilon0", [1e-8, 0.01, 1.0, 40.0])
def test_chords_are_exact_where_the_profile_is_a_chord(epsilon0: float) -> None:
    """Randomized response's divergence is linear in e^ε, so only the closed forms of the weights are at work."""
    orders = 1 + np.array([1e-9, 1e-4, 0.1, 0.9999999, 1.0, 1.0000001, 2.0, 30.0, 1e3, 1e5])
    cgf = cgf_from_profile(binary_profile(epsilon0))
    with mp.workdps(60):
        check_cgf(cgf, lambda lam: mp_binary_cgf(epsilon0, lam), orders, 1e-11)
        assert 0 <= cgf.kl / (mpf(epsilon0) * mp.tanh(mpf(epsilon0) / 2)) - 1 <= 1e-12


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5])
def test_sampled_moments_hold_for_the_mixture(rate: float) -> None:
    """Poisson-sampled Laplace: both orders of the mixture pair, integrated directly, lie below."""
    theta, base = 1.0, laplace_profile(1.0)
    cgf = cgf_from_profile(poisson_profile(base, rate=rate), ceiling=cgf_from_profile(base))

    def moment(lam: float, sign: int) -> Any:
        def integrand(x: Any) -> Any:
            q = mp.exp(-abs(x)) / 2
            r = 1 - rate + rate * mp.exp(abs(x) - abs(x - theta))
            return q * r ** (1 + lam) if sign > 0 else q * r ** (-lam)

        return mp.log(mp.quad(integrand, [-60, 0, theta / 2, theta, 60]))

    for order in (1.5, 2.0, 8.0):
        lam = order - 1
        remove = moment(lam, 1)
        assert max(remove, moment(lam, -1)) <= cgf.at(lam) <= float(mp_laplace_cgf(theta, lam))
        assert cgf.at(lam) <= 2 * remove  # the two orders are nearly alike, and δ counts for both


def test_moments_need_an_end() -> None:
    with pytest.raises(UnprovenCombination, match="ceiling"):
        cgf_from_profile(gaussian_profile(1.0))
    with pytest.raises(UnprovenCombination, match="ceiling"):
        cgf_from_profile(
            approximate_profile(1.0, 0.1), ceiling=Curve(log_moment=lambda lam: lam, kl=1.0, pure=1.0, failure=0.1)
        )
    nothing = cgf_from_profile(binary_profile(0.0))
    assert nothing.at(3.0) == nothing.kl == 0.0


def test_the_way_back_goes_through_a_conversion() -> None:
    """Mironov's K - λε at λ = 1."""
    profile = profile_from_cgf(gaussian_cgf(0.5), lambda cgf, epsilon: min(0.0, cgf.at(1.0) - epsilon))
    assert profile.log_delta(2.0) == 0.25 - 2.0
    assert profile.pure == math.inf
    pure = Curve(log_moment=lambda lam: lam, kl=1.0, pure=1.0)
    assert profile_from_cgf(pure, lambda cgf, epsilon: 0.0).delta(1.0) == 0.0


# Theorem 2 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.5, 1.0])
def test_advanced_joint_convexity(rate: float) -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        shared, own, other = rng.dirichlet(np.full(4, 0.5), size=3)
        left, right = (1 - rate) * shared + rate * own, (1 - rate) * shared + rate * other
        for epsilon in EPSILONS:
            arguments: dict[str, Any] = {"rate": rate, "epsilon": epsilon}
            truth = divergence(left, right, math.log1p(rate * math.expm1(epsilon)))
            identity = advanced_joint_convexity(shared.tolist(), own.tolist(), other.tolist(), **arguments)
            bound = joint_convexity_bound(shared.tolist(), own.tolist(), other.tolist(), **arguments)
            assert identity == pytest.approx(truth, abs=1e-14)
            assert identity <= bound + 1e-15


@pytest.mark.parametrize("rate", [1e-100, 1e-9, 0.3, 1.0])
@pytest.mark.parametrize("epsilon", [1e-200, 1e-9, 0.5, 40.0, 1e4])
def test_epsilons_go_there_and_back_on_the_safe_side(rate: float, epsilon: float) -> None:
    with mp.workdps(9000):
        there = mp.log1p(mpf(rate) * mp.expm1(mpf(epsilon)))
        back = mp.log1p(mp.expm1(mpf(epsilon)) / mpf(rate))
        assert 0 <= amplified_epsilon(epsilon, rate) / there - 1 <= 2e-12
        assert 0 <= 1 - base_epsilon(epsilon, rate) / back <= 2e-12


# Brute force: Theorems 7 to 11 -------------------------------------------------------------------


def log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def random_mechanism(datasets: Iterable[Dataset], rng: np.random.Generator) -> Mechanism:
    """Draw an output law for every dataset: 2 to 4 outcomes, sometimes near 0 or 1."""
    outcomes, spread = int(rng.integers(2, 5)), float(rng.choice([0.2, 1.0, 5.0]))
    return {y: rng.dirichlet(np.full(outcomes, spread)) for y in datasets}


def brute_profile(mechanism: Mechanism, adjacent: Callable[[Dataset, Dataset], bool]) -> PrivacyProfile:
    pairs = [(p, q) for (y, p), (z, q) in itertools.permutations(mechanism.items(), 2) if adjacent(y, z)]
    left, right = np.array([p for p, _ in pairs]), np.array([q for _, q in pairs])

    @cache
    def log_delta(epsilon: float) -> float:
        return log(float(np.max(np.sum(np.maximum(left - math.exp(epsilon) * right, 0.0), axis=1))))

    return PrivacyProfile(log_delta)


def average(mechanism: Mechanism, samples: list[tuple[Dataset, float]]) -> Array:
    total: Array = np.sum([weight * mechanism[y] for y, weight in samples], axis=0)
    return total


def check_bound(bound: PrivacyProfile, p: Array, q: Array) -> None:
    for epsilon in EPSILONS:
        truth = max(divergence(p, q, epsilon), divergence(q, p, epsilon))
        assert truth <= bound.delta(epsilon) * (1 + ROUNDING) + 1e-15


def subsets(records: Iterable[int]) -> list[Dataset]:
    pool = sorted(records)
    return [y for size in range(len(pool) + 1) for y in itertools.combinations(pool, size)]


def replaced(y: Dataset, z: Dataset) -> int:
    """Return how many records of y must be replaced to get z, as multisets."""
    rest = list(z)
    for u in y:
        if u in rest:
            rest.remove(u)
    return len(rest)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_poisson_holds_for_every_small_mechanism(rate: float) -> None:
    """Theorem 8: all subsets of four records, all pairs of datasets, both orders."""
    rng = np.random.default_rng(8)

    def sampled(mechanism: Mechanism, x: Dataset) -> Array:
        return average(mechanism, [(y, rate ** len(y) * (1 - rate) ** (len(x) - len(y))) for y in subsets(x)])

    for _ in range(20):
        mechanism = random_mechanism(subsets(range(4)), rng)
        base = brute_profile(mechanism, lambda y, z: len(set(y) ^ set(z)) == 1)
        bound = poisson_profile(base, rate=rate)
        for x in subsets(range(1, 4)):
            check_bound(bound, sampled(mechanism, x), sampled(mechanism, (0, *x)))


@pytest.mark.parametrize(("batch", "population"), [(1, 3), (2, 3), (3, 3), (2, 4)])
def test_without_replacement_holds_for_every_small_mechanism(batch: int, population: int) -> None:
    """Theorem 9: all samples of fixed size, replace-one."""
    rng = np.random.default_rng(9)

    def sampled(mechanism: Mechanism, x: Dataset) -> Array:
        samples = list(itertools.combinations(sorted(x), batch))
        return average(mechanism, [(y, 1 / len(samples)) for y in samples])

    for _ in range(20):
        mechanism = random_mechanism(itertools.combinations(range(population + 1), batch), rng)
        base = brute_profile(mechanism, lambda y, z: replaced(y, z) == 1)
        bound = without_replacement_profile(base, batch=batch, population=population)
        datasets = itertools.combinations(range(population + 1), population)
        for x, z in itertools.combinations(datasets, 2):
            check_bound(bound, sampled(mechanism, x), sampled(mechanism, z))


def brute_groups(mechanism: Mechanism, sizes: int) -> GroupProfiles:
    profiles = {
        size: brute_profile(mechanism, lambda y, z, size=size: replaced(y, z) <= size)  # type: ignore[misc]
        for size in range(1, sizes + 1)
    }
    return lambda size: profiles[size]


def drawn(mechanism: Mechanism, x: Dataset, draws: int) -> Array:
    return average(mechanism, [(tuple(sorted(y)), len(x) ** -draws) for y in itertools.product(x, repeat=draws)])


def multisets(universe: int, draws: int) -> list[Dataset]:
    return list(itertools.combinations_with_replacement(range(universe), draws))


@pytest.mark.parametrize(("draws", "population"), [(1, 3), (2, 2), (2, 3), (3, 2), (3, 3)])
def test_with_replacement_holds_for_every_small_mechanism(draws: int, population: int) -> None:
    """Theorems 10 and 11: all sequences of draws; replace-one, and add-or-remove-one."""
    rng = np.random.default_rng(10)
    for _ in range(15):
        mechanism = random_mechanism(multisets(population + 1, draws), rng)
        groups = brute_groups(mechanism, draws)
        replace_one = with_replacement_profile(groups, draws=draws, population=population)
        hybrid = hybrid_with_replacement_profile(groups, draws=draws, population=population)
        larger = hybrid_with_replacement_profile(groups, draws=draws, population=population + 1)
        everyone = tuple(range(population + 1))
        datasets = list(itertools.combinations(everyone, population))
        for x, z in itertools.combinations(datasets, 2):
            check_bound(replace_one, drawn(mechanism, x, draws), drawn(mechanism, z, draws))
        for x in datasets:
            check_bound(larger, drawn(mechanism, x, draws), drawn(mechanism, everyone, draws))
            check_bound(hybrid, drawn(mechanism, x, draws), drawn(mechanism, everyone, draws))
            check_bound(hybrid, drawn(mechanism, x, draws), drawn(mechanism, x[1:], draws))


def test_couplings_bound_mixtures() -> None:
    """(5): the independent coupling of two random laws on multisets."""
    rng = np.random.default_rng(5)
    datasets = multisets(3, 3)
    for _ in range(30):
        mechanism = random_mechanism(datasets, rng)
        nu, other = rng.dirichlet(np.full(len(datasets), 0.3), size=2)
        law: dict[int, float] = {}
        for (i, y), (j, z) in itertools.product(enumerate(datasets), repeat=2):
            if y != z:
                law[replaced(y, z)] = law.get(replaced(y, z), 0.0) + float(nu[i] * other[j])
        bound = coupling_profile(brute_groups(mechanism, 3), law)
        p, q = (average(mechanism, list(zip(datasets, w.tolist(), strict=True))) for w in (nu, other))
        check_bound(bound, p, q)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
def test_compatible_couplings_are_the_best(epsilon: float) -> None:
    """Theorem 7: a linear program over all couplings finds nothing below Σ ν(Y_k) δ_k."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(77)
    draws, population = 3, 3
    ours, theirs = (
        conditional_draws((v, 1, 2), v, draws) for v in (0, 3)
    )  # given that the record that differs is drawn
    mechanism = random_mechanism(multisets(4, draws), rng)
    groups = brute_groups(mechanism, draws)
    deltas = [0.0, *(groups(k).delta(epsilon) for k in range(1, draws + 1))]
    cost = [deltas[replaced(y, z)] for y, z in itertools.product(ours, theirs)]
    rows = np.kron(np.eye(len(ours)), np.ones(len(theirs)))
    columns = np.kron(np.ones(len(ours)), np.eye(len(theirs)))
    least = linprog(cost, A_eq=np.vstack([rows, columns]), b_eq=[*ours.values(), *theirs.values()]).fun
    drawn_at_all = 1 - (1 - 1 / population) ** draws
    law = {
        k: math.comb(draws, k) * (population - 1) ** (draws - k) / population**draws / drawn_at_all
        for k in range(1, draws + 1)
    }
    assert coupling_profile(groups, law).delta(epsilon) == pytest.approx(least, rel=1e-9)


def conditional_draws(x: Dataset, v: int, draws: int) -> dict[Dataset, float]:
    law: dict[Dataset, float] = {}
    for y in itertools.product(x, repeat=draws):
        if v in y:
            key = tuple(sorted(y))
            law[key] = law.get(key, 0.0) + 1.0
    total = sum(law.values())
    return {y: weight / total for y, weight in law.items()}


# Sums over multiplicities ------------------------------------------------------------------------


@pytest.mark.parametrize(("draws", "population"), [(1, 7), (2, 3), (40, 3), (1000, 10), (10**6, 10**3), (10**6, 10**9)])
def test_multiplicities_are_binomial(draws: int, population: int) -> None:
    law = Multiplicity(draws, population)
    mean = draws / population
    some = sorted({k for k in (0, 1, 2, 5, int(mean), int(3 * mean) + 1, 200, draws - 1, draws) if 0 <= k <= draws})
    with mp.workdps(60):
        p = mpf(1) / population

        def weight(k: int) -> Any:
            return mp.log(mp.binomial(draws, k)) + k * mp.log(p) + (draws - k) * mp.log1p(-p)

        for k, value in zip(some, law.log_weights(np.array(some, dtype=float)).tolist(), strict=True):
            assert 0 <= value - weight(k) <= 1e-12 + 1e-14 * abs(weight(k))
        assert 0 <= law.rate / (1 - (1 - p) ** draws) - 1 <= 1e-14


@pytest.mark.parametrize(("draws", "population"), [(60, 3), (40, 400), (300, 1), (3000, 4), (9, 10**6)])
def test_blocks_of_multiplicities_hold(draws: int, population: int) -> None:
    """All multiplicities up to the end of a block are at most as likely as the blocks up to it, and so is the rest."""
    law = Multiplicity(draws, population)
    with mp.workdps(40):
        p = mpf(1) / population
        exact = [mp.binomial(draws, k) * p**k * (1 - p) ** (draws - k) for k in range(draws + 1)]
        for blocks in (law.blocks(), law.fine_blocks(), law.blocks().up_to(draws)):
            ends = [0, *map(int, blocks.ends.tolist())]
            assert ends == sorted(set(ends))
            for low, high, log in zip(ends, ends[1:], blocks.log_weights.tolist(), strict=False):
                assert mp.fsum(exact[low + 1 : high + 1]) <= mp.exp(log)
            assert mp.fsum(exact[ends[-1] + 1 :]) <= mp.exp(blocks.log_rest)


@pytest.mark.parametrize(("draws", "population"), [(1, 5), (30, 10), (400, 3), (50, 1), (300, 10**6)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("groups", [gaussian_groups(0.05), laplace_groups(0.02), binary_groups(0.1)])
def test_with_replacement_is_the_whole_sum(draws: int, population: int, epsilon: float, groups: GroupProfiles) -> None:
    """Theorem 10, every term summed in many digits."""
    with mp.workdps(40):
        p = mpf(1) / population
        eta = 1 - (1 - p) ** draws
        inner = math.nextafter(
            float(mp.log1p(mp.expm1(mpf(epsilon)) / eta)), math.inf if epsilon else 0.0
        )  # not too small
        terms = [mp.binomial(draws, k) * p**k * (1 - p) ** (draws - k) for k in range(draws + 1)]
        exact = mp.fsum(terms[k] * mp.exp(groups(k).log_delta(inner)) for k in range(1, draws + 1) if terms[k])
    bound = with_replacement_profile(groups, draws=draws, population=population).log_delta(epsilon)
    if exact == 0:
        assert bound == -math.inf or mp.exp(bound) < 1e-14
    else:
        assert 0 <= bound - mp.log(exact) <= 1e-8


def test_many_draws_from_many_records() -> None:
    """A million draws from a billion records: the single draw decides, and it is that of Theorem 9 at 1/1000."""
    many = with_replacement_profile(gaussian_groups(1e-3), draws=10**6, population=10**9)
    single = without_replacement_profile(gaussian_profile(1e-3), batch=1, population=1000)
    assert many.delta(0.0) == pytest.approx(single.delta(0.0), rel=2e-3)
    often = with_replacement_profile(gaussian_groups(1e-3), draws=10**6, population=10**3)
    assert often.delta(0.0) == pytest.approx(gaussian_profile(1.0).delta(0.0), rel=1e-3)  # a thousand times each


# Theorem 13 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.6, 0.9, 1.0])
def test_membership_attains_the_bounds(p: float) -> None:
    """Theorems 8 to 11 are equalities for randomized membership."""
    membership = RandomizedMembership(p=p)
    base = membership.profile()
    pairs = [
        (membership.poisson(rate=0.2), poisson_profile(base, rate=0.2)),
        (
            membership.without_replacement(batch=3, population=10),
            without_replacement_profile(base, batch=3, population=10),
        ),
        (
            membership.with_replacement(draws=7, population=10),
            with_replacement_profile(membership.group, draws=7, population=10),
        ),
        (
            membership.with_replacement(draws=7, population=10),
            hybrid_with_replacement_profile(membership.group, draws=7, population=10),
        ),
    ]
    for exact, bound in pairs:
        assert bound.pure == pytest.approx(exact.pure, rel=1e-12)
        for epsilon in EPSILONS:
            assert bound.delta(epsilon) == pytest.approx(exact.delta(epsilon), rel=1e-8, abs=1e-15)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.6, 0.9, 1.0])
@pytest.mark.parametrize(("draws", "population"), [(2, 3), (3, 3)])
def test_membership_by_enumeration(p: float, draws: int, population: int) -> None:
    """Every sample of a dataset with and without v = 0, in all three schemes."""
    answers = {True: np.array([1 - p, p]), False: np.array([p, 1 - p])}
    mechanism = {y: answers[0 in y] for y in [*subsets(range(population + 1)), *multisets(population + 1, draws)]}
    with_v, without_v = tuple(range(population)), tuple(range(1, population + 1))

    def poisson(x: Dataset) -> Array:
        return average(mechanism, [(y, 0.3 ** len(y) * 0.7 ** (len(x) - len(y))) for y in subsets(x)])

    def fixed(x: Dataset) -> Array:
        samples = list(itertools.combinations(x, draws))
        return average(mechanism, [(y, 1 / len(samples)) for y in samples])

    membership = RandomizedMembership(p=p)
    for profile, left, right in (
        (membership.profile(), answers[True], answers[False]),
        (membership.poisson(rate=0.3), poisson(with_v), poisson(with_v[1:])),
        (membership.without_replacement(batch=draws, population=population), fixed(with_v), fixed(without_v)),
        (
            membership.with_replacement(draws=draws, population=population),
            drawn(mechanism, with_v, draws),
            drawn(mechanism, without_v, draws),
        ),
    ):
        for epsilon in EPSILONS:
            truth = max(divergence(left, right, epsilon), divergence(right, left, epsilon))
            assert profile.delta(epsilon) == pytest.approx(truth, rel=1e-12, abs=1e-15)


# Ends and bad input ------------------------------------------------------------------------------


def test_ends_of_sampling() -> None:
    base = gaussian_profile(1.0)
    assert poisson_profile(base, rate=0.0).delta(0.0) == 0.0
    assert poisson_profile(base, rate=1.0).delta(0.5) == base.delta(0.5)
    assert without_replacement_profile(base, batch=5, population=5).delta(0.5) == base.delta(0.5)
    assert with_replacement_profile(gaussian_groups(1.0), draws=0, population=5).delta(0.0) == 0.0
    assert with_replacement_profile(gaussian_groups(1.0), draws=3, population=1).delta(0.5) == pytest.approx(
        gaussian_profile(3.0).delta(0.5), rel=1e-12
    )
    assert poisson_profile(laplace_profile(1.0), rate=0.1).epsilon(-math.inf) == pytest.approx(
        math.log1p(0.1 * math.expm1(1.0)), rel=1e-13
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: gaussian_profile(-1.0),
        lambda: laplace_profile(math.nan),
        lambda: binary_profile(math.inf),
        lambda: approximate_profile(1.0, 1.5),
        lambda: gaussian_profile(1.0).delta(-0.1),
        lambda: gaussian_profile(1.0).epsilon(0.5),
        lambda: group_profile(gaussian_profile(1.0), 0),
        lambda: poisson_profile(gaussian_profile(1.0), rate=1.1),
        lambda: without_replacement_profile(gaussian_profile(1.0), batch=6, population=5),
        lambda: with_replacement_profile(gaussian_groups(1.0), draws=-1, population=5),
        lambda: hybrid_with_replacement_profile(gaussian_groups(1.0), draws=2, population=1),
        lambda: coupling_profile(gaussian_groups(1.0), {1: 0.8, 2: 0.7}),
        lambda: coupling_profile(gaussian_groups(1.0), {0: 0.8}),
        lambda: advanced_joint_convexity([0.5, 0.6], [0.5, 0.5], [0.5, 0.5], rate=0.5, epsilon=0.0),
        lambda: joint_convexity_bound([0.5, 0.5], [0.5, 0.6], [0.5, 0.5], rate=0.5, epsilon=0.0),
        lambda: RandomizedMembership(p=1.2),
        lambda: RandomizedMembership(p=0.6).without_replacement(batch=3, population=2),
        lambda: RandomizedMembership(p=0.6).group(0),
    ],
)
def test_bad_input_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter):
        wrong()


# Many ε at once ----------------------------------------------------------------------------------

MANY: dict[str, Callable[[], PrivacyProfile]] = {
    "Laplace": lambda: laplace_profile(1.5),
    "pure": lambda: binary_profile(2.5),
    "approximate": lambda: approximate_profile(1.2, 1e-9),
    "few outputs": lambda: finite_profile([_few_outputs()]),
    "sampled Laplace": lambda: poisson_profile(laplace_profile(3.0), rate=0.2),
    "sampled Gaussian": lambda: poisson_profile(gaussian_profile(0.4), rate=1e-3),
    "replaced Gaussian": lambda: replaced_profile(gaussian_profile(0.8), rate=0.3, place=gaussian_place(0.8, 0.3)),
    "replaced, all": lambda: replaced_profile(gaussian_profile(0.8), rate=1.0, place=lambda epsilon: epsilon / 2),
    "drawn": lambda: with_replacement_profile(laplace_groups(0.7), draws=9, population=20),
    "Gaussian": lambda: gaussian_profile(0.3),
    "large groups": lambda: group_profile(gaussian_profile(2.0), 5),
    "orders": lambda: profile_from_orders(_curve()),
    "orders that fail": lambda: profile_from_orders(_curve(failure=0.75)),
    "knots": lambda: profile_from_knots(_curve()),
    "weighted": lambda: weighted_with_replacement_profile(gaussian_groups(0.7), draws=9, population=20),
    "weighted box": lambda: weighted_with_replacement_profile(
        black_box_groups(profile_from_knots(_curve())), draws=9, population=20
    ),
}
UNBOUNDED = ("Gaussian", "sampled Gaussian", "replaced Gaussian", "large groups", "orders", "knots")


def _curve(*, failure: float = 0.0) -> Curve:
    return Curve(log_moment=lambda lam: 0.02 * lam * (1 + lam), kl=0.02, failure=failure)


def _few_outputs() -> FinitePair:
    return finite_pair(Binary(1.0, 1e-3))


@pytest.mark.parametrize("name", MANY)
def test_many_epsilons_are_answered_as_each_by_itself(name: str) -> None:
    profile = MANY[name]()
    assert profile.of_many is not None
    epsilons = np.array([*EPSILONS, 5e-324, 1e-300, 7.0, 100.0, 1e9, 1e160])
    found = profile.log_deltas(epsilons)
    for epsilon, log_delta in zip(epsilons.tolist(), found.tolist(), strict=True):
        one = profile.log_delta(epsilon)
        assert log_delta == one or abs(log_delta - one) <= 1e-9 * (1 + abs(one))  # multiplicities are cut at 1e-9


@pytest.mark.parametrize("name", MANY)
def test_the_farthest_epsilons_overflow_nowhere(name: str) -> None:
    profile, epsilons = MANY[name](), np.array([1e290, 1e300, 1.7e308])
    one_by_one = [profile.log_delta(epsilon) for epsilon in epsilons.tolist()]
    for found in (profile.log_deltas(epsilons).tolist(), one_by_one):  # neither warns
        assert not any(math.isnan(log_delta) for log_delta in found)
        assert min(found) > -math.inf or name not in UNBOUNDED  # what has no largest loss is never without δ


@pytest.mark.parametrize("theta", [1e-3, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.9])
def test_the_slope_of_laplace_noise_is_where_it_is_said_to_be(theta: float, epsilon: float) -> None:
    profile = laplace_profile(theta)
    assert profile.where_slope_is is not None
    with mp.workdps(40):  # δ = 1 - √(t/e^θ) falls by 1/(2√(t e^θ))
        t = mp.exp(mpf(epsilon) * mpf(theta))
        slope = float(mp.log(mp.diff(lambda x: mp.sqrt(x / mp.exp(mpf(theta))), t)))
    assert profile.where_slope_is(np.array([slope, 1.0, -1e3])) == pytest.approx([epsilon * theta, 0.0, theta])


@pytest.mark.parametrize("epsilon0", [1e-3, 0.5, 3.0, 40.0])
def test_pure_dp_has_one_slope(epsilon0: float) -> None:
    profile = binary_profile(epsilon0)
    assert profile.where_slope_is is not None
    slope = -math.log1p(math.exp(epsilon0))
    assert profile.where_slope_is(np.array([slope + 1e-9, slope - 1e-9])).tolist() == [0.0, epsilon0]
