"""The cache: one limit in bytes, the least recently asked goes first, misses of one kind are computed at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import cumulant as cm
from cumulant.numerics.logspace import Array
from cumulant.pairs.cache import CACHE, OVERHEAD_BYTES, BatchedTable, Cache, size_in_bytes
from cumulant.pairs.pair import DominatingPair
from sampled_pairs import removed_gaussian, removed_laplace

NEAR = [removed_gaussian(mean, 0.01) for mean in (0.6, 0.7, 0.8)]
OTHER = removed_laplace(1.0, 0.01)
ENTRY = OVERHEAD_BYTES + 800  # of a hundred doubles


def test_pairs_of_one_kind_are_asked_at_once_and_answers_come_in_order() -> None:
    asked: list[tuple[int, int]] = []

    def evaluate(pairs: Sequence[DominatingPair], question: int) -> list[str]:
        asked.append((len(pairs), question))
        return [f"{pair.supremum}:{question}" for pair in pairs]

    table = BatchedTable("text", evaluate, Cache(10**6))
    pairs = [NEAR[0], OTHER, NEAR[1], NEAR[0]]
    first = table.of(pairs, [(1,), (1,), (1,), (2,)])
    assert first == [f"{pair.supremum}:{question}" for pair, question in zip(pairs, (1, 1, 1, 2), strict=True)]
    assert sorted(asked) == [(1, 1), (1, 2), (2, 1)]
    assert table.of([NEAR[1], NEAR[2]], [(1,), (1,)]) == ["inf:1", "inf:1"]
    assert sorted(asked) == [(1, 1), (1, 1), (1, 2), (2, 1)]  # only what was missing


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    asked: list[int] = []
    cache = Cache(3 * ENTRY)

    @cache.remember
    def numbers(key: int) -> Array:
        asked.append(key)
        return np.full(100, float(key))

    for key in (1, 2, 3, 1, 4):  # 2 goes, as 1 was asked for again
        assert numbers(key)[0] == key
    assert cache.bytes <= 3 * ENTRY
    for key in (1, 3, 4):
        numbers(key)
    assert asked == [1, 2, 3, 4]
    numbers(2)
    assert asked == [1, 2, 3, 4, 2]


def test_what_is_too_large_is_still_answered() -> None:
    cache = Cache(100)
    assert cache.remember(lambda n: np.full(n, 1.0))(1000).shape == (1000,)
    assert cache.bytes == 0


def test_what_is_too_large_drops_nothing_else() -> None:
    cache, asked = Cache(3 * ENTRY), []

    @cache.remember
    def numbers(count: int) -> Array:
        asked.append(count)
        return np.zeros(count)

    for count in (100, 1000, 100):
        numbers(count)
    assert asked == [100, 1000]


def test_a_row_does_not_keep_its_array_alive() -> None:
    cache = Cache(10**7)
    table = BatchedTable("rows", lambda pairs: list(np.zeros((len(pairs), 1000))), cache)
    table.of(NEAR, [()] * 3)
    kept = table.of(NEAR[:1], [()])[0]
    assert kept.base is None
    assert cache.bytes < 4 * (8000 + OVERHEAD_BYTES)


def test_sizes_are_counted_through_lists_tuples_and_dataclasses() -> None:
    assert size_in_bytes((np.zeros(10), [np.zeros(5)])) == 120


def test_answers_do_not_depend_on_what_is_kept() -> None:
    run = cm.Laplace(scale=1.3).poisson(rate=0.02) * 700
    first = run.epsilon(delta=1e-6)
    CACHE.clear()
    assert CACHE.bytes == 0
    assert run.epsilon(delta=1e-6) == first
    assert 0 < CACHE.bytes <= CACHE.limit_bytes


def test_threads_may_ask_at_once() -> None:
    CACHE.clear()
    runs = [cm.Gaussian(noise_multiplier=1.0 + 0.01 * i).poisson(rate=0.01) * 100 for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda run: run.epsilon(delta=1e-5), runs * 2))
    CACHE.clear()
    assert together == [run.epsilon(delta=1e-5) for run in runs] * 2
