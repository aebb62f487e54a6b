"""The chain over the log: whatever is edited, removed, inserted or moved shows, and where."""

from __future__ import annotations

import json
import logging
import sqlite3
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from isonomy.errors import ParameterError
from isonomy.service import Settings, create_app
from isonomy.service.certifier import Answers, Certifier
from isonomy.service.chain import START, Verified, verify
from isonomy.service.database import LogError, open_database, read_only
from isonomy.service.log import AuditLog

from .example import rows, served
from .test_log import entry
from .test_watch import until


def followed(place: str | Path, head: str | None = None) -> Verified:
    with read_only(str(place)) as connection:
        return verify(connection, head)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Ten requests, and an evaluation after the fifth."""
    log = AuditLog(f"sqlite:///{tmp_path / 'isonomy.db'}")
    for place in range(10):
        log.append(entry(3)).result()
        if place == 4:
            log.append_evaluation("ab" * 32, 1, 7, "valid", "{}").result()
    log.close()
    return tmp_path / "isonomy.db"


def change(database: Path, *statements: str) -> None:
    with sqlite3.connect(database) as connection:
        for statement in statements:
            connection.execute(statement)


def name_of(database: Path, number: int) -> str:
    with sqlite3.connect(database) as connection:
        return str(connection.execute("SELECT name FROM chain WHERE number = ?", (number,)).fetchone()[0])


def test_a_log_that_nobody_touched(database: Path) -> None:
    found = followed(database)
    assert (found.records, found.forgotten, found.wrong, found.after_anchor) == (11, 0, None, None)
    assert followed(database.parent) == followed(f"sqlite:///{database}") == found
    assert followed(database, found.head).after_anchor == 0
    assert followed(database, START).after_anchor == 11
    log = AuditLog(f"sqlite:///{database}")
    assert log.head() == (11, found.head)
    log.append(entry()).result()
    log.close()
    later = followed(database, found.head)
    assert (later.records, later.wrong, later.after_anchor) == (12, None, 1)


EDITS = {
    **{f"predictions.{column}": f"UPDATE predictions SET {column} = {value} WHERE request = '{{name}}' AND place = 1"
       for column, value in {
           "prediction": "'no'", "outputs": "'[0.2, 0.8]'", "upper": "0.2500000001", "lower": "-0.5",
           "verdict": "'violated'", "decision": "'none'", "tier": "'tight'", "features": "'[]'", "place": "9"}.items()},
    **{f"requests.{column}": f"UPDATE requests SET {column} = {value} WHERE request = '{{name}}'"
       for column, value in {"at": "at + 1", "caller": "'x'", "certificate": "'x'", "people": "4"}.items()},
    "a prediction removed": "DELETE FROM predictions WHERE request = '{name}' AND place = 2",
    "all predictions removed": "DELETE FROM predictions WHERE request = '{name}'",
    "a prediction inserted": "INSERT INTO predictions SELECT request, 3, prediction, outputs, upper, lower, verdict, "
    "decision, tier, features FROM predictions WHERE request = '{name}' AND place = 0",
    "the head of a request removed": "DELETE FROM requests WHERE request = '{name}'",
    "renamed": "UPDATE requests SET request = 'zz' WHERE request = '{name}'",
    "a blob": "UPDATE predictions SET outputs = x'00ff' WHERE request = '{name}' AND place = 1",
    "the link's content": "UPDATE chain SET content = '0' WHERE number = 3",
    "the link's hash": "UPDATE chain SET hash = '0' WHERE number = 3",
    "the link's kind": "UPDATE chain SET kind = 'retention' WHERE number = 3",
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_record_is_named(database: Path, edit: str) -> None:
    change(database, EDITS[edit].format(name=name_of(database, 3)))
    found = followed(database)
    assert found.records == 2 and found.wrong is not None and found.wrong.startswith("Record 3 (")


def test_a_removed_record_is_named(database: Path) -> None:
    name = name_of(database, 3)
    away = [f"DELETE FROM {table} WHERE request = '{name}'" for table in ("requests", "predictions")]
    change(database, *away)
    found = followed(database)
    assert found.wrong is not None and f"Record 3 (request {name}) was removed" in found.wrong
    change(database, "DELETE FROM chain WHERE number = 3")
    found = followed(database)
    assert found.wrong == "Record 3 is missing: after record 2 comes 4."
    change(database, "UPDATE chain SET number = number - 1 WHERE number > 3")  # closing the gap helps nobody
    found = followed(database)
    assert found.wrong is not None and found.wrong.startswith("Record 3 (")


def test_an_evaluation_is_a_record_too(database: Path) -> None:
    change(database, "UPDATE evaluations SET state = 'expired'")
    found = followed(database)
    assert found.wrong is not None and found.wrong.startswith(f"Record 6 (evaluation {'ab' * 32}:1) was edited")
    change(database, "DELETE FROM evaluations")
    found = followed(database)
    assert found.wrong is not None and "removed" in found.wrong


def test_records_that_changed_places_are_named(database: Path) -> None:
    change(
        database,
        "UPDATE chain SET number = 100 WHERE number = 3",
        "UPDATE chain SET number = 3 WHERE number = 5",
        "UPDATE chain SET number = 5 WHERE number = 100",
    )
    found = followed(database)
    assert found.wrong is not None and found.wrong.startswith("Record 3 (")


@pytest.mark.parametrize(
    "insert",
    [
        "INSERT INTO requests SELECT 'zz', at, caller, certificate, people FROM requests LIMIT 1",
        "INSERT INTO predictions SELECT 'zz', place, prediction, outputs, upper, lower, verdict, decision, tier, "
        "features FROM predictions LIMIT 1",
        "INSERT INTO evaluations SELECT certificate, 2, at, state, document FROM evaluations",
    ],
)
def test_an_inserted_record_is_named(database: Path, insert: str) -> None:
    change(database, insert)
    found = followed(database)
    assert found.wrong is not None and "inserted" in found.wrong and ("zz" in found.wrong or ":2" in found.wrong)


def test_what_only_an_anchored_head_shows(database: Path) -> None:
    """The end cut off: the chain alone is sound; the head that was noted is not in it any more."""
    head = followed(database).head
    name = name_of(database, 11)
    away = [f"DELETE FROM {table} WHERE request = '{name}'" for table in ("requests", "predictions")]
    change(database, *away, "DELETE FROM chain WHERE number = 11")
    found = followed(database)
    assert (found.records, found.wrong) == (10, None)
    anchored = followed(database, head)
    assert anchored.wrong is not None and head in anchored.wrong and "not in the chain" in anchored.wrong
    assert followed(database, found.head).after_anchor == 0


def test_retention_is_a_record_and_covers_only_what_it_says(tmp_path: Path) -> None:
    log = AuditLog(f"sqlite:///{tmp_path / 'isonomy.db'}")
    now, day = time.time_ns() // 1000, 86_400_000_000
    for age in (5, 4, 1, 3, 0):
        log.append(entry(2, now - age * day)).result()
    before = log.head()[1]
    assert log.forget(now - 2 * day) == 3
    log.append(entry(2, now - 6 * day)).result()  # a clock that was set back: old by name, and there
    log.close()
    found = followed(tmp_path, before)
    assert (found.records, found.forgotten, found.wrong, found.after_anchor) == (7, 3, None, 2)
    # What it does not cover: a younger request, and one that came after it.
    for number in (5, 7):
        name, copy = name_of(tmp_path / "isonomy.db", number), tmp_path / f"{number}.db"
        with sqlite3.connect(tmp_path / "isonomy.db") as source, sqlite3.connect(copy) as target:
            source.backup(target)
        change(copy, *(f"DELETE FROM {table} WHERE request = '{name}'" for table in ("requests", "predictions")))
        gone = followed(copy)
        assert gone.wrong is not None and gone.wrong.startswith(f"Record {number} (request {name}) was removed")


def test_a_log_from_before_the_chain_is_linked_as_it_stands(database: Path) -> None:
    change(database, "DROP TABLE chain", "UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(LogError, match="earlier version"):
        followed(database)
    open_database(f"sqlite:///{database}").dispose()
    found = followed(database)
    assert (found.records, found.wrong) == (11, None)
    change(database, "UPDATE predictions SET upper = 0 WHERE place = 2")
    assert followed(database).wrong is not None


def append_at_once(address: str) -> None:
    """Two processes' worth of writers on one log, several threads each."""
    logs = [AuditLog(address) for _ in range(2)]

    def some(place: int) -> None:
        for _ in range(15):
            logs[place % 2].append(entry(1)).result(60)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(some, range(6)))
    for log in logs:
        log.close()


