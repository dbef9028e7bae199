"""What happens to a ledger's database while it is open: interrupts, files that change places, upgrades; addresses."""

from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from benchmarks.databases import ENGINES, new_address, postgres_directory
from hypothesis import assume, given
from hypothesis import strategies as st

import cumulant as cm
from cumulant.composition import Composed
from cumulant.ledger.addresses import address_of
from cumulant.ledger.storage import Lent
from cumulant.ledger.texts import new_name

STEP = cm.Gaussian(noise_multiplier=500.0)
ROOT = Path(__file__).parents[2]


def opened(address: str, **changes: Any) -> cm.Ledger:
    ledger = cm.Ledger(address)
    whole: dict[str, Any] = {"epsilon": 1.5, "delta": 1e-6, "neighbors": cm.ADD_REMOVE, "unit": "one customer"}
    ledger.open("a", **{**whole, **changes})
    return ledger


# Interrupts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_no_spend_waits_behind_one_that_was_interrupted(engine: str) -> None:
    if engine == "postgres":
        postgres_directory()
    run = subprocess.run(  # in a process of its own, as signals are for the main thread
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "benchmarks",
            "ledger",
            "interrupt",
            "--engine",
            engine,
            "--kills",
            "40",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert f"{engine}: 40 interrupts: 0 spends waited, 0 lost, 0 recorded twice" in run.stdout


WAITS = """
import signal, sys, time
import cumulant as cm
def ring(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
ledger = cm.Ledger(sys.argv[1])
started = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 0.5)
try: ledger.spend("a", cm.Gaussian(noise_multiplier=500.0), key="late")
except KeyboardInterrupt: print(time.monotonic() - started)
"""


def test_a_spend_that_waits_can_be_interrupted(address: str) -> None:
    with opened(address) as ledger:

        def hold(transaction: Any) -> float:
            transaction.account("a", lock=True)
            run = subprocess.run(
                [sys.executable, "-c", WAITS, address], capture_output=True, text=True, check=True, cwd=ROOT
            )
            return float(run.stdout)

        assert ledger._storage.write(hold) < 5  # of a patience of 30 seconds
        assert ledger.verify().entries == {"a": 1}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, ValueError])
def test_whatever_leaves_a_transaction_leaves_no_lock(address: str, error: type[BaseException]) -> None:
    kept = []
    with opened(address) as ledger, cm.Ledger(address) as other:

        def leave(transaction: Any) -> None:
            transaction.account("a", lock=True)
            raise error

        for turn in range(3):
            with pytest.raises(error) as caught:
                ledger._storage.write(leave)
            kept.append(caught.value)  # and with it all frames, as a notebook does
            started = time.monotonic()
            other.spend("a", STEP, key=f"o{turn}")
            ledger.spend("a", STEP, key=f"l{turn}")
            assert time.monotonic() - started < 10
        assert ledger.verify().entries == {"a": 7}


# The file that was opened ---------------------------------------------------------------------------------------------


def remove(path: Path, copy: Path) -> None:
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        file.unlink()


def remove_the_last_commits(path: Path, copy: Path) -> None:
    Path(f"{path}-wal").unlink()


def remove_the_locks(path: Path, copy: Path) -> None:
    Path(f"{path}-shm").unlink()


def replace(path: Path, copy: Path) -> None:
    copy.replace(path)


def restore(path: Path, copy: Path) -> None:
    remove(path, copy)
    shutil.copy(copy, path)


def move_away(path: Path, copy: Path) -> None:
    path.rename(path.with_suffix(".old"))


CHANGES = (remove, remove_the_last_commits, remove_the_locks, replace, restore, move_away)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", ["between", "inside", "while it is committed"])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, Path], None], moment: str
) -> None:
    path, copy = tmp_path / "budget.db", tmp_path / "copy.db"
    opened(f"sqlite:///{path}").close()
    shutil.copy(path, copy)
    ledger = cm.Ledger(f"sqlite:///{path}")
    ledger.spend("a", STEP, key="before")

    def work(transaction: Any) -> None:
        if moment == "inside":
            change(path, copy)
        transaction.connection.exec_driver_sql("UPDATE cumulant_account SET stage = stage")

    def commit(lent: Lent) -> None:
        change(path, copy)
        lent.connection.commit()

    if moment == "between":
        change(path, copy)
    if moment == "while it is committed":
        monkeypatch.setattr(Lent, "commit", commit)
    with pytest.raises(cm.LedgerUnavailable, match=r"deleted or replaced.*open the ledger again"):
        ledger._storage.write(work)
    monkeypatch.undo()
    for key in ("again", "and again"):
        with pytest.raises(cm.LedgerUnavailable, match="deleted or replaced"):
            ledger.spend("a", STEP, key=key)
    ledger.close()


