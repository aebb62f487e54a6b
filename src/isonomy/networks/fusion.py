"""Products of two tensors that are one well-known function: GELU in both forms, and SiLU.

Exporters write ``0.5 x (1 + erf(x / sqrt 2))`` as five nodes, with the constants rounded and the factors in
any order. Bounding a product of two dependent tensors would be loose, so it is recognised and replaced.

**Soundness.** The replacement is the function in the file, not the one its author meant. With ``t = k sqrt
2`` it is ``s x (1 + erf(k x)) = (2 s / t) gelu(t x)`` for any ``k > 0``, and ``s x sigmoid(k x) = (s / k)
silu(k x)``; only the new factors are rounded, and their slack says so. The tanh form has two constants;
where both are within a relative ``e`` of the textbook's, the two functions differ by at most ``e / 2``
everywhere (with ``a`` the argument of tanh, ``|x| <= 1.26 |a|`` and ``a^2 / cosh^2 a < 0.44``, so ``0.5 |x|
|a e| / cosh^2 a < 0.28 e``), which becomes a slack of the bias.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import UnsupportedOperationError
from isonomy.networks.builder import Builder, Unfinished, Value
from isonomy.networks.graph import Activation, Add, Affine
from isonomy_verify.arithmetic import TINY, gamma

_NEAR = 1e-6  # constants of the tanh form in single precision are within 1e-7
_TANH_LINEAR = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = _TANH_LINEAR * 0.044715


@np.errstate(all="ignore")  # what overflows is refused as a weight
def fused_product(builder: Builder, left: Value, right: Value) -> Value:
    """``left * right`` as one known function of one tensor, or an error."""
    for factor, gate in ((left, right), (right, left)):
        for gated in _chain(builder, gate.node):
            match builder.nodes[gated.node]:
                case Activation(kind="erf" | "sigmoid" as gate_kind), (argument,), _:
                    kind = {"erf": "gelu", "sigmoid": "silu"}[gate_kind]
                    result = _gated(builder, factor, gated, argument, kind)
                case Activation(kind="tanh"), (argument,), _:
                    result = _gelu_tanh(builder, factor, gated, argument)
                case _:
                    result = _power(builder, factor, gated)
            if result is not None:
                return result
    raise UnsupportedOperationError("a product of two tensors is supported only as part of a GELU or SiLU.")


@np.errstate(all="ignore")
def fused_where(builder: Builder, condition: Value, above: Value, below: Value) -> Value:
    """``x`` where ``t = beta x`` is above a threshold, elsewhere ``softplus(t) / beta``, as one softplus.

    **Soundness.** The smooth function exceeds the linear piece by ``log(1 + exp(-threshold)) / beta`` at most:
    a slack of the bias. Where ``beta`` and ``1 / beta`` are rounded, the smooth piece has another factor than the
    linear one, whose factor is taken: up to the threshold that is a slack of the bias, too. A slack of the weight would
    say that both pieces have the same one.
    """
    op, compared, _ = builder.nodes[condition.node]
    steep = isinstance(op, Unfinished) and op.kind == "comparison" and op.parameter >= 20
    for smooth in _chain(builder, below.node) if steep else ():
        inner, argument, _ = builder.nodes[smooth.node]
        if inner != Activation("softplus", (1.0,)) or argument != compared or smooth.offset.any():
            continue
        for x, y in _common(builder, argument[0], above.node):
            if x.node != above.node or not (y.scale == 1).all():
                continue
            off = np.abs(x.scale * smooth.scale - 1) + smooth.error + x.error
            if isinstance(op, Unfinished) and (off < _NEAR).all() and (smooth.scale > 0).all():
                piece = (math.exp(-op.parameter) + off * (op.parameter + 1)) / x.scale
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
    """The ways to write a tensor as a scaled and shifted earlier one, nearest first.

    Below an offset nothing but the tensor itself follows, so equal scale and offset are equal exactly.
    """
    one = np.ones(1)
    here = _Scaled(node, one, 0 * one, 0 * one)
    while True:
        yield here
        op, read, _ = builder.nodes[here.node]
        if not isinstance(op, Affine) or op.width_in != op.width_out or op.bias_slack.any():
            return
        diagonal = np.diagonal(op.weight)
        if (op.weight != np.diag(diagonal)).any() or not diagonal.all():
            return
        plain = (diagonal == 1).all() and not op.weight_slack.any()
        if here.offset.any() or (op.bias.any() and not plain):
            return
        here = _Scaled(
            read[0],
            here.scale * diagonal,
            here.scale * op.bias + here.offset,
            here.error + op.weight_slack / np.abs(diagonal) + (0.0 if plain else gamma(2)),
        )


def _common(builder: Builder, first: int, second: int) -> Iterator[tuple[_Scaled, _Scaled]]:
    """Ways to write two tensors as plain multiples of the same one."""
    others = [each for each in _chain(builder, second) if not each.offset.any()]
    for one in _chain(builder, first):
        for other in others:
            if one.node == other.node and not one.offset.any():
                yield one, other


def _gated(builder: Builder, factor: Value, gate: _Scaled, argument: int, kind: str) -> Value | None:
    """A GELU by its erf, or a SiLU by its sigmoid."""
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
        op, read, _ = builder.nodes[total.node]
        if not isinstance(op, Add) or len(read) != 2 or total.offset.any():
            continue
        for linear, cubic in (read, read[::-1]):
            for power in _chain(builder, cubic):
                if builder.nodes[power.node][0] != Unfinished("cube") or power.offset.any():
                    continue
                base = builder.nodes[power.node][1][0]
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
    """``x * x`` and ``x * x^2``, up to scale: parts of the tanh form, refused if they stay alone."""
    if other.offset.any():
        return None
    op, read, _ = builder.nodes[other.node]
    base, kind = (read[0], "cube") if op == Unfinished("square") else (other.node, "square")
    for x in _chain(builder, factor.node):
        if x.node == base and not x.offset.any():
            result = builder.unfinished(Value(base, factor.shape), kind)
            return _rescaled(builder, result, x.scale * other.scale, x.error + other.error)
    return None


def _rescaled(
    builder: Builder, value: Value, scale: FloatArray, error: FloatArray, absolute: FloatArray | None = None
) -> Value:
    """``scale * value``, where ``scale`` has a relative error, plus an absolute one."""
    if absolute is None and not error.any() and (scale == 1).all():
        return value
    wide = np.ones(value.width)
    # At most six roundings made a scale from the exact ones; the quotient by 1 - error is within 1 + 2 error.
    slack = 2.0 * np.abs(scale) * (error + gamma(8)) + TINY
    extra = None if absolute is None else 2.0 * absolute * wide
    return builder.diagonal(value, scale * wide, weight_slack=slack * wide, bias_slack=extra)
