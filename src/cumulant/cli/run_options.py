"""The options that describe a whole run: a release and how often, or the words of training as `sgd` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, final

import click
from click.core import ParameterSource

from cumulant.cli.hints import OneOf, flag
from cumulant.cli.mechanism_options import HOW_DRAWN, SAMPLINGS, Release, mechanism_options
from cumulant.cli.parameter_types import COUNT
from cumulant.cli.sgd import OTHER_NAMES, planned, sgd
from cumulant.cli.sgd import SAMPLINGS as OF_TRAINING
from cumulant.loaders import ARGUMENTS

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism
    from cumulant.training import TrainingRun

OF_BOTH = ("rate", "max_batch", "records_per_user", "neighbors")  # of a sample, as of a training run
SHARED = ("noise_multiplier", "steps", *OF_BOTH)  # options that describe a release, and a training run, too
SIZES = (
    "batch_size",
    "dataset_size",
    "epochs",
    "accumulation_steps",
    *(name for name in ARGUMENTS if name not in OF_BOTH),
)
NAMED = OneOf(OF_TRAINING, also=OTHER_NAMES)
LOADER = click.Option(["--loader"], type=NAMED, metavar="NAME", help="The same as --sampling, of a training run.")
TRAINING_OPTIONS = (*(option for option in sgd.params if option.name in SIZES), LOADER)
EVERY = tuple(dict.fromkeys([*SAMPLINGS, *OF_TRAINING]))
SAMPLING = click.option(
    "--sampling", type=OneOf(EVERY, also=OTHER_NAMES), metavar="NAME", help=f"{', '.join(EVERY)}. {HOW_DRAWN}"
)


@final
@dataclass(frozen=True, slots=True)
class RunWords:
    """A run as its options describe it; what was left out is absent."""

    release: Release
    steps: int | None
    training: Mapping[str, Any]

    @property
    def is_given(self) -> bool:
        """Whether any option of a run was given."""
        return bool(self.release.options or self.training or self.steps is not None)

    def training_run(self) -> TrainingRun | None:
        """Return the training run, if words of training describe it; refuse options of other releases beside them."""
        if not self.training:
            return None
        word = flag(next(iter(self.training)))
        stray = [name for name in self.release.options if name not in SHARED]
        if stray:
            raise click.UsageError(f"{word} describes a training run: {flag(stray[0])} cannot be added")
        if "noise_multiplier" not in self.release.options:
            raise click.UsageError(f"{word} describes a training run: give --noise-multiplier, too")
        of_both: dict[str, Any] = {name: self.release.options.get(name) for name in OF_BOTH}
        plan = planned(steps=self.steps, **of_both, **self.training)
        return plan.with_noise(self.release.options["noise_multiplier"])

    @property
    def epochs(self) -> float | None:
        """How many passes over the data, if that was said."""
        return self.training.get("epochs")

    def mechanism(self) -> AbstractMechanism:
        """Return the run, however it is described."""
        training = self.training_run()
        if training is not None:
            return training.mechanism()
        return self.release.run(steps=1 if self.steps is None else self.steps)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a run, but for TRAINING_OPTIONS; it takes the outcome as `words`."""

    @wraps(command)
    def with_run(release: Release, steps: int | None, **parameters: Any) -> Any:
        options = {name: parameters.pop(name) for name in (*SIZES, "loader")}
        training = {name: value for name, value in options.items() if is_typed(name)}
        if "loader" in training:
            training["sampling"] = training.pop("loader")
        sampling = release.options.get("sampling")
        if "sampling" not in training and sampling in OF_TRAINING and (training or sampling not in SAMPLINGS):
            release = Release({name: it for name, it in release.options.items() if name != "sampling"})
            training["sampling"] = sampling
        return command(words=RunWords(release, steps, training), **parameters)

    times = click.option("--steps", type=COUNT, metavar="COUNT", help="How many times it is released.  [default: 1]")
    return mechanism_options(times(with_run), sampling=SAMPLING)


def is_typed(name: str) -> bool:
    """Return whether the command that runs was given an option on its line, and not by default or the environment."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
