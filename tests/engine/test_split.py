"""Rare steps: classes, paths, rules and bounds against integrals in many digits and against intervals in balls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import cumulant as cm
from cumulant.inversion.choose import JOINING, WAYS, epsilon_on, log_delta_on
from cumulant.inversion.split import CUTS, plan_split
from cumulant.inversion.whole_line import guess_log_delta, joining_ceiling, joining_log_ceiling
from cumulant.pairs.release_tails import FarTail, FarTails
from cumulant.pairs.sampled_gaussian import (
    RealTilts,
    SampledGaussian,
    SampledReleases,
    bound_negative_moments,
    leave_out_light,
    moments_of,
)
from cumulant.pairs.size_classes import Size, SizeClasses, Tilted, reach_of
from high_precision import log_delta_of_samples
from strategies import examples, log_uniform

DIGITS = 40
SPLIT = WAYS[-1]


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    before = ctx.prec
    ctx.prec = 200
    with mp.workdps(DIGITS):
        yield
    ctx.prec = before


CLASSES = [
    SizeClasses(SampledGaussian(1.0, 0.01), 2.5, 5.5, 6.0, 7.5, (-11.0, 13.0)),
    SizeClasses(SampledGaussian(0.3, 1e-4), 4.0, 9.0, 4.0, 11.0, (-11.0, 16.0)),
    SizeClasses(SampledGaussian(2.5, 1e-5), 5.0, 6.0, 10.0, 8.5, (-11.0, 15.0)),
    SizeClasses(SampledGaussian(0.8, 0.2), None, 4.0, 5.0, 9.0, (-11.0, 12.0)),
]
NEAR = [  # far ones begin where many releases lose less than others
    SizeClasses(SampledGaussian(1 / 12, 0.45), None, 1.2, 1.6, 8.0, (-11.0, 12.0)),
    SizeClasses(SampledGaussian(0.7, 0.8), None, 0.9, 1.5, 8.0, (-11.0, 12.0)),
    SizeClasses(SampledGaussian(0.3, 0.66), None, 1.5, 2.0, 8.0, (-11.0, 12.0)),
]
COUNTS = [30, 200, 3, 9, 2, 5, 40]


def largest_loss(classes: SizeClasses) -> float:
    """Return the loss at c_f."""
    law = classes.law
    return math.log1p(law.rate * math.expm1(law.mean * classes.far - law.mean**2 / 2))


def share_ball(classes: SizeClasses, size: Size, t: acb) -> acb:
    """Return X without its end at b."""

    def below(place: float) -> acb:
        return ((t - acb(place)) * acb(classes.sharpness)).erfc() / 2

    quiet = acb(0) if classes.quiet is None else below(classes.quiet)
    near = below(classes.far)
    return {Size.QUIET: quiet, Size.MIDDLE: near - quiet, Size.FAR: 1 - near, Size.ANY: acb(1)}[size]


def moment(classes: SizeClasses, size: Size, z: complex) -> acb:
    """Return ∫ φ X w^z by an integral in balls."""
    mean, rate = acb(classes.law.mean), acb(classes.law.rate)

    def integrand(t: acb, analytic: bool) -> acb:
        log_w = (1 - rate + rate * (mean * t - mean * mean / 2).exp()).log(analytic=analytic)
        return (acb(z.real, z.imag) * log_w - t * t / 2).exp() * share_ball(classes, size, t) / (2 * acb.pi()).sqrt()

    last = classes.last if classes.is_ended(size) else 20.0
    marks = [-16.0, *(x for x in (0.0, classes.quiet, classes.far) if x is not None and x < last), last]
    places = sorted(set(marks))
    total = acb(0)
    for a, b in pairwise(places):
        for k in range(6):
            low, high = a + (b - a) * k / 6, a + (b - a) * (k + 1) / 6
            total += acb.integral(integrand, low, high)
    return total


@pytest.mark.parametrize("classes", CLASSES, ids=str)
@pytest.mark.parametrize("size", list(Size))
def test_moduli_of_shares(classes: SizeClasses, size: Size) -> None:
    for t in (-3.0, 1.0, 3.9, 5.0, 6.4):
        for y in (0.1, 0.5, 1.0):
            there = abs(share_ball(classes, size, acb(t, y)))
            here = share_ball(classes, size, acb(t)).real
            grown = (arb(classes.sharpness) * arb(y)) ** 2
            assert there <= grown.exp() * here + arb("1e-50")
            assert there <= 1 + grown.exp() * (1 - here) + arb("1e-50")


@pytest.mark.parametrize("classes", CLASSES, ids=str)
@pytest.mark.parametrize(
    ("size", "s"), [(Size.MIDDLE, 4.0), (Size.MIDDLE, 60.0), (Size.FAR, -0.5), (Size.FAR, -25.0), (Size.ANY, -12.0)]
)
def test_moments_fall_as_bounds_say(classes: SizeClasses, size: Size, s: float) -> None:
    tilted = Tilted.of(classes, size, s)
    omega = np.array([0.0, 3.0, 20.0, 90.0, 400.0]) / largest_loss(classes)
    bounds = tilted.log_moduli(omega)
    for frequency, bound in zip(omega.tolist(), bounds.tolist(), strict=True):
        assert float(abs(moment(classes, size, complex(s, frequency))).lower()) <= math.exp(bound)
    assert np.all(np.diff(bounds) <= 0)
    assert size is Size.ANY or bounds[-1] < bounds[0] - 1  # most of all releases lose nothing


@pytest.mark.parametrize("classes", CLASSES, ids=str)
@pytest.mark.parametrize(("size", "s"), [(Size.MIDDLE, 4.0), (Size.MIDDLE, 40.0), (Size.FAR, -0.5), (Size.FAR, -20.0)])
def test_rules_are_as_good_as_they_say(classes: SizeClasses, size: Size, s: float) -> None:
    tilted, (eta, count) = Tilted.of(classes, size, s), (7.0 / largest_loss(classes), 12)
    level = float(abs(moment(classes, size, complex(s))).log())
    rule = tilted.rule(level, eta * count, 36.0)
    assert rule is not None
    values, rounded = moments_of(classes.nodes(size, rule[0]), s, (eta, count), level)
    for j in (0, 1, 5, 11):
        truth = complex(moment(classes, size, complex(s, math.copysign(j * eta, s))) / acb(level).exp())
        assert abs(values[j] - truth) <= rounded[j] + math.exp(rule[1] - level) + 4e-16
    assert rule[1] < level - 28  # of some hundred cells, each e^-36


@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_negative_moments(classes: SizeClasses) -> None:
    """The bound of E_Q w^-τ lies above an integral in balls, and next to it."""
    law = classes.law
    tau = np.array([0.01, 0.3, 2.0, 9.0, 40.0]) / (law.rate * math.sqrt(math.expm1(law.mean**2)))
    bounds = bound_negative_moments(law, -tau, reach_of(law, -float(tau[-1]), 30), 30)
    for power, bound in zip(tau.tolist(), bounds.tolist(), strict=True):
        truth = moment(classes, Size.ANY, complex(-power)).real.log()
        assert float(truth.lower()) <= bound * (1 + 1e-15)
        assert bound <= float(truth.upper()) * (1 + 1e-9) + 1e-12 / 30


@pytest.mark.parametrize("classes", [*CLASSES, *NEAR], ids=str)
def test_positive_moments(classes: SizeClasses) -> None:
    """So does that of E_Q[X w^s] of near releases, and of all; slopes are those of the bound."""
    law, s = classes.law, np.array([1.0, 1.001, 2.0, 9.0, 12.0])
    below = RealTilts.of(law, s, classes.ends, classes.end, 30)
    assert below is not None
    whole = RealTilts.of(law, s, reach_of(law, 12.0, 30), None, 30)
    assert whole is not None
    with np.errstate(all="ignore"):  # beyond doubles
        logs, slopes, _ = whole.log_moments()
    found = {Size.MIDDLE: below.log_below(classes.far), Size.ANY: logs}
    for size, bounds in found.items():
        for power, bound in zip(s.tolist(), bounds.tolist(), strict=True):
            all_of_them = SizeClasses(law, None, classes.far, classes.sharpness, classes.last, classes.ends)
            truth = moment(all_of_them, size, complex(power)).real.log()
            assert float(truth.lower()) <= bound + 1e-15 * abs(bound)
            assert bound <= float(truth.upper()) + 1e-12 * (1 + abs(bound))
    assert slopes[1] == pytest.approx((logs[1] - logs[0]) / 1e-3, rel=1e-2, abs=1e-9)


def test_light_nodes_are_counted() -> None:
    masses = np.array([1e-40, 3e-33, 1.0, 1e-45, 2.0, 5e-31])
    heavy, light = leave_out_light(masses)
    assert (heavy.start, heavy.stop) == (2, 5)  # what lies between is kept
    assert light >= math.fsum(masses[:2]) + math.fsum(masses[5:])


def far_masses(classes: SizeClasses) -> tuple[mpf, mpf]:
    """Return P and Q of one far release in 40 digits: normal tails."""
    law, width = classes.law, mp.sqrt(2 + 1 / mpf(classes.sharpness) ** 2)
    without, within = (mp.erfc((mpf(classes.far) - m) / width) / 2 for m in (mpf(0), mpf(law.mean)))
    return (1 - mpf(law.rate)) * without + mpf(law.rate) * within, without


@pytest.mark.parametrize("share", [0.5, 0.97, 1.0, 1.02, 2.5])
@pytest.mark.parametrize("first", range(len(COUNTS)))
@pytest.mark.parametrize("laws", [1, 2, 3])
def test_gain_of_release_tails(first: int, laws: int, share: float) -> None:
    """P(F) - e^ε Q(F) of releases of one law, and of several."""
    some = [(classes, count) for classes, count in zip([*CLASSES, *NEAR] * 2, COUNTS * 2, strict=True)][
        first : first + laws
    ]
    epsilon = share * largest_loss(some[0][0])
    gain, doubt = FarTails(tuple((FarTail.of(classes), count) for classes, count in some)).gain(epsilon)
    none_of_p, none_of_q, size = mpf(1), mpf(1), mpf(0)
    for classes, count in some:
        p, q = far_masses(classes)
        none_of_p, none_of_q, size = none_of_p * (1 - p) ** count, none_of_q * (1 - q) ** count, size + count * p
    truth = (1 - none_of_p) - mp.exp(mpf(epsilon)) * (1 - none_of_q)
    assert abs(mpf(gain) - truth) <= mpf(doubt)
    assert share > 1.1 or laws > 1 or doubt < 1e-10 * size


def two_releases(law: SampledGaussian, epsilon: float, leaves: bool, other: SampledGaussian | None = None) -> mpf:
    """Return log δ(ε) of a release and another one."""
    second = other or law
    return log_delta_of_samples([(law.mean, law.rate), (second.mean, second.rate)], epsilon, leaves=leaves)


TWO = [
    *((asked, None) for asked in ((1.0, 0.01, 0.3), (0.5, 1e-4, 6.0), (3.0, 0.002, 0.004), (2.0, 1e-5, 3e-4))),
    *((asked, None) for asked in ((0.4, 0.02, 20.0), (30.0, 0.3, 0.05))),
    ((1.0, 0.01, 0.3), (1.3, 0.02)),
    ((0.5, 1e-4, 6.0), (0.7, 1e-3)),
    ((3.0, 0.002, 0.004), (1.0, 1e-5)),
    ((2.0, 1e-3, 0.03), (4.0, 0.002)),
]


@pytest.mark.parametrize(("asked", "other"), TWO)
def test_two_releases(asked: tuple[float, float, float], other: tuple[float, float] | None) -> None:
    """Of one law, and of two."""
    sigma, rate, epsilon = asked
    law = SampledGaussian(1 / sigma, rate)
    second = law if other is None else SampledGaussian(1 / other[0], other[1])
    releases = SampledReleases((law,), (2,)) if other is None else SampledReleases((law, second), (1, 1))
    truth = float(two_releases(law, epsilon, True, second))
    check_profiles(releases, epsilon, truth)


@pytest.mark.parametrize(
    ("asked", "mean"),
    [((1.0, 0.01, 0.5), 0.1), ((0.5, 1e-4, 6.0), 0.4), ((3.0, 0.002, 0.2), 0.05), ((1.0, 1e-3, 2.0), 0.3)],
)
def test_a_release_beside_plain_noise(asked: tuple[float, float, float], mean: float) -> None:
    sigma, rate, epsilon = asked
    law = SampledGaussian(1 / sigma, rate)
    truth = log_delta_of_samples([(law.mean, rate)], epsilon, beside=mean)
    check_profiles(SampledReleases((law,), (1,), mean * mean), epsilon, float(truth))


def check_profiles(releases: SampledReleases, epsilon: float, truth: float) -> None:
    """Every plan encloses log δ, wherever it was made for; the answer is next to it."""
    plans = [(1.0, 0.0, place) for place in CUTS[1:]]
    plans += [(guess, away, CUTS[0]) for guess, away in ((1.0, 0.0), (0.9, 0.0), (1.1, 1.0), (1.0, -2.0))]
    for guess, away, place in plans:
        profile = plan_split(releases, guess * epsilon, truth + away, place)
        if profile is None:
            continue
        low, high = profile.bounds.log_bounds(epsilon)
        assert low - 1e-14 * abs(truth) <= truth <= high + 1e-14 * abs(truth)
    found = log_delta_on(SPLIT, releases, epsilon, [guess_log_delta(releases, epsilon)])
    assert found is not None
    assert truth - 1e-14 * abs(truth) <= found.log_delta <= truth + 1e-8


def test_where_only_the_second_cut_is_near_enough() -> None:
    """Of many rare steps at a tiny δ: with the cut at ε alone ε is 8e-6 larger."""
    run = cm.Gaussian(noise_multiplier=1.16894).poisson(rate=1.9965e-4) * 1_281_685
    found = run.guarantee(delta=1.37e-29)
    assert found.exact
    assert found.epsilon < 2.60169


@pytest.mark.parametrize("seed", range(12))
def test_two_releases_of_many_records(seed: int) -> None:
    """Far ones begin near 0 at large rates: ε at δ, and δ at ε, against nested quadrature in both directions."""
    rng = np.random.default_rng(seed)
    sigma, rate, share = rng.uniform(0.8, 16), rng.uniform(0.3, 0.95), rng.uniform(0.3, 3.0)
    law, run = SampledGaussian(1 / sigma, rate), cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * 2
    epsilon = float(f"{share * math.sqrt(2 * law.square):.6g}")
    truth = max(two_releases(law, epsilon, leaves) for leaves in (True, False))
    assert truth - mpf(10) ** -14 <= run.guarantee(epsilon=epsilon).log_delta
    asked = float(mp.exp(truth))
    asked = asked if mp.log(asked) <= truth else math.nextafter(asked, 0.0)  # whose ε is this, or a unit above it
    assert run.epsilon(delta=asked) >= epsilon


@pytest.mark.parametrize(
    ("sigma", "rate", "epsilon"),
    [(36.0, 2e-4, 2.5e-5), (3.0, 0.01, 0.006), (2.4, 1.4e-4, 1.3e-5), (1.0, 0.2, 0.25)],
)
def test_a_record_joins_two_releases(sigma: float, rate: float, epsilon: float) -> None:
    law, releases = SampledGaussian(1 / sigma, rate), SampledReleases.of(1 / sigma, rate, 2)
    truth = float(two_releases(law, epsilon, False))
    assert truth <= joining_log_ceiling(releases, truth, epsilon)
    assert epsilon <= joining_ceiling(releases, truth) * (1 + 1e-9)
    found, answer = log_delta_on(JOINING, releases, epsilon, [truth + 3]), epsilon_on(JOINING, releases, truth)
    assert found is not None
    assert truth - 1e-13 * abs(truth) <= found.log_delta <= truth + 1e-9
    assert answer is not None
    assert epsilon * (1 - 1e-12) <= answer <= epsilon * (1 + 1e-9)


@pytest.mark.slow
@given(log_uniform(0.3, 50.0), log_uniform(1e-6, 0.5), log_uniform(4.0, 1e6), log_uniform(1e-25, 1e-3))
@settings(deadline=None, max_examples=5)  # intervals of rare steps take seconds
@example(2.136, 9.9e-4, 32.0, 6.41e-15)
def test_answers_lie_in_certified_intervals(sigma: float, rate: float, count: float, delta: float) -> None:
    """The interval is of both directions, so an answer of one may lie below it, never above."""
    releases = SampledReleases.of(math.nextafter(1 / sigma, math.inf), rate, round(count))
    epsilon = epsilon_on(SPLIT, releases, math.log(delta))
    assume(epsilon is not None)
    assert epsilon is not None
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * round(count)
    interval = run.epsilon_interval(delta=delta)
    assume(interval.certified)
    assert epsilon <= interval.upper * (1 + 2e-9)
    assert interval.lower <= run.epsilon(delta=delta) <= interval.upper * (1 + 2e-9)


@given(log_uniform(0.3, 50.0), log_uniform(1e-6, 0.9), log_uniform(2.0, 1e7), log_uniform(1e-30, 0.1))
@examples(15)
@example(0.3, 1e-6, 2.0, 1e-30)
@example(1000.0, 0.5, 3.0, 1e-9)
@example(0.06, 1e-3, 5.0, 1e-9)
def test_both_questions_agree(sigma: float, rate: float, count: float, delta: float) -> None:
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * round(count)
    assert run.delta(epsilon=run.epsilon(delta=delta)) <= delta


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [
        (0.5995567545732575, 0.025299270865698366, 305, 2.3717087714701426e-17),  # a first guess far off
        (0.4188409156620581, 0.0023713983833915683, 19, 1.711478092748455e-40),
        (0.19571180405660485, 7.087127336108745e-07, 128, 7.073929589667985e-06),
        (0.17853466438822885, 5.904720737798967e-11, 5089226, 2.5833896301473143e-05),
        (0.7500050490297524, 0.1989734049610663, 7, 2.4321779071562684e-26),
        (0.3748002247023908, 0.018471023617345424, 108, 7.849924868469896e-06),  # plans of both questions differ
        (6.358870593835099, 2.3470379663518363e-06, 2, 2.0713761463251668e-30),
        (1.1605359068966943, 2.585248005819605e-06, 19200, 1.124346326157236e-18),
        (0.166138516597716, 2.8934807401843647e-11, 4132636, 6.37446062454859e-20),
    ],
)
def test_guesses_may_be_far_off(sigma: float, rate: float, count: int, delta: float) -> None:
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    assert run.delta(epsilon=run.epsilon(delta=delta)) <= delta


@given(log_uniform(0.1, 50.0), log_uniform(1e-9, 0.9), log_uniform(2.0, 1e7), log_uniform(1e-12, 200.0))
@examples(25)
@example(6.6075, 0.56354, 3.0, 4.8781e-9)  # b next to 0
def test_no_plan_takes_much(sigma: float, rate: float, count: float, epsilon: float) -> None:
    """Plans for what is asked for wildly are refused, not followed."""
    releases = SampledReleases.of(1 / sigma, rate, round(count))
    for log_delta in (-0.5, -30.0, -400.0):
        profile = plan_split(releases, epsilon, log_delta)
        if profile is not None:
            low, high = profile.bounds.log_bounds(epsilon)
            assert low <= high <= 0


@pytest.mark.slow
@given(log_uniform(3.0, 300.0), st.floats(0.3, 0.999), st.integers(2, 60), st.floats(math.log(1e-7), math.log(0.3)))
@examples(5)
@example(70.0, 0.87, 8, math.log(0.01))  # one tilt was left, and none larger to bound aliases with
@example(146.6204177414558, 0.920148238257166, 31, math.log(0.010521210542156009))
@example(178.4215636314053, 0.9826179253628953, 13, math.log(0.0020006200680174214))
@example(169.77029167263643, 0.8857149429472745, 4, math.log(0.001446464052087765))
def test_few_tilts_may_be_left(sigma: float, rate: float, count: int, log_delta: float) -> None:
    """Of weak noise sampled often: ε is inside what balls certify, but for 1e-9."""
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    epsilon, interval = run.epsilon(log_delta=log_delta), run.epsilon_interval(log_delta=log_delta)
    assert interval.lower <= epsilon <= interval.upper * (1 + 1e-9) + 1e-12
    assert run.delta(epsilon=epsilon) <= math.exp(log_delta) * (1 + 1e-12)
