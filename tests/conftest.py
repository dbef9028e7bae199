"""Hypothesis: the same examples on every run of the gate, new ones on every run at a desk; no clock in either.

And a database for every test that asks for one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.databases import ENGINES, new_address
from hypothesis import settings

settings.register_profile("desk", deadline=None)
settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate" if os.environ.get("CI") else "desk")


@pytest.fixture(params=ENGINES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, once for each engine."""
    return new_address(request.param, tmp_path)
