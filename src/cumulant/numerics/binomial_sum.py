"""Sums of binomial probabilities times a factor: every term, or a bound that visits few of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cumulant.numerics.binomial import Binomial
from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import ROUNDING

EXACT_TERMS = 20_000  # up to here every term is evaluated
START_POINTS = 300  # beyond, the first points: one per standard deviation, at most this many
MOST_POINTS = 300_000  # no refinement beyond this many evaluations
NEGLIGIBLE_LOG = math.log(1e-13)  # what the terms between points may add, relative to the sum, before they are refined
LARGE_SHARE = 1e-10  # of a large logarithm: by how much it may be too large
SPLIT = 8  # pieces a block is cut into

# l -> (a convex function of l, a nondecreasing one, a bound on the error of the two): the logarithm of a factor.
Factor = Callable[[Array], tuple[Array, Array, Array]]


def binomial_log_sum(
    weights: Binomial,
    factor: Factor,
    *,
    first: int,
    last: int,
    exact_terms: int = EXACT_TERMS,
    large: float = math.inf,
) -> tuple[float, float]:
    """Return a lower and an upper bound of log Σ_{l=first..last} C(n,l) p^l q^(n-l) e^{factor(l)}.

    Up to `exact_terms` all terms are evaluated and the two differ by rounding. Beyond, this is the approximate
    computation of Wang et al. (2019), Section 4, with blocks for their max + log: the terms at the points are summed,
    and the terms between two points a < b are bounded. The logarithm of C(n,l) p^l q^(n-l) is concave in l and lies
    below its slopes at a and at b, the convex part of the factor below its chord, and the monotone part below its
    value at b, so each half of a block is below a geometric sum. Blocks that matter are cut until they do not: the
    upper bound is within 1e-13 of the sum (up to MOST_POINTS evaluations), and it is never below it. Where the upper
    bound is `large` blocks are cut only until they add about LARGE_SHARE of it too much; then the lower bound is of
    little use.
    """
    if first > last:
        return -math.inf, -math.inf
    all_of_them = last - first < exact_terms
    ell = np.arange(first, last + 1.0) if all_of_them else _starting_points(weights.n, first, last)
    terms = _evaluate(weights, factor, ell)
    while True:
        between = _between_points(weights, ell, terms)
        log_terms, error = terms[0] + terms[1] + terms[2], terms[3]
        upper = log_sum([log_sum(log_terms + error), log_sum(between)]) + 16 * ROUNDING
        if upper < large:
            wide = np.flatnonzero(between > upper + NEGLIGIBLE_LOG - math.log(len(ell)))
        else:
            excess = np.exp(between - upper) * _too_much(ell, terms, between)
            wide = np.flatnonzero(excess > LARGE_SHARE * upper / len(ell))
        if len(wide) == 0 or len(ell) + SPLIT * len(wide) > MOST_POINTS:
            return log_sum(log_terms - error) - 16 * ROUNDING, upper
        cuts = ell[wide, None] + np.rint((ell[wide + 1] - ell[wide])[:, None] * np.arange(1, SPLIT) / SPLIT)
        new = np.setdiff1d(cuts, ell)
        place = np.searchsorted(ell, new)
        added = _evaluate(weights, factor, new)
        terms = tuple(np.insert(old, place, more) for old, more in zip(terms, added, strict=True))
        ell = np.insert(ell, place, new)


def binomial_log_bound(weights: Binomial, factor: Factor, *, first: int, last: int, evaluations: int) -> float:
    """Return an upper bound of a binomial sum from few values of the factor, about as many as are given.

    The first points double their distance from either end, so they are about 2 log2(last); then the block that counts
    most is halved, again and again.
    """
    if first > last:
        return -math.inf
    steps = 2.0 ** np.arange(math.ceil(math.log2(last - first + 1)) + 1)
    ell = np.unique(np.clip(np.concatenate([[first, last], first + steps, last - steps]), first, last))
    terms = _evaluate(weights, factor, ell)
    while True:
        between = _between_points(weights, ell, terms) if len(ell) > 1 else np.empty(0)
        upper = log_sum([log_sum(terms[0] + terms[1] + terms[2] + terms[3]), log_sum(between)]) + 16 * ROUNDING
        widths = np.diff(ell)
        if len(ell) >= evaluations or not np.any(widths > 1):
            return upper
        worst = int(np.argmax(np.where(widths > 1, between, -math.inf)))
        middle = np.array([np.floor((ell[worst] + ell[worst + 1]) / 2)])
        added = _evaluate(weights, factor, middle)
        terms = tuple(np.insert(old, worst + 1, more) for old, more in zip(terms, added, strict=True))
        ell = np.insert(ell, worst + 1, middle)


def _starting_points(n: int, first: int, last: int) -> Array:
    """Return l = n sin²t with equal steps of t: steps of one standard deviation of a binomial centred there."""
    low, high = math.asin(math.sqrt(first / n)), math.asin(math.sqrt(last / n))
    count = min(START_POINTS, math.ceil(2 * math.sqrt(n) * (high - low)))
    points = np.rint(n * np.sin(np.linspace(low, high, count)) ** 2)
    return np.unique(np.clip(np.append(points, [first, last]), first, last))


def _evaluate(weights: Binomial, factor: Factor, ell: Array) -> tuple[Array, ...]:
    """Return log weight, convex part, monotone part and the bound on their error."""
    weight, weight_error = weights.log_pmf(ell)
    convex, monotone, error = factor(ell)
    return weight, convex, monotone, weight_error + error


def _between_points(weights: Binomial, ell: Array, terms: tuple[Array, ...]) -> Array:
    """Return, for each two neighbouring points, a bound of the log of the sum of the terms strictly between."""
    weight, convex, monotone, error = terms
    a, b = ell[:-1], ell[1:]
    width = b - a
    chord = np.diff(convex) / width
    slack = np.maximum(error[:-1], error[1:]) + monotone[1:]
    odds = weights.log_p - weights.log_q
    with np.errstate(divide="ignore"):
        rise_a, rise_b = np.log((weights.n - a) / (a + 1)), np.log((weights.n - b + 1) / b)
    slope_a, slope_b = odds + rise_a + chord, odds + rise_b + chord  # of a term from a to a+1, and from b-1 to b
    sizes = abs(odds) + np.abs(np.where(rise_a > -np.inf, rise_a, 0.0)) + np.abs(rise_b) + np.abs(chord)
    slack = slack + 4 * ROUNDING * width * sizes  # slopes are rounded, and multiplied by the way
    left = np.ceil((width - 1) / 2)
    below = weight[:-1] + convex[:-1] + _log_geometric(slope_a, left)
    above = weight[1:] + convex[1:] + _log_geometric(-slope_b, width - 1 - left)
    return np.asarray(np.logaddexp(below, above) + slack)


def _too_much(ell: Array, terms: tuple[Array, ...], between: Array) -> Array:
    """Return about the share of each block's bound that is too much: what concave weights and a convex factor bend.

    A guess, by which blocks are chosen: logarithms of terms on their chord, and what the factor is below its own.
    """
    log_terms, width = terms[0] + terms[1] + terms[2], np.diff(ell)
    with np.errstate(invalid="ignore"):
        slope, chord = np.diff(log_terms) / width, np.diff(terms[1]) / width
        bend = np.append(chord, chord[-1:])[1:] - np.append(chord[:1], chord)[:-1]
        straight = log_terms[:-1] + _log_geometric(slope, np.maximum(width - 1, 1.0))
        return np.asarray(-np.expm1(np.minimum(straight - between, 0.0)) + width * bend / 8)


def _log_geometric(slope: Array, count: Array) -> Array:
    """Return log Σ_{i=1..count} e^{i·slope}, rounded up: the largest term, times a geometric series."""
    with np.errstate(divide="ignore", invalid="ignore"):
        falls = np.abs(slope)
        series = np.log(np.expm1(-count * falls) / np.expm1(-falls)) + 4 * ROUNDING
        terms = np.where(falls > 0, np.minimum(np.log(count), series), np.log(count))
    return np.maximum(slope, count * slope) + terms
