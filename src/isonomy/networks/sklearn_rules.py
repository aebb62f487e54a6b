"""The preprocessing steps of scikit-learn that can be read: one table from the transformer to its rule.

A rule takes a fitted transformer and the columns that it reads, and gives the columns that it makes. Encoders are asked
themselves what they make of each category, so that ``drop``, ``handle_unknown``, rare categories and gaps are theirs.

**Soundness.** A transformer is read by its exact type; what is not an affine function of the coordinates is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn import compose, decomposition, feature_selection, impute, pipeline
from sklearn import preprocessing as scalers

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks import preprocessing
from isonomy.networks.columns import Choice, Column, Number, as_choice, cell_of, shown
from isonomy.networks.exact_affine import ZERO, ExactAffine, exact
from isonomy.networks.reading import reading

Columns = list[Column]


def transformed(step: Any, columns: Columns) -> Columns:
    """The columns that one fitted transformer makes of others."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return columns
    if isinstance(step, str) and step == "drop":
        return []
    label = type(step).__name__
    rule = _RULES.get(type(step))
    if rule is None:
        reason = _REFUSED.get(label, "it is not among those that are affine")
        known = ", ".join(sorted(kind.__name__ for kind in _RULES))
        raise UnsupportedOperationError(f"the transformer {label} cannot be read: {reason}. Supported are: {known}.")
    width = getattr(step, "n_features_in_", len(columns))
    if width != len(columns):
        raise NetworkError(f"{label} was fitted on {width} columns but gets {len(columns)}.")
    with reading(label, absent="is not fitted"):
        return rule(step, columns)


def _pipeline(step: Any, columns: Columns) -> Columns:
    for _, inner in step.steps:
        columns = transformed(inner, columns)
    return columns


def _union(step: Any, columns: Columns) -> Columns:
    weights = step.transformer_weights or {}
    made: Columns = []
    for name, inner in step.transformer_list:
        made += _weighted(transformed(inner, columns), weights.get(name, 1))
    return made


def _by_column(step: Any, columns: Columns) -> Columns:
    names = [column.name for column in columns]
    made: Columns = []
    for name, inner, chosen in step.transformers_:
        read = [columns[i] for i in _positions(chosen, names)]
        if not read or (isinstance(inner, str) and inner == "drop"):
            continue
        with reading(f"'{name}'"):
            made += _weighted(transformed(inner, read), (step.transformer_weights or {}).get(name, 1))
    return made


def _positions(chosen: Any, names: Sequence[str]) -> list[int]:
    """Columns by name, number, mask or slice."""
    if isinstance(chosen, str | int | np.integer):
        chosen = [chosen]
    if isinstance(chosen, slice):
        edges = [names.index(each) if isinstance(each, str) else each for each in (chosen.start, chosen.stop)]
        last = edges[1] + 1 if isinstance(chosen.stop, str) else edges[1]  # a slice of names includes its end
        return list(range(len(names)))[edges[0] : last : chosen.step]
    listed = list(chosen)
    if listed and all(isinstance(each, bool | np.bool_) for each in listed):
        return [i for i, each in enumerate(listed) if each]
    unknown = [each for each in listed if isinstance(each, str) and each not in names]
    if unknown:
        raise NetworkError(f"there is no column '{unknown[0]}'; there are: {', '.join(map(repr, names))}.")
    return [names.index(each) if isinstance(each, str) else range(len(names))[each] for each in listed]


def _weighted(columns: Columns, weight: float) -> Columns:
    return columns if weight == 1 else preprocessing.scaled(columns, times=[weight])


def _scale(**parts: str) -> Callable[[Any, Columns], Columns]:
    """``(x - minus) * times / over + plus``, each named by the attribute that holds it."""

    def rule(step: Any, columns: Columns) -> Columns:
        if getattr(step, "clip", False):
            raise UnsupportedOperationError("clip=True is not affine; fit it with clip=False.")
        given = {part: getattr(step, attribute) for part, attribute in parts.items()}
        if not getattr(step, "with_mean", True):
            given["minus"] = None  # the means may be stored all the same
        return preprocessing.scaled(columns, **{part: each for part, each in given.items() if each is not None})

    return rule


def _encode(step: Any, columns: Columns) -> Columns:
    """The encoder is run on every category of each column beside one category of the others; a lookup of one column
    results in each column of its output."""
    choices = [as_choice(column) for column in columns]
    asked = [  # the cell that stands for each value of each column
        choice.found({cell_of(value): value for value in values}, _stranger(step, choice))
        for choice, values in zip(choices, step.categories_, strict=True)
    ]
    usual = [cells[0] for cells in asked]
    tables = [_run(step, [[*usual[:i], cell, *usual[i + 1 :]] for cell in cells]) for i, cells in enumerate(asked)]
    made: Columns = []
    for outputs in zip(*(table.T for table in tables), strict=True):
        varying = [i for i, values in enumerate(outputs) if len(np.unique(values)) > 1]
        if len(varying) > 1:
            raise NetworkError("one of its results depends on two columns.")
        choice, values = choices[(*varying, 0)[0]], outputs[(*varying, 0)[0]]
        made.append(choice.numbers([None if np.isnan(v) else exact(v, choice.name) for v in values]))
    return made


