"""Sums of privacy losses on a lattice, bounded from both sides, by tilted FFTs.

A pair is replaced by one with losses k·h that dominates it, or that it dominates; composing keeps the order. Tilting by
e^{cL} near the saddle point moves the mass to where δ(ε) is decided, so a δ of 1e-30 has as many digits as one of 1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from benchmarks.laws import Array, Law

FARTHEST = 650.0  # losses beyond it would overflow e^L
ALIAS = 1e-20  # tilted mass outside the window, at most
ROUNDING = 1e-13  # a cell's loss is known to this


class Losses(Protocol):
    """Masses of P on finitely many losses."""

    @property
    def masses(self) -> Array: ...

    @property
    def losses(self) -> Array: ...


@final
@dataclass(frozen=True, slots=True)
class Sketch:
    """The law in a thousand cells that narrow towards 0: enough to choose a tilt and a window by."""

    masses: Array
    losses: Array


@final
@dataclass(frozen=True, slots=True)
class Lattice:
    """Masses of P on the losses (first + k)·step, and at infinity."""

    step: float
    first: int
    masses: Array
    infinite: float = 0.0

    @property
    def losses(self) -> Array:
        return self.step * np.arange(self.first, self.first + len(self.masses), dtype=float)


@final
@dataclass(frozen=True, slots=True)
class Window:
    """A tilt, the ends between which the tilted sum lies, and the turns of the tilt that prove it (Chernoff)."""

    tilt: float
    low: float
    high: float
    turn_low: float
    turn_high: float


Parts = Sequence[tuple[Losses, int]]


def sketch(law: Law, tail: float) -> Sketch:
    low, high = ends(law, tail)
    down, up = (np.geomspace(1e-9, 1.0, 700) * end for end in (min(low, -1e-12), max(high, 1e-12)))
    edges = np.concatenate(([-math.inf], down[::-1], up, [math.inf]))
    p, q = law.masses(edges)
    known = (p > 1e-290) & (q > 1e-290)
    return Sketch(p[known], np.log(p[known] / q[known]))


def dominating(law: Law, step: float, tail: float) -> Lattice:
    """Return a lattice pair that dominates the law (Doroshenko et al. 2022, "connect the dots").

    A cell of losses in [a, b) is split between its ends so that its masses under P and under Q stay: that spreads the
    likelihood ratio and keeps its mean, so by Jensen's inequality every hockey-stick divergence grows.
    """
    low, high = ends(law, tail)
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    edges = step * np.arange(first, last + 1)
    p, q = law.masses(np.concatenate(([-math.inf], edges, [math.inf])))
    inner = p[1:-1]
    to_upper = np.clip((inner - np.exp(edges[:-1]) * q[1:-1]) / -math.expm1(-step), 0.0, inner)
    masses = np.zeros(last + 1 - first)
    masses[:-1] += inner - to_upper
    masses[1:] += to_upper
    masses[0] += p[0]  # rounded up: losses below the lowest are taken for it
    infinite = float(p[-1]) + infinite_of(law)
    return Lattice(step, first, masses, infinite=infinite)  # and those above the highest for infinite


def dominated(law: Law, step: float, tail: float) -> Lattice:
    """Return a lattice pair that the law dominates, up to ROUNDING in its losses.

    Telling only the cell that the loss is in forgets something, so the pair of cell masses is dominated; so is, for the
    same reason, what merging parts of neighbouring cells makes of it. Parts are merged until the losses log(p/q) are
    on the lattice, or all but; the rest is rounded down, which makes E_P[(1 - e^{ε-L})_+] smaller still.
    """
    low, high = ends(law, tail)
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    points = np.arange(first, last + 1)
    p, q = law.masses(step * (np.arange(first, last + 2, dtype=float) - 0.5))  # what lies outside is left out
    scaled = np.exp(step * points) * q  # equal to p where the loss of the cell is on the lattice
    for _ in range(2):
        p, scaled = _shared_upwards(p, scaled, step)
        p, scaled = _shared_downwards(p, scaled, step)
    known = (p > 1e-290) & (scaled > 1e-290)
    offset = np.floor((np.log(p[known] / scaled[known]) + ROUNDING) / step).astype(np.int64)
    indices = points[known] + offset
    masses = np.bincount(indices - indices.min(), weights=p[known]).astype(float)
    return Lattice(step, int(indices.min()), masses, infinite=infinite_of(law))


def infinite_of(law: Law) -> float:
    """Return the probability of an infinite loss, which only tables have."""
    return float(getattr(law, "infinite", 0.0))


def _shared_downwards(p: Array, scaled: Array, step: float) -> tuple[Array, Array]:
    """Let every cell whose loss is below its point take a part of the next one, just enough to reach the point."""
    lacks = np.maximum(scaled - p, 0.0)[:-1]
    part = _part(lacks, p[1:] - math.exp(-step) * scaled[1:])
    kept = np.concatenate(([1.0], 1 - part))
    taken_p, taken_q = part * p[1:], part * math.exp(-step) * scaled[1:]
    return kept * p + np.append(taken_p, 0.0), kept * scaled + np.append(taken_q, 0.0)


def _shared_upwards(p: Array, scaled: Array, step: float) -> tuple[Array, Array]:
    """Let every cell whose loss is above its point take a part of the one before, just enough to sink to the point."""
    exceeds = np.maximum(p - scaled, 0.0)[1:]
    part = _part(exceeds, math.exp(step) * scaled[:-1] - p[:-1])
    kept = np.append(1 - part, 1.0)
    taken_p, taken_q = part * p[:-1], part * math.exp(step) * scaled[:-1]
    return kept * p + np.concatenate(([0.0], taken_p)), kept * scaled + np.concatenate(([0.0], taken_q))


def _part(need: Array, offered: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(need <= 0, 0.0, np.where(offered > need, need / offered, (offered > 0) * 1.0))


def ends(law: Law, tail: float) -> tuple[float, float]:
    low, high = law.ends(tail)
    if max(-low, high) > FARTHEST:
        raise OverflowError(f"losses from {low:g} to {high:g} are too large for this reference")
    return low, high


# Composition ----------------------------------------------------------------------------------------------------------


def log_moment(parts: Parts, c: float) -> float:
    """Return K(c) = Σ n_i log E_P[e^{cL_i}; L_i < ∞]."""
    return math.fsum(count * _log_moment(one, c) for one, count in parts)


def _log_moment(one: Losses, c: float) -> float:
    exponents = c * one.losses + _log(one.masses)
    peak = float(np.max(exponents))
    return peak + math.log(float(np.sum(np.exp(exponents - peak))))


def chosen_window(parts: Parts, epsilon: float) -> Window:
    """Return the narrowest window of tilts that bound δ(ε) within e^9 of the best."""
    best, least = _saddle(parts, epsilon)
    tilts = [best * share for share in (1.0, 0.85, 0.7, 0.55, 0.4)]
    near = [c for c in tilts if _chernoff(parts, c, epsilon) <= least + 9]
    return min((_window(parts, c) for c in near), key=lambda w: w.high - w.low)


def chernoff(parts: Parts, epsilon: float) -> float:
    """Return the least of Chernoff's bounds of log δ(ε)."""
    return _saddle(parts, epsilon)[1]


