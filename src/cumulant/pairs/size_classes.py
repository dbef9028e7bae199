"""Releases sorted by the size of their losses, smoothly: quiet, middle and far ones of a sampled Gaussian.

With t, w = 1 - γ + γe^u and p = γe^u/w as in `sampled_gaussian`, a release belongs to an interval I if t + g lies in
it, g an independent N(0, 1/2a²): with the probability

    X_I(t) = ∫_I (a/√π) e^{-a²(t-c)²} dc,   |X_I(t+iy)| <= min{e^{a²y²} X_I(t), 1 + e^{a²y²} (1 - X_I(t))},

as its complement is a union of intervals. Quiet ones are those below c_q, far ones those beyond c_f, or with t > b,
where next to none is left of the others. Needed are ∫ φ X w^{s+iω} dt for real s of either sign. On a path t + iy(t),
y >= 0, which does not rise, with μy <= π/2,

    w(t)(1 - p(1 - cos μy)) <= |w(t+iy)| <= w(t),   arg w(t+iy) = arg(1 - p + pe^{iμy}),

where the lower bound, 1 - γ + γe^u cos μy, rises with t, and the argument with p, so with t, and with y. Cells bound
every factor by what it is at one of their ends.

*Decay.* |∫ φ X w^{s+iω}| <= ∫ φ e^{y²/2} |X| |w|^s e^{-ω arg w} |1 + iy'| dt, and where X ends at b, or cells end, the
path goes down to the real line. Where neither end of X but b matters the tilted law has a density e^G of the loss on
each cell, G = s log w - t²/2 + log X - log p + ..., and slopes of G lie between those of its monotone parts: cells of
`cumulant.numerics.decay`, whose bounds multiply.

*Quadrature.* The trapezoidal rule is off by at most 2B, B = ∫ |f(t ± id)|/(e^{2πd/h} - 1) |1 + id'| dt with
e^{+ω arg w}, for any d(t) > 0 that does not rise. Where nodes end, in the middle between two of them, the way from
there to the path adds 2d|f|: closed there, a contour passes where |1 - e^{2πit/h}| >= 1.

*Beyond the cells* φw^s falls: for s > 0 that is asked of them, as (log φw^s)' <= sμ - t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import final

import numpy as np

from cumulant.numerics.balls import LOG_ROOT
from cumulant.numerics.decay import Cells
from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.sampled_gaussian import LEAST_LOG, NOTHING, End, Nodes, SampledGaussian

CELLS_PER_UNIT = 12.0  # of t, of σ, and a third of them of 1/a
CLASS_STRIPS = 1.0, 0.4, 0.15, 0.06  # of the widest
GROWN_NATS = 30.0  # that an integrand may grow by on the path that bounds the error of a rule
WIDEST_CLASS_STRIP = 2.0  # units of t
STRIP_OF_CLASS = 6.0  # over the sharpness
WIDEST_RADIANS = 1.0  # μd
PATH_SHIFTS = 1.0, 0.4  # of the largest y: each path gives a bound
HIGHEST_PATH, HIGHEST_RADIANS, HIGHEST_OF_CLASS = 4.0, 1.2, 4.0  # y, μy and ay
TOGETHER_NATS = 120.0  # below the largest cell, of cells that are counted together
BEGINNING = 14.0  # over the sharpness, before a place, where X is e^-200
WIDEST_STEP = 0.3  # units of t, between nodes
NORMAL_NATS = 60.0  # by which normal laws have fallen where nodes end


class Size(Enum):
    """Which releases."""

    QUIET = "quiet"
    MIDDLE = "middle"
    FAR = "far"
    ANY = "any"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Logarithms of X at places: quiet and not, far and not."""

    quiet: Array
    loud: Array
    near: Array
    far: Array

    def log_share(self, size: Size) -> Array:
        """Return log X."""
        if size is not Size.MIDDLE:
            return self.quiet if size is Size.QUIET else self.far
        with np.errstate(divide="ignore", invalid="ignore"):  # whichever difference is that of small numbers
            low = self.loud + np.log1p(-np.exp(np.minimum(self.far - self.loud, 0.0)))
            high = self.near + np.log1p(-np.exp(np.minimum(self.quiet - self.near, 0.0)))
        return np.asarray(np.where(self.loud < self.near, low, high))

    def bound_share(self, size: Size) -> tuple[Array, Array]:
        """Return bounds of log X and log(1 - X) on the cells between the places."""
        left, right = slice(None, -1), slice(1, None)
        if size is Size.QUIET:
            return self.quiet[left], self.loud[right]
        if size is Size.FAR:
            return self.far[right], self.near[left]
        return np.minimum(self.near[left], self.loud[right]), np.logaddexp(self.quiet[left], self.far[right])


