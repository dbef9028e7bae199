"""Quadrature nodes for one tilt alone: Gauss-Legendre panels, as wide as the local slope of the loss allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.numerics.quadrature import nodes_on
from cumulant.pairs.discrete import TiltedNodes
from cumulant.pairs.pair import RULE_ERROR

if TYPE_CHECKING:
    from cumulant.pairs.coordinate import Branch, CoordinatePair

PANEL_POINTS = 32  # of one panel where a single tilt is asked for
PANEL_RADIANS = 23.0  # |z|·(change of L) on half a panel
ELLIPSE = 5.5  # ρ: half axes (ρ ± 1/ρ)/2 of a half width, in which an integrand is bounded
PANEL_TURN = 1.0  # radians by which e^u may turn in an ellipse
PANEL_ERROR_NATS = 38.0  # below M(θ), for all panels, and for what lies beyond the first and the last
FINER_PANELS = 1.25  # times as many, where their proven error is too large
DISTANCES = 2.0 ** (-np.arange(1, 161) / 4)  # from the largest loss, of the way to the least
EVEN_PLACES = 65  # at which integrands are looked at, beside those


def tilted_nodes(pair: CoordinatePair, theta: float, omega: float, k_theta: float) -> TiltedNodes:
    """Return nodes for Re z = θ alone, and |Im z| <= ω: atoms, and those of every branch."""
    losses, log_masses = np.array(pair.atoms).reshape(-1, 2).T
    pieces, off = [(losses, log_masses + theta * losses)], 0.0
    for branch in pair.branches:
        t, log_weights, error = panels_at(branch, theta, omega, k_theta)
        loss, log_density = branch.loss_and_log_density(t)
        pieces.append((np.broadcast_to(loss, t.shape), log_density + theta * loss + log_weights))
        off += error
    losses, exponents = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return TiltedNodes.of(theta, losses, exponents - k_theta, 2.0, off)


def panels_at(branch: Branch, theta: float, omega: float, k_theta: float) -> tuple[Array, Array, float]:
    """Return nodes and the logarithms of their weights for Re z = θ alone, and a bound of their error over M(θ).

    Gauss-Legendre panels as wide as the local slope of the loss allows, or the rule where that has fewer nodes. On
    a panel of half width r around c let B bound |P e^{zL}| in the ellipse with half axes r(ρ ± 1/ρ)/2; n points
    err by at most r·(64/15)·B·ρ^{-2n}/(1 - ρ^{-2}) (Trefethen 2008, Theorem 4.5). For each factor w^a, ℓ = log w,
    |ℓ'(t)| <= ℓ'(Re t)/cos(steepest·|Im t|/2), as terms of w' are positive multiples of those of w (see `Law`), and
    ℓ' grows along its side: so |w^a| is at most its value at c times e^{|a|·|ℓ'|·r(ρ+1/ρ)/2}.

    Holds for:  |Im z| <= ω; span(θ) holds all that matters.
    """
    t, ceiling = _ceiling(branch, theta)
    seen = np.flatnonzero(ceiling > k_theta - PANEL_ERROR_NATS)
    first, last = (int(seen[0]), int(seen[-1])) if len(seen) else (0, len(t) - 2)
    beyond = float(np.sum(np.exp(np.delete(ceiling, slice(first, last + 1)) - k_theta)))
    t = t[first : last + 2]
    powers = [abs(complex(sampling.power(theta), omega)) for _, sampling in branch.moving]
    turned = np.maximum(_turned(branch, powers, t[1:]), _turned(branch, powers, t[:-1])) / (2 * PANEL_RADIANS)
    reached = np.append(0.0, np.cumsum(np.diff(t) * np.maximum(turned, 1 / _widest(branch))))
    panels, error = math.ceil(float(reached[-1])), math.inf
    if branch.count_nodes(theta, omega) < PANEL_POINTS * panels:
        return *branch.rule(theta, omega), RULE_ERROR
    while not error <= math.exp(-PANEL_ERROR_NATS):
        branch.check_count(PANEL_POINTS * panels, theta, omega)
        edges = np.unique(np.interp(np.linspace(0.0, reached[-1], panels + 1), reached, t))
        error = _panel_error(branch, edges, theta, powers, k_theta)
        panels = math.ceil(FINER_PANELS * panels)
    return *nodes_on(edges[:-1], edges[1:], PANEL_POINTS), error + beyond


def _widest(branch: Branch) -> float:
    """Return how wide panels may be, whatever the slope."""
    return float(min(2 * PANEL_TURN / (branch.law.steepest * (ELLIPSE - 1 / ELLIPSE)), branch.law.resolved))


def _turned(branch: Branch, powers: Sequence[float], t: Array, beside: Any = 0.0) -> Array:
    """Return Σ |a|·ℓ' of the moving factors, each where it is largest within a distance of t."""
    each = zip(powers, branch.moving, strict=True)
    return np.asarray(sum(a * np.exp(branch.log_slope_of(side * t + beside, one)) for a, (side, one) in each))


def _ceiling(branch: Branch, theta: float) -> tuple[Array, Array]:
    """Return places, the closer the nearer to the largest loss, and log of bounds of ∫ P e^{θL} between them.

    Each w is monotone, and log-densities are above their chords by at most an eighth of their curvature.
    """
    low, high = branch.span(theta)
    nearer = (high - low) * DISTANCES
    nearer = high - nearer if branch.rises else low + nearer
    t = np.unique(np.concatenate([np.linspace(low, high, EVEN_PLACES), nearer]))
    density, width = branch.law.log_density(t), np.diff(t)
    parts = [density, *(sampling.power(theta) * value for sampling, value in branch.values(t))]
    largest = sum(np.maximum(part[1:], part[:-1]) for part in map(np.atleast_1d, parts) if len(part) > 1)
    constant = sum(float(part[0]) for part in map(np.atleast_1d, parts) if len(part) == 1)
    return t, constant + largest + max(branch.law.curvature, 0.0) * width**2 / 8 + np.log(width)


def _panel_error(branch: Branch, edges: Array, theta: float, powers: Sequence[float], k_theta: float) -> float:
    """Return the bound of `panels_at`, over M(θ), for all panels together."""
    half, centre = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    along, across = half * (ELLIPSE + 1 / ELLIPSE) / 2, half * (ELLIPSE - 1 / ELLIPSE) / 2
    turn = branch.law.steepest * across
    if not np.max(turn) <= math.pi / 2:
        return math.inf
    density, curvature = branch.law.log_density, max(branch.law.curvature, 0.0)
    here = branch.log_tilted_density(centre, theta) - density(centre)
    here += np.maximum(density(centre - along), density(centre + along)) + curvature * (along**2 + across**2) / 2
    log_bound = here + _turned(branch, powers, centre, along) * along / np.cos(turn / 2) + np.log(half)
    total = float(np.sum(np.exp(log_bound - 2 * PANEL_POINTS * math.log(ELLIPSE) - k_theta)))
    return total * 64 / 15 / (1 - ELLIPSE**-2)


def waves_at(branch: Branch, theta: float) -> float:
    """Return how many nodes more a unit of frequency takes for one tilt alone, about."""
    losses, _ = branch.loss_and_log_density(np.linspace(*branch.span(theta), EVEN_PLACES))
    changed = float(np.sum(np.abs(np.diff(losses))))
    return changed * PANEL_POINTS / (2 * PANEL_RADIANS)
