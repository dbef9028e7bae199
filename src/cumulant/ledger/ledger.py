"""The ledger: accounts that many processes spend, for months, choosing as they go."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from cumulant import parameters
from cumulant.composition import Composed
from cumulant.errors import BudgetExceeded, CumulantError, InvalidParameter, UnprovenCombination
from cumulant.ledger.allocation import ways_of
from cumulant.ledger.declaration import Stage, checked_plan, declare
from cumulant.ledger.effects import OPEN_STATES
from cumulant.ledger.entries import Entry, canonical
from cumulant.ledger.hold import Hold
from cumulant.ledger.recording import (
    Build,
    Locked,
    Request,
    charged,
    check_units,
    declaration_of,
    price_of,
    record,
    record_opening,
)
from cumulant.ledger.texts import checked_blocks, checked_duration, checked_name, checked_remark, time_text
from cumulant.ledger.values import WHOLE, HoldStatus, Receipt, Status, Verification
from cumulant.ledger.verification import verify_accounts
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.data import from_dict
from cumulant.neighbors import ADD_REMOVE, Neighbors

if TYPE_CHECKING:
    from typing_extensions import Self

    from cumulant.ledger.storage import Storage


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
        name = checked_name("account", account)
        if plan is not None and stages is not None:
            raise InvalidParameter("give plan or stages, not both")
        steps = _checked_stages(stages) if stages is not None else (Stage(plan=checked_plan(plan)),)
        names = (WHOLE,) if blocks is None else _divided(checked_blocks(blocks), neighbors)
        declaration = declare(
            epsilon=epsilon,
            delta=delta,
            neighbors=neighbors,
            unit=_checked_unit(unit),
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
        entry, again = record_opening(self._storage, request, declaration, declaration.price())
        return Receipt(entry=entry, again=again)

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
        request = self._release("spend", account, release, key=key, by=by, given=given)
        try:
            return self._record(request, lambda locked: charged(locked, release, request))
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
        request = self._release("hold", account, release, key=key, by=by, given=given)
        until = time_text(self._clock() + duration)
        receipt = self._record(request, lambda locked: {**charged(locked, release, request), "expires": until})
        return Hold(ledger=self, receipt=receipt)

    def hold(self, account: str, key: str) -> Hold:
        """Return a hold by its key, to settle it in another process."""
        name, key = checked_name("account", account), checked_name("key", key)
        with self._storage.reading() as transaction:
            transaction.account(name)
            entry = transaction.entry(name, ("hold",), key)
        if entry is None:
            raise InvalidParameter(f"account {name!r} has no hold with key {key!r}")
        return Hold(ledger=self, receipt=Receipt(entry=entry, again=True))

    def add_blocks(self, account: str, blocks: Iterable[str], *, by: str = "", key: str | None = None) -> Receipt:
        """Add parts of the data, such as a new week: records that lie in no other block."""
        names = checked_blocks(blocks)

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
        with self._storage.reading() as transaction:
            return transaction.accounts()

    def status(self, account: str) -> Status:
        """Return budget, price, what is left, and the holds that count as spent."""
        name, now = checked_name("account", account), time_text(self._clock())
        with self._storage.reading() as transaction:
            row, spent = transaction.account(name), transaction.blocks(name)
            rows = [(hold, transaction.entry_at(name, hold.version)) for hold in _open(transaction.holds(name))]
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
        declaration = declaration_of(row.declaration)
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
            holds=tuple(holds),
        )

    def spent(self, account: str, *, block: str | None = None) -> Composed:
        """Return everything that counts as released about a block, by default the whole, as one mechanism.

        Its ε is what the same releases would have cost if they had been planned: a figure for people, no guarantee.
        """
        name = checked_name("account", account)
        with self._storage.reading() as transaction:
            there = transaction.blocks(transaction.account(name).name)
            wanted = (next(iter(there)) if len(there) == 1 else None) if block is None else block
            parameters.require(wanted in there, f"block must be one of {', '.join(there)}", block)
            tallies = transaction.tallies(name)
        rows = sorted(row for (place, _), row in tallies.items() if place == wanted)
        return Composed.of((from_dict(json.loads(text)), times) for text, times in rows)

    def history(self, account: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield all entries in order, those after a version."""
        name = checked_name("account", account)
        with self._storage.reading() as transaction:
            transaction.account(name)
            yield from transaction.entries(name, after=parameters.whole_number("after", after))

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
        with self._storage.reading() as transaction:
            if wanted is not None:
                transaction.account(wanted)
            return verify_accounts(transaction, wanted, dict(heads or {}), progress or (lambda _: None))

    def export(self, account: str) -> Iterator[str]:
        """Yield the history as JSON lines, from which anybody can compute the hashes."""
        for entry in self.history(account):
            yield canonical(entry.to_dict())

    # Inside -------------------------------------------------------------------------------------------------------

    def _request(self, account: str, kind: str, key: str | None, by: str, content: Mapping[str, Any]) -> Request:
        return Request(
            account=account,
            kind=kind,
            key=uuid.uuid4().hex if key is None else checked_name("key", key),
            author="" if by == "" else checked_name("by", by),
            time=time_text(self._clock()),
            content=content,
        )

    def _release(
        self, kind: str, account: str, release: Any, *, key: str | None, by: str, given: Mapping[str, Any]
    ) -> Request:
        """Return a checked request for a release."""
        name = checked_name("account", account)
        rule = "release must be a cumulant mechanism, such as cm.Laplace(scale=20.0)"
        parameters.require(isinstance(release, AbstractMechanism), rule, release)
        key = uuid.uuid4().hex if key is None else key
        content = {
            "release": release.to_dict(),
            "label": checked_remark("label", given["label"]),
            "blocks": None if given["blocks"] is None else list(checked_blocks(given["blocks"])),
            "unit": None if given["unit"] is None else _checked_unit(given["unit"]),
            **({"key": key, "expires": given["expires"]} if kind == "hold" else {}),
        }
        canonical(content)
        with suppress(CumulantError):
            self._prepare(name, release)
        return self._request(name, kind, key, by, content)

    def _prepare(self, account: str, release: AbstractMechanism) -> None:
        """Compute all charges outside any lock: they are kept, and the transaction only adds whole numbers."""
        text = self._declarations.get(account)
        if text is None:
            with self._storage.reading() as transaction:
                text = self._declarations[account] = transaction.account(account).declaration
        for part, _ in release.releases():
            ways_of(declaration_of(text).lines, part)

    def _record(self, request: Request, build: Build) -> Receipt:
        entry, again = record(self._storage, request, build)
        return Receipt(entry=entry, again=again)


def _open(holds: Iterable[Any]) -> list[Any]:
    return [hold for hold in holds if hold.state in OPEN_STATES]


def _storage_at(url: str) -> Storage:
    try:
        from cumulant.ledger.storage import Storage
    except ModuleNotFoundError as error:
        raise CumulantError("a ledger needs SQLAlchemy: pip install 'cumulant[ledger]'") from error
    return Storage(url)


def _checked_unit(unit: Any) -> str:
    text = checked_remark("unit", unit)
    parameters.require(text != "", "unit must say what one record is, such as 'one customer'", unit)
    return text


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
