"""`cumulant noise`, `cumulant steps` and `cumulant rate`: the largest run within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from cumulant.answer import Method
from cumulant.cli.answers import Answer, answered
from cumulant.cli.headings import HeadedCommand
from cumulant.cli.mechanism_options import Release, file_option, mechanism_options, read_run
from cumulant.cli.parameter_types import RUN_FILE
from cumulant.cli.question_options import budget_option, delta_option, method_option, steps_option
from cumulant.composition import Composed
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.planning import calibrate, max_count, max_rate, max_whole
from cumulant.printed import given, rounded_down, rounded_up
from cumulant.report.typed import Delta

NOISE_HELP = """Print the least noise for which a run stays within epsilon at delta.

It searches --noise-multiplier, for --mechanism laplace --scale, and for randomized-response --p, of which more is
less noise. The answer itself was tested.

\b
Examples:
  cumulant noise --epsilon 1 --delta 1e-5 --rate 0.01 --steps 1000
  cumulant noise --mechanism laplace --epsilon 1 --delta 1e-6 --steps 10
  cumulant noise --mechanism randomized-response --epsilon 2 --delta 0
  cumulant noise --sampling without-replacement --batch 256 \\
      --population 60000 --steps 1000 --epsilon 2 --delta 1e-5 --json
"""
STEPS_HELP = """Print how often something may be released within epsilon at delta.

One release more would exceed the budget; both were tested.

\b
Examples:
  cumulant steps --noise-multiplier 1 --rate 0.01 --epsilon 2 --delta 1e-5
  cumulant steps --mechanism laplace --scale 20 --epsilon 1 --delta 1e-6
  cumulant steps --run run.json --epsilon 100 --delta 1e-5 --json
  cumulant steps --noise-multiplier 50 --spent run.json --epsilon 10 \\
      --delta 1e-5
"""
RATE_HELP = """Print the largest sampling rate for which a run stays within epsilon at delta.

For batches of fixed size from a --population it prints the largest batch. The answer itself was tested.

\b
Examples:
  cumulant rate --noise-multiplier 1 --steps 1000 --epsilon 2 --delta 1e-5
  cumulant rate --mechanism laplace --scale 2 --sampling without-replacement \\
      --population 60000 --steps 1000 --epsilon 1 --delta 1e-5
  cumulant rate --mechanism randomized-response --p 0.75 --steps 100 \\
      --sampling with-replacement --population 1000 --epsilon 1 --delta 1e-5
  cumulant rate --noise-multiplier 2 --neighbors replace-one --steps 1000 \\
      --epsilon 2 --delta 1e-5 --json
"""
SOUGHT = {"gaussian": "noise_multiplier", "laplace": "scale", "randomized-response": "p"}
MOST_TRUE = math.nextafter(1.0, 0.0)


Fit = tuple[dict[str, Any], str, AbstractMechanism]
"""What fits into a budget: as data, in words, and the run."""


def planning(command: Callable[..., Fit]) -> Callable[..., None]:
    """Give a command the options of a budget; what it returns is told with what the run spends."""

    @wraps(command)
    def within(*, release: Release, epsilon: float, delta: Delta, method: Method, **others: Any) -> Answer:
        budget = {"epsilon": epsilon, "log_delta": delta.log, "method": method}
        found, text, run = command(release, budget, **others)
        explanation = run.explain(log_delta=delta.log, method=method)
        spent = {"spends": explanation.guarantee.epsilon}
        if "epsilon_of_one_more" in found:
            spent["one more"] = found["epsilon_of_one_more"]
        steps = {"steps": others["steps"]} if "steps" in others else {}
        return Answer(
            asked={"asked": command.__name__, **budget, "delta": delta.text, **steps},
            found={**found, "epsilon": spent["spends"]},
            run=run,
            explanation=explanation,
            headline=f"{text} epsilon = {given(epsilon)} at delta = {delta.text}",
            rows={label: f"epsilon = {rounded_up(value)}" for label, value in spent.items()},
        )

    return budget_option(delta_option(method_option(answered(within))))


@click.command(cls=HeadedCommand, help=NOISE_HELP, short_help="The least noise within a budget.")
@mechanism_options
@steps_option
@planning
def noise(release: Release, budget: dict[str, Any], *, steps: int) -> Fit:
    name = _sought(release)
    least = _least_lying if name == "p" else calibrate
    value = least(lambda x: release.run(steps=steps, **{name: x}), **budget)
    # Safe side: the digits that are printed stand for more noise than those that are not.
    digits = rounded_down(value) if name == "p" else rounded_up(value)
    return {name: value}, f"{name.replace('_', ' ')} = {digits} for", release.run(steps=steps, **{name: value})


@click.command(cls=HeadedCommand, help=STEPS_HELP, short_help="The most steps within a budget.")
@mechanism_options
@file_option("--spent", RUN_FILE, "JSON of mechanism.to_dict(): what was already released.")
@planning
def steps(release: Release, budget: dict[str, Any], *, spent: Any) -> Fit:
    step = release.build()
    before = Composed(()) if spent is None else read_run(spent, "--spent")
    count = max_count(step, spent=before, **budget)
    run = before + step * count
    more = (run + step).epsilon(log_delta=budget["log_delta"], method=budget["method"])
    return {"steps": count, "epsilon_of_one_more": more}, f"steps = {count} within", run


@click.command(cls=HeadedCommand, help=RATE_HELP, short_help="The largest sampling rate within a budget.")
@mechanism_options
@steps_option
@planning
def rate(release: Release, budget: dict[str, Any], *, steps: int) -> Fit:
    release.without("rate", "batch")
    scheme: str = release.options.get("sampling", "poisson")
    population = release.options.get("population")
    if scheme == "poisson" or (scheme == "without-replacement" and population is None):
        q = max_rate(lambda rate: release.run(steps=steps, sampling=scheme, rate=rate), **budget)
        # Safe side: rounded down, as less of the data costs less.
        return {"rate": q}, f"rate = {rounded_down(q)} within", release.run(steps=steps, sampling=scheme, rate=q)
    if population is None:
        raise click.UsageError(f"--sampling {scheme} needs --population")
    m = max_whole(lambda batch: release.run(steps=steps, batch=batch), most=population, **budget)
    found = {"batch": m, "population": population}
    return found, f"batch = {m} of {population} within", release.run(steps=steps, batch=m)


def _sought(release: Release) -> str:
    """Return the option that is searched; refuse mechanisms without noise of their own, and a noise that is given."""
    if "run" in release.options or release.kind not in SOUGHT:
        raise click.UsageError(f"noise is searched for --mechanism {' or '.join(SOUGHT)}")
    name = SOUGHT[release.kind]
    release.without(name)
    return name


def _least_lying(build: Callable[[float], Any], **budget: Any) -> float:
    """Return the largest p in [1/2, 1) within the budget, by a search for 1/log(p/(1-p)), which falls with p."""
    if build(MOST_TRUE).epsilon(log_delta=budget["log_delta"], method=budget["method"]) <= budget["epsilon"]:
        return MOST_TRUE
    return truth_probability(calibrate(lambda scale: build(truth_probability(scale)), **budget))


def truth_probability(scale: float) -> float:
    """Return p with log(p/(1-p)) = 1/scale, below 1."""
    return min(1 / (1 + math.exp(-1 / scale)), MOST_TRUE)
