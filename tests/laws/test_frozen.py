"""Two thousand recorded answers: what changes is listed under *Changed numbers* and recorded again."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.frozen import ask, read

FROZEN = read(Path(__file__).parent / "frozen_answers.json")
BLOCK = 100


@pytest.mark.parametrize("first", range(0, len(FROZEN), BLOCK))
def test_answers_are_as_recorded(first: int) -> None:
    """A change is mended or, if it is tighter or was below the truth, recorded: `freeze --again`."""
    changed = [
        f"{frozen.question}\n# was {frozen.answer}, is {asked.answer}"
        for frozen in FROZEN[first : first + BLOCK]
        if not frozen.agrees_with(asked := ask(frozen.question))
    ]
    assert not changed, "\n\n".join(changed)
