"""An integration without its tool says what to install; nothing is imported unless asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

import cumulant
from cumulant.integrations.requirement import require_package

NEEDS = {
    "opacus": ("opacus", "opacus"),
    "dp_accounting": ("dp_accounting", "dp-accounting"),
    "flower": ("flwr", "flower"),
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_missing_tool_is_named_with_the_way_out(name: str) -> None:
    tool, extra = NEEDS[name]
    if find_spec(tool) is not None:
        pytest.skip(f"{tool} is installed here, so nothing is missing")
    with pytest.raises(ImportError, match=rf"which is not installed; from a checkout: pip install '\.\[{extra}\]'"):
        importlib.import_module(f"cumulant.integrations.{name}")


def test_a_tool_that_is_too_old_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda distribution: "1.9.3")
    arguments = {"module": "numpy", "distribution": "numpy", "extra": "opacus"}
    said = r"needs numpy >= 1\.10, found 1\.9\.3; from a checkout: pip install '\.\[opacus\]'"
    with pytest.raises(ImportError, match=said):
        require_package(at_least="1.10", **arguments)
    require_package(at_least="1.9", **arguments)
    require_package(at_least="1.9.3", **arguments)


def test_the_room_itself_imports_no_tool() -> None:
    code = (
        "import sys, cumulant.integrations; print([m for m in ('torch', 'opacus', 'flwr', 'jax') if m in sys.modules])"
    )
    source = {"PYTHONPATH": str(Path(cumulant.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=source)
    assert run.stdout.strip() == "[]"
