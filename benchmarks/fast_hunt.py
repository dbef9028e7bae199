"""The fast hunt: workers that live long, and one that watches their time."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from benchmarks.checks import BEYOND, CRASH, REFUSED, SOUND, TIMEOUT
from benchmarks.fast_cases import Case, drawn
from benchmarks.fast_worker import INVALID, MEMORY, SECONDS
from benchmarks.measure import ROOT, one_thread
from benchmarks.progress import Progress

KEPT = 10  # findings of one kind that are written down; others are counted
SAVED_EVERY = 20.0  # seconds
JUDGING = 20.0  # seconds of CPU, after which the reference gives up
SHRINKING = 30.0  # and after which a finding is kept as it is
TICK = 0.2
NO_FINDING = (SOUND, REFUSED, BEYOND)


@final
@dataclass(slots=True)
class FastHunt:
    """The state of a hunt: what JSON holds. `pending` cases were under way when it was written."""

    seed: int
    cases: int = 0
    following: int = 0
    pending: list[int] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: {"answers": 0.0, "truth": 0.0, "wall": 0.0})
    findings: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def resumed(cls, path: Path) -> FastHunt:
        data = json.loads(path.read_text(encoding="utf-8"))
        data = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        return cls(**{**data, "outcomes": Counter(data["outcomes"]), "kinds": Counter(data["kinds"])})

    def save(self, path: Path) -> None:
        """Replace the file in one step: a hunt that is killed leaves a whole one."""
        content = {"fast": True, **{name: getattr(self, name) for name in self.__dataclass_fields__}}
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
        os.replace(beside, path)


class _Worker:
    """A process, what it does, and since when."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fast_worker"],
            cwd=ROOT,
            env=one_thread(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._rest = b""
        self.number, self.case = -1, None  # type: int, Case | None
        self.phase, self.since, self.wall = "idle", 0.0, 0.0

    @property
    def stdout(self) -> Any:
        return self._process.stdout

    def send(self, phase: str, content: dict[str, Any]) -> bool:
        self.enter(phase)
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(content).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def enter(self, phase: str) -> None:
        self.phase, self.since, self.wall = phase, self._cpu(), time.monotonic()

    def read(self) -> Iterator[dict[str, Any]] | None:
        """Return the lines that have come, None if the process has ended."""
        block = os.read(self.stdout.fileno(), 2**20)
        if not block:
            return None
        *lines, self._rest = (self._rest + block).split(b"\n")
        return (json.loads(line) for line in lines)

    def late(self, limit: float) -> bool:
        """Whether the phase takes more CPU than that, or very much longer than it should."""
        return self._cpu() - self.since > limit or time.monotonic() - self.wall > 12 * limit

    def end(self) -> int | None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return self._process.returncode

    def code(self) -> int:
        return self._process.wait()

    def _cpu(self) -> float:
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Watch:
    """Workers, the state they add to, and the time they are given."""

    def __init__(self, hunt: FastHunt, jobs: int) -> None:
        self._hunt = hunt
        self._again = list(hunt.pending)
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        for _ in range(jobs):
            self._start()

    def busy(self) -> bool:
        return any(worker.phase != "idle" for worker in self._workers)

    def feed(self, most: int | None) -> None:
        """Give every idle worker a case."""
        for worker in list(self._workers):
            if worker.phase == "idle":
                number = self._next(most)
                if number is None:
                    return
                worker.number, worker.case = number, drawn(self._hunt.seed, number)
                self._hunt.pending = self.under_way()
                if not worker.send("answering", {"case": worker.case.to_dict()}):
                    self._again.append(number)
                    self._replace(worker)

    def under_way(self) -> list[int]:
        return sorted({worker.number for worker in self._workers if worker.phase != "idle"} | set(self._again))

    def listen(self) -> None:
        for key, _ in self._selector.select(TICK):
            worker: _Worker = key.data
            replies = worker.read()
            if replies is None:
                self._ended(worker)
                continue
            for reply in replies:
                self._take(worker, reply)
        for worker in list(self._workers):
            self._look_at(worker)

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._selector.close()

    def _next(self, most: int | None) -> int | None:
        if self._again:
            return self._again.pop(0)
        if most is not None and self._hunt.following >= most:
            return None
        self._hunt.following += 1
        return self._hunt.following - 1

    def _take(self, worker: _Worker, reply: dict[str, Any]) -> None:
        seconds = self._hunt.seconds
        if "answered" in reply:
            seconds["answers"] += reply["answered"]
            worker.enter("judging")
        elif "shrunk" in reply:
            self._keep(worker, reply)
            worker.enter("idle")
        else:
            seconds["truth"] += reply["judged"]
            self._count(worker, reply)

    def _count(self, worker: _Worker, reply: dict[str, Any]) -> None:
        hunt, kind = self._hunt, reply["kind"]
        hunt.cases += 1
        hunt.outcomes[reply["word"]] += 1
        worker.enter("idle")
        if reply["word"] in NO_FINDING:
            return
        hunt.kinds[kind] += 1
        if sum(finding["kind"] == kind for finding in hunt.findings) >= KEPT:
            return
        self._keep(worker, reply)
        if reply["word"] not in (TIMEOUT, MEMORY) and "case" in reply:  # those would take long to make simpler
            worker.send("shrinking", {"case": reply["case"], "kind": kind})

    def _keep(self, worker: _Worker, reply: dict[str, Any]) -> None:
        """Write a finding down, the simpler case in place of the first."""
        findings = self._hunt.findings
        findings[:] = [finding for finding in findings if finding["number"] != worker.number]
        case = Case.from_dict(reply["case"])
        findings.append(
            {
                "kind": reply["kind"],
                "answer": reply["answer"],
                "truth": reply["truth"],
                "case": reply["case"],
                "call": case.script.text,
                "number": worker.number,
            }
        )

    def _look_at(self, worker: _Worker) -> None:
        if worker.phase == "answering" and worker.late(SECONDS):
            self._count(worker, self._instead(worker, TIMEOUT, f"none in {SECONDS:g} s of CPU"))
        elif worker.phase == "judging" and worker.late(JUDGING):
            self._count(worker, self._instead(worker, BEYOND, "the reference took too long"))
        elif not (worker.phase == "shrinking" and worker.late(SHRINKING)):
            return
        self._replace(worker)

    def _ended(self, worker: _Worker) -> None:
        """A worker that is full ends between cases; in a case it has crashed."""
        code = worker.code()
        if worker.phase in ("answering", "judging"):
            self._count(worker, self._instead(worker, CRASH, f"the process ended with code {code}"))
        self._replace(worker)

    def _instead(self, worker: _Worker, word: str, text: str) -> dict[str, Any]:
        assert worker.case is not None
        kind = f"{word}: {text}" if word == CRASH else word
        return {"word": word, "answer": text, "truth": "", "kind": kind, "case": worker.case.to_dict()}

    def _replace(self, worker: _Worker) -> None:
        self._selector.unregister(worker.stdout)
        worker.end()
        self._workers.remove(worker)
        self._start()

    def _start(self) -> None:
        worker = _Worker()
        self._workers.append(worker)
        self._selector.register(worker.stdout, selectors.EVENT_READ, worker)


def run(
    hunt: FastHunt,
    path: Path,
    *,
    cases: int | None = None,
    minutes: float | None = None,
    jobs: int = 1,
    quiet: bool = False,
) -> FastHunt:
    """Hunt until so many cases are done or the time is over; the state is in the file at every moment."""
    start = saved = time.monotonic()
    before = hunt.seconds["wall"]
    progress = Progress(cases or 60 * (minutes or 1), quiet=quiet)
    watch = _Watch(hunt, jobs)
    try:
        while True:
            now = time.monotonic()
            over = minutes is not None and now - start > 60 * minutes
            if not over:
                watch.feed(cases)
            if not watch.busy():
                break
            watch.listen()
            hunt.seconds["wall"] = before + time.monotonic() - start
            if now - saved > SAVED_EVERY:
                hunt.pending = watch.under_way()
                hunt.save(path)
                saved = now
            progress.show(f"{hunt.cases} cases, {sum(hunt.kinds.values())} findings of {len(hunt.kinds)} kinds")
            progress.reach(hunt.cases if cases else now - start)
    finally:
        hunt.pending = watch.under_way()
        watch.close()
        progress.close()
        hunt.save(path)
    return hunt


def found(hunt: FastHunt) -> bool:
    """Whether something is wrong; legal draws that are refused as invalid are only counted."""
    return any(word not in (*NO_FINDING, INVALID) for word in hunt.outcomes)


def summary(hunt: FastHunt) -> str:
    answers, truth, wall = (hunt.seconds[name] for name in ("answers", "truth", "wall"))
    lines = [f"{hunt.cases} fast cases, seed {hunt.seed}, in {wall:.0f} s"]
    if hunt.cases:
        of_answers, of_truth = (1000 * seconds / hunt.cases for seconds in (answers, truth))
        each = f"{of_answers:.0f} ms of CPU for an answer, {of_truth:.0f} ms for the truth"
        lines.append(f"  {each}, {3600 * hunt.cases / max(wall, 1e-9):.0f} cases an hour")
    lines += [f"  {count:7d}  {word}" for word, count in hunt.outcomes.most_common()]
    lines += ["", *(f"  {count:7d}  {kind}" for kind, count in hunt.kinds.most_common())]
    for finding in sorted(hunt.findings, key=lambda one: str(one["kind"])):
        lines += ["", f"{finding['kind']}: {finding['answer']}  {finding['truth']}", finding["call"].rstrip()]
    return "\n".join(lines)
