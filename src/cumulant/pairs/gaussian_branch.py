"""Branches of Gaussian mixtures: the record leaves, joins, is replaced, or one half of either."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, log_root_ball, log_sum_ball, normal_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import BEYOND, Branch, CurvatureBounds, Line, Stretch
from cumulant.pairs.mixture_ratio import GaussianMixture, GroupedGaussianMixture

if TYPE_CHECKING:
    from flint import arb

LOG_ROOT = 0.5 * math.log(2 * math.pi)
REACH = 10.5  # standard deviations either side: e^-55 is left out
MOST_REACH = 1e5
WHOLE = 13.0  # the same where it is proven: e^-84


Mixture = GaussianMixture | GroupedGaussianMixture


class GaussianBranch(Branch):
    """A branch whose density is φ(t) times powers of mixtures: P e^{zL} = φ(t) Π w(±t)^a."""

    __slots__ = ()

    mixture: Mixture

    @abstractmethod
    def powers(self, theta: Any) -> tuple[tuple[int, Any], ...]:
        """Return (side, Re a) of each factor w(side·t)^a; each a has imaginary part ±Im z."""

    def log_slope(self, t: Array) -> Array:
        return self.mixture.log_slope(t)

    @property
    def steepest(self) -> float:
        return self.mixture.steepest

    @property
    def terms(self) -> int:
        return self.mixture.size + 1 if isinstance(self.mixture, GroupedGaussianMixture) else 1

    @property
    def strip(self) -> float:
        return self.mixture.strip

    def batch_key(self, closeness: float) -> Hashable:
        if isinstance(self, Line) and isinstance(self.mixture, GaussianMixture):
            return type(self), self.mixture.batch_key(closeness)
        return self

    def stack(self, branches: Sequence[Any]) -> Any:
        mixture = GaussianMixture.stack([branch.mixture for branch in branches])
        return replace(cast(Any, self), mixture=mixture)

    def log_strip_growth(self, theta: float, omega: float, d: float) -> float:
        """|w| is at most w(Re t), at least that times cos(sd/2), and its argument at most sd, for slopes s of log w."""
        angle = self.mixture.steepest * d
        shrunk = sum(-power for _, power in self.powers(theta) if power < 0)
        return float(d * d / 2 + len(self.powers(theta)) * omega * angle - shrunk * math.log(math.cos(angle / 2)))

    def log_excess(self, theta: float) -> float:
        """The second moment of w - 1, times θ(θ+1)/2: its largest term where losses are small."""
        return min(0.0, self.mixture.log_spread + math.log(theta) + math.log1p(theta) - math.log(2.0))

    def whole_span(self, theta: float) -> tuple[float, float]:
        far = max(abs(power) for _, power in self.powers(theta)) * len(self.powers(theta)) * self.mixture.steepest
        return -far - WHOLE, far + WHOLE

    def log_tails(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        """Bound ∫ |φΠw^a| beyond each end b, where log Πw^a grows by g per unit: e^{-b²/2}/(b-g) times its value."""
        growth = as_ball(self.mixture.steepest) * sum((abs(power) for _, power in self.powers(theta)), 0 * theta)
        return log_sum_ball([self._log_far(end, y, theta, omega) - (abs(end) - growth).log() for end in (low, high)])

    def _log_far(self, end: arb, y: arb, theta: arb, omega: arb) -> arb:
        """Return a bound of log|φΠw^a| at Re t = end that holds with slope g from there on: the whole angle counts."""
        angle = as_ball(self.mixture.steepest) * y
        turned = len(self.powers(theta)) * omega * angle + (y * y - end * end) / 2 - log_root_ball()
        for side, power in self.powers(theta):
            value = power * self.mixture.log_ball(side * end)
            turned += value if power >= 0 else value + power * (angle / 2).cos().log()
        return turned

    def log_modulus_bound(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        nearest = low if low > 0 else high if high < 0 else 0 * low
        total = (y * y - nearest * nearest) / 2 - log_root_ball()
        for side, power in self.powers(theta):
            a, b = (low, high) if side > 0 else (-high, -low)
            least, most, angle = self.mixture.rectangle(a, b, y)
            total += omega * angle + power * (most if power >= 0 else least)
        return total

    def slope_ball(self, t: arb) -> arb:
        return self.mixture.slope_ball(t)


@final
@dataclass(frozen=True, slots=True)
class Removed(GaussianBranch, Line):
    """Mixture against N(0): the record is in the first dataset. P has density φw, the loss is ℓ."""

    mixture: Mixture

    @property
    def rises(self) -> bool:
        return True

    def powers(self, theta: Any) -> tuple[tuple[int, Any], ...]:
        return ((1, theta + 1),)

    def ball(self, t: arb) -> tuple[arb, arb]:
        loss = self.mixture.log_ball(t)
        return loss, normal_ball(t) * loss.exp()

    def loss(self, t: Any) -> Any:
        return self.mixture.log_ratio(t)

    def log_density(self, t: Any) -> Any:
        return self.loss_and_log_density(t)[1]

    def loss_and_log_density(self, t: Any) -> tuple[Any, Any]:
        loss = self.mixture.log_ratio(t)
        return loss, -t * t / 2 - LOG_ROOT + loss

    def curvature_bounds(self, theta: float, low: float, high: float) -> CurvatureBounds:
        bend = self.mixture.bend_on(low, high)
        most = (theta + 1) * bend
        return CurvatureBounds(least=-1.0, most=most - 1, quotient=1 + most + bend)

    def span(self, theta: float) -> tuple[float, float]:
        farthest = max(theta + 1, 2.0) * self.mixture.steepest + REACH
        depth = BEYOND - self.log_excess(theta)
        last = _last_relevant(lambda t: (theta + 1) * self.mixture.log_ratio(t) - t * t / 2, farthest, depth)
        return -REACH, min(max(last, 2 * self.mixture.steepest + REACH), farthest)


@final
@dataclass(frozen=True, slots=True)
class Added(GaussianBranch, Line):
    """N(0) against the mixture: the record is in the second dataset. P has density φ, the loss is -ℓ."""

    mixture: Mixture

    @property
    def rises(self) -> bool:
        return False

    def powers(self, theta: Any) -> tuple[tuple[int, Any], ...]:
        return ((1, -theta),)

    def ball(self, t: arb) -> tuple[arb, arb]:
        return -self.mixture.log_ball(t), normal_ball(t)

    def loss(self, t: Any) -> Any:
        return -self.mixture.log_ratio(t)

    def log_density(self, t: Any) -> Any:
        return -t * t / 2 - LOG_ROOT

    def curvature_bounds(self, theta: float, low: float, high: float) -> CurvatureBounds:
        bend = self.mixture.bend_on(low, high)
        least = -1 - theta * bend
        return CurvatureBounds(least=least, most=-1.0, quotient=bend - least)

    def span(self, theta: float) -> tuple[float, float]:
        return _first_relevant(self.mixture, theta) - REACH, 2 * self.mixture.steepest + REACH


@final
@dataclass(frozen=True, slots=True)
class Replaced(GaussianBranch, Line):
    """The mixture with N(μ) against that with N(-μ): density φ(t)w(t), loss ℓ(t) - ℓ(-t)."""

    mixture: GaussianMixture

    @property
    def rises(self) -> bool:
        return True

    def powers(self, theta: Any) -> tuple[tuple[int, Any], ...]:
        return (1, theta + 1), (-1, -theta)

    def ball(self, t: arb) -> tuple[arb, arb]:
        loss = self.mixture.log_ball(t)
        return loss - self.mixture.log_ball(-t), normal_ball(t) * loss.exp()

    def slope_ball(self, t: arb) -> arb:
        return self.mixture.slope_ball(t) + self.mixture.slope_ball(-t)

    def loss(self, t: Any) -> Any:
        return self.mixture.log_ratio(t) - self.mixture.log_ratio(-t)

    def log_density(self, t: Any) -> Any:
        return -t * t / 2 - LOG_ROOT + self.mixture.log_ratio(t)

    def log_slope(self, t: Array) -> Array:
        return np.logaddexp(self.mixture.log_slope(t), self.mixture.log_slope(-t))

    def curvature_bounds(self, theta: float, low: float, high: float) -> CurvatureBounds:
        most = (theta + 1) * self.mixture.bend
        return CurvatureBounds(
            least=-1 - theta * self.mixture.bend, most=most - 1, quotient=1 + most + 8 * self.mixture.bend
        )

    def span(self, theta: float) -> tuple[float, float]:
        farthest = (2 * max(theta, 1.0) + 1) * self.mixture.steepest + REACH
        depth = BEYOND - self.log_excess(theta)
        last = _last_relevant(lambda t: self.log_density(t) + theta * self.loss(t), farthest, depth)
        return -REACH - 2 * self.mixture.steepest, min(max(last, 4 * self.mixture.steepest + REACH), farthest)

    @property
    def steepest(self) -> float:
        return 2 * self.mixture.steepest


@final
@dataclass(frozen=True, slots=True)
class GaussianHalf(GaussianBranch, Stretch):
    """Where the ratio is above 1, t > μ/2: the half of a Gaussian mixture that an envelope is made of."""

    mixture: GaussianMixture
    sign: int

    @property
    def rises(self) -> bool:
        return self.sign > 0

    def powers(self, theta: Any) -> tuple[tuple[int, Any], ...]:
        return ((1, theta + 1) if self.sign > 0 else (1, -theta),)

    def ball(self, t: arb) -> tuple[arb, arb]:
        return (Removed(self.mixture) if self.sign > 0 else Added(self.mixture)).ball(t)

    def whole_span(self, theta: float) -> tuple[float, float]:
        middle = self.mixture.mean / 2
        return middle, GaussianBranch.whole_span(self, theta)[1] + middle

    def ends_ball(self) -> tuple[arb | None, arb | None]:
        return self.mixture.mean_ball() / 2, None

    def log_tails(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        return GaussianBranch.log_tails(self, -high, high, y, theta, omega)

    def loss(self, t: Array) -> Array:
        return np.asarray(self.sign * self.mixture.log_ratio(t))

    def log_density(self, t: Array) -> Array:
        base = -t * t / 2 - LOG_ROOT
        return np.asarray(base + self.mixture.log_ratio(t) if self.sign > 0 else base)

    def curvature_bounds(self, theta: float, low: float, high: float) -> CurvatureBounds:
        return (Removed(self.mixture) if self.sign > 0 else Added(self.mixture)).curvature_bounds(theta, low, high)

    def span(self, theta: float) -> tuple[float, float]:
        middle = self.mixture.mean / 2
        least = max(middle, 2 * self.mixture.mean) + REACH
        return middle, max(least, Removed(self.mixture).span(theta)[1]) if self.sign > 0 else least

    def steepest_on(self, theta: float) -> float:
        return math.exp(float(self.mixture.log_slope(np.array(self.span(theta)[1]))))  # ℓ' grows with t

    @property
    def widest(self) -> float:
        return min(1.0, 2.0 / self.mixture.steepest)


def _last_relevant(log_integrand: Callable[[Array], Array], farthest: float, depth: float) -> float:
    """Return where an integrand on [0, farthest] has fallen for good by `depth` nats from its peak."""
    if farthest > MOST_REACH:
        raise OutOfReach(f"a loss would have to be followed for {farthest:g} standard deviations")
    t = np.append(np.arange(0.0, farthest, 0.5), farthest)
    values = np.atleast_2d(log_integrand(t))
    relevant = np.any(values > np.max(values, axis=1, keepdims=True) - depth, axis=0)
    last = int(np.flatnonzero(relevant)[-1])
    return float(t[min(last + 1, len(t) - 1)])


def _first_relevant(mixture: Mixture, theta: float) -> float:
    """Return a point below the peak of φw^{-θ}, whose logarithm is concave: t = -θℓ'(t)."""
    t = -theta * mixture.steepest
    for _ in range(60):
        half = t / 2
        if -theta * math.exp(float(np.max(mixture.log_slope(np.array(half))))) <= half:
            break
        t = half
    return t