NO_WINDOWS = Windows(*([np.zeros(0)] * 4))  # of all releases


@final
@dataclass(frozen=True, slots=True)
class SizeClasses:
    """c_q, if any release is quiet, c_f, a, b, and between which places t sums are taken where nothing ends them."""

    law: SampledGaussian
    quiet: float | None
    far: float
    sharpness: float
    last: float
    ends: tuple[float, float]

    @staticmethod
    def all_of(law: SampledGaussian, ends: tuple[float, float]) -> SizeClasses:
        """Return all releases as one class."""
        return SizeClasses(law, None, ends[1], 1.0, ends[1], ends)

    @property
    def end(self) -> End:
        """Where releases that are not far end."""
        return End(self.sharpness, self.last)

    def windows(self, t: Array) -> Windows:
        beyond = self.sharpness * (t - self.far)
        near, far = log_half_erfc(beyond), log_half_erfc(-beyond)
        if self.quiet is None:
            return Windows(np.full(len(t), -np.inf), np.zeros(len(t)), near, far)
        above = self.sharpness * (t - self.quiet)
        return Windows(log_half_erfc(above), log_half_erfc(-above), near, far)

    @property
    def log_hidden(self) -> float:
        """Log of the share of releases at b that are far only because of that."""
        return float(log_half_erfc(np.array([self.sharpness * (self.last - self.far)]))[0])

    def span(self, size: Size) -> tuple[float, float]:
        """Return between which places a rule has nodes."""
        first, last = self.ends
        begins = {Size.MIDDLE: self.quiet, Size.FAR: self.far}.get(size)
        return first if begins is None else max(first, begins - BEGINNING / self.sharpness), last

    def is_ended(self, size: Size) -> bool:
        """Whether there are none beyond b."""
        return size in (Size.QUIET, Size.MIDDLE)

    def nodes(self, size: Size, step: float) -> Nodes:
        """Return nodes at most a step apart, with log X; b lies in the middle between two of them."""
        first, last = self.span(size)
        step = self.last / (math.ceil(self.last / min(step, WIDEST_STEP)) + 0.5)
        t = step * np.arange(math.floor(first / step), math.ceil(last / step) + 1.0)
        if size is Size.ANY:
            return Nodes.at(self.law, t, step)
        kept = self.windows(t).log_share(size)
        if self.is_ended(size):
            kept = np.where(t < self.last, kept, NOTHING)
        return Nodes.at(self.law, t, step, kept)


