"""Exact extremes of tree ensembles over boxes of cells.

*Projection*: all trees are followed for a batch of boxes, level by level; an axis on which a box has one cell chooses a
child, another one splits the box. Trees that are left with one leaf are constants. *Grid*: the sums on all cells that
the remaining leaves tell apart, by adding each leaf at the corners of its box with alternating signs and summing
along every axis.

**Soundness.** Both are exact: every person of a box reaches, in every tree, the one leaf whose box holds their cells,
and sums are whole numbers, in which what wraps around on the way is gone at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import TINY, Array, U
from isonomy_verify.domain import Mask
from isonomy_verify.regions import Index
from isonomy_verify.tree_cells import Boxes, Cells

FAR = 2**61
"""Beyond every sum."""

SHORT = 64
"""Cells of an axis up to which adding whole slices is faster than running sums."""


class Pieces(NamedTuple):
    """What remains of trees over boxes: the constant part (rows, margins), and leaves of the trees that are left, their
    row, tree, first and last cell on the ``moving`` axes, and gain. Sorted by row and tree."""

    constant: Index
    moving: Index
    row: Index
    tree: Index
    low: Index
    high: Index
    gain: Index

    def of(self, row: int, ends: Index) -> Pieces:
        """Return those of one row, given where each row's begin."""
        part = slice(int(ends[row]), int(ends[row + 1]))
        each = (side[part] for side in self[2:])
        return Pieces(self.constant[row : row + 1], self.moving, *each)

    def some(self, which: Mask) -> Pieces:
        """Return some leaves, of all rows."""
        return Pieces(self.constant, self.moving, *(side[which] for side in self[2:]))


def project(cells: Cells, boxes: Boxes) -> Pieces:
    """Return the trees restricted to boxes."""
    rows, axes = boxes.low.shape
    moving = np.flatnonzero((boxes.low < boxes.high).any(0) & cells.tested) if axes else np.zeros(0, np.int64)
    low, high = boxes.low.ravel(), boxes.high.ravel()
    constant = np.tile(cells.base, (rows, 1))
    trees = len(cells.root)
    row, tree = np.repeat(np.arange(rows), trees), np.tile(np.arange(trees), rows)
    node, parts = np.tile(cells.root, rows), []
    while len(node):  # trees that were not split so far carry no box
        at = row * axes + cells.axis[node]
        rank, leaf = cells.rank[node], cells.leaf[node]
        lower = leaf if not axes else low[at] <= rank
        both = lower & (high[at] > rank) if axes else np.zeros(len(node), dtype=bool)
        child = np.where(lower, cells.left[node], cells.right[node])
        done = cells.leaf[child] & ~both
        if done.any():
            _add_rows(constant, row[done], cells.gain[child[done]])
        if both.any():
            parts.append((row[both], tree[both], node[both]))
        keep = ~(done | both)
        row, tree, node = row[keep], tree[keep], child[keep]
    if not parts:
        none = np.zeros((0, len(moving)), np.int64)
        return Pieces(constant, moving, row, row, none, none, np.zeros((0, len(cells.base)), np.int64))
    row, tree, node = (np.concatenate(each) for each in zip(*parts, strict=True))
    return _split(cells, boxes, constant, moving, (row, tree, node))


def _split(cells: Cells, boxes: Boxes, constant: Index, moving: Index, start: tuple[Index, Index, Index]) -> Pieces:
    """Follow trees with the boxes of their nodes on the moving axes."""
    row, tree, node = start
    place = np.full(len(cells.axes), -1)
    place[moving] = np.arange(len(moving))
    wide = len(moving)
    box = np.concatenate([boxes.low[:, moving], boxes.high[:, moving]], axis=1).astype(np.int32)[row]
    ended: list[tuple[NDArray[Any], ...]] = []
    while len(node):
        axis, rank = cells.axis[node], cells.rank[node]
        column, each = place[axis], np.arange(len(node))
        free = column >= 0
        first = np.where(free, box[each, np.maximum(column, 0)], boxes.low[row, axis])
        last = np.where(free, box[each, wide + np.maximum(column, 0)], first)
        a, b = np.flatnonzero(first <= rank), np.flatnonzero(last > rank)
        node = np.concatenate([cells.left[node[a]], cells.right[node[b]]])
        kept = np.concatenate([a, b])
        row, tree, box = row[kept], tree[kept], box.take(kept, axis=0)
        some = np.flatnonzero(free[a])
        box[some, wide + column[a[some]]] = np.minimum(last[a[some]], rank[a[some]])
        some = np.flatnonzero(free[b])
        box[len(a) + some, column[b[some]]] = np.maximum(first[b[some]], rank[b[some]] + 1)
        leaf = cells.leaf[node]
        if leaf.any():
            ended.append((row[leaf], tree[leaf], box[leaf], node[leaf]))
            rest = ~leaf
            row, tree, node, box = row[rest], tree[rest], node[rest], box[rest]
    row, tree, box, node = (np.concatenate(each) for each in zip(*ended, strict=True))
    order = np.argsort(row * len(cells.root) + tree, kind="stable")
    ends = box.take(order, axis=0).astype(np.int64)
    low, high = (np.ascontiguousarray(side) for side in (ends[:, :wide], ends[:, wide:]))
    return Pieces(constant, moving, row[order], tree[order], low, high, cells.gain[node[order]])


