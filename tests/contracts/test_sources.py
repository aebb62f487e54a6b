"""Every source of people against their contract; a new one is tested by a class of three lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.contracts.source import SCHEMA, SourceContract, same, table

from isonomy.errors import DataError, FileError, ParameterError
from isonomy.population import Dialect, PeopleSource, Population, open_people, sources


class TestPopulation(SourceContract):
    named = False

    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        how = {"unknown": options.pop("unknown", "error")}
        return open_people(Population.from_frame(frame, SCHEMA, **how), **options)


class TestPandas(SourceContract):
    named = False

    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        return open_people(frame, SCHEMA, **options)


class TestArrow(SourceContract):
    named = False

    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        return open_people(pa.Table.from_pandas(frame), SCHEMA, **options)


class TestParquet(SourceContract):
    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        folder.mkdir(exist_ok=True)
        frame.to_parquet(folder / "t.parquet", row_group_size=11)
        return open_people(folder / "t.parquet", SCHEMA, **options)


class TestFolder(SourceContract):
    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        (folder / "data" / "more").mkdir(parents=True, exist_ok=True)
        for name, part in (("a", frame[:40]), ("b", frame[40:40]), ("more/c", frame[40:])):
            part.to_parquet(folder / "data" / f"{name}.parquet")
        return open_people(str(folder / "data"), SCHEMA, **options)


class TestHugeRowGroups(SourceContract):
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources, "HUGE", 2)
        monkeypatch.setattr(sources, "COPY_ROWS", 10)

    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        folder.mkdir(exist_ok=True)
        frame.to_parquet(folder / "t.parquet")
        found = open_people(folder / "t.parquet", SCHEMA, work=folder / "work", **options)
        assert isinstance(found, sources._Tables) and isinstance(found.tables[0], sources._CopiedTable)
        return found


class TestCsv(SourceContract):
    """In a dialect in which nothing is as usual."""

    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        folder.mkdir(exist_ok=True)
        frame.to_csv(folder / "t.csv", index=False, sep=";", decimal=",", encoding="utf-16")
        dialect = Dialect(";", "utf-16", ",")
        return open_people(folder / "t.csv", SCHEMA, work=folder / "work", dialect=dialect, **options)


class TestTsvInMemory(SourceContract):
    """Without a folder for a copy."""

    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        folder.mkdir(exist_ok=True)
        frame.to_csv(folder / "t.tsv.gz", index=False, sep="\t")
        return open_people(folder / "t.tsv.gz", SCHEMA, **options)


class TestDask(SourceContract):
    named = False

    def open(self, frame: pd.DataFrame, folder: Path, **options: Any) -> PeopleSource:
        dask_frames = pytest.importorskip("dask.dataframe")
        return open_people(dask_frames.from_pandas(frame, npartitions=3, sort=False), SCHEMA, **options)


def test_the_same_table_in_every_form(tmp_path: Path) -> None:
    """Four forms, one chunk."""
    forms = (TestPandas, TestArrow, TestParquet, TestTsvInMemory)
    chunks = []
    for form in forms:
        source = form().open(table()[:3], tmp_path)
        chunks.append(source.read(source.keys(30)[0]))
    for chunk in chunks[1:]:
        assert np.array_equal(chunk.x, chunks[0].x) and np.array_equal(chunk.rows, chunks[0].rows)


def test_a_source_is_its_own_source() -> None:
    source = open_people(Population.from_frame(table()[:3], SCHEMA))
    assert open_people(source) is source


def test_another_schema_beside_people_who_have_one_is_refused() -> None:
    people = Population.from_frame(table()[:3], SCHEMA)
    source = open_people(people, replace(SCHEMA, description="other words for the same"))
    assert open_people(source, SCHEMA) is source
    for other in (replace(SCHEMA, weight=None), replace(SCHEMA, max_weight=9.0)):
        for known in (people, source):
            with pytest.raises(ParameterError, match="'schema' says something else than the schema 'loans' that these"):
                open_people(known, other)
    with pytest.raises(ParameterError, match="'schema' must be a Schema"):
        open_people(people, "loans.toml")  # type: ignore[arg-type]


def test_a_copy_is_made_once(tmp_path: Path) -> None:
    first = TestCsv().open(table()[:3], tmp_path)
    (copy,) = (tmp_path / "work").iterdir()
    written = copy.stat().st_mtime_ns
    again = TestCsv().open(table()[:3], tmp_path)
    assert [file.stat().st_mtime_ns for file in (tmp_path / "work").iterdir()] == [written]
    assert same(first.read(first.keys(9)[0]), again.read(again.keys(9)[0]))


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be a pandas, Polars or Arrow table\. Got int"):
        open_people(5, SCHEMA)
    with pytest.raises(ParameterError, match="'schema' must be given"):
        open_people(table())
    with pytest.raises(FileError, match="no such file or folder"):
        open_people(tmp_path / "nothing.csv", SCHEMA)
    (tmp_path / "t.csv").write_text("age\n")
    with pytest.raises(ParameterError, match="'encoding' must be one that Python knows"):
        open_people(tmp_path / "t.csv", SCHEMA, dialect=Dialect(encoding="klingon"))
    table()[:9].assign(part="old").drop(3).to_csv(tmp_path / "old.csv", index=False)
    with pytest.raises(DataError, match=r"old\.csv has nobody in its test part"):
        open_people(tmp_path / "old.csv", SCHEMA, split="test", work=tmp_path / "work")


def test_a_partition_that_changes_is_an_error() -> None:
    frames, delayed = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask")
    count = iter(range(9))

    def made() -> pd.DataFrame:
        return table()[:3].assign(age=20 + next(count))

    meta = table()[:0]
    source = open_people(frames.from_delayed([delayed.delayed(made)()], meta=meta, verify_meta=False), SCHEMA)
    with pytest.raises(DataError, match="Partition 0 was computed anew and has other rows"):
        source.read(source.keys(9)[0])
