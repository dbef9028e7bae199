"""Recording: one entry, and what follows from it, in one transaction; no key records twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, final

from cumulant import parameters
from cumulant.errors import BudgetExceeded, InvalidParameter, LedgerTampered
from cumulant.ledger.allocation import Block, Standing, Taken, Ways, ways_of
from cumulant.ledger.declaration import Declaration, check_relation, declaration_from_dict
from cumulant.ledger.effects import effects_of, releases_of, rows_to_data
from cumulant.ledger.entries import NO_HASH, Entry, canonical, seal
from cumulant.ledger.values import WHOLE, Receipt
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.version import __version__

if TYPE_CHECKING:
    from cumulant.ledger.storage import Storage
    from cumulant.ledger.tables import AccountRow
    from cumulant.ledger.transaction import Transaction

RELEASES = ("spend", "hold")
"""Kinds that share their keys: a release is spent, or held."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What somebody asks to have recorded; `content` is compared where the key is known already."""

    account: str
    kind: str
    key: str
    author: str
    time: str
    content: Mapping[str, Any]

    def is_same_as(self, entry: Entry) -> bool:
        """Return whether an entry was recorded for an equal request."""
        same = canonical(entry.content["request"]) == canonical(dict(self.content))
        return entry.kind == self.kind and entry.author == self.author and same


@final
@dataclass(frozen=True, slots=True)
class Locked:
    """An account that nobody else writes to until the transaction ends."""

    transaction: Transaction
    row: AccountRow

    @property
    def declaration(self) -> Declaration:
        return declaration_of(self.row.declaration)

    def standing(self, block: str) -> Standing:
        """Return how to look up, once, everything that was released or is held in a block."""
        return cache(lambda: releases_of(self.transaction.tallies(self.row.name, block=block).values()))


Build = Callable[[Locked], dict[str, Any]]
"""Returns the body of an entry beside the request, or raises: then nothing is recorded."""


def record(storage: Storage, request: Request, build: Build) -> Receipt:
    """Return the receipt of a request, which says whether it was recorded before.

    Where a connection is dropped nobody knows whether the entry was recorded: storage asks again, with the same key.
    """

    def work(transaction: Transaction) -> tuple[Entry, bool]:
        account = Locked(transaction, transaction.account(request.account, lock=True))
        storage.check_progress(account.row.name, account.row.version)
        there = _recorded(transaction, request)
        if there is not None:
            return there, True
        body = {"request": dict(request.content), **build(account)}
        entry = _sealed(request, body, account.row)
        apply_effects(transaction, entry, body, account.row, account.declaration)
        return entry, False

    try:
        entry, again = storage.write(work)
    except Refused as refused:
        raise refused.explained() from None
    storage.note_progress(entry.account, entry.version)
    return Receipt(entry=entry, again=again)


def _recorded(transaction: Transaction, request: Request) -> Entry | None:
    """Return what the key stands for already; for something else, refuse."""
    kinds = RELEASES if request.kind in RELEASES else (request.kind,)
    blocks = request.content.get("blocks") if request.kind in RELEASES else None
    entry = transaction.entry_before_writing(request.account, kinds, request.key, blocks=blocks)
    if entry is not None and not request.is_same_as(entry):
        raise InvalidParameter(
            f"key {request.key!r} was used for another {entry.kind} (entry {entry.version}); give each its own key; "
            "nothing was recorded"
        )
    return entry


class Refused(BudgetExceeded):
    """A release that is over the budget; how often it would fit is asked for when the lock is free again."""

    def __init__(self, said: str, fits: Callable[[], int], *, account: str, block: str) -> None:
        super().__init__(said, account=account, block=block)
        self.fits = fits

    def explained(self) -> BudgetExceeded:
        """Return the refusal with everything that is said of it."""
        fits = self.fits()
        said = f"{self}; {fits} of this release would fit; nothing was recorded"
        return BudgetExceeded(said, fits=fits, **self.known)


@final
@dataclass(frozen=True, slots=True)
class Priced:
    """A release, and how each of its parts may be charged in an account: computed before any lock is taken."""

    release: AbstractMechanism
    declaration: str
    ways: Ways


def priced(declaration: str, release: AbstractMechanism) -> Priced:
    """Return the charges of a release under a declaration."""
    account = declaration_of(declaration)
    check_relation(release, account.neighbors)
    return Priced(release, declaration, [ways_of(account.lines, part) for part, _ in release.releases()])


