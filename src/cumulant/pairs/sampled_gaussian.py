"""Gaussian noise on a Poisson sample, both directions of the neighbours, on the nodes of a trapezoidal rule.

With w(t) = 1 - γ + γe^u, u = μt - μ²/2, and Q = N(0, 1) the pairs of one release are wQ against Q, the record leaves,
and Q against wQ, it joins. Both have moments of one kind,

    M(z) = E_Q[w^s],   s = 1 + z  or  s = -z,   L = log w  or  -log w.

*Quadrature.* The trapezoidal rule is off by at most 2B/(e^{2πd/h} - 1), B >= ∫ |q(t±id) w^s| dt. With p = γe^u/w and
c = cos μd, μd <= 1, as w(t+id) = w(1 - p + pe^{iμd}):

    w(1 - p(1-c)) <= |w(t+id)| <= w,   |arg w(t+id)| <= p sin(μd)/(1 - p(1-c)),

and p grows with t, so that cells bound B.

*Far losses* of a record that leaves are cut off where δ cannot see them, softly by χ = ½ erfc(a(t-c)), as `cut_law`
does, and for good at b, where χ has fallen: |erfc(x+iy)| <= e^{y²} erfc(x), and (2/√π)e^{-x²}/erfc(x) lies between
x + √(x²+4/π), for x >= 0, and x + √(x²+2). With b in the middle between two nodes, the contour that bounds the rule is
closed from b+id to b-id, where |1 - e^{2πit/h}| >= 1: the rule is off by at most 2d|q χ w^s| there more.

*Cells.* On a cell the tilted law has a mass, and its loss a density e^G of bounded variation, G = s log w - t²/2
- log p + ...; the slopes of both logarithms lie between those of their monotone parts.

*Rounding* is estimated as on every line in doubles. M - 1 is a sum of q(χw^s - 1 - s(w-1)), small where it is small,
and M(z)/M(θ) - 1 one of versines and sines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from cumulant.numerics.balls import LOG_ROOT
from cumulant.numerics.complex_plane import Complex, add_versines, log1p_complex
from cumulant.numerics.decay import Cells, escape, escape_of_run
from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc

ROUNDING = 2.0**-52  # relative, of one rounding
FEW_ROUNDINGS = 2.0**-51  # relative, of a few
ROUNDINGS = 2.0  # roundings of one elementary function and of the products around it
CELL = 0.1  # width of cells, in units of t, of σ and of a quarter of a cut
STRIP_SHARES = np.array([0.08, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0])[:, None]  # of the widest strip
WIDE = 4  # the place of the first of those that are looked at first
STRIP_AT_MOST = 2.0  # units of t
STRIP_OF_CUT = 8.0  # over its sharpness
EXPONENT_AT_MOST = 600.0  # of a double
LEAST_MEAN, LARGEST_MEAN = 1e-6, 20.0  # whose squares and exponentials keep their digits
LEAST_RATE, LARGEST_RATE = 1e-100, 0.999  # likewise: log w is off by a unit over 1 - γ
END_NATS = 60.0  # that all releases together may take off the end of a line
RISE_NATS = 4.0  # by which a tilted law may rise beyond a cut
LEAST_SHARPNESS = 1.5  # over a unit of t
BEYOND_CUT = 8.0  # over its sharpness, how far beyond a cut nodes go
SOON = 4  # half octaves within which a line may end without asking for more
LIGHT = 1e-30  # of the largest mass, below which nodes at either end are not summed


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


@final
@dataclass(frozen=True, slots=True)
class FarCut:
    """χ = ½ erfc(a(t-c)) up to b; with a = 0, χ = 1."""

    at: float
    sharpness: float
    last: float  # b

    @staticmethod
    def of_joining(log_each: float, least: float) -> FarCut:
        """Return a cut of N(0, 1), where losses are far below 0, that leaves out at most e^log_each."""
        at = max(math.sqrt(-2 * log_each), least)
        return FarCut(at, 0.0, at)

    @staticmethod
    def of_leaving(law: SampledGaussian, log_each: float, tilt: float, least: float) -> FarCut:
        """Return a cut that leaves out at most 2e^log_each, as sharp as a tilt asks for, with b >= `least`.

        Any cut is sound. E[1-χ] of N(m, 1) is Φ((m-c)/κ) <= ½e^{-((c-m)/κ)²/2}, κ² = 1 + 1/2a², for c >= m. Beyond b,
        1 is at most twice 1 - χ.
        """

        def place(sharpness: float) -> float:
            width = math.sqrt(1 + 0.5 / sharpness**2)
            near = width * math.sqrt(-2 * log_each)
            far = law.mean + width * math.sqrt(max(2 * (math.log(law.rate) - log_each), 0.0))
            return max(near, far) * (1 + 1e-12)

        there = place(LEAST_SHARPNESS) + 1 / LEAST_SHARPNESS
        log_odds = math.log(law.rate) - math.log1p(-law.rate) + law.mean * (there - law.mean / 2)
        slope = (1 + tilt) * law.mean / (1 + math.exp(min(-log_odds, EXPONENT_AT_MOST))) - there
        sharpness = max(LEAST_SHARPNESS, slope / RISE_NATS)
        at = place(sharpness)
        return FarCut(at, sharpness, max(at + BEYOND_CUT / sharpness, least))


def coordinate_of(loss: float, mean: float, rate: float) -> float:
    """Return t with log w(t) = loss."""
    u = (math.log(math.expm1(loss) + rate) if loss < EXPONENT_AT_MOST else loss) - math.log(rate)
    return u / mean + mean / 2


def width_of_cells(law: SampledGaussian, cut: FarCut | None) -> float:
    return CELL * min(1.0, 1 / law.mean, 4 / cut.sharpness if cut and cut.sharpness else 1.0)


def is_fine(law: SampledGaussian, cut: FarCut | None, tilt: float, nats: float) -> bool:
    """Return whether cells are narrow enough for K at real tilts, of a record that joins up to τ, to e^-nats.

    Where a record leaves |w^s| only falls off the real line. Where it joins w^-τ grows to at most w(t-a)^-τ, a =
    -log(cos μd)/μ, as |w(t+id)| >= 1 - γ + γe^u cos μd. Its integral over that of w^-τ is the mean of e^{-at-a²/2}
    under a law that is more log-concave than q, so at most e^{-am} at its mean m, and m = -τμE[p] >= -τμE_Q[p].
    """
    power, sharpness = tilt * min(1.0, law.rate / (1 - law.rate)), cut.sharpness if cut else 0.0
    for share in reversed(STRIP_SHARES[:, 0].tolist()):
        d = widest_strip(law, cut) * share
        grown = -math.log(math.cos(law.mean * d)) * power + d * d / 2 + (sharpness * d) ** 2
        if 2 * math.pi * d / width_of_cells(law, cut) >= nats + grown:
            return True
    return False


def widest_strip(law: SampledGaussian, cut: FarCut | None) -> float:
    return min(1 / law.mean, STRIP_AT_MOST, STRIP_OF_CUT / cut.sharpness if cut and cut.sharpness else STRIP_AT_MOST)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Places t, x = w - 1, log w and p = γe^u/w there, log χ; log(q·h), h the step."""

    step: float
    t: Array
    x: Array
    log_w: Array
    p: Array
    log_kept: Array
    log_q: Array

    @staticmethod
    def on(law: SampledGaussian, cut: FarCut | None, step: float, ends: tuple[float, float]) -> Nodes:
        """Return nodes at most a step apart; those of a cut end half a step before it does."""
        count = math.ceil(ends[1] / step)
        if cut is not None:
            step = cut.last / (count + 0.5)
        t = step * np.arange(math.floor(ends[0] / step), count + 1.0)
        u = law.mean * t - law.mean * law.mean / 2
        x = law.rate * np.expm1(u)
        kept = log_half_erfc(cut.sharpness * (t - cut.at)) if cut and cut.sharpness else np.zeros(len(t))
        return Nodes(
            step, t, x, np.log1p(x), law.rate * np.exp(u) / (1 + x), kept, math.log(step) - LOG_ROOT - t * t / 2
        )

    def up_to(self, last: float) -> Nodes:
        """Return the nodes up to the first one at or beyond `last`."""
        count = int(np.searchsorted(self.t, last)) + 1
        columns = (self.t, self.x, self.log_w, self.p, self.log_kept, self.log_q)
        return Nodes(self.step, *(column[:count] for column in columns))


