"""Randomized response, and with it every pure or approximate DP guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.numerics.rounding import LEAST
from cumulant.pairs.atoms import TruthfulAnswer
from cumulant.pairs.noise import FiniteNoise
from cumulant.parameters import by_name, inner_probability, whole_number
from cumulant.profiles.profile import binary_profile


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RandomizedResponse(AbstractMechanism):
    """Answer a yes-or-no question truthfully with probability p, else the opposite.

    With ε₀ = |log p/(1-p)| (Mironov 2017, Proposition 5):

        e^{K(λ)} = p^{λ+1} (1-p)^{-λ} + (1-p)^{λ+1} p^{-λ} = cosh((λ+½)ε₀) / cosh(ε₀/2).

    Holds for:  one bit that a neighbour may flip.
    Tightness:  exact, and self-consistent; pure DP ε₀.

    >>> RandomizedResponse(p=0.75).epsilon(delta=0.0)
    1.09861228866811
    """

    theorem: ClassVar[str] = "RDP of randomized response (Mironov 2017, Proposition 5)"

    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", inner_probability("p", self.p, "must be a probability strictly between 0 and 1"))

    def _known(self) -> Known:
        epsilon = self.log_odds
        return Known.by_noise(
            FiniteNoise(TruthfulAnswer(self.p, epsilon)),
            curve=lambda: binary_loss(epsilon),
            groups=lambda size: binary_profile(epsilon),
            self_consistent=True,
        )

    @by_name
    def group(self, *, size: int) -> RandomizedResponse:
        """One bit is released: a group can flip it, as one record can."""
        whole_number("size", size, at_least=1)
        return self

    @property
    def log_odds(self) -> float:
        """ε₀ = |log p/(1-p)|, accurate at p = ½ as well, and rounded up."""
        p = self.p
        nearest = 2 * math.atanh(abs(2 * p - 1)) if 0.25 < p < 0.75 else abs(math.log(p) - math.log1p(-p))
        return nearest * (1 + 4e-16)


def binary_loss(epsilon: float) -> Curve:
    """Return the CGF of the two-point loss ±ε, the worst that pure ε-DP allows.

    e^{K(λ)} = cosh((λ+½)ε)/cosh(ε/2) = 1 + (e^{λε} - 1)(1 - e^{-(λ+1)ε})/(1 + e^{-ε}): no cancellation.

    Holds for:  every ε-DP mechanism (Kairouz, Oh and Viswanath 2017: randomized response simulates it).
    Tightness:  attained by randomized response.
    """

    def log_moment(lam: Array) -> Array:
        x = lam * epsilon
        near = np.minimum(x, 1.0)
        excess = np.expm1(near) * -np.expm1(-near - epsilon) / (1 + math.exp(-epsilon))
        far = x + np.log1p(np.exp(-2 * x - epsilon)) - math.log1p(math.exp(-epsilon))
        values: Array = np.where(x < 1.0, np.log1p(excess), far)
        return np.maximum(values, least)

    least = LEAST if epsilon > 0 else 0.0  # also if it underflows
    return Curve(log_moment=log_moment, kl=max(epsilon * math.tanh(epsilon / 2), least), pure=epsilon)
