"""A question of the page: one JSON object, every value read as the command line reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from cumulant.errors import CumulantError
from cumulant.loaders import ARGUMENTS
from cumulant.mechanisms.data import unique_keys
from cumulant.report.typed import Delta, number, probability, whole_number
from cumulant.training import TrainingRun

LONGEST = 2000  # characters of a question
LONGEST_VALUE = 60  # characters of a number
READERS: Mapping[str, Callable[[str], Any]] = {
    "noise_multiplier": number,
    "epsilon": number,
    "batch_size": whole_number,
    "dataset_size": whole_number,
    "epochs": number,
    "delta": probability,
    "max_batch": whole_number,
    "records_per_user": whole_number,
    "accumulation_steps": whole_number,
}
"""How each number is read."""
SIZES = ("batch_size", "dataset_size", "epochs")
WORDS = ("ask", "sampling", "account", "bins")
SAMPLING = "poisson"  # if nothing is said
MOST_SHOWN = 40  # characters of what was typed, in an error


class RefusedQuestion(CumulantError):
    """A question cannot be read; `field` names what it is about."""

    def __init__(self, message: str, *, kind: str = "InvalidParameter", field: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.field = kind, field


@final
@dataclass(frozen=True)
class Question:
    """What was asked, as it was typed."""

    typed: Mapping[str, Any]

    @classmethod
    def of(cls, text: str) -> Question:
        """Read a question; refuse what is none."""
        if len(text) > LONGEST:
            raise RefusedQuestion(f"a question has at most {LONGEST} characters", kind="TooLong")
        try:
            typed = json.loads(text, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError):
            raise RefusedQuestion("a question is one JSON object, each key once", kind="Malformed") from None
        if not isinstance(typed, dict):
            raise RefusedQuestion("a question is one JSON object", kind="Malformed")
        for name in typed:
            if name not in (*READERS, *WORDS, *ARGUMENTS):
                known = ", ".join((*WORDS, *READERS))
                raise RefusedQuestion(f"a question has no {name[:MOST_SHOWN]!r}; it has {known}", kind="Malformed")
        return cls(typed)

    def word(self, name: str) -> str | None:
        """Return a name; None if nothing is said."""
        value = self.typed.get(name)
        if value is not None and not (isinstance(value, str) and len(value) <= LONGEST):
            raise RefusedQuestion(f"{name} must be a text", field=name)
        return value

    def read(self, name: str) -> Any:
        """Return a number; refuse a missing one."""
        value = self.typed.get(name)
        text = "" if value is None or isinstance(value, bool | list | dict) else str(value).strip()
        said = name.replace("_", " ")
        if not text or len(text) > LONGEST_VALUE:
            raise RefusedQuestion(f"{said} must be a number", field=name)
        try:
            return READERS[name](text)
        except ValueError as error:
            raise RefusedQuestion(f"{said}: {error}", field=name) from None

    @property
    def sampling(self) -> str:
        return self.word("sampling") or SAMPLING

    @cached_property
    def delta(self) -> Delta:
        found: Delta = self.read("delta")
        return found

    @cached_property
    def noise_multiplier(self) -> float:
        return float(self.read("noise_multiplier"))

    @cached_property
    def epsilon(self) -> float:
        return float(self.read("epsilon"))

    @cached_property
    def plan(self) -> TrainingRun:
        """The run, with noise still to be chosen."""
        return self.planned()

    @cached_property
    def training(self) -> TrainingRun:
        """The run with its noise."""
        return self.plan.with_noise(self.noise_multiplier)

    @cached_property
    def of_loader(self) -> dict[str, Any]:
        """What some loaders take and others do not."""
        said = {name: self.typed[name] for name in ARGUMENTS if self.typed.get(name) not in (None, "")}
        return {name: self.read(name) if name in READERS else value for name, value in said.items()}

    def planned(self, *, sampling: str | None = None, **changed: Any) -> TrainingRun:
        """Return the run with another loader, which takes no arguments but those given, or with other sizes."""
        mine = self.of_loader if sampling is None else {}
        sizes = {name: changed.pop(name) if name in changed else self.read(name) for name in SIZES}
        name = self.sampling if sampling is None else sampling
        return TrainingRun.of(noise_multiplier=1.0, sampling=name, **sizes, **{**mine, **changed})


def finite(value: float) -> float | str:
    """Return a number that JSON has, or the name of the infinity."""
    return value if math.isfinite(value) else str(value)
