"""Tests whether a number lies in one bin, as tests of the number of its bin, so that pipelines can be folded.

A discretizer with one column for each bin gives trees tests such as "in the third bin", which no single threshold can
say. In the place of one stand two, and what the tests above have excluded is left out.

**Soundness.** The function of the trees stays the same: every row reaches a copy of the leaf that it reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.trees.assembly import Tree, assemble
from isonomy.trees.forest import CATEGORY, NUMBER, NUMBER_NOT_ZERO, Column, Forest
from isonomy.trees.source import Source

GROWTH = 32
"""How many times more nodes the trees may have than before."""


@dataclass(frozen=True)
class Test:
    """A column of one bin: the column that holds the number of the bin, and what it is outside and inside."""

    column: int
    place: int
    sides: tuple[float, float]
    last: int


def on_bins(forest: Forest, sources: Sequence[Source]) -> tuple[Forest, list[Source]]:
    """Return the forest over numbers of bins in the place of columns of single bins, and its sources."""
    groups: dict[Any, list[int]] = {}
    for j, source in enumerate(sources):
        if source.place is not None:
            groups.setdefault((source.raw, source.steps), []).append(j)
    kept = [j for j, source in enumerate(sources) if source.place is None]
    made, columns = [sources[j] for j in kept], [forest.columns[j] for j in kept]
    tests: dict[int, Test] = {}
    for own in groups.values():
        first, last = sources[own[0]], int(sources[own[0]].levels[-1])
        held = _held([sources[j] for j in own], last)
        tests |= {j: Test(len(made), int(sources[j].place or 0), sources[j].sides, last) for j in own}
        made.append(replace(first, place=None, sides=(0.0, 1.0), gap=held, levels=(), sparse=False))
        columns.append(Column(forest.columns[own[0]].name, missing=held is not None))
    moved = {j: i for i, j in enumerate(kept)}
    trees = [_rebuilt(forest, t, moved, tests) for t in range(len(forest.root))]
    if sum(len(tree.left) for tree in trees) > max(GROWTH * len(forest.feature), 2**16):
        raise NetworkError("its tests of single bins need more nodes than can be read; use encode='ordinal'.")
    about = {each.name: getattr(forest, each.name) for each in fields(Forest) if each.name not in _ARRAYS}
    return assemble(trees, columns, **about), made


_ARRAYS = {
    *("columns", "feature", "kind", "threshold", "subset", "masks", "missing_left", "unseen_left", "left", "right"),
    *("leaf", "value", "root", "output"),
}


def _held(own: Sequence[Source], last: int) -> float | None:
    """Return the bin of a missing cell, or one of its bins that no column tells apart; None where it is refused."""
    if own[0].gap is None:
        return None
    known = {int(each.place or 0): each.gap == each.sides[1] for each in own if each.sides[0] != each.sides[1]}
    bins = [place for place, inside in known.items() if inside] or sorted({*range(last + 1)} - known.keys())
    return float(bins[0])


def _rebuilt(forest: Forest, number: int, moved: Mapping[int, int], tests: Mapping[int, Test]) -> Tree:
    """Return one tree, its tests of single bins put as tests of the bin's number."""
    kept: list[tuple[int, int, float]] = []  # the node that it was, the column, the threshold of a test of bins
    left, right = list[int](), list[int]()
    limit = GROWTH * max(2**10, len(forest.feature))
    waiting: list[tuple[int, dict[int, tuple[int, int]], int, bool]] = [(int(forest.root[number]), {}, -1, False)]
    while waiting:
        node, known, parent, is_left = waiting.pop()
        test = tests.get(int(forest.feature[node]))
        while test is not None and (child := _settled(forest, node, test, known)) is not None:
            node, test = child, tests.get(int(forest.feature[child]))
        if parent >= 0:
            (left if is_left else right)[parent] = len(kept)
        place = len(kept)
        if place > limit:
            raise NetworkError("its tests of single bins need more nodes than can be read; use encode='ordinal'.")
        left.append(-1)
        right.append(-1)
        if test is None:
            kept.append((node, moved.get(int(forest.feature[node]), -1), np.nan))
            if forest.left[node] >= 0:
                waiting += [
                    (int(forest.right[node]), known, place, False),
                    (int(forest.left[node]), known, place, True),
                ]
            continue
        low, high = known.get(test.column, (0, test.last))
        others, inside = _children(forest, node, test)
        below = low < test.place
        kept.append((node, test.column, test.place - 0.5 if below else test.place + 0.5))
        if below:  # what is not below comes here again, and is in the bin or above it
            waiting.append((node, known | {test.column: (test.place, high)}, place, False))
            waiting.append((others, known | {test.column: (low, test.place - 1)}, place, True))
        else:
            waiting.append((others, known | {test.column: (test.place + 1, high)}, place, False))
            waiting.append((inside, known | {test.column: (test.place, test.place)}, place, True))
    old, column, end = (np.array(part) for part in zip(*kept, strict=True))
    old, binned = old.astype(np.int64), ~np.isnan(end)
    split = np.array(left) >= 0
    sets = {
        int(i): np.flatnonzero(forest.masks[forest.subset[old[i]]])
        for i in np.flatnonzero(split & ~binned & (forest.kind[old] == CATEGORY))
    }
    return Tree(
        feature=np.where(split, column, -1).astype(np.int64),
        threshold=np.where(binned, end, forest.threshold[old]),
        left=np.array(left),
        right=np.array(right),
        value=forest.value[old],
        missing_left=forest.missing_left[old] & ~binned,
        kind=np.where(binned, NUMBER, forest.kind[old]),
        unseen_left=forest.unseen_left[old] & ~binned,
        leaf=forest.leaf[old],
        output=int(forest.output[number]),
        sets=sets,
    )


def _children(forest: Forest, node: int, test: Test) -> tuple[int, int]:
    """Return where numbers outside and inside of the bin go."""
    if forest.kind[node] == CATEGORY:
        raise UnsupportedOperationError(
            "columns of single bins that are categories are not read; pass them as numbers."
        )
    if forest.kind[node] == NUMBER_NOT_ZERO:
        raise UnsupportedOperationError("bins of which zero counts as missing are not read; use encode='ordinal'.")
    off, on = (side <= forest.threshold[node] for side in test.sides)
    return tuple(int(forest.left[node] if side else forest.right[node]) for side in (off, on))  # type: ignore[return-value]


def _settled(forest: Forest, node: int, test: Test, known: Mapping[int, tuple[int, int]]) -> int | None:
    """Return the child to which everybody goes who comes here, if there is one."""
    others, inside = _children(forest, node, test)
    low, high = known.get(test.column, (0, test.last))
    if others == inside or not low <= test.place <= high:
        return others
    return inside if low == high else None
