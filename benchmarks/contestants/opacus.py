"""Opacus' accountants, all for Poisson-sampled Gaussian noise: PRV, RDP, and the central limit of Gaussian DP."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import runs
from benchmarks.contestants.base import Contestant, _no_curve, only, steps
from benchmarks.questions import Calibration, Curve
from benchmarks.runs import Release, Run

IMPORTS = (
    "from opacus.accountants import GaussianAccountant, PRVAccountant, RDPAccountant\n"
    "from opacus.accountants.analysis.rdp import compute_rdp\n"
    "from opacus.accountants.utils import get_noise_multiplier"
)


def _checked(release: Release) -> Release:
    only(release.kind == runs.GAUSSIAN, "only the Gaussian mechanism")
    only(release.sampling in (runs.NONE, runs.POISSON), "only Poisson sampling")
    only(release.sampling == runs.NONE or release.relation == runs.ADD_REMOVE, "only add-or-remove-one")
    return release


def _epsilon(accountant: str) -> Callable[[Run], str]:
    def body(run: Run) -> str:
        history = [(release.parameter, release.share, release.count) for release in map(_checked, run.releases)]
        only(accountant != "GaussianAccountant" or len(history) == 1, "only one kind of step")
        return (
            f"accountant = {accountant}()\naccountant.history = {history!r}\n"
            f"answer = accountant.get_epsilon({run.delta!r})"
        )

    return body


def _online(accountant: str) -> Callable[[Run], str]:
    def body(run: Run) -> str:
        release = _checked(run.releases[0])
        return (
            f"accountant = {accountant}()\n"
            f"for noise in {steps(run, lambda one, noise='': noise or repr(one.parameter))}:\n"
            f"    accountant.step(noise_multiplier=noise, sample_rate={release.share!r})\n"
            f"    answer = accountant.get_epsilon({run.delta!r})"
        )

    return body


def _calibration(name: str) -> Callable[[Calibration], str]:
    def body(question: Calibration) -> str:
        release = _checked(question.release)
        return (
            f"answer = get_noise_multiplier(target_epsilon={question.epsilon!r}, target_delta={question.delta!r}, "
            f"sample_rate={release.share!r}, steps={release.count}, accountant={name!r})"
        )

    return body


def _curve(question: Curve) -> str:
    release = _checked(question.release)
    return (
        f"orders = {list(question.orders)!r}\n"
        f"curve = compute_rdp(q={release.share!r}, noise_multiplier={release.parameter!r}, steps=1, orders=orders)\n"
        f"answer = [float(dict(zip(orders, curve))[order]) for order in {list(question.shown)!r}]"
    )


def _contestant(name: str, accountant: str, curve: Callable[[Curve], str] = _no_curve) -> Contestant:
    return Contestant(
        name=f"opacus {name}",
        package="opacus",
        module="opacus",
        imports=IMPORTS,
        epsilon=_epsilon(accountant),
        online=_online(accountant),
        calibration=_calibration(name),
        curve=curve,
    )


PRV = _contestant("prv", "PRVAccountant")
RDP = _contestant("rdp", "RDPAccountant", _curve)
GDP = _contestant("gdp", "GaussianAccountant")
