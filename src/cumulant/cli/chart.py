"""The chart of `cumulant compare`: one dot per method, on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cumulant.answer import rounded_up
from cumulant.comparison import Row
from cumulant.errors import CumulantError


def save_comparison(rows: Sequence[Row], path: Path, *, title: str) -> None:
    """Draw the methods that prove something finite and positive; the bar of the exact answer is its interval."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogFormatter
    except ImportError:
        raise CumulantError("plots need matplotlib: pip install 'cumulant[plot]'") from None
    shown = [(row.method, row.interval) for row in rows if row.interval is not None and row.interval.upper > 0]
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for place, (method, interval) in enumerate(reversed(shown)):
        upper, lower = interval.upper, interval.lower
        color = "tab:green" if method == "exact" else "tab:blue"
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
    axes.grid(visible=True, axis="x", alpha=0.3)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise CumulantError(f"{str(path)!r} cannot be written: {error.strerror}") from error
