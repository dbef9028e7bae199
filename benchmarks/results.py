"""One run of the benchmarks: everybody on every workload, and what comes of it as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from benchmarks.contestants import FIRST, installed, versions
from benchmarks.contestants.base import Contestant
from benchmarks.measure import Limits, Measurement, machine, measured, median
from benchmarks.progress import Progress
from benchmarks.questions import Import, NotOffered
from benchmarks.truth import Truth, Verdict, judged, truth_of
from benchmarks.workloads import Workload

NOT_OFFERED, MISSING = "not offered", "missing"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One contestant on one workload; `extrapolated` multiplies its times."""

    workload: Workload
    contestant: Contestant
    measurement: Measurement
    verdict: Verdict
    truth: Truth | None = None
    extrapolated: float = 1.0
    call: str = ""

    @property
    def seconds(self) -> tuple[float, ...]:
        """The median times that ratios are made of: of the first answer and of another one, or of the import alone."""
        m = self.measurement
        kinds = (m.imports,) if isinstance(self.workload.question, Import) else (m.first, m.again)
        return tuple(time * self.extrapolated for time in map(median, kinds) if time is not None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "workload": self.workload.name,
            "words": self.workload.words,
            "contestant": self.contestant.name,
            "seconds": self.seconds,
            "extrapolated": self.extrapolated,
            "truth": None if self.truth is None else asdict(self.truth),
            **self.measurement.to_dict(),
            **asdict(self.verdict),
            "call": self.call if len(self.call) < 2000 else self.call[:2000] + "...",
        }


def run_all(
    workloads: Sequence[Workload], contestants: Sequence[Contestant], limits: Limits, *, quiet: bool = False
) -> list[Result]:
    """Measure everybody on everything, one after the other, side by side within a workload."""
    progress = Progress(len(workloads) * len(contestants), quiet=quiet)
    results = []
    for workload in workloads:
        truths: dict[bool, Truth | None] = {}
        for contestant in contestants:
            progress.show(f"{workload.name}: {contestant.name}")
            results.append(_result(workload, contestant, limits, truths))
            progress.advance()
    progress.close()
    return results


def _result(workload: Workload, contestant: Contestant, limits: Limits, truths: dict[bool, Truth | None]) -> Result:
    shortened = workload.for_peers is not None and contestant.module != FIRST.module
    question = workload.for_peers if shortened and workload.for_peers is not None else workload.question
    failure = _absence(contestant, question)
    if failure is not None:
        return Result(
            workload=workload, contestant=contestant, measurement=Measurement(failure=failure), verdict=Verdict()
        )
    if shortened not in truths:
        truths[shortened] = truth_of(question, limits)
    script = contestant.script(question)
    measurement = measured(script, limits)
    return Result(
        workload=workload,
        contestant=contestant,
        measurement=measurement,
        verdict=judged(measurement.answer, truths[shortened]),
        truth=truths[shortened],
        extrapolated=workload.extrapolated if shortened else 1.0,
        call=script.text,
    )


def _absence(contestant: Contestant, question: Any) -> str | None:
    if not installed(contestant):
        return MISSING
    try:
        contestant.script(question)
    except NotOffered as reason:
        return f"{NOT_OFFERED}: {reason}"
    return None


def as_data(results: Sequence[Result]) -> dict[str, Any]:
    return {"machine": machine(), "versions": versions(), "results": [result.to_dict() for result in results]}
