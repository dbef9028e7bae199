"""Where to put the line, how fine and how long: the plan of one inversion, and δ(ε) and ε(δ) from it.

The saddle point needs no search: K, K' and K'' are kept at tilts 2^{k/8}, and the tilt whose saddle-point approximation

    log δ ≈ K(θ) - θε - log θ(1+θ) - ½ log 2πF'',   ε = K'(θ) - 1/θ - 1/(1+θ),   F'' = K'' + 1/θ² + 1/(1+θ)²

is nearest to the question is good enough: the answer does not depend on it, only how many nodes it takes.

Where the characteristic function does not fall within a bounded number of nodes (atoms, few releases), the loss is
smoothed by one more Gaussian release of mean s. With D_s its profile,

    D_s - e^{3s²/8} (D_{2s} - D_s) <= D <= D_s :

a release more never costs less; and for fixed r = e^L the derivative of E(rR_s - t)_+ in s, R_s the ratio of that
Gaussian, is √(rt/2π) exp(-x²/2s² - s²/8), x = log r/t, so that what (s, 2s] adds is at least e^{-3s²/8} times what
(0, s] adds. Away from kinks of the profile both errors are of order s².
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.loss.loss_nodes import line_effort
from cumulant.loss.pair_sum import PER_OCTAVE, SCALES, Family, LossSum, length, tilt, tilts
from cumulant.numerics.contour import Contour, Lattice, log_chernoff
from cumulant.numerics.logspace import Array

ACCURACY = 30.0  # nats below δ to which alias and tail are pushed: 1e-13
ROUGHLY = 14.0  # the same for the tail where the line would be long: 1e-6
CLOSE, CLOSE_ENOUGH = 1e-9, 4e-6  # slack in log δ that is as good as none, and one worth saving a long line
MANY_POINTS = 4096  # of a lattice, beyond which the sum is cut
BUDGET = 3e5  # nodes and frequencies together that one inversion may take
FEWEST, MOST = -70, 60  # octaves in which tilts are looked for
STEADY = 0.15  # how much a nat of height, whose rounding is lost, counts against nodes
DROWNING = 10.0  # nats of height from which rounding shows: e^10·1e-14
STEEP = 1.0  # how much each of those counts more
SPACING, MOST_SAMPLES = 1.15, 90  # frequencies at which the characteristic function itself is looked at
WIDTHS = (2.0, 7.0)  # of χ, in radians: losses that turn faster are left out
NO_TROUBLE = 3e4  # sines and cosines that are not worth saving
WORTHWHILE = 20.0  # what a node costs at one of those frequencies
NODES = 1e-13  # how far the nodes' characteristic function is from the law's: e^-37 by the rule, the rest by rounding
MANY_FAMILIES = 48  # beyond which the largest quarter of the families may do
PLENTY = 10.0  # nats more than needed, at which bounds stop being improved
CHUNKS = 12  # of decay bounds, eight octaves of frequency each

Excess = Callable[[Array, Array], Array]  # (log δ, ε) of the saddle-point approximation -> above the question or below


@final
@dataclass(frozen=True, slots=True, eq=False)
class Inversion:
    """δ(ε) near the question that a plan was made for, as bounds on its logarithm."""

    contour: Contour
    coarser: Contour | None = None  # of the loss smoothed twice as much
    smoothing: float = 0.0
    route: str = "contour"
    enough: float = CLOSE  # slack in log δ with which there is no need of a longer line

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound and its slope, approximately."""
        high, slope = self.contour.log_upper(epsilon)
        return min(high, 0.0), slope

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return bounds of log P(L < ∞)^{-1}(δ(ε) - P(L = ∞)), rounding included."""
        low, high = self.contour.log_bounds(epsilon)
        if self.coarser is not None:
            upper = self.coarser.log_bounds(epsilon)[1]
            gain = math.exp(min(0.375 * self.smoothing, 700.0)) * math.expm1(min(max(upper - low, 0.0), 700.0))
            low = low + math.log1p(-gain) if gain < 1 else -math.inf
        return low, min(high, 0.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tilts:
    """K and its derivatives at neighbouring tilts, and a question with its answer: ε and log δ, approximately."""

    index: int  # of the first tilt
    theta: Array
    k: Array
    curvature: Array
    epsilon: float
    log_delta: float

    @property
    def steepness(self) -> float:
        """About how much log δ falls for a unit of ε: the middle tilt."""
        return float(self.theta[len(self.theta) // 2])

    def asking(self, epsilon: float, log_delta: float) -> Tilts:
        return replace(self, epsilon=epsilon, log_delta=log_delta)


def tilts_for_delta(losses: LossSum, log_delta: float) -> Tilts | None:
    """Return tilts around the saddle of a δ; None if none is large enough: then only the largest loss matters."""
    return _tilts(losses, lambda log_d, _: log_d - log_delta, lambda front, theta: (front - log_delta) / theta)


def tilts_for_epsilon(losses: LossSum, epsilon: float) -> Tilts | None:
    """Return tilts around the saddle of an ε; None if none is large enough."""
    return _tilts(losses, lambda _, at: epsilon - at, lambda front, theta: epsilon)


def _tilts(losses: LossSum, excess: Excess, answer: Callable[[float, float], float]) -> Tilts | None:
    """Return the tilts around where `excess`, which falls with the tilt, is 0."""
    octaves = _walk(losses, excess)
    if octaves is None:
        return None
    order = sorted(octaves)
    theta = np.concatenate([tilts(octave) for octave in order])
    k, mean, spread = (np.concatenate([octaves[octave][i] for octave in order]) for i in range(3))
    log_delta, nearby = _approximation(theta, k, mean, spread)
    place = int(np.argmin(np.abs(excess(log_delta, nearby))))
    at = float(theta[place])
    front = float(log_delta[place]) + at * float(nearby[place])  # log δ at ε = 0 on the line through that tilt
    epsilon = answer(front, at)
    curvature = _curvature(theta, spread)
    return Tilts(order[0] * PER_OCTAVE, theta, k, curvature, epsilon, min(front - at * epsilon, -1e-9))


def _walk(losses: LossSum, excess: Excess) -> dict[int, tuple[Array, Array, Array]] | None:
    """Return cumulants octave by octave, from where `excess` changes sign, with two octaves below and one above.

    Where tilts are so large that their nodes are out of reach the walk ends before them: any tilt gives bounds.
    """
    octaves: dict[int, tuple[Array, Array, Array]] = {}
    octave, direction = 0, 0
    while True:
        try:
            octaves[octave] = losses.cumulants(octave)
        except OutOfReach:
            if not octaves:
                raise
            octave -= direction
            break
        values = excess(*_approximation(tilts(octave), *octaves[octave]))
        here = 1 if values[-1] >= 0 else -1 if values[0] < 0 else 0
        if here in (0, -direction):
            break
        direction = here
        octave += direction
        if not FEWEST < octave < MOST:
            return None
    for near in (octave - 2, octave - 1, octave + 1):
        if near not in octaves:
            with contextlib.suppress(OutOfReach):
                octaves[near] = losses.cumulants(near)
    return octaves


def _approximation(theta: Array, k: Array, mean: Array, spread: Array) -> tuple[Array, Array]:
    """Return log δ and ε of the saddle-point approximation at each tilt."""
    epsilon = mean - 1 / theta - 1 / (1 + theta)
    width = 0.5 * np.log(2 * math.pi * _curvature(theta, spread))
    return k - theta * epsilon - np.log(theta) - np.log1p(theta) - width, epsilon


def _curvature(theta: Array, spread: Array) -> Array:
    """Return F''(θ)."""
    return np.asarray(spread + theta**-2 + (1 + theta) ** -2)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which line, how fine, and how far Chernoff's bound is above the answer there: `height`, in nats."""

    index: int
    step: int
    height: float
    curvature: float
    tilts: Tilts
    accuracy: float = ACCURACY  # nats below δ to which the tail is pushed


