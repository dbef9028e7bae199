"""A command group whose errors are one line each for people, and one JSON object for programs."""

from __future__ import annotations

import errno
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from cumulant.cli.exit_codes import exit_code_of
from cumulant.cli.narrow_help import narrowed
from cumulant.cli.output import message_of, print_json_error
from cumulant.errors import CumulantError

READER_GONE = (errno.EPIPE, errno.ESHUTDOWN)  # `cumulant ... | head`: nothing is wrong
LONGEST = 400  # characters: a library error may quote a whole file


class OneLineErrors(click.Group):
    """Say what is wrong in one line on stderr, or with --json as an object on standard output, and exit by the table.

    A traceback is left to bugs. Commands are `found_in` modules of this room, which are imported when they are needed.
    """

    found_in: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.found_in})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.found_in and cmd_name not in self.commands:
            module = import_module(f"cumulant.cli.{self.found_in[cmd_name]}")
            self.add_command(narrowed(getattr(module, cmd_name)))
        return super().get_command(ctx, cmd_name)

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
        as_json = _asks_for_json(sys.argv[1:] if args is None else args)
        try:
            code = super().main(standalone_mode=False, **arguments, **extra) or 0
            _flush()  # now, where a full disk is an error that can be told
        except (click.ClickException, click.Abort, CumulantError, OSError) as error:
            _fail(error, as_json=as_json)
        except Exception as error:
            if as_json:
                print_json_error(error)
            raise
        sys.exit(code)


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Return whether --json stands anywhere before `--`: a line that cannot be parsed has no other way to say so."""
    options = arguments[: list(arguments).index("--")] if "--" in arguments else arguments
    return any(argument.partition("=")[0] == "--json" for argument in options)


def _fail(error: click.ClickException | click.Abort | CumulantError | OSError, *, as_json: bool) -> NoReturn:
    if isinstance(error, OSError) and error.errno in READER_GONE:
        _drop_what_output_does_not_take()
        sys.exit(1)
    if not (as_json and _told_as_json(error)):
        said = textwrap.shorten(_message(error), LONGEST, placeholder=" ...")
        click.echo("Aborted" if isinstance(error, click.Abort) else f"Error: {said}", err=True)
    _drop_what_output_does_not_take()
    sys.exit(int(exit_code_of(type(error))))


def _told_as_json(error: BaseException) -> bool:
    try:
        print_json_error(error)
    except OSError:  # the output may be what failed
        return False
    return True


def _message(error: BaseException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message_of(error)} Try '{error.ctx.command_path} --help'"
    return message_of(error)


def _flush() -> None:
    if sys.stdout is not None:  # as it is where a program is started without one
        sys.stdout.flush()


def _drop_what_output_does_not_take() -> None:
    """Leave what waits to be written on a full disk: the interpreter would try again when it ends, and fail again."""
    try:
        _flush()
    except OSError:
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def _print_whatever_the_terminal_can() -> None:
    """Names such as Rényi become R?nyi where the encoding lacks a letter, instead of ending in an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
