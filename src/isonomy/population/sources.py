"""Where people come from: a population, a table in memory, files of any size and dialect, a Dask data frame.

:func:`open_people` gives any of them as a :class:`PeopleSource`: chunks that are known by keys and can be read in any
order, anywhere. Of what is larger than memory one chunk is in memory at a time, and the row groups or the partition
that it lies in. A file without a way into its middle (CSV, or a Parquet file with huge row groups) is copied once,
piece by piece, to a Parquet file of fair coordinates.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from pathlib import Path, PurePath
from typing import Any, Protocol, Self, runtime_checkable

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from isonomy.errors import DataError, FileError, ParameterError, first_line
from isonomy.files import atomic, file_hash
from isonomy.given import whole
from isonomy.population.domain import FloatArray
from isonomy.population.population import IntArray, Population, stream
from isonomy.population.schema import Schema, Unknown
from isonomy.population.selection import Selection, SplitName
from isonomy.population.tables import (
    CELLS,
    PARQUET,
    USUAL,
    Dialect,
    column_meanings,
    open_parquet,
    present_columns,
)

HUGE = 2**21
"""Row groups with more rows than this are not held in memory."""

COPY_ROWS = 2**14
"""Rows that are copied at a time."""

Named = tuple[tuple[str, str], ...]
"""Files by name, each with its SHA-256."""

_COPY = ("x", "y", "weight", "row")
_EXCLUDED, _ROWS = b"isonomy.excluded", b"isonomy.rows"


@dataclass(frozen=True)
class ChunkKey:
    """Rows ``start`` to ``stop`` of one file or partition, the ``index``-th chunk: enough to read them again."""

    index: int
    file: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def place(self) -> str:
        """Return the words for the place of the rows in an error."""
        name = PurePath(self.file)
        return f"File {name.name}" if name.suffix else self.file or "The table"


@dataclass(frozen=True, eq=False)
class Chunk:
    """The individuals of some rows in fair coordinates, where they stood, and how many rows were left out.

    ``y`` is None where there is no label column.
    """

    key: ChunkKey
    x: FloatArray
    y: IntArray | FloatArray | None
    weights: FloatArray
    rows: IntArray
    excluded: int

    def __len__(self) -> int:
        return len(self.x)


@runtime_checkable
class PeopleSource(Protocol):
    """Individuals by chunks; ``tests/contracts/source.py`` checks what is promised here.

    Chunks cut in any way hold the same people, and every row that does not fit the schema is counted in one of them.
    A source can be pickled, and the copy reads the same.
    """

    @property
    def schema(self) -> Schema:
        """Return the meaning of the columns."""
        ...

    @property
    def files(self) -> Named:
        """Return the files that the caller named."""
        ...

    def keys(self, rows: int) -> Sequence[ChunkKey]:
        """Return chunks of at most ``rows`` rows, in order; none has rows of two files."""
        ...

    def read(self, key: ChunkKey) -> Chunk:
        """Read a chunk: the same arrays for the same key."""
        ...

    def selection(self, people: int, excluded: int) -> Selection:
        """Return the selection, once all chunks were read and ``people`` and ``excluded`` rows counted."""
        ...

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that the arrays depend on."""
        ...


def chunk_keys(tables: Sequence[tuple[str, int]], rows: int) -> list[ChunkKey]:
    """Return keys for tables by name and number of rows, each cut by itself."""
    rows = whole("rows", rows, 1)
    cuts = [(name, start, min(start + rows, n)) for name, n in tables for start in range(0, n, rows)]
    return [ChunkKey(i, *each) for i, each in enumerate(cuts)]


