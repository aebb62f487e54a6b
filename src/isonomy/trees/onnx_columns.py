"""What an ONNX file does to its inputs in front of its trees, as columns that can be folded into their tests.

Exporters of scikit-learn's pipelines write one input for each column, scalers, encoders and a join; these are read, and
all else is refused by its name. Numbers are float32, as the operators compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.trees.pipelines import looked_up
from isonomy.trees.source import Source, Step
from isonomy.trees.thresholds import Numbers

_KINDS = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.STRING)
_WIDEST = 2**20

Columns = list[Source]


class Front:
    """The columns behind the nodes of a graph, and the names of the raw ones."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.made = {output: node for node in graph.node for output in node.output}
        self.constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self.inputs = {each.name: each.type.tensor_type for each in graph.input if each.name not in self.constants}
        self._read: dict[str, Columns] = {}
        self._width = 0

    def raw(self, name: str) -> tuple[list[str], Columns]:
        """Return the names of the raw columns, in the order of the file's inputs, and the columns of a tensor."""
        columns, names, moved = self.columns(name), list[str](), dict[int, int]()
        for each in self.inputs:
            own = self._read.get(each, [])
            moved |= {column.raw: len(names) + i for i, column in enumerate(own)}
            alone = len(own) == 1 and len(self.inputs) > 1
            names += [each] if alone else [f"f{len(names) + i}" for i in range(len(own))]
        return names, [replace(column, raw=moved[column.raw]) for column in columns]

    def columns(self, name: str) -> Columns:
        """Return the columns of a tensor."""
        if name not in self._read:
            self._read[name] = self._input(name) if name in self.inputs else self._made(name)
        return self._read[name]

    def _input(self, name: str) -> Columns:
        shape, kind = self.inputs[name].shape.dim, self.inputs[name].elem_type
        width = int(shape[1].dim_value) if len(shape) == 2 else 0
        if not 0 < width < _WIDEST or kind not in _KINDS:
            raise NetworkError(f"the input '{name}' does not say how many columns of numbers or texts it has.")
        first, self._width = self._width, self._width + width
        return [Source(first + i, dtype=np.float32) for i in range(width)]

    def _made(self, name: str) -> Columns:
        node = self.made.get(name)
        rule = None if node is None else _RULES.get(node.op_type)
        if node is None or rule is None:
            what = f"the operator {node.op_type} stands" if node is not None else f"'{name}' is a constant"
            raise UnsupportedOperationError(
                f"{what} in front of the trees, which is not read ({', '.join(_RULES)} are); save the pipeline with "
                "skops.io.dump, or pass it as an object."
            )
        options = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        return rule(self, node, options)

    def kind(self, name: str) -> int:
        """Return the type of a tensor's cells."""
        if name in self.inputs:
            return int(self.inputs[name].elem_type)
        node = self.made[name]
        passed = node.op_type in ("Identity", "Reshape", "Gather", "ArrayFeatureExtractor", "Concat")
        return self.kind(node.input[0]) if passed else int(TensorProto.FLOAT)

    def constant(self, name: str) -> Any:
        """Return a constant operand."""
        if name not in self.constants:
            raise UnsupportedOperationError(f"'{name}' in front of the trees is no constant.")
        return self.constants[name]


Options = Mapping[str, Any]


def _same(front: Front, node: onnx.NodeProto, options: Options) -> Columns:
    columns = front.columns(node.input[0])
    if node.op_type == "Cast" and options["to"] != TensorProto.FLOAT:
        raise UnsupportedOperationError("a conversion to another type than float32 stands in front of the trees.")
    if node.op_type == "Reshape":
        shape = front.constant(node.input[1]).ravel().tolist()
        if len(shape) != 2 or shape[1] not in (-1, len(columns)) or shape[0] not in (-1, 0):
            raise UnsupportedOperationError("a Reshape that mixes rows stands in front of the trees.")
    return columns


def _joined(front: Front, node: onnx.NodeProto, options: Options) -> Columns:
    if options.get("axis", 1) not in (1, -1):
        raise UnsupportedOperationError("a Concat of rows stands in front of the trees.")
    return [column for name in node.input for column in front.columns(name)]


