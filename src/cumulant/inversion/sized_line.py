"""Lines of releases of some sizes: Π B^n, or what Π (B + J)^n is more, in either direction of the neighbours.

Releases are sorted by the size of their losses (`cumulant.pairs.size_classes`). With moments B_i and J_i of two sizes
of each law, both measures are positive, so a line bounds their profiles like any other (`cumulant.inversion.contour`):

    Π B_i^{n_i},   Π (B_i + J_i)^{n_i} - Π B_i^{n_i} = Π B_i^{n_i} (Π (1 + J_i/B_i)^{n_i} - 1).

The second falls as the J_i do, however slowly the B_i fall, and is formed without a difference of nearly equal numbers.
Plain Gaussian noise multiplies either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.inversion.contour import Contour
from cumulant.inversion.plan import Plan, Tilts, plan_for
from cumulant.numerics.complex_plane import Complex, log1p_complex
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.sampled_gaussian import (
    EXPONENT_AT_MOST,
    FarCut,
    LogMoments,
    Nodes,
    SampledReleases,
    TiltedLaw,
    end_of_line,
    log_moments_of,
    width_of_cells,
)
from cumulant.pairs.size_classes import Size, SizeClasses, Tilted, add_sizes, rule_for
from cumulant.pairs.size_moments import UNITS, missing_of

BOUND_RATIO, BOUNDS, FIRST_BOUND = 1.2, 60, 3  # at which lines are bounded; their first point
MOST_SIZED_POINTS = 20_000  # of a line
SIZED_RULE_NATS = 38.0  # below what they are added to, and for each release, to which rules go
MOST_SIZED_NODES = 60_000  # of a rule
MOST_WORK = 4e8  # points times nodes
OFF_NATS = 2.0  # by which bounds of moments may be above them


class SizedLaw(NamedTuple):
    """One law in a measure: how often, and the sizes of B and of J; without J it is B^n alone."""

    classes: SizeClasses
    n: int
    base: Size
    more: Size | None
    log_base: Array  # log B(τ), at most, at the tilts of the measure
    log_more: Array | None = None  # log J(τ), at most


class Followed(NamedTuple):
    """A transform along a line over e^scale, with the error of each value, and an error that all have in common."""

    values: Complex
    error: Array
    common: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class SizedMeasure:
    """A positive measure of all releases, when the record leaves or joins, and K of it at tilts τ, at most.

    Of `far` releases of a record that joins B is everything, of which J is a part: Π B^n - Π (B - J)^n is meant.
    """

    releases: SampledReleases
    leaves: bool
    laws: tuple[SizedLaw, ...]
    tau: Array

    @property
    def is_difference(self) -> bool:
        return any(law.more is not None for law in self.laws)

    @property
    def k_base(self) -> Array:
        """Σ n log B + K of plain noise."""
        return np.asarray(sum((law.n * law.log_base for law in self.laws), self.releases.plain_k(self.tau)))

    @property
    def k(self) -> Array:
        """K of the measure, a little too large."""
        if not self.is_difference:
            return self.k_base
        some = [(law.n, law.log_base, law.log_more) for law in self.laws if law.log_more is not None]
        if not self.leaves:  # 1 - Π (1 - x) <= Σ x
            logs = [math.log(n) + log_j - log_b for n, log_b, log_j in some]
            return np.asarray(self.k_base + np.logaddexp.reduce(logs, axis=0) + 1e-9)
        grown = sum(n * np.logaddexp(0.0, log_j - log_b) for n, log_b, log_j in some)
        return np.asarray(self.k_base + log_expm1(np.asarray(grown)) + 1e-9)

    def plan(self, epsilon: float, log_delta: float, known: int | None = None) -> Plan:
        """Return the plan of a line near a point of its profile, on the first tilts."""
        tau, k = self.tau[:known], self.k[:known]
        return plan_for(Tilts(0, tau, k, np.ones(len(tau)), epsilon, log_delta))

    def contour(self, plan: Plan) -> Contour | None:
        """Return the line of a plan; None where it would be long."""
        scale = float(self.k[plan.index])
        s = 1 + plan.theta if self.leaves else -plan.theta
        end = self._end(plan, s, scale)
        if end is None:
            return None
        count = math.ceil(end[0] / plan.eta) + 1
        followed = self._follow(plan, s, count, scale) if count <= MOST_SIZED_POINTS else None
        if followed is None:
            return None
        line = followed.values, followed.error
        contour = Contour.of_weights((plan.theta, plan.eta), scale, line, end[1], (self.tau, self.k))
        return contour.less_certain(followed.common + UNITS * (4 + abs(scale)))

    # The end --------------------------------------------------------------------------------------------------------

    def _end(self, plan: Plan, s: float, scale: float) -> tuple[float, float] | None:
        """Return (ω, tail): where the line may end, and a bound of Σ |transform|/|z(z+1)|·η/π beyond, over e^scale."""
        omega = FIRST_BOUND * plan.eta * BOUND_RATIO ** np.arange(float(BOUNDS))
        fallen = -self.releases.variance * omega**2 / 2 - scale
        if self.is_difference:
            grown = np.zeros(len(omega))
            for law in self.laws:
                if law.more is not None:
                    moduli = Tilted.of(law.classes, law.more, s).log_moduli(omega)
                    if law.more is Size.FAR:
                        moduli = np.logaddexp(moduli, _log_hidden(law.classes))
                    grown += law.n * np.logaddexp(0.0, moduli - float(law.log_base[plan.index]))
            whole = float(self.k_base[plan.index])
            return find_end(omega, fallen + whole + log_expm1(grown), plan)
        plain = float(self.releases.plain_k(plan.theta))
        moduli = sum(
            (law.n * Tilted.of(law.classes, law.base, s).log_moduli(omega) for law in self.laws), fallen + plain
        )
        by_path = find_end(omega, moduli, plan)
        return min((one for one in (by_path, self._end_by_cells(plan, s)) if one is not None), default=None)

    def _end_by_cells(self, plan: Plan, s: float) -> tuple[float, float] | None:
        """Return the end by the bounds of `cumulant.numerics.decay`, which multiply: of many releases it is nearer."""
        if not self.leaves:
            return None
        cells = []
        for law in self.laws:
            classes, one = law.classes, law.classes.law
            cut = FarCut(classes.far, classes.sharpness, classes.last)
            nodes = Nodes.on(one, cut, width_of_cells(one, cut), (classes.ends[0], classes.last))
            tilted = TiltedLaw.of(one, cut, s, nodes, float(law.log_base[plan.index]))
            cells.append((tilted.loss_cells(), law.n))
        return end_of_line(cells, self.releases.variance, (plan.eta, plan.negligible, FIRST_BOUND * plan.eta))

    # The transform --------------------------------------------------------------------------------------------------

    def _follow(self, plan: Plan, s: float, count: int, scale: float) -> Followed | None:
        z, line = plan.theta + 1j * plan.eta * np.arange(float(count)), (plan.eta, count)
        k = np.asarray(self.releases.plain_k(z), dtype=complex)
        error, common = UNITS * np.abs(k), 0.0
        growth, farther = np.zeros(count, dtype=complex), np.zeros(count)
        nats = SIZED_RULE_NATS + math.log(self.releases.count) + math.log(4 + 4 * abs(s))
        for law in self.laws:
            base = _follow_base(law, s, line, nats, plan.index)
            if base is None:
                return None
            k, error, common = k + law.n * base[0], error + law.n * base[1], common + law.n * base[2]
            if law.more is not None:
                jumps = _follow_more(law, s, line, nats, plan.index)
                if jumps is None:
                    return None
                g, off = _growth(base, jumps, 1 if self.leaves else -1)
                growth, farther = growth + law.n * g, farther + law.n * off
        if self.is_difference:
            values, errors = difference_of_powers((k, error), (growth, farther), scale)
            return Followed(values if self.leaves else -values, errors, common)
        values = np.exp(k - scale)
        most = np.exp(k.real - scale + error)  # what overflows says nothing
        return Followed(values, most - np.abs(values) + UNITS * np.abs(values) * (4 + np.abs(k.imag)), common)


def find_end(omega: Array, log_bounds: Array, plan: Plan) -> tuple[float, float] | None:
    """Return the first of these frequencies where a line may end, and a bound of what is beyond, over e^scale."""
    bounds = np.exp(np.minimum(log_bounds + 1e-6, EXPONENT_AT_MOST))
    pieces = bounds * (1 / omega - np.append(1 / omega[1:], 0.0) + plan.eta / omega**2) / math.pi
    tails = np.cumsum(pieces[::-1])[::-1]
    fine = np.flatnonzero(tails <= plan.negligible)
    return (float(omega[fine[0]]), float(tails[fine[0]])) if len(fine) else None


def is_affordable(span: tuple[float, float], step: float, count: int) -> bool:
    nodes = (span[1] - span[0]) / max(step, 1e-300)
    return nodes <= MOST_SIZED_NODES and count * nodes <= MOST_WORK


def _follow_base(law: SizedLaw, s: float, line: tuple[float, int], nats: float, place: int) -> LogMoments | None:
    """Return log B of one release along a line."""
    classes, (eta, count) = law.classes, line
    rule = rule_for([Tilted.of(classes, law.base, s)], [0.0], eta * count, nats)
    if rule is None or not is_affordable(classes.span(law.base), rule.step, count):
        return None
    off = math.exp(rule.log_errors[0]) + float(missing_of(classes, s))
    if law.base is not Size.ANY:  # E_Q w^s itself is at least 1
        off *= math.exp(OFF_NATS - float(law.log_base[place]))
    found = log_moments_of(classes.law, s, classes.nodes(law.base, rule.step), line, off)
    if found is None or law.base is Size.ANY:
        return found
    return found if float(law.log_base[place]) - float(found[0][0].real) < OFF_NATS - found[2] else None


def _follow_more(
    law: SizedLaw, s: float, line: tuple[float, int], nats: float, place: int
) -> tuple[Complex, Array, float] | None:
    """Return J of one release over e^level, with its error, and the level."""
    assert law.more is not None
    assert law.log_more is not None
    classes, (eta, count), level = law.classes, line, float(law.log_more[place])
    rule = rule_for([Tilted.of(classes, law.more, s)], [level], eta * count, nats)
    if rule is None or not is_affordable(classes.span(law.more), rule.step, count):
        return None
    values, off = add_sizes(s, classes.law.mean, classes.nodes(law.more, rule.step), line, level)
    off = off + math.exp(rule.log_errors[0] - level)
    if law.more is Size.FAR:  # releases with t > b are far, too: a share of X_F that nodes do not see
        off = off + math.exp(_log_hidden(classes) - level)
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
