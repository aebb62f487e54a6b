"""The operators of ONNX that can be read: one table from the operator to its rule.

A rule takes the operands in the order of the operator, constants or tensors of the individual, and gives its
outputs. Operators that only move entries share one rule, which runs the reference operator on positions.

**Soundness.** A rule gives exactly the function of the operator's definition, in real arithmetic, in every opset;
attributes that would change it (training mode, an axis that mixes, a conversion that rounds) are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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
from isonomy.networks.builder import Builder, Constant, Value, numbers
from isonomy.networks.columns import Choice
from isonomy.networks.fusion import fused_where
from isonomy.networks.graph import Affine
from isonomy.networks.limits import take
from isonomy.networks.tables import Table, joined, moved

_SHRINKING = ("NonZero", "Compress", "Unique")  # how large the result is depends on the values: no larger than these
_SHAPE = 1024  # numbers of a constant that may be a shape


@dataclass(frozen=True)
class Call:
    """What a rule needs besides the operands."""

    builder: Builder
    opset: int
    node: onnx.NodeProto
    attributes: dict[str, Any]
    input_kind: int

    def __call__(self, name: str, default: Any) -> Any:
        """An attribute, or its default."""
        return self.attributes.get(name, default)


@dataclass(frozen=True, eq=False)
class Moved:
    """A tensor whose batch axis is not first for now; only layout operations may read it."""

    operand: Value | Table
    positions: Constant
    reason: str


def _operation(meaning: Callable[..., Any], **attributes: Any) -> Callable[..., Any]:
    """An operation of the builder, whose keywords are attributes with these defaults."""
    return lambda call, *operands: meaning(
        call.builder, *operands, **{name: call(name, default) for name, default in attributes.items()}
    )


def _activation(kind: str, **attributes: float) -> Callable[..., Value]:
    return lambda call, x: call.builder.activation(x, kind, *(call(*each) for each in attributes.items()))


def _gemm(call: Call, a: Any, b: Any, c: Any = None) -> Value:
    if call("transA", 0):
        raise UnsupportedOperationError("only a table of individuals times a constant matrix is supported.")
    weight = numbers(b).T if call("transB", 0) and not isinstance(b, Value) else b
    return operations.gemm(call.builder, a, weight, c, call("alpha", 1.0), call("beta", 1.0))


def _softmax(kind: str) -> Callable[..., Value]:
    def rule(call: Call, x: Value) -> Value:
        # Before opset 13 all axes from ``axis`` on were taken together.
        old = call.opset < 13
        return call.builder.softmax(x, call("axis", 1 if old else -1), kind, flattened=old)

    return rule


def _extreme(limit: str) -> Callable[..., Value]:
    def rule(call: Call, *operands: Any) -> Value:
        values, limits = ([each for each in operands if isinstance(each, Value) is kind] for kind in (True, False))
        if len(values) != 1 or len(limits) != 1:
            raise UnsupportedOperationError("only the extreme of a tensor and one number is supported.")
        return operations.clip(call.builder, values[0], **{limit: limits[0]})

    return rule


def _normalise(call: Call, x: Value, scale: Any, bias: Any, mean: Any, variance: Any) -> Value:
    if call("training_mode", 0) or not call("spatial", 1) or (call.opset < 7 and not call("is_test", 0)):
        raise UnsupportedOperationError("only batch normalisation by stored statistics is supported.")
    return call.builder.normalise(x, mean, variance, scale, bias, epsilon=call("epsilon", float(np.float32(1e-5))))


def _dropout(call: Call, x: Value, ratio: Any = None, training: Any = None) -> Value:
    active = training is not None and bool(np.any(training))
    return operations.dropout(x, active or (call.opset < 7 and not call("is_test", 0)))


def _cast(call: Call, x: Any, *_: Any) -> Any:
    target = call("to", TensorProto.FLOAT)
    target = getattr(TensorProto, target.decode()) if isinstance(target, bytes) else target
    if isinstance(x, Table) and target in (TensorProto.INT64, TensorProto.INT32, TensorProto.STRING):
        for column in x.columns:
            if not isinstance(column, Choice) and column.whole is None:
                raise UnsupportedOperationError(
                    f"column '{column.name}': a conversion that cuts a number is not supported."
                )
    elif target not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        raise UnsupportedOperationError(f"a conversion to {helper.tensor_dtype_to_string(target)} rounds.")
    elif isinstance(x, Value) and x.node == 0 and TensorProto.FLOAT == target != call.input_kind:
        # A run in single precision rounds its input here; the exact network does not.
        return call.builder.affine(x, Affine.identity(x.width, roundings=1))
    return x


def _cast_like(call: Call, x: Value, like: Any) -> Value:
    if not isinstance(like, Value) and like.dtype not in (np.float32, np.float64):
        raise UnsupportedOperationError(f"a conversion to {like.dtype} rounds.")
    return x


def _compared(call: Call, x: Any, threshold: Any) -> Value:
    if not isinstance(x, Value):
        raise UnsupportedOperationError("only a comparison with one number, within a softplus, is supported.")
    return call.builder.unfinished(x, "comparison", operations.number(threshold, "a threshold"))


def _where(call: Call, condition: Any, above: Any, below: Any) -> Value:
    parts = condition, above, below
    if not all(isinstance(each, Value) and each.shape == condition.shape for each in parts):
        raise UnsupportedOperationError("a choice between two tensors is supported only within a softplus.")
    return fused_where(call.builder, condition, above, below)


def layout(call: Call, x: Any, *others: Any) -> tuple[Value | Table | Moved, ...]:
    """Let the reference operator move an array of positions."""
    if not isinstance(x, Value | Table | Moved) or any(isinstance(each, Value | Table | Moved) for each in others):
        raise UnsupportedOperationError("only its data may depend on the individual, not its index or shape.")
    operand, positions = (x.operand, x.positions) if isinstance(x, Moved) else (x, call.builder.positions(x))
    results: list[Value | Table | Moved] = []
    for places in reference(call.node, call.opset, [positions, *others]):
        try:
            results.append(moved(call.builder, operand, places))
        except NetworkError as error:
            results.append(Moved(operand, places, f"node '{call.builder.at}' ({call.node.op_type}): {error}"))
    return tuple(results)


def _gather(call: Call, x: Any, index: Any) -> Any:
    if not isinstance(index, Table) or isinstance(x, Value | Table | Moved):
        return layout(call, x, index)
    if call("axis", 0) not in (0, -np.ndim(x)):
        raise UnsupportedOperationError("a lookup must take whole rows of its matrix.")
    return index.encoded(np.shape(x)[-1], lambda column: preprocessing.embedded(column, x))


def _one_hot(call: Call, x: Any, depth: Any, values: Any) -> Any:
    """``values`` are what stands off and on the place of the index."""
    varying = any(isinstance(each, Value | Table | Moved) for each in (depth, values))
    if not isinstance(x, Table) or varying or numbers(values).tolist() != [0.0, 1.0] or call("axis", -1) != -1:
        raise UnsupportedOperationError("it is supported only on constants and on a single raw column.")
    size = int(operations.number(depth, "its depth"))
    take(size * size, f"a lookup in {size} rows")
    matrix = np.eye(size)
    return x.encoded(len(matrix), lambda column: preprocessing.embedded(column, matrix))


RULES: dict[str, Callable[..., Any]] = {
    "Gemm": _gemm,
    "MatMul": _operation(operations.matmul),
    "Add": _operation(Builder.add),
    "Sub": _operation(Builder.subtract),
    "Mul": _operation(Builder.multiply),
    "Div": _operation(Builder.divide),
    "Neg": lambda call, x: call.builder.scaled(x, -1.0),
    "Sum": _operation(operations.total),
    "Pow": _operation(operations.power),
    "Max": _extreme("low"),
    "Min": _extreme("high"),
    "Relu": _activation("relu"),
    "LeakyRelu": _activation("leaky_relu", alpha=float(np.float32(0.01))),
    "PRelu": _operation(operations.prelu),
    "Sigmoid": _activation("sigmoid"),
    "Tanh": _activation("tanh"),
    "Softplus": _operation(operations.softplus),
    "Elu": _activation("elu", alpha=1.0),
    "Selu": lambda call, x: operations.selu(
        call.builder,
        x,
        call("alpha", float(np.float32(1.6732632423543772))),
        call("gamma", float(np.float32(1.0507009873554805))),
    ),
    "Gelu": lambda call, x: operations.gelu(call.builder, x, call("approximate", b"none").decode()),
    "HardSwish": _activation("hardswish"),
    "Erf": _activation("erf"),
    "Clip": lambda call, x, low=None, high=None: operations.clip(call.builder, x, call("min", low), call("max", high)),
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "BatchNormalization": _normalise,
    "Concat": lambda call, *operands: joined(call.builder, operands, call("axis", 1)),
    "Greater": _compared,
    "Where": _where,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Identity": lambda call, x: x,
    "Dropout": _dropout,
    "Shape": lambda call, x: np.array((call.builder.batch, *x.shape))[call("start", 0) : call("end", None)],
    "Size": lambda call, x: np.array(call.builder.batch * x.width),
    "Gather": _gather,
    "OneHot": _one_hot,
    **dict.fromkeys(("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze"), layout),
    **dict.fromkeys(("Slice", "GatherND", "Split", "Expand"), layout),
}
# Rules that take raw cells as they are; all others read their numbers.
CELLS = {name for name, rule in RULES.items() if rule in (layout, _cast, _gather, _one_hot)} | {"Identity", "Concat"}


def reference(node: onnx.NodeProto, opset: int, operands: Iterable[Any]) -> tuple[Constant, ...]:
    """The outputs of one operator by the reference implementation of ONNX."""
    feeds = {name: each for name, each in zip(node.input, operands, strict=False) if name}
    take(_size(node, opset, feeds), "the constant that it asks for")
    graph = helper.make_graph(
        [node],
        "one",
        [onnx.ValueInfoProto(name=name) for name in feeds],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    results = iter(onnx.reference.ReferenceEvaluator(model).run(None, feeds))
    return tuple(np.asarray(next(results)) if name else np.empty(0) for name in node.output)


def _size(node: onnx.NodeProto, opset: int, feeds: dict[str, Any]) -> int:
    """Numbers in the outputs of a node, by ONNX's own inference of shapes, before any is computed."""
    arrays = {name: np.asarray(each) for name, each in feeds.items()}
    kinds = {name: helper.np_dtype_to_tensor_dtype(each.dtype) for name, each in arrays.items()}
    types = {name: helper.make_tensor_type_proto(kinds[name], each.shape) for name, each in arrays.items()}
    small = {name: numpy_helper.from_array(each) for name, each in arrays.items() if each.size <= _SHAPE}
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    imports = [helper.make_opsetid("", opset)]
    found = onnx.shape_inference.infer_node_outputs(schema, node, types, small, opset_imports=imports)
    sizes = 0
    for kind in found.values():
        axes = kind.tensor_type.shape.dim
        if kind.tensor_type.HasField("shape") and all(axis.HasField("dim_value") for axis in axes):
            sizes += math.prod(axis.dim_value for axis in axes)
        elif node.op_type in _SHRINKING:
            sizes += sum(each.size * max(each.ndim, 1) for each in arrays.values())
        else:
            raise UnsupportedOperationError("how large its result is cannot be told before it is computed.")
    return sizes
