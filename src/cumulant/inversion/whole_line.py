"""All losses, of a record that leaves or joins: tilts, Chernoff's bounds, and the line near a point.

K of all releases is the sum of theirs, and its derivatives put the line near its saddle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.inversion.contour import SMALLEST_LOG_DELTA, Contour, log_chernoff
from cumulant.inversion.plan import approximate, curvature_of
from cumulant.inversion.sized_line import JOINS, LEAVES, LONG, Direction, Limits, SizedLaw, SizedMeasure
from cumulant.numerics.logspace import Array
from cumulant.pairs.sampled_gaussian import RealTilts, SampledReleases
from cumulant.pairs.size_classes import Size, SizeClasses, reach_of

DELTA_GUESSES = 2  # of log δ
GUESSED_SHARES = (1.0, 0.3)  # of the tilt of a normal loss, around which it is looked for
FIRST_GUESS_NATS = 10.0  # below a normal loss, the first of them
LEAST_NATS = 1e-9  # of -log δ, for which a line is planned
SHORT = Limits(1_500, 1_500, 4e8)
ALL_TILTS = 2.0 ** (np.arange(-48.0, 33.0) / 8)  # over the tilt of a normal loss


class Look(NamedTuple):
    """Tilts, over that of a normal loss, and what a line through one of them may take."""

    tilts: Array
    limits: Limits


FIRST_LOOK = Look(ALL_TILTS[28:57:4], SHORT)  # for Chernoff's bound
NEAR_LOOK, JOINING_LOOK = Look(ALL_TILTS[24:57:2], SHORT), Look(ALL_TILTS, LONG)


@final
@dataclass(frozen=True, slots=True, eq=False)
class WholeLine:
    """All releases in one direction, without what δ cannot see, and K' and K'' of them at the measure's tilts."""

    measure: SizedMeasure
    limits: Limits
    slope: Array
    bend: Array

    @staticmethod
    def at(releases: SampledReleases, direction: Direction, log_delta: float, look: Look) -> WholeLine | None:
        """Return the line's tilts for a δ, around that of a normal loss."""
        return WholeLine.of(releases, direction, math.sqrt(-2 * log_delta) / releases.deviation, look)

    @staticmethod
    def of(releases: SampledReleases, direction: Direction, first_tilt: float, look: Look) -> WholeLine | None:
        """Return the line's tilts around the first; None where sums over nodes would be long."""
        tau, laws, slope, bend = look.tilts * first_tilt, [], releases.variance * 0.5, releases.variance
        s = direction.power(tau)
        with np.errstate(all="ignore"):  # what is no number makes bounds that say nothing
            for law, n in releases.parts:
                ends = reach_of(law, float(s[-1]), releases.count)
                tilts = RealTilts.of(law, s, ends, None, releases.count)
                if tilts is None:
                    return None
                log_base, mean, spread = tilts.log_moments()
                laws.append(SizedLaw(SizeClasses.all_of(law, ends), n, Size.ANY, None, log_base))
                slope, bend = slope + n * mean, bend + n * spread
            slope = slope + releases.variance * tau
            # where a record joins, losses that are not about normal make the line fall more slowly than F'' says
            curvature = curvature_of(tau, bend) if direction is LEAVES else None
            measure = SizedMeasure.of(releases, direction, laws, tau, curvature)
        known = slice(0, len(measure.tau))
        return WholeLine(measure, look.limits, slope[known], bend[known]) if len(measure.tau) > 1 else None

    def ceiling(self, log_delta: float) -> float:
        """Return Chernoff's bound of ε at a δ, or the largest loss."""
        bound = float(np.min((log_chernoff(self.measure.tau) + self.measure.k - log_delta) / self.measure.tau))
        return min(bound + 1e-9 * abs(bound), self.largest_loss)

    def log_ceiling(self, epsilon: float) -> float:
        """Return Chernoff's bound of log δ(ε); -inf beyond the largest loss."""
        if epsilon >= self.largest_loss:
            return -math.inf
        tau, k = self.measure.tau, self.measure.k
        return float(np.min(log_chernoff(tau) + k - tau * epsilon)) + 1e-9

    @property
    def largest_loss(self) -> float:
        return self.measure.releases.largest_joining_loss if self.measure.direction is JOINS else math.inf

    def saddle(self, *, log_delta: float | None = None, epsilon: float | None = None) -> tuple[float, float] | None:
        """Return ε and log δ, one asked for, the other by the saddle-point approximation; None if no tilt is near."""
        tau = self.measure.tau
        logs, at = approximate(tau, self.measure.k, self.slope, self.bend)
        away = logs - log_delta if log_delta is not None else at - (epsilon or 0.0)
        place = int(np.argmin(np.abs(away)))
        if not 0 < place < len(tau) - 1:
            return None
        tilt, here, there = float(tau[place]), float(logs[place]), float(at[place])
        width = float(curvature_of(tau[place], self.bend[place]))
        if log_delta is not None:  # -log δ grows by τx + x²/2F'' next to the ε of a tilt
            above = here - log_delta
            epsilon = there + 2 * above / (tilt + math.sqrt(max(tilt * tilt + 2 * above / width, 0.0)))
        assert epsilon is not None
        log_delta = here - (epsilon - there) * (tilt + (epsilon - there) / (2 * width))
        return (epsilon, log_delta) if epsilon > 0 > log_delta else None

    def near(self, epsilon: float | None, log_delta: float) -> tuple[float, float] | None:
        """Return a point of the profile, at an ε if it is known; None if no tilt is near."""
        if epsilon is not None:
            return self.saddle(epsilon=epsilon) or (epsilon, log_delta)
        return self.saddle(log_delta=log_delta) or (
            (self.ceiling(log_delta), log_delta) if self.measure.direction is JOINS else None
        )

    def contour(self, epsilon: float, log_delta: float) -> Contour | None:
        """Return the line near a point of the profile; None where it would be long."""
        with np.errstate(all="ignore"):  # likewise
            return self.measure.contour(epsilon, log_delta, self.limits)


def saddle_log_delta(releases: SampledReleases, epsilon: float) -> float | None:
    """Return about log δ(ε), so that its line will be the one on which ε at that δ is found."""
    deviation = releases.deviation
    above = min(max(epsilon / deviation - deviation / 2, 0.0), 1e9)  # standard deviations of one Gaussian
    about = -0.5 * above * above - FIRST_GUESS_NATS
    for turn in range(DELTA_GUESSES):
        if not SMALLEST_LOG_DELTA < about < -LEAST_NATS:
            return None
        tilt = math.sqrt(-2 * about) / deviation if turn else max(epsilon / deviation**2, 0.5)
        lines = (WholeLine.of(releases, LEAVES, tilt * share, NEAR_LOOK) for share in GUESSED_SHARES)
        points = (line.saddle(epsilon=epsilon) for line in lines if line is not None)
        point = next((point for point in points if point is not None), None)
        if point is None:
            return None
        about = point[1]
    return about if SMALLEST_LOG_DELTA < about < -LEAST_NATS else None
