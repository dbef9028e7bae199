"""The site of the documentation: every public name has a grade, a place in the reference and an example."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path

import cumulant
from cumulant.neighbors import Neighbors

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
GRADED = re.findall(r"^\| (?:stable|provisional) \| (.*) \|$", (DOCS / "stability.md").read_text("utf-8"), re.MULTILINE)
RELATIONS = [name for name in cumulant.__all__ if isinstance(getattr(cumulant, name), Neighbors)]


def test_every_public_name_has_one_grade() -> None:
    graded = Counter(name for row in GRADED for name in re.findall(r"`(\w+)`", row))
    assert sorted(graded.elements()) == sorted(cumulant.__all__)


def test_every_public_name_is_in_the_reference() -> None:
    there = set(re.findall(r"^\.\. auto\w+:: cumulant\.(?:\w+\.)*(\w+)$", REFERENCE, re.MULTILINE))
    assert [name for name in cumulant.__all__ if name not in there and name not in RELATIONS] == []
    assert "Neighbors" in there  # which lists the relations
    assert [name for name in cumulant.sampling.__all__ if name not in there] == []


def test_every_public_name_has_an_example() -> None:
    without = [name for name in cumulant.__all__ if ">>> " not in (inspect.getdoc(getattr(cumulant, name)) or "")]
    assert sorted(without) == sorted(RELATIONS)


def test_every_question_has_an_example_on_its_page() -> None:
    page = (DOCS / "reference" / "questions.md").read_text(encoding="utf-8")
    asked = [name for name in vars(cumulant.mechanisms.base.AbstractMechanism) if name[0] != "_"]
    assert [name for name in asked if not re.search(rf"^>>> .*\.{name}\b", page, re.MULTILINE)] == []
