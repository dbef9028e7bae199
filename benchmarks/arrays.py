"""Many questions together and runs that grow: CPU time beside that of asking one by one, in one process.

`python -m benchmarks arrays` prints it. Ratios below 1 say that an array is quicker than a loop over its rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cumulant as cm
from cumulant.pairs.cache import CACHE

DELTA = 1e-6
RUNS, COUNTS, STEPS, MANY_STEPS = 300, 2000, 200, 10_000


def measure(seed: int = 1) -> Iterator[str]:
    """Yield a line for each measure."""
    runs = distinct_runs(RUNS, seed)
    together, found = timed(lambda: cm.epsilons(runs, delta=DELTA))
    loop, alone = timed(lambda: np.array([run.epsilon(delta=DELTA) for run in runs]))
    apart = float(np.max(np.abs(found / alone - 1)))
    yield f"epsilons of {RUNS} distinct runs: {together:.2f} s, {together / loop:.2f} of a loop; apart {apart:.1e}"
    deltas = np.geomspace(1e-12, 1e-2, RUNS)
    together, found = timed(lambda: runs[0].epsilon(delta=deltas))
    loop, alone = timed(lambda: np.array([runs[0].epsilon(delta=float(delta)) for delta in deltas]))
    yield f"epsilon at {RUNS} deltas: {together:.2f} s, {together / loop:.2f} of a loop"
    step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
    for least, most in ((1e2, 1e6), (1e6, 1e9)):
        counts = np.unique(np.geomspace(least, most, COUNTS).astype(np.int64))
        together, _ = timed(lambda counts=counts: step.epsilon_curve(counts=counts, delta=DELTA))  # type: ignore[misc]
        yield f"epsilon_curve of counts {least:.0e} to {most:.0e}: {together / len(counts) * 1e6:.0f} µs each"
    for name, steps in (
        (f"{STEPS} distinct steps", schedule(STEPS)),
        (f"{MANY_STEPS} equal steps", [step] * MANY_STEPS),
        (f"{MANY_STEPS} distinct steps", schedule(MANY_STEPS)),
    ):
        taken, last = timed(lambda steps=steps: follow(steps))  # type: ignore[misc]
        yield f"ε after each of {name}: {taken:.2f} s; ε {last:.6f}"


def distinct_runs(number: int, seed: int) -> list[cm.Composed]:
    """Return runs of DP-SGD that have nothing in common: σ 0.6-5, rates 10^-3.5 to 0.1, 30 to 30,000 steps."""
    rng = np.random.default_rng(seed)
    sigmas, rates = rng.uniform(0.6, 5.0, number), 10 ** rng.uniform(-3.5, -1.0, number)
    counts = 10 ** rng.uniform(1.5, 4.5, number)
    return [
        cm.Gaussian(noise_multiplier=float(sigma)).poisson(rate=float(rate)) * int(count)
        for sigma, rate, count in zip(sigmas, rates, counts, strict=True)
    ]


def schedule(number: int) -> list[cm.mechanisms.base.AbstractMechanism]:
    """Return steps whose noise grows from 1 to 2."""
    return [cm.Gaussian(noise_multiplier=float(s)).poisson(rate=0.01) for s in np.linspace(1.0, 2.0, number)]


def follow(steps: list[Any]) -> float:
    """Return ε after the last of the steps, asked after each."""
    accountant, epsilon = cm.Accountant(), 0.0
    for step in steps:
        accountant.compose(step)
        epsilon = accountant.epsilon(delta=DELTA)
    return epsilon


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return how many seconds of this process's time work takes, with nothing kept from before, and what it gives."""
    CACHE.clear()
    for name, module in list(sys.modules.items()):
        for kept in vars(module).values() if name.startswith("cumulant.") else ():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found
