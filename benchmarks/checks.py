"""Is an answer below the truth, or called exact though it is not? The truth is that of `reference` and `moments`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, final

from benchmarks import cases, runs
from benchmarks.cases import Case
from benchmarks.contestants.base import Contestant
from benchmarks.contestants.cumulant import composed, mechanism
from benchmarks.measure import Limits, in_fresh_process
from benchmarks.moments import renyi_divergence
from benchmarks.questions import Epsilon, NotOffered, Script
from benchmarks.reference import log_delta_bracket

ROUNDING = 1e-11  # of log δ relative to 1 + |log δ|, and of Rényi DP: what doubles may differ by
EXACT = 1.1e-3  # in log δ: what an answer that is called exact may be above the truth by, docs/soundness.md
EXACT_RDP = 1e-8  # the same for Rényi DP, relatively
LOOSE = 2.0  # a peer's ε is called loose if half of it would do
SECONDS = 60.0  # an answer takes no longer

BELOW, NOT_EXACT, CRASH, TIMEOUT, NO_NUMBER, LOOSE_ANSWER = (
    "below the truth",
    "called exact but above the truth",
    "exception",
    "timeout",
    "no number",
    "more than twice the truth",
)
REFUSALS = ("UnsupportedEventError", "NotImplementedError")  # by which peers say that they do not offer something
REFUSED, BEYOND, SOUND = "refused", "beyond the reference", "sound"


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case: a word, and for findings what was answered and what is true."""

    word: str
    answer: str = ""
    truth: str = ""

    @property
    def found(self) -> bool:
        return self.word not in (REFUSED, BEYOND, SOUND)


def library_script(case: Case) -> Script:
    """Return the question with its proof: `answer` is (number, whether it is called exact)."""
    imports = "import cumulant as cm"
    if case.question == cases.RDP:
        release = case.run.releases[0]
        return Script(
            imports,
            f"release = {mechanism(release)}\n"
            f"answer = release.rdp(order={case.value!r}), release.explain(epsilon=1.0).parts[0].exact",
        )
    body = composed(case.run)
    if case.question == cases.INTERVAL:
        return Script(
            imports,
            f"{body}\ninterval = accountant.run.epsilon_interval(delta={case.run.delta!r})\n"
            "answer = (interval.lower, interval.upper), False",
        )
    if case.question == cases.DELTA:
        proof = f"accountant.guarantee(epsilon={case.value!r}, method={case.method!r})"
        return Script(imports, f"{body}\nproof = {proof}\nanswer = proof.log_delta, proof.exact")
    proof = f"accountant.guarantee(delta={case.run.delta!r}, method={case.method!r})"
    return Script(imports, f"{body}\nproof = {proof}\nanswer = proof.epsilon, proof.exact")


def check_library(case: Case) -> Outcome:
    """Compare the library's answer with the reference."""
    from cumulant import errors

    answer = _asked(library_script(case), vars(errors))
    if isinstance(answer, Outcome):
        return answer
    value, exact = answer
    numbers = [float(one) for one in value] if isinstance(value, list) else float(value)
    return _compared(lambda: _library_verdict(case, numbers, bool(exact)), value)


def _library_verdict(case: Case, value: Any, exact: bool) -> Outcome:
    if case.question == cases.INTERVAL:
        return _interval_verdict(case, *value)
    if math.isnan(value) or (value < 0 and case.question != cases.DELTA):
        return Outcome(NO_NUMBER, str(value))
    if case.question == cases.EPSILON:
        return _epsilon_verdict(case.run, value, exact)
    return _rdp_verdict(case, value, exact) if case.question == cases.RDP else _delta_verdict(case, value, exact)


def _delta_verdict(case: Case, log_delta: float, exact: bool) -> Outcome:
    bracket, size = log_delta_bracket(case.run, case.value), 1 + abs(log_delta)
    if log_delta < bracket.lower - ROUNDING * size:
        return Outcome(BELOW, f"log δ = {log_delta!r}", f"log δ >= {bracket.lower!r}")
    if exact and log_delta > bracket.upper + EXACT:
        return Outcome(NOT_EXACT, f"log δ = {log_delta!r}", f"log δ <= {bracket.upper!r}")
    return Outcome(SOUND)