def reach_of(law: SampledGaussian, s: float, releases: int) -> tuple[float, float]:
    """Return places beyond which nothing is left of φw^s, nor of φ and φw, of n releases."""
    nats = NORMAL_NATS + math.log(releases * (1 + abs(s))) + max(s * math.log1p(-law.rate), 0.0)
    far = math.sqrt(2 * nats)
    return -far, far + law.mean * max(s, 1.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tilted:
    """One size of releases tilted by w^s, on cells between edges."""

    classes: SizeClasses
    size: Size
    s: float
    edges: Array
    log_w: Array
    p: Array
    windows: Windows
    log_normal: Array  # of cells: φ at its largest, times the width
    log_shares: tuple[Array, Array]  # of cells: bounds of log X and log(1 - X)

    @staticmethod
    def of(classes: SizeClasses, size: Size, s: float) -> Tilted:
        law, (first, last) = classes.law, classes.span(size)
        last = classes.last if classes.is_ended(size) else last
        width = min(1.0, 1 / law.mean, 3 / classes.sharpness) / CELLS_PER_UNIT
        count = math.ceil((last - first) / width)
        edges = first + ((last - first) / count) * np.arange(count + 1.0)
        edges[-1] = last
        odds = law.rate * np.exp(law.mean * edges - law.mean**2 / 2)
        x, windows = odds - law.rate, NO_WINDOWS if size is Size.ANY else classes.windows(edges)
        nearest = np.maximum(np.maximum(edges[:-1], -edges[1:]), 0.0)
        log_normal = np.log(edges[1] - edges[0]) - nearest**2 / 2 - LOG_ROOT
        everything = np.zeros(len(nearest)), np.full(len(nearest), -np.inf)
        shares = everything if size is Size.ANY else windows.bound_share(size)
        return Tilted(classes, size, s, edges, np.log1p(x), odds / (1 + x), windows, log_normal, shares)

    @property
    def highest(self) -> float:
        return min(HIGHEST_PATH, HIGHEST_RADIANS / self.classes.law.mean)

    def log_moduli(self, omega: Array) -> Array:
        """Return bounds of log|∫ φ X w^{s+iω}|, each of which holds for all larger ω."""
        classes, found = self.classes, []
        near = HIGHEST_OF_CLASS / classes.sharpness
        quiet_near = self.size is Size.MIDDLE and classes.quiet is not None
        for highest in [shift * self.highest for shift in PATH_SHIFTS]:
            lowest = min(near, highest)
            bend = (classes.far - 8 / classes.sharpness, classes.far - 2 / classes.sharpness)
            if quiet_near or self.size is Size.FAR:
                y = np.full(len(self.edges), lowest)
            elif self.size is Size.ANY:
                y = np.full(len(self.edges), highest)
            else:
                y = np.interp(self.edges, bend, [highest, lowest])
            found.append(self._log_integral(y, omega))
        return np.asarray(np.min(found, axis=0))

    def _log_integral(self, y: Array, omega: Array) -> Array:
        """Return log of a bound of ∫ φ e^{y²/2} |X| |w|^s e^{-ω arg w} |1 + iy'| dt, its ends as if w did not turn."""
        logs, turned = self._log_cells(y), self._turn(self.p[:-1], y[1:])
        most = float(np.max(logs))
        relevant = logs > most - TOGETHER_NATS
        rest = math.log(np.sum(~relevant) + 1e-300) + most - TOGETHER_NATS
        ends = float(np.logaddexp(rest, self.log_outside(y)))
        exponents = logs[relevant] - omega[:, None] * turned[relevant]
        return np.asarray(np.logaddexp(_log_total(exponents), ends) + 1e-9)

    def _log_cells(self, y: Array) -> Array:
        before, after, (share, rest) = y[:-1], y[1:], self.log_shares
        logs = self.log_normal + before**2 / 2
        if self.size is not Size.ANY:
            grown = (self.classes.sharpness * before) ** 2
            logs += np.minimum(grown + share, np.logaddexp(0.0, grown + rest))
        logs += self.s * (self.log_w[1:] if self.s >= 0 else self._log_least(slice(None, -1), before))
        if y[0] != y[-1]:  # it does not rise
            logs += 0.5 * np.log1p(((before - after) / np.diff(self.edges)) ** 2)
        return logs

    def _log_least(self, places: slice, y: Array | float) -> Array:
        """Return log of the least |w(t+iy)|."""
        return np.asarray(self.log_w[places] + np.log1p(-self.p[places] * (1 - np.cos(self.classes.law.mean * y))))

    def _turn(self, p: Array, y: Array) -> Array:
        angle = self.classes.law.mean * y
        return np.asarray(np.arctan2(p * np.sin(angle), 1 - p + p * np.cos(angle)))

    def _turn_at(self, p: float, y: float) -> float:
        angle = self.classes.law.mean * y
        return math.atan2(p * math.sin(angle), 1 - p + p * math.cos(angle))

    def _log_below(self, y: float) -> tuple[float, float]:
        """Return log of a bound of what lies below the cells but for arg w, and how far w turns there."""
        classes, windows = self.classes, self.windows
        grown, first = (classes.sharpness * y) ** 2, float(self.edges[0])
        if self.size is Size.FAR:
            share = grown + float(windows.far[0])
        elif self.size is Size.MIDDLE and classes.quiet is not None:
            share = grown + float(windows.loud[0])
        else:
            rest = {Size.QUIET: windows.loud, Size.MIDDLE: windows.far}.get(self.size)
            share = 0.0 if rest is None else _log1p_exp(grown + float(rest[0]))
        power = self.s * (float(self.log_w[0]) if self.s >= 0 else math.log1p(-classes.law.rate))
        mass = -(max(-first, 0.0) ** 2) / 2  # P(N > x) <= e^{-x²/2}
        return share + power + mass + y * y / 2, self._turn_at(float(self.p[0]), y)

    def _log_above(self, y: float) -> tuple[float, float]:
        """Return log of a bound of the way from b + iy to b but for arg w, and how far w turns there.

        b is the last edge, or, where losses go on beyond it, where nodes end, up to two steps beyond: φw^s falls.
        """
        classes, last = self.classes, float(self.edges[-1])
        grown, p = (classes.sharpness * y) ** 2, float(self.p[-1])
        if classes.is_ended(self.size):
            share = grown + float((self.windows.quiet if self.size is Size.QUIET else self.windows.near)[-1])
        else:
            share = 0.0 if self.size is Size.ANY else _log1p_exp(grown + float(self.windows.near[-1]))
            p = min(p * math.exp(2 * classes.law.mean * WIDEST_STEP), 1.0)
        power = self.s * (float(self.log_w[-1]) if self.s >= 0 else float(self._log_least(slice(-1, None), y)[0]))
        logs = math.log(max(y, 1e-300)) + (y * y - last * last) / 2 - LOG_ROOT + share + power
        return logs, self._turn_at(p, y)

    @property
    def _log_beyond(self) -> float:
        """Log of a bound of the integral beyond the cells, where φw^s falls, on the real line; inf where it may not."""
        if self.classes.is_ended(self.size):
            return -math.inf
        last, power = float(self.edges[-1]), self.s * float(self.log_w[-1])
        if self.s <= 0:
            return power - max(last, 0.0) ** 2 / 2
        slope = last - self.s * self.classes.law.mean
        return power - last * last / 2 - LOG_ROOT - math.log(slope) if slope >= 1 else math.inf

    def log_outside(self, y: Array) -> float:
        """Return log of a bound of what lies outside the cells on a path, as if w did not turn."""
        ends = self._log_below(float(y[0]))[0], self._log_above(float(y[-1]))[0], self._log_beyond
        return _log_sum(*ends)

    def strip(self, omega: float, widest: float) -> Array:
        """Return d(t): narrower where w turns fast, so that what turns by ω grows by GROWN_NATS at most."""
        turning = omega * self.classes.law.mean * self.p * (widest / GROWN_NATS)
        return np.asarray(widest / np.maximum(1.0, turning))

    def log_around(self, omega: float, d: Array) -> Array:
        """Return log of the integrals over t ± id(t), cell by cell, then below and above."""
        (below, below_turn), (above, above_turn) = self._log_below(float(d[0])), self._log_above(float(d[-1]))
        logs = self._log_cells(d) + omega * self._turn(self.p[1:], d[:-1])
        ends = [below + omega * below_turn, above + omega * above_turn]
        return np.concatenate((logs, ends)) + math.log(2.0)

    def log_missed(self, omega: float, d: float) -> float:
        """Return log of what a rule misses below its nodes and beyond, and of the way that closes its contour there."""
        # between the last cell and the end the path has a length of two steps at most, and 1/(e^{2πd/h} - 1) <= h/2πd
        above, turn = self._log_above(d)
        above += math.log1p((WIDEST_STEP / d) ** 2)
        # a sum of φ up to a place is at most twice its integral, for such steps
        below = self._log_below(0.0)[0] + math.log(2.0)
        return _log_sum(below, above + math.log(2.0) + omega * turn, self._log_beyond)

    def rule(self, level: float, omega: float, nats: float) -> tuple[float, float] | None:
        """Return the step of a rule for frequencies up to ω, and log of what it is off by.

        That is about e^-nats beside e^level; None where what lies beyond the nodes is more.
        """
        mean, step, off = self.classes.law.mean, 0.0, 0.0
        widest = min(WIDEST_CLASS_STRIP, WIDEST_RADIANS / mean, STRIP_OF_CLASS / self.classes.sharpness)
        heaviest = nats - math.log(len(self.edges))  # above the error, of one cell: together they are e^level
        for share in CLASS_STRIPS:
            if step * heaviest >= 2 * math.pi * share * widest:  # a narrower strip takes a smaller step; any is sound
                break
            d = self.strip(omega, share * widest)
            missed = self.log_missed(omega, float(d[-1]))
            if not missed <= level - nats + 1:
                continue
            logs, widths = self.log_around(omega, d), 2 * math.pi * np.concatenate((d[1:], d[:1], d[-1:]))
            here = float((widths / np.logaddexp(LEAST_LOG, np.logaddexp(0.0, logs - level + nats))).min())
            if not here > step:
                break
            turns = widths / here
            step, off = here, _log_sum(float(_log_total(logs - turns - np.log1p(-np.exp(-turns)))), missed)
        return (step, off) if step > 0 else None

    def loss_cells(self, k: float) -> Cells:
        """Return the law of the loss on cells, over e^k, sorted, of all releases, or of those that are not far.

        Masses are bounds from below, densities and variations from above.
        """
        mean, s, width = self.classes.law.mean, self.s, float(self.edges[1] - self.edges[0])
        log_mass = s * self.log_w - self.edges**2 / 2 - LOG_ROOT - k
        if self.size is not Size.ANY:
            log_mass = log_mass + self.windows.near
        of_mass, of_density = (
            np.maximum(np.abs(low), np.abs(high)) for low, high in (self._slopes(0.0, s), self._slopes(mean, s + 1))
        )
        density = log_mass - math.log(mean) - np.log(self.p)
        mass = width * np.exp((log_mass[1:] + log_mass[:-1]) / 2 - of_mass * (width / 2)) * (1 - 1e-9)
        highest = np.exp((density[1:] + density[:-1]) / 2 + of_density * (width / 2))
        variation, ends = width * of_density * highest * (1 + 1e-9), np.exp(density) * (1 + 1e-9)
        columns = self.log_w[:-1], self.log_w[1:], mass, ends[:-1], ends[1:], variation
        if s >= 0:
            return Cells(*columns)
        low, high, mass, first, last, variation = (column[::-1] for column in columns)
        return Cells(-high, -low, mass, last, first, variation)

    def _slopes(self, more: float, power: float) -> tuple[Array, Array]:
        """Return bounds of -t - more + power·μp + (log X)' on each cell: t and p grow, and (log X)' falls.

        (2/√π)e^{-x²}/erfc(x) lies between x + √(x²+4/π), for x >= 0, and x + √(x²+2).
        """
        falling, rising = -more - self.edges, power * self.classes.law.mean * self.p
        first, last = (rising[:-1], rising[1:]) if power >= 0 else (rising[1:], rising[:-1])
        low, high = falling[1:] + first, falling[:-1] + last
        if self.size is not Size.ANY:
            a = self.classes.sharpness
            x = a * (self.edges - self.classes.far)
            low = low - a * (x[1:] + np.sqrt(x[1:] ** 2 + 2))
            high = high - a * np.where(x[:-1] > 0, x[:-1] + np.sqrt(x[:-1] ** 2 + 4 / math.pi), 0.0)
        return low, high


def _log_total(logs: Array) -> Array:
    """Return log Σ e^x along the last axis, a sum of terms of which one is 1."""
    peak = logs.max(axis=-1, keepdims=True)
    return np.asarray(peak[..., 0] + np.log(np.exp(logs - peak).sum(axis=-1)))


def _log1p_exp(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _log_sum(*logs: float) -> float:
    peak = max(logs)
    return peak + math.log(sum(math.exp(x - peak) for x in logs)) if abs(peak) < math.inf else peak
