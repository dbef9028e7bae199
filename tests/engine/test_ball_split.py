"""What few and rare releases rest on in balls: against mpmath and against nested integration in balls of flint."""

from __future__ import annotations

import cmath
import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest

pytest.importorskip("flint")

from flint import acb, arb, ctx

import cumulant as cm
from cumulant.errors import OutOfReach
from cumulant.inversion.ball_split import SPLIT_SHARPNESS, SampledLosses, split_in_balls
from cumulant.inversion.ball_whole import OneSampleInBalls
from cumulant.inversion.composed import ComposedPairs
from cumulant.numerics.balls import as_ball, precision, transform_balls
from cumulant.pairs.cache import CACHE
from cumulant.pairs.certified import BallNodes, ball_nodes, tilted_moments
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.law import Law
from cumulant.pairs.maps import CoordinateMap, Join, Leave, Replace
from cumulant.pairs.noise import gaussian_noise
from cumulant.pairs.pair import GaussianPair
from cumulant.pairs.proven_rule import log_bound_beyond
from high_precision import log_delta_of_samples
from stored import stored

BITS = 160


def window(sigma: float, unseen: float, far: float, near: float, sharpness: float) -> CutLaw:
    return CutLaw(CutLaw(gaussian_noise(sigma), unseen, 64.0), far, sharpness, near)


def sampled(sigma: float, rate: float, steps: int) -> SampledLosses:
    return SampledLosses.of(ComposedPairs.of([(CoordinatePair(gaussian_noise(sigma), Leave(rate)), steps)]))


def moment(law: Law, sampling: CoordinateMap, sigma: float, z: complex) -> Any:
    """Return the integral of φ(t)·cuts·P/Q·e^{zL}."""
    window = law if isinstance(law, CutLaw) and isinstance(law.law, CutLaw) else None
    cut = window.law if window else law
    kept = (cut.sharpness, cut.at) if isinstance(cut, CutLaw) else None
    between = (window.sharpness, window.near, window.at) if window else None
    return stored(moment_of)((type(sampling).__name__, sampling.rate, sigma), kept, between, z)


def moment_of(
    sample: tuple[str, float, float],
    kept: tuple[float, float] | None,
    between: tuple[float, float, float] | None,
    z: complex,
) -> Any:
    """Return the integral from its definition: adaptive integration in balls of 220 bits."""
    (direction, chance, sigma), before, ctx.prec = sample, ctx.prec, 220
    try:
        mean, rate, power = 1 / arb(sigma), arb(chance), acb(z)

        def log_w(t: Any, analytic: bool) -> Any:
            return (1 - rate + rate * (mean * t - mean * mean / 2).exp()).log(analytic=analytic)

        def below(sharpness: float, at: float, t: Any) -> Any:
            return arb(at > 0) if math.isinf(at) else (sharpness * (t - at)).erfc() / 2

        def integrand(t: Any, analytic: bool) -> Any:
            value = log_w(t, analytic) * (-power if direction == "Join" else 1 + power)
            value -= power * log_w(-t, analytic) if direction == "Replace" else 0
            share = below(*kept, t) if kept else arb(1)
            if between:
                sharpness, near, far = between
                share *= below(sharpness, far, t) - below(sharpness, near, t)
            return share * (value - t * t / 2).exp() / (2 * arb.pi()).sqrt()

        return acb.integral(integrand, -16, 24, rel_tol=arb("1e-45"), abs_tol=arb("1e-45"))
    finally:
        ctx.prec = before


