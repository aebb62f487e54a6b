"""Tables as pandas frames: in memory of any kind, Parquet and CSV files, whole or in pieces of bounded size.

Of a file only the columns that a schema names are read. A Parquet file brings its own types. A CSV file, of whatever
:class:`Dialect`, has none, so the schema says which columns are numbers; everything else is text, and a cell that no
number can be made of stays text, so that the error can show it. In a CSV file an empty cell and the usual words for
"missing" (NA, NaN, null …) count as missing unless the schema knows them as a category, and ``3.0`` is the category
``3``.

A small file can ask for any amount of memory: what it declares is held against a limit before it is read, and what it
holds while it is read.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from isonomy.errors import DataError, FileError, ParameterError, first_line
from isonomy.population.encoding import MISSING_WORDS, from_text
from isonomy.population.feature import Feature

if TYPE_CHECKING:
    from isonomy.population.schema import Schema

Meanings = dict[str, Feature | None]

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")
QUOTE = '"'
"""Around a cell of a CSV file that has a separator or a line break in it; twice for itself."""

CELLS = 2**26
"""Cells, rows times columns, of a table that are in memory at once, unless a higher limit is set: some 3 GB."""

COLUMN = 2**11
"""Cells that a column counts as at least, for what it costs by itself, also where it is not read."""

TEXT = 2**4
"""Bytes of text that count as a cell."""

_HEADER = 2**24  # characters of a CSV file's first line, at most
_WHOLE = 1 << 62  # more rows than any file has


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written; a comma stands for the tab in ``.tsv`` files whose header has one."""

    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."


USUAL = Dialect()


def read_frame(frame: Any) -> pd.DataFrame:
    """Copy a pandas, Polars or Arrow table to a frame with unique text column names and at least one row."""
    table = frame.copy() if isinstance(frame, pd.DataFrame) else _to_pandas(frame)
    table.columns = pd.Index([str(column) for column in table.columns])
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(f"The table has two columns called {twice!r}; names must differ.")
    if len(table) == 0:
        raise DataError(f"The table is empty: it has {table.shape[1]} columns and no row.")
    return table


def described(path: str | os.PathLike[str], dialect: Dialect = USUAL) -> dict[str, Any]:
    """Return how a table is read, for exactly the same reading: ``kind`` and every mark of a CSV file.

    ``missing`` are the words for a missing value, beside those that a schema names of a feature.
    """
    file = Path(path)
    if file.is_dir() or file.name.lower().endswith(PARQUET):
        return {"kind": "parquet"} | dict.fromkeys(("separator", "quote", "encoding", "decimal", "missing"))
    resolved = _resolved(file, dialect, header_of(file, dialect.encoding))
    return {
        "kind": "csv", "separator": resolved.separator, "quote": QUOTE, "encoding": resolved.encoding,
        "decimal": resolved.decimal, "missing": list(MISSING_WORDS),
    }  # fmt: skip


def read_file(
    path: str | os.PathLike[str], schema: Schema, dialect: Dialect = USUAL, limit: int = CELLS
) -> pd.DataFrame:
    """Return the schema's columns of a whole file of at most ``limit`` cells."""
    return next(frame for _, frame in read_pieces(path, schema, _WHOLE, dialect, limit))


