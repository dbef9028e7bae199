"""Verification: the history replayed, and everything that follows from it compared with what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from cumulant.errors import CumulantError, LedgerTampered
from cumulant.ledger.allocation import Block, Taken, Way, beyond_in, ways_of
from cumulant.ledger.declaration import Declaration, check_relation, declaration_from_dict
from cumulant.ledger.effects import BEFORE, Effects, effects_of, part_texts, release_of, rows_from_data
from cumulant.ledger.entries import KINDS, NO_HASH, Entry, Export, canonical
from cumulant.ledger.lines import Lines
from cumulant.ledger.pure import PureSum
from cumulant.ledger.values import Verification
from cumulant.parameters import by_name
from cumulant.printed import given, rounded_up
from cumulant.version import __version__

if TYPE_CHECKING:
    from cumulant.ledger.transaction import Transaction

PRICES_AGREE = 1e-6  # relative: two versions of the library may compute one price differently by less
MOST_WARNINGS = 20  # of an account that are told one by one
OFTEN = 256  # entries between two calls of `progress`


@final
@dataclass(slots=True)
class Replay:
    """An account as its history says it is."""

    account: str
    kept: str | None = None  # a hash that was kept elsewhere, until it is met
    declaration: Declaration | None = None
    opened: str = ""
    stage: int = 0
    version: int = 0
    head: str = NO_HASH
    blocks: dict[str, list[int]] = field(default_factory=dict)
    holds: dict[str, tuple[int, str, str]] = field(default_factory=dict)  # version, state, expires
    taken: dict[str, Any] = field(default_factory=dict)  # of holds, by key
    released: dict[tuple[str, str], int] = field(default_factory=dict)
    sums: dict[str, PureSum] = field(default_factory=dict)  # of what was released, if pure DP may go beyond
    warnings: list[str] = field(default_factory=list)
    warned: int = 0

    def add(self, entry: Entry) -> None:
        """Check an entry against everything before it, and take what it changes."""
        self._check_chain(entry)
        try:
            self._take(entry)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, CumulantError) as error:
            if isinstance(error, LedgerTampered):
                raise
            raise LedgerTampered(f"{_place(entry)}: its body is not what a {entry.kind} holds ({error!r})") from error
        self.version, self.head = entry.version, entry.hash
        self.kept = None if self.kept == entry.hash else self.kept

    def _check_chain(self, entry: Entry) -> None:
        after = {"account": self.account, "version": self.version + 1, "previous": self.head}
        for name, wanted in after.items():
            if (value := getattr(entry, name)) != wanted:
                raise LedgerTampered(f"{_place(entry)}: {name} is {value!r}, after the entry before it {wanted!r}")
        if entry.digest() != entry.hash:
            raise LedgerTampered(f"{_place(entry)}: its hash is not that of its columns, one of them was changed")
        if entry.kind not in KINDS or (entry.kind == "open") != (entry.version == 1):
            raise LedgerTampered(f"{_place(entry)}: kind {entry.kind!r} cannot stand here")

    def _take(self, entry: Entry) -> None:
        content = entry.content
        if entry.kind == "open":
            self.declaration, self.opened = declaration_from_dict(content["declaration"]), entry.time
            price, budget = self.declaration.price(), self.declaration.epsilon
            if not price <= budget * (1 + PRICES_AGREE):
                today = f"was priced within epsilon={given(budget)}", f"it costs {rounded_up(price)}"
                self._changed(entry, *today, forged="the declaration costs more than its budget")
        assert self.declaration is not None
        lines = self.declaration.lines
        effects = effects_of(entry.kind, content, lines)
        if entry.kind in ("spend", "hold"):
            for block, row, text in check_charges(entry, content, self.declaration, stage=self.stage):
                self._changed(
                    entry,
                    f"was charged {_units_text(row.costs)} in block {block!r}",
                    _takes_text(lines, text, row.costs),
                    forged=f"a release is charged less than it takes in block {block!r}",
                )
            if set(content["taken"]) != set(content["request"]["blocks"] or self.blocks):
                raise LedgerTampered(f"{_place(entry)}: what it is about, and the blocks that are charged, differ")
        if entry.kind == "advance" and (effects.stage != self.stage + 1 or effects.stage >= self.declaration.stages):
            raise LedgerTampered(f"{_place(entry)}: there is no stage {effects.stage} after {self.stage}")
        if effects.hold is not None:
            self._take_hold(entry, content, *effects.hold)
        for block in effects.blocks:
            if block in self.blocks:
                raise LedgerTampered(f"{_place(entry)}: block {block!r} is there already")
            self.blocks[block] = [0] * len(lines)
        for block, units in effects.spent.items():
            self.blocks[block] = [a + b for a, b in zip(self.blocks[block], units, strict=True)]
            if any(not 0 <= n <= line.units for n, line in zip(self.blocks[block], lines, strict=True)):
                raise LedgerTampered(f"{_place(entry)}: block {block!r} would be over its budget, or below nothing")
        for place, times in effects.released.items():
            self.released[place] = self.released.get(place, 0) + times
        self._take_beyond(entry, effects, lines)
        self.stage = self.stage if effects.stage is None else effects.stage

    def _take_beyond(self, entry: Entry, effects: Effects, lines: Lines) -> None:
        """Check that where something went beyond the lines all is pure and adds up to no more than ε."""
        _, line = beyond_in(lines)
        if line is None:
            return
        for (block, text), times in effects.released.items():
            self.sums.setdefault(block, PureSum()).add(release_of(text), times)
        for block in effects.spent:
            released = self.sums.get(block, PureSum())
            if Block(lines, self.blocks[block], self.stage).is_overdrawn and not line.admits(released):
                today = "some of it is not pure" if released.impure else "it adds up to more"
                said = f"was admitted beyond the lines in block {block!r}, as pure DP up to {given(line.epsilon)}"
                self._changed(entry, said, today, forged=f"block {block!r} would be over its budget beyond the lines")

    def _changed(self, entry: Entry, then: str, today: str, *, forged: str) -> None:
        """Note what another version of the library has charged by other rules; of this one it cannot be."""
        version = entry.content.get("charged_by")
        if version == __version__:
            raise LedgerTampered(f"{_place(entry)}: {forged}")
        rules = "an earlier version" if version is None else f"version {version}"
        self.warned += 1
        if self.warned <= MOST_WARNINGS:
            self.warnings.append(f"{_place(entry)}: {then} by rules of {rules}; by those of {__version__} {today}")

    def finished(self) -> tuple[str, ...]:
        """Return the first warnings, and how many more there were; a head that was kept must have been met by now."""
        if self.kept is not None:
            raise LedgerTampered(
                f"account {self.account!r}: the head {self.kept!r} that was kept is not part of its history"
            )
        more = self.warned - len(self.warnings)
        return (*self.warnings, *((f"account {self.account!r}: {more} more of these",) if more else ()))

    def _take_hold(self, entry: Entry, content: Mapping[str, Any], key: str, state: str) -> None:
        before = self.holds.get(key)
        if state == "held":
            fine = before is None
            self.holds[key] = (entry.version, state, content["expires"])
            self.taken[key] = (content["release"], content["taken"])
        else:
            fine = before is not None and before[1] in BEFORE[entry.kind]
            if fine and before is not None:
                self.holds[key] = (before[0], state, before[2])
            if fine and state != "started":
                fine = _is_part(content, *self.taken[key])
        if not fine or entry.key != key:
            raise LedgerTampered(f"{_place(entry)}: there is no hold {key!r} of which this can be said")


def _place(entry: Entry) -> str:
    return f"account {entry.account!r}, entry {entry.version}"


def _is_part(content: Mapping[str, Any], release: Any, taken: Any) -> bool:
    """Return whether what came back is part of what was taken."""

    def totals(data: Any) -> dict[Any, int]:
        found: dict[Any, int] = {}
        for block, rows in rows_from_data(data).items():
            for row in rows:
                place = (block, row.part, row.costs)
                found[place] = found.get(place, 0) + row.times
        return found

    most, back = totals(taken), totals(content["returned"])
    return content["release"] == release and all(0 <= n <= most.get(place, 0) for place, n in back.items())


def check_charges(
    entry: Entry, content: Mapping[str, Any], declaration: Declaration, *, stage: int
) -> Iterator[tuple[str, Taken, str]]:
    """Check that every release was charged, to lines that may be used; yield what takes more today."""
    if content["request"]["release"] != content["release"]:
        raise LedgerTampered(f"{_place(entry)}: what was charged is not what was asked for")
    release, lines = release_of(canonical(content["release"])), declaration.lines
    check_relation(release, declaration.neighbors)
    counts = [n for _, n in release.releases()]
    texts = part_texts(content["release"])
    for block, rows in rows_from_data(content["taken"]).items():
        for part, count in enumerate(counts):
            if sum(row.times for row in rows if row.part == part) != count:
                raise LedgerTampered(f"{_place(entry)}: not every release is charged in block {block!r}")
        for row in rows:
            begun = all(lines[line].stage <= stage for line, _ in row.costs)
            if not begun or row.times < 0 or any(units <= 0 for _, units in row.costs):
                raise LedgerTampered(f"{_place(entry)}: a release is charged less than it takes in block {block!r}")
            if not _is_enough(lines, texts[row.part], row.costs):
                yield block, row, texts[row.part]


def _units_text(costs: Way) -> str:
    return " and ".join(f"{units} units of line {line + 1}" for line, units in costs)


def _takes_text(lines: Lines, text: str, costs: Way) -> str:
    """Return what a release takes today of the lines that it was charged to."""
    for way in ways_of(lines, release_of(text)):
        if {line for line, _ in way} == {line for line, _ in costs}:
            return f"it takes {_units_text(way)}"
    return "nothing is proven to cover it there"


def _is_enough(lines: Lines, text: str, costs: Way) -> bool:
    """Return whether some way of charging a release takes no more of the lines it took."""
    charged = dict(costs)
    return any(
        {line for line, _ in way} == set(charged) and all(units <= charged[line] for line, units in way)
        for way in ways_of(lines, release_of(text))
    )


# Against what is stored -----------------------------------------------------------------------------------------------


def verify_accounts(
    transaction: Transaction, account: str | None, heads: dict[str, str], progress: Callable[[int], None]
) -> Verification:
    """Verify one account, or all and that no table has rows of others."""
    names = transaction.accounts() if account is None else [account]
    counts, found, done = {}, {}, 0
    warnings: list[str] = []
    for name in names:
        replay = Replay(name, kept=heads.pop(name, None))
        for entry in transaction.entries(name):
            replay.add(entry)
            done += 1
            if done % OFTEN == 0:
                progress(done)
        warnings += replay.finished()
        compare(transaction, replay)
        counts[name], found[name] = replay.version, replay.head
    progress(done)
    for name in heads:
        raise LedgerTampered(f"account {name!r}: its head was kept, but it is not in this ledger")
    for table, named in transaction.named_accounts().items() if account is None else ():
        for name in sorted(set(named) - set(names)):
            raise LedgerTampered(f"table {table} has rows of account {name!r}, which is not in this ledger")
    return Verification(entries=counts, heads=found, warnings=tuple(warnings))


def compare(transaction: Transaction, replay: Replay) -> None:
    """Compare an account with its history, table by table and column by column."""
    from cumulant.ledger.transaction import digest_of

    row = transaction.account(replay.account)
    wanted: dict[str, Any] = {name: getattr(replay, name) for name in ("version", "head", "opened", "stage")}
    wanted["declaration"] = "" if replay.declaration is None else canonical(replay.declaration.to_dict())
    _same(replay, "account", wanted, {name: getattr(row, name) for name in wanted})
    _same(replay, "block", {name: tuple(spent) for name, spent in replay.blocks.items()}, transaction.blocks(row.name))
    holds = {hold.key: (hold.version, hold.state, hold.expires) for hold in transaction.holds(row.name)}
    _same(replay, "hold", replay.holds, holds)
    released = {(block, digest_of(text)): (text, times) for (block, text), times in replay.released.items()}
    _same(replay, "tally", released, transaction.tallies(row.name))


def _same(replay: Replay, table: str, wanted: Mapping[Any, Any], found: Mapping[Any, Any]) -> None:
    for place in sorted({*wanted, *found}, key=str):
        if wanted.get(place) != found.get(place):
            raise LedgerTampered(
                f"account {replay.account!r}, table cumulant_{table}, {place!r}: stored is "
                f"{_short(found.get(place))}, its history says {_short(wanted.get(place))}"
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


@by_name
def verify_export(lines: Iterable[str], *, heads: Mapping[str, str] | None = None) -> Verification:
    """Verify an export by itself: JSON lines in, the number of entries and the head out.

    `closed` of the answer says whether its closing line was there; without it lines may be missing at its end. `heads`
    are hashes that were kept elsewhere, by account: that of this one must be part of it.
    """
    replay: Replay | None = None
    export = Export(lines)
    for entry in export:
        replay = replay or Replay(entry.account, kept=(heads or {}).get(entry.account))
        replay.add(entry)
    if replay is None:
        raise LedgerTampered("this export has no entries")
    counts, found, warnings = {replay.account: replay.version}, {replay.account: replay.head}, replay.finished()
    return Verification(entries=counts, heads=found, closed=export.closed, warnings=warnings)
