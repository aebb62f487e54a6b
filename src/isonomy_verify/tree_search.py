"""The greatest sum of pieces, one of each tree, that have a cell in common: branch and bound.

A tree is a partition of a box into pieces, boxes with a value each. For any numbers ``h_t(k, c)``, one for each tree,
axis and cell, with ``Σ_t h_t(k, c) = 0`` for every axis and cell,

    max over cells of Σ_t v_t  ≤  Σ_t max over pieces p of t of ( v_p + Σ_k max over c in p_k of h_t(k, c) ).

``h = 0`` is the plain bound. Max-sum diffusion makes the trees' best values on every cell of an axis equal, axis after
axis, which never raises the right side. Boxes are cut by what ``h = 0`` says: with ``h`` all cuts look alike.

**Soundness.** The inequality holds for every ``h`` that adds to zero, and this one does by construction, in whole
numbers: after each step one tree takes what the others leave. Nothing wraps around: a step is undone if the sum of all
sizes comes near the largest number. Parts, not time, are counted, so that every machine finds the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from isonomy_verify.domain import Mask
from isonomy_verify.regions import Index
from isonomy_verify.tree_boxes import FAR, Pieces, compress, sums

LIMIT = 2.0**61
"""Sizes of all values together that may be added up."""

HELD = 2**27
"""Numbers that parts may hold while their halves wait, a gibibyte: then the search ends, with the bound it has."""

OFTEN, SELDOM = 30, 10
"""Parts in which a cell is looked for that attains more: the first, and later one of this many."""

Kept = Callable[[list[Index], list[Index]], "Mask | None"]
"""Which groups of cells, given by their first and last one on each axis, count at all."""


class Fields(NamedTuple):
    """Pieces of trees, sorted by tree: the first and last cell (n, axes) of each, and its value."""

    tree: Index
    low: Index
    high: Index
    value: Index

    def of(self, rows: Index | Mask) -> Fields:
        """Return some of them."""
        return Fields(self.tree[rows], self.low[rows], self.high[rows], self.value[rows])


class Found(NamedTuple):
    """A bound of the greatest sum, the greatest that was seen (−FAR: none), between which cells, the parts needed, and
    how boxes were cut: the box that a half is of (0: all), axis, last cell of the lower half, whether this is the upper
    one; half ``i`` is box ``i + 1``. ``root`` is the whole box, ``aim`` what was attained before it was cut."""

    upper: int
    lower: int
    first: Index
    last: Index
    parts: int
    cuts: list[tuple[int, int, int, bool]]
    root: Part
    aim: int


class Part:
    """A box with the pieces that meet it, cells renumbered to those that pieces tell apart; ``h`` for each axis."""

    def __init__(
        self,
        source: Fields,
        low: Index,
        high: Index,
        h: dict[int, tuple[Index, Index, Index]],
        rows: Index | None = None,
    ) -> None:
        """``h``: of an axis the trees that look along it, first cells in the numbers of ``low``, and values; ``rows``:
        which pieces of the ``source`` meet the box, by default all, which lie in it."""
        self.box = low, high
        self.waiting = 0  # halves that are still to be made
        self.source, self.rows = source, np.arange(len(source.tree), dtype=np.int32) if rows is None else rows
        self.fields = fields = source if rows is None else source.of(rows)
        if rows is not None:
            ends = low.astype(fields.low.dtype), high.astype(fields.low.dtype)
            clipped = np.maximum(fields.low, ends[0]), np.minimum(fields.high, ends[1])
            self.fields = fields._replace(low=clipped[0], high=clipped[1])
        tree = fields.tree
        self.begin = np.flatnonzero(np.append(True, tree[1:] != tree[:-1]))
        self.trees = tree[self.begin]
        self.index = np.repeat(np.arange(len(self.begin)), np.diff(np.append(self.begin, len(tree))))
        self.lines: list[Line] = []
        self.worth = fields.value.copy()
        for k in range(len(low)):
            marks = np.zeros(int(high[k] - low[k]) + 1, dtype=bool)
            marks[0] = True
            marks[self.fields.low[:, k] - low[k]] = True
            first = low[k] + np.flatnonzero(marks)
            if len(first) > 1:
                number = np.cumsum(marks) - 1
                ends = number[self.fields.low[:, k] - low[k]], number[self.fields.high[:, k] - low[k]]
                line = Line(self, k, first, ends, h.get(k))
                self.lines.append(line)
                self.worth[line.rows] += line.reach
        self.sizes = np.zeros(len(low))
        for line in self.lines:
            self.sizes[line.axis] = line.size

    @property
    def known(self) -> dict[int, tuple[Index, Index, Index]]:
        """Return ``h`` of every axis: the trees that look along it, first cells, and values."""
        return {line.axis: (self.trees[line.trees], line.first, line.h) for line in self.lines}

    @property
    def cells(self) -> float:
        """Return the number of cells."""
        return float(np.prod([float(len(line.first)) for line in self.lines]))

    @property
    def held(self) -> int:
        """Return how many numbers wait with a part that was shed."""
        return len(self.rows) // 2 + sum(line.h.size for line in self.lines)

    def bound(self) -> int:
        """Return the bound with the present ``h``."""
        return int(np.maximum.reduceat(self.worth, self.begin).sum()) if len(self.worth) else 0

    def diffuse(self, sweeps: int, goal: int, start: int) -> int:
        """Return a bound after some steps along every axis, or fewer once it is not above the goal or settles.

        ``start``: a sum that is attained, beside which steps are small or not.
        """
        best = self.bound()
        for _ in range(sweeps):
            for line in self.lines:
                line.step(self)
            now = self.bound()
            if now <= goal or best - now < 0.002 * abs(best - start):
                return min(now, best)
            best = now
        return best

    def point(self) -> Index:
        """Return the cell that looks best along each axis."""
        at = self.box[0].copy()
        for line in self.lines:
            at[line.axis] = line.first[int(np.argmax(line.total))]
        return at

    def cut(self) -> tuple[int, int]:
        """Return the axis, and the last cell of the lower half, whose halves lose most of the plain bound."""
        best, axis, cell = -1.0, 0, 0
        for line in self.lines:
            left, right = line.losses(self)
            score = 4.0 * np.minimum(left, right) + np.maximum(left, right)
            at = int(np.argmax(score))
            if score[at] > best:
                best, axis, cell = float(score[at]), line.axis, int(line.first[at + 1]) - 1
        return axis, cell

    def shed(self) -> None:
        """Forget all that halves do not need: many parts wait for theirs."""
        self.worth, self.index, self.fields = self.worth[:0].copy(), self.index[:0].copy(), self.source
        for line in self.lines:
            for name in ("rows", "row", "low", "high", "one", "two", "reach", "total"):
                setattr(line, name, line.first[:0].copy())

    def half(self, axis: int, cell: int, upper: bool, other: Fields | None = None) -> Part:
        """Return the part above or up to a cell; with ``other`` values of the same pieces it begins with no ``h``."""
        low, high = self.box[0].copy(), self.box[1].copy()
        if upper:
            low[axis] = cell + 1
        else:
            high[axis] = cell
        source, rows = self.source, self.rows
        meets = (source.high[rows, axis] >= low[axis]) & (source.low[rows, axis] <= high[axis])
        known = self.known if other is None else {}
        return Part(source if other is None else other, low, high, known, rows[meets])


class Line:
    """An axis of a part: its cells by their ``first`` one, the trees that look along it, and their ``h``."""

    def __init__(
        self,
        part: Part,
        axis: int,
        first: Index,
        ends: tuple[Index, Index],
        known: tuple[Index, Index, Index] | None,
    ) -> None:
        """``ends``: the first and last of these cells of each piece."""
        self.axis, self.first = axis, first
        a, b = ends
        looks = np.maximum.reduceat((a > 0) | (b < len(first) - 1), part.begin)
        self.trees = np.flatnonzero(looks)
        place = np.full(len(part.begin), -1)
        place[self.trees] = np.arange(len(self.trees))
        rows = np.flatnonzero(looks[part.index])
        sides = rows, place[part.index[rows]], a[rows], b[rows]
        self.rows, self.row, self.low, self.high = (side.astype(np.int32) for side in sides)
        shape = len(self.trees), len(first)
        self.h = np.zeros(shape, dtype=np.int64)
        if known is not None:
            names, cells, h = known
            mine = part.trees[self.trees]
            at = np.minimum(np.searchsorted(mine, names), len(mine) - 1)
            same = mine[at] == names
            self.h[at[same]] = h[same][:, np.searchsorted(cells, first, side="right") - 1]
            self.h[0] -= self.h.sum(0)
        # Range maxima by a table of powers of two: cells a to b are two runs of 2^j.
        power = np.frexp((self.high - self.low + 1).astype(np.float64))[1] - 1
        self.levels = int(power.max(initial=0)) + 1
        start = (power.astype(np.int64) * shape[0] + self.row) * shape[1]
        kind: Any = np.int32 if self.levels * self.h.size < 2**31 else np.int64
        self.one = (start + self.low).astype(kind)
        self.two = (start + self.high - (1 << power) + 1).astype(kind)
        self.total = np.zeros(len(first), dtype=np.int64)
        self.size = self._size()
        self.reach = self._reach()

    def _size(self) -> float:
        return float(np.abs(self.h).max(1).astype(np.float64).sum())

    def _reach(self) -> Index:
        """Return the greatest ``h`` over the cells of each piece."""
        table = np.empty((self.levels, *self.h.shape), dtype=np.int64)
        table[0] = self.h
        for j in range(1, self.levels):
            s = 1 << (j - 1)
            table[j] = table[j - 1]
            np.maximum(table[j - 1][:, :-s], table[j - 1][:, s:], out=table[j][:, :-s])
        flat = table.ravel()
        return np.asarray(np.maximum(flat[self.one], flat[self.two]))

    def step(self, part: Part) -> None:
        """Make the trees' best values on each cell equal; their sum stays."""
        worth = part.worth[self.rows] - self.reach
        table = np.full((self.levels, *self.h.shape), -FAR, dtype=np.int64)
        flat = table.ravel()
        np.maximum.at(flat, self.one, worth)
        np.maximum.at(flat, self.two, worth)
        for j in range(self.levels - 1, 0, -1):
            s = 1 << (j - 1)
            np.maximum(table[j - 1], table[j], out=table[j - 1])
            np.maximum(table[j - 1][:, s:], table[j][:, :-s], out=table[j - 1][:, s:])
        best = table[0] + self.h
        total = best.sum(0)
        mean = total // len(self.trees)
        old, self.h = self.h, self.h + mean - best
        self.h[0] += total - mean * len(self.trees)
        self.size = self._size()
        part.sizes[self.axis] = self.size
        if part.sizes.sum() > LIMIT - 2.0**59:
            self.h, self.size = old, 0.0
            part.sizes[self.axis] = self.size = self._size()
        self.reach, self.total = self._reach(), total
        part.worth[self.rows] = worth + self.reach

    def losses(self, part: Part) -> tuple[np.ndarray, np.ndarray]:
        """Return what the plain bound loses on both sides of every cut."""
        value, shape = part.fields.value[self.rows], self.h.shape
        left, right = np.full(shape, -FAR), np.full(shape, -FAR)
        np.maximum.at(left, (self.row, self.low), value)
        np.maximum.at(right, (self.row, self.high), value)
        left = np.maximum.accumulate(left, 1)
        right = np.maximum.accumulate(right[:, ::-1], 1)[:, ::-1]
        top = int(left[:, -1].sum())
        return (top - left[:, :-1].sum(0)).astype(np.float64), (top - right[:, 1:].sum(0)).astype(np.float64)


