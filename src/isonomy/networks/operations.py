"""What each operation means, once for all formats: a reader is a table from its names to these.

Operands are tensors of the individual or constants; :class:`~isonomy.networks.builder.Builder` has the simpler ones
(sums, products, concatenation, batch norm) as methods. A rule takes a :class:`Call` and the operands; :func:`rule` and
:func:`elementwise` make one from a meaning and the names that its options have in a format.

**Soundness.** Each function is exactly the operation in real arithmetic, up to a slack that is derived where it stands.

A product of two tensors is known only where it is one function: GELU in both forms, and SiLU. Exporters write
``0.5 x (1 + erf(x / sqrt 2))`` as five nodes, with the constants rounded and the factors in any order. Bounding a
product of two dependent tensors would be loose, so it is recognised and replaced.

**Soundness.** The replacement is the function in the file, not the one its author meant. With ``t = k sqrt
2`` it is ``s x (1 + erf(k x)) = (2 s / t) gelu(t x)`` for any ``k > 0``, and ``s x sigmoid(k x) = (s / k)
silu(k x)``; only the new factors are rounded, and their slack says so. The tanh form has two constants;
where both are within a relative ``e`` of the textbook's, the two functions differ by at most ``e / 2``
everywhere (with ``a`` the argument of tanh, ``|x| <= 1.26 |a|`` and ``a^2 / cosh^2 a < 0.44``, so ``0.5 |x|
|a e| / cosh^2 a < 0.28 e``), which becomes a slack of the bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks.builder import Builder, Operand, Value
from isonomy.networks.graph import Activation, Constant, Node, numbers, numbers_of
from isonomy_verify.arithmetic import TINY, gamma

_NEAR = 1e-6  # constants of the tanh form in single precision are within 1e-7
_TANH_LINEAR = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = _TANH_LINEAR * 0.044715


@dataclass(frozen=True)
class Call:
    """One use of an operation: what a file says of it besides its operands."""

    builder: Builder
    options: Mapping[str, Any]
    weights: Sequence[Constant] = ()  # of a layer, in the order of the file
    options_read: set[str] = field(default_factory=set)  # options that the rule has looked at

    def __call__(self, name: str, default: Any = None) -> Any:
        """Return an option, or its default; None counts as left out."""
        self.options_read.add(name)
        value = self.options.get(name)
        return default if value is None else value

    def refuse_unread(self, usual: Mapping[str, Any], harmless: Collection[str]) -> None:
        """Refuse an option that the rule did not look at, unless it is harmless, left out, or has its ``usual`` value.

        **Soundness.** An option that goes unnoticed may make the operation another function.
        """
        for name, value in self.options.items():
            if name not in self.options_read and name not in harmless and value is not None:
                plain = isinstance(value, bool | int | float | str | bytes)
                if not (plain and name in usual and value == usual[name]):
                    raise UnsupportedOperationError(f"its option '{name}' is not supported.")


Rule = Callable[..., Any]  # of a call and its operands


def rule(meaning: Callable[..., Any], **options: Any) -> Rule:
    """Return ``meaning(builder, *operands)`` as a rule, options by name and default: ``low=("min", None)``."""
    return lambda call, *operands: meaning(
        call.builder, *operands, **{parameter: call(*written) for parameter, written in options.items()}
    )


def elementwise(kind: str, **options: float) -> Rule:
    """Return the rule of an activation by its name in the graph; its parameters are options with these defaults."""
    return lambda call, x: call.builder.activation(x, kind, *(float(call(*each)) for each in options.items()))


def identity(call: Call, x: Any, *_: Any) -> Any:
    """Return the operand unchanged."""
    return x


def number(value: Any, what: str) -> float:
    """Return a constant that is one number."""
    if isinstance(value, Value) or np.size(numbers(value)) != 1:
        raise UnsupportedOperationError(f"{what} must be one number, the same for everybody.")
    return float(numbers(value).reshape(()))


def clip(builder: Builder, x: Value, low: Any = None, high: Any = None) -> Value:
    """Return ``x`` between two numbers; None is no limit."""
    ends = -math.inf if low is None else number(low, "a limit"), math.inf if high is None else number(high, "a limit")
    return builder.activation(x, "clip", *ends)


def gelu(builder: Builder, x: Value, approximate: str | bytes = "none") -> Value:
    """Return ``x Phi(x)``, or its tanh form."""
    return builder.activation(x, "gelu_tanh" if approximate in ("tanh", b"tanh") else "gelu")


def selu(
    builder: Builder, x: Value, alpha: float = 1.6732632423543772848, scale: float = 1.0507009873554804934
) -> Value:
    """Return ``scale`` times an ELU."""
    return builder.multiply(builder.activation(x, "elu", alpha), scale)


ACTIVATIONS: dict[str, Rule] = {  # as torch and Keras call them, and ONNX in capitals
    **{kind: elementwise(kind) for kind in ("relu", "sigmoid", "tanh", "silu", "hardswish", "erf")},
    "relu6": elementwise("clip", low=0.0, high=6.0),
    "elu": rule(selu, alpha=("alpha", 1.0), scale=("scale", 1.0)),
    "selu": rule(selu),
    "gelu": rule(gelu, approximate=("approximate", "none")),
}


def softplus(builder: Builder, x: Value, beta: float = 1.0, threshold: float = math.inf) -> Value:
    """Return ``log(1 + exp(beta x)) / beta``, in some frameworks linear beyond a threshold.

    **Soundness.** The linear piece lies at most ``exp(-threshold) / beta`` below the smooth one; a slack covers that.
    """
    if threshold < 20:
        raise UnsupportedOperationError(f"a softplus that is linear beyond {threshold} is not smooth.")
    smooth = builder.activation(x, "softplus", beta)
    return smooth if threshold == math.inf else builder.with_error(smooth, 2 * math.exp(-threshold) / beta)


def prelu(builder: Builder, x: Value, slopes: Any) -> Value:
    """Return a leaky ReLU with slopes that are broadcast to the tensor."""
    return builder.activation(x, "prelu", *builder.row(x, slopes).tolist())


def softmax(builder: Builder, x: Value, axis: Any = -1, kind: str = "softmax", *, flattened: bool = False) -> Value:
    """Apply a softmax over all features of an individual; ``flattened`` takes every axis from ``axis`` on."""
    axes = (builder.batch, *x.shape)
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    first = axis + len(axes) if axis < 0 else axis
    over = axes[first:] if flattened else axes[first : first + 1]
    if first < 1 or not over or int(np.prod(over)) != x.width:
        raise UnsupportedOperationError("a softmax is supported only over all features of an individual.")
    return builder.apply(Node(kind), x)


log_softmax = partial(softmax, kind="log_softmax")


def power(builder: Builder, x: Operand, exponent: Any) -> Value:
    """Return a square or cube, as a part of a GELU."""
    which = None if isinstance(exponent, Value) or np.size(numbers(exponent)) != 1 else number(exponent, "an exponent")
    if not isinstance(x, Value) or which not in (1.0, 2.0, 3.0):
        raise UnsupportedOperationError("only powers within a GELU are supported.")
    return x if which == 1 else builder.apply(Node("square" if which == 2 else "cube"), x)


def matmul(builder: Builder, left: Operand, right: Operand) -> Value:
    """Return a product with a constant matrix on either side."""
    if isinstance(left, Value) and not isinstance(right, Value):
        return builder.matmul(left, numbers(right))
    if isinstance(right, Value) and not isinstance(left, Value) and len(right.shape) == 2 and np.ndim(left) == 2:
        factor = numbers(left)
        return builder.linear(right, lambda rows: factor @ rows)
    raise UnsupportedOperationError("only a product with a constant matrix is supported.")


def gemm(
    builder: Builder, x: Operand, weight: Operand, bias: Operand | None = None, alpha: float = 1, beta: float = 1
) -> Value:
    """Return ``alpha (x @ weight) + beta bias`` of a table of individuals."""
    if not isinstance(x, Value) or isinstance(weight, Value) or len(x.shape) != 1:
        raise UnsupportedOperationError("only a table of individuals times a constant matrix is supported.")
    product = builder.multiply(builder.matmul(x, numbers(weight)), alpha)
    return product if bias is None or beta == 0 else builder.add_scaled(product, bias, beta)


def total(builder: Builder, first: Operand, *others: Operand) -> Any:
    """Return the sum of any number of operands."""
    for each in others:
        both = isinstance(first, Value) or isinstance(each, Value)
        first = builder.add(first, each) if both else numbers(first) + numbers(each)
    return first


def stack(builder: Builder, operands: Sequence[Operand], axis: int) -> Any:
    """Join tensors along a new axis."""
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
    """Return the operand unchanged; a dropout that is active is refused."""
    if active:
        raise NetworkError("dropout is active; the network must be in evaluation mode (training=self.training).")
    return x


# -- products of two tensors that are one well-known function


@np.errstate(all="ignore")  # what overflows is refused as a weight
def multiply(builder: Builder, left: Operand, right: Operand) -> Value:
    """Return ``left * right``, with broadcasting; of two tensors only as one known function of one tensor."""
    if not isinstance(left, Value) or not isinstance(right, Value):
        return builder.multiply(left, right)
    pair = builder.aligned(left, right)
    for factor, gate in (pair, pair[::-1]):
        for gated in _chain(builder, gate.node):
            node = builder.nodes[gated.node]
            match node.activation:
                case Activation(kind="erf" | "sigmoid" as gate_kind):
                    kind = {"erf": "gelu", "sigmoid": "silu"}[gate_kind]
                    result = _gated(builder, factor, gated, node.inputs[0], kind)
                case Activation(kind="tanh"):
                    result = _gelu_tanh(builder, factor, gated, node.inputs[0])
                case _:
                    result = _power(builder, factor, gated)
            if result is not None:
                return result
    raise UnsupportedOperationError("a product of two tensors is supported only as part of a GELU or SiLU.")


@np.errstate(all="ignore")
def fused_where(builder: Builder, condition: Value, above: Value, below: Value) -> Value:
    """Return ``x`` where ``t = beta x`` is above a threshold, elsewhere ``softplus(t) / beta``, as one softplus.

    **Soundness.** The smooth function exceeds the linear piece by ``log(1 + exp(-threshold)) / beta`` at most:
    a slack of the bias. Where ``beta`` and ``1 / beta`` are rounded, the smooth piece has another factor than the
    linear one, whose factor is taken: up to the threshold that is a slack of the bias, too. A slack of the weight would
    say that both pieces have the same one.
    """
    compared = builder.nodes[condition.node]
    threshold = float(compared.bias[0]) if compared.kind == "comparison" and compared.bias is not None else 0.0
    for smooth in _chain(builder, below.node) if threshold >= 20 else ():
        inner = builder.nodes[smooth.node]
        softplus = inner.activation == Activation("softplus", (1.0,)) and inner.inputs == compared.inputs
        if not softplus or smooth.offset.any():
            continue
        for x, y in _common(builder, inner.inputs[0], above.node):
            if x.node != above.node or not (y.scale == 1).all():
                continue
            off = np.abs(x.scale * smooth.scale - 1) + smooth.error + x.error
            if (off < _NEAR).all() and (smooth.scale > 0).all():
                piece = (math.exp(-threshold) + off * (threshold + 1)) / x.scale
                return _rescaled(builder, Value(smooth.node, below.shape), 1 / x.scale, x.error, absolute=piece)
    raise UnsupportedOperationError("a choice between two tensors is supported only within a softplus.")


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Some tensor is ``scale * node + offset``, the scale up to a relative error."""

    node: int
    scale: FloatArray
    offset: FloatArray
    error: FloatArray


