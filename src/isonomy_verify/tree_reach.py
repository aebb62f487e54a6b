"""How unequally can trees treat individuals within reach of one?

Problem, for individuals ``x`` and radii ``r``: bound ``I(z, δ)`` over every possible ``z`` with ground cost
``c(x, z) ≤ r``. Around each ``x``, and for each choice of categories that the largest radius pays for, one grid of sums
holds every ``z`` and everybody similar to one: along each axis lie the places of ``z``, and the window of cells in
which a ``y`` similar to such a ``z`` lies. Windows of maxima give the worst ``y`` for every place at once, and the
least cost of a place says from which radius on it counts: all radii come from one pass. Trees are followed once for
all choices of categories of an individual, and choices that cannot add to what is known have no grid.

**Soundness.** Windows and costs are rounded to inclusion. Where the metric looks at coordinates one by one, windows of
whole numbers are exact, place by place; else the window of a place is that of its whole interval, and the box around
the metric's ball. A grid that is too large, or categories that were not listed, are bounded tree by tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import Array, U, down, up
from isonomy_verify.domain import Mask
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.regions import Index
from isonomy_verify.sets import ConvexSets, Regions
from isonomy_verify.similar import LATTICE_MARGIN, DeltaError, Similarity, is_norm
from isonomy_verify.tiers import Enclosure
from isonomy_verify.tree_boxes import FAR, Balls, Grid, Pieces, allowed_groups, compress, project, sums
from isonomy_verify.tree_cells import Axis, Boxes, Cells

REACH_CELLS = 2**21
"""Cells of the grid around one individual, and places in it."""

VALUES = 128
"""Whole numbers along an axis up to which each is a place of its own."""


LEAVES, PAIRS_HELD = 512, 2**20
"""Leaves of a tree in a box up to which pairs of them are looked at, and such pairs held at a time."""

FOLLOWED = 2**18
"""Nodes of trees, once for each individual, that are followed at a time."""


class Places(NamedTuple):
    """Along one axis: the values (places,) between which each place of ``z`` lies, its group of cells, and the first
    and last group of cells of a similar individual."""

    least: Array
    most: Array
    group: Index
    first: Index
    last: Index

    def merged(self) -> Places:
        """Return neighbours that have the same cells as one."""
        same = [side[1:] != side[:-1] for side in (self.group, self.first, self.last)]
        new = np.flatnonzero(np.append(True, same[0] | same[1] | same[2]))
        end = np.append(new[1:], len(self.group)) - 1
        return Places(self.least[new], self.most[end], self.group[new], self.first[new], self.last[new])


class Held:
    """What trees have around one individual, for all changes of some features: leaves, and which pairs of them meet."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces, self._pairs = pieces, dict[bytes, "tuple[Index, Index] | None"]()
        self._along = dict[tuple[int, int, int], Mask]()

    def meets(self, box: Boxes) -> Mask:
        """Return which leaves meet a box."""
        p, keep = self.pieces, np.ones(len(self.pieces.tree), dtype=bool)
        for d, k in enumerate(p.moving.tolist()):
            key = d, int(box.low[0, k]), int(box.high[0, k])
            if key not in self._along:
                self._along[key] = (p.low[:, d] <= key[2]) & (p.high[:, d] >= key[1])
            keep &= self._along[key]
        return keep

    def clipped(self, box: Boxes) -> Pieces:
        """Return the trees restricted to a box."""
        p, some = self.pieces, np.flatnonzero(self.meets(box))
        wide = np.flatnonzero(box.low[0, p.moving] < box.high[0, p.moving])
        moving, tree, gain = p.moving[wide], p.tree[some], p.gain[some]
        low = np.maximum(p.low[some][:, wide], box.low[0, moving])
        high = np.minimum(p.high[some][:, wide], box.high[0, moving])
        begin, count = _runs(tree)
        alone, rest = begin[count == 1], np.repeat(count > 1, count)
        constant = p.constant + gain[alone].sum(0)
        return Pieces(constant, moving, np.zeros(int(rest.sum()), int), tree[rest], low[rest], high[rest], gain[rest])

    def pairs(self, agree: Mask) -> tuple[Index, Index] | None:
        """Return the pairs of leaves that meet along the axes on which two individuals agree; None: too many."""
        key = agree.tobytes()
        if key not in self._pairs:
            count = _runs(self.pieces.tree)[1]
            few = int((count * count).sum()) <= 8 * PAIRS_HELD
            found = list(meeting(self.pieces, agree)) if few else []
            none = np.zeros(0, dtype=np.int64)
            i, j = (np.concatenate([none, *(pair[side] for pair in found)]) for side in (0, 1))
            self._pairs[key] = (i, j) if few else None
        return self._pairs[key]


