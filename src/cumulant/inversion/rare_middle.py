"""Rare steps, releases that are not far: δ_N - δ_S, and what bounds δ_S; see `cumulant.inversion.rare`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.inversion.contour import Contour, log_chernoff
from cumulant.inversion.plan import Plan, Tilts, plan_for
from cumulant.inversion.rare_lines import (
    FIRST_RARE_POINT,
    LARGEST_RARE_NATS,
    UNITS,
    difference_of_powers,
    find_end,
    frequencies_of,
    is_affordable,
    missing_of,
    nats_of_rule,
)
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.jump_law import coordinate_of
from cumulant.pairs.normal_law import LOG_ROOT
from cumulant.pairs.sampled_gaussian import FarCut, Nodes, TiltedLaw, log_moments_of, width_of_cells
from cumulant.pairs.size_classes import NOTHING, Size, SizeClasses, Tilted, add_sizes, rule_for

MIDDLE_TILTS = 2.0 ** np.concatenate(  # over the tilt of one loss, finer where lines are
    [np.arange(-6.0, -1.5, 0.25), np.arange(-1.5, 0.75, 1 / 12), np.arange(0.75, 2.0, 0.25)]
)
FEWEST_MIDDLE_TILTS = 8  # of those
QUIET_SHARES = 0.75, 0.6, 0.45, 0.33, 0.24, 0.17, 0.12, 0.08, 0.05, 0.03, 0.015  # of ε, the largest quiet loss
QUIET_RARE_NATS = 27.0  # below δ, where δ_S is nothing beside it
LEAST_APART = 2.0  # of c_q and c_f, over the sharpness
OFF_NATS = 2.0  # by which bounds of moments may be above them
TILT_NATS = 45.0  # the same for real tilts
MOST_TILTED_NODES = 2500  # for real tilts


def line_of_middle(
    classes: SizeClasses, epsilon: float, log_delta: float
) -> tuple[Contour, tuple[Array, Array] | None] | None:
    """Return the line of N^n - S^n, and what bounds δ_S, if any release is called quiet."""
    n, tilted = classes.law.count, _RealTilts.of(classes, MIDDLE_TILTS * ((4 - log_delta) / epsilon))
    if tilted is None:
        return None
    log_all = tilted.log_below(classes.far)
    for chosen, log_s in (_call_quiet(classes, tilted, epsilon, log_delta), (classes, None)):
        if log_s is None:
            log_j, k = log_all, n * log_all
        else:
            log_j = tilted.log_middle(chosen)
            k = n * log_s + log_expm1(n * np.logaddexp(0.0, log_j - log_s))
        known = len(k) if np.all(np.isfinite(k)) else int(np.argmin(np.isfinite(k)))  # tilts that doubles hold
        if known < FEWEST_MIDDLE_TILTS:
            continue
        tau, k = tilted.tau[:known], k[:known]
        plan = plan_for(Tilts(0, tau, k, np.ones(known), epsilon, log_delta))
        level, scale = float(log_j[plan.index]), float(k[plan.index])
        if log_s is None:
            found = _follow_all(chosen, plan, level, scale)
        else:
            found = _follow_middle(chosen, plan, (level, float(log_s[plan.index])), scale)
        if found is not None:
            line, tail, common = found
            contour = Contour.of_weights((plan.theta, plan.eta), scale, line, tail, (tau, k + 1e-9))
            common += UNITS * (4 + abs(scale))
            return contour.less_certain(common), None if log_s is None else (tau, n * log_s[:known])
    return None


Followed = tuple[tuple[Complex, Array], float, float]
"""Values along a line with their error, and the tail: all over e^scale; and the error that all have in common."""


def _follow_all(classes: SizeClasses, plan: Plan, level: float, scale: float) -> Followed | None:
    """Return N^n where nothing is called quiet."""
    law, n, s, eta = classes.law, classes.law.count, 1 + plan.theta, plan.eta
    middle, omega = Tilted.of(classes, Size.MIDDLE, s), frequencies_of(eta)
    by_path = find_end(omega, n * middle.log_moduli(omega) - scale, eta, plan.negligible)
    end = min((one for one in (by_path, _end_by_cells(classes, s, level, plan)) if one is not None), default=None)
    if end is None:
        return None
    count = math.ceil(end[0] / eta) + 1
    rule = rule_for([middle], [0.0], eta * count, nats_of_rule(n, s))
    if rule is None or not is_affordable(classes.span(Size.MIDDLE), rule.step, count):
        return None
    off = (math.exp(rule.log_errors[0]) + missing_of(classes, s)) * math.exp(OFF_NATS - level)
    found = log_moments_of(law, s, classes.nodes(Size.MIDDLE, rule.step), (eta, count), off)
    if found is None:
        return None
    k, error, common = found
    values = np.exp(k - scale)
    most = np.exp(k.real - scale + error)  # what overflows says nothing
    return (values, most - np.abs(values) + UNITS * np.abs(values) * (4 + np.abs(k.imag))), end[1], common


def _follow_middle(classes: SizeClasses, plan: Plan, levels: tuple[float, float], scale: float) -> Followed | None:
    """Return N^n - S^n, from log J(θ) and log S(θ), at most."""
    law, n, s, eta = classes.law, classes.law.count, 1 + plan.theta, plan.eta
    (log_j, log_s), omega = levels, frequencies_of(eta)
    middle, quiet = Tilted.of(classes, Size.MIDDLE, s), Tilted.of(classes, Size.QUIET, s)
    bounds = n * log_s + log_expm1(n * np.logaddexp(0.0, middle.log_moduli(omega) - log_s))
    end = find_end(omega, bounds - scale, eta, plan.negligible)
    if end is None:
        return None
    count = math.ceil(end[0] / eta) + 1
    rule = rule_for([middle], [log_j], eta * count, nats_of_rule(n, s))
    quiet_rule = rule_for([quiet], [0.0], eta * count, nats_of_rule(n, s))
    if rule is None or quiet_rule is None:
        return None
    spans = (classes.span(Size.MIDDLE), rule.step), (classes.span(Size.QUIET), quiet_rule.step)
    if not all(is_affordable(span, step, count) for span, step in spans):
        return None
    off = (math.exp(quiet_rule.log_errors[0]) + missing_of(classes, s)) * math.exp(OFF_NATS - log_s)
    log_quiet = log_moments_of(law, s, classes.nodes(Size.QUIET, quiet_rule.step), (eta, count), off)
    if log_quiet is None:
        return None
    j, rounded = add_sizes(s, law.mean, classes.nodes(Size.MIDDLE, rule.step), (eta, count), log_j)
    jumps = j, rounded + math.exp(rule.log_errors[0] - log_j), log_j
    return difference_of_powers(n, log_quiet, jumps, scale), end[1], log_quiet[2]


def _end_by_cells(classes: SizeClasses, s: float, k: float, plan: Plan) -> tuple[float, float] | None:
    """Return where the line of many releases may end: the bounds of `cumulant.numerics.decay` multiply."""
    law = classes.law
    cut = FarCut(classes.far, classes.sharpness, classes.last, -math.inf)
    cells = Nodes.on(law, cut, width_of_cells(law, cut), (classes.ends[0], classes.last))
    return TiltedLaw.of(law, cut, s, cells, k).end(plan.eta, plan.negligible, FIRST_RARE_POINT * plan.eta)


def _call_quiet(
    classes: SizeClasses, tilted: _RealTilts, epsilon: float, log_delta: float
) -> tuple[SizeClasses, Array | None]:
    """Return the classes in which losses up to the largest share of ε are quiet that can be, and log S(τ)."""
    law, chernoff = classes.law, log_chernoff(tilted.tau) - tilted.tau * epsilon
    found, first, last = (classes, None), 0, len(QUIET_SHARES)  # type: tuple[SizeClasses, Array | None], int, int
    while first < last:
        middle = (first + last) // 2
        at = coordinate_of(QUIET_SHARES[middle] * epsilon, law.mean, law.rate)
        log_s = tilted.log_below(at)
        apart = classes.sharpness * (classes.far - at) >= LEAST_APART
        if apart and float(np.min(chernoff + law.count * log_s)) <= log_delta - QUIET_RARE_NATS:
            found, last = (replace(classes, quiet=at), log_s), middle
        else:
            first = middle + 1
    return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class _RealTilts:
    """Moments at real tilts τ, on nodes of a rule that goes so far that its error is nothing."""

    classes: SizeClasses
    tau: Array
    t: Array
    x: Array
    masses: Array  # of Q
    exponents: Array  # (1+τ) log w
    log_closing: Array  # of the end at b, but for X
    missing: Array

    @staticmethod
    def of(classes: SizeClasses, tau: Array) -> _RealTilts | None:
        """Return nodes: on t ± id |φX| grows by at most e^{(½+a²)d²}, and |w| does not."""
        law, square = classes.law, 0.5 + classes.sharpness**2
        d = min(math.sqrt(TILT_NATS / square), 1.5 / law.mean)
        step = 2 * math.pi * d / (TILT_NATS + square * d * d)
        count = math.ceil(classes.last / step)
        step = classes.last / (count + 0.5)
        if not classes.ends[1] - classes.ends[0] < MOST_TILTED_NODES * step:
            return None
        t = step * np.arange(math.floor(classes.ends[0] / step), math.ceil(classes.ends[1] / step) + 1.0)
        x = law.rate * np.expm1(law.mean * t - law.mean**2 / 2)
        last = classes.last
        closing = math.log(4 * d) + square * d * d - last * last / 2 - LOG_ROOT
        log_last = math.log1p(law.rate * math.expm1(law.mean * last - law.mean**2 / 2))
        masses = np.exp(math.log(step) - LOG_ROOT - t * t / 2)
        exponents = (1 + tau[:, None]) * np.log1p(x)
        return _RealTilts(
            classes, tau, t, x, masses, exponents, closing + (1 + tau) * log_last, missing_of(classes, 1 + tau)
        )

    def log_below(self, place: float) -> Array:
        """Return log E_Q[X w^{1+τ}] of releases below a place, a little too large, to its own digits."""
        a = self.classes.sharpness
        kept = np.where(self.t < self.classes.last, log_half_erfc(a * (self.t - place)), NOTHING)
        grown = np.expm1(np.minimum(self.exponents + kept, LARGEST_RARE_NATS)) - (1 + self.tau[:, None]) * self.x
        small = grown @ self.masses + self.missing
        k = np.log1p(np.maximum(small, -0.9))
        end = float(log_half_erfc(np.array([a * (self.classes.last - place)]))[0])
        k = np.logaddexp(k + 1e-11 * np.abs(k) + 1e-14, self.log_closing + end)
        return np.asarray(np.where(np.max(self.exponents + kept, axis=1) < LARGEST_RARE_NATS, k, np.inf))

    def log_middle(self, classes: SizeClasses) -> Array:
        """Return log J(τ), a little too large."""
        windows = classes.windows(self.t)
        logs = self.exponents + np.where(self.t < classes.last, windows.log_share(Size.MIDDLE), NOTHING)
        peak = np.max(logs, axis=1)
        found = peak + np.log(np.exp(logs - peak[:, None]) @ self.masses + 1e-300)
        return np.asarray(np.logaddexp(found, self.log_closing + classes.log_hidden) + 1e-9)
