"""The site: these pages with search, and a reference from the docstrings. `python -m sphinx -W docs site` builds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from cumulant import __version__

project = "cumulant"
author = "the authors of cumulant"
copyright = "the authors of cumulant, MIT licence"  # noqa: A001 (Sphinx asks for this name)
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
html_theme = "furo"
html_title = f"cumulant {version}"
html_static_path = ["pictures"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7db8f5", "color-brand-content": "#7db8f5"},
}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # links such as choose.md#units lead somewhere
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
nitpicky = False
templates_path: list[str] = []
exclude_patterns = ["Thumbs.db"]

PAGE = re.compile(r"\]\(([\w-]+)\.md\)")  # a link to a page beside this one
LABELLED = re.compile(r"(\w[\w -]*):(  +)(\S.*)")  # "Holds for:  every pair"


def setup(app: Any) -> None:
    """Let Sphinx read docstrings as they are written here: plain text that a terminal shows."""
    app.connect("autodoc-process-docstring", lambda *event: _as_restructured(event[-1]))
    app.connect("source-read", _list_pages)


def _list_pages(app: Any, name: str, source: list[str]) -> None:
    """Make the pages that the first one names its chapters, in that order; the reference is the last."""
    if name == "index":
        pages = [*dict.fromkeys(PAGE.findall(source[0])), "reference/index"]
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", *pages, "```", ""])


def _as_restructured(lines: list[str]) -> None:
    """Make of a docstring in plain text, in place, one that Sphinx reads: formulas and columns keep their form."""
    lines[:] = [line for block in _blocks(lines) for line in _block(block)]


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield what blank lines part."""
    ends = [-1, *(i for i, line in enumerate(lines) if not line.strip()), len(lines)]
    for before, end in pairwise(ends):
        if end > before + 1:
            yield lines[before + 1 : end]


def _block(lines: list[str]) -> list[str]:
    """Return one paragraph: an example as it is, what is indented or has columns to the letter, labels as fields."""
    if lines[0].lstrip().startswith(">>>"):
        return [*lines, ""]
    if LABELLED.fullmatch(lines[0]):
        return [*_fields(lines), ""]
    if lines[0].startswith(" ") or any(re.search(r"\S {3,}\S", line) for line in lines):
        return ["::", "", *(f"    {line}" for line in lines), ""]
    return [*(_prose(line) for line in lines), ""]


def _fields(lines: list[str]) -> Iterator[str]:
    """Yield labels with what follows them, each a field."""
    for line in lines:
        label = LABELLED.fullmatch(line)
        yield f":{label[1]}: {_prose(label[3])}" if label else f"    {_prose(line.strip())}"


def _prose(line: str) -> str:
    """Return a line in which names between backticks are code, and no letter is markup."""
    parts = line.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*|\\_])", r"\\\1", parts[i])
    return "``".join(parts)
