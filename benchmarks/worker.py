"""The child process: runs one script, times it, and writes down what came of it.

`python -m benchmarks.worker REQUEST REPLY`, both JSON files; what the script prints does not matter.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """Return times, memory and the answer, or the exception instead of it."""
    warnings.simplefilter("ignore")
    namespace: dict[str, Any] = {}
    body = compile(request["body"], "<body>", "exec")
    reply: dict[str, Any] = {}
    try:
        reply["import_seconds"] = timed(compile(request["imports"], "<imports>", "exec"), namespace)
        reply["first_seconds"] = timed(body, namespace)
        reply["answer"] = plain(namespace["answer"])
        reply["again_seconds"] = repeated(body, namespace, request["repetitions"], request["budget"])
    except Exception as error:
        reply["error"] = f"{type(error).__name__}: {error}"[:300]
    reply["peak_megabytes"] = peak_megabytes()
    return reply


def timed(code: Any, namespace: dict[str, Any]) -> float:
    start = time.perf_counter()
    exec(code, namespace)
    return time.perf_counter() - start


def repeated(code: Any, namespace: dict[str, Any], repetitions: int, budget: float) -> list[float]:
    """Return the seconds of every repetition, as many as fit into the budget."""
    seconds: list[float] = []
    while len(seconds) < repetitions and sum(seconds) < budget:
        seconds.append(timed(code, namespace))
    return seconds


def plain(answer: Any) -> Any:
    """Return numbers as floats; those that JSON has no word for as text."""
    if answer is None:
        return None
    if isinstance(answer, list | tuple):
        return [plain(one) for one in answer]
    value = float(answer)
    return value if math.isfinite(value) else str(value)


def peak_megabytes() -> float:
    """Return the most memory this process has held.

    The kernel's own high-water mark: `ru_maxrss` starts from that of the parent, so it is what is left elsewhere.
    """
    status = Path("/proc/self/status")
    if status.exists():
        marks = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(marks[0]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(answered(json.loads(Path(sys.argv[1]).read_text()))))
