"""Laws in a coordinate that is standard normal under Q: spans, strips and tails that all of them share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import log_root, log_sum_ball
from cumulant.pairs.coordinate import BEYOND_NATS, Branch
from cumulant.pairs.law import LineLaw

if TYPE_CHECKING:
    from flint import arb

REACH = 10.5  # standard deviations either side: e^-55 is left out
LEVEL_STEP, MOST_LOOKED_AT = 0.5, 2e5  # widths of a density between points at which it is looked at, and points
MOST_HALVES = 60  # of a way to the peak
WHOLE_REACH = 13.0  # standard deviations where it is proven: e^-84


class NormalLaw(LineLaw):
    """A law in a coordinate that is standard normal under Q."""

    __slots__ = ()

    curvature, least_curvature, resolved, atoms = 1.0, 1.0, 1.0, ()

    @property
    def slopes(self) -> Any:
        """`steepest`, of several laws that of each, a column."""
        return self.steepest

    def log_density(self, t: Any) -> Any:
        return -t * t / 2 - log_root(t)

    def span_start(self, branch: Branch, theta: float) -> float:
        """A falling loss moves the peak of φΠw^a to the left; a factor w(-t) does so with Q itself."""
        if not branch.rises:
            return _first_relevant(branch, theta) - REACH
        return float(-REACH - 2 * (branch.steepest - self.steepest))

    def span_end(self, branch: Branch, theta: float) -> float:
        """A rising loss moves the peak to the right, by less than the factors grow per unit."""
        near = float(2 * branch.steepest + REACH)
        if not branch.rises:
            return near
        growth = float(sum(map(abs, branch.powers(max(theta, 1.0)))) * self.steepest)
        last = _last_relevant(branch, theta, self.last_peak(growth) + REACH)
        return last if self.is_cut else max(last, near)

    def last_peak(self, growth: float) -> float:
        """Return a point beyond which the density falls, times factors that grow by so many nats a unit."""
        return growth

    def whole_span(self, far: float) -> tuple[float, float]:
        return -far - WHOLE_REACH, self.last_peak(far) + WHOLE_REACH

    def log_tails(self, ends: tuple[arb, arb], y: arb, growth: arb, log_factor: Callable[[arb], arb]) -> arb:
        """Beyond an end b a factor that grows by g per unit leaves e^{-b²/2}/(b-g) times its value there."""
        logs = [log_factor(b) + (y * y - b * b) / 2 - (abs(b) - growth).log() - log_root(b) for b in ends]
        return log_sum_ball(logs)

    def log_density_bound(self, low: arb, high: arb, y: arb) -> arb:
        nearest = low if low > 0 else high if high < 0 else 0 * low
        return (y * y - nearest * nearest) / 2 - log_root(y)


class NormalMixture(NormalLaw):
    """A normal law of which P is a mixture with others of its width."""

    __slots__ = ()

    @abstractmethod
    def components(self, rate: Any) -> Iterable[tuple[Any, Any]]:
        """Return (share, mean) of the normal laws that P mixes at this rate; of several laws, the largest."""


def _last_relevant(branch: Branch, theta: float, farthest: float) -> float:
    """Return where the tilted density on [0, farthest] has fallen for good, BEYOND_NATS below M(θ) - 1.

    Between two points a log-density is above the higher one by at most its curvature times a square: LEVEL_STEP²/8.
    """
    step = LEVEL_STEP / math.sqrt(branch.law.curvature)
    if farthest > MOST_LOOKED_AT * step:
        raise OutOfReach(f"a loss would have to be followed for {farthest:g} standard deviations")
    t = np.append(np.arange(0.0, farthest, step), farthest)
    values = np.atleast_2d(branch.log_tilted_density(t, theta))
    depth = BEYOND_NATS + LEVEL_STEP**2 / 8 - branch.factors[0][1].log_excess(branch.law.log_square, theta)
    relevant = np.any(values > np.max(values, axis=1, keepdims=True) - depth, axis=0)
    last = int(np.flatnonzero(relevant)[-1])
    return float(t[min(last + 1, len(t) - 1)])


def _first_relevant(branch: Branch, theta: float) -> float:
    """Return a point below the peak of φw^{-θ}, whose logarithm is concave: t = -θℓ'(t).

    It is halved as long as the next one is still below the peak.
    """
    t = np.asarray(-theta * branch.steepest * 0.5 ** np.arange(MOST_HALVES + 1.0))
    steepest = np.exp(np.max(np.atleast_2d(branch.log_slope(t)), axis=0))
    passed = -theta * steepest[1:] <= t[1:]
    return float(t[np.argmax(passed)] if np.any(passed) else t[-1])
