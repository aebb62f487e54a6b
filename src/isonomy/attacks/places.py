"""Moves inside the regions of similar sets, and the individuals at their ends.

A region is ``{v : ‖o + R v‖_p ≤ ρ, low ≤ v ≤ high, each block of shares in its simplex}``. Three operations: a point
of it (its *anchor*), the maximizer of a linear function, and the projection of a move. All are approximate; the judge
checks what comes of them.

Moves ``v`` with ``R v = 0`` cost nothing and only the box limits them, however small the ball is. So every move is a
sum: coordinates that the metric ignores, other moves that cost nothing (:class:`Costless`), and the rest, which alone
must be projected into the ball.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.similarity.regions import Regions, Similarity
from isonomy_verify.arithmetic import U
from isonomy_verify.hints.splitting import into_ball
from isonomy_verify.sets import ConvexSets

FAR = 1e6
"""How far a search goes where nothing limits it."""

BALANCE = 30
"""Primal-dual steps for a linear function over a ball within a box."""

INSIDE = 1e-9
"""Share by which moves are shortened, away from the boundary of their region."""

SCALE = 0.1
"""Balls smaller than this share of their box count as this large in the primal-dual steps."""

ROUNDINGS = 256 * U
"""How much roundings of coordinates and of regions may add to a distance, relative to ``|R| |y|``."""


class Costless(NamedTuple):
    """The moves that a seminorm ignores: whole coordinates ``free`` (m,), exactly, and the projector ``null`` (m, m) on
    the other moves without length, 0 at free coordinates; None where there are none."""

    free: NDArray[np.bool_]
    null: FloatArray | None

    @classmethod
    def of(cls, sets: ConvexSets) -> Costless:
        """Return the moves without cost of a batch of sets, all of which share the root."""
        return _costless(sets.root.tobytes(), sets.root.shape, sets.blocks)

    def unpaid(self, moves: FloatArray) -> FloatArray:
        """Return the part (n, m) of moves, at other than free coordinates, that has no length."""
        return np.zeros(moves.shape) if self.null is None else np.asarray(moves @ self.null)

    @property
    def mixed(self) -> NDArray[np.bool_]:
        """Return the coordinates (m,) of moves without length that are not free by themselves."""
        return np.zeros(len(self.free), dtype=bool) if self.null is None else np.asarray(self.null.any(1))


@lru_cache(maxsize=16)
@np.errstate(all="ignore")
def _costless(root: bytes, shape: tuple[int, int], blocks: tuple[tuple[int, int], ...]) -> Costless:
    rows = np.frombuffer(root).reshape(shape)
    free: NDArray[np.bool_] = np.asarray(~rows.any(0))
    sums = np.zeros((len(blocks), shape[1]))
    for place, (start, stop) in enumerate(blocks):  # shares move together, so they are free together
        free[start:stop] = free[start:stop].all()
        sums[place, start:stop] = 1.0
    costly = np.flatnonzero(~free)
    if not len(costly):
        return Costless(free, None)
    paid = rows[:, costly] / max(float(np.abs(rows).max(initial=0.0)), 1e-300)
    _, values, across = np.linalg.svd(np.concatenate([paid, sums[:, costly]]))
    basis = across[int((values > 1e-10 * values.max(initial=0.0)).sum()) :]
    if not len(basis):
        return Costless(free, None)
    null = np.zeros((shape[1], shape[1]))
    null[np.ix_(costly, costly)] = basis.T @ basis
    return Costless(free, np.where(np.abs(null) > 1e-9, null, 0.0))


def find_anchors(sets: ConvexSets, rows: int) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return a move (rows, m) inside each region, its anchor, and for which regions (rows,) it is inside."""
    if sets.is_ball:
        return np.zeros((rows, sets.low.shape[1])), np.ones(rows, dtype=bool)
    low, high = (np.broadcast_to(side, (rows, side.shape[1])) for side in (sets.low, sets.high))
    if not len(sets.root):
        return _clip(0.0, low, high), np.ones(rows, dtype=bool)
    moves = _clip(-(sets.offset @ sets.inverse.T), low, high)
    outside = np.flatnonzero(_excess(sets, moves) > 0)
    if len(outside) and sets.order == 2:
        # The nearest point of the box to the ball's centre, by projected descent with momentum.
        offset = sets[outside].offset
        rate = 1.0 / max(float(np.linalg.norm(sets.root, 2)) ** 2, 1e-300)
        now = last = moves[outside]
        for step in range(4 * BALANCE):
            ahead = now + (now - last) * (step / (step + 3))
            gradient = (offset + ahead @ sets.root.T) @ sets.root
            last, now = now, _clip(ahead - rate * gradient, low[outside], high[outside])
        moves[outside] = now
    return moves, _excess(sets, moves) <= 0


