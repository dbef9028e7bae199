"""Losses that are monotone functions of one coordinate: quadrature nodes and cells from a few formulas.

A `Branch` is a law on a stretch of its coordinate t, with the factors that a map makes loss and density of. Two rules
integrate: on the whole line the trapezoidal rule, whose error falls like e^{-2πd/h} for integrands analytic within
|Im t| < d; on a half-line or an interval Gauss-Legendre by pieces. Both are exact to rounding for |Im z| <= ω.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import is_ball
from cumulant.numerics.decay import Cells
from cumulant.numerics.logspace import Array, mean_of_exponentials
from cumulant.numerics.quadrature import POINTS, nodes_on, shortened
from cumulant.pairs.discrete import DiscreteLosses, TiltedNodes
from cumulant.pairs.law import BEYOND_NATS, Law, NormalLaw
from cumulant.pairs.maps import CoordinateMap, Factor, Factors, MixtureMap, stack_maps
from cumulant.pairs.pair import DominatingPair
from cumulant.pairs.panels import tilted_nodes, waves_at

MOST_NODES, MOST_EXPONENTIALS = 3e6, 2e7  # of one rule
MOST_CUT_NODES = 5e5  # of a law that is cut off, whose tilts nothing else ends
ACCURACY_NATS = 37.0  # nats below M(θ) - 1 to which the rules go: e^-37 is 8e-17
CELL_WIDTH = 0.15  # of the coordinate, at most
WAVES = 6.0  # |z+1|·(change of L) on one piece: sixteen Legendre points resolve it to 1e-20
STRIPS = np.array([0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0])  # candidates for d, of the widest


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CurvatureBounds:
    """Bounds of second derivatives in t, for laws tilted by θ: of the log-density, and of its quotient by |L'|."""

    least: float
    most: float
    quotient: float  # the largest of all


def straight_width(bend: float, widest: float) -> float:
    """Return a width, at most `widest`, of cells on which a curve with second derivative `bend` is almost straight."""
    return min(widest, 0.7 / math.sqrt(bend)) if bend > 0 else widest


