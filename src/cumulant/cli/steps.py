"""`cumulant steps`: the most steps within a budget."""

from __future__ import annotations

from typing import Any

import click

from cumulant.answer import Method
from cumulant.cli.mechanism_options import Release, file_option, mechanism_options, read_run
from cumulant.cli.output import print_explanation, print_json
from cumulant.cli.parameter_types import RUN_FILE, Delta
from cumulant.cli.question_options import budget_option, delta_option, json_option, method_option
from cumulant.cli.waiting import waiting
from cumulant.composition import Composed
from cumulant.planning import max_count
from cumulant.printed import given, rounded_up

HELP = """Print how often something may be released within epsilon at delta.

One release more would exceed the budget; both were tested.

\b
Examples:
  cumulant steps --noise-multiplier 1 --rate 0.01 --epsilon 2 --delta 1e-5
  cumulant steps --mechanism laplace --scale 20 --epsilon 1 --delta 1e-6
  cumulant steps --run run.json --epsilon 100 --delta 1e-5 --json
  cumulant steps --noise-multiplier 50 --spent run.json --epsilon 10 \\
      --delta 1e-5
"""


@click.command(help=HELP, short_help="The most steps within a budget.")
@mechanism_options
@file_option("--spent", RUN_FILE, "JSON of mechanism.to_dict(): what was already released.")
@budget_option
@delta_option
@method_option
@json_option
def steps(*, release: Release, spent: Any, epsilon: float, delta: Delta, method: Method, as_json: bool) -> None:
    step = release.build()
    before = Composed(()) if spent is None else read_run(spent, "--spent")
    with waiting():
        count = max_count(step, spent=before, epsilon=epsilon, log_delta=delta.log, method=method)
        run = before + step * count
        explanation = run.explain(log_delta=delta.log, method=method)
        cost = explanation.guarantee.epsilon
        more = (run + step).epsilon(log_delta=delta.log, method=method)
    if as_json:
        question = {"asked": "steps", "epsilon": epsilon, "delta": delta.text, "log_delta": delta.log, "method": method}
        print_json(question, {"steps": count, "epsilon": cost, "epsilon_of_one_more": more}, run, explanation)
    else:
        headline = f"steps = {count} within epsilon = {given(epsilon)} at delta = {delta.text}"
        said = {"spends": f"epsilon = {rounded_up(cost)}", "one more": f"epsilon = {rounded_up(more)}"}
        print_explanation(headline, explanation, statement=said)
