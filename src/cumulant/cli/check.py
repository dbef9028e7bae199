"""`cumulant check`: does a claim hold?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import click

from cumulant import parameters
from cumulant.answer import Explanation, Interval
from cumulant.cli.answers import Answer, answered
from cumulant.cli.exit_codes import ExitCode
from cumulant.cli.headings import HeadedCommand
from cumulant.cli.ledger_options import completed_accounts, ledger_option, opened
from cumulant.cli.parameter_types import NUMBER
from cumulant.cli.question_options import delta_option
from cumulant.cli.run_options import TRAINING_OPTIONS, RunWords, is_typed, run_options
from cumulant.printed import counted, given, rounded_down, rounded_up
from cumulant.report.intervals import as_read, epsilon_interval, interval_data, interval_text
from cumulant.report.typed import Delta

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism

HELP = """Say whether a claim holds: that a run costs at most epsilon at a delta.

The exit code is 0 if that is proven, 3 if it is refuted: a certified lower end of epsilon is above the claim. It is 4
if neither is proven: the claim lies between the ends, or no certified lower end is known.

A run is described as for `epsilon`, by --run FILE, or in the words of `sgd`. Of an account of a ledger it is the
price, which holds whatever is chosen, and its history is verified.

\b
Examples:
  cumulant check --epsilon 2 --delta 1e-5 --noise-multiplier 1 --rate 0.01 \\
      --steps 1000
  cumulant check --epsilon 3 --delta 1e-5 --noise-multiplier 1 \\
      --batch-size 256 --dataset-size 60000 --epochs 60
  cumulant check --epsilon 100 --delta 1e-5 --run run.json --json
  cumulant check --epsilon 1 --delta 1e-6 --account customers
"""
WHOLE = 17  # digits, of which a double has no more


class Verdict(NamedTuple):
    """What is known of a claim."""

    word: str
    code: ExitCode
    colour: str


HOLDS = Verdict("holds", ExitCode.HOLDS, "green")
REFUTED = Verdict("refuted", ExitCode.EXCEEDED, "red")
NOT_PROVEN = Verdict("not proven", ExitCode.UNPROVEN, "yellow")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What a claim is compared with: the ε that is proven, both ends of ε, and what an account says of itself."""

    run: AbstractMechanism
    explanation: Explanation
    proven: float
    interval: Interval | None
    account: Mapping[str, Any] | None = None

    def verdict(self, claim: float) -> Verdict:
        """Compare a claim with the safe ends: it holds above what is proven, and is refuted below what is certified.

        An end that rests on estimates of rounding decides nothing.
        """
        if self.proven <= claim:
            return HOLDS
        refutes = self.interval is not None and self.interval.certified and claim < self.interval.lower
        return REFUTED if refutes else NOT_PROVEN


@click.command(cls=HeadedCommand, help=HELP, short_help="Does a claimed epsilon hold?", params=list(TRAINING_OPTIONS))
@run_options
@click.option("--epsilon", type=NUMBER, metavar="NUMBER", required=True, help="The claim: a number >= 0.")
@delta_option
@click.option(
    "--account",
    metavar="NAME",
    shell_complete=completed_accounts,
    help="Check the price of this account, and its history.",
)
@ledger_option
@answered
def check(*, words: RunWords, epsilon: float, delta: Delta, account: str | None, address: str) -> Answer:
    claim = parameters.nonnegative("epsilon", epsilon)
    if account is None and is_typed("address"):
        raise click.UsageError("--ledger needs --account: the name of what is checked")
    evidence = _of_run(words, delta) if account is None else _of_account(words, address, account, delta)
    verdict = evidence.verdict(claim)
    found = {"verdict": verdict.word, "epsilon": evidence.proven, "interval": interval_data(evidence.interval)}
    return Answer(
        asked={"asked": "check", "epsilon": claim, "delta": delta.text, "log_delta": delta.log},
        found={**found, "exit_code": int(verdict.code)},
        run=evidence.run,
        explanation=evidence.explanation,
        headline=f"{verdict.word}: epsilon <= {given(claim)} at delta = {delta.text}",
        rows=_rows(evidence, claim),
        more={} if evidence.account is None else {"account": evidence.account},
        colour=verdict.colour,
        code=verdict.code,
    )


def _of_run(words: RunWords, delta: Delta) -> Evidence:
    run = words.mechanism()
    explanation = run.explain(**as_read(delta))
    interval, proven = epsilon_interval(run, delta), explanation.guarantee.epsilon
    if interval is not None and interval.certified:
        proven = min(proven, interval.upper)
    return Evidence(run=run, explanation=explanation, proven=proven, interval=interval)


def _of_account(words: RunWords, address: str, name: str, delta: Delta) -> Evidence:
    """Return the price of an account at δ; of the run that it declares the lower end is attained by spending it all."""
    if words.is_given:
        raise click.UsageError("--account is checked by itself: leave out the options of a run")
    with opened(address) as ledger:
        verified, status = ledger.verify(name), ledger.status(name)
    asked = as_read(delta)
    # Down, where there is no double to read: a smaller δ costs more.
    nearest = asked.get("delta", math.exp(delta.log) * (1 - 1e-12))
    price, run = replace(status.declaration, delta=nearest).price(), status.declaration.priced()
    ends = epsilon_interval(run, delta)
    return Evidence(
        run=run,
        explanation=run.explain(**asked),
        proven=price,
        interval=None if ends is None else replace(ends, upper=max(ends.upper, price)),  # the price is what holds
        account={
            "name": name,
            "protects": f"{status.declaration.unit}, {status.declaration.neighbors.value}",
            **verified.to_dict()[name],
        },
    )


def _rows(evidence: Evidence, claim: float) -> dict[str, str]:
    rows = {"at most": f"epsilon = {_up(evidence.proven, claim)}", "interval": _ends(evidence.interval, claim)}
    if evidence.proven == math.inf:
        rows["at most"] = "nothing finite is proven"
    if evidence.account is None:
        return rows
    account = evidence.account
    whose = {"account": f"{account['name']}: {account['protects']}; this is its price, whatever is chosen"}
    return {**whose, **rows, "verified": f"{counted(account['entries'], 'entry')}, head {account['head']}"}


def _up(value: float, claim: float) -> str:
    """Return a number rounded up, with all its digits where fewer would take it past the claim."""
    text = rounded_up(value)
    return text if (value <= claim) == (float(text) <= claim) else rounded_up(value, digits=WHOLE)


def _ends(interval: Interval | None, claim: float) -> str:
    """Return both ends, with all their digits where fewer would take one past the claim."""
    if interval is None or claim < float(rounded_down(interval.lower)) or float(rounded_up(interval.upper)) <= claim:
        return interval_text(interval)
    return interval_text(interval, digits=WHOLE)
