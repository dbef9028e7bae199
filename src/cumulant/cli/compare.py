"""`cumulant compare`: one run, every method."""

from __future__ import annotations

from pathlib import Path

import click

from cumulant.cli.answers import Answer
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.output import columns, print_headline
from cumulant.cli.parameter_types import CHART_FILE, Delta, completed_as_file
from cumulant.cli.question_options import delta_option, json_option, steps_option
from cumulant.cli.waiting import waiting
from cumulant.comparison import compare as compare_methods
from cumulant.comparison import table
from cumulant.printed import rounded_up

HELP = """Print what every method proves about the same run: one table, and one chart with --out.

Naive, strong and optimal composition know one (epsilon, delta) per release; Rényi DP knows a curve; the exact answer
knows the whole privacy loss and is printed with its certified lower end.

\b
Examples:
  cumulant compare --noise-multiplier 1 --rate 0.01 --steps 1000 --delta 1e-5
  cumulant compare --mechanism laplace --scale 20 --steps 100 --delta 1e-6
  cumulant compare --run run.json --delta 1e-5 --json
"""


@click.command(help=HELP, short_help="Every method on the same run: a table, a chart.")
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
