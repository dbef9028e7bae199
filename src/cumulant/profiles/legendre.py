"""Trade-off curves from the slope of the profile: where Legendre's transform of δ, as a function of e^ε, is attained.

With s = d log δ/dε the measures of {L > ε} are Q(L > ε) = -δ s e^{-ε} and P(L > ε) = δ (1 - s). The terms of

    f(x) = sup over ε >= 0 of max(1 - δ(ε) - e^ε x, e^{-ε}(1 - δ(ε) - x))

are largest where Q(L > ε) = x, and where P(L > ε) = 1 - x; at most one of these has an ε > 0, and Newton's method finds
it for all x together. Every ε gives a bound, so nothing that was searched needs a proof; an ε that is off by a little
costs its square. Below, u > 0 stands for the first term at ε = u, u < 0 for the second at ε = -u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cumulant.numerics.logspace import Array

Profile = Callable[[Array], tuple[Array, Array, Array]]
"""ε ↦ an upper bound of log δ, about its slope, and about the slope of that; NaN where nothing is known."""

LEAST_RATE = 1e-18  # of an error: with a smaller one the ε of this one is as good
BEYOND = 1e-2  # of the least rate: δ at the largest ε that is looked at
GRID = 25  # values of ε from which the search starts
TURNS = 2  # of Newton's method
CROSSINGS = 3  # turns to where two directions cost the same


def false_negative_rates(profiles: Sequence[Profile], last: Callable[[float], float], rates: Array) -> Array:
    """Return f(x) of all directions together at every false positive rate x, rounded down; NaN where it is not known.

    `last` gives about the ε of a log δ. δ is the larger of the directions', so its term is the smaller: where each
    direction has its best ε, either one of these is the best of all, or it lies between, where the two cost the same.

    Holds for:  profiles that bound δ from above, of directions that together are closed under exchanging neighbours.
    Tightness:  exact where they are, but for 1e-9.
    """
    x, complement = np.maximum(rates, LEAST_RATE), np.maximum(1 - rates, LEAST_RATE)
    end = last(math.log(BEYOND * float(np.min(np.minimum(x, complement)))))
    if not 0 <= end < math.inf:
        return np.full(len(rates), np.nan)
    grid = max(end, 1e-12) * np.linspace(0.0, 1.0, GRID)
    goals = np.log(x), np.log(complement)
    candidates = np.array([_best_places(profile, grid, goals) for profile in profiles])
    values, deltas = _terms(profiles, candidates, rates)
    best = np.max(values, axis=0)
    if len(profiles) == 2:
        # each direction is the cheaper one where it has its best ε
        own, other = np.diagonal(deltas).T, np.diagonal(deltas[::-1]).T[::-1]
        between = np.flatnonzero(np.all(own < other, axis=0))
        if len(between):
            places = _crossing(profiles, candidates[0, between], candidates[1, between])
            best[between] = np.fmax(best[between], _terms(profiles, places[None], rates[between])[0][0])
    # rounded down: a smaller rate is the attacker's gain; every term is at most 1, and known to a few units
    return np.where(rates >= 1, 0.0, np.maximum(0.0, best * (1 - 1e-14) - 1e-14))


def _best_places(profile: Profile, grid: Array, goals: tuple[Array, Array]) -> Array:
    """Return u for each x; NaN where the profile is not known."""
    here = profile(grid)
    starts = []
    for measure, goal in zip((_log_of_other, _log_of_own), goals, strict=True):
        values, slopes = measure(grid, *here)
        fine = np.flatnonzero(np.isfinite(values) & (slopes < 0))
        if not len(fine) or fine[0] != 0:
            return np.full(len(goal), np.nan)
        at, values, slopes = grid[fine], values[fine], slopes[fine]
        nearest = np.clip(np.searchsorted(-values, -goal), 0, len(at) - 1)
        starts.append(np.where(goal < values[0], at[nearest] + (goal - values[nearest]) / slopes[nearest], 0.0))
    is_first = starts[0] > 0
    epsilon, goal = np.clip(np.where(is_first, *starts), 0.0, grid[-1]), np.where(is_first, *goals)
    moving = np.flatnonzero(epsilon > 0)
    for _ in range(TURNS if len(moving) else 0):
        known = profile(epsilon[moving])
        (of_other, falls), (of_own, sinks) = (
            measure(epsilon[moving], *known) for measure in (_log_of_other, _log_of_own)
        )
        values, slopes = (np.where(is_first[moving], *both) for both in ((of_other, of_own), (falls, sinks)))
        step = np.where(slopes < 0, (goal[moving] - values) / np.where(slopes < 0, slopes, 1.0), 0.0)
        epsilon[moving] = np.clip(epsilon[moving] + np.nan_to_num(step), 0.0, 2 * grid[-1])
    return np.where(is_first, epsilon, -epsilon)


def _log_of_other(epsilon: Array, log_delta: Array, slope: Array, bend: Array) -> tuple[Array, Array]:
    """Return log Q(L > ε) and its slope."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return log_delta + np.log(-slope) - epsilon, slope + bend / slope - 1


def _log_of_own(epsilon: Array, log_delta: Array, slope: Array, bend: Array) -> tuple[Array, Array]:
    """Return log P(L > ε) and its slope."""
    with np.errstate(invalid="ignore"):
        return log_delta + np.log1p(-slope), slope - bend / (1 - slope)


def _terms(profiles: Sequence[Profile], places: Array, rates: Array) -> tuple[Array, Array]:
    """Return the terms at places u, with the δ of the dearer direction, and log δ of each direction there."""
    epsilon = np.abs(places)
    deltas = np.array([profile(epsilon.ravel())[0].reshape(epsilon.shape) for profile in profiles])
    rest = -np.expm1(np.max(deltas, axis=0))
    terms = np.where(places > 0, rest - np.exp(epsilon) * rates, np.exp(-epsilon) * (rest - rates))
    return terms, deltas


def _crossing(profiles: Sequence[Profile], first: Array, second: Array) -> Array:
    """Return about where two profiles meet, between the two u of each x; an end where they do not."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    at = (low + high) / 2
    for _ in range(CROSSINGS):
        (one, slope, _), (other, other_slope, _) = (profile(np.abs(at)) for profile in profiles)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.sign(at) * (one - other) / (other_slope - slope)
        at = np.clip(at + np.nan_to_num(step, posinf=0.0, neginf=0.0), low, high)
    return at