def _add_rows(total: Index, row: Index, gain: Index) -> None:
    """Add gains (n, margins) to the rows of a total; rows are sorted."""
    start = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    total[row[start]] += np.add.reduceat(gain, start, axis=0)


def sharing(low: Index, high: Index, columns: Index) -> tuple[Index, Index]:
    """Return all ordered pairs of leaves, boxes from ``low`` to ``high``, that meet in the ``columns``."""
    found, step = [], max(1, 2**24 // max(1, len(low)))
    for start in range(0, max(1, len(low)), step):
        some = slice(start, start + step)
        meets = np.ones((len(low[some]), len(low)), dtype=bool)
        for d in columns.tolist():
            meets &= (low[some, None, d] <= high[None, :, d]) & (low[None, :, d] <= high[some, None, d])
        i, j = np.nonzero(meets)
        found.append((i + start, j))
    first, second = (np.concatenate(each) for each in zip(*found, strict=True))
    return first, second


class Grid(NamedTuple):
    """Cells that leaves tell apart: for each leaf its first cell and the one behind its last, renumbered; for each row
    how many there are per axis; and per axis the first and last cell (rows, most) of each, the last one repeated."""

    low: Index
    stop: Index
    counts: Index
    first: list[Index]
    last: list[Index]


def compress(pieces: Pieces, low: Index, high: Index) -> Grid:
    """Return the grid of boxes (rows, moving axes)."""
    rows, axes = low.shape
    row, a, b = pieces.row, np.empty_like(pieces.low), np.empty_like(pieces.high)
    count, firsts, lasts = np.ones((rows, axes), dtype=np.int64), [], []
    for d in range(axes):
        wide = int((high[:, d] - low[:, d]).max(initial=0)) + 1
        mark = np.zeros((rows, wide), dtype=bool)
        mark[:, 0] = True
        begin = pieces.low[:, d] - low[row, d]
        mark[row, begin] = True
        number = np.cumsum(mark, 1) - 1
        count[:, d] = number[:, -1] + 1
        a[:, d], b[:, d] = number[row, begin], number[row, pieces.high[:, d] - low[row, d]] + 1
        most = int(count[:, d].max(initial=1))
        first = np.zeros((rows, most + 1), dtype=np.int64)
        r, c = np.nonzero(mark)
        first[r, number[r, c]] = c
        beyond = np.arange(most + 1) >= count[:, d][:, None]
        width = (high[:, d] - low[:, d])[:, None]
        last = np.where(beyond[:, 1:], width, first[:, 1:] - 1)
        padded = np.where(beyond, first[np.arange(rows), count[:, d] - 1][:, None], first)[:, :most]
        firsts.append(padded + low[:, d][:, None])
        lasts.append(last + low[:, d][:, None])
    return Grid(a, b, count, firsts, lasts)


def sums(rows: int, row: Index, low: Index, stop: Index, count: Index, gain: Index) -> Index:
    """Return the sums (rows, cells…) of one margin's gains over grids that are padded to one shape.

    A leaf that reaches a row's last cell reaches the padding, which repeats that cell: nothing need be masked.
    """
    axes = count.shape[1]
    shape = tuple(count.max(0).tolist())
    size = int(np.prod(shape, dtype=np.int64))
    at, sign, leaf, step = row * size, gain, np.arange(len(row)), size
    for d in range(axes):
        step //= shape[d]
        inside = np.flatnonzero(stop[leaf, d] < count[row[leaf], d])
        further = at[inside] + stop[leaf[inside], d] * step
        at = np.concatenate([at + low[leaf, d] * step, further])
        sign, leaf = np.concatenate([sign, -sign[inside]]), np.concatenate([leaf, leaf[inside]])
    total = np.zeros(rows * size, dtype=np.int64)
    np.add.at(total, at, sign)
    total = total.reshape((rows, *shape))
    for d in range(axes):
        if shape[d] > SHORT:
            np.cumsum(total, axis=1 + d, out=total)
            continue
        each = np.moveaxis(total, 1 + d, 0)
        for i in range(1, shape[d]):
            each[i] += each[i - 1]
    return total


def allowed_groups(mask: Mask, first: Index, last: Index) -> Mask:
    """Return which groups of cells (rows, groups) hold one that is allowed, of ``mask`` (rows, cells)."""
    before = np.concatenate([np.zeros((len(mask), 1), dtype=np.int64), np.cumsum(mask, 1)], axis=1)
    rows = np.arange(len(mask))[:, None]
    return np.asarray(before[rows, last + 1] > before[rows, first])


class Balls:
    """Balls ``‖R v + o‖_p ≤ ρ`` of moves ``v`` of numbers, one for each row, that hold some cells back.

    **Soundness.** Over a box of moves each entry of ``R v + o`` lies in an interval; the norm of what these leave of 0
    is at most the least norm in the box. What rounding can add, a bound over the largest box, is taken off. Where a row
    of ``R`` sees one coordinate only the norm is the least one itself.
    """

    def __init__(self, cells: Cells, root: Array, order: float, radius: Array, offset: Array, centre: Array) -> None:
        self.cells, self.root, self.order, self.radius, self.offset = cells, root, order, radius, offset
        self.centre = centre

    def of(self, rows: Index | slice) -> Balls:
        """Return those of some rows."""
        return Balls(self.cells, self.root, self.order, self.radius[rows], self.offset[rows], self.centre[rows])

    def within(self, low: Array, high: Array, moving: Index, groups: list[tuple[Array, Array]]) -> Mask:
        """Return which cells (rows, groups…) a ball may reach; the arguments are those of :meth:`norms`."""
        radius = self.radius.reshape((len(low),) + (1,) * len(groups))
        far = self.norms(low, high, moving, groups) > radius
        return np.asarray(~far | (radius > 2.0**400))  # squares beyond which say nothing

    @np.errstate(all="ignore")
    def norms(self, low: Array, high: Array, moving: Index, groups: list[tuple[Array, Array]]) -> Array:
        """Return at most the least ``‖R v + o‖`` (rows, groups…) of moves into each cell.

        ``low`` and ``high`` (rows, m) are the moves of everything; ``groups`` the moves (rows, groups) that lead into
        each group of cells of the moving axes.
        """
        rows, axes = len(low), len(groups)
        total: Array = np.zeros((rows,) + (1,) * axes)
        place = {self.cells.axes[k].start: d for d, k in enumerate(moving.tolist())}
        wide = np.maximum(np.abs(low), np.abs(high))
        for d, (first, last) in enumerate(groups):
            column = self.cells.axes[moving[d]].start
            wide[:, column] = np.maximum(np.abs(first), np.abs(last)).max(1)
        for weights, offset in zip(self.root, self.offset.T, strict=True):
            seen = np.flatnonzero(weights)
            least: Array = offset.reshape((rows,) + (1,) * axes)
            most = least
            size = np.abs(offset)
            for j in seen.tolist():
                size = size + np.abs(weights[j]) * wide[:, j]
                if j in place:
                    shape = [rows] + [1] * axes
                    shape[1 + place[j]] = -1
                    ends = [(weights[j] * end).reshape(shape) for end in groups[place[j]]]
                else:
                    ends = [(weights[j] * end[:, j]).reshape(least.shape[:1] + (1,) * axes) for end in (low, high)]
                least, most = least + np.minimum(*ends), most + np.maximum(*ends)
            doubt = (size * (U * 4 * (len(seen) + 4)) + TINY).reshape((rows,) + (1,) * axes)
            entry = np.maximum(np.maximum(least, -most) - doubt, 0.0)
            if self.order == np.inf:
                total = np.maximum(total, entry)
            else:
                total = total + (entry * entry if self.order == 2 else entry)
        norm = np.sqrt(total) if self.order == 2 else total
        return np.asarray(norm * (1 - U * 8 * (len(self.root) + 4)))
