"""How differently can an individual similar to this very individual be treated by trees?

Everybody similar is covered by boxes of cells, one for each individual where the metric looks at coordinates one by
one, else one for each choice of categories, of which a ball holds cells back. Over each the least and the greatest of
every margin are exact up to :data:`GRID_CELLS` cells, and bounds from branch and bound beyond.

**Soundness.** Boxes and balls hold every similar person, a cell is only left out where a number says that it is too
far; the head's steps round outward. Decisions by the largest of several outputs follow from all pairs of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Mask
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.models import Bounds, Known
from isonomy_verify.regions import Index
from isonomy_verify.similar import Similarity
from isonomy_verify.tiers import Enclosure
from isonomy_verify.tree_boxes import FAR, Balls, Grid, Pieces, allowed_groups, compress, project, sums
from isonomy_verify.tree_cells import Axis, Boxes, Cells
from isonomy_verify.tree_crossing import Crossing, Halving, refuted
from isonomy_verify.tree_global import Hint, bound, gap_of, pairs_of, real_gap
from isonomy_verify.tree_reach import TreeReach
from isonomy_verify.tree_search import Fields, largest
from isonomy_verify.trees import TreeError, Trees, margin_errors

GRID_CELLS, GRID_NUMBERS = 2**17, 2**20
"""Cells of one grid, and of all grids that are held together."""

TREE_PARTS = 4096
"""Parts into which branch and bound may cut a box."""


class Cover(NamedTuple):
    """Boxes of cells that hold everybody similar, balls that hold cells of them back, if there are any, and the moves
    (rows, m) that lead into the boxes."""

    boxes: Boxes
    balls: Balls | None
    low: Array
    high: Array

    def of(self, rows: Index | slice) -> Cover:
        """Return some rows."""
        balls = None if self.balls is None else self.balls.of(rows)
        return Cover(self.boxes.of(rows), balls, self.low[rows], self.high[rows])


class Extremes(NamedTuple):
    """The least and the greatest of each margin (n, margins) over everybody similar, in whole numbers: bounds, and what
    is attained in a cell that is not left out. ``first`` and ``last`` (n, margins, 2, axes) are the cells between which
    people attain these, ``row`` (n, margins, 2) in which box of :attr:`boxes`; −1 where none is known."""

    low: Index
    high: Index
    attained_low: Index
    attained_high: Index
    first: Index
    last: Index

    @property
    def exact(self) -> Mask:
        """Return whose (n,) bounds are all attained."""
        return np.asarray(((self.low == self.attained_low) & (self.high == self.attained_high)).all(1))

    @classmethod
    def unknown(cls, rows: int, margins: int, axes: int) -> Extremes:
        """Return arrays for rows of which nothing is attained, and that have no bound yet."""
        low, high = np.full((rows, margins), FAR), np.full((rows, margins), -FAR)
        cell = np.full((rows, margins, 2, axes), -1)
        return cls(low, high, low.copy(), high.copy(), cell, cell.copy())

    def put(self, rows: Index, several: Extremes) -> None:
        """Set some rows."""
        for mine, theirs in zip(self, several, strict=True):
            mine[rows] = theirs

    def merge(self, rows: Index, several: Extremes) -> None:
        """Take, row by row, the outermost of these and of others; a row may occur several times."""
        np.minimum.at(self.low, rows, several.low)
        np.maximum.at(self.high, rows, several.high)
        for side, mine, theirs in (
            (0, self.attained_low, several.attained_low),
            (1, self.attained_high, -several.attained_high),
        ):
            own = mine if side == 0 else -mine
            np.minimum.at(own, rows, theirs)
            best = (own[rows] == theirs) & (theirs < FAR)
            r, c = np.nonzero(best)
            self.first[rows[r], c, side], self.last[rows[r], c, side] = (
                several.first[r, c, side],
                several.last[r, c, side],
            )
            mine[...] = own if side == 0 else -own


class TreeBounds(Bounds):
    """Trees, what becomes of their outputs and who is similar: ready to derive bounds of individuals.

    ``run_error`` (margins,) or a number: how far the margins of the library's own run may be from the exact ones; then
    that run is covered too. ``size`` people are looked at together.
    """

    def __init__(
        self,
        trees: Trees,
        head: Head,
        similarity: Similarity,
        run_error: float | Array = 0.0,
        size: int = 64,
        parts: int = TREE_PARTS,
    ) -> None:
        self.trees, self.head, self.similarity, self.size, self.parts = trees, head, similarity, size, parts
        self.cells = Cells(trees, similarity.domain, head)
        given = np.broadcast_to(np.asarray(run_error, dtype=np.float64), self.cells.base.shape)
        if not ((given >= 0) & (given < np.inf)).all():
            raise ValueError("The error of a run must be finite and not negative.")
        own = margin_errors(head, self.cells.sums.error)
        self.error = np.nextafter(own + given, np.inf) if given.any() else own

    def enclose(self, x: Array) -> Enclosure:
        """Return the margins of people (n, m) themselves."""
        whole = self.cells.sum_at(np.ascontiguousarray(x, dtype=np.float64))
        return Enclosure(*self.cells.sums.real(whole, whole, self.error))

    def over(self, extremes: Extremes) -> Enclosure:
        """Return enclosures of the margins of everybody similar."""
        low, high = self.cells.sums.real(extremes.low, extremes.high, self.error)
        nothing = (extremes.low >= FAR) | (extremes.high <= -FAR)
        return Enclosure(np.where(nothing, -np.inf, low), np.where(nothing, np.inf, high))

    def chunk(self, x: Array) -> Known:
        """Return what is known of some individuals (n, m), who lie in the domain."""
        at = self.enclose(x)
        upper, kept = self.judged(at, self.over(self.extremes(x)))
        return Known(upper, kept, at)

    def judged(self, at: Enclosure, over: Enclosure) -> tuple[Array, Mask]:
        """Return the largest violations (n,), and whose decision is that of everybody similar."""
        mine, theirs = self.head.decision(at), self.head.decision(over)
        unknown = np.isinf(over.low).any(1)
        upper = np.where(unknown, self.head.largest, self.head.violation(at, over))
        return upper, np.asarray((mine >= 0) & (mine == theirs) & ~unknown)

    def proved_decisions(self, x: Array, known: Known, wanted: Mask, parts: int = TREE_PARTS) -> Mask:
        """Return which of the ``wanted`` decisions stand: those kept, and those that more parts settle."""
        stands = known.kept & wanted
        rows = np.flatnonzero(wanted & ~known.kept)
        if parts > self.parts and len(rows):
            other = TreeBounds.__new__(TreeBounds)
            other.__dict__.update(self.__dict__, parts=parts)
            stands[rows] = other.chunk(x[rows]).kept
            rows = rows[~stands[rows]]
        if len(rows):
            stands[rows] = self.keeps(np.ascontiguousarray(x[rows]), known.upper[rows])
        return np.asarray(stands)

    def reach(self, ground: Form, every: int = 1) -> TreeReach:
        """Return bounds over everybody within a ground cost of individuals; ``every`` as of these."""
        return TreeReach(self.cells, self.head, self.similarity, ground, self.error, every)

    def gap(self, free: Mask, hint: Hint) -> tuple[float, float]:
        """Return how far score and output of a possible person move at most by the ``free`` coordinates."""
        if len(self.cells.base) > 1:
            raise TreeError("The trees have several scores; gaps are of two classes or one number.")
        gap = gap_of(self.cells, self.cells.axes_of(free), 0)
        return self.moved(bound(gap, hint)) if len(gap.fields.value) else (0.0, 0.0)

    def moved(self, whole: int) -> tuple[float, float]:
        """Return how far the score, and the output, moves at most where a sum in whole numbers moves by so much."""
        score, end = real_gap(self.cells, whole, self.error, 0), np.full((1, 1), np.inf)
        anywhere, move = Enclosure(-end, end), np.full((1, 1), score)
        return score, float(self.head.gap(anywhere, anywhere, Enclosure(-move, move))[0])

    def crossing(self, free: Mask, below: float | None = None, above: float | None = None) -> Crossing:
        """Return the demand that of two possible people who agree in all but the ``free`` coordinates one may have a
        score of ``above`` or more and the other one of ``below`` or less; without these, that their decisions may
        differ."""
        if below is None or above is None:
            first = self._least(lambda at: bool(self.head.decision(at)[0] != 0))
            last = self._least(lambda at: bool(self.head.decision(at)[0] == 1))
        else:
            first = self._least(lambda at: bool(at.high[0, 0] >= above))
            last = self._least(lambda at: bool(at.low[0, 0] > below))
        return Crossing(pairs_of(self.cells, self.cells.axes_of(free), 0, every=True), last - 1, first)

    def undivided(self, free: Mask, cover: Halving) -> bool:
        """Return whether no two of these people are decided differently, as a cover shows."""
        return refuted(self.crossing(free), cover)

    def _least(self, holds: Callable[[Enclosure], bool]) -> int:
        """Return the least sum for which something holds that holds of all greater ones."""
        low, high = -FAR, FAR
        while high - low > 1:
            whole = np.array([[(low + high) // 2]])
            known = holds(Enclosure(*self.cells.sums.real(whole, whole, self.error)))
            low, high = (low, int(whole[0, 0])) if known else (int(whole[0, 0]), high)
        return high

    # -- exact extremes -----------------------------------------------------------------------------------

    def extremes(self, x: Array) -> Extremes:
        """Return the least and the greatest of every margin over everybody similar to people (n, m)."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        result = Extremes.unknown(len(x), len(self.cells.base), len(self.cells.axes))
        for start in range(0, len(x), self.size):
            for cover in self._covers(x[start : start + self.size]):
                for some in range(0, len(cover.low), self.size):
                    part = cover.of(slice(some, some + self.size))
                    result.merge(part.boxes.owner + start, self._rows(part))
        return result

    def _covers(self, x: Array) -> Iterator[Cover]:
        """Cover everybody similar to people by boxes of cells, of which balls hold cells back."""
        similarity, owner = self.similarity, np.arange(len(x))
        if not len(similarity.form.root):
            low, high = (np.broadcast_to(side, x.shape) for side in similarity.ranges(x))
            boxes, alive = self.cells.boxes(owner, x, low, high)
            cover = Cover(boxes, None, low, high)
            yield cover if alive.all() else cover.of(np.flatnonzero(alive))
            return
        for regions in similarity.each(x):
            sets, centre = regions.sets, regions.centre
            low, high = (np.broadcast_to(side, centre.shape) for side in (sets.low, sets.high))
            boxes, alive = self.cells.boxes(regions.owner, centre, low, high)
            rows = np.flatnonzero(alive)
            # A value that goes missing moves to its fill, whatever the box around the centre says.
            radius = np.broadcast_to(sets.radius, len(centre))[rows]
            offset = np.broadcast_to(sets.offset, (len(centre), len(sets.root)))[rows]
            numbers = similarity.domain.numeric
            root = np.where(numbers, sets.root, 0.0)
            categories = ((low < 0) | (high > 0))[:, ~numbers]
            if categories.any() and sets.root[:, ~numbers].any():
                root = root[:0]  # categories that were not listed: their price is not known here
                offset = offset[:, :0]
            balls = Balls(self.cells, root, sets.order, radius, offset, centre[rows])
            yield Cover(boxes.of(rows), balls, low[rows], high[rows])

    def _rows(self, cover: Cover) -> Extremes:
        """Return the extremes over each of some boxes."""
        boxes = cover.boxes
        rows, axes = boxes.low.shape
        pieces = project(self.cells, boxes)
        constant, moving = pieces.constant, pieces.moving
        result = Extremes.unknown(rows, constant.shape[1], axes)
        grid = compress(pieces, boxes.low[:, moving], boxes.high[:, moving])
        size = grid.counts.astype(np.float64).prod(1)
        ends = np.searchsorted(pieces.row, np.arange(rows + 1))
        order, start = np.argsort(size, kind="stable"), 0
        while start < rows:
            wide, stop = grid.counts[order[start]], start + 1
            if size[order[start]] > GRID_CELLS:
                self._search(result, int(order[start]), cover, pieces.of(int(order[start]), ends))
                start = stop
                continue
            while stop < rows:  # pad together boxes whose grids are alike
                wider = np.maximum(wide, grid.counts[order[stop]])
                cells = float(wider.astype(np.float64).prod())
                if cells * (stop + 1 - start) > GRID_NUMBERS or cells > 2 * size[order[stop]] + 64:
                    break
                wide, stop = wider, stop + 1
            some = order[start:stop]
            self._fill(result, some, cover.of(some), pieces, grid, ends)
            start = stop
        return result

    def _fill(self, result: Extremes, some: Index, cover: Cover, pieces: Pieces, grid: Grid, ends: Index) -> None:
        """Set the extremes of some rows, which the cover is of, from their grids."""
        leaves = np.concatenate([np.arange(ends[r], ends[r + 1]) for r in some.tolist()])
        row = np.repeat(np.arange(len(some)), ends[some + 1] - ends[some])
        count, moving = grid.counts[some], pieces.moving
        shape = count.max(0)
        first = [f[some, : shape[d]] for d, f in enumerate(grid.first)]
        last = [f[some, : shape[d]] for d, f in enumerate(grid.last)]
        kept = kept_cells(self.cells, cover, moving, first, last)
        low, high = cover.boxes.low, cover.boxes.high
        each = np.arange(len(some))
        for margin in range(pieces.gain.shape[1]):
            total = sums(len(some), row, grid.low[leaves], grid.stop[leaves], count, pieces.gain[leaves, margin])
            for side in (0, 1):
                values, far = total.reshape(len(some), -1), (FAR, -FAR)[side]
                if kept is not None:
                    values = np.where(kept.reshape(len(some), -1), values, far)
                at = values.argmax(1) if side else values.argmin(1)
                best = values[each, at]
                none = best == far
                value = np.where(none, far, pieces.constant[some, margin] + best)
                for mine in (result[side], result[side + 2]):
                    mine[some, margin] = value
                group = np.unravel_index(at, tuple(shape.tolist())) if len(shape) else ()
                a, b = low.copy(), high.copy()
                for d, k in enumerate(moving.tolist()):
                    a[:, k], b[:, k] = first[d][each, group[d]], last[d][each, group[d]]
                result.first[some, margin, side] = np.where(none[:, None], -1, a)
                result.last[some, margin, side] = np.where(none[:, None], -1, b)

    def _search(self, result: Extremes, row: int, cover: Cover, pieces: Pieces) -> None:
        """Set the extremes of a row whose grid is too large, by branch and bound."""
        one, moving = cover.of(np.array([row])), pieces.moving
        box = one.boxes

        def kept(first: list[Index], last: list[Index]) -> Mask | None:
            return kept_cells(self.cells, one, moving, first, last)

        for margin in range(pieces.gain.shape[1]):
            for side, sign in ((0, -1), (1, 1)):
                fields = Fields(pieces.tree, pieces.low, pieces.high, sign * pieces.gain[:, margin])
                ends = box.low[0, moving], box.high[0, moving]
                found = largest(fields, *ends, kept, GRID_CELLS, self.parts)
                constant = pieces.constant[0, margin]
                result[side][row, margin] = constant + sign * found.upper if found.upper > -FAR else -sign * FAR
                if found.lower > -FAR:
                    result[side + 2][row, margin] = constant + sign * found.lower
                    first, last = box.low[0].copy(), box.high[0].copy()
                    first[moving], last[moving] = found.first, found.last
                    result.first[row, margin, side], result.last[row, margin, side] = first, last


