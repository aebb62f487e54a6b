"""Guesses about single columns, as a colleague would make them: ages, whole numbers, codes, dates, further outcomes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from isonomy.population import Feature
from isonomy.population.encoding import text_of
from isonomy.population.feature import LARGEST_WHOLE

AGREES = 0.85
"""Share of rows from which on a column of two values, named like the outcome, is taken for another outcome."""

FEW_CLASSES = 20
"""A number with more values than these is an amount, and no class."""

MOSTLY = 0.9
"""Share of cells from which on a column holds what they look like."""

RARE, FEW = 0.005, 5
"""A category is rare below this share of the rows, or below this many."""

_AGE = re.compile(r"(?i)(^|[_\s.-])age($|[_\s.-])")
_CODE = re.compile(r"(?i)(^|[_\s.-])(zip|zip_?code|postal|post_?code|plz)")
_DATE = (
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}|\d{1,2}[-/.]\d{4}|\d{4}[-/]\d{1,2}"
)
_AMOUNT = r"[$€£]?\s*[+-]?\d[\d.,' ]*\s*(%|[$€£]|[A-Za-z]{1,6})?"
_COMMON = "class count data label level number outcome rate result score status target total type year years"


def refined(feature: Feature, column: pd.Series) -> Feature:
    """Return the feature of a column of numbers with the values that the data show: whole numbers where all are whole,
    and of ages and protected numbers, which counterparts may take freely, no value beyond those of the table."""
    if feature.kind not in ("numeric", "integer"):
        return feature
    values = column.dropna().to_numpy(dtype=np.float64)
    whole = bool((values == np.round(values)).all()) and float(np.abs(values).max()) < LARGEST_WHOLE / 4
    if feature.kind == "numeric" and whole and len(np.unique(values)) > 1:
        fill = None if feature.fill is None else float(round(feature.fill_value))
        below, above = float(math.floor(feature.low)), float(math.ceil(feature.high))
        feature = replace(feature, kind="integer", low=below, high=above, origin=math.nan, unit=math.nan, fill=fill)
    low, high = float(values.min()), float(values.max())
    if (feature.protected or feature.proxy or _AGE.search(feature.name)) and low < high:
        return replace(feature, low=low, high=high, origin=math.nan, unit=math.nan)
    return feature


def is_code(name: str) -> bool:
    """Return whether a column is called as codes of places are."""
    return bool(_CODE.search(name))


def holds_dates(column: pd.Series) -> str:
    """Return why a column of texts is no category where its cells are dates; "" otherwise."""
    texts = column.dropna().astype(str).str.strip()
    if not len(texts) or texts.str.fullmatch(_DATE).mean() < MOSTLY:
        return ""
    return f"it holds dates, such as {texts.iloc[0]!r}: turn them into numbers, such as years or days, to use them"


def holds_amounts(texts: pd.Series) -> str:
    """Return why a column of texts is no category where its cells are numbers with a unit; "" otherwise."""
    if not len(texts) or texts.str.fullmatch(_AMOUNT).mean() < MOSTLY:
        return ""
    return f"its cells are numbers written as texts, such as {texts.iloc[0]!r}: turn them into numbers to use them"


def further_outcomes(table: pd.DataFrame, label: str, others: Iterable[str]) -> dict[str, str]:
    """Return which of the ``others`` look like the outcome itself, and why: named like the ``label``, and so alike that
    one gives the other away."""
    words = _words(label)
    outcome = table[label].map(text_of, na_action="ignore")
    alike: dict[str, str] = {}
    for name in others:
        shared = sorted(words & _words(name))
        if shared and outcome.nunique() > FEW_CLASSES and table[label].dtype.kind in "iuf":
            if _gives_away(table[label], table[name]):
                alike[name] = (
                    f"it looks like another outcome: {shared[0]!r} is in its name, too, and it says most of what "
                    f"{label!r} does"
                )
            continue
        if not shared or outcome.nunique() != 2 or table[name].nunique() != 2:
            continue
        counts = pd.crosstab(outcome, table[name].map(text_of, na_action="ignore")).to_numpy()
        total = counts.sum()
        agree = max(np.trace(counts), total - np.trace(counts)) / total if counts.shape == (2, 2) and total else 0.0
        if agree >= AGREES:
            alike[name] = (
                f"it looks like another outcome: {shared[0]!r} is in its name, too, and it agrees with {label!r} in "
                f"{100 * agree:.0f} % of the rows"
            )
    return alike


def _gives_away(outcome: pd.Series, other: pd.Series) -> bool:
    """Return whether another column is nearly a number's ranks, or bands of it: each value stands for one range."""
    if other.dtype.kind in "iuf" and other.nunique() > FEW_CLASSES:
        return bool(abs(outcome.rank().corr(other.rank())) >= AGREES)
    groups = other.map(text_of, na_action="ignore").iloc[np.argsort(outcome.to_numpy())].dropna()
    return 1 < groups.nunique() <= FEW_CLASSES and int((groups != groups.shift()).sum()) == groups.nunique()


def _words(name: str) -> frozenset[str]:
    """Return the words of a column's name that say something."""
    return frozenset(word for word in re.findall(r"[a-z]{4,}", name.lower()) if word not in _COMMON.split())


def rare_categories(feature: Feature, column: pd.Series) -> str:
    """Return the phrase for categories that few people have; "" without such."""
    counts = column.dropna().map(text_of).value_counts()
    few = counts[counts < max(FEW, RARE * len(column))]
    shown = ", ".join(f"{name!r} ({count})" for name, count in few.head(3).items())
    more = f" and {len(few) - 3} more" if len(few) > 3 else ""
    return f" Rare: {shown}{more}." if len(few) and feature.kind == "categorical" else ""