def _clip(v: FloatArray | float, low: FloatArray, high: FloatArray) -> FloatArray:
    """Clip like ``np.clip``, without its overhead, which counts for small arrays."""
    return np.asarray(np.minimum(np.maximum(v, low), high))


def _excess(sets: ConvexSets, moves: FloatArray) -> FloatArray:
    """Return how far (n,) moves are outside the ball, negative inside."""
    return np.asarray(np.linalg.norm(sets.offset + moves @ sets.root.T, sets.order, axis=1) - sets.radius)


@np.errstate(all="ignore")  # what overflows is no witness
def project_to_region(sets: ConvexSets, anchors: FloatArray, moves: FloatArray) -> FloatArray:
    """Project moves (n, m) into their sets: box and simplices, then their costly part, towards the anchor, into the
    ball."""
    moves = _project_to_box(sets, moves, _Shares.of(sets))
    if not len(sets.root):
        return moves
    at, away = sets.offset + anchors @ sets.root.T, moves - anchors
    line, radius = away @ sets.root.T, sets.radius * (1 - INSIDE)
    if sets.order == 2:
        along, length = np.vecdot(at, line), np.maximum(np.vecdot(line, line), 1e-300)
        slack = np.maximum(radius * radius - np.vecdot(at, at), 0.0)
        share = (np.sqrt(along * along + length * slack) - along) / length
    elif not at.any():
        share = radius / np.maximum(np.linalg.norm(line, sets.order, axis=1), 1e-300)
    else:
        share, step = np.ones(len(moves)), 1.0
        for _ in range(40):
            step /= 2
            outside = np.linalg.norm(at + share[:, None] * line, sets.order, axis=1) > radius
            share = np.where(outside, share - step, np.minimum(share + step, 1.0))
    share = np.minimum(np.maximum(share, 0.0), 1.0)[:, None]
    costless = Costless.of(sets)
    projected = anchors + share * away
    if costless.null is not None:
        projected = projected + _part_inside_box(projected, (1.0 - share) * costless.unpaid(away), sets)
    return np.where(costless.free, moves, projected) if costless.free.any() else projected


def _part_inside_box(point: FloatArray, more: FloatArray, sets: ConvexSets) -> FloatArray:
    """Return the largest multiple, up to 1, of ``more`` (n, m) that stays in the box from ``point`` (n, m)."""
    ends = np.where(more > 0, sets.high - point, np.where(more < 0, sets.low - point, 0.0))
    share = np.where(more == 0, 1.0, ends / np.where(more == 0, 1.0, more)).min(1, initial=1.0)
    return np.asarray(np.maximum(share, 0.0)[:, None] * more)


class _Shares(NamedTuple):
    """Blocks of shares side by side, shorter ones filled up: their columns (blocks, widest), which of them are real,
    and the present, least and most shares (rows, blocks, widest)."""

    column: NDArray[np.int64]
    real: NDArray[np.bool_]
    base: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, sets: ConvexSets) -> _Shares | None:
        if not sets.blocks:
            return None
        column, real = _table(sets.blocks)
        base = np.where(real, sets.base[:, column], 0.0)
        low = np.where(real, np.maximum(base + sets.low[:, column], 0.0), 0.0)
        return cls(column, real, base, low, np.where(real, np.minimum(base + sets.high[:, column], 1.0), 0.0))


