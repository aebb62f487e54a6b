"""Guessing features from a table: the rules are stated at :meth:`Schema.infer`.

**Soundness.** Every guess errs towards more possible individuals: wider ranges, numbers rather than whole
numbers, a place for missing values. A range taken from data is still a guess about people not in it, so a
guessed schema is meant to be read and corrected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from isonomy.errors import SchemaError
from isonomy.population.encoding import text_of
from isonomy.population.feature import LARGEST_NUMBER, LARGEST_WHOLE, Feature, FeatureKind, Label

_IDENTIFIER = re.compile(r"(?i:(^|[_\s.-])(id|index|uuid|row|nr|no|number)$|^unnamed|^$)|[a-z](I[dD]|Nr|No)$")
_COUNTER = re.compile(r"(?i:(^|[_\s.-])(index|row)$|^unnamed|^$)")  # says where a row stands rather than who it is
_MOST_CODES = 12  # a protected integer column with at most this many values holds codes, not amounts
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")  # what an object column may hold
_MOST_CLASSES = 20  # a label of numbers with more values is a regression


def infer_features(table: pd.DataFrame, roles: Mapping[str, set[str]], max_categories: int) -> tuple[Feature, ...]:
    """Infer one feature per column; ``roles`` says which columns are protected, proxies, immutable."""
    return tuple(
        _infer_feature(table[name], {role: name in columns for role, columns in roles.items()}, max_categories)
        for name in table.columns
    )


def find_identifiers(table: pd.DataFrame) -> list[str]:
    """Find the columns that are identifiers by their name and have another value in every row, the likeliest first."""
    names = [
        str(name)
        for name, column in table.items()
        if _IDENTIFIER.search(str(name)) and column.dtype.kind not in "fmMc" and column.nunique() == len(column)
    ]
    return sorted(names, key=lambda name: _COUNTER.search(name) is not None)


def infer_label(column: pd.Series) -> Label:
    """Infer classes in sorted order, or a regression for a column of numbers, whole or not, with many values."""
    _require_values(column)
    name = str(column.name)
    if column.dtype.kind in "iuf" and column.nunique() > _MOST_CLASSES:
        return Label(name)
    return Label(name, classes=_sorted_texts(column))


def _infer_feature(column: pd.Series, flags: dict[str, Any], max_categories: int) -> Feature:
    _require_values(column)
    if column.dtype == "object" and pd.api.types.infer_dtype(column, skipna=True) in _NUMBERS:
        column = pd.to_numeric(column).convert_dtypes()
    name, kind = str(column.name), column.dtype.kind
    if kind in "mMc":
        raise SchemaError(
            f"Column {name!r} holds {column.dtype} values: turn them into numbers, or 'ignore' the column."
        )
    codes = kind in "iu" and flags["protected"] and column.nunique() <= _MOST_CODES
    if kind in "iuf" and not codes:
        return _infer_number(column, flags)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        categories = tuple(text_of(value) for value in dtype.categories)
    else:
        categories = _sorted_texts(column)
    if len(categories) > max_categories:
        raise SchemaError(
            f"Column {name!r} has {len(categories)} categories, more than max_categories={max_categories}: "
            f"raise that number, or 'ignore' the column."
        )
    ordinal = isinstance(dtype, pd.CategoricalDtype) and bool(dtype.ordered)
    return with_levels(column, categories, flags, "ordinal" if ordinal else "categorical")


def with_levels(
    column: pd.Series, categories: tuple[str, ...], flags: dict[str, Any], kind: FeatureKind = "categorical"
) -> Feature:
    """Make the feature of a column of ``categories``, and of one more for gaps where it has any."""
    if column.isna().any():
        label = "missing"
        while label in categories:
            label += "_"
        flags = flags | {"missing": "category", "missing_label": label}
    return Feature(str(column.name), kind, categories=categories, **flags)


def _infer_number(column: pd.Series, flags: dict[str, Any]) -> Feature:
    name, integer = str(column.name), column.dtype.kind in "iu"
    values = column.dropna().to_numpy(dtype=np.float64)
    largest = (LARGEST_WHOLE if integer else LARGEST_NUMBER) / 4  # the range is widened
    too_large = ~(np.abs(values) <= largest)
    if too_large.any():
        at = int(np.argmax(too_large))
        row, value = next(iter(column.dropna().iloc[at : at + 1].items()))
        raise SchemaError(
            f"Column {name!r}, row {row}: {value} is not a number of size at most {largest:g}: turn names made of "
            "digits into texts, or 'ignore' the column."
        )
    low, high = widen(float(values.min()), float(values.max()), integer)
    fill = None
    if column.isna().any():
        fill = float(np.clip(np.median(values), low, high))
        fill = float(round(fill)) if integer else fill
    return Feature(name, "integer" if integer else "numeric", low=low, high=high, fill=fill, **flags)


def widen(low: float, high: float, integer: bool) -> tuple[float, float]:
    """Return a range of round numbers around ``low .. high``: multiples of 1, 2 or 5 times a power of ten.

    The step is about a tenth of the range. The range of non-negative data stays non-negative.
    """
    span = high - low
    if not span > max(1e-12 * max(abs(low), abs(high)), 1e-100):  # a constant, or nearly: its own size gives the scale
        span = max(abs(low), abs(high), 1e-100) if not integer and (low or high) else 1.0
    step = _round_step(span / 10, integer)
    below, above = math.floor(low / step) * step, math.ceil(high / step) * step
    below, above = min(below, low), max(above, high)  # the products above are rounded
    return (below, above) if below < above else (below, above + step)


def _round_step(size: float, integer: bool) -> float:
    power = 10.0 ** math.floor(math.log10(size))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= size * (1 - 1e-9))
    return max(1.0, float(round(step))) if integer else step


def _sorted_texts(column: pd.Series) -> tuple[str, ...]:
    """Return the distinct values as texts; numbers in numeric order, since "10" < "9" as text."""
    present = column.dropna()
    if present.dtype.kind in "iuf":
        return tuple(dict.fromkeys(text_of(value) for value in np.sort(present.unique())))
    return tuple(sorted({text_of(value) for value in present}))


def _require_values(column: pd.Series) -> None:
    if column.isna().all():
        raise SchemaError(f"Column {column.name!r} holds no value, so nothing can be guessed: 'ignore' it.")