class Around(NamedTuple):
    """A choice of categories around an individual: whose, ``x`` and the centre (1, m), the leaves around, ``y − z`` of
    similar people (None: unknown), whether its categories are listed; and for each radius, of all choices of which this
    is a ``row``, the sets of ``z``, where there is any, and the boxes of these and of everybody similar."""

    owner: int
    x: Array
    centre: Array
    held: Held
    between: tuple[Array, Array] | None
    listed: bool
    row: int
    parts: list[tuple[ConvexSets, Mask, Boxes, Boxes]]

    def boxes(self, k: int) -> tuple[Boxes, Boxes] | None:
        """Return the boxes of a radius; None where there is no ``z``."""
        _, alive, mine, hull = self.parts[k]
        one = slice(self.row, self.row + 1)
        return (mine.of(one), hull.of(one)) if alive[self.row] else None


class Planned(NamedTuple):
    """A grid that is small enough: leaves, cells, places, along how many axes, the first ones, ``z`` has one place and
    similar people any cell; the boxes of both; whether each row of the root sees one coordinate."""

    pieces: Pieces
    grid: Grid
    places: list[Places]
    free: int
    mine: Boxes
    hull: Boxes
    single: bool


class Reached(NamedTuple):
    """What a grid says: its places within reach, for each the first radius that pays for it, the cost and the bound of
    people there; the largest bound (radii,) of those whose first radius is each."""

    place: Index
    rank: Index
    norm: Array
    value: Array
    worst: Array


Keep = Callable[[Around, Planned, Reached], None]


