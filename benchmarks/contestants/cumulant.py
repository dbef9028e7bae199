"""The library itself, by its best method and by the moments accountant alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks import runs
from benchmarks.contestants.base import Contestant, steps
from benchmarks.questions import Calibration, Counts, Curve, TradeOff
from benchmarks.runs import Release, Run

KINDS = {
    runs.GAUSSIAN: "cm.Gaussian(noise_multiplier={})",
    runs.LAPLACE: "cm.Laplace(scale={})",
    runs.RANDOMIZED_RESPONSE: "cm.RandomizedResponse(p={})",
}
RELATIONS = {runs.ADD_REMOVE: "cm.ADD_REMOVE", runs.REPLACE_ONE: "cm.REPLACE_ONE"}


def mechanism(release: Release, parameter: str | None = None) -> str:
    """Return the expression that builds one release."""
    base = _base(release, repr(release.parameter) if parameter is None else parameter)
    if release.group > 1:
        return f"{mechanism(replace(release, group=1), parameter)}.group(size={release.group})"
    if release.inner_rate < 1:
        base = f"{base}.poisson(rate={release.inner_rate!r})"
    neighbors = f"neighbors={RELATIONS[release.relation]}"
    if release.sampling == runs.POISSON:
        return f"{base}.poisson(rate={release.rate!r}, {neighbors})"
    if release.sampling == runs.WITHOUT:
        return f"{base}.without_replacement(batch={release.batch}, population={release.population}, {neighbors})"
    if release.sampling == runs.WITH:
        return f"{base}.with_replacement(draws={release.batch}, population={release.population}, {neighbors})"
    return base


def _base(release: Release, parameter: str) -> str:
    if release.kind == runs.APPROXIMATE:
        return f"cm.ApproximateDP(epsilon={parameter}, delta={release.failure!r})"
    if release.kind == runs.STATED:
        half = len(release.outputs) // 2
        p, q = release.outputs[:half], release.outputs[half:]
        return f"cm.StatedPair(probabilities={p!r}, neighbor_probabilities={q!r})"
    return KINDS[release.kind].format(parameter)


def composed(run: Run) -> str:
    """Return the lines that compose a run in an accountant."""
    lines = [f"accountant.compose({mechanism(release)}, count={release.count})" for release in run.releases]
    return "\n".join(["accountant = cm.Accountant()", *lines])


def _epsilon(method: str) -> Callable[[Run], str]:
    return lambda run: f"{composed(run)}\nanswer = accountant.epsilon(delta={run.delta!r}, method={method!r})"


def _online(method: str) -> Callable[[Run], str]:
    return lambda run: (
        f"accountant = cm.Accountant()\nsteps = {steps(run, mechanism)}\n"
        "for step in steps:\n"
        "    accountant.compose(step)\n"
        f"    answer = accountant.epsilon(delta={run.delta!r}, method={method!r})"
    )


def _calibration(method: str) -> Callable[[Calibration], str]:
    def body(question: Calibration) -> str:
        release = question.release
        return (
            f"answer = cm.calibrate(lambda noise: {mechanism(release, 'noise')} * {release.count}, "
            f"epsilon={question.epsilon!r}, delta={question.delta!r}, method={method!r})"
        )

    return body


def _curve(question: Curve) -> str:
    return (
        f"orders = {list(question.orders)!r}\n"
        f"curve = dict(zip(orders, {mechanism(question.release)}.rdp(order=orders)))\n"
        f"answer = [float(curve[order]) for order in {list(question.shown)!r}]"
    )


def _counts(method: str) -> Callable[[Counts], str]:
    return lambda question: (
        f"counts = {_range(question.counts)}\nstep = {mechanism(question.release)}\n"
        f"curve = step.epsilon_curve(counts=counts, delta={question.delta!r}, method={method!r})\n"
        f"answer = [float(curve[counts.index(count)]) for count in {list(question.shown)!r}]"
    )


def _range(counts: tuple[int, ...]) -> str:
    """Return counts as the text of a list, in short where they are evenly spaced."""
    step = counts[1] - counts[0] if len(counts) > 1 else 1
    even = range(counts[0], counts[-1] + 1, step)
    return f"list({even!r})" if tuple(even) == counts else repr(list(counts))


def _tradeoff(method: str) -> Callable[[TradeOff], str]:
    return lambda question: (
        f"import numpy as np\n{composed(question.run)}\nrates = np.linspace(0.0, 1.0, {question.points})\n"
        f"curve = accountant.tradeoff(false_positive_rate=rates, method={method!r})\n"
        "answer = float(np.mean(curve))"
    )


def _contestant(name: str, method: str) -> Contestant:
    return Contestant(
        name=name,
        package="cumulant",
        module="cumulant",
        imports="import cumulant as cm\nimport cumulant.names",  # all of it: importing is timed apart from answers
        epsilon=_epsilon(method),
        online=_online(method),
        calibration=_calibration(method),
        curve=_curve,
        counts=_counts(method),
        tradeoff=_tradeoff(method),
    )


BEST = _contestant("cumulant", "best")
RDP = _contestant("cumulant rdp", "rdp")
