"""Help that begins with what most people need: options of other mechanisms, of sampling and of training come later."""

from __future__ import annotations

from collections.abc import Mapping

import click

from cumulant.cli.mechanism_options import MECHANISMS, SAMPLINGS, Choice
from cumulant.loaders import ARGUMENTS

COMMON = ("noise_multiplier", "rate")  # of the mechanism and the sampling that most people have


def _options_of(choices: Mapping[str, Choice]) -> list[str]:
    found = dict.fromkeys(name for choice in choices.values() for name in choice.names)
    return [name for name in found if name not in COMMON]


HEADINGS: Mapping[str, tuple[str, ...]] = {
    "Sampling": ("sampling", *_options_of(SAMPLINGS)),
    "Training runs": ("loader", "batch_size", "dataset_size", "epochs", "accumulation_steps", *ARGUMENTS),
    "Other mechanisms": ("mechanism", "run", *_options_of(MECHANISMS)),
    "The picture": ("out", "title", "width", "height", "dpi", "font"),
}
"""Which options stand below which heading; what stands below none comes first."""


class HeadedCommand(click.Command):
    """A command whose options stand below headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Options": [], **{heading: [] for heading in HEADINGS}}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                heading = next((one for one, names in HEADINGS.items() if option.name in names), "Options")
                rows[heading].append(record)
        for heading, records in rows.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
