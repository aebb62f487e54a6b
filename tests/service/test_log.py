"""The audit log: durable, grouped, forgetful when told, and up to date with its tables."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from isonomy.errors import ParameterError
from isonomy.service.chain import METADATA, first_name, new_request
from isonomy.service.database import LogError, open_database
from isonomy.service.log import EXPIRED, AuditLog, Entry


def entry(count: int = 2, at: int | None = None, verdict: str = "certified") -> Entry:
    request, now = new_request()
    if at is not None:
        request, now = f"{first_name(at)}{request[12:]}", at
    row = ("yes", "[0.1, 0.9]", 0.25, 0.0, verdict, "certified", "interval", None)
    return Entry((request, now, "", "ab" * 32, count), [(request, place, *row) for place in range(count)])


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'audit.db'}"


def test_what_is_done_can_be_read_by_somebody_else(address: str, tmp_path: Path) -> None:
    log = AuditLog(address)
    log.append(entry(3)).result()
    with sqlite3.connect(tmp_path / "audit.db") as other:
        assert other.execute("SELECT count(*) FROM predictions").fetchone() == (3,)
    log.close()


def test_commits_are_synchronised(address: str) -> None:
    engine = open_database(address)
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    engine.dispose()


@contextmanager
def busy(log: AuditLog) -> Iterator[threading.Event]:
    """Somebody's first entry is being written until the event is set."""
    gate, entered = threading.Event(), threading.Event()

    def held(seconds: float, entries: int) -> None:
        entered.set()
        gate.wait()

    log._noted = held
    with ThreadPoolExecutor(1) as other:
        first = other.submit(lambda: log.append(entry()).result())
        assert entered.wait()
        yield gate
        gate.set()
        first.result()


def test_entries_that_wait_share_a_commit(address: str) -> None:
    commits: list[int] = []
    log = AuditLog(address)
    with busy(log) as gate:
        futures = [log.append(entry()) for _ in range(50)]
        assert not any(future.done() for future in futures)  # left to whoever writes
        log._noted = lambda seconds, entries: commits.append(entries)
        gate.set()
        for future in futures:
            future.result()
    log.close()
    assert commits == [50]


def test_nothing_that_is_appended_is_left_behind(address: str, tmp_path: Path) -> None:
    """Many threads at once, each waiting for its own entry: whoever leaves looks again."""
    log = AuditLog(address)

    def some(_: int) -> None:
        for _ in range(40):
            log.append(entry(1)).result(30)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(some, range(8)))
    with sqlite3.connect(tmp_path / "audit.db") as other:
        assert other.execute("SELECT count(*) FROM requests").fetchone() == (320,)
    log.close()


def test_what_waits_at_the_end_is_written(address: str, tmp_path: Path) -> None:
    log = AuditLog(address)
    with busy(log):
        futures = [log.append(entry(1)) for _ in range(5)]
    log.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with sqlite3.connect(tmp_path / "audit.db") as other:
        assert other.execute("SELECT count(*) FROM requests").fetchone() == (6,)


def test_one_bad_entry_does_not_cost_the_others_theirs(address: str) -> None:
    log = AuditLog(address)
    with busy(log):
        twice = entry()
        futures = [log.append(one) for one in (entry(), twice, twice, entry())]
    outcomes = [future.exception(10) for future in futures]
    assert [outcome is None for outcome in outcomes] == [True, True, False, True]
    assert isinstance(outcomes[2], LogError)
    log.append(entry()).result()
    assert log.trouble is None
    log.close()


def test_a_full_queue_says_so(address: str) -> None:
    log = AuditLog(address, waiting=1)
    with busy(log):
        futures = [log.append(entry()) for _ in range(10)]
    outcomes = [future.exception(10) for future in futures]
    assert outcomes[0] is None and all(isinstance(outcome, LogError) for outcome in outcomes[1:])
    log.close()


def test_the_old_is_forgotten(address: str) -> None:
    log = AuditLog(address)
    now = time.time_ns() // 1000
    day = 86_400_000_000
    old = [log.append(entry(1, now - 3 * day)) for _ in range(EXPIRED + 7)]
    new = [log.append(entry(2, now - day)) for _ in range(5)]
    for future in (*old, *new):
        future.result()
    assert log.forget(now - 2 * day) == EXPIRED + 7
    assert log.forget(now - 2 * day) == 0
    assert len(log.recent("ab" * 32, 1000)) == 10
    log.close()


def test_predictions_under_another_certificate_are_left_out(address: str) -> None:
    log = AuditLog(address)
    for verdict, certificate in (("certified", "ab" * 32), ("violated", "cd" * 32)):
        one = entry(3, verdict=verdict)
        log.append(replace(one, request=(*one.request[:3], certificate, 3))).result()
    assert log.verdicts("cd" * 32, 100) == {"violated": 3}
    assert {row["verdict"] for row in log.recent("ab" * 32, 100)} == {"certified"}
    assert log.verdicts("ef" * 32, 100) == {} and log.recent("ef" * 32, 100) == []
    log.close()


def test_evaluations_are_counted_for_each_certificate(address: str) -> None:
    log = AuditLog(address)
    for number in (1, 2, 3):
        log.append_evaluation("a" * 64, number, number, "valid", f'{{"number": {number}}}').result()
    assert (log.looks("a" * 64), log.looks("b" * 64)) == (3, 0)
    assert log.evaluations("a" * 64, 2) == [{"at": 2, "number": 2}, {"at": 3, "number": 3}]
    log.close()


def check_tables(address: str) -> None:
    """The steps end in the tables that the code uses, and opening twice changes nothing."""
    open_database(address).dispose()
    engine = open_database(address)
    with engine.connect() as connection:
        differences: Any = compare_metadata(MigrationContext.configure(connection), METADATA)
        assert differences == []
    engine.dispose()


def test_the_steps_end_in_the_tables_in_use(address: str) -> None:
    check_tables(address)


def test_tables_of_the_future_are_left_alone(address: str) -> None:
    engine = open_database(address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(LogError, match="another version"):
        open_database(address)


def test_addresses_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot be opened"):
        open_database(f"sqlite:///{tmp_path / 'no' / 'folder' / 'audit.db'}")
    with pytest.raises(ParameterError, match="'database'"):
        open_database("mysql://localhost/x")
    with pytest.raises(ParameterError, match="'database'"):
        open_database("nonsense")
