"""What all readers share: turn tensor operations on a table of individuals into a graph on one individual.

The idea: every tensor is a node plus the shape of its features. Layout operations (reshape, transpose,
slice, ...) need no rule of their own: the framework's own operation is run on an array of *positions* and
tells where each feature comes from. Linear operations are run on the identity matrix, which gives their
weights exactly.

**Soundness.** Positions are those of a small table, not of one individual, and an operation is refused
unless it treats every row alike: nothing that mixes individuals can slip through. A constant expression is
evaluated once in the precision of the file, as every runtime does, and its value is what the network *is*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.given import choice
from isonomy.networks.graph import (
    Activation,
    Constant,
    Graph,
    Head,
    HeadChoice,
    Node,
    activation,
    affine,
    diagonal,
    numbers,
    numbers_of,
)
from isonomy.networks.limits import AT_ONCE, Allowance
from isonomy.networks.preprocessing import Bent, ExactAffine, Table, affine_of, required_values
from isonomy_verify.arithmetic import TINY, gamma

BATCH = 3  # individuals in a nominal table; more than one, so that mixing them is noticed


@dataclass(frozen=True)
class Value:
    """A tensor that depends on the individual: its node, and the shape of its features without the batch."""

    node: int
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """Return the number of features of an individual."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class ReadModel:
    """What a reader gives: the graph up to its raw outputs, their meaning, and what a file calls their classes;
    ``on_schema``: it reads the coordinates of a schema already."""

    graph: Graph
    head: Head
    assumed_head: bool = False  # several raw outputs were taken as a softmax, as is custom; nothing said so
    named: tuple[str, ...] = ()
    on_schema: bool = False


UNFINISHED = {
    "softmax": "as the last operation",
    "log_softmax": "as the last operation",
    "square": "within a GELU",
    "cube": "within a GELU",
    "comparison": "within a softplus that is linear beyond a threshold",
}
"""Kinds of nodes that are supported only as part of something larger. The bias of a comparison is its threshold."""

Operand = Value | Constant | float
_SIGMOID = Activation("sigmoid")


