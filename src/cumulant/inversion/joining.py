"""A record that joins a rare sample: what Chernoff's bound leaves open, on a line whose path is moved.

When a record joins, E_P e^{zL} = E_Q w^-z, and losses are at most -log(1-γ). |E_Q w^-z|^n falls by the bounds of
`cumulant.pairs.size_classes` as few releases do, for which cells alone prove too little (`cumulant.inversion.short`).
"""

from __future__ import annotations

import math

import numpy as np

from cumulant.inversion.contour import SMALLEST_LOG_DELTA, Contour, log_chernoff, meet_exactly, nats_apart
from cumulant.inversion.plan import Tilts, plan_for
from cumulant.inversion.rare_lines import (
    NORMAL_NATS,
    find_end,
    frequencies_of,
    is_affordable,
    missing_of,
    nats_of_rule,
)
from cumulant.numerics.logspace import Array
from cumulant.pairs.negative_moments import log_negative_moments
from cumulant.pairs.sampled_gaussian import SampledGaussian, log_moments_of
from cumulant.pairs.size_classes import Size, SizeClasses, Tilted, rule_for

JOINING_TILTS = 2.0 ** (np.arange(-48.0, 33.0) / 8)  # over the tilt of a normal loss
MOST_GROWN_NATS = 1000.0  # of w^-θ: beyond, sums would reach far
JOINING_PLANS = 3  # of the δ that a line is planned for, or of ε
JOINING_NATS = 0.5  # by which that may be off


def joining_ceiling(law: SampledGaussian, log_delta: float) -> float:
    """Return Chernoff's bound of ε at a δ when a record joins, or the largest loss."""
    tau, k = _joining_tilts(law, log_delta)
    bound = float(np.min((log_chernoff(tau) + k - log_delta) / tau))
    return min(bound + 1e-9 * abs(bound), -law.count * math.log1p(-law.rate) * (1 + 1e-12))


def joining_log_ceiling(law: SampledGaussian, epsilon: float) -> float:
    """Return Chernoff's bound of log δ(ε) when a record joins; -inf beyond the largest loss."""
    if epsilon >= -law.count * math.log1p(-law.rate) * (1 + 1e-12):
        return -math.inf
    tau, k = _joining_tilts(law, -0.5 * (epsilon / law.deviation) ** 2 - 1)
    return float(np.min(log_chernoff(tau) + k - tau * epsilon)) + 1e-9


def joining_epsilon(law: SampledGaussian, log_delta: float, least: float = 0.0) -> float | None:
    """Return the smallest ε with δ(ε) <= δ when a record joins, rounded up, or a bound that is at most `least`.

    None where the line would be long.
    """
    epsilon = joining_ceiling(law, log_delta)
    if epsilon <= least or joining_log_ceiling(law, least) <= log_delta:
        return min(epsilon, least)
    for _ in range(JOINING_PLANS):
        contour = joining_contour(law, epsilon, log_delta)
        if contour is None:
            return None
        found = meet_exactly(contour, epsilon, log_delta, nats_apart(contour, epsilon))
        if found is not None:
            return found
        value, slope = contour.log_upper(epsilon)
        nearer = epsilon + (value - log_delta) / -slope
        if not 0 < nearer < epsilon * 2:
            return None
        epsilon = nearer
    return None


def joining_log_delta(law: SampledGaussian, epsilon: float, least: float = -math.inf) -> float | None:
    """Return log δ(ε) when a record joins, rounded up, or a bound that is at most `least`; None as above."""
    log_delta = joining_log_ceiling(law, epsilon)
    if log_delta <= least:
        return log_delta
    for _ in range(JOINING_PLANS):
        if not SMALLEST_LOG_DELTA < log_delta < 0:
            return None
        contour = joining_contour(law, epsilon, log_delta)
        if contour is None:
            return None
        low, high = contour.log_bounds(epsilon)
        if high - low <= nats_apart(contour, epsilon) / 2:
            return min(high, 0.0)
        if abs(high - log_delta) < JOINING_NATS:
            return None
        log_delta = high
    return None


def _joining_tilts(law: SampledGaussian, log_delta: float) -> tuple[Array, Array]:
    """Return tilts around that of a normal loss, and bounds of nK there."""
    tau = JOINING_TILTS * (math.sqrt(-2 * log_delta) / law.deviation)
    return tau, law.count * log_negative_moments(law, tau) + 1e-12


def joining_contour(law: SampledGaussian, epsilon: float, log_delta: float) -> Contour | None:
    """Return a line near a point of the profile, ε of either sign; None where it would be long."""
    with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
        return _follow_joining(law, epsilon, log_delta)


def _follow_joining(law: SampledGaussian, epsilon: float, log_delta: float) -> Contour | None:
    tau, k = _joining_tilts(law, log_delta)
    plan = plan_for(Tilts(0, tau, k, np.ones(len(tau)), epsilon, log_delta))
    grown = -plan.theta * math.log1p(-law.rate)  # w^-θ, at most
    if not grown < MOST_GROWN_NATS:
        return None
    reach = math.sqrt(2 * (NORMAL_NATS + math.log(law.count * (1 + law.rate * plan.theta)) + grown))
    classes = SizeClasses(law, None, reach + law.mean, 1.0, reach + law.mean, (-reach, reach + law.mean))
    tilted, eta = Tilted.of(classes, Size.ANY, -plan.theta), plan.eta
    omega = frequencies_of(eta)
    end = find_end(omega, law.count * tilted.log_moduli(omega) - float(k[plan.index]), eta, plan.negligible)
    if end is None:
        return None
    count = math.ceil(end[0] / eta) + 1
    rule = rule_for([tilted], [0.0], eta * count, nats_of_rule(law.count, plan.theta))
    if rule is None or not is_affordable(classes.ends, rule.step, count):
        return None
    off = math.exp(rule.log_errors[0]) + float(missing_of(classes, plan.theta))
    line = log_moments_of(law, -plan.theta, classes.nodes(Size.ANY, rule.step), (eta, count), off)
    if line is None:
        return None
    above = float(k[plan.index] - line[0][0].real) + line[2] + 1e-9  # the tail was over a bound
    if not above < 1:
        return None
    contour = Contour.of((plan.theta, eta), line[:2], end[1] * math.exp(above), (tau, k))
    return contour.less_certain(line[2])
