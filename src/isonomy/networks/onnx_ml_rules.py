"""What exporters of whole pipelines (skl2onnx) write: operators on raw cells, and those of the domain ``ai.onnx.ml``.

Two tables from the operator to its rule: :data:`TABLES` for standard operators that read raw cells and leave them
cells, :data:`CLASSICAL` for the operators of classical machine learning.

**Soundness.** As in :mod:`isonomy.networks.onnx_rules`: exactly the operator's definition, or a refusal that says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks import preprocessing
from isonomy.networks.build import Value, numbers
from isonomy.networks.columns import Cell, Choice, Column, cell_of, shown
from isonomy.networks.onnx_rules import Call, reference
from isonomy.networks.tables import Table, joined, moved, numeric

_KINDS = {
    **dict.fromkeys((TensorProto.FLOAT, TensorProto.DOUBLE), "float"),
    **dict.fromkeys((TensorProto.INT64, TensorProto.INT32), "int"),
    TensorProto.STRING: "text",
}


# -- standard operators on tables; None means: not as cells, so let the usual rule read the numbers


def _layout(call: Call, x: Any, *others: Any) -> Any:
    if not isinstance(x, Table) or any(isinstance(each, Value | Table) for each in others):
        return None
    results = reference(call.node, call.opset, [call.builder.positions(x), *others])
    try:
        return tuple(moved(call.builder, x, each) for each in results)
    except NetworkError:
        return None


def _gather(call: Call, x: Any, index: Any) -> Any:
    if isinstance(index, Table) and not isinstance(x, Value | Table):
        if call("axis", 0) not in (0, -np.ndim(x)):
            raise UnsupportedOperationError("a lookup must take whole rows of its matrix.")
        return _looked_up(index, x)
    return _layout(call, x, index)


def _one_hot(call: Call, x: Any, depth: Any, values: Any) -> Any:
    """The standard operator: ``values`` are what stands off and on the place of the index."""
    off_on = None if isinstance(values, Value | Table) else numbers(values).tolist()
    if not isinstance(x, Table) or isinstance(depth, Value | Table) or off_on != [0.0, 1.0] or call("axis", -1) != -1:
        return None
    return _looked_up(x, np.eye(int(np.reshape(depth, ()))))


def _looked_up(x: Table, matrix: Any) -> Table:
    return x.encoded(np.shape(matrix)[-1], lambda column: preprocessing.embedded(column, matrix))


def _cast(call: Call, x: Any, *_: Any) -> Any:
    target = call("to", TensorProto.FLOAT)
    if target not in _KINDS:
        raise UnsupportedOperationError(f"a conversion to {helper.tensor_dtype_to_string(target)} is not supported.")
    for column in x.columns:
        if _KINDS[target] != "float" and not isinstance(column, Choice) and column.whole is None:
            raise UnsupportedOperationError(
                f"column '{column.name}': a conversion that cuts a number is not supported."
            )
    return x


def _concat(call: Call, *parts: Any) -> Any:
    return joined(call.builder, parts, call("axis", 1)) if all(isinstance(each, Table) for each in parts) else None


TABLES: dict[str, Callable[..., Any]] = {
    "Identity": lambda call, x: x,
    "Cast": _cast,
    "Concat": _concat,
    "Gather": _gather,
    "OneHot": _one_hot,
    **dict.fromkeys(("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Split", "Expand"), _layout),
}


# -- the operators of ai.onnx.ml


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
    names = [cell_of(each) for each in _plain(call("cats_strings", []) or call("cats_int64s", []))]

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
    default = {"s": call("default_string", b"_Unused").decode(), "i": call("default_int64", -1)}
    other: Any = default["s"] if isinstance(values[0], str) else default["i"]
    if isinstance(values[0], float):
        other = call("default_float", 0.0)
    if "default_tensor" in call.attributes:
        other = _plain(numpy_helper.to_array(call("default_tensor", None)))[0]
    known = {cell_of(key): value for key, value in zip(keys, values, strict=True)}
    columns = [preprocessing.relabelled(column, known, lambda _: other) for column in _cells(x).columns]
    return Table(tuple(columns), x.shape)


def _listed(call: Call, part: str) -> list[Any]:
    for kind in ("strings", "int64s", "floats", "tensor"):
        found = call(f"{part}_{kind}", None)
        if found is not None:
            return _plain(numpy_helper.to_array(found) if kind == "tensor" else np.array(found, dtype=object))
    return []


def _plain(array: Any) -> list[Any]:
    return [each.decode() if isinstance(each, bytes) else each for each in np.ravel(array).tolist()]


def _cells(x: Any) -> Table:
    if not isinstance(x, Table):
        raise NetworkError("it reads raw cells: give the schema that describes them, load_network(path, schema).")
    return x


def _extract(call: Call, x: Any, index: Any) -> Any:
    places = np.ravel(numbers(index)).astype(np.int64)
    if isinstance(x, Table):
        return moved(call.builder, x, call.builder.positions(x)[..., places])
    return call.builder.place(x, lambda positions: positions[..., places])


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
    "FeatureVectorizer": lambda call, *parts: call.builder.concat([numeric(call.builder, each) for each in parts], 1),
    "LinearClassifier": _classifier,
    "LinearRegressor": _regressor,
    "Normalizer": _normalizer,
    "ZipMap": lambda call, x: x,
}


def class_names(call_attributes: dict[str, Any]) -> tuple[str, ...]:
    """The classes that a node names, in the order of its outputs."""
    for key in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
        if call_attributes.get(key):
            return tuple(str(cell_of(each)) for each in _plain(np.array(call_attributes[key], dtype=object)))
    return ()
