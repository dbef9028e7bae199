"""How answers are printed: for people within 80 columns, for programs as one JSON object."""

from __future__ import annotations

import json
import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from cumulant.cli.exit_codes import exit_code_of
from cumulant.cli.hints import message_with_hint

if TYPE_CHECKING:
    from cumulant.answer import Explanation

WIDEST = 80  # columns
MOST_CHARACTERS = 320  # of an item: a release that is described by a long table is cut short; --json has it whole
LABEL = 12  # columns of "proven by", as an explanation has them


def print_explanation(headline: str, explanation: Explanation, *, rows: Mapping[str, str], colour: str) -> None:
    """Print an answer and, below it, what a command states about it and what the explanation says of its proof."""
    print_statement(headline, rows.items(), colour=colour)
    for label, text in explanation.rows:
        for line in _wrapped(f"  {label:<{LABEL}}{text}"):
            click.echo(line)


def print_statement(headline: str, statement: Iterable[tuple[str, str]], *, colour: str = "green") -> None:
    """Print an answer and what is stated about it; no label goes on with the one before."""
    print_headline(headline, colour=colour)
    for label, text in statement:
        for line in _wrapped(f"  {label:<{LABEL}}{text}", most=None):
            click.echo(line)


def print_headline(headline: str, *, colour: str = "green") -> None:
    """Print an answer; `click` drops the colour where the output is no terminal."""
    for line in _wrapped(headline):
        click.echo(click.style(line, fg=colour, bold=True))


def print_json_error(error: BaseException) -> None:
    """Print why there is no answer: the class of the error, its words, the exit code, and what else the error knows."""
    from cumulant.report.document import plain_value

    usage = isinstance(error, click.ClickException)
    context = error.ctx if isinstance(error, click.UsageError) else None
    known = {} if usage else {name: value for name, value in vars(error).items() if not name.startswith("_")}
    content = {
        "kind": "UsageError" if usage else type(error).__name__,
        "message": message_of(error),
        "exit_code": int(exit_code_of(type(error))),
        **({} if context is None else {"help": f"{context.command_path} --help"}),
        **known,
    }
    click.echo(json.dumps({"error": plain_value(content)}, indent=2, allow_nan=False, default=str))


def message_of(error: BaseException) -> str:
    """Return what an error says."""
    if isinstance(error, click.ClickException):
        return message_with_hint(error)
    if isinstance(error, click.Abort):
        return "interrupted"
    if isinstance(error, OSError) and error.strerror:
        return f"the output cannot be written: {error.strerror}" if error.filename is None else error.strerror
    return str(error) or type(error).__name__


def print_data(content: Mapping[str, Any]) -> None:
    """Print one JSON object, with the version of the library."""
    from cumulant import __version__

    print_plain({"version": __version__, **content})


def print_plain(content: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    click.echo(json.dumps(content, indent=2, allow_nan=False))


def columns() -> int:
    """Return how wide the output may be: as the terminal, within limits."""
    return max(40, min(WIDEST, shutil.get_terminal_size().columns))


def _wrapped(line: str, *, most: int | None = MOST_CHARACTERS) -> Iterator[str]:
    """Break a line to the terminal's width; what follows is indented as the text beside the label is."""
    label = re.match(r" *(\S+( \S+)* {2,})?", line)
    indent = " " * (label.end() if label else 0)
    width = columns()
    lines = None if most is None else math.ceil(most / width)
    yield from textwrap.wrap(
        line, width, subsequent_indent=indent, break_on_hyphens=False, max_lines=lines, placeholder=" ..."
    )
