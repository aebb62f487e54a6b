"""Steps: what is computed, what is found, and tables that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from isonomy.errors import FileError
from studies import Setting, Store
from studies.steps import Step, known, taken


def absent() -> dict[str, int]:
    raise FileError("The table is not on this machine.")


def test_a_table_that_is_absent_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    ticks: list[tuple[int, int]] = []
    setting = Setting(True, tmp_path, lambda done, total: ticks.append((done, total)), 1)
    steps = [
        Step("missing", {"a": 1}, absent),
        Step("there", {"a": 2}, lambda: {"b": 3}),
        Step("missing", {"a": 4}, absent),
    ]
    found = taken(steps, setting, Store(tmp_path / "lines.jsonl"))
    assert found.lines == [{"a": 1}, {"a": 2, "b": 3}, {"a": 4}]
    assert [known(line, "b") for line in found.lines] == [False, True, False]
    assert found.words() == ["**Not run:** missing. The table is not on this machine."]
    assert ticks == [(1, 3), (2, 3), (3, 3)]


def test_without_any_table_the_reason_is_raised(tmp_path: Path) -> None:
    setting = Setting(True, tmp_path, None, 1)
    steps = [Step("one", {"a": 1}, absent), Step("other", {"a": 2}, absent)]
    with pytest.raises(FileError, match="not on this machine"):
        taken(steps, setting, Store(tmp_path / "lines.jsonl"))


def test_what_is_left_is_told_of(tmp_path: Path) -> None:
    setting, file = Setting(True, tmp_path, None, 1), tmp_path / "lines.jsonl"
    first = Step("there", {"a": 1}, lambda: {"b": 2})
    assert taken([first], setting, Store(file)).words() == []
    found = taken([first, Step("there", {"a": 3}, dict)], setting, Store(file, only_known=True))
    assert found.words() == ["**Not yet run:** 1 of 2 parts; the same command goes on with them."]