def ascend(fields: Fields, low: Index, high: Index, at: Index, rounds: int = 12) -> tuple[int, Index]:
    """Return the sum at a cell that no move along one axis betters, starting at ``at``; a hint where to look."""
    at = np.minimum(np.maximum(at, low), high)
    best = -FAR
    for _ in range(rounds):
        out = (at < fields.low) | (at > fields.high)
        count = out.sum(1)
        near = np.flatnonzero(count <= 1)
        inside = count[near] == 0
        best, step = int(fields.value[near[inside]].sum()), None
        for k in np.flatnonzero(low < high).tolist():
            rows = near[inside | out[near, k]]
            a, b = fields.low[rows, k], fields.high[rows, k]
            line = np.zeros(int(high[k] - low[k]) + 2, dtype=np.int64)
            np.add.at(line, np.maximum(a, low[k]) - low[k], fields.value[rows])
            np.add.at(line, np.minimum(b, high[k]) - low[k] + 1, -fields.value[rows])
            line = np.cumsum(line)[:-1]
            top = int(np.argmax(line))
            if line[top] > best:
                best, step = int(line[top]), (k, top + int(low[k]))
        if step is None:
            break
        at = at.copy()
        at[step[0]] = step[1]
    return best, at


def everything(first: list[Index], last: list[Index]) -> Mask | None:
    """Return that all cells count."""
    return None


