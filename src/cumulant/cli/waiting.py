"""What a terminal shows while one waits."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds before something is shown


@contextmanager
def waiting() -> Iterator[None]:
    """Show on a terminal how long it takes, once that is more than a second; nothing is left of it afterwards."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    clock = threading.Thread(target=_count_seconds, args=(done,), daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()


def _count_seconds(done: threading.Event) -> None:
    seconds = 0
    while not done.wait(PATIENCE):
        seconds += 1
        sys.stderr.write(f"\rcomputing, {seconds} s ")
        sys.stderr.flush()
    if seconds:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
