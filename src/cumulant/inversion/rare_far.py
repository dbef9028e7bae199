"""Rare steps, at least one release is far: δ_F = P(F) - e^ε Q(F) + Λ(ε); see `cumulant.inversion.rare`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.plan import Tilts, plan_for
from cumulant.inversion.rare_lines import (
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
from cumulant.pairs.negative_moments import log_negative_moments
from cumulant.pairs.normal_law import LOG_ROOT
from cumulant.pairs.sampled_gaussian import SampledGaussian, log_moments_of
from cumulant.pairs.size_classes import Size, SizeClasses, Tilted, add_sizes, rule_for

LEAK_TILTS = 2.0 ** (np.arange(-24.0, 18.0) / 6)  # over the tilt of one loss
FEWEST_LEAK_TILTS = 2  # the line, and a larger one that bounds its aliases
LEANING_NATS = 15.0  # of w^-τ, at most, on a line
NEGLIGIBLE_NATS = 27.0  # below δ, where Λ takes no line
LARGEST_RARE_EPSILON = 300.0  # e^ε and e^{2ε} are doubles


@final
@dataclass(frozen=True, slots=True, eq=False)
class FarReleases:
    """P(F) - e^ε Q(F), from nodes around c_f and beyond."""

    law: SampledGaussian
    t: Array
    masses: Array  # of φ X_F, times γ
    mass: float  # q_F
    more: float  # p_F - q_F = E_Q[X_F (w-1)]
    doubts: tuple[float, float, float]  # what is missed of E_Q[X_F w] and of q_F, of g; and how far p_F - q_F is off

    @staticmethod
    def of(classes: SizeClasses, step: float, d: float) -> FarReleases:
        """Return far releases by nodes of a rule, whose strip is d wide on each side: φ X_F (w - e^ε) is entire."""
        law, nodes = classes.law, classes.nodes(Size.FAR, step)
        masses = law.rate * np.exp(nodes.log_q + nodes.log_kept)
        without, within = np.exp(_log_far_masses(classes, np.array([0.0, law.mean]))).tolist()
        # on t ± id: |φ X_F| <= φ X_F e^{(½+a²)d²}, |w| <= w
        off = 2 * math.exp((0.5 + classes.sharpness**2) * d * d) / math.expm1(2 * math.pi * d / nodes.step)
        of_q, of_p = off * without, off * (without + law.rate * within)
        # what lies before the first node and beyond the last, and what t > b adds
        ends = (
            (nodes.t[0], math.log(2.0) + nodes.log_kept[0], -1),
            (nodes.t[-1], 0.0, 1),
            (classes.last, classes.log_hidden, 1),
        )
        for place, log_share, side in ends:
            both = side * np.array([place, place - law.mean]) / math.sqrt(2.0)
            of_all, of_sampled = np.exp(log_half_erfc(both) + log_share).tolist()
            of_q, of_p = of_q + of_all, of_p + of_all + law.rate * of_sampled
        u = law.mean * nodes.t - law.mean**2 / 2  # below 0 where releases that are far lose less than others
        more = float(masses @ np.expm1(u))
        sizes = (1 + np.exp(u)) * (8 + nodes.t**2 / 2 + law.mean * (1 + np.abs(nodes.t)) + law.mean**2)
        of_more = of_p + of_q + UNITS * float(masses @ sizes)
        return FarReleases(law, nodes.t, masses, without, more, (of_p, of_q, of_more))

    def gain(self, epsilon: float) -> tuple[float, float]:
        """Return P(F) - e^ε Q(F), and how far it may be off."""
        law, n, q, d = self.law, self.law.count, self.mass, self.more
        if not epsilon < LARGEST_RARE_EPSILON:
            return 0.0, math.inf
        at = coordinate_of(epsilon, law.mean, law.rate)
        u, way = law.mean * at - law.mean**2 / 2, law.mean * (self.t - at)
        with np.errstate(all="ignore"):  # what is no number says nothing
            grown = self.masses * np.expm1(way)
            g = math.exp(u) * float(np.sum(grown))
            sizes = math.exp(u) * float(self.masses @ ((1 + np.exp(way)) * (law.mean * (1 + abs(at)) + law.mean**2)))
            units = math.exp(u) * float(np.abs(grown) @ (8 + self.t**2 / 2))
        if not d < 1 - q:
            return 0.0, math.inf
        kept, nearer = n * math.log1p(-q), n * math.log1p(-d / (1 - q))
        second = (-math.exp(kept) * math.expm1(nearer) - n * d) - math.expm1(epsilon) * (-math.expm1(kept) - n * q)
        doubt = n * (UNITS * (units + sizes) + self.doubts[0] + math.exp(epsilon) * self.doubts[1])
        # the slope of what is of second order, in d: n((1-p)^{n-1} - 1)
        doubt += n * min(1.0, n * (q + abs(d) + self.doubts[2])) * self.doubts[2]
        rounding = 8 * UNITS * n * (abs(d) + math.expm1(epsilon) * q) * (1 + n * q)
        # q itself is off by a few units, which changes what is of second order by as many
        return float(n * g + second), float(doubt + rounding)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Leak:
    """Λ(ε) on the line -1 - τ + iω: weights over e^scale, and what bounds its error for every ε."""

    tau: float
    step: float
    scale: float
    weights: Complex
    doubts: tuple[float, float]
    tail: float
    common: float  # error of all values together, in nats
    tilts: Array
    k_tilts: Array
    log_mass: float  # log Q(F), at most

    def upper(self, epsilon: float) -> tuple[float, float]:
        """Return an upper bound of Λ(ε), and about its slope: without a line, Chernoff's."""
        if not len(self.weights):
            logs = log_chernoff(self.tilts) + self.k_tilts + (1 + self.tilts) * epsilon
            return math.exp(min(float(np.min(logs)) + 1e-9, LARGEST_RARE_NATS)), 0.0
        log_scale, terms, doubt = self._terms(epsilon)
        if not log_scale < LARGEST_RARE_NATS:
            return math.inf, 0.0
        scale, turned = math.exp(log_scale), self.step * np.arange(len(terms))
        rise = (1 + self.tau) * float(np.sum(terms.real)) + float(turned @ terms.imag)
        return scale * max(float(np.sum(terms.real)) + doubt, 0.0), scale * rise

    def lower(self, epsilon: float) -> float:
        """Return a lower bound of Λ(ε): without a line, 0."""
        if not len(self.weights):
            return 0.0
        log_scale, terms, doubt = self._terms(epsilon)
        if not log_scale < LARGEST_RARE_NATS:
            return 0.0
        return math.exp(log_scale) * max(float(np.sum(terms.real)) - doubt - self.alias(epsilon, log_scale), 0.0)

    def _terms(self, epsilon: float) -> tuple[float, Complex, float]:
        """Return log of the scale, the terms of the sum over it, and a bound of the error of their sum."""
        terms = self.weights * np.exp(-1j * epsilon * self.step * np.arange(len(self.weights)))
        log_scale = self.scale + (1 + self.tau) * epsilon
        units = self.common + UNITS * (1 + abs(self.scale) + abs(log_scale))
        rounded = abs(float(np.sum(terms.real))) * math.expm1(units)
        doubt = (self.doubts[0] + epsilon * self.doubts[1] + self.tail) * math.exp(self.common) + rounded
        return log_scale, terms, doubt

    def alias(self, epsilon: float, log_scale: float) -> float:
        """Return a bound of Σ_{k≠0} e^{-(1+τ)kW} Λ(ε + kW) over the scale; Λ(x) <= e^x Q(F), too."""
        window = 2 * math.pi / self.step
        gap = np.abs(self.tilts - self.tau) * window
        logs = log_chernoff(self.tilts) + self.k_tilts + (1 + self.tilts) * epsilon - log_scale
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            bounds = np.exp(np.minimum(logs - gap, LARGEST_RARE_NATS)) / -np.expm1(-gap)
        above = float(np.min(bounds[self.tilts < 0.99 * self.tau], initial=np.inf))
        below = float(np.min(bounds[self.tilts > 1.01 * self.tau], initial=np.inf))
        whole = math.exp(min(self.log_mass + epsilon - log_scale - self.tau * window, LARGEST_RARE_NATS))
        return min(above, whole / -math.expm1(-self.tau * window)) + below


