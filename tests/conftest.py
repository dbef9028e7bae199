"""Hypothesis: the same examples on every run of the gate, new ones on every run at a desk; no clock in either.

And a database for every test that asks for one, and a line at the end about references that are not stored.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from benchmarks.databases import ENGINES, data_directory, leave_postgres, new_address, this_run
from hypothesis import settings

from stored import Unstored

settings.register_profile("desk", deadline=None)
settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate" if os.environ.get("CI") else "desk")


def pytest_configure() -> None:
    """Name the run before other processes are started, so that they share one server."""
    this_run()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the server, which stops with the last process that used it, and remove what is left of it."""
    leave_postgres()
    if not hasattr(config, "workerinput"):
        shutil.rmtree(data_directory(), ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one what was not stored."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["unstored"] = Unstored.count, Unstored.seconds


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    count, seconds = getattr(node, "workeroutput", {}).get("unstored", (0, 0.0))
    Unstored.count, Unstored.seconds = Unstored.count + count, Unstored.seconds + seconds


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if Unstored.count:
        terminalreporter.write_line(
            f"{Unstored.count} references are not stored, and took {Unstored.seconds:.1f} s: see tests/truth/stored.py"
        )


@pytest.fixture(params=ENGINES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, once for each engine."""
    return new_address(request.param, tmp_path)
