"""The report of an account, for whoever has to answer for it, and the budget over time drawn."""

from __future__ import annotations

import html
import math
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cumulant.errors import CumulantError, InvalidParameter
from cumulant.ledger.effects import effects_of, release_of
from cumulant.ledger.entries import Entry
from cumulant.ledger.lines import Lines, PureBeyond, Slot
from cumulant.ledger.pure import PureSum
from cumulant.ledger.texts import moment_of
from cumulant.ledger.values import WHOLE, Status, Verification
from cumulant.mechanisms.data import from_dict
from cumulant.printed import counted, given, rounded_up
from cumulant.report.chart import COLORS, Chart, Series, described
from cumulant.report.document import writing
from cumulant.version import __version__

if TYPE_CHECKING:
    from cumulant.ledger.ledger import Ledger

LAST = 20  # entries that are listed
MOST_ROWS = 50  # of a table of blocks or of people
MOST_POINTS = 1000  # of a line of the picture
CLOCKS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
"""What the picture counts time in, and its seconds: the longest of which there are at least two, else the last."""
ENDINGS = (".html", ".md", ".pdf")

PROMISE = (
    "Whatever was chosen by looking at earlier results, everything that was or will be released from this account "
    "together is (ε, δ)-differentially private at the price below: the declaration dominates it (slots and reserves), "
    "or, where pure DP went beyond the declaration, all of it is pure DP within the budget. "
    "This needs fresh noise and fresh samples in every release, charges that were fixed before the output, and no "
    "release about a complement of the data."
)
PLANNED = "if they had been planned"


@final
@dataclass(frozen=True, slots=True)
class Section:
    """A heading, sentences, and a table; its first row is the header."""

    title: str
    sentences: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Report:
    """What is told of an account."""

    title: str
    sections: tuple[Section, ...]
    chart: Chart

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        sections = [
            {"title": part.title, "sentences": list(part.sentences), "table": [list(row) for row in part.table]}
            for part in self.sections
        ]
        return {"version": __version__, "title": self.title, "sections": sections, "chart": self.chart.to_dict()}


@final
@dataclass(slots=True)
class Summary:
    """The history in one pass: what was used over time, by whom, and the last entries."""

    lines: Lines
    spent: dict[str, list[int]] = field(default_factory=dict)
    sums: dict[str, PureSum] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    used: list[tuple[float, ...]] = field(default_factory=list)
    authors: dict[str, dict[str, int]] = field(default_factory=dict)
    last: deque[Entry] = field(default_factory=lambda: deque(maxlen=LAST))
    began: str = ""

    def add(self, entry: Entry) -> None:
        self.began = self.began or entry.time
        self.last.append(entry)
        kinds = self.authors.setdefault(entry.author or "(nobody)", {})
        kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
        effects = effects_of(entry.kind, entry.content, self.lines)
        for block in effects.blocks:
            self.spent[block] = [0] * len(self.lines)
        for block, units in effects.spent.items():
            self.spent[block] = [a + b for a, b in zip(self.spent[block], units, strict=True)]
        for (block, text), times in effects.released.items():
            self.sums.setdefault(block, PureSum()).add(release_of(text), times)
        if effects.spent or effects.blocks:
            self.times.append((moment_of(entry.time) - moment_of(self.began)).total_seconds())
            self.used.append(tuple(self._share(place) for place in range(len(self.lines))))

    def _share(self, place: int) -> float:
        line = self.lines[place]
        if isinstance(line, PureBeyond):
            return max((1 - line.share(line.left(total)) for total in self.sums.values()), default=0.0)
        return max(spent[place] for spent in self.spent.values()) / max(line.units, 1)

    def chart(self, account: str) -> Chart:
        """Return the share of each line that was used, in the block that used most, against time."""
        name, unit = clock_of(max(self.times, default=0.0))
        times = [seconds / unit for seconds in self.times]
        curves = [
            Series(label=_line_name(line), x=x, y=y, color=COLORS[place % len(COLORS)])
            for place, line in enumerate(self.lines)
            for x, y in [_steps(times, [row[place] for row in self.used])]
        ]
        title = f"{account}: the budget over time"
        return Chart(curves=tuple(curves), x_label=f"{name} since the opening", y_label="share used", title=title)


def clock_of(seconds: float) -> tuple[str, float]:
    """Return in what a span of time is told, and how many seconds that has.

    >>> clock_of(3 * 86400.0), clock_of(90.0), clock_of(0.3)
    (('days', 86400.0), ('seconds', 1.0), ('seconds', 1.0))
    """
    return next((clock for clock in CLOCKS if seconds >= 2 * clock[1]), CLOCKS[-1])


