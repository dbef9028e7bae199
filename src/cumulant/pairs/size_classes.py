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
path goes down to the real line.

*Quadrature.* The trapezoidal rule is off by at most 2B, B = ∫ |f(t ± id)|/(e^{2πd/h} - 1) |1 + id'| dt with
e^{+ω arg w}, for any d(t) > 0 that does not rise. Where nodes end, in the middle between two of them, the way from
there to the path adds 2d|f|, as in `sampled_gaussian`.

*Rounding* is estimated as on every line in doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, final

import numpy as np

from cumulant.numerics.balls import LOG_ROOT
from cumulant.numerics.complex_plane import Complex, add_turned
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.numerics.scalar_logspace import log1p_exp, log_add, log_half_erfc_above
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.sampled_gaussian import ROUNDING, ROUNDINGS, Nodes, SampledGaussian, leave_out_light

CELLS_PER_UNIT = 12.0  # of t, of σ, and a third of them of 1/a
CLASS_STRIPS = 1.0, 0.4, 0.15, 0.06  # of the widest
GROWN_NATS = 30.0  # that an integrand may grow by on the path that bounds the error of a rule
WIDEST_CLASS_STRIP = 2.0  # units of t
STRIP_OF_CLASS = 6.0  # over the sharpness
WIDEST_RADIANS = 1.0  # μd
PATH_SHIFTS = 1.0, 0.5, 0.25  # of the largest y: each path gives a bound
HIGHEST_PATH, HIGHEST_RADIANS, HIGHEST_OF_CLASS = 4.0, 1.2, 4.0  # y, μy and ay
TOGETHER_NATS = 120.0  # below the largest cell, of cells that are counted together
LARGEST_NATS = 700.0  # of a double
BEGINNING = 14.0  # over the sharpness, before a place, where X is e^-200
WIDEST_STEP = 0.3  # units of t, between nodes
NOTHING = -1e12  # log X where none is left, below any exponent s log w
FAR_NATS = 60.0  # to which a rule for far ones goes


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
        if size is Size.ANY:
            return np.zeros(len(self.far))
        if size is not Size.MIDDLE:
            return self.quiet if size is Size.QUIET else self.far
        with np.errstate(divide="ignore", invalid="ignore"):  # whichever difference is that of small numbers
            low = self.loud + np.log1p(-np.exp(np.minimum(self.far - self.loud, 0.0)))
            high = self.near + np.log1p(-np.exp(np.minimum(self.quiet - self.near, 0.0)))
        return np.asarray(np.where(self.loud < self.near, low, high))

    def bound_share(self, size: Size) -> tuple[Array, Array]:
        """Return bounds of log X and log(1 - X) on the cells between the places."""
        left, right = slice(None, -1), slice(1, None)
        if size is Size.ANY:
            return np.zeros(len(self.far) - 1), np.full(len(self.far) - 1, -np.inf)
        if size is Size.QUIET:
            return self.quiet[left], self.loud[right]
        if size is Size.FAR:
            return self.far[right], self.near[left]
        return np.minimum(self.near[left], self.loud[right]), np.logaddexp(self.quiet[left], self.far[right])


