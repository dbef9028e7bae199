"""Cases of the hunt: one question about one random run, and the check of its answer."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, final

import numpy as np

from benchmarks import runs
from benchmarks.runs import Release, Run

SCHEDULE = 6  # distinct noises of a schedule
EPSILON, DELTA, RDP, INTERVAL = "epsilon", "delta", "rdp", "interval"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """ε at the run's δ (or the interval of it), δ at `value`, or the Rényi DP of the one release at order `value`."""

    question: str
    run: Run
    value: float = 0.0
    method: str = "best"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Case:
        return cls(**{**data, "run": Run.from_dict(data["run"])})


def drawn(seed: int, index: int, questions: tuple[str, ...], *, least_delta: float, wide: bool = False) -> Case:
    """Return case number `index` of a hunt: the same for the same seed, so a hunt can go on where it stopped.

    A wide one has kinds, nested samples and groups that peers do not offer.
    """
    generator = np.random.default_rng([seed, index])
    question = str(generator.choice(questions))
    relation = str(generator.choice([runs.ADD_REMOVE, runs.REPLACE_ONE]))
    number = 1 if question == RDP else int(generator.choice([1, 1, 1, 2, 3]))
    releases = tuple(_release(generator, relation) for _ in range(number))
    if number == 3 and generator.random() < 0.5:
        releases = _schedule(generator, releases[0])
    if question == RDP:
        releases = (replace(releases[0], count=1),)
    elif wide:
        others = np.random.default_rng([seed, index, 1])
        releases = tuple(_widened(others, release) for release in releases)
    run = Run(releases=releases, delta=_log_uniform(generator, least_delta, 0.3))
    value = 1 + _log_uniform(generator, 1e-3, 200.0) if question == RDP else _log_uniform(generator, 1e-3, 60.0)
    method = "best" if question in (RDP, INTERVAL) else str(generator.choice(["best", "best", "exact", "rdp"]))
    return Case(question=question, run=run, value=value, method=method)


def _widened(generator: np.random.Generator, release: Release) -> Release:
    """Return, one time in three, another kind, a sample in a sample, or a group."""
    change = int(generator.integers(9))
    if change == 0 and release.sampling != runs.WITH:
        outputs = (*_masses(generator), *_masses(generator))
        return replace(release, kind=runs.STATED, parameter=1.0, outputs=outputs)
    if change == 1 and release.sampling != runs.WITH:
        failure = float(generator.choice([0.0, _log_uniform(generator, 1e-30, 0.1)]))
        parameter = _log_uniform(generator, 1e-2, 20.0)
        return replace(release, kind=runs.APPROXIMATE, parameter=parameter, failure=failure)
    if release.relation == runs.ADD_REMOVE and release.sampling == runs.POISSON and change == 2:
        return replace(release, inner_rate=_log_uniform(generator, 1e-2, 1.0))
    one_by_one = release.sampling == runs.NONE or (release.sampling == runs.POISSON and release.kind == runs.GAUSSIAN)
    if (
        release.kind in (runs.GAUSSIAN, runs.LAPLACE)
        and release.relation == runs.ADD_REMOVE
        and one_by_one
        and change == 3
    ):
        return replace(release, group=int(generator.integers(2, 7)))
    return release


def _masses(generator: np.random.Generator) -> tuple[float, ...]:
    """Return three probabilities that add up to 1 exactly."""
    first, second = (int(1 + 2**20 * share) for share in generator.dirichlet([1.0] * 3)[:2])
    return first / 2**21, second / 2**21, 1 - (first + second) / 2**21


def _schedule(generator: np.random.Generator, release: Release) -> tuple[Release, ...]:
    """Return one release with noise that changes from step to step, as training does."""
    factors = [_log_uniform(generator, 1.0, 2.0) for _ in range(SCHEDULE)]
    if release.kind == runs.RANDOMIZED_RESPONSE:
        return (release,)
    return tuple(replace(release, parameter=float(f"{release.parameter * factor:.6g}")) for factor in factors)


def _release(generator: np.random.Generator, relation: str) -> Release:
    kind = str(generator.choice([runs.GAUSSIAN, runs.GAUSSIAN, runs.LAPLACE, runs.RANDOMIZED_RESPONSE]))
    sampling = _sampling(generator, kind, relation)
    population = int(_log_uniform(generator, 4, 1e6)) if sampling in (runs.WITHOUT, runs.WITH) else 0
    return Release(
        kind=kind,
        parameter=_parameter(generator, kind),
        sampling=sampling,
        rate=_log_uniform(generator, 1e-5, 1.0) if sampling == runs.POISSON else 1.0,
        batch=min(population, max(1, int(population * _log_uniform(generator, 1e-4, 1.0)))),
        population=population,
        relation=relation,
        count=int(_log_uniform(generator, 1, 1e5)),
    )


def _sampling(generator: np.random.Generator, kind: str, relation: str) -> str:
    choices = [runs.NONE, runs.POISSON, runs.POISSON]
    if relation == runs.REPLACE_ONE:
        choices += [runs.WITHOUT, runs.WITHOUT] + [runs.WITH] * (kind == runs.GAUSSIAN)
    return str(generator.choice(choices))


def _parameter(generator: np.random.Generator, kind: str) -> float:
    if kind == runs.RANDOMIZED_RESPONSE:
        return 1 / (1 + math.exp(-_log_uniform(generator, 1e-2, 8.0)))
    return _log_uniform(generator, 0.3, 100.0)


def _log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return float(f"{math.exp(generator.uniform(math.log(low), math.log(high))):.6g}")


# Simpler cases --------------------------------------------------------------------------------------------------------


def simpler(case: Case) -> list[Case]:
    """Return cases with less in them: fewer releases, fewer times, rounder numbers."""
    found = [replace(case, run=run) for run in _simpler_runs(case.run)]
    found += [replace(case, value=value) for value in _rounder(case.value) if value > 1 or case.question != RDP]
    return [other for other in found if other != case]


def _simpler_runs(run: Run) -> list[Run]:
    some = []
    if len(run.releases) > 1:
        some += [replace(run, releases=run.releases[:i] + run.releases[i + 1 :]) for i in range(len(run.releases))]
    for i, release in enumerate(run.releases):
        some += [
            replace(run, releases=(*run.releases[:i], other, *run.releases[i + 1 :]))
            for other in _simpler_releases(release)
        ]
    return some + [replace(run, delta=delta) for delta in (10.0 ** round(math.log10(run.delta)), *_rounder(run.delta))]


def _simpler_releases(release: Release) -> list[Release]:
    counts = {1, release.count // 10, release.count // 2, *(int(count) for count in _rounder(release.count))}
    some = [replace(release, count=count) for count in sorted(counts) if 0 < count < release.count]
    some += [
        replace(release, parameter=value)
        for value in (1.0, *_rounder(release.parameter))
        if value != 1.0 or _noisy(release)
    ]
    some += [replace(release, group=1), replace(release, inner_rate=1.0)]
    if release.sampling == runs.POISSON:
        some += [replace(release, rate=rate) for rate in _rounder(release.rate) if rate <= 1]
    if release.population > 100:
        some += [replace(release, batch=max(1, round(100 * release.share)), population=100)]
    return some


def _noisy(release: Release) -> bool:
    return release.kind != runs.RANDOMIZED_RESPONSE


def _rounder(value: float) -> list[float]:
    return [rounded for digits in (1, 2, 3) if (rounded := float(f"{value:.{digits}g}")) != value]
