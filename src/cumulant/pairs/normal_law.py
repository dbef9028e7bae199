"""Laws in a coordinate that is standard normal under Q: spans, strips and tails that all of them share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import log_root, log_sum_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import BEYOND_NATS, Branch
from cumulant.pairs.law import LineLaw

if TYPE_CHECKING:
    from flint import arb

REACH = 10.5  # standard deviations either side: e^-55 is left out
MOST_REACH = 1e5  # standard deviations
MOST_HALVES = 60  # of a way to the peak
LENGTH_NATS = 5.0  # more than log of a length times a peak, beside an integral
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
        farthest = float(sum(map(abs, branch.powers(max(theta, 1.0)))) * self.steepest) + REACH
        depth = BEYOND_NATS - branch.factors[0][1].log_excess(self.log_square, theta)
        last = _last_relevant(branch, theta, farthest, depth)
        return min(max(last, near), farthest)

    def log_growth(self, branch: Branch, theta: float, omega: float, d: Array) -> Array:
        """Where a falling loss turns fast the density is small: see the phases in `maps`.

        It is looked at in steps: its logarithm is concave, so in each it is at most about that at an end; the turn is
        largest at the second.
        """
        if branch.rises or len(branch.factors) > 1:
            return LineLaw.log_growth(self, branch, theta, omega, d)
        values, turn = _seen_of_falling(branch, theta)
        return self.curvature * d * d / 2 + log_turned(values, turn, omega, self.steepest * d)

    def whole_span(self, far: float) -> tuple[float, float]:
        return -far - WHOLE_REACH, far + WHOLE_REACH

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


def _seen_of_falling(branch: Branch, theta: float) -> tuple[Array, Array]:
    """Return what is seen of a falling loss; of one law it is kept."""
    return _look_at_falling(branch, theta) if branch.law.several else _kept_falling(branch, theta)


def _look_at_falling(branch: Branch, theta: float) -> tuple[Array, Array]:
    """Return the tilted density of a falling loss beside its peak, in steps, and s/(1-s), s the share of P in w."""
    first = branch.law.span_start(branch, theta)
    near = np.arange(min(first, 0.0), REACH, 0.25)
    t = np.concatenate([near, REACH * 1.1 ** np.arange(math.log(MOST_REACH) / math.log(1.1))])
    values = np.atleast_2d(branch.log_tilted_density(t, theta))
    beside = np.max(values - np.max(values, axis=1, keepdims=True), axis=0)
    return np.maximum(np.append(beside[0], beside[:-1]), beside), turn_of(branch, t)


def log_turned(values: Array, turn: Array, omega: float, angle: Array) -> Array:
    """Return a bound of log ∫ of a density times e^{ω·turn of w}, beside its integral, where e^u turns by each angle.

    The largest value, and LENGTH_NATS: a density that falls from its peak like a normal one, over a few of its widths.
    """
    turned = np.minimum(turn * np.minimum(angle, math.pi / 2)[:, None], angle[:, None])
    return np.asarray(np.max(values + omega * turned, axis=1) + LENGTH_NATS)


def turn_of(branch: Branch, t: Array) -> Array:
    """Return r = s/(1-s) where the share s of P in w is below ½, inf elsewhere: w turns at most r times as far as e^u.

    Of a sum of positive multiples of e^{at}, 0 <= a <= steepest, turned by angles ay <= π/2: |Im w| <= E[a]y and
    Re w >= 1 - (2/π)E[a]y >= 1 - s, both beside |w(Re t)|, where s = E[a]/steepest. Of two terms up to π: see `maps`.
    """
    law = branch.law
    assert isinstance(law, NormalLaw)
    share = np.exp(np.max(np.atleast_2d(branch.log_slope(t) - np.log(law.slopes)), axis=0))
    return np.where(share < 0.5, share / (1 - np.minimum(share, 0.5)), math.inf)


def _last_relevant(branch: Branch, theta: float, farthest: float, depth: float) -> float:
    """Return where the tilted density on [0, farthest] has fallen for good by `depth` nats from its peak."""
    if farthest > MOST_REACH:
        raise OutOfReach(f"a loss would have to be followed for {farthest:g} standard deviations")
    t = np.append(np.arange(0.0, farthest, 0.5), farthest)
    values = np.atleast_2d(branch.log_tilted_density(t, theta))
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


_kept_falling = lru_cache(maxsize=256)(_look_at_falling)
