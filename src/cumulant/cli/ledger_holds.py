"""`cumulant ledger reserve | start | settle | cancel`: holds, for jobs that know later what they released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cumulant.cli.ledger_options import (
    account_argument,
    block_option,
    by_option,
    is_described,
    label_option,
    ledger_command,
    print_receipt,
    recording_options,
)
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.question_options import steps_option

if TYPE_CHECKING:
    from cumulant.ledger import Ledger

RESERVE_HELP = """Charge a release now, and settle later how much of it was made.

It counts as spent until it is settled; one that has expired cannot start.

\b
Example:
  cumulant ledger reserve customers --noise-multiplier 1 --rate 0.01 \\
      --steps 1000 --key train-4 --expires 2h
"""
START_HELP = """Record that releasing begins: from now on a hold cannot be cancelled.

\b
Example:
  cumulant ledger start customers train-4
"""
SETTLE_HELP = """Say how much of a hold was released; the rest comes back.

Without options of a release all of it was.

\b
Examples:
  cumulant ledger settle customers train-4
  cumulant ledger settle customers train-4 --noise-multiplier 1 --rate 0.01 \\
      --steps 812
"""
CANCEL_HELP = """Give a hold back, of which nothing was released.

\b
Example:
  cumulant ledger cancel customers train-4
"""
key_argument = click.argument("key")


@click.command(help=RESERVE_HELP, short_help="Charge now, settle later.")
@account_argument
@ledger_command
@mechanism_options
@steps_option
@label_option
@block_option
@click.option("--unit", metavar="TEXT", help="Refuse unless the account protects this.")
@click.option("--expires", default="1d", show_default=True, metavar="TIME", help="Until it may start: 30m, 2h, 7d.")
@recording_options
def reserve(*, ledger: Ledger, account: str, release: Release, steps: int, as_json: bool, **given: Any) -> None:
    given["blocks"] = given["blocks"] or None
    hold = ledger.reserve(account, release.run(steps=steps), **given)
    print_receipt(hold.receipt, ledger, "reserved from", as_json=as_json)


@click.command(help=START_HELP, short_help="Releasing begins.")
@account_argument
@key_argument
@ledger_command
@by_option
def start(*, ledger: Ledger, account: str, key: str, by: str, as_json: bool) -> None:
    print_receipt(ledger.hold(account, key).started(by=by), ledger, f"started {key} of", as_json=as_json)


@click.command(help=SETTLE_HELP, short_help="How much of a hold was released.")
@account_argument
@key_argument
@ledger_command
@mechanism_options
@steps_option
@by_option
def settle(*, ledger: Ledger, account: str, key: str, release: Release, steps: int, by: str, as_json: bool) -> None:
    used = release.build() * steps if is_described(release) else None
    print_receipt(ledger.hold(account, key).settle(used=used, by=by), ledger, f"settled {key} of", as_json=as_json)


@click.command(help=CANCEL_HELP, short_help="Give a hold back.")
@account_argument
@key_argument
@ledger_command
@by_option
def cancel(*, ledger: Ledger, account: str, key: str, by: str, as_json: bool) -> None:
    print_receipt(ledger.hold(account, key).cancel(by=by), ledger, f"cancelled {key} of", as_json=as_json)
