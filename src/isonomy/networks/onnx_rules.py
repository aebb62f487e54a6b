"""The operators of ONNX that can be read: a table from the operator to its rule, and one for ``ai.onnx.ml``.

A rule takes the operands in the order of the operator, constants or tensors of the individual, and gives its
outputs; attributes that a node leaves out have the default of its opset. Operators that only move entries share one
rule, which runs the reference operator on positions.

**Soundness.** A rule gives exactly the function of the operator's definition, in real arithmetic, in every opset;
attributes that would change it (training mode, an axis that mixes, a conversion that rounds) are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.reference
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks import operations, preprocessing
from isonomy.networks.builder import Builder, Value
from isonomy.networks.graph import Constant, Node, diagonal, numbers
from isonomy.networks.limits import Allowance
from isonomy.networks.operations import Call, Rule, elementwise, identity, rule
from isonomy.networks.preprocessing import Cell, Choice, Column, Number, Table, cell_of

_SHRINKING = ("NonZero", "Compress", "Unique")  # how large the result is depends on the values: no larger than these
_SHAPE = 1024  # numbers of a constant that may be a shape


@dataclass(frozen=True, kw_only=True)
class OnnxCall(Call):
    """One node, in an opset, of a network whose input is of a kind."""

    node: onnx.NodeProto
    opset: int
    input_kind: int


@dataclass(frozen=True, eq=False)
class Moved:
    """A tensor whose batch axis is not first for now; only layout operations may read it."""

    operand: Value | Table
    positions: Constant
    reason: str


def _gemm(call: OnnxCall, a: Any, b: Any, c: Any = None) -> Value:
    weight = numbers(b).T if call("transB") and not isinstance(b, Value) else b
    return operations.gemm(call.builder, a, weight, c, call("alpha"), call("beta"))


def _divide(call: OnnxCall, x: Any, y: Any) -> Value:
    if any(np.asarray(each).dtype.kind in "iu" for each in (x, y) if not isinstance(each, Value)):
        raise UnsupportedOperationError("a division of whole numbers rounds.")
    return call.builder.divide(x, y)


def _prelu(call: OnnxCall, x: Value, slopes: Any) -> Value:
    if call.opset < 7 and len(x.shape) > 1 and np.size(slopes) > 1:
        raise UnsupportedOperationError(
            "slopes of several axes are read from opset 7 on; before opset 7 runtimes differ."
        )
    return operations.prelu(call.builder, x, slopes)


def _extreme(limit: str) -> Callable[..., Value]:
    def rule(call: OnnxCall, *operands: Any) -> Value:
        values, limits = ([each for each in operands if isinstance(each, Value) is kind] for kind in (True, False))
        if len(values) != 1 or len(limits) != 1:
            raise UnsupportedOperationError("only the extreme of a tensor and one number is supported.")
        return operations.clip(call.builder, values[0], **{limit: limits[0]})

    return rule


def _normalise(call: OnnxCall, x: Value, scale: Any, bias: Any, mean: Any, variance: Any) -> Value:
    learning = call("training_mode", 0) or (call.opset < 14 and any(call.node.output[1:]))
    if learning or not call("spatial", 1) or (call.opset < 7 and not call("is_test", 0)):
        raise UnsupportedOperationError("only batch normalisation by stored statistics is supported.")
    return call.builder.normalise(x, mean, variance, scale, bias, epsilon=call("epsilon"))


def _dropout(call: OnnxCall, x: Value, ratio: Any = None, training: Any = None) -> Value:
    active = training is not None and bool(np.any(training))
    return operations.dropout(x, active or (call.opset < 7 and not call("is_test", 0)))


def _cast(call: OnnxCall, x: Any, *_: Any) -> Any:
    target = call("to", TensorProto.FLOAT)
    target = getattr(TensorProto, target.decode()) if isinstance(target, bytes) else target
    if isinstance(x, Table) and target in (TensorProto.INT64, TensorProto.INT32, TensorProto.STRING):
        for column in x.columns:
            cut = isinstance(column, Choice) and _has_decimals(column)
            if cut or (isinstance(column, Number) and column.integer_range is None and column.noted is None):
                raise UnsupportedOperationError(
                    f"column '{column.name}': a conversion that cuts a number is not supported."
                )
    elif target not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        raise UnsupportedOperationError(f"a conversion to {helper.tensor_dtype_to_string(target)} rounds.")
    elif isinstance(x, Value) and x.node == 0 and TensorProto.FLOAT == target != call.input_kind:
        # A run in single precision rounds its input here; the exact network does not.
        return call.builder.apply(diagonal(np.ones(x.width), roundings=1), x)
    return x


def _has_decimals(choice: Choice) -> bool:
    """Say whether a category is a number with decimals."""
    cells = (cell for cells in choice.spellings for cell in cells if cell is not None)
    return any(re.fullmatch(r"\s*[-+]?\d*[.eE][-+\deE]*\s*", cell) for cell in cells)


def _cast_like(call: OnnxCall, x: Value, like: Any) -> Value:
    if not isinstance(like, Value) and like.dtype not in (np.float32, np.float64):
        raise UnsupportedOperationError(f"a conversion to {like.dtype} rounds.")
    return x


def _compare(call: OnnxCall, x: Any, threshold: Any) -> Value:
    if not isinstance(x, Value):
        raise UnsupportedOperationError("only a comparison with one number, within a softplus, is supported.")
    return call.builder.apply(Node("comparison", bias=np.array([operations.number(threshold, "a threshold")])), x)


def _where(call: OnnxCall, condition: Any, above: Any, below: Any) -> Value:
    parts = condition, above, below
    if not all(isinstance(each, Value) and each.shape == condition.shape for each in parts):
        raise UnsupportedOperationError("a choice between two tensors is supported only within a softplus.")
    return operations.fused_where(call.builder, condition, above, below)


def layout(call: OnnxCall, x: Any, *others: Any) -> tuple[Value | Table | Moved, ...]:
    """Let the reference operator move an array of positions."""
    if not isinstance(x, Value | Table | Moved) or any(isinstance(each, Value | Table | Moved) for each in others):
        raise UnsupportedOperationError("only its data may depend on the individual, not its index or shape.")
    call.options_read.update(call.options)
    operand, positions = (x.operand, x.positions) if isinstance(x, Moved) else (x, call.builder.positions(x))
    results: list[Value | Table | Moved] = []
    for places in reference(call.node, call.opset, [positions, *others], call.builder.allowance):
        try:
            results.append(call.builder.placed(operand, places))
        except NetworkError as error:
            results.append(Moved(operand, places, f"node '{call.builder.at}' ({call.node.op_type}): {error}"))
    return tuple(results)


def _gather(call: OnnxCall, x: Any, index: Any) -> Any:
    if not isinstance(index, Table) or isinstance(x, Value | Table | Moved):
        return layout(call, x, index)
    if call("axis", 0) not in (0, -np.ndim(x)):
        raise UnsupportedOperationError("a lookup must take whole rows of its matrix.")
    return index.looked_up(x)


def _one_hot(call: OnnxCall, x: Any, depth: Any, values: Any) -> Any:
    """Encode indices one-hot; ``values`` are the numbers off and on the place of the index."""
    varying = any(isinstance(each, Value | Table | Moved) for each in (depth, values))
    if not isinstance(x, Table) or varying or numbers(values).tolist() != [0.0, 1.0] or call("axis", -1) != -1:
        raise UnsupportedOperationError("it is supported only on constants and on a single raw column.")
    size = int(operations.number(depth, "its depth"))
    call.builder.allowance.reserve(size * size, f"a lookup in {size} rows")
    return x.looked_up(np.eye(size))


RULES: dict[str, Rule] = {
    "Gemm": _gemm,
    "MatMul": rule(operations.matmul),
    "Add": rule(Builder.add),
    "Sub": rule(Builder.subtract),
    "Mul": rule(operations.multiply),
    "Div": _divide,
    "Neg": lambda call, x: call.builder.multiply(x, -1.0),
    "Sum": rule(operations.total),
    "Pow": rule(operations.power),
    "Max": _extreme("low"),
    "Min": _extreme("high"),
    **{
        kind: operations.ACTIVATIONS[kind.lower()]
        for kind in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Erf", "Elu", "Gelu")
    },
    "LeakyRelu": elementwise("leaky_relu", alpha=0.01),
    "PRelu": _prelu,
    "Softplus": rule(operations.softplus),
    "Selu": rule(operations.selu, alpha=("alpha",), scale=("gamma",)),
    "Clip": lambda call, x, low=None, high=None: operations.clip(call.builder, x, call("min", low), call("max", high)),
    # Before opset 13 all axes from ``axis`` on were taken together.
    "Softmax": lambda call, x: operations.softmax(call.builder, x, call("axis"), flattened=call.opset < 13),
    "LogSoftmax": lambda call, x: operations.log_softmax(call.builder, x, call("axis"), flattened=call.opset < 13),
    "BatchNormalization": _normalise,
    "Concat": lambda call, *operands: call.builder.concat(operands, call("axis", 1)),
    "Greater": _compare,
    "Where": _where,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Identity": identity,
    "Dropout": _dropout,
    "Shape": lambda call, x: np.array((call.builder.batch, *x.shape))[call("start", 0) : call("end")],
    "Size": lambda call, x: np.array(call.builder.batch * x.width),
    "Gather": _gather,
    "OneHot": _one_hot,
    **dict.fromkeys(("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze"), layout),
    **dict.fromkeys(("Slice", "GatherND", "Split", "Expand"), layout),
}
# Rules that take raw cells as they are; all others read their numbers.
CELLS = {name for name, rule in RULES.items() if rule in (layout, _cast, _gather, _one_hot)} | {"Identity", "Concat"}


# -- classical machine learning (``ai.onnx.ml``), as exporters of whole pipelines (skl2onnx) write it


def _scaler(call: OnnxCall, x: Any) -> Any:
    offset, scale = call("offset", [0.0]), call("scale", [1.0])
    if isinstance(x, Table):
        return Table(tuple(preprocessing.scaled(x.columns, minus=offset, times=scale)), x.shape)
    return call.builder.multiply(call.builder.subtract(x, np.array(offset)), np.array(scale))


def _imputer(call: OnnxCall, x: Any) -> Any:
    replaced = call("replaced_value_float", call("replaced_value_int64", 0))
    if not np.isnan(replaced):
        raise UnsupportedOperationError(f"a number ({replaced}) that means missing is not affine; use NaN.")
    if not isinstance(x, Table):
        return x  # numbers of a network are never missing
    return Table(tuple(preprocessing.imputed(x.columns, _listed(call.options, "imputed_value"))), x.shape)


def _encoder(call: OnnxCall, x: Any) -> Any:
    names = [cell_of(each) for each in _listed(call.options, "cats")]

    def encoded(column: Column) -> list[Column]:
        def unknown(cells: tuple[Cell, ...]) -> None:
            if not call("zeros", 1):  # else what it does not know becomes zeros
                raise preprocessing.unknown_to("it", column.name, cells)

        return preprocessing.one_hot(column, names, unknown)

    return _cells(x).encoded(len(names), encoded)


def _label_encoder(call: OnnxCall, x: Any) -> Any:
    keys, values = (_listed(call.options, part) for part in ("keys", "values"))
    if not keys or len(keys) != len(values):
        raise NetworkError("it needs as many values as keys.")
    defaults = {str: ("default_string", b"_Unused"), int: ("default_int64", -1), float: ("default_float", 0.0)}
    (other,) = plain(call("default_tensor", [call(*defaults[type(values[0])])]))
    known = {cell_of(key): value for key, value in zip(keys, values, strict=True)}
    columns = [preprocessing.relabelled(column, known, lambda _: other) for column in _cells(x).columns]
    return Table(tuple(columns), x.shape)


def _listed(options: Mapping[str, Any], part: str) -> list[Any]:
    """Return an attribute that has one of several types, such as ``keys_strings``; empty if it is not there."""
    written = (options.get(f"{part}_{kind}") for kind in ("strings", "floats", "int64s", "ints", "tensor"))
    return plain(next(filter(None, written), []))


def plain(values: Any) -> list[Any]:
    """Return a list or a tensor as texts and numbers of Python."""
    flat = np.ravel(numpy_helper.to_array(values)).tolist() if isinstance(values, TensorProto) else values
    return [each.decode() if isinstance(each, bytes) else each for each in flat]


def class_names(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the classes that a node names, in the order of its outputs."""
    return tuple(str(cell_of(each)) for each in _listed(options, "classlabels"))


