"""Branch and bound over the similar sets of many individuals at once, for decisions and for values.

Problem: for each individual prove that no similar one has another decision, or find one that has; or close the gap
between upper and lower bound of the violation. Each region of a similar set and each goal (an output and a direction)
that is still open is the root of a tree of parts, which the kernel cuts and bounds (:mod:`isonomy_verify.branching`).
This module chooses the next part and its cut: parts of individuals with the fewest so far come first, and of these the
one with the largest bound; a part is cut at the neuron whose relaxation costs most where its pass is largest, or, with
few coordinates that move, in two boxes. Where all neurons are linear a linear program gives the bound
(:mod:`isonomy.search.leaves`). Every maximizer of a pass is a candidate for the judge.

**Soundness.** All bounds and cuts are the kernel's, for whatever is chosen here. Candidates only count through the
judge of :mod:`isonomy.attacks`. Nothing depends on the clock unless a time limit is given: the same question has the
same answer, bit for bit.
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
from isonomy.search.leaves import bound_by_linear_program, count_bending
from isonomy.similarity.regions import Regions
from isonomy_verify.branching import Leaves
from isonomy_verify.cutting import SMALLEST, Cut, cut_box
from isonomy_verify.hints.ascent import improve

BATCH = 512
"""Parts that are bounded together."""

FEW, CURVED = 3, 6
"""The most coordinates that move with which boxes are cut before neurons, if many of these are open, or if they are
curved: on a curve neither a cut nor a linear program is exact."""

LEAVES = 2**26
"""The most numbers held for open parts (8 bytes each)."""

Index = NDArray[np.int64]
Target = Callable[[], FloatArray]


@dataclass(frozen=True)
class Limits:
    """Limits of a search: the gap between upper and lower bound, ε, seconds, parts."""

    gap: float = 1e-6
    epsilon: float | None = None
    seconds: float = 60.0
    nodes: float = math.inf


def checked_limits(time_limit: float | None, gap: float, epsilon: float | None, max_nodes: int | None = None) -> Limits:
    """Check the limits that a caller gave."""
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    seconds = math.inf if time_limit is None else number("time_limit", time_limit, "None or a number of seconds >= 0")
    nodes = math.inf if max_nodes is None else whole("max_nodes", max_nodes)
    return Limits(number("gap", gap, "a finite number >= 0", high=FINITE), epsilon, seconds, nodes)


@dataclass
class Budget:
    """The remaining parts, and the deadline."""

    nodes: float
    deadline: float

    @property
    def left(self) -> bool:
        """Return whether the search may continue."""
        return self.nodes > 0 and time.monotonic() < self.deadline


class Trees:
    """The trees of open regions and goals of one shape, with their individuals."""

    def __init__(self, leaves: Leaves, regions: Regions, judge: Judge, influence: FloatArray) -> None:
        """Find the anchors of ``regions``, which have one row for each root."""
        self.leaves, self.regions, self.judge, self.influence = leaves, regions, judge, influence
        self.owner = regions.owner
        self.anchors, self.inside = find_anchors(regions.sets, len(regions))

    def search(self, target: Target, budget: Budget) -> FloatArray:
        """Return bounds of all roots, improved until each is below its ``target`` or the budget is spent.

        ``target()`` gives the bound (roots,) at which each is closed, infinity where it is already.
        """
        leaves = self.leaves
        parts = np.zeros(len(self.judge.x), dtype=np.int64)
        row = sum(array[0].nbytes for array in leaves.kept) // 8 if len(leaves.open) else 1
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
        """Bound parts, submit candidates in them, and cut those that are still above their target."""
        leaves = self.leaves
        roots = leaves.root[rows]
        best = improve(leaves, rows, target()[roots])
        above = leaves.bound[rows] > target()[roots]
        self._submit_candidates(roots[above], best.moves[above])
        above = leaves.bound[rows] > target()[roots]
        leaves.close(rows[~above])
        layer, column, end, begin = best.layer.copy(), best.column.copy(), best.value.copy(), best.value.copy()
        cuts = np.flatnonzero(above & (layer >= 0))
        for i in np.flatnonzero(above):
            row = int(rows[i])
            if layer[i] < 0:
                if time.monotonic() > budget.deadline:  # it stays open, with its bound
                    continue
                move = bound_by_linear_program(leaves, row)
                if move is not None:
                    self._submit_candidates(roots[i : i + 1], move[None])
                if leaves.bound[row] <= target()[roots[i]]:
                    leaves.close(rows[i : i + 1])
                    above[i] = False
                    continue
            elif not self._prefers_box_cut(row):
                continue
            cut = self._box_cut(row, whole_only=bool(layer[i] < 0))
            if cut is not None:
                layer[i], (column[i], end[i], begin[i]) = -1, cut
                cuts = np.union1d(cuts, [i])
            elif layer[i] < 0:  # no cut is left
                leaves.close(rows[i : i + 1])
        if len(cuts):
            leaves.split(rows[cuts], layer[cuts], column[cuts], end[cuts], begin[cuts])

    def _prefers_box_cut(self, row: int) -> bool:
        """Return whether to halve the box: with few coordinates and many open neurons that decides more of them than
        cutting one."""
        if self.leaves.region is None:
            return False
        low, high = self.leaves.box(np.array([row]))
        moving = int(((high - low > SMALLEST) & (self.influence > 0)).sum())
        if self.leaves.curved:
            return moving <= CURVED
        return moving <= FEW and count_bending(self.leaves, row) > 4 * moving

    def _box_cut(self, row: int, whole_only: bool) -> Cut | None:
        if self.leaves.region is None:
            return None
        low, high = self.leaves.box(np.array([row]))
        centre = self.regions.centre[int(self.leaves.root[row])]
        return cut_box(self.judge.similarity.domain, centre, low[0], high[0], self.influence, whole_only)

    def _submit_candidates(self, roots: Index, moves: FloatArray) -> None:
        """Submit the individuals at moves (k, m) from the centres of roots to the judge."""
        keep = self.inside[roots] & np.isfinite(moves).all(1)
        roots, moves = roots[keep], moves[keep]
        if not len(roots):
            return
        regions, anchors = self.regions[roots], self.anchors[roots]
        moves = project_to_region(regions.sets, anchors, moves)
        for y in as_individuals(self.judge.similarity, regions, anchors, moves):
            self.judge.consider(regions.owner, y)
