"""Lines in doubles that a plan leads to: whole ones, bands, and smoothed ones.

Where the characteristic function does not fall within a bounded number of nodes (atoms, few releases), the loss is
smoothed by one more Gaussian release of mean s. With D_s its profile,

    D_s - e^{3s²/8} (D_{2s} - D_s) <= D <= D_s :

a release more never costs less; and for fixed r = e^L the derivative of E(rR_s - t)_+ in s, R_s the ratio of that
Gaussian, is √(rt/2π) exp(-x²/2s² - s²/8), x = log r/t, so that what (s, 2s] adds is at least e^{-3s²/8} times what
(0, s] adds. Away from kinks of the profile both errors are of order s².
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cumulant.errors import OutOfReach
from cumulant.inversion.band import BandInDoubles, band_on, closed_bands
from cumulant.inversion.composed import FINE_LINES, LINES, ComposedPairs
from cumulant.inversion.contour import Contour, Lattice
from cumulant.inversion.cut import cut_by_decay, cut_by_samples, cut_on_lattice, round_count
from cumulant.inversion.enclosure import CLOSE_NATS, LineInDoubles
from cumulant.inversion.plan import TAIL_NATS, Plan
from cumulant.inversion.purse import Purse
from cumulant.pairs.discrete import line_effort

ROUGH_TAIL_NATS = 14.0  # below δ, to which the tail is pushed where the line would be long: 1e-6
CLOSE_ENOUGH_NATS = 4e-6  # slack in log δ that is worth saving a long line
MANY_CLOSED = 100  # releases in closed form, whose lines are worth nodes where bands are not enough
SHOWN_NATS = 11.0  # of what rounding is raised by, from which small K are kept to their own digits
MANY_LATTICE_POINTS = 4096  # of a lattice, beyond which the sum is cut
MOST_FREQUENCIES = 4e5  # of one line, whatever it is made of
MOST_PAID_NODES = 1e6  # of a line: about what a rule has at most
SEARCHED = 40  # sines for a frequency of a line on which ε is looked for
MOST_EVALUATIONS = 3e5  # nodes and frequencies together that one line may take


InDoubles = LineInDoubles | BandInDoubles


def paid_enclosures_at(losses: ComposedPairs, plan: Plan, purse: Purse) -> Iterator[InDoubles]:
    """Yield enclosures as long as the purse lasts; they are paid for when they have been followed.

    The first is always there, and what it says stands; where nothing is left before it, `OutOfReach` is raised.
    """
    purse.pay(0.0)
    for enclosure in enclosures_at(losses, plan):
        nodes = 1.0 if losses.closed else losses.count_nodes(plan.index, enclosure.points * plan.eta)
        purse.owe(line_effort(min(nodes, MOST_PAID_NODES), enclosure.points) + SEARCHED * enclosure.points)
        yield enclosure
        if purse.left < 0:
            return


def enclosures_at(losses: ComposedPairs, plan: Plan) -> Iterator[InDoubles]:
    """Yield enclosures that a plan leads to, cheapest first: cut early, in a band or smoothed where a line is long."""
    if losses.lattice is not None:
        yield LineInDoubles(_lattice_contour(losses, plan, losses.lattice), route="lattice contour")
        return
    if losses.closed is not None:
        yield from closed_bands(losses, plan)
        if losses.releases < MANY_CLOSED:  # of more the characteristic function falls, whatever they are
            return
    first = cut_by_decay(losses, plan, _farthest_affordable(losses, plan, MOST_EVALUATIONS / 3))
    if first is not None:
        yield _follow_line(losses, plan, first)
        return
    found = False
    for aim in (replace(plan, accuracy=ROUGH_TAIL_NATS), plan):
        cut = cut_by_decay(losses, aim, _farthest_affordable(losses, aim, MOST_EVALUATIONS))
        if cut is not None:
            found = True
            yield _follow_line(losses, aim, cut)
    if not found:
        yield from _bands_and_smooth_lines(losses, plan)


def _bands_and_smooth_lines(losses: ComposedPairs, plan: Plan) -> Iterator[LineInDoubles | BandInDoubles]:
    """Yield what atoms leave: bands, and smoothed lines where atoms are next to ε."""
    # chords have many nodes, and lie so near one another that nothing needs to be smoothed
    of_chords = any(pair.of_chords for pair, _ in losses.parts)
    for share in (1 / 4, 1.0) if of_chords else (1 / 16, 1.0):
        omega = _farthest_affordable(losses, plan, MOST_EVALUATIONS * share)
        if (band := band_on(losses, plan, omega)) is not None:
            yield band
        if band is None or not (of_chords or band.slack(plan.tilts.epsilon) <= CLOSE_ENOUGH_NATS):
            yield _smooth_line(losses, plan, omega)


def _follow_line(losses: ComposedPairs, aim: Plan, cut: tuple[float, float]) -> LineInDoubles:
    contour = _contour(losses, aim, *cut_by_samples(losses, aim, *cut))
    enough = CLOSE_NATS if aim.accuracy == TAIL_NATS else CLOSE_ENOUGH_NATS
    return LineInDoubles(contour, left_out=losses.left_out, enough=enough)


def _smooth_line(losses: ComposedPairs, plan: Plan, omega: float) -> LineInDoubles:
    """Return the enclosure by the loss smoothed so much that the line may end at ω."""
    smoothing = 2 * (plan.height + TAIL_NATS) / omega**2
    plain = _contour(losses, plan, omega, plan.negligible / omega)
    once, twice = plain.smooth(smoothing), plain.smooth(4 * smoothing)
    return LineInDoubles(once, twice, smoothing, losses.left_out, "smoothed contour", enough=CLOSE_ENOUGH_NATS)


def _farthest_affordable(losses: ComposedPairs, plan: Plan, budget: float) -> float:
    """Return the frequency up to which a line may be evaluated: a + bω nodes and ω/η frequencies, by fast transform."""
    a, b = losses.effort(plan.index)
    budget *= 1 + sum(pair.components for pair, _ in losses.parts) / 4  # a part may take a while
    return max(min((budget - a) / (b + 1 / plan.eta), MOST_FREQUENCIES * plan.eta), 64 * plan.eta)


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
