"""Transactions on a ledger's database: committed as a whole or gone, whatever happens in the middle.

Writers of an account come one after another: on SQLite by BEGIN IMMEDIATE, on PostgreSQL by a lock on its row. Inside
there is integer arithmetic only: charges are computed before, and prices never depend on what was spent.

A connection belongs to one transaction at a time, in one frame that ends it. Whatever leaves that frame early, an
interrupt between any two instructions included, closes the connection there and then, and with it its locks; nothing is
left to a pool or to the garbage collector.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, final

from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from cumulant.errors import CumulantError, InvalidParameter, LedgerUnavailable
from cumulant.ledger.addresses import Address, address_of
from cumulant.ledger.entries import Entry
from cumulant.ledger.tables import SCHEMA_VERSION
from cumulant.ledger.transaction import Transaction

PATIENCE = 30  # seconds that a writer waits for another one
TURN = 0.5  # seconds that SQLite waits before the process may hear an interrupt
TRIES = 4  # of a transaction, where connections are dropped
PAUSE = 0.05  # seconds before the second try, doubled each time
MOST_IDLE = 8  # connections that are kept open for the next transaction
FILES = ("", "-wal", "-shm")  # of SQLite: the database, what was committed last, and its locks
READ = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL idle_in_transaction_session_timeout = 0",  # whoever reads keeps nobody waiting, and may take their time
)
WRITES = ("INSERT", "UPDATE", "SET ")  # statements without an answer: what follows them need not wait

Answer = TypeVar("Answer")
Identity = tuple[int, int] | None
"""Device and inode of a file; None where there is none."""


class AlreadyThereError(LedgerUnavailable):
    """Another writer has recorded this name or key: look again."""


@final
@dataclass(frozen=True, slots=True)
class Lent:
    """A connection while a transaction has it: SQLAlchemy's, the driver's, and the files that it has open.

    On PostgreSQL a transaction is a pipeline: its writes are sent together with the commit, in one round trip.
    """

    connection: Connection
    driver: Any
    pipeline: ExitStack
    path: str
    files: tuple[Identity, ...]

    def begin(self, *, reading: bool) -> None:
        """Begin a transaction."""
        pipeline = None if self.path else self.pipeline.enter_context(self.driver.pipeline())
        self.connection.execution_options(reading=reading, pipeline=pipeline).begin()

    def commit(self) -> None:
        """End a transaction, and have heard that it is there."""
        self.connection.commit()

    def is_free(self, outer: BaseException | None) -> bool:
        """Leave the pipeline, and return whether the next transaction can begin here.

        An interrupt in the middle is not lost behind what the driver says of it; `outer` is what the caller handles.
        """
        try:
            self.pipeline.close()
        except Exception as error:
            _raise_interrupt(error, outer)
            return False
        return True

    def is_rolled_back(self, error: Exception) -> bool:
        """End a transaction of which nothing stays, and return whether the next one can begin here.

        A pipeline in which a statement failed is not used again.
        """
        if not self.path and (isinstance(error, SQLAlchemyError) or not self.is_free(error)):
            return False
        with suppress(Exception):
            self.connection.rollback()
            return not self.connection.invalidated
        return False

    def end(self) -> None:
        """Close the connection in whatever state it is; SQLite keeps the lock of one that has statements left."""
        try:
            if self.path:
                self.driver.rollback()
        except Exception:  # closing is what counts: a disk that fails may refuse even this
            pass
        finally:
            self.driver.close()
        with suppress(Exception):  # there is nobody to talk to
            self.pipeline.close()


class Storage:
    """A database that holds a ledger."""

    def __init__(self, url: str) -> None:
        self.address = address_of(url)
        self.engine = connected(self.address)
        self._idle: deque[Lent] = deque()
        self._inherited: list[deque[Lent]] = []
        self._process = os.getpid()
        self._file: Identity = None
        self._seen: dict[str, int] = {}  # entries of each account that this process has recorded or met
        try:
            if self.read(Transaction.schema_version) != SCHEMA_VERSION:
                self._run(Transaction.upgrade, reading=False)
        except BaseException:
            self.close()
            raise

    def write(self, work: Callable[[Transaction], Answer]) -> Answer:
        """Run a transaction that is committed at the end; whatever is raised inside leaves nothing.

        Where a connection is dropped it is run again: `work` finds out whether it has been recorded.
        """
        return self._run_again(work, reading=False)

    def read(self, work: Callable[[Transaction], Answer]) -> Answer:
        """Run a transaction in which everything is seen as of one moment."""
        return self._run_again(work, reading=True)

    def history(self, account: str, *, after: int) -> Iterator[Entry]:
        """Yield the entries after a number page by page, with no transaction between two of them: none ever changes."""
        while page := self.read(partial(Transaction.page, account=account, after=after)):
            yield from page
            after = page[-1].version

    def _run_again(self, work: Callable[[Transaction], Answer], *, reading: bool) -> Answer:
        for attempt in range(TRIES - 1):
            try:
                return self._run(work, reading=reading)
            except LedgerUnavailable as error:
                if not error.dropped:
                    raise
            time.sleep(PAUSE * 2**attempt)
        return self._run(work, reading=reading)

    def check_progress(self, account: str, version: int) -> None:
        """Refuse an account with fewer entries than were seen before: an older copy has taken its place."""
        seen = self._seen.get(account, 0)
        if version < seen:
            raise LedgerUnavailable(
                f"account {account!r} has {version} entries, and had {seen} before: an older copy was put in its "
                "place; nothing was recorded: settle which copy counts, open the ledger again, and run verify with "
                "heads that were kept",
                dropped=False,
            )

    def note_progress(self, account: str, version: int) -> None:
        """Remember how far an account had come when a transaction was committed."""
        self._seen[account] = max(version, self._seen.get(account, 0))

    def _run(self, work: Callable[[Transaction], Answer], *, reading: bool) -> Answer:
        self._let_go_of_inherited()
        outer = sys.exc_info()[1]
        with said_plainly(self.address):
            lent, fine = self._lent(), False
            try:
                self._check_files(lent, FILES[:1])
                lent.begin(reading=reading)
                answer = work(Transaction(lent.connection))
                if not reading:
                    self._check_files(lent, FILES)
                lent.commit()
                if not reading:  # what is acknowledged is in the file that is there
                    self._check_files(lent, FILES)
                fine = lent.is_free(outer)
                return answer
            except Exception as error:
                _raise_interrupt(error, outer)  # then the connection is closed as it is
                fine = lent.is_rolled_back(error)
                if not fine:
                    self._close_idle()  # where one was dropped the others were, too
                raise
            finally:
                if fine and len(self._idle) < MOST_IDLE:
                    self._idle.append(lent)
                else:
                    lent.end()

    def _lent(self) -> Lent:
        """Return a connection that nobody else has, and that no pool waits for."""
        with suppress(IndexError):
            return self._idle.pop()
        connection = self.engine.connect()
        connection.detach()
        driver = connection.connection.dbapi_connection
        path = _path_of(driver) if self.address.is_sqlite else ""
        lent = Lent(connection, driver, ExitStack(), path, _identities(path, FILES) if path else ())
        self._file = self._file or (lent.files[0] if path else None)
        return lent

    def _check_files(self, lent: Lent, names: tuple[str, ...]) -> None:
        """Refuse where the file that was opened is not the one that has its name any more."""
        opened = (self._file, *lent.files[1:])
        if lent.path and _identities(lent.path, names) != opened[: len(names)]:
            raise LedgerUnavailable(
                f"{lent.path} or its -wal was deleted or replaced since this ledger was opened, as by a restore or a "
                "sync tool; nothing was acknowledged: bring the file back or settle which copy counts, open the ledger "
                "again, run verify with heads that were kept, and ask again with the same key",
                dropped=False,
            )

    def _let_go_of_inherited(self) -> None:
        """Leave connections to the process that made them: one that was forked makes its own."""
        if self._process != os.getpid():
            self._inherited.append(self._idle)  # kept: to close them here would end them there
            self._idle, self._process = deque(), os.getpid()

    def close(self) -> None:
        """Close all connections that no transaction has."""
        self._let_go_of_inherited()
        self._close_idle()
        self.engine.dispose()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().end()


def _raise_interrupt(error: BaseException | None, outer: BaseException | None) -> None:
    """Raise the interrupt in whose handling a library has failed, if there is one before `outer`."""
    while error is not None and error is not outer:
        if not isinstance(error, Exception):
            raise error from None
        error = error.__context__


def _path_of(driver: Any) -> str:
    """Return the file that a connection of SQLite has open."""
    path = str(driver.execute("PRAGMA database_list").fetchone()[2])
    if not path or not os.path.exists(path):
        driver.close()
        raise InvalidParameter("a ledger must outlive its process: name a file, such as sqlite:///budget.db")
    return path


def _identities(path: str, names: tuple[str, ...]) -> tuple[Identity, ...]:
    return tuple(_identity(path + name) for name in names)


def _identity(path: str) -> Identity:
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


# Engines --------------------------------------------------------------------------------------------------------------


def connected(address: Address) -> Engine:
    """Return an engine with the settings that durability needs; it keeps no connections."""
    options: dict[str, Any] = {"connect_args": {"check_same_thread": False}}
    if not address.is_sqlite:
        options = {"isolation_level": "READ COMMITTED"}
    try:
        engine = create_engine(address.url, poolclass=NullPool, **options)
    except ModuleNotFoundError as error:
        raise CumulantError(f"this address needs {error.name}; from a checkout: pip install '.[postgres]'") from error
    event.listen(engine, "connect", _prepare_sqlite if address.is_sqlite else _prepare_postgres)
    event.listen(engine, "begin", _begin_sqlite if address.is_sqlite else _begin_postgres)
    if not address.is_sqlite:
        event.listen(engine, "do_execute", _execute_postgres)
    return engine


def _prepare_postgres(connection: Any, _: Any) -> None:
    """Wait for another writer as long as SQLite does; one that hangs in the middle is ended by the server."""
    for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
        connection.execute(f"SET {name} = '{int(PATIENCE * 1000)}ms'")
    connection.commit()


def _begin_postgres(connection: Connection) -> None:
    if _is_reading(connection):
        for statement in READ:
            connection.exec_driver_sql(statement)


def _execute_postgres(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
    """Leave writes in the pipeline, where they wait for the next question or the commit; anything else is answered."""
    cursor.execute(statement, parameters)
    pipeline = context.execution_options.get("pipeline")
    if pipeline is not None and not statement.startswith(WRITES):
        pipeline.sync()
    return True


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin below, not where the driver thinks
    for pragma in (f"busy_timeout={int(PATIENCE * 1000)}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from now on it has all its files open


def _begin_sqlite(connection: Connection) -> None:
    """A deferred transaction that reads and then writes can lose what it read: writers take the lock first.

    They wait in turns: while SQLite waits, Python does not hear an interrupt.
    """
    if _is_reading(connection):
        connection.exec_driver_sql("BEGIN")
        return
    last, driver = time.monotonic() + PATIENCE, connection.connection.dbapi_connection
    _wait_up_to(driver, min(TURN, PATIENCE))
    try:
        while not _has_begun(connection, last):
            pass
    finally:
        _wait_up_to(driver, PATIENCE)


def _has_begun(connection: Connection, last: float) -> bool:
    """Return whether the lock was had within a turn; after the last turn, raise what SQLite says."""
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    except OperationalError as error:
        if "locked" not in str(error.orig) or time.monotonic() >= last:
            raise
        return False
    return True


def _wait_up_to(driver: Any, seconds: float) -> None:
    driver.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")


def _is_reading(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get("reading", False))


@contextmanager
def said_plainly(address: Address) -> Iterator[None]:
    """Say in one sentence what a database refuses, and no secret of its address."""
    try:
        yield
    except SQLAlchemyError as error:
        said = _plain(error, address)
        shows = str(error) != address.without_secrets(str(error))
        raise said from (None if shows else error)


def _plain(error: SQLAlchemyError, address: Address) -> LedgerUnavailable:
    if isinstance(error, IntegrityError):
        return AlreadyThereError(address.without_secrets(f"the database refused: {error.orig}"), dropped=False)
    text, dropped = str(error), False
    if isinstance(error, DBAPIError):
        text = str(error.orig).strip() or text
        dropped = error.connection_invalidated
    text = address.without_secrets(text.splitlines()[0])
    return LedgerUnavailable(
        f"the database did not answer: {text}; what this call was to record counts only if it is in the history: "
        "ask again with the same key, which never records twice",
        dropped=dropped,
    )
