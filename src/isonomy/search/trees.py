"""Find how far protected features can move a margin of trees, anywhere in the domain, with a hint for the kernel."""

from __future__ import annotations

import heapq
import math
import time
from typing import NamedTuple

import numpy as np

from isonomy.population.domain import FloatArray
from isonomy_verify.regions import Index
from isonomy_verify.tree_cells import Cells
from isonomy_verify.tree_crossing import SCALE, Crossing, Halving
from isonomy_verify.tree_global import CUTS, SMALL_GRID, SWEEPS, Gap, Hint, Pairs, bound, gap_of
from isonomy_verify.tree_search import HELD, OFTEN, SELDOM, Part, everything, largest

ROOT = 60
"""Steps of diffusion over the whole domain."""

PARTS = 2000
"""Boxes into which the domain may be cut."""


WORK = 2**26
"""Pieces of all boxes together that a search for a gap looks at, some minutes; a crossing a quarter of these."""

CROSSINGS, STARTS = 1000, 8
"""Boxes in which two people on both sides of a margin are looked for, and cells drawn to begin with."""


class TreeGap(NamedTuple):
    """The result of a search: the pieces, whole numbers that are attained and proved, the number of boxes, the hint,
    and two individuals (2, m), equal but for protected features, who attain ``lower``, with their cell; None where
    nothing differs."""

    gap: Gap
    lower: int
    upper: int
    parts: int
    hint: Hint
    pair: FloatArray | None
    cell: Index | None = None