@dataclass(frozen=True, slots=True)
class Branch(ABC):
    """A law on a stretch of the coordinate, and what a map makes of it: P e^{zL} = density(t) Π w(±t)^a.

    `above` says whether the stretch is where u > 0, and not all of the law.
    """

    law: Any
    factors: Factors
    above: bool
    steepest: Any = field(init=False, repr=False, compare=False)  # a bound of |L'|
    moving: Factors = field(init=False, repr=False, compare=False)  # the factors that are not constant
    rises: bool = field(init=False, repr=False, compare=False)  # whether the loss grows with t

    nodes_per_wave: ClassVar[float]
    """How many nodes a radian of phase takes."""

    def __post_init__(self) -> None:
        moving = tuple(factor for factor in self.factors if factor[0])
        object.__setattr__(self, "moving", moving)
        object.__setattr__(self, "steepest", len(moving) * self.law.steepest)
        object.__setattr__(self, "rises", self.factors[0][1].sign > 0)

    def powers(self, theta: Any) -> list[Any]:
        """Return Re a of each factor, for Re z = θ."""
        return [sampling.power(theta) for _, sampling in self.factors]

    def in_balls(self) -> Branch:
        """Return the branch whose parameters are balls, at the precision of the moment."""
        factors = tuple((side, sampling.in_balls()) for side, sampling in self.factors)
        return replace(self, law=self.law.in_balls(), factors=factors)

    def values(self, t: Any) -> list[tuple[Factor, Any]]:
        """Return m(u) of each factor."""
        least = self.law.extremes[0]
        return [
            (sampling, sampling.value(self.law.log_ratio(side * t) if side else np.asarray(least)))
            for side, sampling in self.factors
        ]

    def loss_and_log_density(self, t: Any) -> tuple[Any, Any]:
        """Return L(t), monotone, and the logarithm of the density of P."""
        loss, log_ratio = self._loss_and_log_ratio(t)
        return loss, self.law.log_density(t) + log_ratio

    def loss_and_density(self, t: Any) -> tuple[Any, Any]:
        """Return L and the density of P in balls; t may be complex."""
        loss, log_ratio = self._loss_and_log_ratio(t)
        return loss, self.law.density(t) * np.exp(log_ratio)

    def _loss_and_log_ratio(self, t: Any) -> tuple[Any, Any]:
        """Return L, and the logarithm of the density of P beside that of Q."""
        values = self.values(t)
        losses = [value if sampling.sign > 0 else -value for sampling, value in values]
        weights = [value for sampling, value in values if sampling.sign > 0]
        return reduce(add, losses), (reduce(add, weights) if weights else 0.0)

    def log_tilted_density(self, t: Any, theta: float) -> Any:
        """Return log P e^{θL}."""
        powers = [sampling.power(theta) * value for sampling, value in self.values(t)]
        return reduce(add, powers, self.law.log_density(t))

    def log_slope(self, t: Array) -> Array:
        """Return log |L'(t)|."""
        slopes = [self.log_slope_of(side * t, sampling) for side, sampling in self.moving]
        if len(slopes) == 1:
            return slopes[0]
        return np.log(sum(map(np.exp, slopes))) if is_ball(t) else np.logaddexp(*slopes)

    def log_slope_of(self, t: Array, sampling: Factor) -> Array:
        return np.asarray(self.law.log_slope(t) + sampling.log_share(self.law.log_ratio(t)))

    def curvature_bounds(self, theta: float, low: float, high: float) -> CurvatureBounds:
        """Return bounds that hold for low <= t <= high.

        Two factors have L' = ℓ'(t) + ℓ'(-t). As ℓ'' and its slope are at most steepest and steepest² times ℓ',
        |(log L')''| <= 2 steepest².
        """
        law, powers = self.law, [sampling.power(theta) for _, sampling in self.moving]
        alone = len(powers) == 1
        bend = law.bend_on(low, high, self.factors[0][1].largest_spread) if alone else law.steepest**2 / 4
        rising, falling = (bend * sum(max(sign * power, 0.0) for power in powers) for sign in (1, -1))
        of_slope = bend if alone else 2 * law.steepest**2
        return CurvatureBounds(
            least=-law.curvature - falling,
            most=rising - law.least_curvature,
            quotient=law.curvature + max(rising, falling) + of_slope,
        )

    def span(self, theta: float) -> tuple[float, float]:
        """Return the stretch outside which nothing matters for Re z <= θ."""
        first = self.law.even if self.above else self.law.span_start(self, theta)
        return first, self.law.span_end(self, theta)

    def steepest_on(self, theta: float) -> float:
        """Return a bound of |L'| on the span of a tilt: |L'| at its end where ℓ', which grows with t, is alone."""
        followed = self.rises and not self.above and not self.law.is_cut  # however far it goes
        if followed or len(self.moving) > 1 or not isinstance(self.law, NormalLaw):
            return float(self.steepest)
        return math.exp(float(self.log_slope(np.array(self.law.span_end(self, theta)))))

    @abstractmethod
    def rule(self, theta: float, omega: float) -> tuple[Array, Array]:
        """Return nodes t and the logarithms of their weights."""

    @abstractmethod
    def count_nodes(self, theta: float, omega: float) -> float:
        """Return about how many nodes the rule has, without building it."""

    def check_count(self, nodes: float, theta: float, omega: float) -> None:
        most = min(MOST_CUT_NODES if self.law.is_cut else MOST_NODES, MOST_EXPONENTIALS / self.law.terms)
        if not nodes < most:
            raise OutOfReach(f"a loss tilted by {theta:g} takes more than {most:g} nodes at frequency {omega:g}")

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        """Return cells so narrow that the log-density is almost straight on each; of several laws, what holds for all.

        K(θ) of several is a column.
        """
        low, high = self.span(theta)
        bends = self.curvature_bounds(theta, low, high)
        apart = bends.quotient - self.law.curvature
        t = self.law.cell_ends(low, high, lambda curvature: straight_width(apart + curvature, CELL_WIDTH))
        width, bend = np.diff(t), apart + self.law.curvature_up_to(t[1:])
        losses, log_density = map(np.atleast_2d, self.loss_and_log_density(t))
        log_density = log_density + theta * losses - k_theta
        quotient = log_density - self.log_slope(t)
        if not self.rises:
            losses, log_density, quotient = losses[:, ::-1], log_density[:, ::-1], quotient[:, ::-1]
            width, bend = width[::-1], bend[::-1]
        first, last = quotient[:, :-1], quotient[:, 1:]
        largest = np.maximum(first, last) + bend * width**2 / 8
        shrunk = width * np.exp(-max(bends.most, 0.0) * width**2 / 8)
        with np.errstate(over="ignore"):
            return Cells(
                np.min(losses[:, :-1], axis=0),
                np.max(losses[:, 1:], axis=0),
                np.min(shrunk * mean_of_exponentials(log_density), axis=0),
                np.max(np.exp(first), axis=0),
                np.max(np.exp(last), axis=0),
                np.max(np.exp(largest) * (np.abs(last - first) + bend * width**2), axis=0),
            )