def read_pieces(
    path: str | os.PathLike[str], schema: Schema, rows: int, dialect: Dialect = USUAL, limit: int = CELLS
) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield pieces of ``rows`` rows (the last one may be shorter), each with the number of its first row as its index,
    and of at most ``limit`` cells."""
    file = Path(path)
    if not file.is_file():
        raise FileError(f"Table {file} cannot be read: there is no such file.")
    name, kind = file.name.lower(), "Parquet"
    try:
        if name.endswith(PARQUET):
            yield from _pieces(_parquet_batches(file, schema, rows, limit), rows, file, {}, dialect)
        elif name.endswith(CSV):
            kind = "CSV"
            batches = _csv_batches(file, schema, rows, dialect, limit)
            yield from _pieces(batches, rows, file, column_meanings(schema), dialect)
        else:
            raise FileError(f"Table {file} cannot be read: its name must end in one of {', '.join((*PARQUET, *CSV))}.")
    except (pa.ArrowException, OSError, UnicodeError, EOFError, zlib.error) as error:
        kind += f" in {dialect.encoding}" if isinstance(error, UnicodeError) else ""
        raise FileError(f"Table {file} cannot be read as {kind}: {first_line(error)}.") from error


def _open_bytes(path: Path) -> Any:
    """Open a CSV file as bytes, unpacked where it is packed."""
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")


def open_text(path: Path, encoding: str) -> TextIO:
    """Open a CSV file as text, unpacked where it is packed."""
    return io.TextIOWrapper(_open_bytes(path), encoding, newline="")


def header_of(file: Path, encoding: str) -> str:
    """Return the header of a CSV file, if it is of a reasonable length; what is no text becomes surrogates."""
    if not file.is_file():
        raise FileError(f"Table {file} cannot be read: there is no such file or folder.")
    with _open_bytes(file) as content:
        return _read_header(content, file, encoding)


def column_names(path: str | os.PathLike[str], dialect: Dialect = USUAL) -> list[str]:
    """Return the names of the columns of a table."""
    file = Path(path)
    if not file.is_file():
        raise FileError(f"Table {file} cannot be read: there is no such file.")
    if file.name.lower().endswith(PARQUET):
        with open_parquet(file) as content:
            return list(content.schema_arrow.names)
    header = header_of(file, dialect.encoding)
    first = io.BytesIO(header.encode(dialect.encoding, "surrogateescape"))
    try:
        return list(_csv_reader(first, _resolved(file, dialect, header)).schema.names)
    except pa.ArrowException as error:
        raise FileError(f"Table {file} cannot be read as CSV: {first_line(error)}.") from error


def _read_header(content: Any, file: Path, encoding: str) -> str:
    """Return the first lines of an open CSV file, up to one that is not empty and leaves no quotation mark open."""
    try:
        text = io.TextIOWrapper(content, encoding, "surrogateescape", newline="")
    except LookupError:
        raise ParameterError(f"'encoding' must be one that Python knows, such as latin-1. Got {encoding!r}.") from None
    header, line = "", "\n"
    while line and (header.count(QUOTE) % 2 or not header.strip("\r\n")):
        line = text.readline(_HEADER - len(header))
        header += line
        if len(header) == _HEADER:
            raise FileError(f"Table {file} cannot be read as CSV: its header is longer than {_HEADER:,} characters.")
    text.detach()
    return header


def check_columns(file: object, columns: int, limit: float) -> None:
    """Refuse a table that declares more columns than can be looked at, read or not."""
    if columns * COLUMN > limit:
        raise FileError(
            f"Table {file} declares {columns:,} columns, each of which counts as {COLUMN:,} cells or more. The limit "
            f"is {limit:,} cells: 'table_limit' (--table-limit) raises it."
        )


def check_cells(file: object, cells: int, limit: int, what: str) -> None:
    """Refuse to take more cells into memory than the limit; ``what`` the file has, for the sentence."""
    if cells > limit:
        raise FileError(
            f"Table {file} {what}: {cells:,} cells to hold in memory at once. The limit is {limit:,}: 'table_limit' "
            "(--table-limit) raises it, and an audit with 'engine' (--engine local) reads the table piece by piece."
        )


def open_parquet(file: Path, limit: float = CELLS, **how: Any) -> pq.ParquetFile:
    """Open a Parquet file whose columns, and the bytes of whose description, are within the limit."""
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - 8))
        ending = content.read(8)
    if (described := int.from_bytes(ending[:4], "little")) > limit and ending[4:] == b"PAR1":
        raise FileError(
            f"Table {file} declares columns and row groups in a description of {described:,} bytes. The limit is "
            f"{limit:,}: 'table_limit' (--table-limit) raises it."
        )
    table = pq.ParquetFile(file, **how)
    check_columns(file, table.metadata.num_columns, limit)
    return table


def column_meanings(schema: Schema) -> Meanings:
    """Return the meaning of each column that is read; None for the split and the id column, which are plain text."""
    meanings: Meanings = {feature.name: feature for feature in (*schema.features, *schema.singles)}
    plain = (schema.split.column if schema.split else None, schema.id)
    return meanings | {name: None for name in plain if name is not None}


def present_columns(names: Iterable[str], schema: Schema, file: object) -> tuple[str, ...]:
    """Return the columns to read: all of the schema but for a label, split or id column that the table lacks."""
    present, meanings = list(names), column_meanings(schema)
    twice = next((name for name in meanings if present.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"Table {file} has two columns called {twice!r}; names must differ.")
    optional = {schema.id, *(role.column for role in (schema.label, schema.split) if role)}
    for name in meanings:
        if name not in present and name not in optional:
            more = f" and {len(present) - 40:,} others" if len(present) > 40 else ""
            some = ", ".join(map(repr, present[:40])) + more
            raise DataError(f"Table {file} has no column {name!r}; it has {some}.")
    return tuple(name for name in meanings if name in present)


def _to_pandas(frame: Any) -> pd.DataFrame:
    try:
        table = nw.from_native(frame)
    except TypeError as error:
        raise DataError(f"A table must be a pandas, Polars or Arrow table. Got {type(frame).__name__}.") from error
    eager = table.collect() if isinstance(table, nw.LazyFrame) else table
    return eager.to_pandas()


def _parquet_batches(file: Path, schema: Schema, rows: int, limit: int) -> Iterator[pa.RecordBatch]:
    with open_parquet(file, limit) as table:
        columns = list(present_columns(table.schema_arrow.names, schema, file))
        check_declared(file, table.metadata, columns, rows, limit)
        texts = [name for name in columns if pa.types.is_string(table.schema_arrow.field(name).type)]
    size = max(1, min(rows, 1 << 16, limit // len(columns)))
    with pq.ParquetFile(file, read_dictionary=texts) as table:
        yield from limited(
            _decoded(table.iter_batches(batch_size=size, columns=columns), file, limit), file, rows, limit
        )


def check_declared(file: object, about: pq.FileMetaData, columns: Iterable[str], rows: int, limit: int) -> None:
    """Refuse what a Parquet file declares of some columns in ``rows`` rows, if it is more than the limit."""
    names, count = set(columns), min(rows, about.num_rows)
    what = f"declares {about.num_rows:,} rows, of {len(names)} columns that are read"
    check_cells(file, count * len(names), limit, what)
    if rows >= about.num_rows:
        places = [i for i in range(about.num_columns) if about.schema.column(i).path.partition(".")[0] in names]
        groups = map(about.row_group, range(about.num_row_groups))
        size = sum(group.column(place).total_uncompressed_size for group in groups for place in places)
        check_cells(file, size // TEXT, limit, f"declares {size:,} bytes in {len(names)} columns that are read")


def _decoded(batches: Iterable[pa.RecordBatch], file: Path, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield batches whose texts are written out, once it is known how long they are: a text that stands in the file
    once may be that of a million rows."""
    for batch in batches:
        size, columns = 0, []
        for column in batch.columns:
            if pa.types.is_dictionary(column.type):
                lengths = pc.binary_length(column.dictionary).cast(pa.int64())
                size += pc.sum(lengths.take(column.indices)).as_py() or 0
                check_cells(file, size // TEXT, limit, f"has {size:,} bytes of text in {batch.num_rows:,} rows")
                column = column.dictionary_decode()
            columns.append(column)
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def limited(batches: Iterable[pa.RecordBatch], file: Path, rows: int, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield batches until a piece of ``rows`` rows would have more cells, or text, than the limit."""
    count = size = 0
    for batch in batches:
        count, size = count + batch.num_rows, size + batch.nbytes
        columns = batch.num_columns
        check_cells(
            file, min(count, rows) * columns, limit, f"has {count:,} rows and more, of {columns} columns that are read"
        )
        check_cells(file, size // TEXT, limit, f"has {size:,} bytes and more in {columns} columns that are read")
        yield batch
        if count >= rows:
            count, size = count % rows, batch.nbytes


def _csv_batches(file: Path, schema: Schema, rows: int, dialect: Dialect, limit: int) -> Iterator[pa.RecordBatch]:
    with _open_bytes(file) as content:
        header = _read_header(content, file, dialect.encoding)
        dialect = _resolved(file, dialect, header)
        check_columns(file, 1 + header.count(dialect.separator), limit)
        first = io.BytesIO(header.encode(dialect.encoding, "surrogateescape"))
        columns = present_columns(_csv_reader(first, dialect).schema.names, schema, file)
        content.seek(0)
        with _csv_reader(content, dialect, columns) as reader:
            yield from limited(reader, file, rows, limit)


def _resolved(file: Path, dialect: Dialect, header: str) -> Dialect:
    """Return the dialect with the tab in place of the comma, where it stands for that."""
    tabs = file.name.lower().removesuffix(".gz").endswith(".tsv") and "\t" in header
    return replace(dialect, separator="\t") if dialect.separator == "," and tabs else dialect


def _csv_reader(content: Any, dialect: Dialect, columns: tuple[str, ...] = ()) -> Any:
    """Return a reader of all cells as text: the schema gives them a meaning, not the first block of the file."""
    parse = pcsv.ParseOptions(delimiter=dialect.separator, quote_char=QUOTE, newlines_in_values=True)
    convert = pcsv.ConvertOptions(
        include_columns=list(columns),  # all where none is named
        column_types=dict.fromkeys(columns, pa.string()),
        strings_can_be_null=False,
    )
    # Without threads a faulty row is named by its number.
    return pcsv.open_csv(content, pcsv.ReadOptions(use_threads=False, encoding=dialect.encoding), parse, convert)


def _pieces(
    batches: Iterator[pa.RecordBatch], rows: int, file: Path, meanings: Meanings, dialect: Dialect
) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield batches regrouped to pieces of ``rows`` rows."""
    waiting: list[pa.RecordBatch] = []
    count, first_row = 0, 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        while count >= rows:
            whole = pa.Table.from_batches(waiting)
            yield first_row, _frame(whole.slice(0, rows), first_row, meanings, dialect)
            first_row, count = first_row + rows, count - rows
            waiting = whole.slice(rows).to_batches() if count else []
    if not (count or first_row):
        raise DataError(f"Table {file} is empty: it has no row.")
    if count:
        yield first_row, _frame(pa.Table.from_batches(waiting), first_row, meanings, dialect)


def _frame(table: pa.Table, first_row: int, meanings: Meanings, dialect: Dialect) -> pd.DataFrame:
    """Return cells of a Parquet file as they are, those of a CSV file by their ``meanings``."""
    columns = {
        name: from_text(table[name], meanings[name], dialect.decimal) if name in meanings else table[name].to_pandas()
        for name in table.column_names
    }
    return pd.DataFrame(columns).set_axis(pd.RangeIndex(first_row, first_row + table.num_rows))
