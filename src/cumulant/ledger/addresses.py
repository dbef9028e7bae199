"""Addresses of ledgers: which are accepted, and what may be shown of them; a password never is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import final
from urllib.parse import quote, quote_plus, unquote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from cumulant.errors import InvalidParameter

EXAMPLES = "sqlite:///budget.db or postgresql+psycopg://user@host/database"
DRIVERS = {"sqlite": ("sqlite", "sqlite+pysqlite"), "postgresql": ("postgresql", "postgresql+psycopg")}
SCHEME = re.compile(r"([a-z][a-z0-9]{0,19}(?:\+[a-z][a-z0-9]{0,19})?)://")
OPTIONS_OF_SQLITE = {"uri", "mode", "immutable"}
"""Others are ignored by SQLite, or take the locks away that writers need."""
SECRET = re.compile(r"pass|pwd|secret|token|key", re.IGNORECASE)
SHORTEST_SECRET = 3  # characters: shorter ones are in every sentence


@final
@dataclass(frozen=True, slots=True)
class Address:
    """Where a ledger is: for the driver, for the eye, and what must not be seen."""

    url: URL
    shown: str
    secrets: frozenset[str] = field(repr=False)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    def without_secrets(self, text: str) -> str:
        """Return a text in which no secret of this address is left, however it is written."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def address_of(text: str) -> Address:
    """Return a checked address; of one that is refused only the part before :// is ever shown.

    >>> address_of("postgresql://bob:hunter2@db/privacy?password=hunter3").shown
    'postgresql+psycopg://bob@db/privacy'
    >>> address_of("mysql://bob:hunter2@db/x")
    Traceback (most recent call last):
    ...
    cumulant.errors.InvalidParameter: a ledger lives in SQLite or PostgreSQL, this address begins with mysql://; ...
    """
    match = SCHEME.match(text)
    if match is None:
        raise InvalidParameter(f"a ledger's address is like {EXAMPLES}; this one does not begin so")
    begins, backend = f"this address begins with {match[1]}://", match[1].partition("+")[0]
    if backend not in DRIVERS:
        raise InvalidParameter(f"a ledger lives in SQLite or PostgreSQL, {begins}; write {EXAMPLES}")
    if match[1] not in DRIVERS[backend]:
        raise InvalidParameter(f"a ledger uses the driver {DRIVERS[backend][-1]}, {begins}; write {EXAMPLES}")
    try:
        url = make_url(text).set(drivername=DRIVERS[backend][-1])
    except (ArgumentError, ValueError):
        url = None
    if url is None:  # said here, as the error says what it could not read, and that may be a password
        raise InvalidParameter(
            f"a ledger's address is like {EXAMPLES}; {begins}, and what follows cannot be read: is the port a number, "
            "are / : @ in a password written as %2F %3A %40?"
        )
    return _sqlite(url) if backend == "sqlite" else _postgres(url)


def _sqlite(url: URL) -> Address:
    if url.host or url.username or url.password or url.port:
        raise InvalidParameter("an address of SQLite has three slashes and a file: sqlite:///budget.db")
    if url.database in (None, "", ":memory:"):
        raise InvalidParameter("a ledger must outlive its process: name a file, such as sqlite:///budget.db")
    is_uri, options = str(url.query.get("uri", "")).lower() in ("true", "1"), set(url.query)
    if options and not (is_uri and str(url.database).startswith("file:") and options <= OPTIONS_OF_SQLITE):
        raise InvalidParameter(
            "an address of SQLite takes no options but mode and immutable, and those only as in "
            "sqlite:///file:budget.db?mode=ro&uri=true"
        )
    return Address(url, url.render_as_string(), frozenset())


def _postgres(url: URL) -> Address:
    if url.host and "@" in url.host:
        raise InvalidParameter("an address has one @, before the host: in a user's name and password write it as %40")
    given = [value for name, values in url.normalized_query.items() if SECRET.search(name) for value in values]
    given.append(str(url.password or ""))
    if url.username is None and url.port is not None:
        given.append(str(url.port))  # user:password/database, where the host was left out, reads as host:port
    written = {
        form(secret) for secret in given for form in (str, quote_plus, unquote, lambda text: quote(text, safe=""))
    }
    secrets = frozenset(form for form in written if len(form) >= SHORTEST_SECRET)
    shown = url.set(query={})._replace(password=None).render_as_string()
    return Address(url, shown, secrets)
