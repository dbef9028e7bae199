"""`cumulant noise`: the least noise within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from cumulant.answer import Method
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.output import print_explanation, print_json
from cumulant.cli.parameter_types import Delta
from cumulant.cli.question_options import budget_option, delta_option, json_option, method_option, steps_option
from cumulant.cli.waiting import waiting
from cumulant.planning import calibrate
from cumulant.printed import given, rounded_down, rounded_up

HELP = """Print the least noise for which a run stays within epsilon at delta.

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
SOUGHT = {"gaussian": "noise_multiplier", "laplace": "scale", "randomized-response": "p"}
MOST_TRUE = math.nextafter(1.0, 0.0)


@click.command(help=HELP, short_help="The least noise within a budget.")
@mechanism_options
@steps_option
@budget_option
@delta_option
@method_option
@json_option
def noise(*, release: Release, steps: int, epsilon: float, delta: Delta, method: Method, as_json: bool) -> None:
    name = _sought(release)
    budget: dict[str, Any] = {"epsilon": epsilon, "log_delta": delta.log, "method": method}
    least = _least_lying if name == "p" else calibrate
    with waiting():
        value = least(lambda x: release.run(steps=steps, **{name: x}), **budget)
        run = release.run(steps=steps, **{name: value})
        explanation = run.explain(log_delta=delta.log, method=method)
    spent = explanation.guarantee.epsilon
    if as_json:
        question = {"asked": "noise", **budget, "delta": delta.text, "steps": steps}
        print_json(question, {name: value, "epsilon": spent}, run, explanation)
    else:  # safe side: the digits that are printed stand for more noise than those that are not
        digits = rounded_down(value) if name == "p" else rounded_up(value)
        headline = f"{name.replace('_', ' ')} = {digits} for epsilon = {given(epsilon)} at delta = {delta.text}"
        print_explanation(headline, explanation, statement={"spends": f"epsilon = {rounded_up(spent)}"})


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
