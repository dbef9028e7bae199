"""`cumulant man`: the manual page, made from the help of every command."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from cumulant.cli.question_options import json_option

HELP = """Print the manual page of all commands, in the form that man reads.

\b
Examples:
  cumulant man > cumulant.1
  cumulant man | man -l -
"""


@click.command(name="man", help=HELP, short_help="The manual page of all commands.")
@json_option
@click.pass_context
def man(context: click.Context, as_json: bool) -> None:
    text = "\n".join(page(root_of(context.find_root().command)))
    click.echo(json.dumps({"manual": text}) if as_json else text)


def root_of(command: click.Command) -> click.Context:
    """Return the context of the command as it is called by its own name."""
    return command.context_class(command, info_name="cumulant", **command.context_settings)


def page(root: click.Context) -> Iterator[str]:
    """Yield the lines of the page: what it is, then a section for each command."""
    from cumulant import __version__

    yield f'.TH CUMULANT 1 "" "cumulant {__version__}" "User Commands"'
    yield from (".SH NAME", r"cumulant \- exact, proven differential-privacy accounting")
    for each in commands(root):
        yield f".SH {_plain(each.command_path.upper())}"
        yield from (".nf", *(_plain(line) for line in each.command.get_help(each).splitlines()), ".fi")


def commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command and those of all below it."""
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below.context_class(below, info_name=name, parent=context))


def _plain(line: str) -> str:
    """Return a line in which nothing is an instruction to the typesetter."""
    text = line.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text
