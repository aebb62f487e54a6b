"""Find how far protected features can move a margin of trees, anywhere in the domain, with a hint for the kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy.population.domain import FloatArray
from isonomy_verify.tree_cells import Cells
from isonomy_verify.tree_global import SMALL_GRID, SWEEPS, Gap, Hint, bound, gap_of
from isonomy_verify.tree_search import everything, largest

ROOT = 60
"""Steps of diffusion over the whole domain."""

PARTS = 2000
"""Boxes into which the domain may be cut."""


class TreeGap(NamedTuple):
    """The result of a search: the pieces, whole numbers that are attained and proved, the number of boxes, the hint,
    and two individuals (2, m), equal but for protected features, who attain ``lower``; None where nothing differs."""

    gap: Gap
    lower: int
    upper: int
    parts: int
    hint: Hint
    pair: FloatArray | None


def find_gap(cells: Cells, protected: list[int], margin: int = 0, parts: int = PARTS) -> TreeGap:
    """Return the largest difference of a margin between values of the ``protected`` axes, and a hint that proves it.

    ``upper`` is what the kernel's search proves where it ends, else the tighter bound that the kernel derives from the
    hint, in which boxes that were left are worked on.
    """
    gap = gap_of(cells, protected, margin)
    nothing = np.zeros((0, 4), dtype=np.int64)
    if not len(gap.fields.value):
        return TreeGap(gap, 0, 0, 0, Hint(nothing, {}, (0, 0)), None)
    result = largest(gap.fields, gap.low, gap.high, everything, SMALL_GRID, parts, (ROOT, SWEEPS))
    cuts = np.array(result.cuts, dtype=np.int64).reshape(-1, 4)
    hint = Hint(cuts, result.root.known, (result.aim, result.lower))
    upper = result.upper if result.upper == result.lower else bound(gap, hint)
    return TreeGap(gap, result.lower, upper, result.parts, hint, _pair(cells, gap, result.first))


def _pair(cells: Cells, gap: Gap, cell: np.ndarray) -> FloatArray:
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
