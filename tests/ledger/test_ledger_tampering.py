"""Whatever is changed in the database by hand is found and named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Column, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

import cumulant as cm
from cumulant.ledger import tables
from cumulant.ledger.entries import Entry
from cumulant.ledger.tables import ACCOUNT, BLOCK, ENTRY, HOLD, TALLY
from cumulant.ledger.transaction import Transaction
from cumulant.ledger.verification import verify_accounts

STEP = cm.Gaussian(noise_multiplier=20.0)
TABLES = (ACCOUNT, ENTRY, BLOCK, HOLD, TALLY)


@pytest.fixture
def ledger(address: str) -> Iterator[cm.Ledger]:
    """Two accounts, one of them with everything that can be in one."""
    with cm.Ledger(address) as ledger:
        whole: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6, "neighbors": cm.ADD_REMOVE, "unit": "one customer"}
        ledger.open("a", plan=STEP * 10, reserve=0.5, blocks=["x", "y"], **whole)
        ledger.open("b", reserve=0.1, **whole)
        ledger.spend("a", STEP * 2, key="s", by="team", label="count")
        ledger.reserve("a", STEP * 5 + cm.Laplace(scale=9.0), key="h", blocks=["x"]).settle(used=STEP * 3)
        ledger.reserve("a", STEP, key="i", blocks=["y"]).started()
        ledger.spend("b", STEP)
        ledger.verify()
        yield ledger


def changed(column: Column[Any], value: Any) -> Any:
    """Another value of the same type; another account or block, where a name must be known."""
    if column.foreign_keys:
        return "b" if value == "a" else "a"
    if isinstance(value, int):
        return value + 1
    return f"{value[:-1]}{'1' if value[-1:] != '1' else '2'}" if value else "x"


def verified(connection: Any) -> None:
    verify_accounts(Transaction(connection), None, {}, lambda _: None)


def is_refused(connection: Any, statement: Any) -> bool:
    """Whether the database itself refuses: a key that is taken, or that other rows refer to."""
    try:
        connection.execute(statement)
    except IntegrityError:
        return True
    return False


def row_is(table: Table, row: Any) -> list[Any]:
    return [column == row._mapping[column.name] for column in table.primary_key]


def test_every_column_of_every_row(ledger: cm.Ledger) -> None:
    """One change at a time, in a transaction that is rolled back; some changes the database itself refuses."""
    tried = refused = 0
    for table in TABLES:
        with ledger._storage.engine.begin() as connection:
            rows = connection.execute(select(table)).all()
        assert rows
        for row in rows:
            for column in table.columns:
                with ledger._storage.engine.connect() as connection:
                    tried += 1
                    value = changed(column, row._mapping[column.name])
                    change = update(table).where(*row_is(table, row)).values({column.name: value})
                    if is_refused(connection, change):
                        refused += 1
                        continue
                    with pytest.raises(cm.LedgerTampered) as caught:
                        verified(connection)
                    message = str(caught.value)
                    assert "account" in message, (table.name, column.name, message)
                    connection.rollback()
    assert tried > 100
    assert refused < tried / 4
    ledger.verify()  # all of it was rolled back


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_row_that_is_removed_or_added(ledger: cm.Ledger, table: Table) -> None:
    with ledger._storage.engine.begin() as connection:
        rows = connection.execute(select(table)).all()
    for row in rows:
        with ledger._storage.engine.connect() as connection:
            if is_refused(connection, delete(table).where(*row_is(table, row))):
                continue
            with pytest.raises(cm.LedgerTampered):
                verified(connection)
            connection.rollback()
    last = dict(rows[-1]._mapping)
    key = next(name for name in ("digest", "key", "name", "version") if name in last)
    more = {**last, key: last[key] + 1 if isinstance(last[key], int) else f"{last[key][:-1]}~"}
    with ledger._storage.engine.connect() as connection:
        connection.execute(insert(table).values(**({**more, "version": 99} if table is ENTRY else more)))
        with pytest.raises(cm.LedgerTampered):
            verified(connection)
        connection.rollback()


def test_the_first_bad_entry_is_named(ledger: cm.Ledger) -> None:
    with ledger._storage.engine.begin() as connection:
        same = (ENTRY.c.account == "a", ENTRY.c.version == 3)
        connection.execute(update(ENTRY).where(*same).values(author="mallory"))
    with pytest.raises(cm.LedgerTampered, match="account 'a', entry 3: its hash"):
        ledger.verify()
    assert ledger.verify("b").entries == {"b": 2}


def test_a_total_is_named_with_both_values(ledger: cm.Ledger) -> None:
    with ledger._storage.engine.begin() as connection:
        same = (BLOCK.c.account == "a", BLOCK.c.name == "x")
        connection.execute(update(BLOCK).where(*same).values(spent="[0, 0]"))
    with pytest.raises(cm.LedgerTampered, match=r"cumulant_block, 'x': stored is \(0, 0\), its history says \(5,"):
        ledger.verify()


@pytest.mark.parametrize("spent", ["", "[0", "[0]", "[-5, 0]", "[1e3, 0]", "[0, 9223372036854775807]", "{}", "null"])
def test_nothing_is_spent_from_totals_that_make_no_sense(ledger: cm.Ledger, spent: str) -> None:
    with ledger._storage.engine.begin() as connection:
        connection.execute(update(BLOCK).where(BLOCK.c.account == "a").values(spent=spent))
    for ask in (ledger.verify, lambda: ledger.status("a"), lambda: ledger.spend("a", STEP)):
        with pytest.raises(cm.LedgerTampered, match="account 'a'"):
            ask()
    with ledger._storage.engine.begin() as connection:
        connection.execute(update(ACCOUNT).where(ACCOUNT.c.name == "b").values(declaration="{}"))
    with pytest.raises(cm.LedgerTampered, match="run verify"):
        ledger.status("b")


def rehashed(entries: list[Entry], place: int, **changes: Any) -> list[Entry]:
    """Rewrite history from one entry on, with hashes that fit: what somebody with the whole database can do."""
    written = entries[:place]
    for number, entry in enumerate(entries[place:]):
        before = written[-1].hash if written else entry.previous
        fields = {**entry.to_dict(), **(changes if number == 0 else {}), "previous": before, "hash": ""}
        fields["hash"] = Entry(**fields).digest()
        written.append(Entry(**fields))
    return written


def rewrite(ledger: cm.Ledger, entries: list[Entry]) -> None:
    with ledger._storage.engine.begin() as connection:
        for entry in entries:
            same = (ENTRY.c.account == entry.account, ENTRY.c.version == entry.version)
            connection.execute(update(ENTRY).where(*same).values(**entry.to_dict()))
        last = entries[-1]
        connection.execute(update(ACCOUNT).where(ACCOUNT.c.name == last.account).values(head=last.hash))


def test_a_history_that_was_rewritten_is_found_by_a_head_that_was_kept(ledger: cm.Ledger) -> None:
    kept = {name: ledger.status(name).head for name in ledger.accounts()}
    ledger.verify(heads=kept)
    ledger.spend("a", STEP)
    ledger.verify(heads=kept)  # it is still part of the history
    rewrite(ledger, rehashed(list(ledger.history("a")), 1, author="mallory"))
    ledger.verify()  # nothing inside contradicts itself
    with pytest.raises(cm.LedgerTampered, match="that was kept is not part of its history"):
        ledger.verify(heads=kept)
    with pytest.raises(cm.LedgerTampered, match="not in this ledger"):
        ledger.verify(heads={"gone": kept["a"]})


def test_a_charge_that_is_too_small_is_found_even_with_hashes_that_fit(ledger: cm.Ledger) -> None:
    entries = list(ledger.history("b"))
    (line, units), *_ = entries[1].content["taken"]["all"][0][2]
    body = entries[1].body.replace(str(units), str(units - 1))
    rewrite(ledger, rehashed(entries, 1, body=body))
    assert line == 0
    with pytest.raises(cm.LedgerTampered, match="account 'b', entry 2: a release is charged less than it takes"):
        ledger.verify()


@pytest.mark.parametrize(
    ("place", "old", "new", "found"),
    [
        (0, '"epsilon":4.0', '"epsilon":2.0', "entry 1: the declaration costs more than its budget"),
        (0, '"count":10', '"count":9000', "entry 1: the declaration costs more than its budget"),
        (1, "20.0", "10.0", "entry 2: a release is charged less"),
        (1, '"taken"', '"token"', "entry 2: its body is not what a spend holds"),
        (1, "[[0,2,", "[[0,1,", "entry 2: not every release is charged"),
        (1, "[[0,2,[[0,1]]]]", "[[0,3,[[0,1]]],[0,-1,[[0,1]]]]", "entry 2: a release is charged less"),
        (2, '"request":{"blocks":["x"]', '"request":{"blocks":["y"]', "entry 3: what it is about"),
        (2, '"h"', '"j"', "entry 3: there is no hold"),
        (3, '"h"', '"j"', "entry 4: there is no hold"),
        (3, "[[0,2,", "[[0,9,", "entry 4: there is no hold"),
        (5, '"i"', '"h"', "entry 6: there is no hold"),
    ],
)
def test_bodies_that_make_no_sense_are_found_even_with_hashes_that_fit(
    ledger: cm.Ledger, place: int, old: str, new: str, found: str
) -> None:
    entries = list(ledger.history("a"))
    body = entries[place].body.replace(old, new)
    assert body != entries[place].body
    rewrite(ledger, rehashed(entries, place, body=body))
    with pytest.raises(cm.LedgerTampered, match=found):
        ledger.verify()


def test_another_schema_is_named() -> None:
    assert [table.name for table in tables.METADATA.sorted_tables if table not in TABLES] == ["cumulant_schema"]
