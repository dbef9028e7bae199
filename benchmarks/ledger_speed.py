"""How fast a ledger is: spends per second, and the time to open an account with a long history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import cumulant as cm
from benchmarks.ledger_load import ACCOUNT, STEP, forked, open_account, wait_for
from cumulant.ledger.effects import effects_of
from cumulant.ledger.entries import seal
from cumulant.ledger.storage import Storage
from cumulant.ledger.tables import ACCOUNT as ACCOUNTS
from cumulant.ledger.tables import BLOCK, ENTRY, TALLY
from cumulant.ledger.texts import time_text
from cumulant.ledger.transaction import digest_of


def spends_a_second(address: str, *, writers: int, spends: int) -> float:
    """Return how many spends processes record in a second, all in one account."""
    open_account(address, slots=10**9)
    each = spends // writers
    start = time.time() + 0.5

    def spend_many(me: int) -> None:
        with cm.Ledger(address) as ledger:
            ledger.status(ACCOUNT)
            time.sleep(max(start - time.time(), 0.0))
            for turn in range(each):
                ledger.spend(ACCOUNT, STEP, key=f"{me}-{turn}")

    codes = wait_for([forked(partial(spend_many, me)) for me in range(writers)])
    taken = time.time() - start
    assert codes == [0] * writers
    return each * writers / taken


def counts_a_second(address: str, *, writers: int, counts: int) -> float:
    """Return how often processes add one to a plain counter in a second: what the engine and the disk allow.

    One row, locked by the one statement that changes it, and committed as durably as a spend.
    """
    with Storage(address).engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE plain_counter (n BIGINT)")
        connection.exec_driver_sql("INSERT INTO plain_counter VALUES (0)")
    each = counts // writers
    start = time.time() + 0.5

    def count_many() -> None:
        connection = Storage(address).engine.connect()  # named, as it is closed with its last name
        driver = connection.connection
        cursor, is_sqlite = driver.cursor(), address.startswith("sqlite")
        time.sleep(max(start - time.time(), 0.0))
        for _ in range(each):
            if is_sqlite:
                cursor.execute("BEGIN IMMEDIATE")
            cursor.execute("UPDATE plain_counter SET n = n + 1")
            driver.commit()

    codes = wait_for([forked(count_many) for _ in range(writers)])
    taken = time.time() - start
    assert codes == [0] * writers
    return each * writers / taken


def write_history(address: str, *, entries: int) -> None:
    """Write an account with so many spends at once, as if they had been made: every hash and total is right."""
    open_account(address, slots=10**9)
    with cm.Ledger(address) as ledger:
        first = ledger.spend(ACCOUNT, STEP, key="0").entry
        declaration = ledger.status(ACCOUNT).declaration
        content, rows, before = first.content, [], first
        for number in range(1, entries - 1):
            before = seal(
                account=ACCOUNT,
                version=before.version + 1,
                time=time_text(ledger._clock()),
                author="team-a",
                key=str(number),
                kind="spend",
                body=content,
                previous=before.hash,
            )
            rows.append(before.to_dict())
        effects = effects_of("spend", content, declaration.lines)
        ((block, units),) = effects.spent.items()
        ((_, release),) = effects.released
        with ledger._storage.engine.begin() as connection:
            connection.execute(ENTRY.insert(), rows)
            spent = json.dumps([n * (entries - 1) for n in units])
            connection.execute(BLOCK.update().where(BLOCK.c.name == block).values(spent=spent))
            same = TALLY.c.digest == digest_of(release)
            connection.execute(TALLY.update().where(same).values(times=entries - 1))
            connection.execute(ACCOUNTS.update().values(version=before.version, head=before.hash))


def seconds_to_open(address: str) -> tuple[float, float, float]:
    """Return the seconds of a status, of a spend and of a verification, each in a ledger that was just opened."""
    taken = []
    asked: tuple[Callable[[cm.Ledger], Any], ...] = (
        lambda ledger: ledger.status(ACCOUNT),
        lambda ledger: ledger.spend(ACCOUNT, STEP),
        lambda ledger: ledger.verify(ACCOUNT),
    )
    for ask in asked:
        started = time.perf_counter()
        with cm.Ledger(address) as ledger:
            ask(ledger)
        taken.append(time.perf_counter() - started)
    return taken[0], taken[1], taken[2]
