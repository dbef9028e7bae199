"""Atoms and few releases: sums in pieces, bands of frequencies, and moments in closed form, against many digits."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mpmath import mp, mpf

import cumulant as cm
from cumulant.inversion.band import BandInDoubles, bands
from cumulant.inversion.closed import ClosedLosses
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import Enclosure
from cumulant.inversion.kernels import BandKernels
from cumulant.inversion.pieces import sum_pieces, sum_top
from cumulant.inversion.plan import tilts_for_epsilon
from cumulant.mechanisms.base import AbstractMechanism
from exact_references import RULE, Bracket, composed_delta, laplace_profile, normal_profile
from high_precision import Sampled, ball, few, laplace_delta, precision

Real = Any


def composed(*releases: AbstractMechanism) -> ComposedPairs:
    run = cm.Composed.of((release, 1) for release in releases)
    directions = run._known().directions(run.neighbors)
    assert directions is not None
    return ComposedPairs.of(directions[0])


def laplaces(*scales: float) -> list[AbstractMechanism]:
    return [cm.Laplace(scale=scale) for scale in scales]


def bands_at(losses: ComposedPairs, epsilon: float, truth: Real) -> list[BandInDoubles]:
    """Return the rough band of a first guess, and the fine ones of its answer."""
    guess = tilts_for_epsilon(losses, epsilon)
    assert guess is not None
    (rough,) = bands(losses, guess)
    assert rough.is_rough
    return [rough, *bands(losses, guess.ask(epsilon, float(mp.log(truth))))]


def assert_encloses(enclosure: Enclosure, epsilon: float, truth: Real, most: float) -> None:
    """Both bounds are on their sides of the truth, and at most so many nats apart."""
    low, high = enclosure.log_bounds(epsilon)
    with mp.workdps(40):
        assert mp.exp(low) <= truth <= mp.exp(high)
    assert high - low <= most


# Kernels of a band ----------------------------------------------------------------------------------------------------


def bernoulli(w: Real) -> Real:
    return w / (1 - mp.exp(-w))


def kernel(z: Real, theta: Real, h: Real, *, above: bool) -> Real:
    """Return T̂ as it is derived: differences of large terms, in many digits."""
    a, b, turn = theta * h, (theta + 1) * h, mpf(1) / (2 * mp.pi) * mp.mpc(0, 1)
    g = mp.log(bernoulli(b) / bernoulli(a)) / h if above else mpf(0)
    first, second = ((1 + turn * w * h) * mp.exp(-w * h * g) / (1 - mp.exp(-w * h)) for w in (z, z + 1))
    return h * (first - second + (0 if above else turn * (bernoulli(b) - bernoulli(a))))


@pytest.mark.parametrize(
    ("theta", "h", "window"), [(3.0, 0.2, 5.0), (0.4, 0.5, 9.0), (30.0, 0.02, 0.9), (12.0, 0.1, 2.3)]
)
def test_a_band_bounds_the_payoff_from_both_sides(theta: float, h: float, window: float) -> None:
    """Trigonometric sums with these coefficients lie above and below the payoff, repeated with the window."""
    with mp.workdps(40):
        t, width, eta = mpf(theta), mpf(h), 2 * mp.pi / mpf(window)
        count = int(mp.floor(2 * mp.pi / width / eta)) + 1
        places = [mpf(window) * k / 41 for k in range(41)] + [width * k / 7 for k in range(1, 15)]
        payoff = [
            mp.exp(-t * x) / (1 - mp.exp(-t * window)) - mp.exp(-(t + 1) * x) / (1 - mp.exp(-(t + 1) * window))
            for x in places
        ]
        for above in (True, False):
            terms = [kernel(t + mp.mpc(0, 1) * eta * j, t, width, above=above) * eta / mp.pi for j in range(count)]
            terms[0] /= 2
            sums = [mp.re(mp.fsum(c * mp.expj(eta * j * x) for j, c in enumerate(terms))) for x in places]
            differences = [(s - g) * (1 if above else -1) for s, g in zip(sums, payoff, strict=True)]
            assert min(differences) > -(mpf(10) ** -35)
            assert max(differences) < width / 5


@pytest.mark.parametrize(("theta", "h"), [(3.0, 0.01), (29.0, 1e-5), (0.2, 1e-3), (1e4, 3e-6)])
def test_kernels_keep_their_digits(theta: float, h: float) -> None:
    eta = 2 * math.pi / (h * 512)
    nodes = BandKernels.of(theta, eta, 512, h)
    with mp.workdps(50):
        for above, found in ((True, nodes.above()), (False, nodes.below())):
            for j in (0, 1, 5, 100, 300, 510):
                z = mpf(theta) + mp.mpc(0, 1) * mpf(eta) * j
                truth = kernel(z, mpf(theta), mpf(h), above=above)
                end = abs(1 - mp.exp(-z * h))  # small again near 2π/h, where phases count
                size = 1 / abs(z * (z + 1)) + mpf(h) / abs(z) + (mpf(h) / end) ** 2
                assert abs(mp.mpc(complex(found[j])) - truth) < 9e-15 * size


def test_a_band_is_as_near_as_was_derived() -> None:
    """∫ (T₊ - G) = h²/24 and ∫ (G - T₋) = h²/12, where G has no mass at h."""
    theta, h = 2.0, 1e-3
    nodes = BandKernels.of(theta, 1.0, 1, h)
    payoff = 1 / (theta * (theta + 1))
    assert float(nodes.above()[0].real) - payoff == pytest.approx(h * h / 24, rel=1e-2)
    assert payoff - float(nodes.below()[0].real) == pytest.approx(h * h / 12, rel=1e-2)


# Moments in closed form -----------------------------------------------------------------------------------------------


def laplace_moment(theta: Real, z: Real) -> Real:
    """Return E e^{zL} of Laplace noise by its definition: two atoms and a density."""
    density = mp.quad(lambda x: mp.exp((x - theta) / 2 + z * x) / 4, [-theta, 0, theta])
    return mp.exp(z * theta) / 2 + mp.exp(-theta - z * theta) / 2 + density


def test_moments_are_those_of_the_definition() -> None:
    scales, p = [0.5, *[3.0] * 5, 20.0], 0.7
    losses = composed(*laplaces(*scales), cm.RandomizedResponse(p=p))
    closed = losses.closed
    assert closed is not None
    theta, eta, count = 1.25, 0.75, 40
    k, values, (a, b) = closed.line((theta, eta, count))
    with mp.workdps(22):
        odds = mp.log(mpf(p) / (1 - mpf(p)))

        def bit(z: Real) -> Real:
            return mpf(p) * mp.exp(z * odds) + (1 - mpf(p)) * mp.exp(-z * odds)

        def moment(z: Real) -> Real:
            return bit(z) * mp.fprod(laplace_moment(1 / mpf(x), z) ** scales.count(x) for x in sorted(set(scales)))

        whole = moment(mpf(theta))
        assert k == pytest.approx(float(mp.log(whole)), abs=1e-14)
        for j in (0, 1, 7, 39):
            z = mp.mpc(theta, eta * j)
            assert abs(mp.mpc(complex(values[j])) - moment(z) / whole) < a + b * abs(z)
        found = [float(x[0]) for x in closed.cumulants(np.array([theta]))]
        step = mpf(1) / 1000
        at = [mp.log(moment(theta + k * step)) for k in (-2, -1, 0, 1, 2)]
        slope = (at[0] - 8 * at[1] + 8 * at[3] - at[4]) / (12 * step)
        bend = (-at[0] + 16 * at[1] - 30 * at[2] + 16 * at[3] - at[4]) / (12 * step**2)
        assert found == pytest.approx([float(at[2]), float(slope), float(bend)], rel=1e-9)
        laplace = [mp.log(moment(k * step)) - mp.log(bit(k * step)) for k in (-2, -1, 1, 2)]
        slope = (laplace[0] - 8 * laplace[1] + 8 * laplace[2] - laplace[3]) / (12 * step)
        assert closed.divergence == pytest.approx(float(slope))


def test_many_releases_do_not_overflow() -> None:
    closed = composed(*laplaces(*np.linspace(0.3, 90.0, 900).tolist())).closed
    assert closed is not None
    for theta in (0.01, 1.0, 300.0):
        _, values, _ = closed.line((theta, 0.01 * theta, 100))
        assert np.all(np.abs(values) <= 1 + 1e-9)
        assert values[0] == pytest.approx(1.0, abs=1e-9)


def test_what_is_not_closed_is_left_to_quadrature() -> None:
    sampled = composed(cm.Laplace(scale=1.0), cm.Laplace(scale=1.0).poisson(rate=0.5))
    assert sampled.closed is None
    assert ClosedLosses.of(composed(cm.Gaussian(noise_multiplier=1.0)).parts) is None


# Sums in pieces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "count", "epsilon"),
    [(2.0, 1, 0.3), (2.0, 2, 0.999), (2.0, 10, 4.0), (50.0, 12, 0.05), (1.0, 5, 0.001), (0.5, 6, 11.5), (0.25, 4, 3.0)],
)
def test_equal_releases_in_pieces(scale: float, count: int, epsilon: float) -> None:
    pieces = sum_pieces(composed(*laplaces(*[scale] * count)))
    assert pieces is not None
    with precision(200):
        truth = laplace_delta(1 / Fraction(scale), count, ball(Fraction(epsilon)))
    assert_encloses(pieces, epsilon, mpf(truth.str(40, radius=False)), 1e-10)


def nested(thetas: list[Real], epsilon: Real) -> Real:
    """Return δ of distinct Laplace releases: that of all but the first, integrated over the losses of the first."""
    theta, *rest = thetas
    if not rest:
        return laplace_profile(theta, mp.exp(epsilon))
    sums = [mp.fsum(s * t for s, t in zip(signs, rest, strict=True)) for signs in product((-1, 1), repeat=len(rest))]
    ends = sorted({-theta, theta, *(x for s in sums if abs(x := epsilon - s) < theta)})
    line = mp.fsum(
        (b - a) / 2 * w * mp.exp((t - theta) / 2) / 4 * nested(rest, epsilon - t)
        for a, b in pairwise(ends)
        for w, t in ((w, (a + b) / 2 + (b - a) / 2 * x) for x, w in RULE)
    )
    return line + nested(rest, epsilon - theta) / 2 + mp.exp(-theta) / 2 * nested(rest, epsilon + theta)


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 0.7, 0.95])
def test_distinct_releases_in_pieces(epsilon: float) -> None:
    scales = [2.0, 4.0, 8.0]
    pieces = sum_pieces(composed(*laplaces(*scales), cm.RandomizedResponse(p=0.75)))
    assert pieces is not None
    with mp.workdps(25):
        thetas, odds = [1 / mpf(scale) for scale in scales], mp.log(3)
        truth = mpf(3) / 4 * nested(thetas, epsilon - odds) + nested(thetas, epsilon + odds) / 4
    assert_encloses(pieces, epsilon, truth, 1e-11)


def test_bits_in_pieces() -> None:
    odds = [0.3, 0.7, 1.1, 0.25]
    pieces = sum_pieces(composed(*(cm.PureDP(epsilon=x) for x in odds)))
    assert pieces is not None
    with mp.workdps(40):
        for epsilon in (0.0, 0.4, 1.3, 2.3):
            assert_encloses(pieces, epsilon, composed_delta([(x, 0.0, 1) for x in odds], epsilon), 1e-12)


@pytest.mark.parametrize("failure", [1e-300, 1e-150, 1e-30])
@pytest.mark.parametrize("count", [2, 3])
def test_masses_that_underflow_are_not_nothing(failure: float, count: int) -> None:
    """A failure that a bounded loss carries is a mass of its own: together they are about its power."""
    run = cm.ApproximateDP(epsilon=1.0, delta=failure).without_replacement(rate=0.5, neighbors=cm.ADD_REMOVE) * count
    one = math.log(1 + 0.5 * math.expm1(1.0))
    for log_delta in (-200.0, -500.0, -680.0):
        found = run.epsilon(log_delta=log_delta)
        assert found == math.inf or found >= count * one * (1 - 1e-9) or math.exp(log_delta) >= failure / 4


def test_pieces_say_where_they_cancel() -> None:
    """Forty equal releases cancel: both bounds still hold."""
    scale, count = 4.0, 40
    pieces = sum_pieces(composed(*laplaces(*[scale] * count)))
    assert pieces is not None
    for epsilon in (0.5, 3.0, 6.0):
        with precision(400):
            truth = laplace_delta(1 / Fraction(scale), count, ball(Fraction(epsilon)))
        assert_encloses(pieces, epsilon, mpf(truth.str(40, radius=False)), math.inf)


# The largest losses of many releases ----------------------------------------------------------------------------------


def lacking(thetas: list[Real], y: Real) -> Real:
    """Return δ at y below the largest loss of distinct Laplace releases, from what each loss lacks of its largest.

    Under P that is 0 with probability ½, 2θ with e^{-θ}/2, and has the density e^{-d/2}/4 in between. So it has the law
    A + e^{-θ} B moved by 2θ, A and B = ½(1 ± v), where v^m has Erlang's density d^{m-1} e^{-d/2}/(2^m (m-1)!).
    """
    n, ordered = len(thetas), sorted(thetas)
    moves = [(0, 0, mpf(0))]  # releases that are moved: the next one, how many, and by how much together
    for first, k, total in moves:
        moves += [(j + 1, k + 1, total + ordered[j]) for j in range(first, n) if 2 * (total + ordered[j]) < y]
    return mp.fsum(mp.exp(-total) * lacking_by_erlang(n, k, y - 2 * total) for _, k, total in moves)


def lacking_by_erlang(n: int, k: int, y: Real) -> Real:
    """Return ∫ (1 - e^{d-y})_+ of A^{n-k} B^k: incomplete gamma functions."""
    factors = [mp.binomial(n - k, i) for i in range(n - k + 1)]
    for _ in range(k):
        factors = [a - b for a, b in zip([*factors, 0], [0, *factors], strict=True)]
    terms = [factors[0] * -mp.expm1(-y)]
    for m, factor in enumerate(factors[1:], start=1):
        under_q = mp.exp(-y) * y**m / m * mp.hyp1f1(m, m + 1, y / 2) / (mpf(2) ** m * mp.factorial(m - 1))
        terms.append(factor * (mp.gammainc(m, 0, y / 2, regularized=True) - under_q))
        if m > 10 and abs(terms[-1]) < abs(mp.fsum(terms)) * mpf(10) ** -38:
            break
    return mp.fsum(terms) / mpf(2) ** n


def assert_near_the_truth(run: AbstractMechanism, epsilon: float, truth: Real) -> None:
    """ε at δ and δ at ε are above the truth, by no more than they say, and next to the largest loss exact."""
    log_truth = mp.log(truth)
    found = run.guarantee(log_delta=math.nextafter(float(log_truth), -math.inf))
    assert found.at_most_above is not None
    assert epsilon <= found.epsilon <= epsilon * (1 + max(found.at_most_above, 1e-9))
    assert found.at_most_above <= 1e-6 or truth > 1e-6
    assert log_truth <= run.log_delta(epsilon=epsilon) <= log_truth + 1e-6 * max(epsilon, 1.0)


@given(
    st.lists(st.floats(0.5, 60.0), min_size=2, max_size=60),
    st.floats(-5, 0.2),
    st.sampled_from([None, 0.6, 0.75]),
)
def test_distinct_releases_next_to_their_largest_loss(scales: list[float], log_share: float, p: float | None) -> None:
    releases = laplaces(*scales)
    with mp.workdps(50):
        thetas = [1 / mpf(scale) for scale in scales]
        top, y = mp.fsum(thetas), min(10.0**log_share * 2 * min(thetas), mpf("0.8"))
        if p is None:
            epsilon = float(top - y)
            truth = lacking(thetas, top - epsilon)
        else:  # the other answer of the bit is out of reach
            releases.append(cm.RandomizedResponse(p=p))
            top += mp.log(mpf(p) / (1 - mpf(p)))
            epsilon = float(top - y)
            truth = mpf(p) * lacking(thetas, top - epsilon)
        assume(epsilon > 0)
        assert_near_the_truth(cm.Composed.of((one, 1) for one in releases), epsilon, truth)


@given(st.integers(2, 150), st.floats(0.2, 40.0), st.floats(-5, -0.3))
@example(100, 16.0, -1.0)
@example(41, 4.0, -2.0)
def test_equal_releases_next_to_their_largest_loss(count: int, scale: float, log_share: float) -> None:
    top = count / scale
    epsilon = top * (1 - 10.0**log_share)
    with precision(200 + 12 * count):
        truth = laplace_delta(1 / Fraction(scale), count, ball(Fraction(epsilon)))
        truth = mpf(truth.str(40, radius=False))
    top_sum = sum_top(composed(*laplaces(*[scale] * count)), epsilon)
    with mp.workdps(40):
        if top_sum is not None:
            assert_encloses(top_sum, epsilon, truth, math.inf)
            assert top_sum.log_bounds(top_sum.floor * (1 - 1e-9)) == (-math.inf, 0.0)
        assert_near_the_truth(cm.Laplace(scale=scale) * count, epsilon, truth)


@pytest.mark.parametrize(
    ("scale", "count", "lack"),
    [(0.1, 300, 30.0), (0.1, 300, 57.0), (0.2, 220, 59.0), (0.2, 240, 57.0), (0.1, 250, 12.0), (1.0, 300, 40.0)],
)
def test_series_of_many_powers(scale: float, count: int, lack: float) -> None:
    """Far from the largest loss of strong releases hundreds of powers count, and their factorials are no doubles."""
    epsilon = count / scale - lack
    truth = laplace_delta(1 / Fraction(scale), count, ball(Fraction(epsilon)))
    run = cm.Laplace(scale=scale) * count
    with mp.workdps(40):
        log_truth = mp.log(mpf(truth.str(40, radius=False)))
        found = run.guarantee(epsilon=epsilon)
        assert log_truth <= found.log_delta <= log_truth + 1e-6 * epsilon  # a share of 1e-6 of ε is more
        assert epsilon <= run.epsilon(log_delta=math.nextafter(float(log_truth), -math.inf)) <= epsilon * (1 + 1e-6)


@given(st.lists(st.floats(1.0, 3.0), min_size=2, max_size=4), st.floats(20, 290), st.floats(-3, -0.01))
@example([1.889379798475891, 1.889379798475891, 1.889379798475891], 274.0, -0.7)
def test_next_to_no_loss_logarithms_are_rounded_up(scales: list[float], exponent: float, log_share: float) -> None:
    scales = [scale * 10.0**exponent for scale in scales]
    with mp.workdps(700):
        thetas = [1 / mpf(scale) for scale in scales]
        epsilon = float(mp.fsum(thetas) - 10.0**log_share * 2 * min(thetas))
        assume(epsilon > 0)
        log_truth = mp.log(lacking(thetas, mp.fsum(thetas) - epsilon))
        found = cm.Composed.of((one, 1) for one in laplaces(*scales)).log_delta(epsilon=epsilon)
        assert log_truth <= found <= log_truth + (1e-8 if exponent < 280 else 1e-3)  # underflow is charged as 1e-300


def test_products_that_underflow_are_counted() -> None:
    """Five hundred counts beside 1200 bits: 2^-500 times 0.7^1200 times a distance of 0.01 from the largest loss."""
    run = cm.Composed.of([(cm.Laplace(scale=1.0), 500), (cm.RandomizedResponse(p=0.7), 1200)])
    epsilon = 1516.7564324646441
    with mp.workdps(60):
        top = 500 + 1200 * mp.log(mpf(0.7) / (1 - mpf(0.7)))
        log_truth = mp.log(lacking_by_erlang(500, 0, top - epsilon)) + 1200 * mp.log(mpf(0.7))
        found = run.guarantee(epsilon=epsilon)
        assert log_truth <= found.log_delta <= log_truth + 1e-6
        assert run.epsilon(log_delta=math.nextafter(float(log_truth), -math.inf)) >= epsilon
    tiny = cm.Laplace(scale=1e300) * 500  # next to the smallest doubles no digit is left, but nothing is lost
    assert tiny.log_delta(epsilon=4.95e-298) >= -1025.6
    assert tiny.epsilon(log_delta=-1125.6) >= 4.999e-298


def test_noise_of_all_sizes_beside_each_other() -> None:
    for more in ([], [cm.PureDP(epsilon=5.0)]):
        run = cm.Composed.of((one, 1) for one in [cm.Laplace(scale=0.2), cm.Laplace(scale=1e308), *more])
        assert 5.0 * (1 + len(more)) * (1 - 1e-4) < run.epsilon(delta=1e-5) < 5.0 * (1 + len(more))
        assert run.epsilon(delta=0.0) >= 5.0 * (1 + len(more))
    bits = [cm.RandomizedResponse(p=0.97 + 0.001 * i) for i in range(15)]
    run = cm.Composed.of((one, 1) for one in [cm.Laplace(scale=1.0), *bits])
    log_mass = math.fsum(math.log(bit.p) for bit in bits)
    assert 0 < run.epsilon(log_delta=log_mass) < run.epsilon(delta=0.0)  # a share of 1 of the largest loss's mass


def test_the_largest_loss_says_what_epsilon_is_not_below() -> None:
    for count, scale in ((2, 3.0), (20, 30.0), (100, 20.0)):
        closed = composed(*laplaces(*[scale] * count)).closed
        assert closed is not None
        for share in (1e-6, 0.01, 0.249, 0.251, 0.5, 0.999, 1.0, 1e3, 1e9, 1e20):
            log_delta = math.log(share) - (count - 1) * math.log(2.0)
            least = closed.least_epsilon(log_delta)
            assert least is not None or share > 0.2
            if least is not None:
                with precision(200 + 12 * count):
                    truth = laplace_delta(1 / Fraction(scale), count, ball(Fraction(max(least, 0.0))))
                    assert truth.log() >= log_delta - 1e-9 or least < 0
        assert closed.least_epsilon(-1e-9) is None


# Bands ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 1.5, 3.0])
def test_bits_in_bands(epsilon: float) -> None:
    """Narrow bands, whose bounds are far apart, and wide ones."""
    odds = np.linspace(0.21, 0.57, 11).tolist()
    losses = composed(*(cm.PureDP(epsilon=x) for x in odds))
    with mp.workdps(40):
        truth = composed_delta([(x, 0.0, 1) for x in odds], epsilon)
    rough, *fine = bands_at(losses, epsilon, truth)
    assert_encloses(rough, epsilon, truth, 0.1)
    for band in fine:
        assert_encloses(band, epsilon, truth, 1e-4)
    assert_encloses(fine[-1], epsilon, truth, fine[-1].enough)


@pytest.mark.parametrize(
    ("scale", "count", "epsilon"), [(2.0, 12, 2.0), (10.0, 60, 1.5), (1.0, 25, 16.0), (30.0, 150, 0.2)]
)
def test_laplace_noise_in_bands(scale: float, count: int, epsilon: float) -> None:
    losses = composed(*laplaces(*[scale] * count))
    with precision(200):
        truth = laplace_delta(1 / Fraction(scale), count, ball(Fraction(epsilon)))
    for band in bands_at(losses, epsilon, mpf(truth.str(40, radius=False))):
        assert_encloses(band, epsilon, mpf(truth.str(40, radius=False)), 1e-2 if band.is_rough else 1e-4)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
def test_bits_beside_gaussians_in_bands(epsilon: float) -> None:
    """Given the bits, what is left is a Gaussian: δ = Σ P(sum) δ_μ(ε - sum)."""
    odds, mean = [0.2, 0.31, 0.43, 0.05, 0.12, 0.26], 0.25
    losses = composed(*(cm.PureDP(epsilon=x) for x in odds), cm.Gaussian(noise_multiplier=1 / mean))
    with mp.workdps(40):
        truth = mpf(0)
        for signs in np.ndindex(*[2] * len(odds)):
            total = mp.fsum(mpf(x) * (1 - 2 * s) for x, s in zip(odds, signs, strict=True))
            mass = mp.fprod(1 / (1 + mp.exp(-mpf(x) * (1 - 2 * s))) for x, s in zip(odds, signs, strict=True))
            truth += mass * normal_profile(mpf(mean), mp.exp(epsilon - total))
    for band in bands_at(losses, epsilon, truth):  # Gaussians end the line before the band does
        assert_encloses(band, epsilon, truth, 1e-4 if band.is_rough else 1e-6)


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize(
    ("scale", "rate", "count", "epsilon"),
    [
        ("1", "0.25", 2, 0.125),
        ("0.6", "0.1", 1, 0.08),
        ("8", "0.002", 1, 0.0001),
        ("5", "0.7", 2, 0.22),
        ("2", "0.004", 2, 0.002),
        ("1.5", "0.3", 3, 0.4),
    ],
)
def test_sampled_laplace_noise_in_bands(scale: str, rate: str, count: int, epsilon: float, joins: bool) -> None:
    """One to three releases, whose moments take quadrature, by nested integrals."""
    run = cm.Laplace(scale=float(scale)).poisson(rate=float(rate)) * count
    directions = run._known().directions(run.neighbors)
    assert directions is not None
    losses = ComposedPairs.of(directions[joins])
    with precision(160):
        theta, share = 1 / Fraction(float(scale)), Fraction(float(rate))
        law = Sampled("laplace", theta, share, "joining" if joins else "leaving")
        truth = mpf(few([law] * count, arb(0), ball(Fraction(epsilon))).str(30, radius=False))
    rough, *fine = bands_at(losses, epsilon, truth)
    assert_encloses(rough, epsilon, truth, math.inf)
    for band in fine:
        assert_encloses(band, epsilon, truth, 0.1)
    assert_encloses(fine[-1], epsilon, truth, fine[-1].enough)


def laplace_masses(scale: float) -> Any:
    """Return P and Q between boundaries of the loss: P(L > x) = 1 - e^{(x-θ)/2}/2, Q(L > x) = e^{-(x+θ)/2}/2."""
    theta = 1 / scale

    def masses(x: Any) -> Any:
        inside = np.clip(x, -theta, theta)
        p = np.where(x >= theta, 0.0, np.where(x < -theta, 1.0, 1 - np.exp((inside - theta) / 2) / 2))
        q = np.where(x >= theta, 0.0, np.where(x < -theta, 1.0, np.exp(-(inside + theta) / 2) / 2))
        return tuple(np.concatenate([[1.0 - tail[0]], -np.diff(tail), [tail[-1]]]) for tail in (p, q))

    return masses


@pytest.mark.parametrize(("number", "largest"), [(4, 12.0), (20, 50.0)])
def test_distinct_laplace_releases_between_two_lattices(number: int, largest: float) -> None:
    scales = np.linspace(largest * 0.4, largest, number).tolist()
    run = cm.Composed.of((release, 1) for release in laplaces(*scales))
    bracket = Bracket([(laplace_masses(scale), 1) for scale in scales], 2e-4, 1.5)
    guarantee = run.guarantee(delta=1e-4)
    assert guarantee.at_most_above is not None
    assert guarantee.at_most_above <= 1e-6
    below, above = bracket.below(guarantee.epsilon), bracket.above(guarantee.epsilon)
    assert below <= 1e-4 * (1 + 1e-9)
    assert above >= 1e-4 * (1 - 1e-5)
    assert above / below < 1.5


@pytest.mark.parametrize("number", [2, 5, 13, 20, 40])
def test_more_releases_cost_more_whichever_road_they_take(number: int) -> None:
    scales = np.linspace(8.0, 30.0, number).tolist()
    answers = [
        cm.Composed.of((release, 1) for release in laplaces(*scales[:k])).epsilon(delta=1e-6)
        for k in range(max(number - 3, 1), number + 1)
    ]
    assert all(a < b for a, b in pairwise(answers))


@pytest.mark.parametrize("number", [3, 12, 25])
def test_questions_agree(number: int) -> None:
    run = cm.Composed.of((release, 1) for release in laplaces(*np.linspace(3.0, 9.0, number).tolist()))
    for delta in (1e-3, 1e-9):
        epsilon = run.epsilon(delta=delta)
        assert run.delta(epsilon=epsilon) <= delta
        assert run.delta(epsilon=epsilon * (1 - 2e-6)) >= delta
        assert run.epsilon(delta=delta, method="rdp") >= epsilon


def test_intervals_hold_the_answer() -> None:
    run = cm.Laplace(scale=2.0) * 3 + cm.Laplace(scale=5.0) * 2
    epsilon, interval = run.epsilon(delta=1e-4), run.epsilon_interval(delta=1e-4)
    assert interval.lower <= epsilon * (1 + 1e-12)
    assert epsilon <= interval.upper * (1 + 1e-6)