class TreeReach:
    """Trees, who is similar and what moving an individual costs, ready to bound violations over balls."""

    single_radius = own_passes = False  # one grid says the same of all radii

    def __init__(
        self, cells: Cells, head: Head, similarity: Similarity, ground: Form, error: Array, every: int = 1
    ) -> None:
        """``every``: of radii whose grids are too large one in ``every`` is bounded, from the largest one."""
        self.every = every
        self.cells, self.head, self.similarity, self.ground, self.error = cells, head, similarity, ground, error
        self.domain = similarity.domain
        self.ball = similarity.reached_by(ground)

    @cached_property
    def is_norm(self) -> bool:
        """Return whether every move costs something."""
        return is_norm(self.ground)

    def bound(self, x: Array, radii: Sequence[float], tight: bool = True, size: int = 1024) -> Array:
        """Return upper bounds (n, radii) of the violation of any individual within each of the ascending ``radii`` of
        the rows of ``x``; without ``tight`` tree by tree only. ``size`` regions are held at a time."""
        return self.over(x, radii, tight, size)[0]

    def over(
        self,
        x: Array,
        radii: Sequence[float],
        tight: bool,
        size: int,
        keep: Keep | None = None,
        within: tuple[Array, Array] | None = None,
        ball: Similarity | None = None,
    ) -> tuple[Array, Mask]:
        """Return the bounds (n, radii) and where all of them come from grids.

        For a search: ``keep`` is shown every grid, numbers keep to the moves (n, m) ``within``, and ``ball`` stands for
        that of the ground cost; the last two leave people out, and then nothing is a bound.
        """
        x = np.ascontiguousarray(x, dtype=np.float64)
        shape = len(x), len(radii)
        worst, seen, whole = np.zeros(shape), np.zeros(len(x), dtype=bool), np.ones(shape, dtype=bool)
        balls = [(ball or self.ball).resized(radius) for radius in radii]
        try:
            balls[-1].regions(x[:1])
        except DeltaError:
            return np.full(shape, np.inf), ~whole
        for regions in balls[-1].each(x):
            for near in regions.pieces(size):
                parts = [ball.parts(x, near) for ball in balls[:-1]]
                parts.append((near.sets, np.ones(len(near), dtype=bool)))
                if within is not None:
                    parts = [(self._narrowed(each, near.owner, within), alive) for each, alive in parts]
                for around in self._around(x, near, parts):
                    owner = around.owner
                    value, grids = self._region(around, tight, worst[owner] if seen[owner] else None, keep)
                    worst[owner], seen[owner] = np.maximum(worst[owner], value), True
                    whole[owner] &= grids
        worst[~seen] = np.inf
        return np.minimum(worst, self.head.largest), whole & seen[:, None]

    def _narrowed(self, sets: ConvexSets, owner: Index, within: tuple[Array, Array]) -> ConvexSets:
        """Return sets of moves in which numbers keep to some of them."""
        low, high = (
            np.where(self.domain.numeric, side[owner], end) for side, end in zip(within, (-1.0, 1.0), strict=True)
        )
        low = np.maximum(low, sets.low)
        return replace(sets, low=low, high=np.maximum(low, np.minimum(high, sets.high)))

    def stands(self, x: Array, radius: float, margin: float = 0.0, size: int = 1024) -> Mask:
        """Return whether (n,) each person within the radius of the rows of ``x`` has the decision of all similar ones,
        up to a ``margin`` of outputs.

        **Soundness.** The largest of the counts over all regions is 0 only where it is in each of them.
        """
        if not self.head.decides:
            return np.zeros(len(x), dtype=bool)
        head = replace(self.head, counts=True, margin=max(margin, self.head.margin))
        counting = TreeReach(self.cells, head, self.similarity, self.ground, self.error, self.every)
        return np.asarray(counting.bound(x, [radius], size=size)[:, 0] == 0)

    def everywhere(self, x: Array) -> tuple[float, float]:
        """Return an upper bound of the violation of any individual, and up to which radius around ``x`` it holds.

        **Soundness.** The box of all cells holds everybody, on every domain.
        """
        n = len(self.cells.axes)
        none = np.zeros(1, dtype=np.int64)
        last = (self.cells.counts - 1)[None] if n else np.zeros((1, 0), dtype=np.int64)
        ends = np.full((1, n), -np.inf), np.full((1, n), np.inf)
        whole = Boxes(none, np.zeros((1, n), dtype=np.int64), last, {}, *ends)
        domain, free = self.domain, np.full((1, self.domain.width), np.inf)
        between = -free, free
        if domain.kind == "realizable" and not len(self.similarity.form.root):
            centre = (domain.low / 2 + domain.high / 2)[None]
            between = self.similarity.ranges(centre, (down(domain.low - centre), up(domain.high - centre)))
        held = Held(project(self.cells, whole))
        return min(self._apart(held, whole, whole, between), self.head.largest), np.inf

    # -- one choice of categories -------------------------------------------------------------------------

    def _around(self, x: Array, near: Regions, parts: list[tuple[ConvexSets, Mask]]) -> Iterator[Around]:
        """Yield each of some regions of ``z`` around the rows of ``x``, with what trees have for all regions in which
        the same features change."""
        centre, sets = near.centre, near.sets
        low, high = (np.broadcast_to(side, centre.shape) for side in (sets.low, sets.high))
        listed = np.asarray(~((low < 0) | (high > 0))[:, ~self.domain.numeric].any(1))
        ends, known = self._between(centre, low, high)
        boxes = []
        for each, some in parts:
            moves = [np.broadcast_to(side, centre.shape) for side in (each.low, each.high)]
            mine, alive = self.cells.boxes(near.owner, centre, *moves)
            hull, _ = self.cells.boxes(near.owner, centre, down(moves[0] + ends[0]), up(moves[1] + ends[1]))
            hull = hull._replace(low=np.minimum(hull.low, mine.low), high=np.maximum(hull.high, mine.high))
            boxes.append((each, alive & some, mine, hull))
        moved = near.centre != x[near.owner]
        which = [near.owner, *(moved[:, a:b].any(1) for a, b in self.domain.blocks)]
        groups, group = np.unique(np.stack(which, axis=1).astype(np.int64), axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        begin = np.append(0, np.cumsum(np.bincount(group.ravel(), minlength=len(groups))))
        first = np.minimum.reduce([hull.low for _, _, _, hull in boxes])[order]
        last = np.maximum.reduce([hull.high for _, _, _, hull in boxes])[order]
        step = max(1, FOLLOWED // len(self.cells.leaf))
        for start in range(0, len(groups), step):
            batch = np.arange(start, min(start + step, len(groups)))
            inside = slice(begin[start], begin[batch[-1] + 1])
            at, none = begin[batch] - begin[start], np.zeros((len(batch), first.shape[1]))
            box = [best.reduceat(side[inside], at, axis=0) for best, side in ((np.minimum, first), (np.maximum, last))]
            pieces = project(self.cells, Boxes(batch, box[0], box[1], {}, none, none))
            stops = np.searchsorted(pieces.row, np.arange(len(batch) + 1))
            for i, g in enumerate(batch.tolist()):
                held = Held(pieces.of(i, stops))
                for row in order[begin[g] : begin[g + 1]].tolist():
                    one = np.array([row])
                    between = (ends[0][one], ends[1][one]) if known[row] else None
                    own = x[near.owner[one]], centre[one]
                    yield Around(int(groups[g, 0]), *own, held, between, bool(listed[row]), row, boxes)

    def _region(self, around: Around, tight: bool, known: Array | None, keep: Keep | None) -> tuple[Array, Mask]:
        """Return the bounds (radii,) over one region of ``z`` and what each radius leaves of it, and which come from
        grids or cannot add to those that are ``known``."""
        count = len(around.parts)
        values, grids = np.full(count, np.inf), np.zeros(count, dtype=bool)
        if around.between is None:
            return values, grids
        tight = tight and around.listed
        for last in [*range(count - 1, 0, -self.every), 0]:  # the largest radius whose grid is small enough
            boxes = around.boxes(last)
            if boxes is None:
                values[: last + 1], grids[: last + 1] = 0.0, True
                break
            if known is not None:
                values[last] = self._apart(around.held, *boxes, around.between)
                if values[last] <= known[last]:
                    grids[last] = True
                    continue
            planned = self._planned(around, last) if tight else None
            if planned is not None:
                low, high = last, min(last + self.every, count)
                while high - low > 1:  # larger ones between this and the one before
                    middle = (low + high) // 2
                    more = self._planned(around, middle)
                    low, high, planned = (low, middle, planned) if more is None else (middle, high, more)
                values[: low + 1], grids[: low + 1] = self._grid(around, low + 1, planned, keep), True
                break
            if known is None:
                values[last] = self._apart(around.held, *boxes, around.between)
        return values, grids

    def _apart(self, held: Held, mine: Boxes, hull: Boxes, between: tuple[Array, Array]) -> float:
        """Return the bound for ``z`` in one box and ``y`` in another, tree by tree: of both people, and of their
        difference, with ``y − z`` between two moves.

        In the difference only pairs of leaves count that meet along every axis on which the two people agree. Trees
        that test no other axis have the same leaf for both.
        """
        near, far = held.meets(mine), held.meets(hull)
        one, other = self._tree_by_tree(held.pieces, near), self._tree_by_tree(held.pieces, far)
        pieces = held.pieces
        agree = np.array([self._agree(self.cells.axes[k], between) for k in pieces.moving.tolist()], dtype=bool)
        ends = np.zeros((2, 1, pieces.gain.shape[1]), dtype=np.int64)
        pairs = held.pairs(agree)
        if pairs is None:  # too many around the individual; perhaps not in these boxes
            pieces, near = pieces.some(far), near[far]
            begin, count = _runs(pieces.tree)
            sizes = [best.reduceat(pieces.gain, begin, axis=0) for best in (np.maximum, np.minimum)]
            spread = (sizes[0] - sizes[1])[count > LEAVES].sum(0)
            ends[0], ends[1] = -spread, spread
            few = np.repeat(count <= LEAVES, count)
            pieces, near = pieces.some(few), near[few]
            far = np.ones_like(near)
        for i, j in meeting(pieces, agree) if pairs is None else [pairs]:
            here = np.flatnonzero(far[i] & near[j])
            if len(here):
                begin, _ = _runs(pieces.tree[i[here]])
                change = pieces.gain[i[here]] - pieces.gain[j[here]]
                ends[0] += np.minimum.reduceat(change, begin, axis=0).sum(0)
                ends[1] += np.maximum.reduceat(change, begin, axis=0).sum(0)
        move = Enclosure(*self.cells.sums.real(ends[0], ends[1], 2 * self.error))
        return float(self.head.gap(one, other, move)[0])

    def _agree(self, axis: Axis, between: tuple[Array, Array]) -> bool:
        """Return whether two similar people have the same value along an axis."""
        columns = [*range(axis.start, axis.stop), *([axis.flag] if axis.flag >= 0 else [])]
        return not (between[0][0, columns].any() or between[1][0, columns].any())

    def _between(self, centre: Array, low: Array, high: Array) -> tuple[tuple[Array, Array], Mask]:
        """Return the least and greatest ``y − z`` (n, m) for ``z`` around centres and ``y`` similar to them, and where
        any are known.

        **Soundness.** Regions know ``z`` with the categories of the centre only; where ``z`` may have others, what
        single coordinates leave holds whatever these are.
        """
        ends = self.similarity.ranges(centre, (low, high))
        known: Mask = np.ones(len(centre), dtype=bool)
        if not len(self.similarity.form.root):
            return ends, known
        rows = np.flatnonzero(~((low < 0) | (high > 0))[:, ~self.domain.numeric].any(1))
        known[rows] = False
        ends[0][rows], ends[1][rows] = np.inf, -np.inf
        for pieces in self.similarity.regions(centre[rows], (low[rows], high[rows])) if len(rows) else []:
            owner = rows[pieces.owner]
            known[owner] = True
            for mine, side, best in ((ends[0], "low", np.minimum), (ends[1], "high", np.maximum)):
                moves = np.broadcast_to(getattr(pieces.sets, side), pieces.centre.shape)
                best.at(mine, owner, moves + (pieces.centre - centre[owner]))
        ends[0][~known] = ends[1][~known] = 0.0
        return ends, known

    def _tree_by_tree(self, pieces: Pieces, some: Mask) -> Enclosure:
        """Return enclosures of the margins over one box, by the extreme leaf of every tree among some."""
        ends = []
        for best, far in ((np.minimum, FAR), (np.maximum, -FAR)):
            total = pieces.constant.copy()
            if len(pieces.tree):
                gain = np.where(some[:, None], pieces.gain, far)
                total += best.reduceat(gain, _runs(pieces.tree)[0], axis=0).sum(0)
            ends.append(total)
        return Enclosure(*self.cells.sums.real(ends[0], ends[1], self.error))

    def _planned(self, around: Around, k: int) -> Planned | None:
        """Return the grid of everybody similar at a radius; None where that is too large."""
        boxes = around.boxes(k)
        if boxes is None or around.between is None:
            return None
        mine, hull = boxes
        pieces = around.held.clipped(hull)
        grid = compress(pieces, hull.low[:, pieces.moving], hull.high[:, pieces.moving])
        single = bool((np.count_nonzero(around.parts[k][0].root, axis=1) <= 1).all())
        if single:  # axes along which all cells are alike cost nothing
            keep = np.flatnonzero(grid.counts[0] > 1)
            pieces = pieces._replace(moving=pieces.moving[keep], low=pieces.low[:, keep], high=pieces.high[:, keep])
            ends = ([side[d] for d in keep.tolist()] for side in (grid.first, grid.last))
            grid = Grid(grid.low[:, keep], grid.stop[:, keep], grid.counts[:, keep], *ends)
        if grid.counts.astype(np.float64).prod() > REACH_CELLS:
            return None
        places = [
            self._places(self.cells.axes[k], int(k), mine, around.between, grid.first[d][0], grid.last[d][0])
            for d, k in enumerate(pieces.moving.tolist())
        ]
        if single:
            places = [place.merged() for place in places]
        if np.prod([float(len(p.group)) for p in places]) > REACH_CELLS:
            return None
        # Axes along which similar people may have any cell come first: their extremes are taken at once.
        free = [
            len(p.group) == 1 and p.first[0] == 0 and p.last[0] == n - 1
            for p, n in zip(places, grid.counts[0], strict=True)
        ]
        order = np.argsort(~np.array(free, dtype=bool), kind="stable")
        pieces = pieces._replace(moving=pieces.moving[order], low=pieces.low[:, order], high=pieces.high[:, order])
        ends = ([side[d] for d in order.tolist()] for side in (grid.first, grid.last))
        grid = Grid(grid.low[:, order], grid.stop[:, order], grid.counts[:, order], *ends)
        return Planned(pieces, grid, [places[d] for d in order.tolist()], sum(free), mine, hull, single)

    def _grid(self, around: Around, last: int, planned: Planned, keep: Keep | None) -> Array:
        """Return the bounds of the first radii (last,) from the grid of everybody similar at the last of them."""
        rank, norm = self._reached(around, planned, last)
        z, y = self._sums(planned)
        which = np.flatnonzero(rank < last)
        value = np.zeros(len(which))
        for start in range(0, len(which), 2**16):
            some = which[start : start + 2**16]
            pair = (
                self.cells.sums.real(z[some], z[some], self.error),
                self.cells.sums.real(y[0][some], y[1][some], self.error),
            )
            value[start : start + 2**16] = self.head.violation(Enclosure(*pair[0]), Enclosure(*pair[1]))
        worst = np.zeros(last)
        np.maximum.at(worst, rank[which], value)
        if keep is not None:
            keep(around, planned, Reached(which, rank[which], norm[which], value, worst))
        return np.maximum.accumulate(worst)

    def _places(
        self, axis: Axis, k: int, mine: Boxes, between: tuple[Array, Array], first: Index, last: Index
    ) -> Places:
        """Return the places of ``z`` along an axis whose groups are the cells from ``first`` to ``last``."""
        low, high = int(mine.low[0, k]), int(mine.high[0, k])
        groups = len(first)
        if not axis.numeric or axis.flag >= 0:  # any allowed cell is near; a change of state is no matter of values
            at = np.arange(int(np.searchsorted(first, low, "right")) - 1, int(np.searchsorted(first, high, "right")))
            ends = np.full(len(at), -np.inf), np.full(len(at), np.inf)
            return Places(*ends, at, np.zeros_like(at), np.full_like(at, groups - 1))
        j = axis.start
        starts, stops = axis.first[first], axis.last[last]
        least, most = float(mine.least[0, k]), float(mine.most[0, k])
        a, b = float(between[0][0, j]), float(between[1][0, j])
        points = self._whole_numbers(j, least, most) if a < 0 or b > 0 else None
        if points is None:
            at = np.flatnonzero((stops >= least) & (starts <= most))
            begin, end = np.maximum(starts[at], least), np.minimum(stops[at], most)
        else:
            begin = end = points
            at = np.searchsorted(starts, points, side="right") - 1
        slack: Array = np.zeros(len(begin))
        if self.domain.kind == "realizable" and self.domain.integer[j]:  # as for similar people themselves
            slack = LATTICE_MARGIN * (1.0 + np.abs(begin) + abs(self.domain.origin[j])) / min(1.0, self.domain.unit[j])
        lowest, highest = down(begin + a) - slack, up(end + b) + slack
        return Places(
            begin, end, at, np.searchsorted(stops, lowest, "left"), np.searchsorted(starts, highest, "right") - 1
        )

    def _whole_numbers(self, j: int, least: float, most: float) -> Array | None:
        """Return the lattice points from one to another, if they are few; None for other numbers."""
        domain = self.domain
        if domain.kind != "realizable" or not domain.integer[j] or not np.isfinite(most - least):
            return None
        unit, origin = domain.unit[j], domain.origin[j]
        first, last = np.rint(least * unit + origin), np.rint(most * unit + origin)
        if not 0 <= last - first < VALUES or abs(first) > 2.0**50:
            return None
        return np.asarray((np.arange(first, last + 1) - origin) / unit)

    def _reached(self, around: Around, planned: Planned, count: int) -> tuple[Index, Array]:
        """Return for each place (all, flat) the first of ``count`` radii that may reach it, and at most what it costs.

        Where each row of the root sees one coordinate the cost is the same in the box of every radius.
        """
        centre, row, moving, places = around.centre, around.row, planned.pieces.moving, planned.places
        sets = [part[0] for part in around.parts[:count]]
        low, high = (
            np.stack([np.broadcast_to(getattr(s, side), (max(row + 1, s.rows), centre.shape[1]))[row] for s in sets])
            for side in ("low", "high")
        )
        groups, axes = [], len(places)
        alive = np.array([part[1][row] for part in around.parts[:count]])
        shape = tuple(len(place.group) for place in places)
        rank: Index = np.full(shape, int(alive.argmax()))
        for d, (k, place) in enumerate(zip(moving.tolist(), places, strict=True)):
            axis = self.cells.axes[k]
            own = centre[:, axis.start] if axis.numeric else np.zeros(1)
            ends, still = (place.least - own, place.most - own), np.isinf(place.least)[None]
            groups.append((np.where(still, -np.inf, ends[0]), np.where(still, np.inf, ends[1])))
            if axis.numeric and axis.flag < 0:
                slack = 4 * U * (np.abs(own) + 1)
                inside = (ends[1] >= low[:, axis.start, None] - slack) & (ends[0] <= high[:, axis.start, None] + slack)
                first = np.where(inside.any(0), inside.argmax(0), count)
                rank = np.maximum(rank, first.reshape([-1 if e == d else 1 for e in range(axes)]))
        norm = np.zeros(shape)
        if len(sets[0].root):
            radius = np.array([float(np.broadcast_to(s.radius, max(row + 1, s.rows))[row]) for s in sets])
            radius = np.where(radius > 2.0**400, np.inf, np.maximum.accumulate(radius))  # squares beyond say nothing
            reached = np.full(shape, count)
            for r in [count - 1] if planned.single else range(count - 1, -1, -1):
                ball = sets[r][np.array([row])]
                norm = np.broadcast_to(
                    self._norms(ball, centre, moving, groups, (low[r : r + 1], high[r : r + 1])), (1, *shape)
                )[0]
                reached = np.where(norm > radius[r], reached, r)
            if planned.single:
                reached = np.searchsorted(radius, norm)
            rank = np.maximum(rank, np.where(np.isnan(norm), 0, reached))
        return rank.ravel(), norm.ravel()

    def _norms(
        self,
        part: ConvexSets,
        centre: Array,
        moving: Index,
        groups: list[tuple[Array, Array]],
        ends: tuple[Array, Array],
    ) -> Array:
        """Return at most the least cost of each place, in the box of a radius."""
        low, high = (side.copy() for side in ends)
        root = np.where(self.domain.numeric, part.root, 0.0)
        radius, offset = np.broadcast_to(part.radius, 1), np.broadcast_to(part.offset, (1, len(root)))
        bounded = [
            tuple(
                np.where(np.isinf(end), side[:, self.cells.axes[k].start][:, None], end)
                if self.cells.axes[k].numeric
                else np.zeros_like(end)
                for end, side in zip(group, (low, high), strict=True)
            )
            for k, group in zip(moving.tolist(), groups, strict=True)
        ]
        for k, axis in enumerate(self.cells.axes):  # a value that goes missing moves to its fill
            if axis.flag >= 0:
                low[:, axis.start], high[:, axis.start] = -np.inf, np.inf
                for d in np.flatnonzero(moving == k).tolist():
                    bounded[d] = tuple(np.full_like(e, s) for e, s in zip(bounded[d], (-np.inf, np.inf), strict=True))
        balls = Balls(self.cells, root, part.order, radius, offset, centre)
        return balls.norms(low, high, moving, bounded)  # type: ignore[arg-type]

    def _sums(self, planned: Planned) -> tuple[Index, tuple[Index, Index]]:
        """Return the margins (places, margins) of ``z``, and the least and greatest of everybody similar."""
        pieces, grid, places, free, _, hull, _ = planned
        own, least, most = [], [], []
        for margin in range(pieces.gain.shape[1]):
            row = pieces.row
            total = sums(1, row, grid.low, grid.stop, grid.counts, pieces.gain[:, margin])[0]
            total += pieces.constant[0, margin]
            own.append(total[np.ix_(*(place.group for place in places))].ravel())
            kept = None
            for d, k in enumerate(pieces.moving.tolist()):
                if k in hull.allowed:
                    mask = allowed_groups(hull.allowed[k], grid.first[d], grid.last[d])[0]
                    mask = mask.reshape([-1 if e == d else 1 for e in range(total.ndim)])
                    kept = mask if kept is None else kept & mask
            both = (total, total) if kept is None else (np.where(kept, total, FAR), np.where(kept, total, -FAR))
            first = tuple(range(free))
            ends = [both[0].min(first, keepdims=True), -both[1].max(first, keepdims=True)]
            shrink = [len(place.group) / n for place, n in zip(places, total.shape, strict=True)]
            for d in (free + np.argsort(shrink[free:])).tolist():  # first along axes of which few places are left
                ends = [_window(end, d, places[d].first, places[d].last) for end in ends]
            least.append(ends[0].ravel())
            most.append(-ends[1].ravel())
        return np.stack(own, 1), (np.stack(least, 1), np.stack(most, 1))


def _runs(tree: Index) -> tuple[Index, Index]:
    """Return where each tree begins in a sorted list, and how often it is there."""
    begin = np.flatnonzero(np.append(True, tree[1:] != tree[:-1])) if len(tree) else np.zeros(0, dtype=np.int64)
    return begin, np.diff(np.append(begin, len(tree)))


def meeting(pieces: Pieces, agree: Mask) -> Iterator[tuple[Index, Index]]:
    """Yield all ordered pairs of leaves of a tree that meet along some of the moving axes, sorted by tree; of trees
    that look along no other axis none."""
    low, high = (np.ascontiguousarray(side.T) for side in (pieces.low, pieces.high))
    begin, count = _runs(pieces.tree)
    looks = np.zeros(len(begin), dtype=bool)
    for d in np.flatnonzero(~agree).tolist() if len(begin) else []:
        for side in (low[d], high[d]):
            looks |= np.maximum.reduceat(side, begin) > np.minimum.reduceat(side, begin)
    begin, count = begin[looks], count[looks]
    parts = np.cumsum(count * count) // PAIRS_HELD
    for part in np.unique(parts).tolist():
        first, each = begin[parts == part], count[parts == part]
        own = np.repeat(each, each)
        i = np.repeat(np.repeat(first - np.cumsum(each) + each, each) + np.arange(len(own)), own)
        j = np.repeat(np.repeat(first, each) - np.cumsum(own) + own, own) + np.arange(len(i))
        for d in np.flatnonzero(agree).tolist():
            meets = (low[d][i] <= high[d][j]) & (low[d][j] <= high[d][i])
            i, j = i[meets], j[meets]
        yield i, j


def _window(values: Index, axis: int, first: Index, last: Index) -> Index:
    """Return the least value along an axis from ``first`` to ``last``, for each pair of these."""
    wall = np.full([1 if d == axis else n for d, n in enumerate(values.shape)], FAR)
    padded = np.concatenate([values, wall], axis=axis)
    pairs = np.stack([first, last + 1], axis=1).ravel()
    result = np.minimum.reduceat(padded, pairs, axis=axis)
    return np.take(result, np.arange(0, 2 * len(first), 2), axis=axis)
