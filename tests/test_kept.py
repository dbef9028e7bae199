"""What is kept for each pair, and computed for many."""

from __future__ import annotations

from collections.abc import Sequence

from cumulant.loss.kept import Kept
from cumulant.loss.pair import DominatingPair
from cumulant.loss.sampled_pair import removed_gaussian, removed_laplace

NEAR = [removed_gaussian(mean, 0.01) for mean in (0.6, 0.7, 0.8)]
OTHER = removed_laplace(1.0, 0.01)


def test_pairs_of_one_kind_are_asked_at_once_and_answers_come_in_order() -> None:
    asked: list[tuple[int, int]] = []

    def evaluate(pairs: Sequence[DominatingPair], question: int) -> list[str]:
        asked.append((len(pairs), question))
        return [f"{pair.supremum}:{question}" for pair in pairs]

    kept = Kept(evaluate, 100)
    pairs = [NEAR[0], OTHER, NEAR[1], NEAR[0]]
    first = kept.of(pairs, [(1,), (1,), (1,), (2,)])
    assert first == [f"{pair.supremum}:{question}" for pair, question in zip(pairs, (1, 1, 1, 2), strict=True)]
    assert sorted(asked) == [(1, 1), (1, 2), (2, 1)]
    assert kept.of([NEAR[1], NEAR[2]], [(1,), (1,)]) == ["inf:1", "inf:1"]
    assert sorted(asked) == [(1, 1), (1, 1), (1, 2), (2, 1)]  # only what was missing


def test_the_oldest_go_first_and_what_is_too_heavy_is_still_answered() -> None:
    asked: list[float] = []

    def evaluate(pairs: Sequence[DominatingPair], weight: int) -> list[int]:
        asked.extend(weight for _ in pairs)
        return [weight for _ in pairs]

    kept = Kept(evaluate, 10, lambda value: value)
    for weight in (4, 5, 5):
        assert kept.of([NEAR[0]], [(weight,)]) == [weight]
    assert kept.of([NEAR[0]], [(3,)]) == [3]  # 4 + 5 + 3 is too much: 4 goes
    assert kept.of([NEAR[0]], [(5,)]) == [5]
    assert asked == [4, 5, 3]
    assert kept.of(NEAR, [(11,)] * 3) == [11, 11, 11]
    assert kept.of([NEAR[0]], [(5,)]) == [5]
    assert asked == [4, 5, 3, 11, 11, 11, 5]