def largest(
    fields: Fields,
    low: Index,
    high: Index,
    kept: Kept,
    small: int,
    parts: int,
    sweeps: tuple[int, int] = (20, 3),
    stop: Callable[[], bool] = lambda: False,
    work: float = np.inf,
) -> Found:
    """Return bounds of the greatest sum over the cells from ``low`` to ``high`` that are ``kept``, in this many parts.

    Parts of at most ``small`` cells are summed up on a grid. The search ends sooner where parts that wait hold more
    than :data:`HELD` numbers, after ``work`` pieces of all parts together, or where it is asked to ``stop``; bounds
    hold whenever it ends.
    """

    def counts(first: Index, last: Index) -> bool:
        mask = kept([a[None, None] for a in first], [b[None, None] for b in last])
        return mask is None or bool(mask.all())

    lower, first, last = -FAR, low, high
    for start in (low, high, (low + high) // 2):
        value, at = ascend(fields, low, high, start)
        if value > lower and counts(at, at):
            lower, first, last = value, at, at
    root, aim = Part(fields, low, high, {}), lower if lower > -FAR else 0
    cuts: list[tuple[int, int, int, bool]] = []
    heap = [(-root.diffuse(sweeps[0], lower, aim), 0, root, -1)]
    used = held = 0
    while heap:
        bound, name, part, cut = heapq.heappop(heap)
        upper = -bound
        if upper <= lower or used >= parts or held > HELD or work < 0 or (used and stop()):
            return Found(max(upper, lower), lower, first, last, used, cuts, root, aim)
        used += 1
        if cut >= 0:
            part.waiting -= 1
            held -= 0 if part.waiting else part.held
            part = part.half(*cuts[cut][1:])
            if not counts(*part.box):
                continue
            upper = min(upper, part.diffuse(sweeps[1], lower, aim))
            if upper <= lower:
                continue
        work -= len(part.rows)
        if part.cells <= small:
            value, a, b = grid_of(part, kept)
            if value > lower:
                lower, first, last = value, a, b
            continue
        if used <= OFTEN or used % SELDOM == 0:
            value, at = ascend(fields, low, high, part.point(), 8)
            if value > lower and counts(at, at):
                lower, first, last = value, at, at
        axis, cell = part.cut()
        part.shed()
        part.waiting, held = 2, held + part.held
        for side in (False, True):
            cuts.append((name, axis, cell, side))
            heapq.heappush(heap, (-upper, len(cuts), part, len(cuts) - 1))
    return Found(lower, lower, first, last, used, cuts, root, aim)


def grid_of(part: Part, kept: Kept) -> tuple[int, Index, Index]:
    """Return the greatest sum of a small part, and between which cells."""
    low, high = part.box
    fields = part.fields
    row = np.zeros(len(fields.tree), dtype=np.int64)
    pieces = Pieces(row[:0], row[:0], row, fields.tree, fields.low, fields.high, fields.value[:, None])
    grid = compress(pieces, low[None], high[None])
    total = sums(1, row, grid.low, grid.stop, grid.counts, fields.value)[0]
    mask = kept(grid.first, grid.last)
    if mask is not None:
        total = np.where(mask[0], total, -FAR)
    at = np.unravel_index(int(total.argmax()), total.shape)
    first = np.array([side[0, i] for side, i in zip(grid.first, at, strict=True)])
    last = np.array([side[0, i] for side, i in zip(grid.last, at, strict=True)])
    return int(total[at]), first, last
