"""The audit log on PostgreSQL, in a cluster of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from starlette.testclient import TestClient

from isonomy.service import Settings, create_app
from isonomy.service.database import open_database
from isonomy.service.log import AuditLog

from .example import rows, served
from .test_chain import append_at_once, followed
from .test_log import check_tables, entry


def found(program: str) -> str | None:
    """On the path, or where Debian puts it."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return shutil.which(program) or (str(versions[-1]) if versions else None)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    initdb, control = found("initdb"), found("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not on this machine")
    prefix: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="isonomy-"))
    if os.geteuid() == 0:  # a server does not run as root
        if shutil.which("runuser") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode:
            pytest.skip("PostgreSQL does not run as root, and there is no user 'postgres' to run it")
        prefix = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    options = f"-p {port} -h 127.0.0.1 -k {folder} -c synchronous_commit=off"
    subprocess.run([*prefix, initdb, "-D", str(data), "-U", "isonomy", "-A", "trust", "-N"], **quiet)  # type: ignore[call-overload]
    subprocess.run([*prefix, control, "-D", str(data), "-o", options, "-w", "-t", "600", "start"], **quiet)  # type: ignore[call-overload]
    try:
        yield f"postgresql://isonomy@127.0.0.1:{port}/postgres"
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run([*prefix, control, "-D", str(data), "-m", "immediate", "stop"], **quiet)  # type: ignore[call-overload]
        shutil.rmtree(folder, ignore_errors=True)


def test_the_steps_end_in_the_tables_in_use(cluster: str) -> None:
    check_tables(cluster)


def test_commits_are_synchronised_even_where_the_server_is_lax(cluster: str) -> None:
    engine = open_database(cluster)
    with engine.connect() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"
    engine.dispose()


def test_entries_are_written_read_and_forgotten(cluster: str) -> None:
    log = AuditLog(cluster)
    now = time.time_ns() // 1000
    for future in [log.append(entry(3, now - 10_000_000_000 * n)) for n in (3, 2, 1, 0)]:
        future.result()
    assert len(log.recent("ab" * 32, 100)) == 12
    assert log.verdicts("ab" * 32, 100) == {"certified": 12}
    assert log.forget(now - 15_000_000_000) == 2
    assert len(log.recent("ab" * 32, 100)) == 6
    log.append_evaluation("a" * 64, 1, 5, "valid", '{"number": 1}').result()
    assert log.looks("a" * 64) == 1 and log.evaluations("a" * 64, 5) == [{"at": 5, "number": 1}]
    twice = entry()
    log.append(twice).result()
    assert log.append(twice).exception() is not None
    log.append(entry()).result()
    log.close()


def test_a_service_on_postgres(cluster: str) -> None:
    with TestClient(create_app(served(), Settings(database=cluster))) as client:
        told = client.post("/v1/predictions", json={"individuals": rows(5)}).json()
        engine = create_engine(cluster.replace("postgresql:", "postgresql+psycopg:"))
        with engine.connect() as connection:
            query = text("SELECT upper FROM predictions WHERE request = :request ORDER BY place")
            uppers = [row[0] for row in connection.execute(query, {"request": told["request"]})]
        engine.dispose()
        assert uppers == [row["upper"] for row in told["predictions"]]


def test_the_chain_on_postgres(cluster: str) -> None:
    """Writers take turns, retention is linked, and what is edited shows."""
    append_at_once(cluster)
    found = followed(cluster)
    assert found.wrong is None and found.records >= 90
    with create_engine(cluster.replace("postgresql:", "postgresql+psycopg:")).begin() as connection:
        query = text("SELECT name FROM chain WHERE number = :number")
        name = connection.execute(query, {"number": found.records}).scalar()
        connection.execute(text("UPDATE predictions SET upper = 0 WHERE request = :name"), {"name": name})
    wrong = followed(cluster).wrong
    assert wrong is not None and wrong.startswith(f"Record {found.records} (request {name}) was edited")
