"""Adaptive batches without replacement: cells against mpmath, two batches played in the plane, sums by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from mpmath import exp, log, mp, mpf, ncdf, npdf, quad
from numpy.typing import NDArray

import cumulant as cm
from cumulant.curves.curve import Curve
from cumulant.sampling.adaptive_batches import POINTS, Lattice, adaptive_profile, worst_values
from cumulant.sampling.gaussian_triples import SharpenedGaussianBatch
from cumulant.sampling.triple_cells import Step, step_of, steps_of, triple_profile

Vector = NDArray[np.float64]


def exact_profile(ratio: float, rate: float, s: float, t: float, rho: float) -> float:
    """Return H_x(p ‖ q) in mpmath: the Gaussian of Y integrated, the call on X in closed form, at any sign of c."""
    with mp.workdps(22):
        x, gamma = mpf(ratio), mpf(rate)
        kappa = mpf(rho) / mp.sqrt(t)
        spread = mp.sqrt(mpf(s) - kappa**2)

        def given(g: Any) -> Any:
            forward = gamma * exp(kappa * g - kappa**2 / 2)
            c = gamma * x * exp(mp.sqrt(t) * g - mpf(t) / 2) + (1 - gamma) * (x - 1)
            if c <= 0:
                return (forward - c) * npdf(g)
            first = log(forward / c) / spread + spread / 2
            return (forward * ncdf(first) - c * ncdf(first - spread)) * npdf(g)

        ends = [mpf(end) for end in (-12, -4, 0, 4, 14)]
        if x < 1:  # where c changes its sign
            ends.append((log((1 - gamma) * (1 - x) / (gamma * x)) + mpf(t) / 2) / mp.sqrt(t))
        return float(quad(given, sorted(end for end in ends if -12 <= end <= 14)))


TRIPLES = [(1.0, 0.4, 0.2), (0.4, 1.0, 0.15), (1.0, 1.0, 0.5), (4.0, 0.05, 0.0), (0.05, 4.0, 0.02), (0.01, 0.01, 0.005)]


@pytest.mark.parametrize(("s", "t", "rho"), TRIPLES)
@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_the_profile_of_a_triple(rate: float, s: float, t: float, rho: float) -> None:
    """Never below, and above by no more than what it adds for rounding; x < 1 by exchanging p and q."""
    for ratio in (1.0, 1.05, 3.0):
        exact = exact_profile(ratio, rate, s, t, rho)
        found = float(triple_profile(np.array([math.log(ratio)]), rate=rate, s=s, t=t, rho=rho)[0])
        ulp = 2e-16 * ratio  # of the ratio, which is a logarithm here
        assert exact - ulp <= found <= exact + 7e-11 * rate + ulp
    for ratio in (0.9, 0.5):
        exact, ulp = exact_profile(ratio, rate, s, t, rho), 2e-16
        other = float(triple_profile(np.array([-math.log(ratio)]), rate=rate, s=t, t=s, rho=rho)[0])
        assert exact - ulp <= 1 - ratio + ratio * other <= exact + 7e-11 * rate + ulp


def test_one_record_has_a_closed_form() -> None:
    """(D, 0, 0): γ(Φ(d) - lΦ(d - μ)) at l = 1 + (x-1)/γ."""
    rate, mu = 0.1, 0.8
    for ratio in (1.0, 1.05, 1.4):
        strike = mpf(1) + (mpf(ratio) - 1) / mpf(rate)
        d = -log(strike) / mpf(mu) + mpf(mu) / 2
        exact = float(rate * (ncdf(d) - strike * ncdf(d - mpf(mu))))
        found = float(triple_profile(np.array([math.log(ratio)]), rate=rate, s=mu * mu, t=0.0, rho=0.0)[0])
        assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-9)


def profile_of(step: Step, lattice: float, x: Vector) -> Vector:
    """Return Σ (P - xQ)_+ of a pair on the lattice."""
    losses = lattice * np.array(step.places, dtype=float)
    gains = np.maximum(1 - x[:, None] * np.exp(-losses), 0.0) @ np.array(step.masses)
    return np.asarray(gains + step.revealed)


def planar(variance: float, count: int, seed: int) -> list[tuple[float, float, float]]:
    """Return (s, t, ρ) of points b, c in the plane with |b|, |c|, |b - c| <= μ, those at full distances among them."""
    mu, generator = math.sqrt(variance), np.random.default_rng(seed)
    found: list[tuple[float, float, float]] = []
    while len(found) < count:
        b, c = generator.normal(size=(2, 2))
        b *= generator.choice([1.0, generator.uniform()]) * mu / np.linalg.norm(b)
        c *= generator.choice([1.0, generator.uniform()]) * mu / np.linalg.norm(c)
        if np.linalg.norm(b - c) <= mu and b @ c < 0.99 * min(b @ b, c @ c):
            found.append((float(b @ b), float(c @ c), float(b @ c)))
    return found


def test_some_pair_dominates_every_triple() -> None:
    """Planar triples at random: at every ratio the largest of the pairs' profiles is above; masses add up to 1."""
    rate, variance, lattice = 0.2, 1.0, 0.01
    pairs = steps_of(rate=rate, variance=variance, step=lattice, farthest=4.0)
    for pair in pairs:
        assert 1 - 1e-9 <= sum(pair.masses) + pair.revealed <= 1 + 1e-9
    x = np.exp(np.linspace(0.0, 2.5, 26))
    most = np.max([profile_of(pair, lattice, x) for pair in pairs], axis=0)
    most_below = np.max([profile_of(pair, lattice, 1 / x) for pair in pairs], axis=0)
    for s, t, rho in planar(variance, 40, seed=1):
        assert np.all(triple_profile(np.log(x), rate=rate, s=s, t=t, rho=rho) <= most + 1e-11)
        back = triple_profile(np.log(x), rate=rate, s=t, t=s, rho=rho)
        assert np.all(1 - 1 / x + back / x <= most_below + 1e-11)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-4])
