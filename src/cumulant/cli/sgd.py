"""`cumulant sgd`: what a training run costs, or what noise it needs, in the words of people who train."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import click

from cumulant.answer import Method
from cumulant.cli.answers import Answer, answered
from cumulant.cli.hints import OneOf
from cumulant.cli.parameter_types import COUNT, NUMBER, SHARE, SIZE
from cumulant.cli.question_options import delta_option, interval_option, method_option
from cumulant.cli.training_words import numbers, statement
from cumulant.neighbors import ZERO_OUT
from cumulant.printed import given, rounded_up
from cumulant.report.intervals import epsilon_interval, interval_data, interval_text
from cumulant.report.typed import Delta
from cumulant.training import TrainingRun, torch_coin

HELP = """Print what a run of DP-SGD costs, whom that protects, and what it assumes.

Give --epsilon instead of --noise-multiplier for the least noise that keeps it. The noise multiplier is the noise / the
clipping norm, whatever the loader. Every step takes --batch-size of --dataset-size records, or --rate of all.

\b
Loaders:
  poisson     every record joins a batch by its own coin
  opacus      the same with the rate and the coin of Opacus: 1/len(loader);
              the number of records is public (zero-out)
  fixed       a fresh random subset of fixed size in every step
  allocation  every epoch puts every record into one batch, drawn for itself
              (balls in bins); give --bins where there are several epochs
  shuffled    every epoch walks through the data, in any order

\b
Examples:
  cumulant sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 \\
      --epochs 60 --delta 1e-5
  cumulant sgd --epsilon 3 --batch-size 256 --dataset-size 50000 \\
      --epochs 60 --delta 1e-5 --loader opacus
  cumulant sgd --noise-multiplier 1 --rate 256/50000 --steps 1e4 \\
      --delta 1e-5
  cumulant sgd --noise-multiplier 4 --batch-size 256 --dataset-size 60000 \\
      --steps 1000 --delta 1e-5 --loader fixed
  cumulant sgd --noise-multiplier 1 --batch-size 600 --dataset-size 60000 \\
      --epochs 10 --delta 1e-5 --loader allocation --bins fresh
  cumulant sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 \\
      --epochs 0.5 --delta 1e-6 --json
"""
BINS = ("fresh", "kept")
LOADERS = {
    "poisson": "poisson",
    "opacus": "poisson",
    "fixed": "without_replacement",
    "allocation": "random_allocation",
    "shuffled": "shuffled",
}
ALSO_CALLED = {
    "without-replacement": "fixed",
    "random-allocation": "allocation",
    "balls-in-bins": "allocation",
}


@click.command(help=HELP, short_help="The cost of a DP-SGD training run, or its noise, in plain words.")
@click.option("--noise-multiplier", type=NUMBER, metavar="NUMBER", help="Noise / clipping norm.")
@click.option("--epsilon", type=NUMBER, metavar="NUMBER", help="A budget, to be told the least noise.")
@click.option("--batch-size", type=SIZE, metavar="COUNT", help="Records per step.")
@click.option("--dataset-size", type=SIZE, metavar="COUNT", help="Records in all.")
@click.option("--rate", type=SHARE, metavar="NUMBER", help="Instead of both: their ratio, also as 256/50000.")
@click.option("--epochs", type=NUMBER, metavar="NUMBER", help="Passes over the data; a fraction is fine.")
@click.option("--steps", type=COUNT, metavar="COUNT", help="Steps, instead of --epochs; 1e6 is fine.")
@click.option(
    "--loader",
    type=OneOf(LOADERS, also=ALSO_CALLED),
    default="poisson",
    show_default=True,
    help="What the data loader really does.",
)
@click.option("--bins", type=OneOf(BINS), help="With --loader allocation: drawn anew in every epoch, or kept.")
@click.option("--drop-last", is_flag=True, help="With --loader opacus: the DataLoader has drop_last=True.")
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
    loader: str,
    **sizes: Any,
) -> Answer:
    if (noise_multiplier is None) == (epsilon is None):
        raise click.UsageError("give either --noise-multiplier or --epsilon")
    plan = planned(loader, **sizes)
    budget: dict[str, Any] = {"log_delta": delta.log, "method": method}
    noise_text = given if epsilon is None else rounded_up
    sigma = plan.least_noise(epsilon=epsilon, **budget) if noise_multiplier is None else noise_multiplier  # type: ignore[arg-type]
    training = plan.with_noise(sigma)
    run = training.mechanism()
    ends = epsilon_interval(run, delta) if with_interval else None
    explanation = run.explain(**budget)
    spent = explanation.guarantee.epsilon
    said = statement(training, spent, loader, noise_text=noise_text, delta=delta)
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
        more={"training": numbers(training, loader, sizes["epochs"]), "statement": said},
    )


def planned(
    loader: str,
    *,
    batch_size: int | None,
    dataset_size: int | None,
    rate: float | None,
    epochs: float | None,
    steps: int | None,
    bins: str | None,
    drop_last: bool,
) -> TrainingRun:
    """Return the run, with any noise, after a check of which options were given together."""
    if (epochs is None) == (steps is None):
        raise click.UsageError("give either --epochs or --steps")
    sized = batch_size is not None and dataset_size is not None
    if rate is None and not sized:
        raise click.UsageError("give --batch-size and --dataset-size, or --rate")
    if drop_last and loader != "opacus":
        raise click.UsageError("--drop-last belongs to --loader opacus")
    if bins is not None and loader != "allocation":
        raise click.UsageError("--bins belongs to --loader allocation")
    if loader == "opacus":
        if rate is not None or batch_size is None or dataset_size is None:
            raise click.UsageError("--loader opacus needs --batch-size and --dataset-size: its rate follows from both")
        return _opacus(batch_size, dataset_size, epochs, steps, drop_last=drop_last)
    sizes = {"batch_size": batch_size, "dataset_size": dataset_size, "sample_rate": rate}
    plan = {"epochs": epochs, "steps": steps, "sampling": LOADERS[loader], "bins": bins}
    return TrainingRun.of(noise_multiplier=1.0, **sizes, **plan)


def _opacus(
    batch_size: int, dataset_size: int, epochs: float | None, steps: int | None, *, drop_last: bool
) -> TrainingRun:
    """Return a run of a loader whose coin has probability 1/len(loader) and whose epochs have len(loader) steps.

    Both follow from the number of records, and so does what Opacus divides sums by: zero-out is what holds.
    """
    TrainingRun.of(noise_multiplier=1.0, batch_size=batch_size, dataset_size=dataset_size, epochs=epochs, steps=steps)
    exact = Fraction(dataset_size, batch_size)
    batches = math.floor(exact) if drop_last else math.ceil(exact)
    count = steps if epochs is None else math.ceil(Fraction(repr(epochs)) * batches)
    return TrainingRun.of(noise_multiplier=1.0, sample_rate=torch_coin(1 / batches), steps=count, neighbors=ZERO_OUT)
