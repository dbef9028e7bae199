"""Samplers of one's own: the three schemes fall out, and enumeration confirms others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import brute_force as bf
from cumulant.errors import InvalidParameter
from cumulant.profiles.profile import GroupProfiles, PrivacyProfile, approximate_groups, gaussian_groups, laplace_groups
from cumulant.profiles.samplers import (
    Batch,
    Law,
    added_or_removed_records,
    are_compatible,
    best_coupling,
    maximal_coupling,
    multiplicity_profile,
    nearest_distances,
    replaced_records,
    sampler_profile,
)
from cumulant.profiles.sampling import (
    amplified_profile,
    hybrid_with_replacement_profile,
    poisson_profile,
    with_replacement_profile,
    without_replacement_profile,
)
from test_draws import exact_groups, hockey_stick

EPSILONS = [0.0, 0.01, 0.1, 0.4, 1.0, 2.0]
GROUPS: list[GroupProfiles] = [laplace_groups(1.0), gaussian_groups(0.8), approximate_groups(0.5, 1e-3)]
FLOATS = 1e-13  # absolute: what the enumeration itself may be off by


def close(one: PrivacyProfile, other: PrivacyProfile) -> None:
    for epsilon in EPSILONS:
        assert one.delta(epsilon) == pytest.approx(other.delta(epsilon), rel=1e-11)
    assert one.pure == pytest.approx(other.pure, rel=1e-12)


def with_counts(data: Batch, draws: int) -> dict[Batch, Fraction]:
    return dict(bf.with_replacement_shares(data, draws))


# The three schemes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", GROUPS)
def test_poisson_sampling_falls_out(groups: GroupProfiles) -> None:
    """Theorem 8, from all subsets of four records; the law of how often the record is there says the same."""
    rate = Fraction(3, 10)
    one, other = (dict(bf.poisson_shares(data, rate)) for data in ((1, 2, 3, 4), (1, 2, 3)))
    theorem = poisson_profile(groups(1), rate=0.3)
    close(sampler_profile(groups, one, other, distance=added_or_removed_records), theorem)
    close(multiplicity_profile(groups, {0: 1 - rate, 1: rate}), theorem)


@pytest.mark.parametrize("groups", GROUPS)
def test_batches_fall_out(groups: GroupProfiles) -> None:
    """Theorem 9: two of five records."""
    one, other = (dict(bf.without_replacement_shares(data, 2)) for data in ((1, 2, 3, 4, 5), (1, 2, 3, 4, 6)))
    theorem = without_replacement_profile(groups(1), batch=2, population=5)
    close(sampler_profile(groups, one, other, distance=replaced_records), theorem)
    close(multiplicity_profile(groups, {0: 0.6, 1: 0.4}), theorem)


@pytest.mark.parametrize("groups", GROUPS)
def test_draws_fall_out(groups: GroupProfiles) -> None:
    """Theorem 10, three draws of four; and Theorem 11, where a record is gone."""
    one, other = with_counts((1, 2, 3, 4), 3), with_counts((1, 2, 3, 5), 3)
    theorem = with_replacement_profile(groups, draws=3, population=4)
    close(sampler_profile(groups, one, other, distance=replaced_records), theorem)
    binomial = {k: Fraction(math.comb(3, k) * 3 ** (3 - k), 4**3) for k in range(4)}
    close(multiplicity_profile(groups, binomial), theorem)
    hybrid = sampler_profile(groups, one, with_counts((1, 2, 3), 3), distance=replaced_records)
    close(hybrid, hybrid_with_replacement_profile(groups, draws=3, population=4))


# Their own ------------------------------------------------------------------------------------------------------------


def in_pairs(x: Batch) -> Law:
    """Two lines: the first two records, or the last two, each with probability ½."""
    return [(tuple(sorted(x[:2])), 0.5), (tuple(sorted(x[1:])), 0.5)]


def often_the_first(x: Batch) -> Law:
    """The first record twice, or once with another, or the others."""
    return [((x[0], x[0]), 0.2), (tuple(sorted(x[:2])), 0.3), (tuple(sorted(x[1:])), 0.5)]


def output(mechanism: bf.Mechanism, law: Law) -> bf.Array:
    rows = law.items() if isinstance(law, dict) else law
    return np.asarray(sum(float(p) * mechanism[batch] for batch, p in rows))


@pytest.mark.parametrize("sampler", [in_pairs, often_the_first])
@pytest.mark.parametrize("seed", range(4))
def test_a_sampler_of_two_lines_is_covered(sampler: Callable[[Batch], Law], seed: int) -> None:
    """Every dataset of three records of three kinds, every neighbour, a random mechanism on batches of two."""
    generator = np.random.default_rng(seed)
    mechanism = bf.random_mechanism(generator, universe=3, sizes=range(2, 3), outputs=3, spread=1.0 + seed)
    groups = exact_groups(mechanism)
    for x in itertools.product(range(3), repeat=3):
        for place, record in itertools.product(range(3), range(3)):
            y = (*x[:place], record, *x[place + 1 :])
            bound = sampler_profile(groups, sampler(x), sampler(y), distance=replaced_records)
            p, q = output(mechanism, sampler(x)), output(mechanism, sampler(y))
            for epsilon in EPSILONS:
                assert bound.delta(epsilon) >= hockey_stick(p, q, epsilon) - FLOATS


def test_pairs_of_neighbours_are_a_batch_of_rate_one_half() -> None:
    """The first record is in one of two pairs: η = ½, and the profile is amplified as by Theorem 9."""
    groups = laplace_groups(1.0)
    first = sampler_profile(groups, in_pairs((1, 2, 3)), in_pairs((4, 2, 3)), distance=replaced_records)
    close(first, amplified_profile(groups(1), 0.5))
    middle = sampler_profile(groups, in_pairs((1, 2, 3)), in_pairs((1, 4, 3)), distance=replaced_records)
    close(middle, groups(1))  # the middle record is in both


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_poisson_sampling_under_replace_one_is_incompatible_but_covered(epsilon: float) -> None:
    """The section on incompatible relations: one batch is at distance 1 from ω₀ and at 2 from ω₁'."""
    rate = Fraction(1, 3)
    one, other = (dict(bf.poisson_shares(data, rate)) for data in ((0, 1), (1, 2)))
    overlap = maximal_coupling(one, other)
    assert overlap.rate == rate
    mixed = {b: (overlap.shared.get(b, 0) + overlap.other.get(b, 0)) / 2 for b in {*overlap.shared, *overlap.other}}
    assert not are_compatible(overlap.own, mixed, distance=added_or_removed_records)
    generator = np.random.default_rng(1)
    mechanism = bf.random_mechanism(generator, universe=3, sizes=range(3), outputs=3, spread=1.0)
    both = list(itertools.product(mechanism.items(), repeat=2))

    def at_distance(size: int) -> PrivacyProfile:
        near = [(p, q) for (x, p), (y, q) in both if added_or_removed_records(x, y) <= size]
        return PrivacyProfile(lambda e: math.log(max(hockey_stick(p, q, e) for p, q in near) + 1e-15))

    bound = sampler_profile(at_distance, one, other, distance=added_or_removed_records)
    assert bound.delta(epsilon) >= hockey_stick(output(mechanism, one), output(mechanism, other), epsilon) - FLOATS


