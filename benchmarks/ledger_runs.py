"""`python -m benchmarks ledger`: races, kills, interrupts and speed, on both engines."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.databases import ENGINES, new_address
from benchmarks.ledger_interrupts import interrupt_again_and_again
from benchmarks.ledger_load import check_race, kill_again_and_again, race
from benchmarks.ledger_speed import counts_a_second, seconds_to_open, spends_a_second, write_history
from benchmarks.progress import Progress


def run_ledger(options: argparse.Namespace) -> Iterator[str]:
    """Yield one line for each thing that was tried."""
    ask = {"race": races, "kill": kills, "interrupt": interrupts, "speed": speed}[options.what]
    for engine in options.engine or ENGINES:
        with tempfile.TemporaryDirectory() as directory:
            yield from ask(engine, Path(directory), options)


def races(engine: str, directory: Path, options: argparse.Namespace) -> Iterator[str]:
    """Processes race for the last slots, again and again."""
    started = time.monotonic()
    progress = Progress(options.races)
    progress.show(f"{engine}: races")
    for _ in range(options.races):
        address = new_address(engine, directory)
        got = race(address, processes=options.processes, slots=options.slots, record=directory)
        check_race(address, slots=options.slots, acknowledged=got)
        progress.advance()
    progress.close()
    yield (
        f"{engine}: {options.races} races of {options.processes} processes for {options.slots} slots: "
        f"0 over, 0 lost, {time.monotonic() - started:.0f} s"
    )


def kills(engine: str, directory: Path, options: argparse.Namespace) -> Iterator[str]:
    """A process is killed at a random moment of spend and settle, again and again."""
    started = time.monotonic()
    progress = Progress(options.kills)
    progress.show(f"{engine}: kills")
    address = new_address(engine, directory)
    seen = kill_again_and_again(address, kills=options.kills, seed=options.seed, progress=progress.reach)
    progress.close()
    yield (
        f"{engine}: {seen.kills} kills: {seen.acknowledged} acknowledged, of which {seen.lost} lost; {seen.unheard} "
        f"recorded without being heard of; {seen.doubled} recorded twice; {time.monotonic() - started:.0f} s"
    )
    assert seen.lost == seen.doubled == 0


def interrupts(engine: str, directory: Path, options: argparse.Namespace) -> Iterator[str]:
    """A spend is interrupted at a random moment, again and again, and the next ones must not wait."""
    progress = Progress(options.kills)
    progress.show(f"{engine}: interrupts")
    seen = interrupt_again_and_again(
        new_address(engine, directory),
        interrupts=options.kills,
        seed=options.seed,
        progress=progress.reach,
    )
    progress.close()
    yield (
        f"{engine}: {seen.interrupts} interrupts: {seen.waited} spends waited, {seen.lost} lost, "
        f"{seen.doubled} recorded twice; the longest spend after one took {seen.longest:.2f} s"
    )
    assert seen.waited == seen.lost == seen.doubled == 0


def speed(engine: str, directory: Path, options: argparse.Namespace) -> Iterator[str]:
    """Spends per second with one and with several writers, beside a plain counter; what a long history takes."""
    for writers in sorted({1, min(4, options.processes), options.processes}):
        plain = counts_a_second(new_address(engine, directory), writers=writers, counts=options.spends)
        rate = spends_a_second(new_address(engine, directory), writers=writers, spends=options.spends)
        yield (
            f"{engine}: {rate:.0f} spends a second with {writers} writer{'s' * (writers > 1)}, {rate / plain:.2f} of "
            f"the {plain:.0f} of a plain counter"
        )
    address = new_address(engine, directory)
    write_history(address, entries=options.entries)
    status, spend, verify = seconds_to_open(address)
    yield (
        f"{engine}: an account of {options.entries} entries: status {status:.3f} s, spend {spend:.3f} s, "
        f"verify {verify:.1f} s"
    )
