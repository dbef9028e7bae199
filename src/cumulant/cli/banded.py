"""`cumulant banded`: what a training run with banded noise costs, or what noise it needs."""

from __future__ import annotations

from typing import Any

import click

from cumulant.answer import Method
from cumulant.cli.answers import Answer, answered
from cumulant.cli.hints import OneOf
from cumulant.cli.parameter_types import COUNT, NUMBER, SHARE, SIZE
from cumulant.cli.question_options import delta_option, method_option
from cumulant.cyclic_poisson import PARTITIONS
from cumulant.matrix_training import banded_dp_sgd
from cumulant.planning import calibrate
from cumulant.printed import given, rounded_up
from cumulant.report.assumptions import assumptions_of
from cumulant.report.training_words import remark
from cumulant.report.typed import Delta

HELP = """Print what a run of DP-SGD costs whose noise is correlated by a banded matrix (BandMF).

The data are split into as many parts as there are bands; steps take turns with them, and each draws a Poisson sample
of its part, --batch-size records on average. The noise multiplier is the noise / (the largest column norm of the matrix
x the clipping norm). Give --epsilon instead for the least that keeps it.

\b
Partitions:
  independent  every record draws its part by itself (add-or-remove-one)
  equal        the records are split into parts of one size (zero-out only)

\b
Examples:
  cumulant banded --noise-multiplier 1 --bands 4 --batch-size 100 \\
      --dataset-size 10000 --steps 1000 --partition independent --delta 1e-5
  cumulant banded --epsilon 3 --bands 8 --batch-size 256 --dataset-size 60000 \\
      --epochs 10 --partition equal --delta 1e-5 --json
"""


@click.command(help=HELP, short_help="The cost of a run with banded noise (BandMF), or its noise.")
@click.option("--noise-multiplier", type=NUMBER, metavar="NUMBER", help="Noise / (column norm x clipping norm).")
@click.option("--epsilon", type=NUMBER, metavar="NUMBER", help="A budget, to be told the least noise.")
@click.option("--bands", type=SIZE, metavar="COUNT", required=True, help="Bands of the matrix, and parts of the data.")
@click.option("--batch-size", type=SIZE, metavar="COUNT", help="Records per step.")
@click.option("--dataset-size", type=SIZE, metavar="COUNT", help="Records in all.")
@click.option("--rate", type=SHARE, metavar="NUMBER", help="Instead of both: the coin of a record in its turns.")
@click.option("--epochs", type=NUMBER, metavar="NUMBER", help="Passes over the data; a fraction is fine.")
@click.option("--steps", type=COUNT, metavar="COUNT", help="Steps, instead of --epochs; 1e6 is fine.")
@click.option("--partition", type=OneOf(PARTITIONS), required=True, help="How records come to their parts.")
@delta_option
@method_option
@answered
def banded(
    *,
    noise_multiplier: float | None,
    epsilon: float | None,
    rate: float | None,
    delta: Delta,
    method: Method,
    **plan: Any,
) -> Answer:
    if (noise_multiplier is None) == (epsilon is None):
        raise click.UsageError("give either --noise-multiplier or --epsilon")
    if (plan["epochs"] is None) == (plan["steps"] is None):
        raise click.UsageError("give either --epochs or --steps")
    if rate is None and None in (plan["batch_size"], plan["dataset_size"]):
        raise click.UsageError("give --batch-size and --dataset-size, or --rate")
    budget: dict[str, Any] = {"log_delta": delta.log, "method": method}
    sigma = noise_multiplier
    if sigma is None:
        plan_of = {"sample_rate": rate, **plan}
        sigma = calibrate(lambda noise: banded_dp_sgd(noise_multiplier=noise, **plan_of), epsilon=epsilon, **budget)
    run = banded_dp_sgd(noise_multiplier=sigma, sample_rate=rate, **plan)
    explanation = run.explain(**budget)
    spent = explanation.guarantee.epsilon
    headline, found = f"epsilon = {rounded_up(spent)}", {"epsilon": spent}
    if epsilon is not None:  # safe side: the digits that are printed stand for more noise than those that are not
        headline = f"noise multiplier = {rounded_up(sigma)} for epsilon = {given(epsilon)}"
        found = {"noise_multiplier": sigma, **found}
    return Answer(
        asked={"asked": "banded", "delta": delta.text, "epsilon": epsilon, **budget},
        found=found,
        run=run,
        explanation=explanation,
        headline=f"{headline} at delta = {delta.text}",
        rows={**remark(delta, plan["dataset_size"]), "assumes": "; ".join(assumptions_of(run)) + "."},
        more={"training": {"noise_multiplier": sigma, "rate": rate, **plan, "steps": run.steps}},
    )
