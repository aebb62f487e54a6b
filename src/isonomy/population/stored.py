"""Sources larger than memory: Parquet files and Dask partitions, read from their middle, and copies of other files.

One chunk is in memory at a time, and the row groups or the partition that it lies in. A file without a way into its
middle (CSV, or a Parquet file with huge row groups) is copied once, piece by piece, to a Parquet file of fair
coordinates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from isonomy.errors import DataError, FileError
from isonomy.files import atomic, file_hash
from isonomy.population.chunks import Chunk, ChunkKey, Named, cut
from isonomy.population.encoding import NoRowFitsError
from isonomy.population.population import Population
from isonomy.population.schema import Schema, Unknown
from isonomy.population.selection import Selection, SplitName
from isonomy.population.tables import PARQUET, USUAL, Dialect, column_meanings, present_columns

HUGE = 2**21
"""Row groups with more rows than this are not held in memory."""

_COPY = ("x", "y", "weight", "row")
_EXCLUDED, _ROWS = b"isonomy.excluded", b"isonomy.rows"


@dataclass(frozen=True)
class ReadOptions:
    """How the rows of a table become people."""

    schema: Schema
    unknown: Unknown = "error"
    split: SplitName = "all"
    labels: bool = True
    dialect: Dialect = USUAL

    @cached_property
    def columns(self) -> Schema:
        """The schema of what is read: the label only where it is asked for, the split where it is needed."""
        label, split = self.schema.label if self.labels else None, None if self.split == "all" else self.schema.split
        return replace(self.schema, label=label, split=split)

    def present(self, names: Iterable[str], table: str) -> tuple[str, ...]:
        """Those of a table's columns that are read."""
        return tuple(present_columns(names, column_meanings(self.columns), self.columns, table))

    def chunk(self, key: ChunkKey, frame: pd.DataFrame, first_row: int) -> Chunk:
        """The people of some rows of a table whose first row has the number ``first_row``."""
        label, columns = self.columns.label, self.columns
        frame = frame.set_axis(pd.RangeIndex(key.start, key.stop))
        how: dict[str, Any] = {"domain": "unbounded", "unknown": self.unknown, "first_row": first_row + key.start}
        try:
            people = Population.from_piece(frame, columns, **how)
        except NoRowFitsError:
            none = np.zeros(0, dtype=np.int64)
            y = None if label is None or label.column not in frame else none.astype(float if label.regression else int)
            return Chunk(key, np.zeros((0, columns.width)), y, np.zeros(0), none, len(frame))
        except DataError as error:
            raise DataError(f"{key.place}: {error}") from None
        some = people.side(self.split)
        y = None if people.y is None else people.y[some]
        return Chunk(key, people.x[some], y, people.weights[some], people.rows[some], people.excluded)

    def hash(self, *content: object) -> str:
        """Of some content read in this way."""
        how = (self.schema.hash(), self.unknown, self.split, self.labels, self.dialect)
        return hashlib.sha256(repr((how, content)).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables one after the other, ``rows`` in all; each has a name, rows, the SHA-256 of its content, and chunks."""

    reading: ReadOptions
    tables: tuple[Table, ...]
    rows: int
    files: Named = ()

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        return self.reading.schema

    def keys(self, rows: int) -> list[ChunkKey]:
        """Each table cut by itself."""
        return cut([(table.name, table.rows) for table in self.tables], rows)

    def read(self, key: ChunkKey) -> Chunk:
        """From the table that has the rows."""
        first_row, table = self._places[key.file]
        return table.chunk(key, self.reading, first_row)

    def selection(self, people: int, excluded: int) -> Selection:
        """All of one side."""
        return Selection(people, people, self.rows, excluded, self.reading.split)

    def fingerprint(self) -> str:
        """Of the contents and of how they are read."""
        return self.reading.hash(*((table.sha256, table.rows) for table in self.tables))

    @cached_property
    def _places(self) -> dict[str, tuple[int, Table]]:
        ends = np.cumsum([table.rows for table in self.tables]).tolist()
        return {table.name: (end - table.rows, table) for table, end in zip(self.tables, ends, strict=True)}


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file, read by its row groups."""

    name: str
    rows: int
    sha256: str
    size: int
    changed: int  # when the file was last written, in nanoseconds

    @classmethod
    def open(cls, path: Path) -> ParquetTable:
        """A file as it is now."""
        with opened(path) as file:
            rows = file.metadata.num_rows
        about = path.stat()
        return cls(str(path), rows, file_hash(path), about.st_size, about.st_mtime_ns)

    def chunk(self, key: ChunkKey, reading: ReadOptions, first_row: int) -> Chunk:
        """Encode the columns that are read."""
        with opened(Path(self.name)) as file:
            columns = reading.present(file.schema_arrow.names, self.name)
        rows = self.arrow(key.start, key.stop, columns)
        return reading.chunk(key, pd.DataFrame({name: rows[name].to_pandas() for name in columns}), first_row)

    def arrow(self, start: int, stop: int, columns: tuple[str, ...]) -> pa.Table:
        """Some rows, from the row groups that hold them."""
        ends = np.cumsum(_group_rows(Path(self.name)))
        group = int(np.searchsorted(ends, start, side="right"))
        pieces, at = [], start
        while at < stop:
            begin, end = (int(ends[group - 1]) if group else 0), int(ends[group])
            pieces.append(_row_group(self, group, columns).slice(at - begin, min(stop, end) - at))
            at, group = end, group + 1
        return pa.concat_tables(pieces)


@lru_cache(maxsize=2)
def _row_group(table: ParquetTable, group: int, columns: tuple[str, ...]) -> pa.Table:
    """One row group; kept, since the chunks that share it are read one after the other."""
    path = Path(table.name)
    about = path.stat()
    if (about.st_size, about.st_mtime_ns) != (table.size, table.changed):
        raise FileError(f"Table {path} was changed during the run: start it again.")
    with opened(path) as file:
        return file.read_row_group(group, columns=list(columns), use_threads=False)


def opened(file: Path) -> Any:
    """A Parquet file, whose pages are checked as they are read."""
    try:
        return pq.ParquetFile(file, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"Table {file} cannot be read as Parquet: {str(error).splitlines()[0].rstrip('.')}.") from None


def has_middle(file: Path) -> bool:
    """Whether some rows can be read without reading all that stand before them."""
    return file.suffix.lower() in PARQUET and all(rows <= HUGE for rows in _group_rows(file))


def _group_rows(file: Path) -> list[int]:
    with opened(file) as table:
        about = table.metadata
        return [about.row_group(group).num_rows for group in range(about.num_row_groups)]


@dataclass(frozen=True)
class CopiedTable:
    """The people of a file in fair coordinates; rows that were left out are counted with the first of them."""

    name: str
    rows: int
    sha256: str
    copy: ParquetTable
    excluded: int

    def chunk(self, key: ChunkKey, reading: ReadOptions, first_row: int) -> Chunk:
        """As they were copied."""
        rows = self.copy.arrow(key.start, key.stop, _COPY)
        x = rows["x"].combine_chunks().flatten().to_numpy().reshape(rows.num_rows, -1)
        y = None if rows["y"].null_count else rows["y"].to_numpy()
        excluded = 0 if key.start else self.excluded
        return Chunk(key, x, y, rows["weight"].to_numpy(), rows["row"].to_numpy(), excluded)


def open_copy(reading: ReadOptions, named: tuple[str, str], work: Path, pieces: Iterator[Population]) -> Tables:
    """The people of a file from a copy in the folder ``work``, which is made from ``pieces`` if it is not there."""
    name, digest = named
    target = work / f"people-{reading.hash(3, digest)[:32]}.parquet"
    if not target.exists():
        _write_copy(target, pieces, reading)
    with opened(target) as file:
        about = file.metadata.metadata
    copy = ParquetTable.open(target)
    table = CopiedTable(name, copy.rows, digest, copy, int(about[_EXCLUDED]))
    return Tables(reading, (table,), int(about[_ROWS]), (named,))


def _write_copy(target: Path, pieces: Iterator[Population], reading: ReadOptions) -> None:
    width, label = reading.schema.width, reading.columns.label
    outcome = pa.float64() if label is None or label.regression else pa.int64()
    kinds = (pa.list_(pa.float64(), width), outcome, pa.float64(), pa.int64())
    columns = pa.schema(list(zip(_COPY, kinds, strict=True)))
    excluded = rows = 0
    with atomic(target) as partial, pq.ParquetWriter(partial, columns, write_page_checksum=True) as writer:
        for people in pieces:
            excluded, rows = excluded + people.excluded, rows + len(people) + people.excluded
            some = people.side(reading.split)
            x = pa.FixedSizeListArray.from_arrays(pa.array(people.x[some].ravel()), width)
            y = pa.nulls(len(x), outcome) if people.y is None else pa.array(people.y[some])
            rest = pa.array(people.weights[some]), pa.array(people.rows[some])
            writer.write_table(pa.table([x, y, *rest], schema=columns))
        writer.add_key_value_metadata({_EXCLUDED: str(excluded), _ROWS: str(rows)})


@runtime_checkable
class DaskFrame(Protocol):
    """What is asked of a Dask data frame."""

    columns: Any
    npartitions: int

    def get_partition(self, n: int) -> Any: ...  # noqa: D102


@dataclass(frozen=True)
class Partition:
    """A partition of a Dask data frame, computed by whoever reads it."""

    name: str
    rows: int
    sha256: str
    part: Any = field(compare=False, repr=False)

    def chunk(self, key: ChunkKey, reading: ReadOptions, first_row: int) -> Chunk:
        """Encode some rows of the partition."""
        return reading.chunk(key, _computed(self).iloc[key.start : key.stop], first_row)


@lru_cache(maxsize=1)
def _computed(partition: Partition) -> pd.DataFrame:
    """A partition; kept, since the chunks that share it are read one after the other."""
    frame: pd.DataFrame = partition.part.compute(scheduler="synchronous")
    if _content(frame) != (partition.rows, partition.sha256):
        raise DataError(f"{partition.name} was computed anew and has other rows: a collection must stay the same.")
    return frame


def partitions(collection: Any, reading: ReadOptions) -> tuple[Partition, ...]:
    """The partitions of a Dask data frame: one pass, where Dask works, counts and hashes their rows."""
    import dask

    collection = collection[list(reading.present(map(str, collection.columns), "(a Dask data frame)"))]
    parts = [collection.get_partition(i) for i in range(collection.npartitions)]
    compute: Any = dask.compute  # type: ignore[attr-defined]
    contents = compute(*(dask.delayed(_content)(part) for part in parts))  # type: ignore[attr-defined]
    each = enumerate(zip(contents, parts, strict=True))
    return tuple(Partition(f"Partition {i}", rows, digest, part) for i, ((rows, digest), part) in each)


def _content(frame: pd.DataFrame) -> tuple[int, str]:
    """How many rows there are, and a hash of all cells."""
    digest = hashlib.sha256()
    for name in frame.columns:
        digest.update(f"{name} ".encode())
        digest.update(pd.util.hash_pandas_object(frame[name], index=False).to_numpy().tobytes())
    return len(frame), digest.hexdigest()


Table = ParquetTable | CopiedTable | Partition
