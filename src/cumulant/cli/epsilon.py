"""`cumulant epsilon`: what a run costs at a δ."""

from __future__ import annotations

import math

import click

from cumulant.answer import Method
from cumulant.cli.intervals import epsilon_interval, interval_data, interval_option, interval_text
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.output import print_explanation, print_json
from cumulant.cli.parameter_types import Delta
from cumulant.cli.question_options import delta_option, json_option, method_option, steps_option
from cumulant.cli.training_words import remark
from cumulant.cli.waiting import waiting
from cumulant.printed import rounded_up

HELP = """Print the smallest proven epsilon at a delta, and how it was proven.

\b
Examples:
  cumulant epsilon --noise-multiplier 20 --steps 1000 --delta 1e-5
  cumulant epsilon --noise-multiplier 1 --rate 0.01 --steps 1000 --delta 1e-5
  cumulant epsilon --mechanism pure --release-epsilon 0.1 --steps 50 --delta 0
  cumulant epsilon --mechanism curve --curve rdp.csv --delta 1e-400
  cumulant epsilon --run run.json --delta 1e-5 --json
"""


@click.command(help=HELP, short_help="The smallest proven epsilon at a delta.")
@mechanism_options
@steps_option
@delta_option
@method_option
@interval_option
@json_option
def epsilon(*, release: Release, steps: int, delta: Delta, method: Method, with_interval: bool, as_json: bool) -> None:
    with waiting():
        run = release.run(steps=steps)
        explanation = run.explain(log_delta=delta.log, method=method)
        ends = epsilon_interval(run, delta) if with_interval else None
    answer = explanation.guarantee.epsilon
    if as_json:
        question = {"asked": "epsilon", "delta": delta.text, "log_delta": delta.log, "method": method, "steps": steps}
        more = {"interval": interval_data(ends)} if with_interval else {}
        print_json(question, {"epsilon": answer, **more}, run, explanation)
    else:
        infinite = "" if answer < math.inf else ": nothing finite is proven"
        said = {"interval": interval_text(ends)} if with_interval else {}
        headline = f"epsilon = {rounded_up(answer)} at delta = {delta.text}{infinite}"
        print_explanation(headline, explanation, statement={**said, **remark(delta, release.options.get("population"))})
