"""Parameters that are computed from others err on the side that reveals more, against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mpmath import exp, expm1, harmonic, log, mp, mpf, sqrt

import cumulant as cm
from cumulant.curves.curve import combined_failure, total
from cumulant.parameters import product_above, ratio_above, share_below
from cumulant.profiles.multiplicity import Multiplicity
from cumulant.profiles.profile import gaussian_groups, laplace_groups
from cumulant.profiles.sampling import amplified_epsilon, with_replacement_profile
from cumulant.sampling.gaussian_triples import Triples
from cumulant.sampling.mixture import amplified_failure
from cumulant.sampling.with_replacement import SampledWithReplacement, mixed_moments
from stored import stored

DIGITS = 60
ANY = st.floats(5e-324, 1.7e308)  # the whole range, denormal numbers included
COUNTS = st.one_of(st.integers(1, 1000), st.integers(1, 10**18))
SIZES = st.one_of(st.integers(1, 1000), st.integers(1, 10**9))


def next_below(x: float) -> float:
    return math.nextafter(x, -math.inf)


# Products and quotients -----------------------------------------------------------------------------------------------


@given(COUNTS, st.one_of(ANY, st.floats(1e-3, 1e3)))
def test_products_are_the_least_double_above(count: int, value: float) -> None:
    got, exact = product_above(count, value), count * Fraction(value)
    assert got == math.inf or Fraction(got) >= exact
    below = next_below(got)
    assert below < 0 or Fraction(below) < exact


@given(st.integers(0, 10**30), st.integers(1, 10**30))
def test_ratios_are_the_least_double_above(part: int, whole: int) -> None:
    assume(part <= whole)
    got = ratio_above(part, whole)
    assert Fraction(next_below(got)) < Fraction(part, whole) <= Fraction(got) <= 1


@given(ANY, SIZES)
def test_shares_are_the_greatest_double_below(value: float, size: int) -> None:
    got, exact = share_below(value, size), Fraction(value) / size
    assert Fraction(got) <= exact < Fraction(math.nextafter(got, math.inf))


@given(st.integers(1, 10**30), st.integers(1, 10**30))
def test_sampling_rates_are_never_below_the_share(batch: int, population: int) -> None:
    assume(batch <= population)
    step = cm.Laplace(scale=1.0).without_replacement(batch=batch, population=population)
    assert Fraction(step.rate) >= Fraction(batch, population)  # type: ignore[attr-defined]


# Groups ---------------------------------------------------------------------------------------------------------------


@given(st.floats(1e-290, 1e300), SIZES)
def test_groups_never_have_more_noise_than_their_share(noise: float, size: int) -> None:
    gaussian, laplace = cm.Gaussian(noise_multiplier=noise), cm.Laplace(scale=noise)
    for got in (gaussian.group(size=size).noise_multiplier, laplace.group(size=size).scale):
        assert Fraction(got) * size <= Fraction(noise)
        assert Fraction(math.nextafter(got, math.inf)) * size > Fraction(noise)
    one = Fraction(1) / Fraction(noise)
    for groups, pure in ((gaussian_groups, 0.0), (laplace_groups, float(one) * (1 - 1e-15))):
        assert groups(pure)(size).pure >= size * Fraction(pure)


@pytest.mark.parametrize("size", [2, 3, 10**9, 10**300])
def test_a_group_without_noise_is_refused(size: int) -> None:
    for mechanism in (cm.Gaussian(noise_multiplier=5e-324), cm.Laplace(scale=5e-324)):
        with pytest.raises(cm.InvalidParameter, match="size must leave some noise"):
            mechanism.group(size=size)


@given(st.floats(0.0, 1e298), SIZES)
def test_groups_of_pure_dp_add_up(epsilon: float, size: int) -> None:
    group = cm.PureDP(epsilon=epsilon).group(size=size)
    assert Fraction(group.bound) >= size * Fraction(epsilon)
    assert group.bound == 0 or Fraction(next_below(group.bound)) < size * Fraction(epsilon)


@given(
    st.one_of(st.floats(1e-12, 1e3), st.floats(1e-300, 1e4)),
    st.one_of(st.floats(1e-30, 1.0), st.floats(5e-324, 1.0)),
    st.one_of(st.integers(2, 50), st.integers(2, 10**9)),
)
@example(800.0, 1e-3, 2)
@example(1.0, 1e-300, 800)
@example(1e-9, 1e-12, 10**9)
@example(355.0, 5e-324, 2)
def test_groups_of_approximate_dp(epsilon: float, delta: float, size: int) -> None:
    """(kε, δ(e^{kε} - 1)/(e^ε - 1)), in closed form, however large: never below, and hardly above."""
    group = cm.ApproximateDP(epsilon=epsilon, delta=delta).group(size=size)
    assert Fraction(group.bound) >= size * Fraction(epsilon)
    with mp.workdps(DIGITS):
        exact = min(mpf(1), mpf(delta) * expm1(size * mpf(epsilon)) / expm1(mpf(epsilon)))
        assert exact <= group.failure <= exact * (1 + mpf(1e-11)) + 5e-324
    assert group.failure == 1 or group.failure >= 2 * delta


def test_groups_without_epsilon_or_delta() -> None:
    assert cm.ApproximateDP(epsilon=0.0, delta=0.125).group(size=3).failure == 0.375
    assert cm.ApproximateDP(epsilon=1.0, delta=0.0).group(size=10**9).failure == 0
    assert cm.ApproximateDP(epsilon=0.1, delta=0.01).group(size=1) == cm.ApproximateDP(epsilon=0.1, delta=0.01)


@given(st.floats(1e-300, 1e100), st.floats(1e-300, 1e100), st.one_of(st.integers(1, 300), st.integers(1, 10**12)))
def test_groups_of_concentrated_dp(rho: float, xi: float, size: int) -> None:
    group = cm.ZCDP(rho=rho, xi=xi).group(size=size)
    assert Fraction(group.rho) >= size * size * Fraction(rho)
    with mp.workdps(DIGITS):
        exact = mpf(xi) * size * harmonic(size)
        assert exact <= group.xi <= exact * (1 + mpf(1) / size + mpf(1e-14))


# Sums of costs --------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.one_of(ANY, st.floats(1e-6, 1e6)), COUNTS), min_size=1, max_size=6))
def test_pure_dp_adds_up_to_the_least_double_above(parts: list[tuple[float, int]]) -> None:
    cgf = total([(cm.PureDP(epsilon=epsilon)._known().curve(), count) for epsilon, count in parts])
    exact = sum((count * Fraction(epsilon) for epsilon, count in parts), Fraction(0))
    assert cgf.pure == math.inf or Fraction(next_below(cgf.pure)) < exact <= Fraction(cgf.pure)
    kl = [(cm.PureDP(epsilon=epsilon)._known().curve().kl, count) for epsilon, count in parts]
    if all(value < math.inf for value, _ in kl):
        assert cgf.kl == math.inf or Fraction(cgf.kl) >= sum(count * Fraction(value) for value, count in kl)


@given(st.lists(st.tuples(st.floats(5e-324, 1.0), COUNTS), min_size=1, max_size=6))
def test_failures_are_combined_from_above(parts: list[tuple[float, int]]) -> None:
    with mp.workdps(400):  # 1 - (1-p)^n of the smallest p
        exact = -expm1(sum(count * log(1 - mpf(p)) if p < 1 else -(mpf(10) ** 9) for p, count in parts))
        got = combined_failure(parts)
        rounding = 1 + mpf(10) ** -390  # of the reference: a single failure stays as it is
        assert (got == 1 and exact > mpf(1) - mpf(1e-15)) or exact <= got * rounding
        assert got <= exact * (1 + mpf(1e-14)) + mpf(5e-324)


@given(st.floats(5e-324, 700.0), st.floats(1e-140, 1.0), st.floats(5e-324, 1.0))
def test_samples_of_pure_and_approximate_dp(epsilon: float, rate: float, delta: float) -> None:
    with mp.workdps(400):
        pure, failure = log(1 + mpf(rate) * expm1(mpf(epsilon))), mpf(rate) * mpf(delta)
        nearly = pure * (1 - mpf(10) ** -390)  # mpmath rounds, too
        assert nearly <= amplified_epsilon(epsilon, rate) <= pure * (1 + mpf(1e-12)) + 1e-322
        sampled = amplified_failure(cm.ApproximateDP(epsilon=epsilon, delta=delta)._known().curve(), rate)
        assert failure <= sampled.failure <= failure * (1 + mpf(1e-15)) + 5e-324


# Sampling with replacement --------------------------------------------------------------------------------------------


def exact_weights(draws: int, population: int) -> list[mpf]:
    p = mpf(1) / population
    weights = [(1 - p) ** draws]
    for k in range(draws):
        weights.append(weights[-1] * (draws - k) / (k + 1) * p / (1 - p))
    return weights


def exact_gaussian_delta(mean: mpf, epsilon: mpf) -> mpf:
    return mp.ncdf(mean / 2 - epsilon / mean) - exp(epsilon) * mp.ncdf(-mean / 2 - epsilon / mean)


@pytest.mark.slow
@pytest.mark.parametrize(("draws", "population", "above"), [(600, 20, 1e-8), (2000, 1000, 1e-8), (100_010, 10, 0.05)])
def test_profiles_with_replacement(draws: int, population: int, above: float) -> None:
    """Summed one by one, or in blocks where a record comes up 10⁴ times: never below the theorem, and hardly above."""
    noise = 2.0 * draws / population
    profile = with_replacement_profile(gaussian_groups(1 / noise), draws=draws, population=population)
    with mp.workdps(30):
        weights = exact_weights(draws, population)
        rate = 1 - weights[0]
        for target in (0.1, 1.0):
            base = log(1 + expm1(mpf(target)) / rate)
            costs = (w * exact_gaussian_delta(k / mpf(noise), base) for k, w in enumerate(weights) if k and w > 1e-18)
            exact = mp.fsum(costs)
            assert exact * (1 - mpf(1e-12)) <= profile.delta(target) <= exact * (1 + mpf(above))


@pytest.mark.parametrize(("draws", "population"), [(300, 20), (2000, 10), (30, 2)])
def test_mixed_moments(draws: int, population: int) -> None:
    """The sum over all multiplicities, in many digits."""
    noise, orders = 3.0 * draws / population, [0.01, 0.5, 1.0, 3.0]
    step = cm.Gaussian(noise_multiplier=noise).with_replacement(draws=draws, population=population)
    assert isinstance(step, SampledWithReplacement)
    got = mixed_moments(step)(np.array(orders))
    with mp.workdps(40):
        weights = exact_weights(draws, population)
        for lam, bound in zip(orders, got.tolist(), strict=True):
            k_of = [mpf(lam) * (mpf(lam) + 1) / 2 * (k / mpf(noise)) ** 2 for k in range(draws + 1)]
            exact = log(1 + mp.fsum(w * expm1(k) for w, k in zip(weights, k_of, strict=True)))
            assert exact <= bound <= exact * mpf(1.02)


@given(st.integers(20, 500), st.integers(2, 40), st.floats(1.01, 30.0))
def test_tails_of_multiplicities(draws: int, population: int, factor: float) -> None:
    k = math.ceil(factor * draws / population)
    assume(draws / population < k <= draws)
    law = Multiplicity(draws, population)
    with mp.workdps(40):
        weights = exact_weights(draws, population)
        assert mp.fsum(weights[k:]) <= exp(mpf(law.log_from(float(k))))
        assert mp.fsum(weights[1:]) <= mp.fsum(exp(mpf(w)) for w in law.fine_blocks().log_weights.tolist())


# Gaussian triples -----------------------------------------------------------------------------------------------------


@stored
def exact_moment(lam: float, mean: float, rate: float, far_is_first: bool, share: float) -> mpf:
    """Return Φ - 1 by a trapezoidal rule with a step, a range and digits far beyond what is needed."""
    with mp.workdps(30):
        return _exact_moment(lam, mean, rate, far_is_first, share)


def _exact_moment(lam: float, mean: float, rate: float, far_is_first: bool, share: float) -> mpf:
    power, v, g = 1 + mpf(lam), mpf(mean) ** 2, mpf(rate)
    tau = mpf(share) * v
    slope = tau / 2 / mpf(mean)
    spread = sqrt(tau - slope**2)
    step = min(mpf(1) / 4, mpf(1) / 8 / mpf(mean))
    low, high = -int((lam * mean + 13) / step), int(((1 + lam) * mean + 13) / step)
    nodes = [(step * i, exp(-((step * i) ** 2) / 2) * step / sqrt(2 * mp.pi)) for i in range(low, high + 1)]
    across = nodes if spread > 0 else [(mpf(0), mpf(1))]
    total_moment = mpf(0)
    for x, w_x in nodes:
        far = 1 - g + g * exp(mean * x - v / 2)
        for y, w_y in across:
            near = 1 - g + g * exp(slope * x + spread * y - tau / 2)
            p, q = (far, near) if far_is_first else (near, far)
            total_moment += w_x * w_y * exp(power * log(p) + (1 - power) * log(q))
    return total_moment - 1


TRIPLES = [
    (lam, mean, rate, first, 0.0)
    for mean in (0.01, 0.1, 1.0, 3.0, 6.35, 10.0)
    for rate in (1e-6, 0.01, 0.5, 0.95)
    for lam in (0.25, 1.0, 3.7)
    for first in (True, False)
    if lam * (1 + lam) * mean**2 < 60
]
PLANE = [(0.5, 0.05, 0.3, True, 1.0), (1.0, 0.7, 1e-3, False, 0.5), (0.5, 0.9, 0.9, False, 1.0)]


@pytest.mark.parametrize(("lam", "mean", "rate", "first", "share"), TRIPLES + PLANE)
def test_moments_of_triples_are_bounded(lam: float, mean: float, rate: float, first: bool, share: float) -> None:
    """The error of the rule is proven and added: with 1e-9 for rounding never below the truth, and hardly above."""
    got = Triples(lam, mean * mean, rate, first).excess(share * mean * mean, share * mean * mean)
    with mp.workdps(30):
        exact = exact_moment(lam, mean, rate, first, share)
        assert exact <= got * (1 + 1e-9)
        assert got <= exact * (1 + mpf(1e-8))
