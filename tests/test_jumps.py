"""Jumps: moments, bounds and answers against quadrature in many digits, and against intervals in balls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from flint import acb, ctx
from mpmath import mp, mpc, mpf

import cumulant as cm
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.jumps import JumpsInDoubles, line_of_jumps
from cumulant.inversion.question import Question
from cumulant.inversion.solve import Doubles
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.jump_law import (
    JumpLaw,
    Jumps,
    bound_leak,
    bound_negative_cgf,
    cut_masses,
    has_jumps,
    log_w,
)
from cumulant.pairs.jump_line import TiltedJumps
from cumulant.pairs.maps import Join, Leave
from cumulant.pairs.noise import GaussianNoise, LaplaceNoise
from cumulant.pairs.sampled_gaussian import coordinate_of
from stored import stored


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    before = ctx.prec
    ctx.prec = 128
    with mp.workdps(30):
        yield
    ctx.prec = before


PAIRS = [
    CoordinatePair(CutLaw(GaussianNoise(1.0), 9.0, 6.0), Leave(0.01)),
    CoordinatePair(CutLaw(GaussianNoise(2.5), 10.5, 3.0), Leave(1e-5)),
    CoordinatePair(CutLaw(GaussianNoise(0.2), 11.0, 24.0), Leave(3e-3)),
    CoordinatePair(CutLaw(GaussianNoise(1.1), 5.7, 12.0), Leave(1e-4)),
]


def moment(jumps: Jumps, z: complex, *, quiet: bool) -> mpc:
    """Return E[χ(1-χ_q) e^{zL}] or E[χχ_q e^{zL}] by an integral in balls."""
    law, near = jumps.law, jumps.near
    mean, rate = acb(law.mean), acb(law.rate)

    def integrand(t: acb, analytic: bool) -> acb:
        log_w = (1 - rate + rate * (mean * t - mean * mean / 2).exp()).log(analytic=analytic)
        share = acb(0) if near is None else ((t - near[0]) * near[1]).erfc() / 2
        taken = ((t - law.far[0]) * law.far[1]).erfc() / 2 * (share if quiet else 1 - share)
        return (-t * t / 2 + (acb(z.real, z.imag) + 1) * log_w).exp() * taken / (2 * acb.pi()).sqrt()

    ends = [-14.0, *(cut[0] + x / cut[1] for cut in (near, law.far) if cut for x in (-6, 0, 6)), 40.0]
    total = sum((acb.integral(integrand, a, b) for a, b in pairwise(sorted(ends))), acb(0))
    assert float(total.rad()) < 1e-20 + 1e-13 * abs(complex(total))
    return mpc(mpf(total.real.mid().str(40, radius=False)), mpf(total.imag.mid().str(40, radius=False)))


def density(t: mpf) -> mpf:
    return mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("largest", [0.004, 0.02, None])
def test_moments_of_jumps(pair: CoordinatePair, largest: float | None) -> None:
    law = JumpLaw.of(pair)
    jumps = Jumps(law) if largest is None else law.split(largest)
    theta, eta, count = 3.0, 1.7, 400
    tilted = TiltedJumps.of(jumps, theta)
    scale = tilted.log_size
    values, error = tilted.line(eta, count, scale)
    bounds = tilted.log_moduli(np.array([eta * j for j in (1, 7, 39, 399)]))
    for j, bound in zip((1, 7, 39, 399), bounds.tolist(), strict=True):
        truth = moment(jumps, complex(theta, eta * j), quiet=False)
        off = abs(truth * mp.exp(-mpf(scale)) - mpc(values[j]))
        assert off <= error[j] <= 1e-11
        assert mp.log(abs(truth)) <= bound
    whole = moment(jumps, complex(theta), quiet=False).real
    assert mp.log(whole) <= scale <= mp.log(whole) + 1e-6


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("largest", [0.004, 0.02])
def test_moments_of_quiet_losses(pair: CoordinatePair, largest: float) -> None:
    jumps = JumpLaw.of(pair).split(largest)
    eta, count = 1.7, 40
    for theta in (0.5, 20.0):
        values, error = TiltedJumps.of(jumps, theta).quiet_line(eta, count)
        for j in (0, 39):
            truth = moment(jumps, complex(theta, eta * j), quiet=True)
            assert abs(mp.exp(mpc(values[j])) / truth - 1) <= error[j] <= 1e-11


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("largest", [0.004, 0.02])
def test_quiet_losses_are_bounded(pair: CoordinatePair, largest: float) -> None:
    law = JumpLaw.of(pair)
    jumps, theta = law.split(largest), np.array([0.5, 4.0, 20.0])
    log_s, _ = jumps.log_moments(theta, law.tilt(theta))
    bounds, rest = jumps.bound_quiet(law.tilt(theta), -60.0)
    assert 0 < rest <= math.exp(-60.0) * (1 + 1e-6)
    for tilt, whole, bound in zip(theta.tolist(), log_s.tolist(), bounds.tolist(), strict=True):
        truth = mp.log(moment(jumps, complex(tilt), quiet=True).real)
        assert truth <= whole <= truth + 1e-8
        # what lies beyond b weighs at most the rest
        assert mp.log(mp.exp(truth) - mp.exp(-20)) <= bound <= truth + 0.05 + 0.3 * abs(truth)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_what_is_cut_off_far_out(pair: CoordinatePair) -> None:
    law = pair.law
    assert isinstance(law, CutLaw)
    jump_law = JumpLaw.of(pair)

    def lost(mean: float, last: float) -> float:
        """Return E[1 - χ; t <= last] of N(μ, 1)."""

        def integrand(t: acb, _: bool) -> acb:
            return (-((t - mean) ** 2) / 2).exp() / (2 * acb.pi()).sqrt() * ((law.at - t) * law.sharpness).erfc() / 2

        ends = [-40.0, *(at for x in (-6, 0, 6) if (at := law.at + x / law.sharpness) < last), last]
        return float(sum((acb.integral(integrand, a, b) for a, b in pairwise(ends)), acb(0)).real)

    truths = lost(0.0, 40.0), jump_law.rate * lost(jump_law.mean, 40.0)
    assert np.allclose(cut_masses(pair), truths, rtol=1e-13, atol=0)
    for share in (0.5, 0.9):
        sure = jump_law.largest_loss * share
        last = coordinate_of(sure, jump_law.mean, jump_law.rate)
        assert abs(float(log_w(np.array([last]), jump_law.mean, jump_law.rate)[0]) / sure - 1) < 1e-12
        assert lost(0.0, last) <= bound_leak(pair, sure)


@stored
def negative_cgf(mean: float, rate: float, power: float) -> mpf:
    """Return log E_Q w^{-τ}."""
    with mp.workdps(20):
        mu, gamma, tau = mpf(mean), mpf(rate), mpf(power)

        def integrand(t: mpf) -> mpf:
            return density(t) * (1 - gamma + gamma * mp.exp(mu * t - mu**2 / 2)) ** -tau

        return mp.log(mp.quad(integrand, mp.linspace(-14, 14, 40)))


@pytest.mark.parametrize(("mean", "rate"), [(0.5, 0.3), (2.0, 1e-4), (3.0, 0.9), (30.0, 0.01)])
def test_what_losses_make_up_for_is_bounded(mean: float, rate: float) -> None:
    """E_Q w^{-τ} from small tilts to those beyond doubles."""
    pair = CoordinatePair(CutLaw(GaussianNoise(mean), 9.0, 6.0), Leave(rate))
    tau = np.array([float(f"{x:.6g}") for x in np.geomspace(1e-3, 2e3, 13) / -math.log1p(-rate)])
    for power, bound in zip(tau.tolist(), bound_negative_cgf(pair, tau).tolist(), strict=True):
        assert negative_cgf(mean, rate, power) <= bound + 1e-12


def test_only_losses_that_leave_have_jumps() -> None:
    assert has_jumps(PAIRS[0])
    assert not has_jumps(CoordinatePair(GaussianNoise(1.0), Join(0.01)))
    assert not has_jumps(CoordinatePair(LaplaceNoise(1.0), Leave(0.01)))


# Answers --------------------------------------------------------------------------------------------------------------


def profile_of_one(mean: mpf, rate: mpf, epsilon: mpf) -> mpf:
    """Return δ(ε) of one release, of any sign of ε: P(L > ε) - e^ε Q(L > ε)."""
    inner = (mp.exp(epsilon) - 1 + rate) / rate
    if inner <= 0:
        return 1 - mp.exp(epsilon)
    t = mp.log(inner) / mean + mean / 2
    above = mp.erfc((t - mean) / mp.sqrt(2)) / 2, mp.erfc(t / mp.sqrt(2)) / 2
    return rate * above[0] + (1 - rate) * above[1] - mp.exp(epsilon) * above[1]


@stored
def delta_of_two(first: tuple[float, float], second: tuple[float, float], epsilon: float) -> mpf:
    """Return δ(ε) of two releases by one integral over the loss of the first."""
    with mp.workdps(30):
        return _delta_of_two(first, second, epsilon)


def _delta_of_two(first: tuple[float, float], second: tuple[float, float], epsilon: float) -> mpf:
    (mean, rate), (other, share) = ((mpf(a), mpf(b)) for a, b in (first, second))

    def integrand(t: mpf) -> mpf:
        w = 1 - rate + rate * mp.exp(mean * t - mean**2 / 2)
        return density(t) * w * profile_of_one(other, share, mpf(epsilon) - mp.log(w))

    kinks = [mp.log(mp.exp(mpf(epsilon)) / (1 - share) / rate - (1 - rate) / rate) / mean + mean / 2]
    edges = sorted([*mp.linspace(mpf(-14), 24 + 3 * mean, 60), *kinks])
    return mp.quad(integrand, edges)


@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [
        ((1.0, 0.01), (1.0, 0.01), 0.3),
        ((1.0, 0.01), (0.5, 0.2), 0.9),
        ((2.0, 1e-4), (2.0, 1e-4), 0.05),
        ((0.3, 1e-3), (0.3, 1e-3), 0.004),
        ((2.0, 1e-5), (1.0, 1e-3), 2.0),
        ((0.05, 0.3), (0.07, 0.1), 0.06),
        ((1 / 1.1, 2e-4), (1 / 1.1, 2e-4), 1e-4),  # all others may make up for a loss of this size
        ((1.0, 1e-3), (1.0, 1e-3), 5e-4),
        ((1.25, 1e-5), (1.25, 1e-5), 1e-5),
        ((1.0, 0.99), (1 / 0.3, 5.4e-5), 0.3),
    ],
)
def test_two_releases(first: tuple[float, float], second: tuple[float, float], epsilon: float) -> None:
    truth = mp.log(delta_of_two(first, second, epsilon))
    run = [cm.Gaussian(noise_multiplier=1 / mean).poisson(rate=rate) * 1 for mean, rate in (first, second)]
    both = run[0] + run[1]
    log_delta = both.log_delta(epsilon=epsilon)
    assert truth <= log_delta <= truth + 1e-7
    bounds = _line_at(both, epsilon, float(truth))
    assert bounds is not None
    for factor in (0.8, 1.0, 1.2):
        low, high = bounds.log_bounds(epsilon * factor)
        assert low <= mp.log(delta_of_two(first, second, epsilon * factor)) <= high


def _line_at(run: AbstractMechanism, epsilon: float, log_delta: float) -> JumpsInDoubles | None:
    directions = run._known().directions(run.neighbors)
    assert directions is not None
    (losses,) = [pairs for pairs in map(ComposedPairs.of, directions) if pairs.supremum == math.inf]
    return line_of_jumps(Question(losses, Doubles(), 1, log_delta).seen, epsilon, log_delta)


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [
        (1.0, 0.01, 10, 1e-5),
        (0.5, 1e-3, 30, 1e-6),
        (0.9, 1e-4, 40, 1e-7),
        (0.6, 1e-3, 100, 1e-9),
    ],
)
def test_against_intervals_in_balls(sigma: float, rate: float, count: int, delta: float) -> None:
    """Which follow all losses, or cut far ones, and know nothing of jumps."""
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    interval, guarantee = run.epsilon_interval(delta=delta), run.guarantee(delta=delta)
    assert guarantee.exact
    assert guarantee.epsilon >= interval.lower * (1 - 1e-12)
    if interval.certified:
        assert guarantee.epsilon <= interval.upper * (1 + 2e-9)
    line = _line_at(run, guarantee.epsilon, math.log(delta))
    assert line is not None
    low, high = line.log_bounds(guarantee.epsilon)
    assert low <= math.log(delta) <= line.log_bounds(guarantee.epsilon * (1 - 1e-9))[1]  # which is what exact means
    assert high - low <= 1e-7


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [
        (0.4849, 1.479e-6, 708525, 4.84e-19),
        (0.4, 1e-5, 1000, 1e-10),
        (0.3267, 1.223e-6, 194584, 5.47e-24),
        (1.0512, 1.325e-6, 50, 8.97e-29),
        (1.4452, 3.008e-5, 3, 3.8e-23),
    ],
)
def test_rare_events_are_exact(sigma: float, rate: float, count: int, delta: float) -> None:
    run = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * count
    guarantee = run.guarantee(delta=delta)
    assert guarantee.exact
    # at least one of the losses alone, given that all others are least: δ_n(ε) >= nδ_1(ε - (n-1) log(1-γ))·(1-γ)^{n-1}
    mean, gamma = 1 / mpf(sigma), mpf(rate)
    least = (count - 1) * mp.log1p(-gamma)
    assert guarantee.delta >= profile_of_one(mean, gamma, mpf(guarantee.epsilon) - least) * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_small_losses_of_one_release_keep_their_digits(seed: int) -> None:
    """δ(ε) of one sample has a formula, γ·δ_μ(log(1 + (e^ε-1)/γ)); next to ε = 0 every digit of a loss counts."""
    generator = np.random.default_rng(seed)
    noise, batch = 10 ** generator.uniform(-0.5, 4), int(generator.integers(1, 400))
    run = (cm.Gaussian(noise_multiplier=float(noise)) * 2).without_replacement(
        batch=batch, population=484, neighbors=cm.ADD_REMOVE
    )
    epsilon = float(10 ** generator.uniform(-3, 1)) * batch / 484 / noise
    with mp.workdps(50):
        rate, mean = mpf(batch) / 484, mp.sqrt(2) / mpf(float(noise))
        base = mp.log1p(mp.expm1(mpf(epsilon)) / rate)
        exact = rate * (mp.ncdf(-base / mean + mean / 2) - mp.exp(base) * mp.ncdf(-base / mean - mean / 2))
        assert run.log_delta(epsilon=epsilon) >= mp.log(exact)
