"""M(z) of a dominating pair as balls, on the nodes of a line, divided by e^{K(θ)}; and its law in cells, as balls.

Everything is computed from the parameters of the pair, each of which stands for an interval: 1/σ was rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import (
    as_ball,
    column,
    complex_ball,
    lower_floats,
    precision,
    product_effort,
    transform_balls,
    transform_effort,
    upper_float,
    upper_floats,
)
from cumulant.numerics.decay import Cells
from cumulant.pairs.allocation import AllocatedPair
from cumulant.pairs.cache import CACHE
from cumulant.pairs.coordinate import CELL_WIDTH, Branch, CoordinatePair, straight_width
from cumulant.pairs.curve import tilt
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.law import NormalMixture
from cumulant.pairs.maps import Join
from cumulant.pairs.mixed import MixedPair
from cumulant.pairs.ordered import Excess, excess_of
from cumulant.pairs.pair import DominatingPair
from cumulant.pairs.proven_rule import ProvenRule, proven_rule

if TYPE_CHECKING:
    from flint import arb

MOST_BALL_NODES = 50_000  # of one rule
MOST_BALL_EXPONENTIALS = 400_000  # over all nodes: a group of k records takes k + 1 at each
MOST_CELLS = 1000  # of one branch
RECTANGLE_MICROSECONDS = 40  # a bound of a modulus on a rectangle
NODE_MICROSECONDS, TERM_MICROSECONDS = 12, 4  # a loss and its weight; more for each term of a mixture
SLIVER = 1e-9  # left out at both ends of a stretch, whose ends are known to rounding only
EXCESS_BITS = 256  # of precision
FEW_OUTPUTS = 1000  # whose losses are formed to look for the largest
BEND_ROUNDING = 2.0**-30  # of the terms of a bound of curvature: 2^22 units, and it takes a few dozen operations


@final
@dataclass(frozen=True, slots=True, eq=False)
class BallNodes:
    """Losses, their weights under P given that the loss is finite, and the quadrature's error relative to e^{K(θ)}."""

    losses: list[arb]
    weights: list[arb]
    error: arb


def tilted_moments(nodes: BallNodes, theta: float, k_theta: float, *, step: arb, count: int) -> list[Any]:
    """Return e^{-K} M(θ + ijη) for j < count, K and θ taken as the doubles they are."""
    radius = _radius(nodes)
    values = transform_balls(nodes.losses, _tilted(nodes, theta, k_theta), step, count)
    return [_widened(value, radius) for value in values]


def moment_of(nodes: BallNodes, theta: float, k_theta: float) -> arb:
    """Return e^{-K} M(θ)."""
    return sum(_tilted(nodes, theta, k_theta), as_ball(0.0)) + _radius(nodes)


def _radius(nodes: BallNodes) -> arb:
    if not nodes.error.is_finite():
        raise OutOfReach("the error of a quadrature is not known")
    return as_ball(0.0, upper_float(nodes.error)) if nodes.error > 0 else as_ball(0.0)


def _tilted(nodes: BallNodes, theta: float, k_theta: float) -> list[arb]:
    scale, power = as_ball(k_theta), as_ball(theta)
    return [weight * (power * x - scale).exp() for x, weight in zip(nodes.losses, nodes.weights, strict=True)]


@final
@dataclass(frozen=True, slots=True)
class NodeCount:
    """How many nodes there are, about how many microseconds they take, proof and all, and whether they are moved."""

    nodes: int
    microseconds: float
    moved: bool = False

    def transform_effort(self, count: int, bits: int) -> float:
        """Return about how many microseconds the moments of these nodes take at `count` points."""
        return (product_effort if self.moved else transform_effort)(self.nodes, count, bits)


def ball_nodes(pair: DominatingPair, theta: float, omega: float, k_theta: float, *, bits: int) -> BallNodes:
    """Return nodes on which M(z) is right for Re z = θ and 0 <= Im z <= ω; they may be beside the real line."""
    count_nodes(pair, theta, omega, k_theta, bits=bits)
    return _evaluated_nodes(pair, theta, omega, k_theta, bits)


