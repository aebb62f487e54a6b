"""Trees on cells: every test a comparison of whole numbers.

An *axis* is a number, the category of a block, or a flag. Along it lie *cells*, of which no test sees the inside: of a
number the intervals between thresholds ``(e_{r−1}, e_r]``, of a block its categories. A number whose value may be
missing has one more cell, behind all others, which is the missing value. A test is then ``cell <= rank``; one of a set
of categories is a chain of these, one for each run of the set.

**Soundness.** ``x <= e_r`` holds just where fewer than ``r + 1`` edges are below ``x``: cells are found by the
comparisons of the trees themselves. Of whole numbers (realizable domain) a threshold is moved down to the largest
lattice point that is not above it, by the encoder's own expression: the same people are on each side. Thresholds
beyond the range of a domain have everybody on one side. So no cell is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import Array, down, up
from isonomy_verify.branches import states_of
from isonomy_verify.domain import Domain, Mask
from isonomy_verify.heads import Head
from isonomy_verify.regions import Index
from isonomy_verify.similar import LATTICE_MARGIN
from isonomy_verify.trees import AS_FILL, LEFT, TreeError, Trees

ALWAYS = 2**30
"""A rank above every cell."""


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis: the coordinates ``start`` to ``stop`` of a number, flag or block; the ``edges`` between the cells of a
    number, ``first`` and ``last`` the least and greatest value in each; ``flag`` and ``fill`` of one that may be
    missing."""

    start: int
    stop: int
    numeric: bool
    edges: Array
    first: Array
    last: Array
    flag: int = -1
    fill: float = 0.0

    @property
    def cells(self) -> int:
        """Return the number of cells, that of a missing value included."""
        return len(self.first)

    @property
    def numbers(self) -> int:
        """Return the number of cells without that of a missing value."""
        return self.cells - (self.flag >= 0)

    def cell(self, x: Array) -> Index:
        """Return the cells (n,) of people (n, m)."""
        if not self.numeric:
            block = x[:, self.start : self.stop]
            return (block[:, 0] if block.shape[1] == 1 else block.argmax(1)).astype(np.int64)
        cell = np.searchsorted(self.edges, x[:, self.start], side="left")
        return cell if self.flag < 0 else np.where(x[:, self.flag] == 1.0, self.numbers, cell)


class Boxes(NamedTuple):
    """Sets of people as boxes of cells: whose, the first and last cell (rows, axes), and of axes with gaps between
    them which cells (rows, cells) are allowed; the values (rows, axes) between which numbers move."""

    owner: Index
    low: Index
    high: Index
    allowed: dict[int, Mask]
    least: Array
    most: Array

    def of(self, rows: Index | slice) -> Boxes:
        """Return some rows."""
        allowed = {axis: mask[rows] for axis, mask in self.allowed.items()}
        return Boxes(self.owner[rows], self.low[rows], self.high[rows], allowed, self.least[rows], self.most[rows])