# Couplings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_best_couplings_are_those_of_a_linear_program(seed: int) -> None:
    from scipy.optimize import linprog

    generator = np.random.default_rng(seed)
    batches = list(bf.batches(3, 3))
    laws = []
    for _ in range(2):
        some = generator.choice(len(batches), size=5, replace=False)
        whole = generator.integers(1, 9, size=5).tolist()
        laws.append({batches[i]: Fraction(n, sum(whole)) for i, n in zip(some.tolist(), whole, strict=True)})
    one, other = laws
    found = best_coupling(one, other, distance=replaced_records)
    assert sum(found.values()) == 1
    cost = [replaced_records(a, b) for a, b in itertools.product(one, other)]
    rows = np.vstack([np.kron(np.eye(5), np.ones(5)), np.kron(np.ones(5), np.eye(5))])
    margins = [float(p) for law in laws for p in law.values()]
    least = linprog(cost, A_eq=rows, b_eq=margins).fun
    assert float(sum(k * p for k, p in found.items())) == pytest.approx(least, abs=1e-9)
    nearest = nearest_distances(one, other, distance=replaced_records)
    assert are_compatible(one, other, distance=replaced_records) == (
        abs(least - sum(k * p for k, p in nearest.items())) < 1e-9
    )


def test_the_overlap_adds_up() -> None:
    """ω = (1-η)ω₀ + ηω₁, and so for ω'; ω₁ and ω₁' have no batch in common; η is the total variation."""
    one, other = with_counts((1, 2, 3), 2), with_counts((1, 2, 4), 2)
    overlap = maximal_coupling(one, other)
    for law, part in ((one, overlap.own), (other, overlap.other)):
        for batch in law:
            total = (1 - overlap.rate) * overlap.shared.get(batch, 0) + overlap.rate * part.get(batch, 0)
            assert total == law[batch]
    assert not set(overlap.own) & set(overlap.other)
    everything = {*one, *other}
    assert overlap.rate == sum(abs(Fraction(one.get(b, 0)) - Fraction(other.get(b, 0))) for b in everything) / 2


def test_what_is_no_law_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="add up to 1"):
        maximal_coupling({(1,): 0.5}, {(1,): 1.0})
    with pytest.raises(InvalidParameter, match="same size"):
        replaced_records((1, 2), (1,))
    with pytest.raises(InvalidParameter, match="add up to 1"):
        multiplicity_profile(laplace_groups(1.0), {0: 0.2, 1: 0.2})
