"""`cumulant ledger`: a durable budget that many jobs spend, choosing as they go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cumulant.cli.headings import HeadedCommand
from cumulant.cli.ledger_audit import export, history, report, verify
from cumulant.cli.ledger_options import (
    account_argument,
    any_account_argument,
    by_option,
    ledger_command,
    ledger_option,
    print_receipt,
    recording_options,
    records,
    release_options,
    rows_of,
)
from cumulant.cli.mechanism_options import MECHANISMS, NEIGHBORS, Release, file_option, mechanism_options, read_run
from cumulant.cli.output import print_data, print_statement
from cumulant.cli.parameter_types import COUNT, NUMBER, RUN_FILE, completed_as_file
from cumulant.cli.question_options import budget_option, delta_option, json_option, steps_option
from cumulant.printed import counted, given, rounded_up
from cumulant.report.typed import Delta

if TYPE_CHECKING:
    from cumulant.ledger import Ledger, Receipt, Status
    from cumulant.mechanisms.base import AbstractMechanism

EXAMPLES = (5.0, 20.0, 100.0)  # scales of counts: what fits of them is said at the opening

HELP = """Budgets that many jobs spend for months, choosing by what they saw.

Declare slots and a reserve once; the price holds whatever is chosen. See docs/ledger.md for what is proven.

\b
From an empty directory to a refusal and a report:
  cumulant ledger open customers --epsilon 1 --delta 1e-6 --unit "one customer"
  cumulant ledger spend customers --mechanism laplace --scale 20 --by team-a
  cumulant ledger status customers --mechanism laplace --scale 20
  cumulant ledger spend customers --mechanism laplace --scale 0.5 --by team-b
  cumulant ledger report customers --out report.html
"""

OPEN_HELP = """Open an account with a budget; what the slots leave of it becomes the Gaussian reserve.

The slots are what the options of a release describe, --steps of them, or a --plan. With --expect these options say what
is expected instead: it says how many fit, and keeps nothing for them.

\b
Examples:
  cumulant ledger open customers --epsilon 1 --delta 1e-6 --unit "one customer" \\
      --expect laplace --scale 20 --count 20
  cumulant ledger open customers --epsilon 3 --delta 1e-6 \\
      --unit "one customer" --noise-multiplier 1 --rate 0.01 --steps 1000
  cumulant ledger open visits --epsilon 1 --delta 1e-6 --unit "one visit" \\
      --plan plan.json --divide week-01 --divide week-02 --failure 1e-8
  cumulant ledger open study --epsilon 2 --delta 1e-6 --unit "one patient" \\
      --stage spring.json --stage autumn.json
"""

SPEND_HELP = """Record a release before it is made, or refuse it.

\b
Examples:
  cumulant ledger spend customers --mechanism laplace --scale 20 \\
      --label "weekly count" --by team-a --key job-17
  cumulant ledger spend customers --noise-multiplier 5 --steps 3 --json
"""

STATUS_HELP = """Print what an account promises and what is left; without an account, list all.

With the options of a release, also how often it would still fit.

\b
Examples:
  cumulant ledger status
  cumulant ledger status customers
  cumulant ledger status customers --mechanism laplace --scale 20 --json
"""

BLOCKS_HELP = """Add parts of the data to an account that is divided, such as a new week.

\b
Example:
  cumulant ledger blocks visits week-03 week-04
"""

ADVANCE_HELP = """Begin the next stage of an account.

\b
Example:
  cumulant ledger advance customers --by office
