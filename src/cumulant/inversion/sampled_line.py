"""The plain line of Gaussian noise on Poisson samples: all losses that δ can see, in one direction of the neighbours.

Of each law one set of cells (`cumulant.pairs.sampled_gaussian`) serves K at real tilts, the place of the line and its
end. K of all releases is the sum of theirs. Where many releases make up δ the line is short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.inversion.contour import (
    EXACT_NATS,
    EXACT_SHARE,
    SMALLEST_LOG_DELTA,
    Contour,
    log_chernoff,
    meet_exactly,
)
from cumulant.inversion.plan import Plan, Tilts, approximate, curvature_of, plan_for
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.sampled_gaussian import (
    EXPONENT_AT_MOST,
    ROUNDING,
    FarCut,
    Nodes,
    SampledGaussian,
    SampledReleases,
    TiltedLaw,
    bound_end,
    end_of_line,
    is_fine,
    log_moments_of,
    width_of_cells,
)

LINE_NATS = 32.0  # below δ, to which tail and quadrature are pushed: 1e-14
NODES_BEYOND_NATS = 10.0  # more, beyond which nodes end
OUT_OF_SIGHT_NATS = 27.7  # below δ, what a cut may leave out: 1e-12
LEFT_NATS = 1e-11  # by which δ is more than what is left of it by a cut
TILTS = 2.0 ** (np.arange(-32.0, 32.0) / 8)  # over the tilt of a normal loss
NEAR_TILTS = TILTS[8:41:2]  # of those, where saddles mostly are
FEW_TILTS = TILTS[12:36:3]  # for a first look
FEWEST_NEAR_TILTS = 8  # of those, that are within reach
UNCUT = 30.0  # t up to which a saddle needs no cut, and up to which a first look goes
FARTHEST = 60.0  # t of the last node
MOST_LAW_CELLS = 1500  # of one law in one direction
SHARED_NATS = 3 * EXACT_NATS  # error of K that all points of a line may have in common
MOST_LIFTED_NATS = 1.0  # by which K at real tilts may be above what is followed
DELTA_GUESSES = 2  # of log δ
GUESSED_SHARES = (1.0, 0.3)  # of the tilt of a normal loss, around which it is looked for
LEAST_NATS = 1e-9  # of -log δ, for which a line is planned
MOST_RULE_POINTS = 1500  # of the rule of a law, and of a line, where ε is asked for
ROOM = 3  # times that: where ε is found this way δ(ε) is to be found, too
ANOTHER_LINE_NATS = 0.5  # of log δ, by which a guess of it may be off


class Look(NamedTuple):
    """Tilts, over that of a normal loss, and how far nodes may go; beyond UNCUT far losses may be cut off."""

    tilts: Array
    farthest: float


FIRST_LOOK, NEAR_LOOK, LAST_LOOK = Look(FEW_TILTS, UNCUT), Look(NEAR_TILTS, UNCUT), Look(TILTS, FARTHEST)


class Reach(NamedTuple):
    """What one direction follows of a law: between which places, and a cut beyond which losses are out of sight."""

    law: SampledGaussian
    n: int
    leaves: bool
    cut: FarCut | None
    deviations: float  # beyond which nothing is left

    def last_node(self, tilt: float) -> float:
        """Return where nodes may end: the tilted law is gone, and so is N(μ, 1)."""
        if self.cut is not None:
            return self.cut.last
        return self.deviations + self.law.mean * (1 + tilt if self.leaves else 1.0)

    def is_affordable(self, tilt: float) -> bool:
        """Return whether cells up to a tilt are few, and so narrow that sums over them are K."""
        last, width = self.last_node(tilt), width_of_cells(self.law, self.cut)
        if not self.law.mean * last < EXPONENT_AT_MOST or not last <= FARTHEST:
            return False
        is_short = self.deviations + last < MOST_LAW_CELLS * width
        return is_short and is_fine(self.law, self.cut, 0.0 if self.leaves else tilt, LINE_NATS + NODES_BEYOND_NATS)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LawOnCells:
    """One law on its cells: K, K' and K'' of a release at tilts τ."""

    reach: Reach
    cells: Nodes
    k: Array  # raised: rounding and quadrature are far below
    lift: Array  # nats by which the end of a cut raised it
    slope: Array
    bend: Array

    @staticmethod
    def of(reach: Reach, tau: Array) -> LawOnCells:
        law, cut = reach.law, reach.cut
        ends = -reach.deviations, reach.last_node(float(tau[-1]))
        cells = Nodes.on(law, cut, width_of_cells(law, cut), ends)
        losses = cells.log_w if reach.leaves else -cells.log_w
        logs = tau[:, None] * losses
        logs += cells.log_q + (cells.log_w if reach.leaves else 0.0) + cells.log_kept
        at_end, top = logs[:, -1].copy(), logs.max(axis=1)
        logs -= top[:, None]
        masses = np.exp(logs, out=logs)
        total, slope, bend = (masses @ np.array([np.ones(len(losses)), losses, losses * losses]).T).T
        slope, bend = slope / total, bend / total
        bend = np.maximum(bend - slope * slope, 0.0)
        k = np.log(total) + top
        k += 1e-11 * np.abs(k) + 1e-13
        lift = np.zeros(len(tau))
        if cut is not None:  # what is next to its end counts whole
            lift = np.logaddexp(0.0, at_end + bound_end(law, cut, cells, tau) - k)
        return LawOnCells(reach, cells, k + lift, lift, slope, bend)

    def tilted(self, s: float, theta: float, place: int) -> TiltedLaw:
        cells = self.cells.up_to(self.reach.last_node(theta))
        return TiltedLaw.of(self.reach.law, self.reach.cut, s, cells, float(self.k[place]))


