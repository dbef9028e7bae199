"""The command `cumulant` and its subcommands."""

from __future__ import annotations

import click

from cumulant import __version__
from cumulant.cli.delta import delta
from cumulant.cli.epsilon import epsilon
from cumulant.cli.one_line_errors import OneLineErrors

HELP = """How much privacy did this computation spend?

Every number is a proven bound, rounded to the safe side, and comes with the theorem that proves it.

\b
Examples:
  cumulant epsilon --noise-multiplier 20 --steps 1000 --delta 1e-5
  cumulant delta --mechanism laplace --scale 2 --steps 10 --epsilon 1
  cumulant epsilon --run run.json --delta 1e-5 --json

\b
Shell completion, for this session or in your shell's start-up file:
  bash:  eval "$(_CUMULANT_COMPLETE=bash_source cumulant)"
  zsh:   eval "$(_CUMULANT_COMPLETE=zsh_source cumulant)"
  fish:  _CUMULANT_COMPLETE=fish_source cumulant | source
"""


@click.group(cls=OneLineErrors, help=HELP, invoke_without_command=True)
@click.version_option(__version__, "--version")
@click.pass_context
def main(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


main.add_command(epsilon)
main.add_command(delta)

if __name__ == "__main__":
    main()
