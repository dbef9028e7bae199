"""The Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.pairs.noise import gaussian_noise
from cumulant.parameters import by_name, noise_for_group, noise_per_unit, positive
from cumulant.profiles.profile import gaussian_groups


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Gaussian(AbstractMechanism):
    """Add N(0, σ²) noise to a query, σ in units of its L2 sensitivity.

    K(λ) = λ(λ+1)/(2σ²), that is RDP(α) = α/(2σ²) (Mironov 2017, Proposition 7).

    Holds for:  vectors too; the sensitivity is that of the relation the answer is for.
    Tightness:  exact, and self-consistent (Wang et al. 2019, Lemma 27).

    >>> Gaussian(noise_multiplier=2.0).rdp(order=8)
    1.0
    """

    theorem: ClassVar[str] = "RDP of the Gaussian mechanism (Mironov 2017, Proposition 7)"

    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", positive("noise_multiplier", self.noise_multiplier))

    @classmethod
    @by_name
    def of(cls, *, std: float, sensitivity: float) -> Gaussian:
        """Return the mechanism of noise of a standard deviation, for a query of an L2 sensitivity in its unit.

        >>> Gaussian.of(std=3.0, sensitivity=2.0)
        Gaussian(noise_multiplier=1.5)
        """
        return cls(noise_multiplier=noise_per_unit("std", std, sensitivity))

    def _known(self) -> Known:
        noise = gaussian_noise(self.noise_multiplier)
        return Known.by_noise(noise, curve=self._curve, groups=gaussian_groups(noise.mean), self_consistent=True)

    def _curve(self) -> Curve:
        sigma = self.noise_multiplier

        def log_moment(lam: Array) -> Array:
            with np.errstate(over="ignore", under="ignore"):  # up where it underflows: no noise is infinite
                return np.maximum(0.5 * (lam / sigma) * ((lam + 1.0) / sigma), 5e-324)

        return Curve(log_moment=log_moment, kl=max(0.5 / sigma / sigma, 5e-324))

    @by_name
    def group(self, *, size: int) -> Gaussian:
        """The sensitivity of a group is `size` times that of one (triangle inequality)."""
        return Gaussian(noise_multiplier=noise_for_group("noise_multiplier", self.noise_multiplier, size))
