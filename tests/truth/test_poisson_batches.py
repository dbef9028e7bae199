"""Poisson batches of a largest size, and people with several records, against worlds that are enumerated."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from flint import arb

import cumulant as cm
from cumulant.neighbors import Neighbors
from cumulant.numerics.balls import precision
from cumulant.sampling import PoissonUsers, TruncatedPoisson
from cumulant.sampling.truncated_poisson import cut_samples, rate_in_batch
from gaussian_worlds import Mixture, Pair, adaptively_attained, attained, coins, cut_batches, delta_on_a_grid, density

EPSILONS = [0.0, 0.02, 0.1, 0.4, 1.0, 2.0, 4.0]
VALUES = (-1.0, 0.0, 0.5, 1.0)
SIZES = [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (5, 3)]  # records, and how many are kept
NOISES = [(0.5, 0.9), (1.0, 0.3)]  # σ and rate
RELATIONS = [cm.ADD_REMOVE, cm.ZERO_OUT, cm.REPLACE_ONE]


def worlds(relation: Neighbors, records: int, most: int, rate: float) -> list[list[Pair]]:
    """Return, for every pair of a record and what stands in its place, in both orders, what all crowds make of it."""
    crowds = [crowd for crowd in product(VALUES, repeat=records - 1) if list(crowd) == sorted(crowd)]
    found = []
    others: dict[Neighbors, tuple[tuple[float, ...], ...]] = {
        cm.ADD_REMOVE: ((),),
        cm.ZERO_OUT: ((0.0,),),
        cm.REPLACE_ONE: ((-1.0,), (0.5,)),
    }
    for other in others[relation]:
        menu = [(cut_batches((1.0, *crowd), rate, most), cut_batches((*other, *crowd), rate, most)) for crowd in crowds]
        found += [menu, [(b, a) for a, b in menu]]
    return found


def two(share: float, mean: float) -> Mixture:
    return [(1 - share, 0.0), (share, mean)]


def sample(relation: Neighbors, records: int, most: int, rate: float, sigma: float) -> TruncatedPoisson:
    return TruncatedPoisson(
        mechanism=cm.Gaussian(noise_multiplier=sigma), rate=rate, max_batch=most, population=records, relation=relation
    )


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("records", "most"), SIZES)
@pytest.mark.parametrize(("sigma", "rate"), NOISES)
def test_no_crowd_attains_more(relation: Neighbors, records: int, most: int, sigma: float, rate: float) -> None:
    step = sample(relation, records, most, rate, sigma)
    menus = worlds(relation, records, most, rate)
    for epsilon in EPSILONS:
        truth = max(attained(one, other, math.exp(epsilon), sigma) for menu in menus for one, other in menu)
        assert step.delta(epsilon=epsilon) >= truth


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("records", "most"), [(2, 1), (3, 2)])
@pytest.mark.parametrize(("sigma", "rate"), NOISES)
def test_no_adaptive_crowd_attains_more(
    relation: Neighbors, records: int, most: int, sigma: float, rate: float
) -> None:
    """Which crowd comes next is chosen by what was released: so H_t for t < 1 counts as well."""
    run = sample(relation, records, most, rate, sigma) * 2
    for menu in worlds(relation, records, most, rate):
        for epsilon in (0.1, 1.0):
            assert run.delta(epsilon=epsilon) >= adaptively_attained(menu, 2, math.exp(epsilon), sigma)


def test_the_pair_of_add_or_remove_does_not_dominate_zero_out() -> None:
    """For t < 1 a crowd of opposite records attains more than N(2) against N(0): so the test above can fail."""
    sigma, rate = 0.5, 0.9
    share, mean_rate = (float(x) for x in exactly(rate, 1, 3))
    menus = worlds(cm.ZERO_OUT, 3, 1, rate)

    def excess(t: float) -> float:
        whole, cut = (attained(two(g, far), [(1.0, 0.0)], t, sigma) for g, far in ((rate, 1.0), (mean_rate, 2.0)))
        found = max(attained(one, other, t, sigma) for one, other in menus[0])
        return found - (1 - share) * whole - share * cut

    assert max(excess(t) for t in (0.3, 0.5, 0.7)) > 0.05
    assert max(excess(t) for t in (1.0, 2.0, 8.0)) < 1e-6  # for t >= 1 it does, of a single release


# How often a sample is cut --------------------------------------------------------------------------------------------


def at_least(n: int, rate: Fraction, least: int) -> Fraction:
    return sum((comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(least, n + 1)), Fraction(0))


def exactly(rate: float, size: int, population: int) -> tuple[Fraction, Fraction]:
    """Return p and the mean rate γ̄, from the sum over how many others are sampled."""
    g, n = Fraction(rate), population
    chances = {k: comb(n - 1, k) * g**k * (1 - g) ** (n - 1 - k) for k in range(size, n)}
    p = sum(chances.values(), Fraction(0))
    return p, sum((chance * g * size / (k + 1) for k, chance in chances.items()), Fraction(0)) / p


@pytest.mark.parametrize(
    ("rate", "size", "population"),
    [(0.3, 2, 7), (0.9, 1, 3), (1e-5, 3, 40), (0.999999, 30, 31), (0.01, 12, 300), (0.2, 1, 300), (1.0, 4, 9)],
)
def test_probabilities_lie_on_the_safe_side(rate: float, size: int, population: int) -> None:
    found = cut_samples(rate, size, population)
    p, mean_rate = exactly(rate, size, population)
    assert Fraction(found.share) <= p
    assert Fraction(found.share) * Fraction(found.rate) >= p * mean_rate
    assert Fraction(found.rest) >= 1 - Fraction(found.share)
    assert found.share >= float(p) * (1 - 1e-9)
    assert found.rate <= float(mean_rate) * (1 + 1e-9)
    in_batch = (1 - p) * Fraction(rate) + p * mean_rate
    assert (1 - Fraction(1, 10**9)) * in_batch <= Fraction(rate_in_batch(rate, size, population)) <= in_batch


@pytest.mark.parametrize(
    ("rate", "size", "population"),
    [(0.01, 120, 10_000), (1e-6, 1100, 10**9), (0.3, 30_100, 10**5), (0.001, 1_003_000, 10**9), (0.5, 10, 10_000)],
)
def test_probabilities_of_many_records_by_incomplete_beta_functions(rate: float, size: int, population: int) -> None:
    """Pr[Bin(n, γ) >= k] is I_γ(k, n-k+1), of which balls have a proven error."""
    found = cut_samples(rate, size, population)
    with precision(200):
        x: Any = arb(rate)
        p = x.beta_lower(arb(size), arb(population - size), True)
        in_cut = x.beta_lower(arb(size + 1), arb(population - size), True) * size / population
        assert arb(found.share) <= p
        assert arb(found.share) * arb(found.rate) >= in_cut
        assert arb(found.share) * (1 + 1e-10) >= p
        assert arb(found.share) * arb(found.rate) <= in_cut * (1 + 1e-10)


def test_a_rate_that_was_rounded_up_is_covered() -> None:
    """ε does not grow with the rate, so 1/3 itself must have its probabilities on the safe side, too."""
    for size, population in ((1, 3), (5, 9), (40, 90)):
        rate = math.nextafter(1 / 3, 1.0)
        g = Fraction(1, 3)
        found = cut_samples(rate, size, population)
        p = at_least(population - 1, g, size)
        assert Fraction(found.share) <= p
        assert Fraction(found.share) * Fraction(found.rate) >= at_least(population, g, size + 1) * size / population


def test_probabilities_of_the_reference() -> None:
    found = cut_samples(0.01, 120, 10_000)
    assert found.share == pytest.approx(0.0275314631, abs=1e-10)
    assert found.rate == pytest.approx(0.0096389303, abs=1e-10)


def test_where_doubles_hold_no_probability_of_a_cut_it_counts_for_nothing() -> None:
    gaussian = cm.Gaussian(noise_multiplier=1.0)
    rare = gaussian.poisson(rate=1e-3, max_batch=90, population=100) * 1000
    whole = gaussian.poisson(rate=1e-3) * 1000
    assert whole.epsilon(delta=1e-9) <= rare.epsilon(delta=1e-9) * (1 + 1e-9)
    assert rare.epsilon(delta=1e-9) <= whole.epsilon(delta=1e-9) * (1 + 1e-6)


# References -----------------------------------------------------------------------------------------------------------


PAIRS = {
    cm.ADD_REMOVE: lambda rate, far: (two(rate, far), [(1.0, 0.0)]),
    cm.ZERO_OUT: lambda rate, far: (two(rate, far), two(rate, 1.0 - far) if far > 1 else [(1.0, 0.0)]),
    cm.REPLACE_ONE: lambda rate, far: (two(rate, far), two(rate, -far)),
}
"""Of a cut sample, which moves the mean by up to 2, and of a whole one, by up to 1."""

REFERENCES = [
    (cm.ADD_REMOVE, 120, 5.228448543, 2e-8),
    (cm.ZERO_OUT, 120, 5.252933, 2e-6),
    (cm.ADD_REMOVE, 130, 3.66980, 1e-5),
    (cm.ZERO_OUT, 130, 3.68063, 5e-5),
]


@pytest.mark.parametrize(("relation", "most", "reference", "near"), REFERENCES)
def test_the_reference_runs(relation: Neighbors, most: int, reference: float, near: float) -> None:
    """Noise 1, rate .01, 10 000 records, 1000 steps: to the digits that two other computations agreed on."""
    run = sample(relation, 10_000, most, 0.01, 1.0) * 1000
    assert run.epsilon(delta=1e-5) == pytest.approx(reference, abs=near)


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
def test_against_losses_on_a_grid(relation: Neighbors) -> None:
    """The grid lies above the truth by a share that falls with h²; what it says of two widths tells where it ends."""
    run = sample(relation, 10_000, 120, 0.01, 1.0) * 1000
    epsilon = run.epsilon(delta=1e-5)
    found = cut_samples(0.01, 120, 10_000)
    parts = [(found.rest, PAIRS[relation](0.01, 1.0)), (found.share, PAIRS[relation](found.rate, 2.0))]
    (coarse,), (fine,) = (delta_on_a_grid(parts, 1000, [epsilon], h) for h in (4e-4, 2e-4))
    assert fine >= 1e-5 * (1 - 1e-9)  # no answer may be below the truth, and the grid is above it
    assert (4 * fine - coarse) / 3 == pytest.approx(1e-5, rel=1e-6)


def test_truncation_is_not_monotone_in_the_number_of_records() -> None:
    found = [
        (sample(cm.ADD_REMOVE, n, 120, 0.01, 1.0) * 1000).epsilon(delta=1e-5) for n in (5000, 10_000, 15_000, 40_000)
    ]
    assert found == pytest.approx([1.84, 5.23, 11.17, 5.72], abs=0.015)


def test_the_two_sizes_of_add_or_remove_are_the_population_and_one_less() -> None:
    joins = sample(cm.ADD_REMOVE, 10_001, 120, 0.01, 1.0) * 1000
    assert joins.epsilon(delta=1e-5) == pytest.approx(5.2302, abs=1e-4)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("order", [1.5, 4.0, 6.0])
def test_renyi_divergences_of_the_pair(relation: Neighbors, order: float) -> None:
    """By the trapezoidal rule on both parts, in both directions: at least the larger one, and hardly more."""
    step = sample(relation, 100, 4, 0.03, 1.5)
    found = cut_samples(0.03, 4, 100)
    t = np.linspace(-50.0, 50.0, 400_001)

    def moment(pair: Pair) -> float:
        p, q = (density(law, t, 1.5) for law in pair)
        return float(np.sum(p * (p / q) ** (order - 1)) * (100.0 / 400_000) / (1.5 * math.sqrt(2 * math.pi)))

    pairs = [(found.rest, PAIRS[relation](0.03, 1.0)), (found.share, PAIRS[relation](found.rate, 2.0))]
    both = [pairs, [(share, (b, a)) for share, (a, b) in pairs]]
    truth = max(math.fsum(share * moment(pair) for share, pair in one_way) for one_way in both)
    value = (order - 1) * step.rdp(order=order)
    assert value >= math.log(truth) * (1 - 1e-8)
    assert value <= math.log(truth) * (1 + 1e-6)


# People with several records ------------------------------------------------------------------------------------------


def person(values: tuple[float, ...], rate: float) -> Mixture:
    return [(chance, math.fsum(values[i] for i in some)) for chance, some in coins(rate, len(values))]


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("sigma", "rate"), [(0.7, 0.4), (2.0, 0.05)])
def test_no_person_attains_more(relation: Neighbors, sigma: float, rate: float) -> None:
    """Of up to three records, of any values: fewer, and opposite ones, are among them."""
    step = PoissonUsers(mechanism=cm.Gaussian(noise_multiplier=sigma), rate=rate, records_per_user=3, relation=relation)
    people = [values for k in range(4) for values in product((-1.0, 0.5, 1.0), repeat=k)]
    others = [(), (-1.0,), (-1.0, -1.0, -1.0)] if relation is cm.REPLACE_ONE else [()]
    menus = [(person(one, rate), person(other, rate)) for one in people for other in others]
    for epsilon in EPSILONS:
        both = [*menus, *((b, a) for a, b in menus)]
        most = max(attained(one, other, math.exp(epsilon), sigma) for one, other in both)
        answer = step.delta(epsilon=epsilon)
        assert answer >= most
        assert answer <= most * 1.001 + 1e-9  # attained by three equal records


def test_people_of_the_reference() -> None:
    """Three records each: certified, and by losses on a grid, which is above by a share that falls with h²."""
    run = cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.01, records_per_user=3) * 1000
    epsilon, interval = run.epsilon(delta=1e-5), run.epsilon_interval(delta=1e-5)
    assert interval.certified
    assert interval.lower <= epsilon <= interval.upper * (1 + 1e-9)
    assert epsilon == pytest.approx(2.092249, abs=2e-6)
    law = [(comb(3, j) * 0.01**j * 0.99 ** (3 - j), j / 2) for j in range(4)]
    (coarse,), (fine,) = (delta_on_a_grid([(1.0, (law, [(1.0, 0.0)]))], 1000, [epsilon], h) for h in (4e-4, 2e-4))
    assert (4 * fine - coarse) / 3 == pytest.approx(1e-5, rel=1e-6)


def test_one_record_is_a_poisson_sample() -> None:
    gaussian = cm.Gaussian(noise_multiplier=1.0)
    assert gaussian.poisson(rate=0.1, records_per_user=1) == gaussian.poisson(rate=0.1)
    kept = PoissonUsers(mechanism=gaussian, rate=0.1, records_per_user=1)
    assert (kept * 10).epsilon(delta=1e-5) == (gaussian.poisson(rate=0.1) * 10).epsilon(delta=1e-5)
    everyone = PoissonUsers(mechanism=gaussian, rate=1.0, records_per_user=4)
    assert everyone.epsilon(delta=1e-5) == gaussian.group(size=4).epsilon(delta=1e-5)


def test_more_people_are_more_records() -> None:
    step = cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.01, records_per_user=3) * 100
    six = cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.01, records_per_user=6) * 100
    assert step.group(size=2).epsilon(delta=1e-5) == six.epsilon(delta=1e-5)


# Refusals -------------------------------------------------------------------------------------------------------------


def test_what_no_theorem_covers_is_refused() -> None:
    gaussian, laplace = cm.Gaussian(noise_multiplier=1.0), cm.Laplace(scale=1.0)
    with pytest.raises(cm.InvalidParameter, match="Truncation is not monotone in the size of the data"):
        gaussian.poisson(rate=0.1, max_batch=5)
    with pytest.raises(cm.InvalidParameter, match="population belongs to max_batch"):
        gaussian.poisson(rate=0.1, population=5)
    with pytest.raises(cm.UnprovenCombination, match="no theorem together"):
        gaussian.poisson(rate=0.1, max_batch=5, population=50, records_per_user=2)
    some: list[dict[str, Any]] = [{"max_batch": 5, "population": 50}, {"records_per_user": 2}]
    for options in some:
        with pytest.raises(cm.UnprovenCombination, match="proven here for Gaussian noise"):
            laplace.poisson(rate=0.1, **options)
        step = gaussian.poisson(rate=0.1, **options)
        with pytest.raises(cm.UnprovenCombination, match="sample"):
            step.poisson(rate=0.1)
        with pytest.raises(cm.UnprovenCombination, match="sample"):
            gaussian.poisson(rate=0.1, neighbors=cm.REPLACE_ONE, **options).without_replacement(rate=0.1)
    with pytest.raises(cm.UnprovenCombination, match="changes the size"):
        gaussian.poisson(rate=0.1, max_batch=5, population=50).group(size=2)
    with pytest.raises(cm.InvalidParameter, match="at most 64"):
        gaussian.poisson(rate=0.1, records_per_user=65)


def test_people_and_single_records_do_not_compose() -> None:
    gaussian = cm.Gaussian(noise_multiplier=1.0)
    people, records = gaussian.poisson(rate=0.1, records_per_user=3), gaussian.poisson(rate=0.1)
    with pytest.raises(cm.MixedNeighbors, match="with 1 and with 3 records"):
        people + records
    with pytest.raises(cm.MixedNeighbors, match="with 1 and with 3 records"):
        cm.parallel([people, records])
    assert (people + gaussian).epsilon(delta=1e-5) > people.epsilon(delta=1e-5)  # its sensitivity is that of a person


def test_a_largest_size_above_the_population_cuts_nothing() -> None:
    gaussian = cm.Gaussian(noise_multiplier=1.0)
    for relation in RELATIONS:
        cut = gaussian.poisson(rate=0.1, max_batch=50, population=50, neighbors=relation) * 10
        assert cut.epsilon(delta=1e-5) == (gaussian.poisson(rate=0.1, neighbors=relation) * 10).epsilon(delta=1e-5)
