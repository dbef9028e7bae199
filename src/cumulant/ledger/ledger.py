"""The ledger: accounts that many processes spend, for months, choosing as they go."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from cumulant import parameters
from cumulant.composition import Composed
from cumulant.errors import BudgetExceeded, CumulantError, InvalidParameter, UnprovenCombination
from cumulant.ledger.allocation import beyond_in
from cumulant.ledger.declaration import Stage, checked_plan, declare
from cumulant.ledger.effects import releases_by_block, releases_of
from cumulant.ledger.entries import Entry, canonical, closing_line
from cumulant.ledger.hold import Hold
from cumulant.ledger.recording import (
    Build,
    Locked,
    Priced,
    Request,
    charged,
    check_units,
    declaration_of,
    price_of,
    priced,
    record,
    record_opening,
)
from cumulant.ledger.texts import (
    checked_blocks,
    checked_duration,
    checked_name,
    checked_remark,
    checked_unit,
    later,
    new_name,
    time_text,
)
from cumulant.ledger.values import WHOLE, HoldStatus, Receipt, Status, Verification
from cumulant.ledger.verification import verify_accounts
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import ADD_REMOVE, Neighbors
from cumulant.parameters import by_name

if TYPE_CHECKING:
    from typing_extensions import Self

    from cumulant.ledger.storage import Storage
    from cumulant.ledger.transaction import Transaction


@by_name
class Ledger:
    """Budgets in a database, SQLite by default, PostgreSQL for teams; see `docs/ledger.md` for what is proven.

    An account declares slots and reserves, and is priced once; whoever spends may look at everything before. Every
    method that records takes a `key`: the same key with the same request gives the same receipt again, so whoever is in
    doubt asks again. What is refused records nothing.

    >>> import cumulant as cm, tempfile
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db")
    >>> step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
    >>> opened = ledger.open("customers", epsilon=3.0, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="one customer",
    ...                      plan=step * 1000)
    >>> receipt = ledger.spend("customers", cm.Laplace(scale=20.0), label="weekly count", by="team-a", key="job-17")
    >>> with ledger.reserve("customers", step * 1000, key="train-4") as hold:
    ...     settled = hold.settle(used=step * 812)
    >>> ledger.status("customers").fits(step), ledger.status("customers").fits(cm.Laplace(scale=20.0))
    (188, 55)
    """

    def __init__(self, url: str = "sqlite:///budget.db", *, clock: Callable[[], datetime] | None = None) -> None:
        """Open the database of an address, and make its tables if it has none; the clock is for display and expiry."""
        parameters.require(isinstance(url, str), "a ledger's address must be text", url)
        self._storage: Storage = _storage_at(url)
        self._declarations: dict[str, str] = {}  # of accounts that were asked for; none ever changes
        self._clock = clock or (lambda: datetime.now(timezone.utc))

    def close(self) -> None:
        """Give back all connections."""
        self._storage.close()

    def __repr__(self) -> str:
        """Return the address without its password."""
        return f"Ledger({self._storage.address.shown!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a ledger has open connections and is not pickled: give the other process its address")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Recording ----------------------------------------------------------------------------------------------------

    def open(
        self,
        account: str,
        *,
        epsilon: float,
        delta: float,
        neighbors: Neighbors,
        unit: str,
        plan: AbstractMechanism | None = None,
        stages: Sequence[Stage] | None = None,
        reserve: float | None = None,
        failure: float = 0.0,
        renyi: tuple[float, float] | None = None,
        blocks: Iterable[str] | None = None,
        by: str = "",
        key: str | None = None,
    ) -> Receipt:
        """Open an account with a budget (ε, δ); what the plan leaves of it becomes the Gaussian reserve.

        unit:     what one record is, in words: whom the guarantee protects.
        plan:     the slots, such as `step * 1000`; or `stages`, a list of `Stage`, that begin one after another.
        reserve:  the squared mean b of the Gaussian reserve, if it is not to be all that is left.
        failure:  the probability set aside for releases that are (ε, δ)-DP.
        renyi:    an order α and a budget B for releases that are known by their Rényi curve alone.
        blocks:   parts of the data; every unit lies in one of them, whichever others there are: where blocks are weeks
                  the unit is "one customer in one week".
        """
        name = new_name("account", account)
        if plan is not None and stages is not None:
            raise InvalidParameter("give plan or stages, not both")
        steps = _checked_stages(stages) if stages is not None else (Stage(plan=checked_plan(plan)),)
        names = (WHOLE,) if blocks is None else _divided(checked_blocks(blocks, new_name), neighbors)
        declaration = declare(
            epsilon=epsilon,
            delta=delta,
            neighbors=neighbors,
            unit=checked_unit(unit),
            stages=steps,
            reserve=reserve,
            failure=failure,
            renyi=renyi,
        )
        content = {
            "epsilon": declaration.epsilon,
            "delta": declaration.delta,
            "neighbors": neighbors.name,
            "unit": declaration.unit,
            "stages": [stage.to_dict() for stage in steps],
            "reserve": None if reserve is None else float(reserve),
            "failure": float(failure),
            "renyi": None if renyi is None else ["inf" if math.isinf(value) else float(value) for value in renyi],
            "blocks": list(names),
        }
        request = self._request(name, "open", key or "open", by, content)
        return record_opening(self._storage, request, declaration, declaration.price())

    def spend(
        self,
        account: str,
        release: AbstractMechanism,
        *,
        label: str = "",
        by: str = "",
        key: str | None = None,
        blocks: Iterable[str] | None = None,
        unit: str | None = None,
        note_refusal: bool = False,
    ) -> Receipt:
        """Record a release before it is made; `BudgetExceeded` says what is missing and how much would fit.

        A key stands for one output: if the receipt says `again`, its noise may have been drawn, and must not be drawn a
        second time. `blocks` names the parts of the data it is about, by default all; it is charged to all of them, or
        to none. A `unit`, if given, must be the account's. `note_refusal` records an attempt that was refused.
        """
        given = {"label": label, "blocks": blocks, "unit": unit}
        request, asked = self._release("spend", account, release, key=key, by=by, given=given)
        try:
            return self._record(request, lambda locked: charged(locked, asked, request))
        except BudgetExceeded as error:
            if note_refusal:
                content = {**request.content, "reason": str(error)[:2000]}
                noted = self._request(request.account, "refused", None, by, content)
                record(self._storage, noted, lambda _: {})
            raise

    def reserve(
        self,
        account: str,
        release: AbstractMechanism,
        *,
        label: str = "",
        by: str = "",
        key: str | None = None,
        blocks: Iterable[str] | None = None,
        unit: str | None = None,
        expires: str = "1d",
    ) -> Hold:
        """Charge a release now, and say later how much of it was made: `Hold`.

        A hold counts as spent until it is settled, also where nobody comes back. One that has expired cannot begin.
        """
        duration = checked_duration(expires)
        given = {"label": label, "blocks": blocks, "unit": unit, "expires": expires}
        request, asked = self._release("hold", account, release, key=key, by=by, given=given)
        until = time_text(later(self._clock(), duration))
        receipt = self._record(request, lambda locked: {**charged(locked, asked, request), "expires": until})
        return Hold(ledger=self, receipt=receipt)

    def hold(self, account: str, key: str) -> Hold:
        """Return a hold by its key, to settle it in another process."""
        name, key = checked_name("account", account), checked_name("key", key)
        entry = self._storage.read(
            lambda transaction: transaction.entry(transaction.account(name).name, ("hold",), key)
        )
        if entry is None:
            raise InvalidParameter(f"account {name!r} has no hold with key {key!r}")
        return Hold(ledger=self, receipt=Receipt(entry=entry, again=True))

    def add_blocks(self, account: str, blocks: Iterable[str], *, by: str = "", key: str | None = None) -> Receipt:
        """Add parts of the data, such as a new week: records that lie in no other block."""
        names = checked_blocks(blocks, new_name)

        def build(locked: Locked) -> dict[str, Any]:
            there = locked.transaction.blocks(locked.row.name)
            if WHOLE in there:
                raise InvalidParameter(f"account {locked.row.name!r} is not divided; nothing was recorded")
            parameters.require(
                not set(names) & set(there), "new blocks must have new names", sorted(set(names) & set(there))
            )
            return {}

        request = self._request(checked_name("account", account), "blocks", key, by, {"blocks": list(names)})
        return self._record(request, build)

    def advance(self, account: str, *, by: str = "", key: str | None = None) -> Receipt:
        """Begin the next stage: from now on its slots and reserve may be used."""

        def build(locked: Locked) -> dict[str, Any]:
            if locked.row.stage + 1 >= locked.declaration.stages:
                raise InvalidParameter(f"account {locked.row.name!r} is in its last stage; nothing was recorded")
            return {"stage": locked.row.stage + 1}

        return self._record(self._request(checked_name("account", account), "advance", key, by, {}), build)

    # Questions ----------------------------------------------------------------------------------------------------

    def accounts(self) -> list[str]:
        """Return the names of all accounts."""
        return self._storage.read(lambda transaction: transaction.accounts())

    def status(self, account: str) -> Status:
        """Return budget, price, what is left, and the holds that count as spent."""
        name, now = checked_name("account", account), time_text(self._clock())
        (row, spent, rows), tallies = self._storage.read(
            lambda transaction: (transaction.standing(name), transaction.tallies(name))
        )
        declaration = declaration_of(row.declaration)
        holds = [
            HoldStatus(
                key=hold.key,
                state=hold.state,
                expires=hold.expires,
                expired=hold.expires < now,
                author=entry.author,
                time=entry.time,
            )
            for hold, entry in rows
        ]
        check_units(name, declaration, spent)
        return Status(
            account=name,
            opened=row.opened,
            declaration=declaration,
            claims=tuple(price_of(row.declaration, stage) for stage in range(declaration.stages)),
            stage=row.stage,
            version=row.version,
            head=row.head,
            spent=spent,
            released={} if beyond_in(declaration.lines)[1] is None else releases_by_block(tallies),
            holds=tuple(holds),
        )

    def spent(self, account: str, *, block: str | None = None) -> Composed:
        """Return everything that counts as released about a block, by default the whole, as one mechanism.

        Its ε is what the same releases would have cost if they had been planned: a figure for people, no guarantee.
        """
        name = checked_name("account", account)
        there, tallies = self._storage.read(
            lambda transaction: (transaction.blocks(transaction.account(name).name), transaction.tallies(name))
        )
        wanted = (next(iter(there)) if len(there) == 1 else None) if block is None else block
        parameters.require(wanted in there, f"block must be one of {', '.join(there)}", block)
        rows = sorted(row for (place, _), row in tallies.items() if place == wanted)
        return Composed.of(releases_of(rows))

    def history(self, account: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield all entries in order, those after a version; entries that are recorded meanwhile come last."""
        name, last = checked_name("account", account), parameters.whole_number("after", after)
        self._storage.read(lambda transaction: transaction.account(name))
        yield from self._storage.history(name, after=last)

    def verify(
        self,
        account: str | None = None,
        *,
        heads: Mapping[str, str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Verification:
        """Replay the history of an account, by default of all; `LedgerTampered` names the first place that is wrong.

        Hashes, totals, holds and counts are recomputed, and every charge is checked to be no less than what its release
        takes. `heads` are hashes that were kept elsewhere, by account: each must be part of the history. `progress` is
        called with the number of entries read so far.
        """
        wanted = None if account is None else checked_name("account", account)

        def work(transaction: Transaction) -> Verification:
            if wanted is not None:
                transaction.account(wanted)
            return verify_accounts(transaction, wanted, dict(heads or {}), progress or (lambda _: None))

        return self._storage.read(work)

    def export(self, account: str) -> Iterator[str]:
        """Yield the history as JSON lines, from which anybody can compute the hashes; the last one closes it."""
        last: Entry | None = None
        for entry in self.history(account):
            last = entry
            yield canonical(entry.to_dict())
        if last is not None:
            yield closing_line(last)

    # Inside -------------------------------------------------------------------------------------------------------

    def _request(self, account: str, kind: str, key: str | None, by: str, content: Mapping[str, Any]) -> Request:
        return Request(
            account=account,
            kind=kind,
            key=uuid.uuid4().hex if key is None else checked_name("key", key),
            author="" if by == "" else new_name("by", by),
            time=time_text(self._clock()),
            content=content,
        )

    def _release(
        self, kind: str, account: str, release: Any, *, key: str | None, by: str, given: Mapping[str, Any]
    ) -> tuple[Request, Priced]:
        """Return a checked request for a release, and its charges."""
        name = checked_name("account", account)
        rule = "release must be a cumulant mechanism, such as cm.Laplace(scale=20.0)"
        parameters.require(isinstance(release, AbstractMechanism), rule, release)
        key = uuid.uuid4().hex if key is None else key
        content = {
            "release": release.to_dict(),
            "label": checked_remark("label", given["label"]),
            "blocks": None if given["blocks"] is None else list(checked_blocks(given["blocks"])),
            "unit": None if given["unit"] is None else checked_unit(given["unit"]),
            **({"key": key, "expires": given["expires"]} if kind == "hold" else {}),
        }
        canonical(content)
        return self._request(name, kind, key, by, content), priced(self._declaration(name), release)

    def _declaration(self, account: str) -> str:
        """Return the declaration of an account as text."""
        if account not in self._declarations:
            row = self._storage.read(lambda transaction: transaction.account(account))
            self._declarations[account] = row.declaration
        return self._declarations[account]

    def _record(self, request: Request, build: Build) -> Receipt:
        return record(self._storage, request, build)


def _storage_at(url: str) -> Storage:
    try:
        from cumulant.ledger.storage import Storage
    except ModuleNotFoundError as error:
        raise CumulantError("a ledger needs SQLAlchemy; from a checkout: pip install '.[ledger]'") from error
    return Storage(url)


def _checked_stages(stages: Any) -> tuple[Stage, ...]:
    rule = "stages must be a list of cumulant.ledger.Stage"
    parameters.require(isinstance(stages, Sequence) and len(stages) > 0, rule, stages)
    parameters.require(all(isinstance(stage, Stage) for stage in stages), rule, stages)
    return tuple(stages)


def _divided(blocks: tuple[str, ...], neighbors: Neighbors) -> tuple[str, ...]:
    """Refuse blocks where a record that is replaced may come to lie in another one."""
    if neighbors is not ADD_REMOVE:
        raise UnprovenCombination(
            "blocks need add-or-remove-one: a record that is replaced may come to lie in another block, and then two "
            "blocks differ; open the account for cm.ADD_REMOVE, or without blocks"
        )
    parameters.require(WHOLE not in blocks, f"{WHOLE!r} stands for an account that is not divided", blocks)
    return blocks
