"""The chain over the log: whatever is edited, removed, inserted or moved shows, and where."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import stat
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
from isonomy.service.chain import START, ChainRecord, Verified, linked, verify
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


DAY = 86_400_000_000
NOON = 20_000 * DAY + DAY // 2
"""Some day in 2024."""


@pytest.fixture
def aged(tmp_path: Path) -> tuple[Path, str]:
    """Eight requests of eight days up to ``NOON``, an evaluation after the fifth, and the head that was noted then; of
    the eight days retention has taken two since."""
    log = AuditLog(f"sqlite:///{tmp_path / 'isonomy.db'}")
    for age in range(7, -1, -1):
        log.append(entry(2, NOON - age * DAY)).result()
        if age == 3:
            log.append_evaluation("ab" * 32, 1, 7, "valid", "{}").result()
    head = log.head()[1]
    assert log.forget(NOON - 5 * DAY - 1) == 2 and log.forget(NOON - 5 * DAY - 1) == 0
    log.close()
    return tmp_path / "isonomy.db", head


def test_retention_names_what_it_took(aged: tuple[Path, str]) -> None:
    database, head = aged
    found = followed(database, head)
    assert (found.records, found.forgotten, found.wrong) == (10, 2, None)
    assert (found.after_anchor, found.forgotten_since) == (1, 2)
    assert followed(database, found.head).forgotten_since == 0  # it was gone when this head was noted
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT kind, name, content FROM chain WHERE number = 10").fetchall()
        (last,) = connection.execute("SELECT hash FROM chain WHERE number = 2").fetchone()
    assert rows == [("retention", "1-2:2", last)]
    log = AuditLog(f"sqlite:///{database}")
    assert log.forget(NOON - DAY - 1) == 4  # across the evaluation, which stays
    log.close()
    assert name_of(database, 11) == "3-7:4"
    found = followed(database, head)
    assert (found.records, found.forgotten, found.forgotten_since, found.wrong) == (11, 6, 6, None)


def test_what_was_deleted_before_its_time_is_named(aged: tuple[Path, str]) -> None:
    """The times of requests are in their links, which nobody can change below a noted head."""
    database, head = aged
    with read_only(str(database)) as connection:
        assert verify(connection, head, NOON - 5 * DAY).wrong is None
        wrong = verify(connection, head, NOON - 6 * DAY).wrong
    assert wrong == f"Record 2 (request {name_of(database, 2)}) was deleted by retention before its time was over."


def test_only_the_oldest_go(tmp_path: Path) -> None:
    """Where a clock was set back, whoever stands behind a younger request waits for it."""
    log = AuditLog(f"sqlite:///{tmp_path / 'isonomy.db'}")
    for age in (5, 4, 1, 3, 0):
        log.append(entry(2, NOON - age * DAY)).result()
    assert log.forget(NOON - 2 * DAY) == 2 and log.forget(NOON) == 2
    log.append(entry(2, NOON - 6 * DAY)).result()  # old by name, and there
    log.close()
    found = followed(tmp_path)
    assert (found.records, found.forgotten, found.wrong) == (8, 4, None)


def forge(database: Path, *gone: int, link: tuple[str, int] | None = None, anew: int | None = None) -> None:
    """Delete the rows of some records, append a link that names them, made as the service makes it, and link all
    records from ``anew`` on again."""
    with sqlite3.connect(database) as connection:
        chain = connection.execute("SELECT number, kind, name, content, hash FROM chain ORDER BY number").fetchall()
        for number in gone:
            for table in ("requests", "predictions"):
                connection.execute(f"DELETE FROM {table} WHERE request = ?", (chain[number - 1][2],))
        if link is not None:
            record = ChainRecord("retention", link[0], chain[link[1] - 1][4])
            (row,) = linked(chain[-1][0], chain[-1][4], [record])
            connection.execute("INSERT INTO chain VALUES (?, ?, ?, ?, ?)", row)
        if anew is not None:
            kept = [ChainRecord(*row[1:4]) for row in chain if row[0] >= anew and row[0] not in gone]
            connection.execute("DELETE FROM chain WHERE number >= ?", (anew,))
            start = chain[anew - 2][4] if anew > 1 else START
            rows = list(linked(anew - 1, start, kept))
            connection.executemany("INSERT INTO chain VALUES (?, ?, ?, ?, ?)", rows)


FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    "a middle, without a link": ({"gone": (5, 7)}, "Record 5 (request .*) was removed"),
    "the oldest, without a link": ({"gone": (3,)}, "Record 3 (request .*) was removed"),
    "a middle, as retention": ({"gone": (5, 7), "link": ("5-7:2", 7)}, "Record 3 .* only the oldest may go"),
    "all but the first, as retention": ({"gone": (4, 5, 7), "link": ("4-7:3", 7)}, "Record 3 .* only the oldest"),
    "a hole in what was named": ({"gone": (3, 5), "link": ("3-5:2", 5)}, "Record 4 .* is there, where retention"),
    "more than was named": ({"gone": (3, 4, 5), "link": ("3-4:2", 4)}, "Record 5 (request .*) was removed"),
    "fewer than were named": ({"gone": (3, 4), "link": ("3-5:3", 5)}, "Record 5 .* is there, where retention"),
    "another count": ({"gone": (3, 4), "link": ("3-4:3", 4)}, "Record 4 .* with 2 requests where it says 3-4:3"),
    "the hash of another record": ({"gone": (3, 4), "link": ("3-4:2", 5)}, "Record 11 .* has not the hash"),
    "what was named before, again": ({"gone": (3,), "link": ("1-3:3", 3)}, "Record 3 .* only the oldest may go"),
    "an evaluation as the last": ({"gone": (3, 4, 5), "link": ("3-6:3", 6)}, "Record 7 .* only the oldest"),
    "what comes after the link": ({"gone": (3, 4, 5, 7, 8, 9), "link": ("3-12:6", 9)}, "Record 11 .* before it"),
    "a link of the earlier form": ({"gone": (3,), "link": ("f" * 32, 3)}, "Record 3 (request .*) was removed"),
    "a link that names nothing": ({"link": ("", 3)}, "Record 11 .* does not name what it deleted"),
    "numbers that are none": ({"gone": (3,), "link": ("3-\u0663:1", 3)}, "Record 3 (request .*) was removed"),
    "the newest, and their links": ({"gone": (9,), "anew": 9}, "anchored head .* is not in the chain"),
    "a middle, linked anew": ({"gone": (5,), "anew": 5}, "anchored head .* is not in the chain"),
    "all, linked anew": ({"gone": (3, 4), "anew": 1}, "anchored head .* is not in the chain|Record 1"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_whatever_else_goes_is_noticed_with_the_noted_head(aged: tuple[Path, str], forgery: str) -> None:
    (database, head), (done, said) = aged, FORGERIES[forgery]
    forge(database, *done.get("gone", ()), link=done.get("link"), anew=done.get("anew"))
    found = followed(database, head)
    assert found.wrong is not None and re.search(said.replace("(request .*)", r"\(request .*\)"), found.wrong), found


def test_the_oldest_with_an_honest_link_are_counted(aged: tuple[Path, str]) -> None:
    """Without a secret nobody can tell this from retention: it is said, and the reader's own retention judges it."""
    database, head = aged
    forge(database, 3, 4, 5, 7, link=("3-7:4", 7))
    with read_only(str(database)) as connection:
        found = verify(connection, head)
        assert (found.wrong, found.forgotten, found.forgotten_since) == (None, 6, 6)
        judged = verify(connection, head, NOON - 5 * DAY)
    assert judged.wrong is not None and judged.wrong.startswith("Record 3 ") and "before its time" in judged.wrong


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_a_log_of_a_version_before_is_left_as_it_is(database: Path, version: str) -> None:
    change(database, f"UPDATE alembic_version SET version_num = '{version}'")
    with pytest.raises(LogError, match=rf"another version \({version}, here 0003\): keep it as it is"):
        open_database(f"sqlite:///{database}")
    assert followed(database).wrong is None
    change(database, "DROP TABLE chain")
    with pytest.raises(LogError, match="without a chain"):
        followed(database)


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
