"""What a training run protects and assumes, in plain words."""

from __future__ import annotations

import math

from cumulant.answer import Explanation, relation_text
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from cumulant.printed import rounded_up
from cumulant.report.assumptions import BOUNDED, assumptions_of
from cumulant.report.statement import NOT_COVERED, attacker_words
from cumulant.training import TrainingRun

CLIPPED = "each record's gradient is clipped by itself before it is summed"
PROTECTED = {
    ADD_REMOVE: "whether any one record was in the data (add-or-remove-one)",
    REPLACE_ONE: "which of any two values one record had (replace-one; how many records there are is public)",
    ZERO_OUT: "whether any one record was in the data or a null record, which adds nothing, in its place (zero-out; "
    "how many records there are is public)",
}
"""What each relation protects."""


def numbers(training: TrainingRun, loader: str, epochs: float | None) -> dict[str, object]:
    """Return what was asked about, and what it became in the theorems."""
    return {
        "noise_multiplier": training.noise_multiplier,
        "batch_size": training.batch_size,
        "dataset_size": training.dataset_size,
        "epochs": epochs,
        "epochs_begun": training.epochs_begun,
        "steps": training.steps,
        "loader": loader,
        "sampling": training.sampling,
        "rate": training.rate,
        "effective_noise_multiplier": training.effective_noise_multiplier,
        "neighbors": relation_text(training.neighbors),
    }


def statement(training: TrainingRun, run: AbstractMechanism, explanation: Explanation, loader: str) -> dict[str, str]:
    """Return in plain words what the number protects, and what must be true for it to hold."""
    return {
        "promise": _promise(training, explanation.guarantee.epsilon),
        "attacker": attacker_words(run) + ".",
        "sampling": _sampling(training, loader),
        "noise": _noise(training),
        **_not_this(training),
        "assumes": "; ".join([CLIPPED, *(text for text in assumptions_of(run) if text != BOUNDED)]) + ".",
        "uncovered": "; ".join(NOT_COVERED) + ".",
    }


def _promise(training: TrainingRun, epsilon: float) -> str:
    about = PROTECTED[training.neighbors]
    factor = f"e^epsilon = {rounded_up(math.exp(epsilon), digits=3)}" if epsilon < 700 else "e^epsilon"
    return (
        f"for whoever sees the model, or the model after every step, {about} changes the probability of anything they "
        f"may see by a factor of at most {factor}, plus delta."
    )


def loader_words(training: TrainingRun, loader: str) -> dict[str, str]:
    """Return what the data loader must do, and what it must not be."""
    return {"sampling": _sampling(training, loader), **_not_this(training)}


def _sampling(training: TrainingRun, loader: str) -> str:
    b, n = training.batch_size, training.dataset_size
    share = f"{b}/{n}" if b is not None else f"{training.rate:.10g}"
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
                f"random allocation, {training.epochs_begun} epochs begun, {training.steps} steps: in every epoch "
                "every record must draw its batch by itself, and joins that one only. No amplification is counted."
            )


def _not_this(training: TrainingRun) -> dict[str, str]:
    if training.epochs_begun is not None:
        return {}
    return {
        "not this": "a loader that shuffles the data and walks through it in batches: that is neither Poisson "
        "sampling nor a fresh random batch, and this number does not hold for it."
    }


def _noise(training: TrainingRun) -> str:
    joins = training.neighbors.joins
    change = "replacing" if training.neighbors is REPLACE_ONE else "adding or removing"
    size = "the clipping norm" if joins else "twice the clipping norm"
    return (
        f"{training.noise_multiplier:.6g} x the clipping norm. As {change} one record changes a sum of clipped "
        f"gradients by up to {size}, the effective noise multiplier is {training.effective_noise_multiplier:.6g}."
    )
