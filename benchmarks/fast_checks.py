"""Is an answer of the fast hunt below the truth, is an interval beside it, is what is called exact not so?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb, ctx

from benchmarks import fast_cases as fc
from benchmarks.checks import BELOW, NO_NUMBER, NOT_EXACT, SOUND, Outcome
from benchmarks.fast_cases import Case
from benchmarks.fast_truth import PRECISIONS, Run, Truth
from benchmarks.fast_truth_laws import Ball

EXACT = 1.01e-6  # of ε: how far from the truth an answer may be that is called exact
CLOSE = 1.01e-9  # absolute, of ε, for the same
ROUNDING = 1e-11  # relative, of Rényi DP: what doubles may differ by
UNCERTIFIED = 1e-8  # of ε: how far an end of an interval may be from the truth that does not call itself certified
LEAST_NORMAL = 2.3e-308  # a smaller δ has fewer digits, and is rounded up to those it has
TINIEST = 5e-324  # a δ that is rounded up to it is as small as doubles are
LAST_DIGITS = 1e-12
BARELY = "below the truth in the last digits"
BESIDE = "lower end above the truth"

Claim = Callable[[Run], bool | None]


def verdict(case: Case, value: Any, flag: bool) -> Outcome:
    """Compare an answer with the truth; `flag` is what it says of itself: exact, or certified."""
    run = Run(case.parts)
    if case.question in (fc.EPSILON_INTERVAL, fc.DELTA_INTERVAL):
        return _interval_verdict(case, run, *(float(end) for end in value), certified=flag)
    answer = float(value)
    if math.isnan(answer) or answer < 0 or (case.question == fc.DELTA and answer > 1):
        return Outcome(NO_NUMBER, repr(answer))
    if case.question == fc.RDP:
        return _rdp_verdict(case, run, answer)
    epsilon, delta = (answer, case.value) if case.question == fc.EPSILON else (case.value, answer)
    below = _above(run, epsilon, delta)
    if below is not None:
        return Outcome(below[0], f"{case.question} = {answer!r}", below[1])
    digits = answer > (LEAST_NORMAL if case.question == fc.DELTA else TINIEST)
    less = _less_would_do(run, epsilon, delta, EXACT) if flag and digits else None
    if less is not None and case.question == fc.DELTA:  # in a flat profile the last digits of δ are many digits of ε
        less = _below_lower_end(run, epsilon, delta, EXACT)
    return Outcome(SOUND) if less is None else Outcome(NOT_EXACT, f"{case.question} = {answer!r}", less)


def _rdp_verdict(case: Case, run: Run, answer: float) -> Outcome:
    true = run.renyi(case.value)
    if math.isfinite(answer) and arb(answer) * (1 + ROUNDING) < true:
        return Outcome(BELOW, f"rdp = {answer!r}", f">= {_shown(true)}")
    return Outcome(SOUND)


def _interval_verdict(case: Case, run: Run, lower: float, upper: float, *, certified: bool) -> Outcome:
    text = f"{case.question} = [{lower!r}, {upper!r}]"
    if not 0 <= lower <= upper:
        return Outcome(NO_NUMBER, text)
    at_delta = case.question == fc.EPSILON_INTERVAL
    epsilon, delta = (upper, case.value) if at_delta else (case.value, upper)
    below = _above(run, epsilon, delta)
    if below is not None:
        return Outcome(below[0], text, below[1])
    slack = 0.0 if certified else UNCERTIFIED
    if at_delta:
        beside = _less_would_do(run, lower, case.value, slack) if lower > 0 else None
    else:
        beside = _below_lower_end(run, case.value, lower, slack)
    return Outcome(BESIDE, text, beside) if beside is not None else Outcome(SOUND)


def _above(run: Run, epsilon: float, delta: float) -> tuple[str, str] | None:
    """Return what it is called and what is true if δ(ε) is above δ beyond doubt."""
    if math.isinf(epsilon) or delta >= 1:
        return None
    if delta == 0:
        most = _decided(lambda: run.largest_loss()[0], lambda x: x > epsilon, lambda x: x <= epsilon)
        if most is None:
            return None
        return BARELY if most < epsilon * (1 + LAST_DIGITS) else BELOW, f"the largest loss is {_shown(most)}"
    truth = _decided_delta(run, epsilon, lambda t: t.lower > delta, lambda t: t.lower <= delta)
    if truth is None:
        return None
    word = BARELY if truth.lower < delta * (1 + LAST_DIGITS) + TINIEST else BELOW
    return word, f"δ({epsilon!r}) >= {_shown(truth.lower)} ({truth.source})"


def _less_would_do(run: Run, epsilon: float, delta: float, slack: float) -> str | None:
    """Return what is true if δ is reached below ε, by more than the slack."""
    if not run.tight:
        return None
    less = math.nextafter(epsilon * (1 - slack), 0.0) - (CLOSE if slack else 0.0)
    if math.isinf(epsilon):
        less = 1e9
    if delta == 0 and less > 0:
        return _no_such_loss(run, less)
    if less <= 0 or delta == 0:
        return None
    truth = _decided_delta(run, less, lambda t: _under(t.upper, delta), lambda t: _over(t.upper, delta))
    return None if truth is None else f"δ({less!r}) <= {_shown(truth.upper)} ({truth.source})"


def _under(upper: Ball | None, delta: float) -> bool:
    return upper is not None and bool(upper < delta)


def _over(upper: Ball | None, delta: float) -> bool:
    return upper is None or bool(upper >= delta)


def _no_such_loss(run: Run, epsilon: float) -> str | None:
    most = _decided(lambda: run.largest_loss()[1], lambda x: x < epsilon, lambda x: x >= epsilon)
    return None if most is None else f"the largest loss is {_shown(most)}"


def _below_lower_end(run: Run, epsilon: float, lower: float, slack: float) -> str | None:
    if not run.tight:
        return None
    end = lower * (1 - slack)
    truth = _decided_delta(run, epsilon, lambda t: _under(t.upper, end), lambda t: _over(t.upper, end))
    return None if truth is None else f"δ({epsilon!r}) <= {_shown(truth.upper)} ({truth.source})"


def _decided_delta(run: Run, epsilon: float, yes: Callable[[Truth], bool], no: Callable[[Truth], bool]) -> Truth | None:
    """Return the truth if the claim is certain at some precision, None if its contrary is, or nothing."""
    old = ctx.prec
    try:
        for precision in PRECISIONS:
            ctx.prec = precision
            truth = run.delta(epsilon)
            if yes(truth):
                return truth
            if no(truth) or not truth.refined:
                return None
    finally:
        ctx.prec = old
    return None


def _decided(value: Callable[[], Ball], yes: Callable[[Ball], bool], no: Callable[[Ball], bool]) -> Ball | None:
    """Return the value if the claim about it is certain at some precision."""
    old = ctx.prec
    try:
        for precision in PRECISIONS:
            ctx.prec = precision
            found = value()
            if yes(found):
                return found
            if no(found):
                return None
    finally:
        ctx.prec = old
    return None


def _shown(value: Ball | None) -> str:
    old = ctx.prec
    ctx.prec = PRECISIONS[0]
    try:
        return "?" if value is None else str(value.str(25, radius=False))
    finally:
        ctx.prec = old
