"""Straight lines above and below an activation.

For a pre-activation that moves from its run ``z`` by ``Δ`` in ``[low, high]``, find slopes and constants with

    slope_below Δ + below  ≤  f(z + Δ) − f(z)  ≤  slope_above Δ + above.

For any slope ``s`` the best constant is the largest (smallest) value of ``f(t) − s t`` on the interval. That value is
bounded by looking at a few points: between neighbouring points a function with ``|f''| ≤ c`` exceeds the larger end
by at most ``c h²/8``. Functions made of straight pieces need only the ends and the kinks, and are exact.

**Soundness.** Slopes are free, so they are chosen in plain arithmetic; constants are widened by the accuracy of ``f``
and by the rounding of each step. Slopes of the two lines need not agree; with ``mode="chord"`` they do, and one
backward pass serves both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from isonomy.arithmetic import TINY, UNIT
from isonomy.bounds.activations import GRID, curvature, doubt
from isonomy.networks.graph import Activation

Mode = Literal["chord", "adaptive", "flat", "steep"]
"""How the line below an unstable ReLU leans: like the chord above it, 0 or 1 by area, always 0, always 1."""

MODES: tuple[Mode, ...] = ("adaptive", "flat", "steep")
"""Together as good as all, measured on the Adult benchmark."""


@dataclass(frozen=True)
class Lines:
    """Slopes and constants, each (rows, width), float64."""

    slope_above: Tensor
    above: Tensor
    slope_below: Tensor
    below: Tensor


def lines(op: Activation, z: Tensor, value: Tensor, low: Tensor, high: Tensor, unit: float) -> Lines:
    """Parallel lines for moves in ``[low, high]`` from the computed run ``z`` with computed activation ``value``.

    ``unit`` is the unit roundoff of the run that must be covered.
    """
    if op.kind == "relu":
        return _relu(z, value, low, high)
    first, last = z + low, z + high
    slack = (4 * UNIT) * (z.abs() + low.abs() + high.abs()) + TINY
    first, last = first - slack, last + slack
    points, curve = _points(op, first, last)
    values = op(points)
    wide = last - first
    slope = torch.where(wide > 1e-9 * (1 + z.abs()), (values[1] - values[0]) / wide, 0.0)
    slope = torch.nan_to_num(slope, nan=0.0, posinf=0.0, neginf=0.0)
    gap = values - slope * points
    error = doubt(op, points, values, unit) + (8 * UNIT) * (values.abs() + (slope * points).abs())
    above, below = (gap + error).amax(0) + curve, (gap - error).amin(0) - curve
    shift = slope * z - value
    error = (8 * UNIT) * (shift.abs() + value.abs() + above.abs() + below.abs())
    return Lines(slope, above + shift + error, slope, below + shift - error)


def lean(known: Lines, op: Activation, z: Tensor, value: Tensor, mode: Mode) -> Lines:
    """The same lines with the one below an unstable ReLU turned: any line through the origin will do."""
    if op.kind != "relu" or mode == "chord":
        return known
    slope = known.slope_above
    if mode == "adaptive":
        return lean_by(known, z, value, (slope > 0.5).to(slope.dtype))
    return lean_by(known, z, value, torch.full((), float(mode == "steep"), dtype=slope.dtype))


def lean_by(known: Lines, z: Tensor, value: Tensor, turned: Tensor) -> Lines:
    """The lines of a ReLU with those below turned to slopes ``turned`` in [0, 1] where it is unstable."""
    slope = known.slope_above
    unstable = (slope > 0) & (slope < 1)
    below = turned * z - value
    below = below - (8 * UNIT) * (z.abs() + value.abs())
    return Lines(slope, known.above, torch.where(unstable, turned, slope), torch.where(unstable, below, known.below))


def _relu(z: Tensor, value: Tensor, low: Tensor, high: Tensor) -> Lines:
    slack = (4 * UNIT) * (z.abs() + low.abs() + high.abs())
    first, last = z + low - slack, z + high + slack
    # 1 on an active neuron, 0 on an inactive one, else the slope of the chord from (first, 0) to (last, last).
    slope = (last / (last - first.clamp(max=0)).clamp(min=TINY)).clamp(0.0, 1.0)
    slope = torch.where(first >= 0, 1.0, slope)
    unstable = (first < 0) & (last > 0)
    middle = slope * z - value
    error = (8 * UNIT) * (z.abs() + first.abs() + last.abs()) + TINY
    above = torch.where(unstable, middle - slope * first + error, middle)
    return Lines(slope, above, slope, torch.where(unstable, middle - error, middle))


def _points(op: Activation, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Where to look (ends first), and how much higher the function may be between them."""
    ends = [first, last]
    if op.kind in ("leaky_relu", "prelu"):
        return torch.stack([*ends, torch.zeros_like(first).clamp(first, last)]), torch.zeros_like(first)
    if op.kind == "clip":
        kinks = [torch.full_like(first, bound).clamp(first, last) for bound in op.parameters]
        return torch.stack([*ends, *kinks]), torch.zeros_like(first)
    share = torch.linspace(0, 1, GRID + 1, dtype=torch.float64)[1:-1]
    inner = first + share.reshape(-1, *[1] * first.ndim) * (last - first)
    inner = inner.clamp(first, last)
    cell = (last - first) * ((1 + 1e-9) / GRID) + (8 * UNIT) * (first.abs() + last.abs())
    kink = torch.zeros_like(first).clamp(first, last)
    return torch.cat([torch.stack(ends), inner, kink[None]]), curvature(op) * cell.square() / 8


def bends(op: Activation, first: Tensor, last: Tensor) -> Tensor:
    """Where an activation is not a straight line between two pre-activations."""
    if op.kind in ("relu", "leaky_relu", "prelu"):
        return (first < 0) & (last > 0)
    if op.kind == "clip":
        low, high = op.parameters
        return ((first < low) & (last > low)) | ((first < high) & (last > high))
    return last > first
