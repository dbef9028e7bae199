"""What another version of the library recorded: it stays valid, and what it charged too little is no tampering."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

import cumulant as cm
from cumulant.ledger import lines, recording, verification, verify_export
from cumulant.ledger.allocation import ways_of
from cumulant.ledger.charge import squared_mean
from cumulant.ledger.declaration import Declaration
from cumulant.ledger.entries import Entry, canonical
from cumulant.ledger.tables import ACCOUNT, ENTRY

HISTORY = Path(__file__).parent / "ledger_before_versions.jsonl"  # an export of the last code that did not name it


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Go on as a later version of the library, whose charges are larger by a factor."""

    def go_on(factor: Fraction = Fraction(1), version: str = "99.0.0") -> None:
        charge = squared_mean

        def larger(release: Any) -> Any:
            found = charge(release)
            return None if found is None else found * factor

        monkeypatch.setattr(lines, "squared_mean", larger)
        monkeypatch.setattr(recording, "__version__", version)
        monkeypatch.setattr(verification, "__version__", version)
        ways_of.cache_clear()

    yield go_on
    monkeypatch.undo()
    ways_of.cache_clear()


def open_account(ledger: cm.Ledger, **changes: Any) -> None:
    whole: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "neighbors": cm.ADD_REMOVE, "unit": "one customer"}
    ledger.open("a", **{**whole, **changes})


@pytest.fixture
def ledger(address: str) -> Iterator[cm.Ledger]:
    with cm.Ledger(address) as ledger:
        yield ledger


def test_entries_say_by_which_version_they_were_charged(ledger: cm.Ledger) -> None:
    open_account(ledger, blocks=["x"])
    ledger.spend("a", cm.Laplace(scale=50.0), key="k")
    ledger.reserve("a", cm.Laplace(scale=50.0) * 2).settle(used=cm.Laplace(scale=50.0))
    ledger.add_blocks("a", ["y"])
    entries = list(ledger.history("a"))
    assert {entry.content["charged_by"] for entry in entries} == {cm.__version__}
    assert all(entry.digest() == entry.hash for entry in entries)
    assert ledger.spend("a", cm.Laplace(scale=50.0), key="k").again  # the version is no part of the request


def test_what_did_not_name_its_version_is_valid(later: Callable[..., None]) -> None:
    old = HISTORY.read_text(encoding="ascii").splitlines()
    found = verify_export(old)
    assert found.entries == {"old": 4}
    assert found.warnings == ()
    later(1 + Fraction(1, 10**9))
    first, second = verify_export(old).warnings
    assert first.startswith("account 'old', entry 2: was charged 3216195519780154 units of line 1 in block 'all'")
    assert "by rules of an earlier version; by those of 99.0.0 it takes 32161955229963" in first
    assert "entry 3" in second


def test_a_charge_that_a_later_version_computes_larger_is_no_tampering(
    ledger: cm.Ledger, later: Callable[..., None]
) -> None:
    open_account(ledger)
    ledger.spend("a", cm.Laplace(scale=50.0))
    later(1 + Fraction(1, 10**9))
    ledger.spend("a", cm.Laplace(scale=60.0))
    (warning,) = ledger.verify().warnings
    assert warning.startswith("account 'a', entry 2: was charged ")
    assert f"by rules of version {cm.__version__}; by those of 99.0.0 it takes " in warning
    assert verify_export(ledger.export("a")).warnings == (warning,)


def test_of_many_warnings_the_first_are_told(ledger: cm.Ledger, later: Callable[..., None]) -> None:
    open_account(ledger)
    for _ in range(25):
        ledger.spend("a", cm.Laplace(scale=500.0))
    later(Fraction(2))
    warnings = ledger.verify().warnings
    assert len(warnings) == 21
    assert warnings[-1] == "account 'a': 5 more of these"


def test_a_charge_of_today_that_is_too_small_is_tampering(ledger: cm.Ledger, later: Callable[..., None]) -> None:
    open_account(ledger)
    ledger.spend("a", cm.Laplace(scale=50.0))
    later(1 + Fraction(1, 10**9), cm.__version__)
    with pytest.raises(cm.LedgerTampered, match="entry 2: a release is charged less than it takes"):
        ledger.verify()


