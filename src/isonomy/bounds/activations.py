"""What an activation does to an interval.

For every activation of :mod:`isonomy.networks.graph`, in one table: where it turns (all of them fall up to one
point and rise after it, or only rise), its steepest slope, and how accurately it is computed.

**Soundness.** A function that first falls and then rises takes its largest value over an interval at an end, and
its smallest at the turning point if that lies inside, else at an end. Computed values are widened by
:func:`doubt`; the turning values are written rounded down and checked against a multiple precision library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from isonomy.arithmetic import ELEMENTARY, UNIT
from isonomy.networks.graph import Activation

GRID = 16
"""Cells in which smooth activations are looked at."""

CURVATURE = {"sigmoid": 0.0963, "tanh": 0.7699, "erf": 0.9679, "silu": 0.5001, "gelu": 0.7980, "gelu_tanh": 0.8}
"""At least ``|f''|`` everywhere, for activations without parameters or kinks."""


@dataclass(frozen=True)
class Shape:
    """The place and value of the lowest point, if there is one inside the line, and the steepest slope."""

    steepest: float = 1.0
    turn: tuple[float, float] | None = None
    exact: bool = False


def _leaky(slopes: tuple[float, ...]) -> Shape:
    falls = min(slopes, default=0.0) < 0
    return Shape(max(1.0, *map(abs, slopes)), (0.0, 0.0) if falls else None)


_SHAPES: dict[str, Callable[..., Shape]] = {
    "relu": lambda: Shape(exact=True),
    "clip": lambda low, high: Shape(exact=True),
    "leaky_relu": lambda slope: _leaky((slope,)),
    "prelu": lambda *slopes: _leaky(slopes),
    "sigmoid": lambda: Shape(0.25),
    "tanh": lambda: Shape(),
    "erf": lambda: Shape(1.1283792),
    "softplus": lambda beta: Shape(),
    "elu": lambda alpha: Shape(max(1.0, alpha)),
    "silu": lambda: Shape(1.0999, (-1.2784645427610738, -0.27846454276107380)),
    "gelu": lambda: Shape(1.1290, (-0.7517915246935645, -0.16997120747990360)),
    "gelu_tanh": lambda: Shape(1.1290, (-0.7524614220710162, -0.17004075057125403)),
}


def shape(activation: Activation) -> Shape:
    """Where an activation turns and how steep it is."""
    return _SHAPES[activation.kind](*activation.parameters)


def doubt(activation: Activation, x: Tensor, value: Tensor, unit: float = UNIT) -> Tensor:
    """How far a run with this unit roundoff can be from the exact ``value`` at ``x``.

    Each is a handful of operations and one or two elementary functions of arguments of size about ``|x|``, so its
    error is a small multiple of the unit, of what it adds and of what it gives.
    """
    if shape(activation).exact:
        # A clip is exact but for its limits, which a coarser run rounds.
        limits = sum(abs(p) for p in activation.parameters if math.isfinite(p)) if unit > UNIT else 0.0
        return torch.full_like(value, limits * unit)
    scale = max(1.0, *(abs(p) for p in activation.parameters)) if activation.kind in ("elu",) else 1.0
    if activation.kind == "softplus":
        scale = max(1.0, 1.0 / activation.parameters[0])
    return (4 * ELEMENTARY * unit) * (scale + x.abs() + value.abs())


def image(activation: Activation, low: Tensor, high: Tensor, unit: float = UNIT) -> tuple[Tensor, Tensor]:
    """An interval that holds the activation of every number in ``[low, high]`` (float64)."""
    known = shape(activation)
    first, last = activation(low), activation(high)
    top = torch.maximum(first + doubt(activation, low, first, unit), last + doubt(activation, high, last, unit))
    bottom = torch.minimum(first - doubt(activation, low, first, unit), last - doubt(activation, high, last, unit))
    if known.turn is not None:
        place, value = known.turn
        lowest = value - 4 * ELEMENTARY * unit
        bottom = torch.where((low <= place + 1e-12) & (high >= place - 1e-12), bottom.clamp(max=lowest), bottom)
    return bottom, top


def curvature(activation: Activation) -> float:
    """At least ``|f''|`` away from kinks."""
    if activation.kind == "softplus":
        return activation.parameters[0] / 4 * (1 + 8 * UNIT)
    if activation.kind == "elu":
        return activation.parameters[0]
    return CURVATURE.get(activation.kind, 0.0)