@lru_cache(maxsize=64)
def _table(blocks: tuple[tuple[int, int], ...]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the columns of blocks (blocks, widest), shorter ones filled up, and which of them are real."""
    first, size = (np.array(side)[:, None] for side in zip(*((a, b - a) for a, b in blocks), strict=True))
    place = np.arange(size.max())
    return first + np.minimum(place, size - 1), place < size


def _project_to_box(sets: ConvexSets, moves: FloatArray, shares: _Shares | None) -> FloatArray:
    """Return the nearest moves (n, m) in box and simplices."""
    if shares is not None:
        column, real, base, low, high = shares
        moves = np.array(moves)
        moves[:, column[real]] = (_project_to_simplex(base + moves[:, column], low, high, real) - base)[:, real]
    return _clip(moves, sets.low, sets.high)


def _project_to_simplex(rows: FloatArray, low: FloatArray, high: FloatArray, real: NDArray[np.bool_]) -> FloatArray:
    """Return the nearest shares between ``low`` and ``high`` that add up to 1 along the last axis, where ``real``: all
    lowered by the same number, then clipped.

    The sum is decreasing and piecewise linear in that number. Between 0 and 1 the piece comes from sorting, otherwise
    about from bisection; within it the number is exact.
    """
    if not low.any() and (high == real).all():
        ordered = -np.sort(np.where(real, -rows, np.inf), axis=-1)
        cuts = (np.cumsum(ordered, -1) - 1.0) / np.arange(1, rows.shape[-1] + 1)
        return np.asarray(np.maximum(rows - cuts.max(-1, keepdims=True), 0.0))
    first, last = (rows - high).min(-1, keepdims=True), (rows - low).max(-1, keepdims=True)
    for _ in range(24):
        middle = 0.5 * (first + last)
        much = _clip(rows - middle, low, high).sum(-1, keepdims=True) > 1.0
        first, last = np.where(much, middle, first), np.where(much, last, middle)
    shares = _clip(rows - 0.5 * (first + last), low, high)
    free = (shares > low) & (shares < high)
    rest = (1.0 - shares.sum(-1, keepdims=True)) / np.maximum(free.sum(-1, keepdims=True), 1)
    return _clip(shares + np.where(free, rest, 0.0), low, high)


def linear_maximizer(sets: ConvexSets, gradient: FloatArray) -> FloatArray:
    """Return the moves (n, m) at which a linear function is largest: over the ball alone if that is in the box, over
    box and simplices where there is no ball, and else about over both."""
    if not len(sets.root):
        return _box_maximizer(sets, gradient)
    free = Costless.of(sets).free
    paid = np.where(free, 0.0, gradient)
    coefficients = paid @ sets.inverse
    moves = ball_maximizer(sets, coefficients)
    if sets.clipped:
        rows = np.flatnonzero(_leaves_box(sets, paid, coefficients, moves))
        if len(rows):
            moves[rows] = _ball_in_box_maximizer(sets[rows], paid[rows], moves[rows])
    return np.where(free, _box_maximizer(sets, gradient), moves) if free.any() else moves


def ball_maximizer(sets: ConvexSets, coefficients: FloatArray) -> FloatArray:
    """Return the moves (n, m) at which a linear function of ``R v + o`` is largest over the ball."""
    point = sets.radius[:, None] * _unit_ball_maximizer(coefficients, sets.order)
    return np.asarray((point - sets.offset if sets.offset.any() else point) @ sets.inverse.T)


def _leaves_box(
    sets: ConvexSets, gradient: FloatArray, coefficients: FloatArray, moves: FloatArray
) -> NDArray[np.bool_]:
    """Return where the ball's maximizer is outside the box, or there are directions that only the box limits."""
    tolerance = 1e-9 * sets.extent
    outside = ((moves < sets.low - tolerance) | (moves > sets.high + tolerance)).any(1)
    fixed = (sets.low == 0) & (sets.high == 0)
    residual = np.where(fixed, 0.0, gradient - coefficients @ sets.root)
    outside |= np.abs(residual).max(1) > 1e-6 * np.abs(gradient).max(1)
    for start, stop in sets.blocks:  # shares that no longer add up
        outside |= np.abs(moves[:, start:stop].sum(1)) > 1e-9
    return np.asarray(outside)


def _unit_ball_maximizer(coefficients: FloatArray, order: float) -> FloatArray:
    """Return the points (n, k) at which linear functions are largest on the unit ball of a norm."""
    if order == math.inf:
        return np.sign(coefficients)
    if order == 2:
        return np.asarray(coefficients / np.maximum(np.sqrt(np.vecdot(coefficients, coefficients)), 1e-300)[:, None])
    top, rows = np.abs(coefficients).argmax(1), np.arange(len(coefficients))
    vertex = np.zeros(coefficients.shape)
    vertex[rows, top] = np.sign(coefficients[rows, top])
    return vertex


def _box_maximizer(sets: ConvexSets, gradient: FloatArray) -> FloatArray:
    """Return the moves (n, m) at which a linear function is largest over box and simplices, near 0 where it is flat."""
    low, high = np.maximum(sets.low, -FAR), np.minimum(sets.high, FAR)
    corner = np.where(gradient > 0, high, np.where(gradient < 0, low, _clip(0.0, low, high)))
    blocks = _Shares.of(sets)
    if blocks is not None:  # shares go to the categories in the order of their weights
        column, real, base, least, most = blocks
        slope = np.where(real, gradient[:, column], -np.inf)
        order = np.argsort(-slope, axis=-1, kind="stable")
        shares = np.array(np.broadcast_to(least, slope.shape))
        width = np.take_along_axis(np.broadcast_to(most - least, slope.shape), order, -1)
        given = _clip(1.0 - least.sum(-1, keepdims=True) - (np.cumsum(width, -1) - width), np.zeros(1), width)
        np.put_along_axis(shares, order, np.take_along_axis(shares, order, -1) + given, -1)
        corner[:, column[real]] = (shares - base)[:, real]
    return corner


def _ball_in_box_maximizer(sets: ConvexSets, gradient: FloatArray, moves: FloatArray) -> FloatArray:
    """Return the moves (n, m) at which a linear function is about largest over a ball within a box: Chambolle and
    Pock's steps between a move and the multiplier of the ball, in units in which both are about 1."""
    extent, reach = sets.extent.max(0), np.linalg.norm(sets.inverse, axis=1) * sets.radius.max()
    held = sets.root.any(0) & ~Costless.of(sets).mixed
    unit = np.minimum(np.minimum(extent, FAR), np.where(held, np.maximum(reach, 1e-12), np.inf))
    for start, stop in sets.blocks:  # one unit for all shares, so that the nearest ones stay the nearest
        unit[start:stop] = np.where(unit[start:stop] > 0, unit[start:stop].max(), 0.0)
    columns = np.flatnonzero(unit > 0)
    if not len(columns):
        return _clip(moves, sets.low, sets.high)
    unit = unit[columns]
    root = sets.root[:, columns] * unit
    scale = max(float(sets.radius.max()), SCALE * float(np.linalg.norm(root, 2)), 1e-300)
    root = root / scale
    rate = 1.0 / max(float(np.linalg.norm(root, 2)), 1e-3)
    offset, radius = sets.offset / scale, sets.radius / scale
    weight = gradient[:, columns] * unit
    weight = weight * (rate / np.maximum(np.linalg.norm(weight, axis=1, keepdims=True), 1e-300))
    low, high = sets.low[:, columns] / unit, sets.high[:, columns] / unit
    every, shares = np.zeros(moves.shape), _Shares.of(sets)

    def allowed(point: FloatArray) -> FloatArray:
        if shares is not None:
            every[:, columns] = point * unit
            point = _project_to_box(sets, every, shares)[:, columns] / unit
        return _clip(point, low, high)

    now = ahead = allowed(moves[:, columns] / unit)
    price = np.zeros((len(now), len(root)))  # divided by the rate
    for _ in range(BALANCE):
        price = price + ahead @ root.T + offset
        price = price - into_ball(price, sets.order, radius)
        before, now = now, allowed(now + weight - (rate * rate) * (price @ root))
        ahead = 2 * now - before
    every[:, columns] = now * unit
    return every


def as_individuals(
    similarity: Similarity, regions: Regions, anchors: FloatArray, moves: FloatArray
) -> list[FloatArray]:
    """Return moves (n, m) from the centres of regions as individuals: slightly inside, and on the lattice where numbers
    are whole."""
    domain, near = similarity.domain, regions.centre + anchors
    y = near + _shrink_by_rounding(regions, similarity.delta, anchors, moves)
    if domain.kind == "unbounded":
        return [y]
    y = _clip(y, domain.low, domain.high)
    if domain.kind != "realizable" or not domain.integer.any():
        return [domain.filled(y)]
    # The nearest whole numbers may lie outside; those on the way to the anchor rarely do.
    origin, unit = domain.origin[domain.integer], domain.unit[domain.integer]
    whole, start = y[:, domain.integer] * unit + origin, near[:, domain.integer] * unit + origin
    inward = y.copy()
    inward[:, domain.integer] = (np.where(whole > start, np.floor(whole + 1e-9), np.ceil(whole - 1e-9)) - origin) / unit
    return [domain.filled(domain.snap(point)) for point in (y, inward, near + 0.5 * (y - near))]


@np.errstate(all="ignore")
def _shrink_by_rounding(regions: Regions, delta: float, anchors: FloatArray, moves: FloatArray) -> FloatArray:
    """Return moves (n, m) from the anchors, shortened so that neither roundings nor the widening of a radius lead out
    of their sets; where balls are smaller than that only free coordinates move."""
    sets, away = regions.sets, (1 - INSIDE) * (moves - anchors)
    size = ROUNDINGS * (np.abs(regions.centre) + np.abs(moves))
    if not len(sets.root):
        return np.copysign(np.maximum(np.abs(away) - size, 0.0), away)
    radius = np.minimum(sets.radius, delta) - np.linalg.norm(size @ np.abs(sets.root).T, axis=1)
    share = (radius / np.maximum(sets.radius, 1e-300))[:, None]
    rows = np.flatnonzero(share < 1 - INSIDE)
    if len(rows):
        costless, share, moved = Costless.of(sets), share[rows], away[rows]
        unpaid = costless.unpaid(moved)
        paid = np.where(share > 0, unpaid + share * (moved - unpaid), 0.0)
        away[rows] = np.where(costless.free, moved, paid)
    return away
