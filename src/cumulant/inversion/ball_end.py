"""Where the line of an inversion may end, in balls: proven bounds of how far the characteristic function has fallen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_lattice import BallLattice
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.cut import CHUNKS
from cumulant.inversion.plan import Plan
from cumulant.inversion.purse import Purse
from cumulant.numerics.balls import as_ball, ball_below, lower_float, pi_ball, upper_float
from cumulant.numerics.decay import escapes
from cumulant.numerics.logspace import Array
from cumulant.pairs.certified import ball_nodes, count_nodes, moment_of, proven_cells
from cumulant.pairs.curve import k_at
from cumulant.pairs.grid import SCALES, chunk_frequencies, tilt
from cumulant.pairs.pair import MEAN_ROUNDED_UP

if TYPE_CHECKING:
    from flint import arb

CELLS_MICROSECONDS = 100_000  # the cells of one part, as balls, and how far they let |φ| fall
MOST_POINTS = 8000  # frequencies on one line
GROUPS, FINER = 64, 4  # cells whose pairs are formed, and frequencies where the float path has one: proofs are rare


def gaussian_variance(losses: ComposedPairs) -> arb:
    """Return μ² of the composed Gaussians."""
    mean = ball_below(losses.mean, MEAN_ROUNDED_UP) if losses.mean > 0 else as_ball(0.0)
    return mean * mean


def line_end(losses: ComposedPairs, plan: Plan, bits: int, purse: Purse) -> tuple[int, arb] | None:
    """Return how many points the line has, and a bound of Σ |φ|/|z(z+1)|·η/π beyond; None if too many."""
    need, eta = math.exp(-plan.height - plan.accuracy), plan.eta
    step = as_ball(eta)
    places, bounds, last = _proven_decay(losses, plan, bits, purse, lambda end: end > MOST_POINTS * eta)
    low, ends = places[:-1], places[1:]
    pieces = [
        (-bound).exp() * (1 / as_ball(a) - 1 / as_ball(b) + step / as_ball(a) ** 2) / pi_ball()
        for bound, a, b in zip(bounds, low, ends, strict=True)
    ]
    tail = beyond(last, as_ball(ends[-1]), step)
    best: tuple[int, arb] | None = None
    for a, piece in zip(reversed(low), reversed(pieces), strict=True):
        tail += piece
        if upper_float(tail) > need or a / eta < 1:
            break
        best = math.ceil(a / eta) + 1, tail  # one more: the quotient was rounded
    return best if best is not None and best[0] <= MOST_POINTS else None


def beyond(bound: arb, end: arb, eta: arb) -> arb:
    """Return a bound of the tail from `end` on, where -log|φ| is at least `bound`."""
    return (-bound).exp() * (1 / end + eta / end**2) / pi_ball()


def _proven_decay(
    losses: ComposedPairs, plan: Plan, bits: int, purse: Purse, enough: Callable[[float], bool]
) -> tuple[list[float], list[arb], arb]:
    """Return rising frequencies, proven bounds of -log|φ| from each to the next, and one for all beyond the last."""
    cells = []
    for pair, n in losses.parts:
        k = k_at(pair, plan.index)
        purse.pay(CELLS_MICROSECONDS + count_nodes(pair, tilt(plan.index), 0.0, k, bits=bits).microseconds)
        nodes = ball_nodes(pair, tilt(plan.index), 0.0, k, bits=bits)
        above = upper_float(as_ball(k) + moment_of(nodes, tilt(plan.index), k).log())
        cells.append((proven_cells(pair, plan.index, above, bits), n))
    variance = gaussian_variance(losses)
    least = lower_float(variance) if losses.mean > 0 else 0.0
    first = math.floor(2 * math.log2(math.sqrt((plan.height + plan.accuracy) / plan.curvature)) / SCALES)
    places: list[float] = []
    bounds: list[arb] = []
    last = as_ball(0.0)
    for chunk in range(first - 1, first + CHUNKS):
        frequencies = _between(chunk_frequencies(chunk))
        total = [as_ball(least) * as_ball(w) ** 2 / 2 for w in frequencies.tolist()]
        for part, n in cells:
            by_pairs, gain = escapes(part, frequencies, GROUPS)
            logs = [
                max(as_ball(d), -(1 - as_ball(g)).log()) for d, g in zip(by_pairs.tolist(), gain.tolist(), strict=True)
            ]
            total = [sum_ + n * _above_zero(log) for sum_, log in zip(total, logs, strict=True)]
        places = [*places[:-1], *frequencies.tolist()]
        bounds += total[:-1]
        last = total[-1]
        if enough(float(frequencies[-1])):
            break
    return places, bounds, last


def _between(frequencies: Array) -> Array:
    """Return the same frequencies with more between them: bounds hold from each to the next."""
    return np.asarray(
        np.interp(np.arange((len(frequencies) - 1) * FINER + 1) / FINER, np.arange(len(frequencies)), frequencies)
    )


def _above_zero(bound: arb) -> arb:
    return bound if bound > 0 else as_ball(0.0)


def lattice_end(
    losses: ComposedPairs, plan: Plan, lattice: BallLattice, step: arb, bits: int, *, purse: Purse
) -> tuple[int, arb]:
    """Return how many points of a period are needed, and a bound of what the others add.

    |kernel| is largest at ω = 0.
    """
    theta, eta, period = as_ball(tilt(plan.index)), upper_float(step), upper_float(pi_ball() / lattice.span)
    largest = lattice.span * sum((1 / -(-x * lattice.span).expm1() for x in (theta, theta + 1)), as_ball(0.0))
    places, bounds, _ = _proven_decay(losses, plan, bits, purse, lambda end: end >= period)
    low, ends = places[:-1], places[1:]
    if places[-1] < period:
        raise OutOfReach("the period of the lattice of losses is longer than its decay was followed")
    need, tail, best = math.exp(-plan.height - plan.accuracy), as_ball(0.0), None
    for a, b, bound in zip(reversed(low), reversed(ends), reversed(bounds), strict=True):
        if a < period:
            tail += (-bound).exp() * (as_ball(b) - as_ball(a) + step) * largest / pi_ball()
            if upper_float(tail) > need or a < eta:
                break
            best = math.ceil(a / lower_float(step)) + 1, tail
    if best is None or best[0] > MOST_POINTS:
        raise OutOfReach("one period of the lattice of losses takes too many points")
    return best
