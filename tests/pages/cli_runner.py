"""Running the command in this process."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cumulant.cli.main import main


def runner(**options: Any) -> CliRunner:
    """Return a runner that keeps standard output and error apart, as Click before 8.2 does when it is told to."""
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
    return CliRunner(**options, **apart)


def call(text: str) -> Result:
    """Run the command in this process; a bug would raise."""
    result = runner().invoke(main, text.split())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answered(text: str) -> dict[str, Any]:
    """Return what --json prints."""
    result = call(text + " --json")
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)  # no Infinity, no NaN
    return content
