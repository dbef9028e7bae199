"""Losses that are monotone functions of one coordinate: quadrature nodes and cells from a few formulas.

A `Branch` is a stretch of the coordinate t with the density of P, the loss L(t) and its slope. Two rules integrate:
on the whole line the trapezoidal rule, whose error falls like e^{-2πd/h} for integrands analytic within |Im t| < d;
on a half-line or an interval Gauss-Legendre by pieces. Both are exact to rounding for |Im z| <= ω.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from cumulant.errors import OutOfReach
from cumulant.numerics.decay import Cells
from cumulant.numerics.logspace import Array
from cumulant.numerics.quadrature import POINTS, nodes_on
from cumulant.pairs.discrete import DiscreteLosses
from cumulant.pairs.pair import DominatingPair

if TYPE_CHECKING:
    from flint import arb

MOST_NODES, MOST_EXPONENTIALS = 3e6, 2e7  # of one rule
ACCURACY = 37.0  # nats below M(θ) - 1 to which the rules go: e^-37 is 8e-17
BEYOND = 60.0  # nats below the largest integrand at which pieces are left out
WAVES = 6.0  # |z+1|·(change of L) on one piece: sixteen Legendre points resolve it to 1e-20
STRIPS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)  # candidates for d, in units of the widest allowed


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CurvatureBounds:
    """Bounds of second derivatives in t, for laws tilted by θ: of the log-density, and of its quotient by |L'|."""

    least: float
    most: float
    quotient: float