def test_writers_take_turns(tmp_path: Path) -> None:
    append_at_once(f"sqlite:///{tmp_path / 'isonomy.db'}")
    found = followed(tmp_path)
    assert (found.records, found.wrong) == (90, None)


def test_the_log_of_a_service(tmp_path: Path) -> None:
    """In the folder that was asked for, for its owner alone; what the service answered is in the chain."""
    folder = tmp_path / "new" / "log"
    with TestClient(create_app(served(), Settings(log=str(folder), store_features=True))) as client:
        for size in (1, 30):
            body = {"individuals": rows(size), "counterpart": size == 1}
            assert client.post("/v1/predictions", json=body).status_code == 200
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = sorted(folder.iterdir())
        assert folder / "isonomy.db" in files and len(files) > 1
        assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    found = followed(folder)
    assert (found.records, found.wrong) == (2, None)
    change(folder / "isonomy.db", "UPDATE predictions SET features = '{}' WHERE place = 29")
    assert followed(folder).records == 1


@pytest.mark.parametrize("stored", [False, True])
def test_what_is_hashed_is_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool) -> None:
    """Also names that JSON escapes, bounds without a limit, and more rows than one statement takes."""
    honest = Certifier.__call__

    def odd(*given: Any, **more: Any) -> Answers:
        found = honest(*given, **more)
        names = ['ä"\\' if place % 2 else name for place, name in enumerate(map(str, found.predictions))]
        upper = np.where(np.arange(len(found)) % 3, found.upper, np.inf)
        return replace(found, predictions=names, upper=upper)

    monkeypatch.setattr(Certifier, "__call__", odd)
    with TestClient(create_app(served(), Settings(log=str(tmp_path), store_features=stored))) as client:
        answer = client.post("/v1/predictions", json={"individuals": rows(120), "tier": "interval"}).json()
    assert [row["prediction"] for row in answer["predictions"][1:4:2]] == ['ä"\\', 'ä"\\']
    assert [row["upper"] is None for row in answer["predictions"]] == [place % 3 == 0 for place in range(120)]
    assert (followed(tmp_path).records, followed(tmp_path).wrong) == (1, None)
    with sqlite3.connect(tmp_path / "isonomy.db") as log:
        kept = log.execute("SELECT prediction, upper, features FROM predictions ORDER BY place").fetchall()
    assert kept[3][:2] == ('ä"\\', float("inf")) and len(kept) == 120
    assert [row[2] for row in kept] == [json.dumps(row) if stored else None for row in rows(120)]


