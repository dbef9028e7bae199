"""The options that ledger commands share: which ledger, which account, by whom, with which key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cumulant.cli.mechanism_options import mechanism_options
from cumulant.cli.output import print_data, print_statement
from cumulant.cli.question_options import json_option, steps_option

if TYPE_CHECKING:
    from cumulant.ledger import Ledger, Receipt, Status

Command = Callable[..., Any]

FILE = "sqlite:///"
DEFAULT = f"{FILE}budget.db"
ledger_option = click.option(
    "--ledger",
    "address",
    envvar="CUMULANT_LEDGER",
    default=DEFAULT,
    show_default=True,
    metavar="URL",
    help="The database; or set CUMULANT_LEDGER.",
)


def completed_accounts(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Let the shell complete names of accounts; where there is no ledger, it has none."""
    from cumulant.errors import CumulantError

    try:
        with opened(context.params.get("address") or os.environ.get("CUMULANT_LEDGER") or DEFAULT) as ledger:
            return [name for name in ledger.accounts() if name.startswith(begun)]
    except CumulantError:
        return []


account_argument = click.argument("account", shell_complete=completed_accounts)
any_account_argument = click.argument("account", required=False, shell_complete=completed_accounts)
by_option = click.option("--by", default="", metavar="NAME", help="Who records this.")
key_option = click.option(
    "--key", metavar="TEXT", help="The same key never records twice: ask again whenever in doubt."
)
label_option = click.option("--label", default="", metavar="TEXT", help="What the release is for.")
block_option = click.option(
    "--block",
    "blocks",
    multiple=True,
    metavar="NAME",
    callback=lambda context, parameter, names: names or None,
    help="A part of the data; may be repeated.  [default: all]",
)
owner_option = click.option("--unit", metavar="TEXT", help="Refuse unless the account protects this.")


def ledger_command(command: Command) -> Command:
    """Give a command --ledger and --json; it takes the opened ledger, which is closed afterwards."""

    @wraps(command)
    def with_ledger(*, address: str, **parameters: Any) -> Any:
        with opened(address) as ledger:
            return command(ledger=ledger, **parameters)

    return ledger_option(json_option(with_ledger))


def records(verb: str) -> Callable[[Command], Command]:
    """Give a command --ledger and --json; it returns the receipt of what it recorded, which is printed.

    Where a hold is meant, the verb is followed by its key.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def recorded(*, ledger: Ledger, as_json: bool, **parameters: Any) -> None:
            said = verb.format(**parameters)
            print_receipt(command(ledger=ledger, **parameters), ledger, said, as_json=as_json)

        return ledger_command(recorded)

    return decorate


def release_options(command: Command) -> Command:
    """Give a command what describes a release that is charged: what, how often, what for, about which part."""
    for option in (owner_option, block_option, label_option, steps_option, mechanism_options):
        command = option(command)
    return command


def opened(address: str) -> Ledger:
    """Return the ledger of an address; a file that is not there is not made."""
    import cumulant
    from cumulant.errors import CumulantError

    file = address.removeprefix(FILE)
    if address.startswith(FILE) and "?" not in file and not Path(file).exists():
        raise CumulantError(f"there is no ledger at {address}: open an account first, or give --ledger")
    return cumulant.Ledger(address)


def recording_options(command: Command) -> Command:
    """Give a command --by and --key."""
    return by_option(key_option(command))


def print_receipt(
    receipt: Receipt, ledger: Ledger, verb: str, *, as_json: bool, beside: Iterable[tuple[str, str]] = ()
) -> None:
    """Print what was recorded, what is left, and what else there is to say."""
    status = ledger.status(receipt.account)
    fits = _more_like_it(receipt, status)
    if as_json:
        print_data({"receipt": receipt.to_dict(), "status": status.to_dict(), "fits": fits})
        return
    again = " before, with the same key" if receipt.again else ""
    said = [("entry", f"{receipt.version}, key {receipt.key}, hash {receipt.hash[:16]}...")]
    more = [] if fits is None else [("fits", f"{fits} more like this one")]
    print_statement(f"{verb} {receipt.account}{again}", [*said, *rows_of("left", status.left()), *more, *beside])


def _more_like_it(receipt: Receipt, status: Status) -> int | None:
    """Return how many more would fit of what was charged, if that is one kind of release."""
    if receipt.entry.kind not in ("spend", "hold"):
        return None
    from cumulant import from_dict

    content = receipt.entry.content
    parts = from_dict(content["release"]).releases()
    return min(status.fits(parts[0][0], block=block) for block in content["taken"]) if len(parts) == 1 else None


def rows_of(label: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return rows of a statement that share a label."""
    return [(label if place == 0 else "", text) for place, text in enumerate(texts)]
