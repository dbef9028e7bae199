"""Dominating pairs: against enumeration of all samples, and their numbers against many digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

import brute_force as bf
from cumulant.pairs.atoms import Reversed, Sampled
from cumulant.pairs.atoms import Table as TableOfOutputs
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import k_at, log_moments, tilt
from cumulant.pairs.finite_pair import FinitePair, binary_pair
from cumulant.pairs.gaussian_mixture import GroupedGaussian
from cumulant.pairs.maps import Envelope, Join, Leave, log_mixture
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.pair import GaussianPair
from sampled_pairs import added_gaussian, removed_gaussian

RATIOS = (0.0, 1.0, *(float(t) for t in np.exp(np.linspace(-3.0, 3.0, 41))))
RATES = (0.01, 0.3, 0.85)
Table = tuple[list[float], list[float]]

# The last two columns: only P, only Q, so that failure and absent mass are there.
TABLES: tuple[Table, ...] = (
    ([0.75, 0.25], [0.25, 0.75]),
    ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]),
    ([0.6, 0.1, 0.1, 0.2], [0.3, 0.4, 0.2, 0.1]),
    ([0.5, 0.3, 0.2, 0.0], [0.2, 0.5, 0.0, 0.3]),
    ([0.9, 0.1, 0.0], [0.7, 0.2, 0.1]),
)


def hockey_stick(p: Iterable[float], q: Iterable[float], t: float) -> float:
    return math.fsum(max(a - t * b, 0.0) for a, b in zip(p, q, strict=True))


def table_pair(p: list[float], q: list[float]) -> FinitePair:
    return FinitePair(TableOfOutputs(tuple(p), tuple(q)))


def left(pair: FinitePair, rate: float) -> FinitePair:
    return FinitePair(Sampled(pair.atoms, Leave(rate)))


def joined(pair: FinitePair, rate: float) -> FinitePair:
    return FinitePair(Sampled(Reversed(pair.atoms), Join(rate)))


def enveloped(pair: FinitePair, rate: float) -> FinitePair:
    return FinitePair(Sampled(pair.atoms, Envelope(rate)))


def of_pair(pair: FinitePair, t: float) -> float:
    """Return H_t from the losses: E_P(1 - t e^{-L})_+, an infinite loss counted whole."""
    finite = zip(pair.losses, pair.log_masses, strict=True)
    return pair.failure + math.fsum(math.exp(m) * max(1 - t * math.exp(-x), 0.0) for x, m in finite)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("table", TABLES)
def test_sampled_tables_have_the_profiles_of_their_mixtures(table: Table, rate: float) -> None:
    p, q = (np.array(column) for column in table)
    pair = table_pair(*table)
    leaving = (1 - rate) * q + rate * p, q
    joining = p, (1 - rate) * p + rate * q
    for t in RATIOS:
        leaves, joins = hockey_stick(*leaving, t), hockey_stick(*joining, t)
        assert of_pair(left(pair, rate), t) == pytest.approx(leaves, abs=1e-14)
        assert of_pair(joined(pair, rate), t) == pytest.approx(joins, abs=1e-14)
        assert of_pair(enveloped(pair, rate), t) == pytest.approx(leaves if t >= 1 else joins, abs=1e-14)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("table", TABLES)
def test_a_sampled_pair_is_a_pair_of_distributions(table: Table, rate: float) -> None:
    """P adds up to 1, and what P lacks of Q is γQ(P = 0) where the record joins, nothing where it leaves."""
    pair = table_pair(*table)
    lacking = math.fsum(b for a, b in zip(*table, strict=True) if a == 0)
    for sampled, absent in ((left(pair, rate), 0.0), (joined(pair, rate), rate * lacking)):
        assert sampled.failure + math.fsum(math.exp(m) for m in sampled.log_masses) == pytest.approx(1.0, abs=1e-14)
        assert sampled.absent == pytest.approx(absent, abs=1e-14)


# Dominance, by enumeration of datasets and samples --------------------------------------------------------------------


def largest_profile(pairs: bf.Pairs, t: float) -> float:
    """Return the largest H_t over ordered pairs of distributions."""
    return float(np.max(np.sum(np.maximum(np.exp(pairs.log_p) - t * np.exp(pairs.log_q), 0.0), axis=1)))


def worlds(universe: int, sizes: range) -> list[bf.Mechanism]:
    generator = np.random.default_rng(3)
    random = [
        bf.random_mechanism(generator, universe=universe, sizes=sizes, outputs=3, spread=spread)
        for spread in (0.2, 1.0, 2.0)
    ]
    return [
        bf.membership(universe=universe, sizes=sizes, p=0.8),
        bf.majority(universe=universe, sizes=sizes, p=0.7),
        *random,
    ]


def pure_epsilon(mechanism: bf.Mechanism, neighbors: Iterable[tuple[bf.Batch, bf.Batch]]) -> float:
    return bf.both_directions(neighbors, lambda batch: mechanism[batch]).pure()


@pytest.mark.parametrize("rate", [0.2, 0.7])
@pytest.mark.parametrize("which", range(5))
def test_poisson_pairs_dominate_every_sampled_pair(which: int, rate: float) -> None:
    """The mechanism is ε-DP under add-or-remove-one, so randomized response at that ε dominates it."""
    mechanism = worlds(2, range(4))[which]
    epsilon = pure_epsilon(mechanism, bf.added(2, range(3)))
    pair = binary_pair(epsilon)
    sampled = {data: bf.poisson(mechanism, data, rate) for size in range(4) for data in bf.batches(2, size)}
    for t in RATIOS:
        for one, other in bf.added(2, range(3)):
            smaller, larger = sampled[one], sampled[other]
            assert hockey_stick(larger, smaller, t) <= of_pair(left(pair, rate), t) + 1e-12
            assert hockey_stick(smaller, larger, t) <= of_pair(joined(pair, rate), t) + 1e-12


@pytest.mark.parametrize("which", range(5))
def test_the_envelope_dominates_samples_without_replacement(which: int) -> None:
    size, batch = 3, 2
    mechanism = worlds(3, range(4))[which]
    pair = binary_pair(pure_epsilon(mechanism, bf.replaced(3, batch)))
    outputs = bf.both_directions(bf.replaced(3, size), lambda data: bf.without_replacement(mechanism, data, batch))
    for t in RATIOS:
        assert largest_profile(outputs, t) <= of_pair(enveloped(pair, batch / size), t) + 1e-12


@pytest.mark.parametrize("rate", [0.2, 0.7])
@pytest.mark.parametrize("which", range(5))
def test_the_envelope_of_groups_of_two_dominates_poisson_samples_under_replacement(which: int, rate: float) -> None:
    """ε-DP under add-or-remove-one is 2ε-DP for the two that are exchanged."""
    mechanism = worlds(3, range(4))[which]
    pair = binary_pair(2 * pure_epsilon(mechanism, bf.added(3, range(3))))
    outputs = bf.both_directions(bf.replaced(3, 2), lambda data: bf.poisson(mechanism, data, rate))
    for t in RATIOS:
        assert largest_profile(outputs, t) <= of_pair(enveloped(pair, rate), t) + 1e-12


def test_both_directions_are_attained_by_telling_who_is_there() -> None:
    """All records but one are the same: batches with record 0 answer one way, the others the other way."""
    p, batch, size = 0.8, 2, 3
    mechanism = bf.membership(universe=2, sizes=range(4), p=p)
    pair = binary_pair(math.log(p / (1 - p)))
    with_it, without = ((0, 1, 1), (1, 1, 1))
    a, b = (bf.without_replacement(mechanism, data, batch) for data in (with_it, without))
    for t in RATIOS:
        assert hockey_stick(a, b, t) == pytest.approx(of_pair(left(pair, batch / size), t), abs=1e-14)
        assert hockey_stick(b, a, t) == pytest.approx(of_pair(joined(pair, batch / size), t), abs=1e-14)


# Numbers in many digits -----------------------------------------------------------------------------------------------


@given(u=st.floats(-40.0, 40.0).filter(lambda u: abs(u) > 1e-250), exponent=st.floats(-30.0, -0.3))
def test_the_log_of_a_mixture_keeps_its_relative_accuracy(u: float, exponent: float) -> None:
    """log(1 - γ + γe^u) is as small as γ: n releases multiply what is lost of it."""
    rate = 10.0**exponent
    with mp.workdps(60):
        exact = mp.log1p(mpf(rate) * mp.expm1(mpf(u)))
        error = abs(mpf(float(log_mixture(np.array(u), rate))) - exact)
        assert error <= abs(exact) * mpf(2) ** -49


@pytest.mark.parametrize("t", [-8.0, -0.5, 0.0, 0.7, 6.0])
def test_a_group_is_a_binomial_mixture(t: float) -> None:
    mean, rate, size = 0.6, 0.02, 4
    with mp.workdps(40):
        m, r = mpf(mean), mpf(rate)
        shares = [mp.binomial(size, j) * r**j * (1 - r) ** (size - j) for j in range(size + 1)]
        exact = mp.log(mp.fsum(b * mp.exp(j * m * t - (j * m) ** 2 / 2) for j, b in enumerate(shares)))
        found = float(GroupedGaussian(mean, rate, size).log_ratio(np.array([t]))[0])
        assert abs(mpf(found) - exact) <= abs(exact) * mpf(10) ** -13


@pytest.mark.parametrize("failure", [0.0, 1e-18, 1e-15, 1.9e-15, 1e-9, 0.25])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 2.0])
def test_the_divergence_of_approximate_dp_ignores_the_failure(epsilon: float, failure: float) -> None:
    """Given that nothing fails the pair is randomized response, whose divergence is ε tanh(ε/2)."""
    with mp.workdps(40):
        exact = mpf(epsilon) * mp.tanh(mpf(epsilon) / 2)
        found = binary_pair(epsilon, failure).nodes(1.0, 0.0).divergence[0]
        assert abs(mpf(found) - exact) <= exact * mpf(10) ** -12


@pytest.mark.parametrize("failure", [1e-15, 1e-12, 1e-3])
@pytest.mark.parametrize("sampled", [left, joined])
def test_the_divergence_of_sampled_failures(sampled: Callable[[FinitePair, float], FinitePair], failure: float) -> None:
    """E_P[L | L < ∞] in many digits, where what one side lacks is of the size of rounding."""
    epsilon, rate = 1e-4, 0.5
    with mp.workdps(60):
        e, f, g = mpf(epsilon), mpf(failure), mpf(rate)
        common = (1 - f) / (1 + mp.exp(e))
        p, q = [f, common * mp.exp(e), common, mpf(0)], [mpf(0), common, common * mp.exp(e), f]
        first, second = (
            ([(1 - g) * b + g * a for a, b in zip(p, q, strict=True)], q)
            if sampled is left
            else (p, [(1 - g) * a + g * b for a, b in zip(p, q, strict=True)])
        )
        finite = [(a, b) for a, b in zip(first, second, strict=True) if a > 0 and b > 0]
        exact = mp.fsum(a * mp.log(a / b) for a, b in finite) / mp.fsum(a for a, _ in finite)
        found = sampled(binary_pair(epsilon, failure), rate).nodes(1.0, 0.0).divergence[0]
        # relative to the second moment, which is what K is made of
        second_moment = mp.fsum(a * mp.log(a / b) ** 2 for a, b in finite)
        assert abs(mpf(found) - exact) <= second_moment * mpf(10) ** -10


def log_moment(mean: float, rate: float, exponent: Any, ends: list[float]) -> Any:
    """Return log ∫ φ w^a over pieces between the ends."""
    m, r = mpf(mean), mpf(rate)

    def integrand(t: Any) -> Any:
        return mp.npdf(t) * (1 - r + r * mp.exp(m * t - m * m / 2)) ** exponent

    return mp.log(mp.quad(integrand, ends))


@pytest.mark.parametrize(
    ("mean", "rate", "index"),
    [
        (0.4155448, 0.0561776, 37),  # no second peak, but a shoulder far out
        (0.9894, 0.00220878, 24),
        (1.0, 0.01, 20),
        (0.3, 1e-5, 16),
        (4.0, 0.2, 8),
    ],
)
def test_the_cgf_of_a_leaving_record(mean: float, rate: float, index: int) -> None:
    """K on its own nodes, those the line is computed on."""
    with mp.workdps(30):
        theta = tilt(index)
        far = max(20.0, 1.3 * (theta + 1) * mean + 14)  # beyond every peak, of which there may be two
        exact = log_moment(mean, rate, mpf(theta) + 1, mp.linspace(-14, far, 2 * int(far / 2) + 1))
        nodes = removed_gaussian(mean, rate).nodes(theta, 0.0)
        found = float(nodes.cumulants(np.array([theta]))[0][0, 0])
        assert abs(mpf(found) - exact) <= abs(exact) * mpf(10) ** -12


@pytest.mark.parametrize(
    ("mean", "rate", "index"),
    [(0.1777227, 0.99515645, 70), (0.2634230, 0.9953722, 79), (0.7, 0.05, 40)],
)
def test_the_cgf_of_a_joining_record(mean: float, rate: float, index: int) -> None:
    """Large tilts peak far out on the left, where hardly anything of N(0, 1) is."""
    with mp.workdps(30):
        a, odds = tilt(index), math.log(rate / (1 - rate))
        low, high = -a * mean, 0.0
        while high - low > 0.1:  # the logarithm of the integrand is concave: where does it stop rising?
            middle = (low + high) / 2
            rising = -middle - a * mean / (1 + math.exp(-odds - mean * middle + mean**2 / 2)) > 0
            low, high = (middle, high) if rising else (low, middle)
        exact = log_moment(mean, rate, -mpf(a), mp.linspace(low - 12, low + 12, 9))
        assert abs(mpf(k_at(added_gaussian(mean, rate), index)) - exact) <= abs(exact) * mpf(10) ** -12


@pytest.mark.parametrize(
    ("mean", "rate", "lam", "digits"),
    [
        (6.6, 1e-12, 0.5, 40),
        (6.6, 1.7434485870062383e-65, 4.879774842446503, 140),  # a peak e^-256 high, of masses that underflow, matters
        (14.0, 0.0025, 2.0**-29, 40),
        (0.01, 1e-140, 3.0, 310),
    ],
)
def test_moments_of_rare_records_and_orders_near_one(mean: float, rate: float, lam: float, digits: int) -> None:
    """M(λ) - 1 to a part in 1e12, however small it is: far peaks are not cut off and small orders keep their digits."""
    with mp.workdps(digits):
        m, r, power = mpf(mean), mpf(rate), mpf(lam) + 1
        # the trapezoidal rule: w vanishes π/μ off the line, so its error is about e^{-2πd/h}
        step = 2 * mp.pi * min(0.9 * mp.pi / m, 3) / (2.4 * digits)
        nodes = [step * k for k in range(int(-24 / step), int(((lam + 2) * mean + 24) / step))]
        ratios = [r * mp.expm1(m * t - m * m / 2) for t in nodes]
        terms = [mp.npdf(t) * ((1 + x) ** power - 1 - power * x) for t, x in zip(nodes, ratios, strict=True)]
        exact = mp.log1p(step * mp.fsum(terms))
        found = float(log_moments(removed_gaussian(mean, rate), np.array([lam]))[0])
        assert abs(mpf(found) - exact) <= exact * mpf(10) ** -12


@pytest.mark.slow
@pytest.mark.parametrize("pair", [removed_gaussian, added_gaussian])
def test_pairs_of_one_kind_are_evaluated_together(pair: Callable[[float, float], CoordinatePair]) -> None:
    """Each row is the law of one pair: K on the real line and off it, in many digits."""
    laws, theta, step = [(0.55, 0.013), (0.8, 0.02), (0.99, 0.0157)], 4.0, 0.5
    pairs = [pair(mean, rate) for mean, rate in laws]
    assert len({one.batch_key(1.0) for one in pairs}) == 1
    nodes = pairs[0].stack(pairs).nodes(theta, 3.0)
    k, means, _ = nodes.cumulants(np.array([1.0, theta / 2, 2.0, theta]))
    assert k.shape == means.shape == (3, 4)
    values, _ = nodes.log_moment(theta, step, 7, k[:, 3])
    with mp.workdps(30):
        for row, (mean, rate) in enumerate(laws):
            for column, z in [(0, mpf(1)), (1, mpf(2)), (2, mpf(2)), (3, mpf(4)), (6, mp.mpc(4, 3))]:
                exponent = z + 1 if pair is removed_gaussian else -z
                exact = log_moment(mean, rate, exponent, mp.linspace(-30, 30, 31))
                found = k[row, column] if mp.im(z) == 0 else complex(values[row, 6])
                assert abs(mp.mpc(found) - exact) <= abs(exact) * mpf(10) ** -12


def test_products_of_gaussians_add_their_squares() -> None:
    means, counts = (0.3, 1.7, 0.011), (7, 2, 100_000)
    product_of = GaussianPair.product([(GaussianPair(m), n) for m, n in zip(means, counts, strict=True)])
    with mp.workdps(40):
        exact = mp.sqrt(mp.fsum(n * mpf(m) ** 2 for m, n in zip(means, counts, strict=True)))
        assert exact <= product_of.mean <= exact * (1 + mpf(2) ** -48)


def test_the_binary_pair_of_approximate_dp_dominates_all_that_is() -> None:
    """Every pair of two-output distributions that is (ε, δ)-DP has a profile below."""
    epsilon, delta = 0.7, 0.05
    grid = np.linspace(0.0, 1.0, 41)
    pair = binary_pair(epsilon, delta)
    bound = [of_pair(pair, t) for t in RATIOS]
    for a, b in product(grid, grid):
        p, q = (a, 1 - a), (b, 1 - b)
        if max(hockey_stick(p, q, math.exp(epsilon)), hockey_stick(q, p, math.exp(epsilon))) <= delta:
            assert all(hockey_stick(p, q, t) <= h + 1e-12 for t, h in zip(RATIOS, bound, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_curvature_on_a_stretch_is_bounded(seed: int) -> None:
    """ℓ'' = μ²s(1-s) is at most `bend_on` everywhere on the stretch, and that is attained at one of three places."""
    generator = np.random.default_rng(seed)
    mean = float(10.0 ** generator.uniform(-2, 1))
    rate = float(generator.choice([10.0 ** generator.uniform(-12, -0.1), 1 - 10.0 ** generator.uniform(-14, -1)]))
    low = float(generator.uniform(-20, 20))
    high = low + float(10.0 ** generator.uniform(-3, 1.5))
    bound = GaussianNoise(mean).bend_on(low, high, Leave(rate).largest_spread)
    with mp.workdps(60):

        def bend(t: Any) -> Any:
            odds = (1 - mpf(rate)) / mpf(rate) * mp.exp(-mpf(mean) * t + mpf(mean) ** 2 / 2)
            return mpf(mean) ** 2 * odds / (1 + odds) ** 2

        middle = (mp.log((1 - mpf(rate)) / mpf(rate)) + mpf(mean) ** 2 / 2) / mean
        largest = max(bend(mpf(low)), bend(mpf(high)), bend(middle) if low <= middle <= high else mpf(0))
        assert largest <= bound <= largest * (1 + 1e-9)
