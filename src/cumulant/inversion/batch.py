"""Many questions together: ε at δ, or δ at ε, in rows that share their lines.

Every row has its own question. Tilts are chosen for all rows at once, those with the same tilt and step share a line,
and Newton's method runs on arrays. As for a single question, what is returned was tested: an upper bound of δ at the ε
that is returned is at most δ, whatever was searched. A row is *settled* where the lower bound proves that its answer is
as near to the truth as was asked for; others are NaN, and are asked one by one (`solve`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import FINE_LINES, LINES
from cumulant.inversion.contour import EXACT_AT_ZERO, EXACT_SHARE, log_chernoff
from cumulant.inversion.cut import CHUNKS, round_count
from cumulant.inversion.enclosure import CLOSE_NATS
from cumulant.inversion.lines import SHOWN_NATS
from cumulant.inversion.plan import DROWNING_NATS, NODES_PER_DROWNED_NAT, NODES_PER_NAT, TAIL_NATS, spacing
from cumulant.inversion.question import FIRST_LOG_DELTA, LEFT_OUT_NATS
from cumulant.inversion.row_lines import RowLines, Sums
from cumulant.inversion.rows import Indices, Rows, RowTilts
from cumulant.inversion.solve import AGREED_NATS, Directions, Inversion
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import less_rounding
from cumulant.pairs.grid import PER_OCTAVE, SCALES

ROUNDS = 2  # plans that are made, each from the answer of the last
TURNS = 12  # points at which the bounds of one line are tried
NEAR = 1e-11  # a relative step of Newton's method, after which the next one is below rounding
MOST_BENT = 0.25  # of such a step, up to which it is bent
SAFE = 2e-14  # relative, by which ε is raised beyond where the upper bound meets δ: a few units of rounding
MOST_SHARED_POINTS = 4096  # of a line that many share; longer ones are for single questions
MOST_SHARED_NODES = 2e5  # of a single pair, that a line may take
FOLLOWED = 1000.0  # times the end of the longest line, up to which decay is followed to bound all that is beyond
PLANNED_TILTS = 2  # tilts 2^{k/8}, or steps 2^{m/4}, that are taken as one
REACH = 4  # of those, beside the saddle, that are looked at
ALIKE_NATS = 0.5  # of Chernoff's bounds around the saddle, within which rows take the tilt of one of them
NUMBERS = 1_000_000  # of one array


class Asked(NamedTuple):
    """Questions in rows, and about their answers: ε and log δ, one of which is given."""

    epsilon: Array
    log_delta: Array

    def of_rows(self, rows: Indices) -> Asked:
        return Asked(self.epsilon[rows], self.log_delta[rows])


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinePlan:
    """The line of each row: the place of its tilt, its step 2^{m/4}, and Chernoff's bound above the answer, in nats."""

    place: Indices
    step: Indices
    height: Array
    curvature: Array

    def groups(self) -> list[Indices]:
        """Return rows that share a line."""
        order = np.lexsort((self.step, self.place))
        changes = (np.diff(self.place[order]) != 0) | (np.diff(self.step[order]) != 0)
        return np.split(order, np.flatnonzero(changes) + 1)


def tail_nats(accuracy: float) -> float:
    """Return how far below δ alias and tail are pushed: 1e-4 of what the accuracy leaves, at most TAIL_NATS."""
    return min(TAIL_NATS, TAIL_NATS + math.log(EXACT_SHARE) - math.log(accuracy))


# ε at δ ---------------------------------------------------------------------------------------------------------------


