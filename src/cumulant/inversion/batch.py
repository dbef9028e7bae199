"""Many questions together: ε at δ, or δ at ε, in rows that share their lines.

Every row has its own question. Tilts are chosen for all rows at once, those with the same tilt and step share a line,
and Newton's method runs on arrays. As for a single question, what is returned was tested: an upper bound of δ at the ε
that is returned is at most δ, whatever was searched. A row is *settled* where the lower bound proves that its answer is
as near to the truth as was asked for; others are NaN, and are asked one by one (`solve`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cumulant.answer import EXACTLY
from cumulant.errors import OutOfReach
from cumulant.inversion.composed import multiples_of
from cumulant.inversion.contour import Contour, Indices, log_chernoff
from cumulant.inversion.enclosure import CLOSE_NATS, EXACT_AT_ZERO, EXACT_SHARE
from cumulant.inversion.lines import End, ends_of
from cumulant.inversion.out_of_sight import leave_out_of_rows
from cumulant.inversion.plan import TAIL_NATS, Plan, Saddles, plan_for, saddles_for_delta, saddles_for_epsilon
from cumulant.inversion.question import FIRST_LOG_DELTA, LEFT_OUT_NATS
from cumulant.inversion.rows import Rows
from cumulant.inversion.solve import AGREED_NATS, Directions, Inversion
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import less_rounding
from cumulant.pairs.curve import PER_OCTAVE

ROUNDS = 2  # plans that are made, each from the answer of the last
TURNS = 12  # points at which the bounds of one line are tried
NEAR = 1e-5  # a relative step of Newton's method to second order, whose cube is rounding
MOST_BENT = 0.25  # of such a step, up to which it is bent
SLOPE_SHARE = 0.9  # of the slope, that is relied on
SAFE = 2e-14  # relative, by which ε is raised beyond where the upper bound meets δ: a few units of rounding
MOST_SHARED_POINTS = 4096  # of a line that many share; longer ones are for single questions
NODES_PER_POINT = 50  # that a line of a single pair may take, where it may take all its points
PLANNED_TILTS = 2  # tilts 2^{k/8}, or steps 2^{m/4}, that are taken as one
ALIKE = 0.3  # of the logarithms of Chernoff's bounds around the saddle: such rows take the line of one of them
NUMBERS = 1_000_000  # of one array


class Asked(NamedTuple):
    """Questions in rows, and about their answers: ε and log δ, one of which is given."""

    epsilon: Array
    log_delta: Array

    def of_rows(self, rows: Indices) -> Asked:
        return Asked(self.epsilon[rows], self.log_delta[rows])


def tail_nats(accuracy: float) -> float:
    """Return how far below δ alias and tail are pushed: 1e-4 of what the accuracy leaves, at most TAIL_NATS."""
    return TAIL_NATS if accuracy <= EXACTLY else TAIL_NATS + math.log(EXACT_SHARE / accuracy)


# ε at δ ---------------------------------------------------------------------------------------------------------------


def epsilon_of_rows(rows: Rows, log_delta: Array, accuracy: float = EXACTLY) -> Array:
    """Return ε at δ in every row, rounded up; NaN where it is not settled to `accuracy`, a share of ε."""
    found = np.full(len(rows), np.nan)
    wanted = np.array([less_rounding(float(one)) for one in log_delta])
    todo = np.flatnonzero((wanted > -np.inf) & (wanted < 0))
    if not len(todo):
        return found
    seen, start = leave_out_of_rows(rows.of_rows(todo), wanted[todo]), None
    for _ in range(ROUNDS):
        goal = wanted[todo]
        around = saddles_for_delta(seen, goal)
        asked = Asked(np.maximum(around.epsilon_near(goal), 0.0) if start is None else start, goal)
        epsilon, is_settled = np.array(asked.epsilon), np.zeros(len(todo), dtype=bool)
        for group, line in shared_lines(seen, around, asked, accuracy):
            epsilon[group], is_settled[group] = meet_in_rows(line, asked.of_rows(group), accuracy)
        found[todo[is_settled]] = epsilon[is_settled]
        open_still = np.flatnonzero(~is_settled)
        if not len(open_still):
            break
        todo, seen = todo[open_still], seen.of_rows(open_still)
        start = np.clip(np.nan_to_num(epsilon[open_still], nan=1.0), 1e-300, 1e300)
    return np.asarray(np.minimum(found, rows.supremum))


def meet_in_rows(line: Contour, asked: Asked, accuracy: float) -> tuple[Array, NDArray[np.bool_]]:
    """Return an ε in every row at which the upper bound was tested to be at most δ, and whether that is settled.

    Newton's method to second order goes on until what a step leaves is below rounding; ε is raised by a few units, and
    by what δ(ε) on a line of its own may be above this one. δ is convex in e^ε, so it lies above its tangent:
    log δ(ε - x) >= log δ(ε) + log(1 + s(1 - e^{-x})), s = -d log δ/dε, which the sum tells to far less than a tenth.
    """
    epsilon, goal, more = asked.epsilon.copy(), asked.log_delta, np.zeros(len(asked.epsilon))
    active, still = np.arange(len(epsilon)), line
    for _ in range(TURNS):
        here, sums = epsilon[active], still.sums(epsilon[active])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = still.slope_of(sums)
            slope = np.where(np.isnan(slope), line.theta, slope)  # that of the scale where errors rule
            way = (still.upper(here, sums) - goal[active]) / slope
            bent = still.bend(sums, slope) * way**2 / (2 * slope)
            way = way + np.where(np.abs(bent) <= MOST_BENT * np.abs(way), bent, 0.0)
        slack = still.slack_of(sums)
        more[active] = np.where(slack > AGREED_NATS, np.minimum(2 * slack, CLOSE_NATS), 0.0) / slope
        epsilon[active] = np.maximum(here + way, 0.0)
        moving = (np.abs(way) > NEAR * here) & ~((here == 0) & (way <= 0)) & np.isfinite(way)
        if not np.any(moving):
            break
        if not np.all(moving):
            active = active[moving]
            still = line.of_rows(active)
    epsilon = np.where(epsilon > 0, epsilon * (1 + SAFE) + more, 0.0)
    sums = line.sums(epsilon)
    slope = SLOPE_SHARE * np.nan_to_num(line.slope_of(sums))
    room = np.log1p(slope * -np.expm1(-np.maximum(accuracy * epsilon, EXACT_AT_ZERO)))
    is_near = (line.lower(epsilon, sums) + room >= goal) | (epsilon == 0)
    return epsilon, is_near & (line.upper(epsilon, sums) <= goal)


# δ at ε ---------------------------------------------------------------------------------------------------------------


def log_delta_of_rows(rows: Rows, epsilon: Array, accuracy: float = EXACTLY) -> Array:
    """Return log δ at ε in every row, rounded up; NaN where that is not settled: to `accuracy`, a share of ε."""
    share = accuracy if accuracy > EXACTLY else EXACT_SHARE  # what is nothing to ε moves log δ further
    found = np.full(len(rows), np.nan)
    todo = np.flatnonzero((epsilon >= 0) & (epsilon < rows.supremum))
    sight, start = np.full(len(todo), FIRST_LOG_DELTA), None
    for _ in range(ROUNDS if len(todo) else 0):
        some, here = leave_out_of_rows(rows.of_rows(todo), sight), epsilon[todo]
        around = saddles_for_epsilon(some, here)
        asked = Asked(here, around.log_delta_near(here) if start is None else start)
        high, enough, low = np.zeros(len(todo)), np.zeros(len(todo)), np.full(len(todo), -np.inf)
        for group, line in shared_lines(some, around, asked, accuracy):
            sums = line.sums(here[group])
            high[group] = np.minimum(line.upper(here[group], sums), 0.0)
            low[group] = line.lower(here[group], sums)
            enough[group] = np.maximum(CLOSE_NATS, np.nan_to_num(line.slope_of(sums) * share * here[group]))
        in_sight = (some.log_left_out <= low + LEFT_OUT_NATS) | (accuracy > EXACTLY)
        is_settled = (high - low <= enough) & in_sight
        found[todo[is_settled]] = high[is_settled]
        sight = np.where(low > -np.inf, low, 2 * np.minimum(high, FIRST_LOG_DELTA / 2))[~is_settled]
        todo, start = todo[~is_settled], np.minimum(high, -1e-9)[~is_settled]
        if not len(todo):
            break
    return found


# Lines ----------------------------------------------------------------------------------------------------------------


def shared_lines(rows: Rows, around: Saddles, asked: Asked, accuracy: float) -> Iterator[tuple[Indices, Contour]]:
    """Yield groups of rows with the line they share; rows without a line that can be afforded are left out."""
    nats = tail_nats(accuracy)
    for group, plan in _plan_rows(around, asked, nats):
        k = around.k[group, plan.index - around.index]
        height = np.maximum(k - plan.theta * asked.epsilon[group] - asked.log_delta[group], 0.0)
        some = rows.of_rows(group)
        for end in affordable_ends(some, plan, height + nats):
            with contextlib.suppress(OutOfReach):
                for piece in np.array_split(end.rows, math.ceil(len(end.rows) * end.points / NUMBERS)):
                    here = some.of_rows(piece)
                    line = here.line((plan.index, plan.eta, end.points))
                    tail = end.tails[np.searchsorted(end.rows, piece)]
                    contour = Contour.of((plan.theta, plan.eta), line, tail, (around.theta, around.k[group[piece]]))
                    yield group[piece], contour.less_certain(0.0, here.log_left_out)


def affordable_ends(rows: Rows, plan: Plan, below: Array, most: int = MOST_SHARED_POINTS) -> list[End]:
    """Return groups of rows with their ends, within `most` points and the nodes that these may take."""
    nodes = NODES_PER_POINT * most * (1 + len(rows.pairs) / 4)  # a part may take a while
    try:
        a, b = rows.effort(plan.index)
        return ends_of(rows, plan, below, min(most * plan.eta, (nodes - a) / b if b > 0 else math.inf))
    except OutOfReach:
        return []


def _plan_rows(t: Saddles, asked: Asked, nats: float) -> list[tuple[Indices, Plan]]:
    """Return groups of rows with their line: rows whose bounds nearly agree take the line of one of them."""
    bounds = t.k - t.theta * asked.epsilon[:, None] - asked.log_delta[:, None] + log_chernoff(t.theta)
    saddle = np.argmin(bounds, axis=1)[:, None]
    around = np.clip(saddle + np.arange(-1, 2) * PER_OCTAVE, 0, len(t.theta) - 1)
    about = np.log(np.clip(np.nan_to_num(np.take_along_axis(bounds, around, axis=1), nan=np.inf), 1e-3, 1e15))
    kinds = np.column_stack([saddle, np.floor(about / ALIKE)])
    _, some, which = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
    plans: dict[tuple[int, float], tuple[Plan, list[int]]] = {}
    apart = PLANNED_TILTS if nats >= TAIL_NATS else 2 * PLANNED_TILTS  # a coarser answer may lie lower: fewer lines
    for kind, row in enumerate(some.tolist()):
        question = float(asked.epsilon[row]), float(asked.log_delta[row])
        with contextlib.suppress(OutOfReach):
            plan = plan_for(t.of_row(row, *question), nats, apart)
            plans.setdefault((plan.index, plan.eta), (plan, []))[1].append(kind)
    return [(np.flatnonzero(np.isin(which.reshape(-1), kinds)), plan) for plan, kinds in plans.values()]


# A single question ----------------------------------------------------------------------------------------------------


def rough_epsilon(directions: Directions, log_delta: float, accuracy: float) -> Inversion | None:
    """Return ε of one run, rounded up, at most a share `accuracy` of it above the truth; None where no row says so."""
    worst = _worst_of_rows(directions, lambda row: epsilon_of_rows(row, np.array([log_delta]), accuracy))
    return None if math.isnan(worst) else Inversion(worst, 0.0, "contour", accuracy)


def rough_log_delta(directions: Directions, epsilon: float, accuracy: float) -> Inversion | None:
    """Return log δ of one run, rounded up; how far that moves ε is about a share `accuracy`, and not proven."""
    worst = _worst_of_rows(directions, lambda row: log_delta_of_rows(row, np.array([epsilon]), accuracy))
    return None if math.isnan(worst) else Inversion(worst, 0.0, "contour", 1.0)


def _worst_of_rows(directions: Directions, answer: Callable[[Rows], Array]) -> float:
    """Return the largest answer over directions; NaN where one of them is not settled."""
    rows = [multiples_of(direction, np.ones(1)) for direction in directions]
    with contextlib.suppress(OutOfReach):
        return float(np.max([answer(row)[0] if fit[0] else math.nan for row, fit in rows]))
    return math.nan
