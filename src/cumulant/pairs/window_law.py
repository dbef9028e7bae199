"""Losses in a window with two soft ends: the density of Q times χ_f - χ_q, with χ as in `cut_law` and q < f.

Either end may be missing: χ_f = 1, or χ_q = 0. As erfc falls, X = χ_f - χ_q lies between 0 and 1. It is
(1-χ_q) - (1-χ_f) and 1 - (1-χ_f) - χ_q as well, and |erfc(x+iy)| <= e^{y²} erfc(x), so at Im t = y

    |X| <= min{e^{a²y²} (χ_f + χ_q), e^{a²y²} ((1-χ_q) + (1-χ_f)), 1 + e^{a²y²} ((1-χ_f) + χ_q)}

at Re t, where χ falls and 1-χ grows. Far from both ends, that is, the window does not grow beside the real line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import Branch
from cumulant.pairs.cut_law import CutLaw, log_half_erfc
from cumulant.pairs.law import NormalLaw

if TYPE_CHECKING:
    from flint import arb

WINDOW_SOFT = 9.0  # over the sharpness, beyond an end: there erfc is e^-81
WINDOW_FALLEN_NATS = 100.0  # below the largest density, from which it is not followed
LOOKED_AT = 1000  # places at which a tilted density is looked at
LEAST = -1e-15  # of a logarithm, that is told from 0


@final
@dataclass(frozen=True, slots=True)
class WindowLaw(CutLaw):
    """A law that is cut far out, whose density under Q is multiplied by χ - χ_near; its loss stays what it is."""

    law: CutLaw  # type: ignore[assignment]
    near: Any = -math.inf  # no end; nor has `at` = inf

    @property
    def widths(self) -> tuple[float, float]:
        soft = min(self.resolved, 1.0)
        return (soft if self.near > -math.inf else 1.0), soft

    def log_window(self, t: Array) -> Array:
        """Return log X, from the difference that does not cancel."""
        x, y = (self.sharpness * (np.asarray(t) - at) for at in (self.at, self.near))
        with np.errstate(divide="ignore", invalid="ignore"):
            above = log_half_erfc(x) + _log_less(log_half_erfc(y) - log_half_erfc(x))
            below = log_half_erfc(-y) + _log_less(log_half_erfc(-x) - log_half_erfc(-y))
        return np.where(t > (self.at + self.near) / 2, above, below)

    def log_density(self, t: Any) -> Any:
        return self.law.log_density(t) + self.log_window(t)

    def log_swell(self, t: Array, d: Array) -> Array:
        grown, (x, y) = (self.sharpness * d) ** 2, (self.sharpness * (t - at) for at in (self.at, self.near))
        with np.errstate(divide="ignore"):
            kept, cut = (
                np.logaddexp(log_half_erfc(x), log_half_erfc(y)),
                np.logaddexp(log_half_erfc(-x), log_half_erfc(-y)),
            )
            whole = np.logaddexp(0.0, grown + np.logaddexp(log_half_erfc(-x), log_half_erfc(y)))
        swell = np.minimum(np.minimum(kept, cut) + grown, whole) - self.log_window(t)
        return np.asarray(self.law.log_swell(t, d) + swell)

    def span_start(self, branch: Branch, theta: float) -> float:
        if self.near > -math.inf:
            return float(self.near - WINDOW_SOFT / self.sharpness)
        return NormalLaw.span_start(self, branch, theta)

    def span_end(self, branch: Branch, theta: float) -> float:
        """Return where the tilted density has fallen for good: its last peak is not far beyond the far cut."""
        growth = float(sum(map(abs, branch.powers(theta)))) * self.steepest
        sharpness = self.law.sharpness
        t = np.linspace(
            self.span_start(branch, theta),
            self.law.at + growth / sharpness**2 + WINDOW_SOFT / sharpness,
            LOOKED_AT,
        )
        values = branch.log_tilted_density(t, theta)
        within = np.flatnonzero(values > np.max(values) - WINDOW_FALLEN_NATS)
        if not len(within):  # doubles do not hold what is there
            raise OutOfReach(f"a window that begins at {self.near:g} standard deviations cannot be followed")
        return float(t[min(int(within[-1]) + 1, len(t) - 1)])

    def curvature_up_to(self, t: Array) -> Array:
        return np.asarray(CutLaw.curvature_up_to(self, t) - 1 + self.law.curvature_up_to(t))

    def left_out(self, rate: Any) -> Any:
        """Return 1: who looks through a window counts what lies outside."""
        return 1 + 0 * rate

    def in_balls(self) -> WindowLaw:
        law = self.law.in_balls()
        assert isinstance(law, CutLaw)
        return WindowLaw(law, as_ball(self.at), as_ball(self.sharpness), as_ball(self.near))

    # In balls ---------------------------------------------------------------------------------------------------------

    def density(self, t: Any) -> Any:
        middle = (self.at + self.near) / 2

        def seen(t: Any) -> Any:
            turn = 1 if t.real > middle else -1  # either difference is right; this one does not cancel
            far, near = (self._half_erfc_ball(t, at, turn) for at in (self.at, self.near))
            return (far - near) * turn

        return self.law.density(t) * np.frompyfunc(seen, 1, 1)(t)

    def _half_erfc_ball(self, t: Any, at: arb, turn: int = 1) -> Any:
        """Return χ, or 1 - χ turned by -1, of a cut that may be missing."""
        if not at.is_finite():
            return as_ball(1.0 if at * turn > 0 else 0.0)
        return (turn * self.sharpness * (t - at)).erfc() / 2

    def log_density_bound(self, low: arb, high: arb, y: arb) -> arb:
        grown = ((self.sharpness * y) ** 2).exp()
        (far, near), (beyond_far, beyond_near) = (
            [self._half_erfc_ball(t, at, turn) for at in (self.at, self.near)] for t, turn in ((low, 1), (high, -1))
        )
        bound = (grown * (far + near)).min(grown * (beyond_far + beyond_near)).min(1 + grown * (beyond_far + near))
        return self.law.log_density_bound(low, high, y) + bound.log()

    def whole_span(self, far: float) -> tuple[float, float]:
        """Begin as much earlier as the window does later, where little of the law is left."""
        first, last = self.law.whole_span(far)
        return first - (max(self.near, 0.0) if self.near > -math.inf else 0.0), last

    def log_tails(self, ends: tuple[arb, arb], y: arb, growth: arb, log_factor: Callable[[arb], arb]) -> arb:
        """Return what the far cut leaves there: the window is at most 2e^{a²y²}."""
        return self.law.log_tails(ends, y, growth, log_factor) + as_ball(2.0).log() + (self.sharpness * y) ** 2


def _log_less(log: Array) -> Array:
    """Return log(1 - e^x) for x < 0."""
    return np.asarray(np.log1p(-np.exp(np.minimum(log, LEAST))))
