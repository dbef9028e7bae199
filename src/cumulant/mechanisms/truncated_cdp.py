"""Truncated concentrated DP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.parameters import nonnegative, real


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TruncatedCDP(AbstractMechanism):
    """Anything that is (ρ, ω)-tCDP: RDP(α) <= ρα for orders 1 < α < ω (Bun et al. 2018).

    The bound holds at α = ω too, as the Rényi divergence is continuous from the left. Beyond ω nothing is known.

    >>> TruncatedCDP(rho=0.5, omega=10).rdp(order=[3, 11]).tolist()
    [1.5, inf]
    """

    theorem: ClassVar[str] = "truncated CDP as a CGF (Bun et al. 2018; Wang et al. 2019, Remark 8)"

    rho: float
    omega: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", nonnegative("rho", self.rho))
        object.__setattr__(self, "omega", real("omega", self.omega, "must be a number > 1", lambda omega: omega > 1))

    def _known(self) -> Known:
        return Known.by_curve(self._curve)

    def _curve(self) -> Curve:
        rho, omega = self.rho, self.omega

        def log_moment(lam: Array) -> Array:
            return np.where(lam + 1 <= omega, lam * (lam + 1) * rho, math.inf)

        return Curve(log_moment=log_moment, kl=rho, exact=False)