def find_gap(
    cells: Cells, protected: list[int], margin: int = 0, parts: int = PARTS, deadline: float = math.inf
) -> TreeGap:
    """Return the largest difference of a margin between values of the ``protected`` axes, and a hint that proves it.

    ``upper`` is what the kernel's search proves where it ends, else the tighter bound that the kernel derives from the
    hint, in which boxes that were left are worked on. The search ends after ``parts``, or at a ``deadline`` of the
    monotonic clock: then ``upper`` is its own.
    """
    gap = gap_of(cells, protected, margin)
    nothing = np.zeros((0, 4), dtype=np.int64)
    if not len(gap.fields.value):
        return TreeGap(gap, 0, 0, 0, Hint(nothing, {}, (0, 0)), None)
    parts = min(parts, CUTS // 4)
    result = largest(gap.fields, gap.low, gap.high, everything, SMALL_GRID, parts, (ROOT, SWEEPS),
                     lambda: time.monotonic() >= deadline, WORK)  # fmt: skip
    cuts = np.array(result.cuts, dtype=np.int64).reshape(-1, 4)
    hint = Hint(cuts, result.root.known, (result.aim, result.lower))
    upper = result.upper if result.upper == result.lower or deadline < math.inf else bound(gap, hint)
    pair = pair_in(cells, gap, result.first)
    return TreeGap(gap, result.lower, upper, result.parts, hint, pair, result.first)


def find_crossing(crossing: Crossing, starts: list[Index], parts: int = CROSSINGS) -> Index | Halving | None:
    """Return a cell that meets a demand, or a cover that shows that none does; None where neither is known after this
    many ``parts``. The search begins at cells, the ``starts``."""
    pairs, rng = crossing.pairs, np.random.default_rng(0)
    starts = [*starts, pairs.start, *(rng.integers(pairs.start, pairs.end + 1) for _ in range(STARTS))]
    for start in starts:
        if (at := _approach(crossing, start)) is not None:
            return at
    cuts: list[tuple[int, int, int, bool]] = []
    weights, waiting = [SCALE // 2], 0
    heap: list[tuple[int, int, Part | None]] = [(0, 0, None)] if len(pairs.tree) else []
    work = WORK // 4
    for used in range(parts):
        if not heap:
            return Halving(np.array(cuts, dtype=np.int64).reshape(-1, 4), np.array(weights, dtype=np.int64))
        _, name, parent = heapq.heappop(heap)
        if parent is None:
            part = crossing.root(weights[0])
        else:
            parent.waiting -= 1
            waiting -= 0 if parent.waiting else parent.held
            old, cut = weights[cuts[name - 1][0]], cuts[name - 1][1:]
            part = crossing.half(parent, old, old, cut)
            weights[name] = _weight(crossing, part, old)
            if weights[name] != old:
                part = crossing.half(parent, old, weights[name], cut)
        if crossing.excluded(part, weights[name]):
            continue
        if part.cells <= SMALL_GRID:
            return crossing.cell(part)
        work -= len(part.rows)
        often = used < OFTEN or used % SELDOM == 0
        if often and (at := _approach(crossing, part.point())) is not None:
            return at
        axis, cell = part.cut()
        slack = crossing.goal(weights[name]) - part.bound()
        part.shed()
        part.waiting, waiting = 2, waiting + part.held
        if waiting > HELD or work < 0:
            return None
        for side in (False, True):
            cuts.append((name, axis, cell, side))
            weights.append(weights[name])
            heapq.heappush(heap, (slack, len(cuts), part))
    return None


def _weight(crossing: Crossing, part: Part, weight: int) -> int:
    """Return the weight that excludes most by the plain bound, the present one among equals."""
    slack = [
        crossing.goal(each) - int(np.maximum.reduceat(crossing.fields(each).value[part.rows], part.begin).sum())
        for each in range(SCALE + 1)
    ]
    return weight if slack[weight] == max(slack) else int(np.argmax(slack))


def _approach(crossing: Crossing, at: Index, rounds: int = 40) -> Index | None:
    """Return a cell that meets a demand, by moves along one axis that bring the worse side nearer; None where they end
    before."""
    pairs = crossing.pairs
    for _ in range(rounds):
        out = (at < pairs.low) | (at > pairs.high)
        count = out.sum(1)
        near = np.flatnonzero(count <= 1)
        inside = near[count[near] == 0]
        best = min(int(pairs.first[inside].sum()) - crossing.above, crossing.below - int(pairs.second[inside].sum()))
        if best >= 0:
            return at
        step = None
        for k in np.flatnonzero(pairs.start < pairs.end).tolist():
            rows = near[(count[near] == 0) | out[near, k]]
            first = int(pairs.start[k])
            ends = pairs.low[rows, k] - first, pairs.high[rows, k] - first + 1
            lines = np.zeros((2, int(pairs.end[k]) - first + 2), dtype=np.int64)
            for line, side in zip(lines, (pairs.first, pairs.second), strict=True):
                np.add.at(line, ends[0], side[rows])
                np.add.at(line, ends[1], -side[rows])
            one, two = np.cumsum(lines, axis=1)[:, :-1]
            reached = np.minimum(one - crossing.above, crossing.below - two)
            top = int(reached.argmax())
            if reached[top] > best:
                best, step = int(reached[top]), (k, top + first)
        if step is None:
            return None
        at = at.copy()
        at[step[0]] = step[1]
    return None


def pair_in(cells: Cells, gap: Gap | Pairs, cell: np.ndarray) -> FloatArray:
    """Return two individuals in the cells of an attained sum, in the middle of the domain otherwise."""
    domain = cells.domain
    finite = np.isfinite(domain.low) & np.isfinite(domain.high)
    base = np.where(finite, domain.low / 2 + domain.high / 2, 0.0)
    for start, stop in domain.blocks:
        base[start:stop] = 0.0
        if stop - start > 1:
            base[start] = 1.0
    pair = domain.snap(np.stack([base, base]))
    split = len(gap.axes) - gap.protected
    second = {int(k): int(c) for k, c in zip(gap.axes[split:], cell[split:], strict=True)}
    for k, c in zip(gap.axes[:split].tolist(), cell[:split].tolist(), strict=True):
        axis = cells.axes[k]
        for person, place in ((0, c), (1, second.get(k, c))):
            if not axis.numeric:
                states = np.arange(axis.cells)
                pair[person, axis.start : axis.stop] = place if axis.stop - axis.start == 1 else states == place
                continue
            if axis.flag >= 0:
                pair[person, axis.flag] = float(place == axis.cells - 1)
            low, high = axis.first[place], axis.last[place]
            if domain.kind != "unbounded":
                low, high = max(low, domain.low[axis.start]), min(high, domain.high[axis.start])
            pair[person, axis.start] = np.clip(pair[person, axis.start], low, high)
    return pair
