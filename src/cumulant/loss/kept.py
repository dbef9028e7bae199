"""Values that are kept for every pair by itself, and computed together for pairs of one kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Generic, TypeVar, final

from cumulant.loss.pair import DominatingPair

SIMILAR = 1.0  # octaves within which parameters take about the same nodes

Value = TypeVar("Value")
Asked = tuple[DominatingPair, tuple[Hashable, ...]]


@final
class Kept(Generic[Value]):
    """A table of answers; `evaluate` is asked for those that are missing, one kind of pairs and one question at a time.

    When they weigh more than `most` the oldest answers go.
    """

    def __init__(
        self, evaluate: Callable[..., Sequence[Value]], most: int, weight: Callable[[Value], int] = lambda _: 1
    ) -> None:
        self._evaluate, self._most, self._weight = evaluate, most, weight
        self._table: dict[Asked, Value] = {}
        self._total = 0
        self._lock = Lock()

    def of(self, pairs: Sequence[DominatingPair], questions: Sequence[tuple[Hashable, ...]]) -> list[Value]:
        """Return the answer of each pair to its question."""
        asked = list(zip(pairs, questions, strict=True))
        answers = [self._table.get(one) for one in asked]
        missing = {one: None for one, answer in zip(asked, answers, strict=True) if answer is None}
        new = evaluated(list(missing), self._evaluate)
        if new:
            self._keep(new)
        return [new[one] if answer is None else answer for one, answer in zip(asked, answers, strict=True)]

    def _keep(self, new: dict[Asked, Value]) -> None:
        with self._lock:
            for one, value in new.items():
                if one not in self._table:
                    self._table[one] = value
                    self._total += self._weight(value)
            while self._total > self._most:
                self._total -= self._weight(self._table.pop(next(iter(self._table))))


def evaluated(asked: Sequence[Asked], evaluate: Callable[..., Sequence[Value]]) -> dict[Asked, Value]:
    """Return the answers to questions, each about one pair; pairs of one kind are asked together."""
    groups: dict[tuple[Hashable, tuple[Hashable, ...]], list[DominatingPair]] = {}
    for pair, question in asked:
        groups.setdefault((pair.kind(SIMILAR), question), []).append(pair)
    found: dict[Asked, Value] = {}
    for (_, question), group in groups.items():
        found.update(zip(((pair, question) for pair in group), evaluate(group, *question), strict=True))
    return found