def open_people(
    people: Any,
    schema: Schema | None = None,
    *,
    dialect: Dialect = USUAL,
    unknown: Unknown = "error",
    split: SplitName = "all",
    work: str | os.PathLike[str] | None = None,
    table_limit: int = CELLS,
) -> PeopleSource:
    """Open the individuals of a table, wherever it is.

    ``people`` is a :class:`Population`; a pandas, Polars or Arrow table; the path of a Parquet file, of a folder of
    them (in the order of their names), or of a CSV file in a ``dialect``; or a Dask data frame. All but the first need
    a ``schema``; beside those who have one, another is refused. ``split`` takes one part of it, and
    ``unknown="exclude"`` leaves out and counts rows that do not fit. A file that has no way into its middle is copied
    to the folder ``work``, once; without one it is read into memory. Nothing is that has more cells at once than
    ``table_limit``.
    """
    if isinstance(people, PeopleSource | Population) and people.schema is not None:
        people.schema.refuse_other(schema)
    if isinstance(people, PeopleSource):
        return people
    if isinstance(people, Population):
        return InMemory.of(people, people.schema, split)
    if schema is None:
        raise ParameterError("'schema' must be given for people who are not a Population.")
    reading = _ReadOptions(schema, unknown, split, dialect, whole("table_limit", table_limit, 1))
    if hasattr(people, "get_partition"):
        return _Tables.of(reading, _partitions(people, reading), "(a Dask data frame)")
    if not isinstance(people, str | os.PathLike):
        return InMemory.of(Population.from_frame(people, reading.columns, unknown=unknown), schema, split)
    path = Path(people).resolve()
    if path.is_dir():
        return _open_folder(path, reading)
    if not path.is_file():
        raise FileError(f"Table {path} cannot be read: there is no such file or folder.")
    if path.suffix.lower() in PARQUET:
        table = _ParquetTable.open(path, reading)
        fits = table.largest <= reading.table_limit
        if fits and all(stop - start <= HUGE for start, stop in pairwise(table.groups)):
            return _Tables.of(reading, (table,), path, path.parent)
    named = path.name, file_hash(path)
    if work is None:
        limits: Any = {"dialect": dialect, "table_limit": reading.table_limit}
        population = Population.from_file(path, reading.columns, unknown=unknown, **limits)
        return InMemory.of(population, schema, split, (named,))
    return _open_copy(path, reading, named, Path(work).resolve())


