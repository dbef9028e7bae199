"""What contestants are asked, and the scripts that ask them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from benchmarks.runs import Release, Run


@final
@dataclass(frozen=True, slots=True)
class Epsilon:
    """ε of a run at its δ."""

    run: Run


@final
@dataclass(frozen=True, slots=True)
class Online:
    """ε after every one of the steps; the answer is the last one. The run's count is the number of steps.

    Several releases differ in their noise only, and are made once each.
    """

    run: Run


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """The least noise multiplier with which the release, as often as it says, is within (ε, δ)."""

    release: Release
    epsilon: float
    delta: float


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """The Rényi DP of a release at many orders; the answer holds those at `shown`, which are among them."""

    release: Release
    orders: tuple[float, ...]
    shown: tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class Counts:
    """ε at δ of a release for many counts; the answer holds those at `shown`, which are among them."""

    release: Release
    delta: float
    counts: tuple[int, ...]
    shown: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True)
class TradeOff:
    """The smallest false negative rate at so many false positive rates, evenly between 0 and 1."""

    run: Run
    points: int


@final
@dataclass(frozen=True, slots=True)
class Import:
    """Nothing but the import."""


Question = Epsilon | Online | Calibration | Curve | Counts | TradeOff | Import


@final
@dataclass(frozen=True, slots=True)
class Script:
    """Python that asks one question of one contestant: `body` leaves the reply in the variable `answer`.

    What is timed, what is hunted with and what is printed beside a finding is this same text.
    """

    imports: str
    body: str

    @property
    def text(self) -> str:
        return f"{self.imports}\n{self.body}\nprint(answer)\n"


class NotOffered(Exception):
    """The contestant has no function for this question."""
