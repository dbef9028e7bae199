"""Moments of releases of one size at real tilts, and the tails of far ones: bounds, or sums next to what they bound.

With w, X and the classes of `cumulant.pairs.size_classes`, needed are E_Q[X w^{1+τ}] of quiet, middle and near
releases, E_Q w^-τ of all and E_Q[X_F w^-τ] of far ones, for real τ > 0, and P and Q of far ones themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from cumulant.numerics.balls import LOG_ROOT
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import LEAST
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.sampled_gaussian import EXPONENT_AT_MOST, ROUNDING, SampledGaussian, coordinate_of
from cumulant.pairs.size_classes import NOTHING, Size, SizeClasses, Tilted

NEGATIVE_NATS = 30.0  # below 1, and for each release, to which the rule of negative moments goes
NEGATIVE_STRIPS = np.array([0.06, 0.12, 0.25, 0.5, 1.0])  # of the widest
WIDEST_NEGATIVE_STRIP, WIDEST_NEGATIVE_RADIANS = 5.0, 1.2  # d and μd
MOST_NEGATIVE_NODES = 1000  # of the rule of negative moments
TILT_NATS = 45.0  # below the integral, to which the rule of real tilts goes
MOST_TILTED_NODES = 2500  # of the rule of real tilts
SMALL = 1e-4  # x, up to which x²/2 is nearly e^x - 1 - x
UNITS = 4 * ROUNDING  # relative, of a few elementary steps
LARGEST_EPSILON = 300.0  # e^ε and e^{2ε} are doubles


# All releases ---------------------------------------------------------------------------------------------------------


def log_delta_of_sample(mean: float, rate: float, epsilon: float) -> float:
    """Return about log δ(ε) of one release that leaves: γφ(t-μ)·(m(t-μ) - m(t)), m Mills' ratio, L(t) = ε."""
    t = coordinate_of(epsilon, mean, rate)
    ends = np.array([t - mean, t])
    logs = log_half_erfc(ends / math.sqrt(2.0)) + ends**2 / 2
    near, far = np.exp(np.minimum(logs, EXPONENT_AT_MOST))
    return math.log(rate) - float(ends[0]) ** 2 / 2 + math.log(max(near - far, 1e-300))


def bound_negative_moments(mean: float, rate: float, tau: Array) -> Array:
    """Return a bound of log E_Q w^{-τ} for τ > 0, at most log (1-γ)^{-τ}.

    With x = w - 1 >= -γ, (w^{-τ} - 1 + τx)/x² falls with x, so it is largest at -γ; E_Q x = 0, E_Q x² = γ²(e^{μ²} - 1).
    """
    largest = -tau * math.log1p(-rate)
    if mean * mean >= EXPONENT_AT_MOST:
        return np.asarray(largest * (1 + 1e-12))
    near = np.minimum(largest, EXPONENT_AT_MOST / 2)
    # e^{τl} - 1 - τγ = (e^{τl} - 1 - τl) + τ(l - γ), l = -log(1-γ), without a difference
    excess = rate * rate / (2 * (1 - rate)) if rate < SMALL else -math.log1p(-rate) - rate
    grown = np.where(near < SMALL, near * near / 2 * np.exp(near / 2), np.expm1(near) - near)  # at most, near 0
    with np.errstate(over="ignore"):  # beyond doubles, and wherever that is smaller, the largest value of all
        square = np.log1p((grown + tau * excess) * math.expm1(mean * mean))
    return np.asarray(np.where(largest < EXPONENT_AT_MOST / 2, np.minimum(square, largest), largest) * (1 + 1e-12))


