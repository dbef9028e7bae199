"""What a noise says of itself: the law of u = log dP/dQ under Q, in a coordinate, and nothing about sampling."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.logspace import Array

if TYPE_CHECKING:
    from flint import arb

    from cumulant.pairs.coordinate import Branch

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


class LineLaw(Law):
    """A law on the whole line, analytic in a strip."""

    __slots__ = ()

    @property
    @abstractmethod
    def strip(self) -> float:
        """The largest d with |arg e^u| < π for |Im t| < d, less a margin."""

    @property
    @abstractmethod
    def log_square(self) -> Any:
        """About log E_Q(e^u - 1)², at most that; of several laws a column."""

    def log_growth(self, branch: Branch, theta: float, omega: float, d: Array) -> Array:
        """Return how much larger ∫ |density Πw^a| can be at Im t = ±d than at 0, w^a with a power of at most iω more.

        Each w turns by up to steepest·d, and grows nowhere.
        """
        return np.asarray(self.curvature * d * d / 2 + len(branch.factors) * omega * self.steepest * d)

    def log_swell(self, t: Array, d: Array) -> Array:
        """Return about how much larger |density| is within t ± id than at t."""
        return self.curvature * d * d / 2 + 0 * t

    @property
    def widths(self) -> tuple[float, float]:
        """Over what length the density falls beyond either end of a span, about."""
        return 1.0, 1.0

    @abstractmethod
    def whole_span(self, far: float) -> tuple[float, float]:
        """Return a stretch beyond which `log_tails` is small where factors move the density by up to `far`."""

    @abstractmethod
    def log_tails(self, ends: tuple[arb, arb], y: arb, growth: arb, log_factor: Callable[[arb], arb]) -> arb:
        """Return log of a bound of ∫ density·factor beyond both ends, for |Im t| <= y.

        The logarithm of the factor, `log_factor` at an end, grows by at most `growth` per unit from there on.
        """


def evenly(low: float, high: float, width: float) -> Array:
    return np.linspace(low, high, min(math.ceil((high - low) / width), MOST_EVEN_CELLS) + 1)