def _saddle(parts: Parts, epsilon: float) -> tuple[float, float]:
    """Return about the c > 0 that minimises K(c) - cε - log c(c+1), and the minimum."""
    low, high = math.log(1e-8), math.log(1e8)
    while high - low > 1e-3:
        grid = np.linspace(low, high, 13)
        values = [_chernoff(parts, c, epsilon) for c in np.exp(grid)]
        best = min(max(int(np.argmin(values)), 1), 11)
        low, high = grid[best - 1], grid[best + 1]
    c = math.exp((low + high) / 2)
    return c, _chernoff(parts, c, epsilon)


def _chernoff(parts: Parts, c: float, epsilon: float) -> float:
    return log_moment(parts, c) - c * epsilon - math.log(c) - math.log1p(c)


def _window(parts: Parts, c: float) -> Window:
    here, rare = log_moment(parts, c), -math.log(ALIAS)
    turns = [float(t) for t in np.geomspace(1e-3, 1e3, 25) * c]
    high, turn_high = min(((log_moment(parts, c + t) - here + rare) / t, t) for t in turns)
    low, turn_low = max((-(log_moment(parts, c - t) - here + rare) / t, t) for t in turns)
    return Window(tilt=c, low=low, high=high, turn_low=turn_low, turn_high=turn_high)


