"""δ from both sides of a cut: near releases on a line, far ones in tails and on a line of the mirror.

Let F be the event that some release loses more than c, and N the measure of none. As (x)_+ = x + (-x)_+, for every c

    δ(ε) = δ_N(ε) + P(F) - e^ε Q(F) + e^ε E_Q[(1 - e^{L-ε})_+; F].

The first term belongs to Π N_i^{n_i}, the last one to Π M_i^{n_i} - Π N_i^{n_i} of the loss -L under Q, at -ε:
positive measures both, and a band of their transforms bounds them from both sides (`cumulant.inversion.band`).
Nothing is asked of how the transforms fall. c = ∞ is the plain line, c = -∞ the mirror; where one loss makes up ε, few
far ones are left of what would drown the line.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.both_sides.bands import MeasureBand, band_of_measure
from benchmarks.both_sides.measure import DOUBLE_EXPONENT, FarMeasure, Measure, NearMeasure
from benchmarks.both_sides.panels import BEYOND_REACH, between, mirrored_between
from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import ROUNDOFF, log_chernoff
from cumulant.inversion.enclosure import CLOSE_NATS, IN_DOUBLES, Effort, Enclosure, meet
from cumulant.inversion.plan import Tilts
from cumulant.numerics.logspace import Array
from cumulant.pairs.pair import DominatingPair

CUTS = (math.inf, 1.0, 3.0, 0.6, 10.0, 30.0, 0.35, 100.0)  # of ε, that are tried
ACCURACY, COARSE_ACCURACY = 2e-7, 1e-4  # of ε, that both lines are planned for: here, and where a guess is poor
POINT_NATS = 0.03  # of log δ, by which a guess may be off
MORE_WIDTH_NATS = 5.0  # below the accuracy, to which aliases are pushed
APPROACHES = 6  # towards a point of the profile
MOST_BAND_COUNT = 32_000  # frequencies of one line
FEWEST_COUNT = 64  # of them
SHORT_EFFORT = 3e4  # with which no other cut is looked for
MOST_SPLIT_RELEASES = 20_000  # whose rounding adds up to little
MOST_SPLIT_PARTS = 20  # likewise
SKIPPED_NATS = 21.0  # below what may be missed, where a far line is not followed
MOST_MISSING = 1e-9  # of all outcomes, that may have no finite loss
MISSED_SHARE = 0.02  # of the accuracy, that low releases beside far ones may take
FLOORS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0)  # times the cut
DROWNED_NATS, MOST_HEIGHT_NATS = 6.0, 18.0  # of height, from which rounding shows, and beyond which it rules
SMALL_STEP = 0.04  # of (θ+1)h, at most
FARTHEST_LOG_DELTA = -100.0  # beside which what lies beyond all nodes is nothing


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitInDoubles(Enclosure):
    """Both lines and both tails of a cut; their rounding is estimated, not enclosed."""

    near: MeasureBand
    far: MeasureBand | None
    far_ceiling: tuple[Array, Array] | None  # τ and K of the far measure, where no line follows it
    masses: tuple[float, float]  # P(F) and Q(F)
    off: float = 0.0  # by what share of them
    missed: float = 0.0  # of E_Q[(1 - e^{L-ε})_+; F], at most
    left_out: float = 0.0
    beyond: float = 0.0  # of P, and of Q, farther out than any node
    route: str = "band"
    proven: bool = False
    enough: float = CLOSE_NATS
    effort: Effort = IN_DOUBLES

    @property
    def points(self) -> int:
        """How many frequencies were looked at."""
        return self.near.points + (0 if self.far is None else self.far.points)

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        return self.log_bounds(epsilon)[1], math.nan

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if not epsilon < DOUBLE_EXPONENT / 2:
            return -math.inf, 0.0
        (low, high), e = (math.exp(x) for x in self.near.log_bounds(epsilon)), math.exp(epsilon)
        p, q = self.masses
        doubt = self.off * (p + e * q)
        gain, (leak_low, leak_high) = p - e * q, self._leak(epsilon)
        high, low = (
            high + gain + e * (leak_high + self.missed) + doubt + self.left_out + (1 + e) * self.beyond,
            low + gain + e * leak_low - doubt,
        )
        return (math.log(low) if low > 0 else -math.inf), min(math.log(high), 0.0) if high > 0 else 0.0

    def slope(self, epsilon: float) -> float:
        step = 1e-5 * max(epsilon, 1e-12)
        return (self.log_bounds(epsilon + step)[1] - self.log_bounds(epsilon)[1]) / step

    def estimated(self, epsilon: float) -> float:
        low, high = self.log_bounds(epsilon)
        return high - low

    def _leak(self, epsilon: float) -> tuple[float, float]:
        """Return bounds of E_Q[(1 - e^{L-ε})_+; F]."""
        if self.far is not None:
            low, high = self.far.log_bounds(-epsilon)
            return math.exp(low), math.exp(high)
        if self.far_ceiling is None:
            return 0.0, 0.0
        tau, k = self.far_ceiling
        return 0.0, math.exp(min(float(np.min(log_chernoff(tau) + k + tau * epsilon)) + 1e-9, 0.0))


def split_near(losses: ComposedPairs, epsilon: float, log_delta: float, side: int) -> SplitInDoubles | None:
    """Return a split for a question near a point of its profile; None where there is none, or all lines drown.

    Where the point is not near, a coarse split says which one is: ε moves where it was asked for (side 1), or else δ.
    """
    if losses.failure > 0 or not losses.parts:
        return None
    if losses.releases > MOST_SPLIT_RELEASES or len(losses.parts) > MOST_SPLIT_PARTS:
        return None
    with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
        for _ in range(APPROACHES):
            if not 0 < epsilon < DOUBLE_EXPONENT / 2 or not FARTHEST_LOG_DELTA < log_delta < 0:
                return None
            planner = _Planner(losses, epsilon, log_delta)
            coarse = planner.best_split(COARSE_ACCURACY)
            if coarse is None:
                return None
            high = coarse.log_bounds(epsilon)[1]
            if abs(high - log_delta) <= POINT_NATS:
                return planner.best_split(ACCURACY) or coarse
            if side == 0:
                log_delta = high
            else:
                epsilon = meet(coarse, 1, log_delta, epsilon, math.inf)
    return coarse


def _cuts(losses: ComposedPairs, share: float, epsilon: float) -> tuple[float, ...]:
    """Return a place for each pair: none for bounded losses that ε holds all of, a share of what is left for others."""
    bounded = math.fsum(n * pair.supremum for pair, n in losses.parts if 0 < pair.supremum < math.inf)
    if not bounded < epsilon:
        return (share * epsilon,) * len(losses.parts)
    return tuple(math.inf if pair.supremum < math.inf else share * (epsilon - bounded) for pair, _ in losses.parts)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _SplitPlan:
    """A cut with the lines on both sides of it; without a line of far ones there is nothing to be followed."""

    losses: ComposedPairs
    cuts: tuple[float, ...]
    near: _LinePlan
    far: _LinePlan | None
    ceiling: tuple[Array, Array] | None
    floor: float

    @property
    def effort(self) -> float:
        return self.near.effort + (self.far.effort if self.far is not None else 0.0)

    def follow(self) -> SplitInDoubles:
        beyond = self.losses.releases * BEYOND_REACH
        if min(self.cuts) == math.inf:
            return SplitInDoubles(
                self.near.follow(), None, None, (0.0, 0.0), left_out=self.losses.left_out, beyond=beyond
            )
        masses, off, missed = self._far_masses()
        far = None if self.far is None else self.far.follow()
        return SplitInDoubles(self.near.follow(), far, self.ceiling, masses, off, missed, self.losses.left_out, beyond)

    def _far_masses(self) -> tuple[tuple[float, float], float, float]:
        """Return P(F) and Q(F), by what share they may be off, and a bound of Q(one is far, another below the floor).

        Holds for:  losses that are finite but for next to nothing under P and Q: others are refused.
        Tightness:  the masses are exact but for that; the bound is Σ n_i q_i Σ n_i q'_i.
        """
        logs, off, of_far, of_low = [0.0, 0.0], 64 * ROUNDOFF, 0.0, 0.0
        for (pair, n), cut in zip(self.losses.parts, self.cuts, strict=True):
            off += n * _missing(pair)
            if cut == math.inf:
                continue
            far = between(pair, cut, math.inf, (0.0, 0.0), 0.0)
            for side, masses in enumerate((far.log_masses, far.log_masses - far.losses)):
                logs[side] += n * math.log1p(-min(float(np.sum(np.exp(masses))), 1 - 2.0**-53))
            of_far += n * _q_mass(pair, cut, math.inf)
            of_low += n * _q_mass(pair, -math.inf, self.floor) if self.floor > -math.inf else 0.0
        return (-math.expm1(logs[0]), -math.expm1(logs[1])), off, of_far * of_low * (1 + 1e-9)


def _missing(pair: DominatingPair) -> float:
    """Return how far the masses of finite losses under P and under Q are from 1."""
    p = float(np.sum(np.exp(between(pair, -math.inf, math.inf, (0.0, 0.0), 0.0).log_masses)))
    missing = max(abs(p - 1), abs(_q_mass(pair, -math.inf, math.inf) - 1))
    if not missing <= MOST_MISSING:
        raise OutOfReach("losses that are not finite, or of no probability, are not divided")
    return missing


def _q_mass(pair: DominatingPair, low: float, high: float) -> float:
    return float(np.sum(np.exp(mirrored_between(pair, low, high, (0.0, 0.0), 0.0).log_masses)))


@final
class _Planner:
    """Plans for questions near one point of a profile; K of both sides of a cut are computed once for all of them."""

    def __init__(self, losses: ComposedPairs, epsilon: float, log_delta: float) -> None:
        self._losses, self._epsilon, self._log_delta = losses, epsilon, log_delta
        self._near: dict[float, tuple[NearMeasure, Array, Array]] = {}
        self._far: dict[float, tuple[FarMeasure, Array, Array]] = {}

    def best_split(self, accuracy: float) -> SplitInDoubles | None:
        """Return the split that takes the fewest frequencies; None where all drown."""
        plans: list[_SplitPlan] = []
        for share in CUTS:
            with contextlib.suppress(OutOfReach):
                plan = self._plan(share, accuracy)
                plans += [plan] if plan is not None else []
            if plans and plans[-1].effort <= SHORT_EFFORT:
                break
        for plan in sorted(plans, key=lambda one: one.effort):
            with contextlib.suppress(OutOfReach):
                return plan.follow()
        return None

    def _plan(self, share: float, accuracy: float) -> _SplitPlan | None:
        """Return the lines of a cut at a share of ε; None where one would be long, or drown."""
        losses, epsilon, log_delta = self._losses, self._epsilon, self._log_delta
        cuts = _cuts(losses, share, epsilon)
        if share not in self._near:
            near = NearMeasure(losses, cuts)
            self._near[share] = (near, *near.tilts(epsilon, log_delta))
        near_line = _plan_line(*self._near[share], (epsilon, log_delta), accuracy)
        if near_line is None or min(cuts) == math.inf:
            return None if near_line is None else _SplitPlan(losses, cuts, near_line, None, None, -math.inf)
        if share not in self._far:
            far = FarMeasure(losses, cuts, self._floor(cuts))
            self._far[share] = (far, *far.tilts(-epsilon, log_delta - epsilon))
        measure, tau, k = self._far[share]
        bound = float(np.min(log_chernoff(tau) + k + tau * epsilon)) + epsilon
        if bound <= log_delta + math.log(ACCURACY) - SKIPPED_NATS:
            return _SplitPlan(losses, cuts, near_line, None, (tau, k), measure.floor)
        far_line = _plan_line(measure, tau, k, (-epsilon, log_delta - epsilon), accuracy)
        return None if far_line is None else _SplitPlan(losses, cuts, near_line, far_line, None, measure.floor)

    def _floor(self, cuts: tuple[float, ...]) -> float:
        """Return a loss below which hardly any release counts beside a far one."""
        aim = math.exp(self._log_delta - self._epsilon) * ACCURACY * MISSED_SHARE
        divided = [(pair, n, c) for (pair, n), c in zip(self._losses.parts, cuts, strict=True) if c < math.inf]
        of_far = sum(n * _q_mass(pair, c, math.inf) for pair, n, c in divided)
        for times in FLOORS:
            floor = -times * min(cuts)
            if of_far * sum(n * _q_mass(pair, -math.inf, floor) for pair, n, _ in divided) <= aim:
                return floor
        return -math.inf


@final
@dataclass(frozen=True, slots=True, eq=False)
class _LinePlan:
    """A band of a measure for questions near x: θ, η, how many frequencies, and h = 2π over the band."""

    measure: Measure
    theta: float
    eta: float
    count: int
    tilts: Tilts
    effort: float

    def follow(self) -> MeasureBand:
        k, values, error = self.measure.line(self.theta, self.eta, self.count)
        h = 2 * math.pi / (self.eta * self.count)
        return band_of_measure((self.theta, self.eta, self.count, h), k, values, error, self.tilts)


def _plan_line(measure: Measure, tau: Array, k: Array, point: tuple[float, float], accuracy: float) -> _LinePlan | None:
    """Return the line with the fewest frequencies where the profile at x is about e^log_aim; None where it drowns.

    Both bounds of ε are about (θ+1)h²/8 apart.
    """
    x, log_aim = point
    width = MORE_WIDTH_NATS - math.log(accuracy)
    excess = k - tau * x - log_aim
    chernoff = np.maximum(excess + log_chernoff(tau) + width, 1.0)
    gaps = tau - tau[:, None]
    windows = np.where(np.isfinite(chernoff), chernoff, np.inf) / np.abs(gaps)
    above = np.where(gaps > 0.02 * tau[:, None], windows, np.inf).min(axis=1)
    below = np.where(gaps < -0.02 * tau[:, None], windows, np.inf).min(axis=1)
    window = np.maximum(np.maximum(above, np.minimum(below, (width - log_aim) / tau)), 1 / tau)
    h = np.minimum(np.sqrt(8 * accuracy * abs(x) / (tau + 1)), SMALL_STEP / (tau + 1))
    effort = np.log(window / h) + 0.1 * np.maximum(excess, 0.0) + np.maximum(excess - DROWNED_NATS, 0.0)
    fewest = window * (tau + 1) / SMALL_STEP
    effort = np.where(np.isfinite(effort) & (fewest <= MOST_BAND_COUNT), effort, np.inf)
    best = int(np.argmin(effort))
    if not math.isfinite(effort[best]) or excess[best] > MOST_HEIGHT_NATS:
        return None
    count = max(math.ceil(min(float(window[best] / h[best]), MOST_BAND_COUNT)), FEWEST_COUNT)
    tilts = Tilts(0, tau, k, np.ones(len(tau)), x, log_aim)
    return _LinePlan(measure, float(tau[best]), 2 * math.pi / float(window[best]), count, tilts, math.exp(effort[best]))
