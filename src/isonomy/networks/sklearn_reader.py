"""Read a fitted scikit-learn estimator, alone or behind its preprocessing, as a network on fair coordinates; also one
that was saved by skops, a format without pickles.

The pipeline itself says how raw rows become features, so the adapter is taken from it and the certificate is about raw
rows: coordinates -> raw cells -> features, all affine, then the estimator. One table goes from the estimator to its
rule, one from the transformer. A transformer's rule takes the columns that it reads and gives those that it makes;
encoders are run on each category, so that ``drop``, ``handle_unknown``, rare categories and
gaps are theirs.

**Soundness.** Estimators and transformers are read by their exact type; what is not an affine function of the
coordinates is refused. Outputs are put into the order of the schema's classes.
**Safety.** skops lists the types that a file asks for before it makes any of them; only its own trusted ones, and some
plain parts of fitted models, are accepted. How much the file unpacks to is added up before that: every mention of an
array is read anew, and an array is made in the shape that its own first bytes say.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import compose, decomposition, feature_selection, impute, linear_model, neural_network, pipeline, svm
from sklearn import preprocessing as scalers
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV

from isonomy.errors import FileError, NetworkError, ParameterError, UnsupportedOperationError, needed, template
from isonomy.networks import preprocessing
from isonomy.networks.builder import Builder, ReadModel, Value
from isonomy.networks.combined import COMBINED, Result
from isonomy.networks.graph import Head, HeadChoice
from isonomy.networks.inputs import ReaderContext, in_class_order, model_columns
from isonomy.networks.limits import Allowance, open_archive, read_member, reading
from isonomy.networks.preprocessing import Cell, Choice, Column, ExactAffine, Number, Table, as_choice, cell_of, exact
from isonomy.networks.unread import why_unread
from isonomy.population.toml import TEXT, read_json


def read_sklearn(estimator: Any, given: ReaderContext, head: HeadChoice) -> ReadModel:
    """Return the graph of a fitted estimator or pipeline up to its raw outputs, and its head."""
    schema = given.schema
    if not isinstance(estimator, BaseEstimator):
        _refuse_known(estimator)
        raise ParameterError(template("estimator", "a fitted scikit-learn estimator or pipeline", type(estimator)))
    with reading(type(estimator).__name__, absent="is not fitted, or not as expected"):
        steps, last = _split_pipeline(estimator)
        _rule(last)
        source: Value | Table
        if schema is None:
            builder = Builder((int(last.n_features_in_),), allowance=given.allowance)
            source = builder.input
        else:
            first = (*steps, last)[0]
            while type(first) is pipeline.Pipeline:
                first = next(step for _, step in first.steps if not _does_nothing(step))
            names = getattr(first, "feature_names_in_", None)
            width = int(first.n_features_in_)
            columns = model_columns(given, names=None if names is None else list(map(str, names)), width=width)
            builder = Builder((schema.width,), allowance=given.allowance)
            source = Table(tuple(columns), (len(columns),))
        output, own = _read(builder, source, estimator, head)
        independent = own == "sigmoid" and output.width > 1  # answers of their own, not classes
        finished = builder.finish(output, "regression" if own == "probability" else own)
        read = in_class_order(replace(finished, head=own), schema, () if independent else _classes(last))
        if head not in ("auto", own):
            raise NetworkError(f"{type(last).__name__} has the head '{own}', so head='{head}' cannot be.")
        return read


def _read(builder: Builder, source: Value | Table, estimator: Any, head: HeadChoice = "auto") -> Result:
    """Return the raw outputs of an estimator or pipeline that reads columns or numbers, and what they mean."""
    steps, last = _split_pipeline(estimator)
    rule = _rule(last)
    if steps and not isinstance(source, Table):
        raise NetworkError("a pipeline reads raw rows: give the schema that describes them.")
    if isinstance(source, Table):
        columns = list(source.columns)
        for step in steps:
            columns = _transformed(step, columns)
        source = Table(tuple(columns), (len(columns),))
    if source.width != last.n_features_in_:
        raise NetworkError(f"it reads {last.n_features_in_} features, but {source.width} arrive.")
    if type(last) in COMBINED:
        return COMBINED[type(last)](builder, source, last, partial(_read, builder))
    builder.at = "adapter"
    value = builder.numeric(source)
    builder.at = type(last).__name__
    return rule(builder, value, last, head)


def _split_pipeline(estimator: Any) -> tuple[list[Any], Any]:
    """Return the preprocessing steps that do something, and the estimator at the end."""
    if type(estimator) is pipeline.Pipeline:
        *before, last = (step for _, step in _unmodified(estimator).steps)
        inner, core = _split_pipeline(last)
        return [step for step in before if not _does_nothing(step)] + inner, core
    if type(estimator) is FrozenEstimator:
        return _split_pipeline(_unmodified(estimator).estimator)
    if isinstance(estimator, BaseSearchCV) and hasattr(estimator, "best_estimator_"):
        kinds = type(estimator).__mro__
        if any(name in vars(kind) for kind in kinds[: kinds.index(BaseSearchCV)] for name in _ANSWERS):
            raise UnsupportedOperationError(f"{type(estimator).__name__} predicts by a method of its own.")
        return _split_pipeline(_unmodified(estimator).best_estimator_)  # the search predicts with its best
    return [], estimator


def _does_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


_ANSWERS = ("predict", "predict_proba", "decision_function")


def _unmodified(part: Any) -> Any:
    """Return the part; refuse one of which a method was replaced, since its type does not say what it does."""
    replaced = next((name for name in (*_ANSWERS, "transform") if name in vars(part)), None)
    if replaced:
        raise UnsupportedOperationError(f"the method '{replaced}' of {type(part).__name__} was replaced.")
    return part


def _refuse_known(estimator: Any) -> None:
    """Refuse a model of whose kind, or of whose bases' kind, it is known why it cannot be read."""
    why = why_unread(*(f"{kind.__module__}.{kind.__qualname__}" for kind in type(estimator).__mro__))
    if why:
        raise UnsupportedOperationError(f"the estimator {type(estimator).__name__} cannot be read: {why}.")


