"""δ(ε) of a run between two bounds, by a path of its own: no line of the library's numerics is used.

The lower bound is what an attacker attains on one pair of neighbours. The upper bound holds where that pair is known to
dominate all others, and is infinite elsewhere. Both are proofs up to rounding, which `lattice.log_delta` allows for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import final

from benchmarks.lattice import (
    ROUNDING,
    chernoff,
    chosen_window,
    dominated,
    dominating,
    ends,
    infinite_of,
    log_delta,
    sketch,
)
from benchmarks.laws import Law, laws_of
from benchmarks.runs import Release, Run

SIZE = 2**17
COARSE = 2**14  # for a first look
PRECISION = 2e-7  # relative, to which a bound is looked for
LEAST = 1e-9  # below it, an ε is as good as 0
MOST_CELLS = 4  # of one release, in units of the size of the transform
FLOOR = 1e-200  # the smallest tail that is looked at, so that of log δ down to about -430


@final
@dataclass(frozen=True, slots=True)
class Bracket:
    """A lower and an upper bound of one number."""

    lower: float
    upper: float


LawParts = list[tuple[Law, int]]


def log_delta_bracket(run: Run, epsilon: float, *, size: int = SIZE) -> Bracket:
    """Return bounds of log δ at ε."""
    bracket = _of_pairs(run, epsilon, size)
    return bracket if dominates(run) else Bracket(bracket.lower, math.inf)


def epsilon_bracket(run: Run, *, size: int = SIZE) -> Bracket:
    """Return bounds of ε at the run's δ: where the lower bound of δ(ε) is above δ, and where the upper one is not."""
    bracket = _solved(lambda epsilon, fineness: _of_pairs(run, epsilon, fineness), math.log(run.delta), size)
    return bracket if dominates(run) else Bracket(bracket.lower, math.inf)


def noise_bracket(release: Release, epsilon: float, delta: float, *, size: int = SIZE) -> Bracket:
    """Return bounds of the least noise with which a release, whose pair dominates, is within (ε, δ)."""

    def at(noise: float, fineness: int) -> Bracket:
        return _of_pairs(Run(releases=(replace(release, parameter=noise),), delta=delta), epsilon, fineness)

    return _solved(at, math.log(delta), size)


def dominates(run: Run) -> bool:
    return all(laws_of(release)[1] for release in run.releases)


def _of_pairs(run: Run, epsilon: float, size: int) -> Bracket:
    """Return bounds for the pairs alone: the larger of both orders of neighbours, the same for all releases."""
    known = [(laws_of(release)[0], release.count) for release in run.releases]
    orders = [[(laws[order], count) for laws, count in known] for order in (0, 1)]
    found = [_bounds(parts, epsilon, size) for parts in orders]
    return Bracket(max(one.lower for one in found), max(one.upper for one in found))


def _solved(at: Callable[[float, int], Bracket], goal: float, size: int) -> Bracket:
    """Return bounds of where a falling log δ reaches its goal; both ends have been tested themselves."""
    fine = cache(lambda x: at(x, size))
    near, _ = _crossing(lambda x: at(x, COARSE).upper - goal, 1.0, 1e-3)
    _, upper = _crossing(lambda x: fine(x).upper - goal, near, PRECISION)
    lower, _ = _crossing(lambda x: fine(x).lower - goal, upper, PRECISION)
    return Bracket(lower, upper)


def _crossing(falls: Callable[[float], float], start: float, relative: float) -> tuple[float, float]:
    """Return (low, high), close to one another, with a falling function positive at low (or low = 0), not so at high.

    Steps out from the start, then false position; its end that does not move is halved (Illinois), and where a value is
    infinite or progress is slow the middle is taken.
    """
    low, high, reach = 0.0, start, 0.01
    while (f_high := falls(high)) > 0:
        low, high, reach = high, high * (1 + reach), 8 * reach
    reach = 0.01
    f_low = math.inf
    while low == 0.0 and high > LEAST:
        middle = high * max(1 - reach, 0.5)
        f_middle, reach = falls(middle), 8 * reach
        low, f_low, high, f_high = (middle, f_middle, high, f_high) if f_middle > 0 else (0.0, f_low, middle, f_middle)
    if f_low == math.inf and low > 0:
        f_low = falls(low)
    for turn in range(60):
        if high - low <= relative * high or high <= LEAST:
            break
        known = math.isfinite(f_low) and math.isfinite(f_high) and turn % 3 < 2
        share = f_low / (f_low - f_high) if known else 0.5
        edge = min(0.5, relative * high / (high - low) / 3)  # a step inside, so that both ends close in
        x = low + (high - low) * min(max(share, edge), 1 - edge)
        if (f := falls(x)) > 0:
            low, f_low, f_high = x, f, f_high / 2
        else:
            high, f_high, f_low = x, f, f_low / 2
    return low, high


def _tail(parts: LawParts, epsilon: float) -> float:
    """Return a probability that is nothing beside δ(ε): far below Chernoff's bound of it, which is near it."""
    log_bound = chernoff([(sketch(law, FLOOR), count) for law, count in parts], epsilon)
    return max(FLOOR, math.exp(min(log_bound, 0.0) - 25.0))


def _bounds(parts: LawParts, epsilon: float, size: int) -> Bracket:
    total = sum(count for _, count in parts)
    tail = _tail(parts, epsilon) / total
    if epsilon >= math.fsum(count * ends(law, tail)[1] for law, count in parts):
        revealed = math.fsum(count * infinite_of(law) for law, count in parts)
        certain = -math.expm1(math.fsum(count * math.log1p(-min(infinite_of(law), 0.5)) for law, count in parts))
        # no sum of finite losses within their ends is above ε
        return Bracket(math.log(certain) if certain > 0 else -math.inf, math.log(total * tail + revealed))
    window = chosen_window([(sketch(law, tail), count) for law, count in parts], epsilon)
    widest = max(high - low for low, high in (ends(law, tail) for law, _ in parts))
    # a twentieth more than the sketch says: its masses are not those of the lattices, whose own alias is checked
    step = max(1.05 * (window.high - window.low), widest / MOST_CELLS) / size
    nearest = min(abs(end) for end in ends(parts[0][0], tail))
    if len(parts) == 1 and nearest > step:  # a lattice that holds the end nearer to 0, where the largest atom is
        step = nearest / math.floor(nearest / step)
    below = [(dominated(law, step, tail), count) for law, count in parts]
    above = [(dominating(law, step, tail), count) for law, count in parts]
    lower, _ = log_delta(below, epsilon + total * ROUNDING, window, size)
    _, upper = log_delta(above, epsilon, window, size)
    return Bracket(lower, upper)
