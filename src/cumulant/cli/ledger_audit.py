"""`cumulant ledger history | report | verify | export`: for whoever has to answer for a budget."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from cumulant.cli.ledger_options import (
    account_argument,
    any_account_argument,
    ledger_command,
    ledger_option,
    opened,
)
from cumulant.cli.output import print_data, print_statement
from cumulant.cli.question_options import json_option
from cumulant.printed import counted
from cumulant.report.document import writing

if TYPE_CHECKING:
    from cumulant.ledger import Ledger

HISTORY_HELP = """Print the entries of an account, oldest first.

\b
Examples:
  cumulant ledger history customers
  cumulant ledger history customers --after 100 --json
"""
REPORT_HELP = """Write the report of an account: .html, .pdf, or .md with a picture beside it.

\b
Examples:
  cumulant ledger report customers --out report.html
  cumulant ledger report customers --out report.md
  cumulant ledger report customers --out report.pdf
  cumulant ledger report customers --json
"""
VERIFY_HELP = """Replay the history of an account, or of all, and name the first place that is wrong.

Heads that were kept elsewhere, a file of --json of an earlier verify, must be part of the history. An export can be
verified without the database.

\b
Examples:
  cumulant ledger verify
  cumulant ledger verify customers --json > heads.json
  cumulant ledger verify --heads heads.json
  cumulant ledger verify --export customers.jsonl
  cumulant ledger verify --export customers.jsonl --heads heads.json
"""
EXPORT_HELP = """Print the history of an account as JSON lines, from which anybody can compute the hashes.

\b
Examples:
  cumulant ledger export customers > customers.jsonl
  cumulant ledger export customers --out customers.jsonl
"""


@click.command(help=HISTORY_HELP, short_help="The entries of an account.")
@account_argument
@ledger_command
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="NUMBER", help="Entries after this number.")
def history(*, ledger: Ledger, account: str, after: int, as_json: bool) -> None:
    from cumulant.ledger.report import entry_text

    entries = ledger.history(account, after=after)
    if as_json:
        print_data({"entries": [{**entry.to_dict(), "body": entry.content} for entry in entries]})
        return
    for entry in entries:
        label = entry.content["request"].get("label") or ""
        who = f" by {entry.author}" if entry.author else ""
        click.echo(f"{entry.version:>6}  {entry.time[:19]}  {entry_text(entry)}{who}{f' ({label})' if label else ''}")


@click.command(help=REPORT_HELP, short_help="A report, with a picture.")
@account_argument
@ledger_command
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Ends in .html, .md or .pdf."
)
def report(*, ledger: Ledger, account: str, out: Path | None, as_json: bool) -> None:
    from cumulant.ledger.report import make_report, write_report

    if out is None and not as_json:
        raise click.UsageError("say where the report goes: --out report.html, or --json for its content")
    with _progress() as show:
        made = make_report(ledger, account, progress=show)
    files = [] if out is None else write_report(made, out)
    if as_json:
        print_data({**made.to_dict(), "files": [str(file) for file in files]})
    else:
        click.echo(f"wrote {' and '.join(str(file) for file in files)}")


@click.command(help=VERIFY_HELP, short_help="Replay the history.")
@any_account_argument
@ledger_option
@click.option("--export", "exported", type=click.File(encoding="utf-8"), metavar="FILE", help="Verify this export.")
@click.option("--heads", type=click.File(encoding="utf-8"), metavar="FILE", help="--json of an earlier verify.")
@json_option
def verify(*, address: str, account: str | None, exported: Any, heads: Any, as_json: bool) -> None:
    from cumulant.ledger import verify_export

    kept = {} if heads is None else _heads(heads)
    if exported is not None:
        if account is not None:
            raise click.UsageError("--export is of one account: leave out its name")
        found = verify_export(exported, heads=kept)
    else:
        with opened(address) as ledger, _progress() as show:
            found = ledger.verify(account, heads=kept, progress=show)
    if as_json:
        closed = {} if found.closed else {"closed": False}
        print_data({"verified": found.to_dict(), "warnings": list(found.warnings), **closed})
        return
    rows = [(name, f"{counted(count, 'entry')}, head {found.heads[name]}") for name, count in found.entries.items()]
    if not found.closed:
        rows.append(("open end", "no closing line, as in exports of older versions: the last entries may be missing"))
    print_statement(
        "verified: hashes, totals, holds and charges agree", [*rows, *(("warning", text) for text in found.warnings)]
    )


def _heads(file: TextIO) -> dict[str, str]:
    try:
        return {name: str(row["head"]) for name, row in json.load(file)["verified"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise click.UsageError(f"--heads: not what `cumulant ledger verify --json` prints ({error!r})") from error


@contextmanager
def _progress() -> Iterator[Any]:
    """Show on a terminal how many entries were read; elsewhere nothing."""
    visible = sys.stderr.isatty()

    def show(done: int) -> None:
        if visible:
            click.echo(f"\r{done} read", err=True, nl=False)

    try:
        yield show
    finally:
        if visible:
            click.echo("\r", err=True, nl=False)


@click.command(help=EXPORT_HELP, short_help="The history as JSON lines.")
@account_argument
@ledger_command
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Instead of printing.")
def export(*, ledger: Ledger, account: str, out: Path | None, as_json: bool) -> None:
    if as_json:
        *entries, closing = (json.loads(line) for line in ledger.export(account))
        print_data({"entries": entries, **closing})
    elif out is None:
        for line in ledger.export(account):
            click.echo(line)
    else:
        with writing(out), out.open("w", encoding="ascii") as file:
            file.writelines(f"{line}\n" for line in ledger.export(account))
        click.echo(f"wrote {out}")
