"""Activations: one record each, and the lines that enclose them.

For every slope ``s`` and every interval ``[l, u]`` there are numbers ``a`` and ``b`` with

    s t + b  ≤  f(t)  ≤  s t + a        for all t in [l, u]:

the extremes of ``f(t) − s t``. They are looked for at the ends, at the kinks and, where ``f`` is curved, at the ends of
``CELLS`` equal cells: between neighbouring points without a kink in between a function with ``|f''| ≤ c`` exceeds the
larger end by at most ``c h²/8``. For ``log1p``, whose ``|f''|`` is ``1 / (1 + t)²``, cells grow with ``1 + t``. So any
slope gives a valid line, a good one a tight line, and a search may choose it.

**Soundness.** ``f`` is computed within ``accuracy``; the extremes are widened by it and by the rounding of ``f − s t``.
Bounds of ``|f'|`` and ``|f''|`` stand in the table, rounded up; tests compare them with ball arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import ELEMENTARY, LARGEST32, LEAST32, TINY, Array, U

CELLS = 16

Function = Callable[..., Array]
_math_erf = np.frompyfunc(math.erf, 1, 1)


def erf(t: Array) -> Array:
    """The error function, by the standard library."""
    return np.asarray(_math_erf(t), dtype=np.float64)


def sigmoid(t: Array) -> Array:
    """``1 / (1 + exp(−t))`` without overflow."""
    e = np.exp(-np.abs(t))
    return np.asarray(np.where(t >= 0, 1.0, e) / (1.0 + e))


def _gelu_inner(t: Array) -> Array:
    return np.asarray(np.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)))


def _gelu_tanh_slope(t: Array) -> Array:
    inner, t = _gelu_inner(t), np.clip(t, -1e3, 1e3)
    grow = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * t * t)
    return np.asarray(0.5 * (1 + inner) + 0.5 * t * (1 - inner * inner) * grow)


def _density(t: Array) -> Array:
    return np.asarray(np.exp(-np.minimum(t * t, 1e4) / 2) / math.sqrt(2 * math.pi))


class Shape(NamedTuple):
    """What is known of an activation with given parameters.

    ``slopes`` are those of its straight pieces, from left to right, if it has no others; ``beside`` the slopes just
    left and right of each kink. ``steepest`` and ``curvature`` bound ``|f'|`` and, away from kinks, ``|f''|``.
    ``turn`` is the place and a lower bound of the least value, if the function falls before it and rises after it;
    None: it never falls.
    """

    value: Function
    slope: Function | None = None
    kinks: tuple[float, ...] = ()
    slopes: tuple[float | Array, ...] = ()
    beside: tuple[tuple[float, float], ...] = ()
    steepest: float = 1.0
    curvature: float = 0.0
    at_zero: float = 0.0  # at least |f(0)|
    turn: tuple[float, float] | None = None
    fades: bool = False  # 0 up to 0, then rising and concave with |f''| <= 1 / (1 + t)^2


def _relu() -> Shape:
    return Shape(lambda t: np.maximum(t, 0.0), kinks=(0.0,), slopes=(0.0, 1.0))


def _leaky(slopes: Array | float) -> Shape:
    steepest = max(1.0, float(np.abs(slopes).max()))
    turn = (0.0, 0.0) if np.min(slopes) < 0 else None
    return Shape(
        lambda t: np.where(t >= 0, t, slopes * t), kinks=(0.0,), slopes=(slopes, 1.0), steepest=steepest, turn=turn
    )


def _clip(low: float, high: float) -> Shape:
    kinks = tuple(k for k in (low, high) if math.isfinite(k))
    slopes = (*([0.0] if low > -math.inf else []), 1.0, *([0.0] if high < math.inf else []))
    zero = abs(min(max(0.0, low), high))
    return Shape(lambda t: np.clip(t, low, high), kinks=kinks, slopes=slopes, at_zero=zero)


def _softplus(beta: float) -> Shape:
    return Shape(
        lambda t: np.logaddexp(beta * t, 0.0) / beta, lambda t: sigmoid(beta * t),
        curvature=beta / 4 * (1 + 1e-9), at_zero=0.694 / beta,
    )  # fmt: skip


def _elu(alpha: float) -> Shape:
    return Shape(
        lambda t: np.where(t >= 0, t, alpha * np.expm1(np.minimum(t, 0.0))),
        lambda t: np.where(t >= 0, 1.0, alpha * np.exp(np.minimum(t, 0.0))),
        kinks=(0.0,), beside=((alpha, 1.0),), steepest=max(1.0, alpha), curvature=alpha,
    )  # fmt: skip


def _hardswish() -> Shape:
    return Shape(
        lambda t: t * np.clip(t / 6 + 0.5, 0.0, 1.0),
        lambda t: np.where(t <= -3, 0.0, np.where(t >= 3, 1.0, t / 3 + 0.5)),
        kinks=(-3.0, 3.0), beside=((0.0, -0.5), (1.5, 1.0)), steepest=1.5, curvature=0.3334, turn=(-1.5, -0.375),
    )  # fmt: skip


_LOG1P = Shape(
    lambda t: np.log1p(np.maximum(t, 0.0)), lambda t: np.where(t > 0, 1 / (1 + np.maximum(t, 0.0)), 0.0),
    kinks=(0.0,), beside=((0.0, 1.0),), curvature=1.0, fades=True,
)  # fmt: skip
_SIGMOID = Shape(sigmoid, lambda t: sigmoid(t) * sigmoid(-t), steepest=0.25, curvature=0.0963, at_zero=0.5)
_TANH = Shape(np.tanh, lambda t: 1 - np.tanh(t) ** 2, curvature=0.7699)
_ERF = Shape(
    erf, lambda t: np.exp(-np.minimum(t * t, 1e4)) * (2 / math.sqrt(math.pi)), steepest=1.1283792, curvature=0.9679
)
_SILU = Shape(
    lambda t: t * sigmoid(t), lambda t: sigmoid(t) * (1 + t * sigmoid(-t)),
    steepest=1.0999, curvature=0.5001, turn=(-1.2784645427610738, -0.27846454276107380),
)  # fmt: skip
_GELU = Shape(
    lambda t: t * (0.5 * (1 + erf(t / math.sqrt(2)))), lambda t: 0.5 * (1 + erf(t / math.sqrt(2))) + t * _density(t),
    steepest=1.1290, curvature=0.7980, turn=(-0.7517915246935645, -0.16997120747990360),
)  # fmt: skip
_GELU_TANH = Shape(
    lambda t: 0.5 * t * (1 + _gelu_inner(t)), _gelu_tanh_slope,
    steepest=1.1290, curvature=0.8, turn=(-0.7524614220710162, -0.17004075057125403),
)  # fmt: skip

SHAPES: dict[str, Callable[..., Shape]] = {
    "relu": _relu,
    "leaky_relu": _leaky,
    "prelu": lambda *slopes: _leaky(np.array(slopes)),
    "clip": _clip,
    "sigmoid": lambda: _SIGMOID,
    "tanh": lambda: _TANH,
    "erf": lambda: _ERF,
    "softplus": _softplus,
    "elu": _elu,
    "silu": lambda: _SILU,
    "gelu": lambda: _GELU,
    "gelu_tanh": lambda: _GELU_TANH,
    "hardswish": _hardswish,
    "log1p": lambda: _LOG1P,  # of numbers above 0; 0 up to there
}

_USABLE: dict[str, Callable[..., bool]] = {
    "leaky_relu": lambda slope: abs(slope) < 1e100,
    "prelu": lambda *slopes: len(slopes) > 0 and max(map(abs, slopes)) < 1e100,
    "clip": lambda low, high: low <= high and low < math.inf and high > -math.inf,
    "softplus": lambda beta: 1e-100 < beta < 1e100,
    "elu": lambda alpha: 0 <= alpha < 1e100,
}
"""Which parameters an activation can have; those that are not listed have none."""


@dataclass(frozen=True)
class Activation:
    """An elementwise function by its name and parameters (``prelu`` has one for each element)."""

    kind: str
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in SHAPES:
            raise ValueError(f"There is no activation '{self.kind}'; known are {', '.join(SHAPES)}.")
        try:
            usable = _USABLE[self.kind](*self.parameters) if self.kind in _USABLE else not self.parameters
        except TypeError:
            usable = False
        if not usable or any(map(math.isnan, self.parameters)):
            raise ValueError(f"The activation {self.kind} cannot have the parameters {self.parameters}.")

    @property
    def shape(self) -> Shape:
        """Everything that is known of it."""
        return SHAPES[self.kind](*self.parameters)

    @property
    def run_growth(self) -> float:
        """How much larger than ``1 + |t|`` numbers on the way to ``f(t)`` are in a float32 run; infinite where float32
        has no number for a parameter. Limits may be infinite there, and the result counts where it is read."""
        if self.kind == "hardswish":
            return 6.0  # t times a number up to 6, and then a sixth of it
        sizes = [abs(p) for p in self.parameters] if self.kind != "clip" else []
        largest = max(sizes, default=0.0)
        if largest >= LARGEST32 or (self.kind == "softplus" and min(sizes) < LEAST32):  # which it divides by
            return math.inf
        return max(1.0, largest) if self.kind == "softplus" else 1.0  # of which t is taken times the parameter

    def check_width(self, width: int) -> None:
        """Parameters of single elements must be as many as these."""
        if self.kind == "prelu" and len(self.parameters) != width:
            raise ValueError(f"{len(self.parameters)} slopes cannot serve {width} numbers.")

    def bends(self, low: Array, high: Array) -> NDArray[np.bool_]:
        """Where it is not straight over ``[low, high]``."""
        if self.shape.curvature:
            return np.asarray(low < high)
        inside = np.zeros(np.shape(low), dtype=bool)
        for kink in self.shape.kinks:
            inside |= (low < kink) & (kink < high)
        return inside

    def taken(self, columns: NDArray[np.int64]) -> Activation:
        """The same for some elements, in this order."""
        if self.kind != "prelu":
            return self
        return Activation("prelu", tuple(self.parameters[j] for j in columns.tolist()))


def _cells(shape: Shape, low: Array, high: Array) -> tuple[list[Array], Array]:
    """The ends of ``CELLS`` cells, from ``low`` to ``high``, and at least the width of the widest one; of a function
    that ``fades``, each in units of ``1 + t`` at its lower end, in which ``|f''|`` is at most 1."""
    width = high - low
    points = [np.clip(low + (i / CELLS) * width, low, high) for i in range(CELLS + 1)]
    if not shape.fades:
        return points, np.asarray(width * ((1 + 1e-9) / CELLS) + (8 * U) * (np.abs(low) + np.abs(high)))
    start, stop = np.log1p(np.maximum(low, 0.0)), np.log1p(np.maximum(high, 0.0))
    points = [low, *(np.expm1(start + (i / CELLS) * (stop - start)) for i in range(1, CELLS)), high]
    points = [np.clip(each, low, high) for each in points]
    above = np.maximum.accumulate(np.maximum(np.stack(np.broadcast_arrays(*points)), 0.0))
    with np.errstate(invalid="ignore"):
        cell = (np.diff(above, axis=0) / (1 + above[:-1])).max(0)
    return points, np.nan_to_num(cell * (1 + 1e-9) + 8 * U, nan=np.inf, posinf=np.inf)


class Curve:
    """An activation over a batch of intervals ``[low, high]``: values at the points where extremes are looked for."""

    def __init__(self, activation: Activation, low: Array, high: Array, unit: float = 0.0) -> None:
        """``unit`` besides covers a run that computes ``f`` with this unit roundoff."""
        self.activation, self.shape = activation, activation.shape
        self.low, self.high = low, high
        points = [low, high, *(np.clip(kink, low, high) for kink in self.shape.kinks)]
        self.bulge: Array | float = 0.0
        if self.shape.curvature:
            cells, cell = _cells(self.shape, low, high)
            points += cells[1:-1]
            self.bulge = self.shape.curvature / 8 * cell * cell * (1 + 1e-9)
        self.points = np.stack(np.broadcast_arrays(*points))
        self.values = self.shape.value(self.points)
        self.error = self._accuracy(unit)

    def _accuracy(self, unit: float) -> Array | float:
        """How far the computed values may be from ``f``, and a run's values from these."""
        if self.activation.kind in ("relu", "clip"):  # exact, but for limits that a coarser run rounds and reaches
            return unit * np.abs(self.values) if self.activation.kind == "clip" and unit else 0.0
        parameters = [abs(p) for p in self.activation.parameters]
        if self.shape.slopes:
            least = LEAST32 if unit else 0.0  # a smaller slope may become 0
            return np.asarray((2 * U + 2 * unit) * np.abs(self.values) + least * np.abs(self.points) + TINY)
        scale = max(1.0, *parameters, self.shape.at_zero) if parameters else 1.0
        return np.asarray((ELEMENTARY + 32 * unit) * (scale + np.abs(self.points) + np.abs(self.values)) + TINY)

    def image(self) -> tuple[Array, Array]:
        """An interval that holds ``f`` of every number in the intervals."""
        error = self.error if isinstance(self.error, float) else self.error[:2]
        bottom, top = (self.values[:2] - error).min(0), (self.values[:2] + error).max(0)
        if self.shape.turn is not None:
            place, least = self.shape.turn
            inside = (self.low <= place + 1e-9) & (self.high >= place - 1e-9)
            # Curves fall less steeply than 1 before they turn: an end is off by no less. Straight ones are exact there.
            least = least - 2 * ELEMENTARY - np.max(error, 0)
            bottom = np.where(inside, np.minimum(bottom, least), bottom)
        return bottom, top

    def extremes(self, slope: Array) -> tuple[Array, Array]:
        """The least and the largest ``f(t) − slope t``, outward."""
        move = slope * self.points
        gap = self.values - move
        wide = self.error + (2 * U) * (np.abs(self.values) + np.abs(move)) + TINY
        return (gap - wide).min(0) - self.bulge, (gap + wide).max(0) + self.bulge

    def chord(self) -> Array:
        """The slope from end to end, as far as it can be computed."""
        rise, run = self.values[1] - self.values[0], self.high - self.low
        slope = np.divide(rise, run, out=np.zeros_like(rise), where=run > 1e-12 * (1 + np.abs(self.low)))
        return np.asarray(np.clip(np.nan_to_num(slope), -self.shape.steepest, self.shape.steepest))


