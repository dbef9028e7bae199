"""Gaussian noise on a Poisson sample, both directions of the neighbours, and its moments by a trapezoidal rule.

With w(t) = 1 - γ + γe^u, u = μt - μ²/2, and Q = N(0, 1) the pairs of one release are wQ against Q, the record leaves,
and Q against wQ, it joins. Both have moments of one kind,

    M(z) = E_Q[X w^s],   s = 1 + z  or  s = -z,   L = log w  or  -log w,

X the share of a size of losses that is meant: see `cumulant.pairs.size_classes`, which bounds the rule along a line.

*Real tilts.* The rule with step h of φ(Xw^s - 1 - s(w-1)), as E_Q w = 1, keeps the digits of M - 1. On t ± id |φX| is
at most e^{(½+a²)d²} times what it is on the real line, and for s >= 0 |w^s| only falls. For s = -τ < 0, where X = 1,
and μd < π/2 it is at most w(t-b)^-τ, b = κ/μ, κ = -log cos μd, because |w(t+id)| >= 1 - γ + γe^u cos μd. The integral
of φ(t)w(t-b)^-τ over M is the mean of e^{-bt-b²/2} under φw^-τ/M, which is more log-concave than φ: at most e^{-bm} at
its mean m = -τμE[p], p = γe^u/w, and E[p] <= E_Q[p] <= min{1, γ/(1-γ)}, as p rises with t and w^-τ falls. So with

    e = 2e^{(½+a²)d² + κτ min{1, γ/(1-γ)}}/(e^{2πd/h} - 1),   e' = 2e^{(½+a²)d²}/(e^{2πd/h} - 1),

τ = 0 for s >= 0, the rule is off by at most eM + e'(1 + 2|s|γ). Where X ends at b, in the middle between two nodes, the
contour that bounds the rule is closed from b+id to b-id, where |1 - e^{2πit/h}| >= 1: 4d|φXw^s| there more.

*Rounding* is estimated as on every line in doubles. M(z)/M(θ) - 1 is a sum of versines and sines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from cumulant.numerics.balls import LOG_ROOT
from cumulant.numerics.complex_plane import Complex, add_turned, add_versines, log1p_complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc

ROUNDING = 2.0**-52  # relative, of one rounding
UNITS = 4 * ROUNDING  # relative, of a few elementary steps
FEW_ROUNDINGS = 2.0**-51  # relative, of a few
ROUNDINGS = 2.0  # roundings of one elementary function and of the products around it
EXPONENT_AT_MOST = 600.0  # of a double
LEAST_MEAN, LARGEST_MEAN = 1e-6, 20.0  # whose squares and exponentials keep their digits
LEAST_RATE, LARGEST_RATE = 1e-100, 0.999  # likewise: log w is off by a unit over 1 - γ
LIGHT = 1e-30  # of the largest mass, below which nodes at either end are not summed
NOTHING = -1e12  # log X where none is left, below any exponent s log w
LEAST_LOG = -700.0  # of a double
REAL_NATS = 34.0  # below 1, and for each release, to which the rule of real tilts goes
REAL_STRIPS = 2.0 ** (-np.arange(9.0) / 2)  # of the widest
WIDEST_REAL_STRIP, WIDEST_REAL_RADIANS = 5.0, 1.2  # d and μd
MOST_REAL_NODES = 2500  # of the rule of real tilts


@final
@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """N(μ, 1) against N(0, 1) on a Poisson sample of rate γ, once."""

    mean: float
    rate: float

    @property
    def is_ordinary(self) -> bool:
        """Whether its parameters keep their digits."""
        return LEAST_MEAN < self.mean < LARGEST_MEAN and LEAST_RATE < self.rate < LARGEST_RATE

    @property
    def square(self) -> float:
        """E_Q(w-1)², about the variance of its loss."""
        return self.rate * self.rate * math.expm1(self.mean**2)


@final
@dataclass(frozen=True, slots=True)
class SampledReleases:
    """Releases of Gaussian noise on Poisson samples, each law with its count, beside plain Gaussian noise.

    `variance` is μ² of the plain releases together: their K(z) is μ²z(z+1)/2.
    """

    laws: tuple[SampledGaussian, ...]
    counts: tuple[int, ...]
    variance: float = 0.0

    @staticmethod
    def of(mean: float, rate: float, count: int) -> SampledReleases:
        """Return releases of one law."""
        return SampledReleases((SampledGaussian(mean, rate),), (count,))

    @property
    def parts(self) -> tuple[tuple[SampledGaussian, int], ...]:
        return tuple(zip(self.laws, self.counts, strict=True))

    @property
    def count(self) -> int:
        """How many of them are on samples."""
        return sum(self.counts)

    @property
    def deviation(self) -> float:
        """√(Σ nE_Q(w-1)² + μ²), about the standard deviation of all losses."""
        return math.sqrt(math.fsum(n * law.square for law, n in self.parts) + self.variance)

    @property
    def largest_joining_loss(self) -> float:
        """-Σ n log(1-γ), which no loss exceeds when a record joins; without plain Gaussian noise, rounded up."""
        if self.variance > 0:
            return math.inf
        return -math.fsum(n * math.log1p(-law.rate) for law, n in self.parts) * (1 + 1e-12)

    def plain_k(self, z: Any) -> Any:
        """Return K(z) of the plain releases."""
        return self.variance * (z * (z + 1) / 2)


def coordinate_of(loss: float, mean: float, rate: float) -> float:
    """Return t with log w(t) = loss."""
    u = (math.log(math.expm1(loss) + rate) if loss < EXPONENT_AT_MOST else loss) - math.log(rate)
    return u / mean + mean / 2


@final
@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Places t, x = w - 1, log w and p = γe^u/w there, log X; log(φ·h), h the step."""

    law: SampledGaussian
    t: Array
    x: Array
    log_w: Array
    p: Array
    log_kept: Array
    log_q: Array

    @staticmethod
    def at(law: SampledGaussian, t: Array, step: float, log_kept: Array | None = None) -> Nodes:
        """Return nodes at places a step apart."""
        u = law.mean * t - law.mean * law.mean / 2
        x = law.rate * np.expm1(u)
        kept = np.zeros(len(t)) if log_kept is None else log_kept
        log_q = math.log(step) - LOG_ROOT - t * t / 2
        return Nodes(law, t, x, np.log1p(x), law.rate * np.exp(u) / (1 + x), kept, log_q)

    @property
    def rounding_of_loss(self) -> Array:
        """How far rounding takes log w off, absolutely."""
        mean = self.law.mean
        moved = np.abs(self.x) / (1 + self.x) + self.p * (mean * np.abs(self.t) + mean**2)
        return np.asarray(ROUNDINGS * ROUNDING * moved)