def kept_cells(cells: Cells, cover: Cover, moving: Index, first: list[Index], last: list[Index]) -> Mask | None:
    """Return which groups of cells (rows, groups…) hold a person of the box that a ball may reach; None: all.

    ``first`` and ``last`` are the cells of the groups of each moving axis.
    """
    boxes, balls = cover.boxes, cover.balls
    n, axes = len(boxes.owner), len(moving)
    kept: Mask | None = None
    for d, k in enumerate(moving.tolist()):
        if k in boxes.allowed:
            mask = allowed_groups(boxes.allowed[k], first[d], last[d])
            shape = [n] + [1] * axes
            shape[1 + d] = -1
            mask = mask.reshape(shape)
            kept = mask if kept is None else kept & mask
    if balls is not None and len(balls.root):
        low, high = cover.low.copy(), cover.high.copy()
        for k, axis in enumerate(cells.axes):
            if axis.flag >= 0:  # whose moves a missing value replaces
                j, centre = axis.start, balls.centre[:, axis.start]
                missing, present = boxes.high[:, k] == axis.cells - 1, boxes.low[:, k] < axis.cells - 1
                fill = axis.fill - centre
                for side, best in ((low, np.minimum), (high, np.maximum)):
                    either = best(np.where(present, side[:, j], fill), fill)
                    side[:, j] = np.where(missing, either, side[:, j])
        groups = []
        for d, k in enumerate(moving.tolist()):
            axis = cells.axes[k]
            groups.append(_group_moves(axis, boxes.least[:, k], boxes.most[:, k], balls.centre, first[d], last[d]))
        near = balls.within(low, high, moving, groups)
        kept = near if kept is None else kept & near
    if kept is None:
        return None
    return np.broadcast_to(kept, (n, *(part.shape[1] for part in first)))


def _group_moves(
    axis: Axis, least: Array, most: Array, centre: Array, first: Index, last: Index
) -> tuple[Array, Array]:
    """Return the least and greatest move (rows, groups) of a number into each group of cells."""
    own = centre[:, axis.start][:, None]
    if not axis.numeric:
        return np.zeros(first.shape), np.zeros(first.shape)
    numbers = axis.numbers - 1
    low = np.maximum(axis.first[np.minimum(first, numbers)], least[:, None])
    high = np.minimum(axis.last[np.minimum(last, numbers)], most[:, None])
    if axis.flag >= 0:
        missing, only = last == axis.cells - 1, first == axis.cells - 1
        low = np.where(only, axis.fill, np.where(missing, np.minimum(low, axis.fill), low))
        high = np.where(only, axis.fill, np.where(missing, np.maximum(high, axis.fill), high))
    return low - own, high - own
