"""The short way for Gaussian noise on Poisson samples: its sums and bounds against integrals of forty digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpc, mpf

import cumulant as cm
from cumulant.inversion.choose import sampled_epsilon, sampled_log_delta
from cumulant.inversion.sized_line import end_of_line
from cumulant.inversion.whole_line import cut_off, place_unseen
from cumulant.pairs.sampled_gaussian import RealTilts, SampledGaussian, SampledReleases, log_moments_of
from cumulant.pairs.size_classes import Size, SizeClasses, Tilted, reach_of
from strategies import examples, log_uniform

DIGITS = 40

LAWS = [
    SampledReleases.of(1.0, 0.01, 1000),
    SampledReleases.of(0.2, 0.3, 200),
    SampledReleases.of(2.0, 0.1, 100_000),
    SampledReleases.of(0.05, 1e-4, 10**6),
]


def moment(law: SampledGaussian, cut: SizeClasses | None, s: complex) -> mpc:
    """∫ q χ w^s dt, with χ and the end of the cut."""
    return moment_of(law.mean, law.rate, cut and (cut.far, cut.sharpness, cut.last), s)


def moment_of(mean: float, share: float, cut: tuple[float, float, float] | None, s: complex) -> mpc:
    """Adaptive integration in balls, of 45 digits and more."""
    before, ctx.prec = ctx.prec, 220
    try:
        mu, rate, power = arb(mean), arb(share), acb(s)

        def integrand(t: acb, analytic: bool) -> acb:
            w = 1 - rate + rate * (mu * t - mu * mu / 2).exp()
            kept = (cut[1] * (t - cut[0])).erfc() / 2 if cut and cut[1] else acb(1)
            return kept * (power * w.log(analytic=analytic) - t * t / 2).exp() / (2 * arb.pi()).sqrt()

        end = cut[2] if cut else abs(s.real) * mean + 20
        total = acb.integral(integrand, -20, end, rel_tol=arb("1e-45"), abs_tol=arb("1e-60"))
        return mpc(*(mpf(part.mid().str(60, radius=False)) for part in (total.real, total.imag)))
    finally:
        ctx.prec = before


def law_of(sigma: float, rate: float, count: float) -> SampledReleases:
    return SampledReleases.of(math.nextafter(1 / sigma, math.inf), rate, round(count))


def run_of(sigma: float, rate: float, count: float) -> cm.Composed:
    return cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * round(count)


@pytest.mark.parametrize("releases", LAWS)
@pytest.mark.parametrize(("leaves", "is_cut"), [(True, False), (True, True), (False, False)])
def test_moments_along_a_line_are_within_their_errors(releases: SampledReleases, leaves: bool, is_cut: bool) -> None:
    theta, (law,) = 3.0, releases.laws
    s = 1 + theta if leaves else -theta
    cut = cut_off(law, place_unseen(law, -2.3, 1), theta, 0.0, -13.0) if is_cut else None
    assert (cut is None) == (not is_cut)
    classes, size = (SizeClasses.all_of(law, reach_of(law, s, 1)), Size.ANY) if cut is None else (cut, Size.MIDDLE)
    eta, count = float(f"{0.25 / math.sqrt(law.square):.6g}"), 12
    with mp.workdps(DIGITS):
        level = float(mp.log(moment(law, cut, complex(s)).real))
        rule = Tilted.of(classes, size, s).rule(level, eta * count, 40.0)
        assert rule is not None
        found = log_moments_of(classes.nodes(size, rule[0]), s, (eta, count), math.exp(rule[1] - level))
        assert found is not None
        for j in (0, 1, 5, 11):
            z = complex(s, (1 if leaves else -1) * j * eta)
            off = mp.log(abs(mp.exp(mpc(complex(found[0][j]))) / moment(law, cut, z)))
            assert abs(off) <= found[1][j] + found[2] + 1e-15
        assert found[1][1] + found[2] < 1e-12


@pytest.mark.parametrize("releases", LAWS)
@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("is_cut", [False, True])
def test_the_line_ends_where_the_characteristic_function_has_fallen(
    releases: SampledReleases, leaves: bool, is_cut: bool
) -> None:
    theta, ((law, n),) = 3.0, releases.parts
    s = 1 + theta if leaves else -theta
    cut = cut_off(law, place_unseen(law, -2.3, 1), theta, 0.0, -13.0) if is_cut else None
    classes, size = (SizeClasses.all_of(law, reach_of(law, s, 1)), Size.ANY) if cut is None else (cut, Size.MIDDLE)
    with mp.workdps(DIGITS):
        at_theta = float(mp.log(moment(law, cut, complex(s)).real))
        start = 1 / releases.deviation
        cells = Tilted.of(classes, size, s).loss_cells(at_theta)
        end = end_of_line([(cells, n)], 0.0, (start / 10, math.exp(-30.0), start))
        assert end is not None
        for times in (1.0, 1.3, 2.0):
            omega = float(f"{end[0] * times:.6g}")
            size_there = abs(moment(law, cut, complex(s, omega))) / mp.exp(at_theta)
            assert n * mp.log(size_there) < -25


@given(log_uniform(0.05, 3.0), log_uniform(1e-6, 0.99), log_uniform(0.01, 300.0), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=12)
def test_real_moments_are_raised_a_little(mean: float, rate: float, tilt: float, leaves: bool, is_cut: bool) -> None:
    """Sums over nodes lie above K, by less than fifteen digits of it, wherever they are given."""
    law, s, count = SampledGaussian(mean, rate), 1 + tilt if leaves else -tilt, 1000
    cut = cut_off(law, place_unseen(law, -12.0, 1), tilt, 0.0, -13.0) if is_cut and leaves else None
    ends = reach_of(law, s, count) if cut is None else cut.ends
    with np.errstate(all="ignore"):  # beyond doubles
        tilts = RealTilts.of(law, np.array([s]), ends, None if cut is None else cut.end, count)
        assume(tilts is not None)
        assert tilts is not None
        k = float(tilts.log_moments(None if cut is None else cut.far)[0][0])
    assume(math.isfinite(k))
    with mp.workdps(DIGITS):
        truth = mp.log(moment_of(law.mean, law.rate, cut and (cut.far, cut.sharpness, cut.last), complex(s)).real)
        # what lies beyond the reference's ends is nothing beside the first
        assert truth - mpf(10) ** -15 * abs(truth) <= k
        assert k <= truth + 2e-12 * abs(truth) + 1e-13 or cut is not None


@pytest.mark.slow
@given(log_uniform(0.3, 50.0), log_uniform(1e-5, 1.0), log_uniform(4.0, 1e6), log_uniform(1e-20, 0.1))
@examples(6)
def test_answers_lie_in_certified_intervals(sigma: float, rate: float, count: float, delta: float) -> None:
    law = law_of(sigma, rate, count)
    epsilon = sampled_epsilon(law, math.log(delta))
    assume(epsilon is not None)
    assert epsilon is not None
    run = run_of(sigma, rate, count)
    interval = run.epsilon_interval(delta=delta)
    assume(interval.certified)
    assert interval.lower <= epsilon <= interval.upper * (1 + 2e-9)


@pytest.mark.slow
@given(log_uniform(0.3, 50.0), log_uniform(1e-5, 1.0), log_uniform(4.0, 1e6), st.floats(0.5, 8.0))
@examples(6)
def test_deltas_lie_in_certified_intervals(sigma: float, rate: float, count: float, deviations: float) -> None:
    law = law_of(sigma, rate, count)
    epsilon = deviations * law.deviation
    log_delta = sampled_log_delta(law, epsilon)
    assume(log_delta is not None)
    assert log_delta is not None
    assume(-600 < log_delta < -1e-6)
    run = run_of(sigma, rate, count)
    interval = run.delta_interval(epsilon=epsilon)
    assume(interval.certified)
    assert interval.lower <= math.exp(log_delta) * (1 + 1e-12)
    assert math.exp(log_delta) <= interval.upper * (1 + 1e-7)


@given(log_uniform(0.3, 50.0), log_uniform(1e-6, 1.0), log_uniform(4.0, 1e7), log_uniform(1e-30, 0.5))
@examples(25)
def test_both_questions_agree(sigma: float, rate: float, count: float, delta: float) -> None:
    law = law_of(sigma, rate, count)
    epsilon = sampled_epsilon(law, math.log(delta))
    assume(epsilon is not None)
    assert epsilon is not None
    run = run_of(sigma, rate, count)
    assert run.epsilon(delta=delta) == epsilon
    assert run.delta(epsilon=epsilon) <= delta


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [
        (1.0190228801876329, 2.804988100300519e-06, 31706, 1.0985e-25),
        (2.4982786730772606, 4.000385943155232e-06, 76, 8.07e-12),
        (1.298264275195055, 9.731116008625268e-06, 94, 2.37e-24),
    ],
)
def test_few_jumps_answer_both_questions(sigma: float, rate: float, count: int, delta: float) -> None:
    """A direction that matters less must not spoil the answer of the other."""
    run = run_of(sigma, rate, count)
    assert run.delta(epsilon=run.epsilon(delta=delta)) == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize(
    ("law", "log_delta"),
    [
        (SampledReleases.of(1.0, 0.01, 1), -11.0),
        (SampledReleases.of(1.0, 0.01, 10**13), -11.0),
        (SampledReleases.of(30.0, 0.01, 1000), -11.0),
        (SampledReleases.of(1.0, 1.0, 1000), -11.0),
        (SampledReleases.of(1.0, 0.01, 1000), 0.0),
        (SampledReleases.of(1.0, 0.01, 1000), -math.inf),
        (SampledReleases.of(1.0, 0.01, 1000), math.nan),
    ],
)
def test_other_questions_go_the_long_way(law: SampledReleases, log_delta: float) -> None:
    assert sampled_epsilon(law, log_delta) is None


@pytest.mark.parametrize("epsilon", [-1.0, math.inf, math.nan, 1e6])
def test_other_losses_go_the_long_way(epsilon: float) -> None:
    assert sampled_log_delta(SampledReleases.of(1.0, 0.01, 1000), epsilon) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [
        (10.7, 1.1e-6, 5, 4.5e-27),
        (18.0, 3.27e-6, 2, 2.4e-20),
        (9.79, 1.76e-6, 3, 3.7e-11),
        (2.46, 6.04e-6, 23, 1.4e-15),
    ],
)
def test_a_joining_record_that_matters_less_does_not_spoil_few_rare_steps(
    sigma: float, rate: float, count: int, delta: float
) -> None:
    """The answer is that of a certified interval, where Rényi DP is hundreds of times larger."""
    run = run_of(sigma, rate, count)
    found = run.guarantee(delta=delta)
    assert found.exact
    assert found.epsilon < 0.01 * run.epsilon(delta=delta, method="rdp")
    interval = run.epsilon_interval(delta=delta)
    assert interval.lower <= found.epsilon
    assert found.epsilon <= interval.upper * (1 + 2e-9) or not interval.certified


@given(log_uniform(0.3, 1.0), log_uniform(1e-7, 1e-5), st.integers(2, 8), st.floats(0.02, 0.1))
@settings(deadline=None, max_examples=12)
@example(0.5114515848111216, 1.7172233753085472e-06, 3, 0.047)  # exponents of far nodes are beyond 1e5
def test_few_rare_steps_at_little_noise_are_exact(sigma: float, rate: float, count: int, share: float) -> None:
    """At a δ that is a share of the chance to be sampled at all."""
    run = run_of(sigma, rate, count)
    assert run.guarantee(delta=share * count * rate).exact
