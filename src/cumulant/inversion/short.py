"""The short way for the question that is asked most: Gaussian noise on Poisson samples, released many times.

A table of ways, each with its own reason: the first whose two bounds are near enough answers. Plain Gaussian noise
beside the samples, and several laws, go the same ways. Where none is near enough there is the long way
(`cumulant.inversion.solve`), which knows all pairs.
"""

from __future__ import annotations

import contextlib
import math
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from cumulant.errors import OutOfReach
from cumulant.inversion.contour import EXACT_SHARE, SMALLEST_LOG_DELTA, meet_exactly
from cumulant.inversion.joining import joining_epsilon, joining_log_delta
from cumulant.inversion.mirrored import mirrored_epsilon, mirrored_log_delta
from cumulant.inversion.sampled_line import (
    FIRST_LOOK,
    LAST_LOOK,
    NEAR_LOOK,
    NODES_BEYOND_NATS,
    SHARED_NATS,
    SampledLine,
)
from cumulant.inversion.split_search import split_epsilon, split_log_delta
from cumulant.pairs.sampled_gaussian import LARGEST_MEAN, SampledReleases

DELTA_GUESSES = 2  # of log δ
GUESSED_SHARES = (1.0, 0.3)  # of the tilt of a normal loss, around which it is looked for
LEAST_ASKED = 1e-9  # ε, or -log δ
LEAST_COUNT, LARGEST_COUNT = 2, 10**12  # of releases, between which lines are short; rounding is bounded by itself
MOST_RULE_POINTS = 1500  # of the rule of a law, and of a line, where ε is asked for
ROOM = 3  # times that: where ε is found this way δ(ε) is to be found, too
ANOTHER_LINE_NATS = 0.5  # of log δ, by which a guess of it may be off
MOST_KEPT = 4096  # answers, a few hundred bytes each


@lru_cache(maxsize=MOST_KEPT)
def shortest_epsilon(releases: SampledReleases, log_delta: float) -> float | None:
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
def _leaving(releases: SampledReleases, log_delta: float) -> _Leaving | None:
    for look in (NEAR_LOOK, LAST_LOOK):
        direction = SampledLine.at(releases, True, log_delta, look)
        epsilon = None if direction is None else _epsilon_on(direction, log_delta)
        if epsilon is not None:
            return _Leaving(epsilon, _Way.LINE)
    for way, ask in ((_Way.MIRROR, mirrored_epsilon), (_Way.SORTED, split_epsilon)):
        epsilon = ask(releases, log_delta)
        if epsilon is not None:
            return _Leaving(epsilon, way)
    return None


def _joining(releases: SampledReleases, log_delta: float, least: float) -> float | None:
    """Return the larger of an ε and of that when a record joins."""
    for look in (FIRST_LOOK, NEAR_LOOK, LAST_LOOK):
        direction = SampledLine.at(releases, False, log_delta, look)
        if direction is not None and direction.ceiling(log_delta) <= least:  # by Chernoff's bound
            return least
        epsilon = None if direction is None or look is FIRST_LOOK else _epsilon_on(direction, log_delta, least)
        if epsilon is not None:
            return max(epsilon, least)
    epsilon = joining_epsilon(releases, log_delta, least)
    return None if epsilon is None else max(epsilon, least)


@lru_cache(maxsize=MOST_KEPT)
def shortest_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
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


def _worst_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    found = _leaving_log_delta(releases, epsilon)
    if found is None:
        return None
    leaving, way = found
    if way is _Way.MIRROR:  # which knows both directions
        return leaving
    joining = _log_delta_on(releases, False, leaving, epsilon, leaving)
    if joining is None:
        joining = joining_log_delta(releases, epsilon, leaving)
    return None if joining is None else max(leaving, joining)


def _leaving_log_delta(releases: SampledReleases, epsilon: float) -> tuple[float, _Way] | None:
    """Return log δ(ε) when a record leaves, by the way on which ε at that δ is found, so that both agree."""
    about = _saddle_log_delta(releases, epsilon)
    for way in _Way:
        if way is _Way.MIRROR:
            log_delta = mirrored_log_delta(releases, epsilon)
        elif way is _Way.SORTED:
            log_delta = split_log_delta(releases, epsilon, about)
        else:
            log_delta = _on_a_line(releases, about, epsilon)
        leaving = None if log_delta is None else _leaving(releases, log_delta)
        if log_delta is not None and leaving is not None and leaving.way is way:
            return log_delta, way
    return None


def _on_a_line(releases: SampledReleases, about: float | None, epsilon: float) -> float | None:
    """Return log δ(ε), about so much, when a record leaves: on the line on which ε at that δ is found."""
    found = None if about is None else _log_delta_on(releases, True, about, epsilon)
    if found is None or about is None or abs(found - about) <= ANOTHER_LINE_NATS:
        return found
    return _log_delta_on(releases, True, found, epsilon)


def _saddle_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    """Return about log δ(ε), so that its line will be the one on which ε at that δ is found."""
    deviation = releases.deviation
    above = min(max(epsilon / deviation - deviation / 2, 0.0), 1e9)  # standard deviations of one Gaussian
    about = -0.5 * above * above - NODES_BEYOND_NATS
    for turn in range(DELTA_GUESSES):
        if not SMALLEST_LOG_DELTA < about < -LEAST_ASKED:
            return None
        tilt = math.sqrt(-2 * about) / deviation if turn else max(epsilon / deviation**2, 0.5)
        tried = ((tilt * share, look) for share in GUESSED_SHARES for look in (NEAR_LOOK, LAST_LOOK))
        looks = (SampledLine.of(releases, True, first, about, look) for first, look in tried)
        points = (direction.saddle(epsilon=epsilon) for direction in looks if direction is not None)
        point = next((point for point in points if point is not None), None)
        if point is None:
            return None
        about = point[1]
    return about if SMALLEST_LOG_DELTA < about < -LEAST_ASKED else None


def _is_ordinary(releases: SampledReleases) -> bool:
    """Return whether parameters keep their digits, and lines are short."""
    in_range = all(law.is_ordinary for law in releases.laws) and releases.variance < LARGEST_MEAN**2
    return in_range and releases.count + (releases.variance > 0) >= LEAST_COUNT and releases.count <= LARGEST_COUNT


def _epsilon_on(line: SampledLine, log_delta: float, least: float = 0.0) -> float | None:
    """Return the ε of a δ in this direction, or `least` if that is enough."""
    point = line.saddle(log_delta=log_delta)
    contour = None if point is None else line.contour(*point, MOST_RULE_POINTS)
    if point is None or contour is None:
        return None
    # δ(ε), on a line of its own, may be that much above
    if least > 0 and contour.log_upper(least)[0] <= log_delta - SHARED_NATS:
        return least
    return meet_exactly(contour, point[0], log_delta, apart=0.0)


def _log_delta_on(
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
