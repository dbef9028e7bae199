"""Holds: charged now, settled later, spent until then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from cumulant.errors import InvalidParameter
from cumulant.ledger.allocation import Taken, unused
from cumulant.ledger.effects import BEFORE, rows_from_data, rows_to_data
from cumulant.ledger.recording import Locked
from cumulant.ledger.texts import time_text
from cumulant.ledger.values import Receipt
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.data import from_dict
from cumulant.parameters import by_name
from cumulant.report.chart import described

if TYPE_CHECKING:
    from typing_extensions import Self

    from cumulant.ledger.ledger import Ledger


@final
@by_name
class Hold:
    """A release that is charged in full, of which a part may come back.

    Call `started` before the first noise is drawn: from then on nothing can give the hold back but `settle`, which says
    how much was released. `cancel` gives all of it back, only before that. What is left alone counts as spent, whether
    it has expired or not; an expired hold can no longer start. As a context manager it does nothing at the end: what
    was not settled stays spent.
    """

    __slots__ = ("_ledger", "_receipt")

    def __init__(self, *, ledger: Ledger, receipt: Receipt) -> None:
        self._ledger, self._receipt = ledger, receipt

    @property
    def account(self) -> str:
        return self._receipt.account

    @property
    def key(self) -> str:
        return self._receipt.key

    @property
    def receipt(self) -> Receipt:
        """Of the reservation."""
        return self._receipt

    @property
    def release(self) -> AbstractMechanism:
        """What was reserved."""
        return from_dict(self._receipt.entry.content["release"])

    @property
    def expires(self) -> str:
        """When it can no longer start, in UTC."""
        return str(self._receipt.entry.content["expires"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the hold as it is: whoever knows what was released settles it."""

    def started(self, *, by: str = "") -> Receipt:
        """Record that releasing begins: the last moment at which this may fail without harm.

        A receipt that says `again` means that it has begun before: whoever did not do that must not begin.
        """

        def check() -> None:
            if self.expires < time_text(self._ledger._clock()):
                raise InvalidParameter(
                    f"hold {self.key!r} expired at {self.expires}: it cannot start; cancel it, and reserve again"
                )

        return self._record("start", by, {}, check=check)

    def settle(self, *, used: AbstractMechanism | None = None, by: str = "") -> Receipt:
        """Say what was released, by default all of it; `used` is part of what was reserved, and the rest comes back."""
        returned = self._returned(self._counts(self.release if used is None else used))
        return self._record("settle", by, returned, used=None if used is None else used.to_dict())

    def cancel(self, *, by: str = "") -> Receipt:
        """Give everything back: nothing was released."""
        return self._record("cancel", by, self._returned([0] * len(self.release.releases())))

    def _record(
        self, kind: str, by: str, body: dict[str, Any], *, check: Callable[[], None] = lambda: None, **asked: Any
    ) -> Receipt:
        """Record what is said of the hold, unless it cannot be said any more; no key is ever recorded twice."""

        def build(locked: Locked) -> dict[str, Any]:
            (row,) = locked.transaction.holds(self.account, key=self.key)
            if row.state not in BEFORE[kind]:
                raise InvalidParameter(
                    f"hold {self.key!r} is {row.state}: it is too late to {kind} it; nothing was recorded"
                )
            check()
            return body

        request = self._ledger._request(self.account, kind, self.key, by, {"hold": self.key, **asked})
        return self._ledger._record(request, build)

    def _counts(self, used: Any) -> list[int]:
        """Return how many of each part were released."""
        if not isinstance(used, AbstractMechanism):
            raise InvalidParameter(f"used must be part of what was reserved, such as step * 812, got {used!r}")
        given = dict(used.releases())
        counts = [given.pop(release, 0) for release, _ in self.release.releases()]
        for (release, most), n in zip(self.release.releases(), counts, strict=True):
            if n > most:
                raise InvalidParameter(
                    f"used has {n} of {described(release)}, of which {most} were reserved; nothing was recorded"
                )
        for release, n in given.items():
            if n:
                raise InvalidParameter(f"used has {described(release)}, which was not reserved; nothing was recorded")
        return counts

    def _returned(self, counts: list[int]) -> dict[str, Any]:
        content = self._receipt.entry.content
        rows: dict[str, tuple[Taken, ...]] = rows_from_data(content["taken"])
        back = {block: unused(taken, counts) for block, taken in rows.items()}
        return {"release": content["release"], "returned": rows_to_data(back)}
