"""How far answers of few releases lie above what both sides of a cut say. `python -m benchmarks looseness`.

Records replaced, samples without replacement and sampled Laplace noise, released a few times, are where lines of the
library are long and its answers bounds. Here each is bounded by `split`, which asks nothing of how transforms fall.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator

import cumulant as cm
from benchmarks.both_sides.split import split_near
from cumulant.inversion.composed import ComposedPairs
from cumulant.mechanisms.base import AbstractMechanism

CLOSE = 1e-6  # of ε
SHOWN = 10  # of the loosest answers


def measure(cases: int, seed: int) -> Iterator[str]:
    """Yield lines of a report."""
    rng = random.Random(seed)
    above: list[tuple[float, str]] = []
    unknown, seconds = 0, 0.0
    for _ in range(cases):
        run, delta = _drawn(rng)
        epsilon = run.epsilon(delta=delta)
        start = time.process_time()
        other = both_sides(run, delta, epsilon)
        seconds += time.process_time() - start
        if other is None:
            unknown += 1
        else:
            above.append((epsilon / other - 1, f"{epsilon:.9g} and {other:.9g}: {run!r} at delta = {delta!r}"))
    above.sort(reverse=True)
    close = sum(share <= CLOSE for share, _ in above)
    yield f"{cases} runs, seed {seed}: {close} within {CLOSE:g} of what both sides of a cut say, nothing of {unknown}"
    yield f"both sides: {1000 * seconds / max(cases, 1):.0f} ms each"
    yield from (f"  {100 * share:.4g} % above, {text}" for share, text in above[:SHOWN] if share > CLOSE)


def both_sides(run: AbstractMechanism, delta: float, near: float) -> float | None:
    """Return ε of a run by a cut in each direction of the neighbours; None where one of them has no such bound."""
    found = 0.0
    for direction in run._known().directions(run.neighbors) or ():
        split = split_near(ComposedPairs.of(direction), near, math.log(delta), 1)
        if split is None:
            return None
        at = split.near.tilts.epsilon
        _, high = split.log_bounds(at)
        found = max(found, at + (high - math.log(delta)) / -split.slope(at))
    return found or None


def _drawn(rng: random.Random) -> tuple[AbstractMechanism, float]:
    noise, rate, delta = (math.exp(rng.uniform(math.log(low), math.log(high))) for low, high in RANGES)
    count, gaussian = rng.randint(2, 6), cm.Gaussian(noise_multiplier=noise)
    match rng.randrange(3):
        case 0:
            return gaussian.poisson(rate=rate, neighbors=cm.REPLACE_ONE) * count, delta
        case 1:
            return gaussian.without_replacement(rate=rate) * count, delta
        case _:
            return cm.Laplace(scale=noise).poisson(rate=rate) * (4 * count), delta


RANGES = (0.5, 10.0), (1e-4, 0.5), (1e-12, 1e-4)