@final
@dataclass(frozen=True, slots=True, eq=False)
class SampledLine:
    """All releases, the record leaves or joins: laws on cells, and K, K' and K'' of all at tilts τ."""

    releases: SampledReleases
    leaves: bool
    laws: tuple[LawOnCells, ...]
    log_left_out: float  # of P, by all cuts together
    tau: Array
    k: Array
    slope: Array
    bend: Array

    @staticmethod
    def at(releases: SampledReleases, leaves: bool, log_delta: float, look: Look) -> SampledLine | None:
        """Return the line's tilts for a δ, around that of a normal loss."""
        return SampledLine.of(releases, leaves, math.sqrt(-2 * log_delta) / releases.deviation, log_delta, look)

    @staticmethod
    def of(
        releases: SampledReleases, leaves: bool, first_tilt: float, log_delta: float, look: Look
    ) -> SampledLine | None:
        """Return the line's tilts around the first; None where cells would be many."""
        tau, log_each = look.tilts * first_tilt, log_delta - OUT_OF_SIGHT_NATS - math.log(releases.count)
        nats = LINE_NATS + NODES_BEYOND_NATS + math.log(releases.count)
        reaches = [
            _reach_of(part, leaves, (first_tilt, float(tau[-1])), (nats, log_each), look) for part in releases.parts
        ]
        if leaves:
            uncut = [(look.farthest - one.deviations) / one.law.mean - 1 for one in reaches if one.cut is None]
            tau = tau[: tau.searchsorted(min(uncut, default=math.inf))]
        if len(tau) < FEWEST_NEAR_TILTS or not all(one.is_affordable(float(tau[-1])) for one in reaches):
            return None
        laws = tuple(LawOnCells.of(one, tau) for one in reaches)
        plain = releases.plain_k(tau), releases.variance * (tau + 0.5), np.full(len(tau), releases.variance)
        k, slope, bend = (
            sum((one.reach.n * getattr(one, name) for one in laws), start)
            for name, start in zip(("k", "slope", "bend"), plain, strict=True)
        )
        is_cut = any(one.reach.cut is not None for one in laws)
        left_out = log_delta - OUT_OF_SIGHT_NATS + math.log(2.0) if is_cut else -math.inf
        return SampledLine(releases, leaves, laws, left_out, tau, k, slope, bend)

    def ceiling(self, log_delta: float) -> float:
        """Return Chernoff's bound of ε at a δ that cuts leave out next to nothing of."""
        left = log_delta if self.log_left_out == -math.inf else log_delta - LEFT_NATS
        bound = float(np.min((log_chernoff(self.tau) + self.k - left) / self.tau))
        return bound + 1e-9 * abs(bound)

    def log_ceiling(self, epsilon: float) -> float:
        """Return Chernoff's bound of log δ(ε), with what is cut off."""
        bound = float(np.min(log_chernoff(self.tau) + self.k - self.tau * epsilon)) + 1e-9
        return bound if self.log_left_out == -math.inf else float(np.logaddexp(bound, self.log_left_out)) + 1e-9

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
        """Return the line near a point of the profile; None where it would take more nodes of a law, or points."""
        plan = plan_for(Tilts(0, self.tau, self.k, curvature_of(self.tau, self.bend), epsilon, log_delta))
        s = 1 + plan.theta if self.leaves else -plan.theta
        tilted = [law.tilted(s, plan.theta, plan.index) for law in self.laws]
        start = math.sqrt(2 * (plan.height + LINE_NATS) / max(float(self.bend[plan.index]), 1e-300))
        cells = [(one.loss_cells(), law.reach.n) for one, law in zip(tilted, self.laws, strict=True)]
        end = end_of_line(cells, self.releases.variance, (plan.eta, plan.negligible, start))
        if end is None or not end[0] < most * plan.eta:
            return None
        count = math.ceil(end[0] / plan.eta) + 1
        followed = self._follow(plan, tilted, count, most)
        if followed is None or not followed[2] <= SHARED_NATS:
            return None
        # the tail was over K as it was raised
        above = max(float(self.k[plan.index]) - float(followed[0][0].real), 0.0) + followed[2]
        if not above < MOST_LIFTED_NATS:
            return None
        tail = end[1] * math.exp(above)
        contour = Contour.of((plan.theta, plan.eta), followed[:2], tail, (self.tau, self.k))
        return contour.less_certain(followed[2], self.log_left_out)

    def _follow(
        self, plan: Plan, tilted: list[TiltedLaw], count: int, most: int
    ) -> tuple[Complex, Array, float] | None:
        """Return K of all releases along the line, with the error of each value and that of all in common."""
        z = plan.theta + 1j * plan.eta * np.arange(float(count))
        k = np.asarray(self.releases.plain_k(z), dtype=complex)
        error, common = 4 * ROUNDING * np.abs(k), 0.0
        for one, law in zip(tilted, self.laws, strict=True):
            reach, n = law.reach, law.reach.n
            rule = one.rule(plan.eta * count, LINE_NATS + math.log(self.releases.count))
            last = reach.last_node(plan.theta)
            if rule is None or not reach.deviations + last < most * rule[0]:
                return None
            nodes = Nodes.on(reach.law, reach.cut, rule[0], (-reach.deviations, last))
            # the rule is off by a share of the raised moment, which is more of the moment itself
            off = math.exp(rule[1] + float(law.lift[plan.index]))
            each = log_moments_of(reach.law, one.s, nodes, (plan.eta, count), off)
            if each is None:
                return None
            k, error, common = k + n * each[0], error + n * each[1], common + n * each[2]
        return k, error, common


