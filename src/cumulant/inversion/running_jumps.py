"""Jumps of a composition that grows: few releases, or rare ones, each of which is followed once.

With the cuts of `cumulant.inversion.jumps` fixed for all releases, whatever they are, everything that δ takes is a sum
over them: log S and log(1 + J/S) along the line and at the tilts of Chernoff's bounds, the same of bounds of |J| for
the tail, K of quiet losses, and normal tails for far ones. So a release more takes its own values, and nothing else.

The tail is not that of a standing line: |M - S| <= Π (S_i(θ) + |J_i|)^{n_i} - Π S_i(θ)^{n_i} grows with the number of
releases, and is added up anew at every question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs, Parts
from cumulant.inversion.contour import EXACT_SHARE, Contour
from cumulant.inversion.enclosure import meet
from cumulant.inversion.far import LEVELS, MOST_LEVELS, UNLIKELY_NATS, Far, sure_loss
from cumulant.inversion.jumps import (
    FARTHEST_TILT,
    MOST_JUMP_POINTS,
    NATS_PER_TILT,
    QUIET_NATS,
    UNPLANNED_OCTAVES,
    CutLosses,
    FollowedRelease,
    JumpsInDoubles,
    Quiet,
    follow_release,
    frequencies_of_jumps,
    subtract_quiet,
    tails_of_jumps,
)
from cumulant.inversion.plan import Tilts, plan_for
from cumulant.inversion.solve import AGREED_NATS, SLACKS
from cumulant.inversion.unseen import LOG_SHARE
from cumulant.numerics.compensated import ADDED_UP, CompensatedSum
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.numerics.rounding import HALF_ULP
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.grid import PER_OCTAVE
from cumulant.pairs.jump_law import (
    JumpLaw,
    Jumps,
    bound_leak,
    bound_negative_cgf,
    cut_far,
    cut_masses,
    has_jumps,
    log_w,
)
from cumulant.pairs.jump_line import TiltedJumps
from cumulant.pairs.pair import DominatingPair

SPARE_JUMPS = 2  # times as many releases as there are, up to which cuts are kept
STANDING_REACH = 1.4  # times ε, up to which losses beyond far cuts count as larger than ε
REPRESENTATIVES = 4  # releases, in place of all, that a plan is made of: any plan is sound

MOST_STANDING_RELEASES = 20_000  # whose bounds are added up
ROUNDED = 4 * MOST_STANDING_RELEASES * HALF_ULP  # relative error of a plain sum of so many, and of their products


@final
@dataclass(frozen=True, slots=True)
class JumpCuts:
    """How releases are cut, far out and between quiet losses and jumps; see `cut_far` and `JumpLaw.split`."""

    epsilon: float
    tilt: float
    log_each: float
    made_up: float  # what all other losses can make up for, or are likely to
    largest: float  # quiet loss
    log_rest: float  # of quiet losses of one release, that are not followed

    @property
    def reach(self) -> float:
        return STANDING_REACH * self.epsilon

    def far(self, pair: CoordinatePair) -> CoordinatePair:
        return cut_far(pair, self.tilt, self.log_each, self.reach + self.made_up, self.log_each - self.epsilon)


@final
@dataclass(frozen=True, slots=True, eq=False)
class JumpLine:
    """Where a line is: tilts τ of which the first so many are planned, θ the one at `place`; η, points, and e^scale."""

    tau: Array
    planned: int
    place: int
    eta: float
    count: int
    scale: float
    end: int  # the first frequency that is left out

    @property
    def theta(self) -> float:
        return float(self.tau[self.place])


@final
class FarSums:
    """Sums of what far losses take; see `Far` and `sure_loss`."""

    __slots__ = ("_at", "_cuts", "_k", "_leak", "_least", "_level", "_logs", "_sizes")

    def __init__(self, cuts: JumpCuts) -> None:
        self._cuts = cuts
        self._level = UNLIKELY_NATS - math.log(min(cuts.reach, 1.0))
        self._at = np.geomspace(1.0, MOST_LEVELS, LEVELS) * self._level / max(cuts.made_up, 1e-280)
        self._k = CompensatedSum((LEVELS,))
        self._least = self._leak = 0.0
        self._logs, self._sizes = CompensatedSum((2,)), np.zeros(2)

    def add(self, pair: CoordinatePair, n: int) -> None:
        """Add a release that is cut."""
        (q, more), rate = cut_masses(pair), pair.sampling.rate
        self._logs.add(n * np.array([math.log1p(-q), math.log1p((rate * q - more) / (1 - q))]))
        self._sizes = self._sizes + n * np.array([q + more, q])
        self._leak += n * bound_leak(pair, self._cuts.reach + self._cuts.made_up)
        self._least -= n * math.log1p(-rate) * (1 + 1e-12)
        self._k.add(n * bound_negative_cgf(pair, self._at))

    def far(self) -> Far | None:
        """Return far losses; None where others can make up for more than cuts were made for.

        Others lose Σ log(1-γ_i) at least, and less than -r with a probability of at most e^{K(-τ) - τr} under Q.
        """
        made_up, unlikely = self._cuts.made_up, 0.0
        if self._least > made_up:
            if float(np.min(self._k.total + self._level - self._at * made_up)) + 1e-9 > 0:
                return None
            unlikely = math.exp(-self._level)
        near, nearer = self._logs.total.tolist()
        with_p, with_q = (self._sizes * (1 + 1e-12)).tolist()
        leak = (self._leak + unlikely * with_q) * (1 + 1e-12)
        return Far(near, nearer, (with_p, with_q), self._cuts.reach, leak)


@final
class StandingJumps:
    """A line of jumps with all releases so far added up.

    Holds for:  sampled Gaussian noise in one direction of the neighbours, distinct or not; adaptive composition.
    Tightness:  an ε is returned only if the same line proves that 1e-9 of it less would not do.
    """

    __slots__ = ("_at_tilts", "_cuts", "_far", "_line", "_moduli", "_quiet", "_rest", "_values", "most")

    def __init__(self, cuts: JumpCuts, line: JumpLine, most: int) -> None:
        self._cuts, self._line, self.most = cuts, line, most
        self._far = FarSums(cuts)
        self._quiet, self._rest = np.zeros((2, len(line.tau))), 0.0  # K of quiet losses, and Σ |K|: any may be inf
        self._at_tilts = np.zeros((3, line.planned))  # log S and its size, and log(1 + J/S)
        self._moduli = np.zeros(len(frequencies_of_jumps(line.eta)))
        self._values = CompensatedSum((6, line.count))

    @staticmethod
    def planned(releases: Mapping[DominatingPair, int], epsilon: float, log_delta: float) -> StandingJumps | None:
        """Return a line for about this ε, with room for as many releases more, and with all releases added."""
        number = sum(releases.values())
        if number * SPARE_JUMPS > MOST_STANDING_RELEASES or not all(map(has_jumps, releases)) or not epsilon > 0:
            return None
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                plan = _plan(_represent(releases), epsilon, log_delta)
                if plan is None:
                    return None
                found = StandingJumps(*plan, SPARE_JUMPS * number)
                found.add(releases)
            except OutOfReach:
                return None
        return found

    def add(self, releases: Mapping[DominatingPair, int]) -> None:
        for pair, n in releases.items():
            if not has_jumps(pair):
                raise OutOfReach("a release has no jumps")
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                self._add(self._cuts.far(pair), n)

    def _add(self, pair: CoordinatePair, n: int) -> None:
        line, law = self._line, JumpLaw.of(pair)
        jump, exponents = law.split(self._cuts.largest), law.tilt(line.tau)
        quiet, rest = jump.bound_quiet(exponents, self._cuts.log_rest)
        log_s, log_j = jump.log_moments(line.tau[: line.planned], exponents[: line.planned])
        tilted = TiltedJumps.of(jump, line.theta)
        moduli = tilted.log_moduli(frequencies_of_jumps(line.eta))
        each = follow_release(tilted, (line.eta, line.count))
        self._far.add(pair, n)
        self._quiet += n * np.array([quiet, np.abs(quiet)])
        self._rest += n * max(rest, 5e-324)  # what underflows is not nothing
        self._at_tilts += n * np.array([log_s, np.abs(log_s), np.logaddexp(0.0, log_j - log_s)])
        self._moduli += n * np.logaddexp(0.0, moduli - log_s[line.place])
        parts = each.log_s.real, each.log_s.imag, each.growth.real, each.growth.imag, each.error, each.farther
        self._values.add(n * np.array(parts, dtype=np.float64))

    def enclosure(self) -> JumpsInDoubles | None:
        """Return δ(ε) between its bounds; None where far losses were cut for fewer releases."""
        line, far = self._line, self._far.far()
        if far is None:
            return None
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            log_s = self._at_tilts[0] + ROUNDED * self._at_tilts[1]
            k = log_s + log_expm1(self._at_tilts[2] * (1 + ROUNDED))
            bounds = float(log_s[line.place]) + log_expm1(self._moduli * (1 + ROUNDED)) - line.scale
            tail = float(tails_of_jumps(bounds, line.eta)[line.end])
            values = subtract_quiet(self._added_up(), line.scale)
            theta = line.tau[: line.planned]
            contour = Contour.of_weights((line.theta, line.eta), line.scale, values, tail, (theta, k + 1e-9))
        quiet = Quiet(line.tau, self._quiet[0] + ROUNDED * self._quiet[1], self._rest * (1 + ROUNDED))
        return JumpsInDoubles(contour, quiet, far)

    def _added_up(self) -> FollowedRelease:
        """Return the values along the line, with what adding them up has rounded."""
        s_real, s_imag, g_real, g_imag, error, farther = self._values.total
        size = ADDED_UP * self._values.size
        error, farther = error + size[0] + size[1] + size[4], farther + size[2] + size[3] + size[5]
        return FollowedRelease(s_real + 1j * s_imag, error, g_real + 1j * g_imag, farther)

    def epsilon(self, start: float, log_delta: float) -> tuple[float, bool]:
        """Return ε, rounded up, and whether it is exact; inf where nothing is known."""
        found = self.enclosure()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            epsilon = math.inf if found is None else meet(found, 1, log_delta, start, math.inf)
            if found is None or not 0 < epsilon < math.inf:
                return math.inf, False
            slack = found.slack(epsilon)
            if not slack <= 1e-8:
                return epsilon, False
            # δ(ε) on a line of its own is then at most δ
            epsilon += SLACKS * max(slack, AGREED_NATS) * found.epsilon_per_nat(epsilon)
            return epsilon, found.log_bounds(epsilon * (1 - EXACT_SHARE))[0] >= log_delta


def _represent(releases: Mapping[DominatingPair, int]) -> Parts:
    """Return a few releases in place of all, as many of each as there are in its part of the run."""
    pairs, number = list(releases), sum(releases.values())
    some = sorted({round(x) for x in np.linspace(0, len(pairs) - 1, min(REPRESENTATIVES, len(pairs)))})
    return tuple((pairs[i], -(-number // len(some))) for i in some)


def _plan(parts: Parts, epsilon: float, log_delta: float) -> tuple[JumpCuts, JumpLine] | None:
    """Return cuts and a line for releases, and for as many more: any are sound."""
    tilt = (1 - log_delta / NATS_PER_TILT) / epsilon
    room = ComposedPairs(tuple((pair, SPARE_JUMPS * n) for pair, n in parts), 0.0, 0.0, 0.0, math.inf, None)
    log_number, reach = math.log(room.releases), STANDING_REACH * epsilon
    cuts = JumpCuts(
        epsilon,
        FARTHEST_TILT * tilt,
        log_delta + LOG_SHARE - log_number,
        sure_loss(room, reach)[0] - reach,
        0.0,
        log_delta - QUIET_NATS - 1 - log_number,
    )
    far = tuple((cuts.far(pair), n) for pair, n in room.parts if has_jumps(pair))
    cut = CutLosses.of(replace(room, parts=far), epsilon, tilt)
    split = cut.split_quietly(log_delta)
    if split is None:
        return None
    first = split.jumps[0][0]
    assert first.near is not None
    cuts = replace(cuts, largest=float(log_w(np.array([first.near[0]]), first.law.mean, first.law.rate)[0]))
    both = zip(split.jumps, cut.laws, strict=True)
    line = _place([(jump, n / SPARE_JUMPS, exponents) for (jump, n), (_, _, exponents) in both], cut, log_delta)
    return None if line is None else (cuts, line)


def _place(jumps: list[tuple[Jumps, float, Array]], cut: CutLosses, log_delta: float) -> JumpLine | None:
    planned = len(cut.tau) - UNPLANNED_OCTAVES * PER_OCTAVE
    theta = cut.tau[:planned]
    moments = [(n, *jump.log_moments(theta, exponents[:planned])) for jump, n, exponents in jumps]
    log_s = np.sum([n * s for n, s, _ in moments], axis=0)
    grown = np.sum([n * np.logaddexp(0.0, j - s) for n, s, j in moments], axis=0)
    k = log_s + log_expm1(grown)
    plan = plan_for(Tilts(cut.index, theta, k, np.ones(planned), cut.epsilon, log_delta))
    place, scale, at = plan.index - cut.index, float(k[plan.index - cut.index]), frequencies_of_jumps(plan.eta)
    moduli = np.zeros(len(at))
    for (jump, _, _), (n, s, _) in zip(jumps, moments, strict=True):
        moduli += n * np.logaddexp(0.0, TiltedJumps.of(jump, plan.theta).log_moduli(at) - s[place])
    tails = tails_of_jumps(float(log_s[place]) + log_expm1(moduli) - scale, plan.eta)
    fine = np.flatnonzero(tails <= plan.negligible)
    if not len(fine) or at[fine[0]] / plan.eta > MOST_JUMP_POINTS:
        return None
    end = int(fine[0])
    return JumpLine(cut.tau, planned, place, plan.eta, math.ceil(float(at[end]) / plan.eta) + 1, scale, end)
