"""The operations of torch that can be read, one table for modules, one for functions and methods.

The arguments of a rule after the builder are those of the torch function itself; a module comes last.

**Soundness.** A rule gives exactly the function that torch computes, in real arithmetic. The softplus of torch
is linear beyond a threshold, ``exp(-threshold) / beta`` below the smooth one at most; a slack covers that.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks.build import Builder, Value, numbers


def _activation(kind: str) -> Callable[..., Value]:
    return lambda builder, x, *_, **__: builder.activation(x, kind)


def _softplus(builder: Builder, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    if threshold < 20:
        raise UnsupportedOperationError(f"a softplus that is linear beyond {threshold} is not smooth.")
    smooth = builder.activation(x, "softplus", beta)
    return builder.nearly(smooth, 2 * math.exp(-threshold) / beta)


def _prelu(builder: Builder, x: Value, weight: Any) -> Value:
    slopes = numbers(weight)
    if slopes.ndim != 1 or slopes.size not in (1, x.shape[0] if x.shape else 1):
        raise NetworkError("PReLU needs one slope, or one for each channel.")
    return builder.activation(x, "prelu", *np.repeat(slopes, x.width // slopes.size).tolist())


def _gelu(builder: Builder, x: Value, approximate: str = "none") -> Value:
    return builder.activation(x, "gelu_tanh" if approximate == "tanh" else "gelu")


def _clip(builder: Builder, x: Value, min: float | None = None, max: float | None = None) -> Value:
    return builder.activation(x, "clip", *(e if b is None else float(b) for b, e in ((min, -np.inf), (max, np.inf))))


def _selu(builder: Builder, x: Value, *_: Any, **__: Any) -> Value:
    return builder.scaled(builder.activation(x, "elu", 1.6732632423543772848), 1.0507009873554804934)


def _softmax(kind: str) -> Callable[..., Value]:
    def rule(builder: Builder, x: Value, dim: int | None = None, *_: Any, **__: Any) -> Value:
        return builder.softmax(x, dim if dim is not None else int(len(x.shape) != 2), kind)

    return rule


def _linear(builder: Builder, x: Value, weight: Any, bias: Any = None) -> Value:
    if isinstance(weight, Value) or isinstance(bias, Value):
        raise UnsupportedOperationError("a layer whose weights depend on the individual is not supported.")
    return builder.matmul(x, numbers(weight).T, None if bias is None else numbers(bias))


def _matmul(builder: Builder, left: Any, right: Any) -> Value:
    if isinstance(left, Value) and not isinstance(right, Value):
        return builder.matmul(left, numbers(right))
    raise UnsupportedOperationError("only a product with a constant matrix on the right is supported.")


def _addmm(builder: Builder, bias: Any, left: Any, right: Any, *, beta: float = 1, alpha: float = 1) -> Value:
    return builder.add_scaled(builder.scaled(_matmul(builder, left, right), alpha), bias, beta)


def _add(builder: Builder, left: Any, right: Any, *, alpha: float = 1) -> Value:
    return builder.add_scaled(left, right, alpha)


def _subtract(builder: Builder, left: Any, right: Any, *, alpha: float = 1) -> Value:
    return _add(builder, left, right, alpha=-alpha)


def _divide(builder: Builder, left: Any, right: Any, *, rounding_mode: None = None) -> Value:
    if rounding_mode is not None:
        raise UnsupportedOperationError("a division that rounds is not supported.")
    return builder.divide(left, right)


def _power(builder: Builder, x: Any, exponent: Any) -> Value:
    if not isinstance(x, Value) or isinstance(exponent, Value) or float(exponent) not in (1, 2, 3):
        raise UnsupportedOperationError("only powers within a GELU are supported.")
    return x if float(exponent) == 1 else builder.unfinished(x, "square" if float(exponent) == 2 else "cube")


def _batch_norm(
    builder: Builder,
    x: Value,
    mean: Any,
    variance: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    if training or mean is None or variance is None:
        raise NetworkError("the normalisation has no stored statistics, so individuals influence each other.")
    centre = numbers(mean)
    scale = np.ones_like(centre) if weight is None else numbers(weight)
    return builder.normalise(
        x, scale, np.zeros_like(centre) if bias is None else numbers(bias), centre, numbers(variance), eps
    )


def _dropout(builder: Builder, x: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    if training and p > 0:
        raise NetworkError("dropout is active; pass training=self.training.")
    return x


def _stack(builder: Builder, tensors: Any, dim: int = 0) -> Value:
    axis = dim if dim >= 0 else dim + len(tensors[0].shape) + 2
    lifted = [
        builder.place(each, lambda p: np.expand_dims(p, axis))
        if isinstance(each, Value)
        else np.expand_dims(numbers(each), axis)
        for each in tensors
    ]
    return builder.concat(lifted, axis)


def _to(builder: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
    wanted = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.dtype)]
    if any(each not in (torch.float32, torch.float64) for each in wanted):
        raise UnsupportedOperationError(f"a conversion to {wanted[0]} is not supported.")
    return x


def _attribute(builder: Builder, x: Any, name: str) -> Any:
    full = torch.Size((builder.batch, *x.shape))
    known = {"shape": full, "ndim": len(full), "dtype": torch.float32, "device": torch.device("cpu")}
    if name in ("T", "mT", "H"):
        raise NetworkError("the batch axis must stay first.")
    return known[name]


def _size(builder: Builder, x: Value, dim: int | None = None) -> Any:
    full = torch.Size((builder.batch, *x.shape))
    return full if dim is None else full[dim]


def _same(builder: Builder, x: Value, *_: Any, **__: Any) -> Value:
    return x


def _cat(builder: Builder, tensors: Any, dim: int = 0, *, axis: int | None = None) -> Value:
    return builder.concat(list(tensors), dim if axis is None else axis)


def _getitem(builder: Builder, x: Any, key: Any) -> Any:
    if not isinstance(x, Value):  # a tuple of tensors, from chunk or split
        return x[key]
    return builder.place(x, lambda p: torch.from_numpy(p)[key].numpy())


MODULES: dict[type[nn.Module], Callable[..., Value]] = {
    nn.Linear: lambda b, x, m: _linear(b, x, m.weight, m.bias),
    nn.BatchNorm1d: lambda b, x, m: _batch_norm(
        b, x, m.running_mean, m.running_var, m.weight, m.bias, False, 0.1, m.eps
    ),
    nn.ReLU: _activation("relu"),
    nn.Sigmoid: _activation("sigmoid"),
    nn.Tanh: _activation("tanh"),
    nn.SiLU: _activation("silu"),
    nn.Hardswish: _activation("hardswish"),
    nn.SELU: _selu,
    nn.GELU: lambda b, x, m: _gelu(b, x, m.approximate),
    nn.LeakyReLU: lambda b, x, m: b.activation(x, "leaky_relu", m.negative_slope),
    nn.PReLU: lambda b, x, m: _prelu(b, x, m.weight),
    nn.Softplus: lambda b, x, m: _softplus(b, x, m.beta, m.threshold),
    nn.ELU: lambda b, x, m: b.activation(x, "elu", m.alpha),
    nn.Hardtanh: lambda b, x, m: b.activation(x, "clip", m.min_val, m.max_val),
    nn.ReLU6: lambda b, x, m: b.activation(x, "clip", 0.0, 6.0),
    nn.Softmax: lambda b, x, m: _softmax("softmax")(b, x, m.dim),
    nn.LogSoftmax: lambda b, x, m: _softmax("log_softmax")(b, x, m.dim),
    nn.Flatten: lambda b, x, m: b.place(x, lambda p: m(torch.from_numpy(p)).numpy()),
    nn.Unflatten: lambda b, x, m: b.place(x, lambda p: m(torch.from_numpy(p)).numpy()),
    nn.Identity: _same,
    nn.Dropout: _same,
    nn.Dropout1d: _same,
    nn.AlphaDropout: _same,
}

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), _add),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub, torch.subtract, "sub", "sub_"), _subtract),
    **dict.fromkeys(
        (operator.mul, operator.imul, torch.mul, torch.multiply, "mul", "mul_"),
        lambda b, x, y: b.multiply(x, y),
    ),
    **dict.fromkeys((operator.truediv, operator.itruediv, torch.div, torch.divide, "div", "div_"), _divide),
    **dict.fromkeys((operator.neg, torch.neg, "neg"), lambda b, x: b.scaled(x, -1.0)),
    **dict.fromkeys((operator.pow, torch.pow, "pow"), _power),
    **dict.fromkeys((operator.matmul, torch.matmul, torch.mm, "matmul", "mm"), _matmul),
    torch.square: lambda b, x: b.unfinished(x, "square"),
    torch.addmm: _addmm,
    functional.linear: _linear,
    **dict.fromkeys((functional.batch_norm, torch.batch_norm), _batch_norm),
    **dict.fromkeys((functional.relu, functional.relu_, torch.relu, torch.relu_, "relu", "relu_"), _activation("relu")),
    **dict.fromkeys((functional.sigmoid, torch.sigmoid, torch.special.expit, "sigmoid"), _activation("sigmoid")),
    **dict.fromkeys((functional.tanh, torch.tanh, "tanh"), _activation("tanh")),
    **dict.fromkeys((torch.erf, torch.special.erf, "erf"), _activation("erf")),
    **dict.fromkeys((torch.clamp, torch.clip, "clamp", "clip"), _clip),
    functional.silu: _activation("silu"),
    functional.hardswish: _activation("hardswish"),
    functional.gelu: _gelu,
    functional.selu: _selu,
    functional.softplus: _softplus,
    functional.leaky_relu: lambda b, x, negative_slope=0.01, inplace=False: b.activation(
        x, "leaky_relu", negative_slope
    ),
    functional.elu: lambda b, x, alpha=1.0, inplace=False: b.activation(x, "elu", alpha),
    functional.hardtanh: lambda b, x, min_val=-1.0, max_val=1.0, inplace=False: b.activation(
        x, "clip", min_val, max_val
    ),
    functional.relu6: lambda b, x, inplace=False: b.activation(x, "clip", 0.0, 6.0),
    **dict.fromkeys((functional.prelu, torch.prelu, "prelu"), _prelu),
    **dict.fromkeys((functional.softmax, torch.softmax, "softmax"), _softmax("softmax")),
    **dict.fromkeys((functional.log_softmax, torch.log_softmax, "log_softmax"), _softmax("log_softmax")),
    **dict.fromkeys((functional.dropout, torch.dropout), _dropout),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), _cat),
    torch.stack: _stack,
    operator.getitem: _getitem,
    getattr: _attribute,
    "size": _size,
    "dim": lambda b, x: len(x.shape) + 1,
    **dict.fromkeys(("to", "type"), _to),
    **dict.fromkeys(("float", "double", "contiguous", "clone", "detach", "type_as", "cpu"), _same),
}

# Run by torch itself on an array of positions.
LAYOUTS: frozenset[Any] = frozenset(
    (
        *(torch.flatten, torch.reshape, torch.transpose, torch.permute, torch.squeeze, torch.unsqueeze),
        *(torch.chunk, torch.split, torch.narrow, torch.select, torch.index_select, torch.unbind),
        *(torch.movedim, torch.flip, "flatten", "reshape", "view", "transpose", "permute", "squeeze"),
        *("unsqueeze", "chunk", "split", "narrow", "select", "index_select", "unbind", "movedim", "flip"),
        *("expand", "unflatten", "swapaxes"),
    )
)