def test_a_pair_is_above_the_points_it_is_made_of(noise: float) -> None:
    """Bounds with noise of rounding, and worse: the convex minorant stays above what is convex and below them all."""
    lattice, generator = 0.02, np.random.default_rng(2)
    places = list(range(60)) + list(range(60, 200, 5))
    losses = lattice * np.array(places, dtype=float)
    exact = triple_profile(losses, rate=0.3, s=1.0, t=0.5, rho=0.3)
    back = triple_profile(losses, rate=0.3, s=0.5, t=1.0, rho=0.3)
    above, below = (row + noise * generator.uniform(size=len(row)) for row in (exact, back))
    x = np.exp(losses)
    pair = step_of(places, lattice, above, below)
    assert np.all(profile_of(pair, lattice, x) >= exact - 1e-15)
    assert np.all(profile_of(pair, lattice, 1 / x) >= 1 - 1 / x + back / x - 1e-15)
    assert np.all(profile_of(pair, lattice, x) <= exact + noise + 1e-10)


def test_the_recursion_is_the_sum_it_stands_for() -> None:
    """Three batches on a small lattice by plain loops, with the same margins: above, and by next to nothing."""
    lattice = Lattice(step=0.02, first=-300, count=500, margin=40)
    generator = np.random.default_rng(3)
    pairs = []
    for _ in range(3):
        places = np.sort(generator.choice(np.arange(-40, 41), 12, replace=False))
        masses = generator.dirichlet(np.ones(12)) * (1 - 1e-9)
        pairs.append(Step(tuple(places.tolist()), tuple(masses.tolist()), 1e-9))
    curve = Curve(log_moment=lambda lam: 0.05 * lam * (lam + 1), kl=0.05)
    found = worst_values(lattice, pairs, 3, curve)
    losses = lattice.losses()
    values = np.maximum(-np.expm1(-losses), 0.0)
    tilts = 2.0 ** (np.arange(-8, 41) / 4)
    values[:40] = [math.exp(min(0.0, *(lam * (lam + 1) / 20 + lam * x for lam in tilts))) for x in losses[:40]]
    values[540:] = 1.0
    for _ in range(3):
        worst = [
            max(p.revealed + sum(m * values[k + at] for at, m in zip(p.places, p.masses, strict=True)) for p in pairs)
            for k in range(40, 540)
        ]
        values[40:540] = np.minimum(worst, 1.0)
    plain = np.minimum.accumulate(values[40:540][::-1])[::-1]
    assert np.all(found >= plain)
    there = losses[40:540] <= 0  # above, what is weighed down has the transforms' errors
    assert np.all(found[there] <= plain[there] * (1 + 1e-9) + 1e-7)
    assert len(losses) <= POINTS


