"""Exact (ε, δ) of dominating pairs: one entry point that chooses how to invert, and says which way it went.

A *direction* is one order of the neighbours: the pairs of all releases in that order, with counts. The answer is the
worst over directions, and every answer is an upper bound whatever the route; `slack` says how far it can be off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.curves.best_order import less_rounding
from cumulant.curves.failure import log_delta_left, log_delta_with
from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import Lattice, log_chernoff
from cumulant.inversion.enclosure import CLOSE_NATS, Enclosure, enclosures_at
from cumulant.inversion.plan import Tilts, plan_for, tilts_for_delta, tilts_for_epsilon
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import float_above
from cumulant.numerics.search import smallest_true
from cumulant.pairs.finite_pair import sums_of
from cumulant.pairs.grid import PER_OCTAVE, tilts
from cumulant.pairs.noise import Pair
from cumulant.pairs.pair import GaussianPair
from cumulant.profiles import profile

if TYPE_CHECKING:
    from cumulant.inversion.enumeration import Enumerated

LEAST_MEAN = 1e-300  # products with smaller means lose their digits
FEW_SUMS = 1000  # sums of losses, up to which all are formed
EXACT = 1e-9  # the share of ε within which both bounds must lie for an answer to be called exact
AGREED = 1e-12  # slack in log δ from which δ(ε), on a line of its own, may come out above the δ that was asked for
UNDERFLOWN = 1e-290  # more than squares of losses that underflow can take off a divergence: 1e18·1e7 of 5e-324
TINY = 1e-12  # a change of ε that counts as none
LARGEST = 1e300  # of ε: what is not solved below is not solved
ROUNDS = 4  # plans that may be made for one question, each from the answer of the last

Direction = Sequence[tuple[Pair, int]]
Directions = Sequence[Direction]


@final
@dataclass(frozen=True, slots=True)
class Inversion:
    """An answer from pairs: ε or log δ, on the safe side; log δ lies at most `slack` nats below.

    `excess` is how far the answer can be above the truth of these pairs, as a share of ε: 1 says nothing.
    """

    value: float
    slack: float
    route: str
    excess: float = 0.0


def epsilon_of_pairs(directions: Directions, log_delta: float) -> Inversion:
    """Return the smallest ε with δ(ε) <= δ in every direction, rounded up."""
    questions = [_Question.of(direction, log_delta) for direction in directions]
    octave = questions[0].best_octave() if len(questions) > 1 else None
    bounds = [math.inf if octave is None else question.chernoff(octave) for question in questions]
    worst = Inversion(0.0, 0.0, "total variation")
    for bound, question in sorted(zip(bounds, questions, strict=True), key=lambda pair: -pair[0]):
        if not bound <= worst.value:  # the worst came first: its answer may settle the rest
            worst = max(worst, question.answer(), key=lambda inverted: inverted.value)
    return worst


def log_delta_of_pairs(directions: Directions, epsilon: float) -> Inversion:
    """Return log δ(ε), the largest over directions, rounded up."""
    answers = []
    for losses, lattice in map(prepared, directions):
        inverted = _log_delta(losses, lattice, epsilon) if losses.failure < 1 else Inversion(0.0, 0.0, "largest loss")
        if not inverted.slack <= AGREED and losses.failure == 0 and losses.parts:
            inverted = _not_above_pinsker(losses, inverted)
        answers.append(replace(inverted, value=log_delta_with(losses.failure, inverted.value)))
    return max(answers, key=lambda inverted: inverted.value)


def prepared(direction: Direction) -> tuple[ComposedPairs, Lattice | None]:
    """Return the sum of losses, and the lattice they lie on together, if they do."""
    losses = ComposedPairs.of(direction)
    if losses.variance > 0 or not losses.parts:
        return losses, None
    found = [(lattice, n) for pair, n in losses.parts if (lattice := pair.lattice) is not None]
    if len(found) < len(losses.parts) or len({lattice.span for lattice, _ in found}) > 1:
        return losses, None
    offset = sum((n * Fraction(lattice.offset) for lattice, n in found), Fraction(0))
    apart = sum((n * Fraction(lattice.error) for lattice, n in found), abs(offset - Fraction(float(offset))))
    return losses, Lattice(float(offset), found[0][0].span, float_above(apart))


@final
@dataclass(frozen=True, eq=False)
class _Question:
    """ε at δ in one direction; `log_delta` is what the failure probability leaves, NaN if nothing."""

    losses: ComposedPairs
    lattice: Lattice | None
    log_delta: float

    @staticmethod
    def of(direction: Direction, log_delta: float) -> _Question:
        losses, lattice = prepared(direction)
        return _Question(losses, lattice, less_rounding(log_delta_left(losses.failure, log_delta)))

    @cached_property
    def around_saddle(self) -> Tilts | None:
        """Tilts around the saddle; None if there is no need of them, or no saddle."""
        needed = self.losses.parts and -math.inf < self.log_delta < 0 and self.losses.supremum > 0
        return tilts_for_delta(self.losses, self.log_delta) if needed else None

    def best_octave(self) -> int | None:
        """Return the octave of tilts where Chernoff's bound of ε is the smallest."""
        around = self.around_saddle
        if around is None:
            return None
        return (around.index + int(np.argmin(self._chernoff(around.theta, around.k)))) // PER_OCTAVE

    def chernoff(self, octave: int) -> float:
        """Return a bound of ε by Chernoff's inequality at the tilts of one octave."""
        if math.isnan(self.log_delta):  # the failure probability takes more than δ
            return math.inf
        if self.losses.supremum <= 0:
            return 0.0
        return max(float(np.min(self._chernoff(tilts(octave), self.losses.cumulants(octave)[0]))), 0.0)

    def _chernoff(self, theta: Array, k: Array) -> Array:
        return np.asarray((log_chernoff(theta) + k * (1 + 1e-13) - self.log_delta + 1e-9) / theta)  # rounded up

    def answer(self) -> Inversion:
        if math.isnan(self.log_delta) or self.log_delta >= 0:
            return Inversion(math.inf if math.isnan(self.log_delta) else 0.0, 0.0, "total variation")
        if not self.losses.parts:
            return Inversion(gaussian_epsilon(GaussianPair(self.losses.mean), self.log_delta), 0.0, "closed form")
        if self.losses.supremum <= 0 or self._hardly_anything():
            return Inversion(0.0, 0.0, "total variation")
        if (every := _every_sum(self.losses, self.lattice)) is not None:
            epsilon = every.epsilon(self.log_delta)
            low, high = every.log_bounds(epsilon)
            excess = _excess(every, epsilon, self.log_delta, high - low)
            return Inversion(epsilon, high - low, "every sum", excess)
        if self.around_saddle is None:  # only the largest loss matters; ε = sup L holds at every δ
            return Inversion(self.losses.supremum, 0.0, "largest loss", self._below_largest())
        return self._inverted(self.around_saddle)

    def _below_largest(self) -> float:
        """Return how far sup L is above the truth, sup L + log(1 - δ/P(L = sup L)) or more, as a share of it."""
        log_share = self.log_delta - self.losses.log_top_mass
        if not log_share < -1e-9 or self.losses.supremum <= 0:
            return 1.0
        return min(-math.log1p(-math.exp(log_share)) / self.losses.supremum + 1e-15, 1.0)

    def _hardly_anything(self) -> bool:
        """Whether δ(0), the total variation, is at most δ by Pinsker's inequality."""
        return self.losses.failure == 0 and _log_pinsker(self.losses) <= self.log_delta

    def _inverted(self, around: Tilts) -> Inversion:
        """Return the smallest ε that any of a few lines proves, each planned from the answer of the last."""
        found: list[tuple[float, float, Enclosure]] = []
        for _ in range(ROUNDS):
            for inversion in enclosures_at(self.losses, plan_for(around), self.lattice):
                epsilon = _solved(inversion, around.epsilon, self.log_delta, self.losses.supremum)
                slack = _slack(inversion, epsilon)
                found.append((epsilon, slack, inversion))
                if slack <= inversion.enough:
                    break
            settled = abs(epsilon - around.epsilon) * around.steepness <= 0.5
            if slack <= inversion.enough or settled or epsilon >= LARGEST:
                break
            around = around.asking(epsilon, self.log_delta)
        epsilon, slack, inversion = min(found, key=lambda one: one[0])
        if epsilon >= LARGEST:
            raise OutOfReach("no line that can be afforded proves a bound: its rounding is larger than this δ")
        if inversion.coarser is not None or inversion.enough > CLOSE_NATS or slack > AGREED:
            epsilon = self._confirmed(inversion, epsilon)
        epsilon = min(epsilon, self.losses.supremum)
        return Inversion(epsilon, slack, inversion.route, _excess(inversion, epsilon, self.log_delta, slack))

    def _confirmed(self, inversion: Enclosure, epsilon: float) -> float:
        """Return ε raised until δ(ε) itself, which is smoothed or cut in its own way, is at most δ."""
        for _ in range(ROUNDS):
            excess = _log_delta(self.losses, self.lattice, epsilon).value - self.log_delta
            if excess <= 0:
                break
            epsilon += 1.1 * excess / -inversion.log_upper(epsilon)[1]
        return epsilon


