"""Trade-off curves: what an attacker who tests one neighbour against the other can achieve.

With t = e^ε, of any sign of ε, and the profile H_t of the worse order of the neighbours,

    f(x) = sup over t of φ(t) - tx,   φ(t) = 1 - H_t = 1 - δ(log t) for t >= 1,   t(1 - δ(-log t)) for t <= 1

(H_t(P ‖ Q) = 1 - t + tH_{1/t}(Q ‖ P)): a concave function, of which each ε gives two points. Every point proves a line
below f, whatever led to it, so one set of ε serves all false positive rates x. Chords of φ on either side of a cell
bound what it can be between, and say where to ask next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array

FARTHEST = 700.0  # ε beyond which e^ε overflows, and constrains nothing
NEAR_SHARE = 1e-8  # of f or of 1-f, whichever is less, by which f may be too small
LEAST_RATE = 1e-18  # of an error: with a smaller one the ε of this one is as good
BEYOND = 1e-2  # of the least rate: δ at the largest ε that is asked for at first
FIRST_POINTS, MORE_POINTS = 9, 4  # ε asked for at first, and how many times as many in the next turn, at most
MOST_TURNS = 40  # of a search, in each of which some ε are asked for
LEAST_SEEN = 1e-8  # of f or 1-f, whose shares are looked for
SMOOTH_SHARES = 1e2  # times that, up to which φ is taken as smooth between its points
STRAIGHT = 1e-14  # of φ, by which points of a line may be off it
STILL = 1e-13  # of ε: a point that near another says nothing new

Bounds = Callable[[Array], tuple[Array, Array]]
"""ε ↦ an upper bound of log δ, and by how many nats it may lie above the truth, at many ε."""


def false_negative_rates(bounds: Bounds, last: float, rates: Array) -> tuple[Array, Array]:
    """Return f(x) = sup over ε >= 0 of max(0, 1 - δ(ε) - e^ε x, e^{-ε}(1 - δ(ε) - x)) at every x, rounded down.

    Wasserman and Zhou (2010); Dong, Roth and Su (2022), Proposition 2.12, with (2.13): the trade-off function of a
    family that is closed under exchanging neighbours, as δ is of the worse order. The second array says by how much
    more the slack of δ lets f be. `last` is an ε from which on δ is nothing beside all x.

    Holds for:  every δ(ε) that bounds the profile from above; each ε gives a bound, so a search can only be loose.
    Tightness:  exact where δ(ε) is, but for a share of 1e-8 of f or of 1-f.
    """
    goals = np.clip(rates, LEAST_RATE, 1 - 2.0**-53)
    epsilons = np.clip(last, 1e-12, FARTHEST) * np.linspace(0.0, 1.0, FIRST_POINTS)
    known = Polygon.of(epsilons, *bounds(epsilons))
    for turn in range(MOST_TURNS):
        ways = known.where_to_ask(goals)
        wanted = next((new for way in (ways, ways[::-1])[turn % 2] if len(new := known.without_known(way))), None)
        if wanted is None:
            break
        most = FIRST_POINTS * MORE_POINTS ** (turn + 1)
        some = wanted[:: math.ceil(len(wanted) / most)]
        known = known.with_more(some, *bounds(some))
    found = known.values(rates, known.log_delta)
    doubt = known.values(rates, known.log_delta - known.slack) - found
    # rounded down: a smaller rate is the attacker's gain; every term is at most 1, and known to a few units
    return np.where(rates >= 1, 0.0, np.maximum(0.0, found * (1 - 1e-15) - 1e-15)), doubt


def last_epsilon(last: Callable[[float], float], rates: Array) -> float:
    """Return the ε at which δ is a hundredth of the least rate of an error, as `last` gives about the ε of a log δ."""
    least = np.maximum(np.minimum(rates, 1 - rates), LEAST_RATE)
    return last(math.log(BEYOND * float(np.min(least, initial=1.0))))


class Cell(NamedTuple):
    """For every x: how much larger f can be in a cell than at a vertex, at which t, and where the cell ends."""

    gap: Array
    peak: Array
    end: Array


@final
class Polygon(NamedTuple):
    """The concave hull of points of φ: t from 0 on, φ and δ there, and slopes from each vertex to the next."""

    epsilons: Array  # that were asked for, ascending
    log_delta: Array
    slack: Array
    t: Array
    phi: Array
    slopes: Array  # one more than cells: φ rises to 1 at most beyond the last

    @staticmethod
    def of(epsilons: Array, log_delta: Array, slack: Array) -> Polygon:
        delta = np.exp(np.minimum(log_delta, 0.0))
        places = np.concatenate([[0.0], np.exp(-epsilons[:0:-1]), np.exp(epsilons)])
        # w = t - φ = tδ is what is small below 1, and δ above
        less: list[float] = [0.0, *(np.exp(-epsilons) * delta)[:0:-1].tolist(), *delta.tolist()]
        t: list[float] = places.tolist()
        ones = len(epsilons)  # vertices up to t = 1, with t = 0
        hull: list[int] = []
        rise: list[float] = []

        def slope(i: int, j: int) -> float:
            if j <= ones:
                return 1 - (less[j] - less[i]) / (t[j] - t[i])
            above = less[i] if i >= ones else 1 - t[i] + less[i]
            return (above - less[j]) / (t[j] - t[i])

        for j in range(len(t)):
            while hull and (here := slope(hull[-1], j)) > (rise[-1] if rise else math.inf):
                if (here - rise[-1]) * (t[j] - t[hull[-1]]) <= STRAIGHT:
                    here = rise[-1]  # on a line but for rounding: its points say that nothing is above
                    break
                hull.pop()
                rise.pop()
            if hull:
                rise.append(here)
            hull.append(j)
        phi = np.array([t[i] - less[i] if i < ones else 1 - less[i] for i in hull])
        return Polygon(epsilons, log_delta, slack, places[hull], phi, np.array([*rise, 0.0]))

    def with_more(self, *more: Array) -> Polygon:
        """Return the hull with more ε, log δ and slack."""
        both = [np.concatenate(columns) for columns in zip(self[:3], more, strict=True)]
        order = np.argsort(both[0])
        return Polygon.of(*(column[order] for column in both))

    def without_known(self, epsilons: Array) -> Array:
        """Return those of many ε, ascending, that are not next to one that was asked for, or to one another."""
        apart = STILL * np.maximum(1.0, epsilons)
        place = np.clip(np.searchsorted(self.epsilons, epsilons), 1, len(self.epsilons) - 1)
        away = np.minimum(np.abs(self.epsilons[place] - epsilons), np.abs(self.epsilons[place - 1] - epsilons))
        return epsilons[(away > apart) & (np.diff(epsilons, prepend=-1.0) > apart)]

    def values(self, rates: Array, log_delta: Array) -> Array:
        """Return the largest φ - tx of all points with such δ, from terms that do not cancel."""
        found = np.zeros(len(rates))
        for epsilon, kept in zip(self.epsilons.tolist(), (-np.expm1(np.minimum(log_delta, 0.0))).tolist(), strict=True):
            found = np.maximum(found, kept - math.exp(epsilon) * rates)
            found = np.maximum(found, math.exp(-epsilon) * (kept - rates))
        return found

    def where_to_ask(self, goals: Array) -> tuple[Array, Array]:
        """Return ε at which f may be found larger, where it may be much larger: by slopes, and by peaks of ceilings."""
        at = np.searchsorted(-self.slopes, -goals, side="left")
        best = self.phi[at] - self.t[at] * goals
        enough = NEAR_SHARE * np.maximum(np.minimum(best, 1 - best), LEAST_SEEN)
        right, left = self._right_of(at, goals), self._left_of(at, goals)
        is_right, gap = right.gap >= left.gap, np.maximum(right.gap, left.gap)
        near = np.clip(self._where_slope_is(goals), self.t[np.maximum(at - 1, 0)], right.end)
        # about how much a smooth φ gains from the vertex to there; what chords leave open beyond that is little
        likely = np.abs(self._slope_at(self.t[at]) - goals) * np.abs(near - self.t[at]) / 2
        is_open = (gap > enough) & ((likely > enough) | (gap > SMOOTH_SHARES * enough))
        peaks = np.where(is_right, right.peak, left.peak)
        return _epsilons_of(near[is_open]), _epsilons_of(peaks[is_open])

    def _right_of(self, at: NDArray[np.intp], goals: Array) -> Cell:
        """Return the cell right of the best vertex; beyond the last, φ is at most 1."""
        last = len(self.t) - 1
        after = np.minimum(at + 1, last)
        steep = np.where(at > 0, self.slopes[np.maximum(at - 1, 0)], 1.0)
        way = _way((steep, self.slopes[at], self.slopes[after]), self.t[after] - self.t[at])
        gap = np.where(at < last, (steep - goals) * way, 1 - self.phi[at])
        end = np.where(at < last, self.t[after], 4 * self.t[at])
        return Cell(gap, np.where(at < last, self.t[at] + way, 2 * self.t[at]), end)

    def _left_of(self, at: NDArray[np.intp], goals: Array) -> Cell:
        """Return the cell left of the best vertex."""
        before, flat = np.maximum(at - 1, 0), self.slopes[at]
        steep = np.where(at > 1, self.slopes[np.maximum(at - 2, 0)], 1.0)
        width = self.t[at] - self.t[before]
        way = width - _way((steep, self.slopes[before], flat), width)
        return Cell(np.where(at > 0, (goals - flat) * way, 0.0), self.t[at] - way, self.t[before])

    def _where_slope_is(self, goals: Array) -> Array:
        """Return about the t at which φ has each slope: between middles of cells, where their chords have theirs."""
        middles, odds = self._slopes_of_cells()
        return np.asarray(np.exp(np.interp(-_odds_of(goals), -odds, middles)))

    def _slope_at(self, t: Array) -> Array:
        """Return about the slope of φ at each t."""
        middles, odds = self._slopes_of_cells()
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (1 + np.exp(-np.interp(np.log(t), middles, odds))))

    def _slopes_of_cells(self) -> tuple[Array, Array]:
        """Return the logarithms of the middles of cells, and the log-odds of their slopes, which fall."""
        return np.log((self.t[1:] + self.t[:-1]) / 2), _odds_of(self.slopes[:-1])


def _odds_of(slopes: Array) -> Array:
    return np.asarray(np.log(np.maximum(slopes, 1e-300)) - np.log(np.maximum(1 - slopes, 1e-17)))


def _way(slopes: tuple[Array, Array, Array], width: Array) -> Array:
    """Return how far from the left end of a cell the chords beside it meet above its own."""
    before, own, after = slopes
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(np.nan_to_num((own - after) * width / (before - after)), 0.0, width)


def _epsilons_of(t: Array) -> Array:
    return np.unique(np.minimum(np.abs(np.log(t[t > 0])), FARTHEST))
