"""What a noise says of itself: the law of u = log dP/dQ under Q, in a coordinate, and nothing about sampling.

What laws share whose coordinate is standard normal under Q, spans, strips and tails, is here as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import log_root, log_sum_ball
from cumulant.numerics.logspace import Array

if TYPE_CHECKING:
    from flint import arb

    from cumulant.pairs.coordinate import Branch

BEYOND_NATS = 60.0  # nats below the largest integrand at which a stretch ends, and pieces are left out
REACH = 10.5  # standard deviations either side: e^-55 is left out
LEVEL_STEP, MOST_LOOKED_AT = 0.5, 2e5  # widths of a density between points at which it is looked at, and points
MOST_HALVES = 60  # of a way to the peak
WHOLE_REACH = 13.0  # standard deviations where it is proven: e^-84
MOST_EVEN_CELLS = 4000  # of one branch, or of one side of its cut


class Law(ABC):
    """The law of u under Q: a density in a coordinate t, of which u is an increasing function, and atoms.

    e^u must be a sum of positive multiples of e^{at} with 0 <= a <= `steepest`. Then w = 1 - γ + γe^u is one, too, and
    ℓ = log w has the following bounds, with a random according to the terms of w at Re t:

    - ℓ' = E[a] lies in [0, steepest] and grows with t; ℓ'' = Var a <= steepest²/4. As Var a and |κ₃(a)| are at most
      steepest and steepest² times E[a], |(log ℓ')''| <= 2 steepest².
    - At Im t = y all terms turn by angles between 0 and steepest·y. For steepest·|y| < π, |arg w| <= steepest·|y| and
      |w| >= cos(steepest·y/2) w(Re t).
    """

    __slots__ = ()

    curvature: float
    """A bound c of -(log density)''; |density| at x + iy is at most e^{cy²/2} times that at x."""
    least_curvature: float
    """A bound of -(log density)'' from below."""
    resolved: float
    """The width of pieces on which sixteen points resolve the density."""

    @property
    @abstractmethod
    def extremes(self) -> tuple[Any, Any]:
        """The least and the largest u, rounded outwards where they are no parameters."""

    @property
    @abstractmethod
    def atoms(self) -> tuple[tuple[Any, Any], ...]:
        """(u, log-mass) of each atom."""

    def in_balls(self) -> Law:
        """Return the law whose parameters are balls, at the precision of the moment: all formulas below serve both."""
        raise OutOfReach(f"no certificate is known for {type(self).__name__}")

    @property
    @abstractmethod
    def terms(self) -> int:
        """How many exponentials a value of u takes."""

    @property
    def several(self) -> bool:
        """Whether it stands for several laws, whose parameters are columns."""
        return False

    @property
    def is_cut(self) -> bool:
        """Whether losses that δ cannot see are cut off."""
        return False

    def left_out(self, rate: Any) -> Any:
        """Return how much of the mass of P, as a mixture at this rate, the density lacks, rounded up."""
        return 0 * rate

    def curvature_up_to(self, t: Array) -> Array:
        """Return a bound of -(log density)'' on cells that end at t."""
        return np.full(len(t), self.curvature)

    def cell_ends(self, low: float, high: float, width: Callable[[float], float]) -> Array:
        """Return the ends of cells; `width` says how wide they may be where -(log density)'' is at most so large."""
        return evenly(low, high, width(self.curvature))

    def batch_key(self, closeness: float) -> Hashable:
        """Return what laws share whose parameters are within `closeness` octaves; None: it can only stand alone."""
        return None

    def stack(self, laws: Sequence[Any]) -> Law:
        """Return laws with one batch key as one, whose parameters are columns."""
        return self

    @abstractmethod
    def log_ratio(self, t: Any) -> Any:
        """Return u(t)."""

    @abstractmethod
    def log_slope(self, t: Any) -> Any:
        """Return log u'(t)."""

    @property
    @abstractmethod
    def steepest(self) -> Any:
        """A bound of u'; of several laws, one for all of them."""

    @abstractmethod
    def bend_on(self, low: float, high: float, largest_spread: Callable[[Array], Array]) -> float:
        """Return a bound of ℓ'' and |(log ℓ')''| for low <= t <= high, from the largest m'' between two u or without.

        Where u is affine, -(log ℓ')'' = ℓ''.
        """

    @abstractmethod
    def log_density(self, t: Any) -> Any:
        """Return the logarithm of the density of Q."""

    @abstractmethod
    def span_start(self, branch: Branch, theta: float) -> Any:
        """Return t before which nothing of a branch matters for Re z <= θ."""

    @abstractmethod
    def span_end(self, branch: Branch, theta: float) -> Any:
        """Return t after which nothing matters."""

    def density(self, t: Any) -> Any:
        """Return the density of Q in balls; t may be complex."""
        return np.exp(self.log_density(t))

    @property
    def even(self) -> Any:
        """Where u = 0, of a law with an exchange of outputs that turns (P, Q) into (Q, P): what an envelope needs."""
        raise self._not_symmetric()

    @property
    def log_variation(self) -> Any:
        """The logarithm of the total variation between P and Q, of such a law."""
        raise self._not_symmetric()

    def _not_symmetric(self) -> OutOfReach:
        return OutOfReach(f"no envelope is known of {type(self).__name__}: it is not symmetric")

    @abstractmethod
    def log_density_bound(self, low: arb, high: arb, y: arb) -> arb:
        """Return a bound of log|density| where low <= Re t <= high and |Im t| <= y."""

    def bound_on_rectangle(self, low: arb, high: arb, y: arb) -> tuple[arb, arb, arb]:
        """Return bounds of Re u from below and above, and of |Im u|, there, in balls: see `Law` for the angle.

        A single exponential keeps its modulus.
        """
        angle = self.steepest * y
        shrunk = (angle / 2).cos().log() if self.terms > 1 else 0 * y
        return self.log_ratio(low) + shrunk, self.log_ratio(high), angle


class NormalLaw(Law):
    """A law in a coordinate that is standard normal under Q, or cut off: on the whole line, and analytic in a strip."""

    __slots__ = ()

    curvature, least_curvature, resolved, atoms = 1.0, 1.0, 1.0, ()

    @property
    @abstractmethod
    def strip(self) -> float:
        """The largest d with |arg e^u| < π for |Im t| < d, less a margin."""

    @property
    @abstractmethod
    def log_square(self) -> Any:
        """About log E_Q(e^u - 1)², at most that; of several laws a column."""

    def log_swell(self, t: Array, d: Array) -> Array:
        """Return about how much larger |density| is within t ± id than at t."""
        return self.curvature * d * d / 2 + 0 * t

    @property
    def widths(self) -> tuple[float, float]:
        """Over what length the density falls beyond either end of a span, about."""
        return 1.0, 1.0

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
        """Return a point beyond which the density falls, times factors that grow by a number of nats a unit."""
        return growth

    def whole_span(self, far: float) -> tuple[float, float]:
        """Return a stretch beyond which `log_tails` is small where factors move the density by up to `far`."""
        return -far - WHOLE_REACH, self.last_peak(far) + WHOLE_REACH

    def log_tails(self, ends: tuple[arb, arb], y: arb, growth: arb, log_factor: Callable[[arb], arb]) -> arb:
        """Return log of a bound of ∫ density·factor beyond both ends, below 0 and above it, for |Im t| <= y.

        The logarithm of the factor, `log_factor` at an end, grows by at most g per unit from there on.
        """
        low, high = ends
        return log_sum_ball(
            [self.log_tail(end, out, y, growth, log_factor) for end, out in ((low, -low), (high, high))]
        )

    def log_tail(self, end: arb, out: arb, y: arb, growth: arb, log_factor: Callable[[arb], arb]) -> arb:
        """Return it beyond one end, ±b: e^{-b²/2}/(b-g) times the factor there, as t²/2 grows by b a unit or more."""
        if not (out > 0 and out > growth):
            raise OutOfReach("a certificate would end its sums where the density need not fall")
        return log_factor(end) + (y * y - end * end) / 2 - (out - growth).log() - log_root(end)

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


def evenly(low: float, high: float, width: float) -> Array:
    return np.linspace(low, high, min(math.ceil((high - low) / width), MOST_EVEN_CELLS) + 1)
