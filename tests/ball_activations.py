"""Activations in ball arithmetic, by their mathematical definitions: the truth for all tests."""

from __future__ import annotations

import math
from typing import Any

from flint import arb


def sigma(x: Any) -> Any:
    """The logistic function, without overflow on either side."""
    if x < 0:
        t = x.exp()
        return t / (1 + t)
    return 1 / (1 + (-x).exp())


def apply(kind: str, parameters: tuple[float, ...], x: Any, element: int = 0) -> Any:
    """An activation by its mathematical definition; ``element`` chooses among slopes that differ."""
    zero = arb(0)
    match kind:
        case "relu":
            return x.max(zero)
        case "leaky_relu":
            return x.max(zero) + arb(parameters[0]) * x.min(zero)
        case "prelu":
            return x.max(zero) + arb(parameters[element]) * x.min(zero)
        case "clip":
            low, high = parameters
            x = x if low == -math.inf else x.max(arb(low))
            return x if high == math.inf else x.min(arb(high))
        case "sigmoid":
            return sigma(x)
        case "tanh":
            return x.tanh()
        case "erf":
            return x.erf()
        case "softplus":
            t = arb(parameters[0]) * x
            return (t.max(zero) + (-abs(t)).exp().log1p()) / arb(parameters[0])
        case "elu":
            return x.max(zero) + arb(parameters[0]) * x.min(zero).expm1()
        case "silu":
            return x * sigma(x)
        case "gelu":
            return x * (-x / arb(2).sqrt()).erfc() / 2
        case "gelu_tanh":
            return x * sigma(2 * (2 / arb.pi()).sqrt() * (x + arb("0.044715") * x**3))
        case "hardswish":
            return x * (x / 6 + arb(1) / 2).max(zero).min(arb(1))
        case "log1p":
            return x.max(zero).log1p()
    raise AssertionError(kind)