def alias(parts: Parts, window: Window, low: float, high: float) -> float:
    """Return a bound of the tilted mass outside [low, high]: Chernoff's."""
    here = log_moment(parts, window.tilt)
    above = log_moment(parts, window.tilt + window.turn_high) - here - window.turn_high * high
    below = log_moment(parts, window.tilt - window.turn_low) - here + window.turn_low * low
    return math.exp(min(above, 0.0)) + math.exp(min(below, 0.0))


def log_delta(parts: Sequence[tuple[Lattice, int]], epsilon: float, window: Window, size: int) -> tuple[float, float]:
    """Return bounds of log δ(ε) = log E_P[(1 - e^{ε-L})_+] of a sum of lattice losses.

    In units of e^{K(c)-cε} the payoff e^{-cy}(1 - e^{-y}), y = L - ε > 0, is at most 1, so the tilted mass that may be
    wrong bounds the error: what lies outside the window, and rounding, of n-th powers above all.
    """
    step, c = parts[0][0].step, window.tilt
    first = round((window.low + window.high) / 2 / step) - size // 2
    y = step * (first + np.arange(size)) - epsilon
    paid = y > 0
    masses = np.maximum(_tilted_sum(parts, c, first, size)[paid], 0.0)
    value = float(np.sum(masses * np.exp(-c * y[paid]) * -np.expm1(-y[paid])))
    outside = alias(parts, window, step * (first + 1), step * (first + size - 1))
    slack = 2 * outside + 2e-15 * (sum(n for _, n in parts) + 300) + 1e-10 * value
    scale = log_moment(parts, c) - c * epsilon
    infinite = math.fsum(n * lattice.infinite for lattice, n in parts)
    low = scale + math.log(value - slack) if value > slack else -math.inf
    if infinite and low > -math.inf:
        revealed = -math.expm1(math.fsum(n * math.log1p(-min(lattice.infinite, 0.5)) for lattice, n in parts))
        low = float(np.logaddexp(low, math.log(revealed)))
    return low, float(np.logaddexp(scale + math.log(value + slack), math.log(infinite) if infinite else -math.inf))


def _tilted_sum(parts: Sequence[tuple[Lattice, int]], c: float, first: int, size: int) -> Array:
    """Return the tilted masses of the sum of all losses at `size` lattice points from `first` on."""
    transform = np.ones(size // 2 + 1, dtype=complex)
    start = 0
    for lattice, count in parts:
        tilted = np.exp(c * lattice.losses + _log(lattice.masses) - _log_moment(lattice, c))
        transform *= np.fft.rfft(_wrapped(tilted, size)) ** count
        start += count * lattice.first
    return np.roll(np.fft.irfft(transform, size), -((first - start) % size))


def _wrapped(masses: Array, size: int) -> Array:
    """Return masses on a circle of `size` points."""
    padded = np.concatenate((masses, np.zeros(-len(masses) % size)))
    return np.asarray(padded.reshape(-1, size).sum(axis=0))


def _log(masses: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(masses)
