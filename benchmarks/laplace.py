"""Laplace noise on samples, and a thousand distinct releases, beside a peer: `python -m benchmarks laplace`.

How many answers are proven to lie within 1e-6 of ε, how long they take, and who is the tighter. Each setting is new, in
one warm process on one thread. Times are CPU times; the peer discretises losses at 1e-4, its default.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar, final

import cumulant as cm

Answer = TypeVar("Answer")

LOG_ENDS = (-0.3, 1.2), (-3.0, -0.1), (0.31, 4.0), (-9.0, -4.0)  # of scale, rate, steps and δ, uniform, base 10
WITHIN = 1e-6 * (1 + 1e-5)  # of ε, an answer relative to what some neighbours need
FEW_STEPS = 30
DISTINCT, SCALES, DELTA = 1000, (20.0, 50.0), 1e-5
INTERVAL = 1e-4  # of losses, at which the peer discretises


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """Noise on samples, and its δ."""

    scale: float
    rate: float
    steps: int
    delta: float

    @staticmethod
    def drawn(rng: random.Random) -> Setting:
        scale, rate, steps, delta = (10 ** rng.uniform(*ends) for ends in LOG_ENDS)
        return Setting(scale, rate, int(steps), delta)

    def guarantee(self) -> cm.Guarantee:
        return (cm.Laplace(scale=self.scale).poisson(rate=self.rate) * self.steps).guarantee(delta=self.delta)


@final
@dataclass(frozen=True, slots=True)
class Distinct:
    """Laplace noise of many scales, each once."""

    scales: tuple[float, ...]
    delta: float

    def guarantee(self) -> cm.Guarantee:
        return cm.Composed.of((cm.Laplace(scale=scale), 1) for scale in self.scales).guarantee(delta=self.delta)


def measure(cases: int, seed: int) -> Iterator[str]:
    """Yield lines of a report."""
    rng = random.Random(seed)
    settings = [Setting.drawn(rng) for _ in range(cases)]
    low, high = SCALES
    distinct = [Distinct(tuple(low + (high - low) * i / DISTINCT for i in range(DISTINCT)), DELTA)]
    Setting(3.0, 0.1, 100, 1e-5).guarantee()  # imports are no answer
    Setting(3.0, 0.1, 3, 1e-5).guarantee()
    answers, ours = _timed(settings, lambda setting: setting.guarantee())
    within = [answer.at_most_above is not None and answer.at_most_above <= WITHIN for answer in answers]
    yield f"{cases} settings, seed {seed}: {sum(within)} within 1e-6; {_times(ours)}"
    yield from (f"  farther: {setting}" for setting, is_near in zip(settings, within, strict=True) if not is_near)
    (many,), (spent,) = _timed(distinct, lambda one: one.guarantee())
    yield f"{DISTINCT} distinct releases: at most {many.at_most_above:.2g} above, {1e3 * spent:.0f} ms"
    if find_spec("dp_accounting") is None:
        return
    peers, theirs = _timed(settings, _peer)
    ratios = [mine / its for mine, its in zip(ours, theirs, strict=True)]
    few = [ratio for ratio, setting in zip(ratios, settings, strict=True) if setting.steps < FEW_STEPS]
    yield f"dp-accounting: {_times(theirs)}"
    yield f"times over the peer's: median {statistics.median(ratios):.2f}, of all {sum(ours) / sum(theirs):.2f}"
    if few:
        yield f"  of fewer than {FEW_STEPS} releases: median {statistics.median(few):.2f}"
    yield from _tighter(settings, answers, peers)
    (_,), (its,) = _timed(distinct, _peer_of_many)
    yield f"dp-accounting, {DISTINCT} distinct releases: {1e3 * its:.0f} ms"


def _tighter(settings: Sequence[Setting], answers: Sequence[cm.Guarantee], peers: Sequence[float]) -> Iterator[str]:
    """Yield who is below whom by more than exact answers may differ, and where the peer is below what is needed."""
    found = list(zip(settings, answers, peers, strict=True))
    unsound = [s for s, answer, peer in found if peer < answer.epsilon / (1 + (answer.at_most_above or 1.0))]
    below = [s for s, answer, peer in found if peer < answer.epsilon * (1 - 1e-6) and s not in unsound]
    above = [s for s, answer, peer in found if peer > answer.epsilon * (1 + 1e-6)]
    yield f"the peer is tighter: {len(below)}; looser: {len(above)}; below what some neighbours need: {len(unsound)}"
    yield from (f"  tighter: {setting}" for setting in below)


def _peer(setting: Setting) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    release = pld.from_laplace_mechanism(
        setting.scale, sampling_prob=setting.rate, value_discretization_interval=INTERVAL
    )
    return float(release.self_compose(setting.steps).get_epsilon_for_delta(setting.delta))


def _peer_of_many(distinct: Distinct) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    releases: list[Any] = [
        pld.from_laplace_mechanism(scale, value_discretization_interval=INTERVAL) for scale in distinct.scales
    ]
    run = releases[0]
    for release in releases[1:]:
        run = run.compose(release)
    return float(run.get_epsilon_for_delta(distinct.delta))


Asked = TypeVar("Asked")


def _timed(asked: Sequence[Asked], answer: Callable[[Asked], Answer]) -> tuple[list[Answer], list[float]]:
    answers, seconds = [], []
    for one in asked:
        start = time.process_time()
        answers.append(answer(one))
        seconds.append(time.process_time() - start)
    return answers, seconds


def _times(seconds: Sequence[float]) -> str:
    ordered = sorted(1e3 * second for second in seconds)
    at = {"median": 0.5, "p95": 0.95, "worst": 1.0}
    places = {name: ordered[min(int(share * len(ordered)), len(ordered) - 1)] for name, share in at.items()}
    return ", ".join(f"{name} {value:.1f} ms" for name, value in places.items())
