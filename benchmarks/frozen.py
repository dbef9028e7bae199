"""Answers that must not change unnoticed: `benchmarks freeze` records them, `tests/laws/test_frozen.py` asks again.

Cases come from the generator of the fast hunt. Each is kept as the Python that asks it, so that a change of the
generator changes nothing here.
"""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, final

from benchmarks.fast_cases import drawn
from benchmarks.progress import Progress

QUICK = 0.1  # seconds of CPU: what takes longer is not recorded, so that all can be asked in a minute
SAME = 1e-9  # relative difference of two exact answers that are the same: processors round sums differently
SAME_BOUND = 1e-5  # the same of bounds that are not exact: which of two roads is less may turn on a rounding

Answer = float | list[float] | str
"""A number, the ends of an interval, or the name of the error."""


@final
@dataclass(frozen=True, slots=True)
class Frozen:
    """A question as Python, and its answer."""

    question: str
    answer: Answer
    is_slow: bool = False  # marked by hand: tests ask a part of these

    def agrees_with(self, asked: Asked) -> bool:
        if isinstance(self.answer, str) or isinstance(asked.answer, str):
            return self.answer == asked.answer
        share = SAME if asked.is_exact else SAME_BOUND
        return all(_same(*ends, share) for ends in zip(_ends(self.answer), _ends(asked.answer), strict=True))


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """An answer of today, and whether it is said to be exact, or certified."""

    answer: Answer
    is_exact: bool


def ask(question: str) -> Asked:
    """Ask a question, which leaves `answer` behind: the number, or both ends, and what is said of them."""
    import cumulant

    namespace: dict[str, Any] = {"cm": cumulant}
    try:
        exec(question, namespace)
    except cumulant.CumulantError as error:
        return Asked(type(error).__name__, is_exact=True)
    value, is_exact = namespace["answer"]
    return Asked([float(end) for end in value] if isinstance(value, tuple) else float(value), bool(is_exact))


def record(path: Path, *, cases: int, seed: int) -> None:
    """Record answers of quick cases."""
    _write(path, islice(_recorded(seed), cases), cases)


def record_again(path: Path) -> None:
    """Ask the recorded questions again, and record the answers that have changed."""
    known = read(path)
    asked = ((frozen, ask(frozen.question)) for frozen in known)
    _write(path, (old if old.agrees_with(new) else replace(old, answer=new.answer) for old, new in asked), len(known))


def _write(path: Path, answers: Iterator[Frozen], cases: int) -> None:
    progress, rows = Progress(cases), []
    for frozen in answers:
        row = [frozen.question, frozen.answer, *(["slow"] if frozen.is_slow else [])]
        rows.append(json.dumps(row, ensure_ascii=False))
        progress.advance()
    progress.close()
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def read(path: Path) -> list[Frozen]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [Frozen(question, answer, bool(mark)) for question, answer, *mark in rows]


def _recorded(seed: int) -> Iterator[Frozen]:
    signal.signal(signal.SIGVTALRM, _give_up)
    for index in count():
        question = drawn(seed, index).script.body
        signal.setitimer(signal.ITIMER_VIRTUAL, QUICK)
        try:
            yield Frozen(question, ask(question).answer)
        except TimeoutError:
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _give_up(*_: object) -> None:
    raise TimeoutError


def _ends(answer: float | list[float]) -> list[float]:
    return answer if isinstance(answer, list) else [answer]


def _same(one: float, other: float, share: float) -> bool:
    return one == other or abs(one - other) <= share * abs(one) or (math.isnan(one) and math.isnan(other))