def _chosen(front: Front, node: onnx.NodeProto, options: Options) -> Columns:
    if node.op_type == "Gather" and options.get("axis", 0) != 1:
        raise UnsupportedOperationError("a Gather of rows stands in front of the trees.")
    columns = front.columns(node.input[0])
    return [columns[int(i)] for i in np.ravel(front.constant(node.input[1]))]


def _scaled(front: Front, node: onnx.NodeProto, options: Options) -> Columns:
    columns = front.columns(node.input[0])
    offset, scale = (
        np.asarray(options.get(part, [usual]), np.float32) for part, usual in (("offset", 0), ("scale", 1))
    )
    offset, scale = (np.broadcast_to(each, len(columns)) for each in (offset, scale))
    if not (scale > 0).all():
        raise UnsupportedOperationError("a scale that is not positive turns numbers around.")
    return [column.then(_scale(*pair)) for column, *pair in zip(columns, offset, scale, strict=True)]


def _scale(offset: Any, scale: Any) -> Step:
    def step(x: Numbers) -> Numbers:
        return np.asarray((x.astype(np.float32) - offset) * scale, dtype=np.float32)

    return step


def _arithmetic(front: Front, node: onnx.NodeProto, options: Options) -> Columns:
    """Return a sum, difference, product or quotient with constants."""
    first, second = node.input
    turned = first in front.constants and node.op_type in ("Add", "Mul")
    columns = front.columns(second if turned else first)
    operand = front.constant(first if turned else second)
    _refuse_whole(node, operand)
    if any(length != 1 for length in operand.shape[:-1]):
        raise UnsupportedOperationError(f"a constant that differs from row to row stands in {node.op_type}.")
    constants = np.broadcast_to(operand.reshape(-1), len(columns))
    operation: Any = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[node.op_type]
    if node.op_type in ("Mul", "Div") and not (constants > 0).all():
        raise UnsupportedOperationError("a scale that is not positive turns numbers around.")
    return [column.then(_with(operation, each)) for column, each in zip(columns, constants, strict=True)]


def _refuse_whole(node: onnx.NodeProto, operand: Any) -> None:
    """Refuse arithmetic of whole numbers, whose quotients are cut and whose sums are not rounded."""
    if operand.dtype != np.float32:
        raise UnsupportedOperationError(f"{node.op_type} of {operand.dtype} in front of the trees, which is not read.")


def _with(operation: Any, constant: Any) -> Step:
    return lambda x: np.asarray(operation(x.astype(np.float32), constant), dtype=np.float32)


def _clipped(front: Front, node: onnx.NodeProto, options: Options) -> Columns:
    ends = [options.get(part) for part in ("min", "max")]
    for i, name in enumerate(node.input[1:3]):
        if name:
            ends[i] = front.constant(name)
            _refuse_whole(node, ends[i])
    low, high = (np.float32(usual if end is None else end) for end, usual in zip(ends, (-np.inf, np.inf), strict=True))
    return [column.then(lambda x: np.clip(x, low, high)) for column in front.columns(node.input[0])]


def _encoded(front: Front, node: onnx.NodeProto, options: Options) -> Columns:
    written = options.get("cats_strings") or options.get("cats_int64s") or []
    if written and front.kind(node.input[0]) == TensorProto.FLOAT:
        raise UnsupportedOperationError("a OneHotEncoder of float32 cuts numbers to whole ones; give it int64.")
    cells = [each.decode() if isinstance(each, bytes) else each for each in written]
    unseen = 0.0 if options.get("zeros", 1) else None
    return [
        looked_up(column, cells, np.arange(len(cells)) == place, unseen, None)
        for column in front.columns(node.input[0]) for place in range(len(cells))
    ]  # fmt: skip


_RULES: dict[str, Callable[[Front, onnx.NodeProto, Options], Columns]] = {
    **dict.fromkeys(("Identity", "Cast", "Reshape"), _same),
    "Concat": _joined,
    **dict.fromkeys(("Gather", "ArrayFeatureExtractor"), _chosen),
    "Scaler": _scaled,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _arithmetic),
    "Clip": _clipped,
    "OneHotEncoder": _encoded,
}
