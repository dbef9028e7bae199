"""Results as a picture: how long everybody takes, and whether the answer holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import Result
from benchmarks.table import by_workload


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw seconds per workload, one mark per contestant, crosses where the answer is below the truth."""
    from matplotlib.figure import Figure

    contestants = list(dict.fromkeys(result.contestant for result in results))
    workloads = list(dict.fromkeys(result.workload for result in results))
    figure = Figure(figsize=(9, 1.5 + 0.38 * len(workloads)), layout="constrained")
    axes = figure.subplots()
    for number, contestant in enumerate(contestants):
        found = by_workload(results, contestant)
        timed = [(found[w].seconds, row, found[w].verdict.unsound) for row, w in enumerate(workloads) if w in found]
        shown = [(seconds[0], row, unsound) for seconds, row, unsound in timed if seconds]
        for mark, wanted in (("o", False), ("x", True)):
            some = [(seconds, row) for seconds, row, unsound in shown if unsound is wanted]
            label = contestant.name if not wanted and shown else None
            x, y = [seconds for seconds, _ in some], [row for _, row in some]
            axes.scatter(x, y, color=f"C{number}", marker=mark, s=36, label=label)
    axes.set(xscale="log", xlabel="seconds to the first answer; × is an answer below the truth")
    axes.set_yticks(range(len(workloads)), [workload.name for workload in workloads])
    axes.invert_yaxis()
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
