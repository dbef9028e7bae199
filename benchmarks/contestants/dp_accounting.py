"""Google's dp-accounting: privacy loss distributions, and RDP on a grid of orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks import runs
from benchmarks.contestants.base import Contestant, only, steps
from benchmarks.questions import Calibration, Counts, Curve
from benchmarks.runs import Release, Run

IMPORTS = "import dp_accounting as dp\nfrom dp_accounting import pld, rdp"


def event(release: Release, parameter: str | None = None) -> str:
    base = _base(release, repr(release.parameter) if parameter is None else parameter)
    if release.sampling == runs.POISSON:
        return f"dp.PoissonSampledDpEvent({release.rate!r}, {base})"
    if release.sampling == runs.WITHOUT:
        return f"dp.SampledWithoutReplacementDpEvent({release.population}, {release.batch}, {base})"
    only(release.sampling == runs.NONE, "no accounting for sampling with replacement")
    return base


def _base(release: Release, parameter: str) -> str:
    if release.kind == runs.RANDOMIZED_RESPONSE:
        return f"dp.RandomizedResponseDpEvent(2 * (1 - {parameter}), 2)"  # a random answer is true half of the time
    return f"dp.{'Gaussian' if release.kind == runs.GAUSSIAN else 'Laplace'}DpEvent({parameter})"


def relation(releases: tuple[Release, ...]) -> str:
    """Return the relation of the sampled releases; randomized response is offered for replace-one only."""
    replaced = [release.relation == runs.REPLACE_ONE for release in releases if release.sampling != runs.NONE]
    flipped = any(release.kind == runs.RANDOMIZED_RESPONSE for release in releases)
    one = any(replaced) or flipped
    # an unsampled Gaussian under replace-one has twice the noise's unit in one accountant and not in the other
    only(not (one and len(replaced) < len(releases) and not flipped), "the unit of noise is another one")
    return f"dp.NeighboringRelation.{'REPLACE_ONE' if one else 'ADD_OR_REMOVE_ONE'}"


def _epsilon(accountant: str) -> Callable[[Run], str]:
    def body(run: Run) -> str:
        lines = [f"accountant.compose({event(release)}, {release.count})" for release in run.releases]
        return "\n".join(
            [
                f"accountant = {accountant}(neighboring_relation={relation(run.releases)})",
                *lines,
                f"answer = accountant.get_epsilon({run.delta!r})",
            ]
        )

    return body


def _online(accountant: str) -> Callable[[Run], str]:
    return lambda run: (
        f"accountant = {accountant}(neighboring_relation={relation(run.releases)})\n"
        f"steps = {steps(run, event)}\n"
        "for step in steps:\n"
        "    accountant.compose(step)\n"
        f"    answer = accountant.get_epsilon({run.delta!r})"
    )


def _calibration(accountant: str) -> Callable[[Calibration], str]:
    def body(question: Calibration) -> str:
        release = question.release
        return (
            "answer = dp.calibrate_dp_mechanism(\n"
            f"    lambda: {accountant}(neighboring_relation={relation((release,))}),\n"
            f"    lambda noise: dp.SelfComposedDpEvent({event(release, 'noise')}, {release.count}),\n"
            f"    {question.epsilon!r}, {question.delta!r})"
        )

    return body


def _curve(question: Curve) -> str:
    return (
        f"orders = {list(question.orders)!r}\n"
        f"accountant = rdp.RdpAccountant(orders, {relation((question.release,))})\n"
        f"accountant.compose({event(question.release)})\n"
        "curve = dict(zip(orders, accountant._rdp))\n"
        f"answer = [float(curve[order]) for order in {list(question.shown)!r}]"
    )


def _counts(accountant: str) -> Callable[[Counts], str]:
    return lambda question: (
        "curve = {}\n"
        f"for count in {list(question.counts)!r}:\n"
        f"    accountant = {accountant}(neighboring_relation={relation((question.release,))})\n"
        f"    accountant.compose({event(question.release)}, count)\n"
        f"    curve[count] = accountant.get_epsilon({question.delta!r})\n"
        f"answer = [curve[count] for count in {list(question.shown)!r}]"
    )


def _contestant(name: str, accountant: str) -> Contestant:
    return Contestant(
        name=name,
        package="dp-accounting",
        module="dp_accounting",
        imports=IMPORTS,
        epsilon=_epsilon(accountant),
        online=_online(accountant),
        calibration=_calibration(accountant),
        counts=_counts(accountant),
    )


PLD = _contestant("dp-accounting pld", "pld.PLDAccountant")
RDP = replace(_contestant("dp-accounting rdp", "rdp.RdpAccountant"), curve=_curve)