def _chain(builder: Builder, node: int) -> Iterator[_Scaled]:
    """Yield the ways to write a tensor as a scaled and shifted earlier one, nearest first.

    Below an offset nothing but the tensor itself follows, so equal scale and offset are equal exactly.
    """
    one = np.ones(1)
    here = _Scaled(node, one, 0 * one, 0 * one)
    while True:
        yield here
        layer = builder.nodes[here.node]
        if layer.kind != "affine":
            return
        weight, bias, weight_error, bias_error = numbers_of(layer)
        diagonal = np.diagonal(weight)
        if weight.shape[0] != weight.shape[1] or bias_error.any():
            return
        if (weight != np.diag(diagonal)).any() or not diagonal.all():
            return
        plain = (diagonal == 1).all() and not weight_error.any()
        if here.offset.any() or (bias.any() and not plain):
            return
        here = _Scaled(
            layer.inputs[0],
            here.scale * diagonal,
            here.scale * bias + here.offset,
            here.error + weight_error / np.abs(diagonal) + (0.0 if plain else gamma(2)),
        )


def _common(builder: Builder, first: int, second: int) -> Iterator[tuple[_Scaled, _Scaled]]:
    """Yield ways to write two tensors as plain multiples of the same one."""
    others = [each for each in _chain(builder, second) if not each.offset.any()]
    for one in _chain(builder, first):
        for other in others:
            if one.node == other.node and not one.offset.any():
                yield one, other


