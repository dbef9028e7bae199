"""The short way for the question that is asked most: Gaussian noise on a Poisson sample, released many times.

With w(t) = 1 - γ + γe^{μt - μ²/2} and Q = N(0, 1) the pairs of one release are wQ against Q, the record leaves, and Q
against wQ, it joins. Both have moments of one kind,

    M(z) = E_Q[w^s],   s = 1 + z  or  s = -z,   L = log w  or  -log w,

so one set of nodes serves K at real tilts, the place of the line and its end, and K along it. Where many releases make
up δ the saddle-point line is short, and everything about it is a closed formula or a sum over those nodes:

*Quadrature.* The trapezoidal rule is off by at most 2B/(e^{2πd/h} - 1), B >= ∫ |q(t±id) w^s| dt. With p = γe^u/w and
c = cos μd, μd <= 1, as w(t+id) = w(1 - p + pe^{iμd}):

    w(1 - p(1-c)) <= |w(t+id)| <= w,   |arg w(t+id)| <= p sin(μd)/(1 - p(1-c)),

and p grows with t, so that cells bound B.

*The end of the line.* On cells the tilted loss has masses, and a density e^G of bounded variation, G = s log w - t²/2 -
log p + ...; the slopes of both logarithms lie between those of their monotone parts. From these
`cumulant.numerics.decay` says how fast the characteristic function falls.

*Rounding* is estimated as on every line in doubles. M - 1 is a sum of q(w^s - 1 - s(w-1)), small where it is small, and
M(z)/M(θ) - 1 one of versines and sines. Where nothing of this is enough, there is the long way (`solve`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.inversion.contour import Contour, log_chernoff
from cumulant.inversion.plan import Tilts, plan_for
from cumulant.numerics.complex_plane import Complex, add_versines, log1p_complex
from cumulant.numerics.decay import Cells, escape
from cumulant.numerics.logspace import Array

UNIT = 2.0**-52  # relative, of one rounding
UNITS = 2.0  # roundings of one elementary function and of the products around it
LOG_ROOT = 0.5 * math.log(2 * math.pi)
TAIL_NATS = 32.0  # below δ, to which tail and quadrature are pushed: 1e-14
SPARE_NATS = 10.0  # more, beyond which nodes end
CLOSE_NATS = 3e-10  # slack in log δ that is as good as none
EXACT_SHARE = 1e-9  # of ε, within which both bounds must lie
SLACKS = 4.0  # times the slack by which δ is lowered, so that δ(ε), on a line of its own, agrees
TILTS = 2.0 ** (np.arange(-32.0, 14.0) / 8)  # over the tilt of a normal loss
FEWEST_TILTS = 8  # of those, that are within reach
CELL = 0.1  # width of cells, in units of t and of σ
STRIPS = np.array([0.15, 0.3, 0.5, 0.75, 1.0])[:, None]  # of the widest strip
WIDEST_STRIP = 2.0  # units of t
FARTHEST = 60.0  # t of the last node
LARGEST_EXPONENT = 600.0  # of a double
LEAST_MEAN, LARGEST_MEAN = 1e-6, 20.0  # whose squares and exponentials keep their digits
LEAST_ASKED = 1e-9  # ε, or -log δ
FEWEST_RELEASES, MOST_RELEASES = 50, 10**7  # between which lines are short, and roundings few
MOST_NODES, MOST_POINTS = 2000, 2000  # of the rule, and of the line
TURNS = 30  # of Newton's method
NUDGES = tuple(2.0**k for k in range(-50, -30))  # relative, by which ε is raised until δ is reached


@final
@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """N(μ, 1) against N(0, 1) on a Poisson sample of rate γ, so many times."""

    mean: float
    rate: float
    count: int

    @property
    def is_ordinary(self) -> bool:
        """Whether lines are short and parameters keep their digits."""
        if not FEWEST_RELEASES <= self.count <= MOST_RELEASES:
            return False
        return LEAST_MEAN < self.mean < LARGEST_MEAN and 0 < self.rate < 1


def shortest_epsilon(releases: SampledGaussian, log_delta: float) -> float | None:
    """Return the smallest ε with δ(ε) <= δ in both directions, rounded up; None where the way is not that short.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  within 1e-9 of what both pairs need.
    """
    if not releases.is_ordinary or not LEAST_ASKED < -log_delta < math.inf:
        return None
    first_tilt = math.sqrt(-2 * log_delta) / _deviation(releases)
    worst = 0.0
    for leaves in (True, False):
        direction = _Direction.of(releases, leaves, first_tilt)
        if direction is None:
            return None
        if direction.ceiling(log_delta) <= worst:  # by Chernoff's bound
            continue
        point = direction.saddle(log_delta=log_delta)
        contour = None if point is None else direction.contour(*point)
        epsilon = None if point is None or contour is None else _meet(contour, point[0], log_delta)
        if epsilon is None:
            return None
        worst = max(worst, epsilon)
    return worst


def shortest_log_delta(releases: SampledGaussian, epsilon: float) -> float | None:
    """Return log δ(ε), the larger of both directions, rounded up; None where the way is not that short.

    Holds for:  Poisson sampling, add-or-remove-one, adaptive composition.
    Tightness:  so near that ε would be within 1e-9 of what both pairs need.
    """
    if not releases.is_ordinary or not LEAST_ASKED < epsilon < math.inf:
        return None
    first_tilt = max(epsilon / _deviation(releases) ** 2, 0.5)
    worst = -math.inf
    for leaves in (True, False):
        direction = _Direction.of(releases, leaves, first_tilt)
        point = None if direction is None else direction.saddle(epsilon=epsilon)
        contour = None if direction is None or point is None else direction.contour(*point)
        if contour is None:
            return None
        (low, high), slope = contour.log_bounds(epsilon), contour.log_upper(epsilon)[1]
        if not high - low <= min(CLOSE_NATS, -EXACT_SHARE * slope * epsilon):
            return None
        worst = max(worst, min(high, 0.0))
    return worst


def _deviation(releases: SampledGaussian) -> float:
    """Return √(nE_Q(w-1)²), about the standard deviation of all losses."""
    return releases.rate * math.sqrt(releases.count * math.expm1(releases.mean**2))


def _meet(contour: Contour, start: float, log_delta: float) -> float | None:
    """Return the least ε whose bound is at most log δ, and a little less; None if it may be above the truth."""
    low, high = contour.log_bounds(start)
    if not high - low <= CLOSE_NATS:
        return None
    aim = log_delta - SLACKS * (high - low) - 4 * UNIT * abs(log_delta)  # the logarithm of δ was rounded, too
    x = start
    for _ in range(TURNS):
        value, slope = contour.log_upper(x)
        x += (value - aim) / -slope
        if not 0 < x < math.inf or abs(value - aim) <= -1e-15 * slope * x:
            break
    for nudge in NUDGES if 0 < x < math.inf else ():
        epsilon = x * (1 + nudge)
        if contour.log_upper(epsilon)[0] <= aim:  # only what was tested is returned
            return epsilon if contour.log_bounds(epsilon * (1 - EXACT_SHARE))[0] >= log_delta else None
    return None


# One direction --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Places t, x = w - 1, log w and p = γe^u/w there; log(q·h), h the step."""

    t: Array
    x: Array
    log_w: Array
    p: Array
    log_q: Array

    @staticmethod
    def on(law: SampledGaussian, step: float, first: float, last: float) -> _Nodes:
        t = step * np.arange(math.floor(first / step), math.ceil(last / step) + 1.0)
        x = law.rate * np.expm1(law.mean * t - law.mean * law.mean / 2)
        return _Nodes(t, x, np.log1p(x), (x + law.rate) / (1 + x), math.log(step) - LOG_ROOT - t * t / 2)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Direction:
    """One release, the record leaves or joins: cells from `first` to `last`, and nK, nK' and nK'' at tilts τ."""

    law: SampledGaussian
    leaves: bool
    first: float
    last: float
    cells: _Nodes
    tau: Array
    k: Array  # raised: rounding and quadrature are far below
    slope: Array
    bend: Array

    @staticmethod
    def of(law: SampledGaussian, leaves: bool, first_tilt: float) -> _Direction | None:
        """Return cells for tilts around the first; None where they would be many."""
        tau, n = TILTS * first_tilt, law.count
        reach = math.sqrt(2 * (TAIL_NATS + SPARE_NATS + math.log(n) - float(tau[-1]) * math.log1p(-law.rate)))
        tau = tau[(1 + tau) * law.mean + reach <= FARTHEST] if leaves else tau
        if len(tau) < FEWEST_TILTS:
            return None
        width, last = _width(law), reach + law.mean * (1 + float(tau[-1]) if leaves else 1.0)
        if not law.mean * last < LARGEST_EXPONENT or not _is_fine(law, 0.0 if leaves else float(tau[-1]), last):
            return None
        cells = _Nodes.on(law, width, -reach, last)
        losses = cells.log_w if leaves else -cells.log_w
        logs = cells.log_q + (cells.log_w if leaves else 0.0) + tau[:, None] * losses
        top = np.max(logs, axis=1, keepdims=True)
        masses = np.exp(logs - top)
        total = np.sum(masses, axis=1)
        slope = masses @ losses / total
        bend = np.maximum(masses @ losses**2 / total - slope**2, 0.0)
        k = (np.log(total) + top[:, 0]) * (1 + 1e-12) + 1e-14
        return _Direction(law, leaves, -reach, last, cells, tau, n * k, n * slope, n * bend)

    def ceiling(self, log_delta: float) -> float:
        """Return Chernoff's bound of ε."""
        return float(np.min((log_chernoff(self.tau) + self.k - log_delta) / self.tau)) * (1 + 1e-9)

    def saddle(self, *, log_delta: float | None = None, epsilon: float | None = None) -> tuple[float, float] | None:
        """Return ε and log δ, one asked for, the other by the saddle-point approximation; None if no tilt is near."""
        tau = self.tau
        at = self.slope - 1 / tau - 1 / (1 + tau)
        logs = self.k - tau * at - np.log(tau) - np.log1p(tau) - 0.5 * np.log(2 * math.pi * self._curvature())
        away = logs - log_delta if log_delta is not None else at - (epsilon or 0.0)
        place = int(np.argmin(np.abs(away)))
        if not 0 < place < len(tau) - 1:
            return None
        tilt, front = float(tau[place]), float(logs[place] + tau[place] * at[place])  # log δ at 0 through that tilt
        if log_delta is not None:
            epsilon = (front - log_delta) / tilt
        assert epsilon is not None
        log_delta = front - tilt * epsilon
        return (epsilon, log_delta) if epsilon > 0 > log_delta else None

    def _curvature(self) -> Array:
        return np.asarray(self.bend + self.tau**-2 + (1 + self.tau) ** -2)

    def contour(self, epsilon: float, log_delta: float) -> Contour | None:
        """Return the line near a point of the profile; None where it would be long."""
        law = self.law
        plan = plan_for(Tilts(0, self.tau, self.k, self._curvature(), epsilon, log_delta))
        s = 1 + plan.theta if self.leaves else -plan.theta
        log_mass = s * self.cells.log_w - LOG_ROOT - self.cells.t**2 / 2 - float(self.k[plan.index]) / law.count
        tilted = _Tilted(self.cells, law, s, log_mass)
        start = math.sqrt(2 * (plan.height + TAIL_NATS) / max(float(self.bend[plan.index]), 1e-300))
        end = tilted.end(plan.eta, plan.negligible, start)
        if end is None or not end[0] < MOST_POINTS * plan.eta:
            return None
        count = math.ceil(end[0] / plan.eta) + 1
        step, log_off = tilted.rule(plan.eta * count, TAIL_NATS + math.log(law.count))
        if not self.last - self.first < MOST_NODES * step:
            return None
        nodes = _Nodes.on(law, step, self.first, self.last)
        line = _log_moments(nodes, law, s, (plan.eta, count), math.exp(log_off))
        return None if line is None else Contour.of((plan.theta, plan.eta), line, end[1], (self.tau, self.k))


