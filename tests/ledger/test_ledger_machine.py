"""A state machine against a dictionary: whatever is asked, in whichever order, both say the same."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.databases import new_address
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import cumulant as cm

SLOT, OTHER = cm.Gaussian(noise_multiplier=4.0), cm.Gaussian(noise_multiplier=7.0)
SLOTS, RESERVE = 6, Fraction(1, 4)  # at the opening of every block; σ = 2 is exact
UNITS = 2**60  # of the reserve
COST = {release: math.ceil(UNITS / Fraction(release.noise_multiplier) ** 2 / RESERVE) for release in (SLOT, OTHER)}
ORDER = {SLOT: ("slots", "reserve"), OTHER: ("reserve", "slots")}  # the slot is meant for SLOT, and dominates OTHER
CLOSED = ("settled", "cancelled")

releases = st.sampled_from([SLOT, OTHER])
counts = st.integers(0, 9)


class Model:
    """What is left in each block, and the holds: (parts taken, state)."""

    def __init__(self, blocks: list[str]) -> None:
        self.left = {block: {"slots": SLOTS, "reserve": UNITS} for block in blocks}
        self.holds: dict[str, dict[str, Any]] = {}
        self.entries = 1

    def take(self, release: cm.Gaussian, count: int, blocks: list[str]) -> dict[str, dict[str, int]] | None:
        """Return how many were taken of slots and reserve in each block; None, and nothing changes, if one is full."""
        taken = {}
        for block in blocks:
            left, missing = self.left[block], count
            parts = {}
            for place in ORDER[release]:
                unit = 1 if place == "slots" else COST[release]
                parts[place] = min(missing, left[place] // unit)
                missing -= parts[place]
            if missing:
                return None
            taken[block] = parts
        for block, parts in taken.items():
            self._change(block, release, parts, -1)
        self.entries += 1
        return taken

    def give_back(self, hold: dict[str, Any], used: int) -> None:
        for block, parts in hold["taken"].items():
            surplus, back = hold["count"] - used, {}
            for place in reversed(ORDER[hold["release"]]):
                back[place] = min(surplus, parts[place])
                surplus -= back[place]
            self._change(block, hold["release"], back, 1)

    def _change(self, block: str, release: cm.Gaussian, parts: dict[str, int], sign: int) -> None:
        self.left[block]["slots"] += sign * parts["slots"]
        self.left[block]["reserve"] += sign * parts["reserve"] * COST[release]


class LedgerMachine(RuleBasedStateMachine):
    """Spends, holds, keys again, new blocks, in any order; and now and then the ledger is opened anew."""

    engine = "sqlite"

    @initialize()
    def open(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.address = new_address(self.engine, Path(self.directory.name))
        self.ledger = cm.Ledger(self.address)
        self.ledger.open(
            "a",
            epsilon=20.0,
            delta=1e-6,
            neighbors=cm.ADD_REMOVE,
            unit="one record",
            plan=SLOT * SLOTS,
            reserve=float(RESERVE),
            blocks=["x", "y"],
        )
        self.model = Model(["x", "y"])
        self.keys: dict[str, tuple[cm.Gaussian, int, list[str], int]] = {}

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.verify()
            self.ledger.close()
            self.directory.cleanup()

    def blocks(self, data: st.DataObject) -> list[str]:
        names = sorted(self.model.left)
        return sorted(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))

    @rule(release=releases, count=counts, data=st.data())
    def spend(self, release: cm.Gaussian, count: int, data: st.DataObject) -> None:
        blocks, key = self.blocks(data), f"spend-{len(self.keys)}"
        expected = self.model.take(release, count, blocks)
        try:
            receipt = self.ledger.spend("a", release * count, blocks=blocks, key=key)
        except cm.BudgetExceeded:
            assert expected is None
            return
        assert expected is not None
        self.keys[key] = (release, count, blocks, receipt.version)

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def spend_again(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.keys)))
        release, count, blocks, version = self.keys[key]
        receipt = self.ledger.spend("a", release * count, blocks=blocks, key=key)
        assert (receipt.again, receipt.version) == (True, version)

    @rule(release=releases, count=counts, data=st.data())
    def reserve(self, release: cm.Gaussian, count: int, data: st.DataObject) -> None:
        blocks, key = self.blocks(data), f"hold-{len(self.model.holds)}"
        taken = self.model.take(release, count, blocks)
        try:
            self.ledger.reserve("a", release * count, blocks=blocks, key=key)
        except cm.BudgetExceeded:
            assert taken is None
            return
        assert taken is not None
        self.model.holds[key] = {"release": release, "count": count, "taken": taken, "state": "held", "used": None}

    @precondition(lambda self: self.model.holds)
    @rule(verb=st.sampled_from(["started", "settle", "cancel"]), used=counts, data=st.data())
    def move_hold(self, verb: str, used: int, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.holds)))
        hold, model = self.ledger.hold("a", key), self.model.holds[key]
        after = {"started": "started", "settle": "settled", "cancel": "cancelled"}[verb]
        repeated = model["state"] == after and model["used"] in (None, used)
        if verb == "started":
            repeated = model["state"] == "started" or model.get("was_started", False)
        allowed = ("held", "started") if verb == "settle" else ("held",)
        fine = model["state"] in allowed and (verb != "settle" or used <= model["count"])
        try:
            if verb == "settle":
                receipt = hold.settle(used=model["release"] * used)
            else:
                receipt = hold.started() if verb == "started" else hold.cancel()
        except cm.InvalidParameter:
            assert not fine
            assert not repeated
            return
        assert receipt.again == (not fine)
        assert fine or repeated
        if receipt.again:
            return
        model["state"], model["was_started"] = after, verb == "started" or model.get("was_started", False)
        model["used"] = used if verb == "settle" else None
        if after in CLOSED:
            self.model.give_back(model, used if verb == "settle" else 0)
        self.model.entries += 1

    @rule()
    def add_block(self) -> None:
        name = f"z{len(self.model.left)}"
        self.ledger.add_blocks("a", [name])
        self.model.left[name] = {"slots": SLOTS, "reserve": UNITS}
        self.model.entries += 1

    @rule()
    def open_again(self) -> None:
        self.ledger.close()
        self.ledger = cm.Ledger(self.address)
        self.ledger.verify()

    @invariant()
    def both_say_the_same(self) -> None:
        if not hasattr(self, "model"):
            return
        status = self.ledger.status("a")
        assert status.version == self.model.entries
        expected = {block: (SLOTS - left["slots"], UNITS - left["reserve"]) for block, left in self.model.left.items()}
        assert status.spent == expected
        held = {key for key, hold in self.model.holds.items() if hold["state"] not in CLOSED}
        assert {hold.key for hold in status.holds} == held


class PostgresMachine(LedgerMachine):
    """The same on PostgreSQL."""

    engine = "postgres"


FEW = settings(max_examples=12, stateful_step_count=12, deadline=None)


def test_the_machine_on_sqlite() -> None:
    run_state_machine_as_test(LedgerMachine, settings=FEW)


def test_the_machine_on_postgresql() -> None:
    run_state_machine_as_test(PostgresMachine, settings=FEW)
