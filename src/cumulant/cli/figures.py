"""`cumulant figures`: the papers' figures, redrawn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cumulant.cli.hints import OneOf, asked_back, nearest
from cumulant.cli.output import print_data
from cumulant.cli.question_options import json_option
from cumulant.printed import counted

if TYPE_CHECKING:
    from cumulant.papers.sheet import Sheet

HELP = """Redraw the figures of the papers that this library rests on.

They are wang-3 to wang-10, slides-2, slides-composition, zhu-wang-5, balle-1 and asoodeh-1 to asoodeh-3; all of them
take a minute or two.

\b
Examples:
  cumulant figures --out figures
  cumulant figures --out figures --only wang-4 --only asoodeh-2 --format png
  cumulant figures --only asoodeh-1 --json
"""


def _checked_names(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    from cumulant.papers import CATALOGUE

    for name in names:
        if name not in CATALOGUE:
            said = f"there is no figure {name!r}, but {', '.join(CATALOGUE)}"
            raise click.BadParameter(asked_back(said, nearest(name, CATALOGUE), end=""))
    return names or tuple(CATALOGUE)


def _completed_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from cumulant.papers import CATALOGUE

    return [name for name in CATALOGUE if name.startswith(incomplete)]


@click.command(help=HELP, short_help="The papers' figures, redrawn.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Where the pictures go; made if new."
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    callback=_checked_names,
    shell_complete=_completed_names,
    help="This figure; may be repeated.  [default: all]",
)
@click.option(
    "--format",
    "suffix",
    type=OneOf(["svg", "png", "pdf"]),
    default="svg",
    show_default=True,
    help="Of pictures.",
)
@json_option
def figures(out: Path | None, only: tuple[str, ...], suffix: str, as_json: bool) -> None:
    if out is None and not as_json:
        raise click.UsageError("say where the pictures go: --out DIR, or --json for their numbers")
    sheets = {}
    for place, name in enumerate(only, start=1):
        click.echo(f"{place}/{len(only)} {name} ", err=True, nl=False)  # before the work: what is being waited for
        started = time.monotonic()
        sheets[name] = _redrawn(name, None if out is None else out / f"{name}.{suffix}")
        click.echo(f"{time.monotonic() - started:.1f} s", err=True)
    if as_json:
        print_data({"figures": {name: sheet.to_dict() for name, sheet in sheets.items()}})
    else:
        click.echo(f"{counted(len(only), 'figure')} in {out}")


def _redrawn(name: str, file: Path | None) -> Sheet:
    from cumulant.papers import CATALOGUE
    from cumulant.report.document import writing
    from cumulant.report.draw import save

    sheet = CATALOGUE[name]()
    if file is not None:
        with writing(file.parent, done="made"):
            file.parent.mkdir(parents=True, exist_ok=True)
        save(sheet.draw(), file)
    return sheet