def _steps(times: Sequence[float], values: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return a line that rises where something was spent; of a long history points at equal distances, and the last."""
    stride = max(1, math.ceil(len(times) / MOST_POINTS))
    kept = [*range(0, len(times) - 1, stride), len(times) - 1] if times else []
    x, y, before = [], [], 0.0
    for place in kept:
        x += [times[place], times[place]]
        y += [before, values[place]]
        before = values[place]
    return tuple(x), tuple(y)


def _line_name(line: Any) -> str:
    when = f"stage {line.stage + 1}: " if line.stage else ""
    if isinstance(line, Slot):
        return f"{when}{line.count} slots: {described(line.mechanism)}"
    return f"{when}{line.what}"


def make_report(ledger: Ledger, account: str, *, progress: Callable[[int], None] | None = None) -> Report:
    """Return the report of an account; its history is verified on the way, of which `progress` is told."""
    status, verification = ledger.status(account), ledger.verify(account, progress=progress)
    summary = Summary(status.declaration.lines)
    for entry in ledger.history(account):
        summary.add(entry)
    left = zip(map(_line_name, status.declaration.lines), status.left(), strict=True)
    sections = (
        _promise(status),
        Section("What is left", table=(("line", "left in the block that has least"), *left)),
        *_blocks(status),
        *_holds(status),
        _actual(ledger, status),
        Section("Who recorded what", table=(("by", "entries"), *_authors(summary))),
        Section("The last entries", table=(("no.", "time", "by", "what", "label"), *_last(summary))),
        _verified(verification, account),
    )
    return Report(f"Privacy budget of {account}", sections, summary.chart(account))


def _promise(status: Status) -> Section:
    declaration = status.declaration
    rows = [
        ("protects", declaration.unit),
        ("relation", declaration.neighbors.value),
        ("budget", f"ε = {given(declaration.epsilon)} at δ = {given(declaration.delta)}"),
        ("price", f"ε = {rounded_up(status.price)} at δ = {given(declaration.delta)}, whatever is spent"),
        ("opened", status.opened),
        ("entries", str(status.version)),
    ]
    if declaration.stages > 1:
        claims = [f"stage {place + 1}: ε = {rounded_up(claim)}" for place, claim in enumerate(status.claims)]
        rows.append(("at the end of each stage", "; ".join(claims)))
        rows.append(("now in stage", str(status.stage + 1)))
    return Section("The promise", (PROMISE,), (("", ""), *rows))


def _blocks(status: Status) -> Iterator[Section]:
    if status.blocks == (WHOLE,):
        return
    rows = [(block, "; ".join(status.left(block))) for block in status.blocks[:MOST_ROWS]]
    sentences = (f"{counted(len(status.blocks), 'block')}; every record lies in one of them.",)
    yield Section("Blocks", sentences, (("block", "left"), *rows))


def _holds(status: Status) -> Iterator[Section]:
    if status.holds:
        rows = [(h.key, h.state + (", expired" if h.expired else ""), h.author, h.expires) for h in status.holds]
        sentences = ("Holds count as spent in full until they are settled.",)
        yield Section("Open holds", sentences, (("key", "state", "by", "expires"), *rows))


def _actual(ledger: Ledger, status: Status) -> Section:
    """Tell the exact ε of what was spent, and that it promises nothing."""
    delta, rows = status.declaration.delta, []
    for block in status.blocks[:MOST_ROWS]:
        run = ledger.spent(status.account, block=block)
        try:
            epsilon = rounded_up(run.epsilon(delta=delta))
        except CumulantError as error:
            epsilon = f"not computed: {error}"
        what = "; ".join(f"{count} × {described(release)}" for release, count in run.parts) or "nothing"
        rows.append((block, what, f"ε = {epsilon}" if epsilon[0].isdigit() else epsilon))
    sentences = (
        f"The last column is the exact ε at δ = {given(delta)} of the same releases {PLANNED}: a figure for people, "
        "not the guarantee, which is the price above.",
    )
    return Section("What was released", sentences, (("block", "releases", PLANNED), *rows))


def _authors(summary: Summary) -> Iterator[tuple[str, ...]]:
    most = sorted(summary.authors.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    for author, kinds in most[:MOST_ROWS]:
        yield author, ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _last(summary: Summary) -> Iterator[tuple[str, ...]]:
    for entry in summary.last:
        label = str(entry.content["request"].get("label", ""))
        yield str(entry.version), entry.time[:19].replace("T", " "), entry.author, entry_text(entry), label


def entry_text(entry: Entry) -> str:
    """Return what an entry records, in words."""
    content = entry.content
    request = content["request"]
    if "release" in request:
        parts = from_dict(request["release"]).releases()
        what = " + ".join(f"{count} × {described(part)}" for part, count in parts) or "nothing"
        where = f" on {', '.join(request['blocks'])}" if request["blocks"] else ""
        return f"{entry.kind}: {what}{where}"
    if "hold" in request:
        return f"{entry.kind} {request['hold']}"
    return f"{entry.kind} {', '.join(request['blocks'])}" if entry.kind == "blocks" else entry.kind


def _verified(verification: Verification, account: str) -> Section:
    count = verification.entries[account]
    sentences = (
        f"Replayed: {counted(count, 'entry')}; hashes, totals, holds and charges agree. The head below "
        "covers all of them. Whoever keeps it elsewhere can prove later that none was changed.",
        *verification.warnings,
    )
    rows = (("head", verification.heads[account]), ("made by", f"cumulant {__version__}"))
    return Section("Verification", sentences, (("", ""), *rows))


# As Markdown, as HTML -------------------------------------------------------------------------------------------------


def markdown_of(report: Report, *, picture: str | None) -> str:
    """Return the report as Markdown; the picture is a link."""
    parts = [f"# {_marked(report.title)}"]
    for place, section in enumerate(report.sections):
        parts += [f"## {_marked(section.title)}", *map(_marked, section.sentences)]
        if section.table:
            header, *rows = section.table
            lines = [header, ("---",) * len(header), *rows]
            parts.append("\n".join(f"| {' | '.join(map(_marked, row))} |" for row in lines))
        if place == 0 and picture is not None:
            parts.append(f"![the budget over time]({picture})")
    return "\n\n".join(parts) + "\n"


def _marked(text: str) -> str:
    """Return text that Markdown shows as it is."""
    for letter in "\\`*_[]|":
        text = text.replace(letter, f"\\{letter}")
    return html.escape(text, quote=False)


STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border-bottom:1px solid #ddd;padding:.3rem .8rem;"
    "text-align:left;vertical-align:top;overflow-wrap:anywhere}svg{max-width:100%;height:auto}h2{margin-top:2rem}"
)


def html_of(report: Report, *, picture: str | None) -> str:
    """Return the report as one HTML page; the picture is the SVG itself."""
    parts = [f"<h1>{html.escape(report.title)}</h1>"]
    for place, section in enumerate(report.sections):
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{html.escape(sentence)}</p>" for sentence in section.sentences]
        parts += [_table(section.table)] if section.table else []
        parts += [picture] if place == 0 and picture is not None else []
    head = f'<meta charset="utf-8"><title>{html.escape(report.title)}</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _table(table: Iterable[Sequence[str]]) -> str:
    header, *rows = table
    lines = [_row(header, "th")] if any(header) else []
    return "<table>" + "".join([*lines, *(_row(row, "td") for row in rows)]) + "</table>"


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


# Files ----------------------------------------------------------------------------------------------------------------


def write_report(report: Report, file: Path) -> list[Path]:
    """Write a report as .html or .pdf, one file, or as .md with an .svg beside it, and return the files.

    Without matplotlib there is no picture, and no .pdf.
    """
    if file.suffix not in ENDINGS:
        raise InvalidParameter(f"a report ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {str(file)!r}")
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".pdf":
            from cumulant.ledger.report_pages import write_pages

            write_pages(report, file)
            return [file]
        svg = _drawn(report.chart)
        if file.suffix == ".html":
            file.write_text(html_of(report, picture=svg and svg[svg.index("<svg") :]), encoding="utf-8")
            return [file]
        picture = file.with_suffix(".svg")
        file.write_text(markdown_of(report, picture=svg and picture.name), encoding="utf-8")
        if svg is None:
            return [file]
        picture.write_text(svg, encoding="utf-8")
        return [file, picture]


def _drawn(chart: Chart) -> str | None:
    """Return the chart as SVG; None where matplotlib is missing."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        return None
    from cumulant.report.draw import draw, save

    axes = draw(chart)
    axes.set_ylim(0.0, 1.05)
    figure: Any = axes.get_figure()
    with tempfile.TemporaryDirectory() as directory:
        save(figure, file := Path(directory) / "chart.svg")
        return file.read_text(encoding="utf-8")
