"""What is judged: a network as a small graph of operations on the features of one individual.

Readers of every format end here, and everything that proves something starts here. Six operations are enough:
layouts (reshape, transpose, slice) are a :class:`Select`, scalings and batch norms an :class:`Affine`, and
every non-linearity is an elementwise :class:`Activation`. Each node holds a flat vector per individual.

Merging layers is what makes bounds tight (one row ``w1 - w0`` instead of two logits, an adapter absorbed by the first
layer), but the merged weights are rounded. Each :class:`Affine` therefore carries two kinds of slack:
``weight_slack`` and ``bias_slack`` enclose the *exact* map of the original layers, in real arithmetic; ``magnitude``,
``magnitude_bias`` and ``roundings`` bound what a floating-point *run* of those layers adds.

**Soundness.** Every slack is an upper bound that includes the rounding of its own computation. Products of
matrices are conventional sums, in any order: ``|fl(AB) - AB| <= gamma_n |A||B|``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, assert_never

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError, UnsupportedOperationError, template
from isonomy.given import as_array
from isonomy.networks.limits import reading
from isonomy_verify import activations
from isonomy_verify.arithmetic import TINY, gamma

Constant = npt.NDArray[Any]
Head = Literal["softmax", "sigmoid", "regression"]
HeadChoice = Literal["auto", "softmax", "sigmoid", "regression"]

# kind -> names of its parameters. ``prelu`` has one slope per element, in any number.
ACTIVATIONS: dict[str, tuple[str, ...]] = dict.fromkeys(activations.SHAPES, ()) | {
    "leaky_relu": ("slope",),
    "prelu": ("slopes",),
    "softplus": ("beta",),
    "elu": ("alpha",),
    "clip": ("low", "high"),
}


@dataclass(frozen=True)
class Input:
    """The features of one individual, in the order in which the network reads them."""

    width: int


@dataclass(frozen=True, eq=False)
class Affine:
    """``y = W x + b``, where the exact ``W`` and ``b`` lie within the slacks of the stored ones.

    ``sum_j |W_exact - W|_ij <= weight_slack_i`` and ``|b_exact - b| <= bias_slack``. A run of the original
    layers with unit roundoff ``u`` differs from the exact map by at most
    ``gamma_roundings(u) * (magnitude |x| + magnitude_bias)``, underflow apart; both magnitudes also bound
    ``|W_exact|`` and ``|b_exact|``. Use :meth:`magnitudes`: a stored ``None`` means "the weights themselves".
    """

    weight: FloatArray  # (out, in)
    bias: FloatArray  # (out,)
    weight_slack: FloatArray  # (out,)
    bias_slack: FloatArray  # (out,)
    magnitude: FloatArray | None = None  # (out, in)
    magnitude_bias: FloatArray | None = None  # (out,)
    roundings: int = 0

    def __post_init__(self) -> None:
        if self.weight.ndim != 2:
            raise NetworkError(f"A weight must be a matrix. Got the shape {tuple(self.weight.shape)}.")
        rows = self.weight.shape[:1]
        expected = {"bias": rows, "weight_slack": rows, "bias_slack": rows, "magnitude_bias": rows}
        expected |= {"weight": self.weight.shape, "magnitude": self.weight.shape}
        for name, shape in expected.items():
            array = getattr(self, name)
            if array is None:
                continue
            if array.shape != shape or array.dtype != np.float64:
                got = f"{array.dtype} of shape {tuple(array.shape)}"
                raise NetworkError(f"The {name} must be float64 of shape {tuple(shape)}. Got {got}.")
            if not np.isfinite(array).all():
                raise NetworkError(f"The {name} holds a NaN or an infinite number; all must be finite.")

    @classmethod
    def of(
        cls,
        weight: FloatArray,
        bias: FloatArray | None = None,
        *,
        weight_slack: FloatArray | None = None,
        bias_slack: FloatArray | None = None,
        magnitude_bias: FloatArray | None = None,
        roundings: int | None = None,
    ) -> Affine:
        """Return one layer: exact unless slacks are given; one rounding per product, one for the bias."""
        matrix = np.array(weight, dtype=np.float64)

        def column(values: FloatArray | None) -> FloatArray:
            return np.zeros(matrix.shape[:1]) if values is None else np.array(values, dtype=np.float64)

        offset = None if magnitude_bias is None else column(magnitude_bias)
        if roundings is None:
            roundings = int(np.count_nonzero(np.atleast_2d(matrix), axis=1).max(initial=0)) + 1
        return cls(matrix, column(bias), column(weight_slack), column(bias_slack), None, offset, roundings)

    @classmethod
    def diagonal(
        cls, scale: FloatArray, bias: FloatArray | None = None, *, roundings: int = 2, **slacks: FloatArray | None
    ) -> Affine:
        """Return ``y = scale * x + bias``, element by element, with the slacks of :meth:`of`."""
        return cls.of(np.diag(scale), bias, roundings=roundings, **slacks)

    @classmethod
    def selection(cls, index: Sequence[int], width: int) -> Affine:
        """Return ``y_i = x_index[i]``, exact also in a floating-point run."""
        return cls.of(np.eye(width)[list(index)], roundings=0)

    @property
    def width_in(self) -> int:
        """Return the number of inputs."""
        return int(self.weight.shape[1])

    @property
    def width_out(self) -> int:
        """Return the number of outputs."""
        return int(self.weight.shape[0])

    def magnitudes(self) -> tuple[FloatArray, FloatArray]:
        """Return both magnitudes with ``None`` filled in, at least ``|W_exact|`` and ``|b_exact|``."""
        weight = _widened(self.weight, self.weight_slack[:, None]) if self.magnitude is None else self.magnitude
        bias = _widened(self.bias, self.bias_slack) if self.magnitude_bias is None else self.magnitude_bias
        return weight, bias


def _widened(value: FloatArray, slack: FloatArray) -> FloatArray:
    """Return ``|value| + slack``, rounded up: the factor covers both roundings and its own, the addend underflow. Where
    there is no slack nothing is rounded."""
    size = np.abs(value)
    return (size + slack) * (1.0 + 2.0 * gamma(4)) + 2 * TINY if slack.any() else size


def numbers(array: Any) -> FloatArray:
    """Return a constant in float64; float32 and smaller convert exactly."""
    if hasattr(array, "detach"):  # a tensor
        array = as_array(array)
    plain = np.asarray(array)
    if plain.dtype.kind in "cUSOMm":  # complex, text, objects, dates
        raise NetworkError(f"a constant must hold real numbers. Got {plain.dtype}.")
    with np.errstate(all="ignore"):  # a NaN or infinity is refused where it would become a weight
        result: FloatArray = np.array(plain, dtype=np.float64)
    return result


@dataclass(frozen=True)
class Activation:
    """An elementwise function by name, as the ``kernel`` knows it.

    Parameters: ``leaky_relu(slope)`` with any finite slope, also negative or above 1; ``prelu`` one slope for
    each element; ``softplus(beta > 0)`` = ``log(1 + exp(beta x)) / beta``; ``elu(alpha >= 0)``;
    ``clip(low <= high)``, one of them possibly infinite. ``gelu`` is ``x Phi(x)``, ``gelu_tanh`` its tanh
    form, ``silu`` is ``x sigmoid(x)``, ``hardswish`` is
    ``x clip(x/6 + 1/2, 0, 1)``.
    """

    kind: str
    parameters: tuple[float, ...] = ()
    kernel: activations.Activation = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            raise UnsupportedOperationError(f"The activation '{self.kind}' is not supported; these are: {known}.")
        try:
            object.__setattr__(self, "kernel", activations.Activation(self.kind, self.parameters))
        except ValueError:
            expected = f"usable numbers {ACTIVATIONS[self.kind]}"
            raise NetworkError(template(f"{self.kind}.parameters", expected, self.parameters)) from None

    def __call__(self, x: npt.NDArray[Any]) -> FloatArray:
        """Return the values at ``x``."""
        return self.kernel.shape.value(x)


@dataclass(frozen=True)
class Add:
    """The sum of two or more nodes of equal width."""


@dataclass(frozen=True)
class Concat:
    """The features of several nodes, one after the other."""


@dataclass(frozen=True)
class Select:
    """``y_i = x_index[i]``: slices, transposes, reshapes and repetitions of the flattened features."""

    index: tuple[int, ...]


Operation = Input | Affine | Activation | Add | Concat | Select


@dataclass(frozen=True, eq=False)
class Node:
    """An operation, the nodes that it reads, and its name in the original network."""

    op: Operation
    inputs: tuple[int, ...] = ()
    name: str = ""


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in topological order: node 0 is the only :class:`Input`, the last one is the output."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        if not self.nodes or not isinstance(self.nodes[0].op, Input):
            raise NetworkError("A graph must begin with its input node.")
        _ = self.widths  # validates every node once, at the door

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Return the number of values of an individual at each node: first the input's, last the outputs'."""
        widths: list[int] = []
        for i, node in enumerate(self.nodes):
            if any(not 0 <= j < i for j in node.inputs):
                raise NetworkError(f"Node {i} '{node.name}' reads {node.inputs}, not only earlier nodes.")
            with reading(f"Node {i} '{node.name}'"):
                widths.append(_width(node, i, [widths[j] for j in node.inputs]))
        return tuple(widths)

    @np.errstate(all="ignore")  # outputs say themselves that they overflow
    def evaluate(self, x: FloatArray, precision: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
        """Return the outputs (n, c) at individuals (n, m), in float64 unless a lower precision will do."""
        if x.ndim != 2 or x.shape[1] != self.widths[0]:
            raise NetworkError(template("x", f"a table of {self.widths[0]} columns", tuple(x.shape)))
        values: list[npt.NDArray[np.floating]] = []
        for node in self.nodes:
            read = [values[j] for j in node.inputs]
            match node.op:
                case Input():
                    values.append(np.asarray(x, precision))
                case Affine(weight=weight, bias=bias):
                    values.append(read[0] @ weight.T.astype(precision) + bias.astype(precision))
                case Activation():
                    values.append(node.op(read[0]).astype(precision, copy=False))
                case Add():
                    values.append(np.sum(read, axis=0))
                case Concat():
                    values.append(np.concatenate(read, axis=1))
                case Select(index=index):
                    values.append(read[0][:, list(index)])
                case _:
                    assert_never(node.op)
        return values[-1]

    def appended(self, op: Operation, name: str = "") -> Graph:
        """Return the graph with one more operation behind its output."""
        return Graph((*self.nodes, Node(op, (len(self.nodes) - 1,), name)))

    def preceded(self, op: Affine | Select, width: int, name: str = "adapter") -> Graph:
        """Return the graph behind one more operation, of ``width`` inputs."""
        head = (Node(Input(width), (), self.nodes[0].name), Node(op, (0,), name))
        moved = [Node(node.op, tuple(j + 1 for j in node.inputs), node.name) for node in self.nodes[1:]]
        return Graph((*head, *moved))

    def hash(self) -> str:
        """Return the SHA-256 of the operations, their numbers and connections; names do not count."""
        digest = hashlib.sha256(b"isonomy graph 1\n")
        for node in self.nodes:
            digest.update(f"{type(node.op).__name__} {node.inputs} ".encode())
            match node.op:
                case Affine():
                    digest.update(f"{node.op.width_out} {node.op.width_in} {node.op.roundings} ".encode())
                    slack = (node.op.weight_slack, node.op.bias_slack)
                    for array in (node.op.weight, node.op.bias, *slack, *node.op.magnitudes()):
                        digest.update(array.astype("<f8").tobytes())
                case Activation(kind=kind, parameters=parameters):
                    digest.update(f"{kind} {[float(p).hex() for p in parameters]}".encode())
                case Input(width=width):
                    digest.update(f"{width}".encode())
                case Select(index=index):
                    digest.update(f"{index}".encode())
                case Add() | Concat():
                    pass
                case _:
                    assert_never(node.op)
            digest.update(b"\n")
        return digest.hexdigest()


def _width(node: Node, position: int, read: list[int]) -> int:
    """Return the width of a node that reads nodes of these widths; an error if they do not fit."""
    single = isinstance(node.op, Affine | Activation | Select)
    if len(read) != (0 if isinstance(node.op, Input) else 1 if single else max(len(read), 1)):
        raise NetworkError(f"{type(node.op).__name__} cannot read {len(read)} nodes.")
    match node.op:
        case Input(width=width):
            if position or width < 1:
                raise NetworkError("there must be one input node, the first, of at least one feature.")
            return width
        case Affine():
            if node.op.width_in != read[0]:
                raise NetworkError(f"the layer takes {node.op.width_in} numbers but gets {read[0]}.")
            return node.op.width_out
        case Activation(kind=kind, parameters=parameters):
            if kind == "prelu" and len(parameters) != read[0]:
                raise NetworkError(f"{len(parameters)} slopes cannot serve {read[0]} numbers.")
            return read[0]
        case Add():
            if len(read) < 2 or len(set(read)) != 1:
                raise NetworkError(f"the sum needs two or more nodes of equal width, not {read}.")
            return read[0]
        case Concat():
            return sum(read)
        case Select(index=index):
            if not index or min(index) < 0 or max(index) >= read[0]:
                raise NetworkError(f"the selection does not fit {read[0]} numbers.")
            return len(index)