def log_negative_moments(law: SampledGaussian, tau: Array, releases: int) -> Array:
    """Return a bound of log E_Q w^-τ at rising τ > 0; where few nodes do, it is next to what it bounds.

    It is the trapezoidal rule with step h of φ(w^-τ - 1 + τ(w-1)), as E_Q w = 1. On t ± id, μd < π/2, |w^-τ| is at most
    w(t-a)^-τ, a = κ/μ, κ = -log cos μd, because |w(t+id)| >= 1 - γ + γe^u cos μd. The integral of φ(t)w(t-a)^-τ over
    M(τ) = E_Q w^-τ is the mean of e^{-at-a²/2} under φw^-τ/M, which is more log-concave than φ: at most e^{-am} at its
    mean m = -τμE[p], and E[p] <= E_Q[p] <= min{1, γ/(1-γ)}, as p rises with t and w^-τ falls. So the rule is off by at
    most eM + e'(1 + 2τγ), e < ½,

        e = 2e^{d²/2 + κτ min{1, γ/(1-γ)}}/(e^{2πd/h} - 1),   e' = 2e^{d²/2}/(e^{2πd/h} - 1);

    before its nodes w^-τ is at most (1-γ)^-τ, beyond them the term is at most τγe^u: normal tails.

    Holds for:  Gaussian noise on Poisson samples; rounding is estimated as on every line in doubles.
    Tightness:  within e^-30 over the number of releases and a few roundings; else that of a second moment.
    """
    coarse, rule = bound_negative_moments(law.mean, law.rate, tau), _place_rule(law, float(tau[-1]), releases)
    if rule is None:
        return coarse
    (first, last), step, strip = rule
    t = step * np.arange(math.floor(first / step), math.ceil(last / step) + 1.0)
    x = law.rate * np.expm1(law.mean * t - law.mean**2 / 2)
    masses = np.exp(math.log(step) - LOG_ROOT - t * t / 2)
    before, beyond = np.exp(log_half_erfc(np.array([-t[0], t[-1] - law.mean]) / math.sqrt(2.0))).tolist()
    off = 2 * math.exp(strip**2 / 2) / math.expm1(2 * math.pi * strip / step)
    with np.errstate(over="ignore", invalid="ignore"):  # what is no number says nothing
        powers, linear = np.expm1(np.multiply.outer(-tau, np.log1p(x))), np.multiply.outer(tau, x)
        rounded = UNITS * ((np.abs(powers) + np.abs(linear)) @ (masses * (4 + t * t / 2)))
        missed = before * np.exp(-tau * math.log1p(-law.rate)) + tau * law.rate * beyond
        share = off * np.exp(-tau * _bound_p(law) * math.log(math.cos(law.mean * strip)))
        total = (powers + linear) @ masses + rounded + missed + off * (1 + 2 * tau * law.rate)
        fine = (np.log1p(total) - np.log1p(-np.minimum(share, 0.5))) * (1 + 1e-12)
    return np.asarray(np.where(np.isfinite(fine) & (share < 0.5), np.minimum(coarse, fine), coarse))


def _bound_p(law: SampledGaussian) -> float:
    """Return at least E_Q[p]."""
    return min(1.0, law.rate / (1 - law.rate))


def _place_rule(law: SampledGaussian, most: float, releases: int) -> tuple[tuple[float, float], float, float] | None:
    """Return between which places nodes lie for τ up to the largest, their step and d; None where they are many."""
    nats = NEGATIVE_NATS + math.log(releases)
    d = NEGATIVE_STRIPS * min(WIDEST_NEGATIVE_STRIP, WIDEST_NEGATIVE_RADIANS / law.mean)
    needed = nats + d * d / 2 - most * _bound_p(law) * np.log(np.cos(law.mean * d))
    best = int(np.argmax(d / needed))
    step = float(2 * math.pi * d[best] / needed[best])
    reach = math.sqrt(2 * (nats + min(-most * math.log1p(-law.rate), EXPONENT_AT_MOST)))
    if not 2 * reach + law.mean < MOST_NEGATIVE_NODES * step:
        return None
    return (-reach, reach + law.mean), step, float(d[best])


