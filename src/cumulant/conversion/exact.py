"""Exact (ε, δ) of dominating pairs: one entry point that chooses how to invert, and says which way it went.

A *scenario* is one order of the neighbours: the pairs of all releases in that order, with counts. The answer is the
worst over scenarios, and every answer is an upper bound whatever the route; `slack` says how far it can be off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.conversion.failure import log_delta_left, log_delta_with
from cumulant.conversion.inversion import (
    Inversion,
    inversion_at,
    plan_for,
    tilts_for_delta,
    tilts_for_epsilon,
)
from cumulant.errors import OutOfReach
from cumulant.loss import profile
from cumulant.loss.pair import GaussianPair
from cumulant.loss.pair_family import Pair
from cumulant.loss.pair_sum import LossSum
from cumulant.numerics.contour import Lattice, log_chernoff
from cumulant.numerics.search import smallest_true

LEAST_MEAN = 1e-300  # products with smaller means lose their digits
CLOSE = 1e-9  # slack in log δ that is as good as none
ROUNDS = 4  # plans that may be made for one question, each from the answer of the last

Scenario = Sequence[tuple[Pair, int]]
Scenarios = Sequence[Scenario]


@final
@dataclass(frozen=True, slots=True)
class Inverted:
    """An answer from pairs: ε or log δ, on the safe side; log δ lies at most `slack` nats below."""

    value: float
    slack: float
    route: str


def epsilon_of_pairs(scenarios: Scenarios, log_delta: float) -> Inverted:
    """Return the smallest ε with δ(ε) <= δ in every scenario, rounded up."""
    sums = [prepared(scenario) for scenario in scenarios]
    worst = Inverted(0.0, 0.0, "closed form")
    for losses, lattice in sorted(sums, key=lambda item: -_guess(item[0], log_delta)):
        left = log_delta_left(losses.failure, log_delta)
        if math.isnan(left):
            return Inverted(math.inf, 0.0, "closed form")
        if not _settled(losses, worst.value, left):
            answer = _epsilon(losses, lattice, left)
            worst = max(worst, answer, key=lambda inverted: inverted.value)
    return worst


def log_delta_of_pairs(scenarios: Scenarios, epsilon: float) -> Inverted:
    """Return log δ(ε), the largest over scenarios, rounded up."""
    answers = []
    for losses, lattice in map(prepared, scenarios):
        inverted = _log_delta(losses, lattice, epsilon)
        answers.append(replace(inverted, value=log_delta_with(losses.failure, inverted.value)))
    return max(answers, key=lambda inverted: inverted.value)


def prepared(scenario: Scenario) -> tuple[LossSum, Lattice | None]:
    """Return the sum of losses, and the lattice they lie on together, if they do."""
    losses = LossSum.of(scenario)
    if losses.variance > 0 or not losses.parts:
        return losses, None
    lattices = [pair.lattice for pair, _ in losses.parts]
    spans = {lattice[1] for lattice in lattices if lattice is not None}
    if None in lattices or len(spans) > 1:
        return losses, None
    offset = math.fsum(n * lattice[0] for lattice, (_, n) in zip(lattices, losses.parts, strict=True) if lattice)
    return losses, Lattice(offset, spans.pop())


def _guess(losses: LossSum, log_delta: float) -> float:
    """Return about what ε will be, to look at the worst scenario first."""
    if not losses.parts:
        return gaussian_epsilon(GaussianPair(math.sqrt(losses.variance)), log_delta)
    tilts = tilts_for_delta(losses, max(min(log_delta, -1e-6), -1e18))
    return losses.supremum if tilts is None else tilts.epsilon


def _settled(losses: LossSum, epsilon: float, log_delta: float) -> bool:
    """Whether Chernoff's bound alone shows δ(ε) <= δ."""
    if epsilon <= 0 or not losses.parts:
        return False
    tilts = tilts_for_epsilon(losses, epsilon)
    if tilts is None:
        return False
    bounds = log_chernoff(tilts.theta) + tilts.k - tilts.theta * epsilon
    return float(np.min(bounds)) + 1e-9 <= log_delta


def _epsilon(losses: LossSum, lattice: Lattice | None, log_delta: float) -> Inverted:
    if log_delta >= 0:
        return Inverted(0.0, 0.0, "closed form")
    if not losses.parts:
        mean = math.sqrt(losses.variance)
        return Inverted(gaussian_epsilon(GaussianPair(mean), log_delta), 0.0, "closed form")
    tilts = tilts_for_delta(losses, log_delta) if log_delta > -math.inf else None
    if tilts is None:  # only the largest loss matters; ε = sup L holds at every δ
        return Inverted(losses.supremum, 0.0, "largest loss")
    for turn in range(ROUNDS):
        inversion = inversion_at(losses, plan_for(tilts), lattice)
        epsilon = _solved(inversion, tilts.epsilon, log_delta, losses.supremum)
        slack = _slack(inversion, epsilon)
        if slack <= CLOSE or abs(epsilon - tilts.epsilon) * tilts.steepness <= 0.5 or turn == ROUNDS - 1:
            break
        tilts = tilts.asking(epsilon, log_delta)
    return Inverted(min(epsilon, losses.supremum), slack, inversion.route)


def _log_delta(losses: LossSum, lattice: Lattice | None, epsilon: float) -> Inverted:
    if epsilon >= losses.supremum:
        return Inverted(-math.inf, 0.0, "largest loss")
    if not losses.parts:
        return Inverted(profile.gaussian_log_delta(math.sqrt(losses.variance), epsilon), 0.0, "closed form")
    tilts = tilts_for_epsilon(losses, epsilon)
    if tilts is None:
        raise OutOfReach(f"no tilt up to 2^60 reaches epsilon={epsilon!r}")
    for _ in range(ROUNDS):
        inversion = inversion_at(losses, plan_for(tilts), lattice)
        low, high = inversion.log_bounds(epsilon)
        if high - low <= CLOSE or abs(high - tilts.log_delta) <= 0.5:
            break
        tilts = tilts.asking(epsilon, high)
    return Inverted(high, high - low, inversion.route)


def _slack(inversion: Inversion, epsilon: float) -> float:
    low, high = inversion.log_bounds(epsilon)
    return high - low


def _solved(inversion: Inversion, start: float, log_delta: float, supremum: float) -> float:
    """Return ε with log δ(ε) <= log δ by the upper bound, as small as doubles allow: Newton's method in a bracket."""

    def excess(epsilon: float) -> float:
        return inversion.log_bounds(epsilon)[1] - log_delta

    if excess(0.0) <= 0:
        return 0.0
    low, high, epsilon = 0.0, min(supremum, 1e300), min(max(start, 0.0), supremum)
    for _ in range(80):
        above = excess(epsilon)
        if above <= 0:
            high = min(high, epsilon)
        else:
            low = max(low, epsilon)
        step = above / max(-inversion.slope(epsilon), 1e-300)
        if abs(step) <= 2e-15 * abs(epsilon) or high - low <= 2e-15 * high:
            break
        trial = epsilon + step
        epsilon = trial if low < trial < high else (2 * epsilon + 1 if high > 1e299 else (low + high) / 2)
    return _nudged(excess, epsilon, high)


def _nudged(excess: Callable[[float], float], epsilon: float, high: float) -> float:
    """Return the first of a few points above ε at which the bound itself meets δ."""
    for nudge in (0.0, 1e-15, 4e-15, 3e-14, 2e-13, 2e-12, 1e-10, 1e-8, 1e-5):
        point = epsilon * (1 + nudge)
        if excess(point) <= 0:
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
