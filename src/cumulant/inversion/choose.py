"""The table of ways for Gaussian noise on Poisson samples: which is asked, in which order, and why.

The first way whose two bounds are near enough answers; each has its reason. Several laws, and plain Gaussian noise
beside them, go the same ways. Where none is near enough `cumulant.inversion.solve` is asked, which knows all pairs.
`python -m benchmarks roads` closes one way after the other, and says what that costs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from cumulant.answer import CLOSELY, EXACTLY
from cumulant.errors import OutOfReach
from cumulant.inversion.contour import SMALLEST_LOG_DELTA
from cumulant.inversion.joining import joining_epsilon, joining_log_delta
from cumulant.inversion.mirrored import mirrored_epsilon, mirrored_log_delta
from cumulant.inversion.sampled_line import (
    FIRST_LOOK,
    LAST_LOOK,
    LEAST_NATS,
    NEAR_LOOK,
    SampledLine,
    epsilon_on,
    leaving_epsilon,
    leaving_log_delta,
    log_delta_on,
    saddle_log_delta,
)
from cumulant.inversion.split_search import split_epsilon, split_log_delta, split_variation
from cumulant.pairs.sampled_gaussian import LARGEST_MEAN, SampledReleases

LEAST_EPSILON = 1e-9  # up to which no line is planned for an ε
LEAST_COUNT, LARGEST_COUNT = 2, 10**11  # of releases, between which lines are short; rounding is bounded by itself
MOST_KEPT = 4096  # answers, a few hundred bytes each

Epsilon = Callable[[SampledReleases, float], float | None]
LogDelta = Callable[[SampledReleases, float, float | None], float | None]


class Way(NamedTuple):
    """A row of the table: ε at a δ and δ at an ε when a record leaves, or of both directions at once."""

    name: str
    reason: str
    epsilon: Epsilon
    log_delta: LogDelta
    knows_both: bool = False
    share: float = CLOSELY  # of ε, by which an answer may be above the truth


WAYS: tuple[Way, ...] = (
    Way(
        "plain line",
        "many releases make up δ, so one line of all losses that δ can see ends soon",
        leaving_epsilon,
        leaving_log_delta,
    ),
    Way(
        "mirror",
        "ε is small beside the losses of rare samples, and read from the other direction these have a largest value",
        mirrored_epsilon,
        lambda releases, epsilon, about: mirrored_log_delta(releases, epsilon),
        knows_both=True,
    ),
    Way(
        "split",
        "a few large losses make up δ, so small ones and those far beyond are taken apart",
        split_epsilon,
        split_log_delta,
    ),
    Way(
        "rough split",
        "rounding of lines that lie far above δ leaves it no more than six digits",
        lambda releases, log_delta: split_epsilon(releases, log_delta, EXACTLY),
        lambda releases, epsilon, about: split_log_delta(releases, epsilon, about, EXACTLY),
        share=EXACTLY,
    ),
)


class Leaving(NamedTuple):
    """The ε of a δ when a record leaves, and the way on which it was found."""

    epsilon: float
    way: Way


@lru_cache(maxsize=MOST_KEPT)
def sampled_epsilon(releases: SampledReleases, log_delta: float) -> float | None:
    """Return the smallest ε with δ(ε) <= δ in both directions, rounded up; None where no way is near enough.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  within 1e-9 of what both pairs need, or 1e-12; see `share_above`.
    """
    if not _is_ordinary(releases) or not SMALLEST_LOG_DELTA < log_delta < -LEAST_NATS:
        return None
    with contextlib.suppress(OutOfReach):
        leaving = _leaving(releases, log_delta)
        if leaving is None or leaving.way.knows_both:
            return None if leaving is None else leaving.epsilon
        return _joining(releases, log_delta, leaving.epsilon)
    return None


@lru_cache(maxsize=MOST_KEPT)
def _leaving(releases: SampledReleases, log_delta: float) -> Leaving | None:
    for way in WAYS:
        epsilon = way.epsilon(releases, log_delta)
        if epsilon is not None:
            return Leaving(epsilon, way)
    return None


def share_above(releases: SampledReleases, log_delta: float) -> float:
    """Return the share of ε by which `sampled_epsilon` at this δ may be above what the pairs need."""
    with contextlib.suppress(OutOfReach):
        leaving = _leaving(releases, log_delta)
        return CLOSELY if leaving is None else leaving.way.share
    return CLOSELY


def _joining(releases: SampledReleases, log_delta: float, least: float) -> float | None:
    """Return the larger of an ε and of that when a record joins."""
    for look in (FIRST_LOOK, NEAR_LOOK, LAST_LOOK):
        line = SampledLine.at(releases, False, log_delta, look)
        if line is not None and line.ceiling(log_delta) <= least:  # by Chernoff's bound
            return least
        epsilon = None if line is None or look is FIRST_LOOK else epsilon_on(line, log_delta, least)
        if epsilon is not None:
            return max(epsilon, least)
    epsilon = joining_epsilon(releases, log_delta, least)
    return None if epsilon is None else max(epsilon, least)


@lru_cache(maxsize=MOST_KEPT)
def sampled_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    """Return log δ(ε), the larger of both directions, rounded up; None where no way is near enough.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  so near that ε would be within 1e-9 of what both pairs need, or 1e-12; see `share_above`.
    """
    if not _is_ordinary(releases) or not 0 <= epsilon < math.inf:
        return None
    with contextlib.suppress(OutOfReach):
        if epsilon <= LEAST_EPSILON:  # where no line is planned: ε at this δ is 0, or next to it, on any way
            mirrored = mirrored_log_delta(releases, epsilon)
            return split_variation(releases) if mirrored is None else mirrored
        worst = _worst_log_delta(releases, epsilon)
        # an ε that is not found here agrees with a δ that is not found here
        return None if worst is None or sampled_epsilon(releases, worst) is None else worst
    return None


def _worst_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    about, other = saddle_log_delta(releases, epsilon), None
    for way in WAYS:
        log_delta = way.log_delta(releases, epsilon, about)
        leaving = None if log_delta is None else _leaving(releases, log_delta)
        if log_delta is None or leaving is None:
            continue
        if leaving.way is way:  # so that ε and δ agree to the last digit
            return log_delta if way.knows_both else _joined(releases, epsilon, log_delta)
        if way.share == CLOSELY:  # what `share_above` says at that δ holds for it, whichever way ε goes there
            other = log_delta if other is None else min(other, log_delta)
    return None if other is None else _joined(releases, epsilon, other)


def _joined(releases: SampledReleases, epsilon: float, log_delta: float) -> float | None:
    """Return the larger of a log δ and of that at ε when a record joins."""
    joining = log_delta_on(releases, False, log_delta, epsilon, log_delta)
    if joining is None:
        joining = joining_log_delta(releases, epsilon, log_delta)
    return None if joining is None else max(log_delta, joining)


def _is_ordinary(releases: SampledReleases) -> bool:
    """Return whether parameters keep their digits, and lines are short."""
    in_range = all(law.is_ordinary for law in releases.laws) and releases.variance < LARGEST_MEAN**2
    return in_range and releases.count + (releases.variance > 0) >= LEAST_COUNT and releases.count <= LARGEST_COUNT
