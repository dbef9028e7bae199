"""Lines in doubles that a plan leads to: whole ones, and bands, which ask nothing of the losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cumulant.errors import OutOfReach
from cumulant.inversion.band import BandInDoubles, bands
from cumulant.inversion.composed import FINE_LINES, LINES, ComposedPairs
from cumulant.inversion.contour import Contour, Lattice
from cumulant.inversion.cut import cut_by_decay, cut_by_samples, cut_on_lattice, round_count
from cumulant.inversion.enclosure import LineInDoubles
from cumulant.inversion.plan import DROWNING_NATS, Plan
from cumulant.inversion.work_budget import WorkBudget
from cumulant.pairs.discrete import line_effort

SHORT_POINTS = 3000  # of a line that is followed whole; where it is longer a band is shorter
SHOWN_NATS = 11.0  # of what rounding is raised by, from which small K are kept to their own digits
MANY_LATTICE_POINTS = 4096  # of a lattice, beyond which the sum is cut
MOST_PAID_NODES = 1e6  # of a line: about what a rule has at most
SEARCHED = 40  # sines for a frequency of a line on which ε is looked for
MOST_EVALUATIONS = 3e5  # nodes and frequencies together that one line may take


InDoubles = LineInDoubles | BandInDoubles


def paid_enclosures_at(losses: ComposedPairs, plan: Plan, budget: WorkBudget) -> Iterator[InDoubles]:
    """Yield enclosures as long as the budget lasts; they are paid for when they have been followed.

    The first is always there, and what it says stands; where nothing is left before it, `OutOfReach` is raised.
    """
    budget.pay(0.0)
    for enclosure in enclosures_at(losses, plan):
        nodes = 1.0 if losses.closed else losses.count_nodes(plan.index, enclosure.points * plan.eta)
        budget.owe(line_effort(min(nodes, MOST_PAID_NODES), enclosure.points) + SEARCHED * enclosure.points)
        yield enclosure
        if budget.left < 0:
            return


def enclosures_at(losses: ComposedPairs, plan: Plan) -> Iterator[InDoubles]:
    """Yield enclosures that a plan leads to: a whole line where it is short, and bands."""
    if losses.lattice is not None:
        yield LineInDoubles(_lattice_contour(losses, plan, losses.lattice), route="lattice contour")
        return
    if losses.closed is not None:
        yield from bands(losses, plan.tilts)
        return
    cut = cut_by_decay(losses, plan, _farthest_affordable(losses, plan))
    is_short = cut is not None and cut[0] <= SHORT_POINTS * plan.eta and plan.height <= DROWNING_NATS
    if cut is not None and is_short:
        yield (line := _follow_line(losses, plan, cut))
        if line.slack(plan.tilts.epsilon) <= plan.tilts.nats_apart:
            return
    try:
        yield from bands(losses, plan.tilts)
    except OutOfReach:
        if cut is None:
            raise
    else:
        is_short = is_short or plan.tilts.is_guess  # what a rough band says comes first
    if cut is not None and not is_short:
        yield _follow_line(losses, plan, cut)


def _follow_line(losses: ComposedPairs, plan: Plan, cut: tuple[float, float]) -> LineInDoubles:
    return LineInDoubles(_contour(losses, plan, *cut_by_samples(losses, plan, *cut)), left_out=losses.left_out)


def _farthest_affordable(losses: ComposedPairs, plan: Plan) -> float:
    """Return the frequency up to which a line may be evaluated: a + bω nodes and ω/η frequencies, by transform."""
    a, b = losses.effort(plan.index)
    # a part may take a while
    budget = MOST_EVALUATIONS * (1 + sum(pair.components for pair, _ in losses.parts) / 4)
    return max((budget - a) / (b + 1 / plan.eta), 64 * plan.eta)


def _contour(losses: ComposedPairs, plan: Plan, omega: float, tail: float) -> Contour:
    points = plan.index, plan.eta, round_count(omega / plan.eta)
    # far above the answer, and of many releases, every unit of M that is rounded shows
    shown = plan.height + math.log(losses.releases + 1)
    line = losses.line(points, FINE_LINES if shown > SHOWN_NATS else LINES)
    return Contour.of((plan.theta, plan.eta), line, tail, (plan.tilts.theta, plan.tilts.k))


def _lattice_contour(losses: ComposedPairs, plan: Plan, lattice: Lattice) -> Contour:
    """Return the sum over one period, whose points are 2πj/(N·span), N odd, up to where it is proven to have fallen."""
    points = 2 * math.ceil(math.pi / (plan.eta * lattice.span)) + 1
    eta = 2 * math.pi / (points * lattice.span)
    count, tail = (points + 1) // 2, 0.0
    if count > MANY_LATTICE_POINTS:
        cut = cut_on_lattice(losses, plan, lattice, eta)
        if cut is None or cut[0] / eta > MOST_EVALUATIONS:
            raise OutOfReach(f"one period of the lattice of losses takes {points} points")
        count, tail = min(count, math.ceil(cut[0] / eta) + 1), cut[1]
    line = losses.line((plan.index, eta, count), LINES)
    return Contour.of((plan.theta, eta), line, tail, (plan.tilts.theta, plan.tilts.k), lattice)
