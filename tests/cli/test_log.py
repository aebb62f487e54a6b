"""``isonomy log verify``: what it says, and how it ends."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.service.test_log import entry

from isonomy.cli.app import main
from isonomy.service.log import AuditLog


@pytest.fixture
def log(tmp_path: Path) -> Path:
    written = AuditLog(f"sqlite:///{tmp_path / 'isonomy.db'}")
    for _ in range(3):
        written.append(entry(2)).result()
    written.close()
    return tmp_path


def test_it_prints_the_head_and_finds_it_again(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(log), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"] == 3 and found["wrong"] is None
    assert main(["log", "verify", str(log)]) == 0
    said = capsys.readouterr().out
    assert "Records: 3" in said and found["head"] in said and "Only a head that was noted elsewhere" in said
    assert main(["log", "verify", str(log / "isonomy.db"), "--head", found["head"].upper()]) == 0
    assert "0 records before its end" in capsys.readouterr().out
    assert main(["log", "verify", str(log), "--head", "f" * 64]) == 1
    assert "not in the chain" in capsys.readouterr().out


def test_it_names_the_first_record_that_is_wrong(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(log / "isonomy.db") as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM chain ORDER BY number")]
        connection.execute("UPDATE predictions SET upper = 0 WHERE request IN (?, ?)", names[1:])
    assert main(["log", "verify", str(log)]) == 1
    assert f"Record 2 (request {names[1]}) was edited" in capsys.readouterr().out


def test_it_says_what_retention_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, year = AuditLog(f"sqlite:///{tmp_path / 'isonomy.db'}"), 365 * 86_400_000_000
    for place in range(4):
        log.append(entry(1, 40 * year + place)).result()
    head = log.head()[1]
    assert log.forget(40 * year + 10_000) == 4
    log.close()
    assert main(["log", "verify", str(tmp_path), "--head", head]) == 0
    said = capsys.readouterr().out
    assert "the oldest 4 requests, 4 of them after this head was noted" in said and "--retention-days tells" in said
    assert main(["log", "verify", str(tmp_path), "--head", head, "--retention-days", "30"]) == 0
    assert "--retention-days tells" not in capsys.readouterr().out
    assert main(["log", "verify", str(tmp_path), "--head", head, "--retention-days", "100000"]) == 1
    assert "deleted by retention before its time was over" in capsys.readouterr().out


def test_what_is_no_log_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.db").write_text("no database at all, but long enough to be taken for one" * 10, encoding="utf-8")
    sqlite3.connect(tmp_path / "empty.db").execute("CREATE TABLE other (x)").connection.close()
    for place, said in {
        str(tmp_path): "There is no audit log",
        str(tmp_path / "text.db"): "cannot be read",
        str(tmp_path / "empty.db"): "is no audit log",
        "mysql://localhost/x": "'database' must be",
    }.items():
        assert main(["log", "verify", place]) == 2
        assert said in capsys.readouterr().err