def bound_end(law: SampledGaussian, cut: FarCut, cells: Nodes, tau: Array) -> Array:
    """Return log of what the end of a cut may add to a sum over cells at real tilts τ, over the term of the last node.

    Half a step beyond it the tilted law has grown by at most e^{(1+τ)μp·h/2}.
    """
    d, p = widest_strip(law, cut), min(float(cells.p[-1]) * math.exp(law.mean * cells.step), 1.0)
    grown = (1 + tau) * (law.mean * p * cells.step / 2) + d * d / 2 + (cut.sharpness * d) ** 2
    if not cut.sharpness:  # a record that joins: its tilted law falls, and w^-τ grows off the real line
        grown += -tau * math.log1p(-p * (1 - math.cos(law.mean * d)))
    return np.asarray(math.log(4 * d / cells.step) + grown)


def slopes_of(
    law: SampledGaussian, cut: FarCut | None, cells: Nodes, more_and_power: tuple[float, float]
) -> tuple[Array, Array]:
    """Return bounds of -t - more + power·μp + (log χ)' on each cell: t and p grow, and (log χ)' falls."""
    more, power = more_and_power
    falling, rising = -more - cells.t, power * law.mean * cells.p
    first, last = (rising[:-1], rising[1:]) if power >= 0 else (rising[1:], rising[:-1])
    low, high = falling[1:] + first, falling[:-1] + last
    if cut and cut.sharpness:
        a, x = cut.sharpness, cut.sharpness * (cells.t - cut.at)
        low -= a * (x[1:] + np.sqrt(x[1:] ** 2 + 2))
        high -= a * np.where(x[:-1] > 0, x[:-1] + np.sqrt(x[:-1] ** 2 + 4 / math.pi), 0.0)
    return low, high