def _rule(estimator: Any) -> Callable[..., Result]:
    rule = _ESTIMATORS.get(type(estimator))
    if type(estimator) in COMBINED:
        _unmodified(estimator)
        return COMBINED[type(estimator)]
    if rule is None:
        _refuse_known(estimator)
        raise UnsupportedOperationError(
            f"the estimator {type(estimator).__name__} cannot be read: neural networks (MLPClassifier, MLPRegressor) "
            "and linear models can; docs/reference/formats.md names them all."
        )
    if not any(hasattr(estimator, attribute) for attribute in ("coef_", "coefs_")):
        raise NetworkError(f"{type(estimator).__name__} is not fitted.")
    _unmodified(estimator)
    return rule


def _perceptron(builder: Builder, x: Value, estimator: Any, head: Any) -> Result:
    kind = {"logistic": "sigmoid", "identity": None}.get(estimator.activation, estimator.activation)
    for layer, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        x = builder.matmul(builder.activation(x, kind) if layer and kind else x, weight, bias)
    heads: dict[str, Head] = {"softmax": "softmax", "logistic": "sigmoid", "identity": "regression"}
    if estimator.out_activation_ not in heads:
        raise UnsupportedOperationError(f"an output activation '{estimator.out_activation_}' is not supported.")
    return x, heads[estimator.out_activation_]


