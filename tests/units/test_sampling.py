"""Sampled mechanisms: against enumeration of tiny worlds, published figures, and the laws of sampling."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import brute_force as bf
import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from strategies import log_uniform

ORDERS = (1.1, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
FLOATS = 1e-13  # absolute: what the enumeration itself may be off by
ROUNDING = 1e-12
SLOW = settings(deadline=None, max_examples=25)
SEEDS = range(8)
Scheme = Callable[[AbstractMechanism, float], AbstractMechanism]


# Against enumeration --------------------------------------------------------------------------------------------------


def some_mechanism(seed: int, universe: int, sizes: range) -> bf.Mechanism:
    """Return random mechanisms, mild and extreme, and two for which amplification is at its worst."""
    generator = np.random.default_rng(seed)
    if seed % 4 == 0:
        return bf.membership(universe=universe, sizes=sizes, p=float(generator.uniform(0.55, 0.99)))
    if seed % 4 == 1:
        return bf.majority(universe=universe, sizes=sizes, p=float(generator.uniform(0.55, 0.99)))
    return bf.random_mechanism(
        generator, universe=universe, sizes=sizes, outputs=2 + seed % 3, spread=(0.2, 1.0, 3.0)[seed % 3]
    )


def known_by(pairs: bf.Pairs) -> list[AbstractMechanism]:
    """Return what the library can be told of a mechanism: its exact RDP curve, or its exact pure ε."""
    pure = pairs.pure() * (1 + 1e-15)
    return [cm.RenyiCurve(cache(pairs.renyi)), cm.PureDP(epsilon=pure)]


def assert_covered(bound: AbstractMechanism, truth: bf.Pairs) -> None:
    values = bound.rdp(order=np.array(ORDERS))
    for order, value in zip(ORDERS, values, strict=True):
        assert value >= truth.renyi(order) * (1 - ROUNDING) - FLOATS, (bound, order)
    assert bound.rdp(order=math.inf) >= truth.pure() * (1 - ROUNDING)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("seed", SEEDS)
def test_poisson_add_or_remove_one_by_enumeration(seed: int, rate: float) -> None:
    universe, n = 2, 3
    mechanism = some_mechanism(seed, universe, range(n + 2))
    base = bf.both_directions(bf.added(universe, range(n)), mechanism.__getitem__)
    truth = bf.both_directions(bf.added(universe, range(n)), lambda data: bf.poisson(mechanism, data, rate))
    for known in known_by(base):
        assert_covered(known.poisson(rate=rate), truth)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("seed", SEEDS)
def test_poisson_replace_one_by_enumeration(seed: int, rate: float) -> None:
    universe, n = 3, 3
    mechanism = some_mechanism(seed, universe, range(n + 1))
    base = bf.both_directions(bf.added(universe, range(n)), mechanism.__getitem__)
    truth = bf.both_directions(bf.replaced(universe, n), lambda data: bf.poisson(mechanism, data, rate))
    for known in known_by(base):
        assert_covered(known.poisson(rate=rate, neighbors=cm.REPLACE_ONE), truth)


@pytest.mark.parametrize(("batch", "population"), [(1, 2), (1, 4), (2, 3), (2, 4), (3, 4)])
@pytest.mark.parametrize("seed", SEEDS)
def test_without_replacement_by_enumeration(seed: int, batch: int, population: int) -> None:
    """Both relations: a record replaced, or added to a dataset one smaller while the batch stays as it is."""
    universe = 3
    mechanism = some_mechanism(seed, universe, range(batch, batch + 1))
    base = bf.both_directions(bf.replaced(universe, batch), mechanism.__getitem__)

    def output(data: bf.Batch) -> bf.Array:
        return bf.without_replacement(mechanism, data, batch)

    replaced = bf.both_directions(bf.replaced(universe, population), output)
    added = bf.both_directions(bf.added(universe, [population - 1]), output)
    for known in known_by(base):
        assert_covered(known.without_replacement(batch=batch, population=population), replaced)
        step = known.without_replacement(batch=batch, population=population, neighbors=cm.ADD_REMOVE)
        assert_covered(step, added)


@pytest.mark.parametrize(("draws", "population"), [(1, 3), (2, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_replacement_by_enumeration(seed: int, draws: int, population: int) -> None:
    universe = 3
    mechanism = some_mechanism(seed, universe, range(draws, draws + 1))
    base = bf.both_directions(bf.replaced(universe, draws), mechanism.__getitem__)

    def output(data: bf.Batch) -> bf.Array:
        return bf.with_replacement(mechanism, data, draws)

    known = known_by(base)[1]
    truth = bf.both_directions(bf.replaced(universe, population), output)
    assert_covered(known.with_replacement(draws=draws, population=population), truth)
    added = bf.both_directions(bf.added(universe, [population]), output)  # the smaller dataset has n records
    assert_covered(known.with_replacement(draws=draws, population=population, neighbors=cm.ADD_REMOVE), added)


@pytest.mark.parametrize("seed", SEEDS)
def test_composed_and_nested_samples_by_enumeration(seed: int) -> None:
    """Two independent samples cost the sum; a sample of a sample of two releases is covered as well."""
    universe, n, inner, outer = 2, 2, 0.3, 0.6
    mechanism = some_mechanism(seed, universe, range(n + 2))
    base = bf.both_directions(bf.added(universe, range(n + 1)), mechanism.__getitem__)

    def twice(data: bf.Batch) -> bf.Array:
        once = bf.poisson(mechanism, data, inner)
        return np.outer(once, once).ravel()

    both = {batch: twice(batch) for size in range(n + 2) for batch in bf.batches(universe, size)}
    truth = bf.both_directions(bf.added(universe, range(n)), both.__getitem__)
    nested = bf.both_directions(bf.added(universe, range(n)), lambda data: bf.poisson(both, data, outer))
    thinned = bf.both_directions(bf.added(universe, range(n)), lambda data: bf.poisson(mechanism, data, inner * outer))
    for known in known_by(base):
        assert_covered(known.poisson(rate=inner) * 2, truth)
        assert_covered((known.poisson(rate=inner) * 2).poisson(rate=outer), nested)
        assert_covered(known.poisson(rate=inner).poisson(rate=outer), thinned)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_of_a_batch_by_enumeration(seed: int) -> None:
    """One of two of four."""
    universe = 3
    mechanism = some_mechanism(seed, universe, range(1, 2))
    inside = {pair: bf.without_replacement(mechanism, pair, 1) for pair in bf.batches(universe, 2)}
    base = bf.both_directions(bf.replaced(universe, 1), mechanism.__getitem__)
    truth = bf.both_directions(bf.replaced(universe, 4), lambda data: bf.without_replacement(inside, data, 2))
    for known in known_by(base):
        inner = known.without_replacement(batch=1, population=2)
        assert_covered(inner.without_replacement(batch=2, population=4), truth)


@pytest.mark.parametrize("scheme", ["without_replacement", "with_replacement"])
def test_a_fixed_batch_of_a_poisson_sample_is_not_sampled_at_the_product_of_rates(scheme: str) -> None:
    """One record of a Poisson sample of four records: the sample is smaller than four, so its records come up more.

    Either the combination is refused, or it covers the enumeration.
    """
    universe, n, rate, p = 2, 4, 0.5, 0.75
    mechanism = bf.membership(universe=universe, sizes=range(2), p=p)
    inside = {
        data: bf.without_replacement(mechanism, data, 1) for size in range(n + 1) for data in bf.batches(universe, size)
    }
    truth = bf.both_directions(bf.added(universe, [n - 1]), lambda data: bf.poisson(inside, data, rate))
    base = cm.RandomizedResponse(p=p)
    try:
        if scheme == "without_replacement":
            inner = base.without_replacement(batch=1, population=n, neighbors=cm.ADD_REMOVE)
        else:
            inner = base.with_replacement(draws=1, population=n, neighbors=cm.ADD_REMOVE)
        bound = inner.poisson(rate=rate)
    except (cm.UnprovenCombination, cm.MixedNeighbors):
        return
    assert_covered(bound, truth)


def test_two_removals_from_a_population_meet_a_smaller_population() -> None:
    """A group of two for batches of 1 of 3: the second removal is from a population of 2, at a rate of ½."""
    universe, p = 2, 0.9
    mechanism = bf.membership(universe=universe, sizes=range(2), p=p)
    data = [(0, 0, 1), (0, 1), (1,)]
    truth = [bf.without_replacement(mechanism, batch, 1) for batch in data]
    try:
        step = cm.RandomizedResponse(p=p).without_replacement(batch=1, population=3, neighbors=cm.ADD_REMOVE)
        bound = step.group(size=2)
    except (cm.UnprovenCombination, cm.MixedNeighbors):
        return
    assert_covered(bound, bf.ordered([(truth[0], truth[2])]))


@pytest.mark.parametrize("order", [2, 3, 8, 64])
@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.5, 0.99])
@pytest.mark.parametrize(
    "mechanism",
    [
        cm.Gaussian(noise_multiplier=0.5),
        cm.Gaussian(noise_multiplier=5.0),
        cm.Laplace(scale=1.0),
        cm.RandomizedResponse(p=0.75),
    ],
    ids=repr,
)
def test_what_is_attained_is_below_what_is_proven(mechanism: AbstractMechanism, rate: float, order: int) -> None:
    """Proposition 20 of Wang et al. (2019) and Theorem 6 of Zhu and Wang (2019)."""
    batch = mechanism.without_replacement(rate=rate).rdp_interval(order=order)
    sample = mechanism.poisson(rate=rate).rdp_interval(order=order)
    assert 0 < batch.lower <= batch.upper
    assert sample.lower <= sample.upper <= sample.lower * (1 + 1e-11)  # attained
    assert batch.lower == sample.lower
    assert batch.upper >= sample.upper * (1 - ROUNDING)


# Figures --------------------------------------------------------------------------------------------------------------


def in_batches(mechanism: AbstractMechanism, rate: float) -> AbstractMechanism:
    return mechanism.without_replacement(rate=rate)


def poisson(mechanism: AbstractMechanism, rate: float) -> AbstractMechanism:
    return mechanism.poisson(rate=rate)


FIGURES: list[tuple[Scheme, AbstractMechanism, float, int, tuple[float, float]]] = [
    (poisson, cm.Gaussian(noise_multiplier=1.0), 0.01, 1000, (1.8282366665, 2.1014)),
    (poisson, cm.Laplace(scale=1.0), 0.01, 1000, (0.0, 1.2303)),
    (poisson, cm.RandomizedResponse(p=0.75), 0.01, 1000, (0.0, 1.5674)),
    (in_batches, cm.Gaussian(noise_multiplier=1.0), 0.01, 1000, (1.8282366665, 2.457)),
    (in_batches, cm.Gaussian(noise_multiplier=5.0), 0.01, 1000, (0.0, 0.2505)),
    (in_batches, cm.Gaussian(noise_multiplier=50.0), 0.01, 100, (0.0, 0.00525)),
    (poisson, cm.Gaussian(noise_multiplier=0.2), 0.001, 100, (0.0, 39.6)),
]


@pytest.mark.parametrize(("scheme", "mechanism", "rate", "steps", "figures"), FIGURES)
def test_epsilon_of_the_reference_runs(
    scheme: Scheme, mechanism: AbstractMechanism, rate: float, steps: int, figures: tuple[float, float]
) -> None:
    """At or above what is attained where that is known, and at or below the published bound."""
    attained, figure = figures
    run = scheme(mechanism, rate) * steps
    assert attained < run.epsilon(delta=1e-5, method="rdp") <= figure
    assert run.epsilon(delta=1e-5) <= run.epsilon(delta=1e-5, method="rdp")


EXACT = [  # σ, γ, steps, δ and the exact ε of the composed pair, removed record, to ten digits
    (1.0, 0.01, 1000, 1e-5, 1.8282366665),
    (0.8, 256 / 60000, 14063, 1e-5, 4.5500127575),
    (2.0, 0.1, 5000, 1e-6, 24.431123731),
    (1.0, 1e-4, 10**6, 1e-5, 0.45921000636),
    (0.5, 0.01, 100, 1e-5, 6.47621000429),
    (1.0, 0.01, 1000, 1e-15, 4.8545377506),
    (1.0, 0.01, 1000, 1e-100, 29.598711591),
    (2.0, 0.1, 500, 1e-5, 5.55546821437823),
    (2.0, 0.1, 500, 1e-50, 21.4245164051982),
    (1.1, 0.02, 100, 1e-10, 2.52245618079683),
]


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta", "exact"), EXACT)
def test_rdp_is_above_the_exact_epsilon(sigma: float, rate: float, steps: int, delta: float, exact: float) -> None:
    """RDP loses up to a third to the exact answer at such settings, and never wins."""
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * steps
    assert exact * (1 - 1e-9) <= run.epsilon(delta=delta) <= run.epsilon(delta=delta, method="rdp") <= 1.34 * exact


def test_rate_one_at_the_exact_inversion() -> None:
    """σ = 10, 10⁴ steps, no sampling: the closed form for Gaussians."""
    run = cm.Gaussian(noise_multiplier=10.0).poisson(rate=1.0) * 10_000
    assert 91.817289624 <= run.epsilon(delta=1e-5, method="rdp") <= 1.34 * 91.817289624664


# Laws -----------------------------------------------------------------------------------------------------------------

BASES: list[AbstractMechanism] = [
    cm.Gaussian(noise_multiplier=0.7),
    cm.Gaussian(noise_multiplier=1.0) * 3,
    cm.Laplace(scale=0.5),
    cm.RandomizedResponse(p=0.9),
    cm.PureDP(epsilon=1.0),
    cm.ApproximateDP(epsilon=1.0, delta=1e-7),
    cm.ZCDP(rho=0.1, xi=0.1),
    cm.TruncatedCDP(rho=0.1, omega=20.0),
    cm.RenyiCurve([(2, 0.3), (4, 0.9), (32, 3.0)]),
    cm.RenyiCurve(lambda order: 0.2 * order),
    cm.Laplace(scale=1.0) + cm.Gaussian(noise_multiplier=2.0),
]
SCHEMES: dict[str, Scheme] = {
    "poisson": lambda m, rate: m.poisson(rate=rate),
    "poisson replace-one": lambda m, rate: m.poisson(rate=rate, neighbors=cm.REPLACE_ONE),
    "batch": lambda m, rate: m.without_replacement(rate=rate),
    "batch add-remove": lambda m, rate: m.without_replacement(rate=rate, neighbors=cm.ADD_REMOVE),
}
every_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
every_base = pytest.mark.parametrize("base", BASES, ids=lambda m: f"{m!r}"[:40].partition(" at 0x")[0])
LAW_ORDERS = np.array([1.0, 1.001, 1.5, 2.0, 2.5, 5.0, 17.3, 60.0])


def rates() -> SearchStrategy[float]:
    return st.one_of(log_uniform(1e-9, 1.0), log_uniform(1e-12, 1.0).map(lambda x: 1 - x))


@every_scheme
@every_base
def test_more_sampling_never_costs_less(base: AbstractMechanism, scheme: Scheme) -> None:
    """Up to and including all of the data."""
    ladder = [0.0, 1e-9, 1e-6, 1e-3, 0.3, 0.9, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1.0]
    costs = [scheme(base, rate).rdp(order=LAW_ORDERS) for rate in ladder]
    for rate, (less, more) in zip(ladder, pairwise(costs), strict=False):
        assert (less[1:] <= more[1:] * (1 + ROUNDING)).all(), rate
        assert less[0] <= more[0] * (1 + 1e-5), rate  # KL, which is a slope where it has no closed form


@every_scheme
@given(data=st.data())
@SLOW
def test_epsilon_does_not_decrease_with_the_rate(scheme: Scheme, data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(BASES))
    low, high = sorted((data.draw(rates()), data.draw(rates())))
    delta = data.draw(log_uniform(1e-12, 0.1))
    less, more = (scheme(base, rate).epsilon(delta=delta, method="rdp") for rate in (low, high))
    assert less <= more * (1 + 1e-9) + 1e-15


@every_scheme
@every_base
def test_sampling_never_costs_more_than_none(base: AbstractMechanism, scheme: Scheme) -> None:
    whole = base.group(size=2) if scheme is SCHEMES["poisson replace-one"] else base
    for rate in (1e-6, 0.1, 0.5, 0.99, 1 - 1e-12):
        assert (scheme(base, rate).rdp(order=LAW_ORDERS[1:]) <= whole.rdp(order=LAW_ORDERS[1:]) * (1 + ROUNDING)).all()


@every_scheme
@every_base
def test_rate_one_is_the_mechanism_and_rate_zero_is_free(base: AbstractMechanism, scheme: Scheme) -> None:
    whole = base.group(size=2) if scheme is SCHEMES["poisson replace-one"] else base
    everyone = scheme(base, 1.0).rdp(order=LAW_ORDERS)
    if whole == base or not isinstance(base, cm.PureDP):
        np.testing.assert_array_equal(everyone, whole.rdp(order=LAW_ORDERS))
    else:  # a record that leaves and one that joins are less than any two: three points instead of two
        assert (everyone <= whole.rdp(order=LAW_ORDERS)).all()
    np.testing.assert_array_equal(scheme(base, 0.0).rdp(order=[*LAW_ORDERS, math.inf]), 0.0)
    assert scheme(base, 0.0).epsilon(delta=0.0) == 0.0


@every_scheme
@every_base
def test_copies_add_up_and_rdp_grows_with_the_order(base: AbstractMechanism, scheme: Scheme) -> None:
    step = scheme(base, 0.05)
    one, many = (m.rdp(order=[*LAW_ORDERS, math.inf]) for m in (step, step * 7))
    np.testing.assert_allclose(many, 7 * one, rtol=ROUNDING)
    assert (np.diff(one[np.isfinite(one)]) >= -ROUNDING * one[np.isfinite(one)][:-1]).all()
    assert not np.isnan(one).any()


@pytest.mark.slow
def test_with_replacement_grows_with_draws_and_falls_with_population() -> None:
    orders = np.array([1.1, 2.0, 8.0])
    for base in (cm.Laplace(scale=1.0), cm.PureDP(epsilon=1.0), cm.RandomizedResponse(p=0.75)):
        draws = [base.with_replacement(draws=m, population=50).rdp(order=orders) for m in (0, 1, 2, 5, 20)]
        assert all((less <= more * (1 + 1e-9)).all() for less, more in pairwise(draws))
        among = [base.with_replacement(draws=3, population=n).rdp(order=orders) for n in (1000, 50, 3, 1)]
        assert all((less <= more * (1 + 1e-9)).all() for less, more in pairwise(among))
        whole = base.group(size=3).rdp(order=orders)  # three draws of one record
        assert (among[-1] <= whole * 1.001).all()  # between knots a chord is a little above the curve
    assert (draws[0] == 0).all()


def test_one_draw_with_replacement_is_a_batch_of_one() -> None:
    """The profile of the envelope is exact for both, so the bounds agree up to the knots of the first."""
    for base in (cm.Laplace(scale=1.0), cm.PureDP(epsilon=1.0)):
        draw = base.with_replacement(draws=1, population=20)
        batch = base.without_replacement(batch=1, population=20)
        np.testing.assert_allclose(draw.rdp(order=math.inf), batch.rdp(order=math.inf), rtol=1e-12)
        assert draw.profile().delta(0.01) <= batch.delta(epsilon=0.01) * (1 + 1e-9)


def test_thinning_twice_is_thinning_once() -> None:
    for base in BASES:
        twice = base.poisson(rate=0.2).poisson(rate=0.3)
        np.testing.assert_allclose(
            twice.rdp(order=LAW_ORDERS[1:]), base.poisson(rate=0.06).rdp(order=LAW_ORDERS[1:]), rtol=1e-12
        )


def test_a_composition_can_be_sampled() -> None:
    """One sample for all releases: at least the sampled sum of equal releases, at most the releases apart."""
    together = (cm.Gaussian(noise_multiplier=2.0) * 4).poisson(rate=0.1)
    np.testing.assert_allclose(
        together.rdp(order=LAW_ORDERS[1:]),
        cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1).rdp(order=LAW_ORDERS[1:]),
        rtol=1e-12,
    )
    mixed = (cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.5) + cm.Laplace(scale=2.0)).poisson(rate=0.1)
    assert mixed.neighbors is cm.ADD_REMOVE
    assert 0 < mixed.rdp(order=2) < mixed.mechanism.rdp(order=2)  # type: ignore[attr-defined]


# Relations and refusals -----------------------------------------------------------------------------------------------


def test_default_relations() -> None:
    base = cm.Laplace(scale=1.0)
    assert base.poisson(rate=0.1).neighbors is cm.ADD_REMOVE
    assert base.without_replacement(rate=0.1).neighbors is cm.REPLACE_ONE
    assert base.with_replacement(draws=2, population=9).neighbors is cm.REPLACE_ONE
    for relation in (cm.ADD_REMOVE, cm.REPLACE_ONE):
        run = base.poisson(rate=0.1, neighbors=relation) + base.without_replacement(rate=0.1, neighbors=relation)
        assert (run + base.with_replacement(draws=2, population=9, neighbors=relation)).neighbors is relation


MIXED: list[Callable[[], Any]] = [
    lambda: cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1) + cm.Laplace(scale=1.0).without_replacement(rate=0.1),
    lambda: cm.Laplace(scale=1.0).poisson(rate=0.1) + cm.Laplace(scale=1.0).with_replacement(draws=1, population=9),
    lambda: cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1).without_replacement(rate=0.1),
    lambda: cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.1).poisson(rate=0.1),
    lambda: (cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.1) * 2).poisson(rate=0.1),
    lambda: cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1, neighbors=cm.REPLACE_ONE).poisson(rate=0.1),
    lambda: cm.Laplace(scale=1.0).poisson(rate=0.1).with_replacement(draws=1, population=9),
]


@pytest.mark.parametrize("build", MIXED)
def test_two_relations_are_refused(build: Callable[[], Any]) -> None:
    with pytest.raises(cm.MixedNeighbors):
        build()


UNPROVEN: list[Callable[[], Any]] = [
    lambda: cm.Laplace(scale=1.0).with_replacement(draws=2, population=9).rdp_interval(order=2),
    lambda: cm.Laplace(scale=1.0).poisson(rate=0.1, neighbors=cm.REPLACE_ONE).rdp_interval(order=2),
    lambda: cm.Laplace(scale=1.0).without_replacement(rate=0.1, neighbors=cm.ADD_REMOVE).rdp_interval(order=2),
    lambda: cm.ZCDP(rho=0.1).poisson(rate=0.1).rdp_interval(order=2),
    lambda: cm.PureDP(epsilon=1.0).without_replacement(rate=0.1).rdp_interval(order=2),
    lambda: cm.ApproximateDP(epsilon=1.0, delta=1e-6).poisson(rate=0.1).group(size=2),
    lambda: (
        (cm.ApproximateDP(epsilon=1.0, delta=1e-6) + cm.Gaussian(noise_multiplier=1.0))
        .poisson(rate=0.1)
        ._known()
        .curve()
    ),
    lambda: cm.ZCDP(rho=0.1).poisson(rate=0.1).profile(),
]


@pytest.mark.parametrize("build", UNPROVEN)
def test_what_no_theorem_covers_is_refused(build: Callable[[], Any]) -> None:
    with pytest.raises(cm.UnprovenCombination):
        build()


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan, math.inf, -math.inf, "x", True, None, 1j, np.array([0.1])])
def test_bad_rates(rate: Any) -> None:
    base = cm.Gaussian(noise_multiplier=1.0)
    with pytest.raises(cm.InvalidParameter, match="rate"):
        base.poisson(rate=rate)
    with pytest.raises(cm.InvalidParameter, match="rate" if rate is not None else "batch"):
        base.without_replacement(rate=rate)


BAD_BATCHES = [
    ({"batch": 5, "population": 4}, "batch"),
    ({"batch": 1.5, "population": 4}, "batch"),
    ({"batch": -1, "population": 4}, "batch"),
    ({"batch": True, "population": 4}, "batch"),
    ({"batch": "x", "population": 4}, "batch"),
    ({"batch": 3}, "population"),
    ({"batch": 0, "population": 0}, "population"),
    ({"batch": 3, "population": math.inf}, "population"),
    ({"population": 3}, "batch"),
    ({}, "batch"),
    ({"batch": 1, "population": 4, "rate": 0.1}, "rate"),
    ({"batch": 1, "rate": 0.1}, "rate"),
    ({"rate": 0.1, "neighbors": "replace"}, "neighbors"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD_BATCHES)
def test_bad_batches(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(cm.InvalidParameter, match=named):
        cm.Gaussian(noise_multiplier=1.0).without_replacement(**arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"draws": 1.5, "population": 4}, "draws"),
        ({"draws": -1, "population": 4}, "draws"),
        ({"draws": 1, "population": 0}, "population"),
        ({"draws": True, "population": 2}, "draws"),
        ({"draws": 1, "population": math.nan}, "population"),
        ({"draws": 1, "population": 4, "neighbors": 1}, "neighbors"),
    ],
)
def test_bad_draws(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(cm.InvalidParameter, match=named):
        cm.Laplace(scale=1.0).with_replacement(**arguments)


@pytest.mark.parametrize("order", [1, 2.5, math.inf, math.nan, "x", True, -3])
def test_bad_orders_of_an_interval(order: Any) -> None:
    with pytest.raises(cm.InvalidParameter, match="order"):
        cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1).rdp_interval(order=order)


@pytest.mark.parametrize("size", [0, -1, 1.5, "x", True, None])
def test_bad_group_sizes(size: Any) -> None:
    for mechanism in (cm.Gaussian(noise_multiplier=1.0), cm.Laplace(scale=1.0).poisson(rate=0.1), cm.ZCDP(rho=1.0)):
        with pytest.raises(cm.InvalidParameter, match="size"):
            mechanism.group(size=size)


ROUND_TRIPS: list[AbstractMechanism] = [
    *(scheme(base, 0.1) for base in BASES[:9] for scheme in SCHEMES.values()),
    cm.Laplace(scale=1.0).with_replacement(draws=2, population=9, neighbors=cm.ADD_REMOVE),
    cm.Laplace(scale=1.0).without_replacement(rate=0.1).without_replacement(rate=0.2) * 3,
    (cm.Laplace(scale=1.0).poisson(rate=0.1) * 3 + cm.Gaussian(noise_multiplier=1.0)).poisson(rate=0.5),
    cm.ZCDP(rho=0.1).group(size=3).poisson(rate=0.1),
    cm.PureDP(epsilon=1.0).poisson(rate=0.1).group(size=2) * 5,
]


@pytest.mark.parametrize("mechanism", ROUND_TRIPS, ids=lambda m: f"{m!r}"[:60])
def test_json_round_trip(mechanism: AbstractMechanism) -> None:
    back = cm.from_dict(json.loads(json.dumps(mechanism.to_dict(), allow_nan=False)))
    assert back == mechanism
    assert back.neighbors is mechanism.neighbors
    assert back.rdp(order=3) == mechanism.rdp(order=3)


def test_a_forged_dictionary_is_checked() -> None:
    data = cm.Laplace(scale=1.0).poisson(rate=0.1).to_dict()
    for change in ({"rate": 2.0}, {"relation": "NONE"}, {"of": None}, {"extra": 1}):
        with pytest.raises(cm.InvalidParameter):
            cm.from_dict({**data, **change})


# Groups ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 4, 7])
@pytest.mark.parametrize("sigma", [0.5, 5.0])
def test_groups_of_a_gaussian_known_by_its_curve(size: int, sigma: float) -> None:
    """The truth is size² α/2σ²; Hölder's inequality attains it, the grid of exponents and the chords lose a little."""
    group = cm.RenyiCurve(lambda order: order / (2 * sigma**2)).group(size=size)
    for order in (1.5, 2.0, 3.3, 10.0, 100.0, 1000.0):
        truth = size**2 * order / (2 * sigma**2)
        assert truth <= group.rdp(order=order) <= 1.1 * truth


