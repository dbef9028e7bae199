"""A record that joins rare samples: what Chernoff's bound leaves open, on a line whose path is moved.

When a record joins, E_P e^{zL} = E_Q w^-z, and losses are at most -log(1-γ). |E_Q w^-z|^n falls by the bounds of
`cumulant.pairs.size_classes` as few releases do, for which the cells of `cumulant.inversion.sampled_line` prove too
little.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cumulant.inversion.contour import SMALLEST_LOG_DELTA, Contour, log_chernoff, meet_exactly, nats_apart
from cumulant.inversion.sized_line import SizedLaw, SizedMeasure
from cumulant.inversion.split import NORMAL_NATS
from cumulant.numerics.logspace import Array
from cumulant.pairs.sampled_gaussian import SampledGaussian, SampledReleases
from cumulant.pairs.size_classes import Size, SizeClasses
from cumulant.pairs.size_moments import log_negative_moments

JOINING_TILTS = 2.0 ** (np.arange(-48.0, 33.0) / 8)  # over the tilt of a normal loss
MOST_GROWN_NATS = 1000.0  # of w^-θ: beyond, sums would reach far
JOINING_PLANS = 3  # of the δ that a line is planned for, or of ε
JOINING_NATS = 0.5  # by which that may be off


def joining_ceiling(releases: SampledReleases, log_delta: float) -> float:
    """Return Chernoff's bound of ε at a δ when a record joins, or the largest loss."""
    tau, k = _joining_tilts(releases, log_delta)
    bound = float(np.min((log_chernoff(tau) + k - log_delta) / tau))
    return min(bound + 1e-9 * abs(bound), releases.largest_joining_loss)


def joining_log_ceiling(releases: SampledReleases, epsilon: float) -> float:
    """Return Chernoff's bound of log δ(ε) when a record joins; -inf beyond the largest loss."""
    if epsilon >= releases.largest_joining_loss:
        return -math.inf
    tau, k = _joining_tilts(releases, -0.5 * (epsilon / releases.deviation) ** 2 - 1)
    return float(np.min(log_chernoff(tau) + k - tau * epsilon)) + 1e-9


def joining_epsilon(releases: SampledReleases, log_delta: float, least: float = 0.0) -> float | None:
    """Return the smallest ε with δ(ε) <= δ when a record joins, rounded up, or a bound that is at most `least`.

    None where the line would be long.
    """
    epsilon = joining_ceiling(releases, log_delta)
    if epsilon <= least or joining_log_ceiling(releases, least) <= log_delta:
        return min(epsilon, least)
    for _ in range(JOINING_PLANS):
        contour = joining_contour(releases, epsilon, log_delta)
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


def joining_log_delta(releases: SampledReleases, epsilon: float, least: float = -math.inf) -> float | None:
    """Return log δ(ε) when a record joins, rounded up, or a bound that is at most `least`.

    None where the line would be long or would say too little, and where δ is 1 or too small.
    """
    log_delta = joining_log_ceiling(releases, epsilon)
    if log_delta <= least:
        return log_delta
    for _ in range(JOINING_PLANS):
        if not SMALLEST_LOG_DELTA < log_delta < 0:
            return None
        contour = joining_contour(releases, epsilon, log_delta)
        if contour is None:
            return None
        low, high = contour.log_bounds(epsilon)
        if high - low <= nats_apart(contour, epsilon) / 2:
            return min(high, 0.0)
        if abs(high - log_delta) < JOINING_NATS:
            return None
        log_delta = high
    return None


def _joining_tilts(releases: SampledReleases, log_delta: float) -> tuple[Array, Array]:
    """Return tilts around that of a normal loss, and bounds of K there."""
    measure = _all_releases(releases, log_delta)
    return measure.tau, measure.k + 1e-12


def _all_releases(releases: SampledReleases, log_delta: float) -> SizedMeasure:
    tau = JOINING_TILTS * (math.sqrt(-2 * log_delta) / releases.deviation)
    laws = (
        SizedLaw(_reach(releases, law, 0.0), n, Size.ANY, None, log_negative_moments(law, tau, releases.count))
        for law, n in releases.parts
    )
    return SizedMeasure(releases, False, tuple(laws), tau)


def _reach(releases: SampledReleases, law: SampledGaussian, theta: float) -> SizeClasses:
    """Return all releases of a law as one class, between places beyond which nothing is left at a tilt θ."""
    grown = -theta * math.log1p(-law.rate)  # w^-θ, at most
    reach = math.sqrt(2 * (NORMAL_NATS + math.log(releases.count * (1 + law.rate * theta)) + grown))
    return SizeClasses(law, None, reach + law.mean, 1.0, reach + law.mean, (-reach, reach + law.mean))


def joining_contour(releases: SampledReleases, epsilon: float, log_delta: float) -> Contour | None:
    """Return a line near a point of the profile, ε of either sign; None where it would be long."""
    with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
        everything = _all_releases(releases, log_delta)
        plan = everything.plan(epsilon, log_delta)
        if not -plan.theta * math.log1p(-max(law.rate for law in releases.laws)) < MOST_GROWN_NATS:
            return None
        laws = tuple(one._replace(classes=_reach(releases, one.classes.law, plan.theta)) for one in everything.laws)
        return replace(everything, laws=laws).contour(plan)
