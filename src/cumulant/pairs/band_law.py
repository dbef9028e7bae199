"""Losses between two cuts of one sharpness: the density of Q times χ_f - χ_q, with χ as in `cut_law` and f > q.

As erfc falls, χ_f - χ_q lies between 0 and 1. It is (1-χ_q) - (1-χ_f) as well, and |erfc(x+iy)| <= e^{y²} erfc(x), so

    |χ_f - χ_q| <= e^{a²y²} min{χ_f + χ_q, (1-χ_f) + (1-χ_q)}   at Im t = y,

taken at Re t on the right: the first falls with it, the second grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.numerics.balls import as_ball, log_sum_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import Branch
from cumulant.pairs.cut_law import CutLaw, log_half_erfc
from cumulant.pairs.normal_law import LOG_ROOT, NormalLaw

if TYPE_CHECKING:
    from flint import arb

BAND_SOFT = 9.0  # over the sharpness, beyond a cut: there erfc is e^-81
LEAST = -1e-15  # of a logarithm, that is told from 0


@final
@dataclass(frozen=True, slots=True)
class BandLaw(NormalLaw):
    """A law whose density under Q is multiplied by χ_f - χ_q; its loss stays what it is."""

    far: CutLaw
    near: CutLaw

    def __post_init__(self) -> None:
        assert self.far.law == self.near.law
        assert self.far.sharpness == self.near.sharpness
        assert self.far.at > self.near.at

    @property
    def is_cut(self) -> bool:
        return True

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return self.far.curvature

    @property
    def resolved(self) -> float:  # type: ignore[override]
        return self.far.resolved

    @property
    def widths(self) -> tuple[float, float]:
        return min(self.resolved, 1.0), min(self.resolved, 1.0)

    @property
    def extremes(self) -> tuple[float, float]:
        return self.far.extremes

    @property
    def terms(self) -> int:
        return self.far.terms

    @property
    def steepest(self) -> float:
        return self.far.steepest

    @property
    def strip(self) -> float:
        return self.far.strip

    @property
    def log_square(self) -> Any:
        return self.far.log_square

    def log_ratio(self, t: Any) -> Any:
        return self.far.log_ratio(t)

    def log_slope(self, t: Array) -> Any:
        return self.far.log_slope(t)

    def bend_on(self, low: float, high: float, largest_spread: Callable[[Array], Array]) -> float:
        return self.far.bend_on(low, high, largest_spread)

    def log_density(self, t: Any) -> Any:
        return -t * t / 2 - LOG_ROOT + self.log_between(np.asarray(t))

    def log_between(self, t: Array) -> Array:
        """Return log(χ_f - χ_q), from the difference that does not cancel."""
        x, y = (self.far.sharpness * (t - cut.at) for cut in (self.far, self.near))
        above = log_half_erfc(x) + _log_less(log_half_erfc(y) - log_half_erfc(x))
        below = log_half_erfc(-y) + _log_less(log_half_erfc(-x) - log_half_erfc(-y))
        return np.where(t > self._middle, above, below)

    @property
    def _middle(self) -> float:
        return (self.far.at + self.near.at) / 2

    def span_start(self, branch: Branch, theta: float) -> float:
        return self.near.at - BAND_SOFT / self.near.sharpness

    def span_end(self, branch: Branch, theta: float) -> float:
        return self.far.span_end(branch_of(branch, self.far), theta)

    # In balls ---------------------------------------------------------------------------------------------------------

    def ratio_ball(self, t: arb) -> arb:
        return self.far.ratio_ball(t)

    def slope_ball(self, t: arb) -> arb:
        return self.far.slope_ball(t)

    def bound_on_rectangle(self, low: arb, high: arb, y: arb) -> tuple[arb, arb, arb]:
        return self.far.bound_on_rectangle(low, high, y)

    def density_ball(self, t: Any) -> Any:
        turn = 1 if t.real > self._middle else -1  # either difference is right; this one does not cancel
        a = as_ball(turn * self.far.sharpness)
        far, near = ((a * (t - as_ball(cut.at))).erfc() for cut in (self.far, self.near))
        return self.far.law.density_ball(t) * (far - near) * turn / 2

    def log_density_bound(self, low: arb, high: arb, y: arb) -> arb:
        a, cuts = as_ball(self.far.sharpness), (as_ball(self.far.at), as_ball(self.near.at))
        kept = sum(((a * (low - at)).erfc() for at in cuts), as_ball(0.0))
        lost = sum(((a * (at - high)).erfc() for at in cuts), as_ball(0.0))
        return self.far.law.log_density_bound(low, high, y) + (a * y) ** 2 + (kept.min(lost) / 2).log()

    def whole_span(self, far: float) -> tuple[float, float]:
        return self.far.whole_span(far)

    def log_tails(self, ends: tuple[arb, arb], y: arb, growth: arb, log_factor: Callable[[arb], arb]) -> arb:
        """Return what both cuts leave there."""
        return log_sum_ball([cut.log_tails(ends, y, growth, log_factor) for cut in (self.far, self.near)])


def branch_of(branch: Branch, law: CutLaw) -> Branch:
    """Return the same branch of another law."""
    return type(branch)(law, branch.factors)  # type: ignore[call-arg]


def _log_less(log: Array) -> Array:
    """Return log(1 - e^x) for x < 0."""
    return np.asarray(np.log1p(-np.exp(np.minimum(log, LEAST))))
