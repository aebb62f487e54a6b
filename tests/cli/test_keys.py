"""Keys are made, listed, rotated and ended on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from isonomy.cli import main
from isonomy.service import read_keys
from isonomy.service.keys import is_valid, match_key, parsed_moment

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.txt"


def test_a_key_from_its_beginning_to_its_end(path: Path, capsys: Captured) -> None:
    terms = ["--expires", "2999-01-31", "--roles", "read,predict", "--rate", "10/s"]
    assert main(["key", "new", "bank-1", "--keys", str(path), *terms]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert main(["key", "rotate", "bank-1", "--keys", str(path), "--expires", "2999-12-30", "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    keys = read_keys(path)
    old, new = match_key(first, keys), match_key(second["key"], keys)
    assert old is not None and new is not None and old.expires is not None
    assert (old.name, old.roles, old.rate) == (new.name, new.roles, new.rate)
    week = datetime.now(UTC) + timedelta(days=7)
    assert week - timedelta(hours=1) < old.expires <= week  # an hour for a slow machine
    assert new.expires == parsed_moment("2999-12-30") and second["before_expire"] in path.read_text(encoding="utf-8")
    assert main(["key", "list", "--keys", str(path), "--json"]) == 0
    listed = capsys.readouterr().out
    assert [each["valid"] for each in json.loads(listed)] == [True, True]
    assert not any(each in listed for each in (first, second["key"], old.digest, new.digest))
    assert main(["key", "expire", "bank-1", "--keys", str(path)]) == 0
    assert not any(is_valid(key, datetime.now(UTC)) for key in read_keys(path))
    assert not any(secret in path.read_text(encoding="utf-8") for secret in (first, second["key"]))
    assert main(["key", "new", "bank-1", "--keys", str(path)]) == 0  # the name is free again


def test_ends_are_never_later_than_they_were(path: Path, capsys: Captured) -> None:
    assert main(["key", "new", "a", "--keys", str(path), "--expires", "2998-01-31"]) == 0
    assert main(["key", "expire", "a", "--keys", str(path), "--at", "2999-01-31"]) == 0
    assert "until 2998-01-31" in capsys.readouterr().out
    assert main(["key", "rotate", "a", "--keys", str(path), "--expires", "2999-01-31", "--overlap-days", "1e308"]) == 0
    assert parsed_moment("2998-01-31") > (read_keys(path)[0].expires or datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["new", "a"], "has a valid key named 'a'"), (["new", "b", "--rate", "10"], "10/s"),
        (["new", "b", "--roles", "boss"], "predict, read, admin"), (["new", "b", "--expires", "soon"], "2027-01-31"),
        (["new", "b", "--expires", "2020-01-01"], "to come"), (["rotate", "a", "--expires", "2020-01-01"], "to come"),
        (["new", "b/c"], "letters"), (["rotate", "b"], "no valid key named 'b'"),
        (["expire", "b"], "no valid key named 'b'"),
        (["rotate", "a"], "--expires"), (["rotate", "a", "--overlap-days", "-1"], "overlap-days"),
        (["rotate", "a", "--overlap-days", "nan"], "overlap-days"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_changes_nothing(path: Path, capsys: Captured, words: list[str], right: str) -> None:
    assert main(["key", "new", "a", "--keys", str(path), "--expires", "2999-01-31"]) == 0
    before = path.read_bytes()
    capsys.readouterr()
    assert main(["key", *words, "--keys", str(path)]) == 2
    captured = capsys.readouterr()
    assert right in captured.err and len(captured.err.splitlines()) == 1 and not captured.out
    assert path.read_bytes() == before
