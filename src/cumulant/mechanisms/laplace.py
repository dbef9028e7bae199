"""The Laplace mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.numerics.logspace import exp_excess, reciprocal_up
from cumulant.numerics.rounding import LEAST
from cumulant.pairs.noise import LaplaceNoise
from cumulant.parameters import by_name, noise_for_group, noise_per_unit, positive
from cumulant.profiles.profile import laplace_groups


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Laplace(AbstractMechanism):
    """Add Laplace(0, b) noise to a number, b in units of its L1 sensitivity.

    With θ = 1/b (Mironov 2017, Proposition 6):

        e^{K(λ)} = ((λ+1) e^{λθ} + λ e^{-(λ+1)θ}) / (2λ+1).

    Holds for:  a number; `LaplaceVector` is for vectors.
    Tightness:  exact, and self-consistent; pure DP θ.

    >>> Laplace(scale=2.0).epsilon(delta=0.0)
    0.5
    """

    theorem: ClassVar[str] = "RDP of the Laplace mechanism (Mironov 2017, Proposition 6)"

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @classmethod
    @by_name
    def of(cls, *, scale: float, sensitivity: float) -> Laplace:
        """Return the mechanism of noise of a scale, for a query of an L1 sensitivity in its unit.

        >>> Laplace.of(scale=3.0, sensitivity=2.0)
        Laplace(scale=1.5)
        """
        return cls(scale=noise_per_unit("scale", scale, sensitivity))

    def _known(self) -> Known:
        theta = reciprocal_up(self.scale)
        noise = LaplaceNoise(theta, self.scale)
        return Known.by_noise(noise, curve=self._curve, groups=laplace_groups(theta), self_consistent=True)

    def _curve(self) -> Curve:
        theta = reciprocal_up(self.scale)

        def log_moment(lam: Array) -> Array:
            x = lam * theta
            near = np.minimum(x, 1.0)
            # M - 1 as a sum of positive terms: the first-order terms of the two exponentials cancel exactly
            excess = (lam + 1) * exp_excess(near) + lam * exp_excess(-near - theta)
            far = x + np.log1p(lam * np.expm1(-2 * x - theta) / (2 * lam + 1))
            return np.maximum(np.where(x < 1.0, np.log1p(excess / (2 * lam + 1)), far), LEAST)  # also if it underflows

        return Curve(log_moment=log_moment, kl=max(float(exp_excess(-theta)), LEAST), pure=theta)

    @by_name
    def group(self, *, size: int) -> Laplace:
        """The sensitivity of a group is `size` times that of one (triangle inequality)."""
        return Laplace(scale=noise_for_group("scale", self.scale, size))
