"""Processes that race for a budget, and that are killed while they spend: few here, thousands in `benchmarks`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.databases import ENGINES, postgres_directory

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    """Run the benchmark in a process of its own, as it forks; the server is shared."""
    if "postgres" in arguments:
        postgres_directory()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks", "ledger", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_processes_race_for_the_last_of_a_budget(engine: str) -> None:
    printed = run("race", "--engine", engine, "--races", "1", "--processes", "8", "--slots", "12")
    assert f"{engine}: 1 races of 8 processes for 12 slots: 0 over, 0 lost" in printed


@pytest.mark.parametrize("engine", ENGINES)
def test_a_process_may_be_killed_at_any_moment(engine: str) -> None:
    printed = run("kill", "--engine", engine, "--kills", "10")
    match = re.fullmatch(
        rf"{engine}: 10 kills: (\d+) acknowledged, of which 0 lost; \d+ recorded without being heard of; "
        r"0 recorded twice; \d+ s\n",
        printed,
    )
    assert match
    assert int(match[1]) > 0


def test_the_speed_is_printed() -> None:
    printed = run("speed", "--engine", "sqlite", "--spends", "16", "--processes", "4", "--entries", "300")
    line = r"\d+ spends a second with \d writers?, \d+\.\d\d of the \d+ of a plain counter"
    assert len(re.findall(line, printed)) == 2
    assert "an account of 300 entries" in printed
