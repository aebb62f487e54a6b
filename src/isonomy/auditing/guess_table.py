"""A table that nobody has described yet: how its file is written, what its columns hold.

Everything here is a guess that a person reads and corrects: :class:`Guess` says of each what it rests on.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from isonomy.auditing.plan import Roles
from isonomy.datasets.catalogue import ENTRIES
from isonomy.errors import DataError, FileError, ParameterError, SchemaError, first_line
from isonomy.population import Dialect, Feature, Schema, Split
from isonomy.population.encoding import MISSING_WORDS
from isonomy.population.feature import LARGEST_WHOLE
from isonomy.population.tables import CSV, PARQUET, open_text

MARKS = ("?", "-", ".", "*", "--", "unknown", "Unknown")
"""Cells that stand for a missing number where all other cells of the column are numbers."""

_SEPARATORS = (",", ";", "\t", "|")
_IDENTIFIER = re.compile(r"(?i:(^|[_\s.-])(id|index|uuid|row|nr|no)$|^unnamed|^$)|[a-z](I[dD]|Nr|No)$")
_DISTINCT = 50  # a text column with more values is a name or a note, not a category


@dataclass(frozen=True)
class Guess:
    """A schema that was guessed, with a remark on each column, and the columns that were left out."""

    schema: Schema
    remarks: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def read_unknown(path: Path) -> tuple[pd.DataFrame, Dialect, dict[str, tuple[str, ...]]]:
    """The cells of a table with types, how its file is written, and which cells of numeric columns mean missing."""
    name = path.name.lower()
    if str(path) in ENTRIES:
        raise FileError(
            f"'{path}' is a table of the catalogue and has a schema already: 'isonomy datasets fetch {path}'."
        )
    if not path.is_file():
        raise FileError(f"Table {path} cannot be read: there is no such file.")
    if name.endswith(PARQUET):
        try:
            return pd.read_parquet(path), Dialect(), {}
        except (OSError, ValueError) as error:
            raise FileError(f"Table {path} cannot be read as Parquet: {first_line(error)}.") from error
    if not name.endswith(CSV):
        raise FileError(f"Table {path} cannot be read: its name must end in .parquet, .pq, {', '.join(CSV)}.")
    dialect = _dialect(path)
    try:
        with open_text(path, dialect.encoding) as file:
            header = next(csv.reader(file, delimiter=dialect.separator), [])
        twice = next((name for name in header if name and header.count(name) > 1), None)
        if twice is not None:  # an audit refuses it too, and pandas would give the second another name
            raise DataError(f"Table {path} has two columns called {twice!r}; names must differ.")
        with open_text(path, dialect.encoding) as file:
            texts = pd.read_csv(file, sep=dialect.separator, dtype=str, keep_default_na=False, index_col=False)
    except (OSError, ValueError, csv.Error) as error:
        raise FileError(f"Table {path} cannot be read as CSV: {' '.join(str(error).split())}.") from error
    if not len(texts):
        raise DataError(f"Table {path} is empty: it has no row.")
    if dialect.separator == ";" and _decimal_commas(texts):
        dialect = replace(dialect, decimal=",")
    typed = {column: _typed(texts[column], dialect.decimal) for column in texts.columns}
    marks = {str(column): found for column, (_, found) in typed.items() if found}
    return pd.DataFrame({column: values for column, (values, _) in typed.items()}), dialect, marks


def guess_schema(table: pd.DataFrame, marks: dict[str, tuple[str, ...]], name: str, roles: Roles) -> Guess:
    """A schema of a table; what cannot be guessed is left out, unless a role was given to it."""
    single = {"label": roles.label, "weight": roles.weight, "split-column": roles.split_column}
    several = {"protected": roles.protected, "proxy": roles.proxy, "ignore": roles.ignore}
    taken: dict[str, str] = {}
    for role, columns in ({role: (name,) for role, name in single.items() if name is not None} | several).items():
        for column in columns:
            if taken.setdefault(column, role) != role:
                both = f"--{taken[column]} and --{role}"
                raise ParameterError(f"Column {column!r} has one role. Got {both}: copy the column to give it both.")
    ignored = set(roles.ignore)
    named = set(taken) - ignored
    for column in (*named, *ignored):
        if column not in table.columns:
            raise DataError(f"The table has no column {column!r}; it has {', '.join(map(repr, table.columns))}.")
    left_out = dict.fromkeys(ignored, "as asked")
    for column in table.columns:
        if column not in named and column not in ignored and (reason := _unusable(table[column])):
            left_out[str(column)] = reason
    where = None if roles.split_column is None else _split(table[roles.split_column])
    schema = Schema.infer(
        table, name=name, label=roles.label, protected=roles.protected, proxies=roles.proxy, weight=roles.weight,
        split=where, ignore=tuple(left_out), max_categories=max(_DISTINCT, 200),
    )  # fmt: skip
    features = tuple(
        replace(each, missing_values=marks[each.name]) if each.name in marks and each.flagged else each
        for each in schema.features
    )
    schema = replace(schema, features=features)
    return Guess(schema, {each.name: _remark(each, table[each.name]) for each in features}, left_out)


def _dialect(path: Path) -> Dialect:
    encoding = "utf-8"
    try:
        with open_text(path, encoding) as file:
            header = file.readline()
            while file.read(1 << 20):
                pass
    except UnicodeDecodeError:
        encoding = "latin-1"
        with open_text(path, encoding) as file:
            header = file.readline()
    except OSError as error:
        raise FileError(f"Table {path} cannot be read: {error.strerror or error}.") from error
    bare = re.sub(r'"[^"]*"', "", header)
    if header.startswith("\ufeff"):
        encoding = "utf-8-sig"
    return Dialect(max(_SEPARATORS, key=bare.count), encoding)


def _decimal_commas(texts: pd.DataFrame) -> bool:
    """Whether some column holds numbers only when commas are read as decimal marks."""
    columns = (texts[column].str.strip() for column in texts.columns)
    known = (cells[~cells.isin((*MISSING_WORDS, *MARKS))] for cells in columns)
    return any(cells.str.fullmatch(r"[+-]?\d*,?\d+").all() and cells.str.contains(",").any() for cells in known)


def _typed(texts: pd.Series, decimal: str) -> tuple[pd.Series, tuple[str, ...]]:
    """Numbers where all cells that are there are numbers, else texts; and the cells that stood for missing.

    Whole numbers of more digits than a float holds are names, and texts.
    """
    bare = texts.str.strip()
    present = ~bare.isin(MISSING_WORDS)
    shown = bare
    if decimal == ",":  # a point is then none
        shown = bare.mask(bare.str.contains(".", regex=False), "").str.replace(",", ".", regex=False)
    for marks in ((), MARKS):
        counted = present & ~bare.isin(marks)
        numbers = pd.to_numeric(shown[counted], errors="coerce")
        if counted.any() and numbers.notna().all() and not shown[counted].str.fullmatch(r"[+-]?\d{16,}").any():
            whole = shown[counted].str.fullmatch(r"[+-]?\d{1,15}").all()
            column = pd.Series(pd.NA, index=texts.index, dtype="Int64" if whole else "Float64", name=texts.name)
            column[counted] = numbers.astype("Int64" if whole else "Float64")
            found = tuple(sorted(set(bare[present & bare.isin(marks)])))
            if column.notna().all():
                return column.astype("int64" if whole else "float64"), found
            return (column if whole else column.astype("float64")), found
    return bare.where(present, None), ()


def _unusable(column: pd.Series) -> str:
    """Why a column cannot be a feature; "" if it can."""
    if column.isna().all():
        return "it holds no value"
    if column.dtype.kind in "mMc":
        return f"it holds {column.dtype} values: turn them into numbers to use them"
    if column.dtype.kind in "iu" and max(-int(column.min()), int(column.max())) > LARGEST_WHOLE // 4:
        return "its whole numbers are too large: turn them into texts or smaller numbers to use them"
    distinct = column.nunique()
    if _IDENTIFIER.search(str(column.name)) and distinct == len(column):
        return "it looks like an identifier: every row has another value"
    if column.dtype.kind not in "iufb" and distinct > _DISTINCT:
        return f"it has {distinct} different texts"
    return ""


def _split(column: pd.Series) -> Split:
    values = sorted({str(value) for value in column.dropna()})
    for train, test in (("train", "test"), ("Train", "Test"), ("training", "test"), ("0", "1"), ("False", "True")):
        if {train, test} <= set(values):
            return Split(str(column.name), train, test)
    raise SchemaError(
        f"Column {column.name!r} cannot be guessed as a split: it holds {', '.join(map(repr, values[:5]))}, no "
        "'train' and 'test'; leave --split-column out and write [split] by hand."
    )


def _remark(feature: Feature, column: pd.Series) -> str:
    """What a guess rests on."""
    gaps = int(column.isna().sum())
    missing = f"; {gaps} missing" if gaps else ""
    if feature.kind in ("numeric", "integer"):
        low, high = f"{column.min():g}", f"{column.max():g}"
        codes = column.nunique() <= 12 and feature.kind == "integer"
        advice = " If these are codes, write categories instead." if codes else ""
        return f"guess: {low} … {high} in this table, widened{missing}. low, high: what anybody can have.{advice}"
    return f"guess: the {len(feature.categories)} values in this table{missing}. Add those that it does not show."
