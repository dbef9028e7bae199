"""From a CGF to zero-concentrated and truncated DP: the second half of Remark 8 of Wang et al. (2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cumulant.curves.curve import Curve
from cumulant.errors import UnprovenCombination
from cumulant.numerics.rounding import ROUNDING
from cumulant.parameters import nonnegative, real, require

FIRST, LAST = 1e-6, 1e9  # λ between which K is asked for where no ω ends it
PER_OCTAVE = 16  # orders at first
CLOSE = 1e-5  # a cell is cut until its bound is within this part of the largest value found
MOST_CELLS = 20_000  # that are wide at the same time


def smallest_rho(
    cgf: Curve, *, xi: float = 0.0, omega: float = math.inf, beyond: tuple[float, float] | None = None
) -> float:
    """Return the smallest ρ with K(λ) <= λξ + λ(λ+1)ρ for all λ + 1 <= ω: sup over α of (ε(α) - ξ)/α, rounded up.

    With ω = ∞ that is (ξ, ρ)-zCDP, and with ξ = 0 and finite ω (ρ, ω)-tCDP. On a cell of orders K lies below its
    chord, which bounds the quotient; cells that reach above what is attained are cut.

    A curve says nothing of orders it was not asked for, so ω = ∞ needs a bound of all of them: pure DP, or
    `beyond` = (ξ', ρ'), a zCDP that holds anyway, such as (0, 1/2σ²) of Gaussian noise.

    Holds for:  every CGF that bounds its mechanism; curves without failure probability.
    Tightness:  within a part in 10⁵ of the supremum over the curve.

    >>> from cumulant import Laplace
    >>> round(smallest_rho(Laplace(scale=2.0)._known().curve()), 4)  # ε²/2 would be 0.125
    0.1065
    """
    xi = nonnegative("xi", xi)
    omega = real("omega", omega, "must be a number > 1", lambda number: number > 1)
    require(cgf.failure == 0, "a curve with a failure probability has no zCDP, got", cgf.failure)
    if math.isinf(omega) and math.isinf(cgf.pure) and beyond is None:
        raise UnprovenCombination(
            "a curve says nothing of orders it was not asked for; give a finite omega, or beyond=(xi, rho) that holds"
        )
    last = min(LAST, omega - 1)
    count = 2 + math.ceil(PER_OCTAVE * math.log2(last / FIRST)) if last > FIRST else 2
    tilts = np.geomspace(min(FIRST, last), last, count).tolist()
    cells = list(pairwise(_rdp(cgf, tilts)))
    attained = max(0.0, cgf.kl - xi, *((epsilon - xi) / (1 + lam) for (lam, epsilon), _ in cells))
    tail = _beyond(cgf, xi, last, beyond) if math.isinf(omega) else 0.0
    settled = max(tail, _bound((0.0, cgf.kl), cells[0][0], xi))  # below the first order, too
    while cells:
        attained = max(attained, *((b[1] - xi) / (1 + b[0]) for _, b in cells))
        enough = max(attained * (1 + CLOSE), tail)
        wide = [cell for cell in cells if _bound(*cell, xi) > enough]
        settled = max([settled, *(_bound(*cell, xi) for cell in cells if _bound(*cell, xi) <= enough)])
        if len(wide) > MOST_CELLS or not all(cell[0][0] < _middle(cell) < cell[1][0] for cell in wide):
            settled = max(settled, *(_bound(*cell, xi) for cell in wide))
            break
        middles = _rdp(cgf, [_middle(cell) for cell in wide]) if wide else []
        cells = [half for (a, b), m in zip(wide, middles, strict=True) for half in ((a, m), (m, b))]
    return max(0.0, settled) * (1 + ROUNDING)


def rho_curve(
    cgf: Curve, xis: Sequence[float], *, omega: float = math.inf, beyond: tuple[float, float] | None = None
) -> list[float]:
    """Return the smallest ρ for every ξ: the boundary of all (ξ, ρ) that a CGF implies."""
    return [smallest_rho(cgf, xi=xi, omega=omega, beyond=beyond) for xi in xis]


Order = tuple[float, float]
"""(λ, ε(λ+1))"""


def _rdp(cgf: Curve, tilts: Sequence[float]) -> list[Order]:
    lam = np.array(tilts)
    return list(zip(tilts, (cgf(lam) * (1 + 1e-13) / lam).tolist(), strict=True))


def _bound(low: Order, high: Order, xi: float) -> float:
    """Return the largest (chord(λ)/λ - ξ)/(λ+1) of a cell: K is convex, so below its chord a + bλ, where a <= 0.

    The quotient has its largest value at an end, or where (b-ξ)λ² + 2aλ + a = 0.
    """
    (x, e), (y, f) = low, high
    if x == 0:
        return max(0.0, f - xi)
    slope = (y * f - x * e) / (y - x)
    a, b = min(0.0, x * e - slope * x), slope - xi
    turn = (math.sqrt(a * a - a * b) - a) / b if b > 0 else x
    places = [x, y, min(max(turn, x), y)]
    return max(0.0, *((a / lam + b) / (1 + lam) for lam in places)) * (1 + 1e-13)


def _middle(cell: tuple[Order, Order]) -> float:
    return math.sqrt(cell[0][0] * cell[1][0])


def _beyond(cgf: Curve, xi: float, last: float, beyond: tuple[float, float] | None) -> float:
    """Return a bound of (ε(α) - ξ)/α for α > last + 1."""
    by_pure = max(0.0, cgf.pure - xi) / (1 + last)
    if beyond is None:
        return by_pure
    more, rho = nonnegative("xi", beyond[0]), nonnegative("rho", beyond[1])
    return min(by_pure, rho + max(0.0, more - xi) / (1 + last))
