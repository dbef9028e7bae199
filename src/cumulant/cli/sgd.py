"""`cumulant sgd`: what a training run costs, or what noise it needs, in the words of people who train."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import click

from cumulant.answer import Method
from cumulant.cli.answers import Answer, answered
from cumulant.cli.hints import OneOf, as_named, as_typed, flag
from cumulant.cli.mechanism_options import NEIGHBORS
from cumulant.cli.parameter_types import COUNT, NUMBER, SHARE, SIZE
from cumulant.cli.question_options import delta_option, interval_option, method_option
from cumulant.loaders import ALSO_CALLED, ARGUMENTS, NAMES, takers
from cumulant.loaders.random_allocation import BINS
from cumulant.printed import given, rounded_up
from cumulant.report.intervals import epsilon_interval, interval_data, interval_text
from cumulant.report.training_words import numbers, statement
from cumulant.report.typed import Delta
from cumulant.training import TrainingRun

HELP = """Print what a run of DP-SGD costs, whom that protects, and what it assumes.

Give --epsilon instead of --noise-multiplier for the least noise that keeps it. The noise multiplier is the noise / the
clipping norm, whatever the loader. Every step takes --batch-size of --dataset-size records, or --rate of all.

\b
Sampling, what the data loader really does:
{samplings}

\b
Examples:
  cumulant sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 \\
      --epochs 60 --delta 1e-5
  cumulant sgd --epsilon 3 --batch-size 256 --dataset-size 50000 \\
      --epochs 60 --delta 1e-5 --sampling opacus
  cumulant sgd --noise-multiplier 1 --rate 256/50000 --steps 1e4 \\
      --delta 1e-5
  cumulant sgd --noise-multiplier 4 --batch-size 256 --dataset-size 60000 \\
      --steps 1000 --delta 1e-5 --sampling without-replacement
  cumulant sgd --noise-multiplier 1 --batch-size 600 --dataset-size 60000 \\
      --epochs 10 --delta 1e-5 --sampling random-allocation --bins fresh
  cumulant sgd --noise-multiplier 1 --batch-size 100 --dataset-size 10000 \\
      --steps 1000 --delta 1e-5 --max-batch 130
  cumulant sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 \\
      --epochs 0.5 --delta 1e-6 --json
