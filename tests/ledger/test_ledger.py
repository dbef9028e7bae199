"""The ledger on both engines: what is recorded, what is refused, what comes back."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from benchmarks.databases import new_address

import cumulant as cm
from cumulant.ledger import Stage, verify_export
from cumulant.ledger.training import reserve_run, resume_run, settle_run

STEP = cm.Gaussian(noise_multiplier=20.0)
SAMPLED = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
COUNT = cm.Laplace(scale=20.0)
NOW = datetime(2026, 1, 5, 9, 0, tzinfo=timezone.utc)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def ledger(address: str) -> Iterator[cm.Ledger]:
    with cm.Ledger(address) as ledger:
        yield ledger


def opened(ledger: cm.Ledger, name: str = "customers", **changes: Any) -> cm.Ledger:
    whole: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-6, "neighbors": cm.ADD_REMOVE, "unit": "one customer"}
    ledger.open(name, **{**whole, **changes})
    return ledger


def test_from_opening_to_refusal(ledger: cm.Ledger) -> None:
    opened(ledger, plan=SAMPLED * 1000)
    status = ledger.status("customers")
    assert 2.999 < status.price <= 3.0
    assert status.fits(SAMPLED) == 1000
    for week in range(55):
        ledger.spend("customers", COUNT, label=f"week {week}", by="team-a")
    assert ledger.status("customers").fits(COUNT) == 1
    ledger.spend("customers", COUNT)
    with pytest.raises(cm.BudgetExceeded, match=r"0 of this release would fit; nothing was recorded"):
        ledger.spend("customers", COUNT)
    assert ledger.status("customers").price == status.price  # whatever was spent
    assert ledger.status("customers").version == 57
    assert ledger.spent("customers") == COUNT * 56
    assert ledger.spent("customers").epsilon(delta=1e-6) < 3.0
    assert ledger.verify().entries == {"customers": 57}
    again = [entry.version for entry in ledger.history("customers", after=50)]
    assert again == list(range(51, 58))


def test_the_same_key_gives_the_same_receipt(ledger: cm.Ledger) -> None:
    opened(ledger)
    first = ledger.spend("customers", COUNT, key="job-17", by="team-a", label="count")
    second = ledger.spend("customers", COUNT, key="job-17", by="team-a", label="count")
    assert (first.again, second.again) == (False, True)
    assert first.entry == second.entry
    for other in ({"label": "other"}, {"by": "team-b"}, {"unit": "one customer"}):
        with pytest.raises(cm.InvalidParameter, match="job-17"):
            ledger.spend("customers", COUNT, **{"key": "job-17", "by": "team-a", "label": "count", **other})  # type: ignore[arg-type]
    with pytest.raises(cm.InvalidParameter, match="another spend"):
        ledger.reserve("customers", COUNT, key="job-17")
    assert ledger.status("customers").version == 2


def test_an_account_is_opened_once(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 10)
    opened(ledger, plan=STEP * 10)  # the same again changes nothing
    others: list[dict[str, Any]] = [{"plan": STEP * 11}, {"epsilon": 4.0}, {"unit": "one visit"}, {"reserve": 0.1}]
    for other in others:
        with pytest.raises(cm.InvalidParameter, match="open already"):
            opened(ledger, **{"plan": STEP * 10, **other})
    assert ledger.accounts() == ["customers"]
    assert ledger.status("customers").version == 1


def test_a_hold_is_spent_until_it_is_settled(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 1000, reserve=0.0, epsilon=20.0)
    with ledger.reserve("customers", STEP * 900, key="train-4", expires="2h") as hold:
        assert ledger.status("customers").fits(STEP) == 100
        hold.started()
        hold.settle(used=STEP * 812)
    assert ledger.status("customers").fits(STEP) == 188
    assert ledger.spent("customers") == STEP * 812
    assert ledger.hold("customers", "train-4").settle(used=STEP * 812).again
    with pytest.raises(cm.InvalidParameter, match="another settle"):
        hold.settle(used=STEP * 813)
    with pytest.raises(cm.InvalidParameter, match="too late to cancel"):
        hold.cancel()
    ledger.verify()


def test_what_is_used_is_part_of_what_was_reserved(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 100, reserve=0.005)
    hold = ledger.reserve("customers", STEP * 10 + COUNT)
    with pytest.raises(cm.InvalidParameter, match="10 were reserved"):
        hold.settle(used=STEP * 11)
    with pytest.raises(cm.InvalidParameter, match="was not reserved"):
        hold.settle(used=cm.Laplace(scale=21.0))
    with pytest.raises(cm.InvalidParameter, match="part of what was reserved"):
        hold.settle(used=3)  # type: ignore[arg-type]
    hold.settle(used=COUNT + STEP * 3)
    assert dict(ledger.spent("customers").parts) == {STEP: 3, COUNT: 1}
    assert ledger.status("customers").spent["all"][0] == 3


def test_a_hold_can_be_given_back_before_it_starts_only(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 1000, reserve=0.0, epsilon=20.0)
    ledger.reserve("customers", STEP * 600, key="a").cancel()
    hold = ledger.reserve("customers", STEP * 600, key="b")
    hold.started()
    with pytest.raises(cm.InvalidParameter, match="started: it is too late to cancel"):
        hold.cancel()
    with pytest.raises(cm.InvalidParameter, match="too late to start"):
        ledger.hold("customers", "a").started()
    assert ledger.status("customers").fits(STEP) == 400
    hold.settle()
    assert ledger.status("customers").fits(STEP) == 400
    ledger.verify()


def test_an_expired_hold_stays_spent_and_cannot_start(address: str) -> None:
    clock = Clock()
    ledger = opened(cm.Ledger(address, clock=clock), plan=STEP * 1000, reserve=0.0, epsilon=20.0)
    started, late = (ledger.reserve("customers", STEP * 400, key=key, expires="2h") for key in ("a", "b"))
    started.started()
    clock.now += timedelta(days=3)
    assert [(hold.key, hold.state, hold.expired) for hold in ledger.status("customers").holds] == [
        ("a", "started", True),
        ("b", "held", True),
    ]
    assert ledger.status("customers").fits(STEP) == 200
    with pytest.raises(cm.InvalidParameter, match="cannot start"):
        late.started()
    late.cancel()
    started.settle(used=STEP * 10)
    assert ledger.status("customers").fits(STEP) == 990
    assert ledger.status("customers").holds == ()
    ledger.close()


def test_the_clock_may_jump(address: str) -> None:
    clock = Clock()
    ledger = opened(cm.Ledger(address, clock=clock))
    for jump in (timedelta(days=400), -timedelta(days=4000), timedelta(0)):
        clock.now = NOW + jump
        ledger.spend("customers", COUNT)
    times = [entry.time for entry in ledger.history("customers")]
    assert times != sorted(times)
    assert ledger.verify().entries == {"customers": 4}
    ledger.close()


def test_blocks_are_charged_all_or_none(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 2, reserve=0.0, blocks=["week-1", "week-2"])
    ledger.spend("customers", STEP, blocks=["week-1"])
    ledger.spend("customers", STEP)  # all blocks
    with pytest.raises(cm.BudgetExceeded, match="in block 'week-1'"):
        ledger.spend("customers", STEP, blocks=["week-2", "week-1"])
    status = ledger.status("customers")
    assert status.spent == {"week-1": (2,), "week-2": (1,)}
    assert (status.fits(STEP), status.fits(STEP, block="week-2")) == (0, 1)
    ledger.add_blocks("customers", ["week-3"])
    assert ledger.status("customers").fits(STEP, block="week-3") == 2
    with pytest.raises(cm.InvalidParameter, match="new names"):
        ledger.add_blocks("customers", ["week-3", "week-4"])
    with pytest.raises(cm.InvalidParameter, match="block must be one of week-1, week-2, week-3; nothing"):
        ledger.spend("customers", STEP, blocks=["week-9"])
    assert ledger.spent("customers", block="week-1") == STEP * 2
    ledger.verify()


def test_blocks_need_records_that_stay_where_they_are(ledger: cm.Ledger) -> None:
    with pytest.raises(cm.UnprovenCombination, match="replaced"):
        opened(ledger, neighbors=cm.REPLACE_ONE, blocks=["a", "b"])
    opened(ledger)
    with pytest.raises(cm.InvalidParameter, match="not divided"):
        ledger.add_blocks("customers", ["a"])
    assert ledger.status("customers").version == 1


def test_stages_begin_one_after_another(ledger: cm.Ledger) -> None:
    opened(ledger, stages=[Stage(plan=STEP * 100), Stage(plan=STEP * 200)], reserve=0.0, epsilon=20.0)
    status = ledger.status("customers")
    assert status.claims == ((STEP * 100).epsilon(delta=1e-6), (STEP * 300).epsilon(delta=1e-6))
    ledger.spend("customers", STEP * 60)
    with pytest.raises(cm.BudgetExceeded):
        ledger.spend("customers", STEP * 41)
    ledger.advance("customers")
    ledger.spend("customers", STEP * 240)
    assert ledger.status("customers").fits(STEP) == 0
    with pytest.raises(cm.InvalidParameter, match="last stage"):
        ledger.advance("customers")
    ledger.verify()


def test_a_refusal_is_noted_if_asked(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP, reserve=0.0)
    for noted in (False, True):
        with pytest.raises(cm.BudgetExceeded):
            ledger.spend("customers", STEP * 2, by="team-b", note_refusal=noted)
    entries = list(ledger.history("customers"))
    assert [entry.kind for entry in entries] == ["open", "refused"]
    assert "over the budget" in entries[1].content["request"]["reason"]
    assert ledger.status("customers").fits(STEP) == 1
    ledger.verify()


def test_an_export_verifies_by_itself(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 10)
    ledger.reserve("customers", STEP * 3, key="a").settle(used=STEP * 2)
    lines = list(ledger.export("customers"))
    assert [json.loads(line)["version"] for line in lines[:-1]] == [1, 2, 3]
    assert json.loads(lines[-1])["closing"]["entries"] == 3
    assert verify_export(lines).heads == ledger.verify().heads == {"customers": ledger.status("customers").head}
    assert verify_export(lines).closed
    assert not verify_export(lines[:-1]).closed  # as exports were written before: it says that the end is open
    nested = '{"account":' + "[" * 100_000
    shortened = [lines[:2] + lines[3:], [lines[0], lines[3]], [lines[3]], [*lines, lines[2]], [*lines, lines[3]]]
    others = [
        lines[:1] + lines[2:],
        [lines[0].replace("3.0", "9.0"), *lines[1:]],
        ["{}"],
        [],
        ["[" * 100_000],
        [nested],
    ]
    for broken in shortened + others:
        with pytest.raises(cm.LedgerTampered):
            verify_export(broken)


def test_a_shortened_export_is_found_by_a_head_that_was_kept(ledger: cm.Ledger) -> None:
    opened(ledger)
    old = list(ledger.export("customers"))
    ledger.spend("customers", COUNT)
    kept = ledger.verify().heads
    assert verify_export(ledger.export("customers"), heads=kept).closed
    with pytest.raises(cm.LedgerTampered, match="that was kept is not part of its history"):
        verify_export(old, heads=kept)


# The seam for training engines ----------------------------------------------------------------------------------------


def test_a_training_run_reserves_at_the_start_and_settles_at_the_end(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 1000, reserve=0.0, epsilon=20.0)
    hold = reserve_run(ledger, "customers", STEP * 600, key="run-1", by="trainer", label="resnet")
    assert [h.state for h in ledger.status("customers").holds] == ["started"]
    settle_run(hold, STEP * 250)
    assert ledger.status("customers").fits(STEP) == 750
    with pytest.raises(cm.InvalidParameter, match="started before"):  # two runs may not share what one has reserved
        reserve_run(ledger, "customers", STEP * 600, key="run-1", by="trainer", label="resnet")
    with pytest.raises(cm.BudgetExceeded):
        reserve_run(ledger, "customers", STEP * 751, key="run-2")
    crashed = reserve_run(ledger, "customers", STEP * 100, key="run-3")
    assert ledger.status("customers").fits(STEP) == 650  # spent, until somebody settles it
    settle_run(resume_run(ledger, "customers", crashed.key), STEP * 0)
    assert ledger.status("customers").fits(STEP) == 750
    ledger.verify()


def test_a_training_run_may_not_take_more_than_it_reserved(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 1000, reserve=0.0, epsilon=20.0)
    hold = reserve_run(ledger, "customers", STEP * 10, key="run")
    with pytest.raises(cm.InvalidParameter, match="10 were reserved"):
        settle_run(hold, STEP * 11)
    assert ledger.status("customers").fits(STEP) == 990


# Threads and forks ----------------------------------------------------------------------------------------------------


def test_threads_share_a_ledger(ledger: cm.Ledger) -> None:
    opened(ledger, plan=STEP * 20, reserve=0.0)

    def spend(turn: int) -> bool:
        try:
            ledger.spend("customers", STEP, key=f"job-{turn}")
        except cm.BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(spend, range(30))) == 20
    assert ledger.verify().entries == {"customers": 21}


def test_a_forked_process_makes_its_own_connections(address: str) -> None:
    code = f"""
