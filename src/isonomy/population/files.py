"""Parquet and CSV files as pandas frames, whole or in pieces of bounded size.

Only the columns that a schema names are read. A Parquet file brings its own types. A CSV file has none, so the schema
says which columns are numbers; everything else is text, and a cell that no number can be made of stays text, so that
the error can show it. In a CSV file an empty cell and the usual words for "missing" (NA, NaN, null …) count as missing
unless the schema knows them as a category, and ``3.0`` is the category ``3``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from isonomy.errors import DataError, FileError
from isonomy.population.feature import Feature

if TYPE_CHECKING:
    from isonomy.population.schema import Schema

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")
_WHOLE = 1 << 62  # more rows than any file has
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A", "-nan", "-NaN", "n/a")


def read_file(path: str | os.PathLike[str], schema: Schema) -> pd.DataFrame:
    """The schema's columns of a whole file."""
    return next(frame for _, frame in read_pieces(path, schema, _WHOLE))


def read_pieces(path: str | os.PathLike[str], schema: Schema, rows: int) -> Iterator[tuple[int, pd.DataFrame]]:
    """Pieces of ``rows`` rows (the last one may be shorter), each with the number of its first row as its index."""
    file = Path(path)
    if not file.is_file():
        raise FileError(f"Table {file} cannot be read: there is no such file.")
    meanings = _meanings(schema)
    name = file.name.lower()
    try:
        if name.endswith(_PARQUET):
            yield from _numbered(_parquet_batches(file, meanings, schema, rows), rows, {}, file)
        elif name.endswith(_CSV):
            yield from _numbered(_csv_batches(file, meanings, schema), rows, meanings, file)
        else:
            known = ", ".join((*_PARQUET, *_CSV))
            raise FileError(f"Table {file} cannot be read: its name must end in one of {known}.")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        kind = "Parquet" if name.endswith(_PARQUET) else "CSV"
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise FileError(f"Table {file} cannot be read as {kind}: {reason}.") from error


def _meanings(schema: Schema) -> dict[str, Feature | None]:
    """What each column that is read means; None for the split column, which is plain text."""
    meanings: dict[str, Feature | None] = {feature.name: feature for feature in schema.features}
    if schema.label is not None:
        meanings[schema.label.column] = schema.label.as_feature()
    if schema.weight is not None:
        meanings[schema.weight] = Feature(schema.weight)
    if schema.split is not None:
        meanings[schema.split.column] = None
    return meanings


def _present(names: Iterable[str], meanings: dict[str, Feature | None], schema: Schema, file: Path) -> list[str]:
    """The columns to read: all of the schema but for a label or split column that the file lacks."""
    there = list(names)
    twice = next((name for name in meanings if there.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"Table {file} has two columns called {twice!r}; names must differ.")
    optional = {schema.label.column if schema.label else None, schema.split.column if schema.split else None}
    for name in meanings:
        if name not in there and name not in optional:
            raise DataError(f"Table {file} has no column {name!r}; it has {', '.join(map(repr, there))}.")
    return [name for name in meanings if name in there]


def _parquet_batches(
    file: Path, meanings: dict[str, Feature | None], schema: Schema, rows: int
) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(file) as table:
        columns = _present(table.schema_arrow.names, meanings, schema, file)
        yield from table.iter_batches(batch_size=min(rows, 1 << 16), columns=columns)


def _csv_batches(file: Path, meanings: dict[str, Feature | None], schema: Schema) -> Iterator[pa.RecordBatch]:
    tabs = file.name.lower().removesuffix(".gz").endswith(".tsv")
    parse = pcsv.ParseOptions(delimiter="\t" if tabs else ",", newlines_in_values=True)
    with _open_csv(file, parse, None) as reader:
        columns = _present(reader.schema.names, meanings, schema, file)
    with _open_csv(file, parse, columns) as reader:
        yield from reader


def _open_csv(file: Path, parse: pcsv.ParseOptions, columns: list[str] | None) -> Any:
    """All cells as text: what they mean is decided by the schema, not by the first block of the file."""
    convert = pcsv.ConvertOptions(
        include_columns=columns,
        column_types=dict.fromkeys(columns or (), pa.string()),
        strings_can_be_null=False,
    )
    # Without threads a faulty row is named by its number.
    return pcsv.open_csv(file, pcsv.ReadOptions(use_threads=False), parse, convert)


def _numbered(
    batches: Iterator[pa.RecordBatch], rows: int, meanings: dict[str, Feature | None], file: Path
) -> Iterator[tuple[int, pd.DataFrame]]:
    """Batches regrouped to pieces of ``rows`` rows."""
    waiting: list[pa.RecordBatch] = []
    count, first_row = 0, 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        while count >= rows:
            whole = pa.Table.from_batches(waiting)
            yield first_row, _frame(whole.slice(0, rows), first_row, meanings)
            first_row, count = first_row + rows, count - rows
            waiting = whole.slice(rows).to_batches() if count else []
    if count or not first_row:
        if not count:
            raise DataError(f"Table {file} is empty: it has no row.")
        yield first_row, _frame(pa.Table.from_batches(waiting), first_row, meanings)


def _frame(table: pa.Table, first_row: int, meanings: dict[str, Feature | None]) -> pd.DataFrame:
    columns = {
        name: _from_text(table[name], meanings[name]) if name in meanings else table[name].to_pandas()
        for name in table.column_names
    }
    index = pd.RangeIndex(first_row, first_row + table.num_rows)
    return pd.DataFrame({name: _reindexed(column, index) for name, column in columns.items()}, index=index)


def _reindexed(column: pd.Series, index: pd.RangeIndex) -> pd.Series:
    column.index = index
    return column


def _from_text(column: pa.ChunkedArray, meaning: Feature | None) -> pd.Series:
    """The cells of a CSV column by what the schema says of it."""
    if meaning is not None and meaning.kind in ("numeric", "integer") and not meaning.missing_values:
        return _numbers(column)
    coded = pc.dictionary_encode(column.combine_chunks())
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    known = set() if meaning is None else {*meaning.levels, *meaning.missing_values}
    texts = [_category(text, known) for text in coded.dictionary.to_pylist()]
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    place = {text: i for i, text in enumerate(distinct)} | {None: -1}
    codes = np.array([*(place[text] for text in texts), -1])[coded.indices.to_numpy(zero_copy_only=False)]
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(distinct, dtype="object")))


def _category(text: str, known: set[str]) -> str | None:
    """The category that a cell names: "3.0" is 3 and " a" is a where the schema knows those."""
    if text in known:
        return text
    bare = text.strip()
    if bare in known:
        return bare
    if bare in MISSING_WORDS:
        return None
    try:
        number = float(bare)
    except ValueError:
        return text
    whole = str(int(number)) if number.is_integer() else bare
    return whole if whole in known else text


def _numbers(column: pa.ChunkedArray) -> pd.Series:
    """Floats, or, where a cell is no number, floats and that cell's text."""
    bare = pc.utf8_trim_whitespace(column)
    bare = pc.if_else(pc.is_in(bare, pa.array(MISSING_WORDS)), None, bare)
    try:
        numbers = pc.cast(bare, pa.float64())
    except pa.ArrowInvalid:
        texts = bare.to_pandas().astype("object")
        parsed = pd.to_numeric(texts, errors="coerce")
        mixed: pd.Series = parsed.astype("object").where(parsed.notna() | texts.isna(), texts)
        return mixed
    return pd.Series(numbers.to_numpy())