@final
@dataclass(frozen=True, slots=True)
class Line(Branch):
    """The whole line, by the trapezoidal rule."""

    nodes_per_wave: ClassVar[float] = 1 / (2 * math.pi)

    def rule(self, theta: float, omega: float) -> tuple[Array, Array]:
        low, high = self.span(theta)
        step = shortened(self._step(theta, omega))
        self.check_count((high - low) / step, theta, omega)
        first = math.floor(low / step)
        t = step * np.arange(first, math.ceil(high / step) + 1, dtype=float)  # exact: no node is off its place
        return t, np.full(len(t), math.log(step))

    def count_nodes(self, theta: float, omega: float) -> float:
        low, high = self.span(theta)
        return (high - low) / self._step(theta, omega)

    def _step(self, theta: float, omega: float) -> float:
        """Return h whose error, 2B_d/(e^{2πd/h} - 1) with B_d >= ∫ |P e^{zL}| at Im t = ±d, is far below M(θ) - 1.

        Each w turns by up to steepest·d and shrinks by up to its half's cosine (see `Law`), so log(B_d/M(θ)) is at most
        cd²/2 + (number of factors)·ω·steepest·d - (sum of negative powers)·log cos(steepest·d/2).
        """
        depth = ACCURACY_NATS - self.factors[0][1].log_excess(self.law.log_square, theta)
        shrunk = sum(max(-power, 0.0) for power in self.powers(theta))
        widest, steepest = min(self.law.strip, 6.0), self.law.steepest

        d = widest * STRIPS
        growth = self.law.curvature * d * d / 2 + len(self.factors) * omega * steepest * d
        growth -= shrunk * np.log(np.cos(steepest * d / 2))
        return float(np.max(2 * math.pi * d / (depth + growth)))


@final
@dataclass(frozen=True, slots=True)
class Stretch(Branch):
    """A half-line or an interval, by Gauss-Legendre rules on pieces: where u > 0, or all of the law."""

    nodes_per_wave: ClassVar[float] = POINTS / WAVES

    def rule(self, theta: float, omega: float) -> tuple[Array, Array]:
        edges = self._edges(theta, omega)
        kept = np.flatnonzero(self._relevant(edges, 0.0) | self._relevant(edges, theta))
        used = edges[kept[0] : kept[-1] + 2]  # and all between, where tilts between 0 and θ peak
        return nodes_on(used[:-1], used[1:])

    def count_nodes(self, theta: float, omega: float) -> float:
        low, high = self.span(theta)
        return POINTS * (high - low) / self._widths(theta, omega)[1]

    def _widths(self, theta: float, omega: float) -> tuple[float, float]:
        """Return how wide pieces may be where tilts reach, and everywhere."""
        slope = self.steepest_on(theta)
        finest = WAVES / ((theta + 1) * slope)
        widest = min(self.law.resolved, 2 / self.law.steepest, WAVES / max(omega * slope, 1e-300))
        # else the largest loss ends the stretch: large tilts see only what is near
        return finest, min(widest, finest) if isinstance(self.law, NormalLaw) else widest

    def _edges(self, theta: float, omega: float) -> Array:
        """Return the ends of pieces: each resolves waves of frequency ω, and growth by tilts that reach so far.

        A distance x from where the loss is largest nothing is left of tilts above BEYOND_NATS/x.
        """
        low, high = self.span(theta)
        finest, widest = self._widths(theta, omega)
        self.check_count(POINTS * (high - low) / widest, theta, omega)
        distances = [0.0]
        while (width := max(finest, distances[-1] * WAVES / BEYOND_NATS)) < widest and distances[-1] < high - low:
            distances.append(min(distances[-1] + width, high - low))
        rest = high - low - distances[-1]
        count = math.ceil(rest / widest)
        even = distances[-1] + (rest / max(count, 1)) * np.arange(count)
        inwards = np.concatenate((distances[:-1], even, [high - low]))
        edges = (high - inwards)[::-1] if self.rises else low + inwards
        return edges[np.diff(edges, prepend=-np.inf) > 0]

    def _relevant(self, edges: Array, theta: float) -> NDArray[np.bool_]:
        """Return which pieces carry M(θ) - 1, about the density times L² e^{θL} or e^{-L}, or mass."""
        losses, log_density = self.loss_and_log_density(edges)
        small = np.log(np.minimum(losses**2, 1.0) + 1e-300)
        tilted = log_density + np.maximum(theta * losses, np.maximum(-losses, 0.0))
        return _within_reach(tilted + small) | _within_reach(tilted)


