"""Blocks of a dataset against the table read at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.certificates.people import SCHEMA, table

from isonomy.errors import DataError, FileError
from isonomy.population import PeopleSource, Population, open_people
from isonomy.population import sources as module


def everybody(source: PeopleSource, chunk: int, backwards: bool = True) -> tuple[np.ndarray, ...]:
    """All blocks, read last first."""
    blocks = source.keys(chunk)
    read = [source.read(block) for block in (reversed(blocks) if backwards else blocks)]
    read = read[::-1] if backwards else read
    excluded = sum(people.excluded for people in read)
    arrays = [np.concatenate([getattr(people, name) for people in read]) for name in ("x", "weights", "rows")]
    return (*arrays, np.array(excluded))


@pytest.mark.parametrize("split", ["all", "test"])
@pytest.mark.parametrize(("chunk", "group"), [(1, 7), (7, 10), (10, 7), (30, 100), (1000, 9), (20, 20)])
def test_parquet_blocks(tmp_path: Path, chunk: int, group: int, split: str) -> None:
    frame = table(35)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=group)
    people = Population.from_frame(frame, SCHEMA)
    people = people if split == "all" else people.test
    found = open_people(tmp_path / "t.parquet", SCHEMA, work=tmp_path, split=split)
    x, weights, rows, excluded = everybody(found, chunk)
    assert np.array_equal(x, people.x) and np.array_equal(weights, people.weights) and excluded == 0
    assert np.array_equal(rows, people.rows)
    assert all(block.stop - block.start <= chunk for block in found.keys(chunk))


@pytest.mark.parametrize("split", ["all", "test"])
@pytest.mark.parametrize("way", ["folder", "csv", "huge groups"])
def test_every_way_in_gives_the_same_people(
    tmp_path: Path, way: str, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = table(90)
    frame.loc[[3, 17, 44], "sex"] = "?"  # nobody knows
    frame.loc[60:69, "pay"] = 5.0  # a whole block outside the range
    people = Population.from_frame(frame, SCHEMA, unknown="exclude")
    source = tmp_path / "data"
    source.mkdir()
    if way == "folder":
        for i in range(3):
            frame[30 * i : 30 * (i + 1)].to_parquet(source / f"{i}.parquet")
    elif way == "csv":
        source = source / "t.csv"
        frame.to_csv(source, index=False)
    else:
        monkeypatch.setattr(module, "HUGE", 50)
        source = source / "t.parquet"
        frame.to_parquet(source)
    work = tmp_path / "work"
    for _ in range(2):  # the second time from the copy
        found = open_people(source, SCHEMA, work=work, unknown="exclude", split=split)
        x, weights, rows, excluded = everybody(found, 10)
        side = people if split == "all" else people.test
        assert np.array_equal(x, side.x) and np.array_equal(rows, side.rows) and np.array_equal(weights, side.weights)
        assert excluded == 13
    assert isinstance(found.tables[0], module._CopiedTable) == (way != "folder")
    assert not list(tmp_path.rglob("*.partial"))


def test_the_content_is_what_counts(tmp_path: Path) -> None:
    table(20).to_parquet(tmp_path / "a.parquet")
    table(20).to_parquet(tmp_path / "b.parquet")
    table(20, seed=1).to_parquet(tmp_path / "c.parquet")
    a, b, c = (open_people(tmp_path / f"{name}.parquet", SCHEMA, work=tmp_path).fingerprint() for name in "abc")
    assert a == b != c


def test_errors_name_file_row_and_column(tmp_path: Path) -> None:
    frame = table(50)
    frame.loc[33, "sex"] = "?"
    frame.to_parquet(tmp_path / "t.parquet")
    found = open_people(tmp_path / "t.parquet", SCHEMA, work=tmp_path)
    with pytest.raises(DataError, match=r"File t\.parquet: Column 'sex', row 33"):
        found.read(found.keys(20)[1])
    frame.drop(columns="debt").to_parquet(tmp_path / "u.parquet")
    found = open_people(tmp_path / "u.parquet", SCHEMA, work=tmp_path)
    with pytest.raises(DataError, match="has no column 'debt'; it has 'pay'"):
        found.read(found.keys(20)[0])
    with pytest.raises(FileError, match="no such file or folder"):
        open_people(tmp_path / "nothing.parquet", SCHEMA, work=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="has no Parquet file"):
        open_people(tmp_path / "empty", SCHEMA, work=tmp_path)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(FileError, match="cannot be read as Parquet"):
        open_people(tmp_path / "bad.parquet", SCHEMA, work=tmp_path)
    pd.DataFrame(frame[:0]).to_parquet(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="is empty"):
        open_people(tmp_path / "none.parquet", SCHEMA, work=tmp_path)


def test_a_file_that_changes_during_the_run_is_an_error(tmp_path: Path) -> None:
    table(50).to_parquet(tmp_path / "t.parquet")
    found = open_people(tmp_path / "t.parquet", SCHEMA, work=tmp_path)
    table(50, seed=1).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(FileError, match="was changed during the run"):
        found.read(found.keys(20)[1])
