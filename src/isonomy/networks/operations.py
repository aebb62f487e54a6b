"""What each operation means, once for all formats: a reader is a table from its names to these.

Operands are tensors of the individual or constants; :class:`~isonomy.networks.builder.Builder` has the simpler ones
(sums, products, concatenation, batch norm) as methods. A rule takes a :class:`Call` and the operands; :func:`rule` and
:func:`elementwise` make one from a meaning and the names that its options have in a format.

**Soundness.** Each function is exactly the operation in real arithmetic, up to a slack that is derived where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks.affine import Constant, numbers
from isonomy.networks.builder import Builder, Operand, Value


@dataclass(frozen=True)
class Call:
    """One use of an operation: what a file says of it besides its operands."""

    builder: Builder
    options: Mapping[str, Any]
    weights: Sequence[Constant] = ()  # of a layer, in the order of the file
    asked: set[str] = field(default_factory=set)  # options that the rule has looked at

    def __call__(self, name: str, default: Any = None) -> Any:
        """An option, or its default; None counts as left out."""
        self.asked.add(name)
        found = self.options.get(name)
        return default if found is None else found

    def refuse_unread(self, usual: Mapping[str, Any], harmless: Collection[str]) -> None:
        """Refuse an option that the rule did not look at, unless it is harmless, left out, or has its ``usual`` value.

        **Soundness.** An option that goes unnoticed may make the operation another function.
        """
        for name, value in self.options.items():
            if name not in self.asked and name not in harmless and value is not None:
                plain = isinstance(value, bool | int | float | str | bytes)
                if not (plain and name in usual and value == usual[name]):
                    raise UnsupportedOperationError(f"its option '{name}' is not supported.")


Rule = Callable[..., Any]  # of a call and its operands


def rule(meaning: Callable[..., Any], **options: Any) -> Rule:
    """``meaning(builder, *operands)``, each option by its name there and its default: ``low=("min", None)``."""
    return lambda call, *operands: meaning(
        call.builder, *operands, **{parameter: call(*written) for parameter, written in options.items()}
    )


def elementwise(kind: str, **options: float) -> Rule:
    """An activation by its name in the graph; its parameters are options with these defaults."""
    return lambda call, x: call.builder.activation(x, kind, *(float(call(*each)) for each in options.items()))


def same(call: Call, x: Any, *_: Any) -> Any:
    """Nothing happens."""
    return x


def number(value: Any, what: str) -> float:
    """A constant that is one number."""
    if isinstance(value, Value) or np.size(numbers(value)) != 1:
        raise UnsupportedOperationError(f"{what} must be one number, the same for everybody.")
    return float(numbers(value).reshape(()))


def clip(builder: Builder, x: Value, low: Any = None, high: Any = None) -> Value:
    """``x`` between two numbers; None is no limit."""
    ends = -math.inf if low is None else number(low, "a limit"), math.inf if high is None else number(high, "a limit")
    return builder.activation(x, "clip", *ends)


def gelu(builder: Builder, x: Value, approximate: str | bytes = "none") -> Value:
    """``x Phi(x)``, or its tanh form."""
    return builder.activation(x, "gelu_tanh" if approximate in ("tanh", b"tanh") else "gelu")


def selu(
    builder: Builder, x: Value, alpha: float = 1.6732632423543772848, scale: float = 1.0507009873554804934
) -> Value:
    """``scale`` times an ELU."""
    return builder.multiply(builder.activation(x, "elu", alpha), scale)


ACTIVATIONS: dict[str, Rule] = {  # as torch and Keras call them, and ONNX in capitals
    **{kind: elementwise(kind) for kind in ("relu", "sigmoid", "tanh", "silu", "hardswish", "erf")},
    "relu6": elementwise("clip", low=0.0, high=6.0),
    "elu": rule(selu, alpha=("alpha", 1.0), scale=("scale", 1.0)),
    "selu": rule(selu),
    "gelu": rule(gelu, approximate=("approximate", "none")),
}


def softplus(builder: Builder, x: Value, beta: float = 1.0, threshold: float = math.inf) -> Value:
    """``log(1 + exp(beta x)) / beta``, in some frameworks linear beyond a threshold.

    **Soundness.** The linear piece lies at most ``exp(-threshold) / beta`` below the smooth one; a slack covers that.
    """
    if threshold < 20:
        raise UnsupportedOperationError(f"a softplus that is linear beyond {threshold} is not smooth.")
    smooth = builder.activation(x, "softplus", beta)
    return smooth if threshold == math.inf else builder.nearly(smooth, 2 * math.exp(-threshold) / beta)


def prelu(builder: Builder, x: Value, slopes: Any) -> Value:
    """A leaky ReLU with slopes that are broadcast to the tensor."""
    return builder.activation(x, "prelu", *builder.row(x, slopes).tolist())


def softmax(builder: Builder, x: Value, axis: Any = -1, kind: str = "softmax", *, flattened: bool = False) -> Value:
    """A softmax over all features of an individual; ``flattened`` takes every axis from ``axis`` on."""
    axes = (builder.batch, *x.shape)
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    first = axis + len(axes) if axis < 0 else axis
    over = axes[first:] if flattened else axes[first : first + 1]
    if first < 1 or not over or int(np.prod(over)) != x.width:
        raise UnsupportedOperationError("a softmax is supported only over all features of an individual.")
    return builder.unfinished(x, kind)


log_softmax = partial(softmax, kind="log_softmax")


def power(builder: Builder, x: Operand, exponent: Any) -> Value:
    """A square or cube, as a part of a GELU."""
    which = None if isinstance(exponent, Value) or np.size(numbers(exponent)) != 1 else number(exponent, "an exponent")
    if not isinstance(x, Value) or which not in (1.0, 2.0, 3.0):
        raise UnsupportedOperationError("only powers within a GELU are supported.")
    return x if which == 1 else builder.unfinished(x, "square" if which == 2 else "cube")


def matmul(builder: Builder, left: Operand, right: Operand) -> Value:
    """A product with a constant matrix on either side."""
    if isinstance(left, Value) and not isinstance(right, Value):
        return builder.matmul(left, numbers(right))
    if isinstance(right, Value) and not isinstance(left, Value) and len(right.shape) == 2 and np.ndim(left) == 2:
        factor = numbers(left)
        return builder.linear(right, lambda rows: factor @ rows)
    raise UnsupportedOperationError("only a product with a constant matrix is supported.")


def gemm(
    builder: Builder, x: Operand, weight: Operand, bias: Operand | None = None, alpha: float = 1, beta: float = 1
) -> Value:
    """``alpha (x @ weight) + beta bias`` of a table of individuals."""
    if not isinstance(x, Value) or isinstance(weight, Value) or len(x.shape) != 1:
        raise UnsupportedOperationError("only a table of individuals times a constant matrix is supported.")
    product = builder.multiply(builder.matmul(x, numbers(weight)), alpha)
    return product if bias is None or beta == 0 else builder.add_scaled(product, bias, beta)


def total(builder: Builder, first: Operand, *others: Operand) -> Any:
    """The sum of any number of operands."""
    for each in others:
        both = isinstance(first, Value) or isinstance(each, Value)
        first = builder.add(first, each) if both else numbers(first) + numbers(each)
    return first


def stack(builder: Builder, operands: Sequence[Operand], axis: int) -> Any:
    """Tensors joined along a new axis."""
    ranks = [len(each.shape) + 1 if isinstance(each, Value) else np.ndim(each) for each in operands]
    at = axis if axis >= 0 else axis + ranks[0] + 1
    lifted = [
        builder.place(each, lambda positions: np.expand_dims(positions, at))
        if isinstance(each, Value)
        else np.expand_dims(numbers(each), at)
        for each in operands
    ]
    return builder.concat(lifted, at)


def dropout(x: Value, active: bool) -> Value:
    """Nothing, unless it is active."""
    if active:
        raise NetworkError("dropout is active; the network must be in evaluation mode (training=self.training).")
    return x