def _not_above_pinsker(losses: ComposedPairs, inverted: Inversion) -> Inversion:
    """Return log δ(ε), or the bound of the total variation where that is smaller: δ(ε) <= δ(0)."""
    cap = _log_pinsker(losses)
    if cap >= inverted.value:
        return inverted
    return Inversion(cap, max(inverted.slack - (inverted.value - cap), 0.0), "total variation", 1.0)


def _log_pinsker(losses: ComposedPairs) -> float:
    """Return log √(KL/2), which is at least log TV (Pinsker's inequality), rounded up."""
    return 0.5 * (math.log(losses.divergence + UNDERFLOWN) - math.log(2.0)) + 1e-9


def _log_delta(losses: ComposedPairs, lattice: Lattice | None, epsilon: float) -> Inversion:
    if epsilon >= losses.supremum:
        return Inversion(-math.inf, 0.0, "largest loss")
    if not losses.parts:
        return Inversion(profile.gaussian_log_delta(losses.mean, epsilon), 0.0, "closed form")
    if (every := _every_sum(losses, lattice)) is not None:
        low, high = every.log_bounds(epsilon)
        return Inversion(high, high - low, "every sum", _excess(every, epsilon, high, high - low))
    around = tilts_for_epsilon(losses, epsilon)
    if around is None:  # so near the largest loss that δ <= 1 - e^{ε - sup L} is as good as anything
        return Inversion(math.log(-math.expm1(epsilon - losses.supremum)) + 1e-12, math.inf, "largest loss", 1.0)
    found: list[tuple[float, float, Enclosure]] = []
    for _ in range(ROUNDS):
        for inversion in enclosures_at(losses, plan_for(around), lattice):
            low, high = inversion.log_bounds(epsilon)
            found.append((high, high - low, inversion))
            if high - low <= inversion.enough:
                break
        if high - low <= inversion.enough or abs(high - around.log_delta) <= 0.5:
            break
        around = around.asking(epsilon, high)
    high, slack, inversion = min(found, key=lambda one: one[0])
    return Inversion(high, slack, inversion.route, _excess(inversion, epsilon, high, slack))


