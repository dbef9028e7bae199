"""Output that arrives whole, or an error that says why not; and what a terminal shows while one waits."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cumulant.errors import CumulantError

PATIENCE = 1.0  # seconds before something is shown
READER_GONE = (errno.EPIPE, errno.ESHUTDOWN)  # `cumulant ... | head`: nothing is wrong


@contextmanager
def whole_output() -> Iterator[None]:
    """Say in one line that standard output cannot be written; without it Python would end in a traceback, or too late.

    An error that names a file is about that file and not meant here.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        _drop_what_is_left()
        if error.errno in READER_GONE:
            sys.exit(1)
        raise CumulantError(f"the output cannot be written: {error.strerror}") from error


def _drop_what_is_left() -> None:
    """Let the interpreter's own flush at the end go nowhere, instead of failing a second time."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
