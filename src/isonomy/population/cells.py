"""From the cells of one column to coordinates.

:func:`encode_column` never raises on a bad cell: it marks the row and remembers why, so that the schema can
name the first one, or exclude and count such rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from isonomy.errors import DataError, ParameterError, template
from isonomy.population.domain import BoolArray, FloatArray
from isonomy.population.feature import LARGEST_NUMBER, LARGEST_WHOLE, Feature

_UNKNOWN, _ABSENT = -1, -2  # in place of a rank
_SHOWN = 12  # categories listed in an error
_BLOCK = 1 << 16  # rows encoded at a time: what is needed meanwhile stays small beside the result


class NoRowFitsError(DataError):
    """Rows that do not fit were to be left out, and none was left."""


@dataclass(frozen=True)
class Cells:
    """The coordinates ``(n, width)`` of one column, which rows are unusable, and what would be right."""

    coordinates: FloatArray
    bad: BoolArray
    column: pd.Series
    right: str
    known: tuple[str, ...] = ()

    def complaint(self) -> str:
        """One sentence about the first unusable cell."""
        where = int(np.argmax(self.bad))
        value, row = self.column.iloc[where], self.column.index[where]
        missing = bool(pd.api.types.is_scalar(value) and pd.isna(value))
        shown = "a missing value" if missing else repr(value.item() if isinstance(value, np.generic) else value)
        right = self.right
        if self.known:
            near = difflib.get_close_matches(text_of(value), self.known, n=1)
            right += " " + ", ".join(map(repr, self.known[:_SHOWN])) + ", …" * (len(self.known) > _SHOWN)
            right += f" (did you mean {near[0]!r}?)" if near and not missing else ""
        others = int(self.bad.sum()) - 1
        more = f"; {others} more row{'s' * (others > 1)} of this column cannot be read either" if others else ""
        return f"Column {self.column.name!r}, row {row}: {shown} is not {right}{more}."


def encode_column(column: pd.Series, feature: Feature) -> Cells:
    """The coordinates of one column of raw values."""
    if feature.kind in ("numeric", "integer"):
        return _encode_numbers(column, feature)
    return _encode_levels(column, feature)


def find_column(table: pd.DataFrame, name: str) -> pd.Series:
    """One column, or an error that lists those there are."""
    if name not in table.columns:
        raise DataError(f"The table has no column {name!r}; it has {', '.join(map(repr, table.columns))}.")
    return table[name]


def encode_table(
    table: pd.DataFrame, features: Sequence[Feature], singles: Sequence[Feature], unknown: str
) -> tuple[FloatArray, list[FloatArray], BoolArray]:
    """The coordinates ``(n, m)`` of the features, the one coordinate of each single (label, weight), rows kept.

    With ``unknown="error"`` the first cell that cannot be read is an error; with ``"exclude"`` such rows are left out
    of all that is returned, and the mask of the rows kept says which. The result is the only array of its size: large
    tables are encoded block by block into it.
    """
    if unknown not in ("error", "exclude"):
        raise ParameterError(template("unknown", "'error' or 'exclude'", unknown))
    n = len(table)
    columns = [find_column(table, feature.name) for feature in (*features, *singles)]
    stops = np.cumsum([0, *(feature.width for feature in features)]).tolist()
    x, alone = np.empty((n, stops[-1])), [np.empty(n) for _ in singles]
    targets = [*(x[:, start:stop] for start, stop in pairwise(stops)), *(a[:, None] for a in alone)]
    kept, readable = np.ones(n, dtype=bool), np.ones(len(columns), dtype=bool)
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        for i, (column, feature) in enumerate(zip(columns, (*features, *singles), strict=True)):
            cells = encode_column(column.iloc[rows], feature)
            targets[i][rows] = cells.coordinates
            kept[rows] &= ~cells.bad
            readable[i] &= not cells.bad.any()
    if kept.all():
        return x, alone, kept
    if unknown == "error" or not kept.any():
        i = int(np.argmin(readable))
        first = encode_column(columns[i], (*features, *singles)[i]).complaint()
        raise DataError(first) if unknown == "error" else NoRowFitsError(f"Not one row fits the schema. {first}")
    return x[kept], [values[kept] for values in alone], kept


def text_of(value: Any) -> str:
    """The category that a cell names: 3, 3.0 and "3" are one, since a missing cell turns 3 into 3.0."""
    if isinstance(value, str):
        return value
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _encode_numbers(column: pd.Series, feature: Feature) -> Cells:
    missing = column.isna().to_numpy(dtype=bool)
    if feature.missing_values:
        texts = column.map(text_of, na_action="ignore")
        missing = missing | texts.isin(feature.missing_values).to_numpy(dtype=bool)
    values = _numbers(column)
    integer = feature.kind == "integer"
    largest = LARGEST_WHOLE if integer else LARGEST_NUMBER
    low, high = max(feature.low, -largest), min(feature.high, largest)
    with np.errstate(invalid="ignore"):
        bad = ~((values >= low) & (values <= high) & ((values == np.rint(values)) | (not integer)))
    right = f"a {'whole' if integer else 'finite'} number from {low:.15g} to {high:.15g}"
    if feature.flagged:
        values, bad = np.where(missing, feature.fill_value, values), bad & ~missing
    elif missing[bad].any():
        right += " (declare a 'fill' value if it may be missing)"
    return Cells(_scaled(np.where(bad, 0.0, values), missing, feature), bad, column, right)


def _encode_levels(column: pd.Series, feature: Feature) -> Cells:
    table = {level: rank for rank, level in enumerate(feature.levels)}
    absent = _UNKNOWN
    if feature.flagged or feature.missing == "category":
        absent = _ABSENT if feature.flagged else table[feature.missing_label]
        table |= dict.fromkeys((*feature.missing_values, feature.missing_label), absent)
    codes, distinct = pd.factorize(_hashable(column))  # texts are made of the distinct values only
    ranks = np.array([*(table.get(text_of(value), _UNKNOWN) for value in distinct), absent], dtype=np.intp)[codes]
    bad, missing = ranks == _UNKNOWN, ranks == _ABSENT
    safe = np.maximum(ranks, 0)
    if feature.kind == "categorical":
        one_hot = np.take(np.eye(feature.width), safe, axis=0)
        return Cells(one_hot, bad, column, "one of the categories", feature.levels)
    coordinates = _scaled(np.where(missing, feature.fill_value, safe), missing, feature)
    return Cells(coordinates, bad, column, "one of the levels", feature.levels)


def _scaled(values: FloatArray, missing: BoolArray, feature: Feature) -> FloatArray:
    """The coordinate of each value, followed by the flag of a feature that has one."""
    coordinate = (values - feature.origin) / feature.unit
    return np.column_stack([coordinate, missing])[:, : feature.width]


def _hashable(column: pd.Series) -> pd.Series:
    """Mixed cells by their text: lists have no hash, and 1 and True share theirs."""
    plain = isinstance(column.dtype, np.dtype) and (column.dtype.kind in "iu" or column.dtype == np.float64)
    if plain or isinstance(column.dtype, pd.CategoricalDtype):
        return column
    return column.map(text_of, na_action="ignore") if column.dtype == "object" else column.astype("object")


def _numbers(column: pd.Series) -> FloatArray:
    """Cells as floats, NaN where a cell is no number; dates are no numbers."""
    if column.dtype.kind in "mMc":
        return np.full(len(column), np.nan)
    if column.dtype == "object" or column.dtype.kind not in "biuf":
        column = pd.to_numeric(column.astype("object"), errors="coerce")
    return column.to_numpy(dtype=np.float64, na_value=np.nan)
