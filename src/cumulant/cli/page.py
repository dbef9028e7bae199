"""`cumulant page`: the questions of the command line in a browser, on this machine alone."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser

import click

from cumulant.cli.output import print_data
from cumulant.cli.question_options import json_option

LARGEST_PORT = 65_535
FEWEST_WORKERS, MOST_WORKERS = 2, 4  # one answers while another thinks; more than four people do not sit here

HELP = """Ask in the browser: what a training run costs, what each loader would cost, what fits a budget.

The page is served to this machine alone. It ends with Ctrl-C. Each question may take 10 seconds and 1 GB.

\b
Examples:
  cumulant page
  cumulant page --port 8123 --no-browser
  cumulant page --ledger sqlite:///budget.db
"""


@click.command(help=HELP, short_help="The same questions in a browser, on this machine alone.")
@click.option(
    "--port", type=click.IntRange(0, LARGEST_PORT), default=0, metavar="NUMBER", help="Where to listen.  [any free]"
)
@click.option("--ledger", "ledger", metavar="URL", help="Show the accounts of this ledger, too, read only.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@json_option
def page(*, port: int, ledger: str | None, no_browser: bool, as_json: bool) -> None:
    from cumulant.page.server import PageServer
    from cumulant.page.workers import Workers

    if ledger is not None:
        _check(ledger)
    workers = Workers(min(max(os.cpu_count() or 1, FEWEST_WORKERS), MOST_WORKERS), ledger=ledger)
    try:
        with PageServer(workers, port=port) as server:
            if as_json:
                print_data({"address": server.address})
            else:
                click.echo(f"{server.address}  (Ctrl-C ends it)")
            sys.stdout.flush()  # a program that started this one waits for the address
            if not no_browser:
                threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
            server.serve_forever()
    except KeyboardInterrupt:
        click.echo("ended", err=True)
    except OSError as error:
        raise click.ClickException(f"port {port} cannot be used: {error.strerror}") from error
    finally:
        workers.close()


def _check(ledger: str) -> None:
    """Say at once that a ledger cannot be read."""
    from cumulant.cli.ledger_options import opened

    with opened(ledger) as found:
        found.accounts()
