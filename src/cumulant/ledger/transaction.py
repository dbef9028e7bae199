"""What can be done inside a transaction on the tables of a ledger, by SQLAlchemy Core."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from cumulant.errors import InvalidParameter, LedgerTampered, LedgerUnavailable
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


class Transaction:
    """What can be done inside a transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._spent: dict[tuple[str, str], tuple[int, ...]] = {}  # what was read and is locked

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
        return _known_version(self.connection.execute(select(SCHEMA.c.version)).scalars().all())

    def check_schema(self) -> None:
        """Refuse to go on where somebody has upgraded the tables since this ledger was opened."""
        if _known_version(self.connection.execute(select(SCHEMA.c.version)).scalars().all()) != SCHEMA_VERSION:
            raise LedgerUnavailable("the tables of this ledger are not there any more; open it again", dropped=False)

    # Reading ------------------------------------------------------------------------------------------------------

    def accounts(self) -> list[str]:
        return sorted(self.connection.execute(select(ACCOUNT.c.name)).scalars())

    def account(self, name: str, *, lock: bool = False) -> AccountRow:
        question = select(ACCOUNT).where(ACCOUNT.c.name == name)
        row = self.connection.execute(question.with_for_update() if lock else question).one_or_none()
        if row is None:
            known = ", ".join(map(repr, self.accounts()[:20])) or "none"
            raise InvalidParameter(f"there is no account {name!r} in this ledger, but {known}")
        return AccountRow(row.name, row.opened, row.declaration, row.stage, row.version, row.head)

    def blocks(self, account: str, *, only: Collection[str] | None = None) -> dict[str, tuple[int, ...]]:
        """Return the units spent in each block, or in those named; in one transaction they are read once."""
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

    def tallies(self, account: str) -> dict[tuple[str, str], tuple[str, int]]:
        """Return (release, times) by block and digest."""
        columns = (TALLY.c.block, TALLY.c.digest, TALLY.c.release, TALLY.c.times)
        rows = self.connection.execute(select(*columns).where(TALLY.c.account == account))
        return {(block, digest): (release, times) for block, digest, release, times in rows}

    def named_accounts(self) -> dict[str, list[str]]:
        """Return for each table the accounts that its rows name."""
        tables = {table.name: table.c.account for table in (ENTRY, BLOCK, HOLD, TALLY)}
        return {
            name: list(self.connection.execute(select(column).distinct()).scalars()) for name, column in tables.items()
        }

    # Writing ------------------------------------------------------------------------------------------------------

    def insert_account(self, row: AccountRow) -> None:
        self.connection.execute(ACCOUNT.insert().values(**row._asdict()))

    def append(self, entry: Entry, *, before: AccountRow, stage: int) -> None:
        """Add an entry and move the account's head, which nobody else has moved since."""
        head = {"version": entry.version, "head": entry.hash, "stage": stage}
        same = (ACCOUNT.c.name == entry.account, ACCOUNT.c.version == before.version)
        if self.connection.execute(update(ACCOUNT).where(*same).values(**head)).rowcount != 1:
            raise LedgerUnavailable("another writer was faster; ask again with the same key", dropped=True)
        self.connection.execute(ENTRY.insert().values(**entry.to_dict()))

    def insert_blocks(self, account: str, names: tuple[str, ...], *, lines: int) -> None:
        if names:
            rows = [{"account": account, "name": name, "spent": json.dumps([0] * lines)} for name in names]
            self.connection.execute(BLOCK.insert(), rows)

    def set_spent(self, account: str, spent: Mapping[str, Sequence[int]]) -> None:
        """Set the units spent in some blocks."""
        self._spent |= {(account, block): tuple(units) for block, units in spent.items()}
        same = (BLOCK.c.account == account, BLOCK.c.name == bindparam("block"))
        rows = [{"block": block, "units": json.dumps(units)} for block, units in spent.items()]
        self.connection.execute(update(BLOCK).where(*same).values(spent=bindparam("units")), rows)

    def add_released(self, account: str, released: Mapping[tuple[str, str], int]) -> None:
        """Add to the counts of releases, by block and text; all of them in one statement."""
        dialect = sqlite if self.connection.dialect.name == "sqlite" else postgresql
        rows = [
            {"account": account, "block": block, "digest": digest_of(text), "release": text, "times": times}
            for (block, text), times in sorted(released.items())  # in one order, so that writers never wait in a ring
        ]
        more = dialect.insert(TALLY)
        times = {"times": TALLY.c.times + more.excluded.times}
        self.connection.execute(more.on_conflict_do_update(index_elements=list(TALLY.primary_key), set_=times), rows)

    def insert_hold(self, account: str, row: HoldRow) -> None:
        self.connection.execute(HOLD.insert().values(account=account, **row._asdict()))

    def set_hold(self, account: str, key: str, state: str) -> None:
        same = (HOLD.c.account == account, HOLD.c.key == key)
        self.connection.execute(update(HOLD).where(*same).values(state=state))


def _known_version(found: Sequence[int]) -> int:
    versions = sorted(found)
    if versions != list(range(1, len(versions) + 1)) or len(versions) > SCHEMA_VERSION:
        raise LedgerUnavailable(
            f"table {SCHEMA.name} names versions {versions}, this library knows those up to {SCHEMA_VERSION}; "
            "it was changed by hand, or a newer cumulant made it; nothing was recorded",
            dropped=False,
        )
    return len(versions)


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
