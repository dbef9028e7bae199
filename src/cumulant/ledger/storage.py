"""Tables and transactions, by SQLAlchemy Core: one text for SQLite and PostgreSQL.

Writers of an account come one after another: on SQLite by BEGIN IMMEDIATE, on PostgreSQL by a lock on its row. Inside
there is integer arithmetic only: charges are computed before, and prices never depend on what was spent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    func,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from cumulant.errors import CumulantError, InvalidParameter, LedgerTampered, LedgerUnavailable
from cumulant.ledger.entries import Entry
from cumulant.ledger.texts import LONGEST_NAME

SCHEMA_VERSION = 1  # the number of the last upgrade
PATIENCE = 30  # seconds that a writer waits for another one
PAGE = 1000  # entries that are read at a time
UPGRADE_LOCK = 0x63756D75  # of PostgreSQL's advisory locks: "cumu"

METADATA = MetaData()
NAME_TYPE, HASH_TYPE = String(LONGEST_NAME), String(64)
SCHEMA = Table("cumulant_schema", METADATA, Column("version", Integer, primary_key=True))
ACCOUNT = Table(
    "cumulant_account",
    METADATA,
    Column("name", NAME_TYPE, primary_key=True),
    Column("opened", String(32), nullable=False),
    Column("declaration", Text, nullable=False),
    Column("stage", Integer, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("head", HASH_TYPE, nullable=False),
)
ENTRY = Table(
    "cumulant_entry",
    METADATA,
    Column("account", NAME_TYPE, ForeignKey(ACCOUNT.c.name), primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("time", String(32), nullable=False),
    Column("author", NAME_TYPE, nullable=False),
    Column("key", NAME_TYPE, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", HASH_TYPE, nullable=False),
    Column("hash", HASH_TYPE, nullable=False),
    UniqueConstraint("account", "kind", "key"),
)
BLOCK = Table(
    "cumulant_block",
    METADATA,
    Column("account", NAME_TYPE, ForeignKey(ACCOUNT.c.name), primary_key=True),
    Column("name", NAME_TYPE, primary_key=True),
    Column("spent", Text, nullable=False),  # units of each line, as JSON
)
HOLD = Table(
    "cumulant_hold",
    METADATA,
    Column("account", NAME_TYPE, ForeignKey(ACCOUNT.c.name), primary_key=True),
    Column("key", NAME_TYPE, primary_key=True),
    Column("version", BigInteger, nullable=False),  # of the entry that made it
    Column("state", String(16), nullable=False),
    Column("expires", String(32), nullable=False),
)
TALLY = Table(
    "cumulant_tally",
    METADATA,
    Column("account", NAME_TYPE, ForeignKey(ACCOUNT.c.name), primary_key=True),
    Column("block", NAME_TYPE, primary_key=True),
    Column("digest", HASH_TYPE, primary_key=True),  # of the release: a text may be too long for a key
    Column("release", Text, nullable=False),
    Column("times", BigInteger, nullable=False),
)
UPGRADES = (METADATA.create_all,)
"""Number n takes a database of version n - 1 to version n; none is ever changed, new ones come last."""


class AccountRow(NamedTuple):
    """An account as it stands."""

    name: str
    opened: str
    declaration: str
    stage: int
    version: int
    head: str


class HoldRow(NamedTuple):
    """A hold as it stands."""

    key: str
    version: int
    state: str
    expires: str


class AlreadyThereError(LedgerUnavailable):
    """Another writer has recorded the same name or key: look again."""


class Storage:
    """A database that holds a ledger."""

    def __init__(self, url: str) -> None:
        self.engine, self._process = connected(url), os.getpid()
        try:
            self._upgrade()
        except BaseException:
            self.close()
            raise

    def _upgrade(self) -> None:
        with self.reading() as transaction:
            latest = transaction.schema_version() == SCHEMA_VERSION
        if not latest:
            with self.writing() as transaction:
                transaction.upgrade()

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Run a transaction that is committed at the end; whatever is raised inside leaves nothing."""
        self._let_go_of_inherited()
        with said_plainly(), self.engine.begin() as connection:
            yield Transaction(connection)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Run a transaction in which everything is seen as of one moment."""
        self._let_go_of_inherited()
        options = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with said_plainly(), self.engine.execution_options(reading=True, **options).connect() as connection:
            if not self.is_sqlite:  # whoever reads keeps nobody waiting, and may take their time
                connection.execute(select(func.set_config("idle_in_transaction_session_timeout", "0", True)))
            yield Transaction(connection)

    def _let_go_of_inherited(self) -> None:
        """Leave connections to the process that made them: one that was forked makes its own."""
        if self._process != os.getpid():
            self.engine.dispose(close=False)
            self._process = os.getpid()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def close(self) -> None:
        self.engine.dispose()


def connected(url: str) -> Engine:
    """Return an engine with the settings that durability needs."""
    try:
        engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise InvalidParameter(f"a ledger's address is like sqlite:///budget.db, got {url!r} ({error})") from error
    except ModuleNotFoundError as error:
        raise CumulantError(f"this address needs {error.name}: pip install 'cumulant[postgres]'") from error
    if engine.dialect.name == "sqlite":
        if engine.url.database in (None, "", ":memory:"):
            raise InvalidParameter("a ledger must outlive its process: name a file, such as sqlite:///budget.db")
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    elif engine.dialect.name == "postgresql":
        event.listen(engine, "connect", _prepare_postgres)
        engine = engine.execution_options(isolation_level="READ COMMITTED")
    else:
        raise InvalidParameter(f"a ledger lives in SQLite or PostgreSQL, got {engine.dialect.name!r}")
    return engine


def _prepare_postgres(connection: Any, _: Any) -> None:
    """Wait for another writer as long as SQLite does; one that hangs in the middle is ended by the server."""
    for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
        connection.execute(f"SET {name} = '{int(PATIENCE * 1000)}ms'")
    connection.commit()


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin below, not where the driver thinks
    for pragma in (f"busy_timeout={int(PATIENCE * 1000)}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    """A deferred transaction that reads and then writes can lose what it read: writers take the lock first."""
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


@contextmanager
def said_plainly() -> Iterator[None]:
    """Say in one sentence what a database refuses."""
    try:
        yield
    except IntegrityError as error:
        raise AlreadyThereError(f"the database refused: {error.orig}", dropped=True) from error
    except DBAPIError as error:
        cause = str(error.orig).strip().splitlines()[0] if error.orig and str(error.orig).strip() else str(error)
        raise LedgerUnavailable(
            f"the database did not answer: {cause}; what this call was to record counts only if it is in the history: "
            "ask again with the same key, which never records twice",
            dropped=error.connection_invalidated,
        ) from error
    except SQLAlchemyError as error:
        raise LedgerUnavailable(f"the database did not answer: {error}", dropped=False) from error


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
        versions = sorted(self.connection.execute(select(SCHEMA.c.version)).scalars())
        if versions != list(range(1, len(versions) + 1)) or len(versions) > SCHEMA_VERSION:
            raise LedgerUnavailable(
                f"table {SCHEMA.name} names versions {versions}, this library knows those up to {SCHEMA_VERSION}; "
                "it was changed by hand, or a newer cumulant made it",
                dropped=False,
            )
        return len(versions)

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

    def entries(self, account: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the history in order, page by page."""
        while True:
            later = (ENTRY.c.account == account, ENTRY.c.version > after)
            rows = self.connection.execute(select(ENTRY).where(*later).order_by(ENTRY.c.version).limit(PAGE)).all()
            yield from (Entry(**row._mapping) for row in rows)
            if len(rows) < PAGE:
                return
            after = rows[-1].version

    def holds(self, account: str, *, key: str | None = None) -> list[HoldRow]:
        same = [HOLD.c.account == account] + ([] if key is None else [HOLD.c.key == key])
        rows = self.connection.execute(select(HOLD.c.key, HOLD.c.version, HOLD.c.state, HOLD.c.expires).where(*same))
        return sorted((HoldRow(*row) for row in rows), key=lambda row: row.version)

    def tallies(self, account: str, *, block: str | None = None) -> dict[tuple[str, str], tuple[str, int]]:
        """Return (release, times) by block and digest, of all blocks or of one."""
        columns = (TALLY.c.block, TALLY.c.digest, TALLY.c.release, TALLY.c.times)
        same = [TALLY.c.account == account] + ([] if block is None else [TALLY.c.block == block])
        rows = self.connection.execute(select(*columns).where(*same))
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

    def set_spent(self, account: str, block: str, spent: tuple[int, ...]) -> None:
        self._spent[account, block] = spent
        same = (BLOCK.c.account == account, BLOCK.c.name == block)
        self.connection.execute(update(BLOCK).where(*same).values(spent=json.dumps(spent)))

    def add_released(self, account: str, block: str, release: str, times: int) -> None:
        digest = digest_of(release)
        same = (TALLY.c.account == account, TALLY.c.block == block, TALLY.c.digest == digest)
        more = update(TALLY).where(*same).values(times=TALLY.c.times + times)
        if self.connection.execute(more).rowcount == 0:
            row = {"account": account, "block": block, "digest": digest, "release": release, "times": times}
            self.connection.execute(TALLY.insert().values(**row))

    def insert_hold(self, account: str, row: HoldRow) -> None:
        self.connection.execute(HOLD.insert().values(account=account, **row._asdict()))

    def set_hold(self, account: str, key: str, state: str) -> None:
        same = (HOLD.c.account == account, HOLD.c.key == key)
        self.connection.execute(update(HOLD).where(*same).values(state=state))


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
