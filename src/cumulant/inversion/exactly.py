"""The ε of a δ from bounds that are next to one another: exactly, or not at all."""

from __future__ import annotations

import math
from typing import Protocol

from cumulant.inversion.enclosure import EXACT_SHARE
from cumulant.pairs.sampled_gaussian import ROUNDING

SLACK_NATS = 1e-8  # slack in log δ beyond which no answer is exact
AGREED_SLACKS = 4.0  # times the slack by which δ is lowered, so that δ(ε), on a line of its own, agrees
AGREED_NATS = 2e-10  # at least, where it may be found another way
SMALLEST_LOG_DELTA = -650.0  # whose shares are doubles
NEWTON_TURNS = 30  # of Newton's method
NUDGES = tuple(2.0**k for k in range(-50, -30))  # relative, by which ε is raised until δ is reached


class Bounds(Protocol):
    """Bounds of log δ(ε)."""

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper one, and about its slope."""

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return both."""


def meet_exactly(bounds: Bounds, start: float, log_delta: float, agreed: float = AGREED_NATS) -> float | None:
    """Return the least ε whose bound is a little less than log δ; None if it may be above the truth."""
    low, high = bounds.log_bounds(start)
    if not high - low <= SLACK_NATS:
        return None
    rounded = 4 * ROUNDING * abs(log_delta)  # as the logarithm of δ was, and more
    aim = log_delta - rounded - max(AGREED_SLACKS * (high - low), agreed)
    x = start
    for _ in range(NEWTON_TURNS):
        value, slope = bounds.log_upper(x)
        x += (value - aim) / -slope
        if not 0 < x < math.inf or abs(value - aim) <= -1e-15 * slope * x:
            break
    for nudge in NUDGES if 0 < x < math.inf else ():
        epsilon = x * (1 + nudge)
        if bounds.log_upper(epsilon)[0] <= aim:  # only what was tested is returned
            return epsilon if bounds.log_bounds(epsilon * (1 - EXACT_SHARE))[0] >= log_delta else None
    return None
