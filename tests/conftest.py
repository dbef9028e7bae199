"""Hypothesis: the same examples on every run of the gate, new ones on every run at a desk; no clock in either.

And a database for every test that asks for one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from benchmarks.databases import ENGINES, data_directory, leave_postgres, new_address, this_run
from hypothesis import settings

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


@pytest.fixture(params=ENGINES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, once for each engine."""
    return new_address(request.param, tmp_path)
