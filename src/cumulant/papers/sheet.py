"""A figure of a paper: charts in rows, under one legend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from cumulant.answer import Guarantee
from cumulant.report.chart import Chart, Series
from cumulant.report.draw import draw, new_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"
GREY, VIOLET = "#8a8a8a", "#7b3fa0"
PANEL_WIDTH, PANEL_HEIGHT = 3.7, 3.0  # inches
LEGEND_HEIGHT = 0.3  # inches for a row of the legend


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """Charts in rows; labels that several charts share are explained once."""

    title: str
    rows: tuple[tuple[Chart, ...], ...]

    def curve(self, row: int, column: int, label: str) -> Series:
        """Return the one curve of a chart whose label starts so."""
        (found,) = (curve for curve in self.rows[row][column].curves if curve.label.startswith(label))
        return found

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "rows": [[chart.to_dict() for chart in row] for row in self.rows]}

    def draw(self) -> Figure:
        """Return a matplotlib figure."""
        columns = max(len(row) for row in self.rows)
        per_row = max(2, columns)
        legend_rows = -(-len({curve.label for row in self.rows for chart in row for curve in chart.curves}) // per_row)
        height = PANEL_HEIGHT * len(self.rows) + LEGEND_HEIGHT * (1 + legend_rows)
        grid = new_grid(len(self.rows), columns, width=max(6.4, PANEL_WIDTH * columns), height=height)
        entries: dict[str, Any] = {}
        for row, places in zip(self.rows, grid, strict=True):
            for chart, axes in zip(row, places, strict=True):
                draw(chart, axes=axes, legend=False).title.set_fontsize("medium")
                low, high = axes.get_ylim()
                if chart.y_scale == "log" and high > 100 * low:
                    axes.minorticks_off()  # hundreds of them would be most of the file
                lines, labels = axes.get_legend_handles_labels()
                entries |= dict(zip(labels, lines, strict=True))
        figure: Figure = grid[0][0].get_figure()
        figure.suptitle(self.title, fontsize="large")
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=per_row, frameon=False)
        return figure


def sampled(x: Iterable[float], function: Callable[[Any], float], label: str, color: str, line: str = "-") -> Series:
    """Return the curve of a function at chosen x."""
    points = tuple(x)
    heights = tuple(float(function(point)) for point in points)
    return Series(label=label, x=tuple(map(float, points)), y=heights, color=color, line=line)


def proven(x: Sequence[float], guarantees: Sequence[Guarantee]) -> Series:
    """Return the ε of answers by method="best", labelled by what they are: exact, or the best bound known here."""
    label = "exact (cumulant)" if all(guarantee.exact for guarantee in guarantees) else "best proven (cumulant)"
    epsilons = tuple(guarantee.epsilon for guarantee in guarantees)
    return Series(label=label, x=tuple(map(float, x)), y=epsilons, color=BLACK, width=2.0)
