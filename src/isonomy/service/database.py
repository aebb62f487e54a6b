"""Open the database of the audit log so that a commit is on disk, and make its tables.

**Durability.** SQLite: write-ahead log with ``synchronous=FULL``, so that a commit returns after the log was
synchronised to disk. PostgreSQL: ``synchronous_commit`` is switched on where the server has it off.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from isonomy.errors import FileError, IsonomyError, ParameterError, first_line, template
from isonomy.service.chain import METADATA

_LOCK = 7_466_081_120  # an arbitrary number: two services that start at once take turns
APPENDING = 7_466_081_121  # another one: two services that append to one chain take turns
FILE = "isonomy.db"
"""The name of an SQLite log in its folder."""
VERSION = "0003"
"""The version of the tables."""


class LogError(IsonomyError):
    """Raised when the audit log cannot be written or read; nothing is acknowledged without it."""

    code = "log"
    http_status = 503


def open_database(address: str) -> Engine:
    """Connect, and make the tables where there are none."""
    engine = _engine(address)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
            make_tables(connection)
    except SQLAlchemyError as error:
        shown = make_url(address).render_as_string(hide_password=True)
        raise LogError(f"The audit log at '{shown}' cannot be opened: {first_line(error)}") from None
    return engine


@contextmanager
def read_only(place: str) -> Iterator[Connection]:
    """Open a snapshot of the log in a folder, an SQLite file or at an address of PostgreSQL, without writing to it."""
    shown = place
    if "://" in place and not place.startswith("sqlite:///"):
        engine = _engine(place)
        shown = make_url(place).render_as_string(hide_password=True)
    else:
        file = Path(place.removeprefix("sqlite:///"))
        file = (file / FILE if file.is_dir() else file).absolute()
        if not file.is_file():
            raise FileError(f"There is no audit log '{file}': give its folder, its database file or an address.")
        engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True))
    try:
        with engine.connect() as connection:
            sqlite = engine.dialect.name == "sqlite"
            connection.exec_driver_sql(
                "BEGIN" if sqlite else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
            )
            if not inspect(connection).has_table("chain"):
                raise LogError(f"'{shown}' is no audit log, or one of an earlier version without a chain.")
            yield connection
    except SQLAlchemyError as error:
        raise LogError(f"The audit log at '{shown}' cannot be read: {first_line(error)}") from None
    finally:
        engine.dispose()


def make_tables(connection: Connection) -> None:
    """Make the tables in an empty database; refuse those of another version. The table of versions is named after the
    tool that made the first logs."""
    connection.execute(
        text("CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    )
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if version is None:
        METADATA.create_all(connection)
        connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": VERSION})
    elif version != VERSION:
        raise LogError(
            f"The audit log has tables of another version ({version}, here {VERSION}): keep it as it is, and begin "
            "another one, or use that version of isonomy."
        )


def _engine(address: str) -> Engine:
    try:
        url = make_url(address)
    except ArgumentError:
        raise ParameterError(template("database", "an address such as sqlite:///audit.db", address)) from None
    if url.get_backend_name() == "sqlite":
        memory = url.database in (None, "", ":memory:")
        if not memory:
            _make_private(Path(str(url.database)))
        options: dict[str, Any] = {"poolclass": StaticPool} if memory else {}
        engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": 10.0}, **options)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin)
        return engine
    if url.get_backend_name() in ("postgresql", "postgres"):
        engine = create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, pool_size=4)
        event.listen(engine, "connect", _prepare_postgres)
        return engine
    raise ParameterError(template("database", "an SQLite or PostgreSQL address", url.render_as_string()))


def _make_private(file: Path) -> None:
    """Let only the owner read the log; SQLite gives its other files the same rights."""
    with suppress(OSError):  # SQLite reports what is wrong with the path
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        file.chmod(0o600)


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by hand, so that tables are made within one
    for setting in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000", "wal_autocheckpoint=4000"):
        connection.execute(f"PRAGMA {setting}")


def _begin(connection: Connection) -> None:
    if not connection.get_execution_options().get("reading"):  # a reader must not wait for the writer
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _prepare_postgres(connection: Any, _: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()