def _reach_of(
    part: tuple[SampledGaussian, int],
    leaves: bool,
    tilts: tuple[float, float],
    depths: tuple[float, float],
    look: Look,
) -> Reach:
    """Return how far the losses of a law are followed, for a first tilt and up to the last one.

    `depths` are how many nats nodes go down, and log of what a cut may leave out.
    """
    (law, n), (first_tilt, last_tilt), (nats, log_each) = part, tilts, depths
    deviations = math.sqrt(2 * (nats - last_tilt * math.log1p(-law.rate)))
    cut, least = None, law.mean + deviations
    if first_tilt * law.mean + least > UNCUT and look.farthest > UNCUT:
        by_tilt = FarCut.of_leaving(law, log_each, first_tilt, least)
        cut = by_tilt if leaves else FarCut.of_joining(log_each, least)
    return Reach(law, n, leaves, cut, deviations)


# Searches -------------------------------------------------------------------------------------------------------------


def leaving_epsilon(releases: SampledReleases, log_delta: float) -> float | None:
    """Return the ε of a δ when a record leaves; None where no line is near enough."""
    for look in (NEAR_LOOK, LAST_LOOK):
        line = SampledLine.at(releases, True, log_delta, look)
        epsilon = None if line is None else epsilon_on(line, log_delta)
        if epsilon is not None:
            return epsilon
    return None


