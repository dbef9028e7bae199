"""Lines in balls whose ends nothing proves: bands, against sums over all outcomes and against their definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

pytest.importorskip("flint")

import cumulant as cm
from cumulant.inversion.ball_kernels import BallLattice, BandKernel
from cumulant.inversion.ball_line import _moments, _Points, band_line
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import WorkBudget
from cumulant.inversion.plan import tilts_for_epsilon
from cumulant.numerics.balls import as_ball, complex_ball, pi_ball, precision
from cumulant.pairs.atoms import Table
from cumulant.pairs.certified import ball_nodes
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import PER_OCTAVE
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.maps import Leave
from cumulant.pairs.noise import LaplaceNoise
from strategies import SLOW

FEWER = 1 if SLOW else 4  # of the places that are asked about
Masses = Sequence[tuple[float, float]]  # (P, Q) of each output

KINDS: list[tuple[Masses, int]] = [
    (((0.75, 0.25), (0.25, 0.75)), 4),
    (((0.5, 0.125), (0.25, 0.5), (0.25, 0.375)), 3),
    (((0.625, 0.25), (0.375, 0.75)), 5),
]


def all_sums(kinds: list[tuple[Masses, int]]) -> dict[Any, tuple[Any, Any]]:
    """Return losses with what P and Q have there, outcome by outcome."""
    law: dict[tuple[int, ...], tuple[Any, Any]] = {(): (mpf(1), mpf(1))}
    for outputs, count in kinds:
        grown = {}
        for times in itertools.product(range(count + 1), repeat=len(outputs)):
            if sum(times) != count:
                continue
            ways = mpf(math.factorial(count)) / math.prod(math.factorial(k) for k in times)
            p, q = (mp.fprod(mpf(o[i]) ** k for o, k in zip(outputs, times, strict=True)) for i in (0, 1))
            for key, (a, b) in law.items():
                grown[key + times] = a * p * ways, b * q * ways
        law = grown
    return {mp.log(p / q): (p, q) for p, q in law.values()}


def losses_of(kinds: list[tuple[Masses, int]]) -> ComposedPairs:
    return ComposedPairs.of([(FinitePair(Table(tuple(p for p, _ in o), tuple(q for _, q in o))), n) for o, n in kinds])


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [KINDS[:2], KINDS[1:], KINDS], ids=["two", "others", "three"])
def test_a_band_encloses_the_sum_over_all_outcomes(kinds: list[tuple[Masses, int]]) -> None:
    """Between atoms, next to them and on them, where the profile has its kinks."""
    with mp.workdps(40):
        law = all_sums(kinds)
        places = sorted(float(x) for x in law if x > 0.3)
        asked = [0.4, 1.7, 3.1, *places[:: 7 * FEWER], *(math.nextafter(x, 9.0) for x in places[:: 11 * FEWER])]
        for epsilon in asked:
            exact = mp.fsum(max(p - mp.exp(mpf(epsilon)) * q, 0) for p, q in law.values())
            tilts = tilts_for_epsilon(losses_of(kinds), epsilon)
            if tilts is None or exact == 0:
                continue
            low, high = band_line(losses_of(kinds), tilts, WorkBudget()).log_bounds(epsilon)
            assert low <= mp.log(exact) <= high
            assert high - low < 1e-3 or exact < 1e-6  # next to the largest loss bounds are as far apart as ε is from it


@pytest.mark.parametrize(("theta", "h"), [(0.3, 0.5), (4.0, 0.3), (60.0, 0.01), (7.0, 2.0)])
def test_the_functions_of_a_band_lie_on_their_sides(theta: float, h: float) -> None:
    """T(x) from its transform over the band, by quadrature, beside the tilted payoff that it is to bound."""
    with precision(200):
        kernel = BandKernel.of(as_ball(theta), as_ball(h))
        end = 2 * pi_ball() / as_ball(h)

        def transform(share: Any, column: int) -> Any:
            z = complex_ball(as_ball(theta), end * as_ball(float(share)))
            (value,) = kernel.transforms([z])[column]
            return mpc(*(mpf(part.mid().str(50, radius=False)) for part in (value.real, value.imag)))

        with mp.workdps(40):
            nodes = [(mpf(float((k + 0.5) / 512))) for k in range(512)]
            frequencies = [2 * mp.pi / mpf(h) * x for x in nodes]
            step = 2 * mp.pi / mpf(h) / 512
            columns = [[transform(x, column) for x in nodes] for column in (0, 1)]
            for x in (-3.3, -0.4, 0.0, 0.3, 0.5, 1.0, 2.7, 6.2):
                at = mpf(x) * mpf(h)
                above, below = (
                    mp.fsum((value * mp.expj(w * at)).real for value, w in zip(column, frequencies, strict=True))
                    * step
                    / mp.pi
                    for column in columns
                )
                payoff = mp.exp(-theta * at) * (1 - mp.exp(-at)) if at > 0 else mpf(0)
                # the midpoint rule sees Σ (-1)^k T(x + 512kh): what other periods add is of order h/512² as θh > 0.1
                room = 4 * mpf(h) / 512**2
                assert below - room <= payoff <= above + room


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        cm.Laplace(scale=20.0) * 31,
        cm.Laplace(scale=8.7).poisson(rate=0.0015) * 4,
        cm.RandomizedResponse(p=0.75) * 300 + cm.RandomizedResponse(p=0.7) * 200,
    ],
    ids=["Laplace", "sampled Laplace", "two kinds"],
)
def test_runs_whose_lines_do_not_end_are_certified(run: cm.Composed) -> None:
    interval = run.epsilon_interval(delta=1e-5)
    assert interval.certified
    assert interval.width <= 1e-6 * interval.upper
    assert interval.lower <= run.epsilon(delta=1e-5)


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
@pytest.mark.parametrize("theta", [2.0**-3, 4.0])
def test_closed_moments_of_laplace_noise_enclose_the_integral(scale: float, theta: float) -> None:
    """From the definition: atoms at ±1/b, and the density e^{-(t+θ)/2}/4 of Q with P/Q = e^t in between."""
    pair = CoordinatePair(LaplaceNoise(1 / scale, scale), Leave(1.0))
    index, step = round(PER_OCTAVE * math.log2(theta)), 3.5
    with precision(180):
        k, found = _moments(pair, index, _Points(as_ball(step), 4), 180)
        with mp.workdps(45):
            end = 1 / mpf(scale)
            for j, ball in enumerate(found):
                z = mpc(theta, step * j)
                inside = mp.quad(lambda t, z=z: mp.exp(-(t + end) / 2) / 4 * mp.exp((z + 1) * t), [-end, 0, end])
                exact = inside + mp.exp(z * end) / 2 + mp.exp(-end) / 2 * mp.exp(-z * end)
                for part, number in zip((ball.real, ball.imag), (exact.real, exact.imag), strict=True):
                    middle = mpf(str(part.mid().str(48, radius=False))) * mp.exp(mpf(k))
                    assert abs(middle - number) <= abs(exact) * mpf(10) ** -30


@pytest.mark.parametrize("seed", range(20))
def test_the_next_point_of_a_lattice_is_among_those_taken(seed: int) -> None:
    """However far ε is from the offset; where balls do not tell, what is taken is no number."""
    rng = np.random.default_rng(seed)
    offset, span = float(rng.normal() * 10.0 ** rng.integers(-3, 3)), float(10.0 ** rng.uniform(-6, 1))
    epsilon = offset + span * float(rng.integers(0, 10)) * 10.0 ** float(rng.integers(0, 22))
    with precision(160):
        lattice = BallLattice(as_ball(offset), as_ball(span), as_ball(0.0))
        gaps = lattice.gaps(as_ball(epsilon))
    away = (Fraction(epsilon) - Fraction(offset)) % Fraction(span)
    exact = mpf((Fraction(span) - away).numerator) / (Fraction(span) - away).denominator
    assert not gaps[0].is_finite() or any(float(gap.mid()) == pytest.approx(float(exact), rel=1e-9) for gap in gaps)
    assert gaps[0].is_finite() or abs(epsilon - offset) > 2.0**50 * span


def test_losses_of_a_lattice_are_moved_to_the_points_that_its_error_was_measured_at() -> None:
    losses = losses_of([KINDS[0]])
    pair = losses.parts[0][0]
    with precision(200):
        lattice, nodes = BallLattice.of(losses, 200), ball_nodes(pair, 0.0, 0.0, 0.0, bits=200)
        apart = [abs(x - y) for x, y in zip(nodes.losses, lattice.snap(nodes).losses, strict=True)]
        assert not any(4 * gap > lattice.error for gap in apart)


def delta_of_two(first: float, second: float, table: Masses, count: int, epsilon: float) -> Any:
    """Return δ of two releases of Laplace noise beside outputs of a table: E[δ_1(ε - L_2 - L)], δ_1 that of one.

    One has δ_1(x) = 1 - e^{(x-θ)/2} between -θ and θ, 1 - e^x below and 0 above; the other the atoms and the density of
    its definition.
    """
    one, other = 1 / mpf(first), 1 / mpf(second)

    def alone(x: Any) -> Any:
        return max(1 - mp.exp((x - one) / 2), 0) if x >= -one else 1 - mp.exp(x)

    total = mpf(0)
    for k in range(count + 1):
        (p, q), (r, s) = table
        ways = mp.binomial(count, k) * mpf(p) ** k * mpf(r) ** (count - k)
        x = epsilon - k * mp.log(mpf(p) / mpf(q)) - (count - k) * mp.log(mpf(r) / mpf(s))
        ends = sorted({-other, other, *(kink for kink in (x - one, x + one) if -other < kink < other)})
        inside = mp.quad(lambda t, x=x: mp.exp((t - other) / 2) / 4 * alone(x - t), ends)
        total += ways * (inside + alone(x - other) / 2 + mp.exp(-other) / 2 * alone(x + other))
    return total


@pytest.mark.parametrize("seed", range(12))
def test_few_releases_of_laplace_noise_are_sums_in_balls(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (float(10.0 ** rng.uniform(-0.5, 0.7)) for _ in range(2))
    second, count = (first, 0) if seed % 4 == 0 else (second, seed % 3)
    run = cm.Composed.of([(cm.Laplace(scale=first), 1), (cm.Laplace(scale=second), 1)])
    run = run + cm.RandomizedResponse(p=0.75) * count if count else run
    epsilon = float((1 / first + 1 / second + count * math.log(3)) * rng.uniform(0.05, 0.95))
    interval = run.delta_interval(epsilon=epsilon)
    with mp.workdps(30):
        exact = delta_of_two(first, second, KINDS[0][0], count, epsilon)
        assert interval.lower <= exact * (1 + mpf(10) ** -20)
        assert interval.upper >= exact * (1 - mpf(10) ** -20)
    assert interval.certified
    assert interval.width <= 1e-14 * interval.upper


def test_a_composition_of_laplace_noise_is_as_certain_in_balls_as_doubles_say() -> None:
    for run, delta in (
        (cm.Laplace(scale=20.0) * 31, 1e-5),
        (cm.Laplace(scale=1.0) * 3 + cm.Laplace(scale=2.0) * 4, 1e-9),
    ):
        interval, guarantee = run.epsilon_interval(delta=delta), run.guarantee(delta=delta)
        assert guarantee.exact
        assert interval.certified
        assert interval.width <= 1e-12 * interval.upper
        assert interval.lower <= guarantee.epsilon <= interval.upper * (1 + 1e-9)
