"""How unequally can trees treat individuals within reach of one?

Problem, for individuals ``x`` and radii ``r``: bound ``I(z, δ)`` over every possible ``z`` with ground cost
``c(x, z) ≤ r``. Around each ``x``, and for each choice of categories that the largest radius pays for, one grid of sums
holds every ``z`` and everybody similar to one: along each axis lie the places of ``z``, and the window of cells in
which a ``y`` similar to such a ``z`` lies. Windows of maxima give the worst ``y`` for every place at once, and the
least cost of a place says from which radius on it counts: all radii come from one pass.

**Soundness.** Windows and costs are rounded to inclusion. Where the metric looks at coordinates one by one, windows of
whole numbers are exact, place by place; else the window of a place is that of its whole interval, and the box around
the metric's ball. A grid that is too large, or categories that were not listed, are bounded tree by tree.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from isonomy_verify.tree_boxes import FAR, Balls, Grid, Pieces, allowed_groups, compress, project, sharing, sums
from isonomy_verify.tree_cells import Axis, Boxes, Cells

REACH_CELLS = 2**20
"""Cells of the grid around one individual, and places in it."""

VALUES = 128
"""Whole numbers along an axis up to which each is a place of its own."""


LEAVES = 512
"""Leaves of a tree in a box up to which pairs of them are looked at."""


class Places(NamedTuple):
    """Along one axis: the values (places,) between which each place of ``z`` lies, its group of cells, and the first
    and last group of cells of a similar individual."""

    least: Array
    most: Array
    group: Index
    first: Index
    last: Index


class TreeReach:
    """Trees, who is similar and what moving an individual costs, ready to bound violations over balls."""

    single_radius = own_passes = False  # one grid says the same of all radii

    def __init__(self, cells: Cells, head: Head, similarity: Similarity, ground: Form, error: Array) -> None:
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
        x = np.ascontiguousarray(x, dtype=np.float64)
        worst, seen = np.zeros((len(x), len(radii))), np.zeros(len(x), dtype=bool)
        balls = [self.ball.resized(radius) for radius in radii]
        try:
            balls[-1].regions(x[:1])
        except DeltaError:
            return np.full(worst.shape, np.inf)
        for regions in balls[-1].each(x):
            for near in regions.pieces(size):
                parts = [ball.parts(x, near) for ball in balls[:-1]]
                parts.append((near.sets, np.ones(len(near), dtype=bool)))
                for row in range(len(near)):
                    value = self._region(
                        near[np.array([row])], [(s[np.array([row])], bool(a[row])) for s, a in parts], tight
                    )
                    worst[near.owner[row]] = np.maximum(worst[near.owner[row]], value)
                seen[near.owner] = True
        worst[~seen] = np.inf
        return np.minimum(worst, self.head.largest)

    def stands(self, x: Array, radius: float, margin: float = 0.0, size: int = 1024) -> Mask:
        """Return whether (n,) each person within the radius of the rows of ``x`` has the decision of all similar ones,
        up to a ``margin`` of outputs.

        **Soundness.** The largest of the counts over all regions is 0 only where it is in each of them.
        """
        if not self.head.decides:
            return np.zeros(len(x), dtype=bool)
        head = replace(self.head, counts=True, margin=max(margin, self.head.margin))
        counting = TreeReach(self.cells, head, self.similarity, self.ground, self.error)
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
        return min(self._apart(whole, whole, between), self.head.largest), np.inf

    # -- one choice of categories -------------------------------------------------------------------------

    def _region(self, near: Regions, parts: list[tuple[ConvexSets, bool]], tight: bool) -> Array:
        """Return the bounds (radii,) over one region of ``z`` and what each radius leaves of it."""
        centre, sets = near.centre, near.sets
        low, high = (np.broadcast_to(side, centre.shape) for side in (sets.low, sets.high))
        fixed = ~self.domain.numeric
        between = self._between(centre, low, high)
        if between is None:
            return np.full(len(parts), np.inf)
        values = np.full(len(parts), np.inf)
        listed = not ((low < 0) | (high > 0))[:, fixed].any()
        for last in range(len(parts), 0, -1):  # the largest radius whose grid is small enough
            sets, alive = parts[last - 1]
            if not alive:
                values[:last] = 0.0
                break
            ends = tuple(np.broadcast_to(side, centre.shape) for side in (sets.low, sets.high))
            grid = self._grid(near, (ends[0], ends[1]), between, parts[:last]) if tight and listed else None
            if grid is not None:
                values[:last] = grid
                break
            values[last - 1] = self._crude(near, (ends[0], ends[1]), between)
        return values

    def _crude(self, near: Regions, moves: tuple[Array, Array], between: tuple[Array, Array]) -> float:
        """Return the bound of a region tree by tree, of both people and of their difference."""
        mine, alive = self.cells.boxes(near.owner, near.centre, *moves)
        if not alive.all():
            return 0.0
        hull, _ = self.cells.boxes(near.owner, near.centre, down(moves[0] + between[0]), up(moves[1] + between[1]))
        return self._apart(mine, hull, between)

    def _apart(self, mine: Boxes, hull: Boxes, between: tuple[Array, Array]) -> float:
        """Return the bound for ``z`` in one box and ``y`` in another, with ``y − z`` between two moves.

        In the difference only pairs of leaves count that meet along every axis on which the two people agree.
        """
        one, other = (self._tree_by_tree(project(self.cells, box)) for box in (mine, hull))
        pieces = project(self.cells, hull)
        agree = np.array([self._agree(self.cells.axes[k], between) for k in pieces.moving.tolist()], dtype=bool)
        ends = np.zeros((2, 1, pieces.gain.shape[1]), dtype=np.int64)
        _, begin = np.unique(pieces.tree, return_index=True)
        low, high = mine.low[0, pieces.moving], mine.high[0, pieces.moving]
        for start, stop in zip(begin, np.append(begin, len(pieces.tree))[1:], strict=True):
            first, last, gain = (side[start:stop] for side in (pieces.low, pieces.high, pieces.gain))
            if len(first) > LEAVES:  # too many pairs
                spread = gain.max(0) - gain.min(0)
                ends[0] -= spread
                ends[1] += spread
                continue
            i, j = sharing(first, last, np.flatnonzero(agree))
            here = ((first <= high) & (last >= low)).all(1)[j]
            change = gain[i[here]] - gain[j[here]]
            ends[0] += change.min(0)
            ends[1] += change.max(0)
        move = Enclosure(*self.cells.sums.real(ends[0], ends[1], 2 * self.error))
        return float(self.head.gap(one, other, move)[0])

    def _agree(self, axis: Axis, between: tuple[Array, Array]) -> bool:
        """Return whether two similar people have the same value along an axis."""
        columns = [*range(axis.start, axis.stop), *([axis.flag] if axis.flag >= 0 else [])]
        return not (between[0][0, columns].any() or between[1][0, columns].any())

    def _between(self, centre: Array, low: Array, high: Array) -> tuple[Array, Array] | None:
        """Return the least and greatest ``y − z`` (1, m) for ``z`` around a centre and ``y`` similar to it.

        **Soundness.** Regions know ``z`` with the categories of the centre only; where ``z`` may have others, what
        single coordinates leave holds whatever these are.
        """
        categories = ((low < 0) | (high > 0))[:, ~self.domain.numeric]
        if not len(self.similarity.form.root) or categories.any():
            return self.similarity.ranges(centre, (low, high))
        pieces = self.similarity.regions(centre, (low, high))
        if not pieces:
            return None
        ends = []
        for side, best in (("low", np.minimum), ("high", np.maximum)):
            moves = [np.broadcast_to(getattr(p.sets, side), p.centre.shape) + (p.centre - centre) for p in pieces]
            ends.append(best.reduce(np.concatenate(moves), axis=0)[None])
        return ends[0], ends[1]

    def _tree_by_tree(self, pieces: Pieces) -> Enclosure:
        """Return enclosures of the margins over one box, by the extreme leaf of every tree."""
        ends = []
        for best in (np.minimum, np.maximum):
            total = pieces.constant.copy()
            if len(pieces.tree):
                begin = np.flatnonzero(np.append(True, pieces.tree[1:] != pieces.tree[:-1]))
                total += best.reduceat(pieces.gain, begin, axis=0).sum(0)
            ends.append(total)
        return Enclosure(*self.cells.sums.real(ends[0], ends[1], self.error))

    def _grid(
        self,
        near: Regions,
        moves: tuple[Array, Array],
        between: tuple[Array, Array],
        parts: list[tuple[ConvexSets, bool]],
    ) -> Array | None:
        """Return the bounds (radii,) from the grid of everybody similar; None where that is too large."""
        cells, centre = self.cells, near.centre
        mine, alive = cells.boxes(near.owner, centre, *moves)
        hull, _ = cells.boxes(near.owner, centre, down(moves[0] + between[0]), up(moves[1] + between[1]))
        if not alive.all():
            return np.zeros(len(parts))  # nobody has these categories and such numbers
        pieces = project(cells, hull)
        moving = pieces.moving
        grid = compress(pieces, hull.low[:, moving], hull.high[:, moving])
        if grid.counts.astype(np.float64).prod() > REACH_CELLS:
            return None
        places = [
            self._places(cells.axes[k], int(k), mine, between, grid.first[d][0], grid.last[d][0])
            for d, k in enumerate(moving.tolist())
        ]
        if np.prod([float(len(p.group)) for p in places]) > REACH_CELLS:
            return None
        reached = self._reached(near, moving, places, parts)
        z, y = self._sums(pieces, grid, hull, places)
        worst = np.zeros(len(parts))
        which = np.flatnonzero(reached[-1])
        for start in range(0, len(which), 2**16):
            some = which[start : start + 2**16]
            ends = (
                self.cells.sums.real(z[some], z[some], self.error),
                self.cells.sums.real(y[0][some], y[1][some], self.error),
            )
            value = self.head.violation(Enclosure(*ends[0]), Enclosure(*ends[1]))
            for r, mask in enumerate(reached):
                worst[r] = max(worst[r], float(value[mask[some]].max(initial=0.0)))
        return worst

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

    def _reached(
        self, near: Regions, moving: Index, places: list[Places], parts: list[tuple[ConvexSets, bool]]
    ) -> list[Mask]:
        """Return which places (all, flat) each radius may reach."""
        centre, axes = near.centre, len(places)
        groups = []
        for k, place in zip(moving.tolist(), places, strict=True):
            own = centre[:, self.cells.axes[k].start] if self.cells.axes[k].numeric else np.zeros(1)
            ends = place.least[None] - own, place.most[None] - own
            still = np.isinf(place.least)[None]
            groups.append((np.where(still, -np.inf, ends[0]), np.where(still, np.inf, ends[1])))
        shape = tuple(len(place.group) for place in places)
        result = []
        for part, alive in parts:
            mask: Mask = np.full((1, *shape), alive)
            low, high = (np.broadcast_to(side, centre.shape).copy() for side in (part.low, part.high))
            for d, k in enumerate(moving.tolist()):
                axis = self.cells.axes[k]
                if axis.numeric and axis.flag < 0:
                    slack = 4 * U * (np.abs(centre[0, axis.start]) + 1)
                    inside = (groups[d][1][0] >= low[0, axis.start] - slack) & (
                        groups[d][0][0] <= high[0, axis.start] + slack
                    )
                    mask = mask & inside.reshape([1, *(len(inside) if e == d else 1 for e in range(axes))])
            numbers = self.domain.numeric
            root = np.where(numbers, part.root, 0.0)
            if len(root) and mask.any():
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
                            bounded[d] = tuple(
                                np.full_like(e, s) for e, s in zip(bounded[d], (-np.inf, np.inf), strict=True)
                            )
                balls = Balls(self.cells, root, part.order, radius, offset, centre)
                mask = mask & balls.within(low, high, moving, bounded)  # type: ignore[arg-type]
            result.append(np.broadcast_to(mask, (1, *shape)).ravel())
        return result

    def _sums(self, pieces: Pieces, grid: Grid, hull: Boxes, places: list[Places]) -> tuple[Index, tuple[Index, Index]]:
        """Return the margins (places, margins) of ``z``, and the least and greatest of everybody similar."""
        own, least, most = [], [], []
        for margin in range(pieces.gain.shape[1]):
            row = pieces.row
            total = sums(1, row, grid.low, grid.stop, grid.counts, pieces.gain[:, margin])[0]
            total += pieces.constant[0, margin]
            ends = [total, -total]
            for d, k in enumerate(pieces.moving.tolist()):
                if k in hull.allowed:
                    mask = allowed_groups(hull.allowed[k], grid.first[d], grid.last[d])[0]
                    shape = [-1 if e == d else 1 for e in range(total.ndim)]
                    ends = [np.where(mask.reshape(shape), end, FAR) for end in ends]
            for d, place in enumerate(places):
                ends = [_window(end, d, place.first, place.last) for end in ends]
            own.append(total[np.ix_(*(place.group for place in places))].ravel())
            least.append(ends[0].ravel())
            most.append(-ends[1].ravel())
        return np.stack(own, 1), (np.stack(least, 1), np.stack(most, 1))


def _window(values: Index, axis: int, first: Index, last: Index) -> Index:
    """Return the least value along an axis from ``first`` to ``last``, for each pair of these."""
    wall = np.full([1 if d == axis else n for d, n in enumerate(values.shape)], FAR)
    padded = np.concatenate([values, wall], axis=axis)
    pairs = np.stack([first, last + 1], axis=1).ravel()
    result = np.minimum.reduceat(padded, pairs, axis=axis)
    return np.take(result, np.arange(0, 2 * len(first), 2), axis=axis)