def charged(locked: Locked, asked: Priced, request: Request) -> dict[str, Any]:
    """Return the body of a release: what it takes in each of its blocks, all or none."""
    if asked.declaration != locked.row.declaration:
        raise LedgerTampered(
            f"account {locked.row.name!r}: its declaration was changed; nothing was recorded; run verify"
        )
    declaration, unit = locked.declaration, request.content["unit"]
    there = locked.transaction.blocks(locked.row.name, only=request.content["blocks"])
    blocks = request.content["blocks"] or list(there)
    if unit not in (None, declaration.unit):
        raise InvalidParameter(
            f"this account protects {declaration.unit!r}, the release is about {unit!r}; nothing was recorded"
        )
    for block in blocks:
        known = "" if block in there else ", ".join(list(locked.transaction.blocks(locked.row.name))[:20])
        parameters.require(block in there, f"block must be one of {known}; nothing was recorded", block)
    check_units(locked.row.name, declaration, there)
    taken = {block: _taken(locked, asked, there[block], block) for block in blocks}
    return {"release": request.content["release"], "taken": rows_to_data(taken)}


def _taken(locked: Locked, asked: Priced, spent: Sequence[int], block: str) -> tuple[Taken, ...]:
    """Return how a release is charged in a block, or refuse it."""
    there = Block(locked.declaration.lines, spent, locked.row.stage, locked.standing(block))
    try:
        return there.allocate(asked.release, asked.ways)
    except BudgetExceeded as error:
        where = "" if block == WHOLE else f" in block {block!r}"
        raise Refused(
            f"account {locked.row.name!r}{where}: {error}",
            lambda: there.most_that_fit(asked.release, asked.ways),
            account=locked.row.name,
            block=block,
        ) from None


def record_opening(storage: Storage, request: Request, declaration: Declaration, price: float) -> Receipt:
    """Return the receipt of the first entry of an account, which says whether it was recorded before."""
    from cumulant.ledger.storage import AlreadyThereError
    from cumulant.ledger.tables import AccountRow

    text = canonical(declaration.to_dict())
    row = AccountRow(request.account, request.time, text, 0, 0, NO_HASH)
    body = {"request": dict(request.content), "declaration": declaration.to_dict(), "price": price}

    def work(transaction: Transaction) -> Entry:
        transaction.insert_account(row)
        entry = _sealed(request, body, row)
        apply_effects(transaction, entry, body, row, declaration)
        return entry

    try:
        entry = storage.write(work)
        storage.note_progress(entry.account, entry.version)
        return Receipt(entry=entry, again=False)
    except AlreadyThereError:
        there = storage.read(lambda transaction: transaction.entry_at(request.account, 1))
        if there.key == request.key and request.is_same_as(there):
            return Receipt(entry=there, again=True)
        raise InvalidParameter(
            f"account {request.account!r} is open already, since {there.time}; nothing was recorded"
        ) from None


def _sealed(request: Request, body: dict[str, Any], before: AccountRow) -> Entry:
    asked = {name: getattr(request, name) for name in ("account", "time", "author", "key", "kind")}
    return seal(version=before.version + 1, previous=before.head, body={**body, "charged_by": __version__}, **asked)


def apply_effects(
    transaction: Transaction, entry: Entry, content: Mapping[str, Any], before: AccountRow, declaration: Declaration
) -> None:
    """Append an entry, whose body as data is `content`, and store what follows from it."""
    from cumulant.ledger.tables import HoldRow

    effects = effects_of(entry.kind, content, declaration.lines)
    transaction.append(entry, before=before, stage=before.stage if effects.stage is None else effects.stage)
    transaction.insert_blocks(entry.account, effects.blocks, lines=len(declaration.lines))
    if effects.spent:
        there = transaction.blocks(entry.account, only=list(effects.spent))
        added = effects.spent.items()
        totals = {block: [a + b for a, b in zip(there[block], units, strict=True)] for block, units in added}
        transaction.set_spent(entry.account, totals)
    if effects.released:
        transaction.add_released(entry.account, effects.released)
    if effects.hold is not None and effects.hold[1] == "held":
        row = HoldRow(effects.hold[0], entry.version, "held", content["expires"])
        transaction.insert_hold(entry.account, row)
    elif effects.hold is not None:
        transaction.set_hold(entry.account, *effects.hold)


def check_units(account: str, declaration: Declaration, there: Mapping[str, Sequence[int]]) -> None:
    """Refuse to go on from totals that no history can have."""
    for block, spent in there.items():
        fits = len(spent) == len(declaration.lines)
        if not fits or any(n > line.units for n, line in zip(spent, declaration.lines, strict=True)):
            raise LedgerTampered(f"account {account!r}, block {block!r}: these are not its units; run verify")


@lru_cache(maxsize=256)
def declaration_of(text: str) -> Declaration:
    """Return the declaration of an account from its canonical text."""
    try:
        return declaration_from_dict(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerTampered(
            f"a declaration cannot be read, it was changed by hand, or a newer cumulant made it: {error!r}; run verify"
        ) from error


@lru_cache(maxsize=256)
def price_of(text: str, stage: int) -> float:
    """Return what a declaration costs up to a stage, computed once."""
    return declaration_of(text).price(stage=stage)
