"""Child processes that answer questions, each within bounds of time and memory, whatever was typed."""

from __future__ import annotations

import json
import multiprocessing
import queue
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import final

MOST_SECONDS = 10.0  # of an answer, waiting for a free process included; then the process is ended
MOST_BYTES = 2**30  # of memory a process may take
START_SECONDS = 60.0  # a process that has not begun by then never will
GRACE_SECONDS = 1.0  # between asking a process to end and ending it


@final
@dataclass(frozen=True, slots=True)
class Worker:
    """A process, and the pipe through which it is asked."""

    process: BaseProcess
    pipe: Connection

    def end(self) -> None:
        self.process.terminate()
        self.process.join(GRACE_SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
        self.pipe.close()


@final
class Workers:
    """As many processes as may answer at once; one that takes too long, or dies, is replaced."""

    def __init__(self, count: int, *, ledger: str | None = None, most_seconds: float = MOST_SECONDS) -> None:
        self._context = multiprocessing.get_context("spawn")  # a fork would copy the locks of the server's threads
        self._ledger = ledger
        self._most_seconds = most_seconds
        self._free: queue.Queue[Worker] = queue.Queue()
        self._all: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        for worker in [self._started() for _ in range(count)]:  # side by side: each needs a second to import
            self._welcome(worker)

    def ask(self, text: str) -> str:
        """Return the answer to a question, both JSON; one that no process gives in time is refused in its place."""
        ends = time.monotonic() + self._most_seconds
        try:
            worker = self._free.get(timeout=self._most_seconds)
        except queue.Empty:
            return refusal("Busy", "too many questions at once; ask again")
        with suppress(EOFError, OSError):  # raised where the process has died
            worker.pipe.send(text)
            if worker.pipe.poll(max(ends - time.monotonic(), 0.0)):
                answer: str = worker.pipe.recv()
                self._free.put(worker)
                return answer
        self._replace(worker)
        return refusal("OutOfReach", f"there is no answer within {self._most_seconds:g} s and {MOST_BYTES >> 30} GB")

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            ending, self._all = self._all, set()
        for worker in ending:
            worker.end()

    def _started(self) -> Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_answer_what_comes, args=(theirs, self._ledger), daemon=True)
        process.start()
        theirs.close()
        return Worker(process, ours)

    def _welcome(self, worker: Worker) -> None:
        """Let a process answer, once it says that it can."""
        if not worker.pipe.poll(START_SECONDS):
            worker.end()
            raise RuntimeError("a process that answers questions did not start")
        worker.pipe.recv()
        with self._lock:
            if self._closed:
                worker.end()
                return
            self._all.add(worker)
        self._free.put(worker)

    def _replace(self, worker: Worker) -> None:
        """End a process at once, and start another one beside what is answered meanwhile."""
        with self._lock:
            self._all.discard(worker)
            if self._closed:
                return
        worker.end()
        threading.Thread(target=lambda: self._welcome(self._started()), daemon=True).start()


def refusal(kind: str, message: str, field: str | None = None) -> str:
    """Return the JSON that says why there is no answer."""
    return json.dumps({"error": {"kind": kind, "message": message, "field": field}})


def _answer_what_comes(pipe: Connection, ledger: str | None) -> None:
    """Answer one question after the other: what a child process does all its life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which ends its processes
    from cumulant.page.answers import WARM_UP, answer_text

    answer_text(WARM_UP, ledger=ledger)  # what the first question would wait for
    _limit_memory()
    pipe.send("ready")
    with suppress(EOFError, OSError):  # the server has gone
        while True:
            pipe.send(_answer(pipe.recv(), ledger))


def _answer(text: str, ledger: str | None) -> str:
    from cumulant.page.answers import answer_text

    try:
        return answer_text(text, ledger=ledger)
    except MemoryError:
        return refusal("OutOfReach", f"the answer needs more than {MOST_BYTES >> 30} GB of memory")
    except Exception:  # a bug: this process goes on, and whoever started the server sees where
        traceback.print_exc()
        return refusal("Bug", "this question meets a bug of the library; the terminal of the server says where")


def _limit_memory() -> None:
    """Bound the memory of this process; what is mapped and not used, as libraries are, does not count against it."""
    if sys.platform != "linux":
        return  # elsewhere the address space cannot be bounded, or nothing comes of it: time is the bound there
    import resource
    from pathlib import Path

    pages = [int(number) for number in Path("/proc/self/statm").read_text(encoding="ascii").split()[:2]]
    mapped, held = (number * resource.getpagesize() for number in pages)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MOST_BYTES - held,) * 2)
