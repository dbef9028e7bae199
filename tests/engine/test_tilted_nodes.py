"""Nodes for one tilt alone: their characteristic function against balls' own integration of the law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx

from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.discrete import PHASE
from cumulant.pairs.maps import Antithetic, CoordinateMap, Envelope, Join, Leave, Replace
from cumulant.pairs.noise import GaussianNoise, LaplaceNoise

BITS = 160
REACH = 20.0  # standard deviations of a normal law either side of its peaks: e^-200 is beyond


def weight(u: acb, rate: float) -> acb:
    return 1 - arb(rate) + arb(rate) * u.exp()


def moment(pair: CoordinatePair, z: acb) -> acb:
    """Return E_P e^{zL} of noise on samples from what its outputs and their likelihood ratios are."""
    law, sampling = pair.law, pair.sampling
    rate = sampling.rate

    def tilted(u: acb, other: acb) -> acb:
        w = weight(u, rate)
        if isinstance(sampling, Replace | Antithetic):
            return w * (z * (w / weight(other, rate)).log()).exp()
        return ((z + 1) * w.log()).exp() if isinstance(sampling, Leave) else (-z * w.log()).exp()

    if isinstance(law, GaussianNoise):
        mean = arb(law.mean)

        def integrand(t: acb, _: bool) -> acb:
            density = (-t * t / 2).exp() / (2 * arb.pi()).sqrt()
            return density * tilted(mean * t - mean * mean / 2, -mean * t - mean * mean / 2)

        reach = REACH + float(law.mean) * (abs(float(z.real)) + 1)
        return acb.integral(integrand, -reach, reach)
    assert isinstance(law, LaplaceNoise)
    theta = arb(law.theta)
    total = acb.integral(lambda u, _: (-(u + theta) / 2).exp() / 4 * tilted(u, -u), -theta, theta)
    ends = tilted(acb(theta), acb(-theta)) * (-theta).exp() / 2 + tilted(acb(-theta), acb(theta)) / 2
    return total + ends


MAPS: tuple[type[CoordinateMap], ...] = (Leave, Join, Replace)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("noise", [LaplaceNoise, GaussianNoise])
def test_nodes_at_a_tilt_are_right_to_their_bound(noise: type, kind: type[CoordinateMap], seed: int) -> None:
    if noise is LaplaceNoise and kind is Replace:
        pytest.skip("outputs of Laplace noise are opposed by a map of its own")
    rng = np.random.default_rng([seed, MAPS.index(kind), noise is LaplaceNoise])
    pair = CoordinatePair(noise(10 ** rng.uniform(-1.0, 0.4)), kind(10 ** rng.uniform(-3, -0.1)))  # type: ignore[call-arg]
    theta = 2 ** rng.uniform(-2, 5)
    omega = 10 ** rng.uniform(0.5, 2.0) * (1 + theta)
    previous, ctx.prec = ctx.prec, BITS
    try:
        scale = moment(pair, acb(theta)).real
        nodes = pair.nodes_at(theta, omega, float(scale.log()))
        values, error = nodes.log_moment(omega / 16, 17)
        drift = float(nodes.masses @ np.abs(nodes.losses))
        for j in (0, 1, 5, 16):
            truth = moment(pair, acb(theta, omega / 16 * j)) / arb(float(scale.log())).exp()
            at = np.sum(nodes.masses * np.exp(1j * (omega / 16 * j) * nodes.losses))
            assert abs(complex(truth) - at) <= nodes.error + PHASE * drift * omega
            found = np.exp(values[j])
            assert abs(complex(truth) - found) <= abs(found) * math.expm1(error[j])
    finally:
        ctx.prec = previous


@pytest.mark.parametrize("kind", [Envelope, Antithetic])
def test_halves_of_a_law_have_the_nodes_of_their_rule(kind: type[CoordinateMap]) -> None:
    """Where two maps share a law: nodes for all smaller tilts as well, and twice the frequency."""
    pair, theta, omega = CoordinatePair(LaplaceNoise(0.7), kind(0.2)), 9.0, 300.0  # type: ignore[call-arg]
    rule = pair.nodes(2 * theta, 2 * omega)
    k = float(np.log(np.sum(np.exp(rule.log_masses + theta * rule.losses))))
    nodes = pair.nodes_at(theta, omega, k)
    for at in (0.0, 1.0, 77.0, omega):
        expected = np.sum(np.exp(rule.log_masses + (theta + 1j * at) * rule.losses - k))
        assert abs(np.sum(nodes.masses * np.exp(1j * at * nodes.losses)) - expected) <= 1e-13


def test_small_rates_take_few_nodes() -> None:
    """Losses between -2e-4 and 2e-4 turn by a hundred radians at this frequency, however steep the noise itself is."""
    pair, theta, omega = CoordinatePair(LaplaceNoise(1 / 8.7), Leave(0.0015)), 1e4, 3e5
    k = float(pair.nodes(theta, 0.0).cumulants(np.array([theta]))[0][0, 0])
    assert len(pair.nodes_at(theta, omega, k).losses) < 400
    assert pair.count_nodes(theta, omega) > 100_000
