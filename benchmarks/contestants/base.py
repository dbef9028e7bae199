"""What a contestant is: a package, and a script for every question it offers an answer to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from benchmarks.questions import Calibration, Curve, Epsilon, Import, NotOffered, Online, Question, Script
from benchmarks.runs import Run


def _no_online(run: Run) -> str:
    raise NotOffered("no accountant that is asked while it grows")


def _no_calibration(question: Calibration) -> str:
    raise NotOffered("no calibration")


def _no_curve(question: Curve) -> str:
    raise NotOffered("no curve of Rényi DP")


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

    def script(self, question: Question) -> Script:
        return Script(self.imports, self._body(question))

    def _body(self, question: Question) -> str:
        match question:
            case Epsilon(run):
                return self.epsilon(run)
            case Online(run):
                return self.online(run)
            case Calibration():
                return self.calibration(question)
            case Curve():
                return self.curve(question)
            case Import():
                return "answer = None"


def only(condition: bool, otherwise: str) -> None:
    """Refuse what a package does not offer."""
    if not condition:
        raise NotOffered(otherwise)
