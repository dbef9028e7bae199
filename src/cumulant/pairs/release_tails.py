"""Far releases of sampled Gaussian noise: their normal tails, and bounds of their moments at real tilts.

With w, X_F and the classes of `cumulant.pairs.size_classes`, needed are E_Q[X_F w^-τ] for real τ > 0, and P(F) and
Q(F), F the event that at least one of all releases is far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.numerics.balls import LOG_ROOT
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import LEAST
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.sampled_gaussian import UNITS, Nodes, coordinate_of
from cumulant.pairs.size_classes import Size, SizeClasses, Tilted

LARGEST_EPSILON = 300.0  # e^ε and e^{2ε} are doubles
FAR_NATS = 60.0  # to which a rule for far ones goes


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

    nodes: Nodes
    masses: Array  # of φ X_F, times γ
    q: float
    more: float  # p - q = E_Q[X_F (w-1)]
    doubts: tuple[float, float, float]  # what is missed of E_Q[X_F w] and of q, of g; and how far p - q is off

    @staticmethod
    def of(classes: SizeClasses) -> FarTail:
        """Return far releases by nodes of a rule; φ X_F (w - e^ε) is entire and does not turn.

        On t ± id, d as far as φ X_F has grown by FAR_NATS: |φ X_F| <= φ X_F e^{(½+a²)d²}, |w| <= w.
        """
        square = 0.5 + classes.sharpness**2
        d = math.sqrt(FAR_NATS / square)
        law, nodes = classes.law, classes.nodes(Size.FAR, math.pi * d / FAR_NATS)
        masses = law.rate * np.exp(nodes.log_q + nodes.log_kept)
        without, within = np.exp(log_far_masses(classes, np.array([0.0, law.mean]))).tolist()
        off = 2 * math.exp(FAR_NATS) / math.expm1(2 * math.pi * d / float(nodes.t[1] - nodes.t[0]))
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
        return FarTail(nodes, masses, without, more, (of_p, of_q, of_more))

    def gain(self, epsilon: float) -> FarGain:
        """Return E_Q[X_F (w - e^ε)], as γE_Q[X_F (e^u - e^{u'})] with L(u') = ε."""
        law, t = self.nodes.law, self.nodes.t
        at = coordinate_of(epsilon, law.mean, law.rate)
        u, way = law.mean * at - law.mean**2 / 2, law.mean * (t - at)
        with np.errstate(all="ignore"):  # what is no number says nothing
            grown = self.masses * np.expm1(way)
            g = math.exp(u) * float(np.sum(grown))
            sizes = math.exp(u) * float(self.masses @ ((1 + np.exp(way)) * (law.mean * (1 + abs(at)) + law.mean**2)))
            units = math.exp(u) * float(np.abs(grown) @ (8 + t**2 / 2))
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


@final
@dataclass(frozen=True, slots=True)
class AllFar:
    """P(F) = Q(F) = 1, where every release is called far."""

    slope: float = 1.0

    def gain(self, epsilon: float) -> tuple[float, float]:
        """Return P(F) - e^ε Q(F), and how far it may be off."""
        return -math.expm1(epsilon), UNITS * math.expm1(epsilon)
