"""From cells to coordinates: one :class:`Coding` for each feature, whatever its cells were read from; and back.

Columns of pandas frames are encoded here, those of CSV files become such columns first, and the service reads JSON by
the same codings (:func:`encode_cells`). :func:`encode_column` never raises on a bad cell but marks the row, so that
such rows can be excluded and counted, or the first one named (:func:`complaint`).

Decoded, members of the realizable domain are plain values. A relaxed individual is no real person, so its
mixtures are spelled out: ``female 0.70 / male 0.30``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isonomy.errors import DataError, ParameterError, template
from isonomy.population.domain import BoolArray, FloatArray
from isonomy.population.feature import LARGEST_NUMBER, LARGEST_WHOLE, Feature

UNKNOWN, ABSENT = -1, -2
"""In place of a rank: a cell that the schema does not know, and a missing value that is filled in beside a flag."""

MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A", "-nan", "-NaN", "n/a")
"""Texts that stand for a missing value in CSV files, unless the schema knows them."""

LARGEST_CODE = 2.0**53
"""Whole numbers from here on may have been others before they became floats."""

_SHOWN = 12  # categories listed in an error
_BLOCK = 1 << 16  # rows encoded at a time: what is needed meanwhile stays small beside the result


class Coding:
    """How the values of one feature become coordinates.

    ``ranks`` gives the rank of every text that is known: levels, and what stands for a missing value. ``absent`` is the
    rank of a cell without a value. Numbers lie between ``low`` and ``high``; ``stand_ins`` mean that there is none.
    """

    def __init__(self, feature: Feature) -> None:
        self.feature, self.whole = feature, feature.kind == "integer"
        self.numeric = feature.kind in ("numeric", "integer")
        self.ranks = {level: rank for rank, level in enumerate(feature.levels)}
        self.absent = UNKNOWN
        if feature.flagged or feature.missing == "category":
            self.absent = ABSENT if feature.flagged else self.ranks[feature.missing_label]
            names = feature.missing_values if self.numeric else (*feature.missing_values, feature.missing_label)
            self.ranks |= dict.fromkeys(names, self.absent)
        read = map(_number, feature.missing_values if self.numeric else ())
        self.stand_ins = [number for number in read if number is not None]
        self.ranks |= dict.fromkeys(map(text_of, self.stand_ins), self.absent)  # -9.0 is also written -9
        largest = LARGEST_WHOLE if self.whole else LARGEST_NUMBER
        self.low, self.high = max(feature.low, -largest), min(feature.high, largest)

    @cached_property
    def codes(self) -> dict[int, int]:
        """Return the ranks of texts that are whole numbers, by those numbers."""
        return {int(name): rank for name, rank in self.ranks.items() if _is_code(name)}

    @property
    def number_words(self) -> str:
        """Return the words for the numbers that are right."""
        return f"a {'whole' if self.whole else 'finite'} number from {self.low:.15g} to {self.high:.15g}"


def encode_column(column: pd.Series, coding: Coding) -> tuple[FloatArray, BoolArray]:
    """Encode one column of raw values: its coordinates ``(n, width)``, and which rows are unusable."""
    feature = coding.feature
    values: NDArray[Any]
    if coding.numeric:
        values, missing = _numbers(column), column.isna().to_numpy(dtype=bool)
        if feature.missing_values:
            texts = column.map(text_of, na_action="ignore")
            missing = missing | texts.isin(feature.missing_values).to_numpy(dtype=bool)
            missing = missing | np.isin(values, coding.stand_ins)
        with np.errstate(invalid="ignore"):
            fits = (values >= coding.low) & (values <= coding.high)
            bad = ~(fits & (values == np.rint(values)) if coding.whole else fits)
    else:
        codes, distinct = pd.factorize(_hashable(column))  # texts are made of the distinct values only
        known = [*(coding.ranks.get(text_of(value), UNKNOWN) for value in distinct), coding.absent]
        values = np.array(known, dtype=np.intp)[codes]
        missing, bad = values == ABSENT, values == UNKNOWN
        if feature.kind == "categorical":
            return np.take(np.eye(feature.width), np.where(bad, 0, values), axis=0), bad
    if feature.flagged:
        values, bad = np.where(missing, feature.fill_value, values), bad & ~missing
    coordinate = feature.coordinate(np.where(bad, 0.0, values))
    return np.stack([coordinate, missing], axis=1) if feature.flagged else coordinate[:, None], bad


def encode_cells(rows: Sequence[Mapping[str, Any]], codings: Sequence[Coding]) -> FloatArray:
    """Encode rows of plain cells, all of which their codings know: finite numbers within the limits, names or codes of
    categories, None for a missing value. Columns become numbers first, so that the rest is done once for all."""
    starts = np.cumsum([0, *(coding.feature.width for coding in codings)])
    x = np.zeros((len(rows), starts[-1]))
    one_hot, scaled = list[tuple[int, list[Any], Feature]](), list[tuple[int, list[Any], Feature]]()
    for coding, start in zip(codings, starts.tolist(), strict=False):
        feature, name = coding.feature, coding.feature.name
        values: list[Any] = [row[name] for row in rows]
        if not coding.numeric:
            values = _ranks(values, coding)
        if feature.flagged:
            known = coding.ranks if coding.numeric else (ABSENT,)
            missing = [value is None or (text_of(value) if coding.numeric else value) in known for value in values]
            values = [feature.fill_value if absent else value for value, absent in zip(values, missing, strict=True)]
            x[:, start + 1] = missing
        (one_hot if feature.kind == "categorical" else scaled).append((start, values, feature))
    if scaled:
        places, numbers, features = zip(*scaled, strict=True)
        origin, unit = (np.array([[getattr(each, end)] for each in features]) for end in ("origin", "unit"))
        x[:, places] = ((np.array(numbers, dtype=np.float64) - origin) / unit).T
    if one_hot:
        places, ranks, _ = zip(*one_hot, strict=True)
        x[np.arange(len(rows)), np.array(places)[:, None] + np.array(ranks)] = 1.0
    return x


def _ranks(cells: Sequence[Any], coding: Coding) -> list[int]:
    kinds = set(map(type, cells))
    if kinds == {str}:
        return [coding.ranks[cell] for cell in cells]
    if kinds == {int}:  # a text for each cell would cost more than the rest
        return [coding.codes[cell] for cell in cells]
    return [coding.absent if cell is None else coding.ranks[text_of(cell)] for cell in cells]


def complaint(column: pd.Series, coding: Coding) -> str:
    """Return one sentence about the first unusable cell of a column that has one."""
    _, bad = encode_column(column, coding)
    where, feature = int(np.argmax(bad)), coding.feature
    value, row = column.iloc[where], column.index[where]
    missing = bool(pd.api.types.is_scalar(value) and pd.isna(value))
    shown = "a missing value" if missing else repr(value.item() if isinstance(value, np.generic) else value)
    if coding.numeric:
        fill = not feature.flagged and bool(column[bad].isna().any())
        right = coding.number_words + " (declare a 'fill' value if it may be missing)" * fill
    else:
        near = difflib.get_close_matches(text_of(value), feature.levels, n=1)
        right = "one of the categories " if feature.kind == "categorical" else "one of the levels "
        right += ", ".join(map(repr, feature.levels[:_SHOWN])) + ", …" * (len(feature.levels) > _SHOWN)
        right += f" (did you mean {near[0]!r}?)" if near and not missing else ""
    others = int(bad.sum()) - 1
    more = f"; {others} more row{'s' * (others > 1)} of this column cannot be read either" if others else ""
    return f"Column {column.name!r}, row {row}: {shown} is not {right}{more}."


def find_column(table: pd.DataFrame, name: str) -> pd.Series:
    """Return one column, or raise an error that lists those of the table."""
    if name not in table.columns:
        raise DataError(f"The table has no column {name!r}; it has {', '.join(map(repr, table.columns))}.")
    return table[name]


def encode_table(
    table: pd.DataFrame,
    features: Sequence[Feature],
    singles: Sequence[Feature],
    unknown: str,
    allow_empty: bool = False,
) -> tuple[FloatArray, list[FloatArray], BoolArray]:
    """Encode a table: coordinates ``(n, m)``, the one coordinate of each single (label, weight), rows kept.

    With ``unknown="error"`` the first cell that cannot be read is an error; with ``"exclude"`` such rows are left out
    of all that is returned, and the mask of the rows kept says which; one at least must be left, unless
    ``allow_empty``. The result is the only array of its size: large tables are encoded block by block into it.
    """
    if unknown not in ("error", "exclude"):
        raise ParameterError(template("unknown", "'error' or 'exclude'", unknown))
    n, codings = len(table), [Coding(feature) for feature in (*features, *singles)]
    columns = [find_column(table, coding.feature.name) for coding in codings]
    stops = np.cumsum([0, *(feature.width for feature in features)]).tolist()
    x, alone = np.empty((n, stops[-1])), [np.empty(n) for _ in singles]
    targets = [*(x[:, start:stop] for start, stop in pairwise(stops)), *(a[:, None] for a in alone)]
    kept, readable = np.ones(n, dtype=bool), np.ones(len(columns), dtype=bool)
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        for i, (column, coding) in enumerate(zip(columns, codings, strict=True)):
            targets[i][rows], bad = encode_column(column.iloc[rows], coding)
            kept[rows] &= ~bad
            readable[i] &= not bad.any()
    if kept.all():
        return x, alone, kept
    if unknown == "error" or not (allow_empty or kept.any()):
        i = int(np.argmin(readable))
        first = complaint(columns[i], codings[i])
        raise DataError(first if unknown == "error" else f"Not one row fits the schema. {first}")
    return x[kept], [values[kept] for values in alone], kept


def text_of(value: Any) -> str:
    """Return the category that a cell names: 3, 3.0 and "3" are one, since a missing cell turns 3 into 3.0."""
    if isinstance(value, str):
        return value
    if isinstance(value, (float, np.floating)) and float(value).is_integer() and abs(float(value)) < LARGEST_CODE:
        return str(int(value))
    return str(value)


def _number(text: str) -> float | None:
    """Return the number of a text, written as usual: Python would also take 1_0 and digits of all scripts."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def _is_code(name: str) -> bool:
    """Say whether a category is the text of a whole number, so that it may also be written as that number."""
    return name.isascii() and name.removeprefix("-").isdecimal() and str(int(name)) == name


