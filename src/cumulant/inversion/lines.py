"""Lines in doubles that a plan leads to: where they may end, whole ones, and bands, which ask nothing of the losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.band import BandInDoubles, bands
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import Contour, Indices, Lattice
from cumulant.inversion.enclosure import WorkBudget
from cumulant.inversion.plan import DROWNING_NATS, Plan, round_count
from cumulant.inversion.rows import Rows
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import CHUNKS, SCALES, k_of_each
from cumulant.pairs.discrete import line_effort

FOR_GOOD_NATS = 12.0  # above what a tail may be, of φ: what is beyond ω of it is divided by about ω
SPARE_NATS = 10.0  # more than needed, at which bounds stop being improved
FOLLOWED = 1000.0  # times the end of the longest line, up to which decay is followed to bound all that is beyond
SHORT_POINTS = 3072  # of a line that is followed whole; where it is longer a band is shorter
MANY_LATTICE_POINTS = 4096  # of a lattice, beyond which the sum is cut
MOST_PAID_NODES = 1e6  # of a line: about what a rule has at most
SEARCHED = 40  # sines for a frequency of a line on which ε is looked for
MOST_EVALUATIONS = 3e5  # nodes and frequencies together that one line may take


InDoubles = Contour | BandInDoubles


# Where the line may end -----------------------------------------------------------------------------------------------


class End(NamedTuple):
    """Where the lines of some rows end: the points of each, and bounds of Σ |φ|/|z(z+1)|·η/π beyond."""

    rows: Indices
    points: int
    tails: Array


class Decay(NamedTuple):
    """Frequencies, bounds of -log|φ| from each to the next in every row, and one for all beyond the last."""

    places: Array
    falls: Array
    rest: Array


def ends_of(rows: Rows, plan: Plan, below: Array, farthest: float) -> list[End]:
    """Return groups of rows with how many points their line has; rows that do not fall far enough are in none.

    `below` says how many nats below e^{K(θ)-θε} the tail is to be, `farthest` up to which frequency a line may go.
    """
    eta = plan.eta

    def beyond(omega: float, fallen: Array) -> Array:
        return np.exp(-fallen) * (1 / omega + eta / omega**2) / math.pi

    def is_enough(omega: float, fallen: Array) -> bool:
        return omega > FOLLOWED * farthest or bool(np.all(beyond(omega, fallen) < np.exp(-below) / 2))

    low, falls, rest = _decay(rows, plan, below, is_enough)
    pieces = np.exp(-falls) * ((1 / low[:-1] - 1 / low[1:] + eta / low[:-1] ** 2) / math.pi)
    tails = _tails(pieces, beyond(float(low[-1]), rest))
    fine = (tails <= np.exp(-below)[:, None]) & (low <= farthest)
    place, there = np.argmax(fine, axis=1), np.any(fine, axis=1)
    ends: dict[int, list[int]] = {}
    for at in np.unique(place[there]).tolist():
        ends.setdefault(round_count(float(low[at]) / eta), []).append(at)
    groups = [(np.flatnonzero(there & np.isin(place, some)), count) for count, some in ends.items()]
    return [End(some, count, tails[some, place[some]]) for some, count in groups]


def _decay(rows: Rows, plan: Plan, below: Array, is_enough: Callable[[float, Array], bool]) -> Decay:
    """Return how the characteristic function falls, from where it matters on."""
    first = math.floor(2 * math.log2(math.sqrt(float(np.min(below)) / plan.curvature)) / SCALES)
    clusters, enough = rows.clusters(plan.index), float(np.max(below)) + SPARE_NATS
    places, falls = [], []
    for chunk in range(first, first + CHUNKS):
        frequencies, some, rest = rows.escape(clusters, plan.index, chunk, enough)
        places.append(frequencies[:-1])
        falls.append(some)
        if is_enough(float(frequencies[-1]), rest):
            break
    return Decay(np.append(np.concatenate(places), frequencies[-1]), np.concatenate(falls, axis=1), rest)


def _tails(pieces: Array, rest: Array) -> Array:
    """Return the sums of the pieces from each on, and the rest."""
    return np.cumsum(np.column_stack([pieces, rest])[:, ::-1], axis=1)[:, ::-1]


def cut_on_lattice(losses: ComposedPairs, plan: Plan, lattice: Lattice, eta: float) -> tuple[float, float]:
    """Return (ω, tail) for the part of a period beyond ω, where |kernel| is largest at 0; inf if it falls nowhere."""
    theta, period = plan.theta, math.pi / lattice.span
    largest = lattice.span * sum(1 / -math.expm1(-x * lattice.span) for x in (theta, theta + 1))
    below = np.array([plan.height + plan.accuracy])
    places, falls, _ = _decay(losses.row, plan, below, lambda at, _: at >= period)
    if places[-1] < period:
        raise OutOfReach("the period of the lattice of losses is longer than its decay was followed")
    low, high = places[:-1][places[:-1] < period], places[1:][places[:-1] < period]
    tails = _tails(np.exp(-falls[:, : len(low)]) * (high - low + eta) * largest / math.pi, np.zeros(1))[0]
    fine = np.flatnonzero(tails[:-1] <= plan.negligible)
    return (float(low[fine[0]]), float(tails[fine[0]])) if len(fine) else (math.inf, math.inf)


# Enclosures -----------------------------------------------------------------------------------------------------------


def paid_enclosures_at(losses: ComposedPairs, plan: Plan, budget: WorkBudget) -> Iterator[InDoubles]:
    """Yield enclosures as long as the budget lasts; they are paid for when they have been followed.

    The first is always there, and what it says stands; where nothing is left before it, `OutOfReach` is raised.
    """
    budget.pay(0.0)
    for enclosure in enclosures_at(losses, plan):
        nodes = 1.0 if losses.closed else losses.row.count_nodes(plan.index, enclosure.points * plan.eta)
        budget.owe(line_effort(min(nodes, MOST_PAID_NODES), enclosure.points) + SEARCHED * enclosure.points)
        yield enclosure
        if budget.left < 0:
            return


def enclosures_at(losses: ComposedPairs, plan: Plan) -> Iterator[InDoubles]:
    """Yield enclosures that a plan leads to: a whole line where it is short, and bands."""
    if losses.lattice is not None:
        yield replace(_lattice_contour(losses, plan, losses.lattice), route="lattice contour")
        return
    if losses.closed is not None:
        yield from bands(losses, plan.tilts)
        return
    ends: list[End] = []
    if not _keeps_atoms(losses, plan):
        ends = ends_of(losses.row, plan, np.array([plan.height + plan.accuracy]), _farthest_affordable(losses, plan))
    is_short = all(end.points <= SHORT_POINTS for end in ends) and plan.height <= DROWNING_NATS
    for end in ends if is_short else ():
        yield (line := _follow_line(losses, plan, end))
        if line.slack(plan.tilts.epsilon) <= plan.tilts.nats_apart:
            return
    try:
        yield from bands(losses, plan.tilts)
    except OutOfReach:
        if not ends:
            raise
    else:
        is_short = is_short or plan.tilts.is_guess  # what a rough band says comes first
    for end in () if is_short else ends:
        yield _follow_line(losses, plan, end)


def _keeps_atoms(losses: ComposedPairs, plan: Plan) -> bool:
    """Return whether all releases have atoms, and together one so heavy that φ is above what a tail may be for good."""
    kept = [(pair, n) for pair, n in losses.parts if isinstance(pair, CoordinatePair) and pair.atoms]
    if losses.variance > 0 or len(kept) < len(losses.parts):
        return False
    k = k_of_each([pair for pair, _ in kept], plan.index).tolist()
    heaviest = [max(mass + plan.theta * loss for loss, mass in pair.atoms) for pair, _ in kept]
    log_atom = sum(n * (top - one) for (_, n), top, one in zip(kept, heaviest, k, strict=True))
    return bool(log_atom > FOR_GOOD_NATS - plan.height - plan.accuracy)


def _farthest_affordable(losses: ComposedPairs, plan: Plan) -> float:
    """Return the frequency up to which a line may be evaluated: a + bω nodes and ω/η frequencies, by transform."""
    a, b = losses.row.effort(plan.index)
    # a part may take a while
    budget = MOST_EVALUATIONS * (1 + sum(pair.components for pair, _ in losses.parts) / 4)
    return max((budget - a) / (b + 1 / plan.eta), 64 * plan.eta)


def _follow_line(losses: ComposedPairs, plan: Plan, end: End) -> Contour:
    rows = losses.row
    line = rows.line((plan.index, plan.eta, end.points))
    contour = _contour_of((plan.theta, plan.eta), line, float(end.tails[0]), plan)
    return contour.less_certain(0.0, float(rows.log_left_out[0]))


def _contour_of(
    at: tuple[float, float], line: tuple[Complex, Array], tail: float, plan: Plan, lattice: Lattice | None = None
) -> Contour:
    """Return the line of a single row."""
    return Contour.of(at, (line[0][0], line[1][0]), tail, (plan.tilts.theta, plan.tilts.k), lattice)


def _lattice_contour(losses: ComposedPairs, plan: Plan, lattice: Lattice) -> Contour:
    """Return the sum over one period, whose points are 2πj/(N·span), N odd, up to where it is proven to have fallen."""
    points = 2 * math.ceil(math.pi / (plan.eta * lattice.span)) + 1
    eta = 2 * math.pi / (points * lattice.span)
    count, tail = (points + 1) // 2, 0.0
    if count > MANY_LATTICE_POINTS:
        omega, tail = cut_on_lattice(losses, plan, lattice, eta)
        if omega / eta > MOST_EVALUATIONS:
            raise OutOfReach(f"one period of the lattice of losses takes {points} points")
        count = min(count, math.ceil(omega / eta) + 1)
    line = losses.row.line((plan.index, eta, count))
    return _contour_of((plan.theta, eta), line, tail, plan, lattice)