def _probabilities(builder: Builder, x: Value, estimator: Any, head: Any) -> Result:
    """Read a linear model whose probabilities are the sigmoid or the softmax of its decision."""
    weight, bias = np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)
    if hasattr(estimator, "loss") and estimator.loss != "log_loss":
        return _decision(builder, x, estimator, head)
    ovr = getattr(estimator, "multi_class", "") == "ovr" or getattr(estimator, "solver", "") == "liblinear"
    if len(weight) > 1 and (ovr or isinstance(estimator, linear_model.SGDClassifier)):
        raise UnsupportedOperationError("several classes, one against the rest, divided by their sum: not a softmax.")
    if len(weight) == 1 and getattr(estimator, "multi_class", "") == "multinomial":
        weight, bias = 2 * weight, 2 * bias  # older versions: the softmax of minus and plus the decision
    return builder.matmul(x, weight.T, bias), "sigmoid" if len(weight) == 1 else "softmax"


def _decision(builder: Builder, x: Value, estimator: Any, head: Any) -> Result:
    """Read a linear classifier without probabilities: only the number that it decides by."""
    if head != "regression":
        raise UnsupportedOperationError(
            f"{type(estimator).__name__} gives no probabilities: say head='regression' to certify its decision value."
        )
    return _number(builder, x, estimator, head)


def _number(builder: Builder, x: Value, estimator: Any, head: Any) -> Result:
    return builder.matmul(x, np.atleast_2d(estimator.coef_).T, estimator.intercept_), "regression"


def _classes(estimator: Any) -> tuple[str, ...]:
    own_classes = getattr(estimator, "classes_", ())
    return tuple(str(cell_of(each)) for each in own_classes) if np.ndim(own_classes) == 1 else ()


_ESTIMATORS: dict[type, Callable[[Builder, Value, Any, Any], Result]] = {
    **dict.fromkeys((neural_network.MLPClassifier, neural_network.MLPRegressor), _perceptron),
    **dict.fromkeys((linear_model.LogisticRegression, linear_model.LogisticRegressionCV), _probabilities),
    **dict.fromkeys((linear_model.SGDClassifier, LinearDiscriminantAnalysis), _probabilities),
    **dict.fromkeys((svm.LinearSVC, linear_model.RidgeClassifier, linear_model.RidgeClassifierCV), _decision),
    **dict.fromkeys((linear_model.Perceptron,), _decision),
    **dict.fromkeys((linear_model.LinearRegression, linear_model.Ridge, linear_model.RidgeCV), _number),
    **dict.fromkeys((linear_model.Lasso, linear_model.LassoCV, linear_model.LassoLars, linear_model.Lars), _number),
    **dict.fromkeys((linear_model.ElasticNet, linear_model.ElasticNetCV, linear_model.BayesianRidge), _number),
    **dict.fromkeys((linear_model.HuberRegressor, linear_model.SGDRegressor, svm.LinearSVR), _number),
    **dict.fromkeys((linear_model.QuantileRegressor, linear_model.TheilSenRegressor), _number),
}


# -- preprocessing

Columns = list[Column]


def _transformed(step: Any, columns: Columns) -> Columns:
    """Return the columns that one fitted transformer makes of others."""
    if _does_nothing(step):
        return columns
    if isinstance(step, str) and step == "drop":
        return []
    label = type(step).__name__
    rule = _RULES.get(type(step))
    if rule is None:
        reason = _REFUSED.get(label, "it is not among those that are affine")
        raise UnsupportedOperationError(
            f"the transformer {label} cannot be read: {reason}; docs/reference/formats.md names those that can."
        )
    width = getattr(step, "n_features_in_", len(columns))
    if width != len(columns):
        raise NetworkError(f"{label} was fitted on {width} columns but gets {len(columns)}.")
    with reading(label, absent="is not fitted"):
        return rule(_unmodified(step), columns)


def _pipeline(step: Any, columns: Columns) -> Columns:
    for _, inner in step.steps:
        columns = _transformed(inner, columns)
    return columns


def _union(step: Any, columns: Columns) -> Columns:
    return _side_by_side(step, [(name, inner, columns) for name, inner in step.transformer_list])