LAWS = [
    (1.0, Leave(0.01), lambda: gaussian_noise(1.0), 4.0, 30.0),
    (1.0, Join(0.01), lambda: gaussian_noise(1.0), 20.0, 600.0),
    (2.0, Replace(0.2), lambda: gaussian_noise(2.0), 1.0, 60.0),
    (1.0, Leave(0.01), lambda: CutLaw(gaussian_noise(1.0), 7.0, 3.0), 12.0, 200.0),
    (1.0, Leave(0.01), lambda: window(1.0, 9.0, 7.0, -math.inf, 3.0), 12.0, 200.0),
    (1.0, Leave(0.01), lambda: window(1.0, 9.0, 7.0, 4.0, 3.0), 12.0, 200.0),
    (0.5, Leave(1e-4), lambda: window(0.5, 9.0, 8.0, 6.0, 6.0), 3.0, 90.0),
    (1.0, Join(0.01), lambda: window(1.0, 9.0, math.inf, 6.0, 4.0), 5.0, 300.0),
    (0.5, Join(1e-4), lambda: window(0.5, 9.0, 7.0, -math.inf, 8.0), 2.0, 60.0),
]


@pytest.mark.parametrize(("sigma", "sampling", "law", "theta", "omega"), LAWS)
def test_moments_beside_the_real_line_enclose_the_integral(
    sigma: float, sampling: Any, law: Any, theta: float, omega: float
) -> None:
    pair = CoordinatePair(law(), sampling)
    k = float(moment(pair.law, sampling, sigma, theta).real.log().mid())
    with precision(BITS):
        nodes = ball_nodes(pair, theta, omega, k, bits=BITS)
        values = tilted_moments(nodes, theta, k, step=as_ball(omega / 4), count=5)
        for j, value in enumerate(values):
            true = moment(pair.law, sampling, sigma, complex(theta, omega * j / 4)) / as_ball(k).exp()
            assert value.overlaps(true)
            assert float(value.real.rad()) < 1e-15


def test_some_nodes_are_moved() -> None:
    """Long lines of few releases would otherwise take nodes for every wave."""
    far = CutLaw(gaussian_noise(1.0), 7.0, 1.0)
    with precision(BITS):
        nodes = [ball_nodes(CoordinatePair(far, Leave(0.01)), 12.0, omega, 0.0, bits=BITS) for omega in (1e4, 1e5)]
    assert all(isinstance(rule.losses[0], acb) for rule in nodes)
    assert len(nodes[0].losses) == len(nodes[1].losses)


@pytest.mark.parametrize("omega", [50.0, 400.0, 3000.0])
@pytest.mark.parametrize("likely", [-40.0, -10.0, 5.0])
@pytest.mark.parametrize(
    ("sampling", "theta", "ends"), [(Leave(0.01), 12.0, (7.0, 4.0)), (Join(0.01), 5.0, (math.inf, 6.0))]
)
def test_what_lies_between_cuts_stays_below_its_bound(
    sampling: Any, theta: float, ends: tuple[float, float], omega: float, likely: float
) -> None:
    """On a path that comes down to the real line before the place from where all is unseen."""
    law = window(1.0, 9.0, *ends, 3.0)
    with precision(BITS):
        pair = CoordinatePair(law, sampling)
        bound = math.exp(float(log_bound_beyond(pair, as_ball(theta), as_ball(omega), likely).upper()))
    for beyond in (1.0, 1.1, 1.7):
        assert abs(complex(moment(law, sampling, 1.0, complex(theta, beyond * omega)).mid())) <= bound


def test_transforms_of_complex_positions_enclose_the_sums() -> None:
    positions = [complex(0.3 * i - 2, 0.01 * i) for i in range(40)]
    weights = [cmath.exp(-x * x) for x in positions]
    with precision(BITS):
        found = transform_balls([acb(x) for x in positions], [acb(x) for x in weights], as_ball(0.75), 30)
    for j, value in enumerate(found):
        with mpmath.workdps(40):
            true = mpmath.fsum(
                mpmath.mpc(w) * mpmath.exp(mpmath.mpc(0, 0.75 * j) * mpmath.mpc(x))
                for x, w in zip(positions, weights, strict=True)
            )
            assert (
                abs(mpmath.mpf(value.real.mid().str(45, radius=False)) - true.real) <= float(value.real.rad()) + 1e-35
            )
        assert float(value.rad()) < 1e-35