def _hashable(column: pd.Series) -> pd.Series:
    """Return mixed cells by their text: lists have no hash, and 1 and True share theirs."""
    plain = isinstance(column.dtype, np.dtype) and (column.dtype.kind in "iu" or column.dtype == np.float64)
    if plain or isinstance(column.dtype, pd.CategoricalDtype):
        return column
    return column.map(text_of, na_action="ignore") if column.dtype == "object" else column.astype("object")


def _numbers(column: pd.Series) -> FloatArray:
    """Return cells as floats, NaN where a cell is no number; dates are no numbers."""
    if column.dtype.kind in "mMc":
        return np.full(len(column), np.nan)
    if column.dtype == "object" or column.dtype.kind not in "biuf":
        cells = column.astype("object")
        unreadable = np.array([_is_no_float(cell) for cell in cells], dtype=bool)
        column = pd.to_numeric(cells.mask(unreadable, np.nan) if unreadable.any() else cells, errors="coerce")
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _is_no_float(cell: Any) -> bool:
    """Say whether a cell is a number of which pandas would drop a part, or at which it would fail."""
    return isinstance(cell, complex | np.complexfloating) or (isinstance(cell, int) and abs(cell) > LARGEST_NUMBER)


def from_text(column: pa.ChunkedArray, meaning: Feature | None, decimal: str) -> pd.Series:
    """Return the cells of a CSV column by what the schema says of it; without a meaning they are texts."""
    if meaning is not None and meaning.kind in ("numeric", "integer"):
        column = _decimal_points(column, meaning.missing_values) if decimal == "," else column
        if not meaning.missing_values:
            return _text_numbers(column)
    coded = pc.dictionary_encode(column.combine_chunks())
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    known = set() if meaning is None else {*meaning.levels, *meaning.missing_values}
    texts = [_category(text, known) for text in coded.dictionary.to_pylist()]
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    place = {text: i for i, text in enumerate(distinct)} | {None: -1}
    codes = np.array([*(place[text] for text in texts), -1])[coded.indices.to_numpy(zero_copy_only=False)]
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(distinct, dtype="object")))