def test_a_file_that_everybody_could_read_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "audit.db"
    file.touch(0o644)
    open_database(f"sqlite:///{file}").dispose()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_service_has_to_be_told_where_its_log_is(tmp_path: Path) -> None:
    for settings in (Settings(), Settings(log=str(tmp_path), database="sqlite:///x.db")):
        with pytest.raises(ParameterError, match="'log', a folder, or 'database'"):
            create_app(served(), settings)


def test_the_head_is_told_to_the_lines_of_the_service(
    serve: Callable[..., TestClient], caplog: pytest.LogCaptureFixture
) -> None:
    """Where those are kept elsewhere, the log is anchored by the hour."""
    with caplog.at_level(logging.INFO, logger="isonomy.service"):
        serve()
        until(lambda: any(getattr(line, "facts", {}).get("head") == START for line in caplog.records))


def test_numbers_at_the_ends_come_back_as_they_were(tmp_path: Path) -> None:
    log = AuditLog(f"sqlite:///{tmp_path / 'isonomy.db'}")
    one = entry(1)
    one = type(one)(one.request, [(*one.predictions[0][:4], float("inf"), 5e-324, *one.predictions[0][6:])])
    log.append(one).result()
    with log.engine.connect() as connection:
        assert connection.execute(text("SELECT upper FROM predictions")).scalar() == float("inf")
    log.close()
    assert followed(tmp_path).wrong is None
