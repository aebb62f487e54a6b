"""Where people come from: a population, a table in memory, files of any size and dialect, a Dask data frame.

:func:`open_people` gives any of them as a :class:`PeopleSource`; :func:`stream` reads a file from its beginning.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isonomy.errors import DataError, FileError, ParameterError
from isonomy.files import file_hash
from isonomy.given import whole
from isonomy.population.chunks import Chunk, ChunkKey, Named, PeopleSource, cut
from isonomy.population.domain import DomainKind
from isonomy.population.encoding import NoRowFitsError
from isonomy.population.population import Population
from isonomy.population.schema import Schema, Unknown
from isonomy.population.selection import Selection, SplitName
from isonomy.population.stored import (
    DaskFrame,
    ParquetTable,
    ReadOptions,
    Table,
    Tables,
    has_middle,
    open_copy,
    partitions,
)
from isonomy.population.tables import PARQUET, USUAL, Dialect, read_pieces

COPY_ROWS = 2**14
"""Rows that are copied at a time."""


def open_people(
    people: Any,
    schema: Schema | None = None,
    *,
    dialect: Dialect = USUAL,
    unknown: Unknown = "error",
    split: SplitName = "all",
    labels: bool = True,
    work: str | os.PathLike[str] | None = None,
) -> PeopleSource:
    """The individuals of a table, wherever it is.

    ``people`` is a :class:`Population`; a pandas, Polars or Arrow table; the path of a Parquet file, of a folder of
    them (in the order of their names), or of a CSV file in a ``dialect``; or a Dask data frame. All but the first need
    a ``schema``. ``split`` takes one side of it, ``unknown="exclude"`` leaves out and counts rows that do not fit, and
    ``labels=False`` does not look at labels. A file that has no way into its middle is copied to the folder ``work``,
    once; without one it is read into memory.
    """
    if isinstance(people, PeopleSource):
        return people
    if isinstance(people, Population):
        return _in_memory(people if labels else replace(people, y=None), people.schema, split)
    if schema is None:
        raise ParameterError("'schema' must be given for people who are not a Population.")
    reading = ReadOptions(schema, unknown, split, labels, dialect)
    if isinstance(people, DaskFrame):
        return _one_by_one(partitions(people, reading), reading, "(a Dask data frame)")
    if not isinstance(people, str | os.PathLike):
        return _in_memory(Population.from_frame(people, reading.columns, unknown=unknown), schema, split)
    path = Path(people).resolve()
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in PARQUET)
        if not files:
            raise FileError(f"The folder {path} has no Parquet file: their names end in {' or '.join(PARQUET)}.")
        return _of_files(files, path, reading, path)
    if not path.is_file():
        raise FileError(f"Table {path} cannot be read: there is no such file or folder.")
    if has_middle(path):
        return _of_files([path], path.parent, reading, path)
    named, how = ((path.name, file_hash(path)),), {"unknown": unknown, "dialect": dialect}
    if work is None:
        return _in_memory(Population.from_file(path, reading.columns, **how), schema, split, named)  # type: ignore[arg-type]
    pieces = stream(path, reading.columns, chunk_rows=COPY_ROWS, domain="unbounded", **how)  # type: ignore[arg-type]
    copied = open_copy(reading, named[0], Path(work).resolve(), pieces)
    if not copied.tables[0].rows:
        raise DataError(f"Table {path} has nobody in its {split} part.")
    return copied


def stream(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    chunk_rows: int = 100_000,
    domain: DomainKind = "realizable",
    unknown: Unknown = "error",
    dialect: Dialect = USUAL,
) -> Iterator[Population]:
    """The individuals of a Parquet or CSV file, ``chunk_rows`` rows of the file at a time.

    Memory is that of two pieces and the blocks that the reader holds (some 32 MB of a CSV file, one row group of a
    Parquet file), whatever the length of the file. Columns that the schema does not name are not read.
    Together the pieces hold what :meth:`Population.from_file` holds: the same coordinates, row numbers (0 is the first
    row after the header) and sides of the split; an error names the row of the file. With ``unknown="exclude"`` rows
    that do not fit are counted in the piece they stand in, and a piece of which nothing is left is counted with the
    next one that has individuals (with the last one, at the end of the file); a file of which nothing is left is an
    error.
    """
    return _stream(path, schema, whole("chunk_rows", chunk_rows, 1), domain, unknown, dialect)


def _stream(
    path: str | os.PathLike[str], schema: Schema, rows: int, domain: DomainKind, unknown: Unknown, dialect: Dialect
) -> Iterator[Population]:
    """Hold one population back, so that rows excluded after it can still be counted with it."""
    held: Population | None = None
    excluded, reason = 0, ""
    weighed = False
    for first_row, frame in read_pieces(path, schema, rows, dialect):
        try:
            people = Population.from_piece(frame, schema, domain=domain, unknown=unknown, first_row=first_row)
        except NoRowFitsError as error:
            excluded, reason = excluded + len(frame), reason or str(error)
            continue
        weighed = weighed or bool(people.weights.sum() > 0)
        if held is not None:
            yield held
        held, excluded = _with_excluded(people, excluded), 0
    if held is None:
        raise DataError(reason)
    yield _with_excluded(held, excluded)
    if not weighed:
        raise DataError(f"Column {schema.weight!r}: all sampling weights are zero; at least one must be positive.")


def _with_excluded(people: Population, more: int) -> Population:
    return replace(people, selection=replace(people.selection, excluded=people.excluded + more))


@dataclass(frozen=True, eq=False)
class InMemory:
    """A population; rows that were left out of it are counted with its first chunk."""

    people: Population
    files: Named = ()

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        return self.people.schema

    def keys(self, rows: int) -> list[ChunkKey]:
        """Slices."""
        return cut([("", len(self.people))], rows)

    def read(self, key: ChunkKey) -> Chunk:
        """Views of the arrays."""
        part, people = slice(key.start, key.stop), self.people
        y = None if people.y is None else people.y[part]
        excluded = 0 if key.index else people.excluded
        return Chunk(key, people.x[part], y, people.weights[part], people.rows[part], excluded)

    def selection(self, people: int, excluded: int) -> Selection:
        """As the population says."""
        return self.people.selection

    def fingerprint(self) -> str:
        """Of the schema, coordinates, weights and labels."""
        people = self.people
        digest = hashlib.sha256(people.schema.hash().encode())
        for array in (people.x, people.weights) if people.y is None else (people.x, people.weights, people.y):
            digest.update(array.tobytes())
        return digest.hexdigest()


def _in_memory(people: Population, schema: Schema, split: SplitName, files: Named = ()) -> InMemory:
    side = people if split == "all" else people.train if split == "train" else people.test
    return InMemory(replace(side, schema=schema), files)


def _of_files(files: list[Path], root: Path, reading: ReadOptions, path: Path) -> Tables:
    tables = tuple(map(ParquetTable.open, files))
    named = [(file.relative_to(root).as_posix(), table.sha256) for file, table in zip(files, tables, strict=True)]
    return _one_by_one(tables, reading, path, tuple(named))


def _one_by_one(tables: Sequence[Table], reading: ReadOptions, name: object, files: Named = ()) -> Tables:
    rows = sum(table.rows for table in tables)
    if not rows:
        raise DataError(f"Table {name} is empty: it has no row.")
    return Tables(reading, tuple(tables), rows, files)
