"""Nodes of a loss on both sides of a place: near releases lose at most so much, far ones more.

A hard cut leaves nothing for the trapezoidal rule, so every stretch of the coordinate is integrated by Gauss-Legendre
panels. For f analytic on the ellipse around [-1, 1] whose half-axes add up to ρ, the rule with m nodes is off by at
most (64/15) ρ^{-2m}/(1 - ρ^{-2}) times the largest |f| there. With ρ = 4, m = 32 and a panel of half-width a it
reaches 1.125a beyond both ends and 1.875a off the axis, and the error is e^{-86} times the largest |f|, of which

    f = density(t) e^{zL(t)},   |f| <= f(Re t) e^{cy²/2 + |Im z| ℓ'y},   y <= 1.875a,

as a bound of -(log density)'' is c and the phase of w turns by at most ℓ'y (`cumulant.pairs.law`). Panels are so narrow
that all this grows by at most 45 nats: what is left is e^{-41} of the largest f of a panel.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.logspace import Array
from cumulant.numerics.quadrature import legendre
from cumulant.pairs.coordinate import Branch, CoordinatePair
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.law import NormalLaw
from cumulant.pairs.maps import CoordinateMap, Join, Leave, MixtureMap
from cumulant.pairs.mixed import MixedPair
from cumulant.pairs.pair import DominatingPair

PANEL_POINTS = 32  # Gauss-Legendre nodes of one panel
RADIANS = 24.0  # of the phase of e^{zL}, on one panel
GROWTH_NATS = 12.0  # of the logarithm of the tilted density, on one panel
WIDEST = 3.0  # over the root of the curvature
STEEPEST = 1.0  # over the steepest u'
PLACES = 513  # at which a stretch is looked at before it is divided
UNSEEN_NATS = 60.0  # below the largest tilted density, where nothing matters
PANELS_REACH = 16.0  # standard deviations, beyond which a normal law is left out
BEYOND_REACH = 4e-57  # of each release, at most: twice Φ(-16) on both sides
MOST_PANEL_NODES = 500_000  # of one stretch
ZOOM, ZOOMS = 64, 11  # of a stretch that is divided again and again: 2^66
FARTHEST = 2.0**14  # t where a place is looked for

PanelStretch = tuple[float, float]
TiltRange = tuple[float, float]
"""The least and the largest Re z."""


class Weighed(NamedTuple):
    """Losses, and the logarithms of their masses."""

    losses: Array
    log_masses: Array


def between(pair: DominatingPair, low: float, high: float, tilts: TiltRange, omega: float) -> Weighed:
    """Return nodes of L under P where low < L <= high, for tilts between two and |Im z| <= ω."""
    if isinstance(pair, FinitePair):
        nodes = pair.nodes(tilts[1], omega)
        return _kept_between(Weighed(nodes.losses[0], nodes.log_masses[0]), low, high)
    if isinstance(pair, MixedPair):
        return _mixed_parts(
            pair, [(share, between(part, low, high, tilts, omega)) for share, part in pair.parts], low, high
        )
    if not isinstance(pair, CoordinatePair):
        raise OutOfReach(f"{type(pair).__name__} is not divided")
    atoms = [_kept_between(Weighed(*np.array(pair.atoms).T), low, high)] if pair.atoms else []
    return _side_by_side([*atoms, *(_of_branch(branch, low, high, tilts, omega) for branch in pair.branches)])


def mirrored_between(pair: DominatingPair, low: float, high: float, tilts: TiltRange, omega: float) -> Weighed:
    """Return nodes of -L under Q where low < L <= high."""
    if isinstance(pair, FinitePair):
        return _turned_round(between(pair, low, high, tilts, omega))
    if isinstance(pair, MixedPair):
        parts = [(share, mirrored_between(part, low, high, tilts, omega)) for share, part in pair.parts]
        return _mixed_parts(pair, parts, low, high)
    if not isinstance(pair, CoordinatePair):
        raise OutOfReach(f"{type(pair).__name__} is not divided")
    atoms = [_turned_round(_kept_between(Weighed(*np.array(pair.atoms).T), low, high))] if pair.atoms else []
    branches = CoordinatePair(pair.law, mirror_of(pair.sampling)).branches
    return _side_by_side([*atoms, *(_of_branch(branch, -high, -low, tilts, omega) for branch in branches)])


def _kept_between(nodes: Weighed, low: float, high: float) -> Weighed:
    some = (low < nodes.losses) & (nodes.losses <= high)
    return Weighed(nodes.losses[some], nodes.log_masses[some])


def _turned_round(nodes: Weighed) -> Weighed:
    return Weighed(-nodes.losses, nodes.log_masses - nodes.losses)


def _mixed_parts(pair: MixedPair, parts: list[tuple[float, Weighed]], low: float, high: float) -> Weighed:
    """Return a mixture of parts; what reveals nothing has loss 0."""
    if pair.failure > 0:
        raise OutOfReach("what may reveal everything is not divided")
    some = [Weighed(nodes.losses, nodes.log_masses + math.log(share)) for share, nodes in parts]
    if pair._rest > 0 and low < 0 <= high:
        some.append(Weighed(np.zeros(1), np.array([math.log(pair._rest)])))
    return _side_by_side(some)


def _side_by_side(some: list[Weighed]) -> Weighed:
    if not some:
        return Weighed(np.zeros(0), np.zeros(0))
    return Weighed(*(np.concatenate(column) for column in zip(*some, strict=True)))


def _of_branch(branch: Branch, low: float, high: float, tilts: TiltRange, omega: float) -> Weighed:
    """Return nodes on the stretch of a branch where the loss lies between two places."""
    ends = (low, high) if branch.rises else (high, low)
    first, last = (_place_of(branch, end) for end in ends)
    start, end = _reach(branch, tilts[1])
    if isinstance(branch.law, NormalLaw):  # what lies beyond a cut may be as far out as that
        start = start if branch.above else min([start, *(x - PANELS_REACH for x in (first, last) if math.isfinite(x))])
        end = max([end, *(x + PANELS_REACH for x in (first, last) if math.isfinite(x))])
    first, last = max(first, start), min(last, end)
    if not last > first:
        return Weighed(np.zeros(0), np.zeros(0))
    return _panels(branch, (first, last), tilts, omega)


def _reach(branch: Branch, theta: float) -> PanelStretch:
    """Return a stretch beyond which nothing matters at tilt 0, nor at θ where e^{θL} is bounded."""
    law = branch.law
    if not isinstance(law, NormalLaw):
        return branch.span(theta)
    low = law.even if branch.above else min(law.span_start(branch, theta), -PANELS_REACH)
    return low, law.steepest + PANELS_REACH


def _place_of(branch: Branch, loss: float) -> float:
    """Return t where the loss is so large, by halving; an infinity where it is larger, or smaller, everywhere."""
    low, high = (-FARTHEST, FARTHEST) if isinstance(branch.law, NormalLaw) else branch.span(1.0)
    sign = 1.0 if branch.rises else -1.0
    first, last = (float(x) for x in branch.loss_and_log_density(np.array([low, high]))[0])
    if loss < min(first, last):
        return -math.inf * sign
    if loss >= max(first, last):
        return math.inf * sign
    for _ in range(ZOOMS):
        t = np.linspace(low, high, ZOOM + 1)
        is_below = np.asarray(branch.loss_and_log_density(t)[0]) <= loss
        last_below = int(np.sum(is_below)) - 1 if branch.rises else len(t) - int(np.sum(is_below)) - 1
        low, high = float(t[max(last_below, 0)]), float(t[min(last_below + 1, ZOOM)])
    return low


def _panels(branch: Branch, stretch: PanelStretch, tilts: TiltRange, omega: float) -> Weighed:
    """Return the nodes of panels, none of which is wider than the rule resolves."""
    t = np.linspace(*stretch, PLACES)
    losses, log_density = branch.loss_and_log_density(t)
    seen = np.zeros(len(t), dtype=bool)
    for tilt in tilts:
        values = log_density + tilt * losses
        seen |= values > np.max(values) - UNSEEN_NATS
    first, last = max(int(np.argmax(seen)) - 1, 0), min(len(t) - int(np.argmax(seen[::-1])), len(t) - 1)
    t, losses, log_density = t[first : last + 1], losses[first : last + 1], log_density[first : last + 1]
    # a tilt τ matters only where e^{τL} times the density is near what it is at the largest loss
    top = int(np.argmax(losses))
    behind = np.maximum(losses[top] - losses, 1e-300)
    steepest = np.minimum(tilts[1], np.maximum(UNSEEN_NATS + log_density - log_density[top], 0.0) / behind)
    growth = np.abs(np.diff(losses)) * (np.maximum(steepest[1:], steepest[:-1]) + 1) + np.abs(np.diff(log_density))
    work = np.abs(np.diff(losses)) * omega / RADIANS + growth / GROWTH_NATS
    work += np.diff(t) * (np.sqrt(branch.law.curvature_up_to(t[1:])) / WIDEST + branch.law.steepest / STEEPEST)
    panels = math.ceil(float(np.sum(work)))
    if not panels * PANEL_POINTS <= MOST_PANEL_NODES:
        raise OutOfReach(f"a stretch takes {panels} panels")
    done = np.append(0.0, np.cumsum(work))
    edges = np.interp(np.linspace(0.0, done[-1], panels + 1), done, t)
    x, w = legendre(PANEL_POINTS)
    widths = np.diff(edges)
    places = (edges[:-1, None] + widths[:, None] * x).ravel()
    log_weights = (np.log(widths)[:, None] + np.log(w)).ravel()
    losses, log_density = branch.loss_and_log_density(places)
    return Weighed(np.asarray(losses, dtype=float), np.asarray(log_density + log_weights, dtype=float))


def mirror_of(sampling: CoordinateMap) -> CoordinateMap:
    """Return the map whose pair is (Q, P): of loss -L under Q. Envelopes and opposite records are their own mirrors.

    An envelope's pair has the parts (M, Q) and (Q, M) for u > 0, which change places; so do the halves of `Antithetic`;
    t -> -t takes `Replace` to its mirror.
    """
    if isinstance(sampling, MixtureMap):
        return (Join if isinstance(sampling, Leave) else Leave)(sampling.rate)
    return sampling
