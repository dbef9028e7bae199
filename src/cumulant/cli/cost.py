"""`cumulant epsilon`, `cumulant delta` and `cumulant compare`: what a run costs, at a δ or at an ε, by every method."""

from __future__ import annotations

import math
from pathlib import Path

import click

from cumulant.answer import Method
from cumulant.cli.answers import Answer, answered
from cumulant.cli.headings import HeadedCommand
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.output import columns, print_headline
from cumulant.cli.parameter_types import CHART_FILE, completed_as_file
from cumulant.cli.question_options import (
    delta_option,
    epsilon_option,
    interval_option,
    json_option,
    method_option,
    steps_option,
)
from cumulant.cli.waiting import waiting
from cumulant.comparison import compare as compare_methods
from cumulant.comparison import table
from cumulant.printed import given, rounded_up
from cumulant.report.intervals import epsilon_interval, interval_data, interval_text
from cumulant.report.training_words import remark
from cumulant.report.typed import Delta

EPSILON_HELP = """Print the smallest proven epsilon at a delta, and how it was proven.

\b
Examples:
  cumulant epsilon --noise-multiplier 20 --steps 1000 --delta 1e-5
  cumulant epsilon --noise-multiplier 1 --rate 0.01 --steps 1000 --delta 1e-5
  cumulant epsilon --mechanism pure --release-epsilon 0.1 --steps 50 --delta 0
  cumulant epsilon --mechanism curve --curve rdp.csv --delta 1e-400
  cumulant epsilon --run run.json --delta 1e-5 --json
"""
DELTA_HELP = """Print the smallest proven delta at an epsilon, and how it was proven.

\b
Examples:
  cumulant delta --noise-multiplier 20 --steps 1000 --epsilon 2
  cumulant delta --mechanism laplace --scale 2 --steps 10 --epsilon 1
  cumulant delta --mechanism zcdp --rho 0.1 --epsilon 100
  cumulant delta --run run.json --epsilon 2 --json
"""
COMPARE_HELP = """Print what every method proves about the same run: one table, and one chart with --out.

Naive, strong and optimal composition know one (epsilon, delta) per release; Rényi DP knows a curve; the exact answer
knows the whole privacy loss and is printed with its certified lower end.

\b
Examples:
  cumulant compare --noise-multiplier 1 --rate 0.01 --steps 1000 --delta 1e-5
  cumulant compare --mechanism laplace --scale 20 --steps 100 --delta 1e-6
  cumulant compare --run run.json --delta 1e-5 --json
"""


@click.command(cls=HeadedCommand, help=EPSILON_HELP, short_help="The smallest proven epsilon at a delta.")
@mechanism_options
@steps_option
@delta_option
@method_option
@interval_option
@answered
def epsilon(*, release: Release, steps: int, delta: Delta, method: Method, with_interval: bool) -> Answer:
    run = release.run(steps=steps)
    explanation = run.explain(log_delta=delta.log, method=method)
    ends = epsilon_interval(run, delta) if with_interval else None
    spent = explanation.guarantee.epsilon
    infinite = "" if spent < math.inf else ": nothing finite is proven"
    said = {"interval": interval_text(ends)} if with_interval else {}
    return Answer(
        asked={"asked": "epsilon", "delta": delta.text, "log_delta": delta.log, "method": method, "steps": steps},
        found={"epsilon": spent, **({"interval": interval_data(ends)} if with_interval else {})},
        run=run,
        explanation=explanation,
        headline=f"epsilon = {rounded_up(spent)} at delta = {delta.text}{infinite}",
        rows={**said, **remark(delta, release.options.get("population"))},
    )


@click.command(cls=HeadedCommand, help=DELTA_HELP, short_help="The smallest proven delta at an epsilon.")
@mechanism_options
@steps_option
@epsilon_option
@method_option
@answered
def delta(*, release: Release, steps: int, epsilon: float, method: Method) -> Answer:
    run = release.run(steps=steps)
    explanation = run.explain(epsilon=epsilon, method=method)
    guarantee = explanation.guarantee
    return Answer(
        asked={"asked": "delta", "epsilon": epsilon, "method": method, "steps": steps},
        found={"delta": guarantee.delta, "log_delta": guarantee.log_delta},
        run=run,
        explanation=explanation,
        headline=f"delta = {guarantee.delta_text} at epsilon = {given(epsilon)}",
    )


@click.command(cls=HeadedCommand, help=COMPARE_HELP, short_help="Every method on the same run: a table, a chart.")
@mechanism_options
@steps_option
@delta_option
@click.option(
    "--out",
    type=CHART_FILE,
    metavar="FILE",
    shell_complete=completed_as_file,
    help="Draw it, too: a name that ends in .png, .svg or .pdf.",
)
@json_option
def compare(*, release: Release, steps: int, delta: Delta, out: Path | None, as_json: bool) -> None:
    run = release.run(steps=steps)
    with waiting():
        explanation = run.explain(log_delta=delta.log)
        found = compare_methods(run, log_delta=delta.log)
    if out is not None:
        from cumulant.report.draw import draw_comparison, save

        save(draw_comparison(found.rows, title=f"ε at δ = {delta.text}"), out)
    if not as_json:
        print_headline(f"epsilon at delta = {delta.text}")
        click.echo("\n".join(table(found.rows, width=columns())))
    best = explanation.guarantee.epsilon
    Answer(
        asked={"asked": "compare", "delta": delta.text, "log_delta": delta.log, "steps": steps},
        found={"epsilon": best, "rows": [row.to_dict() for row in found.rows]},
        run=run,
        explanation=explanation,
        headline=f"best proven: epsilon = {rounded_up(best)}",
    ).show(as_json=as_json)
