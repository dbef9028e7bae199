"""What each way of the table is needed for: `python -m benchmarks roads` closes one after the other.

The settings are those of `draws`. A way earns its place where closing it makes answers less near, or much slower.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.draws import Setting, times_of, wide_settings
from cumulant.inversion import choose

NEAR = 1e-6  # of ε, within which an answer is exact


def measure(cases: int, seed: int) -> Iterator[str]:
    """Yield a line for the whole table, and one for each way that is closed."""
    settings = wide_settings(cases, seed)
    Setting(1.3, 0.02, 700, 1e-5).guarantee()  # imports are no answer
    Setting(1.3, 1e-4, 3, 1e-9).guarantee()
    whole = choose.WAYS
    try:
        yield _line("all open", settings)
        for closed in whole:
            choose.WAYS = tuple(way for way in whole if way is not closed)
            yield _line(f"without the {closed.name}", settings)
    finally:
        choose.WAYS = whole
        _forget()


def _line(name: str, settings: list[Setting]) -> str:
    _forget()
    near, seconds = 0, []
    for setting in settings:
        start = time.process_time()
        answer = setting.guarantee()
        seconds.append(time.process_time() - start)
        near += answer.at_most_above is not None and answer.at_most_above <= NEAR
    return f"{name}: {100 * near / len(settings):.1f} % within {NEAR:g}; {times_of(seconds)}"


def _forget() -> None:
    """Forget answers that were found on a way that is closed now."""
    for kept in (choose.sampled_epsilon, choose.sampled_log_delta):
        kept.cache_clear()
