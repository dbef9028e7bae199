"""What a training run protects and assumes, in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable

from cumulant.answer import relation_text
from cumulant.loaders import ARGUMENTS
from cumulant.loaders.loader import AbstractLoader
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from cumulant.printed import factor_up
from cumulant.report.assumptions import BOUNDED, assumptions_of
from cumulant.report.statement import ABOUT, NOT_COVERED, attacker_words
from cumulant.report.typed import Delta
from cumulant.sampling.poisson_users import records_per_person
from cumulant.training import TrainingRun

CLIPPED = "each record's gradient is clipped by itself before it is summed"
PROTECTED = {
    ADD_REMOVE: "whether any one record was in the data (add-or-remove-one)",
    REPLACE_ONE: "which of any two values one record had (replace-one; how many records there are is public)",
    ZERO_OUT: "whether any one record was in the data or a null record, which adds nothing, in its place (zero-out; "
    "how many records there are is public)",
}
"""What each relation protects."""


def numbers(training: TrainingRun, epochs: float | None) -> dict[str, object]:
    """Return what was asked about, and what it became in the theorems."""
    loader, schedule = training.loader, training.schedule
    return {
        "noise_multiplier": training.noise_multiplier,
        "batch_size": None if schedule.batch_size is None else schedule.batch_size // schedule.physical_batches,
        "accumulation_steps": schedule.physical_batches,
        "dataset_size": schedule.dataset_size,
        "epochs": epochs,
        "epochs_begun": schedule.epochs_begun if loader.costs_by_epoch else None,
        **{argument: getattr(loader, argument, None) for argument in ARGUMENTS},
        "steps": schedule.steps,
        "sampling": loader.name,
        "rate": schedule.rate,
        "effective_noise_multiplier": training.effective_noise_multiplier,
        "neighbors": relation_text(training.neighbors),
    }


def statement(
    training: TrainingRun, epsilon: float, *, noise_text: Callable[[float], str], delta: Delta
) -> dict[str, str]:
    """Return in plain words what the number protects, and what must be true for it to hold.

    `noise_text` writes a noise: as it was given, or rounded up where it was searched.
    """
    run = training.mechanism()
    return {
        "promise": _promise(training, epsilon),
        "attacker": attacker_words(run) + ".",
        "sampling": training.loader.words(training.schedule),
        "noise": _noise_words(training, noise_text),
        **remark(delta, training.schedule.dataset_size),
        **_not_this(training.loader),
        "assumes": "; ".join([CLIPPED, *(text for text in assumptions_of(run) if text != BOUNDED)]) + ".",
        "uncovered": "; ".join(NOT_COVERED) + ".",
    }


def remark(delta: Delta, records: int | None) -> dict[str, str]:
    """Return what to think about where δ allows that a record is published: one of n, with probability 1/n."""
    if records is None or delta.log < -math.log(records):
        return {}
    text = f"delta is not below 1/{records}: to publish one record drawn at random would keep this promise, too."
    return {"remark": text}


def _promise(training: TrainingRun, epsilon: float) -> str:
    about, shown = PROTECTED[training.neighbors], factor_up(epsilon)
    records = records_per_person(release for release, _ in training.mechanism().releases())
    if records > 1:
        about = f"{ABOUT[training.neighbors][1].format(k=records)} ({relation_text(training.neighbors)})"
    factor = shown if shown == "e^epsilon" else f"e^epsilon = {shown}"
    return (
        f"for whoever sees the model, or the model after every step, {about} changes the probability of anything they "
        f"may see by a factor of at most {factor}, plus delta."
    )


def loader_words(training: TrainingRun) -> dict[str, str]:
    """Return what the data loader must do, and what it must not be."""
    return {"sampling": training.loader.words(training.schedule), **_not_this(training.loader)}


def _not_this(loader: AbstractLoader) -> dict[str, str]:
    if loader.shuffled_instead is None:
        return {}
    return {
        "not this": f"a loader that shuffles the data and walks through it in batches: {loader.shuffled_instead}, and "
        "this number does not hold for it."
    }


def _noise_words(training: TrainingRun, digits: Callable[[float], str]) -> str:
    return (
        f"{digits(training.noise_multiplier)} x the clipping norm. As {training.loader.moves(training.neighbors)}, the "
        f"effective noise multiplier is {digits(training.effective_noise_multiplier)}."
    )
