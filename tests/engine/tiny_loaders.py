"""Every adversary of tiny shuffled loaders, by a grid of outputs: what no bound may be below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

STEPS = {1: 0.05, 2: 0.2, 3: 0.5}  # of the grid of outputs, in units of the noise, by how many outputs there are
REACH = 6.5  # standard deviations beyond the farthest sums
Menu = Sequence[tuple[float, ...]]  # what records add to a batch: all that are in one dataset or the other


def orders(records: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield who is in which batch, each as likely as the others."""
    if not sizes:
        yield ()
        return
    for some in combinations(records, sizes[0]):
        for rest in orders([r for r in records if r not in some], sizes[1:]):
            yield (some, *rest)


def sums(arrangements: list[Any], step: int, adds: tuple[float, ...]) -> Any:
    return np.array([sum(adds[r] for r in batches[step]) for batches in arrangements])


def worst(first: list[Any], second: list[Any], menus: Sequence[Menu], sigma: float, ratio: float) -> float:
    """Return sup ∫(dP - λ dQ)_+ over adversaries that choose what records add after every output, by a grid."""
    reach = max(len(batch) for batches in first for batch in batches)
    step = STEPS[len(menus)]
    grid = np.arange(-reach - REACH * sigma, reach + REACH * sigma, step * sigma)

    def density(adds: tuple[float, ...], arrangements: list[Any], which: int) -> Any:
        apart = (grid[:, None] - sums(arrangements, which, adds)) / sigma
        return np.exp(-apart * apart / 2) * (step / math.sqrt(2 * math.pi))

    def value(which: int, p: Any, q: Any) -> Any:
        if which == len(menus):
            return np.maximum(p.sum(axis=-1) - ratio * q.sum(axis=-1), 0.0)
        best: Any = 0.0
        for adds in menus[which]:
            after = value(
                which + 1,
                p[..., None, :] * density(adds, first, which),
                q[..., None, :] * density(adds, second, which),
            )
            best = np.maximum(best, after.sum(axis=-1))
        return best

    return float(value(0, np.full(len(first), 1 / len(first)), np.full(len(second), 1 / len(second))))


def menus_of(others: int, pairs: Sequence[tuple[float, ...]], steps: int, values: Sequence[float]) -> list[Menu]:
    """Return what records may add in each step: in the first the others are alike, so their order does not matter."""
    every = [(*some, *pair) for some in product(values, repeat=others) for pair in pairs]
    sorted_ones = [(*some, *pairs[0]) for some in product(values, repeat=others) if list(some) == sorted(some)]
    return [sorted_ones, *[every] * (steps - 1)]