# Near releases --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class RealTilts:
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
    def of(classes: SizeClasses, tau: Array) -> RealTilts | None:
        """Return nodes, or None if they are many. On t ± id |φX| grows by at most e^{(½+a²)d²}, and |w| does not."""
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
        at_end = closing + (1 + tau) * log_last
        return RealTilts(classes, tau, t, x, masses, exponents, at_end, missing_of(classes, 1 + tau))

    def log_below(self, place: float) -> Array:
        """Return log E_Q[X w^{1+τ}] of releases below a place, a little too large, to its own digits."""
        a = self.classes.sharpness
        kept = np.where(self.t < self.classes.last, log_half_erfc(a * (self.t - place)), NOTHING)
        grown = np.expm1(np.minimum(self.exponents + kept, EXPONENT_AT_MOST)) - (1 + self.tau[:, None]) * self.x
        small = grown @ self.masses + self.missing
        k = np.log1p(np.maximum(small, -0.9))
        end = float(log_half_erfc(np.array([a * (self.classes.last - place)]))[0])
        k = np.logaddexp(k + 1e-11 * np.abs(k) + 1e-14, self.log_closing + end)
        return np.asarray(np.where(np.max(self.exponents + kept, axis=1) < EXPONENT_AT_MOST, k, np.inf))

    def log_middle(self, classes: SizeClasses) -> Array:
        """Return log J(τ), a little too large."""
        windows = classes.windows(self.t)
        logs = self.exponents + np.where(self.t < classes.last, windows.log_share(Size.MIDDLE), NOTHING)
        peak = np.max(logs, axis=1)
        found = peak + np.log(np.exp(logs - peak[:, None]) @ self.masses + 1e-300)
        return np.asarray(np.logaddexp(found, self.log_closing + classes.log_hidden) + 1e-9)


def missing_of(classes: SizeClasses, s: Array | float) -> Any:
    """Return twice what E_Q[1 + s(w-1)] lacks of 1, at most, where sums end."""
    law, (first, last) = classes.law, classes.ends
    ends = np.array([last, last - law.mean, -first]) / math.sqrt(2.0)
    beyond, within, before = np.exp(log_half_erfc(ends)).tolist()
    return 2 * ((beyond + before) * (1 + np.abs(s) * law.rate) + np.abs(s) * law.rate * within)


# Far releases ---------------------------------------------------------------------------------------------------------


def bound_far(classes: SizeClasses, tau: Array) -> Array:
    """Return log of bounds of ∫ φ X_F w^-τ, by cells: X_F rises, and w^-τ falls."""
    cells = Tilted.of(classes, Size.FAR, 0.0)
    a, b = cells.edges[:-1], cells.edges[1:]
    nearest = np.where(a > 0, a, np.where(b < 0, b, 0.0))
    logs = cells.windows.bound_share(Size.FAR)[0] + np.log(b - a) - nearest**2 / 2 - LOG_ROOT
    logs = logs - tau[:, None] * cells.log_w[:-1]
    outside = cells.log_outside(np.zeros(2)) - tau * math.log1p(-classes.law.rate)  # w is at least 1 - γ
    peak = np.max(logs, axis=1)
    return np.asarray(np.logaddexp(peak + np.log(np.sum(np.exp(logs - peak[:, None]), axis=1)), outside) + 1e-9)


def log_far_masses(classes: SizeClasses, means: Array) -> Array:
    """Return log E X_F of N(m, 1): it is log Φ((m - c_f)/κ), κ² = 1 + 1/2a²."""
    return log_half_erfc((classes.far - means) / math.sqrt(2 + 1 / classes.sharpness**2))


