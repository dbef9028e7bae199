"""How much memory a service takes that is asked one different question after another: `python -m benchmarks memory`.

Questions of many kinds, all different, in one process: resident memory is read along the way. What is kept is bounded
in bytes, so the end of the curve is flat; the last two readings say how flat.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.pairs.cache import CACHE

READINGS = 20  # along the way
PAGE_BYTES = 4096  # of memory, as /proc counts it


def resident_megabytes() -> float:
    """Return what the process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * PAGE_BYTES / 2**20


def peak_megabytes() -> float:
    """Return the most that the process has held."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def _steps(rng: np.random.Generator) -> AbstractMechanism:
    step = cm.Gaussian(noise_multiplier=float(rng.uniform(0.5, 8.0))).poisson(rate=float(10 ** rng.uniform(-4, -1)))
    return step * int(10 ** rng.uniform(2, 6))


def _counts(rng: np.random.Generator) -> AbstractMechanism:
    scales = rng.uniform(2.0, 60.0, int(rng.integers(2, 13)))
    return cm.Composed.of((cm.Laplace(scale=float(scale)), 1) for scale in scales)


def _many_counts(rng: np.random.Generator) -> AbstractMechanism:
    scales = rng.uniform(20.0, 60.0, int(rng.integers(20, 60)))
    return cm.Composed.of((cm.Laplace(scale=float(scale)), 1) for scale in scales)


def _bits(rng: np.random.Generator) -> AbstractMechanism:
    return cm.RandomizedResponse(p=float(rng.uniform(0.55, 0.9))).poisson(rate=0.1) * int(rng.integers(1, 2000))


def _sampled_counts(rng: np.random.Generator) -> AbstractMechanism:
    return cm.Laplace(scale=float(rng.uniform(0.5, 5.0))).poisson(rate=float(rng.uniform(0.01, 0.5))) * 1000


def _batches(rng: np.random.Generator) -> AbstractMechanism:
    return cm.Gaussian(noise_multiplier=float(rng.uniform(0.8, 5.0))).without_replacement(rate=0.01) * 500


def _drawn(rng: np.random.Generator) -> AbstractMechanism:
    noise = cm.Gaussian(noise_multiplier=float(rng.uniform(1.0, 20.0)))
    return noise.with_replacement(draws=100, population=10_000) * int(rng.integers(10, 2000))


def _black_boxes(rng: np.random.Generator) -> AbstractMechanism:
    return _steps(rng) + cm.ZCDP(rho=float(rng.uniform(0.001, 0.2)))


def _schedule(rng: np.random.Generator) -> AbstractMechanism:
    noises = rng.uniform(1.0, 2.0, 20)
    return cm.Composed.of((cm.Gaussian(noise_multiplier=float(s)).poisson(rate=0.01), 500) for s in noises)


KINDS: tuple[tuple[Callable[[np.random.Generator], AbstractMechanism], float], ...] = (
    (_steps, 0.36),
    (_counts, 0.25),
    (_bits, 0.20),
    (_batches, 0.08),
    (_sampled_counts, 0.08),
    (_black_boxes, 0.01),
    (_many_counts, 0.01),
    (_schedule, 0.005),
    (_drawn, 0.005),
)
"""What is asked for, and how often."""


def measure(questions: int, seed: int = 0) -> dict[str, object]:
    """Ask so many different questions, and return what memory was at the readings."""
    rng = np.random.default_rng(seed)
    shares = np.array([share for _, share in KINDS])
    start, readings = time.perf_counter(), []
    for number in range(1, questions + 1):
        kind = KINDS[int(rng.choice(len(KINDS), p=shares / np.sum(shares)))][0]
        run, delta = kind(rng), float(10 ** rng.uniform(-10, -4))
        epsilon = run.epsilon(delta=delta)
        if number % 4 == 0:
            run.delta(epsilon=epsilon * 0.9)
        if number % max(questions // READINGS, 1) == 0:
            readings.append([number, round(resident_megabytes(), 1), round(CACHE.bytes / 2**20, 1)])
    return {
        "questions": questions,
        "seconds": round(time.perf_counter() - start, 1),
        "peak_megabytes": round(peak_megabytes(), 1),
        "readings": readings,
    }


def run(questions: int) -> None:
    print(json.dumps(measure(questions), indent=1))