# δ itself -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "rate", "epsilon"), [(0.5, 0.01, 3.0), (0.4, 0.002, 8.0), (1.0, 0.001, 0.3), (0.35, 1e-5, 6.0)]
)
def test_a_split_of_two_releases_encloses_delta(sigma: float, rate: float, epsilon: float) -> None:
    true = float(log_delta_of_samples([(1 / Fraction(sigma), rate)] * 2, epsilon))
    low, high = split_in_balls(sampled(sigma, rate, 2), epsilon, true).log_bounds(epsilon)
    assert low <= true
    assert true <= high
    assert high - low < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("sharpness", SPLIT_SHARPNESS[1:3])
@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "point"), [(0.4, 5e-6, 2, (6.4, -34.6)), (5.8, 7e-6, 3, (2.8e-5, -52.9))]
)
def test_wherever_losses_are_split_bounds_overlap(
    sigma: float, rate: float, steps: int, point: tuple[float, float], sharpness: float
) -> None:
    """Middle ones, far ones and their mirror image change by orders of magnitude with the split, δ does not."""
    run = sampled(sigma, rate, steps)
    low, high = split_in_balls(run, *point).log_bounds(point[0])
    CACHE.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cumulant.inversion.ball_split.SPLIT_SHARPNESS", (sharpness,))
        others = split_in_balls(run, *point).log_bounds(point[0])
    assert max(low, others[0]) <= min(high, others[1])
    assert others[1] - others[0] < 1e-9


def test_releases_of_two_laws_are_split_beside_plain_noise() -> None:
    """Equal to one law where they are equal but for a trifle, and a little larger with plain noise."""
    laws = [(0.5, 1e-4, 2), (0.5 * (1 + 1e-9), 1e-4, 3)]
    parts = [(CoordinatePair(gaussian_noise(sigma), Leave(rate)), n) for sigma, rate, n in laws]
    epsilon, log_delta = 4.0, -27.3
    low, high = split_in_balls(SampledLosses.of(ComposedPairs.of(parts)), epsilon, log_delta).log_bounds(epsilon)
    ends = split_in_balls(sampled(0.5, 1e-4, 5), epsilon, log_delta).log_bounds(epsilon)
    assert high - low < 1e-9
    assert low == pytest.approx(ends[0], abs=1e-6)
    beside = ComposedPairs.of([*parts, (GaussianPair(0.01), 1)])
    more = split_in_balls(SampledLosses.of(beside), epsilon, log_delta).log_bounds(epsilon)
    assert more[1] - more[0] < 1e-9
    assert high < more[0] < high + 1e-2


@pytest.mark.parametrize(
    ("schedule", "delta"),
    [
        ([(0.7, 1e-4, 2), (0.6, 2e-4, 3)], 1e-9),
        ([(2.0, 1e-3, 20), (1.5, 2e-3, 5)], 1e-12),
    ],
)
def test_schedules_of_rare_steps_are_certified(schedule: list[tuple[float, float, int]], delta: float) -> None:
    steps = ((cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate), n) for sigma, rate, n in schedule)
    run = cm.Composed.of(steps)
    interval = run.epsilon_interval(delta=delta)
    assert interval.certified
    assert interval.width <= 1e-9 * interval.upper
    assert interval.lower <= run.epsilon(delta=delta) <= interval.upper * (1 + 1e-6)


