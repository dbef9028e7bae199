"""The tables of a ledger and their rows: one text for SQLite and PostgreSQL."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, String, Table, Text, UniqueConstraint

from cumulant.ledger.texts import LONGEST_NAME

SCHEMA_VERSION = 1  # the number of the last upgrade

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
