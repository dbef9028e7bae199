"""A command group whose errors are one line each."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from cumulant.cli.hints import message_of
from cumulant.cli.whole_output import whole_output
from cumulant.errors import CumulantError

EXIT_CODE = 2  # for a question that cannot be answered, as for one that cannot be parsed
LONGEST = 400  # characters: a library error may quote a whole file


class OneLineErrors(click.Group):
    """Say what is wrong in one line on stderr and exit with code 2; a traceback is left to bugs."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        # The name is fixed so that `python -m cumulant` has the same help and completion.
        arguments: dict[str, Any] = {"args": args, "prog_name": prog_name or "cumulant", "complete_var": complete_var}
        if not standalone_mode:
            return super().main(standalone_mode=False, **arguments, **extra)
        _print_whatever_the_terminal_can()
        try:
            with whole_output():
                code = super().main(standalone_mode=False, **arguments, **extra) or 0
            sys.exit(code)
        except (click.ClickException, CumulantError) as error:
            _fail(error)
        except click.Abort:
            click.echo("Aborted", err=True)
            sys.exit(1)


def _fail(error: click.ClickException | CumulantError) -> NoReturn:
    message = message_of(error) if isinstance(error, click.ClickException) else str(error)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = f"{message} Try '{error.ctx.command_path} --help'"
    click.echo(f"Error: {textwrap.shorten(message, LONGEST, placeholder=' ...')}", err=True)
    sys.exit(EXIT_CODE)


def _print_whatever_the_terminal_can() -> None:
    """Names such as Rényi become R?nyi where the encoding lacks a letter, instead of ending in an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
