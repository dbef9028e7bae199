"""The table of ways for Gaussian noise on Poisson samples: which is asked, in which order, and why.

The first way whose two bounds are near enough answers; each has its reason. Several laws, and plain Gaussian noise
beside them, go the same ways. Where none is near enough `cumulant.inversion.solve` is asked, which knows all pairs.
`python -m benchmarks roads` closes one way after the other, and says what that costs.

ε at a δ, and δ at an ε, are found alike on all of them: a way plans bounds of δ(ε) near a point, each plan made for
what the last one said, at one place after the other, until one is near enough.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from cumulant.errors import OutOfReach
from cumulant.inversion.contour import (
    AGREED_SLACKS,
    EXACT_NATS,
    SMALLEST_LOG_DELTA,
    Contour,
    meet_exactly,
    nats_apart,
)
from cumulant.inversion.enclosure import EXACT_AT_ZERO, EXACT_SHARE
from cumulant.inversion.sized_line import JOINS, LEAVES, MOST_POINTS, Orientation
from cumulant.inversion.split import (
    CUTS,
    FAR_AT_ZERO,
    Planned,
    SplitProfile,
    plan_other_side,
    plan_split,
)
from cumulant.inversion.whole_line import (
    LEAST_NATS,
    NEAR_TILTS,
    WIDE_TILTS,
    WholeLine,
    guess_epsilon,
    guess_log_delta,
    joining_ceiling,
    joining_log_ceiling,
    saddle_log_delta,
)
from cumulant.numerics.logspace import Array
from cumulant.pairs.sampled_gaussian import LARGEST_MEAN, SampledReleases

LEAST_EPSILON = 1e-9  # up to which no tilt makes ε likely
LEAST_COUNT, LARGEST_COUNT = 2, 10**11  # of releases, between which lines are short; rounding is bounded by itself
MOST_KEPT = 4096  # answers, a few hundred bytes each
LOST_NATS = 12.0  # that δ has fallen where little is left of the other side
FEW_POINTS = 500  # of a plain line
PLANS = 6  # at one place, each from the answer of the last
STEPS = 12  # of Newton's method
BESIDE_EPSILON = 1e-6  # of ε, at which a slope is looked for
NEAR_SHARE = 1e-4  # of ε, within which steps end
REPLANNED_NATS, LINE_NATS = 0.02, 0.5  # of log δ, by which it may be off what a split, or a line, was planned for


class Found(NamedTuple):
    """log δ at an ε, and whether it is so near that it agrees with an ε that was found on another plan."""

    log_delta: float
    is_sure: bool


class Way(NamedTuple):
    """A row of the table: bounds of δ, planned at places near a point, whose ε a whole line finds by itself."""

    name: str
    reason: str
    plan: Callable[[SampledReleases, float | None, float, Any], Planned | None]
    places: tuple[Any, ...]
    near_nats: float
    first_epsilon: Callable[[SampledReleases, float], float | None] = lambda releases, log_delta: None
    guess: Callable[[SampledReleases, float], float | None] = lambda releases, epsilon: None  # of log δ
    room: float = 1.0  # share of `nats_apart` by which less than δ is asked for: 0 where δ(ε) finds the line again


def _plan_line(
    direction: Orientation, points: int
) -> Callable[[SampledReleases, float | None, float, Array], Planned | None]:
    def plan(releases: SampledReleases, epsilon: float | None, log_delta: float, tilts: Array) -> Planned | None:
        line = WholeLine.at(releases, direction, log_delta, tilts)
        point = None if line is None else line.near(epsilon, log_delta)
        contour = None if line is None or point is None else line.contour(*point, points)
        return None if contour is None or point is None else Planned(point[0], contour)

    return plan


def _zero_if_near(releases: SampledReleases, log_delta: float) -> float | None:
    return 0.0 if log_delta > math.log(min(releases.deviation, 1.0)) - LOST_NATS else None


def _variation(releases: SampledReleases, epsilon: float = 0.0) -> float:
    return math.log(min(releases.deviation, 1.0)) - 1.0


WAYS: tuple[Way, ...] = (
    Way(
        "plain line",
        "many releases make up δ, so one line of all losses that δ can see ends soon",
        _plan_line(LEAVES, FEW_POINTS),
        (NEAR_TILTS,),
        LINE_NATS,
        room=0.0,
    ),
    Way(
        "other side",
        "ε is small beside the losses of rare samples, and read from the other direction these have a largest value",
        plan_other_side,
        (None,),
        math.inf,
        _zero_if_near,
        _variation,
    ),
    Way(
        "split",
        "a few large losses make up δ, so small ones and those far beyond are taken apart",
        plan_split,
        CUTS,
        REPLANNED_NATS,
        guess_epsilon,
        guess_log_delta,
    ),
)
WAYS_AT_ZERO = (WAYS[1], WAYS[2]._replace(places=(FAR_AT_ZERO,), guess=_variation))
JOINING = Way(
    "joining",
    "Chernoff's bound leaves open which direction is worse",
    _plan_line(JOINS, MOST_POINTS),
    (WIDE_TILTS,),
    LINE_NATS,
)


# Both directions ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=MOST_KEPT)
def sampled_epsilon(releases: SampledReleases, log_delta: float) -> float | None:
    """Return the smallest ε with δ(ε) <= δ in both directions, rounded up; None where no way is near enough.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  within 1e-9 of what both pairs need, or 1e-12.
    """
    if not _is_ordinary(releases) or not SMALLEST_LOG_DELTA < log_delta < -LEAST_NATS:
        return None
    with contextlib.suppress(OutOfReach):
        found = (epsilon_on(way, releases, log_delta) for way in WAYS)
        least = next((epsilon for epsilon in found if epsilon is not None), None)
        if least is None:
            return None
        if joining_ceiling(releases, log_delta) <= least:
            return least
        return epsilon_on(JOINING, releases, log_delta, least)
    return None


@lru_cache(maxsize=MOST_KEPT)
def sampled_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    """Return log δ(ε), the larger of both directions, rounded up; None where no way is near enough.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  so near that ε would be within 1e-9 of what both pairs need, or 1e-12.
    """
    if not _is_ordinary(releases) or not 0 <= epsilon < math.inf:
        return None
    with contextlib.suppress(OutOfReach):
        leaving = _leaving_log_delta(WAYS if epsilon > LEAST_EPSILON else WAYS_AT_ZERO, releases, epsilon)
        if epsilon == 0:  # both directions are the total variation
            return leaving
        worst = None if leaving is None else _joined(releases, epsilon, leaving)
        # an ε that is not found here agrees with a δ that is not found here
        return None if worst is None or sampled_epsilon(releases, worst) is None else worst
    return None


def _leaving_log_delta(ways: Sequence[Way], releases: SampledReleases, epsilon: float) -> float | None:
    """Return log δ(ε) when a record leaves: the first that is so near that it agrees with any ε, else the least."""
    about = saddle_log_delta(releases, epsilon) if epsilon > LEAST_EPSILON else None
    least = None
    for way in ways:
        guesses = about, way.guess(releases, epsilon)
        found = log_delta_on(way, releases, epsilon, [one for one in guesses if one is not None])
        if found is None:
            continue
        least = found.log_delta if least is None else min(found.log_delta, least)
        if found.is_sure:
            break
    return least


def _joined(releases: SampledReleases, epsilon: float, log_delta: float) -> float | None:
    """Return the larger of a log δ and of that at ε when a record joins."""
    if log_delta >= 0 or joining_log_ceiling(releases, log_delta, epsilon) <= log_delta:
        return log_delta
    joining = log_delta_on(JOINING, releases, epsilon, [log_delta], log_delta)
    return None if joining is None else joining.log_delta


def _is_ordinary(releases: SampledReleases) -> bool:
    """Return whether parameters keep their digits, and lines are short."""
    in_range = all(law.is_ordinary for law in releases.laws) and releases.variance < LARGEST_MEAN**2
    return in_range and releases.count + (releases.variance > 0) >= LEAST_COUNT and releases.count <= LARGEST_COUNT


# One search for ε, and one for δ --------------------------------------------------------------------------------------


def epsilon_on(way: Way, releases: SampledReleases, log_delta: float, least: float = -math.inf) -> float | None:
    """Return the smallest ε with δ(ε) <= δ in the direction of a way, or `least` if that is enough; rounded up.

    None where no plan is near enough.

    Holds for:  Poisson sampling, add-or-remove-one, one of two directions; adaptive composition.
    Tightness:  within 1e-9 of what the pair needs, or 1e-12.
    """
    epsilon = way.first_epsilon(releases, log_delta)
    for place in way.places:
        for _ in range(PLANS):
            planned = way.plan(releases, epsilon, log_delta, place)
            if planned is None:
                break
            near, bounds = planned
            apart = way.room * nats_apart(bounds, near) if way.room > 0 else 0.0
            if (least >= 0 or near == 0) and _is_enough(bounds, max(least, 0.0), log_delta, apart):
                return max(least, 0.0)
            found = meet_exactly(bounds, near, log_delta, apart, at_zero=EXACT_AT_ZERO)
            if found is not None:
                return max(found, least, 0.0)
            low, high = bounds.log_bounds(near)
            if abs(high - log_delta) < REPLANNED_NATS and not high - low <= EXACT_NATS:  # another plan says no more
                break
            nearer = follow_to(bounds, near, log_delta)
            if nearer is None:
                break
            epsilon = nearer
    return None


def _is_enough(bounds: Contour | SplitProfile, epsilon: float, log_delta: float, apart: float) -> bool:
    """Return whether δ(ε) is at most δ, even if it is planned by itself."""
    low, high = bounds.log_bounds(epsilon)
    return high <= log_delta - max(AGREED_SLACKS * (high - low), apart if epsilon > 0 else 0.0)


def log_delta_on(
    way: Way, releases: SampledReleases, epsilon: float, guesses: Sequence[float], least: float = -math.inf
) -> Found | None:
    """Return log δ(ε) in the direction of a way, or `least` if it is at most that; rounded up.

    None where no plan is near enough.

    Holds for:  Poisson sampling, add-or-remove-one, one of two directions; adaptive composition.
    Tightness:  so near that ε would be within 1e-9 of what the pair needs, or 1e-12.
    """
    for place in way.places:
        settled = (_settle(way, releases, epsilon, log_delta, place) for log_delta in guesses)
        bounds = next((bounds for bounds in settled if bounds is not None), None)
        if bounds is None:
            continue
        low, high = bounds.log_bounds(epsilon)
        if high <= least or bounds.log_lower(epsilon - max(EXACT_SHARE * epsilon, EXACT_AT_ZERO)) >= high:
            return Found(max(high, least), high - low <= nats_apart(bounds, epsilon) / 2)
        guesses = (high,)
    return None


def _settle(
    way: Way, releases: SampledReleases, epsilon: float, log_delta: float, place: Any
) -> Contour | SplitProfile | None:
    """Return bounds that say at ε about what they were planned for, or so much that it does not matter."""
    for _ in range(PLANS):
        planned = way.plan(releases, epsilon, log_delta, place) if SMALLEST_LOG_DELTA < log_delta < 0 else None
        if planned is None:
            return None
        low, high = planned.bounds.log_bounds(epsilon)
        if abs(high - log_delta) < way.near_nats or high - low <= nats_apart(planned.bounds, epsilon) / 2:
            return planned.bounds
        log_delta = high
    return None


def follow_to(profile: SplitProfile | Contour, start: float, log_delta: float) -> float | None:
    """Return about the ε of a δ, a few steps of Newton's method away; None where nothing is near."""
    x = start
    for _ in range(STEPS):
        value, slope = profile.log_upper(x)
        if x > 0:
            slope = (profile.log_upper(x * (1 + BESIDE_EPSILON))[0] - value) / (BESIDE_EPSILON * x)
        if not slope < 0:  # too far from what was planned for
            return x if x != start else None
        step = (value - log_delta) / -slope
        if x > 0:
            step = min(max(step, -x / 3), x / 2)
        x += step
        if not abs(step) > NEAR_SHARE * x:
            break
    return x if x > 0 else None
