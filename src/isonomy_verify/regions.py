"""Sets of moves, by their support functions.

An individual similar to one at ``x`` is ``y = x + v`` with ``v`` in a convex set, and all that a bound needs of
the set is ``h(w) ≥ max over v of w·v``. A set here is

    { v : ‖R v + o‖_p ≤ ρ,  low ≤ v ≤ high,  each block of shares stays in its simplex },

``p`` 1, 2 or infinity, or a sum of such sets within a box. For **any** vector ``s``, with ``1/p + 1/q = 1``,

    w·v = s·(R v + o) − s·o + (w − Rᵀs)·v  ≤  ρ‖s‖_q − s·o + h_box(w − Rᵀs),

so a split ``s`` of ``w`` between ball and box is a hint: a good one makes the bound tight, no one makes it wrong.

A set gives a layer that reads the input a :class:`LinearImage`: a matrix ``M`` with one column for each
coordinate ``u`` of the set's own, such that ``c·(W v) ≤ support(c M) + |c|·loss`` for every ``c``. A ball's own
coordinates are ``u = R v``, those of a box with a ball the columns of ``v`` that move, those of a sum the ones of both
parts.

**Soundness.** ``s`` and ``w − Rᵀs`` are formed in floating point; what that changes, times the extent of the box, is
added. A coordinate without bounds may only meet a weight that is exactly 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import SMALL, TINY, Array, U, dual_order, finite, gamma, norm_up

Index = NDArray[np.int64]
FEW_COLUMNS = 16
"""Columns up to which sets choose splits of their own also for the weights of a whole layer."""

SIMPLEX_TOLERANCE = 1e-9
"""Shares of a block may add up to 1 within this."""


class SingularError(ValueError):
    """The root of a ball has no inverse that is good enough to bound it."""


class LinearImage(NamedTuple):
    """How a layer's weight (width, m) meets a set: ``c·(W v) ≤ support(c matrix) + |c|·loss``.

    ``low`` and ``high`` (rows or 1, width) bound ``W v`` itself; ``reach`` (width,) or (rows, width) bounds
    ``Σ |matrix| |u|`` over the set's own coordinates ``u``, which weighs the rounding of ``c matrix``.
    """

    matrix: Array
    loss: Array
    low: Array
    high: Array
    reach: Array


class Ellipsoid(NamedTuple):
    """How a layer's weight meets an ellipsoid around a set: ``|W v − middle − radius · matrix u| ≤ loss``, entry by
    entry, for every ``v`` of the set and some ``u`` with ``‖u‖₂ ≤ 1``.

    ``middle`` and ``loss`` are (rows or 1, width), ``radius`` (rows or 1,), ``matrix`` (width, columns) is the same
    for all.
    """

    matrix: Array
    middle: Array
    radius: Array
    loss: Array


class Region(Protocol):
    """A batch of sets of moves, one for each row, or one that all rows share (``rows == 1``)."""

    @property
    def rows(self) -> int:
        """How many sets."""
        ...

    @property
    def extent(self) -> Array:
        """The largest ``|v|`` per coordinate, (rows, m); infinite where nothing bounds it."""
        ...

    def __getitem__(self, rows: Index | slice) -> Region:
        """Some of the sets."""
        ...

    def linear_image(self, weight: Array, size: Array, ranges: bool = True) -> LinearImage:
        """For a layer's weight and the sum over paths of its absolute products; without ``ranges`` those of ``W v``
        are not asked for."""
        ...

    def support(self, t: Array, owner: Index | slice) -> Array:
        """At least ``max t·u`` (p,) over the sets ``owner``, ``t`` (p, columns of the matrices)."""
        ...

    def maximiser(self, t: Array, owner: Index | slice) -> Array:
        """About where ``t·u`` is largest: a hint that steers slopes and witnesses."""
        ...


class Ball:
    """``{v : ‖R v‖_p ≤ ρ}``, one for everybody; ``R`` has full column rank on the coordinates that move.

    ``R v = u`` with ``‖u‖ ≤ ρ`` and any ``K`` give ``W v = (W K) u + (W − W K R) v``: the matrix is ``W K``, the loss
    is the second part against the box around the ball. ``K`` is a hint.
    """

    rows = 1

    def __init__(
        self,
        root: Array,
        order: float,
        radius: float,
        inverse: Array | None = None,
        still: NDArray[np.bool_] | None = None,
    ) -> None:
        """``still`` marks coordinates that do not move, and that the root must not look at; others that it does not
        look at are free."""
        finite(root, "The root of a ball")
        if not (math.isfinite(radius) and radius >= 0):
            raise ValueError(f"The radius of a ball must be finite and not negative. Got {radius}.")
        self.root, self.order, self.dual, self.radius = root, order, dual_order(order), float(radius)
        moving = root.any(0)
        k, m = root.shape
        if inverse is None:
            inverse = np.zeros((m, k))
            inverse[moving] = np.linalg.pinv(root[:, moving])
        self.inverse = finite(inverse, "The inverse of a root")
        self.moving, self.free = moving, ~moving if still is None else ~moving & ~still
        if still is not None and (moving & still).any():
            raise ValueError("The root of a ball looks at a coordinate that does not move.")
        # |v| = |K R v + (I - K R) v| <= ρ ‖K_i‖_q + left_i max |v|, and left ≤ 1/2.
        eye = np.diag(moving.astype(np.float64))
        left = np.abs(eye - inverse @ root) + gamma(k + 8) * (eye + np.abs(inverse) @ np.abs(root))
        left = np.where(moving, left.sum(1) * (1 + gamma(m + 4)) + TINY, 0.0)
        reach = norm_up(inverse, self.dual) * (1 + 8 * U)
        if not (left <= 0.5).all():
            raise SingularError("A ball whose root is singular has no bounds of its own.")
        reach = reach + left * 2 * reach.max(initial=0.0)
        self._size = np.where(moving, self.radius * reach * (1 + 16 * U) + TINY, 0.0)

    @property
    def extent(self) -> Array:
        """The box around the ball; without bounds where coordinates are free."""
        return np.where(self.free, np.inf, self._size)[None]

    def __getitem__(self, rows: Index | slice) -> Ball:
        """The same for everybody."""
        return self

    def linear_image(self, weight: Array, size: Array, ranges: bool = True) -> LinearImage:
        """``W K`` and what it leaves over."""
        if size[:, self.free].any():
            j = int(np.flatnonzero((size != 0).any(0) & self.free)[0])
            raise ValueError(f"Nothing bounds coordinate {j}, which the network reads.")
        matrix = weight @ self.inverse
        terms = sum(self.root.shape) + 16
        left = np.abs(weight - matrix @ self.root) + (np.abs(weight) + np.abs(matrix) @ np.abs(self.root)) * gamma(
            2 * terms
        )
        extent = self._size
        reach = norm_up(matrix, self.dual) * (self.radius * (1 + 8 * U)) + TINY
        loss = (left @ extent) * (1 + gamma(2 * terms)) + TINY * (1 + extent.sum())
        wide = ((reach + loss) * (1 + 8 * U))[None]
        # What merging lost is within the layer's unit of size |v|, however small the weight that is left.
        reach = np.maximum(reach, (size @ extent) * (1 + gamma(2 * terms)) + TINY * (1 + extent.sum()))
        return LinearImage(matrix, loss, -wide, wide, reach)

    def ellipsoid(self, weight: Array, size: Array) -> Ellipsoid | None:
        """``W v = (W K) R v + (W − W K R) v``; a ball of order 1 lies in that of order 2, one of order ∞ in a larger
        one."""
        if self.free.any():
            return None
        image, wide = self.linear_image(weight, size), 1.0
        if self.order > 2:
            wide = math.sqrt(len(self.root)) * (1 + 4 * U)
        radius = np.array([self.radius * wide * (1 + 2 * U)])
        return Ellipsoid(image.matrix, np.zeros((1, len(weight))), radius, image.loss[None])

    def within(self, other: Ball) -> Ball:
        """The part that a ball of the same shape leaves of this one."""
        if not np.array_equal(self.root, other.root) or self.order != other.order:
            raise ValueError("A smaller ball must be of the same shape.")
        part = copy(self)
        part.radius = min(self.radius, other.radius)
        return part

    def support(self, t: Array, owner: Index | slice) -> Array:
        """``ρ‖t‖_q``."""
        if self.order == 2:  # squares that underflow are below SMALL, those that overflow say nothing
            return np.asarray(
                np.sqrt(np.vecdot(t, t)) * (self.radius * (1 + gamma(t.shape[1] + 16))) + SMALL * (1 + self.radius)
            )
        return np.asarray(norm_up(t, self.dual) * (self.radius * (1 + 8 * U)) + TINY * (1 + self.radius * t.shape[1]))

    def maximiser(self, t: Array, owner: Index | slice) -> Array:
        """On the sphere."""
        if self.order == 2:
            return np.asarray(t * (self.radius / np.maximum(np.sqrt(np.vecdot(t, t)), 1e-300))[:, None])
        if self.order == math.inf:
            return np.asarray(np.sign(t) * self.radius)
        best, u = np.abs(t).argmax(1), np.zeros(t.shape)
        u[np.arange(len(t)), best] = np.sign(t[np.arange(len(t)), best]) * self.radius
        return u


class BallBox:
    """``{v : ‖R v + o‖_p ≤ ρ, low ≤ v ≤ high, shares in their simplices}``, a set for each row.

    ``shares`` (rows, m) are the present shares of the blocks (start, stop), from which ``v`` moves them to other
    shares. The coordinates that some set moves are the columns of its linear images, so few that move cost little.
    """

    def __init__(
        self,
        low: Array,
        high: Array,
        root: Array | None = None,
        order: float = 2.0,
        radius: Array | None = None,
        offset: Array | None = None,
        inverse: Array | None = None,
        blocks: Sequence[tuple[int, int]] = (),
        shares: Array | None = None,
        columns: Index | None = None,
    ) -> None:
        """``columns``: of the linear images, where they shall be more than those that some set moves."""
        if np.isnan(low).any() or np.isnan(high).any() or not (low <= high).all():
            raise ValueError("The box of a region must have its lower side below its upper one.")
        m = low.shape[1]
        self.low, self.high, self.order, self.dual = low, high, order, dual_order(order)
        self.root = np.zeros((0, m)) if root is None else finite(root, "The root of a region")
        self.radius = np.zeros(1) if radius is None else finite(radius, "The radius of a region")
        self.offset = np.zeros((1, len(self.root))) if offset is None else finite(offset, "The offset of a region")
        if (self.radius < 0).any():
            raise ValueError("The radius of a region must not be negative.")
        self.inverse: Array = np.asarray(np.linalg.pinv(self.root) if inverse is None else inverse, dtype=np.float64)
        finite(self.inverse, "The inverse of a root")
        self.blocks, self.shares = tuple(blocks), shares
        if self.blocks and (shares is None or not np.isfinite(low[:, :m] - high).all()):
            raise ValueError("Blocks of shares need the present shares and finite ranges.")
        for start, stop in self.blocks:  # what makes moves add up to 0
            if shares is not None and (np.abs(shares[:, start:stop].sum(1) - 1) > SIMPLEX_TOLERANCE * 1.001).any():
                raise ValueError(f"The present shares of block {start} to {stop} must add up to 1.")
        self.rows = max(
            len(part) for part in (low, high, self.radius, self.offset, *([] if shares is None else [shares]))
        )
        self.columns = np.flatnonzero((self.extent != 0).any(0)) if columns is None else columns
        place = np.full(m, -1)
        place[self.columns] = np.arange(len(self.columns))
        self._blocks = [np.arange(a, b)[place[a:b] >= 0] for a, b in self.blocks]
        self._places = [place[block] for block in self._blocks]
        self._sums = [places for places in self._places if len(places)]  # whose moves add up to 0
        self._root, self._inverse = self.root[:, self.columns], self.inverse[self.columns]
        self._low, self._high = self.low[:, self.columns], self.high[:, self.columns]
        self._extent = np.maximum(np.abs(self._low), np.abs(self._high))
        # A column of zeros adds exactly nothing, whatever the split.
        self._column_norms = np.where(self._root.any(0), norm_up(self._root, axis=0), 0.0)

    @property
    def extent(self) -> Array:
        """The box: the ball may hold back more."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def __getitem__(self, rows: Index | slice) -> BallBox:
        """Some of the sets."""
        low, high, radius, offset = (_rows(a, rows) for a in (self.low, self.high, self.radius, self.offset))
        shares = None if self.shares is None else _rows(self.shares, rows)
        return BallBox(
            low, high, self.root, self.order, radius, offset, self.inverse, self.blocks, shares, self.columns
        )

    def within(self, other: BallBox) -> BallBox:
        """What other sets, row by row, leave of these: their boxes, and their radii where the balls are of one shape.

        Its matrices are those of these sets.
        """
        low, high, radius = np.maximum(self.low, other.low), np.minimum(self.high, other.high), self.radius
        same = np.array_equal(self.root, other.root) and np.array_equal(self.offset, other.offset)
        if same and self.order == other.order:
            radius = np.minimum(radius, other.radius)
        high = np.maximum(low, high)  # where nothing is left, more than nothing
        return BallBox(
            low, high, self.root, self.order, radius, self.offset, self.inverse, self.blocks, self.shares, self.columns
        )

    def ellipsoid(self, weight: Array, size: Array) -> Ellipsoid | None:
        """From the ball, where its root determines every coordinate that moves; else None.

        Coordinates with one possible value take it, ``v = w``. For the moves ``v`` of all others and any matrix ``G``
        ``W v = G (R v) + (W − G R) v`` and ``R v = ρu − o − R w``; the last term is at most ``|W − G R|`` times the
        box.
        """
        moves = (self._low < self._high).any(0)
        fixed, free = self.columns[~moves], self.columns[moves]
        if not len(free) or not len(self.root) or not np.isfinite(self._extent).all():
            return None
        still, root, part = self.low[:, fixed], self.root[:, free], weight[:, free]
        inverse: Array = self.inverse[free]
        if len(free) < len(self.columns) or np.abs(inverse @ root - np.eye(len(free))).max() > 1e-6:
            inverse = np.asarray(np.linalg.pinv(root), dtype=np.float64)
        matrix, extent = part @ inverse, np.maximum(np.abs(self.low), np.abs(self.high))[:, free]
        terms = gamma(4 * (sum(self.root.shape) + len(self.columns) + 16))
        left = np.abs(part - matrix @ root) + (np.abs(part) + np.abs(matrix) @ np.abs(root)) * terms
        away = self.offset + still @ self.root[:, fixed].T
        large = np.abs(self.offset) + np.abs(still) @ np.abs(self.root[:, fixed]).T
        middle = still @ weight[:, fixed].T - away @ matrix.T
        slack = (np.abs(still) @ np.abs(weight[:, fixed]).T + large @ np.abs(matrix).T) * (4 * terms)
        loss = (extent @ left.T) * (1 + terms) + slack + TINY * (1 + extent.sum(1)[:, None])
        wide = 1.0 if self.order <= 2 else math.sqrt(len(self.root)) * (1 + 4 * U)
        radius = self.radius * (wide * (1 + 4 * U))
        if not np.isfinite(middle).all() or not (loss <= 1e-6 * (extent @ np.abs(part).T) + 1e-12 * size.max()).all():
            return None  # valid, and useless
        return Ellipsoid(matrix, middle, radius, loss)

    def boxed(self, low: Array, high: Array) -> BallBox:
        """The same sets in other boxes (rows, m)."""
        radius, offset = (np.broadcast_to(a, (len(low), *a.shape[1:])) for a in (self.radius, self.offset))
        return BallBox(low, high, self.root, self.order, radius, offset, self.inverse, self.blocks, self.shares)

    def linear_image(self, weight: Array, size: Array, ranges: bool = True) -> LinearImage:
        """The columns that move, exactly; ranges row by row."""
        matrix = np.ascontiguousarray(weight[:, self.columns])
        part = size[:, self.columns]
        reach = _zero_times(self._extent, part) * (1 + gamma(part.shape[1] + 4)) + TINY
        nothing = np.full((1, len(weight)), np.inf)
        low, high = self._ranges(matrix) if ranges else (-nothing, nothing)
        return LinearImage(matrix, np.zeros(len(weight)), low, high, reach)

    @np.errstate(all="ignore")
    def support(self, t: Array, owner: Index | slice, split: Array | None = None) -> Array:
        """The best of a few splits: all to the box, all to the ball, and by coordinate whichever reaches less far; and
        a hint."""
        low, high, radius, offset = (_rows(a, owner) for a in (self._low, self._high, self.radius, self.offset))
        best = self._dual(t, None, low, high, radius, offset)
        if split is not None and len(self._root):
            split = np.where(np.isfinite(split), split, 0.0)
            best = np.fmin(best, self._dual(t, split, low, high, radius, offset))
        if not len(self._root):
            return best
        best = np.minimum(best, self._dual(t, t @ self._inverse, low, high, radius, offset))
        reach = norm_up(self._inverse, self.dual) * radius[:, None]
        middle = -(offset @ self._inverse.T)
        boxed = np.where(t > 0, high < middle + 0.5 * reach, low > middle - 0.5 * reach)
        best = np.minimum(best, self._dual(t, np.where(boxed, 0.0, t) @ self._inverse, low, high, radius, offset))
        if self.order == 1 and len(self._root) <= 16:  # a knapsack: the best split cuts all prices off at one of them
            prices = t @ self._inverse
            for j in range(prices.shape[1]):
                cut = np.abs(prices[:, j : j + 1])
                best = np.minimum(best, self._dual(t, np.clip(prices, -cut, cut), low, high, radius, offset))
        return best

    def split_support(self, t: Array, split: Array) -> Array:
        """The support with one split of each row's weight alone."""
        return self._dual(t, split, self._low, self._high, self.radius, self.offset)

    def maximiser(self, t: Array, owner: Index | slice) -> Array:
        """The better of the box's corner, drawn towards the middle of the ball, and the ball's own, clipped by the
        box."""
        low, high, radius, offset = (_rows(a, owner) for a in (self._low, self._high, self.radius, self.offset))
        corner = np.where(np.isfinite(low + high), np.where(t > 0, high, low), 0.0)
        for place in self._sums:
            corner[:, place] = _filled(t[:, place], low[:, place], high[:, place])[0]
        if not len(self._root):
            return corner
        middle = np.clip(-(offset @ self._inverse.T), low, high)
        norm = np.linalg.norm((corner - middle) @ self._root.T, self.order, axis=1)
        share = np.minimum(1.0, radius / np.maximum(norm, 1e-300))[:, None]
        first = middle + share * (corner - middle)
        s = t @ self._inverse
        size = np.maximum(np.linalg.norm(s, 2, axis=1), 1e-300)[:, None]
        second = np.clip(middle + (s * (radius[:, None] / size)) @ self._inverse.T, low, high)
        return np.asarray(np.where((np.vecdot(t, second) > np.vecdot(t, first))[:, None], second, first))

    def _ranges(self, weight: Array) -> tuple[Array, Array]:
        """Both ends (rows, k) of ``W v`` for a weight (k, columns) that all rows share, by the same splits.

        With few columns rows also choose splits of their own.
        """
        low, high = self._shared_dual(weight, None)
        if len(self._root):
            bottom, top = self._shared_dual(weight, weight @ self._inverse)
            low, high = np.fmax(low, bottom), np.fmin(high, top)
            if len(self.columns) <= FEW_COLUMNS:
                n, k = self.rows, len(weight)
                step = max(1, 2**21 // max(1, k * max(1, weight.shape[1])))
                for start in range(0, n, step):
                    owner = np.repeat(np.arange(start, min(start + step, n)), k)
                    t = np.broadcast_to(weight, (len(owner) // k, *weight.shape)).reshape(len(owner), -1)
                    part = slice(start, start + step)
                    high[part] = np.fmin(high[part], self.support(t, owner).reshape(-1, k))
                    low[part] = np.fmax(low[part], -self.support(-t, owner).reshape(-1, k))
        return low, high

    def _shared_dual(self, weight: Array, s: Array | None) -> tuple[Array, Array]:
        """The ends of ``ρ‖s‖_q − s·o + h_box(t − Rᵀs)`` in both directions, for one split of each weight."""
        n, k = self.rows, weight.shape[1] + 8
        error, ball, along, t = np.abs(weight) * gamma(4 * k), np.zeros((1, len(weight))), np.zeros((1, 1)), weight
        if s is not None:
            terms = sum(self._root.shape) + 8
            error = error + (np.abs(weight) + np.abs(s) @ np.abs(self._root)) * gamma(4 * terms)
            t = weight - s @ self._root
            error = error + np.abs(t) * gamma(4 * k)
            ball = self.radius[:, None] * norm_up(s, self.dual) * (1 + 8 * U)
            if self.offset.any():
                along = self.offset @ s.T
                ball = ball + gamma(2 * terms) * (np.abs(self.offset) @ np.abs(s).T)
        # Only an exact 0 may meet a coordinate without bounds, not what underflows to it.
        touched = (weight != 0) | (t != 0) | (False if s is None else (self._root != 0).any(0))
        error = np.where(touched, np.maximum(error, 2.0**-1074), error)
        # The middle of the box and its half, so that both directions share the products.
        unbounded = ~np.isfinite(self._extent)
        first, last = np.where(unbounded, 0.0, self._low), np.where(unbounded, 0.0, self._high)
        half = 0.5 * last - 0.5 * first
        centre = last - half
        middle, wide = centre @ t.T, half @ np.abs(t).T
        cost = ball + _zero_times(self._extent, error) + TINY
        low, high = np.broadcast_to(middle - wide, (n, len(weight))), np.broadcast_to(middle + wide, (n, len(weight)))
        for (start, stop), block, place in zip(self.blocks, self._blocks, self._places, strict=True):
            if len(block) != stop - start:
                continue
            assert self.shares is not None
            part = t[:, place]
            box, spread = centre[:, place] @ part.T, half[:, place] @ np.abs(part).T
            here = self.shares[:, block] @ part.T
            slack = 2 * (error[:, place].sum(1) + np.abs(part).max(1) * (gamma(len(block) + 8) + SIMPLEX_TOLERANCE))
            gain = np.minimum(part.max(1) - here + slack - box - spread, 0.0)
            loss = np.maximum(part.min(1) - here - slack - box + spread, 0.0)
            slack = gamma(32) * (np.abs(box) + spread + np.abs(here) + np.abs(part).max(1))
            low, high, cost = low + loss, high + gain, cost + slack
        cost = cost + gamma(16) * (np.abs(low) + np.abs(high) + np.abs(along) + cost)
        low, high = low - along - cost, high - along + cost
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)

    def _dual(self, t: Array, s: Array | None, low: Array, high: Array, radius: Array, offset: Array) -> Array:
        """``ρ‖s‖_q − s·o + h_box(t − Rᵀs)`` from above.

        Shares of a block add up to the same before and after a move, so that any number may be taken from all their
        weights: the best one is where filling the box from below, largest weights first, ends.
        """
        n, extent = t.shape[1] + 8, np.maximum(np.abs(low), np.abs(high))
        error, untouched = np.zeros_like(t), t == 0
        ball: Array | float = 0.0
        if s is not None:
            terms, untouched = sum(self._root.shape) + 8, untouched & (self._column_norms == 0)
            # |s| |R| column by column, by Cauchy and Schwarz: weighs the rounding of s R and of the subtraction.
            error = (np.abs(t) + norm_up(s)[:, None] * self._column_norms) * gamma(2 * terms)
            t = t - s @ self._root
            ball = radius * norm_up(s, self.dual) * (1 + 8 * U)
            if self.offset.any():
                along = s * offset
                ball = ball - along.sum(1) + gamma(2 * terms) * np.abs(along).sum(1)
        t = np.array(t) if self._sums and s is None else t
        for place in self._sums:
            part, first, last = t[:, place], low[:, place], high[:, place]
            level = np.nan_to_num(_filled(part, first, last)[1], posinf=0.0, neginf=0.0)
            less, slack = part - level[:, None], np.abs(level) * (2.01 * SIMPLEX_TOLERANCE)
            gain = (np.maximum(part * first, part * last) - np.maximum(less * first, less * last)).sum(1) - slack
            t[:, place] = np.where((gain > 0)[:, None], less, part)
            ball = ball + np.where(gain > 0, slack, 0.0)
        value, cost = np.maximum(t * low, t * high), (error + np.abs(t) * gamma(2 * n)) * extent
        if not np.isfinite(extent).all():  # 0 · ∞ = 0, and only an exact 0 will do, not what underflows to it
            idle = (t == 0) & untouched
            value, cost = np.where(idle, 0.0, value), np.where(idle, 0.0, cost)
        total = ball + value.sum(1) + cost.sum(1) * (1 + gamma(n))
        total = (
            total
            + gamma(8) * (np.abs(total) + np.abs(ball))
            + TINY * (1 + radius + np.where(np.isfinite(extent), extent, 0.0).sum(1))
        )
        return np.asarray(np.where(np.isnan(total), np.inf, total))


def _filled(t: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """About where ``t·v`` is largest among ``low ≤ v ≤ high`` that add up to 0, and the weight that is filled last."""
    low, high = np.broadcast_to(low, t.shape), np.broadcast_to(high, t.shape)
    need, best, rows = -low.sum(1), t.argmax(1), np.arange(len(t))
    level, v = t[rows, best], np.array(low)
    v[rows, best] += need
    short = v[rows, best] > high[rows, best]  # the largest weight cannot take all
    if short.any():
        t, low, need = t[short], low[short], need[short, None]
        order = np.argsort(-t, axis=1)
        slack = np.take_along_axis(high[short] - low, order, 1)
        fill = np.clip(need - (np.cumsum(slack, axis=1) - slack), 0.0, slack)
        some = np.empty_like(t)
        np.put_along_axis(some, order, np.take_along_axis(low, order, 1) + fill, 1)
        last = np.maximum((fill > 0).sum(1) - 1, 0)
        v[short], level[short] = some, t[rows[: len(t)], order[rows[: len(t)], last]]
    return v, level


class Sum:
    """``(first ⊕ second) ∩ limits``: an individual similar to one near, as far as any can be.

    ``h(w) ≤ min(h_first(w) + h_second(w), h_limits(w))``. The matrices of all parts stand side by side.
    """

    def __init__(self, first: Ball | BallBox, second: Ball | BallBox, limits: BallBox | None = None) -> None:
        self.first, self.second, self.limits = first, second, limits
        self.parts = (first, second) if limits is None else (first, second, limits)
        self.rows = max(part.rows for part in self.parts)
        self._ends: list[int] = []

    @property
    def extent(self) -> Array:
        """The box around the sum, or around the limits."""
        both = (self.first.extent + self.second.extent) * (1 + 4 * U)
        return both if self.limits is None else np.minimum(both, self.limits.extent)

    def __getitem__(self, rows: Index | slice) -> Sum:
        """Some of the sets."""
        return Sum(self.first[rows], self.second[rows], None if self.limits is None else self.limits[rows])

    def within(self, second: Ball | BallBox) -> Sum:
        """The same with a part of the second set; its matrices are the same."""
        part = Sum(self.first, second, self.limits)
        part._ends = self._ends
        return part

    def linear_image(self, weight: Array, size: Array, ranges: bool = True) -> LinearImage:
        """Matrices side by side; what is lost adds up."""
        found = [part.linear_image(weight, size) for part in self.parts]
        self._ends = np.cumsum([each.matrix.shape[1] for each in found[:2]]).tolist()
        matrix = np.concatenate([each.matrix for each in found], axis=1)
        one, other = found[:2]
        low, high = one.low + other.low, one.high + other.high
        slack = (2 * U) * (np.abs(low) + np.abs(high)) + TINY
        loss, reach = (one.loss + other.loss) * (1 + 2 * U), (one.reach + other.reach) * (1 + 2 * U)
        low, high = low - slack, high + slack
        if self.limits is not None:
            low, high = np.fmax(low, found[2].low), np.fmin(high, found[2].high)
            loss, reach = np.maximum(loss, found[2].loss), np.maximum(reach, found[2].reach)
        return LinearImage(matrix, loss, low, high, reach)

    def support(self, t: Array, owner: Index | slice) -> Array:
        """The sum of both, or what the limits say."""
        first, second, third = self.parted(t)
        one, other = self.first.support(first, owner), self.second.support(second, owner)
        both = one + other + (np.abs(one) + np.abs(other)) * (2 * U)
        both = np.where(np.isnan(both), np.inf, both)
        return both if self.limits is None else np.fmin(both, self.limits.support(third, owner))

    def parted(self, t: Array) -> tuple[Array, Array, Array]:
        """Coefficients or places by the parts whose matrices stand side by side."""
        one, other = self._ends
        return t[:, :one], t[:, one:other], t[:, other:]

    def maximiser(self, t: Array, owner: Index | slice) -> Array:
        """Both together; nothing is left to the limits."""
        first, second, third = self.parted(t)
        parts = [self.first.maximiser(first, owner), self.second.maximiser(second, owner), np.zeros(third.shape)]
        return np.concatenate([np.broadcast_to(part, (len(t), part.shape[1])) for part in parts], axis=1)


def _zero_times(extent: Array, part: Array) -> Array:
    """``extent @ partᵀ`` with 0 · ∞ = 0."""
    if np.isfinite(extent).all():
        return np.asarray(extent @ part.T)
    finite = np.where(np.isinf(extent), 0.0, extent) @ part.T
    hits = np.isinf(extent).astype(np.float64) @ (part != 0).astype(np.float64).T
    return np.asarray(np.where(hits > 0, np.inf, finite))


def _rows(a: Array, owner: Index | slice) -> Array:
    return a if len(a) == 1 else a[owner]
