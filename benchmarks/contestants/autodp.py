"""autodp: Rényi DP of composed mechanisms, and its analytical Fourier accountant."""

from __future__ import annotations

from benchmarks import runs
from benchmarks.contestants.base import Contestant, only
from benchmarks.questions import Calibration, Curve
from benchmarks.runs import Release, Run

IMPORTS = "from autodp import calibrator_zoo, mechanism_zoo, transformer_zoo"
KINDS = {
    runs.GAUSSIAN: "mechanism_zoo.GaussianMechanism(sigma={!r})",
    runs.LAPLACE: "mechanism_zoo.LaplaceMechanism(b={!r})",
    runs.RANDOMIZED_RESPONSE: "mechanism_zoo.RandresponseMechanism(p={!r})",
}
WITHOUT_REPLACEMENT = (
    "def without_replacement(mechanism, rate):\n"
    "    mechanism.neighboring = 'replace_one'\n"
    "    sampling = transformer_zoo.AmplificationBySampling(PoissonSampling=False)\n"
    "    return sampling(mechanism, rate, improved_bound_flag=True)\n"
)


def mechanism(release: Release) -> str:
    base = KINDS[release.kind].format(release.parameter)
    if release.sampling == runs.NONE:
        return base
    if release.sampling == runs.POISSON:
        only(release.relation == runs.ADD_REMOVE, "Poisson sampling for add-or-remove-one only")
        # the improved bound needs odd moments that are not negative, which all three mechanisms have
        return f"transformer_zoo.AmplificationBySampling()({base}, {release.rate!r}, improved_bound_flag=True)"
    only(release.sampling == runs.WITHOUT, "no sampling with replacement")
    only(release.relation == runs.REPLACE_ONE, "sampling without replacement for replace-one only")
    return f"without_replacement({base}, {release.share!r})"


def _epsilon(run: Run) -> str:
    parts = ",\n    ".join(mechanism(release) for release in run.releases)
    counts = [release.count for release in run.releases]
    return (
        f"{WITHOUT_REPLACEMENT}mechanisms = [\n    {parts}]\n"
        f"composed = transformer_zoo.Composition()(mechanisms, {counts})\n"
        f"answer = composed.get_approxDP({run.delta!r})"
    )


def _online(run: Run) -> str:
    only(len(run.releases) == 1, "no accountant that is told one step at a time")
    return (
        f"{WITHOUT_REPLACEMENT}step = {mechanism(run.releases[0])}\n"
        f"for count in range(1, {run.count} + 1):\n"
        f"    answer = transformer_zoo.Composition()([step], [count]).get_approxDP({run.delta!r})"
    )


def _calibration(question: Calibration) -> str:
    release = question.release
    only(release.kind == runs.GAUSSIAN and release.sampling == runs.POISSON, "only for sampled Gaussian noise")
    return (
        f"parameters = {{'prob': {release.rate!r}, 'sigma': 1.0, 'coeff': {release.count}}}\n"
        "calibrate = calibrator_zoo.generalized_eps_delta_calibrator()\n"
        f"found = calibrate(mechanism_zoo.SubsampleGaussianMechanism, {question.epsilon!r}, {question.delta!r}, "
        "[0.3, 30], params=parameters, para_name='sigma')\n"
        "answer = found.params['sigma']"
    )


def _curve(question: Curve) -> str:
    return (
        f"{WITHOUT_REPLACEMENT}release = {mechanism(question.release)}\n"
        f"curve = {{order: release.RenyiDP(order) for order in {list(question.orders)!r}}}\n"
        f"answer = [float(curve[order]) for order in {list(question.shown)!r}]"
    )


def _fourier_epsilon(run: Run) -> str:
    """The larger of both directions, as its documentation says."""
    only(len(run.releases) == 1, "one kind of sampled step")
    release = run.releases[0]
    only(release.kind == runs.GAUSSIAN and release.sampling == runs.POISSON, "only Poisson-sampled Gaussian noise")
    only(release.relation == runs.ADD_REMOVE, "only add-or-remove-one")
    base = f"mechanism_zoo.GaussianMechanism({release.parameter!r}, phi_off=False, RDP_off=True, approxDP_off=True)"
    return (
        "def composed(order):\n"
        "    sampling = transformer_zoo.AmplificationBySampling_pld(PoissonSampling=True, neighboring=order)\n"
        f"    return transformer_zoo.ComposeAFA()([sampling({base}, {release.rate!r})], [{release.count}])\n"
        f"answer = max(composed(order).get_approxDP({run.delta!r}) for order in ('add_only', 'remove_only'))"
    )


RDP = Contestant(
    name="autodp rdp",
    package="autodp",
    module="autodp",
    imports=IMPORTS,
    epsilon=_epsilon,
    online=_online,
    calibration=_calibration,
    curve=_curve,
)
FOURIER = Contestant(
    name="autodp fourier", package="autodp", module="autodp", imports=IMPORTS, epsilon=_fourier_epsilon
)