# Real tilts ----------------------------------------------------------------------------------------------------------


class End(NamedTuple):
    """Where X ends: at b, having fallen like ½ erfc(a(t-c))."""

    sharpness: float
    at: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class RealTilts:
    """Moments of one release at real s, all of one sign: sums over nodes, and what the rule may be off by."""

    nodes: Nodes
    end: End | None
    s: Array
    exponents: Array  # s log w
    share: Array  # of the moment
    more: Array  # beside it
    log_closing: Array  # of the contour where X ends, over X there

    @staticmethod
    def of(
        law: SampledGaussian, s: Array, ends: tuple[float, float], end: End | None, releases: int
    ) -> RealTilts | None:
        """Return sums over nodes between two places, for a number of releases; None if nodes are many."""
        nats, square = REAL_NATS + math.log(releases), 0.5 + (end.sharpness**2 if end else 0.0)
        d = REAL_STRIPS * min(WIDEST_REAL_STRIP, WIDEST_REAL_RADIANS / law.mean)
        turning = np.maximum(-s, 0.0) * min(1.0, law.rate / (1 - law.rate))
        grown = -np.log(np.cos(law.mean * d))
        needed = nats + square * d * d + grown * turning.max()
        best = int(np.argmax(d / needed))
        strip, step = float(d[best]), float(2 * math.pi * d[best] / needed[best])
        if end is not None:
            step = end.at / (math.ceil(end.at / step) + 0.5)
        if not ends[1] - ends[0] < MOST_REAL_NODES * step:
            return None
        nodes = Nodes.at(law, step * np.arange(math.floor(ends[0] / step), math.ceil(ends[1] / step) + 1.0), step)
        off = 2 * math.exp(square * strip**2) / math.expm1(2 * math.pi * strip / step)
        more = off * (1 + 2 * np.abs(s) * law.rate) + missing_of(law, (float(nodes.t[0]), float(nodes.t[-1])), s)
        closing = np.full(len(s), -np.inf)
        if end is None:
            more += _beyond(law, (float(nodes.t[0]), float(nodes.t[-1])), s)
        else:
            log_last = math.log1p(law.rate * math.expm1(law.mean * end.at - law.mean**2 / 2))
            closing = math.log(4 * strip) + square * strip**2 - end.at**2 / 2 - LOG_ROOT + s * log_last
        share = off * np.exp(grown[best] * turning)
        return RealTilts(nodes, end, s, np.multiply.outer(s, nodes.log_w), share, more, closing)

    def log_moments(self, place: float | None = None) -> tuple[Array, Array, Array]:
        """Return log E_Q[X w^s], a little too large, and about its first two derivatives in the direction of s."""
        exponents = self.exponents if place is None else self.exponents + self._kept(place)
        q, losses = np.exp(self.nodes.log_q), self.nodes.log_w
        powers = np.exp(np.minimum(exponents, EXPONENT_AT_MOST))
        total, mean, square = (powers @ np.array([q, q * losses, q * losses * losses]).T).T
        k = self._log_sum(exponents, place)
        return k, np.sign(self.s) * mean / total, np.maximum(square / total - (mean / total) ** 2, 0.0)

    def log_whole(self) -> Array:
        """Return log E_Q w^s, a little too large."""
        return self._log_sum(self.exponents, None)

    def log_below(self, place: float) -> Array:
        """Return log E_Q[X w^s] of releases below a place, a little too large."""
        return self._log_sum(self.exponents + self._kept(place), place)

    def _kept(self, place: float) -> Array:
        assert self.end is not None
        return np.where(self.nodes.t < self.end.at, log_half_erfc(self.end.sharpness * (self.nodes.t - place)), NOTHING)

    def log_share(self, log_kept: Array, log_at_end: float) -> Array:
        """Return log E_Q[X w^s] of releases of which few are meant, a little too large."""
        assert self.end is not None
        logs = self.exponents + np.where(self.nodes.t < self.end.at, log_kept, NOTHING)
        peak = np.max(logs, axis=1)
        found = peak + np.log(np.exp(logs - peak[:, None]) @ np.exp(self.nodes.log_q) + 1e-300)
        return np.asarray(np.logaddexp(found, self.log_closing + log_at_end) + 1e-9)

    def _log_sum(self, exponents: Array, place: float | None) -> Array:
        """Return log E_Q[X w^s], raised by the errors of the rule and of rounding; inf beyond doubles."""
        q = np.exp(self.nodes.log_q)
        grown, linear = np.expm1(np.minimum(exponents, EXPONENT_AT_MOST)), np.multiply.outer(self.s, self.nodes.x)
        rounded = UNITS * ((np.abs(grown) + np.abs(linear)) @ (q * (4 + self.nodes.t**2 / 2)))
        total = (grown - linear) @ q + rounded + self.more
        k = np.log1p(np.maximum(total, -0.9)) - np.log1p(-np.minimum(self.share, 0.5))
        is_known = (exponents.max(axis=1) < EXPONENT_AT_MOST) & (self.share < 0.5)
        if self.end is not None and place is not None:
            at_end = log_half_erfc(np.array([self.end.sharpness * (self.end.at - place)]))
            k = np.logaddexp(k, self.log_closing + at_end)
        return np.asarray(np.where(is_known, k + 1e-12 * np.abs(k), np.inf))