@final
@dataclass(frozen=True, slots=True, eq=False)
class TiltedLaw:
    """The tilted law on cells: the logarithm of its density in t at their ends, over M(θ)."""

    law: SampledGaussian
    cut: FarCut | None
    s: float
    cells: Nodes
    log_mass: Array
    slopes: tuple[Array, Array]  # of that, at least and at most on each cell

    @staticmethod
    def of(law: SampledGaussian, cut: FarCut | None, s: float, cells: Nodes, k: float) -> TiltedLaw:
        log_mass = s * cells.log_w + (cells.log_q + cells.log_kept - math.log(cells.step) - k)
        return TiltedLaw(law, cut, s, cells, log_mass, slopes_of(law, cut, cells, (0.0, s)))

    def loss_cells(self) -> Cells:
        """Return the law of the loss on cells, sorted: masses from below, densities and variations from above."""
        width, mean = self.cells.step, self.law.mean
        of_mass, of_density = (
            np.maximum(np.abs(low), np.abs(high))
            for low, high in (self.slopes, slopes_of(self.law, self.cut, self.cells, (mean, self.s + 1)))
        )
        density = self.log_mass - math.log(mean) - np.log(self.cells.p)
        mass = width * np.exp((self.log_mass[1:] + self.log_mass[:-1]) / 2 - of_mass * (width / 2)) * (1 - 1e-9)
        highest = np.exp((density[1:] + density[:-1]) / 2 + of_density * (width / 2))
        variation, ends = width * of_density * highest * (1 + 1e-9), np.exp(density) * (1 + 1e-9)
        low, high, first, last = self.cells.log_w[:-1], self.cells.log_w[1:], ends[:-1], ends[1:]
        if self.s < 0:
            low, high, first, last = -high[::-1], -low[::-1], last[::-1], first[::-1]
            mass, variation = mass[::-1], variation[::-1]
        return Cells(low, high, mass, first, last, variation)

    def rule(self, omega: float, nats: float) -> tuple[float, float] | None:
        """Return the step of a rule for frequencies up to ω, and log of what it is off by at most, over M(θ).

        None if the tilted law does not fall by a nat a unit beyond the cells.
        """
        low, high = self.slopes
        if not low[0] > 1 or not (self.cut is not None or high[-1] < -1):
            return None
        place, step, off = self._best_rule(omega, nats, STRIP_SHARES[WIDE:])
        if place == 0:  # a narrower strip may be better
            _, step, off = self._best_rule(omega, nats, STRIP_SHARES[: WIDE + 1])
        return step, off

    def _best_rule(self, omega: float, nats: float, shares: Array) -> tuple[int, float, float]:
        """Return which share of the widest strip has the longest step, that step, and what it is off by."""
        mean, s, width, (low, high) = self.law.mean, self.s, self.cells.step, self.slopes
        d = widest_strip(self.law, self.cut) * shares
        lost = 1 - np.cos(mean * d)
        beyond = 1.0 if self.cut is None else min(float(self.cells.p[-1]) * math.exp(mean * width), 1.0)
        p = np.append(self.cells.p[1:], beyond)  # at the right ends, and beyond the last
        less = p * lost
        grown = omega * np.sin(mean * d) * p / (1 - less)
        grown += d * d / 2 + ((self.cut.sharpness * d) ** 2 if self.cut else 0.0)
        if s < 0:
            grown += s * np.log1p(-less)
        steepest = np.maximum(np.abs(low), np.abs(high))
        highest = (self.log_mass[1:] + self.log_mass[:-1]) / 2 + steepest * (width / 2)
        # nodes may end a cell before the cells do
        ends = float(np.logaddexp(self.log_mass[0] + steepest[0] * width, self.log_mass[-1] + steepest[-1] * width))
        logs = np.append(highest + math.log(width), ends) + grown
        top = logs.max(axis=1)
        log_b = np.log(np.exp(logs - top[:, None]).sum(axis=1)) + top
        steps = 2 * math.pi * d[:, 0] / np.logaddexp(0.0, math.log(2.0) + log_b + 1e-6 + nats)
        closed = ends + (grown[:, -1] if self.cut else np.zeros(len(steps)))
        off = np.logaddexp(-nats, np.log(4.0 + 4.0 / steps + 4.0 * d[:, 0]) + closed)
        best = int(np.argmax(np.where(off <= 1 - nats, steps, 0.0)))
        return best, float(steps[best]), float(off[best])