def _by_column(step: Any, columns: Columns) -> Columns:
    """Apply each transformer to the columns at its places, as the pipeline does when it predicts."""
    places = step._transformer_to_input_indices
    return _side_by_side(
        step, [(name, inner, [columns[i] for i in places[name]]) for name, inner, _ in step.transformers_]
    )


def _side_by_side(step: Any, parts: Iterable[tuple[str, Any, Columns]]) -> Columns:
    """Apply transformers to their columns, each times its weight."""
    weights = step.transformer_weights or {}
    made: Columns = []
    for name, inner, read in parts:
        if read:
            with reading(f"'{name}'"):
                own = _transformed(inner, read)
            made += preprocessing.scaled(own, times=[weights[name]]) if weights.get(name, 1) != 1 else own
    return made


def _scale(**parts: str) -> Callable[[Any, Columns], Columns]:
    """Return the rule ``(x - minus) * times / over + plus``, each named by the attribute that holds it."""

    def rule(step: Any, columns: Columns) -> Columns:
        given = {part: getattr(step, attribute) for part, attribute in parts.items()}
        if not getattr(step, "with_mean", True):
            given["minus"] = None  # the means may be stored all the same
        made = preprocessing.scaled(columns, **{part: each for part, each in given.items() if each is not None})
        limits = getattr(step, "feature_range", (-1.0, 1.0)) if getattr(step, "clip", False) else None
        return made if limits is None else preprocessing.clipped(made, *limits)

    return rule


def _encode(step: Any, columns: Columns) -> Columns:
    """Run the encoder on every category of each column beside one category of the others; a lookup of one column
    results in each column of its output."""
    known = [list(map(cell_of, values)) for values in step.categories_]
    if any(cells.count(None) > 1 for cells in known):
        raise UnsupportedOperationError("None and NaN are two categories; write one of them for a missing cell.")
    choices = [as_choice(column, cells) for column, cells in zip(columns, known, strict=True)]
    inputs = [  # the cell that stands for each value of each column
        choice.entries({cell_of(value): value for value in values}, partial(_unknown_cell, step, choice))
        for choice, values in zip(choices, step.categories_, strict=True)
    ]
    return _looked_up(choices, inputs, partial(_run, step))


def _looked_up(choices: list[Choice], inputs: list[list[Any]], run: Callable[[list[list[Any]]], Any]) -> Columns:
    """Return the results of a transformer that is run on every value of each column, ``inputs``, with one fixed
    value of the others."""
    usual = [cells[0] for cells in inputs]
    tables = [run([[*usual[:i], cell, *usual[i + 1 :]] for cell in cells]) for i, cells in enumerate(inputs)]
    made: Columns = []
    for outputs in zip(*(table.T for table in tables), strict=True):
        varying = [i for i, values in enumerate(outputs) if len(np.unique(values)) > 1]
        if len(varying) > 1:
            raise NetworkError("one of its results depends on two columns.")
        choice, values = choices[(*varying, 0)[0]], outputs[(*varying, 0)[0]]
        made.append(choice.numbers([None if np.isnan(v) else exact(v, choice.name) for v in values]))
    return made


def _unknown_cell(step: Any, choice: Choice, spellings: tuple[Cell, ...]) -> Any:
    """Return a cell that an encoder does not know, if it can take one."""
    if getattr(step, "handle_unknown", "value") == "error":
        encoder = "the encoder, which refuses it (handle_unknown='error')"
        raise preprocessing.unknown_to(encoder, choice.name, spellings)
    return np.nan if spellings == (None,) else next(cell for cell in spellings if cell is not None)


def _run(step: Any, rows: list[list[Any]]) -> Any:
    """Run the encoder on rows of cells; a text in a column of numbers becomes a number not seen in training."""
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
        return _dense(step.transform(frame if hasattr(step, "feature_names_in_") else frame.to_numpy()))


