"""A record that becomes null in a cut sample: N(2) against N(-1), in doubles and in balls, against many digits."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import cumulant as cm
from cumulant.numerics.balls import as_ball, precision
from cumulant.pairs.certified import ball_nodes, proven_cells, tilted_moments
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import k_at, tilt
from cumulant.pairs.maps import CoordinateMap
from cumulant.pairs.mixed import MixedPair
from cumulant.pairs.noise import gaussian_noise
from cumulant.pairs.opposed import FarAgainstNear, NearAgainstFar
from cumulant.sampling.truncated_poisson import TruncatedPoisson, _pairs, cut_samples

Means = tuple[int, int]
CASES: list[tuple[float, float]] = [(2.0, 0.3), (0.8, 0.01), (20.0, 0.9)]


def opposed(sigma: float, rate: float) -> dict[Means, CoordinatePair]:
    noise = gaussian_noise(sigma / 2)
    moves: dict[Means, CoordinateMap] = {
        (2, -1): FarAgainstNear(rate, noise.mean, noise.noise),
        (1, -2): NearAgainstFar(rate, noise.mean, noise.noise),
    }
    return {means: CoordinatePair(noise, move) for means, move in moves.items()}


def moment(sigma: float, rate: float, means: Means, z: Any) -> Any:
    """Return M(z) = ∫ p^{1+z} q^{-z} by Gauss-Legendre panels of 40 digits."""
    with mp.workdps(30):
        g, mu = mp.mpf(rate), [mp.mpf(mean) / mp.mpf(sigma) for mean in means]

        def integrand(t: Any) -> Any:
            p, q = (1 - g + g * mp.exp(m * t - m * m / 2) for m in mu)
            return mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi) * p * mp.exp(z * mp.log(p / q))

        return mp.quad(integrand, [mp.mpf(k) for k in range(-28, 29, 4)])


@pytest.mark.parametrize(("sigma", "rate"), CASES)
@pytest.mark.parametrize("means", [(2, -1), (1, -2)])
def test_moments_in_doubles(sigma: float, rate: float, means: Means) -> None:
    pair = opposed(sigma, rate)[means]
    orders = np.array([0.5, 2.0])
    k, _, _ = pair.nodes(2.0, 0.0).cumulants(orders)
    for order, value in zip(orders.tolist(), k[0].tolist(), strict=True):
        assert value == pytest.approx(float(mp.log(moment(sigma, rate, means, order))), rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("index", [-8, 4])
def test_moments_of_a_cut_sample_in_balls(index: int) -> None:
    """Balls hold the moment of both parts with their shares, at real and at complex tilts."""
    sample = TruncatedPoisson(
        mechanism=cm.Gaussian(noise_multiplier=1.5), rate=0.2, max_batch=3, population=12, relation=cm.ZERO_OUT
    )
    cut = cut_samples(0.2, 3, 12)
    for pair, means, whole in zip(_pairs(sample), [(2, -1), (1, -2)], [(1, 0), (0, 1)], strict=True):
        assert isinstance(pair, MixedPair)
        theta, k, step = tilt(index), k_at(pair, index), 0.75
        with precision(160):
            nodes = ball_nodes(pair, theta, 3 * step, k, bits=160)
            found = tilted_moments(nodes, theta, k, step=as_ball(step), count=3)
        for j, ball in enumerate(found):
            with mp.workdps(30):
                z, share = mp.mpc(theta, j * step), mp.mpf(cut.share)
                truth = (1 - share) * moment(1.5, 0.2, whole, z) + share * moment(1.5, cut.rate, means, z)
                truth *= mp.exp(-mp.mpf(k))
                for part, exact in ((ball.real, truth.real), (ball.imag, truth.imag)):
                    low, high = (mp.mpf(end.str(40, radius=False)) for end in (part.lower(), part.upper()))
                    assert low - mp.mpf("1e-25") <= exact <= high + mp.mpf("1e-25")
                    assert high - low < 1e-15


def test_cells_of_a_mixture_lie_below_its_law() -> None:
    """They are those of one part: no more mass than there is."""
    sample = TruncatedPoisson(mechanism=cm.Gaussian(noise_multiplier=1.0), rate=0.1, max_batch=3, population=20)
    for pair in _pairs(sample):
        assert isinstance(pair, MixedPair)
        cells = proven_cells(pair, 10, k_at(pair, 10) + 1e-9, 128)
        assert 0.3 < math.fsum(cells.mass) <= 1


@pytest.mark.parametrize(
    ("relation", "most", "reference"), [(cm.ADD_REMOVE, 120, 5.228448543), (cm.ZERO_OUT, 120, 5.252932804)]
)
def test_runs_are_certified(relation: cm.Neighbors, most: int, reference: float) -> None:
    step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01, max_batch=most, population=10_000, neighbors=relation)
    interval = (step * 1000).epsilon_interval(delta=1e-5)
    assert interval.certified
    assert interval.upper == pytest.approx(reference, abs=2e-9)
    assert interval.lower > 1.8
