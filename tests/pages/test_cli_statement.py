"""`cumulant statement`: every format says what the library says; its YAML is read by both versions alike."""

from __future__ import annotations

import json
import math
import re
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import cumulant as cm
from cumulant.cli.main import main
from cumulant.report.front_matter import yaml_lines

RUN = "--noise-multiplier 1 --rate 0.01 --steps 1000 --delta 1e-5"
TRAINING = "--noise-multiplier 1 --batch-size 256 --dataset-size 60000 --epochs 60 --delta 1e-5"
LIBRARY = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000


def call(text: str) -> Result:
    result = CliRunner().invoke(main, shlex.split(text))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(text: str) -> str:
    result = call(text)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


# A reader of the YAML that is written: the strict part of 1.1 and 1.2 that both read alike ----------------------------

FLOAT = re.compile(r"-?\d+\.\d*(e[-+]\d+)?")
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
KEY = re.compile(r'("(?:[^"\\]|\\.)*"|\w+):(?: (.*))?')


def value_of(text: str) -> Any:
    words: dict[str, Any] = {
        "null": None,
        "true": True,
        "false": False,
        ".inf": math.inf,
        "-.inf": -math.inf,
        "[]": [],
        "{}": {},
    }
    if text in words:
        return words[text]
    if text[0] == '"':
        inside = text[1:-1]
        assert all(character.isprintable() for character in inside)
        assert not re.search(r'["\\]', ESCAPE.sub("", inside))
        return ESCAPE.sub(lambda match: chr(int(match[1][1:], 16)), inside)
    return float(text) if FLOAT.fullmatch(text) else int(text)


def read(lines: list[str], depth: int = 0) -> Any:
    """Return a block: a list where its first line begins with a dash, else a mapping."""
    indent = "  " * depth
    assert all(line.startswith(indent) for line in lines)
    if lines[0].startswith(f"{indent}- "):
        return [value_of(line.removeprefix(f"{indent}- ")) for line in lines]
    starts = [place for place, line in enumerate(lines) if line[len(indent)] != " "]
    found = {}
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        match = KEY.fullmatch(lines[start][len(indent) :])
        assert match, lines[start]
        key = value_of(match[1]) if match[1][0] == '"' else match[1]
        found[key] = read(lines[start + 1 : end], depth + 1) if match[2] is None else value_of(match[2])
    return found


def read_by_all(text: str) -> Any:
    """Return what this reader reads, and PyYAML the same where it is installed."""
    found = read(text.splitlines())
    try:
        import yaml  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return found
    assert yaml.safe_load(text) == found
    return found


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"))
)
keys = st.sampled_from(["epsilon", "no", "On", "y", "true", "a b", "python-flint", 'x"', "_1", "null", "ε: #"])


@given(st.dictionaries(keys, scalars | st.lists(scalars) | st.dictionaries(keys, scalars), min_size=1))
def test_whatever_is_written_is_read_back(content: dict[str, Any]) -> None:
    assert read_by_all("\n".join(yaml_lines(content))) == content


# What is said ---------------------------------------------------------------------------------------------------------


def front_matter_of(text: str) -> dict[str, Any]:
    _, block, _ = text.split("---\n", 2)
    content: dict[str, Any] = read_by_all(block)["differential_privacy"]
    return content


def test_every_format_says_what_the_library_says() -> None:
    assert done(f"statement {RUN}") == LIBRARY.statement(delta=1e-5) + "\n"
    assert done(f"statement {RUN} --format markdown") == LIBRARY.statement(delta=1e-5, format="markdown") + "\n"
    expected = json.loads(LIBRARY.statement(delta=1e-5, format="json"))
    for words in ("--json", "--format json"):
        assert json.loads(done(f"statement {RUN} {words}")) == expected
    whole = done(f"statement {RUN} --front-matter")
    assert whole == done(f"statement {RUN} --format yaml") + "\n" + done(f"statement {RUN} --format markdown")
    three = done(f"statement {RUN} --user-records 3")
    assert three == LIBRARY.statement(delta=1e-5, user_records=3) + "\n"


@pytest.mark.parametrize("delta", [1e-5, 1.234564e-6, 0.3, 1e-300, 1e-307])
def test_numbers_of_front_matter_keep_their_promise(delta: float) -> None:
    content = front_matter_of(done(f"statement --noise-multiplier 3 --steps 7 --delta {delta!r} --format yaml"))
    run = cm.Gaussian(noise_multiplier=3.0) * 7
    assert run.epsilon(delta=delta) <= content["epsilon"] <= run.epsilon(delta=delta) * (1 + 1e-9)
    assert delta <= content["delta"] <= delta * (1 + 1e-5)
    ends = run.epsilon_interval(delta=delta)
    assert content["interval"]["lower"] <= ends.lower <= ends.upper <= content["interval"]["upper"]
    assert content["interval"]["certified"] is True
    assert content["relation"] == "the relation that the sensitivity is measured for"
    assert (content["method"], content["exact"], content["records_per_person"]) == ("exact", True, 1)
    assert content["computed_by"]["cumulant"] == cm.__version__


def test_numbers_that_yaml_has_not() -> None:
    for delta in ("1e-308", "1e-400"):
        content = front_matter_of(done(f"statement --noise-multiplier 3 --delta {delta} --format yaml"))
        assert isinstance(content["delta"], str)  # as a number it could be read as 0
        assert Decimal(content["delta"]) == Decimal(delta)
    content = front_matter_of(done("statement --noise-multiplier 3 --delta 0 --format yaml"))
    assert (content["epsilon"], content["delta"]) == (math.inf, 0.0)
    content = front_matter_of(done("statement --mechanism zcdp --rho 1 --delta 1e-5 --format yaml"))
    assert content["interval"] is None


def test_every_format_says_what_a_data_loader_must_do() -> None:
    sgd = json.loads(done(f"sgd {TRAINING} --json"))
    said = json.loads(done(f"statement {TRAINING} --json"))["training"]
    assert said == {**sgd["training"], "words": {label: sgd["statement"][label] for label in ("sampling", "not this")}}
    assert front_matter_of(done(f"statement {TRAINING} --format yaml"))["training"] == said
    for form in ("text", "markdown"):
        words = " ".join(done(f"statement {TRAINING} --format {form}").split())
        assert all(" ".join(text.split()) in words for text in said["words"].values())


def test_a_statement_goes_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert done(f"statement {RUN} --front-matter --out MODEL_CARD.md") == "wrote MODEL_CARD.md\n"
    assert Path("MODEL_CARD.md").read_text(encoding="utf-8") == done(f"statement {RUN} --front-matter")
    assert json.loads(done(f"statement {RUN} --json --out card.json"))["files"] == ["card.json"]
    assert json.loads(Path("card.json").read_text(encoding="utf-8"))["epsilon"] == LIBRARY.epsilon(delta=1e-5)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (f"{RUN} --front-matter --format text", "--front-matter goes with"),
        (f"{RUN} --front-matter --json", "give one of them"),
        (f"{RUN} --json --format text", "give one of them"),
        (f"{RUN} --out nowhere/card.md", "cannot be written"),
        (f"{RUN} --user-records 0", "--user-records"),
        ("--delta 1e-5", "needs --noise-multiplier"),
    ],
)
def test_wrong_use_is_refused(options: str, reason: str) -> None:
    result = call(f"statement {options}")
    assert result.exit_code == 2
    assert reason in result.stdout + result.stderr
