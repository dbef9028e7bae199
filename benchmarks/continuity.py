"""Runs that are almost others: `python -m benchmarks continuity`.

Half of the steps of a wide random run take noise of σ(1 + 1e-6). ε and δ(0) should hardly change, and take little
longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import cumulant as cm
from benchmarks.draws import Setting, wide_settings

APART = 1e-6  # relative, of the noise of the second half
QUICK = 1e-4  # seconds, below which a time is that of the interpreter

Question = Callable[[cm.Composed, Setting], float]
QUESTIONS: dict[str, Question] = {
    "epsilon": lambda run, setting: run.guarantee(delta=setting.delta).epsilon,
    "delta(0)": lambda run, setting: run.guarantee(epsilon=0.0).delta,
}


def measure(cases: int, seed: int) -> Iterator[str]:
    """Yield the largest change and ratio of times for each question, and where they are large."""
    settings = [setting for setting in wide_settings(cases, seed) if setting.steps > 1]
    for question in QUESTIONS.values():  # imports are no answer
        question(Setting(1.3, 1e-4, 3, 1e-9).run, Setting(1.3, 1e-4, 3, 1e-9))
    for name, question in QUESTIONS.items():
        changes, ratios, most = [], [], []
        for setting in settings:
            one, alone = _timed(question, setting.run, setting)
            two, spent = _timed(question, _halved(setting), setting)
            changes.append(abs(two - one) / one if one > 0 else two)
            ratios.append(spent / max(alone, QUICK))
            most.append(f"  {changes[-1]:.2g}, ×{ratios[-1]:.1f}: {setting}")
        ordered = sorted(ratios)
        middle = ordered[len(ordered) // 2]
        yield f"{name}, {len(settings)} runs: changes by {max(changes):.2g} at most"
        yield f"  takes ×{middle:.1f} in the median, ×{ordered[-1]:.1f} at most"
        yield from (most[i] for i in sorted(range(len(most)), key=lambda i: -changes[i])[:3])


def _halved(setting: Setting) -> cm.Composed:
    """Return the run with half of its steps at a noise that is hardly larger."""
    first = setting.steps // 2
    steps = [
        (cm.Gaussian(noise_multiplier=sigma).poisson(rate=setting.rate), count)
        for sigma, count in ((setting.sigma, first), (setting.sigma * (1 + APART), setting.steps - first))
    ]
    return cm.Composed.of(steps)


def _timed(question: Question, run: cm.Composed, setting: Setting) -> tuple[float, float]:
    start = time.process_time()
    answer = question(run, setting)
    return answer, time.process_time() - start
