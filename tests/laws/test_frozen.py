"""Two thousand recorded answers: what changes is listed under *Changed numbers* and recorded again.

A hundred take three quarters of the time and are marked in the file. A fifth of these is asked on every run: under CI
the fifth that the file's text draws, at a desk that of the day; CUMULANT_SLOW=1 asks them all, like `freeze --again`.
"""

from __future__ import annotations

import hashlib
import os
from datetime import date
from pathlib import Path

import pytest
from benchmarks.frozen import Frozen, ask, read

from stored import is_drawn
from strategies import SLOW

FILE = Path(__file__).parent / "frozen_answers.json"
SEED = hashlib.sha256(FILE.read_bytes()).hexdigest() if os.environ.get("CI") else date.today().isoformat()
FROZEN = read(FILE)
BLOCK = 100


def is_asked(frozen: Frozen) -> bool:
    return SLOW or not frozen.is_slow or is_drawn(frozen.question, SEED, 5)


@pytest.mark.parametrize("first", range(0, len(FROZEN), BLOCK))
def test_answers_are_as_recorded(first: int) -> None:
    """A change is mended or, if it is tighter or was below the truth, recorded: `freeze --again`."""
    changed = [
        f"{frozen.question}\n# was {frozen.answer}, is {asked.answer}"
        for frozen in FROZEN[first : first + BLOCK]
        if is_asked(frozen) and not frozen.agrees_with(asked := ask(frozen.question))
    ]
    assert not changed, "\n\n".join(changed)