def end_of_line(
    parts: Sequence[tuple[Cells, int]], variance: float, line: tuple[float, float, float]
) -> tuple[float, float] | None:
    """Return (ω, tail): where a line may end, and a bound of Σ Π|φ_i|^{n_i}/|z(z+1)|·η/π beyond.

    `line` is η, what the tail may be, and a frequency to begin with; `variance` is that of plain Gaussian noise, which
    multiplies by e^{-vω²/2}.
    """
    (eta, negligible, start), total = line, sum(n for _, n in parts)
    # from twice the variation on, each release takes at least log 2 nats off, and more the farther
    steepest = max(float(np.sum(cells.variation) + cells.first[0] + cells.last[-1]) for cells, _ in parts)
    far = 2 * steepest * math.exp(END_NATS / total)
    if not far < math.inf:
        return None
    frequencies = start * 2.0 ** (np.arange(2 * max(math.ceil(math.log2(max(far / start, 1.0))), 1) + 1.0) / 2)
    ways = 1 / frequencies
    ways[:-1] -= ways[1:]
    ways += eta / frequencies**2
    for bound in (escape_of_run, escape):
        fallen = sum((n * bound(cells, frequencies) for cells, n in parts), variance * frequencies**2 / 2)
        tails = (np.exp(-fallen) * ways)[::-1].cumsum()[::-1] / math.pi
        fine = int((~(tails <= negligible)).sum())  # they fall; what is no number is not fine
        if fine < len(tails) and (fine <= SOON or bound is escape):
            return float(frequencies[fine]), float(tails[fine])
    return None


def leave_out_light(masses: Array) -> tuple[slice, float]:
    """Return between which nodes masses count, and at most what all others are together."""
    least = LIGHT * float(masses.max())
    if masses[0] > least < masses[-1]:
        return slice(0, len(masses)), 0.0
    heavy = np.flatnonzero(masses > least)
    first, last = (int(heavy[0]), int(heavy[-1]) + 1) if len(heavy) else (0, len(masses))
    return slice(first, last), float(np.sum(masses[:first]) + np.sum(masses[last:])) * (1 + 1e-12)


LogMoments = tuple[Complex, Array, float]
"""K of one release along a line, and bounds of its error: of each value, and one all have in common, log M(θ)'s."""


def log_moments_of(
    law: SampledGaussian, s: float, nodes: Nodes, line: tuple[float, int], off: float
) -> LogMoments | None:
    """Return log E_Q[χw^{s±ijη}], j < count, the sign that of s.

    Sums over the nodes are `off`, over what it is for j = 0; None where doubles end.
    """
    (eta, count), mean = line, law.mean
    exponents = s * nodes.log_w + nodes.log_kept
    if not float(np.max(exponents)) < EXPONENT_AT_MOST:
        return None
    grown, q = np.expm1(exponents), np.exp(nodes.log_q)
    k = math.log1p(float(q @ (grown - s * nodes.x)))
    masses, losses = np.exp(nodes.log_q + exponents - k), math.copysign(1.0, s) * nodes.log_w
    heavy, light = leave_out_light(masses)
    even, odd = add_versines(losses[heavy], masses[heavy], eta, count)
    values = log1p_complex(-even, odd)
    # roundings of log w, absolute; of q and of tilted masses, relative
    units = ROUNDINGS * ROUNDING
    of_loss = units * (np.abs(nodes.x) / (1 + nodes.x) + nodes.p * (mean * np.abs(nodes.t) + mean**2))
    of_q = units * (1 + nodes.t**2 / 2)
    of_power = units * (np.abs(s * nodes.log_w) + np.abs(nodes.log_kept)) + abs(s) * of_loss
    small = of_q * (np.abs(grown) + abs(s) * np.abs(nodes.x)) + (1 + grown) * of_power
    still = float(q @ (small + abs(s) * (1 + nodes.x) * of_loss)) * math.exp(-k) + off * (4 + 4 * abs(s))
    turned = float(masses @ (np.abs(losses) * (of_q + of_power + units) + of_loss))
    astray = off + 2 * light + eta * np.arange(float(count)) * turned + (units + still) * (even + np.abs(odd))
    # where it vanishes to rounding, it is raised to that: then it may be off by that more
    log_astray = np.log(astray)
    raised = values.real < log_astray
    values = np.where(raised, log_astray, values.real) + 1j * values.imag
    error = np.log1p(np.where(raised, 2.0, 1.0) * astray / np.exp(values.real))
    return k + values, np.asarray(error + ROUNDING * np.abs(values)), still + FEW_ROUNDINGS * abs(k)
