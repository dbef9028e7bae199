"""Rare steps: classes, paths, rules and bounds against integrals in many digits and against intervals in balls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import assume, example, given, settings
from mpmath import mp, mpf

import cumulant as cm
from cumulant.inversion.joining import joining_ceiling, joining_epsilon, joining_log_ceiling, joining_log_delta
from cumulant.inversion.rare import plan_rare, rare_epsilon, rare_log_delta
from cumulant.inversion.rare_far import FarReleases
from cumulant.pairs.jump_law import coordinate_of
from cumulant.pairs.sampled_gaussian import SampledGaussian
from cumulant.pairs.size_classes import Size, SizeClasses, Tilted, add_sizes, rule_for
from strategies import log_uniform

DIGITS = 40


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    before = ctx.prec
    ctx.prec = 200
    with mp.workdps(DIGITS):
        yield
    ctx.prec = before


CLASSES = [
    SizeClasses(SampledGaussian(1.0, 0.01, 30), 2.5, 5.5, 6.0, 7.5, (-11.0, 13.0)),
    SizeClasses(SampledGaussian(0.3, 1e-4, 200), 4.0, 9.0, 4.0, 11.0, (-11.0, 16.0)),
    SizeClasses(SampledGaussian(2.5, 1e-5, 3), 5.0, 6.0, 10.0, 8.5, (-11.0, 15.0)),
    SizeClasses(SampledGaussian(0.8, 0.2, 9), None, 4.0, 5.0, 9.0, (-11.0, 12.0)),
]


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
    rule = rule_for([tilted], [level], eta * count, 36.0)
    assert rule is not None
    values, rounded = add_sizes(s, classes.law.mean, classes.nodes(size, rule.step), (eta, count), level)
    for j in (0, 1, 5, 11):
        truth = complex(moment(classes, size, complex(s, j * eta)) / acb(level).exp())
        assert abs(values[j] - truth) <= rounded[j] + math.exp(rule.log_errors[0] - level) + 4e-16
    assert rule.log_errors[0] < level - 28  # of some hundred cells, each e^-36


@pytest.mark.parametrize("classes", CLASSES, ids=str)
@pytest.mark.parametrize("share", [0.5, 0.97, 1.0, 1.02, 2.5])
def test_gain_of_far_releases(classes: SizeClasses, share: float) -> None:
    """P(F) - e^ε Q(F) in 40 digits: normal tails."""
    law = classes.law
    epsilon = share * largest_loss(classes)
    gain, doubt = FarReleases.of(classes, classes.step_of_far, classes.strip_of_far).gain(epsilon)
    width = mp.sqrt(2 + 1 / mpf(classes.sharpness) ** 2)
    without, within = (mp.erfc((mpf(classes.far) - m) / width) / 2 for m in (mpf(0), mpf(law.mean)))
    p = (1 - mpf(law.rate)) * without + mpf(law.rate) * within
    truth = (1 - (1 - p) ** law.count) - mp.exp(mpf(epsilon)) * (1 - (1 - without) ** law.count)
    assert abs(mpf(gain) - truth) <= mpf(doubt)
    assert share > 1.1 or doubt < 1e-10 * law.count * float(p)


def one_release(law: SampledGaussian, x: mpf, leaves: bool) -> mpf:
    """Return E_P(1 - e^{x-L})_+ of one release, for any real x."""
    mean, rate = mpf(law.mean), mpf(law.rate)

    def tails(t: mpf) -> tuple[mpf, mpf]:
        without, within = mp.erfc(t / mp.sqrt(2)) / 2, mp.erfc((t - mean) / mp.sqrt(2)) / 2
        return (1 - rate) * without + rate * within, without

    level = mp.exp(x if leaves else -x) - (1 - rate)
    if leaves:
        mixed, plain = (mpf(1), mpf(1)) if level <= 0 else tails(mp.log(level / rate) / mean + mean / 2)
        return mixed - mp.exp(x) * plain
    if level <= 0:
        return mpf(0)
    mixed, plain = tails(mp.log(level / rate) / mean + mean / 2)
    return (1 - plain) - mp.exp(x) * (1 - mixed)


def two_releases(law: SampledGaussian, epsilon: float, leaves: bool) -> mpf:
    """Return δ(ε) of two releases: E δ_1(ε - L)."""
    mean, rate = mpf(law.mean), mpf(law.rate)

    def integrand(t: mpf) -> mpf:
        w = 1 - rate + rate * mp.exp(mean * t - mean * mean / 2)
        loss = mp.log(w) if leaves else -mp.log(w)
        density = mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi) * (w if leaves else 1)
        return density * one_release(law, mpf(epsilon) - loss, leaves)

    knee = mpf(coordinate_of(epsilon, law.mean, law.rate)) if leaves else mpf(0)
    return mp.quad(integrand, [-24, -8, -4, 0, 2, knee / 2, knee - 0.5, knee, knee + 0.5, knee + 3, knee + 9, 40])


@pytest.mark.parametrize(
    ("sigma", "rate", "epsilon"),
    [(1.0, 0.01, 0.3), (0.5, 1e-4, 6.0), (3.0, 0.002, 0.004), (2.0, 1e-5, 3e-4), (0.4, 0.02, 20.0), (30.0, 0.3, 0.05)],
)
def test_two_releases(sigma: float, rate: float, epsilon: float) -> None:
    law = SampledGaussian(1 / sigma, rate, 2)
    truth = float(mp.log(two_releases(law, epsilon, True)))
    for guess, away in ((1.0, 0.0), (0.9, 0.0), (1.1, 1.0), (1.0, -2.0)):
        profile = plan_rare(law, guess * epsilon, truth + away)
        if profile is None:
            continue
        low, high = profile.log_bounds(epsilon)
        assert low - 1e-14 * abs(truth) <= truth <= high + 1e-14 * abs(truth)
    found = rare_log_delta(law, epsilon)
    assert found is not None
    assert truth - 1e-14 * abs(truth) <= found <= truth + 1e-8


@pytest.mark.parametrize(("sigma", "rate", "epsilon"), [(36.0, 2e-4, 2.5e-5), (3.0, 0.01, 0.006), (1.0, 0.2, 0.25)])
def test_a_record_joins_two_releases(sigma: float, rate: float, epsilon: float) -> None:
    law = SampledGaussian(1 / sigma, rate, 2)
    truth = float(mp.log(two_releases(law, epsilon, False)))
    assert truth <= joining_log_ceiling(law, epsilon)
    assert epsilon <= joining_ceiling(law, truth) * (1 + 1e-9)
    found = joining_log_delta(law, epsilon)
    if found is not None:
        assert truth - 1e-13 * abs(truth) <= found <= truth + 1e-7
    answer = joining_epsilon(law, truth)
    if answer is not None:
        assert epsilon * (1 - 1e-12) <= answer <= epsilon * (1 + 3e-9)


@given(log_uniform(0.3, 50.0), log_uniform(1e-6, 0.5), log_uniform(4.0, 1e6), log_uniform(1e-25, 1e-3))
@settings(deadline=None, max_examples=5)  # intervals of rare steps take seconds
@example(2.136, 9.9e-4, 32.0, 6.41e-15)
def test_answers_lie_in_certified_intervals(sigma: float, rate: float, count: float, delta: float) -> None:
    """The interval is of both directions, so an answer of one may lie below it, never above."""
    law = SampledGaussian(math.nextafter(1 / sigma, math.inf), rate, round(count))
    epsilon = rare_epsilon(law, math.log(delta))
    assume(epsilon is not None)
    assert epsilon is not None
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * round(count)
    interval = run.epsilon_interval(delta=delta)
    assume(interval.certified)
    assert epsilon <= interval.upper * (1 + 2e-9)
    assert interval.lower <= run.epsilon(delta=delta) <= interval.upper * (1 + 2e-9)


@given(log_uniform(0.3, 50.0), log_uniform(1e-6, 0.9), log_uniform(2.0, 1e7), log_uniform(1e-30, 0.1))
@settings(deadline=None, max_examples=40)
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
@settings(deadline=None, max_examples=60)
@example(6.6075, 0.56354, 3.0, 4.8781e-9)  # b next to 0
def test_no_plan_takes_much(sigma: float, rate: float, count: float, epsilon: float) -> None:
    """Plans for what is asked for wildly are refused, not followed."""
    law = SampledGaussian(1 / sigma, rate, round(count))
    for log_delta in (-0.5, -30.0, -400.0):
        profile = plan_rare(law, epsilon, log_delta)
        if profile is not None:
            low, high = profile.log_bounds(epsilon)
            assert low <= high <= 0
