"""Small files that declare, or unpack to, large tables are refused before they take memory."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isonomy.auditing.guess import read_unknown
from isonomy.auditing.inputs import read_table
from isonomy.auditing.plan import Plan, Roles
from isonomy.auditing.proposal import propose
from isonomy.cli import main
from isonomy.errors import DataError, FileError
from isonomy.networks import Network
from isonomy.population import Feature, Population, Schema, open_people, stream
from isonomy.population.tables import CELLS, COLUMN, TEXT
from isonomy.training.onnx_file import write_onnx

NAMES = [f"c{i}" for i in range(20)]
SCHEMA = Schema("wide", tuple(Feature(name, low=0.0, high=1.0) for name in NAMES))
TWO = Schema("two", tuple(Feature(name, low=0.0, high=1.0) for name in NAMES[:2]))
ADVICE = "The limit is {:,}: 'table_limit' (--table-limit) raises it"


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet: four row groups of a million rows of twenty columns, 84 million cells of which none takes a bit."""
    file = tmp_path_factory.mktemp("declared") / "people.parquet"
    group = pa.table(dict.fromkeys(NAMES, pa.array(np.zeros(2**20, dtype=np.int8))))
    with pq.ParquetWriter(file, group.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(group)
    assert file.stat().st_size < 1_000_000
    return file


def refused(call: Callable[[], Any], *words: str) -> None:
    """It is refused with these words, and on the way takes less than 100 MB."""
    tracemalloc.start()
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(FileError) as caught:
        call()
    peak = tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory() - before
    tracemalloc.stop()
    assert peak < 1e8
    for each in words:
        assert each in str(caught.value), caught.value


def test_parquet_is_refused_by_what_it_declares(declared: Path) -> None:
    words = f"Table {declared} declares 4,194,304 rows, of 20 columns that are read: 83,886,080 cells"
    advice = f"{ADVICE.format(CELLS)}, and an audit with 'engine' (--engine local) reads the table piece by piece."
    refused(lambda: Population.from_file(declared, SCHEMA), words, advice)
    refused(lambda: read_table(Plan(data=str(declared)), str(declared), SCHEMA), words)
    refused(lambda: read_unknown(declared), words)
    refused(lambda: next(stream(declared, SCHEMA, chunk_rows=2**22)), words)


def test_what_is_not_read_does_not_count(declared: Path) -> None:
    people = Population.from_file(declared, TWO)
    assert len(people) == 2**22


def test_a_large_table_is_read_piece_by_piece(declared: Path, tmp_path: Path) -> None:
    """By row groups, or through a copy where a group itself is too large; without a place for one it is refused."""
    source = open_people(declared, SCHEMA)
    keys = source.keys(4096)
    assert sum(map(len, keys)) == 2**22 and len(source.read(keys[-1])) == 4096
    assert len(next(stream(declared, SCHEMA, chunk_rows=1000))) == 1000
    small = tmp_path / "small.parquet"
    pd.DataFrame(0.5, index=range(3000), columns=NAMES).to_parquet(small, index=False)
    limit = 20 * COLUMN
    copied = open_people(small, SCHEMA, table_limit=limit, work=tmp_path / "work")
    assert sum(len(copied.read(key)) for key in copied.keys(512)) == 3000
    refused(lambda: open_people(small, SCHEMA, table_limit=limit), "declares 3,000 rows", ADVICE.format(limit))
    (tmp_path / "folder").mkdir()
    small.rename(tmp_path / "folder" / "small.parquet")
    refused(lambda: open_people(tmp_path / "folder", SCHEMA, table_limit=limit), "60,000 cells", ADVICE.format(limit))


def test_the_limit_can_be_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In Python, in a plan and its file, and on the command line, which name it alike."""
    file, limit = tmp_path / "people.csv", 20 * COLUMN
    pd.DataFrame(0.5, index=range(3000), columns=NAMES).to_csv(file, index=False)
    refused(lambda: Population.from_file(file, SCHEMA, table_limit=limit), ADVICE.format(limit))
    assert len(Population.from_file(file, SCHEMA, table_limit=60_000)) == 3000
    plan = Plan(data=str(file), table_limit=limit)
    assert f"--table-limit {limit}" in plan.command() and Plan().table_limit == CELLS
    refused(lambda: read_table(plan, str(file), SCHEMA), ADVICE.format(limit))
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    (tmp_path / "audit.toml").write_text(f'data = "people.csv"\nschema = "schema.toml"\ntable_limit = {limit}\n')
    assert main(["audit", str(tmp_path / "audit.toml")]) == 2
    assert ADVICE.format(limit) in capsys.readouterr().err
    assert main(["audit", str(tmp_path / "audit.toml"), "--table-limit", "60000"]) == 2
    assert "'model' must be given" in capsys.readouterr().err, "the table was read"
    for words in (["shift", str(file), str(file), "--schema", str(tmp_path / "schema.toml")], ["init", str(file), "x"]):
        (tmp_path / "x").touch()
        words = [str(tmp_path / "x") if word == "x" else word for word in words]
        assert main([*words, "--table-limit", str(limit)]) == 2
        assert ADVICE.format(limit) in capsys.readouterr().err


def test_init_keeps_a_limit_that_was_given(tmp_path: Path) -> None:
    table, model = tmp_path / "people.csv", tmp_path / "model.onnx"
    pd.DataFrame({"a": np.linspace(0, 1, 50), "b": np.linspace(1, 0, 50)}).to_csv(table, index=False)
    write_onnx(Network.from_layers([np.ones((2, 2))], [np.ones(2)]), model)
    found = propose(table, model, Roles(), tmp_path, 100_000)
    assert "\ntable_limit = 100000  # as given\n" in found.audit
    assert "table_limit" not in propose(table, model, Roles(), tmp_path).audit


def test_csv_is_refused_as_it_unpacks(tmp_path: Path) -> None:
    file, row = tmp_path / "people.csv.gz", b"0," * 19 + b"0\n"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(",".join(NAMES).encode() + b"\n")
        for _ in range(50):
            packed.write(row * 10_000)
    assert file.stat().st_size < 1_000_000
    limit = 1_000_000
    refused(lambda: Population.from_file(file, SCHEMA, table_limit=limit), "rows and more, of 20", ADVICE.format(limit))
    refused(lambda: read_unknown(file, limit), "characters and more", ADVICE.format(limit))
    assert sum(map(len, stream(file, SCHEMA, chunk_rows=10_000, table_limit=limit))) == 500_000


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet"])
def test_many_columns_are_refused_before_they_are_looked_at(tmp_path: Path, kind: str) -> None:
    names, file, enough = [f"c{i}" for i in range(1000)], tmp_path / f"people.{kind}", 1000 * COLUMN
    separator = "\t" if kind == "tsv" else ","
    if kind == "parquet":
        pq.write_table(pa.table(dict.fromkeys(names, pa.array([0], pa.int8()))), file)
    else:
        text = separator.join(names) + "\n" + separator.join("0" for _ in names) + "\n"
        file.write_bytes(gzip.compress(text.encode()) if kind == "csv.gz" else text.encode())
    words = f"Table {file} declares 1,000 columns, each of which counts as {COLUMN:,} cells or more", f"{enough - 1:,}"
    refused(lambda: Population.from_file(file, TWO, table_limit=enough - 1), *words)
    refused(lambda: read_unknown(file, enough - 1), *words)
    refused(lambda: open_people(file, TWO, table_limit=enough - 1), *words)
    assert len(Population.from_file(file, TWO, table_limit=enough)) == 1


def test_a_million_columns_are_not_counted_one_by_one(tmp_path: Path) -> None:
    """The description of a Parquet file is looked at only where it is of a reasonable length."""
    file = tmp_path / "people.parquet"
    file.write_bytes(b"PAR1" + bytes(16) + (200_000_000).to_bytes(4, "little") + b"PAR1")
    refused(lambda: Population.from_file(file, TWO), "declares columns and row groups in a description of 200,000,000")
    line = tmp_path / "people.csv"
    line.write_bytes(b"c" * (2**24 + 1))
    refused(lambda: Population.from_file(line, TWO), "its header is longer than 16,777,216 characters")


def test_a_text_that_stands_for_many_is_measured_before_it_is_written_out(tmp_path: Path) -> None:
    """One long text in a dictionary, and a hundred thousand rows that name it: 100 GB in a file of a megabyte."""
    file, long = tmp_path / "people.parquet", "x" * 1_000_000
    schema = Schema("texts", (Feature("a", "categorical", categories=("y", "z")),))
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, dtype=np.int32)), pa.array([long]))
    pq.write_table(pa.table({"a": texts}), file, compression="zstd", store_schema=False)
    assert file.stat().st_size < 100_000
    for read in (Population.from_file, lambda *given: next(stream(*given))):
        refused(lambda read=read: read(file, schema), "bytes of text in 65,536 rows", ADVICE.format(CELLS))
    assert 65_536 * len(long) > TEXT * CELLS


def test_texts_of_parquet_files_are_what_they_were(tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    cells = ["y", None, "z", "y", "zz"] * 40
    schema = Schema("texts", (Feature("a", "categorical", categories=("y", "z")), Feature("b", low=0.0, high=1.0)))
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        pq.write_table(pa.table({"a": pa.array(cells, pa.string()).cast(kind), "b": [0.5] * 200}), file)
        people = Population.from_file(file, schema, unknown="exclude")
        assert people.frame["a"].tolist() == [cell for cell in cells if cell in ("y", "z")] and people.excluded == 80


def test_a_long_list_of_columns_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(",".join(f"c{i}" for i in range(2, 1002)) + "\n" + ",".join("0" for _ in range(1000)) + "\n")
    with pytest.raises(DataError, match=r"no column 'c0'; it has 'c2', .* 'c41' and 960 others"):
        Population.from_file(file, TWO)
