"""Inversion of transforms: sums, their aliases and rounding, against many digits and plain sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import Contour, Lattice, log_chernoff
from cumulant.inversion.lines import enclosures_at
from cumulant.inversion.plan import plan_for, tilts_for_epsilon
from cumulant.numerics.complex_plane import add_versines, sine_versine_of_multiples
from cumulant.numerics.nonuniform import characteristic_function
from cumulant.pairs.atoms import LossTable, Table
from cumulant.pairs.discrete import DiscreteLosses
from cumulant.pairs.finite_pair import FinitePair


def convolved(losses: Sequence[Any], masses: Sequence[Any], count: int) -> dict[tuple[int, ...], Any]:
    """Return the multinomial law of how often each output came."""

    @cache
    def of(left: int, kinds: int) -> dict[tuple[int, ...], Any]:
        if kinds == 1:
            return {(left,): masses[0] ** left}
        return {
            (*rest, k): mp.binomial(left, k) * masses[kinds - 1] ** k * value
            for k in range(left + 1)
            for rest, value in of(left - k, kinds - 1).items()
        }

    return of(count, len(losses))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_inversions_of_atoms_enclose_a_sum_over_all_outcomes(count: int, epsilon: float) -> None:
    """Losses on no lattice, with failure and absent mass: rough bands and fine ones, against the multinomial sum."""
    p, q = [0.3, 0.25, 0.4, 0.05, 0.0], [0.1, 0.35, 0.49, 0.0, 0.06]
    pair = FinitePair(Table(tuple(p), tuple(q)))
    losses = ComposedPairs.of([(pair, count)])
    assert losses.lattice is None
    tilts = tilts_for_epsilon(losses, epsilon)
    assert tilts is not None
    with mp.workdps(30):
        finite = [(mpf(a), mpf(b)) for a, b in zip(p, q, strict=True) if a > 0 and b > 0]
        share = mp.fsum(a for a, _ in finite)
        values = [mp.log(a / b) for a, b in finite]
        law = convolved(values, [a / share for a, _ in finite], count)
        sums = [(mp.fsum(n * x for n, x in zip(times, values, strict=True)), mass) for times, mass in law.items()]
        exact = mp.log(mp.fsum(mass * max(1 - mp.exp(epsilon - x), mpf(0)) for x, mass in sums))
        for around in (tilts, tilts.ask(epsilon, float(exact))):
            for inversion in enclosures_at(losses, plan_for(around)):
                low, high = inversion.log_bounds(epsilon)
                assert low <= exact <= high


# The trapezoidal sum --------------------------------------------------------------------------------------------------


def gaussian_delta(mean: Any, epsilon: Any) -> Any:
    """Balle and Wang (2018), Theorem 5."""
    a = epsilon / mean
    return mp.ncdf(mean / 2 - a) - mp.exp(epsilon) * mp.ncdf(-mean / 2 - a)


def gaussian_contour(mean: float, theta: float, step: float, count: int) -> Contour:
    z = theta + 1j * step * np.arange(count)
    tilts = theta * 2.0 ** (np.arange(-16, 17) / 8)
    tail = math.exp(-((mean * step * count) ** 2) / 2) / (step * count)
    line = np.asarray(mean**2 * z * (z + 1) / 2, dtype=complex), np.zeros(count)
    return Contour.of((theta, step), line, tail, (tilts, mean**2 * tilts * (tilts + 1) / 2))


@pytest.mark.parametrize("mean", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("theta", [0.5, 2.0, 9.0])
@pytest.mark.parametrize("window", [2.0, 8.0, 30.0])
def test_a_coarse_sum_is_what_poisson_summation_says(mean: float, theta: float, window: float) -> None:
    """The sum is Σ_k e^{θkW} δ(ε + kW), however coarse; its bounds enclose δ(ε)."""
    step = 2 * math.pi / window
    contour = gaussian_contour(mean, theta, step, math.ceil(14 / (mean * step)) + 2)
    for epsilon in (0.0, 0.3, 2.5):
        low, (high, _) = contour.log_lower(epsilon), contour.log_upper(epsilon)
        with mp.workdps(60):
            terms = [
                mp.exp(mpf(theta) * k * window) * gaussian_delta(mpf(mean), mpf(epsilon) + k * mpf(window))
                for k in range(-60, 61)
            ]
            assert mp.log(terms[60]) <= high
            assert low <= mp.log(terms[60])
            scale = mp.exp(mpf(mean) ** 2 * theta * (theta + 1) / 2 - theta * mpf(epsilon))
            assert mp.fsum(terms) / scale == pytest.approx(float(mp.exp(high) / scale), abs=1e-12)
            assert (mp.fsum(terms) - terms[60]) / scale <= contour.alias(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("tau", [1e-6, 0.3, 1.0, 25.0, 1e6])
def test_chernoffs_constant_is_the_largest_payoff(tau: float) -> None:
    with mp.workdps(40):
        x = mp.log1p(1 / mpf(tau))  # where (1 - e^{-x}) e^{-τx} is largest
        largest = mp.log((1 - mp.exp(-x)) * mp.exp(-tau * x))
        for nearby in (x * mpf("0.99"), x * mpf("1.01")):
            assert mp.log((1 - mp.exp(-nearby)) * mp.exp(-tau * nearby)) <= largest
        assert float(log_chernoff(np.array(tau))) == pytest.approx(float(largest), rel=1e-13)


@pytest.mark.parametrize("epsilon", [0.0, 0.31, 0.5, 1.7])
def test_the_payoff_of_a_lattice_is_a_sum_over_its_points(epsilon: float) -> None:
    lattice = Lattice(offset=-0.75, span=0.25)
    z = np.array([0.7, 0.7 + 1.3j, 3.0 - 5.0j])
    points = np.array([x for x in -0.75 + 0.25 * np.arange(4000) - epsilon if x > 0])
    plain = [0.25 * complex(np.sum((1 - np.exp(-points)) * np.exp(-w * points))) for w in z]
    np.testing.assert_allclose(lattice.payoff(z, epsilon), plain, rtol=1e-12)


def test_a_sum_that_is_not_a_number_proves_nothing() -> None:
    """An upper bound that was lost in overflow must not come out as log 0."""
    contour = gaussian_contour(1.0, 1.0, 0.5, 40)
    k = contour.z * (contour.z + 1) / 2
    k[5] = complex(math.nan, 0.0)
    broken = Contour.of((1.0, 0.5), (k, np.zeros(40)), contour.tail, contour.known)
    assert not broken.log_bounds(1.0)[1] < 0


# K on a line, and its rounding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-7, 1e-4, 0.03, 1.0])
@pytest.mark.parametrize("theta", [0.5, 8.0, 60.0])
def test_rounding_of_the_log_moment_is_within_its_bound(size: float, theta: float) -> None:
    """K(θ + iω) of a few atoms, however small the losses are: n releases multiply the error by n."""
    generator = np.random.default_rng(11)
    raw, weights = size * generator.normal(size=6), generator.dirichlet(np.ones(6))
    raw += np.log1p(weights @ np.expm1(-raw))  # so that Q adds up to 1, as nearly as doubles can
    with mp.workdps(50):
        losses, p = [mpf(x) for x in raw.tolist()], [mpf(x) for x in weights.tolist()]
        p[-1] = 1 - mp.fsum(p[:-1])
        lost = float(1 - mp.fsum(a * mp.exp(-x) for a, x in zip(p, losses, strict=True)))
        nodes = DiscreteLosses.of(raw, np.array([float(mp.log(a)) for a in p]), lost)
        k_theta = float(mp.log(mp.fsum(a * mp.exp(theta * x) for a, x in zip(p, losses, strict=True))))
        step = 0.1 / size
        (values,), (errors,) = nodes.log_moment(theta, step, 31, np.array([k_theta]))
        for j, value, error in zip(range(31), values, errors, strict=True):
            z = mp.mpc(theta, mpf(step) * j)
            exact = mp.fsum(a * mp.exp(z * x) for a, x in zip(p, losses, strict=True))
            found = mp.exp(mp.mpc(float(value.real), float(value.imag)))
            assert mp.log1p(abs(found / exact - 1)) <= 3 * mpf(float(error)) + mpf(10) ** -17 * abs(mp.log(exact))


def test_k_of_a_sampled_gaussian_keeps_its_digits() -> None:
    """With γ = 1e-6 a release costs 1e-11; K(z) on the line has to be known to a part in 1e12 of that."""
    from cumulant.pairs.curve import k_at, tilt
    from sampled_pairs import removed_gaussian

    mean, rate, index = 1.0, 1e-6, 17
    theta = tilt(index)
    pair = removed_gaussian(mean, rate)
    k_theta = np.array([k_at(pair, index)])
    (values,), _ = pair.nodes(theta, 4.0).log_moment(theta, 0.25, 17, k_theta)
    with mp.workdps(35):
        r = mpf(rate)
        for j, value in zip((0, 4, 16), values[[0, 4, 16]], strict=True):
            power = mp.mpc(theta, 0.25 * j)

            def integrand(t: Any, power: Any = power) -> Any:
                x = r * mp.expm1(t - mpf(1) / 2)
                return mp.npdf(t) * ((1 + x) * mp.expm1(power * mp.log1p(x)) - power * x)  # E_P[L]'s first order is 0

            exact = mp.quad(integrand, mp.linspace(-14, 22, 19))
            exact = mp.log1p(exact)
            found = mp.mpc(float(value.real), float(value.imag))
            assert abs(found - exact) <= abs(exact) * mpf(10) ** -12


@pytest.mark.parametrize("x", [1e-12, 3e-4, 0.07, 0.11, 2.5, -40.0])
def test_sines_of_multiples_keep_their_digits(x: float) -> None:
    """sin, 1 - cos and sin y - y at y = 0, x, 2x, …, each to a part in 1e13 of its own order."""
    sine, versine, excess = (column[:, 0] for column in sine_versine_of_multiples(np.array([x]), 21))
    with mp.workdps(40):
        for k in range(21):
            y = k * mpf(x)
            error = 21 * mpf(2) ** -52 * abs(y)  # of the multiple itself, where waves are short
            small = min(abs(y), 1)
            assert abs(mpf(float(sine[k])) - mp.sin(y)) <= mpf(10) ** -13 * small + error
            assert abs(mpf(float(versine[k])) - (1 - mp.cos(y))) <= mpf(10) ** -13 * small**2 + error * small
            assert abs(mpf(float(excess[k])) - (mp.sin(y) - y)) <= mpf(10) ** -13 * y * y + error * small


@pytest.mark.parametrize("count", [1, 2, 21, 90])
@pytest.mark.parametrize("eta", [1e-9, 0.01, 0.7])
def test_sums_of_versines_and_sines_keep_their_digits(eta: float, count: int) -> None:
    generator = np.random.default_rng(count)
    losses, masses = generator.normal(size=40), generator.random(40)
    even, odd = add_versines(losses, masses, eta, count)
    with mp.workdps(40):
        for j in {0, 1, count // 2, count - 1} & set(range(count)):
            turns = [(j * mpf(eta) * mpf(float(x)), mpf(float(m))) for x, m in zip(losses, masses, strict=True)]
            order = sum(m * min(abs(y), 1) for y, m in turns)
            order_of_even = sum(m * min(abs(y), 1) ** 2 for y, m in turns)
            wrong = sum(m * min(abs(y), 1) * abs(y) for y, m in turns)  # of the multiples themselves
            error = mpf(10) ** -14 * (order_of_even + wrong)
            assert abs(mpf(float(even[j])) - sum(m * (1 - mp.cos(y)) for y, m in turns)) <= error
            error = mpf(10) ** -14 * (order + wrong)
            assert abs(mpf(float(odd[j])) - sum(m * mp.sin(y) for y, m in turns)) <= error


@pytest.mark.parametrize("count", [50, 700, 5000])
def test_the_fast_transform_is_the_plain_sum(count: int) -> None:
    generator = np.random.default_rng(5)
    positions = generator.normal(size=300) * 4 + 7
    weights = np.exp(-3 * generator.random(300))
    for step in (0.001, 0.3):
        values, errors = characteristic_function(positions, weights, step, count)
        j = np.unique(np.append(generator.integers(0, count, size=40), [0, count - 1]))
        with mp.workdps(30):
            for k in j[::8].tolist():
                exact = mp.fsum(
                    mpf(w) * mp.expj(mpf(step) * k * mpf(x))
                    for x, w in zip(positions.tolist(), weights.tolist(), strict=True)
                )
                found = mp.mpc(complex(values[k]))
                turned = 2.0**-51 * float(weights @ np.abs(positions)) * step * k
                assert abs(found - exact) <= float(errors[k]) * float(np.sum(weights)) + 4 * turned


def test_lattices_are_found_and_gaps_are_not() -> None:
    even, uneven = (finite_pair(losses, (0.2, 0.4, 0.4)) for losses in ((-0.5, 0.0, 0.5), (-0.5, 0.01, 0.5)))
    assert even.lattice is not None
    assert (even.lattice.offset, even.lattice.span, even.lattice.slip) == (-0.5, 0.5, 0.0)
    assert uneven.lattice is None


def finite_pair(losses: tuple[float, ...], masses: tuple[float, ...]) -> FinitePair:
    """Return the pair of a loss and its probabilities; what E[e^-L] lacks of 1 is what Q has beyond them."""
    missing = 1 - math.fsum(mass * math.exp(-loss) for loss, mass in zip(losses, masses, strict=True))
    assert missing >= 0
    return FinitePair(LossTable(losses, masses, 0.0, missing))


@pytest.mark.parametrize("seed", range(20))
def test_a_lattice_of_doubles_says_how_far_its_losses_are(seed: int) -> None:
    """Points that are nearly even, in exact fractions: n of them may lie n times `error` from the lattice."""
    generator = np.random.default_rng(seed)
    span, steps = float(generator.uniform(0.01, 3.0)), int(generator.integers(2, 40))
    points = [float(k * span * (1 + generator.uniform(-1, 1) * 2e-16)) for k in range(-steps // 2, steps // 2 + 1)]
    masses = tuple(float(x) for x in generator.dirichlet(np.ones(len(points))))
    drift = max(0.0, math.log(math.fsum(m * math.exp(-x) for x, m in zip(points, masses, strict=True))))
    pair = finite_pair(tuple(x + drift + 1e-9 for x in points), masses)
    lattice = pair.lattice
    if lattice is not None:
        for k, loss in enumerate(sorted(set(pair.losses.tolist()))):
            place = Fraction(lattice.offset) + k * Fraction(lattice.span)
            assert abs(Fraction(loss) - place) <= Fraction(lattice.slip) <= Fraction(lattice.error)