def test_a_price_that_a_later_version_computes_larger_is_no_tampering(
    ledger: cm.Ledger, later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_account(ledger)
    monkeypatch.setattr(Declaration, "price", lambda self, **_: 1.01)
    with pytest.raises(cm.LedgerTampered, match="costs more than its budget"):
        ledger.verify()
    later()
    (warning,) = ledger.verify().warnings
    assert "entry 1: was priced within epsilon=1 by rules of version" in warning
    assert warning.endswith("by those of 99.0.0 it costs 1.01")


def test_what_a_later_version_does_not_cover_or_finds_over_epsilon_is_told(
    ledger: cm.Ledger, later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_account(ledger, delta=0.0)
    ledger.spend("a", cm.Laplace(scale=5.0) * 5)
    later()
    monkeypatch.setattr("cumulant.ledger.pure.pure_cost", lambda release: Fraction(1, 4))
    (warning,) = ledger.verify().warnings
    assert "was admitted beyond the lines in block 'all', as pure DP up to 1" in warning
    assert warning.endswith("it adds up to more")
    monkeypatch.setattr("cumulant.ledger.pure.pure_cost", lambda release: None)
    monkeypatch.setattr(lines, "pure_cost", lambda release: None)
    ways_of.cache_clear()
    charged, admitted = ledger.verify().warnings
    assert charged.endswith("nothing is proven to cover it there")
    assert admitted.endswith("some of it is not pure")


def rewritten(ledger: cm.Ledger, place: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite the body of an entry, and all hashes from there on."""
    entries = list(ledger.history("a"))
    with ledger._storage.engine.begin() as connection:
        before = entries[place].previous
        for number, entry in enumerate(entries[place:]):
            body = entry.content
            if number == 0:
                change(body)
            fields = {**entry.to_dict(), "body": canonical(body), "previous": before, "hash": ""}
            before = fields["hash"] = Entry(**fields).digest()
            same = (ENTRY.c.account == "a", ENTRY.c.version == entry.version)
            connection.execute(update(ENTRY).where(*same).values(**fields))
        connection.execute(update(ACCOUNT).where(ACCOUNT.c.name == "a").values(head=before))


def test_pure_dp_beyond_the_lines_that_would_be_too_much_is_found(ledger: cm.Ledger) -> None:
    """With hashes that fit: somebody writes that a count had less noise than was admitted, or Gaussian noise."""
    open_account(ledger, delta=1e-9)
    ledger.spend("a", cm.Laplace(scale=5.0) * 4)
    ledger.spend("a", cm.Laplace(scale=5.0))

    def less_noise(body: dict[str, Any]) -> None:
        for release in (body["release"], body["request"]["release"]):
            release["scale"] = 4.0

    rewritten(ledger, 2, less_noise)
    with pytest.raises(cm.LedgerTampered, match="entry 3: block 'all' would be over its budget beyond the lines"):
        ledger.verify()

    def gaussian(body: dict[str, Any]) -> None:
        body["release"] = body["request"]["release"] = cm.Gaussian(noise_multiplier=1e6).to_dict()

    rewritten(ledger, 2, gaussian)
    with pytest.raises(cm.LedgerTampered, match="entry 3: a release is charged less than it takes"):
        ledger.verify()


@pytest.mark.parametrize("units", [0, -1])
def test_a_charge_of_nothing_is_tampering_whatever_version_it_names(ledger: cm.Ledger, units: int) -> None:
    open_account(ledger)
    ledger.spend("a", cm.Laplace(scale=50.0))

    def nothing(body: dict[str, Any]) -> None:
        body["charged_by"] = "0.0.1"
        body["taken"]["all"][0][2][0][1] = units

    rewritten(ledger, 1, nothing)
    with pytest.raises(cm.LedgerTampered, match="charged less than it takes"):
        ledger.verify()