import os
import cumulant as cm
count = cm.Laplace(scale=20.0)
ledger = cm.Ledger({address!r})
ledger.open("customers", epsilon=3.0, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="one customer")
children = []
for me in range(3):
    child = os.fork()
    if child == 0:
        for turn in range(5):
            ledger.spend("customers", count, key=f"{{me}}-{{turn}}")
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
ledger.spend("customers", count)
print(ledger.verify().entries)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "{'customers': 17}", run.stderr


# What is refused ------------------------------------------------------------------------------------------------------

SQL = "customers'; DROP TABLE cumulant_entry; --"
LONG = "x" * 2**20
HOSTILE: dict[str, dict[str, Any]] = {
    "sql in the account": {"account": SQL},
    "sql in the key": {"key": SQL},
    "sql in the author": {"by": SQL},
    "sql in a block": {"blocks": [SQL]},
    "a megabyte of label": {"label": LONG},
    "a megabyte of key": {"key": LONG},
    "a zero byte": {"label": "a\0b"},
    "a lone surrogate": {"label": "\ud800"},
    "a line break": {"label": "a\nb"},
    "a blank at the end": {"account": "customers "},
    "letters that are composed otherwise": {"account": "cafe\u0301"},
    "bytes": {"by": b"team"},
    "nothing": {"account": ""},
    "no account": {"account": "others"},
    "no mechanism": {"release": 3.0},
    "a function": {"release": cm.RenyiCurve(lambda order: 0.1 * order)},
    "another unit": {"unit": "one visit"},
    "no blocks": {"blocks": []},
    "a block twice": {"blocks": ["all", "all"]},
    "text for blocks": {"blocks": "all"},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_input_is_refused_and_nothing_is_recorded(ledger: cm.Ledger, what: str) -> None:
    opened(ledger)
    given = {"account": "customers", "release": COUNT, **HOSTILE[what]}
    with pytest.raises(cm.InvalidParameter):
        ledger.spend(given.pop("account"), given.pop("release"), **given)
    assert ledger.verify().entries == {"customers": 1}


def test_labels_are_kept_as_they_are(ledger: cm.Ledger) -> None:
    opened(ledger)
    for label in (SQL, "<script>alert(1)</script>", "%s {0} \\x", "Zählung ε = 1 🙂"):
        entry = ledger.spend("customers", COUNT, label=label).entry
        assert entry.content["request"]["label"] == label
    assert ledger.verify().entries == {"customers": 5}


NONSENSE: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "epsilon nan": (cm.InvalidParameter, {"epsilon": math.nan}),
    "epsilon inf": (cm.InvalidParameter, {"epsilon": math.inf}),
    "epsilon negative": (cm.InvalidParameter, {"epsilon": -1.0}),
    "delta two": (cm.InvalidParameter, {"delta": 2.0}),
    "delta nan": (cm.InvalidParameter, {"delta": math.nan}),
    "a relation in words": (cm.InvalidParameter, {"neighbors": "add"}),
    "no unit": (cm.InvalidParameter, {"unit": ""}),
    "a megabyte of unit": (cm.InvalidParameter, {"unit": LONG}),
    "reserve nan": (cm.InvalidParameter, {"reserve": math.nan}),
    "failure above one": (cm.InvalidParameter, {"failure": 1.5}),
    "order one": (cm.InvalidParameter, {"renyi": (1.0, 0.1)}),
    "renyi nan": (cm.InvalidParameter, {"renyi": (8.0, math.nan)}),
    "renyi without budget": (cm.InvalidParameter, {"renyi": 8.0}),
    "a plan in words": (cm.InvalidParameter, {"plan": "step"}),
    "plan and stages": (cm.InvalidParameter, {"plan": SAMPLED, "stages": [Stage()]}),
    "no stages": (cm.InvalidParameter, {"stages": []}),
    "a stage that is a mechanism": (cm.InvalidParameter, {"stages": [SAMPLED]}),
    "the block of the whole": (cm.InvalidParameter, {"blocks": ["all"]}),
    "a plan that is a function": (cm.InvalidParameter, {"plan": cm.RenyiCurve(lambda order: 0.01 * order)}),
    "another relation": (cm.MixedNeighbors, {"plan": cm.Gaussian(noise_multiplier=9.0).without_replacement(rate=0.1)}),
    "too much": (cm.BudgetExceeded, {"plan": SAMPLED * 10**6}),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_an_account_that_makes_no_sense_is_not_opened(ledger: cm.Ledger, what: str) -> None:
    error, changes = NONSENSE[what]
    with pytest.raises(error):
        opened(ledger, **changes)
    assert ledger.accounts() == []


def test_another_relation_is_refused(ledger: cm.Ledger) -> None:
    opened(ledger)
    with pytest.raises(cm.MixedNeighbors, match="nothing was recorded"):
        ledger.spend("customers", cm.Gaussian(noise_multiplier=9.0).without_replacement(rate=0.1))
    assert ledger.status("customers").version == 1


@pytest.mark.parametrize("expires", ["", "soon", "2", "-1h", 3, None, "1y"])
def test_a_duration_has_a_unit(ledger: cm.Ledger, expires: Any) -> None:
    opened(ledger)
    with pytest.raises(cm.InvalidParameter, match="such as '2h'"):
        ledger.reserve("customers", COUNT, expires=expires)


@pytest.mark.parametrize("url", ["", "budget.db", "sqlite://", "sqlite:///:memory:", "mysql://x/y", "nothing://x", 3])
def test_an_address_that_is_none(url: Any) -> None:
    with pytest.raises(cm.CumulantError):
        cm.Ledger(url)


# When the database fails ----------------------------------------------------------------------------------------------


def test_a_locked_database_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cumulant.ledger.storage.PATIENCE", 0.1)
    ledger = opened(cm.Ledger(f"sqlite:///{tmp_path}/budget.db"))
    other = sqlite3.connect(tmp_path / "budget.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(cm.LedgerUnavailable, match=r"locked.*same key"):
        ledger.spend("customers", COUNT, key="job")
    assert ledger.status("customers").version == 1  # reading goes on
    other.execute("ROLLBACK")
    assert not ledger.spend("customers", COUNT, key="job").again
    other.close()
    ledger.close()


def test_a_locked_row_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cumulant.ledger.storage.PATIENCE", 0.2)
    ledger = opened(cm.Ledger(new_address("postgres", tmp_path)))
    monkeypatch.setattr("cumulant.ledger.storage.PATIENCE", 30)
    with cm.Ledger(str(ledger._storage.engine.url)) as patient, patient._storage.engine.connect() as other:
        other.exec_driver_sql("SELECT * FROM cumulant_account FOR UPDATE")
        with pytest.raises(cm.LedgerUnavailable, match=r"lock timeout.*same key"):
            ledger.spend("customers", COUNT, key="job")
        other.rollback()
    assert not ledger.spend("customers", COUNT, key="job").again
    ledger.close()


def test_a_writer_that_hangs_is_ended_and_a_reader_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cumulant.ledger.storage.PATIENCE", 0.2)
    ledger = opened(cm.Ledger(new_address("postgres", tmp_path)))
    ledger.spend("customers", COUNT)
    entries = ledger.history("customers")
    next(entries)

    def hang(transaction: Any) -> None:
        transaction.account("customers", lock=True)
        time.sleep(0.6)
        transaction.account("customers")

    with pytest.raises(cm.LedgerUnavailable, match=r"closed the connection|idle-in-transaction"):
        ledger._storage.write(hang)
    assert next(entries).version == 2
    assert not ledger.spend("customers", COUNT).again
    entries.close()  # type: ignore[attr-defined]
    ledger.close()


def test_a_full_disk_says_so_and_loses_nothing(tmp_path: Path) -> None:
    ledger = opened(cm.Ledger(f"sqlite:///{tmp_path}/budget.db"))
    ledger.spend("customers", COUNT, key="before")

    def fill(transaction: Any) -> None:
        """SQLite's own limit, on the one connection that there is: its error is that of a full disk."""
        pages = transaction.connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        transaction.connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    ledger._storage.read(fill)
    recorded, full = 0, ""
    while not full:
        try:
            ledger.spend("customers", cm.Gaussian(noise_multiplier=1e6), label="x" * 500)
            recorded += 1
        except cm.LedgerUnavailable as error:
            full = str(error)
    assert "full" in full
    ledger.close()
    with cm.Ledger(f"sqlite:///{tmp_path}/budget.db") as after:
        assert after.verify().entries == {"customers": 2 + recorded}
        assert not after.spend("customers", COUNT, key="after").again


def test_a_read_only_file_says_so(tmp_path: Path) -> None:
    """In a process that may not write: for root nothing is read-only but what SQLite is told."""
    opened(cm.Ledger(f"sqlite:///{tmp_path}/budget.db")).close()
    with cm.Ledger(f"sqlite:///file:{tmp_path}/budget.db?mode=ro&uri=true") as ledger:
        assert ledger.status("customers").version == 1
        with pytest.raises(cm.LedgerUnavailable, match="readonly"):
            ledger.spend("customers", COUNT)
    with pytest.raises(cm.LedgerUnavailable, match="unable to open"):
        cm.Ledger(f"sqlite:///{tmp_path}/no/such/directory/budget.db")


def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    (tmp_path / "budget.db").write_text("a shopping list, and much else\n" * 100)
    with pytest.raises(cm.LedgerUnavailable, match="not a database"):
        cm.Ledger(f"sqlite:///{tmp_path}/budget.db")


def test_a_dropped_connection_is_asked_again(tmp_path: Path) -> None:
    """The server ends every connection between and inside transactions; the release is recorded once."""
    import psycopg
    from benchmarks.databases import postgres_directory

    ledger = opened(cm.Ledger(new_address("postgres", tmp_path)))
    root = psycopg.connect(host=str(postgres_directory()), user="postgres", dbname="postgres", autocommit=True)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    with ledger._storage.engine.begin() as connection:
        connection.exec_driver_sql("SELECT 1")
    name = "cumulant-dropped"
    broken: list[int] = []

    def drop_once(connection: Any, *_: Any) -> None:
        if len(broken) < 2:
            broken.append(1)
            connection.exec_driver_sql(f"SET application_name = '{name}'")
            root.execute(end, (name,))

    from sqlalchemy import event

    event.listen(ledger._storage.engine, "begin", drop_once)
    assert not ledger.spend("customers", COUNT, key="job").again
    assert len(broken) == 2
    assert ledger.verify().entries == {"customers": 2}
    root.close()
    ledger.close()


def test_a_server_that_is_not_there_says_so() -> None:
    with pytest.raises(cm.LedgerUnavailable, match="did not answer"):
        cm.Ledger("postgresql+psycopg://postgres@/postgres?host=/no/such/directory")


def test_another_schema_version_is_refused(address: str) -> None:
    with cm.Ledger(address) as ledger, ledger._storage.engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO cumulant_schema VALUES (2)")
    with pytest.raises(cm.LedgerUnavailable, match="newer cumulant"):
        cm.Ledger(address)


def test_without_sqlalchemy_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "import cumulant as cm\n"
        "from cumulant import *\n"
        "try: cm.Ledger('sqlite:///budget.db')\n"
        "except cm.CumulantError as error: print(error)"
    )
    source = Path(cm.__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert "from a checkout: pip install '.[ledger]'" in run.stdout
