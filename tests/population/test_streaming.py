"""Files read piece by piece against files read at once."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.csv as pcsv
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.source import SCHEMA as LOANS
from tests.population.strategies import Case, cases, patient

from isonomy.errors import DataError, FileError, ParameterError
from isonomy.population import Feature, Population, Schema, Split, stream

SCHEMA = replace(LOANS, split=None)


def table(n: int = 1000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 99, n),
            "unused": rng.integers(0, 9, n),
            "pay": pd.Series(rng.uniform(-10, 10, n)).mask(rng.random(n) < 0.1),
            "job": rng.choice(["1", "2", "NA", "?"], n),
            "rank": rng.choice(["low", "high"], n),
            "repaid": rng.choice(["no", "yes"], n),
            "w": rng.integers(0, 4, n),
        }
    )


def write(frame: pd.DataFrame, file: Path) -> Path:
    if file.suffix == ".parquet":
        frame.to_parquet(file, row_group_size=300)
    else:
        frame.to_csv(file, index=False, sep="\t" if file.name.startswith("t.tsv") else ",")
    return file


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv"])
def test_a_csv_file_is_opened_once(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dialect and columns are seen from the bytes that are read anyway."""
    file, opened = write(table(), tmp_path / name), []
    for where, call in ((Path, "open"), (gzip, "open"), (pcsv, "open_csv")):
        original = getattr(where, call)

        def counted(source: Any, *rest: Any, original: Any = original, **options: Any) -> Any:
            opened.extend([source] if source == file else [])
            return original(source, *rest, **options)

        monkeypatch.setattr(where, call, counted)
    assert len(Population.from_file(file, SCHEMA)) == 1000
    assert opened == [file]


def test_a_header_of_several_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('\r\n\n"pay\nin ""gold""",age\n1,18\n', encoding="utf-8")
    schema = Schema("s", (Feature('pay\nin "gold"'), Feature("age")))
    assert Population.from_file(tmp_path / "t.csv", schema).x.tolist() == [[1, 18]]


@pytest.mark.parametrize("damage", [lambda packed: packed[:60], lambda packed: packed[:40] + b"\0" * 9 + packed[49:]])
def test_a_damaged_archive_is_an_error(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    file = write(table(), tmp_path / "t.csv.gz")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FileError, match="cannot be read as CSV"):
        Population.from_file(file, SCHEMA)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.csv.gz", "t.tsv"])
@pytest.mark.parametrize(
    "rows", [1, 300, 1000, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (7, 999, 5000))]
)
def test_pieces_make_up_the_whole(tmp_path: Path, name: str, rows: int) -> None:
    n = 40 if rows == 1 else 1000
    frame = table(n)
    file = write(frame, tmp_path / name)
    whole, direct = Population.from_file(file, SCHEMA), Population.from_frame(frame, SCHEMA)
    pieces = list(stream(file, SCHEMA, chunk_rows=rows))
    assert [len(piece) for piece in pieces] == [min(rows, n - start) for start in range(0, n, rows)]
    for people in (whole, direct):
        assert np.array_equal(np.concatenate([piece.x for piece in pieces]), people.x)
        assert np.array_equal(np.concatenate([piece.y for piece in pieces]), people.y)  # type: ignore[arg-type]
        assert np.array_equal(np.concatenate([piece.weights for piece in pieces]), people.weights)
        assert np.array_equal(np.concatenate([piece.rows for piece in pieces]), people.rows)
    if rows >= 300:
        sides = np.concatenate([piece.train.rows for piece in pieces])
        assert np.array_equal(sides, whole.train.rows)
    assert "unused" not in whole.frame


@patient
@given(cases(most_rows=8), st.integers(1, 4))
def test_any_table_survives_parquet(tmp_path_factory: pytest.TempPathFactory, case: Case, rows: int) -> None:
    expected = Population.from_frame(case.frame, case.schema)
    file = tmp_path_factory.mktemp("files") / "t.parquet"
    try:
        case.frame.reset_index(drop=True).to_parquet(file)
    except Exception:  # a column of mixed types has no Parquet type
        return
    pieces = list(stream(file, case.schema, chunk_rows=rows))
    assert np.array_equal(np.concatenate([piece.x for piece in pieces]), expected.x)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_errors_name_the_row_of_the_file(tmp_path: Path, name: str) -> None:
    frame = table()
    frame.loc[777, "age"] = 17
    file = write(frame, tmp_path / name)
    for read in (lambda: list(stream(file, SCHEMA, chunk_rows=100)), lambda: Population.from_file(file, SCHEMA)):
        with pytest.raises(DataError, match=r"Column 'age', row 777: 17(\.0)? is not a whole number from 18 to 98"):
            read()
    pieces = list(stream(file, SCHEMA, chunk_rows=100, unknown="exclude"))
    assert [piece.excluded for piece in pieces] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert 777 not in np.concatenate([piece.rows for piece in pieces])