def _dense(result: Any) -> Any:
    return np.asarray(result.toarray() if hasattr(result, "toarray") else result, dtype=np.float64)


def _cut(step: Any, columns: Columns) -> Columns:
    """Run a transformer that cuts numbers on every value of columns that hold finitely many."""
    if any(isinstance(each, Number) and each.integer_range is None for each in columns):
        raise UnsupportedOperationError(_REFUSED[type(step).__name__])
    choices = [as_choice(replace(each, noted=None)) for each in columns]
    preprocessing.required_values(choices)  # which refuses gaps
    inputs = [[float(value or 0) for value in preprocessing.numbers_held(each)] for each in choices]
    names = getattr(step, "feature_names_in_", None)

    def run(rows: list[list[Any]]) -> Any:
        table = np.array(rows, dtype=np.float64)
        return _dense(step.transform(table if names is None else pd.DataFrame(table, columns=names)))

    return _looked_up(choices, inputs, run)


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
    return [Number(columns[i].name, flag or ExactAffine.of(preprocessing.ZERO)) for i, flag in flags.items()]


def _function(step: Any, columns: Columns) -> Columns:
    if step.func is np.log1p and not step.kw_args:
        return preprocessing.logarithms(columns)
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
    **dict.fromkeys((scalers.KBinsDiscretizer, scalers.Binarizer), _cut),
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
    "KBinsDiscretizer": "bins of a number are steps, which have no slope; they are read of whole numbers "
    "(kind = 'integer') from a low to a high that are less than 1,024 apart",
    "Binarizer": "a threshold of a number is a step, which has no slope; it is read of whole numbers "
    "(kind = 'integer') from a low to a high that are less than 1,024 apart",
    "KNNImputer": "its fill depends on other individuals",
    "IterativeImputer": "its fill depends on whether other columns are missing",
}


# -- skops files

# Parts of fitted networks, calibrations and votes that skops does not list itself: plain holders of numbers and parts.
_TRUSTED = (
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.preprocessing._label.LabelBinarizer",
    "sklearn.utils._bunch.Bunch",
)


def read_skops(path: Path, given: ReaderContext, head: HeadChoice) -> ReadModel:
    """Return the graph of the estimator in a skops file; an unknown type is refused before anything is made."""
    files = needed("skops.io", "sklearn", f"Reading '{path}'")
    _check_size(path, given.allowance)
    untrusted = [name for name in files.get_untrusted_types(file=path) if name not in _TRUSTED]
    if untrusted:
        why = why_unread(*sorted(untrusted))
        raise FileError(
            f"'{path}' is not read: it asks for {', '.join(sorted(untrusted))}, and only what networks, linear models "
            f"and their preprocessing are made of is trusted{why and f': {why}'}."
        )
    return read_sklearn(files.load(path, trusted=list(_TRUSTED)), given, head)


def _check_size(path: Path, allowance: Allowance) -> None:
    """Refuse what is larger than the file could honestly hold."""
    with open_archive(path, allowance) as archive:
        waiting, size = [read_json(read_member(archive, "schema.json", TEXT), "Its description")], 0
        while waiting:
            part = waiting.pop()
            waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            if not isinstance(part, dict) or "file" not in part:
                continue
            if part.get("__loader__") == "SparseMatrixNode":  # an archive of its own
                raise FileError(f"'{path}' is not read: it holds a sparse matrix.")
            name = str(part["file"])
            size += _array_bytes(archive, name) if part.get("__loader__") == "NdArrayNode" else 0
            size += archive.getinfo(name).file_size
            if size > allowance.unpacked:
                raise FileError(f"'{path}' unpacks to more than the supported size.")


def _array_bytes(archive: zipfile.ZipFile, name: str) -> int:
    """Return the bytes of an array by its own header."""
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = header(file)
    return math.prod(shape) * kind.itemsize
