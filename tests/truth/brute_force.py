"""Tiny worlds in which sampling is enumerated: every dataset, every sample, every output, and no theorem.

A batch is a sorted tuple of records, a record is a small number, and a mechanism maps each batch to the probabilities
of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
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


def both_directions(pairs: Iterable[tuple[Batch, Batch]], output: Callable[[Batch], Array]) -> Pairs:
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


# Adaptive rounds, in fractions ----------------------------------------------------------------------------------------

Law = tuple[Fraction, ...]
Kernel = tuple[Law, Law]  # the output's law on a dataset, and on its neighbour
Shares = dict[Batch, Fraction]  # of a sample's batches


def poisson_shares(data: Batch, rate: Fraction) -> Shares:
    found: Shares = {}
    for joins in product((False, True), repeat=len(data)):
        batch = tuple(record for record, joined in zip(data, joins, strict=True) if joined)
        share = rate ** len(batch) * (1 - rate) ** (len(data) - len(batch))
        found[batch] = found.get(batch, Fraction(0)) + share
    return found


def without_replacement_shares(data: Batch, size: int) -> Shares:
    return _equally(combinations(data, size))


def with_replacement_shares(data: Batch, draws: int) -> Shares:
    return _equally(tuple(sorted(draw)) for draw in product(data, repeat=draws))


def _equally(samples: Iterable[Batch]) -> Shares:
    every = list(samples)
    return {batch: Fraction(every.count(batch), len(every)) for batch in set(every)}


def levels(some: Iterable[Batch], values: int, *, in_order: bool) -> Iterator[dict[Batch, int]]:
    """Return every way to give each batch one of so many laws.

    In order: one more record never lowers the level, as where P is with the record and Q without it.
    """
    every = sorted(set(some))
    larger = [(a, b) for a in every for b in every if len(b) == len(a) + 1 and _inside(a, b)]
    for chosen in product(range(values), repeat=len(every)):
        level = dict(zip(every, chosen, strict=True))
        if not in_order or all(level[a] <= level[b] for a, b in larger):
            yield level


def _inside(small: Batch, large: Batch) -> bool:
    return all(small.count(record) <= large.count(record) for record in small)


def kernels(one: Shares, other: Shares, laws: tuple[Law, ...], *, in_order: bool) -> frozenset[Kernel]:
    """Return the outputs on two samples of every mechanism that gives batches these laws, from Q up to P."""
    return frozenset(
        (_mixed(one, level, laws), _mixed(other, level, laws))
        for level in levels([*one, *other], len(laws), in_order=in_order)
    )


def _mixed(shares: Shares, level: dict[Batch, int], laws: tuple[Law, ...]) -> Law:
    outputs = range(len(laws[0]))
    return tuple(sum((s * laws[level[batch]][o] for batch, s in shares.items()), Fraction(0)) for o in outputs)


def reverse(some: Iterable[Kernel]) -> frozenset[Kernel]:
    return frozenset((q, p) for p, q in some)


def adaptive_excess(some: frozenset[Kernel], rounds: int, t: Fraction) -> Fraction:
    """Return the largest Σ (p - tq)_+ over histories, a kernel chosen after each: a recursion on the ratio q/p.

    V_0(t) = (1 - t)_+,  V_{r+1}(t) = max over kernels of Σ_o p_o V_r(t q_o / p_o).
    """
    ratios = [[(a, b / a) for a, b in zip(p, q, strict=True) if a] for p, q in some]
    known: dict[tuple[int, Fraction], Fraction] = {}  # histories in another order end at the same ratio

    def value(left: int, above: Fraction) -> Fraction:
        if left == 0:
            return max(1 - above, Fraction(0))
        if (left, above) not in known:
            known[left, above] = max(
                sum((a * value(left - 1, above * ratio) for a, ratio in row), Fraction(0)) for row in ratios
            )
        return known[left, above]

    return value(rounds, t)


def largest_ratio(some: frozenset[Kernel]) -> Fraction | None:
    """Return the largest p/q of an output, None where q is 0."""
    if any(a and not b for p, q in some for a, b in zip(p, q, strict=True)):
        return None
    return max(a / b for p, q in some for a, b in zip(p, q, strict=True) if b)