def _gated(builder: Builder, factor: Value, gate: _Scaled, argument: int, kind: str) -> Value | None:
    """Return a GELU by its erf, or a SiLU by its sigmoid."""
    gelu = kind == "gelu"
    if (gate.scale != gate.offset if gelu else gate.offset).any():
        return None
    for x, k in _common(builder, factor.node, argument):
        if gelu and not (k.scale > 0).all():
            continue
        inner = math.sqrt(2.0) * k.scale if gelu else k.scale
        base = _rescaled(builder, Value(x.node, factor.shape), inner, k.error)
        outer, error = (2.0 if gelu else 1.0) * x.scale * gate.scale / inner, x.error + gate.error + k.error
        return _rescaled(builder, builder.activation(base, kind), outer, error)
    return None


def _gelu_tanh(builder: Builder, factor: Value, gate: _Scaled, argument: int) -> Value | None:
    if (gate.scale != gate.offset).any():
        return None
    for total in _chain(builder, argument):
        summed = builder.nodes[total.node]
        if summed.kind != "add" or len(summed.inputs) != 2 or total.offset.any():
            continue
        for linear, cubic in (summed.inputs, summed.inputs[::-1]):
            for power in _chain(builder, cubic):
                if builder.nodes[power.node].kind != "cube" or power.offset.any():
                    continue
                base = builder.nodes[power.node].inputs[0]
                x = next((way for way, _ in _common(builder, factor.node, base) if way.node == base), None)
                y = next((way for way, _ in _common(builder, linear, base) if way.node == base), None)
                if x is None or y is None:
                    continue
                off_linear = np.abs(total.scale * y.scale / _TANH_LINEAR - 1) + total.error + y.error
                off_cubic = np.abs(total.scale * power.scale / _TANH_CUBIC - 1) + total.error + power.error
                off = np.maximum(off_linear, off_cubic) + gamma(16)
                if (off > _NEAR).any():
                    continue
                fused = builder.activation(Value(base, factor.shape), "gelu_tanh")
                outer = 2.0 * x.scale * gate.scale
                return _rescaled(builder, fused, outer, x.error + gate.error, absolute=0.5 * off * np.abs(outer))
    return None