"""
SAMPLINGS = tuple(map(as_typed, NAMES))
OTHER_NAMES = {as_typed(alias): as_typed(name) for alias, name in ALSO_CALLED.items()}
LINE = 74  # columns, of what a sampling does
INDENT = 6  # columns, below its name


def samplings() -> Iterator[str]:
    """Yield the lines of help that say what each sampling is."""
    for name, loader in NAMES.items():
        others = [alias for alias, meant in OTHER_NAMES.items() if meant == as_typed(name)]
        yield f"  {as_typed(name)}" + (f" (also {', '.join(others)})" if others else "")
        space = " " * INDENT
        yield from textwrap.wrap(loader.in_short, LINE, initial_indent=space, subsequent_indent=space)


@click.command(
    help=HELP.format(samplings="\n".join(samplings())),
    short_help="The cost of a DP-SGD training run, or its noise, in plain words.",
)
@click.option("--noise-multiplier", type=NUMBER, metavar="NUMBER", help="Noise / clipping norm.")
@click.option("--epsilon", type=NUMBER, metavar="NUMBER", help="A budget, to be told the least noise.")
@click.option("--batch-size", type=SIZE, metavar="COUNT", help="Records per step.")
@click.option("--dataset-size", type=SIZE, metavar="COUNT", help="Records in all.")
@click.option("--accumulation-steps", type=SIZE, metavar="COUNT", help="Batches of that size in a step.  [default: 1]")
@click.option("--rate", type=SHARE, metavar="NUMBER", help="Instead of both: their ratio, also as 256/50000.")
@click.option("--epochs", type=NUMBER, metavar="NUMBER", help="Passes over the data; a fraction is fine.")
@click.option("--steps", type=COUNT, metavar="COUNT", help="Steps, instead of --epochs; 1e6 is fine.")
@click.option(
    "--sampling",
    "--loader",
    "sampling",
    type=OneOf(SAMPLINGS, also=OTHER_NAMES),
    default="poisson",
    show_default=True,
    help="What the data loader really does.",
)
@click.option("--bins", type=OneOf(BINS), help="With random-allocation: drawn anew in every epoch, or kept.")
@click.option("--max-batch", type=SIZE, metavar="COUNT", help="With poisson: larger batches are cut to that size.")
@click.option("--records-per-user", type=SIZE, metavar="COUNT", help="With poisson: of one person, at most.")
@click.option(
    "--drop-last/--keep-last",
    default=None,
    help="With opacus or shuffled: what the DataLoader does with a last batch that is short.",
)
@click.option(
    "--neighbors", type=OneOf(NEIGHBORS), help="Datasets that are compared.  [default: what the sampling is made for]"
)
@delta_option
@method_option
@interval_option
@answered
def sgd(
    *,
    noise_multiplier: float | None,
    epsilon: float | None,
    delta: Delta,
    method: Method,
    with_interval: bool,
    **words: Any,
) -> Answer:
    if (noise_multiplier is None) == (epsilon is None):
        raise click.UsageError("give either --noise-multiplier or --epsilon")
    plan = planned(**words)
    budget: dict[str, Any] = {"log_delta": delta.log, "method": method}
    noise_text = given if epsilon is None else rounded_up
    sigma = plan.least_noise(epsilon=epsilon, **budget) if noise_multiplier is None else noise_multiplier  # type: ignore[arg-type]
    training = plan.with_noise(sigma)
    run = training.mechanism()
    ends = epsilon_interval(run, delta) if with_interval else None
    explanation = run.explain(**budget)
    spent = explanation.guarantee.epsilon
    said = statement(training, spent, noise_text=noise_text, delta=delta)
    headline, found = f"epsilon = {rounded_up(spent)}", {"epsilon": spent}
    if epsilon is not None:  # safe side: the digits that are printed stand for more noise than those that are not
        headline = f"noise multiplier = {rounded_up(sigma)} for epsilon = {given(epsilon)}"
        found = {"noise_multiplier": sigma, **found}
    return Answer(
        asked={"asked": "sgd", "delta": delta.text, "epsilon": epsilon, **budget},
        found={**found, **({"interval": interval_data(ends)} if with_interval else {})},
        run=run,
        explanation=explanation,
        headline=f"{headline} at delta = {delta.text}",
        rows={**({"interval": interval_text(ends)} if with_interval else {}), **said},
        more={"training": numbers(training, words["epochs"]), "statement": said},
    )


def planned(
    *,
    sampling: str = "poisson",
    batch_size: int | None = None,
    dataset_size: int | None = None,
    rate: float | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    accumulation_steps: int | None = None,
    neighbors: str | None = None,
    **of_loader: Any,
) -> TrainingRun:
    """Return the run, with any noise, after a check of which options were given together."""
    if (epochs is None) == (steps is None):
        raise click.UsageError("give either --epochs or --steps")
    if rate is None and (batch_size is None or dataset_size is None):
        raise click.UsageError("give --batch-size and --dataset-size, or --rate")
    name = as_named(sampling)
    for argument in ARGUMENTS:
        if of_loader.get(argument) is not None and name not in takers(argument):
            owners = " or ".join(map(as_typed, takers(argument)))
            raise click.UsageError(f"{flag(argument)} belongs to --sampling {owners}")
    sizes = {"batch_size": batch_size, "dataset_size": dataset_size, "sample_rate": rate}
    of_loader["neighbors"] = None if neighbors is None else NEIGHBORS[neighbors]
    times = {"epochs": epochs, "steps": steps, "accumulation_steps": accumulation_steps}
    return TrainingRun.of(noise_multiplier=1.0, **sizes, **times, sampling=name, **of_loader)