def table_files(path: Path) -> list[Path]:
    """List the files of a table in the order of its rows: the Parquet files of a folder, or the file itself."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in PARQUET)
    if not files:
        raise FileError(f"The folder {path} has no Parquet file: their names end in {' or '.join(PARQUET)}.")
    return files


def _open_folder(path: Path, reading: _ReadOptions) -> _Tables:
    """Open the people of all Parquet files of a folder, each read by its row groups."""
    tables = tuple(_ParquetTable.open(file, reading) for file in table_files(path))
    for table in tables:
        if table.largest > reading.table_limit:
            raise FileError(
                f"Table {table.path} has a row group of {table.largest:,} cells in the columns that are read. The "
                f"limit is {reading.table_limit:,}: 'table_limit' (--table-limit) raises it; or write smaller groups."
            )
    return _Tables.of(reading, tables, path, path)


@dataclass(frozen=True, eq=False)
class InMemory:
    """A population; rows that were left out of it are counted with its first chunk."""

    people: Population
    files: Named = ()

    @classmethod
    def of(cls, people: Population, schema: Schema, split: SplitName, files: Named = ()) -> Self:
        """Return one side of a population, whose columns mean what the schema says."""
        side = people if split == "all" else people.train if split == "train" else people.test
        return cls(replace(side, schema=schema), files)

    @property
    def schema(self) -> Schema:
        """Return the meaning of the columns."""
        return self.people.schema

    def keys(self, rows: int) -> list[ChunkKey]:
        """Cut the population into slices."""
        return chunk_keys([("", len(self.people))], rows)

    def read(self, key: ChunkKey) -> Chunk:
        """Return views of the arrays."""
        part, people = slice(key.start, key.stop), self.people
        y = None if people.y is None else people.y[part]
        excluded = 0 if key.index else people.excluded
        return Chunk(key, people.x[part], y, people.weights[part], people.rows[part], excluded)

    def selection(self, people: int, excluded: int) -> Selection:
        """Return the population's own selection."""
        return self.people.selection

    def fingerprint(self) -> str:
        """Return the SHA-256 of the schema, coordinates, weights and labels."""
        people = self.people
        digest = hashlib.sha256(people.schema.hash().encode())
        for array in (people.x, people.weights) if people.y is None else (people.x, people.weights, people.y):
            digest.update(array.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class _ReadOptions:
    """How the rows of a table become people."""

    schema: Schema
    unknown: Unknown = "error"
    split: SplitName = "all"
    dialect: Dialect = USUAL
    table_limit: int = CELLS

    @cached_property
    def columns(self) -> Schema:
        """Return the schema of the columns to read: with the split if it is needed."""
        return replace(self.schema, split=None) if self.split == "all" else self.schema

    def chunk(self, key: ChunkKey, frame: pd.DataFrame, first_row: int) -> Chunk:
        """Return the people of some rows of a table whose first row has the number ``first_row``."""
        frame, first_row = frame.set_axis(pd.RangeIndex(key.start, key.stop)), first_row + key.start
        try:
            people = Population.from_piece(
                frame, self.columns, domain="unbounded", unknown=self.unknown, first_row=first_row
            )
        except DataError as error:
            raise DataError(f"{key.place}: {error}") from None
        side = people.side(self.split)
        y = None if people.y is None else people.y[side]
        return Chunk(key, people.x[side], y, people.weights[side], people.rows[side], people.excluded)

    def hash(self, *content: object) -> str:
        """Return the SHA-256 of some content read in this way."""
        how = (self.schema.hash(), self.unknown, self.split, self.dialect)
        return hashlib.sha256(repr((how, content)).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class _Tables:
    """Tables one after the other, ``rows`` in all: a :class:`PeopleSource`.

    Each table has a name, rows, the SHA-256 of its content, and chunks.
    """

    reading: _ReadOptions
    tables: tuple[_Table, ...]
    rows: int
    files: Named = ()

    @classmethod
    def of(cls, reading: _ReadOptions, tables: Sequence[_Table], name: object, root: Path | None = None) -> Self:
        """Join tables of which one at least has a row; files are named by their place below ``root``."""
        rows = sum(table.rows for table in tables)
        if not rows:
            raise DataError(f"Table {name} is empty: it has no row.")
        files = [] if root is None else [(Path(each.name).relative_to(root).as_posix(), each.sha256) for each in tables]
        return cls(reading, tuple(tables), rows, tuple(files))

    @property
    def schema(self) -> Schema:
        return self.reading.schema

    def keys(self, rows: int) -> list[ChunkKey]:
        return chunk_keys([(table.name, table.rows) for table in self.tables], rows)

    def read(self, key: ChunkKey) -> Chunk:
        first_row, table = self._places[key.file]
        return table.chunk(key, self.reading, first_row)

    def selection(self, people: int, excluded: int) -> Selection:
        return Selection(people, people, self.rows, excluded, self.reading.split)

    def fingerprint(self) -> str:
        return self.reading.hash(*((table.sha256, table.rows) for table in self.tables))

    @cached_property
    def _places(self) -> dict[str, tuple[int, _Table]]:
        ends = accumulate(table.rows for table in self.tables)
        return {table.name: (end - table.rows, table) for table, end in zip(self.tables, ends, strict=True)}


@dataclass(frozen=True, kw_only=True)
class _ParquetTable:
    """A Parquet file, read by its row groups, of which ``groups`` has the first rows and at the end their number;
    ``largest`` is how many cells one has at most, in the columns that are read."""

    name: str
    rows: int
    sha256: str
    path: Path
    groups: tuple[int, ...]
    size: int
    changed: int  # when the file was last written, in nanoseconds
    largest: int = 0

    @classmethod
    def open(cls, path: Path, reading: _ReadOptions, **named: Any) -> Self:
        """Open a file as it is now, under its own name and hash unless it is ``named`` otherwise."""
        with _open_checked(path, reading.table_limit) as file:
            parts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        groups, about = tuple(accumulate(parts, initial=0)), path.stat()
        largest = max(parts, default=0) * len(column_meanings(reading.columns))
        named = named or {"name": str(path), "sha256": file_hash(path), "largest": largest}
        return cls(rows=groups[-1], path=path, groups=groups, size=about.st_size, changed=about.st_mtime_ns, **named)

    def chunk(self, key: ChunkKey, reading: _ReadOptions, first_row: int) -> Chunk:
        with _open_checked(self.path, reading.table_limit) as file:
            columns = present_columns(file.schema_arrow.names, reading.columns, self.name)
        rows = self.arrow(key.start, key.stop, columns)
        return reading.chunk(key, pd.DataFrame({name: rows[name].to_pandas() for name in columns}), first_row)

    def arrow(self, start: int, stop: int, columns: tuple[str, ...]) -> pa.Table:
        """Read some rows, from the row groups that hold them."""
        pieces = []
        for group, (first, end) in enumerate(pairwise(self.groups)):
            begin = max(start, first)
            if begin < min(stop, end):
                pieces.append(_row_group(self, group, columns).slice(begin - first, min(stop, end) - begin))
        return pa.concat_tables(pieces)


@lru_cache(maxsize=2)
def _row_group(table: _ParquetTable, group: int, columns: tuple[str, ...]) -> pa.Table:
    """Read one row group, cached for the chunks that share it."""
    path, about = table.path, table.path.stat()
    if (about.st_size, about.st_mtime_ns) != (table.size, table.changed):
        raise FileError(f"Table {path} was changed during the run: start it again.")
    with _open_checked(path) as file:
        return file.read_row_group(group, columns=list(columns), use_threads=False)


def _open_checked(file: Path, limit: float = math.inf) -> Any:
    """Open a Parquet file within a limit; its pages are checked as they are read."""
    try:
        return open_parquet(file, limit, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"Table {file} cannot be read as Parquet: {first_line(error)}.") from None


@dataclass(frozen=True, kw_only=True)
class _CopiedTable(_ParquetTable):
    """The people of another file in fair coordinates; rows that were left out are counted with the first of them."""

    excluded: int

    def chunk(self, key: ChunkKey, reading: _ReadOptions, first_row: int) -> Chunk:
        rows = self.arrow(key.start, key.stop, _COPY)
        x = rows["x"].combine_chunks().flatten().to_numpy().reshape(rows.num_rows, -1)
        y = None if rows["y"].null_count else rows["y"].to_numpy()
        excluded = 0 if key.start else self.excluded
        return Chunk(key, x, y, rows["weight"].to_numpy(), rows["row"].to_numpy(), excluded)


def _open_copy(path: Path, reading: _ReadOptions, named: tuple[str, str], work: Path) -> _Tables:
    """Open the people of a file from a copy in the folder ``work``, which is made if it is not there."""
    name, digest = named
    target = work / f"people-{reading.hash(3, digest)[:32]}.parquet"
    if not target.exists():
        _write_copy(path, reading, target)
    with _open_checked(target) as file:
        about = file.metadata.metadata
    copy = _CopiedTable.open(target, reading, name=name, sha256=digest, excluded=int(about[_EXCLUDED]))
    if not copy.rows:
        raise DataError(f"Table {path} has nobody in its {reading.split} part.")
    return _Tables(reading, (copy,), int(about[_ROWS]), (named,))


def _write_copy(path: Path, reading: _ReadOptions, target: Path) -> None:
    rows_at_once = min(COPY_ROWS, max(1, reading.table_limit // len(column_meanings(reading.columns))))
    pieces = stream(
        path, reading.columns, chunk_rows=rows_at_once, domain="unbounded", unknown=reading.unknown,
        dialect=reading.dialect, table_limit=reading.table_limit,
    )  # fmt: skip
    width, label = reading.schema.width, reading.columns.label
    outcome = pa.float64() if label is None or label.regression else pa.int64()
    kinds = (pa.list_(pa.float64(), width), outcome, pa.float64(), pa.int64())
    columns = pa.schema(list(zip(_COPY, kinds, strict=True)))
    excluded = rows = 0
    with atomic(target) as partial, pq.ParquetWriter(partial, columns, write_page_checksum=True) as writer:
        for people in pieces:
            excluded, rows = excluded + people.excluded, rows + len(people) + people.excluded
            side = people.side(reading.split)
            x = pa.FixedSizeListArray.from_arrays(pa.array(people.x[side].ravel()), width)
            y = pa.nulls(len(x), outcome) if people.y is None else pa.array(people.y[side])
            rest = pa.array(people.weights[side]), pa.array(people.rows[side])
            writer.write_table(pa.table([x, y, *rest], schema=columns))
        writer.add_key_value_metadata({_EXCLUDED: str(excluded), _ROWS: str(rows)})


@dataclass(frozen=True)
class _Partition:
    """A partition of a Dask data frame, computed where it is read."""

    name: str
    rows: int
    sha256: str
    part: Any = field(compare=False, repr=False)

    def chunk(self, key: ChunkKey, reading: _ReadOptions, first_row: int) -> Chunk:
        return reading.chunk(key, _compute(self).iloc[key.start : key.stop], first_row)


@lru_cache(maxsize=1)
def _compute(partition: _Partition) -> pd.DataFrame:
    """Compute a partition, cached for the chunks that share it."""
    frame: pd.DataFrame = partition.part.compute(scheduler="synchronous")
    if _content(frame) != (partition.rows, partition.sha256):
        raise DataError(f"{partition.name} was computed anew and has other rows: a collection must stay the same.")
    return frame


def _partitions(collection: Any, reading: _ReadOptions) -> tuple[_Partition, ...]:
    """Return the partitions of a Dask data frame: one pass, where Dask works, counts and hashes their rows."""
    import dask

    columns = present_columns(map(str, collection.columns), reading.columns, "(a Dask data frame)")
    collection = collection[list(columns)]
    parts = [collection.get_partition(i) for i in range(collection.npartitions)]
    compute: Any = dask.compute  # type: ignore[attr-defined]
    contents = compute(*(dask.delayed(_content)(part) for part in parts))  # type: ignore[attr-defined]
    each = enumerate(zip(contents, parts, strict=True))
    return tuple(_Partition(f"Partition {i}", rows, digest, part) for i, ((rows, digest), part) in each)


def _content(frame: pd.DataFrame) -> tuple[int, str]:
    """Return the number of rows, and a hash of all cells."""
    digest = hashlib.sha256()
    for name in frame.columns:
        digest.update(f"{name} ".encode())
        digest.update(pd.util.hash_pandas_object(frame[name], index=False).to_numpy().tobytes())
    return len(frame), digest.hexdigest()


_Table = _ParquetTable | _Partition
