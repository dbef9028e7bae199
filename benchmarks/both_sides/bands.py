"""The band of a positive measure: kernels of `cumulant.inversion.band` on a transform that comes with its error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.inversion.band import EPSILON_SLIP, KERNEL_UNITS, BandInDoubles, _Side
from cumulant.inversion.contour import ROUNDOFF
from cumulant.inversion.kernels import BandKernels
from cumulant.inversion.plan import Tilts
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class MeasureBand:
    """Bounds of the profile of a measure from both sides, at places of either sign."""

    band: BandInDoubles

    @property
    def tilts(self) -> Tilts:
        """The question that it was planned for."""
        return self.band.tilts

    @property
    def points(self) -> int:
        """How many frequencies were looked at."""
        return self.band.points

    def log_bounds(self, x: float) -> tuple[float, float]:
        """Return both bounds of the logarithm of the profile: it falls with x, and phases slip by units of |x|."""
        band, first = self.band, x - EPSILON_SLIP * abs(x)
        high = band._sum(band.above.weights, first) + band.above.doubt + abs(x) * band.above.phase_doubt
        low = band._sum(band.below.weights, x) - band.below.doubt - abs(x) * band.below.phase_doubt - band._alias(x)
        log_high = band._scale(first) + math.log(high) if high > 0 else 0.0
        return (band._scale(x) + math.log(low) if low > 0 else -math.inf), min(log_high, 0.0)


def band_of_measure(
    at: tuple[float, float, int, float], k: float, values: Complex, error: Array, tilts: Tilts
) -> MeasureBand:
    """Return the band of a positive measure on a line (θ, η, count), h, from its transform over e^k with its error."""
    theta, eta, count, h = at
    nodes = BandKernels.of(theta, eta, count, h)
    end = eta * count
    flat = (eta / theta**2 + math.pi / (2 * theta) + end * h * h / 12) / math.pi  # Σ |T̂|·η/π
    rising = (eta / theta + math.log(2 + 2 * end / theta) + (end * h) ** 2 / 24) / math.pi  # Σ |T̂ z|·η/π
    off = ROUNDOFF * KERNEL_UNITS * (flat + h * rising + 1 / (12 * eta)) + math.expm1(ROUNDOFF * abs(k)) * flat
    above, below = (
        _Side.of(
            kernel,
            values * (eta / math.pi),
            off + float(np.abs(kernel) @ error) * eta / math.pi,
            10 * ROUNDOFF * rising,
        )
        for kernel in (nodes.above(), nodes.below())
    )
    return MeasureBand(BandInDoubles(theta, eta, k, above, below, tilts))