def bound_negative_moments(law: SampledGaussian, s: Array, ends: tuple[float, float], releases: int) -> Array:
    """Return bounds of log E_Q w^s, s < 0: sums, and where nodes would be many, the largest that w^s can be."""
    tilts = RealTilts.of(law, s, ends, None, releases)
    largest = s * math.log1p(-law.rate) * (1 + 1e-12)
    return largest if tilts is None else np.fmin(tilts.log_whole(), largest)


def missing_of(law: SampledGaussian, ends: tuple[float, float], s: Any) -> Any:
    """Return twice what E_Q[1 + s(w-1)] lacks of 1, at most, where sums end."""
    first, last = ends
    beyond, within, before = (math.erfc(place / math.sqrt(2.0)) for place in (last, last - law.mean, -first))
    return (beyond + before) * (1 + abs(s) * law.rate) + abs(s) * law.rate * within


def _beyond(law: SampledGaussian, ends: tuple[float, float], s: Array) -> Array:
    """Return bounds of sums of φw^s beyond the last node, where it falls, and before the first one for s < 0."""
    first, last = ends
    log_w = math.log1p(law.rate * math.expm1(law.mean * last - law.mean**2 / 2))
    slope = last - np.maximum(s, 0.0) * law.mean
    above = np.where(slope >= 1, np.exp(s * log_w - last**2 / 2 - LOG_ROOT) / np.maximum(slope, 1.0), np.inf)
    below = math.erfc(-first / math.sqrt(2.0)) * np.exp(np.minimum(s, 0.0) * math.log1p(-law.rate))
    return np.asarray(above + below)