def test_a_file_that_stays_is_the_same_file(tmp_path: Path) -> None:
    """Readers, writers and the end of other processes move nothing, nor does a file that grows."""
    path = tmp_path / "budget.db"
    with opened(f"sqlite:///{path}") as ledger:
        for turn in range(5):
            with cm.Ledger(f"sqlite:///{path}") as second:
                second.spend("a", STEP * 10, key=f"o{turn}", label="x" * 400)
            ledger.spend("a", STEP, key=f"l{turn}")
        other = sqlite3.connect(path)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        ledger.spend("a", STEP)
        assert ledger.verify().entries == {"a": 12}


def test_an_older_copy_is_refused(address: str) -> None:
    """Where the server brings an older state back, the file is the same, or there is none to look at."""
    with opened(address) as ledger:
        for key in "xyz":
            ledger.spend("a", STEP, key=key)
        with ledger._storage.engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM cumulant_entry WHERE version = 4")
            connection.exec_driver_sql("UPDATE cumulant_account SET version = 3")
        with pytest.raises(cm.LedgerUnavailable, match="has 3 entries, and had 4 before: an older copy"):
            ledger.spend("a", STEP, key="z")


# Upgrades -------------------------------------------------------------------------------------------------------------


def test_an_upgrade_by_a_newer_library_is_seen_by_clients_that_are_open(address: str) -> None:
    with opened(address) as ledger:
        hold = ledger.reserve("a", STEP, key="h")
        with ledger._storage.engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO cumulant_schema VALUES (2)")
        asked: list[Callable[[], Any]] = [
            lambda: ledger.spend("a", STEP),
            lambda: ledger.spend("a", STEP, blocks=["all"]),
            lambda: ledger.reserve("a", STEP),
            hold.started,
            hold.settle,
            lambda: opened(address),
            lambda: ledger.open(
                "b", epsilon=1.0, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="one customer", reserve=0.01
            ),
        ]
        for ask in asked:
            with pytest.raises(cm.LedgerUnavailable, match="newer cumulant"):
                ask()
        assert ledger.status("a").version == 2


# Addresses ------------------------------------------------------------------------------------------------------------

SECRETS = st.sampled_from(["hunter2", "hun%40ter2", "hun/ter2", "hun:ter2", "hun@ter2", "hünter2", "hun+ter2", "12345"])
SCHEMES = st.sampled_from(
    [
        *("postgresql", "postgresql+psycopg", "postgresql+nosuch", "postgresql+psycopg2", "postgres", "mysql"),
        *(
            "mysql+pymysql",
            "nothing",
            "sqlite",
            "sqlite+aiosqlite",
            "sqlite+pysqlcipher",
            "oracle",
            "",
            "POSTGRESQL",
            "a b",
        ),
    ]
)
HOSTS = st.sampled_from(["127.0.0.1:1", "127.0.0.1:port", "", "[::1", "no.such.host.invalid:1", "/x", "127.0.0.1:1:2"])
QUERIES = st.sampled_from(
    ["", "?password={}", "?sslpassword={}", "?user=bob&password={}&connect_timeout=1", "?passwrd={}"]
)
FORMS = st.sampled_from(
    [
        "{scheme}://bob:{secret}@{host}/x{query}",
        "{scheme}:bob:{secret}@{host}/x{query}",
        "bob:{secret}@{host}",
        "{scheme}://bob:{secret}/x{query}",
        "{scheme}://{host}/x{query}",
        " {scheme}://bob:{secret}@{host}/x",
    ]
)


@given(form=FORMS, scheme=SCHEMES, secret=SECRETS, host=HOSTS, query=QUERIES)
def test_no_error_about_an_address_shows_a_password(form: str, scheme: str, secret: str, host: str, query: str) -> None:
    assume("@{host}" in form or "@" not in secret)  # what follows the only @ is a host, for all that can be known
    address = form.format(scheme=scheme, secret=secret, host=host, query=query.format(secret))
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        with pytest.raises(cm.CumulantError) as caught:
            cm.Ledger(address)
    finally:
        logging.getLogger().removeHandler(handler)
    error = caught.value
    printed = "".join(traceback.format_exception(error))
    for text in (str(error), repr(error), printed, json.dumps(str(error)), *records):
        for part in ("hunter2", "ter2", "hünter2", "hun", "12345"):
            assert part not in text, text


def test_a_command_shows_no_password() -> None:
    for scheme in ("postgresql+nosuch", "postgresql+psycopg", "mysql"):
        address = f"{scheme}://bob:hunter2@127.0.0.1:1/x?sslpassword=hunter2"
        for options in ([], ["--json"]):
            run = subprocess.run(
                [sys.executable, "-m", "cumulant", "ledger", "status", "--ledger", address, *options],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )
            assert run.returncode != 0
            assert "hunter2" not in run.stdout + run.stderr