def slope_range(activation: Activation, low: Array, high: Array) -> tuple[Array, Array]:
    """The least and the largest slope of any chord of the activation within ``[low, high]``.

    A chord's slope lies between the least and the largest derivative. Straight pieces: of the pieces that the interval
    meets. Curved ones: derivatives at the points and on both sides of kinks inside, widened by how much a derivative
    changes within a cell.
    """
    shape = activation.shape
    unknown = np.isnan(low) | np.isnan(high)
    if shape.slopes:
        least, most = np.full(low.shape, np.inf), np.full(low.shape, -np.inf)
        edges = (-math.inf, *shape.kinks, math.inf)
        for left, right, slope in zip(edges[:-1], edges[1:], shape.slopes, strict=True):
            meets = ((high > left) & (low < right)) | ((low == high) & (low >= left) & (low <= right)) | unknown
            least = np.where(meets, np.minimum(least, slope), least)
            most = np.where(meets, np.maximum(most, slope), most)
        return least, most
    assert shape.slope is not None
    points, cell = _cells(shape, low, high)
    with np.errstate(all="ignore"):
        at = shape.slope(np.stack(np.broadcast_arrays(*points)))
    least, most = at.min(0), at.max(0)
    for kink, beside in zip(shape.kinks, shape.beside, strict=True):
        inside = (low <= kink) & (high >= kink)
        for slope in beside:
            least = np.where(inside, np.minimum(least, slope), least)
            most = np.where(inside, np.maximum(most, slope), most)
    slack = 0.0 if shape.fades else shape.curvature * cell  # where the derivative falls, its extremes are at the ends
    slack = slack + 8 * ELEMENTARY * (1 + shape.steepest) * (1 + np.minimum(np.abs(low) + np.abs(high), 1e6)) + TINY
    least, most = np.maximum(least - slack, -shape.steepest), np.minimum(most + slack, shape.steepest)
    bad = unknown | ~np.isfinite(least) | ~np.isfinite(most)
    return np.where(bad, -shape.steepest, least), np.where(bad, shape.steepest, most)
