"""From the cells of one column to coordinates.

:func:`encode_column` never raises on a bad cell: it marks the row and remembers why, so that the schema can
name the first one, or exclude and count such rows.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from isonomy.errors import DataError, ParameterError, template
from isonomy.population.domain import BoolArray, FloatArray
from isonomy.population.feature import LARGEST_NUMBER, LARGEST_WHOLE, Feature

_UNKNOWN, _ABSENT = -1, -2  # in place of a rank
_SHOWN = 12  # categories listed in an error


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


def keep_rows(columns: list[Cells], unknown: str) -> BoolArray:
    """The rows whose cells can all be read; with ``unknown="error"`` the first that cannot is an error."""
    if unknown not in ("error", "exclude"):
        raise ParameterError(template("unknown", "'error' or 'exclude'", unknown))
    kept: BoolArray = ~np.logical_or.reduce([cells.bad for cells in columns])
    if kept.all() or (unknown == "exclude" and kept.any()):
        return kept
    first = next(cells.complaint() for cells in columns if cells.bad.any())
    raise DataError(first if unknown == "error" else f"Not one row fits the schema. {first}")


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
    codes, distinct = pd.factorize(_hashable(column))
    ranks = np.array([*(table.get(text_of(value), _UNKNOWN) for value in distinct), absent], dtype=np.intp)[codes]
    bad, missing = ranks == _UNKNOWN, ranks == _ABSENT
    safe = np.maximum(ranks, 0)
    if feature.kind == "categorical":
        return Cells(np.eye(feature.width)[safe], bad, column, "one of the categories", feature.levels)
    coordinates = _scaled(np.where(missing, feature.fill_value, safe), missing, feature)
    return Cells(coordinates, bad, column, "one of the levels", feature.levels)


def _scaled(values: FloatArray, missing: BoolArray, feature: Feature) -> FloatArray:
    """The coordinate of each value, followed by the flag of a feature that has one."""
    coordinate = (values - feature.origin) / feature.unit
    return np.column_stack([coordinate, missing])[:, : feature.width]


def _hashable(column: pd.Series) -> pd.Series:
    """Mixed cells by their text: lists have no hash, and 1 and True share theirs."""
    return column.map(text_of, na_action="ignore") if column.dtype == "object" else column.astype("object")


def _numbers(column: pd.Series) -> FloatArray:
    """Cells as floats, NaN where a cell is no number; dates are no numbers."""
    if column.dtype.kind in "mMc":
        return np.full(len(column), np.nan)
    if column.dtype == "object" or column.dtype.kind not in "biuf":
        column = pd.to_numeric(column.astype("object"), errors="coerce")
    return column.to_numpy(dtype=np.float64, na_value=np.nan)