def count_nodes(pair: DominatingPair, theta: float, omega: float, k_theta: float, *, bits: int) -> NodeCount:
    """Return how many nodes M(z) takes for Re z = θ and 0 <= Im z <= ω; raise `OutOfReach` if they are too many."""
    proof, moved = 0.0, False
    if isinstance(pair, FinitePair | AllocatedPair):
        nodes = work = int(pair.count_nodes(theta, omega))
    elif isinstance(pair, CoordinatePair):
        rules = [(rule, branch.law.terms) for branch, rule in _rules(pair, theta, omega, k_theta, bits)]
        nodes, work = sum(len(rule.nodes) for rule, _ in rules), sum(len(rule.nodes) * n for rule, n in rules)
        moved = any(rule.y != 0 for rule, _ in rules)
        proof = sum(rule.rectangles * (RECTANGLE_MICROSECONDS + TERM_MICROSECONDS * n) for rule, n in rules)
    elif isinstance(pair, MixedPair) and pair.failure == 0:
        counts = [count_nodes(part, theta, omega, k, bits=bits) for part, k in _parts_at(pair, k_theta)]
        nodes, work = sum(each.nodes for each in counts), 0
        if nodes > MOST_BALL_NODES:
            raise OutOfReach(f"a certificate would take sums over {nodes} nodes")
        return NodeCount(nodes, sum(each.microseconds for each in counts), any(each.moved for each in counts))
    else:
        raise OutOfReach(f"no certificate is known for {type(pair).__name__}")
    if nodes > MOST_BALL_NODES or work > MOST_BALL_EXPONENTIALS:
        raise OutOfReach(f"a certificate would take sums over {nodes} nodes")
    return NodeCount(nodes, proof + NODE_MICROSECONDS * nodes + TERM_MICROSECONDS * work, moved)


@CACHE.remember
def _rules(
    pair: CoordinatePair, theta: float, omega: float, k_theta: float, bits: int
) -> list[tuple[Branch, ProvenRule]]:
    with precision(bits):
        return [(branch, proven_rule(branch, theta, omega, k_theta, bits)) for branch in pair.branches]


@CACHE.remember  # the decay, K and the first point of a line ask for the same
def _evaluated_nodes(pair: DominatingPair, theta: float, omega: float, k_theta: float, bits: int) -> BallNodes:
    if isinstance(pair, FinitePair):
        return BallNodes(*_finite_columns(pair, bits), as_ball(0.0))
    if isinstance(pair, AllocatedPair):
        return _allocated_nodes(pair, theta, omega, k_theta, bits)
    if isinstance(pair, MixedPair):
        return _mixed_nodes(pair, theta, omega, k_theta, bits)
    assert isinstance(pair, CoordinatePair)  # checked
    with precision(bits):
        atoms = _atoms(pair)
        losses, weights = [x for x, _ in atoms], [mass for _, mass in atoms]
        error = as_ball(0.0)
        for branch, rule in _rules(pair, theta, omega, k_theta, bits):
            error += rule.log_error.exp()
            ts = column([complex_ball(t, rule.y) if rule.y else t for t, _ in rule.nodes])
            more, densities = branch.in_balls().loss_and_density(ts)
            losses += more.tolist()
            weights += [density * weight for density, (_, weight) in zip(densities, rule.nodes, strict=True)]
        return BallNodes(losses, weights, error)


def _allocated_nodes(pair: AllocatedPair, theta: float, omega: float, k_theta: float, bits: int) -> BallNodes:
    with precision(bits):
        nodes = BallNodes(*_allocated_columns(pair, bits), as_ball(0.0))
        sum_at_theta, scale = moment_of(nodes, theta, k_theta), (-as_ball(k_theta)).exp()
        return replace(nodes, error=pair.error_in_balls(sum_at_theta, theta, omega, scale))


@CACHE.remember
def _allocated_columns(pair: AllocatedPair, bits: int) -> tuple[list[arb], list[arb]]:
    with precision(bits):
        return pair.losses_in_balls()


def _parts_at(pair: MixedPair, k_theta: float) -> list[tuple[DominatingPair, float]]:
    """Return the parts, and beside what their moments are counted: K(θ) of the mixture less the log of their share."""
    return [(part, k_theta - math.log(share)) for share, part in pair.parts]


def _mixed_nodes(pair: MixedPair, theta: float, omega: float, k_theta: float, bits: int) -> BallNodes:
    """Return the nodes of all parts; what the shares lack of 1 has a loss of 0, and no part of what they exceed it by.

    Shares are doubles, of which the largest may have been rounded up.
    """
    with precision(bits):
        shares = [as_ball(share) for share, _ in pair.parts]
        rest = 1 - as_ball(pair.unseen) - sum(shares, as_ball(0.0))
        if rest < 0:
            largest = max(range(len(shares)), key=lambda i: pair.parts[i][0])
            shares[largest] += rest
            rest = as_ball(0.0)
        losses, weights, error = [as_ball(0.0)], [rest], as_ball(0.0)
        for share, (part, k) in zip(shares, _parts_at(pair, k_theta), strict=True):
            nodes = ball_nodes(part, theta, omega, k, bits=bits)
            losses += nodes.losses
            weights += [share * weight for weight in nodes.weights]
            error += share * nodes.error * (as_ball(k) - as_ball(k_theta)).exp()
        if any(not isinstance(x, type(losses[0])) for x in losses):  # some are beside the real line
            losses = [complex_ball(x.real, x.imag) for x in losses]
        return BallNodes(losses, weights, error)