@final
@dataclass(frozen=True, slots=True)
class CoordinatePair(DominatingPair):
    """A law and what a map makes of it: a loss made of branches and atoms (L, log-mass under P)."""

    law: Law
    sampling: CoordinateMap
    branches: tuple[Branch, ...] = field(init=False, repr=False, compare=False)
    atoms: tuple[tuple[Any, Any], ...] = field(init=False, repr=False, compare=False)
    octaves: int = field(init=False, repr=False, compare=False)
    left_out: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        law = self.law
        branches = tuple(
            (Line if isinstance(law, NormalLaw) and not above else Stretch)(law, factors, above)
            for above, factors in self.sampling.parts
        )
        object.__setattr__(self, "branches", branches)
        object.__setattr__(self, "atoms", (*self.sampling.atoms(self.law), *self.sampling.even_atoms(self.law)))
        object.__setattr__(self, "left_out", sum(map(law.left_out, self.rates)))
        object.__setattr__(self, "octaves", 4 if max(branch.steepest for branch in branches) <= 2.0 else 2)

    def in_balls(self) -> CoordinatePair:
        """Return the pair whose parameters are balls, at the precision of the moment."""
        return CoordinatePair(self.law.in_balls(), self.sampling.in_balls())

    @property
    def is_graded(self) -> bool:  # type: ignore[override]
        """Whether pieces become narrower towards the largest loss."""
        return all(isinstance(branch, Stretch) for branch in self.branches)

    @property
    def supremum(self) -> float:
        return self.sampling.supremum(self.law)

    @property
    def total_variation(self) -> float:
        """That of a mixture (1-γ)Q + γP' and Q is γ times that of P' and Q."""
        return self.sampling.largest_rate if isinstance(self.sampling, MixtureMap) else 1.0

    @property
    def log_square(self) -> float:
        """About log E_Q(w - 1)², at most that."""
        assert isinstance(self.law, NormalLaw)
        return float(self.law.log_square) + 2 * math.log(self.sampling.rate)

    @property
    def rates(self) -> list[Any]:
        """The rate at which P mixes in what the record contributes, of each part; 0 where it has the density of Q."""
        there = [
            next((sampling for _, sampling in factors if sampling.sign > 0), None) for _, factors in self.sampling.parts
        ]
        return [0 * self.sampling.largest_rate if one is None else one.largest_rate for one in there]

    @property
    def log_top_mass(self) -> float:
        return max((mass for loss, mass in self.atoms if loss == self.supremum), default=-math.inf)

    def nodes(self, theta: float, omega: float) -> DiscreteLosses:
        pieces = [np.array(self.atoms).T] if self.atoms else []
        for branch in self.branches:
            t, log_weights = branch.rule(theta, omega)
            loss, log_density = branch.loss_and_log_density(t)
            pieces.append(np.array(np.broadcast_arrays(loss, log_weights + log_density)))
        losses, log_masses = np.concatenate(pieces, axis=-1)
        return DiscreteLosses.of(losses, log_masses, loss_units=2.0, missing=self.left_out)

    def nodes_at(self, theta: float, omega: float, k_theta: float) -> TiltedNodes:
        return tilted_nodes(self, theta, omega, k_theta)

    @property
    def has_atoms(self) -> bool:
        return bool(self.atoms)

    def batch_key(self, closeness: float) -> Hashable:
        """Return what pairs share whose laws are at most `closeness` octaves apart, and rates eight times as many."""
        of_law = None if self.branches[0].above else self.law.batch_key(closeness)
        if of_law is None:
            return self
        return type(self.sampling), of_law, math.floor(math.log2(self.sampling.rate) / (8 * closeness))

    @staticmethod
    def stack(pairs: Sequence[CoordinatePair]) -> CoordinatePair:
        if len(pairs) == 1:
            return pairs[0]
        law = pairs[0].law.stack([pair.law for pair in pairs])
        return CoordinatePair(law, stack_maps([pair.sampling for pair in pairs]))

    def count_nodes(self, theta: float, omega: float) -> float:
        return len(self.atoms) + sum(branch.count_nodes(theta, omega) for branch in self.branches)

    def waves(self, theta: float) -> float:
        spans = [(branch, branch.span(theta)) for branch in self.branches]
        return sum(branch.steepest_on(theta) * branch.nodes_per_wave * (high - low) for branch, (low, high) in spans)

    def waves_at(self, theta: float) -> float:
        return min(self.waves(theta), sum(waves_at(branch, theta) for branch in self.branches))

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        positions, masses = np.array(self.atoms).reshape(-1, 2).T
        parts = [branch.cells(theta, k_theta) for branch in self.branches]
        if self.atoms:
            parts.append(Cells.of_atoms(positions, np.exp(masses + theta * positions - k_theta)))
        joined = [np.concatenate(column) for column in zip(*(part.columns for part in parts), strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return Cells(*(column[order] for column in joined))


def _within_reach(values: Array) -> NDArray[np.bool_]:
    """Return between which neighbours a logarithm comes within BEYOND_NATS of its largest value."""
    ends = np.maximum(values[:-1], values[1:])
    return np.asarray(ends > np.max(ends) - BEYOND_NATS)