def _decimal_points(column: pa.ChunkedArray, known: Sequence[str]) -> pa.ChunkedArray:
    """Write decimal commas as points, but in cells that the schema knows; with a point already, it is no number."""
    stays = pc.is_in(pc.utf8_trim_whitespace(column), pa.array(known, pa.string()))
    remark = pc.binary_join_element_wise(column, "(a point, where commas are decimal marks)", " ")
    pointed = pc.if_else(pc.match_substring(column, "."), remark, pc.replace_substring(column, ",", "."))
    return pc.if_else(stays, column, pointed)


def _category(text: str, known: set[str]) -> str | None:
    """Return the category that a cell names: "3.0" is 3 and " a" is a where the schema knows those."""
    if text in known:
        return text
    trimmed = text.strip()
    if trimmed in known:
        return trimmed
    if trimmed in MISSING_WORDS:
        return None
    number = _number(trimmed)
    return text_of(number) if number is not None and number.is_integer() and text_of(number) in known else text


def _text_numbers(column: pa.ChunkedArray) -> pd.Series:
    """Return floats, or, where a cell is no number, floats and that cell's text."""
    trimmed = pc.utf8_trim_whitespace(column)
    trimmed = pc.if_else(pc.is_in(trimmed, pa.array(MISSING_WORDS)), None, trimmed)
    try:
        numbers = pc.cast(trimmed, pa.float64())
    except pa.ArrowInvalid:
        texts = trimmed.to_pandas().astype("object")
        parsed = pd.to_numeric(texts, errors="coerce")
        mixed: pd.Series = parsed.astype("object").where(parsed.notna() | texts.isna(), texts)
        return mixed
    return pd.Series(numbers.to_numpy())