def _stranger(step: Any, choice: Choice) -> Callable[[Any], Any]:
    """A cell that an encoder does not know, if it can take one."""

    def otherwise(spellings: tuple[str | None, ...]) -> Any:
        if getattr(step, "handle_unknown", "value") == "error":
            raise NetworkError(
                f"the category {shown(spellings[0])} of column '{choice.name}' is in the schema but unknown to the "
                "encoder, which refuses it (handle_unknown='error')."
            )
        return np.nan if spellings == (None,) else next(cell for cell in spellings if cell is not None)

    return otherwise


def _run(step: Any, rows: list[list[Any]]) -> Any:
    """What the encoder makes of rows of cells; a text in a column of numbers becomes a number not seen in training."""
    cells: dict[Any, Any] = {}
    names = getattr(step, "feature_names_in_", range(len(step.categories_)))
    for i, (name, values) in enumerate(zip(names, step.categories_, strict=True)):
        column = [row[i] for row in rows]
        if values.dtype.kind in "iuf":
            unseen = np.nanmax([*np.abs(values), 0.0]) + 1.0
            read = pd.to_numeric(pd.Series(column, dtype=object), errors="coerce")
            column = [unseen if pd.isna(v) and not pd.isna(cell) else v for v, cell in zip(read, column, strict=True)]
            cells[name] = pd.Series(column, dtype=np.float64)
        else:
            cells[name] = pd.Series(column, dtype=object)
    frame = pd.DataFrame(cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = step.transform(frame if hasattr(step, "feature_names_in_") else frame.to_numpy())
    return np.asarray(result.toarray() if hasattr(result, "toarray") else result, dtype=np.float64)


def _impute(step: Any, columns: Columns) -> Columns:
    made: Columns = []
    gap = cell_of(step.missing_values)
    for column, statistic in zip(columns, step.statistics_, strict=True):
        value = cell_of(statistic)
        if value is None and not step.keep_empty_features:
            continue  # nothing was known in training: the column is dropped
        fill = statistic if isinstance(statistic, float | int | np.number) else value
        made += preprocessing.imputed([column], [0 if value is None else fill], gap)
    return made + (_indicate(step.indicator_, columns) if step.add_indicator else [])


def _indicate(step: Any, columns: Columns) -> Columns:
    flags = {i: preprocessing.indicator(columns[i], cell_of(step.missing_values)) for i in step.features_}
    return [Number(columns[i].name, flag or ExactAffine.of(ZERO)) for i, flag in flags.items()]


def _function(step: Any, columns: Columns) -> Columns:
    if step.func is not None:
        name = getattr(step.func, "__name__", repr(step.func))
        raise UnsupportedOperationError(
            f"the function {name} is not affine, so no exact adapter exists; apply it to the table, and let the schema "
            "describe the transformed column."
        )
    return columns


def _rotate(step: Any, columns: Columns) -> Columns:
    if getattr(step, "whiten", False):
        raise UnsupportedOperationError("whiten=True is not supported.")
    return preprocessing.rotated(columns, step.components_, getattr(step, "mean_", None), type(step).__name__.lower())


def _supported(step: Any, columns: Columns) -> Columns:
    return [columns[i] for i in step.get_support(indices=True)]


_RULES: dict[type, Callable[[Any, Columns], Columns]] = {
    pipeline.Pipeline: _pipeline,
    pipeline.FeatureUnion: _union,
    compose.ColumnTransformer: _by_column,
    scalers.StandardScaler: _scale(minus="mean_", over="scale_"),
    scalers.RobustScaler: _scale(minus="center_", over="scale_"),
    scalers.MaxAbsScaler: _scale(over="scale_"),
    scalers.MinMaxScaler: _scale(times="scale_", plus="min_"),
    **dict.fromkeys((scalers.OneHotEncoder, scalers.OrdinalEncoder, scalers.TargetEncoder), _encode),
    scalers.FunctionTransformer: _function,
    impute.SimpleImputer: _impute,
    impute.MissingIndicator: _indicate,
    decomposition.PCA: _rotate,
    decomposition.TruncatedSVD: _rotate,
    **dict.fromkeys((feature_selection.VarianceThreshold, feature_selection.SelectKBest), _supported),
    **dict.fromkeys((feature_selection.SelectPercentile, feature_selection.SelectFromModel), _supported),
}

_REFUSED = {
    "Normalizer": "dividing a row by its own norm is not affine",
    "PowerTransformer": "a power of a column is not affine",
    "QuantileTransformer": "quantiles are not affine",
    "PolynomialFeatures": "products of columns are not affine",
    "SplineTransformer": "splines are not affine",
    "KBinsDiscretizer": "cutting a number into bins is not affine; declare the bins as a category of the schema",
    "Binarizer": "a threshold is not affine",
    "KNNImputer": "its fill depends on other individuals",
    "IterativeImputer": "its fill depends on whether other columns are missing",
}
