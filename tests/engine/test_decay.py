"""Bounds of characteristic functions, against fine quadratures of the same laws written out here."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from cumulant.inversion.ball_end import _where_rest_is_little
from cumulant.numerics.balls import ball_of_fraction
from cumulant.numerics.decay import Cells, _lost_by_sums, _versine_below, escape, escape_of_run, escapes
from cumulant.numerics.rounding import exact_sum
from cumulant.pairs.atoms import LossTable
from cumulant.pairs.certified import proven_cells
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import tilt
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.pair import DominatingPair
from sampled_pairs import (
    added_gaussian,
    added_laplace,
    envelope_gaussian,
    envelope_laplace,
    removed_gaussian,
    removed_laplace,
    replaced_gaussian,
)

Array = NDArray[np.float64]
Law = tuple[Array, Array]  # losses with the logarithms of their masses under P
TILTS = (0.3, 30.0)


def log_w(t: Array, mean: float, rate: float, size: int = 1) -> Array:
    """Return log Σ Bin(k,γ)(j) e^{jμt - j²μ²/2}."""
    terms = [
        math.log(math.comb(size, j) * rate**j * (1 - rate) ** (size - j)) + j * mean * t - (j * mean) ** 2 / 2
        for j in range(size + 1)
    ]
    return np.asarray(np.logaddexp.reduce(terms, axis=0))


def normal_law(low: float, high: float, law: Callable[[Array], tuple[Array, Array]]) -> Law:
    """Return P on a fine grid of t from its loss and the logarithm of dP/dN(0, 1)."""
    edges = np.linspace(low, high, 20_001)
    t = (edges[1:] + edges[:-1]) / 2
    loss, log_p = law(t)
    return loss, log_p - t * t / 2 + math.log((edges[1] - edges[0]) / math.sqrt(2 * math.pi))


def removed(mean: float, rate: float, size: int = 1) -> Law:
    return normal_law(-14, 60 * size * mean + 14, lambda t: (log_w(t, mean, rate, size), log_w(t, mean, rate, size)))


def added(mean: float, rate: float) -> Law:
    return normal_law(-50 * mean - 14, 14, lambda t: (-log_w(t, mean, rate), np.zeros(len(t))))


def replaced(mean: float, rate: float) -> Law:
    return normal_law(
        -14, 90 * mean + 14, lambda t: (log_w(t, mean, rate) - log_w(-t, mean, rate), log_w(t, mean, rate))
    )


def halves(mean: float, rate: float) -> Law:
    """The envelope: joining below 0, leaving above, the rest at 0."""
    up = normal_law(mean / 2, 60 * mean + 14, lambda t: (log_w(t, mean, rate), log_w(t, mean, rate)))
    down = normal_law(mean / 2, 14 + mean, lambda t: (-log_w(t, mean, rate), np.zeros(len(t))))
    return with_rest(up, down)


def with_rest(*laws: Law) -> Law:
    losses, logs = (np.concatenate(columns) for columns in zip(*laws, strict=True))
    return np.append(losses, 0.0), np.append(logs, math.log1p(-float(np.sum(np.exp(logs)))))


def laplace(theta: float, rate: float, *, side: int, start: float) -> Law:
    """Return one order of the pair for t >= start: between the atoms the density is e^{-(t+θ)/2}/4 under Q."""
    edges = np.linspace(start, theta, 20_001)
    t = (edges[1:] + edges[:-1]) / 2
    q = np.exp(-(t + theta) / 2) / 4 * (edges[1] - edges[0])
    t, q = np.append(t, theta), np.append(q, math.exp(-theta) / 2)
    if start < 0:
        t, q = np.append(t, -theta), np.append(q, 0.5)
    w = 1 - rate + rate * np.exp(t)
    return (np.log(w), np.log(q * w)) if side > 0 else (-np.log(w), np.log(q))


def laplace_envelope(theta: float, rate: float) -> Law:
    return with_rest(laplace(theta, rate, side=1, start=0.0), laplace(theta, rate, side=-1, start=0.0))


ATOM_LOSSES, ATOM_MASSES = (-0.11, 0.03, 0.075, 0.1), (0.2, 0.5, 0.25, 0.05)
ATOM_MISSING = 1 - math.fsum(m * math.exp(-x) for x, m in zip(ATOM_LOSSES, ATOM_MASSES, strict=True))
ATOMS = (np.array(ATOM_LOSSES), np.log(ATOM_MASSES))

CASES: list[Any] = [
    pytest.param(removed_gaussian(0.7, 0.05), removed(0.7, 0.05), id="leaves"),
    pytest.param(removed_gaussian(2.5, 0.3), removed(2.5, 0.3), id="leaves, little noise"),
    pytest.param(added_gaussian(0.7, 0.05), added(0.7, 0.05), id="joins"),
    pytest.param(added_gaussian(2.5, 0.6), added(2.5, 0.6), id="joins, little noise"),
    pytest.param(removed_gaussian(0.4, 0.2, 3), removed(0.4, 0.2, 3), id="a group leaves"),
    pytest.param(replaced_gaussian(0.8, 0.1), replaced(0.8, 0.1), id="replaced"),
    pytest.param(envelope_gaussian(0.9, 0.2), halves(0.9, 0.2), id="envelope"),
    pytest.param(removed_laplace(1.5, 0.2), laplace(1.5, 0.2, side=1, start=-1.5), id="Laplace leaves"),
    pytest.param(added_laplace(1.5, 0.2), laplace(1.5, 0.2, side=-1, start=-1.5), id="Laplace joins"),
    pytest.param(envelope_laplace(1.5, 0.2), laplace_envelope(1.5, 0.2), id="Laplace envelope"),
    pytest.param(FinitePair(LossTable(ATOM_LOSSES, ATOM_MASSES, 0.0, ATOM_MISSING)), ATOMS, id="atoms"),
]


def tilted(law: Law, theta: float) -> tuple[Array, Array, float]:
    """Return losses, masses of the tilted law, and K(θ)."""
    losses, logs = law
    exponents = logs + theta * losses
    peak = float(np.max(exponents))
    weights = np.exp(exponents - peak)
    return losses, weights / np.sum(weights), peak + math.log(float(np.sum(weights)))


@pytest.mark.parametrize("theta", TILTS)
@pytest.mark.parametrize(("pair", "law"), CASES)
def test_the_characteristic_function_stays_below_its_bound(pair: DominatingPair, law: Law, theta: float) -> None:
    """At random frequencies of each interval, and beyond the last: |φ| <= e^{-bound}."""
    losses, masses, k = tilted(law, theta)
    spread = math.sqrt(float(masses @ (losses - masses @ losses) ** 2))
    marks = np.asarray(2.0 ** (np.arange(-3.0, 9.0) / 2) / spread)
    bounds = escape(pair.cells(theta, k), marks)
    generator = np.random.default_rng(7)
    between = np.append(marks[1:], 4 * marks[-1])
    for low, high, bound in zip(marks, between, bounds, strict=True):
        for omega in (low, *generator.uniform(low, high, size=1)):
            value = abs(complex(np.exp(1j * omega * losses) @ masses))
            assert value <= math.exp(-bound) + 1e-6  # what the fine grid itself is off by


@pytest.mark.parametrize("seed", range(30))
def test_bounds_hold_for_random_laws_with_atoms(seed: int) -> None:
    """Atoms hide the widths of the cells they fall among: the plain cells, and those with proven numbers."""
    generator = np.random.default_rng(seed)
    theta, rate = float(np.exp(generator.uniform(-3.0, 1.5))), float(generator.uniform(0.02, 0.98))
    make, law = [
        (envelope_laplace, laplace_envelope(theta, rate)),
        (removed_laplace, laplace(theta, rate, side=1, start=-theta)),
        (added_laplace, laplace(theta, rate, side=-1, start=-theta)),
    ][seed % 3]
    index = int(generator.integers(-16, 40))
    losses, masses, k = tilted(law, tilt(index))
    marks = np.asarray(2.0 ** (np.arange(-6.0, 14.0) / 2) / float(np.max(np.abs(losses))))
    pair = make(theta, rate)
    bounds = [escape(pair.cells(tilt(index), k), marks)]
    by_pairs, gain = escapes(proven_cells(pair, index, k + 1e-7, 128), marks)
    bounds.append(np.maximum(by_pairs, -np.log1p(-gain)))
    for low, high, *some in zip(marks, np.append(marks[1:], 4 * marks[-1]), *bounds, strict=True):
        for omega in (low, *generator.uniform(low, high, size=2)):
            value = abs(complex(np.exp(1j * omega * losses) @ masses))
            assert value <= math.exp(-max(some)) + 1e-6  # what the fine grid itself is off by


@pytest.mark.parametrize("theta", TILTS)
@pytest.mark.parametrize(("pair", "law"), CASES)
def test_cells_never_hold_more_than_the_law_does(pair: DominatingPair, law: Law, theta: float) -> None:
    losses, masses, k = tilted(law, theta)
    cells = pair.cells(theta, k)
    order = np.argsort(losses)
    below = np.append(0.0, np.cumsum(masses[order]))
    position = losses[order]
    margin = 1e-9 + 1e-4 * (cells.high - cells.low)  # a point of the fine grid may fall on the other side of an end
    held = below[np.searchsorted(position, cells.high + margin)] - below[np.searchsorted(position, cells.low - margin)]
    assert np.all(cells.mass <= held + 3 * float(np.max(masses[: len(masses) - 3])) + 1e-9)
    assert float(np.sum(cells.mass)) <= 1 + 1e-6


@pytest.mark.parametrize("theta", TILTS)
@pytest.mark.parametrize("case", ["leaves", "joins", "replaced", "group"])
def test_variation_is_at_least_that_of_the_density(case: str, theta: float) -> None:
    """Sum |f(L_{i+1}) - f(L_i)| on a finer grid inside every cell: what a bound of the variation must exceed."""
    mean, rate = 0.9, 0.15
    logs: dict[str, tuple[CoordinatePair, Callable[[Array], Array], Callable[[Array], Array]]] = {
        "leaves": (removed_gaussian(mean, rate), lambda t: log_w(t, mean, rate), lambda t: log_w(t, mean, rate)),
        "joins": (added_gaussian(mean, rate), lambda t: -log_w(t, mean, rate), lambda t: 0 * t),
        "replaced": (
            replaced_gaussian(mean, rate),
            lambda t: log_w(t, mean, rate) - log_w(-t, mean, rate),
            lambda t: log_w(t, mean, rate),
        ),
        "group": (
            removed_gaussian(mean, rate, 2),
            lambda t: log_w(t, mean, rate, 2),
            lambda t: log_w(t, mean, rate, 2),
        ),
    }
    pair, loss, log_p = logs[case]
    low, high = pair.branches[0].span(theta)
    scan = np.linspace(low, high, 1000)
    k = float(np.max(log_p(scan) + theta * loss(scan) - scan**2 / 2))  # any number will do
    cells = pair.cells(theta, k)
    t = np.linspace(low, high, 64 * len(cells.low) + 1)
    h = 1e-5
    slope = np.abs(loss(t + h) - loss(t - h)) / (2 * h)
    with np.errstate(over="ignore", divide="ignore"):
        density = np.exp(log_p(t) + theta * loss(t) - t * t / 2 - k) / math.sqrt(2 * math.pi) / slope
    steps = np.abs(np.diff(density)).reshape(len(cells.low), 64).sum(axis=1)
    if case == "joins":
        steps = steps[::-1]
    usable = np.isfinite(steps) & (cells.high - cells.low > 1e-3)  # where the slope above is not lost in rounding
    assert np.any(usable)
    assert np.all(steps[usable] <= cells.variation[usable] * (1 + 1e-4) + 1e-12)


def test_runs_of_cells_may_lie_apart() -> None:
    """Two uniform pieces with a gap: their ends must not cancel as if they touched."""
    gap = 2.0
    edges = [(0.0, 0.5), (0.5, 1.0), (1.0 + gap, 1.5 + gap), (1.5 + gap, 2.0 + gap)]
    low, high = (np.array(column) for column in zip(*edges, strict=True))
    flat = np.full(4, 0.5)
    cells = Cells(low, high, np.full(4, 0.25), flat, flat, np.zeros(4))
    marks = np.linspace(3.0, 40.0, 400)
    bounds = escape(cells, marks)

    def size(omega: float) -> float:
        pieces = [(np.exp(1j * omega * b) - np.exp(1j * omega * a)) / (1j * omega) * 0.5 for a, b in edges]
        return abs(complex(sum(pieces)))

    for k, omega in enumerate(marks):
        assert size(float(omega)) <= math.exp(-bounds[k]) + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_sets_of_cells_lose_no_more_than_their_runs(seed: int) -> None:
    """|φ| <= 1 - P + V/ω of sets of cells below a level, run by run, many of them equally high, some apart."""
    generator = np.random.default_rng(seed)
    count, heights = 30, generator.integers(1, 5, size=(3, 30)) / 8
    edges = np.cumsum(generator.random((count, 2)) * [[0.3, 1.0]], axis=0)
    low, high = edges[:, 0], edges[:, 1]
    low[1:] = np.where(generator.random(count - 1) < 0.7, high[:-1], low[1:])
    heights[2, generator.integers(count)] = np.inf  # an atom
    mass = generator.random(count) / count
    cells = Cells(low, high, mass, *heights)
    marks = np.array([0.5, 3.0, 20.0, 200.0])
    first, last, inside = heights
    highest = np.maximum(first, last) + inside
    best = np.zeros(len(marks))
    for level in set(highest[np.isfinite(highest)]):
        chosen = np.flatnonzero(highest <= level)
        variation = 0.0
        for i in chosen:  # a jump from 0 at the beginning of a run, and between neighbours at most the difference
            touches = i - 1 in chosen and low[i] <= high[i - 1]
            variation += inside[i] + (abs(first[i] - last[i - 1]) if touches else first[i])
            variation += 0.0 if i + 1 in chosen and low[i + 1] <= high[i] else last[i]
        best = np.maximum(best, np.sum(mass[chosen]) - variation / marks)
    _, gain = escapes(cells, marks)
    assert np.all(gain <= best)
    assert np.all(gain >= best - 1e-8)


FAMILY = [(0.724, 0.0445), (0.73, 0.049), (0.737, 0.052)]  # means and rates within what is taken together


@pytest.mark.parametrize("theta", [1.0, 16.0])
@pytest.mark.parametrize(
    ("pair", "law"),
    [(removed_gaussian, removed), (added_gaussian, added), (replaced_gaussian, replaced)],
)
def test_what_a_family_says_holds_for_every_member(
    pair: Callable[[float, float], CoordinatePair], law: Callable[[float, float], Law], theta: float
) -> None:
    members = [pair(mean, rate) for mean, rate in FAMILY]
    assert len({member.batch_key(1 / 32) for member in members}) == 1
    laws = [tilted(law(mean, rate), theta) for mean, rate in FAMILY]
    cells = members[0].stack(members).cells(theta, np.array([[k] for _, _, k in laws]))
    spread = math.sqrt(float(laws[0][1] @ (laws[0][0] - laws[0][1] @ laws[0][0]) ** 2))
    marks = np.asarray(2.0 ** (np.arange(-3.0, 9.0) / 2) / spread)
    bounds = escape(cells, marks)
    assert np.any(bounds > 0.05)  # it says something
    for losses, masses, k in laws:
        alone = escape(members[0].cells(theta, k), marks) if losses is laws[0][0] else None
        assert alone is None or np.all(bounds <= alone * 1.05 + 1e-9)
        for low, high, bound in zip(marks, np.append(marks[1:], 4 * marks[-1]), bounds, strict=True):
            for omega in (low, (low + high) / 2):
                assert abs(complex(np.exp(1j * omega * losses) @ masses)) <= math.exp(-bound) + 1e-6


def gamma_density(x: Array, shape: int) -> Array:
    return np.asarray(x ** (shape - 1) * np.exp(-x) / math.factorial(shape - 1))


@pytest.mark.parametrize("count", [7, 40, 300])
@pytest.mark.parametrize("shape", [1, 2, 5, 30])
def test_runs_of_cells_of_one_density(shape: int, count: int) -> None:
    """|φ| of a gamma law is (1 + ω²)^{-k/2}: no bound is above its logarithm, and some are near it."""
    peak = float(shape - 1)
    ends = np.unique(np.append(np.linspace(0.0, peak + 12 * math.sqrt(shape), count), peak))
    heights = gamma_density(ends, shape)
    variation = np.abs(np.diff(heights))  # the density rises up to its peak, which is an end, and falls from there on
    mass = np.diff(ends) * np.minimum(heights[1:], heights[:-1])
    cells = Cells(ends[:-1], ends[1:], mass, heights[:-1], heights[1:], variation)
    marks = np.asarray(2.0 ** (np.arange(-8.0, 16.0) / 2) / math.sqrt(shape))
    bounds = escape_of_run(cells, marks)
    true = 0.5 * shape * np.log1p(marks * marks)
    assert np.all(bounds <= true)
    assert np.all(bounds >= 0)
    if count == 300:
        assert np.max(bounds / true) > 0.5
        assert bounds[-1] > 1.0  # whatever the frequency beyond


# Rounding that is counted in proofs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 1000, 50_000])
@pytest.mark.parametrize("order", ["any", "falling", "rising"])
def test_sums_of_positive_doubles_lose_no_more_than_is_counted(count: int, order: str) -> None:
    """Against exact sums of fractions, one after the other and as NumPy adds them up."""
    values = np.random.default_rng(count).lognormal(sigma=8.0, size=count)
    values = {"any": values, "rising": np.sort(values), "falling": np.sort(values)[::-1]}[order]
    exact = exact_sum(values)
    for total in (values.sum(), values.cumsum()[-1], np.ones(count) @ values):
        assert abs(Fraction(float(total)) - exact) <= Fraction(_lost_by_sums(count)) * exact


def test_the_polynomial_is_below_the_versine_with_its_rounding() -> None:
    x = np.concatenate([np.linspace(0.0, math.pi, 2000), 10.0 ** np.linspace(-12, 0, 200)])
    below = _versine_below(x)
    with mp.workdps(40):
        assert all(mpf(float(v)) <= 1 - mp.cos(mpf(float(t))) for t, v in zip(x, below, strict=True))


def test_what_lies_beyond_is_added_up_to_no_less_than_it_is() -> None:
    """The pieces of a tail in doubles, times what is counted for rounding, against fractions."""
    pieces = np.exp(-np.linspace(0.0, 600.0, 768)) * np.random.default_rng(1).uniform(size=768)
    found = _where_rest_is_little(np.arange(1.0, 769.0), pieces, 1e-280, 1.0, 40.0)
    assert found is not None
    count, rest = found
    assert rest >= ball_of_fraction(exact_sum(pieces[count - 2 :]) + Fraction(1e-280))
