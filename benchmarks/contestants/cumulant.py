"""The library itself, by its best method and by the moments accountant alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks import runs
from benchmarks.contestants.base import Contestant
from benchmarks.questions import Calibration, Curve
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
        f"accountant = cm.Accountant()\nstep = {mechanism(run.releases[0])}\n"
        f"for _ in range({run.count}):\n"
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


def _contestant(name: str, method: str) -> Contestant:
    return Contestant(
        name=name,
        package="cumulant",
        module="cumulant",
        imports="import cumulant as cm",
        epsilon=_epsilon(method),
        online=_online(method),
        calibration=_calibration(method),
        curve=_curve,
    )


BEST = _contestant("cumulant", "best")
RDP = _contestant("cumulant rdp", "rdp")
