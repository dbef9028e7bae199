"""Where the line of an inversion may end: proven bounds of how far the characteristic function has fallen.

What a bound is made of is balls; it is added up in doubles, whose rounding is counted. Sums, products and quotients
are off by a unit, 2^-53 relatively, and a sum of n positive terms by n units in whichever order; exponentials and
logarithms of NumPy are taken to be off by 8 units at most. A fall is a sum over at most MOST_PARTS laws, each term 20
units, a tail one of at most 768 pieces of 60 (the difference of 1/ω at neighbours, which are 7 % apart, has 31): less
than 1,000 units together, an eighth of ROUNDING.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_kernels import BallLattice
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import WorkBudget
from cumulant.inversion.plan import Plan
from cumulant.numerics.balls import as_ball, ball_below, lower_float, pi_ball, upper_float
from cumulant.numerics.decay import escapes
from cumulant.numerics.logspace import Array
from cumulant.pairs.certified import ball_nodes, count_nodes, moment_of, proven_cells
from cumulant.pairs.curve import CHUNKS, SCALES, chunk_frequencies, k_at, tilt
from cumulant.pairs.pair import MEAN_ROUNDED_UP

if TYPE_CHECKING:
    from flint import arb

CELLS_MICROSECONDS = 100_000  # the cells of one part, as balls, and how far they let |φ| fall
MOST_BALL_POINTS = 8000  # frequencies on one line
ROUNDING = 2.0**-40  # more than what rounding adds to a fall, or takes off a sum of pieces, relatively: 8,192 units
LEAST_TAIL = 1e-300  # of the sum over a line, below which no tail is followed
GROUPS, FINER = 64, 4  # cells whose pairs are formed, and frequencies where the float path has one: proofs are rare


def gaussian_variance(losses: ComposedPairs) -> arb:
    """Return μ² of the composed Gaussians."""
    mean = ball_below(losses.mean, MEAN_ROUNDED_UP) if losses.mean > 0 else as_ball(0.0)
    return mean * mean


def line_end(losses: ComposedPairs, plan: Plan, bits: int, budget: WorkBudget) -> tuple[int, arb] | None:
    """Return how many points the line has, and a bound of Σ |φ|/|z(z+1)|·η/π beyond; None if too many."""
    eta, nats = plan.eta, plan.height + plan.accuracy
    places, falls, last = _proven_decay(
        losses, plan, bits, budget, lambda end, fall: end > MOST_BALL_POINTS * eta and fall > nats
    )
    low, end = places[:-1], float(places[-1])
    pieces = np.exp(-falls) * (1 / low - 1 / places[1:] + eta / low**2) / math.pi
    best = _where_rest_is_little(low, pieces, math.exp(-last) * (1 / end + eta / end**2) / math.pi, eta, nats)
    return best if best is not None and best[0] <= MOST_BALL_POINTS else None


def beyond(fall: arb, end: arb, eta: arb) -> arb:
    """Return a bound of the tail from `end` on, where -log|φ| is at least `fall`."""
    return (-fall).exp() * (1 / end + eta / end**2) / pi_ball()


def lattice_end(
    losses: ComposedPairs, plan: Plan, lattice: BallLattice, step: arb, bits: int, *, budget: WorkBudget
) -> tuple[int, arb]:
    """Return how many points of a period are needed, and a bound of what the others add.

    |kernel| is largest at ω = 0.
    """
    theta, eta, period = as_ball(tilt(plan.index)), upper_float(step), upper_float(pi_ball() / lattice.span)
    largest = lattice.span * sum((1 / -(-x * lattice.span).expm1() for x in (theta, theta + 1)), as_ball(0.0))
    places, falls, _ = _proven_decay(losses, plan, bits, budget, lambda end, _: end >= period)
    if places[-1] < period:
        raise OutOfReach("the period of the lattice of losses is longer than its decay was followed")
    inside = places[:-1] < period
    low = places[:-1][inside]
    pieces = np.exp(-falls[inside]) * (places[1:][inside] - low + eta) * upper_float(largest) / math.pi
    best = _where_rest_is_little(low, pieces, 0.0, lower_float(step), plan.height + plan.accuracy)
    if best is None or best[0] > MOST_BALL_POINTS:
        raise OutOfReach("one period of the lattice of losses takes too many points")
    return best


def _where_rest_is_little(low: Array, pieces: Array, last: float, eta: float, nats: float) -> tuple[int, arb] | None:
    """Return how many points there are up to the first place beyond which pieces are e^-nats together, and these."""
    rest = (np.cumsum(pieces[::-1])[::-1] + last) * (1 + ROUNDING) + LEAST_TAIL  # more than what underflows
    few = np.flatnonzero((rest <= math.exp(-nats)) & (low >= eta))
    return (math.ceil(low[few[0]] / eta) + 1, as_ball(float(rest[few[0]]))) if len(few) else None


def _proven_decay(
    losses: ComposedPairs, plan: Plan, bits: int, budget: WorkBudget, enough: Callable[[float, float], bool]
) -> tuple[Array, Array, float]:
    """Return rising frequencies, proven bounds of -log|φ| from each to the next, and one for all beyond the last.

    All terms are positive: what rounding may add is taken off.
    """
    cells = []
    for pair, n in losses.parts:
        k = k_at(pair, plan.index)
        budget.pay(CELLS_MICROSECONDS + count_nodes(pair, tilt(plan.index), 0.0, k, bits=bits).microseconds)
        nodes = ball_nodes(pair, tilt(plan.index), 0.0, k, bits=bits)
        above = upper_float(as_ball(k) + moment_of(nodes, tilt(plan.index), k).log())
        cells.append((proven_cells(pair, plan.index, above, bits), n))
    least = lower_float(gaussian_variance(losses)) if losses.mean > 0 else 0.0
    least += sum(n * pair.gaussian_variance for pair, n in losses.parts)
    first = math.floor(2 * math.log2(math.sqrt((plan.height + plan.accuracy) / plan.curvature)) / SCALES)
    places, falls, last = np.zeros(0), np.zeros(0), 0.0
    for chunk in range(first - 1, first + CHUNKS):
        frequencies = _between(chunk_frequencies(chunk))
        fall = least * frequencies**2 / 2
        for part, n in cells:
            by_pairs, gain = escapes(part, frequencies, GROUPS)
            fall = fall + n * np.maximum(by_pairs, -np.log1p(-gain))
        fall *= 1 - ROUNDING
        places, falls, last = np.append(places[:-1], frequencies), np.append(falls, fall[:-1]), float(fall[-1])
        if enough(float(frequencies[-1]), last):
            break
    return places, falls, last


def _between(frequencies: Array) -> Array:
    """Return frequencies with each gap cut into FINER equal ones: bounds hold from each frequency to the next."""
    return np.asarray(
        np.interp(np.arange((len(frequencies) - 1) * FINER + 1) / FINER, np.arange(len(frequencies)), frequencies)
    )