def test_a_ledger_shows_where_it_is_and_no_more(tmp_path: Path) -> None:
    with cm.Ledger(new_address("postgres", tmp_path)) as ledger:
        assert repr(ledger) == "Ledger('postgresql+psycopg://postgres@/postgres')"
        with pytest.raises(TypeError, match="its address"):
            pickle.dumps(ledger)
    shown = address_of("postgresql://bob:hun%40ter2@db:5432/x?password=hunter3")
    assert "ter" not in repr(shown.shown) + shown.shown
    assert shown.without_secrets("hun@ter2 or hun%40ter2 or hunter3") == "*** or *** or ***"


HINTS = {
    "mysql://bob:x@db/x": "SQLite or PostgreSQL",
    "mysql+pymysql://db/x": "SQLite or PostgreSQL",
    "sqlite+aiosqlite:///x.db": r"driver sqlite\+pysqlite",
    "postgresql+asyncpg://db/x": r"driver postgresql\+psycopg",
    "sqlite:///budget.db?mode=ro": "mode=ro&uri=true",
    "sqlite:///budget.db?mode=ro&uri=true": "mode=ro&uri=true",
    "sqlite:///file:budget.db?nolock=1&uri=true": "no options but",
    "sqlite://host/budget.db": "three slashes",
    "sqlite:///file::memory:?uri=true": "must outlive its process",
    "sqlite:///file:x?mode=memory&uri=true": "must outlive its process",
    "sqlite:///file:x?mode=memory&cache=shared&uri=true": "no options but",
}


@pytest.mark.parametrize("address", HINTS)
def test_a_hint_says_what_helps(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cm.CumulantError, match=HINTS[address]) as caught:
        cm.Ledger(address)
    assert "pip install" not in str(caught.value)
    assert not list(tmp_path.iterdir())


# Large releases -------------------------------------------------------------------------------------------------------


def test_charges_are_computed_before_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No charge, and no count of what would fit, is asked for between BEGIN and COMMIT."""
    from cumulant.ledger import allocation, recording

    inside: list[str] = []
    locked = [False]

    def watched(name: str, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if locked[0]:
                inside.append(name)
            return function(*arguments, **named)

        return call

    begin, end, leave = Lent.begin, Lent.commit, Lent.is_rolled_back
    monkeypatch.setattr(
        Lent, "begin", lambda lent, reading: (locked.__setitem__(0, not reading), begin(lent, reading=reading))
    )
    monkeypatch.setattr(Lent, "commit", lambda lent: (end(lent), locked.__setitem__(0, False)))
    monkeypatch.setattr(
        Lent, "is_rolled_back", lambda lent, error: (locked.__setitem__(0, False), leave(lent, error))[1]
    )
    for module, name in ((allocation, "ways_of"), (recording, "ways_of"), (allocation.Block, "most_that_fit")):
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    parts = Composed.of((cm.Gaussian(noise_multiplier=3000.0 + n), 1) for n in range(300))
    with opened(f"sqlite:///{tmp_path}/budget.db") as ledger:
        ledger.spend("a", parts)
        ledger.reserve("a", parts, key="h").settle(used=cm.Gaussian(noise_multiplier=3000.0))
        with pytest.raises(cm.BudgetExceeded, match=r"\d+ of this release would fit"):
            ledger.spend("a", parts * 10**6)
        assert inside == []
        assert ledger.verify().entries == {"a": 4}


# Names and clocks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["\u0441ustomers", "\uff41", "te\u0430m-7", "\u0391lpha", "\u210cospital", "\ufb01nance"]
)
def test_names_that_look_like_others_are_refused(address: str, name: str) -> None:
    with opened(address, blocks=["x", "y"]) as ledger:
        asked: list[Callable[[], Any]] = [
            lambda: ledger.open(name, epsilon=1.0, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="one"),
            lambda: ledger.add_blocks("a", [name]),
            lambda: ledger.spend("a", STEP, by=name),
        ]
        for ask in asked:
            with pytest.raises(cm.InvalidParameter, match="one alphabet"):
                ask()
        assert ledger.verify().entries == {"a": 1}


@pytest.mark.parametrize(
    "name", ["customers", "клиенты", "πελάτες", "顧客 2026", "Zählung", "お客様カード", "week-01/eu"]
)
def test_names_of_one_alphabet_are_fine(name: str) -> None:
    assert new_name("account", name) == name


@pytest.mark.parametrize("year", [1, 999, 2026, 9999])
def test_holds_expire_in_every_year(tmp_path: Path, year: int) -> None:
    now = [datetime(year, 12, 30, tzinfo=timezone.utc)]
    ledger = cm.Ledger(f"sqlite:///{tmp_path}/budget.db", clock=lambda: now[0])
    ledger.open("a", epsilon=1.5, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="one customer", reserve=0.01)
    soon, far = (ledger.reserve("a", STEP, key=key, expires=key) for key in ("1h", "5000w"))
    assert soon.expires <= far.expires
    with pytest.raises(cm.InvalidParameter, match="at most 100 years"):
        ledger.reserve("a", STEP, expires="999999999w")
    now[0] = now[0].replace(day=31)
    with pytest.raises(cm.InvalidParameter, match="expired"):
        soon.started()
    far.started()
    ledger.close()
