"""Jumps along a line: how fast their moments fall, and what they are.

With w, J, S and the cuts of `cumulant.pairs.jump_law`, s = γe^u/w, and any path t + iy(t), y >= 0, that does not rise,

    |J(θ+iω)| <= ∫ φ(t) e^{y²/2} X(t) w(t)^{θ+1} e^{-ω·arg w(t+iy)} |1 + iy'| dt,

    X = min{e^{a²y²} χ, 1 + e^{a²y²} (1-χ)}·e^{a_q²y²} (1-χ_q),

as |w(t+iy)| <= w(t), |erfc(x+iy)| <= e^{y²} erfc(x), and the integrand is analytic where μ|y| < π. The argument of
w(t+iy), which is that of 1 - s + se^{iμy}, grows with s, so with t, and with y as long as μy <= π/2.

Moments come from the trapezoidal rule, whose error is at most ∫ |f(t ± id(t))|/(e^{2πd(t)/h} - 1) |1 + id'| dt for any
d(t) > 0: d may fall where w turns fast. Where J has fallen it is summed along a path beside the real line, on which it
does not turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.complex_plane import Complex, add_turned, add_versines, log1p_complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.discrete import ROUNDOFF
from cumulant.pairs.jump_law import (
    DEEP,
    FAR_LEFT,
    FAR_RATIO,
    HIGHEST,
    LARGEST_EXPONENT,
    MARGIN_NATS,
    MOST_RULE_NODES,
    NEAR_RADIANS,
    RULE_NATS,
    SOFT_RADIANS,
    UNIT,
    Cut,
    Jumps,
    log_sums,
    log_w,
    log_w_beside,
    units_of_losses,
)
from cumulant.pairs.normal_law import LOG_ROOT
from cumulant.pairs.sampled_gaussian import coordinate_of

WHOLE_RADIANS = 1.2  # μy, by which the coordinate is moved where there is no near cut
SHIFTS = 1.0, 0.5, 0.25  # times the largest y: each path gives a bound
TURN_NATS = 40.0  # that an integrand may grow by on the path that bounds the error of a rule
CELLS_PER_LENGTH = 12  # of a path: 1/a next to a cut, elsewhere 1/μ or 1
JUMP_MOST_CELLS = 8000  # of a path
IRRELEVANT_NATS = 140.0  # below the largest cell, of cells that are counted together
FALLEN_NATS = 9.0  # below J(θ), from where J is summed beside the real line
LOUD_NATS = 100.0  # of a tilted mass that is said to be quiet
LOOKS = 24  # frequencies at which that is looked for
ERFC_ERROR = 1e-12  # relative error of a complex error function


class Rule(NamedTuple):
    """The trapezoidal rule at t + iy: its step, and the logarithm of its error."""

    y: float
    step: float
    log_error: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class TiltedJumps:
    """Jumps tilted by θ, in cells between edges: log w, s, and logarithms of χ_q, 1-χ_q, χ and 1-χ there."""

    jumps: Jumps
    theta: float
    edges: Array
    log_w: Array
    share: Array
    quiet: Array
    taken: Array
    kept: Array
    lost: Array

    @staticmethod
    def of(jumps: Jumps, theta: float) -> TiltedJumps:
        law, edges = jumps.law, _jump_edges(jumps, theta)
        losses, (c, a) = log_w(edges, law.mean, law.rate), law.far
        share = np.exp(math.log(law.rate) + law.mean * (edges - law.mean / 2) - losses)
        far = log_half_erfc(np.array([a * (edges - c), -a * (edges - c)]))
        return TiltedJumps(jumps, theta, edges, losses, share, *jumps.log_cuts(edges), far[0], far[1])

    @property
    def log_size(self) -> float:
        """Log J(θ), at most."""
        theta = np.array([self.theta])
        return float(self.jumps.log_moments(theta, self.jumps.law.tilt(theta))[1][0])

    @property
    def highest(self) -> float:
        """How far paths may be from the real line."""
        radians = NEAR_RADIANS if self.jumps.near else WHOLE_RADIANS
        return min(radians / self.jumps.law.mean, HIGHEST, SOFT_RADIANS / max(self.jumps.sharpness, 1e-300))

    def log_moduli(self, omega: Array) -> Array:
        """Return bounds of log|J(θ+iω)|, each of which holds for all larger ω."""
        (c, a), found = self.jumps.law.far, []
        start = (float(self.edges[0]) + DEEP / max(self.jumps.sharpness, 1.0) + c) / 2
        for highest in [shift * self.highest for shift in SHIFTS]:
            # where the far cut is sharper the path comes nearer
            lowest = min(SOFT_RADIANS / a, highest)
            y = np.interp(self.edges, [start, max(c - DEEP / a, start)], [highest, lowest])
            found.append(self._log_integral(y, -omega))
        return np.asarray(np.min(found, axis=0))

    def _log_integral(self, y: Array, omega: Array) -> Array:
        """Return log of a bound of ∫ φ e^{y²/2} X w^{θ+1} e^{ω·arg w} |1 + iy'| dt for ω <= 0; the path does not rise.

        What lies beyond the cells is taken as if it did not turn.
        """
        logs = self._log_cells(y)
        most = float(np.max(logs))
        relevant = logs > most - IRRELEVANT_NATS
        rest = math.log(np.sum(~relevant) + 1e-300) + most - IRRELEVANT_NATS
        turned = self._turn(self.share[:-1], y[1:])[relevant]
        ends = [self._log_below(float(y[0])), self._log_above(float(y[-1])), rest]
        return (
            np.asarray(np.logaddexp(log_sums(logs[relevant] + omega[:, None] * turned), _log_sum(ends))) + MARGIN_NATS
        )

    def _log_cells(self, y: Array) -> Array:
        """Return the same in each cell, but for arg w.

        Every factor is at most what it is at an end: w, s and 1 - χ rise, y, φ beyond 0 and χ fall.
        """
        return self._log_all_cells(y) + (self.jumps.sharpness * y[:-1]) ** 2 + self.taken[1:]

    def _log_quiet_cells(self, y: Array) -> Array:
        """Return the same with χ_q in place of 1 - χ_q."""
        return self._log_all_cells(y) + (self.jumps.sharpness * y[:-1]) ** 2 + self.quiet[:-1]

    def _log_all_cells(self, y: Array) -> Array:
        a, b, before, after = self.edges[:-1], self.edges[1:], y[:-1], y[1:]
        nearest = np.where(a > 0, a, np.where(b < 0, b, 0.0))
        logs = (before**2 - nearest**2) / 2 - LOG_ROOT + (self.theta + 1) * self.log_w[1:]
        grown = (self.jumps.law.far[1] * before) ** 2
        logs += np.minimum(grown + self.kept[:-1], np.logaddexp(0.0, grown + self.lost[1:]))
        return np.asarray(logs + np.log(b - a) + 0.5 * np.log1p(((before - after) / (b - a)) ** 2))

    def _turn(self, share: Array, y: Array) -> Array:
        """Return arg w(t + iy)."""
        angle = self.jumps.law.mean * y
        return np.asarray(np.arctan2(share * np.sin(angle), 1 - share + share * np.cos(angle)))

    def _log_below(self, y: float) -> float:
        """Return log of a bound of what lies below the cells, but for arg w: 1 - χ_q falls to the left, as w does."""
        return self._log_all_below(y) + (self.jumps.sharpness * y) ** 2 + float(self.taken[0])

    def _log_all_below(self, y: float) -> float:
        left = np.logaddexp(0.0, (self.jumps.law.far[1] * y) ** 2 + self.lost[0]) + y * y / 2
        return float(left + log_half_erfc(-self.edges[:1] / math.sqrt(2.0))[0] + (self.theta + 1) * self.log_w[0])

    def _log_above(self, y: float) -> float:
        """Return log of a bound of what lies above the cells, but for arg w; see `JumpLaw.log_beyond`."""
        return self._log_all_above(y) + float(np.logaddexp(0.0, (self.jumps.sharpness * y) ** 2 + self.quiet[-1]))

    def _log_all_above(self, y: float) -> float:
        high, law = float(self.edges[-1]), self.jumps.law
        c, a = law.far
        fall = high - (self.theta + 1) * law.mean + 2 * a * a * (high - c)
        if not fall > 0:
            raise OutOfReach(f"jumps tilted by {self.theta:g} are not cut off sharply enough")
        logs = (y * y - high * high) / 2 - LOG_ROOT + (self.theta + 1) * float(self.log_w[-1]) - math.log(fall)
        return logs + (a * y) ** 2 + float(self.kept[-1])

    # Moments ----------------------------------------------------------------------------------------------------------

    def line(self, eta: float, count: int, scale: float) -> tuple[Complex, Array]:
        """Return J at θ + ijη over e^scale, j < count, and a bound of its error."""
        beside = 0.5 * min(self.highest, SOFT_RADIANS / self.jumps.law.far[1])
        some = np.unique(np.geomspace(1, max(count - 1, 1), LOOKS).astype(int))
        fallen = self._log_integral(np.full(len(self.edges), beside), -eta * some.astype(float))
        enough = np.flatnonzero((fallen <= scale - FALLEN_NATS) & (some < count))
        first = int(some[enough[0]]) if len(enough) else count
        near = (self._sum if self.jumps.near else self._sum_all)(
            self._rule(eta * (first - 1)), range(first), eta, scale
        )
        if first == count:
            return near
        far = self._sum(self._rule_beside(beside), range(first, count), eta, scale)
        return np.append(near[0], far[0]), np.append(near[1], far[1])

    def _sum(self, rule: Rule, frequencies: range, eta: float, scale: float) -> tuple[Complex, Array]:
        """Return J over e^scale at multiples of η, and a bound of its error."""
        t = rule.step * np.arange(math.floor(self.edges[0] / rule.step), math.ceil(self._end / rule.step) + 1.0)
        losses, logs, (doubts, units) = self._log_masses(t, rule)
        first, count = frequencies.start, len(frequencies)
        masses = np.exp(logs - scale + 1j * eta * first * losses)
        sizes = np.abs(masses) * (ROUNDOFF + doubts)
        sums = add_turned(1j * losses.imag, sizes, eta, count).real if rule.y > 0 else float(np.sum(sizes))
        turned = float(np.abs(masses) @ (np.abs(losses) + units))  # products with ω are rounded as well
        phases = UNIT * turned * eta * np.arange(first, first + count)
        error = np.asarray(sums + phases + math.exp(min(rule.log_error - scale, LARGEST_EXPONENT)))
        return add_turned(losses, masses, eta, count), error

    def _sum_all(self, rule: Rule, frequencies: range, eta: float, scale: float) -> tuple[Complex, Array]:
        """Return the same where there is no near cut, from what all losses differ from 1."""
        law = self.jumps.law
        t = rule.step * np.arange(math.floor(FAR_LEFT / rule.step), math.ceil(self._end / rule.step) + 1.0)
        cuts = log_half_erfc(law.far[1] * (t - law.far[0]))
        values, off = self._sum_small(t, cuts, rule, law.mass_beyond(law.far), eta * np.array(frequencies, dtype=float))
        return np.exp(values - scale), np.asarray((off + UNIT * np.exp(values.real)) * math.exp(-scale))

    def _sum_small(self, t: Array, cuts: Array, rule: Rule, missing: float, omega: Array) -> tuple[Complex, Array]:
        """Return the logarithm of Σ p e^{zL} on nodes that lack so much of 1, and a bound of the error of the sum.

        It is 1 + Σ p(e^{θL} - 1) - missing + Σ p e^{θL} (e^{iωL} - 1): a small loss keeps its accuracy, as in
        `cumulant.pairs.discrete`, and n releases multiply what is small.
        """
        law, eta = self.jumps.law, float(omega[1]) if len(omega) > 1 else 0.0
        losses = log_w(t, law.mean, law.rate)
        logs = -t * t / 2 - LOG_ROOT + losses + cuts + math.log(rule.step)
        if not float(np.max(logs + self.theta * losses)) < LOUD_NATS:
            raise OutOfReach(f"losses tilted by {self.theta:g} are not quiet")
        x, masses, tilted = self.theta * losses, np.exp(logs), np.exp(logs + self.theta * losses)
        grown = np.where(x < 1, masses * np.expm1(np.minimum(x, 1.0)), tilted - masses)
        even, odd = add_versines(losses, tilted, eta, len(omega))
        values = log1p_complex(float(np.sum(grown)) - missing - even, odd)
        sizes = units_of_losses(t, losses, law.mean, law.rate)
        units = ROUNDOFF + UNIT * (np.abs(logs) + (self.theta + 2) * sizes)
        # e^x - 1 of a small x moves by e^x times what x does
        still = UNIT * (self.theta + 2) * float(tilted @ sizes) + float(
            np.abs(grown) @ (ROUNDOFF + UNIT * np.abs(logs))
        )
        still += 64 * UNIT * missing + math.exp(rule.log_error)
        turned = float((tilted * np.abs(losses)) @ (units + ROUNDOFF)) + UNIT * float(tilted @ sizes)
        return values, np.asarray(still + omega * turned)

    def _log_masses(self, t: Array, rule: Rule) -> tuple[Complex, Complex, tuple[Array, Array]]:
        """Return log w(t+iy), log of the tilted mass of each node, how far that is off, and units of each loss."""
        law, z, cuts, doubt = self.jumps.law, t + 1j * rule.y, np.zeros(len(t), dtype=complex), 0.0
        if rule.y == 0:
            losses = log_w(t, law.mean, law.rate) + 0j
            cuts += self.jumps.log_cuts(t)[1] + log_half_erfc(law.far[1] * (t - law.far[0]))
        else:
            losses = log_w_beside(z, law.mean, law.rate)
            cuts, doubt = cuts + _log_complex_cut(law.far, z, 1), 2 * ERFC_ERROR
            cuts += _log_complex_cut(self.jumps.near, z, -1) if self.jumps.near else 0.0
        logs = -z * z / 2 - LOG_ROOT + math.log(rule.step) + (self.theta + 1) * losses + cuts
        units = units_of_losses(z, losses, law.mean, law.rate)
        sizes = np.abs(z) ** 2 / 2 + (self.theta + 1) * units + np.where(np.isfinite(cuts), np.abs(cuts), 0.0)
        return np.asarray(losses), np.asarray(logs), (np.asarray(doubt + UNIT * sizes), units)

    @property
    def _end(self) -> float:
        """Where nodes end: beyond it, χ is e^-144."""
        at, sharpness = self.jumps.law.far
        return min(at + 1.2 * DEEP / sharpness, float(self.edges[-1]))

    def _rule(self, omega: float) -> Rule:
        """Return the rule for frequencies up to ω on the real line."""
        d = self._strip(omega)
        level = float(np.max(self._log_cells(np.zeros(len(d)))))
        ends = self._log_below(float(d[0])), self._log_above(float(d[-1]))
        step, aliased = self._step_within(omega, d, self._log_cells(d), level, ends)
        return self._affordable(Rule(0.0, step, _log_sum([aliased, self._log_unsummed(step, 0.0)])))

    def _strip(self, omega: float) -> Array:
        """Return how far from the real line an integrand that turns with ω has not grown by much."""
        law = self.jumps.law
        widest = min(SOFT_RADIANS / max(self.jumps.sharpness, law.far[1]), 0.5 * math.pi / law.mean, HIGHEST)
        return np.asarray(widest / np.maximum(1.0, omega * law.mean * self.share * (widest / TURN_NATS)))

    def _step_within(
        self, omega: float, d: Array, logs: Array, level: float, ends: tuple[float, float]
    ) -> tuple[float, float]:
        """Return a step whose error is e^-RULE_NATS beside e^level, and log of it, from the integrand on t ± id(t)."""
        turned = self._turn(self.share[1:], d[:-1]), self._turn(self.share[:1], d[:1]), self.jumps.law.mean * d[-1:]
        grown = np.concatenate([logs, ends]) + omega * np.concatenate(turned)
        widths = np.append(d[1:], d[[0, -1]])
        # each cell, and each end, is to be so small, or is already
        step = float(np.min(2 * math.pi * widths / np.maximum(grown - level + RULE_NATS, 1e-9)))
        around = grown - _log_of_grown(2 * math.pi * widths / step)
        return step, float(log_sums(around[None, :])[0]) + math.log(2.0) + MARGIN_NATS

    def _rule_beside(self, y: float) -> Rule:
        """Return the rule for a path beside the real line, between that and one twice as far."""
        paths = [np.full(len(self.edges), v) for v in (0.0, 2 * y)]
        bounds = [float(self._log_integral(path, np.zeros(1))[0]) for path in paths]
        worst = _log_sum(bounds)
        step = 2 * math.pi * y / (RULE_NATS + worst - bounds[0])
        aliased = worst - float(_log_of_grown(np.array([2 * math.pi * y / step]))[0]) + MARGIN_NATS
        return self._affordable(Rule(y, step, _log_sum([aliased, self._log_unsummed(step, y)])))

    def _affordable(self, rule: Rule) -> Rule:
        nodes = (self._end - float(self.edges[0])) / rule.step
        if not nodes <= MOST_RULE_NODES:
            raise OutOfReach(f"jumps tilted by {self.theta:g} take {nodes:.0f} nodes")
        return rule

    def _log_unsummed(self, step: float, y: float) -> float:
        """Return log of a bound of the rule beyond its nodes: in a cell there are at most width/h + 1 of them.

        Beyond the cells a sum is at most an integral and its first term, which is at most h times the fall there more.
        """
        low, high, law, near = float(self.edges[0]), float(self.edges[-1]), self.jumps.law, self.jumps.sharpness
        falls = abs(low) + abs(high) + (self.theta + 1) * law.mean
        falls += sum(2 * a * (DEEP + a * (high - low)) for a in (near, law.far[1]))
        ends = _log_sum([self._log_below(y), self._log_above(y)]) + math.log1p(step * falls)
        cells = self._log_cells(np.full(len(self.edges), y)) + np.log1p(step / np.diff(self.edges))
        return _log_sum([*cells[self.edges[1:] > self._end - step].tolist(), ends])

    # Quiet losses -----------------------------------------------------------------------------------------------------

    def quiet_line(self, eta: float, count: int) -> tuple[Complex, Array]:
        """Return log S at θ + ijη, j < count, and a bound of its relative error."""
        law, jumps, omega = self.jumps.law, self.jumps, eta * np.arange(count, dtype=float)
        assert jumps.near is not None
        end = min(jumps.near[0] + 1.2 * DEEP / jumps.near[1], self._end)
        rule = self._quiet_rule(float(omega[-1]), end)
        if (end - FAR_LEFT) / rule.step > MOST_RULE_NODES:
            raise OutOfReach(f"quiet losses tilted by {self.theta:g} take {(end - FAR_LEFT) / rule.step:.0f} nodes")
        t = rule.step * np.arange(math.floor(FAR_LEFT / rule.step), math.ceil(end / rule.step) + 1.0)
        x, quiet = law.far[1] * (t - law.far[0]), jumps.log_cuts(t)[0]
        values, off = self._sum_small(t, quiet + log_half_erfc(x), rule, jumps.missing, omega)
        logs = -t * t / 2 - LOG_ROOT + log_w(t, law.mean, law.rate) + math.log(rule.step) + quiet + log_half_erfc(-x)
        overlap = float(np.sum(np.exp(logs)))  # E[χ_q (1 - χ)] is missing, too
        return values, np.asarray((off + overlap) * np.exp(-values.real))

    def _quiet_rule(self, omega: float, end: float) -> Rule:
        """Return the rule for quiet losses up to ω, on nodes from FAR_LEFT to an end."""
        d = self._strip(omega)
        grown = (self.jumps.sharpness * d[[0, -1]]) ** 2 + np.array([0.0, self.quiet[-1]])
        ends = self._log_all_below(float(d[0])) + grown[0], self._log_all_above(float(d[-1])) + grown[1]
        step, aliased = self._step_within(omega, d, self._log_quiet_cells(d), 0.0, ends)
        cells = self._log_quiet_cells(np.zeros(len(d))) + np.log1p(step / np.diff(self.edges))
        beyond = cells[self.edges[1:] > end - step].tolist()
        left = -(FAR_LEFT**2) / 2 + math.log(abs(FAR_LEFT))  # w <= 1 there
        return Rule(0.0, step, _log_sum([aliased, left, *beyond, self._log_all_above(0.0) + float(self.quiet[-1]) + 1]))


def _jump_edges(jumps: Jumps, theta: float) -> Array:
    """Return the ends of cells, beyond which jumps tilted by θ fall: narrow next to cuts, wide far out."""
    law, steps = jumps.law, np.linspace(-DEEP, DEEP, 2 * math.ceil(DEEP) * CELLS_PER_LENGTH + 1)
    c, a = law.far
    width = min(1.0, 1 / law.mean) / CELLS_PER_LENGTH
    near = jumps.near[0] + steps / jumps.near[1] if jumps.near else np.array([FAR_LEFT])
    end = c + DEEP / a
    turning = coordinate_of(math.log(2.0), law.mean, law.rate)  # w turns as fast as it can beyond
    last = max(((theta + 1) * law.mean + 2 * a * a * c) / (1 + 2 * a * a), turning) + DEEP / a
    blocks = max(math.ceil(math.log(max((last - c) / (end - c), 1.0)) / math.log(FAR_RATIO)), 0)
    beyond = c + (end - c) * FAR_RATIO ** np.arange(1.0, blocks + 1)
    edges = np.unique(np.concatenate([near, np.arange(near[0], end, width), c + steps / a, beyond]))
    edges = edges[edges >= near[0]]
    if len(edges) > JUMP_MOST_CELLS:
        raise OutOfReach(f"jumps take {len(edges)} cells")
    return np.asarray(edges)


def _log_complex_cut(cut: Cut, z: Complex, side: int) -> Complex:
    """Return log ½ erfc(±a(z - c))."""
    from scipy.special import erfc

    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(np.log(erfc(side * cut[1] * (z - cut[0])) / 2))


def _log_of_grown(x: Array) -> Array:
    """Return log(e^x - 1) for x > 0."""
    return np.asarray(x + np.log(-np.expm1(-x)))


def _log_sum(logs: list[float]) -> float:
    return float(np.logaddexp.reduce(logs))