# Along a line --------------------------------------------------------------------------------------------------------

LogMoments = tuple[Complex, Array, float]
"""K of one release along a line, and bounds of its error: of each value, and one all have in common, log M(θ)'s."""


def log_moments_of(nodes: Nodes, s: float, line: tuple[float, int], off: float) -> LogMoments | None:
    """Return log E_Q[X w^{s±ijη}], j < count, the sign that of s.

    Sums over the nodes are `off`, over what it is for j = 0; None where doubles end.
    """
    eta, count = line
    exponents = s * nodes.log_w + nodes.log_kept
    if not float(exponents.max()) < EXPONENT_AT_MOST:
        return None
    grown, q = np.expm1(exponents), np.exp(nodes.log_q)
    k = math.log1p(float(q @ (grown - s * nodes.x)))
    masses, losses = np.exp(nodes.log_q + exponents - k), math.copysign(1.0, s) * nodes.log_w
    heavy, light = leave_out_light(masses)
    even, odd = add_versines(losses[heavy], masses[heavy], eta, count)
    values = log1p_complex(-even, odd)
    # roundings of log w, absolute; of q and of tilted masses, relative
    units, of_loss = ROUNDINGS * ROUNDING, nodes.rounding_of_loss
    of_q = units * (1 + nodes.t**2 / 2)
    of_power = units * (np.abs(s * nodes.log_w) + np.abs(nodes.log_kept)) + abs(s) * of_loss
    small = of_q * (np.abs(grown) + abs(s) * np.abs(nodes.x)) + (1 + grown) * of_power
    # 1 + s(w-1) is taken as if the rule had it exactly: of φ and φe^u, at steps of 0.3 at most, it misses 2e^{-2π²/h²},
    # less than e^-218, by Poisson's summation: far less than `off`
    still = float(q @ (small + abs(s) * (1 + nodes.x) * of_loss)) * math.exp(-k) + off * (4 + 4 * abs(s))
    turned = float(masses @ (np.abs(losses) * (of_q + of_power + units) + of_loss))
    astray = off + 2 * light + eta * np.arange(float(count)) * turned + (units + still) * (even + np.abs(odd))
    # where it vanishes to rounding, it is raised to that: then it may be off by that more
    log_astray = np.log(astray)
    raised = values.real < log_astray
    values = np.where(raised, log_astray, values.real) + 1j * values.imag
    error = np.log1p(np.where(raised, 2.0, 1.0) * astray / np.exp(values.real))
    return k + values, np.asarray(error + ROUNDING * np.abs(values)), still + FEW_ROUNDINGS * abs(k)


def moments_of(nodes: Nodes, s: float, line: tuple[float, int], level: float) -> tuple[Complex, Array]:
    """Return E_Q[X w^{s±iω}] over e^level at ω = jη, j < count, the sign that of s, and an estimate of its rounding."""
    eta, count = line
    masses = np.exp(np.maximum(nodes.log_q + s * nodes.log_w + nodes.log_kept - level, LEAST_LOG))
    heavy, light = leave_out_light(masses)
    values = add_turned(math.copysign(1.0, s) * nodes.log_w[heavy], masses[heavy], eta, count)
    units, of_loss = ROUNDINGS * ROUNDING, nodes.rounding_of_loss
    exponents = nodes.t**2 / 2 + np.abs(s * nodes.log_w) + np.minimum(np.abs(nodes.log_kept), -2 * LEAST_LOG)
    each = units * (4 + exponents) + abs(s) * of_loss
    still, turned = float(masses @ each) + light, float(masses @ (of_loss + 2 * units * np.abs(nodes.log_w)))
    return values, still + eta * np.arange(float(count)) * turned


def leave_out_light(masses: Array) -> tuple[slice, float]:
    """Return between which nodes masses count, and at most what all others are together."""
    least = LIGHT * float(masses.max())
    if masses[0] > least < masses[-1]:
        return slice(0, len(masses)), 0.0
    heavy = np.flatnonzero(masses > least)
    first, last = (int(heavy[0]), int(heavy[-1]) + 1) if len(heavy) else (0, len(masses))
    return slice(first, last), float(np.sum(masses[:first]) + np.sum(masses[last:])) * (1 + 1e-12)