class Builder:
    """Collects the nodes of a graph. ``at`` is the name of the original node that is being read."""

    def __init__(
        self, shape: Sequence[int], batch: int = BATCH, name: str = "input", allowance: Allowance | None = None
    ) -> None:
        self.batch, self.at, self.allowance = batch, name, allowance or Allowance()
        self.ending = "raw"  # what :meth:`finish` took off: also softmax, log_softmax, sigmoid, both
        self._limit(int(np.prod(list(shape), dtype=object)), 2**7)
        self.input = Value(0, tuple(shape))
        self.nodes, self.names = [Node("input", width=self.input.width)], [name]

    # -- what readers call

    def apply(self, node: Node, value: Value, *others: Value, shape: Sequence[int] | None = None) -> Value:
        """Add a node that reads the flattened features of tensors; of ``shape``, or of that of the first."""
        self.nodes.append(node._replace(inputs=(value.node, *(each.node for each in others))))
        self.names.append(self.at)
        return Value(len(self.nodes) - 1, value.shape if shape is None else tuple(shape))

    def diagonal(self, value: Value, scale: FloatArray, bias: FloatArray | None = None, **errors: Any) -> Value:
        """Return ``scale * value + bias``, element by element, with the errors of :func:`~graph.diagonal`."""
        self._limit(value.width, value.width)
        return self.apply(diagonal(scale, bias, **errors), value)

    def activation(self, value: Value, kind: str, *parameters: float) -> Value:
        """Apply an elementwise function; special cases get their simplest name."""
        match kind, *parameters:
            case ("clip", low, high) if (low, high) == (-np.inf, np.inf):
                return value
            case ("clip", 0.0, high) if high == np.inf:
                return self.activation(value, "relu")
            case ("leaky_relu", 0.0) | ("elu", 0.0):
                return self.activation(value, "relu")
            case ("prelu", *_) if len(set(parameters)) == 1:
                return self.activation(value, "leaky_relu", parameters[0])
        return self.apply(Node("activation", activation=activation(kind, parameters)), value)

    def with_error(self, value: Value, error: float) -> Value:
        """Return a tensor that stands for another one, at most ``error`` away from it."""
        slack = np.full(value.width, error)
        return self.diagonal(value, np.ones_like(slack), bias_error=slack, roundings=0)

    def positions(self, value: Any) -> npt.NDArray[np.int64]:
        """Return the position of each entry of a small table of individuals, in the shape that the framework sees."""
        if self.batch * value.width > AT_ONCE:
            raise NetworkError("the nominal table that its shapes ask for is larger than the supported size.")
        return np.arange(self.batch * value.width).reshape(self.batch, *value.shape)

    def place(self, value: Value, layout: Callable[[Constant], Any]) -> Value:
        """Apply a layout operation, given as a function of the array of positions."""
        result: Value = self.placed(value, layout(self.positions(value)))
        return result

    def placed(self, value: Any, positions: Any) -> Any:
        """Return the tensor, or table of cells, that holds at each place the entry that stood at that position."""
        moved = np.asarray(positions)
        if moved.ndim < 1 or moved.shape[0] != self.batch or not moved.size:
            got = list(moved.shape[1:]) if moved.size else "nothing"
            raise NetworkError(f"the batch axis must stay first; only {got} remains of {list(value.shape)}.")
        places = moved.reshape(self.batch, -1) - np.arange(self.batch)[:, None] * value.width
        if (places != places[0]).any() or places.min() < 0 or places.max() >= value.width:
            raise NetworkError("the operation mixes individuals; each row of the table must be treated alike.")
        index, shape = tuple(places[0].tolist()), moved.shape[1:]
        if isinstance(value, Table):
            return Table(tuple(value.columns[i] for i in index), shape)
        if index == tuple(range(value.width)):
            return replace(value, shape=shape)
        return self.apply(Node("select", columns=index), value, shape=shape)

    def numeric(self, operand: Any) -> Any:
        """Return the numbers of a table of cells as an affine map of the coordinates; other operands as they are."""
        if not isinstance(operand, Table):
            return operand
        return self._functions(required_values(operand.columns), operand.shape)

    def _functions(self, functions: Sequence[ExactAffine], shape: Sequence[int]) -> Value:
        """Return functions of the coordinates, behind the bent ones among their terms."""
        bends = list(dict.fromkeys(each for function in functions for each in function.bends))
        parts, places = [self.input], dict[Bent, int]()
        for kind in dict.fromkeys(each.activation for each in bends):
            own = [each for each in bends if each.activation == kind]
            places |= {each: sum(part.width for part in parts) + i for i, each in enumerate(own)}
            inner = self._functions([each.inner for each in own], (len(own),))
            parts.append(self.apply(Node("activation", activation=kind), inner))
        width = sum(part.width for part in parts)
        map_of = affine_of([each.placed(places) for each in functions], width, self.allowance)
        read = self.apply(Node("concat"), *parts, shape=(width,)) if bends else self.input
        return self.apply(map_of, read, shape=shape)

    def linear(self, value: Value, function: Callable[[FloatArray], Constant], bias: Constant | None = None) -> Value:
        """Apply a linear function of each individual, known by its values at the unit vectors, and add a bias."""
        self._limit(value.width, value.width)
        try:
            image = np.asarray(function(np.eye(value.width).reshape(value.width, *value.shape)))
        except ValueError as error:
            raise NetworkError(f"the shapes do not fit: {error}.") from None
        shape = image.shape[1:]
        if image.shape[0] != value.width or not image.size:
            raise NetworkError("the operation mixes individuals; each row of the table must be treated alike.")
        result = self.apply(affine(image.reshape(value.width, -1).T), value, shape=shape)
        return result if bias is None else self.add(result, bias)

    def matmul(self, value: Value, matrix: Constant, bias: Constant | None = None) -> Value:
        """Return ``value @ matrix + bias`` along the last axis."""
        factor = numbers(matrix)
        if factor.ndim not in (1, 2) or not value.shape or value.shape[-1] != factor.shape[0]:
            got = f"{list(value.shape)} and {list(factor.shape)}"
            raise NetworkError(f"the features and the weight must agree in width. Got {got}.")
        if len(value.shape) > 1 or factor.ndim == 1:
            return self.linear(value, lambda rows: rows @ factor, bias)
        self._limit(*factor.shape)
        result = self.apply(affine(factor.T), value, shape=(factor.shape[1],))
        return result if bias is None else self.add(result, bias)

    @np.errstate(all="ignore")  # what overflows is refused as a weight
    def normalise(
        self, value: Value, mean: Any, variance: Any, scale: Any = None, bias: Any = None, *, epsilon: float
    ) -> Value:
        """Normalise a batch by stored statistics, ``(x - mean) / sqrt(variance + epsilon) * scale + bias``.

        **Soundness.** A sum of non-negative numbers, a root, a quotient and a product: below gamma(5); a run
        may subtract the mean first or last, so ``bias_size`` holds ``|scale mean| + |bias|``.
        """
        if any(isinstance(each, Value) for each in (mean, variance, scale, bias)):
            raise UnsupportedOperationError("the statistics must be constants.")
        channels = value.shape[0] if value.shape else 0
        scale = np.ones(channels) if scale is None else scale
        bias = np.zeros(channels) if bias is None else bias
        parts = [numbers(each) for each in (scale, bias, mean, variance)]
        if any(each.shape != (channels,) for each in parts):
            raise NetworkError(f"the normalisation needs {channels} statistics, one for each channel.")
        if not (parts[3] + epsilon > 0).all():
            raise NetworkError("a variance plus epsilon must be positive.")
        repeat = value.width // channels
        weight, shift, centre, spread = (np.repeat(each, repeat) for each in parts)
        factor = weight / np.sqrt(spread + epsilon)
        offset = shift - centre * factor
        reach = (np.abs(shift) + np.abs(centre * factor)) * (1 + gamma(16)) + 4 * TINY
        return self.diagonal(
            value,
            factor,
            offset,
            weight_error=gamma(8) * np.abs(factor) + 4 * TINY,
            bias_error=gamma(12) * reach + 4 * TINY,
            bias_size=reach,
            roundings=12,
        )

    def add(self, left: Operand, right: Operand) -> Value:
        """Return the sum, with broadcasting."""
        if isinstance(left, Value) and isinstance(right, Value):
            left, right = self.aligned(left, right)
            return self.apply(Node("add"), left, right)
        value, row = self._with_row(left, right)
        if not row.any():
            return value
        node = self.nodes[value.node]
        if node.kind == "affine" and node.bias_size is None:
            weight, bias, weight_error, bias_error = numbers_of(node)
            if not (bias.any() or bias_error.any()):
                # A product followed by its bias is one layer, whose roundings already count this addition.
                layer = affine(weight, row, weight_error=weight_error, size=node.size, roundings=node.roundings)
                return self.apply(layer, Value(node.inputs[0], value.shape))
        return self.diagonal(value, np.ones_like(row), row)

    def aligned(self, left: Value, right: Value) -> tuple[Value, Value]:
        """Broadcast two tensors to one shape."""
        left, common = self._broadcast(left, (self.batch, *right.shape))
        return left, self.place(right, lambda positions: np.broadcast_to(positions, common))

    def add_scaled(self, left: Operand, right: Operand, factor: float) -> Value:
        """Return ``left + factor * right``, with broadcasting; a scaled constant is rounded once."""
        if isinstance(right, Value):
            return self.add(left, self.multiply(right, factor))
        row = numbers(right) * factor
        result = self.add(left, row)
        exact = factor in (1.0, -1.0) or not row.size
        return result if exact else self.with_error(result, gamma(2) * float(np.abs(row).max()) + TINY)

    def subtract(self, left: Operand, right: Operand) -> Value:
        """Return the difference, with broadcasting."""
        return self.add_scaled(left, right, -1.0)

    def multiply(self, left: Operand, right: Operand) -> Value:
        """Return the product of a tensor and a constant, with broadcasting."""
        value, row = self._with_row(left, right)
        return value if (row == 1).all() else self.diagonal(value, row)

    @np.errstate(all="ignore")
    def divide(self, left: Operand, right: Operand) -> Value:
        """Return the quotient by a constant, whose inverse is rounded once."""
        if isinstance(right, Value) or not isinstance(left, Value):
            raise UnsupportedOperationError("only a constant can be a divisor.")
        value, row = self._with_row(left, right)
        if not row.all():
            raise NetworkError("division by zero.")
        inverse = 1.0 / row
        exact = (np.abs(np.frexp(row)[0]) == 0.5) & (np.abs(inverse) > TINY)
        slack = np.where(exact, 0.0, gamma(2) * np.abs(inverse) + TINY)
        return self.diagonal(value, inverse, weight_error=slack)

    def row(self, value: Value, constant: Any) -> FloatArray:
        """Return the entries (width,) of a constant that is broadcast to the features of a tensor."""
        aligned, row = self._with_row(value, constant)
        if aligned.shape != value.shape:
            raise NetworkError("the constant must fit into the shape of the tensor.")
        return row

    def concat(self, operands: Sequence[Operand | Table], axis: int) -> Any:
        """Join operands along an axis: to a table of cells if all of them are, else to a tensor."""
        parts: list[Any] = list(operands)
        if all(isinstance(each, Table) for each in parts):
            columns = tuple(column for each in parts for column in each.columns)
            joined: Any = Table(columns, (len(columns),))
        else:
            parts = [self.numeric(each) if isinstance(each, Value | Table) else self.constant(each) for each in parts]
            shape = (sum(each.width for each in parts),)
            joined = (
                replace(parts[0], shape=shape) if len(parts) == 1 else self.apply(Node("concat"), *parts, shape=shape)
            )
        self.allowance.reserve(6 * joined.width, "what is joined")  # its places are numbers of Python
        split = np.split(self.positions(joined), np.cumsum([each.width for each in parts])[:-1], axis=1)
        places = [part.reshape(self.batch, *each.shape) for part, each in zip(split, parts, strict=True)]
        try:
            positions = np.concatenate(places, axis=axis)
        except ValueError as error:
            raise NetworkError(f"the shapes do not fit: {error}.") from None
        return self.placed(joined, positions)

    def constant(self, array: Any) -> Value:
        """Return a constant table as a node: an affine map that ignores the individual."""
        table = numbers(array)
        if table.ndim < 1 or table.shape[0] not in (1, self.batch):
            raise NetworkError(f"a constant of shape {list(table.shape)} cannot be joined to individuals.")
        row = self._row(table, (self.batch, *table.shape[1:]))
        self._limit(len(row), self.input.width)
        node = affine(np.zeros((len(row), self.input.width)), row, roundings=0)
        return self.apply(node, self.input, shape=table.shape[1:])

    def finish(self, output: Value, head: HeadChoice) -> ReadModel:
        """Return the graph up to the raw outputs, and the head that is given, else that at its end."""
        choice("head", head, HeadChoice)
        last, node, name = output.node, self.nodes[output.node], self.names[output.node]
        own: Head | None = None
        if "softmax" in node.kind:
            own, last, self.ending = "softmax", node.inputs[0], node.kind
        elif node.activation == _SIGMOID and head != "regression":
            own, last, self.ending = "sigmoid", node.inputs[0], "sigmoid"
        elif (both := self._complement(output.node)) is not None and head != "regression":
            own, last, self.ending = "sigmoid", both, "both"
        if own and head not in ("auto", own):
            raise NetworkError(f"The network ends in a {own} ('{name}'), so head='{head}' cannot be.")
        if head == "auto" and not own and output.width == 1:
            raise NetworkError("The network ends in one raw number: say head='sigmoid' or head='regression'.")
        chosen: Head = (own or "softmax") if head == "auto" else head
        return ReadModel(self._graph(last), chosen, assumed_head=head == "auto" and own is None)

    # -- helpers

    def _complement(self, node: int) -> int | None:
        """Return the node ``z`` under ``[1 - sigmoid(z), sigmoid(z)]``, the two columns of a single sigmoid."""
        both = self.nodes[node]
        if both.kind != "concat" or len(both.inputs) != 2:
            return None
        other, sigmoid = (self.nodes[i] for i in both.inputs)
        if other.kind != "affine" or sigmoid.activation != _SIGMOID or other.inputs != both.inputs[1:]:
            return None
        weight, bias, *errors = numbers_of(other)
        mirrored = np.array_equal(weight, [[-1.0]]) and bias[0] == 1
        return sigmoid.inputs[0] if mirrored and not any(error.any() for error in errors) else None

    def _graph(self, output: int) -> Graph:
        """Return the nodes that the output needs."""
        needed = {0, output}
        for i in range(output, 0, -1):
            if i in needed:
                needed.update(self.nodes[i].inputs)
        place = {old: new for new, old in enumerate(sorted(needed))}
        nodes, names = [], []
        for i in place:
            node, name = self.nodes[i], self.names[i]
            if node.kind in UNFINISHED:
                raise UnsupportedOperationError(
                    f"Node '{name}': a {node.kind} is supported only {UNFINISHED[node.kind]}."
                )
            nodes.append(node._replace(inputs=tuple(place[j] for j in node.inputs)))
            names.append(name)
        return Graph(tuple(nodes), tuple(names))

    def _with_row(self, left: Operand, right: Operand) -> tuple[Value, FloatArray]:
        """Broadcast a tensor and a constant, in either order, to one shape; the constant becomes its flat row."""
        value, constant = (left, right) if isinstance(left, Value) else (right, left)
        assert isinstance(value, Value)
        table = numbers(constant)
        value, common = self._broadcast(value, table.shape)
        return value, self._row(table, common)

    def _broadcast(self, value: Value, other: tuple[int, ...]) -> tuple[Value, tuple[int, ...]]:
        """Broadcast a tensor to the shape that it has in common with a table of another."""
        own = (self.batch, *value.shape)
        try:
            common = np.broadcast_shapes(own, other)
        except ValueError:
            raise NetworkError(f"the shapes {list(own[1:])} and {list(other)} do not fit.") from None
        self._limit(int(np.prod(common, dtype=np.int64)), 1)
        return self.place(value, lambda positions: np.broadcast_to(positions, common)), common

    def _row(self, table: FloatArray, common: tuple[int, ...]) -> FloatArray:
        """Return the row of one individual in a constant."""
        flat = np.broadcast_to(table, common).reshape(self.batch, -1)
        if not np.array_equal(flat, np.broadcast_to(flat[0], flat.shape), equal_nan=True):
            raise NetworkError("a constant differs between individuals; each row must be treated alike.")
        row: FloatArray = flat[0].copy()
        return row

    def _limit(self, rows: int, columns: int) -> None:
        self.allowance.reserve(rows * columns, f"a layer of {rows} times {columns} weights")
