"""How far can protected features move a margin of trees, anywhere in the domain?

Problem: the greatest ``F(x, a) − F(x, b)`` over all other features ``x`` and all values ``a`` and ``b`` of the
protected ones. In the difference of two runs trees that test nothing protected cancel. Of each other tree the pairs of
leaves that share the features ``x`` are the pieces, boxes in the cells of ``(x, a, b)``, which
:mod:`isonomy_verify.tree_search` adds up.

A hint says how boxes are cut and gives ``h`` of the whole domain; both come from outside.

**Soundness.** ``h`` must add to zero over the trees on every cell, exactly, or it is refused; halves cover the box that
is cut. The greatest bound of all boxes that are not cut holds everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.regions import Index
from isonomy_verify.tree_boxes import project, sharing
from isonomy_verify.tree_cells import Boxes, Cells
from isonomy_verify.tree_search import HELD, LIMIT, Fields, Part, everything, grid_of
from isonomy_verify.trees import TreeError

ENDS = 2**25
"""First cells that all pairs of leaves hold together: some 40 bytes each while a box is bounded, in all a gibibyte and
a quarter. Of further trees each is one piece of the greatest difference of its pairs."""

CUTS = 2**17
"""The most cuts of a hint."""

SMALL_GRID = 2**14
"""Cells of a box up to which it is summed up on a grid."""

SWEEPS = 6
"""Steps of diffusion in every box that a cut makes."""


class Pairs(NamedTuple):
    """Pairs of leaves, sorted by tree: between which cells (n, columns) two people reach them, and both values; the box
    of all cells, which axis each of its columns is (the last ones are the protected axes a second time), how many these
    are, and what all people get besides."""

    tree: Index
    low: Index
    high: Index
    first: Index
    second: Index
    start: Index
    end: Index
    axes: Index
    protected: int
    rest: int


class Gap(NamedTuple):
    """Pairs of leaves as pieces, the box of all cells, and which axis each of its columns is; the last ones are the
    protected axes a second time."""

    fields: Fields
    low: Index
    high: Index
    axes: Index
    protected: int


class Hint(NamedTuple):
    """How boxes are cut: (cuts, 4) the box that a half is of, column, last cell of the lower half, whether this is the
    upper one; half ``i`` is box ``i + 1``, and both halves of a box follow each other. And ``h`` of box 0: for a column
    the trees, the first cells, and whole numbers (trees, cells). ``goals``: sums that are attained, at first and in the
    end, which say when diffusion has done enough."""

    cuts: Index
    h: dict[int, tuple[Index, Index, Index]]
    goals: tuple[int, int]


def whole_domain(cells: Cells) -> Boxes:
    """Return the box of cells of everybody possible."""
    domain = cells.domain
    first, last = np.zeros((1, len(cells.axes)), dtype=np.int64), (cells.counts - 1)[None]
    for k, axis in enumerate(cells.axes):
        if axis.flag >= 0 and domain.high[axis.flag] < 1:
            last[0, k] = axis.numbers - 1
        if axis.flag >= 0 and domain.low[axis.flag] > 0:
            first[0, k] = axis.cells - 1
    none = np.zeros((1, len(cells.axes)))
    return Boxes(np.zeros(1, dtype=np.int64), first, last, {}, none, none)


def pairs_of(cells: Cells, protected: list[int], margin: int, every: bool = False) -> Pairs:
    """Return the pairs of leaves that two people reach who share all but the ``protected`` axes; without ``every`` tree
    those of trees that test one of these."""
    box = whole_domain(cells)
    pieces = project(cells, box)
    moving = pieces.moving
    shared = np.array([k not in protected for k in moving.tolist()], dtype=bool)
    own = np.flatnonzero(~shared)
    low, high = box.low[0, moving], box.high[0, moving]
    tests = ((pieces.low[:, own] > low[own]) | (pieces.high[:, own] < high[own])).any(1)
    both = np.append(low, low[own]), np.append(high, high[own])
    parts: list[tuple[Index, ...]] = []
    left, testing = ENDS // max(1, len(both[0])), set(pieces.tree[tests].tolist())
    for tree in np.unique(pieces.tree if every else pieces.tree[tests]).tolist():
        rows = slice(*np.searchsorted(pieces.tree, [tree, tree + 1]).tolist())
        first, last, value = pieces.low[rows], pieces.high[rows], pieces.gain[rows, margin]
        i = j = np.arange(len(value))
        if tree in testing:
            i, j = sharing(first, last, np.flatnonzero(shared & ((first > low) | (last < high)).any(0)))
        if len(i) > left:  # one piece, of the greatest difference that is asked about
            most = [value[i].max(), value[j].min()] if every else [(value[i] - value[j]).max(), 0]
            parts.append((np.array([tree]), *(end[None] for end in both), *(np.array([end]) for end in most)))
            continue
        left -= len(i)
        meet, ends = (np.maximum(first[i], first[j]), np.minimum(last[i], last[j])), []
        for side, own_ends in zip(meet, (first, last), strict=True):
            side[:, own] = own_ends[i][:, own]
            ends.append(np.concatenate([side, own_ends[j][:, own]], axis=1))
        parts.append((np.full(len(i), tree), *ends, value[i], value[j]))
    flat, wide = np.zeros(0, dtype=np.int64), np.zeros((0, len(both[0])), dtype=np.int64)
    columns = zip(*(parts or [(flat, wide, wide, flat, flat)]), strict=True)
    tree, start, end, one, two = (np.concatenate(each) for each in columns)
    lows: Any = start.astype(np.int32)
    highs: Any = end.astype(np.int32)
    rest = int(pieces.constant[0, margin])
    return Pairs(tree, lows, highs, one, two, *both, np.append(moving, moving[own]), len(own), rest)


def gap_of(cells: Cells, protected: list[int], margin: int) -> Gap:
    """Return the pieces of the difference of two runs that share all but the ``protected`` axes."""
    pairs = pairs_of(cells, protected, margin)
    fields = Fields(pairs.tree, pairs.low, pairs.high, pairs.first - pairs.second)
    return Gap(fields, *pairs[5:9])


def bound(gap: Gap, hint: Hint) -> int:
    """Return an upper bound of the gap, in whole numbers, from a hint.

    Every box that is cut is bounded with ``h``, of its own or its parent's after :data:`SWEEPS` steps of diffusion;
    those that are not cut count.
    """
    if not len(gap.fields.value):
        return 0
    _check(gap, hint)
    boxes: dict[int, tuple[Part, int]] = {}
    held = 0
    root = Part(gap.fields, gap.low, gap.high, hint.h)
    boxes[0] = root, root.bound()
    cut_boxes = set(hint.cuts[:, 0].tolist())
    if 0 not in cut_boxes:
        return _whole(root, boxes[0][1])
    root.shed()
    worst = -(2**62)
    for name, (parent, axis, cell, side) in enumerate(hint.cuts.tolist(), start=1):
        part = boxes[parent][0].half(axis, cell, bool(side))
        value = min(boxes[parent][1], part.diffuse(SWEEPS, hint.goals[1], hint.goals[0]))
        if name in cut_boxes:
            part.shed()
            held += part.held
            boxes[name] = part, value
            if held > 8 * HELD:
                raise TreeError("A hint keeps too many boxes waiting.")
        else:
            worst = max(worst, _whole(part, value))
        if side:  # both halves are done
            held -= boxes.pop(parent)[0].held if parent else 0
    return worst


def _whole(part: Part, value: int) -> int:
    """Return the bound of a box that is not cut: the exact one of its grid where that is small."""
    return min(value, grid_of(part, everything)[0]) if part.cells <= SMALL_GRID else value


def _check(gap: Gap, hint: Hint) -> None:
    """Refuse a hint whose ``h`` does not add to zero, or whose halves cover no box."""
    size = 0.0
    for column, (trees, first, h) in hint.h.items():
        if not 0 <= column < len(gap.low) or h.shape != (len(trees), len(first)) or h.dtype != np.int64:
            raise TreeError("The numbers of a hint must be whole, one for each tree and cell of an axis.")
        if (np.diff(trees) <= 0).any() or (np.diff(first) <= 0).any() or not len(first) or first[0] > gap.low[column]:
            raise TreeError("The trees and cells of a hint must ascend, and begin at the first cell.")
        if len(trees) and not np.isin(trees, gap.fields.tree).all():
            raise TreeError("A hint has numbers for a tree that is not there.")
        size += float(np.abs(h.astype(np.float64)).max(1, initial=0.0).sum())
        if not size < LIMIT - 2.0**60 or h.sum(0).any():
            raise TreeError("The numbers of a hint must add to zero on every cell, and be of moderate size.")
    check_cuts(hint.cuts, gap.low, gap.high)


def check_cuts(cuts: Index, low: Index, high: Index) -> None:
    """Refuse cuts whose halves cover no box."""
    if cuts.ndim != 2 or cuts.shape[1] != 4 or len(cuts) % 2 or len(cuts) > CUTS:
        raise TreeError(f"The cuts of a hint are at most {CUTS} pairs of halves of four numbers.")
    boxes = {0: (low, high)}
    for at in range(0, len(cuts), 2):
        (parent, axis, cell, side), other = cuts[at].tolist(), cuts[at + 1].tolist()
        if other != [parent, axis, cell, 1] or side != 0 or parent not in boxes or not 0 <= axis < len(low):
            raise TreeError(f"Cuts {at} and {at + 1} of a hint are no two halves of a box.")
        low, high = boxes.pop(parent)
        if not low[axis] <= cell < high[axis]:
            raise TreeError(f"Cut {at} of a hint leaves nothing on one side.")
        for k, name in ((0, at + 1), (1, at + 2)):
            ends = low.copy(), high.copy()
            ends[1 - k][axis] = cell + k
            boxes[name] = ends


def real_gap(cells: Cells, whole: int, error: Array, margin: int) -> float:
    """Return a float above a gap in whole numbers, and what rounding two runs' leaves may add."""
    return float(cells.sums.real(np.array([[whole]]), np.array([[whole]]), 2 * error[margin : margin + 1])[1][0, 0])
