"""Branch and bound: the regions cut into parts, each bounded on its own.

Problem: bound ``s · output(y)``, ``s = ±1``, over a region, closer than one pass does. A *part* of a region holds those
``y`` whose pre-activations lie in given ranges, ``low ≤ z_k(y) ≤ high``, and whose moves lie in a given box. Cutting a
part at a value of one pre-activation, or of one coordinate, gives two parts that cover it; over each the activations
bend less. So the regions are the roots of binary trees, and the largest bound of any leaf of a tree bounds its root.

A part is bounded by one backward pass. What is free in it are :class:`Hints`: the slopes of the lines below open ReLUs,
where other lines touch, and a multiplier for each neuron that was cut, which adds ``m (z − low) ≥ 0`` or
``m (z − high) ≥ 0``. Nothing here looks for them: :meth:`Leaves.enclose` opens parts, and :meth:`Leaves.derive` takes
what :mod:`isonomy_verify.hints.ascent`, or a linear program of the library, makes of them.

**Soundness.** A tree only ever changes by :meth:`Leaves.split`, whose halves share the cut (or leave out what the
caller knows to be empty), and a leaf's bound only by a pass over ranges that were proved for it or inherited from the
part that holds it. A leaf is closed with its bound. Any hint makes bounds larger or smaller, never false: a slope is
held to [0, 1], the intercepts of lines are the kernel's, a multiplier may have either sign. An empty part, whose ranges
contradict each other by more than rounding, is bounded by minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array
from isonomy_verify.enclosure import BLOCK, Prepared, Run, linear_image_of
from isonomy_verify.lines import Lines
from isonomy_verify.regions import BallBox, Index, Region

Bools = NDArray[np.bool_]


class Hints(NamedTuple):
    """What a pass over parts (n) is free to choose, an array (n, width) for each hidden layer."""

    slopes: list[Any]  # of lines below open ReLUs
    places: list[Any]  # where lines of other activations touch; parallel lines where this is no number, or None
    multipliers: list[Array] | None = None  # of neurons that were cut
    split: Array | None = None  # of the region's support


class Parts(NamedTuple):
    """Leaves that are open for a bound: the run over them, and which of them are empty."""

    rows: Index
    run: Run
    empty: Bools


class Found(NamedTuple):
    """What a search says of parts that it bounded again: where to look, and where to cut."""

    moves: Array  # (n, m): about where the pass is largest
    layer: Index  # (n,): the layer with the neuron whose lines cost most there; −1: none costs anything
    column: Index
    value: Array  # where to cut it


class Leaves:
    """The leaves of one binary tree for each root: a region around ``x`` (n, m), an output and a sign.

    ``bound`` is what is known of each open leaf, ``root`` whose leaf it is. Rows of the arrays are used again.
    """

    @np.errstate(all="ignore")  # what overflows ends as an infinite bound
    def __init__(
        self, prepared: Prepared, x: Array, region: BallBox | None, output: Index, sign: Array, bound: Array
    ) -> None:
        """``bound`` (n,) is what is already known; without a region all share the prepared one."""
        self.prepared, self.x, self.region, self.output, self.sign = prepared, x, region, output, sign
        self.closed = np.full(len(x), -np.inf)
        self.widths = [layer.width for layer in prepared.network.layers[:-1]]
        self.start = [np.array(layer.bias[None]) for layer in prepared.network.layers]
        shapes: dict[str, tuple[int, Any]] = {"root": (0, np.int64), "bound": (0, np.float64), "since": (0, np.int64)}
        for k, width in enumerate(self.widths):
            shapes |= {f"low{k}": (width, np.float64), f"high{k}": (width, np.float64)}
            shapes |= {
                f"slope{k}": (width, np.float32),
                f"multiplier{k}": (width, np.float32),
                f"cut{k}": (width, bool),
            }
        if region is not None:
            shapes |= {"box low": (x.shape[1], np.float64), "box high": (x.shape[1], np.float64)}
        self._kept = {
            name: np.zeros((len(x), width) if width else len(x), dtype) for name, (width, dtype) in shapes.items()
        }
        self.open: Bools = np.ones(len(x), dtype=bool)
        self._kept["root"][:], self._kept["bound"][:] = np.arange(len(x)), bound
        self._kept["since"][:] = len(self.widths)  # a root's ranges are as good as they get
        for k, layer in enumerate(prepared.network.layers):
            if layer.blocks and layer.blocks[0].source == 0:
                self.start[k] = np.empty((len(x), layer.width))
        for first in range(0, len(x), BLOCK):
            self._begin(slice(first, first + BLOCK))

    def __len__(self) -> int:
        return int(self.open.sum())

    @property
    def root(self) -> Index:
        """The root of each row."""
        return self._kept["root"]

    @property
    def bound(self) -> Array:
        """What is known of each row, if it is open."""
        return self._kept["bound"]

    def upper(self) -> Array:
        """The largest bound of any leaf of each root, closed or open."""
        found = self.closed.copy()
        np.maximum.at(found, self.root[self.open], self.bound[self.open])
        return found

    @property
    def kept(self) -> list[Array]:
        """Everything that is kept of leaves, one row each."""
        return list(self._kept.values())

    @property
    def curved(self) -> bool:
        """Is some activation no piecewise straight function?"""
        activations = [layer.activation for layer in self.prepared.network.layers]
        return any(f is not None and f.shape.curvature > 0 for f in activations)

    def close(self, rows: Index) -> None:
        """Take leaves as they are: their bounds count, and nothing more is done about them."""
        np.maximum.at(self.closed, self.root[rows], self.bound[rows])
        self.open[rows] = False

    @np.errstate(all="ignore")
    def enclose(self, rows: Index) -> Parts:
        """Open leaves: a run over them with the ranges that are known, derived again behind cuts."""
        roots, since = self.root[rows], int(self._kept["since"][rows].min())
        region: Region | None = None
        if self.region is not None:
            region = self.region[roots].boxed(*self.box(rows))
        start = [each if len(each) == 1 else each[roots] for each in self.start]
        linear_images = None
        if region is not None:  # without their ranges, which are known, unless a box was cut
            linear_images = [linear_image_of(layer, region, ranges=since < 0) for layer in self.prepared.network.layers]
        run = Run(self.prepared, self.x[roots], region, start, linear_images)
        last, empty = len(self.widths), np.zeros(len(rows), dtype=bool)
        for k in range(last):
            low, high = self.ranges(k, rows)
            run.weigh(k)
            behind = since < k and since < last - 1
            if behind:
                first, final = run.interval(k)
                low, high = np.maximum(low, first), np.minimum(high, final)
            empty |= (low > high).any(1)
            run.range.append((np.minimum(low, high), high))
            run.relax(k)
            if k and behind:
                run.tighten(k)
            self._kept[f"low{k}"][rows], self._kept[f"high{k}"][rows] = run.range[k]
        run.weigh(last)
        self._kept["since"][rows] = last
        return Parts(rows, run, empty)

    @np.errstate(all="ignore")
    def derive(self, parts: Parts, hints: Hints) -> None:
        """Bound open parts by one pass with these hints; what is known of them already stays known."""
        root, run = self.root[parts.rows], parts.run
        lines = [_lines(run, k, hints) for k in range(len(self.widths))]
        bound = run.side(self.output[root], self.sign[root], lines, (), hints.multipliers, hints.split)[1][0]
        bound = np.where(run.overflow, np.inf, np.where(parts.empty, -np.inf, bound))
        self.bound[parts.rows] = np.minimum(self.bound[parts.rows], bound)

    def fresh(self, rows: Index) -> Bools:
        """Return which leaves (rows,) have ranges as tight as they get."""
        return np.asarray(self._kept["since"][rows] >= len(self.widths) - 1)

    def hints(self, rows: Index) -> tuple[list[Any], list[Any], list[Bools]]:
        """Return the slopes and multipliers that were last kept of leaves, and which neurons were cut."""
        slopes, multipliers, cut = (
            [self._kept[f"{name}{k}"][rows] for k in range(len(self.widths))] for name in ("slope", "multiplier", "cut")
        )
        return slopes, multipliers, cut

    def keep(self, rows: Index, slopes: list[Any], multipliers: list[Any]) -> None:
        """Keep slopes and multipliers with leaves, for their halves to begin with."""
        for k in range(len(self.widths)):
            self._kept[f"slope{k}"][rows], self._kept[f"multiplier{k}"][rows] = slopes[k], multipliers[k]

    def split(self, rows: Index, layer: Index, column: Index, end: Array, begin: Array | None = None) -> Index:
        """Cut leaves in two: rows keep what is at most ``end``, new ones (returned) get what is at least ``begin``.

        ``layer`` −1 cuts the move of a coordinate. ``begin`` is ``end`` unless the caller knows that no individual is
        between them. Both halves keep the bound of the whole until they are improved.
        """
        begin = end if begin is None else begin
        if not (np.isfinite(end).all() and np.isfinite(begin).all()):
            raise ValueError("A cut must be at a finite number.")
        fresh = self._free_rows(len(rows))
        for kept in self._kept.values():
            kept[fresh] = kept[rows]
        self.open[fresh] = True
        for k in range(-1, len(self.widths)):
            some = layer == k
            if not some.any():
                continue
            lower, upper, at = rows[some], fresh[some], column[some]
            names = ("box low", "box high") if k < 0 else (f"low{k}", f"high{k}")
            low, high = (self._kept[name] for name in names)
            high[lower, at] = np.minimum(high[lower, at], end[some])
            low[upper, at] = np.maximum(low[upper, at], begin[some])
            # Where a range leaves rounding out, a cut beyond its end does not show that nobody is there.
            low[lower, at], high[upper, at] = (
                np.minimum(low[lower, at], high[lower, at]),
                np.maximum(low[upper, at], high[upper, at]),
            )
            for half in (lower, upper):
                self._kept["since"][half] = np.minimum(self._kept["since"][half], k)
                if k >= 0:
                    self._kept[f"cut{k}"][half, at] = True
        return fresh

    def box(self, rows: Index) -> tuple[Array, Array]:
        """The boxes of moves of leaves of regions that differ."""
        return self._kept["box low"][rows], self._kept["box high"][rows]

    def ranges(self, k: int, rows: Index) -> tuple[Array, Array]:
        """What is proved of a layer's pre-activations over leaves."""
        return self._kept[f"low{k}"][rows], self._kept[f"high{k}"][rows]

    # -- inside ------------------------------------------------------------------------------------------------------

    def _free_rows(self, count: int) -> Index:
        """Rows that are free."""
        free = np.flatnonzero(~self.open)
        if len(free) < count:
            more = max(count, len(self.open) // 2)
            free = np.append(free, np.arange(len(self.open), len(self.open) + more))
            for name, kept in self._kept.items():
                self._kept[name] = np.concatenate([kept, np.zeros((more, *kept.shape[1:]), kept.dtype)])
            self.open = np.append(self.open, np.zeros(more, dtype=bool))
        return free[:count]

    def _begin(self, rows: slice) -> None:
        """Ranges of roots, as tight as passes of their own make them."""
        region = None if self.region is None else self.region[rows]
        run = Run(self.prepared, self.x[rows], region).forward()
        for k, start in enumerate(run.start):
            if run.linear_images[k] is not None:
                self.start[k][rows] = start
        for k in range(len(self.widths)):
            self._kept[f"low{k}"][rows], self._kept[f"high{k}"][rows] = run.range[k]
            self._kept[f"slope{k}"][rows] = run.lines[k].slope > 0.5
        if region is not None:
            self._kept["box low"][rows], self._kept["box high"][rows] = region.low, region.high
        self._kept["bound"][rows][run.overflow] = np.inf


def _lines(run: Run, k: int, hints: Hints) -> Lines:
    """Return lines of a layer with hinted slopes, or that touch at hinted places."""
    lines, activation = run.lines[k], run.layers[k].activation
    if activation is None or activation.kind != "relu":
        return lines if hints.places[k] is None else run.touched(k, hints.places[k])
    open_ = (lines.slope > 0) & (lines.slope < 1)
    slope = np.clip(hints.slopes[k].astype(np.float64), 0.0, 1.0)
    return lines._replace(low_slope=np.where(open_, slope, lines.slope))


Improve = Callable[[Leaves, Index, Array], Found]
"""A search: it bounds open leaves again by hints of its own, as far as targets (rows,) ask."""
