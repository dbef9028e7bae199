"""Spends that are interrupted at random moments, as by Ctrl-C, and those that come after them."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

import cumulant as cm
from benchmarks.ledger_load import ACCOUNT, STEP, open_account

MEASURED = 20  # spends from which the time of one is known: interrupts fall into one and a half times that
WAITED = 5.0  # seconds: a sixth of the patience of a writer, and more than a busy machine takes
KEPT = 50  # interrupts whose tracebacks are kept, as a notebook keeps the last


@dataclass(slots=True)
class Interrupted:
    """What was seen: interrupts, spends after them that waited for a lock, and what became of the interrupted ones."""

    interrupts: int = 0
    waited: int = 0
    lost: int = 0
    doubled: int = 0
    longest: float = 0.0


def interrupt_again_and_again(
    address: str, *, interrupts: int, seed: int, progress: Callable[[int], None]
) -> Interrupted:
    """Interrupt so many spends, each followed by its own again and by one of another client.

    Nothing collects garbage in between, and the tracebacks are kept, so that whatever they hold stays alive.
    """
    open_account(address, slots=10**9)
    draw, seen, armed = random.Random(seed), Interrupted(), [False]
    tracebacks: list[BaseException] = []

    def ring(_: int, __: FrameType | None) -> None:
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    expected = 1 + MEASURED
    with cm.Ledger(address) as ledger, cm.Ledger(address) as other:
        begun = time.monotonic()
        for turn in range(MEASURED):
            ledger.spend(ACCOUNT, STEP, key=f"m-{turn}")
        longest = 1.5 * (time.monotonic() - begun) / MEASURED
        for turn in range(20 * interrupts):
            if seen.interrupts == interrupts:
                break
            expected += 1
            try:
                armed[0] = True
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.05, 1) * longest)
                ledger.spend(ACCOUNT, STEP, key=f"i-{turn}")
                armed[0] = False
            except KeyboardInterrupt as caught:
                tracebacks = [*tracebacks[-KEPT:], caught]
                seen.interrupts += 1
                for client, key in ((ledger, f"i-{turn}"), (other, f"o-{turn}")):
                    started = time.monotonic()
                    client.spend(ACCOUNT, STEP, key=key)
                    seen.longest = max(seen.longest, time.monotonic() - started)
                    seen.waited += time.monotonic() - started > WAITED
                expected += 1
                progress(seen.interrupts)
            armed[0] = False
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0)
        entries = ledger.verify(ACCOUNT).entries[ACCOUNT]
    signal.signal(signal.SIGALRM, before)
    seen.lost, seen.doubled = max(expected - entries, 0), max(entries - expected, 0)
    return seen
