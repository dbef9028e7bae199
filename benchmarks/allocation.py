"""Random allocation beside its peers, in one run: `python -m benchmarks allocation`.

PLD_accounting bounds ε from both sides, on grids of losses; random_allocation has formulas and Rényi DP, of which it
combines the best. Each question is new, in one process, and nothing is kept from those before; times are CPU times,
after a question that warms up. Peers that are not installed are left out.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import cumulant as cm
from cumulant.numerics.lognormal_sum import density_of_sum, log_moments_of_mean
from cumulant.pairs.cache import CACHE

DELTA = 1e-5
LONGEST = 120  # seconds of an answer
ORDERS = list(range(2, 61))  # of Rényi DP, integers, which one peer must be given


class Question(NamedTuple):
    """Epochs with fresh bins, of steps of which a record joins some."""

    steps: int
    sigma: float
    chosen: int = 1
    epochs: int = 1


class Bounds(NamedTuple):
    """Bounds of ε, the lower one where there is one, and seconds."""

    lower: float | None
    upper: float
    seconds: float


QUESTIONS = (
    Question(50, 1.0),
    Question(100, 1.0),
    Question(1000, 2.0),
    Question(100, 0.5),
    Question(100, 1.0, epochs=10),
    Question(1000, 1.0, epochs=10),
    Question(100, 1.0, chosen=4),
)
WARM_UP = Question(20, 1.3)
HEAD = ("t, σ, of which joined, epochs", "cumulant", "certified", "PLD_accounting", "random_allocation")


def measure() -> Iterator[str]:
    """Yield a table in Markdown."""
    contestants: list[Callable[[Question], Bounds | None]] = [_ours, _certified]
    contestants += [ask if find_spec(name) else _missing for name, ask in PEERS.items()]
    for ask in contestants:
        _in_time(ask, WARM_UP)
    yield f"| {' | '.join(HEAD)} |"
    yield f"|{' --- |' * len(HEAD)}"
    for question in QUESTIONS:
        found = [_in_time(ask, question) for ask in contestants]
        first = found[0].seconds if isinstance(found[0], Bounds) else 0.0
        cells = [_cell(one, first if i > 1 else 0.0) for i, one in enumerate(found)]
        yield f"| {', '.join(f'{x:g}' for x in question)} | {' | '.join(cells)} |"


def _cell(found: Bounds | str, first: float) -> str:
    if isinstance(found, str):
        return found
    ends = f"{found.upper:.6g}" if found.lower is None else f"[{found.lower:.6g}, {found.upper:.6g}]"
    width = f", {1e3 * found.seconds:,.0f} ms"
    return ends + width + (f", ×{found.seconds / first:.3g}" if first else "")


def _ours(question: Question) -> Bounds:
    CACHE.clear()
    density_of_sum.cache_clear()
    log_moments_of_mean.cache_clear()
    start = time.process_time()
    answer = _run(question).guarantee(delta=DELTA)
    return Bounds(None, answer.epsilon, time.process_time() - start)


def _certified(question: Question) -> Bounds | None:
    """Return both ends, after the answer was asked for: only one step of t has a lower one."""
    if question.chosen > 1:
        return None
    start = time.process_time()
    interval = _run(question).epsilon_interval(delta=DELTA)
    return Bounds(interval.lower, interval.upper, time.process_time() - start)


def _run(question: Question) -> Any:
    noise = cm.Gaussian(noise_multiplier=question.sigma)
    return noise.random_allocation(steps=question.steps, chosen=question.chosen) * question.epochs


def _pld_accounting(question: Question) -> Bounds:
    from PLD_accounting import gaussian_allocation_epsilon_range

    start = time.process_time()
    upper, lower = gaussian_allocation_epsilon_range(
        delta=DELTA,
        sigma=question.sigma,
        num_steps=question.steps,
        num_selected=question.chosen,
        num_epochs=question.epochs,
    )
    return Bounds(lower, upper, time.process_time() - start)


def _random_allocation(question: Question) -> Bounds:
    from random_allocation import PrivacyParams, SchemeConfig
    from random_allocation.random_allocation_scheme.combined import allocation_epsilon_combined

    params = PrivacyParams(
        sigma=question.sigma,
        num_steps=question.steps,
        num_selected=question.chosen,
        num_epochs=question.epochs,
        delta=DELTA,
    )
    start = time.process_time()
    upper = float(allocation_epsilon_combined(params, SchemeConfig(allocation_direct_alpha_orders=ORDERS)))
    return Bounds(None, upper, time.process_time() - start)


def _missing(_: Question) -> None:
    return None


PEERS = {"PLD_accounting": _pld_accounting, "random_allocation": _random_allocation}


def _in_time(ask: Callable[[Question], Bounds | None], question: Question) -> Bounds | str:
    try:
        with _limit():
            return ask(question) or "-"
    except Exception as error:  # a peer's own: what came instead of an answer
        return type(error).__name__


@contextmanager
def _limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
