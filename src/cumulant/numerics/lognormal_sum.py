"""The law of log(r_1 + … + r_n) of independent lognormal r_i = e^{sx_i - s²/2}, x_i ~ N(0, 1), far into both tails.

With f_k the density of u = log(r_1 + … + r_k), and coordinates v = log(e^u + e^{u'}) and y = u - u', which keep areas,

    f_{j+k}(v) = ∫ f_j(v - log(1 + e^{-y})) f_k(v - log(1 + e^y)) dy,

so that f_n takes at most 2 log₂ n such integrals. All terms are positive: nothing cancels, also where f is 1e-300.

The mean of the x_i is independent of their differences. So u is s times it, of variance τ² = s²/k, and something
independent, and |f_k(u + iη)| <= e^{η²/2τ²} f_k(u): f_k is as smooth everywhere, relatively, as a normal density of
width τ is at its centre. The trapezoidal rule in y, and Lagrange's interpolation of f_k between multiples of a step h,
therefore converge as they do for that: the one like e^{-c/h²}, the other like h^n of n points. Both errors are
measured: by the law of twice the step, in both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array

INTERPOLATED = 16  # of an interpolation
BEFORE = INTERPOLATED // 2 - 1  # of which so many lie before the cell
SHARE, WIDEST = 0.5, 0.35  # the step in y, at most: of τ, and where softplus bends
LOWER = 10.0  # standard deviations by which parts may lie lower than their sum, relatively
AT_ONCE = 64  # values of y
EVERY, UNSEEN = 8, 60.0  # one point of so many is looked at; nats below the largest term, where others are nothing
LOWEST_NATS = 1500.0  # below the largest density, where parts of a sum are given up
HALVED = 2.0**-14  # what halving h leaves of an error, at most: it falls like h^16, or faster


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogDensity:
    """log f at u = h·(first + i), h = step, where f contains a normal law of width `spread`.

    Between two points f is e^{a + bi - κi²} times a polynomial of degree INTERPOLATED - 1, κ = (h/τ)²/2: what is left
    of it beside a normal density is almost flat.
    """

    step: float
    spread: float
    first: int
    values: Array
    polynomials: Array = field(init=False)
    slopes: Array = field(init=False)

    def __post_init__(self) -> None:
        cells = len(self.values) - INTERPOLATED + 1
        here, around = self._here(cells), np.arange(INTERPOLATED) - BEFORE
        slopes = (self.values[BEFORE + 1 :][:cells] - self.values[BEFORE - 1 :][:cells]) / 2
        windows = np.lib.stride_tricks.sliding_window_view(self.values, INTERPOLATED)
        flat = windows - here[:, None] - slopes[:, None] * around + self._bend * around**2
        object.__setattr__(self, "slopes", slopes)
        object.__setattr__(self, "polynomials", np.exp(np.clip(flat, -700.0, 700.0)) @ _lagrange())

    @property
    def _bend(self) -> float:
        return (self.step / self.spread) ** 2 / 2

    def _here(self, cells: int) -> Array:
        return self.values[BEFORE : BEFORE + cells]

    @property
    def places(self) -> Array:
        return self.step * (self.first + np.arange(float(len(self.values))))

    def shifted(self, low: int, high: int, shift: float) -> tuple[int, Array]:
        """Return log f(hj - shift) for all j in [low, high) where it is known, and the first such j."""
        whole = math.floor(-shift / self.step)
        fraction = -shift / self.step - whole
        start = self.first + BEFORE - whole  # the j of the first cell
        first, last = max(low, start), min(high, start + len(self.slopes))
        some = slice(first - start, max(last, first) - start)
        flat = self.polynomials[some] @ fraction ** np.arange(INTERPOLATED)
        log = self._here(len(self.slopes))[some] + self.slopes[some] * fraction - self._bend * fraction**2
        return first, np.asarray(log + np.log(np.maximum(flat, 1e-300)))


@cache
def _lagrange() -> Array:
    """Return the coefficients of Lagrange's polynomials of the points around a cell: a row for each."""
    around, rows = range(-BEFORE, INTERPOLATED - BEFORE), []
    for i in around:
        row = [Fraction(1)]
        for j in around:
            if j != i:
                shifted = [Fraction(0), *row]
                row = [(a - j * b) / (i - j) for a, b in zip(shifted, [*row, Fraction(0)], strict=True)]
        rows.append([float(x) for x in row])
    return np.array(rows)


def log_density_of_sum(scale: float, count: int, low: float, high: float, step: float) -> tuple[LogDensity, Array]:
    """Return f_n on multiples of a step from low + log n to high, and how far its values may be off, relatively.

    The error is measured by the law of twice the step, of which one of the step itself is at most HALVED; and rounding:
    of the places, of logarithms, and of what is summed.
    """
    fine, coarse = (_sum_of(scale, count, (low, high), step, coarser) for coarser in (1, 2))
    even = 2 * (coarse.first + np.arange(len(coarse.values))) - fine.first  # the place of a coarse point
    there = (even >= 0) & (even < len(fine.values))
    apart = np.full(len(fine.values), np.nan)
    apart[even[there]] = np.abs(fine.values[even[there]] - coarse.values[there])
    apart[np.isnan(apart)] = np.interp(np.flatnonzero(np.isnan(apart)), even[there], apart[even[there]])
    steepness = np.abs(np.gradient(fine.values)) / step
    rounding = 2.0**-50 * (1 + np.abs(fine.values) + steepness * (1 + np.abs(fine.places)))
    return fine, HALVED * np.expm1(np.minimum(1.5 * apart, 50.0)) + count.bit_length() * rounding