def _atoms(pair: CoordinatePair) -> list[tuple[arb, arb]]:
    """Return (L, mass under P) of each atom, from the parameters."""
    return [(loss, log_mass.exp()) for loss, log_mass in pair.in_balls().atoms]


@CACHE.remember
def _finite_columns(pair: FinitePair, bits: int) -> tuple[list[arb], list[arb]]:
    """Return losses and their masses given that the loss is finite."""
    with precision(bits):
        columns = pair.atoms.balls()
        finite = 1 - columns.failure
        # what has no mass is no output: its loss must not count as the largest
        there = [(x, mass) for x, mass in zip(columns.losses, columns.masses, strict=True) if not mass.is_zero()]
        return [x for x, _ in there], [mass / finite for _, mass in there]


def _widened(value: Any, radius: arb) -> Any:
    from flint import acb

    return value + acb(radius, radius)


# The largest loss, and what is revealed -------------------------------------------------------------------------------


def excess_of_pair(pair: FinitePair, bits: int) -> Excess:
    """Return Σ (p - tq)_+ of a pair on finitely many outputs."""
    with precision(bits):
        return excess_of(pair.atoms, bits)


def supremum_ball(pair: DominatingPair, bits: int) -> arb | None:
    """Return the largest loss, from the parameters; None where there is none."""
    if math.isinf(pair.supremum):
        return None
    with precision(bits):
        if isinstance(pair, FinitePair) and len(pair.losses) > FEW_OUTPUTS:
            return excess_of_pair(pair, EXCESS_BITS).top().log1p()
        if isinstance(pair, MixedPair):
            return _largest([as_ball(0.0), *(supremum_ball(part, bits) for _, part in pair.parts)])
        if top := _top_atoms(pair, bits):
            return _hull([loss for loss, _ in top])
        assert isinstance(pair, CoordinatePair)
        assert isinstance(pair.sampling, Join)  # of the others without atoms none has a largest loss
        law = (pair.law.law if isinstance(pair.law, CutLaw) else pair.law).in_balls()
        assert isinstance(law, NormalMixture)
        # w falls to the share of what lies where Q does
        shares = [share for share, mean in law.components(as_ball(pair.sampling.rate)) if mean == 0]
        return -sum(shares, as_ball(0.0)).log()


def top_mass_ball(pair: DominatingPair, bits: int) -> arb:
    """Return P(L = sup L) given that L is finite, from below; losses that balls do not tell apart count together."""
    with precision(bits):
        return sum((mass for _, mass in _top_atoms(pair, bits)), as_ball(0.0))


def _top_atoms(pair: DominatingPair, bits: int) -> list[tuple[arb, arb]]:
    """Return the losses that may be the largest, with their masses; none where no atom is."""
    if isinstance(pair, FinitePair):
        atoms = list(zip(*_finite_columns(pair, bits), strict=True))
    else:
        atoms = _atoms(pair) if isinstance(pair, CoordinatePair) else []
    top = _largest([loss for loss, _ in atoms])
    return [(loss, mass) for loss, mass in atoms if loss.overlaps(top)]


def failure_ball(pair: DominatingPair) -> arb:
    return excess_of_pair(pair, EXCESS_BITS).failure if isinstance(pair, FinitePair) else as_ball(pair.failure)


def _largest(losses: list[Any]) -> Any:
    return reduce(lambda x, y: x.max(y), losses) if losses else None


def _hull(losses: list[Any]) -> Any:
    return reduce(lambda x, y: x.union(y), losses)


# The law in cells -----------------------------------------------------------------------------------------------------


@CACHE.remember
def proven_cells(pair: DominatingPair, index: int, k_theta: float, bits: int) -> Cells:
    """Return the law tilted by e^{θL} in cells, every number rounded to the side that claims less decay.

    e^{k_theta} must be at least M(θ).
    """
    with precision(bits):
        rows = _cells_of(pair, tilt(index), as_ball(k_theta), bits)
    lowest, highest, mass, *variation = zip(*rows, strict=True) if rows else [()] * 6
    below, above = lower_floats([*lowest, *mass]), [upper_floats(column) for column in (highest, *variation)]
    columns = np.array([below[: len(rows)], above[0], below[len(rows) :], *above[1:]]).reshape(6, -1)
    columns = columns[:, columns[2] > 0]  # none where every mass is too small for a double
    return Cells(*columns[:, np.argsort(columns[0], kind="stable")])


