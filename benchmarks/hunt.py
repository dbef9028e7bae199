"""A long random search for answers below the truth, in this library or in a peer.

Every case is a function of the seed and its number, so a hunt that was stopped goes on where it was. What it finds is
shrunk to the simplest case that shows the same, and written down with the script that shows it.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from benchmarks import cases
from benchmarks.cases import Case, drawn, simpler
from benchmarks.checks import TIMEOUT, Outcome, check_library, check_peer, library_script
from benchmarks.contestants import BY_NAME, installed
from benchmarks.contestants.base import Contestant
from benchmarks.progress import Progress
from benchmarks.questions import Epsilon

Check = Callable[[Case], Outcome]
LIBRARY = "cumulant"
SHRINKING = 60.0  # seconds of looking for simpler cases before a finding is written down
LEAST_DELTA, LEAST_DELTA_OF_PEERS = 1e-40, 1e-14  # most of them refuse, or answer inf, from there on
KEPT = 10  # findings of one kind that are written down; others are counted
SAVED_EVERY = 20.0  # seconds


@final
@dataclass(slots=True)
class Hunt:
    """The state of a hunt: what JSON holds."""

    target: str
    seed: int
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def resumed(cls, path: Path) -> Hunt:
        data = json.loads(path.read_text(encoding="utf-8"))
        return cls(data["target"], data["seed"], data["cases"], Counter(data["outcomes"]), data["findings"])

    def save(self, path: Path) -> None:
        """Replace the file in one step: a hunt that is killed leaves a whole one."""
        content = {
            "target": self.target,
            "seed": self.seed,
            "cases": self.cases,
            "outcomes": dict(self.outcomes),
            "findings": self.findings,
        }
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
        os.replace(beside, path)


def run(hunt: Hunt, path: Path, *, minutes: float, quiet: bool = False) -> Hunt:
    """Hunt until the time is over; the state is in the file at every moment."""
    check, questions, show = _target(hunt.target)
    progress, start = Progress(60 * minutes, quiet=quiet), time.monotonic()
    saved = start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while (now := time.monotonic()) - start < 60 * minutes:
            _one(hunt, check, questions, show)
            if now - saved > SAVED_EVERY:
                hunt.save(path)
                saved = now
            progress.show(f"{hunt.cases} cases, {sum(hunt.outcomes[word] for word in _found_words(hunt))} findings")
            progress.reach(now - start)
    progress.close()
    hunt.save(path)
    return hunt


def _one(hunt: Hunt, check: Check, questions: tuple[str, ...], show: Callable[[Case], str]) -> None:
    least = LEAST_DELTA if hunt.target == LIBRARY else LEAST_DELTA_OF_PEERS
    case = drawn(hunt.seed, hunt.cases, questions, least_delta=least, wide=hunt.target == LIBRARY)
    outcome = check(case)
    hunt.cases += 1
    hunt.outcomes[outcome.word] += 1
    kind = _kind(outcome)
    if outcome.found and sum(finding["kind"] == kind for finding in hunt.findings) < KEPT:
        # what takes too long would take too long to make simpler
        small, shown = (case, outcome) if outcome.word == TIMEOUT else shrunk(case, outcome, check)
        hunt.findings.append(
            {
                "kind": kind,
                "answer": shown.answer,
                "truth": shown.truth,
                "case": small.to_dict(),
                "call": show(small),
                "number": hunt.cases - 1,
            }
        )


def shrunk(case: Case, outcome: Outcome, check: Check) -> tuple[Case, Outcome]:
    """Return the simplest case, by greedy steps, of which the same kind of finding is true."""
    end, kind = time.monotonic() + SHRINKING, _kind(outcome)
    while smaller := _first(simpler(case), kind, check, end):
        case, outcome = smaller
    return case, outcome


def _first(candidates: list[Case], kind: str, check: Check, end: float) -> tuple[Case, Outcome] | None:
    for case in candidates:
        if time.monotonic() > end:
            return None
        outcome = check(case)
        if _kind(outcome) == kind:
            return case, outcome
    return None


def _kind(outcome: Outcome) -> str:
    """Return the word; exceptions of different types are findings of different kinds."""
    return f"{outcome.word}: {outcome.answer.partition(':')[0]}" if outcome.word == "exception" else outcome.word


def _found_words(hunt: Hunt) -> list[str]:
    return [word for word in hunt.outcomes if Outcome(word).found]


def _target(name: str) -> tuple[Check, tuple[str, ...], Callable[[Case], str]]:
    if name == LIBRARY:
        return check_library, _library_questions(), lambda case: library_script(case).text
    contestant = peer(name)
    return (
        lambda case: check_peer(contestant, case),
        (cases.EPSILON,),
        lambda case: contestant.script(Epsilon(case.run)).text,
    )


def _library_questions() -> tuple[str, ...]:
    import cumulant

    known = hasattr(cumulant.Composed, "epsilon_interval")
    return (cases.EPSILON, cases.EPSILON, cases.DELTA, cases.RDP, *([cases.INTERVAL] if known else []))


def peer(name: str) -> Contestant:
    """Return a contestant by its name, or by its module: the first of it."""
    by_module = {contestant.module: contestant for contestant in reversed(BY_NAME.values())}
    found = BY_NAME.get(name) or by_module.get(name)
    if found is None:
        raise SystemExit(f"no contestant is called {name!r}; there are {', '.join(BY_NAME)}")
    if not installed(found):
        raise SystemExit(f"{found.package} is not installed: pip install {found.package}")
    return found


def summary(hunt: Hunt) -> str:
    lines = [f"{hunt.cases} cases of {hunt.target}, seed {hunt.seed}"]
    lines += [f"  {count:7d}  {word}" for word, count in hunt.outcomes.most_common()]
    for finding in hunt.findings:
        lines += ["", f"{finding['kind']}: {finding['answer']}  {finding['truth']}", finding["call"].rstrip()]
    return "\n".join(lines)
