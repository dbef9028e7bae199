"""A training run that a ledger pays for: reserved as a whole once it is planned, or step by step."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, final

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism

if TYPE_CHECKING:
    from cumulant.ledger import Ledger
    from cumulant.ledger.hold import Hold
    from cumulant.ledger.values import Receipt


@final
class PaidRun:
    """What one training run takes of an account.

    `plan` reserves all its steps before the first one, so a refusal comes before days of training; `settle` gives back
    those that were not taken. A run without a plan spends every step by itself.
    """

    def __init__(self, ledger: Ledger, account: str, key: str | None = None) -> None:
        self.key = f"training-{uuid.uuid4().hex}" if key is None else key
        self._ledger, self._account = ledger, account
        self._hold: Hold | None = None
        self._left: Counter[AbstractMechanism] = Counter()
        self._taken: Counter[AbstractMechanism] = Counter()

    def plan(self, run: AbstractMechanism) -> None:
        """Reserve a run, and mark it as started."""
        from cumulant.ledger.training import reserve_run

        self._hold = reserve_run(self._ledger, self._account, run, key=self.key, label="training")
        self._left = Counter(dict(run.releases()))

    def charge(self, release: AbstractMechanism, count: int) -> None:
        """Pay for a step before it is recorded; what is refused leaves everything as it was."""
        if self._hold is None:
            number = self._taken.total() + count
            self._ledger.spend(self._account, release * count, key=f"{self.key} step-{number}", label="training step")
        elif self._left[release] < count:
            raise cm.BudgetExceeded(
                f"this step is not part of what run {self.key!r} has reserved of account {self._account!r}, "
                "or all such steps were taken; nothing was recorded"
            )
        self._left[release] -= count
        self._taken[release] += count

    def settle(self) -> Receipt:
        """Say how many of the reserved steps were taken: the others come back to the account."""
        from cumulant.ledger.training import settle_run

        if self._hold is None:
            raise cm.InvalidParameter("this run has reserved nothing: every step was spent by itself")
        return settle_run(self._hold, cm.Composed.of(self._taken.items()))
