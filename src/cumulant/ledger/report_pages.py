"""A report as a PDF: lines of fixed width on pages of A4, and the picture on the first."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cumulant.errors import CumulantError
from cumulant.report.draw import WRITTEN, draw

if TYPE_CHECKING:
    from cumulant.ledger.report import Report

A4 = (8.27, 11.69)  # inches
LEFT, TOP, BOTTOM = 0.08, 0.94, 0.06  # shares of a page
WIDTH = 96  # letters of a line
LETTERS = 8.5  # points
LINE, PICTURE = 0.0145, 0.32  # heights, shares of a page
GAP = "  "  # between columns
NARROWEST = 6  # letters of a column


class Line(NamedTuple):
    """A line of text; a heading stands out."""

    text: str
    is_heading: bool = False


class Page(NamedTuple):
    """Lines, and before which of them the picture stands, if it does."""

    lines: list[Line]
    picture_at: int | None = None


def write_pages(report: Report, file: Path) -> None:
    """Write a report as a PDF; equal reports make equal files."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_pdf import PdfPages
        from matplotlib.figure import Figure
    except ImportError:
        raise CumulantError("a PDF needs matplotlib; from a checkout: pip install '.[plot]'") from None
    fonts = {**WRITTEN, "font.family": "monospace", "font.size": LETTERS}
    with warnings.catch_warnings(), rc_context(fonts), PdfPages(file, metadata={"CreationDate": None}) as pdf:
        warnings.filterwarnings("ignore", message="Glyph")  # a letter that the font has not is an empty box
        for page in pages_of(report):
            figure: Any = Figure(figsize=A4)
            height = TOP
            for place, line in enumerate(page.lines):
                if place == page.picture_at:
                    axes = figure.add_axes((LEFT + 0.06, height - PICTURE + 0.06, 0.78, PICTURE - 0.08))
                    draw(report.chart, axes=axes).set_ylim(0.0, 1.05)
                    height -= PICTURE
                weight = "bold" if line.is_heading else "normal"
                figure.text(LEFT, height, line.text, weight=weight, va="top", parse_math=False)
                height -= LINE
            pdf.savefig(figure)


def pages_of(report: Report) -> list[Page]:
    """Return what is on each page; the picture stands below the first section, or as far up as it must."""
    first, *others = report.sections
    above = [Line(report.title, is_heading=True), *lines_of([first])]
    lines = [*above, *lines_of(others)]
    most = int((TOP - BOTTOM) / LINE)
    beside = most - math.ceil(PICTURE / LINE)
    pages = [Page(lines[:beside], min(len(above), beside - 1))]
    return pages + [Page(lines[start : start + most]) for start in range(beside, len(lines), most)]


def lines_of(sections: Iterable[Any]) -> Iterator[Line]:
    """Yield the lines of sections, each with its heading, sentences and table."""
    for section in sections:
        yield from (Line(""), Line(section.title, is_heading=True))
        for sentence in section.sentences:
            yield from map(Line, wrapped(sentence, WIDTH))
        if section.table:
            yield from [Line("")] * bool(section.sentences)
            header, *rows = section.table
            yield from table_lines([header, *rows] if any(header) else rows, has_header=any(header))


def table_lines(rows: Sequence[Sequence[str]], *, has_header: bool = False) -> Iterator[Line]:
    """Yield rows in columns; a cell that is wider than its column goes on below.

    >>> [line.text for line in table_lines([["a", "some words"], ["longer", "x"]])]
    ['a       some words', 'longer  x']
    """
    if not rows:
        return
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    while sum(widths) + len(GAP) * (len(widths) - 1) > WIDTH and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    for place, row in enumerate(rows):
        cells = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            text = GAP.join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()
            yield Line(text, is_heading=has_header and place == 0)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most a width, one at least."""
    return textwrap.wrap(text, max(width, 1), break_on_hyphens=False) or [""]
