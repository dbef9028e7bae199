"""Microsoft's prv-accountant; its upper bound is the answer."""

from __future__ import annotations

import math

from benchmarks import runs
from benchmarks.contestants.base import Contestant, only
from benchmarks.runs import Release, Run

IMPORTS = (
    "from prv_accountant import PRVAccountant\n"
    "from prv_accountant.privacy_random_variables import (\n"
    "    GaussianMechanism, LaplaceMechanism, PoissonSubsampledGaussianMechanism, PureDPMechanism)"
)


def variable(release: Release) -> str:
    if release.sampling == runs.POISSON:
        only(release.kind == runs.GAUSSIAN, "samples only the Gaussian mechanism")
        only(release.relation == runs.ADD_REMOVE, "only add-or-remove-one")
        return f"PoissonSubsampledGaussianMechanism({release.rate!r}, {release.parameter!r})"
    only(release.sampling == runs.NONE, "only Poisson sampling")
    if release.kind == runs.GAUSSIAN:
        return f"GaussianMechanism({release.parameter!r})"
    if release.kind == runs.LAPLACE:
        return f"LaplaceMechanism({1 / release.parameter!r})"
    return f"PureDPMechanism({abs(math.log(release.parameter / (1 - release.parameter)))!r})"


def _epsilon(run: Run) -> str:
    counts = [release.count for release in run.releases]
    variables = ",\n    ".join(variable(release) for release in run.releases)
    return (
        f"variables = [\n    {variables}]\n"
        f"accountant = PRVAccountant(variables, eps_error=0.01, delta_error={run.delta / 1000!r}, "
        f"max_self_compositions={counts})\n"
        f"answer = accountant.compute_epsilon({run.delta!r}, {counts})[2]"
    )


def _online(run: Run) -> str:
    only(len(run.releases) == 1, "no accountant that is told one step at a time")
    return (
        f"accountant = PRVAccountant([{variable(run.releases[0])}], eps_error=0.01, "
        f"delta_error={run.delta / 1000!r}, max_self_compositions=[{run.count}])\n"
        f"for step in range(1, {run.count} + 1):\n"
        f"    answer = accountant.compute_epsilon({run.delta!r}, [step])[2]"
    )


PRV = Contestant(
    name="prv-accountant",
    package="prv-accountant",
    module="prv_accountant",
    imports=IMPORTS,
    epsilon=_epsilon,
    online=_online,
)
