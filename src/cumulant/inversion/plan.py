"""Where to put the line, and how fine: the plan of one inversion.

The saddle point needs no search: K, K' and K'' are kept at tilts 2^{k/8}, and the tilt whose saddle-point approximation

    log δ ≈ K(θ) - θε - log θ(1+θ) - ½ log 2πF'',   ε = K'(θ) - 1/θ - 1/(1+θ),   F'' = K'' + 1/θ² + 1/(1+θ)²

is nearest to the question is good enough: the answer does not depend on it, only how many nodes it takes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.rows import FIRST_OCTAVE, LAST_OCTAVE, Octave, Rows
from cumulant.numerics.logspace import Array
from cumulant.pairs.curve import PER_OCTAVE

SHARE_OF_EPSILON, AT_ZERO = 5e-7, 5e-10  # of ε, and near 0 ε itself, by which bounds are planned to be apart
TAIL_NATS = 30.0  # below δ, to which alias and tail are pushed: 1e-13
NEAR_OCTAVES = 4  # up to which a walk takes one after the other
NODES_PER_NAT = 0.15  # how much a nat of height, whose rounding is lost, counts against nodes
DROWNING_NATS = 10.0  # of height, from which rounding shows: e^10·1e-14
NODES_PER_DROWNED_NAT = 1.0  # how much each of those counts more


# Tilts ----------------------------------------------------------------------------------------------------------------


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
    is_guess: bool = True  # by the saddle-point approximation, not from a line

    @property
    def steepness(self) -> float:
        """About how much log δ falls for a unit of ε: the middle tilt."""
        return float(self.theta[len(self.theta) // 2])

    @property
    def nats_apart(self) -> float:
        """About how far apart bounds of log δ may be where those of ε are planned to be as near as exact ones are."""
        return self.epsilon_apart * self.steepness

    @property
    def epsilon_apart(self) -> float:
        return max(SHARE_OF_EPSILON * self.epsilon, AT_ZERO)

    def ask(self, epsilon: float, log_delta: float) -> Tilts:
        return replace(self, epsilon=epsilon, log_delta=log_delta, is_guess=False)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Saddles:
    """K and F'' of every row at the tilts of neighbouring octaves, with the log δ and ε whose saddle is at each."""

    index: int  # of the first tilt
    theta: Array
    k: Array
    curvature: Array
    log_delta: Array
    epsilon: Array

    @staticmethod
    def at(octaves: dict[int, Octave]) -> Saddles:
        order = sorted(octaves)
        theta = np.concatenate([octaves[octave][0] for octave in order])
        k, mean, spread = (np.concatenate([octaves[octave][i] for octave in order], axis=1) for i in (1, 2, 3))
        logs, epsilon = approximate(theta, k, mean, spread)
        return Saddles(order[0] * PER_OCTAVE, theta, k, curvature_of(theta, spread), logs, epsilon)

    def epsilon_near(self, log_delta: Array) -> Array:
        """Return about ε at log δ: on the line through the tilt whose approximation is the nearest."""
        theta, here, epsilon = self._nearest(self.log_delta - log_delta[:, None])
        return np.asarray(epsilon + (here - log_delta) / theta)

    def log_delta_near(self, epsilon: Array) -> Array:
        """Return about log δ at ε: on the line through the tilt whose ε is the nearest."""
        theta, here, nearby = self._nearest(self.epsilon - epsilon[:, None])
        return np.asarray(np.minimum(here + theta * (nearby - epsilon), -1e-9))

    def _nearest(self, away: Array) -> tuple[Array, Array, Array]:
        at = np.argmin(np.abs(away), axis=1)[:, None]
        log_delta, epsilon = (np.take_along_axis(one, at, axis=1)[:, 0] for one in (self.log_delta, self.epsilon))
        return self.theta[at[:, 0]], log_delta, epsilon

    def of_row(self, row: int, epsilon: float, log_delta: float) -> Tilts:
        return Tilts(self.index, self.theta, self.k[row], self.curvature[row], epsilon, log_delta)


Excess = Callable[[Saddles], Array]
"""What lies above the question at each tilt: it falls with the tilt, and is 0 at the saddle."""


def saddles_for_delta(rows: Rows, log_delta: Array) -> Saddles:
    """Return tilts around the saddles of one δ for each row."""
    return _walk(rows, lambda at: at.log_delta - log_delta[:, None], lambda spread: np.sqrt(-2 * log_delta / spread))


def saddles_for_epsilon(rows: Rows, epsilon: Array) -> Saddles:
    """Return tilts around the saddles of one ε for each row."""
    return _walk(rows, lambda at: epsilon[:, None] - at.epsilon, lambda spread: epsilon / spread)


def tilts_for_delta(losses: ComposedPairs, log_delta: float) -> Tilts | None:
    """Return tilts around the saddle of a δ; None if none is large enough: then only the largest loss matters."""
    found = saddles_for_delta(losses.row, np.array([log_delta]))
    if _is_endless(found, found.log_delta[0] - log_delta):
        return None
    epsilon = float(found.epsilon_near(np.array([log_delta]))[0])
    return found.of_row(0, epsilon, min(log_delta, -1e-9))


def tilts_for_epsilon(losses: ComposedPairs, epsilon: float) -> Tilts | None:
    """Return tilts around the saddle of an ε; None if none is large enough."""
    found = saddles_for_epsilon(losses.row, np.array([epsilon]))
    if _is_endless(found, epsilon - found.epsilon[0]):
        return None
    return found.of_row(0, epsilon, float(found.log_delta_near(np.array([epsilon]))[0]))


def _is_endless(found: Saddles, excess: Array) -> bool:
    """Return whether the tilts end where no others are looked for, and none of them is the saddle."""
    first, last = found.index // PER_OCTAVE, (found.index + len(found.theta)) // PER_OCTAVE
    return bool((last >= LAST_OCTAVE and excess[-1] >= 0) or (first <= FIRST_OCTAVE + 1 and excess[0] < 0))


def _walk(rows: Rows, excess: Excess, normal: Callable[[Array], Array]) -> Saddles:
    """Return tilts from below the zero of `excess` in every row to above it, two octaves further down and one up.

    The walk begins where normal losses of this variance would have their tilts, if that is far away. Where tilts are so
    large that their nodes are out of reach it ends before them: any tilt gives bounds.
    """
    octaves: dict[int, Octave] = {}
    values: dict[int, Array] = {}

    def look(octave: int) -> Array:
        """Return `excess` at the first and the last tilt of an octave, in every row."""
        if octave not in octaves:
            octaves[octave] = rows.cumulants(octave)
            values[octave] = excess(Saddles.at({octave: octaves[octave]}))[:, [0, -1]]
        return values[octave]

    start, ends = 0, look(0)
    # in closed form every octave is cheap, and welcome
    if np.all(ends[:, 1] >= 0) and rows.closed is None and not all(pair.lattice for pair in rows.pairs):
        with np.errstate(over="ignore"):  # the last octave is the farthest
            first = octave_of(float(np.min(normal(np.maximum(octaves[0][3][:, 0], 1e-300)))))
        if first > NEAR_OCTAVES:
            with contextlib.suppress(OutOfReach):
                start, ends = first, look(first)
                del octaves[0]  # octaves are neighbours
    lowest = highest = start
    with contextlib.suppress(OutOfReach):
        while highest + 1 < LAST_OCTAVE and np.any(look(highest)[:, 1] >= 0):
            look(highest + 1)
            highest += 1
    with contextlib.suppress(OutOfReach):
        while lowest - 1 > FIRST_OCTAVE and np.any(look(lowest)[:, 0] < 0):
            look(lowest - 1)
            lowest -= 1
    while lowest < highest and np.all(look(highest)[:, 0] < 0):  # no saddle is so far up
        highest -= 1
    while lowest < highest and np.all(look(lowest)[:, 1] >= 0):  # nor so far down
        lowest += 1
    for near in (lowest - 1, lowest - 2, highest + 1):
        if near not in octaves and FIRST_OCTAVE < near < LAST_OCTAVE:
            with contextlib.suppress(OutOfReach):
                octaves[near] = rows.cumulants(near)
    # beside an octave that is out of reach others stand alone
    last = max(octave for octave in octaves if octave <= highest or octave - 1 in octaves)
    first = max(octave for octave in octaves if octave <= lowest and octave - 1 not in octaves)
    return Saddles.at({octave: octaves[octave] for octave in octaves if first <= octave <= last})


def octave_of(tilt: float) -> int:
    return math.floor(math.log2(min(max(tilt, 1.0), 2.0 ** (LAST_OCTAVE - 1))))


def approximate(theta: Array, k: Array, mean: Array, spread: Array) -> tuple[Array, Array]:
    """Return log δ and ε of the saddle-point approximation at each tilt."""
    epsilon = mean - 1 / theta - 1 / (1 + theta)
    width = 0.5 * np.log(2 * math.pi * curvature_of(theta, spread))
    return k - theta * epsilon - np.log(theta) - np.log1p(theta) - width, epsilon


def curvature_of(theta: Array, spread: Array) -> Array:
    """Return F''(θ)."""
    return np.asarray(spread + theta**-2 + (1 + theta) ** -2)


# Plans ----------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which line, how fine, and how far Chernoff's bound is above the answer there: `height`, in nats."""

    index: int
    theta: float
    eta: float  # the spacing of nodes along the line
    height: float
    curvature: float
    tilts: Tilts
    accuracy: float = TAIL_NATS  # nats below δ to which the tail is pushed

    @property
    def negligible(self) -> float:
        """What may be left out, relative to e^{K(θ)-θε}."""
        return math.exp(-self.height - self.accuracy)


