"""What was computed about pairs, kept for the next question: one cache with one limit in bytes.

Tables share `CACHE`: when it is full, the entry that was asked for longest ago goes, whichever table it is of.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from threading import Lock
from typing import Any, Generic, ParamSpec, TypeVar, cast, final

import numpy as np

from cumulant.pairs.pair import DominatingPair

LIMIT_BYTES = 64 * 2**20  # of all that is kept
OVERHEAD_BYTES = 800  # of an entry: its key, and its place in the table
BALL_BYTES = 160  # of one ball, about
FLOAT_BYTES = 32  # of a number among others, with its place
SIMILAR = 1.0  # octaves within which parameters take about the same nodes

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")
Asked = tuple[DominatingPair, tuple[Hashable, ...]]


@final
class Cache:
    """Values by table and key; safe to use from several threads. Values are computed outside the lock."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, keys: Iterable[Hashable]) -> list[Any]:
        """Return the values of keys, None for those that are missing."""
        with self._lock:
            return [self._get(key) for key in keys]

    def _get(self, key: Hashable) -> Any:
        entry = self._values.get(key)
        if entry is None:
            return None
        self._values.move_to_end(key)
        return entry[0]

    def put(self, new: Iterable[tuple[Hashable, Any]]) -> None:
        """Keep values that are not too large themselves; drop those asked for longest ago while there are too many."""
        sized = [(key, value, OVERHEAD_BYTES + size_in_bytes(value)) for key, value in new]
        with self._lock:
            for key, value, size in sized:
                if key not in self._values and size <= self.limit_bytes:
                    self._values[key] = value, size
                    self._bytes += size
            while self._bytes > self.limit_bytes:
                _, (_, size) = self._values.popitem(last=False)
                self._bytes -= size

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def remember(self, function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        """Keep the values of a function of hashable arguments, none of which are named."""
        table = f"{function.__module__}.{function.__qualname__}"

        @wraps(function)
        def known(*arguments: Arguments.args, **named: Arguments.kwargs) -> Value:
            key = (table, arguments)
            (value,) = self.get([key])
            if value is None:
                value = function(*arguments, **named)
                self.put([(key, value)])
            return cast(Value, value)

        return known


CACHE = Cache(LIMIT_BYTES)


@final
class BatchedTable(Generic[Value]):
    """A table with batched misses: missing entries of pairs with one batch key are computed in one call."""

    def __init__(self, name: str, evaluate: Callable[..., Sequence[Value]], cache: Cache = CACHE) -> None:
        self._name, self._evaluate, self._cache = name, evaluate, cache

    def of(self, pairs: Sequence[DominatingPair], questions: Sequence[tuple[Hashable, ...]]) -> list[Value]:
        """Return the answer of each pair to its question."""
        asked = list(zip(pairs, questions, strict=True))
        answers = self._cache.get((self._name, one) for one in asked)
        missing = {one: None for one, answer in zip(asked, answers, strict=True) if answer is None}
        if not missing:
            return answers
        new = evaluate_by_batch_key(list(missing), self._evaluate)
        self._cache.put(((self._name, one), _own(value)) for one, value in new.items())
        return [new[one] if answer is None else answer for one, answer in zip(asked, answers, strict=True)]


def evaluate_by_batch_key(asked: Sequence[Asked], evaluate: Callable[..., Sequence[Value]]) -> dict[Asked, Value]:
    """Return the answers to questions, each about one pair; pairs with one batch key are asked together."""
    groups: dict[tuple[Hashable, tuple[Hashable, ...]], list[DominatingPair]] = {}
    for pair, question in asked:
        groups.setdefault((pair.batch_key(SIMILAR) if len(asked) > 1 else None, question), []).append(pair)
    found: dict[Asked, Value] = {}
    for (_, question), group in groups.items():
        found.update(zip(((pair, question) for pair in group), evaluate(group, *question), strict=True))
    return found


def _own(value: Value) -> Value:
    """Return a value whose arrays are its own: a row of a larger array would keep all of that alive."""
    if isinstance(value, np.ndarray):
        return cast(Value, value if value.base is None else value.copy())
    if isinstance(value, tuple):
        return cast(Value, tuple(map(_own, value)))
    if is_dataclass(value) and not isinstance(value, type):
        return cast(Value, type(value)(*(_own(getattr(value, field.name)) for field in fields(value))))
    return value


def size_in_bytes(value: Any) -> int:
    """Return about how much memory a value takes: arrays, balls, and lists, tuples and dataclasses of them."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, tuple | list):
        if value and isinstance(value[0], float):
            return FLOAT_BYTES * len(value)
        if value and type(value[0]).__module__.startswith("flint"):
            return BALL_BYTES * len(value)
        return sum(map(size_in_bytes, value))
    if is_dataclass(value) and not isinstance(value, type):
        return sum(size_in_bytes(getattr(value, field.name)) for field in fields(value))
    return BALL_BYTES if type(value).__module__.startswith("flint") else sys.getsizeof(value, 0)
