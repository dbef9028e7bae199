"""Gaussian triples at every threshold, bounded from above: what one batch without replacement can be worth.

A batch couples p = 1-γ+γX with q = 1-γ+γY, densities against the batch that has neither record; X and Y are
exponentials of Gaussians with variances s and t and covariance ρ (`gaussian_triples.gaussian_triples_loss`). Everything
here is a bound of H_x = E (p - xq)_+ that never comes out low.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from scipy.special import ndtr

from cumulant.numerics.logspace import Array

RULE_NATS = 38.0  # the rule's proven error, which is added, is about e^-38 of the rate
REACH = 8.6  # standard deviations that nodes reach beyond the middle of what is integrated
ROUNDED = 3e-11  # relative, of terms: exponents below 300 over spreads above 1/200 are off, and d times that is Φ(d)
FINE_CELLS = 192  # of τ
GROUPS = 16  # of cells, each of them one step of the recursion
SLOPE_ROUNDING = 2.0**-45  # relative, of slopes: quotients of differences of given numbers, exponents below 150
NEAR_KNOTS = 48  # next to one another on the lattice; then they lie ever further apart


def triple_profile(losses: Array, *, rate: float, s: float, t: float, rho: float) -> Array:
    """Return H_x(p ‖ q) at x = e^ℓ >= 1, rounded up.

    Given the Gaussian g of Y, X is lognormal: with κ = ρ/√t, v² = s - κ², F = γe^{κg-κ²/2} and
    c = γxe^{√t g-t/2} + (1-γ)(x-1) > 0,

        H_x = ∫ φ(g) (FΦ(d₁) - cΦ(d₂)) dg,   d₁ = log(F/c)/v + v/2,   d₂ = d₁ - v.

    The integral is a sum over nodes h apart. On the line g + iy, |y| <= d < π/√t, F keeps its size and c ≠ 0 turns by
    at most √t d; d₁ has the imaginary part w, |w| <= max(κ, √t - κ)d/v; |Φ(u+iw)| <= e^{w²/2} Φ(u); and |c|Φ(Re d₂) <=
    FΦ(Re d₁), as a call at the strike |c| is worth at least 0. So the integrand is at most 2φ(g)e^{(d²+w²)/2}F, and the
    sum over all nodes is off by at most 4γe^{(d²+w²)/2}/(e^{2πd/h} - 1) (Trefethen and Weideman 2014, Theorem 5.1).
    Nodes further than R from κ have together at most 2γφ(R)(1/R + h), as φF = γφ(g - κ).

    Holds for:  s > κ², 0 <= κ <= √t; any x >= 1. H_x at x < 1 is 1 - x + xH_{1/x}(q ‖ p).
    Tightness:  within e^-37 of the rate, and rounding.
    """
    kappa = rho / math.sqrt(t) if t > 0 else 0.0
    spread = math.sqrt(s - kappa * kappa)
    nodes, weights, error = _rule(kappa, spread, math.sqrt(t))
    log_f = math.log(rate) + kappa * nodes - kappa * kappa / 2
    common = rate * np.exp(math.sqrt(t) * nodes - t / 2)
    c = np.exp(losses)[:, None] * common + ((1 - rate) * np.expm1(losses))[:, None]
    first = (log_f - np.log(c)) / spread + spread / 2
    gained = np.exp(log_f) * ndtr(first)
    found = (gained - c * ndtr(first - spread)) @ weights
    return np.asarray(found + 2 * ROUNDED * (gained @ weights) + rate * error)


def _rule(kappa: float, spread: float, deviation: float) -> tuple[Array, Array, float]:
    """Return nodes, weights and the error as a share of γ; without Y one node is all."""
    if deviation == 0:
        return np.zeros(1), np.ones(1), 0.0
    d = np.linspace(0.01, 0.99, 99) * min(math.pi / deviation, 4 * math.sqrt(RULE_NATS))
    growth = (d * d + (max(kappa, deviation - kappa) * d / spread) ** 2) / 2
    step = float(np.max(2 * math.pi * d / (RULE_NATS + growth)))
    best = float(np.min(growth - 2 * math.pi * d / step))
    first, last = math.floor((kappa - REACH) / step), math.ceil((kappa + REACH) / step)
    nodes = step * np.arange(first, last + 1, dtype=float)
    density = math.exp(-REACH * REACH / 2) / math.sqrt(2 * math.pi)
    error = 4 * math.exp(best) * (1 + 1e-9) + 2 * density * (1 / REACH + step)
    return nodes, step / math.sqrt(2 * math.pi) * np.exp(-nodes * nodes / 2), error * (1 + 1e-9)


@final
@dataclass(frozen=True, slots=True)
class Step:
    """A pair on a lattice that dominates some triples: masses of P at multiples of the lattice, the rest revealed."""

    places: tuple[int, ...]
    masses: tuple[float, ...]
    revealed: float


def lattice_places(step: float, farthest: float) -> list[int]:
    """Return places from 0 on, next to one another at first."""
    places = [0]
    while places[-1] * step < farthest:
        places.append(places[-1] + max(1, places[-1] // NEAR_KNOTS))
    return places


def steps_of(*, rate: float, variance: float, step: float, farthest: float) -> list[Step]:
    """Return pairs, each of which dominates all triples of one family with τ in one stretch, and all triples are there.

    By Kahane's comparison every triple is dominated, for every convex function, by one of (D, τ, τ/2) and (τ, D, τ/2),
    0 <= τ <= D, and those with τ₁ <= τ <= τ₂ by (D, τ₂, τ₁/2) and (τ₂, D, τ₁/2). Each is below the envelope, too, which
    is H_x of (D, 0, 0) at x >= 1, both ways. A stretch takes the largest of its cells' bounds at every knot: what is
    convex and below these is below their greatest convex minorant, the profile of a pair with masses at knots.

    Holds for:  replace-one, one batch of a fixed size, isotropic Gaussian noise in units of the sensitivity, D = 1/σ².
    Tightness:  that of the stretches' widths, and of the lattice.
    """
    places = lattice_places(step, farthest)
    losses = step * np.array(places, dtype=float)
    most = triple_profile(losses, rate=rate, s=variance, t=0.0, rho=0.0)
    u = np.linspace(-1.0, 1.0, FINE_CELLS + 1)
    edges = variance * (0.5 + 0.5 * np.sign(u) * (1 - (1 - np.abs(u)) ** 2))  # narrow near 0 and D
    far_first: list[Array] = []
    far_second: list[Array] = []
    for low, high in pairwise(edges.tolist()):
        of = {"rate": rate, "rho": low / 2}
        far_first.append(np.minimum(triple_profile(losses, s=variance, t=high, **of), most))
        far_second.append(np.minimum(triple_profile(losses, s=high, t=variance, **of), most))
    found = []
    for some in np.array_split(np.arange(FINE_CELLS), GROUPS):
        one, other = (np.max([rows[i] for i in some], axis=0) for rows in (far_first, far_second))
        found += [step_of(places, step, *both) for both in ((one, other), (other, one))]
    return found


def step_of(places: list[int], step: float, above: Array, below: Array) -> Step:
    """Return the pair of the greatest convex function below bounds of H_x, of (p, q) and of (q, p), at x = e^{kh} >= 1.

    Its mass of Q at x is the rise of the slope there, and that of P x times it. At x < 1 the function is read as
    J(x) = H_x - (1 - x) = xH_{1/x}(q ‖ p), whose slopes are small where x is.

    Holds for:  any upper bounds. Rounding of slopes is added to every mass; a mass below 0, where rounding has bent the
                function, is left out, which is the safe side: the function stays above the true one.
    Tightness:  chords between knots.
    """
    above, below = np.minimum.accumulate(above), np.minimum.accumulate(below)  # H_x does not increase
    middle = min(float(above[0]), float(below[0]))  # the total variation, either way
    x = np.exp(step * np.array(places, dtype=float))
    up = np.append(middle, above[1:])
    down = np.append(middle, below[1:] / x[1:] * (1 + SLOPE_ROUNDING))
    right = _hull(x, up)
    left = _hull(np.append(0.0, 1 / x[::-1]), np.append(0.0, down[::-1]))
    gaps = [math.expm1(step * (places[b] - places[a])) for a, b in pairwise(right)]
    rising = [(up[b] - up[a]) / (x[a] * gap) for (a, b), gap in zip(pairwise(right), gaps, strict=True)]
    mirror = [len(places) - i for i in left[1:]]  # places of the points left of 1, from far to near
    gaps = [-math.expm1(step * (places[b] - places[a])) for a, b in pairwise(mirror)]
    falling = [(down[b] - down[a]) * x[b] / gap for (a, b), gap in zip(pairwise(mirror), gaps, strict=True)]
    falling = [down[mirror[0]] * x[mirror[0]], *falling]
    rows = [(-places[i], *both) for i, both in zip(mirror[:-1], pairwise(falling), strict=True)]
    rows.append((0, falling[-1] - 1, rising[0]))
    rows += [(places[i], *both) for i, both in zip(right[1:], pairwise([*rising, 0.0]), strict=True)]
    masses = [
        max(
            after - before + SLOPE_ROUNDING * (1 + abs(after) + abs(before) if k == 0 else abs(after) + abs(before)),
            0.0,
        )
        * math.exp(step * k)
        * (1 + SLOPE_ROUNDING)
        for k, before, after in rows
    ]
    return Step(tuple(k for k, _, _ in rows), tuple(masses), float(up[-1]))


def _hull(x: Array, values: Array) -> list[int]:
    """Return which points lie on the greatest convex function below all."""
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (values[b] - values[a]) * (x[i] - x[b]) < (values[i] - values[b]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull
