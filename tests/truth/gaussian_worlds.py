"""Gaussian noise on numbers, without the library: what sets of outputs attain, and losses summed on a grid.

A law is a list of (probability, mean) of normal laws of one width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]
Mixture = list[tuple[float, float]]
Pair = tuple[Mixture, Mixture]

REACH = 12.0  # widths beyond the means
ROUNDED = 4 * 2.0**-52  # of the mass of a cell: two values of Φ for each law, and a sum


def density(law: Mixture, t: Array, sigma: float) -> Array:
    return np.asarray(sum(p * np.exp(-(((t - mean) / sigma) ** 2) / 2) for p, mean in law))


def edges(laws: Sequence[Mixture], sigma: float, count: int) -> Array:
    """Return ends of cells that hold about all of some laws; the outer ones are infinite."""
    means = [mean for law in laws for _, mean in law]
    inner = np.linspace(min(means) - REACH * sigma, max(means) + REACH * sigma, count)
    return np.concatenate([[-np.inf], inner, [np.inf]])


def masses(law: Mixture, ends: Array, sigma: float) -> Array:
    """Return the probability of each cell, from whichever tail keeps its digits."""
    total = np.zeros(len(ends) - 1)
    for p, mean in law:
        x = (ends - mean) / sigma
        total += p * np.where(x[:-1] > 0, -np.diff(ndtr(-x)), np.diff(ndtr(x)))
    return total


def attained(one: Mixture, other: Mixture, t: float, sigma: float, count: int = 4000) -> float:
    """Return P(A) - t Q(A) of a set of cells, less its rounding: it is at most H_t, and some digits below it."""
    ends = edges([one, other], sigma, count)
    gained = float(np.sum(np.maximum(masses(one, ends, sigma) - t * masses(other, ends, sigma), 0.0)))
    return gained - count * (1 + t) * ROUNDED


def adaptively_attained(menu: Sequence[Pair], rounds: int, t: float, sigma: float, count: int = 60) -> float:
    """Return what an adversary attains who chooses a pair in every round by the cells of outputs so far."""
    if rounds == 0:
        return max(1 - t, 0.0)
    best = 0.0
    for one, other in menu:
        ends = edges([one, other], sigma, count)
        p, q = masses(one, ends, sigma), masses(other, ends, sigma)
        gained = 0.0
        for a, b in zip(p.tolist(), q.tolist(), strict=True):
            if a > 1e-9:
                gained += a * adaptively_attained(menu, rounds - 1, t * b / a, sigma, count)
        best = max(best, gained)
    return best


# Batches that are enumerated ------------------------------------------------------------------------------------------


def coins(rate: float, records: int) -> list[tuple[float, tuple[int, ...]]]:
    """Return every sample with its probability."""
    found = []
    for joined in product((0, 1), repeat=records):
        some = tuple(i for i, one in enumerate(joined) if one)
        found.append((rate ** len(some) * (1 - rate) ** (records - len(some)), some))
    return found


def cut_batches(values: Sequence[float], rate: float, most: int) -> Mixture:
    """Return the law of the mean: of each sample every subset of at most so many records, each as likely."""
    law: dict[float, float] = {}
    for probability, some in coins(rate, len(values)):
        kept = min(most, len(some))
        for batch in combinations(some, kept):
            mean = math.fsum(values[i] for i in batch)
            law[mean] = law.get(mean, 0.0) + probability / comb(len(some), kept)
    return [(p, mean) for mean, p in law.items()]


# Losses on a grid -----------------------------------------------------------------------------------------------------


def delta_on_a_grid(
    parts: Sequence[tuple[float, Pair]], count: int, epsilons: Sequence[float], h: float
) -> list[float]:
    """Return δ of `count` releases of one of several pairs, drawn and told; noise 1; at most, and by O(h²) above.

    Losses must be monotone. The mass of a cell of losses goes to its two ends, so that both P and Q keep theirs: that
    only reveals more. Sums are by fast Fourier transform.
    """
    t = np.linspace(-REACH, REACH, 4_000_001)
    found: dict[int, float] = {}
    for share, pair in parts:
        loss = np.log(density(pair[0], t, 1.0)) - np.log(density(pair[1], t, 1.0))
        way = -1 if loss[0] > loss[-1] else 1
        one, other = ([(p, way * mean) for p, mean in law] for law in pair)
        loss = loss[::way]
        low, high = math.floor(loss[0] / h), math.ceil(loss[-1] / h)
        grid = np.arange(low, high + 1)
        at = np.interp(grid * h, loss, t)
        at[0], at[-1] = -np.inf, np.inf
        p, q = masses(one, at, 1.0), masses(other, at, 1.0)
        left, right = np.exp(-grid[:-1] * h), np.exp(-grid[1:] * h)
        upper = np.clip((p * left - q) / (left - right), 0.0, p)
        for k, (x, y) in zip(grid[:-1].tolist(), zip(p - upper, upper, strict=True), strict=True):
            found[k] = found.get(k, 0.0) + share * x
            found[k + 1] = found.get(k + 1, 0.0) + share * y
    first, last = min(found), max(found)
    mass = np.zeros(last - first + 1)
    for k, x in found.items():
        mass[k - first] = x
    size = 2**20
    assert len(mass) < size
    padded = np.zeros(size)
    mean = round(float(np.arange(len(mass)) @ mass))
    padded[(np.arange(len(mass)) - mean) % size] = mass
    total = np.fft.irfft(np.fft.rfft(padded) ** count, size)
    place = np.where(np.arange(size) < size // 2, np.arange(size), np.arange(size) - size)
    losses = (place + count * (mean + first)) * h
    return [float(np.sum(total * np.maximum(-np.expm1(epsilon - losses), 0.0))) for epsilon in epsilons]