@pytest.mark.parametrize("seed", range(20))
def test_groups_by_enumeration(seed: int) -> None:
    """Chains P, R, Q of unrelated distributions."""
    generator = np.random.default_rng(seed)
    spread = (0.1, 1.0, 3.0)[seed % 3]
    chain = [bf.softmax(spread * generator.normal(size=2 + seed % 3)) for _ in range(4)]
    steps = list(pairwise(chain))
    for size in (2, 3):
        ends, one = bf.ordered([(chain[0], chain[size])]), bf.ordered(steps[:size])
        for known in known_by(one):
            assert_covered(known.group(size=size), ends)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_of_sampled_mechanisms_by_enumeration(seed: int) -> None:
    """Two records more, and one record fewer and another more, of a Poisson sample."""
    universe, rate = 3, 0.3
    mechanism = some_mechanism(seed, universe, range(4))
    base = bf.both_directions(bf.added(universe, range(3)), mechanism.__getitem__)
    pairs = [(batch, tuple(sorted((*batch, x, y)))) for batch in bf.batches(universe, 1) for x, y in bf.batches(3, 2)]
    truth = bf.both_directions([*pairs, *bf.replaced(universe, 3)], lambda data: bf.poisson(mechanism, data, rate))
    assert_covered(known_by(base)[1].poisson(rate=rate).group(size=2), truth)