def _power(builder: Builder, factor: Value, other: _Scaled) -> Value | None:
    """Return ``x * x`` and ``x * x^2``, up to scale: parts of the tanh form, refused if they stay alone."""
    if other.offset.any():
        return None
    node = builder.nodes[other.node]
    base, kind = (node.inputs[0], "cube") if node.kind == "square" else (other.node, "square")
    for x in _chain(builder, factor.node):
        if x.node == base and not x.offset.any():
            result = builder.apply(Node(kind), Value(base, factor.shape))
            return _rescaled(builder, result, x.scale * other.scale, x.error + other.error)
    return None


def _rescaled(
    builder: Builder, value: Value, scale: FloatArray, error: FloatArray, absolute: FloatArray | None = None
) -> Value:
    """Return ``scale * value``, where ``scale`` has a relative error, plus an absolute one."""
    if absolute is None and not error.any() and (scale == 1).all():
        return value
    ones = np.ones(value.width)
    # At most six roundings made a scale from the exact ones; the quotient by 1 - error is within 1 + 2 error.
    slack = 2.0 * np.abs(scale) * (error + gamma(8)) + TINY
    extra = None if absolute is None else 2.0 * absolute * ones
    return builder.diagonal(value, scale * ones, weight_error=slack * ones, bias_error=extra)
