"""Tiny worlds in which sampling is enumerated: every dataset, every sample, every output, and no theorem.

A batch is a sorted tuple of records, a record is a small number, and a mechanism maps each batch to the probabilities
of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement, product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Batch = tuple[int, ...]
Mechanism = dict[Batch, Array]


def batches(universe: int, size: int) -> Iterator[Batch]:
    """Return all multisets of `size` records."""
    return combinations_with_replacement(range(universe), size)


# Mechanisms -----------------------------------------------------------------------------------------------------------


def random_mechanism(
    generator: np.random.Generator, *, universe: int, sizes: Iterable[int], outputs: int, spread: float
) -> Mechanism:
    """Return a distribution for every batch of the sizes, unrelated to one another."""
    return {
        batch: softmax(spread * generator.normal(size=outputs)) for size in sizes for batch in batches(universe, size)
    }


def membership(*, universe: int, sizes: Iterable[int], p: float) -> Mechanism:
    """Tell truthfully with probability p whether record 0 is in the batch: the worst case of Balle et al. (2018)."""
    told = {True: np.array([p, 1 - p]), False: np.array([1 - p, p])}
    return {batch: told[0 in batch] for size in sizes for batch in batches(universe, size)}


def majority(*, universe: int, sizes: Iterable[int], p: float) -> Mechanism:
    """Name, truthfully with probability p, the smallest of the commonest records: mutually distinct triples."""
    return {
        batch: _likely(max(range(universe), key=batch.count), universe, p)
        for size in sizes
        for batch in batches(universe, size)
    }


def _likely(which: int, outputs: int, p: float) -> Array:
    probabilities = np.full(outputs, (1 - p) / (outputs - 1))
    probabilities[which] = p
    return probabilities


def softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


# Neighbours -----------------------------------------------------------------------------------------------------------


def with_one_more(batch: Batch, universe: int) -> Iterator[Batch]:
    for record in range(universe):
        yield tuple(sorted((*batch, record)))


def with_one_replaced(batch: Batch, universe: int) -> Iterator[Batch]:
    for i in range(len(batch)):
        for other in with_one_more(batch[:i] + batch[i + 1 :], universe):
            if other != batch:
                yield other


def added(universe: int, sizes: Iterable[int]) -> Iterator[tuple[Batch, Batch]]:
    """Return all (batch, the batch and one more record) with the smaller batch of a size."""
    for size in sizes:
        for batch in batches(universe, size):
            for other in with_one_more(batch, universe):
                yield batch, other


def replaced(universe: int, size: int) -> Iterator[tuple[Batch, Batch]]:
    """Return all ordered pairs of batches that differ in one record."""
    for batch in batches(universe, size):
        for other in with_one_replaced(batch, universe):
            yield batch, other


def both_orders(pairs: Iterable[tuple[Batch, Batch]], output: Callable[[Batch], Array]) -> Pairs:
    """Return the outputs of neighbours, in either order."""
    once = cache(output)
    return ordered((once(one), once(other)) for one, other in pairs)


# Sampled outputs ------------------------------------------------------------------------------------------------------


def poisson(mechanism: Mechanism, data: Batch, rate: float) -> Array:
    """Return the output distribution on a sample that each record joins with probability `rate`."""
    total = np.zeros(len(next(iter(mechanism.values()))))
    for joins in product((False, True), repeat=len(data)):
        batch = tuple(record for record, joined in zip(data, joins, strict=True) if joined)
        total += rate ** len(batch) * (1 - rate) ** (len(data) - len(batch)) * mechanism[batch]
    return total


def without_replacement(mechanism: Mechanism, data: Batch, size: int) -> Array:
    """Return the output distribution on a uniform subset of `size` records, or on all where there are fewer."""
    samples = list(combinations(data, min(size, len(data))))
    return np.asarray(sum(mechanism[batch] for batch in samples) / len(samples))


def with_replacement(mechanism: Mechanism, data: Batch, draws: int) -> Array:
    """Return the output distribution on independent uniform draws."""
    samples = [tuple(sorted(draw)) for draw in product(data, repeat=draws)]
    return np.asarray(sum(mechanism[batch] for batch in samples) / len(samples))


# Divergences ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Ordered pairs of distributions that are nowhere 0, as logarithms: one row each."""

    log_p: Array
    log_q: Array

    def renyi(self, order: float) -> float:
        """Return the largest Rényi divergence of an order > 1."""
        exponents = order * self.log_p + (1 - order) * self.log_q
        peak = exponents.max(axis=1)
        moments = peak + np.log(np.exp(exponents - peak[:, None]).sum(axis=1))
        return max(0.0, float(moments.max())) / (order - 1)

    def pure(self) -> float:
        """Return the largest log-ratio, the ε of pure DP."""
        return float((self.log_p - self.log_q).max())


def ordered(pairs: Iterable[tuple[Array, Array]]) -> Pairs:
    """Return the pairs in both orders."""
    both = [rows for p, q in pairs for rows in ((p, q), (q, p))]
    rows = np.log(np.unique(np.array(both), axis=0))
    return Pairs(rows[:, 0], rows[:, 1])