def test_group_of_a_poisson_sampled_laplace() -> None:
    """Two records, both in a sum: Laplace noise around 0, 1 or 2 against noise around 0, by quadrature."""
    from scipy.integrate import quad

    rate, orders = 0.1, np.array([1.5, 2.0, 4.0])
    group = cm.Laplace(scale=1.0).poisson(rate=rate).group(size=2)

    def density(x: float, centre: float) -> float:
        return math.exp(-abs(x - centre)) / 2

    def mixture(x: float) -> float:
        return (1 - rate) ** 2 * density(x, 0) + 2 * rate * (1 - rate) * density(x, 1) + rate**2 * density(x, 2)

    def moment(order: float) -> float:
        def integrand(x: float) -> float:
            return float(mixture(x) ** order * density(x, 0) ** (1 - order))

        return math.fsum(quad(integrand, a, b)[0] for a, b in pairwise((-40, 0, 1, 2, 40)))

    for order, value in zip(orders.tolist(), group.rdp(order=orders).tolist(), strict=True):
        assert value >= math.log(moment(order)) / (order - 1)
    assert (group.rdp(order=orders) <= 4 * cm.Laplace(scale=1.0).poisson(rate=rate).rdp(order=3 * orders)).all()


@pytest.mark.parametrize("base", BASES, ids=lambda m: f"{m!r}"[:40])
def test_a_group_of_one_is_the_mechanism_and_larger_groups_cost_more(base: AbstractMechanism) -> None:
    orders = np.array([1.5, 2.0, 5.0])
    one, two, three = (base.group(size=k).rdp(order=orders) for k in (1, 2, 3))
    np.testing.assert_allclose(one, base.rdp(order=orders), rtol=ROUNDING)
    assert (one <= two * (1 + ROUNDING)).all()
    assert (two <= three * (1 + ROUNDING)).all()
