"""`cumulant delta`: what a run costs at an ε."""

from __future__ import annotations

import click

from cumulant.answer import Method
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.output import print_explanation, print_json
from cumulant.cli.question_options import epsilon_option, json_option, method_option, steps_option
from cumulant.cli.waiting import waiting
from cumulant.printed import given

HELP = """Print the smallest proven delta at an epsilon, and how it was proven.

\b
Examples:
  cumulant delta --noise-multiplier 20 --steps 1000 --epsilon 2
  cumulant delta --mechanism laplace --scale 2 --steps 10 --epsilon 1
  cumulant delta --mechanism zcdp --rho 0.1 --epsilon 100
  cumulant delta --run run.json --epsilon 2 --json
"""


@click.command(help=HELP, short_help="The smallest proven delta at an epsilon.")
@mechanism_options
@steps_option
@epsilon_option
@method_option
@json_option
def delta(release: Release, steps: int, epsilon: float, method: Method, as_json: bool) -> None:
    with waiting():
        run = release.run(steps=steps)
        explanation = run.explain(epsilon=epsilon, method=method)
    log_delta = explanation.guarantee.log_delta
    if as_json:
        question = {"asked": "delta", "epsilon": epsilon, "method": method, "steps": steps}
        answer = {"delta": explanation.guarantee.delta, "log_delta": log_delta}
        print_json(question, answer, run, explanation)
    else:
        print_explanation(f"delta = {explanation.guarantee.delta_text} at epsilon = {given(epsilon)}", explanation)