class Cells:
    """Trees made ready for a domain and a head: nodes that compare cells, leaves that add to margins.

    Leaves are their own children. A node may have two parents, where a set of categories has several runs.
    """

    def __init__(self, trees: Trees, domain: Domain, head: Head) -> None:
        trees.check(domain, head)
        self.domain, self.sums = domain, trees.sums
        gain, self.base = self.sums.margins(trees, head)
        self.axes = _axes(trees, domain)
        places = {axis.start: k for k, axis in enumerate(self.axes)}
        places |= {axis.flag: k for k, axis in enumerate(self.axes) if axis.flag >= 0}
        place = np.zeros(domain.width + 1, dtype=np.int64)
        for start, k in places.items():
            place[start] = k
        self.leaf: Mask = trees.coordinate < 0
        me = np.arange(len(self.leaf))
        self.axis = np.where(self.leaf, 0, place[trees.coordinate])
        self.left, self.right = (np.where(self.leaf, me, child) for child in (trees.left, trees.right))
        self.rank = np.full(len(me), ALWAYS)
        self.root, self.gain = trees.roots, gain
        self._compare(trees)
        self.leaf = np.concatenate([self.leaf, np.zeros(len(self.rank) - len(me), dtype=bool)])
        self.gain = np.concatenate([gain, np.zeros((len(self.rank) - len(me), gain.shape[1]), dtype=np.int64)])
        self.tested: Mask = np.bincount(self.axis[~self.leaf], minlength=len(self.axes)) > 0
        self.counts = np.array([axis.cells for axis in self.axes])

    def _compare(self, trees: Trees) -> None:
        """Give every node its rank; those that one comparison does not say become several."""
        more: list[tuple[int, int, int, int]] = []  # axis, rank, left, right of further nodes

        def add(node: tuple[int, int, int, int]) -> int:
            more.append(node)
            return len(self.leaf) + len(more) - 1

        for k, axis in enumerate(self.axes):
            mine = ~self.leaf & (self.axis == k)
            tests = np.flatnonzero(mine & (trees.category < 0))
            limits = _canonical(axis, self.domain, trees.threshold[tests])
            rank = np.searchsorted(axis.edges, limits, side="right") - 1
            beyond = limits >= self.domain.high[axis.start] if self.domain.kind != "unbounded" else limits == np.inf
            self.rank[tests] = np.where(beyond, axis.numbers - 1, rank)
            if axis.flag >= 0:
                sent = trees.missing[tests]
                back = (sent == LEFT) | ((sent == AS_FILL) & (axis.fill <= trees.threshold[tests]))
                for i in tests[back].tolist():
                    left = int(self.left[i])
                    inner = add((k, int(self.rank[i]), left, int(self.right[i])))
                    self.rank[i], self.left[i], self.right[i] = axis.numbers - 1, inner, left
            sets = np.flatnonzero(mine & (trees.category >= 0))
            ends_of: dict[int, tuple[list[int], list[bool]]] = {}
            for i in sets.tolist():
                row = int(trees.category[i])
                if row not in ends_of:
                    ends_of[row] = _runs(trees.masks[row], axis)
                ends, sides = ends_of[row]
                children = [int(self.left[i] if side else self.right[i]) for side in sides]
                right = children[-1]
                for end, child in zip(reversed(ends[1:-1]), reversed(children[1:-1]), strict=True):
                    right = add((k, end, child, right))
                self.rank[i], self.left[i], self.right[i] = ends[0], children[0], right
        if more:
            parts = np.array(more, dtype=np.int64).T
            names = ("axis", "rank", "left", "right")
            for name, part in zip(names, parts, strict=True):
                setattr(self, name, np.concatenate([getattr(self, name), part]))

    def axes_of(self, free: Mask) -> list[int]:
        """Return the axes of coordinates (m,)."""
        return [k for k, axis in enumerate(self.axes) if free[axis.start] or (axis.flag >= 0 and free[axis.flag])]

    def at(self, x: Array) -> Index:
        """Return the cells (n, axes) of people (n, m)."""
        return np.stack([axis.cell(x) for axis in self.axes], axis=1) if self.axes else np.zeros((len(x), 0), int)

    def boxes(self, owner: Index, centre: Array, low: Array, high: Array) -> tuple[Boxes, Mask]:
        """Return the boxes of cells of everybody at a centre (rows, m) moved by ``low`` to ``high``, and which rows are
        not empty."""
        n, a = len(centre), len(self.axes)
        first, last = np.zeros((n, a), dtype=np.int64), np.zeros((n, a), dtype=np.int64)
        least, most, allowed = np.zeros((n, a)), np.zeros((n, a)), {}
        alive = np.ones(n, dtype=bool)
        for k, axis in enumerate(self.axes):
            if not axis.numeric:
                mask = states_of((axis.start, axis.stop), centre, low, high)[1]
                first[:, k], last[:, k] = mask.argmax(1), mask.shape[1] - 1 - mask[:, ::-1].argmax(1)
                if (last[:, k] - first[:, k] >= mask.sum(1)).any():
                    allowed[k] = mask
                continue
            j = axis.start
            sides = (low[:, j], down), (high[:, j], up)  # of which no move at all is exact
            bottom, top = (np.where(by == 0, centre[:, j], step(centre[:, j] + by)) for by, step in sides)
            if self.domain.kind != "unbounded":
                bottom, top = np.maximum(bottom, self.domain.low[j]), np.minimum(top, self.domain.high[j])
            missing = np.zeros(n, dtype=bool)
            present = ~missing
            if axis.flag >= 0:
                can = states_of((axis.flag, axis.flag + 1), centre, low, high)[1]
                present, missing = can[:, 0], can[:, 1] & (bottom <= axis.fill) & (axis.fill <= top)
            bottom, top = _on_lattice(self.domain, j, bottom, top)
            present = present & (bottom <= top)
            ends = [np.searchsorted(axis.edges, end, side="left") for end in (bottom, top)]
            first[:, k] = np.where(present, ends[0], axis.cells - 1)
            last[:, k] = np.where(missing, axis.cells - 1, ends[1])
            least[:, k], most[:, k] = np.where(present, bottom, axis.fill), np.where(present, top, axis.fill)
            both = present & missing & (ends[1] < axis.numbers - 1)
            if both.any():
                c = np.arange(axis.cells)
                mask = (c >= ends[0][:, None]) & (c <= ends[1][:, None]) & present[:, None]
                mask[:, -1] = missing
                allowed[k] = mask | ~both[:, None] & (c >= first[:, k][:, None]) & (c <= last[:, k][:, None])
            alive &= present | missing
        return Boxes(owner, first, last, allowed, least, most), alive

    def sum_at(self, x: Array) -> Index:
        """Return the margins (n, margins) of people (n, m), in whole numbers."""
        cell, n = self.at(x), len(x)
        total = np.tile(self.base, (n, 1))
        at = np.arange(n)
        for start in range(0, len(self.root), step := max(1, 2**20 // max(1, n))):
            node = np.tile(self.root[start : start + step], (n, 1))
            while not self.leaf[node].all():
                node = np.where(
                    cell[at[:, None], self.axis[node]] <= self.rank[node], self.left[node], self.right[node]
                )
            total += self.gain[node].sum(1)
        return total


def _runs(mask: Mask, axis: Axis) -> tuple[list[int], list[bool]]:
    """Return the last cell of each run of states that go one way, and whether that is left."""
    if axis.numeric:  # the flag of a missing value: all numbers, then the last cell
        ends, sides = [axis.numbers - 1, axis.numbers], [bool(mask[0]), bool(mask[1])]
    else:
        states = mask[: axis.cells]
        ends = [*np.flatnonzero(states[1:] != states[:-1]).tolist(), axis.cells - 1]
        sides = [bool(states[end]) for end in ends]
    if len(ends) == 1:
        return [ALWAYS, ALWAYS], sides * 2
    return ends, sides


def _axes(trees: Trees, domain: Domain) -> list[Axis]:
    """Return the axes that trees test."""
    flags: dict[int, tuple[int, float]] = {}
    for flag, value, fill in domain.fills:
        if value in flags or any(flag == other for other, _ in flags.values()):
            raise TreeError(f"Trees take one flag for each number that may be missing: see '{domain.names[value]}'.")
        flags[value] = flag, fill
    tested = set(np.unique(trees.coordinate[trees.coordinate >= 0]).tolist())
    axes, nothing = [], np.zeros(0)
    for j in np.flatnonzero(domain.numeric).tolist():
        flag, fill = flags.get(j, (-1, 0.0))
        if j not in tested and flag not in tested:
            continue
        rows = (trees.coordinate == j) & (trees.category < 0)
        axis = Axis(j, j + 1, True, nothing, nothing, nothing, flag, fill)
        edges = np.unique(_canonical(axis, domain, trees.threshold[rows]))
        if domain.kind == "unbounded":
            edges = edges[np.isfinite(edges)]
        else:  # of which nobody is on the other side
            edges = edges[(edges >= domain.low[j]) & (edges < domain.high[j])]
        first, last = np.append(-np.inf, _above(axis, domain, edges)), np.append(edges, np.inf)
        if flag >= 0:
            first, last = np.append(first, fill), np.append(last, fill)
        axes.append(replace(axis, edges=edges, first=first, last=last))
    for start, stop in domain.blocks:
        if start in tested and not any(start == flag for flag, _ in flags.values()):
            states = np.arange(max(2, stop - start), dtype=np.float64)
            axes.append(Axis(start, stop, False, nothing, states, states))
    return axes


def _lattice(domain: Domain, j: int) -> bool:
    return bool(domain.kind == "realizable" and domain.integer[j])


def _point(domain: Domain, j: int, k: Array) -> Array:
    """Return the coordinate of whole numbers, as the encoder computes it."""
    with np.errstate(all="ignore"):
        return np.asarray((k - domain.origin[j]) / domain.unit[j])


def _canonical(axis: Axis, domain: Domain, threshold: Array) -> Array:
    """Return the largest lattice point that is not above a threshold; other numbers keep their thresholds."""
    j = axis.start
    if not _lattice(domain, j):
        return threshold
    with np.errstate(all="ignore"):
        whole = np.floor(threshold * domain.unit[j] + domain.origin[j])
        best = np.full(threshold.shape, -np.inf)
        for step in (-2.0, -1.0, 0.0, 1.0, 2.0):
            point = _point(domain, j, whole + step)
            best = np.where(point <= threshold, np.maximum(best, point), best)
        # Beyond 2^50 neighbours of a whole number are no steps of the lattice.
        fine = np.isfinite(whole) & (np.abs(whole) < 2**50) & np.isfinite(best)
    return np.where(fine, best, threshold)


def _above(axis: Axis, domain: Domain, edges: Array) -> Array:
    """Return the least value above each edge: the next lattice point, or the next float."""
    j = axis.start
    if not _lattice(domain, j):
        return np.asarray(up(edges))
    with np.errstate(all="ignore"):
        whole = np.rint(edges * domain.unit[j] + domain.origin[j])
        after = _point(domain, j, whole + 1)
    return np.where(np.isfinite(after) & (after > edges) & (np.abs(whole) < 2**50), after, up(edges))


def _on_lattice(domain: Domain, j: int, low: Array, high: Array) -> tuple[Array, Array]:
    """Return intervals narrowed to the lattice points within them.

    **Soundness.** A point outside by less than :data:`~isonomy_verify.similar.LATTICE_MARGIN` still counts, which is
    far above every rounding.
    """
    if not _lattice(domain, j):
        return low, high
    with np.errstate(all="ignore"):
        first, last = (end * domain.unit[j] + domain.origin[j] for end in (low, high))
        margin = LATTICE_MARGIN * np.maximum(1.0, np.maximum(np.abs(first), np.abs(last)) + abs(domain.origin[j]))
        first, last = np.ceil(first - margin), np.floor(last + margin)
        fine = (np.abs(first) < 2**50) & (np.abs(last) < 2**50) & (margin < 0.25)
    return np.where(fine, _point(domain, j, first), low), np.where(fine, _point(domain, j, last), high)