def spacing(step: int) -> float:
    """Return the spacing η_m of nodes on a line, which questions share."""
    return float(2.0 ** (step / 4))


def round_count(count: float) -> int:
    """Round a count up to 2^k or 3·2^k, so that later questions meet these nodes again."""
    power: int = 2 ** max(math.ceil(math.log2(max(count, 1.0))), 4)
    return power * 3 // 4 if count <= power * 3 // 4 else power


def plan_for(t: Tilts, nats: float = TAIL_NATS, apart: int = 1) -> Plan:
    """Return the line that takes the fewest nodes: about W·√((height + nats)·2/F'')/π of them, alias and tail e^-nats.

    Tilts and steps are taken every so many of the grid, so that questions that are not quite the same share a line.

    Where a rare loss makes F'' grow with the tilt, what it leaves of φ falls like at smaller tilts: their F'' counts.
    """
    excess = t.k - t.theta * t.epsilon - t.log_delta
    chernoff = excess + log_chernoff(t.theta) + nats
    gaps = t.theta - t.theta[:, None]  # row: the line, column: the tilt of the bound
    with np.errstate(divide="ignore", invalid="ignore"):
        windows = chernoff / np.abs(gaps)
        above = np.where(gaps > 0, windows, np.inf).min(axis=1)
        below = np.where(gaps < 0, windows, np.inf).min(axis=1)
        window = np.maximum(np.maximum(above, np.minimum(below, (nats - t.log_delta) / t.theta)), 1 / t.theta)
        slowest = np.minimum.accumulate(t.curvature)
        effort = np.log(window) + 0.5 * np.log((np.maximum(excess, 0.0) + nats) / slowest) + NODES_PER_NAT * excess
        effort += NODES_PER_DROWNED_NAT * np.maximum(excess - DROWNING_NATS, 0.0)
    effort[(t.index + np.arange(len(effort))) % apart != 0] = np.inf
    best = int(np.argmin(effort))
    if not math.isfinite(window[best]):  # without a larger tilt, or a K that is a number, aliases are not bounded
        raise OutOfReach("no tilt that is known bounds what a line would miss")
    step = apart * math.floor(4 * math.log2(2 * math.pi / max(float(window[best]), 1e-250)) / apart)
    height, curvature = max(float(excess[best]), 0.0), float(t.curvature[best])
    return Plan(t.index + best, float(t.theta[best]), spacing(step), height, curvature, t, nats)
