"""The average of a tree ensemble over what some features can be, as an ensemble that tests none of these any more.

Of each tree there is one copy for every way in which people go at its tests of these features: the tests are taken
out, and leaves count by the share of people who go that way. So the sums are ``mean_c F(x, c)``, whatever the features
of ``x`` itself are.

**Soundness.** No node that is left tests one of these features, so two people who differ in nothing else reach the
same leaves. What is written to a file of the library is an ensemble of its own, whose leaves are rounded as the library
stores them: it is read and judged as such.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.files import atomic
from isonomy.given import choice
from isonomy.population import Population
from isonomy.trees.assembly import Tree, assemble
from isonomy.trees.coordinates import IntArray, Sides, sides_of
from isonomy.trees.forest import CATEGORY, Coding, Column, Forest, Link, Unseen
from isonomy.trees.model import TreeModel

WAYS = 256
"""The most different people over whom is averaged; of more, so many are drawn by their weights."""

FORMAT = 1

_ABOUT: dict[str, Any] = {
    "link_scale": 1.0, "divisor": 1.0, "library": "", "version": "", "rounds_used": 0, "rounds_stored": 0, "unit": 1.0,
    "base_error": 0.0,
}  # fmt: skip
_POSITIVE = ("link_scale", "divisor", "unit")
_ARRAYS = ("feature", "kind", "threshold", "missing_left", "unseen_left", "left", "right", "value")


class Piece(NamedTuple):
    """A copy of a tree without some tests: its number, the share it counts with, the nodes that are left, by their
    place in the tree, and their children among these; −1 at leaves."""

    tree: int
    share: float
    nodes: IntArray
    left: IntArray
    right: IntArray


def averaged(model: TreeModel, people: Population, features: Collection[str]) -> tuple[Forest, list[Piece]]:
    """Return the average of a model over the values that ``people`` have in some ``features``, and its pieces."""
    forest = model.forest
    if forest is None:
        raise NetworkError(f"'{model.name}' comes from a record, without its raw columns: open its own file.")
    own = [j for name in features for j in range(*people.schema.slices[name].indices(people.schema.width))]
    _, first, inverse = np.unique(people.x[:, own], axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(inverse.reshape(-1), people.weights) / people.weights.sum()
    if len(first) > WAYS:
        drawn = np.random.default_rng(0).choice(len(first), WAYS, p=weights)
        first, weights = first[drawn], np.full(WAYS, 1 / WAYS)
    nodes, sides = sides_of(forest, people.schema, model.reads, features, people.x[first], people.frame.iloc[first])
    pieces = _pieces(forest, nodes, sides, weights)
    at = np.concatenate([forest.root[piece.tree] + piece.nodes for piece in pieces])
    sizes = [len(piece.nodes) for piece in pieces]
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    offset, share = np.repeat(start, sizes), np.repeat([piece.share for piece in pieces], sizes)
    left, right = (np.concatenate([getattr(piece, side) for piece in pieces]) for side in ("left", "right"))
    made = replace(
        forest, root=start.astype(np.int32), output=forest.output[[piece.tree for piece in pieces]],
        left=np.where(left < 0, -1, left + offset).astype(np.int32),
        right=np.where(left < 0, -1, right + offset).astype(np.int32),
        leaf=np.where(left < 0, np.arange(len(at)) - offset, -1).astype(np.int32),
        value=forest.value[at] * share[:, None], unit=2.0**-53, base_error=0.0,
        **{name: getattr(forest, name)[at] for name in (*_ARRAYS[:5], "subset")},
        notes=(f"An average over {', '.join(features)}.",),
    )  # fmt: skip
    return made, pieces


def _pieces(forest: Forest, nodes: IntArray, sides: Sides, weights: Any) -> list[Piece]:
    """Return the copies of all trees in which people go one way at some nodes."""
    ends = np.append(forest.root, len(forest.feature))
    pieces: list[Piece] = []
    for tree, (start, stop) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        own = np.flatnonzero((nodes >= start) & (nodes < stop))
        ways, inverse = np.unique(sides[:, own], axis=0, return_inverse=True)
        shares = np.bincount(inverse.reshape(-1), weights) if len(own) else np.ones(1)
        left, right = (side[start:stop].tolist() for side in (forest.left - start, forest.right - start))
        by_nodes: dict[tuple[int, ...], Piece] = {}
        for way, share in zip(ways, shares.tolist(), strict=True):
            piece = _without(
                tree, share, left, right, dict(zip((nodes[own] - start).tolist(), way.tolist(), strict=True))
            )
            known = by_nodes.get(key := tuple(piece.nodes.tolist()))
            by_nodes[key] = piece if known is None else known._replace(share=known.share + share)
        pieces += by_nodes.values()
    return pieces


def _without(tree: int, share: float, left: list[int], right: list[int], goes: Mapping[int, bool]) -> Piece:
    """Return a tree in which the way at some nodes is fixed; the right child of a node comes next to its left one,
    which XGBoost takes for granted."""

    def reached(node: int) -> int:
        while node in goes:
            node = left[node] if goes[node] else right[node]
        return node

    order, first = [reached(0)], list[int]()
    for node in order:  # which grows
        first.append(len(order) if left[node] >= 0 else -1)
        order += [reached(left[node]), reached(right[node])] if left[node] >= 0 else []
    children = np.array(first)
    return Piece(tree, share, np.array(order), children, np.where(children < 0, -1, children + 1))


# -- files of our own


def write_forest(forest: Forest, path: Path) -> None:
    """Write an ensemble as JSON, every number to its last digit; :func:`isonomy.load_model` reads it."""
    ends, trees = np.append(forest.root, len(forest.feature)).tolist(), []
    for number, (start, stop) in enumerate(pairwise(ends)):
        part: dict[str, Any] = {name: getattr(forest, name)[start:stop].tolist() for name in _ARRAYS}
        for side in ("left", "right"):
            part[side] = [child - start if child >= 0 else -1 for child in part[side]]
        chosen = (np.flatnonzero(forest.kind[start:stop] == CATEGORY)).tolist()
        part["sets"] = {node: np.flatnonzero(forest.masks[forest.subset[start + node]]).tolist() for node in chosen}
        trees.append(part | {"output": int(forest.output[number])})
    content = {"forest": FORMAT, "columns": [asdict(each) for each in forest.columns]}
    content |= {name: getattr(forest, name) for name in ("link", *_ABOUT)}
    content |= {"classes": list(forest.classes), "notes": list(forest.notes), "base": forest.base.tolist()}
    with atomic(path) as partial:
        partial.write_text(json.dumps(content | {"trees": trees}), encoding="utf-8")


def read_forest(content: Mapping[str, Any]) -> Forest:
    """Return the ensemble of a parsed file of :func:`write_forest`."""
    if content["forest"] != FORMAT:
        raise NetworkError(f"its format is {content['forest']!r}; {FORMAT} can be read.")
    columns = [
        Column(str(each["name"]), tuple(each["categories"]), each["coding"], each["unseen"], bool(each["missing"]))
        for each in content["columns"]
    ]
    for each in columns:
        choice("coding", each.coding, Coding)
        choice("unseen", each.unseen, Unseen)
    choice("link", content["link"], Link)
    trees = [
        Tree(
            **{name: part[name] for name in _ARRAYS}, output=int(part["output"]),
            sets={int(node): members for node, members in part["sets"].items()},
        )
        for part in content["trees"]
    ]  # fmt: skip
    about = {name: type(default)(content[name]) for name, default in _ABOUT.items()}
    base = np.asarray(content["base"], dtype=np.float64)
    if base.ndim != 1 or not np.isfinite([*base, *(about[name] for name in _POSITIVE)]).all():
        raise NetworkError("its base and divisor must be finite numbers.")
    if not all(about[name] > 0 for name in _POSITIVE) or not about["base_error"] >= 0:
        raise NetworkError("its divisor, scale and unit must be positive.")
    lists = {name: tuple(content[name]) for name in ("classes", "notes")}
    return assemble(trees, columns, base=base, link=content["link"], **about, **lists)


# -- files of the original library


def write_original(content: Any, pieces: Sequence[Piece], path: Path) -> None:
    """Write the average as a file of the library whose model ``content`` is: XGBoost's parsed JSON, LightGBM's text."""
    if isinstance(content, str):
        text = _lightgbm(content, pieces)
    elif isinstance(content, Mapping) and "learner" in content:
        text = json.dumps(_xgboost(content, pieces))
    else:
        raise UnsupportedOperationError("an average is written for XGBoost and LightGBM; save() writes any as our own.")
    with atomic(path) as partial:
        partial.write_text(text, encoding="utf-8")


_BY_NODE = (
    "base_weights",
    "default_left",
    "loss_changes",
    "split_conditions",
    "split_indices",
    "split_type",
    "sum_hessian",
)


def _xgboost(content: Mapping[str, Any], pieces: Sequence[Piece]) -> Any:
    """Return XGBoost's document with pieces in the place of its trees."""
    new = copy.deepcopy(content)
    learner = new["learner"]
    model = learner["gradient_booster"]["model"]
    trees, info = [], []
    for number, piece in enumerate(pieces):
        old, size = model["trees"][piece.tree], len(piece.nodes)
        tree: dict[str, Any] = {name: [old[name][i] for i in piece.nodes.tolist()] for name in _BY_NODE if name in old}
        tree |= {"left_children": piece.left.tolist(), "right_children": piece.right.tolist(), "id": number}
        parents = np.full(size, 2**31 - 1)
        inner = np.flatnonzero(piece.left >= 0)
        parents[piece.left[inner]] = parents[piece.right[inner]] = inner
        tree["parents"] = parents.tolist()
        for i in np.flatnonzero(piece.left < 0).tolist():
            tree["split_conditions"][i] = float(np.float32(tree["split_conditions"][i] * piece.share))
            tree["base_weights"][i] = tree["split_conditions"][i]
        sets = zip(*(old[f"categories_{name}"] for name in ("nodes", "segments", "sizes")), strict=True)
        place = {int(node): i for i, node in enumerate(piece.nodes)}
        kept = [(place[node], old["categories"][at : at + size]) for node, at, size in sets if node in place]
        kept.sort(key=lambda each: each[0])
        sizes = [len(each) for _, each in kept]
        tree["categories"] = [code for _, each in kept for code in each]
        tree["categories_nodes"], tree["categories_sizes"] = [node for node, _ in kept], sizes
        tree["categories_segments"] = np.cumsum([0, *sizes])[:-1].tolist()
        tree["tree_param"] = old["tree_param"] | {"num_nodes": str(size), "num_deleted": "0"}
        trees.append(tree)
        info.append(model["tree_info"][piece.tree])
    if "iteration_indptr" in model:
        rounds = np.searchsorted(model["iteration_indptr"], [piece.tree for piece in pieces], side="right")
        model["iteration_indptr"] = np.cumsum([0, *np.bincount(rounds)[1:]]).tolist()
    model["trees"], model["tree_info"] = trees, info
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    for name in ("best_iteration", "best_score"):
        learner.get("attributes", {}).pop(name, None)
    return new


