"""Bounds of one run of a network, and of the difference of two, in float64 with every rounding error added.

For a set of moves, a box cut by a ball ``|root v|_p <= radius``, and for any vector ``s`` (with 1/p + 1/q = 1)
``max w·v <= radius |s|_q + max over the box of (w - rootᵀ s)·v``. Linear functions of outputs are carried backward: an
affine layer makes ``cW`` of ``c``, an activation is replaced by lines above and below it. For two people the same is
done with the difference of their runs: behind a ReLU it is ``relu(p + D) - relu(p)``, ``p`` in ``[l, u]``, at most
``relu(u + D) - relu(u)`` for ``D >= 0`` and ``relu(l + D) - relu(l)`` else; together convex in ``D``, so a chord lies
above; the other person's view bounds it from below. Slopes and ``s`` are free; intercepts and rounding are paid for.
Assumed: IEEE float64, sums in any order (``gamma``), exp, log, tanh and powers within 8 units roundoff.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Range = tuple[Array, Array]
Ranges = dict[int, Range]
Support = Callable[[Array], Array]
U, TINY, DOUBT = 2.0**-53, 2.0**-1000, 2.0**-47  # the last: of a computed sigmoid or tanh
MODES = ("lean", "flat", "steep")  # of lines below an unstable ReLU; "chord": the slope of the line above


def gamma(operations: int) -> float:
    """At least the relative error of a term with so many roundings on its path."""
    return 1.01 * operations * U


def up(value: Any) -> Any:
    """The next float above; the next one below is ``-up(-value)``."""
    return np.nextafter(value, np.inf)


def sigmoid(t: Array) -> Array:
    """``1 / (1 + exp(-t))`` without overflow."""
    return np.where(t >= 0, 1.0, np.exp(-np.abs(t))) / (1.0 + np.exp(-np.abs(t)))


class Metric(NamedTuple):
    """``d(x, y)`` is the larger of ``|root (x - y)|_p``, p 1 or 2, and a part that looks at single coordinates."""

    root: Array
    order: float
    diagonal: bool
    free: Array
    tolerance: Array
    relative: Array  # in place of a tolerance: the raw values ``x unit + origin`` within a ratio of ``1 + relative``
    origin: Array
    unit: Array

    def box(self, highest: Array, radius: Array) -> Range:
        """What single coordinates of anybody up to a corner may move to be within the radius."""
        value = np.maximum(up(up(highest * self.unit) + self.origin), 0.0)
        log = radius[:, None] * np.log1p(self.relative) * (1 + 32 * U)
        grow, shrink = np.expm1(log) * (1 + 32 * U), np.minimum(-np.expm1(-log) * (1 + 32 * U), 1.0)
        most = np.where(self.tolerance > 0, up(radius[:, None] * self.tolerance), 0.0)
        high = np.where(self.free, np.inf, np.where(self.relative > 0, up(up(value * grow) / self.unit), most))
        low = np.where(self.free, np.inf, np.where(self.relative > 0, up(up(value * shrink) / self.unit), most))
        scale = np.abs(np.diag(self.root)) if self.diagonal else 0.0 * self.unit
        ball = np.where(scale > 0, radius[:, None] / scale * (1 + 4 * U), np.inf)
        return -np.minimum(low, ball), np.minimum(high, ball)

    def within(self, x: Array, y: Array, radius: Array) -> Array:
        """Which pairs are no further apart than the radius, up to a part in 10⁹."""
        low, high = self.box(x, radius * (1 + 1e-9))
        length = np.linalg.norm((y - x) @ self.root.T, self.order, axis=1)
        return np.asarray(((y - x >= low) & (y - x <= high)).all(1) & (length <= radius * (1 + 1e-9)))


class Moves:
    """A batch of sets: boxes (n, m) cut by balls of a metric, if there is one, with radii (n,)."""

    def __init__(self, box: Range, metric: Metric | None, radius: Array) -> None:
        self.low, self.high, self.metric, self.radius = *box, metric, radius
        self.size = np.maximum(np.abs(self.low), np.abs(self.high))
        self.cols = np.flatnonzero((self.size != 0).any(0))  # all other coordinates stand still
        ball: Any = metric[:3] if metric else (np.zeros((0, self.low.shape[1])), 2.0, False)
        root, self.order, diagonal = ball
        moving = (self.low < self.high)[:, self.cols].any(0)
        self.root = root[np.ix_(self.cols if diagonal else np.arange(len(root)), self.cols)]
        self.inverse = np.zeros(self.root.T.shape)  # of the root of what moves, approximately
        self.inverse[moving] = np.linalg.pinv(self.root[:, moving])
        self.left = (self.low[:, self.cols] * ~moving) @ self.root.T  # what the others cost, whatever moves meanwhile
        self.left = self.left - self.left @ (self.root @ self.inverse)

    def __getitem__(self, rows: Any) -> "Moves":
        return Moves((self.low[rows], self.high[rows]), self.metric, self.radius[rows])

    def support(self, w: Array) -> Array:
        """Upper bounds (n, k) of the largest ``w·v``, for ``w`` (n or 1, k, m)."""
        w = w[..., self.cols]
        best = self._dual(w, np.zeros((1, 1, len(self.root))))
        if len(self.root):  # all to the ball, or to the box what it keeps well within the ball
            most = self._norm(self.inverse) * self.radius[:, None, None] / 2
            boxed = np.where(w > 0, self.high[:, None, self.cols] < most, self.low[:, None, self.cols] > -most)
            for part in (w, np.where(boxed, 0.0, w)):
                best = np.minimum(best, self._dual(w, np.tensordot(part, self.inverse, 1)))
        return best

    def empty(self) -> Array:
        """Which sets are certainly empty, since ``max 0·v < 0``."""
        s = np.sign(self.left) if self.order == 1 else self.left
        return np.asarray(self._dual(np.zeros((1, 1, len(self.cols))), s[:, None])[:, 0] < 0)

    def _norm(self, s: Array) -> Array:
        """At least the dual norm along the last axis."""
        largest = np.abs(s).max(-1, initial=0.0)
        scaled = s / np.where(largest > 0, largest, 1.0)[..., None]
        length = 1.0 if self.order == 1 else np.sqrt((scaled * scaled).sum(-1)) * (1 + gamma(s.shape[-1] + 8))
        return np.asarray(largest * length + TINY)

    def _dual(self, w: Array, s: Array) -> Array:
        low, high, size = (side[:, None, self.cols] for side in (self.low, self.high, self.size))
        error = gamma(2 * len(self.root) + 8) * (np.abs(w) + np.tensordot(np.abs(s), np.abs(self.root), 1))
        slack = np.where((error == 0) | ~s.any(-1, keepdims=True), 0.0, error * size).sum(-1)
        total = np.where(s.any(-1), self.radius[:, None] * self._norm(s) * (1 + gamma(4)), 0.0)
        w = w - np.tensordot(s, self.root, 1)
        value = np.where(w == 0, 0.0, np.maximum(w * low, w * high))  # 0 times an infinite range is 0
        slack = slack + gamma(len(self.cols) + 8) * (np.abs(value).sum(-1) + total)
        total = total + value.sum(-1) + slack * (1 + 1e-9) + TINY
        return np.where(np.isnan(total), np.inf, total + np.abs(total) * gamma(4))


class Layer(NamedTuple):
    """An affine map, or an activation: relu, leaky_relu, sigmoid, tanh."""

    kind: str
    weight: Array = np.zeros((0, 0))
    bias: Array = np.zeros(0)
    leak: float = 0.0

    def __call__(self, p: Array) -> Array:
        """The activation itself."""
        if self.kind in ("sigmoid", "tanh"):
            return sigmoid(p) if self.kind == "sigmoid" else np.tanh(p)
        return np.where(p >= 0, p, self.leak * p)

    def slopes(self, low: Array, high: Array) -> Range:
        """The smallest and the largest slope of an activation between two places."""
        if self.kind in ("sigmoid", "tanh"):
            value = self(np.stack([low, high, np.clip(0.0, low, high)]))
            slope = value * (1 - value) if self.kind == "sigmoid" else 1 - value * value
            return np.maximum(slope[:2].min(0) - DOUBT, 0.0), slope[2] + DOUBT
        left, right = np.where(low >= 0, 1.0, self.leak), np.where(high <= 0, self.leak, 1.0)
        return np.minimum(left, right), np.maximum(left, right)

    def lines(self, ends: Array, z: Range, y: Range, mode: str) -> list[Array]:
        """Lines above and below ``f(p + D) - f(p)``, D between the ``ends``, ``p`` in ``z`` and ``p + D`` in ``y``."""
        least, most = self.slopes(np.minimum(z[0], y[0]), np.maximum(z[1], y[1]))
        wide = 16 * U * (1 + np.abs(least) + np.abs(most)) * np.abs(np.stack([*ends, *z, *y])).max(0) + TINY

        def top(move: Array, of: Range) -> Array:
            at = np.where(move >= 0, of[1], of[0])
            rise = np.maximum(at + move, 0.0) - np.maximum(at, 0.0)
            return np.asarray(rise if self.kind == "relu" else np.maximum(least * move, most * move))

        upper, lower = top(ends, z), -top(-ends, y)
        steep = [np.nan_to_num((side[1] - side[0]) / (ends[1] - ends[0])) for side in (upper, lower)]
        above, below = (np.clip(slope, least, most) for slope in (steep[0], steep[0 if mode == "chord" else 1]))
        over, under = (upper - above * ends).max(0) + wide, (lower - below * ends).min(0) - wide
        if self.kind == "relu" and mode != "chord":  # one of the two on a straight piece gives a better line
            for on, slope in (((y[0] >= 0) & (z[1] >= 0), 1.0), ((y[1] <= 0) & (z[0] <= 0), 0.0)):
                above, over = np.where(on, slope, above), np.where(on, 0.0, over)
            steeper = {"lean": y[1] > -y[0], "flat": y[1] < y[0], "steep": y[1] >= y[0]}[mode]
            one, none = (z[0] >= 0) & (y[1] >= 0), (z[1] <= 0) & (y[0] <= 0)
            below = np.where(one & (steeper | ~none), 1.0, np.where(none, 0.0, below))
            under = np.where(one | none, 0.0, under)
        above, below = (np.where(least == most, most, slope) for slope in (above, below))
        return [above, np.where(least == most, 0.0, over), below, np.where(least == most, 0.0, under)]


class Sweep:
    """Bounds of a run over regions ``base + moves`` (``support`` is that of the moves), or of the difference of two."""

    def __init__(self, layers: list[Layer], base: Array | None, support: Support, size: Array, *runs: Ranges) -> None:
        self.layers, self.base, self.support, self.sizes, self.range = layers, base, support, [size], Ranges()
        self.near, self.far = runs or ({}, {})
        self.rounded = 2 * len(layers) + 16  # additions on the way of any term
        for i, layer in enumerate(layers):
            size = self.sizes[-1]
            if layer.kind == "affine":
                most = size @ np.abs(layer.weight).T + np.abs(layer.bias) * (base is not None)
                self.sizes.append(most * (1 + gamma(size.shape[1] + 8)))
                continue
            low, high = self.enclose(i, np.eye(size.shape[1]), MODES[:1])
            if i in self.near:  # the ranges of the two runs say something of their difference too
                least, most = self.far[i][0] - self.near[i][1], self.far[i][1] - self.near[i][0]
                low = np.maximum(low, least - 4 * U * np.abs(least))
                high = np.minimum(high, most + 4 * U * np.abs(most))
            self.range[i] = low, np.maximum(low, high)
            self.sizes.append(size * max(1.0, abs(layer.leak)) + (layer.kind in ("sigmoid", "tanh")))

    def enclose(self, i: int, rows: Array, modes: tuple[str, ...] = ()) -> Range:
        """Bounds (regions, k) of ``rows`` times what enters layer ``i``, the best of several choices of lines."""
        modes = modes or (MODES if self.base is not None else ("lean", "chord"))
        low, high = (np.minimum.reduce([self._upper(i, s * rows[None], mode) for mode in modes]) for s in (-1.0, 1.0))
        return -low, np.maximum(-low, high)

    def _lines(self, i: int, mode: str) -> list[Array]:
        layer, (low, high) = self.layers[i], self.range[i]
        if i in self.near:
            return layer.lines(np.stack([low, high]), self.near[i], self.far[i], mode)
        smooth = layer.kind in ("sigmoid", "tanh")
        at = (low + high) / 2 * smooth  # where moves start
        ends = np.stack([-up(at - low), up(high - at)]) if smooth else np.stack([low, high])
        above, over, below, under = layer.lines(ends, (at, at), (low, high), mode)
        value, wide = layer(at), DOUBT * (np.abs(at) + 1) * smooth
        return [above, over + (value - above * at) + wide, below, under + (value - below * at) - wide]

    def _upper(self, i: int, c: Array, mode: str) -> Array:
        constant, doubt = np.zeros((1, c.shape[1])), np.zeros((1, c.shape[1]))
        for k in range(i - 1, -1, -1):
            layer, size = self.layers[k], self.sizes[k]
            if layer.kind == "affine":
                lost = gamma(sum(layer.weight.shape) + self.rounded) * self.sizes[k + 1]
                doubt = doubt + (np.abs(c) @ lost[..., None])[..., 0]
                constant = constant + c @ layer.bias * (self.base is not None)
                c = np.tensordot(c, layer.weight, 1)
                continue
            above, over, below, under = self._lines(k, mode)
            steep = np.maximum(np.abs(above), np.abs(below)) * size + np.maximum(np.abs(over), np.abs(under))
            doubt = doubt + gamma(size.shape[1] + self.rounded) * (np.abs(c) @ steep[..., None])[..., 0]
            constant = constant + (np.maximum(c, 0.0) @ over[..., None] + np.minimum(c, 0.0) @ under[..., None])[..., 0]
            c = c * np.where(c > 0, above[:, None], below[:, None])
        total = constant + self.support(c)
        if self.base is not None:
            total = total + (c @ self.base[..., None])[..., 0]
            doubt = doubt + gamma(c.shape[-1] + self.rounded) * (np.abs(c) @ np.abs(self.base)[..., None])[..., 0]
        total = total + doubt * (1 + 1e-9) + np.abs(total) * gamma(self.rounded) + TINY
        return np.where(np.isnan(total), np.inf, total)
