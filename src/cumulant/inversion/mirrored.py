"""Small ε of a rare sample, in the mirror: a record that leaves, from the losses of one that joins.

As (x)_+ = x + (-x)_+, the profiles of P against Q and of Q against P are the same curve, read from two sides:

    δ_{P‖Q}(ε) = 1 - e^ε + e^ε δ_{Q‖P}(-ε),   any real ε.

Where a record leaves a rare sample, the tilts that make a small ε likely make a few large losses count most. Where it
joins, no loss is above -log(1-γ), and the line of `cumulant.inversion.joining` may end soon. At ε = 0 both profiles are
the total variation. What the difference leaves of δ_{Q‖P}(-ε) keeps its digits up to a few standard deviations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from cumulant.inversion.contour import AGREED_SLACKS, EXACT_AT_ZERO, EXACT_NATS, EXACT_SHARE, Contour, meet_exactly
from cumulant.inversion.joining import joining_contour
from cumulant.numerics.rounding import ROUNDING, log_above, log_below
from cumulant.pairs.sampled_gaussian import SampledReleases
from cumulant.profiles.profile import gaussian_log_delta

FARTHEST_DEVIATIONS = 4.0  # of all losses, beyond which little is left by the difference
FARTHEST_EPSILON = 4.0  # likewise
LOST_NATS = 12.0  # that δ has fallen by then
MIRRORED_PLANS = 3  # of the ε that a line is planned for
LARGEST_SLOPE_NATS = 700.0  # log of a slope that a double holds
NEWTON_STEPS = 12  # of Newton's method, towards the ε of a δ
NEAR_SHARE = 1e-3  # of ε, within which they end
NEAR_DEVIATIONS = 0.25  # of all losses, within which a plan serves


@final
@dataclass(frozen=True, slots=True, eq=False)
class MirroredProfile:
    """Bounds of δ(ε), the larger of both directions, from the line of a record that joins."""

    joining: Contour

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound of log δ(ε), and about its slope."""
        mirrored, slope = self.joining.log_upper(-epsilon)
        log_mirrored = min(mirrored, 0.0)
        leaving = _left_by_difference(log_mirrored, epsilon, 1)
        if leaving == -math.inf:
            return self.joining.log_upper(epsilon)
        falls = math.exp(log_mirrored) * (1 - slope) - 1  # over e^ε
        rate = falls * math.exp(min(epsilon - leaving, LARGEST_SLOPE_NATS))
        joining, joining_slope = self.joining.log_upper(epsilon)
        return (leaving, rate if rate < 0 else slope) if leaving >= joining else (joining, joining_slope)

    def log_lower(self, epsilon: float) -> float:
        """Return the lower bound; -inf where nothing is known."""
        leaving = _left_by_difference(self.joining.log_lower(-epsilon), epsilon, -1)
        return max(leaving, self.joining.log_lower(epsilon))

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return both."""
        return self.log_lower(epsilon), self.log_upper(epsilon)[0]

    def follow(self, start: float, log_delta: float, farthest: float) -> float:
        """Return about the ε of a δ that is less than δ(0), by a few steps of Newton's method, or one beyond all."""
        x = start
        for _ in range(NEWTON_STEPS):
            value, slope = self.log_upper(x)
            last, x = x, max(x + (value - log_delta) / -slope, x / 4)
            if abs(x - last) <= NEAR_SHARE * x or not x < farthest:
                break
        return x


def _left_by_difference(log_mirrored: float, epsilon: float, side: int) -> float:
    """Return log(1 - e^ε + e^ε δ'), up by side 1, down by -1, with log δ' <= 0; -inf where nothing is left."""
    if log_mirrored == -math.inf:
        return -math.inf
    mirrored, taken = math.exp(log_mirrored), -math.expm1(-epsilon)
    # the logarithm of δ' was rounded, and so are both terms, to a few units of either
    left = mirrored - taken + side * ROUNDING * (mirrored * (1 - log_mirrored) + abs(taken))
    if not left > 0:
        return -math.inf
    return log_above(epsilon + math.log(left)) if side > 0 else log_below(epsilon + math.log(left))


def mirrored_epsilon(releases: SampledReleases, log_delta: float) -> float | None:
    """Return the smallest ε with δ(ε) <= δ in both directions, rounded up; None where δ is too small, or a line long.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  within 1e-9 of what both pairs need, or 1e-12.
    """
    if not log_delta > math.log(min(releases.deviation, 1.0)) - LOST_NATS:
        return None
    epsilon = 0.0
    for _ in range(MIRRORED_PLANS):
        profile = _mirrored_profile(releases, epsilon)
        if profile is None:
            return None
        low, high = profile.log_bounds(0.0)
        aim = log_delta - AGREED_SLACKS * (high - low)  # so that δ(ε), on a line of its own, agrees
        if high <= aim:
            return 0.0
        nearer = profile.follow(epsilon, aim, _farthest(releases))
        if not nearer < _farthest(releases):
            return None
        if abs(nearer - epsilon) <= NEAR_DEVIATIONS * releases.deviation:
            found = meet_exactly(profile, nearer, log_delta, apart=0.0, at_zero=EXACT_AT_ZERO)
            if found is not None:
                return max(found, 0.0)
        epsilon = nearer
    return None


def mirrored_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    """Return log δ(ε), the larger of both directions, rounded up; None where ε is too large, or a line long.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  so near that ε would be within 1e-9 of what both pairs need, or 1e-12.
    """
    if not epsilon < _farthest(releases):
        return None
    before = max(epsilon - NEAR_DEVIATIONS * releases.deviation, 0.0)
    for planned in (epsilon, before):  # ε is found on lines that were planned as near as that
        profile = _mirrored_profile(releases, planned)
        if profile is None:
            continue
        (low, high), slope = profile.log_bounds(epsilon), profile.log_upper(epsilon)[1]
        if high - low <= min(EXACT_NATS, max(EXACT_SHARE * epsilon, EXACT_AT_ZERO) * -slope):
            return min(high, 0.0)
    return None


def _farthest(releases: SampledReleases) -> float:
    return min(FARTHEST_DEVIATIONS * releases.deviation, FARTHEST_EPSILON)


def _mirrored_profile(releases: SampledReleases, epsilon: float) -> MirroredProfile | None:
    """Return bounds that are near ε, where losses are about normal; None where the line would be long."""
    leaving = gaussian_log_delta(releases.deviation, epsilon)
    about = math.log(math.exp(leaving - epsilon) - math.expm1(-epsilon))
    contour = joining_contour(releases, -epsilon, about) if about < 0 else None
    return None if contour is None else MirroredProfile(contour)
