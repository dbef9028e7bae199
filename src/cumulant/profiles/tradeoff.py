"""Trade-off curves: what an attacker who tests one neighbour against the other can achieve."""

from __future__ import annotations

import math
from collections.abc import Callable

FARTHEST = 700.0  # e^ε beyond it overflows, and constrains nothing
CLOSE = 1e-8  # how far below the supremum a search may end
MOST = 40  # values of δ that it may ask for
MARGIN = 1e-3  # of an interval: how far from its ends a new point is at least

Point = tuple[float, float]


def false_negative_rate(
    delta: Callable[[float], float], false_positive_rate: float, asked: dict[float, float] | None = None
) -> float:
    """Return f(x) = sup over ε >= 0 of max(0, 1 - δ(ε) - e^ε x, e^{-ε}(1 - δ(ε) - x)).

    Wasserman and Zhou (2010); Dong, Roth and Su (2022), Proposition 2.12, with (2.13): the trade-off function of a
    family that is closed under exchanging neighbours, as the profile here is of the worse order.

    `asked` holds 1 - δ at every ε that was asked for, which serves for other rates again.

    δ is convex in e^ε, so the two are concave, the first in e^ε and the second in e^{-ε} (a perspective).

    Holds for:  every δ(ε) that bounds the profile from above; each ε gives a bound, so a search can only be loose.
    Tightness:  exact where δ(ε) is, but for 1e-8.
    """
    x = false_positive_rate
    if x == 1:
        return 0.0

    asked = {} if asked is None else asked

    def kept(epsilon: float) -> float:
        if epsilon not in asked:
            asked[epsilon] = 1.0 - delta(epsilon)
        return asked[epsilon]

    def here(epsilon: float) -> Point:
        return math.exp(epsilon), kept(epsilon) - math.exp(epsilon) * x

    def mirrored(epsilon: float) -> Point:
        return math.exp(-epsilon), math.exp(-epsilon) * (kept(epsilon) - x)

    last = min(FARTHEST, -math.log(x)) if x > 0 else FARTHEST  # beyond, the first is negative
    known = [here(epsilon) for epsilon in {0.0, last / 2, last, *(e for e in asked if e < last)}]
    best = highest(lambda t: here(math.log(t)), known, 0.0)
    if best < 1 - x:  # the second is at most e^{-ε}(1-x); what was asked serves again
        last = min(FARTHEST, math.log((1 - x) / best)) if best > 0 else FARTHEST
        seen = [mirrored(epsilon) for epsilon in {last, *(e for e in asked if e < last)}]
        best = highest(lambda s: mirrored(max(-math.log(s), 0.0)), seen, best)
    # rounded down: a smaller rate is the attacker's gain; every term is at most 1, and known to a few units
    return max(0.0, best * (1 - 1e-14) - 1e-14)


def highest(function: Callable[[float], Point], points: list[Point], known: float) -> float:
    """Return the largest value found of a concave function between given points, or `known` if that is larger.

    Beyond two points of a concave function the line through them lies above it, so lines from either side say how much
    higher it can be between two points, and where. It ends when that is less than CLOSE.
    """
    known_at = dict(points)
    best = max(known, *known_at.values())
    for _ in range(MOST):
        points = sorted(known_at.items())
        ceiling, x = max((_reach(points, i) for i in range(len(points) - 1)), default=(best, 0.0))
        if ceiling <= best + CLOSE:
            break
        x, value = function(x)
        if x in known_at:
            break
        known_at[x] = value
        best = max(best, value)
    return best


def _reach(points: list[Point], i: int) -> Point:
    """Return how high the function can be between points i and i+1, and where to ask."""
    (a, f_a), (b, f_b) = points[i], points[i + 1]
    if b - a <= 1e-12 * b:
        return max(f_a, f_b), a
    before, after = points[i - 1] if i > 0 else None, points[i + 2] if i + 2 < len(points) else None
    rising = (f_a - before[1]) / (a - before[0]) if before is not None else math.inf
    falling = (f_b - after[1]) / (b - after[0]) if after is not None else -math.inf
    if before is None or after is None:  # one line, or none: it is highest at an end
        ceiling = f_b - falling * (b - a) if after is not None else f_a + rising * (b - a)
        return max(ceiling, f_a, f_b), math.sqrt(a) * math.sqrt(b)
    if not rising > falling:
        return max(f_a, f_b), math.sqrt(a) * math.sqrt(b)
    x = (f_b - f_a + rising * a - falling * b) / (rising - falling)
    x = min(max(x, a), b)
    height = max(min(f_a + rising * (x - a), f_b + falling * (x - b)), f_a, f_b)
    return height, min(max(x, a + MARGIN * (b - a)), b - MARGIN * (b - a))
