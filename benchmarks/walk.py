"""The walk of a question through the source: which files it visits, how often it changes file, which types it wears.

`python -m benchmarks walk` prints that of the README's question, `walk mixed` and so on those of others;
`tests/pages/test_architecture.py` keeps them from growing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, final

import cumulant as cm


@final
@dataclass(slots=True)
class Walk:
    """Files and types of the package in the order of their first visit, and calls from one file into another."""

    files: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    changes: int = 0

    def lines(self) -> Iterator[str]:
        yield f"{len(self.files)} files, {self.changes} calls into another file, {len(self.types)} types"
        yield from (f"  {file}" for file in self.files)
        yield "types: " + ", ".join(self.types)


Question = Callable[[], object]


def first() -> Question:
    """Return ε of the README's run."""
    run = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000
    return lambda: run.epsilon(delta=1e-5)


def rare() -> Question:
    """Return ε of a few rare steps."""
    run = cm.Gaussian(noise_multiplier=2.151).poisson(rate=0.001837) * 44
    return lambda: run.epsilon(delta=1.53e-16)


def mixed() -> Question:
    """Return ε of three kinds of noise, composed."""
    step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000
    run = step + cm.Laplace(scale=20.0) * 10 + cm.RandomizedResponse(p=0.55) * 3
    return lambda: run.epsilon(delta=1e-5)


def interval() -> Question:
    """Return the certified interval of the README's run."""
    run = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000
    return lambda: run.epsilon_interval(delta=1e-5)


def online() -> Question:
    """Return ε after each of a hundred steps with noise of their own."""
    accountant = cm.Accountant()
    steps = [cm.Gaussian(noise_multiplier=1.0 + k / 100).poisson(rate=0.01) for k in range(100)]

    def ask() -> None:
        for step in steps:
            accountant.compose(step)
            accountant.epsilon(delta=1e-5)

    return ask


QUESTIONS = {"first": first, "rare": rare, "mixed": mixed, "interval": interval, "online": online}


def walk_of(name: str) -> Walk:
    """Follow one of the questions, asked for the first time; imports are no walk."""
    similar = cm.Gaussian(noise_multiplier=1.1).poisson(rate=0.011) * 900
    if name == "interval":
        similar.epsilon_interval(delta=1e-5)
    similar.epsilon(delta=1e-5)
    return follow(QUESTIONS[name]())


def follow(question: Question) -> Walk:
    """Return the walk of one question through the package."""
    package, walk = Path(cm.__file__).parent, Walk()

    def note(frame: FrameType, event: str, _: Any) -> None:
        here = _file(frame, package)
        if event != "call" or here is None:
            return
        before = _file(frame.f_back, package) if frame.f_back is not None else None
        if before is not None and before != here:
            walk.changes += 1
        if here not in walk.files:
            walk.files.append(here)
        if "self" in frame.f_locals:
            kind = type(frame.f_locals["self"]).__name__
            if type(frame.f_locals["self"]).__module__.startswith("cumulant") and kind not in walk.types:
                walk.types.append(kind)

    sys.setprofile(note)
    try:
        question()
    finally:
        sys.setprofile(None)
    return walk


def _file(frame: FrameType | None, package: Path) -> str | None:
    """Return the file of the package that a frame runs in; calls through NumPy and the like belong to who made them."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if package in path.parents:
            return path.relative_to(package).as_posix()
        frame = frame.f_back
    return None
