"""Losses that δ cannot see, cut off smoothly.

When a record leaves a sample the loss has no largest value, and E e^{θL} has a second peak so far out that no δ sees
it; the line of an inversion would have to follow it. With 0 <= χ_i <= 1, p_i = E_{P_i}[1 - χ_i] and L = Σ L_i of the
pairs as they are,

    δ_χ(ε) <= δ(ε) <= δ_χ(ε) + 1 - Π (1-p_i)^{n_i},     δ_χ(ε) = E_P[Πχ_i · (1 - e^{ε-L})_+] :

the integrand of δ is at least 0 and at most 1, and releases are independent. δ_χ is inverted like δ, from
M_χ(z) = E_P[χe^{zL}]; aliases are at most those of a law of mass 1.

Here χ(t) = ½ erfc(a(t - c)), which is analytic, so that the trapezoidal rule stays exponentially good:
|erfc(x + iy)| <= e^{y²} erfc(x), as erfc(z) = (2/√π) ∫_0^∞ e^{-(z+s)²} ds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.loss.coordinate import BEYOND, Bends, CoordinatePair, Line
from cumulant.loss.gaussian_branch import REACH, Removed
from cumulant.loss.mixture_ratio import GaussianMixture
from cumulant.loss.pair import DominatingPair
from cumulant.loss.pair_sum import LossSum
from cumulant.numerics.balls import as_ball, log_sum_ball
from cumulant.numerics.logspace import Array

if TYPE_CHECKING:
    from flint import arb

LEFT_OUT = 1e-14  # of δ, that all cuts together may leave out
SHARPNESS = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0)  # of χ, in units of 1/t: the first that leaves no peak beyond it
WHOLE = 13.0  # standard deviations of the cut law beyond its last peak: e^-84


@final
@dataclass(frozen=True, slots=True)
class Cut(Line):
    """A branch times χ: its loss grows with t, and P has the density φ(t) w(t) χ(t)."""

    branch: Removed
    at: float
    sharpness: float

    def loss(self, t: Any) -> Any:
        return self.branch.loss(t)

    def log_density(self, t: Any) -> Any:
        return self.branch.log_density(t) + self._log_kept(t)

    def _log_kept(self, t: Any) -> Array:
        from scipy.special import log_ndtr

        return np.asarray(log_ndtr(-math.sqrt(2.0) * self.sharpness * (np.asarray(t) - self.at)))

    def log_slope(self, t: Array) -> Array:
        return self.branch.log_slope(t)

    @property
    def steepest(self) -> float:
        return self.branch.steepest

    @property
    def strip(self) -> float:
        return self.branch.strip

    @property
    def terms(self) -> int:
        return self.branch.terms

    def bends(self, theta: float, low: float, high: float) -> Bends:
        """(log χ)'' lies between -2a² and 0, as (log Φ)'' does between -1 and 0."""
        whole, more = self.branch.bends(theta, low, high), 2 * self.sharpness**2
        return Bends(least=whole.least - more, most=whole.most, quotient=whole.quotient + more)

    def span(self, theta: float) -> tuple[float, float]:
        t = np.append(np.arange(0.0, self._last_peak(theta) + REACH, 0.1), self._last_peak(theta) + REACH)
        values = self.log_density(t) + theta * self.loss(t)
        relevant = values > np.max(values) - BEYOND + self.branch.log_excess(theta)
        return -REACH, float(t[min(int(np.flatnonzero(relevant)[-1]) + 1, len(t) - 1)])

    def _last_peak(self, theta: float) -> float:
        """Return a point beyond which φ(t) w^{θ+1} χ falls: its slope is at most (θ+1)s - t - 2a²(t-c), if t > c."""
        double = 2 * self.sharpness**2
        return max(((theta + 1) * self.steepest + double * self.at) / (1 + double), self.at)

    def log_swell(self, theta: float, omega: float, d: float) -> float:
        return self.branch.log_swell(theta, omega, d) + (self.sharpness * d) ** 2

    def log_excess(self, theta: float) -> float:
        return self.branch.log_excess(theta)

    # In balls ---------------------------------------------------------------------------------------------------------

    def ball(self, t: arb) -> tuple[arb, arb]:
        loss, density = self.branch.ball(t)
        return loss, density * self._kept_ball(t)

    def slope_ball(self, t: arb) -> arb:
        return self.branch.slope_ball(t)

    def _kept_ball(self, t: arb) -> arb:
        return (as_ball(self.sharpness) * (t - as_ball(self.at))).erfc() / 2

    def log_ceiling(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        return self.branch.log_ceiling(low, high, y, theta, omega) + self._log_kept_ceiling(low, y)

    def _log_kept_ceiling(self, low: arb, y: arb) -> arb:
        """Return a bound of log|χ| for Re t >= low and |Im t| <= y."""
        a = as_ball(self.sharpness)
        return self._kept_ball(low).log() + (a * y) ** 2

    def whole_span(self, theta: float) -> tuple[float, float]:
        return -WHOLE, self._last_peak(theta) + WHOLE

    def log_tails(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        """Bound ∫ |φw^aχ| below low < 0, where all but φ grow with t, and beyond high > c.

        There w^a grows by at most g = (θ+1)·steepest a unit, and erfc(u+v) <= erfc(u) e^{-2uv - v²} for u, v >= 0: the
        integrand falls at least like e^{-(high + 2a²(high-c) - g)x}.
        """
        fall = (
            high + 2 * as_ball(self.sharpness) ** 2 * (high - as_ball(self.at)) - (theta + 1) * as_ball(self.steepest)
        )
        beyond = self.branch.log_far(high, y, theta, omega) + self._log_kept_ceiling(high, y) - fall.log()
        below = self.branch.log_ceiling(low, low, y, theta, omega) + (as_ball(self.sharpness) * y) ** 2 - (-low).log()
        return log_sum_ball([below, beyond])

    def fastest_fall(self, low: float, high: float) -> float:
        return max(-low, high * (1 + 2 * self.sharpness**2))

    def left_out(self) -> arb:
        """Return p = E_P[1 - χ]: of N(m, 1), 1 - χ has the mean Φ((m-c)/κ), κ² = 1 + 1/2a²."""
        mixture = self.branch.mixture
        assert isinstance(mixture, GaussianMixture)  # `cut_for` makes no others
        width = (1 + 1 / (2 * as_ball(self.sharpness) ** 2)).sqrt()
        rate = mixture.rate_ball()
        shares = ((1 - rate, 0 * rate), (rate, mixture.mean_ball()))
        root = as_ball(2.0).sqrt()
        return sum((share * ((as_ball(self.at) - m) / width / root).erfc() / 2 for share, m in shares), as_ball(0.0))


@final
@dataclass(frozen=True, slots=True, eq=False)
class CutSum:
    """A sum of losses with some of them cut, and how much that leaves out: 1 - Π (1-p_i)^{n_i}."""

    losses: LossSum
    left_out: arb


def cut_for(losses: LossSum, log_delta: float, sharpness: float) -> CutSum | None:
    """Return the sum with every loss cut where δ hardly sees it; None if there is nothing to cut."""
    releases = sum(n for _, n in losses.parts)
    log_share = log_delta + math.log(LEFT_OUT) - math.log(releases)
    parts: list[tuple[DominatingPair, int]] = []
    log_kept = as_ball(0.0)
    for pair, n in losses.parts:
        cut = _cut_of(pair, log_share, sharpness)
        if cut is not None:
            log_kept += n * (-cut.left_out()).log1p()
        parts.append((pair if cut is None else CoordinatePair((cut,)), n))
    return CutSum(LossSum(tuple(parts), losses.mean), -log_kept.expm1()) if not log_kept.is_zero() else None


def _cut_of(pair: DominatingPair, log_share: float, sharpness: float) -> Cut | None:
    """Return the branch of a pair cut so far out that p is about e^log_share; None if it is of another kind."""
    if not isinstance(pair, CoordinatePair) or len(pair.branches) > 1:
        return None
    branch = pair.branches[0]
    if not isinstance(branch, Removed) or not isinstance(branch.mixture, GaussianMixture):
        return None
    return Cut(branch, _place(branch.mixture.mean, branch.mixture.rate, log_share, sharpness), sharpness)


def _place(mean: float, rate: float, log_share: float, sharpness: float) -> float:
    """Return c with p(c) = e^log_share, about: any c is sound, as p is computed from it."""
    from scipy.special import log_ndtr

    width = math.sqrt(1 + 0.5 / sharpness**2)

    def too_near(c: float) -> bool:
        both = np.logaddexp(math.log1p(-rate) + log_ndtr(-c / width), math.log(rate) + log_ndtr((mean - c) / width))
        return bool(both > log_share)

    low, high = 0.0, 1.0
    while too_near(high):
        low, high = high, 2 * high
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if too_near(middle) else (low, middle)
    return high
