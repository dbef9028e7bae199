"""Zero-concentrated DP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from cumulant.loss.cgf import Array, Cgf
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.parameters import nonnegative


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

    def loss(self) -> Cgf:
        rho, xi = self.rho, self.xi

        def log_moment(lam: Array) -> Array:
            return lam * (xi + (lam + 1) * rho)

        pure = xi if rho == 0 else float("inf")
        return Cgf(log_moment=log_moment, kl=xi + rho, pure=pure, exact=False)
