"""The shape of the source: which way imports point, what is exported, how long files are."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import cumulant

PACKAGE = Path(cumulant.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 400

LAYERS = (
    ("errors", "names", "parameters", "neighbors", "printed", "answer", "version"),
    ("numerics",),
    ("curves",),
    ("pairs",),
    ("profiles",),
    ("inversion",),
    ("composition_theorems",),
    ("mechanisms",),
    ("sampling",),
    ("composition", "disjoint"),
    ("cyclic_poisson",),
    ("budgets", "crossing", "planning"),
    ("accountant",),
    ("loaders",),
    ("training", "comparison"),
    ("matrix_training",),
    ("report",),
    ("plot",),
    ("ledger",),
    ("papers",),
    ("integrations",),
    ("page",),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FLUENT = "mechanisms/base.py"  # its methods build what stands on top of it, and import that when called


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def layer_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_level(tree: ast.Module) -> list[ast.AST]:
    """Return what runs on import: no function bodies, no blocks for the type checker."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        found.append(node)
        waiting.extend(ast.iter_child_nodes(node))
    return found


def imported_layers(file: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, layer) of every import from this package; in the fluent module, of those that run on import."""
    tree = tree_of(file)
    nodes = module_level(tree) if name_of(file) == FLUENT else list(ast.walk(tree))
    for node in nodes:
        for module in imported_modules(node, file):
            parts = module.split(".")
            if parts[0] == "cumulant" and len(parts) > 1:
                yield getattr(node, "lineno", 0), parts[1]


def imported_modules(node: ast.AST, file: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = ["cumulant", *file.relative_to(PACKAGE).parts[:-1]]
            base = ".".join([*above[: len(above) - node.level + 1], *([base] if base else [])])
        return [f"{base}.{alias.name}" if base == "cumulant" else base for alias in node.names]
    return []


def imports_back(file: Path) -> Iterator[str]:
    """Yield what a file imports from a later layer; `from cumulant import Gaussian` is for the last."""
    here = layer_of(file)
    for line, there in imported_layers(file):
        if RANK.get(there, RANK["cli"]) > RANK[here]:
            yield f"{name_of(file)}:{line} ({here}) imports {there}"


def test_imports_point_one_way() -> None:
    """The pipeline mechanism → sampling → composition → conversion → answer is read downwards, never back."""
    inside = [file for file in FILES if file.name not in ("__init__.py", "names.py") or file.parent != PACKAGE]
    assert sorted({layer_of(file) for file in inside} - set(RANK)) == []  # give these a layer
    assert [line for file in inside for line in imports_back(file)] == []


def test_the_fluent_module_exists() -> None:
    assert (PACKAGE / FLUENT).is_file()


def test_all_is_what_is_public() -> None:
    from cumulant import names  # the front door opens on everything

    helpers = {"Any", "TYPE_CHECKING", "annotations"}
    public = {name for name, value in vars(names).items() if name[0] != "_" and not isinstance(value, ModuleType)}
    assert len(set(cumulant.__all__)) == len(cumulant.__all__)
    assert set(cumulant.__all__) == public - helpers | {"Ledger"}  # which is imported when it is asked for
    assert all(hasattr(cumulant, name) for name in cumulant.__all__)


HEAVY = [
    *("scipy", "matplotlib", "flint", "click", "sqlalchemy", "psycopg", "cumulant.ledger"),
    *("torch", "opacus", "dp_accounting", "flwr"),
]


def test_import_is_light() -> None:
    """In a fresh interpreter, as this one has them loaded."""
    code = f"import sys, cumulant; cumulant.Gaussian; print([heavy for heavy in {HEAVY} if heavy in sys.modules])"
    run = subprocess.run(  # the package may not be installed, only on the path
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    assert run.stdout.strip() == "[]"


def test_a_version_needs_no_engine() -> None:
    code = (
        "import sys, cumulant; from click.testing import CliRunner; from cumulant.cli.main import main;"
        "print(CliRunner().invoke(main, ['--version']).output, [m for m in sys.modules if 'cumulant.' in m])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    assert cumulant.__version__ in run.stdout
    assert re.search(r"cumulant\.(?!cli|errors|version|printed)", run.stdout) is None


def test_files_are_short() -> None:
    lengths = {name_of(file): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_every_conversion_and_theorem_of_composition_says_what_it_states() -> None:
    files = [PACKAGE / "curves" / "conversion.py", *sorted((PACKAGE / "composition_theorems").glob("*.py"))]
    trees = {name_of(file): tree_of(file) for file in files}
    public = [
        (name, node)
        for name, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    assert len(public) > 10
    assert [(name, node.name) for name, node in public if not ast.get_docstring(node)] == []


def test_there_is_no_to_do() -> None:
    word = "TO" + "DO"
    assert [name_of(file) for file in FILES if word in file.read_text(encoding="utf-8")] == []


# Files, calls into another file and types that a question passes: they may become fewer.
WALKS = {"first": (15, 81, 19), "rare": (18, 350, 25), "mixed": (43, 760, 40), "interval": (47, 4900, 45)}


@pytest.mark.parametrize("question", WALKS)
def test_questions_are_short_walks(question: str) -> None:
    """Asked in a fresh process, where nothing is kept yet."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", "walk", question],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent.parent,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    first, *_ = run.stdout.splitlines()
    files, changes, types = (int(word) for word in first.replace(",", "").split() if word.isdigit())
    most_files, most_changes, most_types = WALKS[question]
    assert files <= most_files, run.stdout
    assert changes <= most_changes, run.stdout
    assert types <= most_types, run.stdout


# Names ----------------------------------------------------------------------------------------------------------------

SAME_MEANING = {"log_expm1"}  # of numbers and of arrays
OF_THEIR_OWN = ("papers", "cli", "__init__", "__main__")  # figures and commands: each file stands for itself


def defined_names(file: Path) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree_of(file).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                (name.id, node) for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )


def room_of(file: Path) -> str:
    """Return the directory that a name belongs to; every integration speaks the language of its tool."""
    parts = file.relative_to(PACKAGE).parts
    if len(parts) == 1:
        return ""
    return f"{parts[0]}/{parts[1]}" if parts[0] == "integrations" else parts[0]


def test_a_name_has_one_meaning_in_a_room() -> None:
    homes: dict[tuple[str, str], dict[str, None]] = {}
    for file in FILES:
        for name, _ in defined_names(file):
            if layer_of(file) not in OF_THEIR_OWN and name not in SAME_MEANING and not name.startswith("__"):
                homes.setdefault((room_of(file), name), {})[name_of(file)] = None
    assert {name: list(files) for (_, name), files in homes.items() if len(files) > 1} == {}


def test_a_constant_says_its_unit() -> None:
    """In a comment on its line: what it counts or measures."""
    for file in FILES:
        lines = file.read_text(encoding="utf-8").splitlines()
        for name, node in defined_names(file):
            value = getattr(node, "value", None)
            number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
            if name.isupper() and number and layer_of(file) not in OF_THEIR_OWN:
                assert "#" in lines[node.lineno - 1], f"{name_of(file)}: {name}"