GRID = np.linspace(-9.0, 9.0, 241)
PLANE_X, PLANE_Y = np.meshgrid(GRID, GRID)
WEIGHT = np.exp(-(PLANE_X**2 + PLANE_Y**2) / 2) * (GRID[1] - GRID[0]) ** 2 / (2 * math.pi)


def ratios(rate: float, s: float, t: float, rho: float) -> tuple[Vector, Vector]:
    """Return p and q on a grid of the plane, against N(0, 1) there."""
    b = np.array([math.sqrt(s), 0.0]) if s > 0 else np.zeros(2)
    c = (
        np.array([rho / math.sqrt(s), math.sqrt(max(t - rho * rho / s, 0.0))])
        if s > 0
        else np.array([math.sqrt(t), 0.0])
    )
    p, q = (1 - rate + rate * np.exp(PLANE_X * z[0] + PLANE_Y * z[1] - z @ z / 2) for z in (b, c))
    return p, q


def played(rate: float, variance: float, epsilon: float) -> float:
    """Return the largest δ(ε) of two batches, the second triple chosen by what the first one showed.

    W_1(x) = max of E (xp - e^ε q)_+ over planar triples is convex: between knots it is at least the lines through the
    two knots before and the two after, which make this attained.
    """
    triples = [(variance, tau, tau / 2) for tau in variance * np.linspace(0, 1, 5)]
    triples += [(t, s, rho) for s, t, rho in triples] + planar(variance, 6, seed=4)
    pairs = [ratios(rate, *triple) for triple in triples]
    x = np.exp(np.linspace(-4.0, 4.0, 321))
    last = [[np.sum(WEIGHT * np.maximum(at * p - math.exp(epsilon) * q, 0)) for at in x] for p, q in pairs]
    worst = np.max(last, axis=0)
    slopes = np.diff(worst) / np.diff(x)

    def attained(ratio: Vector) -> Vector:
        k = np.clip(np.searchsorted(x, ratio) - 1, 1, len(x) - 3)
        before = worst[k] + slopes[k - 1] * (ratio - x[k])
        after = worst[k + 1] + slopes[k + 1] * (ratio - x[k + 1])
        return np.asarray(np.maximum(np.maximum(before, after), 0.0))

    return max(float(np.sum(WEIGHT * q * attained(p / q))) for p, q in pairs)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(0.3, 1.0, 0.1), (0.3, 1.0, 0.8), (0.1, 0.7, 0.4)])
def test_no_adaptive_game_of_two_batches_is_above(rate: float, sigma: float, epsilon: float) -> None:
    profile = adaptive_profile(sigma, rate, 2)
    assert profile is not None
    attained = played(rate, 1 / sigma**2, epsilon)
    assert attained * (1 - 3e-4) <= profile.delta(epsilon) <= attained * 1.02


# What some datasets attain by adaptive queries, and bounds from coarser cells, by programs of their own
KNOWN = [(1.0, 0.3, 2, 0.1, 0.146261507, 0.149502), (0.7, 0.1, 10, 0.5, 0.118328, 0.122372)]


@pytest.mark.slow
@pytest.mark.parametrize("known", KNOWN)
def test_known_values(known: tuple[float, float, int, float, float, float]) -> None:
    sigma, rate, steps, epsilon, attained, coarser = known
    run = cm.Gaussian(noise_multiplier=sigma).without_replacement(rate=rate).sharpened() * steps
    assert attained <= run.delta(epsilon=epsilon) <= coarser


