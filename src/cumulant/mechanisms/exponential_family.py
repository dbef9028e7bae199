"""Mechanisms that sample from an exponential family, such as posterior sampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve, curve_loss
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.numerics.rounding import LEAST
from cumulant.parameters import positive, real

Modulus = float | Callable[[float], float]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialFamily(AbstractMechanism):
    """Release θ drawn from p(θ) = h(θ) exp(η(X)ᵀT(θ) - A(η(X))).

    distance:    Δ, with ‖η(X) - η(X')‖ <= Δ for neighbours;
    smoothness:  L(κ), with A(η) <= A(η(X)) + ⟨∇A(η(X)), η - η(X)⟩ + (L/2)‖η - η(X)‖² for ‖η - η(X)‖ <= κ;
    lipschitz:   B(κ), with A(η) <= A(η(X)) + B‖η - η(X)‖ for ‖η - η(X)‖ <= κ;
    radius:      the largest κ the two hold for.

    L and B are numbers or non-decreasing functions of κ; one of them may be left out. Wang et al. (2019),
    Proposition 33 and Remark 34 with its improved constant, for orders 1 < α <= radius/Δ + 1:

        RDP(α) <= min{ ((α-1) L((α-1)Δ) + L(Δ)) Δ²/2,  (B((α-1)Δ) + B(Δ)) Δ }.

    Erratum: Assumption (C) and Remark 34 lack the factor ½ that Proposition 33 and its proof have; and the proof's
    bound on A(η(X')) has the sign of η(X') - η(X) turned.

    Holds for:  every such mechanism with radius >= Δ.
    Tightness:  the smooth branch is attained by Gaussians; the minimum is projected (Proposition 24).

    >>> ExponentialFamily(distance=1.0, smoothness=0.25).rdp(order=8)
    1.0
    """

    theorem: ClassVar[str] = "RDP of exponential families (Wang et al. 2019, Proposition 33 and Remark 34)"

    distance: float
    smoothness: Modulus = math.inf
    lipschitz: Modulus = math.inf
    radius: float = math.inf

    def __post_init__(self) -> None:
        distance = positive("distance", self.distance)
        object.__setattr__(self, "distance", distance)
        object.__setattr__(self, "smoothness", _checked_modulus("smoothness", self.smoothness))
        object.__setattr__(self, "lipschitz", _checked_modulus("lipschitz", self.lipschitz))
        radius = real("radius", self.radius, "must be a number >= distance", lambda number: number >= distance)
        object.__setattr__(self, "radius", radius)
        if self.smoothness == math.inf and self.lipschitz == math.inf:
            raise InvalidParameter("give smoothness, lipschitz or both, got neither")

    def _known(self) -> Known:
        return Known.by_curve(self._curve)

    def _curve(self) -> Curve:
        furthest = self.radius / self.distance
        if not callable(self.smoothness) and not callable(self.lipschitz):
            d = self.distance
            c, slope = self.smoothness * d * d / 2, 2 * self.lipschitz * d
            return _constant_loss(max(c, LEAST), max(slope, LEAST), furthest)  # up where they underflow
        return curve_loss(lambda order: self._rdp(order - 1) if order - 1 <= furthest else math.inf)

    def _rdp(self, lam: float) -> float:
        """Remark 34 at λ = α - 1."""
        d = self.distance
        smooth = (lam * _at(self.smoothness, lam * d) + _at(self.smoothness, d)) * d * d / 2
        return min(smooth, (_at(self.lipschitz, lam * d) + _at(self.lipschitz, d)) * d)

    def _plain(self) -> dict[str, Any]:
        plain = AbstractMechanism._plain(self)
        return {name: value for name, value in plain.items() if value != math.inf}


def _constant_loss(c: float, slope: float, furthest: float) -> Curve:
    """Return the projection (Proposition 24) of K(λ) = min{cλ(λ+1), slope·λ} for λ <= furthest.

    The hull follows the parabola to the point μ from which the chord to the end of the line is tangent to it:
    μ² - 2μ·furthest + (slope/c - 1)·furthest = 0, or μ = (slope/c - 1)/2 where there is no end.
    """
    excess = slope / c - 1
    if math.isinf(slope) or excess >= furthest:  # the parabola is below the line throughout
        mu, chord = furthest, 0.0
    elif excess <= 0:
        mu, chord = 0.0, slope
    else:
        mu = excess / 2 if math.isinf(furthest) else excess / (1 + math.sqrt(1 - excess / furthest))
        chord = c * (2 * mu + 1)

    def log_moment(lam: Array) -> Array:
        bent = np.minimum(lam, mu)
        parabola = c * bent * (bent + 1) if mu > 0 else np.zeros_like(lam)
        return np.where(lam <= furthest, parabola + chord * (lam - bent), math.inf)

    pure = slope if math.isinf(furthest) else math.inf
    return Curve(log_moment=log_moment, kl=min(c, slope), pure=pure, exact=False)


def _checked_modulus(name: str, value: Any) -> Modulus:
    if callable(value):
        return value  # type: ignore[no-any-return]
    return real(name, value, "must be a number > 0 or a function of the radius", lambda number: number > 0)


def _at(modulus: Modulus, radius: float) -> float:
    if not callable(modulus):
        return modulus
    return real("a modulus", modulus(radius), f"must be a number >= 0 at radius {radius}", lambda value: value >= 0)
