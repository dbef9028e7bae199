"""What is true of a question, between two bounds, and what an answer is worth against it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

from benchmarks.contestants.cumulant import composed, mechanism
from benchmarks.measure import Limits, in_fresh_process
from benchmarks.questions import Calibration, Counts, Curve, Epsilon, Import, Online, Question, Script, TradeOff
from benchmarks.reference import Bracket

PRECISION = 1e-9  # relative; an answer closer to a bound than this is taken to be on it
NARROW = 0.01  # relative width up to which a bracket counts as the truth
FEW = 4  # distinct releases up to which the reference affords its finest lattice


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """Bounds of the true answers, one for every number asked for; an infinite upper bound: none is known."""

    brackets: tuple[Bracket, ...]
    source: str


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """How far an answer is from the truth, relatively; `at_most` where only a lower bound of it is of use."""

    word: str | None = None
    unsound: bool = False
    distance: float | None = None
    at_most: bool = False


def truth_of(question: Question, limits: Limits) -> Truth | None:
    """Return the certified interval of the library where it is narrow, else what it and the reference leave open."""
    found: list[Truth] = []
    for source, script in _scripts(question):
        reply = in_fresh_process(script, replace(limits, repetitions=0, timeout=10 * limits.timeout))
        if "error" not in reply:
            ends = [[float(end) for end in bracket] for bracket in reply["answer"]]
            found.append(Truth(brackets=tuple(Bracket(*bracket) for bracket in ends), source=source))
            if all(narrow(bracket) for bracket in found[-1].brackets):
                return found[-1]
    return _both(found) if found else None


def narrow(bracket: Bracket) -> bool:
    return bracket.upper <= bracket.lower * (1 + NARROW)


def _both(found: list[Truth]) -> Truth:
    """Return the intersection of brackets, number by number."""
    columns = zip(*(truth.brackets for truth in found), strict=True)
    brackets = tuple(Bracket(max(b.lower for b in some), min(b.upper for b in some)) for some in columns)
    return Truth(brackets=brackets, source=" and ".join(truth.source for truth in found))


def _scripts(question: Question) -> list[tuple[str, Script]]:
    match question:
        case Epsilon(run) | Online(run):
            certified = Script(
                "import cumulant as cm",
                f"{composed(run)}\ninterval = accountant.run.epsilon_interval(delta={run.delta!r})\n"
                "answer = [[interval.lower, interval.upper]]",
            )
            size = 2**20 if len(run.releases) <= FEW else 2**15
            text = f"epsilon_bracket(Run.from_dict({run.to_dict()!r}), size={size})"
            return [("certified", certified), ("reference", _reference("epsilon_bracket", text))]
        case Calibration(release, epsilon, delta):
            text = f"noise_bracket(Release(**{_fields(release)!r}), {epsilon!r}, {delta!r}, size=2**19)"
            return [("reference", _reference("noise_bracket", text))]
        case Curve(release, _, shown):
            body = (
                f"values = [renyi_divergence(Release(**{_fields(release)!r}), order) for order in {list(shown)!r}]\n"
                "answer = [[value, value] for value in values]"
            )
            imports = "from benchmarks.moments import renyi_divergence\nfrom benchmarks.runs import Release"
            return [("reference", Script(imports, body))]
        case Counts(release, delta, _, shown):
            body = (
                f"step = {mechanism(release)}\n"
                f"intervals = [(step * count).epsilon_interval(delta={delta!r}) for count in {list(shown)!r}]\n"
                "answer = [[interval.lower, interval.upper] for interval in intervals]"
            )
            return [("certified", Script("import cumulant as cm", body))]
        case TradeOff() | Import():
            return []


def _fields(release: Any) -> dict[str, Any]:
    return {name: getattr(release, name) for name in release.__dataclass_fields__}


def _reference(names: str, text: str) -> Script:
    imports = f"from benchmarks.reference import {names}\nfrom benchmarks.runs import Release, Run"
    return Script(imports, f"bracket = {text}\nanswer = [[bracket.lower, bracket.upper]]")


def judged(answer: Any, truth: Truth | None) -> Verdict:
    """Return what an answer is worth: in words where it is no number, else its distance."""
    if answer is None:
        return Verdict()
    values = [float(one) for one in (answer if isinstance(answer, list) else [answer])]
    for value in values:
        if math.isnan(value) or math.isinf(value) or value < 0:
            return Verdict(word="negative" if value < 0 else str(value), unsound=not value > 0)
    if truth is None:
        return Verdict()
    pairs = list(zip(values, truth.brackets, strict=True))
    below = [value / true.lower - 1 for value, true in pairs if value < true.lower * (1 - PRECISION)]
    if below:
        return Verdict(unsound=True, distance=min(below))
    # where little is known from above, all that can be said is how far the answer may be from the truth
    known = [true.upper if narrow(true) or true.lower == 0 else true.lower for _, true in pairs]
    return Verdict(
        distance=max(value / end - 1 for value, end in zip(values, known, strict=True)),
        at_most=not all(narrow(true) for _, true in pairs),
    )
