"""Random DP-SGD settings, wide: how long an answer takes, and whether it is exact. `python -m benchmarks draws`.

Each setting is new, in one warm process on one thread; a peer's Rényi accountant answers the same in the same run, if
it is installed. `--intervals 15` asks every fifteenth setting for its certified interval instead. Times are CPU times.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeVar, final

import cumulant as cm

Answer = TypeVar("Answer")

SIGMAS, RATES, STEPS, DELTAS = (0.3, 50.0), (1e-6, 1.0), (1.0, 1e7), (1e-30, 1e-3)  # log-uniform
NARROW, SOON = 1e-6, 1.0  # relative width, and seconds, of certified intervals
AGREED = 1 + 1e-6  # times a certified upper end, above which an answer could have been smaller
SHARES = {"median": 0.5, "p95": 0.95, "p99": 0.99, "worst": 1.0}  # of the settings


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """One training run and its δ."""

    sigma: float
    rate: float
    steps: int
    delta: float

    @staticmethod
    def drawn(rng: random.Random) -> Setting:
        sigma, rate, steps, delta = (
            math.exp(rng.uniform(math.log(low), math.log(high))) for low, high in (SIGMAS, RATES, STEPS, DELTAS)
        )
        return Setting(sigma, rate, max(1, round(steps)), delta)

    @property
    def run(self) -> cm.Composed:
        return cm.Gaussian(noise_multiplier=self.sigma).poisson(rate=self.rate) * self.steps

    def guarantee(self) -> cm.Guarantee:
        return self.run.guarantee(delta=self.delta)

    def interval(self) -> cm.Interval:
        return self.run.epsilon_interval(delta=self.delta)


def measure(cases: int, seed: int) -> Iterator[str]:
    """Yield lines of a report."""
    settings = wide_settings(cases, seed)
    Setting(1.3, 0.02, 700, 1e-5).guarantee()  # imports are no answer
    Setting(1.3, 1e-4, 3, 1e-9).guarantee()
    answers, ours = _timed(settings, Setting.guarantee)
    yield f"{cases} settings, seed {seed}: {sum(answer.exact for answer in answers)} exact"
    yield f"cumulant: {times_of(ours)}"
    if find_spec("dp_accounting") is None:
        return
    peers, theirs = _timed(settings, _peer())
    yield f"dp-accounting rdp: {times_of(theirs)}"
    above = [s for s, answer, peer in zip(settings, answers, peers, strict=True) if answer.epsilon > peer * (1 + 1e-9)]
    yield f"above the peer's Rényi DP: {len(above)}"
    yield from (f"  {setting}" for setting in above[:10])


def measure_intervals(cases: int, seed: int, every: int) -> Iterator[str]:
    """Yield the same of certified intervals, at every so many settings, and those that are not certified or slow."""
    settings = wide_settings(cases, seed)[::every]
    Setting(1.3, 0.02, 700, 1e-5).interval()
    intervals, seconds = _timed(settings, Setting.interval)
    endless = sum(math.isinf(interval.upper) for interval in intervals)
    certified = [interval.certified for interval in intervals]
    narrow = [yes and one.width <= NARROW * one.upper for yes, one in zip(certified, intervals, strict=True)]
    soon = [yes and spent <= SOON for yes, spent in zip(certified, seconds, strict=True)]
    yield f"{len(settings)} intervals, every {every}th of {cases} settings, seed {seed}: {sum(certified)} certified"
    yield f"narrower than {NARROW:g} of ε: {sum(narrow)}; certified within {SOON:g} s: {sum(soon)}"
    yield f"infinite: {endless}; cumulant: {times_of(seconds)}"
    for setting, interval in zip(settings, intervals, strict=True):
        if (answer := setting.guarantee().epsilon) > interval.upper * AGREED:
            yield f"  answer {answer} above {interval}  {setting}"
    for setting, interval, spent, yes in zip(settings, intervals, seconds, soon, strict=True):
        if not yes:
            yield f"  {spent:5.2f} s  {interval}  {setting}"


def wide_settings(cases: int, seed: int) -> list[Setting]:
    """Return the first of an endless list of settings."""
    rng = random.Random(seed)
    return [Setting.drawn(rng) for _ in range(cases)]


def _timed(settings: list[Setting], answer: Callable[[Setting], Answer]) -> tuple[list[Answer], list[float]]:
    answers, seconds = [], []
    for setting in settings:
        start = time.process_time()
        answers.append(answer(setting))
        seconds.append(time.process_time() - start)
    return answers, seconds


def _peer() -> Callable[[Setting], float]:
    import logging

    import dp_accounting
    from dp_accounting import rdp

    logging.getLogger("absl").setLevel(logging.ERROR)  # it names every order whose series does not converge

    def epsilon(setting: Setting) -> float:
        accountant = rdp.RdpAccountant()
        event = dp_accounting.PoissonSampledDpEvent(setting.rate, dp_accounting.GaussianDpEvent(setting.sigma))
        return float(accountant.compose(event, setting.steps).get_epsilon(setting.delta))

    epsilon(Setting(1.3, 0.02, 700, 1e-5))
    return epsilon


def times_of(seconds: list[float]) -> str:
    """Return median, shares and worst of times in words."""
    ordered = sorted(seconds)
    at = {name: ordered[min(int(share * len(ordered)), len(ordered) - 1)] for name, share in SHARES.items()}
    return ", ".join(f"{name} {1000 * value:.1f} ms" for name, value in at.items())