def _lightgbm(text: str, pieces: Sequence[Piece]) -> str:
    """Return LightGBM's text with pieces in the place of its trees; rounds are filled up with trees of one leaf, 0."""
    head, *blocks = re.split(r"^Tree=\d+\n", text, flags=re.MULTILINE)
    blocks[-1], end = blocks[-1].split("end of trees")
    outputs = int(re.search(r"^num_tree_per_iteration=(\d+)$", head, flags=re.MULTILINE)[1])  # type: ignore[index]
    by_output = [[piece for piece in pieces if piece.tree % outputs == k] for k in range(outputs)]
    rounds = list(zip_longest(*by_output))
    stored = max(piece.tree for piece in pieces) // outputs + 1
    factor = len(rounds) / stored if "average_output" in head.split() else 1.0
    trees = [_block(blocks[0 if piece is None else piece.tree], piece, factor) for each in rounds for piece in each]
    head = re.sub(r"^tree_sizes=.*\n", "", head, flags=re.MULTILINE)
    body = "".join(f"Tree={i}\n{tree}\n\n" for i, tree in enumerate(trees))
    return f"{head}{body}end of trees{end}"


_BY_SPLIT = (
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "internal_value",
    "internal_weight",
    "internal_count",
)
_BY_LEAF = ("leaf_weight", "leaf_count")


