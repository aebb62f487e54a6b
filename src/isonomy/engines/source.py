"""A table larger than memory, cut into fixed blocks of rows that can be read in any order.

Parquet files are read by their row groups. A file without a way into its middle (CSV, or a Parquet file with huge row
groups) is first copied, piece by piece, to a Parquet file of fair coordinates.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError, FileError
from isonomy.population import Population, Schema, stream
from isonomy.population.cells import NoRowFitsError
from isonomy.population.schema import Unknown
from isonomy.population.selection import SplitName

HUGE = 2**21
"""Row groups with more rows than this are not held in memory."""

_PARQUET = (".parquet", ".pq")
_COPY = ("x", "weight", "row")
_EXCLUDED, _ROWS = b"isonomy.excluded", b"isonomy.rows"


@dataclass(frozen=True)
class Table:
    """One file: its content by hash, and the number of its first row in the whole dataset."""

    path: Path
    sha256: str
    size: int
    changed: int  # when the file was last written, in nanoseconds
    rows: int
    first_row: int


@dataclass(frozen=True)
class Block:
    """Rows ``start`` to ``stop`` of one file, the ``index``-th block of the dataset."""

    index: int
    table: Table
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class People:
    """The individuals of a block in fair coordinates, and how many of its rows were left out."""

    x: FloatArray
    weights: FloatArray
    rows: NDArray[np.int64]
    excluded: int


@dataclass(frozen=True)
class Source:
    """The files of a dataset and what their rows mean; ``copied`` when they hold fair coordinates already."""

    tables: tuple[Table, ...]
    schema: Schema
    unknown: Unknown
    split: SplitName
    copied: bool = False
    excluded: int = 0  # rows that the copy left out
    original: int = 0  # rows of the file that was copied
    files: tuple[tuple[str, str], ...] = ()  # what the caller named: each file and its SHA-256

    @classmethod
    def open(
        cls, path: Path, schema: Schema, *, chunk: int, work: Path, unknown: Unknown = "error", split: SplitName = "all"
    ) -> Source:
        """A Parquet file, a folder of them in the order of their names, or a CSV file."""
        path = path.resolve()
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.suffix.lower() in _PARQUET)
            if not files:
                raise FileError(f"The folder {path} has no Parquet file: their names end in {' or '.join(_PARQUET)}.")
        elif path.is_file():
            files = [path]
        else:
            raise FileError(f"Table {path} cannot be read: there is no such file or folder.")
        if path.is_dir() or _has_middle(path):
            tables, root = _tables(files), path if path.is_dir() else path.parent
            named = tuple((table.path.relative_to(root).as_posix(), table.sha256) for table in tables)
            return cls(tables, schema, unknown, split, files=named)
        copy, digest = _copy(path, schema, chunk, work, unknown, split)
        about = _opened(copy).metadata.metadata
        return cls(
            _tables([copy]), schema, unknown, split, copied=True, excluded=int(about[_EXCLUDED]),
            original=int(about[_ROWS]), files=((path.name, digest),),
        )  # fmt: skip

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(table.rows for table in self.tables)

    @property
    def dataset_rows(self) -> int:
        """The rows of what the caller named: a copy has those of the split only."""
        return self.original if self.copied else self.rows

    def blocks(self, chunk: int) -> list[Block]:
        """The dataset cut into blocks of ``chunk`` rows; no block has rows of two files."""
        cuts = [(table, start) for table in self.tables for start in range(0, table.rows, chunk)]
        return [Block(i, table, start, min(start + chunk, table.rows)) for i, (table, start) in enumerate(cuts)]

    def read(self, block: Block) -> People:
        """The individuals of a block."""
        if self.copied:
            copy = _read_rows(block, _COPY)
            x = copy["x"].combine_chunks().flatten().to_numpy().reshape(copy.num_rows, -1)
            return People(x, copy["weight"].to_numpy(), copy["row"].to_numpy(), 0)
        rows = _read_rows(block, self._columns)
        frame = pd.DataFrame({name: rows[name].to_pandas() for name in rows.column_names})
        frame.index = pd.RangeIndex(block.start, block.stop)
        first_row = block.table.first_row + block.start
        try:
            people = Population.from_piece(
                frame, self.schema, domain="unbounded", unknown=self.unknown, first_row=first_row
            )
        except NoRowFitsError:
            return _nobody(self.schema.width, len(frame))
        except DataError as error:
            raise DataError(f"File {block.table.path.name}: {error}") from None
        side = _side(people, self.split)
        if side is None:
            return _nobody(self.schema.width, people.excluded)
        return People(side.x, side.weights, side.rows, people.excluded)

    @property
    def _columns(self) -> tuple[str, ...]:
        schema = self.schema
        names = [feature.name for feature in schema.features]
        names += [schema.weight] if schema.weight is not None else []
        names += [schema.split.column] if schema.split is not None and self.split != "all" else []
        return tuple(dict.fromkeys(names))


def _tables(files: Sequence[Path]) -> tuple[Table, ...]:
    tables, first_row = [], 0
    for file in files:
        rows = _opened(file).metadata.num_rows
        about = file.stat()
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        tables.append(Table(file, digest, about.st_size, about.st_mtime_ns, rows, first_row))
        first_row += rows
    if first_row == 0:
        raise DataError(f"Table {files[0] if len(files) == 1 else files[0].parent} is empty: it has no row.")
    return tuple(tables)


def _opened(file: Path) -> Any:
    try:
        return pq.ParquetFile(file, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"Table {file} cannot be read as Parquet: {str(error).splitlines()[0].rstrip('.')}.") from None


def _has_middle(file: Path) -> bool:
    if file.suffix.lower() not in _PARQUET:
        return False
    return all(rows <= HUGE for rows in _group_rows(file))


def _group_rows(file: Path) -> list[int]:
    with _opened(file) as opened:
        about = opened.metadata
        return [about.row_group(group).num_rows for group in range(about.num_row_groups)]


def _read_rows(block: Block, columns: tuple[str, ...]) -> Any:
    """The rows of a block, from the row groups that hold them."""
    ends = np.cumsum(_group_rows(block.table.path))
    first = int(np.searchsorted(ends, block.start, side="right"))
    pieces, at = [], block.start
    while at < block.stop:
        begin, end = (int(ends[first - 1]) if first else 0), int(ends[first])
        group = _group(block.table, first, columns)
        pieces.append(group.slice(at - begin, min(block.stop, end) - at))
        at, first = end, first + 1
    return pa.concat_tables(pieces)


@lru_cache(maxsize=2)
def _group(table: Table, group: int, columns: tuple[str, ...]) -> Any:
    """One row group; kept, since the blocks that share it are read one after the other."""
    about = table.path.stat()
    if (about.st_size, about.st_mtime_ns) != (table.size, table.changed):
        raise FileError(f"Table {table.path} was changed during the run: start it again.")
    with _opened(table.path) as file:
        there = file.schema_arrow.names
        for name in columns:
            if there.count(name) != 1:
                trouble = f"has no column {name!r}" if name not in there else f"has two columns called {name!r}"
                raise DataError(f"Table {table.path} {trouble}; it has {', '.join(map(repr, there))}.")
        return file.read_row_group(group, columns=list(columns), use_threads=False)


def _nobody(width: int, excluded: int) -> People:
    return People(np.zeros((0, width)), np.zeros(0), np.zeros(0, dtype=np.int64), excluded)


def _side(people: Population, split: SplitName) -> Population | None:
    """The individuals on one side of the split, None where there is nobody."""
    if split == "all":
        return people
    try:
        return people.train if split == "train" else people.test
    except DataError:
        return None


def _copy(file: Path, schema: Schema, chunk: int, work: Path, unknown: Unknown, split: SplitName) -> tuple[Path, str]:
    """The individuals of a file as a Parquet file of fair coordinates, made once; and the SHA-256 of the file."""
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256")
    original = digest.hexdigest()
    digest.update(f"2 {schema.hash()} {chunk} {unknown} {split}".encode())
    target = work / f"people-{digest.hexdigest()[:32]}.parquet"
    if target.exists():
        return target, original
    work.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.stem}.{secrets.token_hex(8)}.partial")
    types = (pa.list_(pa.float64(), schema.width), pa.float64(), pa.int64())
    kind = pa.schema(list(zip(_COPY, types, strict=True)))
    excluded = rows = 0
    try:
        with pq.ParquetWriter(partial, kind, write_page_checksum=True) as writer:
            for people in stream(file, schema, chunk_rows=chunk, domain="unbounded", unknown=unknown):
                excluded, rows = excluded + people.excluded, rows + len(people) + people.excluded
                side = _side(people, split)
                if side is not None:
                    x = pa.FixedSizeListArray.from_arrays(pa.array(side.x.ravel()), schema.width)
                    writer.write_table(pa.table([x, pa.array(side.weights), pa.array(side.rows)], schema=kind))
            writer.add_key_value_metadata({_EXCLUDED: str(excluded), _ROWS: str(rows)})
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target, original
