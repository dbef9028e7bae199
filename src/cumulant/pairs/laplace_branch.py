"""The branch of a Laplace mixture: the density between its atoms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.numerics.balls import as_ball, log_sum_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import CurvatureBounds, Stretch
from cumulant.pairs.mixture_ratio import LaplaceMixture

if TYPE_CHECKING:
    from flint import arb


@final
@dataclass(frozen=True, slots=True)
class LaplaceStretch(Stretch):
    """The density between the atoms of a Laplace mixture, from `start` to θ."""

    mixture: LaplaceMixture
    sign: int
    start: float

    @property
    def rises(self) -> bool:
        return self.sign > 0

    def ball(self, t: arb) -> tuple[arb, arb]:
        loss = self.mixture.log_ball(t)
        density = (-(t + self.mixture.theta_ball()) / 2).exp() / 4
        return (loss, density * loss.exp()) if self.sign > 0 else (-loss, density)

    def slope_ball(self, t: arb) -> arb:
        return self.mixture.slope_ball(t)

    def ends_ball(self) -> tuple[arb | None, arb | None]:
        theta = self.mixture.theta_ball()
        return (-theta if self.start < 0 else 0 * theta), theta

    def whole_span(self, theta: float) -> tuple[float, float]:
        return self.start, self.mixture.theta

    def log_tails(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        return log_sum_ball([])

    def log_modulus_bound(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        least, most, angle = self.mixture.rectangle(low, high, y)
        modulus = (theta + 1) * most if self.sign > 0 else -theta * least
        return -(low + self.mixture.theta_ball()) / 2 - as_ball(4.0).log() + omega * angle + modulus

    def loss(self, t: Array) -> Array:
        return np.asarray(self.sign * self.mixture.log_ratio(t))

    def log_density(self, t: Array) -> Array:
        base = self.mixture.log_density(t)
        return np.asarray(base + self.mixture.log_ratio(t) if self.sign > 0 else base)

    def log_slope(self, t: Array) -> Array:
        return self.mixture.log_slope(t)

    def curvature_bounds(self, theta: float, low: float, high: float) -> CurvatureBounds:
        least, most = (0.0, (theta + 1) / 4) if self.sign > 0 else (-theta / 4, 0.0)
        return CurvatureBounds(least=least, most=most, quotient=max(most, -least) + 0.25)

    def span(self, theta: float) -> tuple[float, float]:
        return self.start, self.mixture.theta

    @property
    def peaks_at_end(self) -> bool:
        return True

    @property
    def widest(self) -> float:
        return 2.0

    @property
    def steepest(self) -> float:
        return 1.0
