"""Searches that need only function values: doubling, bracketing, bisection, golden section.

A search decides how tight an answer is, never whether it is sound: every caller evaluates a bound that holds
at any point, and these functions pick a good point.
"""

from __future__ import annotations

import math
from collections.abc import Callable

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
PATIENCE = 3  # doublings without progress before a direction is given up: forgives a shallow second valley


def bisect_sign(function: Callable[[float], float], low: float, high: float, *, steps: int) -> float:
    """Return a point near the sign change of a function that is < 0 at `low` and >= 0 at `high`."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def smallest_true(holds: Callable[[float], bool], low: float, high: float, *, relative: float) -> float:
    """Return x in (low, high] with holds(x), at most a factor (1 + relative) above the smallest such x.

    `holds` is False at `low`, True at `high` and switches once. The returned x has been tested itself, so a
    caller that reads "safe" as True gets a safe value whatever the shape in between.
    """
    while high - low > relative * abs(high):
        middle = 0.5 * (low + high) if low <= 0 or high < 4 * low else math.sqrt(low * high)
        if not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def largest_true(holds: Callable[[int], bool]) -> int | None:
    """Return the largest n >= 0 with holds(n), for a property that switches once from True to False.

    None if it still holds at 2^62. Doubling, then bisection: O(log n) tests.

    >>> largest_true(lambda n: n * n <= 1000)
    31
    """
    if not holds(1):
        return 0
    low, high = 1, 2
    while holds(high):
        if high >= 2**62:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def minimise_positive(
    function: Callable[[float], float], *, start: float = 1.0, tolerance: float = 1e-9
) -> tuple[float, float]:
    """Return (x, f(x)) near the minimum over x > 0 of a unimodal function that may be +inf on either side.

    Doubles and halves from `start` until the value stops falling, then golden section on log x. It costs
    O(log(x*/start) + log(1/tolerance)) evaluations.

    >>> x, value = minimise_positive(lambda x: x + 9 / x)
    >>> round(x, 4), round(value, 12)
    (3.0, 6.0)
    """
    values = _octaves(function, start)
    best = min(values, key=values.__getitem__)
    return _golden(function, values, best, tolerance)


def best_octave(function: Callable[[float], float], *, start: float = 1.0) -> float:
    """Return the start·2^k at which a unimodal function is smallest."""
    values = _octaves(function, start)
    return 2.0 ** min(values, key=values.__getitem__)


def _octaves(function: Callable[[float], float], start: float) -> dict[float, float]:
    """Return {log2 x: f(x)} on octaves from `start`, walked both ways until the value stops falling."""
    values = {math.log2(start): function(start)}
    for direction in (1.0, -1.0):
        _walk(function, values, direction)
    return values


def _walk(function: Callable[[float], float], values: dict[float, float], direction: float) -> None:
    """Extend `values` (exponent → value) in steps of one octave until PATIENCE of them bring no progress."""
    exponent = next(iter(values))
    best, idle = values[exponent], 0
    while idle < PATIENCE and abs(exponent) < 120:
        exponent += direction
        value = values[exponent] = function(2.0**exponent)
        # Falling into a finite region counts as progress; so does leaving an infinite one unexplored.
        fallen = value < best - 1e-13 * abs(best) if math.isfinite(best) else False
        progress = fallen or (math.isinf(best) and (direction < 0 or math.isfinite(value)))
        idle = 0 if progress else idle + 1
        best = min(best, value)


def _golden(
    function: Callable[[float], float], values: dict[float, float], best: float, tolerance: float
) -> tuple[float, float]:
    """Golden section on log2 x in the octaves around the best value seen."""
    low, high = best - 1.0, best + 1.0
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    fa, fb = function(2.0**a), function(2.0**b)
    champion = min((values[best], best), (fa, a), (fb, b))
    while high - low > tolerance:
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - GOLDEN * (high - low)
            fa = function(2.0**a)
            champion = min(champion, (fa, a))
        else:
            low, a, fa = a, b, fb
            b = low + GOLDEN * (high - low)
            fb = function(2.0**b)
            champion = min(champion, (fb, b))
    return 2.0 ** champion[1], champion[0]