@pytest.mark.slow
def test_a_thousand_batches() -> None:
    """σ = 1, a hundredth, 1000 batches: at least what adaptive queries attain, and less than 1.885."""
    run = cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.01).sharpened() * 1000
    guarantee = run.explain(delta=1e-5).guarantee
    assert 1.8358 <= guarantee.epsilon <= 1.885
    assert guarantee.exact is False
    assert guarantee.at_most_above is not None
    assert 0.02 < guarantee.at_most_above < 0.03  # over the non-adaptive remove pair
    interval = run.epsilon_interval(delta=1e-5)
    assert (interval.upper, interval.certified) == (guarantee.epsilon, False)
    assert 1.8282 <= interval.lower <= 1.8283
    found = run.epsilon(delta=[1e-2, 1e-4, 1e-8, 1e-12])
    envelope = cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.01) * 1000
    attained = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000
    assert np.all(found <= envelope.epsilon(delta=[1e-2, 1e-4, 1e-8, 1e-12]))
    assert np.all(found >= attained.epsilon(delta=[1e-2, 1e-4, 1e-8, 1e-12]))


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "rate", "steps"), [(0.4, 0.02, 7), (1.5, 0.4, 25), (3.0, 0.1, 150), (0.15, 0.3, 3)])
def test_between_what_is_attained_and_the_envelope(sigma: float, rate: float, steps: int) -> None:
    plain = cm.Gaussian(noise_multiplier=sigma).without_replacement(rate=rate)
    sharp = plain.sharpened() * steps
    attained = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate) * steps
    for delta in (0.1, 1e-3, 1e-6, 1e-10, 1e-15, 1e-30):
        upper = (plain * steps).epsilon(delta=delta)
        assert attained.epsilon(delta=delta) * (1 - 1e-9) <= sharp.epsilon(delta=delta) <= upper * (1 + 1e-6)


def test_it_composes_with_others() -> None:
    """A run of batches is a pair by its profile: beside Gaussian noise it costs less than the envelope does."""
    plain = cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.1) * 20
    other = cm.Gaussian(noise_multiplier=4.0)
    both = plain.sharpened() + other
    least = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1) * 20 + other
    assert least.epsilon(delta=1e-5) < both.epsilon(delta=1e-5) < (plain + other).epsilon(delta=1e-5) * 0.97
    assert both.epsilon(delta=1e-5) > plain.sharpened().epsilon(delta=1e-5)
    assert cm.from_dict(json.loads(json.dumps(both.to_dict()))) == both


def test_blocks_cover_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven batches in blocks of three are three blocks of three: at least the run itself."""
    plain = cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.2)
    whole = (plain.sharpened() * 7).epsilon(delta=1e-5)
    monkeypatch.setattr("cumulant.sampling.gaussian_triples.MOST_STEPS", 3)
    blocks = plain.sharpened() * 7
    directions = blocks._known().directions(None)
    assert directions is not None
    assert [count for pairs in directions for _, count in pairs] == [3]
    assert whole <= blocks.epsilon(delta=1e-5) <= (plain * 9).epsilon(delta=1e-5)


@pytest.mark.slow
def test_where_a_lattice_is_too_coarse_nothing_changes() -> None:
    sharp = SharpenedGaussianBatch(noise_multiplier=1.0, rate=1e-6)
    assert adaptive_profile(1.0, 1e-6, 10) is None
    assert (sharp * 10).epsilon(delta=1e-9) <= (
        cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=1e-6) * 10
    ).epsilon(delta=1e-9)
    assert adaptive_profile(0.05, 0.1, 2) is None  # variances that doubles do not follow


def test_one_batch_is_what_it_was() -> None:
    sharp = SharpenedGaussianBatch(noise_multiplier=1.0, rate=0.1)
    assert (sharp * 1).epsilon(delta=1e-5) == sharp.epsilon(delta=1e-5)
