"""The work that everybody is measured on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from benchmarks import runs
from benchmarks.questions import Calibration, Counts, Curve, Epsilon, Import, Online, Question, TradeOff
from benchmarks.runs import Release, Run, dp_sgd

README = dp_sgd(noise=1.0, rate=0.01, steps=1000, delta=1e-5)
FEWER_STEPS = 20  # of online use for peers, from which the rest is extrapolated
SHOWN_COUNTS = (1000, 10_000, 100_000)
SHOWN_ORDERS = (1.5, 8.5, 64.0)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A question, in words and as data. Peers may be asked for less of it, their times are then `extrapolated`."""

    name: str
    words: str
    question: Question
    for_peers: Question | None = None
    extrapolated: float = 1.0


def epsilon(name: str, words: str, run: Run) -> Workload:
    return Workload(name=name, words=words, question=Epsilon(run))


def sampled(kind: str, parameter: float, sampling: str) -> Run:
    """Return 1000 releases, each on a hundredth of the records."""
    if sampling == runs.POISSON:
        release = Release(kind=kind, parameter=parameter, sampling=sampling, rate=0.01, count=1000)
    else:
        release = Release(
            kind=kind,
            parameter=parameter,
            sampling=sampling,
            relation=runs.REPLACE_ONE,
            count=1000,
            batch=256,
            population=25600,
        )
    return Run(releases=(release,), delta=1e-5)


def distinct(number: int) -> Run:
    """Return DP-SGD whose noise changes with every step."""
    step = README.releases[0]
    noises = np.linspace(1.0, 2.0, number)
    return Run(releases=tuple(replace(step, parameter=float(noise), count=1) for noise in noises), delta=1e-5)


def counts(number: int) -> Run:
    """Return Laplace noise of as many scales, on a count each: what whoever releases statistics asks about."""
    scales = np.linspace(20.0, 50.0, number)
    return Run(releases=tuple(Release(kind=runs.LAPLACE, parameter=float(scale)) for scale in scales), delta=1e-5)


def few(steps: int) -> Run:
    """Return the first steps of the README's training."""
    return dp_sgd(noise=1.0, rate=0.01, steps=steps, delta=1e-5)


def orders() -> tuple[float, ...]:
    spread = np.geomspace(1.05, 256.0, 1000 - len(SHOWN_ORDERS)).round(6)
    return tuple(sorted({*(float(order) for order in spread), *SHOWN_ORDERS}))


WORKLOADS: tuple[Workload, ...] = (
    epsilon("readme", "σ = 1, rate 0.01, 1000 steps, δ = 1e-5", README),
    epsilon(
        "dp-sgd",
        "DP-SGD: 60,000 records, batches of 256, 60 epochs, σ = 1",
        dp_sgd(noise=1.0, rate=256 / 60000, steps=14062, delta=1e-5),
    ),
    epsilon("million", "10⁶ steps at rate 1e-4, σ = 1", dp_sgd(noise=1.0, rate=1e-4, steps=10**6, delta=1e-5)),
    epsilon("delta-1e-10", "the first at δ = 1e-10", replace(README, delta=1e-10)),
    epsilon("delta-1e-15", "the first at δ = 1e-15", replace(README, delta=1e-15)),
    epsilon("delta-1e-30", "the first at δ = 1e-30", replace(README, delta=1e-30)),
    epsilon("gaussian-fixed", "Gaussian, σ = 1, 256 of 25,600, 1000 steps", sampled(runs.GAUSSIAN, 1.0, runs.WITHOUT)),
    epsilon("laplace-poisson", "Laplace, b = 1, rate 0.01, 1000 steps", sampled(runs.LAPLACE, 1.0, runs.POISSON)),
    epsilon("laplace-fixed", "Laplace, b = 1, 256 of 25,600, 1000 steps", sampled(runs.LAPLACE, 1.0, runs.WITHOUT)),
    epsilon(
        "response-poisson",
        "randomized response, p = 0.75, rate 0.01, 1000 steps",
        sampled(runs.RANDOMIZED_RESPONSE, 0.75, runs.POISSON),
    ),
    epsilon(
        "response-fixed",
        "randomized response, p = 0.75, 256 of 25,600, 1000 steps",
        sampled(runs.RANDOMIZED_RESPONSE, 0.75, runs.WITHOUT),
    ),
    epsilon(
        "response",
        "randomized response, p = 0.75, 100 times",
        Run(releases=(Release(kind=runs.RANDOMIZED_RESPONSE, parameter=0.75, count=100),), delta=1e-5),
    ),
    epsilon("distinct-100", "100 distinct sampled Gaussians", distinct(100)),
    epsilon("distinct-1000", "1000 distinct sampled Gaussians", distinct(1000)),
    *(
        epsilon(f"counts-{number}", f"{number} distinct Laplace counts, scales from 20 to 50", counts(number))
        for number in (2, 10, 30, 100)
    ),
    *(epsilon(f"steps-{steps}", f"the first with {steps} steps", few(steps)) for steps in (1, 2, 3, 5, 10, 30)),
    epsilon(
        "laplace",
        "Laplace, b = 2, 10 times",
        Run(releases=(Release(kind=runs.LAPLACE, parameter=2.0, count=10),), delta=1e-5),
    ),
    epsilon(
        "gaussian-drawn",
        "Gaussian, σ = 10, 100 drawn with replacement of 10,000, 1000 rounds",
        Run(
            releases=(
                Release(
                    kind=runs.GAUSSIAN,
                    parameter=10.0,
                    sampling=runs.WITH,
                    relation=runs.REPLACE_ONE,
                    count=1000,
                    batch=100,
                    population=10_000,
                ),
            ),
            delta=1e-5,
        ),
    ),
    Workload(
        name="online",
        words="ε after every one of 10,000 steps",
        question=Online(README.times(10_000)),
        for_peers=Online(README.times(FEWER_STEPS)),
        extrapolated=10_000 / FEWER_STEPS,
    ),
    Workload(
        name="schedule",
        words="ε after every one of 10,000 steps, each with a noise of its own",
        question=Online(distinct(10_000)),
        for_peers=Online(distinct(FEWER_STEPS)),
        extrapolated=10_000 / FEWER_STEPS,
    ),
    Workload(
        name="counts",
        words="ε at 10,000 counts, every hundredth up to a million",
        question=Counts(README.releases[0], 1e-5, tuple(range(100, 1_000_001, 100)), SHOWN_COUNTS),
        for_peers=Counts(README.releases[0], 1e-5, SHOWN_COUNTS, SHOWN_COUNTS),
        extrapolated=10_000 / len(SHOWN_COUNTS),
    ),
    Workload(
        name="trade-off",
        words="trade-off curve of 200 points, σ = 1, rate 0.01, 1000 steps",
        question=TradeOff(README, 200),
    ),
    Workload(
        name="calibration",
        words="noise for ε = 2 at δ = 1e-5, rate 0.01, 1000 steps",
        question=Calibration(README.releases[0], 2.0, 1e-5),
    ),
    Workload(
        name="curve",
        words="Rényi DP at 1000 orders, σ = 1, rate 0.01",
        question=Curve(README.releases[0], orders(), SHOWN_ORDERS),
    ),
    Workload(name="import", words="import", question=Import()),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