@pytest.mark.parametrize(("sigma", "rate"), [(0.3, 1e-6), (1.0, 0.01), (40.0, 0.3), (2.0, 0.9)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.02, 1.5])
@pytest.mark.parametrize("sampling", [Leave, Join])
def test_one_release_has_a_closed_form(sigma: float, rate: float, epsilon: float, sampling: Any) -> None:
    """Against the integral of its definition."""
    one = OneSampleInBalls.of(ComposedPairs.of([(CoordinatePair(gaussian_noise(sigma), sampling(rate)), 1)]))
    assert one is not None
    low, high = one.log_bounds(epsilon)
    with mpmath.workdps(40):
        mean, g, grown = 1 / mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.exp(mpmath.mpf(epsilon))
        edge = (mpmath.log((grown - 1 + g) / g) if sampling is Leave else _joining_edge(grown, g)) / mean + mean / 2
        m = [(1 - g) * mpmath.ncdf(s * edge) + g * mpmath.ncdf(s * (edge - mean)) for s in (1, -1)]
        q = [mpmath.ncdf(s * edge) for s in (1, -1)]
        true = m[1] - grown * q[1] if sampling is Leave else q[0] - grown * m[0]
        if true <= 0:
            assert low == -math.inf
            return
        log = mpmath.log(true)
        assert low <= log <= high
        assert high - low <= 1e-12 * (1 + abs(log))


def _joining_edge(grown: Any, g: Any) -> Any:
    """Return u with 1 = e^ε(1 - γ + γe^u), or far below everything where there is none."""
    left = 1 / grown - 1 + g
    return mpmath.log(left / g) if left > 0 else mpmath.mpf(-(10**6))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [(0.425, 1.2e-3, 13, 5e-15), (0.335, 4.6e-3, 95, 6.5e-18), (1.0, 0.01, 1, 1e-5), (11.15, 0.1155, 2, 1.9e-6)],
)
def test_few_and_rare_releases_are_certified(sigma: float, rate: float, steps: int, delta: float) -> None:
    interval = (cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * steps).epsilon_interval(delta=delta)
    assert interval.certified
    assert interval.width <= 1e-10 * interval.upper


def test_splits_are_refused_where_none_is_known() -> None:
    losses = ComposedPairs.of([(CoordinatePair(gaussian_noise(1.0), Join(0.01)), 3)])
    with pytest.raises(OutOfReach):
        SampledLosses.of(losses)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [(0.356, 4.67e-5, 81, 1.6e-30), (0.8707, 1.42e-6, 2, 3.7e-22), (3.644, 1.67e-6, 4, 5.3e-30)],
)
def test_answers_are_not_above_narrow_intervals_of_rare_steps(
    sigma: float, rate: float, steps: int, delta: float
) -> None:
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * steps
    interval = run.epsilon_interval(delta=delta)
    assert interval.certified
    assert interval.width <= 1e-10 * interval.upper
    assert interval.lower <= run.epsilon(delta=delta) <= interval.upper * (1 + 1e-9)


def test_nodes_on_the_real_line_stay_there() -> None:
    with precision(BITS):
        nodes = ball_nodes(CoordinatePair(gaussian_noise(1.0), Leave(0.01)), 4.0, 0.0, 0.0, bits=BITS)
    assert isinstance(nodes, BallNodes)
    assert isinstance(nodes.losses[0], arb)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "rate", "count", "epsilon"),
    [
        (5.254644653274676, 0.00012320555873039977, 3, 0.01873147327855546),
        (3.367249595432495, 0.00024873348226175647, 10**6, 4.148659557581509),
        (1.4471818757496717, 2.259107390456211e-06, 2, 0.04675964865984681),
        (10.0, 0.00975, 100, 0.483),
        (1.0, 1.72e-7, 5, 2.93),
        (1.0, 1e-300, 1, 1e10),
        (1e300, 0.5, 1, 1e10),
    ],
)
def test_far_from_what_is_likely_intervals_say_something(sigma: float, rate: float, count: int, epsilon: float) -> None:
    """All releases have at least the δ of one, which is a formula."""
    interval = (cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count).delta_interval(epsilon=epsilon)
    with mpmath.workdps(60):
        mean, g, more = 1 / mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.expm1(mpmath.mpf(epsilon))
        t = min(mpmath.log1p(more / g) / mean + mean / 2, mpmath.mpf(10) ** 6)  # farther out nothing is left
        without, within = (mpmath.erfc((t - shift) / mpmath.sqrt(2)) / 2 for shift in (0, mean))
        assert interval.upper >= g * within - (more + g) * without
    assert 0 <= interval.lower <= interval.upper < 1e-30
