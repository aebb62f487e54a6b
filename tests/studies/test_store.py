"""Lines that survive being stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isonomy.errors import FileError
from studies import Store
from studies.origin import Origin


def fail() -> dict[str, Any]:
    raise AssertionError("computed again")


def test_a_second_run_computes_nothing_again(tmp_path: Path) -> None:
    path = tmp_path / "work" / "lines.jsonl"
    first = Store(path).once({"seed": 0, "method": "sgd"}, lambda: {"value": np.float64(0.1), "rows": np.arange(3)})
    again = Store(path).once({"method": "sgd", "seed": 0}, fail)
    assert first == again == {"seed": 0, "method": "sgd", "value": 0.1, "rows": [0, 1, 2]}


def test_other_keys_are_other_lines(tmp_path: Path) -> None:
    store = Store(tmp_path / "lines.jsonl")
    for seed in range(3):
        assert store.once({"seed": seed}, lambda seed=seed: {"value": seed}) == {"seed": seed, "value": seed}  # type: ignore[misc]
    assert store.computed == 3
    assert len(Store(store.path).known) == 3


@given(cut=st.integers(0, 200))
def test_a_torn_last_line_is_computed_anew(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Wherever the machine stopped: whole lines are kept, the rest is computed again, and the file is whole again."""
    path = tmp_path_factory.mktemp("torn") / "lines.jsonl"
    values = {seed: {"value": seed / 7, "text": "né |\n"} for seed in range(3)}
    store = Store(path)
    for seed, value in values.items():
        store.once({"seed": seed}, lambda value=value: value)  # type: ignore[misc]
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    resumed = Store(path)
    assert {seed: resumed.once({"seed": seed}, lambda seed=seed: values[seed])["value"] for seed in values} == {  # type: ignore[misc]
        seed: value["value"] for seed, value in values.items()
    }
    assert resumed.computed == 3 - kept
    assert path.read_bytes() == whole


def test_a_store_that_only_reads_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    Store(path).once({"seed": 0}, lambda: {"value": 1})
    path.write_bytes(path.read_bytes() + b'{"key": {"se')
    before = path.read_bytes()
    reading = Store(path, only_known=True)
    assert reading.once({"seed": 0}, fail) == {"seed": 0, "value": 1}
    assert reading.once({"seed": 1}, fail) == {"seed": 1}
    assert path.read_bytes() == before
    assert Store(tmp_path / "nothing.jsonl", only_known=True).known == {}


def test_a_line_is_on_the_disk_before_the_next_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    monkeypatch.setattr("os.fsync", forced.append)
    store = Store(tmp_path / "lines.jsonl")
    store.once({"seed": 0}, lambda: {"value": 1})
    assert len(forced) == 1

    def look() -> dict[str, Any]:
        return {"lines": len(store.path.read_text(encoding="utf-8").splitlines())}

    assert store.once({"seed": 1}, look)["lines"] == 1


def test_what_fails_leaves_no_line(tmp_path: Path) -> None:
    store = Store(tmp_path / "lines.jsonl")
    with pytest.raises(AssertionError, match="computed again"):
        store.once({"seed": 0}, fail)
    with pytest.raises(TypeError, match="Got object"):
        store.once({"seed": 0}, lambda: {"value": object()})
    assert not store.path.exists()


def test_a_line_of_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps({"key": {"a": 1}, "found": {}}) + "\nhello\n", encoding="utf-8")
    with pytest.raises(FileError, match="line 2 is not a result"):
        Store(path)


def test_every_number_keeps_where_it_was_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that are written elsewhere tell of the machines of their numbers, and only of those."""
    path = tmp_path / "lines.jsonl"
    old, new = (Origin("torch 1", "a small machine", day, day) for day in ("2026-01-02", "2026-01-01"))
    for seed, origin in enumerate([old, new, Origin("torch 2", "another", "2026-01-03", "2026-01-03")]):
        monkeypatch.setattr(Origin, "here", lambda origin=origin: origin)
        Store(path).once({"seed": seed}, lambda seed=seed: {"value": seed})  # type: ignore[misc]
    read = Store(path, only_known=True)
    assert read.origins() == []
    for seed in (0, 1, 3):  # the last was never computed
        read.once({"seed": seed}, fail)
    assert read.origins() == [Origin("torch 1", "a small machine", "2026-01-01", "2026-01-02")]
    assert "2026-01-01 to 2026-01-02" in read.origins()[0].words()
    read.once({"seed": 2}, fail)
    assert [each.packages for each in read.origins()] == ["torch 1", "torch 2"]
