"""Zero-concentrated DP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from cumulant.curves.curve import Array, Curve
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.numerics.rounding import ULP
from cumulant.parameters import by_name, nonnegative, product_above, whole_number

FEW = 100  # summed exactly
EULER = 0.5772156649015329  # γ, rounded up


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ZCDP(AbstractMechanism):
    """Anything that is (ξ, ρ)-zCDP: RDP(α) <= ξ + ρα at every order (Bun and Steinke 2016).

    K(λ) <= λξ + λ(λ+1)ρ (Wang et al. 2019, Remark 8).

    >>> ZCDP(rho=0.5).rdp(order=3)
    1.5
    """

    theorem: ClassVar[str] = "zCDP as a CGF (Wang et al. 2019, Remark 8)"

    rho: float
    xi: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", nonnegative("rho", self.rho))
        object.__setattr__(self, "xi", nonnegative("xi", self.xi))

    @by_name
    def group(self, *, size: int) -> ZCDP:
        """k²ρ-zCDP for k records, and (ξk Σ_{i<=k} 1/i, k²ρ) in general (Bun and Steinke 2016, Proposition 27)."""
        k = whole_number("size", size, at_least=1)
        return ZCDP(rho=product_above(k * k, self.rho), xi=product_above(k * _harmonic(k), self.xi))

    def _known(self) -> Known:
        return Known.by_curve(self._curve)

    def _curve(self) -> Curve:
        rho, xi = self.rho, self.xi

        def log_moment(lam: Array) -> Array:
            return lam * (xi + (lam + 1) * rho)

        pure = xi if rho == 0 else math.inf
        return Curve(log_moment=log_moment, kl=xi + rho, pure=pure, exact=False)


def _harmonic(k: int) -> Fraction:
    """Return Σ_{i<=k} 1/i, or a double above it: log k + γ + 1/(2k) is."""
    if k <= FEW:
        return sum((Fraction(1, i) for i in range(1, k + 1)), Fraction(0))
    return Fraction((math.log(k) + EULER + 0.5 / k) * (1 + 4 * ULP))
