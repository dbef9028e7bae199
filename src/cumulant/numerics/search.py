"""Searches that need only function values: doubling, bracketing, bisection, sectioning.

A search decides how tight an answer is, never whether it is sound: every caller evaluates a bound that holds
at any point, and these functions pick a good point.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array

STRIDE = 4  # octaves looked at either side before deciding where to go
PATIENCE = 2  # octaves that must have been seen beyond the lowest: forgives a shallow second valley
FURTHEST = 120  # octaves from 1
SECTION = np.arange(-7, 8) / 8.0  # a bracket of one octave either side is cut into sixteenths
SMOOTH = 0.01  # octaves over which a smooth function is a parabola to twelve digits
BENT = 0.01  # share of its rise by which a function may miss its parabola
SECTION_WIDTH = 1.0 / 7.0  # the next bracket reaches the neighbours of the best point
NUDGES = (1e-15, 4e-15, 3e-14, 2e-13, 2e-12, 2e-11, 2e-10, 2e-9, 1e-7, 1e-5)  # relative steps to the safe side
WALK, LONGER = 40, 8.0  # steps to where a sign has changed, and by how much a step may be longer than the last
FARTHEST_STEP = 2.0**60  # beyond which no sign change is looked for
TURNS, SECANTS_AND_HALF, EDGE = 80, 3, 0.01  # of rows; of three one halves; how near an end a secant may come
TO_TWELVE_DIGITS = 12  # turns: sections of an octave, then of sevenths of the last, down to 7e-11
SAYS_NOTHING = 1e299  # a value as large as this, or larger
BLIND = 8  # points in a row at which a function says nothing, after which no others are tried


def root(
    function: Callable[[float], float], low: float, high: float, *, tolerance: float = 0.0, relative: float = 0.0
) -> float:
    """Return the upper end of a narrow bracket of where a function changes its sign, < 0 at `low` and > 0 at `high`.

    The bracket is at most `tolerance` wide, or a `relative` part of itself. The end values are not evaluated; what is
    returned was, unless it is `high`, so a caller that reads "safe" as >= 0 gets a safe value. False position with the
    Illinois rule, bisecting whenever two steps have not halved the bracket.

    >>> round(root(lambda x: x**3 - 8, 0.0, 100.0, tolerance=1e-9), 6)
    2.0
    """
    return _between(function, (low, -math.inf), (high, math.inf), tolerance, relative)


def root_near(function: Callable[[float], float], start: float, low: float, high: float, *, tolerance: float) -> float:
    """Return the root of an increasing function that is near `start`, and whose slope there is about 1.

    Steps twice as long as a tangent or a secant says, until the sign has changed.

    >>> round(root_near(lambda x: x + x**3 - 2.2, 0.9, 0.0, 100.0, tolerance=1e-9), 6)
    1.048228
    """
    x = min(max(start, low), high)
    value = function(x)
    step = -2 * value - math.copysign(tolerance / 2, value)
    for _ in range(WALK):
        there = min(max(x + step, low), high)
        if there == x or not math.isfinite(value):
            break
        further = function(there)
        if (value < 0) != (further < 0):
            ends = sorted([(x, value), (there, further)])
            return _between(function, ends[0], ends[1], tolerance)
        secant = -2 * further * (there - x) / (further - value) if further != value else math.inf
        x, value, step = there, further, math.copysign(min(max(abs(secant), abs(step)), LONGER * abs(step)), step)
    return root(function, x, high, tolerance=tolerance) if value < 0 else root(function, low, x, tolerance=tolerance)


def _between(
    function: Callable[[float], float],
    below: tuple[float, float],
    above: tuple[float, float],
    tolerance: float,
    relative: float = 0.0,
) -> float:
    """Return the root between two points with their values, infinite where they are not known."""
    (low, f_low), (high, f_high) = below, above
    width, side = high - low, 0
    for step in range(200):
        if high - low <= max(tolerance, relative * abs(high)):
            break
        slow = step > 0 and step % 2 == 0 and high - low > 0.5 * width
        if step % 2 == 0:
            width = high - low
        falsi = high - f_high * (high - low) / (f_high - f_low) if math.isfinite(f_high - f_low) else math.nan
        x = 0.5 * (low + high) if slow or not low < falsi < high else falsi
        if not low < x < high:
            break
        value = function(x)
        if value < 0:
            low, f_low = x, value
            f_high, side = (f_high / 2, -1) if side == -1 else (f_high, -1)
        else:
            high, f_high = x, value
            f_low, side = (f_low / 2, 1) if side == 1 else (f_low, 1)
    return high


def roots(
    function: Callable[[Array, NDArray[np.intp]], Array],
    low: Array,
    step: float,
    *,
    tolerance: float = 0.0,
    relative: float = 0.0,
) -> tuple[Array, Array]:
    """Return for every row the upper end of a narrow bracket of where a function changes its sign, and the lower end.

    The function takes points with their rows; it is < 0 at `low`. Steps are doubled until it is not, but not
    without end: then infinity is returned; then two secants and a bisection in turn. Upper ends have been tested.

    >>> upper, _ = roots(lambda x, rows: x * x - np.array([2.0, 9.0])[rows], np.zeros(2), 1.0, relative=1e-12)
    >>> upper.round(9).tolist()
    [1.414213562, 3.0]
    """
    low, high = low.copy(), low + step
    below, above = np.full(low.shape, -math.inf), np.full(low.shape, math.inf)
    rising = np.arange(len(low))
    while len(rising):
        value = function(high[rising], rising)
        above[rising] = value
        rising, value = rising[value < 0], value[value < 0]
        step *= 2
        low[rising], below[rising] = high[rising], value
        high[rising] = low[rising] + step if step < FARTHEST_STEP else math.inf
        rising = rising[np.isfinite(high[rising])]
    for turn in range(TURNS):
        rows = np.flatnonzero((high - low > np.maximum(tolerance, relative * np.abs(high))) & np.isfinite(high))
        if not len(rows):
            break
        share = np.full(len(rows), 0.5)
        if turn % SECANTS_AND_HALF < SECANTS_AND_HALF - 1:
            with np.errstate(over="ignore"):
                gap = below[rows] - above[rows]
            share = np.where(np.isfinite(gap), below[rows] / np.where(np.isfinite(gap), gap, 1.0), 0.5)
        middle = low[rows] + (high - low)[rows] * np.clip(share, EDGE, 1 - EDGE)
        value = function(middle, rows)
        up, down = rows[value >= 0], rows[~(value >= 0)]
        high[up], above[up] = middle[value >= 0], value[value >= 0]
        low[down], below[down] = middle[~(value >= 0)], value[~(value >= 0)]
    return high, low


def nearest_on_side(
    falling: Callable[[float], tuple[float, float]],
    side: int,
    start: float,
    anyway: float,
    is_zero: Callable[[], bool],
    *,
    slope: Callable[[float], float],
    turns: int,
    still: float,
) -> float:
    """Return x >= 0 on one side of where a falling function vanishes, as near as can be found, or `anyway`.

    Side 1 asks for a value <= 0, -1 for one >= 0, and only points that were tested are returned. The function gives its
    value with its slope, NaN where `slope` has to be asked: once, then secants do. Newton's method or secants in a
    bracket, for so many turns or until a relative step is at most `still`. If the first point lies beyond the answer,
    it is asked whether that is 0.

    >>> def fall(x):
    ...     return 4 - x * x, -2 * x
    >>> nearest_on_side(fall, 1, 1.0, 9.0, lambda: False, slope=lambda x: -2 * x, turns=40, still=1e-15)
    2.0
    """
    nearer, best, low, high = (min if side > 0 else max), anyway, 0.0, math.inf
    x, before, blind = max(min(start, anyway) if side > 0 else start, 1e-300), None, 0
    for turn in range(turns):
        f, steepness = falling(x)
        if turn == 0 and not f > 0 and is_zero():
            return 0.0
        blind = blind + 1 if not abs(f) < SAYS_NOTHING else 0
        if blind > BLIND:
            break
        if side * f <= 0:
            best = nearer(best, x)
        low, high = (max(low, x), high) if f > 0 else (low, min(high, x))
        if math.isnan(steepness):
            steepness = slope(x) if before is None or before[0] == x else (f - before[1]) / (x - before[0])
        step = -f / steepness if not blind and steepness < 0 else math.inf
        before = None if blind else (x, f)
        if abs(step) <= still * x or (high < math.inf and high - low <= still * high):
            break
        trial = x + step
        x = trial if low < trial < high else ((low + high) / 2 if high < math.inf else 2 * x + 1)
    for nudge in (0.0, *(nudge for nudge in NUDGES if nudge >= still)):
        point = x * (1 + side * nudge)
        if nearer(best, point) == best or side * falling(point)[0] <= 0:
            return nearer(best, point)
    return best


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
    function: Callable[[Array], Array], *, start: float = 1.0, turns: int = TO_TWELVE_DIGITS
) -> tuple[float, float]:
    """Return (x, f(x)) near the minimum over x > 0 of a unimodal function that may be +inf on either side.

    The function takes arrays, as a call costs about the same for one point as for twenty. Octaves from `start`
    until the value stops falling, then ever finer sections of log x, and at last the vertex of a parabola through
    them: O(log(x*/start) + log(1/accuracy)) points. With no `turns` the best octave is returned; with one, where every
    value is dear, eighths of octaves and a vertex are all that is asked, so that searches which begin at powers of 2
    share their points but the last.

    >>> x, value = minimise_positive(lambda x: x + 9 / x)
    >>> round(x, 4), round(value, 9)
    (3.0, 6.0)
    >>> round(minimise_positive(lambda x: x + 9 / x, turns=1)[0], 4), minimise_positive(lambda x: x + 9 / x, turns=0)[0]
    (3.0, 4.0)
    """
    best, value = _lowest(*_walk(function, math.log2(start)))
    width = 1.0
    for turn in range(turns):
        grid = best + width * SECTION
        values = function(2.0**grid)
        better, lower = _lowest(grid, values)
        if lower < value:
            best, value = better, lower
        width *= SECTION_WIDTH
        if width < SMOOTH or turn == turns - 1:  # a smooth function is a parabola by now; where not, go on cutting
            vertex, predicted = _vertex(grid, values)
            at_vertex = float(function(np.array([2.0**vertex]))[0])
            if at_vertex < value:
                best, value = vertex, at_vertex
            if abs(at_vertex - predicted) <= 1e-13 * abs(value) and _is_parabola(values):
                break
        if width < 2e-5 and _rise_around_lowest(values) <= 1e-13 * abs(value):
            break
    return 2.0**best, value


def _rise_around_lowest(values: Array) -> float:
    """Return how far the neighbours of the lowest point are above it: a convex function falls no further in between."""
    i = min(max(_index_of_lowest(values), 1), len(values) - 2)
    around: list[float] = values[i - 1 : i + 2].tolist()
    return max(around) - min(around)


def _is_parabola(values: Array) -> bool:
    """Whether the parabola through the lowest point and its neighbours meets the next two, within BENT of its rise."""
    i = min(max(_index_of_lowest(values), 2), len(values) - 3)
    a, below, here, above, b = values[i - 2 : i + 3].tolist()
    bend, tilt = below - 2 * here + above, above - below
    off = max(abs(a - (here + 2 * bend - tilt)), abs(b - (here + 2 * bend + tilt)))
    return bool(off <= BENT * _rise_around_lowest(values))


def _vertex(x: Array, values: Array) -> tuple[float, float]:
    """Return the lowest point of the parabola through the lowest of the points and its neighbours."""
    i = min(max(_index_of_lowest(values), 1), len(x) - 2)
    below, here, above = values[i - 1 : i + 2].tolist()
    bend = below - 2 * here + above
    if not 0 < bend < 1e150 or not abs(below - above) < 1e150:
        return float(x[i]), math.inf
    shift = (below - above) / (2 * bend)
    if not abs(shift) <= len(x):  # hardly bent: the vertex is far from where the parabola was seen
        return float(x[i]), math.inf
    return float(x[i] + shift * (x[i + 1] - x[i])), here - (below - above) ** 2 / (8 * bend)


def _lowest(x: Array, values: Array) -> tuple[float, float]:
    index = _index_of_lowest(values)
    return float(x[index]), float(values[index])


def _index_of_lowest(values: Array) -> int:
    """Return where values are lowest, the first of equals; what is not a number is never low."""
    return int(np.argmin(np.where(np.isnan(values), np.inf, values)))


def _walk(function: Callable[[Array], Array], start: float) -> tuple[Array, Array]:
    """Return log2 x and f(x) on octaves around `start`, extended while the lowest is near an end."""
    octaves: Array = start + np.arange(-STRIDE, STRIDE + 1, dtype=float)
    values = function(2.0**octaves)
    while True:
        lowest = _index_of_lowest(values)  # where all is infinite that is the first, so smaller x is tried
        if lowest < PATIENCE and octaves[0] > -FURTHEST:
            octaves, values = _extend(function, octaves, values, -1)
        elif lowest >= len(values) - PATIENCE and octaves[-1] < FURTHEST and _still_falls(values):
            octaves, values = _extend(function, octaves, values, 1)
        else:
            return octaves, values


def _still_falls(values: Array) -> bool:
    """Whether the last octaves bring progress worth having."""
    return bool(values[-1] < values[-1 - PATIENCE] - 1e-13 * abs(values[-1]))


def _extend(function: Callable[[Array], Array], octaves: Array, values: Array, direction: int) -> tuple[Array, Array]:
    steps: Array = np.arange(1, 2 * STRIDE + 1, dtype=float)
    if direction > 0:
        more = octaves[-1] + steps
        return np.concatenate([octaves, more]), np.concatenate([values, function(2.0**more)])
    more = octaves[0] - steps[::-1]
    return np.concatenate([more, octaves]), np.concatenate([function(2.0**more), values])
