"""Where to put the line, and how fine: the plan of one inversion.

The saddle point needs no search: K, K' and K'' are kept at tilts 2^{k/8}, and the tilt whose saddle-point approximation

    log δ ≈ K(θ) - θε - log θ(1+θ) - ½ log 2πF'',   ε = K'(θ) - 1/θ - 1/(1+θ),   F'' = K'' + 1/θ² + 1/(1+θ)²

is nearest to the question is good enough: the answer does not depend on it, only how many nodes it takes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs, Octave
from cumulant.inversion.contour import log_chernoff
from cumulant.numerics.logspace import Array
from cumulant.pairs.grid import PER_OCTAVE

SHARE_OF_EPSILON, AT_ZERO = 5e-7, 5e-10  # of ε, and near 0 ε itself, by which bounds are planned to be apart
TAIL_NATS = 30.0  # below δ, to which alias and tail are pushed: 1e-13
FIRST_OCTAVE, LAST_OCTAVE = -70, 60  # in which tilts are looked for
NEAR_OCTAVES = 4  # up to which a walk takes one after the other
NODES_PER_NAT = 0.15  # how much a nat of height, whose rounding is lost, counts against nodes
DROWNING_NATS = 10.0  # of height, from which rounding shows: e^10·1e-14
NODES_PER_DROWNED_NAT = 1.0  # how much each of those counts more

Excess = Callable[[Array, Array], Array]  # (log δ, ε) of the saddle-point approximation -> above the question or below


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


def tilts_for_delta(losses: ComposedPairs, log_delta: float) -> Tilts | None:
    """Return tilts around the saddle of a δ; None if none is large enough: then only the largest loss matters."""
    return _tilts(
        losses,
        lambda log_d, _: log_d - log_delta,
        lambda front, theta: (front - log_delta) / theta,
        lambda spread: math.sqrt(-2 * log_delta / spread),
    )


def tilts_for_epsilon(losses: ComposedPairs, epsilon: float) -> Tilts | None:
    """Return tilts around the saddle of an ε; None if none is large enough."""
    return _tilts(losses, lambda _, at: epsilon - at, lambda front, theta: epsilon, lambda spread: epsilon / spread)


def _tilts(
    losses: ComposedPairs, excess: Excess, answer: Callable[[float, float], float], normal: Callable[[float], float]
) -> Tilts | None:
    """Return the tilts around where `excess`, which falls with the tilt, is 0; a normal loss has its own there."""
    octaves = _walk(losses, excess, normal)
    if octaves is None:
        return None
    order = sorted(octaves)
    theta, k, mean, spread = (np.concatenate([octaves[octave][i] for octave in order]) for i in range(4))
    log_delta, nearby = approximate(theta, k, mean, spread)
    place = int(np.argmin(np.abs(excess(log_delta, nearby))))
    at = float(theta[place])
    front = float(log_delta[place]) + at * float(nearby[place])  # log δ at ε = 0 on the line through that tilt
    epsilon = answer(front, at)
    curvature = curvature_of(theta, spread)
    return Tilts(order[0] * PER_OCTAVE, theta, k, curvature, epsilon, min(front - at * epsilon, -1e-9))


def _walk(losses: ComposedPairs, excess: Excess, normal: Callable[[float], float]) -> dict[int, Octave] | None:
    """Return cumulants octave by octave, from where `excess` changes sign, with two octaves below and one above.

    The walk begins where a normal loss of this variance would have its tilt, if that is far away. Where tilts are so
    large that their nodes are out of reach it ends before them: any tilt gives bounds.
    """
    octaves: dict[int, Octave] = {}

    def look(octave: int) -> int:
        """Return whether the sign changes above this octave, below it, or in it."""
        octaves[octave] = losses.cumulants(octave)
        values = excess(*approximate(*octaves[octave]))
        return 1 if values[-1] >= 0 else -1 if values[0] < 0 else 0

    octave, direction = 0, look(0)
    in_closed_form = losses.closed is not None or losses.lattice is not None  # every octave is cheap, and welcome
    first = _octave_of(normal(max(float(octaves[0][3][0]), 1e-300))) if direction > 0 and not in_closed_form else 0
    if first > NEAR_OCTAVES:
        with contextlib.suppress(OutOfReach):
            direction, octave = look(first), first
            del octaves[0]  # octaves are neighbours
    while direction:
        octave += direction
        if not FIRST_OCTAVE < octave < LAST_OCTAVE:
            return None
        try:
            here = look(octave)
        except OutOfReach:
            octave -= direction
            break
        if here in (0, -direction):
            break
    for near in (octave - 2, octave - 1, octave + 1):
        if near not in octaves:
            with contextlib.suppress(OutOfReach):
                octaves[near] = losses.cumulants(near)
    return octaves


def walk_down(losses: ComposedPairs, epsilon: float, aim: float) -> Iterator[float]:
    """Yield K - θε, which bounds log δ(ε) from above, octave by octave towards the saddle, as it falls.

    The walk begins where θε alone would reach the aim.
    """
    octave, direction = _octave_of(-aim / epsilon) if epsilon > 0 else 0, 0
    while FIRST_OCTAVE < octave < LAST_OCTAVE:
        theta, k, mean, _ = losses.cumulants(octave)
        yield float(np.min(k - theta * epsilon))
        towards = 1 if mean[-1] < epsilon else -1 if mean[0] > epsilon else 0
        if towards in (0, -direction):
            return
        direction = towards
        octave += direction


def _octave_of(tilt: float) -> int:
    return math.floor(math.log2(min(max(tilt, 1.0), 2.0 ** (LAST_OCTAVE - 1))))


def approximate(theta: Array, k: Array, mean: Array, spread: Array) -> tuple[Array, Array]:
    """Return log δ and ε of the saddle-point approximation at each tilt."""
    epsilon = mean - 1 / theta - 1 / (1 + theta)
    width = 0.5 * np.log(2 * math.pi * curvature_of(theta, spread))
    return k - theta * epsilon - np.log(theta) - np.log1p(theta) - width, epsilon


def curvature_of(theta: Array, spread: Array) -> Array:
    """Return F''(θ)."""
    return np.asarray(spread + theta**-2 + (1 + theta) ** -2)


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