def _every_sum(losses: ComposedPairs, lattice: Lattice | None) -> Enumerated | None:
    """Return the profile of every sum of losses, where these are few and lie on no lattice."""
    if lattice is not None or losses.variance > 0 or not 0 < sums_of(losses.parts) <= FEW_SUMS:
        return None
    from cumulant.inversion.enumeration import enumerated

    return enumerated(losses)


def _excess(inversion: Enclosure | Enumerated, epsilon: float, log_delta: float, slack: float) -> float:
    """Return a share x of ε such that δ is proven to be larger at ε(1-x): how far above the truth the answer can be.

    Near 0 a change of ε by TINY counts as one by EXACT. Where nothing is proven it is 1.
    """
    slope = -inversion.log_upper(epsilon)[1]
    likely = slack / max(slope * epsilon, 1e-300) if slack < math.inf else 1.0
    for share in (EXACT, *(factor * likely for factor in (1.2, 3.0, 10.0))):
        if not share < 1:
            break
        below = min(epsilon * (1 - share), epsilon - TINY * share / EXACT)
        if inversion.log_bounds(below)[0] >= log_delta:
            return share
    return 1.0


def _solved(inversion: Enclosure, start: float, log_delta: float, supremum: float) -> float:
    """Return ε with log δ(ε) <= log δ by the upper bound, as small as doubles allow: Newton's method in a bracket."""
    low, high, epsilon = 0.0, min(supremum, LARGEST), min(max(start, 0.0), supremum)
    for _ in range(80):
        value, slope = inversion.log_upper(epsilon)
        above = value - log_delta
        if above <= 0:
            high = min(high, epsilon)
        else:
            low = max(low, epsilon)
        step = above / max(-slope, 1e-300)
        if above <= 0 and epsilon == 0:
            return 0.0
        if abs(step) <= 2e-15 * abs(epsilon) or high - low <= 2e-15 * high:
            break
        trial = epsilon + step
        if trial <= 0:
            epsilon = 0.0 if low == 0 else (low + high) / 2
        else:
            epsilon = trial if low < trial < high else (2 * epsilon + 1 if high >= LARGEST else (low + high) / 2)
    return _nudged(inversion, epsilon, high, log_delta)


