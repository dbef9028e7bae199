"""Results as markdown: one table of ratios, one of details."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.contestants import FIRST, versions
from benchmarks.contestants.base import Contestant
from benchmarks.measure import machine, median
from benchmarks.results import MISSING, NOT_OFFERED, Result
from benchmarks.workloads import Workload


def ratios(results: Sequence[Result]) -> str:
    """Return times of the first contestant, for others how many times longer; and how far from the truth."""
    contestants = list(dict.fromkeys(result.contestant for result in results))
    cells = {(result.workload.name, result.contestant.name): result for result in results}
    lines = [_row(["", *(contestant.name for contestant in contestants)]), _row(["---"] * (len(contestants) + 1))]
    for workload in dict.fromkeys(result.workload for result in results):
        first = cells.get((workload.name, FIRST.name))
        unit = () if first is None else first.seconds
        row = [cells.get((workload.name, contestant.name)) for contestant in contestants]
        lines.append(_row([workload.words, *("" if cell is None else cell_text(cell, unit) for cell in row)]))
    return "\n".join([_heading(), "", *lines])


def cell_text(result: Result, unit: tuple[float, ...]) -> str:
    """Return, say, "×15 / ×150, +0.4 %", or what happened instead of an answer."""
    failure = result.measurement.failure
    if failure is not None:
        return _failure_text(failure)
    if not unit or result.contestant is FIRST:
        times = [seconds_text(seconds) for seconds in result.seconds]
    else:
        times = [ratio_text(seconds / one) for seconds, one in zip(result.seconds, unit, strict=False)]
    mark = "~" if result.extrapolated != 1 else ""
    return ", ".join(filter(None, [" / ".join(mark + time for time in times), verdict_text(result)]))


def verdict_text(result: Result) -> str:
    verdict = result.verdict
    if verdict.word is not None:
        return f"**{verdict.word}**" if verdict.unsound else verdict.word
    if verdict.distance is None:
        return ""
    percent = percent_text(verdict.distance)
    if verdict.unsound:
        return f"**below the truth, {percent}**"
    return f"≤ {percent}" if verdict.at_most else percent


def percent_text(share: float) -> str:
    """Return two digits of a signed share; below what the truth is known to, "exact"."""
    if abs(share) < 1e-6:
        return "exact"
    return f"{100 * share:+.2g} %" if abs(share) < 1 else f"{100 * share:+,.0f} %"


def seconds_text(seconds: float) -> str:
    factor, unit = next(
        ((factor, unit) for factor, unit in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * factor), (1e-6, "µs")
    )
    value = seconds / factor
    return f"{value:.3g} {unit}" if value < 999.5 else f"{value:,.0f} {unit}"


def ratio_text(ratio: float) -> str:
    return f"×{ratio:.2g}" if ratio < 10 else f"×{ratio:,.0f}"


def _failure_text(failure: str) -> str:
    if failure.startswith(NOT_OFFERED) or failure == MISSING:
        return "-" if failure != MISSING else MISSING
    return failure.partition(":")[0]


def details(results: Sequence[Result]) -> str:
    """Return every answer with its times and memory, and every failure with its message."""
    times = ["import", "first answer", "again"]
    head = ["workload", "contestant", "answer", "against the truth", *times, "memory"]
    lines = [_row(head), _row(["---"] * len(head))]
    for result in results:
        m = result.measurement
        if m.failure is not None and (m.failure.startswith(NOT_OFFERED) or m.failure == MISSING):
            continue
        answer = m.failure or str(m.answer)
        times = [_with_spread(seconds) for seconds in (m.imports, m.first, m.again)]
        memory = "" if m.megabytes is None else f"{m.megabytes:.0f} MB"
        names = [result.workload.name, result.contestant.name]
        lines.append(_row([*names, answer.replace("|", "/"), verdict_text(result), *times, memory]))
    return "\n".join(lines)


def _with_spread(seconds: tuple[float, ...]) -> str:
    """Return the median, the least and the most."""
    middle = median(seconds)
    if middle is None:
        return ""
    return f"{seconds_text(middle)} ({seconds_text(min(seconds))} to {seconds_text(max(seconds))})"


def _heading() -> str:
    about = machine()
    known = ", ".join(f"{name} {number}" for name, number in versions().items() if number != MISSING)
    return f"{about['cores']} cores, {about['memory_gigabytes']} GB, Python {about['python']}, one thread; {known}."


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def by_workload(results: Sequence[Result], contestant: Contestant) -> dict[Workload, Result]:
    return {result.workload: result for result in results if result.contestant is contestant}