def leaving_log_delta(releases: SampledReleases, epsilon: float, about: float | None) -> float | None:
    """Return log δ(ε) when a record leaves, on the line on which ε at that δ is found; `about` is a guess of it."""
    found = None if about is None else log_delta_on(releases, True, about, epsilon)
    if found is None or about is None or abs(found - about) <= ANOTHER_LINE_NATS:
        return found
    return log_delta_on(releases, True, found, epsilon)


def saddle_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    """Return about log δ(ε), so that its line will be the one on which ε at that δ is found."""
    deviation = releases.deviation
    above = min(max(epsilon / deviation - deviation / 2, 0.0), 1e9)  # standard deviations of one Gaussian
    about = -0.5 * above * above - NODES_BEYOND_NATS
    for turn in range(DELTA_GUESSES):
        if not SMALLEST_LOG_DELTA < about < -LEAST_NATS:
            return None
        tilt = math.sqrt(-2 * about) / deviation if turn else max(epsilon / deviation**2, 0.5)
        tried = ((tilt * share, look) for share in GUESSED_SHARES for look in (NEAR_LOOK, LAST_LOOK))
        looks = (SampledLine.of(releases, True, first, about, look) for first, look in tried)
        points = (direction.saddle(epsilon=epsilon) for direction in looks if direction is not None)
        point = next((point for point in points if point is not None), None)
        if point is None:
            return None
        about = point[1]
    return about if SMALLEST_LOG_DELTA < about < -LEAST_NATS else None


def epsilon_on(line: SampledLine, log_delta: float, least: float = 0.0) -> float | None:
    """Return the ε of a δ in this direction, or `least` if that is enough."""
    point = line.saddle(log_delta=log_delta)
    contour = None if point is None else line.contour(*point, MOST_RULE_POINTS)
    if point is None or contour is None:
        return None
    # δ(ε), on a line of its own, may be that much above
    if least > 0 and contour.log_upper(least)[0] <= log_delta - SHARED_NATS:
        return least
    return meet_exactly(contour, point[0], log_delta, apart=0.0)


def log_delta_on(
    releases: SampledReleases, leaves: bool, about: float, epsilon: float, least: float = -math.inf
) -> float | None:
    """Return log δ(ε), or a bound that is at most `least`; None where it is not known well enough."""
    for look in (NEAR_LOOK, LAST_LOOK):
        line = SampledLine.at(releases, leaves, about, look)
        if line is not None and (ceiling := line.log_ceiling(epsilon)) <= least:  # by Chernoff's bound
            return ceiling
        point = None if line is None else line.saddle(epsilon=epsilon)
        contour = None if line is None or point is None else line.contour(*point, ROOM * MOST_RULE_POINTS)
        if contour is None:
            continue
        (low, high), slope = contour.log_bounds(epsilon), contour.log_upper(epsilon)[1]
        if high - low <= min(SHARED_NATS, -EXACT_SHARE * slope * epsilon):
            return min(high, 0.0)
    return None