class FarGain(NamedTuple):
    """E_Q[X_F (w - e^ε)] at an ε: the value, and what it may be off by rounding and by the rule."""

    value: float
    doubt: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class FarTail:
    """P and Q of far releases of one law, from nodes around c_f and beyond."""

    law: SampledGaussian
    t: Array
    masses: Array  # of φ X_F, times γ
    q: float
    more: float  # p - q = E_Q[X_F (w-1)]
    doubts: tuple[float, float, float]  # what is missed of E_Q[X_F w] and of q, of g; and how far p - q is off

    @staticmethod
    def of(classes: SizeClasses) -> FarTail:
        """Return far releases by nodes of a rule; φ X_F (w - e^ε) is entire and does not turn."""
        d = classes.strip_of_far
        law, nodes = classes.law, classes.nodes(Size.FAR, classes.step_of_far)
        masses = law.rate * np.exp(nodes.log_q + nodes.log_kept)
        without, within = np.exp(log_far_masses(classes, np.array([0.0, law.mean]))).tolist()
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
        return FarTail(law, nodes.t, masses, without, more, (of_p, of_q, of_more))

    def gain(self, epsilon: float) -> FarGain:
        """Return E_Q[X_F (w - e^ε)], as γE_Q[X_F (e^u - e^{u'})] with L(u') = ε."""
        law = self.law
        at = coordinate_of(epsilon, law.mean, law.rate)
        u, way = law.mean * at - law.mean**2 / 2, law.mean * (self.t - at)
        with np.errstate(all="ignore"):  # what is no number says nothing
            grown = self.masses * np.expm1(way)
            g = math.exp(u) * float(np.sum(grown))
            sizes = math.exp(u) * float(self.masses @ ((1 + np.exp(way)) * (law.mean * (1 + abs(at)) + law.mean**2)))
            units = math.exp(u) * float(np.abs(grown) @ (8 + self.t**2 / 2))
        return FarGain(g, UNITS * (units + sizes) + self.doubts[0] + math.exp(epsilon) * self.doubts[1])


@final
@dataclass(frozen=True, slots=True, eq=False)
class FarTails:
    """P(F) and Q(F), F: at least one of all releases is far.

    With q_i and p_i = q_i + d_i of each, P(F) - Q(F) = Π(1-q_i)^{n_i} (1 - Π(1 - d_i/(1-q_i))^{n_i}).
    """

    tails: tuple[tuple[FarTail, int], ...]

    @property
    def slope(self) -> float:
        """Σ n q, about how fast P(F) - e^ε Q(F) falls with e^ε."""
        return math.fsum(n * tail.q for tail, n in self.tails)

    @property
    def log_mass(self) -> float:
        """Log of a bound of Q(F)."""
        return math.log(self.slope) + 1e-9

    def gain(self, epsilon: float) -> tuple[float, float]:
        """Return P(F) - e^ε Q(F), and how far it may be off."""
        if not epsilon < LARGEST_EPSILON or any(not tail.more < 1 - tail.q for tail, _ in self.tails):
            return 0.0, math.inf
        first = doubt = 0.0
        kept = nearer = q = d = size = lost = 0.0
        for tail, n in self.tails:
            each = tail.gain(epsilon)
            first, doubt = first + n * each.value, doubt + n * each.doubt
            kept, nearer = kept + n * math.log1p(-tail.q), nearer + n * math.log1p(-tail.more / (1 - tail.q))
            q, d = q + n * tail.q, d + n * tail.more
            size += n * (tail.q + abs(tail.more) + tail.doubts[2])
            # a tail is off by as many units as its exponent has
            lost += n * (abs(tail.more) + math.expm1(epsilon) * tail.q) * (8 - 2 * math.log(max(tail.q, LEAST)))
        second = (-math.exp(kept) * math.expm1(nearer) - d) - math.expm1(epsilon) * (-math.expm1(kept) - q)
        # the slope of what is of second order, in d_i: n_i (Π(1-p) / (1-p_i) - 1)
        doubt += min(1.0, size) * math.fsum(n * tail.doubts[2] for tail, n in self.tails)
        return float(first + second), float(doubt + UNITS * lost * (1 + q))
