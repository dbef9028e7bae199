"""Transforms of the best functions of bounded frequency on either side of the tilted payoff, for `band`.

*Construction.* In units of h, with a = θh and b = (θ+1)h, let T interpolate G and G' at the points n + g, n integer:

    T(x) = (sin π(x-g)/π)² Σ_n [G(n+g)/(x-n-g)² + G'(n+g)/(x-n-g)].

By Vaaler's formula, T̂(ω) = (1 - t) Σ G(n+g) e^{-2πi(n+g)t} + (1/2πi) Σ G'(n+g) e^{-2πi(n+g)t} for 0 < t = ωh/2π < 1:
with z = θ + iω, e^{-θx} has Σ_{n>=0} e^{-zh(n+g)} = e^{-zhg}/(1 - e^{-zh}), and its derivative -a times that, so that

    T̂ = h [(1 + izh/2π) e^{-zhg}/(1 - e^{-zh}) - (1 + i(z+1)h/2π) e^{-(z+1)hg}/(1 - e^{-(z+1)h})].

*From above.* Let C(w) = w e^{-wg}/(1 - e^{-w}). As 1/(n-x)² = ∫ s e^{-s(n-x)} ds over s > 0, for x < 0, where G = 0,
T - G = (sin²/π²) ∫ e^{sx} [C(a+s) - C(b+s)] ds. For x > 0 the sum over all integers would be e^{-λx} π²/sin²; that over
the negative ones, continued from λ < 0, is ∫ e^{-sx} C(λ-s) ds, so T - G = (sin²/π²) ∫ e^{-sx} [C(b-s) - C(a-s)] ds.
Take g with C(a) = C(b): g = log(B(b)/B(a))/h, B(w) = w/(1 - e^{-w}). log C is concave, as w/(2 sinh(w/2)) is
log-concave; so C(a+s) >= C(b+s) and C(b-s) >= C(a-s) for s >= 0, and T >= G.

*From below.* Take g = 0, and some d between 0 and h for G' at the kink, which has h from the right: T̂ changes by
(d-h)h/2πi. C is B for g = 0, and the brackets become, for x < 0 and x > 0,

    h - d - [B(b+s) - B(a+s)]   and   d - h + [B(b-s) - B(a-s)].

B is convex, so the first is at most h - d - [B(b) - B(a)], the second at most d - h + [B(b) - B(a)]: both are <= 0 for
d = h - [B(b) - B(a)], and T <= G.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.numerics.complex_plane import Complex, turns

SMALL_TILT = 0.05  # of (θ+1)h, up to which the series of log B and B are exact to rounding


@final
@dataclass(frozen=True, slots=True, eq=False)
class BandKernels:
    """z = θ + iω at ω = 0, η, 2η, …, with e^{-zh}, and 1 - e^{-zh} and 1 - e^{-(z+1)h} without a difference."""

    theta: float
    eta: float
    h: float
    z: Complex
    turned: Complex
    first: Complex
    second: Complex

    @staticmethod
    def of(theta: float, eta: float, count: int, h: float) -> BandKernels:
        half = turns(-eta * h / 2, count)
        # 1 - e^{-a}e^{-iφ} = (1 - e^{-a}) + e^{-a}(1 - e^{-iφ}), and 1 - e^{-iφ} = 2i sin(φ/2) e^{-iφ/2}
        versine = -2j * half.imag * half
        first, second = (-math.expm1(-a) + math.exp(-a) * versine for a in (theta * h, (theta + 1) * h))
        z = theta + 1j * eta * np.arange(count, dtype=float)
        return BandKernels(theta, eta, h, z, math.exp(-theta * h) * half * half, first, second)

    def above(self) -> Complex:
        """Return T̂₊.

        Holds for:  any law of losses; θ > 0, 0 <= ω < 2π/h.
        Tightness:  ∫ (T₊ - G) is about h²/24 where (θ+1)h is small.
        """
        h, turn = self.h, 1j * self.h / (2 * math.pi)
        g = _log_ratio(self.theta * h, h) / h
        apart = -math.expm1(-h * g) - (math.exp(-h * g) * math.expm1(-h * (1 - g))) * self.turned
        bracket = (1 + turn * self.z) * apart / self.first - turn * math.exp(-h * g)
        shift = h * math.exp(-self.theta * h * g) * turns(-self.eta * h * g, len(self.z))
        return np.asarray(shift * bracket / self.second)

    def below(self) -> Complex:
        """Return T̂₋.

        Holds for:  any law of losses; θ > 0, 0 <= ω < 2π/h.
        Tightness:  ∫ (G - T₋) is about h²/12 where (θ+1)h is small.
        """
        h, turn = self.h, 1j * self.h / (2 * math.pi)
        risen = _difference(self.theta * h, h)
        bracket = (1 + turn * self.z) * (-math.expm1(-h) * self.turned) / self.first - turn
        return np.asarray(h * (bracket / self.second + 1j * risen / (2 * math.pi)))


def _log_ratio(a: float, h: float) -> float:
    """Return log(B(a+h)/B(a)): from log B(w) = w/2 - w²/24 + w⁴/2880 - w⁶/181440 + … where w is small."""
    if a + h > SMALL_TILT:
        return math.log1p(h / a) - math.log1p(math.exp(-a) * math.expm1(-h) / math.expm1(-a))
    second, fourth, sixth = _even_powers(a, h)
    return h / 2 - second / 24 + fourth / 2880 - sixth / 181440


def _difference(a: float, h: float) -> float:
    """Return B(a+h) - B(a): from B(w) = 1 + w/2 + w²/12 - w⁴/720 + w⁶/30240 - … where w is small."""
    if a + h > SMALL_TILT:
        return a / -math.expm1(-a) * math.expm1(_log_ratio(a, h))
    second, fourth, sixth = _even_powers(a, h)
    return h / 2 + second / 12 - fourth / 720 + sixth / 30240


def _even_powers(a: float, h: float) -> tuple[float, float, float]:
    """Return b² - a², b⁴ - a⁴ and b⁶ - a⁶, b = a + h, from h."""
    b = a + h
    second = h * (a + b)
    return second, second * (a * a + b * b), second * (a**4 + a * a * b * b + b**4)
