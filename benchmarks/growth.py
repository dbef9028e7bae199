"""How time and memory grow with steps, distinct mechanisms, order and 1/δ."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from benchmarks.contestants.base import Contestant
from benchmarks.measure import Limits, Measurement, machine, measured
from benchmarks.progress import Progress
from benchmarks.questions import Curve, Epsilon, NotOffered, Question
from benchmarks.runs import dp_sgd
from benchmarks.workloads import README, distinct

LIMITS = Limits(processes=1, repetitions=0, timeout=60.0)


@final
@dataclass(frozen=True, slots=True)
class Axis:
    """A quantity that grows, and the question at each of its values."""

    name: str
    values: tuple[float, ...]
    question: Callable[[float], Question]


def _curve_at(order: float) -> Question:
    return Curve(README.releases[0], (order,), (order,))


AXES: tuple[Axis, ...] = (
    Axis(
        "steps",
        tuple(10.0**k for k in range(1, 9)),
        lambda n: Epsilon(dp_sgd(noise=1.0, rate=1e-3, steps=int(n), delta=1e-5)),
    ),
    Axis("distinct mechanisms", (1, 3, 10, 30, 100, 300, 1000), lambda n: Epsilon(distinct(int(n)))),
    Axis("order", (2, 4.5, 8, 16.5, 64, 256, 1024, 4096), _curve_at),
    Axis(
        "k, δ = 10⁻ᵏ",
        (3, 5, 8, 10, 12, 15, 20, 30, 100, 300),
        lambda k: Epsilon(replace(README, delta=float(f"1e-{k:g}"))),
    ),
)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    axis: str
    contestant: str
    value: float
    measurement: Measurement

    def to_dict(self) -> dict[str, Any]:
        names = {"axis": self.axis, "contestant": self.contestant, "value": self.value}
        return {**names, **self.measurement.to_dict()}


def grown(
    contestants: Sequence[Contestant], axes: Sequence[Axis] = AXES, limits: Limits = LIMITS, *, quiet: bool = False
) -> list[Point]:
    """Measure everybody along every axis; whoever fails at a value is not asked for larger ones."""
    progress = Progress(sum(len(axis.values) for axis in axes) * len(contestants), quiet=quiet)
    points = []
    for axis in axes:
        for contestant in contestants:
            points += _along(axis, contestant, limits, progress)
    progress.close()
    return points


def _along(axis: Axis, contestant: Contestant, limits: Limits, progress: Progress) -> list[Point]:
    points: list[Point] = []
    for value in axis.values:
        progress.show(f"{axis.name} = {value:g}: {contestant.name}")
        progress.advance()
        if points and points[-1].measurement.failure:
            continue
        try:
            script = contestant.script(axis.question(value))
        except NotOffered:
            continue
        measurement = measured(script, limits)
        points.append(Point(axis=axis.name, contestant=contestant.name, value=value, measurement=measurement))
    return points


def write(points: Sequence[Point], directory: Path) -> list[Path]:
    """Write the points as JSON, and a plot of time and of memory for every axis."""
    directory.mkdir(parents=True, exist_ok=True)
    data = {"machine": machine(), "points": [point.to_dict() for point in points]}
    written = [directory / "growth.json", directory / "growth.png"]
    written[0].write_text(json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")
    draw(points, written[1])
    return written


def draw(points: Sequence[Point], path: Path) -> None:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(point.axis for point in points))
    contestants = list(dict.fromkeys(point.contestant for point in points))
    figure = Figure(figsize=(4.2 * len(names), 7), layout="constrained")
    grid = figure.subplots(2, len(names), squeeze=False)
    for column, name in enumerate(names):
        for contestant in contestants:
            some = [p for p in points if p.axis == name and p.contestant == contestant and p.measurement.first]
            color = f"C{contestants.index(contestant)}"
            x = [p.value for p in some]
            grid[0][column].loglog(x, [p.measurement.first[0] for p in some], ".-", color=color, label=contestant)
            grid[1][column].semilogx(x, [p.measurement.megabytes for p in some], ".-", color=color)
        grid[0][column].set(title=name, ylabel="seconds to the first answer")
        grid[1][column].set(xlabel=name, ylabel="peak memory, MB")
    grid[0][0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