def epsilon_of_rows(rows: Rows, log_delta: Array, accuracy: float = EXACT_SHARE) -> Array:
    """Return ε at δ in every row, rounded up; NaN where it is not settled to `accuracy`, a share of ε."""
    found = np.full(len(rows), np.nan)
    wanted = np.array([less_rounding(float(one)) for one in log_delta])
    todo = np.flatnonzero((wanted > -np.inf) & (wanted < 0))
    if not len(todo):
        return found
    seen = rows.seen(np.where(np.isfinite(wanted), wanted, -1.0))
    start: Array | None = None
    for _ in range(ROUNDS):
        some, goal = seen.of_rows(todo), wanted[todo]
        around = some.tilts(lambda tilts, goal=goal: tilts.log_delta - goal[:, None])  # type: ignore[misc]
        if around is None:
            break
        asked = Asked(epsilon_near(around, goal) if start is None else start, goal)
        epsilon, is_settled = np.array(asked.epsilon), np.zeros(len(todo), dtype=bool)
        for group, line in _shared_lines(some, around, asked, accuracy):
            epsilon[group], is_settled[group] = meet_in_rows(line, asked.of_rows(group), accuracy)
        done = todo[is_settled]
        found[done] = np.minimum(epsilon[is_settled], rows.of_rows(done).supremum)
        todo, start = todo[~is_settled], np.clip(np.nan_to_num(epsilon[~is_settled], nan=1.0), 1e-300, 1e300)
        if not len(todo):
            break
    return found


def epsilon_near(tilts: RowTilts, log_delta: Array) -> Array:
    """Return about ε at log δ: on the line through the tilt whose approximation is the nearest."""
    at = np.argmin(np.abs(tilts.log_delta - log_delta[:, None]), axis=1)[:, None]
    here, epsilon = (np.take_along_axis(one, at, axis=1)[:, 0] for one in (tilts.log_delta, tilts.epsilon))
    return np.asarray(np.maximum(epsilon + (here - log_delta) / tilts.theta[at[:, 0]], 0.0))


def meet_in_rows(line: RowLines, asked: Asked, accuracy: float) -> tuple[Array, Array]:
    """Return an ε in every row at which the upper bound was tested to be at most δ, and whether that is settled.

    Newton's method goes on until the next step would be below rounding; ε is then raised by a few units, and tested.
    """
    epsilon, goal = asked.epsilon.copy(), asked.log_delta
    active, still = np.arange(len(epsilon)), line
    for _ in range(TURNS):
        here = epsilon[active]
        sums = still.sums(here)
        slope = sums.slope_or(line.theta)
        way = (still.log_upper(here, sums) - goal[active]) / slope
        way = way + _bend(sums, slope, way)
        epsilon[active] = np.maximum(here + way, 0.0)
        moving = np.abs(way) > NEAR * here
        moving &= ~((here == 0) & (way <= 0)) & np.isfinite(way)
        if not np.any(moving):
            break
        if np.sum(moving) < len(active):
            active = active[moving]
            still = line.of_rows(active)
    epsilon = epsilon * (1 + SAFE)
    below = np.maximum(np.minimum(epsilon * (1 - accuracy), epsilon - EXACT_AT_ZERO * accuracy / EXACT_SHARE), 0.0)
    sums = line.sums(below)
    low = line.log_lower(below, sums)
    slack = line.log_upper(below, sums) - low
    # δ(ε) on a line of its own may be above this one by as much as both are in doubt
    rough = slack > AGREED_NATS if accuracy <= EXACT_SHARE else np.zeros(len(epsilon), dtype=bool)
    raised = epsilon + np.minimum(2 * slack, CLOSE_NATS) / sums.slope_or(line.theta)
    epsilon = np.where(rough & (epsilon > 0), raised, epsilon)
    is_safe = line.log_upper(epsilon, line.sums(epsilon)) <= goal
    return epsilon, is_safe & ((low >= goal) | (epsilon == 0))