def plan_for(t: Tilts) -> Plan:
    """Return the line that takes the fewest nodes: about W·√((height + ACCURACY)·2/F'')/π of them.

    Where a rare loss makes F'' grow with the tilt, what it leaves of φ falls like at smaller tilts: their F'' counts.
    """
    excess = t.k - t.theta * t.epsilon - t.log_delta
    chernoff = excess + log_chernoff(t.theta) + ACCURACY
    gaps = t.theta - t.theta[:, None]  # row: the line, column: the tilt of the bound
    with np.errstate(divide="ignore", invalid="ignore"):
        windows = chernoff / np.abs(gaps)
    above = np.min(np.where(gaps > 0, windows, np.inf), axis=1)
    below = np.min(np.where(gaps < 0, windows, np.inf), axis=1)
    window = np.maximum(np.maximum(above, np.minimum(below, (ACCURACY - t.log_delta) / t.theta)), 1 / t.theta)
    with np.errstate(divide="ignore"):
        slowest = np.minimum.accumulate(t.curvature)
        effort = np.log(window) + 0.5 * np.log((np.maximum(excess, 0.0) + ACCURACY) / slowest) + STEADY * excess
        effort += STEEP * np.maximum(excess - DROWNING, 0.0)
    best = int(np.argmin(effort))
    step = math.floor(4 * math.log2(2 * math.pi / max(float(window[best]), 1e-250)))
    return Plan(t.index + best, step, max(float(excess[best]), 0.0), float(t.curvature[best]), t)


