"""Where the line may end: proven bounds of what the characteristic function leaves beyond."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import Cluster, ComposedPairs
from cumulant.inversion.contour import Lattice
from cumulant.inversion.plan import Plan
from cumulant.numerics.logspace import Array
from cumulant.pairs.discrete import line_effort
from cumulant.pairs.grid import SCALES

SAMPLE_RATIO, MOST_SAMPLES = 1.15, 90  # frequencies at which the characteristic function itself is looked at
SAMPLE_RADIANS = (2.0, 7.0)  # width of χ: losses that turn faster are left out
FEW_SINES = 3e4  # sines and cosines that are not worth saving
SINES_PER_NODE = 20.0  # what a node costs at one of those frequencies
NODE_ERROR = 1e-13  # how far the nodes' characteristic function is from the law's: e^-37 by the rule, the rest rounding
MANY_CLUSTERS = 48  # beyond which the largest quarter of the clusters may do
SPARE_NATS = 10.0  # more than needed, at which bounds stop being improved
CHUNKS = 12  # of decay bounds, eight octaves of frequency each


def cut_by_decay(losses: ComposedPairs, plan: Plan, farthest: float) -> tuple[float, float] | None:
    """Return (ω, tail): where the line may end, and a bound of Σ |φ|/|z(z+1)|·η/π beyond; None if too far."""
    eta, need = plan.eta, plan.negligible

    def beyond(end: float, bound: float) -> float:
        return math.exp(-bound) * (1 / end + eta / end**2) / math.pi

    clusters = losses.clusters(plan.index)
    few = max(MANY_CLUSTERS, len(clusters) // 4)
    for some in (clusters[:few], clusters) if few < len(clusters) else (clusters,):
        low, bounds, last = _escapes(
            losses, some, plan, lambda end, bound: beyond(end, bound) < need / 2 or end > farthest
        )
        end = float(low[-1]) * math.sqrt(2.0)
        pieces = np.exp(-bounds) * (1 / low - 1 / np.append(low[1:], end) + eta / low**2) / math.pi
        cut = _find_cut(np.append(low, end), np.append(pieces, beyond(end, last)), need, farthest)
        if cut is not None:
            return cut
    return None


def _escapes(
    losses: ComposedPairs, clusters: Sequence[Cluster], plan: Plan, enough: Callable[[float, float], bool]
) -> tuple[Array, Array, float]:
    """Return frequencies from where φ falls, bounds of -log|φ| from each to the next, and one for all beyond.

    They go on until `enough` of (the end, its bound).
    """
    first = math.floor(2 * math.log2(math.sqrt((plan.height + plan.accuracy) / plan.curvature)) / SCALES)
    lows, bounds, last = [], [], 0.0
    for chunk in range(first, first + CHUNKS):
        frequencies, some, last = losses.escape(clusters, plan.index, chunk, plan.height + plan.accuracy + SPARE_NATS)
        lows.append(frequencies[:-1])
        bounds.append(some)
        if enough(float(frequencies[-1]), last):
            break
    return np.concatenate(lows), np.concatenate(bounds), last


def _find_cut(places: Array, pieces: Array, need: float, farthest: float = math.inf) -> tuple[float, float] | None:
    """Return the first place from which the pieces add up to at most `need`, and their sum."""
    tails = np.cumsum(pieces[::-1])[::-1]
    fine = np.flatnonzero((tails <= need) & (places <= farthest))
    return (float(places[fine[0]]), float(tails[fine[0]])) if len(fine) else None


def cut_by_samples(losses: ComposedPairs, plan: Plan, omega: float, tail: float) -> tuple[float, float]:
    """Return an earlier (ω, tail), from values of the characteristic function itself between there and a proven end.

    For weights 0 <= χ(L) <= 1, D = Σ n_i E[χχ'(1 - cos ωΔ_i)] <= -2 log|φ|, Δ the difference of two copies; and √D
    changes by at most √(Σ n_i E[χχ'Δ_i²]/2) per unit of ω, as |D'| <= E[χχ'|Δ sin ωΔ|] <= √E[χχ'Δ²]·√(2D) by Cauchy
    and Schwarz. Every frequency has its own χ, which leaves out losses that turn too fast to be followed.

    All this is taken of the discrete law of the nodes, of which it is exactly true. The law itself has a characteristic
    function within NODE_ERROR of theirs at every ω up to the end, so each release loses at most e·NODE_ERROR nats more:
    |φ| <= e^{-D/2} + NODE_ERROR, and D <= 2.
    """
    eta = plan.eta
    start = 1.15 * math.sqrt(2 * (plan.height + plan.accuracy) / plan.curvature)
    count = math.ceil(math.log(max(omega / start, 1.0)) / math.log(SAMPLE_RATIO))
    a, b = losses.effort(plan.index)

    def is_worth(nodes: float) -> bool:
        return line_effort(nodes, round_count(omega / eta)) >= FEW_SINES + SINES_PER_NODE * nodes * count

    # nodes are counted only where few are expected
    if (
        not 1 < count <= MOST_SAMPLES
        or not is_worth(a + b * omega)
        or not is_worth(losses.count_nodes(plan.index, omega))
    ):
        return omega, tail
    at = np.append(start * SAMPLE_RATIO ** np.arange(count), omega)
    turned = losses.dispersion(plan.index, at[:-1], SAMPLE_RADIANS, omega)
    worst = np.max([_lipschitz_floor(*one, np.diff(at)) for one in turned], axis=0)
    worst = np.maximum(worst * (1 - NODE_ERROR) - losses.releases * math.e * NODE_ERROR, 0.0)
    worst += losses.variance * at[:-1] ** 2 / 2
    pieces = np.exp(-worst) * (1 / at[:-1] - 1 / at[1:] + eta / at[:-1] ** 2) / math.pi
    return _find_cut(at, np.append(pieces, tail), 2 * plan.negligible) or (omega, tail)


def _lipschitz_floor(turning: Array, slope: Array, gaps: Array) -> Array:
    """Return lower bounds of D/2 on each interval.

    √D is Lipschitz with constant `slope`, so each end covers its half; the last sample covers all of its own.
    """
    ways = np.append(gaps[:-1] / 2, gaps[-1])
    upwards = np.maximum(np.sqrt(turning) - slope * ways, 0.0)
    downwards = np.maximum(np.sqrt(turning[1:]) - slope[1:] * gaps[:-1] / 2, 0.0)
    return np.asarray(np.minimum(upwards, np.append(downwards, np.inf)) ** 2 / 2)


def cut_on_lattice(losses: ComposedPairs, plan: Plan, lattice: Lattice, eta: float) -> tuple[float, float] | None:
    """Return (ω, tail) as `cut_by_decay` does, for the part of a period beyond ω: |kernel| is largest at ω = 0."""
    theta, period = plan.theta, math.pi / lattice.span
    largest = lattice.span * sum(1 / -math.expm1(-x * lattice.span) for x in (theta, theta + 1))
    clusters = losses.clusters(plan.index)
    low, bounds, _ = _escapes(losses, clusters, plan, lambda end, _: end >= period)
    if low[-1] * math.sqrt(2.0) < period:
        raise OutOfReach("the period of the lattice of losses is longer than its decay was followed")
    if not low[0] < period:  # it falls nowhere in a period
        return None
    low, bounds = low[low < period], bounds[low < period]
    high = np.append(low[1:], low[-1] * math.sqrt(2.0))
    return _find_cut(low, np.exp(-bounds) * (high - low + eta) * largest / math.pi, plan.negligible)


def round_count(count: float) -> int:
    """Round a count up to 2^k or 3·2^k, so that later questions meet these nodes again."""
    power: int = 2 ** max(math.ceil(math.log2(max(count, 1.0))), 4)
    return power * 3 // 4 if count <= power * 3 // 4 else power