def _bend(sums: Sums, slope: Array, way: Array) -> Array:
    """Return what the second derivative of log δ adds to a step of Newton's method, where it is the smaller part."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        more = (sums.second / sums.total - slope**2) * way**2 / (2 * slope)
        return np.where(np.abs(more) <= MOST_BENT * np.abs(way), more, 0.0)


# δ at ε ---------------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """Of the profile at ε: an upper bound of log δ, and about d log δ/dε and its derivative."""

    log_delta: Array
    slope: Array
    bend: Array


def log_delta_of_rows(rows: Rows, epsilon: Array, accuracy: float = EXACT_SHARE) -> Array:
    """Return log δ at ε in every row, rounded up; NaN where that is not settled: to `accuracy`, a share of ε."""
    return profile_of_rows(rows, epsilon, accuracy).log_delta


def profile_of_rows(rows: Rows, epsilon: Array, accuracy: float = EXACT_SHARE) -> Point:
    """Return log δ at ε in every row, rounded up, with slopes; NaN where it is not settled."""
    found = Point(*(np.full(len(rows), np.nan) for _ in range(3)))
    todo = np.flatnonzero((epsilon >= 0) & (epsilon < rows.supremum))
    sight, start = np.full(len(todo), FIRST_LOG_DELTA), None
    for _ in range(ROUNDS):
        if not len(todo):
            break
        some, here = rows.of_rows(todo).seen(sight), epsilon[todo]
        around = some.tilts(lambda tilts, here=here: here[:, None] - tilts.epsilon)  # type: ignore[misc]
        if around is None:
            break
        asked = Asked(here, _log_delta_near(around, here) if start is None else start)
        high, low = np.zeros(len(todo)), np.full(len(todo), -np.inf)
        slope, bend = np.zeros(len(todo)), np.zeros(len(todo))
        for group, line in _shared_lines(some, around, asked, accuracy):
            sums = line.sums(here[group])
            high[group], low[group] = line.log_upper(here[group], sums), line.log_lower(here[group], sums)
            slope[group] = -sums.slope
            bend[group] = sums.second / np.where(sums.total > 0, sums.total, np.nan) - slope[group] ** 2
        enough = (
            np.maximum(CLOSE_NATS, np.nan_to_num(accuracy * here * -slope)) if accuracy > EXACT_SHARE else CLOSE_NATS
        )
        with np.errstate(divide="ignore"):
            in_sight = np.log(some.left_out) <= low + LEFT_OUT_NATS if accuracy <= EXACT_SHARE else True
        is_settled = (high - low <= enough) & in_sight
        for whole, part in zip(found, (high, slope, bend), strict=True):
            whole[todo[is_settled]] = part[is_settled]
        sight = np.where(low > -np.inf, low, 2 * np.minimum(high, FIRST_LOG_DELTA / 2))[~is_settled]
        todo, start = todo[~is_settled], np.minimum(high, -1e-9)[~is_settled]
    return found


def _log_delta_near(tilts: RowTilts, epsilon: Array) -> Array:
    """Return about log δ at ε, likewise."""
    at = np.argmin(np.abs(tilts.epsilon - epsilon[:, None]), axis=1)[:, None]
    here, nearby = (np.take_along_axis(one, at, axis=1)[:, 0] for one in (tilts.log_delta, tilts.epsilon))
    return np.asarray(np.minimum(here + tilts.theta[at[:, 0]] * (nearby - epsilon), -1e-9))


# Lines ----------------------------------------------------------------------------------------------------------------


def _shared_lines(rows: Rows, tilts: RowTilts, asked: Asked, accuracy: float) -> Iterator[tuple[Indices, RowLines]]:
    """Yield groups of rows with the line they share; rows without a line that can be afforded are left out."""
    nats = tail_nats(accuracy)
    plan = plan_rows(tilts, asked, nats)
    for group in plan.groups():
        some, first = rows.of_rows(group), group[0]
        index, step = tilts.index + int(plan.place[first]), spacing(int(plan.step[first]))
        height, curvature = plan.height[group], plan.curvature[group]
        ends = ends_of_rows(some, (index, step), height + nats, curvature)
        for part, count, tail in ends:
            members = group[part]
            members_rows = rows.of_rows(members)
            theta = float(tilts.theta[plan.place[first]])
            # a coarser answer does not show what rounding takes
            shown = float(np.max(height[part] + np.log(members_rows.releases + 1))) - (TAIL_NATS - nats)
            z = theta + 1j * step * np.arange(count)
            try:
                line = members_rows.line((index, step, count), z, FINE_LINES if shown > SHOWN_NATS else LINES)
            except OutOfReach:
                continue
            k_tilts = tilts.k[members]
            for piece in _pieces(len(members), count):
                k, error = line[0][piece], line[1][piece]
                at = RowLines.of(
                    (theta, step), (k, error), tail[piece], (tilts.theta, k_tilts[piece]), members_rows.left_out[piece]
                )
                yield members[piece], at


def _pieces(rows: int, columns: int) -> list[Indices]:
    return np.array_split(np.arange(rows), max(1, math.ceil(rows * columns / NUMBERS)))


def plan_rows(tilts: RowTilts, asked: Asked, nats: float) -> LinePlan:
    """Return the line of each row that takes the fewest nodes, of those near its saddle; see `plan.plan_for`."""
    plans = [_plan_some(tilts.of_rows(rows), asked.of_rows(rows), nats) for rows in _pieces(*tilts.k.shape)]
    return LinePlan(*(np.concatenate([getattr(one, name) for one in plans]) for name in LinePlan.__slots__))


def _plan_some(t: RowTilts, asked: Asked, nats: float) -> LinePlan:
    excess = t.k - t.theta * asked.epsilon[:, None] - asked.log_delta[:, None]
    chernoff = excess + log_chernoff(t.theta) + nats
    apart = PLANNED_TILTS if nats >= TAIL_NATS else 2 * PLANNED_TILTS  # a coarser answer may lie lower: fewer lines
    saddle = np.argmin(chernoff, axis=1)
    some, which = _alike(chernoff, saddle)
    bounds = excess[some], chernoff[some], saddle[some]
    place = _tilt_of_rows(t.of_rows(some), asked.of_rows(some), bounds, apart, nats)[which]
    with np.errstate(divide="ignore", invalid="ignore"):
        window = _window(t.theta, chernoff, place, asked, nats)
    step = np.floor(4 * np.log2(2 * math.pi / np.clip(window, 1e-250, 1e250)) / apart) * apart
    height = np.maximum(np.take_along_axis(excess, place[:, None], axis=1)[:, 0], 0.0)
    return LinePlan(place, step.astype(np.intp), height, np.take_along_axis(t.curvature, place[:, None], axis=1)[:, 0])


def _alike(chernoff: Array, saddle: Indices) -> tuple[Indices, Indices]:
    """Return rows that stand for others with about the same bounds around the same saddle, and which for each row."""
    around = np.clip(saddle[:, None] + np.arange(-1, 2) * PER_OCTAVE, 0, chernoff.shape[1] - 1)
    about = np.clip(np.take_along_axis(chernoff, around, axis=1) / ALIKE_NATS, -1e15, 1e15)
    _, some, which = np.unique(
        np.column_stack([saddle, np.nan_to_num(about).astype(np.intp)]), axis=0, return_index=True, return_inverse=True
    )
    return some, which.reshape(-1)


def _tilt_of_rows(t: RowTilts, asked: Asked, bounds: tuple[Array, Array, Indices], apart: int, nats: float) -> Indices:
    """Return the place of the tilt that takes the fewest nodes in each row."""
    excess, chernoff, saddle = bounds
    slowest = np.minimum.accumulate(t.curvature, axis=1)
    near = apart * ((saddle // apart)[:, None] + np.arange(-REACH, REACH + 1))
    near = np.clip(near, 0, (len(t.theta) - 1) // apart * apart)
    above_answer = np.take_along_axis(excess, near, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        windows = np.stack([_window(t.theta, chernoff, near[:, i], asked, nats) for i in range(near.shape[1])], axis=1)
        effort = np.log(windows) + NODES_PER_NAT * above_answer
        effort += 0.5 * np.log((np.maximum(above_answer, 0.0) + nats) / np.take_along_axis(slowest, near, axis=1))
        effort += NODES_PER_DROWNED_NAT * np.maximum(above_answer - DROWNING_NATS, 0.0)
    best = np.argmin(np.nan_to_num(effort, nan=np.inf), axis=1)[:, None]
    return np.asarray(np.take_along_axis(near, best, axis=1)[:, 0])


def _window(theta: Array, chernoff: Array, place: Indices, asked: Asked, nats: float) -> Array:
    """Return how long a period must be for its aliases to be nothing beside δ, on the line at a tilt of each row."""
    at = theta[place]
    ways = chernoff / (theta - at[:, None])  # above 0 beyond the tilt, below 0 before it, not finite at it
    columns = np.arange(len(theta))
    above = np.min(ways, axis=1, initial=np.inf, where=columns > place[:, None])
    below = -np.max(ways, axis=1, initial=-np.inf, where=columns < place[:, None])
    return np.asarray(np.maximum(np.maximum(above, np.minimum(below, (nats - asked.log_delta) / at)), 1 / at))


def ends_of_rows(rows: Rows, at: tuple[int, float], below: Array, curvature: Array) -> list[tuple[Indices, int, Array]]:
    """Return groups of rows with how many points their line has, and bounds of Σ |φ|/|z(z+1)|·η/π beyond.

    `below` says how many nats below e^{K(θ)-θε} that is to be; see `cut.cut_by_decay`. Rows for which it does not fall
    so far within a line that can be afforded are in no group.
    """
    index, eta = at
    try:
        a, b = rows.effort(index)
    except OutOfReach:
        return []
    nodes = MOST_SHARED_NODES * (1 + len(rows.pairs) / 4)  # a part may take a while
    farthest = min(MOST_SHARED_POINTS * eta, (nodes - a) / b if b > 0 else np.inf)
    need = np.exp(-below)
    first = math.floor(2 * math.log2(math.sqrt(float(np.min(below / curvature)))) / SCALES)
    lows: list[Array] = []
    pieces: list[Array] = []
    for chunk in range(first, first + CHUNKS):
        frequencies, bounds, last = rows.escape(index, chunk)
        low, high = frequencies[:-1], frequencies[1:]
        lows.append(low)
        pieces.append(np.exp(-bounds) * ((1 / low - 1 / high + eta / low**2) / math.pi))
        end = float(high[-1])
        rest = np.exp(-last) * (1 / end + eta / end**2) / math.pi
        if end > FOLLOWED * farthest or np.all(rest < need / 2):
            break
    places = np.append(np.concatenate(lows), end)
    tails = np.cumsum(np.column_stack([*pieces, rest])[:, ::-1], axis=1)[:, ::-1]
    fine = (tails <= need[:, None]) & (places <= farthest)
    place = np.argmax(fine, axis=1)
    count = np.array([round_count(float(omega) / eta) for omega in places])[place]
    found = []
    for size in np.unique(count[np.any(fine, axis=1)]):
        part = np.flatnonzero(np.any(fine, axis=1) & (count == size))
        found.append((part, int(size), tails[part, place[part]]))
    return found


# A single question ----------------------------------------------------------------------------------------------------


def rough_epsilon(directions: Directions, log_delta: float, accuracy: float) -> Inversion | None:
    """Return ε of one run, rounded up, at most a share `accuracy` of it above the truth; None where no row says so."""
    worst = _worst_of_rows(directions, lambda row: epsilon_of_rows(row, np.array([log_delta]), accuracy))
    return None if worst is None else Inversion(worst, 0.0, "contour", accuracy)


def rough_log_delta(directions: Directions, epsilon: float, accuracy: float) -> Inversion | None:
    """Return log δ of one run, rounded up, likewise; how far that moves ε is about the share, and not proven."""
    worst = _worst_of_rows(directions, lambda row: log_delta_of_rows(row, np.array([epsilon]), accuracy))
    return None if worst is None else Inversion(worst, 0.0, "contour", 1.0)


def _worst_of_rows(directions: Directions, answer: Callable[[Rows], Array]) -> float | None:
    rows = [Rows.multiples(direction, np.ones(1)) for direction in directions]
    try:
        values = [float(answer(row)[0]) if fit[0] else math.nan for row, fit in rows]
    except OutOfReach:
        return None
    return None if any(map(math.isnan, values)) else max(values)