def inversions_at(losses: LossSum, plan: Plan, lattice: Lattice | None = None) -> Iterator[Inversion]:
    """Yield inversions that a plan leads to, cheapest first: cut early or smoothed only where a line would be long."""
    if lattice is not None:
        yield Inversion(_lattice_contour(losses, plan, lattice), route="lattice contour")
        return
    found = False
    for aim, budget in ((plan, BUDGET / 3), (replace(plan, accuracy=ROUGHLY), BUDGET), (plan, BUDGET)):
        cut = _cut(losses, aim, _affordable(losses, aim, budget))
        if cut is not None:
            found = True
            contour = _contour(losses, aim, *_cut_by_samples(losses, aim, *cut))
            yield Inversion(contour, enough=CLOSE if aim is plan else CLOSE_ENOUGH)
            if aim is plan:
                return
    if not found:
        yield _smoothed(losses, plan, _affordable(losses, plan, BUDGET / 16))
        yield _smoothed(losses, plan, _affordable(losses, plan, BUDGET))


def _smoothed(losses: LossSum, plan: Plan, omega: float) -> Inversion:
    """Return the inversion of the loss smoothed so much that the line may end at ω."""
    smoothing = 2 * (plan.height + ACCURACY) / omega**2
    plain = _contour(losses, plan, omega, _need(plan) / omega)
    once, twice = plain.smoothed(smoothing), plain.smoothed(4 * smoothing)
    return Inversion(once, twice, smoothing, "smoothed contour", CLOSE_ENOUGH)


