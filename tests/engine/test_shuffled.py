"""Shuffled loaders: proven from above, attained from below, and nothing in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from mpmath import exp, log, mp, mpf, ncdf, npdf, quad

import cumulant as cm
from cumulant.inversion.solve import epsilon_of_pairs
from cumulant.neighbors import Neighbors
from cumulant.pairs.allocation import LeavesOneOf
from cumulant.pairs.finite_pair import finite_pair
from cumulant.pairs.largest_sum import largest_sum
from cumulant.report.assumptions import assumptions_of
from cumulant.sampling.shuffled import Shuffled
from tiny_loaders import menus_of, orders, worst


def shuffled(sigma: float, neighbors: Neighbors | None = cm.REPLACE_ONE, **sizes: Any) -> Any:
    return cm.Gaussian(noise_multiplier=sigma).shuffled(neighbors=neighbors, **sizes)


# Both ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loader", "neighbors", "lower", "upper"),
    [
        ((1.0, 1000, 1), cm.REPLACE_ONE, 3.134152, 9.997256),
        ((1.0, 1000, 1), cm.ZERO_OUT, 2.882096, 4.377178),
        ((1.0, 1000, 10), cm.REPLACE_ONE, 5.060074, 46.211210),
        ((1.0, 1000, 10), cm.ZERO_OUT, None, 17.856587),
        ((1.0, 100, 1), cm.REPLACE_ONE, 5.396600, 9.997256),
        ((1.0, 100, 1), cm.ZERO_OUT, 4.063154, 4.377178),
        ((0.8, 234, 1), cm.ZERO_OUT, 5.554132, None),
    ],
)
def test_both_ends(
    loader: tuple[float, int, int], neighbors: Neighbors, lower: float | None, upper: float | None
) -> None:
    """At δ = 1e-5; the lower end of replace-one is random allocation at half the noise, by other programs."""
    sigma, batches, epochs = loader
    run = shuffled(sigma, neighbors, batches=batches, epochs=epochs)
    interval = run.epsilon_interval(delta=1e-5)
    if lower is not None:
        assert interval.lower == pytest.approx(lower, abs=1.01e-6)
    if upper is not None:
        assert interval.upper == pytest.approx(upper, abs=5.1e-7)
    assert interval.certified == (neighbors is cm.REPLACE_ONE)  # the largest of zero-out's sums is known in doubles
    assert interval.upper <= run.epsilon(delta=1e-5) <= interval.upper * (1 + 1e-12)


def attained_zero_out(sigma: Any, t: int, epsilon: Any, c: Any) -> Any:
    """Return what the largest of t sums tells at a threshold c, the others adding -C: P moves one by 2C, Q by C."""
    caught = 1 - ncdf((c - 2) / sigma) * ncdf(c / sigma) ** (t - 1)
    return caught - exp(epsilon) * (1 - ncdf((c - 1) / sigma) * ncdf(c / sigma) ** (t - 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "t", "delta"), [(1.0, 1000, 1e-5), (0.7, 30, 1e-8), (1.5, 10, 1e-3), (0.5, 400, 1e-6)]
)
def test_the_lower_end_of_zero_out_by_thresholds(sigma: float, t: int, delta: float) -> None:
    """At most what the best threshold says, and hardly less."""
    lower = shuffled(sigma, cm.ZERO_OUT, batches=t).epsilon_interval(delta=delta).lower
    with mp.workdps(40):

        def best(epsilon: Any) -> Any:
            gains = {c: attained_zero_out(mpf(sigma), t, epsilon, c) for c in (mpf(k) / 50 for k in range(600))}
            about = max(gains, key=lambda c: gains[c])
            return max(attained_zero_out(mpf(sigma), t, epsilon, about + mpf(k) / 10**5) for k in range(-2000, 2001, 4))

        assert best(mpf(lower)) >= delta
        assert best(mpf(lower) * (1 + mpf("3e-6"))) < delta


def test_the_lower_end_of_two_batches_by_quadrature() -> None:
    """E((r + r')/2 - e^ε)_+ for lognormal r, r' of log-deviation 2/σ: given r, the price of a call on r'."""
    sigma, epsilon = 3.0, 0.5
    lower = shuffled(sigma, batches=2).delta_interval(epsilon=epsilon).lower
    with mp.workdps(30):
        m, strike = 2 / mpf(sigma), 2 * exp(mpf(epsilon))

        def call(x: Any) -> Any:
            k = strike - exp(m * x - m * m / 2)
            if k <= 0:
                return 1 - k
            d = (m * m / 2 - log(k)) / m
            return ncdf(d) - k * ncdf(d - m)

        kink = (log(strike) + m * m / 2) / m
        truth = quad(lambda x: call(x) * npdf(x), [-12, -4, 0, kink, kink + 4, kink + 12]) / 2
        assert truth * (1 - mpf("1e-7")) <= lower <= truth


@pytest.mark.parametrize(("sigma", "t", "gap"), [(1.0, 1000, 2e-4), (1.0, 100, 1e-4), (2.0, 100, 0.2)])
def test_the_largest_sum_tells_no_more_than_all(sigma: float, t: int, gap: float) -> None:
    """At little noise it tells nearly all: 3.133975 of 3.134152."""
    mean, log_delta = 2 / sigma, math.log(1e-5)
    largest = epsilon_of_pairs([((finite_pair(largest_sum(mean, 0.0, t, 1.0)), 1),)], log_delta).value
    whole = epsilon_of_pairs([((LeavesOneOf(Fraction(mean) ** 2, t), 1),)], log_delta).value
    assert whole - gap < largest < whole


# Every adversary of tiny loaders --------------------------------------------------------------------------------------

TINY = [(4, 2, (-1.0, 0.0, 1.0)), (6, 3, (-1.0, 1.0)), (3, 1, (-1.0, 1.0))]  # n, batch, what the others may add
CASES = [(sigma, epsilon) for sigma in (1.0, 2.0) for epsilon in (0.0, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("loader", TINY)
@pytest.mark.parametrize(("sigma", "epsilon"), CASES)
@pytest.mark.parametrize("relation", [cm.REPLACE_ONE, cm.ZERO_OUT])
def test_every_adversary_lies_between_the_ends(
    loader: tuple[int, int, Sequence[float]], sigma: float, epsilon: float, relation: Neighbors
) -> None:
    """Records 0 … n-2 are the others, n - 1 is in one dataset and n in the other."""
    n, batch, values = loader
    steps = n // batch
    kinks = 4e-3 if steps == 2 else 2e-2  # relative, of the grid: it is coarse for three steps
    pairs = [(1.0, -1.0), (-1.0, 1.0)] if relation is cm.REPLACE_ONE else [(1.0, 0.0), (-1.0, 0.0)]
    first, second = (list(orders([*range(n - 1), own], [batch] * steps)) for own in (n - 1, n))
    menus = menus_of(n - 1, pairs, steps, values)
    interval = shuffled(sigma, relation, batches=steps).delta_interval(epsilon=epsilon)
    truth = max(worst(*both, menus, sigma, math.exp(epsilon)) for both in ((first, second), (second, first)))
    assert interval.lower * (1 - kinks) <= truth <= interval.upper * (1 + kinks)


@pytest.mark.parametrize(("n", "batch", "drop_last"), [(5, 3, False), (4, 3, True)])
@pytest.mark.parametrize(("sigma", "epsilon"), CASES)
def test_one_record_more_lies_between_the_ends(
    n: int, batch: int, drop_last: bool, sigma: float, epsilon: float
) -> None:
    """Records 0 … n-2 are in both datasets, n - 1 in the larger one; what a loader drops is a last batch unseen."""
    full = n // batch
    sizes = [[batch] * full + [size - batch * full] for size in (n, n - 1)]
    first, second = (list(orders(range(size), parts)) for size, parts in zip((n, n - 1), sizes, strict=True))
    menus = menus_of(n - 1, [(1.0,), (-1.0,)], full if drop_last else full + 1, (-1.0, 1.0))
    run = shuffled(sigma, cm.ADD_REMOVE, batch=batch, population=n, drop_last=drop_last)
    interval = run.delta_interval(epsilon=epsilon)
    truth = max(worst(*both, menus, sigma, math.exp(epsilon)) for both in ((first, second), (second, first)))
    assert interval.lower * (1 - 4e-3) <= truth <= interval.upper * (1 + 4e-3)


@pytest.mark.parametrize("n", [5, 6, 7])
@pytest.mark.parametrize("size", [2, 3])
def test_the_last_record_takes_the_place_of_the_one_that_left(n: int, size: int) -> None:
    """Of all orders of n records every order of n - 1 comes as often, and batches differ as the docstring says."""
    from itertools import permutations

    counts: dict[tuple[int, ...], int] = {}
    for order in permutations(range(n)):
        place, last = order.index(n - 1), order[-1]
        left = [last if r == n - 1 else r for r in order[:-1]] if place < n - 1 else list(order[:-1])
        counts[tuple(left)] = counts.get(tuple(left), 0) + 1
        changed = [
            i
            for i in range(-(-n // size))
            if set(order[i * size : i * size + size]) != set(left[i * size : i * size + size])
        ]
        assert set(changed) <= {place // size, (n - 1) // size}
    assert len(counts) == math.factorial(n - 1)
    assert set(counts.values()) == {n}


# Sizes, relations, refusals -------------------------------------------------------------------------------------------


def test_the_relation_must_be_said() -> None:
    with pytest.raises(cm.InvalidParameter, match=r"cumulant\.REPLACE_ONE.*cumulant\.ZERO_OUT.*cumulant\.ADD_REMOVE"):
        cm.Gaussian(noise_multiplier=1.0).shuffled(batches=10)


def test_one_record_more_is_never_had_by_accident() -> None:
    with pytest.raises(cm.InvalidParameter, match="give batch= and population="):
        shuffled(1.0, cm.ADD_REMOVE, batches=10)
    with pytest.raises(cm.InvalidParameter, match="drop_last must be True or False"):
        shuffled(1.0, cm.ADD_REMOVE, batch=10, population=1005)
    for n, drop_last in ((1000, False), (1001, False), (1000, True), (1009, True)):
        with pytest.raises(cm.UnprovenCombination, match=r"shows who was there.*ZERO_OUT"):
            shuffled(1.0, cm.ADD_REMOVE, batch=10, population=n, drop_last=drop_last)
    root, two = (
        shuffled(1.0, cm.ADD_REMOVE, batch=10, population=1005, drop_last=drops).epsilon(delta=1e-5)
        for drops in (False, True)
    )
    assert root == pytest.approx(cm.Gaussian(noise_multiplier=1 / math.sqrt(5)).epsilon(delta=1e-5), rel=1e-12)
    assert two == cm.Gaussian(noise_multiplier=0.5).epsilon(delta=1e-5)


def test_records_that_are_left_over() -> None:
    """They lower the lower end; the upper end is the same. Of much noise a short batch tells more than none."""
    sizes: dict[str, Any] = {"batch": 100, "population": 1050}
    dropped, short, even = (
        shuffled(1.0, **more).epsilon_interval(delta=1e-5)
        for more in (sizes | {"drop_last": True}, sizes | {"drop_last": False}, {"batches": 10})
    )
    assert dropped.lower == short.lower < even.lower
    assert dropped.upper == short.upper == pytest.approx(even.upper, rel=1e-12)
    assert shuffled(1.0, **sizes).epsilon_interval(delta=1e-5) == dropped  # it was not said
    quiet = [shuffled(20.0, **sizes, drop_last=drops).delta_interval(epsilon=0.1).lower for drops in (True, False)]
    assert quiet[0] < quiet[1]
    assert shuffled(1.0, batch=100, population=1000).epsilon_interval(delta=1e-5) == even


@pytest.mark.parametrize("relation", [cm.REPLACE_ONE, cm.ZERO_OUT])
def test_one_batch_of_all_is_exact(relation: Neighbors) -> None:
    run = shuffled(2.0, relation, batches=1)
    assert run.guarantee(delta=1e-5).exact
    assert run.epsilon_interval(delta=1e-5).certified


def test_what_has_no_theorem_is_refused() -> None:
    with pytest.raises(cm.UnprovenCombination, match="not for Laplace"):
        cm.Laplace(scale=1.0).shuffled(batches=10, neighbors=cm.REPLACE_ONE)
    wrong: list[dict[str, Any]] = [{"batches": 0}, {"batches": 2.5}, {}, {"batch": 3}, {"batch": 3, "population": 2}]
    wrong += [{"batches": 3, "batch": 1, "population": 3}, {"batches": 3, "epochs": 0}, {"batches": 3, "drop_last": 2}]
    for sizes in wrong:
        with pytest.raises(cm.InvalidParameter):
            shuffled(1.0, **sizes)
    with pytest.raises(cm.MixedNeighbors):
        shuffled(1.0, batches=10) + shuffled(1.0, cm.ZERO_OUT, batches=10)
    with pytest.raises(cm.UnprovenCombination, match="changes the number of batches"):
        shuffled(1.0, cm.ADD_REMOVE, batch=10, population=1005, drop_last=False).group(size=2)


# What follows ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.02, 0.1, 5.0, 1e3, 1e7])
@pytest.mark.parametrize("relation", [cm.REPLACE_ONE, cm.ZERO_OUT])
def test_noise_of_any_size_has_two_ends(sigma: float, relation: Neighbors) -> None:
    """More batches lower the lower end, up to the width of cells; more epochs raise it; the ends never cross."""
    few, many = (
        [shuffled(sigma, relation, batches=t, epochs=e).epsilon_interval(delta=1e-6) for t in (3, 50, 700)]
        for e in (1, 20)
    )
    for row in (few, many):
        assert all(0 <= one.lower <= one.upper < math.inf for one in row)
        assert sigma > 100 or all(
            a.lower >= b.lower * (1 - 1e-3) for a, b in pairwise(row)
        )  # of few sums of much noise the law is out of reach
    assert sigma > 100 or all(a.lower <= b.lower * (1 + 1e-8) for a, b in zip(few, many, strict=True))


def test_both_ends_compose() -> None:
    """The lower end of a composition is at least that of its parts, and at most the upper one."""
    epoch, other = shuffled(2.0, cm.ZERO_OUT, batches=50), cm.Gaussian(noise_multiplier=4.0)
    alone, both = (epoch * 3).epsilon_interval(delta=1e-5), (epoch * 3 + other).epsilon_interval(delta=1e-5)
    assert alone.lower < both.lower < both.upper
    plain = cm.Gaussian(noise_multiplier=2.0) * 3 + other
    assert both.upper == pytest.approx(plain.epsilon(delta=1e-5), rel=1e-9)
    sampled = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1, neighbors=cm.ZERO_OUT) * 20
    assert (epoch + sampled).epsilon_interval(delta=1e-5).lower > sampled.epsilon(delta=1e-5)


def test_a_group_moves_one_batch_most() -> None:
    run = shuffled(3.0, batches=20, epochs=4)
    assert run.group(size=3).rdp(order=4.0) == pytest.approx((cm.Gaussian(noise_multiplier=0.5) * 4).rdp(order=4.0))
    assert run.group(size=3).epsilon_interval(delta=1e-5).lower == run.epsilon_interval(delta=1e-5).lower
    ((release, _),) = run.group(size=3).parts
    assert release.group(size=2).records == 6


def test_explanations_say_what_to_do_instead() -> None:
    explanation = shuffled(1.0, batches=100, epochs=10).explain(delta=1e-5)
    assert not explanation.guarantee.exact
    assert explanation.guarantee.at_most_above is not None
    text = str(explanation)
    assert "not a bound for a shuffled loader" in text
    assert "epsilon = 1.7014984" in text  # ten epochs of random allocation
    assert "above the smallest ε that is true" in text
    mixed = shuffled(1.0, batches=100) + cm.Gaussian(noise_multiplier=5.0).without_replacement(rate=0.1)
    assert "random_allocation" in mixed.explain(delta=1e-5).advice[0]
    assert cm.Gaussian(noise_multiplier=1.0).explain(delta=1e-5).advice == ()


def test_words_and_data() -> None:
    run = shuffled(1.0, cm.ADD_REMOVE, batch=10, population=1005, drop_last=True) + cm.Gaussian(noise_multiplier=9.0)
    run += shuffled(1.0, cm.ADD_REMOVE, batch=10, population=1005, drop_last=False)
    assert cm.from_dict(run.to_dict()) == run
    grouped = shuffled(1.0, batches=10).group(size=2)
    assert isinstance(grouped, Shuffled)
    assert cm.from_dict(grouped.to_dict()) == grouped
    assert "towards 2 records at once" in " ".join(grouped.statement(delta=1e-5).split())
    text = " ".join(run.statement(delta=1e-5).split())
    assert "100 steps, batches of one size, the records left over in a short one or in none" in text
    said = " ".join(assumptions_of(run))
    for part in ("walks through the records once", "drawn anew in each", "makes as many batches", "bounded by itself"):
        assert part in said
