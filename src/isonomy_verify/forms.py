"""Who counts as alike, as arrays: the form that every metric has.

    d(x, y) = max( ‖R (x − y)‖_p,  part of single coordinates ),

a seminorm of order ``p`` 1, 2 or infinity given by its *root* ``R``, and a part that looks at one coordinate at a time:
*free*, or ``|x_i − y_i| / tolerance_i``, or ``|log v_i − log w_i| / log(1 + relative_i)`` of the raw values
``v = x unit + origin`` and ``w = y unit + origin``. The individuals similar to ``x`` are then the intersection of a
convex ball and a box around ``x``, which is all that bounds need to know. What moving ``x`` costs may besides look at
``|v_i − w_i| / (share_i |v_i|)``, which is no metric: it is ``x`` that moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import ROUNDINGS, TINY, Array, down, gamma, product_up, up

Mask = NDArray[np.bool_]
Step = Callable[[Array], Array]
_ERROR = gamma(2 * ROUNDINGS)  # of log1p and expm1, relative


@dataclass(frozen=True, eq=False)
class Form:
    """A metric's arrays: ``root`` (r, m) and ``order``, and (m,) each what it asks of single coordinates.

    A coordinate that is not ``free`` stays within a ratio where ``relative`` is positive, else within its
    ``tolerance``; where both are 0 two individuals must be equal. A metric that is nothing but its seminorm has all
    coordinates free here. Rows of zeros say nothing and are left out. A positive ``share`` is that of the raw value of
    the individual who moves, in place of a tolerance.
    """

    root: Array
    order: float
    free: Mask
    tolerance: Array
    relative: Array
    origin: Array
    unit: Array
    share: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        root = np.asarray(self.root, dtype=np.float64)
        if root.ndim != 2 or not np.isfinite(root).all() or self.order not in (1.0, 2.0, math.inf):
            raise ValueError("The root of a metric must be a finite matrix, and its order 1, 2 or infinity.")
        keep = root.any(axis=1)
        object.__setattr__(self, "root", _frozen(root if keep.all() else root[keep]))
        object.__setattr__(self, "order", float(self.order))
        if not np.size(self.share):
            object.__setattr__(self, "share", np.zeros(root.shape[1]))
        for part in ("free", "tolerance", "relative", "origin", "unit", "share"):
            array = np.asarray(getattr(self, part), dtype=bool if part == "free" else np.float64)
            least, most = {"tolerance": (0.0, math.inf), "origin": (-_LARGEST, _LARGEST)}.get(part, (0.0, _LARGEST))
            if array.shape != root.shape[1:] or not ((array >= least) & (array <= most)).all():
                raise ValueError(f"'{part}' of a metric must be {root.shape[1]} numbers, finite and not negative.")
            object.__setattr__(self, part, _frozen(array))
        if not (self.unit > 0).all():
            raise ValueError("'unit' of a metric must be positive.")

    @property
    def width(self) -> int:
        """The number ``m`` of coordinates."""
        return int(self.root.shape[1])

    @property
    def boxed(self) -> bool:
        """Whether anything is asked of single coordinates."""
        return not self.free.all()

    def box(self, x: Array, delta: float) -> tuple[Array, Array]:
        """Offsets ``low ≤ y − x ≤ high`` that hold every ``y`` whose coordinates are each within ``delta``.

        Both have the shape of ``x``; ±∞ where nothing is demanded. **Soundness.** A raw value ``v > 0`` moves to
        ``v e^(±L)`` with ``L = δ log(1 + relative)``, so by ``v expm1(±L)``; products and quotients are rounded up one
        by one, ``log1p`` and ``expm1`` by their error bound. With ``delta = 0`` offsets are exactly 0 or infinite.
        """
        _, within, ratio = self.parts
        high = np.zeros(x.shape)
        high[..., self.free] = np.inf
        low = -high
        if delta == 0.0:
            return low, high
        with np.errstate(all="ignore"):
            reach = up(delta * self.tolerance[within])
            high[..., within], low[..., within] = reach, -reach
            unit, origin = self.unit[ratio], self.origin[ratio]
            value = up(up(x[..., ratio] * unit) + origin)
            log = up(up(np.log1p(self.relative[ratio]) * (1.0 + _ERROR)) * delta)
            grow = up(np.expm1(log) * (1.0 + _ERROR))
            shrink = np.minimum(up(-np.expm1(-log) * (1.0 + _ERROR)), 1.0)
            positive = value > 0.0
            high[..., ratio] = np.where(positive, up(up(value * grow) / unit), 0.0)
            low[..., ratio] = np.where(positive, -up(up(value * shrink) / unit), 0.0)
            own = self.of_own
            size = self._raw_size(x[..., own])[1]
            reach = np.where(size > 0.0, up(up(up(delta * self.share[own]) * size) / self.unit[own]), 0.0)
            high[..., own], low[..., own] = reach, -reach
        return low, high

    def _raw_size(self, x: Array) -> tuple[Array, Array]:
        """At most and at least ``|v|`` of the coordinates (…, k) of which a share may move."""
        unit, origin = self.unit[self.of_own], self.origin[self.of_own]
        low, high = down(down(x * unit) + origin), up(up(x * unit) + origin)
        zero = (x == 0.0) & (origin == 0.0)  # no value, exactly
        least = np.where(zero, 0.0, np.maximum(0.0, np.maximum(low, -high)))
        return least, np.where(zero, 0.0, np.maximum(np.abs(low), np.abs(high)))

    def distance_upper(self, x: Array, y: Array) -> Array:
        """At least ``d(x, y)``, row by row (rows broadcast), a few rounding errors above it; overflow gives ∞."""
        with np.errstate(all="ignore"):
            both = np.maximum(self.ball_upper(x, y), self.box_upper(x, y))
        return np.asarray(np.where(np.isnan(both), np.inf, both))

    def ball_upper(self, x: Array, y: Array, roundings: int = 0) -> Array:
        """At least ``(1 + γ_roundings) ‖R (x − y)‖_p``, where the root itself is so much below what it stands for.

        **Soundness.** :func:`_products_up` is above each entry, and the norm of these is within ``2r`` roundings.
        """
        return raised(norm(_products_up(self.root, x - y), self.order), 2 * len(self.root) + roundings)

    def box_upper(self, x: Array, y: Array) -> Array:
        """At least the part of single coordinates; exactly 0 where they are equal or free.

        **Soundness.** ``|log v − log w| = log(1 + |v − w| / min(v, w))``, each piece rounded toward a larger result.
        """
        return self._box_part(x, y, up, down, _ERROR)

    def _box_part(self, x: Array, y: Array, out: Step, against: Step, error: float) -> Array:
        """The part of single coordinates with every step rounded ``out``, and what divides the other way."""
        if not self.boxed:
            return np.zeros(np.broadcast_shapes(x.shape, y.shape)[:-1])
        equal, within, ratio = self.parts
        size = np.abs(x - y)
        moved = size != 0.0
        size = np.where(moved, np.maximum(0.0, out(size)), 0.0)
        size[..., within] = out(size[..., within] / self.tolerance[within])
        size[..., equal] = np.inf
        smaller = against(against(np.minimum(x, y)[..., ratio] * self.unit[ratio]) + self.origin[ratio])
        change = out(size[..., ratio] * self.unit[ratio])
        logs = out(np.log1p(out(change / smaller)) * (1.0 + error))
        unit = against(np.log1p(self.relative[ratio]) * (1.0 - error))
        size[..., ratio] = np.where(smaller > 0.0, out(logs / unit), np.inf)
        own = self.of_own
        raw = self._raw_size(np.broadcast_to(x, size.shape)[..., own])[0 if error > 0 else 1]
        base = against(self.share[own] * raw)
        size[..., own] = np.where(base > 0.0, out(out(size[..., own] * self.unit[own]) / base), np.inf)
        return np.asarray(np.where(moved & ~self.free, np.maximum(size, 0.0), 0.0).max(axis=-1))

    def distance_lower(self, x: Array, y: Array) -> Array:
        """At most ``d(x, y)``, row by row (rows broadcast), a few rounding errors below it; 0 where nothing is known.

        **Soundness.** Errors are those of the upper bounds, taken off: of an entry ``(R t)_i`` its ``γ`` times ``|R|
        |t|``, of the norm ``2r`` roundings. Of a ratio, ``|v − w|`` is rounded down and ``min(v, w)`` up.
        """
        with np.errstate(all="ignore"):
            both = np.maximum(self._ball_lower(x, y), self._box_part(x, y, down, up, -_ERROR))
        return np.asarray(np.where(np.isnan(both), 0.0, both))

    def _ball_lower(self, x: Array, y: Array) -> Array:
        difference, entries = x - y, np.count_nonzero(self.root, axis=1)
        relative = np.array([gamma(int(k) + 2) for k in entries])
        spread = product_up(np.abs(difference), np.abs(self.root).T)
        value = down(np.abs(difference @ self.root.T) - entries * TINY)
        size = norm(np.maximum(0.0, down(value - up(relative * spread))), self.order)
        return np.asarray(np.maximum(0.0, down(size * (1.0 - gamma(2 * len(self.root) + 8)))))

    @property
    def of_own(self) -> Mask:
        """Which coordinates move within a share of the raw value of the individual who moves."""
        return ~self.free & (self.share > 0)

    @property
    def parts(self) -> tuple[Mask, Mask, Mask]:
        """Which coordinates must be equal, stay within a tolerance, stay within a ratio."""
        own = self.of_own
        ratio = ~self.free & ~own & (self.relative > 0)
        within = ~self.free & ~own & ~ratio & (self.tolerance > 0)
        return ~(self.free | own | ratio | within), within, ratio


_LARGEST = float(np.finfo(np.float64).max)


def norm(rows: Array, order: float) -> Array:
    """``‖·‖_order`` of each row, without overflow or underflow on the way; 0 only for a row of zeros."""
    if rows.shape[-1] == 0:
        return np.zeros(rows.shape[:-1])
    size = np.abs(rows)
    largest = size.max(axis=-1)
    if order == math.inf:
        return np.asarray(largest)
    # Scaling by a power of two is exact but for numbers that are negligible beside the largest one.
    exponent = np.frexp(largest)[1]
    scaled = np.ldexp(size, -exponent[..., None])
    total = scaled.sum(axis=-1) if order == 1 else np.sqrt(np.square(scaled).sum(axis=-1))
    return np.asarray(np.ldexp(total, exponent))


def raised(value: Array, roundings: int) -> Array:
    """At least ``value · (1 + γ_roundings)`` in real arithmetic; 0 stays 0."""
    # 1 + γ and its product round once each: four more roundings and the next float cover both.
    return np.where(value == 0.0, 0.0, up(value * (1.0 + gamma(roundings + 4))))


def difference_upper(x: Array, y: Array) -> Array:
    """At least ``|x − y|``; exactly 0 where they are equal."""
    size = np.abs(x - y)
    return np.where(size == 0.0, 0.0, up(size))


def _products_up(root: Array, difference: Array) -> Array:
    """At least ``|R (x − y)|``, entry by entry, given the rounded ``difference``.

    With ``k`` nonzero entries in row ``i`` of ``R`` the computed ``(R t)_i`` is within
    ``γ_k (|R| |t|)_i + k TINY`` of its real value in any order of summation; the difference adds a rounding.
    """
    size = np.abs(difference)
    entries = np.count_nonzero(root, axis=1)
    relative = np.array([gamma(int(k) + 2) for k in entries])
    spread = product_up(size, np.abs(root).T)
    value = np.abs(difference @ root.T) + entries * TINY
    entry = up(up(value) + up(relative * spread))
    # Exactly 0 where no nonzero entry of the row meets a nonzero difference.
    meets = (size != 0.0).astype(np.float64) @ (root != 0.0).astype(np.float64).T
    return np.where(meets == 0.0, 0.0, entry)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only copy, row by row in memory: products of the same numbers are the same numbers."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy
