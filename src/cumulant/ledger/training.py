"""The seam for training engines: reserve at the start, settle at the end.

An engine knows two moments: when the loader, the noise and the number of steps are fixed, and when training has ended.
At the first it calls `reserve_run`, at the second `settle_run`. Of processes that train together one calls both.
"""

from __future__ import annotations

from cumulant.errors import InvalidParameter
from cumulant.ledger.hold import Hold
from cumulant.ledger.ledger import Ledger
from cumulant.ledger.values import Receipt
from cumulant.mechanisms.base import AbstractMechanism


def reserve_run(
    ledger: Ledger, account: str, planned: AbstractMechanism, *, key: str, by: str = "", label: str = ""
) -> Hold:
    """Charge a planned run, such as `step * 1000`, and mark it as started: call it before the first step.

    `BudgetExceeded` comes now, not after days of training. A run that crashes counts as spent in full until somebody
    settles it. A key that was started before is refused, as two runs may not share what one has reserved.
    """
    hold = ledger.reserve(account, planned, key=key, by=by, label=label)
    started = hold.started(by=by)
    if started.again:
        raise InvalidParameter(
            f"run {key!r} was started before, at {started.entry.time}: settle it and take another key, or, from a "
            "checkpoint, go on with resume_run"
        )
    return hold


def resume_run(ledger: Ledger, account: str, key: str) -> Hold:
    """Return the hold of a run that goes on from a checkpoint.

    The steps of all attempts are counted together, also those that the checkpoint has not seen: they were released.
    """
    return ledger.hold(account, key)


def settle_run(hold: Hold, taken: AbstractMechanism, *, by: str = "") -> Receipt:
    """Say how many steps were taken, such as `step * 812`: what was planned beyond them comes back.

    Each step is a slot of its own, chosen before its output, so stopping early by looking at results is covered.
    """
    return hold.settle(used=taken, by=by)
