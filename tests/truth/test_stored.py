"""What is stored is what the programs say; what is not, or no longer, is found."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from flint import acb, arb
from mpmath import inf, mpc, mpf

import stored as shelves
from high_precision import Table, precision
from stored import Shelf, agree, is_drawn, question_of, read, stored, write

BALLS = [arb("0.25"), arb("[1.5 +/- 1e-9]"), acb("0.25", "[1.5 +/- 1e-9]")]
VALUES = [1.5, 0.1, mpf("0.1"), mpf("1e-400"), mpc("0.1", "-2"), inf, *BALLS, True, 3, None]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_are_read_as_they_were_written(value: object) -> None:
    kept = json.loads(json.dumps(write(value)))
    assert agree(read(kept), value)
    assert read([kept, kept]) == (read(kept), read(kept)) or isinstance(value, arb | acb)
    if isinstance(value, arb | acb):
        assert read(kept).contains(value)


@pytest.mark.parametrize(
    ("value", "other"),
    [(1.5, 1.5 + 1e-9), (mpf("0.1"), mpf("0.1") + mpf("1e-14")), (arb(1), arb(2)), ((1.0, 2.0), (1.0, 3.0)), (1, 2)],
    ids=str,
)
def test_other_values_are_told_apart(value: object, other: object) -> None:
    assert not agree(read(write(value)), other)


def test_a_question_has_all_digits_of_its_arguments() -> None:
    with precision():
        one, other = arb(1) / 3, arb(1) / 3 + arb("1e-30")
    assert question_of("f", (0.1, Fraction(1, 3), [1, "a"]), {"c": None}) == "f(0.1, Fraction(1, 3), [1, 'a'], c=None)"
    assert question_of("f", (mpf("0.1"),), {}) != question_of("f", (mpf("0.1") + mpf("1e-15"),), {})
    assert question_of("f", (one,), {}) != question_of("f", (other,), {})
    tables = [Table(((ball, ball), *(((Fraction(1), Fraction(k)),) * 99))) for k in (1, 2) for ball in (one, other)]
    assert len({question_of("f", ([(table, 7)],), {}) for table in tables}) == len(tables)
    assert all(len(question_of("f", (table,), {})) < 250 for table in tables)


def test_a_tenth_is_drawn() -> None:
    drawn = {seed: {k for k in range(2000) if is_drawn(f"question {k}", seed)} for seed in ("a", "b")}
    assert all(150 < len(some) < 250 for some in drawn.values())
    assert len(drawn["a"] & drawn["b"]) < 50


def doubled(x: float) -> float:
    return 2 * x


def test_a_number_that_rotted_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "some.json")
    shelf.kept = {"doubled(1.0)": "double 2.0", "doubled(2.0)": "double 5.0"}
    monkeypatch.setattr(shelves, "shelf_of", lambda _: shelf)
    monkeypatch.setattr(shelves, "MODE", "all")
    assert stored(doubled)(1.0) == 2.0
    with pytest.raises(AssertionError, match=re.escape("doubled(2.0) is stored as double 5.0")):
        stored(doubled)(2.0)


def test_what_is_not_stored_is_computed_and_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shelves, "shelf_of", lambda _: Shelf(tmp_path / "none.json"))
    monkeypatch.setattr(shelves.Unstored, "count", 0)
    monkeypatch.setattr(shelves, "MODE", "tenth")
    assert stored(doubled)(3.0) == 6.0
    assert shelves.Unstored.count == 1


def test_making_keeps_what_was_not_asked(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "some.json")
    shelf.kept = {"f(1)": 1, "f(2)": 2}
    assert shelf.keep("f(2)", 3) == 3
    shelf.save()
    assert Shelf(tmp_path / "some.json").kept == {"f(1)": 1, "f(2)": 3}


def test_what_is_stored_belongs_to_a_program() -> None:
    """Each file has the name of a module, and each entry that of a function in it."""
    for file in shelves.DIRECTORY.glob("*.json"):
        program, *_ = shelves.DIRECTORY.parent.parent.rglob(f"{file.stem}.py")
        text = program.read_text(encoding="utf-8")
        names = {question.partition("(")[0] for question in json.loads(file.read_text(encoding="utf-8"))}
        assert [name for name in names if f"def {name}(" not in text] == []
