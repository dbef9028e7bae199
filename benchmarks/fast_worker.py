"""A process that lives long and answers many cases: `python -m benchmarks.fast_worker`, a line of JSON for each.

For a case it writes that the library has answered, then what the answer is worth; so the one who waits knows whose time
is being spent. It ends when its memory has grown, and says so.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from benchmarks.checks import BEYOND, CRASH, REFUSED, SOUND, TIMEOUT, Outcome
from benchmarks.fast_cases import STATED, Case, simpler
from benchmarks.fast_checks import verdict

MEMORY, WARNING, INVALID, FAULT = "memory", "warning", "refused as invalid", "fault of the reference"
SECONDS = 10.0  # of CPU, for one answer
GIGABYTE = 2**30
GUARD = 6 * GIGABYTE  # more address space than this is not given
FULL = 1.5 * GIGABYTE  # a process that holds more ends: what the library keeps is for it to keep, not for a hunt
SHRINKING = 8.0  # seconds of CPU for simpler cases of one finding
UNJUDGED = 1.0  # a simpler case that takes longer is not simpler

Reply = dict[str, Any]


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stdout = sys.stderr
    _guard()
    import cumulant  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        case = Case.from_dict(request["case"])
        for reply in (_shrunk(case, request["kind"]),) if "kind" in request else _checked(case):
            out.write(json.dumps(reply) + "\n")
        if _memory("VmRSS") > FULL:
            return


def _checked(case: Case) -> Any:
    before = _memory("VmRSS", reset=True)
    start = time.process_time()
    answer = asked(case)
    answered = time.process_time() - start
    grown = _memory("VmHWM") - before
    yield {"answered": answered}
    outcome = judged(case, answer)
    if outcome.word in (SOUND, BEYOND, REFUSED) and grown > GIGABYTE:
        outcome = Outcome(MEMORY, f"{grown / GIGABYTE:.1f} GB")
    if outcome.word in (SOUND, BEYOND, REFUSED) and answered > SECONDS:
        outcome = Outcome(TIMEOUT, f"{answered:.0f} s")
    yield {**_plain(case, outcome), "judged": time.process_time() - start - answered}


def checked(case: Case) -> Outcome:
    """Return what comes of one case, in this process."""
    return judged(case, asked(case))


def asked(case: Case) -> Outcome | tuple[Any, bool, str]:
    """Return the library's answer, what it says of itself, and the first warning; or what came instead."""
    import cumulant

    if any(part.relation for part in case.parts if part.kind == STATED) and not _stated_relations():
        return Outcome(REFUSED, "pairs have no relation in this version")
    script, namespace = case.script, dict[str, Any]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(script.imports, namespace)
            exec(script.body, namespace)
        except cumulant.InvalidParameter as error:
            return Outcome(INVALID, str(error)[:300])
        except cumulant.CumulantError as error:
            return Outcome(REFUSED, f"{type(error).__name__}: {error}"[:300])
        except MemoryError:
            return Outcome(MEMORY, f"more than {GUARD / GIGABYTE:.0f} GB")
        except Exception as error:
            return Outcome(CRASH, f"{type(error).__name__} in {_where(error)}: {error}"[:300])
    value, flag = namespace["answer"]
    return value, bool(flag), _first(caught)


def judged(case: Case, answer: Outcome | tuple[Any, bool, str]) -> Outcome:
    if isinstance(answer, Outcome):
        return answer
    value, flag, warning = answer
    try:
        outcome = verdict(case, value, flag)
    except Exception as error:  # the reference's own, to be mended there
        outcome = Outcome(FAULT, f"{type(error).__name__}: {error} for {value!r}"[:300])
    return Outcome(WARNING, warning) if outcome.word == SOUND and warning else outcome


def kind_of(case: Case, outcome: Outcome) -> str:
    """Return what findings are counted by: exceptions by their place, wrong answers by the question."""
    if outcome.word in (CRASH, WARNING):
        return f"{outcome.word}: {outcome.answer.partition(':')[0]}"
    return outcome.word if outcome.word in (INVALID, MEMORY, TIMEOUT) else f"{outcome.word}: {case.question}"


def _shrunk(case: Case, kind: str) -> Reply:
    """Return the simplest case, by greedy steps, of which the same kind of finding is true."""
    end = time.process_time() + SHRINKING
    outcome = checked(case)
    smaller: Case | None = case
    while smaller is not None:
        case, smaller = smaller, None
        for other in simpler(case):
            start = time.process_time()
            if start > end:
                break
            found = checked(other)
            if kind_of(other, found) == kind and time.process_time() - start < UNJUDGED:
                smaller, outcome = other, found
                break
    return {**_plain(case, outcome), "shrunk": True}


def _plain(case: Case, outcome: Outcome) -> Reply:
    return {
        "word": outcome.word,
        "answer": outcome.answer,
        "truth": outcome.truth,
        "kind": kind_of(case, outcome),
        "case": case.to_dict(),
    }


def _stated_relations() -> bool:
    import cumulant

    return "relation" in cumulant.StatedPair.__dataclass_fields__


def _where(error: BaseException) -> str:
    """Return the innermost place in the library."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if f"{os.sep}cumulant{os.sep}" in frame.filename
    ]
    return f"{Path(frames[-1].filename).name} {frames[-1].name}" if frames else "the script"


def _first(caught: list[warnings.WarningMessage]) -> str:
    if not caught:
        return ""
    first = caught[0]
    return f"{first.category.__name__} in {Path(first.filename).name} line {first.lineno}: {first.message}"[:300]


def _memory(mark: str, *, reset: bool = False) -> int:
    """Return bytes held now (VmRSS) or at most (VmHWM, which can be reset)."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(mark))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _guard() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > GUARD:
        resource.setrlimit(resource.RLIMIT_AS, (GUARD, hard))


if __name__ == "__main__":
    main()
