"""`cumulant rate`: the largest sample within a budget."""

from __future__ import annotations

from typing import Any

import click

from cumulant.answer import Method
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.output import print_explanation, print_json
from cumulant.cli.parameter_types import Delta
from cumulant.cli.question_options import budget_option, delta_option, json_option, method_option, steps_option
from cumulant.cli.waiting import waiting
from cumulant.planning import max_rate, max_whole
from cumulant.printed import given, rounded_down, rounded_up

HELP = """Print the largest sampling rate for which a run stays within epsilon at delta.

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


@click.command(help=HELP, short_help="The largest sampling rate within a budget.")
@mechanism_options
@steps_option
@budget_option
@delta_option
@method_option
@json_option
def rate(*, release: Release, steps: int, epsilon: float, delta: Delta, method: Method, as_json: bool) -> None:
    release.without("rate", "batch")
    budget: dict[str, Any] = {"epsilon": epsilon, "log_delta": delta.log, "method": method}
    with waiting():
        answer = _largest(release, steps, budget)
        name, value = next(iter(answer.items()))
        run = release.run(steps=steps, sampling=_sampling_of(release), **{name: value})
        explanation = run.explain(log_delta=delta.log, method=method)
    spent = explanation.guarantee.epsilon
    if as_json:
        question = {"asked": "rate", **budget, "delta": delta.text, "steps": steps}
        print_json(question, {**answer, "epsilon": spent}, run, explanation)
    else:  # safe side: rounded down, as less of the data costs less
        text = rounded_down(value) if name == "rate" else f"{value} of {release.options['population']}"
        headline = f"{name} = {text} within epsilon = {given(epsilon)} at delta = {delta.text}"
        print_explanation(headline, explanation, statement={"spends": f"epsilon = {rounded_up(spent)}"})


def _sampling_of(release: Release) -> str:
    scheme: str = release.options.get("sampling", "poisson")
    return scheme


def _largest(release: Release, steps: int, budget: dict[str, Any]) -> dict[str, Any]:
    """Return the largest rate, or where records are counted the largest batch, under the name of its option."""
    scheme, population = _sampling_of(release), release.options.get("population")
    if scheme == "poisson" or (scheme == "without-replacement" and population is None):
        return {"rate": max_rate(lambda q: release.run(steps=steps, sampling=scheme, rate=q), **budget)}
    if population is None:
        raise click.UsageError(f"--sampling {scheme} needs --population")
    batch = max_whole(lambda m: release.run(steps=steps, batch=m), most=population, **budget)
    return {"batch": batch, "population": population}