def leak_tilts(epsilon: float, log_delta: float) -> Array:
    return np.asarray(LEAK_TILTS / epsilon * max(1.0, -log_delta / 8))


def far_and_leak(classes: SizeClasses, epsilon: float, log_delta: float) -> tuple[FarReleases, Leak] | None:
    """Return what is far: P(F) - e^ε Q(F), and the line of M^n - N^n."""
    law, n = classes.law, classes.law.count
    tau = leak_tilts(epsilon, log_delta)
    log_f, each = _bound_far(classes, tau), log_negative_moments(law, tau)
    k = math.log(n) + log_f + (n - 1) * each  # M^n - N^n <= nFM^{n-1}
    log_mass = math.log(n) + float(_log_far_masses(classes, np.zeros(1))[0]) + 1e-9
    if float(np.min(log_chernoff(tau) + k + (1 + tau) * epsilon)) <= log_delta - NEGLIGIBLE_NATS:
        far = FarReleases.of(classes, classes.step_of_far, classes.strip_of_far)
        return far, Leak(1.0, 1.0, 0.0, np.zeros(0, dtype=complex), (0.0, 0.0), 0.0, 0.0, tau, k + 1e-9, log_mass)
    some = -tau * math.log1p(-law.rate) <= LEANING_NATS
    if np.sum(some) < FEWEST_LEAK_TILTS:
        return None
    plan = plan_for(Tilts(0, tau[some], k[some] + epsilon, np.ones(int(np.sum(some))), -epsilon, log_delta))
    s, eta, scale = -plan.theta, plan.eta, float(k[plan.index])
    tilted, everything = Tilted.of(classes, Size.FAR, s), Tilted.of(classes, Size.ANY, s)
    omega = frequencies_of(eta)
    most = float(each[plan.index])
    bounds = n * most + log_expm1(n * np.logaddexp(0.0, tilted.log_moduli(omega) - most)) - scale
    end = find_end(omega, bounds, eta, plan.negligible)
    if end is None:
        return None
    count, level = math.ceil(end[0] / eta) + 1, float(log_f[plan.index])
    rule = rule_for([tilted, everything], [level, 0.0], eta * count, nats_of_rule(n, s))
    if rule is None or not is_affordable(classes.ends, rule.step, count):
        return None
    line, missing = (eta, count), missing_of(classes, s)
    found = log_moments_of(law, s, classes.nodes(Size.ANY, rule.step), line, math.exp(rule.log_errors[1]) + missing)
    if found is None:
        return None
    f, off = add_sizes(s, law.mean, classes.nodes(Size.FAR, rule.step), line, level)
    # releases with t > b are far, too: a share of X_F that nodes do not see
    hidden = classes.log_hidden + float(log_half_erfc(np.array([classes.last / math.sqrt(2.0)]))[0])
    off += math.exp(rule.log_errors[0] - level) + math.exp(hidden - level)
    values, error = difference_of_powers(n, (np.conj(found[0]), found[1], found[2]), (-f, off, level), scale)
    z = -1 - plan.theta + 1j * eta * np.arange(count)
    kernel = eta / math.pi / (z * (z + 1))
    kernel[0] /= 2
    weights = -values * kernel
    doubts = float(np.abs(kernel) @ (error + UNITS * np.abs(values))), UNITS * float(np.abs(weights) @ np.abs(z))
    far = FarReleases.of(classes, classes.step_of_far, classes.strip_of_far)
    return far, Leak(plan.theta, eta, scale, weights, doubts, end[1], found[2], tau, k + 1e-9, log_mass)


def _bound_far(classes: SizeClasses, tau: Array) -> Array:
    """Return log of bounds of ∫ φ X_F w^-τ, by cells: X_F rises, and w^-τ falls."""
    cells = Tilted.of(classes, Size.FAR, 0.0)
    a, b = cells.edges[:-1], cells.edges[1:]
    nearest = np.where(a > 0, a, np.where(b < 0, b, 0.0))
    logs = cells.windows.bound_share(Size.FAR)[0] + np.log(b - a) - nearest**2 / 2 - LOG_ROOT
    logs = logs - tau[:, None] * cells.log_w[:-1]
    outside = cells.log_outside(np.zeros(2)) - tau * math.log1p(-classes.law.rate)  # w is at least 1 - γ
    peak = np.max(logs, axis=1)
    return np.asarray(np.logaddexp(peak + np.log(np.sum(np.exp(logs - peak[:, None]), axis=1)), outside) + 1e-9)


def _log_far_masses(classes: SizeClasses, means: Array) -> Array:
    """Return log E X_F of N(m, 1): it is log Φ((m - c_f)/κ), κ² = 1 + 1/2a²."""
    return log_half_erfc((classes.far - means) / math.sqrt(2 + 1 / classes.sharpness**2))