def _width(law: SampledGaussian) -> float:
    """Return the width of cells."""
    return CELL * min(1.0, 1 / law.mean)


def _is_fine(law: SampledGaussian, tau: float, last: float) -> bool:
    """Return whether cells are narrow enough for K at real tilts up to τ, and not too many.

    Where a record leaves |w^s| only falls off the real line. Where it joins w^-τ grows to at most w(t-a)^-τ, a =
    -log(cos μd)/μ, as |w(t+id)| >= 1 - γ + γe^u cos μd. Its integral over that of w^-τ is the mean of e^{-at-a²/2}
    under a law that is more log-concave than q, so at most e^{-am} at its mean m, and m = -τμE[p] >= -τμE_Q[p].
    """
    d = min(1 / law.mean, WIDEST_STRIP)
    grown = -math.log(math.cos(law.mean * d)) * tau * min(1.0, law.rate / (1 - law.rate))
    return last <= FARTHEST and 2 * math.pi * d / _width(law) >= TAIL_NATS + SPARE_NATS + d * d / 2 + grown


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Tilted:
    """The tilted law on cells: the logarithm of its density in t at their ends."""

    cells: _Nodes
    law: SampledGaussian
    s: float
    log_mass: Array

    def _slopes(self, more: float, power: float) -> tuple[Array, Array]:
        """Return bounds of -t - more + power·μp on each cell: t and p grow."""
        falling, rising = -self.cells.t - more, power * self.law.mean * self.cells.p
        low = falling[1:] + np.minimum(rising[:-1], rising[1:])
        return low, falling[:-1] + np.maximum(rising[:-1], rising[1:])

    def end(self, eta: float, negligible: float, start: float) -> tuple[float, float] | None:
        """Return (ω, tail): where the line may end, and a bound of Σ |φ|^n/|z(z+1)|·η/π beyond."""
        width, mean = _width(self.law), self.law.mean
        of_mass, of_density = (
            np.maximum(np.abs(low), np.abs(high))
            for low, high in (self._slopes(0.0, self.s), self._slopes(mean, self.s + 1))
        )
        density = self.log_mass - math.log(mean) - np.log(self.cells.p)
        mass = width * np.exp((self.log_mass[1:] + self.log_mass[:-1]) / 2 - of_mass * (width / 2)) * (1 - 1e-9)
        highest = np.exp((density[1:] + density[:-1]) / 2 + of_density * (width / 2))
        variation, ends = width * of_density * highest * (1 + 1e-9), np.exp(density) * (1 + 1e-9)
        low, high, first, last = self.cells.log_w[:-1], self.cells.log_w[1:], ends[:-1], ends[1:]
        if self.s < 0:
            low, high, first, last = -high[::-1], -low[::-1], last[::-1], first[::-1]
            mass, variation = mass[::-1], variation[::-1]
        far = 2 * float(np.sum(variation) + first[0] + last[-1])
        frequencies = start * 2.0 ** (np.arange(2 * max(math.ceil(math.log2(max(far / start, 1.0))), 1) + 1.0) / 2)
        bounds = escape(Cells(low, high, mass, first, last, variation), frequencies)
        ways = 1 / frequencies - np.append(1 / frequencies[1:], 0.0) + eta / frequencies**2
        tails = np.cumsum((np.exp(-self.law.count * bounds) * ways)[::-1])[::-1] / math.pi
        fine = np.flatnonzero(tails <= negligible)
        return (float(frequencies[fine[0]]), float(tails[fine[0]])) if len(fine) else None

    def rule(self, omega: float, nats: float) -> tuple[float, float]:
        """Return the step of a rule for frequencies up to ω, and log of what it is off by at most, over M(θ)."""
        mean, s, width = self.law.mean, self.s, _width(self.law)
        low, high = self._slopes(0.0, s)
        if not low[0] > 1 > -1 > high[-1]:  # beyond the cells it is to fall by a nat a unit
            return 0.0, 0.0
        d = min(1 / mean, WIDEST_STRIP) * STRIPS
        lost, p = 1 - np.cos(mean * d), np.append(self.cells.p[1:], 1.0)  # p at the right ends, and beyond the last
        grown = d * d / 2 + omega * p * np.sin(mean * d) / (1 - p * lost) - max(-s, 0.0) * np.log1p(-p * lost)
        highest = (self.log_mass[1:] + self.log_mass[:-1]) / 2 + np.maximum(np.abs(low), np.abs(high)) * (width / 2)
        ends = float(np.logaddexp(self.log_mass[0], self.log_mass[-1]))
        logs = np.append(highest + math.log(width), ends) + grown
        top = np.max(logs, axis=1, keepdims=True)
        log_b = np.log(np.sum(np.exp(logs - top), axis=1)) + top[:, 0]
        step = float(np.max(2 * math.pi * d[:, 0] / np.logaddexp(0.0, math.log(2.0) + log_b + 1e-6 + nats)))
        return step, float(np.logaddexp(-nats, math.log(4.0 + 4.0 / step) + ends))


