"""From coordinates back to what a person reads: raw numbers and the names of categories.

Members of the realizable domain decode to plain values. A relaxed individual is nobody in particular, so its
mixtures are spelled out: ``female 0.70 / male 0.30``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isonomy.population.domain import BoolArray, FloatArray
from isonomy.population.feature import Feature


def decode_column(block: FloatArray, feature: Feature, words: bool) -> pd.Series:
    """Raw values of one feature's coordinates ``(n, width)``."""
    if feature.kind == "categorical":
        return pd.Series(_mixtures(block, feature, words), name=feature.name, dtype="str")
    missing = block[:, 1] if feature.flagged else np.zeros(len(block))
    values, whole = _raw_numbers(block[:, 0], feature)
    partly = bool(((missing != 0) & (missing != 1)).any())
    if feature.kind == "ordinal":
        cells = _mark([_level(value, feature, words) for value in values], missing, feature)
        return pd.Series(cells, name=feature.name, dtype="str")
    if partly:
        return pd.Series(_mark(values.tolist(), missing, feature), name=feature.name, dtype="object")
    if feature.kind == "integer" and whole.all():
        numbers = pd.Series(values.astype(np.int64), name=feature.name)
        return numbers.astype("Int64").mask(missing == 1) if feature.flagged else numbers
    return pd.Series(np.where(missing == 1, np.nan, values), name=feature.name)


def _raw_numbers(coordinate: FloatArray, feature: Feature) -> tuple[FloatArray, BoolArray]:
    """``coordinate * unit + origin``, and which of them are exact whole numbers."""
    values = coordinate * feature.unit + feature.origin
    low, high = feature.coordinate(feature.low), feature.coordinate(feature.high)
    inside = (coordinate >= low) & (coordinate <= high)  # rounding must not push a member out of its range
    values = np.where(inside, np.clip(values, feature.low, feature.high), values)
    rounded = np.rint(values)
    whole = (rounded - feature.origin) / feature.unit == coordinate
    on_lattice = whole if feature.kind in ("integer", "ordinal") else np.zeros_like(whole)
    return np.where(on_lattice, rounded, values), on_lattice


def _mixtures(block: FloatArray, feature: Feature, words: bool) -> list[str]:
    names = [_spoken(level, feature, words) for level in feature.levels]
    cells = [names[i] for i in np.argmax(block, axis=1)]
    pure = ((block == 0) | (block == 1)).all(axis=1) & (block.sum(axis=1) == 1)
    for row in np.flatnonzero(~pure):
        shares = block[row]
        largest_first = [i for i in np.argsort(-shares, kind="stable") if shares[i] != 0]
        cells[row] = " / ".join(f"{names[i]} {shares[i]:.2f}" for i in largest_first) or "none"
    return cells


def _level(rank: float, feature: Feature, words: bool) -> str:
    last = len(feature.categories) - 1
    if not 0 <= rank <= last:
        return f"rank {rank:.2f}"
    if rank == round(rank):
        return _spoken(feature.categories[int(rank)], feature, words)
    pair = feature.categories[int(rank) : int(rank) + 2]
    return f"between {' and '.join(_spoken(level, feature, words) for level in pair)} ({rank:.2f})"


def _mark(cells: list[Any], missing: FloatArray, feature: Feature) -> list[Any]:
    """A missing share of 1 hides the value; a share in between is written beside it."""
    absent = feature.missing_label if feature.kind == "ordinal" else np.nan
    marked = [absent if share == 1 else cell for cell, share in zip(cells, missing, strict=True)]
    for row in np.flatnonzero((missing != 0) & (missing != 1)):
        shown = f"{cells[row]:.6g}" if isinstance(cells[row], float) else cells[row]
        marked[row] = f"{shown} ({feature.missing_label} {missing[row]:.2f})"
    return marked


def _spoken(level: str, feature: Feature, words: bool) -> str:
    return feature.labels.get(level, level) if words else level
