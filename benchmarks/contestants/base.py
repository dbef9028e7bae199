"""What a contestant is: a package, and a script for every question it offers an answer to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from benchmarks.questions import (
    Calibration,
    Counts,
    Curve,
    Epsilon,
    Import,
    NotOffered,
    Online,
    Question,
    Script,
    TradeOff,
)
from benchmarks.runs import Run


def _no_online(run: Run) -> str:
    raise NotOffered("no accountant that is asked while it grows")


def _no_calibration(question: Calibration) -> str:
    raise NotOffered("no calibration")


def _no_curve(question: Curve) -> str:
    raise NotOffered("no curve of Rényi DP")


def _no_counts(question: Counts) -> str:
    raise NotOffered("no accountant that is told a count")


def _no_tradeoff(question: TradeOff) -> str:
    raise NotOffered("no trade-off curve")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Contestant:
    """One way of accounting in one package; functions return the body of a script, or raise `NotOffered`."""

    name: str
    package: str
    module: str
    imports: str
    epsilon: Callable[[Run], str]
    online: Callable[[Run], str] = _no_online
    calibration: Callable[[Calibration], str] = _no_calibration
    curve: Callable[[Curve], str] = _no_curve
    counts: Callable[[Counts], str] = _no_counts
    tradeoff: Callable[[TradeOff], str] = _no_tradeoff

    def script(self, question: Question) -> Script:
        return Script(self.imports, self._body(question))

    def _body(self, question: Question) -> str:
        match question:
            case Epsilon(run):
                body = self.epsilon(run)
            case Online(run):
                body = self.online(run)
            case Calibration():
                body = self.calibration(question)
            case Curve():
                body = self.curve(question)
            case Counts():
                body = self.counts(question)
            case TradeOff():
                body = self.tradeoff(question)
            case Import():
                body = "answer = None"
        return body


def steps(run: Run, build: Callable[..., str]) -> str:
    """Return the expression of a list of single steps: of one release again and again, or of many kinds of noise."""
    first, *others = run.releases
    if not others:
        return f"[{build(first)}] * {run.count}"
    return f"[{build(first, 'noise')} for noise in {[release.parameter for release in run.releases]!r}]"


def only(condition: bool, otherwise: str) -> None:
    """Refuse what a package does not offer."""
    if not condition:
        raise NotOffered(otherwise)
