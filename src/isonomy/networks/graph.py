"""What is judged: a network as a small graph of operations on the features of one individual.

Readers of every format end here, and everything that proves something starts here. A node is the kernel's
(:class:`isonomy_verify.network.Node`), and six kinds are enough: layouts (reshape, transpose, slice) are a *select*,
scalings and batch norms *affine*, and every non-linearity is an elementwise *activation*. Each node holds a flat vector
per individual.

Merging layers is what makes bounds tight (one row ``w1 - w0`` instead of two logits, an adapter absorbed by the first
layer), but the merged weights are rounded. An affine node therefore carries two kinds of slack: ``weight_error`` and
``bias_error`` enclose the *exact* map of the original layers, in real arithmetic; ``size``, ``bias_size`` and
``roundings`` bound what a floating-point *run* of those layers adds.

**Soundness.** Every slack is an upper bound that includes the rounding of its own computation. Products of
matrices are conventional sums, in any order: ``|fl(AB) - AB| <= gamma_n |A||B|``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError, UnsupportedOperationError, template
from isonomy.given import as_array
from isonomy_verify.activations import SHAPES
from isonomy_verify.activations import Activation as Activation
from isonomy_verify.arithmetic import TINY, gamma
from isonomy_verify.network import Node as Node
from isonomy_verify.network import node_widths

Constant = npt.NDArray[Any]
Head = Literal["softmax", "sigmoid", "regression", "probability"]
HeadChoice = Literal["auto", "softmax", "sigmoid", "regression"]


def affine(
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    weight_error: npt.ArrayLike | None = None,
    bias_error: npt.ArrayLike | None = None,
    size: npt.ArrayLike | None = None,
    bias_size: npt.ArrayLike | None = None,
    roundings: int | None = None,
) -> Node:
    """Return ``y = W x + b``: exact unless errors are given; by default one rounding per product, one for the bias.

    ``sum_j |W_exact - W|_ij <= weight_error_i`` and ``|b_exact - b| <= bias_error``, all of shape (out,). A run of the
    original layers with unit roundoff ``u`` differs from the exact map by at most
    ``gamma_roundings(u) * (size |x| + bias_size)``, underflow apart; both sizes, (out, in) and (out,), also bound
    ``|W_exact|`` and ``|b_exact|``; None: the weights themselves, see :func:`sizes`.
    """
    matrix = np.array(weight, dtype=np.float64)
    if matrix.ndim != 2:
        raise NetworkError(f"A weight must be a matrix. Got the shape {matrix.shape}.")
    rows = matrix.shape[:1]
    given = {"bias": (bias, rows), "weight_error": (weight_error, rows), "bias_error": (bias_error, rows)}
    parts: dict[str, Any] = {"weight": matrix}
    for name, (values, shape) in (given | {"size": (size, matrix.shape), "bias_size": (bias_size, rows)}).items():
        absent = None if "size" in name else np.zeros(shape)
        parts[name] = absent if values is None else np.array(values, dtype=np.float64)
        got = parts[name]
        if got is not None and got.shape != shape:
            raise NetworkError(f"The {name} must be of shape {shape}. Got {got.shape}.")
    wrong = next((name for name, part in parts.items() if part is not None and not np.isfinite(part).all()), None)
    if wrong is not None:
        raise NetworkError(f"The {wrong} holds a NaN or an infinite number; all must be finite.")
    if roundings is None:
        roundings = int(np.count_nonzero(matrix, axis=1).max(initial=0)) + 1
    return Node("affine", roundings=roundings, **parts)


def diagonal(
    scale: FloatArray, bias: FloatArray | None = None, *, roundings: int = 2, **errors: FloatArray | None
) -> Node:
    """Return ``y = scale * x + bias``, element by element, with the errors of :func:`affine`."""
    return affine(np.diag(scale), bias, roundings=roundings, **errors)


def selection(index: Sequence[int], width: int) -> Node:
    """Return ``y_i = x_index[i]`` as an affine node, exact also in a floating-point run."""
    return affine(np.eye(width)[list(index)], roundings=0)


def activation(kind: str, parameters: Sequence[float] = ()) -> Activation:
    """Return an elementwise function by its name.

    Parameters: ``leaky_relu(slope)`` with any finite slope, also negative or above 1; ``prelu`` one slope for
    each element; ``softplus(beta > 0)`` = ``log(1 + exp(beta x)) / beta``; ``elu(alpha >= 0)``;
    ``clip(low <= high)``, one of them possibly infinite. ``gelu`` is ``x Phi(x)``, ``gelu_tanh`` its tanh
    form, ``silu`` is ``x sigmoid(x)``, ``hardswish`` is ``x clip(x/6 + 1/2, 0, 1)``, ``log1p`` is 0 below 0.
    """
    if kind not in SHAPES:
        known = ", ".join(sorted(SHAPES))
        raise UnsupportedOperationError(f"The activation '{kind}' is not supported; these are: {known}.")
    try:
        return Activation(kind, tuple(map(float, parameters)))
    except ValueError:
        raise NetworkError(template(f"{kind}.parameters", "usable numbers", tuple(parameters))) from None


class Numbers(NamedTuple):
    """The arrays of an affine node; see :func:`affine`."""

    weight: FloatArray
    bias: FloatArray
    weight_error: FloatArray
    bias_error: FloatArray


def numbers_of(node: Node) -> Numbers:
    """Return the arrays of an affine node."""
    assert node.weight is not None and node.bias is not None
    assert node.weight_error is not None and node.bias_error is not None
    return Numbers(node.weight, node.bias, node.weight_error, node.bias_error)


def sizes(node: Node) -> tuple[FloatArray, FloatArray]:
    """Return both sizes of an affine node with None filled in, at least ``|W_exact|`` and ``|b_exact|``."""
    weight, bias, weight_error, bias_error = numbers_of(node)
    return (
        _widened(weight, weight_error[:, None]) if node.size is None else node.size,
        _widened(bias, bias_error) if node.bias_size is None else node.bias_size,
    )


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


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in topological order, the first the only input, the last the output, and their names in the original."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", ("",) * len(self.nodes))
        _ = self.widths  # validates every node once, at the door

    @classmethod
    def chain(cls, nodes: Sequence[Node], names: tuple[str, ...] = ()) -> Graph:
        """Return the graph whose nodes, the first of them affine, each read the one before; ``names`` begin with the
        input's."""
        linked = (node._replace(inputs=(place,)) for place, node in enumerate(nodes))
        return cls((Node("input", width=numbers_of(nodes[0]).weight.shape[1]), *linked), names)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Return the number of values of an individual at each node: first the input's, last the outputs'."""
        try:
            return tuple(node_widths(self.nodes, self.names))
        except ValueError as error:
            raise NetworkError(str(error)) from None

    @np.errstate(all="ignore")  # outputs say themselves that they overflow
    def evaluate(self, x: FloatArray, precision: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
        """Return the outputs (n, c) at individuals (n, m), in float64 unless a lower precision will do."""
        if x.ndim != 2 or x.shape[1] != self.widths[0]:
            raise NetworkError(template("x", f"a table of {self.widths[0]} columns", tuple(x.shape)))
        values: list[npt.NDArray[np.floating]] = [np.asarray(x, precision)]
        for node in self.nodes[1:]:
            read = [values[j] for j in node.inputs]
            match node:
                case Node(kind="affine"):
                    weight, bias, *_ = numbers_of(node)
                    values.append(read[0] @ weight.T.astype(precision) + bias.astype(precision))
                case Node(activation=Activation(shape=shape)):
                    values.append(shape.value(read[0]).astype(precision, copy=False))
                case Node(kind="add"):
                    values.append(np.sum(read, axis=0))
                case Node(kind="concat"):
                    values.append(np.concatenate(read, axis=1))
                case _:
                    values.append(read[0][:, list(node.columns)])
        return values[-1]

    def appended(self, node: Node, name: str = "") -> Graph:
        """Return the graph with one more node behind its output."""
        return Graph((*self.nodes, node._replace(inputs=(len(self.nodes) - 1,))), (*self.names, name))

    def preceded(self, node: Node, width: int, name: str = "adapter") -> Graph:
        """Return the graph behind one more node, of ``width`` inputs."""
        moved = [each._replace(inputs=tuple(j + 1 for j in each.inputs)) for each in self.nodes[1:]]
        nodes = (Node("input", width=width), node._replace(inputs=(0,)), *moved)
        return Graph(nodes, (self.names[0], name, *self.names[1:]))

    def hash(self) -> str:
        """Return the SHA-256 of the nodes, their numbers and connections; names do not count."""
        digest = hashlib.sha256(b"isonomy graph 1\n")
        for node in self.nodes:
            digest.update(f"{node.kind.capitalize()} {node.inputs} ".encode())
            match node:
                case Node(kind="affine"):
                    arrays = (*numbers_of(node), *sizes(node))
                    digest.update(f"{arrays[0].shape[0]} {arrays[0].shape[1]} {node.roundings} ".encode())
                    for array in arrays:
                        digest.update(array.astype("<f8").tobytes())
                case Node(activation=Activation(kind=kind, parameters=parameters)):
                    digest.update(f"{kind} {[float(p).hex() for p in parameters]}".encode())
                case Node(kind="input"):
                    digest.update(f"{node.width}".encode())
                case Node(kind="select"):
                    digest.update(f"{node.columns}".encode())
            digest.update(b"\n")
        return digest.hexdigest()
