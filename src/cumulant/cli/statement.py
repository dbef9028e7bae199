"""`cumulant statement`: what a run promises, in words, for a model card or a program."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import click

from cumulant.cli.headings import HeadedCommand
from cumulant.cli.output import print_data
from cumulant.cli.parameter_types import SIZE
from cumulant.cli.question_options import delta_option, json_option
from cumulant.cli.run_options import TRAINING_OPTIONS, RunWords, run_options
from cumulant.report.document import writing
from cumulant.report.intervals import as_read
from cumulant.report.statement import LABEL_WIDTH, WIDTH
from cumulant.report.training_words import loader_words, numbers
from cumulant.report.typed import Delta

HELP = """Print what a run promises, to whom, by which theorem, and what is not covered.

A run is described as for `epsilon`, by --run FILE, or in the words of `sgd`: then it says what the data loader must do.

\b
Examples:
  cumulant statement --noise-multiplier 1 --rate 0.01 --steps 1000 \\
      --delta 1e-5
  cumulant statement --run run.json --delta 1e-5 --format markdown
  cumulant statement --noise-multiplier 1 --batch-size 256 \\
      --dataset-size 60000 --epochs 60 --delta 1e-5 --front-matter
  cumulant statement --run run.json --delta 1e-5 --json
"""
FORMATS = ("text", "markdown", "json", "yaml")


@click.command(cls=HeadedCommand, help=HELP, short_help="What a run promises, in words.", params=list(TRAINING_OPTIONS))
@run_options
@delta_option
@click.option("--user-records", type=SIZE, metavar="COUNT", default="1", help="Protect people with up to so many.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="yaml: front matter alone.  [default: text]")
@click.option(
    "--front-matter", is_flag=True, help="Begin with the YAML front matter of a model card, go on in Markdown."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Instead of printing.")
@json_option
def statement(
    *,
    words: RunWords,
    delta: Delta,
    user_records: int,
    form: str | None,
    front_matter: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    chosen = _format(form, front_matter=front_matter, as_json=as_json)
    text = _written(words, delta, user_records, chosen, front_matter=front_matter)
    if out is None:
        click.echo(text)
        return
    with writing(out):
        out.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print_data({"files": [str(out)]})
    else:
        click.echo(f"wrote {out}")


def _format(form: str | None, *, front_matter: bool, as_json: bool) -> str:
    """Return the one format that was asked for, in whichever words."""
    asked = {form} - {None} | ({"markdown"} if front_matter else set()) | ({"json"} if as_json else set())
    if len(asked) > 1:
        raise click.UsageError("--front-matter goes with --format markdown, --json is --format json: give one of them")
    return next(iter(asked), None) or "text"


def _written(words: RunWords, delta: Delta, user_records: int, form: str, *, front_matter: bool) -> str:
    """Return a statement; what a training run asks of its data loader stands below it."""
    from cumulant.report.front_matter import front_matter as block_of
    from cumulant.report.statement import state

    made = state(words.mechanism(), **as_read(delta), user_records=user_records)
    training = words.training_run()
    said = {} if training is None else loader_words(training)
    more = {} if training is None else {"training": {**numbers(training, words.epochs), "words": said}}
    match form:
        case "text":
            return "\n".join((made.written("text"), *(line for row in said.items() for line in _wrapped(*row))))
        case "json":
            return json.dumps({**made.to_dict(), **more}, indent=2, allow_nan=False)
        case "yaml":
            return block_of(made, **more)
    text = "\n".join((made.written("markdown"), *(f"\n**{label}**: {text}" for label, text in said.items())))
    return f"{block_of(made, **more)}\n\n{text}" if front_matter else text


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(f"  {label:<{LABEL_WIDTH}}{text}", WIDTH, subsequent_indent=" " * (2 + LABEL_WIDTH))