def _cut(losses: LossSum, plan: Plan, farthest: float) -> tuple[float, float] | None:
    """Return (ω, tail): where the line may end, and a bound of Σ |φ|/|z(z+1)|·η/π beyond; None if too far."""
    eta, need = length(plan.step), _need(plan)

    def beyond(end: float, bound: float) -> float:
        return math.exp(-bound) * (1 / end + eta / end**2) / math.pi

    families = losses.families(plan.index)
    few = max(MANY_FAMILIES, len(families) // 4)
    for some in (families[:few], families) if few < len(families) else (families,):
        low, bounds, last = _escapes(
            losses, some, plan, lambda end, bound: beyond(end, bound) < need / 2 or end > farthest
        )
        end = float(low[-1]) * math.sqrt(2.0)
        pieces = np.exp(-bounds) * (1 / low - 1 / np.append(low[1:], end) + eta / low**2) / math.pi
        cut = _earliest(np.append(low, end), np.append(pieces, beyond(end, last)), need, farthest)
        if cut is not None:
            return cut
    return None


def _need(plan: Plan) -> float:
    """Return what may be left out, relative to e^{K(θ)-θε}."""
    return math.exp(-plan.height - plan.accuracy)


def _escapes(
    losses: LossSum, families: Sequence[Family], plan: Plan, enough: Callable[[float, float], bool]
) -> tuple[Array, Array, float]:
    """Return frequencies from where φ falls, bounds of -log|φ| from each to the next, and one for all beyond.

    They go on until `enough` of (the end, its bound).
    """
    first = math.floor(2 * math.log2(math.sqrt((plan.height + plan.accuracy) / plan.curvature)) / SCALES)
    lows, bounds, last = [], [], 0.0
    for chunk in range(first, first + CHUNKS):
        frequencies, some, last = losses.escape(families, plan.index, chunk, plan.height + plan.accuracy + PLENTY)
        lows.append(frequencies[:-1])
        bounds.append(some)
        if enough(float(frequencies[-1]), last):
            break
    return np.concatenate(lows), np.concatenate(bounds), last


def _earliest(places: Array, pieces: Array, need: float, farthest: float = math.inf) -> tuple[float, float] | None:
    """Return the first place from which the pieces add up to at most `need`, and their sum."""
    tails = np.cumsum(pieces[::-1])[::-1]
    fine = np.flatnonzero((tails <= need) & (places <= farthest))
    return (float(places[fine[0]]), float(tails[fine[0]])) if len(fine) else None


def _cut_by_samples(losses: LossSum, plan: Plan, omega: float, tail: float) -> tuple[float, float]:
    """Return an earlier (ω, tail), from values of the characteristic function itself between there and a proven end.

    For weights 0 <= χ(L) <= 1, D = Σ n_i E[χχ'(1 - cos ωΔ_i)] <= -2 log|φ|, Δ the difference of two copies; and √D
    changes by at most √(Σ n_i E[χχ'Δ_i²]/2) per unit of ω, as |D'| <= E[χχ'|Δ sin ωΔ|] <= √E[χχ'Δ²]·√(2D) by Cauchy
    and Schwarz. Every frequency has its own χ, which leaves out losses that turn too fast to be followed.

    All this is taken of the discrete law of the nodes, of which it is exactly true. The law itself has a characteristic
    function within NODES of theirs at every ω up to the end, so each release loses at most e·NODES nats more:
    |φ| <= e^{-D/2} + NODES, and D <= 2.
    """
    eta = length(plan.step)
    start = 1.15 * math.sqrt(2 * (plan.height + plan.accuracy) / plan.curvature)
    count = math.ceil(math.log(max(omega / start, 1.0)) / math.log(SPACING))
    a, b = losses.effort(plan.index)
    nodes = a + b * omega
    effort = line_effort(nodes, _rounded(omega / eta))
    if not 1 < count <= MOST_SAMPLES or effort < NO_TROUBLE + WORTHWHILE * nodes * count:
        return omega, tail
    at = np.append(start * SPACING ** np.arange(count), omega)
    turned = losses.turning(plan.index, at[:-1], WIDTHS, omega)
    worst = np.max([_lipschitz_floor(*one, np.diff(at)) for one in turned], axis=0)
    worst = np.maximum(worst * (1 - NODES) - losses.releases * math.e * NODES, 0.0)
    worst += losses.variance * at[:-1] ** 2 / 2
    pieces = np.exp(-worst) * (1 / at[:-1] - 1 / at[1:] + eta / at[:-1] ** 2) / math.pi
    return _earliest(at, np.append(pieces, tail), 2 * _need(plan)) or (omega, tail)


def _lipschitz_floor(turning: Array, slope: Array, gaps: Array) -> Array:
    """Return lower bounds of D/2 on each interval.

    √D is Lipschitz with constant `slope`, so each end covers its half; the last sample covers all of its own.
    """
    ways = np.append(gaps[:-1] / 2, gaps[-1])
    upwards = np.maximum(np.sqrt(turning) - slope * ways, 0.0)
    downwards = np.maximum(np.sqrt(turning[1:]) - slope[1:] * gaps[:-1] / 2, 0.0)
    return np.asarray(np.minimum(upwards, np.append(downwards, np.inf)) ** 2 / 2)


def _affordable(losses: LossSum, plan: Plan, budget: float) -> float:
    """Return the frequency up to which a line may be evaluated: a + bω nodes and ω/η frequencies, by fast transform."""
    a, b = losses.effort(plan.index)
    budget *= 1 + len(losses.parts) / 4  # a part may take a while
    return max((budget - a) / (b + 1 / length(plan.step)), 64 * length(plan.step))


def _contour(losses: LossSum, plan: Plan, omega: float, tail: float) -> Contour:
    line = losses.line(plan.index, length(plan.step), _rounded(omega / length(plan.step)))
    return Contour.of((tilt(plan.index), length(plan.step)), line, tail, (plan.tilts.theta, plan.tilts.k))


def _lattice_contour(losses: LossSum, plan: Plan, lattice: Lattice) -> Contour:
    """Return the sum over one period, whose points are 2πj/(N·span), N odd, up to where it is proven to have fallen."""
    points = 2 * math.ceil(math.pi / (length(plan.step) * lattice.span)) + 1
    eta = 2 * math.pi / (points * lattice.span)
    count, tail = (points + 1) // 2, 0.0
    if count > MANY_POINTS:
        cut = _lattice_cut(losses, plan, lattice, eta)
        if cut is None or cut[0] / eta > BUDGET:
            raise OutOfReach(f"one period of the lattice of losses takes {points} points")
        count, tail = min(count, math.ceil(cut[0] / eta) + 1), cut[1]
    line = losses.line(plan.index, eta, count)
    return Contour.of((tilt(plan.index), eta), line, tail, (plan.tilts.theta, plan.tilts.k), lattice)


def _lattice_cut(losses: LossSum, plan: Plan, lattice: Lattice, eta: float) -> tuple[float, float] | None:
    """Return (ω, tail) as `_cut` does, for the part of a period beyond ω: |kernel| is largest at ω = 0."""
    theta, period = tilt(plan.index), math.pi / lattice.span
    largest = lattice.span * sum(1 / -math.expm1(-x * lattice.span) for x in (theta, theta + 1))
    families = losses.families(plan.index)
    low, bounds, _ = _escapes(losses, families, plan, lambda end, _: end >= period)
    if low[-1] * math.sqrt(2.0) < period:
        raise OutOfReach("the period of the lattice of losses is longer than its decay was followed")
    low, bounds = low[low < period], bounds[low < period]
    high = np.append(low[1:], low[-1] * math.sqrt(2.0))
    return _earliest(low, np.exp(-bounds) * (high - low + eta) * largest / math.pi, _need(plan))


def _rounded(count: float) -> int:
    """Return at least this count, 2^k or 3·2^k, so that later questions meet the same nodes."""
    power: int = 2 ** max(math.ceil(math.log2(max(count, 1.0))), 4)
    return power * 3 // 4 if count <= power * 3 // 4 else power
