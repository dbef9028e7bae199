"""Measurements: every one in processes of its own, on one thread, with a time limit."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from benchmarks.questions import Script

ROOT = Path(__file__).parent.parent
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS")


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """How often, and how long at most: for one process, and for the repetitions in it."""

    processes: int = 3
    repetitions: int = 5
    timeout: float = 120.0
    budget: float = 10.0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What one script answered, and how long it took.

    All in fresh processes: the import, the first answer, and the same question again. `failure` says why there is no
    answer: an exception, or "timeout".
    """

    answer: Any = None
    failure: str | None = None
    imports: tuple[float, ...] = ()
    first: tuple[float, ...] = ()
    again: tuple[float, ...] = ()
    megabytes: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measured(script: Script, limits: Limits) -> Measurement:
    """Return the measurement over several fresh processes; the first failure ends it."""
    replies: list[dict[str, Any]] = []
    for _ in range(limits.processes):
        reply = in_fresh_process(script, limits)
        if "error" in reply:
            return Measurement(failure=reply["error"], megabytes=reply.get("peak_megabytes"))
        replies.append(reply)
    return Measurement(
        answer=replies[0]["answer"],
        imports=tuple(reply["import_seconds"] for reply in replies),
        first=tuple(reply["first_seconds"] for reply in replies),
        again=tuple(seconds for reply in replies for seconds in reply["again_seconds"]),
        megabytes=max(reply["peak_megabytes"] for reply in replies),
    )


def in_fresh_process(script: Script, limits: Limits) -> dict[str, Any]:
    request = {**asdict(script), "repetitions": limits.repetitions, "budget": limits.budget}
    with tempfile.TemporaryDirectory() as directory:
        asked, replied = Path(directory, "request.json"), Path(directory, "reply.json")
        asked.write_text(json.dumps(request))
        command = [sys.executable, "-m", "benchmarks.worker", str(asked), str(replied)]
        try:
            run = subprocess.run(
                command, cwd=ROOT, env=one_thread(), timeout=limits.timeout, capture_output=True, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": "timeout"}
        if not replied.exists():
            return {"error": f"the process ended with code {run.returncode}"}
        reply: dict[str, Any] = json.loads(replied.read_text())
        return reply


def one_thread() -> dict[str, str]:
    return {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in THREADS}}


def median(seconds: tuple[float, ...]) -> float | None:
    return statistics.median(seconds) if seconds else None


def machine() -> dict[str, Any]:
    """Return cores and memory, which is all a reader needs to know of the machine."""
    try:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError):
        memory = None
    return {"cores": os.cpu_count(), "memory_gigabytes": memory, "python": sys.version.split()[0]}
