"""Where intervals and answers meet an edge: next to a point of a lattice, outputs without mass, losses below 0."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.pairs.pair import DominatingPair

SEEDS = range(12)


def binary_delta(epsilon: float, count: int, at: float) -> mpf:
    """Return δ of `count` releases of ±ε, term by term from the largest loss down, at a point next to a loss."""
    e, p = mpf(epsilon), 1 / (1 + mp.exp(-mpf(epsilon)))
    rare, total, j = 1 - p, mpf(0), 0
    while (count - 2 * j) * e > at:
        total += mp.binomial(count, j) * p ** (count - j) * rare**j * -mp.expm1(mpf(at) - (count - 2 * j) * e)
        j += 1
    return total


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("towards", [0.0, math.inf])
def test_a_point_of_a_lattice_next_to_epsilon_counts(seed: int, towards: float) -> None:
    """One double below a point the point itself adds to δ, one above it does not: neither may be mistaken."""
    generator = np.random.default_rng(seed)
    epsilon = float(generator.choice([0.125, 0.75, 1.0, 3.75, 23.5]))
    count = int(math.exp(generator.uniform(math.log(10), math.log(2e5))))
    place = count - 2 * int(generator.integers(0, min(count // 2, 40)))
    at = math.nextafter(epsilon * place, towards)
    run = cm.PureDP(epsilon=epsilon) * count
    with mp.workdps(80):
        exact = binary_delta(epsilon, count, at)
        interval = run.delta_interval(epsilon=at)
        assert interval.lower <= exact <= interval.upper
        assert run.log_delta(epsilon=at) >= mp.log(exact) if exact > 0 else True


@pytest.mark.parametrize("seed", range(60))
def test_a_delta_next_to_the_largest_loss_is_not_lost_in_rounding(seed: int) -> None:
    """Next to the largest loss tilts are 1e13 and more, and K(θ) - θε may have no digit left."""
    generator = np.random.default_rng(seed)
    epsilon = float(f"{math.exp(generator.uniform(math.log(1.0), math.log(1000.0))):.5g}")
    count, delta = int(generator.integers(2, 30)), float(f"{10 ** generator.uniform(-18, -8):.1g}")
    run = cm.PureDP(epsilon=epsilon) * count
    with mp.workdps(80):
        answer = run.epsilon(delta=delta)
        assert binary_delta(epsilon, count, answer) <= mpf(delta)
        for at in (answer, math.nextafter(answer, 0.0), answer * (1 - 1e-15), answer * (1 - 1e-12)):
            exact = binary_delta(epsilon, count, at)
            assert exact == 0 or run.log_delta(epsilon=at) >= mp.log(exact)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("p", [0.6, 0.75, 0.99])
@pytest.mark.parametrize("count", [1, 7])
def test_outputs_without_mass_are_not_the_largest_loss(p: float, rate: float, count: int) -> None:
    """A record that joins may make an output certain, but only if it could be revealed; here it cannot."""
    run = cm.RandomizedResponse(p=p).poisson(rate=rate) * count
    with mp.workdps(40):
        odds = mpf(p) / (1 - mpf(p))
        leaves, joins = mp.log(1 - mpf(rate) + rate * odds), -mp.log(1 - mpf(rate) + rate / odds)
        interval = run.epsilon_interval(delta=0.0)
        assert interval.certified
        assert interval.lower <= count * max(leaves, joins) <= interval.upper
        assert interval.width <= 1e-13 * interval.upper


@pytest.mark.parametrize("scale", [0.5, 0.0075, 0.0074, 0.005, 1e-3])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 0.01])
def test_small_laplace_noise_has_ends_that_are_numbers(scale: float, delta: float) -> None:
    for count in (1, 2):
        interval = (cm.Laplace(scale=scale) * count).epsilon_interval(delta=delta)
        assert 0 <= interval.lower <= interval.upper <= count / scale * (1 + 1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_small_release_beside_a_large_one_is_not_lost(seed: int) -> None:
    """The squares of means add, in exact fractions; the mean of the product is not below their root."""
    from cumulant.pairs.pair import GaussianPair

    generator = np.random.default_rng(seed)
    parts = [
        (float(2.0 ** generator.integers(-40, 10) * generator.uniform(1, 2)), int(generator.integers(1, 70)))
        for _ in range(int(generator.integers(1, 5)))
    ]
    mean = GaussianPair.product([(GaussianPair(mu), n) for mu, n in parts]).mean
    assert Fraction(mean) ** 2 >= sum(n * Fraction(mu) ** 2 for mu, n in parts)


def test_composed_gaussians_are_bounded_from_below_by_their_own_mean() -> None:
    """Three releases at σ = 3 are one at √3/3, sampled: the truth is from a quadrature of 40 digits."""
    run = (cm.Gaussian(noise_multiplier=3.0) * 3).poisson(rate=0.25) * 200
    interval = run.delta_interval(epsilon=60.0)
    assert interval.certified
    assert interval.lower <= 1.222154804318698874e-87 <= interval.upper


@pytest.mark.parametrize("count", [1, 2, 50])
@pytest.mark.parametrize("delta", [0.5, 0.76, 0.999])
def test_a_pair_whose_finite_losses_are_negative_needs_no_epsilon(count: int, delta: float) -> None:
    """All that can be told apart is revealed: δ = 1 - 2^-n at every ε."""
    pair = cm.StatedPair(probabilities=(1.0, 0.0), neighbor_probabilities=(0.5, 0.5), relation=cm.ADD_REMOVE)
    enough = Fraction(delta) >= 1 - Fraction(1, 2**count)
    answers = (pair * count).epsilon(delta=delta), (pair * count).epsilon_interval(delta=delta)
    if enough:
        assert answers[0] <= count * math.log(2) * (1 + 1e-14)
        assert answers[1].lower <= answers[0]
    else:
        assert answers[0] == math.inf


def test_a_failure_that_cannot_be_told_from_one_bounds_nothing_from_below() -> None:
    interval = (cm.ApproximateDP(epsilon=1.0, delta=0.5) * 200).epsilon_interval(log_delta=-1e-61)
    assert interval.lower == 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_of_losses_keeps_its_largest_loss(seed: int) -> None:
    """Scaling Q to 1 must not move a loss below what was stated."""
    generator = np.random.default_rng(seed)
    losses = np.sort(generator.normal(0.0, 0.4, size=int(generator.integers(2, 200))))
    masses = generator.dirichlet(np.ones(len(losses)))
    losses = losses + math.log(float(masses @ np.exp(-losses)))
    pair = cm.StatedPair.from_losses(losses=losses.tolist(), probabilities=masses.tolist())
    assert pair.epsilon(delta=0.0) >= max(losses)
    interval = pair.epsilon_interval(delta=0.0)
    assert interval.lower <= max(*losses, *(-losses)) <= interval.upper


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[:4])  # each takes a second
def test_rates_whose_squares_underflow_still_reveal_something(seed: int) -> None:
    """δ(0) of any number of releases is at least the total variation of one, γ(2Φ(1/2σ) - 1): below it ε is above 0."""
    generator = np.random.default_rng(seed)
    rate, sigma = 10.0 ** generator.uniform(-300, -150), float(generator.uniform(0.5, 3.0))
    count = int(generator.choice([1, 2, 1000]))
    once = mpf(rate) * mp.erf(1 / (2 * mp.sqrt(2) * mpf(sigma)))
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    assert run.log_delta(epsilon=0.0) >= mp.log(once)
    assert run.epsilon(log_delta=float(mp.log(once)) - 0.1) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_negative_losses_beside_a_gaussian(seed: int) -> None:
    """P = (p, 1-p), Q = (1, 0): revealed with 1 - p, else the loss is log p, and the Gaussian decides the rest."""
    generator = np.random.default_rng(seed)
    p, sigma = 2.0 ** -float(generator.integers(1, 60)), float(10.0 ** generator.uniform(-1, 2))
    epsilon = float(generator.choice([0.0, 0.5, 3.0, 30.0]))
    run = cm.Gaussian(noise_multiplier=sigma) + cm.StatedPair(
        probabilities=(p, 1 - p), neighbor_probabilities=(1.0, 0.0), relation=cm.ADD_REMOVE
    )
    with mp.workdps(60):
        mean, beyond = 1 / mpf(sigma), mpf(epsilon) - mp.log(mpf(p))
        left = mp.ncdf(mean / 2 - beyond / mean) - mp.exp(beyond) * mp.ncdf(-mean / 2 - beyond / mean)
        joins = mp.ncdf(mean / 2 - (epsilon - mp.log(1 / mpf(p))) / mean) - mp.exp(epsilon) * p * mp.ncdf(
            -mean / 2 - (epsilon - mp.log(1 / mpf(p))) / mean
        )
        exact = max(1 - mpf(p) + mpf(p) * left, mpf(joins))
        interval = run.delta_interval(epsilon=epsilon)
        assert interval.lower <= exact <= interval.upper
        assert exact <= run.delta(epsilon=epsilon) <= exact * (1 + 1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_deltas_among_the_smallest_doubles_are_rounded_up(seed: int) -> None:
    """Doubles below 1e-308 lie so far apart that a relative margin rounds away."""
    generator = np.random.default_rng(seed)
    sigma = float(generator.uniform(100, 1000))
    with mp.workdps(60):
        mean, wanted = 1 / mpf(sigma), mpf(10) ** -float(generator.uniform(308.5, 322))
        epsilon = float(mean * mp.sqrt(-2 * mp.log(wanted)))
        exact = mp.ncdf(mean / 2 - epsilon / mean) - mp.exp(epsilon) * mp.ncdf(-mean / 2 - epsilon / mean)
        assert (
            exact <= cm.Gaussian(noise_multiplier=sigma).delta(epsilon=epsilon) <= exact + mpf("2e-323") + exact * 1e-11
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_epsilon_next_to_pure_dp_keeps_its_delta(seed: int) -> None:
    """Where δ is hardly more than rounding, ε is within units of pure DP: the two ways must still agree."""
    generator = np.random.default_rng(seed)
    step = cm.Laplace(scale=float(10.0 ** generator.uniform(0, 3))).poisson(rate=float(generator.uniform(0.05, 1.0)))
    run, delta = step * int(generator.integers(1, 4)), float(10.0 ** generator.uniform(-16, -9))
    for method in ("rdp", "best"):
        assert run.delta(epsilon=run.epsilon(delta=delta, method=method), method=method) <= delta


def test_what_hardly_anyone_fails_is_answered() -> None:
    run = cm.ApproximateDP(epsilon=0.0, delta=1.0).poisson(rate=1e-300) * 2
    assert run.epsilon(delta=1.0) == 0
    assert 2e-300 <= run.delta(epsilon=0.0) < 1e-100


@pytest.mark.parametrize("far", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("displaced", [False, True])
def test_exact_is_not_said_of_a_rate_whose_rounding_shows(far: float, displaced: bool) -> None:
    """When a record joins, the largest loss is log(1 - γ(1-q)) of the true γ: a product, or a quotient, of doubles."""
    table = cm.StatedPair(probabilities=(0.25, 0.75), neighbor_probabilities=(0.75, 0.25))
    if displaced:
        population = round(1 / far) + 7
        run = table.without_replacement(batch=population - 3, population=population, neighbors=cm.ADD_REMOVE)
        rate = Fraction(population - 3, population)
    else:
        run = table.poisson(rate=1 - far).poisson(rate=1 - far)
        rate = Fraction(1 - far) ** 2
    guarantee = run.guarantee(delta=0.0)
    with mp.workdps(40):
        odds = mpf(rate.numerator) / rate.denominator
        truth = max(mp.log(1 + 2 * odds), -mp.log(1 - 2 * odds / 3))
    assert guarantee.epsilon >= truth
    assert not guarantee.exact or guarantee.epsilon <= truth * (1 + mpf(1e-9))


@pytest.mark.parametrize("far", [0.3, 1e-3, 1e-6, 1e-9])
def test_intervals_of_groups_know_that_a_rate_was_rounded_up(far: float) -> None:
    """Lower ends are for the product of the rates, or less; (1-γ)^k hangs on every digit of 1 - γ."""
    step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=1 - far).poisson(rate=1 - far)
    group = step.group(size=3)._known()
    dominating, attained = group.directions(None), group.attained(None)
    assert dominating is not None
    assert attained is not None
    upper, lower = (direction[1][0][0] for direction in (dominating, attained))  # the group joins
    assert isinstance(upper, DominatingPair)
    assert isinstance(lower, DominatingPair)
    with mp.workdps(40):
        truth = -3 * mp.log1p(-(mpf(1 - far) ** 2))  # the largest loss: none of the three was sampled
        assert lower.supremum * (1 - mpf(10) ** -14) <= truth <= upper.supremum
    replaced = cm.Gaussian(noise_multiplier=1.0).poisson(rate=1 - far).poisson(rate=1 - far, neighbors=cm.REPLACE_ONE)
    if far < 1e-5:
        assert not step.group(size=3).guarantee(delta=1e-5).exact
        assert not replaced.guarantee(delta=1e-5).exact


@pytest.mark.parametrize(
    ("run", "delta", "needed"),
    [
        (cm.Gaussian(noise_multiplier=0.0625), 1 - 1e-13, 9.087161965035882),
        (cm.Laplace(scale=0.025), 0.999999995, 1.77234413882043),
        (cm.RandomizedResponse(p=1e-10), 0.99999999, 4.5951198552101043),
        (
            cm.StatedPair(
                probabilities=(0.75, 0.25), neighbor_probabilities=(2**-44, 1 - 2**-44), relation=cm.ADD_REMOVE
            )
            * 2
            + cm.PureDP(epsilon=0.12580157458628174),
            0.5624999999999585,
            30.184407117012618,
        ),
    ],
)
def test_what_is_claimed_of_epsilon_holds_where_a_profile_is_flat(
    run: AbstractMechanism, delta: float, needed: float
) -> None:
    """Against closed forms and enumerations of 200 bits: rounding of δ moves ε far there."""
    guarantee, interval = run.guarantee(delta=delta), run.epsilon_interval(delta=delta)
    assert guarantee.epsilon >= needed
    assert not guarantee.exact or guarantee.epsilon <= needed * (1 + (guarantee.at_most_above or 0) + 1e-12)
    assert interval.lower <= needed * (1 + 1e-14)
    assert interval.upper >= needed * (1 - 1e-14)


def test_where_everything_is_revealed_another_direction_needs_no_losses() -> None:
    """So many releases that each may reveal all that only the bound for the other order is asked: δ is at most 1."""
    table = cm.StatedPair(probabilities=(0.25, 0.25, 0.5), neighbor_probabilities=(0.25, 0.5, 0.25))
    run = table.without_replacement(rate=0.1, neighbors=cm.ADD_REMOVE) * 61
    run += cm.ApproximateDP(epsilon=2.5, delta=0.5).without_replacement(rate=0.5, neighbors=cm.ADD_REMOVE) * 8122186
    assert run.epsilon(delta=0.08) == math.inf
    assert run.delta(epsilon=1.0) == 1.0


@pytest.mark.parametrize("seed", range(12))
def test_intervals_of_groups_know_that_their_epsilon_was_rounded_up(seed: int) -> None:
    """Next to the largest loss δ shows every digit of kε: as a sum over all outcomes, also of a sample."""
    rng = np.random.default_rng(seed)
    each, size, count = float(10.0 ** rng.uniform(-3, 0)), int(rng.integers(3, 8)), int(rng.integers(1, 5))
    group = cm.PureDP(epsilon=each).group(size=size)
    with mp.workdps(60):
        loss = size * mpf(each)
        asked = float(count * loss * (1 - mpf(2) ** -51))
        exact = mp.fsum(
            mp.binomial(count, k) * mp.exp((count - k) * loss) / (1 + mp.exp(loss)) ** count
            * max(1 - mp.exp(mpf(asked) - (count - 2 * k) * loss), mpf(0))
            for k in range(count + 1)
        )  # fmt: skip
        interval = (group * count).delta_interval(epsilon=asked)
        assert interval.lower <= exact <= interval.upper
        assert (group * count).epsilon_interval(delta=0.0).lower <= count * loss
    assert cm.from_dict(group.to_dict()) == group
    assert group.group(size=2) == cm.PureDP(epsilon=each).group(size=2 * size)


@pytest.mark.slow
@pytest.mark.parametrize("failure", [0.1, 0.3, 1e-5, 1e-300, 0.96])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_an_infinite_epsilon_is_exact_only_below_what_fails(failure: float, count: int) -> None:
    """A δ within some units of 1 - (1-p)^n may still be above it; a smaller one is not."""
    run = cm.ApproximateDP(epsilon=1.0, delta=failure) * count
    with mp.workdps(400):
        fails = -mp.expm1(count * mp.log1p(-mpf(failure)))
        for units in range(-40, 41):
            delta = float(fails * (1 + units * mpf(2) ** -53))
            guarantee = run.guarantee(delta=delta)
            assert guarantee.epsilon < math.inf or not guarantee.exact or delta < fails
    assert run.guarantee(delta=float(fails) * (1 - 1e-10)).exact
    assert run.guarantee(delta=float(fails) * (1 - 1e-10)).epsilon == math.inf


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("count", [1, 3])
def test_a_delta_that_rounds_to_one_is_not_exact(sigma: float, count: int) -> None:
    """No ε is needed at a δ of 1; a δ that a double holds as its logarithm is exact."""
    for run in (cm.Gaussian(noise_multiplier=sigma) * count, cm.Laplace(scale=sigma / 5) * count):
        guarantee = run.guarantee(epsilon=1.0)
        assert guarantee.log_delta <= 0
        assert not (guarantee.exact and guarantee.log_delta == 0)
    assert cm.Gaussian(noise_multiplier=0.05).guarantee(epsilon=1.0).exact
    assert (cm.ApproximateDP(epsilon=30.0, delta=1 - 1e-8) * 3).guarantee(epsilon=1.0).exact is False
