"""Running it: keys, settings, logs, and what is refused."""

from __future__ import annotations

import json
import logging
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from isonomy.errors import FileError, ParameterError
from isonomy.service import Key, Settings, new_key, read_keys, run, serve
from isonomy.service.keys import match_key
from isonomy.service.web import Lines

from .example import process, rows, served


def test_keys_are_kept_as_hashes(tmp_path: Path) -> None:
    pairs = [new_key(name) for name in ("one", "two")]
    path = tmp_path / "keys"
    path.write_text("# who may ask\n\n" + "\n".join(key.line() for _, key in pairs), encoding="utf-8")
    keys = read_keys(path)
    assert keys == tuple(key for _, key in pairs)
    assert [match_key(secret, keys) for secret, _ in pairs] == list(keys)
    assert all(secret not in path.read_text(encoding="utf-8") for secret, _ in pairs)


@pytest.mark.parametrize("text", ["", "# nobody", "name", "name 123", f"na/me {'0' * 64}", f"a {'0' * 64} b"])
def test_files_of_keys_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match="keys"):
        read_keys(path)
    with pytest.raises(FileError):
        read_keys(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_batch", 0), ("max_body", 10), ("threads", True), ("timeout", float("nan")), ("budget_ms", -1.0),
        ("retention_days", 0.0), ("webhook", "ftp://x"), ("window", 2), ("sample", 1.5),
        ("guarantee", "none"), ("confidence", 1.0), ("store_features", 1),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"'{name}'"):
        Settings(**{name: value})


def test_other_machines_need_a_key() -> None:
    with pytest.raises(ParameterError, match="without a key"):
        run(served(), Settings(), host="0.0.0.0")
    with pytest.raises(ParameterError, match="'port'"):
        run(served(), Settings(), port=70_000)


def test_settings_that_are_shown_hold_no_secret() -> None:
    settings = Settings(
        keys=(Key("a", "0" * 64),), webhook="http://x/?token=1", webhook_secret="s", database="postgresql://u:pw@h/d"
    )
    shown = json.dumps(settings.shown())
    assert all(word not in shown for word in ("0" * 64, "token", "pw", '"s"'))


def test_log_lines_are_json() -> None:
    record = logging.LogRecord("isonomy.service", logging.INFO, "", 0, "request", None, None)
    record.facts = {"status": 200, "path": "/v1/predictions"}
    line = json.loads(Lines().format(record))
    assert (line["message"], line["status"], line["level"]) == ("request", 200, "info")


def test_the_command_can_be_registered() -> None:
    app = typer.Typer()
    app.command()(serve)
    told = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert told.exit_code == 0
    for option in ("--certificate", "--database", "--keys", "--retention-days", "--webhook", "--budget-ms"):
        assert option in told.output


def test_options_reach_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, key = new_key("one")
    (tmp_path / "keys").write_text(key.line(), encoding="utf-8")
    seen: list[tuple[Any, Settings, dict[str, Any]]] = []
    monkeypatch.setattr("isonomy.service.app.run", lambda *given, **more: seen.append((*given, more)))
    monkeypatch.setattr("isonomy.service.app.Served.from_directory", lambda path: path)
    app = typer.Typer()
    app.command()(serve)
    words = (
        f"--certificate {tmp_path} --keys {tmp_path / 'keys'} --port 9 --window 77 --guarantee each --store-features"
    )
    assert CliRunner().invoke(app, words.split(), catch_exceptions=False).exit_code == 0
    (found, settings, more) = seen[0]
    assert (found, more["port"], settings.keys, settings.window) == (tmp_path, 9, tmp_path / "keys", 77)
    assert (settings.guarantee, settings.store_features) == ("each", True)
    told = CliRunner().invoke(app, ["--certificate", ".", "--guarantee", "none"])
    assert isinstance(told.exception, ParameterError)


@pytest.mark.slow
def test_a_process_answers_and_ends(tmp_path: Path) -> None:
    with process(tmp_path / "audit.db") as running:
        told = running.post({"individual": rows(1)[0]})
        assert len(told["predictions"]) == 1
        with urllib.request.urlopen(f"{running.address}/health/live", timeout=600) as answer:
            assert "server" not in {name.lower() for name in answer.headers}
        running.process.terminate()
        assert running.process.wait() in (0, -15)
