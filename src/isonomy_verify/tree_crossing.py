"""Can protected features alone take a score of trees from ``l`` or less to ``u`` or more, anywhere in the domain?

Problem: are there other features ``x`` and protected ones ``a`` and ``b`` with ``F(x, a) ≥ u`` and ``F(x, b) ≤ l``? If
so, then for every weight ``λ`` from 0 to 1

    λ F(x, a) − (1 − λ) F(x, b)  ≥  λ u − (1 − λ) l,

so a box of cells of ``(x, a, b)`` has no such people as soon as one ``λ`` keeps the left side below the right one. The
left side is a sum over trees of pairs of leaves, to which the bound of :mod:`isonomy_verify.tree_search` applies:
``λ = 1/2`` asks whether the gap is smaller than ``u − l``, and trees that test nothing protected cancel; ``λ = 1``
whether ``F(x, a)`` reaches ``u`` at all, ``λ = 0`` whether ``F(x, b)`` falls to ``l``. Boxes are halved, and each has a
weight of its own: a small one lies mostly on one side. One weight for the whole domain shows nothing where ``u = l``
and some people score more, some less, since ``a = b`` then attains ``(2λ − 1)(F − u) > 0`` for ``λ ≠ 1/2``.

Weights are multiples of ``1 / SCALE``, values whole numbers, rounded up. Small boxes are summed up on a grid, both
scores of every cell.

**Soundness.** The inequality is that of the two demands, weighted; every value is at least what it stands for. Halves
cover the box that is cut, and every box that is not cut is excluded by its own bound or grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy_verify.regions import Index
from isonomy_verify.tree_boxes import Pieces, compress, sums
from isonomy_verify.tree_global import SMALL_GRID, SWEEPS, Pairs, check_cuts
from isonomy_verify.tree_search import HELD, Fields, Part
from isonomy_verify.trees import TreeError

SCALE = 8
"""Weights are multiples of one by this."""


class Halving(NamedTuple):
    """How boxes are cut, as a hint has it (:class:`~isonomy_verify.tree_global.Hint`), and of each the weight of the
    first sum, (cuts + 1,) multiples of one by :data:`SCALE`."""

    cuts: Index
    weights: Index


class Crossing:
    """The demand that a first sum is at least ``above`` and a second one at most ``below``, in whole numbers."""

    def __init__(self, pairs: Pairs, below: int, above: int) -> None:
        self.pairs, self.below, self.above = pairs, below - pairs.rest, above - pairs.rest
        self._fields: dict[int, Fields] = {}

    def fields(self, weight: int) -> Fields:
        """Return the pieces with their weighted values, rounded up."""
        if weight not in self._fields:
            tree, low, high, first, second = self.pairs[:5]
            self._fields[weight] = Fields(tree, low, high, -(((SCALE - weight) * second - weight * first) // SCALE))
        return self._fields[weight]

    def goal(self, weight: int) -> int:
        """Return the greatest weighted sum that excludes the demand."""
        return (weight * self.above - (SCALE - weight) * self.below - 1) // SCALE

    def root(self, weight: int) -> Part:
        """Return the whole domain."""
        return Part(self.fields(weight), self.pairs.start, self.pairs.end, {})

    def half(self, part: Part, old: int, weight: int, cut: tuple[int, int, bool]) -> Part:
        """Return a half of a part of an ``old`` weight; where the weight is the same it keeps its ``h``."""
        return part.half(*cut, None if weight == old else self.fields(weight))

    def excluded(self, part: Part, weight: int) -> bool:
        """Return whether no cell of a part meets the demand, by its bound or its grid."""
        goal = self.goal(weight)
        if part.bound() <= goal or part.diffuse(SWEEPS, goal, goal) <= goal:
            return True
        return part.cells <= SMALL_GRID and self.cell(part) is None

    def cell(self, part: Part) -> Index | None:
        """Return a cell of a small part that meets the demand, if there is one."""
        fields, (low, high) = part.fields, part.box
        row = np.zeros(len(fields.tree), dtype=np.int64)
        grid = compress(Pieces(row[:0], row[:0], row, fields.tree, fields.low, fields.high, row), low[None], high[None])
        one, two = (
            sums(1, row, grid.low, grid.stop, grid.counts, side[part.rows])[0]
            for side in (self.pairs.first, self.pairs.second)
        )
        good = np.logical_and(one >= self.above, two <= self.below)
        if not good.any():
            return None
        at = np.unravel_index(int(good.argmax()), good.shape)
        return np.array([side[0, i] for side, i in zip(grid.first, at, strict=True)], dtype=np.int64)


def refuted(crossing: Crossing, cover: Halving) -> bool:
    """Return whether the demand is met nowhere in the domain, as a cover shows."""
    pairs, (cuts, weights) = crossing.pairs, cover
    check_cuts(cuts, pairs.start, pairs.end)
    if weights.shape != (len(cuts) + 1,) or not ((weights >= 0) & (weights <= SCALE)).all():
        raise TreeError(f"A cover has a weight from 0 to {SCALE} for each of its boxes.")
    if not len(pairs.tree):
        return crossing.above > 0 or crossing.below < 0
    cut_boxes, held = set(cuts[:, 0].tolist()), 0
    root, boxes = crossing.root(int(weights[0])), dict[int, Part]()
    done = crossing.excluded(root, int(weights[0]))
    if 0 not in cut_boxes:
        return done
    boxes[0] = root
    root.shed()
    for name, (parent, axis, cell, side) in enumerate(cuts.tolist(), start=1):
        weight = int(weights[name])
        part = crossing.half(boxes[parent], int(weights[parent]), weight, (axis, cell, bool(side)))
        done = crossing.excluded(part, weight)
        if name in cut_boxes:
            part.shed()
            boxes[name], held = part, held + part.held
            if held > 8 * HELD:
                raise TreeError("A cover keeps too many boxes waiting.")
        elif not done:
            return False
        if side:
            held -= boxes.pop(parent).held if parent else 0
    return True
