"""One table of exit codes, for every error and every command; with --json an error is one object."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import cumulant as cm
from cumulant.cli.exit_codes import CODES, MEANINGS, ExitCode, exit_code_of
from cumulant.cli.main import main
from cumulant.errors import CumulantError, MisnamedParameter

ROOT = Path(__file__).parents[2]

EXPECTED: dict[type[CumulantError], int] = {
    CumulantError: 2,
    cm.InvalidParameter: 2,
    MisnamedParameter: 2,
    cm.BudgetExceeded: 3,
    cm.UnprovenCombination: 4,
    cm.OutOfReach: 4,
    cm.MixedNeighbors: 4,
    cm.LedgerUnavailable: 5,
    cm.LedgerTampered: 5,
}


def every_error() -> set[type[CumulantError]]:
    """Return all classes of errors of the package, of integrations too where their tools are installed."""
    for module in pkgutil.walk_packages(cm.__path__, "cumulant.", onerror=lambda _: None):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:
                assert ".integrations" in module.name
    found, waiting = set(), [CumulantError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith("cumulant."):
            found.add(kind)
        waiting += kind.__subclasses__()
    return found


def commands(group: click.Group = main, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with the words that lead to it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name, command


COMMANDS = dict(commands())


def call(text: str, **more: Any) -> Result:
    result = CliRunner().invoke(main, shlex.split(text), **more)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def error_in(result: Result) -> dict[str, Any]:
    """Return the one object on standard output; nothing stands beside it."""
    content: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)
    assert (set(content), result.stderr) == ({"error"}, "")
    error: dict[str, Any] = content["error"]
    assert error["exit_code"] == result.exit_code != 0
    assert error["message"]
    return error


# The table ------------------------------------------------------------------------------------------------------------


def test_every_error_has_exactly_one_code() -> None:
    """By its class: what it is derived from first says the same, or it has a row of its own."""
    assert every_error() >= set(EXPECTED)
    for kind in every_error():
        above = next((exit_code_of(base) for base in kind.__bases__ if issubclass(base, CumulantError)), None)
        assert kind in CODES or above == exit_code_of(kind), kind
        nearest = next(base for base in kind.__mro__ if base in EXPECTED)
        assert exit_code_of(kind) == EXPECTED[nearest], kind


def test_the_table_is_documented() -> None:
    """In the page with the same words, and in the help."""
    page = (ROOT / "docs" / "automation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| ([^|]*) \| [^|]* \|$", page, re.MULTILINE)
    assert {int(code): text for code, text in rows} == MEANINGS
    errors = re.findall(r"^\| (\d) \| ((?:[^|]*`[A-Z]\w*`)+[^|]*) \|$", page, re.MULTILINE)
    named = {name: int(code) for code, text in errors for name in re.findall(r"`([A-Z]\w*)`", text)}
    assert named == {kind.__name__: code for kind, code in EXPECTED.items()}
    text = call("--help").stdout
    assert all(f"  {code:d}  {meaning}\n" in text for code, meaning in MEANINGS.items())


# Every command, every error -------------------------------------------------------------------------------------------


def raised(kind: type[BaseException]) -> BaseException:
    if kind is cm.BudgetExceeded:
        return cm.BudgetExceeded("too much", epsilon=float("inf"), fits=0)
    return cm.LedgerUnavailable("gone", dropped=True) if kind is cm.LedgerUnavailable else kind("for some reason")


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[click.Command, type[BaseException]], None]:
    """Let a command do nothing but raise."""

    def replace(command: click.Command, kind: type[BaseException]) -> None:
        def fail(**_: Any) -> None:
            raise raised(kind)

        monkeypatch.setattr(command, "params", [option for option in command.params if option.name == "as_json"])
        monkeypatch.setattr(command, "callback", fail)

    return replace


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_ends_by_the_table(
    raising: Callable[[click.Command, type[BaseException]], None], words: str
) -> None:
    for kind, code in EXPECTED.items():
        raising(COMMANDS[words], kind)
        plain = call(words)
        assert (plain.exit_code, plain.stdout, plain.stderr.count("\n")) == (code, "", 1)
        error = error_in(call(f"{words} --json"))
        assert (error["kind"], error["exit_code"]) == (kind.__name__, code)


@pytest.mark.parametrize("words", COMMANDS)
def test_what_cannot_be_parsed_is_an_object_too(words: str) -> None:
    """Wherever --json stands."""
    first, *rest = words.split()
    for line in (f"{words} --nonsense --json", f"{words} --json --nonsense", " ".join(["--json", first, *rest])):
        error = error_in(call(line))
        assert (error["kind"], error["exit_code"]) == ("UsageError", 2)
    assert call(f"{words} --nonsense").stdout == ""


def test_a_word_behind_two_dashes_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("ledger status -- --json")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


def test_an_interrupt_and_a_bug_are_told(raising: Callable[[click.Command, type[BaseException]], None]) -> None:
    command = COMMANDS["epsilon"]
    raising(command, KeyboardInterrupt)
    assert call("epsilon").exit_code == 1
    result = call("epsilon --json")
    assert json.loads(result.stdout)["error"] == {"kind": "Abort", "message": "interrupted", "exit_code": 1}
    raising(command, ZeroDivisionError)
    result = CliRunner().invoke(main, ["epsilon", "--json"])
    assert isinstance(result.exception, ZeroDivisionError)  # its traceback is for us
    assert json.loads(result.stdout)["error"]["kind"] == "ZeroDivisionError"


# As they happen -------------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a ledger that has one account, and a file that is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUMULANT_LEDGER", raising=False)
    assert call('ledger open customers --epsilon 1 --delta 1e-6 --unit "one customer"').exit_code == 0
    (tmp_path / "words.db").write_text("this is no database, and long enough to be looked at " * 50, encoding="utf-8")
    return tmp_path


HAPPENING = [
    ("epsilon --noise-multiplier -1 --delta 1e-5", "InvalidParameter", 2),
    ("epsilon --noise-multiplier 1 --detla 1e-5", "UsageError", 2),
    ("epsilon --noise-multiplier 1 --delta 2", "UsageError", 2),
    ("nonsense", "UsageError", 2),
    ("", "UsageError", 2),
    ("epsilon --mechanism zcdp --rho 1 --delta 1e-5 --method exact", "UnprovenCombination", 4),
    ("ledger spend customers --mechanism laplace --scale 0.1", "BudgetExceeded", 3),
    ("ledger open more --epsilon 0.1 --delta 1e-6 --unit u --noise-multiplier 1", "BudgetExceeded", 3),
    ("ledger spend customers --noise-multiplier 9 --rate 0.1 --neighbors replace-one", "MixedNeighbors", 4),
    ("ledger status nobody", "InvalidParameter", 2),
    ("ledger status customers --ledger sqlite:///nowhere.db", "CumulantError", 2),
    ("ledger status customers --ledger sqlite:///words.db", "LedgerUnavailable", 5),
    ("check --epsilon 1 --delta 1e-6 --account customers --ledger sqlite:///words.db", "LedgerUnavailable", 5),
    ("figures --out x --only nothing", "UsageError", 2),
]


@pytest.mark.parametrize(("line", "kind", "code"), HAPPENING)
def test_errors_as_they_happen(ledger: Path, line: str, kind: str, code: int) -> None:
    error = error_in(call(f"{line} --json"))
    assert (error["kind"], error["exit_code"]) == (kind, code)
    if line:
        plain = call(line)
        assert (plain.exit_code, plain.stdout, plain.stderr.count("\n")) == (code, "", 1)


def test_a_refusal_says_what_is_known(ledger: Path) -> None:
    known = error_in(call("ledger spend customers --mechanism laplace --scale 0.1 --json"))["known"]
    assert (known["account"], known["fits"]) == ("customers", 0)
    known = error_in(call("ledger open more --epsilon 0.1 --delta 1e-6 --unit u --noise-multiplier 1 --json"))["known"]
    assert known["budget"] == 0.1
    assert known["epsilon"] > 4.0  # one Gaussian of noise 1 at 1e-6
    assert error_in(call("ledger status c --ledger sqlite:///words.db --json"))["dropped"] is False


def test_a_changed_history_has_the_code_of_storage(ledger: Path) -> None:
    assert call("ledger spend customers --mechanism laplace --scale 20").exit_code == 0
    with sqlite3.connect("budget.db") as connection:
        connection.execute("UPDATE cumulant_entry SET author = 'nobody' WHERE version = 2")
    connection.close()
    for line in ("ledger verify", "check --epsilon 2 --delta 1e-6 --account customers"):
        error = error_in(call(f"{line} --json"))
        assert (error["kind"], error["exit_code"]) == ("LedgerTampered", 5)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device to write to")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_full_disk_is_told_in_one_line(more: list[str]) -> None:
    line = [sys.executable, "-m", "cumulant", "epsilon", "--noise-multiplier", "2", "--delta", "1e-5", *more]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        run = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert (run.returncode, run.stderr.count("\n")) == (ExitCode.STORAGE, 1)
    assert "No space left" in run.stderr
