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

from isonomy.arithmetic import ELEMENTARY, TINY, UNIT
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


def chord_slopes(
    activation: Activation, point: Tensor, error: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    """The smallest and largest slope of chords from a known point, which is within ``error`` of ``point``.

    ``low`` and ``high`` are moves from ``point``. For a ReLU chords from one point are less steep than chords anywhere:
    the slope ``(relu(p + d) − relu(p)) / d`` grows with ``p`` and with ``d``.
    """
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)  # chords begin at the point itself
    room = error + (4 * UNIT) * (point.abs() + low.abs() + high.abs()) + TINY
    if activation.kind != "relu":
        return slopes(activation, point + low - room, point + high + room)
    # From p > 0 the longest way down is the flattest chord, from p < 0 the longest way up is the steepest one.
    # Over a range without an end both are not a number, and rule nothing out.
    flat = ((point - room) / (2 * room - low)).nan_to_num(0.0).clamp(0.0, 1.0) * (1 - 8 * UNIT)
    steep = (1 + (point + room) / (high + 2 * room) + 8 * UNIT).nan_to_num(1.0).clamp(0.0, 1.0)
    return torch.where(point + low >= room, 1.0, flat), torch.where(point + high <= -room, 0.0, steep)


def slopes(activation: Activation, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and largest slope of any chord of the activation within ``[low, high]``.

    **Soundness.** Chords have slopes between the smallest and the largest derivative. Activations of straight pieces:
    exact, and ends that are not a number rule nothing out. Smooth ones: the derivative at the ends of ``GRID`` cells
    (and at a kink), widened by how much it can change over one cell.
    """
    if activation.kind == "relu":
        alive = ~(high <= 0)
        return ((low >= 0) & alive).to(low.dtype), alive.to(low.dtype)
    zero, one = torch.zeros_like(low), torch.ones_like(low)
    if activation.kind in ("leaky_relu", "prelu"):
        slope = low.new_tensor(activation.parameters).expand(low.shape)
        left, right = torch.where(high <= 0, slope, one), torch.where(low >= 0, one, slope)
        return torch.minimum(left, right), torch.maximum(left, right)
    if activation.kind == "clip":
        bottom, top = activation.parameters
        inside = ~(high <= bottom) & ~(low >= top)
        within = inside & (low >= bottom) & (high <= top)
        return torch.where(within, one, zero), torch.where(inside, one, zero)
    share = torch.linspace(0, 1, GRID + 1, dtype=torch.float64).reshape(-1, *[1] * low.ndim)
    derivative = _derivative(activation, low + share * (high - low))
    least, most = derivative.amin(0), derivative.amax(0)
    if activation.kind == "elu":
        across = (low <= 0) & (high >= 0)
        kink = torch.where(across, activation.parameters[0], least)
        least, most = torch.minimum(least, kink), torch.maximum(most, kink)
        least, most = torch.where(across, least.clamp(max=1.0), least), torch.where(across, most.clamp(min=1.0), most)
    room = curvature(activation) * ((high - low) * ((1 + 1e-9) / GRID) + (8 * UNIT) * (low.abs() + high.abs()))
    room = room + (8 * ELEMENTARY * UNIT) * (1 + low.abs() + high.abs()) + TINY
    steepest = shape(activation).steepest
    return (least - room).clamp(min=-steepest), (most + room).clamp(max=steepest)


def _derivative(activation: Activation, x: Tensor) -> Tensor:
    match activation.kind:
        case "sigmoid":
            return torch.sigmoid(x) * torch.sigmoid(-x)
        case "tanh":
            return 1 - torch.tanh(x).square()
        case "erf":
            return torch.exp(-x.square()) * (2 / math.sqrt(math.pi))
        case "softplus":
            return torch.sigmoid(activation.parameters[0] * x)
        case "elu":
            return torch.where(x >= 0, 1.0, activation.parameters[0] * torch.exp(x.clamp(max=0)))
        case "silu":
            return torch.sigmoid(x) * (1 + x * torch.sigmoid(-x))
        case "gelu":
            density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
            return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * density
        case "gelu_tanh":
            scale = math.sqrt(2 / math.pi)
            inner = torch.tanh(scale * (x + 0.044715 * x**3))
            return 0.5 * (1 + inner) + 0.5 * x * (1 - inner.square()) * scale * (1 + 3 * 0.044715 * x.square())
    raise AssertionError(f"no derivative for {activation.kind}")