def _sum_of(scale: float, count: int, ends: tuple[float, float], step: float, coarser: int) -> LogDensity:
    """Return f_n, by doubling and by adding one, with so many times the step."""
    sizes, step = list(_sizes(count)), coarser * step
    top = math.ceil(ends[1] / step) + (INTERPOLATED - BEFORE) * (len(sizes) + 1)

    def lowest(size: int) -> int:
        return math.floor((math.log(size) + ends[0] - LOWER * scale / math.sqrt(size)) / step)

    u = step * np.arange(lowest(1), top)
    normal = -(((u / scale + scale / 2) ** 2) / 2) - math.log(scale * math.sqrt(2 * math.pi))
    one = found = _significant(step, scale, lowest(1), normal)
    for before, size in sizes:
        top -= INTERPOLATED - BEFORE
        other, low = found if size == 2 * before else one, lowest(size)
        highest = min(top, math.ceil(np.logaddexp(found.places[-1], other.places[-1]) / step))
        apart = coarser * min(SHARE * scale / math.sqrt(before), WIDEST)
        values = _log_sum(found, other, low, highest, apart)
        found = _significant(step, scale / math.sqrt(size), low, values)
    return found


def _significant(step: float, spread: float, first: int, values: Array) -> LogDensity:
    """Return a density without what lies so far down that no sum whose density is a double's has such parts."""
    there = np.flatnonzero(values > np.max(values) - LOWEST_NATS)
    return LogDensity(step, spread, first + int(there[0]), values[there[0] : there[-1] + 1])


def _sizes(count: int) -> Iterator[tuple[int, int]]:
    """Yield steps from 1 to a count, each by doubling or by adding one."""
    size = 1
    for bit in f"{count:b}"[1:]:
        yield size, 2 * size
        size *= 2
        if bit == "1":
            yield size, size + 1
            size += 1


def _log_sum(one: LogDensity, other: LogDensity, low: int, top: int, apart: float) -> Array:
    """Return log ∫ f(v - log(1 + e^{-y})) g(v - log(1 + e^y)) dy at v = hj, low <= j < top, by the trapezoidal rule."""
    is_even = one is other  # then one half of the integral is the other
    least = 0 if is_even else math.floor((one.places[0] - other.places[-1]) / apart)
    y = apart * np.arange(least, math.ceil((one.places[-1] - other.places[0]) / apart) + 1)
    shares = np.log(np.where((y > 0) & is_even, 2 * apart, apart))
    shifts = np.logaddexp(0.0, -y), np.logaddexp(0.0, y)
    firsts, lasts = _seen(one, other, low, top, shifts)
    largest, total = np.full(top - low, -np.inf), np.zeros(top - low)
    for some in np.array_split(np.flatnonzero(firsts < lasts), -(-len(y) // AT_ONCE)):
        terms = np.full((len(some), top - low), -np.inf)
        for row, i in zip(terms, some, strict=True):
            a, log_f = one.shifted(firsts[i], lasts[i], float(shifts[0][i]))
            b, log_g = other.shifted(firsts[i], lasts[i], float(shifts[1][i]))
            first, last = max(a, b), min(a + len(log_f), b + len(log_g))
            if first < last:
                row[first - low : last - low] = log_f[first - a : last - a] + log_g[first - b : last - b] + shares[i]
        new = np.maximum(largest, np.max(terms, axis=0, initial=-np.inf))
        unit = np.where(np.isfinite(new), new, 0.0)
        total = total * np.exp(largest - unit) + np.sum(np.exp(terms - unit), axis=0)
        largest = new
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(np.isfinite(largest), largest, 0.0) + np.log(total))


def _seen(
    one: LogDensity, other: LogDensity, low: int, top: int, shifts: tuple[Array, Array]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each y between which j its term is more than e^-UNSEEN of the largest: looked at every EVERY of them.

    It is a band, as wide as the sum is smooth: many times EVERY. One look more is taken on either side.
    """
    looks = np.append(np.arange(low, top, EVERY), top)
    terms = np.zeros((len(shifts[0]), len(looks)))
    for law, shift in zip((one, other), shifts, strict=True):
        u = one.step * looks - shift[:, None]
        terms += np.interp(u.ravel(), law.places, law.values, left=-np.inf).reshape(u.shape)
    with np.errstate(invalid="ignore"):
        seen = terms > np.max(terms, axis=0) - UNSEEN
    nothing = ~np.any(seen, axis=1)
    firsts = looks[np.maximum(np.argmax(seen, axis=1) - 1, 0)]
    lasts = looks[np.minimum(len(looks) - np.argmax(seen[:, ::-1], axis=1), len(looks) - 1)]
    return firsts, np.where(nothing, firsts, lasts)
