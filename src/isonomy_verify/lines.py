"""Lines around activations, over a batch of ranges: parallel ones, and lines that touch at given places.

**Soundness.** Slopes are anybody's choice; intercepts are the activation's own
(:class:`~isonomy_verify.activations.Curve`), and those of a ReLU are exact up to the rounding that a pass charges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy_verify.activations import Activation, Curve
from isonomy_verify.arithmetic import TINY, Array, Float32, U

TIE = 1e-12
"""Lines whose values are closer than this, relatively, are as good as each other."""


class Lines(NamedTuple):
    """Lines around an activation over a batch of ranges: ``slope z + below ≤ f(z) ≤ slope z + above``; ``below`` None
    is 0."""

    slope: Array
    above: Array
    below: Array | None


class Sides(NamedTuple):
    """Lines of different slopes: ``low_slope z + low ≤ f(z) ≤ slope z + above``; ``low`` None is 0."""

    slope: Array
    above: Array
    low_slope: Array
    low: Array | None


def parallel(activation: Activation, low: Array, high: Array, unit32: float) -> Lines:
    """Parallel lines above and below an activation over ``[low, high]``."""
    if activation.kind == "relu":
        top, bottom = np.maximum(high, 0.0), np.minimum(low, 0.0)
        slope = top / np.maximum(top - bottom, TINY)
        return Lines(slope, np.multiply(bottom, -slope), None)
    curve = Curve(activation, low, high, unit32)
    slope = curve.chord()
    below, above = curve.extremes(slope)
    most = _most(curve, unit32)
    return Lines(slope, np.minimum(above, most), np.maximum(below, -most))


def _most(curve: Curve, unit32: float) -> Array:
    """At least ``|f(t) − s t|`` for every allowed slope: more than any intercept needs; a float32 run of ``f`` may be
    off by its own error besides."""
    shape, size = curve.shape, np.maximum(np.abs(curve.low), np.abs(curve.high))
    error = np.max(curve.error, 0) if unit32 else 0.0
    return np.asarray(2 * shape.steepest * size * (1 + 8 * U) + shape.at_zero + error)


def touching(
    activation: Activation, lines: Lines, low: Array, high: Array, at: Array | Float32 | None, unit32: float
) -> Sides:
    """Lines that touch the activation near ``at``, as far as lines over the whole range can."""
    below = np.zeros_like(lines.above) if lines.below is None else lines.below
    if at is None:
        return Sides(lines.slope, lines.above, lines.slope, below)
    curve = Curve(activation, low, high, unit32)
    most = _most(curve, unit32)
    at = np.clip(at.astype(np.float64), low, high)
    slope, above, low_slope, lowest = lines.slope, lines.above, lines.slope, below
    with np.errstate(all="ignore"):
        for candidate in tangents(activation, at):
            bottom, top = curve.extremes(candidate)
            bottom, top = np.maximum(bottom, -most), np.minimum(top, most)
            tilt = candidate * at
            # At an end of a range lines meet: the one that is there stays unless another is better by more than last
            # bits, which differ from machine to machine.
            better = top + tilt < above + slope * at - TIE * (np.abs(top) + np.abs(tilt))
            slope, above = np.where(better, candidate, slope), np.where(better, top, above)
            better = bottom + tilt > lowest + low_slope * at + TIE * (np.abs(bottom) + np.abs(tilt))
            low_slope, lowest = np.where(better, candidate, low_slope), np.where(better, bottom, lowest)
    return Sides(slope, above, low_slope, lowest)


def tangents(activation: Activation, at: Array) -> list[Array]:
    """Slopes worth trying at given places: the derivative, or those of the straight pieces."""
    shape = activation.shape
    if shape.slopes:
        return [np.broadcast_to(slope, at.shape) for slope in {id(s): s for s in shape.slopes}.values()]
    assert shape.slope is not None
    return [np.clip(np.nan_to_num(shape.slope(at)), -shape.steepest, shape.steepest)]
