"""The walk of one question through the source: which files it visits, how often it changes file, which types it wears.

`python -m benchmarks walk` prints it; `tests/test_architecture.py` keeps it from growing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, final


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


def walk_of_the_first_question() -> Walk:
    """Follow ε of the README's run, from `epsilon` on, asked for the first time."""
    import cumulant

    run = cumulant.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000
    (cumulant.Gaussian(noise_multiplier=1.1).poisson(rate=0.011) * 1000).epsilon(delta=1e-5)  # imports are no walk
    package = Path(cumulant.__file__).parent
    walk = Walk()

    def follow(frame: FrameType, event: str, _: Any) -> None:
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

    sys.setprofile(follow)
    try:
        run.epsilon(delta=1e-5)
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
