"""A line on stderr that says how far a long run has come."""

from __future__ import annotations

import sys
import time

WIDTH = 30


class Progress:
    """A bar of so many parts, or of so many seconds."""

    def __init__(self, total: float, *, quiet: bool = False) -> None:
        self._total, self._done, self._start = total, 0.0, time.monotonic()
        self._quiet = quiet or not sys.stderr.isatty()
        self._text = ""

    def show(self, text: str) -> None:
        self._text = text
        self._draw()

    def advance(self, by: float = 1.0) -> None:
        self._done += by
        self._draw()

    def reach(self, done: float) -> None:
        self._done = done
        self._draw()

    def _draw(self) -> None:
        if self._quiet:
            return
        share = min(1.0, self._done / self._total) if self._total else 1.0
        bar = "█" * round(share * WIDTH)
        seconds = time.monotonic() - self._start
        sys.stderr.write(f"\r\x1b[K{bar:·<{WIDTH}} {share:4.0%} {seconds:6.0f} s  {self._text}"[:160])
        sys.stderr.flush()

    def close(self) -> None:
        if not self._quiet:
            sys.stderr.write("\n")
