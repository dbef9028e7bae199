"""Losses that δ cannot see: what a cut leaves out, what it bounds, and answers where the far losses used to rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import acb, arb
from mpmath import mp, mpc, mpf

import cumulant as cm
from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.out_of_sight import leave_out_unseen
from cumulant.neighbors import Neighbors
from cumulant.numerics.balls import as_ball
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.gaussian_mixture import GroupedGaussian
from cumulant.pairs.maps import Envelope, Leave, Replace
from cumulant.pairs.noise import GaussianNoise
from high_precision import precision

DIGITS = 40


def chi(t: mpf, law: CutLaw) -> mpf:
    return mp.erfc(mpf(law.sharpness) * (t - mpf(law.at))) / 2


@pytest.mark.parametrize("at", [2.0, 6.0])
@pytest.mark.parametrize("sharpness", [1.5, 12.0])
@pytest.mark.parametrize("kind", ["leave", "replace", "envelope", "group"])
def test_what_is_left_out_is_at_least_what_the_integral_says(kind: str, sharpness: float, at: float) -> None:
    """P = E_P[1 - χ], by quadrature; under the envelope the half of Q counts as well."""
    mean, rate, size = 0.7, 0.3, 3
    law = CutLaw(GroupedGaussian(mean, rate, size) if kind == "group" else GaussianNoise(mean), at, sharpness)
    maps = {"leave": Leave(rate), "replace": Replace(rate), "envelope": Envelope(rate), "group": Leave(1.0)}
    pair = CoordinatePair(law, maps[kind])
    sizes = range(size + 1) if kind == "group" else range(2)
    with precision(), mp.workdps(DIGITS):
        g, m = arb(rate), arb(mean)
        shares = [(math.comb(sizes[-1], j) * g**j * (1 - g) ** (sizes[-1] - j), j * m) for j in sizes]
        shares += [(arb(1), arb(0))] * (kind == "envelope")

        def left(t: Any, _: bool) -> Any:
            p = sum((share * (-((t - middle) ** 2) / 2).exp() for share, middle in shares), acb(0))
            return p * (sharpness * (at - t)).erfc() / 2 / (2 * arb.pi()).sqrt()

        ball = acb.integral(left, m / 2 if kind == "envelope" else -16, 20, rel_tol=arb("1e-45")).real
        truth = mpf(ball.mid().str(DIGITS, radius=False))
        assert truth <= pair.left_out <= truth * (3 if kind == "envelope" else 1 + mpf(10) ** -8)
        if kind != "envelope":
            assert abs(mpf(float(pair.in_balls().left_out.mid())) - truth) <= truth * mpf(10) ** -10
        assert float(pair.in_balls().left_out.mid()) == pytest.approx(pair.left_out, rel=1e-8)


def test_the_cut_is_small_off_the_line_and_bends_as_stated() -> None:
    """|χ(x + iy)| <= e^{a²y²} χ(x), and -(log χ)'' is at most what cells are told, from 0 up to 2a²."""
    law = CutLaw(GaussianNoise(1.0), 5.0, 3.0)
    with mp.workdps(DIGITS):
        for x in (2.0, 4.0, 4.9, 5.0, 5.3, 6.0, 8.0):
            for y in (0.1, 0.5, 2.0):
                off = abs(mp.erfc(mpc(3.0 * (x - 5.0), 3.0 * y)) / 2)
                assert off <= mp.exp((3 * mpf(y)) ** 2) * chi(mpf(x), law) * (1 + mpf(10) ** -30)
            bend = -mp.diff(lambda t: mp.log(chi(t, law)) - t * t / 2, mpf(x), 2)
            assert 1 <= bend <= law.curvature_up_to(np.array([x]))[0] * (1 + 1e-6) <= law.curvature * (1 + 1e-6)


@pytest.mark.parametrize("size", [1, 4])
def test_a_mixture_turns_no_more_than_stated(size: int) -> None:
    """|arg w| and |w| stay within the bounds that balls take, of two terms and of several."""
    mean, rate = 0.8, 0.05
    law = GaussianNoise(mean) if size == 1 else GroupedGaussian(mean, rate, size)
    branch = CoordinatePair(law, Leave(rate if size == 1 else 1.0)).branches[0].in_balls()
    (_, sampling), *_ = branch.factors
    shares = [math.comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
    for angle in (0.1, 1.0, 1.5, *([3.0] if size == 1 else [])):
        y = angle / (size * mean)
        for t in np.linspace(-4.0, 6.0, 21).tolist():
            w = sum(b * np.exp(j * mean * (t + 1j * y) - (j * mean) ** 2 / 2) for j, b in enumerate(shares))
            where = branch.law.bound_on_rectangle(as_ball(t), as_ball(t), as_ball(y))
            least, most, turned = map(float, sampling.bound_on_rectangle(*where))
            assert least - 1e-12 <= math.log(abs(w)) <= most + 1e-12
            assert abs(np.angle(w)) <= turned * (1 + 1e-12)


def inverted_delta(run: tuple[float, float, int], epsilon: float, line: tuple[float, float]) -> mpf:
    """Return δ(ε) when the record leaves, from the uncut law less its far end, by an inversion of its own."""
    (sigma, rate, steps), (theta, window) = run, line
    step = mpf("0.125")
    mu, gamma = 1 / mpf(sigma), mpf(rate)
    t = [k * step for k in range(int(-15 / step), int(19 / step))]
    w = [1 - gamma + gamma * mp.exp(mu * x - mu**2 / 2) for x in t]
    losses = [mp.log(x) for x in w]
    # the far end, cut at 14 standard deviations and softly: e^-98 of the mass
    masses = [step * mp.npdf(x) * y * mp.erfc(2 * (x - 14)) / 2 for x, y in zip(t, w, strict=True)]
    eta, total = 2 * mp.pi / mpf(window), mpf(0)
    for j in range(400):
        z = mpc(theta, eta * j)
        m = mp.fsum(p * mp.exp(z * x) for p, x in zip(masses, losses, strict=True))
        term = mp.exp(steps * mp.log(m) - z * mpf(epsilon)) / (z * (z + 1))
        total += term.real / (1 if j else 2)
        if j > 5 and abs(term) < mpf(10) ** -14 * abs(total):
            break
    return total * eta / mp.pi


@pytest.mark.parametrize(
    ("run", "delta", "line"),
    [
        ((4.593, 8.857e-6, 86), 2.24e-19, (2.6e5, 4e-4)),
        ((21.77, 2.164e-6, 500), 1.36e-15, (2.5e6, 5e-5)),
        ((7.989, 1.931e-4, 468), 4.01e-17, (6e3, 2e-2)),
    ],
)
def test_small_rates_are_exact(run: tuple[float, float, int], delta: float, line: tuple[float, float]) -> None:
    """Far losses made these answers up to 250 times too large."""
    sigma, rate, steps = run
    guarantee = (cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * steps).guarantee(delta=delta)
    with mp.workdps(DIGITS):
        assert guarantee.exact
        at, below = (
            inverted_delta(run, epsilon, line) for epsilon in (guarantee.epsilon, guarantee.epsilon * (1 - 1e-8))
        )
        assert at <= mpf(delta) * (1 + mpf(10) ** -11) < below


def test_a_cut_leaves_out_next_to_nothing_of_delta() -> None:
    pair = CoordinatePair(GaussianNoise(1.0), Leave(0.01))
    losses = ComposedPairs.of([(pair, 100)])
    for log_delta in (-7.0, -60.0, -150.0):
        seen = leave_out_unseen(losses, log_delta)
        assert 0 < seen.left_out <= 1.1e-12 * math.exp(log_delta)
    assert leave_out_unseen(losses, -1000.0) is losses


def test_samples_of_two_rates_are_cut_together() -> None:
    """Laws with one batch key stand in rows; what is seen of them is not kept."""
    one, other = (cm.Gaussian(noise_multiplier=1.0).poisson(rate=rate) for rate in (1e-2, 1.1e-2))
    together = (one * 60 + other * 60).guarantee(delta=1e-9)
    assert (one * 120).epsilon(delta=1e-9) <= together.epsilon * (1 + 1e-6)
    assert together.epsilon <= (other * 120).epsilon(delta=1e-9) * (1 + 1e-6)


@pytest.mark.parametrize("relation", [cm.ADD_REMOVE, cm.REPLACE_ONE])
@pytest.mark.parametrize(("rate", "count"), [(3e-9, 10**17), (1e-8, 10**18)])
def test_more_releases_than_doubles_hold(rate: float, count: int, relation: Neighbors) -> None:
    """n·8e-15 nats of K are lost: nothing below the Gaussian limit, μ² = nγ²(e^{1/σ²} - 1), may be returned."""
    from references import gaussian_log_delta

    mean = math.sqrt(count) * rate * math.sqrt(math.expm1(1.0))
    run = cm.Gaussian(noise_multiplier=1.0).poisson(rate=rate, neighbors=relation) * count
    with mp.workdps(DIGITS):
        for delta in (1e-3, 1e-10):
            assert gaussian_log_delta(mean, run.epsilon(delta=delta)) <= math.log(delta) + 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_tails_are_at_least_the_integral_and_refused_where_nothing_falls(seed: int) -> None:
    """Of e^{gt} times a normal density, cut off or not, beside the real line: also before and just beside the cut."""
    rng = np.random.default_rng(seed)
    growth, high, y = (float(rng.uniform(*ends)) for ends in ((0, 6), (1, 14), (0, 1)))
    cut = CutLaw(GaussianNoise(1.0), float(rng.uniform(1, 12)), float(rng.uniform(0.3, 4)))
    low, a, c = -growth - float(rng.uniform(0.1, 8)), mpf(cut.sharpness), mpf(cut.at)
    for law in (cut, cut.law):
        falls = law is cut and high + 2 * cut.sharpness**2 * (high - cut.at) > growth
        exact: Any = law.in_balls()
        ends = (as_ball(low), as_ball(high))
        if not (falls or high > growth):
            with pytest.raises(OutOfReach):
                exact.log_tails(ends, as_ball(y), as_ball(growth), lambda t: growth * t)
            continue
        found = exact.log_tails(ends, as_ball(y), as_ball(growth), lambda t: growth * t)
        with mp.workdps(DIGITS):

            def modulus(t: mpf, law: Any = law) -> mpf:
                kept = mp.erfc(a * (mpc(t, y) - c)) / 2 if law is cut else 1
                return abs(mp.exp(-(mpc(t, y) ** 2) / 2) * kept) / mp.sqrt(2 * mp.pi) * mp.exp(growth * t)

            truth = mp.quad(modulus, mp.linspace(low - 30, low, 16)) + mp.quad(
                modulus, mp.linspace(high, high + 30, 31)
            )
            assert truth <= mp.exp(mpf(float(found.upper()))) * (1 + mpf(10) ** -9)