def test_cells_of_csv_files_are_read_by_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(
        'job,age,pay,rank,w\n1.0, 18 ,1e1,low,1\n 2,19.0,NA,high,2\nNA,20,,low,1\n,21,+3,low,1\n"?",22,-.5,high,1\n'
    )
    people = Population.from_file(file, SCHEMA)
    words = people.schema.decode(people.x)
    assert words["job"].tolist() == ["1", "2", "NA", "missing", "missing"]
    assert words["age"].tolist() == [18, 19, 20, 21, 22]
    assert words["pay"].fillna(99).tolist() == [10, 99, 99, 3, -0.5]
    assert people.y is None and people.weights.tolist() == [1, 2, 1, 1, 1]
    file.write_text("job,age,pay,rank,w\n1,18,3,low,1\n1,old,3,low,1\n1,20,3,low,1\n")
    with pytest.raises(DataError, match=r"Column 'age', row 1: 'old' is not a whole number"):
        Population.from_file(file, SCHEMA)
    kept = Population.from_file(file, SCHEMA, unknown="exclude")
    assert kept.rows.tolist() == [0, 2] and kept.excluded == 1


def test_pieces_without_anybody_are_counted_elsewhere(tmp_path: Path) -> None:
    frame = table(100)
    frame.loc[:29, "age"], frame.loc[50:59, "age"], frame.loc[90:, "age"] = 3, 3, 3
    file = write(frame, tmp_path / "t.parquet")
    pieces = list(stream(file, SCHEMA, chunk_rows=10, unknown="exclude"))
    assert sum(piece.excluded for piece in pieces) == 50 and sum(map(len, pieces)) == 50
    assert [piece.excluded for piece in pieces] == [30, 0, 10, 0, 10]
    nobody = write(frame.assign(age=3), tmp_path / "u.parquet")
    with pytest.raises(DataError, match=r"Not one row fits the schema\. Column 'age', row 0: 3 is not"):
        list(stream(nobody, SCHEMA, chunk_rows=10, unknown="exclude"))
    weightless = write(table(100).assign(w=0), tmp_path / "v.parquet")
    with pytest.raises(DataError, match="all sampling weights are zero"):
        list(stream(weightless, SCHEMA, chunk_rows=10))
    zeros_first = write(table(100).assign(w=(np.arange(100) > 20).astype(int)), tmp_path / "x.parquet")
    assert sum(map(len, stream(zeros_first, SCHEMA, chunk_rows=10))) == 100


def test_a_split_column_is_read(tmp_path: Path) -> None:
    schema = Schema("s", SCHEMA.features, split=Split("part", "a", "b"))
    file = write(table(50).assign(part=["a", "b"] * 25), tmp_path / "t.csv")
    assert [len(piece.test) for piece in stream(file, schema, chunk_rows=10)] == [5] * 5


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    good = write(table(50), tmp_path / "t.parquet").read_bytes()
    for name, content, error, message in [
        ("none.parquet", None, FileError, "there is no such file"),
        ("t.xlsx", b"x", FileError, r"its name must end in one of \.parquet"),
        ("u.parquet", good[:200], FileError, "cannot be read as Parquet"),
        ("u.parquet", b"", FileError, "cannot be read as Parquet"),
        ("t.csv", b"", FileError, "cannot be read as CSV: Empty CSV file"),
        ("t.csv", b"age,pay,job,rank,w\n", DataError, "is empty: it has no row"),
        ("t.csv", b"age,pay,job,rank\n18,1,1,low\n", DataError, "has no column 'w'; it has 'age', 'pay'"),
        ("t.csv", b"age,pay,job,rank,w,w\n18,1,1,low,1,1\n", DataError, "two columns called 'w'"),
        ("t.csv", b"age,pay,job,rank,w\n18,1,1,low,1\n18,1\n", FileError, "cannot be read as CSV: .*Row #3"),
        ("t.csv", b"age,pay,job,rank,w\n18,1,\xff\xfe,low,1\n", FileError, "cannot be read as CSV: .*UTF8"),
    ]:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(error, match=message) as caught:
            Population.from_file(tmp_path / name, SCHEMA)
        assert "\n" not in str(caught.value)
    with pytest.raises(ParameterError, match="'chunk_rows' must be a whole number >= 1"):
        stream(tmp_path / "t.parquet", SCHEMA, chunk_rows=0)


_MEASURE = """
import re, sys
from pathlib import Path
from isonomy.population import Population, Schema, stream
schema = Schema.from_toml(sys.argv[1])
if sys.argv[3] == "stream":
    count = sum(len(people) for people in stream(sys.argv[2], schema, chunk_rows=20_000))
else:
    count = len(Population.from_file(sys.argv[2], schema))
print(count, re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="peak memory is read from /proc")
def test_a_million_rows_stream_in_bounded_memory(tmp_path: Path) -> None:
    """Beside the pieces, the CSV reader holds 32 blocks of 1 MB that it reads ahead, more than a short file has."""
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())

    def peak(rows: int, how: str) -> float:
        """The most memory, in MB, that a process of its own needed."""
        command = [sys.executable, "-c", _MEASURE, str(tmp_path / "schema.toml"), str(files[rows]), how]
        count, kilobytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert int(count) == rows
        return float(kilobytes) / 1024

    files = {rows: write(table(rows), tmp_path / f"{rows}.csv") for rows in (20_000, 1_000_000)}
    short, long, whole = peak(20_000, "stream"), peak(1_000_000, "stream"), peak(1_000_000, "whole")
    assert long - short < 110, (short, long, whole)
    assert whole - short > 180, (short, long, whole)  # the measure does see a table that is read at once
