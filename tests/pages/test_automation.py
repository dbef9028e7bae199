"""The recipes of docs/automation.md: their commands are run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import cumulant as cm
from cumulant.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "automation.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"<!-- recipe: (\w+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))


def commands_of(recipe: str) -> list[list[str]]:
    """Return the commands of this library that a recipe runs, without its name."""
    lines = re.findall(r"^ *(?:- )?(?:run|entry): cumulant (.*)$", RECIPES[recipe], re.MULTILINE)
    return [shlex.split(line) for line in lines]


def written(noise_multiplier: float) -> None:
    run = cm.dp_sgd(noise_multiplier=noise_multiplier, batch_size=256, dataset_size=60_000, epochs=60)
    Path("run.json").write_text(json.dumps(run.to_dict()), encoding="utf-8")


@pytest.mark.parametrize("recipe", ["workflow", "hook"])
def test_a_recipe_passes_the_claim_and_stops_what_breaks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    monkeypatch.chdir(tmp_path)
    check, *others = commands_of(recipe)
    assert check[0] == "check"
    written(1.0)
    assert [CliRunner().invoke(main, command).exit_code for command in (check, *others)] == [0] * (1 + len(others))
    assert recipe == "hook" or Path("MODEL_CARD.md").read_text(encoding="utf-8").startswith("---\n")
    written(0.8)
    assert CliRunner().invoke(main, check).exit_code == 3


def test_a_job_branches_on_the_code(tmp_path: Path) -> None:
    """The script as it stands, with the command of this interpreter on its path."""
    command = tmp_path / "cumulant"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cumulant "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    source = str(Path(cm.__file__).parent.parent)
    kept = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": source, "JOB": "1"}

    def said(more: str = "") -> tuple[int, str]:
        run = subprocess.run(
            ["sh", "-c", RECIPES["job"]],
            cwd=tmp_path,
            env={**os.environ, **kept, **({"CUMULANT_LEDGER": more} if more else {})},
            capture_output=True,
            text=True,
            check=False,
        )
        return run.returncode, run.stdout

    code, text = said()  # there is no ledger yet
    assert (code, json.loads(text)["error"]["exit_code"]) == (1, 2)
    ledger = cm.Ledger(f"sqlite:///{tmp_path}/budget.db")
    noise = cm.Laplace(scale=20.0)
    ledger.open("customers", epsilon=0.06, delta=0.0, neighbors=cm.ADD_REMOVE, unit="one customer", plan=noise)
    assert said() == (0, "recorded: release it\n")
    kept["JOB"] = "2"
    assert said() == (0, "over budget: nothing was recorded, release nothing\n")
    (tmp_path / "words.db").write_text("no database " * 500, encoding="utf-8")
    assert "ask again" in said(f"sqlite:///{tmp_path}/words.db")[1]


def test_every_recipe_is_run() -> None:
    assert set(RECIPES) == {"workflow", "hook", "job"}
    assert PAGE.count("```yaml") + PAGE.count("```sh") == len(RECIPES)
