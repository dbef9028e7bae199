"""`cumulant sgd`: what a training run costs, in the words of people who train."""

from __future__ import annotations

import math

import click

from cumulant.answer import Method, relation_text, rounded_up
from cumulant.cli.output import print_explanation, print_json
from cumulant.cli.parameter_types import NUMBER, Delta
from cumulant.cli.question_options import delta_option, json_option, method_option
from cumulant.training import SAMPLINGS, TrainingRun

HELP = """Print what a run of DP-SGD costs, whom that protects, and what it assumes.

The noise multiplier is the noise / the clipping norm, whatever the sampling.

\b
Examples:
  cumulant sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 \\
      --epochs 60 --delta 1e-5
  cumulant sgd --noise-multiplier 4 --batch-size 256 --dataset-size 60000 \\
      --steps 1000 --delta 1e-5 --sampling without-replacement
  cumulant sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 \\
      --epochs 0.5 --delta 1e-6 --json
"""
FLAGS = {name.replace("_", "-"): name for name in SAMPLINGS}
POISSON, SUBSET = FLAGS


@click.command(help=HELP, short_help="The cost of a DP-SGD training run, in plain words.")
@click.option("--noise-multiplier", type=NUMBER, metavar="NUMBER", required=True, help="Noise / clipping norm.")
@click.option("--batch-size", type=click.IntRange(min=1), metavar="COUNT", required=True, help="Records per step.")
@click.option("--dataset-size", type=click.IntRange(min=1), metavar="COUNT", required=True, help="Records in all.")
@click.option("--epochs", type=NUMBER, metavar="NUMBER", help="Passes over the data; a fraction is fine.")
@click.option("--steps", type=click.IntRange(min=0), metavar="COUNT", help="Steps, instead of --epochs.")
@click.option(
    "--sampling",
    type=click.Choice(list(FLAGS)),
    default=POISSON,
    show_default=True,
    help="What the data loader really does in every step.",
)
@delta_option
@method_option
@json_option
def sgd(
    *,
    noise_multiplier: float,
    batch_size: int,
    dataset_size: int,
    epochs: float | None,
    steps: int | None,
    sampling: str,
    delta: Delta,
    method: Method,
    as_json: bool,
) -> None:
    if (epochs is None) == (steps is None):
        raise click.UsageError("give either --epochs or --steps")
    training = TrainingRun.of(
        noise_multiplier=noise_multiplier,
        batch_size=batch_size,
        dataset_size=dataset_size,
        epochs=epochs,
        steps=steps,
        sampling=FLAGS[sampling],
    )
    run = training.mechanism()
    explanation = run.explain(log_delta=delta.log, method=method)
    answer = explanation.guarantee.epsilon
    said = statement(training, answer)
    if as_json:
        question = {"asked": "sgd", "delta": delta.text, "log_delta": delta.log, "method": method}
        print_json(question, {"epsilon": answer}, run, explanation, training=numbers(training, epochs), statement=said)
    else:
        print_explanation(f"epsilon = {rounded_up(answer)} at delta = {delta.text}", explanation, statement=said)


def numbers(training: TrainingRun, epochs: float | None) -> dict[str, object]:
    """Return what was asked about, and what it became in the theorems."""
    return {
        "noise_multiplier": training.noise_multiplier,
        "batch_size": training.batch_size,
        "dataset_size": training.dataset_size,
        "epochs": epochs,
        "steps": training.steps,
        "sampling": training.sampling,
        "rate": training.rate,
        "effective_noise_multiplier": training.effective_noise_multiplier,
        "neighbors": relation_text(training.mechanism().neighbors),
    }


def statement(training: TrainingRun, epsilon: float) -> dict[str, str]:
    """Return in plain words what the number protects, and what must be true for it to hold."""
    shared = {
        "promise": _promise(training.sampling, epsilon),
        "sampling": _sampling(training),
        "noise": _noise(training),
    }
    return {
        **shared,
        "not this": "a loader that shuffles the data and walks through it in batches: that is neither Poisson "
        "sampling nor a fresh random batch, and this number does not hold for it.",
        "assumes": "each record's gradient is clipped by itself before it is summed; every step adds fresh noise; the "
        "sum is divided by a fixed number, not by the size of the batch it came from.",
    }


def _promise(sampling: str, epsilon: float) -> str:
    about = (
        "whether any one record was in the data (add-or-remove-one)"
        if sampling == FLAGS[POISSON]
        else "which of any two values one record had (replace-one; how many records there are is public)"
    )
    factor = f"e^epsilon = {rounded_up(math.exp(epsilon), digits=3)}" if epsilon < 700 else "e^epsilon"
    return (
        f"for whoever sees the model, or the model after every step, {about} changes the probability of anything they "
        f"may see by a factor of at most {factor}, plus delta."
    )


def _sampling(training: TrainingRun) -> str:
    b, n = training.batch_size, training.dataset_size
    if training.sampling == FLAGS[POISSON]:
        return (
            f"Poisson, {training.steps} steps: in every step every record must join by its own coin, with probability "
            f"{b}/{n}. Batches differ in size and may be empty; {b} is their mean."
        )
    return (
        f"without replacement, {training.steps} steps: every step must draw a fresh, uniformly random batch of exactly "
        f"{b} of the {n} records, whatever was drawn before."
    )


def _noise(training: TrainingRun) -> str:
    change = "adding or removing" if training.sampling == FLAGS[POISSON] else "replacing"
    size = "the clipping norm" if training.sampling == FLAGS[POISSON] else "twice the clipping norm"
    effective = f"{training.effective_noise_multiplier:.6g}"
    return (
        f"{training.noise_multiplier:.6g} x the clipping norm. As {change} one record changes a sum of clipped "
        f"gradients by up to {size}, the effective noise multiplier is {effective}."
    )
