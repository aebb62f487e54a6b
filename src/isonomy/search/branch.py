"""Branch and bound over the similar sets of many individuals at once, for decisions and for values.

Problem: for each individual show that nobody similar is decided otherwise, or find somebody who is; or close the gap
between the largest violation that was proved and the largest that was found. Each region of a similar set and each goal
(an output and a direction) that is still open is the root of a tree of parts, which the kernel cuts and bounds
(:mod:`isonomy_verify.branching`). Here is decided which part comes next and where it is cut: parts of those who had the
fewest so far come first, and of these the one with the largest bound; a part is cut at the neuron whose lines cost most
where its pass is largest, or, with few coordinates that move, in two boxes. Where nothing bends any more a linear
program has the last word (:mod:`isonomy.search.leaves`). Every place where a pass is largest is looked at as somebody
who may be treated differently.

**Soundness.** All bounds and cuts are the kernel's, for whatever is chosen here. People that are met only ever count
through the judge of :mod:`isonomy.attacks`. Nothing depends on the clock unless a time limit is given: the same
question has the same answer, bit for bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import Judge, as_individuals, find_anchors, project_to_region
from isonomy.given import FINITE, number, whole
from isonomy.search.leaves import bound_by_linear_program
from isonomy.similarity.regions import Regions
from isonomy_verify.branching import Leaves
from isonomy_verify.cutting import SMALLEST, Cut, cut_box

BATCH = 512
"""Parts that are bounded together."""

FEW, CURVED = 3, 6
"""Up to this many coordinates that move, boxes are cut before neurons, if many of these are open, or if they are
curved: of a curve neither a cut nor a linear program is the end."""

LEAVES = 2**26
"""Numbers kept for parts that are still open (8 bytes each)."""

Index = NDArray[np.int64]
Target = Callable[[], FloatArray]


@dataclass(frozen=True)
class Limits:
    """When to stop: the gap between bound and find, the ε that matters, seconds, parts."""

    gap: float = 1e-6
    epsilon: float | None = None
    seconds: float = 60.0
    nodes: float = math.inf


def checked_limits(time_limit: float | None, gap: float, epsilon: float | None, max_nodes: int | None = None) -> Limits:
    """The limits that a caller gave, refused with a sentence if they make no sense."""
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    seconds = math.inf if time_limit is None else number("time_limit", time_limit, "None or a number of seconds >= 0")
    nodes = math.inf if max_nodes is None else whole("max_nodes", max_nodes)
    return Limits(number("gap", gap, "a finite number >= 0", high=FINITE), epsilon, seconds, nodes)


@dataclass
class Budget:
    """What may still be spent: parts, and the clock."""

    nodes: float
    deadline: float

    @property
    def left(self) -> bool:
        """May the search go on?"""
        return self.nodes > 0 and time.monotonic() < self.deadline


class Trees:
    """The trees of open regions and goals of one shape, with the people they belong to."""

    def __init__(self, leaves: Leaves, regions: Regions, judge: Judge, influence: FloatArray) -> None:
        """``regions`` has one row for each root."""
        self.leaves, self.regions, self.judge, self.influence = leaves, regions, judge, influence
        self.owner = regions.owner
        self.anchors, self.inside = find_anchors(regions.sets, len(regions))

    def search(self, target: Target, budget: Budget) -> FloatArray:
        """Bounds of all roots, improved until each is below its ``target`` or nothing is left to spend.

        ``target()`` gives for each root what would do, infinity where nothing more is asked.
        """
        leaves = self.leaves
        parts = np.zeros(len(self.judge.x), dtype=np.int64)
        row = sum(kept[0].nbytes for kept in leaves.kept) // 8 if len(leaves.open) else 1
        while budget.left and len(leaves.open) * row < LEAVES:
            goal = target()
            rows = np.flatnonzero(leaves.open)
            done = leaves.bound[rows] <= goal[leaves.root[rows]]
            leaves.close(rows[done])
            rows = rows[~done]
            if not len(rows):
                break
            owner = self.owner[leaves.root[rows]]
            first = np.lexsort((rows, -leaves.bound[rows], parts[owner]))[: int(min(BATCH, budget.nodes))]
            self._advance(np.sort(rows[first]), target, budget)
            np.add.at(parts, owner[first], 1)
            budget.nodes -= len(first)
        return leaves.upper()

    def _advance(self, rows: Index, target: Target, budget: Budget) -> None:
        """Bound parts, look at people in them, and cut those that still matter."""
        leaves = self.leaves
        roots = leaves.root[rows]
        found = leaves.improve(rows, target()[roots])
        matters = leaves.bound[rows] > target()[roots]
        self._submit_candidates(roots[matters], found.moves[matters])
        matters = leaves.bound[rows] > target()[roots]
        leaves.close(rows[~matters])
        layer, column, end, begin = found.layer.copy(), found.column.copy(), found.value.copy(), found.value.copy()
        cuts = np.flatnonzero(matters & (layer >= 0))
        for i in np.flatnonzero(matters):
            row = int(rows[i])
            if layer[i] < 0:
                if time.monotonic() > budget.deadline:  # it stays open, with its bound
                    continue
                move = bound_by_linear_program(leaves, row)
                if move is not None:
                    self._submit_candidates(roots[i : i + 1], move[None])
                if leaves.bound[row] <= target()[roots[i]]:
                    leaves.close(rows[i : i + 1])
                    matters[i] = False
                    continue
            elif not self._prefers_box_cut(row):
                continue
            cut = self._box_cut(row, whole_only=bool(layer[i] < 0))
            if cut is not None:
                layer[i], (column[i], end[i], begin[i]) = -1, cut
                cuts = np.union1d(cuts, [i])
            elif layer[i] < 0:  # nothing can be done about it
                leaves.close(rows[i : i + 1])
        if len(cuts):
            leaves.split(rows[cuts], layer[cuts], column[cuts], end[cuts], begin[cuts])

    def _prefers_box_cut(self, row: int) -> bool:
        """With few coordinates and many open neurons, halving the box settles more of them than cutting one."""
        if self.leaves.region is None:
            return False
        low, high = self.leaves.box(np.array([row]))
        moving = int(((high - low > SMALLEST) & (self.influence > 0)).sum())
        if self.leaves.curved:
            return moving <= CURVED
        return moving <= FEW and self.leaves.bending(row) > 4 * moving

    def _box_cut(self, row: int, whole_only: bool) -> Cut | None:
        if self.leaves.region is None:
            return None
        low, high = self.leaves.box(np.array([row]))
        centre = self.regions.centre[int(self.leaves.root[row])]
        return cut_box(self.judge.similarity.domain, centre, low[0], high[0], self.influence, whole_only)

    def _submit_candidates(self, roots: Index, moves: FloatArray) -> None:
        """Show the judge people at some places."""
        keep = self.inside[roots] & np.isfinite(moves).all(1)
        roots, moves = roots[keep], moves[keep]
        if not len(roots):
            return
        regions, anchors = self.regions[roots], self.anchors[roots]
        led = project_to_region(regions.sets, anchors, moves)
        for y in as_individuals(self.judge.similarity, regions, anchors, led):
            self.judge.consider(regions.owner, y)
