"""Charts as pictures: the only module that uses matplotlib, which it loads when it is called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cumulant.comparison import Row
from cumulant.errors import CumulantError
from cumulant.parameters import by_name
from cumulant.printed import rounded_up
from cumulant.report.chart import COLORS, Chart
from cumulant.report.document import writing

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


DPI = 110  # dots per inch of a .png
BELOW: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.14)}  # a legend there hides nothing
# Letters stay letters: small files, and no Type 3 fonts in a PDF, which publishers refuse.
WRITTEN = {"svg.hashsalt": "cumulant", "svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42}


@by_name
def draw(chart: Chart, *, axes: Axes | None = None, legend: bool = True) -> Axes:
    """Draw a chart on the given axes, or on new ones."""
    if axes is None:
        return _drawn(chart, new_axes(), BELOW if legend else None)
    return _drawn(chart, axes, {} if legend else None)


def _drawn(chart: Chart, axes: Axes, legend: dict[str, Any] | None) -> Axes:
    """Draw on axes; `legend` says where its legend goes, None that there is none."""
    for curve in chart.curves:
        line, marker = ("none", ".") if curve.line == "." else (curve.line, "")
        style: dict[str, Any] = {"linestyle": line, "marker": marker, "linewidth": curve.width}
        y = [value if math.isfinite(value) else math.nan for value in curve.y]  # matplotlib draws gaps there
        axes.plot(curve.x, y, label=curve.label, color=curve.color, **style)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label, title=chart.title)
    for axis, scale in ((axes.xaxis, chart.x_scale), (axes.yaxis, chart.y_scale)):
        if scale == "exponent":
            axis.set_major_formatter(lambda value, _: f"$10^{{{value:g}}}$")
        elif scale != "linear":  # a linear scale keeps what the caller's axes are set to
            getattr(axes, f"set_{axis.axis_name}scale")(scale)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, which="major", alpha=0.25, linewidth=0.6)
    if legend is not None:
        axes.legend(frameon=False, fontsize="small", **legend)
    return axes


def save_chart(
    chart: Chart, file: Path, *, width: float = 6.4, height: float = 4.4, font: str | None = None, dpi: int = DPI
) -> None:
    """Draw a chart, of a width and height in inches, and write it."""
    axes = new_axes(width=width, height=height)
    from matplotlib import rc_context

    with rc_context({} if font is None else _font(font)):
        figure: Any = _drawn(chart, axes, BELOW).get_figure()
        save(figure, file, dpi=dpi)


def _font(name: str) -> dict[str, Any]:
    """Return the settings of a font, mathematics with it."""
    from matplotlib.font_manager import findfont

    try:
        findfont(name, fallback_to_default=False)
    except ValueError:
        raise CumulantError(f"there is no font {name!r} here; serif, sans-serif and monospace always are") from None
    return {"font.family": name, "mathtext.fontset": "dejavusans" if name == "sans-serif" else "stix"}


def new_axes(*, width: float = 6.4, height: float = 4.4) -> Axes:
    """Return the axes of a new figure."""
    axes: Axes = new_grid(1, 1, width=width, height=height)[0, 0]
    return axes


def new_grid(rows: int, columns: int, *, width: float, height: float) -> Any:
    """Return an array of axes on a new figure of a width in inches, that needs no window and no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise CumulantError("plots need matplotlib; from a checkout: pip install '.[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained").subplots(rows, columns, squeeze=False)


def save(figure: Figure, file: Path, *, dpi: int = DPI) -> None:
    """Write a picture in the format of its name; equal numbers make equal files, whenever they are drawn."""
    from matplotlib import rc_context

    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with writing(file), rc_context(WRITTEN):
        figure.savefig(file, dpi=dpi, metadata=undated.get(file.suffix))


def draw_comparison(rows: Sequence[Row], *, title: str) -> Figure:
    """Draw the methods that prove something finite and positive; the bar of the exact answer is its interval."""
    axes = new_grid(1, 1, width=7.2, height=3.6)[0, 0]
    from matplotlib.ticker import LogFormatter

    shown = [(row.method, row.interval) for row in rows if row.interval is not None and row.interval.upper > 0]
    for place, (method, interval) in enumerate(reversed(shown)):
        upper, lower = interval.upper, interval.lower
        color = COLORS[2] if method == "exact" else COLORS[0]
        axes.plot([upper], [place], marker="o", color=color)
        if lower > 0:
            axes.plot([lower, upper], [place, place], marker="|", markersize=14, color=color)
        text = rounded_up(upper, digits=4)
        axes.annotate(text, (upper, place), textcoords="offset points", xytext=(8, 0), va="center")
    axes.set_yticks(range(len(shown)), [method for method, _ in reversed(shown)])
    axes.set(xscale="log", xlabel=title)
    axes.xaxis.set_major_formatter(LogFormatter())  # 10, not a power of ten in mathematical type
    axes.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.0, 0.4)))
    axes.margins(x=0.2, y=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="x", alpha=0.25, linewidth=0.6)
    figure: Figure = axes.get_figure()
    return figure