def _slack(inversion: Enclosure, epsilon: float) -> float:
    """Return how far the bounds of log δ are apart; of an ε that was not found, infinitely far."""
    if epsilon >= LARGEST:
        return math.inf
    low, high = inversion.log_bounds(epsilon)
    return high - low


def _nudged(inversion: Enclosure, epsilon: float, high: float, log_delta: float) -> float:
    """Return the first of a few points from ε up at which the bound itself meets δ."""
    for nudge in (0.0, 1e-15, 4e-15, 3e-14, 2e-13, 2e-12, 1e-10, 1e-8, 1e-5):
        point = epsilon * (1 + nudge)
        if point < high and inversion.log_upper(point)[0] <= log_delta:
            return point
    return high


def gaussian_log_delta(pair: GaussianPair, epsilon: float) -> float:
    """Return log δ(ε) of N(μ,1) against N(0,1), rounded up: Balle and Wang (2018), Theorem 5.

    Holds for:  any composition of Gaussian mechanisms, adaptive too; ε >= 0.
    Tightness:  exact; see `profile.gaussian_log_delta`.
    """
    return profile.gaussian_log_delta(pair.mean, epsilon)


def gaussian_epsilon(pair: GaussianPair, log_delta: float) -> float:
    """Return the smallest ε with δ(ε) <= δ for N(μ,1) against N(0,1), rounded up; inf beyond the largest double."""
    if gaussian_log_delta(pair, 0.0) <= log_delta:
        return 0.0
    mu = max(pair.mean, LEAST_MEAN)  # safe side: a larger mean is easier to tell apart
    # Mironov's conversion at its best order, ρ + 2√(ρ log 1/δ) for ρ = μ²/2; raised for its rounding.
    high = mu * (mu / 2 + math.sqrt(2.0) * math.sqrt(-log_delta)) * (1 + 1e-12)
    if math.isinf(high):  # δ = 0, or ε overflows
        return math.inf
    return smallest_true(lambda e: profile.gaussian_log_delta(mu, e) <= log_delta, 0.0, high, relative=2e-14)