def _cells(x: Any) -> Table:
    if not isinstance(x, Table):
        raise NetworkError("it reads raw cells: give the schema that describes them, load_network(path, schema).")
    return x


def _extract(call: OnnxCall, x: Any, index: Any) -> Any:
    return call.builder.placed(x, call.builder.positions(x)[..., np.ravel(numbers(index)).astype(np.int64)])


def _linear(call: OnnxCall, x: Any) -> Value:
    """Return the raw scores of a linear model."""
    value = call.builder.numeric(x)
    intercepts, flat = call("intercepts", []), np.array(call("coefficients", []), dtype=np.float64)
    if len(value.shape) != 1 or not flat.size or flat.size % value.width:
        raise NetworkError(f"its {flat.size} coefficients do not fit {value.width} features.")
    return call.builder.matmul(value, flat.reshape(-1, value.width).T, np.array(intercepts) if intercepts else None)


def _regressor(call: OnnxCall, x: Any) -> Value:
    if call("post_transform", b"NONE") != b"NONE":
        raise UnsupportedOperationError("a regression with a transformed output is not supported.")
    return _linear(call, x)


def _classifier(call: OnnxCall, x: Any) -> tuple[None, Value]:
    """Return the label, which is never read, and the scores."""
    after = call("post_transform", b"NONE").decode()
    scores, builder = _linear(call, x), call.builder
    coefficients = np.array(call("coefficients", [])).reshape(scores.width, -1)
    intercepts = np.array(call("intercepts", None) or np.zeros(scores.width))
    mirrored = scores.width == 2 and (coefficients[0] == -coefficients[1]).all() and intercepts[0] == -intercepts[1]
    if after == "SOFTMAX" and scores.width > 1:
        return None, operations.softmax(builder, scores, 1)
    if after == "LOGISTIC" and mirrored:
        probability = builder.activation(builder.place(scores, lambda p: p[:, 1:]), "sigmoid")
        return None, builder.concat([builder.add(builder.multiply(probability, -1.0), 1.0), probability], 1)
    if after == "LOGISTIC" and scores.width > 2:
        return None, builder.activation(scores, "sigmoid")
    if after == "NONE" and scores.width > 1:
        return None, scores
    raise UnsupportedOperationError(f"{scores.width} rows of scores with the ending {after} are not supported.")


