"""Lines of releases of some sizes: Π B^n, or what Π (B + J)^n is more, in either direction of the neighbours.

Releases are sorted by the size of their losses (`cumulant.pairs.size_classes`). With moments B_i and J_i of two sizes
of each law, both measures are positive, so a line bounds their profiles like any other (`cumulant.inversion.contour`):

    Π B_i^{n_i},   Π (B_i + J_i)^{n_i} - Π B_i^{n_i} = Π B_i^{n_i} (Π (1 + J_i/B_i)^{n_i} - 1).

The second falls as the J_i do, however slowly the B_i fall, and is formed without a difference of nearly equal numbers.
Plain Gaussian noise multiplies either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from cumulant.inversion.contour import Contour
from cumulant.inversion.plan import Plan, Tilts, plan_for
from cumulant.numerics.complex_plane import Complex, log1p_complex
from cumulant.numerics.decay import Cells, escape, escape_of_run
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.sampled_gaussian import (
    EXPONENT_AT_MOST,
    UNITS,
    LogMoments,
    SampledReleases,
    log_moments_of,
    missing_of,
    moments_of,
)
from cumulant.pairs.size_classes import Size, SizeClasses, Tilted, reach_of

MOST_POINTS, MOST_NODES, MOST_WORK = 20_000, 60_000, 4e8  # of a line, of a rule; points times nodes
BOUND_RATIO, BOUNDS, FIRST_BOUND = 1.2, 60, 3  # at which lines are bounded; their first point
ENOUGH_POINTS = 400  # of a line whose end cells find, up to which paths are not asked
SIZED_RULE_NATS = 38.0  # below what they are added to, and for each release, to which rules go
END_NATS = 60.0  # that all releases together may take off the end of a line
FINE_OCTAVES = np.arange(0.0, 1.6, 0.25)  # octaves from where a line may end first; then halves
SOON = 6  # of those places, within which a line may end without asking for more
OFF_NATS = 2.0  # by which bounds of moments may be above them


class Orientation(NamedTuple):
    """Whether the record leaves or joins: E_P e^{zL} = E_Q w^s, s = first + sign·z."""

    first: float
    sign: int

    def power(self, z: Any) -> Any:
        """Return s."""
        return self.first + self.sign * z


LEAVES, JOINS = Orientation(1.0, 1), Orientation(0.0, -1)


class SizedLaw(NamedTuple):
    """One law in a measure: how often, and the sizes of B and of J; without J it is B^n alone."""

    classes: SizeClasses
    n: int
    base: Size
    more: Size | None
    log_base: Array  # log B(τ), at most, at the tilts of the measure
    log_more: Array | None = None  # log J(τ), at most


class _Part(NamedTuple):
    """One law on a line: B and J tilted, and bounds of their logarithms there."""

    n: int
    base: Tilted
    log_base: float
    more: Tilted | None
    log_more: float

    def log_jumps(self, omega: Array) -> Array:
        """Return bounds of log |J| for all larger ω."""
        if self.more is None:
            return np.full(len(omega), -np.inf)
        moduli = self.more.log_moduli(omega)
        return np.logaddexp(moduli, _log_hidden(self.more.classes)) if self.more.size is Size.FAR else moduli


class Followed(NamedTuple):
    """A transform along a line over e^scale, with the error of each value, and an error that all have in common."""

    values: Complex
    error: Array
    common: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class SizedMeasure:
    """A positive measure of all releases in one direction, and K of it at tilts τ, at most.

    Of `far` releases of a record that joins B is everything, of which J is a part: Π B^n - Π (B - J)^n is meant.
    """

    releases: SampledReleases
    direction: Orientation
    laws: tuple[SizedLaw, ...]
    tau: Array
    k_base: Array  # Σ n log B + K of plain noise
    k: Array
    curvature: Array | None  # F'' at the tilts, where it is known

    @staticmethod
    def of(
        releases: SampledReleases,
        direction: Orientation,
        laws: Sequence[SizedLaw],
        tau: Array,
        curvature: Array | None = None,
    ) -> SizedMeasure:
        """Return the measure at the first tilts, where its K is a number."""
        k_base = np.asarray(sum((law.n * law.log_base for law in laws), releases.plain_k(tau)))
        some = [(law.n, law.log_base, law.log_more) for law in laws if law.log_more is not None]
        k = k_base
        if some and direction is JOINS:  # 1 - Π (1 - x) <= Σ x
            k = k_base + np.logaddexp.reduce([math.log(n) + log_j - log_b for n, log_b, log_j in some], axis=0) + 1e-9
        elif some:
            grown = sum(n * np.logaddexp(0.0, log_j - log_b) for n, log_b, log_j in some)
            k = k_base + log_expm1(np.asarray(grown)) + 1e-9
        known = len(k) if np.all(np.isfinite(k)) else int(np.argmin(np.isfinite(k)))
        bend = None if curvature is None else curvature[:known]
        return SizedMeasure(releases, direction, tuple(laws), tau[:known], k_base[:known], k[:known], bend)

    @property
    def is_difference(self) -> bool:
        return any(law.more is not None for law in self.laws)

    def line(
        self, epsilon: float, log_delta: float, *, tilts: int | None = None, points: int = MOST_POINTS
    ) -> SizedLine | None:
        """Plan a line near a point of the profile, at one of the first tilts; None where it would be long."""
        near = slice(0, tilts)
        bend = np.ones(len(self.tau)) if self.curvature is None else self.curvature
        plan = plan_for(Tilts(0, self.tau[near], self.k[near], bend[near], epsilon, log_delta))
        scale, s = float(self.k[plan.index]), self.direction.power(plan.theta)
        parts = [self._tilted(law, s, plan.index) for law in self.laws]
        end = self._end(plan, parts, scale)
        return SizedLine(self, plan, parts, *end) if end is not None and end[0] < points * plan.eta else None

    def _tilted(self, law: SizedLaw, s: float, place: int) -> _Part:
        """Return a law on a line, all releases as far as w^s asks for."""
        classes, log_base = law.classes, float(law.log_base[place])
        if law.more is None or law.log_more is None:
            if law.base is Size.ANY:
                classes = SizeClasses.all_of(classes.law, reach_of(classes.law, s, self.releases.count))
            return _Part(law.n, Tilted.of(classes, law.base, s), log_base, None, -math.inf)
        more = Tilted.of(classes, law.more, s)
        return _Part(law.n, Tilted.of(classes, law.base, s), log_base, more, float(law.log_more[place]))

    # The end --------------------------------------------------------------------------------------------------------

    def _end(self, plan: Plan, parts: Sequence[_Part], scale: float) -> tuple[float, float] | None:
        """Return (ω, tail): where the line may end, and a bound of Σ |transform|/|z(z+1)|·η/π beyond, over e^scale.

        The bounds of cells multiply: of many releases they are the nearer ones. Those by paths are for few.
        """
        omega = FIRST_BOUND * plan.eta * BOUND_RATIO ** np.arange(float(BOUNDS))
        fallen = -self.releases.variance * omega**2 / 2 - scale
        if self.is_difference:
            grown = sum(part.n * np.logaddexp(0.0, part.log_jumps(omega) - part.log_base) for part in parts)
            whole = float(self.k_base[plan.index])
            return _find_end(omega, fallen + whole + log_expm1(np.asarray(grown)), plan)
        cells = [(part.base.loss_cells(part.log_base), part.n) for part in parts]
        start = FIRST_BOUND * plan.eta
        if self.curvature is not None:  # about where that of a normal law falls as far; questions share the place
            normal = math.sqrt(2 * (plan.height + plan.accuracy) / plan.curvature)
            start *= 2.0 ** max(math.floor(math.log2(normal / start)), 0)
        by_cells = end_of_line(cells, self.releases.variance, (plan.eta, plan.negligible, start))
        if by_cells is not None and by_cells[0] < ENOUGH_POINTS * plan.eta:
            return by_cells
        plain = float(self.releases.plain_k(plan.theta))
        moduli = sum((part.n * part.base.log_moduli(omega) for part in parts), plain)
        by_path = _find_end(omega, fallen + moduli, plan)
        return min((one for one in (by_path, by_cells) if one is not None), default=None)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SizedLine:
    """A line of a measure as it is planned: where it ends, and a bound of what lies beyond, over e^K(θ)."""

    measure: SizedMeasure
    plan: Plan
    parts: Sequence[_Part]
    end: float
    tail: float

    @property
    def count(self) -> int:
        """How many points there are."""
        return math.ceil(self.end / self.plan.eta) + 1

    def contour(self, log_left_out: float = -math.inf) -> Contour | None:
        """Follow it in doubles; None where that would take long."""
        followed = self._follow()
        if followed is None:
            return None
        plan, measure, scale = self.plan, self.measure, float(self.measure.k[self.plan.index])
        line = followed.values, followed.error
        contour = Contour.of_weights((plan.theta, plan.eta), scale, line, self.tail, (measure.tau, measure.k))
        return contour.less_certain(followed.common + UNITS * (4 + abs(scale)), log_left_out)

    def _follow(self) -> Followed | None:
        plan, count, releases, direction = self.plan, self.count, self.measure.releases, self.measure.direction
        scale, sign = float(self.measure.k[plan.index]), direction.sign
        z, line = plan.theta + 1j * plan.eta * np.arange(float(count)), (plan.eta, count)
        k = np.asarray(releases.plain_k(z), dtype=complex)
        error, common = UNITS * np.abs(k), 0.0
        growth, farther = np.zeros(count, dtype=complex), np.zeros(count)
        nats = SIZED_RULE_NATS + math.log(releases.count) + math.log(4 + 4 * abs(direction.power(plan.theta)))
        for part in self.parts:
            base = _follow_base(part, line, nats)
            jumps = None if base is None or part.more is None else _follow_more(part, part.more, line, nats)
            if base is None or (jumps is None and part.more is not None):
                return None
            k, error, common = k + part.n * base[0], error + part.n * base[1], common + part.n * base[2]
            if jumps is not None:
                g, off = _growth(base, jumps, sign)
                growth, farther = growth + part.n * g, farther + part.n * off
        if self.measure.is_difference:
            values, errors = difference_of_powers((k, error), (growth, farther), scale)
            return Followed(sign * values, errors, common)
        values = np.exp(k - scale)
        most = np.exp(k.real - scale + error)  # what overflows says nothing
        return Followed(values, most - np.abs(values) + UNITS * np.abs(values) * (4 + np.abs(k.imag)), common)


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
    octaves = max(math.ceil(math.log2(max(far / start, 1.0))), 1)
    frequencies = start * 2.0 ** np.concatenate([FINE_OCTAVES, np.arange(FINE_OCTAVES[-1] + 0.5, octaves + 1.0, 0.5)])
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


def _find_end(omega: Array, log_bounds: Array, plan: Plan) -> tuple[float, float] | None:
    """Return the first of these frequencies where a line may end, and a bound of what is beyond, over e^scale."""
    bounds = np.exp(np.minimum(log_bounds + 1e-6, EXPONENT_AT_MOST))
    pieces = bounds * (1 / omega - np.append(1 / omega[1:], 0.0) + plan.eta / omega**2) / math.pi
    tails = np.cumsum(pieces[::-1])[::-1]
    fine = np.flatnonzero(tails <= plan.negligible)
    return (float(omega[fine[0]]), float(tails[fine[0]])) if len(fine) else None


def _is_affordable(tilted: Tilted, step: float, count: int) -> bool:
    first, last = tilted.classes.span(tilted.size)
    nodes = (last - first) / max(step, 1e-300)
    return nodes <= MOST_NODES and count * nodes <= MOST_WORK


def _follow_base(part: _Part, line: tuple[float, int], nats: float) -> LogMoments | None:
    """Return log B of one release along a line."""
    base, level = part.base, part.log_base - OFF_NATS  # log B is more than that: it is looked at in the end
    rule = base.rule(level, line[0] * line[1], nats)
    if rule is None or not _is_affordable(base, rule[0], line[1]):
        return None
    off = (math.exp(rule[1]) + float(missing_of(base.classes.law, base.classes.ends, base.s))) * math.exp(-level)
    found = log_moments_of(base.classes.nodes(base.size, rule[0]), base.s, line, off)
    return found if found is not None and float(found[0][0].real) - found[2] > level else None


def _follow_more(
    part: _Part, more: Tilted, line: tuple[float, int], nats: float
) -> tuple[Complex, Array, float] | None:
    """Return J of one release over e^level, with its error, and the level."""
    level = part.log_more
    rule = more.rule(level, line[0] * line[1], nats)
    if rule is None or not _is_affordable(more, rule[0], line[1]):
        return None
    values, off = moments_of(more.classes.nodes(more.size, rule[0]), more.s, line, level)
    off = off + math.exp(rule[1] - level)
    if more.size is Size.FAR:  # releases with t > b are far, too: a share of X_F that nodes do not see
        off = off + math.exp(_log_hidden(more.classes) - level)
    return values, off, level


def _log_hidden(classes: SizeClasses) -> float:
    """Return log of a bound of E_Q[1 - X_F; t > b], in which w^s is at most 1: far releases that X_F leaves out."""
    return classes.log_hidden + float(log_half_erfc(np.array([classes.last / math.sqrt(2.0)]))[0])


def _growth(base: LogMoments, jumps: tuple[Complex, Array, float], sign: int) -> tuple[Complex, Array]:
    """Return log(1 ± J/B) of one release and a bound of its error: J/B is off by what J and B are."""
    (each, error, common), (j, off_j, level) = base, jumps
    r = sign * j * np.exp(level - each)
    size = np.maximum(np.abs(1 + r), 1e-300)
    of_base = np.expm1(error + common) + UNITS * (1 + np.abs(each))
    off = off_j * np.exp(level - each.real) * (1 + of_base) + np.abs(r) * of_base
    return log1p_complex(r.real, r.imag), np.asarray(np.log1p(off / size))


def difference_of_powers(
    base: tuple[Complex, Array], growth: tuple[Complex, Array], scale: float
) -> tuple[Complex, Array]:
    """Return e^k (e^g - 1)/e^scale and a bound of its error, from k and g with theirs, in nats.

    A power is off by at most what it is off by if all errors add up. What k is off by everywhere is not counted.
    """
    (k, error), (g, farther) = base, growth
    grown = np.expm1(np.minimum(error, EXPONENT_AT_MOST)) + UNITS * (8 + np.abs(k) + abs(scale))
    with np.errstate(over="ignore", under="ignore"):
        quiet, loud = np.exp(k - scale), np.exp(k + g - scale)
        few, many = quiet * np.expm1(np.minimum(g.real, 0.0) + 1j * g.imag), -loud * np.expm1(-g)
        values = np.where(g.real <= 0, few, many)
        # of a size that errors make up, nothing is known but how large it can be; what overflows says nothing
        far_off = np.exp(k.real + g.real + farther - scale)
        astray = np.where(farther < 1, np.abs(loud) * np.expm1(np.minimum(farther, 1.0)), far_off)
        astray += UNITS * (np.abs(values) + np.abs(g * loud))
        astray += np.where(error > 1, np.exp(k.real + error - scale), 0.0)  # the same of the base
        return values, np.abs(values) * grown + astray * (1 + grown)
