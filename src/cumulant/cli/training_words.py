"""What a training run protects and assumes, in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable

from cumulant.answer import relation_text
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from cumulant.printed import factor_up, given
from cumulant.report.assumptions import BOUNDED, assumptions_of
from cumulant.report.statement import NOT_COVERED, attacker_words
from cumulant.report.typed import Delta
from cumulant.training import TrainingRun

CLIPPED = "each record's gradient is clipped by itself before it is summed"
PROTECTED = {
    ADD_REMOVE: "whether any one record was in the data (add-or-remove-one)",
    REPLACE_ONE: "which of any two values one record had (replace-one; how many records there are is public)",
    ZERO_OUT: "whether any one record was in the data or a null record, which adds nothing, in its place (zero-out; "
    "how many records there are is public)",
}
"""What each relation protects."""


BINS = {
    None: "there is one epoch",
    "fresh": "it draws anew in every epoch",
    "kept": "it keeps in every epoch what it drew",
}
"""What is done with batches that records drew."""


def numbers(training: TrainingRun, loader: str, epochs: float | None) -> dict[str, object]:
    """Return what was asked about, and what it became in the theorems."""
    return {
        "noise_multiplier": training.noise_multiplier,
        "batch_size": training.batch_size,
        "dataset_size": training.dataset_size,
        "epochs": epochs,
        "epochs_begun": training.epochs_begun,
        "bins": training.bins,
        "steps": training.steps,
        "loader": loader,
        "sampling": training.sampling,
        "rate": training.rate,
        "effective_noise_multiplier": training.effective_noise_multiplier,
        "neighbors": relation_text(training.neighbors),
    }


def statement(
    training: TrainingRun, epsilon: float, loader: str, *, noise_text: Callable[[float], str], delta: Delta
) -> dict[str, str]:
    """Return in plain words what the number protects, and what must be true for it to hold.

    `noise_text` writes a noise: as it was given, or rounded up where it was searched.
    """
    run = training.mechanism()
    return {
        "promise": _promise(training, epsilon),
        "attacker": attacker_words(run) + ".",
        "sampling": _sampling(training, loader),
        "noise": _noise(training, noise_text),
        **remark(delta, training.dataset_size),
        **_not_this(training),
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
    factor = shown if shown == "e^epsilon" else f"e^epsilon = {shown}"
    return (
        f"for whoever sees the model, or the model after every step, {about} changes the probability of anything they "
        f"may see by a factor of at most {factor}, plus delta."
    )


def loader_words(training: TrainingRun, loader: str) -> dict[str, str]:
    """Return what the data loader must do, and what it must not be."""
    return {"sampling": _sampling(training, loader), **_not_this(training)}


def _sampling(training: TrainingRun, loader: str) -> str:
    b, n = training.batch_size, training.dataset_size
    share = f"{b}/{n}" if b is not None else given(training.rate)
    match training.sampling:
        case "poisson":
            mean = f"; {b} is their mean" if b is not None else ""
            rule = "" if loader != "opacus" else " (1/len(loader), on the grid of 2^-24 that torch.rand has)"
            return (
                f"Poisson, {training.steps} steps: in every step every record must join by its own coin, with "
                f"probability {share}{rule}. Batches differ in size and may be empty{mean}."
            )
        case "without_replacement":
            exactly = f"exactly {b} of the {n} records" if b is not None else f"exactly {share} of all records"
            return (
                f"without replacement, {training.steps} steps: every step must draw a fresh, uniformly random batch of "
                f"{exactly}, whatever was drawn before."
            )
        case "shuffled":
            return (
                f"shuffled, {training.epochs_begun} epochs begun, {training.steps} steps: every epoch uses every "
                "record once, in an order that does not look at the records. No amplification is counted."
            )
        case _:
            return (
                f"random allocation, {training.epochs_begun} epochs begun of {training.batches} steps each: every "
                f"record must draw its batch by itself, uniformly, and joins that one only; {BINS[training.bins]}. "
                "Batches differ in size, and none is filled up or cut."
            )


def _not_this(training: TrainingRun) -> dict[str, str]:
    if training.sampling == "shuffled":
        return {}
    why = "that is neither Poisson sampling nor a fresh random batch"
    if training.sampling == "random_allocation":
        why = "its batches have one size, so that records push one another out"
    return {
        "not this": f"a loader that shuffles the data and walks through it in batches: {why}, and this number does not "
        "hold for it."
    }


def _noise(training: TrainingRun, digits: Callable[[float], str]) -> str:
    joins = training.neighbors.joins
    change = "replacing" if training.neighbors is REPLACE_ONE else "adding or removing"
    size = "the clipping norm" if joins else "twice the clipping norm"
    return (
        f"{digits(training.noise_multiplier)} x the clipping norm. As {change} one record changes a sum of clipped "
        f"gradients by up to {size}, the effective noise multiplier is {digits(training.effective_noise_multiplier)}."
    )
