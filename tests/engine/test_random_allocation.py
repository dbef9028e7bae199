"""Random allocation: every record joins one of t steps, drawn for itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.special import ndtr

import cumulant as cm
from cumulant.inversion.certified import certified_delta
from cumulant.inversion.solve import epsilon_of_pairs, log_delta_of_pairs
from cumulant.numerics.balls import precision
from cumulant.numerics.lognormal_sum import density_of_sum
from cumulant.pairs.allocation import AllocatedPair, JoinsOneOf, LeavesOneOf, followed_steps
from cumulant.report.assumptions import assumptions_of
from stored import stored

BITS, LOST_BITS = 150, 75
LEAVES: list[tuple[int, float, float, float]] = [
    (50, 1.0, 1e-5, 0.97211003510),
    (100, 1.0, 1e-5, 0.62093967162),
    (1000, 1.0, 1e-5, 0.13884660001),
    (1000, 2.0, 1e-5, 0.04866972543),
    (32, 2.0, 1e-5, 0.325125851554),
    (64, 1.5, 1e-6, 0.39362739272),
]  # t, σ, δ, ε, by Bromwich's integral in balls
JOINS: list[tuple[int, float, float, float]] = [
    (100, 1.0, 1e-5, 0.42195347332),
    (32, 2.0, 1e-5, 0.314533872593),
    (64, 1.5, 1e-6, 0.359185446601),
    (2000, 1.2, 1e-8, 0.101405286213),
]


def allocated(steps: int, sigma: float, **more: Any) -> Any:
    return cm.Gaussian(noise_multiplier=sigma).random_allocation(steps=steps, **more)


def pair_of(kind: Any, sigma: float, steps: int) -> AllocatedPair:
    return kind(1 / Fraction(sigma) ** 2, steps)  # type: ignore[no-any-return]


# One epoch against an integral of its own -----------------------------------------------------------------------------


@stored
def bromwich_delta(steps: int, sigma: float, epsilon: float, leaves: bool) -> float:
    """Return δ(ε) from E(c - S)_+ = (1/2πi) ∫ e^{λc} (E e^{-λr})^t λ^{-2} dλ, through its real saddle, in balls.

    The step in λ leaves aliases of e^{-λW}, the rule in x errors far below both: neither is enclosed.
    """
    before, ctx.prec = ctx.prec, BITS
    try:
        c = steps * math.exp(epsilon if leaves else -epsilon)
        saddle = saddle_of(steps, sigma, c)
        step = 2 * math.pi / (1.2 * c + LOST_BITS / saddle)
        exact = steps * (arb(epsilon) if leaves else -arb(epsilon)).exp()
        total, largest, k = arb(0), 0.0, 0
        while True:
            at = acb(saddle, k * step)
            term = transform_of_ratio(at, sigma) ** steps / (at * at) * (at * exact).exp()
            total += (term / 2 if k == 0 else term).real
            size = float(abs(term).mid())
            largest = max(largest, size)
            if size < largest * 2.0**-LOST_BITS:
                break
            k += 1
        put = total * step / arb.pi()
        leaving = put / steps + 1 - arb(epsilon).exp()
        return float((leaving if leaves else put * arb(epsilon).exp() / steps).mid())
    finally:
        ctx.prec = before


def transform_of_ratio(at: acb, sigma: float) -> acb:
    """Return E e^{-λr} by the trapezoidal rule on x turned aside, so that λr stays nearly real."""
    aside, width, s = -0.7 * float(at.arg().mid()) * sigma, 3 / 64, arb(sigma)
    total = acb(0)
    for j in range(-280, 281):  # multiples that are doubles: others would be off their places
        z = acb(width * j, aside)
        total += (-(z * z) / 2 - at * (z / s - 1 / (2 * s * s)).exp()).exp()
    return total * arb(width) / (2 * arb.pi()).sqrt()


def saddle_of(steps: int, sigma: float, c: float) -> float:
    """Return about where e^{λc} (E e^{-λr})^t λ^{-2} is least for λ > 0: any is right."""
    x = np.arange(-12, 12, 0.04)
    ratio, mass = np.exp(x / sigma - 0.5 / sigma**2), np.exp(-x * x / 2) * 0.04 / math.sqrt(2 * math.pi)
    lam = np.exp(np.linspace(-math.log(steps) - 9, 7, 400))
    height = lam * c + steps * np.log(np.exp(-np.outer(lam, ratio)) @ mass) - 2 * np.log(lam)
    return float(lam[np.argmin(height)])


@pytest.mark.parametrize(
    ("steps", "sigma", "epsilon"), [(7, 0.8, 0.4), (23, 1.3, 0.4), (3, 2.5, 0.3), (150, 0.9, 0.3), (40, 4.0, 0.12)]
)
@pytest.mark.parametrize("leaves", [True, False])
def test_one_epoch_as_bromwich_in_balls(steps: int, sigma: float, epsilon: float, leaves: bool) -> None:
    pair = pair_of(LeavesOneOf if leaves else JoinsOneOf, sigma, steps)
    found = math.exp(log_delta_of_pairs([((pair, 1),)], epsilon).value)
    truth = bromwich_delta(steps, sigma, epsilon, leaves)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-7)


# References -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "row"), [*((LeavesOneOf, row) for row in LEAVES), *((JoinsOneOf, row) for row in JOINS)]
)
def test_each_direction(kind: Any, row: tuple[int, float, float, float]) -> None:
    steps, sigma, delta, epsilon = row
    found = epsilon_of_pairs([((pair_of(kind, sigma, steps), 1),)], math.log(delta)).value
    assert epsilon * (1 - 1e-10) <= found <= epsilon * (1 + 1e-8)


@pytest.mark.parametrize(
    ("steps", "sigma", "epochs", "bins", "epsilon"),
    [
        (100, 1.0, 10, "fresh", 1.70149843583),
        (1000, 1.0, 10, "fresh", 0.46445853005),
        (100, 2.0, 4, "kept", 0.62093967162),
        (100, 2.0, 4, "fresh", 0.366661),
        (100, 1.0, 10, "kept", 13.2514),
    ],
)
def test_epochs(steps: int, sigma: float, epochs: int, bins: str, epsilon: float) -> None:
    run = allocated(steps, sigma, epochs=epochs, bins=bins)
    digits = 9 if epsilon not in (13.2514, 0.366661) else 5
    assert run.epsilon(delta=1e-5) == pytest.approx(epsilon, rel=10.0**-digits * 5)
    assert run.guarantee(delta=1e-5).exact


def test_the_record_that_joins_composes_too() -> None:
    found = epsilon_of_pairs([((pair_of(JoinsOneOf, 1.0, 100), 10),)], math.log(1e-5))
    assert found.value == pytest.approx(1.547727297, rel=5e-10)


@pytest.mark.parametrize(
    ("steps", "sigma", "order", "leave", "join"),
    [
        (50, 1.0, 1.5, 2.514482938e-2, 2.448534863e-2),
        (50, 1.0, 2.0, 3.378832728e-2, 3.245895563e-2),
        (50, 1.0, 4.5, 8.007442355e-2, 7.120638649e-2),
        (50, 1.0, 10.0, 1.095100246, 1.516901552e-1),
        (100, 2.0, 4.5, 6.38575195e-3, 6.37243137e-3),
    ],
)
def test_renyi_orders(steps: int, sigma: float, order: float, leave: float, join: float) -> None:
    assert allocated(steps, sigma).rdp(order=order) == pytest.approx(max(leave, join), rel=1e-9)


def test_orders_that_nodes_do_not_follow_are_bounds() -> None:
    """Beyond integer moments, K is convex and below that of all noise in one step: so are chords and the tangent."""
    one, all_steps = allocated(20, 1.0), cm.Gaussian(noise_multiplier=1.0)
    orders = np.array([20.5, 100.0, 256.0, 257.0, 300.0, 1000.0, 1e5])
    assert np.all(one.rdp(order=orders) <= all_steps.rdp(order=orders) * (1 + 1e-12))
    assert np.all(np.diff(one.rdp(order=orders)) > 0)


# The law in balls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "sigma"), [(2, 1.0), (5, 0.3), (37, 0.7), (100, 5.0), (300, 1.0), (20, 10.0)])
def test_the_law_has_its_moments(steps: int, sigma: float) -> None:
    """Balls hold 1, E S/t = 1 and E (S/t)² = 1 + (e^{1/σ²} - 1)/t, whose sums over points are these to e^-60."""
    mean, width = 1 / sigma, 1 / (sigma * math.sqrt(steps))
    low, high = -0.5 * mean**2 - 20 * width, mean**2 + 15 * mean + 3 * width
    shift = math.log(steps)
    reach = shift + min(high, max(25 * width, 0.5 * mean**2 + 25 * mean - shift))
    law = density_of_sum(1 / Fraction(sigma) ** 2, steps, low + shift, high + shift, reach)
    with precision(200):
        step, square = arb(law.step), (1 / arb(sigma) ** 2).exp()
        for power, moment in enumerate([arb(1), arb(1), 1 + (square - 1) / steps]):
            places = [(step * (law.first + i) * power).exp() for i in range(len(law.values))]
            total = sum((f * x for f, x in zip(law.values, places, strict=True)), arb(0)) * step / arb(steps) ** power
            assert float(total.rad()) < 1e-12 * float(moment.mid())
            assert abs(float((total - moment).mid())) < 1e-12 * float(moment.mid())


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_the_density_of_two_as_an_integral(sigma: float) -> None:
    """Of two, f(u) = ∫ n(x) n(y) over e^{sx} + e^{sy} = e^{u + s²/2}, by a rule of balls that is not ours."""
    s = 1 / sigma
    low, high = -0.5 * s * s - 14 * s, s * s + 14 * s
    law = density_of_sum(1 / Fraction(sigma) ** 2, 2, low, high, high)
    with precision(120):
        for share in (0.3, 0.5, 0.62, 0.9):
            i = int(share * len(law.values))
            total = arb(law.step) * (law.first + i) + 1 / (2 * arb(sigma) ** 2)  # log(e^{sx} + e^{sy})
            size = arb(sigma)

            def density(v: Any, _: Any, total: Any = total, size: Any = size) -> Any:
                x, y = size * (total - (1 + (-v).exp()).log()), size * (total - (1 + v.exp()).log())  # v = s(x - y)
                return (-(x * x + y * y) / 2).exp() * size * size / (2 * acb.pi())

            found = acb.integral(density, -30 * s, 30 * s, rel_tol=arb(2) ** -60, abs_tol=arb(2) ** -900).real
            assert law.values[i].overlaps(found)
            assert float((law.values[i] / found - 1).mid()) == pytest.approx(0, abs=1e-12)


# Bins, subsets, refusals ----------------------------------------------------------------------------------------------


def test_kept_bins_are_one_epoch_of_less_noise() -> None:
    kept = allocated(20, 3.0, epochs=9, bins="kept")
    assert kept.epsilon(delta=1e-6) == pytest.approx(allocated(20, 1.0).epsilon(delta=1e-6), rel=1e-9)
    assert allocated(20, 3.0, epochs=9, bins="fresh") == allocated(20, 3.0) * 9


def test_several_epochs_need_bins() -> None:
    with pytest.raises(cm.InvalidParameter, match=r"bins='fresh'.*bins='kept'.*ε is 1\.70 or 13\.25"):
        allocated(100, 1.0, epochs=10)
    with pytest.raises(cm.InvalidParameter, match=r"ε is 1\.70 or 13\.25"):
        cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.01, epochs=10, sampling="random_allocation")
    with pytest.raises(cm.InvalidParameter, match="bins must be 'fresh' or 'kept'"):
        allocated(100, 1.0, bins="shuffled")
    with pytest.raises(cm.InvalidParameter, match="bins belong to"):
        cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.01, epochs=10, bins="fresh")


def coarse_delta(chosen: int, steps: int, sigma: float, epsilon: float, leaves: bool) -> float:
    return subset_delta(chosen, steps, sigma, epsilon, leaves, step=0.15)


def subset_delta(chosen: int, steps: int, sigma: float, epsilon: float, leaves: bool, *, step: float = 0.06) -> float:
    """Return δ(ε) of k of t by the definition: a grid over all but the last x, and a normal tail for that."""
    grid = np.arange(-9.0, 9.0 + 3 / sigma, step)
    others = np.meshgrid(*[np.exp(grid / sigma - 0.5 / sigma**2)] * (steps - 1), indexing="ij")
    masses = np.exp(-(grid**2) / 2) * step / math.sqrt(2 * math.pi)
    mass = np.ones(())
    for _ in range(steps - 1):
        mass = np.multiply.outer(mass, masses)

    def symmetric(size: int) -> Any:
        if size == 0:
            return np.ones(others[0].shape)
        return sum(np.prod([others[i] for i in some], axis=0) for some in combinations(range(steps - 1), size))

    ways = math.comb(steps, chosen)
    without, slope = symmetric(chosen) / ways, symmetric(chosen - 1) / ways  # dP/dQ = without + slope·r
    bound = (math.exp(epsilon if leaves else -epsilon) - without) / slope
    place = sigma * np.log(np.maximum(bound, 1e-300)) + 0.5 / sigma
    upper, upper_ratio = 1 - ndtr(place), 1 - ndtr(place - 1 / sigma)
    if leaves:
        payoff = (without - math.exp(epsilon)) * upper + slope * upper_ratio
    else:
        factor = math.exp(epsilon)
        payoff = (1 - factor * without) * ndtr(place) - factor * slope * ndtr(place - 1 / sigma)
    return float(np.sum(mass * payoff))


def pairs_of(run: Any, direction: int) -> Sequence[Any]:
    return [run._known().directions(cm.ADD_REMOVE)[direction]]


@pytest.mark.parametrize(("steps", "sigma"), [(2, 1.0), (3, 0.8), (3, 2.0)])
@pytest.mark.parametrize("direction", [0, 1])
def test_one_of_few_steps_as_defined(steps: int, sigma: float, direction: int) -> None:
    for epsilon in (0.3, 1.0, 2.0):
        truth = subset_delta(1, steps, sigma, epsilon, leaves=direction == 0)
        found = math.exp(log_delta_of_pairs(pairs_of(allocated(steps, sigma), direction), epsilon).value)
        assert found == pytest.approx(truth, rel=2e-3 if truth > 1e-9 else 1)  # the grid has kinks


def test_two_of_three_steps() -> None:
    """All but one of t, from one of t and Gaussian noise: exact."""
    run = allocated(3, 1.0, chosen=2)
    for direction, at_1, at_3 in ((0, 0.2004099130, 0.0099521641), (1, 0.1971938861, 0.0082290526)):
        assert subset_delta(2, 3, 1.0, 1.0, leaves=direction == 0) == pytest.approx(at_1, rel=2e-3)
        for epsilon, truth in ((1.0, at_1), (3.0, at_3)):
            found = math.exp(log_delta_of_pairs(pairs_of(run, direction), epsilon).value)
            assert found == pytest.approx(truth, abs=6e-11)
    assert run.guarantee(delta=1e-5).exact
    assert run.epsilon_interval(delta=1e-5).certified


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "sigma", "exact"), [(2, 1.3, False), (3, 1.0, True), (3, 2.0, True)])
@pytest.mark.parametrize("direction", [0, 1])
def test_some_of_four_steps_as_defined(chosen: int, sigma: float, exact: bool, direction: int) -> None:
    run = allocated(4, sigma, chosen=chosen)
    for epsilon in (0.3, 1.5):
        truth = coarse_delta(chosen, 4, sigma, epsilon, leaves=direction == 0)
        bound = math.exp(log_delta_of_pairs(pairs_of(run, direction), epsilon).value)
        assert truth * (1 - 1e-2) <= bound <= truth * (1 + 1e-2 if exact else 2)
    assert run.guarantee(delta=1e-5).exact == exact


def test_blocks_are_an_upper_bound_of_subsets() -> None:
    run = allocated(9, 1.0, chosen=3)
    assert not run.guarantee(delta=1e-5).exact
    assert run.epsilon(delta=1e-5) <= (allocated(3, 1.0) * 3).epsilon(delta=1e-5) * (1 + 1e-12)
    with pytest.raises(cm.UnprovenCombination):
        run.epsilon_interval(delta=1e-5)
    left_out = allocated(9, 1.0, chosen=6)  # 3 of 9 are left out: blocks of those, and three releases on everyone
    assert left_out.epsilon(delta=1e-5) < (allocated(2, 1.0) * 3 + allocated(1, 1.0) * 3).epsilon(delta=1e-5)
    assert left_out.rdp(order=3.0) == pytest.approx(3 * (allocated(3, 1.0).rdp(order=3.0) + 1.5), rel=1e-9)


def test_a_record_that_joins_all_steps_or_the_only_one() -> None:
    everyone = cm.Gaussian(noise_multiplier=2.0)
    assert allocated(1, 2.0).epsilon(delta=1e-5) == pytest.approx(everyone.epsilon(delta=1e-5), rel=1e-12)
    assert allocated(4, 2.0, chosen=4).epsilon(delta=1e-5) == pytest.approx((everyone * 4).epsilon(delta=1e-5))


def test_what_has_no_theorem_is_refused() -> None:
    with pytest.raises(cm.UnprovenCombination, match="replace-one"):
        allocated(10, 1.0, neighbors=cm.REPLACE_ONE)
    with pytest.raises(cm.UnprovenCombination, match=r"not for Laplace; .*poisson"):
        cm.Laplace(scale=1.0).random_allocation(steps=10)
    with pytest.raises(cm.InvalidParameter, match="chosen must be at most the 10 steps"):
        allocated(10, 1.0, chosen=11)
    for wrong in ({"steps": 0}, {"steps": 2.5}, {"steps": 10, "epochs": 0, "bins": "kept"}):
        with pytest.raises(cm.InvalidParameter):
            cm.Gaussian(noise_multiplier=1.0).random_allocation(**wrong)


def test_zero_out_has_the_same_numbers() -> None:
    null = allocated(30, 1.0, neighbors=cm.ZERO_OUT)
    assert null.neighbors is cm.ZERO_OUT
    assert null.epsilon(delta=1e-5) == allocated(30, 1.0).epsilon(delta=1e-5)
    run = cm.dp_sgd(noise_multiplier=1.0, sample_rate=1 / 30, epochs=1, sampling="balls_in_bins", neighbors=cm.ZERO_OUT)
    assert run.parts == ((null, 1),)


# What follows ---------------------------------------------------------------------------------------------------------


def test_it_composes_with_everything() -> None:
    epoch, count = allocated(30, 1.0), cm.Laplace(scale=4.0)
    alone, both = (epoch * 2).epsilon(delta=1e-5), (epoch * 2 + count).epsilon(delta=1e-5)
    assert alone < both < alone + 0.25
    sampled = cm.Gaussian(noise_multiplier=1.0).poisson(rate=1 / 30) * 30
    assert epoch.epsilon(delta=1e-5) < sampled.epsilon(delta=1e-5)
    assert (epoch + sampled).epsilon(delta=1e-5) > sampled.epsilon(delta=1e-5)


@pytest.mark.parametrize("sigma", [0.05, 1e6])
def test_doubles_that_do_not_hold_ratios_leave_a_bound(sigma: float) -> None:
    run, everyone = allocated(12, sigma), cm.Gaussian(noise_multiplier=sigma)
    assert run.epsilon(delta=1e-5) == pytest.approx(everyone.epsilon(delta=1e-5), rel=1e-12)
    assert not run.guarantee(delta=1e-8).exact


@pytest.mark.slow
def test_fewer_steps_dominate() -> None:
    """Where the law of all steps of much noise would take too long, fewer are a bound: not exact."""
    assert [followed_steps(1 / 128, steps) for steps in (1, 2, 60, 61, 5000)] == [1, 2, 60, 61, 61]
    assert followed_steps(1 / 200, 5000) == followed_steps(13.0, 5000) == 1
    few, many = (allocated(steps, 128.0)._known() for steps in (61, 5000))
    assert few.directions(None) == many.directions(None)
    assert few.tight(None)
    assert not many.tight(None)
    for steps in (2, 3, 4, 30, 31):
        more, fewer = (deltas_of(size) for size in (steps + 1, steps))
        assert np.all(more <= fewer * (1 + 1e-9))


def deltas_of(steps: int) -> Any:
    """Return δ of both directions at a few ε, at σ = 0.8."""
    pairs = pair_of(LeavesOneOf, 0.8, steps), pair_of(JoinsOneOf, 0.8, steps)
    asked = [(pair, epsilon) for pair in pairs for epsilon in (0.1, 0.5, 1.5)]
    return np.exp([log_delta_of_pairs([((pair, 1),)], epsilon).value for pair, epsilon in asked])


@pytest.mark.parametrize(("steps", "sigma", "epochs", "epsilon"), [(100, 1.0, 1, 0.62093967162), (9, 2.5, 4, None)])
def test_intervals_are_certified(steps: int, sigma: float, epochs: int, epsilon: float | None) -> None:
    run = allocated(steps, sigma) * epochs
    interval = run.epsilon_interval(delta=1e-5)
    assert interval.certified
    assert interval.upper - interval.lower < 1e-10 * interval.upper
    assert epsilon is None or interval.lower - 1e-11 < epsilon < interval.upper + 1e-11
    assert interval.lower <= run.epsilon(delta=1e-5) <= interval.upper * (1 + 1e-8)
    deltas = run.delta_interval(epsilon=interval.upper)
    assert deltas.certified
    assert deltas.lower <= 1e-5 <= deltas.upper * (1 + 1e-9)


@pytest.mark.parametrize(("steps", "sigma", "epsilon"), [(7, 0.8, 0.4), (23, 1.3, 0.4), (3, 2.5, 0.3), (40, 4.0, 0.12)])
@pytest.mark.parametrize("leaves", [True, False])
def test_certified_bounds_hold_bromwich(steps: int, sigma: float, epsilon: float, leaves: bool) -> None:
    pair = pair_of(LeavesOneOf if leaves else JoinsOneOf, sigma, steps)
    direction = (((pair, 1),),)
    found = certified_delta(direction, direction, epsilon)
    truth = bromwich_delta(steps, sigma, epsilon, leaves)
    assert found.certified
    assert found.lower * (1 - 1e-14) <= truth <= found.upper * (1 + 1e-14)
    assert found.upper <= found.lower * (1 + 1e-9)


def test_a_run_with_others_is_certified_too() -> None:
    sampled = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.02) * 20
    run = allocated(40, 1.5) * 2 + sampled + cm.Gaussian(noise_multiplier=8.0)
    interval = run.epsilon_interval(delta=1e-5)
    assert interval.certified
    assert interval.upper - interval.lower < 1e-6 * interval.upper


def test_small_deltas() -> None:
    """Far losses are left out where no δ above 1e-60 sees them: below, Rényi DP answers."""
    epoch = allocated(50, 1.0)
    found = [epoch.epsilon(delta=delta) for delta in (1e-10, 1e-30, 1e-50, 1e-70, 1e-300)]
    assert all(a < b for a, b in pairwise(found))
    assert epoch.guarantee(delta=1e-50).exact
    pair = pair_of(LeavesOneOf, 1.0, 50)
    assert 0 < pair.left_out < 1e-60


def test_a_training_run_in_whole_batches() -> None:
    """60000/256 = 234.4: a record draws one of 234 batches, and a batch begun is an epoch begun."""
    plan: dict[str, Any] = {"noise_multiplier": 1.0, "batch_size": 256, "dataset_size": 60_000}
    ((epoch, count),) = cm.dp_sgd(**plan, steps=469, sampling="balls_in_bins", bins="fresh").parts
    assert (epoch, count) == (allocated(234, 1.0), 3)
    ((epoch, count),) = cm.dp_sgd(**plan, epochs=1.5, sampling="random_allocation", bins="kept").parts
    assert (epoch, count) == (allocated(234, 1.0, epochs=2, bins="kept"), 1)
    assert cm.dp_sgd(**plan, epochs=0, sampling="random_allocation").epsilon(delta=1e-5) == 0


def test_words_and_data() -> None:
    run = allocated(100, 1.0, epochs=3, bins="kept", chosen=2) + allocated(100, 1.0)
    assert cm.from_dict(run.to_dict()) == run
    text = run.statement(delta=1e-5)
    assert "3 epochs, draws kept in all of them, of 100 steps" in " ".join(text.split())
    said = " ".join(assumptions_of(run))
    for part in ("uniformly by itself", "nobody is shown", "cut to a size", "drawn anew", "those of the first"):
        assert part in said