def decode_column(block: FloatArray, feature: Feature, words: bool) -> pd.Series:
    """Decode one feature's coordinates ``(n, width)`` to raw values."""
    names = [feature.labels.get(level, level) if words else level for level in feature.levels]
    if feature.kind == "categorical":
        return pd.Series(_mixtures(block, names), name=feature.name, dtype="str")
    missing = block[:, 1] if feature.flagged else np.zeros(len(block))
    values, whole = _raw_numbers(block[:, 0], feature)
    if feature.kind == "ordinal":
        cells = _mark([_level(value, names) for value in values], missing, feature)
        return pd.Series(cells, name=feature.name, dtype="str")
    if ((missing != 0) & (missing != 1)).any():
        return pd.Series(_mark(values.tolist(), missing, feature), name=feature.name, dtype="object")
    if feature.kind == "integer" and whole.all():
        numbers = pd.Series(values.astype(np.int64), name=feature.name)
        return numbers.astype("Int64").mask(missing == 1) if feature.flagged else numbers
    return pd.Series(np.where(missing == 1, np.nan, values), name=feature.name)


def _raw_numbers(coordinate: FloatArray, feature: Feature) -> tuple[FloatArray, BoolArray]:
    """Return ``coordinate * unit + origin``, and which of them are exact whole numbers of a lattice."""
    values = coordinate * feature.unit + feature.origin
    low, high = feature.coordinate(feature.low), feature.coordinate(feature.high)
    inside = (coordinate >= low) & (coordinate <= high)  # rounding must not push a member out of its range
    values = np.where(inside, np.clip(values, feature.low, feature.high), values)
    rounded = np.rint(values)
    whole = (feature.coordinate(rounded) == coordinate) & (feature.kind in ("integer", "ordinal"))
    return np.where(whole, rounded, values), whole


def _mixtures(block: FloatArray, names: Sequence[str]) -> list[str]:
    cells = [names[i] for i in np.argmax(block, axis=1)]
    pure = ((block == 0) | (block == 1)).all(axis=1) & (block.sum(axis=1) == 1)
    for row in np.flatnonzero(~pure):
        shares = block[row]
        largest_first = [i for i in np.argsort(-shares, kind="stable") if shares[i] != 0]
        cells[row] = " / ".join(f"{names[i]} {shares[i]:.2f}" for i in largest_first) or "none"
    return cells


def _level(rank: float, names: Sequence[str]) -> str:
    if not 0 <= rank <= len(names) - 1:
        return f"rank {rank:.2f}"
    if rank == round(rank):
        return names[int(rank)]
    return f"between {' and '.join(names[int(rank) : int(rank) + 2])} ({rank:.2f})"


def _mark(cells: list[Any], missing: FloatArray, feature: Feature) -> list[Any]:
    """Hide a value whose missing share is 1; a share in between is written beside it."""
    absent = feature.missing_label if feature.kind == "ordinal" else np.nan
    marked = [absent if share == 1 else cell for cell, share in zip(cells, missing, strict=True)]
    for row in np.flatnonzero((missing != 0) & (missing != 1)):
        shown = f"{cells[row]:.6g}" if isinstance(cells[row], float) else cells[row]
        marked[row] = f"{shown} ({feature.missing_label} {missing[row]:.2f})"
    return marked