def _normalizer(call: OnnxCall, x: Any) -> Any:
    ending = isinstance(x, Value) and call.builder.nodes[x.node].kind == "softmax"
    if ending and call("norm", b"MAX") == b"L1":
        return x  # probabilities sum to one already
    raise UnsupportedOperationError("dividing a row by its own norm is not affine.")


CLASSICAL: dict[str, Rule] = {
    "Scaler": _scaler,
    "Imputer": _imputer,
    "OneHotEncoder": _encoder,
    "LabelEncoder": _label_encoder,
    "ArrayFeatureExtractor": _extract,
    "FeatureVectorizer": lambda call, *parts: call.builder.concat([call.builder.numeric(each) for each in parts], 1),
    "LinearClassifier": _classifier,
    "LinearRegressor": _regressor,
    "Normalizer": _normalizer,
    "ZipMap": identity,
}


# -- operators on constants, and on positions


def reference(node: onnx.NodeProto, opset: int, operands: Iterable[Any], allowance: Allowance) -> tuple[Constant, ...]:
    """Return the outputs of one operator by the reference implementation of ONNX."""
    operands = list(operands)
    _refuse_misread(node, opset, operands)
    feeds = {name: each for name, each in zip(node.input, operands, strict=False) if name}
    allowance.reserve(_size(node, opset, feeds), "the constant that it asks for")
    graph = helper.make_graph(
        [node],
        "one",
        [onnx.ValueInfoProto(name=name) for name in feeds],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    results = iter(onnx.reference.ReferenceEvaluator(model).run(None, feeds))
    return tuple(np.asarray(next(results)) if name else np.empty(0) for name in node.output)


def _refuse_misread(node: onnx.NodeProto, opset: int, operands: list[Any]) -> None:
    """Refuse what the reference implementation computes at random, or by the meaning of a later opset."""
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type in ("Softmax", "LogSoftmax", "Hardmax") and opset < 13:
        rank, axis = np.ndim(operands[0]), attributes.get("axis", 1)
        if axis not in (-1, rank - 1):
            raise UnsupportedOperationError("before opset 13 it is supported along the last axis of a constant only.")
    if opset < 7 and "axis" in attributes and attributes.get("broadcast"):
        raise UnsupportedOperationError("its option 'axis' is not supported.")
    if node.op_type == "Dropout" and len(operands) > 2 and np.any(operands[2]):
        raise NetworkError("dropout is active; the network must be in evaluation mode.")


def _size(node: onnx.NodeProto, opset: int, feeds: dict[str, Any]) -> int:
    """Return how many numbers the outputs of a node have, by ONNX's own inference of shapes, before any is computed."""
    arrays = {name: np.asarray(each) for name, each in feeds.items()}
    kinds = {name: helper.np_dtype_to_tensor_dtype(each.dtype) for name, each in arrays.items()}
    types = {name: helper.make_tensor_type_proto(kinds[name], each.shape) for name, each in arrays.items()}
    small = {name: numpy_helper.from_array(each) for name, each in arrays.items() if each.size <= _SHAPE}
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    imports = [helper.make_opsetid("", opset)]
    inferred = onnx.shape_inference.infer_node_outputs(schema, node, types, small, opset_imports=imports)
    sizes = 0
    for kind in inferred.values():
        axes = kind.tensor_type.shape.dim
        if kind.tensor_type.HasField("shape") and all(axis.HasField("dim_value") for axis in axes):
            sizes += math.prod(axis.dim_value for axis in axes)
        elif node.op_type in _SHRINKING:
            sizes += sum(each.size * max(each.ndim, 1) for each in arrays.values())
        else:
            raise UnsupportedOperationError("how large its result is cannot be told before it is computed.")
    return sizes
