"""The command `cumulant` and its subcommands."""

from __future__ import annotations

import os

import click

from cumulant.cli.exit_codes import table_for_help
from cumulant.cli.narrow_help import NarrowContext
from cumulant.cli.one_line_errors import OneLineErrors
from cumulant.version import __version__

HELP = f"""How much privacy did this computation spend, and how much may I still run?

Every number is a proven bound, rounded to the safe side, and comes with the theorem that proves it.

\b
Examples:
  cumulant epsilon --noise-multiplier 20 --steps 1000 --delta 1e-5
  cumulant delta --mechanism laplace --scale 2 --steps 10 --epsilon 1
  cumulant epsilon --run run.json --delta 1e-5 --json
  cumulant sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 \\
      --epochs 60 --delta 1e-5
  cumulant noise --epsilon 1 --delta 1e-5 --rate 0.01 --steps 1000

\b
Exit codes; with --json an error is {{"error": {{"kind", "message", ...}}}}:
{table_for_help()}

\b
Shell completion, for this session or in your shell's start-up file:
  bash:  eval "$(_CUMULANT_COMPLETE=bash_source cumulant)"
  zsh:   eval "$(_CUMULANT_COMPLETE=zsh_source cumulant)"
  fish:  _CUMULANT_COMPLETE=fish_source cumulant | source
"""


@click.group(
    cls=OneLineErrors,
    help=HELP,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "--version")
@click.pass_context
def main(context: click.Context) -> None:
    if os.environ.get("NO_COLOR"):  # https://no-color.org
        context.color = False
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


main.context_class = NarrowContext
main.found_in = {
    **dict.fromkeys(("epsilon", "delta", "compare"), "cost"),
    **dict.fromkeys(("noise", "steps", "rate"), "plans"),
    **{own: own for own in ("sgd", "banded", "check", "statement", "plot", "figures", "ledger", "page")},
    "man": "manual",
}

if __name__ == "__main__":
    main()