CellRow = tuple["arb", "arb", "arb", "arb", "arb", "arb"]


def _cells_of(pair: DominatingPair, theta: float, k_theta: arb, bits: int) -> list[CellRow]:
    if isinstance(pair, FinitePair):
        atoms = list(zip(*_finite_columns(pair, bits), strict=True))
        return [_atom_cell(loss, mass, theta, k_theta) for loss, mass in atoms]
    if isinstance(pair, CoordinatePair):
        rows = [_atom_cell(loss, mass, theta, k_theta) for loss, mass in _atoms(pair)]
        for branch in pair.branches:
            rows += _branch_cells(branch, theta, k_theta)
        return rows
    if isinstance(pair, AllocatedPair):
        return []  # its Gaussian part says it all
    if isinstance(pair, MixedPair):  # those of the part that weighs most: what cells leave out counts for nothing
        heaviest = max(pair.parts, key=lambda row: math.log(row[0]) + _log_moment_near(row[1], theta))
        return _cells_of(heaviest[1], theta, k_theta - as_ball(heaviest[0]).log(), bits)
    raise OutOfReach(f"no certificate is known for {type(pair).__name__}")


def _log_moment_near(pair: DominatingPair, theta: float) -> float:
    """Return about K(θ)."""
    return float(pair.nodes(theta, 0.0).cumulants(np.array([theta]))[0][0, 0])


def _atom_cell(loss: arb, mass: arb, theta: float, k_theta: arb) -> CellRow:
    nothing = as_ball(0.0)
    return loss, loss, mass * (as_ball(theta) * loss - k_theta).exp(), nothing, nothing, as_ball(math.inf)


def _branch_cells(branch: Branch, theta: float, k_theta: arb) -> list[CellRow]:
    """Return cells of one branch; see `Branch.cells`, of which this is the proven form.

    On a cell of width h the log-density is at least its chord less most·h²/8, and the mean of e^x along a chord is at
    least the geometric mean of its ends.
    """
    low, high = branch.span(theta)
    sliver = SLIVER * (high - low)
    low, high = low + sliver, high - sliver
    bends = branch.curvature_bounds(theta, low, high)
    apart = bends.quotient - branch.law.curvature
    t = branch.law.cell_ends(low, high, lambda curvature: straight_width(apart + curvature, CELL_WIDTH))
    t = t if len(t) <= MOST_CELLS + 1 else np.linspace(low, high, MOST_CELLS + 1)
    rounded = BEND_ROUNDING * (abs(bends.quotient) + branch.law.curvature)
    bends_up_to = apart + branch.law.curvature_up_to(t[1:]) + rounded
    most = as_ball(max(bends.most, 0.0) + rounded)
    points = _points(branch, [as_ball(x) for x in t.tolist()], as_ball(theta), k_theta)
    cells = zip(pairwise(points), bends_up_to.tolist(), strict=True)
    return [_cell(a, b, bend, most) if branch.rises else _cell(b, a, bend, most) for (a, b), bend in cells]


class _Point(NamedTuple):
    """The coordinate, the loss, the tilted density in the coordinate, and in the loss."""

    t: arb
    loss: arb
    density: arb
    quotient: arb


def _points(branch: Branch, ts: list[arb], theta: arb, k_theta: arb) -> list[_Point]:
    exact, places = branch.in_balls(), column(ts)
    columns = zip(ts, *exact.loss_and_density(places), np.exp(exact.log_slope(places)), strict=True)
    tilted = [(t, loss, density * (theta * loss - k_theta).exp(), slope) for t, loss, density, slope in columns]
    return [_Point(t, loss, density, density / slope) for t, loss, density, slope in tilted]


def _cell(a: _Point, b: _Point, bend: float, most: arb) -> CellRow:
    """Return the cell between two points; second derivatives are at most `bend` of the quotient, `most` above 0."""
    width = abs(b.t - a.t)
    curve = width**2 * bend
    mass = width * (-most * width**2 / 8).exp() * (a.density * b.density).sqrt()
    turn = abs((b.quotient / a.quotient).log()) + curve
    variation = a.quotient.max(b.quotient) * (curve / 8).exp() * turn
    return a.loss.min(b.loss), a.loss.max(b.loss), mass, a.quotient, b.quotient, variation
