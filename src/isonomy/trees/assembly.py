"""Put trees together into a :class:`Forest`, and refuse what is none: every reader gives its trees here.

**Safety.** Children out of range, nodes with two parents, circles, NaN thresholds, endless leaves and absurd sizes are
refused with the number of the tree and of the node, before anything is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import NetworkError, ParameterError, template
from isonomy.trees.forest import CATEGORY, NUMBER, Column, Forest

TREES = 2**17
NODES = 2**25
"""Of all trees together."""
DEPTH = 2**10
OUTPUTS = 2**12
CATEGORIES = 2**16
"""Of one column."""
MASK_CELLS = 2**28
"""Sets of categories times the most categories of a column."""

Rounds = Literal["all", "best"] | int | None
"""Which boosting rounds count: all in the file, up to the best one, the first few; None: whichever, if they agree."""


@dataclass
class Tree:
    """One tree as its file has it: arrays by node, children by number within the tree (-1 at leaves), values at leaves.

    ``sets`` gives to the number of a node the positions of the categories that go left; ``leaf`` is the library's
    number of a leaf, that of the node where it is left out. The root is node 0.
    """

    feature: Any
    threshold: Any
    left: Any
    right: Any
    value: Any
    missing_left: Any
    kind: Any = NUMBER
    unseen_left: Any = False
    leaf: Any = None
    output: int = -1
    sets: dict[int, Any] = field(default_factory=dict)


def rounds_used(choice: Rounds, stored: int, best: int | None) -> int:
    """Return how many boosting rounds count; ``best`` is their number up to the best one, where the model has it."""
    if choice not in ("all", "best", None) and (isinstance(choice, bool) or not isinstance(choice, int)):
        raise ParameterError(template("trees", "'all', 'best' or a number of boosting rounds", choice))
    if choice is None:
        if best is not None and best != stored:
            raise NetworkError(
                f"training stopped early: the model holds {stored} rounds, and the best one is round {best}, up to "
                "which the library's predict may count; say trees='all' or trees='best', as it is deployed."
            )
        return stored
    if choice == "best" and best is None:
        raise NetworkError("trees='best' cannot be: the model does not say which round was best; say a number.")
    used = stored if choice == "all" else best if choice == "best" else int(choice)
    if used is None or not 1 <= used <= stored:
        raise NetworkError(f"'trees' must be from 1 to {stored}, the rounds that the model holds. Got {used}.")
    return used


def assemble(trees: Sequence[Tree], columns: Sequence[Column], **about: Any) -> Forest:
    """Return the forest of trees over columns; ``about`` are the other fields of :class:`Forest`."""
    if not 1 <= len(trees) <= TREES:
        raise NetworkError(f"it has {len(trees):,} trees; from 1 to {TREES:,} can be read.")
    sizes = [len(tree.left) for tree in trees]
    if sum(sizes) > NODES:
        raise NetworkError(f"its trees have more than {NODES:,} nodes.")
    widest = max((len(each.categories) for each in columns), default=0)
    sets = sum(len(tree.sets) for tree in trees)
    if widest > CATEGORIES or sets * widest > MASK_CELLS:
        raise NetworkError(f"a column has {widest:,} categories in {sets:,} tests, more than can be read.")
    masks = np.zeros((max(1, sets), max(1, widest)), dtype=np.bool_)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    parts: dict[str, list[Any]] = {name: [] for name in _FIELDS}
    row = 0
    for number, (tree, start) in enumerate(zip(trees, starts, strict=True)):
        arrays = _checked(tree, number, columns)
        arrays["subset"] = np.full(len(arrays["left"]), -1, dtype=np.int32)
        for node, members in tree.sets.items():
            arrays["subset"][node] = row
            masks[row, np.asarray(members, dtype=np.int64)] = True
            row += 1
        for side in ("left", "right"):
            arrays[side] = np.where(arrays[side] >= 0, arrays[side] + start, -1).astype(np.int32)
        for name in _FIELDS:
            parts[name].append(arrays[name])
    joined: dict[str, Any] = {name: np.concatenate(each) for name, each in parts.items()}
    output = np.array([tree.output for tree in trees], dtype=np.int32)
    outputs, width = len(about["base"]), joined["value"].shape[1]
    wrong = (output != -1) | (width != outputs) if width > 1 else (output < 0) | (output >= outputs)
    if wrong.any():
        raise NetworkError(f"tree {int(np.argmax(wrong))}: it adds to an output that is none of the {outputs}.")
    return Forest(tuple(columns), masks=masks, root=starts.astype(np.int32), output=output, **joined, **about)


_FIELDS = ("feature", "kind", "threshold", "subset", "missing_left", "unseen_left", "left", "right", "leaf", "value")


def _checked(tree: Tree, number: int, columns: Sequence[Column]) -> dict[str, NDArray[Any]]:
    """Return the arrays of one tree in their types, after all that can be wrong with them."""
    left, right = (np.asarray(each, dtype=np.int64).reshape(-1) for each in (tree.left, tree.right))
    size = len(left)
    _require(size > 0, number, 0, "the tree has no node")
    inside = _reached(left, right, number)
    feature = np.where(left >= 0, np.broadcast_to(np.asarray(tree.feature, dtype=np.int64), (size,)), -1)
    threshold = np.where(left >= 0, np.broadcast_to(np.asarray(tree.threshold, dtype=np.float64), (size,)), 0.0)
    kind = np.broadcast_to(np.asarray(tree.kind), (size,)).astype(np.int8)
    value = np.asarray(tree.value, dtype=np.float64).reshape(size, -1)
    split = inside & (left >= 0)
    wrong = split & ((feature < 0) | (feature >= len(columns)))
    _refuse_where(wrong, number, f"it tests a column that is none of the {len(columns)}")
    _refuse_where(split & np.isnan(threshold), number, "its threshold is not a number")
    _refuse_where(inside & (left < 0) & ~np.isfinite(value).all(axis=1), number, "its value is not a finite number")
    category = np.array([each.coding != "number" for each in columns], dtype=np.bool_)
    mixed = split & (category[np.where(split, feature, 0)] != (kind == CATEGORY))
    _refuse_where(mixed, number, "it compares a category with a number, or looks a number up among categories")
    chosen = np.zeros(size, dtype=np.bool_)
    for node, members in tree.sets.items():
        _require(0 <= node < size, number, node, "a set of categories belongs to a node that is not there")
        known = len(columns[int(feature[node])].categories) if split[node] else CATEGORIES
        places = np.asarray(members, dtype=np.int64)
        _require(not ((places < 0) | (places >= known)).any(), number, node, "a category is none of the column's")
        chosen[node] = True
    _refuse_where(split & (kind == CATEGORY) & ~chosen, number, "it has no set of categories")
    leaf = np.arange(size) if tree.leaf is None else np.asarray(tree.leaf)
    flags = {
        name: np.broadcast_to(np.asarray(getattr(tree, name), dtype=np.bool_), (size,))
        for name in ("missing_left", "unseen_left")
    }
    return {
        "feature": feature.astype(np.int32),
        "kind": np.where(split, kind, NUMBER).astype(np.int8),
        "threshold": threshold,
        "left": left,
        "right": right,
        "leaf": np.where(left < 0, leaf, -1).astype(np.int32),
        "value": np.where((inside & (left < 0))[:, None], value, 0.0),
        **flags,
    }


def _reached(left: NDArray[np.int64], right: NDArray[np.int64], tree: int) -> NDArray[np.bool_]:
    """Return which nodes the root leads to; refuse what is no tree. Nodes that were pruned may lie about."""
    size = len(left)
    _refuse_where((left >= size) | (right >= size), tree, f"a child lies beyond the {size} nodes")
    _refuse_where((left < 0) != (right < 0), tree, "it has one child")
    seen = np.zeros(size, dtype=np.bool_)
    level = np.zeros(1, dtype=np.int64)
    seen[0] = True
    depth = 0
    while len(level := level[left[level] >= 0]):
        level = np.concatenate([left[level], right[level]])
        depth += 1
        again = seen[level]
        _require(not again.any(), tree, int(level[np.argmax(again)]), "two nodes lead to it")
        seen[level] = True
        _require(depth <= DEPTH, tree, int(level[0]), f"it is more than {DEPTH} tests deep")
        unique, count = np.unique(level, return_counts=True)
        _require(len(unique) == len(level), tree, int(unique[np.argmax(count)]), "two nodes lead to it")
    return seen


def _refuse_where(wrong: NDArray[np.bool_], tree: int, sentence: str) -> None:
    if wrong.any():
        _require(False, tree, int(np.argmax(wrong)), sentence)


def _require(condition: bool, tree: int, node: int, sentence: str) -> None:
    if not condition:
        raise NetworkError(f"tree {tree}, node {node}: {sentence}.")
