"""Lines around activations, over a batch of ranges: parallel ones, and lines that touch at given places.

**Soundness.** Slopes are free to choose; intercepts are the activation's own
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
    """Lines around what is behind an activation, over a batch of ranges: ``low_slope z + below ≤ h ≤ slope z +
    above``."""

    slope: Array
    above: Array
    low_slope: Array
    below: Array


def parallel(activation: Activation, low: Array, high: Array, unit32: float) -> Lines:
    """Parallel lines above and below an activation over ``[low, high]``."""
    if activation.kind == "relu":
        top, bottom = np.maximum(high, 0.0), np.minimum(low, 0.0)
        slope = top / np.maximum(top - bottom, TINY)
        return Lines(slope, -slope * bottom, slope, np.zeros_like(slope))
    curve = Curve(activation, low, high, unit32)
    slope = curve.chord()
    below, above = _extremes(curve, slope, _most(curve, unit32))
    return Lines(slope, above, slope, below)


def _most(curve: Curve, unit32: float) -> Array:
    """At least ``|f(t) − s t|`` for every allowed slope: more than any intercept needs; a float32 run of ``f`` may be
    off by its own error besides."""
    shape, size = curve.shape, np.maximum(np.abs(curve.low), np.abs(curve.high))
    error = np.max(curve.error, 0) if unit32 else 0.0
    return np.asarray(2 * shape.steepest * size * (1 + 8 * U) + shape.at_zero + error)


def _extremes(curve: Curve, slope: Array, most: Array) -> tuple[Array, Array]:
    below, above = curve.extremes(slope)
    return np.maximum(below, -most), np.minimum(above, most)


def touching(activation: Activation, low: Array, high: Array, at: Array | Float32 | None, unit32: float) -> Lines:
    """Lines that touch the activation near ``at``, as far as lines over the whole range can; without a place,
    parallel ones."""
    lines = parallel(activation, low, high, unit32)
    if at is None:
        return lines
    curve = Curve(activation, low, high, unit32)
    most = _most(curve, unit32)
    at = np.clip(at.astype(np.float64), low, high)
    slope, above, low_slope, lowest = lines
    with np.errstate(all="ignore"):
        for candidate in tangents(activation, at):
            bottom, top = _extremes(curve, candidate, most)
            tilt = candidate * at
            # At an end of a range lines meet: the one that is there stays unless another is better by more than last
            # bits, which differ from machine to machine.
            better = top + tilt < above + slope * at - TIE * (np.abs(top) + np.abs(tilt))
            slope, above = np.where(better, candidate, slope), np.where(better, top, above)
            better = bottom + tilt > lowest + low_slope * at + TIE * (np.abs(bottom) + np.abs(tilt))
            low_slope, lowest = np.where(better, candidate, low_slope), np.where(better, bottom, lowest)
    return Lines(slope, above, low_slope, lowest)


def tangents(activation: Activation, at: Array) -> list[Array]:
    """Slopes worth trying at given places: the derivative, or those of the straight pieces."""
    shape = activation.shape
    if shape.slopes:
        return [np.broadcast_to(slope, at.shape) for slope in {id(s): s for s in shape.slopes}.values()]
    assert shape.slope is not None
    return [np.clip(np.nan_to_num(shape.slope(at)), -shape.steepest, shape.steepest)]