"""

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


@click.group(help=HELP, short_help="A durable budget that is spent by looking.")
def ledger() -> None:
    """Hold the commands together."""


ledger.command_class = HeadedCommand


@ledger.command(name="open", help=OPEN_HELP, short_help="Open an account.")
@account_argument
@ledger_option
@json_option
@budget_option
@delta_option
@click.option("--unit", required=True, metavar="TEXT", help="What one record is: whom the guarantee protects.")
@click.option("--relation", type=click.Choice(list(NEIGHBORS)), default="add-remove", show_default=True)
@mechanism_options
@steps_option
@click.option("--expect", type=click.Choice(list(MECHANISMS)), metavar="NAME", help="A mechanism: how many would fit?")
@click.option("--count", type=COUNT, metavar="COUNT", help="With --expect: how many are expected.")
@file_option("--plan", RUN_FILE, "JSON of mechanism.to_dict(): all slots.")
@click.option(
    "--stage",
    "stages",
    type=RUN_FILE,
    multiple=True,
    metavar="FILE",
    shell_complete=completed_as_file,
    help="The same of one stage; may be repeated, `advance` begins the next.",
)
@click.option("--reserve", type=NUMBER, metavar="NUMBER", help="Squared mean of the Gaussian reserve.  [default: all]")
@click.option(
    "--failure", type=NUMBER, metavar="NUMBER", default="0", help="Set aside for (epsilon, delta)-DP releases."
)
@click.option("--renyi", type=(NUMBER, NUMBER), metavar="ORDER BUDGET", help="For releases known by a Rényi curve.")
@click.option("--divide", "blocks", multiple=True, metavar="NAME", help="A block; every record lies in one.")
@recording_options
def open_account(
    *, address: str, account: str, delta: Delta, relation: str, release: Release, steps: int, **given: Any
) -> None:
    import cumulant
    from cumulant.ledger.declaration import check_relation

    as_json, blocks = given.pop("as_json"), given.pop("blocks")
    expected, count = _expected(release, given.pop("expect")), given.pop("count")
    if expected is None and count is not None:
        raise click.UsageError("--count says how many are expected: give --expect too; of slots there are --steps")
    if expected is not None:
        if steps != 1:
            raise click.UsageError("--expect keeps no slots: leave out --steps, and say --count")
        check_relation(expected, NEIGHBORS[relation])
        release = Release({})
    slots = _slots(release, steps, given.pop("plan"), given.pop("stages"))
    with cumulant.Ledger(address) as ledger:
        receipt = ledger.open(
            account,
            delta=float(delta.text),
            neighbors=NEIGHBORS[relation],
            blocks=blocks or None,
            **slots,
            **given,
        )
        fits = [] if expected is None else [("fits", _fits_text(ledger.status(account).fits(expected), count))]
        print_receipt(receipt, ledger, "opened", as_json=as_json, beside=fits or _examples(ledger.status(account)))


def _expected(release: Release, name: str | None) -> AbstractMechanism | None:
    """Return the release that is expected, if one is named."""
    if name is None:
        return None
    if "mechanism" in release.options:
        raise click.UsageError("--expect names the mechanism: leave out --mechanism")
    return release.build(mechanism=name)


def _fits_text(fits: int, count: int | None) -> str:
    if count is None:
        return f"{fits} like the one expected"
    return f"{fits} like the one expected: {'enough for' if fits >= count else 'fewer than'} the {count} in mind"


def _examples(now: Status) -> list[tuple[str, str]]:
    """Return what fits of the commonest release, for an account without slots."""
    from cumulant import Laplace

    if not all(line.kind in ("reserve", "pure") for line in now.declaration.lines):
        return []
    counts = [f"{now.fits(Laplace(scale=scale))} of scale {given(scale)}" for scale in EXAMPLES]
    return [("fits", f"counts with Laplace noise: {', or '.join(counts)}")]


def _slots(release: Release, steps: int, plan: Any, stages: Sequence[Any]) -> dict[str, Any]:
    """Return the slots as one of three ways describes them."""
    from cumulant.ledger import Stage

    if (plan is not None) + bool(stages) + bool(release.options) > 1:
        raise click.UsageError("give the slots once: by --plan, by --stage, or by the options of a release")
    if stages:
        return {"stages": [Stage(plan=read_run(stage, "--stage")) for stage in stages]}
    if plan is not None:
        return {"plan": read_run(plan, "--plan")}
    return {"plan": release.run(steps=steps) if release.options else None}


@ledger.command(help=SPEND_HELP, short_help="Record a release, or refuse it.")
@account_argument
@records("spent from")
@release_options
@click.option("--note-refusal", is_flag=True, help="Record an attempt that is refused.")
@recording_options
def spend(*, ledger: Ledger, account: str, release: Release, steps: int, **given: Any) -> Receipt:
    return ledger.spend(account, release.run(steps=steps), **given)


@ledger.command(help=STATUS_HELP, short_help="What is promised, and what is left.")
@any_account_argument
@ledger_command
@mechanism_options
def status(*, ledger: Ledger, account: str | None, release: Release, as_json: bool) -> None:
    if account is None:
        _list_accounts(ledger, as_json=as_json)
        return
    now = ledger.status(account)
    fits = now.fits(release.build()) if release.options else None
    if as_json:
        print_data({"status": now.to_dict(), "fits": fits})
        return
    declaration = now.declaration
    said = [
        ("protects", f"{declaration.unit}, {declaration.neighbors.value}"),
        ("price", f"epsilon = {rounded_up(now.price)}, whatever is chosen"),
        *_claims(now),
        *rows_of("left", now.left()),
        *rows_of("hold", (f"{h.key}: {h.state}{', expired' if h.expired else ''}" for h in now.holds)),
        *(() if fits is None else (("fits", f"{fits} more like this one"),)),
        ("entries", f"{now.version}, head {now.head[:16]}..."),
    ]
    budget = f"epsilon = {given(declaration.epsilon)} at delta = {given(declaration.delta)}"
    print_statement(f"{account}: {budget}", said)


def _claims(now: Status) -> list[tuple[str, str]]:
    """Return what may be claimed at the end of each stage, if there are several."""
    if len(now.claims) == 1:
        return []
    here = [" (now)" if place == now.stage else "" for place in range(len(now.claims))]
    texts = [f"{i + 1}{here[i]}: epsilon = {rounded_up(claim)} at its end" for i, claim in enumerate(now.claims)]
    return rows_of("stage", texts)


def _list_accounts(ledger: Ledger, *, as_json: bool) -> None:
    names = ledger.accounts()
    if as_json:
        print_data({"accounts": names})
        return
    print_statement(counted(len(names), "account"), rows_of("", names))


@ledger.command(help=BLOCKS_HELP, short_help="Add parts of the data.")
@account_argument
@click.argument("blocks", nargs=-1, required=True)
@records("added blocks to")
@recording_options
def blocks(*, ledger: Ledger, account: str, blocks: tuple[str, ...], **given: Any) -> Receipt:
    return ledger.add_blocks(account, blocks, **given)


@ledger.command(help=ADVANCE_HELP, short_help="Begin the next stage.")
@account_argument
@records("began a stage of")
@recording_options
def advance(*, ledger: Ledger, account: str, **given: Any) -> Receipt:
    return ledger.advance(account, **given)


@ledger.command(help=RESERVE_HELP, short_help="Charge now, settle later.")
@account_argument
@records("reserved from")
@release_options
@click.option("--expires", default="1d", show_default=True, metavar="TIME", help="Until it may start: 30m, 2h, 7d.")
@recording_options
def reserve(*, ledger: Ledger, account: str, release: Release, steps: int, **given: Any) -> Receipt:
    return ledger.reserve(account, release.run(steps=steps), **given).receipt


@ledger.command(help=START_HELP, short_help="Releasing begins.")
@account_argument
@key_argument
@records("started {key} of")
@by_option
def start(*, ledger: Ledger, account: str, key: str, by: str) -> Receipt:
    return ledger.hold(account, key).started(by=by)


@ledger.command(help=SETTLE_HELP, short_help="How much of a hold was released.")
@account_argument
@key_argument
@records("settled {key} of")
@mechanism_options
@steps_option
@by_option
def settle(*, ledger: Ledger, account: str, key: str, release: Release, steps: int, by: str) -> Receipt:
    used = release.build() * steps if release.options else None
    return ledger.hold(account, key).settle(used=used, by=by)


@ledger.command(help=CANCEL_HELP, short_help="Give a hold back.")
@account_argument
@key_argument
@records("cancelled {key} of")
@by_option
def cancel(*, ledger: Ledger, account: str, key: str, by: str) -> Receipt:
    return ledger.hold(account, key).cancel(by=by)


for command in (history, report, verify, export):
    ledger.add_command(command)
