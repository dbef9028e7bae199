"""The short way for the question that is asked most: Gaussian noise on a Poisson sample, released many times.

One set of cells (`cumulant.pairs.sampled_gaussian`) serves K at real tilts, the place of the line and its end, and
where many releases make up δ the line is short. Where it is not, or its bounds are not near enough, there is the long
way (`cumulant.inversion.solve`), which knows all pairs.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.contour import EXACT_NATS, EXACT_SHARE, SMALLEST_LOG_DELTA, Contour, log_chernoff, meet_exactly
from cumulant.inversion.joining import joining_epsilon, joining_log_delta
from cumulant.inversion.mirrored import mirrored_epsilon, mirrored_log_delta
from cumulant.inversion.plan import Tilts, approximate, curvature_of, plan_for
from cumulant.inversion.rare import rare_epsilon, rare_log_delta
from cumulant.numerics.logspace import Array
from cumulant.pairs.sampled_gaussian import (
    EXPONENT_AT_MOST,
    FarCut,
    Nodes,
    SampledGaussian,
    TiltedLaw,
    bound_end,
    is_fine,
    width_of_cells,
)

FALLEN_NATS = 32.0  # below δ, to which tail and quadrature are pushed: 1e-14
BEYOND_NATS = 10.0  # more, beyond which nodes end
LEFT_NATS = 1e-11  # by which δ is more than what is left of it by a cut
TILTS = 2.0 ** (np.arange(-32.0, 32.0) / 8)  # over the tilt of a normal loss
NEAR_TILTS = TILTS[8:41:2]  # of those, where saddles mostly are
FEW_TILTS = TILTS[12:36:3]  # for a first look
DELTA_GUESSES = 2  # of log δ
GUESSED_SHARES = (1.0, 0.3)  # of the tilt of a normal loss, around which it is looked for
FEWEST_TILTS = 8  # of those, that are within reach
UNCUT = 30.0  # t up to which a saddle needs no cut, and up to which a first look goes
FARTHEST = 60.0  # t of the last node
LEAST_ASKED = 1e-9  # ε, or -log δ
LEAST_COUNT, LARGEST_COUNT = 2, 10**7  # of releases, between which lines are short and roundings few
MOST_CELLS = 1500  # of one direction
MOST_RULE_POINTS = 1500  # of the rule, and points of the line
ROOM = 3  # times that, and the slack: where ε is found this way δ(ε) is to be found, too
ANOTHER_LINE_NATS = 0.5  # of log δ, by which a guess of it may be off
MOST_KEPT = 4096  # answers, a few hundred bytes each


@lru_cache(maxsize=MOST_KEPT)
def shortest_epsilon(releases: SampledGaussian, log_delta: float) -> float | None:
    """Return the smallest ε with δ(ε) <= δ in both directions, rounded up; None where the way is not that short.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  within 1e-9 of what both pairs need, or 1e-12.
    """
    if not _is_ordinary(releases) or not SMALLEST_LOG_DELTA < log_delta < -LEAST_ASKED:
        return None
    with contextlib.suppress(OutOfReach):
        leaving = _leaving(releases, log_delta)
        if leaving is None or leaving.way is _Way.MIRROR:  # which knows both directions
            return None if leaving is None else leaving.epsilon
        return _joining(releases, log_delta, leaving.epsilon)
    return None


class _Way(Enum):
    """How an answer was found: on a line, in the mirror, or from releases sorted by size."""

    LINE = auto()
    MIRROR = auto()
    SORTED = auto()


class _Leaving(NamedTuple):
    """The ε of a δ when a record leaves, and how it was found."""

    epsilon: float
    way: _Way


@lru_cache(maxsize=MOST_KEPT)
def _leaving(releases: SampledGaussian, log_delta: float) -> _Leaving | None:
    for look in (NEAR_LOOK, LAST_LOOK):
        direction = _Direction.at(releases, True, log_delta, look)
        epsilon = None if direction is None else direction.epsilon(log_delta)
        if epsilon is not None:
            return _Leaving(epsilon, _Way.LINE)
    for way, ask in ((_Way.MIRROR, mirrored_epsilon), (_Way.SORTED, rare_epsilon)):
        epsilon = ask(releases, log_delta)
        if epsilon is not None:
            return _Leaving(epsilon, way)
    return None


def _joining(releases: SampledGaussian, log_delta: float, least: float) -> float | None:
    """Return the larger of an ε and of that when a record joins."""
    for look in (FIRST_LOOK, NEAR_LOOK, LAST_LOOK):
        direction = _Direction.at(releases, False, log_delta, look)
        if direction is not None and direction.ceiling(log_delta) <= least:  # by Chernoff's bound
            return least
        epsilon = None if direction is None or look is FIRST_LOOK else direction.epsilon(log_delta, least)
        if epsilon is not None:
            return max(epsilon, least)
    epsilon = joining_epsilon(releases, log_delta, least)
    return None if epsilon is None else max(epsilon, least)


@lru_cache(maxsize=MOST_KEPT)
def shortest_log_delta(releases: SampledGaussian, epsilon: float) -> float | None:
    """Return log δ(ε), the larger of both directions, rounded up; None where the way is not that short.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  so near that ε would be within 1e-9 of what both pairs need, or 1e-12.
    """
    if not _is_ordinary(releases) or not 0 <= epsilon < math.inf:
        return None
    with contextlib.suppress(OutOfReach):
        if epsilon <= LEAST_ASKED:  # where no line is planned: ε at this δ is 0, or next to it, on any way
            return mirrored_log_delta(releases, epsilon)
        worst = _worst_log_delta(releases, epsilon)
        # an ε that took the long way agrees with a δ that takes it
        return None if worst is None or shortest_epsilon(releases, worst) is None else worst
    return None


def _worst_log_delta(releases: SampledGaussian, epsilon: float) -> float | None:
    found = _leaving_log_delta(releases, epsilon)
    if found is None:
        return None
    leaving, way = found
    if way is _Way.MIRROR:  # which knows both directions
        return leaving
    joining = _Direction.log_delta(releases, False, leaving, epsilon, leaving)
    if joining is None:
        joining = joining_log_delta(releases, epsilon, leaving)
    return None if joining is None else max(leaving, joining)


def _leaving_log_delta(releases: SampledGaussian, epsilon: float) -> tuple[float, _Way] | None:
    """Return log δ(ε) when a record leaves, by the way on which ε at that δ is found, so that both agree."""
    about = _guess_log_delta(releases, epsilon)
    for way in _Way:
        if way is _Way.MIRROR:
            log_delta = mirrored_log_delta(releases, epsilon)
        elif way is _Way.SORTED:
            log_delta = rare_log_delta(releases, epsilon, about)
        else:
            log_delta = _on_a_line(releases, about, epsilon)
        leaving = None if log_delta is None else _leaving(releases, log_delta)
        if log_delta is not None and leaving is not None and leaving.way is way:
            return log_delta, way
    return None


def _on_a_line(releases: SampledGaussian, about: float | None, epsilon: float) -> float | None:
    """Return log δ(ε), about so much, when a record leaves: on the line on which ε at that δ is found."""
    found = None if about is None else _Direction.log_delta(releases, True, about, epsilon)
    if found is None or about is None or abs(found - about) <= ANOTHER_LINE_NATS:
        return found
    return _Direction.log_delta(releases, True, found, epsilon)


def _guess_log_delta(releases: SampledGaussian, epsilon: float) -> float | None:
    """Return about log δ(ε), so that its line will be the one on which ε at that δ is found."""
    deviation = releases.deviation
    above = min(max(epsilon / deviation - deviation / 2, 0.0), 1e9)  # standard deviations of one Gaussian
    about = -0.5 * above * above - BEYOND_NATS
    for turn in range(DELTA_GUESSES):
        if not SMALLEST_LOG_DELTA < about < -LEAST_ASKED:
            return None
        tilt = math.sqrt(-2 * about) / deviation if turn else max(epsilon / deviation**2, 0.5)
        tried = ((tilt * share, look) for share in GUESSED_SHARES for look in (NEAR_LOOK, LAST_LOOK))
        looks = (_Direction.of(releases, True, first, about, look) for first, look in tried)
        points = (direction.saddle(epsilon=epsilon) for direction in looks if direction is not None)
        point = next((point for point in points if point is not None), None)
        if point is None:
            return None
        about = point[1]
    return about if SMALLEST_LOG_DELTA < about < -LEAST_ASKED else None


def _is_ordinary(releases: SampledGaussian) -> bool:
    return releases.is_ordinary and LEAST_COUNT <= releases.count <= LARGEST_COUNT


class _Look(NamedTuple):
    """Tilts, over that of a normal loss, and how far nodes may go; beyond UNCUT far losses may be cut off."""

    tilts: Array
    farthest: float


FIRST_LOOK, NEAR_LOOK, LAST_LOOK = _Look(FEW_TILTS, UNCUT), _Look(NEAR_TILTS, UNCUT), _Look(TILTS, FARTHEST)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Direction:
    """All releases, the record leaves or joins: cells, and nK, nK' and nK'' at tilts τ."""

    law: SampledGaussian
    leaves: bool
    cut: FarCut | None
    reach: float  # standard deviations beyond which nothing is left
    cells: Nodes
    tau: Array
    k: Array  # raised: rounding and quadrature are far below
    lift: Array  # nats by which the end of a cut raised that of one release
    slope: Array
    bend: Array

    @staticmethod
    def at(law: SampledGaussian, leaves: bool, log_delta: float, look: _Look) -> _Direction | None:
        """Return cells for the tilts of a δ."""
        return _Direction.of(law, leaves, math.sqrt(-2 * log_delta) / law.deviation, log_delta, look)

    @staticmethod
    def of(law: SampledGaussian, leaves: bool, first_tilt: float, log_delta: float, look: _Look) -> _Direction | None:
        """Return cells for tilts around the first; None where they would be many."""
        tau, n = look.tilts * first_tilt, law.count
        reach = math.sqrt(2 * (FALLEN_NATS + BEYOND_NATS + math.log(n) - float(tau[-1]) * math.log1p(-law.rate)))
        cut, least = None, law.mean + reach
        if first_tilt * law.mean + least > UNCUT and look.farthest > UNCUT:
            by_tilt = FarCut.of_leaving(law, log_delta, first_tilt, least)
            cut = by_tilt if leaves else FarCut.of_joining(law, log_delta, least)
        if leaves and cut is None:
            tau = tau[: tau.searchsorted((look.farthest - reach) / law.mean - 1)]
        if len(tau) < FEWEST_TILTS:
            return None
        last = _last_node(law, leaves, cut, reach, float(tau[-1]))
        if not law.mean * last < EXPONENT_AT_MOST or not last <= FARTHEST:
            return None
        width = width_of_cells(law, cut)
        if not reach + last < MOST_CELLS * width:
            return None
        if not is_fine(law, cut, 0.0 if leaves else float(tau[-1]), FALLEN_NATS + BEYOND_NATS):
            return None
        cells = Nodes.on(law, cut, width, (-reach, last))
        losses = cells.log_w if leaves else -cells.log_w
        logs = tau[:, None] * losses
        logs += cells.log_q + (cells.log_w if leaves else 0.0) + cells.log_kept
        ends, top = logs[:, -1].copy(), logs.max(axis=1)
        logs -= top[:, None]
        masses = np.exp(logs, out=logs)
        total, slope, bend = (masses @ np.array([np.ones(len(losses)), losses, losses * losses]).T).T
        slope, bend = slope / total, bend / total
        bend = np.maximum(bend - slope * slope, 0.0)
        k = np.log(total) + top
        k += 1e-11 * np.abs(k) + 1e-13
        lift = np.zeros(len(tau))
        if cut is not None:  # what is next to its end counts whole
            lift = np.logaddexp(0.0, ends + bound_end(law, cut, cells, tau) - k)
        return _Direction(law, leaves, cut, reach, cells, tau, n * (k + lift), lift, n * slope, n * bend)

    def ceiling(self, log_delta: float) -> float:
        """Return Chernoff's bound of ε at a δ that cuts leave out next to nothing of."""
        left = log_delta if self.cut is None else log_delta - LEFT_NATS
        bound = float(np.min((log_chernoff(self.tau) + self.k - left) / self.tau))
        return bound + 1e-9 * abs(bound)

    def log_ceiling(self, epsilon: float) -> float:
        """Return Chernoff's bound of log δ(ε), with what is cut off."""
        bound = float(np.min(log_chernoff(self.tau) + self.k - self.tau * epsilon)) + 1e-9
        return bound if self.cut is None else float(np.logaddexp(bound, self.cut.log_left_out)) + 1e-9

    def saddle(self, *, log_delta: float | None = None, epsilon: float | None = None) -> tuple[float, float] | None:
        """Return ε and log δ, one asked for, the other by the saddle-point approximation; None if no tilt is near."""
        tau = self.tau
        logs, at = approximate(tau, self.k, self.slope, self.bend)
        away = logs - log_delta if log_delta is not None else at - (epsilon or 0.0)
        place = int(np.argmin(np.abs(away)))
        if not 0 < place < len(tau) - 1:
            return None
        tilt, here, there = float(tau[place]), float(logs[place]), float(at[place])
        width = float(curvature_of(tau[place], self.bend[place]))
        if log_delta is not None:  # -log δ grows by τx + x²/2F'' next to the ε of a tilt
            above = here - log_delta
            epsilon = there + 2 * above / (tilt + math.sqrt(max(tilt * tilt + 2 * above / width, 0.0)))
        assert epsilon is not None
        log_delta = here - (epsilon - there) * (tilt + (epsilon - there) / (2 * width))
        return (epsilon, log_delta) if epsilon > 0 > log_delta else None

    def contour(self, epsilon: float, log_delta: float, most: int) -> Contour | None:
        """Return the line near a point of the profile; None where it would take more nodes, or points."""
        law, plan = (
            self.law,
            plan_for(Tilts(0, self.tau, self.k, curvature_of(self.tau, self.bend), epsilon, log_delta)),
        )
        last = _last_node(law, self.leaves, self.cut, self.reach, plan.theta)
        s, k = (1 + plan.theta if self.leaves else -plan.theta), float(self.k[plan.index]) / law.count
        tilted = TiltedLaw.of(law, self.cut, s, self.cells.up_to(last), k)
        start = math.sqrt(2 * (plan.height + FALLEN_NATS) / max(float(self.bend[plan.index]), 1e-300))
        end = tilted.end(plan.eta, plan.negligible, start)
        if end is None or not end[0] < most * plan.eta:
            return None
        count = math.ceil(end[0] / plan.eta) + 1
        rule = tilted.rule(plan.eta * count, FALLEN_NATS + math.log(law.count))
        if rule is None or not self.reach + last < most * rule[0]:
            return None
        nodes = Nodes.on(law, self.cut, rule[0], (-self.reach, last))
        # the rule is off by a share of the raised moment, which is more of the moment itself
        line = tilted.log_moments(nodes, (plan.eta, count), math.exp(rule[1] + float(self.lift[plan.index])))
        if line is None or not line[2] <= ROOM * EXACT_NATS:
            return None
        contour = Contour.of((plan.theta, plan.eta), line[:2], end[1], (self.tau, self.k))
        return contour.less_certain(line[2], -math.inf if self.cut is None else self.cut.log_left_out)

    def epsilon(self, log_delta: float, least: float = 0.0) -> float | None:
        """Return the ε of a δ in this direction, or `least` if that is enough."""
        point = self.saddle(log_delta=log_delta)
        contour = None if point is None else self.contour(*point, MOST_RULE_POINTS)
        if point is None or contour is None:
            return None
        # δ(ε), on a line of its own, may be that much above
        if least > 0 and contour.log_upper(least)[0] <= log_delta - ROOM * EXACT_NATS:
            return least
        return meet_exactly(contour, point[0], log_delta, apart=0.0)

    @staticmethod
    def log_delta(
        law: SampledGaussian, leaves: bool, about: float, epsilon: float, least: float = -math.inf
    ) -> float | None:
        """Return log δ(ε), or a bound that is at most `least`; None where it is not known well enough."""
        for look in (NEAR_LOOK, LAST_LOOK):
            direction = _Direction.at(law, leaves, about, look)
            if direction is not None and (ceiling := direction.log_ceiling(epsilon)) <= least:  # by Chernoff's bound
                return ceiling
            point = None if direction is None else direction.saddle(epsilon=epsilon)
            contour = None if direction is None or point is None else direction.contour(*point, ROOM * MOST_RULE_POINTS)
            if contour is None:
                continue
            (low, high), slope = contour.log_bounds(epsilon), contour.log_upper(epsilon)[1]
            if high - low <= min(ROOM * EXACT_NATS, -EXACT_SHARE * slope * epsilon):
                return min(high, 0.0)
        return None


def _last_node(law: SampledGaussian, leaves: bool, cut: FarCut | None, reach: float, tilt: float) -> float:
    """Return where nodes may end: the tilted law is gone, and so is N(μ, 1)."""
    if cut is not None:
        return cut.last
    return reach + law.mean * (1 + tilt if leaves else 1.0)
