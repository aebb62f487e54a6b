"""The operators of classical machine learning (``ai.onnx.ml``) that exporters of whole pipelines (skl2onnx) write.

**Soundness.** As in :mod:`isonomy.networks.onnx_rules`: exactly the operator's definition, or a refusal that says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import numpy_helper

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks import preprocessing
from isonomy.networks.builder import Value, numbers
from isonomy.networks.columns import Cell, Column, cell_of, shown
from isonomy.networks.onnx_rules import Call
from isonomy.networks.tables import Table, joined, moved, numeric


def _scaler(call: Call, x: Any) -> Any:
    offset, scale = call("offset", [0.0]), call("scale", [1.0])
    if isinstance(x, Table):
        return Table(tuple(preprocessing.scaled(x.columns, minus=offset, times=scale)), x.shape)
    return call.builder.multiply(call.builder.subtract(x, np.array(offset)), np.array(scale))


def _imputer(call: Call, x: Any) -> Any:
    replaced = call("replaced_value_float", call("replaced_value_int64", 0))
    if not np.isnan(replaced):
        raise UnsupportedOperationError(f"a number ({replaced}) that means missing is not affine; use NaN.")
    fills = call("imputed_value_floats", None) or call("imputed_value_int64s", [])
    if not isinstance(x, Table):
        return x  # numbers of a network are never missing
    return Table(tuple(preprocessing.imputed(x.columns, fills)), x.shape)


def _encoder(call: Call, x: Any) -> Any:
    names = [cell_of(each) for each in _plain(list(call("cats_strings", []) or call("cats_int64s", [])))]

    def encoded(column: Column) -> list[Column]:
        def unknown(cells: tuple[Cell, ...]) -> None:
            if not call("zeros", 1):  # else what it does not know becomes zeros
                raise NetworkError(f"the category {shown(cells[0])} of column '{column.name}' is unknown to it.")

        return preprocessing.one_hot(column, names, unknown)

    return _cells(x).encoded(len(names), encoded)


def _label_encoder(call: Call, x: Any) -> Any:
    keys, values = (_listed(call, part) for part in ("keys", "values"))
    if not keys or len(keys) != len(values):
        raise NetworkError("it needs as many values as keys.")
    defaults = {str: ("default_string", b"_Unused"), int: ("default_int64", -1), float: ("default_float", 0.0)}
    (other,) = _plain([call(*defaults[type(values[0])])])
    if "default_tensor" in call.attributes:
        other = _plain(numpy_helper.to_array(call("default_tensor", None)))[0]
    known = {cell_of(key): value for key, value in zip(keys, values, strict=True)}
    columns = [preprocessing.relabelled(column, known, lambda _: other) for column in _cells(x).columns]
    return Table(tuple(columns), x.shape)


def _listed(call: Call, part: str) -> list[Any]:
    for kind in ("strings", "int64s", "floats", "tensor"):
        found = call(f"{part}_{kind}", None)
        if found is not None:
            return _plain(numpy_helper.to_array(found) if kind == "tensor" else list(found))
    return []


def _plain(array: Any) -> list[Any]:
    flat = array if isinstance(array, list) else np.ravel(array).tolist()
    return [each.decode() if isinstance(each, bytes) else each for each in flat]


def _cells(x: Any) -> Table:
    if not isinstance(x, Table):
        raise NetworkError("it reads raw cells: give the schema that describes them, load_network(path, schema).")
    return x


def _extract(call: Call, x: Any, index: Any) -> Any:
    return moved(call.builder, x, call.builder.positions(x)[..., np.ravel(numbers(index)).astype(np.int64)])


def _linear(call: Call, x: Any) -> Value:
    """The raw scores of a linear model."""
    value = numeric(call.builder, x)
    intercepts, flat = call("intercepts", []), np.array(call("coefficients", []), dtype=np.float64)
    if len(value.shape) != 1 or not flat.size or flat.size % value.width:
        raise NetworkError(f"its {flat.size} coefficients do not fit {value.width} features.")
    return call.builder.matmul(value, flat.reshape(-1, value.width).T, np.array(intercepts) if intercepts else None)


def _regressor(call: Call, x: Any) -> Value:
    if call("post_transform", b"NONE") != b"NONE":
        raise UnsupportedOperationError("a regression with a transformed output is not supported.")
    return _linear(call, x)


def _classifier(call: Call, x: Any) -> tuple[None, Value]:
    """Label and scores; the label is never read."""
    after = call("post_transform", b"NONE").decode()
    scores, builder = _linear(call, x), call.builder
    coefficients = np.array(call("coefficients", [])).reshape(scores.width, -1)
    intercepts = np.array(call("intercepts", None) or np.zeros(scores.width))
    mirrored = scores.width == 2 and (coefficients[0] == -coefficients[1]).all() and intercepts[0] == -intercepts[1]
    if after == "SOFTMAX" and scores.width > 1:
        return None, builder.softmax(scores, 1)
    if after == "LOGISTIC" and mirrored:
        likely = builder.activation(builder.place(scores, lambda p: p[:, 1:]), "sigmoid")
        return None, builder.concat([builder.add(builder.scaled(likely, -1.0), 1.0), likely], 1)
    if after == "LOGISTIC" and scores.width > 2:
        return None, builder.activation(scores, "sigmoid")
    if after == "NONE" and scores.width > 1:
        return None, scores
    raise UnsupportedOperationError(f"{scores.width} rows of scores with the ending {after} are not supported.")


def _normalizer(call: Call, x: Any) -> Any:
    if isinstance(x, Value) and call("norm", b"MAX") == b"L1" and call.builder.ends_in_softmax(x):
        return x  # probabilities sum to one already
    raise UnsupportedOperationError("dividing a row by its own norm is not affine.")


CLASSICAL: dict[str, Callable[..., Any]] = {
    "Scaler": _scaler,
    "Imputer": _imputer,
    "OneHotEncoder": _encoder,
    "LabelEncoder": _label_encoder,
    "ArrayFeatureExtractor": _extract,
    "FeatureVectorizer": lambda call, *parts: joined(call.builder, [numeric(call.builder, each) for each in parts], 1),
    "LinearClassifier": _classifier,
    "LinearRegressor": _regressor,
    "Normalizer": _normalizer,
    "ZipMap": lambda call, x: x,
}


def class_names(call_attributes: dict[str, Any]) -> tuple[str, ...]:
    """The classes that a node names, in the order of its outputs."""
    for key in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
        if call_attributes.get(key):
            return tuple(str(cell_of(each)) for each in _plain(list(call_attributes[key])))
    return ()
