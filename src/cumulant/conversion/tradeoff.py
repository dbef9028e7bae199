"""Trade-off curves: what an attacker who tests one neighbour against the other can achieve."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.numerics.search import minimise_positive

FARTHEST = 700.0  # e^ε beyond it overflows, and constrains nothing


def false_negative_rate(delta: Callable[[float], float], false_positive_rate: float) -> float:
    """Return f(x) = sup over ε >= 0 of max(0, 1 - δ(ε) - e^ε x, e^{-ε}(1 - δ(ε) - x)).

    Wasserman and Zhou (2010); Dong, Roth and Su (2022), Proposition 2.12, with (2.13): the trade-off function of a
    family that is closed under exchanging neighbours, as the profile here is of the worse order.

    Holds for:  every δ(ε) that bounds the profile from above; each ε gives a bound, so a search can only be loose.
    Tightness:  exact where δ(ε) is.
    """
    x = false_positive_rate

    def excluded(epsilon: float) -> float:
        kept = 1.0 - delta(epsilon)
        return max(kept - math.exp(epsilon) * x, math.exp(-epsilon) * (kept - x), 0.0)

    def negative(epsilons: Array) -> Array:
        return np.array([-excluded(min(float(epsilon), FARTHEST)) for epsilon in epsilons])

    best = max(excluded(0.0), -minimise_positive(negative)[1])
    return max(0.0, best * (1 - 1e-14) - 2e-16)  # rounded down: a smaller rate is the attacker's gain