class Branch(ABC):
    """A stretch of the coordinate. Branches of one kind can be taken together: their values at t are rows then."""

    __slots__ = ()

    @property
    def terms(self) -> int:
        """How many exponentials a value takes."""
        return 1

    @property
    def most_nodes(self) -> float:
        return min(MOST_NODES, MOST_EXPONENTIALS / self.terms)

    def batch_key(self, closeness: float) -> Hashable:
        """See `DominatingPair.batch_key`."""
        return self

    def stack(self, branches: Sequence[Any]) -> Branch:
        """Return this and others of its kind as one."""
        return self

    @property
    @abstractmethod
    def rises(self) -> bool:
        """Whether the loss grows with t."""

    @abstractmethod
    def loss(self, t: Any) -> Any:
        """Return L(t), monotone."""

    @abstractmethod
    def log_density(self, t: Any) -> Any:
        """Return the logarithm of the density of P."""

    def loss_and_log_density(self, t: Any) -> tuple[Any, Any]:
        """Return both, where one is made of the other."""
        return self.loss(t), self.log_density(t)

    @abstractmethod
    def log_slope(self, t: Array) -> Array:
        """Return log |L'(t)|."""

    @abstractmethod
    def curvature_bounds(self, theta: float, low: float, high: float) -> CurvatureBounds:
        """Return bounds that hold for low <= t <= high."""

    @abstractmethod
    def span(self, theta: float) -> tuple[float, float]:
        """Return the stretch outside which nothing matters for Re z <= θ."""

    @property
    @abstractmethod
    def steepest(self) -> float:
        """A bound of |L'|."""

    def steepest_on(self, theta: float) -> float:
        """Return a bound of |L'| on the span of a tilt."""
        return self.steepest

    @property
    @abstractmethod
    def nodes_per_wave(self) -> float:
        """How many nodes a radian of phase takes."""

    @abstractmethod
    def rule(self, theta: float, omega: float) -> tuple[Array, Array]:
        """Return nodes t and the logarithms of their weights."""

    @abstractmethod
    def whole_span(self, theta: float) -> tuple[float, float]:
        """Return a stretch outside which `log_tails` is small, whatever the other parameters."""

    @abstractmethod
    def log_tails(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        """Return log of a bound of ∫ |P e^{zL}| outside [low, high], for |Im t| <= y: on the whole span or beyond."""

    @abstractmethod
    def log_modulus_bound(self, low: arb, high: arb, y: arb, theta: arb, omega: arb) -> arb:
        """Return log of a bound of |P e^{zL}| where low <= Re t <= high and |Im t| <= y, for |Im z| <= ω, Re z = θ."""

    @abstractmethod
    def ball(self, t: arb) -> tuple[arb, arb]:
        """Return the loss and the density of P at a ball."""

    @abstractmethod
    def slope_ball(self, t: arb) -> arb:
        """Return |L'(t)|."""

    def ends_ball(self) -> tuple[arb | None, arb | None]:
        """Return where the stretch begins and ends; None: it does not."""
        return None, None

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        """Return cells so narrow that the log-density is almost straight on each; of several laws, what holds for all.

        K(θ) of several is a column.
        """
        low, high = self.span(theta)
        bends = self.curvature_bounds(theta, low, high)
        steepest = max(abs(bends.least), abs(bends.most), bends.quotient)
        count = math.ceil((high - low) / min(0.15, 0.7 / math.sqrt(steepest)))
        t = np.linspace(low, high, min(count, 4000) + 1)
        width = t[1] - t[0]
        losses = np.atleast_2d(self.loss(t))
        log_density = np.atleast_2d(self.log_density(t)) + theta * losses - k_theta
        quotient = log_density - self.log_slope(t)
        if not self.rises:
            losses, log_density, quotient = losses[:, ::-1], log_density[:, ::-1], quotient[:, ::-1]
        first, last = quotient[:, :-1], quotient[:, 1:]
        largest = np.maximum(first, last) + bends.quotient * width**2 / 8
        shrunk = width * math.exp(-max(bends.most, 0.0) * width**2 / 8)
        with np.errstate(over="ignore"):
            return Cells(
                np.min(losses[:, :-1], axis=0),
                np.max(losses[:, 1:], axis=0),
                np.min(shrunk * _mean_of_exponentials(log_density), axis=0),
                np.max(np.exp(first), axis=0),
                np.max(np.exp(last), axis=0),
                np.max(np.exp(largest) * (np.abs(last - first) + bends.quotient * width**2), axis=0),
            )


class Line(Branch):
    """The whole line, by the trapezoidal rule."""

    __slots__ = ()

    @property
    def nodes_per_wave(self) -> float:
        return 1 / (2 * math.pi)

    @property
    @abstractmethod
    def strip(self) -> float:
        """The largest d with L analytic within |Im t| < d, less a margin."""

    @abstractmethod
    def log_strip_growth(self, theta: float, omega: float, d: float) -> float:
        """Return the logarithm of a bound of B_d/M(θ), for |Im z| <= ω at Re z = θ."""

    @abstractmethod
    def log_excess(self, theta: float) -> float:
        """Return about log(M(θ) - 1), at most 0: what the error is to be small against."""

    def rule(self, theta: float, omega: float) -> tuple[Array, Array]:
        low, high = self.span(theta)
        step = self._step(theta, omega)
        if not (high - low) / step < self.most_nodes:
            raise OutOfReach(
                f"a loss tilted by {theta:g} takes more than {self.most_nodes:g} nodes at frequency {omega:g}"
            )
        t = low + step * np.arange(math.ceil((high - low) / step) + 1, dtype=float)
        return t, np.full(len(t), math.log(step))

    def _step(self, theta: float, omega: float) -> float:
        """Return h whose error, 2B_d/(e^{2πd/h} - 1) with B_d >= ∫ |P e^{zL}| at Im t = ±d, is far below M(θ) - 1."""
        depth = ACCURACY - self.log_excess(theta)
        steps = [
            2 * math.pi * d / (depth + self.log_strip_growth(theta, omega, d))
            for d in (share * min(self.strip, 6.0) for share in STRIPS)
        ]
        return max(steps)


class Stretch(Branch):
    """A half-line or an interval, by Gauss-Legendre rules on pieces."""

    __slots__ = ()

    @property
    def peaks_at_end(self) -> bool:
        """Whether the largest loss ends the stretch, so that large tilts see only what is near."""
        return False

    @property
    @abstractmethod
    def widest(self) -> float:
        """The widest piece on which sixteen points resolve the density and the loss."""

    @property
    def nodes_per_wave(self) -> float:
        return POINTS / WAVES

    def rule(self, theta: float, omega: float) -> tuple[Array, Array]:
        edges = self._edges(theta, omega)
        kept = np.flatnonzero(self._relevant(edges, 0.0) | self._relevant(edges, theta))
        used = edges[kept[0] : kept[-1] + 2]  # and all between, where tilts between 0 and θ peak
        return nodes_on(used[:-1], used[1:])

    def _edges(self, theta: float, omega: float) -> Array:
        """Return the ends of pieces: each resolves waves of frequency ω, and growth by tilts that reach so far.

        A distance x from where the loss is largest nothing is left of tilts above BEYOND/x.
        """
        low, high = self.span(theta)
        slope = self.steepest_on(theta)
        finest = WAVES / ((theta + 1) * slope)
        widest = min(self.widest, WAVES / max(omega * slope, 1e-300))
        if not self.peaks_at_end:
            widest = min(widest, finest)
        if not POINTS * (high - low) / widest < self.most_nodes:
            raise OutOfReach(
                f"a loss tilted by {theta:g} takes more than {self.most_nodes:g} nodes at frequency {omega:g}"
            )
        distances = [0.0]
        while (width := max(finest, distances[-1] * WAVES / BEYOND)) < widest and distances[-1] < high - low:
            distances.append(min(distances[-1] + width, high - low))
        rest = high - low - distances[-1]
        inwards = np.append(distances[:-1], np.linspace(distances[-1], high - low, math.ceil(rest / widest) + 1))
        edges = (high - inwards)[::-1] if self.rises else low + inwards
        return edges[np.diff(edges, prepend=-np.inf) > 0]

    def _relevant(self, edges: Array, theta: float) -> NDArray[np.bool_]:
        """Return which pieces carry M(θ) - 1, whose integrand is about the density times L² e^{θL} or e^{-L}."""
        losses = self.loss(edges)
        small = np.log(np.minimum(losses**2, 1.0) + 1e-300)
        worth = self.log_density(edges) + np.maximum(theta * losses, np.maximum(-losses, 0.0)) + small
        ends = np.maximum(worth[:-1], worth[1:])
        return np.asarray(ends > np.max(ends) - BEYOND)


@dataclass(frozen=True, slots=True)
class CoordinatePair(DominatingPair):
    """A loss made of branches and atoms (L, log-mass under P).

    `ball_atoms` returns the same atoms as balls, (L, mass), from the parameters.
    """

    branches: tuple[Branch, ...]
    atoms: tuple[tuple[float, float], ...] = ()
    supremum: float = math.inf
    ball_atoms: Callable[[], list[tuple[arb, arb]]] = field(default=list, compare=False, repr=False)

    @property
    def log_top_mass(self) -> float:
        return max((mass for loss, mass in self.atoms if loss == self.supremum), default=-math.inf)

    def nodes(self, theta: float, omega: float) -> DiscreteLosses:
        pieces = [np.array(self.atoms).T] if self.atoms else []
        for branch in self.branches:
            t, log_weights = branch.rule(theta, omega)
            loss, log_density = branch.loss_and_log_density(t)
            pieces.append(np.array(np.broadcast_arrays(loss, log_weights + log_density)))
        return DiscreteLosses.of(*np.concatenate(pieces, axis=-1))

    @property
    def has_atoms(self) -> bool:
        return bool(self.atoms)

    def batch_key(self, closeness: float) -> Hashable:
        return self if len(self.branches) > 1 or self.atoms else self.branches[0].batch_key(closeness)

    @staticmethod
    def stack(pairs: Sequence[CoordinatePair]) -> CoordinatePair:
        if len(pairs) == 1:
            return pairs[0]
        return CoordinatePair((pairs[0].branches[0].stack([pair.branches[0] for pair in pairs]),))

    @property
    def octaves(self) -> int:
        return 4 if max(branch.steepest for branch in self.branches) <= 2.0 else 2

    def waves(self, theta: float) -> float:
        spans = [(branch, branch.span(theta)) for branch in self.branches]
        return sum(branch.steepest_on(theta) * branch.nodes_per_wave * (high - low) for branch, (low, high) in spans)

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        positions, masses = np.array(self.atoms).reshape(-1, 2).T
        parts = [branch.cells(theta, k_theta) for branch in self.branches]
        if self.atoms:
            parts.append(Cells.of_atoms(positions, np.exp(masses + theta * positions - k_theta)))
        joined = [np.concatenate(column) for column in zip(*(_columns(part) for part in parts), strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return Cells(*(column[order] for column in joined))


def _columns(cells: Cells) -> tuple[Array, ...]:
    return cells.low, cells.high, cells.mass, cells.first, cells.last, cells.variation


def _mean_of_exponentials(logs: Array) -> Array:
    """Return the mean of e^x along each chord, (e^b - e^a)/(b - a)."""
    a, b = np.minimum(logs[:, :-1], logs[:, 1:]), np.maximum(logs[:, :-1], logs[:, 1:])
    gap = np.maximum(b - a, 1e-8)
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(b) * -np.expm1(-gap) / gap)