def _epsilon_verdict(run: runs.Run, epsilon: float, exact: bool) -> Outcome:
    if math.isinf(epsilon):
        return Outcome(SOUND)
    log_goal = math.log(run.delta)
    log_lower = log_delta_bracket(run, epsilon).lower
    if log_lower > log_goal + ROUNDING * (1 + abs(log_goal)):
        return Outcome(BELOW, f"ε = {epsilon!r}", f"δ(ε) >= {math.exp(log_lower)!r}")
    less = epsilon * (1 - 1e-9) - 1e-12  # δ may fall to 0 at the highest loss, just where rounding up ends
    if exact and less > 0 and (log_upper := log_delta_bracket(run, less).upper) < log_goal - EXACT:
        return Outcome(NOT_EXACT, f"ε = {epsilon!r}", f"δ({less!r}) <= {math.exp(log_upper)!r}")
    return Outcome(SOUND)


def _interval_verdict(case: Case, lower: float, upper: float) -> Outcome:
    """Both ends are claims: δ at the lower one is at least δ, at the upper one at most."""
    text, log_goal = f"ε in [{lower!r}, {upper!r}]", math.log(case.run.delta)
    if not 0 <= lower <= upper:
        return Outcome(NO_NUMBER, text)
    if lower > 0 and (above := log_delta_bracket(case.run, lower * (1 - 1e-12)).upper) < log_goal:
        return Outcome(NOT_EXACT, text, f"δ({lower!r}) <= {math.exp(above)!r}")
    return _epsilon_verdict(case.run, upper, exact=False)


def _rdp_verdict(case: Case, value: float, exact: bool) -> Outcome:
    release = case.run.releases[0]
    if release.sampling == runs.WITH:
        return Outcome(BEYOND)
    true = renyi_divergence(release, case.value)
    if value < true * (1 - ROUNDING):
        return Outcome(BELOW, repr(value), f">= {true!r}")
    if exact and value > true * (1 + EXACT_RDP):
        return Outcome(NOT_EXACT, repr(value), f"= {true!r}")
    return Outcome(SOUND)


def check_peer(contestant: Contestant, case: Case) -> Outcome:
    """Compare a peer's ε with the reference; its own exceptions are findings of another kind."""
    try:
        script = contestant.script(Epsilon(case.run))
    except NotOffered:
        return Outcome(REFUSED)
    answer = _asked(script, REFUSALS)
    return answer if isinstance(answer, Outcome) else _compared(lambda: _peer_verdict(case.run, float(answer)), answer)


def _peer_verdict(run: runs.Run, epsilon: float) -> Outcome:
    if math.isnan(epsilon) or epsilon < 0:
        return Outcome(NO_NUMBER, str(epsilon))
    outcome = _epsilon_verdict(run, epsilon, exact=False)
    if outcome.found:
        return outcome
    half = epsilon / LOOSE if math.isfinite(epsilon) else 1e3
    if half > 1e-3 and (log_upper := log_delta_bracket(run, half).upper) < math.log(run.delta):
        return Outcome(LOOSE_ANSWER, f"ε = {epsilon!r}", f"δ({half!r}) <= {math.exp(log_upper)!r}")
    return Outcome(SOUND)


def _asked(script: Script, refusals: Collection[str]) -> Any:
    """Return the answer of a fresh process, or the outcome where there is none.

    A process can be ended wherever it hangs, and takes its memory with it.
    """
    reply = in_fresh_process(script, Limits(repetitions=0, timeout=SECONDS))
    if "error" not in reply:
        return reply["answer"]
    error = str(reply["error"])
    if error == "timeout":
        return Outcome(TIMEOUT, f"none in {SECONDS:g} s")
    return Outcome(REFUSED if error.partition(":")[0] in refusals else CRASH, error)


def _compared(verdict: Callable[[], Outcome], answer: Any) -> Outcome:
    try:
        return verdict()
    except OverflowError as error:  # the reference's, whose reach is smaller than the library's
        return Outcome(BEYOND, str(answer), str(error))
