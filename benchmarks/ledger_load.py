"""Processes that spend a ledger at once, and processes that are killed while they do."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cumulant as cm
from cumulant.ledger.allocation import ways_of

STEP = cm.Gaussian(noise_multiplier=20.0)
ACCOUNT = "customers"


def open_account(address: str, *, slots: int) -> None:
    """Open an account of so many slots, and nothing else."""
    with cm.Ledger(address) as ledger:
        budget = (STEP * slots).epsilon(delta=1e-6) * (1 + 1e-9)
        plan = STEP * slots
        ledger.open(
            ACCOUNT, epsilon=budget, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="one customer", plan=plan, reserve=0.0
        )
        ways_of(ledger.status(ACCOUNT).declaration.lines, STEP)  # so that forked processes need not compute it


def forked(work: Callable[[], None]) -> int:
    """Run work in a process of its own and return its number; connections are made there, none is inherited."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait_for(children: list[int]) -> list[int]:
    """Return the exit codes of processes."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


# Races ----------------------------------------------------------------------------------------------------------------


def race(address: str, *, processes: int, slots: int, record: Path) -> int:
    """Let processes race for the last slots of an account, and return how many say that they got one."""
    open_account(address, slots=slots)
    start = time.time() + 0.2

    def spend_all(me: int) -> None:
        with cm.Ledger(address) as ledger, (record / f"race-{me}").open("w") as acknowledged:
            time.sleep(max(start - time.time(), 0.0))
            for turn in range(slots + 1):
                try:
                    ledger.spend(ACCOUNT, STEP, key=f"{me}-{turn}")
                except cm.BudgetExceeded:
                    return
                acknowledged.write(f"{me}-{turn}\n")

    codes = wait_for([forked(partial(spend_all, me)) for me in range(processes)])
    assert codes == [0] * processes
    return sum(len((record / f"race-{me}").read_text().split()) for me in range(processes))


def check_race(address: str, *, slots: int, acknowledged: int) -> None:
    """Raise if one was spent too many, or one was lost."""
    with cm.Ledger(address) as ledger:
        assert ledger.verify(ACCOUNT).entries[ACCOUNT] == slots + 1
        assert ledger.status(ACCOUNT).fits(STEP) == 0
        assert sum(count for _, count in ledger.spent(ACCOUNT).parts) == slots
    assert acknowledged == slots


# Kills ----------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Killed:
    """What was seen: kills, releases that were acknowledged, and those of which the process did not live to hear."""

    kills: int = 0
    acknowledged: int = 0
    unheard: int = 0
    lost: int = 0
    doubled: int = 0


def spend_and_settle(address: str, life: int, acknowledged: int) -> None:
    """Spend, reserve, start and settle, one after the other, and write down each that was acknowledged."""
    with cm.Ledger(address) as ledger:
        for turn in range(10**6):
            key = f"{life}-{turn}"
            os.write(acknowledged, f"try {key}\n".encode())
            ledger.spend(ACCOUNT, STEP, key=f"s-{key}")
            os.write(acknowledged, f"spend {key}\n".encode())
            hold = ledger.reserve(ACCOUNT, STEP * 3, key=f"h-{key}")
            os.write(acknowledged, f"hold {key}\n".encode())
            hold.settle(used=STEP * 2)
            os.write(acknowledged, f"settle {key}\n".encode())


def kill_again_and_again(address: str, *, kills: int, seed: int, progress: Callable[[int], None]) -> Killed:
    """Kill a process at a random moment of its work, look, and go on, so many times.

    After each kill: every release that was acknowledged is in the history, none is there twice, and what the process
    tried last is recorded once when it is asked again. `verify` runs over everything each fifty kills and at the end.
    """
    open_account(address, slots=10**9)
    draw, seen = random.Random(seed), Killed()
    expected: dict[str, int] = {}  # keys that must be there: releases of each
    for life in range(kills):
        there, back = os.pipe()
        child = forked(partial(spend_and_settle, address, life, back))
        os.close(back)
        # It lives and has begun; every second one has also heard of its first spend, however busy the machine is.
        first = _until(there, b"spend" if life % 2 else b"try")
        time.sleep(draw.expovariate(1 / 0.05))  # seconds: a few releases, on average
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines = (first + _rest_of(there)).decode().splitlines()
        seen.kills += 1
        _look(address, lines, expected, seen)
        if (life + 1) % 50 == 0 or life + 1 == kills:
            _verify(address, expected, seen)
            progress(life + 1)
    return seen


def _until(pipe: int, word: bytes) -> bytes:
    data = b""
    while word not in data and (more := os.read(pipe, 64)):
        data += more
    return data


def _rest_of(pipe: int) -> bytes:
    data = b""
    while more := os.read(pipe, 65536):
        data += more
    os.close(pipe)
    return data


def _look(address: str, lines: list[str], expected: dict[str, int], seen: Killed) -> None:
    """Check what was acknowledged, ask the last again, and add up what must be there."""
    done: dict[str, set[str]] = {}
    for line in lines:
        verb, key = line.split()
        done.setdefault(key, set()).add(verb)
    with cm.Ledger(address) as ledger:
        for key, verbs in done.items():
            spent = ledger.spend(ACCOUNT, STEP, key=f"s-{key}")
            hold = ledger.reserve(ACCOUNT, STEP * 3, key=f"h-{key}")
            settled = hold.settle(used=STEP * 2)
            there = {"spend": spent.again, "hold": hold.receipt.again, "settle": settled.again}
            seen.acknowledged += len(verbs - {"try"})
            seen.lost += sum(1 for verb in verbs - {"try"} if not there[verb])
            seen.unheard += sum(1 for verb, again in there.items() if again and verb not in verbs)
            expected[f"s-{key}"], expected[f"h-{key}"] = 1, 2


def _verify(address: str, expected: dict[str, int], seen: Killed) -> None:
    with cm.Ledger(address) as ledger:
        entries = ledger.verify(ACCOUNT).entries[ACCOUNT]
        keys = [(entry.kind, entry.key) for entry in ledger.history(ACCOUNT)]
        released = sum(count for _, count in ledger.spent(ACCOUNT).parts)
    holds = sum(1 for key in expected if key.startswith("h-"))
    assert len(keys) == entries == 1 + (len(expected) - holds) + 2 * holds  # a spend; a hold and its settling
    seen.doubled += len(keys) - len(set(keys))
    seen.doubled += abs(released - sum(expected.values()))
