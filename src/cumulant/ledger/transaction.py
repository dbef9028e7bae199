"""What can be done inside a transaction on the tables of a ledger, by SQLAlchemy Core."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from cumulant.errors import InvalidParameter, LedgerTampered, LedgerUnavailable
from cumulant.ledger.effects import OPEN_STATES
from cumulant.ledger.entries import Entry
from cumulant.ledger.tables import (
    ACCOUNT,
    BLOCK,
    ENTRY,
    HOLD,
    SCHEMA,
    SCHEMA_VERSION,
    TALLY,
    UPGRADES,
    AccountRow,
    HoldRow,
)

PAGE = 1000  # entries that are read at a time
UPGRADE_LOCK = 0x63756D75  # of PostgreSQL's advisory locks: "cumu"
LATEST = (
    select(func.count(SCHEMA.c.version)).scalar_subquery().label("upgrades"),
    select(func.max(SCHEMA.c.version)).scalar_subquery().label("latest"),
)
"""How many upgrades the tables have, and the number of the last."""

# Statements of a spend, made once: SQLAlchemy takes longer to make them than a database to run them.
LOCKED = select(ACCOUNT).where(ACCOUNT.c.name == bindparam("name")).with_for_update()
SAME_KEY = and_(
    ENTRY.c.account == ACCOUNT.c.name,
    ENTRY.c.kind.in_(bindparam("kinds", expanding=True)),
    ENTRY.c.key == bindparam("key"),
)
SAME_ACCOUNT = BLOCK.c.account == ACCOUNT.c.name
NAMED = and_(SAME_ACCOUNT, BLOCK.c.name.in_(bindparam("blocks", expanding=True)))
STANDING, STANDING_OF_SOME = (
    select(*LATEST, BLOCK.c.name.label("block"), BLOCK.c.spent, ENTRY.c.version)
    .select_from(ACCOUNT.outerjoin(ENTRY, SAME_KEY).outerjoin(BLOCK, blocks))
    .where(ACCOUNT.c.name == bindparam("account"))
    for blocks in (SAME_ACCOUNT, NAMED)
)
MOVE_HEAD = (
    update(ACCOUNT)
    .where(ACCOUNT.c.name == bindparam("account"), ACCOUNT.c.version == bindparam("before"))
    .values(version=bindparam("after"), head=bindparam("hash"), stage=bindparam("begun"))
)
APPEND = ENTRY.insert()
SET_SPENT = (
    update(BLOCK)
    .where(BLOCK.c.account == bindparam("place"), BLOCK.c.name == bindparam("block"))
    .values(spent=bindparam("units"))
)


def _adding(insert: sqlite.Insert | postgresql.Insert) -> sqlite.Insert | postgresql.Insert:
    """Return an insertion of counts that adds to those that are there."""
    times = {"times": TALLY.c.times + insert.excluded.times}
    return insert.on_conflict_do_update(index_elements=list(TALLY.primary_key), set_=times)


ADD_RELEASED = {"sqlite": _adding(sqlite.insert(TALLY)), "postgresql": _adding(postgresql.insert(TALLY))}


class Transaction:
    """What can be done inside a transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._spent: dict[tuple[str, str], tuple[int, ...]] = {}  # what was read and is locked
        self._whole: set[str] = set()  # accounts of which all blocks were read and are locked

    # The schema ---------------------------------------------------------------------------------------------------

    def upgrade(self) -> None:
        """Bring the tables to the latest version, one number after the other."""
        if self.connection.dialect.name == "postgresql":
            self.connection.execute(select(func.pg_advisory_xact_lock(UPGRADE_LOCK)))
        for number in range(self.schema_version(), SCHEMA_VERSION):
            UPGRADES[number](self.connection)
            self.connection.execute(SCHEMA.insert().values(version=number + 1))

    def schema_version(self) -> int:
        """Return how many upgrades were made; a number that this library does not know is refused."""
        if not self.connection.dialect.has_table(self.connection, SCHEMA.name):
            return 0
        found = sorted(self.connection.execute(select(SCHEMA.c.version)).scalars())
        if found != list(range(1, len(found) + 1)) or len(found) > SCHEMA_VERSION:
            raise _unknown_schema(f"versions {found}")
        return len(found)

    # Reading ------------------------------------------------------------------------------------------------------

    def accounts(self) -> list[str]:
        return sorted(self.connection.execute(select(ACCOUNT.c.name)).scalars())

    def account(self, name: str, *, lock: bool = False) -> AccountRow:
        question = LOCKED if lock else select(ACCOUNT).where(ACCOUNT.c.name == bindparam("name"))
        row = self.connection.execute(question, {"name": name}).one_or_none()
        if row is None:
            known = ", ".join(map(repr, self.accounts()[:20])) or "none"
            raise InvalidParameter(f"there is no account {name!r} in this ledger, but {known}")
        return AccountRow(**row._mapping)

    def blocks(self, account: str, *, only: Collection[str] | None = None) -> dict[str, tuple[int, ...]]:
        """Return the units spent in each block, or in those named; in one transaction they are read once."""
        if account in self._whole:
            known = {name: units for (place, name), units in sorted(self._spent.items()) if place == account}
            return known if only is None else {name: known[name] for name in sorted(only) if name in known}
        if only is not None and all((account, name) in self._spent for name in only):
            return {name: self._spent[account, name] for name in sorted(only)}
        same = [BLOCK.c.account == account] + ([] if only is None else [BLOCK.c.name.in_(only)])
        rows = self.connection.execute(select(BLOCK.c.name, BLOCK.c.spent).where(*same))
        found = {name: _units(account, name, spent) for name, spent in sorted(map(tuple, rows))}
        self._spent |= {(account, name): units for name, units in found.items()}
        return found

    def entry(self, account: str, kinds: Collection[str], key: str) -> Entry | None:
        """Return the entry that a key stands for among some kinds, which share their keys."""
        same = (ENTRY.c.account == account, ENTRY.c.kind.in_(kinds), ENTRY.c.key == key)
        row = self.connection.execute(select(ENTRY).where(*same)).one_or_none()
        return None if row is None else Entry(**row._mapping)

    def entry_before_writing(
        self, account: str, kinds: Collection[str], key: str, *, blocks: Collection[str] | None
    ) -> Entry | None:
        """Return what `entry` does, in one question that also checks the schema and reads what blocks have spent.

        The account is locked by now: what was locked and read in one statement may be older than the lock.
        """
        asked = {"account": account, "kinds": list(kinds), "key": key}
        if blocks is None:
            rows = self.connection.execute(STANDING, asked).all()
            self._whole.add(account)
        else:
            rows = self.connection.execute(STANDING_OF_SOME, {**asked, "blocks": list(blocks)}).all()
        for row in rows:
            _check_latest(row.upgrades, row.latest)
            if row.block is not None:
                self._spent[account, row.block] = _units(account, row.block, row.spent)
        return None if rows[0].version is None else self.entry_at(account, rows[0].version)

    def entry_at(self, account: str, version: int) -> Entry:
        same = (ENTRY.c.account == account, ENTRY.c.version == version)
        return Entry(**self.connection.execute(select(ENTRY).where(*same)).one()._mapping)

    def page(self, account: str, *, after: int) -> list[Entry]:
        """Return the next entries of the history, in order; none at its end."""
        later = (ENTRY.c.account == account, ENTRY.c.version > after)
        rows = self.connection.execute(select(ENTRY).where(*later).order_by(ENTRY.c.version).limit(PAGE))
        return [Entry(**row._mapping) for row in rows]

    def entries(self, account: str) -> Iterator[Entry]:
        """Yield the history in order, page by page."""
        last = 0
        while page := self.page(account, after=last):
            yield from page
            last = page[-1].version

    def holds(self, account: str, *, key: str | None = None) -> list[HoldRow]:
        same = [HOLD.c.account == account] + ([] if key is None else [HOLD.c.key == key])
        rows = self.connection.execute(select(HOLD.c.key, HOLD.c.version, HOLD.c.state, HOLD.c.expires).where(*same))
        return sorted((HoldRow(*row) for row in rows), key=lambda row: row.version)

    def standing(self, account: str) -> tuple[AccountRow, dict[str, tuple[int, ...]], list[tuple[HoldRow, Entry]]]:
        """Return an account, what is spent in its blocks, and the holds that count as spent, with their entries."""
        row, held = self.account(account), [hold for hold in self.holds(account) if hold.state in OPEN_STATES]
        return row, self.blocks(account), [(hold, self.entry_at(account, hold.version)) for hold in held]

    def tallies(self, account: str, *, block: str | None = None) -> dict[tuple[str, str], tuple[str, int]]:
        """Return (release, times) by block and digest, of all blocks or of one."""
        columns = (TALLY.c.block, TALLY.c.digest, TALLY.c.release, TALLY.c.times)
        same = [TALLY.c.account == account] + ([] if block is None else [TALLY.c.block == block])
        rows = self.connection.execute(select(*columns).where(*same))
        return {(block, digest): (release, times) for block, digest, release, times in rows}

    def named_accounts(self) -> dict[str, list[str]]:
        """Return for each table the accounts that its rows name."""
        questions = {table.name: select(table.c.account).distinct() for table in (ENTRY, BLOCK, HOLD, TALLY)}
        return {name: list(self.connection.execute(asked).scalars()) for name, asked in questions.items()}

    # Writing ------------------------------------------------------------------------------------------------------

    def insert_account(self, row: AccountRow) -> None:
        """Add an account, unless somebody has upgraded the tables since this ledger was opened."""
        _check_latest(*self.connection.execute(select(*LATEST)).one())
        self.connection.execute(ACCOUNT.insert().values(**row._asdict()))

    def append(self, entry: Entry, *, before: AccountRow, stage: int) -> None:
        """Add an entry and move the account's head, which nobody else has moved since."""
        head = {"account": entry.account, "before": before.version, "after": entry.version, "hash": entry.hash}
        if self.connection.execute(MOVE_HEAD, {**head, "begun": stage}).rowcount == 0:
            raise LedgerUnavailable("another writer was faster; ask again with the same key", dropped=True)
        self.connection.execute(APPEND, entry.to_dict())  # nobody else has an entry of this number

    def insert_blocks(self, account: str, names: tuple[str, ...], *, lines: int) -> None:
        if names:
            rows = [{"account": account, "name": name, "spent": json.dumps([0] * lines)} for name in names]
            self.connection.execute(BLOCK.insert(), rows)

    def set_spent(self, account: str, spent: Mapping[str, Sequence[int]]) -> None:
        """Set the units spent in some blocks."""
        self._spent |= {(account, block): tuple(units) for block, units in spent.items()}
        rows = [{"place": account, "block": block, "units": json.dumps(units)} for block, units in spent.items()]
        self.connection.execute(SET_SPENT, _one_or_all(rows))

    def add_released(self, account: str, released: Mapping[tuple[str, str], int]) -> None:
        """Add to the counts of releases, by block and text; all of them in one statement."""
        rows = [
            {"account": account, "block": block, "digest": digest_of(text), "release": text, "times": times}
            for (block, text), times in sorted(released.items())  # in one order, so that writers never wait in a ring
        ]
        self.connection.execute(ADD_RELEASED[self.connection.dialect.name], _one_or_all(rows))

    def insert_hold(self, account: str, row: HoldRow) -> None:
        self.connection.execute(HOLD.insert().values(account=account, **row._asdict()))

    def set_hold(self, account: str, key: str, state: str) -> None:
        same = (HOLD.c.account == account, HOLD.c.key == key)
        self.connection.execute(update(HOLD).where(*same).values(state=state))


def _one_or_all(rows: list[dict[str, Any]]) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the parameters of a statement: drivers are slow with lists, also with those of one."""
    return rows[0] if len(rows) == 1 else rows


def _check_latest(upgrades: int, latest: int | None) -> None:
    if not upgrades == latest == SCHEMA_VERSION:
        raise _unknown_schema(f"{upgrades} upgrades up to number {latest}")


def _unknown_schema(found: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"table {SCHEMA.name} names {found}, this library knows those up to {SCHEMA_VERSION}; it was changed by hand, "
        "or a newer cumulant made it; nothing was recorded",
        dropped=False,
    )


def _units(account: str, block: str, text: str) -> tuple[int, ...]:
    """Return the units of each line; what is no list of whole numbers was not written here."""
    try:
        units = tuple(json.loads(text))
    except (TypeError, ValueError):
        units = (-1,)
    if not all(type(n) is int and n >= 0 for n in units):
        raise LedgerTampered(
            f"account {account!r}, table {BLOCK.name}, {block!r}: spent is not a list of units: {text!r}"
        )
    return units


def digest_of(release: str) -> str:
    return sha256(release.encode("ascii")).hexdigest()
