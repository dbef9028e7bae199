"""The documentation names what exists, and shows what is printed; its Python blocks are run as doctests."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import cumulant
from cumulant.cli.main import main
from cumulant.errors import CumulantError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
TEXT = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
GUIDES = "\n".join(text for name, text in TEXT.items() if name == "README.md" or name.startswith("docs/"))
MODULES = sorted(
    {path.name.removesuffix(".py") for path in Path(cumulant.__file__).parent.iterdir() if path.name[0] != "_"}
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOTTED = re.compile(rf"`(?:cumulant\.)?((?:{'|'.join(MODULES)})\.[\w.]+|(?<=cumulant\.)\w+)`")
TEST = re.compile(r"`(test_\w+)::(\w+)`")
FILE = re.compile(r"`((?:src|tests|docs|benchmarks|\.ci)/[\w./]*|[\w-]+\.(?:md|cff|toml))`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
LONGEST_README, LONGEST_CONTRIBUTING = 150, 100


def found(pattern: re.Pattern[str]) -> list[Any]:
    """Return (page, match) for every match outside fenced blocks."""
    prose = [(page, FENCE.sub("", text)) for page, text in TEXT.items()]
    return sorted({(page, *match.groups()) for page, text in prose for match in pattern.finditer(text)}, key=str)


def resolved(dotted: str) -> object:
    """Return what a dotted name below the package stands for, or raise; of integrations without importing them."""
    if dotted.startswith("integrations."):
        return named_in_integrations(dotted)
    there: Any = cumulant
    name = "cumulant"
    for part in dotted.split("."):
        name += f".{part}"
        if not hasattr(there, part):
            importlib.import_module(name)
        there = getattr(there, part)
    return there


def named_in_integrations(dotted: str) -> object:
    """Return the module of a name, or the lines that define it: their tools may not be installed."""
    path = Path(cumulant.__file__).parent
    *modules, last = dotted.split(".")
    for part in modules:
        path = path / part
    if (path / last).is_dir() or (path / f"{last}.py").is_file():
        return path / last
    sources = list(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in sources]
    kinds = ast.ClassDef | ast.FunctionDef
    defined = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)}
    if last not in defined:
        raise ModuleNotFoundError(dotted)
    return last


def exists(dotted: str) -> bool:
    """Say whether a dotted name below the package stands for something."""
    try:
        return resolved(dotted) is not None
    except (ImportError, AttributeError):
        return False


def test_every_name_exists() -> None:
    assert [(page, name) for page, name in found(DOTTED) if not exists(name)] == []


def test_the_check_of_names_sees_names() -> None:
    assert DOTTED.findall("`cumulant.Gaussian`, `curves.curve.total`, `Gaussian`, `cumulant.curves.curve.Curve`") == [
        "Gaussian",
        "curves.curve.total",
        "curves.curve.Curve",
    ]
    assert exists("curves.curve.total")
    assert not exists("curves.curve.no_such_name")
    assert not exists("no_such_module.no_such_name")
    assert not exists("integrations.flower.no_such_name")


@cache
def names_of_tests(module: str) -> set[str]:
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / "tests").rglob(f"{module}.py")]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_exists() -> None:
    assert [named for named in found(TEST) if named[2] not in names_of_tests(named[1])] == []


ROW = re.compile(r"^\| (?!statement \||where \||result \||---)(.*) \|$", re.MULTILINE)


def rows_of_theory() -> list[str]:
    return ROW.findall(TEXT["docs/theory.md"])


def test_every_row_of_the_theory_has_a_test() -> None:
    """In its last column: a test by file and function, or a file of tests."""
    last = {row: re.split(r"(?<!\\) \| ", row)[-1] for row in rows_of_theory()}
    assert [
        row for row in last if not (TEST.search(last[row]) or re.search(r"`tests/\w+/test_\w+\.py`", last[row]))
    ] == []


def test_the_check_of_rows_sees_rows() -> None:
    assert len(rows_of_theory()) > 150
    assert ROW.findall("| statement | function | test |\n| --- | --- | --- |\n| a | `b` | none |\n") == [
        "a | `b` | none"
    ]


def test_every_file_exists() -> None:
    def there(page: str, path: str) -> bool:
        return (ROOT / path).exists() or ((ROOT / page).parent / path).exists() or path == "base.py"

    assert [(page, path) for page, path in found(FILE) if not there(page, path)] == []


def leads_somewhere(page: str, target: str, anchor: str | None) -> bool:
    there = (ROOT / page).parent / target if target else ROOT / page
    if not anchor or not there.exists():
        return there.exists()
    headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere() -> None:
    links = [link for link in found(LINK) if "://" not in link[1]]
    assert [link for link in links if not leads_somewhere(*link)] == []


def test_the_check_of_links_sees_links() -> None:
    assert leads_somewhere("README.md", "docs/choose.md", None)
    assert not leads_somewhere("README.md", "docs/no-such-page.md", None)
    assert not leads_somewhere("README.md", "docs/choose.md", "no-such-heading")


# Coverage -------------------------------------------------------------------------------------------------------------


def test_everything_exported_is_mentioned() -> None:
    assert [name for name in cumulant.__all__ if not re.search(rf"\b{name}\b", GUIDES)] == []


def test_every_error_is_in_the_table_of_refusals() -> None:
    errors = {name for name in cumulant.__all__ if _is_error(getattr(cumulant, name))}
    assert errors == set(re.findall(r"`cumulant\.(\w+)`", TEXT["docs/soundness.md"])) & errors


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, CumulantError)


def test_every_mechanism_is_in_the_table_of_choices() -> None:
    choices = TEXT["docs/choose.md"]
    kinds = cumulant.mechanisms.__all__
    assert [kind for kind in kinds if not re.search(rf"^\|.*`{kind}\(", choices, re.MULTILINE)] == []


def test_every_command_is_documented() -> None:
    assert [command for command in main.list_commands(click.Context(main)) if f"cumulant {command}" not in GUIDES] == []


# What is shown --------------------------------------------------------------------------------------------------------


def console_blocks() -> Iterator[tuple[str, str, str]]:
    """Yield (page, command, output) of every `$ cumulant ...` in a console block."""
    for page, text in TEXT.items():
        for language, block in FENCE.findall(text):
            if language == "console":
                command, _, output = block.partition("\n")
                yield page, command, output


@pytest.mark.parametrize(("page", "command", "shown"), list(console_blocks()))
def test_console_blocks_show_what_is_printed(page: str, command: str, shown: str) -> None:
    """A line of three dots stands for whatever follows; a comment behind the command says its exit code."""
    program, *arguments = shlex.split(command.removeprefix("$ "), comments=True)
    expected = re.search(r"  # exit code (\d)$", command)
    assert program == "cumulant"
    result = CliRunner(env={"COLUMNS": "80"}).invoke(main, arguments)
    assert result.exit_code == (int(expected[1]) if expected else 0)
    checker = doctest.OutputChecker()
    assert checker.check_output(shown, result.stdout, doctest.ELLIPSIS), result.stdout


def test_there_are_console_blocks() -> None:
    assert {page for page, _, _ in console_blocks()} >= {"README.md", "docs/index.md"}


def test_the_install_command_is_the_one_whose_output_is_shown() -> None:
    installs = re.findall(r"^python3 -m venv .venv && .*\.venv/bin/(cumulant .*)$", TEXT["README.md"], re.MULTILINE)
    shown = [command.removeprefix("$ ") for page, command, _ in console_blocks() if page == "README.md"]
    assert installs == shown[:1]


def test_the_gate_runs_the_test_command() -> None:
    """The gate's own sed finds exactly one line, which is the one a reader sees."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    extraction = re.search(r"command=\$\((sed .*)\)$", script, re.MULTILINE)
    assert extraction
    extracted = subprocess.run(
        shlex.split(extraction[1]), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert extracted == ["python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest"]


def test_python_blocks_are_run() -> None:
    """A block of Python that is no doctest would be neither run nor checked."""
    for page, text in TEXT.items():
        for language, block in FENCE.findall(text):
            assert language in {"pycon", "console", "sh", "text", "yaml"}, f"{page}: {language}"
            assert language != "pycon" or (block.startswith(">>> ") and block.endswith("\n\n"))


def test_pages_are_short() -> None:
    assert len(TEXT["README.md"].splitlines()) < LONGEST_README
    assert len(TEXT["CONTRIBUTING.md"].splitlines()) < LONGEST_CONTRIBUTING


def test_versions_agree() -> None:
    assert f"\n## {cumulant.__version__}\n" in TEXT["CHANGELOG.md"]
    assert "### Changed numbers" in TEXT["CHANGELOG.md"]
    assert f"\nversion: {cumulant.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


# Docstrings -----------------------------------------------------------------------------------------------------------

QUOTED = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\([^`]*\))?`")
SOURCES = sorted(Path(cumulant.__file__).parent.rglob("*.py"))
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def identifiers() -> set[str]:
    """Return every name that the source uses, and every module of it."""
    names = {part for file in SOURCES for part in (*file.parts, file.stem)}
    for tree in map(tree_of, SOURCES):
        for node in ast.walk(tree):
            for field in ("id", "attr", "arg", "name", "module"):
                value = getattr(node, field, None)
                if isinstance(value, str):
                    names.update(value.split("."))
    return names


def quoted_in_docstrings(file: Path) -> set[str]:
    """Return what docstrings quote as code, but for values such as `None` and calls of the standard library."""
    texts = [ast.get_docstring(node) or "" for node in ast.walk(tree_of(file)) if isinstance(node, DOCUMENTED)]
    return {match for text in texts for match in QUOTED.findall(text)}


def stands_for_something(name: str, file: Path) -> bool:
    """Say whether a dotted name resolves from the package or a neighbouring module; a plain one is used somewhere."""
    neighbours = {other.stem: other for other in SOURCES if other.parent == file.parent}
    first, *rest = name.split(".")
    if first in neighbours and rest:
        module = neighbours[first].relative_to(Path(cumulant.__file__).parent).with_suffix("")
        return exists(".".join([*module.parts, *rest]))
    if first in MODULES and rest:
        return exists(name)
    return {first, *rest} <= identifiers()


def test_docstrings_name_what_exists() -> None:
    quoted = [(file.name, name, file) for file in SOURCES for name in sorted(quoted_in_docstrings(file))]
    assert len(quoted) > 200
    assert [(where, name) for where, name, file in quoted if not stands_for_something(name, file)] == []