def _block(block: str, piece: Piece | None, factor: float) -> str:
    """Return the lines of one tree; without a piece those of a tree that adds nothing."""
    lines = {key: value.split() for key, sign, value in (line.partition("=") for line in block.splitlines()) if sign}
    about: dict[str, list[str]] = {str(key): lines[key] for key in ("is_linear", "shrinkage") if key in lines}
    if piece is None:
        return _joined({"num_leaves": ["1"], "num_cat": ["0"], "leaf_value": ["0"]} | about)
    splits = int(lines["num_leaves"][0]) - 1
    inner, leaves = np.flatnonzero(piece.left >= 0), np.flatnonzero(piece.left < 0)
    nodes, ends = piece.nodes[inner].tolist(), (piece.nodes[leaves] - splits).tolist()
    value = [repr(float(lines["leaf_value"][i]) * piece.share * factor) for i in ends]
    made = {"num_leaves": [str(len(leaves))], "num_cat": lines["num_cat"]}
    if len(inner):
        number = np.empty(len(piece.nodes), dtype=np.int64)
        number[inner], number[leaves] = np.arange(len(inner)), -1 - np.arange(len(leaves))
        made |= {name: [lines[name][i] for i in nodes] for name in _BY_SPLIT if name in lines}
        made |= {f"{side}_child": list(map(str, number[getattr(piece, side)[inner]])) for side in ("left", "right")}
        made |= {name: lines[name] for name in ("cat_boundaries", "cat_threshold") if name in lines}
        made |= {name: [lines[name][i] for i in ends] for name in _BY_LEAF if lines.get(name)}
    else:
        made["num_cat"] = ["0"]
    return _joined(made | {"leaf_value": value} | about)


def _joined(lines: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(f"{key}={' '.join(value)}" for key, value in lines.items())