class SizeRule(NamedTuple):
    """A trapezoidal rule: its step, and the logarithm of what it is off by for each size."""

    step: float
    log_errors: tuple[float, ...]


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

    def windows(self, t: Array) -> Windows:
        beyond = self.sharpness * (t - self.far)
        near, far = log_half_erfc(beyond), log_half_erfc(-beyond)
        if self.quiet is None:
            return Windows(np.full(len(t), -np.inf), np.zeros(len(t)), near, far)
        above = self.sharpness * (t - self.quiet)
        return Windows(log_half_erfc(above), log_half_erfc(-above), near, far)

    @property
    def strip_of_far(self) -> float:
        """How far from the real line φ X_F has grown by FAR_NATS."""
        return math.sqrt(FAR_NATS / (0.5 + self.sharpness**2))

    @property
    def step_of_far(self) -> float:
        """The step of a rule for φ X_F (w - e^ε), which is entire and does not turn, to as many nats."""
        return math.pi * self.strip_of_far / FAR_NATS

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
        law, t = self.law, step * np.arange(math.floor(first / step), math.ceil(last / step) + 1.0)
        u = law.mean * t - law.mean * law.mean / 2
        x = law.rate * np.expm1(u)
        kept = self.windows(t).log_share(size)
        if self.is_ended(size):
            kept = np.where(t < self.last, kept, NOTHING)
        return Nodes(
            step, t, x, np.log1p(x), law.rate * np.exp(u) / (1 + x), kept, math.log(step) - LOG_ROOT - t * t / 2
        )


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
        edges = np.linspace(first, last, math.ceil((last - first) / width) + 1)
        odds = law.rate * np.exp(law.mean * edges - law.mean**2 / 2)
        x, windows = odds - law.rate, classes.windows(edges)
        nearest = np.maximum(np.maximum(edges[:-1], -edges[1:]), 0.0)
        log_normal = np.log(np.diff(edges)) - nearest**2 / 2 - LOG_ROOT
        shares = windows.bound_share(size)
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
        peak = np.max(exponents, axis=1)
        return np.asarray(np.logaddexp(peak + np.log(np.sum(np.exp(exponents - peak[:, None]), axis=1)), ends) + 1e-9)

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
            share = 0.0 if rest is None else log1p_exp(grown + float(rest[0]))
        power = self.s * (float(self.log_w[0]) if self.s >= 0 else math.log1p(-classes.law.rate))
        mass = log_half_erfc_above(-first / math.sqrt(2.0))
        return share + power + mass + y * y / 2, self._turn_at(float(self.p[0]), y)

    def _log_above(self, y: float) -> tuple[float, float]:
        """Return log of a bound of the way from b + iy to b but for arg w, and how far w turns there.

        b is the last edge, or, where losses go on beyond it, where nodes end, up to two steps beyond.
        """
        classes, last = self.classes, float(self.edges[-1])
        grown, p = (classes.sharpness * y) ** 2, float(self.p[-1])
        if classes.is_ended(self.size):
            share = grown + float((self.windows.quiet if self.size is Size.QUIET else self.windows.near)[-1])
        else:
            share = 0.0 if self.size is Size.ANY else log1p_exp(grown + float(self.windows.near[-1]))
            p = min(p * math.exp(2 * classes.law.mean * WIDEST_STEP), 1.0)
        power = self.s * (float(self.log_w[-1]) if self.s >= 0 else float(self._log_least(slice(-1, None), y)[0]))
        logs = math.log(max(y, 1e-300)) + (y * y - last * last) / 2 - LOG_ROOT + share + power
        return logs, self._turn_at(p, y)

    @property
    def _log_beyond(self) -> float:
        """Log of a bound of the integral beyond the cells, where w^s falls, on the real line."""
        if self.classes.is_ended(self.size):
            return -math.inf
        mass = log_half_erfc_above(float(self.edges[-1]) / math.sqrt(2.0))
        return mass + self.s * float(self.log_w[-1])

    def log_outside(self, y: Array) -> float:
        """Return log of a bound of what lies outside the cells on a path, as if w did not turn."""
        ends = self._log_below(float(y[0]))[0], self._log_above(float(y[-1]))[0], self._log_beyond
        return log_add(log_add(ends[0], ends[1]), ends[2])

    def strip(self, omega: float, widest: float) -> Array:
        """Return d(t): narrower where w turns fast, so that what turns by ω grows by GROWN_NATS at most."""
        turning = omega * self.classes.law.mean * self.p * (widest / GROWN_NATS)
        return np.asarray(widest / np.maximum(1.0, turning))

    def log_around(self, omega: float, d: Array) -> Array:
        """Return log of the integrals over t ± id(t), cell by cell, then below and above."""
        (below, below_turn), (above, above_turn) = self._log_below(float(d[0])), self._log_above(float(d[-1]))
        logs = self._log_cells(d) + omega * self._turn(self.p[1:], d[:-1])
        return np.append(logs, [below + omega * below_turn, above + omega * above_turn]) + math.log(2.0)

    def log_missed(self, omega: float, d: float) -> float:
        """Return log of what a rule misses below its nodes and beyond, and of the way that closes its contour there."""
        # between the last cell and the end the path has a length of two steps at most, and 1/(e^{2πd/h} - 1) <= h/2πd
        above, turn = self._log_above(d)
        above += math.log1p((WIDEST_STEP / d) ** 2)
        # a sum of φ up to a place is at most twice its integral, for such steps
        below = self._log_below(0.0)[0] + math.log(2.0)
        return log_add(log_add(below, above + math.log(2.0) + omega * turn), self._log_beyond)


def rule_for(tilted: list[Tilted], levels: list[float], omega: float, nats: float) -> SizeRule | None:
    """Return the widest step with errors of about e^-nats beside e^level, for all sizes, up to a frequency."""
    classes, step = tilted[0].classes, 0.0
    widest = min(WIDEST_CLASS_STRIP, WIDEST_RADIANS / classes.law.mean, STRIP_OF_CLASS / classes.sharpness)
    found: list[tuple[Array, Array, float]] = []
    for share in CLASS_STRIPS:
        strips = [each.strip(omega, share * widest) for each in tilted]
        missed = [each.log_missed(omega, float(d[-1])) for each, d in zip(tilted, strips, strict=True)]
        if any(log > level - nats + 1 for log, level in zip(missed, levels, strict=True)):
            continue
        around = [each.log_around(omega, d) for each, d in zip(tilted, strips, strict=True)]
        widths = [np.append(d[1:], d[[0, -1]]) for d in strips]
        here = min(
            float(np.min(2 * math.pi * width / np.logaddexp(-LARGEST_NATS, np.logaddexp(0.0, logs - level + nats))))
            for logs, width, level in zip(around, widths, levels, strict=True)
        )
        if not here > step:  # narrower strips would take smaller steps still; any is sound
            break
        step, found = here, list(zip(around, widths, missed, strict=True))
    if not found:
        return None
    errors = tuple(
        float(np.logaddexp.reduce([*(logs - log_expm1(2 * math.pi * width / step)), lost]))
        for logs, width, lost in found
    )
    return SizeRule(step, errors)


def add_sizes(s: float, mean: float, nodes: Nodes, line: tuple[float, int], level: float) -> tuple[Complex, Array]:
    """Return ∫ φ X w^{s±iω} over e^level at ω = jη, j < count, the sign that of s, and an estimate of its rounding."""
    eta, count = line
    masses = np.exp(np.maximum(nodes.log_q + s * nodes.log_w + nodes.log_kept - level, -LARGEST_NATS))
    heavy, light = leave_out_light(masses)
    values = add_turned(math.copysign(1.0, s) * nodes.log_w[heavy], masses[heavy], eta, count)
    units = ROUNDINGS * ROUNDING
    of_loss = units * (np.abs(nodes.x) / (1 + nodes.x) + nodes.p * (mean * np.abs(nodes.t) + mean**2))
    exponents = nodes.t**2 / 2 + np.abs(s * nodes.log_w) + np.minimum(np.abs(nodes.log_kept), 2 * LARGEST_NATS)
    each = units * (4 + exponents) + abs(s) * of_loss
    still, turned = float(masses @ each) + light, float(masses @ (of_loss + 2 * units * np.abs(nodes.log_w)))
    return values, still + eta * np.arange(float(count)) * turned