def _log_moments(
    nodes: _Nodes, law: SampledGaussian, s: float, line: tuple[float, int], off: float
) -> tuple[Complex, Array] | None:
    """Return nK at θ + ijη, j < count, and a bound of its error; sums over the nodes are `off`, over M(θ)."""
    (eta, count), n, exponents = line, law.count, s * nodes.log_w
    if not float(np.max(exponents)) < LARGEST_EXPONENT:
        return None
    grown, q = np.expm1(exponents), np.exp(nodes.log_q)
    k = math.log1p(float(q @ (grown - s * nodes.x)))
    masses, losses = np.exp(nodes.log_q + exponents - k), math.copysign(1.0, s) * nodes.log_w
    even, odd = add_versines(losses, masses, eta, count)
    values = log1p_complex(-even, odd)
    # roundings of log w, absolute; of q and of tilted masses, relative
    units = UNITS * UNIT
    of_loss = units * (np.abs(nodes.x) / (1 + nodes.x) + nodes.p * (law.mean * np.abs(nodes.t) + law.mean**2))
    of_q = units * (1 + nodes.t**2 / 2)
    of_mass = of_q + units * np.abs(exponents) + abs(s) * of_loss
    small = abs(s) * (of_q * np.abs(nodes.x) + (1 + nodes.x) * of_loss)
    still = float(q @ (of_mass * np.abs(grown) + small)) * math.exp(-k) + off * (4 + 4 * abs(s))
    turned = float(masses @ (np.abs(losses) * (of_mass + units) + of_loss))
    astray = off + eta * np.arange(float(count)) * turned + units * (even + np.abs(odd))
    error = n * (still + np.log1p(astray / np.maximum(np.exp(values.real), 1e-300)))
    return n * (k + values), np.asarray(error + UNIT * n * np.abs(values))
